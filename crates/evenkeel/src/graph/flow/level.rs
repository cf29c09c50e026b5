//! The least possible maximum load: a greedy start, then Newton steps on the level with flow in between.
//!
//! The level starts at a proven lower bound: the time that all servers need for everything. If the greedy start is far
//! from that, it is the time that the servers that are done last need for the load that no other server can take; of
//! all such sets, the one that needs longest counts. While some server has more than it can do by then, load moves to
//! servers that have less. When that is no longer possible, the overloaded servers and all they reach form a closed set
//! A, whose load is forced. The time that A needs for it is the next, higher, proven level. At the end no server is
//! done after the level, and the last closed set proves that no plan has a lower one. With equal servers the time that
//! A needs is ⌈load(A)/|A|⌉; in general it is the first time at which the work its servers can do adds up to the load
//! ([`Paces::level_for`]).

use super::balance::{Balance, Divided, Shares, Whole, items_at};
use super::greedy::{ByLoad, ByTime, roughly_level};
use super::groups::Groups;
use super::pace::{Level, Paces};
use crate::model::{Replicas, ServerId};

/// The number of searches after which it is worth trying to merge equal replica sets.
const SEARCHES_BEFORE_GROUPING: usize = 40;

/// With more items than this, only some are listed at first.
const MANY_ITEMS: usize = 1 << 16;

/// Items to be placed: requests, or groups of requests with equal replica sets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Items<'a> {
    pub(crate) replicas: Replicas<'a>,
    /// `None`: one block each.
    pub(crate) sizes: Option<&'a [u64]>,
    pub(crate) total: u64,
    pub(crate) paces: &'a Paces,
}

impl Items<'_> {
    pub(crate) fn size(&self, i: usize) -> u64 {
        self.sizes.map_or(1, |sizes| sizes[i])
    }

    pub(crate) fn n_servers(&self) -> usize {
        self.paces.len()
    }
}

/// How the items were placed.
#[derive(Debug)]
pub(crate) enum Placed {
    /// Each item at one server.
    Whole(Vec<ServerId>),
    /// The amount of its item at each position of the flat replica sets.
    Divided(Vec<u64>),
}

/// What to optimise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Aim {
    /// All servers are done early, down to this level; nothing below it matters.
    MaxDownTo(Level),
    /// As little as possible is left undone at this level.
    Under(Level),
    /// All norms at once: no block can move to where it would be done earlier.
    AllNorms,
}

/// The placed items, with a proof of how good the placement is.
#[derive(Debug)]
pub(crate) struct Levelled {
    pub(crate) placed: Placed,
    /// No server is done after this, except for load that must be left undone.
    pub(crate) level: Level,
    /// The servers whose forced load proves the level; `None` if the level is the one aimed at.
    pub(crate) proof: Option<Vec<ServerId>>,
}

/// Places the items as well as possible.
pub(crate) fn level(items: Items<'_>, aim: Aim) -> Levelled {
    if Groups::promising(items) {
        let groups = Groups::new(items);
        if groups.worthwhile() {
            return level_grouped(groups, items, aim);
        }
    }
    let Items { replicas, paces, .. } = items;
    let floor = floor(aim);
    let all_servers: Vec<ServerId> = (0..paces.len() as u32).map(ServerId).collect();
    let goal = paces.caps(match aim {
        Aim::Under(level) => level,
        _ => floor.max(paces.level_for(&all_servers, None, items.total.into())),
    });
    let (at, loads) = match (paces.is_equal(), items.sizes) {
        (true, None) => roughly_level(replicas, |_| 1, &ByLoad, &goal),
        (true, Some(sizes)) => roughly_level(replicas, |i| sizes[i], &ByLoad, &goal),
        (false, None) => roughly_level(replicas, |_| 1, &ByTime::new(paces, items.total), &goal),
        (false, Some(sizes)) => {
            roughly_level(replicas, |i| sizes[i], &ByTime::new(paces, items.total), &goal)
        }
    };
    level_from(items, aim, at, loads)
}

