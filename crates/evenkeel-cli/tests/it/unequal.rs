//! Servers with speeds, slots and backlogs, a limit on concurrent transfers, requests that stay whole: plans, their
//! proofs and what is refused, through the command.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::{evenkeel, folder_with, json, plan_and_check, printed, stderr, stdout};

const SPEEDS: &str = "server,speed\ns0,2\ns1,1\ns2,0.333333\ns3,2.5\ns4,10\ns5,1\n";
const SLOTS: &str = "server,slots\ns0,2\ns1,1\ns2,3\ns3,1\ns4,2\ns5,1\n";
const BACKLOGS: &str = "server,backlog\ns0,700\ns1,0\ns2,90\ns3,1\ns4,2000\ns5,16\n";
const ALL: &str = "server,speed,slots,backlog\n\
    s0,2,1,700\ns1,1,2,0\ns2,0.333333,1,90\ns3,2.5,3,0\ns4,10,1,2000\ns5,1,1,16\n";
const CLIENTS: &str = "client,slots\nc0,2\nc1,1\nc2,3\nc3,1\nc4,1\nc5,2\nc6,1\nc7,1\n";

/// A drawn batch, and files with what may be known of its servers and clients.
fn drawn() -> tempfile::TempDir {
    let files =
        [("speeds", SPEEDS), ("slots", SLOTS), ("backlogs", BACKLOGS), ("all", ALL), ("clients", CLIENTS)];
    let folder = folder_with(&files);
    let generate =
        "generate --requests 150 --servers 6 --clients 8 --copies 2 --law zipf --bytes 0..64 --out batch";
    printed(&generate.split(' ').collect::<Vec<_>>(), folder.path());
    folder
}

/// The ways to describe the cluster of [`drawn`].
const INPUTS: [&[&str]; 8] = [
    &["batch", "--servers", "speeds"],
    &["batch", "--servers", "slots", "--clients", "clients"],
    &["batch", "--servers", "backlogs", "--block", "16"],
    &["batch", "--servers", "all", "--clients", "clients"],
    &["batch", "--servers", "all", "--clients", "clients", "--block", "7"],
    &["batch", "--max-concurrent", "3"],
    &["batch", "--servers", "slots", "--max-concurrent", "5", "--block", "4"],
    &["batch", "--clients", "clients", "--max-concurrent", "1000000"],
];

/// The ways to plan.
const POLICIES: [&[&str]; 7] = [
    &[],
    &["--whole"],
    &["--no-order"],
    &["--no-order", "--whole"],
    &["--objective", "mean"],
    &["--policy", "first"],
    &["--policy", "random", "--seed", "5", "--whole"],
];

/// The rows of `plan.csv`: request, client, server, start, blocks.
fn plan_rows(folder: &Path) -> Vec<Vec<String>> {
    let text = fs::read_to_string(folder.join("plan.csv")).unwrap();
    text.lines().skip(1).map(|line| line.split(',').map(str::to_owned).collect()).collect()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is not a number"))
}

#[test]
fn plans_for_any_cluster_are_accepted_with_their_proofs() {
    let folder = drawn();
    let at = folder.path();
    for input in INPUTS {
        for policy in POLICIES {
            println!("{input:?} {policy:?}"); // shown when the test fails
            let summary = plan_and_check(input, policy, at);
            let ordered = !policy.contains(&"--no-order");
            let limit = input.iter().position(|arg| *arg == "--max-concurrent");
            let limit = limit.map(|i| input[i + 1].parse::<u64>().unwrap());
            assert_eq!(summary["max_concurrent"], json!(limit));
            assert_eq!(summary["whole"], policy.contains(&"--whole"));
            assert_eq!(summary["length"].is_null(), !ordered);
            let achieved = &summary[if ordered { "length" } else { "max_load" }];
            let gap = number(achieved) - number(&summary["lower_bound"]);
            assert!((gap - number(&summary["gap"])).abs() < 1e-6, "{summary}");
            assert_eq!(summary["optimal"], *achieved == summary["lower_bound"]);

            let no_order: &[&str] = if ordered { &[] } else { &["--no-order"] };
            let score = json(&[&["score"], input, &["plan.csv", "--json"], no_order].concat(), at);
            assert!(
                (number(&score["score"]) - number(achieved) / number(&summary["lower_bound"])).abs() < 1e-6
            );
            for field in ["length", "max_load", "lower_bound"] {
                let (a, b) = (&summary[field], &score[field]);
                assert!(a == b || (number(a) - number(b)).abs() < 1e-6, "{field}: {a} {b}");
            }

            let mut rows = plan_rows(at);
            assert!(ordered || rows.iter().all(|row| row[3] == "0"));
            let decimals = |text: &String| text.split_once('.').map_or(0, |(_, decimals)| decimals.len());
            assert!(rows.iter().all(|row| decimals(&row[3]) <= 9 && decimals(&row[4]) <= 9));
            if policy.contains(&"--whole") {
                rows.dedup_by(|next, row| next[0] == row[0] && next[2] == row[2]);
                assert_eq!(rows.len(), 150, "no request is split");
            }
        }
    }
}

