//! Heuristics as their definitions read, without any haste: the quick ones must give the very same answers.
//!
//! Nothing is shared with the core but the model. In the papers all requests are of one block; the rest is as the core's
//! documentation extends it.

use std::cmp::Reverse;

use evenkeel::bid::{self, Rules, Tell};
use evenkeel::draw::{Seeded, Ties};
use evenkeel::model::{self, Batch, Choice, Cluster, Grant, Ratio, ServerId};
use evenkeel::order::lddf_slots;
use evenkeel::order::rounds::Rounds;
use evenkeel::select::equi::{self, Pick, Rounding};
use evenkeel::select::replanned::{BadTurn, Move, Replanned, TakeBack};
use evenkeel::select::{Goal, aequi, first, lddf, optimal, random};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select, subsequence};

use crate::bidding::batches;
use crate::support::{Case, Request, Scene, config};

/// Batches of one-block requests that have up to three replicas, or any number of them.
fn unit_cases(
    most_clients: usize,
    most_servers: usize,
    n_requests: std::ops::RangeInclusive<usize>,
) -> impl Strategy<Value = Case> {
    let sizes = (1..=most_clients, 1..=most_servers, any::<bool>(), any::<bool>());
    sizes.prop_flat_map(move |(n_clients, n_servers, has_few_replicas, is_skewed)| {
        let most = if has_few_replicas { n_servers.min(3) } else { n_servers };
        let replicas = subsequence((0..n_servers).collect::<Vec<_>>(), 1..=most);
        let request = (0..n_clients, 0..n_clients, replicas).prop_map(move |(a, b, replicas)| Request {
            client: if is_skewed { a.min(b) / 2 } else { a },
            blocks: 1,
            replicas,
        });
        vec(request, n_requests.clone()).prop_map(move |requests| Case { n_clients, n_servers, requests })
    })
}

/// A few requests that shrink well, or many that take the quick ways which few do not.
fn small_and_large() -> impl Strategy<Value = Case> {
    prop_oneof![8 => unit_cases(6, 5, 0..=20), 1 => unit_cases(60, 6, 100..=400), 1 => with_busy_clients()]
}

/// Two clients have many requests that are older than all others, so that servers have to look far for one that is free.
fn with_busy_clients() -> impl Strategy<Value = Case> {
    let sets = vec(subsequence(vec![0, 1, 2, 3], 1..=4), 300..=400);
    let clients = vec((0..200_usize, 2..40_usize), 400);
    (sets, clients).prop_map(|(sets, clients)| {
        let request = |(i, (replicas, (place, client))): (usize, (Vec<usize>, (usize, usize)))| {
            let client = if i < 250 && place > 0 { place % 2 } else { client };
            Request { client, blocks: 1, replicas }
        };
        let requests = sets.into_iter().zip(clients).enumerate().map(request).collect();
        Case { n_clients: 40, n_servers: 4, requests }
    })
}

/// The case on equal servers, for clients with these slots.
fn with_client_slots(case: Case, slots: &[u32]) -> Scene {
    Scene {
        servers: vec![model::Server::default(); case.n_servers],
        clients: slots[..case.n_clients].iter().map(|&slots| model::Client { slots }).collect(),
        limit: None,
        case,
    }
}

/// How many pending requests each server could serve.
fn degrees(case: &Case, is_pending: &[bool]) -> Vec<usize> {
    let could_serve = |s: usize| {
        let pending = case.requests.iter().zip(is_pending).filter(|(_, is_pending)| **is_pending);
        pending.filter(|(request, _)| request.replicas.contains(&s)).count()
    };
    (0..case.n_servers).map(could_serve).collect()
}

