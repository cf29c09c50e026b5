//! Files of bytes: blocks, and behind them a table of their checksums.
//!
//! The checksum of a block is the CRC-32C of the file's number, the number of the block, and the block, so that bytes of
//! another file, or of another place in it, show. A file is written once and never changed.

use std::fmt;
use std::sync::{Arc, mpsc};

use bytes::{Bytes, BytesMut};
use md5::{Digest, Md5};

use super::super::StoreError;
use super::disk::{Access, File};
use super::engine::{Engine, Pinned};
use super::rows::{Piece, Place};
use super::{hex, io_error};

/// Whoever reads a byte reads and verifies the whole block.
pub(super) const BLOCK: u64 = 64 << 10;
/// Bytes of a checksum.
const SUM: u64 = 4;
/// Bytes that are read, or collected to be written, at a time.
pub(super) const BATCH: u64 = 2 * BLOCK;
/// Bytes of the largest file: its checksums are in memory while it is written. More bytes take another file.
const MOST_BYTES: u64 = 4 << 30;
/// So many checksums are read at a time.
const SUMS: u64 = 1024;
/// Bytes are brought to the disk whenever there are so many, so that the last sync is a short one.
const STEP: u64 = 16 << 20;

/// Where a file is. Those that are made together share a folder, so that one sync of it serves all of them.
pub(super) fn path(number: u64) -> String {
    format!("{}/{number:016x}", folder(number))
}

pub(super) fn folder(number: u64) -> String {
    format!("blobs/{:02x}", number >> 8 & 0xff)
}

/// All folders of files.
pub(super) fn folders() -> impl Iterator<Item = String> {
    (0..=0xff).map(|n| folder(n << 8))
}

fn start_sum(number: u64, block: u64) -> crc_fast::Digest {
    let mut crc = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
    crc.update(&number.to_le_bytes());
    crc.update(&block.to_le_bytes());
    crc
}

/// New bytes that nothing names yet.
#[derive(Debug)]
pub(super) enum Fresh {
    /// Few enough for the index.
    Inline(Bytes),
    /// On the disk.
    Blobs(Blobs),
}

impl Fresh {
    /// They are about to be named: they stay when this is dropped.
    pub(super) fn keep(&mut self) {
        if let Self::Blobs(blobs) = self {
            blobs.trash = None;
        }
    }
}

/// Files that are removed with this, unless they are kept.
#[derive(Debug)]
pub(super) struct Blobs {
    pieces: Vec<Piece>,
    trash: Option<mpsc::Sender<u64>>,
}

impl Blobs {
    pub(super) fn pieces(&self) -> &[Piece] {
        &self.pieces
    }
}

impl Drop for Blobs {
    fn drop(&mut self) {
        if let Some(trash) = self.trash.take() {
            for number in self.pieces.iter().filter_map(|piece| piece.place.blob()) {
                // When nobody takes them any more, the next start does.
                let _ = trash.send(number);
            }
        }
    }
}

/// Writes bytes into new files.
pub(super) struct Writing {
    engine: Arc<Engine>,
    blobs: Blobs,
    current: Option<Current>,
    md5: Md5,
    bytes: u64,
}

/// The file that is being written, the last of the pieces.
struct Current {
    number: u64,
    file: Box<dyn File>,
    bytes: u64,
    unsynced: u64,
    /// Of the blocks that are complete.
    sums: Vec<u8>,
    sum: crc_fast::Digest,
}

impl fmt::Debug for Writing {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.debug_struct("Writing").field("blobs", &self.blobs).finish_non_exhaustive()
    }
}

impl Writing {
    pub(super) fn new(engine: &Arc<Engine>) -> Self {
        Self {
            engine: Arc::clone(engine),
            blobs: Blobs { pieces: Vec::new(), trash: Some(engine.trash()) },
            current: None,
            md5: Md5::new(),
            bytes: 0,
        }
    }

    pub(super) fn append(&mut self, chunks: &[Bytes]) -> Result<(), StoreError> {
        self.engine.need_room(chunks.iter().map(|chunk| chunk.len() as u64).sum())?;
        for chunk in chunks {
            self.md5.update(chunk);
            self.bytes += chunk.len() as u64;
            let mut rest = chunk.as_ref();
            while !rest.is_empty() {
                rest = self.write(rest)?;
            }
        }
        Ok(())
    }

