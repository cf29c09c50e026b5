//! The claims and the worked examples of paper 000.

use evenkeel::bid::{self, Rules, rounds::Bidding};
use evenkeel::check::{self, Fault, Measures, Subject};
use evenkeel::draw::{Seeded, Ties};
use evenkeel::model::{Batch, Choice, Cluster, Grant, ServerId, Transfer};
use evenkeel::order::colour::order;
use evenkeel::order::rounds::Rounds;
use evenkeel::order::{hdf, lddf_slots, ps};
use evenkeel::select::{Goal, optimal};
use evenkeel::workload::{Clients, Law, Sizes, Workload};

use crate::support::{batch, planned, whole};

/// A plan of one-block transfers: the server and the slot of each request.
fn plan(rows: &[(u32, u64)]) -> Vec<Transfer> {
    let rows = (0..).zip(rows);
    rows.map(|(request, &(server, start))| Transfer {
        request,
        server: ServerId(server),
        start: start.into(),
        blocks: 1.into(),
    })
    .collect()
}

fn length(batch: &Batch, rows: &[(u32, u64)]) -> Result<u64, Fault> {
    check::plan(batch, &Cluster::equal(batch), &plan(rows), true).map(|measures| whole(measures.length))
}

/// Paper 000 §2.1, Fig. 1 (golden G-000.1): the largest degree is 2, so the four transfers take two slots, and
/// a worse order takes three.
#[test]
fn g_000_1() {
    let batch = batch(&[("C0", 1, &["I0"]), ("C1", 1, &["I0"]), ("C1", 1, &["I1"]), ("C2", 1, &["I1"])]);
    let servers = [0, 0, 1, 1];
    let best = planned(&batch, &Cluster::equal(&batch));
    assert_eq!(best.bound.value, 2.into());
    assert_eq!(best.measures, Measures { length: 2.into(), max_load: 2.into() });

    let in_slots = |slots: [u64; 4]| {
        let rows: Vec<_> = servers.into_iter().zip(slots).collect();
        length(&batch, &rows)
    };
    assert_eq!(in_slots([0, 1, 0, 1]), Ok(2));
    assert_eq!(in_slots([0, 1, 2, 0]), Ok(3), "R1 with R4, then R2, then R3");
    for bits in 0..16_u64 {
        let slots = [0, 1, 2, 3].map(|request| bits >> request & 1);
        let shares_an_end = slots.windows(2).any(|pair| pair[0] == pair[1]);
        assert_eq!(in_slots(slots).is_err(), shares_an_end, "{slots:?}");
    }
}

/// Paper 000 §2.1, Fig. 2 (golden G-000.2): R1 from I0 leaves degree 2 and two slots, R1 from I1 degree 3 and
/// three slots.
#[test]
fn g_000_2() {
    let batch =
        batch(&[("C0", 1, &["I0", "I1"]), ("C1", 1, &["I1"]), ("C1", 1, &["I2"]), ("C2", 1, &["I1"])]);
    let cluster = Cluster::equal(&batch);
    let best = planned(&batch, &cluster);
    assert_eq!(best.choice.loads(&batch), [1, 2, 1]);
    assert_eq!(best.bound.value, 2.into());
    assert_eq!(best.measures, Measures { length: 2.into(), max_load: 2.into() });
    assert_eq!(length(&batch, &[(0, 0), (1, 0), (2, 1), (1, 1)]), Ok(2), "R1 with R2, then R3 with R4");

    let servers = [1, 1, 2, 1].map(ServerId).to_vec();
    let wrong = order(&batch, &cluster, &Choice { servers, split_off: Vec::new() });
    assert_eq!(wrong.length, 3.into());
    let measures = check::plan(&batch, &cluster, &wrong.transfers, true);
    assert_eq!(measures, Ok(Measures { length: 3.into(), max_load: 3.into() }));
}

