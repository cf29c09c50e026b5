//! Re-verifies plans and proofs from scratch.
//!
//! This module shares nothing with the solvers: it recounts requests, sorts and compares transfers, and adds up proofs
//! again from the batch alone. It is meant to be read in one go and believed.
//!
//! Times are in billionths. If every server has speed 1, everything is whole and exact: transfers start at whole slots
//! and take whole slots. Otherwise transfers may be interrupted anywhere, even within a block; decimals are rounded,
//! and an error of a millionth of a unit of time, or of a block, is tolerated. A block comes from one server and is
//! never transferred twice at once.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use crate::bound::{Bound, Cost, Prices, Proof};
use crate::model::{Batch, Cluster, Fixed, Ratio, Server, ServerId, Speed, Transfer};

/// What is wrong with a plan. Rows are counted from 0, as given.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum Fault {
    #[error("row {row} is of request {request}, but the batch has only {n_requests} requests")]
    NoSuchRequest { row: usize, request: u32, n_requests: usize },
    #[error(
        "row {row}: request {request} is served by server number {server}, which the batch does not have"
    )]
    NoSuchServer { row: usize, request: u32, server: u32 },
    #[error("row {row}: request {request} is served by `{server}`, which holds no replica of it")]
    NotAReplica { row: usize, request: u32, server: String },
    #[error("row {row}: request {request} has a transfer of nothing")]
    EmptyTransfer { row: usize, request: u32 },
    #[error("row {row}: request {request} has a start in a plan without an order")]
    StartWithoutOrder { row: usize, request: u32 },
    #[error(
        "row {row}: all servers have speed 1, so the start and the blocks of request {request} are whole"
    )]
    NotWhole { row: usize, request: u32 },
    #[error("row {row}: the transfer of request {request} ends beyond 64 bits")]
    EndsTooLate { row: usize, request: u32 },
    #[error("row {row}: request {request} starts at {start}, but `{server}` is busy until {free}")]
    TooEarly { row: usize, request: u32, server: String, start: Fixed, free: Fixed },
    #[error("request {request} has {wanted} blocks, and {served} are served")]
    WrongAmount { request: u32, wanted: u64, served: Ratio },
    #[error("request {request} is not served at all")]
    NotServed { request: u32 },
    #[error("request {request} has a block that `{server}` serves only in part")]
    BrokenBlock { request: u32, server: String },
    #[error("request {request} is split between servers: rows {rows:?}")]
    Split { request: u32, rows: [usize; 2] },
    #[error(
        "request {request} has more transfers from `{server}` at once than blocks ({blocks}) from time {time} on: see rows {rows:?}"
    )]
    BlockOverlap { request: u32, server: String, blocks: u64, time: Fixed, rows: [usize; 2] },
    #[error("{who} has more transfers at once than slots ({slots}) from time {time} on: see rows {rows:?}")]
    Overlap { who: String, slots: u64, time: Fixed, rows: [usize; 2] },
    #[error("the proof names a server or client that the batch does not have")]
    UnknownInProof,
    #[error("the proof names a server twice")]
    ServerTwiceInProof,
    #[error("the proof rests on a limit on concurrent transfers, and there is none")]
    NoLimit,
    #[error("the proof of {claimed} proves only {proved}")]
    WeakProof { claimed: Ratio, proved: Ratio },
    #[error("this proves nothing about the load of servers")]
    ProvesNoLoad,
}

/// The figures of a valid plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measures {
    /// When the last transfer ends.
    pub length: Ratio,
    /// When the last server that serves anything would be done if it worked without a break: its backlog, then its
    /// blocks.
    pub max_load: Ratio,
}

const NANOS: u128 = 1_000_000_000;
/// Tolerance where numbers are rounded: a millionth.
const TOLERANCE: u128 = 1_000;

