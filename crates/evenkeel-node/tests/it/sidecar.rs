//! A node in front of another node: what S3 promises goes through, what the server behind cannot do is refused, and what
//! breaks on the way is never a short object.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use evenkeel_node::node::Node;
use evenkeel_node::node::store::{Sidecar, StoreError as NodeError};
use evenkeel_node::write::{Item, Placement, PutOptions, put as put_all};
use evenkeel_store::cluster::Servers;
use evenkeel_store::{Answer, Elements, Endpoint, Payload, Problem, StoreError};
use futures_util::stream;
use hyper::header::{HeaderMap, RANGE};
use hyper::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use super::node_s3::{
    Served, all, any_port, cluster_of, headers, hold, keys, noise, point, put, read, served, settings,
};

/// A node whose store is the server at this address.
async fn in_front_of(address: SocketAddr) -> Result<(Node, Endpoint, Endpoint), NodeError> {
    let (data, control) = (any_port(), any_port());
    let store = Sidecar::open(endpoint(address), false).await?;
    let node = Node::start(Arc::new(store), data, Some(control), settings("front", None)).unwrap();
    let (data, control) = (endpoint(node.address()), endpoint(node.control_address().unwrap()));
    Ok((node, data, control))
}

fn endpoint(address: SocketAddr) -> Endpoint {
    Endpoint::new(&format!("http://{address}"), &keys().access_key, &keys().secret_key).unwrap()
}

async fn status(control: &Endpoint) -> Value {
    control.say(Method::GET, "v1/status", None::<&()>).await.unwrap()
}

/// Passes requests and answers on between a node in front and the server behind.
#[derive(Clone, Copy, Debug)]
enum Relay {
    /// Conditions of writes get other names, so that the server behind does not see them.
    WithoutConditions,
    /// A connection breaks after so many bytes of answers.
    Breaks(usize),
}

impl Relay {
    async fn start(self, behind: SocketAddr) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        drop(tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                drop(tokio::spawn(self.pass(client, TcpStream::connect(behind).await.unwrap())));
            }
        }));
        address
    }

    async fn pass(self, client: TcpStream, server: TcpStream) {
        let ((mut asked, mut answered), (mut answers, mut asks)) = (client.into_split(), server.into_split());
        let there = async {
            let mut buffer = vec![0; 64 << 10];
            while let Ok(n @ 1..) = asked.read(&mut buffer).await {
                if matches!(self, Self::WithoutConditions) {
                    rename(&mut buffer[..n], b"if-none-match:", b"xf-none-match:");
                    rename(&mut buffer[..n], b"\r\nif-match:", b"\r\nxf-match:");
                }
                if asks.write_all(&buffer[..n]).await.is_err() {
                    break;
                }
            }
        };
        let back = async {
            let mut left = if let Self::Breaks(bytes) = self { bytes } else { usize::MAX };
            let mut buffer = vec![0; 64 << 10];
            while let Ok(n @ 1..) = answers.read(&mut buffer).await {
                let n = n.min(left);
                left -= n;
                if answered.write_all(&buffer[..n]).await.is_err() || left == 0 {
                    break;
                }
            }
        };
        tokio::select! { () = there => {}, () = back => {} }
    }
}

fn rename(bytes: &mut [u8], from: &[u8], to: &[u8]) {
    if let Some(at) = bytes.windows(from.len()).position(|window| window == from) {
        bytes[at..at + to.len()].copy_from_slice(to);
    }
}