/// Who takes which request in which pass: LDDF and HDDF of §1.5, each node with its slots, or each server with one and
/// without clients.
fn passes(case: &Case, fewest_first: bool, slots: Option<&Scene>) -> Vec<(u32, usize, usize)> {
    let mut is_pending = vec![true; case.requests.len()];
    let mut taken = Vec::new();
    for round in 0.. {
        if !is_pending.contains(&true) {
            break;
        }
        let degrees = degrees(case, &is_pending);
        let mut servers: Vec<usize> = (0..case.n_servers).filter(|&s| degrees[s] > 0).collect();
        match fewest_first {
            true => servers.sort_by_key(|&s| (degrees[s], s)),
            false => servers.sort_by_key(|&s| (Reverse(degrees[s]), s)),
        }
        let mut n_transfers = vec![0; case.n_clients];
        for s in servers {
            for _ in 0..slots.map_or(1, |scene| scene.servers[s].slots) {
                let is_free = |c: usize| slots.is_none_or(|scene| n_transfers[c] < scene.clients[c].slots);
                let can_take = |i: &usize| {
                    let Request { client, replicas, .. } = &case.requests[*i];
                    is_pending[*i] && replicas.contains(&s) && is_free(*client)
                };
                if let Some(i) = (0..case.requests.len()).find(can_take) {
                    is_pending[i] = false;
                    n_transfers[case.requests[i].client] += 1;
                    taken.push((round, i, s));
                }
            }
        }
    }
    taken
}

/// The server of each request.
fn servers_of(case: &Case, taken: &[(u32, usize, usize)]) -> Vec<usize> {
    let mut servers = vec![usize::MAX; case.requests.len()];
    taken.iter().for_each(|&(_, i, s)| servers[i] = s);
    servers
}

fn chosen(choice: &Choice) -> Vec<usize> {
    assert_eq!(choice.split_off, []);
    choice.servers.iter().map(|server| server.index()).collect()
}

fn granted(grants: &[Grant]) -> Vec<(u32, usize, usize)> {
    grants.iter().map(|g| (g.round, g.part.request as usize, g.part.server.index())).collect()
}

/// EQUI of §1.8, shares in blocks: the server of each request, and the number of rounds.
fn equi(case: &Case, pick: Pick, rounding: Rounding) -> (Vec<usize>, u32) {
    let blocks = |i: usize| case.requests[i].blocks;
    let holds = |s: usize, i: usize| case.requests[i].replicas.contains(&s);
    // What is empty stays with the replica listed first.
    let mut servers: Vec<usize> = case.requests.iter().map(|request| request.replicas[0]).collect();
    let mut pending: Vec<usize> = (0..case.requests.len()).filter(|&i| blocks(i) > 0).collect();
    let mut n_rounds = 0;
    while !pending.is_empty() {
        n_rounds += 1;
        let is_active = |s: &usize| pending.iter().any(|&i| holds(*s, i));
        let mut unserved: Vec<usize> = (0..case.n_servers).filter(is_active).collect();
        let (all, n_active) = (pending.iter().map(|&i| blocks(i)).sum::<u64>(), unserved.len() as u64);
        let share = match rounding {
            Rounding::Up => all.div_ceil(n_active),
            Rounding::Down => (all / n_active).max(1),
        };
        loop {
            let could_serve =
                |s: usize| pending.iter().filter(|&&i| holds(s, i)).map(|&i| blocks(i)).sum::<u64>();
            let next = unserved.iter().copied().filter(|&s| could_serve(s) > 0);
            let Some(server) = next.min_by_key(|&s| (could_serve(s), s)) else { break };
            let mut own: Vec<usize> = pending.iter().copied().filter(|&i| holds(server, i)).collect();
            if pick == Pick::FewestReplicas {
                // The servers that may still take it in this round.
                let n_left = |i: usize| unserved.iter().filter(|&&s| holds(s, i)).count();
                own.sort_by_key(|&i| (n_left(i), i));
            }
            let mut given = 0;
            for i in own {
                if given >= share || given > 0 && given + blocks(i) > share {
                    break;
                }
                given += blocks(i);
                servers[i] = server;
                pending.retain(|&other| other != i);
            }
            unserved.retain(|&s| s != server);
        }
    }
    (servers, n_rounds)
}

/// Steps 2 and 3 of AEQUI, §1.9, in blocks.
fn fill(case: &Case, backlogs: &[u64]) -> Vec<usize> {
    let mut loads = backlogs.to_vec();
    let average = (loads.iter().sum::<u64>() + case.total_blocks()).div_ceil(case.n_servers as u64);
    let mut servers = vec![usize::MAX; case.requests.len()];
    let mut by_backlog: Vec<usize> = (0..case.n_servers).collect();
    by_backlog.sort_by_key(|&s| (backlogs[s], s));
    for s in by_backlog {
        let can_take = |i: &usize| servers[*i] == usize::MAX && case.requests[*i].replicas.contains(&s);
        let own: Vec<usize> = (0..case.requests.len()).filter(can_take).collect();
        for i in own {
            if loads[s] + case.requests[i].blocks > average {
                break;
            }
            loads[s] += case.requests[i].blocks;
            servers[i] = s;
        }
    }
    for (i, request) in case.requests.iter().enumerate() {
        if servers[i] == usize::MAX {
            let least = request.replicas.iter().copied().min_by_key(|&s| (loads[s], s)).expect("a replica");
            servers[i] = least;
            loads[least] += request.blocks;
        }
    }
    servers
}

