//! `evenkeel simulate`: scenarios, what-if, batches, long and interrupted runs.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use super::browser::{Opened, open_at};
use super::{assert_refused, evenkeel, folder_with, json, printed, root, stderr, stdout};

const SMALL: &str = r#"title = "Small"
repetitions = 3
policies = ["random", "optimal"]

[servers]
count = 6
latency = "1ms"

[[slow]]
servers = 1
factor = 0.25

[clients]
count = 8
slots = 2

[workload]
requests = 200
bytes = "8MB"
"#;

fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

fn results(report: &Value) -> &Vec<Value> {
    report["results"].as_array().unwrap()
}

fn mean(result: &Value, measure: &str) -> f64 {
    result["measures"][measure]["mean"].as_f64().unwrap_or(f64::NAN)
}

fn examples() -> Vec<String> {
    let entries = fs::read_dir(root().join("examples")).unwrap();
    let mut names: Vec<String> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.retain(|name| name.ends_with(".toml"));
    names.sort();
    names
}

/// All that is asked for is done, no faster than can be.
#[test]
fn every_example_runs() {
    let folder = root().join("examples");
    assert!(examples().len() >= 6);
    for example in examples() {
        let report = json(&["simulate", &example, "--json"], &folder);
        assert_eq!((&report["format"], &report["runs"]), (&1.into(), &report["runs_asked"]), "{example}");
        for result in results(&report) {
            assert!(mean(result, "failed") < 0.5, "{example} {}", result["measures"]);
            assert!(
                result["measures"]["ratio"].is_null() || mean(result, "ratio") > 0.999_999,
                "{example} {}",
                result["measures"]
            );
            let [p50, p90, p99, p999] = ["p50", "p90", "p99", "p99.9"].map(|name| mean(result, name));
            assert!(
                p50 <= p90 && p90 <= p99 && p99 <= p999 && p999 <= mean(result, "makespan"),
                "{}",
                result["measures"]
            );
            let busy = mean(result, "busiest");
            assert!(
                busy > 0.0 && busy <= 1.0 && mean(result, "utilisation") <= busy,
                "{}",
                result["measures"]
            );
        }
        assert!(printed(&["simulate", &example], &folder).contains("Makespan:"), "{example}");
    }
}

#[test]
fn any_number_of_threads_gives_the_same_bytes() {
    let folder = folder_with(&[("small.toml", SMALL)]);
    let outputs = ["1", "2", "3"].map(|threads| {
        let args = "simulate small.toml --json --sweep servers.latency=0ms..2ms --csv runs.csv --html page.html --threads";
        let json = printed(&[words(args), vec![threads]].concat(), folder.path());
        let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
        (json, read("runs.csv"), read("page.html"))
    });
    assert_eq!(outputs[0], outputs[1]);
    assert_eq!(outputs[0], outputs[2]);
    assert_eq!(outputs[0].1.lines().count(), 1 + 3 * 2 * 3, "a row a run");
    let other = printed(&words("simulate small.toml --json --seed 2"), folder.path());
    let same = printed(&words("simulate small.toml --json --set seed=2"), folder.path());
    assert_eq!(other, same);
    assert_ne!(other, printed(&words("simulate small.toml --json"), folder.path()));
}

#[test]
fn what_if() {
    let folder = folder_with(&[("small.toml", SMALL)]);
    let report = |args: &str| json(&words(&format!("simulate small.toml --json {args}")), folder.path());
    let makespan = |args: &str| mean(&results(&report(args))[0], "makespan");
    let usual = makespan("--policy optimal");
    assert!(makespan("--policy optimal --set slow=[]") < usual);
    assert!(makespan("--policy optimal --set servers.s2.speed=0.1") > usual);
    assert!(makespan("--policy optimal --set servers.bandwidth=200MB/s") < 0.7 * usual);
    let swept = report("--replication 1..3 --sweep clients.slots=1,4 --policy first,optimal --repetitions 1");
    assert_eq!(swept["swept"], serde_json::json!(["clients.slots", "workload.copies"]));
    assert_eq!(results(&swept).len(), 3 * 2 * 2);
    assert_eq!(results(&swept)[1]["set"], serde_json::json!({"clients.slots": "1", "workload.copies": "2"}));
    let table = printed(&words("simulate small.toml --replication 1..3"), folder.path());
    assert!(table.contains("copies") && table.contains("3 points"), "{table}");
    let measured = printed(&words("simulate small.toml --set measures=[\"p99\",\"bound\"]"), folder.path());
    assert!(
        measured.contains("p99") && measured.contains("bound") && !measured.contains("busiest"),
        "{measured}"
    );
    // A scenario may come from standard input.
    let piped = Command::new("bash")
        .args(["-c", &format!("cat small.toml | {} simulate - --json", env!("CARGO_BIN_EXE_evenkeel"))])
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert_eq!(stdout(&piped), printed(&words("simulate small.toml --json"), folder.path()));
}

