//! `mlml`: the longest write goes to the least loaded server, the second longest to the next, and so on in turn.
//!
//! Max Length – Min Load of paper 004 §3.4.1. The listing takes the target from the list of writes and the default from
//! the unsorted one, returns from within its loop, and redirects where that is *not* worth it; we follow the text.
//! Servers are sorted by load, not by probability, unless requested ([`SortKey`](crate::observe::SortKey)). If sorted
//! again for each step, the policy is greedy: it always takes the least loaded. Copies take turns like writes.

use super::ranking::Ranking;
use super::{Options, Place, Servers, Step, Turn, longest_first};
use crate::draw::Draw;
use crate::model::MemberId;

/// The policy.
#[derive(Debug)]
pub struct Mlml {
    ranking: Ranking,
}

impl Mlml {
    /// A policy for `n_servers` servers.
    pub fn new(n_servers: u32) -> Self {
        Self { ranking: Ranking::new(n_servers) }
    }

    /// The free servers in the order of the ranking, beginning with the one whose turn it is.
    fn in_turn(&self, turn: &Turn<'_>) -> impl Iterator<Item = MemberId> {
        let order = self.ranking.order();
        let turns = turn.place * turn.options.n_replicas as usize + turn.copy as usize;
        let first = if turn.options.resort { 0 } else { turns % order.len() };
        order[first..].iter().chain(&order[..first]).copied().filter(|&server| turn.is_free(server))
    }
}

impl Place for Mlml {
    fn open(&mut self, steps: &mut [Step], servers: &Servers, options: &Options) {
        longest_first(steps);
        self.ranking.sort(servers, options);
    }

    fn place(&mut self, turn: &Turn<'_>, _: &mut dyn Draw) -> MemberId {
        self.ranking.refresh(turn.servers, turn.options);
        let target = self.in_turn(turn).next();
        self.ranking.choose(target.map_or(turn.default, |target| turn.worth(target)))
    }

    /// The turns that servers have to wait.
    fn figures(&self, turn: &Turn<'_>) -> Vec<(MemberId, u128)> {
        self.in_turn(turn).zip(0..).collect()
    }
}
