//! §3.3 and §5.1.5: parallel writes with three copies, to random servers and by HM-LRU.

use super::{CHUNK, ENOUGH, Found, MARMOT, N_RUNS, N_VARIED, estimate, range, settle, text, variation};
use crate::hardware::{Nic, Rate};
use crate::outcome::{Estimate, Outcome};
use crate::papers::{Claim, Figure, Lab, Line, Section, Variation, Verdict};
use crate::units::{Bytes, Span};
use crate::writes::{Sizes, Writes};

const BASE: &str = "hdfs-random";
const OPASS: &str = "hm-lru";
const CHUNKS_EACH: u32 = 16;
const N_COPIES: u32 = 3;

/// How writes are stored, and how servers report.
#[derive(Clone, Copy, Debug)]
struct Store {
    what: &'static str,
    /// Rate at which a server accepts data from one writer; none: the rate of its disk.
    rate: Option<Rate>,
    /// Number of writers at once.
    slots: u32,
    nic: Rate,
    heartbeat_ns: u64,
    is_optimistic: bool,
}

const DISK: Store = Store {
    what: "as listed",
    rate: None,
    slots: 1,
    nic: 0.125,
    heartbeat_ns: 3_000_000_000,
    is_optimistic: false,
};

/// To memory at 1 GB/s, so that the network is the limit.
const MEMORY: Store =
    Store { what: "written to memory, so that the network is the limit", rate: Some(1.0), slots: 64, ..DISK };

const OTHERS: [Store; 7] = [
    MEMORY,
    Store { what: "the same, with cards of 10 Gb/s", nic: 1.25, ..MEMORY },
    Store { what: "four disks a node", slots: 4, ..DISK },
    Store { what: "to memory, and who is chosen counts as connected at once", is_optimistic: true, ..MEMORY },
    Store { what: "heartbeats every second", heartbeat_ns: 1_000_000_000, ..DISK },
    Store { what: "heartbeats every ten seconds", heartbeat_ns: 10_000_000_000, ..DISK },
    Store { what: "who is chosen counts as connected at once", is_optimistic: true, ..DISK },
];

/// The result of one run: bandwidths of processes in MB/s, and times of chunks in seconds.
#[derive(Clone, Copy, Debug)]
struct Run {
    least: f64,
    mean: f64,
    most: f64,
    early_s: f64,
    late_s: f64,
}

impl Run {
    fn of(outcome: &Outcome) -> Self {
        let bytes = f64::from(CHUNKS_EACH) * CHUNK as f64;
        let bandwidths: Vec<f64> =
            outcome.done_ns_of_clients.iter().map(|&ns| 1e3 * bytes / ns as f64).collect();
        Self {
            least: bandwidths.iter().copied().fold(f64::INFINITY, f64::min),
            mean: bandwidths.iter().sum::<f64>() / bandwidths.len() as f64,
            most: bandwidths.iter().copied().fold(0.0, f64::max),
            early_s: outcome.response_ns(50) as f64 / 1e9,
            late_s: outcome.response_ns(950) as f64 / 1e9,
        }
    }

    fn spread(&self) -> f64 {
        self.most - self.least
    }
}

fn runs(lab: &Lab, store: &Store, n_nodes: u32, n_processes: u32, policy: &str) -> Vec<Run> {
    let mut hardware = MARMOT.hardware(n_nodes, n_processes);
    hardware.nic = Some(Nic { up: store.nic, down: store.nic });
    for server in &mut hardware.servers {
        server.slots = store.slots;
        server.rate = store.rate.unwrap_or(server.rate);
    }
    let writes = Writes {
        writes: CHUNKS_EACH * n_processes,
        window: 1,
        sizes: Sizes::One(Bytes(CHUNK)),
        copies: N_COPIES,
        heartbeat: Span(store.heartbeat_ns),
        optimistic: store.is_optimistic,
        ..Writes::default()
    };
    let n_runs = lab.n_runs(if store.what == DISK.what { N_RUNS } else { N_VARIED });
    let runs = lab.repeat(n_runs, |seed| {
        writes.run(&lab.case(&hardware, policy, seed)).ok().map(|outcome| Run::of(&outcome))
    });
    runs.into_iter().flatten().collect()
}

fn mean(runs: &[Run], of: fn(&Run) -> f64) -> Estimate {
    estimate(runs.iter().map(of))
}

