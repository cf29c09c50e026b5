//! Why a plan is not faster, and what would help: computed, not guessed.
//!
//! *One more copy.* At a level below the bound some blocks cannot be served: the deficit of the flow. Exactly that many
//! blocks need a copy elsewhere, and no fewer will do, since each copy lets one more block through. They are taken from
//! the servers that are left with too much, and given to those that have room.
//!
//! *A faster server.* Each bound comes with its proof, and a proof limits what a faster server outside of it can
//! change. The most promising server is tried; the bottleneck that remains yields one more proof; and so on until no
//! server is more promising than the best one tried.

mod change;
mod clients;

use std::cmp::Reverse;

use crate::bound::{Bound, Proof, beside_servers};
use crate::graph::flow::level::{Aim, level};
use crate::graph::flow::pace::{Level, Paces, time};
use crate::model::{Batch, ClientId, Cluster, ExtraCopy, ModelError, Part, Server, ServerId, Speed};
use crate::select::{Goal, optimal};

pub use change::Change;
pub use clients::{ClientAdvice, Help, advise_clients, advise_slots};

/// By how many per cent the bound is to fall.
pub const PERCENTS: [u64; 3] = [1, 5, 10];

/// The most faster servers that are tried; few are enough.
const MOST_TRIED: usize = 64;

/// What the bottleneck of a batch is, and what would help.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// What no plan beats, and why.
    pub bound: Bound,
    /// The fewest copies that lower the bound by each of [`PERCENTS`].
    pub copies: Vec<CopyAdvice>,
    /// The server that helps most if it is twice as fast. `None` if no single server helps, or under a limit on
    /// concurrency, which requires one common speed.
    pub faster: Option<SpeedAdvice>,
    /// How far one more copy of everything would relieve the servers, and how few of these copies matter.
    pub everything: CopyAdvice,
    /// What else would help if the bottleneck is a client.
    pub clients: Vec<ClientAdvice>,
}

/// How far copies lower the bound.
#[derive(Clone, Debug)]
pub struct CopyAdvice {
    /// Whether they lower it as far as requested.
    pub is_reached: bool,
    /// The fewest copies that reach the target; empty if it is not reached.
    pub copies: Vec<ExtraCopy>,
    /// The bound with these copies. If the target is not reached, the bound that copies cannot change.
    pub bound: Bound,
}

impl CopyAdvice {
    /// How many blocks need one more copy.
    pub fn blocks(&self) -> u64 {
        self.copies.iter().map(|copy| copy.blocks).sum()
    }
}

/// What a faster server would change.
#[derive(Clone, Debug)]
pub struct SpeedAdvice {
    /// The server.
    pub server: ServerId,
    /// Twice its speed.
    pub speed: Speed,
    /// The bound with that speed.
    pub bound: Bound,
}

/// Explains the bound on the length ([`Goal::Length`]), or on the time at which the last server is done.
pub fn explain(batch: &Batch, cluster: &Cluster, goal: Goal) -> Explanation {
    let paces = Paces::new(cluster);
    let (top, proof) = optimal::bound_level(batch, cluster, goal);
    let problem = Problem { batch, cluster, goal, paces, top };
    let (floor, limit) = floor(batch, cluster, &problem.paces, goal);
    let copies = PERCENTS
        .iter()
        .map(|percent| match lower(top, *percent) {
            aim if aim >= floor => problem.advise_copies(aim),
            _ => CopyAdvice {
                is_reached: false,
                copies: Vec::new(),
                bound: Bound { value: time(floor), proof: limit.clone() },
            },
        })
        .collect();
    let everything = problem.advise_copies(floor);
    let faster = problem.advise_speed(&proof);
    let bound = Bound { value: time(top), proof };
    let clients = if goal == Goal::Length { advise_clients(batch, cluster, &bound) } else { Vec::new() };
    Explanation { bound, copies, faster, everything, clients }
}

/// What copies do not change: what all servers together need, or a client needs. (In a cluster that is not uniform a
/// copy may help a client by being faster or earlier; that is not considered.)
fn floor(batch: &Batch, cluster: &Cluster, paces: &Paces, goal: Goal) -> (Level, Proof) {
    let all: Vec<ServerId> = (0..batch.n_servers() as u32).map(ServerId).collect();
    let together = paces.level_for(&all, None, batch.total_blocks().into());
    let beside = if goal == Goal::Length { beside_servers(batch, cluster) } else { None };
    match beside {
        Some((level, proof)) if level > together => (level, proof),
        _ => (together, Proof::Servers(all)),
    }
}

