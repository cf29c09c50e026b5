//! What every policy of the table keeps to, on clusters of all kinds.

use evenkeel::bound::Bound;
use evenkeel::check::{self, Measures, Subject};
use evenkeel::draw::Ties;
use evenkeel::model::{self, Batch, Choice, Client, Cluster, Ratio, Schedule, Server, Speed};
use evenkeel::order::colour;
use evenkeel::plan::{Options, Plan, meets, plan};
use evenkeel::policy::{self, Ask, Kind, OPTIMAL, Ordered, POLICIES, Policy, find};
use evenkeel::select::replanned::{Replanned, TakeBack};
use evenkeel::select::{Goal, aequi, first, optimal};
use proptest::prelude::*;
use proptest::sample::select;

use crate::bidding::batches;
use crate::exact::Exact;
use crate::support::{self, Case, Request, Scene, Speeds, batch, config, kinds, moved, scenes, unordered};

const ALL_SPEEDS: &[Speeds] = &[Speeds::One, Speeds::Same, Speeds::Tame, Speeds::Wild];

fn asks() -> impl Strategy<Value = Ask> {
    let goals = select(&[Goal::Length, Goal::MaxLoad, Goal::Mean][..]);
    let edges = prop_oneof![8 => 0..=4_u32, 1 => Just(u32::MAX)];
    (goals, any::<u64>(), any::<bool>(), edges.clone(), edges, 0..9_u64).prop_map(
        |(goal, seed, lowest_id, passes, bids, imbalance)| {
            let ties = if lowest_id { Ties::LowestId } else { Ties::Hashed(seed) };
            Ask { goal, seed, ties, passes, bids, imbalance }
        },
    )
}

/// All policies that plan a batch.
fn planning() -> impl Iterator<Item = &'static Policy> {
    POLICIES.iter().filter(|policy| policy.plans())
}

/// What a policy comes to: a choice, perhaps its proof, and an order, if the policy gives one.
struct Answered {
    choice: Choice,
    bound: Option<Bound>,
    ordered: Option<Ordered>,
}

fn answered(policy: &Policy, batch: &Batch, cluster: &Cluster, ask: &Ask) -> Answered {
    match policy.kind {
        Kind::Select(select) => {
            let (choice, bound) = select(batch, cluster, ask);
            Answered { choice, bound, ordered: None }
        }
        Kind::Order(order) => {
            let choice = optimal::select(batch, cluster, ask.goal).0;
            let ordered = order(batch, cluster, &choice, ask);
            Answered { choice, bound: None, ordered: Some(ordered) }
        }
        Kind::Plan(plan) => {
            let (choice, ordered) = plan(batch, cluster, ask);
            Answered { choice, bound: None, ordered: Some(ordered) }
        }
        _ => panic!("{} plans nothing", policy.name),
    }
}

/// How far a length may be off what is measured: nothing where all is whole; else a millionth for each transfer, and what
/// is rounded of an interrupted block. Where nodes have several slots, a plan may not even show the interruption: it is of
/// less than a billionth of a block.
fn slack(scene: &Scene, schedule: &Schedule) -> Exact {
    if scene.one_speed() == Some(Speed::ONE) {
        return Exact::ZERO;
    }
    let slowest = scene.servers.iter().map(|s| s.speed).min().expect("a server");
    let is_interrupted = schedule.transfers.iter().any(|t| t.blocks.whole().is_none());
    let slots = scene.servers.iter().map(|s| s.slots).chain(scene.clients.iter().map(|c| c.slots));
    let rounded =
        if is_interrupted || slots.max() > Some(1) { Exact::new(2, 1_000_000_000) } else { Exact::ZERO };
    let n = schedule.transfers.len() as u128;
    Exact::new(n + 1, 1_000_000) + rounded * Exact::time(1, slowest)
}

/// Whether every request is one block or none and every slot takes one.
fn is_unit(scene: &Scene) -> bool {
    let is_plain = scene.servers.iter().all(|s| s.speed == Speed::ONE && s.backlog == 0);
    is_plain && scene.limit.is_none() && scene.case.requests.iter().all(|r| r.blocks <= 1)
}

/// The schedule is valid, as long as it says, no shorter than proved, and moves what was chosen.
fn assert_ordered(scene: &Scene, batch: &Batch, cluster: &Cluster, choice: &Choice, schedule: &Schedule) {
    let measures = check::plan(batch, cluster, &schedule.transfers, true).unwrap_or_else(|f| panic!("{f}"));
    assert_eq!(moved(&schedule.transfers), moved(&unordered(batch, choice)));
    assert!(schedule.transfers.is_sorted_by_key(|t| (t.request, t.start)));
    let slack = slack(scene, schedule);
    let (length, measured) = (Exact::from(schedule.length), Exact::from(measures.length));
    assert!(length.distance(measured) <= slack, "{} is measured as {}", schedule.length, measures.length);
    let bound = optimal::bound(batch, cluster, Goal::Length).value;
    assert!(length + slack >= Exact::from(bound), "{} is shorter than {bound}", schedule.length);
}

