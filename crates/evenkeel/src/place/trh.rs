//! `trh`: draws two servers from the less loaded half, and takes the lighter of them.
//!
//! Two Random from Top Half of paper 004 §3.4.2, following its text: the listing draws from all servers, may draw the
//! same one twice, and redirects where that is *not* worth it. The half is rounded down, but has at least one server.
//! If all servers in it have a copy already, the next server in the order is taken.

use super::ranking::Ranking;
use super::{Drawn, Options, Place, Servers, Step, Turn};
use crate::draw::Draw;
use crate::model::MemberId;

/// The policy.
#[derive(Debug)]
pub struct Trh {
    ranking: Ranking,
    drawn: Drawn,
}

impl Trh {
    /// A policy for `n_servers` servers.
    pub fn new(n_servers: u32) -> Self {
        Self { ranking: Ranking::new(n_servers), drawn: Drawn::new() }
    }
}

impl Place for Trh {
    fn open(&mut self, _: &mut [Step], servers: &Servers, options: &Options) {
        self.ranking.sort(servers, options);
    }

    fn place(&mut self, turn: &Turn<'_>, draw: &mut dyn Draw) -> MemberId {
        self.ranking.refresh(turn.servers, turn.options);
        let top_half = 0..(self.ranking.order().len() / 2).max(1);
        self.drawn = turn.draw_two(&self.ranking, top_half, draw);
        let target = turn.lightest(&self.drawn);
        self.ranking.choose(target.map_or(turn.default, |target| turn.worth(target)))
    }

    fn figures(&self, turn: &Turn<'_>) -> Vec<(MemberId, u128)> {
        turn.loads_of(&self.drawn)
    }
}
