//! What would help where a client is the bottleneck: more slots, one more client, or spreading its work over others.
//!
//! Every promise is the bound of the batch and cluster after the change, computed as for any other plan.

use std::cmp::Reverse;

use super::change::Change;
use crate::bound::{Bound, Proof, beside_servers, concurrency};
use crate::graph::flow::pace::Level;
use crate::model::{
    Batch, Client, ClientId, Cluster, MAX_SLOTS, ModelError, Move, Ratio, Server, ServerId, gcd,
};
use crate::select::{Goal, optimal};

/// A way to help where a client is the bottleneck.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Help {
    /// One more slot for the client that is the bottleneck.
    SlotForOne,
    /// One more slot for every client.
    SlotForAll,
    /// Enough slots for clients that none of them is the bottleneck.
    EnoughSlots,
    /// One more client, which takes work from the clients that have the most.
    OneMoreClient,
    /// Clients with much work give some to clients with little.
    Spread,
}

/// A change that lowers the bound, and how far.
#[derive(Clone, Debug)]
pub struct ClientAdvice {
    /// What kind of help it is.
    pub help: Help,
    /// What it changes.
    pub change: Change,
    /// The bound after the change.
    pub bound: Bound,
}

/// Everything that lowers a bound on the length that is forced by a client; nothing if another proof forces it.
pub fn advise_clients(batch: &Batch, cluster: &Cluster, bound: &Bound) -> Vec<ClientAdvice> {
    let Some(problem) = Problem::new(batch, cluster, bound) else { return Vec::new() };
    let all = [Help::SlotForOne, Help::SlotForAll, Help::EnoughSlots, Help::OneMoreClient, Help::Spread];
    let mut advice: Vec<ClientAdvice> = Vec::new();
    for help in all {
        let found = problem.change(help).and_then(|change| problem.advice(help, change));
        // If it is the same as one more slot for one client, that has been reported.
        let is_new = |found: &ClientAdvice| advice.first().is_none_or(|first| first.change != found.change);
        advice.extend(found.filter(is_new));
    }
    // A slot for every client is reported only if slots for some do not achieve the same.
    let is_for_some = |advice: &&ClientAdvice| matches!(advice.help, Help::SlotForOne | Help::EnoughSlots);
    let by_some: Vec<Ratio> = advice.iter().filter(is_for_some).map(|advice| advice.bound.value).collect();
    advice.retain(|advice| advice.help != Help::SlotForAll || !by_some.contains(&advice.bound.value));
    advice
}

/// Enough slots for clients that none of them is the bottleneck. `None` if no client is, or if it has as many slots as
/// there are servers with its data.
pub fn advise_slots(batch: &Batch, cluster: &Cluster, bound: &Bound) -> Option<ClientAdvice> {
    let problem = Problem::new(batch, cluster, bound)?;
    let mut holds = vec![false; batch.n_servers()];
    let of_client =
        batch.replicas().iter().zip(batch.client_of()).filter(|(_, client)| **client == problem.client);
    of_client.for_each(|(set, _)| set.iter().for_each(|server| holds[server.index()] = true));
    let n_servers = holds.iter().filter(|holds| **holds).count();
    if n_servers <= cluster.client(problem.client).slots as usize {
        return None;
    }
    problem.advice(Help::EnoughSlots, problem.change(Help::EnoughSlots)?)
}

struct Problem<'a> {
    batch: &'a Batch,
    cluster: &'a Cluster,
    /// The client that is the bottleneck.
    client: ClientId,
    /// The current bound.
    top: &'a Bound,
    /// A lower limit on the length, whatever clients do.
    rest: Level,
}

impl<'a> Problem<'a> {
    fn new(batch: &'a Batch, cluster: &'a Cluster, top: &'a Bound) -> Option<Self> {
        let Proof::Client { client, .. } = top.proof else { return None };
        let (servers, _) = optimal::bound_level(batch, cluster, Goal::MaxLoad);
        let limit = concurrency(batch, cluster).unwrap_or(Level::ZERO);
        Some(Self { batch, cluster, client, top, rest: servers.max(limit) })
    }

    fn change(&self, help: Help) -> Option<Change> {
        let slots = |id: ClientId| self.cluster.client(id).slots;
        let ids = || (0..self.batch.n_clients() as u32).map(ClientId);
        match help {
            Help::SlotForOne => Some(Change::Slots(vec![(self.client, slots(self.client) + 1)])),
            Help::SlotForAll => Some(Change::Slots(ids().map(|id| (id, slots(id) + 1)).collect())),
            Help::EnoughSlots => self.enough_slots().map(Change::Slots),
            Help::OneMoreClient => {
                let name = self.batch.clients().name(self.client.0);
                let mut names = (2..).map(|k| format!("{name}-{k}"));
                let new_client = names.find(|name| self.batch.clients().find(name).is_none());
                Some(Change::Moves { moves: self.moves(true), new_client })
            }
            Help::Spread => {
                let moves = self.moves(false);
                (!moves.is_empty()).then_some(Change::Moves { moves, new_client: None })
            }
        }
    }

