//! `random`: a copy drawn uniformly for each request.
//!
//! RIORS of paper 001 §3.5, which says "a random server". The server must hold the data, so the draw is over the
//! request's replicas. Paper 000's Random also draws the order: that is `random-bid`.

use crate::draw::Draw;
use crate::model::{Batch, Choice};

/// Serves each request from a replica drawn uniformly.
pub fn select(batch: &Batch, draw: &mut dyn Draw) -> Choice {
    let servers = batch.replicas().iter().map(|set| set[draw.below(set.len() as u32) as usize]);
    Choice::whole(servers.collect())
}
