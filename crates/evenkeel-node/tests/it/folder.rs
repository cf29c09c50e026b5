//! The store in a folder, against a model in memory, and on real files that are damaged.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use evenkeel_node::node::store::folder::{Folder, Options};
use evenkeel_node::node::store::{
    Attributes, Checksum, Chosen, Condition, Entry, Incoming, Listing, Selection, Store, StoreError,
};
use futures_util::{StreamExt, TryStreamExt, stream};

use crate::noise;

fn opened(folder: &Path) -> Folder {
    Folder::open(folder, Options::default()).unwrap()
}

/// Bytes in chunks of this size.
fn body(bytes: &[u8], chunk: usize) -> Incoming {
    let chunks: Vec<_> = bytes.chunks(chunk).map(|chunk| Ok(Bytes::copy_from_slice(chunk))).collect();
    Incoming {
        bytes: stream::iter(chunks).boxed(),
        size: Some(bytes.len() as u64),
        checksum: Arc::new(OnceLock::new()),
    }
}

async fn put(store: &Folder, key: &str, bytes: &[u8]) -> Entry {
    store.put("bucket", key, Attributes::default(), body(bytes, 10_000), Condition::Always).await.unwrap()
}

async fn get(store: &Folder, key: &str, range: Range<u64>) -> Result<Vec<u8>, StoreError> {
    let (_, bytes) = store.get("bucket", key, None, &|_| Ok(range.clone())).await?;
    let chunks: Vec<Bytes> = bytes.try_collect().await?;
    Ok(chunks.concat())
}

async fn whole(store: &Folder, key: &str) -> Result<Vec<u8>, StoreError> {
    get(store, key, 0..u64::MAX).await
}

#[tokio::test]
async fn what_was_put_is_there_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let sizes = [0, 1, 4096, 65_536, 65_537, 131_072, 200_000, 1 << 20, (1 << 20) + 1];
    {
        let store = opened(folder.path());
        store.create_bucket("bucket").await.unwrap();
        for (i, size) in sizes.into_iter().enumerate() {
            let entry = put(&store, &format!("key {size}"), &noise(i as u64, size)).await;
            assert_eq!(entry.bytes, size as u64);
        }
    }
    let store = opened(folder.path());
    for (i, size) in sizes.into_iter().enumerate() {
        let key = format!("key {size}");
        let bytes = noise(i as u64, size);
        assert_eq!(whole(&store, &key).await.unwrap(), bytes);
        for range in [0..1, 65_535..65_537, 65_536..131_072, 100_000..1_000_000] {
            let is = get(&store, &key, range.clone()).await.unwrap();
            let from = (range.start as usize).min(size);
            assert_eq!(is, bytes[from..(range.end as usize).min(size).max(from)], "{key} {range:?}");
        }
    }
    let usage = store.usage().await.unwrap().unwrap();
    assert_eq!((usage.objects, usage.bytes), (sizes.len() as u64, sizes.iter().sum::<usize>() as u64));
    let scrub = store.scrub().await.unwrap();
    assert_eq!((scrub.objects, scrub.bytes, scrub.damaged), (usage.objects, usage.bytes, vec![]));
}

/// An object as the model has it.
#[derive(Clone, Debug)]
struct Object {
    bytes: Vec<u8>,
    entry: Entry,
}

#[derive(Clone, Debug)]
struct Unfinished {
    key: String,
    id: String,
    attributes: Attributes,
    parts: BTreeMap<u32, (Vec<u8>, String)>,
}

/// What a store is to do, done simply.
#[derive(Debug, Default)]
struct Model {
    objects: BTreeMap<String, Object>,
    uploads: Vec<Unfinished>,
}

impl Model {
    fn holds(&self, key: &str, condition: &Condition) -> bool {
        let entry = self.objects.get(key).map(|object| &object.entry);
        match condition {
            Condition::Always => true,
            Condition::Absent => entry.is_none(),
            Condition::Etag(etag) => entry.is_some_and(|entry| etag == "*" || *etag == entry.etag),
            Condition::Version(version) => entry.is_some_and(|entry| *version == entry.version),
        }
    }

