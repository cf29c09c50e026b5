//! Who leads: which server serves each request from now on, if one serves it today and every change costs something.
//!
//! Some stores let one server lead each group of data, and an operator say which: Ceph's primaries, Kafka's leaders. The
//! best leaders are an optimal choice of replicas, but of all such choices the one nearest to today's is wanted: each
//! change interrupts clients for a moment. Requests are whole here, since a group has one leader.
//!
//! If all requests have the same size, [`fewest`] is exact: a minimum-cost flow (`graph::flow::cheapest`) finds the
//! fewest changes for a level, and its prices prove them. Otherwise even the best level is hard to find (restricted
//! assignment, strongly NP-hard); `search` finds good answers, and `prices` a bound on how much better they could be.
//!
//! [`today`] is what there is; [`ceph_read`] is what Ceph's own balancer makes of it.

pub mod ceph_read;
mod level;
mod prices;
mod search;
pub mod watch;

use crate::bound::{Bound, Cost, Prices};
use crate::graph::flow::cheapest::Cheapest;
use crate::graph::flow::pace::{Level, Paces, time};
use crate::model::{Batch, Choice, Cluster, Ratio, ServerId};
use crate::select::{Goal, optimal};

/// What is wanted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Target {
    /// The last server is done as early as possible.
    Optimum,
    /// The last server is done within this many times the bound, 1.05 for instance.
    Within(f64),
    /// The last server is done as early as this many changes allow.
    Changes(u64),
}

/// What is wanted, and at which cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wish {
    /// How good the choice is to be.
    pub target: Target,
    /// What is to be least.
    pub cost: Cost,
}

impl Default for Wish {
    /// The optimum with the fewest changes.
    fn default() -> Self {
        Self { target: Target::Optimum, cost: Cost::Changes }
    }
}

/// A choice near today's.
#[derive(Clone, Debug)]
pub struct Lead {
    /// Which server serves each request.
    pub choice: Choice,
    /// How many requests another server serves than today, and their blocks.
    pub changed: Changed,
    /// When the last server is done.
    pub level: Ratio,
    /// No choice has a lower level.
    pub bound: Bound,
    /// No choice of whole requests that is done by this time costs less than the prices prove.
    pub target: Ratio,
    /// Prove how little any choice that meets the target can cost, by [`crate::check::cost`].
    pub prices: Prices,
    /// How good a choice so many changes allow, from today's on; the last one is as good as it gets.
    pub curve: Vec<Point>,
}

/// How much differs from today.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Changed {
    /// Requests.
    pub requests: u64,
    /// Their blocks.
    pub blocks: u64,
}

impl Changed {
    /// What differs from today in a choice of whole requests.
    pub fn between(batch: &Batch, servers: &[ServerId]) -> Self {
        let mut changed = Self::default();
        for (i, &server) in servers.iter().enumerate() {
            if batch.current(i).is_some_and(|current| current != server) {
                changed.requests += 1;
                changed.blocks += batch.blocks(i);
            }
        }
        changed
    }

    fn cost(self, cost: Cost) -> u64 {
        match cost {
            Cost::Changes => self.requests,
            Cost::Blocks => self.blocks,
        }
    }
}

/// A point of the trade-off between changes and balance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// How much changes.
    pub changed: Changed,
    /// When the last server is done then.
    pub level: Ratio,
}

/// The server that serves each request today; the first replica where nobody does, or one that is no replica.
pub fn current(batch: &Batch) -> Vec<ServerId> {
    let current = |(i, set): (usize, &[ServerId])| {
        batch.current(i).filter(|current| set.contains(current)).unwrap_or(set[0])
    };
    batch.replicas().iter().enumerate().map(current).collect()
}

/// When the last server is done today. Requests that nobody serves do not count.
pub fn today(batch: &Batch, cluster: &Cluster) -> Ratio {
    time(today_level(batch, &Paces::new(cluster)))
}

fn today_level(batch: &Batch, paces: &Paces) -> Level {
    let mut loads = vec![0; batch.n_servers()];
    for i in 0..batch.n_requests() {
        if let Some(server) = batch.current(i) {
            loads[server.index()] += batch.blocks(i);
        }
    }
    level::last(paces, &loads)
}

