//! What is left to read, as a batch to be planned.

use std::ops::Range;

use evenkeel::model::{
    Batch, BatchBuilder, Client, Cluster, Details, MAX_SLOTS, ModelError, NameTable, Schedule, Server, Speed,
    Transfer,
};
use evenkeel::policy::Policy;
use evenkeel_store::Catalogue;

use super::happening::{Happening, Share};
use super::policy::{Decided, NotPlanned, decide, settings};
use super::ranges::Ranges;
use super::ranks::Rank;

/// The time that one byte takes at speed 1: speeds are bytes per second.
pub(super) const BYTE_NS: f64 = 1e9;

/// Bytes that are on the way from each server, if transfers are small.
const ON_THE_WAY: u64 = 2 << 20;
/// The most transfers at once from a server that did not ask for them.
const MOST_USUAL_SLOTS: u64 = 64;

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
    let known = catalogue.object(object);
    let cuts = catalogue.cuts(&known);
    for missing in there.missing_in(0..known.bytes) {
        let mut at = missing.start;
        while at < missing.end {
            // Multiples of the range size, so that an interrupted read is cut as before.
            let next = (at / range_bytes + 1).saturating_mul(range_bytes);
            let cut = cuts.get(cuts.partition_point(|&cut| cut <= at)).copied().unwrap_or(u64::MAX);
            let range = at..next.min(cut).min(missing.end);
            at = range.end;
            let servers = catalogue.servers_of(&known, &range);
            items.push(Item { object, range, servers });
        }
    }
}

/// How much is asked for at once if nobody says: what servers send in a quarter of a second, so that asking takes little of
/// the time and plans can still be changed.
pub(super) fn usual_range_bytes(rates: &[Option<u64>]) -> u64 {
    let rates: Vec<u64> = rates.iter().copied().flatten().collect();
    let mean = rates.iter().fold(0, |sum: u64, &rate| sum.saturating_add(rate)) / rates.len().max(1) as u64;
    // In whole MiB, since many stores keep objects in blocks of that size.
    ((mean / 4) >> 20 << 20).clamp(1 << 20, 16 << 20)
}

/// How many transfers have so much on the way that asking takes no longer than sending.
pub(super) fn slots_for<'a>(items: impl Iterator<Item = &'a Item>) -> u32 {
    let (mut n, mut bytes) = (0_u64, 0_u64);
    items.for_each(|item| (n, bytes) = (n + 1, bytes.saturating_add(item.range.end - item.range.start)));
    let mean = (bytes / n.max(1)).max(1);
    (ON_THE_WAY / mean).clamp(1, MOST_USUAL_SLOTS) as u32
}

/// What is known about the servers: total rates in bytes per second, and how many transfers each does at once.
#[derive(Clone, Debug)]
pub(super) struct Servers {
    pub(super) rates: Vec<u64>,
    pub(super) slots: Vec<u32>,
}

/// A batch with its plan.
#[derive(Debug)]
pub(super) struct Planned {
    pub(super) batch: Batch,
    pub(super) cluster: Cluster,
    /// What is expected of each server, in bytes per second.
    pub(super) rates: Vec<u64>,
    pub(super) decided: Decided,
}

impl Planned {
    /// The plan, for who watches.
    pub(super) fn told<'a>(&self, names: &'a [String]) -> Happening<'a> {
        let transfers = &self.decided.schedule.transfers;
        let mut bytes = vec![0; names.len()];
        transfers.iter().for_each(|transfer| bytes[transfer.server.index()] += transfer.blocks.floor());
        let share = |((name, &rate), bytes): ((&'a String, &u64), u64)| Share {
            server: name.into(),
            rate,
            bytes: (!transfers.is_empty()).then_some(bytes),
        };
        let servers = names.iter().zip(&self.rates).zip(bytes).map(share).collect();
        Happening::Planned { bound: self.decided.bound_s, servers }
    }
}

