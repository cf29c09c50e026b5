//! The executor in worlds where nothing changes, and where everything may go wrong.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel::model::{self, Batch, ClientId, Cluster, Fixed, Schedule, ServerId, Speed, Transfer};
use evenkeel::order::colour;
use evenkeel::run::{
    Action, BadPlan, Cause, Decide, Decided, Decision, Event, Executor, Late, Misfit, Pick, Reason,
    RequestId, Settings, TransferId,
};
use evenkeel::select::{Goal, optimal};
use proptest::prelude::*;

use crate::bidding::batches;
use crate::support::{Case, Request, Scene, Speeds, config, kinds, scenes};
use crate::world::{Chaos, Next, SECOND, World, arrival, chaos, id, row, settings};

const MODEST: &[Speeds] = &[Speeds::One, Speeds::Tame];

fn plan(batch: &Batch, cluster: &Cluster) -> Schedule {
    let choice = optimal::select(batch, cluster, Goal::Length).0;
    colour::order(batch, cluster, &choice)
}

/// Without some requests, which will arrive.
fn without(plan: &Schedule, n: u32) -> Schedule {
    let kept = plan.transfers.iter().filter(|t| t.request % 4 >= n);
    Schedule { transfers: kept.copied().collect(), length: plan.length }
}

/// When nothing changes, the plan's length is kept.
fn assert_in_time(scene: &Scene, settings: Settings) {
    let (batch, cluster) = scene.build();
    let plan = plan(&batch, &cluster);
    let mut world = World::new(&batch, &cluster, &plan, settings, Chaos::default(), 0);
    let end_ns = world.run();
    // Blocks of plans with different speeds are rounded to nine places, and take up to ten times as long.
    let is_exact = scene.one_speed() == Some(Speed::ONE);
    let slack_ns = if is_exact { 0 } else { 20 * (plan.transfers.len() as u128 + 1) };
    let planned_ns = plan.length.numerator() * u128::from(SECOND) / u128::from(plan.length.denominator());
    assert!(u128::from(end_ns) <= planned_ns + slack_ns, "{end_ns} of {planned_ns}");
    assert_eq!((world.failed.len(), world.executor.counts().plans), (0, 0));
}

fn assert_survives(scene: &Scene, settings: Settings, chaos: Chaos, seed: u64, n_arriving: u32) {
    let (batch, cluster) = scene.build();
    let plan = without(&plan(&batch, &cluster), n_arriving);
    let run = |n_traced| {
        let mut world = World::new(&batch, &cluster, &plan, settings, chaos, seed);
        world.executor.trace(n_traced);
        world.run();
        (world.executor.take_decisions(), world.executor.counts(), world.log)
    };
    let (none, _, log) = run(0);
    let (decisions, counts, traced) = run(usize::MAX);
    assert_eq!(log, traced, "the same events, the same actions, whether somebody watches or not");
    assert_eq!(none, []);
    assert_explained(&decisions, settings);
    let is_hedge = |decision: &&Decision| matches!(decision.what, Decided::Hedged { .. });
    assert_eq!(decisions.iter().filter(is_hedge).count() as u64, counts.hedged);
    let (latest, ..) = run(2);
    assert_eq!(latest, decisions[decisions.len().saturating_sub(2)..]);
}

/// Each decision follows from its figures.
fn assert_explained(decisions: &[Decision], settings: Settings) {
    assert!(decisions.is_sorted_by_key(|decision| decision.at_ns));
    for Decision { what, candidates, .. } in decisions {
        let of = |server: ServerId| candidates.iter().find(|candidate| candidate.server == server);
        match *what {
            Decided::Queued { server, .. } | Decided::Started { server, .. } => {
                // Where only who is to be avoided is left, it is taken all the same.
                assert!(candidates.is_empty() || of(server).is_some(), "{what:?} {candidates:?}");
                let least_ns = candidates.iter().map(|candidate| candidate.wait_ns).min();
                if let (Some(least_ns), Pick::LeastLoaded) = (least_ns, settings.pick) {
                    assert_eq!(of(server).map(|chosen| chosen.wait_ns), Some(least_ns), "{candidates:?}");
                }
            }
            Decided::Hedged { late_at, server, .. } => {
                let [late, other] = [late_at, server].map(|server| of(server).expect("both are told"));
                assert!(other.pace_ns <= late.pace_ns, "{candidates:?}");
            }
            Decided::PlannedAnew { .. } => assert!(candidates.is_empty()),
        }
    }
}

proptest! {
    #![proptest_config(config(3_000))]

    #[test]
    fn ends_as_planned_when_nothing_changes(scene in scenes(kinds(MODEST)), shares_work: bool) {
        assert_in_time(&scene, Settings { shares_work, ..Settings::default() });
    }

    #[test]
    fn ends_as_planned_when_nothing_changes_in_larger_batches(scene in batches(6, 5, 20)) {
        assert_in_time(&scene, Settings::default());
    }

    #[test]
    fn each_request_is_delivered_once_or_fails_once(
        scene in scenes(kinds(MODEST)),
        settings in settings(),
        chaos in chaos(),
        seed: u64,
        n_arriving in 0..=4_u32,
    ) {
        assert_survives(&scene, settings, chaos, seed, n_arriving);
    }

    #[test]
    fn each_request_is_delivered_once_or_fails_once_in_larger_batches(
        scene in batches(6, 5, 20),
        settings in settings(),
        chaos in chaos(),
        seed: u64,
        n_arriving in 0..=4_u32,
    ) {
        assert_survives(&scene, settings, chaos, seed, n_arriving);
    }
}

fn uniform(n_clients: usize, n_servers: usize, n_requests: usize, n_replicas: usize) -> Scene {
    let request = |i: usize| Request {
        client: i % n_clients,
        blocks: 1,
        replicas: (0..n_replicas).map(|k| (i * 7 + i / n_servers + k * 3) % n_servers).collect(),
    };
    Scene {
        case: Case { n_clients, n_servers, requests: (0..n_requests).map(request).collect() },
        servers: vec![model::Server::default(); n_servers],
        clients: vec![model::Client { slots: 4 }; n_clients],
        limit: None,
    }
}

/// Without anything that reacts.
fn rigid() -> Settings {
    Settings { replan_after: None, patience_ns: u64::MAX, ..Settings::default() }
}

fn end_with_slow_server(settings: Settings) -> (u64, u32, usize) {
    let (batch, cluster) = uniform(20, 10, 1_000, 3).build();
    let plan = plan(&batch, &cluster);
    assert_eq!(plan.length, 100.into());
    let mut world = World::new(&batch, &cluster, &plan, settings, Chaos::default(), 0);
    world.slowness[3] = 10;
    let end_ns = world.run();
    (end_ns / SECOND, world.executor.counts().plans, world.hedged.len())
}