/// The finaliser of splitmix64, as §0 prints it.
fn mix(z: u64) -> u64 {
    let mut z = z.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ z >> 31
}

/// The lower, the more `a` likes `b`.
fn rank(ties: Ties, a: usize, b: usize) -> u64 {
    match ties {
        Ties::LowestId => b as u64,
        Ties::Hashed(seed) => mix(mix(mix(seed) ^ a as u64) ^ b as u64),
    }
}

/// The game of HDLWF, §1.3, where a client may have several bids (as many as slots, or more), and who is rejected may bid again
/// in the same round at a server that it has not tried in it, §1.6.
struct Game<'a> {
    scene: &'a Scene,
    ties: Ties,
    passes: u32,
    /// Bids at once for each slot of a client.
    bids: u32,
    /// Whether servers also tell what they turn away.
    tells_all: bool,
}

impl Game<'_> {
    /// For what a client bids: the request and the server.
    fn choose(
        &self,
        client: usize,
        views: &[u128],
        left: &[usize],
        is_out: &[bool],
    ) -> Option<(usize, usize)> {
        let replicas = |j: usize| self.scene.case.requests[j].replicas.iter().map(move |&s| (j, s));
        let pairs = left.iter().flat_map(|&j| replicas(j)).filter(|&(_, s)| !is_out[s]);
        pairs.min_by_key(|&(j, s)| (views[s], rank(self.ties, client, s), s, j))
    }

    /// When a server is done with so many blocks, to the nearest billionth.
    fn workload(&self, server: usize, blocks: u64) -> u128 {
        let model::Server { speed, slots, backlog } = self.scene.servers[server];
        let last = backlog.div_ceil(slots.into()) + blocks.div_ceil(slots.into());
        let speed = u128::from(speed.millionths());
        if blocks == 0 { 0 } else { (u128::from(last) * 1_000_000_000_000_000 + speed / 2) / speed }
    }

    /// The grants, and the number of bids.
    fn play(&self) -> (Vec<(u32, usize, usize)>, u64) {
        let Case { n_clients, n_servers, requests } = &self.scene.case;
        let mut pending: Vec<Vec<usize>> = vec![Vec::new(); *n_clients];
        requests.iter().enumerate().for_each(|(i, request)| pending[request.client].push(i));
        let mut views = vec![vec![0_u128; *n_servers]; *n_clients];
        let mut granted_blocks = vec![0; *n_servers];
        let (mut grants, mut n_bids) = (Vec::new(), 0);
        for round in 0.. {
            if pending.iter().all(Vec::is_empty) {
                break;
            }
            let mut is_tried = vec![vec![false; *n_servers]; *n_clients];
            let (mut n_won, mut n_granted) = (vec![0; *n_clients], vec![0; *n_servers]);
            for _pass in 0..self.passes {
                let mut bids: Vec<Vec<(usize, usize)>> = vec![Vec::new(); *n_servers];
                for c in 0..*n_clients {
                    let mut left = pending[c].clone();
                    for _ in n_won[c]..self.scene.clients[c].slots * self.bids {
                        let Some((j, s)) = self.choose(c, &views[c], &left, &is_tried[c]) else { break };
                        bids[s].push((c, j));
                        is_tried[c][s] = true;
                        left.retain(|&other| other != j);
                        n_bids += 1;
                    }
                }
                let degree = |left: &Vec<usize>| left.iter().map(|&j| requests[j].blocks).sum::<u64>();
                let degrees: Vec<u64> = pending.iter().map(degree).collect();
                for (s, mut bids) in bids.into_iter().enumerate() {
                    bids.sort_by_key(|&(c, _)| (Reverse(degrees[c]), rank(self.ties, s, c), c));
                    for &(c, j) in &bids {
                        if n_granted[s] < self.scene.servers[s].slots {
                            n_granted[s] += 1;
                            granted_blocks[s] += requests[j].blocks;
                            n_won[c] += 1;
                            grants.push((round, j, s));
                            pending[c].retain(|&other| other != j);
                        }
                    }
                    let is_rejected = |j: &usize| pending[requests[*j].client].contains(j);
                    let rejected = bids.iter().map(|&(_, j)| j).filter(is_rejected);
                    let turned_away: u64 = rejected.map(|j| requests[j].blocks).sum();
                    let told = granted_blocks[s] + if self.tells_all { turned_away } else { 0 };
                    for (c, _) in bids {
                        views[c][s] = self.workload(s, told);
                    }
                }
            }
        }
        (grants, n_bids)
    }
}

