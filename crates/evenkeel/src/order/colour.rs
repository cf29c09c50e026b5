//! `colour`: the shortest order of a choice, by edge colouring.
//!
//! Paper 000 §2.1: one edge a block between its client and its server; a proper colouring with as many colours as
//! the largest degree gives each block its slot, and no order is shorter. Deviation: blocks are never expanded.
//! Parts of one common size are coloured as one edge each; parts of many sizes are ordered by preemptive open shop,
//! whose cost does not grow with bytes, and which may interrupt a transfer and resume it later.

use crate::graph::colouring;
use crate::graph::open_shop::{self, Cell};
use crate::model::{Batch, Choice, Part, Schedule, Transfer};

/// The shortest schedule for `choice`: as long as the busiest client or server is busy.
pub fn order(batch: &Batch, choice: &Choice) -> Schedule {
    let mut parts = choice.parts(batch).map(|p| p.blocks).filter(|&blocks| blocks > 0);
    let first = parts.next();
    match first {
        Some(size) if parts.any(|blocks| blocks != size) => order_sized(batch, choice),
        _ => order_equal(batch, choice, first.unwrap_or(1)),
    }
}

/// All parts have `size` blocks, or none at all.
fn order_equal(batch: &Batch, choice: &Choice, size: u64) -> Schedule {
    let edges = choice
        .parts(batch)
        .filter(|part| part.blocks > 0)
        .map(|part| (batch.client(part.request as usize).0, part.server.0));
    let colours = colouring::colour(edges, batch.n_clients(), batch.n_servers());
    let length = colours.iter().max().map_or(0, |&c| (u64::from(c) + 1) * size);
    let mut colours = colours.into_iter();
    let transfers = choice.parts(batch).map(|Part { request, server, blocks }| {
        let slot = if blocks > 0 { colours.next().unwrap_or(0) } else { 0 };
        Transfer { request, server, start: u64::from(slot) * size, blocks }
    });
    let mut transfers: Vec<Transfer> = transfers.collect();
    if !choice.split_off.is_empty() {
        transfers.sort_unstable_by_key(|t| (t.request, t.start));
    }
    Schedule { transfers, length }
}

fn order_sized(batch: &Batch, choice: &Choice) -> Schedule {
    let lanes = Lanes::new(batch, choice);
    let length = open_shop::length(&lanes.cells, batch.n_clients(), batch.n_servers());
    let mut transfers: Vec<Transfer> = Vec::with_capacity(lanes.parts.len());
    // The part that each lane is at, and how much of it was moved.
    let mut at: Vec<(u32, u64)> = lanes.first.iter().map(|&first| (first, 0)).collect();
    open_shop::schedule(
        &lanes.cells,
        batch.n_clients(),
        batch.n_servers(),
        length,
        |lane, mut start, mut amount| {
            let (next, moved) = &mut at[lane];
            while amount > 0 {
                let Part { request, server, blocks } = lanes.parts[*next as usize];
                let taken = amount.min(blocks - *moved);
                transfers.push(Transfer { request, server, start, blocks: taken });
                (start, amount, *moved) = (start + taken, amount - taken, *moved + taken);
                if *moved == blocks {
                    (*next, *moved) = (*next + 1, 0);
                }
            }
        },
    );
    let empty = choice.parts(batch).filter(|part| part.blocks == 0);
    transfers.extend(empty.map(|Part { request, server, blocks }| Transfer {
        request,
        server,
        start: 0,
        blocks,
    }));
    drop((lanes, at));
    let mut transfers = sorted_by(&transfers, batch.n_requests(), |t| t.request);
    for of_request in transfers.chunk_by_mut(|a, b| a.request == b.request) {
        of_request.sort_unstable_by_key(|t| (t.start, t.server));
    }
    join_adjacent(&mut transfers);
    Schedule { transfers, length }
}

/// Joins transfers that continue where the one before them ends.
fn join_adjacent(transfers: &mut Vec<Transfer>) {
    transfers.dedup_by(|next, kept| {
        let continues = (next.request, next.server) == (kept.request, kept.server)
            && next.start == kept.start + kept.blocks;
        if continues {
            kept.blocks += next.blocks;
        }
        continues
    });
}

/// All parts between one client and one server make one lane; they are moved one after the other.
struct Lanes {
    cells: Vec<Cell>,
    /// The first part of each lane.
    first: Vec<u32>,
    parts: Vec<Part>,
}

impl Lanes {
    fn new(batch: &Batch, choice: &Choice) -> Self {
        let ends = |part: &Part| (batch.client(part.request as usize), part.server);
        let parts: Vec<Part> = choice.parts(batch).filter(|part| part.blocks > 0).collect();
        let parts = sorted_by(&parts, batch.n_servers(), |part| ends(part).1.0);
        let parts = sorted_by(&parts, batch.n_clients(), |part| ends(part).0.0);
        let mut lanes = Self { cells: Vec::new(), first: Vec::new(), parts };
        for (i, part) in lanes.parts.iter().enumerate() {
            let (client, server) = ends(part);
            match lanes.cells.last_mut() {
                Some(cell) if (cell.row, cell.column) == (client.0, server.0) => {
                    cell.amount += part.blocks;
                }
                _ => {
                    let amount = part.blocks;
                    lanes.cells.push(Cell { row: client.0, column: server.0, amount });
                    lanes.first.push(i as u32);
                }
            }
        }
        lanes
    }
}

/// The items by ascending key below `n_keys`, equal keys in their order: one pass to count and one to place.
fn sorted_by<T: Copy>(items: &[T], n_keys: usize, key: impl Fn(&T) -> u32) -> Vec<T> {
    let Some(&any) = items.first() else { return Vec::new() };
    let mut next = vec![0_usize; n_keys];
    items.iter().for_each(|item| next[key(item) as usize] += 1);
    next.iter_mut().fold(0, |start, n| start + std::mem::replace(n, start));
    let mut sorted = vec![any; items.len()];
    for item in items {
        let place = &mut next[key(item) as usize];
        sorted[*place] = *item;
        *place += 1;
    }
    sorted
}
