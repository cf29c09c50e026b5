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
    let Lanes { cells, next: mut next_of, mut parts } = Lanes::new(batch, choice);
    let length = open_shop::length(&cells, batch.n_clients(), batch.n_servers());
    let mut transfers: Vec<Transfer> = Vec::with_capacity(parts.len());
    let emit = |lane: usize, mut start, mut amount| {
        let next = &mut next_of[lane];
        while amount > 0 {
            // What is left of a part stays in its place.
            let Part { request, server, blocks } = &mut parts[*next as usize];
            let taken = (*blocks).min(amount);
            transfers.push(Transfer { request: *request, server: *server, start, blocks: taken });
            (start, amount, *blocks) = (start + taken, amount - taken, *blocks - taken);
            *next += u32::from(*blocks == 0);
        }
    };
    open_shop::schedule(cells, batch.n_clients(), batch.n_servers(), length, emit);
    drop((next_of, parts));
    let empty = choice.parts(batch).filter(|part| part.blocks == 0);
    transfers.extend(empty.map(|Part { request, server, blocks }| Transfer {
        request,
        server,
        start: 0,
        blocks,
    }));
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
    /// The next part of each lane.
    next: Vec<u32>,
    parts: Vec<Part>,
}

impl Lanes {
    fn new(batch: &Batch, choice: &Choice) -> Self {
        let ends = |part: &Part| (batch.client(part.request as usize), part.server);
        let mut parts: Vec<Part> = choice.parts(batch).filter(|part| part.blocks > 0).collect();
        parts = sorted_by(&parts, batch.n_servers(), |part| ends(part).1.0);
        parts = sorted_by(&parts, batch.n_clients(), |part| ends(part).0.0);
        let mut lanes = Self { cells: Vec::new(), next: Vec::new(), parts };
        for (i, part) in lanes.parts.iter().enumerate() {
            let (client, server) = ends(part);
            match lanes.cells.last_mut() {
                Some(cell) if (cell.row, cell.column) == (client.0, server.0) => {
                    cell.amount += part.blocks;
                }
                _ => {
                    let amount = part.blocks;
                    lanes.cells.push(Cell { row: client.0, column: server.0, amount });
                    lanes.next.push(i as u32);
                }
            }
        }
        lanes
    }
}

/// The items by ascending key below `n_keys`, equal keys in their order: one pass to count and one to place.
fn sorted_by<T: Copy>(items: &[T], n_keys: usize, key: impl Fn(&T) -> u32) -> Vec<T> {
    let Some(&any) = items.first() else { return Vec::new() };
    let mut next = vec![0_u32; n_keys];
    items.iter().for_each(|item| next[key(item) as usize] += 1);
    next.iter_mut().fold(0, |start, n| start + std::mem::replace(n, start));
    let mut sorted = vec![any; items.len()];
    for item in items {
        let place = &mut next[key(item) as usize];
        sorted[*place as usize] = *item;
        *place += 1;
    }
    sorted
}
