//! `evenkeel get` from an HDFS whose DataNodes fail now and then, and from one that has lost a file meanwhile.

use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::namenode::{Cluster, refusal};
use super::serve::{Reply, Request};
use super::{evenkeel, json, stderr, stdout};

fn data(n: u32) -> Vec<u8> {
    (0..n).flat_map(|k| k.wrapping_mul(2_654_435_761).to_le_bytes()).collect()
}

/// Connections that break, lost blocks, busy servers: all of it arrives in the end.
#[test]
fn datanodes_may_fail() {
    let n_asked = AtomicUsize::new(0);
    let fails = move |request: &Request| match n_asked.fetch_add(1, Ordering::Relaxed) % 8 {
        1 => Some(Reply { claimed: request.query["length"].parse().ok(), ..Reply::new(200, "") }),
        3 => Some(refusal(403, "BlockMissingException")),
        5 => Some(Reply::new(503, "").with("Retry-After", "0")),
        _ => None,
    };
    let cluster = Cluster::with_tricks(true, |_| None, fails);
    let files = [("a b", data(100_000)), ("c/%+#ü", data(7)), ("c/d", data(30_001))];
    for (name, data) in &files {
        cluster.put(&format!("some/{name}"), data);
    }
    let folder = tempfile::tempdir().unwrap();
    let summary = evenkeel(&["get", &cluster.address("some"), "to", "--json"], folder.path());
    let last = stdout(&summary);
    let last: serde_json::Value = serde_json::from_str(last.lines().last().unwrap()).unwrap();
    assert_eq!((&last["failed"], &last["objects"]), (&0.into(), &3.into()), "{last} {}", stderr(&summary));
    for (name, data) in &files {
        assert!(fs::read(folder.path().join("to").join(name)).unwrap() == *data, "{name}");
    }
}

/// A file that is gone when it is read is missing, and the others arrive.
#[test]
fn files_may_vanish() {
    let vanished = |request: &Request| {
        let is_it = request.path.ends_with("/16386") || request.path.ends_with("some/gone");
        let is_asked = request.query.get("op").is_some_and(|op| op == "OPEN" || op == "GETFILESTATUS");
        (is_it && is_asked).then(|| refusal(404, "FileNotFoundException"))
    };
    let cluster = Cluster::with_tricks(true, vanished, vanished);
    cluster.put("some/gone", &data(100));
    cluster.put("some/kept", &data(100));
    let folder = tempfile::tempdir().unwrap();
    let got = evenkeel(&["get", &cluster.address("some"), "to"], folder.path());
    assert_eq!(got.status.code(), Some(1), "{}", stderr(&got));
    assert!(format!("{}{}", stdout(&got), stderr(&got)).contains("gone"));
    assert_eq!(fs::read(folder.path().join("to/kept")).unwrap(), data(100));
    assert!(!folder.path().join("to/gone").exists());
    let located = json(&["locate", &cluster.address("some"), "--json", "--out", "b.csv"], folder.path());
    assert_eq!(located["requests"], 2);
}
