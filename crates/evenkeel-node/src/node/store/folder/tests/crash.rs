//! What was acknowledged is there after a crash, byte by byte, and what was not is there whole or not at all.
//!
//! Each seed writes, crashes in the middle of any step, opens the store again, compares, and goes on. Crashes also happen
//! while the store is made and while it is opened.

use std::collections::{BTreeMap, BTreeSet};

use super::fake::{Draw, Fake, Kind};
use super::{Change, Done, Store, make_bucket, put};
use crate::node::store::{Attributes, Chosen, Condition, Selection, StoreError};

const SEEDS: u64 = 2000;
const KEYS: u64 = 8;

fn times() -> u64 {
    std::env::var("EVENKEEL_TIMES").ok().and_then(|times| times.parse().ok()).unwrap_or(1)
}

/// What a key may have after a crash; `None` is nothing.
type Allowed = BTreeMap<String, Vec<Option<Vec<u8>>>>;

#[derive(Default)]
struct Model {
    has_bucket: bool,
    objects: BTreeMap<String, Vec<u8>>,
    /// Acknowledged parts of acknowledged uploads, by key and id.
    uploads: BTreeMap<(String, String), BTreeMap<u32, Vec<u8>>>,
    /// How often the machine crashed, and what was acknowledged.
    n_crashes: u64,
    n_acknowledged: u64,
}

/// What is asked for, as the model sees it.
enum Effect {
    Is(String, Option<Vec<u8>>),
    Part((String, String), u32, Vec<u8>),
    Ended((String, String), Option<Vec<u8>>),
    Started,
}

impl Model {
    /// One batch of changes, which share a transaction.
    #[allow(clippy::too_many_lines)] // one arm per operation
    fn step(&mut self, store: &Store, draw: &mut Draw, allowed: &mut Allowed) -> Result<(), String> {
        let n = 1 + draw.below(4);
        let mut changes = Vec::new();
        let mut effects = Vec::new();
        let mut planned = self.objects.clone();
        let mut touched = BTreeSet::new();
        let mut ended = Vec::new();
        for _ in 0..n {
            let key = format!("k{}", draw.below(KEYS));
            let upload =
                self.uploads.keys().nth(draw.below(3) as usize).filter(|id| !ended.contains(*id)).cloned();
            let (change, effect) = match (draw.below(10), upload) {
                (0, _) => (
                    Change::Delete { bucket: "b".into(), key: key.clone(), condition: Condition::Always },
                    Effect::Is(key, None),
                ),
                (1, _) => {
                    let to = format!("k{}", draw.below(KEYS));
                    // Only of what no other change of this batch touches: the version has to be known.
                    let version = match store.engine.index().entry("b", &key) {
                        Ok(entry) if !touched.contains(&key) => entry.version,
                        _ => continue,
                    };
                    let Some(bytes) = planned.get(&key).cloned() else { continue };
                    let (from, to_key) = (("b".into(), key), ("b".into(), to.clone()));
                    let condition = Condition::Always;
                    (
                        Change::Copy { from, version, to: to_key, attributes: None, condition },
                        Effect::Is(to, Some(bytes)),
                    )
                }
                (2, _) => (
                    Change::StartUpload { bucket: "b".into(), key, attributes: Attributes::default() },
                    Effect::Started,
                ),
                (3 | 4, Some(id)) => {
                    let number = 1 + draw.below(3) as u32;
                    let bytes = draw_bytes(draw);
                    let new = match store.take_in(&bytes) {
                        Ok(new) => new,
                        Err(error) => return Err(error.to_string()),
                    };
                    let (bucket, key, upload) = ("b".into(), id.0.clone(), id.1.clone());
                    (Change::PutPart { bucket, key, upload, number, new }, Effect::Part(id, number, bytes))
                }
                (5, Some(id)) => {
                    ended.push(id.clone());
                    let (bucket, key, upload) = ("b".into(), id.0.clone(), id.1.clone());
                    // Parts of this batch are not chosen: their answers are not known yet.
                    if effects.iter().any(|effect| matches!(effect, Effect::Part(of, ..) if *of == id)) {
                        continue;
                    }
                    let parts = &self.uploads[&id];
                    if parts.is_empty() || draw.below(4) == 0 {
                        (Change::Abort { bucket, key, upload }, Effect::Ended(id, None))
                    } else {
                        let chosen = parts
                            .iter()
                            .map(|(number, bytes)| Chosen { number: *number, etag: etag(bytes) })
                            .collect();
                        let whole = parts.values().flatten().copied().collect();
                        let (checksum, condition) = (None, Condition::Always);
                        (
                            Change::Complete { bucket, key, upload, parts: chosen, checksum, condition },
                            Effect::Ended(id, Some(whole)),
                        )
                    }
                }
                _ => {
                    let bytes = draw_bytes(draw);
                    let new = match store.take_in(&bytes) {
                        Ok(new) => new,
                        Err(error) => return Err(error.to_string()),
                    };
                    (put(&key, new), Effect::Is(key, Some(bytes)))
                }
            };
            if let Some((key, bytes)) = effect.object() {
                allowed.entry(key.clone()).or_default().push(bytes.clone());
                touched.insert(key.clone());
                match bytes {
                    Some(bytes) => planned.insert(key, bytes),
                    None => planned.remove(&key),
                };
            }
            changes.push(change);
            effects.push(effect);
        }
        for (answer, effect) in store.commit(changes).into_iter().zip(effects) {
            let done = answer.map_err(|error| error.to_string())?;
            self.n_acknowledged += 1;
            if let Some((key, bytes)) = effect.object() {
                match bytes {
                    Some(bytes) => self.objects.insert(key, bytes),
                    None => self.objects.remove(&key),
                };
            }
            match (effect, done) {
                (Effect::Part(id, number, bytes), _) => {
                    self.uploads.entry(id).or_default().insert(number, bytes);
                }
                (Effect::Ended(id, _), _) => {
                    self.uploads.remove(&id);
                }
                (Effect::Started, Done::Upload(upload)) => {
                    self.uploads.insert((upload.key, upload.id), BTreeMap::new());
                }
                _ => {}
            }
        }
        // All of it is certain now.
        allowed.clear();
        Ok(())
    }

