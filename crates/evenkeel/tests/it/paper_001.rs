//! The claims and the worked examples of paper 001.

use evenkeel::model::{Batch, BatchBuilder, Cluster, ServerId};
use evenkeel::select::equi::{Pick, Rounding, rounds};
use evenkeel::select::replanned::{BadTurn, Move, Replanned, TakeBack};
use evenkeel::select::{Goal, aequi, lddf, optimal};
use evenkeel::workload::{Clients, Law, Sizes, Workload};

/// Requests of one client with these replicas, on so many servers.
fn held_by(n_servers: usize, sets: &[&[u32]]) -> Batch {
    let mut batch = BatchBuilder::new();
    let mut names = evenkeel::model::NameTable::new();
    (0..n_servers).for_each(|server| names.insert(&format!("s{server}"), "server").expect("new names"));
    batch.declare_servers(names).expect("no request yet");
    for set in sets {
        let names: Vec<String> = set.iter().map(|server| format!("s{server}")).collect();
        batch.request("c0", 1, &names.iter().map(String::as_str).collect::<Vec<_>>()).expect("known servers");
    }
    batch.finish()
}

/// Paper 001 §3.1, EQUI (golden G-001.1): with the share rounded up one round does; rounded down it takes two. LDDF and HDDF
/// (§3.3–3.4) and the optimum on the same requests.
#[test]
fn g_001_1() {
    let batch = held_by(3, &[&[0, 1], &[0, 1], &[0, 1], &[0, 2], &[0], &[1, 2], &[0, 1]]);
    let (choice, n_rounds) = rounds(&batch, Pick::Oldest, Rounding::Up);
    let servers: Vec<u32> = choice.servers.iter().map(|server| server.0).collect();
    assert_eq!((servers, n_rounds), (vec![1, 1, 1, 2, 0, 2, 0], 1));
    assert_eq!(choice.loads(&batch), [2, 3, 2]);
    let (choice, n_rounds) = rounds(&batch, Pick::Oldest, Rounding::Down);
    assert_eq!((choice.loads(&batch), n_rounds), (vec![3, 2, 2], 2));
    assert_eq!(lddf::lddf(&batch).loads(&batch), [3, 2, 2]);
    assert_eq!(lddf::hddf(&batch).loads(&batch), [3, 3, 1]);
    assert_eq!(optimal::bound(&batch, &Cluster::equal(&batch), Goal::MaxLoad).value, 3.into());
}

/// Paper 001 §3.1, EQUI with fewer requests than servers (golden G-001.2): the share is 1, not 0, and it ends.
#[test]
fn g_001_2() {
    let batch = held_by(3, &[&[0, 1], &[1, 2]]);
    for pick in [Pick::Oldest, Pick::FewestReplicas] {
        for rounding in [Rounding::Up, Rounding::Down] {
            let (choice, _) = rounds(&batch, pick, rounding);
            assert_eq!(choice.loads(&batch), [1, 1, 0], "{pick:?} {rounding:?}");
        }
    }
}

/// Paper 001 §3.2, AEQUI (golden G-001.3): of eight requests at server 0 two are withdrawn (the printed formula would
/// withdraw four), and the loads are 6, 5 and 2.
#[test]
fn g_001_3() {
    let mut sets: Vec<&[u32]> = vec![&[0, 1]; 8];
    sets.extend([&[1, 2][..]; 2]);
    sets.extend([&[0, 1][..], &[1, 2], &[0, 2]]);
    let batch = held_by(3, &sets);
    let cluster = Cluster::equal(&batch);
    // The eight and the two are where they are because nothing else was known.
    let mut first_replica = true;
    let mut aequi = Replanned::new(&batch, &cluster, TakeBack::Overload, |batch, cluster| {
        if std::mem::take(&mut first_replica) {
            evenkeel::select::first::select(batch)
        } else {
            aequi::fill(batch, cluster)
        }
    });
    (0..10).for_each(|request| aequi.arrived(request).unwrap());
    aequi.replan();
    (10..13).for_each(|request| aequi.arrived(request).unwrap());
    let moves = aequi.replan();
    let withdrawn: Vec<u32> = moves.iter().filter(|m| m.from.is_some()).map(|m| m.request).collect();
    assert_eq!(withdrawn, [7, 6], "the youngest two");
    let loads = [0, 1, 2].map(|server| aequi.waiting(ServerId(server)).count());
    assert_eq!(loads, [6, 5, 2]);
    // What is balanced stays.
    assert_eq!(aequi.replan(), []);
}

