//! Rounding: each split request goes to one of the servers that have a share of it.
//!
//! Requests and the servers that have shares of them form a graph. Where it has a cycle, shares are shifted around it:
//! they alternately fall and rise, so that the totals of servers and requests do not change, until one share is gone. A
//! forest remains. There each server has at most one parent, so if every request goes to one of its children, no server
//! gets two. A request without children has become whole at its parent.

use std::iter::successors;

use crate::model::{Batch, Choice, ServerId};

/// Makes every request whole. The load of each server grows by less than the largest request.
pub(super) fn round(batch: &Batch, choice: &mut Choice) {
    let n_servers = batch.n_servers();
    let mut forest = Forest { parent: vec![NONE; n_servers], share: vec![0; n_servers] };
    let mut requests = Vec::new();
    for parts in choice.split_off.chunk_by(|a, b| a.request == b.request) {
        let request = parts[0].request as usize;
        let rest = batch.blocks(request) - parts.iter().map(|part| part.blocks).sum::<u64>();
        let root = forest.add_root();
        forest.add_share(root, choice.servers[request].0, rest);
        parts.iter().for_each(|part| forest.add_share(root, part.server.0, part.blocks));
        requests.push(request);
    }
    choice.split_off.clear();

    // The child with the largest share, since it gains the least.
    let mut takers = forest.parent.split_off(n_servers);
    let mut largest = vec![0; requests.len()];
    for (server, (parent, share)) in (0..).zip(forest.parent.into_iter().zip(forest.share)) {
        let i = (parent as usize).wrapping_sub(n_servers);
        if parent != NONE && share > largest[i] {
            (takers[i], largest[i]) = (server, share);
        }
    }
    for (request, taker) in requests.into_iter().zip(takers) {
        choice.servers[request] = ServerId(taker);
    }
}

const NONE: u32 = u32::MAX;

/// Trees in which servers and requests alternate. Servers are the first nodes, split requests the others.
#[derive(Debug)]
struct Forest {
    parent: Vec<u32>,
    /// The share of the request at the server, for the edge between the node and its parent.
    share: Vec<u64>,
}

impl Forest {
    /// Adds a request without shares.
    fn add_root(&mut self) -> u32 {
        self.parent.push(NONE);
        self.share.push(0);
        self.parent.len() as u32 - 1
    }

    /// Gives `server` a share of a request that is a root, and stays one.
    fn add_share(&mut self, request: u32, server: u32, mut share: u64) {
        let parent = |&node: &u32| Some(self.parent[node as usize]).filter(|&parent| parent != NONE);
        let mut path: Vec<u32> = successors(Some(server), parent).collect();
        // If it is the same tree, the path up and the new edge form a cycle.
        if path.pop_if(|root| *root == request).is_some() {
            let every_other = |first: usize| path[first..].iter().step_by(2);
            let least = |first: usize| every_other(first).map(|&node| self.share[node as usize]).min();
            // The shares at both ends of the path change in the opposite direction to the new one.
            let against = least(0).unwrap_or(u64::MAX);
            let along = least(1).unwrap_or(u64::MAX).min(share);
            let amount = along.min(against);
            let mut falls = against == amount;
            for node in path.iter().map(|&node| node as usize) {
                shift(&mut self.share[node], amount, falls);
                if self.share[node] == 0 {
                    self.parent[node] = NONE;
                }
                falls = !falls;
            }
            shift(&mut share, amount, falls);
        }
        if share > 0 {
            self.make_root(server);
            self.parent[server as usize] = request;
            self.share[server as usize] = share;
        }
    }

    /// Reverses the path from a node up to its root.
    fn make_root(&mut self, node: u32) {
        let (mut at, mut below, mut share) = (node, NONE, 0);
        while at != NONE {
            let above = std::mem::replace(&mut self.parent[at as usize], below);
            share = std::mem::replace(&mut self.share[at as usize], share);
            (below, at) = (at, above);
        }
    }
}

fn shift(share: &mut u64, amount: u64, falls: bool) {
    *share = if falls { *share - amount } else { *share + amount };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::{Draw, Seeded};
    use crate::model::{BatchBuilder, Part};

    /// A batch, and a choice that splits it at random, with many cycles.
    fn drawn(draw: &mut Seeded) -> (Batch, Choice) {
        let mut batch = BatchBuilder::new();
        let names: Vec<String> = (0..2 + draw.below(8)).map(|s| format!("s{s}")).collect();
        for _ in 0..=draw.below(30) {
            let others = names[1..].iter().filter(|_| draw.below(2) > 0);
            let set: Vec<&str> = others.chain(&names[..1]).map(String::as_str).collect();
            batch.request("c", draw.below(40).into(), &set).expect("valid");
        }
        let batch = batch.finish();
        let mut choice = Choice::default();
        for (request, set) in (0..).zip(batch.replicas().iter()) {
            choice.servers.push(set[0]);
            let mut left = batch.blocks(request as usize);
            for &server in &set[1..] {
                let blocks = draw.below(8).into();
                if blocks > 0 && blocks < left {
                    choice.split_off.push(Part { request, server, blocks });
                    left -= blocks;
                }
            }
        }
        (batch, choice)
    }

    #[test]
    fn no_server_gets_as_much_as_the_largest_request_more() {
        let mut draw = Seeded::new(1);
        for _ in 0..3000 {
            let (batch, split) = drawn(&mut draw);
            let mut whole = split.clone();
            round(&batch, &mut whole);
            assert!(whole.split_off.is_empty());
            for (request, &server) in (0..).zip(&whole.servers) {
                assert!(split.parts(&batch).any(|part| part.request == request && part.server == server));
            }
            let largest = (0..batch.n_requests()).map(|i| batch.blocks(i)).max().unwrap_or(0);
            for (before, after) in split.loads(&batch).into_iter().zip(whole.loads(&batch)) {
                assert!(after <= before + largest.saturating_sub(1));
            }
        }
    }
}
