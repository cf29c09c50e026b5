//! `opass-exact`: the most local bytes that any assignment with even task counts can have.
//!
//! Beyond paper 003, whose Algorithm 1 (§4.3) claims the optimum but is only best for the proposers: with local bytes
//! 10 and 9 for one process, 9 and 0 for the other, it reads 10 of 18 locally. This is a maximum-weight b-matching:
//! shortest augmenting paths with potentials, one task after another. Every process does ⌊n/P⌋ tasks and n mod P of
//! them one more, through the node X as in [`opass_single`], so the matching decides which. A task that is local
//! nowhere reads nothing locally wherever it is done, so such tasks fill up at the end.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::fill::{among_residents, even_counts, unlimited};
use super::work::Affinity;
use super::{Assignment, Work, opass_single};
use crate::model::ServerId;

/// Tasks times local pairs of task and server. Beyond this the exact bound may take seconds, and is computed only on
/// request.
const MOST_STEPS_TO_BOUND: u64 = 1 << 28;

/// The assignment with the most local bytes.
pub fn assign(work: &Work) -> Assignment {
    let affinity = work.affinity();
    let servers = Matching::new(work, &affinity).solve();
    let bytes = |(task, server): (usize, &Option<ServerId>)| server.map_or(0, |s| affinity.bytes(task, s));
    let bound = servers.iter().enumerate().map(bytes).sum();
    Assignment::new(work, even_counts(work, among_residents(work, servers.into_iter())), bound)
}

/// No assignment with even counts reads more than this locally. The bound is tight, unless there is too much work to
/// compute it and chunks differ.
pub(super) fn bound(work: &Work) -> u64 {
    if let Some(bound) = opass_single::bound(work) {
        return bound;
    }
    let affinity = work.affinity();
    let n_steps = work.n_tasks() as u64 * affinity.iter().count() as u64;
    if n_steps <= MOST_STEPS_TO_BOUND {
        let servers = Matching::new(work, &affinity).solve();
        return (0..).zip(servers).filter_map(|(task, s)| s.map(|s| affinity.bytes(task, s))).sum();
    }
    relaxed(work, &affinity)
}

/// An upper bound on what can be local that is quick to compute.
fn relaxed(work: &Work, affinity: &Affinity) -> u64 {
    unlimited(work, affinity).min(by_server(work, affinity))
}

/// The local bytes if the processes of each server may do the tasks of which it holds most, so that a task may be done
/// several times.
fn by_server(work: &Work, affinity: &Affinity) -> u64 {
    let residents = work.residents();
    let (quota, n_extra) = work.quota();
    let mut held: Vec<(ServerId, Reverse<u64>)> = affinity.iter().map(|(_, s, b)| (s, Reverse(b))).collect();
    held.sort_unstable();
    let of_server = |held: &[(ServerId, Reverse<u64>)]| {
        let n_residents = residents.of(held[0].0).len() as u64;
        let most = (quota + u64::from(n_extra > 0)).saturating_mul(n_residents);
        let best = held.iter().take(usize::try_from(most).unwrap_or(usize::MAX));
        best.fold(0, |sum: u64, (_, bytes)| sum.saturating_add(bytes.0))
    };
    held.chunk_by(|a, b| a.0 == b.0).map(of_server).fold(0, u64::saturating_add)
}

/// How a path reached a server.
#[derive(Clone, Copy, Debug)]
enum Via {
    /// A task moves here from another server, or is new.
    Task(u32, Option<u32>),
    /// The server gives back an extra unit, and with it a task.
    Extra,
}

/// Where a path ends.
#[derive(Clone, Copy, Debug)]
enum End {
    /// A task is no longer local anywhere. It was at this server, unless it is new.
    Nowhere(u32, Option<u32>),
    /// At a server with room.
    Room(u32),
    /// At an extra unit that nobody has.
    Extra,
}

