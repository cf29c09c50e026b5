//! `put`, `ls`, `stat`, `rm`, `status` and `maintain` on nodes that run as a process.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use super::node::Serving;
use super::{assert_refused, evenkeel, json, names_in, printed, stderr, stdout, summary};

/// A cluster of three nodes, and files to write.
fn start(folder: &Path) -> Serving {
    let up = Serving::start(&["up", "--nodes", "3", "--data", "nodes", "--json"], folder);
    fs::create_dir_all(folder.join("files/sub")).unwrap();
    for (name, n) in [("empty", 0), ("few", 3), ("many", 100_000), ("sub/more", 40_000)] {
        let lines: Vec<String> = (0..n).map(|n| format!("{n}\n")).collect();
        fs::write(folder.join("files").join(name), lines.concat()).unwrap();
    }
    up
}

/// The arguments with the cluster file.
fn on<'a>(args: &[&'a str]) -> Vec<&'a str> {
    [&args[..1], &["--cluster", "nodes/cluster.toml"], &args[1..]].concat()
}

#[test]
fn files_go_in_and_come_out() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let _up = start(at);
    let put = ["put", "--json", "--piece", "100KiB", "--placement", "hdfs-random", "files", "keel://data/a/"];
    let first = json(&on(&put), at);
    let figures = |summary: &Value, names: &[&str]| -> Vec<u64> {
        names.iter().map(|name| summary[*name].as_u64().unwrap()).collect()
    };
    assert_eq!(figures(&first, &["format", "objects", "kept", "failed", "left_behind"]), [1, 4, 0, 0, 0]);
    let again = json(&on(&put), at);
    assert_eq!(figures(&again, &["objects", "bytes", "kept", "failed"]), [0, 0, 4, 0]);
    assert_eq!(printed(&on(&["ls", "keel://data/"]), at), "a/empty\na/few\na/many\na/sub/more\n");
    let line = printed(&on(&["ls", "-l", "keel://data/a/many"]), at);
    assert!(line.contains("589 kB") && line.ends_with("  a/many\n"), "{line}");
    let many: Value =
        serde_json::from_str(printed(&on(&["ls", "--json", "keel://data/a/many"]), at).trim()).unwrap();
    assert_eq!((&many["pieces"], &many["redirected"]), (&Value::from(6), &Value::from(true)));

    let stat = json(&on(&["stat", "--json", "keel://data/a/many"]), at);
    assert_eq!(stat["entries"][0]["pieces"].as_array().unwrap().len(), 6);
    assert!(printed(&on(&["stat", "keel://data/a/few"]), at).contains("home s"));
    let get = summary(&on(&["get", "--json", "keel://data/a/", "copy"]), at);
    assert_eq!(figures(&get, &["objects", "failed", "unverified"]), [4, 0, 0]);
    for name in ["empty", "few", "many", "sub/more"] {
        assert_eq!(
            fs::read(at.join("copy").join(name)).unwrap(),
            fs::read(at.join("files").join(name)).unwrap()
        );
    }
    assert!(
        printed(&on(&["locate", "keel://data/a/", "--out", "-"]), at).starts_with("client,bytes,replicas")
    );

    // Other content needs a word more.
    fs::write(at.join("files/few"), "other\n").unwrap();
    let refused = evenkeel(&on(&["put", "files", "keel://data/a/"]), at);
    assert_eq!(refused.status.code(), Some(1));
    assert!(stdout(&refused).contains("a/few: there is another object"), "{}", stdout(&refused));
    let one = json(&on(&["put", "--json", "--overwrite", "files/few", "keel://data/a/few"]), at);
    assert_eq!(figures(&one, &["objects", "bytes", "kept"]), [1, 6, 0]);

    let status = json(&on(&["status", "--json", "keel://data/"]), at);
    assert_eq!(status["content"]["objects"], 4);
    assert!(status["servers"].as_array().unwrap().iter().all(|server| server["up"] == true));
    assert!(printed(&on(&["status"]), at).contains("server  state"));
    let maintained = summary(&on(&["maintain", "--json", "keel://data/", "--grace", "0"]), at);
    assert_eq!(figures(&maintained, &["failed", "left", "orphans"]), [0, 0, 0]);
    let nothing = summary(&on(&["maintain", "--json", "--dry-run", "keel://data/", "--grace", "0"]), at);
    assert_eq!(figures(&nothing, &["home", "pieces", "orphans"]), [0, 0, 0]);

    let everything = summary(&on(&["maintain", "--json", "--dry-run", "keel://", "--grace", "0"]), at);
    assert_eq!(figures(&everything, &["home", "pieces", "orphans", "failed"]), [0, 0, 0, 0]);

    // A part of an object, and zeros before it.
    let written = json(&on(&["put", "--offset", "5", "--json", "files/few", "keel://other/part"]), at);
    assert_eq!(figures(&written, &["objects"]), [1]);
    printed(&on(&["get", "keel://other/part", "parts"]), at);
    assert_eq!(fs::read(at.join("parts/part")).unwrap(), b"\0\0\0\0\0other\n");
    let refused = evenkeel(&on(&["put", "--offset", "5", "files", "keel://other/"]), at);
    assert!(stderr(&refused).contains("--offset writes one file"), "{}", stderr(&refused));

    // A prefix goes only if that is said.
    let refused = evenkeel(&on(&["rm", "keel://data/a/"]), at);
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("--recursive"), "{}", stderr(&refused));
    let shown = printed(&on(&["rm", "-r", "--dry-run", "keel://data/a/sub"]), at);
    assert!(shown.starts_with("a/sub/more\n"), "{shown}");
    assert_eq!(evenkeel(&on(&["rm", "keel://data/a/none"]), at).status.code(), Some(1));
    printed(&on(&["rm", "keel://data/a/few"]), at);
    let removed = json(&on(&["rm", "-r", "--json", "keel://data/"]), at);
    assert_eq!(figures(&removed, &["objects", "failed", "left_behind"]), [3, 0, 0]);
    assert_eq!(printed(&on(&["ls", "keel://data/"]), at), "");
    assert_eq!(evenkeel(&on(&["stat", "keel://data/a/few"]), at).status.code(), Some(1));
}

