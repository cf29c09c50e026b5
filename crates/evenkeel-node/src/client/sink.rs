//! Writes what arrives into files, each byte once, records it in the journal, and computes checksums behind the writing,
//! so that little is left to verify when the last byte has arrived.
//!
//! Bytes that are there already are not written again: of two copies of the same bytes the first counts. So what was
//! hashed is what is in the file.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use bytes::Bytes;
use evenkeel_store::{Hash, Hasher};
use tokio::task::JoinSet;

use super::destination::{Crc, Place, read_chunks};
use super::journal::{Journal, Record};
use super::ranges::Ranges;

/// Bytes that may wait to be written. Whoever brings more waits.
const MOST_UNWRITTEN: u64 = 64 << 20;
/// Written bytes at the beginning of an object are hashed when there are this many, or all.
const STEP: u64 = 8 << 20;
/// What was written is brought to the disk whenever it is this much, so that the end need not wait for all of it.
const MOST_UNSYNCED: u64 = 32 << 20;
/// Objects that are hashed at once.
const MOST_HASHED: usize = 2;
/// Tasks that write at once. What comes meanwhile is written together by the next one: a task for each of many small
/// objects would take longer than its writing.
const MOST_WRITERS: usize = 3;
/// What a task writes: no more than so many bytes and ranges, if there are several.
const MOST_TOGETHER: (u64, usize) = (4 << 20, 256);

/// Where the bytes of an object go.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) object: usize,
    pub(super) key: String,
    pub(super) version: String,
    pub(super) bytes: u64,
    pub(super) hashes: Vec<Hash>,
    pub(super) place: Place,
}

/// An object that is being written.
#[derive(Debug)]
struct Writing {
    target: Arc<Target>,
    /// What is written or about to be.
    taken: Ranges,
    written: Ranges,
    /// `None` while a task has it.
    hashing: Option<Hashing>,
    is_queued: bool,
}

/// The checksums of the beginning of an object.
#[derive(Debug)]
struct Hashing {
    hashers: Vec<Hasher>,
    at: u64,
}

/// Bytes of an object that are to be written.
#[derive(Debug)]
struct Arrival {
    target: Arc<Target>,
    offset: u64,
    bytes: u64,
    chunks: Vec<Bytes>,
    /// If its checksums are at the same place.
    hashing: Option<Hashing>,
}

/// A range that was written.
#[derive(Debug)]
struct Written {
    object: usize,
    bytes: u64,
    record: Record,
    hashing: Option<Hashing>,
}

/// What a task has done.
#[derive(Debug)]
enum Done {
    /// Up to the first error.
    Wrote(Vec<Written>, io::Result<()>),
    Hashed {
        object: usize,
        hashing: Hashing,
    },
    Synced,
}

/// Writes and hashes in the background, and not more at a time than memory allows.
#[derive(Debug)]
pub(super) struct Sink {
    journal: Journal,
    objects: HashMap<usize, Writing>,
    tasks: JoinSet<io::Result<Done>>,
    to_write: VecDeque<Arrival>,
    n_writers: usize,
    n_unwritten_bytes: u64,
    n_unsynced_bytes: u64,
    is_syncing: bool,
    to_hash: VecDeque<usize>,
    n_hashed: usize,
    /// Complete objects, each with the first checksum that it does not have.
    verdicts: Vec<(usize, Option<Hash>)>,
}

impl Sink {
    pub(super) fn new(journal: Journal) -> Self {
        Self {
            journal,
            objects: HashMap::new(),
            tasks: JoinSet::new(),
            to_write: VecDeque::new(),
            n_writers: 0,
            n_unwritten_bytes: 0,
            n_unsynced_bytes: 0,
            is_syncing: false,
            to_hash: VecDeque::new(),
            n_hashed: 0,
            verdicts: Vec::new(),
        }
    }

    /// An object of which these bytes are there. If that is all of it, it is verified.
    pub(super) fn open(&mut self, target: &Arc<Target>, there: Ranges) {
        let writing = Writing {
            target: Arc::clone(target),
            taken: there.clone(),
            written: there,
            hashing: Some(Hashing::new(target)),
            is_queued: false,
        };
        self.objects.insert(target.object, writing);
        self.go_on_hashing(target.object);
    }

    /// What is written of an open object, or about to be.
    pub(super) fn taken(&self, object: usize) -> Option<&Ranges> {
        self.objects.get(&object).map(|writing| &writing.taken)
    }

