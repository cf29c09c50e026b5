//! Writes: small cases by hand, and what paper 004 finds.

use evenkeel::policy::placing;
use evenkeel_sim::case::Case;
use evenkeel_sim::hardware::Hardware;
use evenkeel_sim::outcome::Outcome;
use evenkeel_sim::refused::Refused;
use evenkeel_sim::units::{Bytes, Span};
use evenkeel_sim::writes::{Backlog, Class, Range, Sizes, Sort, Writes};
use proptest::prelude::*;

use crate::support::{hardware, policy};

const MIB: u64 = 1 << 20;

fn run(writes: &Writes, hardware: &Hardware, name: &str, seed: u64) -> Outcome {
    writes.run(&Case::new(hardware, policy(name), seed)).expect("good writes")
}

/// So many writes of ten bytes to one object, whose default is the first server; one after the other.
fn tens(writes: u32) -> Writes {
    Writes {
        writes,
        window: 1,
        sizes: Sizes::One(Bytes(10)),
        objects: 1,
        threshold: Bytes(0),
        ..Writes::default()
    }
}

/// A message takes three nanoseconds and a request at a server five.
fn slow(n_servers: u32, n_clients: u32) -> Hardware {
    let mut hardware = hardware(n_servers, n_clients);
    hardware.message_ns = 3;
    hardware.servers.iter_mut().for_each(|server| server.latency_ns = 5);
    hardware
}

#[test]
fn one_write_after_the_other() {
    let outcome = run(&tens(2), &slow(1, 1), "rr", 0);
    assert_eq!((outcome.makespan_ns, outcome.responses_ns), (36, vec![18, 18]));
    assert_eq!((outcome.local_bytes, outcome.remote_bytes, outcome.n_messages), (0, 20, 2));
    assert_eq!((outcome.bytes_of_servers, outcome.redirected_bytes), (vec![20], 0));
    let mut at_home = slow(1, 1);
    at_home.clients[0].host = 0;
    let outcome = run(&tens(2), &at_home, "rr", 0);
    assert_eq!((outcome.makespan_ns, outcome.local_bytes, outcome.n_messages), (30, 20, 0));
}

/// The second copy sets out when the first server has heard of it.
#[test]
fn copies_are_written_at_the_same_time() {
    let outcome = run(&Writes { copies: 2, ..tens(1) }, &slow(2, 1), "rr", 0);
    assert_eq!((outcome.responses_ns, outcome.n_messages), (vec![21], 2));
    assert_eq!((outcome.bytes_of_servers, outcome.remote_bytes), (vec![10, 10], 20));
    // The second copy is for the host of the client.
    let mut hardware = slow(2, 1);
    hardware.clients[0].host = 1;
    let outcome = run(&Writes { copies: 2, ..tens(1) }, &hardware, "rr", 0);
    assert_eq!(outcome.remote_bytes, 20, "it comes from the first server");
}

#[test]
fn who_asks_waits_for_the_answers() {
    let outcome = run(&tens(2), &slow(2, 1), "two-choice", 0);
    assert_eq!((outcome.makespan_ns, outcome.responses_ns), (48, vec![24, 24]));
    assert_eq!((outcome.n_probes, outcome.n_messages), (4, 10));
    // Everybody knows the answers for two writes.
    let outcome = run(&Writes { shared_writes: 2, ..tens(2) }, &slow(2, 1), "two-choice", 0);
    assert_eq!((outcome.responses_ns, outcome.n_probes), (vec![18, 24], 2));
}

/// Two of three are placed at once; the third waits for the next.
#[test]
fn a_window_waits_until_it_is_full() {
    let writes = Writes { window: 2, ..tens(6) };
    let outcome = run(&writes, &hardware(1, 3), "mlml", 0);
    assert_eq!((outcome.makespan_ns, outcome.responses_ns), (60, vec![10, 20, 30, 30, 30, 30]));
    let mut two_slots = hardware(1, 1);
    two_slots.clients[0].slots = 2;
    let outcome = run(&writes, &two_slots, "mlml", 0);
    // Pairs: the second of a pair is done ten later, and the first of the next pair has waited for it.
    assert_eq!((outcome.makespan_ns, outcome.responses_ns), (60, vec![10, 20, 20, 20, 20, 20]));
}

