//! `node` and `up` as processes: what they print, what they refuse, and how they stop.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use evenkeel_store::cluster::Cluster;
use evenkeel_store::{Endpoint, Payload};
use serde_json::Value;

use super::{assert_refused, evenkeel, names_in, stderr};

/// A process that serves, and the line that it prints first.
pub(super) struct Serving {
    child: Child,
    said: String,
}

impl Serving {
    pub(super) fn start(args: &[&str], folder: &Path) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_evenkeel"))
            .args(args)
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = String::new();
        let _ = BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut said).unwrap();
        Self { child, said }
    }

    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.said).unwrap()
    }

    /// Ends it as systemd does, and returns its exit status and what it said on standard error.
    fn stop(mut self) -> (Option<i32>, String) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").arg(&id).status().unwrap().success());
        let status = self.child.wait().unwrap();
        let mut said = String::new();
        let _ = self.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        (status.code(), said)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap()
}

#[test]
fn a_cluster_comes_up_and_is_there_again() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let args = ["up", "--nodes", "2", "--data", "c", "--speed", "s2=10MB/s", "--json", "--log", "json"];
    let up = Serving::start(&args, at);
    let told = up.json();
    assert_eq!((&told["format"], told["endpoints"].as_array().unwrap().len()), (&Value::from(1), 2));
    let cluster = Cluster::read(&at.join(text(&told, "cluster"))).unwrap();
    assert_eq!((cluster.servers[1].name.as_str(), cluster.servers[1].speed_millionths), ("s2", 100_000));
    let first = told["endpoints"][0].as_str().unwrap();
    let endpoint = Endpoint::new(first, text(&told, "access_key"), text(&told, "secret_key")).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        endpoint.create_bucket("bkt").await.unwrap();
        let bytes = Payload::Bytes("kept".into());
        #[allow(clippy::default_trait_access)] // the type is one of another crate
        let _ = endpoint.put("bkt", "k", Default::default(), bytes).await.unwrap();
    });
    let (status, said) = up.stop();
    assert_eq!(status, Some(0));
    assert_eq!(said.lines().count(), 2, "{said}");
    let line: Value = serde_json::from_str(said.lines().last().unwrap()).unwrap();
    assert_eq!(
        (text(&line, "method"), text(&line, "path"), &line["status"]),
        ("PUT", "/bkt/k", &Value::from(200))
    );
    assert!(!said.contains(text(&told, "secret_key")));

    let again = Serving::start(&["up", "--data", "c", "--json"], at);
    assert_eq!(again.json(), told, "ports and keys are kept");
    runtime.block_on(async { endpoint.head("bkt", "k").await.unwrap() });
    let third = evenkeel(&["up", "--data", "c"], at);
    assert_eq!(third.status.code(), Some(2), "{}", stderr(&third));
    assert!(stderr(&third).contains("name another address"), "{}", stderr(&third));
    drop(again);
    assert_eq!(names_in(&at.join("c")), ["cluster.toml", "credentials", "s1", "s2"]);
}

#[test]
fn a_node_serves_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let args = ["node", "--data", "d", "--listen", "127.0.0.1:0", "--control", "127.0.0.1:0", "--json"];
    let node = Serving::start(&args, at);
    let told = node.json();
    assert_eq!(text(&told, "name"), "s1");
    assert!(text(&told, "endpoint").starts_with("http://127.0.0.1:"));
    let second = evenkeel(&args, at);
    assert!(stderr(&second).contains("in use by another node"), "{}", stderr(&second));
    assert_eq!(node.stop(), (Some(0), String::new()));
}

#[test]
fn what_cannot_be_served_is_refused() {
    let cases: &[(&[&str], &str)] = &[
        (&["node", "--data", "d", "--listen", "0.0.0.0:0"], "--credentials FILE"),
        (&["node", "--data", "d", "--cluster", "cluster.toml", "--name", "s9"], "no server `s9`"),
        (&["up", "--data", "d", "--nodes", "2", "--speed", "s3=0.1", "--port", "65535"], "enough ports"),
    ];
    let cluster = "format = 1\n[[server]]\nname = \"s1\"\nendpoint = \"http://127.0.0.1:1\"\n";
    for (args, word) in cases.iter().take(2) {
        assert_refused(&[("cluster.toml", cluster.as_bytes())], args, &[word]);
    }
    let folder = tempfile::tempdir().unwrap();
    let refused = evenkeel(cases[2].0, folder.path());
    assert!(stderr(&refused).contains(cases[2].1), "{}", stderr(&refused));
    for speed in ["s3", "=1", "s3=fast", "s3=0", "s3=-1"] {
        let refused = evenkeel(&["up", "--data", "d", "--speed", speed], folder.path());
        assert_eq!(refused.status.code(), Some(2), "{speed}");
    }
}
