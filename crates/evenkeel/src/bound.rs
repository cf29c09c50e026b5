//! How early any plan can end, and why: the proof that an answer carries.

use crate::model::{Batch, ClientId, ServerId};

/// A lower bound with its proof.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bound {
    /// No plan does better than this many blocks (on a server) or slots (in length).
    pub value: u64,
    /// What forces it.
    pub proof: Proof,
}

/// What forces a bound: anybody can recount it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Proof {
    /// The requests with all replicas among these servers share them, whatever is chosen: the bound is their
    /// blocks divided by the number of servers, rounded up. No server at all proves 0.
    Servers(Vec<ServerId>),
    /// This client has to receive all its blocks one after the other.
    Client(ClientId),
}

/// The client with the most blocks, the first of equals: no schedule is shorter than what it has to receive.
pub(crate) fn busiest_client(batch: &Batch) -> Option<(ClientId, u64)> {
    let blocks = batch.client_blocks();
    let most = *blocks.iter().max()?;
    let client = blocks.iter().position(|&b| b == most)?;
    Some((ClientId(client as u32), most))
}
