//! Servers of different speeds, with slots and backlogs, under a limit on concurrency: what is called optimal or proved
//! there is, against brute force, and what cannot always be reached keeps within its guarantee.

use std::cell::Cell;

use evenkeel::check::{self, Measures, Subject};
use evenkeel::draw::{Draw, Seeded};
use evenkeel::model::{
    Batch, BatchBuilder, Choice, Client, Cluster, ModelError, Ratio, Schedule, Server, Speed,
};
use evenkeel::order::colour::order;
use evenkeel::select::{Goal, first, optimal};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use crate::exact::Exact;
use crate::optimal::for_each_workload;
use crate::support::{
    Kind, Scene, Speeds, TAME, batch, config, find_cost_reducing_path, kinds, moved, planned, scenes,
    unordered,
};

const ALL_SPEEDS: &[Speeds] = &[Speeds::One, Speeds::Same, Speeds::Tame, Speeds::Wild];

/// So many billionths, the least that a plan tells apart.
fn nanos(n: u128) -> Exact {
    Exact::new(n, 1_000_000_000)
}

/// Selects; asserts that choice and proof pass the checks and that the bound is reached.
fn select_least(batch: &Batch, cluster: &Cluster, goal: Goal) -> (Choice, Ratio) {
    let (choice, bound) = optimal::select(batch, cluster, goal);
    let measures = check::plan(batch, cluster, &unordered(batch, &choice), false);
    assert_eq!(measures, Ok(Measures { length: Ratio::ZERO, max_load: bound.value }), "{goal:?}");
    check::bound(batch, cluster, &bound, Subject::MaxLoad)
        .unwrap_or_else(|fault| panic!("{goal:?}: {fault}"));
    (choice, bound.value)
}

/// Orders; asserts that the schedule is valid, as long as it says and no longer than is guaranteed, and moves what was
/// chosen.
fn order_within_guarantee(scene: &Scene, batch: &Batch, cluster: &Cluster, choice: &Choice) -> Schedule {
    let schedule = order(batch, cluster, choice);
    let measures = check::plan(batch, cluster, &schedule.transfers, true).unwrap_or_else(|f| panic!("{f}"));
    assert_eq!(moved(&schedule.transfers), moved(&unordered(batch, choice)));
    assert!(schedule.transfers.is_sorted_by_key(|t| (t.request, t.start)));
    assert_eq!(Exact::from(measures.max_load), scene.last_done(&choice.loads(batch)));
    let (length, measured) = (Exact::from(schedule.length), Exact::from(measures.length));
    let slack = rounding(scene);
    assert!(length.distance(measured) <= slack, "{} is measured as {}", schedule.length, measures.length);
    let guarantee = scene.guarantee(batch, choice);
    assert!(length <= guarantee + slack, "{} exceeds {guarantee:?}", schedule.length);
    schedule
}

/// How far numbers of nine decimals may be off: nothing where all is whole, and more where blocks take long.
fn rounding(scene: &Scene) -> Exact {
    let slowest = scene.servers.iter().map(|s| s.speed).min().expect("a server");
    match scene.one_speed() {
        Some(speed) if speed.millionths() == 1_000_000 => Exact::ZERO,
        _ => nanos(2) + nanos(2) * Exact::time(1, slowest),
    }
}

