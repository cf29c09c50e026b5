//! Small random batches, and their best answers found by trying everything.
//!
//! The answers are the oracle of the other tests, so nothing here is shared with the solvers.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel::bound::Bound;
use evenkeel::check::{self, Measures, Subject};
use evenkeel::model::{
    Batch, BatchBuilder, Choice, Client, Cluster, Fixed, ModelError, NameTable, Part, Ratio, Schedule,
    Server, ServerId, Speed, Transfer,
};
use evenkeel::order::colour::order;
use evenkeel::select::{Goal, optimal};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

use crate::exact::Exact;

const MOST_SERVERS: usize = 5;
const MOST_CLIENTS: usize = 4;
const MOST_REQUESTS: usize = 7;
const MOST_BLOCKS: u64 = 5;

/// A batch as the tests see it.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) n_clients: usize,
    pub(crate) n_servers: usize,
    pub(crate) requests: Vec<Request>,
}

#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) client: usize,
    pub(crate) blocks: u64,
    pub(crate) replicas: Vec<usize>,
}

/// Random cases, half of them with one block a request.
pub(crate) fn cases() -> impl Strategy<Value = Case> {
    (1..=MOST_CLIENTS, 1..=MOST_SERVERS, any::<bool>()).prop_flat_map(|(n_clients, n_servers, is_unit)| {
        let blocks = if is_unit { 1..=1 } else { 0..=MOST_BLOCKS };
        let servers: Vec<usize> = (0..n_servers).collect();
        let replicas = subsequence(servers, 1..=n_servers).prop_shuffle();
        let request = (0..n_clients, blocks, replicas).prop_map(|(client, blocks, replicas)| Request {
            client,
            blocks,
            replicas,
        });
        vec(request, 0..=MOST_REQUESTS).prop_map(move |requests| Case { n_clients, n_servers, requests })
    })
}

/// Speeds in millionths that people would give.
pub(crate) const TAME: [u64; 10] =
    [1_000_000, 2_000_000, 3_000_000, 5_000_000, 500_000, 333_333, 2_500_000, 1_250_000, 10_000_000, 100_000];
/// And such as have no short common measure with others, or lie at the ends of what is allowed.
const WILD: [u64; 6] = [1_000_000, 333_333, 3_000_000, 999_983, 1, 1_000_000_000_000_000_000];

/// Which speeds servers have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Speeds {
    /// All 1.
    One,
    /// All the same.
    Same,
    /// Each one of [`TAME`].
    Tame,
    /// Each one of [`WILD`].
    Wild,
}

/// In what a random cluster may differ from one of equal servers with one slot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    pub(crate) speeds: Speeds,
    pub(crate) slots: bool,
    pub(crate) backlogs: bool,
    pub(crate) limit: bool,
}

/// All kinds that a cluster may have with one of these speeds. A limit goes only with one speed and no backlogs.
pub(crate) fn kinds(speeds: &'static [Speeds]) -> impl Strategy<Value = Kind> {
    (select(speeds), any::<bool>(), any::<bool>(), any::<bool>()).prop_map(
        |(speeds, slots, backlogs, limit)| {
            let has_one_speed = matches!(speeds, Speeds::One | Speeds::Same);
            Kind { speeds, slots, backlogs, limit: limit && has_one_speed && !backlogs }
        },
    )
}

/// A case with servers and clients that may differ.
#[derive(Clone, Debug)]
pub(crate) struct Scene {
    pub(crate) case: Case,
    pub(crate) servers: Vec<Server>,
    pub(crate) clients: Vec<Client>,
    pub(crate) limit: Option<u64>,
}

