//! What a piece of advice changes, and the batch and cluster after the change.

use crate::model::{
    Batch, Client, ClientId, Cluster, ExtraCopy, MAX_REPLICAS, MAX_REQUESTS, ModelError, Move, ServerId,
    Speed,
};

/// A change to a batch or to its cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Some blocks get one more copy each.
    Copies(Vec<ExtraCopy>),
    /// A server gets another speed.
    Speed(ServerId, Speed),
    /// Some clients get other numbers of slots.
    Slots(Vec<(ClientId, u32)>),
    /// Some blocks are fetched by other clients.
    Moves {
        /// Which blocks go to which client.
        moves: Vec<Move>,
        /// The name of one more client with one slot, added after all others.
        new_client: Option<String>,
    },
}

impl Change {
    /// The batch and the cluster after the change. Fails if it does not fit them.
    pub fn apply(&self, batch: &Batch, cluster: &Cluster) -> Result<(Batch, Cluster), ModelError> {
        let (mut servers, mut clients) = (cluster.servers().to_vec(), cluster.clients().to_vec());
        let batch = match self {
            Self::Copies(copies) => {
                check_copies(batch, copies)?;
                let copied = batch.with_copies(copies);
                without_emptied(batch, copied)
            }
            Self::Speed(server, speed) => {
                let unknown = ModelError::UnfitChange("a server that gets faster is not in the batch");
                servers.get_mut(server.index()).ok_or(unknown)?.speed = *speed;
                batch.clone()
            }
            Self::Slots(slots) => {
                for &(client, slots) in slots {
                    let unknown = ModelError::UnfitChange("a client that gets slots is not in the batch");
                    clients.get_mut(client.index()).ok_or(unknown)?.slots = slots;
                }
                batch.clone()
            }
            Self::Moves { moves, new_client } => {
                clients.extend(new_client.as_ref().map(|_| Client::default()));
                batch.with_moves(moves, new_client.as_deref())?
            }
        };
        let cluster = cluster.with_nodes(&batch, servers, clients)?;
        Ok((batch, cluster))
    }
}

/// Checks that copies are of existing blocks, on servers that do not hold them.
fn check_copies(batch: &Batch, copies: &[ExtraCopy]) -> Result<(), ModelError> {
    let mut left: Vec<u64> = (0..batch.n_requests()).map(|i| batch.blocks(i)).collect();
    let mut n_replicas = batch.replicas().flat().len();
    for copy in copies {
        let i = copy.request as usize;
        if i >= batch.n_requests() || copy.to.index() >= batch.n_servers() {
            return Err(ModelError::UnfitChange("a request or server of a copy is not in the batch"));
        }
        let set = batch.replicas().of(i);
        if copy.blocks == 0 || copy.blocks > left[i] || set.contains(&copy.to) {
            return Err(ModelError::UnfitChange(
                "a request has fewer blocks than are to be copied, or the server has them",
            ));
        }
        left[i] -= copy.blocks;
        n_replicas += set.len() + 1;
    }
    match (batch.n_requests() + copies.len() > MAX_REQUESTS, n_replicas > MAX_REPLICAS) {
        (true, _) => Err(ModelError::TooManyRequests),
        (_, true) => Err(ModelError::TooManyReplicas),
        _ => Ok(()),
    }
}

/// The changed batch without the requests that have no blocks left.
fn without_emptied(original: &Batch, changed: Batch) -> Batch {
    let is_emptied = |i: usize| i < original.n_requests() && original.blocks(i) > 0 && changed.blocks(i) == 0;
    let kept: Vec<u32> = (0..changed.n_requests()).filter(|&i| !is_emptied(i)).map(|i| i as u32).collect();
    if kept.len() == changed.n_requests() { changed } else { changed.subset(&kept) }
}
