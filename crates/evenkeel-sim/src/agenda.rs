//! Future events, in order of time.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// Future events. Events at the same instant happen in the order in which they were added.
#[derive(Debug)]
pub struct Agenda<E> {
    heap: BinaryHeap<Reverse<Entry<E>>>,
    n_added: u64,
}

#[derive(Debug)]
struct Entry<E> {
    at_ns: u64,
    number: u64,
    event: E,
}

impl<E> Entry<E> {
    fn key(&self) -> u128 {
        // A single comparison instead of two.
        u128::from(self.at_ns) << 64 | u128::from(self.number)
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<E> Eq for Entry<E> {}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Entry<E> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

impl<E> Default for Agenda<E> {
    fn default() -> Self {
        Self { heap: BinaryHeap::new(), n_added: 0 }
    }
}

impl<E> Agenda<E> {
    /// Adds an event. An event at `u64::MAX` never happens.
    pub fn add(&mut self, at_ns: u64, event: E) {
        if at_ns < u64::MAX {
            self.heap.push(Reverse(Entry { at_ns, number: self.n_added, event }));
            self.n_added += 1;
        }
    }

    /// When the next event happens.
    pub fn next_ns(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse(entry)| entry.at_ns)
    }

    /// Takes the next event.
    pub fn pop(&mut self) -> Option<(u64, E)> {
        self.heap.pop().map(|Reverse(entry)| (entry.at_ns, entry.event))
    }
}
