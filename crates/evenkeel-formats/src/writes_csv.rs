//! Writes as CSV, `object,offset,bytes`, one row per write; and their placement as CSV, `write,object,server,default`.

use std::io::{self, BufRead};

use evenkeel::model::{MAX_REQUESTS, MemberId, NameTable, shown};
use evenkeel::place::{Write, default_server};

use crate::table::{Table, quoted};
use crate::{InputError, Reading, numbers};

/// Writes, with the names of objects.
#[derive(Debug)]
pub struct WritesInput {
    /// The names of objects.
    pub objects: Objects,
    /// The writes, in order of their rows.
    pub writes: Vec<Write>,
    /// The total bytes of all writes.
    pub total_bytes: u64,
}

/// How objects are named. Their numbers follow the natural order of names.
#[derive(Debug)]
pub enum Objects {
    /// By their numbers.
    Numbers,
    /// By names.
    Named {
        /// The names, by id.
        names: NameTable,
        /// The id of each object.
        order: Vec<u32>,
    },
}

/// Reads the writes to objects that are spread over `n_servers` servers.
pub fn read_writes(
    reader: impl BufRead,
    reading: &Reading<'_>,
    n_servers: u32,
) -> Result<WritesInput, InputError> {
    let mut table = Table::open(reader, reading, &["object", "offset", "bytes"], &[])?;
    let mut names: Option<NameTable> = None;
    let (mut writes, mut total_bytes) = (Vec::new(), 0_u64);
    while table.next()? {
        if writes.len() >= MAX_REQUESTS {
            return Err(table.error(format!("more than {MAX_REQUESTS} writes; split them")));
        }
        let name = table.required(0)?;
        let object = match number(name) {
            Some(number) if names.is_none() => number,
            _ => {
                let names = names.get_or_insert_with(|| named(&mut writes));
                let next = names.len() as u32;
                let known = names.find(name).map_or_else(|| names.insert(name, "object").map(|()| next), Ok);
                known.map_err(|e| table.error(e))?.into()
            }
        };
        let number = |column: usize, what: &str| {
            numbers::size(table.required(column)?, what).map_err(|e| table.error(e))
        };
        let (offset, bytes) = (number(1, "offset")?, number(2, "number of bytes")?);
        if offset.checked_add(bytes).is_none() {
            let name = shown(name);
            return Err(table.error(format!(
                "the write ends beyond 2^64 bytes of object `{name}`; check its offset and size"
            )));
        }
        total_bytes = total_bytes.checked_add(bytes).ok_or_else(|| {
            table.error("all bytes so far add up to more than 64 bits; split the file, or use a larger unit")
        })?;
        writes.push(Write { object, default: default_server(name, n_servers), offset, bytes });
    }
    let Some(names) = names else {
        return Ok(WritesInput { objects: Objects::Numbers, writes, total_bytes });
    };
    let order = names.natural_order();
    let mut rank = vec![0_u64; order.len()];
    (0..).zip(&order).for_each(|(place, &id)| rank[id as usize] = place);
    writes.iter_mut().for_each(|write| write.object = rank[write.object as usize]);
    Ok(WritesInput { objects: Objects::Named { names, order }, writes, total_bytes })
}

/// The number that a name stands for, if it is written in canonical form. Then there is no need to keep the name.
fn number(name: &str) -> Option<u64> {
    let is_plain = name.bytes().all(|byte| byte.is_ascii_digit()) && (name == "0" || !name.starts_with('0'));
    name.parse().ok().filter(|_| is_plain)
}

/// Gives names and ids to objects that were known by number.
fn named(writes: &mut [Write]) -> NameTable {
    let mut names = NameTable::new();
    let mut digits = itoa::Buffer::new();
    writes.iter_mut().for_each(|write| write.object = names.intern(digits.format(write.object)).into());
    names
}

/// Writes where the copies of each write go; `placed` has the same number of servers for each.
pub fn write_places(
    input: &WritesInput,
    servers: &NameTable,
    placed: &[MemberId],
    mut out: impl io::Write,
) -> io::Result<()> {
    let servers: Vec<&str> = servers.iter().collect();
    let name = |server: MemberId| servers[server.index()];
    let n_copies = placed.len().checked_div(input.writes.len()).unwrap_or(1).max(1);
    let mut joined = String::new();
    let (mut row, mut number) = (itoa::Buffer::new(), itoa::Buffer::new());
    writeln!(out, "write,object,server,default")?;
    for (k, (write, copies)) in input.writes.iter().zip(placed.chunks(n_copies)).enumerate() {
        joined.clear();
        for (copy, &server) in copies.iter().enumerate() {
            joined.push_str(if copy > 0 { "|" } else { "" });
            joined.push_str(name(server));
        }
        let object = match &input.objects {
            Objects::Numbers => number.format(write.object),
            Objects::Named { names, order } => names.name(order[write.object as usize]),
        };
        out.write_all(row.format(k).as_bytes())?;
        for field in [object, &joined, name(write.default)] {
            out.write_all(b",")?;
            out.write_all(quoted(field).as_bytes())?;
        }
        out.write_all(b"\n")?;
    }
    Ok(())
}
