//! What the paper reports about other work, and what it leaves for later.

use evenkeel::draw::Seeded;
use evenkeel::model::{Batch, Choice, Cluster};
use evenkeel::policy::{Ask, Kind, Ordered};
use evenkeel::select;
use evenkeel::workload::{Clients, Law, Sizes, Workload};

use super::{CHOSEN, N_RUNS, Setting};
use crate::outcome::Estimate;
use crate::papers::judging::{Finding, Statement, count, estimate, percent, range, shown};
use crate::papers::{Claim, Figure, Lab, Line, Section, Stated, Verdict};

/// Number of clients, servers and transfers of a graph.
type Size = (u32, u32, u32);

/// The graphs to colour: narrow and busy, as in the paper, square, and wide.
const GRAPHS: [Size; 4] = [(12, 10, 400), (256, 16, 1024), (64, 64, 2048), (256, 64, 512)];

/// Maximum number of transfers at once.
const LIMITS: [u64; 3] = [1, 4, 16];

/// Number of slots that a graph needs under each method.
struct Colours {
    degree: u64,
    colour: u64,
    greedy: [u64; 2],
    drawn: u64,
    /// For each limit on transfers at once: slots needed, the shortest schedule found, the greedy schedule, and its
    /// bound.
    limited: Vec<[u64; 4]>,
}

/// A graph without choice of replicas: each transfer has one server.
fn graph((n_clients, n_servers, n_transfers): Size, law: Law, seed: u64) -> Option<(Batch, Choice)> {
    let workload = Workload {
        n_requests: n_transfers,
        n_clients,
        n_servers,
        copies: 1,
        law,
        sizes: Sizes::Fixed(1),
        clients: Clients::Drawn,
        seed,
    };
    let batch = workload.generate().ok()?;
    let choice = select::random::select(&batch, &mut Seeded::new(seed));
    Some((batch, choice))
}

/// Largest number of transfers at any client or server.
fn degree(batch: &Batch, choice: &Choice) -> u64 {
    let mut of_clients = vec![0; batch.n_clients()];
    batch.client_of().iter().for_each(|client| of_clients[client.index()] += 1);
    of_clients.into_iter().chain(choice.loads(batch)).max().unwrap_or(0)
}

/// Number of slots under the order of that name.
fn slots(lab: &Lab, name: &str, batch: &Batch, cluster: &Cluster, choice: &Choice, seed: u64) -> u64 {
    let Kind::Order(order) = lab.policy(name).kind else { return u64::MAX };
    let Ordered { schedule, rounds, .. } = order(batch, cluster, choice, &Ask { seed, ..Ask::default() });
    rounds.map_or(schedule.length.rounded().floor(), |(n_rounds, _)| n_rounds.into())
}

fn colours(lab: &Lab, size: Size, law: Law, seed: u64) -> Option<Colours> {
    let (batch, choice) = graph(size, law, seed)?;
    let (equal, m) = (Cluster::equal(&batch), u64::from(size.2));
    let degree = degree(&batch, &choice);
    let in_slots = |name: &str, cluster: &Cluster| slots(lab, name, &batch, cluster, &choice, seed);
    let limited = LIMITS.into_iter().map(|k| {
        let cluster =
            Cluster::new(&batch, equal.servers().to_vec(), equal.clients().to_vec(), Some(k)).ok()?;
        let greedy = in_slots("hdf", &cluster).max(in_slots("hcdf", &cluster));
        let needed = degree.max(m.div_ceil(k));
        Some([needed, in_slots("colour", &cluster), greedy, m / k + 2 * degree - 1])
    });
    Some(Colours {
        degree,
        colour: in_slots("colour", &equal),
        greedy: ["hdf", "hcdf"].map(|name| in_slots(name, &equal)),
        drawn: in_slots("ps", &equal),
        limited: limited.collect::<Option<_>>()?,
    })
}

