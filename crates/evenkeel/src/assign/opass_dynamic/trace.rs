//! Why a process was given a task. Recorded only on request.

use super::guided::Guided;
use crate::assign::ProcessId;

/// A task was given to a process: what it was preferred to, by which figures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// When it was given.
    pub at_ns: u64,
    /// The process that does the task.
    pub process: ProcessId,
    /// The task.
    pub task: u32,
    /// The process in whose list the task was. If it is another one, the task is stolen.
    pub owner: ProcessId,
    /// All tasks of that list in its order, including the chosen one.
    pub candidates: Vec<Candidate>,
    /// If the task is stolen: the lists that were not empty and their lengths, the longest first.
    pub lists: Vec<(ProcessId, usize)>,
}

impl Decision {
    /// Whether the task comes from the list of another process.
    pub fn is_stolen(&self) -> bool {
        self.owner != self.process
    }
}

/// A task that could be given to the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The task.
    pub task: u32,
    /// Bytes of its inputs on the host of the process.
    pub local_bytes: u64,
}

impl Guided {
    /// Keeps the latest `most` decisions from now on, until they are [taken](Self::take_decisions). With 0, the initial
    /// value, keeps none.
    pub fn trace(&mut self, most: usize) {
        self.trace.keep(most);
    }

    /// Removes and returns the recorded decisions, oldest first.
    pub fn take_decisions(&mut self) -> Vec<Decision> {
        self.trace.take()
    }

    /// Records that a process is about to get a task of a list, if tracing is on.
    pub(super) fn note(&mut self, process: ProcessId, owner: ProcessId, place: usize) {
        if !self.trace.is_on() {
            return;
        }
        let candidate =
            |&task: &u32| Candidate { task, local_bytes: self.work.local_bytes(task as usize, process) };
        let candidates: Vec<Candidate> = self.lists.of(owner).iter().map(candidate).collect();
        let lists = if owner == process { Vec::new() } else { self.lists.lengths().collect() };
        let (at_ns, task) = (self.now_ns, candidates[place].task);
        self.trace.push(Decision { at_ns, process, task, owner, candidates, lists });
    }
}