#[tokio::test]
async fn what_s3_promises_goes_through() {
    let behind = served();
    behind.data.create_bucket("first").await.unwrap();
    let (_node, data, control) = in_front_of(behind.node.address()).await.unwrap();
    let told = status(&control).await;
    assert_eq!((&told["conditional_writes"], &told["usage"]), (&json!(true), &Value::Null));
    assert_eq!(put(&data, "k", "x").await.unwrap_err().problem, Problem::NotFound, "no bucket");
    data.create_bucket("bkt").await.unwrap();
    data.create_bucket("bkt").await.unwrap();
    for n in [0, 1, 65_536, 3_000_000] {
        let bytes = noise(n);
        let parts: Vec<Result<Bytes, StoreError>> =
            bytes.chunks(100_000).map(|part| Ok(Bytes::copy_from_slice(part))).collect();
        let stream = Box::pin(stream::iter(parts));
        data.put("bkt", "a/b c+ä%", HeaderMap::new(), Payload::Stream(n as u64, stream)).await.unwrap();
        assert!(read(&data, "a/b c+ä%").await.unwrap() == bytes, "{n} bytes");
        assert!(read(&behind.data, "a/b c+ä%").await.unwrap() == bytes, "{n} bytes, behind");
    }
    let bytes = noise(3_000_000);
    for (range, expected) in [
        ("bytes=70000-999999", 70_000..1_000_000),
        ("bytes=2999999-", 2_999_999..3_000_000),
        ("bytes=-5", 2_999_995..3_000_000),
        ("bytes=1-99999999", 1..3_000_000),
    ] {
        let answer = ask(&data, Method::GET, "a/b c+ä%", &[], &[(RANGE.as_str(), range)], "").await;
        assert_eq!(answer.status, StatusCode::PARTIAL_CONTENT, "{range}");
        assert!(all(answer.body).await.unwrap() == bytes[expected], "{range}");
    }
    let beyond = ask(&data, Method::GET, "a/b c+ä%", &[], &[(RANGE.as_str(), "bytes=3000000-")], "").await;
    assert_eq!(beyond.status, StatusCode::RANGE_NOT_SATISFIABLE);

    let said = [("x-amz-meta-mine", "yes"), ("content-type", "text/plain"), ("cache-control", "no-store")];
    data.put("bkt", "said", headers(&said), Payload::Bytes("said".into())).await.unwrap();
    let copied = ask(&data, Method::PUT, "copy", &[], &[("x-amz-copy-source", "/bkt/said")], "").await;
    assert_eq!(copied.status, StatusCode::OK);
    let seen = data.head("bkt", "copy").await.unwrap();
    for (name, value) in said {
        assert_eq!(seen[name], value, "{name}");
    }
    assert_eq!(read(&data, "copy").await.unwrap(), b"said");
    data.delete("bkt", "copy", HeaderMap::new()).await.unwrap();
    assert_eq!(data.head("bkt", "copy").await.unwrap_err().problem, Problem::NotFound);
    // Nothing of the probe is left.
    assert!(behind.data.list("first", ".evenkeel/", None).await.unwrap().objects.is_empty());
    drop(behind);
}

#[tokio::test]
async fn conditions_and_checksums_are_those_of_the_server_behind() {
    let behind = served();
    // Without a bucket nothing can be tried; it is made up for.
    let (_node, data, control) = in_front_of(behind.node.address()).await.unwrap();
    assert_eq!(status(&control).await["conditional_writes"], false);
    data.create_bucket("bkt").await.unwrap();
    assert_eq!(status(&control).await["conditional_writes"], true);
    let write =
        |pair, bytes: &'static str| data.put("bkt", "k", headers(&[pair]), Payload::Bytes(bytes.into()));
    let etag = write(("if-none-match", "*"), "first").await.unwrap().etag;
    assert_eq!(write(("if-none-match", "*"), "second").await.unwrap_err().problem, Problem::Changed);
    write(("if-match", &etag), "third").await.unwrap();
    assert_eq!(write(("if-match", &etag), "fourth").await.unwrap_err().problem, Problem::Changed);
    let other = data.delete("bkt", "k", headers(&[("if-match", "\"other\"")])).await;
    assert_eq!(other.unwrap_err().problem, Problem::Changed);
    // The server behind has got all bytes but the last when it shows that they are wrong.
    for wrong in [("content-md5", "AAAAAAAAAAAAAAAAAAAAAA=="), ("x-amz-checksum-crc32c", "AAAAAQ==")] {
        for bytes in ["", "fifth"] {
            let error = write(wrong, bytes).await.unwrap_err().to_string();
            assert!(error.contains("Digest"), "{error}");
        }
        let large = data.put("bkt", "k", headers(&[wrong]), Payload::Bytes(noise(1_000_000).into())).await;
        assert!(large.unwrap_err().to_string().contains("Digest"));
    }
    assert_eq!(read(&behind.data, "k").await.unwrap(), b"third");
    let crc = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, b"third") as u32;
    let crc = super::node_s3::base64(&crc.to_be_bytes());
    write(("x-amz-checksum-crc32c", &crc), "third").await.unwrap();
    let (told, _) = data.get("bkt", "k", None, headers(&[("x-amz-checksum-mode", "ENABLED")])).await.unwrap();
    assert_eq!(told["x-amz-checksum-crc32c"].to_str().unwrap(), crc);
}

