//! Two-phase collective I/O against paper 002 and the core's own model of it.

use evenkeel::model::ServerId;
use evenkeel::policy::{self, Policy, queues};
use evenkeel::queue::formulas::Even;
use evenkeel::queue::{AppId, Collective, Discipline, Model, Options, Request};
use evenkeel_sim::case::Case;
use evenkeel_sim::collective::{CollectiveError, CollectiveIo, Part, Reads, read};
use evenkeel_sim::fabric::Fabric;
use evenkeel_sim::hardware::Hardware;
use evenkeel_sim::units::{Bytes, PerSecond, Span};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::queueing::hardware;

const MODELS: [Model; 2] = [Model::NoBarrier, Model::Barrier];

/// Requests of (app, server, read, shuffle), each of an aggregator of its own, all at once and in this order.
fn reads(n_apps: u32, n_servers: u32, rows: &[(u32, u32, u64, u64)]) -> Reads {
    let request = |(offset, &(app, server, read_ns, shuffle_ns))| Request {
        app: AppId(app),
        server: ServerId(server),
        offset,
        read_ns,
        shuffle_ns,
        ..Request::default()
    };
    let requests = (0..).zip(rows).map(request).collect();
    let collective = Collective::new(n_apps, n_servers, requests).expect("dense ids");
    // A byte takes a nanosecond.
    let part = |(aggregator, row): (u32, &(u32, u32, u64, u64))| Part {
        aggregator,
        to: 0,
        bytes: row.2,
        arrival_ns: 0,
    };
    let parts = (0..).zip(rows).map(part).collect();
    Reads { collective, parts, begins_ns: vec![0; n_apps as usize] }
}

fn completions(reads: &Reads, discipline: &Discipline, model: Model) -> Vec<u128> {
    let options = Options { model, ..Options::default() };
    let hardware = hardware(reads.collective.n_servers() as u32, 1);
    let fabric = Fabric::new(&hardware, Some(&|| (discipline.queue)(&options)));
    let (done_ns, outcome) = read(reads, fabric, model);
    let done: Vec<u128> = done_ns.iter().map(|done_ns| done_ns.expect("all is done").into()).collect();
    assert_eq!(done.iter().max().copied().unwrap_or(0), outcome.makespan_ns.into());
    assert_eq!((outcome.responses_ns.len(), outcome.n_failed), (done.len(), 0));
    done
}

fn find(name: &str) -> (&'static Policy, &'static Discipline) {
    queues().find(|(policy, _)| policy.name == name).expect("known")
}

