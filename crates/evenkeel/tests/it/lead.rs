//! The fewest changes, compared with the best of all choices, and proved by prices.

use std::collections::BTreeMap;

use evenkeel::bound::Cost;
use evenkeel::check;
use evenkeel::draw::{Draw, Seeded};
use evenkeel::lead::{Changed, Lead, Target, Wish, ceph_read, fewest};
use evenkeel::model::{
    Batch, BatchBuilder, Choice, Client, Cluster, Details, Ratio, Server, ServerId, Speed,
};

use crate::support::unordered;

const SPEEDS: [u64; 5] = [1_000_000, 2_000_000, 500_000, 333_333, 100_000];

/// What requests of a random batch are like.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Sizes {
    Equal(u64),
    Any,
}

/// A batch in which most requests are served by one of their replicas, some by another server, some by none.
fn drawn(draw: &mut Seeded, sizes: Sizes, n_servers: u32, n_requests: u32) -> (Batch, Cluster) {
    let names: Vec<String> = (0..n_servers).map(|s| format!("s{s}")).collect();
    let mut batch = BatchBuilder::new();
    for _ in 0..n_requests {
        let mut set: Vec<&str> = names.iter().map(String::as_str).collect();
        for _ in 0..draw.below(n_servers) {
            set.remove(draw.below(set.len() as u32) as usize);
        }
        let current = match draw.below(10) {
            0 => None,
            1 => Some(names[draw.below(n_servers) as usize].as_str()),
            _ => Some(set[draw.below(set.len() as u32).min(draw.below(set.len() as u32)) as usize]),
        };
        let blocks = match sizes {
            Sizes::Equal(blocks) => blocks,
            Sizes::Any => draw.below(6).into(),
        };
        set.iter().for_each(|server| batch.replica(server).expect("a replica"));
        let details = Details { current, ..Details::default() };
        batch.end_request_of_bytes("c", blocks, &details).expect("a request");
    }
    let batch = batch.finish();
    let kind = draw.below(3);
    let servers = (0..batch.n_servers()).map(|_| Server {
        speed: Speed::from_millionths(if kind == 0 { 1_000_000 } else { SPEEDS[draw.below(5) as usize] })
            .expect("a speed"),
        slots: if kind == 2 { 1 + draw.below(3) } else { 1 },
        backlog: if kind == 2 { draw.below(4).into() } else { 0 },
    });
    let servers = servers.collect();
    let cluster = Cluster::new(&batch, servers, vec![Client::default(); batch.n_clients()], None);
    (batch, cluster.expect("a cluster"))
}

fn cost_of(batch: &Batch, i: usize, server: ServerId, cost: Cost) -> u64 {
    match (batch.current(i), cost) {
        (Some(current), Cost::Changes) if current != server => 1,
        (Some(current), Cost::Blocks) if current != server => batch.blocks(i),
        _ => 0,
    }
}

/// The least cost of each level that whole requests can have: all choices, tried.
fn all_levels(batch: &Batch, cluster: &Cluster, cost: Cost) -> Vec<(Ratio, u64)> {
    let mut all = BTreeMap::from([(vec![0; batch.n_servers()], 0)]);
    for i in 0..batch.n_requests() {
        let mut next: BTreeMap<Vec<u64>, u64> = BTreeMap::new();
        for (loads, spent) in &all {
            for &server in batch.replicas().of(i) {
                let mut loads = loads.clone();
                loads[server.index()] += batch.blocks(i);
                let spent = spent + cost_of(batch, i, server, cost);
                next.entry(loads).and_modify(|least| *least = spent.min(*least)).or_insert(spent);
            }
        }
        all = next;
    }
    let last = |loads: &[u64]| {
        let done = (0..).map(ServerId).zip(loads).map(|(server, &load)| cluster.done(server, load));
        done.max().unwrap_or(Ratio::ZERO)
    };
    let mut levels: Vec<(Ratio, u64)> = all.iter().map(|(loads, &spent)| (last(loads), spent)).collect();
    levels.sort_unstable();
    levels
}

