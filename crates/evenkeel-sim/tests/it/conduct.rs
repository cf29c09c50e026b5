//! How plans and online policies are carried out: as early as planned if nothing happens, and around servers that are slow.

use evenkeel::assign::Work;
use evenkeel::draw::{Draw, Seeded};
use evenkeel::model::{self, Batch, BatchBuilder, Cluster, Server, Speed};
use evenkeel::order::colour;
use evenkeel::policy;
use evenkeel::select::{Goal, optimal};
use evenkeel_sim::outcome::Outcome;
use evenkeel_sim::scenario::{Files, Load, NoFiles, Scenario, Set};

/// A batch and its servers, as if they were in files.
struct Given(Batch, Cluster);

impl Load for Given {
    fn batch(&self, _: &Files<'_>) -> Result<(Batch, Cluster), String> {
        Ok((self.0.clone(), self.1.clone()))
    }

    fn tasks(&self, _: &str, _: &str) -> Result<(Vec<String>, Work), String> {
        Err("there are no tasks".to_owned())
    }
}

/// A few requests of some bytes, and servers whose speeds and slots differ.
fn drawn(seed: u64) -> Given {
    let mut draw = Seeded::new(seed);
    let (n_servers, n_clients) = (1 + draw.below(5), 1 + draw.below(5));
    let mut batch = BatchBuilder::new();
    for _ in 0..=draw.below(12) {
        let copies = 1 + draw.below(n_servers.min(3));
        let first = draw.below(n_servers);
        let names: Vec<String> = (0..copies).map(|k| format!("s{}", (first + k) % n_servers)).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let unit = [1, 1, 1_000, 64_000_000][draw.below(4) as usize];
        let bytes = u64::from(1 + draw.below(20)) * unit;
        batch.request(&format!("c{}", draw.below(n_clients)), bytes, &names).expect("a good request");
    }
    let batch = batch.finish();
    let is_decimal = draw.below(2) == 0;
    let servers = (0..batch.n_servers()).map(|_| {
        let plain = [500_000, 1_000_000, 2_000_000, 3_000_000][draw.below(4) as usize];
        let millionths = if is_decimal { 100_000 * u64::from(2 + draw.below(40)) } else { plain };
        let speed = Speed::from_millionths(millionths).expect("a speed");
        Server { speed, slots: [1, 1, 2, 3][draw.below(4) as usize], backlog: 0 }
    });
    let servers = servers.collect();
    let clients = vec![model::Client::default(); batch.n_clients()];
    let cluster = Cluster::new(&batch, servers, clients, None).expect("a good cluster");
    Given(batch, cluster)
}

fn read(text: &str, sets: &[&str], load: &dyn Load) -> Scenario {
    let sets: Vec<Set> = sets.iter().map(|set| set.parse().expect("key=value")).collect();
    Scenario::read(text, &sets, load).expect("a good scenario")
}

fn run(scenario: &Scenario, name: &str, repetition: u32) -> Outcome {
    let policy = policy::find(name).expect("a policy");
    scenario.run(policy, repetition, false).expect("a run")
}

/// A plan that nothing disturbs ends no later than planned, but for bytes and nanoseconds that are rounded in each transfer,
/// however small the blocks are and whichever server is the first.
#[test]
fn undisturbed_plans_end_in_time() {
    for seed in 0..2_000 {
        let given = drawn(seed);
        let Given(batch, cluster) = &given;
        let (choice, _) = optimal::select(batch, cluster, Goal::Length);
        let plan = colour::order(batch, cluster, &choice);
        let scenario = read("[workload]\nbatch = 'batch.csv'", &[], &given);
        let outcome = run(&scenario, "optimal", 0);
        // At the usual 100 MB/s.
        let byte_ns = 10.0;
        let slowest = cluster.servers().iter().map(|server| server.speed.millionths()).min().unwrap_or(1);
        let rounded_ns = plan.transfers.len() as f64 * (1.0 + byte_ns * 1e6 / slowest as f64);
        let planned_ns = plan.length.to_f64() * byte_ns;
        let found_ns = outcome.makespan_ns as f64;
        assert!(
            found_ns <= planned_ns * (1.0 + 1e-9) + rounded_ns,
            "seed {seed}: {found_ns} ns, {planned_ns}"
        );
        assert_eq!((outcome.n_replans, outcome.n_failed), (0, 0), "seed {seed}");
    }
}

const ARRIVALS: &str = include_str!("../../../../examples/open-arrivals.toml");

/// The mean over some repetitions of the response that so many of 1000 requests keep to, in milliseconds.
fn percentile(sets: &[&str], policy: &str, of_1000: usize) -> f64 {
    let scenario = read(ARRIVALS, sets, &NoFiles);
    let of_run = |repetition| {
        let mut responses_ns = run(&scenario, policy, repetition).responses_ns;
        responses_ns.sort_unstable();
        responses_ns[responses_ns.len() * of_1000 / 1000 - 1] as f64 / 1e6
    };
    (0..6).map(of_run).sum::<f64>() / 6.0
}

/// Hedging is worth it where servers stall: requests that wait behind a late transfer go elsewhere, too.
#[test]
fn hedging_shortens_the_tail() {
    for sets in [&[][..], &["workload.rate=750"], &["slow.0.lasts=5s", "slow.0.every=60s"]] {
        let of = |of_1000| ["p2c", "hedged"].map(|policy| percentile(sets, policy, of_1000));
        let ([p2c_99, hedged_99], [p2c, hedged]) = (of(990), of(999));
        assert!(hedged_99 < p2c_99 && hedged < 0.75 * p2c, "{sets:?}: {p2c_99} {hedged_99}, {p2c} {hedged}");
    }
}