/// Checks that every request is fully served, and only by its replicas. With `ordered`, also checks that no client or
/// server has more concurrent transfers than slots, that no block is in two transfers at once, and that no server
/// serves before its backlog is done.
pub fn plan(batch: &Batch, cluster: &Cluster, rows: &[Transfer], ordered: bool) -> Result<Measures, Fault> {
    let exact = cluster.common_speed() == Some(Speed::ONE);
    let mut served = vec![0_u128; batch.n_requests()];
    let mut named = vec![false; batch.n_requests()];
    let mut loads = vec![0_u128; batch.n_servers()];
    let mut length = 0;
    for (row, transfer) in rows.iter().enumerate() {
        let Transfer { request, server, start, blocks } = *transfer;
        let i = request as usize;
        if i >= batch.n_requests() {
            return Err(Fault::NoSuchRequest { row, request, n_requests: batch.n_requests() });
        }
        if server.index() >= batch.n_servers() {
            return Err(Fault::NoSuchServer { row, request, server: server.0 });
        }
        let server_name = || batch.servers().name(server.0).to_owned();
        if !batch.replicas().of(i).contains(&server) {
            return Err(Fault::NotAReplica { row, request, server: server_name() });
        }
        if exact && (start.whole().is_none() || blocks.whole().is_none()) {
            return Err(Fault::NotWhole { row, request });
        }
        if blocks.is_zero() && (batch.blocks(i) > 0 || !start.is_zero() || named[i]) {
            return Err(Fault::EmptyTransfer { row, request });
        }
        if !ordered && !start.is_zero() {
            return Err(Fault::StartWithoutOrder { row, request });
        }
        let node = cluster.server(server);
        let end = start.nanos() + duration(blocks.nanos(), node.speed);
        if Fixed::from_nanos(end).is_none() {
            return Err(Fault::EndsTooLate { row, request });
        }
        let free = duration(u128::from(node.busy()) * NANOS, node.speed);
        if ordered && !blocks.is_zero() && start.nanos() + tolerance(node.speed, exact) < free {
            let free = Fixed::from_nanos(free).unwrap_or(u64::MAX.into());
            return Err(Fault::TooEarly { row, request, server: server_name(), start, free });
        }
        length = end.max(length);
        served[i] += blocks.nanos();
        named[i] = true;
        loads[server.index()] += blocks.nanos();
    }
    for (request, (&served, &named)) in (0..).zip(served.iter().zip(&named)) {
        let wanted = batch.blocks(request as usize);
        if !named {
            return Err(Fault::NotServed { request });
        }
        let forgiven = if exact || wanted == 0 { 0 } else { TOLERANCE };
        if served.abs_diff(u128::from(wanted) * NANOS) > forgiven {
            let served = Ratio::new(served, NANOS as u64);
            return Err(Fault::WrongAmount { request, wanted, served });
        }
    }
    unbroken(batch, rows)?;
    if ordered {
        within_slots(batch, cluster, rows, exact)?;
    } else {
        length = 0;
    }
    let done = |(&load, server): (&u128, &Server)| {
        let slots = u64::from(server.slots);
        match (load + NANOS / 2) / NANOS {
            0 => Ratio::ZERO,
            blocks if exact => (server.busy() + blocks.div_ceil(slots.into()) as u64).into(),
            // Slots share blocks, but each block takes its own time.
            blocks => {
                let last = u128::from(server.busy()) * u128::from(slots) + blocks.max(slots.into());
                Ratio::new(last * 1_000_000, server.speed.millionths() * slots)
            }
        }
    };
    let max_load = loads.iter().zip(cluster.servers()).map(done).max().unwrap_or(Ratio::ZERO);
    Ok(Measures { length: Ratio::new(length, NANOS as u64), max_load })
}

/// Checks that no request is split between servers.
pub fn unsplit(batch: &Batch, rows: &[Transfer]) -> Result<(), Fault> {
    let mut first = vec![usize::MAX; batch.n_requests()];
    for (row, t) in rows.iter().enumerate() {
        let Some(first) = first.get_mut(t.request as usize) else { continue };
        match rows.get(*first) {
            Some(other) if other.server != t.server => {
                return Err(Fault::Split { request: t.request, rows: [*first, row] });
            }
            _ => *first = row,
        }
    }
    Ok(())
}