/// Like [`level`], for items that already lie at servers: an item that need not move stays there.
pub(crate) fn relevel(items: Items<'_>, aim: Aim, at: Vec<ServerId>) -> Levelled {
    let mut loads = vec![0; items.n_servers()];
    at.iter().enumerate().for_each(|(i, server)| loads[server.index()] += items.size(i));
    level_from(items, aim, at, loads)
}

/// Moves the items that lie at servers, as well as possible.
fn level_from(items: Items<'_>, aim: Aim, at: Vec<ServerId>, loads: Vec<u64>) -> Levelled {
    let replicas = items.replicas;
    let start = Start::new(items, &loads, aim);
    if fits(&loads, &start.caps) && aim != Aim::AllNorms {
        return Levelled { placed: Placed::Whole(at), level: start.level, proof: start.proof };
    }
    let solved = if items.sizes.is_none() {
        let are_all_listed = at.len() < MANY_ITEMS || !matches!(aim, Aim::MaxDownTo(_));
        let shares = Whole { at, replicas, are_all_listed };
        let listed = shares.listed(&loads);
        let mut balance = Balance::new(replicas, loads, shares, listed);
        run_or_group(&mut balance, items, &start, aim)
            .map(|(level, proof)| (Placed::Whole(balance.shares.at), level, proof))
    } else {
        let shares = Divided(shares_of_whole(items, &at));
        // An empty item has no share anywhere, so it is not listed.
        let placed = (0..).zip(at.iter().copied()).filter(|&(i, _)| items.size(i as usize) > 0);
        let listed = items_at(counts(items.n_servers(), placed.clone()), placed);
        let mut balance = Balance::new(replicas, loads, shares, listed);
        run_or_group(&mut balance, items, &start, aim)
            .map(|(level, proof)| (Placed::Divided(balance.shares.0), level, proof))
    };
    match solved {
        Ok((placed, level, proof)) => Levelled { placed, level, proof },
        Err(groups) => level_grouped(groups, items, aim),
    }
}

fn floor(aim: Aim) -> Level {
    match aim {
        Aim::MaxDownTo(floor) | Aim::Under(floor) => floor,
        Aim::AllNorms => Level::ZERO,
    }
}

fn fits(loads: &[u64], caps: &[u64]) -> bool {
    loads.iter().zip(caps).all(|(load, cap)| load <= cap)
}

/// The initial level.
#[derive(Clone)]
struct Start {
    level: Level,
    caps: Vec<u64>,
    /// The servers that need this long, if the level is not the floor.
    proof: Option<Vec<ServerId>>,
}

impl Start {
    fn new(items: Items<'_>, loads: &[u64], aim: Aim) -> Self {
        let paces = items.paces;
        let (mut level, mut proof) = (floor(aim), None);
        if !matches!(aim, Aim::Under(_)) {
            let all: Vec<ServerId> = (0..paces.len() as u32).map(ServerId).collect();
            let average = paces.level_for(&all, None, items.total.into());
            let above = loads.iter().zip(paces.caps(average)).map(|(load, cap)| load.saturating_sub(cap));
            // If hardly anything has to move, it probably can.
            let is_uneven = above.sum::<u64>() >= items.total / 256;
            let fullest = is_uneven.then(|| fullest(items, loads));
            let fullest = fullest.map(|(servers, forced)| (paces.level_for(&servers, None, forced), servers));
            match fullest.filter(|&(needed, _)| needed > average) {
                Some((needed, servers)) if needed >= level => (level, proof) = (needed, Some(servers)),
                None if average >= level => {
                    (level, proof) = (average, Some(active_servers(items.replicas, loads)));
                }
                _ => {}
            }
        }
        Self { level, caps: paces.caps(level), proof }
    }
}

