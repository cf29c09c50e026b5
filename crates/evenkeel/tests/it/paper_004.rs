//! Paper 004, and how paper 003 writes: the worked examples, the claims that hold, and those that do not.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel::draw::{Draw, Seeded};
use evenkeel::model::{MemberId, Ratio};
use evenkeel::observe::{BadReport, Forget, HeatMap, ServerLog, SortKey, Unit, Warmth, lowered};
use evenkeel::place::nltr::{Equal, Sections, server_sections, write_sections};
use evenkeel::place::two_choice::Probing;
use evenkeel::place::{
    Candidate, Decision, MAX_LEVELS, Options, PlaceError, PlaceFn, Placer, Servers, Spread, Test, Write,
    default_server, hm_lru, is_lighter, pieces,
};
use evenkeel::policy::placing;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use crate::support::config;

/// The policies that may redirect a write.
const REDIRECTING: [&str; 3] = ["mlml", "trh", "nltr"];
const MIB: u64 = 1 << 20;

/// Gives the numbers of a list, which must be what is asked for and enough.
#[derive(Debug)]
struct Injected(Vec<u32>);

impl Draw for Injected {
    fn below(&mut self, n: u32) -> u32 {
        let number = self.0.pop().expect("enough numbers");
        assert!(number < n, "{number} of {n}");
        number
    }

    fn unit(&mut self) -> f64 {
        panic!("nobody asks for that")
    }
}

fn injected(numbers: &[u32]) -> Injected {
    Injected(numbers.iter().rev().copied().collect())
}

fn policy(name: &str) -> PlaceFn {
    placing().find(|(policy, _)| policy.name == name).expect("known").1
}

fn log(loads: &[u64]) -> ServerLog {
    ServerLog::new(loads.iter().copied(), Unit::Mean, Forget::default())
}

/// The policy of that name on servers of which only the loads are known.
fn placer(name: &str, loads: &[u64], options: Options) -> Result<Placer, PlaceError> {
    let heat = HeatMap::unknown(loads.len() as u32, false);
    Placer::new(policy(name), options, Servers { log: log(loads), heat })
}

/// Writes to numbered objects, whose default is the number modulo the servers.
fn writes(rows: &[(u64, u64)], n_servers: usize) -> Vec<Write> {
    let default = |object: u64| default_server(&object.to_string(), n_servers as u32);
    let write = |&(object, bytes)| Write { object, default: default(object), offset: 0, bytes };
    rows.iter().map(write).collect()
}

/// Where one window of writes goes, and the loads then.
fn placed(
    name: &str,
    loads: &[u64],
    rows: &[(u64, u64)],
    options: Options,
    draw: &mut dyn Draw,
) -> (Vec<u32>, Vec<u128>) {
    let mut placer = placer(name, loads, options).expect("valid");
    let servers = placer.windows(&writes(rows, loads.len()), usize::MAX, draw).expect("valid");
    (servers.into_iter().map(|server| server.0).collect(), placer.servers().log.loads().to_vec())
}

/// The chosen server has the lowest figure, or is the default and that is not worth a redirection.
fn assert_explained(policy: &str, decision: &Decision, options: Options) {
    let Decision { default, server, candidates, .. } = decision;
    let of = |server: &MemberId| candidates.iter().find(|candidate| candidate.server == *server);
    let (of_default, chosen) = (of(default).expect("always there"), of(server).expect("always there"));
    assert_eq!(decision.is_redirected(), server != default);
    let compared: Vec<&Candidate> = candidates.iter().filter(|other| other.figure.is_some()).collect();
    let best = compared.iter().map(|candidate| candidate.figure).min().flatten();
    if REDIRECTING.contains(&policy) {
        // Of equal figures, the lowest server.
        let best = compared.iter().min_by_key(|candidate| (candidate.figure, candidate.server));
        let best = best.expect("somebody is free");
        let is_taken = (options.test)(of_default.load, best.load, options.threshold_bytes);
        assert_eq!(*server, if is_taken { best.server } else { *default }, "{policy}: {decision:?}");
        if policy != "mlml" {
            assert!(compared.iter().all(|candidate| candidate.figure == Some(candidate.load)));
        }
    } else if compared.is_empty() {
        assert!(policy != "rr" || !decision.is_redirected());
    } else {
        assert_eq!(chosen.figure, best, "{policy}: {decision:?}");
        let key = |candidate: &Candidate| (candidate.figure, candidate.warmth.connections);
        assert!(policy != "hm-lru" || compared.iter().all(|other| key(chosen) <= key(other)));
    }
}

fn assert_close(found: &[f64], wanted: &[f64], tolerance: f64) {
    assert_eq!(found.len(), wanted.len());
    let is_close = found.iter().zip(wanted).all(|(f, w)| (f - w).abs() <= tolerance);
    assert!(is_close, "{found:?} instead of {wanted:?}");
}

/// Formula (2) applied to all servers: what is left is no distribution.
#[test]
fn g_004_1() {
    let sum: f64 = [1.0, 2.0, 0.0, 0.5].iter().map(|&load| lowered(0.25, load)).sum();
    assert_close(&[sum], &[0.527_436], 5e-7);
}

