//! `two-choice`: the default server and another one drawn are asked for their loads, and the lighter gets the write.
//!
//! The authors' earlier scheduler, paper 004 §2.2, which the log is to replace: it needs two probes, four messages, for each
//! write. Equal loads: the default. There is no threshold. Where there is no other server, none is asked. Sharing what
//! others have probed, and servers that count what they expect to be sent, are left out.

use super::{Place, Turn, draw_other};
use crate::draw::Draw;
use crate::model::ServerId;

/// The policy.
#[derive(Debug, Default)]
pub struct TwoChoice {
    n_probes: u64,
    skip: Vec<ServerId>,
}

impl Place for TwoChoice {
    fn merges(&self) -> bool {
        false
    }

    fn place(&mut self, turn: &Turn<'_>, draw: &mut dyn Draw) -> ServerId {
        let log = &turn.servers.log;
        self.skip.clear();
        self.skip.extend(turn.taken.iter().chain([&turn.default]));
        self.skip.sort_unstable();
        let Some(other) = draw_other(log.loads().len(), &mut self.skip, draw) else { return turn.default };
        self.n_probes += 2;
        if log.load(other) < log.load(turn.default) { other } else { turn.default }
    }

    fn n_probes(&self) -> u64 {
        self.n_probes
    }
}
