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
        Parts { batch, servers: &self.servers, split_off: &self.split_off, next: 0 }
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

/// Goes through the parts of a choice.
#[derive(Clone)]
struct Parts<'a> {
    batch: &'a Batch,
    servers: &'a [ServerId],
    /// Those of the last request and after it.
    split_off: &'a [Part],
    next: usize,
}

impl Iterator for Parts<'_> {
    type Item = Part;

    fn next(&mut self) -> Option<Part> {
        if let [part, rest @ ..] = self.split_off
            && (part.request as usize) < self.next
        {
            self.split_off = rest;
            return Some(*part);
        }
        let request = self.next;
        let server = *self.servers.get(request)?;
        self.next += 1;
        let split_off = self.split_off.iter().take_while(|part| part.request as usize == request);
        let blocks = self.batch.blocks(request) - split_off.map(|part| part.blocks).sum::<u64>();
        Some(Part { request: request as u32, server, blocks })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.servers.len() - self.next + self.split_off.len();
        (left, Some(left))
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
