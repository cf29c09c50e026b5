//! Guided lists with processes that ask, work, fall silent, die and come back, and messages that are late, repeated or made
//! up, against a model that knows only the rules: each task is done exactly once, nothing is leased to two processes at
//! once, and what a silent or dead process had goes to another.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel::assign::opass_dynamic::{Action, BadLease, Counts, Decision, Event, Guided, Settings};
use evenkeel::assign::{ProcessId, Work, opass_multi};
use evenkeel::draw::{Draw, Seeded};
use proptest::prelude::*;

use crate::paper_003::{matrix, works};
use crate::support::config;

const LEASE_NS: u64 = 100;

/// The rules, without lists: who has what until when.
#[derive(Default)]
struct Model {
    n_tasks: usize,
    n_processes: usize,
    now_ns: u64,
    leases: BTreeMap<ProcessId, (u32, u64)>,
    /// Who lost which task by silence.
    silent: BTreeSet<(u32, ProcessId)>,
    waits: BTreeSet<ProcessId>,
    done: BTreeSet<u32>,
    counts: Counts,
}

impl Model {
    fn task_of(&self, process: ProcessId) -> Option<u32> {
        self.leases.get(&process).map(|&(task, _)| task)
    }

    fn holder(&self, task: u32) -> Option<ProcessId> {
        self.leases.iter().find(|(_, lease)| lease.0 == task).map(|(&process, _)| process)
    }

    /// Whether an event is to be accepted.
    fn verdict(&self, now_ns: u64, event: Event) -> Result<(), BadLease> {
        if now_ns < self.now_ns {
            return Err(BadLease::Past { now_ns: self.now_ns });
        }
        let (process, task) = match event {
            Event::Wake => return Ok(()),
            Event::Idle(process) | Event::Died(process) => (process, None),
            Event::Progress(process, task) | Event::Done(process, task) => (process, Some(task)),
        };
        if process.index() >= self.n_processes {
            return Err(BadLease::NoSuchProcess(process.0));
        }
        let Some(task) = task else { return Ok(()) };
        if self.done.contains(&task) {
            return Err(BadLease::DoneBefore { process: process.0, task });
        }
        let is_free_to = self.holder(task).is_none() && !self.leases.contains_key(&process);
        let has_lost_it = self.silent.contains(&(task, process));
        let can_return = has_lost_it && (is_free_to || matches!(event, Event::Done(..)));
        let fits = self.task_of(process) == Some(task) || can_return;
        if fits { Ok(()) } else { Err(BadLease::NotLeased { process: process.0, task }) }
    }

    /// Follows an accepted event. Returns who is to stop.
    fn follow(&mut self, event: Event) -> BTreeSet<ProcessId> {
        let mut stopped = BTreeSet::new();
        match event {
            // The answer is repeated.
            Event::Idle(process) => match self.task_of(process) {
                Some(task) => self.lease(process, task),
                None => _ = self.waits.insert(process),
            },
            Event::Progress(process, task) => self.lease(process, task),
            Event::Done(process, task) => {
                self.counts.late += u64::from(self.task_of(process) != Some(task));
                stopped.extend(self.holder(task));
                stopped.extend(self.silent.iter().filter(|lost| lost.0 == task).map(|lost| lost.1));
                stopped.remove(&process);
                self.leases.retain(|_, lease| lease.0 != task);
                self.silent.retain(|lost| lost.0 != task);
                assert!(self.done.insert(task), "done twice");
            }
            Event::Died(process) => {
                self.counts.lost += u64::from(self.leases.remove(&process).is_some());
                self.waits.remove(&process);
                self.silent.retain(|lost| lost.1 != process);
            }
            Event::Wake => {}
        }
        stopped
    }

    fn lease(&mut self, process: ProcessId, task: u32) {
        self.silent.remove(&(task, process));
        self.leases.insert(process, (task, self.now_ns + LEASE_NS));
    }

    /// Ends what is over by now.
    fn expire(&mut self) {
        let now_ns = self.now_ns;
        let (over, kept): (BTreeMap<_, _>, BTreeMap<_, _>) =
            std::mem::take(&mut self.leases).into_iter().partition(|(_, lease)| lease.1 <= now_ns);
        self.leases = kept;
        self.counts.expired += over.len() as u64;
        self.silent.extend(over.into_iter().map(|(process, (task, _))| (task, process)));
    }
}

/// Guided lists beside the model. Who was told to leave, leaves.
struct World {
    work: Work,
    guided: Guided,
    /// The same, traced.
    traced: Guided,
    model: Model,
    left: BTreeSet<ProcessId>,
}