    fn list(&self, what: &Selection) -> Listing {
        let mut items: BTreeMap<String, Option<Entry>> = BTreeMap::new();
        for (key, object) in &self.objects {
            let Some(rest) = key.strip_prefix(&what.prefix) else { continue };
            match rest.find(&what.delimiter).filter(|_| !what.delimiter.is_empty()) {
                Some(at) => {
                    items.insert(key[..what.prefix.len() + at + what.delimiter.len()].to_owned(), None)
                }
                None => items.insert(key.clone(), Some(object.entry.clone())),
            };
        }
        items.retain(|name, _| *name > what.after);
        let mut listing = Listing::default();
        if what.limit < items.len() {
            listing.next = items.keys().take(what.limit).next_back().cloned();
        }
        for (name, entry) in items.into_iter().take(what.limit) {
            match entry {
                Some(entry) => listing.entries.push((name, entry)),
                None => listing.prefixes.push(name),
            }
        }
        listing
    }
}

/// Numbers that look random, the same for the same seed.
struct Draw(u64);

impl Draw {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 16) % n
    }

    fn one<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize].clone()
    }

    fn bytes(&mut self) -> Vec<u8> {
        let most = self.one(&[10, 500, 3000, 200_000]);
        noise(self.0, self.below(most) as usize)
    }

    fn key(&mut self) -> String {
        self.one(&[
            "a",
            "a/",
            "a/b",
            "a/b/c",
            "a/b/d",
            "a/bc",
            "a0",
            "ab",
            "ä/ö",
            "ä/ü",
            "b//c",
            "b/\0",
            "\u{10FFFF}/x",
        ])
        .to_owned()
    }

    fn attributes(&mut self) -> Attributes {
        let mut attributes = Attributes::default();
        if self.below(2) == 0 {
            attributes.headers.insert("content-type".into(), format!("text/{}", self.below(9)));
            attributes.user.insert("ключ".into(), self.below(100).to_string());
        }
        attributes
    }

    fn condition(&mut self, model: &Model, key: &str) -> Condition {
        let entry = model.objects.get(key).map(|object| object.entry.clone());
        match (self.below(8), entry) {
            (0, _) => Condition::Absent,
            (1, _) => Condition::Etag("*".into()),
            (2, Some(entry)) => Condition::Etag(entry.etag),
            (3, Some(entry)) => Condition::Version(entry.version),
            (2, None) => Condition::Etag("00".into()),
            (3, None) => Condition::Version(1),
            _ => Condition::Always,
        }
    }
}

fn small() -> Options {
    Options { inline_bytes: 1000, least_part_bytes: 100, ..Options::default() }
}

