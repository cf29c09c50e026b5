//! What has been received so far, so that an interrupted read goes on where it stopped.
//!
//! The journal is a file in the destination, one JSON object a line, appended to as ranges arrive. It is never trusted
//! blindly: each record has the checksum of its range, and a range counts only if the file still has those bytes. So
//! neither the journal nor the data has to be synced while reading goes on, and a line that was torn by a crash costs
//! one range.

use std::collections::HashMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, BufRead, BufReader, BufWriter, ErrorKind, Read, Seek, Write};
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// The name of the journal in the destination. That of a rank has its number behind it.
pub(super) const NAME: &str = ".evenkeel-journal";
const FORMAT: u32 = 1;
/// The maximum length of a line. Keys have at most a kilobyte in most stores.
const MOST_LINE_BYTES: u64 = 1 << 16;
const RESERVED_BYTES: u64 = 1 << 16;
/// How long to wait for a journal that somebody else has open. A read that was given up may still write its last bytes.
const PATIENCE: Duration = Duration::from_secs(1);

/// A range of an object that was received, or that turned out to be worthless.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) format: u32,
    pub(super) key: String,
    /// Which version of the object.
    pub(super) version: String,
    pub(super) from: u64,
    pub(super) to: u64,
    /// `None` if what was received is worthless.
    pub(super) crc32c: Option<u32>,
}

impl Record {
    pub(super) fn new(key: &str, version: &str, range: &Range<u64>, crc32c: Option<u32>) -> Self {
        let (key, version) = (key.to_owned(), version.to_owned());
        Self { format: FORMAT, key, version, from: range.start, to: range.end, crc32c }
    }
}

/// An open journal. Only one process has it open.
#[derive(Debug)]
pub(super) struct Journal {
    path: PathBuf,
    file: BufWriter<File>,
    /// The same file: it stays locked until both are closed.
    lock: Arc<File>,
    /// The other journals in the folder: of ranks, or of reads without ranks.
    others: Vec<PathBuf>,
    /// For ranks: keeps reads without ranks out.
    gate: Option<Gate>,
}

/// The journal of reads without ranks, shared by all ranks so that no such read begins.
#[derive(Debug)]
struct Gate {
    path: PathBuf,
    _file: File,
}

impl Journal {
    /// Opens the journal of a destination, or begins one; each rank has its own. Returns what is in all journals there,
    /// by key: whoever goes on may have another rank than before, or none.
    pub(super) fn open(
        destination: &Path,
        rank: Option<u32>,
    ) -> io::Result<(Self, HashMap<String, Vec<Record>>)> {
        let path = destination.join(NAME);
        let (mut file, path, gate) = match rank {
            None => (open_locked(&path, File::try_lock)?, path, None),
            Some(rank) => {
                let gate = open_locked(&path, File::try_lock_shared)?;
                let own = destination.join(format!("{NAME}-{rank}"));
                (open_locked(&own, File::try_lock)?, own, Some(Gate { path, _file: gate }))
            }
        };
        let mut records = HashMap::new();
        read(&mut file, &mut records)?;
        // What follows a torn line must not be appended to it.
        if line_is_open(&mut file)? {
            file.write_all(b"\n")?;
        }
        let mut others = Vec::new();
        for entry in std::fs::read_dir(destination)? {
            let entry = entry?;
            let is_journal = entry.file_name().as_encoded_bytes().starts_with(NAME.as_bytes());
            if is_journal && entry.path() != path && entry.file_type()?.is_file() {
                match File::open(entry.path()) {
                    Ok(mut file) => read(&mut file, &mut records)?,
                    // Its rank is done.
                    Err(error) if error.kind() == ErrorKind::NotFound => continue,
                    Err(error) => return Err(error),
                }
                others.push(entry.path());
            }
        }
        reserve(&file);
        let lock = Arc::new(file.try_clone()?);
        Ok((Self { path, file: BufWriter::new(file), lock, others, gate }, records))
    }

    /// A task that keeps other reads out of the destination until it is done, even if this one is given up.
    pub(super) fn locked<T, F: FnOnce() -> T>(&self, task: F) -> impl FnOnce() -> T + use<T, F> {
        let lock = Arc::clone(&self.lock);
        move || {
            let done = task();
            drop(lock);
            done
        }
    }