/// Paper 000 §1, optimal selection by augmenting paths (golden G-000.3): four requests with the same two
/// replicas put two on each server.
#[test]
fn g_000_3() {
    let pair: &[&str] = &["I0", "I1"];
    let batch = batch(&[("C0", 1, pair), ("C1", 1, pair), ("C2", 1, pair), ("C3", 1, pair)]);
    let cluster = Cluster::equal(&batch);
    for goal in [Goal::MaxLoad, Goal::Length, Goal::Mean] {
        let (choice, bound) = optimal::select(&batch, &cluster, goal);
        assert_eq!((choice.loads(&batch), bound.value), (vec![2, 2], 2.into()));
        check::bound(&batch, &cluster, &bound, Subject::MaxLoad).unwrap();
    }
}

/// Figure 1 of the paper, as in `g_000_1`.
fn figure_1() -> Batch {
    batch(&[("C0", 1, &["I0"]), ("C1", 1, &["I0"]), ("C1", 1, &["I1"]), ("C2", 1, &["I1"])])
}

/// Figure 2 of the paper, as in `g_000_2`.
fn figure_2() -> Batch {
    batch(&[("C0", 1, &["I0", "I1"]), ("C1", 1, &["I1"]), ("C1", 1, &["I2"]), ("C2", 1, &["I1"])])
}

/// The grants of each round as pairs of request and server.
fn by_round(grants: &[Grant]) -> Vec<Vec<(u32, u32)>> {
    let rounds = grants.chunk_by(|a, b| a.round == b.round);
    rounds.map(|round| round.iter().map(|g| (g.part.request, g.part.server.0)).collect()).collect()
}

fn bidding(batch: &Batch, rules: Rules) -> Bidding {
    bid::rounds::run(batch, &Cluster::equal(batch), rules)
}

fn as_rounds(batch: &Batch, grants: &[Grant]) -> Rounds {
    let cluster = Cluster::equal(batch);
    let rounds = Rounds::new(batch, &cluster, grants);
    let measures = check::plan(batch, &cluster, &rounds.schedule.transfers, true).expect("a valid plan");
    assert_eq!(measures.length, rounds.schedule.length);
    rounds
}

/// A uniform batch with two copies, requests of one block and clients drawn by lot.
fn uniform(n_requests: u32, n_clients: u32, n_servers: u32, seed: u64) -> Batch {
    let workload = Workload {
        n_requests,
        n_clients,
        n_servers,
        copies: 2,
        law: Law::Uniform,
        sizes: Sizes::Fixed(1),
        clients: Clients::Drawn,
        seed,
    };
    workload.generate().expect("a batch")
}

/// Paper 000 §3, Fig. 3 leaves ties open (golden G-000.4): with the lowest id all four clients run to the same server, and
/// the rounds are twice the optimum; going through the lists without waiting takes two slots.
#[test]
fn g_000_4() {
    let pair: &[&str] = &["I0", "I1"];
    let batch = batch(&[("C0", 1, pair), ("C1", 1, pair), ("C2", 1, pair), ("C3", 1, pair)]);
    let Bidding { grants, n_messages } = bidding(&batch, Rules::hdlwf(Ties::LowestId, 0));
    assert_eq!(by_round(&grants), [[(0, 0)], [(1, 1)], [(2, 0)], [(3, 1)]]);
    assert_eq!(n_messages, 2 * (4 + 3 + 2 + 1), "a bid and an answer of each client that is not done");
    let rounds = as_rounds(&batch, &grants);
    assert_eq!((rounds.n_rounds, rounds.schedule.length, rounds.compacted), (4, 4.into(), 2.into()));
}

/// Paper 000 §3 on Figures 1 and 2 (golden G-000.5): the client with the higher degree is granted first, and two rounds do.
#[test]
fn g_000_5() {
    let rules = Rules::hdlwf(Ties::LowestId, 0);
    let of_figure_1 = bidding(&figure_1(), rules).grants;
    assert_eq!(by_round(&of_figure_1), [[(1, 0), (3, 1)], [(0, 0), (2, 1)]]);
    assert_eq!(as_rounds(&figure_1(), &of_figure_1).schedule.length, 2.into());
    let of_figure_2 = bidding(&figure_2(), rules).grants;
    assert_eq!(by_round(&of_figure_2), [[(0, 0), (1, 1)], [(3, 1), (2, 2)]]);
    assert_eq!(as_rounds(&figure_2(), &of_figure_2).schedule.length, 2.into());
}

