//! The fast start for balancing: each item goes to its least loaded replica, then a sweep makes single moves.

use super::pace::Paces;
use crate::model::{Replicas, ServerId};

/// This many items are placed by the same loads: nearly as even, and the processor need not wait for each.
const AT_ONCE: usize = 8;
/// If no more than one in this many has to move, paths are faster than a sweep.
const FEW: u64 = 256;

/// How the height of a server grows. The height is when the server is done, in whole numbers of some unit.
pub(super) trait Gauge {
    /// Whether the height is the load.
    const IS_LOAD: bool;
    /// The height before any load.
    fn base(&self, server: ServerId) -> u64;
    /// The height that a block adds.
    fn cost(&self, server: ServerId) -> u64;
}

/// Servers of one speed without backlog: the height is the load.
pub(super) struct ByLoad;

impl Gauge for ByLoad {
    const IS_LOAD: bool = true;

    #[inline]
    fn base(&self, _server: ServerId) -> u64 {
        0
    }

    #[inline]
    fn cost(&self, _server: ServerId) -> u64 {
        1
    }
}

/// Servers of any kind: the height approximates the time.
pub(super) struct ByTime {
    bases: Vec<u64>,
    costs: Vec<u64>,
}

impl ByTime {
    /// Heights in units as fine as 64 bits allow for a load of `total` blocks.
    pub(super) fn new(paces: &Paces, total: u64) -> Self {
        let gauges = || (0..paces.len() as u32).map(|s| paces.gauge(ServerId(s)));
        let highest =
            gauges().map(|(base, cost)| base + cost * total as f64).fold(f64::MIN_POSITIVE, f64::max);
        let units = (1_u64 << 62) as f64 / highest;
        Self {
            bases: gauges().map(|(base, _)| (base * units) as u64).collect(),
            costs: gauges().map(|(_, cost)| (cost * units) as u64).collect(),
        }
    }
}

impl Gauge for ByTime {
    const IS_LOAD: bool = false;

    #[inline]
    fn base(&self, server: ServerId) -> u64 {
        self.bases[server.index()]
    }

    #[inline]
    fn cost(&self, server: ServerId) -> u64 {
        self.costs[server.index()]
    }
}

/// Places each item whole at one of its replicas. Returns the server of each item, and the loads.
///
/// If much load is above its cap, one sweep moves items to where they would be done earlier. A second sweep gains
/// little, and paths finish the rest.
pub(super) fn roughly_level(
    replicas: Replicas<'_>,
    size: impl Fn(usize) -> u64,
    gauge: &impl Gauge,
    caps: &[u64],
) -> (Vec<ServerId>, Vec<u64>) {
    // Sets of a known width compile to straight-line code.
    let (n, flat) = (replicas.len(), replicas.flat());
    match replicas.width() {
        Some(2) => place(n, |i| &flat.as_chunks::<2>().0[i], size, gauge, caps),
        Some(3) => place(n, |i| &flat.as_chunks::<3>().0[i], size, gauge, caps),
        _ => place(n, |i| replicas.of(i), size, gauge, caps),
    }
}

fn place<'a, G: Gauge>(
    n: usize,
    set: impl Fn(usize) -> &'a [ServerId],
    size: impl Fn(usize) -> u64,
    gauge: &G,
    caps: &[u64],
) -> (Vec<ServerId>, Vec<u64>) {
    let servers = || (0..caps.len() as u32).map(ServerId);
    let mut heights: Vec<u64> = servers().map(|s| gauge.base(s)).collect();
    let mut at = Vec::with_capacity(n);
    let after = |heights: &[u64], i: usize, s: ServerId| heights[s.index()] + gauge.cost(s) * size(i);
    while at.len() + AT_ONCE <= n {
        let first = at.len();
        let chosen: [ServerId; AT_ONCE] =
            std::array::from_fn(|k| lowest(set(first + k), |s| after(&heights, first + k, s)));
        chosen.iter().enumerate().for_each(|(k, &s)| heights[s.index()] = after(&heights, first + k, s));
        at.extend_from_slice(&chosen);
    }
    for i in at.len()..n {
        let chosen = lowest(set(i), |s| after(&heights, i, s));
        heights[chosen.index()] = after(&heights, i, chosen);
        at.push(chosen);
    }
    let top = |s: ServerId| gauge.base(s).saturating_add(gauge.cost(s).saturating_mul(caps[s.index()]));
    let above = |s: ServerId| heights[s.index()].saturating_sub(top(s)) / gauge.cost(s).max(1);
    let total: u64 = caps.iter().fold(0, |sum, cap| sum.saturating_add(*cap));
    if servers().map(above).sum::<u64>() > total / FEW {
        for (i, at) in at.iter_mut().enumerate() {
            // At its current server the item counts twice, so that it does not seem to gain by staying.
            let here = heights[at.index()];
            let after = |s: ServerId| heights[s.index()].saturating_add(gauge.cost(s) * size(i));
            let to = lowest(set(i), after);
            let there = after(to);
            if there < here {
                heights[at.index()] = here - gauge.cost(*at) * size(i);
                heights[to.index()] = there;
                *at = to;
            }
        }
    }
    if G::IS_LOAD {
        return (at, heights);
    }
    let mut loads = vec![0; caps.len()];
    at.iter().enumerate().for_each(|(i, at)| loads[at.index()] += size(i));
    // Heights are rounded; in the end it counts whether whole blocks fit. If only a few do not, they may find room.
    let too_much: u64 = loads.iter().zip(caps).map(|(load, cap)| load.saturating_sub(*cap)).sum();
    if too_much < n as u64 / 64 {
        for (i, at) in at.iter_mut().enumerate() {
            if loads[at.index()] <= caps[at.index()] {
                continue;
            }
            let has_room = |s: &&ServerId| loads[s.index()].saturating_add(size(i)) <= caps[s.index()];
            if let Some(&to) = set(i).iter().find(has_room) {
                loads[at.index()] -= size(i);
                loads[to.index()] += size(i);
                *at = to;
            }
        }
    }
    (at, loads)
}

/// The server with the least height, the first if several are equal.
#[inline]
fn lowest(set: &[ServerId], height: impl Fn(ServerId) -> u64) -> ServerId {
    let mut best = set[0];
    let mut least = height(best);
    for &server in &set[1..] {
        let height = height(server);
        best = if height < least { server } else { best };
        least = least.min(height);
    }
    best
}
