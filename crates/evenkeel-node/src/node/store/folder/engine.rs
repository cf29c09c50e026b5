//! The store without its threads: everything that touches the disk, one step after another.
//!
//! A write is on the disk in this order: the bytes of its file, the file's name, the row that names it. A file is removed
//! when no row on the disk names it, and nobody reads it.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, mpsc};

use super::super::{Condition, Entry, Scrub, StoreError, Usage};
use super::blob::{self, Fresh, Reading};
use super::disk::{Access, Disk, File};
use super::index::{Change, Done, Held, Index};
use super::{Options, io_error};
use crate::outside;

/// What the file `format` says when the folder is complete, and before that.
const READY: &[u8] = b"evenkeel store 1\n";
const MAKING: &[u8] = b"evenkeel store 1, not complete\n";
const FORMAT: &str = "format";
/// The lower part of the number of a file counts within an epoch.
const EPOCH_BITS: u32 = 40;
/// The first damages are enough to see what is wrong.
const MOST_DAMAGES: usize = 1000;

/// A store, driven from outside.
#[derive(Debug)]
pub(super) struct Engine {
    disk: Arc<dyn Disk>,
    index: Index,
    options: Options,
    next_number: AtomicU64,
    end_of_numbers: u64,
    trash: mpsc::Sender<u64>,
    /// Held while an object is looked up and its files are pinned, and, alone, when it is decided to remove a file.
    looking: RwLock<()>,
    pins: Mutex<Pins>,
    /// Why there are no more writes.
    closed: Mutex<Option<String>>,
}

