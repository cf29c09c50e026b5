//! Paper 002: collective I/O, where servers serve the slowest shuffle first (HIO), one application after the other
//! (SIO), or in order of arrival (NIO).
//!
//! `model` covers what the paper derives. This module covers what it measured, on a testbed that it hardly describes.
//! Policies differ only in the order in which servers serve requests.

mod model;

use evenkeel::policy::Kind;

use super::judging::{Count, Finding, Statement, count, estimate, percent, percents};
use super::{Claim, Experiment, Figure, Lab, Line, Paper, Parameter, Section, Source, Stated, Verdict};
use crate::collective::CollectiveIo;
use crate::hardware::{Client, Hardware, Server};
use crate::outcome::Estimate;
use crate::units::{Bytes, PerSecond, Span};

/// The paper.
pub static PAPER: Paper = Paper {
    number: "002",
    title: "Liu, Chen, Zhuang: Hierarchical I/O Scheduling for Collective I/O",
    about: "Servers learn how long the shuffle behind each read takes, and serve the slowest first. The example and the \
            formulas are right under conditions that are not all stated. But each server by itself then begins with \
            another application, and unless shuffles take as long as a queue of reads, that costs more than it \
            gains: with the shuffles that the paper reports, one application after the other is as good or better. Due \
            dates from the same hints (hio-edd) keep what the paper promises.",
    experiments: &[
        Experiment { name: "two orders (Fig. 2)", run: model::example },
        Experiment { name: "formulas (4) to (9)", run: model::formulas },
        Experiment { name: "never worse than server-side scheduling (§IV)", run: model::never_worse },
        Experiment { name: "applications, sizes, nodes (Fig. 4 to 6)", run: figures },
        Experiment { name: "queries (Table I)", run: table },
    ],
    parameters: &[
        Parameter { name: "aggregators of an application", value: "6", source: Source::Paper("§VI.B") },
        Parameter { name: "processes of an application", value: "50", source: Source::Paper("§VI.B") },
        Parameter { name: "size of a request in Fig. 4", value: "16 MB", source: Source::Paper("§VI.B") },
        Parameter {
            name: "applications in Fig. 4",
            value: "6, 12, 24, 48",
            source: Source::Paper("§VI.B, which says processes; Fig. 4 has applications"),
        },
        Parameter { name: "storage nodes in Fig. 4", value: "6", source: Source::Paper("§VI.B") },
        Parameter {
            name: "sizes in Fig. 5",
            value: "64 kB, 1 MB, 5 MB, 10 MB",
            source: Source::Paper("§VI.B"),
        },
        Parameter { name: "applications in Fig. 5", value: "6", source: Source::Paper("§VI.B") },
        Parameter {
            name: "storage nodes in Fig. 6",
            value: "2, 4, 6, 8, 16, as many aggregators",
            source: Source::Paper("§VI.B"),
        },
        Parameter { name: "size of a request in Fig. 6", value: "15 MB", source: Source::Paper("§VI.B") },
        Parameter { name: "threshold of HIO", value: "0.2", source: Source::Paper("Algorithm 1") },
        Parameter { name: "compute nodes", value: "16", source: Source::Paper("§VI.A") },
        Parameter { name: "queries in Table I", value: "20, at once", source: Source::Paper("§VI.B") },
        Parameter {
            name: "disk",
            value: "5 ms and 100 MB/s",
            source: Source::Chosen("not given; a disk of the time"),
        },
        Parameter {
            name: "network between nodes",
            value: "90 MB/s, 50 µs; varied",
            source: Source::Chosen(
                "not given; so that shuffles take 5.6 % of the time with 10 MB, as §VI.B says",
            ),
        },
        Parameter { name: "network in a node", value: "4 GB/s", source: Source::Chosen("not given; memory") },
        Parameter {
            name: "processes that want of an aggregator's data",
            value: "1 to 50, drawn; varied",
            source: Source::Chosen("not given; shuffles have to differ for HIO to have anything to do"),
        },
        Parameter {
            name: "arrival",
            value: "all at once, in an order drawn for each server; varied",
            source: Source::Chosen("not given; as §IV assumes"),
        },
        Parameter {
            name: "shuffle",
            value: "as soon as an aggregator has its data; varied",
            source: Source::Chosen("§II has no barrier, formula (4) has one"),
        },
        Parameter {
            name: "exchanges of HIO",
            value: "of neighbours, as the text has it; varied",
            source: Source::Chosen("text and listing of §III.C differ"),
        },
        Parameter {
            name: "applications in Fig. 6",
            value: "6",
            source: Source::Chosen("not given; as in Fig. 5"),
        },
        Parameter {
            name: "storage nodes and sizes in Table I",
            value: "6; each query reads a twentieth of the data set",
            source: Source::Chosen("not given; only shares of time are compared"),
        },
        Parameter {
            name: "runs of each setting",
            value: "400",
            source: Source::Chosen("not given; enough for intervals of about 1 %"),
        },
    ],
};

