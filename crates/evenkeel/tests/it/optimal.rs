//! What is called optimal is: against brute force on small batches, by checked proofs on larger ones.

use evenkeel::check::{self, Measures, Subject};
use evenkeel::draw::Seeded;
use evenkeel::model::{Batch, BatchBuilder, Choice, Cluster, Ratio, Schedule, Transfer};
use evenkeel::order::colour::order;
use evenkeel::select::{Goal, first, optimal, random};
use evenkeel::workload::{Clients, Law, Sizes, Workload};
use proptest::prelude::*;

use crate::support::{busiest, cases, config, find_cost_reducing_path, moved, unordered, whole};

const GOALS: [Goal; 3] = [Goal::Length, Goal::MaxLoad, Goal::Mean];

/// Selects and orders; asserts that plan and proof pass the checks and that the bound is reached.
fn solve(batch: &Batch, goal: Goal) -> (Choice, Schedule) {
    let cluster = Cluster::equal(batch);
    let (choice, bound) = optimal::select(batch, &cluster, goal);
    let max_load = Ratio::from(choice.loads(batch).into_iter().max().unwrap_or(0));
    let chosen = check::plan(batch, &cluster, &unordered(batch, &choice), false);
    assert_eq!(chosen, Ok(Measures { length: Ratio::ZERO, max_load }));
    let schedule = order_shortest(batch, &choice);
    let (subject, reached) = match goal {
        Goal::Length => (Subject::Length, schedule.length),
        Goal::MaxLoad | Goal::Mean => (Subject::MaxLoad, max_load),
    };
    assert_eq!(bound.value, reached, "{goal:?}");
    check::bound(batch, &cluster, &bound, subject).unwrap_or_else(|fault| panic!("{goal:?}: {fault}"));
    (choice, schedule)
}

/// Orders; asserts that the schedule is valid, as short as the choice allows, and moves what was chosen.
fn order_shortest(batch: &Batch, choice: &Choice) -> Schedule {
    let cluster = Cluster::equal(batch);
    let schedule = order(batch, &cluster, choice);
    let max_load = choice.loads(batch).into_iter().max().unwrap_or(0).into();
    let length = busiest(batch, choice).into();
    assert_eq!(schedule.length, length);
    let measures = check::plan(batch, &cluster, &schedule.transfers, true);
    assert_eq!(measures, Ok(Measures { length, max_load }));
    assert!(schedule.transfers.is_sorted_by_key(|t| (t.request, t.start)));
    let continues = |pair: &[Transfer]| {
        let [a, b] = [pair[0], pair[1]];
        let end = a.start.nanos() + a.blocks.nanos();
        (a.request, a.server, end) == (b.request, b.server, b.start.nanos())
    };
    assert!(!schedule.transfers.windows(2).any(continues), "one transfer, told as two");
    assert_eq!(moved(&schedule.transfers), moved(&unordered(batch, choice)));
    schedule
}

fn descending(mut loads: Vec<u64>) -> Vec<u64> {
    loads.sort_unstable_by(|a, b| b.cmp(a));
    loads
}

/// The sum of all blocks' completion times, if each server moves one block a slot.
fn sum_of_completions(loads: &[u64]) -> u64 {
    loads.iter().map(|load| load * (load + 1) / 2).sum()
}

proptest! {
    #![proptest_config(config(20_000))]

    #[test]
    fn the_largest_load_is_the_least_of_all_choices(case in cases()) {
        let batch = case.batch();
        let all_loads = case.all_loads();
        let least = all_loads.iter().filter_map(|loads| loads.iter().copied().max()).min();
        prop_assert_eq!(least, Some(case.hall_bound()));
        let (choice, _) = solve(&batch, Goal::MaxLoad);
        prop_assert_eq!(choice.loads(&batch).into_iter().max(), least);
    }

    #[test]
    fn no_schedule_is_shorter(case in cases()) {
        let batch = case.batch();
        let (_, schedule) = solve(&batch, Goal::Length);
        let length = whole(schedule.length);
        prop_assert_eq!(length, case.busiest_client().max(case.hall_bound()));
        if case.total_blocks() <= 6 {
            prop_assert_eq!(length, case.shortest_schedule(&Cluster::equal(&batch)));
        }
        prop_assert_eq!(optimal::bound(&batch, &Cluster::equal(&batch), Goal::Length).value, schedule.length);
    }

    #[test]
    fn the_mean_is_the_least_and_so_is_every_other_norm(case in cases()) {
        let batch = case.batch();
        let (choice, _) = solve(&batch, Goal::Mean);
        let loads = choice.loads(&batch);
        let all_loads = case.all_loads();
        let least = all_loads.iter().map(|loads| sum_of_completions(loads)).min();
        prop_assert_eq!(Some(sum_of_completions(&loads)), least);
        let most_even = all_loads.into_iter().map(descending).min();
        prop_assert_eq!(Some(descending(loads)), most_even);
    }

    #[test]
    fn any_choice_is_ordered_as_short_as_it_allows(case in cases(), seed: u64) {
        let batch = case.batch();
        order_shortest(&batch, &first::select(&batch));
        order_shortest(&batch, &random::select(&batch, &mut Seeded::new(seed)));
    }

    /// A batch is valid up to 2⁶⁴ − 1 blocks in all, so it is solved up to there.
    #[test]
    fn sizes_go_up_to_64_bits(mut case in cases()) {
        let scale = u64::MAX / case.total_blocks().max(1);
        case.requests.iter_mut().for_each(|request| request.blocks *= scale);
        let batch = case.batch();
        for goal in GOALS {
            let (choice, schedule) = solve(&batch, goal);
            match goal {
                Goal::Length => {
                    prop_assert_eq!(whole(schedule.length), case.busiest_client().max(case.hall_bound()));
                }
                Goal::MaxLoad | Goal::Mean => {
                    prop_assert_eq!(choice.loads(&batch).into_iter().max(), Some(case.hall_bound()));
                }
            }
        }
    }

    #[test]
    fn the_same_batch_has_the_same_plan(case in cases()) {
        for goal in GOALS {
            prop_assert_eq!(solve(&case.batch(), goal), solve(&case.batch(), goal));
        }
    }
}

