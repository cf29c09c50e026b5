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
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// The name of the journal in the destination.
pub(super) const NAME: &str = ".evenkeel-journal";
const FORMAT: u32 = 1;
/// The maximum length of a line. Keys have at most a kilobyte in most stores.
const MOST_LINE_BYTES: u64 = 1 << 16;

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
}

impl Journal {
    /// Opens the journal of a destination, or begins one. Returns what is in it, by key.
    pub(super) fn open(destination: &Path) -> io::Result<(Self, HashMap<String, Vec<Record>>)> {
        let path = destination.join(NAME);
        let mut file = OpenOptions::new().read(true).append(true).create(true).open(&path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let problem = "another process reads into this folder; wait for it, or name another folder";
                return Err(io::Error::new(ErrorKind::ResourceBusy, problem));
            }
            Err(TryLockError::Error(error)) => return Err(error),
        }
        let records = read(&mut file)?;
        Ok((Self { path, file: BufWriter::new(file) }, records))
    }

    /// Adds a record. It reaches the file with the next [`flush`](Self::flush) at the latest.
    pub(super) fn append(&mut self, record: &Record) -> io::Result<()> {
        serde_json::to_writer(&mut self.file, record)?;
        self.file.write_all(b"\n")
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }

    /// Whether nothing was ever recorded.
    pub(super) fn is_empty(&self) -> bool {
        self.file.get_ref().metadata().is_ok_and(|metadata| metadata.len() == 0)
    }

    /// Removes the journal, since nothing is left to go on from.
    pub(super) fn remove(self) -> io::Result<()> {
        std::fs::remove_file(&self.path)
    }
}

fn read(file: &mut File) -> io::Result<HashMap<String, Vec<Record>>> {
    file.rewind()?;
    let mut records: HashMap<String, Vec<Record>> = HashMap::new();
    let (mut reader, mut line) = (BufReader::new(&*file), Vec::new());
    loop {
        line.clear();
        let n = reader.by_ref().take(MOST_LINE_BYTES).read_until(b'\n', &mut line)?;
        if n == 0 {
            break;
        }
        // A line that cannot be read was torn, or is somebody else's: what it stood for is read again.
        let record = serde_json::from_slice(&line).ok();
        let usable = |record: &Record| record.format == FORMAT && record.from < record.to;
        if let Some(record) = record.filter(usable) {
            records.entry(record.key.clone()).or_default().push(record);
        }
    }
    // What follows a torn line must not be appended to it.
    if line_is_open(file)? {
        file.write_all(b"\n")?;
    }
    Ok(records)
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
