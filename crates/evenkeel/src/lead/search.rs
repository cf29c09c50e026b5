//! Local search for requests of different sizes: few changes, and no server beyond what it can do by a level.
//!
//! Threshold accepting (Dueck and Scheuer 1990): requests move at random, alone or in pairs, so that one takes the place
//! of another. A move is made if it makes the whole no worse than by a threshold, which falls to nothing. What is wrong
//! is the number of changes (or their blocks) and what servers have too much; the latter weighs more and more. Several
//! searches begin at home, each with its own numbers, and the best answer counts.

use crate::bound::Cost;
use crate::draw::{Draw, Seeded};
use crate::graph::flow::pace::{Level, Paces};
use crate::model::{Batch, ServerId};

/// Moves tried in each search. Large batches are searched once, with more moves.
const STEPS: std::ops::RangeInclusive<usize> = 10_000..=300_000;
const STEPS_PER_REQUEST: usize = 4000;
const LEAST_PER_REQUEST: usize = 120;
/// So often the threshold falls and the weight of overload rises.
const STAGES: usize = 60;
const FALLS_BY: f64 = 0.93;
const RISES_BY: f64 = 1.06;

/// The server of each request, the best of so many searches: with as few changes as were found for a load that is done by `level`, or nearly.
pub(super) fn search(
    batch: &Batch,
    paces: &Paces,
    level: Level,
    cost: Cost,
    n_searches: u64,
) -> Vec<ServerId> {
    let caps = paces.caps(level);
    let n = batch.n_requests();
    let n_steps = (STEPS_PER_REQUEST * n).clamp(*STEPS.start(), *STEPS.end()).max(LEAST_PER_REQUEST * n);
    let n_searches = if n_steps > *STEPS.end() { 1 } else { n_searches };
    let found = (0..n_searches).map(|seed| {
        let mut search = Search::new(batch, &caps, cost, Seeded::new(seed));
        search.run(n_steps);
        search
    });
    let best = found.min_by(|a, b| a.least_wrong.total_cmp(&b.least_wrong));
    best.map(|best| best.at).unwrap_or_default()
}

#[derive(Debug)]
struct Search<'a> {
    batch: &'a Batch,
    caps: &'a [u64],
    draw: Seeded,
    /// The requests that could be elsewhere.
    movable: Vec<u32>,
    at: Vec<ServerId>,
    loads: Vec<u64>,
    /// The movable requests at each server, and where each is in its list.
    held: Vec<Vec<u32>>,
    position: Vec<u32>,
    /// What a change costs for each usual request's blocks.
    per_block: f64,
    cost: Cost,
    /// A block too much weighs as much as that many changes, times this.
    weight: f64,
    changes: f64,
    overload: u64,
    /// What was wrong with the best answer so far, and what has moved since, from where.
    least_wrong: f64,
    since_best: Vec<(u32, ServerId)>,
}

/// Overload weighs this much in the end, as changes for each usual request's blocks.
const FINAL_WEIGHT: f64 = 1000.0;

impl<'a> Search<'a> {
    /// Everything at home, or at its first replica.
    fn new(batch: &'a Batch, caps: &'a [u64], cost: Cost, draw: Seeded) -> Self {
        let at = super::current(batch);
        let mut search = Self {
            batch,
            caps,
            draw,
            movable: Vec::new(),
            loads: vec![0; caps.len()],
            held: vec![Vec::new(); caps.len()],
            position: vec![0; at.len()],
            per_block: batch.n_requests() as f64 / batch.total_blocks().max(1) as f64,
            cost,
            weight: 2.0,
            changes: 0.0,
            overload: 0,
            least_wrong: 0.0,
            since_best: Vec::new(),
            at,
        };
        for i in 0..search.at.len() {
            let server = search.at[i].index();
            search.loads[server] += batch.blocks(i);
            search.changes += search.change(i, search.at[i]);
            if batch.replicas().of(i).len() > 1 {
                search.movable.push(i as u32);
                search.position[i] = search.held[server].len() as u32;
                search.held[server].push(i as u32);
            }
        }
        search.overload = search.loads.iter().zip(caps).map(|(load, &cap)| load.saturating_sub(cap)).sum();
        search.least_wrong = search.wrong(FINAL_WEIGHT);
        search
    }

