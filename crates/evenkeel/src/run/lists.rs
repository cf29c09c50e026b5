//! Pieces of requests, and the lists in which they wait at both of their ends.

use std::collections::VecDeque;

use super::gauge::Nanoblocks;
use crate::model::{ClientId, Fixed, ServerId};

/// No piece.
pub(super) const NONE: u32 = u32::MAX;

/// Where a piece is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// In the lists of its client and its server.
    Queued,
    /// All servers that hold it are down.
    Parked,
    /// Under way.
    Running,
    /// Done, or given up with its request.
    Over,
}

/// Some consecutive blocks of a request, which move in one transfer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    pub(super) request: u32,
    pub(super) client: ClientId,
    /// Where it waits.
    pub(super) server: ServerId,
    /// The next piece of the same request.
    pub(super) next: u32,
    pub(super) offset: Fixed,
    pub(super) blocks: Fixed,
    /// The transfer, or one of two, that is under way.
    pub(super) transfer: u64,
    /// Who is done later than that is off the plan.
    pub(super) due_ns: u64,
}

impl Piece {
    pub(super) fn size(&self) -> Nanoblocks {
        self.blocks.nanos()
    }
}

/// Where each piece is, and how often it was put somewhere: entries of earlier turns are stale. Apart from the
/// pieces, since lists are looked through all the time.
#[derive(Debug, Default)]
pub(super) struct Marks(Vec<u32>);

impl Marks {
    /// One more piece, which is to be queued.
    pub(super) fn push(&mut self) {
        self.0.push(State::Queued as u32);
    }

    pub(super) fn state(&self, piece: u32) -> State {
        [State::Queued, State::Parked, State::Running, State::Over][(self.0[piece as usize] % 4) as usize]
    }

    pub(super) fn set(&mut self, piece: u32, state: State) {
        let mark = &mut self.0[piece as usize];
        *mark = *mark - *mark % 4 + state as u32;
    }

    /// Puts a piece somewhere anew.
    pub(super) fn put(&mut self, piece: u32, state: State) {
        self.0[piece as usize] = self.0[piece as usize].wrapping_add(4);
        self.set(piece, state);
    }

    /// An entry that is good as long as the piece stays where it is.
    pub(super) fn entry(&self, piece: u32, other: u32) -> Entry {
        Entry { piece, mark: self.0[piece as usize], other }
    }

    pub(super) fn is_stale(&self, entry: Entry) -> bool {
        self.0[entry.piece as usize] != entry.mark
    }
}

/// A piece's place in a list. It is not taken out when the piece leaves, but known as stale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) piece: u32,
    mark: u32,
    /// The client, in the list of a server; else the server.
    pub(super) other: u32,
}

/// A client or a server: its slots, and what waits for them, in order.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) list: VecDeque<Entry>,
    /// Entries that are not stale.
    pub(super) n_queued: u32,
    pub(super) n_running: u32,
    pub(super) slots: u32,
    /// Of a server: whether it waits for the limit on all transfers.
    pub(super) is_limited: bool,
}

impl Node {
    pub(super) fn new(slots: u32) -> Self {
        Self { list: VecDeque::new(), n_queued: 0, n_running: 0, slots, is_limited: false }
    }

    pub(super) fn has_slot(&self) -> bool {
        self.n_running < self.slots
    }

    pub(super) fn push(&mut self, entry: Entry) {
        self.list.push_back(entry);
        self.n_queued += 1;
    }

    /// Drops the entry of a piece that has left, if it is the first.
    pub(super) fn pop(&mut self, piece: u32) {
        if self.list.front().is_some_and(|entry| entry.piece == piece) {
            self.list.pop_front();
        }
    }

    /// The first entry, without stale ones before it. If it is known that there are none, no piece has to be looked at.
    pub(super) fn first(&mut self, has_stale: bool, marks: &Marks) -> Option<Entry> {
        while let Some(&entry) = self.list.front() {
            if !has_stale || !marks.is_stale(entry) {
                return Some(entry);
            }
            self.list.pop_front();
        }
        None
    }
}