/// Random operations, one after another, with a restart at times.
#[tokio::test]
async fn it_does_what_the_model_does() {
    let times: u64 = std::env::var("EVENKEEL_TIMES").ok().and_then(|times| times.parse().ok()).unwrap_or(1);
    for seed in 1..=6 * times {
        println!("seed {seed}");
        let folder = tempfile::tempdir().unwrap();
        let mut draw = Draw(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        let mut model = Model::default();
        let mut store = Folder::open(folder.path(), small()).unwrap();
        store.create_bucket("bucket").await.unwrap();
        // Names of other buckets are neighbours of ours in the index.
        store.create_bucket("bucket0").await.unwrap();
        store.create_bucket("bucke").await.unwrap();
        let mut last_version = 0;
        for _ in 0..250 {
            last_version = operate(&store, &mut model, &mut draw, last_version).await;
            if draw.below(60) == 0 {
                drop(store);
                store = Folder::open(folder.path(), small()).unwrap();
            }
        }
        for (key, object) in &model.objects {
            assert_eq!(whole(&store, key).await.unwrap(), object.bytes, "seed {seed}: {key:?}");
        }
        let usage = store.usage().await.unwrap().unwrap();
        let bytes: usize = model.objects.values().map(|object| object.bytes.len()).sum();
        assert_eq!((usage.objects, usage.bytes), (model.objects.len() as u64, bytes as u64));
        let scrub = store.scrub().await.unwrap();
        let parts: usize = model.uploads.iter().map(|upload| upload.parts.len()).sum();
        assert_eq!((scrub.objects, scrub.damaged), (usage.objects + parts as u64, vec![]));
        // Without objects and uploads there are no files.
        for upload in &model.uploads {
            store.abort_upload("bucket", &upload.key, &upload.id).await.unwrap();
        }
        for key in model.objects.keys() {
            assert!(matches!(store.delete_bucket("bucket").await, Err(StoreError::BucketNotEmpty(_))));
            store.delete("bucket", key, Condition::Always).await.unwrap();
        }
        store.delete_bucket("bucket").await.unwrap();
        drop(store);
        assert_eq!(blobs(folder.path()), Vec::<PathBuf>::new());
    }
}

#[allow(clippy::too_many_lines)] // one arm per operation
async fn operate(store: &Folder, model: &mut Model, draw: &mut Draw, last_version: u64) -> u64 {
    let key = draw.key();
    let condition = draw.condition(model, &key);
    let holds = model.holds(&key, &condition);
    let mut version = last_version;
    let written =
        |model: &mut Model, key: &str, result: Result<Entry, StoreError>, bytes: Vec<u8>| match result {
            Ok(entry) => {
                assert!(holds && entry.version > last_version, "{entry:?}");
                assert_eq!(entry.bytes, bytes.len() as u64);
                let version = entry.version;
                model.objects.insert(key.to_owned(), Object { bytes, entry });
                version
            }
            Err(StoreError::Precondition(_)) => {
                assert!(!holds);
                last_version
            }
            Err(error) => panic!("{error}"),
        };
    match draw.below(12) {
        0..=3 => {
            let (bytes, attributes) = (draw.bytes(), draw.attributes());
            let mut body = body(&bytes, 1 + draw.below(100_000) as usize);
            if draw.below(2) == 0 {
                body.size = None;
            }
            let checksum = Checksum { algorithm: "CRC32C".into(), value: "AAAAAA==".into() };
            let _ = body.checksum.set(checksum.clone());
            let result = store.put("bucket", &key, attributes.clone(), body, condition).await;
            if let Ok(entry) = &result {
                assert_eq!((&entry.attributes, &entry.checksum), (&attributes, &Some(checksum)));
            }
            version = written(model, &key, result, bytes);
        }
        4 => match store.delete("bucket", &key, condition).await {
            Ok(()) => {
                assert!(holds);
                model.objects.remove(&key);
            }
            Err(StoreError::Precondition(_)) => assert!(!holds),
            Err(error) => panic!("{error}"),
        },
        5 => {
            let from = draw.key();
            let Some(object) = model.objects.get(&from).cloned() else { return version };
            let attributes = if draw.below(2) == 0 { Some(draw.attributes()) } else { None };
            let source = ("bucket", from.as_str());
            let stale =
                store.copy(source, object.entry.version + 1, ("bucket", &key), None, Condition::Always).await;
            assert!(matches!(stale, Err(StoreError::Precondition(_))));
            let copied = store
                .copy(source, object.entry.version, ("bucket", &key), attributes.clone(), condition)
                .await;
            if let Ok(entry) = &copied {
                assert_eq!(entry.attributes, attributes.unwrap_or(object.entry.attributes));
                assert_eq!((&entry.etag, &entry.parts), (&object.entry.etag, &object.entry.parts));
            }
            version = written(model, &key, copied, object.bytes);
        }
        6 => {
            let attributes = draw.attributes();
            let upload = store.start_upload("bucket", &key, attributes.clone()).await.unwrap();
            model.uploads.push(Unfinished { key, id: upload.id, attributes, parts: BTreeMap::new() });
        }
        7 | 8 if !model.uploads.is_empty() => {
            let i = draw.below(model.uploads.len() as u64) as usize;
            let upload = &mut model.uploads[i];
            let (number, bytes) = (1 + draw.below(5) as u32, draw.bytes());
            let part = store
                .put_part("bucket", &upload.key, &upload.id, number, body(&bytes, 50_000))
                .await
                .unwrap();
            upload.parts.insert(number, (bytes, part.etag));
            let (parts, more) = store.parts("bucket", &upload.key, &upload.id, 1, 2).await.unwrap();
            let are: Vec<_> = parts.into_iter().map(|part| (part.number, part.etag)).collect();
            let all: Vec<_> =
                upload.parts.range(2..).map(|(number, (_, etag))| (*number, etag.clone())).collect();
            assert_eq!((are.as_slice(), more), (&all[..all.len().min(2)], all.len() > 2));
        }
        9 if !model.uploads.is_empty() => {
            let i = draw.below(model.uploads.len() as u64) as usize;
            let upload = model.uploads[i].clone();
            let condition = draw.condition(model, &upload.key);
            let holds = model.holds(&upload.key, &condition);
            let chosen: Vec<_> = upload
                .parts
                .iter()
                .filter(|_| draw.below(3) > 0)
                .map(|(number, (bytes, etag))| {
                    (Chosen { number: *number, etag: etag.clone() }, bytes.clone())
                })
                .collect();
            let is_small = chosen.iter().rev().skip(1).any(|(_, bytes)| bytes.len() < 100);
            let parts: Vec<_> = chosen.iter().map(|(chosen, _)| chosen.clone()).collect();
            let result =
                store.complete_upload("bucket", &upload.key, &upload.id, &parts, None, condition).await;
            match result {
                Ok(entry) => {
                    assert!(holds && !is_small && entry.version > last_version);
                    assert_eq!(entry.attributes, upload.attributes);
                    assert!(
                        entry.parts.iter().eq(chosen
                            .iter()
                            .map(|(_, bytes)| bytes.len() as u64)
                            .collect::<Vec<_>>()
                            .iter())
                    );
                    assert!(entry.etag.ends_with(&format!("-{}", chosen.len())));
                    version = entry.version;
                    let bytes: Vec<u8> = chosen.into_iter().flat_map(|(_, bytes)| bytes).collect();
                    model.objects.insert(upload.key.clone(), Object { bytes, entry });
                    model.uploads.remove(i);
                }
                Err(StoreError::Precondition(_)) => assert!(!holds),
                Err(StoreError::PartTooSmall { .. }) => assert!(is_small),
                Err(StoreError::InvalidPart(0)) => assert!(parts.is_empty()),
                Err(error) => panic!("{error}"),
            }
        }
        10 => {
            let is: Vec<_> = store.uploads("bucket", "a").await.unwrap();
            let mut all: Vec<_> = model.uploads.iter().filter(|upload| upload.key.starts_with('a')).collect();
            all.sort_by_key(|upload| (&upload.key, &upload.id));
            assert!(
                is.iter()
                    .map(|upload| (&upload.key, &upload.id))
                    .eq(all.iter().map(|upload| (&upload.key, &upload.id)))
            );
        }
        _ => {
            if let Some(object) = model.objects.get(&key) {
                assert_eq!(store.head("bucket", &key).await.unwrap(), object.entry);
                let n = object.bytes.len() as u64;
                let start = draw.below(n + 1);
                let end = start + draw.below(n - start + 1);
                let is = get(store, &key, start..end).await.unwrap();
                assert_eq!(is, object.bytes[start as usize..end as usize]);
            } else {
                assert!(matches!(store.head("bucket", &key).await, Err(StoreError::NoSuchKey(_))));
            }
            let after = if draw.below(2) == 0 { draw.key() } else { String::new() };
            let what = Selection {
                prefix: draw.one(&["", "a", "a/", "a/b", "ä", "b/", "zz"]).to_owned(),
                delimiter: draw.one(&["", "/", "b", "//"]).to_owned(),
                after,
                limit: draw.one(&[0, 1, 2, 3, 100]),
            };
            assert_eq!(store.list("bucket", &what).await.unwrap(), model.list(&what), "{what:?}");
        }
    }
    version
}

/// All files of bytes.
fn blobs(folder: &Path) -> Vec<PathBuf> {
    let list =
        |folder: &Path| fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect::<Vec<_>>();
    list(&folder.join("blobs")).iter().flat_map(|folder| list(folder)).collect()
}

#[tokio::test]
async fn a_body_that_breaks_off_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let store = opened(folder.path());
    store.create_bucket("bucket").await.unwrap();
    for size in [10, 300_000] {
        let broken = || {
            let chunks =
                [Ok(Bytes::from(noise(1, size))), Err(StoreError::BadBody("the checksum differs".into()))];
            Incoming {
                bytes: stream::iter(chunks).boxed(),
                size: Some(size as u64),
                checksum: Arc::new(OnceLock::new()),
            }
        };
        let result = store.put("bucket", "key", Attributes::default(), broken(), Condition::Always).await;
        assert!(matches!(result, Err(StoreError::BadBody(_))));
        let mut short = body(&noise(1, size), 1000);
        short.size = Some(size as u64 + 1);
        let result = store.put("bucket", "key", Attributes::default(), short, Condition::Always).await;
        assert!(matches!(result, Err(StoreError::BadBody(_))));
        // A client that goes away in the middle.
        let endless = Incoming {
            bytes: stream::iter([Ok(Bytes::from(noise(1, size)))]).chain(stream::pending()).boxed(),
            size: None,
            checksum: Arc::new(OnceLock::new()),
        };
        let put = store.put("bucket", "key", Attributes::default(), endless, Condition::Always);
        assert!(tokio::time::timeout(Duration::from_millis(100), put).await.is_err());
    }
    assert!(matches!(store.head("bucket", "key").await, Err(StoreError::NoSuchKey(_))));
    assert_eq!(store.usage().await.unwrap().unwrap().objects, 0);
    drop(store);
    assert_eq!(blobs(folder.path()), Vec::<PathBuf>::new());
}

