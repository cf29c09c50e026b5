//! Why the executor did what it did. Recorded only on request.

use super::executor::Executor;
use super::gauge::{Nanoblocks, duration_ns};
use super::{RequestId, TransferId};
use crate::model::ServerId;

/// A decision, and the figures it was based on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// When it was made.
    pub at_ns: u64,
    /// What was decided.
    pub what: Decided,
    /// All candidates, including the chosen one.
    pub candidates: Vec<Candidate>,
}

/// What was decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decided {
    /// A request, or the rest of it, waits for this server.
    Queued {
        /// Which request.
        request: RequestId,
        /// The server.
        server: ServerId,
    },
    /// It starts at this server, which is free.
    Started {
        /// Which request.
        request: RequestId,
        /// The server.
        server: ServerId,
    },
    /// A transfer is late, and the rest of it starts at this server too, or instead.
    Hedged {
        /// Which request.
        request: RequestId,
        /// The late transfer.
        transfer: TransferId,
        /// The server where it is late.
        late_at: ServerId,
        /// The server where the other one starts.
        server: ServerId,
    },
    /// The unstarted work was planned again.
    PlannedAnew {
        /// The number of the plan.
        number: u32,
        /// When everything would be done without the new plan.
        present_end_ns: u64,
        /// When everything would be done with the new plan, which is adopted if that is earlier.
        new_end_ns: u64,
    },
}

/// A server that could be chosen, with its known figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The server.
    pub server: ServerId,
    /// How long it would take for all its queued and in-flight work and this request.
    pub wait_ns: u64,
    /// How long it takes for a block in one transfer.
    pub pace_ns: u64,
}

/// The latest decisions.
pub(super) type Trace = crate::trace::Trace<Decision>;

impl Executor {
    /// Keeps the latest `most` decisions from now on, until they are [taken](Self::take_decisions). With 0, the initial
    /// value, keeps none.
    pub fn trace(&mut self, most: usize) {
        self.trace.keep(most);
    }

    /// Removes and returns the recorded decisions, oldest first.
    pub fn take_decisions(&mut self) -> Vec<Decision> {
        self.trace.take()
    }

    /// Records a decision about a piece, if tracing is on.
    pub(super) fn note(
        &mut self,
        what: Decided,
        size: Nanoblocks,
        candidates: impl FnOnce(&Self) -> Vec<ServerId>,
    ) {
        if !self.trace.is_on() {
            return;
        }
        let candidate = |server: ServerId| {
            let gauge = &self.gauges[server.index()];
            let wait_ns = duration_ns(gauge.wait_ns(self.now_ns, size));
            Candidate { server, wait_ns, pace_ns: duration_ns(gauge.pace.ns) }
        };
        let candidates = candidates(self).into_iter().map(candidate).collect();
        self.trace.push(Decision { at_ns: self.now_ns, what, candidates });
    }
}