/// Asks a policy and asserts all that holds for every policy.
fn keeps_to_the_rules(policy: &Policy, scene: &Scene, ask: &Ask) {
    let (batch, cluster) = scene.build();
    let Answered { choice, bound, ordered } = answered(policy, &batch, &cluster, ask);

    let measures = check::plan(&batch, &cluster, &unordered(&batch, &choice), false);
    let max_load = choice.last_done(&batch, &cluster);
    assert_eq!(measures, Ok(Measures { length: Ratio::ZERO, max_load }));
    assert_eq!(Exact::from(max_load), scene.last_done(&choice.loads(&batch)));
    let least = optimal::bound(&batch, &cluster, Goal::MaxLoad).value;
    assert!(max_load >= least, "{max_load} is less than {least}");
    // An order orders the optimal choice.
    let may_split = policy.name == "optimal" || matches!(policy.kind, Kind::Order(_));
    assert!(may_split || choice.split_off.is_empty());
    if let Some(bound) = &bound {
        let subject = if ask.goal == Goal::Length { Subject::Length } else { Subject::MaxLoad };
        check::bound(&batch, &cluster, bound, subject).unwrap_or_else(|fault| panic!("{fault}"));
    }

    let again = answered(policy, &batch, &cluster, ask);
    assert_eq!(again.choice, choice);
    match &ordered {
        None => {
            let schedule = colour::order(&batch, &cluster, &choice);
            assert_ordered(scene, &batch, &cluster, &choice, &schedule);
        }
        Some(ordered) => {
            assert_ordered(scene, &batch, &cluster, &choice, &ordered.schedule);
            assert_rounds(policy, scene, ask, ordered, choice.parts(&batch).count() as u64);
            let again = again.ordered.expect("as before");
            assert_eq!(again.schedule, ordered.schedule);
            assert_eq!((again.rounds, again.messages), (ordered.rounds, ordered.messages));
        }
    }
}

/// Rounds and messages are as many as they can be.
fn assert_rounds(policy: &Policy, scene: &Scene, ask: &Ask, ordered: &Ordered, n_parts: u64) {
    if let Some(n_messages) = ordered.messages {
        assert!(n_messages % 2 == 0 && n_messages >= 2 * n_parts, "{n_messages} messages");
    }
    let Some((n_rounds, compacted)) = ordered.rounds else { return };
    assert!(u64::from(n_rounds) <= n_parts, "each round grants something");
    assert!(compacted <= ordered.schedule.length);
    // Who bids at several servers at once may win more in a round than it has slots for.
    let wins_too_much = policy.name == "hdlwf-multi" && ask.bids > 1;
    if is_unit(scene) && !wins_too_much {
        let n_rounds = Ratio::from(u64::from(n_rounds));
        assert!(compacted <= n_rounds, "{compacted} without waiting, {n_rounds} rounds");
        let is_plain = scene.case.requests.iter().all(|r| r.blocks == 1);
        assert!(!is_plain || ordered.schedule.length == n_rounds, "a round is a slot");
    }
}

proptest! {
    #![proptest_config(config(3_000))]

    #[test]
    fn every_policy_keeps_to_the_rules(scene in scenes(kinds(ALL_SPEEDS)), ask in asks()) {
        planning().for_each(|policy| keeps_to_the_rules(policy, &scene, &ask));
    }

    /// The same with more requests a server.
    #[test]
    fn every_policy_keeps_to_the_rules_on_larger_batches(scene in batches(6, 5, 20), ask in asks()) {
        planning().for_each(|policy| keeps_to_the_rules(policy, &scene, &ask));
    }

    /// Sizes up to 64 bits are like others; what is too slow for them is turned away before.
    #[test]
    fn every_policy_copes_with_sizes_up_to_64_bits(
        mut scene in scenes(kinds(&[Speeds::One])),
        ask in asks(),
    ) {
        let backlog = scene.servers.iter().map(|s| s.backlog).max().unwrap_or(0);
        let scale = u64::MAX / (scene.case.total_blocks() + backlog).max(1);
        scene.case.requests.iter_mut().for_each(|request| request.blocks *= scale);
        scene.servers.iter_mut().for_each(|server| server.backlog *= scale);
        if scene.try_build().is_ok() {
            planning().for_each(|policy| keeps_to_the_rules(policy, &scene, &ask));
        }
    }
}

