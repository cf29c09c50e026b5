//! Levels between which a choice of whole requests can be.

use crate::graph::flow::capped::Capped;
use crate::graph::flow::pace::{Level, Paces};
use crate::model::{Batch, ServerId};

/// When the last server is done with these loads.
pub(super) fn last(paces: &Paces, loads: &[u64]) -> Level {
    let done = (0..).map(ServerId).zip(loads).map(|(server, &load)| paces.done(server, load));
    done.max().unwrap_or(Level::ZERO)
}

/// How finely levels are divided: a billionth of the time that a block takes at speed 1.
const PARTS: f64 = 1e15;

fn rounded(level: f64) -> Level {
    Level::new((level * PARTS) as u128, PARTS as u64)
}

/// So many times a level.
pub(super) fn scaled(level: Level, ratio: f64) -> Level {
    rounded(level.to_f64() * ratio)
}

/// The level that is between `high` and `low` after so many halvings of the distance.
pub(super) fn between(high: Level, low: Level, halvings: u32) -> Level {
    let (high, low) = (high.to_f64(), low.to_f64());
    rounded(low + (high - low) / f64::from(1 << halvings))
}

/// The least level at which whole requests of this size can be done, if the parts of split ones can at `bound`.
pub(super) fn least(batch: &Batch, paces: &Paces, size: u64, bound: Level) -> Level {
    let fits = |level: Level| {
        let room = paces.caps(level).into_iter().map(|blocks| blocks / size).collect();
        let mut flow = Capped::new(batch.replicas(), |_| 1, room);
        flow.fit(u64::MAX);
        flow.servers().all(|server| server.is_some())
    };
    if size <= 1 || fits(bound) {
        return bound;
    }
    // One more request at each server is enough, since rounding a split choice takes no more.
    let caps = paces.caps(bound).into_iter().map(|blocks| blocks.saturating_add(size));
    let most = last(paces, &caps.collect::<Vec<u64>>());
    let levels = steps(paces, size, bound, most, batch.n_requests());
    let (mut low, mut high) = (0, levels.len());
    while low < high {
        let middle = usize::midpoint(low, high);
        if fits(levels[middle]) { high = middle } else { low = middle + 1 }
    }
    levels.get(low).copied().unwrap_or(most)
}

/// All levels from `low` to `high` at which some server is done with whole requests of this size.
pub(super) fn steps(paces: &Paces, size: u64, low: Level, high: Level, most: usize) -> Vec<Level> {
    let mut levels = vec![low, high.max(low)];
    for server in (0..paces.len() as u32).map(ServerId) {
        let from = paces.cap(server, low) / size;
        let to = (paces.cap(server, high) / size).min(most as u64);
        levels.extend((from + 1..=to).map(|n| paces.done(server, n * size)));
    }
    levels.sort_unstable();
    levels.dedup();
    levels
}
