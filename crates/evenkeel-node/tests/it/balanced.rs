//! Mirrors as one object store: slow ones, failing ones, and ones that have something else.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use evenkeel_node::{Balanced, BalancedOptions};
use futures_util::stream::{self, BoxStream};
use futures_util::{StreamExt, TryStreamExt};
use object_store::local::LocalFileSystem;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::throttle::{ThrottleConfig, ThrottledStore};
use object_store::{
    CopyOptions, Error, GetOptions, GetRange, GetResult, GetResultPayload, ListResult, MultipartUpload,
    ObjectMeta, ObjectStore, ObjectStoreExt, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};

use crate::noise;

const BYTES: usize = 3_000_000;

fn small() -> BalancedOptions {
    BalancedOptions { piece_bytes: 100_000, slots: 4, patience: Duration::from_secs(2) }
}

/// A store with `data` and `empty`.
async fn filled<S: ObjectStore>(store: S) -> S {
    store.put(&"data".into(), noise(7, BYTES).into()).await.unwrap();
    store.put(&"empty".into(), PutPayload::new()).await.unwrap();
    store
}

fn balanced(mirrors: Vec<Arc<dyn ObjectStore>>) -> Balanced {
    let names = (0..).map(|n: usize| n.to_string());
    Balanced::new(names.zip(mirrors).collect(), &small()).unwrap()
}

/// What a bad mirror does with reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Fails,
    /// Sends half of what was asked for, and then an error.
    Breaks,
    /// Sends half of what was asked for, and then nothing more.
    Short,
    Hangs,
    Denies,
    /// Sends bytes of another place.
    OtherRange,
    /// Says that its version is another one.
    OtherVersion,
}

/// A mirror that does one thing wrong, always.
#[derive(Debug)]
struct Bad(InMemory, Fault);

impl fmt::Display for Bad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "bad")
    }
}

fn generic() -> Error {
    Error::Generic { store: "bad", source: "it is broken".into() }
}

#[async_trait]
impl ObjectStore for Bad {
    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        match self.1 {
            Fault::Fails => return Err(generic()),
            Fault::Hangs => return std::future::pending().await,
            Fault::Denies => {
                let (path, source) = (location.to_string(), "no".into());
                return Err(Error::PermissionDenied { path, source });
            }
            _ => {}
        }
        let mut found = self.0.get_opts(location, options).await?;
        match self.1 {
            Fault::OtherRange => found.range = found.range.start + 1..found.range.end + 1,
            Fault::OtherVersion => found.meta.size += 1,
            _ => {
                let (meta, range) = (found.meta.clone(), found.range.clone());
                let (attributes, extensions) = (found.attributes.clone(), found.extensions.clone());
                let bytes = found.bytes().await?;
                let half = bytes.slice(..bytes.len() / 2);
                let end = (self.1 == Fault::Breaks).then(|| Err(generic()));
                let payload =
                    GetResultPayload::Stream(stream::iter([Ok(half)]).chain(stream::iter(end)).boxed());
                return Ok(GetResult { payload, meta, range, attributes, extensions });
            }
        }
        Ok(found)
    }

    fn list(&self, _: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        stream::iter([Err(generic())]).boxed()
    }

    async fn list_with_delimiter(&self, _: Option<&Path>) -> Result<ListResult> {
        Err(generic())
    }

    async fn put_opts(&self, _: &Path, _: PutPayload, _: PutOptions) -> Result<PutResult> {
        panic!("nothing is written")
    }

    async fn put_multipart_opts(&self, _: &Path, _: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        panic!("nothing is written")
    }

    fn delete_stream(&self, _: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        panic!("nothing is deleted")
    }

    async fn copy_opts(&self, _: &Path, _: &Path, _: CopyOptions) -> Result<()> {
        panic!("nothing is copied")
    }
}

