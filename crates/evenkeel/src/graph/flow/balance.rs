//! Moves load between servers along paths of requests that have a replica at the next server.
//!
//! The graph has one node per server and an arc u→v wherever an item (a request, or a group of requests) with a share
//! at u has a replica at v. It is never built: the items at each server are listed, and the search reads their replica
//! sets. Phases are those of Dinic: levels by breadth-first search from the overloaded servers up to the first level
//! with room, then a blocking flow along them with current-arc pointers.
//!
//! With up to a few thousand servers, arcs that were seen are stored as bits, so that later searches read a row of bits
//! instead of all items of a server. A stored arc may be gone in the meantime; a search that follows it finds out.
//!
//! Not all items need be listed: where very many lie, a sample leads almost everywhere. Before a set of servers is
//! declared closed, one pass over all items lists those that lead out of it, and the search continues if there are any.
//!
//! An item that has just moved from level l to l+1 opens no arc from there in the same phase, since its other replicas
//! are at level l+1 at most. So the lists may be edited in place.

use super::arcs::Arcs;
use crate::model::{Replicas, ServerId};

/// Where the items lie: how much of each is at which of its replicas.
///
/// Positions are indices into [`Replicas::flat`].
pub(crate) trait Shares {
    /// How much of the item lies at `position`.
    fn share(&self, position: usize) -> u64;
    /// The items that lie at a server marked [`INSIDE`] and have a replica at one marked [`BEYOND`]. Needed where not
    /// all items are listed.
    fn leaving(&self, marks: &[u8]) -> Vec<(u32, ServerId)>;
    /// Moves `amount` of `item`. Returns whether `from` is empty now and whether `to` was empty before.
    fn shift(&mut self, item: usize, from: usize, to: usize, amount: u64) -> (bool, bool);
}

/// Marks a server that was reached.
const INSIDE: u8 = 1;
/// Marks a server that was not reached: twice [`INSIDE`], so that a shift shows whether both are there.
const BEYOND: u8 = 2 * INSIDE;
/// This many items are checked together.
const NEIGHBOURS: usize = 64;
/// One in this many such neighbourhoods is in the sample.
const SAMPLED: usize = 16;

/// Items of one block each, which cannot be divided.
#[derive(Debug)]
pub(crate) struct Whole<'a> {
    pub(crate) at: Vec<ServerId>,
    pub(crate) replicas: Replicas<'a>,
    pub(crate) are_all_listed: bool,
}

impl Whole<'_> {
    /// For each server, the listed items: all of them, or a sample.
    pub(crate) fn listed(&self, loads: &[u64]) -> Vec<Vec<u32>> {
        let step = if self.are_all_listed { 1 } else { SAMPLED };
        let chunks = (0..).step_by(NEIGHBOURS * step).zip(self.at.chunks(NEIGHBOURS).step_by(step));
        let placed = chunks.flat_map(|(first, at)| (first..).zip(at.iter().copied()));
        items_at(loads.iter().map(|&load| load as usize / step), placed)
    }
}

impl Shares for Whole<'_> {
    fn share(&self, _position: usize) -> u64 {
        1
    }

    fn leaving(&self, marks: &[u8]) -> Vec<(u32, ServerId)> {
        if self.are_all_listed {
            return Vec::new();
        }
        let flat = self.replicas.flat();
        match self.replicas.width() {
            Some(2) => leaving(&self.at, flat.as_chunks::<2>().0.iter().map(|set| &set[..]), marks),
            Some(3) => leaving(&self.at, flat.as_chunks::<3>().0.iter().map(|set| &set[..]), marks),
            _ => leaving(&self.at, self.replicas.iter(), marks),
        }
    }

    fn shift(&mut self, item: usize, _from: usize, to: usize, _amount: u64) -> (bool, bool) {
        self.at[item] = self.replicas.flat()[to];
        (true, true)
    }
}

/// See [`Shares::leaving`].
fn leaving<'a>(
    at: &[ServerId],
    mut sets: impl Iterator<Item = &'a [ServerId]> + Clone,
    marks: &[u8],
) -> Vec<(u32, ServerId)> {
    let leaves = |at: &ServerId, set: &[ServerId]| {
        let leads = set.iter().fold(0, |all, s| all | marks[s.index()]);
        marks[at.index()] & leads >> 1
    };
    let mut leaving = Vec::new();
    // Without a branch for each item: mostly none of many neighbours leaves.
    for (first, at) in (0..).step_by(NEIGHBOURS).zip(at.chunks(NEIGHBOURS)) {
        let neighbours = at.iter().zip(sets.clone());
        if neighbours.clone().fold(0, |any, (at, set)| any | leaves(at, set)) > 0 {
            let items = (first..).zip(neighbours).filter(|&(_, (at, set))| leaves(at, set) > 0);
            leaving.extend(items.map(|(item, (&at, _))| (item, at)));
        }
        sets.nth(NEIGHBOURS - 1);
    }
    leaving
}