    /// The change, if it lowers the bound.
    fn advice(&self, help: Help, change: Change) -> Option<ClientAdvice> {
        let (batch, cluster) = change.apply(self.batch, self.cluster).ok()?;
        let bound = optimal::bound(&batch, &cluster, Goal::Length);
        (bound.value < self.top.value).then_some(ClientAdvice { help, change, bound })
    }

    /// The clients that need more slots so that none of them is the bottleneck, each with the fewest slots that
    /// suffice.
    fn enough_slots(&self) -> Option<Vec<(ClientId, u32)>> {
        let clients = || (0..).map(ClientId).zip(self.cluster.clients());
        if !self.cluster.is_even() {
            let least = self.fewest_for_all()?;
            return Some(clients().filter(|(_, c)| c.slots < least).map(|(id, _)| (id, least)).collect());
        }
        let work = Work::new(self.batch, self.cluster);
        // What a slot can do by then, as a fraction: nothing is rounded.
        let (done, of) = work.blocks_by(self.rest)?;
        let mut more = Vec::new();
        for (id, client) in clients() {
            let blocks = work.of[id.index()] / work.unit;
            let needed = blocks.checked_mul(of)?.div_ceil(done.max(1)).min(MAX_SLOTS.into()) as u32;
            if needed > client.slots {
                more.push((id, needed));
            }
        }
        Some(more)
    }

    /// The least number of slots at every client with which none is the bottleneck, or which comes as close as
    /// possible.
    fn fewest_for_all(&self) -> Option<u32> {
        let limits = |least: u32| -> Result<bool, ModelError> {
            let clients = self.cluster.clients().iter().map(|c| Client { slots: c.slots.max(least) });
            let servers = self.cluster.servers().to_vec();
            let cluster = self.cluster.with_nodes(self.batch, servers, clients.collect())?;
            let beside = beside_servers(self.batch, &cluster);
            Ok(beside.is_some_and(|(level, _)| level > self.rest))
        };
        let (mut low, mut high) = (1, 2);
        while high < MAX_SLOTS && limits(high).ok()? {
            (low, high) = (high, high * 2);
        }
        while low + 1 < high {
            let middle = low.midpoint(high);
            if limits(middle).ok()? { low = middle } else { high = middle }
        }
        Some(high)
    }

    /// What clients give away so that the last one is done as early as possible: the fewest blocks, to one new client
    /// or to the others.
    fn moves(&self, to_new_client: bool) -> Vec<Move> {
        let mut work = Work::new(self.batch, self.cluster);
        let n_clients = work.of.len();
        if to_new_client {
            work.of.push(0);
            work.slots.push(1);
        }
        let may_receive = |client: usize| !to_new_client || client == n_clients;
        let level = work.fair_level(work.units(self.rest), may_receive);
        let rooms =
            (0..work.of.len()).filter(|&c| may_receive(c)).map(|c| (work.room(c, level), ClientId(c as u32)));
        let mut rooms: Vec<(u128, ClientId)> = rooms.filter(|(room, _)| *room > 0).collect();
        // Fill the client with the most room first, then the next, so that there are few pairs.
        rooms.sort_unstable_by_key(|&(room, client)| (room, Reverse(client)));
        let mut excess: Vec<u128> = (0..work.of.len()).map(|c| work.excess(c, level)).collect();
        let mut moves = Vec::new();
        for request in self.largest_first(&excess) {
            let i = request as usize;
            let (cost, above) = (work.cost(i), &mut excess[self.batch.client(i).index()]);
            let mut left = u64::try_from(above.div_ceil(cost)).unwrap_or(u64::MAX).min(self.batch.blocks(i));
            while left > 0
                && let Some((room, to)) = rooms.last_mut()
            {
                let blocks = u64::try_from(*room / cost).unwrap_or(u64::MAX).min(left);
                if blocks == 0 {
                    rooms.pop();
                    continue;
                }
                moves.push(Move { request, to: *to, blocks });
                left -= blocks;
                *room -= u128::from(blocks) * cost;
                *above = above.saturating_sub(u128::from(blocks) * cost);
            }
        }
        moves
    }

