//! Servers in the order of the server log.

use std::ops::Range;

use super::{Options, Servers};
use crate::model::MemberId;
use crate::observe::SortKey;

/// All servers, the best first. Stays the same for a window, or is sorted again for each step.
#[derive(Debug)]
pub(super) struct Ranking {
    order: Vec<MemberId>,
    /// The position of each server.
    rank: Vec<u32>,
    /// The server chosen since the last sort, whose load has therefore grown.
    chosen: Option<MemberId>,
}

impl Ranking {
    pub(super) fn new(n_servers: u32) -> Self {
        Self { order: (0..n_servers).map(MemberId).collect(), rank: (0..n_servers).collect(), chosen: None }
    }

    /// Sorts all servers at the start of a window.
    pub(super) fn sort(&mut self, servers: &Servers, options: &Options) {
        servers.log.sort(&mut self.order, options.sort_key);
        self.chosen = None;
        self.number(0..self.order.len());
    }

    /// Sorts again, if that was requested.
    pub(super) fn refresh(&mut self, servers: &Servers, options: &Options) {
        match (options.sort_key, self.chosen.take()) {
            (SortKey::Load, Some(chosen)) if options.resort => {
                // Only this server has moved, and only towards the back.
                let key = |server: MemberId| (servers.log.load(server), server);
                let from = self.rank[chosen.index()] as usize;
                let n_lighter = self.order[from + 1..].partition_point(|&other| key(other) < key(chosen));
                self.order[from..=from + n_lighter].rotate_left(1);
                self.number(from..from + n_lighter + 1);
            }
            (SortKey::Probability, Some(_)) if options.resort => self.sort(servers, options),
            _ => {}
        }
    }

    /// All servers in order.
    pub(super) fn order(&self) -> &[MemberId] {
        &self.order
    }

    /// The position of a server.
    pub(super) fn rank(&self, server: MemberId) -> usize {
        self.rank[server.index()] as usize
    }

    /// Records that a server was chosen.
    pub(super) fn choose(&mut self, server: MemberId) -> MemberId {
        self.chosen = Some(server);
        server
    }

    fn number(&mut self, places: Range<usize>) {
        for place in places {
            self.rank[self.order[place].index()] = place as u32;
        }
    }
}
