//! `equi`: every server gets an equal share; those that could serve the least come first.
//!
//! EQUI of paper 001 §3.1. It deviates where the listing cannot be intended. The share is rounded up: rounded down it
//! is 0 with fewer requests than servers, and the loop never ends. Giving a request away counts for all its replicas,
//! not for the chosen server alone, which would hand out shared requests twice. Only servers that can serve something
//! now count. A round lasts until each of them has been served once. The paper does not say which of its requests a
//! server gets: here the oldest or, as an option ([`Pick::FewestReplicas`], `equi-fewest`), those with the fewest
//! servers left in this round. Shares are in blocks, and a request that does not fit in the rest of a share waits,
//! unless the share is still whole.

use crate::graph::sets::bits::Bits;
use crate::graph::sets::heap::Heap;
use crate::graph::sets::holdings::Holdings;
use crate::model::{Batch, Choice, ServerId};

/// Which of the requests that it could serve a server gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pick {
    /// The oldest.
    Oldest,
    /// Those that the fewest other servers could still take in this round.
    FewestReplicas,
}

/// How the share is rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// Up.
    Up,
    /// Down, but at least 1.
    Down,
}

/// Gives every server its share, round by round.
pub fn select(batch: &Batch, pick: Pick, rounding: Rounding) -> Choice {
    rounds(batch, pick, rounding).0
}

/// As [`select`], and returns the number of rounds.
pub fn rounds(batch: &Batch, pick: Pick, rounding: Rounding) -> (Choice, u32) {
    let mut equi = Equi::new(batch);
    let mut n_rounds = 0;
    while equi.pending > 0 {
        equi.round(pick, rounding);
        n_rounds += 1;
    }
    (Choice::whole(equi.servers), n_rounds)
}

struct Equi<'a> {
    batch: &'a Batch,
    holdings: Holdings,
    /// The first position in each server's list that may be pending.
    first: Vec<u32>,
    servers: Vec<ServerId>,
    given: Bits,
    /// Blocks that are not assigned yet.
    pending: u64,
    /// How many of the pending blocks each server could serve.
    could_serve: Vec<u64>,
    /// The servers that could serve more before the last share was given, and a flag for each server that is one of
    /// them.
    changed: Vec<u32>,
    is_changed: Vec<bool>,
}

impl<'a> Equi<'a> {
    fn new(batch: &'a Batch) -> Self {
        let holdings = Holdings::new(batch.replicas(), batch.n_servers());
        let mut could_serve = vec![0; batch.n_servers()];
        for (i, set) in batch.replicas().iter().enumerate() {
            set.iter().for_each(|server| could_serve[server.index()] += batch.blocks(i));
        }
        let mut given = Bits::none(batch.n_requests());
        // Empty requests add no load and stay with their first replica.
        (0..batch.n_requests()).filter(|&i| batch.blocks(i) == 0).for_each(|i| given.insert(i as u32));
        Self {
            batch,
            first: (0..batch.n_servers() as u32).map(|s| holdings.range(ServerId(s)).start as u32).collect(),
            holdings,
            servers: batch.replicas().iter().map(|set| set[0]).collect(),
            given,
            pending: batch.total_blocks(),
            could_serve,
            changed: Vec::new(),
            is_changed: vec![false; batch.n_servers()],
        }
    }

    fn round(&mut self, pick: Pick, rounding: Rounding) {
        let mut waiting = Heap::default();
        let active = (0..).zip(&self.could_serve).filter(|&(_, &could_serve)| could_serve > 0);
        let n_active = active.clone().count().max(1) as u64;
        active.for_each(|(server, &could_serve)| waiting.set(server, (could_serve, server)));
        let share = match rounding {
            Rounding::Up => self.pending.div_ceil(n_active),
            Rounding::Down => (self.pending / n_active).max(1),
        };
        let mut n_left = match pick {
            Pick::Oldest => Vec::new(),
            // Anything above this counts as many.
            Pick::FewestReplicas => {
                self.batch.replicas().iter().map(|set| set.len().min(255) as u8).collect()
            }
        };
        while let Some(((could_serve, _), server)) = waiting.pop() {
            if could_serve == 0 {
                continue;
            }
            match pick {
                Pick::Oldest => self.give_oldest(ServerId(server), share),
                Pick::FewestReplicas => self.give_fewest(ServerId(server), share, &mut n_left),
            }
            // All at once: otherwise the heap would change at every request.
            for server in self.changed.drain(..) {
                self.is_changed[server as usize] = false;
                if waiting.contains(server) {
                    waiting.set(server, (self.could_serve[server as usize], server));
                }
            }
        }
    }

    fn give_oldest(&mut self, server: ServerId, share: u64) {
        let end = self.holdings.range(server).end as u32;
        let (mut at, mut given) = (self.first[server.index()], 0);
        while at < end && given < share {
            let request = self.holdings.flat()[at as usize];
            if !self.given.has(request) {
                let blocks = self.batch.blocks(request as usize);
                if given > 0 && blocks > share - given {
                    break;
                }
                self.give(request, server);
                given += blocks;
            }
            at += 1;
        }
        self.first[server.index()] = at;
    }

    fn give_fewest(&mut self, server: ServerId, share: u64, n_left: &mut [u8]) {
        let own = self.holdings.of(server).iter().copied();
        let mut pending: Vec<u32> = own.filter(|&request| !self.given.has(request)).collect();
        pending.sort_by_cached_key(|&request| n_left[request as usize]);
        let mut given = 0;
        for request in pending {
            let blocks = self.batch.blocks(request as usize);
            if given < share && (given == 0 || blocks <= share - given) {
                self.give(request, server);
                given += blocks;
            } else {
                given = share;
                n_left[request as usize] = n_left[request as usize].saturating_sub(1);
            }
        }
    }

    fn give(&mut self, request: u32, server: ServerId) {
        self.given.insert(request);
        self.servers[request as usize] = server;
        let blocks = self.batch.blocks(request as usize);
        self.pending -= blocks;
        for replica in self.batch.replicas().of(request as usize) {
            self.could_serve[replica.index()] -= blocks;
            if !std::mem::replace(&mut self.is_changed[replica.index()], true) {
                self.changed.push(replica.0);
            }
        }
    }
}
