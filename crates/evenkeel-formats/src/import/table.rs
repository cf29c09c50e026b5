//! Any CSV with a header: the caller says which columns mean what.

use std::io::BufRead;

use evenkeel::model::shown;

use super::{Chunk, Gathered, InputError, Kind, Place};
use crate::numbers;
use crate::table::Records;

/// How to read a table. A column that is not named is the one with the usual name, if there is one.
#[derive(Clone, Debug)]
pub struct TableColumns {
    /// The column of the client that wants the data.
    pub client: Option<String>,
    /// The column of the size, usually `bytes`; the size is 1 if there is no such column.
    pub bytes: Option<String>,
    /// The column of the servers that hold the data, usually `replicas`.
    pub replicas: Option<String>,
    /// The column of the data's name, usually `chunk`.
    pub chunk: Option<String>,
    /// Whether a column `client` is read if none is named.
    pub has_clients: bool,
    /// The delimiter between fields.
    pub delimiter: u8,
    /// The separator between replicas.
    pub separator: String,
}

impl Default for TableColumns {
    fn default() -> Self {
        let (client, bytes, replicas, chunk) = (None, None, None, None);
        Self { client, bytes, replicas, chunk, has_clients: true, delimiter: b',', separator: "|".to_owned() }
    }
}

/// Reads a table, one request per row.
pub fn read_table(
    reader: impl BufRead,
    file: &str,
    columns: &TableColumns,
    into: &mut Gathered,
) -> Result<(), InputError> {
    let mut rows = Records::open(reader, file, columns.delimiter)?;
    if !rows.next()? {
        return Err(InputError::new(file, None, "the file is empty; it must begin with a header"));
    }
    let client = match &columns.client {
        None if !columns.has_clients => None,
        named => find(&rows, named.as_deref(), "client")?,
    };
    let bytes = find(&rows, columns.bytes.as_deref(), "bytes")?;
    let chunk = find(&rows, columns.chunk.as_deref(), "chunk")?;
    let Some(replicas) = find(&rows, columns.replicas.as_deref(), "replicas")? else {
        let header = header(&rows)?.join(", ");
        return Err(rows.error(format!(
            "it is unclear which column names the servers, of {header}; write --map replicas=COLUMN"
        )));
    };
    while rows.next()? {
        let place = Place { file, line: rows.line() };
        let optional = |column: Option<usize>, name| column.map(|k| rows.field(k, name)).transpose();
        let name = optional(chunk, "chunk")?.unwrap_or_default();
        let list = rows.field(replicas, "replicas")?.split(&*columns.separator).map(str::trim);
        let servers: Vec<&str> = list.filter(|server| !server.is_empty()).collect();
        if servers.is_empty() {
            into.remarks.note(Kind::NoReplica, &place, name);
            continue;
        }
        let bytes = optional(bytes, "size")?.map_or(Ok(1), |text| numbers::size(text.trim(), "size"));
        let chunk = Chunk {
            name,
            bytes: bytes.map_err(|e| rows.error(e))?,
            replicas: &servers,
            client: optional(client, "client")?,
        };
        into.add(&chunk)
            .map_err(|e| rows.error(format!("{e} (--separator says what stands between servers)")))?;
    }
    Ok(())
}

fn header<R: BufRead>(rows: &Records<R>) -> Result<Vec<String>, InputError> {
    (0..rows.len()).map(|k| rows.field(k, "header").map(shown)).collect()
}

/// The column with that name, which must exist; if no name is given, the one with the usual name.
fn find<R: BufRead>(
    rows: &Records<R>,
    given: Option<&str>,
    usual: &str,
) -> Result<Option<usize>, InputError> {
    let name = given.unwrap_or(usual);
    let mut found = None;
    for k in 0..rows.len() {
        if rows.field(k, "header")?.trim() == name && found.replace(k).is_some() {
            return Err(rows.error(format!("column `{}` appears twice; rename one of them", shown(name))));
        }
    }
    if given.is_some() && found.is_none() {
        let header = header(rows)?.join(", ");
        return Err(rows.error(format!("there is no column `{}`; the header has {header}", shown(name))));
    }
    Ok(found)
}
