//! Paper 002: the worked examples, the claims that hold, and those that do not.

use std::cell::Cell;
use std::collections::BTreeMap;

use evenkeel::draw::{Draw, Seeded};
use evenkeel::model::{Ratio, ServerId};
use evenkeel::policy::queues;
use evenkeel::queue::formulas::{Even, FormulaError};
use evenkeel::queue::hio::{self, Tuned, Tuning};
use evenkeel::queue::shuffle::{self, Combine, Network, Placement, ShuffleError};
use evenkeel::queue::{
    self, AppId, Collective, Discipline, Model, Options, Orders, QueueError, Request, Tagged, edd, mean_ns,
    nio, sio,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use crate::support::config;

const MODELS: [Model; 2] = [Model::NoBarrier, Model::Barrier];

/// The policy of that name.
fn discipline(name: &str) -> &'static Discipline {
    queues().find(|(policy, _)| policy.name == name).map(|(_, discipline)| discipline).expect("known")
}

/// A request without hints; offsets are equal.
fn request(app: u32, server: u32, read_ns: u64, shuffle_ns: u64) -> Request {
    Request { app: AppId(app), server: ServerId(server), read_ns, shuffle_ns, ..Request::default() }
}

/// Requests of (app, server, read, shuffle) in order of arrival.
fn collective(rows: &[(u32, u32, u64, u64)]) -> Collective {
    let n_apps = rows.iter().map(|row| row.0 + 1).max().unwrap_or(0);
    let n_servers = rows.iter().map(|row| row.1 + 1).max().unwrap_or(0);
    let requests = rows.iter().map(|&(app, server, read, shuffle)| request(app, server, read, shuffle));
    Collective::new(n_apps, n_servers, requests.collect()).expect("dense ids")
}

/// Each application has one request on each server, all with the same read; `shuffles[app][server]`.
fn even(read: u64, shuffles: &[&[u64]]) -> Collective {
    let rows = (0..).zip(shuffles).flat_map(|(app, shuffles)| {
        (0..).zip(*shuffles).map(move |(server, &shuffle)| (app, server, read, shuffle))
    });
    collective(&rows.collect::<Vec<_>>())
}

fn hio(collective: &Collective, tuning: Tuning) -> Orders {
    hio::order(collective, hio::threshold(), tuning)
}

/// The applications on one server, in order of service.
fn apps(collective: &Collective, orders: &Orders, server: usize) -> Vec<u32> {
    let queue = orders.iter().nth(server).expect("a server");
    queue.iter().map(|&row| collective.requests()[row as usize].app.0).collect()
}

fn is_close(found: f64, wanted: f64) -> bool {
    (found - wanted).abs() <= 1e-12 * wanted.abs().max(1.0)
}

/// Paper 002 §II, Fig. 2 (golden G-002.1): served first, p4 makes the application end at 24t, served last at
/// 18t. It can wait 6t by formula (3); the 12t of the text are what is left after its read in the second order.
/// With a barrier both take 24t.
#[test]
fn g_002_1() {
    let (p0, p2, p4) = ((0, 0, 6, 6), (0, 0, 6, 6), (0, 0, 6, 0));
    let (first, last) = (collective(&[p4, p0, p2]), collective(&[p0, p2, p4]));
    let done = |c: &Collective, model| c.completions(&nio::order(c), model);
    assert_eq!(done(&first, Model::NoBarrier), [24]);
    assert_eq!(done(&last, Model::NoBarrier), [18]);
    assert_eq!([done(&first, Model::Barrier), done(&last, Model::Barrier)], [[24], [24]]);
    let hints: Vec<_> = last.requests().iter().map(|r| (r.ad_ns, r.rad)).collect();
    assert_eq!(hints, [(0, 0), (0, 0), (6, 1)]);
    // HIO finds the better order.
    assert_eq!(first.completions(&hio(&first, Tuning::TextBubble), Model::NoBarrier), [18]);
}

/// Paper 002 §III.C (golden G-002.2): the text and the listing of Algorithm 1 tune the same queue
/// differently.
#[test]
fn g_002_2() {
    let queue = [(0, 4, 10), (1, 3, 1), (2, 2, 6)]
        .map(|(app, read, ad_ns)| Request { ad_ns, ..request(app, 0, read, 0) });
    let tuned =
        |tuning| hio::tune(&queue, tuning).iter().map(|t: &Tuned| (t.place, t.ad_ns)).collect::<Vec<_>>();
    assert_eq!(tuned(Tuning::None), [(0, 10), (1, 1), (2, 6)]);
    assert_eq!(tuned(Tuning::TextBubble), [(1, 5), (2, 10), (0, 5)]);
    assert_eq!(tuned(Tuning::ListingLiteral), [(2, 9), (1, 7), (0, 4)]);
    // By then 0 can wait 7, and 2 can wait 6: less, so they change places.
    assert_eq!(tuned(Tuning::Guarded), [(1, 5), (2, 10), (0, 5)]);
}

