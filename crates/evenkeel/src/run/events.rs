//! Events in, actions out.

use std::cmp::Reverse;

use super::executor::{End, Executor, Stage, Timer};
use super::gauge::{Nanoblocks, blocks};
use super::lists::State;
use super::transfers::Running;
use super::{Action, Event, Misfit};
use crate::model::{ClientId, Fixed, ServerId};

impl Executor<'_> {
    /// Takes an event in; what is to be done comes out. After an error nothing has changed.
    pub fn on_event(&mut self, now_ns: u64, event: Event, out: &mut Vec<Action>) -> Result<(), Misfit> {
        if now_ns < self.now_ns {
            return Err(Misfit::Past { now_ns: self.now_ns });
        }
        self.fits(event)?;
        self.now_ns = now_ns;
        if !self.has_begun {
            self.begin(out);
        }
        match event {
            Event::Arrived { request } => self.on_arrived(request, out),
            Event::Progress { transfer, blocks } => self.on_progress(transfer, blocks),
            Event::Done { transfer } => self.on_done(transfer, out),
            Event::Failed { transfer } => self.on_failed(transfer, out),
            Event::ServerDown { server } => self.on_down(server, out),
            Event::ServerUp { server } => self.on_up(server),
            Event::Wake => {}
        }
        self.settle(out);
        Ok(())
    }

    /// Whether an event can be, after what came before.
    fn fits(&self, event: Event) -> Result<(), Misfit> {
        match event {
            Event::Arrived { request } => match self.requests.get(request as usize) {
                None => Err(Misfit::NoSuchRequest(request)),
                Some(known) if known.stage != Stage::Unknown => Err(Misfit::Known(request)),
                Some(_) => Ok(()),
            },
            Event::Progress { transfer, blocks } => {
                let run = self.under_way(transfer)?;
                let fits = (run.moved..=run.size).contains(&blocks.nanos());
                if fits { Ok(()) } else { Err(Misfit::WrongProgress(transfer)) }
            }
            Event::Done { transfer } | Event::Failed { transfer } => self.under_way(transfer).map(drop),
            Event::ServerDown { server } | Event::ServerUp { server } => {
                let is_known = server.index() < self.servers.len();
                if is_known { Ok(()) } else { Err(Misfit::NoSuchServer(server.0)) }
            }
            Event::Wake => Ok(()),
        }
    }

    fn under_way(&self, transfer: u64) -> Result<&Running, Misfit> {
        let was_started = self.running.was_started(transfer);
        let why_not = if was_started { Misfit::Over(transfer) } else { Misfit::NoSuchTransfer(transfer) };
        self.running.get(transfer).ok_or(why_not)
    }

    fn begin(&mut self, out: &mut Vec<Action>) {
        self.has_begun = true;
        // Empty requests have no pieces.
        for request in 0..self.requests.len() as u32 {
            let known = &self.requests[request as usize];
            if known.stage == Stage::Open && known.n_left == 0 {
                self.deliver(request, self.batch.client(request as usize), out);
            }
        }
        for server in (0..self.servers.len() as u32).map(ServerId) {
            let gauge = &self.gauges[server.index()];
            if gauge.free_from_ns > self.now_ns {
                self.timers.push(Reverse((gauge.free_from_ns, Timer::Free(server))));
            } else {
                self.to_look_at.push(End::Server(server.0));
            }
        }
        if self.settings.shares_work {
            self.to_look_at.extend((0..self.clients.len() as u32).map(End::Client));
        }
    }

    /// A request is there; one that another client took over, at that client.
    fn deliver(&mut self, request: u32, client: ClientId, out: &mut Vec<Action>) {
        self.requests[request as usize].stage = Stage::Over;
        self.n_open -= 1;
        out.push(Action::Deliver { request, client });
    }

    fn on_arrived(&mut self, request: u32, out: &mut Vec<Action>) {
        self.requests[request as usize].stage = Stage::Open;
        self.n_open += 1;
        let size = self.size(request);
        if size == 0 {
            self.deliver(request, self.batch.client(request as usize), out);
            return;
        }
        let server = self.batch.replicas().of(request as usize)[0];
        let piece = self.add_piece(request, server, 0, size);
        self.place(piece, None);
    }

    fn on_progress(&mut self, transfer: u64, moved: Fixed) {
        if let Some(run) = self.running.get_mut(transfer) {
            let before =
                std::mem::replace(run, Running { heard_ns: self.now_ns, moved: moved.nanos(), ..*run });
            self.learn(&before, moved.nanos());
        }
    }

    /// So much of a transfer has been moved by now.
    fn learn(&mut self, run: &Running, moved: Nanoblocks) {
        let more = moved - run.moved;
        let gauge = &mut self.gauges[run.server.index()];
        gauge.left -= more;
        gauge.learn(self.now_ns, more, self.now_ns - run.heard_ns, blocks(more) / blocks(run.size));
        self.watch(run.server);
    }

    fn on_done(&mut self, transfer: u64, out: &mut Vec<Action>) {
        let Some(run) = self.running.get(transfer).copied() else { return };
        self.recent.push((self.now_ns - run.started_ns) as f64 / blocks(run.size));
        self.learn(&run, run.size);
        self.release(transfer, run.size);
        if let Some(twin) = run.twin {
            self.withdraw(twin, out);
        }
        self.marks.set(run.piece, State::Over);
        if self.now_ns > run.due_ns {
            self.leave_plan();
        }
        let known = &mut self.requests[run.request as usize];
        known.n_left -= 1;
        if known.n_left == 0 {
            self.deliver(run.request, run.client, out);
        }
    }

    /// Forgets a transfer that had moved so much; its slots are free.
    pub(super) fn release(&mut self, transfer: u64, moved: Nanoblocks) {
        let Some(run) = self.running.remove(transfer) else { return };
        let server = run.server.index();
        self.gauges[server].left -= run.size - moved;
        self.servers[server].n_running -= 1;
        self.clients[run.client.index()].n_running -= 1;
        self.transfers_at[server].retain(|&other| other != transfer);
        self.to_look_at.extend([End::Server(run.server.0), End::Client(run.client.0)]);
    }

    /// Breaks a transfer off.
    pub(super) fn withdraw(&mut self, transfer: u64, out: &mut Vec<Action>) {
        if let Some(run) = self.running.get(transfer) {
            let moved = run.moved;
            self.release(transfer, moved);
            out.push(Action::Withdraw { transfer });
        }
    }

    /// Starts what can start and does what is due, until there is nothing more.
    fn settle(&mut self, out: &mut Vec<Action>) {
        loop {
            if self.wants_replan {
                self.replan();
            }
            self.start_all(out);
            if !self.is_anything_due(out) {
                break;
            }
        }
    }

    /// The end of all times never comes.
    fn is_due(&self, at_ns: u64) -> bool {
        at_ns <= self.now_ns && at_ns < u64::MAX
    }

    /// Does the next that is due. What is stale is dropped, so that nobody is woken for it.
    fn is_anything_due(&mut self, out: &mut Vec<Action>) -> bool {
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
        while let Some(&Reverse((at_ns, timer))) = self.timers.peek() {
            let is_stale = match timer {
                Timer::Free(_) => false,
                Timer::Late(transfer) => self.running.get(transfer).is_none_or(|run| run.late_ns != at_ns),
            };
            if !is_stale && !self.is_due(at_ns) {
                break;
            }
            self.timers.pop();
            if is_stale {
                continue;
            }
            match timer {
                Timer::Free(server) => self.to_look_at.push(End::Server(server.0)),
                Timer::Late(transfer) => self.on_late(transfer, out),
            }
            return true;
        }
        false
    }
}