#[test]
fn standard_input_is_an_object() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let _up = start(at);
    let temporary = at.join("temporary");
    fs::create_dir(&temporary).unwrap();
    let put = |from: Stdio, more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
        let args =
            [&["put", "--json", "--piece", "100KiB", "--placement", "hdfs-random", "-"], more].concat();
        command.args(on(&args)).current_dir(at).env("TMPDIR", &temporary).stdin(from).output().unwrap()
    };
    let told = |output: &Output| -> Value { serde_json::from_slice(&output.stdout).unwrap() };
    for (name, n_pieces) in [("empty", None), ("few", None), ("many", Some(6))] {
        let key = format!("keel://data/in/{name}");
        let file = || Stdio::from(File::open(at.join("files").join(name)).unwrap());
        let first = put(file(), &[&key]);
        assert!(first.status.success(), "{}", stderr(&first));
        assert_eq!(told(&first)["objects"], 1);
        assert_eq!(told(&put(file(), &[&key]))["kept"], 1, "the same is not written again");
        let pieces =
            json(&on(&["stat", "--json", &key]), at)["entries"][0]["pieces"].as_array().map(Vec::len);
        assert!(n_pieces.is_none() || pieces == n_pieces, "{name}: {pieces:?}");
    }
    let other = put(Stdio::null(), &["keel://data/in/many"]);
    assert!(stdout(&other).contains("--overwrite"), "{}", stdout(&other));
    let _ = summary(&on(&["get", "--json", "keel://data/in/", "back"]), at);
    for name in ["empty", "few", "many"] {
        assert_eq!(
            fs::read(at.join("back").join(name)).unwrap(),
            fs::read(at.join("files").join(name)).unwrap()
        );
    }
    for wrong in [&["keel://data/in/"][..], &["files/few", "keel://data/in/"]] {
        let refused = put(Stdio::null(), wrong);
        assert_eq!(refused.status.code(), Some(2));
        assert!(stderr(&refused).contains("standard input is one object"), "{}", stderr(&refused));
    }
    assert_eq!(names_in(&temporary), [""; 0]);
}

#[test]
fn what_was_learnt_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let _up = start(at);
    for placement in ["mlml", "trh", "nltr:1", "rr", "two-choice"] {
        let to = format!("keel://data/{}/", placement.replace(':', "-"));
        let put = ["put", "--placement", placement, "--log", "learnt.json", "files", &to];
        let told = printed(&on(&put), at);
        assert!(told.contains("4 objects") && told.contains("one transfer"), "{told}");
    }
    let learnt: Value = serde_json::from_str(&fs::read_to_string(at.join("learnt.json")).unwrap()).unwrap();
    assert_eq!(learnt["servers"].as_object().unwrap().len(), 3);
    fs::write(at.join("learnt.json"), "{}").unwrap();
    let refused = evenkeel(&on(&["put", "--log", "learnt.json", "files", "keel://data/x/"]), at);
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("learnt.json: it is no log"), "{}", stderr(&refused));
}

#[test]
fn what_cannot_be_meant_is_refused() {
    let cluster = b"format = 1\ncredentials = \"env:NOBODY_HAS\"\n[[server]]\nname = \"s1\"\nendpoint = \"http://127.0.0.1:1\"\n";
    let files: &[(&str, &[u8])] = &[("c.toml", cluster), ("a", b"1"), ("b", b"2")];
    let cases: [(&[&str], &str); 8] = [
        (&["put", "a", "s3://data/x", "--cluster", "c.toml"], "keel://bucket/key"),
        (&["put", "a", "keel://data/x", "--cluster", "none.toml"], "cannot read none.toml"),
        (&["put", "a", "keel://data/x", "--cluster", "c.toml"], "NOBODY_HAS_ACCESS_KEY is not set"),
        (&["put", "a", "keel://data/x", "--placement", "best"], "there is no placement `best`"),
        (&["put", "a", "keel://data/x", "--placement", "rr:2"], "has no levels"),
        (&["ls", "keel://Data/"], "has no bucket"),
        (&["rm", "keel://data/.evenkeel/held/x"], "not for objects of users"),
        (&["status"], "EVENKEEL_CLUSTER"),
    ];
    for (args, word) in cases {
        let folder = tempfile::tempdir().unwrap();
        files.iter().for_each(|(name, text)| fs::write(folder.path().join(name), text).unwrap());
        let refused = evenkeel(args, folder.path());
        assert_eq!(refused.status.code(), Some(2), "{args:?}: {}", stderr(&refused));
        assert!(stderr(&refused).contains(word), "{args:?}: {}", stderr(&refused));
        assert_eq!(names_in(folder.path()), ["a", "b", "c.toml"]);
    }
    assert_refused(&[], &["get", "keel://data/x", "to"], &["EVENKEEL_CLUSTER"]);
}