    /// Writes what fits into the current file, and returns the rest.
    fn write<'a>(&mut self, data: &'a [u8]) -> Result<&'a [u8], StoreError> {
        if self.current.as_ref().is_none_or(|current| current.bytes == MOST_BYTES) {
            self.end_file()?;
            self.current = Some(self.start_file()?);
        }
        let Some(current) = &mut self.current else { return Ok(data) };
        let fits = (MOST_BYTES - current.bytes).min(data.len() as u64);
        let (data, rest) = data.split_at(fits as usize);
        let at = current.bytes;
        let what = || format!("write {}", self.engine.name(&path(current.number)));
        current.file.write(at, data).map_err(|error| io_error(what(), error))?;
        let mut summed = data;
        while !summed.is_empty() {
            let room = BLOCK - current.bytes % BLOCK;
            let (block, next) = summed.split_at(room.min(summed.len() as u64) as usize);
            current.sum.update(block);
            current.bytes += block.len() as u64;
            if current.bytes.is_multiple_of(BLOCK) {
                current.end_block();
            }
            summed = next;
        }
        current.unsynced += fits;
        if current.unsynced >= STEP {
            current.unsynced = 0;
            self.engine.sync(&path(current.number), &*current.file)?;
        }
        Ok(rest)
    }

    fn start_file(&mut self) -> Result<Current, StoreError> {
        let number = self.engine.number()?;
        let path = path(number);
        let file = self
            .engine
            .disk()
            .create(&path)
            .map_err(|error| io_error(format!("create {}", self.engine.name(&path)), error))?;
        // From here on it is removed if anything fails.
        self.blobs.pieces.push(Piece { place: Place::Blob(number), bytes: 0 });
        Ok(Current { number, file, bytes: 0, unsynced: 0, sums: Vec::new(), sum: start_sum(number, 0) })
    }

    fn end_file(&mut self) -> Result<(), StoreError> {
        let Some(mut current) = self.current.take() else { return Ok(()) };
        if !current.bytes.is_multiple_of(BLOCK) {
            current.end_block();
        }
        let path = path(current.number);
        let what = || format!("write {}", self.engine.name(&path));
        current.file.write(current.bytes, &current.sums).map_err(|error| io_error(what(), error))?;
        self.engine.sync(&path, &*current.file)?;
        if let Some(piece) = self.blobs.pieces.last_mut() {
            piece.bytes = current.bytes;
        }
        Ok(())
    }

    /// Returns the bytes, on the disk, their number, and their MD5.
    pub(super) fn finish(mut self) -> Result<(Fresh, u64, String), StoreError> {
        self.end_file()?;
        Ok((Fresh::Blobs(self.blobs), self.bytes, hex::encode(&self.md5.finalize())))
    }
}

impl Current {
    fn end_block(&mut self) {
        let sum = self.sum.finalize() as u32;
        self.sums.extend_from_slice(&sum.to_le_bytes());
        self.sum = start_sum(self.number, self.bytes.div_ceil(BLOCK));
    }
}

/// Reads a range of an object.
#[derive(Debug)]
pub(super) struct Reading {
    pinned: Pinned,
    /// The piece that is next, and where in it.
    piece: usize,
    at: u64,
    left: u64,
    open: Option<Open>,
}

/// The file that is being read.
#[derive(Debug)]
struct Open {
    number: u64,
    file: Box<dyn File>,
    /// The checksums from this block on.
    first_sum: u64,
    sums: Vec<u8>,
}

impl Reading {
    /// Reads from there so many bytes, which the object has.
    pub(super) fn new(pinned: Pinned, mut at: u64, bytes: u64) -> Self {
        let mut piece = 0;
        while let Some((is, _)) = pinned.held().pieces.get(piece)
            && is.bytes <= at
        {
            at -= is.bytes;
            piece += 1;
        }
        Self { pinned, piece, at, left: bytes, open: None }
    }

    /// Whether there is more to read.
    pub(super) fn is_done(&self) -> bool {
        self.left == 0
    }

