//! The executor's state, and how it begins.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::gauge::{self, Gauge, Nanoblocks, Recent, duration_ns};
use super::lists::{Entry, Marks, NONE, Node, Piece};
use super::transfers::Transfers;
use super::{BadPlan, Settings};
use crate::draw::Seeded;
use crate::model::{Batch, Cluster, Fixed, Ratio, Schedule, ServerId, Transfer};

/// What is planned of a request may be off its size by so much, since plans are rounded.
const ROUNDED: Nanoblocks = 1_000_000;

/// Carries out a plan, or serves what arrives; see [the room](super).
#[derive(Debug)]
pub struct Executor<'a> {
    pub(super) batch: &'a Batch,
    pub(super) cluster: &'a Cluster,
    pub(super) settings: Settings,
    pub(super) draw: Seeded,
    pub(super) origin_ns: u64,
    pub(super) now_ns: u64,
    pub(super) has_begun: bool,
    pub(super) requests: Vec<Request>,
    /// In the plan's order; behind them what came later.
    pub(super) pieces: Vec<Piece>,
    pub(super) marks: Marks,
    pub(super) clients: Vec<Node>,
    pub(super) servers: Vec<Node>,
    pub(super) gauges: Vec<Gauge>,
    /// The transfers under way at each server.
    pub(super) transfers_at: Vec<Vec<u64>>,
    pub(super) running: Transfers,
    pub(super) timers: BinaryHeap<Reverse<(u64, Timer)>>,
    /// What waits for a server to come back, and until when.
    pub(super) parked: VecDeque<(u64, Entry)>,
    /// Whether nothing was late and nothing has failed.
    pub(super) keeps_to_plan: bool,
    /// All pieces before this one have left their lists.
    pub(super) n_left_lists: usize,
    /// Nodes at which something may be able to start.
    pub(super) to_look_at: Vec<End>,
    /// Servers that could start something but for the limit on all.
    pub(super) limited: VecDeque<ServerId>,
    /// Clients that had nothing to do when they were looked at.
    pub(super) idle: Vec<u32>,
    /// The longest lists of clients on top, as they were at some time; only if work is shared.
    pub(super) longest: BinaryHeap<(u32, Reverse<u32>)>,
    pub(super) recent: Recent,
    pub(super) hedge_left: Nanoblocks,
    /// When the last plan was predicted to end, and when it was made.
    pub(super) predicted_ns: u64,
    pub(super) planned_at_ns: u64,
    pub(super) wants_replan: bool,
    pub(super) n_replans: u32,
    pub(super) n_open: usize,
}

/// What is known of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    /// Its pieces are a list.
    pub(super) first: u32,
    /// Pieces that are not over.
    pub(super) n_left: u32,
    pub(super) n_failures: u32,
    pub(super) is_hedged: bool,
    pub(super) stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Unknown,
    Open,
    Over,
}

/// What is to be looked at when its time comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    /// A server is done with what it had to do before.
    Free(ServerId),
    /// A transfer is late, unless it is over.
    Late(u64),
}

/// One end of transfers.
#[derive(Clone, Copy, Debug)]
pub(super) enum End {
    Client(u32),
    Server(u32),
}

impl<'a> Executor<'a> {
    /// An executor of the plan of all or some of the requests; what is not in the plan is to arrive. The run starts at
    /// `now_ns`, and with the first event.
    pub fn new(
        batch: &'a Batch,
        cluster: &'a Cluster,
        plan: &Schedule,
        settings: Settings,
        now_ns: u64,
    ) -> Result<Self, BadPlan> {
        let unknown =
            Request { first: NONE, n_left: 0, n_failures: 0, is_hedged: false, stage: Stage::Unknown };
        let mut executor = Self {
            batch,
            cluster,
            settings,
            draw: Seeded::new(settings.seed),
            origin_ns: now_ns,
            now_ns,
            has_begun: false,
            requests: vec![unknown; batch.n_requests()],
            pieces: Vec::with_capacity(plan.transfers.len()),
            marks: Marks::default(),
            clients: cluster.clients().iter().map(|client| Node::new(client.slots)).collect(),
            servers: cluster.servers().iter().map(|server| Node::new(server.slots)).collect(),
            gauges: Gauge::all(cluster, settings.block_ns, now_ns),
            transfers_at: vec![Vec::new(); batch.n_servers()],
            running: Transfers::default(),
            timers: BinaryHeap::new(),
            parked: VecDeque::new(),
            keeps_to_plan: !plan.transfers.is_empty(),
            n_left_lists: 0,
            to_look_at: Vec::new(),
            limited: VecDeque::new(),
            idle: Vec::new(),
            longest: BinaryHeap::new(),
            recent: Recent::default(),
            hedge_left: Nanoblocks::from(settings.hedge_blocks) * 1_000_000_000,
            predicted_ns: now_ns.saturating_add(to_ns(plan.length, settings.block_ns)),
            planned_at_ns: now_ns,
            wants_replan: false,
            n_replans: 0,
            n_open: 0,
        };
        executor.take_plan(plan)?;
        Ok(executor)
    }

