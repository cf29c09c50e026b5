//! What a simulated cluster is made of.

/// Bytes in a nanosecond, which is gigabytes in a second.
pub type Rate = f64;

/// A server.
#[derive(Clone, Debug, PartialEq)]
pub struct Server {
    /// The host it runs on.
    pub host: u32,
    /// What each request costs before the first byte; the slot is taken meanwhile.
    pub latency_ns: u64,
    /// How fast one transfer is, if the network allows.
    pub rate: Rate,
    /// Transfers at once.
    pub slots: u32,
    /// By which factor the rate is lower or higher, and from when on; in order of time. 1 before the first.
    pub speeds: Vec<(u64, f64)>,
    /// When it is down, from and until; in order of time, and apart.
    pub outages: Vec<(u64, u64)>,
}

impl Server {
    /// The factor on the rate at some time.
    pub fn factor(&self, now_ns: u64) -> f64 {
        let n_past = self.speeds.partition_point(|&(from_ns, _)| from_ns <= now_ns);
        n_past.checked_sub(1).map_or(1.0, |last| self.speeds[last].1)
    }

    /// When a transfer is done that starts to move its bytes now and is not disturbed; the end of all times if never.
    pub fn done_ns(&self, now_ns: u64, bytes: u64) -> u64 {
        let mut left = bytes as f64;
        let mut from_ns = now_ns;
        let n_past = self.speeds.partition_point(|&(from_ns, _)| from_ns <= now_ns);
        let mut rate = self.rate * self.factor(now_ns);
        for &(until_ns, factor) in &self.speeds[n_past..] {
            let moved = (until_ns - from_ns) as f64 * rate;
            if moved >= left {
                break;
            }
            left -= moved;
            (from_ns, rate) = (until_ns, self.rate * factor);
        }
        from_ns.saturating_add(span_ns(left, rate))
    }
}

/// How long some bytes take, rounded up; as long as can be if they never get there.
pub fn span_ns(bytes: f64, rate: Rate) -> u64 {
    let ns = bytes / rate;
    // Not a number: nothing at no rate. Beyond 64 bits the cast saturates.
    if bytes <= 0.0 {
        0
    } else if ns.is_nan() {
        u64::MAX
    } else {
        ceil_ns(ns)
    }
}

fn ceil_ns(ns: f64) -> u64 {
    let down = ns as u64;
    // What is above by rounding alone is not one more nanosecond.
    if ns - down as f64 > 1e-6 { down.saturating_add(1) } else { down }
}

/// A client: who reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Client {
    /// The host it runs on.
    pub host: u32,
    /// Requests at once.
    pub slots: u32,
}

/// What each host's network card can send and receive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Nic {
    /// What it can send.
    pub up: Rate,
    /// What it can receive.
    pub down: Rate,
}

/// A cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct Hardware {
    /// The servers.
    pub servers: Vec<Server>,
    /// The clients.
    pub clients: Vec<Client>,
    /// How many hosts there are.
    pub n_hosts: u32,
    /// Their network cards; without, the network is never the limit.
    pub nic: Option<Nic>,
    /// How long a message without data takes from host to host.
    pub message_ns: u64,
    /// How long a centre takes for each decision; one after the other. Where clients and servers agree without a centre,
    /// each of them takes that long for every message that it gets.
    pub dispatch_ns: u64,
}
