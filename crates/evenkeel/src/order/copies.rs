//! Treats a node with several slots as several nodes with one slot.

use crate::model::Cluster;

/// Whether any node has several slots.
pub(super) fn has_slots(cluster: &Cluster) -> bool {
    cluster.clients().iter().any(|c| c.slots > 1) || cluster.servers().iter().any(|s| s.slots > 1)
}

/// The ends of edges between clients and servers: copies of the clients, and copies of the servers.
pub(super) fn of_nodes(cluster: &Cluster, edges: impl Iterator<Item = (u32, u32)> + Clone) -> [Copies; 2] {
    let client_slots: Vec<u32> = cluster.clients().iter().map(|c| c.slots).collect();
    let server_slots: Vec<u32> = cluster.servers().iter().map(|s| s.slots).collect();
    let clients = Copies::new(edges.clone().map(|edge| edge.0), &client_slots);
    let servers = Copies::new(edges.map(|edge| edge.1), &server_slots);
    [clients, servers]
}

/// The ends of edges, where each node with several slots is spread evenly over as many copies.
pub(super) struct Copies {
    pub(super) of_edge: Vec<u32>,
    pub(super) n: usize,
}

impl Copies {
    fn new(ends: impl Iterator<Item = u32> + Clone, slots: &[u32]) -> Self {
        let mut degrees = vec![0; slots.len()];
        ends.clone().for_each(|node| degrees[node as usize] += 1);
        // More copies than edges would stay unused.
        let copies = degrees.iter().zip(slots).map(|(&degree, &slots)| slots.min(degree));
        let firsts: Vec<u32> =
            copies.scan(0, |next, copies| Some(std::mem::replace(next, *next + copies))).collect();
        let n = firsts.iter().zip(&degrees).zip(slots).map(|((first, &d), &s)| first + s.min(d)).max();
        let mut seen = vec![0; slots.len()];
        let of_edge = ends
            .map(|node| {
                let node = node as usize;
                let copy = firsts[node] + seen[node] % slots[node].min(degrees[node]);
                seen[node] += 1;
                copy
            })
            .collect();
        Self { of_edge, n: n.unwrap_or(0) as usize }
    }
}