    /// The next bytes; none at the end.
    pub(super) fn read(&mut self) -> Result<Bytes, StoreError> {
        if self.left == 0 {
            return Ok(Bytes::new());
        }
        let Some((piece, inline)) = self.pinned.held().pieces.get(self.piece) else {
            return Err(self.damaged("it is shorter than its row says"));
        };
        let piece = *piece;
        let wanted = self.left.min(piece.bytes - self.at);
        let bytes = match (inline, piece.place) {
            (Some(bytes), _) => bytes
                .get(self.at as usize..(self.at + wanted) as usize)
                .map(|range| bytes.slice_ref(range))
                .ok_or_else(|| self.damaged("it is shorter than its row says"))?,
            (None, Place::Blob(number)) => self.read_file(number, piece.bytes, wanted)?,
            (None, Place::Inline(_)) => return Err(self.damaged("its bytes are not in the index")),
        };
        self.left -= bytes.len() as u64;
        self.at += bytes.len() as u64;
        if self.at == piece.bytes {
            (self.piece, self.at) = (self.piece + 1, 0);
            self.open = None;
        }
        Ok(bytes)
    }

    /// Reads whole blocks, verifies them, and returns what is wanted of them.
    fn read_file(&mut self, number: u64, bytes: u64, wanted: u64) -> Result<Bytes, StoreError> {
        let open = match self.open.take() {
            Some(open) if open.number == number => open,
            _ => self.open_file(number, bytes)?,
        };
        let open = self.open.insert(open);
        let first = self.at / BLOCK;
        let start = first * BLOCK;
        let end = (self.at + wanted).next_multiple_of(BLOCK).min(bytes).min(start + BATCH);
        let mut data = BytesMut::zeroed((end - start) as usize);
        let result = open.file.read(start, &mut data).and_then(|()| open.read_sums(first, end, bytes));
        if let Err(error) = result {
            return Err(self.unreadable(number, error));
        }
        for (block, data) in (first..).zip(data.chunks(BLOCK as usize)) {
            let mut sum = start_sum(number, block);
            sum.update(data);
            if open.sum(block) != Some((sum.finalize() as u32).to_le_bytes()) {
                let place = self.pinned.engine().name(&path(number));
                return Err(self.damaged(&format!(
                    "the bytes {} to {} of {place} are not what was written",
                    block * BLOCK,
                    block * BLOCK + data.len() as u64
                )));
            }
        }
        let data = data.freeze();
        let from = (self.at - start) as usize;
        Ok(data.slice(from..data.len().min(from + wanted as usize)))
    }

    fn open_file(&self, number: u64, bytes: u64) -> Result<Open, StoreError> {
        let engine = self.pinned.engine();
        let file = engine.disk().open(&path(number), Access::Read);
        let file = file.map_err(|error| self.unreadable(number, error))?;
        let is = file.bytes().map_err(|error| self.unreadable(number, error))?;
        let want = bytes + SUM * bytes.div_ceil(BLOCK);
        if is != want {
            let place = engine.name(&path(number));
            return Err(self.damaged(&format!("{place} has {is} bytes, not {want}")));
        }
        Ok(Open { number, file, first_sum: 0, sums: Vec::new() })
    }

    fn unreadable(&self, number: u64, error: std::io::Error) -> StoreError {
        let place = self.pinned.engine().name(&path(number));
        if error.kind() == std::io::ErrorKind::NotFound {
            return self.damaged(&format!("{place} is missing"));
        }
        StoreError::Io { what: format!("read {place} of {}", self.pinned.held().name), error }
    }

    fn damaged(&self, why: &str) -> StoreError {
        StoreError::Damaged { what: self.pinned.held().name.clone(), why: why.to_owned() }
    }
}

impl Open {
    /// Has the checksums of the blocks from there to `end` in memory.
    fn read_sums(&mut self, first: u64, end: u64, bytes: u64) -> std::io::Result<()> {
        let (n, last) = (bytes.div_ceil(BLOCK), end.div_ceil(BLOCK));
        if first < self.first_sum || last > self.first_sum + self.sums.len() as u64 / SUM {
            let until = (first + SUMS).min(n).max(last);
            self.sums = vec![0; (SUM * (until - first)) as usize];
            self.first_sum = first;
            self.file.read(bytes + SUM * first, &mut self.sums)?;
        }
        Ok(())
    }

    fn sum(&self, block: u64) -> Option<[u8; SUM as usize]> {
        let at = (SUM * block.checked_sub(self.first_sum)?) as usize;
        self.sums.get(at..)?.first_chunk().copied()
    }
}
