//! Scenarios: what they are made of, and what comes of them.

use std::sync::atomic::{AtomicBool, Ordering};

use evenkeel::policy;
use evenkeel_sim::hardware::{Hardware, Nic, Pace};
use evenkeel_sim::outcome::Outcome;
use evenkeel_sim::scenario::{NoFiles, Place, Scenario, ScenarioError, Set};
use evenkeel_sim::study::{Point, Study};
use proptest::prelude::*;

const TEXT: &str = include_str!("../../../../examples/open-arrivals.toml");
const SECOND: u64 = 1_000_000_000;

fn read(text: &str, sets: &[&str]) -> Result<Scenario, ScenarioError> {
    let sets: Vec<Set> = sets.iter().map(|set| set.parse().expect("key=value")).collect();
    Scenario::read(text, &sets, &NoFiles)
}

fn hardware(text: &str) -> Hardware {
    read(text, &[]).expect("a good scenario").hardware(0)
}

fn run(scenario: &Scenario, name: &str) -> Outcome {
    let policy = policy::find(name).expect("a policy");
    scenario.run(policy, 0, false).expect("a run")
}

#[test]
fn what_is_written_is_there() {
    let found = hardware(
        "[servers]\ncount = 3\nlatency = '2ms'\nbandwidth = '1GB/s'\nslots = 4\n[servers.s1]\nspeed = 0.5\nslots = 2\n\
         [clients]\ncount = 5\nslots = 7\non = 'servers'\n\
         [network]\nup = '8Gb/s'\ndown = '16Gb/s'\nmessage = '3us'\ndispatch = '5us'\n[workload]\ncopies = 2",
    );
    let servers: Vec<_> =
        found.servers.iter().map(|server| (server.latency_ns, server.rate, server.slots)).collect();
    assert_eq!(servers, [(2_000_000, 1.0, 4), (2_000_000, 0.5, 2), (2_000_000, 1.0, 4)]);
    let clients: Vec<_> = found.clients.iter().map(|client| (client.host, client.slots)).collect();
    assert_eq!(clients, [(0, 7), (1, 7), (2, 7), (0, 7), (1, 7)]);
    assert_eq!(found.nic, Some(Nic { up: 1.0, down: 2.0 }));
    assert_eq!((found.message_ns, found.dispatch_ns, found.n_hosts), (3_000, 5_000, 3));
    let apart = hardware("[network]\nnic = '1GB/s'");
    assert_eq!((apart.nic, apart.n_hosts), (Some(Nic { up: 1.0, down: 1.0 }), 164));
}

#[test]
fn slow_and_down_for_a_while() {
    let text = "[servers]\ncount = 4\n\
         [[slow]]\nservers = ['s1']\nfactor = 0.5\nfrom = '1s'\nuntil = '3s'\n\
         [[slow]]\nservers = ['s1', 's2']\nfactor = 0.1\nfrom = '2s'\n\
         [[down]]\nservers = ['s3']\nfrom = '5s'\nuntil = '6s'\n[[down]]\nservers = ['s3']\nfrom = '6s'\nuntil = '8s'\n\
         [[down]]\nservers = ['s3']\nfrom = '10s'";
    let servers = hardware(text).servers;
    assert_eq!(servers[1].speeds, [(SECOND, 0.5), (2 * SECOND, 0.05), (3 * SECOND, 0.1)]);
    assert_eq!(servers[2].speeds, [(2 * SECOND, 0.1)]);
    assert_eq!(servers[3].outages, [(5 * SECOND, 8 * SECOND), (10 * SECOND, u64::MAX)]);
    assert!(servers[0].speeds.is_empty() && servers[0].outages.is_empty());
}

#[test]
fn lots_are_drawn_anew_for_each_repetition() {
    let scenario =
        read("[[slow]]\nservers = '10%'\nfactor = 0.2\n[[down]]\nservers = 3", &[]).expect("a good one");
    let slow = |hardware: &Hardware| -> Vec<usize> {
        (0..hardware.servers.len()).filter(|&k| !hardware.servers[k].speeds.is_empty()).collect()
    };
    let found = [0, 1, 2].map(|repetition| scenario.hardware(repetition));
    assert!(found.iter().all(|hardware| slow(hardware).len() == 10));
    assert!(
        found.iter().all(|hardware| hardware.servers.iter().filter(|s| !s.outages.is_empty()).count() == 3)
    );
    assert_ne!(slow(&found[0]), slow(&found[1]));
    assert_eq!(found[0], scenario.hardware(0));
}