/// Fig. 3: 60 nodes, 2 to 180 processes.
pub(super) fn preliminary(lab: &Lab) -> Section {
    const N_NODES: u32 = 60;
    const COUNTS: [u32; 5] = [2, 30, 60, 120, 180];
    let points = COUNTS.map(|n_processes| (n_processes, runs(lab, &DISK, N_NODES, n_processes, BASE)));
    // The time of a process is its bytes divided by its bandwidth.
    let ratio = |runs: &[Run]| mean(runs, |run| run.most / run.least);
    let difference = |runs: &[Run]| mean(runs, |run| seconds(run.least) - seconds(run.most));
    let found = |runs: &[Run]| {
        let ratio = ratio(runs);
        (format!("{} times with 180 processes", text(ratio, 2)), ratio.mean >= 1.0 + ENOUGH)
    };
    let (measured, reaches) = found(&points[4].1);
    let grows = points.windows(2).all(|pair| difference(&pair[1].1).mean > difference(&pair[0].1).mean);
    // Random placement does not depend on heartbeats.
    let stores = OTHERS[..3].iter();
    let variations: Vec<Variation> =
        stores.map(|store| variation(store.what, found(&runs(lab, store, N_NODES, 180, BASE)))).collect();
    let line = |name: &str, of: fn(&Run) -> f64| Line {
        name: name.to_owned(),
        points: points.iter().map(|(n, runs)| (f64::from(*n), mean(runs, of))).collect(),
    };
    let claim = Claim {
        id: "003-3.3b",
        section: "§3.3",
        says: "Of parallel writes on 60 nodes the slowest process takes the longer, compared with the fastest, the more \
               there are, and up to twice as long.",
        rule: "The difference grows from each number of processes to the next, and with 180 the slowest takes at least \
               1.75 times as long; with conditions: the difference grows.",
        measured: format!("{measured}; the difference {}", if grows { "grows" } else { "does not grow" }),
        verdict: Verdict::of(grows && reaches, grows),
        why: "Each process writes 48 copies to servers drawn anew, so that luck evens out: half as long again is what is left.",
        figure: Some("003-fig3"),
        variations,
    };
    let figure = Figure {
        id: "003-fig3",
        title: "Fig. 3: parallel writes on 60 nodes".to_owned(),
        x: "processes",
        y: "seconds",
        is_log_x: false,
        lines: vec![
            line("slowest process", |run| seconds(run.least)),
            line("at the mean bandwidth", |run| seconds(run.mean)),
            line("fastest process", |run| seconds(run.most)),
        ],
        stated: Vec::new(),
    };
    Section { claims: vec![claim], figures: vec![figure] }
}

/// Time of a process at this bandwidth, in seconds.
fn seconds(bandwidth: f64) -> f64 {
    f64::from(CHUNKS_EACH) * CHUNK as f64 / (bandwidth * 1e6)
}

/// The runs of both policies.
struct Pair {
    n_nodes: u32,
    n_processes: u32,
    base: Vec<Run>,
    opass: Vec<Run>,
}

/// The runs of one of the two policies.
type Of = fn(&Pair) -> &[Run];

impl Pair {
    fn run(lab: &Lab, store: &Store, n_nodes: u32, n_processes: u32) -> Self {
        let of = |policy| runs(lab, store, n_nodes, n_processes, policy);
        Self { n_nodes, n_processes, base: of(BASE), opass: of(OPASS) }
    }

    /// Share of the mean spread that HM-LRU removes, in percent.
    fn reduction(&self) -> Estimate {
        let spread = mean(&self.base, Run::spread).mean;
        let less = |(base, opass): (&Run, &Run)| 100.0 * (base.spread() - opass.spread()) / spread;
        estimate(self.base.iter().zip(&self.opass).map(less))
    }

    /// Bandwidth that the slowest process gains, in MB/s.
    fn gain(&self) -> Estimate {
        estimate(self.base.iter().zip(&self.opass).map(|(base, opass)| opass.least - base.least))
    }
}

