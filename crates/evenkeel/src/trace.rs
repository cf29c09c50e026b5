//! The latest decisions of a state machine, each with the figures it was based on. Recorded only on request.
//!
//! Each machine has its own `Decision`. All have `trace`, which turns recording on, and `take_decisions`.

use std::collections::VecDeque;

/// The latest decisions.
#[derive(Clone, Debug)]
pub(crate) struct Trace<D> {
    most: usize,
    latest: VecDeque<D>,
}

impl<D> Default for Trace<D> {
    /// Keeps nothing.
    fn default() -> Self {
        Self { most: 0, latest: VecDeque::new() }
    }
}

impl<D> Trace<D> {
    /// Keeps the latest `most` decisions from now on; none with 0.
    pub(crate) fn keep(&mut self, most: usize) {
        self.most = most;
        self.latest.drain(..self.latest.len().saturating_sub(most));
    }

    /// Whether decisions are kept. If not, nobody need collect their figures.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.most > 0
    }

    /// Adds a decision, and drops the oldest if there are too many.
    pub(crate) fn push(&mut self, decision: D) {
        if self.is_on() {
            if self.latest.len() == self.most {
                self.latest.pop_front();
            }
            self.latest.push_back(decision);
        }
    }

    /// Removes and returns all decisions, oldest first.
    pub(crate) fn take(&mut self) -> Vec<D> {
        self.latest.drain(..).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_latest() {
        let mut trace = Trace::default();
        trace.push(0);
        assert_eq!((trace.is_on(), trace.take()), (false, vec![]));
        trace.keep(3);
        (1..=5).for_each(|decision| trace.push(decision));
        trace.keep(2);
        trace.push(6);
        assert_eq!(trace.take(), [5, 6]);
        trace.push(7);
        assert_eq!(trace.take(), [7]);
        trace.push(8);
        trace.keep(0);
        assert_eq!((trace.is_on(), trace.take()), (false, vec![]));
    }
}
