//! What starts next: the first of both lists while everything goes to plan, else one of the first few that can start.

use super::executor::{End, Executor, ROUNDED_NS};
use super::gauge::{Nanoblocks, blocks, duration_ns};
use super::lists::{N_LOOKED_AT, Node, Piece, State, Waiting};
use super::timers::Timer;
use super::transfers::Running;
use super::{Action, Late, TransferId};
use crate::model::{ClientId, ServerId};

/// Until enough transfers are known, a transfer is late after this many times its expected duration.
const LATE_AT_FIRST: f64 = 3.0;

impl Executor {
    /// Starts everything that can start at the nodes that are marked to be looked at.
    pub(super) fn start_all(&mut self, out: &mut Vec<Action>) {
        while let Some(end) = self.next_to_look_at() {
            match (end, self.keeps_to_plan) {
                (_, true) if self.cluster.max_concurrent().is_some() => self.start_in_turn(out),
                (End::Server(server), true) => self.start_first_of_server(server as usize, out),
                (End::Client(client), true) => self.start_first_of_client(client as usize, out),
                (End::Server(server), false) => self.start_any_of_server(server as usize, out),
                (End::Client(client), false) => self.start_any_of_client(client as usize, out),
            }
            self.decide_at(end, out);
        }
    }

    fn next_to_look_at(&mut self) -> Option<End> {
        // An end that has waited for the limit comes first, else others would always be faster.
        if !self.is_at_limit()
            && let Some(end) = self.limited.pop_front()
        {
            self.node(end).is_limited = false;
            return Some(end);
        }
        self.to_look_at.pop()
    }

    /// Makes an end wait until fewer transfers are in flight in total.
    pub(super) fn wait_for_limit(&mut self, end: End) {
        if !std::mem::replace(&mut self.node(end).is_limited, true) {
            self.limited.push_back(end);
        }
    }

    fn node(&mut self, end: End) -> &mut Node {
        match end {
            End::Client(client) => &mut self.clients[client as usize],
            End::Server(server) => &mut self.servers[server as usize],
        }
    }

    fn start_first_of_server(&mut self, server: usize, out: &mut Vec<Action>) {
        while self.servers.has_slot(server)
            && let Some(Waiting { piece, other: client }) = self.servers[server].first()
        {
            let is_first = |first: Waiting| first.piece == piece;
            if self.clients.has_slot(client as usize)
                && self.clients[client as usize].first().is_some_and(is_first)
            {
                self.start(piece, out);
                self.to_look_at.push(End::Client(client));
            } else if !self.hand_over(piece, out) {
                return;
            }
        }
    }

    fn start_first_of_client(&mut self, client: usize, out: &mut Vec<Action>) {
        while self.clients.has_slot(client)
            && let Some(Waiting { piece, other: server }) = self.clients[client].first()
        {
            let is_first = |first: Waiting| first.piece == piece;
            if !self.servers.has_slot(server as usize)
                || !self.servers[server as usize].first().is_some_and(is_first)
            {
                return;
            }
            self.start(piece, out);
            self.to_look_at.push(End::Server(server));
        }
        self.take_over(client, out);
    }

    /// Under a limit on all transfers, a piece must not take the place of any piece ahead of it, in whatever list.
    fn start_in_turn(&mut self, out: &mut Vec<Action>) {
        while let Some(&entry) = self.in_turn.front() {
            if !self.marks.is_stale(entry) {
                let piece = &self.pieces[entry.piece as usize];
                let has_slots = self.clients.has_slot(piece.client.index());
                if !has_slots || !self.servers.has_slot(piece.server.index()) || self.is_at_limit() {
                    return;
                }
                self.start(entry.piece, out);
            }
            self.in_turn.pop_front();
        }
    }

    fn start_any_of_server(&mut self, server: usize, out: &mut Vec<Action>) {
        let mut place = 0;
        while self.servers.has_slot(server)
            && place < N_LOOKED_AT
            && let Some(Waiting { piece, other: client }) = self.servers[server].get(place)
        {
            if self.is_at_limit() {
                self.wait_for_limit(End::Server(server as u32));
                return;
            }
            if self.clients.has_slot(client as usize) {
                self.start(piece, out);
            } else if !self.hand_over(piece, out) {
                place += 1;
            }
        }
    }

