//! Eases clients: where servers differ, the choice of replica also determines how long a client takes.
//!
//! The level says when all servers can be done. A client may take longer than that: its requests were given to slow
//! servers, or to servers that are free so late that the client idles first. Its requests are moved to faster or
//! earlier replicas that have room; where there is none, requests of clients that have time make room. No server gets
//! more than it can do by the level, so the bound still holds, and what remains is the gap that is reported. (The exact
//! optimum is a linear program over all pairs of requests and replicas, and only for data that can be divided
//! arbitrarily.)

use std::cmp::Ordering;

use super::optimal::to_choice;
use crate::graph::flow::level::Placed;
use crate::graph::flow::pace::{Level, Paces};
use crate::model::{Batch, Choice, Cluster, Part, ServerId};

/// Sweeps over all requests for each level.
const SWEEPS: usize = 3;
/// Later levels that are tried. Each halves the time by which some client is too late.
const LEVELS: usize = 6;
/// The most points in time that are examined to see which clients wait.
const MOST_MOMENTS: usize = 64;

/// Gives each request to its fastest replica with room, if all find room by `level`; then proceeds as [`ease`].
pub(super) fn fastest(batch: &Batch, cluster: &Cluster, paces: &Paces, level: Level) -> Option<Choice> {
    let mut room = paces.caps(level);
    let total: u128 = room.iter().copied().map(u128::from).sum();
    if total < batch.total_blocks().into() {
        return None;
    }
    let mut state = State::new(batch, cluster, paces, Choice::default());
    // By rank, so that choosing means comparing numbers.
    let mut ranked: Vec<ServerId> = (0..batch.n_servers() as u32).map(ServerId).collect();
    let key = |s: &ServerId| (state.cost[s.index()], state.free[s.index()]);
    ranked.sort_by(|a, b| key(a).partial_cmp(&key(b)).unwrap_or(Ordering::Equal));
    let mut rank = vec![0_u32; ranked.len()];
    (0..).zip(&ranked).for_each(|(k, server)| rank[server.index()] = k);
    state.items.at.reserve(batch.n_requests());
    for (i, set) in batch.replicas().iter().enumerate() {
        let blocks = batch.blocks(i);
        let rank_of = |s: &ServerId| if blocks <= room[s.index()] { rank[s.index()] } else { u32::MAX };
        let best = set.iter().map(rank_of).fold(u32::MAX, u32::min);
        let server = *ranked.get(best as usize)?;
        room[server.index()] -= blocks;
        state.loads[server.index()] += blocks;
        state.work[batch.client(i).index()] += blocks as f64 * state.cost[server.index()];
        state.items.at.push(server);
    }
    state.items.left = batch.sizes().map(<[u64]>::to_vec).unwrap_or_default();
    Some(state.ease(paces, level))
}

/// Moves requests so that their clients end by `level`, or as little after it as a few sweeps achieve.
pub(super) fn ease(batch: &Batch, cluster: &Cluster, paces: &Paces, level: Level, placed: Placed) -> Choice {
    State::new(batch, cluster, paces, to_choice(batch, placed)).ease(paces, level)
}

/// A level as a fraction with the largest denominator that fits.
fn rounded(level: f64) -> Level {
    let most = (1_u64 << 62) as f64;
    let denominator =
        (0..=62).rev().map(|bits| 1_u64 << bits).find(|&d| level * (d as f64) < most).unwrap_or(1);
    Level::new((level * denominator as f64) as u128, denominator)
}

/// The parts of a choice, and where each is while they are moved.
#[derive(Clone, Debug)]
struct Items {
    at: Vec<ServerId>,
    /// The blocks of each request at the server in `at`; empty if each request has one block.
    left: Vec<u64>,
    /// Parts of requests that are elsewhere.
    split_off: Vec<Part>,
}

struct State<'a> {
    batch: &'a Batch,
    items: Items,
    loads: Vec<u64>,
    /// How long a block takes at each server, and when the server is free, in units of levels.
    cost: Vec<f64>,
    free: Vec<f64>,
    /// How long each client takes to receive everything through one slot, and its slots.
    work: Vec<f64>,
    slots: Vec<f64>,
    /// Which clients have so much to receive from servers that are free late that they end after the level.
    waits: Vec<bool>,
}

