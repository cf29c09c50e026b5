//! The executor's state, and how it starts.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use super::barred::Barred;
use super::gauge::{self, Gauge, Nanoblocks, duration_ns};
use super::lists::{Entry, Marks, NONE, Piece, Side, State, Waiting};
use super::replan::Planning;
use super::requests::{Request, Requests};
use super::timers::Timers;
use super::trace::Trace;
use super::transfers::Transfers;
use super::undecided::Undecided;
use super::{BadPlan, Counts, RequestId, Settings};
use crate::draw::Seeded;
use crate::model::{Batch, Cluster, Fixed, Ratio, Schedule, ServerId, Transfer};
use crate::observe::Recent;

/// The planned blocks of a request may differ from its size by this much, since plans are rounded.
const ROUNDED: Nanoblocks = 1_000_000;

/// A delay shorter than this is not late: clocks tick, and sizes are rounded to bytes.
pub(super) const ROUNDED_NS: u64 = 1_000;

/// Executes a plan, or serves requests as they arrive; see [the room](super).
#[derive(Debug)]
pub struct Executor {
    /// The batch of the plan without its requests: clients and servers by name.
    pub(super) nodes: Batch,
    pub(super) cluster: Cluster,
    pub(super) settings: Settings,
    pub(super) draw: Seeded,
    pub(super) origin_ns: u64,
    pub(super) now_ns: u64,
    pub(super) has_begun: bool,
    pub(super) requests: Requests,
    /// Initially in the plan's order.
    pub(super) pieces: Vec<Piece>,
    /// Pieces of requests that are over.
    pub(super) free_pieces: Vec<u32>,
    pub(super) marks: Marks,
    pub(super) clients: Side,
    pub(super) servers: Side,
    pub(super) gauges: Vec<Gauge>,
    pub(super) running: Transfers,
    pub(super) timers: Timers,
    /// The pieces that wait for a server to come back, and until when.
    pub(super) parked: VecDeque<(u64, Entry)>,
    /// The pieces that wait for any of their servers to be free.
    pub(super) undecided: Undecided,
    pub(super) barred: Barred,
    /// Since when servers have refused requests without any progress of these.
    pub(super) refused_since_ns: BTreeMap<(u32, ServerId), u64>,
    /// Whether nothing was late and nothing has failed.
    pub(super) keeps_to_plan: bool,
    /// All waiting pieces, in the plan's order. Only used under a limit on all transfers, while everything goes to
    /// plan.
    pub(super) in_turn: VecDeque<Entry>,
    /// Nodes at which something may be able to start.
    pub(super) to_look_at: Vec<End>,
    /// Ends that could start a transfer if it were not for the limit on all transfers.
    pub(super) limited: VecDeque<End>,
    /// Clients that were idle when they were looked at.
    pub(super) idle: Vec<u32>,
    /// The clients by the length of their lists, the longest on top, as of some earlier time. Only used if work is
    /// shared.
    pub(super) longest: BinaryHeap<(u32, Reverse<u32>)>,
    pub(super) recent: Recent,
    pub(super) hedge_left: Nanoblocks,
    /// When the last plan was predicted to end, and when it was made.
    pub(super) predicted_ns: u64,
    pub(super) planned_at_ns: u64,
    pub(super) wants_replan: bool,
    /// The plan that is being made.
    pub(super) planning: Option<Planning>,
    /// The rest of [`Counts`] is computed on demand.
    pub(super) counts: Counts,
    pub(super) moved: Nanoblocks,
    pub(super) trace: Trace,
}

/// One end of a transfer.
#[derive(Clone, Copy, Debug)]
pub(super) enum End {
    Client(u32),
    Server(u32),
}

impl Executor {
    /// Creates an executor for a plan of all or some of the requests. Requests that are not in the plan may arrive. The
    /// run starts at `now_ns`, and with the first event. The executor keeps what it needs of the batch.
    pub fn new(
        batch: &Batch,
        cluster: &Cluster,
        plan: &Schedule,
        settings: Settings,
        now_ns: u64,
    ) -> Result<Self, BadPlan> {
        let settings = Settings { block_ns: settings.sane_block_ns(), ..settings };
        let mut executor = Self {
            nodes: batch.subset(&[]),
            cluster: cluster.clone(),
            settings,
            draw: Seeded::new(settings.seed),
            origin_ns: now_ns,
            now_ns,
            has_begun: false,
            requests: Requests::with_capacity(plan.transfers.len()),
            pieces: Vec::new(),
            free_pieces: Vec::new(),
            marks: Marks::queued(0),
            clients: Side::default(),
            servers: Side::default(),
            gauges: Gauge::all(cluster, settings.block_ns, now_ns),
            running: Transfers::default(),
            timers: Timers::default(),
            parked: VecDeque::new(),
            undecided: Undecided::new(cluster),
            barred: Barred::default(),
            refused_since_ns: BTreeMap::new(),
            keeps_to_plan: settings.keeps_order && !plan.transfers.is_empty(),
            in_turn: VecDeque::new(),
            to_look_at: Vec::new(),
            limited: VecDeque::new(),
            idle: Vec::new(),
            longest: BinaryHeap::new(),
            recent: Recent::default(),
            hedge_left: Nanoblocks::from(settings.hedge_blocks) * 1_000_000_000,
            predicted_ns: now_ns.saturating_add(to_ns(plan.length, settings.block_ns)),
            planned_at_ns: now_ns,
            wants_replan: false,
            planning: None,
            counts: Counts::default(),
            moved: 0,
            trace: Trace::default(),
        };
        executor.take_plan(batch, plan)?;
        Ok(executor)
    }

