//! How early any plan can end, and why: the proof that comes with an answer.

use crate::graph::clock::Clock;
use crate::graph::flow::pace::Level;
use crate::model::{Batch, ClientId, Cluster, Ratio, Server, ServerId};

/// A lower bound with its proof.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bound {
    /// No plan does better: in length, or in the time at which the last server is done.
    pub value: Ratio,
    /// What forces the bound.
    pub proof: Proof,
}

/// What forces a bound. Anybody can recount it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Proof {
    /// The requests whose replicas are all on these servers share them, whatever is chosen. The bound is the earliest
    /// time by which the servers can have served that many blocks. An empty set proves 0.
    Servers(Vec<ServerId>),
    /// This client has to receive all its blocks through its slots, at best from the fastest replicas.
    Client {
        /// The client.
        client: ClientId,
        /// Counts only the client's requests whose replicas are all busy for at least as long as this server. None of
        /// them starts before it is free.
        waits_for: Option<ServerId>,
    },
    /// All blocks have to go through the limit on concurrent transfers.
    Concurrency,
}

/// What it costs if another server serves a request than today.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cost {
    /// The same for all requests.
    Changes,
    /// The blocks of the request.
    Blocks,
}

/// A price for each block at each server, which proves how little a choice can cost.
///
/// Let every block pay the price of the server that serves it. A request pays no less than the cheapest of its replicas
/// asks, with the cost of a change if that is one; and no server collects its price for more blocks than it can have done
/// in time. So what requests pay at least, minus what servers collect at most, is no more than any choice costs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prices {
    /// Prices are in such parts of the cost.
    pub scale: u64,
    /// The price at each server.
    pub of: Vec<u64>,
}

/// What no schedule can beat, whatever the servers serve: the slowest client, or the limit on concurrency.
///
/// Given as a level, the unit in which servers are balanced.
pub(crate) fn beside_servers(batch: &Batch, cluster: &Cluster) -> Option<(Level, Proof)> {
    let client = slowest_client(batch, cluster);
    let concurrency = concurrency(batch, cluster).map(|level| (level, Proof::Concurrency));
    match (client, concurrency) {
        (Some(client), Some(limit)) if limit.0 > client.0 => Some(limit),
        (Some(client), _) => Some(client),
        (None, limit) => limit,
    }
}

/// What all blocks need under the limit on concurrency, if there is one.
pub(crate) fn concurrency(batch: &Batch, cluster: &Cluster) -> Option<Level> {
    let (limit, speed) = (cluster.max_concurrent()?, cluster.common_speed()?.millionths());
    let total = batch.total_blocks();
    Some(match speed.checked_mul(limit) {
        Some(speed) if !cluster.is_slotted() => Level::new(total.into(), speed),
        Some(_) => Level::new(total.div_ceil(limit).into(), speed),
        // Rounded down: the limit is so high that it hardly ever matters.
        None => Level::new((total / limit).into(), speed),
    })
}

