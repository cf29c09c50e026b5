//! Sizes as people write them, rates in the servers file, and figures in the reader's units.

use std::fs;

use serde_json::Value;

use super::{assert_refused, folder_with, json, plan_and_check, printed};

/// The same batch, however its sizes are written.
#[test]
fn sizes_have_units_everywhere() {
    let folder = folder_with(&[
        ("plain.csv", "client,bytes,replicas\nc0,64000000,s0|s1\nc1,1610612736,s0|s1\n"),
        ("sized.csv", "client,bytes,replicas\nc0,64MB,s0|s1\nc1,1.5GiB,s0|s1\n"),
        (
            "sized.json",
            r#"{"requests":[{"client":"c0","bytes":"64MB","replicas":["s0","s1"]},{"client":"c1","bytes":"1.5 GiB","replicas":["s0","s1"]}]}"#,
        ),
        ("plain.servers", "server,backlog\ns0,1048576\ns1,0\n"),
        ("sized.servers", "server,backlog\ns0,1MiB\ns1,0\n"),
        ("plain.tasks", "task,bytes,replicas\nt0,64000000,s0\n"),
        ("sized.tasks", "task,bytes,replicas\nt0,64MB,s0\n"),
        ("procs", "process,server\np0,s0\n"),
        ("plain.writes", "object,offset,bytes\n1,1048576,2000\n"),
        ("sized.writes", "object,offset,bytes\n1,1MiB,2kB\n"),
    ]);
    let plan = |batch: &str, servers: &str, block: &str| {
        let input = [batch, "--servers", servers, "--block", block];
        let mut summary = plan_and_check(&input, &[], folder.path());
        summary.as_object_mut().unwrap().remove("seconds");
        summary
    };
    let expected = plan("plain.csv", "plain.servers", "1048576");
    for batch in ["sized.csv", "sized.json"] {
        assert_eq!(plan(batch, "sized.servers", "1MiB"), expected, "{batch}");
    }
    assert_eq!(expected["bytes"], 1_674_612_736_u64);
    let assign = |tasks| printed(&["assign", tasks, "--processes", "procs", "--json"], folder.path());
    assert_eq!(assign("sized.tasks"), assign("plain.tasks"));
    let place = |writes, servers, threshold| {
        let args = ["place", writes, "--servers", servers, "--threshold", threshold, "--json"];
        printed(&args, folder.path())
    };
    assert_eq!(place("sized.writes", "sized.servers", "1kB"), place("plain.writes", "plain.servers", "1000"));
    let generate = |bytes, backlogs| {
        let args = ["generate", "--requests", "9", "--bytes", bytes, "--backlogs", backlogs];
        printed(&[&args[..], &["--servers-out", "drawn"]].concat(), folder.path())
            + &fs::read_to_string(folder.path().join("drawn")).unwrap()
    };
    assert_eq!(generate("1kB..64KiB", "0..1MB"), generate("1000..65536", "0..1000000"));
}

#[test]
fn what_is_no_size_is_refused() {
    for (size, words) in [
        ("64mb", ["`64mb` is not a size", "64kB, 1.5MB"]),
        ("64M", ["`64M` is not a size", "64MiB"]),
        ("-1MB", ["`-1MB` is not a size", "4096"]),
        ("1.5", ["`1.5` is not whole", "whole number"]),
        ("20000PB", ["`20000PB` is not a size", ""]),
    ] {
        let batch = format!("client,bytes,replicas\nc0,{size},s0\n");
        assert_refused(&[("batch", batch.as_bytes())], &["plan", "batch"], &["batch:2", words[0], words[1]]);
    }
}

/// Two servers of 100 MB/s and one of 50 MB/s that serves two at once, 25 MB/s each.
const RATES: &str = "server,rate,slots\ns0,100MB/s,1\ns1,800Mb/s,1\ns2,50000000,2\n";
const BATCH: &str =
    "client,bytes,replicas\nc0,100MB,s0\nc1,200MB,s0|s1\nc2,25MB,s2\nc3,25MB,s2\nc4,25MB,s2\nc5,25MB,s2\n";

/// With rates all times are seconds, whatever the block.
#[test]
fn rates_make_seconds() {
    let folder = folder_with(&[("batch.csv", BATCH), ("servers.csv", RATES)]);
    for block in ["1", "1kB", "1MB"] {
        let input = ["batch.csv", "--servers", "servers.csv", "--block", block];
        let summary = plan_and_check(&input, &[], folder.path());
        for field in ["length", "max_load", "lower_bound"] {
            assert_eq!(summary[field], 2, "{field} {summary}");
            assert_eq!(summary[format!("{field}_seconds")], 2, "{field} {summary}");
        }
        let args = |verb| [&[verb], &input[..]].concat();
        let text = printed(&args("plan"), folder.path());
        assert!(text.contains("length       2.00 s\n"), "{text}");
        let text = printed(&args("score"), folder.path());
        assert!(text.contains("No plan ends before 2.00 s: "), "{text}");
        let text = printed(&args("explain"), folder.path());
        assert!(text.contains("No plan ends before 2.00 s: ") && text.contains(" MB"), "{text}");
        let explained = json(&[&args("explain")[..], &["--json"]].concat(), folder.path());
        assert_eq!(explained["lower_bound_seconds"], 2);
        assert_eq!(explained["loads"][2]["bytes"], 100_000_000);
        assert_eq!(explained["loads"][2]["done_seconds"], 2);
        let compared = [&args("compare")[..], &["--policy", "optimal,first"]].concat();
        let text = printed(&compared, folder.path());
        assert!(text.contains("No plan ends before 2.00 s: ") && text.contains("  3.00 s"), "{text}");
        let compared = json(&[&compared[..], &["--json"]].concat(), folder.path());
        assert_eq!(compared["policies"][1]["length_seconds"], 3);
        let text = printed(&[&args("check")[..], &["plan.csv"]].concat(), folder.path());
        assert_eq!(text, "valid: 6 requests in 2.00 s, max load 2.00 s\n");
    }
}