    /// The requests of clients that have too much: those whose servers are busy longest first, then the largest.
    fn largest_first(&self, excess: &[u128]) -> Vec<u32> {
        let free = |server: &ServerId| {
            let Server { speed, .. } = self.cluster.server(*server);
            Level::new(self.cluster.server(*server).busy().into(), speed.millionths())
        };
        let has_too_much = |i: &u32| excess[self.batch.client(*i as usize).index()] > 0;
        let mut requests: Vec<u32> = (0..self.batch.n_requests() as u32).filter(has_too_much).collect();
        requests.sort_by_cached_key(|&i| {
            let free = self.batch.replicas().of(i as usize).iter().map(free).min();
            (Reverse(free), Reverse(self.batch.blocks(i as usize)), i)
        });
        requests
    }
}

/// How much each client has to receive, in units. A unit is a part of a block where it does not matter which server
/// sends it. Otherwise it is a part of the time that blocks take from the fastest replicas, without the backlogs of
/// servers.
struct Work<'a> {
    batch: &'a Batch,
    cluster: &'a Cluster,
    is_even: bool,
    /// Units in a block, where it does not matter which server sends it.
    unit: u128,
    of: Vec<u128>,
    slots: Vec<u128>,
}

/// Units in a level of 1, which is a block at a speed of one millionth.
const UNITS: u128 = 1_000_000_000_000;

impl<'a> Work<'a> {
    fn new(batch: &'a Batch, cluster: &'a Cluster) -> Self {
        let slots = cluster.clients().iter().map(|client| client.slots.into()).collect();
        // Where transfers occupy slots of one block, a client's slots are done only at whole blocks.
        let unit = if cluster.is_slotted() { 1 } else { 1 << 40 };
        let of = vec![0; batch.n_clients()];
        let mut work = Self { batch, cluster, is_even: cluster.is_even(), unit, of, slots };
        for i in 0..batch.n_requests() {
            work.of[batch.client(i).index()] += u128::from(batch.blocks(i)) * work.cost(i);
        }
        work
    }

    /// The cost of a block of request `i`.
    fn cost(&self, i: usize) -> u128 {
        if self.is_even {
            return self.unit;
        }
        let speeds = self.batch.replicas().of(i).iter().map(|s| self.cluster.server(*s).speed.millionths());
        (UNITS / u128::from(speeds.max().unwrap_or(1))).max(1)
    }

    /// How many blocks a slot can do by a level, as a fraction. `None` unless all servers have one speed.
    fn blocks_by(&self, level: Level) -> Option<(u128, u128)> {
        let (speed, denominator) = (self.cluster.common_speed()?.millionths(), level.denominator());
        let common = gcd(speed.into(), denominator.into()).max(1);
        let done = level.numerator().checked_mul(u128::from(speed) / common)?;
        Some((done, u128::from(denominator) / common))
    }

    /// What a slot can do by a level, rounded up to units.
    fn units(&self, level: Level) -> u128 {
        let as_time = (level.numerator(), u128::from(level.denominator()));
        let (unit, (numerator, denominator)) = match self.blocks_by(level) {
            Some(blocks) if self.is_even => (self.unit, blocks),
            _ => (UNITS, as_time),
        };
        let (whole, rest) = (numerator / denominator, numerator % denominator);
        whole.saturating_mul(unit).saturating_add((rest * unit).div_ceil(denominator))
    }

    /// What a client can do by a level: whole blocks where it does not matter which server sends them.
    fn capacity(&self, client: usize, level: u128) -> u128 {
        let units = self.slots[client].saturating_mul(level);
        if self.is_even { units / self.unit * self.unit } else { units }
    }

    fn room(&self, client: usize, level: u128) -> u128 {
        self.capacity(client, level).saturating_sub(self.of[client])
    }

    fn excess(&self, client: usize, level: u128) -> u128 {
        self.of[client].saturating_sub(self.capacity(client, level))
    }

    /// The lowest level from `floor` on at which those that may receive have room for the excess of the others.
    fn fair_level(&self, floor: u128, may_receive: impl Fn(usize) -> bool) -> u128 {
        let is_enough = |level: u128| {
            let clients = 0..self.of.len();
            let excess = clients.clone().fold(0, |sum: u128, c| sum.saturating_add(self.excess(c, level)));
            let rooms = clients.filter(|&c| may_receive(c));
            excess <= rooms.fold(0, |sum: u128, c| sum.saturating_add(self.room(c, level)))
        };
        let longest =
            self.of.iter().zip(&self.slots).map(|(work, slots)| work.div_ceil((*slots).max(1))).max();
        let (mut low, mut high) = (floor, longest.unwrap_or(0).max(floor));
        while low < high {
            let middle = low.midpoint(high);
            if is_enough(middle) { high = middle } else { low = middle + 1 }
        }
        high
    }
}
