//! The machine that bounds, plans and the checker speak of is the same: no plan that is accepted is shorter than what is
//! proved, by trying everything on a grid of time.
//!
//! Where speeds are not all 1, a transfer may be interrupted at any time and resumed in another slot, and a block is never
//! in two transfers at once.

use std::collections::BTreeMap;

use evenkeel::check::{self, Fault};
use evenkeel::model::{Batch, Client, Cluster, Fixed, Ratio, Server, ServerId, Speed, Transfer};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

use crate::exact::Exact;
use crate::support::{Case, Request, Scene, batch, config, planned};

/// Steps of the grid in the time of a block at speed 1.
const GRID: u64 = 12;
const UNIT: u64 = 1_000_000;

/// A few blocks on servers of speeds, slots and backlogs that the grid can tell.
fn scenes() -> impl Strategy<Value = Scene> {
    let request = (0..2_usize, 1..=2_u64, subsequence(vec![0, 1], 1..=2))
        .prop_map(|(client, blocks, replicas)| Request { client, blocks, replicas });
    let requests = vec(request, 1..=3)
        .prop_filter("few blocks", |requests| requests.iter().map(|r| r.blocks).sum::<u64>() <= 4);
    let speeds = select(vec![[2, 2], [1, 2], [2, 1], [2, 3]]);
    let slots = (1..=3_u32, 1..=3_u32, 1..=3_u32, 1..=3_u32);
    let backlogs = (0..=3_u64, 0..=3_u64, any::<bool>());
    let limit = (any::<bool>(), 1..=3_u64);
    (requests, speeds, slots, backlogs, limit).prop_map(|(requests, speeds, slots, backlogs, limit)| {
        let is_even = speeds[0] == speeds[1] && !backlogs.2;
        let server = |speed: u64, slots, backlog| Server {
            speed: Speed::from_millionths(speed * UNIT).expect("a valid speed"),
            slots,
            backlog: if backlogs.2 { backlog } else { 0 },
        };
        Scene {
            case: Case { n_clients: 2, n_servers: 2, requests },
            servers: vec![server(speeds[0], slots.0, backlogs.0), server(speeds[1], slots.1, backlogs.1)],
            clients: vec![Client { slots: slots.2 }, Client { slots: slots.3 }],
            limit: (limit.0 && is_even).then_some(limit.1),
        }
    })
}

/// What may be left of each block, by what was left a step before and which blocks were under way then.
type Reached = BTreeMap<Vec<u64>, (Vec<u64>, u32)>;

/// A block of a request that a server serves.
#[derive(Clone, Copy)]
struct Block {
    request: usize,
    client: usize,
    server: usize,
}

/// The blocks of a scene under every choice there is.
fn choices(scene: &Scene) -> Vec<Vec<Block>> {
    let mut all = vec![Vec::new()];
    for (request, Request { client, blocks, replicas }) in scene.case.requests.iter().enumerate() {
        for _ in 0..*blocks {
            all = all
                .iter()
                .flat_map(|chosen: &Vec<Block>| {
                    replicas.iter().map(move |&server| {
                        [&chosen[..], &[Block { request, client: *client, server }]].concat()
                    })
                })
                .collect();
        }
    }
    all
}

impl Scene {
    /// Steps that a block takes at a server.
    fn steps_of_block(&self, server: usize) -> u64 {
        GRID * UNIT / self.servers[server].speed.millionths()
    }

    /// The sets of unfinished blocks that may be under way in a step, as bits; only those to which nothing can be added.
    fn largest_sets(&self, blocks: &[Block], left: &[u64], step: u64) -> Vec<u32> {
        let is_free = |server: usize| self.free(server) <= Exact::new(step.into(), GRID.into());
        let fits = |set: u32| {
            let (mut clients, mut servers) = ([0; 2], [0; 2]);
            for (k, block) in blocks.iter().enumerate().filter(|(k, _)| set >> k & 1 == 1) {
                if left[k] == 0 || !is_free(block.server) {
                    return false;
                }
                clients[block.client] += 1;
                servers[block.server] += 1;
            }
            (0..2).all(|i| clients[i] <= self.clients[i].slots && servers[i] <= self.servers[i].slots)
                && self.limit.is_none_or(|limit| u64::from(set.count_ones()) <= limit)
        };
        let all: Vec<u32> = (0..1 << blocks.len()).filter(|&set| fits(set)).collect();
        let is_largest = |set: &u32| !all.iter().any(|other| other != set && other & set == *set);
        all.iter().copied().filter(is_largest).collect()
    }

    /// The shortest plan of a choice on the grid: its steps, and what is under way in each.
    fn shortest_on_grid(&self, blocks: &[Block]) -> Vec<u32> {
        let start: Vec<u64> = blocks.iter().map(|block| self.steps_of_block(block.server)).collect();
        // What may be left after each step, and how it came about.
        let mut after = vec![Reached::from([(start, (Vec::new(), 0))])];
        let done = vec![0; blocks.len()];
        while !after.last().expect("the start").contains_key(&done) {
            let mut next = Reached::new();
            let step = after.len() as u64 - 1;
            for left in after.last().expect("the start").keys() {
                for set in self.largest_sets(blocks, left, step) {
                    let less = |(k, left): (usize, &u64)| left - u64::from(set >> k & 1);
                    next.insert(left.iter().enumerate().map(less).collect(), (left.clone(), set));
                }
            }
            after.push(next);
        }
        let mut left = done;
        let mut sets = Vec::new();
        for reached in after.iter().skip(1).rev() {
            let (before, set) = reached[&left].clone();
            sets.push(set);
            left = before;
        }
        sets.reverse();
        sets
    }

