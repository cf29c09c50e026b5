//! `first`: the first copy listed, as a client does that asks the first host it is told.

use crate::model::{Batch, Choice};

/// Each request from its first replica.
pub fn select(batch: &Batch) -> Choice {
    Choice::whole(batch.replicas().iter().map(|set| set[0]).collect())
}
