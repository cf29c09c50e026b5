//! The batch as CSV: `client,bytes,replicas`, one row a request.

use std::io::{self, BufRead, Write};

use evenkeel::model::{Batch, ModelError};

use super::table::{Table, quoted};
use super::{Declared, InputError, numbers};

const CLIENT: usize = 0;
const REPLICAS: usize = 1;
const BYTES: usize = 2;
const ARRIVAL: usize = 5;

/// Reads a batch; sizes are rounded up to blocks of `block` bytes.
pub fn read_batch_csv(
    reader: impl BufRead,
    file: &str,
    block: u64,
    declared: Declared,
) -> Result<Batch, InputError> {
    let optional = ["bytes", "chunk", "job", "arrival"];
    let mut table = Table::open(reader, file, &["client", "replicas"], &optional)?;
    let mut batch = declared.builder();
    while table.next()? {
        for replica in table.required(REPLICAS)?.split('|') {
            // An empty field is no replica at all rather than one without a name.
            batch.replica(replica).map_err(|error| match table.required(REPLICAS) {
                Ok("") => table.error(ModelError::NoReplica),
                _ => table.error(error),
            })?;
        }
        let bytes = match table.field(BYTES)? {
            Some(text) => numbers::whole(text, "size").map_err(|e| table.error(e))?,
            None => 1,
        };
        if let Some(arrival) = table.field(ARRIVAL)? {
            numbers::whole(arrival, "arrival").map_err(|e| table.error(e))?;
        }
        let client = table.required(CLIENT)?;
        batch.end_request(client, bytes.div_ceil(block)).map_err(|e| table.error(e))?;
    }
    Ok(batch.finish())
}

/// Writes a batch, sizes in blocks.
pub fn write_batch_csv(batch: &Batch, mut out: impl Write) -> io::Result<()> {
    let clients: Vec<String> = batch.clients().iter().map(quoted).collect();
    writeln!(out, "client,bytes,replicas")?;
    for (i, set) in batch.replicas().iter().enumerate() {
        write!(out, "{},{},", clients[batch.client(i).index()], batch.blocks(i))?;
        let names: Vec<&str> = set.iter().map(|server| batch.servers().name(server.0)).collect();
        writeln!(out, "{}", quoted(&names.join("|")))?;
    }
    Ok(())
}
