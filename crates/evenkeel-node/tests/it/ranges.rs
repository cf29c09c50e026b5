//! Writes into objects on real nodes: what is read is what was written last, whoever writes and whatever fails between.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use evenkeel::draw::{Draw, Seeded};
use evenkeel_node::write::{Maintained, PutOptions};
use evenkeel_store::cluster::{encoded, redirect};
use evenkeel_store::{Endpoint, Payload, Problem, StoreError};
use futures_util::StreamExt;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, StatusCode};
use serde_json::{Value, json};

use super::noise;
use super::write::{BUCKET, Nodes, options};

fn crc32c(data: &[u8]) -> u32 {
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, data) as u32
}

impl Nodes {
    fn home(&self, key: &str) -> usize {
        self.servers.homes(BUCKET, key, 1)[0]
    }

    fn control(&self, server: usize) -> &Endpoint {
        self.servers.all()[server].control.as_ref().unwrap()
    }

    async fn make_buckets(&self) {
        for server in self.servers.all() {
            server.endpoint.create_bucket(BUCKET).await.unwrap();
        }
    }

    /// Writes by the home itself.
    async fn write_at(&self, key: &str, offset: u64, data: &[u8], headers: HeaderMap) -> (StatusCode, Value) {
        let (path, offset) = (format!("ranges/{BUCKET}/{key}"), offset.to_string());
        let what = Payload::Bytes(data.to_vec().into());
        let control = self.control(self.home(key));
        let query = [("offset", offset.as_str())];
        let answer = control.ask(Method::PUT, ("v1", &path), &query, headers, what).await.unwrap();
        let body: Vec<_> = answer.body.map(Result::unwrap).collect().await;
        (answer.status, serde_json::from_slice(&body.concat()).unwrap_or_default())
    }

    /// Writes as a client does that places what it writes.
    async fn put_at(&self, key: &str, offset: u64, data: &[u8]) {
        let items = BTreeMap::from([(key.to_owned(), data.to_vec())]);
        let away =
            PutOptions { offset: Some(offset), seed: offset, piece_bytes: 3000, ..options("hdfs-random") };
        let report = self.put(&items, &away).await;
        assert_eq!((report.failures, report.n_written), (Vec::new(), 1), "{key} at {offset}");
    }

    /// A held piece of an object, not named yet.
    async fn hold(&self, server: usize, of: &str, id: &str, data: &[u8]) -> Value {
        let key = format!("{}{id}/0", redirect::HELD);
        let mut headers = HeaderMap::new();
        let home = self.servers.all()[self.home(of)].name.clone();
        for (name, value) in [(redirect::OF, encoded(&format!("{BUCKET}/{of}"))), (redirect::HOME, home)] {
            let name = HeaderName::try_from(format!("x-amz-meta-{name}")).unwrap();
            headers.insert(name, HeaderValue::try_from(value).unwrap());
        }
        let holder = &self.servers.all()[server];
        holder.endpoint.put(BUCKET, &key, headers, Payload::Bytes(data.to_vec().into())).await.unwrap();
        json!({"offset": 0, "bytes": data.len(), "server": holder.name, "key": key, "crc32c": crc32c(data)})
    }

    async fn name(&self, key: &str, extents: Vec<Value>) -> Result<Value, StoreError> {
        let what = json!({"bucket": BUCKET, "key": key, "extents": extents});
        self.say(self.home(key), Method::POST, "v1/extents", &what).await
    }
}

fn write(model: &mut Vec<u8>, offset: usize, data: &[u8]) {
    model.resize(model.len().max(offset + data.len()), 0);
    model[offset..offset + data.len()].copy_from_slice(data);
}