    /// Writes consecutive bytes of an open object, as far as they are not there. Waits while too much waits to be
    /// written.
    pub(super) async fn write(&mut self, object: usize, offset: u64, chunks: Vec<Bytes>) -> io::Result<()> {
        let Some(writing) = self.objects.get_mut(&object) else { return Ok(()) };
        let bytes: u64 = chunks.iter().map(|chunk| chunk.len() as u64).sum();
        for range in writing.taken.missing_in(offset..offset + bytes) {
            writing.taken.insert(range.clone());
            let chunks = part(&chunks, range.start - offset..range.end - offset);
            let bytes = range.end - range.start;
            self.n_unwritten_bytes += bytes;
            let target = Arc::clone(&writing.target);
            let hashing = writing.hashing.take_if(|hashing| hashing.at == range.start);
            self.to_write.push_back(Arrival { target, offset: range.start, bytes, chunks, hashing });
        }
        self.go_on_writing();
        while self.n_unwritten_bytes > MOST_UNWRITTEN {
            self.proceed().await?;
        }
        Ok(())
    }

    /// Bytes of an object that were written are worthless.
    pub(super) async fn take_back(&mut self, object: usize, range: Range<u64>) -> io::Result<()> {
        // Later writes of the same bytes must not be overtaken by earlier ones.
        while self.proceed().await? {}
        let Some(writing) = self.objects.get_mut(&object) else { return Ok(()) };
        writing.taken.remove(range.clone());
        writing.written.remove(range.clone());
        let is_hashed = |hashing: &Hashing| hashing.at > range.start;
        if writing.hashing.as_ref().is_some_and(is_hashed) {
            writing.hashing = Some(Hashing::new(&writing.target));
        }
        let Target { key, version, .. } = &*writing.target;
        self.journal.append(&Record::new(key, version, &range, None))
    }

    /// Waits for the next task. Returns false if there is none.
    pub(super) async fn proceed(&mut self) -> io::Result<bool> {
        let Some(done) = self.tasks.join_next().await else { return Ok(false) };
        match done.map_err(io::Error::other)?? {
            Done::Wrote(written, result) => {
                self.n_writers -= 1;
                written.into_iter().try_for_each(|written| self.on_written(written))?;
                result?;
                self.go_on_writing();
            }
            Done::Hashed { object, hashing } => {
                self.n_hashed -= 1;
                self.on_hashed(object, Some(hashing));
            }
            Done::Synced => self.is_syncing = false,
        }
        Ok(true)
    }

    fn on_written(&mut self, Written { object, bytes, record, hashing }: Written) -> io::Result<()> {
        self.n_unwritten_bytes -= bytes;
        self.journal.append(&record)?;
        if let Some(writing) = self.objects.get_mut(&object) {
            writing.written.insert(record.from..record.to);
        }
        self.n_unsynced_bytes += bytes;
        if self.n_unsynced_bytes >= MOST_UNSYNCED && !self.is_syncing {
            self.n_unsynced_bytes = 0;
            self.is_syncing = true;
            let sync = self.journal.sync();
            self.tasks.spawn_blocking(move || sync().map(|()| Done::Synced));
        }
        self.on_hashed(object, hashing);
        Ok(())
    }

    /// The checksums of an object are free again, if they were not.
    fn on_hashed(&mut self, object: usize, hashing: Option<Hashing>) {
        if let (Some(hashing), Some(writing)) = (hashing, self.objects.get_mut(&object)) {
            writing.hashing = Some(hashing);
        }
        self.go_on_hashing(object);
    }

    /// Writes what waits, unless enough is being written.
    fn go_on_writing(&mut self) {
        while self.n_writers < MOST_WRITERS && !self.to_write.is_empty() {
            let (most_bytes, most_ranges) = MOST_TOGETHER;
            let (mut together, mut bytes) = (Vec::new(), 0);
            while together.len() < most_ranges
                && let Some(next) = self.to_write.front()
                && (bytes == 0 || bytes + next.bytes <= most_bytes)
            {
                bytes += next.bytes;
                together.extend(self.to_write.pop_front());
            }
            self.n_writers += 1;
            self.tasks.spawn_blocking(self.journal.locked(move || {
                let mut written = Vec::new();
                let mut write = |arrival: Arrival| arrival.write().map(|done| written.push(done));
                let result = together.into_iter().try_for_each(&mut write);
                Ok(Done::Wrote(written, result))
            }));
        }
    }

