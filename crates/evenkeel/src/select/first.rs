//! `first`: the first copy listed, like a client that asks the first host it knows.

use crate::model::{Batch, Choice};

/// Serves each request from its first replica.
pub fn select(batch: &Batch) -> Choice {
    Choice::whole(batch.replicas().iter().map(|set| set[0]).collect())
}
