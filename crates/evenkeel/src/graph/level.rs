//! The least possible maximum load: greedy, then Newton steps on the level with flow in between.
//!
//! The level starts at a proven lower bound. While some server is above it, load is moved to servers below
//! it; when that is no longer possible, the overloaded servers and all they reach form a closed set A, whose
//! load is forced, so ⌈load(A)/|A|⌉ is the next, higher, proven level. At the end no load is above the level,
//! and the last closed set proves that no plan has a lower one.

use super::balance::{Balance, Divided, Shares, Whole, items_at};
use super::greedy::roughly_level;
use super::groups::Groups;
use crate::model::{Replicas, ServerId};

/// Searches after which it is worth trying whether equal replica sets can be merged.
const SEARCHES_BEFORE_GROUPING: usize = 8;

/// Items to be placed: requests, or groups of requests with equal replica sets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Items<'a> {
    pub(crate) replicas: Replicas<'a>,
    /// `None`: one block each.
    pub(crate) sizes: Option<&'a [u64]>,
    pub(crate) total: u64,
    pub(crate) n_servers: usize,
}

impl Items<'_> {
    pub(crate) fn size(&self, i: usize) -> u64 {
        self.sizes.map_or(1, |sizes| sizes[i])
    }
}

/// How the items were placed.
#[derive(Debug)]
pub(crate) enum Placed {
    /// Each at one server.
    Whole(Vec<ServerId>),
    /// So much of each at each position of the flat replica sets.
    Divided(Vec<u64>),
}

/// What the loads are to be good at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Aim {
    /// The largest load, down to this level; what is below does not matter.
    MaxDownTo(u64),
    /// All norms at once: no load can be moved from a server to one that has two blocks less.
    AllNorms,
}

/// Placed items with the proof of how good the placement is.
#[derive(Debug)]
pub(crate) struct Levelled {
    pub(crate) placed: Placed,
    /// No load is above this.
    pub(crate) level: u64,
    /// The servers whose forced load proves the level; `None` if the level is the one that was aimed at.
    pub(crate) proof: Option<Vec<ServerId>>,
}

/// Places the items as well as possible.
pub(crate) fn level(items: Items<'_>, aim: Aim) -> Levelled {
    if Groups::promising(items) {
        let groups = Groups::new(items);
        if groups.worthwhile() {
            return level_grouped(&groups, items, aim);
        }
    }
    let floor = match aim {
        Aim::MaxDownTo(floor) => floor,
        Aim::AllNorms => 0,
    };
    let Items { replicas, n_servers, .. } = items;
    let goal = floor.max(items.total.div_ceil(n_servers.max(1) as u64));
    let (at, loads) = match items.sizes {
        None => roughly_level(replicas, |_| 1, n_servers, goal),
        Some(sizes) => roughly_level(replicas, |i| sizes[i], n_servers, goal),
    };
    let active = active_servers(replicas, &loads);
    let average = average(items.total, &active);
    if max(&loads) <= floor.max(average) && aim != Aim::AllNorms {
        let proof = (average >= floor).then_some(active);
        return Levelled { placed: Placed::Whole(at), level: floor.max(average), proof };
    }
    let solved = if items.sizes.is_none() {
        let counts = loads.iter().map(|&load| load as usize);
        let listed = items_at(counts, (0..).zip(at.iter().copied()));
        let shares = Whole { at, replicas };
        let mut balance = Balance::new(replicas, loads, shares, listed);
        run_or_group(&mut balance, items, &active, aim)
            .map(|(level, proof)| (Placed::Whole(balance.shares.at), level, proof))
    } else {
        let shares = Divided(shares_of_whole(items, &at));
        // An empty item has no share anywhere: it is not listed.
        let placed = (0..).zip(at.iter().copied()).filter(|&(i, _)| items.size(i as usize) > 0);
        let listed = items_at(counts(n_servers, placed.clone()), placed);
        let mut balance = Balance::new(replicas, loads, shares, listed);
        run_or_group(&mut balance, items, &active, aim)
            .map(|(level, proof)| (Placed::Divided(balance.shares.0), level, proof))
    };
    match solved {
        Ok((placed, level, proof)) => Levelled { placed, level, proof },
        Err(groups) => level_grouped(&groups, items, aim),
    }
}

/// How many items are placed at each server.
fn counts(n_servers: usize, placed: impl Iterator<Item = (u32, ServerId)>) -> impl Iterator<Item = usize> {
    let mut counts = vec![0; n_servers];
    placed.for_each(|(_, server)| counts[server.index()] += 1);
    counts.into_iter()
}

/// The shares of items that lie whole at their servers.
fn shares_of_whole(items: Items<'_>, at: &[ServerId]) -> Vec<u64> {
    let mut shares = vec![0; items.replicas.flat().len()];
    for (i, &server) in at.iter().enumerate() {
        let slot = items.replicas.of(i).iter().position(|&s| s == server);
        shares[items.replicas.start(i) + slot.unwrap_or(0)] = items.size(i);
    }
    shares
}

