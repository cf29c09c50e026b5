//! A node on real sockets: what S3 promises, redirects, and clients that mean harm or are just slow.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use evenkeel_node::node::store::folder::{Folder, Options};
use evenkeel_node::node::store::{Attributes, Condition, Incoming, Store};
use evenkeel_node::node::up::{Up, UpSettings};
use evenkeel_node::node::{Node, Settings};
use evenkeel_store::cluster::redirect;
use evenkeel_store::cluster::{Cluster, Credentials, Held, Redirect, Server, write};
use evenkeel_store::{Body, Endpoint, Payload, Problem, StoreError};
use futures_util::{StreamExt, TryStreamExt, stream};
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

pub(crate) fn keys() -> Credentials {
    Credentials { access_key: "AK".into(), secret_key: "a secret of tests".into() }
}

pub(crate) fn settings(name: &str, cluster: Option<Cluster>) -> Settings {
    Settings {
        name: name.into(),
        keys: keys(),
        slots: 4,
        bytes_per_second: None,
        cluster,
        tls: None,
        upkeep: None,
        logs: false,
    }
}

/// A node on a folder, and its two ports.
pub(crate) struct Served {
    pub(crate) node: Node,
    pub(crate) data: Endpoint,
    control: Endpoint,
    _folder: tempfile::TempDir,
}

pub(crate) fn any_port() -> tokio::net::TcpListener {
    Node::listen(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap()
}

pub(crate) fn served() -> Served {
    let (data, control) = (any_port(), any_port());
    serve(data, control, settings("s1", None))
}

pub(crate) fn serve(
    data: tokio::net::TcpListener,
    control: tokio::net::TcpListener,
    settings: Settings,
) -> Served {
    let folder = tempfile::tempdir().unwrap();
    let store = Folder::open(folder.path(), Options::default()).unwrap();
    let node = Node::start(Arc::new(store), data, Some(control), settings).unwrap();
    let endpoint = |address| {
        Endpoint::new(&format!("http://{address}"), &keys().access_key, &keys().secret_key).unwrap()
    };
    let (data, control) = (endpoint(node.address()), endpoint(node.control_address().unwrap()));
    Served { node, data, control, _folder: folder }
}

pub(crate) fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
    let pairs = pairs
        .iter()
        .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap()));
    pairs.collect()
}

pub(crate) async fn all(body: Body) -> Result<Vec<u8>, StoreError> {
    let chunks: Vec<Bytes> = body.try_collect().await?;
    Ok(chunks.concat())
}

pub(crate) async fn read(from: &Endpoint, key: &str) -> Result<Vec<u8>, StoreError> {
    all(from.get("bkt", key, None, HeaderMap::new()).await?.1).await
}

pub(crate) async fn put(to: &Endpoint, key: &str, bytes: impl Into<Bytes>) -> Result<(), StoreError> {
    to.put("bkt", key, HeaderMap::new(), Payload::Bytes(bytes.into())).await.map(drop)
}

pub(crate) fn noise(n: usize) -> Vec<u8> {
    crate::noise(19, n)
}

#[tokio::test]
async fn objects_come_back_as_they_were() {
    let Served { node: _node, data, _folder, .. } = served();
    assert_eq!(put(&data, "k", "x").await.unwrap_err().problem, Problem::NotFound, "no bucket");
    data.create_bucket("bkt").await.unwrap();
    data.create_bucket("bkt").await.unwrap();
    for n in [0, 1, 65_536, 3_000_000] {
        let bytes = noise(n);
        let parts: Vec<Result<Bytes, StoreError>> =
            bytes.chunks(100_000).map(|part| Ok(Bytes::copy_from_slice(part))).collect();
        let stream = Box::pin(futures_util::stream::iter(parts));
        data.put("bkt", "a/b c+ä%", HeaderMap::new(), Payload::Stream(n as u64, stream)).await.unwrap();
        assert!(read(&data, "a/b c+ä%").await.unwrap() == bytes, "{n} bytes");
    }
    let range = all(data.get("bkt", "a/b c+ä%", Some(70_000..1_000_000), HeaderMap::new()).await.unwrap().1);
    assert!(range.await.unwrap() == noise(3_000_000)[70_000..1_000_000]);
    let listed = data.list("bkt", "a/", None).await.unwrap();
    assert_eq!((listed.objects[0].key.as_str(), listed.objects[0].bytes), ("a/b c+ä%", 3_000_000));
    data.delete("bkt", "a/b c+ä%", HeaderMap::new()).await.unwrap();
    assert_eq!(data.head("bkt", "a/b c+ä%").await.unwrap_err().problem, Problem::NotFound);
}

