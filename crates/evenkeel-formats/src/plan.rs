//! The plan as CSV: `request,client,server,start,blocks`, one row per transfer.

use std::io::{self, BufRead, Write};

use evenkeel::model::{Batch, Fixed, ServerId, Transfer, shown};

use crate::table::{Table, quoted};
use crate::{InputError, Reading, numbers};

/// Reads a plan of `batch`.
///
/// A row that cannot belong to this batch is an input error: the plan is of another batch. Such a row has a request,
/// client or server that the batch does not have, or a client other than the request's. Everything else is left to the
/// checker.
pub fn read_plan(
    reader: impl BufRead,
    reading: &Reading<'_>,
    batch: &Batch,
) -> Result<Vec<Transfer>, InputError> {
    let columns = ["request", "client", "server", "start", "blocks"];
    let mut table = Table::open(reader, reading, &columns, &[])?;
    let mut rows = Vec::new();
    while table.next()? {
        let number = |column: usize, what: &str| {
            numbers::whole(table.required(column)?, what).map_err(|e| table.error(e))
        };
        let decimal = |column: usize, what: &str| {
            numbers::decimal(table.required(column)?, what).map_err(|e| table.error(e))
        };
        let request = number(0, "request")?;
        let (start, blocks) = (decimal(3, "start")?, decimal(4, "number of blocks")?);
        let other_batch = |why: String| {
            table.error(format!("this plan is for another batch: {why}; give the batch that it was made for"))
        };
        if request >= batch.n_requests() as u64 {
            return Err(other_batch(format!(
                "it has request {request}, and the batch only {}",
                batch.n_requests()
            )));
        }
        let client = table.required(1)?;
        let wanted = batch.clients().name(batch.client(request as usize).0);
        if client != wanted {
            return Err(other_batch(format!(
                "request {request} is of client `{wanted}`, not `{}`",
                shown(client)
            )));
        }
        let server = table.required(2)?;
        let Some(server) = batch.servers().find(server) else {
            return Err(other_batch(format!("the batch has no server `{}`", shown(server))));
        };
        rows.push(Transfer { request: request as u32, server: ServerId(server), start, blocks });
    }
    Ok(rows)
}

/// Writes a plan.
pub fn write_plan(
    batch: &Batch,
    rows: impl IntoIterator<Item = Transfer>,
    mut out: impl Write,
) -> io::Result<()> {
    let clients: Vec<String> = batch.clients().iter().map(quoted).collect();
    let servers: Vec<String> = batch.servers().iter().map(quoted).collect();
    let mut number = itoa::Buffer::new();
    let mut line = Vec::new();
    out.write_all(b"request,client,server,start,blocks\n")?;
    for Transfer { request, server, start, blocks } in rows {
        line.clear();
        line.extend_from_slice(number.format(request).as_bytes());
        line.push(b',');
        line.extend_from_slice(clients[batch.client(request as usize).index()].as_bytes());
        line.push(b',');
        line.extend_from_slice(servers[server.index()].as_bytes());
        line.push(b',');
        append(&mut line, start, &mut number);
        line.push(b',');
        append(&mut line, blocks, &mut number);
        line.push(b'\n');
        out.write_all(&line)?;
    }
    Ok(())
}

fn append(line: &mut Vec<u8>, number: Fixed, buffer: &mut itoa::Buffer) {
    match number.whole() {
        Some(whole) => line.extend_from_slice(buffer.format(whole).as_bytes()),
        None => line.extend_from_slice(number.to_string().as_bytes()),
    }
}