    /// Hashes what is written at the beginning of an object, if it is worth it.
    fn go_on_hashing(&mut self, object: usize) {
        if let Some(writing) = self.objects.get_mut(&object)
            && let Some(hashing) = &writing.hashing
            && !writing.is_queued
        {
            let (all, there) = (writing.target.bytes, writing.written.prefix());
            if hashing.at == all {
                self.judge(object);
            } else if there - hashing.at >= STEP || there == all {
                writing.is_queued = true;
                self.to_hash.push_back(object);
            }
        }
        while self.n_hashed < MOST_HASHED
            && let Some(object) = self.to_hash.pop_front()
        {
            let Some(writing) = self.objects.get_mut(&object) else { continue };
            writing.is_queued = false;
            let Some(hashing) = writing.hashing.take() else { continue };
            let (target, to) = (Arc::clone(&writing.target), writing.written.prefix());
            self.n_hashed += 1;
            self.tasks.spawn_blocking(self.journal.locked(move || hash(&target, hashing, to)));
        }
    }

    /// Compares the checksums of a complete object with those it should have.
    fn judge(&mut self, object: usize) {
        let Some(Writing { target, hashing: Some(hashing), .. }) = self.objects.remove(&object) else {
            return;
        };
        let computed = hashing.hashers.into_iter().map(Hasher::finish);
        let wrong = target.hashes.iter().zip(computed).find(|(known, computed)| *known != computed);
        self.verdicts.push((object, wrong.map(|(known, _)| known.clone())));
    }

    /// Waits until everything is written, and all that is complete is verified. Returns the complete objects since the
    /// last time, each with the first checksum that it does not have.
    pub(super) async fn drain(&mut self) -> io::Result<Vec<(usize, Option<Hash>)>> {
        while self.proceed().await? {}
        self.journal.flush()?;
        let mut verdicts = std::mem::take(&mut self.verdicts);
        verdicts.sort_unstable_by_key(|(object, _)| *object);
        Ok(verdicts)
    }

    /// Waits for all tasks, and returns the journal.
    pub(super) async fn finish(mut self) -> io::Result<Journal> {
        self.drain().await?;
        Ok(self.journal)
    }

    /// Records what was written, as far as possible. Something cannot be written, perhaps the journal either.
    pub(super) async fn give_up(&mut self) {
        while let Some(done) = self.tasks.join_next().await {
            if let Ok(Ok(Done::Wrote(written, _))) = done {
                let _ = written.iter().try_for_each(|written| self.journal.append(&written.record));
            }
        }
        let _ = self.journal.flush();
    }

    /// A task that keeps other reads out of the destination until it is done.
    pub(super) fn locked<T, F: FnOnce() -> T>(&self, task: F) -> impl FnOnce() -> T + use<T, F> {
        self.journal.locked(task)
    }

    pub(super) fn is_busy(&self) -> bool {
        !self.tasks.is_empty()
    }

    /// All that was written is complete, and need not be found again.
    pub(super) fn forget(&mut self) -> io::Result<()> {
        self.journal.clear()
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.journal.flush()
    }
}

impl Hashing {
    fn new(target: &Target) -> Self {
        Self { hashers: target.hashes.iter().map(|hash| Hasher::new(hash.algorithm)).collect(), at: 0 }
    }

    fn update(&mut self, data: &[u8]) {
        self.hashers.iter_mut().for_each(|hasher| hasher.update(data));
        self.at += data.len() as u64;
    }
}

/// A part of consecutive bytes.
fn part(chunks: &[Bytes], range: Range<u64>) -> Vec<Bytes> {
    let (mut parts, mut at) = (Vec::with_capacity(chunks.len()), 0);
    for chunk in chunks {
        let end = at + chunk.len() as u64;
        let (from, to) = (range.start.clamp(at, end), range.end.clamp(at, end));
        if from < to {
            parts.push(chunk.slice((from - at) as usize..(to - at) as usize));
        }
        at = end;
    }
    parts
}

impl Arrival {
    fn write(self) -> io::Result<Written> {
        let Self { target, offset, bytes, chunks, mut hashing } = self;
        // Opened each time: a data set may have more objects than a process may have files.
        let file = target.place.open_part(target.bytes)?;
        let (mut at, mut crc) = (offset, Crc::default());
        for chunk in &chunks {
            file.write_all_at(chunk, at)?;
            crc.update(chunk);
            if let Some(hashing) = &mut hashing {
                hashing.update(chunk);
            }
            at += chunk.len() as u64;
        }
        let record = Record::new(&target.key, &target.version, &(offset..at), Some(crc.finish()));
        Ok(Written { object: target.object, bytes, record, hashing })
    }
}

/// Hashes a file from where its checksums are to a place.
fn hash(target: &Target, mut hashing: Hashing, to: u64) -> io::Result<Done> {
    let file = target.place.open_part(target.bytes)?;
    read_chunks(&file, hashing.at..to, |chunk| hashing.update(chunk))?;
    Ok(Done::Hashed { object: target.object, hashing })
}
