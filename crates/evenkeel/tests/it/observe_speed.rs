//! Speeds and stragglers, on made-up transfers.

use evenkeel::draw::{Draw, Seeded};
use evenkeel::model::MemberId;
use evenkeel::observe::speed::{NoSuchServer, Speeds, Tuning, Verdict};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::support::config;

const SECOND: u64 = 1_000_000_000;
const CHUNK: u64 = 64 << 20;
/// Of a chunk at 128 MiB/s.
const USUAL_NS: u64 = SECOND / 2;

/// Servers that each move chunk after chunk, judged each second.
struct Cluster {
    speeds: Speeds,
    now_ns: u64,
    next_ns: Vec<u64>,
    /// How much longer than usual each takes, in hundredths.
    percent: Vec<u64>,
    chunk: u64,
    noise: Option<Seeded>,
}

impl Cluster {
    fn new(n_servers: usize) -> Self {
        Self {
            speeds: Speeds::new(n_servers, Tuning::default()),
            now_ns: 0,
            next_ns: vec![0; n_servers],
            percent: vec![100; n_servers],
            chunk: CHUNK,
            noise: None,
        }
    }

    /// Each second the verdicts.
    fn run(&mut self, seconds: u64) -> Vec<Vec<Verdict>> {
        (0..seconds).map(|_| self.second()).collect()
    }

    fn second(&mut self) -> Vec<Verdict> {
        self.now_ns += SECOND;
        for (server, next_ns) in (0..).map(MemberId).zip(&mut self.next_ns) {
            loop {
                let noise = self.noise.as_mut().map_or(100, |rng| 80 + u64::from(rng.below(41)));
                let duration_ns = USUAL_NS * self.percent[server.index()] * noise / 10_000;
                if *next_ns + duration_ns > self.now_ns {
                    break;
                }
                *next_ns += duration_ns;
                assert_eq!(self.speeds.moved(*next_ns, server, self.chunk, duration_ns), Ok(true));
            }
        }
        self.speeds.judge(self.now_ns).collect()
    }
}

/// How many seconds it took until a server was thought so of.
fn when(verdicts: &[Vec<Verdict>], server: usize, verdict: Verdict) -> usize {
    verdicts.iter().position(|all| all[server] == verdict).unwrap_or(usize::MAX)
}

#[test]
fn slows_down_and_recovers() {
    let mut cluster = Cluster::new(5);
    let verdicts = cluster.run(3600);
    assert_eq!(verdicts[0], [Verdict::Unknown; 5]);
    assert!(verdicts[2..].iter().flatten().all(|&verdict| verdict == Verdict::Steady));
    cluster.percent[3] = 500;
    let slow = cluster.run(3600);
    let (short, long) = (when(&slow, 3, Verdict::ShortTerm), when(&slow, 3, Verdict::LongTerm));
    assert!(short <= 10, "{short} s");
    assert!((300..900).contains(&long), "{long} s");
    assert!(slow[long..].iter().all(|all| all[3] == Verdict::LongTerm));
    cluster.percent[3] = 100;
    let better = cluster.run(3600);
    let (now, fully) = (when(&better, 3, Verdict::Recovering), when(&better, 3, Verdict::Steady));
    assert!(now <= 20, "{now} s");
    assert!((300..1200).contains(&fully), "{fully} s");
    assert!(better[fully..].iter().all(|all| all[3] == Verdict::Steady));
    let others = verdicts[2..].iter().chain(&slow).chain(&better);
    assert!(
        others.flat_map(|all| [all[0], all[1], all[2], all[4]]).all(|verdict| verdict == Verdict::Steady)
    );
}

/// Whatever a server's speed, noise of a fifth makes it no straggler off and on.
#[test]
fn does_not_flap() {
    for percent in [100, 120, 133, 150, 180, 200, 210, 250, 400] {
        let mut cluster = Cluster::new(7);
        cluster.noise = Some(Seeded::new(percent));
        cluster.percent[2] = percent;
        let verdicts = cluster.run(2000);
        let is_straggler: Vec<bool> = verdicts[5..].iter().map(|all| all[2].is_straggler()).collect();
        let n_changes = is_straggler.windows(2).filter(|pair| pair[0] != pair[1]).count();
        assert!(n_changes <= 1, "{n_changes} changes at {percent} %");
        // Between the borders both are right.
        let is_at_last = is_straggler.last() == Some(&true);
        assert!(if is_at_last { percent > 150 } else { percent < 200 }, "{is_at_last} at {percent} %");
    }
}

#[test]
fn a_burst_is_short_term_only() {
    let mut cluster = Cluster::new(3);
    cluster.run(1800);
    cluster.percent[0] = 500;
    let burst = cluster.run(120);
    cluster.percent[0] = 100;
    let after = cluster.run(100);
    assert!(burst.iter().any(|all| all[0] == Verdict::ShortTerm));
    assert!(burst.iter().chain(&after).all(|all| all[0] != Verdict::LongTerm));
    assert_eq!(after[99], [Verdict::Steady; 3]);
}

