//! What is known about a server while it works: its load, and how fast it turned out to be.

use crate::model::{Cluster, Server};

/// The share of the difference by which a whole transfer moves the decayed mean.
const LEARN: f64 = 0.1;
/// Half of a peak is forgotten after this time: long against a transfer, short against an outage (Finagle's default).
const PEAK_NS: f64 = 10e9;
/// Half of the fear of a server is forgotten after this many times the duration of its late transfer.
const FEAR: f64 = 4.0;
/// The number of transfers from which the 95th percentile is taken.
const N_RECENT: usize = 64;

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
    /// Nanoseconds per block in one transfer: the pace to be feared, the decayed mean of the observed pace, and the
    /// declared pace.
    pub(super) pace_ns: f64,
    proven_ns: f64,
    planned_pace_ns: f64,
    /// When a transfer was last late, and how long it had taken by then.
    feared_at_ns: u64,
    feared_for_ns: u64,
    /// Late transfers that were broken off since one was last seen to move.
    n_broken_off: u32,
    /// The pace again, but rising at once and falling slowly.
    peak_ns: f64,
    peak_at_ns: u64,
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
            pace_ns,
            proven_ns: pace_ns,
            planned_pace_ns: pace_ns,
            feared_at_ns: now_ns,
            feared_for_ns: 0,
            n_broken_off: 0,
            peak_ns: pace_ns,
            peak_at_ns: now_ns,
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

    /// Whether a block takes more than `factor` times as long as declared.
    pub(super) fn is_slower_by(&self, factor: f64) -> bool {
        self.pace_ns > self.planned_pace_ns * factor
    }

    /// How long the server takes for its whole load and `more`.
    pub(super) fn wait_ns(&self, now_ns: u64, more: Nanoblocks) -> f64 {
        let busy_ns = self.free_from_ns.saturating_sub(now_ns) as f64;
        busy_ns + blocks(self.left + more) * self.pace_at(now_ns) / self.slots
    }

    /// The pace without the forgotten part of the fear: a server that is avoided proves nothing, and needs another
    /// chance.
    fn pace_at(&self, now_ns: u64) -> f64 {
        let memory_ns = FEAR * self.feared_for_ns as f64;
        let passed_ns = now_ns.saturating_sub(self.feared_at_ns) as f64;
        let fear_ns = (self.pace_ns - self.proven_ns).max(0.0);
        self.proven_ns + fear_ns * memory_ns / (memory_ns + passed_ns).max(1.0)
    }

    /// Like `wait_ns`, at the slowest pace seen lately.
    pub(super) fn peak_wait_ns(&self, now_ns: u64, more: Nanoblocks) -> f64 {
        let busy_ns = self.free_from_ns.saturating_sub(now_ns) as f64;
        busy_ns + blocks(self.left + more) * self.peak_at(now_ns) / self.slots
    }

    /// The part of the peak that is not forgotten.
    ///
    /// Finagle and tower let it decay exponentially; a hyperbola needs no function that differs between machines.
    fn peak_at(&self, now_ns: u64) -> f64 {
        let passed_ns = now_ns.saturating_sub(self.peak_at_ns) as f64;
        self.pace_ns + (self.peak_ns - self.pace_ns).max(0.0) * PEAK_NS / (PEAK_NS + passed_ns)
    }

    /// Learns that `moved` blocks took this time. They are `share` of a transfer.
    pub(super) fn learn(&mut self, now_ns: u64, moved: Nanoblocks, took_ns: u64, share: f64) {
        if moved > 0 {
            let pace_ns = took_ns as f64 / blocks(moved);
            // A pace that was only feared, because a transfer was late, gives way to the observed one, as far as this
            // is of a whole transfer. By a coarse clock, though, some transfers take no time.
            if self.pace_ns > self.proven_ns && took_ns > 0 {
                self.proven_ns += (pace_ns.min(self.pace_ns) - self.proven_ns) * share;
            } else {
                self.proven_ns += (pace_ns - self.proven_ns) * LEARN * share;
            }
            self.pace_ns = self.proven_ns;
            self.n_broken_off = 0;
            self.peak(now_ns, pace_ns);
        }
    }

    /// Learns that `left` blocks have not been moved after this time.
    pub(super) fn at_least(&mut self, now_ns: u64, left: Nanoblocks, passed_ns: u64) {
        if left > 0 {
            self.pace_ns = self.pace_ns.max(passed_ns as f64 / blocks(left));
            (self.feared_at_ns, self.feared_for_ns) = (now_ns, passed_ns);
            self.peak(now_ns, self.pace_ns);
        }
    }

    /// A late transfer was broken off. The first time only the transfer is to blame; if the next one is late too, the
    /// server is.
    pub(super) fn broken_off(&mut self) {
        if self.pace_ns > self.proven_ns {
            self.n_broken_off += 1;
            if self.n_broken_off == 1 {
                self.pace_ns = self.proven_ns;
            }
        }
    }

    fn peak(&mut self, now_ns: u64, pace_ns: f64) {
        let faded_ns = self.peak_at(now_ns);
        if pace_ns >= faded_ns {
            (self.peak_ns, self.peak_at_ns) = (pace_ns, now_ns);
        }
    }
}

/// The paces of the latest transfers of all servers.
#[derive(Debug, Default)]
pub(super) struct Recent {
    paces_ns: Vec<f64>,
    next: usize,
    p95_ns: Option<f64>,
}

impl Recent {
    /// Adds a pace. The percentile is updated every few paces.
    pub(super) fn push(&mut self, pace_ns: f64) {
        if self.paces_ns.len() < N_RECENT {
            self.paces_ns.push(pace_ns);
        } else {
            self.paces_ns[self.next] = pace_ns;
        }
        self.next = (self.next + 1) % N_RECENT;
        if self.next.is_multiple_of(N_RECENT / 4) {
            let mut sorted = self.paces_ns.clone();
            sorted.sort_unstable_by(f64::total_cmp);
            self.p95_ns = sorted.get(sorted.len() * 95 / 100).copied();
        }
    }

    /// The nanoseconds per block that 95 in 100 stay within, once enough are known.
    pub(super) fn p95_ns(&self) -> Option<f64> {
        self.p95_ns
    }
}
