//! Nothing damaged passes the checks where servers differ either: judged by the rules once more, in exact fractions and
//! from event to event.
//!
//! The checker forgives a millionth of rounding, so damage is larger by far, or there is none.

use evenkeel::bound::{Bound, Proof};
use evenkeel::check::{self, Fault, Subject};
use evenkeel::model::{Batch, Client, ClientId, Cluster, Fixed, Server, ServerId, Speed, Transfer};
use evenkeel::select::{Goal, optimal};
use proptest::prelude::*;

use crate::exact::Exact;
use crate::support::{Request, Scene, Speeds, batch, config, kinds, moved, planned, scenes};

/// Speeds at which a thousandth of time is much more than a millionth of a block.
const SPEEDS: &[Speeds] = &[Speeds::One, Speeds::Tame];

/// Nanos in a unit.
const UNIT: u128 = 1_000_000_000;

/// What the rules say of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Valid,
    Invalid,
    /// It breaks a rule, but hardly by more than may be forgiven.
    Close,
}

impl Verdict {
    /// Of something that should be 0 and is at least `least` and at most `most`.
    fn of(least: Exact, most: Exact) -> Self {
        if most <= Exact::new(1, 2_000_000) {
            Self::Valid
        } else if least >= Exact::new(1, 2_000) {
            Self::Invalid
        } else {
            Self::Close
        }
    }

    fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::Invalid, _) | (_, Self::Invalid) => Self::Invalid,
            (Self::Valid, other) => other,
            (Self::Close, _) => Self::Close,
        }
    }
}

/// Whether a plan with order keeps to the rules.
fn judge(scene: &Scene, rows: &[Transfer]) -> Verdict {
    if !rows.iter().all(|t| may_serve(scene, t))
        || !scene.case.requests.iter().enumerate().all(is_named_in(rows))
    {
        return Verdict::Invalid;
    }
    let served = scene.case.requests.iter().enumerate().map(|(i, request)| {
        let served: u128 = rows.iter().filter(|t| t.request as usize == i).map(|t| t.blocks.nanos()).sum();
        Exact::new(served, UNIT).distance(request.blocks.into())
    });
    let broken = moved(rows).into_values().map(|nanos| Exact::new(nanos, UNIT).off_whole());
    let early = rows.iter().filter(|t| !t.blocks.is_zero()).map(|t| {
        let (start, free) = (Exact::from(t.start), scene.free(t.server.index()));
        free.max(start) - start
    });
    let amounts = served.chain(broken).chain(early).map(|off| Verdict::of(off, off));
    let client = |t: &Transfer| scene.case.requests[t.request as usize].client;
    let clients = (0..scene.clients.len()).map(|id| {
        let mine: Vec<&Transfer> = rows.iter().filter(|t| client(t) == id).collect();
        at_most(scene, &mine, scene.clients[id].slots.into())
    });
    let servers = (0..scene.servers.len()).map(|id| {
        let mine: Vec<&Transfer> = rows.iter().filter(|t| t.server.index() == id).collect();
        at_most(scene, &mine, scene.servers[id].slots.into())
    });
    let all = scene.limit.map(|limit| at_most(scene, &rows.iter().collect::<Vec<_>>(), limit));
    // A block is never in two transfers at once.
    let blocks = moved(rows).into_iter().map(|((request, server), nanos)| {
        let mine: Vec<&Transfer> =
            rows.iter().filter(|t| (t.request, t.server) == (request, server)).collect();
        at_most(scene, &mine, ((nanos + UNIT / 2) / UNIT) as u64)
    });
    amounts.chain(clients).chain(servers).chain(all).chain(blocks).fold(Verdict::Valid, Verdict::or)
}

/// Whether a row is of a replica, moves something if there is something, is whole where all is, and ends before the end
/// of numbers, rounded.
fn may_serve(scene: &Scene, t: &Transfer) -> bool {
    let Some(request) = scene.case.requests.get(t.request as usize) else { return false };
    let is_nothing = t.blocks.is_zero() && (request.blocks > 0 || !t.start.is_zero());
    let is_too_much = request.blocks == 0 && !t.blocks.is_zero();
    let is_whole = t.start.whole().is_some() && t.blocks.whole().is_some();
    let must_be_whole = scene.servers.iter().all(|s| s.speed.millionths() == 1_000_000);
    request.replicas.contains(&t.server.index())
        && !is_nothing
        && !is_too_much
        && (is_whole || !must_be_whole)
        && run(scene, t).1 + Exact::new(1, 2 * UNIT) < Exact::new(1 << 64, 1)
}