/// Only guarded tuning leaves a request ahead of one that can wait as long; only the listing skips a position
/// when it stops.
#[test]
fn tunings_differ() {
    let tuned = |queue: &[(u64, u64)], tuning| {
        let queue: Vec<_> =
            queue.iter().map(|&(read, ad_ns)| Request { ad_ns, ..request(0, 0, read, 0) }).collect();
        hio::tune(&queue, tuning).iter().map(|t| t.place).collect::<Vec<_>>()
    };
    let equal = [(1, 3), (1, 3)];
    assert_eq!(tuned(&equal, Tuning::TextBubble), [1, 0]);
    assert_eq!(tuned(&equal, Tuning::Guarded), [0, 1]);
    // The first cannot wait for the second, so the listing never looks at the second.
    let second_waits = [(9, 0), (9, 5), (1, 0), (9, 0)];
    assert_eq!(tuned(&second_waits, Tuning::TextBubble), [0, 2, 1, 3]);
    assert_eq!(tuned(&second_waits, Tuning::ListingLiteral), [0, 1, 2, 3]);
    // Strictly longer, as printed.
    assert_eq!(tuned(&[(1, 2), (2, 0)], Tuning::TextBubble), [0, 1]);
}

/// Paper 002 §III.C (golden G-002.3): where shuffles are long, HIO is better than SIO for one application and
/// as good for the other. So is `hio-edd`.
#[test]
fn g_002_3() {
    let c = even(1, &[&[0, 5], &[5, 0]]);
    assert_eq!(c.completions(&sio::order(&c), Model::NoBarrier), [6, 7]);
    for orders in [hio(&c, Tuning::TextBubble), edd::order(&c, Model::NoBarrier), edd::local_order(&c)] {
        assert_eq!(c.completions(&orders, Model::NoBarrier), [6, 6]);
        assert_eq!([apps(&c, &orders, 0), apps(&c, &orders, 1)], [[1, 0], [0, 1]]);
    }
}

/// Paper 002 §IV claims that HIO "at least has the same performance" as SIO in the worst case (golden
/// G-002.4). It is worse here on average; `hio-edd` is not, for any application.
#[test]
fn g_002_4() {
    let c = even(1, &[&[0, 1], &[0, 0], &[1, 1]]);
    let sio = c.completions(&sio::order(&c), Model::NoBarrier);
    let hio = c.completions(&hio(&c, Tuning::TextBubble), Model::NoBarrier);
    assert_eq!((mean_ns(&sio), mean_ns(&hio)), (Ratio::new(8, 3), 3.into()));
    let edd = c.completions(&edd::order(&c, Model::NoBarrier), Model::NoBarrier);
    assert!(edd.iter().zip(&sio).all(|(edd, sio)| edd <= sio));
}

/// Paper 002 §IV, formulas (4) to (9) (golden G-002.5).
#[test]
fn g_002_5() {
    let cases = [
        ((2, 2, 1.0, 0.0), [1.75, 1.5, 1.0, 0.25, 0.5]),
        ((3, 2, 1.0, 0.0), [22.0 / 9.0, 2.0, 1.0, 4.0 / 9.0, 1.0]),
        ((6, 6, 1.0, 2.0), [7.560_292_352_537_723, 5.5, 3.0, 2.060_292_352_537_723, 2.5]),
        ((6, 4, 2.0, 5.0), [15.489_197_530_864_198, 12.0, 7.0, 3.489_197_530_864_198, 5.0]),
    ];
    for ((m, n, t, s), wanted) in cases {
        let f = Even::new(m, n, t, s).expect("valid");
        let found = [f.nio(), f.sio(), f.hio_best(), f.sio_saves(), f.hio_best_saves()];
        assert!(found.iter().zip(wanted).all(|(&f, w)| is_close(f, w)), "{found:?} {wanted:?}");
        assert!(is_close(f.hio_worst(), f.sio()));
        assert!(is_close(f.nio() - f.sio(), f.sio_saves()));
        assert!(is_close(f.sio() - f.hio_best(), f.hio_best_saves()));
    }
}

/// The formulas take what would overflow as printed, and refuse what has no answer.
#[test]
fn formulas_at_the_edges() {
    // 1000^1000 is no float.
    let f = Even::new(1000, 1000, 1.0, 0.0).expect("valid");
    assert!((999.0..1000.0).contains(&f.nio()), "{}", f.nio());
    // Formula (8) for many servers: (m - 1)t/2.
    let f = Even::new(7, u32::MAX, 2.0, 1.0).expect("valid");
    assert!(is_close(f.sio_saves(), 6.0) && is_close(f.nio(), 15.0));
    let f = Even::new(1, 1, 3.0, 4.0).expect("valid");
    assert!([f.nio(), f.sio(), f.hio_best()].iter().all(|&done| is_close(done, 7.0)));
    assert_eq!(Even::new(0, 1, 1.0, 1.0), Err(FormulaError::NoneOf("applications")));
    assert_eq!(Even::new(1, 0, 1.0, 1.0), Err(FormulaError::NoneOf("servers")));
    assert_eq!(Even::new(1, 1, -1.0, 1.0), Err(FormulaError::BadTime(-1.0)));
    assert_eq!(Even::new(1, 1, 1.0, f64::INFINITY), Err(FormulaError::BadTime(f64::INFINITY)));
    assert!(matches!(Even::new(1, 1, f64::NAN, 1.0), Err(FormulaError::BadTime(_))));
    assert_eq!(Even::new(2, 1, f64::MAX, 0.0), Err(FormulaError::TooLong));
}

