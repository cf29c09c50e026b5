//! Policies that pick a server for one request after the other: `least-loaded`, `p2c`, `peak-ewma`.
//!
//! What users of load balancers know, on the executor's view of the servers. All go by how long a server will take
//! for what it has to do: blocks that are queued or under way, times what a block takes there, over its slots.
//! When they are asked is up to [`Decide`](super::Decide): as a request arrives, or as a server that holds it is free, and
//! then they choose among those that are. `hedged` is `p2c` with a second copy of what is late: [`Settings::hedged`](super::Settings::hedged).

use super::gauge::{Gauge, Nanoblocks};
use crate::draw::{Draw, Seeded};
use crate::model::{Batch, Choice, Cluster, ServerId};

/// Which of the servers that hold the data serves a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pick {
    /// `least-loaded`: the one that would be done first; of equals the one with the lowest id.
    LeastLoaded,
    /// `p2c`: the lighter of two drawn by lot (Mitzenmacher, The Power of Two Choices, 2001). It does nearly as well as
    /// the lightest, and many that choose at once with old knowledge do not all run to the same one.
    TwoChoices,
    /// `peak-ewma`: the one that would be done first at its slowest pace of late. That rises at once with a slow
    /// transfer and is forgotten slowly, so that a server that stalls is avoided until it has proved itself
    /// (Finagle, tower, Linkerd).
    PeakEwma,
}

impl Pick {
    /// One of the candidates, if there is any.
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
                // Two different ones, each pair alike.
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