/// How long `nano_blocks` billionths of a block take, in billionths of time, to the nearest.
fn duration(nano_blocks: u128, speed: Speed) -> u128 {
    let speed = u128::from(speed.millionths());
    (nano_blocks * 1_000_000 + speed / 2) / speed
}

/// A millionth of the unit of time or of a block, whichever is longer.
fn tolerance(speed: Speed, exact: bool) -> u128 {
    if exact { 0 } else { TOLERANCE.max(duration(TOLERANCE, speed)) }
}

/// Checks that each block comes from one server, even if it is interrupted.
fn unbroken(batch: &Batch, rows: &[Transfer]) -> Result<(), Fault> {
    let mut broken: Vec<(u32, ServerId, u128)> = rows
        .iter()
        .filter(|t| t.blocks.whole().is_none())
        .map(|t| (t.request, t.server, t.blocks.nanos()))
        .collect();
    broken.sort_unstable();
    for of_server in broken.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)) {
        let (request, server, _) = of_server[0];
        let rest = of_server.iter().map(|part| part.2).sum::<u128>() % NANOS;
        if rest.min(NANOS - rest) > TOLERANCE {
            let server = batch.servers().name(server.0).to_owned();
            return Err(Fault::BrokenBlock { request, server });
        }
    }
    Ok(())
}

/// A transfer as the overlap checks see it: a participant, start, end, and its row.
type Run = (u32, u128, u128, usize);

fn within_slots(batch: &Batch, cluster: &Cluster, rows: &[Transfer], exact: bool) -> Result<(), Fault> {
    let runs = |who: &dyn Fn(&Transfer) -> u32| -> Vec<Run> {
        let run = |(row, t): (usize, &Transfer)| {
            let start = t.start.nanos();
            let end = start + duration(t.blocks.nanos(), cluster.server(t.server).speed);
            (end > start).then(|| (who(t), start, end, row))
        };
        rows.iter().enumerate().filter_map(run).collect()
    };
    let speed = |row: usize| cluster.server(rows[row].server).speed;
    let forgiven = Forgiven {
        overlap: &|row| tolerance(speed(row), exact),
        // A start and an amount, each rounded to a billionth.
        rounding: &|row| if exact { 0 } else { 2 + duration(2, speed(row)) },
    };
    let overlap = |who: String, slots, Overlap { time, rows }| Fault::Overlap { who, slots, time, rows };
    let slots_of_client = |id: u32| u64::from(cluster.clients()[id as usize].slots);
    at_most(runs(&|t| batch.client(t.request as usize).0), slots_of_client, &forgiven).map_err(
        |(id, found)| overlap(format!("client `{}`", batch.clients().name(id)), slots_of_client(id), found),
    )?;
    let slots_of_server = |id: u32| u64::from(cluster.servers()[id as usize].slots);
    at_most(runs(&|t| t.server.0), slots_of_server, &forgiven).map_err(|(id, found)| {
        overlap(format!("server `{}`", batch.servers().name(id)), slots_of_server(id), found)
    })?;
    if let Some(limit) = cluster.max_concurrent() {
        at_most(runs(&|_| 0), |_| limit, &forgiven)
            .map_err(|(_, found)| overlap("the whole cluster".to_owned(), limit, found))?;
    }
    no_block_twice(batch, rows, runs(&|t| t.request), &forgiven)
}