impl World {
    fn new(work: &Work) -> Self {
        let processes = opass_multi::assign(work).processes;
        let settings = Settings { lease_ns: LEASE_NS };
        let guided = Guided::new(work, &processes, settings).expect("its own");
        let model = Model { n_tasks: work.n_tasks(), n_processes: work.n_processes(), ..Model::default() };
        let (work, mut traced) = (work.clone(), guided.clone());
        traced.trace(usize::MAX);
        Self { work, guided, traced, model, left: BTreeSet::new() }
    }

    /// Passes an event to both, and compares them.
    fn tell(&mut self, now_ns: u64, event: Event) -> Result<(), TestCaseError> {
        let mut actions = Vec::new();
        let verdict = self.model.verdict(now_ns, event);
        prop_assert_eq!(self.guided.on_event(now_ns, event, &mut actions), verdict, "{:?}", event);
        let mut traced = Vec::new();
        prop_assert_eq!(self.traced.on_event(now_ns, event, &mut traced), verdict);
        prop_assert_eq!(&traced, &actions, "the same, whether somebody watches or not");
        prop_assert_eq!(self.guided.take_decisions(), []);
        let decisions = self.traced.take_decisions();
        let n_given = self.guided.counts().given - self.model.counts.given;
        prop_assert_eq!(decisions.len() as u64, n_given);
        for decision in &decisions {
            prop_assert!(actions.contains(&Action::Start(decision.process, decision.task)));
            prop_assert_eq!(decision.at_ns, now_ns);
            self.explain(decision)?;
        }
        if verdict.is_err() {
            prop_assert_eq!(actions, []);
            return self.compare();
        }
        self.model.now_ns = now_ns;
        if let Event::Idle(process) = event
            && let Some(task) = self.model.task_of(process)
        {
            prop_assert!(!actions.is_empty());
            prop_assert_eq!(actions.remove(0), Action::Start(process, task));
        }
        if let Event::Idle(process) | Event::Died(process) = event {
            self.left.remove(&process);
        }
        let stopped = self.model.follow(event);
        self.model.expire();
        let mut withdrawn = BTreeSet::new();
        for action in actions {
            match action {
                Action::Start(process, task) => {
                    prop_assert!(self.model.waits.remove(&process), "nobody else has asked");
                    prop_assert!(!self.model.done.contains(&task));
                    prop_assert_eq!(self.model.holder(task), None, "leased twice");
                    prop_assert_eq!(self.model.task_of(process), None);
                    self.model.counts.given += 1;
                    self.model.lease(process, task);
                }
                Action::Withdraw(process, task) => {
                    prop_assert!(matches!(event, Event::Done(_, done) if done == task));
                    prop_assert!(withdrawn.insert(process), "told twice");
                }
                Action::Leave(process) => {
                    prop_assert_eq!(self.model.done.len(), self.model.n_tasks);
                    prop_assert!(self.model.waits.remove(&process));
                    self.left.insert(process);
                }
            }
        }
        prop_assert_eq!(withdrawn, stopped);
        self.compare()
    }

    /// A decision follows from its figures: the first of its own list, or what suits it best of the longest.
    fn explain(&self, decision: &Decision) -> Result<(), TestCaseError> {
        let Decision { process, task, owner, candidates, lists, .. } = decision;
        for candidate in candidates {
            let local_bytes = self.work.local_bytes(candidate.task as usize, *process);
            prop_assert_eq!(candidate.local_bytes, local_bytes);
        }
        let best = if decision.is_stolen() {
            prop_assert!(lists.iter().all(|(other, _)| other != process), "its own list is not empty");
            prop_assert_eq!(lists.first(), Some(&(*owner, candidates.len())));
            prop_assert!(lists.is_sorted_by_key(|&(_, length)| std::cmp::Reverse(length)));
            candidates.iter().max_by_key(|candidate| candidate.local_bytes)
        } else {
            candidates.first()
        };
        prop_assert_eq!(best.map(|best| best.task), Some(*task));
        Ok(())
    }

