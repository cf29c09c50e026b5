//! The fewest moves: items leave servers that have too many, so that as few as possible are away from home in the end.
//!
//! Minimum-cost flow by shortest augmenting paths, on the graph of servers: server u leads to v if an item that is at u
//! could be at v. Such a step costs 1 if the item leaves its home, gains 1 if it returns, and is free otherwise. Every
//! server has a price, the cost of getting one item from there to a server with room, so that no step costs less than
//! the prices of its ends differ by. A phase raises prices to the cost of the next cheapest path, then moves all items
//! that can go at this cost, by blocking flow. Few costs occur, so there are few phases, whatever the number of items.
//!
//! Room only shrinks: after one answer, a tighter one costs only the further moves. The prices prove the answer.

use super::super::sets::holdings::Holdings;
use crate::model::{Replicas, ServerId};

const UNREACHED: u32 = u32::MAX;
const NO_HOME: u32 = u32::MAX;

/// Items at servers, the fewest possible away from home.
#[derive(Debug)]
pub(crate) struct Cheapest<'a> {
    replicas: Replicas<'a>,
    items: Vec<Item>,
    /// The items that could be at each server.
    holdings: Holdings,
    /// The items that are at each server, and where each is in its list.
    held: Vec<Vec<u32>>,
    position: Vec<u32>,
    /// How many items each server may have.
    caps: Vec<u64>,
    prices: Vec<u32>,
    /// How many steps each server is from room, at the current prices.
    depths: Vec<u32>,
    /// For each server, the first of its items that may still lead further in this phase.
    next: Vec<u32>,
    /// The items that move, and where they go.
    path: Vec<(u32, ServerId)>,
    queue: Vec<u32>,
}

/// Where an item is, and where it was at first, if anywhere. That need not be a replica. Both are read together.
#[derive(Clone, Copy, Debug)]
struct Item {
    at: ServerId,
    home: u32,
}

impl<'a> Cheapest<'a> {
    /// Items at home; those without a home among their replicas are at the first of these.
    pub(crate) fn new(
        replicas: Replicas<'a>,
        n_servers: usize,
        home: impl Fn(usize) -> Option<ServerId>,
    ) -> Self {
        let item = |(i, set): (usize, &[ServerId])| {
            let home = home(i).map_or(NO_HOME, |server| server.0);
            Item { at: set.iter().copied().find(|server| server.0 == home).unwrap_or(set[0]), home }
        };
        let items: Vec<Item> = replicas.iter().enumerate().map(item).collect();
        let mut held: Vec<Vec<u32>> = vec![Vec::new(); n_servers];
        let mut position = Vec::with_capacity(items.len());
        for (i, item) in (0..).zip(&items) {
            let held = &mut held[item.at.index()];
            position.push(held.len() as u32);
            held.push(i);
        }
        Self {
            replicas,
            items,
            holdings: Holdings::new(replicas, n_servers),
            held,
            position,
            caps: Vec::new(),
            prices: vec![0; n_servers],
            depths: vec![UNREACHED; n_servers],
            next: vec![0; n_servers],
            path: Vec::new(),
            queue: Vec::new(),
        }
    }

    /// Moves items until no server has more than its cap. Returns false if that is impossible. No cap may be larger than
    /// the last time.
    pub(crate) fn tighten(&mut self, caps: Vec<u64>) -> bool {
        self.caps = caps;
        while (0..self.held.len()).any(|server| self.is_over(server)) {
            if !self.raise_prices() {
                return false;
            }
            while self.search() {
                for server in 0..self.held.len() as u32 {
                    while self.is_over(server as usize) && self.push(ServerId(server)) {}
                }
            }
        }
        true
    }

    /// Where each item is.
    pub(crate) fn servers(&self) -> impl Iterator<Item = ServerId> {
        self.items.iter().map(|item| item.at)
    }

    /// The price of each server: no item can leave it for less. Servers with room are free.
    pub(crate) fn prices(&self) -> &[u32] {
        &self.prices
    }

    fn is_over(&self, server: usize) -> bool {
        self.held[server].len() as u64 > self.caps[server]
    }

    fn has_room(&self, server: usize) -> bool {
        (self.held[server].len() as u64) < self.caps[server]
    }

    /// What it costs beyond the prices to move an item from its server to another.
    #[inline]
    fn extra(&self, item: usize, to: ServerId) -> u32 {
        let Item { at, home } = self.items[item];
        // Both prices include what it costs the item to be there: 1, away from home.
        let there = self.prices[to.index()] + u32::from(home != to.0);
        let here = self.prices[at.index()] + u32::from(home != at.0);
        debug_assert!(there >= here, "a step costs less than its prices say");
        there - here
    }

