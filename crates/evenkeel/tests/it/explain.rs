//! Advice keeps its promises when it is followed, and nothing better was overlooked.
//!
//! It is followed without the core's help: a request of which some blocks are copied becomes several.

use evenkeel::check::{self, Subject};
use evenkeel::explain::{CopyAdvice, Explanation, PERCENTS, explain};
use evenkeel::model::{Batch, Client, Cluster, ExtraCopy, Ratio, Server, ServerId, Speed};
use evenkeel::select::{Goal, optimal};
use evenkeel::workload::{Clients, Law, Sizes, Workload};
use proptest::prelude::*;

use crate::exact::Exact;
use crate::support::{Case, Kind, Request, Scene, Speeds, batch, config, kinds, planned, scenes};
use crate::unequal::drawn_cluster;

const GOALS: [(Goal, Subject); 2] = [(Goal::Length, Subject::Length), (Goal::MaxLoad, Subject::MaxLoad)];

/// The requests after `copies` were made, each for blocks that it still has, from a holder to a server that is none.
fn copied(case: &Case, copies: &[ExtraCopy]) -> Case {
    let mut requests = case.requests.clone();
    for &ExtraCopy { request, from, to, blocks } in copies {
        let original = &mut requests[request as usize];
        assert!(original.replicas.contains(&from.index()), "{from:?} has nothing to copy");
        assert!(!original.replicas.contains(&to.index()), "{to:?} has a copy already");
        assert!(0 < blocks && blocks <= original.blocks, "request {request} has no {blocks} blocks left");
        original.blocks -= blocks;
        let replicas = original.replicas.iter().copied().chain([to.index()]).collect();
        let client = original.client;
        requests.push(Request { client, blocks, replicas });
    }
    Case { requests, ..case.clone() }
}

/// One more copy, anywhere, of what was not copied `after` the advice was followed.
fn rest_copied(before: &Case, mut after: Case) -> Case {
    let n_servers = before.n_servers;
    for (i, request) in after.requests.iter_mut().enumerate().take(before.requests.len()) {
        let replicas = &mut request.replicas;
        let elsewhere = (i..i + n_servers).map(|s| s % n_servers).find(|s| !replicas.contains(s));
        replicas.extend(elsewhere);
    }
    after
}

/// What the bound is to fall to.
fn aim(bound: Ratio, percent: u64) -> Exact {
    Exact::from(bound) * Exact::new(u128::from(100 - percent), 100)
}

/// Explains; asserts that all proofs hold, and that what is said to be reached is.
fn explained(batch: &Batch, cluster: &Cluster, (goal, subject): (Goal, Subject)) -> Explanation {
    let explanation = explain(batch, cluster, goal);
    let proved = |bound| check::bound(batch, cluster, bound, subject).unwrap_or_else(|f| panic!("{f}"));
    proved(&explanation.bound);
    assert_eq!(explanation.bound, optimal::bound(batch, cluster, goal));
    for (advice, percent) in explanation.copies.iter().zip(PERCENTS) {
        let aim = aim(explanation.bound.value, percent);
        let value = Exact::from(advice.bound.value);
        if advice.is_reached {
            assert!(value <= aim, "{percent} %: {advice:?}");
        } else {
            // No time is told to more than nine decimals.
            assert!(value + Exact::new(1, 1_000_000_000) > aim, "{percent} %: {advice:?}");
            assert!(advice.copies.is_empty());
            proved(&advice.bound);
        }
    }
    assert!(explanation.everything.is_reached);
    explanation
}

/// Follows an advice; asserts that the bound is as promised.
fn follow(case: &Case, cluster: &Cluster, advice: &CopyAdvice, (goal, subject): (Goal, Subject)) -> Case {
    let after = copied(case, &advice.copies);
    let batch = after.batch();
    assert_eq!(optimal::bound(&batch, cluster, goal).value, advice.bound.value);
    check::bound(&batch, cluster, &advice.bound, subject).unwrap_or_else(|fault| panic!("{fault}"));
    after
}