fn equal_scene(n_clients: usize, n_servers: usize, requests: Vec<Request>) -> Scene {
    Scene {
        case: Case { n_clients, n_servers, requests },
        servers: vec![model::Server::default(); n_servers],
        clients: vec![model::Client::default(); n_clients],
        limit: None,
    }
}

/// No requests, one server, one client, all the same, nothing but empty requests.
#[test]
fn every_policy_copes_with_the_simplest() {
    let request =
        |client, blocks, replicas: &[usize]| Request { client, blocks, replicas: replicas.to_vec() };
    let scenes = [
        equal_scene(0, 0, Vec::new()),
        equal_scene(1, 0, Vec::new()),
        equal_scene(0, 1, Vec::new()),
        equal_scene(3, 2, Vec::new()),
        equal_scene(1, 1, vec![request(0, 1, &[0])]),
        equal_scene(1, 1, vec![request(0, 0, &[0])]),
        equal_scene(5, 1, (0..5).map(|client| request(client, 1, &[0])).collect()),
        equal_scene(1, 4, (0..9).map(|_| request(0, 1, &[0, 1, 2, 3])).collect()),
        equal_scene(3, 3, (0..9).map(|i| request(i % 3, 1, &[0, 1, 2])).collect()),
        equal_scene(3, 3, (0..9).map(|i| request(i % 3, 0, &[0, 1, 2])).collect()),
        equal_scene(2, 2, vec![request(0, u64::MAX, &[0, 1]), request(1, 0, &[1])]),
    ];
    for (k, scene) in scenes.iter().enumerate() {
        for policy in planning() {
            println!("{} on scene {k}", policy.name);
            if scene.case.n_servers > 0 {
                keeps_to_the_rules(policy, scene, &Ask::default());
            } else {
                let (batch, cluster) = scene.build();
                let Answered { choice, ordered, .. } = answered(policy, &batch, &cluster, &Ask::default());
                assert_eq!(choice, Choice::default());
                assert!(ordered.is_none_or(|ordered| ordered.schedule == Schedule::default()));
            }
        }
    }
}

/// Whoever asks by name or by alias gets the policy, and no two share one. Its room is there.
#[test]
fn every_policy_is_found_by_its_names() {
    let names = || POLICIES.iter().flat_map(|policy| [Some(policy.name), policy.alias]).flatten();
    for policy in POLICIES {
        let room = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(policy.room);
        assert!(room.is_dir(), "{} of {}", policy.room, policy.name);
        for name in [Some(policy.name), policy.alias].into_iter().flatten() {
            assert_eq!(find(name).map(|found| found.name), Some(policy.name));
            assert_eq!(names().filter(|other| *other == name).count(), 1, "{name}");
        }
    }
    assert!(find("").is_none() && find("no such policy").is_none());
}

/// The page of all policies is that of the registry.
#[test]
fn the_documentation_has_all_policies() {
    let page = document("docs/policies.md");
    let mut at = 0;
    let mut follows = |line: String| {
        let place = page[at..].find(&line);
        at +=
            place.unwrap_or_else(|| panic!("docs/policies.md lacks, or has elsewhere:\n{line}")) + line.len();
    };
    for (room, question) in policy::ROOMS {
        follows(format!("\n## `{room}`: {question}\n\n| policy | what it does | from |\n|---|---|---|\n"));
        for Policy { name, alias, summary, source, .. } in POLICIES.iter().filter(|p| p.room == room) {
            let alias = alias.map(|alias| format!(", `{alias}`")).unwrap_or_default();
            follows(format!("| `{name}`{alias} | {summary} | {source} |\n"));
        }
    }
    assert_eq!(page.matches("\n| `").count(), POLICIES.len(), "docs/policies.md has rows of no policy");
}

fn document(name: &str) -> String {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name);
    std::fs::read_to_string(path).expect("it is there")
}

/// The documentation says when each policy decides, if only by "and others that bid".
#[test]
fn the_documentation_says_when_each_policy_decides() {
    let simulate = document("docs/simulate.md");
    let table = simulate.split_once("## Who decides when").expect("its heading").1;
    let table = table.split_once("\n\nA client that sends").expect("what follows the table").0;
    for Policy { name, room, .. } in planning() {
        let is_told = table.contains(&format!("`{name}`")) || *room == "bid";
        assert!(is_told, "docs/simulate.md, \"Who decides when\": `{name}` is in no row");
    }
}