    /// A task that brings everything in the file system of the journal to the disk.
    pub(super) fn sync(&self) -> impl FnOnce() -> io::Result<()> + use<> {
        let file = Arc::clone(&self.lock);
        move || Ok(rustix::fs::syncfs(&*file)?)
    }

    /// Adds a record. It reaches the file with the next [`flush`](Self::flush) at the latest.
    pub(super) fn append(&mut self, record: &Record) -> io::Result<()> {
        serde_json::to_writer(&mut self.file, record)?;
        self.file.write_all(b"\n")
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }

    /// Forgets what was recorded, since all of it is complete.
    pub(super) fn clear(&mut self) -> io::Result<()> {
        self.file.flush()?;
        self.file.get_ref().set_len(0)?;
        reserve(self.file.get_ref());
        Ok(())
    }

    /// Whether nothing is recorded.
    pub(super) fn is_empty(&self) -> bool {
        let is_empty = self.file.get_ref().metadata().is_ok_and(|metadata| metadata.len() == 0);
        is_empty && (self.gate.is_some() || self.others.is_empty())
    }

    /// Removes the journal, since nothing is left to go on from: also those of ranks, if it is of no rank itself.
    pub(super) fn remove(self) -> io::Result<()> {
        if self.gate.is_none() {
            self.others.iter().try_for_each(|path| remove(path))?;
        }
        remove(&self.path)
    }

    /// Removes the journals of all ranks, and what kept others out, since all ranks are done.
    pub(super) fn remove_all(self) -> io::Result<()> {
        self.others.iter().chain([&self.path]).try_for_each(|path| remove(path))?;
        self.gate.map_or(Ok(()), |gate| remove(&gate.path))
    }
}

/// Sets room aside behind the end of a journal, where that is possible: when the disk is full of data, what was received
/// can still be recorded.
fn reserve(file: &File) {
    let end = file.metadata().map_or(0, |metadata| metadata.len());
    let _ = rustix::fs::fallocate(file, rustix::fs::FallocateFlags::KEEP_SIZE, end, RESERVED_BYTES);
}

/// Removes a file, if it is there.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Opens a file that other processes may not have locked.
fn open_locked(path: &Path, lock: fn(&File) -> Result<(), TryLockError>) -> io::Result<File> {
    let begun = Instant::now();
    loop {
        let file = OpenOptions::new().read(true).append(true).create(true).open(path)?;
        match lock(&file) {
            // Who had it locked may have removed it meanwhile.
            Ok(()) if !is_at(&file, path)? => {}
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if begun.elapsed() < PATIENCE => {
                std::thread::sleep(PATIENCE / 100);
            }
            Err(TryLockError::WouldBlock) => {
                let problem = format!(
                    "another process reads into this folder ({}); wait for it, or name another folder",
                    path.file_name().unwrap_or_default().display()
                );
                return Err(io::Error::new(ErrorKind::ResourceBusy, problem));
            }
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
}

/// Whether an open file is the one that has this name.
pub(super) fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let id = |metadata: std::fs::Metadata| (metadata.dev(), metadata.ino());
    match std::fs::symlink_metadata(path) {
        Ok(metadata) => Ok(id(metadata) == id(file.metadata()?)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

fn read(file: &mut File, records: &mut HashMap<String, Vec<Record>>) -> io::Result<()> {
    file.rewind()?;
    let (mut reader, mut line) = (BufReader::new(&*file), Vec::new());
    loop {
        line.clear();
        let n = reader.by_ref().take(MOST_LINE_BYTES).read_until(b'\n', &mut line)?;
        if n == 0 {
            return Ok(());
        }
        // A line that cannot be read was torn, or is somebody else's: what it stood for is read again.
        let record: Option<Record> = serde_json::from_slice(&line).ok();
        if let Some(record) = record.filter(|record| record.format == FORMAT && record.from < record.to) {
            records.entry(record.key.clone()).or_default().push(record);
        }
    }
}

/// Whether the last line of a file has no end.
fn line_is_open(file: &mut File) -> io::Result<bool> {
    if file.metadata()?.len() == 0 {
        return Ok(false);
    }
    file.seek(io::SeekFrom::End(-1))?;
    let mut last = [0];
    file.read_exact(&mut last)?;
    Ok(last != *b"\n")
}
