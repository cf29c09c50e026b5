//! The executor decides what starts where, and when.

use evenkeel::model::{ClientId, Fixed, Schedule, ServerId};
use evenkeel::run::{Action, BadPlan, Cause, Event, Executor, Reason, RequestId, Settings, TransferId};
use hashbrown::HashMap;

use super::{Centre, Incident, Message, Requests, Run, Trouble, View};
use crate::fabric::{Fabric, Happening, Job, JobId};
use crate::outcome::Outcome;

/// The executor carries out a plan, and serves other requests as they arrive. Each start is a decision of a centre and
/// a message.
pub fn execute(
    requests: &Requests,
    fabric: Fabric<'_>,
    view: &View,
    plan: &Schedule,
    settings: Settings,
    trouble: &Trouble,
) -> Result<Outcome, BadPlan> {
    execute_watched(requests, fabric, view, plan, settings, trouble, &mut |_, _| {})
}

/// As `execute`, and passes each action of the executor, with its time, to `watch`.
pub fn execute_watched(
    requests: &Requests,
    fabric: Fabric<'_>,
    view: &View,
    plan: &Schedule,
    settings: Settings,
    trouble: &Trouble,
    watch: &mut dyn FnMut(u64, &Action),
) -> Result<Outcome, BadPlan> {
    let executor = Executor::new(&requests.batch, &view.cluster, plan, settings, 0)?;
    let run = Run::new(requests, fabric);
    let mut driver = Driver::new(run, view, executor, 1, *trouble, settings.seed, watch);
    driver.tell(Event::Wake);
    Ok(driver.carry_out(!plan.transfers.is_empty()))
}

/// Tags of timers: wake the executor; an incident to a client or its request, plus its number; a message that is
/// overdue, plus the number of its transfer; progress reports of transfers.
const WAKE: u64 = 0;
const INCIDENT: u64 = 1;
const OVERDUE: u64 = 1 << 63;
const REPORT: u64 = OVERDUE - 1;

/// An executor that runs on the fabric.
pub(super) struct Driver<'a> {
    run: Run<'a>,
    view: &'a View,
    executor: Executor,
    /// Transfers in flight, as far as the executor knows. One without an id had a message lost and is not in the
    /// fabric.
    jobs: HashMap<u64, (Option<JobId>, Job)>,
    /// Whether a timer for progress reports is set.
    will_report: bool,
    /// Time of the next wake-up.
    woken_ns: u64,
    /// The single centre or, without one, one entry per server.
    centres: Vec<Centre>,
    actions: Vec<Action>,
    trouble: Trouble,
    seed: u64,
    incidents: Vec<(u64, Incident)>,
    is_dead: Vec<bool>,
    /// Requests that are over for the executor. It accepts no more events about them.
    is_over: Vec<bool>,
    watch: &'a mut dyn FnMut(u64, &Action),
}

impl<'a> Driver<'a> {
    /// Creates a driver with `n_centres` senders of starts: one, or one per server.
    pub(super) fn new(
        mut run: Run<'a>,
        view: &'a View,
        executor: Executor,
        n_centres: usize,
        trouble: Trouble,
        seed: u64,
        watch: &'a mut dyn FnMut(u64, &Action),
    ) -> Self {
        let (centres, jobs) = (vec![Centre::default(); n_centres], HashMap::new());
        let incidents = trouble.incidents(run.requests, view, seed);
        for (number, &(at_ns, _)) in (0..).zip(&incidents) {
            run.fabric.wake(at_ns.max(run.fabric.now_ns()), INCIDENT + number);
        }
        let is_dead = vec![false; run.requests.batch.n_clients()];
        let is_over = vec![false; run.requests.batch.n_requests()];
        let (woken_ns, actions) = (u64::MAX, Vec::new());
        Self {
            run,
            view,
            executor,
            jobs,
            will_report: false,
            woken_ns,
            centres,
            actions,
            trouble,
            seed,
            incidents,
            is_dead,
            is_over,
            watch,
        }
    }

    /// Runs until everything is over. Planned requests need not arrive.
    pub(super) fn carry_out(mut self, is_planned: bool) -> Outcome {
        while let Some((_, happening)) = self.run.fabric.next() {
            match happening {
                Happening::Arrival => {
                    while let Some(request) = self.run.next_arrival() {
                        if !is_planned {
                            self.arrive(request);
                        }
                    }
                }
                Happening::Timer { tag: WAKE } => {
                    self.woken_ns = u64::MAX;
                    self.tell(Event::Wake);
                }
                Happening::Timer { tag: REPORT } => self.report(),
                Happening::Timer { tag } if tag < OVERDUE => {
                    self.on_incident(self.incidents[(tag - INCIDENT) as usize].1);
                }
                Happening::Timer { tag } => self.on_failed(tag - OVERDUE, Cause::TimedOut),
                Happening::Done { tag } => self.on_done(tag),
                Happening::Lost { tag } => self.on_failed(tag, Cause::Unreachable),
                Happening::Down { server } => self.on_down(ServerId(server)),
                Happening::Up { server } => self.on_up(ServerId(server)),
            }
        }
        self.run.outcome.n_replans = self.executor.counts().plans.into();
        self.run.finish()
    }

    fn on_done(&mut self, tag: u64) {
        let transfer = TransferId(tag);
        if self.trouble.loses(self.seed, transfer, Message::Done) {
            if let Some((id, _)) = self.jobs.get_mut(&tag) {
                *id = None;
                self.miss(transfer);
            }
        } else if let Some((_, job)) = self.jobs.remove(&tag) {
            self.run.outcome.count(&job);
            self.tell(Event::Done { transfer });
        }
    }