/// Checks that no block is in two transfers at once: a request never has more concurrent transfers from a server than
/// blocks from there.
///
/// That is sufficient: if at most n transfers of n blocks are in flight at any time, they can always be matched to
/// blocks so that each block is in one transfer at a time. Two transfers of whole blocks are never of the same block.
fn no_block_twice(
    batch: &Batch,
    rows: &[Transfer],
    mut runs: Vec<Run>,
    forgiven: &Forgiven<'_>,
) -> Result<(), Fault> {
    let mut is_broken = vec![false; batch.n_requests()];
    for t in rows.iter().filter(|t| t.blocks.whole().is_none()) {
        is_broken[t.request as usize] = true;
    }
    runs.retain(|run| is_broken[run.0 as usize]);
    runs.sort_unstable_by_key(|&(request, start, _, row)| (request, rows[row].server, start));
    for of_part in runs.chunk_by(|a, b| (a.0, rows[a.3].server) == (b.0, rows[b.3].server)) {
        let nanos: u128 = of_part.iter().map(|run| rows[run.3].blocks.nanos()).sum();
        let blocks = ((nanos + NANOS / 2) / NANOS) as u64;
        at_most(of_part.to_vec(), |_| blocks, forgiven).map_err(
            |(request, Overlap { time, rows: at })| {
                let server = batch.servers().name(rows[of_part[0].3].server.0).to_owned();
                Fault::BlockOverlap { request, server, blocks, time, rows: at }
            },
        )?;
    }
    Ok(())
}

/// The tolerance for a row.
struct Forgiven<'a> {
    overlap: &'a dyn Fn(usize) -> u128,
    rounding: &'a dyn Fn(usize) -> u128,
}

/// When there are too many concurrent transfers, and two of their rows.
struct Overlap {
    time: Fixed,
    rows: [usize; 2],
}

/// Checks that nobody has more concurrent transfers than slots. A little overlap is tolerated each time, and so is a
/// transfer that takes no longer than that, but in total no more than rounding explains: all transfers must fit between
/// the first start and the last end. The error says who has more.
fn at_most(
    mut runs: Vec<Run>,
    slots: impl Fn(u32) -> u64,
    forgiven: &Forgiven<'_>,
) -> Result<(), (u32, Overlap)> {
    runs.sort_unstable();
    let time = |nanos: u128| Fixed::from_nanos(nanos).unwrap_or(u64::MAX.into());
    let mut under_way: BinaryHeap<Reverse<(u128, usize)>> = BinaryHeap::new();
    for of_node in runs.chunk_by(|a, b| a.0 == b.0) {
        under_way.clear();
        let (id, first, _, first_row) = of_node[0];
        let slots = slots(id);
        let (mut last, mut sum, mut rounding) = (first, 0, (forgiven.overlap)(first_row));
        for &(_, start, end, row) in of_node {
            while under_way.peek().is_some_and(|Reverse((end, _))| *end <= start) {
                under_way.pop();
            }
            let until = end.saturating_sub((forgiven.overlap)(row));
            if until > start {
                if under_way.len() as u64 >= slots {
                    let other = under_way.peek().map_or(row, |Reverse((_, row))| *row);
                    return Err((id, Overlap { time: time(start), rows: [other, row] }));
                }
                under_way.push(Reverse((until, row)));
            }
            last = last.max(end);
            sum += end - start;
            rounding += (forgiven.rounding)(row);
        }
        if sum > (last - first).saturating_mul(slots.into()).saturating_add(rounding) {
            let rows = [first_row, of_node[of_node.len() - 1].3];
            return Err((id, Overlap { time: time(first), rows }));
        }
    }
    Ok(())
}

/// What a bound is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The length of any schedule.
    Length,
    /// When the last server is done, for any choice.
    MaxLoad,
}

/// The requests that a proof rests on, and what they prove.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forced {
    /// How many requests.
    pub requests: u64,
    /// How many blocks they have in total.
    pub blocks: u64,
    /// The bound that follows, rounded down to nine decimals.
    pub proved: Ratio,
}