/// From `plan` to `simulate` with one file: what is planned is what happens.
#[test]
fn a_batch_is_a_scenario() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    for (format, law) in [("csv", "uniform"), ("json", "zipf")] {
        let batch = format!("batch.{format}");
        let generate = format!(
            "generate --requests 300 --servers 6 --clients 9 --law {law} --format {format} --out {batch}"
        );
        printed(&words(&generate), at);
        let plan = json(&["plan", &batch, "--json"], at);
        let report = json(&["simulate", &batch, "--block", "64MB", "--policy", "optimal", "--json"], at);
        // A block of 64 MB at 100 MB/s.
        let expected = plan["length"].as_f64().unwrap() * 0.64;
        let found = mean(&results(&report)[0], "makespan");
        assert!((found - expected).abs() < 1e-6, "{found} is not {expected}");
    }
    fs::write(
        at.join("servers.csv"),
        "server,speed,slots\ns0,1,1\ns1,2,1\ns2,1,2\ns3,1,1\ns4,0.5,1\ns5,1,1\n",
    )
    .unwrap();
    let args = "simulate batch.csv --servers servers.csv --block 64MB --policy optimal,least-loaded --json";
    let report = json(&words(args), at);
    assert!(results(&report).iter().all(|result| mean(result, "ratio") > 0.999_999), "{report}");
    // Names of servers are those of the batch.
    printed(&words("simulate batch.csv --set servers.s4.speed=0.1"), at);
    fs::create_dir(at.join("inner")).unwrap();
    fs::copy(at.join("batch.csv"), at.join("inner/near.csv")).unwrap();
    fs::write(at.join("inner/a.toml"), "[workload]\nbatch = \"near.csv\"\nblock = \"1MB\"\n").unwrap();
    printed(&words("simulate inner/a.toml"), at);
}

/// From `assign` to `simulate` with the same files: what is local there is local here.
#[test]
fn tasks_are_a_scenario() {
    let rows = (0..40)
        .map(|task| format!("t{task},{},s{}|s{}\n", 1000 + task, task % 5, (task + 1 + task / 5 % 4) % 5));
    let tasks = format!("task,bytes,replicas\n{}", rows.collect::<String>());
    let processes = "process,server\np0,s0\np1,s1\np2,s2\np3,\np4,s3\n";
    let folder = folder_with(&[("tasks.csv", &tasks), ("procs.csv", processes)]);
    let at = folder.path();
    for policy in ["rank", "opass-single", "opass-exact"] {
        let args = ["tasks.csv", "--processes", "procs.csv", "--policy", policy, "--json"];
        let assigned = json(&[&["assign"], &args[..]].concat(), at);
        let report = json(&[&["simulate"], &args[..], &["--set", "network.nic=1Gb/s"]].concat(), at);
        let result = &results(&report)[0];
        for (measure, bytes) in [("local", "local_bytes"), ("remote", "remote_bytes")] {
            assert_eq!(mean(result, measure) as u64, assigned[bytes].as_u64().unwrap(), "{policy} {measure}");
        }
    }
}

/// Whoever did not do everything is told as such, first and last, and is never the best.
#[test]
fn failures_do_not_look_like_speed() {
    let text = "policies = ['optimal', 'random', 'first']\n[servers]\ncount = 4\n[clients]\ncount = 8\n\
         [[down]]\nservers = ['s0', 's1']\nfrom = '5s'\nuntil = '200s'\n[workload]\nrequests = 400\ncopies = 2\n";
    let folder = folder_with(&[("a.toml", text)]);
    let report = json(&words("simulate a.toml --json --html page.html --csv runs.csv"), folder.path());
    let told = |result: &Value| (result["policy"].as_str().unwrap().to_owned(), result["complete"].clone());
    let told: Vec<_> = results(&report).iter().map(told).collect();
    let row = |name: &str, is_complete: bool| (name.to_owned(), Value::from(is_complete));
    assert_eq!(told, [row("random", true), row("first", true), row("optimal", false)]);
    let lost = &results(&report)[2];
    let (n_failed, whole) = (mean(lost, "failed"), mean(&results(&report)[0], "bound"));
    assert!(n_failed > 10.0 && mean(lost, "makespan") < mean(&results(&report)[0], "makespan"));
    // As servers are alike, the bound is in proportion to the work.
    assert!(mean(lost, "bound") < whole * (1.0 - 0.5 * n_failed / 400.0), "{lost}");
    assert!(mean(lost, "ratio") >= 1.0);
    let table = printed(&words("simulate a.toml --set measures=[\"p99\"]"), folder.path());
    let rows: Vec<Vec<&str>> = table.lines().map(words).filter(|row| row.len() > 1).collect();
    let header = rows.iter().position(|row| row[0] == "policy").unwrap();
    assert_eq!(rows[header][..2], ["policy", "failed"]);
    assert_eq!(rows[header + 3][..2], ["optimal", &n_failed.to_string()], "{table}");
    assert!(table.ends_with(&format!("  optimal  {n_failed} failed\n")), "no bar: {table}");
    let page = fs::read_to_string(folder.path().join("page.html")).unwrap();
    let best: Vec<&str> = page.lines().filter(|line| line.contains("class=\"best\"")).collect();
    assert!(best.len() == 3 && best.iter().all(|line| !line.contains("optimal")), "{best:?}");
    assert_eq!(page.matches(&format!(">{n_failed} failed<")).count(), 5, "three bars, two maps");
}

