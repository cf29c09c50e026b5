//! Choices that split no request: valid, within what is promised, and close to the best, found by trying everything.

use std::collections::BTreeSet;

use evenkeel::check;
use evenkeel::draw::{Draw, Seeded};
use evenkeel::model::{Batch, Client, Cluster, MAX_SLOTS, ModelError, Ratio, Server, Speed};
use evenkeel::select::whole::unsplit;
use evenkeel::select::{Goal, first, optimal};
use evenkeel::workload::{Clients, Law, Sizes, Workload};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use crate::exact::Exact;
use crate::optimal::for_each_workload;
use crate::support::{Kind, Scene, Speeds, TAME, batch, scenes, unordered};

/// Makes an optimal choice whole and checks all that is promised; when the last server was done before, and is now.
fn verified(batch: &Batch, cluster: &Cluster, goal: Goal) -> (Ratio, Ratio) {
    let (split, _) = optimal::select(batch, cluster, goal);
    let choice = unsplit(batch, cluster, split.clone());
    assert_eq!(choice, unsplit(batch, cluster, split.clone()));
    assert!(!split.split_off.is_empty() || choice == split);

    let rows = unordered(batch, &choice);
    assert_eq!(check::unsplit(batch, &rows), Ok(()));
    let after = check::plan(batch, cluster, &rows, false).unwrap_or_else(|fault| panic!("{fault}")).max_load;
    let before = split.last_done(batch, cluster);
    let largest = (0..batch.n_requests()).map(|i| batch.blocks(i)).max().unwrap_or(0);
    for (server, load) in cluster.servers().iter().zip(choice.loads(batch)) {
        let load = load.saturating_sub(largest);
        let takes = match cluster.is_slotted() {
            true => load.div_ceil(server.slots.into()).into(),
            false => (Exact::time(load, server.speed) / server.slots).max(Exact::time(1, server.speed)),
        };
        assert!(load == 0 || Exact::time(server.busy(), server.speed) + takes <= before.into());
    }
    (before, after)
}

/// When the last server is done at best, if no request is split.
fn least(scene: &Scene) -> Exact {
    let mut all = BTreeSet::from([vec![0; scene.case.n_servers]]);
    for request in &scene.case.requests {
        let with = |loads: &[u64], server: usize| {
            let mut loads = loads.to_vec();
            loads[server] += request.blocks;
            loads
        };
        all =
            all.iter().flat_map(|loads| request.replicas.iter().map(|&server| with(loads, server))).collect();
    }
    all.iter().map(|loads| scene.last_done(loads)).min().expect("a choice")
}

#[test]
fn small_batches_end_nearly_as_early_as_can_be() {
    let kinds = [(Speeds::One, false, false), (Speeds::Tame, false, true), (Speeds::Wild, true, true)];
    for (speeds, slots, backlogs) in kinds {
        let scenes = scenes(Just(Kind { speeds, slots, backlogs, limit: false }));
        let mut runner = TestRunner::deterministic();
        let (mut n_best, mut sum) = (0, 0.0);
        for _ in 0..3000 {
            let scene = scenes.new_tree(&mut runner).expect("a scene").current();
            let (batch, cluster) = scene.build();
            verified(&batch, &cluster, Goal::Length);
            verified(&batch, &cluster, Goal::Mean);
            let (_, after) = verified(&batch, &cluster, Goal::MaxLoad);
            let least = least(&scene);
            assert!(Exact::from(after) >= least);
            n_best += u32::from(Exact::from(after) == least);
            sum += after.over(least.ratio().expect("a short fraction"));
        }
        let mean = sum / 3000.0;
        println!("{speeds:?}: {n_best} of 3000 are the best, on average {mean:.5} times as late");
        assert!(n_best >= 2900 && mean < 1.005);
    }
}

/// Servers that differ in all they can.
fn drawn_cluster(batch: &Batch, draw: &mut Seeded) -> Cluster {
    let servers = (0..batch.n_servers()).map(|_| Server {
        speed: Speed::from_millionths(TAME[draw.below(TAME.len() as u32) as usize]).expect("a valid speed"),
        slots: 1 + draw.below(3),
        backlog: draw.below(1000).into(),
    });
    let clients = vec![Client::default(); batch.n_clients()];
    Cluster::new(batch, servers.collect(), clients, None).expect("a valid cluster")
}

#[test]
fn larger_batches_keep_what_is_promised() {
    for_each_workload(1, |batch, workload| {
        println!("{workload:?}"); // shown when the test fails
        let mut draw = Seeded::new(workload.seed);
        for goal in [Goal::Length, Goal::MaxLoad, Goal::Mean] {
            verified(batch, &Cluster::equal(batch), goal);
            verified(batch, &drawn_cluster(batch, &mut draw), goal);
        }
    });
}

#[test]
fn many_requests_end_close_to_where_they_would_split() {
    for law in [Law::Uniform, Law::Zipf, Law::Chain] {
        let workload = Workload {
            n_requests: 100_000,
            n_clients: 10,
            n_servers: 300,
            copies: 3,
            law,
            sizes: Sizes::Uniform(1, 1000),
            clients: Clients::Drawn,
            seed: 1,
        };
        let batch = workload.generate().expect("a valid workload");
        for cluster in [Cluster::equal(&batch), drawn_cluster(&batch, &mut Seeded::new(2))] {
            let (before, after) = verified(&batch, &cluster, Goal::MaxLoad);
            println!("{law:?}: {before} split, {after} whole");
            assert!(after.over(before) < 1.001);
        }
    }
}

#[test]
fn what_is_whole_stays_as_it_is() {
    let batch = batch(&[("c0", 3, &["s0", "s1"]), ("c0", 5, &["s0", "s1"]), ("c1", 1, &["s0"])]);
    let choice = first::select(&batch);
    assert_eq!(unsplit(&batch, &Cluster::equal(&batch), choice.clone()), choice);
}

#[test]
fn numbers_up_to_64_bits() {
    let server = |speed: Speed, slots: u32| Server { speed, slots, backlog: 0 };
    let fast = Speed::from_millionths(3_000_000).expect("a valid speed");
    let pairs = [
        [server(Speed::ONE, 1), server(Speed::ONE, MAX_SLOTS)],
        [server(Speed::MAX, 1), server(Speed::MAX, 18)],
        [server(Speed::MAX, 1), server(fast, 1)],
        [server(fast, MAX_SLOTS), server(fast, 7)],
    ];
    for sizes in [&[u64::MAX][..], &[u64::MAX / 3; 3], &[u64::MAX / 8; 7], &[1 << 63, (1 << 63) - 2, 1]] {
        let requests: Vec<(&str, u64, &[&str])> =
            sizes.iter().map(|&n| ("c", n, &["s0", "s1"][..])).collect();
        let batch = batch(&requests);
        verified(&batch, &Cluster::equal(&batch), Goal::MaxLoad);
        for servers in pairs.clone() {
            let cluster = Cluster::new(&batch, servers.to_vec(), vec![Client::default()], None);
            verified(&batch, &cluster.expect("fast enough"), Goal::MaxLoad);
        }
        // Others have no plan at all.
        let slow = [server(Speed::ONE, 1), server(Speed::MAX, 1)].to_vec();
        let refused = Cluster::new(&batch, slow, vec![Client::default()], None);
        assert!(matches!(refused, Err(ModelError::TooSlow)));
        let fast = [server(Speed::MAX, 1), server(Speed::MAX, 19)].to_vec();
        let refused = Cluster::new(&batch, fast, vec![Client::default()], None);
        assert!(matches!(refused, Err(ModelError::TooFast)));
    }
}