/// A matching of tasks and servers, in progress. The potentials of servers and of X (the last) keep the cost of every
/// usable arc at 0 or above. A task at a server has the potential that makes the cost of their arc 0.
struct Matching<'a> {
    affinity: &'a Affinity,
    /// The server of each task, its position among that server's tasks, and the tasks of each server.
    at: Vec<Option<u32>>,
    spots: Vec<u32>,
    tasks: Vec<Vec<u32>>,
    /// Ordinary room at each server, and how many extra units each uses and may use.
    room: Vec<u64>,
    extras: Vec<u64>,
    most_extras: Vec<u64>,
    extras_left: u64,
    potentials: Vec<i128>,
    distances: Vec<Option<i128>>,
    via: Vec<Via>,
    /// The server from which X was reached.
    x_via: u32,
    touched: Vec<u32>,
    heap: BinaryHeap<Reverse<(i128, u32)>>,
}

impl<'a> Matching<'a> {
    fn new(work: &Work, affinity: &'a Affinity) -> Self {
        let residents = work.residents();
        let n_servers = work.n_servers();
        let n_residents = (0..n_servers as u32).map(|server| residents.of(ServerId(server)).len() as u64);
        let n_residents: Vec<u64> = n_residents.collect();
        let (quota, extras_left) = work.quota();
        Self {
            affinity,
            at: vec![None; work.n_tasks()],
            spots: vec![0; work.n_tasks()],
            tasks: vec![Vec::new(); n_servers],
            room: n_residents.iter().map(|n| n.saturating_mul(quota)).collect(),
            extras: vec![0; n_servers],
            most_extras: n_residents.into_iter().map(|n| n.min(extras_left)).collect(),
            extras_left,
            potentials: vec![0; n_servers + 1],
            distances: vec![None; n_servers + 1],
            via: vec![Via::Extra; n_servers],
            x_via: 0,
            touched: Vec::new(),
            heap: BinaryHeap::new(),
        }
    }

    /// The server at which each task is local, if any.
    fn solve(mut self) -> Vec<Option<ServerId>> {
        // Tasks with the most to lose first: then others seldom have to give way.
        let most = |task: u32| self.affinity.of(task as usize).iter().map(|(_, bytes)| *bytes).max();
        let mut order: Vec<u32> = (0..self.at.len() as u32).collect();
        order.sort_by_cached_key(|&task| Reverse(most(task)));
        order.into_iter().for_each(|task| self.insert(task));
        self.at.into_iter().map(|server| server.map(ServerId)).collect()
    }

    /// Adds a task along the path that gains most, and updates the potentials.
    fn insert(&mut self, task: u32) {
        let x = self.room.len() as u32;
        let (mut best, mut end) = (0, End::Nowhere(task, None));
        for &(server, bytes) in self.affinity.of(task as usize) {
            let distance = -i128::from(bytes) - self.potentials[server.index()];
            self.reach(server.0, distance, Via::Task(task, None));
        }
        let mut passed = Vec::new();
        while let Some(Reverse((distance, node))) = self.heap.pop() {
            if distance >= best {
                break;
            }
            if self.distances[node as usize] != Some(distance) {
                continue;
            }
            passed.push((node, distance));
            let (length, found) = if node == x { self.pass_x(distance) } else { self.pass(node, distance) };
            if length < best
                && let Some(found) = found
            {
                (best, end) = (length, found);
            }
        }
        self.move_along(end);
        for (node, distance) in passed {
            self.potentials[node as usize] += distance - best;
        }
        self.heap.clear();
        self.touched.drain(..).for_each(|node| self.distances[node as usize] = None);
    }

    /// Records that a path reaches a node. Returns whether it is the shortest so far.
    fn reach(&mut self, node: u32, distance: i128, via: Via) -> bool {
        let known = &mut self.distances[node as usize];
        if known.is_some_and(|known| known <= distance) {
            return false;
        }
        if known.replace(distance).is_none() {
            self.touched.push(node);
        }
        if let Some(of_server) = self.via.get_mut(node as usize) {
            *of_server = via;
        }
        self.heap.push(Reverse((distance, node)));
        true
    }

