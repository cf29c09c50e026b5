//! Local search: the last server gives requests away as long as it can.
//!
//! It may give to a server that has to give in turn, and so on: a chain. A chain that returns to its start is a swap.
//! All servers of a chain must end up done earlier than the first one was, so the last server only ever gets earlier.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::graph::flow::balance::items_at;
use crate::graph::flow::pace::{Level, Paces};
use crate::model::{Batch, Choice, Cluster, ServerId};

/// The most servers in a chain that give.
const MAX_CHAIN: u32 = 6;
/// How many requests may be examined in addition to one for each replica in the batch, so that the search stays linear.
const MIN_EFFORT: usize = 1 << 18;

/// Moves requests until all servers are done by the time the last one was with the loads `before`, or the search gives
/// up. No server gets more than it can do by then plus the largest request.
pub(super) fn improve(batch: &Batch, cluster: &Cluster, before: &[u64], choice: &mut Choice) {
    let paces = Paces::new(cluster);
    let done = (0..).map(ServerId).zip(before).map(|(server, &load)| paces.done(server, load));
    let caps = paces.caps(done.max().unwrap_or(Level::ZERO));
    let largest = batch.sizes().into_iter().flatten().copied().max().unwrap_or(1);
    let loads = choice.loads(batch).into_iter().zip(caps);
    let nodes: Vec<Node> =
        loads.map(|(load, cap)| Node { load, cap, limit: cap.saturating_add(largest) }).collect();

    let can_move = |&(request, _): &(u32, ServerId)| {
        batch.blocks(request as usize) > 0 && batch.replicas().of(request as usize).len() > 1
    };
    let placed = (0..).zip(choice.servers.iter().copied()).filter(can_move);
    let mut counts = vec![0; nodes.len()];
    placed.clone().for_each(|(_, server)| counts[server.index()] += 1);
    let held = items_at(counts.into_iter(), placed);

    let effort = batch.replicas().flat().len() + MIN_EFFORT;
    let mut search = Search { batch, paces, nodes, held, late: BinaryHeap::new(), effort };
    search.run();
    for (server, held) in (0..).map(ServerId).zip(search.held) {
        held.into_iter().for_each(|request| choice.servers[request as usize] = server);
    }
}

/// A server and its load.
#[derive(Debug)]
struct Node {
    load: u64,
    /// It is late with more than this.
    cap: u64,
    /// It may not get more than this.
    limit: u64,
}

#[derive(Debug)]
struct Search<'a> {
    batch: &'a Batch,
    paces: Paces,
    nodes: Vec<Node>,
    /// The requests at each server that could be elsewhere.
    held: Vec<Vec<u32>>,
    /// The servers that are late, by when they are done. A server that has changed is queued again.
    late: BinaryHeap<(Level, Reverse<ServerId>)>,
    /// How many more requests may be examined.
    effort: usize,
}

impl Search<'_> {
    /// Always continues with the last server, until it has no chain. Short chains are tried first.
    fn run(&mut self) {
        (0..self.nodes.len() as u32).for_each(|server| self.queue(ServerId(server)));
        while let Some((done, Reverse(server))) = self.late.pop() {
            let is_current = self.done(server) == done;
            if is_current && !(1..=MAX_CHAIN).any(|n| self.give(server, done, n)) {
                break;
            }
        }
    }

    fn done(&self, server: ServerId) -> Level {
        self.paces.done(server, self.nodes[server.index()].load)
    }

    /// Whether a server may have this load and would be done with it before `done`.
    #[inline]
    fn fits(&self, server: ServerId, load: u64, done: Level) -> bool {
        load <= self.nodes[server.index()].limit && self.paces.is_done_before(server, load, done)
    }

    /// Queues a server again after its load has changed.
    fn queue(&mut self, server: ServerId) {
        let node = &self.nodes[server.index()];
        if node.load > node.cap {
            self.late.push((self.done(server), Reverse(server)));
        }
    }

    /// Gives one request away, so that `server` and the others in a chain of `n` that give are done before `done`.
    fn give(&mut self, server: ServerId, done: Level, n: u32) -> bool {
        for k in 0..self.held[server.index()].len() {
            let Some(effort) = self.effort.checked_sub(1) else { return false };
            self.effort = effort;
            let request = self.held[server.index()][k] as usize;
            let blocks = self.batch.blocks(request);
            if !self.fits(server, self.nodes[server.index()].load - blocks, done) {
                continue;
            }
            for &to in self.batch.replicas().of(request).iter().filter(|&&to| to != server) {
                let fits = self.fits(to, self.nodes[to.index()].load + blocks, done);
                if !fits && n == 1 {
                    continue;
                }
                self.shift(server, k, to);
                if fits || self.give(to, done, n - 1) {
                    self.queue(server);
                    self.queue(to);
                    return true;
                }
                // It is the last one there, and returns to its old place.
                self.shift(to, self.held[to.index()].len() - 1, server);
                let last = self.held[server.index()].len() - 1;
                self.held[server.index()].swap(k, last);
            }
        }
        false
    }

    /// Moves the `k`-th request of a server to the end of another server's list.
    fn shift(&mut self, from: ServerId, k: usize, to: ServerId) {
        let request = self.held[from.index()].swap_remove(k);
        let blocks = self.batch.blocks(request as usize);
        self.nodes[from.index()].load -= blocks;
        self.nodes[to.index()].load += blocks;
        self.held[to.index()].push(request);
    }
}