/// Formulas (1) to (3), step by step. Half a unit is a byte here.
#[test]
fn g_004_2() {
    let mut log = ServerLog::new([0; 4], Unit::Bytes(2), Forget::default());
    log.schedule(MemberId(1), 2).expect("known");
    assert_close(&log.probabilities(), &[0.302_676_71, 0.091_969_86, 0.302_676_71, 0.302_676_71], 5e-9);
    log.schedule(MemberId(0), 1).expect("known");
    assert_close(&log.probabilities(), &[0.183_582_71, 0.131_667_86, 0.342_374_72, 0.342_374_72], 5e-9);
    assert_eq!(log.loads(), [1, 2, 0, 0]);
}

/// §3.3.2 wants lightly loaded servers to be likely. They need not be: load 3 ranks before load 0.8.
#[test]
fn g_004_3() {
    let mut log = ServerLog::new([0; 3], Unit::Bytes(10), Forget::default());
    for (server, bytes) in [(0, 10), (1, 2), (1, 2), (2, 30), (1, 2), (1, 2)] {
        log.schedule(MemberId(server), bytes).expect("known");
    }
    assert_eq!(log.loads(), [10, 8, 30]);
    assert_close(&log.probabilities(), &[0.6640, 0.1224, 0.2137], 5e-5);
    let sorted = |key| {
        let mut servers = [0, 1, 2].map(MemberId);
        log.sort(&mut servers, key);
        servers.map(|server| server.0)
    };
    assert_eq!(sorted(SortKey::Probability), [0, 2, 1]);
    assert_eq!(sorted(SortKey::Load), [1, 0, 2]);
    let softmax = log.softmax();
    assert!(softmax[1] > softmax[0] && softmax[0] > softmax[2], "{softmax:?}");
}

/// Figure 9: of six writes only that to object 4 goes to its default server.
#[test]
fn g_004_4() {
    let rows = [(2, 12), (3, 10), (6, 8), (1, 6), (4, 4), (5, 2)];
    let options = Options { threshold_bytes: 5, ..Options::default() };
    for k in 0..rows.len() {
        // In whatever order they arrive.
        let mut arriving = rows;
        arriving.rotate_left(k);
        let (mut servers, loads) =
            placed("mlml", &[40, 130, 100, 70, 10], &arriving, options, &mut injected(&[]));
        servers.rotate_right(k);
        assert_eq!(servers, [4, 0, 3, 2, 4, 4]);
        assert_eq!(loads, [50, 130, 106, 78, 28]);
    }
}

/// The same servers: 4 and 0 are drawn for object 3.
#[test]
fn g_004_5() {
    let options = Options { threshold_bytes: 5, ..Options::default() };
    for lots in [[0, 0], [1, 0]] {
        let found = placed("trh", &[40, 130, 100, 70, 10], &[(3, 10)], options, &mut injected(&lots));
        assert_eq!(found, (vec![4], vec![40, 130, 100, 70, 20]));
    }
}

/// The lengths of each of so many sections.
fn contents(sections: &Sections, lengths: &[u128], n_sections: usize) -> Vec<Vec<u128>> {
    let mut contents = vec![Vec::new(); n_sections];
    for (number, range) in sections {
        contents[*number as usize] = lengths[range.clone()].to_vec();
    }
    contents
}

#[test]
fn g_004_6() {
    let lengths = [100, 40, 30, 20, 10, 10];
    let of = |levels| contents(&write_sections(&lengths, levels, Equal::Halved), &lengths, 1 << levels);
    assert_eq!(of(1), [vec![100, 40], vec![30, 20, 10, 10]]);
    assert_eq!(of(2), [vec![100], vec![40], vec![30, 20], vec![10, 10]]);
    let equal = [7; 8];
    let sizes = |sections: &Sections| contents(sections, &equal, 4).iter().map(Vec::len).collect::<Vec<_>>();
    assert_eq!(sizes(&write_sections(&equal, 2, Equal::Together)), [8, 0, 0, 0]);
    assert_eq!(sizes(&write_sections(&equal, 2, Equal::Halved)), [2, 2, 2, 2]);
}

/// Servers are halved, the first half being the larger one.
#[test]
fn sections_of_servers() {
    for (n_servers, wanted) in [(10, [3, 2, 3, 2]), (5, [2, 1, 1, 1]), (3, [1, 1, 1, 0]), (1, [1, 0, 0, 0])] {
        let mut found = [0; 4];
        server_sections(n_servers, 2)
            .into_iter()
            .for_each(|(number, range)| found[number as usize] = range.len());
        assert_eq!(found, wanted);
    }
    assert_eq!(server_sections(2, MAX_LEVELS), [(0, 0..1), (1 << 31, 1..2)]);
}