#[tokio::test]
async fn a_reader_gets_the_version_that_it_began_with() {
    let folder = tempfile::tempdir().unwrap();
    let store = opened(folder.path());
    store.create_bucket("bucket").await.unwrap();
    let upload = store.start_upload("bucket", "key", Attributes::default()).await.unwrap();
    let mut chosen = Vec::new();
    let parts = [noise(1, 5 << 20), noise(2, 5 << 20), noise(3, 100)];
    for (number, bytes) in (1..).zip(&parts) {
        let part = store.put_part("bucket", "key", &upload.id, number, body(bytes, 1 << 16)).await.unwrap();
        chosen.push(Chosen { number, etag: part.etag });
    }
    store.complete_upload("bucket", "key", &upload.id, &chosen, None, Condition::Absent).await.unwrap();
    let (_, reading) = store.get("bucket", "key", None, &|entry| Ok(0..entry.bytes)).await.unwrap();
    put(&store, "key", b"another").await;
    let read: Vec<Bytes> = reading.try_collect().await.unwrap();
    assert_eq!(read.concat(), parts.concat());
    assert_eq!(whole(&store, "key").await.unwrap(), b"another");
    drop(store);
    assert_eq!(blobs(folder.path()), Vec::<PathBuf>::new());
}

/// Of many who write a name that is free, one succeeds; of many who replace a version, one; and what is read is always one
/// of the bodies.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conditions_hold_among_many() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(opened(folder.path()));
    store.create_bucket("bucket").await.unwrap();
    let mut condition = Condition::Absent;
    for round in 0..10 {
        let size = [100, 100_000][round % 2];
        let writers = (0..16_u8).map(|n| {
            let (store, condition) = (Arc::clone(&store), condition.clone());
            tokio::spawn(async move {
                let bytes = vec![n; size];
                store.put("bucket", "key", Attributes::default(), body(&bytes, 9999), condition).await.is_ok()
            })
        });
        let writers: Vec<_> = writers.collect();
        let mut n_won = 0;
        for writer in writers {
            n_won += usize::from(writer.await.unwrap());
        }
        assert_eq!(n_won, 1, "round {round}");
        let bytes = whole(&store, "key").await.unwrap();
        assert_eq!(bytes, vec![bytes[0]; size]);
        condition = Condition::Version(store.head("bucket", "key").await.unwrap().version);
    }
}

