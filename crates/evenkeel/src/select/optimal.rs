//! `optimal` (also `ap`): the replica choice that no other beats, with the proof.
//!
//! Paper 000 §1 names augmenting paths for the least maximum degree and gives no listing. Here: greedy,
//! Newton steps on the load level, blocking flow between servers (`graph::level`). Two deviations from the paper.
//! Replicas are chosen per request, not per datum: if all readers of a datum had to share a copy, the
//! problem would be NP-hard and augmenting paths would not solve it. And the length of a schedule is the larger of
//! the server and the client degree, so with [`Goal::Length`] the loads only have to go down to the latter.

use super::Goal;
use crate::bound::{Bound, Proof, busiest_client};
use crate::graph::level::{Aim, Items, Placed, level};
use crate::model::{Batch, Choice, Part, ServerId};

/// The optimal choice for `goal`, and the proof that it is.
///
/// The bound is on the schedule's length with [`Goal::Length`], else on the largest server load. It is always
/// reached. Requests are split between replicas, at block boundaries, where that helps.
pub fn select(batch: &Batch, goal: Goal) -> (Choice, Bound) {
    let items = Items {
        replicas: batch.replicas(),
        sizes: batch.sizes(),
        total: batch.total_blocks(),
        n_servers: batch.n_servers(),
    };
    let busiest = if goal == Goal::Length { busiest_client(batch) } else { None };
    let aim = match goal {
        Goal::Length | Goal::MaxLoad => Aim::MaxDownTo(busiest.map_or(0, |(_, blocks)| blocks)),
        Goal::Mean => Aim::AllNorms,
    };
    let levelled = level(items, aim);
    let proof = match (levelled.proof, busiest) {
        (Some(servers), _) => Proof::Servers(servers),
        (None, Some((client, _))) => Proof::Client(client),
        (None, None) => Proof::Servers(Vec::new()),
    };
    (to_choice(batch, levelled.placed), Bound { value: levelled.level, proof })
}

/// The lower bound on the length of any schedule, with its proof.
pub fn length_bound(batch: &Batch) -> Bound {
    select(batch, Goal::Length).1
}

fn to_choice(batch: &Batch, placed: Placed) -> Choice {
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
