//! `nearest`: the copy on the client's own host, otherwise in its rack, and so on.
//!
//! The default of HDFS (hence the baseline of paper 003) and of many mirrors. If no copy is known to be nearer than
//! another, a hash decides: a client prefers the same servers each time, as it would in a network, and each client has
//! its own preference.

use crate::draw::Ties;
use crate::model::{Batch, Choice, Cluster};

/// Serves each request from the replica nearest to its client.
pub fn select(batch: &Batch, cluster: &Cluster, ties: Ties) -> Choice {
    let servers = batch.replicas().iter().zip(batch.client_of()).map(|(set, &client)| {
        let nearest = set.iter().copied().min_by_key(|&server| {
            let distance = cluster.distance(client, server).unwrap_or(u32::MAX);
            (distance, ties.rank(client.0, server.0), server)
        });
        nearest.unwrap_or(set[0])
    });
    Choice::whole(servers.collect())
}

/// How many requests have no replica at a known distance from their client. For these, a hash picks any replica.
pub fn n_without_distance(batch: &Batch, cluster: &Cluster) -> usize {
    let is_unknown = |i: &usize| {
        let set = batch.replicas().of(*i);
        set.iter().all(|&server| cluster.distance(batch.client(*i), server).is_none())
    };
    (0..batch.n_requests()).filter(is_unknown).count()
}
