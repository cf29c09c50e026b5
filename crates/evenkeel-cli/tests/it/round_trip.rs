//! Generate, plan, check and score, as a user would.

use std::fs;

use serde_json::Value;

use super::{evenkeel, json, plan_and_check, stderr, stdout};

/// Every law, with and without sizes, in both formats: optimal plans that the checker accepts with their proofs.
#[test]
fn plans_of_all_kinds_are_valid_and_proved() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    for law in ["uniform", "geometric", "zipf", "first-hot", "chain"] {
        for (bytes, format) in [("1", "csv"), ("1..1000", "json"), ("0..3", "csv")] {
            let generate =
                ["generate", "--law", law, "--bytes", bytes, "--format", format, "--requests", "3000"];
            let generate = [&generate[..], &["--servers", "40", "--out", "batch"]].concat();
            assert_eq!(evenkeel(&generate, at).status.code(), Some(0));
            for extra in
                [&[][..], &["--no-order"], &["--objective", "mean"], &["--policy", "random", "--seed", "3"]]
            {
                let summary = plan_and_check(&["batch"], extra, at);
                let expected = !extra.contains(&"random");
                assert_eq!(summary["optimal"], expected, "{law} {bytes} {extra:?}");
            }
        }
    }
}

#[test]
fn scores_agree_with_plans() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    evenkeel(
        &["generate", "--law", "first-hot", "--servers", "20", "--requests", "2000", "--out", "batch"],
        at,
    );
    let usual = json(&["score", "batch", "--json"], at);
    assert_eq!((&usual["score"], &usual["policy"]), (&1.0.into(), &"optimal".into()));
    for row in usual["policies"].as_array().unwrap() {
        let of_policy = json(&["score", "batch", "--policy", row["policy"].as_str().unwrap(), "--json"], at);
        for field in ["policy", "score", "length", "max_load"] {
            assert_eq!(row[field], of_policy[field]);
        }
        assert_eq!(usual["lower_bound"], of_policy["lower_bound"]);
    }
    let first = json(&["score", "batch", "--policy", "first", "--json"], at);
    assert!(first["score"].as_f64().unwrap() > 1.5, "{first}");
    evenkeel(&["plan", "batch", "--policy", "first", "--out", "plan.csv"], at);
    let of_plan = json(&["score", "batch", "plan.csv", "--json"], at);
    assert_eq!(of_plan["score"], first["score"]);
    assert_eq!(of_plan["policy"], Value::Null);
}

/// The same input and seed give the same bytes, but for the seconds.
#[test]
fn the_same_again() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let once = || {
        evenkeel(&["generate", "--seed", "5", "--bytes", "1..9", "--out", "batch"], at);
        let mut summary = json(&["plan", "batch", "--out", "plan.csv", "--json"], at);
        summary["seconds"] = Value::Null;
        let files = ["batch", "plan.csv"].map(|name| fs::read(at.join(name)).unwrap());
        (summary, files)
    };
    assert!(once() == once());
}

/// Ids follow the servers file, so ties go to the first server there; without it to the first in natural order.
#[test]
fn files_fix_the_order_of_names() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    fs::write(at.join("batch"), "client,bytes,replicas\nc10,1,s2|s10\nc9,1,s10|s2\n").unwrap();
    fs::write(at.join("servers"), "server\ns10\ns2\nspare\n").unwrap();
    fs::write(at.join("clients"), "client\nc9\nc10\n").unwrap();
    let summary = json(&["plan", "batch", "--servers", "servers", "--clients", "clients", "--json"], at);
    assert_eq!((&summary["servers"], &summary["clients"]), (&Value::from(3), &Value::from(2)));
    assert_eq!(summary["length"], 1);
}

/// A batch of nothing is planned in no time.
#[test]
fn nothing_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    for text in ["client,bytes,replicas\n", "client,bytes,replicas\nc0,0,s0|s1\n", "{\"requests\":[]}"] {
        fs::write(at.join("batch"), text).unwrap();
        let summary = plan_and_check(&["batch"], &[], at);
        assert_eq!(
            (&summary["length"], &summary["lower_bound"]),
            (&Value::from(0), &Value::from(0)),
            "{text}"
        );
    }
}

/// Plans go through pipes, and a reader that stops early is no error.
#[test]
fn pipes() {
    let folder = tempfile::tempdir().unwrap();
    let exe = env!("CARGO_BIN_EXE_evenkeel");
    let script = format!(
        "set -o pipefail; {exe} generate --requests 20000 | {exe} plan - --out - --json 2> summary | head -n 2"
    );
    let output =
        std::process::Command::new("bash").args(["-c", &script]).current_dir(folder.path()).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stdout(&output).starts_with("request,client,server,start,blocks\n0,"));
}

#[test]
fn completions_and_manual() {
    let folder = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish"] {
        assert!(stdout(&evenkeel(&["completions", shell], folder.path())).contains("evenkeel"));
    }
    assert!(stdout(&evenkeel(&["man"], folder.path())).contains(".TH evenkeel"));
    assert!(stdout(&evenkeel(&["man", "plan"], folder.path())).contains("evenkeel\\-plan"));
    assert!(stdout(&evenkeel(&["man", "import", "csv"], folder.path())).contains("evenkeel\\-import\\-csv"));
    assert_eq!(evenkeel(&["man", "dance"], folder.path()).status.code(), Some(2));
    assert_eq!(evenkeel(&["man", "plan", "csv"], folder.path()).status.code(), Some(2));
}
