//! Handles transfers that are late or fail, and requests that wait for a server that is down.

use std::collections::VecDeque;

use super::executor::{End, Executor};
use super::gauge::blocks;
use super::lists::{Entry, NONE, State, Waiting};
use super::timers::Timer;
use super::trace::Decided;
use super::transfers::Running;
use super::{Action, Cause, Reason, RequestId, TransferId};
use crate::model::ServerId;

/// A transfer that gives no sign of life is lost after this many times its expected duration, once the patience is over
/// too.
const LOST_AFTER: u64 = 4;
/// In the end, a transfer is started a second time where it takes no more than half of the time.
const MUCH_SLOWER: f64 = 2.0;
/// A server that refuses is left alone for at least this long.
const LEAST_RETRY_NS: u64 = 1_000_000;

impl Executor {
    /// Leaves the plan: from now on lists only set priorities.
    pub(super) fn leave_plan(&mut self) {
        if std::mem::replace(&mut self.keeps_to_plan, false) {
            self.in_turn = VecDeque::new();
            self.to_look_at.extend((0..self.servers.len() as u32).map(End::Server));
        }
    }

    pub(super) fn on_late(&mut self, transfer: TransferId, out: &mut Vec<Action>) {
        let Some(run) = self.running.get(transfer).copied() else { return };
        let silent_ns = self.now_ns - run.heard_ns;
        let is_lost =
            silent_ns >= self.settings.patience_ns && silent_ns >= run.expected_ns.saturating_mul(LOST_AFTER);
        // Of the whole transfer: the last few blocks of one prove little, however long they take.
        let passed_ns = self.now_ns - run.started_ns;
        self.gauges[run.server.index()].pace.at_least(self.now_ns, blocks(run.size), passed_ns);
        self.leave_plan();
        if is_lost {
            self.withdraw_failed(transfer, out);
        } else {
            // Doubles the interval each time, and waits if the transfer was just heard from, so that this is rare.
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

    /// Starts the rest of a late piece a second time elsewhere, if it is likely to be done earlier there. If its client
    /// has no slot for that, the new transfer replaces the first.
    fn hedge(&mut self, transfer: TransferId, out: &mut Vec<Action>) {
        let Some(run) = self.running.get(transfer).copied() else { return };
        let piece = self.pieces[run.piece as usize];
        let rest = run.size - run.moved;
        let is_hedged = self.requests[piece.request].is_hedged || run.twin.is_some();
        if is_hedged || rest > self.hedge_left || rest == 0 || self.clients.is_overfull(piece.client.index())
        {
            return;
        }
        let others = self.holders(run.piece).filter(|&server| server != run.server);
        let others = others.filter(|&server| self.servers.has_slot(server.index()));
        let pace_ns = |server: ServerId| self.gauges[server.index()].pace.ns;
        let fastest = others.min_by(|&a, &b| pace_ns(a).total_cmp(&pace_ns(b)));
        let Some(other) = fastest.filter(|&other| pace_ns(other) < pace_ns(run.server)) else { return };
        let (request, late_at) = (piece.id, run.server);
        self.note(Decided::Hedged { request, transfer, late_at, server: other }, rest, |executor| {
            let is_free = |server: &ServerId| *server != late_at && executor.servers.has_slot(server.index());
            std::iter::once(late_at).chain(executor.holders(run.piece).filter(is_free)).collect()
        });
        self.hedge_left -= rest;
        self.counts.hedged += 1;
        self.requests[piece.request].is_hedged = true;
        if self.clients.has_slot(piece.client.index()) && !self.is_at_limit() {
            let from = run.from + run.moved;
            let twin = self.start_from(from, run.piece, piece.client, other, Some(transfer), out);
            if let Some(run) = self.running.get_mut(transfer) {
                run.twin = Some(twin);
            }
        } else {
            self.withdraw(transfer, out);
            self.keep(&run);
            self.start_at(run.piece, piece.client, other, out);
        }
    }

    /// When nothing is left to start and a server has nothing to do, transfers that are much faster elsewhere are started a
    /// second time there: a slow server that keeps its pace is not late, but the others would wait for it.
    pub(super) fn finish_sooner(&mut self, server: ServerId, out: &mut Vec<Action>) {
        let may_hedge = self.hedge_left > 0 && !self.settings.keeps_order;
        if !may_hedge || self.servers.iter().any(|server| server.n_queued > 0) {
            return;
        }
        let pace_ns = self.gauges[server.index()].pace.ns;
        let mut slow = self.running.filtered(|run| {
            let slower_ns = self.gauges[run.server.index()].pace.ns;
            let left_ns = blocks(run.size - run.moved) * slower_ns - (self.now_ns - run.heard_ns) as f64;
            slower_ns >= MUCH_SLOWER * pace_ns && left_ns > self.settings.least_late_ns as f64
        });
        slow.sort_unstable_by_key(|&(transfer, _)| transfer);
        slow.into_iter().for_each(|(transfer, _)| self.hedge(transfer, out));
    }

    /// Moves the queue behind a transfer that is late enough to be hedged elsewhere, as far as it is likely to be done
    /// earlier there. With re-planning, this is left to the next plan.
    fn relieve(&mut self, server: ServerId) {
        if self.settings.replan_after.is_some() || self.servers[server.index()].n_queued == 0 {
            return;
        }
        for piece in self.servers.list(server.index()).collect::<Vec<u32>>() {
            let size = self.pieces[piece as usize].size();
            let other = self.pick(piece, Some(server));
            let wait_ns = |at: ServerId, more| self.gauges[at.index()].wait_ns(self.now_ns, more);
            let is_sooner = |&other: &ServerId| wait_ns(other, size) < wait_ns(server, 0);
            if let Some(other) = other.filter(is_sooner) {
                let (client, _) = self.leave_lists(piece);
                self.queue(piece, other);
                // Others may have waited behind it.
                self.to_look_at.push(End::Client(client.0));
            }
        }
    }

    pub(super) fn on_failed(&mut self, transfer: TransferId, cause: Cause, out: &mut Vec<Action>) {
        self.leave_plan();
        let Some(mut run) = self.running.remove(transfer) else { return };
        self.release(&run, run.moved);
        self.counts.lost += 1;
        match cause {
            Cause::Unreachable | Cause::TimedOut => self.lost(&[run], out),
            Cause::NotHeld => {
                self.try_elsewhere(&run, out);
                self.forget_replica(run.request, run.server, out);
            }
            Cause::Damaged => {
                let sent = self.pieces[run.piece as usize].without(run.from);
                out.push(Action::Report {
                    request: self.requests[run.request].id,
                    server: run.server,
                    offset: sent.offset,
                    blocks: sent.blocks,
                });
                self.barred.insert(run.request, run.piece, run.server);
                run.moved = 0;
                // A hedge fetches only what this transfer had not moved.
                let hedge =
                    run.twin.filter(|&twin| self.running.get(twin).is_some_and(|t| t.from > run.from));
                if let Some(hedge) = hedge {
                    self.withdraw(hedge, out);
                }
                self.try_elsewhere(&run, out);
            }
            Cause::Refused { retry_after_ns } => {
                let wait_ns = retry_after_ns.max(LEAST_RETRY_NS).min(self.settings.patience_ns);
                self.leave_alone(run.server, self.now_ns.saturating_add(wait_ns));
                self.refused_since_ns.entry((run.request, run.server)).or_insert(self.now_ns);
                let is_refused = |server: ServerId| {
                    let since_ns = self.refused_since_ns.get(&(run.request, server));
                    since_ns.is_some_and(|&since_ns| self.now_ns - since_ns >= self.settings.patience_ns)
                };
                if is_refused(run.server) && self.holders(run.piece).all(is_refused) {
                    self.fail(run.request, Reason::Refused { server: run.server }, out);
                } else {
                    self.try_elsewhere(&run, out);
                    self.relieve(run.server);
                }
            }
        }
    }

    /// Starts nothing at a server before `until_ns`.
    fn leave_alone(&mut self, server: ServerId, until_ns: u64) {
        let gauge = &mut self.gauges[server.index()];
        if until_ns > gauge.free_from_ns {
            gauge.free_from_ns = until_ns;
            self.servers.set_slots(server.index(), 0);
            self.timers.set(until_ns, Timer::Free(server));
        }
    }

    /// A server holds nothing of a request: the pieces of the request that wait there, or for it, go elsewhere.
    pub(super) fn forget_replica(&mut self, request: u32, server: ServerId, out: &mut Vec<Action>) {
        let known = &mut self.requests[request];
        known.holders.retain(|holder| *holder != server);
        for piece in self.ring(self.requests[request].first).collect::<Vec<u32>>() {
            if !self.requests.is_open(request) {
                return;
            }
            match self.marks.state(piece) {
                State::Queued if self.pieces[piece as usize].server == server => {
                    let (client, _) = self.leave_lists(piece);
                    self.place(piece, None, out);
                    // Others may have waited behind it.
                    self.to_look_at.extend([End::Server(server.0), End::Client(client.0)]);
                }
                State::Undecided | State::Parked if !self.has_holder(piece) => self.place(piece, None, out),
                _ => {}
            }
        }
    }

    fn withdraw_failed(&mut self, transfer: TransferId, out: &mut Vec<Action>) {
        if let Some(run) = self.running.get(transfer).copied() {
            self.withdraw(transfer, out);
            self.counts.lost += 1;
            self.lost(&[run], out);
        }
    }

    /// Keeps the blocks that a transfer moved before it ended. They need not be moved again.
    fn keep(&mut self, run: &Running) {
        let piece = &mut self.pieces[run.piece as usize];
        // If only its end was missing, it is unknown whether all blocks were good.
        let moved = if run.moved < run.size { run.moved } else { 0 };
        *piece = piece.without(run.from + moved);
    }

    /// Handles the end of a transfer: its twin continues, or the rest of its piece starts again, elsewhere if possible.
    fn try_elsewhere(&mut self, run: &Running, out: &mut Vec<Action>) {
        if !self.goes_on(run.twin) {
            self.keep(run);
            self.place(run.piece, Some(run.server), out);
        }
    }

    /// Transfers of a request were lost together, which counts as one failure however many they are. Their twins
    /// continue, or the rest of their pieces starts again, unless this is one failure too many.
    fn lost(&mut self, runs: &[Running], out: &mut Vec<Action>) {
        let Some(&Running { request, server, .. }) = runs.first() else { return };
        self.requests[request].n_failures += 1;
        let are_all_saved =
            runs.iter().all(|run| run.twin.is_some_and(|twin| self.running.get(twin).is_some()));
        if self.requests[request].n_failures > self.settings.most_failures && !are_all_saved {
            self.fail(request, Reason::Failures { server }, out);
        } else {
            runs.iter().for_each(|run| self.try_elsewhere(run, out));
        }
    }

    /// Whether a piece that lost a transfer has another one in flight.
    fn goes_on(&mut self, twin: Option<TransferId>) -> bool {
        let Some(twin) = twin else { return false };
        let Some(run) = self.running.get_mut(twin) else { return false };
        run.twin = None;
        true
    }

    /// Queues a piece that has no place at a server, preferably not at `not`. If none is up, the piece waits for one.
    /// If there will never be one, its request fails.
    pub(super) fn place(&mut self, piece: u32, not: Option<ServerId>, out: &mut Vec<Action>) {
        if self.marks.state(piece) == State::Over {
            return;
        }
        let chosen = self.pick(piece, not).or_else(|| self.holders(piece).next());
        let waiting = &self.pieces[piece as usize];
        if let Some(server) = chosen {
            let (request, size) = (waiting.id, waiting.size());
            self.note(Decided::Queued { request, server }, size, |executor| {
                executor.holders(piece).filter(|&server| Some(server) != not).collect()
            });
            self.queue(piece, server);
            self.watch(server);
        } else if self.is_hopeless(piece) {
            let (request, server) = (waiting.request, not.unwrap_or(waiting.server));
            // The piece is in no list.
            self.marks.put(piece, State::Parked);
            self.fail(request, Reason::NoCopy { server }, out);
        } else {
            self.park(piece);
        }
    }

    /// Whether no server will ever serve a piece.
    pub(super) fn is_hopeless(&self, piece: u32) -> bool {
        let holders = &self.requests[self.pieces[piece as usize].request].holders;
        let is_no_use =
            |&server: &ServerId| !self.gauges[server.index()].is_member || self.is_barred(piece, server);
        holders.iter().all(is_no_use)
    }

    fn is_barred(&self, piece: u32, server: ServerId) -> bool {
        self.barred.has(self.pieces[piece as usize].request, piece, server)
    }

    /// The servers that can serve a piece: they hold it, are up and may be asked for it.
    pub(super) fn holders(&self, piece: u32) -> impl Iterator<Item = ServerId> + Clone {
        let request = self.pieces[piece as usize].request;
        let holders = self.requests[request].holders.iter().copied();
        holders.filter(move |&server| self.gauges[server.index()].is_up && !self.is_barred(piece, server))
    }

    /// Whether any server can serve a piece.
    pub(super) fn has_holder(&self, piece: u32) -> bool {
        self.holders(piece).next().is_some()
    }

    /// Picks a server that can serve a piece, other than `not`.
    fn pick(&mut self, piece: u32, not: Option<ServerId>) -> Option<ServerId> {
        let size = self.pieces[piece as usize].size();
        let mut draw = self.draw.clone();
        let others = self.holders(piece).filter(|&server| Some(server) != not);
        let picked = self.settings.pick.choose(others, size, &self.gauges, self.now_ns, &mut draw);
        self.draw = draw;
        picked
    }

    /// Parks a piece until a server comes back.
    pub(super) fn park(&mut self, piece: u32) {
        self.marks.put(piece, State::Parked);
        let until_ns = self.now_ns.saturating_add(self.settings.patience_ns);
        self.parked.push_back((until_ns, self.marks.entry(piece)));
    }

    /// Appends a piece to the lists of its client and a server. A piece that is behind another in one list is not ahead
    /// of it in any other list, so the first of all can always start.
    pub(super) fn queue(&mut self, piece: u32, server: ServerId) {
        let waiting = &mut self.pieces[piece as usize];
        waiting.server = server;
        let client = waiting.client;
        self.gauges[server.index()].left += waiting.size();
        self.marks.put(piece, State::Queued);
        self.servers.append(server.index(), Waiting { piece, other: client.0 });
        self.clients.append(client.index(), Waiting { piece, other: server.0 });
        if self.keeps_to_plan && self.cluster.max_concurrent().is_some() {
            self.in_turn.push_back(self.marks.entry(piece));
        }
        if self.settings.shares_work {
            self.lengthened(client);
        }
        self.to_look_at.push(End::Server(server.0));
    }

    /// Fails a request.
    pub(super) fn fail(&mut self, request: u32, reason: Reason, out: &mut Vec<Action>) {
        let request = self.close(request, out);
        self.counts.failed += 1;
        out.push(Action::Fail { request, reason });
    }

    /// Ends a request.
    pub(super) fn close(&mut self, request: u32, out: &mut Vec<Action>) -> RequestId {
        self.end_pieces(request, out);
        self.over(request)
    }

    /// Ends all pieces of a request, waiting or in flight.
    pub(super) fn end_pieces(&mut self, request: u32, out: &mut Vec<Action>) {
        let first = self.requests[request].first;
        let (mut next, mut is_running) = (first, false);
        while next != NONE {
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
        self.counts.lost += lost.len() as u64;
        let lost: Vec<Running> = lost.into_iter().map(|(_, run)| run).collect();
        lost.chunk_by(|a, b| a.request == b.request).for_each(|runs| self.lost(runs, out));
        let waiting = self.servers.list(server.index()).map(|piece| self.marks.entry(piece));
        for entry in waiting.collect::<Vec<Entry>>() {
            // Its request may have failed with another of its pieces.
            if !self.marks.is_stale(entry) {
                let (client, _) = self.leave_lists(entry.piece);
                self.place(entry.piece, None, out);
                // Others may have waited behind it.
                self.to_look_at.push(End::Client(client.0));
            }
        }
        self.park_undecided(server);
    }

    pub(super) fn on_up(&mut self, server: ServerId) {
        if self.gauges[server.index()].is_up {
            return;
        }
        self.back(server);
        self.open(server);
        self.one_more_server();
    }

    /// A server is up: the pieces that waited for it to come back go there.
    pub(super) fn back(&mut self, server: ServerId) {
        if std::mem::replace(&mut self.gauges[server.index()].is_up, true) {
            return;
        }
        let parked = std::mem::take(&mut self.parked);
        for (until_ns, entry) in parked {
            if self.marks.is_stale(entry) {
                continue;
            }
            if self.holders(entry.piece).any(|holder| holder == server) {
                self.resume_at(entry.piece, server);
            } else {
                self.parked.push_back((until_ns, entry));
            }
        }
    }

    /// Queues a piece that has waited for a server to come back.
    pub(super) fn resume_at(&mut self, piece: u32, server: ServerId) {
        if self.decides_late() { self.wait_for_any(piece) } else { self.queue(piece, server) }
    }
}