/// HM-LRU, paper 003 §4.6: which of three candidates is taken.
#[test]
fn g_003_6() {
    for (connections, last_used, weights, wanted) in [
        ([5, 2, 2], [1, 9, 4], [3, 4, 3], 2),
        ([1, 2, 3], [3, 2, 1], [4, 4, 4], 0),
        ([7, 7, 7], [1, 1, 1], [2, 2, 2], 0),
    ] {
        let warmth = |k: usize| Warmth { connections: connections[k], last_used_ns: last_used[k] };
        let heat = HeatMap::new([0, 1, 2].map(warmth), false);
        let servers = [0, 1, 2].map(MemberId);
        assert_eq!(servers.map(|server| hm_lru::weight(&heat, &servers, server)), weights);
        for lots in [[0, 0, 0], [2, 1, 0], [1, 1, 0]] {
            let servers = Servers { log: log(&[0; 3]), heat: heat.clone() };
            let mut placer = Placer::new(policy("hm-lru"), Options::default(), servers).expect("valid");
            let found = placer.windows(&writes(&[(0, 1)], 3), 1, &mut injected(&lots)).expect("valid");
            assert_eq!(found, [MemberId(wanted)]);
            let after = placer.servers().heat.warmth(MemberId(wanted));
            assert!(last_used.iter().all(|&before| before < after.last_used_ns));
            assert_eq!(after.connections, connections[wanted as usize], "only a heartbeat tells");
        }
    }
}

/// Whatever happens, probabilities stay a distribution, and loads what was scheduled and is not done.
#[derive(Clone, Copy, Debug)]
enum Happens {
    Schedule(u32, u64),
    Complete(u32, u64),
    WindowEnds,
}

fn happenings() -> impl Strategy<Value = (u32, Vec<Happens>)> {
    let bytes = || prop_oneof![0..1000_u64, any::<u64>(), Just(u64::MAX)];
    (1..9_u32).prop_flat_map(move |n| {
        let happens = prop_oneof![
            (0..n, bytes()).prop_map(|(server, bytes)| Happens::Schedule(server, bytes)),
            (0..n, bytes()).prop_map(|(server, bytes)| Happens::Complete(server, bytes)),
            Just(Happens::WindowEnds),
        ];
        (Just(n), vec(happens, 0..60))
    })
}

fn probings() -> impl Strategy<Value = Probing> {
    let edges = || prop_oneof![9 => 0..12_u32, 1 => Just(u32::MAX)];
    (edges(), edges(), any::<bool>()).prop_map(|(shared_writes, writes_in_flight, pre_assign)| Probing {
        shared_writes,
        writes_in_flight,
        pre_assign,
    })
}

/// Two-choice as it is told: what writers know is looked up in all that was ever asked and sent.
#[derive(Debug)]
struct Telling<'a> {
    loads: &'a [u64],
    probing: Probing,
    /// Write, server, what it answered, and how many copies were sent before.
    asked: Vec<(usize, u32, u64, usize)>,
    /// Write, server, bytes.
    sent: Vec<(usize, u32, u64)>,
}

impl Telling<'_> {
    /// What was sent to a server, from the `first` one on, by writes up to `last`.
    fn sum(&self, server: u32, first: usize, last: Option<usize>) -> u64 {
        let of_server = self.sent[first..].iter().filter(|sent| sent.1 == server);
        of_server.filter(|sent| last.is_some_and(|last| sent.0 <= last)).map(|sent| sent.2).sum()
    }

    fn load(&mut self, write: usize, server: u32) -> u64 {
        let Probing { shared_writes, writes_in_flight, pre_assign } = self.probing;
        let is_fresh = |asked: usize| write - asked < shared_writes as usize;
        if !self.asked.iter().any(|asked| asked.1 == server && is_fresh(asked.0)) {
            let arrived =
                if pre_assign { Some(write) } else { write.checked_sub(writes_in_flight as usize + 1) };
            let load = self.loads[server as usize] + self.sum(server, 0, arrived);
            self.asked.push((write, server, load, self.sent.len()));
        }
        let &(_, _, load, n_sent) = self.asked.iter().rfind(|asked| asked.1 == server).expect("asked");
        load + if pre_assign { self.sum(server, n_sent, Some(write)) } else { 0 }
    }

    fn place(&mut self, writes: &[Write], n_replicas: u32, draw: &mut dyn Draw) -> Vec<MemberId> {
        let n_servers = self.loads.len() as u32;
        let mut placed = Vec::new();
        for (number, write) in writes.iter().enumerate() {
            let mut copies: Vec<u32> = Vec::new();
            for copy in 0..n_replicas {
                let mut behind = (0..n_servers).map(|k| (write.default.0 + copy + k) % n_servers);
                let default = behind.find(|server| !copies.contains(server)).expect("enough servers");
                let others = (0..n_servers).filter(|server| *server != default && !copies.contains(server));
                let others: Vec<u32> = others.collect();
                let mut chosen = default;
                if !others.is_empty() {
                    let other = others[draw.below(others.len() as u32) as usize];
                    let load = self.load(number, default);
                    if self.load(number, other) < load {
                        chosen = other;
                    }
                }
                self.sent.push((number, chosen, write.bytes));
                copies.push(chosen);
            }
            placed.extend(copies.into_iter().map(MemberId));
        }
        placed
    }
}

