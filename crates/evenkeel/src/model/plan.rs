//! The answers: which replica serves how much of each request, and when.

use super::batch::fold;
use super::{Batch, ServerId};

/// Some blocks of one request, served by one server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Part {
    /// The request's row in the batch.
    pub request: u32,
    /// The server that holds one of its replicas.
    pub server: ServerId,
    /// How many of its blocks.
    pub blocks: u64,
}

/// Which replica serves each request.
///
/// Nearly all requests are served whole, so a choice is one server a request, and beside it the parts that
/// other replicas take from the few that were split.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// The server that serves the request, or what `split_off` leaves of it.
    pub servers: Vec<ServerId>,
    /// Parts served elsewhere, by ascending request; less than the whole request in sum.
    pub split_off: Vec<Part>,
}

impl Choice {
    /// Each part of each request, by ascending request.
    pub fn parts<'a>(&'a self, batch: &'a Batch) -> impl Iterator<Item = Part> + Clone + 'a {
        let mut split_off = self.split_off.as_slice();
        self.servers.iter().enumerate().flat_map(move |(i, &server)| {
            let n = split_off.iter().take_while(|p| p.request as usize == i).count();
            let (mine, rest) = split_off.split_at(n);
            split_off = rest;
            let moved: u64 = mine.iter().map(|p| p.blocks).sum();
            let main = Part { request: i as u32, server, blocks: batch.blocks(i) - moved };
            std::iter::once(main).chain(mine.iter().copied())
        })
    }

    /// Blocks served by each server.
    pub fn loads(&self, batch: &Batch) -> Vec<u64> {
        let mut loads = vec![0; batch.n_servers()];
        for part in self.parts(batch) {
            loads[part.server.index()] += part.blocks;
        }
        loads
    }
}

/// One uninterrupted transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Transfer {
    /// The request's row in the batch.
    pub request: u32,
    /// The server that sends.
    pub server: ServerId,
    /// The slot in which it begins.
    pub start: u64,
    /// Its blocks, one a slot.
    pub blocks: u64,
}

impl Transfer {
    /// A number that tells this plan from others, the same on every machine.
    pub fn fingerprint(transfers: impl IntoIterator<Item = Transfer>) -> u64 {
        let rows = transfers
            .into_iter()
            .map(|t| fold([u64::from(t.request) << 32 | u64::from(t.server.0), t.start, t.blocks]));
        fold(rows)
    }
}

/// When each transfer takes place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schedule {
    /// The transfers by request, then start.
    pub transfers: Vec<Transfer>,
    /// The slot after the last one used.
    pub length: u64,
}
