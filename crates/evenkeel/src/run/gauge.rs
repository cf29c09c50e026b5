//! What is known of a server while it works: what it has to do, and how fast it turned out to be.

use crate::model::{Cluster, Server};

/// How much of the difference the decayed mean goes towards what a whole transfer shows.
const LEARN: f64 = 0.1;
/// After so long half of a peak is forgotten: long against a transfer, short against an outage (Finagle's default).
const PEAK_NS: f64 = 10e9;
/// After so many times what a late transfer had taken, half of the fear of its server is forgotten.
const FEAR: f64 = 4.0;
/// Transfers that the 95th percentile is taken of.
const N_RECENT: usize = 64;

/// Billionths of a block: exact, and no sum overflows.
pub(super) type Nanoblocks = u128;

/// Blocks as a float.
pub(super) fn blocks(nanos: Nanoblocks) -> f64 {
    // Mostly small, and then much quicker.
    u64::try_from(nanos).map_or(nanos as f64, |nanos| nanos as f64) / 1e9
}

/// A float of nanoseconds as a duration: whatever is beyond 64 bits is as long as can be.
pub(super) fn duration_ns(ns: f64) -> u64 {
    ns as u64
}

/// What is known of a server.
#[derive(Clone, Debug)]
pub(super) struct Gauge {
    /// Queued and running, as far as is known.
    pub(super) left: Nanoblocks,
    pub(super) is_up: bool,
    /// Whether it belongs to the cluster, and may come back if it is down.
    pub(super) is_member: bool,
    /// Until then it is busy with what it had to do before.
    pub(super) free_from_ns: u64,
    /// Nanoseconds a block, in one transfer: as is to be feared, the decayed mean that was seen, and as it was said to be.
    pub(super) pace_ns: f64,
    proven_ns: f64,
    planned_pace_ns: f64,
    /// When something was late for the last time, and how long it had taken then.
    feared_at_ns: u64,
    feared_for_ns: u64,
    /// Transfers that were late and broken off since one was seen to move.
    n_broken_off: u32,
    /// The same, but it rises at once and falls slowly.
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

    /// The server has become what another gauge says; what it has to do and whether it is up stays as it is.
    pub(super) fn changed(&mut self, new: &Self) {
        *self = Self { left: self.left, is_up: self.is_up, ..new.clone() };
    }

    /// All servers of a cluster.
    pub(super) fn all(cluster: &Cluster, block_ns: f64, now_ns: u64) -> Vec<Self> {
        cluster.servers().iter().map(|server| Self::new(server, block_ns, now_ns)).collect()
    }

    /// Whether it takes more than so many times as long for a block as it was said to.
    pub(super) fn is_slower_by(&self, factor: f64) -> bool {
        self.pace_ns > self.planned_pace_ns * factor
    }

    /// How long the server takes for all it has to do and so much more.
    pub(super) fn wait_ns(&self, now_ns: u64, more: Nanoblocks) -> f64 {
        let busy_ns = self.free_from_ns.saturating_sub(now_ns) as f64;
        busy_ns + blocks(self.left + more) * self.pace_at(now_ns) / self.slots
    }

    /// The pace without the fears that are forgotten: who is avoided proves nothing, and needs another chance.
    fn pace_at(&self, now_ns: u64) -> f64 {
        let memory_ns = FEAR * self.feared_for_ns as f64;
        let passed_ns = now_ns.saturating_sub(self.feared_at_ns) as f64;
        let fear_ns = (self.pace_ns - self.proven_ns).max(0.0);
        self.proven_ns + fear_ns * memory_ns / (memory_ns + passed_ns).max(1.0)
    }

    /// The same at the slowest pace seen lately.
    pub(super) fn peak_wait_ns(&self, now_ns: u64, more: Nanoblocks) -> f64 {
        let busy_ns = self.free_from_ns.saturating_sub(now_ns) as f64;
        busy_ns + blocks(self.left + more) * self.peak_at(now_ns) / self.slots
    }

    /// The peak as far as it is not forgotten.
    ///
    /// Finagle and tower let it decay exponentially; a hyperbola needs no function that differs between machines.
    fn peak_at(&self, now_ns: u64) -> f64 {
        let passed_ns = now_ns.saturating_sub(self.peak_at_ns) as f64;
        self.pace_ns + (self.peak_ns - self.pace_ns).max(0.0) * PEAK_NS / (PEAK_NS + passed_ns)
    }

    /// So many blocks were moved in this time, `share` of a transfer.
    pub(super) fn learn(&mut self, now_ns: u64, moved: Nanoblocks, took_ns: u64, share: f64) {
        if moved > 0 {
            let pace_ns = took_ns as f64 / blocks(moved);
            // What was only feared, because something was late, gives way to what is seen; but by a coarse clock some
            // transfers take no time.
            if self.pace_ns > self.proven_ns && took_ns > 0 {
                self.proven_ns = pace_ns.min(self.pace_ns);
            } else {
                self.proven_ns += (pace_ns - self.proven_ns) * LEARN * share;
            }
            self.pace_ns = self.proven_ns;
            self.n_broken_off = 0;
            self.peak(now_ns, pace_ns);
        }
    }

    /// So many blocks have not been moved yet after this time.
    pub(super) fn at_least(&mut self, now_ns: u64, left: Nanoblocks, passed_ns: u64) {
        if left > 0 {
            self.pace_ns = self.pace_ns.max(passed_ns as f64 / blocks(left));
            (self.feared_at_ns, self.feared_for_ns) = (now_ns, passed_ns);
            self.peak(now_ns, self.pace_ns);
        }
    }

    /// A transfer that was late was broken off. The first time it alone is to blame; if the next one is late too, the
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

/// The paces of the last transfers, of all servers.
#[derive(Debug, Default)]
pub(super) struct Recent {
    paces_ns: Vec<f64>,
    next: usize,
    p95_ns: Option<f64>,
}

impl Recent {
    /// Takes one in. The percentile follows every few.
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

    /// Nanoseconds a block that 95 of 100 keep to, once enough are known.
    pub(super) fn p95_ns(&self) -> Option<f64> {
        self.p95_ns
    }
}
