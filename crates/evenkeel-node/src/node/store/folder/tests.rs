//! The store on a disk that crashes, runs full, breaks, and flips bits.

#![allow(clippy::unwrap_used)]

mod crash;
mod fake;
mod trouble;

use std::sync::{Arc, Mutex, PoisonError, mpsc};

use bytes::Bytes;
use md5::{Digest, Md5};

use super::blob::{Fresh, Reading, Writing};
use super::engine::Engine;
use super::index::{Change, Done, NewObject};
use super::{Folder, Hands, Jobs, Options, hex, joined};
use crate::node::store::{Attributes, Condition, StoreError};
pub(crate) use fake::Fake;

/// Small objects are very small here, and most are in files. The index does not fit into the memory for it.
fn options() -> Options {
    Options { inline_bytes: 100, least_part_bytes: 1, cache_bytes: 32 << 10, ..Options::default() }
}

impl Folder {
    /// The store of a disk, as it is opened and used, but without threads.
    pub(crate) fn simulated(disk: &Fake) -> Result<Self, StoreError> {
        let (engine, removals) = Engine::open(Arc::new(disk.clone()), options())?;
        let jobs = || Jobs { are_tasks: true, ..Jobs::new() };
        let hands = Hands::Tasks(Arc::new(Mutex::new(removals)));
        Ok(Self { engine: Arc::new(engine), reads: jobs(), writes: jobs(), hands })
    }
}

/// Makes a change, whether or not who asked for it is still there, as the thread does.
pub(super) async fn change(
    engine: &Arc<Engine>,
    removals: &Arc<Mutex<mpsc::Receiver<u64>>>,
    change: Change,
) -> Result<Done, StoreError> {
    let (engine, removals) = (Arc::clone(engine), Arc::clone(removals));
    let made = tokio::spawn(async move {
        let mut answers = engine.commit(vec![change]);
        removals.lock().unwrap_or_else(PoisonError::into_inner).try_iter().for_each(|n| engine.remove(n));
        answers.remove(0)
    });
    joined(made.await)
}

/// A store without threads.
struct Store {
    engine: Arc<Engine>,
    removals: mpsc::Receiver<u64>,
}

impl Store {
    fn open(disk: &Fake) -> Result<Self, StoreError> {
        let (engine, removals) = Engine::open(Arc::new(disk.clone()), options())?;
        Ok(Self { engine: Arc::new(engine), removals })
    }

    /// Brings bytes to the disk.
    fn take_in(&self, bytes: &[u8]) -> Result<NewObject, StoreError> {
        let (data, etag) = if bytes.len() <= self.engine.options().inline_bytes {
            (Fresh::Inline(Bytes::copy_from_slice(bytes)), hex::encode(&Md5::digest(bytes)))
        } else {
            let mut writing = Writing::new(&self.engine);
            for chunk in bytes.chunks(50_000) {
                writing.append(&[Bytes::copy_from_slice(chunk)])?;
            }
            let (data, _, etag) = writing.finish()?;
            (data, etag)
        };
        Ok(NewObject { data, bytes: bytes.len() as u64, etag, checksum: None })
    }

    fn commit(&self, changes: Vec<Change>) -> Vec<Result<Done, StoreError>> {
        let answers = self.engine.commit(changes);
        self.removals.try_iter().for_each(|number| self.engine.remove(number));
        answers
    }

    fn change(&self, change: Change) -> Result<Done, StoreError> {
        self.commit(vec![change]).remove(0)
    }

    fn put(&self, key: &str, bytes: &[u8]) -> Result<Done, StoreError> {
        let new = self.take_in(bytes)?;
        self.change(put(key, new))
    }

    fn get(&self, key: &str) -> Result<Vec<u8>, StoreError> {
        let (entry, pinned) = self.engine.object("b", key)?;
        let mut reading = Reading::new(pinned, 0, entry.bytes);
        let mut bytes = Vec::new();
        while !reading.is_done() {
            bytes.extend_from_slice(&reading.read()?);
        }
        Ok(bytes)
    }
}

fn put(key: &str, new: NewObject) -> Change {
    let (bucket, key) = ("b".into(), key.to_owned());
    Change::Put { bucket, key, attributes: Attributes::default(), new, condition: Condition::Always }
}

fn make_bucket(store: &Store) -> Result<Done, StoreError> {
    store.change(Change::CreateBucket { bucket: "b".into() })
}
