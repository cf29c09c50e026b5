//! The quick start for balancing: each item to its least loaded replica, then a few sweeps of single moves.

use super::pace::Paces;
use crate::model::{Replicas, ServerId};

/// Sweeps of single moves after the first placement: a second one gains little, the flow finishes the rest.
const SWEEPS: usize = 1;
/// So many items are placed by the same loads: nearly as even, and the processor need not wait for each.
const AT_ONCE: usize = 8;

/// How the height of a server grows: when it is done, in whole numbers of some unit.
pub(super) trait Gauge {
    /// Whether the height is the load.
    const IS_LOAD: bool;
    /// The height before any load.
    fn base(&self, server: ServerId) -> u64;
    /// What a block adds.
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

/// Any servers: the height is about the time.
pub(super) struct ByTime {
    bases: Vec<u64>,
    costs: Vec<u64>,
}

impl ByTime {
    /// In units as fine as 64 bits allow for the load of `total` blocks.
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

/// Places each item whole at one of its replicas; returns where, and the loads.
///
/// Sweeps while some load is above its cap.
pub(super) fn roughly_level(
    replicas: Replicas<'_>,
    size: impl Fn(usize) -> u64,
    gauge: &impl Gauge,
    caps: &[u64],
) -> (Vec<ServerId>, Vec<u64>) {
    // Sets of a known width compile to straight code.
    let flat = replicas.flat();
    match replicas.width() {
        Some(2) => place(flat.as_chunks::<2>().0.iter().map(|s| &s[..]), size, gauge, caps),
        Some(3) => place(flat.as_chunks::<3>().0.iter().map(|s| &s[..]), size, gauge, caps),
        _ => place(replicas.iter(), size, gauge, caps),
    }
}

fn place<'a, G: Gauge>(
    mut sets: impl ExactSizeIterator<Item = &'a [ServerId]> + Clone,
    size: impl Fn(usize) -> u64,
    gauge: &G,
    caps: &[u64],
) -> (Vec<ServerId>, Vec<u64>) {
    let all_sets = sets.clone();
    let servers = || (0..caps.len() as u32).map(ServerId);
    let mut heights: Vec<u64> = servers().map(|s| gauge.base(s)).collect();
    let top: Vec<u64> = servers()
        .map(|s| gauge.base(s).saturating_add(gauge.cost(s).saturating_mul(caps[s.index()])))
        .collect();
    let mut at = vec![ServerId(0); sets.len()];
    for (k, at) in at.chunks_mut(AT_ONCE).enumerate() {
        for (i, (at, set)) in at.iter_mut().zip(&mut sets).enumerate() {
            let size = size(k * AT_ONCE + i);
            *at = lowest(set, |s| heights[s.index()] + gauge.cost(s) * size);
        }
        for (i, at) in at.iter().enumerate() {
            heights[at.index()] += gauge.cost(*at) * size(k * AT_ONCE + i);
        }
    }
    for _ in 0..SWEEPS {
        if heights.iter().zip(&top).all(|(height, top)| height <= top) {
            break;
        }
        let mut n_moved = 0;
        for (i, (set, at)) in all_sets.clone().zip(&mut at).enumerate() {
            let size = size(i);
            let here = heights[at.index()];
            // Where it lies it counts twice, so that it does not seem to gain by staying.
            let after = |s: ServerId| heights[s.index()].saturating_add(gauge.cost(s) * size);
            if set.iter().map(|&s| after(s)).fold(u64::MAX, u64::min) < here {
                let to = lowest(set, after);
                heights[at.index()] -= gauge.cost(*at) * size;
                heights[to.index()] += gauge.cost(to) * size;
                *at = to;
                n_moved += 1;
            }
        }
        // When little moves any more, the flow is quicker.
        if n_moved < at.len() / 256 {
            break;
        }
    }
    if G::IS_LOAD {
        return (at, heights);
    }
    let mut loads = vec![0; caps.len()];
    at.iter().enumerate().for_each(|(i, at)| loads[at.index()] += size(i));
    // Heights are rounded; what counts in the end is whether whole blocks fit. If few do not, they may find room.
    let too_much: u64 = loads.iter().zip(caps).map(|(load, cap)| load.saturating_sub(*cap)).sum();
    if too_much < at.len() as u64 / 64 {
        for (i, (set, at)) in all_sets.zip(&mut at).enumerate() {
            if loads[at.index()] <= caps[at.index()] {
                continue;
            }
            let has_room = |s: &&ServerId| loads[s.index()].saturating_add(size(i)) <= caps[s.index()];
            if let Some(&to) = set.iter().find(has_room) {
                loads[at.index()] -= size(i);
                loads[to.index()] += size(i);
                *at = to;
            }
        }
    }
    (at, loads)
}

/// The server with the least height, the first of equals.
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