/// Whatever a scenario or a batch brings, the terminal is given no commands; a name may have any bytes.
#[test]
fn names_from_outside() {
    use std::os::unix::ffi::OsStrExt as _;
    let text = "title = \"a\\u001b]0;b\\u0007\\u009b2J\"\npolicies = ['first']\n[workload]\nrequests = 3\n";
    let folder = folder_with(&[("a.toml", text), ("b.toml", "title = \"\\u001b[2J\"\nx = 1\n")]);
    let printed = printed(&["simulate", "a.toml"], folder.path());
    assert!(printed.starts_with("a\\u{1b}]0;b\\u{7}\\u{9b}2J. 100 servers"), "{printed}");
    assert!(!printed.contains(|c: char| c.is_control() && c != '\n'), "{printed}");
    let error = stderr(&evenkeel(&["simulate", "b.toml", "--set", "\u{1b}[2J=1"], folder.path()));
    assert!(error.starts_with("error: ") && !error.contains('\u{1b}'), "{error}");
    let name = std::ffi::OsStr::from_bytes(b"b\xff.csv");
    fs::write(folder.path().join(name), "client,bytes,replicas\nc,1,s\n").unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_evenkeel"))
        .args(["simulate".as_ref(), name])
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
}

/// What is wrong, in which line, and what was probably meant.
#[test]
fn wrong_scenarios_are_refused() {
    for wrong in [
        ("", "a.toml", "the file is empty"),
        ("sede = 1", "a.toml:1", "there is no key `sede`; did you mean `seed`?"),
        ("repetitions = 0", "a.toml:1", "use 1 to"),
        ("policies = [\n  'random',\n  'optimall',\n]", "a.toml:3", "did you mean `optimal`?"),
        ("policies = ['rr']", "a.toml:1", "there is no policy `rr`"),
        ("policies = ['random', 'random']", "a.toml:1", "listed twice"),
        ("policies = []", "a.toml:1", "the list of policies is empty"),
        ("measures = ['p98']", "a.toml:1", "did you mean `p9"),
        ("[servers]\ncuont = 3", "a.toml:2", "did you mean `count`?"),
        ("[servers]\ncount = 0", "a.toml:2", "0 is out of range; use 1 to"),
        ("[servers]\ncount = 'x'", "a.toml:2", "expected a whole number from 0 to 4294967295"),
        ("[servers]\nspeed = true", "a.toml:2", "expected a number"),
        ("[servers]\ncount = 1048577", "a.toml:2", "1048577 is out of range; use 1 to"),
        ("[clients]\ncount = 4294967295", "a.toml:2", "4294967295 is out of range; use 1 to"),
        ("[workload]\nin_turn = 1", "a.toml:2", "expected true or false"),
        ("[workload]\nrequests = 134217728", "a.toml:2", "134217728 requests with 3 copies"),
        ("[workload]\nbytes = '900000TB'\nrequests = 1000", "a.toml:2", "more than 64 bits"),
        ("[servers]\ncount = -1", "a.toml:2", "integer `-1`"),
        ("[servers]\nlatency = 5", "a.toml:2", "not a span of time"),
        ("[servers]\nlatency = '5 parsecs'", "a.toml:2", "not a span of time"),
        ("[servers]\nbandwidth = '0MB/s'", "a.toml:2", "not a rate"),
        ("[servers]\nspeed = 0.0", "a.toml:2", "[[down]]"),
        ("[servers]\nspeed = nan", "a.toml:2", "above 0"),
        ("[servers]\nslots = 0", "a.toml:2", "0 slots"),
        ("[servers]\nqueue = 'hoi'", "a.toml:2", "did you mean `hio`?"),
        ("[servers]\nfile = 'servers.csv'", "a.toml:2", "workload.batch"),
        ("[servers.s200]\nspeed = 2.0", "a.toml:1", "the 100 servers are s0 to s99"),
        ("[servers.s2]\nspede = 2.0", "a.toml:2", "did you mean `speed`?"),
        ("servers = 3", "a.toml:1", "write [servers]"),
        ("[[slow]]\nfactor = 0.5", "a.toml:1", "missing field `servers`"),
        ("[[slow]]\nservers = 1\nfactor = 0", "a.toml:3", "[[down]]"),
        ("[[slow]]\nservers = 1\nfactor = 1.5", "a.toml:3", "at most 1"),
        ("[[slow]]\nservers = 101\nfactor = 0.5", "a.toml:2", "101 servers are too many; there are only 100"),
        ("[[slow]]\nservers = '101%'\nfactor = 0.5", "a.toml:2", "from 0% to 100%"),
        ("[[slow]]\nservers = ['x']\nfactor = 0.5", "a.toml:2", "no server `x`"),
        ("[[slow]]\nservers = 1.5\nfactor = 0.5", "a.toml:2", "a share such as"),
        ("[[slow]]\nservers = 1\nfactor = 0.5\nfrom = '2s'\nuntil = '1s'", "a.toml:5", "ends before"),
        ("[[slow]]\nservers = 1\nfactor = 0.5\nevery = '2s'", "a.toml:4", "needs `lasts`"),
        ("[[slow]]\nservers = 1\nfactor = 0.5\nlasts = '2s'", "a.toml:4", "needs `every`"),
        (
            "[[slow]]\nservers = 1\nfactor = 0.5\nevery = '1ns'\nlasts = '1ns'",
            "a.toml:4",
            "more than a billion",
        ),
        ("[servers]\nspeed = 1e-6\n[workload]\nbytes = '900TB'\nrequests = 9\n", "a.toml", "584 years"),
        ("[[down]]\nservers = 1\nfrom = '2s'\nuntil = '2s'", "a.toml:4", "ends before"),
        ("[[down]]\nservers = 1\nfactor = 1", "a.toml:3", "there is no key `factor`"),
        ("[clients]\ncount = 0", "a.toml:2", "0 is out of range; use 1 to"),
        ("[clients]\non = 'server'", "a.toml:2", "did you mean `servers`?"),
        ("[network]\nnic = '10'", "a.toml:2", "not a rate"),
        ("[network]\nnic = '1Gb/s'\nup = '1Gb/s'", "a.toml:2", "leave it out, or leave them out"),
        ("[network]\nup = '1Gb/s'", "a.toml:1", "belong together"),
        ("[workload]\nknd = 'requests'", "a.toml:2", "did you mean `kind`?"),
        ("[workload]\nkind = 'request'", "a.toml:2", "did you mean `requests`?"),
        ("[workload]\nkind = 1", "a.toml:2", "in quotes"),
        ("[workload]\nrequests = 0", "a.toml:2", "there are no requests"),
        ("[workload]\nbytes = '0B'", "a.toml:2", "move nothing"),
        ("[workload]\nbytes = { from = '2MB', to = '1MB' }", "a.toml:2", "the range is reversed"),
        ("[workload]\nbytes = { form = '2MB', to = '1MB' }", "a.toml:2", "write a size as"),
        ("[workload]\nblock = 0", "a.toml:2", "use at least 1"),
        ("[workload]\ncopies = 101", "a.toml:2", "101 copies"),
        ("[workload]\nlaw = 'ziph'", "a.toml:2", "did you mean `zipf`?"),
        ("[workload]\nratio = 0.5", "a.toml:2", "geometric"),
        ("[workload]\nlaw = 'geometric'\nratio = 2.0", "a.toml:3", "above 0 and at most 1"),
        ("[workload]\nhot_spots = 2", "a.toml:2", "geometric"),
        ("[workload]\narrivals = 'poisson'", "a.toml:1", "need a `rate`"),
        ("[workload]\narrivals = 'even'\nrate = 0", "a.toml:3", "need a `rate`"),
        ("[workload]\nrate = 5.0", "a.toml:2", "over time"),
        (
            "policies = ['colour']\n[workload]\narrivals = 'even'\nrate = 9",
            "a.toml:1",
            "needs all requests at the start",
        ),
        ("[workload]\nbatch = 'none.csv'", "a.toml:2", "cannot read it"),
        ("[workload]\nbatch = 'b.csv'\nrequests = 2", "a.toml:3", "the batch already sets this"),
        ("seed = ", "a.toml:1", ""),
        ("seed = 1\nseed = 2", "a.toml:2", "duplicate key"),
        ("[servers", "a.toml:1", ""),
    ] {
        refused(wrong);
    }
}

