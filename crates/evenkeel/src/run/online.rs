//! Policies that pick a server for each request in turn: `least-loaded`, `p2c`, `peak-ewma`.
//!
//! These are the policies of load balancers, applied to the executor's view of the servers. All compare how long a
//! server will take for its load: the blocks that are queued or in flight, times its time per block, divided by its
//! slots. [`Decide`](super::Decide) sets when a policy picks: when a request arrives, or when a server that holds it is
//! free, and then it chooses among the free ones. `hedged` is `p2c` with a second copy of late transfers:
//! [`Settings::hedged`](super::Settings::hedged).

use super::gauge::{Gauge, Nanoblocks};
use crate::draw::{Draw, Seeded};
use crate::model::{Batch, Choice, Cluster, ServerId};

/// Which of the servers that hold the data serves a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pick {
    /// `least-loaded`: the server that would be done first. Ties go to the lowest id.
    LeastLoaded,
    /// `p2c`: the less loaded of two servers drawn at random (Mitzenmacher, The Power of Two Choices, 2001). It does
    /// nearly as well as the least loaded, and many clients that choose at once with stale knowledge do not all pick
    /// the same server.
    TwoChoices,
    /// `peak-ewma`: the server that would be done first at its slowest recent pace. That pace rises at once with a slow
    /// transfer and is forgotten slowly, so a server that stalls is avoided until it has proved itself (Finagle, tower,
    /// Linkerd).
    PeakEwma,
}

impl Pick {
    /// Picks one of the candidates, if there are any.
    pub(super) fn choose(
        self,
        candidates: impl Iterator<Item = ServerId> + Clone,
        more: Nanoblocks,
        gauges: &[Gauge],
        now_ns: u64,
        draw: &mut Seeded,
    ) -> Option<ServerId> {
        let least = |cost: &dyn Fn(&Gauge) -> f64, candidates: &mut dyn Iterator<Item = ServerId>| {
            let costs = candidates.map(|server| (cost(&gauges[server.index()]), server));
            let least = costs.min_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            least.map(|(_, server)| server)
        };
        let wait_ns = |gauge: &Gauge| gauge.wait_ns(now_ns, more);
        match self {
            Self::LeastLoaded => least(&wait_ns, &mut candidates.into_iter()),
            Self::PeakEwma => least(&|gauge| gauge.peak_wait_ns(now_ns, more), &mut candidates.into_iter()),
            Self::TwoChoices => {
                let n = candidates.clone().count() as u32;
                if n < 2 {
                    return candidates.into_iter().next();
                }
                // Two different ones, every pair equally likely.
                let first = draw.below(n);
                let second = (first + 1 + draw.below(n - 1)) % n;
                let is_drawn = |k: u32| k == first || k == second;
                let mut drawn = (0..).zip(candidates).filter(|&(k, _)| is_drawn(k)).map(|(_, server)| server);
                least(&wait_ns, &mut drawn)
            }
        }
    }
}

/// The policy as a plan: all requests arrive at once, in the batch's order, before any of them is served.
pub fn drain(batch: &Batch, cluster: &Cluster, pick: Pick, seed: u64) -> Choice {
    let mut gauges = Gauge::all(cluster, 1e6, 0);
    let mut draw = Seeded::new(seed);
    let servers = batch.replicas().iter().enumerate().map(|(i, set)| {
        let more = Nanoblocks::from(batch.blocks(i)) * 1_000_000_000;
        let chosen = pick.choose(set.iter().copied(), more, &gauges, 0, &mut draw).unwrap_or(set[0]);
        gauges[chosen.index()].left += more;
        chosen
    });
    Choice::whole(servers.collect())
}