/// Pairs of writes of ten nanoseconds at 0, 5 and 10: each waits for all before it.
#[test]
fn windows_open_at_fixed_intervals() {
    let writes = Writes { window: 2, every: Some(Span(5)), ..tens(5) };
    let outcome = run(&writes, &hardware(1, 1), "nltr", 0);
    assert_eq!((outcome.makespan_ns, outcome.responses_ns), (50, vec![10, 20, 25, 35, 40]));
}

/// One of two servers is a straggler, with 600 bytes to do and the other 100. Only who knows avoids it.
#[test]
fn who_knows_goes_elsewhere() {
    let backlog = Backlog { mean: Bytes(100), deviation: Bytes(0), stragglers: 0.5, ..Backlog::default() };
    let mut seen = [false; 2];
    for seed in 0..8 {
        for known in [true, false] {
            let writes = Writes { backlog: Some(Backlog { known, ..backlog.clone() }), ..tens(1) };
            let backlogs = writes.backlogs(2, seed).expect("good writes");
            assert!(backlogs == [600, 100] || backlogs == [100, 600]);
            seen[usize::from(backlogs[0] > 100)] = true;
            let of = |name| run(&writes, &hardware(2, 1), name, seed);
            assert_eq!(of("rr").responses_ns, [backlogs[0] + 10]);
            assert_eq!(of("two-choice").responses_ns, [110]);
            let (outcome, is_redirected) = (of("mlml"), known && backlogs[0] == 600);
            assert_eq!(outcome.responses_ns, [if is_redirected { 110 } else { backlogs[0] + 10 }]);
            assert_eq!(outcome.redirected_bytes, if is_redirected { 10 } else { 0 });
            assert_eq!(outcome.bytes_of_servers.iter().sum::<u64>(), 10, "the backlog does not count");
        }
    }
    assert_eq!(seen, [true; 2]);
}

#[test]
fn what_is_lost_is_written_elsewhere() {
    let mut hardware = hardware(2, 1);
    hardware.servers[0].outages = vec![(5, 20)];
    let outcome = run(&tens(1), &hardware, "rr", 0);
    assert_eq!((outcome.responses_ns, outcome.bytes_of_servers), (vec![15], vec![0, 10]));
    // The other has a copy already.
    let two = Writes { copies: 2, ..tens(1) };
    let outcome = run(&two, &hardware, "rr", 0);
    assert_eq!((outcome.responses_ns, outcome.bytes_of_servers), (vec![30], vec![10, 10]));
    hardware.servers[0].outages = vec![(5, u64::MAX)];
    let outcome = run(&two, &hardware, "rr", 0);
    assert_eq!((outcome.n_failed, outcome.bytes_of_servers), (1, vec![0, 10]));
    // Nobody waits for heartbeats of those who never come back.
    let outcome = run(&Writes { heartbeat: Span(1), ..two }, &hardware, "hm-lru", 0);
    assert_eq!(outcome.n_failed, 1);
}

/// Three servers report at 0, 4, 8 and 12; the write is done at 10.
#[test]
fn heartbeats_are_messages() {
    let writes = Writes { heartbeat: Span(4), ..tens(1) };
    assert_eq!(run(&writes, &hardware(3, 1), "hm-lru", 0).n_messages, 13);
    assert_eq!(run(&writes, &hardware(3, 1), "hdfs-random", 0).n_messages, 1);
}

