//! Pieces of requests, and the lists in which they wait at both of their ends.

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
/// pieces, which are much larger.
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
    pub(super) fn entry(&self, piece: u32) -> Entry {
        Entry { piece, mark: self.0[piece as usize] }
    }

    pub(super) fn is_stale(&self, entry: Entry) -> bool {
        self.0.get(entry.piece as usize) != Some(&entry.mark)
    }
}

/// This few stale entries do not matter.
pub(super) const FEW: usize = 64;

/// A piece as it is now. When the piece is placed elsewhere, the entry becomes stale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) piece: u32,
    mark: u32,
}

/// A piece that waits in the list of a node, and its other end: in the list of a server its client, in the list of a
/// client its server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Waiting {
    pub(super) piece: u32,
    pub(super) other: u32,
}

/// The place of a piece in its list on one side.
#[derive(Clone, Copy, Debug)]
struct Link {
    other: u32,
    before: u32,
    after: u32,
}

/// All clients, or all servers, each with a list of the pieces that wait for its slots.
///
/// The lists are linked through one array. Pieces are numbered by planned start, so what is read at about the same time
/// is close together, however many nodes there are.
#[derive(Debug, Default)]
pub(super) struct Side {
    nodes: Vec<Node>,
    /// Nodes with a free slot. List scans read this, and it stays in the cache.
    free: Bits,
    /// By piece.
    links: Vec<Link>,
}

/// The pieces at the front of a list that can be looked at without following links.
pub(super) const N_LOOKED_AT: usize = 8;

/// A client or a server. Aligned so that the other ends of the first pieces are in one line of the cache with the rest.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Node {
    /// The other ends of the first pieces, as many as there are.
    others: [u32; N_LOOKED_AT],
    /// The first piece behind these, and the last of all.
    behind: u32,
    last: u32,
    /// The length of its list.
    pub(super) n_queued: u32,
    n_running: u32,
    slots: u32,
    /// Whether it waits for the limit on all transfers.
    pub(super) is_limited: bool,
    /// For a client: whether it waits for the work of others.
    pub(super) is_idle: bool,
    /// For a client: whether it has left.
    pub(super) is_gone: bool,
    /// The first pieces.
    pieces: [u32; N_LOOKED_AT],
}

impl Node {
    fn new(slots: u32) -> Self {
        Self {
            others: [NONE; N_LOOKED_AT],
            behind: NONE,
            last: NONE,
            n_queued: 0,
            n_running: 0,
            slots,
            is_limited: false,
            is_idle: false,
            is_gone: false,
            pieces: [NONE; N_LOOKED_AT],
        }
    }

    /// The piece at one of the first places of the list.
    pub(super) fn get(&self, place: usize) -> Option<Waiting> {
        let waiting = Waiting { piece: self.pieces[place], other: self.others[place] };
        (place < self.n_queued as usize).then_some(waiting)
    }

    pub(super) fn first(&self) -> Option<Waiting> {
        self.get(0)
    }
}

impl Side {
    /// Nodes with these numbers of slots, and room for this many pieces.
    pub(super) fn new(slots: impl Iterator<Item = u32>, n_pieces: usize) -> Self {
        let mut side = Self { links: Vec::with_capacity(n_pieces), ..Self::default() };
        slots.for_each(|slots| side.push(slots));
        side
    }

    /// Adds a node.
    pub(super) fn push(&mut self, slots: u32) {
        self.nodes.push(Node::new(slots));
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

    /// Appends a piece to the list of a node.
    pub(super) fn append(&mut self, node: usize, waiting: Waiting) {
        let Waiting { piece, other } = waiting;
        let node = &mut self.nodes[node];
        let before = std::mem::replace(&mut node.last, piece);
        if self.links.len() <= piece as usize {
            self.links.resize(piece as usize + 1, Link { other: NONE, before: NONE, after: NONE });
        }
        self.links[piece as usize] = Link { other, before, after: NONE };
        if let Some(before) = self.links.get_mut(before as usize) {
            before.after = piece;
        }
        let place = node.n_queued as usize;
        if place < N_LOOKED_AT {
            (node.pieces[place], node.others[place]) = (piece, other);
        } else if place == N_LOOKED_AT {
            node.behind = piece;
        }
        node.n_queued += 1;
    }

    /// Removes a piece from the list of a node, in which it must be.
    pub(super) fn remove(&mut self, node: usize, piece: u32) {
        let node = &mut self.nodes[node];
        let Link { before, after, .. } = self.links[piece as usize];
        if let Some(before) = self.links.get_mut(before as usize) {
            before.after = after;
        }
        match self.links.get_mut(after as usize) {
            Some(after) => after.before = before,
            None => node.last = before,
        }
        node.n_queued -= 1;
        if node.behind == piece {
            node.behind = after;
        } else if let Some(place) = node.pieces.iter().position(|&first| first == piece) {
            node.pieces.copy_within(place + 1.., place);
            node.others.copy_within(place + 1.., place);
            let (mut last, mut other) = (NONE, NONE);
            if let Some(link) = self.links.get(node.behind as usize) {
                (last, other, node.behind) = (node.behind, link.other, link.after);
            }
            (node.pieces[N_LOOKED_AT - 1], node.others[N_LOOKED_AT - 1]) = (last, other);
        }
    }

    /// The pieces that wait at a node, in order.
    pub(super) fn list(&self, node: usize) -> impl Iterator<Item = u32> {
        let first = self.nodes[node].first().map(|first| first.piece);
        std::iter::successors(first, |&piece| Some(self.links[piece as usize].after).filter(|&p| p != NONE))
    }

    /// The pieces that wait at a node, from the last to the first.
    pub(super) fn last_to_first(&self, node: usize) -> impl Iterator<Item = u32> {
        let last = Some(self.nodes[node].last).filter(|&piece| piece != NONE);
        std::iter::successors(last, |&piece| Some(self.links[piece as usize].before).filter(|&p| p != NONE))
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