/// Paper 002 §II, Fig. 2: served first, p4 makes the application end at 24t, served last at 18t; HIO finds the better
/// order, and with a barrier there is none.
#[test]
fn figure_2() {
    let (p0, p2, p4) = ((0, 0, 6, 6), (0, 0, 6, 6), (0, 0, 6, 0));
    let (first, last) = (reads(1, 1, &[p4, p0, p2]), reads(1, 1, &[p0, p2, p4]));
    let (_, nio) = find("nio");
    assert_eq!(completions(&first, nio, Model::NoBarrier), [24]);
    assert_eq!(completions(&last, nio, Model::NoBarrier), [18]);
    assert_eq!(completions(&first, nio, Model::Barrier), [24]);
    assert_eq!(completions(&last, nio, Model::Barrier), [24]);
    let (_, hio) = find("hio");
    assert_eq!(completions(&first, hio, Model::NoBarrier), [18]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// The simulator ends when the core says, under every policy.
    #[test]
    fn as_the_core_computes(rows in vec((0..4_u32, 0..3_u32, 0..9_u64, 0..20_u64), 0..24)) {
        let reads = reads(4, 3, &rows);
        for (policy, discipline) in queues() {
            for model in MODELS {
                let options = Options { model, ..Options::default() };
                let orders = (discipline.order)(&reads.collective, &options);
                let wanted = reads.collective.completions(&orders, model);
                prop_assert_eq!(completions(&reads, discipline, model), wanted, "{} {:?}", policy.name, model);
            }
        }
    }

    /// Whatever the stripes are, each byte is read once, from the server that has it.
    #[test]
    fn stripes_add_up(bytes in 1..200_u64, stripe in 1..60_u64, requests in 1..4_u32, n_servers in 1..5_u32) {
        let io = CollectiveIo {
            apps: 2,
            processes: 4,
            aggregators: 3,
            bytes: Bytes(bytes),
            stripe: Some(Bytes(stripe)),
            requests,
            ..CollectiveIo::default()
        };
        let hardware = hardware(n_servers, 2);
        let outcome = io.run(&Case::new(&hardware, find("sio").0, 1)).expect("valid");
        prop_assert_eq!(outcome.local_bytes + outcome.remote_bytes, bytes * u64::from(6 * requests));
        // Byte by byte, for both applications.
        let mut of_servers = vec![0; n_servers as usize];
        for byte in 0..bytes * u64::from(3 * requests) {
            of_servers[(byte / stripe) as usize % n_servers as usize] += 2;
        }
        prop_assert_eq!(outcome.bytes_of_servers, of_servers);
    }
}

/// A cluster as in paper 002 §VI: six servers, 16 nodes.
fn testbed() -> Hardware {
    let mut hardware = hardware(6, 16);
    hardware.servers.iter_mut().for_each(|server| (server.rate, server.latency_ns) = (0.1, 5_000_000));
    hardware.message_ns = 50_000;
    hardware
}

/// One application and one aggregator: the message, the read, the shuffle.
#[test]
fn a_single_aggregator_by_hand() {
    let io = CollectiveIo {
        apps: 1,
        processes: 2,
        aggregators: 1,
        nodes: Some(2),
        bytes: Bytes(1_000_000),
        partners: Some([2, 2]),
        intra: PerSecond(2.0),
        inter: PerSecond(0.5),
        ..CollectiveIo::default()
    };
    // A message, 5 ms and 1 MB at 100 MB/s; half goes to the other node at 500 MB/s, after a message's latency.
    let read_ns = 50_000 + 5_000_000 + 10_000_000;
    let run = |io: &CollectiveIo| {
        io.run(&Case { keep_timeline: true, ..Case::new(&testbed(), find("hio").0, 1) }).expect("valid")
    };
    let outcome = run(&io);
    assert_eq!(outcome.responses_ns, [read_ns + 1_000_000 + 50_000]);
    assert_eq!((outcome.n_messages, outcome.makespan_ns), (1, outcome.responses_ns[0]));
    assert!(outcome.timeline.is_some());
    // On one node.
    let together = CollectiveIo { nodes: Some(1), ..io.clone() };
    assert_eq!(run(&together).responses_ns, [read_ns + 250_000 + 50_000]);
    // For nobody.
    let alone = CollectiveIo { partners: Some([0, 0]), ..io };
    assert_eq!(run(&alone).responses_ns, [read_ns]);
}

/// An application that begins later is not charged with what was before, and the same seed gives the same outcome.
#[test]
fn applications_begin_one_after_the_other() {
    let io = CollectiveIo { interval: Span(10_000_000_000), ..CollectiveIo::default() };
    for (policy, _) in queues() {
        let outcome = io.run(&Case::new(&testbed(), policy, 7)).expect("valid");
        assert_eq!((outcome.responses_ns.len(), outcome.n_failed), (6, 0));
        assert!(outcome.makespan_ns > 50_000_000_000);
        assert!(outcome.responses_ns.iter().all(|&ns| ns < 1_000_000_000), "{:?}", outcome.responses_ns);
        assert_eq!(outcome, io.run(&Case::new(&testbed(), policy, 7)).expect("valid"));
    }
    let spread = CollectiveIo { spread: Span(100_000_000), ..CollectiveIo::default() };
    let run = |seed| {
        spread
            .run(&Case { keep_timeline: true, ..Case::new(&testbed(), find("hio").0, seed) })
            .expect("valid")
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

/// Paper 002 §IV, equal applications with an aggregator for each server: formula (5) to the nanosecond, formula (4) on
/// average.
#[test]
fn formulas_4_and_5() {
    let all = CollectiveIo { partners: Some([50, 50]), barrier: true, ..CollectiveIo::default() };
    let mean =
        |name, seed| all.run(&Case::new(&testbed(), find(name).0, seed)).expect("valid").mean_response_ns();
    // 16 MB at 100 MB/s; a fiftieth at 1.25 GB/s to other nodes.
    let (read_ns, shuffle_ns, message_ns) = (165e6, 256_000.0 + 50_000.0, 50_000.0);
    let formula = Even::new(6, 6, read_ns, shuffle_ns).expect("valid");
    assert_eq!(mean("sio", 1) as u64, (formula.sio() + message_ns) as u64);
    let nio = (0..300).map(|seed| mean("nio", seed)).sum::<f64>() / 300.0;
    assert!((nio / (formula.nio() + message_ns) - 1.0).abs() < 0.005, "{nio} {}", formula.nio());
}

/// Paper 002 §IV: one application after the other is better than whatever comes on average; and due dates are never later.
#[test]
fn the_order_matters() {
    let io = CollectiveIo { apps: 12, inter: PerSecond(0.02), ..CollectiveIo::default() };
    let mean =
        |name, seed| io.run(&Case::new(&testbed(), find(name).0, seed)).expect("valid").mean_response_ns();
    let sum = |name| (0..20).map(|seed| mean(name, seed)).sum::<f64>();
    let (nio, sio, edd) = (sum("nio"), sum("sio"), sum("hio-edd"));
    assert!(edd < sio && sio < nio, "{edd} {sio} {nio}");
    for seed in 0..20 {
        assert!(mean("hio-edd", seed) <= mean("sio", seed), "{seed}");
    }
}

/// What a server loses is read when it is back; if it never is, its applications fail.
#[test]
fn outages() {
    let mut hardware = testbed();
    let io = CollectiveIo::default();
    let undisturbed = io.run(&Case::new(&hardware, find("sio").0, 1)).expect("valid");
    hardware.servers[2].outages = vec![(200_000_000, 5_000_000_000)];
    let outcome = io.run(&Case::new(&hardware, find("sio").0, 1)).expect("valid");
    assert_eq!((outcome.n_failed, outcome.responses_ns.len()), (0, 6));
    assert_eq!(outcome.bytes_of_servers, undisturbed.bytes_of_servers);
    assert!(outcome.makespan_ns > 5_000_000_000 && outcome.n_messages > undisturbed.n_messages);
    hardware.servers[2].outages = vec![(0, u64::MAX)];
    let outcome = io.run(&Case::new(&hardware, find("sio").0, 1)).expect("valid");
    assert_eq!((outcome.n_failed, outcome.responses_ns.len()), (6, 0));
}

#[test]
fn what_makes_no_sense_is_refused() {
    let policy = policy::find("colour").expect("known");
    let error = CollectiveIo::default().run(&Case::new(&testbed(), policy, 1)).expect_err("not a queue");
    let wanted = "`colour` does not order the queues of servers; use one of nio, sio, hio, hio-listing, hio-guarded, \
                  hio-edd, hio-edd-local";
    assert_eq!(error.to_string(), wanted);
    let io = CollectiveIo::default;
    let refused = |io: CollectiveIo| io.run(&Case::new(&testbed(), find("nio").0, 1)).expect_err("refused");
    assert_eq!(refused(CollectiveIo { apps: 0, ..io() }), CollectiveError::NoneOf("applications"));
    assert_eq!(refused(CollectiveIo { bytes: Bytes(0), ..io() }), CollectiveError::NoneOf("bytes to read"));
    let error = refused(CollectiveIo { nodes: Some(17), ..io() });
    assert_eq!(error.to_string(), "17 nodes, but only 16 clients; write 16 or less");
    assert!(matches!(refused(CollectiveIo { aggregators: 51, ..io() }), CollectiveError::TooMany { .. }));
    assert!(matches!(refused(CollectiveIo { processes: u32::MAX, ..io() }), CollectiveError::TooMany { .. }));
    let error = refused(CollectiveIo { partners: Some([3, 2]), ..io() });
    assert_eq!(error, CollectiveError::NoPartners(3, 2));
    assert!(matches!(
        refused(CollectiveIo { threshold: f64::NAN, ..io() }),
        CollectiveError::BadThreshold(_)
    ));
    assert!(matches!(refused(CollectiveIo { requests: u32::MAX, ..io() }), CollectiveError::Queue(_)));
    let fields: CollectiveIo =
        toml::from_str("apps = 3\nbytes = \"1MiB\"\ninter = \"10Gb/s\"\npartners = [1, 4]").expect("valid");
    assert_eq!((fields.apps, fields.bytes, fields.processes), (3, Bytes(1 << 20), 50));
    assert!(toml::from_str::<CollectiveIo>("aps = 3").is_err());
}
