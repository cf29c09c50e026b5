//! CSV tables with a header whose columns may come in any order.

use std::cell::Cell;
use std::io::{self, BufRead, Read};
use std::rc::Rc;

use csv::{ByteRecord, ErrorKind};

use super::{InputError, skip_bom};

/// A record longer than this is not one: a quote was opened and never closed, or the file is no table.
const MAX_RECORD_BYTES: u64 = 64 << 20;
const CHUNK: usize = 1 << 16;

/// A table under way: one record at a time.
pub(super) struct Table<R> {
    file: String,
    reader: csv::Reader<Limited<R>>,
    record: ByteRecord,
    unread: Rc<Cell<u64>>,
    columns: Vec<Option<usize>>,
    names: Vec<&'static str>,
}

impl<R: BufRead> Table<R> {
    /// Reads the header. The `required` columns must be there, the `optional` ones may.
    pub(super) fn open(
        mut reader: R,
        file: &str,
        required: &[&'static str],
        optional: &[&'static str],
    ) -> Result<Self, InputError> {
        skip_bom(&mut reader).map_err(|e| InputError::new(file, None, format!("cannot read it: {e}")))?;
        let unread = Rc::new(Cell::new(0));
        let limited = Limited { inner: reader, unread: Rc::clone(&unread) };
        let reader = csv::ReaderBuilder::new().has_headers(false).buffer_capacity(CHUNK).from_reader(limited);
        let names: Vec<&'static str> = required.iter().chain(optional).copied().collect();
        let columns = vec![None; names.len()];
        let mut table =
            Self { file: file.to_owned(), reader, record: ByteRecord::new(), unread, columns, names };
        table.read_header(required)?;
        Ok(table)
    }

    fn read_header(&mut self, required: &[&str]) -> Result<(), InputError> {
        let header = self.names.join(",");
        if !self.next()? {
            let message = format!("the file is empty; it must begin with a header, such as {header}");
            return Err(InputError::new(&self.file, None, message));
        }
        for k in 0..self.record.len() {
            let name = String::from_utf8_lossy(&self.record[k]).into_owned();
            let Some(column) = self.names.iter().position(|known| *known == name) else {
                return Err(self.error(format!("unknown column `{name}`; the header may have {header}")));
            };
            if self.columns[column].replace(k).is_some() {
                return Err(self.error(format!("column `{name}` is there twice; keep one of them")));
            }
        }
        match required.iter().zip(&self.columns).find(|(_, column)| column.is_none()) {
            Some((name, _)) => {
                Err(self.error(format!("column `{name}` is missing; the header may have {header}")))
            }
            None => Ok(()),
        }
    }

    /// Goes to the next record; false at the end.
    pub(super) fn next(&mut self) -> Result<bool, InputError> {
        self.unread.set(0);
        self.reader.read_byte_record(&mut self.record).map_err(|error| {
            let line = error.position().map(csv::Position::line);
            let message = match error.kind() {
                ErrorKind::UnequalLengths { expected_len, len, .. } => {
                    format!(
                        "the row has {len} fields and the header {expected_len}; give each column a field"
                    )
                }
                ErrorKind::Io(e) => format!("cannot read on: {e}"),
                _ => error.to_string(),
            };
            InputError::new(&self.file, line.or_else(|| Some(self.reader.position().line())), message)
        })
    }

    /// The field of the column with that index in the list given to [`Self::open`], if the table has it.
    pub(super) fn field(&self, column: usize) -> Result<Option<&str>, InputError> {
        let Some(k) = self.columns[column] else { return Ok(None) };
        std::str::from_utf8(&self.record[k])
            .map(Some)
            .map_err(|_| self.error(format!("the {} is not valid UTF-8", self.names[column])))
    }

    /// The field of a column that must be there.
    pub(super) fn required(&self, column: usize) -> Result<&str, InputError> {
        Ok(self.field(column)?.unwrap_or_default())
    }

    /// An error about the current record.
    pub(super) fn error(&self, message: impl std::fmt::Display) -> InputError {
        let line = self.record.position().map(csv::Position::line);
        InputError::new(&self.file, line, message)
    }
}

/// Refuses to read on when a single record has taken too much.
struct Limited<R> {
    inner: R,
    unread: Rc<Cell<u64>>,
}

impl<R: Read> Read for Limited<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(buffer)?;
        self.unread.set(self.unread.get() + n as u64);
        if self.unread.get() > MAX_RECORD_BYTES {
            return Err(io::Error::other("a row is longer than 64 MiB; is a quote not closed?"));
        }
        Ok(n)
    }
}

/// A field as it is written: in quotes if it has to be.
pub(super) fn quoted(field: &str) -> String {
    let special = |c: char| matches!(c, ',' | '"' | '\n' | '\r');
    if field.is_empty() || field.contains(special) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}