/// Follows all advice.
fn follow_all(case: &Case, cluster: &Cluster, goal: (Goal, Subject)) {
    let batch = case.batch();
    let explanation = explained(&batch, cluster, goal);
    for advice in explanation.copies.iter().filter(|advice| advice.is_reached) {
        let after = follow(case, cluster, advice, goal);
        if goal.0 == Goal::Length && *cluster == Cluster::equal(&batch) {
            assert_eq!(planned(&after.batch(), cluster).schedule.length, advice.bound.value);
        }
    }
    if let Some(advice) = &explanation.faster {
        let faster =
            with_server(&batch, cluster, advice.server, twice_as_fast(cluster.server(advice.server)));
        assert_eq!(faster.server(advice.server).speed, advice.speed);
        assert_eq!(optimal::bound(&batch, &faster, goal.0).value, advice.bound.value);
        assert!(advice.bound.value < explanation.bound.value);
    }
    let after = follow(case, cluster, &explanation.everything, goal);
    if goal.0 == Goal::MaxLoad {
        let all = rest_copied(case, after).batch();
        assert_eq!(optimal::bound(&all, cluster, Goal::MaxLoad).value, explanation.everything.bound.value);
    }
}

/// The cluster with another server in the place of one.
fn with_server(batch: &Batch, cluster: &Cluster, id: ServerId, server: Server) -> Cluster {
    let mut servers = cluster.servers().to_vec();
    servers[id.index()] = server;
    Cluster::new(batch, servers, cluster.clients().to_vec(), None).expect("a valid cluster")
}

fn twice_as_fast(server: &Server) -> Server {
    let millionths = (2 * server.speed.millionths()).min(Speed::MAX.millionths());
    Server { speed: Speed::from_millionths(millionths).expect("a valid speed"), ..server.clone() }
}

/// Some thousand requests; in the uniform ones every fifth is for two hot servers.
fn generated(law: Law, sizes: Sizes) -> Case {
    let workload = Workload {
        n_requests: 3000,
        n_clients: 500,
        n_servers: 40,
        copies: 3,
        law,
        sizes,
        clients: Clients::Drawn,
        seed: 7,
    };
    let batch = workload.generate().expect("a valid workload");
    let request = |i: usize| Request {
        client: batch.client(i).index(),
        blocks: batch.blocks(i),
        replicas: match law {
            Law::Uniform if i.is_multiple_of(5) => vec![3, 4],
            _ => batch.replicas().of(i).iter().map(|s| s.index()).collect(),
        },
    };
    let requests = (0..batch.n_requests()).map(request).collect();
    Case { n_clients: batch.n_clients(), n_servers: batch.n_servers(), requests }
}

#[test]
fn advice_keeps_its_promises_when_it_is_followed() {
    for law in [Law::Uniform, Law::Zipf, Law::Chain] {
        for sizes in [Sizes::Fixed(1), Sizes::Uniform(1, 64)] {
            let case = generated(law, sizes);
            let batch = case.batch();
            let unequal = (0..8).map(|seed| drawn_cluster(&batch, seed));
            for cluster in [Cluster::equal(&batch)].into_iter().chain(unequal) {
                println!("{law:?}, {sizes:?}, {cluster:?}"); // shown when the test fails
                GOALS.into_iter().for_each(|goal| follow_all(&case, &cluster, goal));
            }
        }
    }
}

#[test]
fn hot_spots_are_cured_by_few_copies() {
    let case = generated(Law::Uniform, Sizes::Fixed(1));
    let batch = case.batch();
    let explanation = explain(&batch, &Cluster::equal(&batch), Goal::Length);
    assert_eq!(explanation.bound.value, 300.into());
    let (blocks, bounds): (Vec<u64>, Vec<Ratio>) =
        explanation.copies.iter().map(|advice| (advice.blocks(), advice.bound.value)).unzip();
    assert_eq!(blocks, [6, 30, 60]);
    assert_eq!(bounds, [297, 285, 270].map(Ratio::from));
    let everything = &explanation.everything;
    assert_eq!((everything.blocks(), everything.bound.value), (450, 75.into()));
    assert!(explanation.faster.is_some_and(|advice| advice.bound.value == 200.into()));
}

const ALL_SPEEDS: &[Speeds] = &[Speeds::One, Speeds::Same, Speeds::Tame, Speeds::Wild];
/// Without speeds at which a hundredth of a time, or its difference from another, may be too little to be told.
const TAME_SPEEDS: &[Speeds] = &[Speeds::One, Speeds::Tame];

/// Every block for itself.
fn in_blocks(case: &Case) -> Case {
    let blocks = |r: &Request| std::iter::repeat_n(Request { blocks: 1, ..r.clone() }, r.blocks as usize);
    Case { requests: case.requests.iter().flat_map(blocks).collect(), ..case.clone() }
}