#[test]
fn without_backlogs_and_at_one_speed_plans_are_optimal() {
    let folder = drawn();
    for input in [INPUTS[1], INPUTS[5], INPUTS[6], INPUTS[7]] {
        let summary = plan_and_check(input, &[], folder.path());
        assert_eq!((&summary["optimal"], &summary["gap"]), (&json!(true), &json!(0)), "{input:?}");
    }
}

#[test]
fn the_same_input_gives_the_same_bytes() {
    let folder = drawn();
    let at = folder.path();
    let once = |input: &[&str], policy: &[&str]| {
        let mut summary = plan_and_check(input, policy, at);
        summary["seconds"].take();
        (summary.to_string(), fs::read(at.join("plan.csv")).unwrap())
    };
    for input in INPUTS {
        for policy in POLICIES {
            assert!(once(input, policy) == once(input, policy), "{input:?} {policy:?}");
        }
    }
}

/// The length, the lower bound and the largest load of the plan for a batch with this servers file.
fn measured(batch: &str, servers: &str, extra: &[&str]) -> [Value; 3] {
    let folder = folder_with(&[("batch", batch), ("servers", servers)]);
    let input = [&["batch", "--servers", "servers"], extra].concat();
    let summary = plan_and_check(&input, &[], folder.path());
    assert_eq!(summary["optimal"], true);
    ["length", "lower_bound", "max_load"].map(|field| summary[field].clone())
}

fn requests(n: usize, replicas: impl Fn(usize) -> String) -> String {
    let rows = (0..n).map(|i| format!("c{i},1,{}\n", replicas(i)));
    format!("client,bytes,replicas\n{}", rows.collect::<String>())
}

/// Golden G-2.2: nine transfers, one between each of three clients and servers, at most two at once.
#[test]
fn two_at_once_take_five_slots() {
    let rows = (0..9).map(|k| format!("c{},1,s{}\n", k / 3, k % 3));
    let batch = format!("client,bytes,replicas\n{}", rows.collect::<String>());
    assert_eq!(measured(&batch, "server\ns0\ns1\ns2\n", &["--max-concurrent", "2"]), [5, 5, 3]);
    assert_eq!(measured(&batch, "server\ns0\ns1\ns2\n", &["--max-concurrent", "3"]), [3, 3, 3]);
}

/// Golden G-2.3: six requests on a server of speed 2 and one of speed 1.
#[test]
fn a_server_of_twice_the_speed_takes_twice_as_much() {
    let batch = requests(6, |_| "s0|s1".to_owned());
    assert_eq!(measured(&batch, "server,speed\ns0,2\ns1,1\n", &[]), [2, 2, 2]);
    assert_eq!(measured(&batch, "server,speed\ns0,1\ns1,1\n", &[]), [3, 3, 3]);
}

/// Golden G-2.4: backlogs of 5, 0 and 0, and five requests for the last two servers.
#[test]
fn a_backlog_counts_only_where_something_is_served() {
    let batch = requests(5, |_| "s1|s2".to_owned());
    assert_eq!(measured(&batch, "server,backlog\ns0,5\ns1,0\ns2,0\n", &[]), [3, 3, 3]);
    let all = requests(5, |_| "s0|s1|s2".to_owned());
    assert_eq!(measured(&all, "server,backlog\ns0,1\ns1,0\ns2,0\n", &[]), [2, 2, 2]);
    let bytes = "server,backlog\ns0,17\ns1,0\ns2,0\n";
    assert_eq!(measured(&all, bytes, &["--block", "16"]), [3, 3, 3], "17 bytes are two blocks");
}

/// Golden times that are not whole are told with nine decimals.
#[test]
fn times_are_exact_to_nine_decimals() {
    let batch = requests(1, |_| "s0".to_owned());
    assert_eq!(measured(&batch, "server,speed\ns0,3\n", &[]), [0.333_333_333; 3]);
    assert_eq!(measured(&batch, "server,speed\ns0,0.000001\n", &[]), [1_000_000; 3]);
    assert_eq!(measured(&batch, "server,speed\ns0,1000000000\n", &[]), [1e-9; 3]);
}

