//! Servers come and go, programs stop and start again: what is known of servers outlives both.

use evenkeel::draw::{Draw, Seeded};
use evenkeel::model::{BadSnapshot, MemberId, Members};
use evenkeel::observe::speed::{Speeds, Tuning};
use evenkeel::observe::{BadReport, Forget, HeatMap, ServerLog, Unit};
use evenkeel::place::{Options, PlaceError, PlaceFn, Placer, Servers, Write, homes};
use evenkeel::policy::{Kind, POLICIES};
use evenkeel::redirect::{BadRow, Extent, NotRestored, RedirectTable, Version};

fn named(n: u32) -> Members {
    let mut members = Members::default();
    (0..n).for_each(|k| _ = members.join(&format!("node-{k}.example")));
    members
}

fn all(members: &Members) -> Vec<(MemberId, &str)> {
    (0..).map(MemberId).zip(members.names()).collect()
}

/// Who has joined keeps its number, and is the same when it comes back or when the table is restored.
#[test]
fn numbers_stay() {
    let mut members = named(3);
    let before = all(&members).len();
    assert_eq!(members.join("node-1.example"), MemberId(1));
    assert_eq!(members.join("new"), MemberId(before as u32));
    let restored = Members::restore(members.names()).expect("as it was");
    assert_eq!(all(&restored), all(&members));
    assert_eq!((restored.find("new"), restored.find("other")), (Some(MemberId(3)), None));
    assert!(Members::restore(["a", "b", "a"]).is_err(), "nobody is there twice");
}

/// One more server takes 1/N of the objects, from everybody alike; one less gives away only what it had.
#[test]
fn few_objects_move_when_servers_come_and_go() {
    const N: u32 = 20;
    let members = named(N + 1);
    let more = all(&members);
    let fewer = &more[..N as usize];
    let names: Vec<String> = (0..20_000).map(|k| format!("bucket/{k}/part")).collect();
    let mut held = vec![0; more.len()];
    let mut n_moved = 0;
    for name in &names {
        let before = homes(name, fewer.iter().copied(), 3);
        let after = homes(name, more.iter().copied(), 3);
        held[after[0].index()] += 1;
        let new: Vec<&MemberId> = after.iter().filter(|server| !before.contains(server)).collect();
        assert!(new.is_empty() || new == [&MemberId(N)], "only the new server gets something");
        n_moved += new.len();
        // The order of the servers does not matter.
        assert_eq!(homes(name, more.iter().rev().copied(), 3), after);
        assert_eq!(homes(name, more.iter().copied(), 1), after[..1]);
    }
    let expected = 3 * names.len() / more.len();
    assert!(n_moved.abs_diff(expected) < expected / 10, "{n_moved} of about {expected}");
    let share = names.len() / more.len();
    assert!(held.iter().all(|n: &usize| n.abs_diff(share) < share / 5), "{held:?} of about {share}");
    // It is written down in users' data, so it stays.
    assert_eq!(homes("a", more.iter().copied(), 3), GOLDEN.map(MemberId));
    assert_eq!(homes("a", [], 3), []);
    assert_eq!(homes("a", fewer[..2].iter().copied(), 3).len(), 2);
}

const GOLDEN: [u32; 3] = [17, 12, 5];

fn placing() -> impl Iterator<Item = (&'static str, PlaceFn)> {
    POLICIES.iter().filter_map(|policy| match policy.kind {
        Kind::Place(place) => Some((policy.name, place)),
        _ => None,
    })
}

fn placer(policy: PlaceFn, n_servers: u32, n_replicas: u32) -> Placer {
    let log = ServerLog::new((0..n_servers).map(u64::from), Unit::Mean, Forget::default());
    let servers = Servers { log, heat: HeatMap::unknown(n_servers, true) };
    Placer::new(policy, Options { n_replicas, ..Options::default() }, servers).expect("good options")
}

fn writes(draw: &mut Seeded, n: u32, n_servers: u32) -> Vec<Write> {
    let write = |_| {
        let object = draw.below(1000).into();
        let default = MemberId(draw.below(n_servers));
        Write { object, default, offset: 0, bytes: u64::from(draw.below(1000)) }
    };
    (0..n).map(write).collect()
}

/// Nothing goes to a server that is down, by any policy; copies are on different servers; who joins gets something.
#[test]
fn nothing_is_placed_on_a_server_that_is_down() {
    for (name, policy) in placing() {
        let (mut draw, mut placer) = (Seeded::new(7), placer(policy, 6, 2));
        let place = |placer: &mut Placer, n_servers, draw: &mut Seeded| {
            let (mut lots, mut out) = (Seeded::new(1), Vec::new());
            placer.window(0, &writes(draw, 200, n_servers), &mut lots, &mut out).map(|()| out)
        };
        for down in [1, 4, 5] {
            placer.set_up(MemberId(down), false).expect("it is there");
            let out = place(&mut placer, 6, &mut draw).expect("enough are up");
            assert!(!out.contains(&MemberId(down)), "{name} places on {down}");
            assert!(out.chunks(2).all(|copies| copies[0] != copies[1]), "{name}");
        }
        placer.set_up(MemberId(0), false).expect("it is there");
        placer.set_up(MemberId(0), false).expect("down is down");
        placer.set_up(MemberId(2), false).expect("it is there");
        let refused = place(&mut placer, 6, &mut draw);
        assert_eq!(refused, Err(PlaceError::TooFewUp { n_replicas: 2, n_up: 1 }), "{name}");
        placer.set_up(MemberId(4), true).expect("it is there");
        assert!(place(&mut placer, 6, &mut draw).expect("two are up").contains(&MemberId(4)), "{name}");
        assert_eq!(placer.add_server(0), MemberId(6), "{name}");
        let out = place(&mut placer, 7, &mut draw).expect("three are up");
        assert!(out.contains(&MemberId(6)), "{name} places nothing on the new server");
        let stray = placer.set_up(MemberId(7), true);
        assert_eq!(stray, Err(BadReport::UnknownServer { server: 7, n_servers: 7 }));
    }
}