#[test]
fn what_slows_all_makes_no_straggler() {
    let mut cluster = Cluster::new(4);
    let mut verdicts = cluster.run(60);
    cluster.percent = vec![1000; 4];
    verdicts.extend(cluster.run(200));
    cluster.percent = vec![50; 4];
    verdicts.extend(cluster.run(200));
    assert!(verdicts.iter().flatten().all(|verdict| matches!(verdict, Verdict::Steady | Verdict::Unknown)));
}

#[test]
fn scale_does_not_matter() {
    let run = |chunk| {
        let mut cluster = Cluster::new(4);
        (cluster.chunk, cluster.noise, cluster.percent[1]) = (chunk, Some(Seeded::new(5)), 190);
        let mut verdicts = cluster.run(100);
        cluster.percent[0] = 400;
        verdicts.extend(cluster.run(200));
        verdicts
    };
    let usual = run(CHUNK);
    for chunk in [1, 3, 1000, CHUNK * 3, CHUNK * 1000] {
        assert_eq!(run(chunk), usual, "{chunk}");
    }
}

#[test]
fn alone_nobody_is_a_straggler() {
    let mut cluster = Cluster::new(1);
    cluster.run(60);
    cluster.percent[0] = 900;
    assert!(cluster.run(100).iter().all(|all| all[0] == Verdict::Steady));
    let mut cluster = Cluster::new(1);
    cluster.speeds = Speeds::new(1, Tuning { enter_permille: u32::MAX, ..Tuning::default() });
    assert_eq!(cluster.run(60)[59], [Verdict::Steady]);
    // Nor if nothing is known of the others.
    let mut speeds = Speeds::new(3, Tuning::default());
    (1..10).for_each(|i| _ = speeds.moved(i * SECOND, MemberId(1), 1, SECOND).expect("server 1"));
    let verdicts: Vec<Verdict> = speeds.judge(10 * SECOND).collect();
    assert_eq!(verdicts, [Verdict::Unknown, Verdict::Steady, Verdict::Unknown]);
    assert_eq!(Speeds::new(0, Tuning::default()).judge(0).count(), 0);
}

#[test]
fn of_two_the_slow_one_is_found() {
    let mut cluster = Cluster::new(2);
    cluster.percent[1] = 400;
    assert_eq!(cluster.run(60)[59], [Verdict::Steady, Verdict::LongTerm]);
}

/// A server that stands still is told of by reports of no bytes.
#[test]
fn stands_still() {
    let mut speeds = Speeds::new(3, Tuning::default());
    let mut second = |now: u64, bytes: [u64; 3]| {
        for (server, bytes) in (0..).map(MemberId).zip(bytes) {
            speeds.moved(now * SECOND, server, bytes, SECOND).expect("three servers");
        }
        speeds.judge(now * SECOND).collect::<Vec<_>>()
    };
    for now in 1..30 {
        second(now, [CHUNK; 3]);
    }
    let verdicts: Vec<_> = (30..60).map(|now| second(now, [CHUNK, 0, CHUNK])).collect();
    assert!(when(&verdicts, 1, Verdict::ShortTerm) < 10);
    // If all do, nobody is slower than others.
    let verdicts: Vec<_> = (60..300).map(|now| second(now, [0; 3])).collect();
    assert!(verdicts[239].iter().all(|verdict| !verdict.is_straggler()));
    let mut speeds = Speeds::new(2, Tuning::default());
    for now in 1..9 {
        for server in [MemberId(0), MemberId(1)] {
            assert_eq!(speeds.moved(now * SECOND, server, 0, SECOND), Ok(true));
        }
        assert!(speeds.judge(now * SECOND).all(|verdict| !verdict.is_straggler()));
    }
}

/// Who is avoided is forgotten in time, and must be slow again to be a straggler.
#[test]
fn gets_another_chance() {
    let mut cluster = Cluster::new(3);
    cluster.percent[0] = 500;
    assert_eq!(cluster.run(200)[199][0], Verdict::LongTerm);
    let Cluster { mut speeds, now_ns, .. } = cluster;
    let verdicts: Vec<Verdict> = speeds.judge(now_ns + 60 * SECOND).collect();
    assert_eq!(verdicts, [Verdict::LongTerm, Verdict::Steady, Verdict::Steady]);
    let verdicts: Vec<Verdict> = speeds.judge(now_ns + 4000 * SECOND).collect();
    assert_eq!(verdicts, [Verdict::Unknown; 3]);
    assert!(speeds.estimate(MemberId(0)).expect("server 0").is_some());
    let verdicts: Vec<Verdict> = speeds.judge(now_ns).collect();
    assert_eq!(verdicts[0], Verdict::LongTerm, "it is as slow as it was, if time runs backwards");
}

