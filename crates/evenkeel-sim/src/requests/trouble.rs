//! What happens between the executor and the world beside servers: transfers report how far they are, messages get lost,
//! clients change their minds or die.

use evenkeel::draw::{Draw, Seeded};
use evenkeel::run::TransferId;

use super::{Requests, View};
use crate::chance::sub_seed;

/// How much of it there is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trouble {
    /// The share of messages that get lost between the executor and servers: that something is to start, or is done.
    pub lost: f64,
    /// After so long what was not heard of counts as failed.
    pub timeout_ns: u64,
    /// The share of requests that their clients withdraw.
    pub cancelled: f64,
    /// The share of clients that die.
    pub dead_clients: f64,
    /// How often transfers under way report how far they are; never if none.
    pub progress_ns: Option<u64>,
}

impl Default for Trouble {
    /// There is none.
    fn default() -> Self {
        Self { lost: 0.0, timeout_ns: 5_000_000_000, cancelled: 0.0, dead_clients: 0.0, progress_ns: None }
    }
}

/// Something that happens to a client or its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Incident {
    /// A request is withdrawn, if it is still open.
    Cancelled {
        /// Its row.
        request: u32,
    },
    /// A client dies.
    Died {
        /// Which one.
        client: u32,
    },
}

/// A message between the executor and a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// A transfer is to start.
    Start,
    /// It is done.
    Done,
}

impl Trouble {
    /// Whether there is any.
    pub fn is_any(&self) -> bool {
        self.lost > 0.0 || self.cancelled > 0.0 || self.dead_clients > 0.0
    }

    /// Whether a message about a transfer gets lost; the same whoever asks, and in whatever order.
    pub fn loses(&self, seed: u64, transfer: TransferId, message: Message) -> bool {
        let which = transfer.0 << 1 | u64::from(message == Message::Done);
        self.lost > 0.0 && Seeded::new(sub_seed(seed, which)).unit() < self.lost
    }

    /// What happens to clients and their requests, in order of time: within as long as all takes at least.
    pub fn incidents(&self, requests: &Requests, view: &View, seed: u64) -> Vec<(u64, Incident)> {
        let mut incidents = Vec::new();
        if self.cancelled > 0.0 || self.dead_clients > 0.0 {
            let mut draw = Seeded::new(sub_seed(seed, u64::MAX));
            let span_ns = view.bound_ns(requests);
            let mut when = |share: f64, from_ns: u64| {
                let (is_hit, at) = (draw.unit() < share, draw.unit());
                is_hit.then(|| from_ns.saturating_add((at * span_ns as f64) as u64))
            };
            for request in 0..requests.batch.n_requests() as u32 {
                let at_ns = when(self.cancelled, requests.arrival_ns(request as usize));
                incidents.extend(at_ns.map(|at_ns| (at_ns, Incident::Cancelled { request })));
            }
            for client in 0..requests.batch.n_clients() as u32 {
                let at_ns = when(self.dead_clients, 0);
                incidents.extend(at_ns.map(|at_ns| (at_ns, Incident::Died { client })));
            }
            incidents.sort_by_key(|&(at_ns, _)| at_ns);
        }
        incidents
    }
}
