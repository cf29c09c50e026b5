//! `evenkeel probe`: how fast servers send.

use std::collections::HashMap;
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use evenkeel::model::{NameTable, Server};
use evenkeel::observe::Warmth;
use evenkeel_formats::{Nodes, write_servers};
use evenkeel_node::lead::ceph::{PART_BYTES, WINDOW};
use evenkeel_node::{Measurement, Probing, measure};
use serde::Serialize;

use super::balance::store::Store;
use super::{Outcome, live};
use crate::cli::{ProbeArgs, ProbeStore};
use crate::output::{printable, targets, tell};
use crate::text::{size, table};

/// How many transfers servers were busy with before they were measured, as far as their storage tells.
type Load = HashMap<String, u64>;

/// The result, for machines.
#[derive(Serialize)]
struct Summary<'a> {
    format: u32,
    seconds: u64,
    slots: u32,
    alone: bool,
    servers: Vec<ServerSummary<'a>>,
}

#[derive(Serialize)]
struct ServerSummary<'a> {
    server: &'a str,
    rate: Option<u64>,
    bytes: u64,
    /// Transfers that it was busy with before, if its storage tells.
    connections: Option<u64>,
    error: Option<&'a str>,
}

pub(super) fn run(args: &ProbeArgs) -> Result<Outcome> {
    if let Some(ProbeStore::Ceph { store, out, json }) = &args.store {
        return leaders(Store::ceph(store), out.as_deref(), *json);
    }
    let [out] = targets([("--out", args.out.as_deref())], &args.source.files(&args.sources))?;
    let probing = Probing {
        slots: args.slots,
        range_bytes: args.range,
        window: Duration::from_secs(args.seconds),
        one_by_one: args.alone,
    };
    let (measured, load) = live::runtime()?.block_on(async {
        let catalogue = Arc::new(live::catalogue(&args.source, &args.sources).await?);
        Ok::<_, anyhow::Error>((measure(&catalogue, &probing).await, catalogue.connections()))
    })?;
    if let Some(out) = out {
        let servers = servers_file(&measured, &load, args.slots);
        out.write(|file| write_servers(&servers, 1, file))?;
    }
    let text = match args.json {
        true => serde_json::to_string(&summary(&probing, &measured, &load))? + "\n",
        false => printable(&told(&measured, &load)).into_owned(),
    };
    tell(&text, &[args.out.as_deref()])?;
    Ok(if measured.iter().all(|server| server.rate.is_some()) { Outcome::Done } else { Outcome::Failed })
}

/// Measures the servers of a store by what they lead.
fn leaders(mut store: Store, out: Option<&Path>, is_json: bool) -> Result<Outcome> {
    let [target] = targets([("--out", out)], &[])?;
    let measured = live::runtime()?.block_on(async {
        let look = store.engine.look().await?;
        Ok::<_, anyhow::Error>(store.engine.measure(&look).await?)
    })?;
    let probing = Probing { slots: 1, range_bytes: PART_BYTES, window: WINDOW, one_by_one: false };
    if let Some(target) = target {
        target.write(|file| write_servers(&servers_file(&measured, &Load::new(), 1), 1, file))?;
    }
    let text = match is_json {
        true => serde_json::to_string(&summary(&probing, &measured, &Load::new()))? + "\n",
        false => printable(&told(&measured, &Load::new())).into_owned(),
    };
    tell(&text, &[out])?;
    Ok(if measured.iter().all(|server| server.rate.is_some()) { Outcome::Done } else { Outcome::Failed })
}

/// The servers that have sent something.
fn servers_file(measured: &[Measurement], load: &Load, slots: u32) -> Nodes<Server> {
    let (mut names, mut rates, mut warmth) = (NameTable::new(), Vec::new(), Vec::new());
    for (server, rate) in measured.iter().filter_map(|server| Some((server, server.rate?))) {
        names.intern(&server.name);
        rates.push(rate);
        let connections = load.get(&server.name).copied().unwrap_or(0);
        warmth.push(Warmth { connections, ..Warmth::default() });
    }
    let nodes = vec![Server { slots, ..Server::default() }; rates.len()];
    Nodes { rates, warmth, ..Nodes::new(names, nodes) }
}

fn summary<'a>(probing: &Probing, measured: &'a [Measurement], load: &Load) -> Summary<'a> {
    let server = |server: &'a Measurement| ServerSummary {
        server: &server.name,
        rate: server.rate,
        bytes: server.bytes,
        connections: load.get(&server.name).copied(),
        error: server.error.as_deref(),
    };
    Summary {
        format: 1,
        seconds: probing.window.as_secs(),
        slots: probing.slots,
        alone: probing.one_by_one,
        servers: measured.iter().map(server).collect(),
    }
}

fn told(measured: &[Measurement], load: &Load) -> String {
    // Only where storage tells.
    let n_columns = if load.is_empty() { 3 } else { 4 };
    let head = ["server", "rate", "received", "connections"];
    let mut rows = vec![head[..n_columns].iter().map(|&name| name.to_owned()).collect()];
    for server in measured {
        let rate = server.rate.map_or("–".to_owned(), |rate| format!("{}/s", size(rate as f64)));
        let connections = load.get(&server.name).map_or("–".to_owned(), u64::to_string);
        let mut row = vec![server.name.clone(), rate, size(server.bytes as f64), connections];
        row.truncate(n_columns);
        rows.push(row);
    }
    let mut text = table(&rows);
    for error in measured.iter().filter_map(|server| server.error.as_deref()) {
        let _ = writeln!(text, "note: {error}");
    }
    text
}
