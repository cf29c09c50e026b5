//! What the paper derives: its example, its formulas, and the claim that HIO is never worse than SIO.
//!
//! Times are in nanoseconds. A read takes [`READ`], and each byte of it a nanosecond.

use evenkeel::draw::{Draw, Seeded};
use evenkeel::model::ServerId;
use evenkeel::queue::formulas::Even;
use evenkeel::queue::shuffle::acceptable_delays;
use evenkeel::queue::{AppId, Collective, Discipline, Model, Options, Request};

use super::{Kind, both, n_runs};
use crate::collective::{Part, Reads, read};
use crate::fabric::Fabric;
use crate::hardware::{Client, Hardware, Server};
use crate::outcome::Estimate;
use crate::papers::judging::{Finding, Statement, count, estimate, percent, shown};
use crate::papers::{Claim, Figure, Lab, Line, Section, Stated, Verdict};

const READ: u64 = 1_000_000;

/// Requests from rows of application, server, read and shuffle. Each has its own aggregator, and all are present in
/// this order.
fn reads(n_apps: u32, n_servers: u32, rows: &[(u32, u32, u64, u64)]) -> Option<Reads> {
    let request = |&(app, server, read_ns, shuffle_ns): &(u32, u32, u64, u64)| Request {
        app: AppId(app),
        server: ServerId(server),
        read_ns,
        shuffle_ns,
        ..Request::default()
    };
    let part = |(aggregator, row): (u32, &(u32, u32, u64, u64))| Part {
        aggregator,
        to: n_servers,
        bytes: row.2,
        arrival_ns: 0,
    };
    Some(Reads {
        collective: Collective::new(n_apps, n_servers, rows.iter().map(request).collect()).ok()?,
        parts: (0..).zip(rows).map(part).collect(),
        begins_ns: vec![0; n_apps as usize],
    })
}

/// When each application is done under a policy, in the simulator.
fn completions(lab: &Lab, name: &str, reads: &Reads, model: Model) -> Vec<f64> {
    let Kind::Queue(Discipline { queue, .. }) = lab.policy(name).kind else { return Vec::new() };
    let n_servers = reads.collective.n_servers() as u32;
    let server = |host| Server { host, ..Server::default() };
    let hardware = Hardware {
        servers: (0..n_servers).map(server).collect(),
        clients: vec![Client { host: n_servers, slots: 1 }],
        n_hosts: n_servers + 1,
        nic: None,
        message_ns: 0,
        dispatch_ns: 0,
    };
    let options = Options { model, ..Options::default() };
    let (done_ns, _) = read(reads, Fabric::new(&hardware, Some(&|| queue(&options))), model);
    done_ns.into_iter().map(|done_ns| done_ns.map_or(f64::NAN, |ns| ns as f64)).collect()
}

/// Mean completion time, in multiples of a read.
fn mean(lab: &Lab, name: &str, reads: &Reads, model: Model) -> f64 {
    estimate(completions(lab, name, reads, model)).mean / READ as f64
}

