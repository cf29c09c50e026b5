//! `opass-dynamic`: processes ask for one task after another, guided by lists of tasks that suit them.
//!
//! Paper 003 §4.4. The lists are those of [`opass_single`] or, with several inputs, of [`opass_multi`], each ordered by
//! local bytes. An idle process takes the first task of its list. If its list is empty, it takes the task of the
//! longest list of which it holds most; ties go to the last, so that the owner keeps what suits it best.
//!
//! Beyond the paper: processes may die. A task is given to a process as a lease. If the process dies, the task is first
//! in its list again, so any process with an empty list can take it. Processes that find nothing wait until everything
//! is done, in case that happens. So under any order of events no task is lost, and none is done twice: a process that
//! was given up for dead and reports after all gets an error saying that its lease is gone.
//!
//! ```
//! use evenkeel::assign::opass_dynamic::{Action, Event, Guided};
//! use evenkeel::assign::{ProcessId, WorkBuilder};
//! use evenkeel::model::ServerId;
//!
//! let mut work = WorkBuilder::new();
//! for server in [0, 1] {
//!     work.input(64, &[ServerId(server)])?;
//!     work.end_task();
//! }
//! // Two processes, each on the host of a server.
//! let work = work.finish(2, vec![Some(ServerId(0)), Some(ServerId(1))])?;
//! let [a, b] = [ProcessId(0), ProcessId(1)];
//! let mut guided = Guided::new(&work, &[a, b])?;
//!
//! let mut actions = Vec::new();
//! guided.on_event(Event::Idle(a), &mut actions)?;
//! guided.on_event(Event::Idle(b), &mut actions)?;
//! assert_eq!(actions, [Action::Start(a, 0), Action::Start(b, 1)]);
//! // One dies, and the other does its task when it is done with its own.
//! actions.clear();
//! guided.on_event(Event::Died(b), &mut actions)?;
//! guided.on_event(Event::Done(a, 0), &mut actions)?;
//! guided.on_event(Event::Idle(a), &mut actions)?;
//! assert_eq!(actions, [Action::Start(a, 1)]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, VecDeque};

use super::fill::unlimited;
use super::{Assignment, ProcessId, Work, opass_multi, opass_single};

/// An input: something that happened to a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The process wants a task. If it already has one, the answer is repeated, as it may have been lost.
    Idle(ProcessId),
    /// The process has done a task.
    Done(ProcessId, u32),
    /// The process is gone, with everything it has begun. It may come back, idle.
    Died(ProcessId),
}

/// An output: what has to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The process is to do this task.
    Start(ProcessId, u32),
    /// All tasks are done; the process may leave.
    Leave(ProcessId),
}

/// An event that does not fit what came before. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum BadLease {
    #[error("there is no process {0}; processes are counted from 0")]
    NoSuchProcess(u32),
    #[error(
        "task {task} is not leased to process {process}; it has died meanwhile, or said so before: ignore it"
    )]
    NotLeased { process: u32, task: u32 },
}

/// An assignment that belongs to other work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum OtherWork {
    #[error("the assignment has {n_assigned} tasks and the work {n_tasks}; assign this work")]
    Tasks { n_assigned: usize, n_tasks: usize },
    #[error(
        "task {task} is assigned to process {process}, and there are only {n_processes}; count processes from 0"
    )]
    NoSuchProcess { task: usize, process: u32, n_processes: usize },
}

/// Tasks on their way from the lists through leases to completion.
#[derive(Clone, Debug)]
pub struct Guided {
    work: Work,
    lists: Vec<VecDeque<u32>>,
    /// The lists that are not empty, longest first.
    by_length: BTreeSet<(Reverse<usize>, u32)>,
    leases: Vec<Option<u32>>,
    /// Processes that have found nothing to do, in order of arrival. All lists are empty then.
    waiting: VecDeque<ProcessId>,
    n_left: usize,
}

impl Guided {
    /// Starts with the tasks of this assignment, which must be of this work. None is done yet.
    pub fn new(work: &Work, processes: &[ProcessId]) -> Result<Self, OtherWork> {
        let (n_assigned, n_tasks) = (processes.len(), work.n_tasks());
        if n_assigned != n_tasks {
            return Err(OtherWork::Tasks { n_assigned, n_tasks });
        }
        let n_processes = work.n_processes();
        match processes.iter().position(|process| process.index() >= n_processes) {
            Some(task) => Err(OtherWork::NoSuchProcess { task, process: processes[task].0, n_processes }),
            None => Ok(Self::listed(work, processes)),
        }
    }

