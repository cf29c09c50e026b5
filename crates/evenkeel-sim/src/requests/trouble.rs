//! Faults between the executor and the world, apart from those of servers: messages get lost, and clients cancel
//! requests or die. Transfers also report their progress here.

use evenkeel::draw::{Draw, Seeded};
use evenkeel::run::TransferId;

use super::{Requests, View};
use crate::chance::sub_seed;

/// The amount of trouble.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trouble {
    /// Share of the messages between the executor and servers that get lost: orders to start, and reports of
    /// completion.
    pub lost: f64,
    /// Time after which a transfer without news counts as failed.
    pub timeout_ns: u64,
    /// Share of requests that their clients cancel.
    pub cancelled: f64,
    /// Share of clients that die.
    pub dead_clients: f64,
    /// How often transfers in flight report their progress; never if none.
    pub progress_ns: Option<u64>,
}

impl Default for Trouble {
    /// No trouble.
    fn default() -> Self {
        Self { lost: 0.0, timeout_ns: 5_000_000_000, cancelled: 0.0, dead_clients: 0.0, progress_ns: None }
    }
}

/// An incident to a client or its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Incident {
    /// A request is cancelled, if it is still open.
    Cancelled {
        /// Its row.
        request: u32,
    },
    /// A client dies.
    Died {
        /// Which client.
        client: u32,
    },
}

/// A message between the executor and a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// An order to start a transfer.
    Start,
    /// A report that a transfer is done.
    Done,
}

impl Trouble {
    /// Whether there is any trouble.
    pub fn is_any(&self) -> bool {
        self.lost > 0.0 || self.cancelled > 0.0 || self.dead_clients > 0.0
    }

    /// Whether a message about a transfer gets lost. The result depends on the arguments alone, not on earlier calls.
    pub fn loses(&self, seed: u64, transfer: TransferId, message: Message) -> bool {
        let which = transfer.0 << 1 | u64::from(message == Message::Done);
        self.lost > 0.0 && Seeded::new(sub_seed(seed, which)).unit() < self.lost
    }

    /// The incidents to clients and their requests, in order of time. With a lower bound B on the makespan, a request
    /// is cancelled within B of its arrival, and a client dies within B of the start.
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