/// Figs. 16 to 20.
pub(super) fn run(lab: &Lab) -> Section {
    let sizes = [(16, [16, 32, 48, 64]), (32, [32, 64, 96, 128])];
    let pairs: Vec<Pair> = sizes
        .into_iter()
        .flat_map(|(n_nodes, counts)| counts.map(|count| (n_nodes, count)))
        .map(|(n_nodes, count)| Pair::run(lab, &DISK, n_nodes, count))
        .collect();
    let varied: Vec<(&str, [Pair; 2])> =
        OTHERS.iter().map(|store| (store.what, LARGEST.map(|(n, p)| Pair::run(lab, store, n, p)))).collect();
    let last = |n_nodes: u32| pairs.iter().rfind(|pair| pair.n_nodes == n_nodes);
    let largest: Vec<&Pair> = LARGEST.iter().filter_map(|&(n_nodes, _)| last(n_nodes)).collect();
    Section {
        claims: vec![
            spread(&largest, &varied),
            slowest(&pairs, &varied),
            stable(&pairs, &varied),
            smooth(&largest, &varied),
        ],
        figures: vec![figure("003-fig16", 16, &pairs), figure("003-fig18", 32, &pairs)],
    }
}

/// Number of nodes, and the largest number of processes on them.
const LARGEST: [(u32, u32); 2] = [(16, 64), (32, 128)];

fn settled(varied: &[(&str, [Pair; 2])], found: impl Fn(&[&Pair]) -> Found) -> Vec<Variation> {
    varied.iter().map(|(what, pairs)| variation(*what, found(&[&pairs[0], &pairs[1]]))).collect()
}

fn spread(largest: &[&Pair], varied: &[(&str, [Pair; 2])]) -> Claim {
    let found = |pairs: &[&Pair]| {
        let reductions: Vec<Estimate> = pairs.iter().map(|pair| pair.reduction()).collect();
        let holds = reductions[0].mean >= ENOUGH * 53.4 && reductions[1].mean >= ENOUGH * 72.6;
        let texts: Vec<String> = reductions.iter().map(|reduction| text(*reduction, 0)).collect();
        (format!("by {} % on 16 nodes, {} % on 32", texts[0], texts[1]), holds)
    };
    let (measured, holds) = found(largest);
    let variations = settled(varied, found);
    Claim {
        id: "003-16a",
        section: "§5.1.5",
        says: "HM-LRU lessens the difference between the fastest and the slowest process by 53.4 % with 64 processes on 16 \
               nodes and by 72.6 % with 128 on 32.",
        rule: "At least three quarters of both; with conditions: under one of the variations.",
        measured,
        verdict: settle(holds, &variations),
        why: "Where disks are the limit, the coolest of three keeps queues even. Where the network is, connections of three \
              seconds ago say little.",
        figure: Some("003-fig18"),
        variations,
    }
}

fn slowest(pairs: &[Pair], varied: &[(&str, [Pair; 2])]) -> Claim {
    let wanted = |pair: &Pair| if pair.n_nodes == 16 { 20.0 } else { 40.0 };
    let is_stated = |pair: &&Pair| pair.n_processes >= 3 * pair.n_nodes;
    let found = |pairs: &[&Pair]| {
        let of = |pair: &&Pair| {
            format!("{} MB/s with {} on {}", text(pair.gain(), 1), pair.n_processes, pair.n_nodes)
        };
        let texts: Vec<String> = pairs.iter().map(of).collect();
        (texts.join(", "), pairs.iter().all(|pair| pair.gain().mean >= ENOUGH * wanted(pair)))
    };
    let stated: Vec<&Pair> = pairs.iter().filter(is_stated).collect();
    let (measured, holds) = found(&stated);
    let limits: Vec<String> = stated.iter().map(|pair| format!("{:.0}", card_limit(pair))).collect();
    let variations = settled(varied, found);
    Claim {
        id: "003-16b",
        section: "§5.1.5",
        says: "With HM-LRU the slowest process gains more than 20 MB/s with 48 and 64 processes on 16 nodes, more than 40 \
               with 96 and 128 on 32.",
        rule: "At least three quarters of each; with conditions: under one of the variations.",
        measured: format!("{measured}; the cards allow {} MB/s on average in all", limits.join(", ")),
        verdict: settle(holds, &variations),
        why: "Cards of 1 Gb/s cannot carry it: three copies of all that is written would need a multiple of what they \
              receive, whatever the policy.",
        figure: Some("003-fig18"),
        variations,
    }
}