#[tokio::test]
async fn conditions_and_checksums_decide_what_is_kept() {
    let Served { node: _node, data, _folder, .. } = served();
    data.create_bucket("bkt").await.unwrap();
    let new = || headers(&[("if-none-match", "*")]);
    let write = |headers, bytes: &'static [u8]| data.put("bkt", "k", headers, Payload::Bytes(bytes.into()));
    let etag = write(new(), b"first").await.unwrap().etag;
    assert_eq!(write(new(), b"second").await.unwrap_err().problem, Problem::Changed);
    write(headers(&[("if-match", &etag)]), b"third").await.unwrap();
    assert_eq!(
        write(headers(&[("if-match", &etag)]), b"fourth").await.unwrap_err().problem,
        Problem::Changed
    );
    for wrong in [
        ("content-md5", "AAAAAAAAAAAAAAAAAAAAAA=="),
        ("x-amz-checksum-crc32c", "AAAAAA=="),
        ("content-md5", "?"),
    ] {
        let error = write(headers(&[wrong]), b"fifth").await.unwrap_err().to_string();
        assert!(error.contains("Digest"), "{error}");
    }
    assert_eq!(read(&data, "k").await.unwrap(), b"third");
    // CRC-32C of `third`, as S3 writes it.
    let crc = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, b"third") as u32;
    let crc = base64(&crc.to_be_bytes());
    write(headers(&[("x-amz-checksum-crc32c", &crc)]), b"third").await.unwrap();
    let (told, _) = data.get("bkt", "k", None, headers(&[("x-amz-checksum-mode", "ENABLED")])).await.unwrap();
    assert_eq!(told["x-amz-checksum-crc32c"].to_str().unwrap(), crc);
    let other = data.delete("bkt", "k", headers(&[("if-match", "\"other\"")])).await;
    assert_eq!(other.unwrap_err().problem, Problem::Changed);
}

pub(crate) fn base64(bytes: &[u8]) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