#[tokio::test]
async fn listings_go_on_where_a_page_ends() {
    let behind = served();
    let (_node, data, _) = in_front_of(behind.node.address()).await.unwrap();
    data.create_bucket("bkt").await.unwrap();
    let names = ["a/1", "a/2", "b", "c/x/1", "c/y", "d +&<ä", "e"];
    for name in names {
        put(&data, name, name).await.unwrap();
    }
    for (prefix, delimiter, expected) in [
        ("", "", names.to_vec()),
        ("", "/", vec!["a/", "b", "c/", "d +&<ä", "e"]),
        ("c/", "/", vec!["c/x/", "c/y"]),
        ("a", "", vec!["a/1", "a/2"]),
        ("nothing", "/", vec![]),
    ] {
        for page in ["1", "2", "1000"] {
            let (mut found, mut token) = (Vec::new(), String::new());
            loop {
                let query =
                    [("delimiter", delimiter), ("list-type", "2"), ("max-keys", page), ("prefix", prefix)];
                let mut query: Vec<_> = query.into_iter().filter(|(_, text)| !text.is_empty()).collect();
                if !token.is_empty() {
                    query.insert(0, ("continuation-token", &token));
                }
                let answer = ask(&data, Method::GET, "", &query, &[], "").await;
                let listed = elements(answer, &["Contents", "CommonPrefixes"]).await;
                let name = |texts: &std::collections::BTreeMap<String, String>| {
                    texts.get("Key").or_else(|| texts.get("Prefix")).unwrap().clone()
                };
                found.extend(listed.rows.iter().map(|(_, texts)| name(texts)));
                match listed.texts.get("NextContinuationToken") {
                    Some(next) => token.clone_from(next),
                    None => break,
                }
            }
            found.sort();
            assert_eq!(found, expected, "{prefix:?} {delimiter:?} {page}");
        }
    }
}

