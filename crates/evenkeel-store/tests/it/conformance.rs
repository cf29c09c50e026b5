//! What every source must do. Each is filled with the same data, and checked by the same code.
//!
//! `EVENKEEL_TEST_S3` names a bucket to which the suite may write, such as
//! `s3://bucket/suite/?endpoint=http://10.77.0.11:3900`, with credentials as usual. `cargo xtask cluster selftest garage`
//! does. `EVENKEEL_TEST_HDFS` likewise names a folder, such as `hdfs://n1:8020/suite`, and `EVENKEEL_TEST_HDFS_HTTP` where
//! it is written, `http://n1:9870`. Blocks of 64 KiB must be allowed there. `EVENKEEL_TEST_WEBHDFS` is such a folder by
//! HTTP, `webhdfs://n1:9870/suite`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};

use evenkeel_store::{Hasher, Object, Problem, Source, StoreError, open};
use futures_util::TryStreamExt;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::bucket::{Buckets, etag};
use crate::hadoop::Hadoop;
use crate::namenode::Cluster;
use crate::serve::{Reply, Server};

/// Storage that a test can fill and change.
trait Storage {
    /// The address of its data.
    fn address(&self) -> String;
    fn put(&self, key: &str, data: &[u8]);
    fn remove(&self, key: &str);
}

/// Names with blanks, signs and folders; sizes around those that matter.
fn data() -> BTreeMap<String, Vec<u8>> {
    let names =
        ["a", "b c", "größe/ü+%41&x=?#.txt", "deep/er/and/er", "one", "empty", "gone", "other", "longer"];
    let sizes = [100_000, 1000, 777, 1, 1, 0, 10, 300_000, 10];
    let sized = names.into_iter().zip(sizes);
    let mut data: BTreeMap<String, Vec<u8>> =
        sized.map(|(name, bytes)| (name.to_owned(), noise(bytes as u64, bytes))).collect();
    data.extend((0..20_u64).map(|n| (format!("many/{n}"), noise(n, 50))));
    data
}

/// Bytes that look random, the same for the same seed.
fn noise(seed: u64, n: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    std::iter::repeat_with(&mut next).flatten().take(n).collect()
}

async fn listed(source: &dyn Source) -> Vec<Object> {
    source.list().map_ok(|page| page.objects).try_concat().await.unwrap()
}

/// Reads a range from the servers that hold it, the last in each case.
async fn read(source: &dyn Source, object: &Object, from: u64, to: u64) -> Result<Vec<u8>, StoreError> {
    let (mut found, mut at, mut extents, mut end) = (Vec::new(), from, object.extents.iter(), 0);
    loop {
        let extent = extents.next();
        // What is behind the last one is asked for as well.
        let server = extent.or(object.extents.last()).and_then(|extent| extent.servers.last());
        end = extent.map_or(u64::MAX, |extent| end + extent.bytes);
        if at >= end {
            continue;
        }
        let range = at..to.min(end);
        let server = server.map_or(0, |&server| server as usize);
        let chunks: Vec<_> = source.read(object, server, range.clone()).await?.try_collect().await?;
        found.extend(chunks.concat());
        at = range.end;
        if at >= to {
            return Ok(found);
        }
    }
}