/// The choice of whole requests that meets the target and costs the least beside what there is today.
///
/// A request that is not served today, or not by one of its replicas, costs the same wherever it goes. If the target is
/// a number of changes that is too small even for these, the others stay where they are.
pub fn fewest(batch: &Batch, cluster: &Cluster, wish: &Wish) -> Lead {
    // Empty requests stay where they are; they weigh nothing.
    let is_heavy = |&i: &u32| batch.blocks(i as usize) > 0;
    let heavy: Vec<u32> = (0..batch.n_requests() as u32).filter(is_heavy).collect();
    let rest = (heavy.len() < batch.n_requests()).then(|| batch.subset(&heavy));
    let problem = Problem::new(rest.as_ref().unwrap_or(batch), cluster, wish.cost);
    let (best, curve) = problem.best();
    let (target, solved) = problem.solve(wish.target, &best);
    let prices = problem.prices(target, &solved);

    let mut servers = current(batch);
    heavy.iter().zip(&solved.servers).for_each(|(&i, &server)| servers[i as usize] = server);
    Lead {
        changed: Changed::between(batch, &servers),
        choice: Choice::whole(servers),
        level: time(solved.level),
        bound: problem.bound,
        target: time(target.max(solved.level)),
        prices,
        curve: curve.into_iter().map(|(changed, level)| Point { changed, level: time(level) }).collect(),
    }
}

/// A choice, and when the last server is done.
#[derive(Clone, Debug)]
struct Solved {
    servers: Vec<ServerId>,
    level: Level,
    /// The prices of servers, if the answer is exact.
    prices: Option<Vec<u32>>,
}

/// Requests that are not empty, and what is known of any answer.
#[derive(Debug)]
struct Problem<'a> {
    batch: &'a Batch,
    paces: Paces,
    cost: Cost,
    /// The size of all requests, if they have one.
    size: Option<u64>,
    bound: Bound,
    bound_level: Level,
}

impl<'a> Problem<'a> {
    fn new(batch: &'a Batch, cluster: &Cluster, cost: Cost) -> Self {
        let first = if batch.n_requests() > 0 { batch.blocks(0) } else { 1 };
        let is_equal = batch.sizes().is_none_or(|sizes| sizes.iter().all(|&size| size == first));
        let paces = Paces::new(cluster);
        let (bound_level, proof) = optimal::bound_level(batch, cluster, Goal::MaxLoad);
        Self {
            batch,
            paces,
            cost,
            size: is_equal.then_some(first),
            bound: Bound { value: time(bound_level), proof },
            bound_level,
        }
    }

    /// The best choice, with the fewest changes, and the trade-off on the way there.
    fn best(&self) -> (Solved, Vec<(Changed, Level)>) {
        let Some(size) = self.size else {
            let best = self.searched_best();
            let points: Vec<Solved> = self.halvings(best.level).map(|level| self.searched(level)).collect();
            return self.with_curve(&points, best);
        };
        let level = level::least(self.batch, &self.paces, size, self.bound_level);
        // Each answer begins with the last one, so that all of them cost little more than the best alone.
        let mut flow = self.at_home();
        let points: Vec<Solved> =
            self.halvings(level).filter_map(|level| self.exact(&mut flow, size, level)).collect();
        let best = self.exact(&mut flow, size, level).unwrap_or_else(|| self.searched(level));
        self.with_curve(&points, best)
    }

    /// The best choice that is found where requests differ in size.
    fn searched_best(&self) -> Solved {
        let mut best = self.searched(self.bound_level);
        let mut low = self.bound_level;
        // The least overload need not be the lowest level.
        for _ in 0..6 {
            if best.level <= low {
                break;
            }
            let middle = level::between(best.level, low, 1);
            let solved = self.searched(middle);
            if solved.level < best.level { best = solved } else { low = middle }
        }
        // Fewer changes may do for the level that was reached. This one matters most.
        let again = self.searched_well(best.level);
        if again.level <= best.level && self.costs(&again) < self.costs(&best) { again } else { best }
    }

    /// Levels between that without a change and the best, each of which halves the distance.
    fn halvings(&self, best: Level) -> impl Iterator<Item = Level> {
        let unchanged = self.level_of(&current(self.batch));
        let levels = (1..=6).map(move |halvings| level::between(unchanged, best, halvings));
        levels.take_while(move |level| *level > best)
    }

    /// The best, and those of the others, today's among them, that no other beats.
    fn with_curve(&self, others: &[Solved], best: Solved) -> (Solved, Vec<(Changed, Level)>) {
        let of = |solved: &Solved| (self.changed(solved), solved.level);
        let mut points: Vec<(Changed, Level)> = others.iter().chain([&best]).map(of).collect();
        if self.batch.has_current() && Changed::between(self.batch, &current(self.batch)).requests == 0 {
            // All that nobody serves yet has to go somewhere, at no cost.
            points.push((Changed::default(), self.level_of(&current(self.batch))));
        }
        // A search may do better with fewer changes.
        points.sort_by_key(|(changed, level)| (changed.cost(self.cost), *level));
        let mut lowest: Option<Level> = None;
        points.retain(|(_, level)| {
            let is_better = lowest.is_none_or(|lowest| *level < lowest);
            lowest = Some(lowest.map_or(*level, |lowest| lowest.min(*level)));
            is_better
        });
        (best, points)
    }

