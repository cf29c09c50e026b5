//! What is known of servers and clients: `server,speed,slots,backlog,…` and `client,slots,host`.

use std::io::{self, BufRead, Write};

use evenkeel::model::{Batch, Client, NameTable, Ratio, Server, Speed};
use evenkeel::observe::Warmth;

use super::table::{Table, quoted};
use super::{InputError, Reading, numbers};

/// What a file says about servers or clients, in its order.
#[derive(Debug)]
pub struct Nodes<T> {
    /// Their names.
    pub names: NameTable,
    /// What is known of each.
    pub nodes: Vec<T>,
    /// The host of each; empty if it is not given.
    pub hosts: Vec<String>,
    /// Of servers: how many clients each serves, and when it was last used; 0 if it is not given.
    pub warmth: Vec<Warmth>,
    /// Of servers: the bytes that each serves in a second in all; empty if that is not given.
    pub rates: Vec<u64>,
}

impl<T> Nodes<T> {
    fn none() -> Self {
        let (names, nodes, hosts) = (NameTable::new(), Vec::new(), Vec::new());
        Self { names, nodes, hosts, warmth: Vec::new(), rates: Vec::new() }
    }
}

const SPEED: usize = 1;
const RATE: usize = 7;

/// Reads a servers file; backlogs are rounded up to blocks.
pub fn read_servers(reader: impl BufRead, reading: &Reading<'_>) -> Result<Nodes<Server>, InputError> {
    let optional = ["speed", "slots", "backlog", "host", "connections", "last_used", "rate"];
    let mut table = Table::open(reader, reading, &["server"], &optional)?;
    if table.has(SPEED) && table.has(RATE) {
        return Err(table.error(
            "`speed` and `rate` are two ways to say how fast a server is; leave one out, or pass it over with \
             --ignore-columns",
        ));
    }
    let mut found = Nodes::none();
    while table.next()? {
        add_name(&table, &mut found.names, "server")?;
        let mut server = Server::default();
        if let Some(text) = table.field(SPEED)? {
            server.speed = numbers::speed(text).map_err(|e| table.error(e))?;
        }
        if let Some(text) = table.field(2)? {
            server.slots = numbers::slots(text).map_err(|e| table.error(e))?;
        }
        if let Some(text) = table.field(3)? {
            let bytes = numbers::size(text, "backlog").map_err(|e| table.error(e))?;
            server.backlog = bytes.div_ceil(reading.block);
        }
        if let Some(text) = table.field(RATE)? {
            let rate = numbers::rate(text).map_err(|e| table.error(e))?;
            server.speed = Speed::of_rate(rate, server.slots, reading.block).map_err(|e| table.error(e))?;
            found.rates.push(rate);
        }
        let number = |column: usize, what: &str| {
            let number = table.field(column)?.map(|text| numbers::whole(text, what)).transpose();
            Ok(number.map_err(|e| table.error(e))?.unwrap_or(0))
        };
        let (connections, last_used_ns) =
            (number(5, "number of connections")?, number(6, "time of last use")?);
        found.warmth.push(Warmth { connections, last_used_ns });
        found.hosts.push(table.field(4)?.unwrap_or_default().to_owned());
        found.nodes.push(server);
    }
    Ok(found)
}

/// Writes a servers file; backlogs in blocks of one byte.
pub fn write_servers(batch: &Batch, servers: &[Server], mut out: impl Write) -> io::Result<()> {
    writeln!(out, "server,speed,slots,backlog")?;
    for (name, server) in batch.servers().iter().zip(servers) {
        let millionths = server.speed.millionths();
        let speed = Ratio::new(millionths.into(), 1_000_000);
        writeln!(out, "{},{speed},{},{}", quoted(name), server.slots, server.backlog)?;
    }
    Ok(())
}

/// Reads a clients file.
pub fn read_clients(reader: impl BufRead, reading: &Reading<'_>) -> Result<Nodes<Client>, InputError> {
    let mut table = Table::open(reader, reading, &["client"], &["slots", "host"])?;
    let mut found = Nodes::none();
    while table.next()? {
        add_name(&table, &mut found.names, "client")?;
        let mut client = Client::default();
        if let Some(text) = table.field(1)? {
            client.slots = numbers::slots(text).map_err(|e| table.error(e))?;
        }
        found.hosts.push(table.field(2)?.unwrap_or_default().to_owned());
        found.nodes.push(client);
    }
    Ok(found)
}

fn add_name<R: BufRead>(
    table: &Table<R>,
    names: &mut NameTable,
    kind: &'static str,
) -> Result<(), InputError> {
    let name = table.required(0)?;
    names.insert(name, kind).map_err(|e| table.error(e))?;
    Ok(())
}