/// Fig. 2: aggregators p0, p2 and p4 of one application; p4 has nothing to shuffle.
pub(super) fn example(lab: &Lab) -> Section {
    let (p0, p2, p4) = ((0, 0, 6, 6), (0, 0, 6, 6), (0, 0, 6, 0));
    let done = |name: &str, rows: &[(u32, u32, u64, u64)], model| {
        let reads = reads(1, 1, rows)?;
        completions(lab, name, &reads, model).first().copied()
    };
    let orders = Statement {
        id: "002-2a",
        section: "§II, Fig. 2",
        says: "The application takes 24t if p4 is served first and 18t if p0 is; to schedule the slowest first finds that.",
        rule: "24, 18, and 18 by HIO from the worse order of arrival; with conditions: some of these.",
        why: "Each aggregator shuffles as soon as it has its data. Behind a barrier both orders take 24t.",
        figure: None,
    };
    let delay = Statement {
        id: "002-2b",
        section: "§II, §III.B",
        says: "p4 can wait for 12t without harm: its acceptable delay.",
        rule: "12t is the longest delay of p4 that leaves the application at 18t, and formula (3) gives 12t; with conditions: \
               one of both.",
        why: "12t is what is left in this one order. Formula (3) does not know the order, and gives 6t.",
        figure: None,
    };
    let orders = orders.judged(&[("no barrier", Model::NoBarrier), ("barrier", Model::Barrier)], |&model| {
        let found = [
            done("nio", &[p4, p0, p2], model),
            done("nio", &[p0, p2, p4], model),
            done("hio", &[p4, p0, p2], model),
        ];
        let right = count(found.iter().zip([24.0, 18.0, 18.0]).map(|(found, wanted)| *found == Some(wanted)));
        let found = found.map(|found| format!("{}t", found.unwrap_or(f64::NAN)));
        Finding::new(Verdict::of(right.is_all(), right.n > 0), found.join(", "))
    });
    // Otherwise p4 has the server to itself: it can begin late enough to end with the others.
    let end = done("nio", &[p0, p2, p4], Model::NoBarrier).unwrap_or(0.0) as u64;
    let (slack, by_formula) = (end.saturating_sub(6), acceptable_delays(&[6, 6, 0])[2]);
    let verdict = both(slack == 12, by_formula == 12);
    let measured = format!("{slack}t in the order p0, p2, p4; {by_formula}t by formula (3)");
    let delay = delay.judged(&[("as chosen", ())], |()| Finding::new(verdict, measured.clone()));
    Section { claims: vec![orders, delay], figures: Vec::new() }
}

/// Lengths of shuffles, in multiples of a read. Each application has one request on every server.
#[derive(Clone, Copy)]
enum Shuffles {
    /// Each is drawn at random, up to this length.
    UpTo(f64),
    /// Each application has one shuffle of this length, on a server of its own. Its others are zero.
    Apart(f64),
    /// As `Apart`, but only the last of the others is zero. The rest are half a read shorter than the longest.
    HardlyApart(f64),
    /// Each application has one shuffle of this length, all on the first server. Its others are zero.
    Together(f64),
    /// As `Together`, but the others are drawn at random, up to nine tenths of the longest.
    TogetherAmongOthers(f64),
}

/// Each application has a request on every server. The requests arrive in random order.
fn even(m: u32, n: u32, shuffles: Shuffles, seed: u64) -> Option<Reads> {
    let mut draw = Seeded::new(seed);
    let ns = |reads: f64| (reads * READ as f64) as u64;
    let mut rows = Vec::new();
    for (app, server) in (0..m).flat_map(|app| (0..n).map(move |server| (app, server))) {
        let shuffle_ns = match shuffles {
            Shuffles::UpTo(most) => ns(most * draw.unit()),
            Shuffles::Apart(longest) if server == app % n => ns(longest),
            Shuffles::HardlyApart(longest) if server == app % n => ns(longest),
            Shuffles::HardlyApart(longest) if server != (app + n - 1) % n => ns(longest - 0.5),
            Shuffles::Together(longest) | Shuffles::TogetherAmongOthers(longest) if server == 0 => {
                ns(longest)
            }
            Shuffles::TogetherAmongOthers(longest) => ns(0.9 * longest * draw.unit()),
            _ => 0,
        };
        rows.push((app, server, READ, shuffle_ns));
    }
    for last in (1..rows.len()).rev() {
        rows.swap(last, draw.below(last as u32 + 1) as usize);
    }
    reads(m, n, &rows)
}

/// Numbers of applications and servers.
const EVEN: [(u32, u32); 6] = [(2, 2), (6, 6), (6, 16), (12, 12), (12, 16), (16, 16)];
/// Numbers of applications and servers, with fewer servers than applications.
const CROWDED: [(u32, u32); 3] = [(6, 4), (12, 6), (24, 6)];

/// Simulated means, each with the value of a formula.
type Pairs = Vec<(Estimate, f64)>;

