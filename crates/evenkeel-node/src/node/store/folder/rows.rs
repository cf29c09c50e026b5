//! How rows of the index are written: a format number, plain fields, and a checksum of the row with its table and key, so
//! that a row that is damaged, or in the wrong place, shows.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::super::{Attributes, Checksum, Entry, Part};

/// The version of every row.
const FORMAT: u8 = 1;
/// Bytes of the checksum behind a row.
const SUM: usize = 4;

/// Where some of an object's bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) place: Place,
    /// Never zero.
    pub(super) bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// In the index, under this number.
    Inline(u64),
    /// In the file of this number.
    Blob(u64),
}

/// An object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ObjectRow {
    pub(super) entry: Entry,
    /// In order.
    pub(super) pieces: Vec<Piece>,
}

/// An object that is being written in parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct UploadRow {
    pub(super) key: String,
    pub(super) id: u64,
    pub(super) started_ms: u64,
    pub(super) attributes: Attributes,
}

/// A part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PartRow {
    pub(super) part: Part,
    pub(super) pieces: Vec<Piece>,
}

/// What the index counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) objects: u64,
    pub(super) bytes: u64,
    /// The last number given to a version, an upload or inline bytes.
    pub(super) last: u64,
    /// How often the store was opened: the upper part of the numbers of files.
    pub(super) epoch: u64,
}

/// A row of a table: how it becomes bytes, and is read again.
pub(super) trait Row: Sized {
    fn write(&self, out: &mut Out);
    fn read(from: &mut In) -> Option<Self>;

    fn seal(&self, table: &str, key: &[u8]) -> Vec<u8> {
        let mut out = Out(vec![FORMAT]);
        self.write(&mut out);
        let sum = sum(table, key, &out.0);
        out.0.extend_from_slice(&sum);
        out.0
    }

    /// `None` if it is damaged.
    fn unseal(table: &str, key: &[u8], sealed: &[u8]) -> Option<Self> {
        let (row, is) = sealed.split_at_checked(sealed.len().checked_sub(SUM)?)?;
        let (&format, fields) = row.split_first()?;
        if sum(table, key, row) != is || format != FORMAT {
            return None;
        }
        let mut fields = In(fields);
        let read = Self::read(&mut fields)?;
        fields.0.is_empty().then_some(read)
    }
}

fn sum(table: &str, key: &[u8], row: &[u8]) -> [u8; SUM] {
    let mut crc = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
    crc.update(table.as_bytes());
    crc.update(&(key.len() as u64).to_le_bytes());
    crc.update(key);
    crc.update(row);
    (crc.finalize() as u32).to_le_bytes()
}

/// Fields on their way out.
#[derive(Debug)]
pub(super) struct Out(Vec<u8>);

impl Out {
    /// Seven bits a byte, the lowest first.
    fn number(&mut self, mut n: u64) {
        while n >= 0x80 {
            self.0.push(n as u8 | 0x80);
            n >>= 7;
        }
        self.0.push(n as u8);
    }

    fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.0.extend_from_slice(text.as_bytes());
    }

    fn map(&mut self, map: &BTreeMap<String, String>) {
        self.number(map.len() as u64);
        for (name, value) in map {
            self.text(name);
            self.text(value);
        }
    }

    fn attributes(&mut self, attributes: &Attributes) {
        self.map(&attributes.headers);
        self.map(&attributes.user);
    }

    fn checksum(&mut self, checksum: Option<&Checksum>) {
        self.text(checksum.map_or("", |checksum| &checksum.algorithm));
        if let Some(checksum) = checksum {
            self.text(&checksum.value);
        }
    }

    fn pieces(&mut self, pieces: &[Piece]) {
        self.number(pieces.len() as u64);
        for piece in pieces {
            let (kind, number) = match piece.place {
                Place::Inline(number) => (0, number),
                Place::Blob(number) => (1, number),
            };
            self.number(kind);
            self.number(number);
            self.number(piece.bytes);
        }
    }
}

/// Fields that are read.
#[derive(Debug)]
pub(super) struct In<'a>(&'a [u8]);

