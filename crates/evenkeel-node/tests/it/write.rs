//! Writes into clusters of real nodes: what is written is read, whoever holds it and whatever fails.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use evenkeel_node::node::Upkeep;
use evenkeel_node::node::store::folder::{self, Folder};
use evenkeel_node::node::up::{Up, UpSettings};
use evenkeel_node::write::{
    Item, Maintained, Maintaining, Placement, PutOptions, PutReport, maintain, put, remove,
};
use evenkeel_node::{Options, get};
use evenkeel_store::cluster::{Cluster, Held, Keel, Redirect, Servers};
use evenkeel_store::{Catalogue, Payload, Problem, Source, StoreError, Trust};
use futures_util::{StreamExt, stream};
use hyper::Method;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::watch;

use super::noise;

pub(crate) const BUCKET: &str = "data";

/// Nodes, and the folder that they live in.
pub(crate) struct Nodes {
    pub(crate) folder: TempDir,
    pub(crate) up: Option<Up>,
    pub(crate) cluster: Cluster,
    pub(crate) servers: Arc<Servers>,
}

impl Nodes {
    pub(crate) fn start(n: u32) -> Self {
        Self::start_with(n, None)
    }

    /// Nodes that maintain themselves so.
    pub(crate) fn start_with(n: u32, upkeep: Option<Upkeep>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let up = up_with(&UpSettings { upkeep, ..settings(folder.path(), Some(n)) });
        let cluster = Cluster::read(up.cluster()).unwrap();
        let servers = Arc::new(Servers::open(&cluster).unwrap());
        Self { folder, up: Some(up), cluster, servers }
    }

    /// Stops a node; the others go on.
    async fn stop(&mut self, server: usize) {
        // Its port refuses whoever comes.
        let up = self.up.take().unwrap();
        up.stop(Duration::from_secs(5)).await;
        let name = &self.cluster.servers[server].name;
        let text = std::fs::read_to_string(self.folder.path().join("cluster.toml")).unwrap();
        let others: Vec<_> =
            self.cluster.servers.iter().filter(|other| other.name != *name).cloned().collect();
        let path = self.folder.path().join("cluster.toml");
        std::fs::write(&path, evenkeel_store::cluster::write(&others, "credentials")).unwrap();
        self.up = Some(up_again(self.folder.path()));
        std::fs::write(&path, text).unwrap();
    }

    /// Stops all nodes, and starts them again on what they have.
    pub(crate) async fn restart(&mut self) {
        self.up.take().unwrap().stop(Duration::from_secs(5)).await;
        self.up = Some(up_again(self.folder.path()));
    }

    /// Makes a node slow.
    pub(crate) async fn slow_down(&self, server: usize, bytes_per_second: u64) {
        let control = self.servers.all()[server].control.as_ref().unwrap();
        let what = json!({"bytes_per_second": bytes_per_second});
        let _: Value = control.say(Method::POST, "v1/settings", Some(&what)).await.unwrap();
    }

    pub(crate) async fn put(&self, items: &BTreeMap<String, Vec<u8>>, options: &PutOptions) -> PutReport {
        let items: Vec<Item> = items
            .iter()
            .map(|(key, data)| Item { key: key.clone(), content: Arc::new(Bytes::from(data.clone())) })
            .collect();
        let (_stop, stopped) = watch::channel(false);
        let servers = Arc::clone(&self.servers);
        put(servers, BUCKET, stream::iter(items), options, stopped, &mut |_| {}).await.unwrap()
    }

    fn keel(&self, prefix: &str) -> Box<dyn Source> {
        Box::new(Keel::new(&self.cluster, &format!("keel://{BUCKET}/{prefix}")).unwrap())
    }

    async fn catalogue(&self) -> Catalogue {
        Catalogue::of_mirrors(vec![self.keel("")], Trust::Checksums).await.unwrap()
    }

    /// Reads all with `get`, and compares.
    pub(crate) async fn assert_reads(&self, items: &BTreeMap<String, Vec<u8>>) {
        let to = tempfile::tempdir().unwrap();
        let (_stop, stopped) = watch::channel(false);
        let catalogue = Arc::new(self.catalogue().await);
        assert_eq!(catalogue.n_objects(), items.len(), "{:?}", catalogue.unreadable());
        let report = get(catalogue, to.path(), &Options::default(), stopped, &mut |_| {}).await.unwrap();
        assert_eq!((report.failures, report.n_unverified), (Vec::new(), 0));
        for (key, data) in items {
            assert!(std::fs::read(to.path().join(key)).unwrap() == *data, "{key}");
        }
    }