/// Runs are short here, so even a quick lab does many.
fn n_runs(lab: &Lab) -> u32 {
    if lab.is_quick { 40 } else { 400 }
}

/// Parameters that the paper leaves open.
#[derive(Clone, Copy, Debug)]
struct Open {
    /// The policy whose savings are judged.
    hio: &'static str,
    /// Rate between nodes, in bytes per nanosecond.
    inter: f64,
    partners: Option<[u32; 2]>,
    is_serial: bool,
    has_barrier: bool,
    spread: Span,
}

const CHOSEN: Open =
    Open { hio: "hio", inter: 0.09, partners: None, is_serial: false, has_barrier: false, spread: Span(0) };

const VARIATIONS: [(&str, Open); 10] = [
    ("as chosen", CHOSEN),
    ("a network ten times slower", Open { inter: 0.009, ..CHOSEN }),
    ("a network a hundred times slower", Open { inter: 0.0009, ..CHOSEN }),
    ("a network ten times faster", Open { inter: 0.9, ..CHOSEN }),
    ("messages one after the other", Open { is_serial: true, ..CHOSEN }),
    ("all processes want all data", Open { partners: Some([50, 50]), ..CHOSEN }),
    ("shuffles behind a barrier", Open { has_barrier: true, ..CHOSEN }),
    ("requests spread over 0.5 s", Open { spread: Span(500_000_000), ..CHOSEN }),
    ("exchanges as listed", Open { hio: "hio-listing", ..CHOSEN }),
    ("hio-edd instead of HIO", Open { hio: "hio-edd", ..CHOSEN }),
];

impl Open {
    fn io(self) -> CollectiveIo {
        CollectiveIo {
            inter: PerSecond(self.inter),
            partners: self.partners,
            serial: self.is_serial,
            barrier: self.has_barrier,
            spread: self.spread,
            ..CollectiveIo::default()
        }
    }
}

/// The paper's testbed with `n_servers` storage nodes.
fn testbed(n_servers: u32) -> Hardware {
    let server = |host| Server { host, latency_ns: 5_000_000, rate: 0.1, ..Server::default() };
    Hardware {
        servers: (0..n_servers).map(server).collect(),
        clients: (0..16).map(|client| Client { host: n_servers + client, slots: 1 }).collect(),
        n_hosts: n_servers + 16,
        nic: None,
        message_ns: 50_000,
        dispatch_ns: 0,
    }
}

/// A point of a figure, run by run: mean times of applications under NIO, SIO and HIO, and of their longest shuffles,
/// in seconds; and whether shuffles exceed HIO's threshold on any server.
struct Point {
    x: f64,
    runs: Vec<[f64; 5]>,
}

const NIO: usize = 0;
const SIO: usize = 1;
const HIO: usize = 2;
const SHUFFLE: usize = 3;
const IS_PASSED: usize = 4;

impl Point {
    fn measure(lab: &Lab, x: f64, hio: &str, io: &CollectiveIo, n_servers: u32) -> Self {
        let hardware = testbed(n_servers);
        let runs = lab.repeat(n_runs(lab), |seed| {
            let mean_s = |name: &str| {
                let outcome = io.run(&lab.case(&hardware, name, seed));
                outcome.map_or(f64::NAN, |outcome| outcome.mean_response_ns() / 1e9)
            };
            let (shuffle_s, is_passed) = io.reads(&hardware, seed).map_or((f64::NAN, f64::NAN), |reads| {
                let mut slowest_ns = vec![0; io.apps as usize];
                let mut of_servers = vec![(0, 0); n_servers as usize];
                for request in reads.collective.requests() {
                    let slowest_ns = &mut slowest_ns[request.app.index()];
                    *slowest_ns = request.shuffle_ns.max(*slowest_ns);
                    let (shuffles_ns, reads_ns) = &mut of_servers[request.server.index()];
                    (*shuffles_ns, *reads_ns) =
                        (*shuffles_ns + request.shuffle_ns, *reads_ns + request.read_ns);
                }
                // The threshold is a fifth.
                let is_passed = of_servers.iter().any(|(shuffles_ns, reads_ns)| 5 * shuffles_ns > *reads_ns);
                let shuffle_s = estimate(slowest_ns.into_iter().map(|ns: u64| ns as f64 / 1e9)).mean;
                (shuffle_s, f64::from(u8::from(is_passed)))
            });
            [mean_s("nio"), mean_s("sio"), mean_s(hio), shuffle_s, is_passed]
        });
        Self { x, runs }
    }

