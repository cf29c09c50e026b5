//! A central scheduler chooses servers again at every arrival (paper 001).

use evenkeel::model::{Batch, Choice, Cluster, ServerId};
use evenkeel::observe::Lateness;
use evenkeel::select::replanned::{Move, Replanned, TakeBack};
use serde::Deserialize;

use super::{Centre, Requests, Run, View, Windows};
use crate::fabric::{Fabric, Happening};
use crate::outcome::Outcome;

/// When the centre hands requests over to servers, and what counts as one decision and one message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HandOver {
    /// Each request is handed over when its server has a free slot.
    #[default]
    AtStart,
    /// Each request is handed over as soon as its server is chosen, one after the other. The centre chooses again when
    /// it has sent them all.
    Each,
    /// As `Each`, but all requests that a server gets at one scheduling point go together.
    Together,
}

/// Tag of the timer that ends when the centre has sent everything.
pub(crate) const SENT_ALL: u64 = u64::MAX;

/// At every arrival, the requests that `take_back` selects get a new choice together with those that have arrived. A
/// server gets its next request when a slot is free. Each start is a decision of the centre and a message. If it
/// `learns`, the centre uses the speeds that servers have shown, not the stated ones.
pub fn centre(
    requests: &Requests,
    fabric: Fabric<'_>,
    view: &View,
    take_back: TakeBack,
    learns: bool,
    select: impl FnMut(&Batch, &Cluster) -> Choice,
) -> Outcome {
    let mut windows = Windows::new(&fabric);
    let mut central = Central::new(Run::new(requests, fabric), view, take_back, select);
    central.lateness = learns.then(|| Lateness::new(central.n_running.len()));
    while let Some((_, happening)) = central.run.fabric.next() {
        match happening {
            Happening::Arrival => {
                while let Some(request) = central.run.next_arrival() {
                    windows.arrived(&requests.batch, request, |request| central.issue(request));
                }
            }
            Happening::Done { tag } => {
                let request = tag as u32;
                central.done(request);
                central.run.deliver(request);
                windows.done(&requests.batch, request, |request| central.issue(request));
            }
            Happening::Lost { tag } => central.lost(tag as u32),
            Happening::Up { .. } | Happening::Down { .. } | Happening::Timer { .. } => {}
        }
        central.schedule();
    }
    central.run.finish()
}

/// Requests under a central scheduler.
pub(crate) struct Central<'a, F> {
    pub(crate) run: Run<'a>,
    pub(crate) hand_over: HandOver,
    scheduler: Replanned<'a, F>,
    /// What is learnt about the speeds of servers, if the centre learns.
    lateness: Option<Lateness>,
    centre: Centre,
    /// When each request reaches its server, where it is handed over before it starts.
    ready_ns: Vec<u64>,
    /// Time until which the centre is known to be busy.
    awaited_ns: u64,
    /// Number of requests that were sent to each server and are not done.
    n_running: Vec<u32>,
    /// Where each request was sent. A lost request may go to another server than the chosen one.
    servers: Vec<ServerId>,
    stranded: Vec<u32>,
    issued: Vec<u32>,
}

impl<'a, F: FnMut(&Batch, &Cluster) -> Choice> Central<'a, F> {
    pub(crate) fn new(run: Run<'a>, view: &'a View, take_back: TakeBack, select: F) -> Self {
        let batch = &run.requests.batch;
        Self {
            scheduler: Replanned::new(batch, &view.cluster, take_back, select),
            hand_over: HandOver::AtStart,
            lateness: None,
            centre: Centre::default(),
            ready_ns: vec![0; batch.n_requests()],
            awaited_ns: 0,
            n_running: vec![0; run.fabric.hardware().servers.len()],
            servers: vec![ServerId(0); batch.n_requests()],
            stranded: Vec::new(),
            issued: Vec::new(),
            run,
        }
    }

    /// Adds a request to the next scheduling point.
    pub(crate) fn issue(&mut self, request: u32) {
        self.issued.push(request);
    }