proptest! {
    #![proptest_config(config(2_000))]

    /// `lddf` and `hddf` are §1.5 without clients.
    #[test]
    fn passes_of_servers_are_as_defined(case in small_and_large()) {
        let batch = case.batch();
        prop_assert_eq!(chosen(&lddf::lddf(&batch)), servers_of(&case, &passes(&case, true, None)));
        prop_assert_eq!(chosen(&lddf::hddf(&batch)), servers_of(&case, &passes(&case, false, None)));
    }

    /// `lddf-slots` and `hddf-slots` are §1.5 with clients, each slot a round.
    #[test]
    fn slots_are_as_defined(case in small_and_large(), slots in vec(1..=3_u32, 60)) {
        for n_rounds in assert_slots_as_defined(&with_client_slots(case, &slots)) {
            prop_assert_eq!(n_rounds.1, u64::from(n_rounds.0).into());
        }
    }

    /// The same where servers have several slots too, and requests several blocks.
    #[test]
    fn slots_of_servers_are_as_defined(scene in batches(6, 5, 20)) {
        assert_slots_as_defined(&scene);
    }

    /// `equi` is §1.8, whichever requests are picked and however the share is rounded.
    #[test]
    fn equal_shares_are_as_defined(case in small_and_large(), sized in batches(6, 5, 20)) {
        for case in [case, sized.case] {
            let batch = case.batch();
            for pick in [Pick::Oldest, Pick::FewestReplicas] {
                for rounding in [Rounding::Up, Rounding::Down] {
                    let (choice, n_rounds) = equi::rounds(&batch, pick, rounding);
                    prop_assert_eq!((chosen(&choice), n_rounds), equi(&case, pick, rounding));
                }
            }
        }
    }

    /// `aequi` is steps 2 and 3 of §1.9.
    #[test]
    fn filling_up_is_as_defined(
        case in small_and_large(),
        sized in batches(6, 5, 20),
        backlogs in vec(0..=9_u64, 6),
    ) {
        let mut scene = with_client_slots(case, &[1; 60]);
        scene.servers.iter_mut().zip(backlogs).for_each(|(server, backlog)| server.backlog = backlog);
        for scene in [scene, sized] {
            let (batch, cluster) = scene.build();
            let backlogs: Vec<u64> = scene.servers.iter().map(|s| s.backlog).collect();
            prop_assert_eq!(chosen(&aequi::fill(&batch, &cluster)), fill(&scene.case, &backlogs));
        }
    }

    /// `hdlwf` is §1.3, with a bid and an answer for each client that is not done; `hdlwf-rebid` is the same in passes.
    #[test]
    fn bidding_is_as_defined(case in small_and_large(), seed: u64, lowest_id: bool, passes in 1..=4_u32) {
        let ties = if lowest_id { Ties::LowestId } else { Ties::Hashed(seed) };
        let scene = with_client_slots(case, &[1; 60]);
        let hdlwf = Rules::hdlwf(ties, seed);
        for rules in [hdlwf, Rules { passes, ..hdlwf }, Rules::rebid(passes, ties, seed)] {
            let rounds = assert_bidding_as_defined(&scene, rules, ties);
            prop_assert_eq!(rounds.schedule.length, u64::from(rounds.n_rounds).into());
        }
    }

    /// The same for clients with several slots, and `hdlwf-multi`; with speeds and backlogs, slots of servers and sizes.
    #[test]
    fn several_bids_are_as_defined(
        case in small_and_large(),
        slots in vec(1..=3_u32, 60),
        unequal in batches(6, 5, 20),
        seed: u64,
        bids in 1..=3_u32,
    ) {
        let rules = Rules { bids, ..Rules::hdlwf(Ties::Hashed(seed), seed) };
        assert_bidding_as_defined(&with_client_slots(case, &slots), rules, Ties::Hashed(seed));
        assert_bidding_as_defined(&unequal, rules, Ties::Hashed(seed));
    }

    /// In a further pass a client may bid at every server that it has not tried in the round (§1.6), also at one
    /// that it only passed over because all it held had been asked for elsewhere.
    #[test]
    fn what_was_rejected_is_bid_for_wherever_it_was_not(
        case in unit_cases(6, 5, 0..=20),
        slots in vec(1..=3_u32, 6),
        seed: u64,
        passes in 2..=4_u32,
    ) {
        let ties = Ties::Hashed(seed);
        let rules = Rules::rebid(passes, ties, seed);
        assert_bidding_as_defined(&with_client_slots(case, &slots), rules, ties);
    }
}