    /// Says something to the control port of a node.
    pub(crate) async fn say(
        &self,
        server: usize,
        method: Method,
        path: &str,
        what: &Value,
    ) -> Result<Value, StoreError> {
        let what = Some(what).filter(|what| !what.is_null());
        self.servers.all()[server].control.as_ref().unwrap().say(method, path, what).await
    }

    /// All pieces that servers hold for others.
    pub(crate) async fn held(&self) -> Vec<(String, String)> {
        let mut held = Vec::new();
        for server in self.servers.all() {
            let page = server.endpoint.list(BUCKET, ".evenkeel/held/", None).await;
            let objects = page.map(|page| page.objects).unwrap_or_default();
            held.extend(objects.into_iter().map(|object| (server.name.clone(), object.key)));
        }
        held
    }

    pub(crate) async fn maintain(&self, apply: bool, grace: Duration) -> Maintained {
        let how = Maintaining { prefix: String::new(), replicas: 1, apply, rate: None, grace };
        let (_stop, stopped) = watch::channel(false);
        maintain(Arc::clone(&self.servers), BUCKET, &how, stopped, &mut |_| {}).await.unwrap()
    }

    /// The object as a plain S3 client reads it at its home.
    pub(crate) async fn plain(&self, key: &str) -> Result<Vec<u8>, StoreError> {
        let home = self.servers.homes(BUCKET, key, 1)[0];
        let endpoint = &self.servers.all()[home].endpoint;
        let (_, mut body) = endpoint.get(BUCKET, key, None, HeaderMap::new()).await?;
        let mut all = Vec::new();
        while let Some(chunk) = body.next().await {
            all.extend_from_slice(&chunk?);
        }
        Ok(all)
    }
}

fn settings(folder: &Path, nodes: Option<u32>) -> UpSettings {
    UpSettings {
        nodes,
        folder: folder.to_owned(),
        port: None,
        speeds: BTreeMap::new(),
        slots: 16,
        upkeep: None,
        logs: false,
    }
}

fn up(folder: &Path, nodes: Option<u32>) -> Up {
    up_with(&settings(folder, nodes))
}

fn up_with(settings: &UpSettings) -> Up {
    Up::start(settings, |path| Ok(Arc::new(Folder::open(path, folder::Options::default())?))).unwrap()
}

fn up_again(folder: &Path) -> Up {
    up(folder, None)
}

pub(crate) fn options(placement: &str) -> PutOptions {
    PutOptions { piece_bytes: 100_000, seed: 7, ..PutOptions::new(placement.parse::<Placement>().unwrap()) }
}

/// Objects of all sizes, none and several pieces among them.
pub(crate) fn objects(seed: u64, n: u64) -> BTreeMap<String, Vec<u8>> {
    let size = |n: u64| match n % 8 {
        0 => 0,
        1 => 100_000,
        2 => 100_001,
        3 => 1_234_567,
        _ => (n * 7919 % 90_000) as usize,
    };
    (0..n).map(|n| (format!("d{}/o {n}ä", n % 3), noise(seed + n, size(n)))).collect()
}