/// Items that may be divided between their replicas at block boundaries.
#[derive(Debug)]
pub(crate) struct Divided(pub(crate) Vec<u64>);

impl Shares for Divided {
    fn share(&self, position: usize) -> u64 {
        self.0[position]
    }

    fn leaving(&self, _marks: &[u8]) -> Vec<(u32, ServerId)> {
        Vec::new()
    }

    fn shift(&mut self, _item: usize, from: usize, to: usize, amount: u64) -> (bool, bool) {
        let was_empty = self.0[to] == 0;
        self.0[from] -= amount;
        self.0[to] += amount;
        (self.0[from] == 0, was_empty)
    }
}

/// For each server, the items placed there. `counts` gives their number.
pub(crate) fn items_at(
    counts: impl Iterator<Item = usize>,
    placed: impl Iterator<Item = (u32, ServerId)>,
) -> Vec<Vec<u32>> {
    // Leaves a little room, so that most lists are never reallocated.
    let mut items_at: Vec<Vec<u32>> = counts.map(|n| Vec::with_capacity(n + n / 16 + 4)).collect();
    placed.for_each(|(item, server)| items_at[server.index()].push(item));
    items_at
}

const OUTSIDE: u32 = u32::MAX;
const UNSEEN: u32 = u32::MAX - 1;
const DEAD: u32 = u32::MAX - 2;

/// One arc of the current path: `item` leaves `server`, at `from`, for the replica at `to`.
#[derive(Debug)]
struct Step {
    server: ServerId,
    item: u32,
    from: usize,
    to: usize,
}

/// Loads of servers, and the items that make them up.
#[derive(Debug)]
pub(crate) struct Balance<'a, P> {
    pub(crate) replicas: Replicas<'a>,
    pub(crate) loads: Vec<u64>,
    pub(crate) shares: P,
    /// The number of breadth-first searches so far, as a measure of effort.
    pub(crate) searches: usize,
    items_at: Vec<Vec<u32>>,
    arcs: Option<Arcs>,
    level: Vec<u32>,
    next: Vec<usize>,
    reached: Vec<ServerId>,
    last_level: u32,
    path: Vec<Step>,
}

impl<'a, P: Shares> Balance<'a, P> {
    /// Takes over the items where they lie: `items_at` lists them where they have a share.
    pub(crate) fn new(replicas: Replicas<'a>, loads: Vec<u64>, shares: P, items_at: Vec<Vec<u32>>) -> Self {
        let n_servers = loads.len();
        Self {
            replicas,
            loads,
            shares,
            searches: 0,
            items_at,
            arcs: Arcs::new(n_servers),
            level: vec![OUTSIDE; n_servers],
            next: vec![0; n_servers],
            reached: Vec::with_capacity(n_servers),
            last_level: 0,
            path: Vec::new(),
        }
    }

    /// Moves load from servers above their cap to servers of the same `zone` below theirs, as far as possible.
    ///
    /// If some servers stay above, returns all servers that they reach: none of these has room, and no item there has a
    /// replica elsewhere in the zone. Gives up with `None` after more than `max_searches`.
    pub(crate) fn relieve(
        &mut self,
        zone: &[ServerId],
        cap: impl Fn(ServerId) -> u64 + Copy,
        max_searches: usize,
    ) -> Option<Vec<ServerId>> {
        loop {
            if self.searches >= max_searches {
                return None;
            }
            let loads = std::mem::take(&mut self.loads);
            let found_room = self.search(zone, |s| loads[s.index()] > cap(s), |s| loads[s.index()] < cap(s));
            self.loads = loads;
            if !found_room {
                if self.list_leaving(zone) {
                    continue;
                }
                return Some(self.reached.clone());
            }
            let overloaded: Vec<ServerId> =
                self.reached.iter().copied().take_while(|s| self.level[s.index()] == 0).collect();
            for server in overloaded {
                while self.loads[server.index()] > cap(server) && self.augment(server, cap) {}
            }
        }
    }

    /// All servers that some servers of `zone` reach, including these.
    pub(crate) fn reach_of(
        &mut self,
        zone: &[ServerId],
        is_source: impl Fn(ServerId, u64) -> bool,
    ) -> Vec<ServerId> {
        loop {
            let loads = std::mem::take(&mut self.loads);
            self.search(zone, |s| is_source(s, loads[s.index()]), |_| false);
            self.loads = loads;
            if !self.list_leaving(zone) {
                return self.reached.clone();
            }
        }
    }

    /// Lists the items that lead from the reached servers to the rest of `zone`. Returns whether there are any.
    fn list_leaving(&mut self, zone: &[ServerId]) -> bool {
        if self.reached.is_empty() || self.reached.len() == zone.len() {
            return false;
        }
        let mut marks = vec![0; self.loads.len()];
        zone.iter().for_each(|s| marks[s.index()] = BEYOND);
        self.reached.iter().for_each(|s| marks[s.index()] = INSIDE);
        let leaving = self.shares.leaving(&marks);
        for &(item, server) in &leaving {
            self.items_at[server.index()].push(item);
            if let Some(arcs) = &mut self.arcs {
                arcs.add(server, self.replicas.of(item as usize));
            }
        }
        !leaving.is_empty()
    }

