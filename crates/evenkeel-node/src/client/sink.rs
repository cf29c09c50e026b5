//! Writes what arrives into files, and records it in the journal.

use std::io;
use std::os::unix::fs::FileExt;

use bytes::Bytes;
use tokio::task::JoinSet;

use super::destination::{Crc, Place};
use super::journal::{Journal, Record};

/// Bytes that may wait to be written. Whoever brings more waits.
const MOST_UNWRITTEN: u64 = 64 << 20;

/// Where the bytes of an object go.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) key: String,
    pub(super) version: String,
    pub(super) bytes: u64,
    pub(super) place: Place,
}

/// Writes in the background, in no particular order, and not more at a time than memory allows.
#[derive(Debug)]
pub(super) struct Sink {
    journal: Journal,
    writes: JoinSet<(u64, io::Result<Record>)>,
    n_unwritten_bytes: u64,
}

impl Sink {
    pub(super) fn new(journal: Journal) -> Self {
        Self { journal, writes: JoinSet::new(), n_unwritten_bytes: 0 }
    }

    /// Writes consecutive bytes of an object. Waits while too much waits to be written.
    pub(super) async fn write(&mut self, target: &Target, offset: u64, chunks: Vec<Bytes>) -> io::Result<()> {
        let bytes: u64 = chunks.iter().map(|chunk| chunk.len() as u64).sum();
        let target = target.clone();
        self.n_unwritten_bytes += bytes;
        self.writes.spawn_blocking(move || (bytes, write(&target, offset, &chunks)));
        while self.n_unwritten_bytes > MOST_UNWRITTEN {
            self.written().await?;
        }
        Ok(())
    }

    /// Waits for the next write. Returns false if nothing is being written.
    pub(super) async fn written(&mut self) -> io::Result<bool> {
        let Some(done) = self.writes.join_next().await else { return Ok(false) };
        let (bytes, record) = done.map_err(io::Error::other)?;
        self.n_unwritten_bytes -= bytes;
        self.journal.append(&record?)?;
        Ok(true)
    }

    /// Waits for all writes.
    pub(super) async fn drain(&mut self) -> io::Result<()> {
        while self.written().await? {}
        self.journal.flush()
    }

    /// Waits for all writes, and returns the journal.
    pub(super) async fn finish(mut self) -> io::Result<Journal> {
        self.drain().await?;
        Ok(self.journal)
    }

    pub(super) fn is_writing(&self) -> bool {
        !self.writes.is_empty()
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.journal.flush()
    }
}

fn write(target: &Target, offset: u64, chunks: &[Bytes]) -> io::Result<Record> {
    // Opened each time: a data set may have more objects than a process may have files.
    let file = target.place.open_part(target.bytes)?;
    let (mut at, mut crc) = (offset, Crc::default());
    for chunk in chunks {
        file.write_all_at(chunk, at)?;
        crc.update(chunk);
        at += chunk.len() as u64;
    }
    Ok(Record::new(&target.key, &target.version, &(offset..at), crc.finish()))
}
