//! The executor says what starts where and when.

use evenkeel::model::{Schedule, ServerId};
use evenkeel::run::{Action, BadPlan, Cause, Event, Executor, RequestId, Settings, TransferId};
use hashbrown::HashMap;

use super::{Centre, Requests, Run, View};
use crate::fabric::{Fabric, Happening, Job, JobId};
use crate::outcome::Outcome;

/// The executor carries out a plan; what is not in it is served as it arrives. Each start is a decision of a centre and
/// a message.
pub fn execute(
    requests: &Requests,
    fabric: Fabric<'_>,
    view: &View,
    plan: &Schedule,
    settings: Settings,
) -> Result<Outcome, BadPlan> {
    let executor = Executor::new(&requests.batch, &view.cluster, plan, settings, 0)?;
    let run = Run::new(requests, fabric);
    let mut driver = Driver::new(run, executor, 1);
    driver.tell(Event::Wake);
    Ok(driver.carry_out(!plan.transfers.is_empty()))
}

/// An executor in the fabric.
pub(super) struct Driver<'a> {
    run: Run<'a>,
    executor: Executor,
    jobs: HashMap<u64, (JobId, Job)>,
    /// When it will be woken.
    woken_ns: u64,
    /// The one centre; or, without, each server by itself.
    centres: Vec<Centre>,
    actions: Vec<Action>,
}

impl<'a> Driver<'a> {
    /// With so many who send the starts: one, or each server.
    pub(super) fn new(run: Run<'a>, executor: Executor, n_centres: usize) -> Self {
        let (centres, jobs) = (vec![Centre::default(); n_centres], HashMap::new());
        Self { run, executor, jobs, woken_ns: u64::MAX, centres, actions: Vec::new() }
    }

    /// Until all is over. What is planned need not arrive.
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
                Happening::Timer { .. } => {
                    self.woken_ns = u64::MAX;
                    self.tell(Event::Wake);
                }
                Happening::Done { tag } => {
                    if let Some((_, job)) = self.jobs.remove(&tag) {
                        self.run.outcome.count(&job);
                        self.tell(Event::Done { transfer: TransferId(tag) });
                    }
                }
                Happening::Lost { tag } => {
                    if self.jobs.remove(&tag).is_some() {
                        self.tell(Event::Failed { transfer: TransferId(tag), cause: Cause::Unreachable });
                    }
                }
                Happening::Down { server } => self.tell(Event::ServerDown { server: ServerId(server) }),
                Happening::Up { server } => self.tell(Event::ServerUp { server: ServerId(server) }),
            }
        }
        self.run.outcome.n_replans = self.executor.counts().plans.into();
        self.run.finish()
    }

    /// A request of the batch arrives.
    pub(super) fn arrive(&mut self, request: u32) {
        let (batch, row) = (&self.run.requests.batch, request as usize);
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
            self.run.fabric.wake(at_ns, 0);
        }
    }

    fn act(&mut self, action: Action) {
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
                // There are one, or as many as servers.
                let centre = server.index() % self.centres.len();
                let id = self.centres[centre].dispatch(&mut self.run, job);
                self.jobs.insert(transfer.0, (id, job));
            }
            Action::Withdraw { transfer } => {
                self.run.outcome.n_messages += 1;
                if let Some((id, _)) = self.jobs.remove(&transfer.0) {
                    self.run.fabric.withdraw(id);
                }
            }
            Action::Plan { .. } => {
                if let Some(snapshot) = self.executor.snapshot() {
                    self.tell(Event::Planned { snapshot: &snapshot, choice: &snapshot.choose() });
                }
            }
            Action::Deliver { request, .. } => self.run.deliver(request.0 as u32),
            // The simulated servers keep what they have; nobody repairs anything.
            Action::Fail { .. } | Action::Report { .. } => {}
        }
    }
}