    /// What is under way in each step as rows of a plan.
    fn rows(&self, blocks: &[Block], sets: &[u32]) -> Vec<Transfer> {
        let fixed = |over: u64, under: u64| {
            Fixed::from_nanos(u128::from(over) * 1_000_000_000 / u128::from(under)).expect("small")
        };
        let mut rows = Vec::new();
        for (k, block) in blocks.iter().enumerate() {
            let steps = self.steps_of_block(block.server);
            let under_way = (0..).zip(sets).filter(|(_, set)| *set >> k & 1 == 1);
            rows.extend((0..).zip(under_way).map(|(n, (step, _)): (u64, (u64, &u32))| Transfer {
                request: block.request as u32,
                server: ServerId(block.server as u32),
                start: fixed(step, GRID),
                blocks:
                    Fixed::from_nanos(fixed(n + 1, steps).nanos() - fixed(n, steps).nanos()).expect("small"),
            }));
        }
        rows
    }
}

proptest! {
    #![proptest_config(config(1500))]

    #[test]
    fn no_accepted_plan_is_shorter_than_what_is_proved(scene in scenes()) {
        let (batch, cluster) = scene.build();
        let plan = planned(&batch, &cluster);
        let bound = Exact::from(plan.bound.value);
        let nano = Exact::new(1, 1_000_000_000);
        let mut shortest = None;
        for blocks in choices(&scene) {
            let sets = scene.shortest_on_grid(&blocks);
            let rows = scene.rows(&blocks, &sets);
            let measures = check::plan(&batch, &cluster, &rows, true);
            prop_assert!(measures.is_ok(), "{:?} {:?}", measures, rows);
            let length = Exact::new(sets.len() as u128, GRID.into());
            prop_assert!(bound <= length, "{:?} ends before {:?}", rows, bound);
            prop_assert!(measures.map_or(0.0, |m| m.length.to_f64()) >= plan.bound.value.to_f64() - 1e-6);
            shortest = shortest.min(Some(length)).or(Some(length));
        }
        if cluster.is_even() {
            prop_assert_eq!(shortest, Some(bound));
            prop_assert!(Exact::from(plan.schedule.length).distance(bound) <= nano);
        }
    }
}

fn cluster(batch: &Batch, servers: &[(u64, u32)], client_slots: u32) -> Cluster {
    let server = |&(speed, slots): &(u64, u32)| Server {
        speed: Speed::from_millionths(speed * UNIT).expect("a valid speed"),
        slots,
        backlog: 0,
    };
    let clients = vec![Client { slots: client_slots }; batch.n_clients()];
    Cluster::new(batch, servers.iter().map(server).collect(), clients, None).expect("a valid cluster")
}

/// Four blocks, of which three share a server of two slots: it need not end a block at a time.
#[test]
fn slots_share_blocks() {
    let batch = batch(&[("c0", 1, &["s0"]), ("c1", 1, &["s0"]), ("c2", 1, &["s0"]), ("c3", 1, &["s1"])]);
    let plan = planned(&batch, &cluster(&batch, &[(1, 2), (2, 1)], 1));
    assert_eq!([plan.schedule.length, plan.bound.value], [Ratio::new(3, 2); 2]);
}

#[test]
fn three_blocks_share_two_slots() {
    let batch = batch(&[("c0", 1, &["s0"]), ("c1", 1, &["s0"]), ("c2", 1, &["s0"])]);
    let plan = planned(&batch, &cluster(&batch, &[(2, 2)], 1));
    assert_eq!([plan.schedule.length, plan.bound.value], [Ratio::new(3, 4); 2]);
    // Through clients that could take both halves of a block at once.
    let plan = planned(&batch, &cluster(&batch, &[(2, 2)], 2));
    assert_eq!([plan.schedule.length, plan.bound.value], [Ratio::new(3, 4); 2]);
}

#[test]
fn a_block_takes_its_time_however_many_slots_there_are() {
    let batch = batch(&[("c0", 1, &["s0"])]);
    let cluster = cluster(&batch, &[(2, 2)], 2);
    let half = |start: u128| Transfer {
        request: 0,
        server: ServerId(0),
        start: Fixed::from_nanos(start).expect("small"),
        blocks: Fixed::from_nanos(500_000_000).expect("small"),
    };
    let at_once = check::plan(&batch, &cluster, &[half(0), half(0)], true);
    assert!(matches!(at_once, Err(Fault::BlockOverlap { request: 0, blocks: 1, .. })), "{at_once:?}");
    assert!(check::plan(&batch, &cluster, &[half(0), half(250_000_000)], true).is_ok());
    let plan = planned(&batch, &cluster);
    assert_eq!([plan.schedule.length, plan.bound.value], [Ratio::new(1, 2); 2]);
}