/// Random cases with random clusters of these kinds.
pub(crate) fn scenes(kinds: impl Strategy<Value = Kind>) -> impl Strategy<Value = Scene> {
    let server = || (0..30_usize, 1..=3_u32, 0..=6_u64);
    let limit = 1..=4_u64;
    (cases(), kinds, vec(server(), MOST_SERVERS), vec(1..=3_u32, MOST_CLIENTS), limit).prop_map(
        |(case, kind, servers, client_slots, limit)| {
            let first = servers[0].0;
            let millionths = |drawn: usize| match kind.speeds {
                Speeds::One => 1_000_000,
                Speeds::Same => *TAME.iter().chain(&WILD).cycle().nth(first).expect("a speed"),
                Speeds::Tame => TAME[drawn % TAME.len()],
                Speeds::Wild => WILD[drawn % WILD.len()],
            };
            let server = |&(speed, slots, backlog): &(usize, u32, u64)| Server {
                speed: Speed::from_millionths(millionths(speed)).expect("a valid speed"),
                slots: if kind.slots { slots } else { 1 },
                backlog: if kind.backlogs { backlog } else { 0 },
            };
            let client = |&slots: &u32| Client { slots: if kind.slots { slots } else { 1 } };
            Scene {
                servers: servers[..case.n_servers].iter().map(server).collect(),
                clients: client_slots[..case.n_clients].iter().map(client).collect(),
                limit: kind.limit.then_some(limit),
                case,
            }
        },
    )
}

/// How a server gets done with blocks: so many with each step, the first ones after `busy` steps and so many more.
struct Steps {
    speed: u128,
    blocks: u128,
    busy: u128,
    first: u128,
}

impl Scene {
    /// The batch and its cluster, or why there is none.
    pub(crate) fn try_build(&self) -> Result<(Batch, Cluster), ModelError> {
        let batch = self.case.batch();
        let cluster = Cluster::new(&batch, self.servers.clone(), self.clients.clone(), self.limit)?;
        Ok((batch, cluster))
    }

    /// The batch and its cluster.
    pub(crate) fn build(&self) -> (Batch, Cluster) {
        self.try_build().expect("a valid cluster")
    }

    /// Blocks of the backlog in each slot of a server.
    fn busy(&self, server: usize) -> u64 {
        let Server { slots, backlog, .. } = self.servers[server];
        backlog / u64::from(slots) + u64::from(backlog % u64::from(slots) > 0)
    }

    /// When a server has done its backlog.
    pub(crate) fn free(&self, server: usize) -> Exact {
        Exact::time(self.busy(server), self.servers[server].speed)
    }

    /// The speed of all servers, if it is the same.
    pub(crate) fn one_speed(&self) -> Option<Speed> {
        let first = self.servers[0].speed;
        self.servers.iter().all(|s| s.speed == first).then_some(first)
    }

    /// Whether all speeds are 1, so that blocks take whole slots.
    pub(crate) fn is_slotted(&self) -> bool {
        self.one_speed() == Some(Speed::ONE)
    }

    /// Whether anybody has several slots.
    pub(crate) fn has_slots(&self) -> bool {
        self.servers.iter().any(|s| s.slots > 1) || self.clients.iter().any(|c| c.slots > 1)
    }

    /// When the last of so many blocks is done if each slot serves one after the other.
    fn block_done(&self, server: usize, block: u64) -> Exact {
        let Server { slots, speed, .. } = self.servers[server];
        Exact::time(self.busy(server) + block.div_ceil(slots.into()), speed)
    }

    /// How long a server takes for so many blocks at best, where blocks need not take whole slots.
    fn takes(&self, server: usize, blocks: u64) -> Exact {
        let Server { slots, speed, .. } = self.servers[server];
        match blocks {
            0 => Exact::ZERO,
            _ if self.is_slotted() => Exact::time(blocks.div_ceil(slots.into()), speed),
            _ => (Exact::time(blocks, speed) / slots).max(Exact::time(1, speed)),
        }
    }

    /// When a server is done with so many blocks at best.
    fn done(&self, server: usize, blocks: u64) -> Exact {
        self.free(server) + self.takes(server, blocks)
    }

    /// When the last server that serves anything is done.
    pub(crate) fn last_done(&self, loads: &[u64]) -> Exact {
        let serving = loads.iter().enumerate().filter(|&(_, &load)| load > 0);
        serving.map(|(server, &load)| self.done(server, load)).max().unwrap_or(Exact::ZERO)
    }

    /// The sum of the times at which blocks are done.
    pub(crate) fn sum_of_completions(&self, loads: &[u64]) -> Exact {
        let of_server = |(server, &load): (usize, &u64)| -> Exact {
            (1..=load).map(|block| self.block_done(server, block)).sum()
        };
        loads.iter().enumerate().map(of_server).sum()
    }