/// §2.1, §5.1 and §5.2: how many slots are enough.
pub(super) fn bounds(lab: &Lab) -> Section {
    let by_size = |law| {
        GRAPHS.map(|size| {
            let runs = lab.repeat(lab.n_runs(N_RUNS), |seed| colours(lab, size, law, seed));
            runs.into_iter().flatten().collect::<Vec<Colours>>()
        })
    };
    let (even, skewed) = (by_size(Law::Uniform), by_size(Law::Zipf));
    let data = [
        ("as chosen", even.iter().flatten().collect::<Vec<_>>()),
        ("servers drawn by 1/j", skewed.iter().flatten().collect()),
    ];
    let claims = vec![
        as_many_as_the_degree(&data),
        enough_at_once(&data),
        greedily(&data),
        exactly(&data),
        greedily_at_once(&data),
        drawn_slots(&data),
    ];
    Section { claims, figures: vec![drawn(&even)] }
}

fn ratio(slots: u64, degree: u64) -> f64 {
    slots as f64 / degree as f64
}

type Data<'a> = [(&'static str, Vec<&'a Colours>)];

fn as_many_as_the_degree(data: &Data<'_>) -> Claim {
    let statement = Statement {
        id: "000-8a",
        section: "§2.1, §5.1",
        says: "A bipartite graph of largest degree d can be coloured with d colours, and not with fewer.",
        rule: "The shortest order has exactly d slots for every graph drawn.",
        why: "König's theorem.",
        figure: Some("000-bounds"),
    };
    statement.judged(data, |runs| {
        let exact = count(runs.iter().map(|run| run.colour == run.degree));
        Finding::new(Verdict::plain(exact.is_all()), format!("for {exact} graphs"))
    })
}

fn enough_at_once(data: &Data<'_>) -> Claim {
    let statement = Statement {
        id: "000-8b",
        section: "§5.1",
        says: "With at most k of m transfers at once, max(d, ⌈m/k⌉) slots are necessary.",
        rule: "No order found for k = 1, 4 and 16 has fewer.",
        why: "They are also enough: the shortest order has just as many.",
        figure: None,
    };
    statement.judged(data, |runs| {
        let cases = || runs.iter().flat_map(|run| &run.limited);
        let above = count(cases().map(|case| case[1] >= case[0] && case[2] >= case[0]));
        let reached = count(cases().map(|case| case[1] == case[0]));
        Finding::new(Verdict::plain(above.is_all()), format!("in {above} cases; reached in {reached}"))
    })
}

fn greedily(data: &Data<'_>) -> Claim {
    let statement = Statement {
        id: "000-8c",
        section: "§5.1",
        says: "Greedy colouring takes at most 2d − 1 colours.",
        rule: "HDF and HCDF keep to it for every graph drawn.",
        why: "A transfer that is not in a slot meets another there at one of its two ends. The bound is far from what is \
              needed.",
        figure: Some("000-bounds"),
    };
    statement.judged(data, |runs| {
        let cases = || runs.iter().flat_map(|run| run.greedy.map(|slots| (slots, run.degree)));
        let within = count(cases().map(|(slots, d)| slots < 2 * d));
        let mean = estimate(cases().map(|(slots, d)| ratio(slots, d)));
        Finding::new(
            Verdict::plain(within.is_all()),
            format!("in {within} cases; {} d on average", shown(mean)),
        )
    })
}

fn exactly(data: &Data<'_>) -> Claim {
    let statement = Statement {
        id: "000-8d",
        section: "§5.1",
        says: "HDF and HCDF take exactly 2d − 1 colours.",
        rule: "They do for every graph drawn; with conditions: for some.",
        why: "The paper takes the bound for the number. Nearly always d colours or one more do.",
        figure: Some("000-bounds"),
    };
    statement.judged(data, |runs| {
        let cases = || runs.iter().flat_map(|run| run.greedy.map(|slots| (slots, run.degree)));
        let exact = count(cases().map(|(slots, d)| slots == 2 * d - 1));
        let most = cases().map(|(slots, d)| ratio(slots, d)).fold(0.0, f64::max);
        let measured = format!("in {exact} cases; at most {most:.3} d");
        Finding::new(Verdict::of(exact.is_all(), exact.n > 0), measured)
    })
}

