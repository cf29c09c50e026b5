//! The state machine: leases, and how they end.

use std::collections::{BTreeSet, VecDeque};

use super::lists::Lists;
use super::trace::Decision;
use super::{Action, BadLease, Counts, Event, OtherWork, Settings};
use crate::assign::{ProcessId, Work};
use crate::trace::Trace;

/// Tasks on their way from the lists through leases to completion; see [the module](super).
#[derive(Clone, Debug)]
pub struct Guided {
    pub(super) work: Work,
    settings: Settings,
    pub(super) now_ns: u64,
    pub(super) lists: Lists,
    tasks: Vec<Task>,
    /// What each process is to do.
    leases: Vec<Option<Lease>>,
    /// When leases expire, the next first.
    ends: BTreeSet<(u64, ProcessId)>,
    /// Leases that have expired, of tasks that are not done: the process may still be working on the task.
    expired: BTreeSet<(u32, ProcessId)>,
    /// Processes that have found nothing to do, in order of arrival. All lists are empty then.
    waiting: VecDeque<ProcessId>,
    /// The rest of [`Counts`] is computed on demand.
    counts: Counts,
    pub(super) trace: Trace<Decision>,
}

/// Where a task is.
#[derive(Clone, Copy, Debug)]
enum Task {
    Listed(ProcessId),
    Leased(ProcessId),
    Done,
}

#[derive(Clone, Copy, Debug)]
struct Lease {
    task: u32,
    end_ns: u64,
}

impl Guided {
    /// Starts with the tasks of this assignment, which must be of this work. None is done yet.
    pub fn new(work: &Work, processes: &[ProcessId], settings: Settings) -> Result<Self, OtherWork> {
        let (n_assigned, n_tasks) = (processes.len(), work.n_tasks());
        if n_assigned != n_tasks {
            return Err(OtherWork::Tasks { n_assigned, n_tasks });
        }
        let n_processes = work.n_processes();
        match processes.iter().position(|process| process.index() >= n_processes) {
            Some(task) => Err(OtherWork::NoSuchProcess { task, process: processes[task].0, n_processes }),
            None => Ok(Self::of_own(work, processes, settings)),
        }
    }

    /// Starts with an assignment that is known to be of this work.
    pub(super) fn of_own(work: &Work, processes: &[ProcessId], settings: Settings) -> Self {
        Self {
            settings: Settings { lease_ns: settings.lease_ns.max(1) },
            now_ns: 0,
            lists: Lists::new(work, processes),
            tasks: processes.iter().copied().map(Task::Listed).collect(),
            leases: vec![None; work.n_processes()],
            ends: BTreeSet::new(),
            expired: BTreeSet::new(),
            waiting: VecDeque::new(),
            counts: Counts { left: work.n_tasks(), ..Counts::default() },
            trace: Trace::default(),
            work: work.clone(),
        }
    }

    /// How many tasks are not done.
    pub fn n_left(&self) -> usize {
        self.counts.left
    }

    /// The task that is leased to a process.
    pub fn lease(&self, process: ProcessId) -> Option<u32> {
        self.leases.get(process.index()).copied().flatten().map(|lease| lease.task)
    }

    /// What has been done so far.
    pub fn counts(&self) -> Counts {
        let leased = self.leases.iter().flatten().count();
        Counts { leased, waiting: self.waiting.len(), ..self.counts }
    }

    /// When the lists must be woken, if no event comes before: when the next lease expires.
    pub fn wake_at(&self) -> Option<u64> {
        self.ends.first().map(|&(end_ns, _)| end_ns)
    }

    /// Handles an event, and appends the resulting actions to `out`. After an error nothing has changed.
    pub fn on_event(&mut self, now_ns: u64, event: Event, out: &mut Vec<Action>) -> Result<(), BadLease> {
        if now_ns < self.now_ns {
            return Err(BadLease::Past { now_ns: self.now_ns });
        }
        self.fits(event)?;
        self.now_ns = now_ns;
        match event {
            Event::Idle(process) => self.give(process, out),
            Event::Progress(process, task) => self.on_progress(process, task),
            Event::Done(process, task) => self.on_done(process, task, out),
            Event::Died(process) => self.on_died(process, out),
            Event::Wake => {}
        }
        // Only now, so that a process that reports in time keeps its lease, even if the wake-up is late.
        self.expire(out);
        Ok(())
    }