/// All kinds of writes, against a vector.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_are_those_of_a_vector() {
    let nodes = Nodes::start(3);
    nodes.make_buckets().await;
    let mut expected = BTreeMap::new();
    for seed in 0..3 {
        let mut draw = Seeded::new(seed);
        let mut number = |below: u32| draw.below(below) as usize;
        let (key, mut model) = (format!("d/{seed} ä"), Vec::new());
        let (mut tags, mut n_changes) = (std::collections::BTreeSet::new(), 0);
        for step in 0..20 {
            let (kind, offset, bytes) =
                (number(8), number(20_000), 1 + number(if step % 5 == 0 { 70_000 } else { 5000 }));
            let data = noise(seed * 100 + step, bytes);
            match kind {
                0 => {
                    // The whole object, as any S3 client writes it.
                    let endpoint = &nodes.servers.all()[nodes.home(&key)].endpoint;
                    endpoint
                        .put(BUCKET, &key, HeaderMap::new(), Payload::Bytes(data.clone().into()))
                        .await
                        .unwrap();
                    model = data;
                }
                1 => {
                    let done = nodes.maintain(true, Duration::from_hours(1)).await;
                    assert_eq!((done.n_failed, done.n_left_alone), (0, 0), "seed {seed} step {step}");
                }
                2..5 => {
                    nodes.put_at(&key, offset as u64, &data).await;
                    write(&mut model, offset, &data);
                    n_changes += 1;
                }
                _ => {
                    let (status, told) = nodes.write_at(&key, offset as u64, &data, HeaderMap::new()).await;
                    assert_eq!(status, 200, "seed {seed} step {step}: {told}");
                    write(&mut model, offset, &data);
                    assert_eq!(told["bytes"], model.len(), "seed {seed} step {step}");
                    tags.insert(told["etag"].to_string());
                    n_changes += 1;
                }
            }
            if !model.is_empty() {
                assert!(nodes.plain(&key).await.unwrap() == model, "seed {seed} step {step} kind {kind}");
            }
        }
        assert!(n_changes > 5 && tags.len() > 3, "seed {seed}: each change has a tag of its own");
        let from = model.len() as u64 / 3;
        let endpoint = &nodes.servers.all()[nodes.home(&key)].endpoint;
        let (_, body) = endpoint.get(BUCKET, &key, Some(from..from + 100), HeaderMap::new()).await.unwrap();
        let part: Vec<_> = body.map(Result::unwrap).collect().await;
        assert!(part.concat() == model[from as usize..from as usize + 100], "seed {seed}");
        expected.insert(key, model);
    }
    nodes.assert_reads(&expected).await;
    // What was replaced is deleted in the end, or collected.
    nodes.maintain(true, Duration::ZERO).await;
    let done = nodes.maintain(false, Duration::ZERO).await;
    assert_eq!((done.n_orphans, done.n_failed), (0, 0));
}

/// Many processes write blocks of one object at once, as collective I/O does, beside a maintainer and a reader.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn none_of_many_writers_is_lost() {
    const BLOCK: usize = 2000;
    const RANKS: usize = 8;
    const ROUNDS: usize = 6;
    let nodes = Arc::new(Nodes::start(3));
    nodes.make_buckets().await;
    let block = |n: usize| noise(n as u64, BLOCK);
    let is_over = Arc::new(AtomicBool::new(false));
    let reader = {
        let (nodes, is_over) = (Arc::clone(&nodes), Arc::clone(&is_over));
        tokio::spawn(async move {
            let mut n_seen = 0;
            while !is_over.load(Ordering::Relaxed) {
                if let Ok(all) = nodes.plain("shared").await {
                    for (n, got) in all.chunks(BLOCK).enumerate() {
                        assert!(got == block(n) || got.iter().all(|byte| *byte == 0), "block {n} is in part");
                        n_seen += usize::from(got == block(n));
                    }
                }
                nodes.maintain(true, Duration::from_hours(1)).await;
            }
            n_seen
        })
    };
    let ranks = (0..RANKS).map(|rank| {
        let nodes = Arc::clone(&nodes);
        tokio::spawn(async move {
            for round in (0..ROUNDS).rev() {
                let n = round * RANKS + rank;
                let offset = (n * BLOCK) as u64;
                if rank % 2 == 0 {
                    nodes.put_at("shared", offset, &block(n)).await;
                } else {
                    let (status, told) = nodes.write_at("shared", offset, &block(n), HeaderMap::new()).await;
                    assert_eq!(status, 200, "{told}");
                }
            }
        })
    });
    for rank in ranks.collect::<Vec<_>>() {
        rank.await.unwrap();
    }
    is_over.store(true, Ordering::Relaxed);
    assert!(reader.await.unwrap() > 0, "it has seen some of it");
    let expected: Vec<u8> = (0..RANKS * ROUNDS).flat_map(block).collect();
    assert!(nodes.plain("shared").await.unwrap() == expected);

    // Where they overlap, each byte is that of one of them, and no extent is mixed.
    let (a, b) = (vec![1; 5000], vec![2; 5000]);
    let (one, two) = tokio::join!(
        nodes.write_at("shared", 1000, &a, HeaderMap::new()),
        nodes.write_at("shared", 3000, &b, HeaderMap::new())
    );
    assert_eq!((one.0, two.0), (StatusCode::OK, StatusCode::OK));
    let all = nodes.plain("shared").await.unwrap();
    assert!(all[1000..3000].iter().all(|byte| *byte == 1) && all[6000..8000].iter().all(|byte| *byte == 2));
    let middle = &all[3000..6000];
    assert!(middle.iter().all(|byte| *byte == middle[0]) && (middle[0] == 1 || middle[0] == 2));
    assert!(all[..1000] == expected[..1000] && all[8000..] == expected[8000..]);

    // The maintainer joins what is small, and brings it home.
    for _ in 0..3 {
        nodes.maintain(true, Duration::ZERO).await;
    }
    assert_eq!(nodes.maintain(false, Duration::ZERO).await, Maintained::default());
    assert_eq!(nodes.held().await, []);
    assert!(nodes.plain("shared").await.unwrap() == all);
}

