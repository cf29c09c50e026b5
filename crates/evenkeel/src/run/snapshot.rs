//! The unstarted work as a batch of its own, which can be planned on any thread, and the plan made from it.

use super::lists::Entry;
use crate::model::{Batch, Choice, Cluster, Part, Ratio, ServerId};
use crate::select::optimal;

/// All unstarted work, to be planned again. Its cluster and batch have the executor's clients and servers.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The number of the plan that this is for.
    pub(super) number: u32,
    pub(super) taken_ns: u64,
    /// The unstarted work: one row for each piece.
    pub(super) batch: Batch,
    /// The servers with their learnt speeds, and the work in flight as their backlog.
    pub(super) cluster: Cluster,
    /// The server that each row waits at now.
    pub(super) present: Vec<ServerId>,
    /// The piece of each row.
    pub(super) waiting: Vec<Entry>,
}

/// A plan of a [`Snapshot`]: which pieces to move where.
#[derive(Clone, Debug)]
pub struct NewPlan {
    pub(super) number: u32,
    pub(super) taken_ns: u64,
    /// When the last server is done if everything stays where it waits, and by this plan.
    pub(super) present_end: Ratio,
    pub(super) new_end: Ratio,
    /// The pieces to move, each with its parts in order. Empty if the plan is not better.
    pub(super) moves: Vec<(Entry, Part)>,
}

impl Snapshot {
    /// Chooses servers so that the last one is done as early as possible. A piece that need not move stays where it
    /// waits. All that takes long is done here, not when the executor adopts the plan.
    pub fn plan(self) -> NewPlan {
        let Self { number, taken_ns, batch, cluster, present, waiting } = self;
        let choice = optimal::improve(&batch, &cluster, present.clone());
        let present = Choice::whole(present);
        let (present_end, new_end) =
            (present.last_done(&batch, &cluster), choice.last_done(&batch, &cluster));
        let mut moves = Vec::new();
        if new_end < present_end {
            let parts: Vec<Part> = choice.parts(&batch).collect();
            for parts in parts.chunk_by(|a, b| a.request == b.request) {
                let row = parts[0].request as usize;
                if parts.len() > 1 || parts[0].server != present.servers[row] {
                    moves.extend(parts.iter().map(|&part| (waiting[row], part)));
                }
            }
        }
        NewPlan { number, taken_ns, present_end, new_end, moves }
    }
}
