//! What waits at servers as CSV, `app,server,read,shuffle`, one row per request; and the order of service as CSV,
//! `server,position,app`, with `request` if that is ambiguous.

use std::io::{self, BufRead, Write};

use evenkeel::model::{MAX_REQUESTS, NameTable, ServerId, shown};
use evenkeel::queue::{AppId, Collective, Orders, QueueError, Request};

use crate::table::{Table, quoted};
use crate::{InputError, Reading, numbers};

/// The requests of collective I/O, with names.
#[derive(Debug)]
pub struct QueueInput {
    /// Applications by id.
    pub apps: NameTable,
    /// Servers by id.
    pub servers: NameTable,
    /// The requests, in billionths of the unit of time.
    pub collective: Collective,
}

/// Reads a queue. Ids follow the natural order of names, and offsets follow the rows.
pub fn read_queue(reader: impl BufRead, reading: &Reading<'_>) -> Result<QueueInput, InputError> {
    let mut table = Table::open(reader, reading, &["app", "server", "read", "shuffle"], &[])?;
    let (mut apps, mut servers) = (NameTable::new(), NameTable::new());
    let mut requests = Vec::new();
    while table.next()? {
        if requests.len() >= MAX_REQUESTS {
            return Err(table.error(QueueError::TooManyRequests));
        }
        requests.push(Request {
            app: AppId(id(&table, 0, &mut apps, "parallel application")?),
            server: ServerId(id(&table, 1, &mut servers, "server")?),
            offset: requests.len() as u64,
            read_ns: nanos(&table, 2, "read time")?,
            shuffle_ns: nanos(&table, 3, "shuffle time")?,
            ..Request::default()
        });
    }
    let ((apps, new_app), (servers, new_server)) = (apps.sorted_naturally(), servers.sorted_naturally());
    for request in &mut requests {
        request.app = AppId(new_app[request.app.index()]);
        request.server = ServerId(new_server[request.server.index()]);
    }
    let collective = Collective::new(apps.len() as u32, servers.len() as u32, requests)
        .map_err(|e| InputError::new(reading.file, None, e))?;
    Ok(QueueInput { apps, servers, collective })
}

/// The id of the name in a column. A new name is added.
fn id<R: BufRead>(
    table: &Table<R>,
    column: usize,
    names: &mut NameTable,
    kind: &'static str,
) -> Result<u32, InputError> {
    let name = table.required(column)?;
    if let Some(id) = names.find(name) {
        return Ok(id);
    }
    names.insert(name, kind).map_err(|e| table.error(e))?;
    Ok(names.len() as u32 - 1)
}

/// The time in a column, in billionths.
fn nanos<R: BufRead>(table: &Table<R>, column: usize, what: &str) -> Result<u64, InputError> {
    let text = table.required(column)?;
    let time = numbers::decimal(text, what).map_err(|e| table.error(e))?;
    u64::try_from(time.nanos()).map_err(|_| {
        let text = shown(text);
        table.error(format!("the {what} {text} is too long; write at most 18446744073, in a larger unit"))
    })
}

/// Writes the order of each server. If an application has several requests at one server, a further column says which
/// row of the queue is meant.
pub fn write_orders(input: &QueueInput, orders: &Orders, mut out: impl Write) -> io::Result<()> {
    let apps: Vec<String> = input.apps.iter().map(quoted).collect();
    let app_of = |row: u32| input.collective.requests()[row as usize].app;
    let mut last_server = vec![None; apps.len()];
    let is_ambiguous = (0..).zip(orders.iter()).any(|(server, queue): (u32, &[u32])| {
        queue.iter().any(|&row| last_server[app_of(row).index()].replace(server) == Some(server))
    });
    writeln!(out, "server,position,app{}", if is_ambiguous { ",request" } else { "" })?;
    for (server, queue) in input.servers.iter().map(quoted).zip(orders.iter()) {
        for (position, &row) in queue.iter().enumerate() {
            write!(out, "{server},{position},{}", apps[app_of(row).index()])?;
            match is_ambiguous {
                true => writeln!(out, ",{row}")?,
                false => writeln!(out)?,
            }
        }
    }
    Ok(())
}
