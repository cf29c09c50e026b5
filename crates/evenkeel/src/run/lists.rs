//! Pieces of requests, and the lists in which they wait at both of their ends.

use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};

use super::RequestId;
use super::gauge::Nanoblocks;
use crate::graph::sets::bits::Bits;
use crate::model::{ClientId, Fixed, ServerId};

/// Stands for no piece.
pub(super) const NONE: u32 = u32::MAX;

/// Where a piece is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// In the lists of its client and its server.
    Queued,
    /// All servers that hold it are down.
    Parked,
    /// In the lists of its client and of all servers that hold it. The first of these to be free takes it.
    Undecided,
    /// In flight.
    Running,
    /// Done, or given up with its request.
    Over,
}

/// Some consecutive blocks of a request, which move in one transfer. Aligned to one line of the cache, since pieces,
/// nodes and gauges are read in no order that could be prefetched.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(super) struct Piece {
    pub(super) request: u32,
    /// The request's number, for the actions at its start and end.
    pub(super) id: RequestId,
    pub(super) client: ClientId,
    /// The server it waits at.
    pub(super) server: ServerId,
    /// The next piece of the same request, in a ring.
    pub(super) next: u32,
    pub(super) offset: Fixed,
    pub(super) blocks: Fixed,
    /// A piece that is done later than this is off the plan.
    pub(super) due_ns: u64,
}

impl Piece {
    /// Stands where no piece is yet.
    pub(super) const NOTHING: Self = Self {
        request: NONE,
        id: RequestId(0),
        client: ClientId(0),
        server: ServerId(0),
        next: NONE,
        offset: Fixed::ZERO,
        blocks: Fixed::ZERO,
        due_ns: u64::MAX,
    };

    pub(super) fn size(&self) -> Nanoblocks {
        self.blocks.nanos()
    }

    /// The piece without the first `first` of its blocks.
    pub(super) fn without(self, first: Nanoblocks) -> Self {
        let fixed = |nanos| Fixed::from_nanos(nanos).unwrap_or(Fixed::ZERO);
        let (offset, blocks) = (self.offset.nanos() + first, self.size() - first);
        Self { offset: fixed(offset), blocks: fixed(blocks), ..self }
    }
}

/// A power of two, so that turns can wrap.
const N_STATES: u32 = 8;

/// The state of each piece, and how often it was placed: entries of earlier turns are stale. Stored apart from the
/// pieces, since lists are scanned all the time.
#[derive(Debug)]
pub(super) struct Marks(Vec<u32>);

impl Marks {
    /// Pieces that are all to be queued.
    pub(super) fn queued(n: usize) -> Self {
        Self(vec![State::Queued as u32; n])
    }

    /// Adds a piece, which is to be queued.
    pub(super) fn push(&mut self) {
        self.0.push(State::Queued as u32);
    }

    pub(super) fn state(&self, piece: u32) -> State {
        const ALL: [State; 5] = [State::Queued, State::Parked, State::Undecided, State::Running, State::Over];
        ALL[((self.0[piece as usize] % N_STATES) as usize).min(ALL.len() - 1)]
    }

    pub(super) fn set(&mut self, piece: u32, state: State) {
        let mark = &mut self.0[piece as usize];
        *mark = *mark - *mark % N_STATES + state as u32;
    }

    /// Places a piece in a new state.
    pub(super) fn put(&mut self, piece: u32, state: State) {
        self.0[piece as usize] = self.0[piece as usize].wrapping_add(N_STATES);
        self.set(piece, state);
    }

    /// An entry that is valid as long as the piece stays where it is.
    pub(super) fn entry(&self, piece: u32, other: u32) -> Entry {
        Entry { piece, mark: self.0[piece as usize], other }
    }

    pub(super) fn is_stale(&self, entry: Entry) -> bool {
        self.0.get(entry.piece as usize) != Some(&entry.mark)
    }
}

/// This few stale entries do not matter.
pub(super) const FEW: usize = 64;

/// A piece's place in a list. The entry is not removed when the piece leaves, but becomes stale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) piece: u32,
    mark: u32,
    /// In the list of a server, the client; else the server.
    pub(super) other: u32,
}

/// All clients, or all servers.
#[derive(Debug)]
pub(super) struct Side {
    nodes: Vec<Node>,
    /// Nodes with a free slot. List scans read this, and it stays in the cache.
    free: Bits,
}

impl Side {
    /// Nodes, each with its number of slots and the number of entries its list will have.
    pub(super) fn new(nodes: impl ExactSizeIterator<Item = (u32, usize)>) -> Self {
        let mut free = Bits::none(nodes.len());
        let node = |(number, (slots, n_entries))| {
            if slots > 0 {
                free.insert(number);
            }
            Node { slots, others: VecDeque::with_capacity(n_entries), ..Node::default() }
        };
        Self { nodes: (0..).zip(nodes).map(node).collect(), free }
    }