/// Checks that the proof proves the bound, to nine decimals, by adding up what it forces.
pub fn bound(batch: &Batch, cluster: &Cluster, bound: &Bound, subject: Subject) -> Result<Forced, Fault> {
    let add_up = |is_forced: &dyn Fn(usize) -> bool| {
        let forced = (0..batch.n_requests()).filter(|&i| is_forced(i));
        forced.fold((0, 0), |(requests, blocks), i| (requests + 1, blocks + batch.blocks(i)))
    };
    let (requests, blocks, proved) = match &bound.proof {
        Proof::Client { .. } | Proof::Concurrency if subject == Subject::MaxLoad => {
            return Err(Fault::ProvesNoLoad);
        }
        Proof::Servers(servers) => {
            let mut inside = vec![false; batch.n_servers()];
            for server in servers {
                let inside = inside.get_mut(server.index()).ok_or(Fault::UnknownInProof)?;
                if std::mem::replace(inside, true) {
                    return Err(Fault::ServerTwiceInProof);
                }
            }
            let (requests, blocks) =
                add_up(&|i| batch.replicas().of(i).iter().all(|server| inside[server.index()]));
            let nodes: Vec<&Server> = servers.iter().map(|&s| cluster.server(s)).collect();
            (requests, blocks, time_of_servers(&nodes, blocks, cluster.is_slotted()))
        }
        Proof::Client { client, waits_for } => {
            let is_known = waits_for.is_none_or(|server| server.index() < batch.n_servers());
            if client.index() >= batch.n_clients() || !is_known {
                return Err(Fault::UnknownInProof);
            }
            let free = |s: ServerId| {
                let node = cluster.server(s);
                Ratio::new(u128::from(node.busy()) * 1_000_000, node.speed.millionths())
            };
            let wait = waits_for.map_or(Ratio::ZERO, free);
            let is_forced = |i: usize| {
                batch.client(i) == *client && batch.replicas().of(i).iter().all(|&s| free(s) >= wait)
            };
            let (requests, blocks) = add_up(&is_forced);
            let wait = wait.numerator() * NANOS / u128::from(wait.denominator());
            (requests, blocks, wait + time_of_client(batch, cluster, client.index(), &is_forced))
        }
        Proof::Concurrency => {
            let (limit, speed) =
                cluster.max_concurrent().zip(cluster.common_speed()).ok_or(Fault::NoLimit)?;
            let (requests, blocks) = add_up(&|_| true);
            let (total, limit) = (u128::from(batch.total_blocks()), u128::from(limit));
            let time = match cluster.is_slotted() {
                true => total.div_ceil(limit) * NANOS,
                false => total * 1_000_000 * NANOS / u128::from(speed.millionths()) / limit,
            };
            (requests, blocks, time)
        }
    };
    let proved = if blocks == 0 { 0 } else { proved };
    let claimed = bound.value.rounded().nanos();
    let ratio = Ratio::new(proved, NANOS as u64);
    // A printed bound may have been rounded up, and the sum here is rounded down.
    let forgiven = if cluster.common_speed() == Some(Speed::ONE) { 0 } else { 4 };
    if proved + forgiven < claimed {
        return Err(Fault::WeakProof { claimed: bound.value, proved: ratio });
    }
    Ok(Forced { requests, blocks, proved: ratio })
}

/// The least that any choice of whole requests can cost that is done by `level`, as far as these prices prove it: the
/// number of requests, or of their blocks, that another server serves than today.
pub fn cost(batch: &Batch, cluster: &Cluster, level: Ratio, prices: &Prices, cost: Cost) -> u64 {
    let scale = u128::from(prices.scale);
    let price = |server: ServerId| u128::from(prices.of.get(server.index()).copied().unwrap_or(0));
    let paid = (0..batch.n_requests()).map(|i| {
        let blocks = u128::from(batch.blocks(i));
        let change = if cost == Cost::Changes { scale } else { scale * blocks };
        let pays = |&server: &ServerId| {
            let is_change = batch.current(i).is_some_and(|current| current != server);
            price(server) * blocks + if is_change { change } else { 0 }
        };
        batch.replicas().of(i).iter().map(pays).min().unwrap_or(0)
    });
    let grain = (0..batch.n_requests()).fold(0, |grain, i| gcd(grain, batch.blocks(i).into()));
    let grain = u64::try_from(grain).unwrap_or(1).max(1);
    let servers = (0..batch.n_servers() as u32).map(ServerId).filter(|&server| price(server) > 0);
    let collected = servers.map(|server| {
        // The most blocks that are done by then, by bisection: nothing is assumed about how servers work.
        let (mut done, mut late) = (0, batch.total_blocks() + 1);
        while late - done > 1 {
            let middle = u64::midpoint(done, late);
            if cluster.done(server, middle) <= level { done = middle } else { late = middle }
        }
        // Whole requests of one size leave a rest.
        price(server) * u128::from(done - done % grain)
    });
    let (paid, collected) = (paid.sum::<u128>(), collected.sum::<u128>());
    let proved = paid.saturating_sub(collected).div_ceil(scale.max(1));
    u64::try_from(proved).unwrap_or(u64::MAX)
}