impl<'a> State<'a> {
    fn new(batch: &'a Batch, cluster: &Cluster, paces: &Paces, choice: Choice) -> Self {
        let pace = |s: u32| {
            let (free, cost) = paces.gauge(ServerId(s));
            (free, cost * f64::from(cluster.server(ServerId(s)).slots))
        };
        let (free, cost) = (0..batch.n_servers() as u32).map(pace).unzip();
        let mut left = batch.sizes().map(<[u64]>::to_vec).unwrap_or_default();
        choice.split_off.iter().for_each(|part| left[part.request as usize] -= part.blocks);
        let mut state = Self {
            batch,
            items: Items { at: choice.servers, left, split_off: choice.split_off },
            loads: vec![0; batch.n_servers()],
            cost,
            free,
            work: vec![0.0; batch.n_clients()],
            slots: cluster.clients().iter().map(|c| f64::from(c.slots)).collect(),
            waits: vec![false; batch.n_clients()],
        };
        state.add_up();
        state
    }

    fn add_up(&mut self) {
        self.loads.fill(0);
        self.work.fill(0.0);
        for k in 0..self.items.len() {
            let (client, Part { server, blocks, .. }) = self.item(k);
            self.loads[server.index()] += blocks;
            self.work[client] += blocks as f64 * self.cost[server.index()];
        }
    }

    fn ease(mut self, paces: &Paces, level: Level) -> Choice {
        self.sweep_to(level.to_f64(), &paces.caps(level));
        let (mut too_early, mut reached) = (level.to_f64(), self.latest());
        let mut best = None;
        for _ in 0..LEVELS {
            // Servers have more room at later levels.
            let middle = f64::midpoint(too_early, reached);
            if reached <= too_early * (1.0 + 1e-9) || middle <= too_early {
                break;
            }
            let before = self.items.clone();
            self.sweep_to(middle, &paces.caps(rounded(middle)));
            let latest = self.latest();
            if latest < reached {
                reached = latest.max(middle);
                best = Some(self.items.clone());
            }
            if latest > middle * (1.0 + 1e-9) {
                too_early = middle;
            }
            self.items = before;
            self.add_up();
        }
        best.unwrap_or(self.items).into_choice()
    }

    /// When the last client has received everything, if none ever waits.
    fn latest(&self) -> f64 {
        (0..self.work.len()).map(|client| self.needs(client)).fold(0.0, f64::max)
    }

    fn needs(&self, client: usize) -> f64 {
        self.work[client] / self.slots[client]
    }

    fn sweep_to(&mut self, level: f64, caps: &[u64]) {
        let level = level * (1.0 + 1e-12);
        for sweep in 0..SWEEPS {
            self.see_who_waits(level);
            if self.latest() <= level && !self.waits.contains(&true) {
                break;
            }
            let mut wanted = vec![false; self.loads.len()];
            let mut moved = false;
            for k in 0..self.items.len() {
                moved |= self.improve(k, level, caps, &mut wanted);
            }
            if wanted.contains(&true) && sweep + 1 < SWEEPS {
                for k in 0..self.items.len() {
                    moved |= self.make_room(k, level, caps, &wanted);
                }
            }
            if !moved {
                break;
            }
        }
    }

    /// Adds up what each client receives from servers that are free after certain points in time. A client waits if
    /// that does not fit between the point and the level.
    fn see_who_waits(&mut self, level: f64) {
        let latest = self.free.iter().copied().fold(0.0, f64::max);
        if latest == 0.0 {
            return;
        }
        // Fewer for many clients, so that there are not many more sums than requests.
        let n_sums = (2 * self.items.len()).max(1 << 16);
        let moments = (n_sums / self.work.len().max(1)).clamp(1, MOST_MOMENTS);
        let moment = |k: usize| latest * k as f64 / moments as f64;
        let mut work = vec![0.0; self.work.len() * moments];
        for k in 0..self.items.len() {
            let (client, Part { server, blocks, .. }) = self.item(k);
            let last = (self.free[server.index()] / latest * moments as f64) as usize;
            work[client * moments + last.min(moments - 1)] += blocks as f64 * self.cost[server.index()];
        }
        for ((waits, work), slots) in self.waits.iter_mut().zip(work.chunks(moments)).zip(&self.slots) {
            let mut gathered = 0.0;
            *waits = (0..moments).rev().any(|k| {
                gathered += work[k];
                work[k] > 0.0 && moment(k) + gathered / slots > level
            });
        }
    }