    /// Compares a store that was opened again, and takes over what of the last batch it has.
    fn compare(&mut self, store: &Store, disk: &Fake, allowed: &Allowed) -> Result<(), String> {
        let mut n_bytes = 0;
        for n in 0..KEYS {
            let key = format!("k{n}");
            let is = match store.get(&key) {
                Ok(bytes) => Some(bytes),
                Err(StoreError::NoSuchKey(_)) => None,
                Err(error) => return Err(format!("{key}: {error}")),
            };
            let acknowledged = self.objects.get(&key);
            let others = allowed.get(&key).map_or(&[][..], Vec::as_slice);
            if is.as_ref() != acknowledged && !others.contains(&is) {
                return Err(format!(
                    "{key} has {:?} bytes, where {:?} were acknowledged",
                    is.as_ref().map(Vec::len),
                    acknowledged.map(Vec::len)
                ));
            }
            n_bytes += is.as_ref().map_or(0, Vec::len) as u64;
            match is {
                Some(bytes) => self.objects.insert(key, bytes),
                None => self.objects.remove(&key),
            };
        }
        let fail = |error: StoreError| error.to_string();
        let usage = store.engine.usage().map_err(fail)?;
        if (usage.objects, usage.bytes) != (self.objects.len() as u64, n_bytes) {
            return Err(format!("{usage:?} is not {} objects of {n_bytes} bytes", self.objects.len()));
        }
        let listed = Selection { limit: 100, ..Selection::default() };
        let listed = store.engine.index().list("b", &listed).map_err(fail)?;
        if !listed.entries.iter().map(|(key, _)| key).eq(self.objects.keys()) {
            return Err(format!("{:?} is listed", listed.entries));
        }
        let scrub = store.engine.scrub(|_| Ok(())).map_err(fail)?;
        if !scrub.damaged.is_empty() {
            return Err(format!("{:?}", scrub.damaged));
        }
        // Uploads that were acknowledged, unless the last batch ended them.
        let is: Vec<_> = store.engine.index().uploads("b", "").map_err(fail)?;
        self.uploads.retain(|(key, id), _| {
            is.iter().any(|upload| (&upload.key, &upload.id) == (key, id)) || allowed.contains_key(key)
        });
        let mut left = BTreeMap::new();
        for ((key, id), parts) in std::mem::take(&mut self.uploads) {
            match store.engine.index().parts(("b", &key, &id), 0, 100) {
                Ok((is, _)) => {
                    for number in parts.keys() {
                        if is.iter().all(|part| part.number != *number) {
                            return Err(format!("part {number} of {key} is gone"));
                        }
                    }
                    // The last batch may have replaced a part: only those that are known are chosen again.
                    let known = |number: &u32, bytes: &Vec<u8>| {
                        is.iter().any(|part| part.number == *number && part.etag == etag(bytes))
                    };
                    left.insert((key, id), parts.into_iter().filter(|(n, bytes)| known(n, bytes)).collect());
                }
                Err(_) if allowed.contains_key(&key) => {}
                Err(error) => return Err(format!("upload {id} of {key}: {error}")),
            }
        }
        self.uploads = left;
        // Nothing is left behind: each file is named.
        let numbers: Vec<u64> = disk
            .blobs()
            .iter()
            .filter_map(|path| u64::from_str_radix(path.rsplit('/').next()?, 16).ok())
            .collect();
        if store.engine.index().named(&numbers).map_err(fail)?.contains(&false) {
            return Err("a file is left that nothing names".into());
        }
        Ok(())
    }
}