/// The same of other work than requests.
#[test]
fn wrong_work_is_refused() {
    for wrong in [
        ("[servers]\nqueue = 'hio'\n[workload]\nkind = 'writes'", "a.toml:2", "queues are for requests"),
        ("policies = ['optimal']\n[workload]\nkind = 'tasks'", "a.toml:1", "the known ones are rank"),
        ("[workload]\nkind = 'tasks'\nfile = 'x'", "a.toml:3", "both"),
        ("[workload]\nkind = 'tasks'\nfile = 'x'\nprocesses_file = 'y'", "a.toml:3", "cannot read it"),
        (
            "[workload]\nkind = 'tasks'\nfile = 'x'\nprocesses_file = 'y'\ncopies = 2",
            "a.toml:5",
            "already set this",
        ),
        ("[workload]\nkind = 'tasks'\ntask = 3", "a.toml:3", "did you mean `tasks`?"),
        ("[workload]\nkind = 'tasks'\ncopies = 101", "a.toml:3", "101 copies"),
        ("[workload]\nkind = 'tasks'\ninputs = []", "a.toml:3", "at least one"),
        ("[workload]\nkind = 'tasks'\nbuffer = 0", "a.toml:3", "at least 1 byte"),
        ("[workload]\nkind = 'tasks'\nbuffer = 1", "a.toml:3", "more than a million pieces"),
        ("[workload]\nkind = 'writes'\nheartbeat = '1ns'", "a.toml:3", "heartbeats"),
        ("[servers]\nlatency = '200000h'\n[workload]\nkind = 'writes'", "a.toml:3", "heartbeats"),
        ("[workload]\nkind = 'tasks'\ntasks_per_process = 4294967295", "a.toml:1", "reads and writes"),
        ("[workload]\nkind = 'tasks'\nprocesses = 4294967295", "a.toml:1", "reads and writes"),
        ("[clients]\ncount = 2\n[workload]\nkind = 'tasks'\nprocesses = 3", "a.toml:5", "leave out"),
        ("[workload]\nkind = 'writes'\nwrites = 4294967295", "a.toml:3", "reads and writes"),
        ("[workload]\nkind = 'jobs'\ncycles = 4294967295", "a.toml:1", "reads and writes"),
        ("[workload]\nkind = 'collective'\napps = 4294967295", "a.toml:3", "reads and writes"),
        ("[workload]\nkind = 'jobs'\ncycle = 2", "a.toml:3", "did you mean `cycles`?"),
        ("[workload]\nkind = 'jobs'\ncopies = 0", "a.toml:3", "0 copies"),
        ("[executor]\nreplan = false\n[workload]\nkind = 'jobs'", "a.toml:1", "for requests"),
        ("[executor]\nprogress = '0s'", "a.toml:2", "cannot be 0"),
        ("[executor]\nlost = 0.6", "a.toml:2", "from 0 to 0.5"),
        ("[executor]\ncancelled = -0.1", "a.toml:2", "a share of all requests from 0 to 1"),
        ("[executor]\ndead_clients = nan", "a.toml:2", "a share of all clients"),
        ("[executor]\ntimeout = '1s'", "a.toml:2", "no messages are lost"),
        ("[executor]\nhedge_budget = 1.5", "a.toml:2", "from 0 to 1"),
        ("[executor]\nhedge_after = 'p96'", "a.toml:2", "or \"p95\""),
        ("[executor]\nhedge_after = 0.5", "a.toml:2", "from 1"),
        ("[executor]\nhedge_after = true", "a.toml:2", "\"200ms\""),
        ("[executor]\ndecide = 'late'", "a.toml:2", "there is no choice `late`"),
        ("[executor]\nreplan_after = -0.1", "a.toml:2", "from 0"),
        ("[executor]\nreplan = false\nreplan_after = 0.2", "a.toml:3", "leave one of them out"),
        ("[executor]\nhedge = 1", "a.toml:2", "there is no key `hedge`"),
        ("[workload]\nkind = 'writes'\nwindow = -1", "a.toml:3", "integer `-1`"),
        ("[workload]\nkind = 'writes'\ncopies = 101", "a.toml:3", "101"),
        ("[workload]\nkind = 'writes'\nsizes = { from = 2, to = 1 }", "a.toml:3", "shortest first"),
        ("[workload]\nkind = 'writes'\n[workload.backlog]\nstragglers = 3.0", "a.toml:4", "from 0 to 1"),
        ("[workload]\nkind = 'collective'\nbytes = 'many'", "a.toml:3", "not a size"),
        ("[workload]\nkind = 'collective'\naggregators = 0", "a.toml:3", "aggregators"),
        ("[workload]\nkind = 'collective'\nthreshold = -1.0", "a.toml:3", "not a share"),
    ] {
        refused(wrong);
    }
}

