//! CSV tables with a header whose columns may come in any order.

use std::cell::Cell;
use std::io::{self, BufRead, Read};
use std::rc::Rc;

use csv::{ByteRecord, ErrorKind};
use evenkeel_sim::scenario::not_known;

use crate::{InputError, Reading, skip_bom};

/// A longer record is invalid: a quote was opened and never closed, or the file is not a table.
pub(crate) const MAX_RECORD_BYTES: u64 = 64 << 20;
const CHUNK: usize = 1 << 16;

/// A reader of records, one at a time, whatever their fields mean.
pub(crate) struct Records<R> {
    file: String,
    reader: csv::Reader<Lines<R>>,
    record: ByteRecord,
    tally: Rc<Tally>,
}

impl<R: BufRead> Records<R> {
    pub(crate) fn open(mut reader: R, file: &str, delimiter: u8) -> Result<Self, InputError> {
        skip_bom(&mut reader).map_err(|e| InputError::new(file, None, format!("cannot read it: {e}")))?;
        let tally = Rc::new(Tally::default());
        let lines = Lines { inner: reader, tally: Rc::clone(&tally), last: b'\n' };
        let mut builder = csv::ReaderBuilder::new();
        builder.has_headers(false).buffer_capacity(CHUNK).delimiter(delimiter);
        Ok(Self {
            file: file.to_owned(),
            reader: builder.from_reader(lines),
            record: ByteRecord::new(),
            tally,
        })
    }

    /// Advances to the next record; false at the end.
    pub(crate) fn next(&mut self) -> Result<bool, InputError> {
        self.tally.unread.set(0);
        let more = self.reader.read_byte_record(&mut self.record).map_err(|error| {
            let message = match error.kind() {
                ErrorKind::UnequalLengths { expected_len, len, .. } => {
                    format!(
                        "the row has {len} fields, but the first row has {expected_len}; give each column a field"
                    )
                }
                ErrorKind::Io(e) => format!("cannot read on: {e}"),
                _ => error.to_string(),
            };
            self.error(message)
        })?;
        if !more && self.tally.quotes.get() % 2 == 1 {
            return Err(self.error("a quote in this file is not closed, or stands alone"));
        }
        Ok(more)
    }

    /// How many fields the current record has.
    pub(crate) fn len(&self) -> usize {
        self.record.len()
    }

    /// A field of the current record, which must have it; `name` is for messages.
    pub(crate) fn field(&self, k: usize, name: &str) -> Result<&str, InputError> {
        std::str::from_utf8(&self.record[k]).map_err(|_| self.error(format!("the {name} is not valid UTF-8")))
    }

    /// The line in which the current record ends.
    pub(crate) fn line(&self) -> u64 {
        // Every record ends with a line feed, and the reader is positioned after it.
        self.reader.position().line().saturating_sub(1).max(1)
    }

    /// An error about the current record.
    pub(crate) fn error(&self, message: impl std::fmt::Display) -> InputError {
        InputError::new(&self.file, self.line(), message)
    }
}

/// A reader of a table, one record at a time.
pub(crate) struct Table<R> {
    records: Records<R>,
    header: ByteRecord,
    columns: Vec<Option<usize>>,
    names: Vec<&'static str>,
}