/// The suite.
async fn conforms(storage: &dyn Storage) {
    let data = data();
    data.iter().for_each(|(key, bytes)| storage.put(key, bytes));
    let source = open(&storage.address()).unwrap();
    let source = source.as_ref();

    // All objects, each once, as they are.
    let objects = listed(source).await;
    let mut keys: Vec<&str> = objects.iter().map(|object| object.key.as_str()).collect();
    keys.sort_unstable();
    assert_eq!(keys, data.keys().collect::<Vec<_>>());
    for object in &objects {
        let bytes = &data[&object.key];
        assert_eq!(object.bytes, bytes.len() as u64, "{object:?}");
        assert_eq!(object.extents.iter().map(|extent| extent.bytes).sum::<u64>(), object.bytes);
        let servers = object.extents.iter().flat_map(|extent| &extent.servers);
        servers.for_each(|&server| assert!((server as usize) < source.servers().len(), "{object:?}"));
        assert!(object.identity.is_some(), "{object:?}");
        for hash in &object.hashes {
            let mut hasher = Hasher::new(hash.algorithm);
            hasher.update(bytes);
            assert_eq!(hasher.finish(), *hash, "{object:?}");
        }
    }
    // The same again.
    assert_eq!(listed(source).await.len(), objects.len());
    let of = |key: &str| objects.iter().find(|object| object.key == key).unwrap();

    // Ranges of every kind, of every object.
    for object in &objects {
        let (bytes, n) = (&data[&object.key], object.bytes);
        let ranges = [(0, 0), (n, n), (0, 1), (n.saturating_sub(1), n), (0, n), (n / 3, n / 2), (1, n)];
        for (from, to) in ranges.into_iter().filter(|(from, to)| from <= to && *to <= n) {
            let found = read(source, object, from, to).await.unwrap();
            assert!(found == bytes[from as usize..to as usize], "{from}..{to} of {}", object.key);
        }
    }
    // Many at once, and one that is broken off.
    let first = &of("other").extents[0];
    drop(source.read(of("other"), first.servers[0] as usize, 0..first.bytes).await.unwrap());
    let parts = (0..30_u64).map(|k| read(source, of("other"), k * 10_000, (k + 1) * 10_000));
    let parts: Vec<_> = futures_util::future::try_join_all(parts).await.unwrap();
    assert!(parts.concat() == data["other"]);

    // Beyond the end there is nothing, and that is an error.
    for (key, from, to) in [("b c", 0, 1001), ("b c", 999, 1002), ("b c", 1000, 1001), ("empty", 0, 1)] {
        let found = read(source, of(key), from, to).await;
        assert!(found.is_err(), "{from}..{to} of {key}: {} bytes", found.map_or(0, |bytes| bytes.len()));
    }

    // What changes after it was listed is not read: neither of the same size, nor of another.
    storage.put("b c", &noise(4711, 1000));
    storage.put("longer", &noise(4711, 20));
    for (key, from, to) in [("b c", 0, 1000), ("b c", 10, 20), ("longer", 0, 10), ("longer", 3, 7)] {
        let error = read(source, of(key), from, to).await.unwrap_err();
        assert_eq!(error.problem, Problem::Changed, "{from}..{to} of {key}");
    }
    let again = listed(source).await;
    let changed = again.iter().find(|object| object.key == "b c").unwrap();
    assert_eq!(read(source, changed, 0, 1000).await.unwrap(), noise(4711, 1000));

    // What is gone is named.
    storage.remove("gone");
    let error = read(source, of("gone"), 0, 10).await.unwrap_err();
    assert_eq!(error.problem, Problem::NotFound);
    assert!(error.to_string().contains("gone"), "{error}");
    assert_eq!(listed(source).await.len(), objects.len() - 1);
}

impl Storage for tempfile::TempDir {
    fn address(&self) -> String {
        self.path().display().to_string()
    }

    fn put(&self, key: &str, data: &[u8]) {
        let path = self.path().join(key);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, data).unwrap();
    }

    fn remove(&self, key: &str) {
        fs::remove_file(self.path().join(key)).unwrap();
    }
}

#[tokio::test]
async fn a_folder() {
    conforms(&tempfile::tempdir().unwrap()).await;
}

/// A website with indexes in JSON.
struct Website {
    server: Server,
    files: Arc<Mutex<BTreeMap<String, Vec<u8>>>>,
}

impl Website {
    fn start() -> Self {
        let files: Arc<Mutex<BTreeMap<String, Vec<u8>>>> = Arc::default();
        let held = Arc::clone(&files);
        let server = Server::start(move |request| {
            let files = held.lock().unwrap();
            if request.method == "PROPFIND" {
                return Reply::new(405, "");
            }
            if let Some(data) = files.get(&request.path) {
                return Reply::data(request, data, &etag(data));
            }
            let below = files.keys().filter_map(|key| key.strip_prefix(&request.path));
            let mut entries: Vec<serde_json::Value> = below
                .map(|name| match name.split_once('/') {
                    Some((folder, _)) => serde_json::json!({"name": folder, "type": "directory"}),
                    None => serde_json::json!({"name": name, "type": "file"}),
                })
                .collect();
            entries.dedup();
            match request.path.is_empty() || request.path.ends_with('/') && !entries.is_empty() {
                true => Reply::new(200, serde_json::Value::from(entries).to_string())
                    .with("Content-Type", "application/json"),
                false => Reply::new(404, ""),
            }
        });
        Self { server, files }
    }
}