    /// Both know the same.
    fn compare(&self) -> Result<(), TestCaseError> {
        let Self { guided, model, .. } = self;
        for process in (0..model.n_processes as u32).map(ProcessId) {
            prop_assert_eq!(guided.lease(process), model.task_of(process));
        }
        prop_assert_eq!(guided.wake_at(), model.leases.values().map(|lease| lease.1).min());
        let counts = guided.counts();
        prop_assert_eq!(counts, self.traced.counts());
        let expected = Counts {
            left: model.n_tasks - model.done.len(),
            leased: model.leases.len(),
            waiting: model.waits.len(),
            done: model.done.len() as u64,
            stolen: counts.stolen,
            ..model.counts
        };
        prop_assert_eq!(counts, expected);
        prop_assert_eq!(guided.n_left(), counts.left);
        prop_assert!(counts.stolen <= counts.given);
        // Nobody waits while a task is in a list.
        let n_listed = counts.left - counts.leased;
        prop_assert!(model.waits.is_empty() || n_listed == 0 && counts.left > 0);
        Ok(())
    }
}

/// Anything, by anyone, at any time.
fn disturb(world: &mut World, draw: &mut Seeded) -> Result<(), TestCaseError> {
    let (p, n) = (world.model.n_processes as u32, world.model.n_tasks as u32);
    let mut now_ns = world.model.now_ns;
    // Mostly a bit later; sometimes so late that many leases end unnoticed, sometimes just when one ends.
    now_ns += match draw.below(8) {
        0 => u64::from(draw.below(3 * LEASE_NS as u32)),
        1 => world.guided.wake_at().map_or(0, |at_ns| at_ns - now_ns),
        2 => 0,
        _ => u64::from(draw.below(LEASE_NS as u32 / 8)),
    };
    let process = ProcessId(draw.below(p));
    let own = world.model.task_of(process);
    let lost = world.model.silent.iter().find(|lost| lost.1 == process).map(|lost| lost.0);
    let event = match draw.below(16) {
        0 => Event::Died(process),
        1 => Event::Wake,
        2 | 3 => own.or(lost).map_or(Event::Wake, |task| Event::Progress(process, task)),
        4 | 5 => own.or(lost).map_or(Event::Wake, |task| Event::Done(process, task)),
        6 => lost.or(own).map_or(Event::Wake, |task| Event::Progress(process, task)),
        7 => lost.or(own).map_or(Event::Wake, |task| Event::Done(process, task)),
        8 => Event::Progress(ProcessId(draw.below(p + 1)), draw.below(n + 2)),
        9 => Event::Done(ProcessId(draw.below(p + 1)), draw.below(n + 2)),
        10 => Event::Idle(ProcessId(p)),
        // It asks again though it has a task, or comes back with nothing after it lost one.
        11 => Event::Idle(process),
        _ if own.is_none() => Event::Idle(process),
        _ => Event::Wake,
    };
    if draw.below(16) == 0 && world.model.now_ns > 0 {
        world.tell(world.model.now_ns - 1, event)?;
    }
    world.tell(now_ns, event)
}

proptest! {
    #![proptest_config(config(3000))]

    #[test]
    fn each_task_is_done_exactly_once(
        work in works(0..=2, (0..9_u64).boxed()),
        n_events in 0..200_u32,
        is_last_silent: bool,
        seed: u64,
    ) {
        let mut draw = Seeded::new(seed);
        let mut world = World::new(&work);
        for _ in 0..n_events {
            disturb(&mut world, &mut draw)?;
        }
        // From now on only one process works, and the others are silent for ever, or all of them work.
        let p = work.n_processes() as u32;
        let honest = ProcessId(draw.below(p));
        let workers = if is_last_silent { vec![honest] } else { (0..p).map(ProcessId).collect() };
        let mut n_rounds = 0;
        while workers.iter().any(|process| !world.left.contains(process)) {
            n_rounds += 1;
            prop_assert!(n_rounds < 1000, "somebody waits for ever");
            for &process in &workers {
                let now_ns = world.model.now_ns + u64::from(draw.below(LEASE_NS as u32 / 8));
                match world.model.task_of(process) {
                    Some(task) => world.tell(now_ns, Event::Done(process, task))?,
                    None => world.tell(now_ns, Event::Idle(process))?,
                }
            }
            // Who works is done before its lease ends.
            let is_at_work = workers.iter().any(|&process| world.model.task_of(process).is_some());
            if let Some(at_ns) = world.guided.wake_at().filter(|_| !is_at_work) {
                world.tell(at_ns.max(world.model.now_ns), Event::Wake)?;
            }
        }
        prop_assert_eq!(world.model.done.len(), work.n_tasks());
    }
}

fn actions(guided: &mut Guided, now_ns: u64, event: Event) -> Vec<Action> {
    let mut out = Vec::new();
    guided.on_event(now_ns, event, &mut out).expect("it fits");
    out
}

const A: ProcessId = ProcessId(0);
const B: ProcessId = ProcessId(1);

