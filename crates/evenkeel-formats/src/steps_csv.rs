//! The plan by time and bytes, as CSV: `start,end,client,server,request,chunk,offset,bytes`, one row per transfer.

use std::io::{self, Write};

use evenkeel::model::{Batch, Step};

use crate::table::quoted;

/// Writes the steps of a plan.
pub fn write_steps(batch: &Batch, steps: &[Step], mut out: impl Write) -> io::Result<()> {
    let clients: Vec<String> = batch.clients().iter().map(quoted).collect();
    let servers: Vec<String> = batch.servers().iter().map(quoted).collect();
    writeln!(out, "start,end,client,server,request,chunk,offset,bytes")?;
    for Step { start, end, request, server, offset, bytes } in steps {
        let client = &clients[batch.client(*request as usize).index()];
        let server = &servers[server.index()];
        let chunk = batch.chunk(*request as usize).map(quoted).unwrap_or_default();
        writeln!(out, "{start},{end},{client},{server},{request},{chunk},{offset},{bytes}")?;
    }
    Ok(())
}
