//! `opass-dynamic`: processes ask for one task after another, guided by lists of tasks that suit them.
//!
//! Paper 003 §4.4. The lists are those of [`opass_single`] or, with several inputs, of [`opass_multi`], each ordered by
//! local bytes. An idle process takes the first task of its list. If its list is empty, it takes the task of the
//! longest list of which it holds most; ties go to the last, so that the owner keeps what suits it best.
//!
//! Beyond the paper: processes may die or fall silent. A task is given to a process as a lease, which progress renews.
//! If the process dies, or the lease expires, the task is first in its list again, so any process with an empty list
//! can take it. Processes that find nothing wait until everything is done, in case that happens. A process that was
//! only slow may still finish after its lease has expired: the first to be done counts, and the others are told to
//! stop. So under any order of events no task is lost, and none counts twice.
//!
//! [`Guided`] has no clock: its driver passes the time with each event, and wakes it at [`Guided::wake_at`].
//! [`Guided::trace`] keeps the latest decisions, each with all candidates and their figures. [`Counts`] has the numbers
//! for a dashboard.
//!
//! ```
//! use evenkeel::assign::opass_dynamic::{Action, Event, Guided, Settings};
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
//! let mut guided = Guided::new(&work, &[a, b], Settings { lease_ns: 1000 })?;
//!
//! let mut actions = Vec::new();
//! guided.on_event(0, Event::Idle(a), &mut actions)?;
//! guided.on_event(0, Event::Idle(b), &mut actions)?;
//! assert_eq!(actions, [Action::Start(a, 0), Action::Start(b, 1)]);
//! // One falls silent. The other does its task when it is done with its own.
//! actions.clear();
//! guided.on_event(900, Event::Done(a, 0), &mut actions)?;
//! guided.on_event(900, Event::Idle(a), &mut actions)?;
//! assert_eq!((actions.as_slice(), guided.wake_at()), (&[][..], Some(1000)));
//! guided.on_event(1000, Event::Wake, &mut actions)?;
//! assert_eq!(actions, [Action::Start(a, 1)]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod guided;
mod lists;
mod trace;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::fill::unlimited;
use super::{Assignment, ProcessId, Work, opass_multi, opass_single};

pub use guided::Guided;
pub use trace::{Candidate, Decision};

/// An input: something that happened to a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The process wants a task. If it already has one, the answer is repeated, as it may have been lost.
    Idle(ProcessId),
    /// The process is still working on a task: its lease is renewed. If the lease has expired and nobody else has the
    /// task, the process gets it back.
    Progress(ProcessId, u32),
    /// The process has done a task. If this event is accepted without an error, its result counts, even if its lease
    /// has expired.
    Done(ProcessId, u32),
    /// The process is gone, with everything it has begun. It may come back, idle.
    Died(ProcessId),
    /// Time has passed.
    Wake,
}

/// An output: what has to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The process is to do this task.
    Start(ProcessId, u32),
    /// Another process was first to do this task. The process stops if it is still working on it.
    Withdraw(ProcessId, u32),
    /// All tasks are done; the process may leave.
    Leave(ProcessId),
}

/// An event that does not fit the events before it. It has changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum BadLease {
    #[error("there is no process {0}; processes are counted from 0")]
    NoSuchProcess(u32),
    #[error(
        "task {task} is not leased to process {process}, which has died or lost it to another; ignore this"
    )]
    NotLeased { process: u32, task: u32 },
    #[error("task {task} is done already; discard the result of process {process}")]
    DoneBefore { process: u32, task: u32 },
    #[error("the time is already {now_ns} ns; pass events in order of time")]
    Past { now_ns: u64 },
}

/// An assignment that belongs to other work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum OtherWork {
    #[error(
        "the assignment has {n_assigned} tasks, but the work has {n_tasks}; give an assignment of this work"
    )]
    Tasks { n_assigned: usize, n_tasks: usize },
    #[error(
        "task {task} is assigned to process {process}, but there are only {n_processes}; count processes from 0"
    )]
    NoSuchProcess { task: usize, process: u32, n_processes: usize },
}

/// How guided lists behave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How long a process keeps a task without any progress, at least 1. With [`u64::MAX`], leases do not expire.
    pub lease_ns: u64,
}

impl Default for Settings {
    /// Leases of 30 seconds: long against a pause or a lost message, short against a job.
    fn default() -> Self {
        Self { lease_ns: 30_000_000_000 }
    }
}

/// What guided lists have done so far, for monitoring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Tasks that are not done.
    pub left: usize,
    /// Tasks that are leased.
    pub leased: usize,
    /// Processes that wait for a task.
    pub waiting: usize,
    /// Tasks that are done.
    pub done: u64,
    /// Of these, tasks whose process had lost its lease before.
    pub late: u64,
    /// Leases that were given.
    pub given: u64,
    /// Of these, leases of tasks from the list of another process.
    pub stolen: u64,
    /// Leases that have expired.
    pub expired: u64,
    /// Leases that were lost because their process died.
    pub lost: u64,
}

/// The assignment if all processes are equally fast and none dies: a task takes as long as its bytes, wherever they
/// are.
pub fn assign(work: &Work) -> Assignment {
    let lists = opass_single::processes(work).unwrap_or_else(|_| opass_multi::propose(work, |_| ()));
    let mut guided = Guided::of_own(work, &lists, Settings { lease_ns: u64::MAX });
    let mut processes = vec![ProcessId::default(); work.n_tasks()];
    let mut actions = Vec::new();
    let mut ends: BinaryHeap<Reverse<(u128, ProcessId)>> =
        (0..work.n_processes() as u32).map(|process| Reverse((0, ProcessId(process)))).collect();
    while let Some(Reverse((now, process))) = ends.pop() {
        let done = guided.lease(process).map(|task| Event::Done(process, task));
        for event in done.into_iter().chain([Event::Idle(process)]) {
            // Each event is about a lease that was just given, so it fits. No lease expires, whatever the time.
            let _ = guided.on_event(0, event, &mut actions);
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