impl<R: BufRead> Table<R> {
    /// Reads the header. The `required` columns must be present, the `optional` ones may be.
    pub(crate) fn open(
        reader: R,
        reading: &Reading<'_>,
        required: &[&'static str],
        optional: &[&'static str],
    ) -> Result<Self, InputError> {
        let names: Vec<&'static str> = required.iter().chain(optional).copied().collect();
        let columns = vec![None; names.len()];
        let records = Records::open(reader, reading.file, b',')?;
        let mut table = Self { records, header: ByteRecord::new(), columns, names };
        table.read_header(required, reading.ignored)?;
        Ok(table)
    }

    fn read_header(&mut self, required: &[&str], ignored: &[String]) -> Result<(), InputError> {
        let header = self.names.join(",");
        if !self.next()? {
            let message = format!("the file is empty; it must begin with a header, such as {header}");
            return Err(InputError::new(&self.records.file, None, message));
        }
        for k in 0..self.records.len() {
            let name = String::from_utf8_lossy(&self.records.record[k]);
            if ignored.iter().any(|ignored| *ignored == name) {
                continue;
            }
            let Some(column) = self.names.iter().position(|known| *known == name) else {
                return Err(self.error(unknown_column(&name, &self.names)));
            };
            if self.columns[column].replace(k).is_some() {
                return Err(self.error(format!("column `{name}` appears twice; keep one of them")));
            }
        }
        self.header = self.records.record.clone();
        match required.iter().zip(&self.columns).find(|(_, column)| column.is_none()) {
            Some((name, _)) if ignored.iter().any(|ignored| ignored == name) => {
                Err(self.error(format!("column `{name}` is required; do not ignore it")))
            }
            Some((name, _)) => {
                Err(self.error(format!("column `{name}` is missing; the header may have {header}")))
            }
            None => Ok(()),
        }
    }

    /// Advances to the next record; false at the end.
    pub(crate) fn next(&mut self) -> Result<bool, InputError> {
        let more = self.records.next()?;
        if more && self.records.record.as_slice() == self.header.as_slice() {
            return Err(self.error("the header appears twice; keep the first"));
        }
        Ok(more)
    }

    /// Whether the table has the column with that index in the list given to [`Self::open`].
    pub(crate) fn has(&self, column: usize) -> bool {
        self.columns[column].is_some()
    }

    /// The field of the column with that index in the list given to [`Self::open`], if the table has it.
    pub(crate) fn field(&self, column: usize) -> Result<Option<&str>, InputError> {
        let Some(k) = self.columns[column] else { return Ok(None) };
        self.records.field(k, self.names[column]).map(Some)
    }

    /// The field of a column that must be present.
    pub(crate) fn required(&self, column: usize) -> Result<&str, InputError> {
        Ok(self.field(column)?.unwrap_or_default())
    }

    /// The line of the current record.
    pub(crate) fn line(&self) -> u64 {
        self.records.line()
    }

    /// An error about the current record.
    pub(crate) fn error(&self, message: impl std::fmt::Display) -> InputError {
        self.records.error(message)
    }
}

/// The message for an unknown column, or an unknown key of a request.
pub(crate) fn unknown_column(name: &str, known: &[&str]) -> String {
    const MOST: usize = 60;
    let short: String = name.chars().take(MOST).collect();
    let why = not_known("column", &short, known).replacen("there is no", "unknown", 1);
    format!("{why}; --ignore-columns skips it")
}

/// Counts what has gone through a [`Lines`].
#[derive(Default)]
struct Tally {
    /// Bytes since the last record.
    unread: Cell<u64>,
    /// Quotes so far.
    quotes: Cell<u64>,
}

/// Lines that all end with a line feed, whatever they ended with. Refuses to read on when a record does not end.
struct Lines<R> {
    inner: R,
    tally: Rc<Tally>,
    last: u8,
}

impl<R: Read> Read for Lines<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let n = self.inner.read(buffer)?;
            if n == 0 {
                return Ok(self.end_last_line(buffer));
            }
            let kept = self.end_with_line_feeds(&mut buffer[..n]);
            let quotes: u64 = buffer[..kept].iter().map(|&byte| u64::from(byte == b'"')).sum();
            self.tally.quotes.set(self.tally.quotes.get() + quotes);
            self.tally.unread.set(self.tally.unread.get() + n as u64);
            if self.tally.unread.get() > MAX_RECORD_BYTES {
                return Err(io::Error::other("a row is longer than 64 MiB; is a quote not closed?"));
            }
            if kept > 0 {
                return Ok(kept);
            }
        }
    }
}

impl<R> Lines<R> {
    /// Converts CRLF and CR to LF. Returns how many bytes are left.
    fn end_with_line_feeds(&mut self, bytes: &mut [u8]) -> usize {
        let before = std::mem::replace(&mut self.last, bytes[bytes.len() - 1]);
        if before != b'\r' && !bytes.contains(&b'\r') {
            return bytes.len();
        }
        let (mut kept, mut before) = (0, before);
        for k in 0..bytes.len() {
            let byte = bytes[k];
            if !(byte == b'\n' && before == b'\r') {
                bytes[kept] = if byte == b'\r' { b'\n' } else { byte };
                kept += 1;
            }
            before = byte;
        }
        kept
    }

    /// Adds the line feed that is missing after the last line.
    fn end_last_line(&mut self, buffer: &mut [u8]) -> usize {
        match buffer.first_mut() {
            Some(first) if !matches!(self.last, b'\n' | b'\r') => {
                (*first, self.last) = (b'\n', b'\n');
                1
            }
            _ => 0,
        }
    }
}

/// A field as it is written: in quotes if necessary.
pub fn quoted(field: &str) -> String {
    let special = |c: char| matches!(c, ',' | '"' | '\n' | '\r');
    if field.is_empty() || field.contains(special) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}
