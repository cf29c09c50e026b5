//! When and how to plan unstarted work again.
//!
//! Speeds are the learnt ones, and backlogs are the work in flight. Only replicas are chosen: off the plan, lists only
//! set priorities, so an exact order would be wasted, and pieces are cut only where the choice cuts them. The new
//! choice is adopted if its last server is predicted to be done earlier.

use std::collections::BTreeMap;

use super::executor::{End, Executor, ROUNDED_NS, to_ns};
use super::gauge::{Gauge, Nanoblocks, blocks, duration_ns};
use super::lists::{Entry, NONE, Piece, State};
use super::trace::Decided;
use super::{Action, Misfit, NewPlan, Snapshot};
use crate::model::{Cluster, Fixed, Part, Server, ServerId, Speed};

/// An idle server may be the reason for a plan this much sooner than others: it loses more with each moment.
const IDLE_SHARE: f64 = 0.2;

/// A plan that was requested.
#[derive(Clone, Copy, Debug)]
pub(super) struct Planning {
    number: u32,
    /// The prediction that the next plan is compared with is no earlier than this.
    least_ns: u64,
    /// Whether nothing has happened since. While this is so, pieces that could start wait for the plan.
    pub(super) is_new: bool,
}

impl Executor {
    /// Requests a new plan if a server is predicted to end much later than planned and has work to give away.
    pub(super) fn watch(&mut self, server: ServerId) {
        let Some(share) = self.settings.replan_after else { return };
        let since_ns = |ns: u64| ns.saturating_sub(self.origin_ns) as f64;
        let end_ns = since_ns(self.now_ns) + self.gauges[server.index()].wait_ns(self.now_ns, 0);
        let grown = 1.0 + share.max(0.0);
        // While everything goes to plan, the prediction, which ignores the order, is worth less than the plan.
        let is_off_plan = !self.keeps_to_plan || self.gauges[server.index()].pace.is_slower_by(grown);
        let is_later = end_ns > since_ns(self.predicted_ns) * grown + ROUNDED_NS as f64;
        self.wants_replan |= is_later && is_off_plan && self.servers[server.index()].n_queued > 0;
    }

    /// Requests a new plan if a server is back, unless there was one a short while ago.
    pub(super) fn one_more_server(&mut self) {
        let Some(share) = self.settings.replan_after else { return };
        let since_ns = |ns: u64| ns.saturating_sub(self.origin_ns) as f64;
        self.wants_replan |= since_ns(self.now_ns) > since_ns(self.planned_at_ns) * (1.0 + share.max(0.0));
    }

    /// Requests a new plan if a server has nothing left to start while others may have, unless there was one just now.
    pub(super) fn one_more_idle(&mut self, server: ServerId) {
        let Some(share) = self.settings.replan_after else { return };
        if !self.settings.keeps_order && self.servers[server.index()].n_queued == 0 {
            let since_ns = |ns: u64| ns.saturating_sub(self.origin_ns) as f64;
            let soonest_ns = since_ns(self.planned_at_ns) * (1.0 + share.max(0.0) * IDLE_SHARE);
            self.wants_replan |= since_ns(self.now_ns) > soonest_ns;
        }
    }

    /// Requests a plan of all unstarted work, unless one is being made. Returns whether it did.
    pub(super) fn ask_for_plan(&mut self, out: &mut Vec<Action>) -> bool {
        if self.planning.is_some() {
            return false;
        }
        self.wants_replan = false;
        if self.servers.iter().all(|server| server.n_queued == 0) {
            return false;
        }
        (self.planned_at_ns, self.counts.plans) = (self.now_ns, self.counts.plans + 1);
        // Until this plan is made, no other is requested. Among many servers some always seem slow. Each plan treats
        // that as normal, and the next one needs a stronger reason.
        let before_ns = std::mem::replace(&mut self.predicted_ns, u64::MAX);
        let share = self.settings.replan_after.unwrap_or(0.0);
        let grown_ns = duration_ns(before_ns.saturating_sub(self.origin_ns) as f64 * (1.0 + share.max(0.0)));
        let (number, least_ns) = (self.counts.plans, self.origin_ns.saturating_add(grown_ns));
        self.planning = Some(Planning { number, least_ns, is_new: true });
        out.push(Action::Plan { number });
        true
    }

