//! How many times longer than expected servers take: for a planner that replans repeatedly.
//!
//! A transfer shows it when it is done, and an overdue transfer shows it before. Less than half as long again counts as
//! normal: servers vary that much. Observations fade, since a server that is avoided shows nothing new.
//!
//! This is for a planner that only starts transfers and hears of their ends. The executor, which hears of progress and
//! must say when a server is done, learns paces instead (`pace`).

use super::fade::Slow;
use crate::model::ServerId;

/// Up to this factor a server counts as normal.
const USUAL: f64 = 1.5;

/// What was observed of each server.
#[derive(Clone, Debug)]
pub struct Lateness {
    servers: Vec<Seen>,
}

#[derive(Clone, Debug, Default)]
struct Seen {
    running: Vec<Running>,
    /// The last completed transfer, and its factor.
    last: Slow,
    factor: f64,
}

#[derive(Clone, Copy, Debug)]
struct Running {
    tag: u64,
    from_ns: u64,
    expected_ns: u64,
}

impl Running {
    fn factor(&self, now_ns: u64) -> f64 {
        now_ns.saturating_sub(self.from_ns) as f64 / self.expected_ns.max(1) as f64
    }
}

impl Lateness {
    /// No observations yet, for `n_servers` servers.
    pub fn new(n_servers: usize) -> Self {
        Self { servers: vec![Seen::default(); n_servers] }
    }

    /// Records the start of a transfer that should take `expected_ns`. The tag distinguishes it from others in flight
    /// at its server.
    pub fn started(&mut self, now_ns: u64, server: ServerId, tag: u64, expected_ns: u64) {
        if let Some(seen) = self.servers.get_mut(server.index()) {
            seen.running.push(Running { tag, from_ns: now_ns, expected_ns });
        }
    }

    /// Records that a transfer is done.
    pub fn done(&mut self, now_ns: u64, server: ServerId, tag: u64) {
        if let Some(run) = self.lost(server, tag) {
            let seen = &mut self.servers[server.index()];
            seen.factor = run.factor(now_ns);
            seen.last = Slow { at_ns: now_ns, took_ns: now_ns.saturating_sub(run.from_ns) };
        }
    }

    /// Records that a transfer failed. Nothing is learnt from it.
    pub fn failed(&mut self, server: ServerId, tag: u64) {
        self.lost(server, tag);
    }

    fn lost(&mut self, server: ServerId, tag: u64) -> Option<Running> {
        let running = &mut self.servers.get_mut(server.index())?.running;
        let place = running.iter().position(|run| run.tag == tag)?;
        Some(running.swap_remove(place))
    }

    /// How many times longer than expected a server takes now; 1 unless it is clearly slow.
    pub fn factor(&self, now_ns: u64, server: ServerId) -> f64 {
        let Some(seen) = self.servers.get(server.index()) else { return 1.0 };
        let faded = 1.0 + seen.last.left_of(seen.factor - 1.0, now_ns);
        let running = seen.running.iter().map(|run| run.factor(now_ns));
        let factor = running.fold(faded, f64::max);
        if factor > USUAL { factor } else { 1.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: ServerId = ServerId(0);

    /// The factor at a time, in tenths.
    fn tenths(lateness: &Lateness, now_ns: u64, server: ServerId) -> u64 {
        (lateness.factor(now_ns, server) * 10.0) as u64
    }

    /// A late transfer shows before it is done, and slowness is forgotten after a while.
    #[test]
    fn slow_servers_are_seen_and_get_another_chance() {
        let mut lateness = Lateness::new(1);
        lateness.started(0, S, 7, 100);
        assert_eq!([100, 150, 300].map(|now_ns| tenths(&lateness, now_ns, S)), [10, 10, 30]);
        lateness.done(500, S, 7);
        assert_eq!([500, 2_500].map(|now_ns| tenths(&lateness, now_ns, S)), [50, 30]);
        assert_eq!(tenths(&lateness, 1_000_000, S), 10);
        lateness.started(600, S, 8, 100);
        lateness.done(700, S, 8);
        assert_eq!(tenths(&lateness, 700, S), 10);
    }

    /// Nothing is learnt from failures, and unknown transfers do no harm.
    #[test]
    fn nothing_is_learnt_of_what_fails() {
        let mut lateness = Lateness::new(1);
        lateness.started(0, S, 7, 0);
        lateness.failed(S, 7);
        lateness.done(9, S, 7);
        lateness.started(9, ServerId(3), 7, 1);
        lateness.done(99, ServerId(3), 7);
        assert_eq!([S, ServerId(3)].map(|server| tenths(&lateness, 99, server)), [10, 10]);
    }
}