    /// The first time at which these servers can have served all requests that have no replica elsewhere.
    pub(crate) fn forced_on(&self, set: &[usize]) -> Exact {
        let blocks = self.case.blocks_within(set);
        if blocks == 0 {
            return Exact::ZERO;
        }
        let served_by = |steps: u64, speed: u128| -> u128 {
            let of_server = |&server: &usize| {
                let own = self.steps(server);
                let done = (u128::from(steps) * own.speed / speed).saturating_sub(own.busy);
                if done < own.first { 0 } else { done.saturating_mul(own.blocks) }
            };
            set.iter().map(of_server).fold(0, u128::saturating_add)
        };
        // A time at which one of them ends a block: for each the first at which enough is served.
        let first_enough = |&server: &usize| {
            let own = self.steps(server);
            let last = own.busy + u128::from(blocks).div_ceil(own.blocks).max(own.first);
            let (mut low, mut high) = (0, u64::try_from(last).expect("a number of blocks"));
            while low + 1 < high {
                let middle = low + (high - low) / 2;
                let is_enough = served_by(middle, own.speed) >= blocks.into();
                (low, high) = if is_enough { (low, middle) } else { (middle, high) };
            }
            Exact::new(u128::from(high) * 1_000_000, own.speed)
        };
        set.iter().map(first_enough).min().expect("some server holds the blocks")
    }

    /// The steps in which a server can be done with blocks: a slot's, or where slots share blocks those of all together.
    fn steps(&self, server: usize) -> Steps {
        let Server { slots, speed, .. } = self.servers[server];
        let (slots, speed, busy) = (slots.into(), speed.millionths().into(), self.busy(server).into());
        match self.is_slotted() {
            true => Steps { speed, blocks: slots, busy, first: 1 },
            false => Steps { speed: speed * slots, blocks: 1, busy: busy * slots, first: slots },
        }
    }

    /// The last of these times over all sets of servers: by Hall's theorem the least that a choice can reach.
    pub(crate) fn hall_bound(&self) -> Exact {
        self.case.server_sets().map(|set| self.forced_on(&set)).max().unwrap_or(Exact::ZERO)
    }

    /// How long a client takes for its requests that cannot start before `wait`, from then on and from the fastest
    /// replicas; `None` if there is nothing of that kind.
    pub(crate) fn client_bound(&self, client: usize, wait: Exact) -> Option<Exact> {
        let slots = self.clients[client].slots;
        let has_to_wait =
            |r: &&Request| r.client == client && r.replicas.iter().all(|&s| self.free(s) >= wait);
        let requests = || self.case.requests.iter().filter(has_to_wait);
        let blocks: u64 = requests().map(|r| r.blocks).sum();
        let fastest =
            |r: &Request| r.replicas.iter().map(|&s| self.servers[s].speed).max().expect("a replica");
        let takes = match self.is_slotted() {
            true => blocks.div_ceil(slots.into()).into(),
            false => requests().map(|r| Exact::time(r.blocks, fastest(r))).sum::<Exact>() / slots,
        };
        (blocks > 0).then(|| wait + takes)
    }

    /// What the limit on concurrent transfers alone makes necessary.
    pub(crate) fn limit_bound(&self) -> Option<Exact> {
        let (total, limit) = (self.case.total_blocks(), self.limit?);
        let speed = self.one_speed()?;
        let time = Exact::time(total, speed) / u32::try_from(limit).expect("a small limit");
        Some(if self.is_slotted() { total.div_ceil(limit).into() } else { time })
    }

    /// The bound on the length of any schedule.
    pub(crate) fn length_bound(&self) -> Exact {
        let waits: Vec<Exact> = (0..self.case.n_servers).map(|s| self.free(s)).chain([Exact::ZERO]).collect();
        let clients = (0..self.case.n_clients)
            .flat_map(|client| waits.iter().filter_map(move |&wait| self.client_bound(client, wait)));
        clients.chain(self.limit_bound()).fold(self.hall_bound(), Exact::max)
    }

