//! What is known about a server while it works: its load, and its [`Pace`].

use crate::model::{Cluster, Server};
use crate::observe::Pace;

/// Billionths of a block: exact, and no sum overflows.
pub(super) type Nanoblocks = u128;

/// Blocks as a float.
pub(super) fn blocks(nanos: Nanoblocks) -> f64 {
    // Mostly small, and then much faster.
    u64::try_from(nanos).map_or(nanos as f64, |nanos| nanos as f64) / 1e9
}

/// Nanoseconds as a duration. Values beyond 64 bits saturate.
pub(super) fn duration_ns(ns: f64) -> u64 {
    ns as u64
}

/// What is known about a server.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(super) struct Gauge {
    /// Blocks queued and in flight, as far as is known.
    pub(super) left: Nanoblocks,
    pub(super) is_up: bool,
    /// Whether it belongs to the cluster, and may come back if it is down.
    pub(super) is_member: bool,
    /// Until then it is busy with its backlog.
    pub(super) free_from_ns: u64,
    /// How long one transfer takes per block.
    pub(super) pace: Pace,
    slots: f64,
}

impl Gauge {
    pub(super) fn new(server: &Server, block_ns: f64, now_ns: u64) -> Self {
        let pace_ns = block_ns * 1e6 / server.speed.millionths() as f64;
        Self {
            left: 0,
            is_up: true,
            is_member: true,
            free_from_ns: now_ns.saturating_add(duration_ns(server.busy() as f64 * pace_ns)),
            pace: Pace::new(pace_ns, now_ns),
            slots: server.slots.into(),
        }
    }

    /// Takes over the properties in `new`. The load and whether the server is up stay as they are.
    pub(super) fn changed(&mut self, new: &Self) {
        *self = Self { left: self.left, is_up: self.is_up, ..new.clone() };
    }

    /// The gauges of all servers of a cluster.
    pub(super) fn all(cluster: &Cluster, block_ns: f64, now_ns: u64) -> Vec<Self> {
        cluster.servers().iter().map(|server| Self::new(server, block_ns, now_ns)).collect()
    }

    /// How long the server takes for its whole load and `more`.
    pub(super) fn wait_ns(&self, now_ns: u64, more: Nanoblocks) -> f64 {
        self.wait_at(self.pace.at(now_ns), now_ns, more)
    }

    /// Like `wait_ns`, at the slowest pace seen lately.
    pub(super) fn peak_wait_ns(&self, now_ns: u64, more: Nanoblocks) -> f64 {
        self.wait_at(self.pace.peak_at(now_ns), now_ns, more)
    }

    fn wait_at(&self, pace_ns: f64, now_ns: u64, more: Nanoblocks) -> f64 {
        let busy_ns = self.free_from_ns.saturating_sub(now_ns) as f64;
        busy_ns + blocks(self.left + more) * pace_ns / self.slots
    }
}
