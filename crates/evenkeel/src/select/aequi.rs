//! `aequi`: the backlog of each server counts; every server is filled up to the common average.
//!
//! AEQUI of paper 001 §3.2, whose listing cannot be used. It leaves an overloaded server with less than the average (a
//! sign error), counts withdrawn requests twice, gives servers their total as if all of it were new, and finds what was
//! withdrawn only after the servers that could have taken it were filled. The intent is: first, take requests back from
//! servers that exceed the average by more than 1. (1 stays, so that a balanced system never moves work; what is in
//! service, or has no other replica, stays as well.) Then fill the others, then give what is left to its least loaded
//! replicas. The first step is [`overload`], the others are [`fill`]; [`Replanned`](super::replanned::Replanned)
//! combines them at each scheduling point.

use crate::graph::sets::holdings::Holdings;
use crate::model::{Batch, Choice, Cluster, ServerId};

/// Gives pending requests to servers that have less than the average, oldest first.
pub fn fill(batch: &Batch, cluster: &Cluster) -> Choice {
    let mut loads: Vec<u128> = cluster.servers().iter().map(|server| server.backlog.into()).collect();
    let average = average(loads.iter().copied(), batch.total_blocks());
    let holdings = Holdings::new(batch.replicas(), batch.n_servers());
    let mut chosen: Vec<Option<ServerId>> = vec![None; batch.n_requests()];
    let mut by_load: Vec<u32> = (0..batch.n_servers() as u32).collect();
    by_load.sort_unstable_by_key(|&server| (loads[server as usize], server));
    for server in by_load.into_iter().map(ServerId) {
        let load = &mut loads[server.index()];
        for &request in holdings.of(server) {
            if chosen[request as usize].is_some() {
                continue;
            }
            let blocks = u128::from(batch.blocks(request as usize));
            if *load + blocks > average {
                break;
            }
            chosen[request as usize] = Some(server);
            *load += blocks;
        }
    }
    let servers = chosen.into_iter().zip(batch.replicas().iter()).enumerate().map(|(i, (chosen, set))| {
        chosen.unwrap_or_else(|| {
            let least = set.iter().copied().min_by_key(|s| (loads[s.index()], *s)).unwrap_or(set[0]);
            loads[least.index()] += u128::from(batch.blocks(i));
            least
        })
    });
    Choice::whole(servers.collect())
}

/// The share of each server if all blocks were spread evenly, rounded up.
fn average(loads: impl ExactSizeIterator<Item = u128>, pending: u64) -> u128 {
    let n_servers = loads.len().max(1) as u128;
    (loads.sum::<u128>() + u128::from(pending)).div_ceil(n_servers)
}

/// The servers that exceed the average by more than one block, and by how much, given the blocks at each server
/// (waiting or in service) and the pending blocks. All servers count, even those that could serve none of these blocks.
pub fn overload(waiting: &[u128], pending: u64) -> impl Iterator<Item = (ServerId, u128)> + '_ {
    let most = average(waiting.iter().copied(), pending) + 1;
    let servers = (0..).zip(waiting).map(move |(server, load)| (ServerId(server), load.saturating_sub(most)));
    servers.filter(|&(_, excess)| excess > 0)
}
