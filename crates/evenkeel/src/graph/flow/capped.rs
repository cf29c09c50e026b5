//! Places as much as possible at servers of limited capacity: maximum flow with capacities.
//!
//! Items have sizes and replicas, servers have room. A greedy start comes first. Then come phases of blocking flow, as
//! in Dinic's and Hopcroft and Karp's algorithms, on the graph of servers: server u leads to v if some of an item that
//! is at u could be at v. The depths are distances to a server with room, so one search serves all remaining items.

use super::super::sets::holdings::Holdings;
use crate::model::{Replicas, ServerId};

const UNREACHED: u32 = u32::MAX;
const NOWHERE: u32 = u32::MAX;

/// Items being placed into the room of servers. Items that do not fit are left over.
#[derive(Debug)]
pub(crate) struct Capped<'a> {
    replicas: Replicas<'a>,
    /// The item of each place in the flat replica sets.
    item_of: Vec<u32>,
    /// The places of each server.
    places: Holdings,
    /// The amount of its item at each place.
    amounts: Vec<u64>,
    /// The amount of each item that is not placed yet.
    left: Vec<u64>,
    room: Vec<u64>,
    /// Which servers have ever had room, so that items may be there.
    is_open: Vec<bool>,
    depths: Vec<u32>,
    /// For each server, the first of its places that may still lead further in this phase.
    next: Vec<u32>,
    queue: Vec<u32>,
    /// The places between which the parts of a path move.
    path: Vec<(u32, u32)>,
}

impl<'a> Capped<'a> {
    /// Items of these sizes, and this much room at each server. Each item goes where there is the most room, as far as
    /// it fits.
    pub(crate) fn new(replicas: Replicas<'a>, sizes: impl Fn(usize) -> u64, room: Vec<u64>) -> Self {
        let mut item_of = vec![0; replicas.flat().len()];
        for item in 0..replicas.len() {
            item_of[replicas.start(item)..][..replicas.of(item).len()].fill(item as u32);
        }
        let mut capped = Self {
            replicas,
            item_of,
            places: Holdings::by_place(replicas, room.len()),
            amounts: vec![0; replicas.flat().len()],
            left: (0..replicas.len()).map(sizes).collect(),
            depths: vec![UNREACHED; room.len()],
            next: vec![0; room.len()],
            is_open: room.iter().map(|room| *room > 0).collect(),
            room,
            queue: Vec::new(),
            path: Vec::new(),
        };
        (0..replicas.len()).for_each(|item| capped.put(item));
        capped
    }

    fn put(&mut self, item: usize) {
        let (start, set) = (self.replicas.start(item), self.replicas.of(item));
        while self.left[item] > 0 {
            let most_room =
                (start..).zip(set).max_by_key(|(place, s)| (self.room[s.index()], usize::MAX - place));
            let Some((place, server)) = most_room else { return };
            let amount = self.left[item].min(self.room[server.index()]);
            if amount == 0 {
                return;
            }
            self.amounts[place] += amount;
            self.left[item] -= amount;
            self.room[server.index()] -= amount;
        }
    }

    /// Gives a server more room.
    pub(crate) fn add_room(&mut self, server: ServerId, amount: u64) {
        self.room[server.index()] += amount;
        self.is_open[server.index()] |= amount > 0;
    }

    /// Moves items until nothing more fits, or until `most` of the remainder has found a place. Returns how much has.
    pub(crate) fn fit(&mut self, most: u64) -> u64 {
        let mut fitted = 0;
        let mut waiting: Vec<u32> =
            (0..).zip(&self.left).filter(|&(_, &left)| left > 0).map(|(i, _)| i).collect();
        while fitted < most && self.search(&waiting) {
            for &item in &waiting {
                while self.left[item as usize] > 0 && fitted < most {
                    match self.push(item, most - fitted) {
                        0 => break,
                        amount => fitted += amount,
                    }
                }
            }
            waiting.retain(|&item| self.left[item as usize] > 0);
        }
        fitted
    }