    fn solve(&self, target: Target, best: &Solved) -> (Level, Solved) {
        match target {
            Target::Optimum => (best.level, best.clone()),
            Target::Within(ratio) => {
                let level = level::scaled(self.bound_level, ratio).max(best.level);
                (level, self.at(level, best))
            }
            Target::Changes(most) => {
                let solved = match self.size {
                    Some(size) => self.exact_within(most, size, best),
                    None => self.searched_within(most, best),
                };
                (solved.level, solved)
            }
        }
    }

    /// The cheapest choice that is done by `level`, at which `best` is done, too.
    fn at(&self, level: Level, best: &Solved) -> Solved {
        let solved = match self.size {
            Some(size) => self.exact(&mut self.at_home(), size, level),
            None => Some(self.searched_well(level)),
        };
        // A search may miss what is there.
        solved.filter(|solved| solved.level <= level).unwrap_or_else(|| best.clone())
    }

    fn changed(&self, solved: &Solved) -> Changed {
        Changed::between(self.batch, &solved.servers)
    }

    fn costs(&self, solved: &Solved) -> u64 {
        self.changed(solved).cost(self.cost)
    }

    fn at_home(&self) -> Cheapest<'_> {
        Cheapest::new(self.batch.replicas(), self.batch.n_servers(), |i| self.batch.current(i))
    }

    /// The fewest changes, for requests of one size. None if no choice is done by `level`.
    fn exact(&self, from: &mut Cheapest<'_>, size: u64, level: Level) -> Option<Solved> {
        let caps = self.paces.caps(level).into_iter().map(|blocks| blocks / size).collect();
        from.tighten(caps).then(|| {
            let servers: Vec<ServerId> = from.servers().collect();
            let level = self.level_of(&servers);
            Solved { servers, level, prices: Some(from.prices().to_vec()) }
        })
    }

    /// The lowest level with at most this cost, by bisection: the lower the level, the more changes.
    fn exact_within(&self, most: u64, size: u64, best: &Solved) -> Solved {
        if self.costs(best) <= most {
            return best.clone();
        }
        // What stays at home is done by then, wherever the others go.
        let most_level = self.level_of(&current(self.batch));
        let levels = level::steps(&self.paces, size, best.level, most_level, self.batch.n_requests());
        let solve = |level: Level| self.exact(&mut self.at_home(), size, level);
        let (mut low, mut high) = (0, levels.len());
        let mut found = None;
        while low < high {
            let middle = usize::midpoint(low, high);
            match solve(levels[middle]).filter(|solved| self.costs(solved) <= most) {
                Some(solved) => (high, found) = (middle, Some(solved)),
                None => low = middle + 1,
            }
        }
        found.unwrap_or_else(|| {
            let servers = current(self.batch);
            Solved { level: self.level_of(&servers), servers, prices: None }
        })
    }

    fn searched(&self, level: Level) -> Solved {
        self.searched_often(level, 2)
    }

    fn searched_well(&self, level: Level) -> Solved {
        self.searched_often(level, 24)
    }

    fn searched_often(&self, level: Level, n_searches: u64) -> Solved {
        let servers = search::search(self.batch, &self.paces, level, self.cost, n_searches);
        Solved { level: self.level_of(&servers), servers, prices: None }
    }

    /// A low level with at most this cost. A search is not monotone, so that all that was found is compared.
    fn searched_within(&self, most: u64, best: &Solved) -> Solved {
        let servers = current(self.batch);
        let mut found = Solved { level: self.level_of(&servers), servers, prices: None };
        if self.costs(best) <= most {
            return best.clone();
        }
        let (mut low, mut high) = (best.level, found.level);
        for _ in 0..12 {
            let middle = level::between(high, low, 1);
            let solved = self.searched(middle);
            if self.costs(&solved) > most {
                low = middle;
                continue;
            }
            if solved.level < found.level {
                found = solved;
            }
            high = middle.min(found.level);
        }
        found
    }

    fn level_of(&self, servers: &[ServerId]) -> Level {
        let mut loads = vec![0; self.batch.n_servers()];
        servers.iter().enumerate().for_each(|(i, server)| loads[server.index()] += self.batch.blocks(i));
        level::last(&self.paces, &loads)
    }

    /// Prices that prove how little any choice that is done by `level` costs.
    fn prices(&self, level: Level, solved: &Solved) -> Prices {
        let unit = if self.cost == Cost::Changes { 1 } else { self.size.unwrap_or(1) };
        match (&solved.prices, self.size) {
            (Some(prices), Some(size)) => {
                Prices { scale: size, of: prices.iter().map(|&price| u64::from(price) * unit).collect() }
            }
            _ => prices::ascend(self.batch, &self.paces.caps(level.max(solved.level)), self.cost),
        }
    }
}