    /// Cuts requests into the pieces of the plan, and lists them in the order of their starts.
    fn take_plan(&mut self, plan: &Schedule) -> Result<(), BadPlan> {
        if plan.transfers.len() >= NONE as usize {
            return Err(BadPlan::TooMany);
        }
        let mut order: Vec<(Fixed, u32, u32)> = (0..)
            .zip(&plan.transfers)
            .map(|(row, transfer)| (transfer.start, transfer.request, row))
            .collect();
        order.sort_unstable();
        let mut planned: Vec<Nanoblocks> = vec![0; self.batch.n_requests()];
        for (start, request, row) in order {
            if request as usize >= self.batch.n_requests() {
                return Err(BadPlan::NoSuchRequest(request));
            }
            let Transfer { server, blocks, .. } = plan.transfers[row as usize];
            if !self.batch.replicas().of(request as usize).contains(&server) {
                return Err(BadPlan::NotHeld { request, server });
            }
            let offset = planned[request as usize];
            let size = self.size(request);
            self.requests[request as usize].stage = Stage::Open;
            planned[request as usize] += blocks.nanos();
            // What was rounded up beyond the end is cut off, and what is missing there follows below.
            let blocks = blocks.nanos().min(size.saturating_sub(offset));
            if blocks > 0 {
                let piece = self.add_piece(request, server, offset, blocks);
                self.pieces[piece as usize].due_ns = self.due_ns(start, server, blocks);
            }
        }
        for (request, planned) in (0..).zip(planned) {
            if self.requests[request as usize].stage == Stage::Unknown {
                continue;
            }
            self.n_open += 1;
            let size = self.size(request);
            if planned.abs_diff(size) > ROUNDED {
                return Err(BadPlan::NotWhole(request));
            }
            let last = self.requests[request as usize].first;
            if planned < size && last != NONE {
                let piece = &mut self.pieces[last as usize];
                piece.blocks = Fixed::from_nanos(piece.size() + (size - planned)).unwrap_or(piece.blocks);
            }
        }
        let (mut n_of_client, mut n_of_server) = (vec![0; self.clients.len()], vec![0; self.servers.len()]);
        for piece in &self.pieces {
            n_of_client[piece.client.index()] += 1;
            n_of_server[piece.server.index()] += 1;
        }
        let counts = n_of_client.into_iter().chain(n_of_server);
        let nodes = self.clients.iter_mut().chain(&mut self.servers);
        nodes.zip(counts).for_each(|(node, n)| node.list.reserve(n));
        for (number, piece) in (0..).zip(&self.pieces) {
            self.clients[piece.client.index()].push(self.marks.entry(number, piece.server.0));
            self.servers[piece.server.index()].push(self.marks.entry(number, piece.client.0));
            self.gauges[piece.server.index()].left += piece.size();
        }
        if self.settings.shares_work {
            let lengths = (0..).zip(&self.clients).map(|(client, node)| (node.n_queued, Reverse(client)));
            self.longest = lengths.collect();
        }
        Ok(())
    }

    /// The end of a transfer that starts as planned, and half its length more.
    fn due_ns(&self, start: Fixed, server: ServerId, blocks: Nanoblocks) -> u64 {
        let start_ns = start.nanos().saturating_mul(self.settings.block_ns.into()) / 1_000_000_000;
        let start_ns = self.origin_ns.saturating_add(u64::try_from(start_ns).unwrap_or(u64::MAX));
        let takes_ns = gauge::blocks(blocks) * self.gauges[server.index()].pace_ns;
        start_ns.saturating_add(duration_ns(takes_ns * 1.5)).saturating_add(1)
    }

    /// A request's size.
    pub(super) fn size(&self, request: u32) -> Nanoblocks {
        Nanoblocks::from(self.batch.blocks(request as usize)) * 1_000_000_000
    }

    /// Adds a piece, which stands first in its request's list of pieces and in no other list.
    pub(super) fn add_piece(
        &mut self,
        request: u32,
        server: ServerId,
        offset: Nanoblocks,
        blocks: Nanoblocks,
    ) -> u32 {
        let number = self.pieces.len() as u32;
        let fixed = |nanos| Fixed::from_nanos(nanos).unwrap_or(Fixed::ZERO);
        let known = &mut self.requests[request as usize];
        self.marks.push();
        self.pieces.push(Piece {
            request,
            client: self.batch.client(request as usize),
            server,
            next: std::mem::replace(&mut known.first, number),
            offset: fixed(offset),
            blocks: fixed(blocks),
            transfer: 0,
            due_ns: u64::MAX,
        });
        known.n_left += 1;
        number
    }

    /// When it has to be woken, if nothing happens before.
    pub fn wake_at(&self) -> Option<u64> {
        if !self.has_begun {
            return Some(self.now_ns);
        }
        if self.is_idle() {
            return None;
        }
        let timer = self.timers.peek().map(|&Reverse((at, _))| at);
        let parked = self.parked.front().map(|&(until, _)| until);
        timer.into_iter().chain(parked).min().filter(|&at_ns| at_ns < u64::MAX)
    }

    /// Whether every request that is planned or has arrived was delivered or has failed.
    pub fn is_idle(&self) -> bool {
        self.n_open == 0
    }

    /// How often what was unstarted was planned anew, whether or not that was better.
    pub fn n_replans(&self) -> u32 {
        self.n_replans
    }

    /// Blocks that may still be moved twice.
    pub fn hedge_left(&self) -> Fixed {
        Fixed::from_nanos(self.hedge_left).unwrap_or(Fixed::ZERO)
    }
}

/// A time of a plan in nanoseconds, as long as can be if it is longer.
pub(super) fn to_ns(time: Ratio, block_ns: u64) -> u64 {
    let ns = time.numerator().checked_mul(block_ns.into()).map(|ns| ns / u128::from(time.denominator()));
    ns.and_then(|ns| u64::try_from(ns).ok()).unwrap_or(u64::MAX)
}