/// Compares the means of a policy with a formula.
fn pairs(
    lab: &Lab,
    name: &str,
    model: Model,
    cases: &[(u32, u32)],
    shuffles: impl Fn(u32) -> Shuffles,
    formula: fn(&Even) -> f64,
) -> Pairs {
    let pair = |&(m, n): &(u32, u32)| {
        let shuffles = shuffles(m);
        let longest = match shuffles {
            Shuffles::UpTo(s)
            | Shuffles::Apart(s)
            | Shuffles::HardlyApart(s)
            | Shuffles::Together(s)
            | Shuffles::TogetherAmongOthers(s) => s,
        };
        let runs = lab.repeat(n_runs(lab), |seed| {
            let reads = even(m, n, shuffles, seed);
            reads.map_or(f64::NAN, |reads| mean(lab, name, &reads, model))
        });
        (estimate(runs), Even::new(m, n, 1.0, longest).map_or(f64::NAN, |even| formula(&even)))
    };
    cases.iter().map(pair).collect()
}

/// Whether a mean equals the value of a formula, within the tolerance and the margin.
fn is_near((found, said): &(Estimate, f64), tolerance: f64) -> bool {
    (found.mean - said).abs() <= tolerance * said + found.margin.unwrap_or(0.0)
}

/// Whether the formulas are right; holds with conditions if they are in some cases.
fn agree(pairs: &Pairs, tolerance: f64) -> Finding {
    let near = count(pairs.iter().map(|pair| is_near(pair, tolerance)));
    let each = pairs.iter().map(|(found, said)| format!("{} for {said:.3}", shown(*found)));
    let measured = format!("in {near} cases: {}", each.collect::<Vec<_>>().join(", "));
    Finding::new(Verdict::of(near.is_all(), near.n > 0), measured)
}

/// §IV.
pub(super) fn formulas(lab: &Lab) -> Section {
    let claims = vec![
        by_arrival(lab),
        by_application(lab),
        at_best(lab),
        at_worst(lab),
        saved(lab),
        saved_at_best(lab),
    ];
    Section { claims, figures: vec![drawn(lab)] }
}

const ALL: [(u32, u32); 9] =
    [(2, 2), (6, 6), (6, 16), (12, 12), (12, 16), (16, 16), (6, 4), (12, 6), (24, 6)];

fn by_arrival(lab: &Lab) -> Claim {
    let statement = Statement {
        id: "002-4",
        section: "§IV, (4)",
        says: "Under NIO an application takes mt + s − t Σ (x/m)ⁿ on average.",
        rule: "The simulated mean is within 1 % and its margin for 2 to 24 applications on 2 to 16 servers, with a barrier as \
               §IV computes and without as §II describes; with conditions: for some.",
        why: "Exact if shuffles begin when all data are there, which §II says they do not. Without a barrier it is less.",
        figure: Some("002-formulas"),
    };
    let with = |model| pairs(lab, "nio", model, &ALL, |_| Shuffles::Apart(3.0), Even::nio);
    let (barrier, none) = (with(Model::Barrier), with(Model::NoBarrier));
    let data = [
        ("as stated", [&barrier[..], &none].concat()),
        ("barrier, as in §IV", barrier),
        ("no barrier, as in §II", none),
    ];
    statement.judged(&data, |pairs| agree(pairs, 0.01))
}

fn by_application(lab: &Lab) -> Claim {
    let statement = Statement {
        id: "002-5",
        section: "§IV, (5)",
        says: "Under SIO an application takes (m + 1) t/2 + s on average.",
        rule: "The simulated mean is within 0.01 % for 2 to 24 applications on 2 to 16 servers; with conditions: for some.",
        why: "All servers serve the same application at the same time, so a barrier makes no difference.",
        figure: Some("002-formulas"),
    };
    let with = |model| pairs(lab, "sio", model, &ALL, |_| Shuffles::Apart(3.0), Even::sio);
    let data = [("no barrier", with(Model::NoBarrier)), ("barrier", with(Model::Barrier))];
    statement.judged(&data, |pairs| agree(pairs, 0.0001))
}