/// Whether a request has a row, and only one if it has no blocks.
fn is_named_in(rows: &[Transfer]) -> impl Fn((usize, &Request)) -> bool {
    |(i, request)| {
        let n_rows = rows.iter().filter(|t| t.request as usize == i).count();
        n_rows == 1 || n_rows > 1 && request.blocks > 0
    }
}

/// When a transfer starts and ends.
fn run(scene: &Scene, t: &Transfer) -> (Exact, Exact) {
    let start = Exact::from(t.start);
    (start, start + Exact::from(t.blocks) * Exact::time(1, scene.servers[t.server.index()].speed))
}

/// Whether no more than `slots` of these transfers are under way at any time.
fn at_most(scene: &Scene, rows: &[&Transfer], slots: u64) -> Verdict {
    let runs: Vec<(Exact, Exact)> = rows.iter().map(|t| run(scene, t)).collect();
    let mut events: Vec<Exact> = runs.iter().flat_map(|&(start, end)| [start, end]).collect();
    events.sort_unstable();
    // The longest time between two events with too many, and the longest time on end.
    let (mut least, mut most, mut on_end) = (Exact::ZERO, Exact::ZERO, Exact::ZERO);
    for pair in events.windows(2) {
        let between = pair[1] - pair[0];
        let n_under_way = runs.iter().filter(|(start, end)| *start <= pair[0] && pair[1] <= *end).count();
        if between == Exact::ZERO {
            continue;
        }
        if n_under_way as u64 <= slots {
            on_end = Exact::ZERO;
            continue;
        }
        on_end = on_end + between;
        (least, most) = (least.max(between), most.max(on_end));
    }
    Verdict::of(least, most)
}

/// The number plus `nanos`, if it stays one.
fn shifted(number: Fixed, nanos: i128) -> Option<Fixed> {
    number.nanos().checked_add_signed(nanos).and_then(Fixed::from_nanos)
}

/// The row with one field damaged, in many ways.
fn damaged_rows(scene: &Scene, row: Transfer) -> Vec<Transfer> {
    const SHIFTS: [i128; 8] = [
        -2_000_000_000,
        -1_000_000_000,
        -500_000_000,
        -1_000_000,
        1_000_000,
        500_000_000,
        1_000_000_000,
        2_000_000_000,
    ];
    let requests = (0..=scene.case.requests.len() as u32).map(|request| Transfer { request, ..row });
    let servers = (0..scene.servers.len() as u32).map(|server| Transfer { server: ServerId(server), ..row });
    let starts = SHIFTS.iter().filter_map(|&by| shifted(row.start, by)).chain([Fixed::ZERO, u64::MAX.into()]);
    let amounts =
        SHIFTS.iter().filter_map(|&by| shifted(row.blocks, by)).chain([Fixed::ZERO, u64::MAX.into()]);
    requests
        .chain(servers)
        .chain(starts.map(|start| Transfer { start, ..row }))
        .chain(amounts.map(|blocks| Transfer { blocks, ..row }))
        .filter(|&wrong| wrong != row)
        .collect()
}

/// The row as two, at once or one after the other, the second from each server: whole blocks or broken ones.
fn halves(scene: &Scene, row: Transfer) -> Vec<[Transfer; 2]> {
    let all = row.blocks.nanos();
    let cuts = [UNIT, UNIT / 2, UNIT + 1_000_000].into_iter().filter(|&cut| cut < all);
    let mut halves = Vec::new();
    for cut in cuts {
        let fixed = |nanos| Fixed::from_nanos(nanos).expect("less than before");
        let first = Transfer { blocks: fixed(cut), ..row };
        let takes = cut * 1_000_000 / u128::from(scene.servers[row.server.index()].speed.millionths());
        let after = Fixed::from_nanos(row.start.nanos() + takes).expect("before the end");
        let blocks = fixed(all - cut);
        for server in (0..scene.servers.len() as u32).map(ServerId) {
            let second = Transfer { server, blocks, ..row };
            halves.extend([[first, second], [first, Transfer { start: after, ..second }]]);
        }
    }
    halves
}

/// The plan with one row damaged, dropped, doubled or cut, and with all rows at the same time.
fn damaged(scene: &Scene, rows: &[Transfer]) -> Vec<Vec<Transfer>> {
    let mut plans = vec![rows.iter().map(|&t| Transfer { start: Fixed::ZERO, ..t }).collect()];
    for (k, &row) in rows.iter().enumerate() {
        let instead = |with: &[Transfer]| [&rows[..k], with, &rows[k + 1..]].concat();
        plans.extend(damaged_rows(scene, row).iter().map(|&wrong| instead(&[wrong])));
        plans.extend(halves(scene, row).iter().map(|halves| instead(halves)));
        plans.extend([instead(&[]), instead(&[row, row])]);
    }
    plans
}