/// As [`level`], on groups of items with equal replica sets: the cost depends on the groups alone.
fn level_grouped(groups: &Groups, items: Items<'_>, aim: Aim) -> Levelled {
    let merged = groups.items(items.n_servers, items.total);
    let mut loads = vec![0; items.n_servers];
    let mut shares = vec![0; merged.replicas.flat().len()];
    for i in 0..merged.replicas.len() {
        let start = merged.replicas.start(i);
        let set = merged.replicas.of(i);
        fill_evenly(set, merged.size(i), &mut loads, &mut shares[start..start + set.len()]);
    }
    let active = active_servers(merged.replicas, &loads);
    let mut listed = Vec::new();
    for i in 0..merged.replicas.len() {
        let start = merged.replicas.start(i);
        let servers = merged.replicas.of(i).iter().zip(&shares[start..]);
        listed.extend(servers.filter(|&(_, &share)| share > 0).map(|(&s, _)| (i as u32, s)));
    }
    let placed = listed.iter().copied();
    let listed = items_at(counts(items.n_servers, placed.clone()), placed);
    let mut balance = Balance::new(merged.replicas, loads, Divided(shares), listed);
    let (level, proof) = run_to_end(&mut balance, items.total, &active, aim);
    Levelled { placed: groups.hand_out(items, balance.shares.0), level, proof }
}

type LevelAndProof = (u64, Option<Vec<ServerId>>);

/// Moves load until `aim` is reached; if that takes long and merging pays, the groups to go on with instead.
fn run_or_group<P: Shares>(
    balance: &mut Balance<'_, P>,
    items: Items<'_>,
    active: &[ServerId],
    aim: Aim,
) -> Result<LevelAndProof, Groups> {
    if let Some(done) = run(balance, items.total, active, aim, SEARCHES_BEFORE_GROUPING) {
        return Ok(done);
    }
    let groups = Groups::new(items);
    if groups.worthwhile() { Err(groups) } else { Ok(run_to_end(balance, items.total, active, aim)) }
}

fn run_to_end<P: Shares>(
    balance: &mut Balance<'_, P>,
    total: u64,
    active: &[ServerId],
    aim: Aim,
) -> LevelAndProof {
    let done = run(balance, total, active, aim, usize::MAX);
    done.unwrap_or_else(|| unreachable!("a search without limit does not give up"))
}

/// Moves load until `aim` is reached; the level and its proof, or `None` after too many searches.
fn run<P: Shares>(
    balance: &mut Balance<'_, P>,
    total: u64,
    active: &[ServerId],
    aim: Aim,
    max_searches: usize,
) -> Option<LevelAndProof> {
    let Aim::MaxDownTo(floor) = aim else {
        all_norms(balance, active.to_vec());
        return Some((max(&balance.loads), Some(balance.reach_of_fullest(active))));
    };
    let average = average(total, active);
    let (mut level, mut proof) = (floor.max(average), (average >= floor).then(|| active.to_vec()));
    // What the fullest servers reach is mostly the closed set itself, so that one step goes to the optimum
    // and no load is moved that does not matter.
    let mut closed = balance.reach_of_fullest(active);
    loop {
        let forced: u128 = closed.iter().map(|s| u128::from(balance.loads[s.index()])).sum();
        let forced = forced.div_ceil(closed.len().max(1) as u128) as u64;
        if forced > level {
            (level, proof) = (forced, Some(closed.clone()));
        }
        if max(&balance.loads) <= level {
            return Some((level, proof));
        }
        // Nothing leaves a closed set, so the search can keep to it if all that is too full lies there.
        let above = |zone: &[ServerId]| zone.iter().filter(|s| balance.loads[s.index()] > level).count();
        let zone = if above(&closed) == above(active) { &closed } else { active };
        closed = balance.relieve(zone, |_| level, max_searches)?;
    }
}

/// Removes every path along which load could go to a server with two blocks less.
///
/// Splits a zone at its average: servers above it, and all they reach, can only stay at or above, the others
/// at or below; each part is then a zone of its own, since no load needs to cross.
fn all_norms<P: Shares>(balance: &mut Balance<'_, P>, active: Vec<ServerId>) {
    let mut zones = vec![active];
    let mut is_high = vec![false; balance.loads.len()];
    while let Some(zone) = zones.pop() {
        let sum: u128 = zone.iter().map(|s| u128::from(balance.loads[s.index()])).sum();
        let average = (sum / zone.len().max(1) as u128) as u64;
        let next = average.saturating_add(1);
        for cap in [average, next] {
            let is_level = |s: &ServerId| (average..=next).contains(&balance.loads[s.index()]);
            if zone.iter().all(is_level) {
                break;
            }
            let Some(high) = balance.relieve(&zone, |_| cap, usize::MAX) else { continue };
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

/// Pours `amount` over the servers of `set` so that the lowest rise together.
fn fill_evenly(set: &[ServerId], amount: u64, loads: &mut [u64], shares: &mut [u64]) {
    let mut by_load: Vec<usize> = (0..set.len()).collect();
    by_load.sort_by_key(|&k| loads[set[k].index()]);
    let mut rest = u128::from(amount);
    let mut n = 1;
    // The lowest n servers are raised to the n+1st while there is enough.
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

/// The servers that hold a replica of anything.
fn active_servers(replicas: Replicas<'_>, loads: &[u64]) -> Vec<ServerId> {
    let mut active: Vec<bool> = loads.iter().map(|&load| load > 0).collect();
    // Rarely needed: a server that holds something mostly serves something.
    if active.contains(&false) {
        replicas.flat().iter().for_each(|s| active[s.index()] = true);
    }
    (0..).map(ServerId).zip(active).filter_map(|(s, is)| is.then_some(s)).collect()
}

/// The load of each server if all were equal: no maximum is lower.
fn average(total: u64, active: &[ServerId]) -> u64 {
    total.div_ceil(active.len().max(1) as u64)
}

fn max(loads: &[u64]) -> u64 {
    loads.iter().copied().max().unwrap_or(0)
}