/// Lowers a level by `percent`, rounding down if necessary.
fn lower(level: Level, percent: u64) -> Level {
    let rest = u128::from(100 - percent);
    match level.denominator().checked_mul(100) {
        Some(denominator) => Level::new(level.numerator() * rest, denominator),
        None => Level::new(level.numerator() * rest / 100, level.denominator()),
    }
}

struct Problem<'a> {
    batch: &'a Batch,
    cluster: &'a Cluster,
    goal: Goal,
    paces: Paces,
    /// The current bound.
    top: Level,
}

impl Problem<'_> {
    /// The fewest copies with which everything can be served by `aim`, a level that all servers together can reach.
    fn advise_copies(&self, aim: Level) -> CopyAdvice {
        let placed = level(optimal::items(self.batch, &self.paces), Aim::Under(aim)).placed;
        let choice = optimal::to_choice(self.batch, placed);
        let (loads, caps) = (choice.loads(self.batch), self.paces.caps(aim));
        let above: Vec<u64> = loads.iter().zip(&caps).map(|(load, cap)| load.saturating_sub(*cap)).collect();
        let mut parts_at: Vec<Vec<Part>> = vec![Vec::new(); loads.len()];
        let is_above = |part: &Part| above[part.server.index()] > 0;
        choice.parts(self.batch).filter(is_above).for_each(|part| parts_at[part.server.index()].push(part));
        let rooms = loads.iter().zip(&caps).map(|(load, cap)| cap.saturating_sub(*load));
        // Fill the server with the most room first, then the next, so that there are few pairs.
        let mut rooms: Vec<(u64, ServerId)> =
            rooms.zip((0..).map(ServerId)).filter(|(room, _)| *room > 0).collect();
        rooms.sort_by_key(|&(room, server)| (room, Reverse(server)));
        let mut copies = Vec::new();
        for (parts, above) in parts_at.iter_mut().zip(above) {
            for part in fewest(parts, above) {
                let mut left = part.blocks;
                while left > 0
                    && let Some((room, to)) = rooms.last_mut()
                {
                    let blocks = left.min(*room);
                    copies.push(ExtraCopy { request: part.request, from: part.server, to: *to, blocks });
                    (left, *room) = (left - blocks, *room - blocks);
                    if *room == 0 {
                        rooms.pop();
                    }
                }
            }
        }
        let bound = self.bound_with(&copies, aim);
        CopyAdvice { is_reached: true, copies, bound }
    }

    /// The bound with copies that make `aim` possible.
    fn bound_with(&self, copies: &[ExtraCopy], aim: Level) -> Bound {
        let batch = self.batch.with_copies(copies);
        let (floor, proof) = floor(&batch, self.cluster, &self.paces, self.goal);
        if floor >= aim {
            // Only what copies do not change is left, so there is no need to search.
            return Bound { value: time(floor), proof };
        }
        optimal::bound(&batch, self.cluster, self.goal)
    }

    /// The server that helps most if it is twice as fast.
    fn advise_speed(&self, proof: &Proof) -> Option<SpeedAdvice> {
        // A limit on concurrency requires one common speed.
        if self.cluster.max_concurrent().is_some() {
            return None;
        }
        let mut promises = vec![0.0; self.batch.n_servers()];
        self.sharpen(&mut promises, self.top, proof);
        let mut best: Option<(Level, SpeedAdvice)> = None;
        for _ in 0..MOST_TRIED {
            let most = best.as_ref().map_or(self.top, |(level, _)| *level).to_f64();
            let promising = (0..).map(ServerId).zip(&promises).min_by(|a, b| a.1.total_cmp(b.1));
            let Some((server, _)) = promising.filter(|(_, promise)| **promise < most * (1.0 - 1e-12)) else {
                break;
            };
            let faster = self.twice_as_fast(server);
            let speed = faster.speed;
            promises[server.index()] = f64::INFINITY;
            let Ok(cluster) = self.with(server, faster) else { continue };
            let (level, proof) = optimal::bound_level(self.batch, &cluster, self.goal);
            self.sharpen(&mut promises, level, &proof);
            if best.as_ref().map_or(self.top, |(level, _)| *level) > level {
                best =
                    Some((level, SpeedAdvice { server, speed, bound: Bound { value: time(level), proof } }));
            }
        }
        best.map(|(_, advice)| advice)
    }

    /// The server at twice its speed or, if its rate is known, at twice its rate.
    fn twice_as_fast(&self, id: ServerId) -> Server {
        let server = self.cluster.server(id);
        let of_rate =
            |rate: u64| Speed::of_rate(rate.checked_mul(2)?, server.slots, self.batch.block_bytes()).ok();
        let doubled = Speed::from_millionths(2 * server.speed.millionths()).unwrap_or(Speed::MAX);
        let speed = self.cluster.rate(id).and_then(of_rate).unwrap_or(doubled);
        Server { speed, ..server.clone() }
    }

    /// The cluster with one server replaced.
    fn with(&self, id: ServerId, server: Server) -> Result<Cluster, ModelError> {
        let mut servers = self.cluster.servers().to_vec();
        servers[id.index()] = server;
        Cluster::new(self.batch, servers, self.cluster.clients().to_vec(), None)
    }

    /// Keeps, for each server, a level below which the bound does not fall if that server is twice as fast. Raises it
    /// by one more proof: that of `level`, with all servers as they are or with another one twice as fast.
    fn sharpen(&self, promises: &mut [f64], level: Level, proof: &Proof) {
        let raise = |promise: &mut f64, to: f64| *promise = promise.max(to);
        match proof {
            Proof::Servers(servers) => {
                let mut is_inside = vec![false; promises.len()];
                servers.iter().for_each(|s| is_inside[s.index()] = true);
                let inside = |set: &[ServerId]| set.iter().all(|s| is_inside[s.index()]);
                let forced = self.batch.replicas().iter().enumerate().filter(|(_, set)| inside(set));
                let forced: u128 = forced.map(|(i, _)| u128::from(self.batch.blocks(i))).sum();
                // Where speeds differ, slots share blocks, even if they do not yet.
                let shared = Paces::shared(self.cluster);
                let as_it_is = shared.level_for(servers, None, forced).to_f64();
                // Servers of the same kind have the same effect.
                let mut known: Option<(&Server, f64)> = None;
                let mut by_kind: Vec<ServerId> = (0..promises.len() as u32).map(ServerId).collect();
                let kind = |s: &ServerId| {
                    let server = self.cluster.server(*s);
                    (!is_inside[s.index()], server.speed, server.slots, server.backlog)
                };
                by_kind.sort_by_key(kind);
                for server in by_kind {
                    let node = self.cluster.server(server);
                    let promise = match known {
                        _ if !is_inside[server.index()] => as_it_is,
                        Some((of, promise)) if of == node => promise,
                        _ => {
                            let paces = shared.with_shared(server, &self.twice_as_fast(server));
                            paces.level_for(servers, None, forced).to_f64()
                        }
                    };
                    known = Some((node, promise));
                    raise(&mut promises[server.index()], promise);
                }
            }
            Proof::Client { client, .. } => {
                let (work, savings) = self.work_and_savings(*client);
                let slots = f64::from(self.cluster.client(*client).slots);
                // With two speeds nothing is rounded up to slots any more.
                let slot = if self.cluster.is_slotted() { 1.0 / Speed::ONE.millionths() as f64 } else { 0.0 };
                for (promise, saving) in promises.iter_mut().zip(savings) {
                    let promised = match saving {
                        Some(saving) => (work - saving) / slots,
                        None => level.to_f64() - slot,
                    };
                    // A little less, as floats are rounded.
                    raise(promise, promised * (1.0 - 1e-9));
                }
            }
            Proof::Concurrency => promises.iter_mut().for_each(|promise| raise(promise, level.to_f64())),
        }
    }

    /// How long a client takes with its fastest replicas, and how much of that it saves if a server is twice as fast.
    /// `None` if that server holds nothing for it.
    fn work_and_savings(&self, client: ClientId) -> (f64, Vec<Option<f64>>) {
        let mut savings = vec![None; self.batch.n_servers()];
        let mut work = 0.0;
        let speed = |s: &ServerId| self.cluster.server(*s).speed.millionths() as f64;
        for i in (0..self.batch.n_requests()).filter(|&i| self.batch.client(i) == client) {
            let (set, blocks) = (self.batch.replicas().of(i), self.batch.blocks(i) as f64);
            let fastest = set.iter().map(speed).fold(0.0, f64::max);
            work += blocks / fastest;
            for server in set {
                let saving = savings[server.index()].get_or_insert(0.0);
                *saving += blocks / fastest - blocks / fastest.max(2.0 * speed(server));
            }
        }
        (work, savings)
    }
}

/// The fewest parts that add up to `blocks`: the largest first, and of the last only what is needed.
fn fewest(parts: &mut [Part], mut blocks: u64) -> Vec<Part> {
    parts.sort_unstable_by_key(|part| (Reverse(part.blocks), part.request));
    let mut taken = Vec::new();
    for part in parts.iter() {
        if blocks == 0 {
            break;
        }
        let of_part = part.blocks.min(blocks);
        taken.push(Part { blocks: of_part, ..*part });
        blocks -= of_part;
    }
    taken
}
