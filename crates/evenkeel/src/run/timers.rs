//! Timers that cost little, since nearly all of them are stale by the time they are due.

use std::collections::BTreeMap;
use std::collections::btree_map::OccupiedEntry;

use super::TransferId;
use crate::model::ServerId;

/// A timer is due later than asked by at most this part of the time it was set for.
const COARSE: u64 = 16;

/// What is to be looked at when its time comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Timer {
    /// A server is done with what it had to do before.
    Free(ServerId),
    /// A transfer is late, unless it is over.
    Late(TransferId),
}

/// Timers by the time they are due. The further away, the coarser that time, so that many are due at once: as in
/// Linux's timer wheel there are a few lists to which timers are added, rather than a heap of all of them.
#[derive(Debug, Default)]
pub(super) struct Timers(BTreeMap<u64, Vec<Timer>>);

impl Timers {
    /// Sets a timer for exactly this time.
    pub(super) fn set(&mut self, at_ns: u64, timer: Timer) {
        // The end of all times never comes.
        if at_ns < u64::MAX {
            self.0.entry(at_ns).or_default().push(timer);
        }
    }

    /// Sets a timer for after this time, or a bit later; gives when.
    pub(super) fn set_after(&mut self, now_ns: u64, after_ns: u64, timer: Timer) -> u64 {
        let step_ns = 1 << (after_ns / COARSE).checked_ilog2().unwrap_or(0);
        let at_ns = now_ns.saturating_add(after_ns).checked_next_multiple_of(step_ns).unwrap_or(u64::MAX);
        self.set(at_ns, timer);
        at_ns
    }

    /// When the next is due.
    pub(super) fn next_ns(&self) -> Option<u64> {
        self.0.first_key_value().map(|(&at_ns, _)| at_ns)
    }

    /// The next that are due by now, and when they were.
    pub(super) fn due(&mut self, now_ns: u64) -> Option<(u64, Vec<Timer>)> {
        self.0.first_entry().filter(|first| *first.key() <= now_ns).map(OccupiedEntry::remove_entry)
    }
}