    /// Records that a request is done, which frees a slot.
    pub(crate) fn done(&mut self, request: u32) {
        let server = self.servers[request as usize];
        let job = self.run.whole(request, server);
        self.run.outcome.count(&job);
        self.n_running[server.index()] -= 1;
        if let Some(lateness) = &mut self.lateness {
            lateness.done(self.run.fabric.now_ns(), server, request.into());
        }
        self.run.outcome.findings.note(self.scheduler.done(request));
    }

    /// Records that a request is lost. It will be sent elsewhere.
    pub(crate) fn lost(&mut self, request: u32) {
        let server = self.servers[request as usize];
        self.n_running[server.index()] -= 1;
        if let Some(lateness) = &mut self.lateness {
            lateness.failed(server, request.into());
        }
        self.stranded.push(request);
    }

    /// Runs a scheduling point if anything was issued, then fills free slots.
    pub(crate) fn schedule(&mut self) {
        for request in std::mem::take(&mut self.stranded) {
            match self.run.holder(request) {
                Some(server) => self.send(request, server),
                None => self.stranded.push(request),
            }
        }
        if !self.issued.is_empty() && self.is_ready() {
            // Each request is issued once.
            self.issued.drain(..).for_each(|request| _ = self.scheduler.arrived(request));
            let now_ns = self.run.fabric.now_ns();
            let lateness = self.lateness.as_ref();
            let factor = |server| lateness.map_or(1.0, |lateness| lateness.factor(now_ns, server));
            let moves = self.scheduler.replan_slowed(factor);
            self.hand_over(&moves);
            self.run.outcome.n_replans += 1;
        }
        for server in (0..self.n_running.len() as u32).map(ServerId) {
            let slots = self.run.fabric.hardware().servers[server.index()].slots;
            while self.n_running[server.index()] < slots
                && self.run.fabric.is_up(server.0)
                && let Ok(Some(request)) = self.scheduler.start(server)
            {
                self.start(request, server);
            }
        }
    }

    /// Whether the centre can choose now. If not, sets a timer for when it can.
    fn is_ready(&mut self) -> bool {
        let busy_until_ns = self.centre.free_ns;
        let is_ready = self.hand_over == HandOver::AtStart || busy_until_ns <= self.run.fabric.now_ns();
        if !is_ready && self.awaited_ns < busy_until_ns {
            self.awaited_ns = busy_until_ns;
            self.run.fabric.wake(busy_until_ns, SENT_ALL);
        }
        is_ready
    }

    /// Sends the chosen requests to their servers, unless they wait in the centre.
    fn hand_over(&mut self, moves: &[Move]) {
        let mut sent_ns = vec![None; self.n_running.len()];
        for &Move { request, to, .. } in moves {
            let together_ns: Option<u64> = match self.hand_over {
                HandOver::AtStart => return,
                HandOver::Each => None,
                HandOver::Together => sent_ns[to.index()],
            };
            let ready_ns = together_ns.unwrap_or_else(|| {
                self.run.outcome.n_messages += 1;
                self.run.fabric.now_ns().saturating_add(self.centre.delay_ns(&self.run.fabric))
            });
            sent_ns[to.index()] = Some(ready_ns);
            self.ready_ns[request as usize] = ready_ns;
        }
    }

    /// Starts a request at a server, which has it already or gets it now.
    fn start(&mut self, request: u32, server: ServerId) {
        if self.hand_over == HandOver::AtStart {
            return self.send(request, server);
        }
        self.n_running[server.index()] += 1;
        self.servers[request as usize] = server;
        let job = self.run.whole(request, server);
        let after_ns = self.ready_ns[request as usize].saturating_sub(self.run.fabric.now_ns());
        self.run.fabric.submit(job, after_ns);
    }

    fn send(&mut self, request: u32, server: ServerId) {
        self.n_running[server.index()] += 1;
        self.servers[request as usize] = server;
        let job = self.run.whole(request, server);
        self.centre.dispatch(&mut self.run, job);
        if let Some(lateness) = &mut self.lateness {
            let hardware = self.run.fabric.hardware();
            let from_ns = self.centre.free_ns.saturating_add(hardware.message_ns);
            let expected_ns = hardware.servers[server.index()].usual_ns(job.bytes);
            lateness.started(from_ns, server, request.into(), expected_ns);
        }
    }
}
