//! Input that is read in pieces of limited size, with line numbers.

use std::cell::Cell;
use std::io::{self, BufRead, Read};
use std::rc::Rc;

use super::{InputError, Place};
use crate::skip_bom;

/// The maximum length of a line, or of an XML element with its attributes.
const MOST_BYTES: u64 = 1 << 20;

/// A reader of lines, one at a time.
pub(super) struct Lines<'a, R> {
    file: &'a str,
    reader: R,
    line: Vec<u8>,
    number: u64,
}

impl<'a, R: BufRead> Lines<'a, R> {
    pub(super) fn open(mut reader: R, file: &'a str) -> Result<Self, InputError> {
        skip_bom(&mut reader).map_err(|e| InputError::new(file, None, format!("cannot read it: {e}")))?;
        Ok(Self { file, reader, line: Vec::new(), number: 0 })
    }

    /// The next line without its line ending, and where it is; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<(Place<'a>, &str)>, InputError> {
        self.line.clear();
        self.number += 1;
        let place = Place { file: self.file, line: self.number };
        let read = self.reader.by_ref().take(MOST_BYTES + 1).read_until(b'\n', &mut self.line);
        if read.map_err(|e| place.error(format!("cannot read on: {e}")))? == 0 {
            return Ok(None);
        }
        if self.line.len() as u64 > MOST_BYTES {
            return Err(place.error("the line is longer than 1 MiB; is this the right file?"));
        }
        let line = std::str::from_utf8(&self.line);
        let line = line.map_err(|_| place.error("the line is not valid UTF-8; is this the right file?"))?;
        Ok(Some((place, line.trim_end_matches(['\n', '\r']))))
    }
}

/// How far a [`Limited`] has been read.
#[derive(Default)]
pub(super) struct Meter {
    line_feeds: Cell<u64>,
    /// Bytes since something was last complete.
    unread: Cell<u64>,
}

impl Meter {
    /// The line, from 1.
    pub(super) fn line(&self) -> u64 {
        self.line_feeds.get() + 1
    }

    /// Marks everything read so far as complete.
    pub(super) fn complete(&self) {
        self.unread.set(0);
    }
}

/// A reader that refuses to read on when nothing has been complete for too long.
pub(super) struct Limited<R> {
    inner: R,
    meter: Rc<Meter>,
}

impl<R: BufRead> Limited<R> {
    pub(super) fn open(mut inner: R, file: &str) -> Result<(Self, Rc<Meter>), InputError> {
        skip_bom(&mut inner).map_err(|e| InputError::new(file, None, format!("cannot read it: {e}")))?;
        let meter = Rc::new(Meter::default());
        Ok((Self { inner, meter: Rc::clone(&meter) }, meter))
    }
}

impl<R: BufRead> Read for Limited<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.fill_buf()?.read(buffer)?;
        self.consume(n);
        Ok(n)
    }
}

impl<R: BufRead> BufRead for Limited<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.meter.unread.get() > MOST_BYTES {
            return Err(io::Error::other("an element is longer than 1 MiB; is something not closed?"));
        }
        self.inner.fill_buf()
    }

    fn consume(&mut self, n: usize) {
        // What is consumed is already in the buffer, so nothing is read here.
        if let Ok(buffer) = self.inner.fill_buf() {
            let line_feeds = buffer.iter().take(n).filter(|&&byte| byte == b'\n').count() as u64;
            self.meter.line_feeds.set(self.meter.line_feeds.get() + line_feeds);
        }
        self.meter.unread.set(self.meter.unread.get() + n as u64);
        self.inner.consume(n);
    }
}