#[tokio::test]
async fn uploads_in_parts_go_through() {
    let behind = served();
    let (_node, data, _) = in_front_of(behind.node.address()).await.unwrap();
    data.create_bucket("bkt").await.unwrap();
    let started =
        ask(&data, Method::POST, "large", &[("uploads", "")], &[("x-amz-meta-mine", "yes")], "").await;
    let id = elements(started, &[]).await.texts["UploadId"].clone();
    let parts = [noise(5 << 20), noise(1234)];
    let mut rows = String::new();
    for (number, bytes) in ["1", "2"].into_iter().zip(&parts) {
        let query = [("partNumber", number), ("uploadId", &*id)];
        let answer = data.ask(
            Method::PUT,
            ("bkt", "large"),
            &query,
            HeaderMap::new(),
            Payload::Bytes(bytes.clone().into()),
        );
        let etag = answer.await.unwrap().headers["etag"].to_str().unwrap().to_owned();
        let row = format!("<Part><PartNumber>{number}</PartNumber><ETag>{etag}</ETag></Part>");
        rows.push_str(&row);
    }
    let listed =
        elements(ask(&data, Method::GET, "large", &[("uploadId", &id)], &[], "").await, &["Part"]).await;
    let sizes: Vec<_> = listed.rows.iter().map(|(_, texts)| texts["Size"].as_str()).collect();
    assert_eq!(sizes, ["5242880", "1234"]);
    let listed = elements(ask(&data, Method::GET, "", &[("uploads", "")], &[], "").await, &["Upload"]).await;
    assert_eq!(listed.rows[0].1["UploadId"], id);
    let body = format!("<CompleteMultipartUpload>{rows}</CompleteMultipartUpload>");
    let done = ask(&data, Method::POST, "large", &[("uploadId", &id)], &[], &body).await;
    assert_eq!(done.status, StatusCode::OK);
    assert!(read(&data, "large").await.unwrap() == parts.concat());
    assert_eq!(data.head("bkt", "large").await.unwrap()["x-amz-meta-mine"], "yes");
    let gone = ask(&data, Method::DELETE, "large", &[("uploadId", &id)], &[], "").await;
    assert_eq!(gone.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn redirects_at_a_server_behind_look_like_the_object() {
    let behind = served();
    let (file, _folder, [a, b, c, d]) = cluster_of(["s1", "s2"]);
    let holder = super::node_s3::serve(c, d, settings("s2", Some(file.clone())));
    let store = Sidecar::open(endpoint(behind.node.address()), true).await.unwrap();
    let home = Node::start(Arc::new(store), a, Some(b), settings("s1", Some(file))).unwrap();
    let (data, control) = (endpoint(home.address()), endpoint(home.control_address().unwrap()));
    data.create_bucket("bkt").await.unwrap();
    holder.data.create_bucket("bkt").await.unwrap();
    let bytes = noise(300_000);
    let held = hold(&holder.data, "s2", 0, &bytes).await;
    point(&data, "far", &evenkeel_store::cluster::Redirect::new("tag".into(), vec![held])).await.unwrap();
    put(&data, "near", "here").await.unwrap();
    assert!(read(&data, "far").await.unwrap() == bytes);
    let (_, body) = data.get("bkt", "far", Some(7..9), HeaderMap::new()).await.unwrap();
    assert!(all(body).await.unwrap() == bytes[7..9]);
    let listed = data.list("bkt", "", None).await.unwrap().objects;
    let listed: Vec<_> = listed.iter().map(|object| (object.key.as_str(), object.bytes)).collect();
    assert_eq!(listed, [("far", 300_000), ("near", 4)]);
    let what = json!({"bucket": "bkt", "limit": 10});
    let located: Value = control.say(Method::POST, "v1/locate", Some(&what)).await.unwrap();
    assert_eq!(located["objects"][0]["redirect"]["pieces"][0]["server"], "s2");
    assert_eq!(located["objects"][1]["redirect"], Value::Null);
    // Brought home while somebody has the old entity tag in mind.
    let tag = headers(&[("if-match", "\"tag\"")]);
    data.put("bkt", "far", tag.clone(), Payload::Bytes("home".into())).await.unwrap();
    let again = data.put("bkt", "far", tag, Payload::Bytes("again".into())).await;
    assert_eq!(again.unwrap_err().problem, Problem::Changed);
    assert_eq!(read(&data, "far").await.unwrap(), b"home");
}

#[tokio::test]
async fn conditions_that_the_server_behind_ignores_are_refused() {
    let behind = served();
    behind.data.create_bucket("bkt").await.unwrap();
    put(&behind.data, "k", "there").await.unwrap();
    let relay = Relay::WithoutConditions.start(behind.node.address()).await;
    let (node, data, control) = in_front_of(relay).await.unwrap();
    assert_eq!(status(&control).await["conditional_writes"], false);
    for pair in [("if-none-match", "*"), ("if-match", "\"x\"")] {
        let answer = ask(&data, Method::PUT, "k", &[], &[pair], "other").await;
        assert_eq!(answer.status, StatusCode::NOT_IMPLEMENTED, "{pair:?}");
        let copy = [pair, ("x-amz-copy-source", "/bkt/k")];
        assert_eq!(ask(&data, Method::PUT, "l", &[], &copy, "").await.status, StatusCode::NOT_IMPLEMENTED);
    }
    let answer = ask(&data, Method::DELETE, "k", &[], &[("if-match", "\"x\"")], "").await;
    assert_eq!(answer.status, StatusCode::NOT_IMPLEMENTED);
    assert_eq!(read(&data, "k").await.unwrap(), b"there");
    // Those of reads are looked at by the node itself.
    assert_eq!(ask(&data, Method::GET, "k", &[], &[("if-match", "\"x\"")], "").await.status, 412);
    // The probe of our own clients says the same, and they write without conditions there.
    assert!(!data.conditions("bkt").await.unwrap().writes);
    let text = format!(
        "format = 1\ncredentials = \"credentials\"\n[[server]]\nname = \"front\"\nendpoint = \"{}\"\ncontrol = \"{}\"\n",
        data.address(),
        control.address()
    );
    let folder = tempfile::tempdir().unwrap();
    let cluster = super::node_s3::parsed(&text, folder.path());
    let servers = Arc::new(Servers::open(&cluster).unwrap());
    let item = Item { key: "k".into(), content: Arc::new(Bytes::from_static(b"by a client")) };
    let (_stop, stopped) = watch::channel(false);
    let options = PutOptions { overwrite: true, ..PutOptions::new("rr".parse::<Placement>().unwrap()) };
    let report = put_all(servers, "bkt", stream::iter([item]), &options, stopped, &mut |_| {}).await.unwrap();
    assert!(report.failures.is_empty(), "{:?}", report.failures);
    assert_eq!(read(&behind.data, "k").await.unwrap(), b"by a client");
    drop(node);
}

#[tokio::test]
async fn a_server_behind_that_breaks_off_is_an_error() {
    let behind = served();
    behind.data.create_bucket("bkt").await.unwrap();
    put(&behind.data, "k", noise(2_000_000)).await.unwrap();
    // Long enough for the questions at the start.
    let relay = Relay::Breaks(300_000).start(behind.node.address()).await;
    let (_node, data, _) = in_front_of(relay).await.unwrap();
    for range in [None, Some(1..1_900_000)] {
        let error = match data.get("bkt", "k", range.clone(), HeaderMap::new()).await {
            Ok((_, body)) => all(body).await.unwrap_err(),
            Err(error) => error,
        };
        assert!(matches!(error.problem, Problem::Unreachable(_) | Problem::Damaged(_)), "{range:?}: {error}");
    }
    // Away altogether: what is asked for may be there again soon.
    behind.node.stop(Duration::ZERO).await;
    let address = SocketAddr::from(([127, 0, 0, 1], 1));
    assert!(matches!(in_front_of(address).await.unwrap_err(), NodeError::Away(_)));
    assert!(read(&data, "k").await.is_err());
}

async fn ask(
    at: &Endpoint,
    method: Method,
    key: &str,
    query: &[(&'static str, &str)],
    with: &[(&'static str, &str)],
    body: &str,
) -> Answer {
    let payload = match body {
        "" => Payload::Nothing,
        text => Payload::Bytes(text.to_owned().into()),
    };
    at.ask(method, ("bkt", key), query, headers(with), payload).await.unwrap()
}

async fn elements(answer: Answer, rows: &[&str]) -> Elements {
    assert!(answer.status.is_success(), "{}", answer.status);
    Elements::read(&String::from_utf8(all(answer.body).await.unwrap()).unwrap(), rows).unwrap()
}

/// Reads through a node whose server behind has gone.
#[tokio::test]
async fn a_server_behind_that_is_away_may_be_back_soon() {
    let behind: Served = served();
    behind.data.create_bucket("bkt").await.unwrap();
    let (_node, data, control) = in_front_of(behind.node.address()).await.unwrap();
    put(&data, "k", "x").await.unwrap();
    behind.node.stop(Duration::ZERO).await;
    assert!(matches!(read(&data, "k").await.unwrap_err().problem, Problem::Refused { .. }));
    assert!(matches!(put(&data, "k", "y").await.unwrap_err().problem, Problem::Refused { .. }));
    // What was found out about it stays.
    assert_eq!(status(&control).await["conditional_writes"], true);
}