    /// Cuts requests into the pieces of the plan, and lists them by planned start.
    fn take_plan(&mut self, batch: &Batch, plan: &Schedule) -> Result<(), BadPlan> {
        if plan.transfers.len() >= NONE as usize {
            return Err(BadPlan::TooMany);
        }
        let mut transfers = Cow::Borrowed(&plan.transfers);
        if !transfers.is_sorted_by_key(|transfer| transfer.request) {
            transfers.to_mut().sort_by_key(|transfer| transfer.request);
        }
        // Pieces are numbered by planned start, so that those in flight together are together in memory.
        let mut order: Vec<(Fixed, u32)> = transfers.iter().map(|transfer| transfer.start).zip(0..).collect();
        order.sort_by_key(|&(start, _)| start);
        let mut numbers = vec![NONE; order.len()];
        (0..).zip(&order).for_each(|(number, &(_, transfer))| numbers[transfer as usize] = number);
        self.pieces.resize(order.len(), Piece::NOTHING);
        self.marks = Marks::queued(order.len());
        let mut numbers = numbers.as_slice();
        for of_request in transfers.chunk_by(|a, b| a.request == b.request) {
            let (own, others) = numbers.split_at(of_request.len());
            self.cut_as_planned(batch, of_request, own)?;
            numbers = others;
        }
        self.list_pieces();
        Ok(())
    }

    /// Adds a piece to the ring of its request.
    fn join_ring(&mut self, piece: u32) {
        let known = &mut self.requests[self.pieces[piece as usize].request];
        known.n_left += 1;
        let next = if known.first == NONE {
            known.first = piece;
            piece
        } else {
            std::mem::replace(&mut self.pieces[known.first as usize].next, piece)
        };
        self.pieces[piece as usize].next = next;
    }

    /// Cuts a request into pieces with these numbers.
    fn cut_as_planned(
        &mut self,
        batch: &Batch,
        transfers: &[Transfer],
        numbers: &[u32],
    ) -> Result<(), BadPlan> {
        let row = transfers[0].request;
        if row as usize >= batch.n_requests() {
            return Err(BadPlan::NoSuchRequest(row));
        }
        let holders = batch.replicas().of(row as usize);
        let (client, blocks) = (batch.client(row as usize), batch.blocks(row as usize));
        let request = self.requests.insert(RequestId(row.into()), client, blocks, holders);
        let size = self.size(request);
        let (mut planned, mut last): (Nanoblocks, _) = (0, None);
        for (&Transfer { server, start, blocks, .. }, &number) in transfers.iter().zip(numbers) {
            if !holders.contains(&server) {
                return Err(BadPlan::NotHeld { request: row, server });
            }
            // Blocks that were rounded up beyond the end are cut off; blocks missing at the end are added below.
            let within = blocks.nanos().min(size.saturating_sub(planned));
            if within > 0 {
                let due_ns = self.due_ns(start, server, within);
                self.pieces[number as usize] =
                    Piece { due_ns, ..self.piece(request, server, planned, within) };
                self.join_ring(number);
                last = Some(number);
            } else {
                self.free_piece(number);
            }
            planned += blocks.nanos();
        }
        if planned.abs_diff(size) > ROUNDED {
            return Err(BadPlan::NotWhole(row));
        }
        if let Some(last) = last.filter(|_| planned < size) {
            let last = &mut self.pieces[last as usize];
            last.blocks = Fixed::from_nanos(last.size() + (size - planned)).unwrap_or(last.blocks);
        }
        Ok(())
    }

