//! `hdfs-random`: distinct servers drawn uniformly for each write.
//!
//! HDFS's default where clients are outside the cluster and racks are unknown; paper 003 §4.6 improves on it.

use super::{Place, Turn, draw_other};
use crate::draw::Draw;
use crate::model::MemberId;

/// The policy.
#[derive(Debug, Default)]
pub struct HdfsRandom {
    skip: Vec<MemberId>,
}

impl Place for HdfsRandom {
    fn merges(&self) -> bool {
        false
    }

    fn place(&mut self, turn: &Turn<'_>, draw: &mut dyn Draw) -> MemberId {
        self.skip.clear();
        self.skip.extend(turn.taken);
        self.skip.sort_unstable();
        draw_other(turn.servers.heat.n_servers(), &mut self.skip, draw).unwrap_or(turn.default)
    }
}