impl In<'_> {
    fn number(&mut self) -> Option<u64> {
        let mut n = 0;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.0.split_first()?;
            self.0 = rest;
            n |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(n);
            }
        }
        None
    }

    fn text(&mut self) -> Option<String> {
        let length = usize::try_from(self.number()?).ok()?;
        let (text, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        String::from_utf8(text.to_vec()).ok()
    }

    /// Each takes a byte at least, so that a wrong number asks for no memory.
    fn many<T>(&mut self, mut one: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let n = usize::try_from(self.number()?).ok().filter(|n| *n <= self.0.len())?;
        let mut all = Vec::with_capacity(n);
        for _ in 0..n {
            all.push(one(self)?);
        }
        Some(all)
    }

    fn map(&mut self) -> Option<BTreeMap<String, String>> {
        Some(self.many(|fields| Some((fields.text()?, fields.text()?)))?.into_iter().collect())
    }

    fn attributes(&mut self) -> Option<Attributes> {
        Some(Attributes { headers: self.map()?, user: self.map()? })
    }

    /// The outer `None` is damage.
    #[allow(clippy::option_option)]
    fn checksum(&mut self) -> Option<Option<Checksum>> {
        let algorithm = self.text()?;
        Some(if algorithm.is_empty() { None } else { Some(Checksum { algorithm, value: self.text()? }) })
    }

    fn pieces(&mut self) -> Option<Vec<Piece>> {
        self.many(|fields| {
            let kind = fields.number()?;
            let number = fields.number()?;
            let place = match kind {
                0 => Place::Inline(number),
                1 => Place::Blob(number),
                _ => return None,
            };
            Some(Piece { place, bytes: fields.number()? })
        })
    }
}

impl Row for ObjectRow {
    fn write(&self, out: &mut Out) {
        let Entry { bytes, etag, modified_ms, version, attributes, checksum, parts } = &self.entry;
        out.number(*bytes);
        out.text(etag);
        out.number(*modified_ms);
        out.number(*version);
        out.attributes(attributes);
        out.checksum(checksum.as_ref());
        out.number(parts.len() as u64);
        parts.iter().for_each(|bytes| out.number(*bytes));
        out.pieces(&self.pieces);
    }

    fn read(from: &mut In) -> Option<Self> {
        let entry = Entry {
            bytes: from.number()?,
            etag: from.text()?,
            modified_ms: from.number()?,
            version: from.number()?,
            attributes: from.attributes()?,
            checksum: from.checksum()?,
            parts: from.many(In::number)?,
        };
        Some(Self { entry, pieces: from.pieces()? })
    }
}

impl Row for UploadRow {
    fn write(&self, out: &mut Out) {
        out.text(&self.key);
        out.number(self.id);
        out.number(self.started_ms);
        out.attributes(&self.attributes);
    }

    fn read(from: &mut In) -> Option<Self> {
        Some(Self {
            key: from.text()?,
            id: from.number()?,
            started_ms: from.number()?,
            attributes: from.attributes()?,
        })
    }
}

impl Row for PartRow {
    fn write(&self, out: &mut Out) {
        let Part { number, bytes, etag, modified_ms, checksum } = &self.part;
        out.number((*number).into());
        out.number(*bytes);
        out.text(etag);
        out.number(*modified_ms);
        out.checksum(checksum.as_ref());
        out.pieces(&self.pieces);
    }

    fn read(from: &mut In) -> Option<Self> {
        let part = Part {
            number: from.number()?.try_into().ok()?,
            bytes: from.number()?,
            etag: from.text()?,
            modified_ms: from.number()?,
            checksum: from.checksum()?,
        };
        Some(Self { part, pieces: from.pieces()? })
    }
}

impl Row for Counts {
    fn write(&self, out: &mut Out) {
        [self.objects, self.bytes, self.last, self.epoch].into_iter().for_each(|n| out.number(n));
    }

    fn read(from: &mut In) -> Option<Self> {
        Some(Self {
            objects: from.number()?,
            bytes: from.number()?,
            last: from.number()?,
            epoch: from.number()?,
        })
    }
}

/// A single number: when a bucket was made, or how many pieces name a file.
impl Row for u64 {
    fn write(&self, out: &mut Out) {
        out.number(*self);
    }

    fn read(from: &mut In) -> Option<Self> {
        from.number()
    }
}

/// Bytes as they are.
impl Row for Bytes {
    fn write(&self, out: &mut Out) {
        out.0.extend_from_slice(self);
    }

    fn read(from: &mut In) -> Option<Self> {
        Some(Bytes::copy_from_slice(std::mem::take(&mut from.0)))
    }
}
