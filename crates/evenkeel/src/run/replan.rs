//! When to plan what is unstarted anew, and how.
//!
//! Speeds are those learnt, backlogs what is under way. Only replicas are chosen: off the plan, lists tell just who
//! is first, so an exact order would be lost on them, and pieces are only cut where the choice cuts them. The new
//! choice is taken if its last server is predicted to be done earlier.

use std::sync::Arc;

use super::executor::{End, Executor, ROUNDED_NS, to_ns};
use super::gauge::{Gauge, Nanoblocks, blocks, duration_ns};
use super::lists::{Entry, NONE, Piece, State};
use super::{Action, Misfit, Snapshot};
use crate::model::{Choice, Cluster, Fixed, Part, Ratio, Server, ServerId, Speed};

/// A plan that was asked for.
#[derive(Debug)]
pub(super) struct Planning {
    /// What waited then, by row of the snapshot's batch.
    waiting: Vec<Entry>,
    /// When the last server was predicted to be done, after the snapshot.
    present: Ratio,
    /// The prediction that the next plan is judged by is no earlier than that.
    least_ns: u64,
    asked_ns: u64,
    /// Whether nothing has happened since: what could start waits for it as long.
    pub(super) is_new: bool,
    snapshot: Arc<Snapshot>,
}

impl Executor {
    /// Plans anew if a server is predicted to end much later than planned, and has something to give away.
    pub(super) fn watch(&mut self, server: ServerId) {
        let Some(share) = self.settings.replan_after else { return };
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
        let Some(share) = self.settings.replan_after else { return };
        let since_ns = |ns: u64| ns.saturating_sub(self.origin_ns) as f64;
        self.wants_replan |= since_ns(self.now_ns) > since_ns(self.planned_at_ns) * (1.0 + share.max(0.0));
    }

    /// Asks for a plan of all that is unstarted, unless one is being made: whether it has.
    pub(super) fn ask_for_plan(&mut self, out: &mut Vec<Action>) -> bool {
        if self.planning.is_some() {
            return false;
        }
        self.wants_replan = false;
        let is_queued = |&piece: &u32| self.marks.state(piece) == State::Queued;
        let waiting: Vec<u32> = (0..self.pieces.len() as u32).filter(is_queued).collect();
        if waiting.is_empty() {
            return false;
        }
        let rows = waiting.iter().map(|&number| {
            let piece = &self.pieces[number as usize];
            let blocks = piece.size().div_ceil(1_000_000_000) as u64;
            (piece.client, blocks, self.holders(number))
        });
        let rest = self.nodes.of_rows(rows);
        // If times have become too long for the model, no later plan is asked for.
        let before_ns = std::mem::replace(&mut self.predicted_ns, u64::MAX);
        let Some(batch) = rest else { return false };
        let clients = self.cluster.clients().to_vec();
        let Ok(cluster) = Cluster::new(&batch, self.servers_now(), clients, None) else { return false };
        let present = waiting.iter().map(|&piece| self.pieces[piece as usize].server).collect();
        let present = Choice::whole(present).last_done(&batch, &cluster);
        (self.planned_at_ns, self.n_replans) = (self.now_ns, self.n_replans + 1);
        // Of many servers some always seem slow; each plan takes that for what is usual, and the next needs more
        // reason.
        let share = self.settings.replan_after.unwrap_or(0.0);
        let since_ns = before_ns.saturating_sub(self.origin_ns);
        let grown_ns = duration_ns(since_ns as f64 * (1.0 + share.max(0.0)));
        let number = self.n_replans;
        self.planning = Some(Planning {
            waiting: waiting.iter().map(|&piece| self.marks.entry(piece, NONE)).collect(),
            present,
            least_ns: self.origin_ns.saturating_add(grown_ns),
            asked_ns: self.now_ns,
            is_new: true,
            snapshot: Arc::new(Snapshot { number, batch, cluster }),
        });
        out.push(Action::Plan { number });
        true
    }

    /// What [`Action::Plan`] asked to plan, until that is answered.
    pub fn snapshot(&self) -> Option<&Arc<Snapshot>> {
        self.planning.as_ref().map(|planning| &planning.snapshot)
    }

    /// Whether that plan was asked for, and the choice is one of its batch.
    pub(super) fn can_be_planned(&self, number: u32, choice: &Choice) -> Result<(), Misfit> {
        let asked = self.snapshot().filter(|snapshot| snapshot.number == number);
        let snapshot = asked.ok_or(Misfit::NotAsked(number))?;
        if choice.is_of(&snapshot.batch) { Ok(()) } else { Err(Misfit::OtherPlan(number)) }
    }

    /// Takes a new choice, if it is better, for what still waits where it did.
    pub(super) fn on_planned(&mut self, choice: &Choice) {
        let Some(Planning { waiting, present, least_ns, asked_ns, snapshot, .. }) = self.planning.take()
        else {
            return;
        };
        let new = choice.last_done(&snapshot.batch, &snapshot.cluster);
        let new_ns = asked_ns.saturating_add(to_ns(new.min(present), self.settings.block_ns));
        self.predicted_ns = new_ns.max(least_ns);
        if new < present {
            self.take_choice(&waiting, &choice.parts(&snapshot.batch).collect::<Vec<Part>>());
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
    fn take_choice(&mut self, waiting: &[Entry], parts: &[Part]) {
        self.leave_plan();
        let is_fresh: Vec<bool> = waiting.iter().map(|&entry| !self.marks.is_stale(entry)).collect();
        for (entry, _) in waiting.iter().zip(&is_fresh).filter(|(_, is_fresh)| **is_fresh) {
            self.leave_lists(entry.piece);
            self.marks.put(entry.piece, State::Parked);
        }
        let marks = &self.marks;
        self.clients.iter_mut().chain(self.servers.iter_mut()).for_each(|node| node.drop_stale(marks));
        for parts in parts.chunk_by(|a, b| a.request == b.request) {
            let row = parts[0].request as usize;
            if !is_fresh[row] {
                continue;
            }
            let piece = waiting[row].piece;
            // Who was up when that was asked may be down, or have nothing of it.
            if parts.iter().any(|part| self.holders(piece).all(|server| server != part.server)) {
                let server = self.pieces[piece as usize].server;
                self.queue(piece, server);
                continue;
            }
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
        if self.free_pieces.is_empty() && self.pieces.len() + 1 >= NONE as usize {
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
