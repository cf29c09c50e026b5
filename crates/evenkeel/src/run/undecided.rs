//! Requests that wait for the first of their servers to be free: [`Decide::WhenFree`].
//!
//! A free server takes the oldest request that it holds and whose client is free. A free client takes its oldest
//! request that a free server holds. If several servers are free, the policy picks one of them.

use std::collections::VecDeque;

use super::executor::{End, Executor};
use super::lists::{Entry, FEW, Marks, N_LOOKED_AT, State};
use super::trace::Decided;
use super::{Action, Decide};
use crate::model::{Cluster, ServerId};

/// The entries that wait at each end, oldest first. Entries of pieces that started elsewhere are stale.
#[derive(Debug)]
pub(super) struct Undecided {
    clients: Vec<List>,
    servers: Vec<List>,
}

#[derive(Clone, Debug, Default)]
struct List {
    entries: VecDeque<Entry>,
    /// How many entries were not stale at the last check.
    n_fresh: usize,
}

impl List {
    /// Adds an entry. If most of the others may be stale, drops stale ones first.
    fn push(&mut self, entry: Entry, marks: &Marks) {
        if self.entries.len() > 2 * self.n_fresh + FEW {
            self.entries.retain(|&entry| !marks.is_stale(entry));
            self.n_fresh = self.entries.len();
        }
        self.entries.push_back(entry);
    }
}

impl Undecided {
    pub(super) fn new(cluster: &Cluster) -> Self {
        let lists = |n| vec![List::default(); n];
        Self { clients: lists(cluster.clients().len()), servers: lists(cluster.servers().len()) }
    }

    pub(super) fn add_client(&mut self) {
        self.clients.push(List::default());
    }

    pub(super) fn add_server(&mut self) {
        self.servers.push(List::default());
    }

    fn at(&mut self, end: End) -> &mut VecDeque<Entry> {
        match end {
            End::Client(client) => &mut self.clients[client as usize].entries,
            End::Server(server) => &mut self.servers[server as usize].entries,
        }
    }
}

/// The first few entries that still wait. Stale entries before and among them are dropped for good.
fn first_few(list: &mut VecDeque<Entry>, marks: &Marks) -> Vec<Entry> {
    let mut few = Vec::new();
    while few.len() < N_LOOKED_AT
        && let Some(entry) = list.pop_front()
    {
        if !marks.is_stale(entry) {
            few.push(entry);
        }
    }
    few.iter().rev().for_each(|&entry| list.push_front(entry));
    few
}

impl Executor {
    /// Whether a request that arrives now waits for the first of its servers to be free.
    pub(super) fn decides_late(&self) -> bool {
        self.settings.decide == Decide::WhenFree && !self.keeps_to_plan && !self.settings.shares_work
    }

    /// Makes a piece wait for all servers that hold it. A piece that is behind another in one list is not ahead of it
    /// in any other list, so the first of all can start as soon as its client and a server are free.
    pub(super) fn wait_for_any(&mut self, piece: u32) {
        self.marks.put(piece, State::Undecided);
        let waiting = &self.pieces[piece as usize];
        let client = waiting.client.0;
        self.undecided.clients[client as usize].push(self.marks.entry(piece), &self.marks);
        for server in &self.requests[waiting.request].holders {
            if self.barred.has(waiting.request, piece, *server) {
                continue;
            }
            self.undecided.servers[server.index()].push(self.marks.entry(piece), &self.marks);
            self.to_look_at.push(End::Server(server.0));
        }
        // The client is looked at first, so that the policy has all servers to pick from.
        self.to_look_at.push(End::Client(client));
    }

    /// Starts the undecided pieces at an end, as far as it has slots.
    pub(super) fn decide_at(&mut self, end: End, out: &mut Vec<Action>) {
        if self.settings.decide == Decide::OnArrival {
            return;
        }
        while self.has_slot(end) && !self.undecided.at(end).is_empty() {
            let few = first_few(self.undecided.at(end), &self.marks);
            let Some((piece, server)) = few.into_iter().find_map(|entry| self.decide(entry.piece)) else {
                return;
            };
            if self.is_at_limit() {
                self.wait_for_limit(end);
                return;
            }
            let (request, size) = (self.pieces[piece as usize].id, self.pieces[piece as usize].size());
            self.note(Decided::Started { request, server }, size, |executor| {
                executor.holders(piece).filter(|server| executor.servers.has_slot(server.index())).collect()
            });
            self.marks.put(piece, State::Running);
            self.pieces[piece as usize].server = server;
            self.start_at(piece, self.pieces[piece as usize].client, server, out);
        }
    }

    fn has_slot(&self, end: End) -> bool {
        match end {
            End::Client(client) => self.clients.has_slot(client as usize),
            End::Server(server) => self.servers.has_slot(server as usize),
        }
    }

    /// The server at which a piece starts, if it can.
    fn decide(&mut self, piece: u32) -> Option<(u32, ServerId)> {
        let waiting = &self.pieces[piece as usize];
        if !self.clients.has_slot(waiting.client.index()) {
            return None;
        }
        let holders = self.requests[waiting.request].holders.iter().copied();
        let is_free = |server: &ServerId| {
            self.servers.has_slot(server.index()) && !self.barred.has(waiting.request, piece, *server)
        };
        let free = holders.filter(is_free);
        let pick = self.settings.pick;
        let server = pick.choose(free, waiting.size(), &self.gauges, self.now_ns, &mut self.draw)?;
        Some((piece, server))
    }

    /// A server is down: pieces that no other server holds wait for one to come back.
    pub(super) fn park_undecided(&mut self, server: ServerId) {
        let mut list = std::mem::take(self.undecided.at(End::Server(server.0)));
        list.retain(|&entry| !self.marks.is_stale(entry));
        for &entry in &list {
            if !self.has_holder(entry.piece) {
                self.park(entry.piece);
            }
        }
        list.retain(|&entry| !self.marks.is_stale(entry));
        *self.undecided.at(End::Server(server.0)) = list;
    }
}