/// Asserts that the slots are those of the definition; their number, and the length of the schedule.
fn assert_slots_as_defined(scene: &Scene) -> [(u32, Ratio); 2] {
    let (batch, cluster) = scene.build();
    let both = [(true, lddf_slots::lddf(&batch, &cluster)), (false, lddf_slots::hddf(&batch, &cluster))];
    both.map(|(fewest_first, grants)| {
        let expected = passes(&scene.case, fewest_first, Some(scene));
        assert_eq!(granted(&grants), expected);
        let rounds = Rounds::new(&batch, &cluster, &grants);
        assert_eq!(rounds.n_rounds, expected.last().map_or(0, |last| last.0 + 1));
        (rounds.n_rounds, rounds.schedule.length)
    })
}

/// Asserts that grants and messages are those of the definition.
fn assert_bidding_as_defined(scene: &Scene, rules: Rules, ties: Ties) -> Rounds {
    let (batch, cluster) = scene.build();
    let game =
        Game { scene, ties, passes: rules.passes, bids: rules.bids, tells_all: rules.tell == Tell::Wanted };
    let (expected, n_bids) = game.play();
    let bidding = bid::rounds::run(&batch, &cluster, rules);
    assert_eq!(granted(&bidding.grants), expected);
    assert_eq!(bidding.n_messages, 2 * n_bids);
    let rounds = Rounds::new(&batch, &cluster, &bidding.grants);
    assert_eq!(rounds.n_rounds, expected.last().map_or(0, |last| last.0 + 1));
    let is_plain = |server: &model::Server| *server == model::Server::default();
    if scene.servers.iter().all(is_plain) && scene.clients.iter().all(|client| client.slots == 1) {
        assert_eq!(rounds.compacted, compacted(&scene.case, &expected).into());
    }
    rounds
}

/// Both ends go through their lists, each transfer as soon as both are free.
fn compacted(case: &Case, grants: &[(u32, usize, usize)]) -> u64 {
    let (mut clients, mut servers) = (vec![0_u64; case.n_clients], vec![0_u64; case.n_servers]);
    for &(_, i, s) in grants {
        let client = case.requests[i].client;
        if case.requests[i].blocks > 0 {
            let end = clients[client].max(servers[s]) + case.requests[i].blocks;
            (clients[client], servers[s]) = (end, end);
        }
    }
    clients.into_iter().max().unwrap_or(0)
}

/// What happens to requests over time.
#[derive(Clone, Copy, Debug)]
enum Event {
    Arrive,
    Start,
    Done,
    Replan,
    /// Something that does not fit.
    Misfit,
}

fn events() -> impl Strategy<Value = Vec<(Event, Index)>> {
    let event = prop_oneof![
        6 => Just(Event::Arrive),
        3 => Just(Event::Start),
        2 => Just(Event::Done),
        3 => Just(Event::Replan),
        1 => Just(Event::Misfit),
    ];
    vec((event, any::<Index>()), 0..120)
}

/// Requests over time, as [`Replanned`] defines them.
struct Model<'a> {
    scene: &'a Scene,
    take_back: TakeBack,
    unknown: Vec<u32>,
    /// All that have, in order.
    arrived: Vec<u32>,
    pending: Vec<u32>,
    waiting: Vec<Vec<u32>>,
    in_service: Vec<(u32, usize)>,
    done: Vec<u32>,
}

