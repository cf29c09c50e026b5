//! How fast servers are: how many blocks each has done by a given time.
//!
//! A server with k slots is busy with its backlog first. The number of blocks it can have done then grows in steps, so
//! a *level* is always at a step of some server, a fraction that is never rounded. There are two kinds of steps:
//!
//! * *In slots*: each slot serves whole blocks one after the other, so l blocks are done at (busy + ⌈l/k⌉)/speed.
//!   Clusters in which every server has speed 1 work like this.
//! * *Shared*: a block may be interrupted and resumed in another slot, but is never in two at once, so l blocks are
//!   done at (busy + max(l/k, 1))/speed, the wrap-around rule for parallel machines.
//!
//! With one slot both are the same.

use crate::model::{Cluster, Ratio, Server, ServerId};

/// The figures that determine when a server is done.
#[derive(Clone, Copy, Debug)]
struct Pace {
    /// Millionths of a step per unit of time.
    speed: u64,
    /// Blocks that each step completes.
    per_step: u64,
    /// Steps until the backlog is done.
    busy: u64,
    /// Steps until the first block is done after that.
    first: u64,
}

/// A point in time, in units of 10⁶ times the time that one block takes at speed 1: blocks, divided by speed in
/// millionths.
pub(crate) type Level = Ratio;

/// The time of a level.
pub(crate) fn time(level: Level) -> Ratio {
    Ratio::new(level.numerator() * 1_000_000, level.denominator())
}

/// The paces of all servers.
#[derive(Debug)]
pub(crate) struct Paces {
    all: Vec<Pace>,
    /// Whether all servers have one lane, the same speed and no backlog.
    is_equal: bool,
}

impl Paces {
    /// The paces that plans for this cluster use: in slots if all speeds are 1, else shared.
    pub(crate) fn new(cluster: &Cluster) -> Self {
        if cluster.is_slotted() { Self::in_slots(cluster) } else { Self::shared(cluster) }
    }

    /// Paces where slots serve whole blocks, whatever the speeds.
    pub(crate) fn in_slots(cluster: &Cluster) -> Self {
        Self::of(cluster, Pace::in_slots)
    }

    /// Paces where slots share blocks, whatever the speeds.
    pub(crate) fn shared(cluster: &Cluster) -> Self {
        Self::of(cluster, Pace::shared)
    }

    fn of(cluster: &Cluster, pace: impl Fn(&Server) -> Pace) -> Self {
        let is_equal = cluster.is_even() && cluster.servers().iter().all(|server| server.slots == 1);
        Self { all: cluster.servers().iter().map(pace).collect(), is_equal }
    }

    /// Paces of servers with speed 1, one slot, and these backlogs.
    pub(crate) fn with_backlogs(backlogs: impl Iterator<Item = u64>) -> Self {
        Self::of_servers(backlogs.map(|backlog| Server { backlog, ..Server::default() }))
    }

    /// Paces of these servers, whose slots serve whole blocks.
    pub(crate) fn of_servers(servers: impl Iterator<Item = Server>) -> Self {
        let all: Vec<Pace> = servers.map(|server| Pace::in_slots(&server)).collect();
        let is_equal = all.iter().all(|p| p.busy == 0 && p.per_step == 1 && p.speed == all[0].speed);
        Self { all, is_equal }
    }

    /// The same paces, with server `id` replaced by `server`, whose slots share blocks.
    pub(crate) fn with_shared(&self, id: ServerId, server: &Server) -> Self {
        let mut all = self.all.clone();
        all[id.index()] = Pace::shared(server);
        Self { all, is_equal: false }
    }

