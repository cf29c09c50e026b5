//! The executor says what starts where and when.

use evenkeel::model::{Schedule, ServerId};
use evenkeel::run::{Action, BadPlan, Event, Executor, Settings};
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
    let (jobs, actions) = (HashMap::new(), Vec::new());
    let mut driver = Driver { run, executor, jobs, woken_ns: u64::MAX, centre: Centre::default(), actions };
    let is_planned = !plan.transfers.is_empty();
    driver.tell(Event::Wake);
    while let Some((_, happening)) = driver.run.fabric.next() {
        match happening {
            Happening::Arrival => {
                while let Some(request) = driver.run.next_arrival() {
                    if !is_planned {
                        driver.tell(Event::Arrived { request });
                    }
                }
            }
            Happening::Timer { .. } => {
                driver.woken_ns = u64::MAX;
                driver.tell(Event::Wake);
            }
            Happening::Done { tag } => {
                if let Some((_, job)) = driver.jobs.remove(&tag) {
                    driver.run.count(job);
                    driver.tell(Event::Done { transfer: tag });
                }
            }
            Happening::Lost { tag } => {
                if driver.jobs.remove(&tag).is_some() {
                    driver.tell(Event::Failed { transfer: tag });
                }
            }
            Happening::Down { server } => driver.tell(Event::ServerDown { server: ServerId(server) }),
            Happening::Up { server } => driver.tell(Event::ServerUp { server: ServerId(server) }),
        }
    }
    driver.run.outcome.n_replans = driver.executor.n_replans().into();
    Ok(driver.run.finish())
}

/// An executor in the fabric.
struct Driver<'a> {
    run: Run<'a>,
    executor: Executor<'a>,
    jobs: HashMap<u64, (JobId, Job)>,
    /// When it will be woken.
    woken_ns: u64,
    centre: Centre,
    actions: Vec<Action>,
}

impl Driver<'_> {
    fn tell(&mut self, event: Event) {
        let now_ns = self.run.fabric.now_ns();
        // What does not fit is late news, and changes nothing.
        let _ = self.executor.on_event(now_ns, event, &mut self.actions);
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
                let all = self.run.requests.bytes(request as usize);
                let scale = |blocks: u128| {
                    let bytes = blocks * u128::from(self.run.requests.block_bytes) / 1_000_000_000;
                    all.min(u64::try_from(bytes).unwrap_or(u64::MAX))
                };
                let bytes = scale(offset.nanos() + blocks.nanos()) - scale(offset.nanos());
                let job = self.run.job(transfer, server, client, bytes);
                self.run.outcome.hedged_bytes += if is_hedge { bytes } else { 0 };
                let id = self.centre.dispatch(&mut self.run, job);
                self.jobs.insert(transfer, (id, job));
            }
            Action::Withdraw { transfer } => {
                self.run.outcome.n_messages += 1;
                if let Some((id, _)) = self.jobs.remove(&transfer) {
                    self.run.fabric.withdraw(id);
                }
            }
            Action::Deliver { request, .. } => self.run.deliver(request),
            Action::Fail { .. } => {}
        }
    }
}