/// What `check` says of the plan and summary in a folder, with its exit status.
fn check(input: &[&str], at: &Path) -> (Option<i32>, String) {
    let output = evenkeel(&[&["check"], input, &["plan.csv", "--summary", "summary"]].concat(), at);
    (output.status.code(), stdout(&output) + &stderr(&output))
}

#[test]
fn a_plan_that_is_a_hundredth_off_is_refused() {
    let folder = drawn();
    let at = folder.path();
    for input in INPUTS {
        plan_and_check(input, &[], at);
        let plan = fs::read_to_string(at.join("plan.csv")).unwrap();
        let lines: Vec<&str> = plan.lines().collect();
        for (line, column, off) in [(1, 3, 0.01), (20, 3, 0.01), (1, 4, 0.01), (20, 4, 0.01), (20, 4, -0.01)]
        {
            let mut fields: Vec<String> = lines[line].split(',').map(str::to_owned).collect();
            fields[column] = format!("{:.9}", fields[column].parse::<f64>().unwrap() + off);
            let mut damaged: Vec<String> = lines.iter().map(|&line| line.to_owned()).collect();
            damaged[line] = fields.join(",");
            fs::write(at.join("plan.csv"), damaged.join("\n")).unwrap();
            let (code, text) = check(input, at);
            assert_eq!(code, Some(1), "{input:?} {} {}\n{text}", lines[line], damaged[line]);
        }
    }
}

#[test]
fn a_summary_that_claims_something_else_is_refused() {
    let folder = drawn();
    let at = folder.path();
    for input in INPUTS {
        for policy in [&[][..], &["--no-order"]] {
            let summary = plan_and_check(input, policy, at);
            let is_split =
                plan_rows(at).windows(2).any(|rows| rows[0][0] == rows[1][0] && rows[0][2] != rows[1][2]);
            let refused = |field: &str, lie: Value, codes: &[i32]| {
                let mut lies = summary.clone();
                lies[field] = lie;
                fs::write(at.join("summary"), lies.to_string()).unwrap();
                let (code, text) = check(input, at);
                assert!(
                    codes.contains(&code.unwrap()),
                    "{input:?} {policy:?}: {code:?} {text}\n{lies}\n{summary}"
                );
            };
            for field in ["length", "max_load", "lower_bound", "gap"] {
                for off in [0.01, 1.0, -0.01] {
                    if summary[field].is_number() {
                        let lie = number(&summary[field]) + off;
                        refused(field, json!(lie), if lie < 0.0 { &[2] } else { &[1] });
                    }
                }
            }
            refused("optimal", json!(!summary["optimal"].as_bool().unwrap()), &[1]);
            refused("block", json!(1000), &[1]);
            refused("max_concurrent", json!(2), &[1, 2]);
            refused("batch_fingerprint", json!("0000000000000000"), &[2]);
            refused("plan_fingerprint", json!("0000000000000000"), &[1]);
            if is_split {
                refused("whole", json!(true), &[1]);
            }
        }
    }
}

#[test]
fn a_limit_is_the_one_of_the_summary() {
    let folder = drawn();
    let (input, at) = (["batch", "--max-concurrent", "3"], folder.path());
    let summary = plan_and_check(&input, &[], at);
    assert_eq!(check(&["batch"], at).0, Some(0), "it need not be given again");
    assert_eq!(check(&["batch", "--max-concurrent", "4"], at).0, Some(2), "another limit");
    for lie in [json!(4), Value::Null] {
        let mut lies = summary.clone();
        lies["max_concurrent"] = lie;
        fs::write(at.join("summary"), lies.to_string()).unwrap();
        let (code, text) = check(&input, at);
        assert_ne!(code, Some(0), "{text}\n{lies}");
    }
}

#[test]
fn other_servers_are_another_input() {
    let folder = drawn();
    let at = folder.path();
    plan_and_check(&["batch", "--servers", "all"], &[], at);
    for other in [&["--servers", "speeds"][..], &["--servers", "all", "--clients", "clients"], &[]] {
        let (code, text) = check(&[&["batch"], other].concat(), at);
        assert_eq!(code, Some(2), "{text}");
        assert!(text.contains("other servers or clients"), "{text}");
    }
}

