//! Events in, actions out.

use super::executor::{End, Executor};
use super::gauge::{Nanoblocks, blocks};
use super::lists::{NONE, State};
use super::timers::Timer;
use super::transfers::Running;
use super::{Action, Event, Late, Misfit, RequestId, TransferId};
use crate::model::{ClientId, Fixed, MAX_SLOTS, ServerId};

fn can_have(slots: u32) -> Result<(), Misfit> {
    if (1..=MAX_SLOTS).contains(&slots) { Ok(()) } else { Err(Misfit::BadSlots(slots)) }
}

/// The maximum number of replicas of a request that arrives.
const MOST_REPLICAS: usize = 1000;

impl Executor {
    /// Handles an event, and appends the resulting actions to `out`. After an error nothing has changed.
    pub fn on_event(&mut self, now_ns: u64, event: Event<'_>, out: &mut Vec<Action>) -> Result<(), Misfit> {
        if now_ns < self.now_ns {
            return Err(Misfit::Past { now_ns: self.now_ns });
        }
        self.fits(event)?;
        self.now_ns = now_ns;
        if let Some(planning) = &mut self.planning {
            planning.is_new = false;
        }
        if !self.has_begun {
            self.begin(out);
        }
        match event {
            Event::Arrived { request, client, blocks, replicas } => {
                let request = self.requests.insert(request, client, blocks, replicas);
                self.on_arrived(request, out);
            }
            Event::Progress { transfer, blocks } => self.on_progress(transfer, blocks),
            Event::Done { transfer } => self.on_done(transfer, out),
            Event::Failed { transfer, cause } => self.on_failed(transfer, cause, out),
            Event::Cancelled { request } => self.on_cancelled(request, out),
            Event::ServerDown { server } => self.on_down(server, out),
            Event::ServerUp { server } => self.on_up(server),
            Event::ServerJoined { server, node } => self.on_server_joined(server, node),
            Event::ServerLeft { server } => self.on_server_left(server, out),
            Event::ClientJoined { client, node } => self.on_client_joined(client, node),
            Event::ClientLeft { client } => self.on_client_left(client, out),
            Event::ReplicaAdded { request, server } => {
                if let Some(request) = self.requests.find(request) {
                    self.on_replica_added(request, server);
                }
            }
            Event::ReplicaLost { request, server } => {
                if let Some(request) = self.requests.find(request) {
                    self.on_replica_lost(request, server, out);
                }
            }
            Event::Planned { plan } => self.on_planned(plan),
            Event::Wake => {}
        }
        self.settle(out);
        Ok(())
    }

    /// Whether an event is possible after the events before it.
    fn fits(&self, event: Event<'_>) -> Result<(), Misfit> {
        match event {
            Event::Arrived { request, client, replicas, .. } => self.can_arrive(request, client, replicas),
            Event::Progress { transfer, blocks } => {
                let run = self.under_way(transfer)?;
                let fits = (run.moved..=run.size).contains(&blocks.nanos());
                if fits { Ok(()) } else { Err(Misfit::WrongProgress(transfer)) }
            }
            Event::Done { transfer } | Event::Failed { transfer, .. } => self.under_way(transfer).map(drop),
            Event::Cancelled { request } => self.open_request(request),
            Event::ServerDown { server } | Event::ServerUp { server } | Event::ServerLeft { server } => {
                self.member(server)
            }
            Event::ServerJoined { server, node } => {
                let is_next = server.index() <= self.servers.len();
                if is_next { can_have(node.slots) } else { Err(Misfit::NoSuchServer(server.0)) }
            }
            Event::ClientJoined { client, node } => {
                let is_next = client.index() <= self.clients.len();
                if is_next { can_have(node.slots) } else { Err(Misfit::NoSuchClient(client.0)) }
            }
            Event::ClientLeft { client } => self.present(client),
            Event::ReplicaAdded { request, server } | Event::ReplicaLost { request, server } => {
                self.open_request(request).and_then(|()| self.member(server))
            }
            Event::Planned { plan } => self.was_asked_for(plan),
            Event::Wake => Ok(()),
        }
    }

    /// Whether the properties of an arriving request are valid.
    fn can_arrive(&self, request: RequestId, client: ClientId, replicas: &[ServerId]) -> Result<(), Misfit> {
        if self.requests.find(request).is_some() {
            return Err(Misfit::Known(request));
        }
        self.present(client)?;
        if let Some(server) = replicas.iter().find(|server| server.index() >= self.servers.len()) {
            return Err(Misfit::NoSuchServer(server.0));
        }
        let is_twice = |(i, server)| replicas[..i].contains(server);
        if replicas.is_empty() || replicas.len() > MOST_REPLICAS || replicas.iter().enumerate().any(is_twice)
        {
            return Err(Misfit::BadReplicas(request));
        }
        let has_room = !self.free_pieces.is_empty() || self.pieces.len() + 1 < NONE as usize;
        if has_room { Ok(()) } else { Err(Misfit::TooMany) }
    }

