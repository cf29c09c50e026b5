//! When to plan what is unstarted anew, and how.
//!
//! Speeds are those learnt, backlogs what is under way. Only replicas are chosen: off the plan, lists tell just who
//! is first, so an exact order would be lost on them, and pieces are only cut where the choice cuts them. The new
//! choice is taken if its last server is predicted to be done earlier.

use super::Replan;
use super::executor::{End, Executor, ROUNDED_NS, to_ns};
use super::gauge::{Gauge, Nanoblocks, blocks, duration_ns};
use super::lists::{NONE, Piece, State};
use crate::model::{Choice, Cluster, Fixed, Part, Server, ServerId, Speed};

impl Executor<'_> {
    /// Plans anew if a server is predicted to end much later than planned, and has something to give away.
    pub(super) fn watch(&mut self, server: ServerId) {
        let Some(Replan { share, .. }) = self.settings.replan else { return };
        let since_ns = |ns: u64| ns.saturating_sub(self.origin_ns) as f64;
        let end_ns = since_ns(self.now_ns) + self.gauges[server.index()].wait_ns(self.now_ns, 0);
        let grown = 1.0 + share.max(0.0);
        // While all goes as planned the prediction, which does not know the order, is worth less than the plan.
        let is_off_plan = !self.keeps_to_plan || self.gauges[server.index()].is_slower_by(grown);
        let is_later = end_ns > since_ns(self.predicted_ns) * grown + ROUNDED_NS as f64;
        self.wants_replan |= is_later && is_off_plan && self.servers[server.index()].n_queued > 0;
    }

    /// Plans anew if a server is back, unless that has been done a short while ago.
    pub(super) fn one_more_server(&mut self) {
        let Some(Replan { share, .. }) = self.settings.replan else { return };
        let since_ns = |ns: u64| ns.saturating_sub(self.origin_ns) as f64;
        self.wants_replan |= since_ns(self.now_ns) > since_ns(self.planned_at_ns) * (1.0 + share.max(0.0));
    }

    /// Plans all that is unstarted anew.
    pub(super) fn replan(&mut self) {
        self.wants_replan = false;
        let Some(Replan { share, planner }) = self.settings.replan else { return };
        let waiting = |&piece: &u32| self.marks.state(piece) == State::Queued;
        let waiting: Vec<u32> = (0..self.pieces.len() as u32).filter(waiting).collect();
        if waiting.is_empty() {
            return;
        }
        let rows = waiting.iter().map(|&piece| {
            let piece = &self.pieces[piece as usize];
            (piece.request, piece.size().div_ceil(1_000_000_000) as u64)
        });
        let rest = self.batch.rest(rows, |row, server| self.can_serve(waiting[row], server));
        // If times have become too long for the model, no later plan is asked for.
        let before_ns = std::mem::replace(&mut self.predicted_ns, u64::MAX);
        let Some(batch) = rest else { return };
        let clients = self.cluster.clients().to_vec();
        let Ok(cluster) = Cluster::new(&batch, self.servers_now(), clients, None) else { return };
        let choice = planner(&batch, &cluster);
        let present = waiting.iter().map(|&piece| self.pieces[piece as usize].server).collect();
        let present = Choice::whole(present).last_done(&batch, &cluster);
        let new = choice.last_done(&batch, &cluster);
        (self.planned_at_ns, self.n_replans) = (self.now_ns, self.n_replans + 1);
        let new_ns = self.now_ns.saturating_add(to_ns(new.min(present), self.settings.block_ns));
        // Of many servers some always seem slow; each plan takes that for what is usual, and the next needs more
        // reason.
        let since_ns = before_ns.saturating_sub(self.origin_ns);
        let grown_ns = duration_ns(since_ns as f64 * (1.0 + share.max(0.0)));
        self.predicted_ns = new_ns.max(self.origin_ns.saturating_add(grown_ns));
        if new < present {
            self.take_choice(&waiting, &choice.parts(&batch).collect::<Vec<Part>>());
        }
    }

    /// The servers as they are now: learnt speeds, and what is under way as backlog.
    fn servers_now(&self) -> Vec<Server> {
        let mut under_way_ns = vec![0.0; self.servers.len()];
        for run in self.running.iter() {
            let expected_ns = blocks(run.size - run.moved) * self.gauges[run.server.index()].pace_ns;
            under_way_ns[run.server.index()] += (expected_ns - (self.now_ns - run.heard_ns) as f64).max(0.0);
        }
        let now = |((gauge, server), ns): ((&Gauge, &Server), f64)| {
            let busy_ns = gauge.free_from_ns.saturating_sub(self.now_ns) as f64 * f64::from(server.slots);
            let millionths = self.settings.block_ns * 1e6 / gauge.pace_ns;
            let millionths = (millionths as u64).clamp(1, Speed::MAX.millionths());
            Server {
                speed: Speed::from_millionths(millionths).unwrap_or(Speed::ONE),
                slots: server.slots,
                backlog: ((ns + busy_ns) / gauge.pace_ns).ceil() as u64,
            }
        };
        self.gauges.iter().zip(self.cluster.servers()).zip(under_way_ns).map(now).collect()
    }

    /// Lists all that waits anew, where it was chosen to be; what is served by several servers is cut.
    fn take_choice(&mut self, waiting: &[u32], parts: &[Part]) {
        self.keeps_to_plan = false;
        for &piece in waiting {
            self.leave_lists(piece);
        }
        self.clients.iter_mut().chain(self.servers.iter_mut()).for_each(|node| drop(node.take_entries()));
        for parts in parts.chunk_by(|a, b| a.request == b.request) {
            let piece = waiting[parts[0].request as usize];
            let mut cuts =
                parts.iter().map(|part| (part.server, Nanoblocks::from(part.blocks) * 1_000_000_000));
            let Some((server, blocks)) = cuts.next() else { continue };
            let mut left = self.cut(piece, blocks);
            self.queue(piece, server);
            for (server, blocks) in cuts {
                let Some(piece) = left else { break };
                left = self.cut(piece, blocks);
                self.queue(piece, server);
            }
        }
        self.to_look_at.extend((0..self.servers.len() as u32).map(End::Server));
    }

    /// Cuts a piece after so many blocks; gives what is cut off, if anything is.
    fn cut(&mut self, piece: u32, blocks: Nanoblocks) -> Option<u32> {
        let whole = self.pieces[piece as usize];
        let rest = whole.size().checked_sub(blocks).filter(|&rest| rest > 0 && blocks > 0)?;
        if self.pieces.len() + 1 >= NONE as usize {
            return None;
        }
        self.pieces[piece as usize].blocks = Fixed::from_nanos(blocks)?;
        let offset = whole.offset.nanos() + blocks;
        let rest = self.piece(whole.request, whole.server, offset, rest);
        let rest = self.add_piece(Piece { client: whole.client, ..rest });
        self.barred.cut(whole.request, piece, rest);
        Some(rest)
    }
}