/// What a node answers, with its text.
async fn told(
    by: &Endpoint,
    method: Method,
    key: &str,
    query: &[(&'static str, &str)],
    headers: HeaderMap,
    body: &str,
) -> (StatusCode, HeaderMap, String) {
    let body = Payload::Bytes(body.to_owned().into());
    let answer = by.ask(method, ("bkt", key), query, headers, body).await.unwrap();
    let text = String::from_utf8(all(answer.body).await.unwrap()).unwrap();
    (answer.status, answer.headers, text)
}

#[tokio::test]
async fn an_upload_is_completed_once_and_answered_as_often_as_it_is_asked() {
    let Served { node: _node, data, _folder, .. } = served();
    data.create_bucket("bkt").await.unwrap();
    let begin = async |kind: &str| {
        let headers = headers(&[("x-amz-checksum-algorithm", "CRC32C"), ("x-amz-checksum-type", kind)]);
        let (status, _, text) = told(&data, Method::POST, "k", &[("uploads", "")], headers, "").await;
        assert_eq!(status, StatusCode::OK, "{text}");
        text.split("<UploadId>").nth(1).unwrap().split('<').next().unwrap().to_owned()
    };
    let upload = begin("FULL_OBJECT").await;
    let crc = base64(&(crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, b"part") as u32).to_be_bytes());
    let of = [("partNumber", "1"), ("uploadId", &*upload)];
    let (status, part, _) =
        told(&data, Method::PUT, "k", &of, headers(&[("x-amz-checksum-crc32c", &crc)]), "part").await;
    assert_eq!(status, StatusCode::OK);
    let etag = part["etag"].to_str().unwrap();
    let body = format!(
        "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{etag}</ETag></Part></CompleteMultipartUpload>"
    );
    let complete = async |upload: &str, more: &[(&'static str, &str)]| {
        told(&data, Method::POST, "k", &[("uploadId", upload)], headers(more), &body).await
    };
    // What is promised is compared, also where nothing could be it.
    let (status, _, text) = complete(&upload, &[("x-amz-checksum-crc32c", "AAAAAA==")]).await;
    assert!(status == StatusCode::BAD_REQUEST && text.contains("BadDigest"), "{text}");
    let (status, _, text) = complete(&upload, &[("x-amz-checksum-sha256", "bad")]).await;
    assert!(status == StatusCode::BAD_REQUEST && text.contains("BadDigest"), "{text}");
    let (status, _, text) = complete(&upload, &[("x-amz-checksum-type", "COMPOSITE")]).await;
    assert!(status == StatusCode::BAD_REQUEST && text.contains("InvalidRequest"), "{text}");
    // The kind of checksum that the upload was begun with, though it is not said again.
    let new = [("if-none-match", "*")];
    let (status, _, first) = complete(&upload, &new).await;
    assert_eq!(status, StatusCode::OK, "{first}");
    let whole = format!("<ChecksumCRC32C>{crc}</ChecksumCRC32C>");
    assert!(first.contains(&whole) && first.contains("FULL_OBJECT"), "{first}");
    let version = data.head("bkt", "k").await.unwrap()["last-modified"].clone();
    assert_eq!(complete(&upload, &new).await.2, first, "the answer was lost");
    assert_eq!(data.head("bkt", "k").await.unwrap()["last-modified"], version);
    // Not if something else is there by now.
    put(&data, "k", "other").await.unwrap();
    let (status, _, text) = complete(&upload, &[]).await;
    assert!(status == StatusCode::NOT_FOUND && text.contains("NoSuchUpload"), "{text}");
    assert!(text.contains("<RequestId>"), "{text}");
    assert_eq!(read(&data, "k").await.unwrap(), b"other");
    let wrong = headers(&[("x-amz-checksum-algorithm", "SHA256"), ("x-amz-checksum-type", "FULL_OBJECT")]);
    let (status, _, text) = told(&data, Method::POST, "k", &[("uploads", "")], wrong, "").await;
    assert!(status == StatusCode::BAD_REQUEST && text.contains("InvalidRequest"), "{text}");
}

#[tokio::test]
async fn what_s3_says_of_objects_and_names() {
    let Served { node: _node, data, _folder, .. } = served();
    data.create_bucket("bkt").await.unwrap();
    put(&data, "a b+c", "copied").await.unwrap();
    // As forms write it: a plus is a space.
    let from = headers(&[("x-amz-copy-source", "bkt/a+b%2Bc")]);
    let (status, _, text) = told(&data, Method::PUT, "copy", &[], from, "").await;
    assert_eq!(status, StatusCode::OK, "{text}");
    assert_eq!(read(&data, "copy").await.unwrap(), b"copied");
    let wanted = headers(&[("x-amz-object-attributes", "ETag,ObjectSize")]);
    let (status, _, text) = told(&data, Method::GET, "copy", &[("attributes", "")], wanted, "").await;
    assert!(status == StatusCode::OK && text.contains("<ObjectSize>6</ObjectSize>"), "{text}");
    let etag = "<ETag>ac9f7584d3fd6d49faa7bcf5e1ebec1f</ETag>";
    assert!(text.contains(etag) && !text.contains("<StorageClass>"), "{text}");
    let (_, _, text) = told(&data, Method::GET, "", &[("delimiter", "")], HeaderMap::new(), "").await;
    assert!(!text.contains("<Delimiter>"), "{text}");
    for bucket in ["aa.-bb", "aa-.bb"] {
        let answer =
            data.ask(Method::PUT, (bucket, ""), &[], HeaderMap::new(), Payload::Nothing).await.unwrap();
        assert_eq!(answer.status, StatusCode::BAD_REQUEST);
    }
    let codings = headers(&[("content-encoding", "br, aws-chunked, gzip")]);
    data.put("bkt", "coded", codings, Payload::Bytes("x".into())).await.unwrap();
    assert_eq!(data.head("bkt", "coded").await.unwrap()["content-encoding"], "br, gzip");
    let error = data.put("bkt", "k", headers(&[("content-md5", "")]), Payload::Bytes("x".into())).await;
    assert!(error.unwrap_err().to_string().contains("InvalidDigest"));
}

/// A cluster file of two nodes, the folder with its keys, and the ports of each: for data, and for control.
pub(crate) fn cluster_of(names: [&str; 2]) -> (Cluster, tempfile::TempDir, [tokio::net::TcpListener; 4]) {
    let ports = [any_port(), any_port(), any_port(), any_port()];
    let at = |n: usize| format!("http://{}", ports[n].local_addr().unwrap());
    let server = |name: &str, n| Server {
        name: name.into(),
        endpoint: at(n),
        control: Some(at(n + 1)),
        speed_millionths: 1_000_000,
        region: None,
        credentials: None,
    };
    let text = write(&[server(names[0], 0), server(names[1], 2)], "credentials");
    let folder = tempfile::tempdir().unwrap();
    (parsed(&text, folder.path()), folder, ports)
}

/// The cluster that a file describes, with the keys of tests beside it.
pub(crate) fn parsed(text: &str, folder: &Path) -> Cluster {
    let path = folder.join("credentials");
    std::fs::write(&path, "access_key = \"AK\"\nsecret_key = \"a secret of tests\"\n").unwrap();
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    Cluster::parse(text, folder).unwrap()
}

/// Two nodes that know each other, `s1` and `s2`.
fn cluster() -> (Served, Served) {
    let (cluster, _folder, [a, b, c, d]) = cluster_of(["s1", "s2"]);
    (serve(a, b, settings("s1", Some(cluster.clone()))), serve(c, d, settings("s2", Some(cluster))))
}

pub(crate) async fn hold(at: &Endpoint, server: &str, number: usize, bytes: &[u8]) -> Held {
    let key = format!(".evenkeel/held/abc/{number}");
    at.put("bkt", &key, HeaderMap::new(), Payload::Bytes(Bytes::copy_from_slice(bytes))).await.unwrap();
    let crc32c = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, bytes) as u32;
    Held { server: server.into(), key, bytes: bytes.len() as u64, crc32c }
}

pub(crate) async fn point(at: &Endpoint, key: &str, redirect: &Redirect) -> Result<(), StoreError> {
    let metadata = redirect.metadata();
    let headers: HeaderMap = metadata
        .iter()
        .map(|(name, value)| {
            let name = HeaderName::try_from(format!("x-amz-meta-{name}")).unwrap();
            (name, HeaderValue::from_str(value).unwrap())
        })
        .collect();
    at.put("bkt", key, headers, Payload::Bytes(redirect.to_json().into())).await.map(drop)
}

#[tokio::test]
async fn a_redirect_looks_like_the_object() {
    let (home, holder) = cluster();
    home.data.create_bucket("bkt").await.unwrap();
    holder.data.create_bucket("bkt").await.unwrap();
    let bytes = noise(500_000);
    let pieces = vec![
        hold(&holder.data, "s2", 0, &bytes[..200_000]).await,
        hold(&home.data, "s1", 1, &bytes[200_000..200_001]).await,
        hold(&holder.data, "s2", 2, &bytes[200_001..]).await,
    ];
    let redirect = Redirect::new("tag".into(), pieces.clone());
    point(&home.data, "far", &redirect).await.unwrap();

    assert!(read(&home.data, "far").await.unwrap() == bytes);
    for range in [0..1, 199_999..200_002, 200_000..200_001, 0..500_000, 499_999..500_000] {
        let wanted = Some(range.start as u64..range.end as u64);
        let (_, body) = home.data.get("bkt", "far", wanted, HeaderMap::new()).await.unwrap();
        assert!(all(body).await.unwrap() == bytes[range.clone()], "{range:?}");
    }
    let seen = home.data.head("bkt", "far").await.unwrap();
    assert_eq!(
        (&seen["content-length"], &seen["etag"]),
        (&"500000".parse().unwrap(), &"\"tag\"".parse().unwrap())
    );
    assert!(!seen.keys().any(|name| name.as_str().starts_with("x-amz-meta")));
    let listed = home.data.list("bkt", "", None).await.unwrap().objects;
    assert_eq!(listed.len(), 1, "what is held is not shown: {listed:?}");
    assert_eq!((listed[0].bytes, listed[0].etag.as_str()), (500_000, "tag"));
    assert_eq!(home.data.list("bkt", ".evenkeel/held/", None).await.unwrap().objects.len(), 1);

    let show = headers(&[("x-evenkeel-redirect", "show")]);
    let (told, body) = home.data.get("bkt", "far", None, show).await.unwrap();
    assert_eq!(told["x-amz-meta-evenkeel-redirect"], "1");
    assert_eq!(Redirect::parse(&all(body).await.unwrap()).unwrap(), redirect);

    let located: Value = home
        .control
        .say(Method::POST, "v1/locate", Some(&json!({"bucket": "bkt", "limit": 10})))
        .await
        .unwrap();
    assert_eq!(located["objects"][0]["redirect"]["pieces"][2]["server"], "s2");
    assert_eq!((&located["objects"][0]["bytes"], &located["next"]), (&json!(500_000), &Value::Null));

    let to_one = Redirect::new("one".into(), vec![pieces[0].clone()]);
    point(&home.data, "one", &to_one).await.unwrap();
    let answer = ask_signed(&home, "one", "follow").await;
    assert!(answer.starts_with("HTTP/1.1 307"), "{answer}");
    let url = answer.lines().find_map(|line| line.strip_prefix("location: ")).unwrap().to_owned();
    let path = url.strip_prefix(&holder.data.address().to_owned()).unwrap();
    let address = holder.node.address();
    let answer = ask(address, &format!("GET {path} HTTP/1.1\r\nhost: {address}\r\n\r\n")).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");

    // Brought home while somebody has the old entity tag in mind.
    let tag = headers(&[("if-match", "\"tag\"")]);
    home.data.put("bkt", "far", tag.clone(), Payload::Bytes("home".into())).await.unwrap();
    let again = home.data.put("bkt", "far", tag, Payload::Bytes("again".into())).await;
    assert_eq!(again.unwrap_err().problem, Problem::Changed);
    assert_eq!(read(&home.data, "far").await.unwrap(), b"home");
}

/// What a node answers to a request that carries this header, signed by a presigned address.
async fn ask_signed(node: &Served, key: &str, redirect: &str) -> String {
    let url = node.data.presigned("bkt", key, 60).unwrap();
    let path = url.strip_prefix(node.data.address()).unwrap().to_owned();
    let address = node.node.address();
    ask(
        address,
        &format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nx-evenkeel-redirect: {redirect}\r\n\r\n"),
    )
    .await
}

#[tokio::test]
async fn wrong_redirects_and_damaged_pieces_end_in_errors() {
    let (home, holder) = cluster();
    home.data.create_bucket("bkt").await.unwrap();
    holder.data.create_bucket("bkt").await.unwrap();
    let bytes = noise(300_000);
    let held = hold(&holder.data, "s2", 0, &bytes).await;
    let damaged = Held { crc32c: held.crc32c ^ 1, ..held.clone() };
    point(&home.data, "damaged", &Redirect::new("e".into(), vec![damaged])).await.unwrap();
    let error = read(&home.data, "damaged").await.unwrap_err();
    assert!(matches!(error.problem, Problem::Unreachable(_) | Problem::Damaged(_)), "{error}");
    let gone = Held { key: ".evenkeel/held/gone/0".into(), ..held.clone() };
    point(&home.data, "gone", &Redirect::new("e".into(), vec![gone])).await.unwrap();
    let error = read(&home.data, "gone").await.unwrap_err().to_string();
    assert!(error.contains("held by `s2`"), "{error}");
    let unknown = Held { server: "s9".into(), ..held.clone() };
    point(&home.data, "unknown", &Redirect::new("e".into(), vec![unknown])).await.unwrap();
    let error = read(&home.data, "unknown").await.unwrap_err().to_string();
    assert!(error.contains("cluster file"), "{error}");
    // What is no redirect is not written as one.
    let marked = headers(&[("x-amz-meta-evenkeel-redirect", "1")]);
    let junk = home.data.put("bkt", "junk", marked, Payload::Bytes("junk".into())).await.unwrap_err();
    assert!(junk.to_string().contains("InvalidArgument"), "{junk}");
    assert_eq!(home.data.head("bkt", "junk").await.unwrap_err().problem, Problem::NotFound);
    // A holder that is away.
    point(&home.data, "away", &Redirect::new("e".into(), vec![held.clone()])).await.unwrap();
    holder.node.stop(Duration::ZERO).await;
    assert!(matches!(read(&home.data, "away").await.unwrap_err().problem, Problem::Refused { .. }));
    // A node that knows nobody.
    let alone = served();
    alone.data.create_bucket("bkt").await.unwrap();
    point(&alone.data, "far", &Redirect::new("e".into(), vec![held])).await.unwrap();
    let answer = ask_signed(&alone, "far", "show").await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let url = alone.data.presigned("bkt", "far", 60).unwrap();
    let path = url.strip_prefix(alone.data.address()).unwrap();
    let address = alone.node.address();
    let answer = ask(address, &format!("GET {path} HTTP/1.1\r\nhost: {address}\r\n\r\n")).await;
    assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("--cluster FILE"), "{answer}");
}