    /// The current state of what [`Action::Plan`] asked to plan. `None` if no plan is requested, or if times have
    /// become too long for the model; then there is nothing to report back.
    pub fn snapshot(&self) -> Option<Snapshot> {
        let Planning { number, .. } = self.planning?;
        let is_queued = |&piece: &u32| self.marks.state(piece) == State::Queued;
        let waiting: Vec<u32> = (0..self.pieces.len() as u32).filter(is_queued).collect();
        let rows = waiting.iter().map(|&number| {
            let piece = &self.pieces[number as usize];
            let blocks = piece.size().div_ceil(1_000_000_000) as u64;
            (piece.client, blocks, self.holders(number))
        });
        let batch = self.nodes.of_rows(rows)?;
        let clients = self.cluster.clients().to_vec();
        let cluster = Cluster::new(&batch, self.servers_now(), clients, None).ok()?;
        let present = waiting.iter().map(|&piece| self.pieces[piece as usize].server).collect();
        let waiting = waiting.iter().map(|&piece| self.marks.entry(piece)).collect();
        Some(Snapshot { number, batch, cluster, present, waiting, taken_ns: self.now_ns })
    }

    /// Whether this plan was requested.
    pub(super) fn was_asked_for(&self, plan: &NewPlan) -> Result<(), Misfit> {
        let is_awaited = self.planning.is_some_and(|planning| planning.number == plan.number);
        if is_awaited { Ok(()) } else { Err(Misfit::NotAsked(plan.number)) }
    }

    /// Adopts a new plan, if it is better, for the pieces that still wait where they did.
    pub(super) fn on_planned(&mut self, plan: &NewPlan) {
        let Some(Planning { number, least_ns, .. }) = self.planning.take() else { return };
        let end_ns = |end| plan.taken_ns.saturating_add(to_ns(end, self.settings.block_ns));
        let (present_end_ns, new_end_ns) = (end_ns(plan.present_end), end_ns(plan.new_end));
        self.predicted_ns = present_end_ns.min(new_end_ns).max(least_ns);
        self.note(Decided::PlannedAnew { number, present_end_ns, new_end_ns }, 0, |_| Vec::new());
        if plan.new_end < plan.present_end {
            self.leave_plan();
            plan.moves.chunk_by(|(a, _), (b, _)| a == b).for_each(|parts| self.move_piece(parts));
            if !self.settings.keeps_order {
                self.sort_lists();
            }
        }
    }

    /// Puts earlier requests first in all lists again: they are in order of priority where the order of a plan is a matter
    /// of priorities. Pieces of the same client and size that the same servers hold are interchangeable, so the first of
    /// them goes where it starts first. What a slow server has begun is then not long in demand.
    fn sort_lists(&mut self) {
        let is_queued = |&piece: &u32| self.marks.state(piece) == State::Queued;
        let mut waiting: Vec<u32> = (0..self.pieces.len() as u32).filter(is_queued).collect();
        waiting.sort_by_key(|&piece| (self.pieces[piece as usize].id, self.pieces[piece as usize].offset));
        let mut servers: Vec<ServerId> = waiting.iter().map(|&piece| self.leave_lists(piece).1).collect();
        let mut queued: Vec<Nanoblocks> = vec![0; self.servers.len()];
        let mut alike: BTreeMap<_, Vec<(u64, ServerId, usize)>> = BTreeMap::new();
        for (place, (&piece, server)) in waiting.iter().zip(&servers).enumerate() {
            let starts_ns = self.gauges[server.index()].wait_ns(self.now_ns, queued[server.index()]);
            let (client, size) = (self.pieces[piece as usize].client, self.pieces[piece as usize].size());
            queued[server.index()] += size;
            let holders: Vec<ServerId> = self.holders(piece).collect();
            let starts_ns = duration_ns(starts_ns);
            alike.entry((client, size, holders)).or_default().push((starts_ns, *server, place));
        }
        for mut starts in alike.into_values() {
            let places: Vec<usize> = starts.iter().map(|&(_, _, place)| place).collect();
            starts.sort_unstable();
            places.into_iter().zip(starts).for_each(|(place, (_, server, _))| servers[place] = server);
        }
        waiting.into_iter().zip(servers).for_each(|(piece, server)| self.queue(piece, server));
    }