    /// Whether loads alone determine which server is done first.
    pub(crate) fn is_equal(&self) -> bool {
        self.is_equal
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// When a server with this load is done; zero without load.
    pub(crate) fn done(&self, server: ServerId, load: u64) -> Level {
        let pace = self.all[server.index()];
        match load {
            0 => Level::ZERO,
            _ => Level::new(pace.steps_for(load).into(), pace.speed),
        }
    }

    /// Whether a server with this load is done before `level`.
    #[inline]
    pub(crate) fn is_done_before(&self, server: ServerId, load: u64, level: Level) -> bool {
        let pace = self.all[server.index()];
        let (steps, speed) = (u128::from(pace.steps_for(load)), u128::from(pace.speed));
        load == 0 || steps * u128::from(level.denominator()) < level.numerator() * speed
    }

    /// A fast estimate of when a server is done, as `(base, cost)`: `base + load * cost`.
    pub(crate) fn gauge(&self, server: ServerId) -> (f64, f64) {
        let pace = self.all[server.index()];
        let speed = pace.speed as f64;
        (pace.busy as f64 / speed, 1.0 / (speed * pace.per_step as f64))
    }

    /// How many blocks a server has done by `level`.
    pub(crate) fn cap(&self, server: ServerId, level: Level) -> u64 {
        self.all[server.index()].cap(level)
    }

    /// How many blocks each server has done by `level`.
    pub(crate) fn caps(&self, level: Level) -> Vec<u64> {
        self.all.iter().map(|pace| pace.cap(level)).collect()
    }

    /// How many blocks a server has done before `level`.
    pub(crate) fn cap_before(&self, server: ServerId, level: Level) -> u64 {
        self.all[server.index()].cap_before(level)
    }

    /// The first level at which `zone` has done this many blocks besides the `loads` that its servers already have.
    pub(crate) fn level_for(&self, zone: &[ServerId], loads: Option<&[u64]>, blocks: u128) -> Level {
        let Some(fastest) = zone.iter().map(|s| self.all[s.index()].speed).max() else { return Level::ZERO };
        if blocks == 0 {
            return Level::ZERO;
        }
        if self.is_equal && loads.is_none() {
            return Level::new(blocks.div_ceil(zone.len() as u128), fastest);
        }
        let room = |s: &ServerId, steps: u64| {
            let taken = loads.map_or(0, |loads| loads[s.index()]);
            self.all[s.index()].room_after(steps).saturating_sub(taken)
        };
        // First finds the steps of the fastest server that enclose it: n and n + 1.
        let done_at = |n: u64| -> u128 {
            zone.iter().map(|s| u128::from(room(s, self.all[s.index()].steps(n, fastest)))).sum()
        };
        let (mut low, mut high) = (0, u64::MAX);
        let (mut probe, mut stride) = (self.guess(zone, loads, blocks, fastest), 1);
        // Moves away from the guess with growing strides until both sides are known, then bisects.
        while low + 1 < high {
            if done_at(probe) < blocks {
                low = probe;
            } else {
                high = probe;
            }
            probe = match (low, high) {
                (0, _) if high > stride => high - stride,
                (_, u64::MAX) if low < u64::MAX - stride => low + stride,
                _ => low + (high - low) / 2,
            };
            stride = stride.saturating_mul(2);
        }
        // Each server has at most one step after n and up to n + 1. Takes them in order, until there are enough blocks.
        let mut steps: Vec<(u64, u64, u64)> = zone
            .iter()
            .filter_map(|s| {
                let speed = self.all[s.index()].speed;
                let now = self.all[s.index()].steps(low, fastest);
                let gain = room(s, now + 1) - room(s, now);
                (gain > 0).then_some((now + 1, speed, gain))
            })
            .collect();
        let time_order = |a: &(u64, u64, u64), b: &(u64, u64, u64)| {
            (u128::from(a.0) * u128::from(b.1)).cmp(&(u128::from(b.0) * u128::from(a.1)))
        };
        steps.sort_unstable_by(time_order);
        let mut done = done_at(low);
        for (step, speed, gain) in steps {
            done += u128::from(gain);
            if done >= blocks {
                return Level::new(step.into(), speed);
            }
        }
        Level::new(high.into(), fastest)
    }

    /// Estimates how many steps of the fastest server it takes if nothing is rounded.
    fn guess(&self, zone: &[ServerId], loads: Option<&[u64]>, blocks: u128, fastest: u64) -> u64 {
        let mut level = f64::INFINITY;
        loop {
            let (mut work, mut rate) = (blocks as f64, 0.0);
            for s in zone {
                let pace = self.all[s.index()];
                let taken = loads.map_or(0, |loads| loads[s.index()]);
                let first = pace.busy as f64 + taken as f64 / pace.per_step as f64;
                let speed = pace.speed as f64;
                if first < level * speed {
                    work += first * pace.per_step as f64;
                    rate += speed * pace.per_step as f64;
                }
            }
            let next = work / rate;
            // Servers that are busy for longer do not help. Without their backlogs the level only gets earlier, so this
            // ends.
            if next.is_nan() || next >= level {
                return ((level * fastest as f64) as u64).clamp(1, u64::MAX - 1);
            }
            level = next;
        }
    }
}

impl Pace {
    fn in_slots(server: &Server) -> Self {
        Self {
            speed: server.speed.millionths(),
            per_step: server.slots.into(),
            busy: server.busy(),
            first: 1,
        }
    }

    /// Steps are as short as if all slots served one block together, but no block is done before one slot could have
    /// done it.
    fn shared(server: &Server) -> Self {
        let slots = u64::from(server.slots);
        Self {
            // Where slots share blocks, clusters contain no server that is faster or busier than these.
            speed: server.speed.millionths().saturating_mul(slots),
            per_step: 1,
            busy: server.busy().saturating_mul(slots),
            first: slots,
        }
    }

    /// The steps until this many blocks are done, at least one block.
    #[inline]
    fn steps_for(self, load: u64) -> u64 {
        self.busy.saturating_add(load.div_ceil(self.per_step).max(self.first))
    }

    /// How many steps of this server are done after `n` steps of a server with speed `fastest`.
    #[inline]
    fn steps(self, n: u64, fastest: u64) -> u64 {
        if self.speed == fastest {
            return n;
        }
        match n.checked_mul(self.speed) {
            Some(product) => product / fastest,
            None => (u128::from(n) * u128::from(self.speed) / u128::from(fastest)) as u64,
        }
    }

    /// The blocks that are done after this many steps.
    #[inline]
    fn room_after(self, steps: u64) -> u64 {
        let steps = steps.saturating_sub(self.busy);
        if steps < self.first { 0 } else { steps.saturating_mul(self.per_step) }
    }

    fn cap(self, level: Level) -> u64 {
        let (whole, rest, denominator) = self.steps_at(level);
        self.room_after(u64::try_from(whole + rest / denominator).unwrap_or(u64::MAX))
    }

    fn cap_before(self, level: Level) -> u64 {
        let (whole, rest, denominator) = self.steps_at(level);
        let steps = (whole + rest.div_ceil(denominator)).saturating_sub(1);
        self.room_after(u64::try_from(steps).unwrap_or(u64::MAX))
    }

    /// The number of steps at `level`: a whole number and a fraction below `speed`.
    fn steps_at(self, level: Level) -> (u128, u128, u128) {
        let (speed, denominator) = (u128::from(self.speed), u128::from(level.denominator()));
        let whole = (level.numerator() / denominator).saturating_mul(speed).min(u128::MAX / 2);
        (whole, level.numerator() % denominator * speed, denominator)
    }
}