/// All orders of `0..m`.
fn permutations(m: u32) -> Vec<Vec<u32>> {
    let Some(last) = m.checked_sub(1) else { return vec![Vec::new()] };
    let with_last =
        |rest: Vec<u32>| (0..=rest.len()).map(move |at| [&rest[..at], &[last], &rest[at..]].concat());
    permutations(last).into_iter().flat_map(with_last).collect()
}

/// All orders of m applications on n servers, as rows of application and server.
fn all_orders(m: u32, n: u32) -> impl Iterator<Item = Vec<(u32, u32)>> {
    let orders = permutations(m);
    (0..orders.len().pow(n)).map(move |case| {
        let on = |server: u32| &orders[case / orders.len().pow(server) % orders.len()];
        (0..n).flat_map(|server| on(server).iter().map(move |&app| (app, server))).collect()
    })
}

/// Formula (4) is the mean over all orders on all servers, counted out.
#[test]
fn formula_4_by_enumeration() {
    let (t, s) = (3, 5);
    for (m, n) in [(1, 3), (2, 2), (2, 5), (3, 1), (3, 3), (4, 2)] {
        let (mut sum, mut n_done) = (0, 0);
        for orders in all_orders(m, n) {
            let rows: Vec<_> = orders.iter().map(|&(app, server)| (app, server, t, s)).collect();
            let c = collective(&rows);
            sum += c.completions(&nio::order(&c), Model::Barrier).iter().sum::<u128>();
            n_done += m;
        }
        let mean = sum as f64 / f64::from(n_done);
        let formula = Even::new(m, n, t as f64, s as f64).expect("valid").nio();
        assert!(is_close(mean, formula), "m {m}, n {n}: {mean} {formula}");
    }
}

/// The paper's model of NIO: on each server every order is as likely as any other, whatever the other servers
/// do.
#[test]
fn nio_shuffled_is_uniform() {
    let c = even(1, &[&[0, 0], &[0, 0], &[0, 0]]);
    let mut draw = Seeded::new(1);
    let mut seen = BTreeMap::new();
    for _ in 0..36_000 {
        let orders = nio::shuffled(&c, &mut draw);
        *seen.entry([apps(&c, &orders, 0), apps(&c, &orders, 1)]).or_insert(0) += 1;
    }
    assert_eq!(seen.len(), 36);
    assert!(seen.values().all(|n| (850..1150).contains(n)), "{seen:?}");
}

/// Formula (5) is the mean under SIO, in both models and whichever requests have the long shuffle.
#[test]
fn formula_5_by_orders() {
    let (t, s) = (3, 7);
    let mut draw = Seeded::new(2);
    for (m, n) in [(1, 1), (2, 3), (5, 2), (6, 6)] {
        let mut shuffles = vec![vec![0; n as usize]; m as usize];
        for of_app in &mut shuffles {
            of_app.iter_mut().for_each(|shuffle| *shuffle = draw.below(s as u32).into());
            of_app[draw.below(n) as usize] = s;
        }
        let c = even(t, &shuffles.iter().map(Vec::as_slice).collect::<Vec<_>>());
        let formula = Even::new(m, n, t as f64, s as f64).expect("valid").sio();
        for model in MODELS {
            let mean = mean_ns(&c.completions(&sio::order(&c), model)).to_f64();
            assert!(is_close(mean, formula), "{mean} {formula}");
        }
    }
}

/// Each application's long shuffle is on server `slowest(app)`, the others take `others`.
fn one_slow(m: u32, n: u32, (t, s): (u64, u64), others: u64, slowest: impl Fn(u32) -> u32) -> Collective {
    let pairs = (0..m).flat_map(|app| (0..n).map(move |server| (app, server)));
    let shuffle = |(app, server)| if server == slowest(app) { s } else { others };
    let rows = pairs.map(|pair| (pair.0, pair.1, t, shuffle(pair)));
    collective(&rows.collect::<Vec<_>>())
}

/// Formula (6) is what HIO reaches if each application has a server of its own and its slowest aggregator
/// takes long enough: `(m - 1)t` more than the others will do. With a barrier it is not reached, nor with
/// fewer servers.
#[test]
fn formula_6_by_orders() {
    for (m, n, t, s, others) in [(2, 2, 1, 1, 0), (3, 3, 2, 4, 0), (3, 5, 2, 9, 5), (6, 6, 1, 30, 3)] {
        let c = one_slow(m, n, (t, s), others, |app| app);
        let formula = Even::new(m, n, t as f64, s as f64).expect("valid");
        assert!(formula.is_best_case(others as f64));
        for tuning in [Tuning::None, Tuning::TextBubble, Tuning::Guarded] {
            let mean = mean_ns(&c.completions(&hio(&c, tuning), Model::NoBarrier)).to_f64();
            assert!(is_close(mean, formula.hio_best()), "{m} {n} {tuning:?}: {mean}");
        }
    }
    let c = one_slow(2, 2, (1, 10), 0, |app| app);
    let orders = hio(&c, Tuning::TextBubble);
    assert_eq!(mean_ns(&c.completions(&orders, Model::NoBarrier)), 11.into());
    assert_eq!(mean_ns(&c.completions(&orders, Model::Barrier)), 12.into());
    // Three applications, two servers.
    assert!(!Even::new(3, 2, 1.0, 10.0).expect("valid").is_best_case(0.0));
    let c = one_slow(3, 2, (1, 10), 0, |app| app % 2);
    assert!(mean_ns(&c.completions(&hio(&c, Tuning::TextBubble), Model::NoBarrier)) > 11.into());
}

