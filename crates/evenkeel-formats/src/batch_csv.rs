//! The batch as CSV: `client,bytes,replicas`, one row per request.

use std::io::{self, BufRead, Write};

use evenkeel::model::{Batch, Details, ModelError};

use crate::table::{Table, quoted};
use crate::{Declared, InputError, Reading, check_replica, numbers};

const CLIENT: usize = 0;
const REPLICAS: usize = 1;
const BYTES: usize = 2;
const CHUNK: usize = 3;
const JOB: usize = 4;
const ARRIVAL: usize = 5;
const CURRENT: usize = 6;

/// Reads a batch; sizes are rounded up to blocks.
pub fn read_batch_csv(
    reader: impl BufRead,
    reading: &Reading<'_>,
    declared: Declared,
) -> Result<Batch, InputError> {
    let optional = ["bytes", "chunk", "job", "arrival", "current"];
    let mut table = Table::open(reader, reading, &["client", "replicas"], &optional)?;
    // A name that is in the servers file is taken as it is.
    let is_declared = declared.servers.is_some();
    let mut batch = declared.builder(reading.block.get());
    while table.next()? {
        for replica in table.required(REPLICAS)?.split('|') {
            if !is_declared {
                check_replica(replica).map_err(|why| {
                    table
                        .error(format!("{why}; if that is the name of a server, list it in the servers file"))
                })?;
            }
            // An empty field means no replica, not one without a name.
            batch.replica(replica).map_err(|error| match table.required(REPLICAS) {
                Ok("") => table.error(ModelError::NoReplica),
                _ => table.error(error),
            })?;
        }
        let bytes = match table.field(BYTES)? {
            Some(text) => numbers::size(text, "size").map_err(|e| table.error(e))?,
            None => 1,
        };
        let arrival_ns = table.field(ARRIVAL)?.map(numbers::arrival_ns).transpose();
        let details = Details {
            arrival_ns: arrival_ns.map_err(|e| table.error(e))?,
            job: table.field(JOB)?.filter(|name| !name.is_empty()),
            chunk: table.field(CHUNK)?.filter(|name| !name.is_empty()),
            current: table.field(CURRENT)?.filter(|name| !name.is_empty()),
        };
        let client = table.required(CLIENT)?;
        batch.end_request_of_bytes(client, bytes, &details).map_err(|e| table.error(e))?;
    }
    Ok(batch.finish())
}

/// Writes a batch. Columns without information are omitted.
pub fn write_batch_csv(batch: &Batch, mut out: impl Write) -> io::Result<()> {
    let clients: Vec<String> = batch.clients().iter().map(quoted).collect();
    let has_chunks = (0..batch.n_requests()).any(|i| batch.chunk(i).is_some());
    let has_jobs = !batch.jobs().is_empty();
    let has_arrivals = batch.arrivals_ns().is_some();
    let has_current = batch.has_current();
    let further =
        [(has_chunks, ",chunk"), (has_jobs, ",job"), (has_arrivals, ",arrival"), (has_current, ",current")];
    let further: String = further.iter().filter(|(is_there, _)| *is_there).map(|(_, name)| *name).collect();
    writeln!(out, "client,bytes,replicas{further}")?;
    for (i, set) in batch.replicas().iter().enumerate() {
        write!(out, "{},{},", clients[batch.client(i).index()], batch.bytes(i))?;
        let names: Vec<&str> = set.iter().map(|server| batch.servers().name(server.0)).collect();
        write!(out, "{}", quoted(&names.join("|")))?;
        if has_chunks {
            write!(out, ",{}", batch.chunk(i).map(quoted).unwrap_or_default())?;
        }
        if has_jobs {
            write!(out, ",{}", batch.job(i).map(|id| quoted(batch.jobs().name(id))).unwrap_or_default())?;
        }
        if has_arrivals {
            write!(out, ",{}", numbers::seconds(batch.arrival_ns(i)))?;
        }
        if has_current {
            let name = batch.current(i).map(|server| quoted(batch.servers().name(server.0)));
            write!(out, ",{}", name.unwrap_or_default())?;
        }
        writeln!(out)?;
    }
    Ok(())
}