fn refused((text, place, message): (&str, &str, &str)) {
    assert_refused(&[("a.toml", text.as_bytes())], &["simulate", "a.toml"], &[place, message]);
}

#[test]
fn wrong_arguments_are_refused() {
    for (args, message) in [
        ("--set servers.spede=1", "--set servers.spede=1: there is no key `spede`; did you mean `speed`?"),
        ("--set seed", "write KEY=VALUE"),
        ("--set slow.7.factor=1", "a list of 1"),
        ("--set a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a=1", "no key is nested that deep"),
        ("--set title.x=1", "`title` is not a table"),
        ("--policy optimall", "--policy optimall: there is no policy"),
        ("--repetitions 0", "--repetitions 0"),
        ("--sweep servers.count=3..1", "FROM..TO"),
        ("--sweep servers.count", "KEY=FROM..TO"),
        ("--sweep servers.count=1..9999:5000", "more than 1000"),
        ("--sweep workload.copies=5..7", "--sweep workload.copies=7: 7 copies"),
        ("--replication 0..2", "--sweep workload.copies=0: a batch needs at least one copy"),
        ("--sweep seed=1..1000:1000 --sweep clients.slots=1..1000:1000", "1,000,000 points are too many"),
        ("--sweep seed=1..1000:1000 --repetitions 1000", "2,000,000 runs are too many"),
        ("--servers s.csv", "go with a batch"),
        ("--ask-after soon", "--ask-after: `soon` is not a span"),
        ("--html x --csv x", "the same file"),
        ("--html small.toml", "it is an input of this command"),
        ("--csv nowhere/runs.csv", "cannot write nowhere/runs.csv"),
    ] {
        let args = [vec!["simulate", "small.toml"], words(args)].concat();
        assert_refused(&[("small.toml", SMALL.as_bytes())], &args, &[message]);
    }
    for (header, message) in [
        ("klient,bytes,replicas", "x:1: unknown column `klient`"),
        ("client,bytes", "x:1: column `replicas` is missing"),
        ("tsk,bytes,replicas", "x:1: unknown column `tsk`"),
        ("s0,s1,s2", "x:1: unknown column `s0`"),
    ] {
        assert_refused(&[("x", format!("{header}\n1,2,3\n").as_bytes())], &["simulate", "x"], &[message]);
    }
    let tasks: (&str, &[u8]) = ("tasks.csv", b"task,bytes,replicas\nt,1,s0\n");
    assert_refused(&[tasks], &["simulate", "tasks.csv"], &["--processes"]);
    let bad = [tasks, ("p.csv", b"process,server\np,s0\np,s0\n" as &[u8])];
    assert_refused(&bad, &["simulate", "tasks.csv", "--processes", "p.csv"], &["p.csv:3"]);
    let args = ["simulate", "small.toml", "--processes", "p.csv"];
    assert_refused(&[("small.toml", SMALL.as_bytes())], &args, &["goes with tasks"]);
    assert_refused(&[("x", &[b'a', b'\n', 0xff])], &["simulate", "x"], &["x:2", "UTF-8"]);
    assert_refused(&[("b.csv", b"client,replicas\n")], &["simulate", "b.csv"], &["b"]);
    let busy: [(&str, &[u8]); 2] =
        [("b.csv", b"client,replicas\nc,s\n"), ("s.csv", b"server,backlog\ns,5\n")];
    assert_refused(&busy, &["simulate", "b.csv", "--servers", "s.csv"], &["backlogs"]);
}