proptest! {
    #![proptest_config(config(256))]

    /// §2.2, with shared probes, writes in flight and pre-assigning: as told. Pre-assigned, loads are never stale.
    #[test]
    fn two_choice_as_told(
        loads in vec(0..60_u64, 1..7),
        rows in vec((0..12_u64, 0..20_u64), 0..40),
        (n_replicas, window, seed) in (1..4_u32, 1..20_usize, any::<u64>()),
        probing in probings(),
    ) {
        let n_replicas = n_replicas.min(loads.len() as u32);
        let writes = writes(&rows, loads.len());
        let run = |probing| {
            let options = Options { n_replicas, probing, ..Options::default() };
            let mut placer = placer("two-choice", &loads, options).expect("valid");
            (placer.windows(&writes, window, &mut Seeded::new(seed)).expect("valid"), placer.n_probes())
        };
        let mut telling = Telling { loads: &loads, probing, asked: Vec::new(), sent: Vec::new() };
        let told = telling.place(&writes, n_replicas, &mut Seeded::new(seed));
        let found = run(probing);
        prop_assert_eq!(&found, &(told, telling.asked.len() as u64));
        let usual = run(Probing::default());
        prop_assert!(found.1 <= usual.1);
        if probing.pre_assign {
            prop_assert_eq!(found.0, usual.0);
        }
    }

    #[test]
    fn probabilities_stay_a_distribution(
        (n_servers, happenings) in happenings(),
        unit in prop_oneof![Just(Unit::Mean), (0..2000_u64).prop_map(Unit::Bytes)],
        percent in prop_oneof![Just(0), any::<u8>()],
    ) {
        let mut log = ServerLog::new(vec![0; n_servers as usize], unit, Forget { percent });
        let mut loads = vec![0_u128; n_servers as usize];
        for happens in happenings {
            match happens {
                Happens::Schedule(server, bytes) => {
                    log.schedule(MemberId(server), bytes.into()).expect("known");
                    loads[server as usize] += u128::from(bytes);
                }
                Happens::Complete(server, bytes) => {
                    log.complete(MemberId(server), bytes.into()).expect("known");
                    loads[server as usize] = loads[server as usize].saturating_sub(bytes.into());
                }
                Happens::WindowEnds => {
                    log.end_window();
                    let percent = u128::from(percent.min(100));
                    loads.iter_mut().for_each(|load| *load -= *load * percent / 100);
                }
            }
            prop_assert_eq!(log.loads(), &loads);
            for distribution in [log.probabilities(), log.softmax()] {
                prop_assert!(distribution.iter().all(|p| (0.0..=1.0 + 1e-9).contains(p)), "{distribution:?}");
                prop_assert!((distribution.iter().sum::<f64>() - 1.0).abs() < 1e-9, "{distribution:?}");
            }
            let drawn = log.draw(&mut Seeded::new(1)).expect("servers");
            prop_assert!(drawn.0 < n_servers);
        }
    }

    /// Every policy gives each write as many different servers as it has copies, the log adds up, and the same seed gives
    /// the same answer.
    #[test]
    fn copies_are_on_different_servers(
        loads in vec(0..100_u64, 1..9),
        rows in vec((0..12_u64, 0..50_u64), 0..40),
        (n_replicas, levels, window) in (1..9_u32, 0..=MAX_LEVELS, 0..50_usize),
        (threshold_bytes, seed, resort) in (0..30_u64, any::<u64>(), any::<bool>()),
        probing in probings(),
        test in select(&[is_lighter as Test, AS_PRINTED][..]),
        sort_key in select(&[SortKey::Load, SortKey::Probability][..]),
    ) {
        let n_replicas = n_replicas.min(loads.len() as u32);
        let options = Options { n_replicas, levels, threshold_bytes, test, sort_key, resort, probing };
        let writes = writes(&rows, loads.len());
        for (policy, _) in placing() {
            let run = || {
                let mut placer = placer(policy.name, &loads, options).expect("valid");
                let servers = placer.windows(&writes, window, &mut Seeded::new(seed)).expect("valid");
                (servers, placer)
            };
            let (servers, placer) = run();
            prop_assert_eq!(servers.len(), writes.len() * n_replicas as usize);
            let mut wanted: Vec<u128> = loads.iter().map(|&load| load.into()).collect();
            let mut n_redirected = 0;
            for (write, copies) in writes.iter().zip(servers.chunks(n_replicas as usize)) {
                for (k, copy) in copies.iter().enumerate() {
                    prop_assert!(!copies[..k].contains(copy), "{}: {copies:?}", policy.name);
                    wanted[copy.index()] += u128::from(write.bytes);
                }
                n_redirected += u64::from(!copies.contains(&write.default));
            }
            prop_assert_eq!(placer.servers().log.loads(), wanted);
            prop_assert_eq!(placer.n_redirected(), n_redirected);
            prop_assert_eq!(servers, run().0);
            let is_probing = policy.name == "two-choice" && loads.len() > n_replicas as usize;
            let n_probes = if is_probing { 2 * writes.len() as u64 * u64::from(n_replicas) } else { 0 };
            if policy.name != "two-choice" || is_probing && probing.shared_writes == 0 {
                prop_assert_eq!(placer.n_probes(), n_probes);
            }
        }
    }

    /// Whether somebody watches or not, the same comes out; and each decision follows from its figures.
    #[test]
    fn tracing_changes_no_placement(
        loads in vec(0..100_u64, 1..9),
        rows in vec((0..12_u64, 0..50_u64), 0..40),
        (n_replicas, levels, window) in (1..9_u32, 0..4_u32, 1..50_usize),
        (threshold_bytes, seed, resort) in (0..30_u64, any::<u64>(), any::<bool>()),
        probing in probings(),
        test in select(&[is_lighter as Test, AS_PRINTED][..]),
        sort_key in select(&[SortKey::Load, SortKey::Probability][..]),
    ) {
        let n_replicas = n_replicas.min(loads.len() as u32);
        let options = Options { n_replicas, levels, threshold_bytes, test, sort_key, resort, probing };
        let writes = writes(&rows, loads.len());
        for (policy, _) in placing() {
            let run = |most| {
                let mut placer = placer(policy.name, &loads, options).expect("valid");
                placer.trace(most);
                let servers = placer.windows(&writes, window, &mut Seeded::new(seed)).expect("valid");
                (servers, placer.counts(), placer.take_decisions())
            };
            let (servers, counts, none) = run(0);
            prop_assert_eq!(none, []);
            let (same, same_counts, decisions) = run(usize::MAX);
            prop_assert_eq!((&servers, counts), (&same, same_counts));
            prop_assert_eq!((counts.writes, counts.servers), (writes.len() as u64, loads.len()));
            prop_assert_eq!(counts.windows, writes.len().div_ceil(window) as u64);
            prop_assert_eq!(run(2).2, &decisions[decisions.len().saturating_sub(2)..]);
            let is_merged = REDIRECTING.contains(&policy.name);
            prop_assert!(is_merged || decisions.len() == servers.len());
            for decision in &decisions {
                assert_explained(policy.name, decision, options);
            }
        }
    }

    /// All that a window writes to an object goes together.
    #[test]
    fn a_window_writes_an_object_to_one_place(
        rows in vec((0..5_u64, 0..50_u64), 1..30),
        window in 1..30_usize,
        seed in any::<u64>(),
    ) {
        let writes = writes(&rows, 4);
        for name in REDIRECTING {
            let mut placer = placer(name, &[9, 0, 4, 4], Options::default()).expect("valid");
            let servers = placer.windows(&writes, window, &mut Seeded::new(seed)).expect("valid");
            for (rows, servers) in rows.chunks(window).zip(servers.chunks(window)) {
                for (a, first) in rows.iter().zip(servers) {
                    for (b, second) in rows.iter().zip(servers) {
                        prop_assert!(a.0 != b.0 || first == second);
                    }
                }
            }
        }
    }

    /// Sorted again for each step, MLML gives each object in turn, the longest first, to the least loaded server, if that is
    /// worth it.
    #[test]
    fn sorted_again_it_is_always_the_least_loaded(
        loads in vec(0..60_u64, 1..12),
        rows in vec((0..40_u64, 0..30_u64), 0..40),
        threshold_bytes in 0..20_u64,
    ) {
        let n_servers = loads.len();
        let mut objects = BTreeMap::<u64, u64>::new();
        rows.iter().for_each(|&(object, bytes)| *objects.entry(object).or_default() += bytes);
        let mut longest_first: Vec<(u64, u64)> = objects.into_iter().collect();
        longest_first.sort_by_key(|&(_, bytes)| std::cmp::Reverse(bytes));
        let mut wanted = loads.clone();
        for (object, bytes) in longest_first {
            let default = object as usize % n_servers;
            let least = (0..n_servers).min_by_key(|&server| wanted[server]).expect("servers");
            let is_worth_it = wanted[default] - wanted[least] > threshold_bytes;
            wanted[if is_worth_it { least } else { default }] += bytes;
        }
        let options = Options { resort: true, threshold_bytes, ..Options::default() };
        let (_, found) = placed("mlml", &loads, &rows, options, &mut injected(&[]));
        prop_assert_eq!(found, wanted.into_iter().map(u128::from).collect::<Vec<_>>());
    }

    /// A write that crosses the borders of objects is cut there, and nothing of it is lost.
    #[test]
    fn pieces_cover_a_write(offset in 0..1000_u64, bytes in 0..300_u64, size in 1..50_u64) {
        let mut next = offset;
        for (object, within, length) in pieces(offset, bytes, size) {
            prop_assert_eq!(object * size + within, next);
            prop_assert!(within + length <= size && (length > 0 || bytes == 0));
            next += length;
        }
        prop_assert_eq!(next, offset + bytes);
    }
}