    fn open_request(&self, request: RequestId) -> Result<(), Misfit> {
        self.requests.find(request).map(drop).ok_or(Misfit::NotOpen(request))
    }

    fn member(&self, server: ServerId) -> Result<(), Misfit> {
        let is_member = self.gauges.get(server.index()).is_some_and(|gauge| gauge.is_member);
        if is_member { Ok(()) } else { Err(Misfit::NoSuchServer(server.0)) }
    }

    fn present(&self, client: ClientId) -> Result<(), Misfit> {
        let is_there = self.clients.get(client.index()).is_some_and(|node| !node.is_gone);
        if is_there { Ok(()) } else { Err(Misfit::NoSuchClient(client.0)) }
    }

    fn under_way(&self, transfer: TransferId) -> Result<&Running, Misfit> {
        let was_started = self.running.was_started(transfer);
        let why_not = if was_started { Misfit::Over(transfer) } else { Misfit::NoSuchTransfer(transfer) };
        self.running.get(transfer).ok_or(why_not)
    }

    fn begin(&mut self, out: &mut Vec<Action>) {
        self.has_begun = true;
        // Empty requests have no pieces.
        let empty = self.requests.iter().filter(|(_, request)| request.n_left == 0);
        for (request, client) in empty.map(|(place, request)| (place, request.client)).collect::<Vec<_>>() {
            self.deliver(request, client, out);
        }
        for server in (0..self.servers.len() as u32).map(ServerId) {
            self.wait_until_free(server);
            self.to_look_at.push(End::Server(server.0));
        }
        if self.settings.shares_work {
            self.to_look_at.extend((0..self.clients.len() as u32).map(End::Client));
        }
    }

    /// Starts nothing at a server until it is done with its backlog.
    pub(super) fn wait_until_free(&mut self, server: ServerId) {
        let free_from_ns = self.gauges[server.index()].free_from_ns;
        if free_from_ns > self.now_ns {
            self.servers.set_slots(server.index(), 0);
            self.timers.set(free_from_ns, Timer::Free(server));
        }
    }

    /// Opens the slots of a server, if it is up and done with its backlog.
    pub(super) fn open(&mut self, server: ServerId) {
        let gauge = &self.gauges[server.index()];
        if gauge.is_up && gauge.free_from_ns <= self.now_ns {
            self.servers.set_slots(server.index(), self.cluster.servers()[server.index()].slots);
            self.to_look_at.push(End::Server(server.0));
        }
    }

    /// Delivers a request, to the client that took it over if there is one.
    fn deliver(&mut self, request: u32, client: ClientId, out: &mut Vec<Action>) {
        let id = self.over(request);
        self.counts.delivered += 1;
        out.push(Action::Deliver { request: id, client });
    }

    /// Closes a request and forgets it.
    pub(super) fn over(&mut self, request: u32) -> RequestId {
        let id = self.requests[request].id;
        self.free_pieces_of(request);
        self.forget(request, id);
        id
    }

    fn forget(&mut self, request: u32, id: RequestId) {
        self.requests.remove(request, id);
        self.barred.forget(request);
        self.forget_refusals(request);
    }

    fn forget_refusals(&mut self, request: u32) {
        let all = (request, ServerId(0))..=(request, ServerId(u32::MAX));
        while let Some((&refused, _)) = self.refused_since_ns.range(all.clone()).next() {
            self.refused_since_ns.remove(&refused);
        }
    }

    fn on_arrived(&mut self, request: u32, out: &mut Vec<Action>) {
        let size = self.size(request);
        if size == 0 {
            self.deliver(request, self.requests[request].client, out);
            return;
        }
        let server = self.requests[request].holders[0];
        let piece = self.add_piece(self.piece(request, server, 0, size));
        if self.decides_late() && self.has_holder(piece) {
            self.wait_for_any(piece);
        } else {
            self.place(piece, None, out);
        }
    }

    fn on_cancelled(&mut self, request: RequestId, out: &mut Vec<Action>) {
        // An empty request was delivered when the run began.
        if let Some(request) = self.requests.find(request) {
            self.leave_plan();
            self.counts.cancelled += 1;
            self.close(request, out);
        }
    }

    fn on_progress(&mut self, transfer: TransferId, moved: Fixed) {
        if let Some(run) = self.running.get_mut(transfer) {
            let before =
                std::mem::replace(run, Running { heard_ns: self.now_ns, moved: moved.nanos(), ..*run });
            self.learn(&before, moved.nanos());
        }
    }

