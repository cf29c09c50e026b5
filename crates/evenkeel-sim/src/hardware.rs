//! The hardware of a simulated cluster.

use evenkeel::draw::Seeded;

use crate::chance::exponential;

/// Bytes per nanosecond, which equals gigabytes per second.
pub type Rate = f64;

/// A server.
#[derive(Clone, Debug, PartialEq)]
pub struct Server {
    /// The host it runs on.
    pub host: u32,
    /// Latency of each request before its first byte. The request occupies its slot meanwhile.
    pub latency_ns: u64,
    /// Rate of one transfer, if the network allows it.
    pub rate: Rate,
    /// Number of transfers at once.
    pub slots: u32,
    /// Factors on the rate, each with the time from which it applies, in order of time. The factor is 1 before the
    /// first.
    pub speeds: Vec<(u64, f64)>,
    /// Recurring slow spells, on top of `speeds`.
    pub stalls: Vec<Stalls>,
    /// Outages as (start, end), in order of time. They neither overlap nor touch.
    pub outages: Vec<(u64, u64)>,
    /// Whether the server leaves the cluster for each outage and joins again afterwards.
    pub leaves: bool,
}

impl Default for Server {
    /// A server on host 0 that moves one byte per nanosecond, one transfer at a time, and is never slow or down.
    fn default() -> Self {
        let (speeds, stalls, outages) = (Vec::new(), Vec::new(), Vec::new());
        Self { host: 0, latency_ns: 0, rate: 1.0, slots: 1, speeds, stalls, outages, leaves: false }
    }
}

impl Server {
    /// Duration of a request of `bytes` bytes if nothing happens to the server.
    pub fn usual_ns(&self, bytes: u64) -> u64 {
        self.latency_ns.saturating_add(span_ns(bytes as f64, self.rate))
    }
}

/// Recurring slow spells of a fixed length, with random pauses between them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stalls {
    /// Factor on the rate during a spell.
    pub factor: f64,
    /// When the first pause begins.
    pub from_ns: u64,
    /// No spell lasts beyond this time.
    pub until_ns: u64,
    /// Mean pause. Pauses are exponentially distributed.
    pub every_ns: u64,
    /// Length of a spell; above 0.
    pub lasts_ns: u64,
    /// Seed of the pauses.
    pub seed: u64,
}

/// Speed of a server over time, from the current time on. A spell is drawn when its time comes and forgotten when it is
/// over, so there may be any number of them.
#[derive(Clone, Debug)]
pub struct Pace<'a> {
    server: &'a Server,
    /// Number of steps in the server's speeds that are past.
    n_past: usize,
    spells: Vec<Spell>,
}

/// The current or next spell of some stalls.
#[derive(Clone, Debug)]
struct Spell {
    from_ns: u64,
    until_ns: u64,
    draw: Seeded,
}

impl Spell {
    /// Moves on to the next spell.
    fn go_on(&mut self, stalls: &Stalls) {
        let pause_ns = exponential(&mut self.draw) * stalls.every_ns as f64 + 0.5;
        self.from_ns = self.until_ns.saturating_add(pause_ns as u64);
        self.until_ns = self.from_ns.saturating_add(stalls.lasts_ns).min(stalls.until_ns);
        if self.from_ns >= stalls.until_ns {
            (self.from_ns, self.until_ns) = (u64::MAX, u64::MAX);
        }
    }
}

impl<'a> Pace<'a> {
    /// Creates a pace at time 0.
    pub fn new(server: &'a Server) -> Self {
        let spell = |stalls: &Stalls| {
            let draw = Seeded::new(stalls.seed);
            let mut spell = Spell { from_ns: 0, until_ns: stalls.from_ns, draw };
            spell.go_on(stalls);
            spell
        };
        let mut pace = Self { server, n_past: 0, spells: server.stalls.iter().map(spell).collect() };
        pace.advance(0);
        pace
    }

