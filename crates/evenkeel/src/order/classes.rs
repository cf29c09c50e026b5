//! From classes of edges to rounds, shared by the simpler colourings.

use super::copies;
use crate::graph::classes::Edge;
use crate::model::{Batch, Choice, Cluster, Grant, Part};

/// The parts of a choice by class. The classes are computed from the edges and the numbers of clients and servers.
pub(super) fn of_classes(
    batch: &Batch,
    cluster: &Cluster,
    choice: &Choice,
    classes: impl FnOnce(&[Edge], [usize; 2]) -> Vec<u32>,
) -> Vec<Grant> {
    let ends = |part: Part| (batch.client(part.request as usize).0, part.server.0);
    let mut edges: Vec<Edge> = Vec::with_capacity(batch.n_requests());
    edges.extend(choice.parts(batch).map(|part| {
        let (client, server) = ends(part);
        Edge { client, server, blocks: part.blocks }
    }));
    let mut n = [batch.n_clients(), batch.n_servers()];
    if copies::has_slots(cluster) {
        let copies = copies::of_nodes(cluster, choice.parts(batch).map(ends));
        n = copies.each_ref().map(|copies| copies.n);
        let [clients, servers] = copies;
        for ((edge, client), server) in edges.iter_mut().zip(clients.of_edge).zip(servers.of_edge) {
            (edge.client, edge.server) = (client, server);
        }
    }
    let classes = classes(&edges, n);
    let mut grants: Vec<Grant> =
        choice.parts(batch).zip(classes).map(|(part, round)| Grant { round, part }).collect();
    grants.sort_by_key(|grant| grant.round);
    grants
}
