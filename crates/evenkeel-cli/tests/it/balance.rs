//! `balance ceph` on files of what Ceph prints, and with a `ceph` that hangs, lies or refuses.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

use super::root;

fn evenkeel(folder: &Path, args: &[&str]) -> Output {
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    let mut command = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
    command.current_dir(folder).env("PATH", path).args(["balance", "ceph"]).args(args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A folder with the example's files, one of which may be changed.
fn files(change: impl FnOnce(&mut Value, &mut Value)) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let read = |name: &str| -> Value {
        serde_json::from_slice(&fs::read(root().join("examples/ceph").join(name)).unwrap()).unwrap()
    };
    let (mut osds, mut groups) = (read("osd-dump.json"), read("pg-dump.json"));
    change(&mut osds, &mut groups);
    fs::write(folder.path().join("osd-dump.json"), osds.to_string()).unwrap();
    fs::write(folder.path().join("pg-dump.json"), groups.to_string()).unwrap();
    folder
}

fn planned(folder: &Path, args: &[&str]) -> Value {
    let from: &[&str] = if args.contains(&"--from") { &["--json"] } else { &["--json", "--from", "."] };
    let output = evenkeel(folder, &[from, args].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn strings(value: &Value) -> String {
    value.as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect::<Vec<_>>().join("\n")
}

/// Nothing that is down, out, unwilling or unsettled gets anything to lead, and what is left alone is told.
#[test]
fn who_must_not_lead_does_not() {
    let folder = files(|osds, groups| {
        osds["osds"][1]["up"] = json!(0);
        osds["osds"][2]["in"] = json!(0);
        osds["osds"][3]["primary_affinity"] = json!(0.0);
        osds["osds"][4]["primary_affinity"] = json!(0.5);
        for group in groups["pg_stats"].as_array_mut().unwrap() {
            if group["pgid"] == "2.3" {
                group["state"] = json!("active+undersized+degraded");
            }
        }
    });
    let report = planned(folder.path(), &["--weigh", "count"]);
    let reasons = ["", "it is down", "it is out", "its primary affinity is 0", "", ""];
    for (server, reason) in report["servers"].as_array().unwrap().iter().zip(reasons) {
        assert_eq!(server["barred"].as_str().unwrap_or_default(), reason);
    }
    assert_eq!(report["servers"][4]["speed"], 0.5);
    for change in report["moves"].as_array().unwrap() {
        assert!(["osd.0", "osd.5"].contains(&change["to"].as_str().unwrap()), "{change}");
        assert_ne!(change["group"], "2.3");
    }
    let alone = strings(&report["left_alone"]);
    assert!(alone.contains("pool bench: 1 group is not clean (active+undersized+degraded)"), "{alone}");
    assert!(alone.contains("pool ec: 8 groups are erasure-coded"), "{alone}");
}

/// What a cluster would have to allow first is told, and nothing is changed until then.
#[test]
fn refusals() {
    let folder = files(|osds, _| {
        osds["require_osd_release"] = json!("squid");
    });
    let balancer = r#"{"active":true,"mode":"upmap-read"}"#;
    fs::write(folder.path().join("balancer-status.json"), balancer).unwrap();
    let features = r#"{"client":[{"release":"luminous","num":7},{"release":"squid","num":1}]}"#;
    fs::write(folder.path().join("features.json"), features).unwrap();
    let told = strings(&planned(folder.path(), &[])["refusals"]);
    assert!(told.contains("set-require-min-compat-client reef"), "{told}");
    assert!(told.contains("7 connected clients are older than reef"), "{told}");
    assert!(told.contains("balancer is active in mode upmap-read"), "{told}");
    let told = strings(&planned(folder.path(), &["--despite-balancer"])["refusals"]);
    assert!(!told.contains("balancer"), "{told}");
    for unset in ["unknown", ""] {
        let folder = files(|osds, _| osds["require_min_compat_client"] = json!(unset));
        let told = strings(&planned(folder.path(), &[])["refusals"]);
        assert!(told.contains("set-require-min-compat-client luminous"), "{unset}: {told}");
    }
    let output = evenkeel(folder.path(), &["--from", ".", "--apply"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("files cannot be changed"), "{}", text(&output.stderr));
    let output = evenkeel(folder.path(), &["--from", ".", "--watch", "--looks", "1"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("add --no-measure"), "{}", text(&output.stderr));
    assert!(!folder.path().join("evenkeel-undo-ceph.json").exists());
    let commands = text(&evenkeel(folder.path(), &["--from", ".", "--out", "-"]).stdout);
    assert!(commands.contains("ceph osd pg-upmap-primary 2."), "{commands}");
}

/// Neither what is read nor an undo file is replaced by what is written.
#[test]
fn inputs_and_undo_files_are_kept() {
    let folder = files(|_, _| {});
    let undo = r#"{"format":1,"engine":"ceph","store":"x","changes":[]}"#;
    fs::write(folder.path().join("undo.json"), undo).unwrap();
    for (out, told) in [("osd-dump.json", "osd-dump.json"), ("undo.json", "it is an undo file")] {
        let before = fs::read(folder.path().join(out)).unwrap();
        let output = evenkeel(folder.path(), &["--from", ".", "--out", out]);
        assert_eq!(output.status.code(), Some(2), "{out}");
        assert!(text(&output.stderr).contains(told), "{}", text(&output.stderr));
        assert_eq!(fs::read(folder.path().join(out)).unwrap(), before);
    }
    let output = evenkeel(folder.path(), &["--from", ".", "--undo", "undo.json", "--pool", "bench"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("leave out --pool"), "{}", text(&output.stderr));
}

/// What keeps a leader that must not lead is told.
#[test]
fn nobody_else_can_lead() {
    let folder = files(|osds, _| {
        for osd in osds["osds"].as_array_mut().unwrap() {
            osd["in"] = json!(0);
        }
    });
    let told = strings(&planned(folder.path(), &[])["left_alone"]);
    assert!(told.contains("of osd.5, which must not lead (it is out): no other member can"), "{told}");
}

/// Servers files give speeds, and say who must not lead.
#[test]
fn speeds_and_who_may_lead() {
    let folder = files(|_, _| {});
    let rows = "server,speed,leads\nosd.0,0.1,\nosd.1,1,no\nosd.2,1,yes\nosd.3,1,\nosd.4,1,\nosd.5,1,\n";
    fs::write(folder.path().join("osds.csv"), rows).unwrap();
    let report = planned(folder.path(), &["--pool", "bench", "--servers", "osds.csv"]);
    assert!(report["score_today"].as_f64().unwrap() > 5.0);
    assert!(report["score"].as_f64().unwrap() < 1.05);
    assert_eq!(report["servers"][1]["planned"]["groups"], 0);
    assert!(report["servers"][0]["planned"]["groups"].as_u64().unwrap() <= 2);
    for (rows, told) in [
        ("server,leads\nosd.0,maybe\n", "`leads` is yes or no"),
        ("server,speed\nosd.0,1\n", "osd.1 is missing; add a row"),
        ("server,speed\nosd.0,1\nsda,1\n", "no server `sda`"),
    ] {
        fs::write(folder.path().join("osds.csv"), rows).unwrap();
        let output = evenkeel(folder.path(), &["--from", ".", "--servers", "osds.csv"]);
        assert_eq!(output.status.code(), Some(2));
        assert!(text(&output.stderr).contains(told), "{}", text(&output.stderr));
    }
}

/// Reads are what was read between two looks.
#[test]
fn reads_between_two_looks() {
    let counted = |read_kb: u64| {
        files(|_, groups| {
            for group in groups["pg_stats"].as_array_mut().unwrap() {
                let read_kb = if group["acting_primary"] == 0 { read_kb } else { 5 };
                group["stat_sum"]["num_read_kb"] = json!(read_kb);
            }
        })
    };
    let (before, after) = (counted(500), counted(1500));
    let from = before.path().display().to_string();
    let report =
        planned(after.path(), &["--pool", "bench", "--weigh", "reads", "--from", &from, "--from", "."]);
    for (i, server) in report["servers"].as_array().unwrap().iter().enumerate() {
        let (groups, weight) = (&server["today"]["groups"], server["today"]["weight"].as_u64().unwrap());
        assert_eq!(weight, if i == 0 { 1_024_000 * groups.as_u64().unwrap() } else { 0 });
    }
    assert!(report["score"].as_f64().unwrap() < report["score_today"].as_f64().unwrap());
    let output = evenkeel(after.path(), &["--weigh", "reads", "--from", "."]);
    assert!(text(&output.stderr).contains("name two folders"), "{}", text(&output.stderr));
}

/// Files that are cut off, of something else, or missing are named with what to do.
#[test]
fn damaged_files() {
    let whole = fs::read_to_string(root().join("examples/ceph/pg-dump.json")).unwrap();
    for (name, content, told) in [
        ("pg-dump.json", &whole[..whole.len() / 2], "pg-dump.json: not what Ceph prints"),
        ("pg-dump.json", "[]", ""),
        ("pg-dump.json", r#"{"pg_ready":false,"pg_stats":[]}"#, "try again in a minute"),
        (
            "pg-dump.json",
            r#"{"pg_stats":[{"pgid":"x","state":"","up":[],"acting":[],"acting_primary":-1}]}"#,
            "",
        ),
        ("osd-dump.json", "{}", "osd-dump.json: not what Ceph prints"),
        ("osd-dump.json", "\u{0}", "osd-dump.json: not what Ceph prints"),
    ] {
        let folder = files(|_, _| {});
        fs::write(folder.path().join(name), content).unwrap();
        let output = evenkeel(folder.path(), &["--from", ".", "--weigh", "count"]);
        assert!(text(&output.stderr).contains(told), "{name}: {}", text(&output.stderr));
        assert!(matches!(output.status.code(), Some(0 | 2)), "{name} {content}: {:?}", output.status);
    }
    let folder = files(|_, groups| {
        let group = groups["pg_stats"][0].clone();
        groups["pg_stats"].as_array_mut().unwrap().push(group);
    });
    let output = evenkeel(folder.path(), &["--from", "."]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("is listed twice"), "{}", text(&output.stderr));
    let folder = files(|_, _| {});
    fs::remove_file(folder.path().join("pg-dump.json")).unwrap();
    let output = evenkeel(folder.path(), &["--from", "."]);
    assert!(text(&output.stderr).contains("make it by `ceph pg dump -f json`"), "{}", text(&output.stderr));
    let output = evenkeel(folder.path(), &["--from", ".", "--pool", "nope"]);
    assert_eq!(output.status.code(), Some(2));
}

fn program(folder: &Path, name: &str, script: &str) {
    let path = folder.join(name);
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// An entry of ours is removed where CRUSH alone has the same OSDs and the first leader. Elsewhere that would move data, and
/// the entry says who leads.
#[test]
fn an_undo_removes_entries_that_are_not_needed() {
    let folder = files(|osds, _| osds["pg_upmap"] = json!([{"pgid": "2.0", "osds": [3, 5, 1]}]));
    let answers = r#"case "$*" in
        "osd dump"*) cat osd-dump.json;; "pg dump"*) cat pg-dump.json;; "osd tree"*) echo '{"nodes":[]}';;
        "balancer status"*) echo '{"active":false,"mode":"none"}';; features*) echo '{}';; "config dump"*) echo '[]';;
        esac"#;
    program(folder.path(), "ceph", answers);
    let osds: Value =
        serde_json::from_slice(&fs::read(folder.path().join("osd-dump.json")).unwrap()).unwrap();
    let change = json!({"group": "2.0", "from": "osd.5", "to": "osd.3",
        "before": ["osd.5", "osd.3", "osd.1"], "after": ["osd.3", "osd.5", "osd.1"]});
    let undo = json!({"format": 1, "engine": "ceph", "store": osds["fsid"], "changes": [change]});
    fs::write(folder.path().join("undo.json"), undo.to_string()).unwrap();
    for (set, command) in [
        ("[5,1,3], p5", "osd rm-pg-upmap 2.0"),
        ("[1,5,3], p1", "osd pg-upmap 2.0 5 3 1"),
        ("[5,3,2], p5", "osd pg-upmap 2.0 5 3 1"),
    ] {
        program(
            folder.path(),
            "osdmaptool",
            &format!("echo '2.0 raw ({set}) up ({set}) acting ([3,5,1], p3)'"),
        );
        let output = evenkeel(folder.path(), &["--undo", "undo.json", "--out", "-"]);
        assert!(
            text(&output.stdout).contains(&format!("ceph {command}  #")),
            "{set}: {}",
            text(&output.stdout)
        );
    }
}

/// The manager hears of changes later than the map: a look waits for it.
#[test]
fn a_look_waits_until_the_manager_has_heard() {
    let folder = files(|osds, _| osds["pg_upmap"] = json!([{"pgid": "2.0", "osds": [5, 3, 1]}]));
    let late = fs::read_to_string(folder.path().join("pg-dump.json")).unwrap();
    let mut heard: Value = serde_json::from_str(&late).unwrap();
    for group in heard["pg_stats"].as_array_mut().unwrap() {
        if group["pgid"] == "2.0" {
            (group["up"], group["acting"]) = (json!([5, 3, 1]), json!([5, 3, 1]));
            group["acting_primary"] = json!(5);
        }
    }
    fs::write(folder.path().join("heard.json"), heard.to_string()).unwrap();
    let answers = r#"case "$*" in
        "osd dump"*) cat osd-dump.json;; "osd tree"*) echo '{"nodes":[]}';; "config dump"*) echo '[]';;
        "pg dump"*) cat pg-dump.json; mv heard.json pg-dump.json 2>/dev/null || true;;
        "balancer status"*) echo '{"active":false,"mode":"none"}';; features*) echo '{}';;
        esac"#;
    program(folder.path(), "ceph", answers);
    let output = evenkeel(folder.path(), &["--pool", "bench", "--json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let led = |report: &Value, osd: usize| report["servers"][osd]["today"]["groups"].as_u64().unwrap();
    let before = planned(&root().join("examples/ceph"), &["--pool", "bench"]);
    assert_eq!((led(&report, 5), led(&report, 3)), (led(&before, 5) + 1, led(&before, 3) - 1));
}

/// What a killed command has started holds its undo file until it ends.
#[test]
fn what_a_killed_command_began_is_waited_for() {
    let folder = files(|_, _| {});
    let answers = r#"case "$*" in
        "osd dump"*) cat osd-dump.json;; "osd tree"*) echo '{"nodes":[]}';; "config dump"*) echo '[]';;
        "pg dump"*) cat pg-dump.json;; features*) echo '{}';;
        "balancer status"*) echo '{"active":false,"mode":"none"}';;
        "osd pg-upmap"*) touch begun; sleep 2; touch ended;;
        esac"#;
    program(folder.path(), "ceph", answers);
    let args = ["balance", "ceph", "--pool", "bench", "--apply", "--patience", "1"];
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
    let mut command = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
    command.current_dir(folder.path()).env("PATH", &path).args(args).stdout(Stdio::null());
    let mut first = command.spawn().unwrap();
    while !folder.path().join("begun").exists() {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    first.kill().unwrap();
    first.wait().unwrap();
    assert!(!folder.path().join("ended").exists());
    // Nothing ever changes here, so that it stops; but it began after the other's end.
    program(folder.path(), "ceph", &format!("test -e ended || exit 7\n{answers}"));
    let output = evenkeel(folder.path(), &["--pool", "bench", "--apply", "--patience", "1"]);
    let told = text(&output.stderr);
    assert!(told.contains("stopped after 0 of"), "{told}");
}

/// A `ceph` command that hangs, refuses, prints something else or is not there.
#[test]
fn a_ceph_command_that_misbehaves() {
    for (script, told) in [
        ("sleep 60", "did not answer in 1 s"),
        ("echo 'Error EACCES: access denied' >&2; exit 13", "changes take mon 'allow rw'"),
        ("echo 'error calling conf_read_file' >&2; exit 1", "name the cluster's configuration with --conf"),
        ("echo '{\"pg_stats\":['", "not what Ceph prints as JSON"),
        ("exit 0", "not what Ceph prints as JSON"),
        ("echo nothing >&2; kill -9 $$", "failed: nothing"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        program(folder.path(), "ceph", script);
        let output = evenkeel(folder.path(), &["--patience", "1"]);
        assert_eq!(output.status.code(), Some(2), "{script}");
        assert!(text(&output.stderr).contains(told), "{script}: {}", text(&output.stderr));
    }
}