    fn mean(&self, i: usize) -> Estimate {
        estimate(self.runs.iter().map(|run| run[i]))
    }

    /// Share of the time that HIO saves compared with another policy.
    fn saved(&self, against: usize) -> Estimate {
        estimate(self.runs.iter().map(|run| 1.0 - run[HIO] / run[against]))
    }

    /// Share of the time under NIO that the longest shuffle takes.
    fn share(&self) -> Estimate {
        estimate(self.runs.iter().map(|run| run[SHUFFLE] / run[NIO]))
    }
}

/// Figures 4 to 6 under one choice of the open parameters.
struct Points {
    apps: Vec<Point>,
    sizes: Vec<Point>,
    nodes: Vec<Point>,
}

const SIZES: [u64; 4] = [64_000, 1_000_000, 5_000_000, 10_000_000];

impl Points {
    fn measure(lab: &Lab, open: Open) -> Self {
        let of_apps = |apps| CollectiveIo { apps, ..open.io() };
        let of_size = |bytes| CollectiveIo { bytes: Bytes(bytes), ..open.io() };
        let of_nodes = |aggregators| CollectiveIo { aggregators, bytes: Bytes(15_000_000), ..open.io() };
        let point =
            |x: u64, io: CollectiveIo, n_servers| Point::measure(lab, x as f64, open.hio, &io, n_servers);
        Self {
            apps: [6, 12, 24, 48].map(|n| point(n.into(), of_apps(n), 6)).into(),
            sizes: SIZES.map(|bytes| point(bytes, of_size(bytes), 6)).into(),
            nodes: [2, 4, 6, 8, 16].map(|n| point(n.into(), of_nodes(n), n)).into(),
        }
    }
}

/// The savings at these points, as text.
fn savings(points: &[Point], against: usize) -> String {
    points.iter().map(|point| percents(point.saved(against))).collect::<Vec<_>>().join(", ")
}

/// Share of the runs in which shuffles exceed HIO's threshold on any server, as text.
fn passed(points: &[Point]) -> String {
    points.iter().map(|point| percents(point.mean(IS_PASSED))).collect::<Vec<_>>().join(", ")
}

/// Counts how often savings grow from one point to the next.
fn grows(points: &[Point], against: usize) -> Count {
    count(points.windows(2).map(|pair| pair[1].saved(against).mean > pair[0].saved(against).mean))
}

/// Whether both hold, or only one.
fn both(is_first: bool, is_second: bool) -> Verdict {
    Verdict::of(is_first && is_second, is_first || is_second)
}

/// §VI.B.
fn figures(lab: &Lab) -> Section {
    let data: Vec<(&str, Points)> =
        VARIATIONS.iter().map(|&(name, open)| (name, Points::measure(lab, open))).collect();
    let mut claims = of_apps(&data);
    claims.extend(of_sizes(&data));
    claims.extend(of_nodes(&data));
    Section { claims, figures: data.first().map_or(Vec::new(), |(_, points)| drawn(points)) }
}