fn greedily_at_once(data: &Data<'_>) -> Claim {
    let statement = Statement {
        id: "000-8e",
        section: "§5.1",
        says: "With at most k of m transfers at once, greedy colouring takes at most ⌊m/k⌋ + 2d − 1 colours.",
        rule: "HDF and HCDF keep to it for every graph drawn with k = 1, 4 and 16.",
        why: "A slot either has k transfers, or none that is left fits in.",
        figure: None,
    };
    statement.judged(data, |runs| {
        let cases = || runs.iter().flat_map(|run| &run.limited);
        let within = count(cases().map(|case| case[2] <= case[3]));
        let needed = estimate(cases().map(|case| ratio(case[2], case[0])));
        let measured = format!("in {within} cases; {} of what is needed", shown(needed));
        Finding::new(Verdict::plain(within.is_all()), measured)
    })
}

fn drawn_slots(data: &Data<'_>) -> Claim {
    let statement = Statement {
        id: "000-8f",
        section: "§5.2",
        says: "Slots drawn by clients (Panconesi and Srinivasan) are at most about 1.6 times the degree, and a few more.",
        rule: "At most 1.6 d + 20 slots for every graph drawn; 20 is (log₂ n)² for the smallest of them.",
        why: "Each phase settles all but a share 1/e of the degree; 1 / (1 − 1/e) is 1.58.",
        figure: Some("000-bounds"),
    };
    statement.judged(data, |runs| {
        let within = count(runs.iter().map(|run| 10 * run.drawn <= 16 * run.degree + 200));
        let mean = estimate(runs.iter().map(|run| ratio(run.drawn, run.degree)));
        let measured = format!("for {within} graphs; {} d on average", shown(mean));
        Finding::new(Verdict::plain(within.is_all()), measured)
    })
}

fn drawn(by_size: &[Vec<Colours>]) -> Figure {
    let line = |name: &str, of: fn(&Colours) -> u64| Line {
        name: name.to_owned(),
        points: (1_u32..)
            .zip(by_size)
            .map(|(i, runs)| (f64::from(i), estimate(runs.iter().map(|run| ratio(of(run), run.degree)))))
            .collect(),
    };
    Figure {
        id: "000-bounds",
        title: "§5.1: slots of 12×10, 256×16, 64×64 and 256×64 clients and servers".to_owned(),
        x: "graph",
        y: "slots ÷ largest degree",
        is_log_x: false,
        lines: vec![
            line("colour", |run| run.colour),
            line("hdf", |run| run.greedy[0]),
            line("hcdf", |run| run.greedy[1]),
            line("ps", |run| run.drawn),
        ],
        stated: vec![
            Stated { label: "2d − 1, about".to_owned(), x: None, y: 2.0 },
            Stated { label: "1.6 d".to_owned(), x: None, y: 1.6 },
        ],
    }
}

/// The policies compared, with the number of passes and of bids per pass of their clients.
const BIDDERS: [(&str, u32, u32); 7] = [
    ("hdf-dist", 1, 1),
    ("mpasses", 4, 1),
    ("hdlwf", 1, 1),
    ("hdlwf-rebid", 2, 1),
    ("hdlwf-rebid", 4, 1),
    ("hdlwf-multi", 1, 2),
    ("hdlwf-multi", 1, 4),
];

/// Their lengths divided by the optimum, at one setting.
struct Bidders {
    per_server: u32,
    over_best: [Estimate; 7],
    messages: [Estimate; 7],
}

fn bidders(lab: &Lab, setting: Setting) -> Bidders {
    let runs = lab.repeat(lab.n_runs(N_RUNS), |seed| {
        let Ok(batch) = CHOSEN.workload(&setting, seed).generate() else { return [(f64::NAN, 0.0); 7] };
        let cluster = Cluster::equal(&batch);
        let best = select::optimal::bound(&batch, &cluster, select::Goal::Length).value;
        BIDDERS.map(|(name, passes, bids)| {
            let Kind::Plan(plan) = lab.policy(name).kind else { return (f64::NAN, 0.0) };
            let (_, ordered) = plan(&batch, &cluster, &Ask { passes, bids, ..CHOSEN.ask(seed) });
            (ordered.schedule.length.over(best), ordered.messages.unwrap_or(0) as f64)
        })
    });
    let each = [0, 1, 2, 3, 4, 5, 6];
    Bidders {
        per_server: setting.per_server(),
        over_best: each.map(|i| estimate(runs.iter().map(|run| run[i].0))),
        messages: each.map(|i| estimate(runs.iter().map(|run| run[i].1 / f64::from(setting.n_transfers)))),
    }
}