/// Paper 001 §3.2: what is in service is never moved, nor what has no other replica.
#[test]
fn only_what_waits_and_can_move_is_withdrawn() {
    let batch = held_by(2, &[&[0], &[0, 1], &[0, 1], &[0], &[0], &[0, 1]]);
    let cluster = Cluster::equal(&batch);
    let mut online = Replanned::new(&batch, &cluster, TakeBack::Overload, {
        let mut is_first = true;
        move |batch: &Batch, cluster: &Cluster| match std::mem::take(&mut is_first) {
            true => evenkeel::select::first::select(batch),
            false => aequi::fill(batch, cluster),
        }
    });
    (0..6).for_each(|request| online.arrived(request).unwrap());
    assert_eq!(online.replan().len(), 6);
    for started in 0..3 {
        assert_eq!(online.start(ServerId(0)), Ok(Some(started)));
    }
    // 6 blocks at server 0, the average is 3: two above 3 + 1, but only request 5 waits and has another replica.
    assert_eq!(online.replan(), [Move { request: 5, from: Some(ServerId(0)), to: ServerId(1) }]);
    assert_eq!(online.done(0), Ok(()));
    assert_eq!(online.done(0), Err(BadTurn::NotInService(0)));
    assert_eq!(online.done(4), Err(BadTurn::NotInService(4)));
    assert_eq!(online.done(9), Err(BadTurn::NoSuchRequest(9)));
    assert_eq!(online.arrived(2), Err(BadTurn::ArrivedTwice(2)));
    assert_eq!(online.arrived(6), Err(BadTurn::NoSuchRequest(6)));
    assert_eq!(online.start(ServerId(2)), Err(BadTurn::NoSuchServer(2)));
}

/// Paper 001 §4, Table 1 has EQUI 35 % before LDDF. By load alone that is not so: on 60 requests with two copies on three
/// servers LDDF is nearer to the optimum, and EQUI gains by giving away first what few can take.
#[test]
fn by_load_alone_equi_is_not_better_than_lddf() {
    const SEEDS: u64 = 200;
    let mut sums = [0; 5];
    for seed in 0..SEEDS {
        let workload = Workload {
            n_requests: 60,
            n_clients: 1,
            n_servers: 3,
            copies: 2,
            law: Law::Uniform,
            sizes: Sizes::Fixed(1),
            clients: Clients::Drawn,
            seed,
        };
        let batch = workload.generate().unwrap();
        let choices = [
            rounds(&batch, Pick::Oldest, Rounding::Up).0,
            rounds(&batch, Pick::FewestReplicas, Rounding::Up).0,
            lddf::lddf(&batch),
            lddf::hddf(&batch),
            optimal::select(&batch, &Cluster::equal(&batch), Goal::MaxLoad).0,
        ];
        for (sum, choice) in sums.iter_mut().zip(&choices) {
            *sum += choice.loads(&batch).into_iter().max().unwrap_or(0);
        }
    }
    let [equi, fewest, lddf, hddf, optimum] = sums.map(|sum| sum as f64 / SEEDS as f64);
    println!(
        "mean of the largest load: equi {equi}, equi-fewest {fewest}, lddf {lddf}, hddf {hddf}, optimum {optimum}"
    );
    assert!(optimum <= lddf && lddf < equi && fewest < equi);
}
