//! `opass-multi`: processes propose to the tasks of which they hold most; tasks keep the better offer.
//!
//! Algorithm 1 of paper 003 (§4.3): deferred acceptance, many to one. Processes take turns. The one whose turn it is
//! proposes to task after task, those with the most local bytes first (ties: the first), until it has its quota. A
//! process that loses a task queues up again. A task changes hands only for more bytes.
//!
//! Deviations. Line 7 prints `max` where arg max is intended. Where n/P is not whole, the listing lets every process
//! want ⌈n/P⌉ tasks and never ends; here the first n mod P processes want one more than the others. And the result is
//! best for the proposers, not the optimum that the paper claims: that is [`opass_exact`].

use std::cmp::Reverse;
use std::collections::VecDeque;

use super::{Assignment, ProcessId, Work, opass_exact};

/// A task that changes hands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// The task.
    pub task: u32,
    /// The process that gets it, because it holds more of it.
    pub by: ProcessId,
    /// The process that had it before.
    pub from: ProcessId,
}

/// The assignment that is best for the proposers.
pub fn assign(work: &Work) -> Assignment {
    Assignment::new(work, propose(work, |_| ()), opass_exact::bound(work))
}

/// Computes the processes of this assignment, and reports which tasks change hands.
pub fn propose(work: &Work, mut taken: impl FnMut(Taken)) -> Vec<ProcessId> {
    let affinity = work.affinity();
    // What each server's processes propose to first, most bytes first. They hold nothing of the other tasks.
    let mut wishes: Vec<Vec<(Reverse<u64>, u32)>> = vec![Vec::new(); work.n_servers()];
    affinity.iter().for_each(|(task, server, bytes)| wishes[server.index()].push((Reverse(bytes), task)));
    wishes.iter_mut().for_each(|wishes| wishes.sort_unstable());
    let (quota, n_extra) = work.quota();
    let mut wanted: Vec<u64> =
        (0..work.n_processes() as u64).map(|process| quota + u64::from(process < n_extra)).collect();
    let mut n_asked = vec![0; work.n_processes()];
    let mut holders: Vec<Option<(u64, ProcessId)>> = vec![None; work.n_tasks()];
    let mut first_free = 0;
    let mut turns: VecDeque<ProcessId> = (0..work.n_processes() as u32).map(ProcessId).collect();
    while let Some(process) = turns.pop_front() {
        let wishes = work.home(process).map_or(&[][..], |server| &wishes[server.index()]);
        while wanted[process.index()] > 0 {
            let Some(&(Reverse(bytes), task)) = wishes.get(n_asked[process.index()]) else {
                // No task changes hands for zero bytes, so only tasks that nobody has are left.
                while holders.get(first_free).is_some_and(Option::is_some) {
                    first_free += 1;
                }
                let Some(free) = holders.get_mut(first_free) else { break };
                *free = Some((0, process));
                wanted[process.index()] -= 1;
                continue;
            };
            n_asked[process.index()] += 1;
            let holder = &mut holders[task as usize];
            if holder.is_some_and(|(offered, _)| offered >= bytes) {
                continue;
            }
            wanted[process.index()] -= 1;
            if let Some((_, from)) = holder.replace((bytes, process)) {
                taken(Taken { task, by: process, from });
                // A process that lacks nothing is not in the queue.
                if wanted[from.index()] == 0 {
                    turns.push_back(from);
                }
                wanted[from.index()] += 1;
            }
        }
    }
    holders.into_iter().map(|holder| holder.map_or_else(ProcessId::default, |(_, process)| process)).collect()
}
