//! `optimal` (also `ap`): the replica choice that no other beats, with proof.
//!
//! Paper 000 §1 names augmenting paths for the minimal maximum degree and gives no listing. This implementation uses a
//! greedy start, Newton steps on the load level, and blocking flow between servers (`graph::flow::level`). Deviations
//! from the paper: replicas are chosen per request, not per datum. If all readers of a datum had to share a copy, the
//! problem would be NP-hard and augmenting paths would not solve it. The length of a schedule is the larger of the
//! server and the client degree, so with [`Goal::Length`] the loads only have to go down to the latter. And servers may
//! have their own speeds, slots and backlogs, which are not in the paper.

use super::Goal;
use super::ease::{ease, fastest};
use crate::bound::{Bound, Proof, beside_servers};
use crate::graph::flow::level::{Aim, Items, Levelled, Placed, level, relevel};
use crate::graph::flow::pace::{Level, Paces, time};
use crate::model::{Batch, Choice, Cluster, Part, ServerId};

/// The optimal choice for `goal`, with proof of optimality.
///
/// The bound is on the schedule's length with [`Goal::Length`], otherwise on the time at which the last server is done.
/// A length bound is reached if servers have one speed and no backlog. With [`Goal::MaxLoad`] the bound is always
/// reached. With [`Goal::Mean`] it is reached if all speeds are 1 or no server has several slots. Requests are split
/// between replicas, at block boundaries, where that helps.
pub fn select(batch: &Batch, cluster: &Cluster, goal: Goal) -> (Choice, Bound) {
    if goal == Goal::Mean && !are_alike(cluster) {
        // The mean is over blocks that slots serve one after another, even where slots could share them.
        let paces = Paces::in_slots(cluster);
        let placed = level(items(batch, &paces), Aim::AllNorms).placed;
        return (to_choice(batch, placed), bound(batch, cluster, Goal::MaxLoad));
    }
    let paces = Paces::new(cluster);
    let beside = beside(batch, cluster, goal);
    let for_clients = goal == Goal::Length && !cluster.is_even();
    if for_clients
        && let Some((level, proof)) = &beside
        && let Some(choice) = fastest(batch, cluster, &paces, *level)
    {
        return (choice, Bound { value: time(*level), proof: proof.clone() });
    }
    let Levelled { placed, level, proof: servers } = level(items(batch, &paces), aim(goal, beside.as_ref()));
    let proof = proof(servers, beside);
    let choice = match for_clients {
        true => ease(batch, cluster, &paces, level, placed),
        false => to_choice(batch, placed),
    };
    (choice, Bound { value: time(level), proof })
}

/// Improves a choice in which each request already has a server, so that the last server is done as early as possible.
/// Requests keep their server where possible.
pub fn improve(batch: &Batch, cluster: &Cluster, servers: Vec<ServerId>) -> Choice {
    let paces = Paces::new(cluster);
    to_choice(batch, relevel(items(batch, &paces), aim(Goal::MaxLoad, None), servers).placed)
}

/// The bound alone, with its proof.
pub fn bound(batch: &Batch, cluster: &Cluster, goal: Goal) -> Bound {
    let (level, proof) = bound_level(batch, cluster, goal);
    Bound { value: time(level), proof }
}

/// The same bound as a level.
pub(crate) fn bound_level(batch: &Batch, cluster: &Cluster, goal: Goal) -> (Level, Proof) {
    let paces = Paces::new(cluster);
    let beside = beside(batch, cluster, goal);
    let levelled = level(items(batch, &paces), aim(goal, beside.as_ref()));
    (levelled.level, proof(levelled.proof, beside))
}

/// Whether it makes no difference if slots serve whole blocks or share them.
fn are_alike(cluster: &Cluster) -> bool {
    cluster.is_slotted() || cluster.servers().iter().all(|server| server.slots == 1)
}

/// What bounds the goal whatever servers serve.
fn beside(batch: &Batch, cluster: &Cluster, goal: Goal) -> Option<(Level, Proof)> {
    if goal == Goal::Length { beside_servers(batch, cluster) } else { None }
}

fn aim(goal: Goal, beside: Option<&(Level, Proof)>) -> Aim {
    match goal {
        Goal::Length | Goal::MaxLoad => Aim::MaxDownTo(beside.map_or(Level::ZERO, |(level, _)| *level)),
        Goal::Mean => Aim::AllNorms,
    }
}

fn proof(servers: Option<Vec<ServerId>>, beside: Option<(Level, Proof)>) -> Proof {
    match (servers, beside) {
        (Some(mut servers), _) => {
            servers.sort_unstable();
            Proof::Servers(servers)
        }
        (None, Some((_, proof))) => proof,
        (None, None) => Proof::Servers(Vec::new()),
    }
}

/// The requests as items to be placed.
pub(crate) fn items<'a>(batch: &'a Batch, paces: &'a Paces) -> Items<'a> {
    Items { replicas: batch.replicas(), sizes: batch.sizes(), total: batch.total_blocks(), paces }
}

/// Converts a placement of items to a choice of replicas.
pub(crate) fn to_choice(batch: &Batch, placed: Placed) -> Choice {
    let shares = match placed {
        Placed::Whole(servers) => return Choice { servers, split_off: Vec::new() },
        Placed::Divided(shares) => shares,
    };
    let replicas = batch.replicas();
    let mut choice = Choice { servers: Vec::with_capacity(replicas.len()), split_off: Vec::new() };
    for (i, set) in replicas.iter().enumerate() {
        let shares = &shares[replicas.start(i)..][..set.len()];
        let mut served = set.iter().zip(shares).filter(|&(_, &blocks)| blocks > 0);
        let first: ServerId = served.next().map_or(set[0], |(&server, _)| server);
        choice.servers.push(first);
        choice.split_off.extend(served.map(|(&server, &blocks)| Part { request: i as u32, server, blocks }));
    }
    choice
}