    /// The servers as they are now: learnt speeds, and the work in flight as backlog.
    fn servers_now(&self) -> Vec<Server> {
        let mut under_way_ns = vec![0.0; self.servers.len()];
        for (_, run) in self.running.iter() {
            let expected_ns = blocks(run.size - run.moved) * self.gauges[run.server.index()].pace.ns;
            under_way_ns[run.server.index()] += (expected_ns - (self.now_ns - run.heard_ns) as f64).max(0.0);
        }
        let now = |((gauge, server), ns): ((&Gauge, &Server), f64)| {
            let busy_ns = gauge.free_from_ns.saturating_sub(self.now_ns) as f64 * f64::from(server.slots);
            let millionths = self.settings.block_ns * 1e6 / gauge.pace.ns;
            let millionths = (millionths as u64).clamp(1, Speed::MAX.millionths());
            Server {
                speed: Speed::from_millionths(millionths).unwrap_or(Speed::ONE),
                slots: server.slots,
                backlog: ((ns + busy_ns) / gauge.pace.ns).ceil() as u64,
            }
        };
        self.gauges.iter().zip(self.cluster.servers()).zip(under_way_ns).map(now).collect()
    }

    /// Moves a piece to the lists of the servers chosen for it, if it still waits where it did. A piece with several
    /// servers is cut, but not into parts that are too small.
    fn move_piece(&mut self, parts: &[(Entry, Part)]) {
        let (entry, _) = parts[0];
        let mut piece = entry.piece;
        // A server that held it when the plan was requested may now be down, or hold nothing of it.
        let is_held = |(_, part): &(Entry, Part)| self.holders(piece).any(|server| server == part.server);
        if self.marks.is_stale(entry) || !parts.iter().all(is_held) {
            return;
        }
        let (client, server) = self.leave_lists(piece);
        // Others may have waited behind it.
        self.to_look_at.extend([End::Client(client.0), End::Server(server.0)]);
        let sizes: Vec<u64> = parts.iter().map(|(_, part)| part.blocks).collect();
        for (blocks, (_, part)) in without_dust(sizes, self.settings.least_part_blocks).zip(parts) {
            if blocks == 0 {
                continue;
            }
            let rest = self.cut(piece, Nanoblocks::from(blocks) * 1_000_000_000);
            self.queue(piece, part.server);
            let Some(rest) = rest else { break };
            piece = rest;
        }
    }

    /// Cuts a piece after this many blocks. Returns the piece that is cut off, if any.
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

/// Sizes of parts, where those below the least are 0 and the largest has what they had.
fn without_dust(sizes: Vec<u64>, least: u64) -> impl Iterator<Item = u64> {
    let largest = (0..sizes.len()).max_by_key(|&part| sizes[part]);
    let is_dust = move |part: usize, size: u64| size < least && Some(part) != largest;
    let dust: u64 =
        sizes.iter().enumerate().filter(|&(part, &size)| is_dust(part, size)).map(|(_, size)| size).sum();
    sizes.into_iter().enumerate().map(move |(part, size)| match size {
        _ if is_dust(part, size) => 0,
        _ if Some(part) == largest => size + dust,
        _ => size,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_that_are_too_small_go_along_with_the_largest() {
        let kept = |sizes: &[u64], least| without_dust(sizes.to_vec(), least).collect::<Vec<_>>();
        assert_eq!(kept(&[1, 70, 9, 30], 0), [1, 70, 9, 30]);
        assert_eq!(kept(&[1, 70, 9, 30], 10), [0, 80, 0, 30]);
        // Something is left of a piece that is small itself.
        assert_eq!(kept(&[3, 2], 10), [5, 0]);
        assert_eq!(kept(&[3], 10), [3]);
    }
}
