//! `hm-lru`: draws three servers and takes the one with few connections that has not been used for long.
//!
//! HM-LRU of paper 003 §4.6, Algorithm 3. A server's weight is its rank by connections plus its rank by time of last
//! use among the three. The least weight wins; ties go to fewer connections, then to the longer rest, then to the
//! lowest id. Equal servers have the same rank. Only servers that have no copy of the block yet are drawn: the listing
//! draws from all, and puts two copies on one server in a fifth of the blocks on 16 servers.

use super::{Place, Turn, draw_other};
use crate::draw::Draw;
use crate::model::MemberId;
use crate::observe::HeatMap;

const N_CANDIDATES: usize = 3;

/// The policy.
#[derive(Debug, Default)]
pub struct HmLru {
    skip: Vec<MemberId>,
    candidates: Vec<MemberId>,
}

impl Place for HmLru {
    fn merges(&self) -> bool {
        false
    }

    fn place(&mut self, turn: &Turn<'_>, draw: &mut dyn Draw) -> MemberId {
        let heat = &turn.servers.heat;
        self.skip.clear();
        self.skip.extend(turn.taken);
        self.skip.sort_unstable();
        self.candidates.clear();
        while self.candidates.len() < N_CANDIDATES {
            let Some(drawn) = draw_other(heat.n_servers(), &mut self.skip, draw) else { break };
            self.candidates.push(drawn);
        }
        coolest(heat, &self.candidates).unwrap_or(turn.default)
    }

    /// The weights.
    fn figures(&self, turn: &Turn<'_>) -> Vec<(MemberId, u128)> {
        let weight = |server| weight(&turn.servers.heat, &self.candidates, server) as u128;
        self.candidates.iter().map(|&server| (server, weight(server))).collect()
    }
}

/// The candidate with the least weight, if there is any; all must be in the map.
pub fn coolest(heat: &HeatMap, candidates: &[MemberId]) -> Option<MemberId> {
    candidates.iter().copied().min_by_key(|&server| {
        let warmth = heat.warmth(server);
        (weight(heat, candidates, server), warmth.connections, warmth.last_used_ns, server)
    })
}

/// The sum of a candidate's ranks by connections and by time of last use. Ranks start at 1.
pub fn weight(heat: &HeatMap, candidates: &[MemberId], server: MemberId) -> usize {
    let rank = |of: &dyn Fn(MemberId) -> u64| {
        // A rank counts the distinct smaller values, each at its first occurrence.
        let is_first = |k: usize| candidates[..k].iter().all(|&before| of(before) != of(candidates[k]));
        1 + (0..candidates.len()).filter(|&k| of(candidates[k]) < of(server) && is_first(k)).count()
    };
    rank(&|server| heat.warmth(server).connections) + rank(&|server| heat.warmth(server).last_used_ns)
}
