//! `evenkeel collective`: its order, its figures, and what it refuses.

use std::fs;

use super::{assert_refused, evenkeel, folder_with, json, printed, stderr, stdout};

/// Golden G-002.3, with names whose natural order is not their order in the file.
const QUEUE: &str = "app,server,read,shuffle\na10,s10,1,0\na10,s2,1,5\na2,s10,1,5\na2,s2,1,0\n";

#[test]
fn orders_and_completions() {
    let folder = folder_with(&[("queue.csv", QUEUE)]);
    let summary = json(&["collective", "queue.csv", "--out", "order.csv", "--json"], folder.path());
    let order = fs::read_to_string(folder.path().join("order.csv")).unwrap();
    assert_eq!(order, "server,position,app\ns2,0,a10\ns2,1,a2\ns10,0,a2\ns10,1,a10\n");
    let expected = r#"{"format":1,"policy":"hio-edd","model":"no-barrier","requests":4,"servers":2,
        "completions":[{"app":"a2","completion":6},{"app":"a10","completion":6}],"mean":6,
        "sio":{"completions":[{"app":"a2","completion":6},{"app":"a10","completion":7}],"mean":6.5},
        "nio":{"completions":[{"app":"a2","completion":7},{"app":"a10","completion":6}],"mean":6.5}}"#;
    assert_eq!(summary, serde_json::from_str::<serde_json::Value>(expected).unwrap());
}

/// With `-` the order goes to standard output and the summary to standard error.
#[test]
fn the_order_on_standard_output() {
    let folder = folder_with(&[("queue.csv", "app,server,read,shuffle\n\"a,0\",s0,1,0\n")]);
    let output = evenkeel(&["collective", "queue.csv", "--out", "-", "--model", "barrier"], folder.path());
    assert_eq!(stdout(&output), "server,position,app\ns0,0,\"a,0\"\n");
    assert!(stderr(&output).contains("with a barrier"), "{}", stderr(&output));
}

#[test]
fn every_policy_and_model() {
    let folder = folder_with(&[("queue.csv", QUEUE)]);
    for policy in evenkeel::policy::queues().map(|(policy, _)| policy.name) {
        for model in ["barrier", "no-barrier"] {
            let args = ["collective", "queue.csv", "--policy", policy, "--model", model];
            let summary = json(&[&args[..], &["--json"]].concat(), folder.path());
            assert_eq!((&summary["policy"], &summary["model"]), (&policy.into(), &model.into()));
            if let Some(reference) = summary.get(policy) {
                assert_eq!(
                    (&summary["completions"], &summary["mean"]),
                    (&reference["completions"], &reference["mean"])
                );
            }
            let text = printed(&args, folder.path());
            let header = text.lines().find(|line| line.contains("against sio")).unwrap();
            let columns: Vec<&str> = header.trim_end_matches("against sio").split_whitespace().collect();
            assert_eq!(columns[1], policy);
            assert_eq!(columns.iter().filter(|&&name| name == policy).count(), 1, "{header}");
            assert!(columns.contains(&"sio") && columns.contains(&"nio"), "{header}");
        }
    }
}

/// The threshold decides between the order by shuffles and that by applications.
#[test]
fn the_threshold() {
    let queue = "app,server,read,shuffle\na,s,10,3\na,t,9,8\nb,s,10,3\n";
    let folder = folder_with(&[("queue.csv", queue)]);
    let first = |threshold: &[&str]| {
        let args = ["collective", "queue.csv", "--policy", "hio", "--out", "-"];
        let order = printed(&[&args[..], threshold].concat(), folder.path());
        order.lines().nth(1).unwrap().to_owned()
    };
    assert_eq!(first(&[]), "s,0,b");
    assert_eq!(first(&["--threshold", "0.299999999"]), "s,0,b");
    assert_eq!(first(&["--threshold", "0.3"]), "s,0,a");
}