    /// Moves on to a later time.
    pub fn advance(&mut self, now_ns: u64) {
        let speeds = &self.server.speeds;
        while speeds.get(self.n_past).is_some_and(|&(from_ns, _)| from_ns <= now_ns) {
            self.n_past += 1;
        }
        for (spell, stalls) in self.spells.iter_mut().zip(&self.server.stalls) {
            while spell.until_ns <= now_ns && spell.until_ns < u64::MAX {
                spell.go_on(stalls);
            }
        }
    }

    /// Rate of a transfer at `now_ns`, the time this pace has advanced to.
    pub fn rate(&self, now_ns: u64) -> Rate {
        let step = self.n_past.checked_sub(1).map_or(1.0, |last| self.server.speeds[last].1);
        let spells = self.spells.iter().zip(&self.server.stalls);
        let stalled = spells.filter(|(spell, _)| spell.from_ns <= now_ns);
        self.server.rate * stalled.fold(step, |factor, (_, stalls)| factor * stalls.factor)
    }

    /// When the rate changes next; `u64::MAX` if never.
    pub fn changes_ns(&self, now_ns: u64) -> u64 {
        let step_ns = self.server.speeds.get(self.n_past).map_or(u64::MAX, |&(from_ns, _)| from_ns);
        let edge = |spell: &Spell| if spell.from_ns > now_ns { spell.from_ns } else { spell.until_ns };
        self.spells.iter().map(edge).fold(step_ns, u64::min)
    }

    /// When a transfer is done that starts to move its bytes at `from_ns` and is not disturbed; `u64::MAX` if never.
    /// `from_ns` must not be before the time this pace has advanced to.
    pub fn done_ns(&self, from_ns: u64, bytes: u64) -> u64 {
        if self.server.speeds.len() == self.n_past && self.spells.is_empty() {
            return from_ns.saturating_add(span_ns(bytes as f64, self.rate(from_ns)));
        }
        let (mut pace, mut now_ns, mut left) = (self.clone(), from_ns, bytes as f64);
        loop {
            pace.advance(now_ns);
            let (rate, until_ns) = (pace.rate(now_ns), pace.changes_ns(now_ns));
            let moved = (until_ns - now_ns) as f64 * rate;
            if moved >= left || until_ns == u64::MAX {
                return now_ns.saturating_add(span_ns(left, rate));
            }
            left -= moved;
            now_ns = until_ns;
        }
    }
}

impl Pace<'_> {
    /// Bytes that a transfer moves between two times. `from_ns` must not be before the time this pace has advanced to.
    pub fn moved(&self, from_ns: u64, until_ns: u64) -> f64 {
        let (mut pace, mut now_ns, mut moved) = (self.clone(), from_ns, 0.0);
        while now_ns < until_ns {
            pace.advance(now_ns);
            let next_ns = pace.changes_ns(now_ns).min(until_ns);
            moved += (next_ns - now_ns) as f64 * pace.rate(now_ns);
            now_ns = next_ns;
        }
        moved
    }
}

/// Time it takes to move `bytes` at `rate`, rounded up; `u64::MAX` if they never arrive.
pub fn span_ns(bytes: f64, rate: Rate) -> u64 {
    let ns = bytes / rate;
    // No bytes take no time, even at rate 0. Beyond 64 bits the cast saturates.
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
    // An excess due to rounding alone does not count as another nanosecond.
    if ns - down as f64 > 1e-6 { down.saturating_add(1) } else { down }
}

/// A client, which reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Client {
    /// The host it runs on.
    pub host: u32,
    /// Number of requests at once.
    pub slots: u32,
}

/// Capacity of each host's network card.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Nic {
    /// Rate at which it can send.
    pub up: Rate,
    /// Rate at which it can receive.
    pub down: Rate,
}

/// A cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct Hardware {
    /// The servers.
    pub servers: Vec<Server>,
    /// The clients.
    pub clients: Vec<Client>,
    /// Number of hosts.
    pub n_hosts: u32,
    /// Network cards of the hosts. If none, the network is never the limit.
    pub nic: Option<Nic>,
    /// Time a message without data takes from host to host.
    pub message_ns: u64,
    /// Time the centre takes for each decision; it makes one after the other. Where clients and servers agree without a
    /// centre, each of them takes this long for every message it receives.
    pub dispatch_ns: u64,
}