impl Model<'_> {
    fn blocks(&self, request: u32) -> u64 {
        self.scene.case.requests[request as usize].blocks
    }

    /// The blocks at each server, waiting or in service, without its own backlog.
    fn loads(&self) -> Vec<u64> {
        let waiting = |s: usize| self.waiting[s].iter().map(|&i| self.blocks(i)).sum::<u64>();
        let in_service = |s: usize| -> u64 {
            self.in_service.iter().filter(|served| served.1 == s).map(|served| self.blocks(served.0)).sum()
        };
        (0..self.waiting.len()).map(|s| waiting(s) + in_service(s)).collect()
    }

    /// What a scheduling point selects for: requests with where they waited.
    fn take_back(&mut self) -> Vec<(u32, Option<usize>)> {
        let new: Vec<(u32, Option<usize>)> = self.pending.drain(..).map(|i| (i, None)).collect();
        match self.take_back {
            TakeBack::Nothing => new,
            TakeBack::Everything => {
                let waiting = self.waiting.iter_mut().enumerate();
                let mut taken: Vec<(u32, Option<usize>)> =
                    waiting.flat_map(|(s, waiting)| waiting.drain(..).map(move |i| (i, Some(s)))).collect();
                taken.sort_unstable_by_key(|(i, _)| self.arrived.iter().position(|arrived| arrived == i));
                taken.into_iter().chain(new).collect()
            }
            TakeBack::Overload => {
                let mut all = new;
                let backlogs = self.scene.servers.iter().map(|s| s.backlog);
                let mut loads: Vec<u64> = self.loads().iter().zip(backlogs).map(|(a, b)| a + b).collect();
                let sum = loads.iter().sum::<u64>() + all.iter().map(|new| self.blocks(new.0)).sum::<u64>();
                let most = sum.div_ceil(loads.len() as u64) + 1;
                for (s, load) in loads.iter_mut().enumerate() {
                    // The youngest that can go and leaves no less than that.
                    let can_go = |load: u64, i: u32| {
                        let Request { blocks, replicas, .. } = &self.scene.case.requests[i as usize];
                        *blocks > 0 && replicas.len() > 1 && load >= most + blocks
                    };
                    while let Some(place) = self.waiting[s].iter().rposition(|&i| can_go(*load, i)) {
                        let request = self.waiting[s].remove(place);
                        *load -= self.scene.case.requests[request as usize].blocks;
                        all.push((request, Some(s)));
                    }
                }
                all
            }
        }
    }

    /// Everything is somewhere, once.
    fn check(&self) {
        let waiting = self.waiting.iter().flatten();
        let mut all: Vec<u32> = self.unknown.iter().chain(&self.pending).chain(waiting).copied().collect();
        all.extend(self.in_service.iter().map(|served| served.0));
        all.extend(&self.done);
        all.sort_unstable();
        assert!(all.into_iter().eq(0..self.scene.case.requests.len() as u32));
    }
}

/// One of the selections, by number.
fn select_by(which: usize, batch: &Batch, cluster: &Cluster) -> Choice {
    match which {
        0 => first::select(batch),
        1 => aequi::fill(batch, cluster),
        2 => lddf::lddf(batch),
        3 => equi::select(batch, Pick::FewestReplicas, Rounding::Up),
        4 => random::select(batch, &mut Seeded::new(batch.n_requests() as u64)),
        5 => optimal::select(batch, cluster, Goal::Length).0,
        _ => optimal::select(batch, cluster, Goal::Mean).0,
    }
}

