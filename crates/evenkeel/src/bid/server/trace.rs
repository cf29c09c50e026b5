//! Why a server granted what it did. Recorded only on request.

use super::{Bid, Favour, Server};
use crate::model::ClientId;

/// The end of a round, or of a pass of it: which bids were granted, and over which others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// When the server decided.
    pub at_ns: u64,
    /// In which round.
    pub round: u32,
    /// How many of the candidates were granted: the first ones.
    pub n_granted: usize,
    /// All bids that were decided.
    pub candidates: Vec<Candidate>,
}

/// A bid that waited for the decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The client.
    pub client: ClientId,
    /// The client's number for the request.
    pub request: u32,
    /// Its size.
    pub blocks: u64,
    /// Blocks that the client has not been granted yet. If the rules favour the highest degree, the highest wins.
    pub degree: u64,
    /// Of equal degrees, the lowest of these wins; 0 if ties are drawn at random.
    pub tie: u64,
}

/// What a server has done so far, for monitoring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Clients that it knows.
    pub clients: usize,
    /// Bids that wait for the end of the round.
    pub waiting: usize,
    /// Grants that are not served.
    pub open: usize,
    /// Bids that were granted.
    pub granted: u64,
    /// Bids that were rejected.
    pub rejected: u64,
    /// Granted requests that were served.
    pub served: u64,
    /// Grants that were dropped because their client left or gave them up.
    pub dropped: u64,
    /// Messages that were meant for an earlier run of the server.
    pub outdated: u64,
}

impl Server {
    /// What the server has done so far.
    pub fn counts(&self) -> Counts {
        let (clients, waiting, open) = (self.customers.len(), self.open.len(), self.granted.len());
        Counts { clients, waiting, open, ..self.counts }
    }

    /// Keeps the latest `most` decisions from now on, until they are [taken](Self::take_decisions). With 0, the initial
    /// value, keeps none.
    pub fn trace(&mut self, most: usize) {
        self.trace.keep(most);
    }

    /// Removes and returns the recorded decisions, oldest first.
    pub fn take_decisions(&mut self) -> Vec<Decision> {
        self.trace.take()
    }

    /// Records which bids are granted, if tracing is on. They come first.
    pub(super) fn note(&mut self, at_ns: u64, round: u32, bids: &[Bid], n_granted: usize) {
        if !self.trace.is_on() || bids.is_empty() {
            return;
        }
        let candidate = |bid: &Bid| {
            let client = bid.link.client;
            let tie = match self.rules.favour {
                Favour::HighestDegree(ties) => ties.rank(self.id.0, client.0),
                Favour::HighestDegreeThenLot | Favour::Lot => 0,
            };
            Candidate { client, request: bid.request, blocks: bid.blocks, degree: bid.degree, tie }
        };
        let candidates = bids.iter().map(candidate).collect();
        self.trace.push(Decision { at_ns, round, n_granted, candidates });
    }
}