#[test]
fn what_is_refused() {
    let hardware = hardware(2, 1);
    let refused =
        |writes: Writes, name| writes.run(&Case::new(&hardware, policy(name), 0)).expect_err("refused");
    let other = refused(tens(1), "rank").to_string();
    assert!(other.contains("`rank`") && other.contains("rr, mlml, trh"), "{other}");
    assert!(matches!(refused(Writes { copies: 3, ..tens(1) }, "rr"), Refused::Copies { .. }));
    assert!(matches!(refused(Writes { levels: 99, ..tens(1) }, "nltr"), Refused::Place(_)));
    let sizes = |sizes| Writes { sizes, ..tens(1) };
    let descending = Sizes::Between(Range { from: Bytes(2), to: Bytes(1) });
    assert!(matches!(refused(sizes(descending), "rr"), Refused::Setting { name: "sizes", .. }));
    assert!(matches!(refused(sizes(Sizes::Mixed(Vec::new())), "rr"), Refused::Setting { name: "sizes", .. }));
    for backlog in
        [Backlog { stragglers: 1.5, ..Backlog::default() }, Backlog { times: f64::NAN, ..Backlog::default() }]
    {
        let writes = Writes { backlog: Some(backlog), ..tens(1) };
        assert!(matches!(refused(writes, "rr"), Refused::Setting { .. }));
    }
    let nobody = crate::support::hardware(2, 0);
    let refused = tens(1).run(&Case::new(&nobody, policy("rr"), 0)).expect_err("refused");
    assert!(matches!(refused, Refused::NoClients));
}

#[test]
fn as_people_write_it() {
    let text = r#"
        writes = 7
        sizes = [{ from = "1MiB", to = "4MiB", weight = 3 }, { from = "10MiB", to = "10MiB", weight = 1 }]
        sort = "probability"
        backlog = { stragglers = 0.2 }
    "#;
    let class = |from, to, weight| Class { from: Bytes(from * MIB), to: Bytes(to * MIB), weight };
    let wanted = Writes {
        writes: 7,
        sizes: Sizes::Mixed(vec![class(1, 4, 3), class(10, 10, 1)]),
        sort: Sort::Probability,
        backlog: Some(Backlog { stragglers: 0.2, ..Backlog::default() }),
        ..Writes::default()
    };
    assert_eq!(toml::from_str::<Writes>(text).expect("good settings"), wanted);
    let one: Writes = toml::from_str("sizes = \"64MB\"").expect("good settings");
    assert_eq!(one.sizes, Sizes::One(Bytes(64_000_000)));
    let range: Writes = toml::from_str("sizes = { from = 1, to = 2 }").expect("good settings");
    assert_eq!(range.sizes, Sizes::Between(Range { from: Bytes(1), to: Bytes(2) }));
    assert!(
        toml::from_str::<Writes>("sizes = { from = 1 }").expect_err("half").to_string().contains("weight")
    );
    assert!(toml::from_str::<Writes>("clients = 3").is_err());
}

/// The share of bytes that stragglers got, in percent.
fn share_of_stragglers(writes: &Writes, outcome: &Outcome, seed: u64) -> f64 {
    let backlogs = writes.backlogs(100, seed).expect("good writes");
    let of_stragglers = outcome.bytes_of_servers.iter().zip(backlogs).filter(|(_, load)| *load > 200 * MIB);
    let all: u64 = outcome.bytes_of_servers.iter().sum();
    100.0 * of_stragglers.map(|(bytes, _)| *bytes).sum::<u64>() as f64 / all as f64
}

/// Paper 004 §4, Figure 18: 100 servers, 200 clients, a tenth of the servers with five times the load. Stragglers get nearly
/// nothing, where round robin gives them their tenth; and nobody waits for them.
#[test]
fn stragglers_are_avoided() {
    let mut hardware = hardware(100, 200);
    hardware.servers.iter_mut().for_each(|server| server.rate = 0.1);
    for (from, to) in [(0, 4), (4, 10)] {
        let sizes = Sizes::Between(Range { from: Bytes(from * MIB), to: Bytes(to * MIB) });
        for completions in [false, true] {
            let writes = Writes {
                sizes: sizes.clone(),
                backlog: Some(Backlog::default()),
                completions,
                every: Some(Span(100_000_000)),
                ..Writes::default()
            };
            let mean = |name: &str| {
                let share = |seed| {
                    let outcome = run(&writes, &hardware, name, seed);
                    assert_eq!(outcome.n_probes, if name == "two-choice" { 4000 } else { 0 });
                    (share_of_stragglers(&writes, &outcome, seed), outcome.mean_response_ns())
                };
                let (shares, responses): (Vec<f64>, Vec<f64>) = (0..8).map(share).unzip();
                (shares.iter().sum::<f64>() / 8.0, responses.iter().sum::<f64>() / 8.0)
            };
            let (share, slow_ns) = mean("rr");
            assert!((9.0..11.0).contains(&share), "{share}");
            for (name, most) in [("mlml", 1.0), ("trh", 0.01), ("nltr", 0.4), ("two-choice", 1.1)] {
                let (share, response_ns) = mean(name);
                assert!(share <= most, "{name} {share} {completions}");
                assert!(response_ns < slow_ns, "{name} {response_ns} {slow_ns} {completions}");
            }
        }
    }
}