/// Nine decimals are exact, the longest times are added up, and no requests at all are no mistake.
#[test]
fn extreme_times() {
    let row = "a,s,18446744073.709551615,18446744073.709551615\n";
    let queue = format!("app,server,read,shuffle\n{row}{row}");
    let folder = folder_with(&[("queue.csv", &queue), ("none.csv", "app,server,read,shuffle\n")]);
    let text = printed(&["collective", "queue.csv", "--json"], folder.path());
    assert!(text.contains(r#""completion":55340232221.128654845"#), "{text}");
    let none = json(&["collective", "none.csv", "--json"], folder.path());
    assert_eq!((&none["mean"], &none["requests"]), (&0.into(), &0.into()));
    assert!(printed(&["collective", "none.csv"], folder.path()).starts_with("0 requests of 0 applications"));
}

/// Only so many applications as one can look at.
#[test]
fn many_applications() {
    let rows = (0..30).map(|app| format!("a{app},s,1,0\n")).collect::<Vec<_>>().concat();
    let folder = folder_with(&[("queue.csv", &format!("app,server,read,shuffle\n{rows}"))]);
    let text = printed(&["collective", "queue.csv"], folder.path());
    assert!(text.contains("… and 6 more") && !text.contains("a24"), "{text}");
    assert!(text.lines().last().unwrap().trim_start().starts_with("mean"), "{text}");
}

fn refused(queue: &[u8], extra: &[&str], words: &[&str]) {
    let args = [&["collective", "queue", "--out", "order.csv"], extra].concat();
    assert_refused(&[("queue", queue)], &args, words);
}

#[test]
fn wrong_queues() {
    let whole: [(&[u8], &[&str]); 7] = [
        (b"", &["empty", "app,server,read,shuffle"]),
        (b"a,s,1,1\n", &["queue:1", "unknown column `a`"]),
        (b"app,server,read\na,s,1\n", &["queue:1", "`shuffle` is missing"]),
        (b"app,server,read,shuffle,offset\n", &["queue:1", "unknown column `offset`"]),
        (b"app,server,read,shuffle\na,s,1\n", &["queue:2", "3 fields", "first row has 4"]),
        (b"app,server,read,shuffle\na,s,1,\xFF\n", &["queue:2", "UTF-8"]),
        (b"app,server,read,shuffle\na,s,1,1\na,\"s\n,1,1\n", &["2 fields"]),
    ];
    for (queue, words) in whole {
        refused(queue, &[], words);
    }
    let rows: [(&str, &[&str]); 14] = [
        (",s,1,1", &["name `` of a parallel application is empty"]),
        (" a,s,1,1", &["` a` of a parallel application", "blank"]),
        ("a,,1,1", &["name `` of a server is empty"]),
        ("a,s,,1", &["read time is missing"]),
        ("a,s,1,", &["shuffle time is missing"]),
        ("a,s,-1,1", &["`-1` is not a number, 0 or more"]),
        ("a,s,1,-0.5", &["shuffle time `-0.5`", "0 or more"]),
        ("a,s,NaN,1", &["read time `NaN`", "not a number"]),
        ("a,s,inf,1", &["read time `inf`", "not a number"]),
        ("a,s,1e3,1", &["read time `1e3`"]),
        ("a,s,1.,1", &["read time `1.`", "at most 9 decimals"]),
        ("a,s,.5,1", &["read time `.5`", "at most 9 decimals"]),
        ("a,s,0.0000000001,1", &["at most 9 decimals"]),
        ("a,s,1,18446744073.709551616", &["shuffle time", "too long", "larger unit"]),
    ];
    for (row, words) in rows {
        let queue = format!("app,server,read,shuffle\nb,t,0,0\n{row}\n");
        refused(queue.as_bytes(), &[], &[words, &["queue:3"]].concat());
    }
}

#[test]
fn wrong_usage() {
    let queue = QUEUE.as_bytes();
    let known = "nio, sio, hio, hio-listing, hio-guarded, hio-edd, hio-edd-local";
    refused(queue, &["--policy", "fastest"], &["no policy `fastest`", known]);
    refused(queue, &["--threshold", "0.2"], &["--threshold", "hio-guarded", "hio-edd", "leave it out"]);
    for threshold in ["-1", "-0.5", "NaN", "inf", "", "0.0000000001", "1e-3"] {
        let extra = ["--policy", "hio", "--threshold", threshold];
        refused(queue, &extra, &["--threshold: the threshold"]);
    }
    let folder = folder_with(&[("queue", QUEUE)]);
    for args in ["missing.csv", ".", "queue --model both", "queue --out queue", "queue --seed 1"] {
        let args: Vec<&str> = ["collective"].into_iter().chain(args.split(' ')).collect();
        assert_eq!(evenkeel(&args, folder.path()).status.code(), Some(2), "{args:?}");
    }
    assert_eq!(fs::read_to_string(folder.path().join("queue")).unwrap(), QUEUE);
}

/// Where an application has several requests at one server, the order says which is meant.
#[test]
fn the_order_is_never_ambiguous() {
    let folder = folder_with(&[("queue", "app,server,read,shuffle\na,s,1,0\nb,s,1,5\na,s,10,10\n")]);
    let order = printed(&["collective", "queue", "--out", "-"], folder.path());
    assert_eq!(order, "server,position,app,request\ns,0,a,2\ns,1,b,1\ns,2,a,0\n");
}
