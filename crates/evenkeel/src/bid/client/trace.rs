//! Why a client bid where it did. Recorded only on request.

use super::{Choose, Client, Contact, State, requests_of};
use crate::model::{Fixed, ServerId};

/// A bid: which request, at which server, and over which others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// When the client bid.
    pub at_ns: u64,
    /// In which round.
    pub round: u32,
    /// The request's row in the batch.
    pub request: u32,
    /// The server.
    pub server: ServerId,
    /// All servers that could be asked for any pending request, including the chosen one.
    pub candidates: Vec<Candidate>,
}

/// A server at which a client could bid, as far as the client knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The server.
    pub server: ServerId,
    /// The client's oldest pending request there.
    pub request: u32,
    /// The workload that the server last reported; 0 if none. If the rules choose by workload, the lowest wins.
    pub workload: Fixed,
    /// Of equal workloads, the lowest of these wins; 0 if the rules draw at random.
    pub tie: u64,
}

/// What a client has done so far, for monitoring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests without a grant or an open bid.
    pub pending: usize,
    /// Bids without an answer.
    pub asked: usize,
    /// Requests that are granted, served or not.
    pub granted: usize,
    /// Requests that were served.
    pub served: u64,
    /// Bids that were made.
    pub bids: u64,
    /// Bids that were rejected.
    pub rejected: u64,
    /// Messages that were resent.
    pub resent: u64,
    /// Grants that were given up because their server was down or restarted.
    pub given_up: u64,
}

impl Client {
    /// What the client has done so far.
    pub fn counts(&self) -> Counts {
        let (asked, granted) = (self.n_asked as usize, self.won.len());
        Counts { pending: self.requests.len() - granted - asked, asked, granted, ..self.counts }
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

    /// Records a bid that is about to be made, if tracing is on.
    pub(super) fn note(&mut self, request: u32, server: u32) {
        if !self.trace.is_on() {
            return;
        }
        let mut oldest = vec![None; self.servers.len()];
        for (request, server) in requests_of(&self.requests, &self.replicas) {
            if self.requests[request as usize].state == State::Pending {
                oldest[server as usize].get_or_insert(request);
            }
        }
        let candidate = |(number, oldest): (u32, Option<u32>)| {
            let request = self.requests[oldest.filter(|_| self.can_be_asked(number))? as usize].row;
            let Contact { server, workload, .. } = self.servers[number as usize];
            let tie = match self.rules.choose {
                Choose::Lightest(ties) => ties.rank(self.id.0, server.0),
                Choose::Lot => 0,
            };
            Some(Candidate { server, request, workload, tie })
        };
        let candidates = (0..).zip(oldest).filter_map(candidate).collect();
        let request = self.requests[request as usize].row;
        let server = self.servers[server as usize].server;
        let (at_ns, round) = (self.now_ns, self.round);
        self.trace.push(Decision { at_ns, round, request, server, candidates });
    }
}