const POLICIES: [&str; 7] = ["rr", "mlml", "trh", "nltr:2", "two-choice", "hm-lru", "hdfs-random"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_written_is_read() {
    for placement in POLICIES {
        let nodes = Nodes::start(4);
        let all = objects(1, 40);
        let report = nodes.put(&all, &PutOptions { threshold_bytes: 0, ..options(placement) }).await;
        assert_eq!(report.failures, [], "{placement}");
        let bytes: usize = all.values().map(Vec::len).sum();
        assert_eq!((report.n_written, report.bytes), (40, bytes as u64), "{placement}");
        assert_eq!(report.servers.iter().map(|server| server.bytes).sum::<u64>(), bytes as u64);
        assert_eq!(report.n_probes > 0, placement == "two-choice");
        nodes.assert_reads(&all).await;
        for (key, data) in &all {
            assert!(nodes.plain(key).await.unwrap() == *data, "{key}: a plain client reads it at home");
        }
        // The same again: nothing to do.
        let again = nodes.put(&all, &options(placement)).await;
        assert_eq!((again.n_written, again.n_kept, again.failures.len()), (0, 40, 0), "{placement}");
        let maintained = nodes.maintain(true, Duration::ZERO).await;
        assert_eq!((maintained.n_failed, maintained.n_left_alone), (0, 0), "{placement}");
        nodes.assert_reads(&all).await;
        let n_pieces: usize = all.values().map(|data| data.len().div_ceil(100_000)).filter(|n| *n > 1).sum();
        assert_eq!(nodes.held().await.len(), n_pieces, "{placement}: only large objects are in pieces");
        let maintained = nodes.maintain(true, Duration::ZERO).await;
        assert_eq!(maintained, Maintained::default(), "{placement}: everything is where it belongs");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_content_is_refused_or_replaced() {
    let nodes = Nodes::start(3);
    let (old, new) = (objects(1, 24), objects(100, 24));
    let away = PutOptions { threshold_bytes: 0, ..options("hdfs-random") };
    nodes.put(&old, &away).await;
    let refused = nodes.put(&new, &away).await;
    // Those of no bytes are the same.
    assert_eq!((refused.n_kept, refused.failures.len()), (3, 21));
    assert!(refused.failures[0].why.contains("--overwrite"), "{:?}", refused.failures[0]);
    nodes.assert_reads(&old).await;
    let replaced = nodes.put(&new, &PutOptions { overwrite: true, ..away }).await;
    assert_eq!((replaced.n_written, replaced.failures.len(), replaced.n_left_behind), (21, 0, 0));
    nodes.assert_reads(&new).await;
    // Nothing of the old objects is left.
    nodes.maintain(false, Duration::ZERO).await;
    assert_eq!(nodes.maintain(false, Duration::ZERO).await.n_orphans, 0);
    for key in new.keys() {
        let removed = remove(&nodes.servers, BUCKET, key, 1).await.unwrap();
        assert!(removed.existed && removed.n_left_behind == 0 && removed.bytes == new[key].len() as u64);
        assert!(!remove(&nodes.servers, BUCKET, key, 1).await.unwrap().existed);
    }
    assert_eq!(nodes.held().await, []);
    assert_eq!(nodes.catalogue().await.n_objects(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_server_the_others_go_on() {
    let mut nodes = Nodes::start(4);
    let all = objects(1, 60);
    nodes.put(&BTreeMap::from([("first".to_owned(), vec![1])]), &options("rr")).await;
    nodes.stop(1).await;
    let report = nodes.put(&all, &PutOptions { threshold_bytes: 0, ..options("mlml") }).await;
    let is_lost = |key: &str| nodes.servers.homes(BUCKET, key, 1)[0] == 1;
    let lost: Vec<&str> = all.keys().map(String::as_str).filter(|key| is_lost(key)).collect();
    let mut failed: Vec<&str> = report.failures.iter().map(|failure| failure.key.as_str()).collect();
    failed.sort_unstable();
    let mut expected = lost.clone();
    expected.sort_unstable();
    assert_eq!(failed, expected);
    assert!(lost.len() > 3 && report.failures[0].why.contains("home s2"), "{:?}", report.failures[0]);
    assert_eq!(report.n_written as usize, all.len() - lost.len());
    // Who lists says what is missing.
    let catalogue = nodes.catalogue().await;
    assert!(catalogue.unreadable().iter().any(|missing| missing.key.contains("s2")));
    assert!(remove(&nodes.servers, BUCKET, lost[0], 1).await.is_err());
    for (key, data) in all.iter().filter(|(key, _)| !lost.contains(&key.as_str())) {
        assert!(nodes.plain(key).await.unwrap() == *data);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_server_gets_little() {
    let mut bytes_of_slow = BTreeMap::new();
    for placement in ["rr", "mlml", "trh", "nltr"] {
        let nodes = Nodes::start(4);
        nodes.slow_down(2, 3_000_000).await;
        let all: BTreeMap<String, Vec<u8>> = (0..64).map(|n| (format!("o{n}"), noise(n, 500_000))).collect();
        let options = PutOptions { piece_bytes: 1 << 20, threshold_bytes: 100_000, ..options(placement) };
        let report = nodes.put(&all, &options).await;
        assert_eq!(report.failures, []);
        bytes_of_slow.insert(placement, report.servers[2].bytes);
        nodes.slow_down(2, 0).await;
        nodes.assert_reads(&all).await;
    }
    for placement in ["mlml", "trh", "nltr"] {
        assert!(bytes_of_slow[placement] * 3 < bytes_of_slow["rr"], "{bytes_of_slow:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn copies_are_at_servers_of_their_own() {
    let mut nodes = Nodes::start(4);
    let all = objects(5, 24);
    for placement in ["mlml", "hdfs-random"] {
        let options = PutOptions {
            replicas: 2,
            threshold_bytes: 0,
            overwrite: placement == "hdfs-random",
            ..options(placement)
        };
        let report = nodes.put(&all, &options).await;
        assert_eq!(report.failures, []);
    }
    let catalogue = nodes.catalogue().await;
    for object in catalogue.objects() {
        for cut in catalogue.cuts(&object).windows(2) {
            let servers = catalogue.servers_of(&object, &(cut[0]..cut[1]));
            assert_eq!(servers.len(), 2, "{}", object.key);
        }
    }
    nodes.assert_reads(&all).await;
    // With two copies nothing is lost with one server.
    nodes.cluster.replicas = 2;
    nodes.servers = Arc::new(Servers::open(&nodes.cluster).unwrap());
    nodes.stop(0).await;
    nodes.assert_reads(&all).await;
}

/// Whatever says that it is a redirect is not believed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_redirects_are_errors() {
    let nodes = Nodes::start(2);
    nodes.put(&BTreeMap::from([("first".to_owned(), noise(1, 10))]), &options("rr")).await;
    let held = |server: &str, bytes| Held {
        server: server.to_owned(),
        key: ".evenkeel/held/00/0".to_owned(),
        bytes,
        crc32c: 7,
    };
    let redirect = |server, bytes| Redirect::new("e".to_owned(), vec![held(server, bytes)]).to_json();
    let lie = String::from_utf8(redirect("s1", 5)).unwrap().replacen("\"bytes\":5", "\"bytes\":6", 1);
    let deep = "[".repeat(100_000);
    let bodies = [
        ("json", b"{\"format\":1".to_vec()),
        ("deep", deep.into_bytes()),
        ("unknown", redirect("s9", 5)),
        ("lie", lie.into_bytes()),
        ("missing", redirect("s1", 5)),
        ("huge", redirect("s2", u64::MAX)),
    ];
    for (key, body) in &bodies {
        let home = nodes.servers.homes(BUCKET, key, 1)[0];
        let mut headers = HeaderMap::new();
        for (name, value) in [("redirect", "1"), ("bytes", "5"), ("etag", "e")] {
            let name = HeaderName::try_from(format!("x-amz-meta-evenkeel-{name}")).unwrap();
            headers.insert(name, HeaderValue::from_static(value));
        }
        let endpoint = &nodes.servers.all()[home].endpoint;
        let what = Payload::Bytes(Bytes::from(body.clone()));
        match endpoint.put(BUCKET, key, headers, what).await {
            Ok(_) | Err(StoreError { problem: Problem::Unsupported(_), .. }) => {}
            Err(error) => panic!("{key}: {error}"),
        }
    }
    let catalogue = nodes.catalogue().await;
    let to = tempfile::tempdir().unwrap();
    let (_stop, stopped) = watch::channel(false);
    let quick = Options { patience: Duration::from_secs(1), ..Options::default() };
    let report = get(Arc::new(catalogue), to.path(), &quick, stopped, &mut |_| {}).await;
    assert!(report.is_ok(), "{report:?}");
    if let Ok(report) = report {
        let failed: Vec<&str> = report.failures.iter().map(|failure| failure.key.as_str()).collect();
        assert!(!failed.contains(&"first"), "{failed:?}");
    }
    assert_eq!(std::fs::read(to.path().join("first")).unwrap(), noise(1, 10));
    nodes.maintain(true, Duration::ZERO).await;
    // What is damaged can be replaced and removed.
    for (key, _) in &bodies[..3] {
        let item = BTreeMap::from([((*key).to_owned(), noise(3, 20))]);
        let report = nodes.put(&item, &PutOptions { overwrite: true, ..options("rr") }).await;
        assert_eq!(report.failures, [], "{key}");
        assert_eq!(nodes.plain(key).await.unwrap(), noise(3, 20));
    }
    for (key, _) in &bodies[3..] {
        let _ = remove(&nodes.servers, BUCKET, key, 1).await;
    }
}

/// An entry that names the pieces of another object takes nothing with it when it goes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_entry_that_lies_takes_nothing_with_it() {
    let nodes = Nodes::start(2);
    let victim = BTreeMap::from([("victim".to_owned(), noise(1, 250_000))]);
    nodes.put(&victim, &options("rr")).await;
    let home = nodes.servers.homes(BUCKET, "victim", 1)[0];
    let redirect = nodes.servers.redirect(home, BUCKET, "victim").await.unwrap();
    let mut headers = HeaderMap::new();
    for (name, value) in redirect.metadata() {
        let name = HeaderName::try_from(format!("x-amz-meta-{name}")).unwrap();
        headers.insert(name, HeaderValue::try_from(value).unwrap());
    }
    let home = nodes.servers.homes(BUCKET, "liar", 1)[0];
    let what = Payload::Bytes(redirect.to_json().into());
    nodes.servers.all()[home].endpoint.put(BUCKET, "liar", headers, what).await.unwrap();
    assert!(remove(&nodes.servers, BUCKET, "liar", 1).await.unwrap().existed);
    nodes.assert_reads(&victim).await;
}

/// A cluster file that takes one node for another is found out before anything is written there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_of_other_names_get_nothing() {
    let mut nodes = Nodes::start(3);
    let names: Vec<String> = nodes.cluster.servers.iter().map(|server| server.name.clone()).collect();
    nodes.cluster.servers[0].name.clone_from(&names[1]);
    nodes.cluster.servers[1].name.clone_from(&names[0]);
    nodes.servers = Arc::new(Servers::open(&nodes.cluster).unwrap());
    let all = objects(1, 24);
    let report = nodes.put(&all, &options("rr")).await;
    let at_third = |key: &str, bytes: usize| bytes <= 100_000 && nodes.servers.homes(BUCKET, key, 1)[0] == 2;
    let n_written = all.iter().filter(|(key, data)| at_third(key, data.len())).count() as u64;
    assert!(n_written > 0 && report.n_written >= n_written, "the third goes on: {report:?}");
    assert!(report.failures.len() > 3, "{report:?}");
    let why = &report.failures[0].why;
    assert!(why.contains("calls itself `s1`") || why.contains("calls itself `s2`"), "{why}");
    for server in &nodes.servers.all()[..2] {
        assert!(!server.endpoint.has_bucket(BUCKET).await.unwrap(), "{}", server.name);
    }
}

/// Servers of which only S3 is known: conditions are found out by a probe, redirects by looking.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plain_endpoints_will_do() {
    let mut nodes = Nodes::start(4);
    nodes.cluster.servers.iter_mut().for_each(|server| server.control = None);
    nodes.servers = Arc::new(Servers::open(&nodes.cluster).unwrap());
    let all = objects(1, 30);
    let away = PutOptions { threshold_bytes: 0, ..options("hdfs-random") };
    assert_eq!(nodes.put(&all, &away).await.failures, []);
    nodes.assert_reads(&all).await;
    assert_eq!(nodes.put(&all, &away).await.n_kept, 30);
    let shown = nodes.maintain(false, Duration::ZERO).await;
    let done = nodes.maintain(true, Duration::ZERO).await;
    assert!(shown == done && done.n_home > 5 && done.n_failed + done.n_left_alone == 0, "{done:?}");
    nodes.assert_reads(&all).await;
    assert_eq!(nodes.maintain(false, Duration::ZERO).await, Maintained::default());
    let servers = Arc::clone(&nodes.servers);
    let (_stop, stopped) = watch::channel(false);
    let none = stream::iter(Vec::<Item>::new());
    let asks = put(servers, BUCKET, none, &options("two-choice"), stopped, &mut |_| {}).await;
    assert!(asks.unwrap_err().to_string().contains("s1"));
}

/// Pieces that nothing names go once they are old enough; what does not say whose it is stays.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn orphans_are_collected() {
    let nodes = Nodes::start(2);
    let all = BTreeMap::from([("large".to_owned(), noise(1, 250_000))]);
    nodes.put(&all, &options("rr")).await;
    let endpoint = &nodes.servers.all()[0].endpoint;
    let orphan = |of: Option<&'static str>| {
        let mut headers = HeaderMap::new();
        for (name, value) in of.iter().map(|of| ("of", *of)).chain([("home", "s2")]) {
            let name = HeaderName::try_from(format!("x-amz-meta-evenkeel-{name}")).unwrap();
            headers.insert(name, HeaderValue::from_static(value));
        }
        headers
    };
    for (key, of) in [("1/0", Some("data/large")), ("2/0", Some("data/gone")), ("3/0", None)] {
        let key = format!(".evenkeel/held/{key}");
        endpoint.put(BUCKET, &key, orphan(of), Payload::Bytes("x".into())).await.unwrap();
    }
    assert_eq!(nodes.maintain(true, Duration::from_hours(1)).await.n_orphans, 0, "they are young");
    let before = nodes.held().await.len();
    let done = nodes.maintain(true, Duration::ZERO).await;
    assert_eq!((done.n_orphans, done.n_left_alone, done.n_failed), (2, 1, 0));
    assert_eq!(nodes.held().await.len(), before - 2);
    nodes.assert_reads(&all).await;
}

/// A cluster file in which servers are missing shows pieces whose homes cannot be asked: they are left alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pieces_of_homes_that_are_not_in_the_cluster_file_are_kept() {
    let mut nodes = Nodes::start(3);
    let all: BTreeMap<String, Vec<u8>> = (0..24).map(|n| (format!("large{n}"), noise(n, 250_000))).collect();
    nodes.put(&all, &options("rr")).await;
    let before = nodes.held().await;
    let everybody = Arc::clone(&nodes.servers);
    for missing in 0..3 {
        let mut fewer = nodes.cluster.clone();
        fewer.servers.remove(missing);
        nodes.servers = Arc::new(Servers::open(&fewer).unwrap());
        let done = nodes.maintain(true, Duration::ZERO).await;
        assert_eq!(done.n_orphans, 0, "without server {missing}");
        assert!(done.n_left_alone > 0, "without server {missing}");
    }
    nodes.servers = everybody;
    assert_eq!(nodes.held().await, before);
    nodes.assert_reads(&all).await;
}

/// Whoever stops a run finds what is there complete, and the same run goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_is_stopped_goes_on() {
    let nodes = Nodes::start(3);
    for server in 0..3 {
        nodes.slow_down(server, 5_000_000).await;
    }
    let all: BTreeMap<String, Vec<u8>> = (0..40).map(|n| (format!("o{n}"), noise(n, 250_000))).collect();
    let items: Vec<Item> = all
        .iter()
        .map(|(key, data)| Item { key: key.clone(), content: Arc::new(Bytes::from(data.clone())) })
        .collect();
    let (stop, stopped) = watch::channel(false);
    let mut watch = move |progress: &evenkeel_node::write::PutProgress<'_>| {
        if progress.n_objects > 3 {
            stop.send_replace(true);
        }
    };
    let servers = Arc::clone(&nodes.servers);
    let first =
        put(servers, BUCKET, stream::iter(items), &options("mlml"), stopped, &mut watch).await.unwrap();
    assert!(first.was_stopped && first.n_written > 3 && first.n_written < 40, "{first:?}");
    assert!(first.failures.iter().all(|failure| failure.why.contains("stopped")), "{first:?}");
    let n_there = nodes.catalogue().await.n_objects() as u64;
    assert_eq!(n_there, first.n_written);
    let again = nodes.put(&all, &options("mlml")).await;
    assert_eq!((again.n_kept, again.n_written, again.failures.len()), (n_there, 40 - n_there, 0));
    assert_eq!(nodes.maintain(true, Duration::ZERO).await.n_orphans, 0, "nothing is left behind");
    nodes.assert_reads(&all).await;
}