/// What is planned is what is simulated: the rate is that of the server, shared by its slots.
#[test]
fn rates_are_simulated() {
    let folder = folder_with(&[("batch.csv", BATCH), ("servers.csv", RATES)]);
    let args = ["simulate", "batch.csv", "--servers", "servers.csv", "--policy", "optimal,first", "--json"];
    let report = json(&args, folder.path());
    assert_eq!([makespan(&report, 0), makespan(&report, 1)], [2_000_000, 3_000_000], "{report}");
    let slots = json(&[&args[..], &["--set", "servers.s2.slots=4"]].concat(), folder.path());
    assert_eq!(makespan(&slots, 0), 2_000_000, "{slots}");
    let files: [(&str, &[u8]); 2] = [("batch.csv", BATCH.as_bytes()), ("servers.csv", RATES.as_bytes())];
    let both = [&args[..], &["--set", "servers.bandwidth=1MB/s"]].concat();
    assert_refused(&files, &both, &["servers.bandwidth", "has rates", "leave one"]);
}

/// In microseconds.
fn makespan(report: &Value, policy: usize) -> u64 {
    let mean = report["results"][policy]["measures"]["makespan"]["mean"].as_f64().unwrap();
    (mean * 1e6).round() as u64
}

#[test]
fn wrong_rates() {
    let batch = "client,replicas\nc0,s0|s1\n";
    let cases: [(&str, &[&str]); 8] = [
        (
            "server,rate,speed\ns0,1MB/s,1\ns1,1MB/s,1\n",
            &["servers:1", "`speed` and `rate`", "leave one out"],
        ),
        ("server,rate\ns0,1MB/s\ns1,\n", &["servers:3", "the rate `` is not a rate", "120MB/s"]),
        ("server,rate\ns0,0\ns1,1\n", &["servers:2", "the rate `0`"]),
        ("server,rate\ns0,-1\ns1,1\n", &["servers:2", "the rate `-1`"]),
        ("server,rate\ns0,1MB\ns1,1\n", &["servers:2", "the rate `1MB`"]),
        ("server,rate\ns0,fast\ns1,1\n", &["servers:2", "the rate `fast`"]),
        ("server,rate\ns0,1GB/s\ns1,1\n", &["servers:3", "too coarse", "smaller blocks"]),
        ("server,rate\ns0,1GB/s\ns1,2000000000000000000\n", &["servers:3", "larger blocks"]),
    ];
    for (servers, words) in cases {
        let files: [(&str, &[u8]); 2] = [("batch", batch.as_bytes()), ("servers", servers.as_bytes())];
        let block = if servers.contains("1,1\n") { "1GB" } else { "1" };
        assert_refused(&files, &["plan", "batch", "--servers", "servers", "--block", block], words);
    }
}

/// Whoever speaks of bytes is answered in bytes, and never in slots.
#[test]
fn bytes_are_told_as_bytes() {
    let folder = folder_with(&[
        ("batch.csv", "client,bytes,replicas\nc0,2GiB,s0\nc1,1GiB,s0|s1\nc2,1.5GiB,s1|s2\n"),
        ("slots.csv", "server,slots\ns0,2\ns1,1\ns2,1\n"),
        ("speeds.csv", "server,speed\ns0,1\ns1,2\ns2,1\n"),
    ]);
    for (extra, speed) in [
        (&[][..], "one server's speed"),
        (&["--servers", "slots.csv"], "one slot's speed"),
        (&["--servers", "speeds.csv"], "speed 1"),
        (&["--block", "64MiB"], "one server's speed"),
    ] {
        for verb in ["plan", "score", "explain", "compare"] {
            let text = printed(&[&[verb, "batch.csv"], extra].concat(), folder.path());
            assert!(text.contains(&format!("2.15 GB at {speed}")), "{text}");
            // Advice may speak of the slots that clients have; no time is told in slots.
            let is_of_clients = |line: &&str| line.contains("slots for ") || line.contains("column slots in");
            let times: Vec<&str> = text.lines().filter(|line| !is_of_clients(line)).collect();
            assert!(!times.join("\n").contains(" slots") && !text.contains("2,147,483,648"), "{text}");
            assert!(!text.contains("blocks"), "{text}");
        }
    }
    let page = ["compare", "batch.csv", "--policy", "optimal,first", "--html", "page.html"];
    printed(&page, folder.path());
    let page = fs::read_to_string(folder.path().join("page.html")).unwrap();
    assert!(page.contains("bound 2.15 GB") && !page.contains("2,147,483,648"));
}