/// A server that is ten times slower than said makes a rigid plan ten times as long; planned anew it is a little
/// longer than if the server's speed had been known: 1000 blocks at a speed of 9.1.
#[test]
fn a_slow_server_is_planned_around() {
    assert_eq!(end_with_slow_server(rigid()), (1_000, 0, 0));
    let (end, n_replans, _) = end_with_slow_server(Settings::default());
    assert!((110..=135).contains(&end), "{end}");
    assert!((1..=8).contains(&n_replans), "{n_replans} plans");
}

/// A transfer that hangs is hedged, and the hedge wins; where the client has no slot left, it is given up for another.
#[test]
fn what_is_late_is_hedged_or_switched() {
    for (slots, n_hedged) in [(2, 1), (1, 0)] {
        let mut scene = uniform(1, 2, 2, 2);
        scene.clients[0].slots = slots;
        let (batch, cluster) = scene.build();
        let plan = plan(&batch, &cluster);
        let settings = Settings { hedge_blocks: 1, ..rigid() };
        let mut world = World::new(&batch, &cluster, &plan, settings, Chaos::default(), 0);
        world.slowness[1] = 1_000;
        let end_ns = world.run();
        assert!(end_ns <= 4 * SECOND, "{end_ns}");
        assert_eq!(world.hedged.len(), n_hedged);
        let withdrawn = world.log.iter().filter(|(_, a)| matches!(a, Action::Withdraw { .. })).count();
        assert_eq!((withdrawn, world.delivered.len()), (1, 2));
        assert_eq!(world.executor.hedge_left(), Fixed::ZERO);
    }
}

/// What a dead server had to do others do, as far as they can; the rest fails when patience is over.
#[test]
fn a_dead_servers_work_is_taken_over() {
    let (batch, cluster) = uniform(20, 10, 1_000, 3).build();
    let plan_3 = plan(&batch, &cluster);
    let mut world = World::new(&batch, &cluster, &plan_3, Settings::default(), Chaos::default(), 0);
    world.say(50 * SECOND, Next::Down(3));
    let end = world.run() / SECOND;
    assert!((105..=115).contains(&end) && world.failed.is_empty(), "{end}");

    let (batch, cluster) = uniform(20, 10, 1_000, 1).build();
    let plan_1 = plan(&batch, &cluster);
    let mut world = World::new(&batch, &cluster, &plan_1, Settings::default(), Chaos::default(), 0);
    world.say(50 * SECOND, Next::Down(3));
    world.run();
    assert_eq!(world.now_ns, plan_1.length.numerator() as u64 * SECOND);
    assert!(world.failed.len() >= 45 && world.failed.values().all(|reason| *reason == Reason::NoServer));

    // In time, and nothing is lost.
    let mut world = World::new(&batch, &cluster, &plan_1, Settings::default(), Chaos::default(), 0);
    world.say(50 * SECOND, Next::Down(3));
    world.say(79 * SECOND, Next::Up(3));
    world.run();
    assert!(world.failed.is_empty());
}

/// A server that is back gets its share again.
#[test]
fn a_server_that_is_back_is_used() {
    let (batch, cluster) = uniform(20, 10, 1_000, 3).build();
    let plan = plan(&batch, &cluster);
    let mut world = World::new(&batch, &cluster, &plan, Settings::default(), Chaos::default(), 0);
    world.say(10 * SECOND, Next::Down(3));
    world.say(20 * SECOND, Next::Up(3));
    let end = world.run() / SECOND;
    assert!((101..=105).contains(&end), "{end}");
}

/// Who fails once too often fails its request, and names the server.
#[test]
fn too_many_failures_are_told() {
    let (batch, cluster) = uniform(1, 1, 1, 1).build();
    let plan = plan(&batch, &cluster);
    let chaos = Chaos { fail: 100, ..Chaos::default() };
    let settings = Settings { most_failures: 2, ..Settings::default() };
    let mut world = World::new(&batch, &cluster, &plan, settings, chaos, 0);
    world.run();
    assert_eq!(world.failed.get(&0), Some(&Reason::Failures { server: ServerId(0) }));
    assert_eq!(world.over.len(), 3);
}

/// Where work is shared, clients without requests help the one that has all.
#[test]
fn idle_clients_take_from_the_longest_list() {
    let mut scene = uniform(1, 4, 40, 4);
    scene.case.n_clients = 4;
    scene.clients = vec![model::Client { slots: 1 }; 4];
    let (batch, cluster) = scene.build();
    let plan = plan(&batch, &cluster);
    for (shares_work, end) in [(false, 40), (true, 10)] {
        let settings = Settings { shares_work, ..Settings::default() };
        let mut world = World::new(&batch, &cluster, &plan, settings, Chaos::default(), 0);
        assert_eq!(world.run() / SECOND, end);
        let clients: BTreeSet<usize> = world.delivered.values().copied().collect();
        assert_eq!(clients.len(), if shares_work { 4 } else { 1 });
    }
}

/// Requests arrive at three fifths of what the servers can do; gives the mean response and that of the slowest
/// hundredth, in thousandths of a transfer, and how many were hedged.
fn responses(settings: impl Fn(&Batch) -> Settings, chaos: Chaos, slowness: u64) -> (u64, u64, usize) {
    let (batch, cluster) = uniform(50, 10, 2_000, 3).build();
    let mut world = World::new(&batch, &cluster, &Schedule::default(), settings(&batch), chaos, 1);
    world.next.clear();
    let arrival_ns = |request: u32| u64::from(request) * SECOND / 6;
    for request in 0..batch.n_requests() as u32 {
        world.say(arrival_ns(request), Next::Arrive(request));
    }
    world.slowness[3] = slowness;
    world.run();
    let response_ns = |&(now_ns, action): &(u64, Action)| match action {
        Action::Deliver { request, .. } => Some(now_ns - arrival_ns(row(request))),
        _ => None,
    };
    let mut responses: Vec<u64> = world.log.iter().filter_map(response_ns).collect();
    responses.sort_unstable();
    let mean_ns = responses.iter().sum::<u64>() / responses.len() as u64;
    let p99_ns = responses[responses.len() * 99 / 100];
    (mean_ns * 1_000 / SECOND, p99_ns * 1_000 / SECOND, world.hedged.len())
}

