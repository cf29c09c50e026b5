//! The configurable behaviour of the executor and the centre.

use evenkeel::model::Batch;
use evenkeel::run::{Decide, Late, Pick, Settings};

use super::{Trouble, View};

/// How policies are carried out.
#[derive(Clone, Copy, Debug)]
pub struct Conduct {
    /// When online policies pick a server. None: when one is free if all requests are present from the start, otherwise
    /// on arrival.
    pub decide: Option<Decide>,
    /// When `hedged` starts a second copy.
    pub hedge_after: Late,
    /// Share of all blocks that hedges may move a second time.
    pub hedge_budget: f64,
    /// Whether unstarted work is planned again.
    pub replans: bool,
    /// By which share the predicted end of a plan must be late before work is planned again.
    pub replan_after: f64,
    /// Faults other than those of servers.
    pub trouble: Trouble,
}

impl Default for Conduct {
    fn default() -> Self {
        let replan_after = Settings::default().replan_after.unwrap_or(0.0);
        let trouble = Trouble::default();
        Self {
            decide: None,
            hedge_after: Late::P95,
            hedge_budget: 0.05,
            replans: true,
            replan_after,
            trouble,
        }
    }
}

impl Conduct {
    /// Settings for plans.
    pub(super) fn planned(&self, view: &View, seed: u64) -> Settings {
        let replan_after = self.replans.then_some(self.replan_after);
        Settings { block_ns: view.block_ns, seed, replan_after, ..Settings::default() }
    }

    /// Settings for policies that pick a server for one request after the other.
    pub(super) fn online(&self, pick: Pick, is_over_time: bool, view: &View, seed: u64) -> Settings {
        let usual = if is_over_time { Decide::OnArrival } else { Decide::WhenFree };
        let decide = self.decide.unwrap_or(usual);
        Settings { block_ns: view.block_ns, seed, decide, ..Settings::online(pick) }
    }

    /// Settings for `hedged`.
    pub(super) fn hedged(&self, batch: &Batch, is_over_time: bool, view: &View, seed: u64) -> Settings {
        let online = self.online(Pick::TwoChoices, is_over_time, view, seed);
        let hedge_blocks = (batch.total_blocks() as f64 * self.hedge_budget).ceil() as u64;
        Settings { hedge_after: self.hedge_after, hedge_blocks, ..online }
    }
}