/// Among the sets of the servers that are done last, the one that needs longest for the load that no other server can
/// take, and that load.
fn fullest(items: Items<'_>, loads: &[u64]) -> (Vec<ServerId>, u128) {
    let Items { replicas, paces, .. } = items;
    let gauges: Vec<(f64, f64)> = (0..loads.len() as u32).map(|s| paces.gauge(ServerId(s))).collect();
    let done = |s: &ServerId| gauges[s.index()].0 + gauges[s.index()].1 * loads[s.index()] as f64;
    let mut servers: Vec<ServerId> = (0..loads.len() as u32).map(ServerId).collect();
    servers.sort_by(|a, b| done(b).total_cmp(&done(a)));
    let mut ranks = vec![0_u32; loads.len()];
    (0..).zip(&servers).for_each(|(rank, s)| ranks[s.index()] = rank);
    // The load that only the servers up to each rank can take.
    let mut forced = vec![0; loads.len()];
    let mut count = |item: usize, set: &[ServerId]| {
        let last = set.iter().map(|s| ranks[s.index()]).fold(0, u32::max);
        forced[last as usize] += items.size(item);
    };
    // Sets of a known width compile to straight-line code.
    let (items, flat) = (0..replicas.len(), replicas.flat());
    match replicas.width() {
        Some(2) => items.for_each(|i| count(i, &flat.as_chunks::<2>().0[i])),
        Some(3) => items.for_each(|i| count(i, &flat.as_chunks::<3>().0[i])),
        _ => items.for_each(|i| count(i, replicas.of(i))),
    }
    let (mut work, mut rate, mut sum) = (0.0, 0.0, 0);
    let (mut longest, mut best) = (f64::MIN, (0, 0));
    for (k, (server, forced)) in servers.iter().zip(forced).enumerate() {
        let (base, cost) = gauges[server.index()];
        (work, rate, sum) = (work + base / cost, rate + 1.0 / cost, sum + u128::from(forced));
        let needed = (work + sum as f64) / rate;
        if needed > longest {
            (longest, best) = (needed, (k + 1, sum));
        }
    }
    servers.truncate(best.0);
    (servers, best.1)
}

/// How many items are placed at each server.
fn counts(n_servers: usize, placed: impl Iterator<Item = (u32, ServerId)>) -> impl Iterator<Item = usize> {
    let mut counts = vec![0; n_servers];
    placed.for_each(|(_, server)| counts[server.index()] += 1);
    counts.into_iter()
}

/// The shares of items that lie whole at one server each.
fn shares_of_whole(items: Items<'_>, at: &[ServerId]) -> Vec<u64> {
    let mut shares = vec![0; items.replicas.flat().len()];
    for (i, &server) in at.iter().enumerate() {
        let slot = items.replicas.of(i).iter().position(|&s| s == server);
        shares[items.replicas.start(i) + slot.unwrap_or(0)] = items.size(i);
    }
    shares
}

/// Like [`level`], on groups of items with equal replica sets: the cost depends on the groups alone.
fn level_grouped(groups: Groups, items: Items<'_>, aim: Aim) -> Levelled {
    let merged = groups.items(items.paces, items.total);
    let mut loads = vec![0; items.n_servers()];
    let mut shares = vec![0; merged.replicas.flat().len()];
    for i in 0..merged.replicas.len() {
        let start = merged.replicas.start(i);
        let set = merged.replicas.of(i);
        let shares = &mut shares[start..start + set.len()];
        if items.paces.is_equal() {
            fill_evenly(set, merged.size(i), &mut loads, shares);
        } else {
            fill_in_time(items.paces, set, merged.size(i), &mut loads, shares);
        }
    }
    let mut listed = Vec::new();
    for i in 0..merged.replicas.len() {
        let start = merged.replicas.start(i);
        let servers = merged.replicas.of(i).iter().zip(&shares[start..]);
        listed.extend(servers.filter(|&(_, &share)| share > 0).map(|(&s, _)| (i as u32, s)));
    }
    let placed = listed.iter().copied();
    let listed = items_at(counts(items.n_servers(), placed.clone()), placed);
    let mut balance = Balance::new(merged.replicas, loads, Divided(shares), listed);
    let start = Start::new(merged, &balance.loads, aim);
    let (level, proof) = run_to_end(&mut balance, items, &start, aim);
    let Divided(shares) = balance.shares;
    Levelled { placed: groups.hand_out(items, shares), level, proof }
}