/// Checks all that is promised of any answer, and returns its cost.
fn verified(batch: &Batch, cluster: &Cluster, wish: &Wish) -> (Lead, u64) {
    let lead = fewest(batch, cluster, wish);
    let rows = unordered(batch, &lead.choice);
    assert_eq!(check::unsplit(batch, &rows), Ok(()));
    let measures = check::plan(batch, cluster, &rows, false).unwrap_or_else(|fault| panic!("{fault}"));
    assert_eq!(measures.max_load, lead.level);
    check::bound(batch, cluster, &lead.bound, check::Subject::MaxLoad)
        .unwrap_or_else(|fault| panic!("{fault}"));
    assert!(lead.level >= lead.bound.value && lead.level <= lead.target);
    assert_eq!(lead.changed, Changed::between(batch, &lead.choice.servers));
    let spent = lead.choice.servers.iter().enumerate().map(|(i, &s)| cost_of(batch, i, s, wish.cost)).sum();
    assert!(check::cost(batch, cluster, lead.target, &lead.prices, wish.cost) <= spent);
    // A curve goes down.
    let of = |changed: Changed| if wish.cost == Cost::Changes { changed.requests } else { changed.blocks };
    for pair in lead.curve.windows(2) {
        assert!(of(pair[0].changed) <= of(pair[1].changed) && pair[0].level > pair[1].level, "{pair:?}");
    }
    (lead, spent)
}

#[test]
fn equal_requests_change_as_little_as_possible() {
    let mut draw = Seeded::new(1);
    for case in 0..3000 {
        let size = [1, 1, 3][case % 3];
        let (n_servers, n_requests) = (1 + draw.below(4), draw.below(8));
        let (batch, cluster) = drawn(&mut draw, Sizes::Equal(size), n_servers, n_requests);
        for cost in [Cost::Changes, Cost::Blocks] {
            let levels = all_levels(&batch, &cluster, cost);
            let least_by = |level: Ratio| {
                levels.iter().filter(|(at, _)| *at <= level).map(|(_, spent)| *spent).min().expect("a choice")
            };
            let (lead, spent) = verified(&batch, &cluster, &Wish { target: Target::Optimum, cost });
            assert_eq!((lead.level, spent), levels[0], "case {case}: {batch:?} {cluster:?}");
            assert_eq!(check::cost(&batch, &cluster, lead.target, &lead.prices, cost), spent);
            let (lead, spent) = verified(&batch, &cluster, &Wish { target: Target::Within(1.3), cost });
            assert_eq!(spent, least_by(lead.target));
            for most in 0..4 {
                let (lead, spent) = verified(&batch, &cluster, &Wish { target: Target::Changes(most), cost });
                let allowed = levels.iter().filter(|(_, spent)| *spent <= most);
                match allowed.map(|(level, _)| *level).min() {
                    Some(level) => assert!(lead.level == level && spent <= most, "case {case}: {most}"),
                    None => assert_eq!(spent, least_by(Ratio::from(u64::MAX)), "what must change does"),
                }
            }
            for point in &lead.curve {
                let of = if cost == Cost::Changes { point.changed.requests } else { point.changed.blocks };
                assert_eq!(of, least_by(point.level), "case {case}: {batch:?} {cluster:?}");
            }
        }
    }
}

#[test]
fn unequal_requests_change_nearly_as_little_as_possible() {
    let mut draw = Seeded::new(2);
    let (mut n_best, mut n_fewest, n_cases) = (0, 0, 60);
    for _ in 0..n_cases {
        let (n_servers, n_requests) = (1 + draw.below(4), draw.below(8));
        let (batch, cluster) = drawn(&mut draw, Sizes::Any, n_servers, n_requests);
        for cost in [Cost::Changes, Cost::Blocks] {
            let levels = all_levels(&batch, &cluster, cost);
            let (lead, spent) = verified(&batch, &cluster, &Wish { target: Target::Optimum, cost });
            n_best += u32::from(lead.level == levels[0].0);
            n_fewest += u32::from((lead.level, spent) == levels[0]);
            let (lead, spent) = verified(&batch, &cluster, &Wish { target: Target::Changes(1), cost });
            assert!(spent <= 1 || lead.changed.requests > 0);
        }
    }
    assert!(n_best >= 2 * n_cases - 1, "{n_best} of {} reach the best level", 2 * n_cases);
    assert!(n_fewest >= 2 * n_cases - 4, "{n_fewest} of {} do with the fewest changes", 2 * n_cases);
}