impl Storage for Website {
    fn address(&self) -> String {
        format!("{}/", self.server.address)
    }

    fn put(&self, key: &str, data: &[u8]) {
        self.files.lock().unwrap().insert(key.to_owned(), data.to_vec());
    }

    fn remove(&self, key: &str) {
        self.files.lock().unwrap().remove(key);
    }
}

#[tokio::test]
async fn a_website() {
    conforms(&Website::start()).await;
}

impl Storage for Buckets {
    fn address(&self) -> String {
        Self::address(self, "bucket/some/where/")
    }

    fn put(&self, key: &str, data: &[u8]) {
        self.put(&format!("bucket/some/where/{key}"), data);
    }

    fn remove(&self, key: &str) {
        self.objects.lock().unwrap().remove(&format!("bucket/some/where/{key}"));
    }
}

/// One that lists few objects at a time.
#[tokio::test]
async fn a_bucket() {
    conforms(&Buckets::start(7, None, None)).await;
}

/// What signatures expect to be encoded.
const RESERVED: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

/// A bucket of a real server, written by curl, which signs requests too.
struct RealBucket {
    address: String,
    /// `http://host/bucket/prefix/`.
    url: String,
    options: Vec<String>,
}

impl RealBucket {
    fn curl(&self, args: &[&str], key: &str) {
        let url = format!("{}{}", self.url, utf8_percent_encode(key, RESERVED));
        let output =
            Command::new("curl").args(["-sS", "--fail"]).args(&self.options).args(args).arg(&url).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{url}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

impl Storage for RealBucket {
    fn address(&self) -> String {
        self.address.clone()
    }

    fn put(&self, key: &str, data: &[u8]) {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), data).unwrap();
        self.curl(&["-T", file.path().to_str().unwrap()], key);
    }

    fn remove(&self, key: &str) {
        self.curl(&["-X", "DELETE"], key);
    }
}

