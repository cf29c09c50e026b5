//! The quick start for balancing: each item to its least loaded replica, then a few sweeps of single moves.

use crate::model::{Replicas, ServerId};

/// Sweeps of single moves after the first placement: more gain little, the flow finishes the rest.
const SWEEPS: usize = 2;
/// So many items are placed by the same loads: nearly as even, and the processor need not wait for each.
const AT_ONCE: usize = 8;

/// Places each item whole at one of its replicas; returns where, and the loads.
///
/// Sweeps while some load is above `goal`.
pub(super) fn roughly_level(
    replicas: Replicas<'_>,
    size: impl Fn(usize) -> u64,
    n_servers: usize,
    goal: u64,
) -> (Vec<ServerId>, Vec<u64>) {
    // Sets of a known width compile to straight code.
    let flat = replicas.flat();
    match replicas.width() {
        Some(2) => place(flat.as_chunks::<2>().0.iter().map(|s| &s[..]), size, n_servers, goal),
        Some(3) => place(flat.as_chunks::<3>().0.iter().map(|s| &s[..]), size, n_servers, goal),
        _ => place(replicas.iter(), size, n_servers, goal),
    }
}

fn place<'a>(
    mut sets: impl ExactSizeIterator<Item = &'a [ServerId]> + Clone,
    size: impl Fn(usize) -> u64,
    n_servers: usize,
    goal: u64,
) -> (Vec<ServerId>, Vec<u64>) {
    let all_sets = sets.clone();
    let mut loads = vec![0; n_servers];
    let mut at = vec![ServerId(0); sets.len()];
    for (k, at) in at.chunks_mut(AT_ONCE).enumerate() {
        for (at, set) in at.iter_mut().zip(&mut sets) {
            *at = least_loaded(set, &loads);
        }
        for (i, at) in at.iter().enumerate() {
            loads[at.index()] += size(k * AT_ONCE + i);
        }
    }
    for _ in 0..SWEEPS {
        if loads.iter().all(|&load| load <= goal) {
            break;
        }
        for (i, (set, at)) in all_sets.clone().zip(&mut at).enumerate() {
            let (here, there) = (loads[at.index()], least(set, &loads));
            let size = size(i);
            if there < here && size < here - there {
                loads[at.index()] = here - size;
                *at = least_loaded(set, &loads);
                loads[at.index()] += size;
            }
        }
    }
    (at, loads)
}

/// The least load. Nearly all that a sweep does, and without a branch that the processor would have to guess.
#[inline]
fn least(set: &[ServerId], loads: &[u64]) -> u64 {
    set.iter().map(|server| loads[server.index()]).fold(u64::MAX, u64::min)
}

/// The server with the least load, the first of equals.
#[inline]
fn least_loaded(set: &[ServerId], loads: &[u64]) -> ServerId {
    let mut best = set[0];
    let mut least = loads[best.index()];
    for &server in &set[1..] {
        let load = loads[server.index()];
        best = if load < least { server } else { best };
        least = least.min(load);
    }
    best
}