    /// Adds a node.
    pub(super) fn push(&mut self, slots: u32) {
        self.nodes.push(Node { slots, ..Node::default() });
        self.free.grow(self.nodes.len());
        self.mark(self.nodes.len() - 1);
    }

    pub(super) fn has_slot(&self, node: usize) -> bool {
        self.free.has(node as u32)
    }

    /// Whether more transfers are in flight at a node than it has slots, because it has lost some.
    pub(super) fn is_overfull(&self, node: usize) -> bool {
        self.nodes[node].n_running > self.nodes[node].slots
    }

    /// A transfer begins at a node.
    pub(super) fn begin(&mut self, node: usize) {
        self.nodes[node].n_running += 1;
        self.mark(node);
    }

    /// A transfer is over at a node.
    pub(super) fn end(&mut self, node: usize) {
        self.nodes[node].n_running -= 1;
        self.mark(node);
    }

    /// Sets how many transfers may be in flight at a node: none while a server is down, or busy with its backlog.
    pub(super) fn set_slots(&mut self, node: usize, slots: u32) {
        self.nodes[node].slots = slots;
        self.mark(node);
    }

    fn mark(&mut self, node: usize) {
        let Node { n_running, slots, .. } = self.nodes[node];
        if n_running < slots { self.free.insert(node as u32) } else { self.free.remove(node as u32) }
    }
}

impl Deref for Side {
    type Target = [Node];

    fn deref(&self) -> &[Node] {
        &self.nodes
    }
}

impl DerefMut for Side {
    fn deref_mut(&mut self) -> &mut [Node] {
        &mut self.nodes
    }
}

/// A client or a server, and the entries that wait for its slots, in order.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(super) struct Node {
    /// The first entry is stored apart, so that reading it does not touch the others.
    first: Option<Entry>,
    others: VecDeque<Entry>,
    /// Entries that are not stale.
    pub(super) n_queued: u32,
    n_running: u32,
    slots: u32,
    /// Whether it waits for the limit on all transfers.
    pub(super) is_limited: bool,
    /// For a client: whether it waits for the work of others.
    pub(super) is_idle: bool,
    /// For a client: whether it has left.
    pub(super) is_gone: bool,
}

impl Node {
    /// Adds an entry. If most of the others are stale, they are dropped first.
    pub(super) fn push(&mut self, entry: Entry, marks: &Marks) {
        if self.others.len() > 2 * self.n_queued as usize + FEW {
            self.drop_stale(marks);
        }
        self.n_queued += 1;
        if self.first.is_none() {
            self.first = Some(entry);
        } else {
            self.others.push_back(entry);
        }
    }

    /// Drops the entry of a piece that has left, if it is the first.
    pub(super) fn pop(&mut self, piece: u32) {
        if self.first.is_some_and(|entry| entry.piece == piece) {
            self.drop_first();
        }
    }

    /// Drops all entries that are stale.
    pub(super) fn drop_stale(&mut self, marks: &Marks) {
        self.others.retain(|&entry| !marks.is_stale(entry));
        if self.first.is_some_and(|entry| marks.is_stale(entry)) {
            self.drop_first();
        }
    }

    pub(super) fn drop_first(&mut self) {
        self.first = self.others.pop_front();
    }

    /// The first entry, after dropping stale ones before it. If there are known to be none, no piece has to be read.
    pub(super) fn first(&mut self, has_stale: bool, marks: &Marks) -> Option<Entry> {
        while has_stale && self.first.is_some_and(|entry| marks.is_stale(entry)) {
            self.drop_first();
        }
        self.first
    }

    /// The entry at a place, stale or not.
    pub(super) fn get(&self, place: usize) -> Option<Entry> {
        place.checked_sub(1).map_or(self.first, |place| self.others.get(place).copied())
    }

    /// The entries in order, stale or not.
    pub(super) fn entries(&self) -> impl Iterator<Item = Entry> {
        self.first.into_iter().chain(self.others.iter().copied())
    }

    /// The entries from the last to the first, stale or not.
    pub(super) fn last_to_first(&self) -> impl Iterator<Item = Entry> {
        self.others.iter().rev().copied().chain(self.first)
    }

    /// Removes all entries, stale or not. The queued pieces must leave as well.
    pub(super) fn take_entries(&mut self) -> impl Iterator<Item = Entry> + use<> {
        self.first.take().into_iter().chain(std::mem::take(&mut self.others))
    }
}