/// What each online policy is for: the least loaded of all is better than of two; a slow server is avoided by all;
/// against stalls that nobody can foresee only hedging helps, and that within its budget.
#[test]
fn online_policies_do_what_they_are_for() {
    let [least, p2c, peak] = [Pick::LeastLoaded, Pick::TwoChoices, Pick::PeakEwma];
    let online = |pick| move |_: &Batch| Settings::online(pick);
    for slowness in [1, 10] {
        let of = |pick| responses(online(pick), Chaos::default(), slowness);
        let [least, p2c, peak] = [least, p2c, peak].map(of);
        println!("slowness {slowness}: least-loaded {least:?}, p2c {p2c:?}, peak-ewma {peak:?}");
        assert!(least.0 < p2c.0 && peak.0 < p2c.0);
    }
    let stalls = Chaos { slow: 3, ..Chaos::default() };
    let [least, p2c, peak] = [least, p2c, peak].map(|pick| responses(online(pick), stalls, 1));
    let hedged = responses(Settings::hedged, stalls, 1);
    println!("stalls: least-loaded {least:?}, p2c {p2c:?}, peak-ewma {peak:?}, hedged {hedged:?}");
    assert!(hedged.1 * 2 < p2c.1 && hedged.0 < p2c.0);
    assert!((25..=100).contains(&hedged.2));
}

/// When all requests of `uniform(20, 10, 1_000, 3)` arrive at once and a server is ten times slower than said: the end.
fn end_of_arrivals_at_once(settings: Settings) -> u64 {
    let (batch, cluster) = uniform(20, 10, 1_000, 3).build();
    let mut world = World::new(&batch, &cluster, &Schedule::default(), settings, Chaos::default(), 1);
    world.next.clear();
    (0..batch.n_requests() as u32).for_each(|request| world.say(0, Next::Arrive(request)));
    world.slowness[3] = 10;
    world.run() / SECOND
}

/// Who decides on arrival has given a slow server a tenth of all before it is known to be slow; who decides when servers are
/// free has given it what it can do: 1000 blocks at a speed of 9.1, and the last one that it began.
#[test]
fn deciding_when_free_does_not_wait_for_a_slow_server() {
    for pick in [Pick::LeastLoaded, Pick::TwoChoices, Pick::PeakEwma] {
        let online = Settings::online(pick);
        assert!(end_of_arrivals_at_once(online) > 900);
        let late = end_of_arrivals_at_once(Settings { decide: Decide::WhenFree, ..online });
        assert!((110..=120).contains(&late), "{late}");
    }
}

/// What waits behind a transfer that hangs goes elsewhere if hedging is on, which uses up none of the budget.
#[test]
fn what_waits_behind_a_late_transfer_goes_elsewhere() {
    let scene = arriving(3, 2, &[(0, 1, &[0]), (1, 1, &[0, 1]), (2, 1, &[0, 1])]);
    let (batch, cluster) = scene.build();
    for (hedge_blocks, at_1) in [(0, 0), (1, 2)] {
        let settings = Settings { hedge_blocks, ..Settings::online(Pick::LeastLoaded) };
        let mut executor =
            Executor::new(&batch, &cluster, &Schedule::default(), settings, 0).expect("no plan");
        let mut out = Vec::new();
        executor.on_event(0, Event::ServerDown { server: ServerId(1) }, &mut out).expect("it is there");
        for request in 0..3 {
            executor.on_event(0, arrival(&batch, request), &mut out).expect("it is new");
        }
        executor.on_event(1, Event::ServerUp { server: ServerId(1) }, &mut out).expect("it is there");
        let mut n_at_1 = 0;
        let mut seen = 0;
        for now_ns in (2..6).map(|second| second * SECOND) {
            executor.on_event(now_ns, Event::Wake, &mut out).expect("always fits");
            while let Some(&action) = out.get(seen) {
                seen += 1;
                if let Action::Start { transfer, server: ServerId(1), .. } = action {
                    n_at_1 += 1;
                    executor.on_event(now_ns, Event::Done { transfer }, &mut out).expect("it was started");
                }
            }
        }
        assert_eq!(n_at_1, at_1);
        assert_eq!(executor.hedge_left(), hedge_blocks.into());
    }
}

/// The worlds above are bad enough: all that may be needed is needed, and plans are still few.
#[test]
fn everything_goes_wrong_sometimes() {
    let (batch, cluster) = uniform(3, 4, 60, 2).build();
    let plan = plan(&batch, &cluster);
    let chaos = Chaos {
        slow: 30,
        fail: 15,
        lose: 5,
        double: 30,
        late: 5,
        progress: 30,
        outages: 60,
        cause: 70,
        cancel: 1,
        members: 50,
    };
    let settings =
        Settings { hedge_blocks: 10, most_failures: 1, patience_ns: 5 * SECOND, ..Settings::default() };
    let (mut n_hedged, mut n_replans, mut n_cancelled, mut n_kept) = (0, 0, 0, 0);
    let mut reasons = BTreeMap::<&str, u32>::new();
    for seed in 0..200 {
        let mut world = World::new(&batch, &cluster, &plan, settings, chaos, seed);
        world.run();
        n_hedged += world.hedged.len();
        n_replans += world.executor.counts().plans;
        n_cancelled += world.cancelled.len();
        n_kept += world.n_kept;
        for reason in world.failed.values() {
            let name = match reason {
                Reason::NoServer => "no server",
                Reason::Failures { .. } => "failures",
                Reason::NoCopy { .. } => "no copy",
                Reason::Refused { .. } => "refused",
                Reason::ClientLeft => "client left",
            };
            *reasons.entry(name).or_default() += 1;
        }
    }
    println!("{n_hedged} hedges, {n_replans} plans, {n_cancelled} cancelled, {n_kept} kept, {reasons:?}");
    assert!(n_hedged > 50 && n_cancelled > 20 && n_kept > 50);
    assert!(
        ["no server", "failures", "no copy", "refused", "client left"]
            .iter()
            .all(|name| reasons.contains_key(name))
    );
    assert!((200..200 * 20).contains(&n_replans));
}

/// A plan of another batch is refused.
#[test]
fn bad_plans_are_refused() {
    let (batch, cluster) = uniform(1, 4, 2, 2).build();
    let row = |request, server, blocks: u64| Transfer {
        request,
        server: ServerId(server),
        start: Fixed::ZERO,
        blocks: blocks.into(),
    };
    let refused = |rows: &[Transfer]| {
        let plan = Schedule { transfers: rows.to_vec(), ..Schedule::default() };
        Executor::new(&batch, &cluster, &plan, Settings::default(), 0).expect_err("a bad plan")
    };
    let held = batch.replicas().of(0)[0];
    assert_eq!(refused(&[row(2, 0, 1)]), BadPlan::NoSuchRequest(2));
    assert_eq!(refused(&[row(0, 9, 1)]), BadPlan::NotHeld { request: 0, server: ServerId(9) });
    assert_eq!(refused(&[row(0, held.0, 0)]), BadPlan::NotWhole(0));
    assert_eq!(refused(&[row(0, held.0, 2)]), BadPlan::NotWhole(0));
    assert_eq!(refused(&[row(0, held.0, 1), row(0, held.0, 1)]), BadPlan::NotWhole(0));
}