const LAWS: [Law; 6] = [
    Law::Uniform,
    Law::Geometric { ratio: 0.9, hot_spots: 1 },
    Law::Geometric { ratio: 0.25, hot_spots: 3 },
    Law::Zipf,
    Law::FirstHot { ratio: 0.8 },
    Law::Chain,
];

const SIZES: [Sizes; 5] = [
    Sizes::Fixed(1),
    Sizes::Fixed(7),
    Sizes::Uniform(0, 2),
    Sizes::Uniform(1, 64),
    Sizes::Uniform(0, 1_000_000_000),
];

/// Requests, clients, servers, copies: with many repeated replica sets, with some, and with hardly any.
const SHAPES: [(u32, u32, u32, u32); 6] = [
    (300, 4, 5, 2),
    (3000, 40, 12, 3),
    (700, 3, 300, 2),
    (2000, 100, 150, 3),
    (400, 7, 60, 5),
    (250, 250, 30, 1),
];

/// Calls `test` with a batch of each law, size and shape, and what it is.
pub(crate) fn for_each_workload(seeds: u64, test: impl Fn(&Batch, &Workload)) {
    for law in LAWS {
        for sizes in SIZES {
            for (n_requests, n_clients, n_servers, copies) in SHAPES {
                for seed in 0..seeds {
                    let clients = if seed % 2 == 0 { Clients::Drawn } else { Clients::InTurn };
                    let workload =
                        Workload { n_requests, n_clients, n_servers, copies, law, sizes, clients, seed };
                    test(&workload.generate().expect("a valid workload"), &workload);
                }
            }
        }
    }
}

#[test]
fn larger_batches_reach_their_bounds() {
    for_each_workload(4, |batch, workload| {
        println!("{workload:?}"); // shown when the test fails
        for goal in GOALS {
            let (choice, _) = solve(batch, goal);
            if goal == Goal::Mean {
                assert_eq!(find_cost_reducing_path(batch, &Cluster::equal(batch), &choice), None);
            }
        }
    });
}

#[test]
fn larger_choices_are_ordered_as_short_as_they_allow() {
    for_each_workload(1, |batch, workload| {
        println!("{workload:?}");
        order_shortest(batch, &first::select(batch));
        order_shortest(batch, &random::select(batch, &mut Seeded::new(workload.seed)));
    });
}

#[test]
fn larger_batches_have_the_same_plan_twice() {
    for_each_workload(1, |batch, workload| {
        println!("{workload:?}");
        let again = workload.generate().expect("a valid workload");
        assert_eq!(batch.fingerprint(), again.fingerprint());
        for goal in GOALS {
            assert_eq!(solve(batch, goal), solve(&again, goal));
        }
    });
}

/// With so many servers the arcs between them are no longer remembered as bits.
#[test]
fn more_servers_than_the_bits_of_arcs_are_for() {
    for law in [Law::Uniform, Law::FirstHot { ratio: 0.999 }] {
        for sizes in [Sizes::Fixed(1), Sizes::Uniform(1, 1000)] {
            let workload = Workload {
                n_requests: 30_000,
                n_clients: 10_000,
                n_servers: 10_000,
                copies: 2,
                law,
                sizes,
                clients: Clients::InTurn,
                seed: 1,
            };
            let batch = workload.generate().expect("a valid workload");
            assert!(batch.n_servers() > 1 << 13);
            GOALS.iter().for_each(|&goal| _ = solve(&batch, goal));
        }
    }
}

/// Too few sets repeat for a sample to show it, but load has far to go, so they are merged on the way.
#[test]
fn equal_sets_are_merged_on_the_way() {
    for sizes in [Sizes::Fixed(1), Sizes::Uniform(1, 1_000_000_000)] {
        for seed in 0..4 {
            let workload = Workload {
                n_requests: 10_000,
                n_clients: 1000,
                n_servers: 2000,
                copies: 2,
                law: Law::Chain,
                sizes,
                clients: Clients::InTurn,
                seed,
            };
            println!("{workload:?}");
            let batch = workload.generate().expect("a valid workload");
            GOALS.iter().for_each(|&goal| _ = solve(&batch, goal));
        }
    }
}

#[test]
fn nothing_to_do_takes_no_time() {
    let mut empty = BatchBuilder::new();
    empty.request("c0", 0, &["s0", "s1"]).unwrap();
    for batch in [BatchBuilder::new().finish(), empty.finish()] {
        GOALS.iter().for_each(|&goal| assert_eq!(solve(&batch, goal).1.length, Ratio::ZERO));
    }
}