proptest! {
    #![proptest_config(config(15_000))]

    #[test]
    fn no_choice_is_done_earlier(scene in scenes(kinds(ALL_SPEEDS))) {
        let (batch, cluster) = scene.build();
        let (_, max_load) = select_least(&batch, &cluster, Goal::MaxLoad);
        let least = scene.case.all_loads().iter().map(|loads| scene.last_done(loads)).min();
        prop_assert_eq!(Some(Exact::from(max_load)), least);
        prop_assert_eq!(Exact::from(max_load), scene.hall_bound());
    }

    #[test]
    fn the_mean_and_the_maximum_are_the_least_at_once(scene in scenes(kinds(ALL_SPEEDS))) {
        let (batch, cluster) = scene.build();
        let are_alike = scene.is_slotted() || scene.servers.iter().all(|server| server.slots == 1);
        let choice = if are_alike {
            let (choice, max_load) = select_least(&batch, &cluster, Goal::Mean);
            prop_assert_eq!(Exact::from(max_load), scene.hall_bound());
            choice
        } else {
            let (choice, bound) = optimal::select(&batch, &cluster, Goal::Mean);
            prop_assert_eq!(Exact::from(bound.value), scene.hall_bound());
            choice
        };
        let least = scene.case.all_loads().iter().map(|loads| scene.sum_of_completions(loads)).min();
        prop_assert_eq!(Some(scene.sum_of_completions(&choice.loads(&batch))), least);
    }

    #[test]
    fn with_one_speed_and_no_backlog_no_schedule_is_shorter(
        scene in scenes(kinds(&[Speeds::One, Speeds::Same]).prop_map(|kind| Kind { backlogs: false, ..kind }))
    ) {
        let (batch, cluster) = scene.build();
        let plan = planned(&batch, &cluster);
        prop_assert_eq!(plan.schedule.length, plan.bound.value);
        prop_assert_eq!(Exact::from(plan.bound.value), scene.length_bound());
        prop_assert_eq!(optimal::bound(&batch, &cluster, Goal::Length), plan.bound.clone());
        order_within_guarantee(&scene, &batch, &cluster, &plan.choice);
        let keeps_to_slots = scene.is_slotted() || scene.limit.is_none() && !scene.has_slots();
        if keeps_to_slots && scene.case.total_blocks() <= 6 {
            let shortest = Exact::time(scene.case.shortest_schedule(&cluster), scene.servers[0].speed);
            prop_assert_eq!(Exact::from(plan.schedule.length), shortest);
        }
    }

    #[test]
    fn with_one_speed_and_backlogs_lengths_lie_between_the_shortest_and_the_guarantee(
        scene in scenes(
            kinds(&[Speeds::One, Speeds::Same]).prop_map(|kind| Kind { backlogs: true, limit: false, ..kind })
        )
    ) {
        let (batch, cluster) = scene.build();
        let plan = planned(&batch, &cluster);
        let bound = Exact::from(plan.bound.value);
        prop_assert_eq!(bound, scene.length_bound());
        order_within_guarantee(&scene, &batch, &cluster, &plan.choice);
        if scene.case.total_blocks() <= 5 {
            let shortest = Exact::time(scene.case.shortest_schedule(&cluster), scene.servers[0].speed);
            prop_assert!(bound <= shortest, "{:?}", shortest);
            // Slots that share blocks may be done earlier.
            let keeps_to_slots = scene.is_slotted() || !scene.has_slots();
            prop_assert!(!keeps_to_slots || shortest <= plan.schedule.length.into(), "{:?}", shortest);
        }
    }

    #[test]
    fn with_different_speeds_lengths_lie_between_the_bound_and_the_guarantee(
        scene in scenes(kinds(&[Speeds::Tame, Speeds::Wild]))
    ) {
        let (batch, cluster) = scene.build();
        let plan = planned(&batch, &cluster);
        let bound = Exact::from(plan.bound.value);
        let expected = scene.length_bound();
        prop_assert!(bound <= expected && expected <= bound + nanos(1), "{:?} {:?}", bound, expected);
        order_within_guarantee(&scene, &batch, &cluster, &plan.choice);
    }

    #[test]
    fn any_choice_is_ordered_within_the_guarantee(scene in scenes(kinds(ALL_SPEEDS))) {
        let (batch, cluster) = scene.build();
        order_within_guarantee(&scene, &batch, &cluster, &first::select(&batch));
    }
}