/// Extreme settings and times neither overflow nor hang.
#[test]
fn the_largest_numbers_do_not_overflow() {
    let mut scene = uniform(1, 2, 2, 2);
    scene.case.requests[0].blocks = u64::MAX / 2;
    let (batch, cluster) = scene.build();
    let plan = plan(&batch, &cluster);
    for block_ns in [0.0, 1e-300, 0.3, 1.0, f64::MAX, f64::INFINITY, f64::NAN] {
        let settings = Settings {
            block_ns,
            late: Late::Share(f64::NAN),
            hedge_blocks: u64::MAX,
            most_failures: u32::MAX,
            patience_ns: u64::MAX,
            ..Settings::default()
        };
        let mut executor = Executor::new(&batch, &cluster, &plan, settings, 7).expect("a good plan");
        let mut out = Vec::new();
        for now_ns in [7, 8, u64::MAX - 1, u64::MAX, u64::MAX] {
            executor.on_event(now_ns, Event::Wake, &mut out).expect("always fits");
            executor
                .on_event(now_ns, Event::ServerDown { server: ServerId(0) }, &mut out)
                .expect("it is there");
            executor
                .on_event(now_ns, Event::ServerUp { server: ServerId(0) }, &mut out)
                .expect("it is there");
        }
        let mut n_done = 0;
        while let Some(&action) = out.get(n_done) {
            if let Action::Start { transfer, .. } = action {
                _ = executor.on_event(u64::MAX, Event::Done { transfer }, &mut out);
            }
            n_done += 1;
        }
        assert!(executor.is_idle(), "{block_ns}");
    }
}

/// A world of requests that arrive, each held by the servers listed; clients and servers have one slot each.
fn arriving(n_clients: usize, n_servers: usize, requests: &[(usize, u64, &[usize])]) -> Scene {
    let request = |&(client, blocks, replicas): &(usize, u64, &[usize])| Request {
        client,
        blocks,
        replicas: replicas.to_vec(),
    };
    Scene {
        case: Case { n_clients, n_servers, requests: requests.iter().map(request).collect() },
        servers: vec![model::Server::default(); n_servers],
        clients: vec![model::Client { slots: 1 }; n_clients],
        limit: None,
    }
}

/// What an executor starts, in the order of events.
fn started(out: &[Action]) -> Vec<(TransferId, u32)> {
    let start = |action: &Action| match *action {
        Action::Start { transfer, request, .. } => Some((transfer, row(request))),
        _ => None,
    };
    out.iter().filter_map(start).collect()
}

/// A client looks only at the first few of its list. If these leave because their server is down, it looks at what
/// stood behind them, or nobody ever would.
#[test]
fn what_stood_behind_a_dead_servers_work_starts() {
    let mut requests: Vec<(usize, u64, &[usize])> = vec![(1, 9, &[0]), (0, 1, &[1])];
    requests.extend([(0, 1, &[0][..]); 20]);
    requests.push((0, 1, &[2]));
    let last = requests.len() as u32 - 1;
    let (batch, cluster) = arriving(2, 3, &requests).build();
    let mut told = Told::new(&batch, &cluster, &Schedule::default(), Settings::online(Pick::LeastLoaded));
    let started: Vec<(TransferId, u32, u32)> = (0..=last).flat_map(|request| told.arrive(request)).collect();
    assert_eq!(started.len(), 2);
    let done = told.tell(Event::Done { transfer: started[1].0 });
    assert_eq!(done, [], "all that the client looks at is at a busy server");
    assert_eq!(told.tell(Event::ServerDown { server: ServerId(0) })[0].1, last);
}

/// A server that comes and goes breaks its transfer off each time: a request does not try for ever. All pieces that
/// are lost at once count as one failure.
#[test]
fn a_server_that_comes_and_goes_is_given_up() {
    let (batch, cluster) = arriving(1, 1, &[(0, 100, &[0])]).build();
    let plan = plan(&batch, &cluster);
    let settings = Settings { most_failures: 3, ..Settings::default() };
    let mut world = World::new(&batch, &cluster, &plan, settings, Chaos::default(), 0);
    for k in 1..=10 {
        world.say(k * SECOND, Next::Down(0));
        world.say(k * SECOND + SECOND / 2, Next::Up(0));
    }
    world.run();
    assert_eq!(world.failed.get(&0), Some(&Reason::Failures { server: ServerId(0) }));
    assert_eq!(world.log.last().map(|(ns, _)| *ns), Some(4 * SECOND));

    let mut scene = arriving(1, 2, &[(0, 6, &[0, 1])]);
    (scene.clients[0].slots, scene.servers[0].slots) = (6, 6);
    let (batch, cluster) = scene.build();
    let row = |_| Transfer { request: 0, server: ServerId(0), start: Fixed::ZERO, blocks: 1.into() };
    let plan = Schedule { transfers: (0..6).map(row).collect(), length: 1.into() };
    let settings = Settings { most_failures: 1, ..Settings::default() };
    let mut world = World::new(&batch, &cluster, &plan, settings, Chaos::default(), 0);
    world.say(SECOND / 2, Next::Down(0));
    world.run();
    assert_eq!(world.delivered.len(), 1);
}

/// Whoever is late and tells so often is not asked for each time.
#[test]
fn progress_of_what_is_late_costs_few_looks() {
    let (batch, cluster) = arriving(1, 1, &[(0, 1, &[0])]).build();
    let plan = plan(&batch, &cluster);
    let mut executor = Executor::new(&batch, &cluster, &plan, Settings::default(), 0).expect("a good plan");
    let mut out = Vec::new();
    executor.on_event(0, Event::Wake, &mut out).expect("always fits");
    let (transfer, _) = started(&out)[0];
    let mut n_woken = 0;
    for k in 1..1_000 {
        let now_ns = k * SECOND / 10;
        while let Some(at_ns) = executor.wake_at().filter(|&at_ns| at_ns < now_ns) {
            executor.on_event(at_ns, Event::Wake, &mut out).expect("always fits");
            n_woken += 1;
        }
        let blocks = Fixed::from_nanos(u128::from(k) * 1_000_000).expect("small");
        executor.on_event(now_ns, Event::Progress { transfer, blocks }, &mut out).expect("it gets on");
    }
    assert!(n_woken < 1_000, "{n_woken}");
    assert_eq!(out.len(), 1, "it is never given up");
}

