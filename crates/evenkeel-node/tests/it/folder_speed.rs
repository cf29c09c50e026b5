//! How fast the store in a folder is beside a bare write and sync on the same disk. Prints figures and judges nothing:
//! `cargo test --release -p evenkeel-node --test it folder_speed -- --ignored --nocapture`. `EVENKEEL_SPEED_DIR` is a folder on
//! the disk to measure.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use bytes::Bytes;
use evenkeel_node::node::store::folder::{Folder, Options};
use evenkeel_node::node::store::{Attributes, Condition, Incoming, Store};
use futures_util::{StreamExt, TryStreamExt, stream};

use crate::noise;

const LARGE: usize = 64 << 20;

fn body(bytes: &Bytes) -> Incoming {
    let bytes = bytes.clone();
    let chunks = (0..bytes.len()).step_by(64 << 10).map(move |at| {
        let end = bytes.len().min(at + (64 << 10));
        Ok(bytes.slice(at..end))
    });
    Incoming { bytes: stream::iter(chunks).boxed(), size: None, checksum: Arc::new(OnceLock::new()) }
}

/// Puts by so many at once, and returns how long they took.
async fn puts(store: &Arc<Folder>, n_writers: usize, each: usize, bytes: &Bytes) -> Duration {
    let start = Instant::now();
    let writers: Vec<_> = (0..n_writers)
        .map(|writer| {
            let (store, bytes) = (Arc::clone(store), bytes.clone());
            tokio::spawn(async move {
                for i in 0..each {
                    let key = format!("{}/{writer}/{i}", bytes.len());
                    store
                        .put("bucket", &key, Attributes::default(), body(&bytes), Condition::Always)
                        .await
                        .unwrap();
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
    start.elapsed()
}

async fn gets(store: &Arc<Folder>, n_readers: usize, each: usize, size: usize) -> Duration {
    let start = Instant::now();
    let readers: Vec<_> = (0..n_readers)
        .map(|reader| {
            let store = Arc::clone(store);
            tokio::spawn(async move {
                for i in 0..each {
                    let key = format!("{size}/{reader}/{i}");
                    let (_, bytes) =
                        store.get("bucket", &key, None, &|entry| Ok(0..entry.bytes)).await.unwrap();
                    let n: usize = bytes.try_fold(0, async |n, chunk| Ok(n + chunk.len())).await.unwrap();
                    assert_eq!(n, size);
                }
            })
        })
        .collect();
    for reader in readers {
        reader.await.unwrap();
    }
    start.elapsed()
}

/// Files written and synced by so many threads.
fn bare(folder: &Path, n_writers: usize, each: usize, bytes: &Bytes) -> Duration {
    // Always new files: to write over blocks that the disk has already can be much faster.
    let folder = tempfile::tempdir_in(folder).unwrap();
    let folder = folder.path();
    let start = Instant::now();
    std::thread::scope(|scope| {
        for writer in 0..n_writers {
            scope.spawn(move || {
                for i in 0..each {
                    let mut file = File::create(folder.join(format!("bare {writer} {i}"))).unwrap();
                    for chunk in bytes.chunks(1 << 20) {
                        file.write_all(chunk).unwrap();
                    }
                    file.sync_all().unwrap();
                }
            });
        }
    });
    start.elapsed()
}

fn memory() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default().trim().to_owned()
}

#[test]
#[ignore = "takes a minute and some gigabytes"]
fn figures() {
    let place =
        std::env::var_os("EVENKEEL_SPEED_DIR").unwrap_or_else(|| std::env::temp_dir().into_os_string());
    let folder = tempfile::tempdir_in(place).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let store = Arc::new(Folder::open(&folder.path().join("store"), Options::default()).unwrap());
    runtime.block_on(store.create_bucket("bucket")).unwrap();
    let (small, large) = (Bytes::from(noise(1, 4096)), Bytes::from(noise(2, LARGE)));
    let rate = |n: usize, took: Duration| n as f64 / took.as_secs_f64();
    let mib = |n: usize, took: Duration| rate(n * (LARGE >> 20), took);
    println!("memory at most {} before", memory());
    for (n, each) in [(1, 500), (64, 100), (256, 50)] {
        let took = runtime.block_on(puts(&store, n, each, &small));
        let is_bare = bare(folder.path(), n, each.min(50), &small);
        println!(
            "put 4 KiB, {n} at once: {:.0}/s; bare file and sync: {:.0}/s",
            rate(n * each, took),
            rate(n * each.min(50), is_bare)
        );
    }
    for (n, each) in [(1, 500), (64, 100)] {
        let took = runtime.block_on(gets(&store, n, each, small.len()));
        println!("get 4 KiB, {n} at once: {:.0}/s", rate(n * each, took));
    }
    for (n, each) in [(1, 8), (64, 1), (1, 8), (64, 1)] {
        let is_bare = bare(folder.path(), n, each, &large);
        let took = runtime.block_on(puts(&store, n, each, &large));
        println!(
            "put 64 MiB, {n} at once: {:.0} MiB/s; bare file and sync: {:.0} MiB/s; memory at most {}",
            mib(n * each, took),
            mib(n * each, is_bare),
            memory()
        );
    }
    let medium = large.slice(..8 << 20);
    let took = runtime.block_on(puts(&store, 256, 1, &medium));
    println!("put 8 MiB, 256 at once: {:.0} MiB/s; memory at most {}", rate(256 * 8, took), memory());
    for (n, each) in [(1, 8), (64, 1)] {
        let took = runtime.block_on(gets(&store, n, each, large.len()));
        println!("get 64 MiB, {n} at once: {:.0} MiB/s; memory at most {}", mib(n * each, took), memory());
    }
    let start = Instant::now();
    let scrub = runtime.block_on(store.scrub()).unwrap();
    println!("scrub: {:.0} MiB/s", (scrub.bytes >> 20) as f64 / start.elapsed().as_secs_f64());
    assert!(scrub.damaged.is_empty());
    let start = Instant::now();
    drop(store);
    let closed = start.elapsed();
    let start = Instant::now();
    drop(Folder::open(&folder.path().join("store"), Options::default()).unwrap());
    println!("close: {closed:?}; open: {:?}", start.elapsed());
}