proptest! {
    #![proptest_config(config(6000))]

    /// A batch is valid up to 2⁶⁴ − 1 blocks in all; it is solved up to there if times fit in 64 bits as well.
    #[test]
    fn sizes_go_up_to_64_bits(
        mut scene in scenes(kinds(ALL_SPEEDS)),
        with_backlogs: bool,
        shift in 0..=24_u32,
    ) {
        let backlog = scene.servers.iter().map(|s| s.backlog).max().filter(|_| with_backlogs);
        // Where times at full size would not fit, it is mostly the smaller sizes that are solved.
        let scale = (u64::MAX / (scene.case.total_blocks() + backlog.unwrap_or(0)).max(1)) >> shift;
        scene.case.requests.iter_mut().for_each(|request| request.blocks *= scale);
        if with_backlogs {
            scene.servers.iter_mut().for_each(|server| server.backlog *= scale);
        }
        let (batch, cluster) = match scene.try_build() {
            Ok(built) => built,
            Err(ModelError::TooSlow | ModelError::TooManyBlocks) => return Ok(()),
            Err(other) => panic!("{other}"),
        };
        let (_, max_load) = select_least(&batch, &cluster, Goal::MaxLoad);
        prop_assert_eq!(Exact::from(max_load), scene.hall_bound());
        let (_, bound) = optimal::select(&batch, &cluster, Goal::Mean);
        prop_assert_eq!(Exact::from(bound.value), scene.hall_bound());
        let plan = planned(&batch, &cluster);
        let (length, measured) = (plan.schedule.length.to_f64(), plan.measures.length.to_f64());
        // Ticks are as fine as the longest time allows.
        let time = |blocks: f64, server: &Server| blocks * 1e6 / server.speed.millionths() as f64;
        let longest = scene.servers.iter().map(|s| time(s.backlog as f64, s)).fold(0.0, f64::max) + length;
        let rounded = scene.servers.iter().map(|s| time(4e-9, s)).fold(4e-9, f64::max);
        prop_assert!((length - measured).abs() <= rounded + 1e-15 * longest, "{} {}", length, measured);
        if scene.one_speed().is_some() && !cluster.has_backlogs() {
            // Slots that share so many blocks are rounded up to whole ticks.
            let is_exact = scene.is_slotted() || !scene.has_slots() && scene.limit.is_none();
            prop_assert!(plan.schedule.length.over(plan.bound.value) < 1.0 + 1e-15);
            if is_exact {
                prop_assert_eq!(plan.schedule.length, plan.bound.value);
                prop_assert_eq!(Exact::from(plan.bound.value), scene.length_bound());
            }
        }
    }
}

/// A cluster for a larger batch, of a kind and with backlogs that depend on the seed.
pub(crate) fn drawn_cluster(batch: &Batch, seed: u64) -> Cluster {
    let mut draw = Seeded::new(seed);
    let [has_speeds, has_slots, has_backlogs, has_limit] = [(); 4].map(|()| draw.below(2) == 1);
    let average = batch.total_blocks() / batch.n_servers() as u64;
    let most = u32::try_from(average + 2).unwrap_or(u32::MAX);
    let servers = (0..batch.n_servers()).map(|_| {
        let (speed, slots, backlog) = (draw.below(TAME.len() as u32), 1 + draw.below(3), draw.below(most));
        Server {
            speed: Speed::from_millionths(TAME[if has_speeds { speed as usize } else { 0 }]).expect("valid"),
            slots: if has_slots { slots } else { 1 },
            backlog: if has_backlogs { backlog.into() } else { 0 },
        }
    });
    let servers = servers.collect();
    let clients = (0..batch.n_clients())
        .map(|_| Client { slots: if has_slots { 1 + draw.below(3) } else { 1 } })
        .collect();
    let limit = (has_limit && !has_speeds && !has_backlogs).then(|| 1 + u64::from(draw.below(20)));
    Cluster::new(batch, servers, clients, limit).expect("a valid cluster")
}

#[test]
fn larger_batches_reach_their_bounds_on_any_cluster() {
    let n_batches = Cell::new(0);
    for_each_workload(1, |batch, workload| {
        let cluster = drawn_cluster(batch, n_batches.replace(n_batches.get() + 1));
        println!("{workload:?}, {cluster:?}"); // shown when the test fails
        select_least(batch, &cluster, Goal::MaxLoad);
        let (choice, _) = optimal::select(batch, &cluster, Goal::Mean);
        assert_eq!(find_cost_reducing_path(batch, &cluster, &choice), None);
        let plan = planned(batch, &cluster);
        if cluster.is_even() {
            assert_eq!(plan.schedule.length, plan.bound.value);
        }
    });
}

