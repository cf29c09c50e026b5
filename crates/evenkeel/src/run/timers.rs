//! Cheap timers, since nearly all of them are stale by the time they are due.

use std::collections::BTreeMap;
use std::collections::btree_map::OccupiedEntry;

use super::TransferId;
use crate::model::ServerId;

/// A timer fires late by at most this fraction (one part in `COARSE`) of the time it was set for.
const COARSE: u64 = 16;

/// What to do when a timer fires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Timer {
    /// A server is done with its backlog.
    Free(ServerId),
    /// A transfer is late, unless it is over.
    Late(TransferId),
}

/// Timers by due time. The further away the time is, the coarser it is, so that many are due at once. As in Linux's
/// timer wheel, timers are appended to a few lists instead of a heap of all of them.
#[derive(Debug, Default)]
pub(super) struct Timers(BTreeMap<u64, Vec<Timer>>);

impl Timers {
    /// Sets a timer for exactly this time.
    pub(super) fn set(&mut self, at_ns: u64, timer: Timer) {
        // The end of time never comes.
        if at_ns < u64::MAX {
            self.0.entry(at_ns).or_default().push(timer);
        }
    }

    /// Sets a timer for after this time, or a bit later. Returns the due time.
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

    /// Removes the next timers that are due by now, and returns them with their due time.
    pub(super) fn due(&mut self, now_ns: u64) -> Option<(u64, Vec<Timer>)> {
        self.0.first_entry().filter(|first| *first.key() <= now_ns).map(OccupiedEntry::remove_entry)
    }
}
