//! A batch in which other clients fetch some of the data.

use std::sync::Arc;

use super::{Batch, MAX_REPLICAS, MAX_REQUESTS, ModelError};
use crate::model::ClientId;

/// Some blocks of a request that another client fetches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// The request's row in the batch.
    pub request: u32,
    /// The client that fetches them instead.
    pub to: ClientId,
    /// The number of its blocks.
    pub blocks: u64,
}

impl Batch {
    /// The batch after some blocks went to other clients. If `new_client` is given, it has that client too, after all
    /// others.
    ///
    /// Blocks of one request that go to different clients become separate requests, after all others. An error if a
    /// request does not have that many blocks, or if there is no such request or client.
    pub fn with_moves(&self, moves: &[Move], new_client: Option<&str>) -> Result<Self, ModelError> {
        let mut batch = self.clone();
        if let Some(name) = new_client {
            Arc::make_mut(&mut batch.clients).insert(name, "client")?;
        }
        let mut moves = moves.to_vec();
        moves.sort_unstable_by_key(|moved| (moved.request, moved.to, moved.blocks));
        for Move { request, to, blocks } in moves {
            let i = request as usize;
            if i >= self.n_requests() || to.index() >= batch.n_clients() {
                return Err(ModelError::UnfitChange("a request or client that moves is not in the batch"));
            }
            let left = batch.blocks(i);
            if blocks == 0 || blocks > left {
                return Err(ModelError::UnfitChange("a request has fewer blocks than it is to move"));
            }
            let mover = if blocks == left { i } else { self.split_off_into(&mut batch, i, blocks)? };
            batch.client_of[mover] = to;
        }
        Ok(batch)
    }

    /// Makes the first blocks of request `i`, fewer than all, the last request of `batch`, and returns its row.
    fn split_off_into(&self, batch: &mut Self, i: usize, blocks: u64) -> Result<usize, ModelError> {
        let (row, set) = (batch.n_requests(), self.replicas().of(i));
        if row >= MAX_REQUESTS {
            return Err(ModelError::TooManyRequests);
        }
        if batch.replicas.len() + set.len() > MAX_REPLICAS {
            return Err(ModelError::TooManyReplicas);
        }
        if !batch.bytes.is_empty() {
            // The last block, which need not be full, stays with the request.
            let bytes = blocks.saturating_mul(self.block_bytes).min(batch.bytes[i]);
            batch.bytes[i] -= bytes;
            batch.bytes.push(bytes);
        }
        batch.blocks[i] -= blocks;
        batch.blocks.push(blocks);
        batch.columns.push_from(row, &self.columns, i);
        batch.client_of.push(self.client(i));
        batch.replicas.extend_from_slice(set);
        batch.replica_ends.push(batch.replicas.len() as u32);
        Ok(row)
    }
}