/// A batch with other numbers of copies: the first ones stay, further ones are drawn.
#[test]
fn replication_of_a_batch() {
    let rows: Vec<String> = (0..40).map(|k| format!("c{},1000000,s0|s{}\n", k % 8, 1 + k % 3)).collect();
    let folder = folder_with(&[("batch.csv", &format!("client,bytes,replicas\n{}", rows.concat()))]);
    let report = json(&words("simulate batch.csv --replication 1..4 --policy optimal --json"), folder.path());
    let makespan = |report: &Value, k: usize| results(report)[k]["measures"]["makespan"]["mean"].clone();
    // All on s0; as they are; and wherever there is room, at 10 ms each.
    assert_eq!([0, 3].map(|k| makespan(&report, k)), [0.4, 0.1]);
    let as_it_is = json(&words("simulate batch.csv --policy optimal --json"), folder.path());
    assert_eq!(makespan(&report, 1), makespan(&as_it_is, 0));
    let output = evenkeel(&words("simulate batch.csv --replication 4..5"), folder.path());
    let message = "--sweep workload.copies=5: 5 copies are out of range; use 1 to 4";
    assert!(stderr(&output).contains(message), "{}", stderr(&output));
}

/// Tasks are compared by what `assign` would take, too.
#[test]
fn the_usual_policies_of_tasks() {
    let folder = folder_with(&[
        ("one.csv", "task,bytes,replicas\na,64,s0\nb,64,s1\n"),
        ("two.csv", "task,bytes,replicas\na,64,s0\na,64,s1\nb,64,s1\n"),
        ("procs.csv", "process,server\np0,s0\np1,s1\n"),
    ]);
    for tasks in ["one.csv", "two.csv"] {
        let assigned = json(&["assign", tasks, "--processes", "procs.csv", "--json"], folder.path());
        let report = json(&["simulate", tasks, "--processes", "procs.csv", "--json"], folder.path());
        let policies: Vec<&Value> = results(&report).iter().map(|result| &result["policy"]).collect();
        assert_eq!(policies, [&Value::from("rank"), &assigned["policy"], &Value::from("opass-dynamic")]);
    }
}