/// The paper's condition for (6), max s - min s > (m - 1)t, is not enough even with n ≥ m: here every
/// application has two shuffles nearly as long as its longest, and no order at all reaches (6).
#[test]
fn formula_6_needs_more_than_the_paper_says() {
    let (m, n, t) = (3, 4, 1);
    let shuffles = [[10, 9, 9, 0], [9, 10, 9, 0], [9, 9, 10, 0]];
    let formula = Even::new(m, n, 1.0, 10.0).expect("valid");
    assert!(formula.is_best_case(0.0), "what the paper asks for");
    assert!(!formula.is_best_case(9.0));
    let mut best = Ratio::from(u64::MAX);
    for orders in all_orders(m, n) {
        let rows =
            orders.iter().map(|&(app, server)| (app, server, t, shuffles[app as usize][server as usize]));
        let c = collective(&rows.collect::<Vec<_>>());
        best = best.min(mean_ns(&c.completions(&nio::order(&c), Model::NoBarrier)));
    }
    assert!(best.to_f64() > formula.hio_best(), "{best}");
}

/// Formula (7): all slowest aggregators on one server. Without tuning both models agree; tuning uses the
/// acceptable delay, which a barrier does not grant.
#[test]
fn formula_7_by_orders() {
    for (m, n, t, s) in [(1, 1, 2, 3), (2, 2, 1, 10), (4, 3, 2, 9), (6, 6, 1, 30)] {
        let c = one_slow(m, n, (t, s), 0, |_| 0);
        let formula = Even::new(m, n, t as f64, s as f64).expect("valid").hio_worst();
        let mean = |tuning, model| mean_ns(&c.completions(&hio(&c, tuning), model)).to_f64();
        assert!(is_close(mean(Tuning::None, Model::NoBarrier), formula));
        assert!(is_close(mean(Tuning::None, Model::Barrier), formula));
        assert!(is_close(mean(Tuning::TextBubble, Model::NoBarrier), formula));
        let is_later = mean(Tuning::TextBubble, Model::Barrier) > formula;
        assert_eq!(is_later, m > 1);
    }
}

/// Paper 002 §III.A, formula (1): the slowest message counts, and without messages there is no shuffle.
#[test]
fn formula_1() {
    let node = Placement::RoundRobin { nodes: 2 };
    let network = |combine| Network::new(100.0, 10.0, 0.5, combine).expect("valid");
    let cost =
        |combine, messages: &[(u32, f64)]| network(combine).shuffle_s(node, 0, messages).expect("valid");
    // Ranks 2 and 4 share the node of rank 0.
    let messages = [(2, 200.0), (4, 100.0), (1, 15.0)];
    assert!(is_close(cost(Combine::Max, &messages), 2.5));
    assert!(is_close(cost(Combine::Sum, &messages), 5.0));
    assert!(is_close(cost(Combine::Max, &[(2, 1.0), (1, 40.0)]), 4.5));
    for combine in [Combine::Max, Combine::Sum] {
        assert!(is_close(cost(combine, &[]), 0.0));
        assert!(is_close(cost(combine, &[(0, 7.0), (1, 0.0)]), 0.0), "to itself, or nothing");
    }
    assert_eq!(shuffle::to_ns(2.5), Ok(2_500_000_000));
    assert_eq!(shuffle::to_ns(0.000_000_001_4), Ok(1));
}

#[test]
fn wrong_shuffles_are_refused() {
    for bad in [0.0, -1.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN] {
        let is_refused = |intra, inter| {
            matches!(Network::new(intra, inter, 0.0, Combine::Max), Err(ShuffleError::BadBandwidth(_)))
        };
        assert!(is_refused(bad, 1.0) && is_refused(1.0, bad), "{bad}");
    }
    let network = Network::new(1e-300, 1.0, 0.0, Combine::Max).expect("valid");
    let node = Placement::RoundRobin { nodes: 1 };
    for bad in [-1.0, f64::INFINITY, f64::NAN] {
        assert!(matches!(Network::new(1.0, 1.0, bad, Combine::Max), Err(ShuffleError::BadLatency(_))));
        assert!(matches!(network.shuffle_s(node, 0, &[(1, bad)]), Err(ShuffleError::BadSize(_))));
        assert!(matches!(shuffle::to_ns(bad), Err(ShuffleError::TooLong(_))));
    }
    let endless = network.shuffle_s(node, 0, &[(1, 1e300)]).expect("valid");
    assert!(matches!(shuffle::to_ns(endless), Err(ShuffleError::TooLong(_))));
    assert!(shuffle::to_ns(18_446_744_073.709_553).is_err());
    for (placement, what) in [
        (Placement::RoundRobin { nodes: 0 }, "nodes"),
        (Placement::Block { cores: 0 }, "cores"),
        (Placement::Literal { n_c: 0 }, "cores"),
    ] {
        assert_eq!(placement.is_intra(0, 1), Err(ShuffleError::NoRoom(what)));
        assert_eq!(network.shuffle_s(placement, 0, &[(1, 1.0)]), Err(ShuffleError::NoRoom(what)));
    }
}