proptest! {
    #![proptest_config(config(1200))]

    #[test]
    fn damaged_plans_are_rejected_unless_they_are_valid_too(scene in scenes(kinds(SPEEDS))) {
        let (batch, cluster) = scene.build();
        let rows = planned(&batch, &cluster).schedule.transfers;
        prop_assert_eq!(judge(&scene, &rows), Verdict::Valid);
        let fingerprint = Transfer::fingerprint(rows.iter().copied());
        for plan in damaged(&scene, &rows) {
            let checked = check::plan(&batch, &cluster, &plan, true);
            match judge(&scene, &plan) {
                Verdict::Valid => prop_assert!(checked.is_ok(), "{:?} {:?}", checked, plan),
                Verdict::Invalid => prop_assert!(checked.is_err(), "{:?}", plan),
                Verdict::Close => {}
            }
            let is_other = plan != rows;
            let is_told_apart = Transfer::fingerprint(plan.iter().copied()) != fingerprint;
            prop_assert_eq!(is_told_apart, is_other, "{:?}", plan);
        }
    }

    #[test]
    fn proofs_are_accepted_for_what_they_prove(
        scene in scenes(kinds(&[Speeds::One, Speeds::Same, Speeds::Tame]))
    ) {
        let (batch, cluster) = scene.build();
        let values: [Exact; 2] =
            [Goal::Length, Goal::MaxLoad].map(|goal| optimal::select(&batch, &cluster, goal).1.value.into());
        let millionth = Exact::new(1, 1_000_000);
        for (proof, proved) in all_proofs(&scene) {
            let bears_on_load = matches!(proof, Proof::Servers(_));
            let is_close = |value: &Exact| proved < *value && *value < proved + millionth;
            let mut claims = vec![proved, proved + millionth, proved + 1.into(), u64::MAX.into()];
            claims.extend(values.into_iter().filter(|value| !is_close(value)));
            for claim in claims {
                let value = claim.ratio().expect("of tame speeds");
                let bound = Bound { value, proof: proof.clone() };
                let accepted = |subject| check::bound(&batch, &cluster, &bound, subject).is_ok();
                prop_assert_eq!(accepted(Subject::Length), claim <= proved, "{:?}, {:?}", bound, proved);
                prop_assert_eq!(accepted(Subject::MaxLoad), claim <= proved && bears_on_load, "{:?}", bound);
            }
        }
    }
}

/// Every proof there is, and what it proves.
fn all_proofs(scene: &Scene) -> Vec<(Proof, Exact)> {
    let ids = |set: &[usize]| set.iter().map(|&s| ServerId(s as u32)).collect();
    let of_servers = scene.case.server_sets().map(|set| (Proof::Servers(ids(&set)), scene.forced_on(&set)));
    let waits: Vec<Option<usize>> = [None].into_iter().chain((0..scene.servers.len()).map(Some)).collect();
    let of_clients = (0..scene.clients.len()).flat_map(|client| {
        waits.iter().map(move |&server| {
            let waits_for = server.map(|s| ServerId(s as u32));
            let wait = server.map_or(Exact::ZERO, |s| scene.free(s));
            let proved = scene.client_bound(client, wait).unwrap_or(Exact::ZERO);
            (Proof::Client { client: ClientId(client as u32), waits_for }, proved)
        })
    });
    let of_limit = scene.limit_bound().map(|proved| (Proof::Concurrency, proved));
    of_servers.chain(of_clients).chain(of_limit).collect()
}

/// Two clients with one request of two blocks each on both of two servers.
fn two_by_two() -> Batch {
    batch(&[("c0", 2, &["s0", "s1"]), ("c1", 2, &["s0", "s1"])])
}

/// The fault in a plan of rows: request, server, start and blocks in billionths.
fn fault(cluster: &Cluster, rows: &[(u32, u32, u128, u128)]) -> Option<Fault> {
    let fixed = |nanos| Fixed::from_nanos(nanos).expect("small");
    let rows: Vec<Transfer> = rows
        .iter()
        .map(|&(request, server, start, blocks)| Transfer {
            request,
            server: ServerId(server),
            start: fixed(start),
            blocks: fixed(blocks),
        })
        .collect();
    check::plan(&two_by_two(), cluster, &rows, true).err()
}

fn cluster(servers: &[Server; 2], client_slots: u32, limit: Option<u64>) -> Cluster {
    Cluster::new(&two_by_two(), servers.to_vec(), vec![Client { slots: client_slots }; 2], limit)
        .expect("a valid cluster")
}