/// A placer that is restored places as the one that was kept would, if its policy remembers nothing of its own.
#[test]
fn a_placer_goes_on_where_it_was() {
    for (name, policy) in placing() {
        let mut draw = Seeded::new(3);
        let mut first = placer(policy, 8, 2);
        first.set_up(MemberId(3), false).expect("it is there");
        let window = |placer: &mut Placer, writes: &[Write]| {
            let (mut lots, mut out) = (Seeded::new(5), Vec::new());
            placer.window(9, writes, &mut lots, &mut out).expect("enough are up");
            out
        };
        window(&mut first, &writes(&mut draw, 300, 8));
        let kept = first.snapshot();
        let mut second = placer(policy, 8, 2);
        second.restore(kept.clone()).expect("as it was");
        assert_eq!(second.snapshot().log.loads, kept.log.loads, "{name}");
        assert_eq!((second.snapshot().heat, second.n_redirected()), (kept.heat.clone(), kept.n_redirected));
        let next = writes(&mut draw, 300, 8);
        let of_second = window(&mut second, &next);
        assert!(!of_second.contains(&MemberId(3)), "{name}: it is still down");
        if name != "two-choice" {
            assert_eq!(window(&mut first, &next), of_second, "{name}");
        }
        let mut bad = kept.clone();
        bad.version = 2;
        assert_eq!(second.restore(bad), Err(BadSnapshot::Version(2)));
        let mut bad = kept.clone();
        bad.log.loads.pop();
        assert!(matches!(second.restore(bad), Err(BadSnapshot::Impossible(_))));
        let mut bad = kept.clone();
        bad.down = vec![MemberId(8)];
        assert!(matches!(second.restore(bad), Err(BadSnapshot::Impossible(_))));
        let mut bad = kept;
        bad.log.probabilities[0] = f64::NAN;
        assert!(matches!(second.restore(bad), Err(BadSnapshot::Impossible(_))));
        assert_eq!(second.snapshot().down, [MemberId(3)], "what is refused changes nothing");
    }
}

/// Speeds, and what is thought of servers, survive; a server that joins is not known yet.
#[test]
fn speeds_are_kept() {
    let mut speeds = Speeds::new(4, Tuning::default());
    for k in 1..40 {
        for server in 0..4 {
            let bytes = if server == 2 { 1_000 } else { 10_000_000 };
            speeds.moved(k * 100_000_000, MemberId(server), bytes, 50_000_000).expect("it is there");
        }
    }
    let before: Vec<_> = speeds.judge(4_000_000_000).collect();
    let mut again = Speeds::restore(speeds.snapshot(), Tuning::default()).expect("as it was");
    assert_eq!(again.snapshot(), speeds.snapshot());
    assert_eq!(again.judge(4_000_000_000).collect::<Vec<_>>(), before);
    assert!(before[2].is_straggler() && !before[1].is_straggler());
    again.add();
    assert_eq!(again.estimate(MemberId(4)), Ok(None));
    let mut bad = speeds.snapshot();
    bad.servers[1].long.busy_ns = -1.0;
    assert!(matches!(Speeds::restore(bad, Tuning::default()), Err(BadSnapshot::Impossible(_))));
}

/// A log whose servers become more is still one: probabilities add up to 1, and nobody loses its load.
#[test]
fn a_log_grows() {
    let mut log = ServerLog::new([0, 10, 20], Unit::Mean, Forget::default());
    log.schedule(MemberId(0), 100).expect("it is there");
    let before = log.probabilities();
    log.add(7);
    assert_eq!(log.loads(), [100, 10, 20, 7]);
    let after = log.probabilities();
    assert!((after.iter().sum::<f64>() - 1.0).abs() < 1e-12);
    assert!((after[3] - 0.25).abs() < 1e-12);
    assert!(before.iter().zip(&after).all(|(before, after)| (before * 0.75 - after).abs() < 1e-12));
    let mut none = ServerLog::new([], Unit::Mean, Forget::default());
    none.add(1);
    assert_eq!(none.probabilities(), [1.0]);
}

/// A table of redirects is kept row by row; one that cannot be is refused with the row.
#[test]
fn a_table_of_redirects_is_kept() {
    let mut draw = Seeded::new(2);
    let mut table = RedirectTable::new(MemberId(0));
    for _ in 0..500 {
        let extent = Extent::new(draw.below(100).into(), draw.below(30).into()).expect("short");
        table.wrote(&draw.below(5), extent, MemberId(draw.below(4)));
    }
    let kept = table.snapshot();
    let again = RedirectTable::restore_all(kept.clone()).expect("as it was");
    assert_eq!(again.snapshot(), kept);
    assert_eq!((again.bytes(), again.last_version()), (table.bytes(), table.last_version()));
    let mut bad = kept.clone();
    bad.rows[1].1.server = MemberId(0);
    let refused = RedirectTable::restore_all(bad).expect_err("it is at home");
    assert_eq!(refused, NotRestored::Row { row: 1, why: BadRow::AtHome(0) });
    let mut bad = kept.clone();
    bad.last = Version(u64::MAX);
    assert!(matches!(RedirectTable::restore_all(bad), Err(NotRestored::Last(_))));
    let mut bad = kept;
    bad.version = 0;
    assert_eq!(RedirectTable::restore_all(bad).expect_err("another layout"), BadSnapshot::Version(0).into());
}