/// Whether so many copies of blocks can make the servers be done by `aim`, by trying all from the `first` request on.
fn can_reach(scene: &Scene, aim: Exact, n_copies: u64, first: usize) -> bool {
    if n_copies == 0 {
        return scene.hall_bound() <= aim;
    }
    let requests = &scene.case.requests;
    let pairs = (first..requests.len()).flat_map(|i| (0..scene.case.n_servers).map(move |s| (i, s)));
    pairs.filter(|&(i, s)| !requests[i].replicas.contains(&s)).any(|(i, s)| {
        let mut scene = scene.clone();
        scene.case.requests[i].replicas.push(s);
        can_reach(&scene, aim, n_copies - 1, i)
    })
}

proptest! {
    #![proptest_config(config(4000))]

    #[test]
    fn any_advice_keeps_its_promises(scene in scenes(kinds(ALL_SPEEDS))) {
        let (_, cluster) = scene.build();
        GOALS.into_iter().for_each(|goal| follow_all(&scene.case, &cluster, goal));
    }

    #[test]
    fn no_fewer_copies_are_enough(mut scene in scenes(kinds(TAME_SPEEDS)), goal in 0..2_usize) {
        scene.case.requests.truncate(4);
        scene.case.requests.iter_mut().for_each(|request| request.blocks = request.blocks.min(2));
        let (batch, cluster) = scene.build();
        let explanation = explained(&batch, &cluster, GOALS[goal]);
        let blocks = Scene { case: in_blocks(&scene.case), ..scene.clone() };
        for (advice, percent) in explanation.copies.iter().zip(PERCENTS) {
            let aim = aim(explanation.bound.value, percent);
            // One fewer stands for all that are fewer, as no copy makes anything worse.
            if let Some(fewer) = advice.blocks().checked_sub(1).filter(|fewer| *fewer < 4) {
                prop_assert!(!can_reach(&blocks, aim, fewer, 0), "{} %: {:?}", percent, advice);
            }
        }
    }

    #[test]
    fn no_other_faster_server_helps_more(
        scene in scenes(kinds(TAME_SPEEDS).prop_map(|kind| Kind { limit: false, ..kind })),
        goal in 0..2_usize,
    ) {
        let (batch, cluster) = scene.build();
        let goal = GOALS[goal];
        let explanation = explained(&batch, &cluster, goal);
        let with = |server: ServerId| {
            let faster = with_server(&batch, &cluster, server, twice_as_fast(cluster.server(server)));
            optimal::bound(&batch, &faster, goal.0).value
        };
        let best = (0..scene.case.n_servers as u32).map(|s| with(ServerId(s))).min();
        let best = best.filter(|value| *value < explanation.bound.value);
        prop_assert_eq!(explanation.faster.map(|advice| advice.bound.value), best);
    }
}

#[test]
fn nothing_to_do_needs_no_advice() {
    let none: [Case; 3] = [
        Case { n_clients: 0, n_servers: 0, requests: Vec::new() },
        Case { n_clients: 2, n_servers: 3, requests: Vec::new() },
        Case {
            n_clients: 1,
            n_servers: 2,
            requests: vec![Request { client: 0, blocks: 0, replicas: vec![1] }],
        },
    ];
    for case in none {
        let batch = case.batch();
        for goal in GOALS {
            let explanation = explained(&batch, &Cluster::equal(&batch), goal);
            assert_eq!(explanation.bound.value, Ratio::ZERO);
            assert!(explanation.copies.iter().all(|advice| advice.copies.is_empty()));
            assert!(explanation.everything.copies.is_empty() && explanation.faster.is_none());
        }
    }
}

#[test]
fn with_one_server_only_speed_helps() {
    let batch = batch(&[("c0", 4, &["s0"]), ("c1", 6, &["s0"])]);
    for goal in GOALS {
        let explanation = explained(&batch, &Cluster::equal(&batch), goal);
        assert!(
            explanation.copies.iter().all(|advice| !advice.is_reached && advice.bound.value == 10.into())
        );
        assert!(explanation.everything.copies.is_empty());
        assert_eq!(explanation.faster.expect("all of it is here").bound.value, 5.into());
    }
}