/// Paper 000 §5.1, LDDF and HDDF on Figure 2 (golden G-000.6): two slots if the servers with the fewest choices go first,
/// three if those with the most do.
#[test]
fn g_000_6() {
    let batch = figure_2();
    let cluster = Cluster::equal(&batch);
    let lddf = lddf_slots::lddf(&batch, &cluster);
    assert_eq!(by_round(&lddf), [vec![(0, 0), (2, 2), (3, 1)], vec![(1, 1)]]);
    assert_eq!(as_rounds(&batch, &lddf).schedule.length, 2.into());
    let hddf = lddf_slots::hddf(&batch, &cluster);
    assert_eq!(as_rounds(&batch, &hddf).schedule.length, 3.into());
}

/// Paper 000 §3: each server resolves conflicts by accepting one bid, each accepted request leaves with its copies, so
/// every round grants at least one and none is granted twice.
#[test]
fn every_relative_of_hdlwf_grants_each_request_once() {
    let batch = uniform(500, 16, 8, 3);
    let hdlwf = Rules::hdlwf(Ties::Hashed(3), 3);
    let all = [
        hdlwf,
        Rules::rebid(3, Ties::Hashed(3), 3),
        Rules::several_bids(3, Ties::Hashed(3), 3),
        Rules { bids: 2, passes: 2, ..hdlwf },
        Rules::random_bid(3),
        Rules::hdf_dist(3),
        Rules::mpasses(3, 3),
    ];
    for rules in all {
        let grants = bidding(&batch, rules).grants;
        let mut requests: Vec<u32> = grants.iter().map(|grant| grant.part.request).collect();
        requests.sort_unstable();
        assert!(requests.into_iter().eq(0..500), "{rules:?}");
        assert!(grants.is_sorted_by_key(|grant| grant.round));
        let rounds = as_rounds(&batch, &grants);
        if rules.bids == 1 {
            assert_eq!(rounds.schedule.length, u64::from(rounds.n_rounds).into(), "a round is a slot");
            assert!(rounds.compacted <= rounds.schedule.length);
        }
    }
}

/// Paper 000 §4, Figures 4 and 5: HDLWF is within 15 % of the optimum, and nearer under heavy traffic. That holds from
/// about 32 requests a server on; re-bidding in the round (§6) is better.
#[test]
fn hdlwf_is_near_the_optimum_under_heavy_traffic() {
    const SEEDS: u64 = 100;
    for per_server in [32, 64] {
        let (mut sum, mut worst, mut sum_rebid) = (0.0, 0.0_f64, 0.0);
        for seed in 0..SEEDS {
            let batch = uniform(64 * per_server, 256, 64, seed);
            let cluster = Cluster::equal(&batch);
            let optimum = optimal::bound(&batch, &cluster, Goal::Length).value;
            let length =
                |rules| as_rounds(&batch, &bidding(&batch, rules).grants).schedule.length.over(optimum);
            let ties = Ties::Hashed(seed);
            let ratio = length(Rules::hdlwf(ties, seed));
            (sum, worst, sum_rebid) =
                (sum + ratio, worst.max(ratio), sum_rebid + length(Rules::rebid(4, ties, seed)));
        }
        let (mean, mean_rebid) = (sum / SEEDS as f64, sum_rebid / SEEDS as f64);
        println!(
            "{per_server} requests a server: mean {mean:.4}, worst {worst:.4}, re-bidding {mean_rebid:.4}"
        );
        assert!(mean <= 1.15 && worst <= 1.20, "{per_server}: mean {mean}, worst {worst}");
        assert!(mean_rebid < mean, "{per_server}: {mean_rebid} with re-bidding, {mean} without");
    }
}