/// Plans the items for one client, which can do as many transfers at once as all servers together. Its own order does
/// not matter then: each server works through its list.
///
/// If other ranks read at the same time, all make the same plan for all, and each keeps its own part.
pub(super) fn plan(
    names: &[String],
    servers: &Servers,
    items: &[Item],
    policy: &Policy,
    rank: Option<Rank>,
    others: &[(u32, Item)],
) -> Result<Planned, NotPlanned> {
    let own = rank.map_or(0, |rank| rank.rank);
    let batch = batch(names, items.iter().map(|item| (own, item)))?;
    if others.is_empty() {
        let cluster = cluster(&batch, &servers.rates, &servers.slots)?;
        let decided = decide(policy, &batch, &cluster)?;
        return Ok(Planned { batch, cluster, rates: servers.rates.clone(), decided });
    }
    // In the same order for all ranks.
    let mut rows: Vec<(u32, &Item)> = items.iter().map(|item| (own, item)).collect();
    rows.extend(others.iter().map(|(rank, item)| (*rank, item)));
    rows.sort_by_key(|(_, item)| (item.object, item.range.start));
    let all = self::batch(names, rows.iter().copied())?;
    let mut decided = decide(policy, &all, &self::cluster(&all, &servers.rates, &servers.slots)?)?;
    let (rates, schedule) = part_of(own, &rows, servers, rank.map_or(1, |rank| rank.of), &decided.schedule);
    (decided.schedule, decided.settings) = (schedule, settings(policy, &batch)?);
    let cluster = cluster(&batch, &rates, &servers.slots)?;
    Ok(Planned { batch, cluster, rates, decided })
}

/// The part of one rank in a plan for all of these rows, and what it can expect of each server: as much of its rate as
/// it has of its work.
fn part_of(
    own: u32,
    rows: &[(u32, &Item)],
    servers: &Servers,
    n_ranks: u32,
    schedule: &Schedule,
) -> (Vec<u64>, Schedule) {
    // The number of each row among those of its own rank.
    let mut number = 0;
    let numbers: Vec<Option<u32>> = rows
        .iter()
        .map(|(rank, _)| {
            let is_own = *rank == own;
            number += u32::from(is_own);
            is_own.then(|| number - 1)
        })
        .collect();
    let (mut of_all, mut of_own) = (vec![0_u128; servers.rates.len()], vec![0_u128; servers.rates.len()]);
    let mut transfers = Vec::new();
    for transfer in &schedule.transfers {
        let blocks = transfer.blocks.nanos();
        of_all[transfer.server.index()] += blocks;
        if let Some(request) = numbers[transfer.request as usize] {
            of_own[transfer.server.index()] += blocks;
            transfers.push(Transfer { request, ..*transfer });
        }
    }
    let rate = |((&rate, all), own): ((&u64, u128), u128)| match own {
        0 => (rate / u64::from(n_ranks)).max(1),
        _ => ((rate as f64 * (own as f64 / all as f64)) as u64).max(1),
    };
    let rates = servers.rates.iter().zip(of_all).zip(of_own).map(rate).collect();
    (rates, Schedule { transfers, length: schedule.length })
}

fn batch<'a>(names: &[String], rows: impl Iterator<Item = (u32, &'a Item)>) -> Result<Batch, ModelError> {
    let mut builder = BatchBuilder::in_blocks_of(1);
    let mut table = NameTable::new();
    for name in names {
        table.intern(name);
    }
    builder.declare_servers(table)?;
    for (rank, item) in rows {
        item.servers.iter().try_for_each(|&server| builder.replica(&names[server]))?;
        let bytes = item.range.end - item.range.start;
        builder.end_request_of_bytes(&format!("rank {rank}"), bytes, &Details::default())?;
    }
    Ok(builder.finish())
}

fn cluster(batch: &Batch, rates: &[u64], slots: &[u32]) -> Result<Cluster, ModelError> {
    let server = |(&rate, &slots): (&u64, &u32)| {
        let speed = Speed::from_millionths((rate / u64::from(slots)).max(1).saturating_mul(1_000_000));
        Server { speed: speed.unwrap_or(Speed::MAX), slots, backlog: 0 }
    };
    let nodes: Vec<Server> = rates.iter().zip(slots).map(server).collect();
    let all_slots = slots.iter().fold(0_u32, |all, &slots| all.saturating_add(slots)).clamp(1, MAX_SLOTS);
    let clients = vec![Client { slots: all_slots }; batch.n_clients()];
    Cluster::new(batch, nodes, clients, None)
}