/// A tenth of the time, since pauses are nine times as long; to the end, and not beyond it.
#[test]
fn stalls_come_again_and_again() {
    let text = "[[slow]]\nservers = '100%'\nfactor = 0.5\nevery = '9s'\nlasts = '1s'\nfrom = '100s'\nuntil = '1100s'";
    let found = hardware(text);
    let mut slow_ns = 0;
    for server in &found.servers {
        let (mut pace, mut now_ns) = (Pace::new(server), 0);
        while pace.changes_ns(now_ns) < u64::MAX {
            let until_ns = pace.changes_ns(now_ns);
            assert!(until_ns > now_ns);
            if pace.rate(now_ns) < server.rate {
                assert!(now_ns >= 100 * SECOND && until_ns <= 1100 * SECOND);
                assert!(until_ns - now_ns == SECOND || until_ns == 1100 * SECOND);
                slow_ns += until_ns - now_ns;
            }
            now_ns = until_ns;
            pace.advance(now_ns);
        }
    }
    let share = slow_ns as f64 / (100.0 * 1000.0 * SECOND as f64);
    assert!((share - 0.1).abs() < 0.005, "{share}");
    assert_ne!(found.servers[0].stalls[0].seed, found.servers[1].stalls[0].seed);
}

/// What counts is the share of time that a server is slow, however short the stalls are: they do not end before the work.
#[test]
fn many_short_stalls_are_as_few_long_ones() {
    let text = "[servers]\ncount = 1\n[clients]\ncount = 1\n[[slow]]\nservers = '100%'\nfactor = 0.1\n\
         [workload]\nrequests = 100\nbytes = '100MB'\ncopies = 1";
    // At a tenth of the speed for an eleventh of the time: 1 / (10 / 11 + 0.1 / 11).
    let expected = 1.0 / (10.1 / 11.0);
    for nic in ["network.message=0s", "network.nic=100Gb/s"] {
        for (every, lasts) in [("100us", "10us"), ("1ms", "100us"), ("100ms", "10ms")] {
            let sets = [format!("slow.0.every={every}"), format!("slow.0.lasts={lasts}"), nic.to_owned()];
            let scenario = read(text, &sets.each_ref().map(String::as_str)).expect("a good scenario");
            let ratio = run(&scenario, "first").ratio().expect("a bound");
            assert!((ratio / expected - 1.0).abs() < 0.01, "{every} {ratio}");
        }
    }
    let sets = ["slow.0.every=10ns", "slow.0.lasts=10ns"];
    let error = read(text, &sets).expect_err("too many stalls");
    assert!(error.message.contains("more than a billion times"), "{error}");
}

/// M/M/1 by a scenario: half loaded, responses take twice the service.
#[test]
fn a_queue_as_theory_has_it() {
    let text = "[servers]\ncount = 1\n[clients]\ncount = 1\nslots = 60000\n\
         [workload]\nrequests = 400_000\nbytes = { mean = '1MB' }\narrivals = 'poisson'\nrate = 50";
    let scenario = read(text, &[]).expect("a good scenario");
    let mean = run(&scenario, "first").mean_response_ns() / 1e7;
    assert!((mean - 2.0).abs() < 0.04, "{mean}");
}

/// Every policy that a scenario takes does all the work, at once and over time; what needs all at once is refused else.
#[test]
fn every_policy_does_all_the_work() {
    let text = "[servers]\ncount = 7\nlatency = '1ms'\n[[down]]\nservers = 1\nfrom = '100ms'\nuntil = '300ms'\n\
         [[slow]]\nservers = 2\nfactor = 0.3\n[clients]\ncount = 5\nslots = 2\n\
         [workload]\nrequests = 150\nbytes = { from = '1MB', to = '3MB' }";
    let plans = || policy::POLICIES.iter().filter(|policy| policy.plans());
    let over_time = ["workload.arrivals=poisson", "workload.rate=200"];
    for policy in plans() {
        let named = format!("policies=[\"{}\"]", policy.name);
        let scenario = read(text, &[&named]).expect("a good scenario");
        let outcome = run(&scenario, policy.name);
        assert_eq!((outcome.n_failed, outcome.responses_ns.len()), (0, 150), "{}", policy.name);
        assert!(outcome.ratio().is_some_and(|ratio| ratio >= 1.0), "{} {:?}", policy.name, outcome.ratio());
        let is_online = matches!(policy.room, "select" | "lead" | "run");
        match read(text, &[&over_time[..], &[&named]].concat()) {
            Ok(scenario) => {
                let outcome = run(&scenario, policy.name);
                assert_eq!((outcome.n_failed, outcome.responses_ns.len()), (0, 150), "{}", policy.name);
                assert!(is_online && outcome.bound_ns.is_none(), "{}", policy.name);
            }
            Err(error) => {
                assert!(!is_online && error.message.contains("needs all requests at the start"), "{error}");
            }
        }
    }
    let others = policy::POLICIES.iter().filter(|policy| !policy.plans());
    for policy in others {
        let error = read(text, &[&format!("policies=[\"{}\"]", policy.name)]).expect_err("no such requests");
        assert!(error.message.contains("there is no policy"), "{error}");
    }
}

