//! What a simulated cluster is made of.

use evenkeel::draw::Seeded;

use crate::chance::exponential;

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
    /// What makes it slower again and again, beside that.
    pub stalls: Vec<Stalls>,
    /// When it is down, from and until; in order of time, and apart.
    pub outages: Vec<(u64, u64)>,
    /// Whether it leaves the cluster then, and joins it again.
    pub leaves: bool,
}

impl Default for Server {
    /// On host 0, a byte a nanosecond, one transfer at a time, and nothing ever happens to it.
    fn default() -> Self {
        let (speeds, stalls, outages) = (Vec::new(), Vec::new(), Vec::new());
        Self { host: 0, latency_ns: 0, rate: 1.0, slots: 1, speeds, stalls, outages, leaves: false }
    }
}

impl Server {
    /// How long a request of so many bytes takes if nothing happens to the server.
    pub fn usual_ns(&self, bytes: u64) -> u64 {
        self.latency_ns.saturating_add(span_ns(bytes as f64, self.rate))
    }
}

/// Spells of one length that come again and again, after pauses that are drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stalls {
    /// The factor on the rate meanwhile.
    pub factor: f64,
    /// The first pause begins then.
    pub from_ns: u64,
    /// No spell goes on after that.
    pub until_ns: u64,
    /// The mean pause; exponentially distributed.
    pub every_ns: u64,
    /// How long a spell lasts; above 0.
    pub lasts_ns: u64,
    /// The pauses depend on it.
    pub seed: u64,
}

/// How fast a server is, from some time on. Spells are drawn when their time comes and forgotten when it is over, so there
/// may be any number of them.
#[derive(Clone, Debug)]
pub struct Pace<'a> {
    server: &'a Server,
    /// Steps of the server's speeds that are past.
    n_past: usize,
    spells: Vec<Spell>,
}

/// The present or the next spell of some stalls.
#[derive(Clone, Debug)]
struct Spell {
    from_ns: u64,
    until_ns: u64,
    draw: Seeded,
}

impl Spell {
    /// Goes on to the one after.
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
    /// From the beginning.
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

    /// Goes on to a later time.
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

    /// How fast a transfer is at a time that it has gone on to.
    pub fn rate(&self, now_ns: u64) -> Rate {
        let step = self.n_past.checked_sub(1).map_or(1.0, |last| self.server.speeds[last].1);
        let spells = self.spells.iter().zip(&self.server.stalls);
        let stalled = spells.filter(|(spell, _)| spell.from_ns <= now_ns);
        self.server.rate * stalled.fold(step, |factor, (_, stalls)| factor * stalls.factor)
    }

    /// When that changes next; the end of all times if never.
    pub fn changes_ns(&self, now_ns: u64) -> u64 {
        let step_ns = self.server.speeds.get(self.n_past).map_or(u64::MAX, |&(from_ns, _)| from_ns);
        let edge = |spell: &Spell| if spell.from_ns > now_ns { spell.from_ns } else { spell.until_ns };
        self.spells.iter().map(edge).fold(step_ns, u64::min)
    }

    /// When a transfer is done that starts to move its bytes then, not before the time that it has gone on to, and is not
    /// disturbed; the end of all times if never.
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
    /// The bytes that a transfer moves between two times, not before the time that it has gone on to.
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