/// More threads than any machine has are refused, not tried.
#[test]
fn threads_have_a_limit() {
    let folder = folder_with(&[("small.toml", SMALL)]);
    for args in ["simulate small.toml --threads 1025", "reproduce --threads 65535"] {
        let output = evenkeel(&words(args), folder.path());
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).contains("is not in 0..=1024"), "{}", stderr(&output));
    }
}

/// What takes long is said before; where nobody can answer, it needs --yes.
#[test]
fn long_studies_need_a_yes() {
    let args = words("simulate small.toml --ask-after 0s");
    assert_refused(&[("small.toml", SMALL.as_bytes())], &args, &["6 runs would take about", "--yes"]);
    let folder = folder_with(&[("small.toml", SMALL)]);
    let sure = printed(&[&args[..], &["--yes"]].concat(), folder.path());
    assert_eq!(sure, printed(&words("simulate small.toml"), folder.path()));
}

/// Ctrl-C: what is done by then is told, and is what a whole study would have told of these runs.
#[test]
fn interrupted_studies_keep_what_is_done() {
    let folder = folder_with(&[("small.toml", SMALL)]);
    let args = words("simulate small.toml --repetitions 100000 --yes --csv runs.csv --json");
    let child = Command::new(env!("CARGO_BIN_EXE_evenkeel"))
        .args(&args)
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_secs(2));
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    assert!(stderr(&output).contains("of 200,000 runs were done"), "{}", stderr(&output));
    let report: Value = serde_json::from_str(&stdout(&output)).unwrap();
    let n_done = report["runs"].as_u64().unwrap() as usize;
    assert!(0 < n_done && n_done < 200_000 && report["runs_asked"] == 200_000);
    let rows = fs::read_to_string(folder.path().join("runs.csv")).unwrap();
    assert_eq!(rows.lines().count(), 1 + n_done);
    let whole = printed(&words("simulate small.toml --repetitions 1 --csv -"), folder.path());
    assert!(whole.lines().all(|line| rows.lines().any(|row| row == line)), "{whole}");
}

/// The documentation tells of every measure, and of every key that an error would name.
#[test]
fn all_is_documented() {
    let text = fs::read_to_string(root().join("docs/simulate.md")).unwrap();
    let folder = folder_with(&[("small.toml", SMALL)]);
    let report = json(&words("simulate small.toml --json --repetitions 1"), folder.path());
    for measure in results(&report)[0]["measures"].as_object().unwrap().keys() {
        assert!(text.contains(&format!("| `{measure}` |")), "{measure}");
    }
    let tables = ["", "servers.", "servers.s0.", "slow.0.", "clients.", "network.", "executor.", "workload."];
    let of_kinds = ["jobs", "tasks", "writes", "collective"].map(|kind| (Some(kind), "workload."));
    for (kind, table) in tables.map(|table| (None, table)).into_iter().chain(of_kinds) {
        fs::write(
            folder.path().join("kind.toml"),
            kind.map_or_else(|| SMALL.to_owned(), |kind| format!("[workload]\nkind = \"{kind}\"\n")),
        )
        .unwrap();
        let set = format!("{table}x=1");
        let error = stderr(&evenkeel(&["simulate", "kind.toml", "--set", &set], folder.path()));
        let known = error.trim().split("nown ones are ").nth(1).unwrap_or_else(|| panic!("{error}"));
        for key in known.split(", ") {
            let is_told =
                [format!("\n{key} = "), format!("[{key}]"), format!("[workload.{key}]"), format!("`{key}`")];
            assert!(is_told.iter().any(|told| text.contains(told)), "{table}{key}");
        }
    }
}