/// Fig. 4.
fn of_apps(data: &[(&str, Points)]) -> Vec<Claim> {
    let better = Statement {
        id: "002-f4a",
        section: "§VI.B",
        says: "With 6 to 48 applications HIO is better than NIO and SIO.",
        rule: "On average HIO saves time against both at every number of applications; with conditions: against one.",
        why: "With shuffles as short as the paper reports, most servers do not pass the threshold of a fifth and do as under \
              SIO, which is what saves against NIO; one that does leaves the common order, and that costs. HIO is \
              better than SIO only with shuffles a hundred times as long.",
        figure: Some("002-fig4"),
    };
    let amount = Statement {
        id: "002-f4b",
        section: "§VI.B",
        says: "HIO saves up to 34.1 % against NIO, and up to 15.2 % against SIO.",
        rule: "The largest mean saving is at least 31.1 % and 12.2 %; with conditions: one of both.",
        why: "Against NIO SIO alone saves more than that. Against SIO HIO loses; with the shuffles that the paper reports \
              even the best that their hints allow saves next to nothing.",
        figure: Some("002-fig4s"),
    };
    let more = Statement {
        id: "002-f4c",
        section: "§VI.B",
        says: "The more applications, the more HIO saves.",
        rule: "The mean savings against NIO and SIO grow with every step, and there are some in the end; with conditions: \
               against one of them.",
        why: "Against NIO, as SIO's do by (8). Against SIO only the loss gets smaller: with more applications shuffles even \
              out, a server passes the threshold less often, and HIO becomes SIO.",
        figure: Some("002-fig4s"),
    };
    vec![
        better.judged(data, |points| {
            let is_better = |against| points.apps.iter().all(|point| point.saved(against).mean > 0.0);
            let [nio, sio] = [NIO, SIO].map(|against| savings(&points.apps, against));
            let passed = passed(&points.apps);
            let measured =
                format!("saves {nio} (NIO), {sio} (SIO); a server passes the threshold in {passed} of runs");
            Finding::new(both(is_better(NIO), is_better(SIO)), measured)
        }),
        amount.judged(data, |points| {
            let most = |against| {
                let savings = points.apps.iter().map(|point| point.saved(against));
                savings.max_by(|a, b| a.mean.total_cmp(&b.mean)).unwrap_or(estimate([]))
            };
            let (nio, sio) = (most(NIO), most(SIO));
            let measured = format!("at most {} (NIO), {} (SIO)", percents(nio), percents(sio));
            Finding::new(both(nio.mean >= 0.311, sio.mean >= 0.122), measured)
        }),
        more.judged(data, |points| {
            let [nio, sio] = [NIO, SIO].map(|against| grows(&points.apps, against));
            let last = [NIO, SIO].map(|against| points.apps[3].saved(against));
            let measured = format!(
                "in {nio} steps to {} (NIO), {sio} steps to {} (SIO)",
                percents(last[0]),
                percents(last[1])
            );
            let is_so = [nio.is_all() && last[0].mean > 0.0, sio.is_all() && last[1].mean > 0.0];
            Finding::new(both(is_so[0], is_so[1]), measured)
        }),
    ]
}

/// Fig. 5.
fn of_sizes(data: &[(&str, Points)]) -> Vec<Claim> {
    let share = Statement {
        id: "002-f5a",
        section: "§VI.B",
        says: "From 64 kB to 10 MB the share of the shuffle grows from 0.7 % to 5.6 %.",
        rule: "The mean share of an application's longest shuffle in its time under NIO grows with every size, and both ends \
               are within half and one and a half times these; with conditions: it grows.",
        why: "The larger share is how the network was chosen; the smaller follows, with a disk that takes 5 ms before the \
              first byte.",
        figure: Some("002-fig5"),
    };
    let gain = Statement {
        id: "002-f5b",
        section: "§VI.B",
        says: "The larger the requests, the more HIO saves: from 6.8 % to 18.3 %.",
        rule: "The mean savings against NIO and SIO grow with every size; with conditions: against one of them.",
        why: "HIO looks at shuffles only if they take a fifth of the reads. With small requests they do not, and HIO is \
              SIO; with larger ones it leaves that order, and loses. What SIO saves against NIO does not depend \
              on the size, and shuffles of 0.7 to 5.6 % have no such savings to give.",
        figure: Some("002-fig5"),
    };
    vec![
        share.judged(data, |points| {
            let shares: Vec<f64> = points.sizes.iter().map(|point| point.share().mean).collect();
            let grows = shares.is_sorted_by(|a, b| a < b);
            let is_near = |share: f64, stated: f64| (0.5..=1.5).contains(&(share / stated));
            let is_as_stated = is_near(shares[0], 0.007) && is_near(shares[3], 0.056);
            let shares: Vec<String> = points.sizes.iter().map(|point| percents(point.share())).collect();
            Finding::new(Verdict::of(grows && is_as_stated, grows), shares.join(", "))
        }),
        gain.judged(data, |points| {
            let [nio, sio] = [NIO, SIO].map(|against| grows(&points.sizes, against).is_all());
            let saved = [NIO, SIO].map(|against| savings(&points.sizes, against));
            Finding::new(both(nio, sio), format!("saves {} (NIO), {} (SIO)", saved[0], saved[1]))
        }),
    ]
}

