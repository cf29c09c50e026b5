//! Gives tasks that are local to no process to those with the least to do, and bounds what any assignment could read
//! locally.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::work::Affinity;
use super::{ProcessId, Work};
use crate::model::ServerId;

/// Gives tasks, in this order, each to the process with the least to do so far; ties go to the first.
pub(super) fn least_filled(
    fills: &[u64],
    tasks: impl Iterator<Item = (usize, u64)>,
    processes: &mut [Option<ProcessId>],
) {
    let mut heap: BinaryHeap<Reverse<(u64, u32)>> =
        (0..).zip(fills).map(|(p, &fill)| Reverse((fill, p))).collect();
    for (task, size) in tasks {
        let Some(Reverse((fill, process))) = heap.pop() else { return };
        processes[task] = Some(ProcessId(process));
        heap.push(Reverse((fill.saturating_add(size), process)));
    }
}

/// Gives each task without a process to the process with the fewest tasks, in order. Afterwards all tasks have a
/// process.
pub(super) fn even_counts(work: &Work, mut processes: Vec<Option<ProcessId>>) -> Vec<ProcessId> {
    let mut fills = vec![0; work.n_processes()];
    processes.iter().flatten().for_each(|process| fills[process.index()] += 1);
    let left: Vec<usize> = (0..processes.len()).filter(|&task| processes[task].is_none()).collect();
    least_filled(&fills, left.into_iter().map(|task| (task, 1)), &mut processes);
    processes.into_iter().map(Option::unwrap_or_default).collect()
}

/// Distributes the tasks of each server round robin to the processes on its host: each gets as many as the others, or
/// one more.
pub(super) fn among_residents(
    work: &Work,
    servers: impl Iterator<Item = Option<ServerId>>,
) -> Vec<Option<ProcessId>> {
    let residents = work.residents();
    let mut n_given = vec![0; work.n_servers()];
    let mut give = |server: ServerId| {
        let all = residents.of(server);
        let turn = &mut n_given[server.index()];
        *turn += 1;
        ProcessId(all[(*turn - 1) % all.len()])
    };
    servers.map(|server| server.map(&mut give)).collect()
}

/// The local bytes if every task may go to the process that holds most of it.
pub(super) fn unlimited(work: &Work, affinity: &Affinity) -> u64 {
    let most = |task| affinity.of(task).iter().map(|(_, bytes)| *bytes).max().unwrap_or(0);
    (0..work.n_tasks()).map(most).sum()
}
