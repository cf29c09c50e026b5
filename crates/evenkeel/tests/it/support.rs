//! Small random batches, and their best answers found by trying everything.
//!
//! The answers are the oracle of the other tests, so nothing here is shared with the solvers.

use std::collections::BTreeSet;

use evenkeel::model::{Batch, BatchBuilder, Choice, NameTable, Transfer};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::subsequence;

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

/// How thoroughly the properties are tried. A failure is printed as the smallest case that shows it.
pub(crate) fn config(cases: u32) -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases) }
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

    /// The load that one of these servers must have, since some requests have no replica elsewhere.
    pub(crate) fn forced_on(&self, servers: &[usize]) -> u64 {
        let is_forced = |r: &&Request| r.replicas.iter().all(|s| servers.contains(s));
        let blocks: u64 = self.requests.iter().filter(is_forced).map(|r| r.blocks).sum();
        blocks.div_ceil(servers.len().max(1) as u64)
    }

    /// The largest load that any set of servers forces: by Hall's theorem the least maximum load.
    pub(crate) fn hall_bound(&self) -> u64 {
        let sets = (0..1_u32 << self.n_servers)
            .map(|bits| (0..self.n_servers).filter(|s| bits >> s & 1 == 1).collect::<Vec<usize>>());
        sets.map(|servers| self.forced_on(&servers)).max().unwrap_or(0)
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

    /// The fewest slots in which all blocks can be transferred, whatever is chosen, by trying all there is to do
    /// in each slot.
    pub(crate) fn shortest_schedule(&self) -> u64 {
        let mut left = BTreeSet::from([self.requests.iter().map(|r| r.blocks).collect::<Vec<u64>>()]);
        let mut n_slots = 0;
        while !left.iter().any(|left| left.iter().all(|&blocks| blocks == 0)) {
            let mut after = BTreeSet::new();
            for left in left {
                self.try_slot(0, &mut vec![false; self.n_servers], &mut left.clone(), &mut after);
            }
            left = after;
            n_slots += 1;
        }
        n_slots
    }

    /// Adds to `after` what can be left after a slot in which the clients before `client` have their transfers.
    fn try_slot(
        &self,
        client: usize,
        is_busy: &mut Vec<bool>,
        left: &mut Vec<u64>,
        after: &mut BTreeSet<Vec<u64>>,
    ) {
        if client == self.n_clients {
            after.insert(left.clone());
            return;
        }
        self.try_slot(client + 1, is_busy, left, after);
        for (i, request) in self.requests.iter().enumerate().filter(|(_, r)| r.client == client) {
            for &server in &request.replicas {
                if left[i] > 0 && !is_busy[server] {
                    left[i] -= 1;
                    is_busy[server] = true;
                    self.try_slot(client + 1, is_busy, left, after);
                    is_busy[server] = false;
                    left[i] += 1;
                }
            }
        }
    }
}

/// The choice as rows of a plan without order.
pub(crate) fn unordered(batch: &Batch, choice: &Choice) -> Vec<Transfer> {
    let parts = choice.parts(batch);
    parts.map(|p| Transfer { request: p.request, server: p.server, start: 0, blocks: p.blocks }).collect()
}

/// How long the busiest client or server is busy: no order of `choice` is shorter.
pub(crate) fn busiest(batch: &Batch, choice: &Choice) -> u64 {
    let ends = batch.client_blocks().into_iter().chain(choice.loads(batch));
    ends.max().unwrap_or(0)
}
