//! Jobs under a scheduler in the centre: small cases by hand, and what paper 001 finds.

use evenkeel::policy::{Kind, POLICIES};
use evenkeel_sim::case::Case;
use evenkeel_sim::hardware::Hardware;
use evenkeel_sim::jobs::{Jobs, TakeBack};
use evenkeel_sim::outcome::Outcome;
use evenkeel_sim::refused::Refused;
use evenkeel_sim::requests::HandOver;
use evenkeel_sim::units::{Bytes, Span};
use proptest::prelude::*;

use crate::support::{hardware, policy};

fn run(jobs: &Jobs, hardware: &Hardware, name: &str, seed: u64) -> Outcome {
    jobs.run(&Case::new(hardware, policy(name), seed)).expect("good jobs")
}

/// A decision takes two nanoseconds, a message three, and a request at a server five.
fn slow(n_servers: u32, n_clients: u32) -> Hardware {
    let mut hardware = hardware(n_servers, n_clients);
    (hardware.dispatch_ns, hardware.message_ns) = (2, 3);
    hardware.servers.iter_mut().for_each(|server| server.latency_ns = 5);
    hardware
}

/// Jobs that read ten bytes, compute for seven nanoseconds and write twenty bytes.
fn small() -> Jobs {
    Jobs {
        jobs: 1,
        requests: 1,
        read: Bytes(10),
        compute: Span(7),
        write: Bytes(20),
        copies: 1,
        ..Jobs::default()
    }
}

#[test]
fn a_cycle_is_read_compute_write() {
    let hardware = slow(1, 1);
    let outcome = run(&Jobs { jobs: 2, cycles: 2, ..small() }, &hardware, "equi", 0);
    let cycle_ns = (2 + 3 + 5 + 10) + 7 + (2 + 3 + 5 + 20);
    assert_eq!((outcome.makespan_ns, outcome.responses_ns), (4 * cycle_ns, vec![2 * cycle_ns; 2]));
    assert_eq!((outcome.n_messages, outcome.n_replans), (8, 8));
    assert_eq!((outcome.remote_bytes, outcome.bytes_of_servers), (120, vec![120]));
    // Parts may be left out.
    let of = |jobs| run(&jobs, &hardware, "equi", 0).makespan_ns;
    assert_eq!(of(Jobs { read: Bytes(0), ..small() }), 7 + 30);
    assert_eq!(of(Jobs { write: Bytes(0), ..small() }), 20 + 7);
    assert_eq!(of(Jobs { compute: Span(0), ..small() }), 20 + 30);
    assert_eq!(of(Jobs { jobs: 3, read: Bytes(0), write: Bytes(0), ..small() }), 21);
}

/// The second of two requests at once waits for the first decision; with one slot for all of the first request.
#[test]
fn requests_at_once() {
    let jobs = Jobs { requests: 2, copies: 2, compute: Span(0), write: Bytes(10), ..small() };
    let mut hardware = slow(2, 1);
    assert_eq!(run(&jobs, &hardware, "equi", 0).responses_ns, [2 * (20 + 20)]);
    hardware.clients[0].slots = 2;
    let outcome = run(&jobs, &hardware, "equi", 0);
    assert_eq!((outcome.responses_ns, outcome.n_replans), (vec![2 * 22], 2));
}

/// Four workers want ten bytes each of one server, which has one slot: the centre decides when it is free.
#[test]
fn workers_wait_for_each_other() {
    let jobs = Jobs { write: Bytes(0), compute: Span(0), ..small() };
    let outcome = run(&jobs, &slow(1, 4), "lddf", 0);
    assert_eq!(outcome.responses_ns, [20, 40, 60, 80]);
    assert_eq!(outcome.busy_ns_of_servers, [60]);
}

/// One worker reads ten bytes four times from two servers that have all. A decision takes two nanoseconds, a message three, a
/// request at a server fifteen. At the start: as servers are free. Each: the last of four arrives at 8 + 3, while its server is
/// busy until 20 or 22. Together: two decisions for all four.
#[test]
fn requests_are_handed_over_one_by_one_or_together() {
    let mut hardware = slow(2, 1);
    hardware.clients[0].slots = 4;
    let run = |hand_over| {
        let jobs = Jobs { requests: 4, copies: 2, compute: Span(0), write: Bytes(0), hand_over, ..small() };
        let outcome = run(&jobs, &hardware, "equi", 0);
        (outcome.responses_ns[0], outcome.n_messages, outcome.n_replans)
    };
    assert_eq!(run(HandOver::AtStart), (42, 4, 1));
    assert_eq!(run(HandOver::Together), (2 + 2 + 3 + 15 + 15, 2, 1));
    // Equal shares of the oldest: the second server's are decided last.
    assert_eq!(run(HandOver::Each), (6 + 3 + 15 + 15, 4, 1));
}

/// While the centre sends, what arrives waits, and is then chosen for together: all three reads at 0, the first write at about
/// 125, and the other two when that one is sent, 100 later.
#[test]
fn a_busy_centre_chooses_later() {
    let mut hardware = slow(1, 3);
    hardware.dispatch_ns = 100;
    let replans = |hand_over| {
        let jobs = Jobs { compute: Span(7), irregular: true, hand_over, ..small() };
        let outcome = run(&jobs, &hardware, "equi", 3);
        assert_eq!(outcome.responses_ns.len(), 3);
        (outcome.n_replans, outcome.n_messages)
    };
    assert_eq!(replans(HandOver::Together), (3, 3));
    assert_eq!(replans(HandOver::AtStart).1, 6);
    assert_eq!(replans(HandOver::Each).1, 6);
}