/// Two processes; B does its task, and waits for that of A.
fn one_waits() -> Guided {
    let work = matrix(&[&[9, 0], &[0, 9]]);
    let mut guided = Guided::new(&work, &[A, B], Settings { lease_ns: LEASE_NS }).expect("its own");
    assert_eq!(actions(&mut guided, 0, Event::Idle(A)), [Action::Start(A, 0)]);
    assert_eq!(actions(&mut guided, 0, Event::Idle(B)), [Action::Start(B, 1)]);
    assert_eq!(actions(&mut guided, 50, Event::Done(B, 1)), []);
    assert_eq!(actions(&mut guided, 50, Event::Idle(B)), []);
    guided
}

#[test]
fn the_task_of_a_silent_process_goes_to_another() {
    let mut guided = one_waits();
    assert_eq!(guided.wake_at(), Some(100));
    assert_eq!(actions(&mut guided, 99, Event::Wake), []);
    assert_eq!(actions(&mut guided, 100, Event::Wake), [Action::Start(B, 0)]);
    assert_eq!((guided.lease(A), guided.lease(B), guided.wake_at()), (None, Some(0), Some(200)));
    // A is not heard of while B has the task.
    let late = guided.on_event(110, Event::Progress(A, 0), &mut Vec::new());
    assert_eq!(late, Err(BadLease::NotLeased { process: 0, task: 0 }));
    assert_eq!(actions(&mut guided, 120, Event::Done(B, 0)), [Action::Withdraw(A, 0)]);
    let late = guided.on_event(120, Event::Done(A, 0), &mut Vec::new());
    assert_eq!(late, Err(BadLease::DoneBefore { process: 0, task: 0 }));
    assert_eq!(actions(&mut guided, 120, Event::Idle(A)), [Action::Leave(A)]);
}

#[test]
fn the_first_to_be_done_counts() {
    let mut guided = one_waits();
    assert_eq!(actions(&mut guided, 100, Event::Wake), [Action::Start(B, 0)]);
    assert_eq!(actions(&mut guided, 130, Event::Done(A, 0)), [Action::Withdraw(B, 0)]);
    assert_eq!((guided.n_left(), guided.lease(B), guided.wake_at()), (0, None, None));
    let late = guided.on_event(140, Event::Done(B, 0), &mut Vec::new());
    assert_eq!(late, Err(BadLease::DoneBefore { process: 1, task: 0 }));
    let Counts { done, late, given, stolen, expired, .. } = guided.counts();
    assert_eq!((done, late, given, stolen, expired), (2, 1, 3, 1, 1));
}

#[test]
fn progress_keeps_a_lease() {
    let mut guided = one_waits();
    assert_eq!(actions(&mut guided, 80, Event::Progress(A, 0)), []);
    assert_eq!(guided.wake_at(), Some(180));
    assert_eq!(actions(&mut guided, 100, Event::Wake), []);
    // In time, though the driver was late to pass it on.
    assert_eq!(actions(&mut guided, 500, Event::Progress(A, 0)), []);
    assert_eq!((guided.lease(A), guided.wake_at()), (Some(0), Some(600)));
    assert_eq!(guided.on_event(499, Event::Wake, &mut Vec::new()), Err(BadLease::Past { now_ns: 500 }));
}

/// Nobody else has asked for it.
#[test]
fn who_is_heard_of_again_gets_its_task_back() {
    let work = matrix(&[&[9, 0], &[0, 9]]);
    let mut guided = Guided::new(&work, &[A, B], Settings { lease_ns: LEASE_NS }).expect("its own");
    assert_eq!(actions(&mut guided, 0, Event::Idle(A)), [Action::Start(A, 0)]);
    assert_eq!(actions(&mut guided, 100, Event::Wake), []);
    assert_eq!((guided.lease(A), guided.wake_at()), (None, None));
    assert_eq!(actions(&mut guided, 110, Event::Progress(A, 0)), []);
    assert_eq!((guided.lease(A), guided.wake_at()), (Some(0), Some(210)));
}

#[test]
fn some_leases_never_expire() {
    let work = matrix(&[&[9]]);
    let mut guided = Guided::new(&work, &[A], Settings { lease_ns: u64::MAX }).expect("its own");
    assert_eq!(actions(&mut guided, 7, Event::Idle(A)), [Action::Start(A, 0)]);
    assert_eq!(guided.wake_at(), None);
    assert_eq!(actions(&mut guided, u64::MAX, Event::Wake), []);
    assert_eq!(guided.lease(A), Some(0));
}