/// Paper 002 §III.A, formula (2) counts cores where nodes are meant: with 8 ranks dealt out to 2 nodes of 4
/// cores, ranks 0 and 2 share a node, which the printed formula denies.
#[test]
fn formula_2() {
    let shares = |placement: Placement| -> Vec<u32> {
        (0..8).filter(|&rank| placement.is_intra(0, rank) == Ok(true)).collect()
    };
    assert_eq!(shares(Placement::RoundRobin { nodes: 2 }), [0, 2, 4, 6]);
    assert_eq!(shares(Placement::Block { cores: 4 }), [0, 1, 2, 3]);
    assert_eq!(shares(Placement::Literal { n_c: 4 }), [0, 4]);
}

/// Paper 002 §III.B, formula (3) and ranks: within each application, over all servers.
#[test]
fn acceptable_delays_are_of_one_application() {
    let c = collective(&[(0, 0, 1, 4), (1, 0, 1, 100), (0, 1, 1, 9), (0, 1, 1, 4), (0, 2, 1, 0)]);
    let hints: Vec<_> = c.requests().iter().map(|r| (r.ad_ns, r.rad)).collect();
    assert_eq!(hints, [(5, 1), (0, 0), (0, 0), (5, 1), (9, 2)]);
    assert!(shuffle::acceptable_delays(&[]).is_empty());
}

#[test]
fn ids_out_of_range_are_refused() {
    let new = |request| Collective::new(2, 3, vec![Request::default(), request]).map(drop);
    assert_eq!(new(request(1, 2, 0, 0)), Ok(()));
    assert_eq!(new(request(2, 0, 0, 0)), Err(QueueError::UnknownApp { row: 1, app: 2, n_apps: 2 }));
    assert_eq!(new(request(0, 3, 0, 0)), Err(QueueError::UnknownServer { row: 1, server: 3, n_servers: 3 }));
}

/// SIO serves the requests of an application by offset, and as they came where these are equal.
#[test]
fn sio_goes_by_application_and_offset() {
    let rows = [(1, 5), (0, 7), (0, 3), (1, 2), (0, 3)];
    let requests = rows.map(|(app, offset)| Request { offset, ..request(app, 0, 1, 0) });
    let c = Collective::new(2, 1, requests.to_vec()).expect("dense ids");
    assert_eq!(sio::order(&c).iter().next(), Some(&[2, 4, 1, 3, 0][..]));
}

/// HIO where there is nothing to decide, or one of its sums is zero.
#[test]
fn hio_at_the_edges() {
    let order = |rows: &[(u32, u32, u64, u64)]| {
        let c = collective(rows);
        apps(&c, &hio(&c, Tuning::TextBubble), 0)
    };
    // Equal shuffles: as SIO.
    let equal = even(2, &[&[5, 5], &[5, 5], &[5, 5]]);
    assert_eq!(hio(&equal, Tuning::TextBubble), sio::order(&equal));
    // Nothing read: any shuffle matters, and no shuffle does not. Application 1 has its slowest elsewhere.
    assert_eq!(order(&[(1, 0, 0, 1), (0, 0, 0, 1), (1, 1, 0, 9)]), [0, 1]);
    assert_eq!(order(&[(0, 0, 0, 0), (1, 0, 0, 1), (0, 1, 0, 9)]), [1, 0]);
    assert_eq!(order(&[(1, 0, 0, 0), (0, 0, 0, 0)]), [0, 1]);
    // One server and one request each: no request can wait, so by application.
    assert_eq!(order(&[(2, 0, 1, 3), (0, 0, 1, 1), (1, 0, 1, 2)]), [0, 1, 2]);
    // A server without requests, and no applications at all.
    let c = collective(&[(0, 1, 1, 1)]);
    assert!(apps(&c, &hio(&c, Tuning::TextBubble), 0).is_empty());
    let none = Collective::new(0, 0, Vec::new()).expect("nothing");
    let done = none.completions(&hio(&none, Tuning::TextBubble), Model::NoBarrier);
    assert_eq!((done.as_slice(), mean_ns(&done)), (&[][..], Ratio::ZERO));
    // One application: its slowest aggregator first.
    let one = collective(&[(0, 0, 4, 1), (0, 0, 4, 3), (0, 0, 4, 2)]);
    assert_eq!(hio(&one, Tuning::TextBubble).iter().next(), Some(&[1, 2, 0][..]));
}