#[tokio::test]
async fn the_control_port_paces_and_drains() {
    let served = served();
    served.data.create_bucket("bkt").await.unwrap();
    put(&served.data, "k", "x").await.unwrap();
    let status =
        served_settings(&served, json!({"paused": true, "slots": 2, "bytes_per_second": 1000})).await;
    assert_eq!(status["load"]["slots"], 2);
    assert_eq!((&status["paused"], &status["bytes_per_second"]), (&json!(true), &json!(1000)));
    let waits = tokio::time::timeout(Duration::from_millis(300), put(&served.data, "k", "y"));
    assert!(waits.await.is_err(), "it waits for a slot");
    let status =
        served_settings(&served, json!({"paused": false, "draining": true, "bytes_per_second": 0})).await;
    assert_eq!(status["bytes_per_second"], Value::Null);
    assert!(matches!(put(&served.data, "k", "z").await.unwrap_err().problem, Problem::Refused { .. }));
    assert_eq!(read(&served.data, "k").await.unwrap(), b"x");
    let refused: Result<Value, _> =
        served.control.say(Method::POST, "v1/settings", Some(&json!({"slots": 0}))).await;
    assert!(refused.unwrap_err().to_string().contains("paused"));
    let wrong = Endpoint::new(served.control.address(), "AK", "another secret").unwrap();
    let refused: Result<Value, _> = wrong.say(Method::GET, "v1/status", None::<&()>).await;
    assert!(refused.is_err());
    let answer =
        ask(served.node.control_address().unwrap(), "GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n").await;
    assert!(answer.contains("evenkeel_slots{node=\"s1\"} 2"), "{answer}");
}