/// In the middle of a very slow transfer the client receives something very fast: two rows, not one.
#[test]
fn transfers_are_joined_only_without_a_gap() {
    let batch =
        batch(&[("c1", 1, &["s0"]), ("c1", 4, &["s1"]), ("c1", 1_200_000, &["s2"]), ("c0", 1, &["s1"])]);
    let server = |speed, slots| Server { speed, slots, backlog: 0 };
    let slowest = Speed::from_millionths(1).expect("a valid speed");
    let servers = vec![server(Speed::ONE, 1), server(slowest, 1000), server(Speed::MAX, 1)];
    planned(
        &batch,
        &Cluster::new(&batch, servers, vec![Client::default(); 2], None).expect("a valid cluster"),
    );
}

/// In how many of `n` random cases of a kind the length is the bound, and how many times as long all are on average.
fn count_met(kind: Kind, n: u32) -> (u32, f64) {
    let mut runner = TestRunner::deterministic();
    let scenes = scenes(Just(kind));
    let (mut n_met, mut sum) = (0, 0.0);
    for _ in 0..n {
        let (batch, cluster) = scenes.new_tree(&mut runner).expect("a scene").current().build();
        let (choice, bound) = optimal::select(&batch, &cluster, Goal::Length);
        let length = order(&batch, &cluster, &choice).length;
        n_met += u32::from(length == bound.value);
        sum += length.over(bound.value);
    }
    (n_met, sum / f64::from(n))
}

#[test]
fn bounds_are_mostly_met_where_they_need_not_be() {
    // Speeds, backlogs, slots; how often the bound is met at least, and how far lengths are from it at most.
    let kinds = [
        (Speeds::One, true, false, 9790, 1.0037),
        (Speeds::Tame, false, false, 9400, 1.023),
        (Speeds::Tame, true, false, 9200, 1.018),
        (Speeds::One, true, true, 9400, 1.018),
        (Speeds::Tame, false, true, 9200, 1.026),
        (Speeds::Tame, true, true, 8800, 1.032),
    ];
    for (speeds, backlogs, slots, least, most) in kinds {
        let kind = Kind { speeds, slots, backlogs, limit: false };
        let (n_met, mean) = count_met(kind, 10_000);
        println!("{kind:?}: {n_met} of 10000 at the bound, on average {mean:.5} times as long");
        assert!(n_met >= least && mean <= most);
    }
}

/// One server is twenty times as fast as the others. Everybody could have it in time, but not by the bound, which
/// assumes that each client has it for itself: later levels must be tried, whatever the unit of speed.
#[test]
fn clients_are_eased_at_later_levels_too() {
    let mut requests = BatchBuilder::new();
    for client in 0..4 {
        for i in 0..200 {
            let slow = format!("s{}", i % 80);
            requests.request(&format!("c{client}"), 1, &["fast", &slow]).expect("a valid request");
        }
    }
    (4..204).for_each(|c| requests.request(&format!("c{c}"), 1, &["fast"]).expect("a valid request"));
    let batch = requests.finish();
    for scale in [1, 1_000, 1_000_000_000] {
        let speed = |name: &str| if name == "fast" { 20_000_000 } else { 1_000_000 };
        let server = |name: &str| Server {
            speed: Speed::from_millionths(speed(name) * scale).expect("a valid speed"),
            ..Server::default()
        };
        let servers = batch.servers().iter().map(server).collect();
        let clients = vec![Client::default(); batch.n_clients()];
        let cluster = Cluster::new(&batch, servers, clients, None).expect("a valid cluster");
        let length = planned(&batch, &cluster).schedule.length;
        // All from the fast one takes 1000/20.
        assert!(length <= Ratio::new(50, scale), "{length} at scale {scale}");
    }
}