proptest! {
    #![proptest_config(config(3_000))]

    /// Over time nothing is lost or doubled, what is in service stays, and selections see the right requests and loads.
    #[test]
    fn replanning_is_as_defined(
        scene in batches(3, 5, 20),
        take_back in select(&[TakeBack::Nothing, TakeBack::Overload, TakeBack::Everything][..]),
        which in 0..7_usize,
        events in events(),
    ) {
        let (batch, cluster) = scene.build();
        let n_servers = batch.n_servers();
        let mut model = Model {
            scene: &scene,
            take_back,
            unknown: (0..batch.n_requests() as u32).collect(),
            arrived: Vec::new(),
            pending: Vec::new(),
            waiting: vec![Vec::new(); n_servers],
            in_service: Vec::new(),
            done: Vec::new(),
        };
        // What the selection was asked and what it said.
        let seen = std::cell::RefCell::new(None);
        let mut replanned = Replanned::new(&batch, &cluster, take_back, |batch: &Batch, cluster: &Cluster| {
            let choice = select_by(which, batch, cluster);
            let sets: Vec<Vec<ServerId>> = batch.replicas().iter().map(<[ServerId]>::to_vec).collect();
            let sizes: Vec<u64> = (0..batch.n_requests()).map(|i| batch.blocks(i)).collect();
            let backlogs: Vec<u64> = cluster.servers().iter().map(|s| s.backlog).collect();
            *seen.borrow_mut() = Some((sets, sizes, backlogs, choice.clone()));
            choice
        });
        for (event, index) in events {
            match event {
                Event::Arrive if !model.unknown.is_empty() => {
                    let request = model.unknown.remove(index.index(model.unknown.len()));
                    prop_assert_eq!(replanned.arrived(request), Ok(()));
                    prop_assert_eq!(replanned.arrived(request), Err(BadTurn::ArrivedTwice(request)));
                    model.arrived.push(request);
                    model.pending.push(request);
                }
                Event::Start => {
                    let s = index.index(n_servers);
                    let oldest = (!model.waiting[s].is_empty()).then(|| model.waiting[s].remove(0));
                    prop_assert_eq!(replanned.start(ServerId(s as u32)), Ok(oldest));
                    model.in_service.extend(oldest.map(|request| (request, s)));
                }
                Event::Done if !model.in_service.is_empty() => {
                    let (request, _) = model.in_service.remove(index.index(model.in_service.len()));
                    prop_assert_eq!(replanned.done(request), Ok(()));
                    model.done.push(request);
                }
                Event::Replan => {
                    let asked = model.take_back();
                    let moves = replanned.replan();
                    let (sets, sizes, backlogs, choice) = seen.borrow_mut().take().expect("it was asked");
                    let requests = asked.iter().map(|asked| asked.0 as usize);
                    prop_assert!(requests.clone().map(|i| batch.replicas().of(i)).eq(sets.iter()));
                    prop_assert!(requests.map(|i| batch.blocks(i)).eq(sizes));
                    let expected = model.loads().into_iter().zip(&scene.servers).map(|(load, s)| load + s.backlog);
                    prop_assert!(expected.eq(backlogs), "selections see the loads that stay");
                    let is_whole = choice.split_off.is_empty();
                    let mut expected = Vec::new();
                    for (k, &(request, from)) in asked.iter().enumerate() {
                        // Where it was to be split, one of its replicas has all of it.
                        let to = match is_whole {
                            true => choice.servers[k],
                            false => waits_at(&replanned, n_servers, request).expect("nothing is lost"),
                        };
                        prop_assert!(batch.replicas().of(request as usize).contains(&to));
                        model.waiting[to.index()].push(request);
                        if from != Some(to.index()) {
                            let from = from.map(|server| ServerId(server as u32));
                            expected.push(Move { request, from, to });
                        }
                    }
                    prop_assert_eq!(moves, expected);
                }
                Event::Misfit => {
                    let n = batch.n_requests() as u32;
                    prop_assert_eq!(replanned.arrived(n), Err(BadTurn::NoSuchRequest(n)));
                    prop_assert_eq!(replanned.done(u32::MAX), Err(BadTurn::NoSuchRequest(u32::MAX)));
                    let server = n_servers as u32;
                    prop_assert_eq!(replanned.start(ServerId(server)), Err(BadTurn::NoSuchServer(server)));
                    for request in (0..n).filter(|&i| !model.in_service.iter().any(|served| served.0 == i)) {
                        prop_assert_eq!(replanned.done(request), Err(BadTurn::NotInService(request)));
                    }
                }
                _ => {}
            }
            model.check();
            for (s, waiting) in model.waiting.iter().enumerate() {
                prop_assert!(replanned.waiting(ServerId(s as u32)).eq(waiting.iter().copied()));
            }
        }
    }
}

/// The server at which a request waits.
fn waits_at<F: FnMut(&Batch, &Cluster) -> Choice>(
    replanned: &Replanned<'_, F>,
    n_servers: usize,
    request: u32,
) -> Option<ServerId> {
    (0..n_servers as u32).map(ServerId).find(|&server| replanned.waiting(server).any(|i| i == request))
}