/// Paper 003 §5.1.5: 128 processes on 32 hosts write 16 chunks of 64 MB each, in three copies. The slowest writes take
/// less long, and servers have more equally much to do.
#[test]
fn hm_lru_is_more_even_than_hdfs() {
    let mut hardware = hardware(32, 128);
    hardware.servers.iter_mut().for_each(|server| (server.rate, server.slots) = (0.05, 2));
    (0..).zip(&mut hardware.clients).for_each(|(client, place): (u32, _)| place.host = client % 32);
    let (sizes, heartbeat) = (Sizes::One(Bytes(64_000_000)), Span(1_000_000_000));
    let writes = Writes { writes: 128 * 16, window: 1, sizes, copies: 3, heartbeat, ..Writes::default() };
    for seed in 0..4 {
        let (coolest, random) =
            (run(&writes, &hardware, "hm-lru", seed), run(&writes, &hardware, "hdfs-random", seed));
        let most = |outcome: &Outcome| outcome.bytes_of_servers.iter().copied().max();
        assert!(most(&coolest) < most(&random));
        assert!(coolest.response_ns(990) < random.response_ns(990));
        assert!(coolest.makespan_ns < random.makespan_ns);
    }
}

proptest! {
    /// Every copy is written once, and the same seed gives the same.
    #[test]
    fn all_is_written_once(
        (n_servers, n_clients, slots) in (1..6_u32, 1..5_u32, 1..3_u32),
        (n_writes, window, copies) in (0..40_u32, 0..9_u32, 1..4_u32),
        (from, more, objects) in (0..30_u64, 0..30_u64, 1..20_u32),
        (mean, known, completions) in (0..200_u64, any::<bool>(), any::<bool>()),
        (every, message_ns, seed) in (proptest::option::of(0..90_u64), 0..5_u64, 0..100_u64),
    ) {
        let mut hardware = hardware(n_servers, n_clients);
        hardware.message_ns = message_ns;
        hardware.clients.iter_mut().for_each(|client| client.slots = slots);
        hardware.clients[0].host = 0;
        let writes = Writes {
            writes: n_writes,
            window,
            every: every.map(Span),
            sizes: Sizes::Between(Range { from: Bytes(from), to: Bytes(from + more) }),
            objects,
            copies: copies.min(n_servers),
            threshold: Bytes(5),
            completions,
            heartbeat: Span(50),
            backlog: Some(Backlog { mean: Bytes(mean), deviation: Bytes(9), known, ..Backlog::default() }),
            ..Writes::default()
        };
        let mut totals = Vec::new();
        for (policy, _) in placing() {
            let case = Case { keep_timeline: true, ..Case::new(&hardware, policy, seed) };
            let outcome = writes.run(&case).expect("good writes");
            prop_assert_eq!((outcome.responses_ns.len(), outcome.n_failed), (n_writes as usize, 0));
            let total = outcome.bytes_of_servers.iter().sum::<u64>();
            prop_assert_eq!(outcome.local_bytes + outcome.remote_bytes, total);
            prop_assert_eq!(outcome.n_probes > 0, policy.name == "two-choice" && n_writes > 0 && n_servers > 1);
            prop_assert!(outcome.redirected_bytes == 0 || policy.name != "rr");
            totals.push(total);
            prop_assert_eq!(writes.run(&case).expect("good writes"), outcome);
        }
        prop_assert!(totals.iter().all(|total| *total == totals[0] && total % u64::from(writes.copies) == 0));
    }
}