#[test]
fn a_split_request_is_not_whole() {
    let folder = folder_with(&[
        ("batch", "client,bytes,replicas\nc0,9,s0|s1\nc1,1,s0\n"),
        ("clients", "client,slots\nc0,2\nc1,1\n"),
    ]);
    let at = folder.path();
    let input = ["batch", "--clients", "clients"];
    assert_eq!(plan_and_check(&input, &[], at)["length"], 5);
    let check_whole = || evenkeel(&[&["check"], &input[..], &["plan.csv", "--whole"]].concat(), at);
    let split = check_whole();
    assert_eq!(split.status.code(), Some(1));
    assert!(stdout(&split).contains("request 0 is split between servers"), "{}", stdout(&split));
    let summary = plan_and_check(&input, &["--whole"], at);
    assert_eq!(
        (&summary["length"], &summary["gap"], &summary["optimal"]),
        (&json!(9), &json!(4), &json!(false))
    );
    assert_eq!(check_whole().status.code(), Some(0));
}

/// Long times are rounded where they are printed; what `plan` says of itself is believed all the same.
#[test]
fn long_times_are_accepted_though_rounded() {
    for bytes in (0..40).map(|k| 10_u64.pow(6 + k / 5) + u64::from(k) * 7919) {
        let batch = format!("client,bytes,replicas\nc0,{bytes},s0|s1\nc1,{bytes},s1|s2\nc2,17,s2\n");
        let servers = "server,speed,backlog\ns0,3,5\ns1,0.7,0\ns2,0.333333,12345\n";
        let folder = folder_with(&[("batch", &batch), ("servers", servers)]);
        for policy in [&[][..], &["--no-order"], &["--policy", "first"]] {
            plan_and_check(&["batch", "--servers", "servers"], policy, folder.path());
        }
    }
}

/// A server that is slower by far than another makes for coarse ticks.
#[test]
fn extreme_speeds_are_accepted_though_rounded() {
    let cases: [(&str, &str, &[&str]); 4] = [
        ("c1,2,s0\nc1,3,s1\nc0,0,s1\n", "s0,123456.789,1,0\ns1,0.000001,2,0\n", &["--objective", "mean"]),
        (
            "c0,28,s1\nc0,50,s0|s2\nc1,0,s2\n",
            "s0,123456.789,1,0\ns1,0.000001,2,0\ns2,0.999983,3,0\n",
            &["--policy", "first"],
        ),
        (
            "c0,3494,s2|s3\nc1,2513,s1\nc0,2107,s1|s2\nc1,8473,s1|s3|s2\n",
            "s0,0.000001,3,0\ns1,1000000000000,3,0\ns2,0.999983,2,693\ns3,0.999983,2,4653\n",
            &[],
        ),
        ("c0,541592657135,s1|s0\nc1,0,s0\n", "s0,3,2,0\ns1,3,1,0\n", &["--policy", "first"]),
    ];
    for (batch, servers, policy) in cases {
        let batch = format!("client,bytes,replicas\n{batch}");
        let servers = format!("server,speed,slots,backlog\n{servers}");
        let clients = "client,slots\nc0,1\nc1,2\n";
        let folder = folder_with(&[("batch", &batch), ("servers", &servers), ("clients", clients)]);
        let input = ["batch", "--servers", "servers", "--clients", "clients"];
        plan_and_check(&input, policy, folder.path());
    }
}

#[test]
fn a_limit_does_not_go_with_backlogs_or_different_speeds() {
    let folder = drawn();
    for servers in ["speeds", "backlogs", "all"] {
        let args = ["plan", "batch", "--servers", servers, "--max-concurrent", "2"];
        let output = evenkeel(&args, folder.path());
        assert_eq!(output.status.code(), Some(2));
        for word in ["limit on concurrent transfers", "backlogs", "different speeds", "leave out"] {
            assert!(stderr(&output).contains(word), "{}", stderr(&output));
        }
    }
}

#[test]
fn people_are_told_times_and_gaps() {
    let folder = drawn();
    let said = |args: &[&str]| printed(&[&["plan"], args].concat(), folder.path());
    let text = said(&["batch", "--servers", "speeds"]);
    assert!(text.contains("B at speed 1"), "{text}");
    let text = said(&["batch", "--servers", "all", "--policy", "first"]);
    assert!(text.contains("not proved") && text.contains("above the bound"), "{text}");
    let text = said(&["batch", "--max-concurrent", "2"]);
    assert!(text.contains("2 transfers at once"), "{text}");
}
