//! Which servers the items of a server could move to, as bits.

use crate::model::{Replicas, ServerId};

/// With more servers the bits would take more memory than they are worth.
const MOST_SERVERS: usize = 1 << 13;

/// A row of bits for each server, built on first use.
///
/// Arcs are added when an item arrives, but not removed when one leaves: a row may promise too much, never too little.
/// A search that finds a promise broken removes it.
#[derive(Debug)]
pub(super) struct Arcs {
    words: usize,
    bits: Vec<u64>,
    known: Vec<bool>,
    /// One mark for each server, used while a row is built.
    marks: Vec<u8>,
}

impl Arcs {
    /// No arcs yet; `None` if there are too many servers.
    pub(super) fn new(n_servers: usize) -> Option<Self> {
        let words = n_servers.div_ceil(64);
        (n_servers <= MOST_SERVERS).then(|| Self {
            words,
            bits: vec![0; n_servers * words],
            known: vec![false; n_servers],
            marks: vec![0; n_servers],
        })
    }

    /// The servers that the `items` at `server` could move to.
    pub(super) fn from(
        &mut self,
        server: ServerId,
        items: &[u32],
        replicas: Replicas<'_>,
    ) -> impl Iterator<Item = ServerId> {
        if !self.known[server.index()] {
            self.known[server.index()] = true;
            // Marks first, then bits: a mark is written without being read, so nothing stalls.
            self.marks.fill(0);
            for &item in items {
                replicas.of(item as usize).iter().for_each(|s| self.marks[s.index()] = 1);
            }
            let row = &mut self.bits[server.index() * self.words..][..self.words];
            for (word, marks) in row.iter_mut().zip(self.marks.chunks(64)) {
                *word = marks.iter().rev().fold(0, |word, &mark| word << 1 | u64::from(mark));
            }
        }
        servers(&self.bits[server.index() * self.words..][..self.words])
    }

    /// Adds the arcs of an item with these replicas that has arrived at `server`.
    pub(super) fn add(&mut self, server: ServerId, set: &[ServerId]) {
        if self.known[server.index()] {
            let row = &mut self.bits[server.index() * self.words..][..self.words];
            set.iter().for_each(|s| row[s.index() / 64] |= 1 << (s.0 % 64));
        }
    }

    /// Removes the arcs from `server` to the servers for which `is_gone` holds.
    pub(super) fn remove(&mut self, server: ServerId, is_gone: impl Fn(ServerId) -> bool) {
        let row = &mut self.bits[server.index() * self.words..][..self.words];
        for (k, word) in (0..).zip(row) {
            let old = [*word];
            let gone = servers(&old).filter(|bit| is_gone(ServerId(64 * k + bit.0)));
            *word &= !gone.map(|bit| 1 << bit.0).sum::<u64>();
        }
    }
}

/// The servers whose bits are set.
fn servers(row: &[u64]) -> impl Iterator<Item = ServerId> {
    (0..).zip(row).flat_map(|(k, &word): (u32, &u64)| {
        let mut word = word;
        std::iter::from_fn(move || {
            let bit = word.trailing_zeros();
            (word != 0).then(|| {
                word &= word - 1;
                ServerId(64 * k + bit)
            })
        })
    })
}