    /// Whether an event is possible after the events before it.
    fn fits(&self, event: Event) -> Result<(), BadLease> {
        let (process, task) = match event {
            Event::Idle(process) | Event::Died(process) => (process, None),
            Event::Progress(process, task) | Event::Done(process, task) => (process, Some(task)),
            Event::Wake => return Ok(()),
        };
        if process.index() >= self.leases.len() {
            return Err(BadLease::NoSuchProcess(process.0));
        }
        let Some(task) = task else { return Ok(()) };
        let has_expired = self.expired.contains(&(task, process));
        let fits = match self.tasks.get(task as usize) {
            Some(Task::Done) => return Err(BadLease::DoneBefore { process: process.0, task }),
            Some(Task::Leased(holder)) if *holder == process => true,
            Some(Task::Leased(_)) => has_expired && matches!(event, Event::Done(..)),
            // It gets the task back unless it has accepted another one.
            Some(Task::Listed(_)) => {
                has_expired && (matches!(event, Event::Done(..)) || self.lease(process).is_none())
            }
            None => false,
        };
        if fits { Ok(()) } else { Err(BadLease::NotLeased { process: process.0, task }) }
    }

    /// Gives a process the task that suits it best, or repeats what it was given.
    fn give(&mut self, process: ProcessId, out: &mut Vec<Action>) {
        if let Some(task) = self.lease(process).or_else(|| self.next_for(process)) {
            self.start_lease(process, task);
            out.push(Action::Start(process, task));
        } else if self.counts.left == 0 {
            out.push(Action::Leave(process));
        } else if !self.waiting.contains(&process) {
            self.waiting.push_back(process);
        }
    }

    /// Takes the task that suits a process best off the lists.
    fn next_for(&mut self, process: ProcessId) -> Option<u32> {
        let (owner, place) = self.lists.best_for(process, &self.work)?;
        self.note(process, owner, place);
        self.counts.given += 1;
        self.counts.stolen += u64::from(owner != process);
        self.lists.take(owner, place)
    }

    fn on_progress(&mut self, process: ProcessId, task: u32) {
        if let Task::Listed(owner) = self.tasks[task as usize] {
            self.lists.remove(owner, task);
        }
        self.start_lease(process, task);
    }

    /// Starts or renews a lease.
    fn start_lease(&mut self, process: ProcessId, task: u32) {
        self.end_lease(process);
        let end_ns = self.now_ns.saturating_add(self.settings.lease_ns);
        // The end of time never comes.
        if end_ns < u64::MAX {
            self.ends.insert((end_ns, process));
        }
        self.expired.remove(&(task, process));
        self.leases[process.index()] = Some(Lease { task, end_ns });
        self.tasks[task as usize] = Task::Leased(process);
    }

    /// Ends the lease of a process, if it has one. Returns the task.
    fn end_lease(&mut self, process: ProcessId) -> Option<u32> {
        let Lease { task, end_ns } = self.leases[process.index()].take()?;
        self.ends.remove(&(end_ns, process));
        Some(task)
    }

    fn on_done(&mut self, process: ProcessId, task: u32, out: &mut Vec<Action>) {
        let is_late = self.expired.remove(&(task, process));
        match std::mem::replace(&mut self.tasks[task as usize], Task::Done) {
            Task::Leased(holder) => {
                self.end_lease(holder);
                out.extend((holder != process).then_some(Action::Withdraw(holder, task)));
            }
            Task::Listed(owner) => self.lists.remove(owner, task),
            Task::Done => {}
        }
        for other in self.lost_by(task) {
            self.expired.remove(&(task, other));
            out.push(Action::Withdraw(other, task));
        }
        self.counts.left -= 1;
        self.counts.done += 1;
        self.counts.late += u64::from(is_late);
        if self.counts.left == 0 {
            out.extend(self.waiting.drain(..).map(Action::Leave));
        }
    }

    /// The processes whose leases of a task have expired.
    fn lost_by(&self, task: u32) -> Vec<ProcessId> {
        let all = (task, ProcessId(0))..=(task, ProcessId(u32::MAX));
        self.expired.range(all).map(|&(_, process)| process).collect()
    }

    fn on_died(&mut self, process: ProcessId, out: &mut Vec<Action>) {
        self.waiting.retain(|&other| other != process);
        self.expired.retain(|&(_, other)| other != process);
        if let Some(task) = self.end_lease(process) {
            self.counts.lost += 1;
            self.put_back(process, task, out);
        }
    }

    /// Ends the leases that have expired.
    fn expire(&mut self, out: &mut Vec<Action>) {
        while let Some(&(_, process)) = self.ends.first().filter(|&&(end_ns, _)| end_ns <= self.now_ns) {
            if let Some(task) = self.end_lease(process) {
                self.counts.expired += 1;
                self.expired.insert((task, process));
                self.put_back(process, task, out);
            }
        }
    }

    /// Puts a task back into the list of the process that had it, and gives it to a process that waits.
    fn put_back(&mut self, process: ProcessId, task: u32, out: &mut Vec<Action>) {
        self.lists.put_first(process, task);
        self.tasks[task as usize] = Task::Listed(process);
        if let Some(next) = self.waiting.pop_front() {
            self.give(next, out);
        }
    }
}
