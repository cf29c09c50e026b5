//! Nodes that maintain themselves: each what it is the home of, and only while nobody uses it.

use std::collections::BTreeMap;
use std::future::Future;
use std::time::Duration;

use evenkeel_node::node::Upkeep;
use evenkeel_node::node::gate::{Ask, Way};
use evenkeel_node::write::PutOptions;
use evenkeel_store::cluster::Stored;
use evenkeel_store::cluster::{Found, Listing};
use hyper::Method;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};

use super::noise;
use super::write::{BUCKET, Nodes, objects, options};

fn quick(is_paused: bool) -> Upkeep {
    Upkeep {
        every: Duration::from_millis(20),
        collects_every: Duration::ZERO,
        idle: Duration::from_millis(50),
        grace: Duration::from_hours(1),
        bytes_per_second: None,
        is_paused,
    }
}

async fn eventually<F: Future<Output = bool>>(what: &str, mut holds: impl FnMut() -> F) {
    for _ in 0..600 {
        if holds().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("never: {what}");
}

impl Nodes {
    async fn maintainer(&self, server: usize) -> Value {
        let status = self.say(server, Method::GET, "v1/status", &Value::Null).await.unwrap();
        status["maintainer"].clone()
    }

    async fn upkeep(&self, server: usize, what: Value) {
        self.say(server, Method::POST, "v1/settings", &json!({"maintainer": what})).await.unwrap();
    }

    /// The objects whose bytes are not at their homes, by home.
    async fn away(&self) -> BTreeMap<usize, Vec<String>> {
        let mut listing = Listing::new(self.servers.clone(), BUCKET, "");
        let mut away = BTreeMap::<usize, Vec<String>>::new();
        while let Some(page) = listing.next().await.unwrap() {
            for Found { key, at } in page {
                for at in at {
                    if let Stored::Elsewhere(redirect) = &at.stored
                        && redirect.pieces.len() == 1
                    {
                        away.entry(at.server).or_default().push(key.clone());
                    }
                }
            }
        }
        away
    }
}

fn away() -> PutOptions {
    PutOptions { threshold_bytes: 0, ..options("hdfs-random") }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_node_brings_home_what_belongs_to_it() {
    let nodes = Nodes::start_with(3, Some(quick(true)));
    let all = objects(1, 20);
    nodes.put(&all, &away()).await;
    let before = nodes.away().await;
    assert_eq!(before.len(), 3, "something of each is elsewhere: {before:?}");
    assert_eq!(nodes.maintainer(0).await["state"], "paused");

    // Only the first one works, and only on its own.
    nodes.upkeep(0, json!({"paused": false})).await;
    eventually("what belongs to s1 is home", async || !nodes.away().await.contains_key(&0)).await;
    let mut others = before.clone();
    let n_own = others.remove(&0).unwrap().len();
    assert_eq!(nodes.away().await, others);
    eventually("s1 says what it did", async || nodes.maintainer(0).await["runs"].as_u64() > Some(1)).await;
    let told = nodes.maintainer(0).await;
    assert_eq!(
        (told["total"]["home"].as_u64(), told["total"]["failed"].as_u64()),
        (Some(n_own as u64), Some(0)),
        "{told}"
    );
    assert_eq!(nodes.maintainer(1).await["runs"], 0);

    for server in [1, 2] {
        nodes.upkeep(server, json!({"paused": false, "bytes_per_second": 1_000_000_000})).await;
    }
    eventually("all are home", async || nodes.away().await.is_empty()).await;
    assert_eq!(nodes.maintainer(1).await["bytes_per_second"], 1_000_000_000);
    eventually("nothing is left to do", async || {
        nodes.maintain(false, Duration::from_hours(1)).await == evenkeel_node::write::Maintained::default()
    })
    .await;
    nodes.assert_reads(&all).await;
    let metrics = nodes.servers.all()[1].control.as_ref().unwrap();
    assert!(metrics.say::<Value>(Method::GET, "metrics", None::<&()>).await.is_err(), "they are no JSON");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_come_first() {
    let nodes = Nodes::start_with(2, Some(quick(true)));
    let all = objects(3, 16);
    nodes.put(&all, &away()).await;
    let before = nodes.away().await;
    let up = nodes.up.as_ref().unwrap();
    let ask = Ask { way: Way::Read, bytes: 1, is_maintenance: false };
    // A client of the home keeps its maintainer waiting; one of the holder makes it leave things as they are.
    let at_home = up.nodes()[0].gate().enter(ask).await.unwrap();
    nodes.upkeep(0, json!({"paused": false})).await;
    eventually("it waits", async || nodes.maintainer(0).await["state"] == "waiting").await;
    assert_eq!(nodes.away().await, before);
    let at_holder = up.nodes()[1].gate().enter(ask).await.unwrap();
    drop(at_home);
    eventually("it says who is busy", async || {
        nodes.maintainer(0).await["remarks"].to_string().contains("s2 is busy")
    })
    .await;
    assert_eq!(nodes.away().await, before);
    drop(at_holder);
    eventually("what belongs to s1 is home", async || !nodes.away().await.contains_key(&0)).await;

    // A node that is drained moves nothing, and one that is stopped does not wait for its maintainer.
    nodes.upkeep(1, json!({"paused": false, "bytes_per_second": 1})).await;
    nodes.say(1, Method::POST, "v1/drain", &Value::Null).await.unwrap();
    eventually("it is draining", async || nodes.maintainer(1).await["state"] == "draining").await;
    nodes.say(1, Method::POST, "v1/settings", &json!({"draining": false})).await.unwrap();
    eventually("it has begun", async || nodes.maintainer(1).await["last"]["home"].as_u64() > Some(0)).await;
    nodes.assert_reads(&all).await;
    drop(nodes);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_collect_the_orphans_that_they_hold() {
    let upkeep = quick(true);
    let nodes = Nodes::start_with(2, Some(Upkeep { grace: Duration::ZERO, ..upkeep }));
    let all = BTreeMap::from([("large".to_owned(), noise(1, 250_000))]);
    nodes.put(&all, &options("rr")).await;
    let named = nodes.held().await;
    for (server, key, of, home) in [
        (0, "1/0", Some("data/large"), "s2"),
        (0, "2/0", Some("data/gone"), "s1"),
        (0, "3/0", None, "s1"),
        (0, "4/0", Some("data/gone"), "s9"),
        (1, "5/0", Some("data/gone"), "s1"),
    ] {
        let mut headers = HeaderMap::new();
        for (name, value) in of.map(|of| ("of", of)).into_iter().chain([("home", home)]) {
            let name = HeaderName::try_from(format!("x-amz-meta-evenkeel-{name}")).unwrap();
            headers.insert(name, HeaderValue::from_static(value));
        }
        let key = format!(".evenkeel/held/{key}");
        let what = evenkeel_store::Payload::Bytes("x".into());
        nodes.servers.all()[server].endpoint.put(BUCKET, &key, headers, what).await.unwrap();
    }
    nodes.upkeep(0, json!({"paused": false})).await;
    eventually("two orphans are gone", async || nodes.maintainer(0).await["total"]["orphans"] == 2).await;
    // Those that may not be ours, whose home nobody knows, and that another node holds, are left.
    assert_eq!(nodes.held().await.len(), named.len() + 3);
    eventually("it says what it left", async || {
        nodes.maintainer(0).await["remarks"].to_string().contains("s9 is not in the cluster file")
    })
    .await;
    nodes.assert_reads(&all).await;
}

/// Nodes, somebody who runs the command, and writers, all at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn maintainers_and_writers_do_not_hurt_each_other() {
    let upkeep = quick(false);
    let nodes = Nodes::start_with(3, Some(Upkeep { idle: Duration::ZERO, ..upkeep }));
    let mut all = objects(1, 12);
    nodes.put(&all, &away()).await;
    for round in 1..5 {
        let new = objects(100 * round, 12);
        let overwrite = PutOptions { overwrite: true, ..away() };
        let (report, _) =
            tokio::join!(nodes.put(&new, &overwrite), nodes.maintain(true, Duration::from_hours(1)));
        assert_eq!(report.failures, [], "round {round}");
        all.extend(new);
        for (key, data) in &all {
            assert!(nodes.plain(key).await.unwrap() == *data, "round {round}: {key}");
        }
    }
    eventually("all are home", async || nodes.away().await.is_empty()).await;
    nodes.assert_reads(&all).await;
}