    fn run(&mut self, n_steps: usize) {
        if self.movable.is_empty() {
            return;
        }
        let mut threshold = 1.5;
        for _ in 0..STAGES {
            for _ in 0..n_steps / STAGES {
                self.step(threshold);
            }
            threshold *= FALLS_BY;
            self.weight *= RISES_BY;
        }
        // At the end, only what helps.
        self.weight = FINAL_WEIGHT;
        for _ in 0..n_steps / STAGES {
            self.step(0.0);
        }
        self.undo_to(0);
    }

    /// What it costs if a server serves a request.
    fn change(&self, i: usize, server: ServerId) -> f64 {
        match (self.batch.current(i), self.cost) {
            (Some(current), Cost::Changes) if current != server => 1.0,
            (Some(current), Cost::Blocks) if current != server => {
                self.batch.blocks(i) as f64 * self.per_block
            }
            _ => 0.0,
        }
    }

    /// Tries one move, or two at once.
    fn step(&mut self, threshold: f64) {
        let before = self.wrong(self.weight);
        let n_before = self.since_best.len();
        let Some(first) = self.drawn() else { return };
        let to = self.elsewhere(first);
        self.shift(first, to);
        if self.draw.below(2) == 0
            && let Some(second) = self.drawn_at(to).filter(|&second| second != first)
        {
            let to = self.elsewhere(second);
            self.shift(second, to);
        }
        if self.wrong(self.weight) > before + threshold * self.draw.unit() {
            self.undo_to(n_before);
        } else if self.wrong(FINAL_WEIGHT) < self.least_wrong {
            self.least_wrong = self.wrong(FINAL_WEIGHT);
            self.since_best.clear();
        }
    }

    /// A request that may move: half of the time one of a server that is fuller than another.
    fn drawn(&mut self) -> Option<u32> {
        if self.draw.below(2) == 0 {
            let (a, b) = (self.drawn_server(), self.drawn_server());
            let fullness = |s: ServerId| self.loads[s.index()] as f64 / self.caps[s.index()].max(1) as f64;
            let fuller = if fullness(a) >= fullness(b) { a } else { b };
            if let Some(request) = self.drawn_at(fuller) {
                return Some(request);
            }
        }
        let k = self.draw.below(self.movable.len() as u32);
        self.movable.get(k as usize).copied()
    }

    fn drawn_server(&mut self) -> ServerId {
        ServerId(self.draw.below(self.caps.len() as u32))
    }

    fn drawn_at(&mut self, server: ServerId) -> Option<u32> {
        let n = self.held[server.index()].len() as u32;
        (n > 0).then(|| self.held[server.index()][self.draw.below(n) as usize])
    }

    /// Another replica of a request.
    fn elsewhere(&mut self, request: u32) -> ServerId {
        let set = self.batch.replicas().of(request as usize);
        let k = self.draw.below(set.len() as u32 - 1) as usize;
        if set[k] == self.at[request as usize] { set[set.len() - 1] } else { set[k] }
    }

    fn shift(&mut self, request: u32, to: ServerId) {
        let i = request as usize;
        let from = self.at[i];
        self.changes += self.change(i, to) - self.change(i, from);
        let blocks = self.batch.blocks(i);
        self.set_load(from, self.loads[from.index()] - blocks);
        self.set_load(to, self.loads[to.index()] + blocks);
        let k = self.position[i] as usize;
        self.held[from.index()].swap_remove(k);
        if let Some(&moved) = self.held[from.index()].get(k) {
            self.position[moved as usize] = k as u32;
        }
        self.position[i] = self.held[to.index()].len() as u32;
        self.held[to.index()].push(request);
        self.at[i] = to;
        self.since_best.push((request, from));
    }

    fn set_load(&mut self, server: ServerId, load: u64) {
        let cap = self.caps[server.index()];
        let before = std::mem::replace(&mut self.loads[server.index()], load);
        self.overload = self.overload - before.saturating_sub(cap) + load.saturating_sub(cap);
    }

    fn wrong(&self, weight: f64) -> f64 {
        self.changes + weight * self.overload as f64 * self.per_block
    }

    /// Undoes the latest moves, until so many are left since the best answer.
    fn undo_to(&mut self, n_moves: usize) {
        while self.since_best.len() > n_moves
            && let Some((request, from)) = self.since_best.pop()
        {
            self.shift(request, from);
            self.since_best.pop();
        }
    }
}