    fn list_pieces(&mut self) {
        let (clients, servers) = (self.cluster.clients(), self.cluster.servers());
        self.clients = Side::new(clients.iter().map(|client| client.slots), self.pieces.len());
        self.servers = Side::new(servers.iter().map(|server| server.slots), self.pieces.len());
        let is_limited = self.cluster.max_concurrent().is_some();
        for (number, piece) in (0..).zip(&self.pieces) {
            // A transfer of nothing has left its number unused.
            if self.marks.state(number) != State::Queued {
                continue;
            }
            if is_limited {
                self.in_turn.push_back(self.marks.entry(number));
            }
            let (client, server) = (piece.client, piece.server);
            self.clients.append(client.index(), Waiting { piece: number, other: server.0 });
            self.servers.append(server.index(), Waiting { piece: number, other: client.0 });
            self.gauges[server.index()].left += piece.size();
        }
        if self.settings.shares_work {
            self.longest = self.lengths();
        }
    }

    /// The planned end of a transfer, plus half its duration.
    fn due_ns(&self, start: Fixed, server: ServerId, blocks: Nanoblocks) -> u64 {
        let start_ns = duration_ns(gauge::blocks(start.nanos()) * self.settings.block_ns);
        let takes_ns = duration_ns(gauge::blocks(blocks) * self.gauges[server.index()].pace.ns * 1.5);
        self.origin_ns.saturating_add(start_ns).saturating_add(takes_ns).saturating_add(ROUNDED_NS)
    }

    /// A request's size.
    pub(super) fn size(&self, request: u32) -> Nanoblocks {
        Nanoblocks::from(self.requests[request].blocks) * 1_000_000_000
    }

    /// A piece of a request, for the request's own client.
    pub(super) fn piece(
        &self,
        request: u32,
        server: ServerId,
        offset: Nanoblocks,
        blocks: Nanoblocks,
    ) -> Piece {
        let fixed = |nanos| Fixed::from_nanos(nanos).unwrap_or(Fixed::ZERO);
        let Request { id, client, .. } = self.requests[request];
        let (offset, blocks) = (fixed(offset), fixed(blocks));
        Piece { request, id, client, server, next: NONE, offset, blocks, due_ns: u64::MAX }
    }

    /// Adds a piece that is in its request's ring of pieces and in no list.
    pub(super) fn add_piece(&mut self, piece: Piece) -> u32 {
        let number = if let Some(number) = self.free_pieces.pop() {
            self.pieces[number as usize] = piece;
            self.marks.put(number, State::Queued);
            number
        } else {
            self.pieces.push(piece);
            self.marks.push();
            self.pieces.len() as u32 - 1
        };
        self.join_ring(number);
        number
    }

    /// Frees the pieces of a request that is over. Entries of them that remain in lists are stale.
    pub(super) fn free_pieces_of(&mut self, request: u32) {
        let first = self.requests[request].first;
        let mut next = first;
        while next != NONE {
            self.free_piece(next);
            next = self.pieces[next as usize].next;
            if next == first {
                break;
            }
        }
    }

    pub(super) fn free_piece(&mut self, piece: u32) {
        self.marks.put(piece, State::Over);
        self.free_pieces.push(piece);
    }

    /// The pieces of a request, starting from any of them.
    pub(super) fn ring(&self, first: u32) -> impl Iterator<Item = u32> {
        let after = move |&piece: &u32| Some(self.pieces[piece as usize].next).filter(|&next| next != first);
        std::iter::successors(Some(first).filter(|&first| first != NONE), after)
    }

    /// When the executor must be woken, if no event comes before.
    pub fn wake_at(&self) -> Option<u64> {
        let holds_back = self.planning.as_ref().is_some_and(|planning| planning.is_new);
        if !self.has_begun || holds_back {
            return Some(self.now_ns);
        }
        if self.is_idle() {
            return None;
        }
        let parked = self.parked.front().map(|&(until_ns, _)| until_ns);
        self.timers.next_ns().into_iter().chain(parked).min().filter(|&at_ns| at_ns < u64::MAX)
    }

    /// Whether every request that was planned or has arrived was delivered or has failed.
    pub fn is_idle(&self) -> bool {
        self.requests.len() == 0
    }

    /// What the executor has done so far.
    pub fn counts(&self) -> Counts {
        Counts {
            open: self.requests.len(),
            running: self.running.len(),
            started: self.running.n_started(),
            moved: self.moved / 1_000_000_000,
            ..self.counts
        }
    }

    /// Blocks that may still be moved twice.
    pub fn hedge_left(&self) -> Fixed {
        Fixed::from_nanos(self.hedge_left).unwrap_or(Fixed::ZERO)
    }
}

/// A time of a plan in nanoseconds, saturating at 64 bits.
pub(super) fn to_ns(time: Ratio, block_ns: f64) -> u64 {
    duration_ns(time.to_f64() * block_ns)
}