fn at_best(lab: &Lab) -> Claim {
    let statement = Statement {
        id: "002-6",
        section: "§IV, (6)",
        says: "Under HIO an application takes t + s at best: slowest aggregators on different servers, whose shuffles are \
               longer than the shortest by more than (m − 1) t.",
        rule: "The simulated mean is within 0.01 % for 2 to 24 applications on 2 to 16 servers that meet both conditions as \
               stated; with conditions: for some.",
        why: "It needs as many servers as applications, shuffles that are longer than all others (not the shortest) by that \
              much, and no barrier. Then it is exact.",
        figure: Some("002-formulas"),
    };
    let long = |m: u32| f64::from(m) + 1.0;
    let with = |model, cases: &[(u32, u32)], shuffles: fn(f64) -> Shuffles| {
        pairs(lab, "hio", model, cases, |m| shuffles(long(m)), Even::hio_best)
    };
    let apart = with(Model::NoBarrier, &EVEN, Shuffles::Apart);
    // With two servers, the only other shuffle is the zero one.
    let hardly_apart = with(Model::NoBarrier, &EVEN[1..], Shuffles::HardlyApart);
    let data = [
        ("as stated", [&apart[..], &hardly_apart].concat()),
        ("longer than all others", apart),
        ("longer than the shortest only", hardly_apart),
        ("fewer servers than applications", with(Model::NoBarrier, &CROWDED, Shuffles::Apart)),
        ("barrier", with(Model::Barrier, &EVEN, Shuffles::Apart)),
    ];
    statement.judged(&data, |pairs| agree(pairs, 0.0001))
}

fn at_worst(lab: &Lab) -> Claim {
    let statement = Statement {
        id: "002-7",
        section: "§IV, (7)",
        says: "Under HIO an application takes (m + 1) t/2 + s if all slowest aggregators are on one server.",
        rule: "The simulated mean is within 0.01 % for 2 to 24 applications on 2 to 16 servers; with conditions: for some.",
        why: "If the other shuffles are none: then all servers sort alike. If they differ, the other servers each begin \
              with another application, and it takes longer unless the slowest outweigh that.",
        figure: None,
    };
    let with =
        |shuffles: fn(u32) -> Shuffles| pairs(lab, "hio", Model::NoBarrier, &ALL, shuffles, Even::hio_worst);
    let (none, differ) = (
        with(|m| Shuffles::Together(f64::from(m) + 1.0)),
        with(|m| Shuffles::TogetherAmongOthers(f64::from(m) + 1.0)),
    );
    let data = [
        ("as stated", [&none[..], &differ].concat()),
        ("other shuffles none", none),
        ("other shuffles up to nine tenths", differ),
        ("of one read, other shuffles none", with(|_| Shuffles::Together(1.0))),
        ("of one read, others up to nine tenths", with(|_| Shuffles::TogetherAmongOthers(1.0))),
    ];
    statement.judged(&data, |pairs| agree(pairs, 0.0001))
}

fn saved(lab: &Lab) -> Claim {
    let statement = Statement {
        id: "002-8",
        section: "§IV, (8)",
        says: "SIO saves (m − 1) t/2 − t Σ (x/m)ⁿ against NIO, which comes to (m − 1) t/2 with many servers.",
        rule: "The simulated saving of 6 applications is within 1 % and its margin for 2 to 64 servers with a barrier, as §IV \
               computes, and with 64 as near to the limit; with conditions: one of both.",
        why: "The limit is near from about 16 servers on. Without a barrier most of the saving goes: who has long shuffles \
              is often served early by lot.",
        figure: Some("002-formulas"),
    };
    let cases = [(6, 2), (6, 4), (6, 8), (6, 16), (6, 64)];
    let with = |model, most| {
        let of = |name, formula| pairs(lab, name, model, &cases, |_| Shuffles::Apart(most), formula);
        let (nio, sio) = (of("nio", Even::nio), of("sio", Even::sio));
        let said = cases.map(|(m, n)| Even::new(m, n, 1.0, 0.0).map_or(f64::NAN, |even| even.sio_saves()));
        let saved = nio.iter().zip(&sio).zip(said);
        let saved =
            saved.map(|((nio, sio), said)| (Estimate { mean: nio.0.mean - sio.0.mean, ..nio.0 }, said));
        saved.collect::<Pairs>()
    };
    let data = [
        ("barrier", with(Model::Barrier, 3.0)),
        ("no barrier", with(Model::NoBarrier, 3.0)),
        ("no barrier, short shuffles", with(Model::NoBarrier, 0.1)),
    ];
    statement.judged(&data, |pairs| {
        let near = pairs.iter().all(|pair| is_near(pair, 0.01));
        let limit = pairs.last().is_some_and(|&(found, _)| is_near(&(found, 2.5), 0.01));
        let each = pairs.iter().map(|(found, said)| format!("{} for {said:.3}", shown(*found)));
        Finding::new(both(near, limit), each.collect::<Vec<_>>().join(", "))
    })
}

