//! What is left to read, as a batch to be planned.

use std::collections::HashMap;
use std::ops::Range;

use evenkeel::model::{
    Batch, BatchBuilder, Client, Cluster, Details, Fixed, MAX_SLOTS, NameTable, Ratio, Schedule, Server,
    ServerId, Speed, Transfer,
};
use evenkeel::select::{Goal, optimal};
use evenkeel_store::Catalogue;

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
    for missing in there.missing_in(0..known.bytes) {
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
    pub(super) schedule: Schedule,
    /// No plan ends before this many seconds, if the rates hold.
    pub(super) bound_s: f64,
}

/// Plans the items for one client, which can do as many transfers at once as all servers together. Its own order does
/// not matter then: each server works through its list.
pub(super) fn plan(
    names: &[String],
    servers: &Servers,
    items: &[Item],
) -> Result<Planned, evenkeel::model::ModelError> {
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
    let (choice, bound) = optimal::select(&batch, &cluster, Goal::MaxLoad);
    let mut busy_ns = vec![0_u128; names.len()];
    let mut transfers = Vec::with_capacity(items.len());
    for part in choice.parts(&batch) {
        let busy = &mut busy_ns[part.server.index()];
        let start = Fixed::from_nanos(*busy).unwrap_or(Fixed::ZERO);
        let blocks = Fixed::from_nanos(u128::from(part.blocks) * 1_000_000_000).unwrap_or(Fixed::ZERO);
        transfers.push(Transfer { request: part.request, server: part.server, start, blocks });
        *busy += u128::from(part.blocks) * 1_000_000_000 / u128::from(rate_of(&cluster, part.server));
    }
    first_bytes_first(&mut transfers, items);
    let length = Ratio::new(busy_ns.into_iter().max().unwrap_or(0), 1_000_000_000);
    let bound_s = bound.value.to_f64();
    Ok(Planned { batch, cluster, schedule: Schedule { transfers, length }, bound_s })
}

/// Bytes per second of all slots of a server together.
fn rate_of(cluster: &Cluster, server: ServerId) -> u64 {
    let server = cluster.server(server);
    (server.speed.millionths() / 1_000_000 * u64::from(server.slots)).max(1)
}

/// Items of the same size that the same servers hold are interchangeable: the first of them gets the earliest place. So
/// objects arrive from their beginnings on, and can be hashed meanwhile.
fn first_bytes_first(transfers: &mut [Transfer], items: &[Item]) {
    let mut alike: HashMap<(u64, &[usize]), Vec<usize>> = HashMap::new();
    for (number, transfer) in transfers.iter().enumerate() {
        let Item { range, servers, .. } = &items[transfer.request as usize];
        let bytes = range.end - range.start;
        if transfer.blocks == Fixed::from(bytes) {
            alike.entry((bytes, servers)).or_default().push(number);
        }
    }
    for numbers in alike.into_values() {
        let mut places: Vec<_> = numbers.iter().map(|&n| (transfers[n].start, transfers[n].server)).collect();
        places.sort_unstable();
        for (number, (start, server)) in numbers.into_iter().zip(places) {
            (transfers[number].start, transfers[number].server) = (start, server);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_arrive_from_their_beginnings_on() {
        let item = |n: u64| Item { object: 0, range: n * 10..n * 10 + 10, servers: vec![0, 1] };
        let mut items: Vec<Item> = (0..9).map(item).collect();
        items[8].servers = vec![0];
        let names = ["fast", "slow"].map(str::to_owned);
        let servers = Servers { rates: vec![20, 10], slots: 1 };
        let planned = plan(&names, &servers, &items).expect("it can be planned");
        let mut transfers = planned.schedule.transfers;
        transfers.retain(|transfer| transfer.request < 8);
        assert!(transfers.is_sorted_by_key(|transfer| (transfer.start, transfer.request)), "{transfers:?}");
        let n_slow = transfers.iter().filter(|transfer| transfer.server == ServerId(1)).count();
        assert_eq!(n_slow, 3);
    }
}
