//! What is left to read, as a batch to be planned.

use std::ops::Range;

use evenkeel::model::{Batch, BatchBuilder, Client, Cluster, Details, MAX_SLOTS, NameTable, Server, Speed};
use evenkeel::policy::Policy;
use evenkeel_store::Catalogue;

use super::happening::{Happening, Share};
use super::policy::{Decided, NotPlanned, decide};
use super::ranges::Ranges;

/// The time that one byte takes at speed 1: speeds are bytes per second.
pub(super) const BYTE_NS: f64 = 1e9;

/// A range of an object, which one server can serve: a request of the batch.
#[derive(Clone, Debug)]
pub(super) struct Item {
    pub(super) object: usize,
    pub(super) range: Range<u64>,
    pub(super) servers: Vec<usize>,
}

/// Cuts what is missing of an object into items of at most `range_bytes` bytes.
pub(super) fn cut(
    catalogue: &Catalogue,
    object: usize,
    there: &Ranges,
    range_bytes: u64,
    items: &mut Vec<Item>,
) {
    let known = &catalogue.objects()[object];
    let cuts = catalogue.cuts(known);
    for missing in there.missing(known.bytes) {
        let mut at = missing.start;
        while at < missing.end {
            // Multiples of the range size, so that an interrupted read is cut as before.
            let next = (at / range_bytes + 1).saturating_mul(range_bytes);
            let cut = cuts.iter().copied().find(|&cut| cut > at).unwrap_or(u64::MAX);
            let range = at..next.min(cut).min(missing.end);
            at = range.end;
            let servers = catalogue.servers_of(known, &range);
            items.push(Item { object, range, servers });
        }
    }
}

/// What is known about the servers: total rates in bytes per second, and how many transfers each does at once.
#[derive(Clone, Debug)]
pub(super) struct Servers {
    pub(super) rates: Vec<u64>,
    pub(super) slots: u32,
}

/// A batch with its plan.
#[derive(Debug)]
pub(super) struct Planned {
    pub(super) batch: Batch,
    pub(super) cluster: Cluster,
    pub(super) decided: Decided,
}

impl Planned {
    /// The plan, for who watches.
    pub(super) fn told<'a>(&self, names: &'a [String], rates: &[u64]) -> Happening<'a> {
        let transfers = &self.decided.schedule.transfers;
        let mut bytes = vec![0; names.len()];
        transfers.iter().for_each(|transfer| bytes[transfer.server.index()] += transfer.blocks.floor());
        let share = |((name, &rate), bytes): ((&'a String, &u64), u64)| Share {
            server: name.into(),
            rate,
            bytes: (!transfers.is_empty()).then_some(bytes),
        };
        let servers = names.iter().zip(rates).zip(bytes).map(share).collect();
        Happening::Planned { bound: self.decided.bound_s, servers }
    }
}

/// Plans the items for one client, which can do as many transfers at once as all servers together. Its own order does
/// not matter then: each server works through its list.
pub(super) fn plan(
    names: &[String],
    servers: &Servers,
    items: &[Item],
    policy: &Policy,
) -> Result<Planned, NotPlanned> {
    let mut builder = BatchBuilder::in_blocks_of(1);
    let mut table = NameTable::new();
    for name in names {
        table.intern(name);
    }
    builder.declare_servers(table)?;
    for item in items {
        item.servers.iter().try_for_each(|&server| builder.replica(&names[server]))?;
        builder.end_request_of_bytes("here", item.range.end - item.range.start, &Details::default())?;
    }
    let batch = builder.finish();
    let server = |&rate: &u64| {
        let speed =
            Speed::from_millionths((rate / u64::from(servers.slots)).max(1).saturating_mul(1_000_000));
        Server { speed: speed.unwrap_or(Speed::MAX), slots: servers.slots, backlog: 0 }
    };
    let nodes: Vec<Server> = servers.rates.iter().map(server).collect();
    let all_slots = (servers.slots as usize).saturating_mul(names.len()).min(MAX_SLOTS as usize) as u32;
    let clients = vec![Client { slots: all_slots.max(1) }; batch.n_clients()];
    let cluster = Cluster::new(&batch, nodes, clients, None)?;
    let decided = decide(policy, &batch, &cluster)?;
    Ok(Planned { batch, cluster, decided })
}