    /// Raises prices by the extra cost of the cheapest path from a server that has too many. Returns false if there is
    /// no path.
    fn raise_prices(&mut self) -> bool {
        // Extra costs are small numbers, so that lists by distance take the place of a heap.
        let mut distances = vec![UNREACHED; self.held.len()];
        let mut lists: Vec<Vec<u32>> = vec![Vec::new()];
        for server in (0..self.held.len()).filter(|&server| self.has_room(server)) {
            distances[server] = 0;
            lists[0].push(server as u32);
        }
        let mut distance = 0;
        let nearest = 'found: loop {
            let Some(list) = lists.get_mut(distance) else { return false };
            let Some(server) = list.pop() else {
                distance += 1;
                continue;
            };
            if distances[server as usize] as usize != distance {
                continue;
            }
            if self.is_over(server as usize) {
                break 'found distance as u32;
            }
            for &item in self.holdings.of(ServerId(server)) {
                let from = self.items[item as usize].at;
                if from.0 == server || distances[from.index()] as usize <= distance {
                    continue;
                }
                let far = distance as u32 + self.extra(item as usize, ServerId(server));
                if far < distances[from.index()] {
                    distances[from.index()] = far;
                    if lists.len() <= far as usize {
                        lists.resize(far as usize + 1, Vec::new());
                    }
                    lists[far as usize].push(from.0);
                }
            }
        };
        for (price, distance) in self.prices.iter_mut().zip(distances) {
            *price += distance.min(nearest);
        }
        true
    }

    /// Finds how many steps each server is from room, at no extra cost. Returns whether one that has too many is
    /// reached.
    fn search(&mut self) -> bool {
        self.depths.fill(UNREACHED);
        self.next.fill(0);
        self.queue.clear();
        for server in 0..self.held.len() {
            if self.has_room(server) {
                self.depths[server] = 0;
                self.queue.push(server as u32);
            }
        }
        let (mut n_seen, mut found) = (0, UNREACHED);
        while let Some(&server) = self.queue.get(n_seen) {
            n_seen += 1;
            let depth = self.depths[server as usize] + 1;
            if depth > found {
                break;
            }
            for &item in self.holdings.of(ServerId(server)) {
                let from = self.items[item as usize].at.index();
                if self.depths[from] == UNREACHED && self.extra(item as usize, ServerId(server)) == 0 {
                    self.depths[from] = depth;
                    self.queue.push(from as u32);
                    if self.is_over(from) {
                        found = depth;
                    }
                }
            }
        }
        found != UNREACHED
    }

    /// Moves one item off a server, along a shortest path to room. Returns false if there is none.
    fn push(&mut self, start: ServerId) -> bool {
        if self.depths[start.index()] == UNREACHED {
            return false;
        }
        self.path.clear();
        let mut server = start;
        loop {
            if self.has_room(server.index()) {
                // From the end, so that no list is longer than its server's cap for long.
                for (item, to) in std::mem::take(&mut self.path).into_iter().rev() {
                    self.move_to(item, to);
                }
                return true;
            }
            if let Some((item, to)) = self.step(server) {
                self.path.push((item, to));
                server = to;
                continue;
            }
            // A dead end.
            self.depths[server.index()] = UNREACHED;
            let Some((item, _)) = self.path.pop() else { return false };
            server = self.items[item as usize].at;
        }
    }

    /// The next item of a server that can go a step nearer to room, and where.
    fn step(&mut self, server: ServerId) -> Option<(u32, ServerId)> {
        let depth = self.depths[server.index()];
        while let Some(&item) = self.held[server.index()].get(self.next[server.index()] as usize) {
            let set = self.replicas.of(item as usize);
            let nearer = set.iter().copied().find(|&to| {
                let away = self.depths[to.index()];
                away != UNREACHED && away + 1 == depth && self.extra(item as usize, to) == 0
            });
            if let Some(to) = nearer {
                return Some((item, to));
            }
            self.next[server.index()] += 1;
        }
        None
    }

    fn move_to(&mut self, item: u32, to: ServerId) {
        let from = self.items[item as usize].at.index();
        let k = self.position[item as usize] as usize;
        self.held[from].swap_remove(k);
        if let Some(&moved) = self.held[from].get(k) {
            self.position[moved as usize] = k as u32;
        }
        self.position[item as usize] = self.held[to.index()].len() as u32;
        self.held[to.index()].push(item);
        self.items[item as usize].at = to;
    }
}