/// All data are everywhere. The first server goes down at 5, while it serves the first request, or has nothing.
#[test]
fn what_is_lost_is_served_elsewhere() {
    let jobs = Jobs { copies: 2, write: Bytes(0), compute: Span(0), ..small() };
    let mut hardware = hardware(2, 1);
    hardware.servers[0].outages = vec![(5, 100)];
    assert_eq!(run(&jobs, &hardware, "equi", 0).responses_ns, [15]);
    hardware.servers[1].outages = vec![(0, 50)];
    assert_eq!(run(&jobs, &hardware, "equi", 0).responses_ns, [60]);
    hardware.servers.iter_mut().for_each(|server| server.outages = vec![(5, u64::MAX)]);
    assert_eq!(run(&jobs, &hardware, "equi", 0).n_failed, 1);
}

#[test]
fn what_is_refused() {
    let hardware = hardware(2, 1);
    let refused = |jobs: Jobs, name| jobs.run(&Case::new(&hardware, policy(name), 0)).expect_err("refused");
    let other = refused(small(), "colour").to_string();
    assert!(
        other.contains("`colour`")
            && ["equi", "equi-fewest", "aequi"].iter().all(|name| other.contains(name)),
        "{other}"
    );
    for copies in [0, 3] {
        assert!(matches!(refused(Jobs { copies, ..small() }, "equi"), Refused::Copies { .. }));
    }
    let nobody = crate::support::hardware(2, 0);
    let refused = small().run(&Case::new(&nobody, policy("equi"), 0)).expect_err("refused");
    assert!(matches!(refused, Refused::NoClients));
}

#[test]
fn as_people_write_it() {
    let text = "jobs = 4\nread = \"64KiB\"\ncompute = \"1.5ms\"\ntake_back = \"everything\"";
    let jobs: Jobs = toml::from_str(text).expect("good settings");
    let take_back = Some(TakeBack::Everything);
    let wanted =
        Jobs { jobs: 4, read: Bytes(65_536), compute: Span(1_500_000), take_back, ..Jobs::default() };
    assert_eq!(jobs, wanted);
    assert!(toml::from_str::<Jobs>("workers = 3").is_err());
}

/// Paper 001 §4, Table 1: 16 workers and three servers. While servers are busy `aequi` is the quickest of the five policies,
/// and `hddf` the slowest. Where lots end up depends on the load: ahead of `equi` if servers are never idle, else behind; the
/// table, of which the load is not known, has them far behind.
#[test]
fn equal_shares_are_quicker() {
    let mut hardware = hardware(3, 16);
    hardware.clients.iter_mut().for_each(|client| client.slots = 3);
    for compute_ms in [0, 5, 10, 20] {
        let compute = Span(compute_ms * 1_000_000);
        let jobs = Jobs { jobs: 20, cycles: 4, compute, irregular: true, ..Jobs::default() };
        let mean = |name: &str| {
            (0..4).map(|seed| run(&jobs, &hardware, name, seed).mean_response_ns()).sum::<f64>() / 4.0
        };
        let of = ["aequi", "equi", "lddf", "hddf", "random"].map(mean);
        let [aequi, equi, lddf, hddf, random] = of;
        assert!(aequi < equi && equi < lddf && lddf < hddf, "{compute_ms} {of:?}");
        assert!(aequi < random && random < hddf, "{compute_ms} {of:?}");
        assert!(compute_ms < 20 || equi < random, "{of:?}");
    }
}

proptest! {
    /// Every job is done and every byte moved once, whatever the policy; and the same seed gives the same.
    #[test]
    fn all_is_done_once(
        (n_servers, n_clients, client_slots, server_slots) in (1..5_u32, 1..6_u32, 1..4_u32, 1..3_u32),
        (n_jobs, cycles, n_requests, copies) in (0..4_u32, 1..4_u32, 1..4_u32, 1..4_u32),
        (read, compute, write, irregular) in (0..30_u64, 0..30_u64, 0..30_u64, any::<bool>()),
        (dispatch_ns, message_ns, seed) in (0..3_u64, 0..5_u64, 0..100_u64),
        hand_over in proptest::sample::select(vec![HandOver::AtStart, HandOver::Each, HandOver::Together]),
    ) {
        let mut hardware = hardware(n_servers, n_clients);
        (hardware.dispatch_ns, hardware.message_ns) = (dispatch_ns, message_ns);
        hardware.clients.iter_mut().for_each(|client| client.slots = client_slots);
        hardware.servers.iter_mut().for_each(|server| server.slots = server_slots);
        hardware.clients[0].host = 0;
        let jobs = Jobs {
            jobs: n_jobs,
            cycles,
            requests: n_requests,
            read: Bytes(read),
            compute: Span(compute),
            irregular,
            write: Bytes(write),
            copies: copies.min(n_servers),
            take_back: None,
            hand_over,
        };
        let n_all = u64::from(n_clients * n_jobs);
        let total = n_all * u64::from(cycles * n_requests) * (read + write);
        for policy in POLICIES.iter().filter(|policy| matches!(policy.kind, Kind::Select(_))) {
            let case = Case { keep_timeline: true, ..Case::new(&hardware, policy, seed) };
            let outcome = jobs.run(&case).expect("good jobs");
            prop_assert_eq!((outcome.responses_ns.len() as u64, outcome.n_failed), (n_all, 0));
            prop_assert_eq!(outcome.local_bytes + outcome.remote_bytes, total);
            prop_assert_eq!(outcome.bytes_of_servers.iter().sum::<u64>(), total);
            prop_assert_eq!(jobs.run(&case).expect("good jobs"), outcome);
        }
    }
}