async fn served_settings(served: &Served, what: Value) -> Value {
    served.control.say(Method::POST, "v1/settings", Some(&what)).await.unwrap()
}

#[tokio::test]
async fn a_stop_finishes_what_is_under_way() {
    let served = served();
    served.data.create_bucket("bkt").await.unwrap();
    let bytes = noise(4_000_000);
    put(&served.data, "k", bytes.clone()).await.unwrap();
    served_settings(&served, json!({"bytes_per_second": 8_000_000})).await;
    let (_, body) = served.data.get("bkt", "k", None, HeaderMap::new()).await.unwrap();
    let address = served.node.address();
    let (got, ()) = tokio::join!(all(body), served.node.stop(Duration::from_mins(1)));
    assert!(got.unwrap() == bytes);
    assert!(TcpStream::connect(address).await.is_err(), "nobody listens any more");
}

/// What a node answers to these bytes, as text.
async fn ask(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    // It may have been refused before it was complete.
    let _ = stream.write_all(request.as_bytes()).await;
    let mut answer = vec![0; 64 << 10];
    let mut n = 0;
    while let Ok(Ok(more)) =
        tokio::time::timeout(Duration::from_millis(500), stream.read(&mut answer[n..])).await
        && more > 0
    {
        n += more;
    }
    String::from_utf8_lossy(&answer[..n]).into_owned()
}