/// Files that are being read.
#[derive(Debug, Default)]
struct Pins {
    readers: HashMap<u64, usize>,
    /// Those to remove when nobody reads them any more.
    doomed: HashSet<u64>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Engine {
    /// Opens a store, or makes it. Files to be removed come out of the receiver, and go to [`remove`](Self::remove).
    pub(super) fn open(
        disk: Arc<dyn Disk>,
        options: Options,
    ) -> Result<(Self, mpsc::Receiver<u64>), StoreError> {
        let is_new = prepare(&*disk)?;
        let index = Index::open(&disk, is_new, &options)?;
        if is_new {
            write_whole(&*disk, FORMAT, READY)?;
        }
        let epoch = index.next_epoch()?;
        if epoch >> (u64::BITS - EPOCH_BITS) != 0 {
            let why = format!("{} was opened too often; copy its objects to a new one", disk.name(""));
            return Err(StoreError::Unusable(why));
        }
        let (trash, removals) = mpsc::channel();
        let engine = Self {
            disk,
            index,
            options,
            next_number: AtomicU64::new(epoch << EPOCH_BITS),
            end_of_numbers: (epoch + 1).checked_shl(EPOCH_BITS).map_or(u64::MAX, |end| end.wrapping_sub(1)),
            trash,
            looking: RwLock::default(),
            pins: Mutex::default(),
            closed: Mutex::default(),
        };
        engine.expire()?;
        engine.collect()?;
        Ok((engine, removals))
    }

    pub(super) fn disk(&self) -> &dyn Disk {
        &*self.disk
    }

    pub(super) fn index(&self) -> &Index {
        &self.index
    }

    pub(super) fn options(&self) -> &Options {
        &self.options
    }

    pub(super) fn trash(&self) -> mpsc::Sender<u64> {
        self.trash.clone()
    }

    /// The path as people know it.
    pub(super) fn name(&self, path: &str) -> String {
        self.disk.name(path)
    }

    /// A number that no file has had.
    pub(super) fn number(&self) -> Result<u64, StoreError> {
        let number = self.next_number.fetch_add(1, Ordering::Relaxed);
        if number >= self.end_of_numbers {
            return Err(StoreError::Closed("it has given all its numbers; start it again".into()));
        }
        Ok(number)
    }

    /// Whether there is room for so many bytes, and what the index needs beside them.
    pub(super) fn need_room(&self, bytes: u64) -> Result<(), StoreError> {
        match self.disk.free_bytes() {
            Some(free) if free < self.options.reserve_bytes.saturating_add(bytes) => {
                Err(StoreError::Full(format!(
                    "{} has {free} bytes left, of which {} are kept for the index; delete objects or enlarge the disk",
                    self.disk.name(""),
                    self.options.reserve_bytes
                )))
            }
            _ => Ok(()),
        }
    }

    /// Brings a file to the disk. A sync that failed must not be repeated, since what it lost may then pass for written: so
    /// it is the end of writing.
    pub(super) fn sync(&self, path: &str, file: &dyn File) -> Result<(), StoreError> {
        file.sync().map_err(|error| self.sync_failed(path, error))
    }

    fn sync_failed(&self, path: &str, error: io::Error) -> StoreError {
        let what = format!("sync {}", self.disk.name(path));
        self.close(&format!("{what}: {error}; see to the disk, and start the node again"));
        io_error(what, error)
    }

    /// Accepts no more writes.
    pub(super) fn close(&self, why: &str) {
        lock(&self.closed).get_or_insert_with(|| why.to_owned());
    }

    pub(super) fn is_open(&self) -> Result<(), StoreError> {
        lock(&self.closed).as_ref().map_or(Ok(()), |why| Err(StoreError::Closed(why.clone())))
    }

    /// Makes changes, in this order. Those that are answered with success survive a loss of power.
    pub(super) fn commit(&self, changes: Vec<Change>) -> Vec<Result<Done, StoreError>> {
        if let Err(error) = self.is_open() {
            let why = error.to_string();
            return changes
                .iter()
                .map(|_| self.is_open().and(Err(StoreError::Closed(why.clone()))))
                .collect();
        }
        let mut refused = Vec::new();
        let mut accepted = Vec::new();
        for change in changes {
            let room = if change.grows() { self.need_room(0) } else { Ok(()) };
            refused.push(room.err());
            if refused.last().is_some_and(Option::is_none) {
                accepted.push(change);
            }
        }
        let mut answers = self.commit_accepted(accepted).into_iter();
        refused
            .into_iter()
            .map(|refused| match refused {
                Some(error) => Err(error),
                None => {
                    answers.next().unwrap_or_else(|| Err(StoreError::Closed("it was not committed".into())))
                }
            })
            .collect()
    }

    fn commit_accepted(&self, mut changes: Vec<Change>) -> Vec<Result<Done, StoreError>> {
        if changes.is_empty() {
            return Vec::new();
        }
        let folders: BTreeSet<String> =
            changes.iter_mut().filter_map(Change::data).flat_map(folders).collect();
        for folder in folders {
            if let Err(error) = self.disk.sync_folder(&folder) {
                let error = self.sync_failed(&folder, error);
                return all_failed(changes.len(), &error);
            }
        }
        match self.index.commit(&mut changes, now_ms()) {
            Ok(outcome) => {
                for number in outcome.freed {
                    // When nobody takes them any more, the next start does.
                    let _ = self.trash.send(number);
                }
                outcome.answers
            }
            // One of them meets damage: it must not stand in the way of the others.
            Err(failure) if failure.is_harmless() && changes.len() > 1 => {
                changes.into_iter().flat_map(|change| self.commit_accepted(vec![change])).collect()
            }
            Err(failure) => {
                let is_harmless = failure.is_harmless();
                let error = self.index.explain(failure.stop);
                if !is_harmless {
                    self.close(&format!("{error}; see to the disk, and start the node again"));
                    // Reads go on, if they can.
                    let _ = self.index.freeze();
                }
                all_failed(changes.len(), &error)
            }
        }
    }

    /// What is known of an object, and its bytes.
    pub(super) fn object(self: &Arc<Self>, bucket: &str, key: &str) -> Result<(Entry, Pinned), StoreError> {
        let _looking = self.looking.read().unwrap_or_else(PoisonError::into_inner);
        let (entry, held) = self.index.object(bucket, key)?;
        Ok((entry, self.pin(held)))
    }

    fn pin(self: &Arc<Self>, held: Held) -> Pinned {
        let pinned = Pinned { engine: Arc::clone(self), held };
        let mut pins = lock(&self.pins);
        for number in pinned.files() {
            *pins.readers.entry(number).or_default() += 1;
        }
        drop(pins);
        pinned
    }

    /// Removes a file that nothing names, unless it is being read: then it comes once more.
    pub(super) fn remove(&self, number: u64) {
        {
            let _alone = self.looking.write().unwrap_or_else(PoisonError::into_inner);
            let mut pins = lock(&self.pins);
            if pins.readers.contains_key(&number) {
                pins.doomed.insert(number);
                return;
            }
        }
        // What cannot be removed now is found at the next start.
        let _ = self.disk.remove(&blob::path(number));
    }

    /// Gives up uploads that have been there for too long.
    pub(super) fn expire(&self) -> Result<(), StoreError> {
        let age_ms = u64::try_from(self.options.give_up_uploads_after.as_millis()).unwrap_or(u64::MAX);
        let Some(before_ms) = now_ms().checked_sub(age_ms) else { return Ok(()) };
        if !self.index.has_uploads_before(before_ms)? {
            return Ok(());
        }
        self.commit(vec![Change::Expire { before_ms }]).into_iter().try_for_each(|answer| answer.map(drop))
    }

    /// Removes files that no row names: what a crash left.
    fn collect(&self) -> Result<(), StoreError> {
        for folder in blob::folders() {
            let names = self
                .disk
                .list(&folder)
                .map_err(|error| io_error(format!("list {}", self.disk.name(&folder)), error))?;
            // Other names are none of ours.
            let numbers: Vec<u64> = names
                .iter()
                .filter(|name| name.len() == 16)
                .filter_map(|name| u64::from_str_radix(name, 16).ok())
                .collect();
            for (number, is_named) in numbers.iter().zip(self.index.named(&numbers)?) {
                if !is_named {
                    let path = blob::path(*number);
                    self.disk
                        .remove(&path)
                        .map_err(|error| io_error(format!("remove {}", self.disk.name(&path)), error))?;
                }
            }
        }
        Ok(())
    }

    pub(super) fn usage(&self) -> Result<Usage, StoreError> {
        let counts = self.index.counts()?;
        Ok(Usage { objects: counts.objects, bytes: counts.bytes, free_bytes: self.disk.free_bytes() })
    }

    /// Reads everything. `pace` is called after each step and may wait, or end it.
    pub(super) fn scrub(
        self: &Arc<Self>,
        mut pace: impl FnMut(u64) -> Result<(), StoreError>,
    ) -> Result<Scrub, StoreError> {
        let mut scrub = Scrub::default();
        let mut n_damages = 0_u64;
        let mut damage = |scrub: &mut Scrub, what: String| {
            n_damages += 1;
            if scrub.damaged.len() < MOST_DAMAGES {
                scrub.damaged.push(what);
            }
        };
        let kinds = [Index::objects_after, Index::parts_after];
        for rows_after in kinds {
            let mut after = Some(Vec::new());
            while let Some(from) = after {
                let (next, pinned) = {
                    let _looking = self.looking.read().unwrap_or_else(PoisonError::into_inner);
                    let (next, held) = rows_after(&self.index, &from)?;
                    let pinned: Vec<_> =
                        held.into_iter().map(|held| held.map(|held| self.pin(held))).collect();
                    (next, pinned)
                };
                for pinned in pinned {
                    scrub.objects += 1;
                    let pinned = match pinned {
                        Ok(pinned) => pinned,
                        Err(what) => {
                            damage(&mut scrub, what);
                            continue;
                        }
                    };
                    let name = pinned.held().name.clone();
                    let bytes = pinned.held().pieces.iter().map(|(piece, _)| piece.bytes).sum();
                    let mut reading = Reading::new(pinned, 0, bytes);
                    while !reading.is_done() {
                        match reading.read() {
                            Ok(bytes) => {
                                scrub.bytes += bytes.len() as u64;
                                pace(bytes.len() as u64)?;
                            }
                            Err(StoreError::Damaged { what, why }) => {
                                damage(&mut scrub, format!("{what}: {why}"));
                                break;
                            }
                            Err(error) => {
                                damage(&mut scrub, format!("{name}: {error}"));
                                break;
                            }
                        }
                    }
                }
                after = next;
            }
        }
        let (counted, there) = self.index.n_objects()?;
        if counted != there {
            let what =
                format!("{}: it has {there} objects, and counts {counted}", self.name(super::index::PATH));
            damage(&mut scrub, what);
        }
        Ok(scrub)
    }
}

fn folders(data: &mut Fresh) -> Vec<String> {
    match data {
        Fresh::Inline(_) => Vec::new(),
        Fresh::Blobs(blobs) => {
            blobs.pieces().iter().filter_map(|piece| piece.place.blob()).map(blob::folder).collect()
        }
    }
}

fn all_failed(n: usize, error: &StoreError) -> Vec<Result<Done, StoreError>> {
    let again = || match error {
        StoreError::Full(what) => StoreError::Full(what.clone()),
        StoreError::Io { what, error } => {
            StoreError::Io { what: what.clone(), error: io::Error::new(error.kind(), error.to_string()) }
        }
        StoreError::Damaged { what, why } => StoreError::Damaged { what: what.clone(), why: why.clone() },
        other => StoreError::Closed(other.to_string()),
    };
    (0..n).map(|_| Err(again())).collect()
}

/// An object, or a part, whose files are not removed while this is there.
#[derive(Debug)]
pub(super) struct Pinned {
    engine: Arc<Engine>,
    held: Held,
}

impl Pinned {
    pub(super) fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    pub(super) fn held(&self) -> &Held {
        &self.held
    }