/// A server with two slots may have a backlog of which the sum with its blocks is beyond 64 bits, though neither of its slots
/// is busy that long.
fn busy_for_half_of_all_times() -> Scene {
    let mut scene = equal_scene(1, 1, vec![Request { client: 0, blocks: 2, replicas: vec![0] }]);
    scene.servers[0] = model::Server { slots: 2, backlog: u64::MAX, ..model::Server::default() };
    scene
}

/// It is served like any other, also over time.
#[test]
fn the_longest_backlog_is_coped_with() {
    let scene = busy_for_half_of_all_times();
    for policy in planning() {
        println!("{}", policy.name);
        keeps_to_the_rules(policy, &scene, &Ask::default());
    }
    let selections: [fn(&Batch, &Cluster) -> Choice; 3] = [
        |batch, _| first::select(batch),
        |batch, cluster| optimal::select(batch, cluster, Goal::Length).0,
        aequi::fill,
    ];
    selections.into_iter().for_each(|select| assert_replans(&scene, select));
}

/// The one request is given to the one server, once.
fn assert_replans(scene: &Scene, select: fn(&Batch, &Cluster) -> Choice) {
    let (batch, cluster) = scene.build();
    for take_back in [TakeBack::Nothing, TakeBack::Overload, TakeBack::Everything] {
        let mut replanned = Replanned::new(&batch, &cluster, take_back, select);
        assert_eq!(replanned.arrived(0), Ok(()));
        assert_eq!(replanned.replan().len(), 1);
        assert_eq!(replanned.replan(), []);
    }
}

/// What a policy plans, as the command would.
fn plan_by(policy: &Policy, batch: &Batch, cluster: &Cluster) -> Plan {
    let options = Options { policy, ..Options::default() };
    plan(batch, cluster, &options).unwrap_or_else(|error| panic!("{}: {error}", policy.name))
}

proptest! {
    #![proptest_config(config(400))]

    /// Where the optimum is not proved, no other policy comes closer to it.
    #[test]
    fn no_policy_beats_optimal(
        scene in scenes(kinds(&[Speeds::One, Speeds::Same, Speeds::Tame]).prop_map(|kind| support::Kind { backlogs: true, limit: false, ..kind }))
    ) {
        let (batch, cluster) = scene.build();
        let best = plan_by(&OPTIMAL, &batch, &cluster);
        for policy in planning() {
            let other = plan_by(policy, &batch, &cluster);
            prop_assert!(best.achieved <= other.achieved || best.is_optimal(), "{} {:?}", policy.name, other);
        }
    }
}

/// One client has to wait for a server that is fast but busy: what is fast for it is late.
#[test]
fn a_fast_server_that_is_free_late_is_not_taken() {
    let batch = batch(&[("c0", 1, &["s1"]), ("c0", 1, &["s3", "s1"]), ("c0", 1, &["s3"])]);
    let speed = |millionths| Speed::from_millionths(millionths).expect("a valid speed");
    let servers = vec![
        Server { speed: speed(2_100_000), slots: 2, backlog: 4 },
        Server { speed: speed(2_000_000), slots: 1, backlog: 0 },
    ];
    let cluster = Cluster::new(&batch, servers, vec![Client::default()], None).expect("a valid cluster");
    assert_eq!(plan_by(&OPTIMAL, &batch, &cluster).achieved.rounded().to_string(), "1.476190476");
}

/// Another policy's choice is best in yet another's order.
#[test]
fn each_choice_is_tried_in_each_order() {
    let batch = batch(&[
        ("c0", 1, &["s1"]),
        ("c0", 3, &["s2"]),
        ("c0", 2, &["s0"]),
        ("c0", 1, &["s1", "s2"]),
        ("c0", 2, &["s2", "s1"]),
    ]);
    let fast = Speed::from_millionths(2_000_000).expect("a valid speed");
    let servers = vec![
        Server::default(),
        Server { slots: 2, backlog: 1, ..Server::default() },
        Server { speed: fast, slots: 1, backlog: 2 },
    ];
    let cluster = Cluster::new(&batch, servers, vec![Client { slots: 2 }], None).expect("a valid cluster");
    assert_eq!(plan_by(&OPTIMAL, &batch, &cluster).achieved, Ratio::from(4));
}

/// A gap of one slot is a gap, however long the plan is.
#[test]
fn long_plans_are_not_optimal_by_rounding() {
    assert!(!meets(Ratio::from(1_099_098_051_514), Ratio::from(1_099_098_051_513)));
    assert!(meets(Ratio::new(1_000_000_001, 1_000_000_000), Ratio::from(1)));
}