    /// Continues from a server. Returns the shortest end from here.
    fn pass(&mut self, server: u32, distance: i128) -> (i128, Option<End>) {
        let s = server as usize;
        let here = distance + self.potentials[s];
        let mut end = (i128::MAX, None);
        if self.room[s] > 0 {
            end = (here, Some(End::Room(server)));
        } else if self.extras[s] < self.most_extras[s] {
            let x = self.room.len();
            if self.reach(x as u32, here - self.potentials[x], Via::Extra) {
                self.x_via = server;
            }
        }
        let affinity = self.affinity;
        for k in 0..self.tasks[s].len() {
            let task = self.tasks[s][k];
            let freed = here + i128::from(affinity.bytes(task as usize, ServerId(server)));
            if freed < end.0 {
                end = (freed, Some(End::Nowhere(task, Some(server))));
            }
            for &(to, bytes) in affinity.of(task as usize).iter().filter(|(to, _)| to.0 != server) {
                let distance = freed - i128::from(bytes) - self.potentials[to.index()];
                self.reach(to.0, distance, Via::Task(task, Some(server)));
            }
        }
        end
    }

    /// Continues from X: to an extra unit that is left, or to servers that may give one back.
    fn pass_x(&mut self, distance: i128) -> (i128, Option<End>) {
        let here = distance + self.potentials[self.room.len()];
        if self.extras_left > 0 {
            return (here, Some(End::Extra));
        }
        for server in 0..self.room.len() {
            if self.extras[server] > 0 {
                self.reach(server as u32, here - self.potentials[server], Via::Extra);
            }
        }
        (here, None)
    }

    /// Moves tasks along the path with this end, from its end to its start.
    fn move_along(&mut self, end: End) {
        let mut server = match end {
            End::Nowhere(_, None) => return,
            End::Nowhere(task, Some(server)) => {
                self.take(task, server);
                server
            }
            End::Room(server) => {
                self.room[server as usize] -= 1;
                server
            }
            End::Extra => {
                self.extras_left -= 1;
                self.extras[self.x_via as usize] += 1;
                self.x_via
            }
        };
        loop {
            match self.via[server as usize] {
                Via::Task(task, from) => {
                    if let Some(from) = from {
                        self.take(task, from);
                    }
                    self.at[task as usize] = Some(server);
                    self.spots[task as usize] = self.tasks[server as usize].len() as u32;
                    self.tasks[server as usize].push(task);
                    match from {
                        Some(from) => server = from,
                        None => return,
                    }
                }
                Via::Extra => {
                    self.extras[server as usize] -= 1;
                    self.extras[self.x_via as usize] += 1;
                    server = self.x_via;
                }
            }
        }
    }

    fn take(&mut self, task: u32, server: u32) {
        self.at[task as usize] = None;
        let (tasks, spot) = (&mut self.tasks[server as usize], self.spots[task as usize]);
        tasks.swap_remove(spot as usize);
        if let Some(&moved) = tasks.get(spot as usize) {
            self.spots[moved as usize] = spot;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assign::WorkBuilder;
    use crate::draw::{Draw, Seeded};

    #[test]
    fn the_quick_bound_is_one() {
        let mut n_met = 0;
        for seed in 0..300 {
            let mut draw = Seeded::new(seed);
            let mut builder = WorkBuilder::new();
            for _ in 0..draw.below(12) {
                for server in 0..draw.below(4) {
                    builder.input(draw.below(50).into(), &[ServerId(server)]).expect("a valid input");
                }
                builder.end_task();
            }
            let homes = (0..=draw.below(5)).map(|_| Some(ServerId(draw.below(4)))).collect();
            let work = builder.finish(4, homes).expect("known servers");
            let (exact, quick) = (assign(&work).bound_local_bytes, relaxed(&work, &work.affinity()));
            assert!(quick >= exact, "{seed}: {quick} {exact}");
            n_met += u32::from(quick == exact);
        }
        assert!(n_met > 50, "{n_met}");
    }
}