#[tokio::test]
async fn a_folder_belongs_to_one_process_and_to_stores() {
    let folder = tempfile::tempdir().unwrap();
    let store = opened(folder.path());
    let second = Folder::open(folder.path(), Options::default()).unwrap_err();
    assert!(second.to_string().contains("in use by another node"), "{second}");
    drop(store);
    drop(opened(folder.path()));
    // Another version.
    fs::write(folder.path().join("format"), "evenkeel store 2\n").unwrap();
    let other = Folder::open(folder.path(), Options::default()).unwrap_err();
    assert!(other.to_string().contains("another version"), "{other}");
    fs::remove_file(folder.path().join("format")).unwrap();
    let other = Folder::open(folder.path(), Options::default()).unwrap_err();
    assert!(other.to_string().contains("put the file back"), "{other}");
    // Something else.
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("letter.txt"), "Dear").unwrap();
    let other = Folder::open(folder.path(), Options::default()).unwrap_err();
    assert!(other.to_string().contains("letter.txt"), "{other}");
}

#[tokio::test]
async fn old_uploads_are_given_up() {
    let folder = tempfile::tempdir().unwrap();
    let upload = {
        let store = opened(folder.path());
        store.create_bucket("bucket").await.unwrap();
        let upload = store.start_upload("bucket", "key", Attributes::default()).await.unwrap();
        store.put_part("bucket", "key", &upload.id, 1, body(&noise(1, 100_000), 1000)).await.unwrap();
        upload
    };
    drop(opened(folder.path()));
    assert_eq!(blobs(folder.path()).len(), 1);
    tokio::time::sleep(Duration::from_millis(20)).await;
    let options = Options { give_up_uploads_after: Duration::from_millis(10), ..Options::default() };
    let store = Folder::open(folder.path(), options).unwrap();
    let gone = store.parts("bucket", "key", &upload.id, 0, 10).await;
    assert!(matches!(gone, Err(StoreError::NoSuchUpload(_))));
    drop(store);
    assert_eq!(blobs(folder.path()), Vec::<PathBuf>::new());
}