/// A number drawn from the normal distribution, nearly.
fn normal(draw: &mut dyn Draw, mean: f64, stddev: f64) -> f64 {
    let sum: f64 = (0..12).map(|_| draw.unit()).sum();
    mean + (sum - 6.0) * stddev
}

/// The setting of §4: 100 servers with about 60 MiB each, every tenth a straggler with five times as much on top; 2000 writes of
/// so many MiB, 200 a window, threshold 1 MiB.
struct Setting {
    loads: Vec<u64>,
    writes: Vec<Write>,
    options: Options,
}

impl Setting {
    fn new(mib: std::ops::Range<u64>, with_stragglers: bool, seed: u64) -> Self {
        let mut draw = Seeded::new(seed);
        let mut loads: Vec<u64> = (0..100).map(|_| normal(&mut draw, 60.0, 4.0) as u64 * MIB).collect();
        if with_stragglers {
            loads.iter_mut().step_by(10).for_each(|load| *load += 5 * 60 * MIB);
        }
        let bytes = (mib.end - mib.start) as f64 * MIB as f64;
        let rows: Vec<(u64, u64)> = (0..2000)
            .map(|_| (draw.below(1 << 30).into(), mib.start * MIB + (draw.unit() * bytes) as u64))
            .collect();
        let writes = writes(&rows, loads.len());
        Self { loads, writes, options: Options { threshold_bytes: MIB, ..Options::default() } }
    }

