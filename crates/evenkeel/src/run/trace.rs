//! Why the executor did what it did. Kept only if somebody asks for it.

use std::collections::VecDeque;

use super::executor::Executor;
use super::gauge::{Nanoblocks, duration_ns};
use super::{RequestId, TransferId};
use crate::model::ServerId;

/// A decision, and the figures that it was made by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// When.
    pub at_ns: u64,
    /// What was decided.
    pub what: Decided,
    /// Who could have been chosen, the one that was included.
    pub candidates: Vec<Candidate>,
}

/// What was decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decided {
    /// A request, or what is left of it, waits for this server.
    Queued {
        /// Which request.
        request: RequestId,
        /// Where.
        server: ServerId,
    },
    /// It starts at this server, which is free.
    Started {
        /// Which request.
        request: RequestId,
        /// Where.
        server: ServerId,
    },
    /// A transfer is late, and what is left of it starts at this server as well, or instead.
    Hedged {
        /// Which request.
        request: RequestId,
        /// What is late.
        transfer: TransferId,
        /// Where it is late.
        late_at: ServerId,
        /// Where the other one starts.
        server: ServerId,
    },
    /// What was unstarted was planned anew.
    PlannedAnew {
        /// The number of the plan.
        number: u32,
        /// When all would be done as it was.
        present_end_ns: u64,
        /// When all would be done by the new plan, which is taken if that is earlier.
        new_end_ns: u64,
    },
}

/// A server that could be chosen, as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Which one.
    pub server: ServerId,
    /// How long it would take for all it has to do and this as well.
    pub wait_ns: u64,
    /// How long it takes for a block in one transfer.
    pub pace_ns: u64,
}

/// The latest decisions.
#[derive(Debug, Default)]
pub(super) struct Trace {
    most: usize,
    decisions: VecDeque<Decision>,
}

impl Executor {
    /// From now on keeps the latest `most` decisions until they are [taken](Self::take_decisions); none if 0, as at first.
    pub fn trace(&mut self, most: usize) {
        self.trace.most = most;
        let n_too_many = self.trace.decisions.len().saturating_sub(most);
        self.trace.decisions.drain(..n_too_many);
    }

    /// The decisions that were kept, oldest first; they are forgotten then.
    pub fn take_decisions(&mut self) -> Vec<Decision> {
        self.trace.decisions.drain(..).collect()
    }

    /// Keeps a decision about a piece, if that is wanted.
    pub(super) fn note(
        &mut self,
        what: Decided,
        size: Nanoblocks,
        candidates: impl FnOnce(&Self) -> Vec<ServerId>,
    ) {
        if self.trace.most == 0 {
            return;
        }
        let candidate = |server: ServerId| {
            let gauge = &self.gauges[server.index()];
            let wait_ns = duration_ns(gauge.wait_ns(self.now_ns, size));
            Candidate { server, wait_ns, pace_ns: duration_ns(gauge.pace_ns) }
        };
        let candidates = candidates(self).into_iter().map(candidate).collect();
        if self.trace.decisions.len() == self.trace.most {
            self.trace.decisions.pop_front();
        }
        self.trace.decisions.push_back(Decision { at_ns: self.now_ns, what, candidates });
    }
}
