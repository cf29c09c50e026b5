//! How long a server takes for a block: what the executor predicts with.
//!
//! The *proven* pace is the decayed mean of what transfers took. A transfer that is overdue shows, before it is done, that
//! the server may be slower than that; the pace is then *feared* to be as slow until a transfer proves otherwise. The
//! *peak* is the slowest recent pace, for `peak-ewma`. Fear and peak fade.
//!
//! Two other questions have estimators of their own. Which servers are slower than the others, now or in the long run, is
//! for [`speed`](super::speed): it needs a memory of hours that can be saved, and no predictions. How late transfers are
//! against what was expected of each is for [`Lateness`](super::Lateness): it has no mean, because a planner that chooses
//! again and again follows the last transfer.

use super::fade::{Slow, left_of};

/// The share of the difference by which a whole transfer moves the decayed mean.
const LEARN: f64 = 0.1;
/// Half of a peak is forgotten after this time: long against a transfer, short against an outage (Finagle's default).
const PEAK_NS: f64 = 10e9;
/// The number of transfers from which the 95th percentile is taken.
const N_RECENT: usize = 64;

/// What is known of the pace of a server, in nanoseconds per block.
#[derive(Clone, Debug)]
pub(crate) struct Pace {
    /// The pace to be feared; the proven one if no transfer is late.
    pub(crate) ns: f64,
    proven_ns: f64,
    declared_ns: f64,
    /// The late transfer that is the reason for the fear.
    late: Slow,
    /// Late transfers that were broken off since one was last seen to move.
    n_broken_off: u32,
    /// The pace again, but rising at once and falling slowly.
    peak_ns: f64,
    peak_at_ns: u64,
}

impl Pace {
    /// The pace that a server is declared to have.
    pub(crate) fn new(declared_ns: f64, now_ns: u64) -> Self {
        Self {
            ns: declared_ns,
            proven_ns: declared_ns,
            declared_ns,
            late: Slow { at_ns: now_ns, took_ns: 0 },
            n_broken_off: 0,
            peak_ns: declared_ns,
            peak_at_ns: now_ns,
        }
    }

    /// Whether a block takes more than `factor` times as long as declared.
    pub(crate) fn is_slower_by(&self, factor: f64) -> bool {
        self.ns > self.declared_ns * factor
    }

    /// The pace without the forgotten part of the fear.
    pub(crate) fn at(&self, now_ns: u64) -> f64 {
        self.proven_ns + self.late.left_of(self.ns - self.proven_ns, now_ns)
    }

    /// The slowest recent pace, as far as it is not forgotten.
    pub(crate) fn peak_at(&self, now_ns: u64) -> f64 {
        let excess = (self.peak_ns - self.ns).max(0.0);
        self.ns + left_of(excess, PEAK_NS, now_ns.saturating_sub(self.peak_at_ns))
    }

    /// Learns that `blocks` blocks took this time. They are `share` of a transfer.
    pub(crate) fn learn(&mut self, now_ns: u64, blocks: f64, took_ns: u64, share: f64) {
        if blocks > 0.0 {
            let seen_ns = took_ns as f64 / blocks;
            // A pace that was only feared, because a transfer was late, gives way to the observed one, as far as this
            // is of a whole transfer. By a coarse clock, though, some transfers take no time.
            if self.ns > self.proven_ns && took_ns > 0 {
                self.proven_ns += (seen_ns.min(self.ns) - self.proven_ns) * share;
            } else {
                self.proven_ns += (seen_ns - self.proven_ns) * LEARN * share;
            }
            self.ns = self.proven_ns;
            self.n_broken_off = 0;
            self.raise_peak(now_ns, seen_ns);
        }
    }

    /// Learns that `blocks` blocks have not been moved after this time.
    pub(crate) fn at_least(&mut self, now_ns: u64, blocks: f64, passed_ns: u64) {
        if blocks > 0.0 {
            self.ns = self.ns.max(passed_ns as f64 / blocks);
            self.late = Slow { at_ns: now_ns, took_ns: passed_ns };
            self.raise_peak(now_ns, self.ns);
        }
    }

    /// A late transfer was broken off. The first time only the transfer is to blame; if the next one is late too, the
    /// server is.
    pub(crate) fn broken_off(&mut self) {
        if self.ns > self.proven_ns {
            self.n_broken_off += 1;
            if self.n_broken_off == 1 {
                self.ns = self.proven_ns;
            }
        }
    }

    fn raise_peak(&mut self, now_ns: u64, seen_ns: f64) {
        // The peak fades to the present pace, so mostly there is no need to know how far it has.
        if seen_ns >= self.ns && seen_ns >= self.peak_at(now_ns) {
            (self.peak_ns, self.peak_at_ns) = (seen_ns, now_ns);
        }
    }
}

/// The paces of the latest transfers of all servers.
#[derive(Debug, Default)]
pub(crate) struct Recent {
    paces_ns: Vec<f64>,
    next: usize,
    p95_ns: Option<f64>,
}

impl Recent {
    /// Adds a pace. The percentile is updated every few paces.
    pub(crate) fn push(&mut self, pace_ns: f64) {
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
    pub(crate) fn p95_ns(&self) -> Option<f64> {
        self.p95_ns
    }
}