    /// Learns that `moved` blocks of a transfer have been moved by now.
    fn learn(&mut self, run: &Running, moved: Nanoblocks) {
        let more = moved - run.moved;
        if more > 0 {
            self.forget_refusals(run.request);
        }
        self.moved += more;
        if self.settings.hedge_share > 0.0 {
            let most = Nanoblocks::from(self.settings.hedge_blocks) * 1_000_000_000;
            let added = (more as f64 * self.settings.hedge_share) as Nanoblocks;
            self.hedge_left = self.hedge_left.saturating_add(added).min(most);
        }
        let gauge = &mut self.gauges[run.server.index()];
        gauge.left -= more;
        let (more, share) = (blocks(more), blocks(more) / blocks(run.size));
        gauge.pace.learn(self.now_ns, more, self.now_ns - run.heard_ns, share);
        self.watch(run.server);
    }

    fn on_done(&mut self, transfer: TransferId, out: &mut Vec<Action>) {
        let Some(run) = self.running.remove(transfer) else { return };
        if [self.settings.late, self.settings.hedge_after].contains(&Late::P95) {
            self.recent.push((self.now_ns - run.started_ns) as f64 / blocks(run.size));
        }
        self.learn(&run, run.size);
        self.release(&run, run.size);
        self.one_more_idle(run.server);
        if let Some(twin) = run.twin {
            self.lose(twin, out);
        }
        self.marks.set(run.piece, State::Over);
        if self.now_ns > run.due_ns {
            self.leave_plan();
        }
        if run.is_alone {
            // For most requests nothing else needs to be known, which is faster.
            self.free_piece(run.piece);
            self.forget(run.request, run.id);
            self.counts.delivered += 1;
            out.push(Action::Deliver { request: run.id, client: run.client });
        } else if self.finish_piece(run.request) {
            self.deliver(run.request, run.client, out);
        }
        self.finish_sooner(run.server, out);
    }

    /// Counts one more piece of a request as delivered. Returns whether it was the last.
    fn finish_piece(&mut self, request: u32) -> bool {
        let known = &mut self.requests[request];
        known.n_left -= 1;
        known.n_left == 0
    }

    /// Frees the slots of a transfer that is over and had moved this much.
    pub(super) fn release(&mut self, run: &Running, moved: Nanoblocks) {
        let server = run.server.index();
        self.gauges[server].left -= run.size - moved;
        self.servers.end(server);
        self.clients.end(run.client.index());
        self.to_look_at.extend([End::Server(run.server.0), End::Client(run.client.0)]);
    }

    /// Breaks off a transfer.
    pub(super) fn withdraw(&mut self, transfer: TransferId, out: &mut Vec<Action>) {
        if let Some(run) = self.running.remove(transfer) {
            self.release(&run, run.moved);
            out.push(Action::Withdraw { transfer });
        }
    }

    /// Breaks off a transfer whose twin was faster.
    fn lose(&mut self, transfer: TransferId, out: &mut Vec<Action>) {
        if let Some(run) = self.running.get(transfer) {
            self.gauges[run.server.index()].pace.broken_off();
            self.withdraw(transfer, out);
        }
    }

    /// Starts everything that can start and fires due timers, until nothing is left to do. If a new plan is requested,
    /// the rest waits for the next event, which may bring the plan.
    fn settle(&mut self, out: &mut Vec<Action>) {
        loop {
            if self.wants_replan && self.ask_for_plan(out) {
                return;
            }
            self.start_all(out);
            if !self.fire_next(out) {
                break;
            }
        }
    }

    /// Whether a time has come. The end of time never does.
    fn is_due(&self, at_ns: u64) -> bool {
        at_ns <= self.now_ns && at_ns < u64::MAX
    }

    /// Fires the next due timer. Returns false if none is due.
    fn fire_next(&mut self, out: &mut Vec<Action>) -> bool {
        while let Some(&(until_ns, entry)) = self.parked.front() {
            let is_stale = self.marks.is_stale(entry);
            if !is_stale && !self.is_due(until_ns) {
                break;
            }
            self.parked.pop_front();
            if !is_stale {
                self.give_up_waiting(entry.piece, out);
                return true;
            }
        }
        let Some((at_ns, timers)) = self.timers.due(self.now_ns) else { return false };
        for timer in timers {
            match timer {
                Timer::Free(server) => self.open(server),
                Timer::Late(transfer) => {
                    if self.running.get(transfer).is_some_and(|run| run.late_ns == at_ns) {
                        self.on_late(transfer, out);
                    }
                }
            }
        }
        true
    }
}