/// Ceph's balancer never has a lower maximum, and never fewer changes for its own maximum.
#[test]
fn cephs_own_balancer_is_never_better() {
    let mut draw = Seeded::new(3);
    for _ in 0..200 {
        let (n_servers, n_requests) = (3 + draw.below(8), 8 + draw.below(120));
        let (batch, _) = drawn(&mut draw, Sizes::Equal(1), n_servers, n_requests);
        let cluster = Cluster::equal(&batch);
        let theirs: Choice = ceph_read::select(&batch);
        let their_level = theirs.last_done(&batch, &cluster);
        let (best, _) = verified(&batch, &cluster, &Wish::default());
        assert!(best.level <= their_level);
        let wish = Wish { target: Target::Within(their_level.over(best.bound.value)), cost: Cost::Changes };
        let (same, spent) = verified(&batch, &cluster, &wish);
        assert!(same.level <= their_level && spent <= Changed::between(&batch, &theirs.servers).requests);
    }
}

/// What a plan gains must be seen twice, once begun a quarter of it is enough, and no hour has too many changes.
#[test]
fn watching_is_patient_and_thrifty() {
    use evenkeel::lead::watch::{Decision, Settings, Watch};
    const SECOND: u64 = 1_000_000_000;
    let mut watch = Watch::new(Settings { worth: 1.2, changes_per_hour: 10 });
    assert_eq!(watch.decide(0, 1.19, 5), Decision::Rest);
    assert_eq!(watch.decide(SECOND, 1.3, 8), Decision::Wait);
    assert_eq!(watch.decide(2 * SECOND, 1.0, 0), Decision::Rest, "it was seen only once");
    assert_eq!(watch.decide(3 * SECOND, 1.3, 8), Decision::Wait);
    assert_eq!(watch.decide(4 * SECOND, 1.3, 8), Decision::Change(8));
    watch.made(4 * SECOND, 8);
    assert_eq!(watch.decide(5 * SECOND, 1.06, 4), Decision::Change(2), "two are left in this hour");
    watch.made(5 * SECOND, 2);
    assert_eq!(watch.decide(6 * SECOND, 1.06, 2), Decision::Spent);
    assert_eq!(watch.decide(3604 * SECOND, 1.06, 2), Decision::Change(2), "an hour later");
    assert_eq!(watch.decide(3605 * SECOND, 1.04, 2), Decision::Rest);
    assert_eq!(watch.decide(3606 * SECOND, 1.06, 2), Decision::Rest, "it would have to begin anew");
}

/// A server is slow below a fifth of what is usual, twice in a row, and stays so up to half of it.
#[test]
fn slow_servers_stay_slow_for_a_while() {
    use evenkeel::lead::watch::{Settings, Watch};
    let mut watch = Watch::new(Settings { worth: 1.2, changes_per_hour: 10 });
    let mut after = |rates: [Option<f64>; 4]| {
        watch.measured(["a", "b", "c", "d"].into_iter().zip(rates));
        (watch.factor("a"), watch.factor("d"))
    };
    assert_eq!(after([Some(100.0), Some(100.0), None, Some(1.0)]), (1.0, 1.0), "it may be busy");
    assert_eq!(after([Some(100.0), Some(100.0), None, Some(90.0)]), (1.0, 1.0));
    assert_eq!(after([Some(10.0), Some(100.0), None, Some(1.0)]), (1.0, 1.0));
    assert_eq!(after([Some(100.0), Some(100.0), None, Some(0.5)]), (1.0, 0.01));
    assert_eq!(after([Some(100.0), None, None, Some(100.0)]), (1.0, 0.01), "two do not tell what is usual");
    assert_eq!(after([Some(100.0), None, None, Some(50.0)]), (1.0, 0.01));
    assert_eq!(after([Some(100.0), Some(120.0), Some(90.0), Some(50.0)]), (1.0, 0.01));
    assert_eq!(after([Some(100.0), Some(120.0), Some(90.0), None]), (1.0, 0.01));
    assert_eq!(after([Some(100.0), Some(120.0), Some(90.0), Some(70.0)]), (1.0, 1.0));
    for _ in 0..2 {
        assert_eq!(after([Some(0.0), Some(0.0), Some(0.0), Some(0.0)]), (1.0, 1.0), "nothing is usual");
    }
}