/// §5.2 and §6: bidding more than once in a round.
pub(super) fn bidding_again(lab: &Lab) -> Section {
    let points = |n_transfers: u32| {
        [8, 16, 32, 64].map(|per_server| bidders(lab, Setting::new(n_transfers, n_transfers / per_server)))
    };
    let data = [("512 transfers", points(512)), ("2048 transfers", points(2048))];
    let passes = Statement {
        id: "000-9a",
        section: "§5.2",
        says: "Several rounds of bidding for each slot (MPASSES) make schedules shorter than one (HDF).",
        rule: "The mean length with 4 passes is below that with one at each of 8 to 64 transfers a server; with conditions: \
               at some.",
        why: "Who is turned away finds a server that nobody has asked.",
        figure: Some("000-again"),
    };
    let again = Statement {
        id: "000-9b",
        section: "§6",
        says: "To bid at several servers, or again after a rejection, may improve HDLWF; left for later.",
        rule: "Both (4 passes, 2 bids) have a lower mean length than HDLWF at each of 8 to 64 transfers a server, or one as \
               low where that is the optimum; with conditions: one of them does.",
        why: "To bid again fills idle servers, and takes about half of the distance, for twice the messages and more. Several \
              bids at once give a client more than it can take in a slot, and it takes one after the other.",
        figure: Some("000-again"),
    };
    let each = |points: &[Bidders; 4], i: usize| {
        points.iter().map(|point| shown(point.over_best[i])).collect::<Vec<_>>().join(", ")
    };
    // A policy that is already optimal counts as better.
    let beats = |points: &[Bidders; 4], i: usize, j: usize| {
        let is_better =
            |p: &Bidders| p.over_best[i].mean < p.over_best[j].mean || p.over_best[i].mean <= 1.000_001;
        count(points.iter().map(is_better))
    };
    let claims = vec![
        passes.judged(&data, |points| {
            let shorter = beats(points, 1, 0);
            let measured = format!(
                "at {shorter}; ÷ optimum {} with 4 passes, {} with one",
                each(points, 1),
                each(points, 0)
            );
            Finding::new(Verdict::of(shorter.is_all(), shorter.n > 0), measured)
        }),
        again.judged(&data, |points| {
            let (rebid, multi) = (beats(points, 4, 2), beats(points, 5, 2));
            let closed = points.iter().map(|p| p.over_best).filter(|over| over[2].mean > 1.001);
            let closed = estimate(closed.map(|over| (over[2].mean - over[4].mean) / (over[2].mean - 1.0)));
            let measured = format!(
                "÷ optimum {} (HDLWF), {} (4 passes, {rebid}), {} (2 bids, {multi}); 4 passes close {} of the distance \
                 for {} instead of {} messages a transfer",
                each(points, 2),
                each(points, 4),
                each(points, 5),
                percent(closed.mean),
                range(points.iter().map(|p| p.messages[4])),
                range(points.iter().map(|p| p.messages[2])),
            );
            let (rebid, multi) = (rebid.is_all(), multi.is_all());
            Finding::new(Verdict::of(rebid && multi, rebid || multi), measured)
        }),
    ];
    let lines = (0..).zip(BIDDERS).map(|(i, (name, passes, bids))| Line {
        name: match (passes, bids) {
            (1, 1) => name.to_owned(),
            (1, bids) => format!("{name}, {bids} bids"),
            (passes, _) => format!("{name}, {passes} passes"),
        },
        points: data[0].1.iter().map(|p| (f64::from(p.per_server), p.over_best[i as usize])).collect(),
    });
    let figure = Figure {
        id: "000-again",
        title: "§6: bidding again, 512 transfers".to_owned(),
        x: "transfers a server",
        y: "length ÷ optimum",
        is_log_x: true,
        lines: lines.collect(),
        stated: Vec::new(),
    };
    Section { claims, figures: vec![figure] }
}