/// A client that dies between its steps leaves the object as it was; who asks again gets the same answer; and a home that is started
/// again has all that it acknowledged.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_acknowledged_stays_and_nothing_else() {
    let mut nodes = Nodes::start(3);
    nodes.make_buckets().await;
    nodes.write_at("k", 0, &[7; 1000], HeaderMap::new()).await;
    let away = (nodes.home("k") + 1) % 3;
    let piece = nodes.hold(away, "k", "a1", &[8; 100]).await;
    // Here the client dies.
    assert!(nodes.plain("k").await.unwrap() == [7; 1000]);
    let n_held = nodes.held().await.len();
    assert_eq!(
        nodes.maintain(true, Duration::from_hours(1)).await.n_orphans,
        0,
        "its entry may be on its way"
    );
    // Or it does not, and is only late.
    let mut at_300 = piece.clone();
    at_300["offset"] = 300.into();
    let first = nodes.name("k", vec![at_300.clone()]).await.unwrap();
    let again = nodes.name("k", vec![at_300.clone()]).await.unwrap();
    assert_eq!(first, again, "the answer may have been lost");
    // Names are used once: here, there, and after the piece was replaced.
    let used = |error: StoreError| error.to_string().contains("named before");
    assert!(used(nodes.name("k", vec![piece.clone()]).await.unwrap_err()));
    nodes.write_at("k", 250, &[9; 200], HeaderMap::new()).await;
    assert!(used(nodes.name("k", vec![at_300]).await.unwrap_err()));
    let mut model = vec![7; 1000];
    write(&mut model, 300, &[8; 100]);
    write(&mut model, 250, &[9; 200]);
    assert!(nodes.plain("k").await.unwrap() == model);
    assert!(n_held >= 1);

    nodes.restart().await;
    assert!(nodes.plain("k").await.unwrap() == model);
    let lost = nodes.hold(away, "k", "a2", &[1; 50]).await;
    drop(lost);
    nodes.write_at("k", 990, &[3; 20], HeaderMap::new()).await;
    write(&mut model, 990, &[3; 20]);
    let done = nodes.maintain(true, Duration::ZERO).await;
    assert!(done.n_orphans >= 1 && done.n_failed == 0, "{done:?}");
    assert!(nodes.plain("k").await.unwrap() == model);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conditions_hold_or_nothing_changes() {
    let nodes = Nodes::start(2);
    nodes.make_buckets().await;
    let (_, told) = nodes.write_at("k", 0, b"0123456789", HeaderMap::new()).await;
    let tag = told["etag"].as_str().unwrap().to_owned();
    let matching =
        |tag: &str| HeaderMap::from_iter([(hyper::header::IF_MATCH, HeaderValue::try_from(tag).unwrap())]);
    let (status, told) = nodes.write_at("k", 2, b"xx", matching("\"another\"")).await;
    assert_eq!(status, 412, "{told}");
    let (status, _) = nodes.write_at("k", 2, b"xx", matching(&format!("\"{tag}\""))).await;
    assert_eq!(status, 200);
    assert_eq!(nodes.write_at("k", 2, b"yy", matching(&tag)).await.0, 412, "it is another one now");
    assert_eq!(nodes.plain("k").await.unwrap(), b"01xx456789");
    let wrong = HeaderMap::from_iter([(
        HeaderName::from_static("x-amz-checksum-crc32c"),
        HeaderValue::from_static("AAAAAA=="),
    )]);
    assert_eq!(nodes.write_at("k", 2, b"zz", wrong).await.0, 400);
    let create = json!({"bucket": BUCKET, "key": "new", "create": false, "extents": [nodes.hold(0, "new", "b1", b"x").await]});
    let error = nodes.say(nodes.home("new"), Method::POST, "v1/extents", &create).await.unwrap_err();
    assert_eq!(error.problem, Problem::NotFound);
    // A client's own metadata stays with the object.
    let endpoint = &nodes.servers.all()[nodes.home("meta")].endpoint;
    let headers = HeaderMap::from_iter([(
        HeaderName::from_static("x-amz-meta-colour"),
        HeaderValue::from_static("red"),
    )]);
    endpoint.put(BUCKET, "meta", headers, Payload::Bytes("abc".into())).await.unwrap();
    assert_eq!(nodes.write_at("meta", 3, b"def", HeaderMap::new()).await.0, 200);
    let seen = endpoint.head(BUCKET, "meta").await.unwrap();
    assert_eq!(
        (&seen["x-amz-meta-colour"], &seen["content-length"]),
        (&HeaderValue::from_static("red"), &HeaderValue::from_static("6"))
    );

    // A hole of a tebibyte is a few bytes of its redirect.
    let far = 1 << 40;
    assert_eq!(nodes.write_at("sparse", far, b"end", HeaderMap::new()).await.0, 200);
    let endpoint = &nodes.servers.all()[nodes.home("sparse")].endpoint;
    let (_, body) = endpoint.get(BUCKET, "sparse", Some(far - 5..far + 3), HeaderMap::new()).await.unwrap();
    let tail: Vec<_> = body.map(Result::unwrap).collect().await;
    assert_eq!(tail.concat(), b"\0\0\0\0\0end");
    nodes.maintain(true, Duration::from_hours(1)).await;
    assert_eq!(endpoint.head(BUCKET, "sparse").await.unwrap()["content-length"], (far + 3).to_string());
}