#[test]
fn each_rule_has_its_fault() {
    const TWO: u128 = 2 * UNIT;
    let plain = Server::default();
    let equal = cluster(&[plain.clone(), plain.clone()], 1, None);
    let at_once = [(0, 0, 0, TWO), (1, 1, 0, TWO)];
    assert_eq!(fault(&equal, &at_once), None);

    let limited = cluster(&[plain.clone(), plain.clone()], 1, Some(1));
    let overlap = fault(&limited, &at_once);
    assert!(matches!(overlap, Some(Fault::Overlap { slots: 1, rows: [0, 1], .. })), "{overlap:?}");
    assert_eq!(fault(&limited, &[(0, 0, 0, TWO), (1, 1, TWO, TWO)]), None);

    let same_server = [(0, 0, 0, TWO), (1, 0, UNIT, TWO)];
    let overlap = fault(&equal, &same_server);
    assert!(
        matches!(overlap, Some(Fault::Overlap { slots: 1, time, .. }) if time == 1.into()),
        "{overlap:?}"
    );
    let two_slots = cluster(&[Server { slots: 2, ..plain.clone() }, plain.clone()], 1, None);
    assert_eq!(fault(&two_slots, &same_server), None);

    let same_client = [(0, 0, 0, UNIT), (0, 1, 0, UNIT), (1, 0, UNIT, TWO)];
    assert!(matches!(fault(&equal, &same_client), Some(Fault::Overlap { .. })));
    assert_eq!(fault(&cluster(&[plain.clone(), plain.clone()], 2, None), &same_client), None);

    let busy = cluster(&[plain.clone(), Server { backlog: 3, slots: 2, ..plain.clone() }], 1, None);
    let early = fault(&busy, &[(0, 0, 0, TWO), (1, 1, UNIT, TWO)]);
    assert!(matches!(early, Some(Fault::TooEarly { row: 1, free, .. }) if free == 2.into()), "{early:?}");
    assert_eq!(fault(&busy, &[(0, 0, 0, TWO), (1, 1, TWO, TWO)]), None);

    let fast = Server { speed: Speed::from_millionths(2_500_000).expect("valid"), ..plain.clone() };
    let unequal = cluster(&[fast, plain], 1, None);
    let broken = [(0, 0, 0, UNIT / 2), (0, 1, UNIT, UNIT * 3 / 2), (1, 0, 4 * UNIT, TWO)];
    assert!(matches!(fault(&unequal, &broken), Some(Fault::BrokenBlock { request: 0, .. })));
    let interrupted = [(0, 0, 0, UNIT / 2), (0, 0, UNIT, UNIT * 3 / 2), (1, 0, 4 * UNIT, TWO)];
    assert_eq!(fault(&unequal, &interrupted), None);
    assert!(matches!(fault(&equal, &interrupted), Some(Fault::NotWhole { row: 0, .. })));
    // Half a millionth of a block is in nobody's way, half a thousandth is.
    let sliver = |nanos| [(0, 0, 0, TWO - nanos), (0, 1, UNIT, nanos), (1, 1, 0, TWO)];
    assert_eq!(fault(&unequal, &sliver(500)), None);
    assert!(matches!(fault(&unequal, &sliver(500_000)), Some(Fault::BrokenBlock { request: 0, .. })));

    // Halves of the same two blocks at once, and halves of one block.
    let fast = Server { speed: Speed::from_millionths(2_000_000).expect("valid"), slots: 3, backlog: 0 };
    let wide = cluster(&[fast.clone(), fast], 3, None);
    let halves = [(0, 0, 0, UNIT), (0, 0, 0, UNIT / 2), (0, 0, UNIT / 2, UNIT / 2), (1, 1, 0, TWO)];
    assert_eq!(fault(&wide, &halves), None);
    let thirds = [(0, 0, 0, UNIT / 2), (0, 0, 0, UNIT / 2), (0, 0, 0, UNIT), (1, 1, 0, TWO)];
    let twice = fault(&wide, &thirds);
    assert!(
        matches!(twice, Some(Fault::BlockOverlap { request: 0, blocks: 2, rows: [_, 2], .. })),
        "{twice:?}"
    );
}

/// A millionth is forgiven here and there, but a thousand transfers that each take a millionth do not fit into one.
#[test]
fn what_is_forgiven_does_not_add_up() {
    let requests = vec![("c0", 100, &["s0"][..]); 1000];
    let batch = batch(&requests);
    let speed = Speed::from_millionths(100_000_000_000_000).expect("a valid speed");
    let servers = vec![Server { speed, ..Server::default() }];
    let cluster = Cluster::new(&batch, servers, vec![Client::default()], None).expect("a valid cluster");
    let mut rows = planned(&batch, &cluster).schedule.transfers;
    rows.iter_mut().for_each(|row| row.start = Fixed::ZERO);
    assert!(matches!(check::plan(&batch, &cluster, &rows, true), Err(Fault::Overlap { .. })));
}