/// The centre learns that a server is slow, and gives it what it can do.
#[test]
fn a_straggler_is_avoided_over_time() {
    let straggler = ["slow.0.servers=1", "slow.0.every=1us", "slow.0.lasts=1000s"];
    let [optimal, least, lddf] =
        ["optimal", "least-loaded", "lddf"].map(|policy| percentile(&straggler, policy, 999));
    assert!(optimal < 1.25 * least && 2.0 * optimal < lddf, "{optimal} {least} {lddf}");
}

const SLOW: &str = "[servers]\ncount = 10\n[[slow]]\nservers = ['s3']\nfactor = 0.1\n\
    [clients]\ncount = 40\nslots = 2\n[workload]\nrequests = 1000\nbytes = '10MB'\n";

const OVER_TIME: [&str; 2] = ["workload.arrivals=poisson", "workload.rate=60"];

/// Each key changes what it is for: 1000 transfers of 0.1 s on 10 servers, of which one takes 1 s.
#[test]
fn the_keys_of_the_executor() {
    let makespan =
        |sets: &[&str], policy| run(&read(SLOW, sets, &NoFiles), policy, 0).makespan_ns as f64 / 1e9;
    for policy in ["least-loaded", "p2c", "peak-ewma", "hedged"] {
        let late = makespan(&[], policy);
        assert!(late < 13.0, "{policy}: {late}");
        let by_key = makespan(&["executor.decide=when-free"], policy);
        assert!((late - by_key).abs() < 1e-9, "{late} {by_key}");
        if policy != "hedged" {
            assert!(makespan(&["executor.decide=on-arrival"], policy) > 80.0);
        }
    }
    assert!(makespan(&[], "optimal") < 14.0);
    assert!(makespan(&["executor.replan=false"], "optimal") > 80.0);
    assert!(makespan(&["executor.replan_after=20"], "optimal") > 80.0);

    let hedged = |sets: &[&str]| {
        let sets = [&OVER_TIME, sets].concat();
        run(&read(SLOW, &sets, &NoFiles), "hedged", 0).hedged_bytes
    };
    let usual = hedged(&[]);
    assert!(usual > 0 && usual <= 500_000_000, "{usual}");
    assert_eq!(hedged(&["executor.hedge_budget=0"]), 0);
    assert_eq!(hedged(&["executor.hedge_after=20.0"]), 0);
    assert_eq!(hedged(&["executor.hedge_after=10s"]), 0);
    assert!(hedged(&["executor.hedge_after=200ms"]) > 0);

    let total_ns = |sets: &[&str]| {
        let outcome = run(&read(SLOW, &[&OVER_TIME, sets].concat(), &NoFiles), "optimal", 0);
        outcome.responses_ns.iter().sum::<u64>()
    };
    assert!(total_ns(&[]) < total_ns(&["executor.replan=false"]));
}

/// Whatever is lost, withdrawn or dies: what is still wanted is done, and the rest counted as cancelled.
#[test]
fn trouble_is_coped_with() {
    let run = |sets: &[&str], policy| run(&read(SLOW, sets, &NoFiles), policy, 0);
    for policy in ["least-loaded", "hedged", "optimal", "hdlwf"] {
        let calm = run(&[], policy);
        let lossy = run(&["executor.lost=0.05", "executor.timeout=1s"], policy);
        assert_eq!((lossy.n_failed, lossy.n_cancelled), (0, 0), "{policy}");
        assert!(lossy.makespan_ns > calm.makespan_ns, "{policy}");
        for key in ["executor.cancelled=0.1", "executor.dead_clients=0.1"] {
            let less = run(&[key], policy);
            assert_eq!(less.n_failed, 0, "{policy} {key}");
            assert!((10..200).contains(&less.n_cancelled), "{policy} {key}: {}", less.n_cancelled);
            assert_eq!(less.responses_ns.len() as u64 + less.n_cancelled, 1000, "{policy} {key}");
            assert_eq!(less.undone.len() as u64, less.n_cancelled, "{policy} {key}");
        }
    }
    // A server that leaves for good takes what it alone has with it at once; who is only down might come back.
    let without = |leave: bool| {
        let text = format!("{SLOW}copies = 1\n[[down]]\nservers = ['s1']\nfrom = '1s'\nleave = {leave}\n");
        super::conduct::run(&read(&text, &[], &NoFiles), "optimal", 0)
    };
    let (down, left) = (without(false), without(true));
    assert!(left.makespan_ns <= down.makespan_ns);
    assert!(down.n_failed > 0 && left.n_failed == down.n_failed, "{} {}", down.n_failed, left.n_failed);
}

/// Copies of a batch: the first ones, or further ones by lot in each repetition.
#[test]
fn other_copies_of_a_batch() {
    let mut batch = BatchBuilder::new();
    for (client, set) in
        ["c0", "c1", "c2", "c3"].iter().cycle().take(40).zip([&["s0", "s1"], &["s0", "s2"]].iter().cycle())
    {
        batch.request(client, 1_000_000, *set).expect("a good request");
    }
    batch.request("c0", 1_000_000, &["s3"]).expect("a good request");
    let batch = batch.finish();
    let cluster = Cluster::equal(&batch);
    let given = Given(batch, cluster);
    let makespan_ms = |sets: &[&str], repetition| {
        let scenario = read("[workload]\nbatch = 'batch.csv'", sets, &given);
        run(&scenario, "optimal", repetition).makespan_ns / 1_000_000
    };
    // 40 of 41 are on s0 first, and a request takes 10 ms.
    assert_eq!(makespan_ms(&["workload.copies=1"], 0), 400);
    assert_eq!(makespan_ms(&["workload.copies=2"], 0), makespan_ms(&[], 0));
    assert_eq!([0, 1].map(|repetition| makespan_ms(&["workload.copies=4"], repetition)), [110, 110]);
}