impl Effect {
    fn object(&self) -> Option<(String, Option<Vec<u8>>)> {
        match self {
            Self::Is(key, bytes) => Some((key.clone(), bytes.clone())),
            Self::Ended((key, _), Some(bytes)) => Some((key.clone(), Some(bytes.clone()))),
            _ => None,
        }
    }
}

fn etag(bytes: &[u8]) -> String {
    use md5::Digest as _;
    crate::node::store::folder::hex::encode(&md5::Md5::digest(bytes))
}

/// Mostly small ones, some in the index, and some of several blocks.
fn draw_bytes(draw: &mut Draw) -> Vec<u8> {
    let most = [50, 1000, 5000, 140_000][[0, 0, 1, 1, 1, 2, 2, 3][draw.below(8) as usize]];
    let n = draw.below(most) as usize;
    draw.bytes(n)
}

/// Several lives of a machine. The error is what is wrong with the store.
fn run(seed: u64, ignored: Option<Kind>) -> Result<Model, String> {
    let mut draw = Draw::new(seed);
    let mut disk = Fake::new(seed, ignored);
    let mut model = Model::default();
    let mut allowed = Allowed::new();
    let lives = 2 + draw.below(3);
    for life in 0..lives {
        let crash_after = match draw.below(3) {
            // While it is being made, which ends after some three hundred changes, or opened.
            0 if life == 0 => {
                let (from, n) = [(1, 12), (255, 40), (1, 300)][draw.below(3) as usize];
                from + draw.below(n)
            }
            0 => 1 + draw.below(12),
            _ => 10 + draw.below(300),
        };
        disk.crash_after(crash_after);
        let is_alive = live(&mut model, &mut draw, &disk, &mut allowed);
        if !disk.has_crashed() {
            is_alive?;
        }
        model.n_crashes += 1;
        disk = disk.restart();
        if life + 1 == lives || draw.below(2) == 0 {
            let store = Store::open(&disk).map_err(|error| error.to_string())?;
            if model.has_bucket {
                model.compare(&store, &disk, &allowed)?;
                allowed.clear();
            }
            drop(store);
            // At times the next life begins with a disk where nothing is known to be synced.
            if draw.below(2) == 0 {
                disk = disk.restart();
            }
        }
    }
    Ok(model)
}

fn live(model: &mut Model, draw: &mut Draw, disk: &Fake, allowed: &mut Allowed) -> Result<(), String> {
    let store = Store::open(disk).map_err(|error| error.to_string())?;
    if !model.has_bucket {
        match make_bucket(&store) {
            Ok(_) | Err(StoreError::BucketExists(_)) => model.has_bucket = true,
            Err(error) => return Err(error.to_string()),
        }
    }
    // What the crash before left open is settled, so that the next batch has its own.
    if !allowed.is_empty() {
        model.compare(&store, disk, allowed)?;
        allowed.clear();
    }
    for _ in 0..40 {
        model.step(&store, draw, allowed)?;
    }
    Ok(())
}

#[test]
fn crashes_lose_nothing() {
    let mut n = (0, 0);
    for seed in 0..SEEDS * times() {
        match run(seed, None) {
            Ok(model) => n = (n.0 + model.n_crashes, n.1 + model.n_acknowledged),
            Err(error) => panic!("seed {seed}: {error}"),
        }
    }
    println!("{} crashes, {} acknowledged", n.0, n.1);
}

/// Each kind of sync is needed: without it some crash loses something, and the test above sees it.
#[test]
fn without_a_sync_crashes_lose_something() {
    for kind in Kind::ALL {
        let lost = (0..SEEDS).find_map(|seed| run(seed, Some(kind)).err().map(|error| (seed, error)));
        let Some((seed, error)) = lost else { panic!("without syncs of {kind:?} nothing is lost") };
        println!("without syncs of {kind:?}, seed {seed}: {error}");
    }
}
