//! The tasks that nobody has, in lists of processes.

use std::cmp::Reverse;
use std::collections::{BTreeSet, VecDeque};

use crate::assign::{ProcessId, Work};

/// A list of tasks for each process.
#[derive(Clone, Debug)]
pub(super) struct Lists {
    lists: Vec<VecDeque<u32>>,
    /// The lists that are not empty, longest first.
    by_length: BTreeSet<(Reverse<usize>, ProcessId)>,
}

impl Lists {
    /// The tasks of each process, ordered by local bytes.
    pub(super) fn new(work: &Work, processes: &[ProcessId]) -> Self {
        let mut lists = vec![Vec::new(); work.n_processes()];
        for (task, process) in (0_u32..).zip(processes) {
            lists[process.index()].push((Reverse(work.local_bytes(task as usize, *process)), task));
        }
        let sorted = lists.into_iter().map(|mut list| {
            list.sort_unstable();
            list.into_iter().map(|(_, task)| task).collect()
        });
        let lists: Vec<VecDeque<u32>> = sorted.collect();
        let lengths = (0..).map(ProcessId).zip(&lists).filter(|(_, list)| !list.is_empty());
        Self { by_length: lengths.map(|(owner, list)| (Reverse(list.len()), owner)).collect(), lists }
    }

    /// The list of a process.
    pub(super) fn of(&self, owner: ProcessId) -> &VecDeque<u32> {
        &self.lists[owner.index()]
    }

    /// The lists that are not empty with their lengths, longest first.
    pub(super) fn lengths(&self) -> impl Iterator<Item = (ProcessId, usize)> {
        self.by_length.iter().map(|&(Reverse(length), owner)| (owner, length))
    }

    /// The task that suits a process best: whose list it is in, and at which place.
    pub(super) fn best_for(&self, process: ProcessId, work: &Work) -> Option<(ProcessId, usize)> {
        if !self.lists[process.index()].is_empty() {
            return Some((process, 0));
        }
        let &(_, longest) = self.by_length.first()?;
        let list = &self.lists[longest.index()];
        // The last of those with the most.
        let best = (0..list.len()).max_by_key(|&k| (work.local_bytes(list[k] as usize, process), k))?;
        Some((longest, best))
    }

    /// Takes a task off a list, if there is one at this place.
    pub(super) fn take(&mut self, owner: ProcessId, place: usize) -> Option<u32> {
        self.change(owner, |list| list.remove(place))
    }

    /// Takes this task off a list.
    pub(super) fn remove(&mut self, owner: ProcessId, task: u32) {
        self.change(owner, |list| list.retain(|&other| other != task));
    }

    /// Puts a task first in a list.
    pub(super) fn put_first(&mut self, owner: ProcessId, task: u32) {
        self.change(owner, |list| list.push_front(task));
    }

    fn change<T>(&mut self, owner: ProcessId, change: impl FnOnce(&mut VecDeque<u32>) -> T) -> T {
        let list = &mut self.lists[owner.index()];
        self.by_length.remove(&(Reverse(list.len()), owner));
        let result = change(list);
        if !list.is_empty() {
            self.by_length.insert((Reverse(list.len()), owner));
        }
        result
    }
}
