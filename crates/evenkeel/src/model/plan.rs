//! The results: which replica serves how much of each request, and when.

use super::batch::fold;
use super::{Batch, Cluster, Fixed, Ratio, ServerId};

/// Some blocks of one request, served by one server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Part {
    /// The request's row in the batch.
    pub request: u32,
    /// The server that holds one of its replicas.
    pub server: ServerId,
    /// The number of its blocks.
    pub blocks: u64,
}

/// A part and the round in which it is served, for policies that proceed in rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The round, counted from 0.
    pub round: u32,
    /// The part that is served, and its server.
    pub part: Part,
}

/// Which replica serves each request.
///
/// Nearly all requests are served whole, so a choice is one server per request, plus the parts that other replicas take
/// from the few requests that were split.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// The server of each request, or of the blocks that `split_off` leaves of it.
    pub servers: Vec<ServerId>,
    /// Parts served elsewhere, by ascending request. Together they are less than the whole request.
    pub split_off: Vec<Part>,
}

impl Choice {
    /// A choice that serves each request whole from one server.
    pub fn whole(servers: Vec<ServerId>) -> Self {
        Self { servers, split_off: Vec::new() }
    }

    /// The choice made by grants, each request whole and once.
    pub fn granted(n_requests: usize, grants: &[Grant]) -> Self {
        debug_assert_eq!(grants.len(), n_requests);
        let mut servers = vec![ServerId(0); n_requests];
        grants.iter().for_each(|grant| servers[grant.part.request as usize] = grant.part.server);
        Self::whole(servers)
    }

    /// All parts of all requests, by ascending request.
    pub fn parts<'a>(&'a self, batch: &'a Batch) -> impl Iterator<Item = Part> + Clone + 'a {
        Parts { batch, servers: &self.servers, split_off: &self.split_off, next: 0 }
    }

    /// The blocks served by each server.
    pub fn loads(&self, batch: &Batch) -> Vec<u64> {
        let mut loads = vec![0; batch.n_servers()];
        for part in self.parts(batch) {
            loads[part.server.index()] += part.blocks;
        }
        loads
    }

    /// When each server is done; 0 if it serves nothing.
    pub fn done(&self, batch: &Batch, cluster: &Cluster) -> Vec<Ratio> {
        (0..).map(ServerId).zip(self.loads(batch)).map(|(server, load)| cluster.done(server, load)).collect()
    }

    /// When the last server is done.
    pub fn last_done(&self, batch: &Batch, cluster: &Cluster) -> Ratio {
        self.done(batch, cluster).into_iter().max().unwrap_or(Ratio::ZERO)
    }

    /// The mean completion time of a block if every server serves its blocks one after the other (paper 001's mean
    /// response time); 0 if there are no blocks.
    pub fn mean_response(&self, batch: &Batch, cluster: &Cluster) -> f64 {
        let loads = self.loads(batch).into_iter().zip(cluster.servers());
        let sum = loads.fold(0.0, |sum, (load, server)| sum + server.sum_of_completions(load));
        sum / batch.total_blocks().max(1) as f64
    }
}

/// Iterates over the parts of a choice.
#[derive(Clone)]
struct Parts<'a> {
    batch: &'a Batch,
    servers: &'a [ServerId],
    /// The parts of the last request and of those after it.
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
    /// When it starts: a slot, or a time if not all servers have speed 1.
    pub start: Fixed,
    /// The number of its blocks. It is not whole if the transfer is interrupted within a block, which may happen where
    /// speeds differ.
    pub blocks: Fixed,
}

impl Transfer {
    /// A hash that identifies this plan, the same on every machine.
    pub fn fingerprint(transfers: impl IntoIterator<Item = Transfer>) -> u64 {
        // Whole numbers hash as themselves.
        let hash = |n: Fixed| n.floor() ^ ((n.nanos() % 1_000_000_000) as u64).rotate_right(32);
        let rows = transfers.into_iter().map(|t| {
            fold([u64::from(t.request) << 32 | u64::from(t.server.0), hash(t.start), hash(t.blocks)])
        });
        fold(rows)
    }
}

/// When each transfer takes place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schedule {
    /// The transfers by request, then start.
    pub transfers: Vec<Transfer>,
    /// When the last transfer ends.
    pub length: Ratio,
}