    /// The length that an order of `choice` keeps to: for no client and server that meet more than the wait for the
    /// server and then the longer of what its lanes and what the client's slots have to do.
    pub(crate) fn guarantee(&self, batch: &Batch, choice: &Choice) -> Exact {
        let loads = choice.loads(batch);
        let mut works = vec![(0, Exact::ZERO); self.clients.len()];
        for part in choice.parts(batch) {
            let (blocks, time) = &mut works[batch.client(part.request as usize).index()];
            *blocks += part.blocks;
            *time = *time + Exact::time(part.blocks, self.servers[part.server.index()].speed);
        }
        let of_client = |client: usize| {
            let (blocks, time) = works[client];
            let slots = self.clients[client].slots;
            if self.is_slotted() { blocks.div_ceil(slots.into()).into() } else { time / slots }
        };
        let pair = |part: Part| {
            let (client, server) = (batch.client(part.request as usize).index(), part.server.index());
            self.free(server) + self.takes(server, loads[server]).max(of_client(client))
        };
        let parts = || choice.parts(batch).filter(|part| part.blocks > 0);
        let pairs = parts().map(pair).chain(self.limit_bound()).max().unwrap_or(Exact::ZERO);
        let has_slots = self.servers.iter().any(|s| s.slots > 1) && self.clients.iter().any(|c| c.slots > 1);
        if self.is_slotted() || !has_slots {
            return pairs;
        }
        // Where blocks go from slot to slot at both ends, all may have to wait for the last server.
        let waits = parts().map(|part| self.free(part.server.index())).max().unwrap_or(Exact::ZERO);
        let clients = (0..self.clients.len()).map(of_client);
        let fullest = (0..self.servers.len()).map(|s| self.takes(s, loads[s])).chain(clients).max();
        pairs.max(waits + fullest.unwrap_or(Exact::ZERO))
    }
}

/// How thoroughly the properties are tried. A failure is printed as the smallest case that shows it.
pub(crate) fn config(cases: u32) -> ProptestConfig {
    // A campaign asks for more.
    let times = std::env::var("EVENKEEL_TIMES").ok().and_then(|times| times.parse().ok()).unwrap_or(1);
    ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases.saturating_mul(times)) }
}

impl Case {
    /// The batch, with ids as in the case, clients and servers without requests included.
    pub(crate) fn batch(&self) -> Batch {
        let names =
            |prefix: char, n: usize| -> Vec<String> { (0..n).map(|i| format!("{prefix}{i}")).collect() };
        let table = |names: &[String]| {
            let mut table = NameTable::new();
            names.iter().for_each(|name| _ = table.intern(name));
            table
        };
        let (clients, servers) = (names('c', self.n_clients), names('s', self.n_servers));
        let mut batch = BatchBuilder::new();
        batch.declare_clients(table(&clients)).expect("no requests yet");
        batch.declare_servers(table(&servers)).expect("no requests yet");
        for Request { client, blocks, replicas } in &self.requests {
            let replicas: Vec<&str> = replicas.iter().map(|&s| servers[s].as_str()).collect();
            batch.request(&clients[*client], *blocks, &replicas).expect("a valid request");
        }
        batch.finish()
    }

    pub(crate) fn total_blocks(&self) -> u64 {
        self.requests.iter().map(|r| r.blocks).sum()
    }

    /// The blocks that `client` asks for.
    pub(crate) fn wanted_by(&self, client: usize) -> u64 {
        self.requests.iter().filter(|r| r.client == client).map(|r| r.blocks).sum()
    }

    pub(crate) fn busiest_client(&self) -> u64 {
        (0..self.n_clients).map(|client| self.wanted_by(client)).max().unwrap_or(0)
    }

    /// The blocks of requests that have no replica outside of these servers.
    pub(crate) fn blocks_within(&self, servers: &[usize]) -> u64 {
        let is_within = |r: &&Request| r.replicas.iter().all(|s| servers.contains(s));
        self.requests.iter().filter(is_within).map(|r| r.blocks).sum()
    }

    /// The load that one of these servers must have, since some requests have no replica elsewhere.
    pub(crate) fn forced_on(&self, servers: &[usize]) -> u64 {
        self.blocks_within(servers).div_ceil(servers.len().max(1) as u64)
    }