/// What a browser makes of a page.
fn look_at(page: &Path, is_dark: bool, width: u32) -> Value {
    // Told by a script in a copy: the page itself has none.
    const SCRIPT: &str = r"<script>
        const shapes = [...document.querySelectorAll('svg')].map(svg => {
            const box = svg.getBoundingClientRect();
            const texts = [...svg.querySelectorAll('text')].map(text => text.getBoundingClientRect());
            const inside = texts.every(t => t.left >= box.left - 1 && t.right <= box.right + 1);
            return { width: box.width, height: box.height, inside };
        });
        const found = {
            width: innerWidth, overflow: document.documentElement.scrollWidth - innerWidth, shapes,
            background: getComputedStyle(document.body).backgroundColor, color: getComputedStyle(document.body).color,
            headings: [...document.querySelectorAll('h2')].map(h => h.textContent),
        };
        document.body.innerHTML = '<pre>FOUND' + JSON.stringify(found) + 'DNUOF</pre>';
    </script>";
    let copy = page.with_extension("looked.html");
    let text = fs::read_to_string(page).unwrap();
    assert!(!text.contains("<script") && !text.contains("http"), "one file, no script, no network");
    fs::write(&copy, text.replace("</body>", &format!("{SCRIPT}</body>"))).unwrap();
    let Opened { dom, console, requests } = open_at(&copy, width, is_dark);
    assert!(console.is_empty() && requests.is_empty(), "{console:?} {requests:?}");
    let found = dom.split("FOUND").nth(1).and_then(|rest| rest.split("DNUOF").next());
    let found = found.unwrap_or_else(|| panic!("the browser shows nothing: {dom}"));
    serde_json::from_str(&found.replace("&amp;", "&")).unwrap()
}

#[test]
fn the_page_in_a_browser() {
    let folder = folder_with(&[("small.toml", SMALL)]);
    let page = folder.path().join("page.html");
    printed(&words("simulate small.toml --html page.html"), folder.path());
    let n_policies = 2;
    for (is_dark, width, background) in [
        (false, 1100, "rgb(255, 255, 255)"),
        (true, 1100, "rgb(18, 23, 30)"),
        (false, 500, "rgb(255, 255, 255)"),
    ] {
        let found = look_at(&page, is_dark, width);
        assert_eq!(found["background"], background, "{found}");
        assert_eq!(found["width"], width, "{found}");
        assert!(found["overflow"].as_i64().unwrap() <= 0, "nothing is wider than the page: {found}");
        let headings = [
            "Makespan",
            "Mean response",
            "p99 of responses",
            "All responses",
            "Load over time",
            "Utilisation over time",
            "All figures",
        ];
        assert_eq!(found["headings"], serde_json::json!(headings));
        let shapes = found["shapes"].as_array().unwrap();
        assert_eq!(shapes.len(), 4 + 2 * n_policies, "three times bars, lines, and two maps a policy");
        for shape in shapes {
            assert!(
                shape["width"].as_f64().unwrap() > 100.0 && shape["height"].as_f64().unwrap() > 50.0,
                "{found}"
            );
            assert_eq!(shape["inside"], true, "{found}");
        }
    }
    printed(&words("simulate small.toml --html page.html --replication 1..3"), folder.path());
    let found = look_at(&page, true, 1100);
    assert_eq!(found["headings"][0], "Makespan by copies");
    assert_eq!(found["shapes"].as_array().unwrap().len(), 3 + 4 + 2 * n_policies);
    assert!(!fs::read_to_string(&page).unwrap().contains("NaN"));
}

/// Outputs beside each other: what is printed goes to standard error if a file goes to standard output.
#[test]
fn files_to_standard_output() {
    let folder = folder_with(&[("small.toml", SMALL)]);
    let output = evenkeel(&words("simulate small.toml --csv -"), folder.path());
    assert!(
        stdout(&output).starts_with("policy,repetition,makespan,bound,ratio,mean,p50"),
        "{}",
        stdout(&output)
    );
    assert!(stderr(&output).starts_with("Small."), "{}", stderr(&output));
}