#[tokio::test]
async fn hostile_requests_are_refused() {
    let served = served();
    served.data.create_bucket("bkt").await.unwrap();
    put(&served.data, "k", "x").await.unwrap();
    let address = served.node.address();
    let status = |answer: String| {
        let code = answer.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
        (StatusCode::from_u16(code).unwrap_or_default(), answer)
    };
    let long = "x".repeat(200 << 10);
    let many: String = "h: x\r\n".repeat(300);
    let host = format!("host: {address}\r\n");
    let cases = [
        (format!("GET /bkt/k HTTP/1.1\r\n{host}\r\n"), 403),
        (format!("GET /bkt/../../etc/passwd HTTP/1.1\r\n{host}\r\n"), 403),
        (format!("GET /%2e%2e/%2e%2e/etc/passwd HTTP/1.1\r\n{host}\r\n"), 400),
        (format!("GET /bkt/k HTTP/1.1\r\n{host}authorization: AWS4-HMAC-SHA256 nonsense\r\n\r\n"), 400),
        (format!("GET /bkt/k HTTP/1.1\r\n{host}x-long: {long}\r\n\r\n"), 431),
        (format!("GET /bkt/k HTTP/1.1\r\n{host}{many}\r\n"), 431),
        (format!("GET /bkt/{long} HTTP/1.1\r\n{host}\r\n"), 414),
        ("nonsense\r\n\r\n".to_owned(), 400),
        (
            format!(
                "POST /bkt HTTP/1.1\r\n{host}content-type: multipart/form-data; boundary=b\r\ncontent-length: 0\r\n\r\n"
            ),
            501,
        ),
        (format!("PUT /bkt/k HTTP/1.1\r\n{host}content-length: -1\r\n\r\n"), 400),
        (format!("GET /bkt/k?X-Amz-Signature=0 HTTP/1.1\r\n{host}\r\n"), 400),
    ];
    for (request, expected) in cases {
        let (code, answer) = status(ask(address, &request).await);
        let allowed = [expected, if expected == 414 { 431 } else { expected }];
        let shown = &request[..request.len().min(80)];
        assert!(allowed.contains(&code.as_u16()), "{shown}: {}", &answer[..answer.len().min(300)]);
        assert!(!answer.contains("a secret of tests"));
    }
    // A presigned address is for one object, and for a while.
    let url = served.data.presigned("bkt", "k", 60).unwrap();
    let path = url.strip_prefix(served.data.address()).unwrap().to_owned();
    assert_eq!(status(ask(address, &format!("GET {path} HTTP/1.1\r\n{host}\r\n")).await).0, StatusCode::OK);
    for wrong in [path.replace("/bkt/k", "/bkt/l"), path.replace("Expires=60", "Expires=600")] {
        let (code, answer) = status(ask(address, &format!("GET {wrong} HTTP/1.1\r\n{host}\r\n")).await);
        assert_eq!(code, StatusCode::FORBIDDEN, "{answer}");
    }
    // It is not for a copy of another object. S3 has no signature that covers a header without its name.
    let copies = format!("GET {path} HTTP/1.1\r\n{host}x-amz-copy-source: bkt/k\r\n\r\n");
    assert_eq!(status(ask(address, &copies).await).0, StatusCode::FORBIDDEN);
    assert_eq!(read(&served.data, "k").await.unwrap(), b"x", "the node goes on");
}