/// The last time before which the servers cannot have served `blocks` blocks, in billionths.
fn time_of_servers(servers: &[&Server], blocks: u64, is_slotted: bool) -> u128 {
    // The blocks that a server can have completed before that time. In each slot these are whole blocks, ⌈time · speed⌉
    // − 1, and the backlog is among them. If slots share blocks, the same holds for one slot with the speed of all
    // together, once there was time for a first block.
    let before = |time: u128, server: &Server| -> u128 {
        let unit = 1_000_000 * NANOS;
        let ended = |speed: u128| {
            let all =
                (time / unit).saturating_mul(speed).saturating_add((time % unit * speed).div_ceil(unit));
            all.saturating_sub(1)
        };
        let (speed, slots) = (u128::from(server.speed.millionths()), u128::from(server.slots));
        let in_each_slot = ended(speed).saturating_sub(server.busy().into());
        match is_slotted || in_each_slot == 0 {
            true => in_each_slot.saturating_mul(slots),
            false => ended(speed * slots).saturating_sub(u128::from(server.busy()) * slots),
        }
    };
    let too_early = |time: u128| {
        let served = servers.iter().fold(0_u128, |sum, server| sum.saturating_add(before(time, server)));
        served < u128::from(blocks)
    };
    if servers.is_empty() {
        return 0;
    }
    let (mut low, mut high) = (0, 1);
    while too_early(high) && high < 1 << 126 {
        (low, high) = (high, high * 2);
    }
    while low + 1 < high {
        let middle = low + (high - low) / 2;
        match too_early(middle) {
            true => low = middle,
            false => high = middle,
        }
    }
    low
}

/// How long a client takes to receive some of its requests from their fastest replicas, in billionths.
fn time_of_client(
    batch: &Batch,
    cluster: &Cluster,
    client: usize,
    is_counted: &dyn Fn(usize) -> bool,
) -> u128 {
    let mut blocks_at: BTreeMap<u64, u128> = BTreeMap::new();
    for i in (0..batch.n_requests()).filter(|&i| is_counted(i)) {
        let speeds = batch.replicas().of(i).iter().map(|&s| cluster.server(s).speed.millionths());
        *blocks_at.entry(speeds.max().unwrap_or(1)).or_default() += u128::from(batch.blocks(i));
    }
    let slots = u128::from(cluster.clients()[client].slots);
    if cluster.is_slotted() {
        return blocks_at.values().sum::<u128>().div_ceil(slots) * NANOS;
    }
    // Billionths, and fractions of a billionth that would add up.
    let (mut nanos, mut fractions) = (0, 0);
    for (&speed, blocks) in &blocks_at {
        let (work, speed) = (blocks * 1_000_000 * NANOS, u128::from(speed));
        nanos += work / speed;
        fractions += ((work % speed) << 60) / speed;
    }
    (nanos + (fractions >> 60)) / slots
}

/// The greatest common divisor.
fn gcd(a: u128, b: u128) -> u128 {
    if b == 0 { a } else { gcd(b, a % b) }
}