    fn start_any_of_client(&mut self, client: usize, out: &mut Vec<Action>) {
        let mut place = 0;
        while self.clients.has_slot(client)
            && place < N_LOOKED_AT
            && let Some(Waiting { piece, other: server }) = self.clients[client].get(place)
        {
            if !self.servers.has_slot(server as usize) {
                place += 1;
            } else if self.is_at_limit() {
                self.wait_for_limit(End::Client(client as u32));
                return;
            } else {
                self.start(piece, out);
            }
        }
        self.take_over(client, out);
    }

    /// Starts a waiting piece at the server where it waits.
    pub(super) fn start(&mut self, piece: u32, out: &mut Vec<Action>) {
        let (client, server) = self.leave_lists(piece);
        self.marks.set(piece, State::Running);
        // `start_at` adds it to the server's load again.
        self.start_at(piece, client, server, out);
    }

    /// Removes a piece from its lists. It then has no place.
    pub(super) fn leave_lists(&mut self, piece: u32) -> (ClientId, ServerId) {
        let Piece { client, server, .. } = self.pieces[piece as usize];
        self.clients.remove(client.index(), piece);
        self.servers.remove(server.index(), piece);
        self.gauges[server.index()].left -= self.pieces[piece as usize].size();
        (client, server)
    }

    /// Starts a transfer of a piece.
    pub(super) fn start_at(
        &mut self,
        piece: u32,
        client: ClientId,
        server: ServerId,
        out: &mut Vec<Action>,
    ) -> TransferId {
        self.start_from(0, piece, client, server, None, out)
    }

    /// Starts a transfer of a piece without its first blocks, beside its twin or alone.
    pub(super) fn start_from(
        &mut self,
        from: Nanoblocks,
        piece: u32,
        client: ClientId,
        server: ServerId,
        twin: Option<TransferId>,
        out: &mut Vec<Action>,
    ) -> TransferId {
        self.clients.begin(client.index());
        self.servers.begin(server.index());
        let Piece { request, id, due_ns, next, .. } = self.pieces[piece as usize];
        let size = self.pieces[piece as usize].size() - from;
        let gauge = &mut self.gauges[server.index()];
        gauge.left += size;
        let expected = blocks(size) * gauge.pace.ns;
        let late_after_ns = self.after_ns(self.settings.late, size, expected);
        let hedge_after_ns = if self.settings.hedge_blocks > 0 {
            self.after_ns(self.settings.hedge_after, size, expected)
        } else {
            u64::MAX
        };
        let transfer = self.running.insert(Running {
            piece,
            request,
            id,
            client,
            from,
            size,
            due_ns,
            server,
            started_ns: self.now_ns,
            heard_ns: self.now_ns,
            moved: 0,
            expected_ns: duration_ns(expected),
            late_ns: u64::MAX,
            hedge_ns: self.now_ns.saturating_add(hedge_after_ns),
            is_alone: next == piece,
            twin,
        });
        self.watch_out(transfer, late_after_ns.min(hedge_after_ns));
        let piece = self.pieces[piece as usize].without(from);
        out.push(Action::Start {
            transfer,
            request: id,
            client,
            server,
            offset: piece.offset,
            blocks: piece.blocks,
            is_hedge: twin.is_some(),
        });
        transfer
    }

    /// After how long a transfer is late by this rule.
    fn after_ns(&self, late: Late, size: Nanoblocks, expected_ns: f64) -> u64 {
        let after_ns = match (late, self.recent.p95_ns()) {
            (Late::AfterNs(after_ns), _) => return after_ns,
            (Late::Share(share), _) => expected_ns * (1.0 + share.max(0.0)),
            (Late::P95, Some(p95_ns)) => blocks(size) * p95_ns,
            (Late::P95, None) => expected_ns * LATE_AT_FIRST,
        };
        duration_ns(after_ns).saturating_add(ROUNDED_NS).max(self.settings.least_late_ns)
    }

    /// Sets a timer that marks a transfer as late after this time.
    pub(super) fn watch_out(&mut self, transfer: TransferId, after_ns: u64) {
        let late_ns = self.timers.set_after(self.now_ns, after_ns, Timer::Late(transfer));
        if let Some(run) = self.running.get_mut(transfer) {
            run.late_ns = late_ns;
        }
    }

    pub(super) fn is_at_limit(&self) -> bool {
        self.cluster.max_concurrent().is_some_and(|most| self.running.len() as u64 >= most)
    }
}
