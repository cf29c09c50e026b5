//! `hm-lru`: three servers drawn, and of these the one with few connections that was not used for long.
//!
//! HM-LRU of paper 003 §4.6, Algorithm 3. A server's weight is its rank by connections plus its rank by time of last use
//! among the three; the least weight wins, then fewer connections, then the longer rest, then the lowest id. Equal
//! servers have the same rank. Drawn are only servers that have no copy of the block yet: the listing draws from all, and
//! puts two copies on one server in a fifth of the blocks on 16 servers.

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
}

/// The candidate of least weight, if there is any; all must be in the map.
pub fn coolest(heat: &HeatMap, candidates: &[MemberId]) -> Option<MemberId> {
    candidates.iter().copied().min_by_key(|&server| {
        let warmth = heat.warmth(server);
        (weight(heat, candidates, server), warmth.connections, warmth.last_used_ns, server)
    })
}

/// The ranks of a candidate by connections and by time of last use, from 1 on, added up.
pub fn weight(heat: &HeatMap, candidates: &[MemberId], server: MemberId) -> usize {
    let rank = |of: &dyn Fn(MemberId) -> u64| {
        // A rank counts the different values below, each where it stands first.
        let is_first = |k: usize| candidates[..k].iter().all(|&before| of(before) != of(candidates[k]));
        1 + (0..candidates.len()).filter(|&k| of(candidates[k]) < of(server) && is_first(k)).count()
    };
    rank(&|server| heat.warmth(server).connections) + rank(&|server| heat.warmth(server).last_used_ns)
}
