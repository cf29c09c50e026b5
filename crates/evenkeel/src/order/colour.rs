//! `colour`: the shortest order of a choice, by edge colouring.
//!
//! Paper 000 §2.1: one edge per block, between its client and its server. A proper colouring with as many colours as
//! the largest degree gives each block its slot, and no order is shorter. Deviations: blocks are never expanded. Parts
//! of one common size are coloured as one edge each. Everything else is ordered by preemptive open shop (`lanes`),
//! whose cost does not grow with bytes, and which may interrupt a transfer and resume it later: parts of many sizes,
//! servers that differ in speed or have a backlog, and slots that must share blocks. A node with several slots is
//! treated as several nodes.

use super::{copies, lanes};
use crate::graph::colouring;
use crate::graph::flow::pace::{Level, time};
use crate::model::{Batch, Choice, Cluster, Fixed, Part, Schedule, Transfer};

/// A short schedule for `choice`. It is the shortest where all servers have the same speed and no backlog.
pub fn order(batch: &Batch, cluster: &Cluster, choice: &Choice) -> Schedule {
    let mut parts = choice.parts(batch).map(|p| p.blocks).filter(|&blocks| blocks > 0);
    let first = parts.next();
    let is_one_size = first.is_none_or(|size| parts.all(|blocks| blocks == size));
    // Several slots share the blocks of a part.
    let is_one_edge_a_part =
        is_one_size && (!copies::has_slots(cluster) || first.is_none_or(|size| size == 1));
    let is_plain = is_one_edge_a_part && !cluster.has_backlogs() && cluster.max_concurrent().is_none();
    match cluster.common_speed() {
        Some(speed) if is_plain && fills_slots(batch, cluster, choice) => {
            order_equal(batch, cluster, choice, first.unwrap_or(1), speed.millionths())
        }
        _ => lanes::order(batch, cluster, choice),
    }
}

/// Whether no schedule of single blocks is shorter than one in which each block takes a whole slot.
fn fills_slots(batch: &Batch, cluster: &Cluster, choice: &Choice) -> bool {
    if cluster.is_slotted() || !copies::has_slots(cluster) {
        return true;
    }
    let mut blocks_of_client = vec![0; batch.n_clients()];
    (0..batch.n_requests()).for_each(|i| blocks_of_client[batch.client(i).index()] += batch.blocks(i));
    let clients = blocks_of_client.into_iter().zip(cluster.clients().iter().map(|client| client.slots));
    let servers = choice.loads(batch).into_iter().zip(cluster.servers().iter().map(|server| server.slots));
    let nodes: Vec<(u64, u64)> =
        clients.chain(servers).map(|(blocks, slots)| (blocks, slots.into())).collect();
    let n_slots = nodes.iter().map(|(blocks, slots)| blocks.div_ceil(*slots)).max().unwrap_or(0);
    n_slots <= 1 || nodes.iter().any(|&(blocks, slots)| blocks == n_slots * slots)
}

/// Orders parts that all have `size` blocks, or none at all.
fn order_equal(batch: &Batch, cluster: &Cluster, choice: &Choice, size: u64, speed: u64) -> Schedule {
    let edges = choice
        .parts(batch)
        .filter(|part| part.blocks > 0)
        .map(|part| (batch.client(part.request as usize).0, part.server.0));
    let colours = if copies::has_slots(cluster) {
        let [clients, servers] = copies::of_nodes(cluster, edges);
        let edges = clients.of_edge.iter().copied().zip(servers.of_edge.iter().copied());
        colouring::colour(edges, clients.n, servers.n)
    } else {
        colouring::colour(edges, batch.n_clients(), batch.n_servers())
    };
    let length = colours.iter().max().map_or(0, |&c| (u64::from(c) + 1) * size);
    let mut colours = colours.into_iter();
    let start = |slot: u64| match speed {
        1_000_000 => Fixed::from(slot),
        _ => time(Level::new(slot.into(), speed)).rounded(),
    };
    let transfers = choice.parts(batch).map(|Part { request, server, blocks }| {
        let slot = if blocks > 0 { colours.next().unwrap_or(0) } else { 0 };
        Transfer { request, server, start: start(u64::from(slot) * size), blocks: blocks.into() }
    });
    let mut transfers: Vec<Transfer> = transfers.collect();
    if !choice.split_off.is_empty() {
        transfers.sort_unstable_by_key(|t| (t.request, t.start));
    }
    Schedule { transfers, length: time(Level::new(length.into(), speed)) }
}