#[tokio::test]
async fn damage_on_the_disk_shows_and_stays_where_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let store = opened(folder.path());
    store.create_bucket("bucket").await.unwrap();
    let bytes = noise(1, 300_000);
    put(&store, "hurt", &bytes).await;
    let path = blobs(folder.path()).remove(0);
    put(&store, "other", &bytes).await;
    let mut data = fs::read(&path).unwrap();
    data[200_000] ^= 4;
    fs::write(&path, data).unwrap();
    // Blocks before the damage are read, and none after it.
    assert_eq!(get(&store, "hurt", 0..131_072).await.unwrap(), bytes[..131_072]);
    let error = whole(&store, "hurt").await.unwrap_err();
    let told = error.to_string();
    assert!(told.contains("bucket/hurt is damaged") && told.contains(path.to_str().unwrap()), "{told}");
    fs::remove_file(&path).unwrap();
    let error = whole(&store, "hurt").await.unwrap_err();
    assert!(error.to_string().contains("is missing"), "{error}");
    assert_eq!(whole(&store, "other").await.unwrap(), bytes);
    assert_eq!(store.scrub().await.unwrap().damaged.len(), 1);
}

#[tokio::test]
async fn hostile_names_are_names_or_refused() {
    let folder = tempfile::tempdir().unwrap();
    let store = opened(&folder.path().join("store"));
    for bucket in ["", "a\0b", &"x".repeat(256)] {
        assert!(matches!(store.create_bucket(bucket).await, Err(StoreError::BadBody(_))), "{bucket:?}");
    }
    for bucket in ["..", "/etc", "bucket"] {
        store.create_bucket(bucket).await.unwrap();
        assert!(matches!(store.create_bucket(bucket).await, Err(StoreError::BucketExists(_))));
    }
    for key in ["", &"k".repeat(5000)] {
        let result = store.put("bucket", key, Attributes::default(), body(b"x", 1), Condition::Always).await;
        assert!(matches!(result, Err(StoreError::BadBody(_))), "{key:?}");
    }
    for key in ["../../out", "/etc/passwd", "\0", "\n", "a\0b"] {
        put(&store, key, &noise(1, 70_000)).await;
        assert_eq!(whole(&store, key).await.unwrap(), noise(1, 70_000));
    }
    for id in ["", "../x", "zzzzzzzzzzzzzzzz", "0000000000000001", "+000000000000001"] {
        let result = store.parts("bucket", "a", id, 0, 1).await;
        assert!(matches!(result, Err(StoreError::NoSuchUpload(_))), "{id:?}");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}