/// One client has all the work, which arrived bit by bit, and others take it: in a time that does not grow with its square.
#[test]
fn taking_from_a_long_list_is_quick() {
    let n_requests = 40_000;
    let mut requests: Vec<(usize, u64, &[usize])> = vec![(0, 1, &[0]); n_requests];
    requests[0] = (0, 1, &[1]);
    let (batch, cluster) = arriving(2, 2, &requests).build();
    let settings = Settings { shares_work: true, ..Settings::online(Pick::LeastLoaded) };
    let mut executor =
        Executor::new(&batch, &cluster, &Schedule::default(), settings, 0).expect("no plan is a good one");
    let mut out = Vec::new();
    for request in 0..n_requests as u32 {
        executor.on_event(0, arrival(&batch, request), &mut out).expect("it is new");
    }
    // The first keeps its client busy; each of the others starts when the one before is done.
    let busy = started(&out)[0].0;
    let mut n_done = 0;
    while let Some(&(transfer, _)) = started(&std::mem::take(&mut out)).last().filter(|(t, _)| *t != busy) {
        executor.on_event(0, Event::Done { transfer }, &mut out).expect("it is under way");
        n_done += 1;
    }
    assert_eq!(n_done, n_requests - 1);
}

/// An executor of requests that arrive, told one event after the other.
struct Told<'a> {
    batch: &'a Batch,
    executor: Executor,
    now_ns: u64,
    /// All that was started so far: transfers, requests and servers.
    starts: Vec<(TransferId, u32, u32)>,
}

impl<'a> Told<'a> {
    fn new(batch: &'a Batch, cluster: &Cluster, plan: &Schedule, settings: Settings) -> Self {
        let executor = Executor::new(batch, cluster, plan, settings, 0).expect("a good plan");
        Self { batch, executor, now_ns: 0, starts: Vec::new() }
    }

    /// What starts then.
    fn tell(&mut self, event: Event<'_>) -> Vec<(TransferId, u32, u32)> {
        let n_before = self.starts.len();
        self.actions(event);
        self.starts[n_before..].to_vec()
    }

    /// What is to be done then.
    fn actions(&mut self, event: Event<'_>) -> Vec<Action> {
        let mut out = Vec::new();
        self.executor.on_event(self.now_ns, event, &mut out).expect("it fits");
        while let Some(Action::Plan { .. }) = out.last() {
            out.pop();
            let snapshot = self.executor.snapshot().expect("it was just asked for");
            let plan = snapshot.plan();
            self.executor
                .on_event(self.now_ns, Event::Planned { plan: &plan }, &mut out)
                .expect("it was asked for");
        }
        let start = |action: &Action| match *action {
            Action::Start { transfer, request, server, .. } => Some((transfer, row(request), server.0)),
            _ => None,
        };
        self.starts.extend(out.iter().filter_map(start));
        out
    }

    fn arrive(&mut self, request: u32) -> Vec<(TransferId, u32, u32)> {
        self.tell(arrival(self.batch, request))
    }

    /// Time passes, and the executor is woken when it wants to be.
    fn wait(&mut self, seconds: u64) {
        let until_ns = self.now_ns + seconds * SECOND;
        while let Some(at_ns) = self.executor.wake_at().filter(|&at_ns| at_ns <= until_ns) {
            self.now_ns = at_ns;
            self.tell(Event::Wake);
        }
        self.now_ns = until_ns;
    }
}

/// What has failed is tried elsewhere, if anybody else has it.
#[test]
fn what_failed_starts_elsewhere() {
    let (batch, cluster) = arriving(1, 2, &[(0, 1, &[0, 1])]).build();
    let mut told = Told::new(&batch, &cluster, &Schedule::default(), Settings::online(Pick::LeastLoaded));
    let first = told.arrive(0)[0];
    let second = told.tell(Event::Failed { transfer: first.0, cause: Cause::Unreachable })[0];
    assert_eq!((first.2, second.2), (0, 1));
}

/// The rest of what was moved starts elsewhere; if all was moved but its end was not told, all of it.
#[test]
fn what_was_moved_is_kept() {
    let (batch, cluster) = arriving(1, 2, &[(0, 8, &[0, 1])]).build();
    for (moved, offset, blocks) in [(0, 0, 8), (3, 3, 5), (8, 0, 8)] {
        let mut told = Told::new(&batch, &cluster, &Schedule::default(), Settings::online(Pick::LeastLoaded));
        let (transfer, ..) = told.arrive(0)[0];
        told.tell(Event::Progress { transfer, blocks: moved.into() });
        let started = told.actions(Event::Failed { transfer, cause: Cause::Unreachable });
        let rest = started.iter().find_map(|action| match *action {
            Action::Start { server, offset, blocks, .. } => Some((server, offset, blocks)),
            _ => None,
        });
        assert_eq!(rest, Some((ServerId(1), offset.into(), blocks.into())), "{moved} moved");
    }
}

/// A hedge fetches what is left, and only that counts against the budget.
#[test]
fn a_hedge_fetches_the_rest() {
    let mut scene = arriving(1, 2, &[(0, 8, &[0, 1])]);
    scene.clients[0].slots = 2;
    let (batch, cluster) = scene.build();
    let settings = Settings { hedge_blocks: 4, ..Settings::online(Pick::LeastLoaded) };
    let mut told = Told::new(&batch, &cluster, &Schedule::default(), settings);
    let (first, ..) = told.arrive(0)[0];
    told.wait(5);
    told.tell(Event::Progress { transfer: first, blocks: 5.into() });
    told.wait(25);
    let hedges = told.starts.iter().filter(|(transfer, ..)| *transfer != first);
    let hedges: Vec<(TransferId, u32, u32)> = hedges.copied().collect();
    assert_eq!(hedges.len(), 1);
    assert_eq!(told.executor.hedge_left(), 1.into());
    let over = told.actions(Event::Done { transfer: hedges[0].0 });
    assert!(over.contains(&Action::Withdraw { transfer: first }), "{over:?}");
    assert!(over.iter().any(|action| matches!(action, Action::Deliver { request: RequestId(0), .. })));
}