/// What no server can serve any more is not done, and that is told.
#[test]
fn what_cannot_be_done_is_counted() {
    let text = "[servers]\ncount = 2\n[[down]]\nservers = ['s0', 's1']\nfrom = '1100ms'\n[clients]\ncount = 1\n\
         [workload]\nrequests = 10\nbytes = '50MB'\ncopies = 1";
    let scenario = read(text, &[]).expect("a good scenario");
    for name in ["first", "least-loaded", "optimal"] {
        let outcome = run(&scenario, name);
        assert_eq!((outcome.responses_ns.len(), outcome.n_failed), (2, 8), "{name}");
        assert!(outcome.makespan_ns <= SECOND, "{name} {}", outcome.makespan_ns);
    }
}

/// Keys set from outside count, and are what is wrong if they are.
#[test]
fn keys_from_outside() {
    let scenario = read("[servers]\ncount = 9", &["servers.count=4", "servers.s2.speed=0.5", "title=x"]);
    let scenario = scenario.expect("a good scenario");
    assert_eq!((scenario.servers().len(), scenario.title.as_deref()), (4, Some("x")));
    let error =
        read("[servers]\ncount = 9", &["servers.count=4", "workload.copies=5"]).expect_err("too many");
    assert_eq!(error.place, Place::Set("workload.copies=5".parse().expect("a set")));
    let error = read("seed = 1\n\n[servers]\ncount = 2", &[]).map(|_| ()).map_err(|error| error.place);
    assert_eq!(error, Ok(()));
    let error = read("seed = 1\n\n[workload]\ncopies = 101", &[]).expect_err("too many");
    assert_eq!(error.place, Place::Line(4));
    let error = read("[workload]\nbatch = 'x'", &[]).expect_err("no files");
    assert_eq!((error.place, error.message.as_str()), (Place::Line(2), "there are no files here"));
}

proptest! {
    /// Whatever is written is read or refused; what is read can be built.
    #[test]
    fn any_text_is_read_or_refused(
        from in 0..TEXT.len(), n in 0..20_usize, put in "([-0-9a-z.=\\[\\]{}'\"%, \n]{0,6}|99999999999|1e300|nan|'1h'|'0%')",
    ) {
        let until = TEXT.len().min(from + n);
        let text = [&TEXT[..from], &put, &TEXT[until..]].concat();
        if let Ok(scenario) = read(&text, &[]) && scenario.servers().len() < 1000 {
            let hardware = scenario.hardware(0);
            prop_assert!(hardware.servers.iter().all(|server| server.rate > 0.0 && server.slots > 0));
        }
    }
}

/// What is stopped keeps what was done; the rest does not depend on threads.
#[test]
fn studies_can_be_stopped() {
    let text =
        "repetitions = 20\npolicies = ['random', 'optimal']\n[servers]\ncount = 4\n[workload]\nrequests = 50";
    let study =
        Study { points: vec![Point { sets: Vec::new(), scenario: read(text, &[]).expect("a good one") }] };
    let jobs = study.jobs();
    assert_eq!(jobs.len(), 40);
    let go = AtomicBool::new(false);
    let whole = study.run_all(&jobs, 1, &go, &|| ()).expect("all");
    assert_eq!(whole, study.run_all(&jobs, 2, &go, &|| ()).expect("all"));
    let n_done = std::sync::atomic::AtomicUsize::new(0);
    let stop = AtomicBool::new(false);
    let some = study.run_all(&jobs, 1, &stop, &|| {
        if n_done.fetch_add(1, Ordering::Relaxed) == 6 {
            stop.store(true, Ordering::Relaxed);
        }
    });
    let some = some.expect("some");
    assert_eq!(some.iter().flatten().count(), 7);
    assert!(some.iter().zip(&whole).all(|(some, whole)| some.is_none() || some == whole));
}