    /// The loads in the end, in percent the share of bytes that stragglers got, and probes.
    fn run(&self, name: &str, options: Options, seed: u64) -> (Spread, f64, u64) {
        let mut placer = placer(name, &self.loads, options).expect("valid");
        let servers = placer.windows(&self.writes, 200, &mut Seeded::new(seed)).expect("valid");
        let on_straggler = self.writes.iter().zip(servers).filter(|(_, server)| server.0 % 10 == 0);
        let share = on_straggler.map(|(write, _)| write.bytes as f64).sum::<f64>()
            / self.writes.iter().map(|write| write.bytes as f64).sum::<f64>();
        (Spread::new(placer.servers().log.loads()), 100.0 * share, placer.n_probes())
    }
}

/// §4, Figure 18: stragglers get nearly nothing, where round robin gives them their tenth. The figures are those of our
/// own reproduction.
#[test]
fn stragglers_are_avoided() {
    for mib in [0..4, 4..10] {
        let mut shares = BTreeMap::<&str, Vec<f64>>::new();
        for seed in 0..8 {
            let setting = Setting::new(mib.clone(), true, seed);
            for (policy, _) in placing() {
                let (_, share, n_probes) = setting.run(policy.name, setting.options, seed);
                shares.entry(policy.name).or_default().push(share);
                assert_eq!(n_probes, if policy.name == "two-choice" { 4000 } else { 0 });
            }
        }
        let mean = |name| shares[name].iter().sum::<f64>() / shares[name].len() as f64;
        let most = |name| shares[name].iter().copied().fold(0.0, f64::max);
        assert!((9.0..11.0).contains(&mean("rr")), "{shares:?}");
        for (name, mean_at_most, most_at_most) in
            [("mlml", 1.0, 1.5), ("trh", 0.01, 0.05), ("nltr", 0.4, 0.7), ("two-choice", 1.1, 1.5)]
        {
            assert!(mean(name) <= mean_at_most && most(name) <= most_at_most, "{name} {shares:?}");
        }
    }
}

/// §2.2: four writes share what is known. Each default is asked once, and server 3 once for all, who was light; so all run
/// there, unless what is promised to it counts.
#[test]
fn shared_probes_herd_unless_pre_assigned() {
    let rows = [(0, 6), (1, 6), (2, 6), (4, 6)];
    let run = |probing| {
        let mut placer =
            placer("two-choice", &[10, 10, 10, 0], Options { probing, ..Options::default() }).expect("valid");
        let servers = placer.windows(&writes(&rows, 4), 9, &mut injected(&[2; 4])).expect("valid");
        (servers.into_iter().map(|server| server.0).collect::<Vec<_>>(), placer.n_probes())
    };
    let usual = Probing::default();
    assert_eq!(run(usual), (vec![3, 3, 2, 0], 8));
    let shared = Probing { shared_writes: 4, ..usual };
    assert_eq!(run(shared), (vec![3, 3, 3, 3], 4));
    assert_eq!(run(Probing { pre_assign: true, ..shared }), (vec![3, 3, 2, 0], 4));
    assert_eq!(run(Probing { shared_writes: 3, ..usual }), (vec![3, 3, 3, 0], 6), "the fourth asks anew");
    // Writes at the same time: the fourth is placed when the first has arrived.
    let in_flight = Probing { writes_in_flight: 2, ..usual };
    assert_eq!(run(in_flight), (vec![3, 3, 3, 3], 8));
    assert_eq!(run(Probing { pre_assign: true, ..in_flight }), (vec![3, 3, 2, 0], 8));
}

/// The same in the setting of §4: the longer probes are shared, the fewer there are and the more uneven loads become;
/// pre-assigned they stay as they were.
#[test]
fn sharing_saves_probes_and_costs_evenness() {
    for seed in 0..4 {
        let setting = Setting::new(4..10, true, seed);
        let run = |probing| {
            let (spread, _, n_probes) =
                setting.run("two-choice", Options { probing, ..setting.options }, seed);
            (spread, n_probes)
        };
        let usual = run(Probing::default());
        let mut before = usual;
        for shared_writes in [50, 200, 800] {
            let probing = Probing { shared_writes, ..Probing::default() };
            let found = run(probing);
            assert!(found.1 < before.1 && found.0.stddev > before.0.stddev, "{found:?} {before:?}");
            assert_eq!(run(Probing { pre_assign: true, ..probing }), (usual.0, found.1));
            before = found;
        }
        let in_flight = run(Probing { writes_in_flight: 200, ..Probing::default() });
        assert!(in_flight.1 == usual.1 && in_flight.0.stddev > usual.0.stddev, "{in_flight:?} {usual:?}");
    }
}

/// The redirect test of the paper's listings.
const AS_PRINTED: Test = |default, other, threshold| !is_lighter(default, other, threshold);