/// Each cause has its consequence: who does not have it or sent it damaged is not asked again, who is busy is left alone.
#[test]
fn each_cause_has_its_consequence() {
    let (batch, cluster) = arriving(1, 2, &[(0, 2, &[0, 1]), (0, 2, &[0])]).build();
    let online = Settings::online(Pick::LeastLoaded);
    let of = |cause| {
        let mut told = Told::new(&batch, &cluster, &Schedule::default(), online);
        let (transfer, _, server) = told.arrive(0)[0];
        assert_eq!(server, 0);
        let first = told.actions(Event::Failed { transfer, cause });
        let (transfer, _, server) = *told.starts.last().expect("it goes on");
        assert_eq!(server, 1);
        (told.actions(Event::Failed { transfer, cause }), first, told)
    };
    let server = ServerId(1);
    let (second, ..) = of(Cause::NotHeld);
    assert_eq!(second, [Action::Fail { request: id(0), reason: Reason::NoCopy { server } }]);
    let (second, first, _) = of(Cause::Damaged);
    let report = |server| Action::Report { request: id(0), server, offset: Fixed::ZERO, blocks: 2.into() };
    assert_eq!(first[0], report(ServerId(0)));
    assert_eq!(second, [report(server), Action::Fail { request: id(0), reason: Reason::NoCopy { server } }]);
    // Server 0 is asked again when it wants to be, not before.
    let (second, _, mut told) = of(Cause::Refused { retry_after_ns: 3 * SECOND });
    assert_eq!(second, []);
    let n_starts = told.starts.len();
    told.wait(2);
    assert_eq!(told.starts.len(), n_starts);
    told.wait(2);
    assert_eq!(told.starts.len(), n_starts + 1);
}

/// A server that sent damaged data is not asked for it again, even if it loses its replica and gets another.
#[test]
fn damage_is_remembered_when_a_replica_returns() {
    let (batch, cluster) = arriving(1, 2, &[(0, 2, &[0, 1])]).build();
    let mut told = Told::new(&batch, &cluster, &Schedule::default(), Settings::online(Pick::LeastLoaded));
    let (transfer, _, server) = told.arrive(0)[0];
    assert_eq!(server, 0);
    let elsewhere = told.tell(Event::Failed { transfer, cause: Cause::Damaged });
    assert_eq!(elsewhere[0].2, 1);
    assert_eq!(told.tell(Event::ServerDown { server: ServerId(1) }), []);
    let (request, server) = (id(0), ServerId(0));
    assert_eq!(told.tell(Event::ReplicaLost { request, server }), []);
    assert_eq!(told.tell(Event::ReplicaAdded { request, server }), []);
    assert_eq!(told.tell(Event::ServerUp { server: ServerId(1) })[0].2, 1);
}

/// Who refuses for ever does not keep a request waiting for ever.
#[test]
fn refusals_have_an_end() {
    let (batch, cluster) = arriving(1, 1, &[(0, 2, &[0])]).build();
    let settings = Settings { patience_ns: 10 * SECOND, ..Settings::online(Pick::LeastLoaded) };
    let mut told = Told::new(&batch, &cluster, &Schedule::default(), settings);
    told.arrive(0);
    for n_refused in 1.. {
        let (transfer, ..) = *told.starts.last().expect("it was started");
        let cause = Cause::Refused { retry_after_ns: u64::MAX };
        let actions = told.actions(Event::Failed { transfer, cause });
        if told.executor.is_idle() {
            let reason = Reason::Refused { server: ServerId(0) };
            assert_eq!(actions, [Action::Fail { request: id(0), reason }]);
            assert_eq!(n_refused, 2);
            break;
        }
        told.wait(10);
    }
}

/// A request that one server refuses for ever is served by another that does not.
#[test]
fn who_refuses_does_not_speak_for_others() {
    let (batch, cluster) = arriving(1, 2, &[(0, 2, &[0, 1])]).build();
    let settings = Settings { patience_ns: 10 * SECOND, ..Settings::online(Pick::LeastLoaded) };
    let mut told = Told::new(&batch, &cluster, &Schedule::default(), settings);
    let cause = Cause::Refused { retry_after_ns: u64::MAX };
    let (transfer, _, server) = told.arrive(0)[0];
    assert_eq!(server, 0);
    assert_eq!(told.tell(Event::Failed { transfer, cause })[0].2, 1);
    assert_eq!(told.tell(Event::ServerDown { server: ServerId(1) }), []);
    told.wait(10);
    let (transfer, _, server) = *told.starts.last().expect("it was started");
    assert_eq!(server, 0);
    told.tell(Event::ServerUp { server: ServerId(1) });
    assert_eq!(told.tell(Event::Failed { transfer, cause })[0].2, 1);
}

/// What is no longer wanted is broken off, and makes way.
#[test]
fn what_is_cancelled_makes_way() {
    let (batch, cluster) = arriving(1, 1, &[(0, 2, &[0]), (0, 2, &[0])]).build();
    let mut told = Told::new(&batch, &cluster, &Schedule::default(), Settings::online(Pick::LeastLoaded));
    let (first, ..) = told.arrive(0)[0];
    assert_eq!(told.arrive(1), []);
    let actions = told.actions(Event::Cancelled { request: id(0) });
    assert_eq!(actions[0], Action::Withdraw { transfer: first });
    assert!(matches!(actions[1], Action::Start { request: RequestId(1), .. }), "{actions:?}");
    let mut out = Vec::new();
    let again = told.executor.on_event(told.now_ns, Event::Cancelled { request: id(0) }, &mut out);
    assert_eq!(again, Err(Misfit::NotOpen(id(0))));
}

/// A second copy that would be done later than the first is not worth it.
#[test]
fn nothing_is_hedged_where_that_takes_longer() {
    let mut scene = uniform(1, 2, 1, 2);
    scene.servers[1].speed = Speed::from_millionths(10_000).expect("a speed");
    let (batch, cluster) = scene.build();
    let plan = plan(&batch, &cluster);
    let settings = Settings { hedge_blocks: 10, ..rigid() };
    let mut world = World::new(&batch, &cluster, &plan, settings, Chaos::default(), 0);
    world.slowness[0] = 3;
    assert_eq!((world.run(), world.log.len()), (3 * SECOND, 2), "a start and a delivery");
}

/// A slow server that keeps its pace is never late. In the end the others do not wait for it, if that is worth it.
#[test]
fn what_a_slow_server_has_begun_is_finished_elsewhere() {
    for (keeps_order, hedge_blocks, end, n_hedged) in
        [(false, 20, 11, 1), (false, 9, 20, 0), (true, 20, 20, 0)]
    {
        let mut scene = arriving(1, 2, &[(0, 10, &[0, 1]), (0, 1, &[0, 1])]);
        scene.clients[0].slots = 2;
        scene.servers[1].speed = Speed::from_millionths(500_000).expect("a speed");
        let (batch, cluster) = scene.build();
        let row = |request, server, blocks: u64| Transfer {
            request,
            server: ServerId(server),
            start: Fixed::ZERO,
            blocks: blocks.into(),
        };
        let plan = Schedule { transfers: vec![row(0, 1, 10), row(1, 0, 1)], length: 20.into() };
        let settings = Settings { keeps_order, hedge_blocks, ..Settings::default() };
        let mut world = World::new(&batch, &cluster, &plan, settings, Chaos::default(), 0);
        assert_eq!((world.run() / SECOND, world.hedged.len()), (end, n_hedged), "{hedge_blocks}");
    }
}