/// The largest number of transfers of a client or server.
fn largest_degree(batch: &Batch, choice: &Choice) -> u64 {
    let mut of_clients = vec![0; batch.n_clients()];
    batch.client_of().iter().for_each(|client| of_clients[client.index()] += 1);
    of_clients.into_iter().chain(choice.loads(batch)).max().unwrap_or(0)
}

/// Paper 000 §4.1: HDLWF is shorter than Random, whatever the load.
#[test]
fn hdlwf_beats_random() {
    for per_server in [8, 16, 32, 64] {
        let (mut hdlwf, mut random) = (0, 0);
        for seed in 0..20 {
            let batch = uniform(32 * per_server, 256, 32, seed);
            let n_rounds = |rules| u64::from(as_rounds(&batch, &bidding(&batch, rules).grants).n_rounds);
            hdlwf += n_rounds(Rules::hdlwf(Ties::Hashed(seed), seed));
            random += n_rounds(Rules::random_bid(seed));
        }
        assert!(hdlwf < random, "{per_server} requests a server: {hdlwf} and {random} rounds");
    }
}

/// Paper 000 §5.1: HDF and HCDF take at most (not exactly) 2d − 1 slots for the largest degree d, and with at most k transfers
/// at once ⌊m/k⌋ + 2d − 1.
#[test]
fn greedy_matchings_keep_to_their_bounds() {
    for seed in 0..20 {
        let batch = uniform(400, 12, 10, seed);
        let (choice, _) = optimal::select(&batch, &Cluster::equal(&batch), Goal::Length);
        let d = largest_degree(&batch, &choice);
        for limit in [None, Some(1), Some(3), Some(8)] {
            let equal = Cluster::equal(&batch);
            let cluster = Cluster::new(&batch, equal.servers().to_vec(), equal.clients().to_vec(), limit);
            let cluster = cluster.unwrap();
            let most = 2 * d - 1 + limit.map_or(0, |k| 400 / k);
            for grants in [hdf::hdf(&batch, &cluster, &choice), hdf::hcdf(&batch, &cluster, &choice)] {
                let rounds = Rounds::new(&batch, &cluster, &grants);
                check::plan(&batch, &cluster, &rounds.schedule.transfers, true).unwrap();
                assert!(u64::from(rounds.n_rounds) <= most, "{} of at most {most}", rounds.n_rounds);
            }
        }
    }
}

/// Paper 000 §5.2, Panconesi and Srinivasan: about 1.6 times the largest degree where all servers are full, and a few more.
#[test]
fn drawn_slots_take_about_1_6_times_the_degree() {
    for seed in 0..5 {
        let batch = uniform(20_000, 40, 40, seed);
        let cluster = Cluster::equal(&batch);
        let (choice, _) = optimal::select(&batch, &cluster, Goal::Length);
        let grants = ps::order(&batch, &cluster, &choice, &mut Seeded::new(seed));
        let ratio = as_rounds(&batch, &grants).schedule.length.over(largest_degree(&batch, &choice).into());
        assert!((1.3..1.75).contains(&ratio), "{ratio}");
    }
}

/// Paper 000 §5.2, Durand et al.: a client that is rejected and may bid again in the same slot makes the schedule shorter,
/// with every pass; one pass is HDF.
#[test]
fn more_passes_make_it_shorter() {
    let lengths = [1, 2, 4].map(|passes| {
        let n_rounds = |seed| {
            let batch = uniform(2048, 64, 64, seed);
            let grants = bidding(&batch, Rules::mpasses(passes, seed)).grants;
            u64::from(as_rounds(&batch, &grants).n_rounds)
        };
        (0..20).map(n_rounds).sum::<u64>()
    });
    assert!(lengths.is_sorted_by(|a, b| a > b), "{lengths:?}");
    assert_eq!(Rules::mpasses(1, 7), Rules::hdf_dist(7));
}