    /// Sets levels from the sources up to the first level with room. Returns whether there is one.
    fn search(
        &mut self,
        zone: &[ServerId],
        is_source: impl Fn(ServerId) -> bool,
        has_room: impl Fn(ServerId) -> bool,
    ) -> bool {
        self.searches += 1;
        self.reached.iter().for_each(|s| self.level[s.index()] = OUTSIDE);
        self.reached.clear();
        for &server in zone {
            self.next[server.index()] = 0;
            self.level[server.index()] = UNSEEN;
            if is_source(server) {
                self.level[server.index()] = 0;
                self.reached.push(server);
            }
        }
        let mut head = 0;
        let mut depth = 0;
        let found = loop {
            let level_end = self.reached.len();
            if head == level_end {
                break false;
            }
            if self.reached[head..].iter().any(|&s| has_room(s)) {
                break true;
            }
            depth += 1;
            for k in head..level_end {
                if self.reached.len() == zone.len() {
                    break;
                }
                let server = self.reached[k];
                let items = &self.items_at[server.index()];
                let (level, reached) = (&mut self.level, &mut self.reached);
                let mut reach = |to: ServerId| {
                    if level[to.index()] == UNSEEN {
                        level[to.index()] = depth;
                        reached.push(to);
                    }
                };
                match &mut self.arcs {
                    Some(arcs) => arcs.from(server, items, self.replicas).for_each(reach),
                    None => items
                        .iter()
                        .flat_map(|&item| self.replicas.of(item as usize))
                        .for_each(|&to| reach(to)),
                }
            }
            head = level_end;
        };
        for &server in zone {
            if self.level[server.index()] == UNSEEN {
                self.level[server.index()] = OUTSIDE;
            }
        }
        self.last_level = depth;
        found
    }

    /// Moves some load from `source` along one path of the level graph to a server with room.
    fn augment(&mut self, source: ServerId, cap: impl Fn(ServerId) -> u64) -> bool {
        self.path.clear();
        let mut server = source;
        loop {
            if let Some(step) = self.next_step(server, &cap) {
                let to = self.replicas.flat()[step.to];
                self.path.push(step);
                if self.loads[to.index()] < cap(to) {
                    self.shift_along_path(source, to, &cap);
                    return true;
                }
                server = to;
            } else {
                self.level[server.index()] = DEAD;
                match self.path.pop() {
                    Some(step) => server = step.server,
                    None => return false,
                }
            }
        }
    }

    /// The current arc of `server` to the next level.
    fn next_step(&mut self, server: ServerId, cap: &impl Fn(ServerId) -> u64) -> Option<Step> {
        let next_level = self.level[server.index()] + 1;
        // Before the first item is read: does any lead further?
        if let Some(arcs) = &mut self.arcs
            && self.next[server.index()] == 0
        {
            let items = &self.items_at[server.index()];
            let is_next = |s: ServerId| self.level[s.index()] == next_level;
            if !arcs.from(server, items, self.replicas).any(is_next) {
                return None;
            }
        }
        while let Some(&item) = self.items_at[server.index()].get(self.next[server.index()]) {
            let start = self.replicas.start(item as usize);
            let (mut from, mut to) = (None, None);
            for (k, &replica) in self.replicas.of(item as usize).iter().enumerate() {
                if replica == server {
                    from = Some(start + k);
                } else if self.level[replica.index()] == next_level {
                    if next_level == self.last_level && self.loads[replica.index()] >= cap(replica) {
                        self.level[replica.index()] = DEAD;
                    } else {
                        to = Some(start + k);
                    }
                }
            }
            if let (Some(from), Some(to)) = (from, to) {
                return Some(Step { server, item, from, to });
            }
            self.next[server.index()] += 1;
        }
        // No item leads there: the arc is out of date.
        if let Some(arcs) = &mut self.arcs {
            arcs.remove(server, |s| self.level[s.index()] == next_level);
        }
        None
    }

    fn shift_along_path(&mut self, source: ServerId, sink: ServerId, cap: &impl Fn(ServerId) -> u64) {
        let excess = self.loads[source.index()] - cap(source);
        let room = cap(sink) - self.loads[sink.index()];
        let amount =
            self.path.iter().map(|step| self.shares.share(step.from)).fold(excess.min(room), u64::min);
        for step in &self.path {
            let (emptied, arrived) = self.shares.shift(step.item as usize, step.from, step.to, amount);
            if emptied {
                let current = self.next[step.server.index()];
                self.items_at[step.server.index()].swap_remove(current);
            }
            if arrived {
                let to = self.replicas.flat()[step.to];
                self.items_at[to.index()].push(step.item);
                if let Some(arcs) = &mut self.arcs {
                    arcs.add(to, self.replicas.of(step.item as usize));
                }
            }
        }
        self.loads[source.index()] -= amount;
        self.loads[sink.index()] += amount;
    }
}