/// A request that fails makes way for what stood behind its pieces.
#[test]
fn what_stood_behind_a_failed_request_starts() {
    let mut requests: Vec<(usize, u64, &[usize])> = vec![(0, 21, &[1, 2]), (1, 9, &[0]), (2, 1, &[3])];
    requests.extend([(3, 1, &[0][..]); 20]);
    requests.push((3, 1, &[1]));
    let last = requests.len() as u32 - 1;
    let (batch, cluster) = arriving(4, 4, &requests).build();
    let row =
        |server| Transfer { request: 0, server: ServerId(server), start: Fixed::ZERO, blocks: 1.into() };
    let transfers = std::iter::once(2).chain([1; 20]).map(row).collect();
    let plan = Schedule { transfers, length: 21.into() };
    let settings = Settings { most_failures: 0, ..Settings::online(Pick::LeastLoaded) };
    let mut told = Told::new(&batch, &cluster, &plan, settings);
    let piece = told.tell(Event::Wake)[0];
    assert_eq!((piece.1, piece.2), (0, 2));
    let (_, other) = (told.arrive(1), told.arrive(2)[0]);
    // From now on lists tell only who is first.
    assert_eq!(told.tell(Event::Failed { transfer: other.0, cause: Cause::TimedOut }), []);
    (3..=last).for_each(|request| assert_eq!(told.arrive(request), [], "{request}"));
    let started = told.tell(Event::Failed { transfer: piece.0, cause: Cause::TimedOut });
    assert_eq!(started.iter().map(|start| start.1).collect::<Vec<_>>(), [last]);
}

/// A server that comes and goes does not have everything planned anew each time.
#[test]
fn plans_are_few_however_often_a_server_is_back() {
    let (batch, cluster) = uniform(20, 10, 1_000, 3).build();
    let plan = plan(&batch, &cluster);
    let mut world = World::new(&batch, &cluster, &plan, Settings::default(), Chaos::default(), 0);
    for k in 1..100 {
        world.say(k * SECOND, Next::Down(3));
        world.say(k * SECOND + SECOND / 2, Next::Up(3));
    }
    world.run();
    let n_replans = world.executor.counts().plans;
    assert!((10..60).contains(&n_replans), "{n_replans}");
}

/// A transfer that ends a bit later than planned leaves the order as it is; by more than half its length, nobody waits
/// any longer for who should be first.
#[test]
fn the_plan_is_left_when_a_transfer_ends_late() {
    let (batch, cluster) = arriving(3, 3, &[(0, 1, &[0]), (0, 1, &[1]), (1, 1, &[1]), (2, 1, &[2])]).build();
    let row = |request, server, start: u64| Transfer {
        request,
        server: ServerId(server),
        start: start.into(),
        blocks: 1.into(),
    };
    let transfers = vec![row(0, 0, 0), row(1, 1, 1), row(2, 1, 2), row(3, 2, 0)];
    let plan = Schedule { transfers, length: 3.into() };
    for (tenths, requests) in [(14, &[][..]), (16, &[2])] {
        // Not late while it is under way.
        let settings = Settings { late: Late::Share(2.0), replan_after: None, ..Settings::default() };
        let mut told = Told::new(&batch, &cluster, &plan, settings);
        let started = told.tell(Event::Wake);
        let &(transfer, _, _) = started.iter().find(|start| start.1 == 3).expect("it is first");
        told.now_ns = tenths * SECOND / 10;
        let started: Vec<u32> = told.tell(Event::Done { transfer }).iter().map(|start| start.1).collect();
        assert_eq!(started, requests);
    }
}

/// What a server turned out to be is believed after one transfer that was late, and `peak-ewma` believes the slowest
/// even if others were quick since.
#[test]
fn slow_servers_are_remembered() {
    let held: [&[usize]; 7] = [&[0], &[0], &[0, 1], &[0, 1], &[0, 1], &[0, 1], &[0, 1]];
    let requests: Vec<(usize, u64, &[usize])> =
        (0..).zip(held).map(|(client, held)| (client, 1, held)).collect();
    let (batch, cluster) = arriving(7, 2, &requests).build();
    let late = Settings::online(Pick::LeastLoaded);
    let peak = Settings { late: Late::Share(100.0), ..Settings::online(Pick::PeakEwma) };
    for (settings, n_slow) in [(late, 2), (peak, 1)] {
        let mut told = Told::new(&batch, &cluster, &Schedule::default(), settings);
        for request in 0..2 {
            let (transfer, _, _) = told.arrive(request)[0];
            told.wait(if request < n_slow { 10 } else { 1 });
            told.tell(Event::Done { transfer });
        }
        let started: Vec<u32> =
            (2..7).flat_map(|request| told.arrive(request)).map(|start| start.2).collect();
        assert_eq!(started, [1], "all others wait there, too");
    }
}

/// What took no time by a coarse clock does not make a server infinitely fast.
#[test]
fn no_time_at_all_is_not_believed() {
    let held: [&[usize]; 8] = [&[0], &[0], &[0, 1], &[0, 1], &[0, 1], &[0, 1], &[0, 1], &[0, 1]];
    let requests: Vec<(usize, u64, &[usize])> =
        (0..).zip(held).map(|(client, held)| (client, 1, held)).collect();
    let mut scene = arriving(8, 2, &requests);
    scene.servers[0].slots = 2;
    let (batch, cluster) = scene.build();
    let mut told = Told::new(&batch, &cluster, &Schedule::default(), Settings::online(Pick::LeastLoaded));
    told.arrive(0);
    told.wait(4);
    let (transfer, _, _) = told.arrive(1)[0];
    told.tell(Event::Done { transfer });
    let started: Vec<u32> = (2..8).flat_map(|request| told.arrive(request)).map(|start| start.2).collect();
    assert_eq!(started, [0, 1]);
}