/// §3.4: the listings redirect where that is not worth it. That is worse than round robin; what is meant is better.
#[test]
fn the_inverted_threshold_is_worse_than_round_robin() {
    for (seed, mib) in [(0, 10..100), (1, 10..100), (2, 4..10), (3, 0..4)] {
        let setting = Setting::new(mib.clone(), true, seed);
        let of = |name, test: Test| setting.run(name, Options { test, ..setting.options }, seed).0;
        let rr = of("rr", is_lighter);
        for name in REDIRECTING {
            let (meant, printed) = (of(name, is_lighter), of(name, AS_PRINTED));
            assert!(meant.stddev < rr.stddev && meant.max <= rr.max, "{name} {mib:?} {meant:?} {rr:?}");
            assert!(printed.stddev > rr.stddev, "{name} {mib:?} {printed:?} {rr:?}");
        }
    }
}

/// Sorted again for each step, MLML is greedy: the largest load is never larger here, and loads are mostly more even.
#[test]
fn sorting_again_is_greedy() {
    let mut stddev = [0.0; 2];
    for seed in 0..8 {
        let setting = Setting::new(10..100, false, seed);
        let spread = |resort| setting.run("mlml", Options { resort, ..setting.options }, seed).0;
        let (again, once) = (spread(true), spread(false));
        assert!(again.max < once.max, "{seed} {again:?} {once:?}");
        stddev = [stddev[0] + again.stddev, stddev[1] + once.stddev];
    }
    assert!(stddev[0] < stddev[1] / 1.5, "{stddev:?}");
    let options = Options { resort: true, ..Options::default() };
    let rows = [(0, 5), (1, 4), (2, 3), (3, 3)];
    assert_eq!(placed("mlml", &[0, 2, 9], &rows, options, &mut injected(&[])).1, [8, 9, 9]);
}

/// Windows without writes, one server, equal lengths, writes without bytes, more sections than servers.
#[test]
fn edges() {
    for (policy, _) in placing() {
        let name = policy.name;
        let all_on_one = Options { levels: MAX_LEVELS, ..Options::default() };
        let (servers, loads) = placed(name, &[3], &[(0, 1), (7, 0), (0, 5)], all_on_one, &mut Seeded::new(0));
        assert_eq!((servers, loads), (vec![0; 3], vec![9]), "{name}");
        let mut placer =
            placer(name, &[1, 2], Options { n_replicas: 2, ..Options::default() }).expect("valid");
        let mut out = Vec::new();
        placer.window(5, &[], &mut injected(&[]), &mut out).expect("nothing to do");
        assert!(out.is_empty());
        placer.window(4, &writes(&[(1, 0), (1, 0)], 2), &mut Seeded::new(0), &mut out).expect("valid");
        assert_eq!((out.len(), placer.servers().log.loads()), (4, &[1, 2][..]), "{name}");
    }
    // Eight equal writes keep all of eight equal servers busy, not the first section alone.
    let rows: Vec<(u64, u64)> = (0..8).map(|k| (k * 8, 5)).collect();
    let (servers, _) = placed("nltr", &[0; 8], &rows, Options::default(), &mut Seeded::new(3));
    let busy: BTreeSet<u32> = servers.iter().copied().collect();
    assert!(busy.len() > 4, "{servers:?}");
}

#[test]
fn what_is_refused() {
    let refused = |loads: &[u64], options| placer("nltr", loads, options).expect_err("refused");
    let copies = |n_replicas| Options { n_replicas, ..Options::default() };
    assert_eq!(refused(&[], copies(1)), PlaceError::NoServers);
    assert_eq!(refused(&[0], copies(0)), PlaceError::NoCopies);
    assert_eq!(refused(&[0; 2], copies(3)), PlaceError::TooFewServers { n_replicas: 3, n_servers: 2 });
    let deep = Options { levels: 33, ..Options::default() };
    assert_eq!(refused(&[0; 2], deep), PlaceError::TooManyLevels { levels: 33 });
    let servers = Servers { log: log(&[0; 2]), heat: HeatMap::unknown(3, false) };
    let other = Placer::new(policy("rr"), Options::default(), servers).expect_err("refused");
    assert_eq!(other, PlaceError::OtherServers { n_in_log: 2, n_in_map: 3 });
    let mut placer = placer("rr", &[0; 2], Options::default()).expect("valid");
    let write = Write { object: 0, default: MemberId(2), offset: 0, bytes: 1 };
    let unknown = placer.windows(&[Write { default: MemberId(0), ..write }, write], 9, &mut injected(&[]));
    assert_eq!(unknown, Err(PlaceError::UnknownDefault { row: 1, server: 2, n_servers: 2 }));
    assert_eq!(placer.servers().log.loads(), [0, 0], "nothing of the window was placed");
}

/// Names that are numbers go round robin, however large; others are hashed, the same everywhere.
#[test]
fn default_servers() {
    let of = |name: &str| default_server(name, 7).0;
    assert_eq!(["0", "6", "7", "007", "15"].map(of), [0, 6, 0, 0, 1]);
    assert_eq!(of("1000000000000000000000000000000"), 1, "10³⁰ = (10⁶)⁵, and 10⁶ ≡ 1");
    assert_eq!(default_server("5", u32::MAX).0, 5);
    assert_eq!(default_server("", 0), MemberId(0));
    let mut seen = [0; 7];
    (0..7000).for_each(|k| seen[of(&format!("object-{k}")) as usize] += 1);
    assert!(seen.iter().all(|n| (900..1100).contains(n)), "{seen:?}");
    // Stays as it is: whoever has stored objects looks for them there.
    assert_eq!(["a", "object-1", "-3", "é"].map(of), [1, 0, 0, 5]);
}