/// Every kind of read, against what any store would answer.
async fn reads_as(store: &dyn ObjectStore, data: &[u8]) {
    let path: Path = "data".into();
    assert_eq!(store.head(&path).await.unwrap().size, BYTES as u64);
    assert!(store.get(&path).await.unwrap().bytes().await.unwrap() == data);
    assert!(store.get(&"empty".into()).await.unwrap().bytes().await.unwrap().is_empty());
    let ranges: [Range<u64>; 5] =
        [0..1, 0..100_000, 99_999..100_001, 2_999_999..3_000_000, 1_000_000..2_345_678];
    for range in &ranges {
        let expected = &data[range.start as usize..range.end as usize];
        assert!(store.get_range(&path, range.clone()).await.unwrap() == expected, "{range:?}");
    }
    for (range, bytes) in store.get_ranges(&path, &ranges).await.unwrap().into_iter().zip(&ranges) {
        assert!(range == data[bytes.start as usize..bytes.end as usize], "{bytes:?}");
    }
    for (range, from) in [
        (GetRange::Bounded(2_900_000..9_000_000), 2_900_000),
        (GetRange::Offset(2_800_000), 2_800_000),
        (GetRange::Suffix(10), 2_999_990),
        (GetRange::Suffix(9_000_000), 0),
    ] {
        let options = GetOptions { range: Some(range.clone()), ..GetOptions::default() };
        let found = store.get_opts(&path, options).await.unwrap();
        assert_eq!(found.range, from..BYTES as u64, "{range:?}");
        assert!(found.bytes().await.unwrap() == data[from as usize..], "{range:?}");
    }
    let missing = store.get(&"nothing".into()).await.unwrap_err();
    assert!(matches!(missing, Error::NotFound { .. }), "{missing}");
    assert!(store.get_range(&path, 3_000_000..3_000_001).await.is_err());
    let mut names: Vec<String> =
        store.list(None).map_ok(|meta| meta.location.to_string()).try_collect().await.unwrap();
    names.sort_unstable();
    assert_eq!(names, ["data", "empty"]);
    assert_eq!(store.list_with_delimiter(None).await.unwrap().objects.len(), 2);
}

#[tokio::test]
async fn mirrors_are_read_as_one_store() {
    let folder = tempfile::tempdir().unwrap();
    let local = filled(LocalFileSystem::new_with_prefix(folder.path()).unwrap()).await;
    let memory = filled(InMemory::new()).await;
    let store = balanced(vec![Arc::new(local), Arc::new(memory)]);
    reads_as(&store, &noise(7, BYTES)).await;
    let reports = store.reports();
    assert!(reports.iter().all(|report| report.bytes > 0), "both are used: {reports:?}");
}

/// What the other does wrong is made up for, whatever it is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bad_mirror_is_replaced() {
    let faults = [Fault::Fails, Fault::Breaks, Fault::Short, Fault::Hangs, Fault::Denies, Fault::OtherRange];
    let runs = faults.map(|fault| async move {
        let bad: Arc<dyn ObjectStore> = Arc::new(Bad(filled(InMemory::new()).await, fault));
        let good: Arc<dyn ObjectStore> = Arc::new(filled(InMemory::new()).await);
        let store = balanced(vec![bad, good]);
        let begun = Instant::now();
        let path: Path = "data".into();
        let found = store.get(&path).await.unwrap().bytes().await.unwrap();
        assert!(found == noise(7, BYTES), "{fault:?}");
        assert!(store.get_range(&path, 5..50).await.unwrap() == noise(7, BYTES)[5..50]);
        assert!(begun.elapsed() < Duration::from_secs(30), "{fault:?} took {:?}", begun.elapsed());
        let reports = store.reports();
        assert!(reports[0].n_failures > 0 || fault == Fault::Hangs, "{fault:?}: {reports:?}");
        assert_eq!(reports[1].n_failures, 0, "{fault:?}: {reports:?}");
    });
    futures_util::future::join_all(runs).await;
}

/// Versions are never mixed: what one read is made of has one size.
#[tokio::test]
async fn another_version_is_not_mixed_in() {
    let bad: Arc<dyn ObjectStore> = Arc::new(Bad(filled(InMemory::new()).await, Fault::OtherVersion));
    let good: Arc<dyn ObjectStore> = Arc::new(filled(InMemory::new()).await);
    let store = balanced(vec![good, bad]);
    // The first answer decides.
    let found = store.get(&"data".into()).await.unwrap();
    let is_good = found.meta.size == BYTES as u64;
    let bytes = found.bytes().await;
    assert!(!is_good || bytes.unwrap() == noise(7, BYTES));
    let error = store.reports().into_iter().find_map(|report| report.last_error);
    assert!(error.is_some_and(|error| error.contains("another version")));
}