/// Fig. 6.
fn of_nodes(data: &[(&str, Points)]) -> Vec<Claim> {
    let scales = Statement {
        id: "002-f6a",
        section: "§VI.B",
        says: "With more storage nodes NIO takes longer; SIO and HIO scale better.",
        rule: "From 2 to 16 nodes the mean time of NIO grows by 10 % or more, and that of SIO and HIO by less \
               than three quarters as much; with conditions: that of one of them.",
        why: "Each application waits for the last of its servers, and with more of them that is later; under SIO all serve \
              it at once. Under HIO, not if one of them passes the threshold.",
        figure: Some("002-fig6"),
    };
    let better = Statement {
        id: "002-f6b",
        section: "§VI.B",
        says: "HIO is better than SIO and scales better with storage nodes.",
        rule: "HIO saves time against SIO with every number of nodes on average, and more with 16 than with 2; with \
               conditions: one of both.",
        why: "The more nodes, the more often one of them passes the threshold and leaves the common order, and an \
              application waits for the last. With shuffles a hundred times as long it is so.",
        figure: Some("002-fig6"),
    };
    vec![
        scales.judged(data, |points| {
            let growth = |i: usize| points.nodes[4].mean(i).mean / points.nodes[0].mean(i).mean - 1.0;
            let [nio, sio, hio] = [NIO, SIO, HIO].map(growth);
            let verdict = if nio >= 0.1 { both(sio < 0.75 * nio, hio < 0.75 * nio) } else { Verdict::Fails };
            let [nio, sio, hio] = [nio, sio, hio].map(percent);
            Finding::new(verdict, format!("grows by {nio} (NIO), {sio} (SIO), {hio} (HIO)"))
        }),
        better.judged(data, |points| {
            let saved: Vec<f64> = points.nodes.iter().map(|point| point.saved(SIO).mean).collect();
            let verdict = both(saved.iter().all(|saved| *saved > 0.0), saved[4] > saved[0]);
            let (saved, passed) = (savings(&points.nodes, SIO), passed(&points.nodes));
            Finding::new(verdict, format!("saves {saved}; a server passes the threshold in {passed} of runs"))
        }),
    ]
}

/// Figures 4 to 6. The paper's text states no numbers for them, except for the savings.
fn drawn(points: &Points) -> Vec<Figure> {
    let times = |id, title: &str, x, points: &[Point]| {
        let line = |(i, name): (usize, &str)| Line {
            name: name.to_owned(),
            points: points.iter().map(|point| (point.x, point.mean(i))).collect(),
        };
        Figure {
            id,
            title: title.to_owned(),
            x,
            y: "mean time of an application (s)",
            is_log_x: true,
            lines: ["nio", "sio", "hio"].into_iter().enumerate().map(line).collect(),
            stated: Vec::new(),
        }
    };
    let saved = |points: &[Point], unit: f64| {
        [("saved against nio", NIO), ("saved against sio", SIO)].map(|(name, against)| Line {
            name: name.to_owned(),
            points: points.iter().map(|point| (point.x / unit, point.saved(against))).collect(),
        })
    };
    let mut lines = saved(&points.sizes, 1e6).to_vec();
    lines.push(Line {
        name: "shuffle".to_owned(),
        points: points.sizes.iter().map(|point| (point.x / 1e6, point.share())).collect(),
    });
    let stated = |label: &str, x: f64, y: f64| Stated { label: label.to_owned(), x: Some(x), y };
    let shares = Figure {
        id: "002-fig5",
        title: "Fig. 5: six applications, what HIO saves and what shuffles take".to_owned(),
        x: "size of a request (MB)",
        y: "share of the time",
        is_log_x: true,
        lines,
        stated: vec![
            stated("saved", 0.064, 0.068),
            stated("saved", 10.0, 0.183),
            stated("shuffle", 0.064, 0.007),
            stated("shuffle", 10.0, 0.056),
        ],
    };
    let savings = Figure {
        id: "002-fig4s",
        title: "Fig. 4: what HIO saves".to_owned(),
        x: "applications",
        y: "share of the time",
        is_log_x: true,
        lines: saved(&points.apps, 1.0).to_vec(),
        stated: [("up to, against NIO", 0.341), ("up to, against SIO", 0.152)]
            .map(|(label, y)| Stated { label: label.to_owned(), x: None, y })
            .to_vec(),
    };
    vec![
        savings,
        times("002-fig4", "Fig. 4: six storage nodes, requests of 16 MB", "applications", &points.apps),
        shares,
        times("002-fig6", "Fig. 6: six applications, requests of 15 MB", "storage nodes", &points.nodes),
    ]
}