/// The threshold is exact: a fifth is not above a fifth.
#[test]
fn hio_threshold() {
    // On server 0 application 0 can wait a little, and application 1 not at all.
    let order = |shuffle, read, threshold| {
        let c = collective(&[(0, 0, read, shuffle), (1, 0, read, shuffle), (0, 1, 1, shuffle + 1)]);
        apps(&c, &hio::order(&c, threshold, Tuning::None), 0)
    };
    assert_eq!(order(1000, 5000, hio::threshold()), [0, 1]);
    assert_eq!(order(1001, 5000, hio::threshold()), [1, 0]);
    assert_eq!(order(3, 10, Ratio::new(3, 10)), [0, 1]);
    assert_eq!(order(3, 10, Ratio::ZERO), [1, 0]);
    assert_eq!(order(0, 10, Ratio::ZERO), [0, 1]);
    // Where nothing is read, any shuffle is above any threshold, and no shuffle above none.
    assert_eq!(order(1, 0, u64::MAX.into()), [1, 0]);
    assert_eq!(order(0, 0, Ratio::ZERO), [0, 1]);
    let huge = u64::MAX / 5 * 5;
    assert_eq!(order(huge / 5, huge, hio::threshold()), [0, 1]);
    assert_eq!(order(huge / 5 + 1, huge, hio::threshold()), [1, 0]);
}

/// Due dates of one model do not hold in the other: with those of the no-barrier model an application is
/// later than under SIO, with a barrier.
#[test]
fn due_dates_are_of_one_model() {
    let c = even(1, &[&[0, 2], &[0, 0]]);
    assert_eq!(c.completions(&sio::order(&c), Model::Barrier), [3, 2]);
    assert_eq!(c.completions(&edd::order(&c, Model::NoBarrier), Model::Barrier), [4, 2]);
    assert_eq!(c.completions(&edd::order(&c, Model::Barrier), Model::Barrier), [3, 2]);
}

/// `hio-edd-local` without a barrier is never later than SIO with one. With one for both it can be later, and
/// with none for both too.
#[test]
fn local_due_dates_promise_little() {
    let done = |c: &Collective, model| {
        (c.completions(&sio::order(c), model), c.completions(&edd::local_order(c), model))
    };
    let c = even(1, &[&[0, 2], &[0, 0]]);
    assert_eq!(done(&c, Model::NoBarrier), (vec![3, 2], vec![3, 2]));
    assert_eq!(done(&c, Model::Barrier), (vec![3, 2], vec![4, 2]));

    let c = collective(&[(0, 0, 5, 0), (0, 1, 1, 2), (1, 0, 1, 0)]);
    assert_eq!(done(&c, Model::NoBarrier), (vec![5, 6], vec![6, 1]));
    assert_eq!(c.completions(&sio::order(&c), Model::Barrier), [7, 6]);
}

/// Requests of up to 5 applications at up to 4 servers, times from a few ranges.
fn cases() -> impl Strategy<Value = Collective> {
    let most = (select(vec![1_u64, 4]), select(vec![0_u64, 1, 4, 20]));
    most.prop_flat_map(|(read, shuffle)| requests(0..=read, 0..=shuffle))
}

fn requests(
    reads: impl Strategy<Value = u64>,
    shuffles: impl Strategy<Value = u64>,
) -> impl Strategy<Value = Collective> {
    let row = (0..5_u32, 0..4_u32, 0..3_u64, reads, shuffles);
    let row = row.prop_map(|(app, server, offset, read, shuffle)| Request {
        offset,
        ..request(app, server, read, shuffle)
    });
    vec(row, 0..=24).prop_map(|rows| Collective::new(5, 4, rows).expect("ids in range"))
}

/// Fails if any application is later in the first than in the second.
fn none_later(found: &[u128], allowed: &[u128]) -> Result<(), TestCaseError> {
    let is_later = found.iter().zip(allowed).any(|(found, allowed)| found > allowed);
    prop_assert!(!is_later, "{found:?} is later than {allowed:?}");
    Ok(())
}

/// The promise of paper 002 §IV, kept by `hio-edd` for every single application, in both models.
#[test]
fn edd_is_never_later_than_sio() {
    let n_earlier = [Cell::new(0), Cell::new(0)];
    proptest!(config(10_000), |(c in cases())| {
        for (model, n_earlier) in MODELS.into_iter().zip(&n_earlier) {
            let sio = c.completions(&sio::order(&c), model);
            let edd = c.completions(&edd::order(&c, model), model);
            none_later(&edd, &sio)?;
            n_earlier.set(n_earlier.get() + u32::from(edd != sio));
        }
    });
    assert!(n_earlier.iter().all(|n| n.get() > 500), "{n_earlier:?}");
}

/// More passes would change nothing: the due dates are those of the completions they lead to.
#[test]
fn edd_ends_at_a_fixed_point() {
    proptest!(config(2000), |(c in cases())| {
        let orders = edd::order(&c, Model::NoBarrier);
        let done = c.completions(&orders, Model::NoBarrier);
        let due = edd::due_dates(&c, Model::NoBarrier);
        for (request, due) in c.requests().iter().zip(due) {
            prop_assert_eq!(due, done[request.app.index()] - u128::from(request.shuffle_ns));
        }
    });
}