fn saved_at_best(lab: &Lab) -> Claim {
    let statement = Statement {
        id: "002-9",
        section: "§IV, (9)",
        says: "At best HIO saves another (m − 1) t/2 against SIO.",
        rule: "The simulated saving is within 0.01 % for 2 to 16 applications on as many servers or more; with conditions: \
               for some.",
        why: "Under the conditions of (6), shuffles longer than all others by a queue of reads. Such shuffles outweigh \
              what is saved: with 6 applications it is a quarter of the time at most.",
        figure: Some("002-formulas"),
    };
    let with = |long: fn(u32) -> f64| {
        let of =
            |name, formula| pairs(lab, name, Model::NoBarrier, &EVEN, |m| Shuffles::Apart(long(m)), formula);
        let (sio, hio) = (of("sio", Even::sio), of("hio", Even::hio_best));
        let said = EVEN.map(|(m, _)| f64::from(m - 1) / 2.0);
        let saved = sio.iter().zip(&hio).zip(said);
        let saved =
            saved.map(|((sio, hio), said)| (Estimate { mean: sio.0.mean - hio.0.mean, ..hio.0 }, said));
        saved.collect::<Pairs>()
    };
    let data = [
        ("shuffles as long as the queue", with(|m| f64::from(m) + 1.0)),
        ("shuffles of three reads", with(|_| 3.0)),
        ("shuffles of one read", with(|_| 1.0)),
    ];
    statement.judged(&data, |pairs| agree(pairs, 0.0001))
}

/// As many servers as applications, with shuffles of m + 1 reads.
fn drawn(lab: &Lab) -> Figure {
    let cases = [(2, 2), (4, 4), (8, 8), (16, 16)];
    let of = |name, model, formula: fn(&Even) -> f64| {
        pairs(lab, name, model, &cases, |m| Shuffles::Apart(f64::from(m) + 1.0), formula)
    };
    let all = [
        ("nio, barrier", "(4)", of("nio", Model::Barrier, Even::nio)),
        ("sio", "(5)", of("sio", Model::NoBarrier, Even::sio)),
        ("hio", "(6)", of("hio", Model::NoBarrier, Even::hio_best)),
    ];
    let at = |i: usize| f64::from(cases[i].0);
    let line = |(name, _, pairs): &(&str, &str, Pairs)| Line {
        name: (*name).to_owned(),
        points: pairs.iter().enumerate().map(|(i, pair)| (at(i), pair.0)).collect(),
    };
    let stated = all.iter().flat_map(|(_, label, pairs)| {
        let stated = pairs.iter().enumerate();
        stated.map(|(i, pair)| Stated { label: (*label).to_owned(), x: Some(at(i)), y: pair.1 })
    });
    Figure {
        id: "002-formulas",
        title: "§IV: as many servers as applications, shuffles of m + 1 reads".to_owned(),
        x: "applications",
        y: "mean time (reads)",
        is_log_x: true,
        lines: all.iter().map(line).collect(),
        stated: stated.collect(),
    }
}

/// Upper limits of random shuffles, in multiples of a read.
const MOST: [f64; 6] = [0.3, 1.0, 3.0, 10.0, 30.0, 100.0];

/// Ratios of a policy to SIO, run by run, and the largest ratio of any single application.
struct Against {
    means: Vec<Vec<f64>>,
    latest: f64,
}

fn against_sio(lab: &Lab, name: &str, model: Model, m: u32) -> Against {
    let runs = |most: f64| {
        lab.repeat(n_runs(lab), |seed| {
            let Some(reads) = even(m, 6, Shuffles::UpTo(most), seed) else { return (f64::NAN, f64::NAN) };
            let [found, sio] = [name, "sio"].map(|name| completions(lab, name, &reads, model));
            let latest = found.iter().zip(&sio).map(|(found, sio)| found / sio).fold(0.0, f64::max);
            (found.iter().sum::<f64>() / sio.iter().sum::<f64>(), latest)
        })
    };
    let runs: Vec<Vec<(f64, f64)>> = MOST.map(runs).into();
    Against {
        latest: runs.iter().flatten().map(|run| run.1).fold(0.0, f64::max),
        means: runs.into_iter().map(|runs| runs.into_iter().map(|run| run.0).collect()).collect(),
    }
}