    /// Finds the distance of each server from room. Returns whether any waiting item can get there.
    fn search(&mut self, waiting: &[u32]) -> bool {
        self.depths.fill(UNREACHED);
        self.queue.clear();
        for (server, &room) in (0..).zip(&self.room) {
            self.next[server as usize] = self.places.range(ServerId(server)).start as u32;
            if room > 0 {
                self.depths[server as usize] = 0;
                self.queue.push(server);
            }
        }
        let mut n_seen = 0;
        let n_open = self.is_open.iter().filter(|is_open| **is_open).count();
        // Usually all are reached after a few steps, and then there is nothing more to find.
        while self.queue.len() < n_open
            && let Some(&server) = self.queue.get(n_seen)
        {
            n_seen += 1;
            let depth = self.depths[server as usize] + 1;
            for &place in self.places.of(ServerId(server)) {
                let item = self.item_of[place as usize] as usize;
                let start = self.replicas.start(item);
                for (at, amount) in self.replicas.of(item).iter().zip(&self.amounts[start..]) {
                    if *amount > 0 && self.depths[at.index()] == UNREACHED {
                        self.depths[at.index()] = depth;
                        self.queue.push(at.0);
                    }
                }
            }
        }
        let reaches = |s: &ServerId| self.depths[s.index()] != UNREACHED;
        waiting.iter().any(|&item| self.replicas.of(item as usize).iter().any(reaches))
    }

    /// Moves some of the remainder of an item along a shortest path to room. Returns how much, 0 if there is no path.
    fn push(&mut self, item: u32, most: u64) -> u64 {
        self.path.clear();
        let mut from = NOWHERE;
        loop {
            let moving = if from == NOWHERE { item } else { self.item_of[from as usize] } as usize;
            let depth = self.path.last().map_or(UNREACHED, |&(_, to)| self.depths[self.server_of(to)]);
            let (start, set) = (self.replicas.start(moving), self.replicas.of(moving));
            // An item that came to a server in this phase has no replica nearer to room, so it is never moved on.
            let nearer = (start as u32..).zip(set).find(|(_, s)| self.depths[s.index()] < depth);
            if let Some((to, server)) = nearer {
                let server = server.index();
                if self.room[server] > 0 {
                    self.path.push((from, to));
                    return self.move_along(item, most);
                }
                match self.next_place(server) {
                    Some(next) => {
                        self.path.push((from, to));
                        from = next;
                    }
                    None => self.depths[server] = UNREACHED,
                }
                continue;
            }
            // A dead end: try the next place of the server that this one belongs to.
            let Some(&(before, to)) = self.path.last() else { return 0 };
            let server = self.server_of(to);
            self.next[server] += 1;
            if let Some(next) = self.next_place(server) {
                from = next;
            } else {
                self.depths[server] = UNREACHED;
                self.path.pop();
                from = before;
            }
        }
    }

    fn server_of(&self, place: u32) -> usize {
        self.replicas.flat()[place as usize].index()
    }

    /// The next place of a server with an item that could move on, if it may lead anywhere.
    fn next_place(&mut self, server: usize) -> Option<u32> {
        if self.depths[server] == 0 {
            return None;
        }
        let end = self.places.range(ServerId(server as u32)).end as u32;
        while self.next[server] < end {
            let place = self.places.flat()[self.next[server] as usize];
            if self.amounts[place as usize] > 0 {
                return Some(place);
            }
            self.next[server] += 1;
        }
        None
    }

    fn move_along(&mut self, item: u32, most: u64) -> u64 {
        let last = self.path.last().map_or(0, |&(_, to)| self.server_of(to));
        let moved = self.path.iter().filter(|(from, _)| *from != NOWHERE);
        let least = moved.map(|&(from, _)| self.amounts[from as usize]).min().unwrap_or(u64::MAX);
        let amount = least.min(self.left[item as usize]).min(self.room[last]).min(most);
        for &(from, to) in &self.path {
            if from != NOWHERE {
                self.amounts[from as usize] -= amount;
            }
            self.amounts[to as usize] += amount;
        }
        self.left[item as usize] -= amount;
        self.room[last] -= amount;
        amount
    }

    /// The amount of its item at each place of the flat replica sets.
    pub(crate) fn amounts(&self) -> &[u64] {
        &self.amounts
    }

    /// For items of one block: the server of each, if it is placed.
    pub(crate) fn servers(&self) -> impl Iterator<Item = Option<ServerId>> {
        self.replicas.iter().enumerate().map(|(item, set)| {
            let amounts = &self.amounts[self.replicas.start(item)..];
            set.iter().zip(amounts).find(|(_, amount)| **amount > 0).map(|(server, _)| *server)
        })
    }
}