    /// The lists of an assignment of this work.
    fn listed(work: &Work, processes: &[ProcessId]) -> Self {
        let mut lists = vec![Vec::new(); work.n_processes()];
        for (task, process) in (0_u32..).zip(processes) {
            lists[process.index()].push((Reverse(work.local_bytes(task as usize, *process)), task));
        }
        let sorted = lists.into_iter().map(|mut list| {
            list.sort_unstable();
            list.into_iter().map(|(_, task)| task).collect()
        });
        let lists: Vec<VecDeque<u32>> = sorted.collect();
        let lengths = (0..).zip(&lists).filter(|(_, list)| !list.is_empty());
        Self {
            by_length: lengths.map(|(process, list)| (Reverse(list.len()), process)).collect(),
            lists,
            leases: vec![None; work.n_processes()],
            waiting: VecDeque::new(),
            n_left: work.n_tasks(),
            work: work.clone(),
        }
    }

    /// How many tasks are not done.
    pub fn n_left(&self) -> usize {
        self.n_left
    }

    /// The task that a process is doing, as far as is known.
    pub fn lease(&self, process: ProcessId) -> Option<u32> {
        self.leases.get(process.index()).copied().flatten()
    }

    /// Handles an event. Appends the resulting actions to `out`.
    pub fn on_event(&mut self, event: Event, out: &mut Vec<Action>) -> Result<(), BadLease> {
        let (Event::Idle(process) | Event::Done(process, _) | Event::Died(process)) = event;
        if process.index() >= self.leases.len() {
            return Err(BadLease::NoSuchProcess(process.0));
        }
        match event {
            Event::Idle(_) => self.give(process, out),
            Event::Done(_, task) => {
                if self.leases[process.index()] != Some(task) {
                    return Err(BadLease::NotLeased { process: process.0, task });
                }
                self.leases[process.index()] = None;
                self.n_left -= 1;
                if self.n_left == 0 {
                    out.extend(self.waiting.drain(..).map(Action::Leave));
                }
            }
            Event::Died(_) => {
                self.waiting.retain(|&other| other != process);
                if let Some(task) = self.leases[process.index()].take() {
                    self.change(process.0, |list| list.push_front(task));
                    if let Some(next) = self.waiting.pop_front() {
                        self.give(next, out);
                    }
                }
            }
        }
        Ok(())
    }

    fn give(&mut self, process: ProcessId, out: &mut Vec<Action>) {
        let leased = self.leases[process.index()];
        if let Some(task) = leased.or_else(|| self.next_for(process)) {
            self.leases[process.index()] = Some(task);
            out.push(Action::Start(process, task));
        } else if self.n_left == 0 {
            out.push(Action::Leave(process));
        } else if !self.waiting.contains(&process) {
            self.waiting.push_back(process);
        }
    }

    /// Takes the task that suits a process best off its list, or otherwise off the longest one.
    fn next_for(&mut self, process: ProcessId) -> Option<u32> {
        if !self.lists[process.index()].is_empty() {
            return self.change(process.0, VecDeque::pop_front);
        }
        let &(_, longest) = self.by_length.first()?;
        let list = &self.lists[longest as usize];
        // The last of those with the most.
        let best = (0..list.len()).max_by_key(|&k| (self.work.local_bytes(list[k] as usize, process), k))?;
        self.change(longest, |list| list.remove(best))
    }

    fn change<T>(&mut self, process: u32, change: impl FnOnce(&mut VecDeque<u32>) -> T) -> T {
        let list = &mut self.lists[process as usize];
        self.by_length.remove(&(Reverse(list.len()), process));
        let result = change(list);
        if !list.is_empty() {
            self.by_length.insert((Reverse(list.len()), process));
        }
        result
    }
}

/// The assignment if all processes are equally fast and none dies: a task takes as long as its bytes, wherever they
/// are.
pub fn assign(work: &Work) -> Assignment {
    let lists = opass_single::processes(work).unwrap_or_else(|_| opass_multi::propose(work, |_| ()));
    let mut guided = Guided::listed(work, &lists);
    let mut processes = vec![ProcessId::default(); work.n_tasks()];
    let mut actions = Vec::new();
    let mut ends: BinaryHeap<Reverse<(u128, ProcessId)>> =
        (0..work.n_processes() as u32).map(|process| Reverse((0, ProcessId(process)))).collect();
    while let Some(Reverse((now, process))) = ends.pop() {
        let done = guided.lease(process).map(|task| Event::Done(process, task));
        for event in done.into_iter().chain([Event::Idle(process)]) {
            // Each event is about a lease that was just given, so it fits.
            let _ = guided.on_event(event, &mut actions);
        }
        for action in actions.drain(..) {
            if let Action::Start(process, task) = action {
                processes[task as usize] = process;
                // A task without bytes still takes a moment.
                ends.push(Reverse((now + u128::from(work.task_bytes(task as usize).max(1)), process)));
            }
        }
    }
    Assignment::new(work, processes, unlimited(work, &work.affinity()))
}
