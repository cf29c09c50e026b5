//! How little a choice can cost, proved by prices.
//!
//! Any [`Prices`] prove something, and those of a minimum-cost flow prove all there is to prove. For requests of different
//! sizes they are searched for.

use crate::bound::{Cost, Prices};
use crate::model::{Batch, ServerId};

/// Into how many parts the price is divided at which a usual request pays for a change.
const PARTS: f64 = 1_048_576.0;

/// How often prices are adjusted, and how many adjustments of one replica each there are in all.
const MOST_ROUNDS: u64 = 400;
const EFFORT: u64 = 40_000_000;

/// Prices that prove much, by subgradient ascent: a price rises where more requests want to be than there is room for,
/// and falls where fewer do.
pub(super) fn ascend(batch: &Batch, caps: &[u64], cost: Cost) -> Prices {
    let n_replicas = batch.replicas().flat().len() as u64;
    let rounds = (EFFORT / n_replicas.max(1)).clamp(20, MOST_ROUNDS);
    let mean = batch.total_blocks() as f64 / batch.n_requests().max(1) as f64;
    let unit = if cost == Cost::Changes { 1.0 } else { mean };
    let mut prices = vec![0.0_f64; caps.len()];
    let mut best = (f64::NEG_INFINITY, prices.clone());
    for round in 0..rounds {
        let mut wanted: Vec<f64> = caps.iter().map(|&cap| -(cap as f64)).collect();
        let mut paid = 0.0;
        for (i, set) in batch.replicas().iter().enumerate() {
            let blocks = batch.blocks(i) as f64;
            let change = if cost == Cost::Changes { 1.0 } else { blocks };
            let pays = |server: ServerId| {
                let moves = batch.current(i).is_some_and(|current| current != server);
                prices[server.index()] * blocks + if moves { change } else { 0.0 }
            };
            let least = |a: ServerId, b: ServerId| if pays(b) < pays(a) { b } else { a };
            let cheapest = set.iter().copied().fold(set[0], least);
            paid += pays(cheapest);
            wanted[cheapest.index()] += blocks;
        }
        let collected: f64 = prices.iter().zip(caps).map(|(price, &cap)| price * cap as f64).sum();
        if paid - collected > best.0 {
            best = (paid - collected, prices.clone());
        }
        // Steps that fade, large enough to reach any price that matters: a change for each block of a usual request.
        let most = wanted.iter().fold(0.0_f64, |most, excess| most.max(excess.abs()));
        if most == 0.0 {
            break;
        }
        let step = unit / mean / (1.0 + round as f64 / 8.0);
        for (price, excess) in prices.iter_mut().zip(&wanted) {
            *price = (*price + step * excess / most).max(0.0);
        }
    }
    let scale = (PARTS * mean / unit).max(1.0) as u64;
    Prices { scale, of: best.1.into_iter().map(|price| (price * scale as f64) as u64).collect() }
}
