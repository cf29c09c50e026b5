//! What is known about servers and clients: `server,speed,slots,backlog,…` and `client,slots,host`.

use std::io::{self, BufRead, Write};

use evenkeel::model::{Client, NameTable, Ratio, Server, Speed};
use evenkeel::observe::Warmth;

use crate::table::{Table, quoted};
use crate::{InputError, Reading, numbers};

/// What a file says about servers or clients, in file order.
#[derive(Debug)]
pub struct Nodes<T> {
    /// Their names.
    pub names: NameTable,
    /// What is known about each.
    pub nodes: Vec<T>,
    /// The host of each; empty if not given.
    pub hosts: Vec<String>,
    /// For servers: how many clients each serves, and when it was last used; 0 if not given.
    pub warmth: Vec<Warmth>,
    /// For servers: the total bytes that each serves per second; empty if not given.
    pub rates: Vec<u64>,
    /// For servers: whether each may lead, where a store has leaders; all may if not given.
    pub may_lead: Vec<bool>,
    /// For servers: whether the file says how many slots they have.
    pub has_slots: bool,
}

impl<T> Nodes<T> {
    /// Nodes about which nothing else is known.
    pub fn new(names: NameTable, nodes: Vec<T>) -> Self {
        let n = nodes.len();
        Self {
            names,
            nodes,
            hosts: vec![String::new(); n],
            warmth: vec![Warmth::default(); n],
            rates: Vec::new(),
            may_lead: vec![true; n],
            has_slots: true,
        }
    }

    /// Adds a node about which nothing else is known.
    pub fn push(&mut self, name: &str, node: T) {
        self.names.intern(name);
        self.nodes.push(node);
        self.hosts.push(String::new());
        self.warmth.push(Warmth::default());
        self.may_lead.push(true);
    }

    fn has_hosts(&self) -> bool {
        self.hosts.iter().any(|host| !host.is_empty())
    }

    fn none() -> Self {
        Self { has_slots: false, ..Self::new(NameTable::new(), Vec::new()) }
    }
}

const SPEED: usize = 1;
const SLOTS: usize = 2;
const RATE: usize = 7;
const LEADS: usize = 8;

/// Reads a servers file; backlogs are rounded up to blocks.
pub fn read_servers(reader: impl BufRead, reading: &Reading<'_>) -> Result<Nodes<Server>, InputError> {
    let optional = ["speed", "slots", "backlog", "host", "connections", "last_used", "rate", "leads"];
    let mut table = Table::open(reader, reading, &["server"], &optional)?;
    if table.has(SPEED) && table.has(RATE) {
        return Err(table.error(
            "`speed` and `rate` both say how fast a server is; leave one out, or skip it with \
             --ignore-columns",
        ));
    }
    let mut found = Nodes { has_slots: table.has(SLOTS), ..Nodes::none() };
    while table.next()? {
        add_name(&table, &mut found.names, "server")?;
        let mut server = Server::default();
        if let Some(text) = table.field(SPEED)? {
            server.speed = numbers::speed(text).map_err(|e| table.error(e))?;
        }
        if let Some(text) = table.field(SLOTS)? {
            server.slots = numbers::slots(text).map_err(|e| table.error(e))?;
        }
        if let Some(text) = table.field(3)? {
            let bytes = numbers::size(text, "backlog").map_err(|e| table.error(e))?;
            server.backlog = bytes.div_ceil(reading.block.get());
        }
        if let Some(text) = table.field(RATE)? {
            let rate = numbers::rate(text).map_err(|e| table.error(e))?;
            server.speed =
                Speed::of_rate(rate, server.slots, reading.block.get()).map_err(|e| table.error(e))?;
            found.rates.push(rate);
        }
        let number = |column: usize, what: &str| {
            let number = table.field(column)?.map(|text| numbers::whole(text, what)).transpose();
            Ok(number.map_err(|e| table.error(e))?.unwrap_or(0))
        };
        let (connections, last_used_ns) =
            (number(5, "number of connections")?, number(6, "time of last use")?);
        found.warmth.push(Warmth { connections, last_used_ns });
        found.may_lead.push(match table.field(LEADS)? {
            None | Some("" | "yes") => true,
            Some("no") => false,
            Some(other) => {
                return Err(table.error(format!("`leads` is yes or no, not `{other}`")));
            }
        });
        found.hosts.push(table.field(4)?.unwrap_or_default().to_owned());
        found.nodes.push(server);
    }
    Ok(found)
}

/// Writes a servers file, with backlogs in whole blocks of `block` bytes. Columns without information are omitted.
pub fn write_servers(servers: &Nodes<Server>, block: u64, mut out: impl Write) -> io::Result<()> {
    let has_hosts = servers.has_hosts();
    let has_warmth = servers.warmth.iter().any(|warmth| *warmth != Warmth::default());
    let how_fast = if servers.rates.is_empty() { "speed" } else { "rate" };
    write!(out, "server,{how_fast},slots,backlog")?;
    write!(out, "{}", if has_hosts { ",host" } else { "" })?;
    writeln!(out, "{}", if has_warmth { ",connections,last_used" } else { "" })?;
    for (i, (name, server)) in servers.names.iter().zip(&servers.nodes).enumerate() {
        write!(out, "{},", quoted(name))?;
        match servers.rates.get(i) {
            Some(rate) => write!(out, "{rate}")?,
            None => write!(out, "{}", Ratio::new(server.speed.millionths().into(), 1_000_000))?,
        }
        write!(out, ",{},{}", server.slots, server.backlog.saturating_mul(block))?;
        if has_hosts {
            write!(out, ",{}", host(&servers.hosts[i]))?;
        }
        if has_warmth {
            write!(out, ",{},{}", servers.warmth[i].connections, servers.warmth[i].last_used_ns)?;
        }
        writeln!(out)?;
    }
    Ok(())
}

/// Writes a clients file.
pub fn write_clients(clients: &Nodes<Client>, mut out: impl Write) -> io::Result<()> {
    let has_hosts = clients.has_hosts();
    writeln!(out, "client,slots{}", if has_hosts { ",host" } else { "" })?;
    for (i, (name, client)) in clients.names.iter().zip(&clients.nodes).enumerate() {
        write!(out, "{},{}", quoted(name), client.slots)?;
        if has_hosts {
            write!(out, ",{}", host(&clients.hosts[i]))?;
        }
        writeln!(out)?;
    }
    Ok(())
}

fn host(host: &str) -> String {
    if host.is_empty() { String::new() } else { quoted(host) }
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