type LevelAndProof = (Level, Option<Vec<ServerId>>);

/// Moves load until `aim` is reached. If that takes long and merging pays, returns the groups to continue with instead.
fn run_or_group<P: Shares>(
    balance: &mut Balance<'_, P>,
    items: Items<'_>,
    start: &Start,
    aim: Aim,
) -> Result<LevelAndProof, Groups> {
    if let Some(done) = run(balance, items.paces, start, aim, SEARCHES_BEFORE_GROUPING) {
        return Ok(done);
    }
    let groups = Groups::new(items);
    if groups.worthwhile() { Err(groups) } else { Ok(run_to_end(balance, items, start, aim)) }
}

fn run_to_end<P: Shares>(
    balance: &mut Balance<'_, P>,
    items: Items<'_>,
    start: &Start,
    aim: Aim,
) -> LevelAndProof {
    let done = run(balance, items.paces, start, aim, usize::MAX);
    done.unwrap_or_else(|| unreachable!("a search without limit does not give up"))
}

/// Moves load until `aim` is reached. Returns the level and its proof, or `None` after too many searches.
fn run<P: Shares>(
    balance: &mut Balance<'_, P>,
    paces: &Paces,
    start: &Start,
    aim: Aim,
    max_searches: usize,
) -> Option<LevelAndProof> {
    let all: Vec<ServerId> = (0..paces.len() as u32).map(ServerId).collect();
    if aim == Aim::AllNorms {
        all_norms(balance, paces, all.clone());
        let level = last_done(paces, &balance.loads, &all);
        return Some((level, Some(balance.reach_of(&all, |s, load| paces.done(s, load) == level))));
    }
    if let Aim::Under(level) = aim {
        balance.relieve(&all, |s| start.caps[s.index()], max_searches)?;
        return Some((level, None));
    }
    let Start { mut level, mut caps, mut proof } = start.clone();
    let mut closed = balance.relieve(&all, |s| caps[s.index()], max_searches)?;
    loop {
        let forced: u128 = closed.iter().map(|s| u128::from(balance.loads[s.index()])).sum();
        let needed = paces.level_for(&closed, None, forced);
        if needed > level {
            (level, caps, proof) = (needed, paces.caps(needed), Some(closed.clone()));
        }
        if fits(&balance.loads, &caps) {
            return Some((level, proof));
        }
        // Nothing leaves a closed set, so the search can stay within it if all overloaded servers are there.
        let is_above = |s: &&ServerId| balance.loads[s.index()] > caps[s.index()];
        let above = |zone: &[ServerId]| zone.iter().filter(is_above).count();
        let zone = if above(&closed) == above(&all) { &closed } else { &all };
        closed = balance.relieve(zone, |s| caps[s.index()], max_searches)?;
    }
}

/// When the last server is done.
fn last_done(paces: &Paces, loads: &[u64], servers: &[ServerId]) -> Level {
    if paces.is_equal() {
        let fullest = servers.iter().copied().max_by_key(|s| loads[s.index()]);
        return fullest.map_or(Level::ZERO, |s| paces.done(s, loads[s.index()]));
    }
    servers.iter().map(|&s| paces.done(s, loads[s.index()])).max().unwrap_or(Level::ZERO)
}