    /// The executor gets no news about a transfer: sets the timer after which it counts as failed.
    fn miss(&mut self, transfer: TransferId) {
        let at_ns = self.run.fabric.now_ns().saturating_add(self.trouble.timeout_ns);
        self.run.fabric.wake(at_ns, OVERDUE + transfer.0);
    }

    /// Transfers report their progress in the order of their numbers, and again later if any are in flight.
    fn report(&mut self) {
        let mut tags: Vec<u64> = self.jobs.keys().copied().collect();
        tags.sort_unstable();
        for tag in tags {
            if let Some(&(Some(id), job)) = self.jobs.get(&tag) {
                let moved = u128::from(self.run.fabric.moved(id).min(job.bytes));
                let nanos = moved * 1_000_000_000 / u128::from(self.run.requests.block_bytes);
                if let Some(blocks) = Fixed::from_nanos(nanos) {
                    self.tell(Event::Progress { transfer: TransferId(tag), blocks });
                }
            }
        }
        self.will_report = false;
        self.await_reports();
    }

    fn await_reports(&mut self) {
        if let Some(progress_ns) =
            self.trouble.progress_ns.filter(|_| !self.will_report && !self.jobs.is_empty())
        {
            self.will_report = true;
            self.run.fabric.wake(self.run.fabric.now_ns().saturating_add(progress_ns), REPORT);
        }
    }

    fn on_failed(&mut self, tag: u64, cause: Cause) {
        if self.jobs.remove(&tag).is_some() {
            self.tell(Event::Failed { transfer: TransferId(tag), cause });
        }
    }

    fn on_down(&mut self, server: ServerId) {
        let leaves = self.run.fabric.hardware().servers[server.index()].leaves;
        self.tell(if leaves { Event::ServerLeft { server } } else { Event::ServerDown { server } });
    }

    fn on_up(&mut self, server: ServerId) {
        let leaves = self.run.fabric.hardware().servers[server.index()].leaves;
        let node = self.view.cluster.server(server);
        self.tell(if leaves { Event::ServerJoined { server, node } } else { Event::ServerUp { server } });
    }

    fn on_incident(&mut self, incident: Incident) {
        match incident {
            Incident::Cancelled { request } => {
                if !std::mem::replace(&mut self.is_over[request as usize], true) {
                    self.run.cancel(request);
                    self.tell(Event::Cancelled { request: RequestId(request.into()) });
                }
            }
            Incident::Died { client } => {
                self.is_dead[client as usize] = true;
                self.tell(Event::ClientLeft { client: ClientId(client) });
            }
        }
    }

    /// Lets a request of the batch arrive.
    pub(super) fn arrive(&mut self, request: u32) {
        let (batch, row) = (&self.run.requests.batch, request as usize);
        if self.is_dead[batch.client(row).index()] {
            self.is_over[row] = true;
            self.run.cancel(request);
            return;
        }
        self.tell(Event::Arrived {
            request: RequestId(request.into()),
            client: batch.client(row),
            blocks: batch.blocks(row),
            replicas: batch.replicas().of(row),
        });
    }

    pub(super) fn tell(&mut self, event: Event<'_>) {
        let now_ns = self.run.fabric.now_ns();
        let told = self.executor.on_event(now_ns, event, &mut self.actions);
        self.run.outcome.findings.note(told);
        let mut actions = std::mem::take(&mut self.actions);
        actions.drain(..).for_each(|action| self.act(action));
        self.actions = actions;
        if let Some(at_ns) = self.executor.wake_at().filter(|&at_ns| at_ns < self.woken_ns) {
            self.woken_ns = at_ns;
            self.run.fabric.wake(at_ns, WAKE);
        }
    }

    fn act(&mut self, action: Action) {
        (self.watch)(self.run.fabric.now_ns(), &action);
        match action {
            Action::Start { transfer, request, client, server, offset, blocks, is_hedge } => {
                let all = self.run.requests.bytes(request.0 as usize);
                let scale = |blocks: u128| {
                    let bytes = blocks * u128::from(self.run.requests.block_bytes) / 1_000_000_000;
                    all.min(u64::try_from(bytes).unwrap_or(u64::MAX))
                };
                let bytes = scale(offset.nanos() + blocks.nanos()) - scale(offset.nanos());
                let job = self.run.job(transfer.0, server, client, bytes);
                self.run.outcome.hedged_bytes += if is_hedge { bytes } else { 0 };
                if self.trouble.loses(self.seed, transfer, Message::Start) {
                    self.jobs.insert(transfer.0, (None, job));
                    self.miss(transfer);
                } else {
                    // There is one centre, or one per server.
                    let centre = server.index() % self.centres.len();
                    let id = self.centres[centre].dispatch(&mut self.run, job);
                    self.jobs.insert(transfer.0, (Some(id), job));
                }
                self.await_reports();
            }
            Action::Withdraw { transfer } => {
                self.run.outcome.n_messages += 1;
                if let Some((Some(id), _)) = self.jobs.remove(&transfer.0) {
                    self.run.fabric.withdraw(id);
                }
            }
            Action::Plan { .. } => {
                if let Some(snapshot) = self.executor.snapshot() {
                    self.tell(Event::Planned { plan: &snapshot.plan() });
                }
            }
            Action::Deliver { request, .. } => {
                self.is_over[request.0 as usize] = true;
                self.run.deliver(request.0 as u32);
            }
            Action::Fail { request, reason } => {
                self.is_over[request.0 as usize] = true;
                if reason == Reason::ClientLeft {
                    self.run.cancel(request.0 as u32);
                }
            }
            // Simulated servers keep their data. There is nothing to repair.
            Action::Report { .. } => {}
        }
    }
}