/// §IV: at worst as good as SIO.
pub(super) fn never_worse(lab: &Lab) -> Section {
    let statement = Statement {
        id: "002-10",
        section: "§IV",
        says: "HIO is never worse than SIO.",
        rule: "The mean time under HIO is at most that under SIO in every run with 12 applications on 6 servers and shuffles up \
               to 0.3 to 100 reads; with conditions: on average at each of these lengths.",
        why: "The slowest aggregators of different applications are first on different servers, so none has all its \
              data early. That pays only where shuffles are as long as the queue of reads. Three applications on two \
              servers are enough to show it.",
        figure: Some("002-worse"),
    };
    let policies = [
        ("as chosen", "hio", Model::NoBarrier, 12),
        ("6 applications", "hio", Model::NoBarrier, 6),
        ("24 applications", "hio", Model::NoBarrier, 24),
        ("barrier", "hio", Model::Barrier, 12),
        ("exchanges as listed", "hio-listing", Model::NoBarrier, 12),
        ("exchanges only with who can wait less", "hio-guarded", Model::NoBarrier, 12),
        ("hio-edd-local", "hio-edd-local", Model::NoBarrier, 12),
        ("hio-edd", "hio-edd", Model::NoBarrier, 12),
        ("hio-edd, barrier", "hio-edd", Model::Barrier, 12),
    ];
    let data = policies.map(|(what, name, model, m)| (what, against_sio(lab, name, model, m)));
    let example = counter_example(lab);
    let judge = |against: &Against| {
        let worse = count(against.means.iter().flatten().map(|&ratio| ratio > 1.0 + 1e-9));
        let means: Vec<Estimate> =
            against.means.iter().map(|ratios| estimate(ratios.iter().copied())).collect();
        let good = count(means.iter().map(|mean| mean.mean <= 1.0 + 1e-9));
        let each: Vec<String> = means.iter().map(|mean| format!("{:.3}", mean.mean)).collect();
        let measured = format!(
            "worse in {worse} runs; ÷ SIO {} with shuffles up to 0.3 to 100 reads; an application is up to {} later",
            each.join(", "),
            percent((against.latest - 1.0).max(0.0))
        );
        Finding::new(Verdict::of(worse.n == 0, good.is_all()), measured)
    };
    let mut claim = statement.judged(&data, judge);
    claim.measured = format!("{}; {example}", claim.measured);
    let lines =
        data.iter().zip(policies).filter(|(_, policy)| policy.2 == Model::NoBarrier && policy.3 == 12);
    let line = |((_, against), policy): (&(&str, Against), (&str, &str, Model, u32))| Line {
        name: policy.1.to_owned(),
        points: MOST.iter().zip(&against.means).map(|(&x, y)| (x, estimate(y.iter().copied()))).collect(),
    };
    let figure = Figure {
        id: "002-worse",
        title: "12 applications on 6 servers, shuffles by lot".to_owned(),
        x: "longest shuffle (reads)",
        y: "mean time ÷ SIO",
        is_log_x: true,
        lines: lines.map(line).collect(),
        stated: vec![Stated { label: "never worse".to_owned(), x: None, y: 1.0 }],
    };
    Section { claims: vec![claim], figures: vec![figure] }
}

/// Three applications on two servers, reads of 1: shuffles (0, 1), (0, 0) and (1, 1).
fn counter_example(lab: &Lab) -> String {
    let shuffles = [(0, 0, 0), (0, 1, 1), (1, 0, 0), (1, 1, 0), (2, 0, 1), (2, 1, 1)];
    let rows = shuffles.map(|(app, server, shuffle)| (app, server, READ, shuffle * READ));
    let means =
        reads(3, 2, &rows).map(|reads| ["hio", "sio"].map(|name| mean(lab, name, &reads, Model::NoBarrier)));
    let [hio, sio] = means.unwrap_or([f64::NAN; 2]);
    format!("of three applications on two servers, {hio:.3} reads under HIO and {sio:.3} under SIO")
}
