//! `opass-single`: as many bytes as possible local where each task reads one chunk.
//!
//! Paper 003 §4.2: maximum flow from processes to the chunks on their hosts. With chunks of one size, every process
//! does ⌊n/P⌋ tasks and n mod P of them one more. The flow decides which, through a node X with that many extra units.
//! All processes of a host are alike, so the flow is between servers and chunks. It is first maximised without X, then
//! X adds what it can: an extra unit cannot free an ordinary one, since whichever chunk needed it could not reach one.
//!
//! Deviations. With chunks of different sizes, the paper's capacities allow chunks to be split between processes, which
//! is not an assignment. Here that flow is rounded: each chunk goes to the host that has most of it, and there to the
//! process with the least to read. Chunks that are local nowhere go, by decreasing size, to the process with the least.
//! The paper's bound, the flow with total/P bytes for each process, is not a bound for that: with one chunk and two
//! processes it is half a chunk. So the bound is the flow where each process may read as much as the fullest one does.

use super::fill::{among_residents, even_counts, least_filled};
use super::{Assignment, ProcessId, Unfit, Work};
use crate::graph::flow::capped::Capped;
use crate::graph::flow::level::{Aim, Items, Levelled, Placed, level};
use crate::graph::flow::pace::{Level, Paces};
use crate::model::{Replicas, ServerId, Speed};

/// The assignment with the most local chunks; with different sizes, nearly the most local bytes.
pub fn assign(work: &Work) -> Result<Assignment, Unfit> {
    let ends = work.single_ends().map_err(Unfit::SeveralInputs)?;
    let replicas = sets(work, &ends);
    Ok(match work.common_size() {
        Some(size) => {
            let (servers, n_local) = most_local(work, replicas);
            let processes = even_counts(work, among_residents(work, servers.into_iter()));
            Assignment::new(work, processes, n_local * size)
        }
        None => rounded(work, replicas),
    })
}

/// The assignment alone.
pub(super) fn processes(work: &Work) -> Result<Vec<ProcessId>, Unfit> {
    assign(work).map(|assignment| assignment.processes)
}

/// How many bytes can be local. `None` unless all tasks read one chunk of the same size.
pub(super) fn bound(work: &Work) -> Option<u64> {
    let size = work.common_size()?;
    let ends = work.single_ends().ok()?;
    Some(most_local(work, sets(work, &ends)).1 * size)
}

/// The replica sets of chunks, given where each ends.
fn sets<'a>(work: &'a Work, ends: &'a [u32]) -> Replicas<'a> {
    let width = ends.first().copied().unwrap_or(0);
    let is_common = width > 0 && (1..).zip(ends).all(|(i, &end): (u32, _)| Some(end) == width.checked_mul(i));
    Replicas::new(work.flat_replicas(), ends, is_common.then_some(width as usize))
}

/// The server at which each chunk is local, and how many are.
fn most_local(work: &Work, replicas: Replicas<'_>) -> (Vec<Option<ServerId>>, u64) {
    let (quota, n_extra) = work.quota();
    if n_extra == 0
        && let Some(servers) = all_local(work, replicas, quota)
    {
        return (servers.into_iter().map(Some).collect(), work.n_tasks() as u64);
    }
    let mut flow = Capped::new(replicas, |_| 1, room(work, quota));
    flow.fit(u64::MAX);
    if n_extra > 0 {
        let residents = work.residents();
        for server in (0..work.n_servers() as u32).map(ServerId) {
            flow.add_room(server, residents.of(server).len() as u64);
        }
        flow.fit(n_extra);
    }
    let servers: Vec<Option<ServerId>> = flow.servers().collect();
    let n_local = servers.iter().flatten().count() as u64;
    (servers, n_local)
}

/// Where each chunk is local, if all can be and every host has the same number of processes. Then no server needs to
/// exceed the minimal maximum load, which is found sooner than a flow.
fn all_local(work: &Work, replicas: Replicas<'_>, quota: u64) -> Option<Vec<ServerId>> {
    let residents = work.residents();
    let n_residents = |server: u32| residents.of(ServerId(server)).len() as u64;
    let n_each = (work.n_servers() > 0).then(|| n_residents(0))?;
    // A chunk without a replica is local nowhere.
    let is_even = replicas.width().is_some()
        && (0..work.n_servers() as u32).all(|server| n_residents(server) == n_each);
    if !is_even {
        return None;
    }
    let paces = Paces::with_backlogs((0..work.n_servers()).map(|_| 0));
    let items = Items { replicas, sizes: None, total: work.n_tasks() as u64, paces: &paces };
    let room = Level::new(u128::from(quota.saturating_mul(n_each)), Speed::ONE.millionths());
    match level(items, Aim::MaxDownTo(room)) {
        Levelled { placed: Placed::Whole(servers), level, .. } if level <= room => Some(servers),
        _ => None,
    }
}

/// Room for `for_each` on each process of a server's host.
fn room(work: &Work, for_each: u64) -> Vec<u64> {
    let residents = work.residents();
    let servers = (0..work.n_servers() as u32).map(ServerId);
    servers.map(|server| for_each.saturating_mul(residents.of(server).len() as u64)).collect()
}

/// Assigns chunks of different sizes, each to where most of it flows.
fn rounded(work: &Work, replicas: Replicas<'_>) -> Assignment {
    let n_tasks = work.n_tasks();
    let sizes: Vec<u64> = (0..n_tasks).map(|task| work.task_bytes(task)).collect();
    let share = work.total_bytes().div_ceil(work.n_processes().max(1) as u64);
    let flow = |for_each: u64| {
        let mut flow = Capped::new(replicas, |task| sizes[task], room(work, for_each));
        flow.fit(u64::MAX);
        flow
    };
    let split = flow(share);
    let residents = work.residents();
    let mut by_size: Vec<usize> = (0..n_tasks).collect();
    by_size.sort_by_key(|&task| std::cmp::Reverse(sizes[task]));
    let mut fills = vec![0_u64; work.n_processes()];
    let mut processes: Vec<Option<ProcessId>> = vec![None; n_tasks];
    for &task in &by_size {
        let set = replicas.of(task).iter().zip(&split.amounts()[replicas.start(task)..]);
        let most = set
            .filter(|(_, amount)| **amount > 0)
            .max_by_key(|&(server, amount)| (amount, std::cmp::Reverse(server)));
        let hosts = most.map_or(&[][..], |(server, _)| residents.of(*server));
        if let Some(&process) = hosts.iter().min_by_key(|&&process| (fills[process as usize], process)) {
            fills[process as usize] += sizes[task];
            processes[task] = Some(ProcessId(process));
        }
    }
    let left: Vec<usize> = by_size.into_iter().filter(|&task| processes[task].is_none()).collect();
    // Chunks without bytes count a little too, otherwise one process would get all of them.
    least_filled(&fills, left.into_iter().map(|task| (task, sizes[task].max(1))), &mut processes);
    let processes: Vec<ProcessId> = processes.into_iter().map(Option::unwrap_or_default).collect();
    let mut fills = vec![0; work.n_processes()];
    (0..).zip(&processes).for_each(|(task, p): (usize, _)| fills[p.index()] += sizes[task]);
    let fullest = fills.into_iter().max().unwrap_or(0);
    let split = if fullest > share { flow(fullest) } else { split };
    Assignment::new(work, processes, split.amounts().iter().sum())
}
