//! Servers in the order of the server log.

use std::ops::Range;

use super::{Options, Servers};
use crate::model::MemberId;
use crate::observe::SortKey;

/// All servers, the best first. Stays as it is for a window, or is sorted again for each step.
#[derive(Debug)]
pub(super) struct Ranking {
    order: Vec<MemberId>,
    /// Where each server stands.
    rank: Vec<u32>,
    /// Chosen since servers were sorted, so its load has grown.
    chosen: Option<MemberId>,
}

impl Ranking {
    pub(super) fn new(n_servers: u32) -> Self {
        Self { order: (0..n_servers).map(MemberId).collect(), rank: (0..n_servers).collect(), chosen: None }
    }

    /// A window begins.
    pub(super) fn sort(&mut self, servers: &Servers, options: &Options) {
        servers.log.sort(&mut self.order, options.sort_key);
        self.chosen = None;
        self.number(0..self.order.len());
    }

    /// Sorts again, if that was asked for.
    pub(super) fn refresh(&mut self, servers: &Servers, options: &Options) {
        match (options.sort_key, self.chosen.take()) {
            (SortKey::Load, Some(chosen)) if options.resort => {
                // It alone has moved, and only to the back.
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

    /// Where a server stands.
    pub(super) fn rank(&self, server: MemberId) -> usize {
        self.rank[server.index()] as usize
    }

    /// Notes who was chosen.
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