/// Table I: megabytes, and milliseconds under NIO and HIO.
const TABLE: [(f64, f64, f64); 6] = [
    (115.0, 354.87, 185.42),
    (225.0, 702.71, 361.09),
    (290.0, 899.78, 454.25),
    (450.0, 1410.21, 566.02),
    (1200.0, 3616.45, 1027.08),
    (1800.0, 5490.84, 3090.21),
];

/// §VI.B, Table I.
fn table(lab: &Lab) -> Section {
    let printed = Statement {
        id: "002-t1a",
        section: "§VI.B, Table I",
        says: "HIO improves the mean response of queries by up to 59.8 %.",
        rule: "The largest saving among the printed rows is 59.8 %, to a tenth; with conditions: some row has it.",
        why: "That is the row of 450 MB. The one of 1.2 GB is better, and most are at about 48 %.",
        figure: Some("002-table1"),
    };
    let simulated = Statement {
        id: "002-t1b",
        section: "§VI.B, Table I",
        says: "For 20 queries at once HIO is that much better than NIO.",
        rule: "The mean saving against NIO is within 10 points of the printed one for every data set; with conditions: for \
               some.",
        why: "One application after the other is enough for most rows: by (8) it saves 47.5 % with many storage nodes, and \
              39 % with six. HIO does about the same where its threshold is not passed. The rows of 450 MB and \
              1.2 GB are out of reach of all policies here.",
        figure: Some("002-table1"),
    };
    let saved: Vec<f64> = TABLE.iter().map(|(_, nio, hio)| 1.0 - hio / nio).collect();
    let points = |open: Open| {
        TABLE.map(|(mb, _, _)| {
            // Each query reads a twentieth of the data set, and each aggregator a sixth of that.
            let bytes = Bytes((mb * 1e6 / 120.0) as u64);
            let io = CollectiveIo { apps: 20, bytes, ..open.io() };
            Point::measure(lab, mb, open.hio, &io, 6)
        })
    };
    let data = [
        ("as chosen", points(CHOSEN)),
        ("a network ten times slower", points(Open { inter: 0.009, ..CHOSEN })),
        ("a network a hundred times slower", points(Open { inter: 0.0009, ..CHOSEN })),
        ("SIO instead of HIO", points(Open { hio: "sio", ..CHOSEN })),
        ("hio-edd instead of HIO", points(Open { hio: "hio-edd", ..CHOSEN })),
    ];
    let claims = vec![
        printed.judged(&[("as printed", &saved)], |saved| {
            let most = saved.iter().copied().fold(0.0, f64::max);
            let is_stated = |saved: f64| (saved - 0.598).abs() < 0.001;
            let verdict = Verdict::of(is_stated(most), saved.iter().any(|&saved| is_stated(saved)));
            let rows: Vec<String> = saved.iter().map(|&saved| percent(saved)).collect();
            Finding::new(verdict, rows.join(", "))
        }),
        simulated.judged(&data, |points| {
            let near =
                points.iter().zip(&saved).map(|(point, saved)| (point.saved(NIO).mean - saved).abs() <= 0.1);
            let near = count(near);
            let measured = format!("within 10 points in {near} rows: {}", savings(points, NIO));
            Finding::new(Verdict::of(near.is_all(), near.n > 0), measured)
        }),
    ];
    let line = |name: &str, points: &[Point]| Line {
        name: name.to_owned(),
        points: points.iter().map(|point| (point.x, point.saved(NIO))).collect(),
    };
    let stated = TABLE.iter().zip(&saved);
    let figure = Figure {
        id: "002-table1",
        title: "Table I: what is saved against NIO, 20 queries".to_owned(),
        x: "data set (MB)",
        y: "share of the time",
        is_log_x: true,
        lines: vec![line("hio", &data[0].1), line("sio", &data[3].1), line("hio-edd", &data[4].1)],
        stated: stated.map(|(row, &y)| Stated { label: "HIO".to_owned(), x: Some(row.0), y }).collect(),
    };
    Section { claims, figures: vec![figure] }
}