/// What makes no sense, or is not there, is refused, and says why.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_requests_change_nothing() {
    let nodes = Nodes::start(2);
    nodes.make_buckets().await;
    nodes.write_at("k", 0, &[7; 100], HeaderMap::new()).await;
    let good = nodes.hold(1, "k", "c1", &[8; 10]).await;
    let other = nodes.hold(1, "other", "c2", &[8; 10]).await;
    let with = |changes: &[(&str, Value)]| {
        let mut one = good.clone();
        changes.iter().for_each(|(name, value)| one[*name] = value.clone());
        one
    };
    let cases: Vec<(Vec<Value>, &str)> = vec![
        (vec![], "1 to 256 extents"),
        (vec![with(&[("offset", u64::MAX.into())])], "beyond 5 TiB"),
        (vec![with(&[("bytes", u64::MAX.into())])], "beyond 5 TiB"),
        (vec![with(&[("bytes", 0.into())])], "is empty"),
        (
            vec![good.clone(), with(&[("offset", 5.into()), ("key", ".evenkeel/held/x/0".into())])],
            "overlap at 5",
        ),
        (vec![good.clone(), with(&[("offset", 50.into())])], "named twice"),
        (vec![with(&[("key", "k".into())])], "no name of a held piece"),
        (vec![with(&[("key", ".evenkeel/held/none/0".into())])], "it is not there"),
        (vec![with(&[("server", "s9".into())])], "not in the cluster file"),
        (vec![with(&[("bytes", 11.into())])], "it has 10 bytes"),
        (vec![with(&[("offset", (-1).into())])], "not what is expected"),
        (vec![with(&[("colour", 1.into())])], "not what is expected"),
        (vec![other], "do not say that it belongs to this object"),
    ];
    for (extents, expected) in cases {
        let error = nodes.name("k", extents).await.unwrap_err().to_string();
        assert!(error.contains(expected), "{expected}: {error}");
    }
    for key in ["../k", "a/./k", ".."] {
        let error = nodes.name(key, vec![good.clone()]).await.unwrap_err().to_string();
        assert!(error.contains("no web address leads to"), "{key}: {error}");
    }
    let what = json!({"bucket": BUCKET, "key": "k", "extents": [good.clone()]});
    let error =
        nodes.say(1 - nodes.home("k"), Method::POST, "v1/extents", &what).await.unwrap_err().to_string();
    assert!(error.contains("the home of data/k is"), "{error}");
    let what = json!({"bucket": "nowhere", "key": "k", "extents": [good.clone()]});
    let home = nodes.servers.homes("nowhere", "k", 1)[0];
    assert!(nodes.say(home, Method::POST, "v1/extents", &what).await.is_err());
    for (path, query, expected) in [
        ("ranges/data", vec![("offset", "0")], StatusCode::BAD_REQUEST),
        ("ranges/data/k", vec![], StatusCode::BAD_REQUEST),
        ("ranges/data/k", vec![("offset", "-1")], StatusCode::BAD_REQUEST),
        ("ranges/data/k", vec![("offset", "18446744073709551615")], StatusCode::BAD_REQUEST),
        ("ranges/data/k", vec![("offset", "0"), ("colour", "red")], StatusCode::BAD_REQUEST),
        ("ranges/data/.evenkeel/held/x", vec![("offset", "0")], StatusCode::BAD_REQUEST),
    ] {
        for server in 0..2 {
            let what = Payload::Bytes("x".into());
            let answer = nodes.control(server).ask(Method::PUT, ("v1", path), &query, HeaderMap::new(), what);
            let status = answer.await.unwrap().status;
            assert!(
                status == expected || status == StatusCode::MISDIRECTED_REQUEST,
                "{path} {query:?}: {status}"
            );
        }
    }
    assert!(nodes.plain("k").await.unwrap() == [7; 100]);
    nodes.name("k", vec![good]).await.unwrap();
    assert!(nodes.plain("k").await.unwrap()[..10] == [8; 10]);
}