    /// All sets of servers.
    pub(crate) fn server_sets(&self) -> impl Iterator<Item = Vec<usize>> + use<> {
        let n_servers = self.n_servers;
        (0..1_u32 << n_servers).map(move |bits| (0..n_servers).filter(|s| bits >> s & 1 == 1).collect())
    }

    /// The largest load that any set of servers forces: by Hall's theorem the least maximum load.
    pub(crate) fn hall_bound(&self) -> u64 {
        self.server_sets().map(|servers| self.forced_on(&servers)).max().unwrap_or(0)
    }

    /// The loads of the servers under every choice there is, each vector once.
    pub(crate) fn all_loads(&self) -> Vec<Vec<u64>> {
        let mut all = vec![[0_u8; MOST_SERVERS]];
        for request in &self.requests {
            for _ in 0..request.blocks {
                let one_more = |loads: &[u8; MOST_SERVERS], server: usize| {
                    let mut loads = *loads;
                    loads[server] += 1;
                    loads
                };
                all = all
                    .iter()
                    .flat_map(|loads| request.replicas.iter().map(|&server| one_more(loads, server)))
                    .collect();
                all.sort_unstable();
                all.dedup();
            }
        }
        all.iter().map(|loads| loads[..self.n_servers].iter().map(|&load| load.into()).collect()).collect()
    }

    /// The fewest slots of one block in which all blocks can be transferred, whatever is chosen, by trying all there
    /// is to do in each slot. All servers have the same speed.
    pub(crate) fn shortest_schedule(&self, cluster: &Cluster) -> u64 {
        let mut left = BTreeSet::from([self.requests.iter().map(|r| r.blocks).collect::<Vec<u64>>()]);
        let mut n_slots = 0;
        while !left.iter().any(|left| left.iter().all(|&blocks| blocks == 0)) {
            let is_free = |s: &Server| s.backlog.div_ceil(s.slots.into()) <= n_slots;
            let free = |s: &Server| if is_free(s) { s.slots } else { 0 };
            let slot = Slot {
                servers: cluster.servers().iter().map(free).collect(),
                clients: cluster.clients().iter().map(|c| c.slots).collect(),
                all: cluster.max_concurrent().unwrap_or(u64::MAX),
            };
            let mut after = BTreeSet::new();
            for left in left {
                self.try_slot((0, 0), &mut slot.clone(), &mut left.clone(), &mut after);
            }
            left = after;
            n_slots += 1;
        }
        n_slots
    }

    /// Adds to `after` what can be left after a slot, in which the pairs of request and replica before `next` have
    /// their transfers and the others may take the room that is left.
    fn try_slot(
        &self,
        next: (usize, usize),
        room: &mut Slot,
        left: &mut Vec<u64>,
        after: &mut BTreeSet<Vec<u64>>,
    ) {
        let (i, k) = next;
        let Some(request) = self.requests.get(i) else {
            after.insert(left.clone());
            return;
        };
        let Some(&server) = request.replicas.get(k) else {
            return self.try_slot((i + 1, 0), room, left, after);
        };
        self.try_slot((i, k + 1), room, left, after);
        if left[i] > 0 && room.take(request.client, server) {
            left[i] -= 1;
            self.try_slot(next, room, left, after);
            left[i] += 1;
            room.give_back(request.client, server);
        }
    }
}

/// How many more transfers fit into a slot.
#[derive(Clone, Debug)]
struct Slot {
    servers: Vec<u32>,
    clients: Vec<u32>,
    all: u64,
}

impl Slot {
    /// Takes the room of a transfer, if there is any.
    fn take(&mut self, client: usize, server: usize) -> bool {
        let fits = self.clients[client] > 0 && self.servers[server] > 0 && self.all > 0;
        if fits {
            self.clients[client] -= 1;
            self.servers[server] -= 1;
            self.all -= 1;
        }
        fits
    }

    fn give_back(&mut self, client: usize, server: usize) {
        self.clients[client] += 1;
        self.servers[server] += 1;
        self.all += 1;
    }
}