#[test]
fn copies_do_not_help_a_client_or_a_limit() {
    let of_client = batch(&[("c0", 5, &["s0"]), ("c0", 5, &["s1"]), ("c1", 1, &["s2"])]);
    let explanation = explained(&of_client, &Cluster::equal(&of_client), GOALS[0]);
    assert!(explanation.copies.iter().all(|advice| !advice.is_reached && advice.bound.value == 10.into()));
    assert!(explained(&of_client, &Cluster::equal(&of_client), GOALS[1]).copies[2].is_reached);

    let limited = batch(&[("c0", 5, &["s0"]), ("c1", 5, &["s0"]), ("c2", 1, &["s1"])]);
    let equal = Cluster::equal(&limited);
    let nodes = || (equal.servers().to_vec(), equal.clients().to_vec());
    let with_limit =
        |limit| Cluster::new(&limited, nodes().0, nodes().1, Some(limit)).expect("a valid limit");
    let explanation = explained(&limited, &with_limit(1), GOALS[0]);
    assert_eq!(explanation.bound.value, 11.into());
    assert!(explanation.copies.iter().all(|advice| !advice.is_reached));
    assert!(explanation.faster.is_none(), "a limit goes with one speed only");
    assert_eq!(explained(&limited, &with_limit(2), GOALS[0]).everything.bound.value, 6.into());
}

/// So small a time that its hundredth has no short fraction.
#[test]
fn copies_are_advised_at_the_highest_speed_too() {
    let batch = batch(&[("c0", 51, &["s0"]), ("c1", 0, &["s1"])]);
    let fastest = Server { speed: Speed::MAX, ..Server::default() };
    let clients = Cluster::equal(&batch).clients().to_vec();
    let cluster = Cluster::new(&batch, vec![fastest; 2], clients, None).expect("a valid cluster");
    assert!(explained(&batch, &cluster, GOALS[1]).copies.iter().all(|advice| advice.is_reached));
}

/// A client's time is rounded up to whole slots only as long as no server is faster.
#[test]
fn the_best_faster_server_is_found_for_a_client_with_slots() {
    let batch = batch(&[("c0", 4, &["s0"]), ("c0", 3, &["s1"])]);
    let servers = vec![Server { slots: 2, ..Server::default() }, Server::default()];
    let cluster = Cluster::new(&batch, servers, vec![Client { slots: 2 }], None).expect("a valid cluster");
    let faster = explained(&batch, &cluster, GOALS[0]).faster.expect("some server helps");
    assert_eq!((faster.server, faster.bound.value), (ServerId(1), Ratio::new(11, 4)));
}

/// A faster server is done with its backlog earlier.
#[test]
fn the_best_faster_server_is_found_for_a_client_that_waits() {
    let batch = batch(&[("c1", 3, &["s0", "s2"]), ("c0", 1, &["s1", "s2"])]);
    let server = |millionths, slots, backlog| {
        let speed = Speed::from_millionths(millionths).expect("a valid speed");
        Server { speed, slots, backlog }
    };
    let servers = vec![server(999_983, 1, 3), server(333_333, 2, 1), server(333_333, 1, 1)];
    let cluster = Cluster::new(&batch, servers, vec![Client::default(); 2], None).expect("a valid cluster");
    let faster = explained(&batch, &cluster, GOALS[0]).faster.expect("some server helps");
    assert_eq!((faster.server, faster.bound.value), (ServerId(2), Ratio::new(5_000_000, 999_983)));
}

#[test]
fn many_slots_behind_a_backlog_are_explained() {
    let batch = batch(&[("c0", 34, &["s0"])]);
    let speed = Speed::from_millionths(2_000_000).expect("a valid speed");
    let cluster =
        with_server(&batch, &Cluster::equal(&batch), ServerId(0), Server { speed, slots: 1000, backlog: 47 });
    for goal in GOALS {
        let least = if goal.0 == Goal::Length { 35 } else { 2 };
        assert_eq!(explained(&batch, &cluster, goal).bound.value, Ratio::new(least, 2));
    }
}

#[test]
fn numbers_up_to_64_bits_are_explained() {
    // With different speeds times need a bit more.
    let most = u64::MAX / 8;
    let batch = batch(&[
        ("c0", most, &["s0"]),
        ("c1", most, &["s0"]),
        ("c2", most, &["s0", "s1"]),
        ("c3", most, &["s2"]),
    ]);
    for goal in GOALS {
        let explanation = explained(&batch, &Cluster::equal(&batch), goal);
        assert_eq!(explanation.bound.value, (2 * most).into());
        assert!(explanation.copies.iter().all(|advice| advice.is_reached));
        assert_eq!(explanation.faster.map(|advice| advice.server), Some(ServerId(0)));
    }
}