/// A slow mirror is found out, and gets little.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_mirror_gets_less() {
    let slow = ThrottleConfig {
        wait_get_per_call: Duration::from_millis(50),
        wait_get_per_byte: Duration::from_micros(2),
        ..ThrottleConfig::default()
    };
    let fast = ThrottleConfig { wait_get_per_call: Duration::from_millis(5), ..ThrottleConfig::default() };
    let slow: Arc<dyn ObjectStore> = Arc::new(ThrottledStore::new(filled(InMemory::new()).await, slow));
    let fast: Arc<dyn ObjectStore> = Arc::new(ThrottledStore::new(filled(InMemory::new()).await, fast));
    let store = balanced(vec![slow, fast]);
    let data = noise(7, BYTES);
    for _ in 0..5 {
        assert!(store.get(&"data".into()).await.unwrap().bytes().await.unwrap() == data);
    }
    let reports = store.reports();
    assert!(reports[0].bytes * 3 < reports[1].bytes, "{reports:?}");
}

/// All pieces of a range are under way at once: none waits for the bytes of another.
#[tokio::test(start_paused = true)]
async fn pieces_arrive_together() {
    // A piece takes 100 ms.
    let pace = ThrottleConfig { wait_get_per_byte: Duration::from_micros(1), ..ThrottleConfig::default() };
    let mirror: Arc<dyn ObjectStore> = Arc::new(ThrottledStore::new(filled(InMemory::new()).await, pace));
    let store = balanced(vec![Arc::clone(&mirror), mirror]);
    let begun = tokio::time::Instant::now();
    let found = store.get_range(&"data".into(), 50_000..450_000).await.unwrap();
    assert!(found == noise(7, BYTES)[50_000..450_000]);
    assert!(begun.elapsed() < Duration::from_millis(150), "{:?}", begun.elapsed());
}

/// That an object is nowhere is known only if every mirror says so.
#[tokio::test]
async fn an_error_tells_the_cause() {
    let bad = |fault| async move { Arc::new(Bad(InMemory::new(), fault)) as Arc<dyn ObjectStore> };
    let empty: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let store = balanced(vec![Arc::clone(&empty), bad(Fault::Fails).await]);
    let error = store.head(&"data".into()).await.unwrap_err();
    assert!(error.to_string().contains("it is broken"), "{error}");
    let store = balanced(vec![bad(Fault::Denies).await, empty]);
    let error = store.head(&"data".into()).await.unwrap_err();
    assert!(matches!(error, Error::PermissionDenied { .. }), "{error}");
    let none = Balanced::new(Vec::new(), &small()).unwrap_err();
    assert!(none.to_string().contains("give at least one"), "{none}");
}

#[tokio::test]
async fn writes_are_refused() {
    let store = balanced(vec![Arc::new(InMemory::new())]);
    let path: Path = "x".into();
    let refusals = [
        store.put(&path, Bytes::from_static(b"x").into()).await.map(drop),
        store.put_multipart(&path).await.map(drop),
        store.delete(&path).await,
        store.copy(&path, &"y".into()).await,
        store.rename(&path, &"y".into()).await,
    ];
    for refusal in refusals {
        let error = refusal.unwrap_err();
        assert!(matches!(error, Error::NotSupported { .. }), "{error}");
        assert!(error.to_string().contains("write to the mirrors themselves"), "{error}");
    }
}

/// Reads that nobody waits for leave nothing behind.
#[tokio::test]
async fn a_read_can_be_dropped() {
    let hangs: Arc<dyn ObjectStore> = Arc::new(Bad(InMemory::new(), Fault::Hangs));
    let store = balanced(vec![hangs]);
    let path: Path = "data".into();
    for _ in 0..100 {
        let read = tokio::time::timeout(Duration::from_millis(1), store.get_range(&path, 0..10));
        assert!(read.await.is_err());
    }
    // All slots are free again, so the next one is sent, and times out at the mirror.
    let error = store.get_range(&"data".into(), 0..10).await.unwrap_err();
    assert!(error.to_string().contains("0 does not answer"), "{error}");
}