/// Credentials, as `cargo xtask cluster garage up` writes them.
fn credentials(file: &Path) -> BTreeMap<String, String> {
    let text = fs::read_to_string(file).unwrap();
    let lines = text.lines().filter_map(|line| line.split_once(" = "));
    lines.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

#[tokio::test]
async fn a_real_bucket() {
    let Ok(address) = std::env::var("EVENKEEL_TEST_S3") else {
        println!("skipped: EVENKEEL_TEST_S3 names no bucket; `cargo xtask cluster selftest garage` does");
        return;
    };
    let file = std::env::var("AWS_SHARED_CREDENTIALS_FILE").unwrap();
    let known = credentials(Path::new(&file));
    let (place, query) = address.strip_prefix("s3://").unwrap().split_once('?').unwrap();
    let endpoint = query.split('&').find_map(|pair| pair.strip_prefix("endpoint=")).unwrap();
    let bucket = RealBucket {
        address: address.clone(),
        url: format!("{endpoint}/{place}"),
        options: vec![
            "--aws-sigv4".to_owned(),
            format!("aws:amz:{}:s3", known["region"]),
            "--user".to_owned(),
            format!("{}:{}", known["aws_access_key_id"], known["aws_secret_access_key"]),
            "-H".to_owned(),
            "x-amz-content-sha256: UNSIGNED-PAYLOAD".to_owned(),
        ],
    };
    conforms(&bucket).await;
}

impl Storage for Hadoop {
    fn address(&self) -> String {
        self.address("/some/where/")
    }

    fn put(&self, key: &str, data: &[u8]) {
        self.put(&format!("/some/where/{key}"), data);
    }

    fn remove(&self, key: &str) {
        self.remove(&format!("/some/where/{key}"));
    }
}

#[tokio::test]
async fn a_small_hdfs() {
    conforms(&Hadoop::start()).await;
}

/// One whose DataNodes want tokens.
#[tokio::test]
async fn a_small_hdfs_with_tokens() {
    let hadoop = Hadoop::start();
    hadoop.set_token(b"open sesame");
    conforms(&hadoop).await;
}

/// A folder of a real HDFS, written by curl.
struct RealHdfs {
    address: String,
    /// `http://host:9870/webhdfs/v1/folder`.
    url: String,
}

impl RealHdfs {
    fn curl(&self, args: &[&str], key: &str, query: &str) {
        let url = format!("{}/{}?user.name=root&{query}", self.url, utf8_percent_encode(key, RESERVED));
        let output =
            Command::new("curl").args(["-sS", "-L", "--fail"]).args(args).arg(&url).output().unwrap();
        assert!(output.status.success(), "{url}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

impl Storage for RealHdfs {
    fn address(&self) -> String {
        self.address.clone()
    }

    fn put(&self, key: &str, data: &[u8]) {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), data).unwrap();
        self.curl(&["-T", file.path().to_str().unwrap()], key, "op=CREATE&overwrite=true&blocksize=65536");
    }

    fn remove(&self, key: &str) {
        self.curl(&["-X", "DELETE"], key, "op=DELETE&recursive=true");
    }
}

#[tokio::test]
async fn a_real_hdfs() {
    let variable = |name: &str| std::env::var(name).ok();
    let Some((address, web)) = variable("EVENKEEL_TEST_HDFS").zip(variable("EVENKEEL_TEST_HDFS_HTTP")) else {
        println!("skipped: EVENKEEL_TEST_HDFS names no folder; `cargo xtask cluster selftest hdfs` does");
        return;
    };
    let path = address.splitn(4, '/').nth(3).unwrap().trim_end_matches('/').to_owned();
    let hdfs = RealHdfs { address, url: format!("{web}/webhdfs/v1/{path}") };
    hdfs.remove("");
    conforms(&hdfs).await;
}

impl Storage for Cluster {
    fn address(&self) -> String {
        Self::address(self, "some/wh ere/")
    }

    fn put(&self, key: &str, data: &[u8]) {
        self.put(&format!("some/wh ere/{key}"), data);
    }

    fn remove(&self, key: &str) {
        self.remove(&format!("some/wh ere/{key}"));
    }
}

#[tokio::test]
async fn a_small_webhdfs() {
    conforms(&Cluster::start(true)).await;
}

/// As a router of a federation has it.
#[tokio::test]
async fn a_small_webhdfs_without_inodes() {
    conforms(&Cluster::start(false)).await;
}

/// A folder of a real HDFS, written by curl.
struct RealWebHdfs {
    address: String,
}

impl RealWebHdfs {
    fn curl(&self, args: &[&str], key: &str, query: &str) {
        let folder = self.address.replacen("webhdfs://", "", 1);
        let (namenode, path) = folder.trim_end_matches('/').split_once('/').unwrap();
        let path = format!("{path}/{key}");
        let path = utf8_percent_encode(&path, RESERVED);
        let user = std::env::var("HADOOP_USER_NAME").or(std::env::var("USER")).unwrap_or("root".to_owned());
        let url = format!("http://{namenode}/webhdfs/v1/{path}?{query}&user.name={user}");
        let output =
            Command::new("curl").args(["-sS", "--fail", "-L"]).args(args).arg(&url).output().unwrap();
        assert!(output.status.success(), "{url}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

impl Storage for RealWebHdfs {
    fn address(&self) -> String {
        self.address.clone()
    }

    fn put(&self, key: &str, data: &[u8]) {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), data).unwrap();
        let args = ["-X", "PUT", "-T", file.path().to_str().unwrap()];
        self.curl(&args, key, "op=CREATE&overwrite=true&blocksize=65536");
    }

    fn remove(&self, key: &str) {
        self.curl(&["-X", "DELETE"], key, "op=DELETE");
    }
}

#[tokio::test]
async fn a_real_webhdfs() {
    let Ok(address) = std::env::var("EVENKEEL_TEST_WEBHDFS") else {
        println!("skipped: EVENKEEL_TEST_WEBHDFS names no folder; `cargo xtask cluster selftest hdfs` does");
        return;
    };
    conforms(&RealWebHdfs { address }).await;
}