#[tokio::test]
async fn a_body_that_breaks_off_leaves_nothing() {
    let served = served();
    served.data.create_bucket("bkt").await.unwrap();
    let broken = futures_util::stream::iter([Ok(Bytes::from(noise(100_000)))]);
    let failed =
        served.data.put("bkt", "k", HeaderMap::new(), Payload::Stream(1_000_000, Box::pin(broken))).await;
    assert!(failed.is_err());
    assert_eq!(served.data.head("bkt", "k").await.unwrap_err().problem, Problem::NotFound);
    for _ in 0..100 {
        if served.node.gate().load().busy == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the slot is not given back");
}

#[tokio::test]
async fn idle_connections_are_no_burden() {
    let served = served();
    served.data.create_bucket("bkt").await.unwrap();
    let mut idle = Vec::new();
    for _ in 0..1000 {
        idle.push(TcpStream::connect(served.node.address()).await.unwrap());
    }
    put(&served.data, "k", "x").await.unwrap();
    assert_eq!(read(&served.data, "k").await.unwrap(), b"x");
}

/// A redirect that cannot be read is told of its own object.
#[tokio::test]
async fn one_bad_redirect_does_not_hide_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let store = Folder::open(folder.path(), Options::default()).unwrap();
    store.create_bucket("bkt").await.unwrap();
    for (key, body, is_marked) in [("a", "x", false), ("b", "{", true), ("c", "y", false)] {
        let mark = is_marked.then(|| (redirect::MARK.to_owned(), "1".to_owned()));
        let attributes = Attributes { user: mark.into_iter().collect(), ..Attributes::default() };
        let bytes = stream::iter([Ok(Bytes::from(body))]).boxed();
        let body = Incoming { bytes, size: Some(1), checksum: Arc::default() };
        store.put("bkt", key, attributes, body, Condition::Always).await.unwrap();
    }
    let node = Node::start(Arc::new(store), any_port(), Some(any_port()), settings("s1", None)).unwrap();
    let address = format!("http://{}", node.control_address().unwrap());
    let control = Endpoint::new(&address, &keys().access_key, &keys().secret_key).unwrap();
    let what = json!({"bucket": "bkt"});
    let located: Value = control.say(Method::POST, "v1/locate", Some(&what)).await.unwrap();
    let objects = located["objects"].as_array().unwrap();
    let found: Vec<_> =
        objects.iter().map(|one| (one["key"].as_str().unwrap(), one["redirect"].is_null())).collect();
    assert_eq!(found, [("a", true), ("b", false), ("c", true)]);
    assert!(objects[1]["redirect"]["error"].as_str().unwrap().contains("bkt/b"), "{located}");
}