/// Without a barrier `hio-edd-local` is never later than SIO with one.
#[test]
fn local_edd_is_never_later_than_sio_with_a_barrier() {
    let n_earlier = Cell::new(0);
    proptest!(config(10_000), |(c in cases())| {
        let sio = c.completions(&sio::order(&c), Model::Barrier);
        let local = c.completions(&edd::local_order(&c), Model::NoBarrier);
        none_later(&local, &sio)?;
        n_earlier.set(n_earlier.get() + u32::from(local != sio));
    });
    assert!(n_earlier.get() > 500, "{n_earlier:?}");
}

/// Every order of every policy serves what is there, once.
fn permutes(c: &Collective, orders: &Orders) -> Result<(), TestCaseError> {
    prop_assert_eq!(orders.iter().count(), c.n_servers());
    for (order, arrivals) in orders.iter().zip(c.arrivals().iter()) {
        let mut rows = order.to_vec();
        rows.sort_unstable();
        prop_assert_eq!(rows, arrivals);
    }
    Ok(())
}

/// The queue of a server with all its requests, as they arrive.
fn filled(policy: &Discipline, c: &Collective, options: &Options, server: usize) -> Box<dyn queue::Queue> {
    let due = edd::due_dates(c, options.model);
    let mut queue = (policy.queue)(options);
    for (&row, now_ns) in c.arrivals().iter().nth(server).expect("a server").iter().zip(0..) {
        let (id, due_ns) = (row.into(), Some(due[row as usize]));
        queue.push(now_ns, Tagged { id, request: c.requests()[row as usize], due_ns });
    }
    queue
}

#[test]
fn queues_give_the_order_of_their_policy() {
    let cases = (cases(), select(MODELS.to_vec()), 0..4_u64);
    proptest!(config(1000), |((c, model, tenths) in cases)| {
        let options = Options { model, threshold: Ratio::new(tenths.into(), 10) };
        for (named, policy) in queues() {
            let orders = (policy.order)(&c, &options);
            permutes(&c, &orders)?;
            for (server, order) in orders.iter().enumerate() {
                let mut queue = filled(policy, &c, &options, server);
                prop_assert_eq!(queue.len(), order.len());
                let served: Vec<u32> =
                    (100..).map_while(|now_ns| queue.pop(now_ns)).map(|tagged| tagged.id as u32).collect();
                prop_assert_eq!(&served, order, "{}", named.name);
                prop_assert!(queue.is_empty());
            }
        }
        permutes(&c, &nio::shuffled(&c, &mut Seeded::new(tenths)))?;
    });
}

/// However requests come and go, each that came goes once, with what it carried.
#[test]
fn queues_lose_nothing() {
    let cases = (cases(), any::<u64>());
    proptest!(config(1000), |((c, seed) in cases)| {
        for (named, policy) in queues() {
            let mut draw = Seeded::new(seed);
            let mut queue = (policy.queue)(&Options::default());
            let mut inside = BTreeMap::new();
            for (now_ns, id) in (0..).zip(0..c.requests().len() as u64) {
                let due_ns = (draw.below(2) == 0).then(|| draw.below(9).into());
                let tagged = Tagged { id, request: c.requests()[id as usize], due_ns };
                queue.push(now_ns, tagged);
                inside.insert(id, tagged);
                while draw.below(3) == 0 {
                    let popped = queue.pop(now_ns);
                    let expected = popped.and_then(|tagged| inside.remove(&tagged.id));
                    prop_assert_eq!(popped, expected);
                    prop_assert_eq!(popped.is_none() && !inside.is_empty(), false, "{}", named.name);
                }
                prop_assert_eq!(queue.len(), inside.len());
            }
        }
    });
}

/// Takes all that waits.
fn drain(queue: &mut dyn queue::Queue, now_ns: u64) -> Vec<u64> {
    std::iter::from_fn(|| queue.pop(now_ns)).map(|tagged| tagged.id).collect()
}

fn tagged(id: u64, request: Request, due_ns: Option<u128>) -> Tagged {
    Tagged { id, request, due_ns }
}

/// Paper 002 §V: `hio` orders sequences of requests. What comes while one is served is the next.
#[test]
fn hio_serves_sequence_by_sequence() {
    let mut queue = (discipline("hio").queue)(&Options::default());
    let with_rad = |rad| Request { rad, ..request(0, 0, 1, 1) };
    queue.push(0, tagged(0, with_rad(3), None));
    queue.push(0, tagged(1, with_rad(1), None));
    queue.push(0, tagged(2, with_rad(2), None));
    assert_eq!(queue.pop(0).map(|t| t.id), Some(1));
    queue.push(1, tagged(3, with_rad(1), None));
    queue.push(1, tagged(4, with_rad(0), None));
    assert_eq!(queue.len(), 4);
    assert_eq!(drain(&mut *queue, 1), [2, 0, 4, 3]);
}

/// What no planner has dated is due on arrival.
#[test]
fn edd_without_a_hint() {
    let mut queue = (discipline("hio-edd").queue)(&Options::default());
    let any = request(0, 0, 1, 1);
    queue.push(5, tagged(0, any, Some(20)));
    queue.push(10, tagged(1, any, None));
    queue.push(11, tagged(2, any, Some(7)));
    queue.push(30, tagged(3, any, None));
    assert_eq!(drain(&mut *queue, 30), [2, 1, 0, 3]);
}