#[test]
fn what_cannot_be_is_ignored() {
    let mut speeds = Speeds::new(1, Tuning::default());
    let server = MemberId(0);
    for (bytes, duration_ns) in
        [(CHUNK, 0), (0, 0), (1, u64::MAX), (1, 3601 * SECOND), (u64::MAX, 1), (1001, 1)]
    {
        assert_eq!(speeds.moved(5, server, bytes, duration_ns), Ok(false), "{bytes} in {duration_ns} ns");
    }
    assert_eq!(speeds.estimate(server), Ok(None));
    assert_eq!(speeds.moved(5, MemberId(1), 1, 1), Err(NoSuchServer(1)));
    assert_eq!(speeds.estimate(MemberId(1)), Err(NoSuchServer(1)));
    assert_eq!(speeds.verdict(MemberId(7)), Err(NoSuchServer(7)));
    assert_eq!(speeds.moved(5, server, 1000, 1), Ok(true));
    let estimate = speeds.estimate(server).expect("server 0").expect("a report");
    assert_eq!((estimate.short_bytes_per_s, estimate.long_bytes_per_s), (1e12, 1e12));
}

/// The memories fade as they should: after the time constant 1/e is left of a report.
#[test]
fn fades_exponentially() {
    let tuning = Tuning::default();
    for (steps, passed_ns) in [(1, tuning.short_ns), (1000, tuning.short_ns / 1000)] {
        let mut speeds = Speeds::new(1, tuning);
        let report = |speeds: &mut Speeds, now, bytes, ns| _ = speeds.moved(now, MemberId(0), bytes, ns);
        report(&mut speeds, 0, SECOND, SECOND);
        // Reports too short to count for anything but that time goes on.
        (1..steps).for_each(|i| report(&mut speeds, i * passed_ns, 0, 1));
        report(&mut speeds, steps * passed_ns, 0, SECOND);
        let estimate = speeds.estimate(MemberId(0)).expect("server 0").expect("a report");
        let left = (-1.0_f64).exp();
        assert!((estimate.short_bytes_per_s / 1e9 - left / (1.0 + left)).abs() < 1e-4, "{estimate:?}");
    }
}

fn extremes() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), Just(1), Just(u64::MAX), 0..1_000_000_u64, any::<u64>(), 0..(1_u64 << 45)]
}

proptest! {
    #![proptest_config(config(500))]

    /// Speeds are finite whatever is reported, in whatever order, under whatever tuning; the same events give
    /// the same.
    #[test]
    fn numbers_stay_numbers(
        events in vec((extremes(), 0..3_u32, extremes(), extremes()), 0..60),
        (short_ns, long_ns, enter_permille, leave_permille, min_samples) in
            (extremes(), extremes(), any::<u32>(), any::<u32>(), 0..5_u32),
    ) {
        let tuning = Tuning { short_ns, long_ns, enter_permille, leave_permille, min_samples };
        let run = || {
            let mut speeds = Speeds::new(3, tuning);
            let mut all = Vec::new();
            for &(now_ns, server, bytes, duration_ns) in &events {
                let counts = speeds.moved(now_ns, MemberId(server), bytes, duration_ns).expect("three servers");
                let estimate = speeds.estimate(MemberId(server)).expect("three servers");
                let verdicts: Vec<Verdict> = speeds.judge(now_ns).collect();
                all.push((counts, estimate, verdicts));
            }
            all
        };
        let all = run();
        for estimate in all.iter().filter_map(|(_, estimate, _)| *estimate) {
            let speeds = [estimate.short_bytes_per_s, estimate.long_bytes_per_s];
            prop_assert!(speeds.iter().all(|speed| (0.0..=1.001e12).contains(speed)), "{estimate:?}");
        }
        prop_assert_eq!(run(), all);
    }
}

/// A server that takes ten times as long is ten times as slow, noise is none, and what is not heard of is forgotten.
#[test]
fn slowness_is_against_the_usual() {
    let mut cluster = Cluster::new(5);
    cluster.percent[3] = 1000;
    cluster.percent[4] = 120;
    cluster.run(20);
    let found = cluster.speeds.slowness(cluster.now_ns, []);
    assert_eq!(found[..3], [Some(1.0); 3]);
    assert!((8.0..12.0).contains(&found[3].unwrap()) && found[4] == Some(1.0), "{found:?}");
    let later = cluster.speeds.slowness(cluster.now_ns + 60 * SECOND, []);
    assert!((1.5..4.0).contains(&later[3].unwrap()), "{later:?}");
    assert_eq!(Speeds::new(2, Tuning::default()).slowness(0, [(MemberId(0), 1, SECOND)]), [None, None]);
}

/// What is under way for longer than usual shows that a server is slow before it is done.
#[test]
fn what_is_late_counts_at_once() {
    let mut cluster = Cluster::new(2);
    cluster.speeds = Speeds::new(3, Tuning::default());
    cluster.run(5);
    let late = |ns| cluster.speeds.slowness(cluster.now_ns, [(MemberId(2), CHUNK, ns), (MemberId(9), 1, ns)]);
    assert_eq!(late(USUAL_NS), [Some(1.0), Some(1.0), None]);
    let found = late(4 * USUAL_NS)[2].unwrap();
    assert!((3.9..4.1).contains(&found), "{found}");
}
