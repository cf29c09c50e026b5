//! What to do about what is late, fails, or waits for a server that is down.

use std::cmp::Reverse;

use super::executor::{End, Executor, Stage};
use super::gauge::{Nanoblocks, blocks};
use super::lists::{Entry, NONE, State};
use super::transfers::Running;
use super::{Action, Reason};
use crate::model::ServerId;

/// A transfer that gives no sign of life is lost when it has taken so many times what was expected, and the
/// patience is over.
const LOST_AFTER: u64 = 4;

impl Executor<'_> {
    /// From now on lists only tell who is first.
    pub(super) fn leave_plan(&mut self) {
        if std::mem::replace(&mut self.keeps_to_plan, false) {
            self.to_look_at.extend((0..self.servers.len() as u32).map(End::Server));
        }
    }

    pub(super) fn on_late(&mut self, transfer: u64, out: &mut Vec<Action>) {
        let Some(run) = self.running.get(transfer).copied() else { return };
        let silent_ns = self.now_ns - run.heard_ns;
        let is_lost =
            silent_ns >= self.settings.patience_ns && silent_ns >= run.expected_ns.saturating_mul(LOST_AFTER);
        self.gauges[run.server.index()].at_least(self.now_ns, run.size - run.moved, silent_ns);
        self.leave_plan();
        if is_lost {
            self.withdraw_failed(transfer, out);
        } else {
            // Twice as long each time, and not at once if it was just heard of, so that this is not often.
            let again_ns = silent_ns.max(run.expected_ns / LOST_AFTER).max(1);
            let until_hedged_ns = Some(run.hedge_ns.saturating_sub(self.now_ns)).filter(|&ns| ns > 0);
            self.watch_out(transfer, until_hedged_ns.unwrap_or(u64::MAX).min(again_ns));
            if until_hedged_ns.is_none() {
                self.hedge(transfer, out);
                self.relieve(run.server);
            }
        }
        self.watch(run.server);
    }

    /// Starts a piece that is late a second time elsewhere, if that is likely to be done earlier; if its client has
    /// no slot for that, in place of the first.
    fn hedge(&mut self, transfer: u64, out: &mut Vec<Action>) {
        let Some(run) = self.running.get(transfer).copied() else { return };
        let piece = self.pieces[run.piece as usize];
        let size = piece.size();
        let is_hedged = self.requests[piece.request as usize].is_hedged || run.twin.is_some();
        if is_hedged || size > self.hedge_left {
            return;
        }
        let holders = self.batch.replicas().of(piece.request as usize).iter().copied();
        let others = holders.filter(|&server| server != run.server && self.servers.has_slot(server.index()));
        let pace_ns = |server: ServerId| self.gauges[server.index()].pace_ns;
        let fastest = others.min_by(|&a, &b| pace_ns(a).total_cmp(&pace_ns(b)));
        let rest_ns = blocks(size - run.moved) * pace_ns(run.server);
        let Some(other) = fastest.filter(|&other| blocks(size) * pace_ns(other) < rest_ns) else { return };
        self.hedge_left -= size;
        self.requests[piece.request as usize].is_hedged = true;
        if self.clients.has_slot(piece.client.index()) && !self.is_at_limit() {
            let twin = self.start_at(run.piece, piece.client, other, Some(transfer), out);
            if let Some(run) = self.running.get_mut(transfer) {
                run.twin = Some(twin);
            }
        } else {
            self.withdraw(transfer, out);
            self.start_at(run.piece, piece.client, other, None, out);
        }
    }

    /// Sends what waits behind a transfer that is late enough to be hedged elsewhere, as far as it is likely to be done
    /// earlier there. Where plans are made anew, that is their task.
    fn relieve(&mut self, server: ServerId) {
        if self.settings.replan.is_some() || self.servers[server.index()].n_queued == 0 {
            return;
        }
        let entries = self.servers[server.index()].entries();
        let waiting: Vec<Entry> = entries.filter(|&entry| !self.marks.is_stale(entry)).collect();
        for entry in waiting {
            let piece = self.pieces[entry.piece as usize];
            let other = self.pick(piece.request, piece.size(), Some(server));
            let wait_ns = |at: ServerId, more| self.gauges[at.index()].wait_ns(self.now_ns, more);
            let is_sooner = |&other: &ServerId| wait_ns(other, piece.size()) < wait_ns(server, 0);
            if let Some(other) = other.filter(is_sooner) {
                let (client, _) = self.leave_lists(entry.piece);
                self.queue(entry.piece, other);
                // Others may have waited behind it.
                self.to_look_at.push(End::Client(client.0));
            }
        }
    }

    pub(super) fn on_failed(&mut self, transfer: u64, out: &mut Vec<Action>) {
        self.leave_plan();
        self.failed(transfer, out);
    }

    fn withdraw_failed(&mut self, transfer: u64, out: &mut Vec<Action>) {
        out.push(Action::Withdraw { transfer });
        self.failed(transfer, out);
    }

    fn failed(&mut self, transfer: u64, out: &mut Vec<Action>) {
        if let Some(run) = self.running.get(transfer).copied() {
            self.release(transfer, run.moved);
            self.lost(&[run], out);
        }
    }

    /// Transfers of a request were lost at once, which is one failure however many they are: their twins go on, or
    /// their pieces start again, if it was not one failure too many.
    fn lost(&mut self, runs: &[Running], out: &mut Vec<Action>) {
        let Some(&Running { request, server, .. }) = runs.first() else { return };
        self.requests[request as usize].n_failures += 1;
        let mut pieces: Vec<u32> = Vec::new();
        for run in runs {
            if !self.goes_on(run.twin) {
                pieces.push(run.piece);
            }
        }
        if pieces.is_empty() {
            return;
        }
        if self.requests[request as usize].n_failures > self.settings.most_failures {
            self.fail(request, Reason::Failures { server }, out);
        } else {
            pieces.into_iter().for_each(|piece| self.place(piece, Some(server)));
        }
    }

    /// Whether a piece that lost a transfer has another one.
    fn goes_on(&mut self, twin: Option<u64>) -> bool {
        let Some(twin) = twin else { return false };
        let Some(run) = self.running.get_mut(twin) else { return false };
        run.twin = None;
        true
    }

    /// Gives a piece that has no place a server to wait at, rather another one than `not`; if there is none, it
    /// waits for one.
    pub(super) fn place(&mut self, piece: u32, not: Option<ServerId>) {
        let (request, size) = (self.pieces[piece as usize].request, self.pieces[piece as usize].size());
        let chosen = self.pick(request, size, not).or_else(|| self.holders(request).next());
        if let Some(server) = chosen {
            self.queue(piece, server);
            self.watch(server);
        } else {
            self.park(piece);
        }
    }

    /// The servers that hold a request and are up.
    fn holders(&self, request: u32) -> impl Iterator<Item = ServerId> + Clone {
        let holders = self.batch.replicas().of(request as usize).iter().copied();
        holders.filter(|server| self.gauges[server.index()].is_up)
    }

    /// Whether one is up.
    pub(super) fn has_holder(&self, request: u32) -> bool {
        self.holders(request).next().is_some()
    }

    /// Picks one of them, but for `not`.
    fn pick(&mut self, request: u32, size: Nanoblocks, not: Option<ServerId>) -> Option<ServerId> {
        let holders = self.batch.replicas().of(request as usize).iter().copied();
        let others = holders.filter(|&server| Some(server) != not && self.gauges[server.index()].is_up);
        self.settings.pick.choose(others, size, &self.gauges, self.now_ns, &mut self.draw)
    }

    /// Has a piece wait for a server to come back.
    pub(super) fn park(&mut self, piece: u32) {
        self.marks.put(piece, State::Parked);
        let until_ns = self.now_ns.saturating_add(self.settings.patience_ns);
        self.parked.push_back((until_ns, self.marks.entry(piece, NONE)));
    }

    /// Puts a piece at the end of the lists of its client and a server. Whatever is behind something in one list is
    /// not before it in another, so the first of all can always start.
    pub(super) fn queue(&mut self, piece: u32, server: ServerId) {
        let waiting = &mut self.pieces[piece as usize];
        waiting.server = server;
        let client = waiting.client;
        self.gauges[server.index()].left += waiting.size();
        self.marks.put(piece, State::Queued);
        self.servers[server.index()].push(self.marks.entry(piece, client.0));
        self.clients[client.index()].push(self.marks.entry(piece, server.0));
        if self.settings.shares_work {
            self.longest.push((self.clients[client.index()].n_queued, Reverse(client.0)));
        }
        self.to_look_at.push(End::Server(server.0));
    }

    /// Gives a request up, and all that is under way for it.
    fn fail(&mut self, request: u32, reason: Reason, out: &mut Vec<Action>) {
        let first = self.requests[request as usize].first;
        let (mut next, mut is_running) = (first, false);
        loop {
            let piece = self.pieces[next as usize];
            match self.marks.state(next) {
                State::Queued => {
                    self.leave_lists(next);
                    // Others may have waited behind it.
                    self.to_look_at.extend([End::Server(piece.server.0), End::Client(piece.client.0)]);
                }
                State::Running => is_running = true,
                State::Parked | State::Undecided | State::Over => {}
            }
            self.marks.set(next, State::Over);
            next = piece.next;
            if next == first {
                break;
            }
        }
        if is_running {
            for (transfer, _) in self.running.filtered(|run| run.request == request) {
                self.withdraw(transfer, out);
            }
        }
        self.requests[request as usize].stage = Stage::Over;
        self.n_open -= 1;
        out.push(Action::Fail { request, reason });
    }

    pub(super) fn give_up_waiting(&mut self, piece: u32, out: &mut Vec<Action>) {
        self.fail(self.pieces[piece as usize].request, Reason::NoServer, out);
    }

    pub(super) fn on_down(&mut self, server: ServerId, out: &mut Vec<Action>) {
        if !std::mem::replace(&mut self.gauges[server.index()].is_up, false) {
            return;
        }
        self.leave_plan();
        self.servers.set_slots(server.index(), 0);
        let mut lost = self.running.filtered(|run| run.server == server);
        lost.iter().for_each(|&(transfer, _)| self.withdraw(transfer, out));
        lost.sort_by_key(|(_, run)| run.request);
        let lost: Vec<Running> = lost.into_iter().map(|(_, run)| run).collect();
        lost.chunk_by(|a, b| a.request == b.request).for_each(|runs| self.lost(runs, out));
        for entry in self.servers[server.index()].take_entries() {
            if !self.marks.is_stale(entry) {
                let (client, _) = self.leave_lists(entry.piece);
                self.place(entry.piece, None);
                // Others may have waited behind it.
                self.to_look_at.push(End::Client(client.0));
            }
        }
        self.park_undecided(server);
    }

    pub(super) fn on_up(&mut self, server: ServerId) {
        if std::mem::replace(&mut self.gauges[server.index()].is_up, true) {
            return;
        }
        let parked = std::mem::take(&mut self.parked);
        for (until_ns, entry) in parked {
            if self.marks.is_stale(entry) {
                continue;
            }
            let request = self.pieces[entry.piece as usize].request;
            if !self.batch.replicas().of(request as usize).contains(&server) {
                self.parked.push_back((until_ns, entry));
            } else if self.decides_late() {
                self.wait_for_any(entry.piece);
            } else {
                self.queue(entry.piece, server);
            }
        }
        self.open(server);
        self.one_more_server();
    }
}