/// Mean bandwidth that the network cards allow each process: all that nodes can receive, divided by the copies that go
/// through a card. With n nodes, one write in n puts a copy on the writer's own node.
fn card_limit(pair: &Pair) -> f64 {
    let n_nodes = f64::from(pair.n_nodes);
    let through = f64::from(N_COPIES) - 1.0 / n_nodes;
    1e3 * DISK.nic * n_nodes / (f64::from(pair.n_processes) * through)
}

fn stable(pairs: &[Pair], varied: &[(&str, [Pair; 2])]) -> Claim {
    let most = |pairs: &[&Pair], runs: Of| {
        let parts = pairs.iter().map(|pair| mean(runs(pair), |run| 100.0 * run.spread() / run.least));
        parts.max_by(|a, b| a.mean.total_cmp(&b.mean)).unwrap_or(estimate([]))
    };
    let found = |pairs: &[&Pair]| {
        let (base, opass) = (most(pairs, |pair| &pair.base), most(pairs, |pair| &pair.opass));
        (format!("{} % at most; by lot {} %", text(opass, 0), text(base, 0)), opass.mean <= 30.0)
    };
    let all: Vec<&Pair> = pairs.iter().collect();
    let (measured, holds) = found(&all);
    let variations = settled(varied, found);
    Claim {
        id: "003-16c",
        section: "§5.1.5",
        says: "With HM-LRU the fastest process has at most 30 % more bandwidth than the slowest, however many there are.",
        rule: "On average in each of the eight settings; with conditions: under one of the variations.",
        measured,
        verdict: settle(holds, &variations),
        why: "Of three servers the coolest is seldom a hot one; drawn blindly it often is",
        figure: Some("003-fig18"),
        variations,
    }
}

fn smooth(largest: &[&Pair], varied: &[(&str, [Pair; 2])]) -> Claim {
    let found = |pairs: &[&Pair]| {
        let pair = pairs[1];
        let of = |runs: &[Run]| (mean(runs, |run| run.early_s), mean(runs, |run| run.late_s));
        let (base, opass) = (of(&pair.base), of(&pair.opass));
        let measured = format!(
            "{} to {} s by lot, {} to {} s by HM-LRU",
            text(base.0, 1),
            text(base.1, 1),
            text(opass.0, 1),
            text(opass.1, 1)
        );
        (measured, range(base.0).1 < range(opass.0).0 && range(base.1).0 > range(opass.1).1)
    };
    let (measured, holds) = found(largest);
    let variations = settled(varied, found);
    Claim {
        id: "003-20",
        section: "§5.1.5",
        says: "With 128 processes on 32 nodes, chunks without Opass begin with shorter times and end with longer ones.",
        rule: "The time that a twentieth of the chunks keep to is shorter by lot than by HM-LRU, and that of all but a \
               twentieth longer, beyond the intervals; with conditions: under one of the variations.",
        measured,
        verdict: settle(holds, &variations),
        why: "By lot some meet empty queues and some long ones.",
        figure: None,
        variations,
    }
}

fn figure(id: &'static str, n_nodes: u32, pairs: &[Pair]) -> Figure {
    let line = |name: &str, runs: Of, of: fn(&Run) -> f64| {
        let of_size = pairs.iter().filter(|pair| pair.n_nodes == n_nodes);
        let points = of_size.map(|pair| (f64::from(pair.n_processes), mean(runs(pair), of)));
        Line { name: name.to_owned(), points: points.collect() }
    };
    let (base, opass): (Of, Of) = (|pair| &pair.base, |pair| &pair.opass);
    let limits = pairs
        .iter()
        .filter(|pair| pair.n_nodes == n_nodes)
        .map(|pair| (f64::from(pair.n_processes), Estimate { mean: card_limit(pair), margin: None }));
    Figure {
        id,
        title: format!(
            "Figs. {}: write bandwidths on {n_nodes} nodes",
            if n_nodes == 16 { "16 and 17" } else { "18 and 19" }
        ),
        x: "processes",
        y: "MB/s",
        is_log_x: false,
        lines: vec![
            line("drawn, fastest", base, |run| run.most),
            line("drawn, slowest", base, |run| run.least),
            line("HM-LRU, fastest", opass, |run| run.most),
            line("HM-LRU, slowest", opass, |run| run.least),
            Line { name: "what the cards allow".to_owned(), points: limits.collect() },
        ],
        stated: Vec::new(),
    }
}