/// Removes every path along which a block could move to where it would be done earlier.
///
/// Splits a zone at the level that it needs. Servers that have more than they can do before that level, and all they
/// reach, can only stay above; the others can only stay below. Each part is then a zone of its own, since no load needs
/// to cross.
fn all_norms<P: Shares>(balance: &mut Balance<'_, P>, paces: &Paces, active: Vec<ServerId>) {
    let mut zones = vec![active];
    let mut is_high = vec![false; balance.loads.len()];
    // The blocks that servers have done before the level of their zone, and by that level.
    let mut bounds = [vec![0; balance.loads.len()], vec![0; balance.loads.len()]];
    while let Some(zone) = zones.pop() {
        let sum: u128 = zone.iter().map(|s| u128::from(balance.loads[s.index()])).sum();
        let level = paces.level_for(&zone, None, sum);
        for &s in &zone {
            bounds[0][s.index()] = paces.cap_before(s, level);
            bounds[1][s.index()] = paces.cap(s, level);
        }
        for caps in &bounds {
            let is_level = |s: &ServerId| {
                let [least, most] = [&bounds[0], &bounds[1]].map(|caps| caps[s.index()]);
                (least..=most).contains(&balance.loads[s.index()])
            };
            if zone.iter().all(is_level) {
                break;
            }
            let Some(high) = balance.relieve(&zone, |s| caps[s.index()], usize::MAX) else { continue };
            if !high.is_empty() && high.len() < zone.len() {
                high.iter().for_each(|s| is_high[s.index()] = true);
                let low = zone.iter().copied().filter(|s| !is_high[s.index()]).collect();
                high.iter().for_each(|s| is_high[s.index()] = false);
                zones.extend([high, low]);
                break;
            }
        }
    }
}

/// Distributes `amount` over the servers of `set` so that the lowest loads rise together.
fn fill_evenly(set: &[ServerId], amount: u64, loads: &mut [u64], shares: &mut [u64]) {
    let mut by_load: Vec<usize> = (0..set.len()).collect();
    by_load.sort_by_key(|&k| loads[set[k].index()]);
    let mut rest = u128::from(amount);
    let mut n = 1;
    // The lowest n servers are raised to the load of the next while there is enough.
    let mut surface = u128::from(loads[set[by_load[0]].index()]);
    while n < set.len() {
        let next = u128::from(loads[set[by_load[n]].index()]);
        let needed = (next - surface) * n as u128;
        if needed > rest {
            break;
        }
        (rest, surface, n) = (rest - needed, next, n + 1);
    }
    surface += rest / n as u128;
    let mut remainder = rest % n as u128;
    for &k in &by_load[..n] {
        let one_more = u128::from(remainder > 0);
        remainder -= one_more;
        let load = &mut loads[set[k].index()];
        let raised = (surface + one_more) as u64;
        shares[k] = raised - *load;
        *load = raised;
    }
}

/// Like [`fill_evenly`], for servers of different paces: each takes what it can do by the level that they need
/// together.
fn fill_in_time(paces: &Paces, set: &[ServerId], amount: u64, loads: &mut [u64], shares: &mut [u64]) {
    let level = paces.level_for(set, Some(loads), amount.into());
    let mut rest = amount;
    for (&server, share) in set.iter().zip(shares) {
        let load = &mut loads[server.index()];
        *share = paces.cap(server, level).saturating_sub(*load).min(rest);
        *load += *share;
        rest -= *share;
    }
}

/// The servers that hold a replica of anything.
fn active_servers(replicas: Replicas<'_>, loads: &[u64]) -> Vec<ServerId> {
    let mut active: Vec<bool> = loads.iter().map(|&load| load > 0).collect();
    // Rarely needed: a server that holds data mostly serves something.
    if active.contains(&false) {
        replicas.flat().iter().for_each(|s| active[s.index()] = true);
    }
    (0..).map(ServerId).zip(active).filter_map(|(s, is)| is.then_some(s)).collect()
}
