//! The answers: which replica serves how much of each request, and when.

use super::batch::fold;
use super::{Batch, Cluster, Fixed, Ratio, ServerId};

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

/// A part and the round in which it is served, as policies say that proceed round by round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Counted from 0.
    pub round: u32,
    /// What is served, and by whom.
    pub part: Part,
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
    /// Each request whole from one server.
    pub fn whole(servers: Vec<ServerId>) -> Self {
        Self { servers, split_off: Vec::new() }
    }

    /// What was granted, each request whole and once.
    pub fn granted(n_requests: usize, grants: &[Grant]) -> Self {
        debug_assert_eq!(grants.len(), n_requests);
        let mut servers = vec![ServerId(0); n_requests];
        grants.iter().for_each(|grant| servers[grant.part.request as usize] = grant.part.server);
        Self::whole(servers)
    }

    /// Whether it says for each request of the batch which of its replicas serve it.
    pub fn is_of(&self, batch: &Batch) -> bool {
        let holds = |request: usize, server: &ServerId| batch.replicas().of(request).contains(server);
        let of_request = |parts: &[Part]| {
            let request = parts[0].request as usize;
            let blocks = parts.iter().try_fold(0_u64, |sum, part| sum.checked_add(part.blocks));
            request < batch.n_requests()
                && blocks.is_some_and(|blocks| blocks < batch.blocks(request))
                && parts.iter().all(|part| holds(request, &part.server))
        };
        self.servers.len() == batch.n_requests()
            && self.servers.iter().enumerate().all(|(request, server)| holds(request, server))
            && self.split_off.is_sorted_by_key(|part| part.request)
            && self.split_off.chunk_by(|a, b| a.request == b.request).all(of_request)
    }

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

    /// When each server is done; 0 if it serves nothing.
    pub fn done(&self, batch: &Batch, cluster: &Cluster) -> Vec<Ratio> {
        (0..).map(ServerId).zip(self.loads(batch)).map(|(server, load)| cluster.done(server, load)).collect()
    }

    /// When the last server is done.
    pub fn last_done(&self, batch: &Batch, cluster: &Cluster) -> Ratio {
        self.done(batch, cluster).into_iter().max().unwrap_or(Ratio::ZERO)
    }

    /// The mean time at which a block is done if every server serves one after the other (paper 001's mean response time); 0
    /// if there are no blocks.
    pub fn mean_response(&self, batch: &Batch, cluster: &Cluster) -> f64 {
        let loads = self.loads(batch).into_iter().zip(cluster.servers());
        let sum = loads.fold(0.0, |sum, (load, server)| sum + server.sum_of_completions(load));
        sum / batch.total_blocks().max(1) as f64
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
    /// When it begins: a slot, or a time where servers are not all of speed 1.
    pub start: Fixed,
    /// Its blocks; not whole if it is interrupted within one, as it may be where speeds differ.
    pub blocks: Fixed,
}

impl Transfer {
    /// A number that tells this plan from others, the same on every machine.
    pub fn fingerprint(transfers: impl IntoIterator<Item = Transfer>) -> u64 {
        // Whole numbers stand for themselves.
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
    /// When the last one has ended.
    pub length: Ratio,
}
