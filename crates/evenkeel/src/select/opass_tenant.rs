//! `opass-tenant`: the nearest copies while servers are about equally busy, otherwise counts that level them.
//!
//! Paper 003 §4.5. If servers that serve the nearest requests differ in load, including backlog, by more than a
//! threshold, each server gets a count of requests that fills the least loaded first (Algorithm 2), and a flow finds
//! requests for the counts. The paper does not say what the data being served are before anything is served; here they
//! are the loads that the nearest copies would cause.
//!
//! Deviations. Algorithm 2 hands out whole deficits in order of ids without checking how much is left, so it gives away
//! more than there is, and it leaves counts undefined. [`counts`] gives one request at a time to the server that has
//! the least. Counts do not know which request is where, so the flow may fall short. In that case, and for requests of
//! different sizes or servers of different speeds, the choice is the [`optimal`] one given the backlogs, without
//! splitting requests.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::{Goal, nearest, optimal, whole};
use crate::draw::Ties;
use crate::graph::flow::capped::Capped;
use crate::graph::sets::holdings::Holdings;
use crate::model::{Batch, Choice, Cluster, Server, ServerId, Speed};

/// The default threshold: a difference of one block is unavoidable if blocks do not divide evenly among servers.
pub const IMBALANCE_BLOCKS: u64 = 1;

/// Serves each request from the nearest replica, unless servers would differ by more than `imbalance_blocks`.
pub fn select(batch: &Batch, cluster: &Cluster, ties: Ties, imbalance_blocks: u64) -> Choice {
    let nearest = nearest::select(batch, cluster, ties);
    let backlogs = cluster.servers().iter().map(|server| u128::from(server.backlog));
    let loads =
        nearest.loads(batch).into_iter().zip(backlogs).map(|(load, backlog)| u128::from(load) + backlog);
    let (least, most) = loads.fold((u128::MAX, 0), |(least, most), load| (load.min(least), load.max(most)));
    if most.saturating_sub(least) <= imbalance_blocks.into() { nearest } else { balanced(batch, cluster) }
}

/// Chooses by counts and a flow, or takes the optimal choice.
fn balanced(batch: &Batch, cluster: &Cluster) -> Choice {
    let is_plain = |server: &Server| server.speed == Speed::ONE && server.slots == 1;
    if batch.sizes().is_none()
        && cluster.servers().iter().all(is_plain)
        && let Some(choice) = by_counts(batch, cluster)
    {
        return choice;
    }
    let (choice, _) = optimal::select(batch, cluster, Goal::MaxLoad);
    whole::unsplit(batch, cluster, choice)
}

/// The choice that gives each server its count, if there is one.
pub fn by_counts(batch: &Batch, cluster: &Cluster) -> Option<Choice> {
    let holdings = Holdings::new(batch.replicas(), batch.n_servers());
    let backlogs: Vec<u64> = cluster.servers().iter().map(|server| server.backlog).collect();
    let held: Vec<u64> =
        (0..batch.n_servers() as u32).map(|server| holdings.of(ServerId(server)).len() as u64).collect();
    let room = counts(batch.n_requests() as u64, &backlogs, &held);
    let mut flow = Capped::new(batch.replicas(), |_| 1, room);
    flow.fit(u64::MAX);
    flow.servers().collect::<Option<Vec<ServerId>>>().map(Choice::whole)
}

/// How many of `n_requests` each server is to serve, given its backlog and how many requests it holds. Requests go one
/// by one to the least loaded server that holds more; ties go to the first.
pub fn counts(n_requests: u64, backlogs: &[u64], held: &[u64]) -> Vec<u64> {
    let mut counts = vec![0; backlogs.len()];
    let servers = backlogs.iter().zip(held).enumerate().filter(|(_, (_, held))| **held > 0);
    let mut heap: BinaryHeap<Reverse<(u64, usize)>> =
        servers.map(|(server, (backlog, _))| Reverse((*backlog, server))).collect();
    for _ in 0..n_requests {
        let Some(Reverse((load, server))) = heap.pop() else { break };
        counts[server] += 1;
        if counts[server] < held[server] {
            heap.push(Reverse((load.saturating_add(1), server)));
        }
    }
    counts
}