/// Under a limit on all transfers servers take turns: one that has much to do does not keep the others waiting.
#[test]
fn servers_take_turns_under_a_limit() {
    let requests: [(usize, u64, &[usize]); 6] =
        [(0, 1, &[0]), (1, 1, &[1]), (2, 1, &[0]), (3, 1, &[1]), (4, 1, &[0]), (5, 1, &[1])];
    let mut scene = arriving(6, 2, &requests);
    scene.limit = Some(1);
    let (batch, cluster) = scene.build();
    let mut told = Told::new(&batch, &cluster, &Schedule::default(), Settings::online(Pick::LeastLoaded));
    let mut started = told.arrive(0);
    (1..6).for_each(|request| assert_eq!(told.arrive(request), []));
    let mut order = Vec::new();
    while let Some(&(transfer, request, _)) = started.first() {
        order.push(request);
        started = told.tell(Event::Done { transfer });
    }
    assert_eq!(order, [0, 1, 2, 3, 4, 5]);
}

/// Of the longest list the nearest is taken.
#[test]
fn who_has_nothing_to_do_takes_what_is_near() {
    let requests: [(usize, u64, &[usize]); 4] = [(0, 1, &[2]), (1, 1, &[3]), (0, 1, &[0]), (0, 1, &[1])];
    let (batch, cluster) = arriving(2, 4, &requests).build();
    let cluster = cluster.on_hosts(["near", "b", "c", "d"], ["far", "near"]);
    let settings = Settings { shares_work: true, ..Settings::online(Pick::LeastLoaded) };
    let mut told = Told::new(&batch, &cluster, &Schedule::default(), settings);
    let started: Vec<(TransferId, u32, u32)> = (0..4).flat_map(|request| told.arrive(request)).collect();
    assert_eq!(started.len(), 2, "both clients are busy");
    assert_eq!(told.tell(Event::Done { transfer: started[1].0 })[0].1, 2);
}

/// Whatever has come and gone, an executor is as large as what is open.
#[test]
fn memory_follows_what_is_open() {
    let requests: Vec<(usize, u64, &[usize])> = vec![(1, 2, &[1, 2]), (2, 1, &[2, 1])];
    let (batch, cluster) = arriving(3, 3, &requests).build();
    for (decide, shares_work) in
        [(Decide::OnArrival, false), (Decide::WhenFree, false), (Decide::OnArrival, true)]
    {
        let settings = Settings { decide, shares_work, ..Settings::online(Pick::LeastLoaded) };
        let mut told = Told::new(&batch, &cluster, &Schedule::default(), settings);
        let mut sizes = Vec::new();
        let mut under_way: Vec<TransferId> = Vec::new();
        // One never ends, and another waits for it, first of all at its server, if no other client takes it.
        for server in [ServerId(0), ServerId(1)] {
            let request = id(1_000_000 + server.0);
            let replicas = &[server];
            let started = told.tell(Event::Arrived { request, client: ClientId(0), blocks: 1, replicas });
            under_way.extend(started.iter().map(|start| start.0));
        }
        under_way.remove(0);
        for number in 0..6_000 {
            told.now_ns += SECOND / 4;
            let Event::Arrived { client, blocks, replicas, .. } = arrival(&batch, number % 2) else {
                panic!()
            };
            let request = id(number);
            let started = told.tell(Event::Arrived { request, client, blocks, replicas });
            under_way.extend(started.iter().map(|start| start.0));
            if number % 5 == 4 {
                // Of those that arrived of late one is no longer wanted.
                let actions = told.actions(Event::Cancelled { request });
                under_way.extend(started_ids(&actions));
                under_way.retain(|&transfer| !actions.contains(&Action::Withdraw { transfer }));
            }
            while told.executor.counts().open > 20 {
                let started = told.tell(Event::Done { transfer: under_way.remove(0) });
                under_way.extend(started.iter().map(|start| start.0));
            }
            if number % 1_000 == 999 {
                sizes.push(format!("{:?}", told.executor).len());
            }
        }
        assert!(sizes.iter().all(|&size| size < 2 * sizes[0]), "{decide:?}, {shares_work}: {sizes:?}");
    }
}

fn started_ids(actions: &[Action]) -> impl Iterator<Item = TransferId> {
    started(actions).into_iter().map(|start| start.0)
}

/// Under a limit, who could start something of another server's still waits for something of its own.
#[test]
fn under_a_limit_nobody_is_forgotten() {
    let requests: Vec<(usize, u64, &[usize])> =
        vec![(0, 1, &[0, 2]), (1, 1, &[1]), (2, 1, &[2]), (0, 1, &[2])];
    let (batch, cluster) = Scene { limit: Some(1), ..arriving(3, 3, &requests) }.build();
    let settings = Settings { decide: Decide::WhenFree, ..Settings::online(Pick::LeastLoaded) };
    let mut told = Told::new(&batch, &cluster, &Schedule::default(), settings);
    let mut started: Vec<(TransferId, u32, u32)> =
        [3, 1, 0, 2].into_iter().flat_map(|r| told.arrive(r)).collect();
    let mut requests = Vec::new();
    while let Some((transfer, request, _)) = started.pop() {
        requests.push(request);
        started.extend(told.tell(Event::Done { transfer }));
    }
    assert_eq!(requests, [3, 1, 0, 2]);
}

/// A piece that waited for a server which then turns out not to hold its request does not wait for ever. A campaign found
/// this world.
#[test]
fn nobody_waits_for_a_server_that_does_not_hold_it() {
    let of_blocks = |blocks, replicas| (0, blocks, replicas);
    let (zero, one, both): (&[usize], &[usize], &[usize]) = (&[0], &[1], &[0, 1]);
    let requests = [
        of_blocks(1, both),
        of_blocks(4, zero),
        of_blocks(4, one),
        of_blocks(2, both),
        of_blocks(1, one),
        of_blocks(2, one),
        of_blocks(1, one),
        of_blocks(3, zero),
        of_blocks(3, both),
        of_blocks(2, one),
        of_blocks(1, one),
        of_blocks(4, both),
        of_blocks(4, both),
        of_blocks(0, one),
        of_blocks(4, zero),
        of_blocks(0, one),
    ];
    let mut scene = arriving(1, 2, &requests);
    scene.clients[0].slots = 3;
    for (server, millionths, backlog) in [(0, 2_000_000, 5), (1, 2_500_000, 4)] {
        scene.servers[server].speed = Speed::from_millionths(millionths).expect("a speed");
        scene.servers[server].backlog = backlog;
    }
    let settings = Settings {
        decide: Decide::WhenFree,
        late: Late::Share(0.0),
        hedge_after: Late::AfterNs(SECOND),
        hedge_blocks: 3,
        ..Settings::default()
    };
    let chaos = Chaos { slow: 80, fail: 80, late: 80, outages: 60, cause: 30, ..Chaos::default() };
    assert_survives(&scene, settings, chaos, 13_933_609_032_192_744_922, 0);
}