/// What servers report out of turn is refused, and time that runs backwards makes nobody older.
#[test]
fn heat() {
    let mut heat = HeatMap::unknown(2, true);
    assert_eq!(heat.warmth(MemberId(1)), Warmth::default());
    let unknown = BadReport::UnknownServer { server: 2, n_servers: 2 };
    assert_eq!(heat.heartbeat(1, MemberId(2), 9), Err(unknown));
    assert_eq!(heat.choose(1, MemberId(2)), Err(unknown));
    assert_eq!(heat.heartbeat(10, MemberId(0), 4), Ok(()));
    assert_eq!(heat.heartbeat(9, MemberId(0), 7), Err(BadReport::Late { server: 0, at_ns: 9, last_ns: 10 }));
    assert_eq!(heat.heartbeat(9, MemberId(1), 7), Ok(()), "each server has its own times");
    heat.choose(100, MemberId(0)).expect("known");
    heat.choose(50, MemberId(1)).expect("known");
    assert_eq!(heat.warmth(MemberId(0)), Warmth { connections: 5, last_used_ns: 100 });
    assert_eq!(heat.warmth(MemberId(1)), Warmth { connections: 8, last_used_ns: 101 });
    heat.heartbeat(10, MemberId(0), 4).expect("in time");
    assert_eq!(heat.warmth(MemberId(0)).connections, 4, "the heartbeat knows");
    let mut log = log(&[1, 2]);
    assert_eq!(log.schedule(MemberId(2), 1), Err(unknown));
    assert_eq!(log.complete(MemberId(2), 1), Err(unknown));
}

/// Algorithm 3 draws from all servers; so do we, but never two copies on one. Nobody is left out.
#[test]
fn hm_lru_reaches_everybody_in_turn() {
    let rows: Vec<(u64, u64)> = (0..1000).map(|k| (k, 1)).collect();
    let options = Options { n_replicas: 3, ..Options::default() };
    let spread = |name| Spread::new(&placed(name, &[0; 16], &rows, options, &mut Seeded::new(1)).1);
    let (coolest, random) = (spread("hm-lru"), spread("hdfs-random"));
    assert_eq!(coolest.mean, Ratio::new(3000, 16));
    assert!(coolest.stddev < random.stddev / 2.0, "{coolest:?} {random:?}");
}

#[test]
fn spreads() {
    let found = Spread::new(&[2, 4, 4, 4, 5, 5, 7, 9]);
    assert_eq!(found, Spread { max: 9, min: 2, mean: Ratio::from(5), stddev: 2.0 });
    assert_eq!(Spread::new(&[]), Spread { max: 0, min: 0, mean: Ratio::ZERO, stddev: 0.0 });
}

/// Long writes go to the lightly loaded section of servers, short ones to the other.
#[test]
fn sections_of_writes_go_to_those_of_servers() {
    let options = Options { levels: 1, ..Options::default() };
    let found = placed("nltr", &[0, 10, 20, 100], &[(3, 50), (7, 1)], options, &mut injected(&[0; 4]));
    assert_eq!(found.0, [0, 2]);
}

/// Copies take their turns like writes.
#[test]
fn mlml_deals_copies_in_turn() {
    let options = Options { n_replicas: 2, ..Options::default() };
    let found = placed("mlml", &[0, 1, 2, 3, 100, 200], &[(4, 2), (10, 1)], options, &mut injected(&[]));
    assert_eq!(found.0, [0, 1, 2, 3]);
}

/// A server that takes longer than others is heavier by that factor, with what would be added to it.
#[test]
fn slow_servers_weigh_more() {
    let mut log = log(&[100, 30, 0]);
    log.weigh([1000, 4000], 10);
    assert_eq!([0, 1, 2].map(|server| log.load(MemberId(server))), [110, 160, 10]);
    log.told(MemberId(0), 50).expect("known");
    assert_eq!((log.load(MemberId(0)), log.loads()), (60, &[50, 30, 0][..]));
    assert!(log.told(MemberId(3), 0).is_err());
    log.add(7);
    assert_eq!(log.load(MemberId(3)), 17);
}

/// Copies have homes of their own, which they keep unless another server is better.
#[test]
fn copies_have_homes() {
    let options = Options { n_replicas: 2, ..Options::default() };
    let mut placer = placer("rr", &[0; 4], options).expect("valid");
    let writes = writes(&[(0, 1), (1, 1)], 4);
    let homes = [3, 1, 0, 2].map(MemberId);
    let mut chosen = Vec::new();
    placer.window_at(0, &writes, &homes, &mut injected(&[]), &mut chosen).expect("valid");
    assert_eq!(chosen, homes);
    placer.set_up(MemberId(3), false).expect("known");
    chosen.clear();
    placer.window_at(0, &writes, &homes, &mut injected(&[]), &mut chosen).expect("valid");
    assert_eq!(chosen, [1, 0, 0, 2].map(MemberId), "the next home, then the servers after the default");
    let unknown = placer.window_at(0, &writes, &[0, 1, 2, 9].map(MemberId), &mut injected(&[]), &mut chosen);
    assert_eq!(unknown, Err(PlaceError::UnknownDefault { row: 1, server: 9, n_servers: 4 }));
}