    /// The client of an item, and the part itself.
    #[inline]
    fn item(&self, k: usize) -> (usize, Part) {
        let part = match self.items.at.get(k) {
            Some(&server) => {
                let blocks = self.items.left.get(k).copied().unwrap_or(1);
                Part { request: k as u32, server, blocks }
            }
            None => self.items.split_off[k - self.items.at.len()],
        };
        (self.batch.client(part.request as usize).index(), part)
    }

    /// Whether a client may have to wait for a server.
    fn is_late(&self, client: usize, server: ServerId, level: f64) -> bool {
        let free = self.free[server.index()];
        self.waits[client] && free > 0.0 && free + self.needs(client) > level
    }

    /// Moves an item to a better replica with room, if its client needs that. Notes better replicas that are full.
    #[inline]
    fn improve(&mut self, k: usize, level: f64, caps: &[u64], wanted: &mut [bool]) -> bool {
        let (client, part) = self.item(k);
        let is_slow = self.needs(client) > level;
        let is_late = self.is_late(client, part.server, level);
        if !is_slow && !is_late {
            return false;
        }
        // A client that is too slow needs speed; the others would rather not wait.
        let spare = level * self.slots[client] - self.work[client];
        let badness = |s: ServerId| {
            let (late, cost) = (f64::from(u8::from(self.is_late(client, s, level))), self.cost[s.index()]);
            if is_slow { (cost, late) } else { (late, cost) }
        };
        let mut least = badness(part.server);
        let mut best = None;
        for &server in self.batch.replicas().of(part.request as usize) {
            let badness = badness(server);
            let more = (self.cost[server.index()] - self.cost[part.server.index()]) * part.blocks as f64;
            if badness >= least || more > spare.max(0.0) {
                continue;
            }
            if self.loads[server.index()] >= caps[server.index()] {
                wanted[server.index()] = true;
            } else {
                (least, best) = (badness, Some(server));
            }
        }
        let Some(to) = best else { return false };
        let room = caps[to.index()] - self.loads[to.index()];
        self.shift(k, to, room);
        true
    }

    /// Moves an item away from a wanted server if its client can afford that.
    fn make_room(&mut self, k: usize, level: f64, caps: &[u64], wanted: &[bool]) -> bool {
        let (client, part) = self.item(k);
        if !wanted[part.server.index()] {
            return false;
        }
        let spare = level * self.slots[client] - self.work[client];
        for &to in self.batch.replicas().of(part.request as usize) {
            let room = caps[to.index()].saturating_sub(self.loads[to.index()]);
            let more = self.cost[to.index()] - self.cost[part.server.index()];
            let affordable = if more > 0.0 { (spare / more).max(0.0) as u64 } else { u64::MAX };
            let most = room.min(affordable);
            if most > 0 && !wanted[to.index()] && !self.is_late(client, to, level) {
                self.shift(k, to, most);
                return true;
            }
        }
        false
    }

    /// Moves an item, or as much of it as allowed.
    fn shift(&mut self, k: usize, to: ServerId, most: u64) {
        let (client, Part { request, server: from, blocks }) = self.item(k);
        let amount = blocks.min(most);
        self.loads[from.index()] -= amount;
        self.loads[to.index()] += amount;
        self.work[client] += amount as f64 * (self.cost[to.index()] - self.cost[from.index()]);
        let n = self.items.at.len();
        if amount == blocks {
            match self.items.at.get_mut(k) {
                Some(at) => *at = to,
                None => self.items.split_off[k - n].server = to,
            }
            return;
        }
        match self.items.left.get_mut(k) {
            Some(left) => *left -= amount,
            None => self.items.split_off[k - n].blocks -= amount,
        }
        self.items.split_off.push(Part { request, server: to, blocks: amount });
    }
}

impl Items {
    fn len(&self) -> usize {
        self.at.len() + self.split_off.len()
    }

    /// The choice, with each server at most once per request.
    fn into_choice(self) -> Choice {
        let Self { at, mut split_off, .. } = self;
        split_off.retain(|part| at[part.request as usize] != part.server);
        split_off.sort_unstable();
        split_off.dedup_by(|next, kept| {
            let is_same = (next.request, next.server) == (kept.request, kept.server);
            kept.blocks += if is_same { next.blocks } else { 0 };
            is_same
        });
        Choice { servers: at, split_off }
    }
}
