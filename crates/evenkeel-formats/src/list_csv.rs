//! The list of one process, as CSV: `task,path,start,bytes,from`.

use std::fmt;
use std::io::BufRead;

use crate::table::Table;
use crate::{InputError, Reading, numbers};

/// A row of a list: a part of an object that a task reads, and where.
#[derive(Debug, PartialEq, Eq)]
pub struct ListRow {
    /// The line that it is in.
    pub line: u64,
    /// The task.
    pub task: String,
    /// The address of the object.
    pub path: String,
    /// Where the part begins.
    pub start: u64,
    /// Its size.
    pub bytes: u64,
    /// The server to read it from; empty for any.
    pub from: String,
}

/// A reader of a list, row by row: whoever writes it may decide on a row when the one before is done.
pub struct List<R>(Table<R>);

impl<R> fmt::Debug for List<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("List").finish_non_exhaustive()
    }
}

impl<R: BufRead> List<R> {
    /// Reads the header.
    pub fn open(reader: R, reading: &Reading<'_>) -> Result<Self, InputError> {
        Table::open(reader, reading, &["task", "path", "start", "bytes"], &["from"]).map(Self)
    }

    /// The next row, as soon as it is there.
    pub fn next_row(&mut self) -> Result<Option<ListRow>, InputError> {
        let Self(table) = self;
        if !table.next()? {
            return Ok(None);
        }
        let size =
            |column, name| numbers::size(table.required(column)?, name).map_err(|error| table.error(error));
        let row = ListRow {
            line: table.line(),
            task: table.required(0)?.to_owned(),
            path: table.required(1)?.to_owned(),
            start: size(2, "start")?,
            bytes: size(3, "bytes")?,
            from: table.required(4)?.to_owned(),
        };
        match row.start.checked_add(row.bytes) {
            Some(_) => Ok(Some(row)),
            None => Err(table.error("start and bytes lead beyond any file")),
        }
    }
}

#[test]
fn rows_come_one_by_one() {
    use std::io::{BufReader, Read};

    /// Gives a line at a time, and notes how many were asked for.
    struct Lines<'a>(Vec<&'a [u8]>, std::rc::Rc<std::cell::Cell<usize>>);

    impl Read for Lines<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            let Some(mut line) = (!self.0.is_empty()).then(|| self.0.remove(0)) else { return Ok(0) };
            self.1.set(self.1.get() + 1);
            line.read(buffer)
        }
    }

    let asked = std::rc::Rc::default();
    let text: Vec<&[u8]> = vec![b"path,task,start,bytes,from\n", b"/a,t,1kB,5,s\n", b"/b,u,0,0,\n"];
    let lines = BufReader::new(Lines(text, std::rc::Rc::clone(&asked)));
    let mut list = List::open(lines, &Reading::of("list")).unwrap();
    assert_eq!(asked.get(), 1);
    let row = list.next_row().unwrap().unwrap();
    let of = |text: &str| text.to_owned();
    assert_eq!(row, ListRow { line: 2, task: of("t"), path: of("/a"), start: 1000, bytes: 5, from: of("s") });
    assert_eq!(asked.get(), 2, "a row must not wait for the next one");
    assert_eq!(list.next_row().unwrap().unwrap().from, "");
    assert_eq!(list.next_row().unwrap(), None);
    for (text, expected) in [
        ("", "is empty"),
        ("task,path,bytes\n", "column `start` is missing"),
        ("task,path,start,bytes\nt,/a,x,1\n", "list:2: "),
        ("task,path,start,bytes\nt,/a,18446744073709551615,1\n", "beyond any file"),
    ] {
        let refused = List::open(text.as_bytes(), &Reading::of("list"))
            .and_then(|mut list| list.next_row())
            .unwrap_err();
        assert!(refused.to_string().contains(expected), "{refused}");
    }
}