    fn files(&self) -> impl Iterator<Item = u64> {
        self.held.pieces.iter().filter_map(|(piece, _)| piece.place.blob())
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        let mut pins = lock(&self.engine.pins);
        for number in self.files() {
            let Some(readers) = pins.readers.get_mut(&number) else { continue };
            *readers -= 1;
            if *readers == 0 {
                pins.readers.remove(&number);
                if pins.doomed.remove(&number) {
                    let _ = self.engine.trash.send(number);
                }
            }
        }
    }
}

/// What there is under a name.
#[derive(Clone, Copy, Debug)]
pub(super) enum Now<'a> {
    Nothing,
    /// An object that cannot be read.
    Damaged,
    Object(&'a Entry),
}

/// Whether a condition holds.
pub(super) fn holds(condition: &Condition, key: &str, now: Now) -> Result<(), StoreError> {
    let holds = match (condition, now) {
        (Condition::Always, _) | (Condition::Absent, Now::Nothing) => true,
        (Condition::Etag(etag), Now::Damaged) => etag == "*",
        (Condition::Etag(etag), Now::Object(entry)) => etag == "*" || *etag == entry.etag,
        (Condition::Version(version), Now::Object(entry)) => *version == entry.version,
        (Condition::Absent | Condition::Etag(_) | Condition::Version(_), _) => false,
    };
    let why = match (condition, now) {
        _ if holds => return Ok(()),
        (Condition::Absent, _) => format!("there is an object {key} already"),
        (_, Now::Nothing) => format!("there is no object {key}"),
        _ => format!("object {key} is another one now"),
    };
    Err(StoreError::Precondition(why))
}

/// Makes the folder what it has to be before there is an index; returns whether there is none yet.
fn prepare(disk: &dyn Disk) -> Result<bool, StoreError> {
    let names = disk.list("").map_err(|error| io_error(format!("list {}", disk.name("")), error))?;
    let has = |name: &str| names.iter().any(|is| is == name);
    if has(FORMAT) {
        let format = read_whole(disk, FORMAT)?;
        if format == READY {
            return Ok(false);
        }
        if format != MAKING {
            return Err(StoreError::Unusable(format!(
                "{} is of another version: it says {:?}; use the version of this program that wrote it",
                disk.name(FORMAT),
                String::from_utf8_lossy(&format)
            )));
        }
    } else {
        // A folder that something else uses is left alone.
        let ours = ["lock", "lost+found", FORMAT_TEMP];
        if let Some(other) = names.iter().find(|name| !ours.contains(&name.as_str())) {
            return Err(StoreError::Unusable(format!(
                "{} has {other} in it, but no file {FORMAT}: it is not the folder of a store; name another one, or put the file \
                 back if it was removed",
                disk.name("")
            )));
        }
        write_whole(disk, FORMAT, MAKING)?;
    }
    let fail = |what: &str, path: &str, error| io_error(format!("{what} {}", disk.name(path)), error);
    if has(super::index::PATH) {
        disk.remove(super::index::PATH).map_err(|error| fail("remove", super::index::PATH, error))?;
    }
    let folders = std::iter::once("blobs".to_owned()).chain(blob::folders());
    for folder in folders {
        disk.create_folder(&folder).map_err(|error| fail("create", &folder, error))?;
    }
    // The name of this one is synced with that of the index.
    disk.sync_folder("blobs").map_err(|error| fail("sync", "blobs", error))?;
    Ok(true)
}

const FORMAT_TEMP: &str = "format.new";

/// More is not a file that we wrote.
const MOST_WHOLE_BYTES: u64 = 4096;

fn read_whole(disk: &dyn Disk, path: &str) -> Result<Vec<u8>, StoreError> {
    let read = || {
        let file = disk.open(path, Access::Read)?;
        let mut bytes = vec![0; file.bytes()?.min(MOST_WHOLE_BYTES) as usize];
        file.read(0, &mut bytes)?;
        Ok(bytes)
    };
    read().map_err(|error| io_error(format!("read {}", disk.name(path)), error))
}

/// Writes a file so that it has either its old content or the new one, whatever happens.
fn write_whole(disk: &dyn Disk, path: &str, bytes: &[u8]) -> Result<(), StoreError> {
    let write = || {
        match disk.remove(FORMAT_TEMP) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = disk.create(FORMAT_TEMP)?;
        file.write(0, bytes)?;
        file.sync()?;
        disk.rename(FORMAT_TEMP, path)?;
        disk.sync_folder("")
    };
    write().map_err(|error| io_error(format!("write {}", disk.name(path)), error))
}

pub(super) fn now_ms() -> u64 {
    u64::try_from(outside::since_1970().as_millis()).unwrap_or(u64::MAX)
}
