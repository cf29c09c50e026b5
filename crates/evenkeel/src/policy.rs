//! The table of policies: help texts, errors and the command line read it.

use crate::bound::Bound;
use crate::draw::Draw;
use crate::model::{Batch, Choice, Cluster};
use crate::select::{self, Goal};

/// Chooses replicas; gives the proof too, if it has one.
pub type SelectFn = fn(&Batch, &Cluster, Goal, &mut dyn Draw) -> (Choice, Option<Bound>);

/// A policy that chooses replicas.
#[derive(Clone, Copy)]
pub struct Policy {
    /// The name it is asked for by.
    pub name: &'static str,
    /// Another name for it.
    pub alias: Option<&'static str>,
    /// Where it comes from.
    pub source: &'static str,
    /// What it does, in a line.
    pub summary: &'static str,
    /// The policy itself.
    pub select: SelectFn,
}

impl std::fmt::Debug for Policy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Policy").field("name", &self.name).finish_non_exhaustive()
    }
}

/// All policies that choose replicas.
pub static SELECTIONS: [Policy; 3] = [
    Policy {
        name: "optimal",
        alias: Some("ap"),
        source: "AP of Wu and Liu, paper 000 §1",
        summary: "the choice that no other beats, with its proof; splits requests where that helps",
        select: |batch, cluster, goal, _| {
            let (choice, bound) = select::optimal::select(batch, cluster, goal);
            (choice, Some(bound))
        },
    },
    Policy {
        name: "first",
        alias: None,
        source: "common practice",
        summary: "the first copy listed",
        select: |batch, _, _, _| (select::first::select(batch), None),
    },
    Policy {
        name: "random",
        alias: None,
        source: "Random of paper 000 §4, RIORS of paper 001",
        summary: "a copy drawn uniformly for each request",
        select: |batch, _, _, draw| (select::random::select(batch, draw), None),
    },
];

/// The orders. As the name of a policy each means `optimal` with that order.
pub static ORDERS: [(&str, &str); 1] = [(
    "colour",
    "the shortest order (with backlogs or different speeds: nearly), by edge colouring (paper 000 §2.1) or open shop",
)];

/// The policy of that name.
pub fn find(name: &str) -> Option<&'static Policy> {
    let name = if ORDERS.iter().any(|&(order, _)| order == name) { "optimal" } else { name };
    SELECTIONS.iter().find(|p| p.name == name || p.alias == Some(name))
}
