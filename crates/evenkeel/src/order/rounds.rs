//! How the rounds of policies that proceed in rounds become a schedule.
//!
//! Where every transfer is one block and takes one slot, a round is a slot (papers 000 and 001 know nothing else).
//! Otherwise, and to measure how much of the rounds is waiting, clients and servers work through their lists of
//! transfers in the order of the rounds, each transfer as soon as both ends are free.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::iter::repeat_n;

use crate::model::{
    Batch, ClientId, Cluster, Fixed, Grant, Part, Ratio, Schedule, ServerId, Speed, Transfer,
};

/// Rounds as a schedule.
#[derive(Clone, Debug, Default)]
pub struct Rounds {
    /// The schedule: rounds as slots where possible, else the lists without needless waiting.
    pub schedule: Schedule,
    /// The number of rounds.
    pub n_rounds: u32,
    /// The makespan if both ends work through their lists as soon as they are free.
    pub compacted: Ratio,
}

impl Rounds {
    /// Builds the schedule of grants that are sorted by ascending round.
    pub fn new(batch: &Batch, cluster: &Cluster, grants: &[Grant]) -> Self {
        let n_rounds = grants.last().map_or(0, |grant| grant.round + 1);
        let mut schedule = compacted(batch, cluster, grants);
        let compacted = schedule.length;
        if are_slots(batch, cluster, grants) {
            let slots = grants.iter().map(|Grant { round, part }| Transfer {
                request: part.request,
                server: part.server,
                start: u64::from(*round).into(),
                blocks: part.blocks.into(),
            });
            schedule = Schedule { transfers: slots.collect(), length: u64::from(n_rounds).into() };
        }
        schedule.transfers.sort_unstable_by_key(|t| (t.request, t.start, t.server));
        Self { schedule, n_rounds, compacted }
    }
}

/// Whether each round fits in a slot: single blocks at speed 1, and no node exceeds its slots.
fn are_slots(batch: &Batch, cluster: &Cluster, grants: &[Grant]) -> bool {
    let plain = cluster.common_speed() == Some(Speed::ONE)
        && !cluster.has_backlogs()
        && grants.iter().all(|grant| grant.part.blocks == 1);
    let (mut of_client, mut of_server) = (vec![0; batch.n_clients()], vec![0; batch.n_servers()]);
    plain
        && grants.chunk_by(|a, b| a.round == b.round).all(|round| {
            let ends = |grant: &Grant| (batch.client(grant.part.request as usize), grant.part.server);
            let fits = round.iter().map(ends).fold(true, |fits, (client, server)| {
                of_client[client.index()] += 1;
                of_server[server.index()] += 1;
                let within = of_client[client.index()] <= cluster.client(client).slots
                    && of_server[server.index()] <= cluster.server(server).slots;
                fits && within
            });
            for (client, server) in round.iter().map(ends) {
                (of_client[client.index()], of_server[server.index()]) = (0, 0);
            }
            fits && cluster.max_concurrent().is_none_or(|most| round.len() as u64 <= most)
        })
}

/// Both ends of each transfer work through their lists: it starts as soon as both are free.
fn compacted(batch: &Batch, cluster: &Cluster, grants: &[Grant]) -> Schedule {
    let clock = Clock::new(cluster);
    let mut n_parts = (vec![0; batch.n_clients()], vec![0; batch.n_servers()]);
    for Grant { part, .. } in grants {
        n_parts.0[batch.client(part.request as usize).index()] += 1;
        n_parts.1[part.server.index()] += 1;
    }
    // More lanes than transfers would stay unused.
    let of_client = |(id, &n): (u32, &u32)| (cluster.client(ClientId(id)).slots.min(n), 0);
    let of_server = |(id, &n): (u32, &u32)| {
        let server = cluster.server(ServerId(id));
        (server.slots.min(n), clock.duration(server.busy(), ServerId(id)))
    };
    let mut clients = Lanes::new((0..).zip(&n_parts.0).map(of_client));
    let mut servers = Lanes::new((0..).zip(&n_parts.1).map(of_server));
    let limit = cluster.max_concurrent().unwrap_or(u64::MAX).min(grants.len() as u64);
    let mut all = Lanes::new(cluster.max_concurrent().map(|_| (limit as u32, 0)).into_iter());
    let mut end = 0;
    let mut transfers = Vec::with_capacity(grants.len());
    for &Grant { part: Part { request, server, blocks }, .. } in grants {
        let client = batch.client(request as usize);
        let mut start = 0;
        if blocks > 0 {
            let ends = [clients.first_free(client.index()), servers.first_free(server.index())];
            start = ends[0].max(ends[1]);
            if cluster.max_concurrent().is_some() {
                start = start.max(all.first_free(0));
                all.occupy(0, start + clock.duration(blocks, server));
            }
            let until = start + clock.duration(blocks, server);
            clients.occupy(client.index(), until);
            servers.occupy(server.index(), until);
            end = end.max(until);
        }
        transfers.push(Transfer { request, server, start: clock.rounded(start), blocks: blocks.into() });
    }
    Schedule { transfers, length: clock.time(end) }
}

/// Time in whole units: blocks where all servers have the same speed, else billionths with durations rounded up.
struct Clock<'a> {
    cluster: &'a Cluster,
    speed: Option<Speed>,
}

impl<'a> Clock<'a> {
    fn new(cluster: &'a Cluster) -> Self {
        Self { cluster, speed: cluster.common_speed() }
    }

    fn duration(&self, blocks: u64, server: ServerId) -> u128 {
        if self.speed.is_some() {
            return blocks.into();
        }
        let speed = self.cluster.server(server).speed.millionths();
        (u128::from(blocks) * 1_000_000_000_000_000).div_ceil(speed.into())
    }

    fn time(&self, units: u128) -> Ratio {
        match self.speed {
            Some(speed) => Ratio::new(units * 1_000_000, speed.millionths()),
            None => Ratio::new(units, 1_000_000_000),
        }
    }

    fn rounded(&self, units: u128) -> Fixed {
        self.time(units).rounded()
    }
}

/// When each slot of each node is free: one heap per node, with the first free slot on top.
struct Lanes(Vec<BinaryHeap<Reverse<u128>>>);

impl Lanes {
    /// Builds the lanes from the number of slots of each node and the time when they are all free.
    fn new(nodes: impl Iterator<Item = (u32, u128)>) -> Self {
        Self(nodes.map(|(slots, free)| repeat_n(Reverse(free), slots as usize).collect()).collect())
    }

    fn first_free(&self, node: usize) -> u128 {
        self.0[node].peek().map_or(0, |first| first.0)
    }

    /// Keeps the slot that is free first busy until `until`.
    fn occupy(&mut self, node: usize, until: u128) {
        if let Some(mut first) = self.0[node].peek_mut() {
            first.0 = until;
        }
    }
}