/// The choice as rows of a plan without order.
pub(crate) fn unordered(batch: &Batch, choice: &Choice) -> Vec<Transfer> {
    let parts = choice.parts(batch);
    parts
        .map(|p| Transfer {
            request: p.request,
            server: p.server,
            start: Fixed::ZERO,
            blocks: p.blocks.into(),
        })
        .collect()
}

/// How long the busiest client or server is busy: no order of `choice` is shorter.
pub(crate) fn busiest(batch: &Batch, choice: &Choice) -> u64 {
    let mut ends = vec![0; batch.n_clients()];
    (0..batch.n_requests()).for_each(|i| ends[batch.client(i).index()] += batch.blocks(i));
    ends.extend(choice.loads(batch));
    ends.into_iter().max().unwrap_or(0)
}

/// The number, which is whole.
pub(crate) fn whole(number: Ratio) -> u64 {
    assert_eq!(number.denominator(), 1, "{number}");
    u64::try_from(number.numerator()).expect("a number of blocks")
}

/// How much each server moves of each request, in billionths of a block.
pub(crate) fn moved(rows: &[Transfer]) -> BTreeMap<(u32, ServerId), u128> {
    let mut moved = BTreeMap::new();
    rows.iter().for_each(|t| *moved.entry((t.request, t.server)).or_insert(0) += t.blocks.nanos());
    moved
}

/// A batch of requests: client, blocks, replicas.
pub(crate) fn batch(requests: &[(&str, u64, &[&str])]) -> Batch {
    let mut batch = BatchBuilder::new();
    for (client, blocks, replicas) in requests {
        batch.request(client, *blocks, replicas).expect("a valid request");
    }
    batch.finish()
}

/// A plan for the least length, as it was found and as it was checked.
pub(crate) struct Planned {
    pub(crate) choice: Choice,
    pub(crate) bound: Bound,
    pub(crate) schedule: Schedule,
    pub(crate) measures: Measures,
}

/// Selects and orders for the least length; asserts that plan and proof pass the checks.
pub(crate) fn planned(batch: &Batch, cluster: &Cluster) -> Planned {
    let (choice, bound) = optimal::select(batch, cluster, Goal::Length);
    let schedule = order(batch, cluster, &choice);
    let measures = check::plan(batch, cluster, &schedule.transfers, true).unwrap_or_else(|f| panic!("{f}"));
    check::bound(batch, cluster, &bound, Subject::Length).unwrap_or_else(|fault| panic!("{fault}"));
    assert_eq!(moved(&schedule.transfers), moved(&unordered(batch, &choice)));
    assert!(schedule.length >= bound.value, "{} is shorter than {}", schedule.length, bound.value);
    Planned { choice, bound, schedule, measures }
}

/// By Harvey et al. a choice is optimal in all norms if no path leads from a server's last block to where it would be
/// done earlier.
pub(crate) fn find_cost_reducing_path(
    batch: &Batch,
    cluster: &Cluster,
    choice: &Choice,
) -> Option<(usize, usize)> {
    let loads = choice.loads(batch);
    let done = |server: usize, load: u64| {
        let Server { speed, slots, backlog } = cluster.servers()[server];
        Exact::time(backlog.div_ceil(slots.into()) + load.div_ceil(slots.into()), speed)
    };
    let last: Vec<Exact> = (0..).zip(&loads).map(|(s, &load)| done(s, load)).collect();
    let next: Vec<Exact> = (0..).zip(&loads).map(|(s, &load)| done(s, load + 1)).collect();
    let mut is_arc = vec![vec![false; loads.len()]; loads.len()];
    for part in choice.parts(batch).filter(|part| part.blocks > 0) {
        let set = batch.replicas().of(part.request as usize);
        set.iter().for_each(|to| is_arc[part.server.index()][to.index()] = true);
    }
    (0..loads.len()).filter(|&source| loads[source] > 0).find_map(|source| {
        let mut is_seen = vec![false; loads.len()];
        let mut stack = vec![source];
        while let Some(server) = stack.pop() {
            if next[server] < last[source] {
                return Some((source, server));
            }
            for to in (0..loads.len()).filter(|&to| is_arc[server][to]) {
                if !std::mem::replace(&mut is_seen[to], true) {
                    stack.push(to);
                }
            }
        }
        None
    })
}
