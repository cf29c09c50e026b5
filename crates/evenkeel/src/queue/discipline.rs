//! The policies as queues that a server runs: requests come and go one by one. Paper 002 §V does this with HIO, in the
//! request scheduler of PVFS2.
//!
//! If all requests are there before the first is taken, each queue returns them in the order of its policy. Later
//! requests are inserted in order among the waiting ones, or after them (`hio`).
//!
//! ```
//! use evenkeel::queue::discipline::Fifo;
//! use evenkeel::queue::{Queue, Tagged};
//!
//! let mut queue = Fifo::default();
//! for id in [5, 3] {
//!     queue.push(0, Tagged { id, ..Tagged::default() });
//! }
//! assert_eq!(queue.pop(10).map(|request| request.id), Some(5));
//! assert_eq!(queue.len(), 1);
//! ```

use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use crate::model::Ratio;

use super::hio::Tuning;
use super::{AppId, Request, edd, hio, sio};

/// A request at a server, with what it carries along.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tagged {
    /// Identifies the request to the caller; queues ignore it.
    pub id: u64,
    /// The request itself, with the application's hints.
    pub request: Request,
    /// When it should have been read, on the server's clock, if a planner has set a date.
    pub due_ns: Option<u128>,
}

/// The requests waiting at one server.
pub trait Queue: fmt::Debug + Send {
    /// Adds a request that arrives now.
    fn push(&mut self, now_ns: u64, request: Tagged);

    /// Takes the request to serve next; `None` only if none is waiting.
    fn pop(&mut self, now_ns: u64) -> Option<Tagged>;

    /// How many requests are waiting.
    fn len(&self) -> usize;

    /// Whether no request is waiting.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// `nio`: first come, first served.
#[derive(Clone, Debug, Default)]
pub struct Fifo {
    waiting: VecDeque<Tagged>,
}

impl Queue for Fifo {
    fn push(&mut self, _: u64, request: Tagged) {
        self.waiting.push_back(request);
    }

    fn pop(&mut self, _: u64) -> Option<Tagged> {
        self.waiting.pop_front()
    }

    fn len(&self) -> usize {
        self.waiting.len()
    }
}

/// `sio` and `hio-edd`: by due date, application, offset, arrival.
#[derive(Clone, Debug)]
pub struct Sorted {
    waiting: BTreeMap<(u128, AppId, u64, u64), Tagged>,
    n_pushed: u64,
    has_due_dates: bool,
}

impl Sorted {
    /// `sio`: all have the same due date.
    pub fn sio() -> Self {
        Self { waiting: BTreeMap::new(), n_pushed: 0, has_due_dates: false }
    }

    /// `hio-edd`: due when the planner said, or on arrival. So requests without a planner are served by arrival, and
    /// neither kind starves the other.
    pub fn hio_edd() -> Self {
        Self { has_due_dates: true, ..Self::sio() }
    }

    fn insert(&mut self, due_ns: u128, tagged: Tagged) {
        let (app, offset) = sio::key(&tagged.request);
        self.waiting.insert((due_ns, app, offset, self.n_pushed), tagged);
        self.n_pushed += 1;
    }
}

impl Queue for Sorted {
    fn push(&mut self, now_ns: u64, tagged: Tagged) {
        let due = if self.has_due_dates { tagged.due_ns.unwrap_or(now_ns.into()) } else { 0 };
        self.insert(due, tagged);
    }

    fn pop(&mut self, _: u64) -> Option<Tagged> {
        self.waiting.pop_first().map(|(_, tagged)| tagged)
    }

    fn len(&self) -> usize {
        self.waiting.len()
    }
}

/// `hio`: waiting requests are divided into sequences, as in the paper's §V, and ordered within each. A sequence is
/// what arrived while the previous one was served, so no request starves.
#[derive(Clone, Debug)]
pub struct Hio {
    threshold: Ratio,
    tuning: Tuning,
    /// The sequence being served; the next request is last.
    sequence: Vec<Tagged>,
    /// Requests that have arrived since, by arrival.
    fresh: Vec<Tagged>,
}

impl Hio {
    /// An empty queue.
    pub fn new(threshold: Ratio, tuning: Tuning) -> Self {
        Self { threshold, tuning, sequence: Vec::new(), fresh: Vec::new() }
    }
}

impl Queue for Hio {
    fn push(&mut self, _: u64, tagged: Tagged) {
        self.fresh.push(tagged);
    }

    fn pop(&mut self, _: u64) -> Option<Tagged> {
        if self.sequence.is_empty() {
            let fresh = std::mem::take(&mut self.fresh);
            let queue: Vec<Request> = fresh.iter().map(|tagged| tagged.request).collect();
            let places = hio::order_queue(&queue, self.threshold, self.tuning);
            self.sequence = places.into_iter().rev().map(|place| fresh[place]).collect();
        }
        self.sequence.pop()
    }

    fn len(&self) -> usize {
        self.sequence.len() + self.fresh.len()
    }
}

/// `hio-edd-local`: a request gets its due date when the next one is taken, from all requests that wait then. The date
/// stays whatever arrives later, so no request starves.
#[derive(Clone, Debug)]
pub struct Local {
    dated: Sorted,
    fresh: Vec<Tagged>,
}

impl Default for Local {
    fn default() -> Self {
        Self { dated: Sorted::hio_edd(), fresh: Vec::new() }
    }
}

impl Queue for Local {
    fn push(&mut self, _: u64, tagged: Tagged) {
        self.fresh.push(tagged);
    }

    fn pop(&mut self, now_ns: u64) -> Option<Tagged> {
        if !self.fresh.is_empty() {
            // Requests that already wait come first where SIO does not care.
            let n_dated = self.dated.len();
            let all = self.dated.waiting.values().chain(&self.fresh);
            let queue: Vec<Request> = all.map(|tagged| tagged.request).collect();
            let due = edd::local_due_dates(&queue, now_ns).split_off(n_dated);
            for (tagged, due) in self.fresh.drain(..).zip(due) {
                self.dated.insert(due, tagged);
            }
        }
        self.dated.pop(now_ns)
    }

    fn len(&self) -> usize {
        self.fresh.len() + self.dated.len()
    }
}