/// The date that `hio-edd-local` gives a newcomer counts all that SIO would serve before it.
#[test]
fn local_edd_dates_newcomers_behind_those_who_wait() {
    let mut queue = (discipline("hio-edd-local").queue)(&Options::default());
    queue.push(0, tagged(0, Request { ad_ns: 50, ..request(0, 0, 10, 0) }, None));
    queue.push(0, tagged(1, request(0, 0, 1, 0), None));
    assert_eq!(queue.pop(0).map(|t| t.id), Some(1), "due at 11, the other at 60");
    queue.push(0, tagged(2, Request { ad_ns: 55, ..request(5, 0, 1, 0) }, None));
    assert_eq!(drain(&mut *queue, 0), [0, 2], "the newcomer is due at 10 + 1 + 55");
}

/// A date that `hio-edd-local` has given stays, so applications with lower ids cannot overtake for ever.
#[test]
fn local_edd_does_not_starve() {
    let served_after = |name: &str| {
        let mut queue = (discipline(name).queue)(&Options::default());
        queue.push(0, tagged(0, Request { ad_ns: 5, ..request(9, 0, 1, 0) }, None));
        (1..100).find(|&now| {
            queue.push(now, tagged(now, request(0, 0, 1, 0), None));
            queue.pop(now).is_some_and(|tagged| tagged.id == 0)
        })
    };
    // Due at 1 + 1 + 1 + 5 = 8; who comes at 7 is due then too, and has the lower id.
    assert_eq!(served_after("hio-edd-local"), Some(8));
    assert_eq!(served_after("sio"), None, "which has no time windows");
}

/// No input overflows.
#[test]
fn the_longest_times() {
    let extreme = || select(vec![0, 1, u64::MAX - 1, u64::MAX]);
    proptest!(config(1000), |(c in requests(extreme(), extreme()))| {
        for (policy, model) in queues().flat_map(|(_, policy)| MODELS.map(|model| (policy, model))) {
            let options = Options { model, ..Options::default() };
            let orders = (policy.order)(&c, &options);
            permutes(&c, &orders)?;
            let done = c.completions(&orders, model);
            let read: u128 = c.requests().iter().map(|r| u128::from(r.read_ns)).sum();
            prop_assert!(done.iter().all(|&done| done <= read + u128::from(u64::MAX)));
            for server in 0..c.n_servers() {
                let mut queue = filled(policy, &c, &options, server);
                while queue.pop(u64::MAX).is_some() {}
            }
        }
    });
}

/// The mean completion against SIO's without a barrier, on average over seeds: reads of 1 on six servers,
/// shuffles drawn up to `most`.
fn against_sio<const N: usize>(
    n_apps: u32,
    most: u32,
    policies: [&dyn Fn(&Collective) -> Orders; N],
) -> [f64; N] {
    const READ: u64 = 1_000_000;
    const N_SEEDS: u64 = 60;
    let mut ratios = [0.0; N];
    for seed in 0..N_SEEDS {
        let mut draw = Seeded::new(seed);
        let mut shuffle = || (draw.unit() * f64::from(most) * READ as f64) as u64;
        let pairs = (0..n_apps).flat_map(|app| (0..6).map(move |server| (app, server)));
        let c = collective(&pairs.map(|(app, server)| (app, server, READ, shuffle())).collect::<Vec<_>>());
        let mean = |orders: &Orders| mean_ns(&c.completions(orders, Model::NoBarrier));
        let sio = mean(&sio::order(&c));
        for (ratio, policy) in ratios.iter_mut().zip(policies) {
            *ratio += mean(&policy(&c)).over(sio);
        }
    }
    ratios.map(|sum| sum / N_SEEDS as f64)
}

/// Paper 002 §VI finds HIO up to 15 % better than SIO. Where shuffles are no longer than a few reads it is up
/// to two thirds worse; `hio-edd` never is, and is better than HIO everywhere. Tuning by the listing is worse
/// than no tuning.
#[test]
fn hio_against_sio() {
    let expected = [
        (6, 1, 1.37),
        (12, 1, 1.55),
        (24, 1, 1.67),
        (6, 3, 1.08),
        (12, 3, 1.30),
        (24, 3, 1.49),
        (6, 10, 0.90),
        (24, 30, 0.87),
    ];
    for (n_apps, most, wanted) in expected {
        let [text, none, listing, edd] = against_sio(
            n_apps,
            most,
            [
                &|c| hio(c, Tuning::TextBubble),
                &|c| hio(c, Tuning::None),
                &|c| hio(c, Tuning::ListingLiteral),
                &|c| edd::order(c, Model::NoBarrier),
            ],
        );
        assert!((text - wanted).abs() < 0.02, "{n_apps} {most}: {text}");
        assert!(edd <= text && edd <= 1.0, "{n_apps} {most}: {edd} {text}");
        assert!(listing > none || most == 1, "{n_apps} {most}: {listing} {none}");
    }
}