fn slowest_client(batch: &Batch, cluster: &Cluster) -> Option<(Level, Proof)> {
    let slowest = cluster.servers().iter().map(|s| s.speed.millionths()).min()?;
    let most_busy = cluster.servers().iter().map(Server::busy).max()?;
    // As fine as possible while the ticks of all blocks fit in 63 bits.
    let most_blocks = u128::from(batch.total_blocks() + most_busy).max(1);
    let most = (u128::from(slowest) << 62) / most_blocks;
    let clock = Clock::new(cluster, u64::try_from(most).unwrap_or(u64::MAX));
    // Whole slots if the cluster is slotted; otherwise the bound is still valid.
    let in_slots = cluster.is_slotted();
    let through = |ticks: u64, client: usize| {
        let slots = u64::from(cluster.clients()[client].slots);
        if in_slots { ticks.div_ceil(slots) } else { ticks / slots }
    };
    let speeds: Vec<u64> = cluster.servers().iter().map(|s| s.speed.millionths()).collect();
    let work_of = |i: usize| {
        let set = batch.replicas().of(i);
        let faster = |a: ServerId, b: ServerId| if speeds[b.index()] > speeds[a.index()] { b } else { a };
        clock.at_least(batch.blocks(i), set.iter().copied().fold(set[0], faster))
    };
    // The work of each client by the time at which the first replica is free: none of it can start before.
    let Ranks { rank, servers } = Ranks::new(cluster);
    let mut work_by_rank = Sparse::new(batch.n_clients(), servers.len(), batch.n_requests());
    for (i, set) in batch.replicas().iter().enumerate() {
        let first_free = set.iter().map(|s| rank[s.index()]).fold(u32::MAX, u32::min);
        work_by_rank.add(batch.client(i).0, first_free, work_of(i));
    }
    let mut best: Option<(u64, ClientId, Option<ServerId>)> = None;
    work_by_rank.for_each_row(|client, by_rank| {
        // From the last rank on: the work gathered so far for a client waits for that rank.
        let mut gathered = 0;
        for &(rank, work) in by_rank.iter().rev().filter(|(_, work)| *work > 0) {
            gathered += work;
            let server = servers[rank as usize];
            let node = cluster.server(server);
            let until = clock.at_least(node.busy(), server) + through(gathered, client as usize);
            if best.is_none_or(|(most, ..)| until > most) {
                best = Some((until, ClientId(client), (node.backlog > 0).then_some(server)));
            }
        }
    });
    let (ticks, client, waits_for) = best?;
    Some((clock.level(ticks.into()), Proof::Client { client, waits_for }))
}

/// Sums by row and column, most of which may be zero.
struct Sparse {
    n_columns: usize,
    /// All sums, if there are not many more of them than additions.
    dense: Vec<u64>,
    /// Otherwise the additions.
    added: Vec<(u32, u32, u64)>,
}

impl Sparse {
    fn new(n_rows: usize, n_columns: usize, n_added: usize) -> Self {
        let size = n_rows.saturating_mul(n_columns);
        let dense = if size <= 2 * n_added + 1024 { vec![0; size] } else { Vec::new() };
        Self { n_columns, dense, added: Vec::new() }
    }

    #[inline]
    fn add(&mut self, row: u32, column: u32, value: u64) {
        match self.dense.get_mut(row as usize * self.n_columns + column as usize) {
            Some(sum) => *sum += value,
            None => self.added.push((row, column, value)),
        }
    }

    /// Calls `call` with each row and its sums, or parts of them, by column.
    fn for_each_row(mut self, mut call: impl FnMut(u32, &[(u32, u64)])) {
        for (row, sums) in (0..).zip(self.dense.chunks(self.n_columns.max(1))) {
            call(row, &(0..).zip(sums.iter().copied()).collect::<Vec<_>>());
        }
        self.added.sort_unstable();
        for row in self.added.chunk_by(|a, b| a.0 == b.0) {
            call(row[0].0, &row.iter().map(|&(_, column, value)| (column, value)).collect::<Vec<_>>());
        }
    }
}

/// Servers by the time at which they are free. Equal ones have the same rank.
struct Ranks {
    rank: Vec<u32>,
    /// One server of each rank.
    servers: Vec<ServerId>,
}

impl Ranks {
    fn new(cluster: &Cluster) -> Self {
        let free = |s: &ServerId| {
            let server = cluster.server(*s);
            Level::new(server.busy().into(), server.speed.millionths())
        };
        let mut by_free: Vec<ServerId> = (0..cluster.servers().len() as u32).map(ServerId).collect();
        by_free.sort_by_cached_key(free);
        let mut ranks = Self { rank: vec![0; by_free.len()], servers: Vec::new() };
        for server in by_free {
            if ranks.servers.last().is_none_or(|last| free(last) < free(&server)) {
                ranks.servers.push(server);
            }
            ranks.rank[server.index()] = ranks.servers.len() as u32 - 1;
        }
        ranks
    }
}