#[tokio::test]
async fn nodes_come_up_again_as_they_were() {
    let folder = tempfile::tempdir().unwrap();
    let open = |path: &Path| -> Result<Arc<dyn evenkeel_node::node::store::Store>, _> {
        Ok(Arc::new(Folder::open(path, Options::default())?))
    };
    let mut settings = UpSettings {
        nodes: Some(3),
        folder: folder.path().to_owned(),
        port: None,
        speeds: [("s3".to_owned(), 100_000)].into(),
        slots: 4,
        upkeep: None,
        logs: false,
    };
    let up = Up::start(&settings, open).unwrap();
    assert_eq!(up.nodes()[2].gate().rate(), Some(10_000_000));
    assert_eq!(up.nodes()[0].gate().rate(), None);
    let (servers, keys) = (up.servers().to_vec(), up.keys().clone());
    let cluster = Cluster::read(up.cluster()).unwrap();
    assert_eq!((&cluster.servers, cluster.credentials(&servers[0]).unwrap()), (&servers, keys.clone()));
    let first = Endpoint::new(&servers[0].endpoint, &keys.access_key, &keys.secret_key).unwrap();
    first.create_bucket("bkt").await.unwrap();
    put(&first, "k", "kept").await.unwrap();
    up.stop(Duration::from_secs(10)).await;

    settings.nodes = Some(2);
    let error = Up::start(&settings, open).unwrap_err().to_string();
    assert!(error.contains("holds 3 nodes"), "{error}");
    (settings.nodes, settings.speeds) = (None, [("s1".to_owned(), 500_000)].into());
    let up = Up::start(&settings, open).unwrap();
    assert_eq!(up.keys(), &keys);
    assert_eq!(up.servers()[0].endpoint, servers[0].endpoint);
    assert_eq!(up.nodes()[2].gate().rate(), Some(10_000_000), "speeds are kept");
    assert_eq!(up.nodes()[0].gate().rate(), Some(50_000_000));
    assert_eq!(read(&first, "k").await.unwrap(), b"kept");
}
