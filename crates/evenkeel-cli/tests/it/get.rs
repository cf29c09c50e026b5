//! `get` and `replay`: events, traces and pages.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::{assert_refused, evenkeel, folder_with, json, printed, stderr, stdout};

/// A folder with two mirrors.
fn mirrors() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for mirror in ["east", "west"] {
        let root = folder.path().join(mirror);
        fs::create_dir_all(root.join("sub")).unwrap();
        fs::write(root.join("large"), vec![7; 3 << 20]).unwrap();
        fs::write(root.join("sub/small"), "small").unwrap();
    }
    folder
}

const BOTH: [&str; 7] = ["get", "--mirror", "east", "--mirror", "west", "--trust", "sizes"];

fn get(more: &[&str], folder: &Path) -> String {
    printed(&[&BOTH, more].concat(), folder)
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// What happens is told as it happens, and the summary comes last.
#[test]
fn events_are_lines_of_json() {
    let folder = mirrors();
    let lines = lines(&get(&["to", "--json"], folder.path()));
    let events: Vec<&str> = lines.iter().map(|line| line["event"].as_str().unwrap()).collect();
    assert_eq!((events[0], events[1]), ("begun", "planned"), "{events:?}");
    assert_eq!(events.last(), Some(&"summary"));
    assert_eq!(events.iter().filter(|event| **event == "done").count(), 2, "{events:?}");
    assert!(!events.contains(&"start"), "single transfers are for traces: {events:?}");
    assert!(lines.iter().all(|line| line["format"] == 1 && line["at"].as_f64().unwrap() >= 0.0));
    assert_eq!(lines[0]["missing"], 3 * (1 << 20) + 5);
    let shares = lines[1]["servers"].as_array().unwrap();
    assert_eq!(shares.iter().map(|share| share["bytes"].as_u64().unwrap()).sum::<u64>(), 3 * (1 << 20) + 5);
    let summary = lines.last().unwrap();
    assert_eq!((&summary["objects"], &summary["failed"]), (&Value::from(2), &Value::from(0)));
}

/// What a trace says adds up to what was read, and the page has it.
#[test]
fn a_trace_is_replayed() {
    let folder = mirrors();
    let events = lines(&get(&["to", "--trace", "trace", "--range", "64KiB", "--json"], folder.path()));
    // On a busy machine something may be late, and read twice.
    let received = &events.last().unwrap()["received_bytes"];
    let trace = lines(&fs::read_to_string(folder.path().join("trace")).unwrap());
    let bytes = |event: &str| -> u64 {
        let of = trace.iter().filter(|line| line["event"] == event);
        of.map(|line| line["bytes"].as_u64().unwrap()).sum()
    };
    assert_eq!(Value::from(bytes("end")), *received);
    let count = |event: &str| trace.iter().filter(|line| line["event"] == event).count();
    assert!(count("start") >= 48 && count("start") == count("end"));
    let told = json(&["replay", "trace", "--json", "--html", "page.html"], folder.path());
    assert_eq!((&told["received_bytes"], &told["done"]), (received, &Value::from(2)));
    let servers = told["servers"].as_array().unwrap();
    let sum = |name: &str| servers.iter().map(|server| server[name].as_u64().unwrap()).sum::<u64>();
    assert_eq!((Value::from(sum("bytes")), sum("planned_bytes")), (received.clone(), 3 * (1 << 20) + 5));
    assert_eq!(sum("transfers"), count("start") as u64);
    let page = fs::read_to_string(folder.path().join("page.html")).unwrap();
    assert!(page.contains("by the first plan") && page.contains("west") && !page.contains("NaN"), "{page}");
    let text = printed(&["replay", "trace"], folder.path());
    assert!(text.contains("planned rate") && text.contains("east"), "{text}");
}

/// A policy that plans nothing tells its candidates, and its page says so.
#[test]
fn decisions_on_the_way_are_traced() {
    let folder = mirrors();
    get(&["to", "--trace", "trace", "--policy", "least-loaded", "--range", "64KiB"], folder.path());
    let trace = lines(&fs::read_to_string(folder.path().join("trace")).unwrap());
    let chose = trace.iter().find(|line| line["event"] == "chose").expect("a decision");
    assert!(!chose["candidates"].as_array().unwrap().is_empty(), "{chose}");
    printed(&["replay", "trace", "--out", "page.html"], folder.path());
    assert!(fs::read_to_string(folder.path().join("page.html")).unwrap().contains("plans nothing"));
}

/// A process that was killed leaves half a line.
#[test]
fn a_torn_trace_is_replayed_up_to_its_end() {
    let folder = mirrors();
    get(&["to", "--trace", "trace"], folder.path());
    let trace = fs::read_to_string(folder.path().join("trace")).unwrap();
    let half = &trace[..trace.trim_end().len() - 3];
    fs::write(folder.path().join("half"), half).unwrap();
    let output = evenkeel(&["replay", "half"], folder.path());
    assert_eq!(output.status.code(), Some(0));
    assert!(stderr(&output).contains("incomplete"), "{}", stderr(&output));
    assert!(stdout(&output).contains("server"));
}

#[test]
fn the_output_of_get_is_replayed_without_transfers() {
    let folder = mirrors();
    let text = get(&["to", "--json"], folder.path());
    fs::write(folder.path().join("events"), &text).unwrap();
    let told = json(&["replay", "events", "--json"], folder.path());
    assert_eq!(told["received_bytes"], lines(&text).last().unwrap()["received_bytes"]);
}

#[test]
fn bad_traces_are_refused() {
    let begun = r#"{"format":1,"at":0.0,"event":"begun","objects":1,"bytes":1,"kept":0,"resumed":0,"missing":1,"policy":"x","servers":["a"]}"#;
    let bad = |line: &str, words: &[&str]| {
        let trace = format!("{begun}\n{line}\n");
        assert_refused(&[("trace", trace.as_bytes())], &["replay", "trace"], &[&["trace:2"], words].concat());
    };
    assert_refused(&[("trace", b"")], &["replay", "trace"], &["empty", "get --trace"]);
    assert_refused(&[("trace", b"client,replicas\n")], &["replay", "trace"], &["trace:1", "get --trace"]);
    bad("[]", &["not a line of a trace"]);
    bad(r#"{"format":2,"at":1,"event":"up","server":"a"}"#, &["format 2"]);
    bad(r#"{"format":1,"at":-1,"event":"up","server":"a"}"#, &["`at`"]);
    bad(r#"{"format":1,"at":1e300,"event":"up","server":"a"}"#, &["`at`"]);
    bad(
        r#"{"format":1,"at":1,"event":"start","transfer":1,"server":"b","key":"k","from":0,"to":1,"hedge":false}"#,
        &["`b`"],
    );
    bad(
        r#"{"format":1,"at":1,"event":"end","transfer":1,"server":"a","bytes":1,"seconds":-1,"result":"done"}"#,
        &["`seconds`"],
    );
    bad(begun, &["twice"]);
    let long = "x".repeat(5 << 20);
    assert_refused(&[("trace", long.as_bytes())], &["replay", "trace"], &["trace:1", "more than"]);
    // Events of a later version are left out.
    let later = format!("{begun}\n{{\"format\":1,\"at\":1,\"event\":\"teleported\",\"who\":[1]}}\n");
    let folder = folder_with(&[("trace", &later)]);
    printed(&["replay", "trace", "--html", "page.html"], folder.path());
}

#[test]
fn a_policy_that_needs_more_than_a_client_is_refused() {
    let folder = mirrors();
    let output = evenkeel(&[&BOTH[..], &["to", "--policy", "hdlwf"]].concat(), folder.path());
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("take no part") && stderr(&output).contains("p2c"),
        "{}",
        stderr(&output)
    );
    let output = evenkeel(&[&BOTH[..], &["to", "--policy", "nobody"]].concat(), folder.path());
    assert!(stderr(&output).contains("there is no policy `nobody`"), "{}", stderr(&output));
}

#[test]
fn ranks_share_the_work() {
    let folder = mirrors();
    let rank = |args: &[&str]| evenkeel(&[&BOTH[..], &["to"], args].concat(), folder.path());
    for (args, word) in [
        (&["--ranks", "2"][..], "--rank"),
        (&["--rank", "0"], "--ranks"),
        (&["--rank", "2", "--ranks", "2"], "count from 0"),
        (&["--rank", "0", "--ranks", "0"], "from 1"),
        (&["--rank", "0", "--ranks", "auto"], "leave out --rank"),
    ] {
        let output = rank(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(stderr(&output).contains(word), "{args:?}: {}", stderr(&output));
    }
    assert_eq!(rank(&["--rank", "1", "--ranks", "2"]).status.code(), Some(0));
    assert!(folder.path().join("to/sub/small").exists() && !folder.path().join("to/large").exists());
    // As a launcher would start it.
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_evenkeel"))
        .args([&BOTH[..], &["to", "--ranks", "auto"]].concat())
        .env("SLURM_PROCID", "0")
        .env("SLURM_NTASKS", "2")
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(super::names_in(&folder.path().join("to")), ["large", "sub"], "nothing is left behind");
    // Without being asked, nobody is a rank.
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_evenkeel"))
        .args([&BOTH[..], &["alone"]].concat())
        .env("SLURM_PROCID", "1")
        .env("SLURM_NTASKS", "2")
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(super::names_in(&folder.path().join("alone")), ["large", "sub"]);
}

#[test]
fn some_objects_are_left_out() {
    let folder = mirrors();
    get(&["some", "--include", "*all", "--limit", "50MB/s"], folder.path());
    assert_eq!(super::names_in(&folder.path().join("some")), ["sub"]);
    get(&["others", "--exclude", "sub/"], folder.path());
    assert_eq!(super::names_in(&folder.path().join("others")), ["large"]);
    for (args, word) in [
        (&["none", "--include", "*.zip"][..], "leave nothing"),
        (&["none", "--include", "["], "is no pattern"),
        (&["none", "--limit", "fast"], "is not a rate"),
    ] {
        let output = evenkeel(&[&BOTH[..], args].concat(), folder.path());
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(stderr(&output).contains(word), "{args:?}: {}", stderr(&output));
    }
    assert!(!folder.path().join("none").exists());
}

/// A folder without checksums can be compared by sizes only, which proves nothing.
#[test]
fn what_cannot_be_verified_is_not_right() {
    let folder = mirrors();
    get(&["to"], folder.path());
    fs::remove_file(folder.path().join("to/sub/small")).unwrap();
    let output = evenkeel(&[&BOTH[..], &["to", "--verify", "--json"]].concat(), folder.path());
    assert_eq!(output.status.code(), Some(1));
    let told: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(
        (&told["missing"][0], &told["unverifiable"][0]),
        (&Value::from("sub/small"), &Value::from("large"))
    );
    let output = evenkeel(&[&BOTH[..], &["nowhere", "--verify"]].concat(), folder.path());
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
}
