//! Paper 001: equal shares (EQUI, AEQUI) against LDDF, HDDF and random choice.
//!
//! The paper offers only five mean responses to check, and the reasons it gives for them. It states neither the load
//! nor the cost of a decision of the master, so we vary both. Policies are compared run by run on the same jobs. Times
//! only matter relative to the time of a request.

mod dispatch;

use evenkeel::model::{Batch, Cluster};
use evenkeel::policy::{Ask, Kind};
use evenkeel::select::{Goal, optimal};
use evenkeel::workload::{Clients, Law, Sizes, Workload};

use super::judging::{Interval, estimate};
use super::{
    Claim, Experiment, Figure, Lab, Line, Paper, Parameter, Section, Source, Stated, Variation, Verdict,
};
use crate::hardware::{Client, Hardware, Nic, Server};
use crate::jobs::{Jobs, TakeBack};
use crate::outcome::Estimate;
use crate::requests::HandOver;
use crate::units::{Bytes, Span};

/// The paper.
pub static PAPER: Paper = Paper {
    number: "001",
    title: "Abawajy: Performance Analysis of Parallel I/O Scheduling Approaches on Cluster Computing Systems",
    about: "A master gives requests of parallel jobs to I/O servers, in equal shares (EQUI), with regard to what they have to do \
            already (AEQUI), or one by one (LDDF, HDDF, Random). One table of five mean responses is all that was measured. Its \
            order comes out where servers are just busy; its large gap only if a decision of the master costs about half as much as \
            a request and is paid for each share instead of each request; both together do not. The reasons given do not hold.",
    experiments: &[
        Experiment { name: "the job (§4)", run: job },
        Experiment { name: "five policies (Table 1)", run: table },
        Experiment { name: "balance of shares (§5)", run: balance },
        Experiment { name: "moving requests (§5)", run: moving },
        Experiment { name: "the cost of decisions", run: dispatch::dispatch },
    ],
    parameters: &[
        Parameter {
            name: "workers",
            value: "16, each with one job after the other",
            source: Source::Paper("§4"),
        },
        Parameter { name: "servers", value: "3, with one I/O process each", source: Source::Paper("§4") },
        Parameter {
            name: "job",
            value: "read, compute, write; again and again",
            source: Source::Paper("§4"),
        },
        Parameter { name: "requests at once", value: "3, one for each disk", source: Source::Paper("§4") },
        Parameter {
            name: "copies",
            value: "2 of 3 servers, drawn by lot",
            source: Source::Chosen("§2: K < D disks hold the data; with 1 there is nothing to choose"),
        },
        Parameter {
            name: "a request",
            value: "1 MB at 4 MB/s, 0.25 s",
            source: Source::Chosen("disks of the time; only proportions matter"),
        },
        Parameter {
            name: "network",
            value: "no limit; 1 ms a message",
            source: Source::Chosen("three disks just fill the 100 Mb/s of §4; faster disks are a variation"),
        },
        Parameter {
            name: "cycles of a job",
            value: "4",
            source: Source::Chosen("§4 says K; longer jobs scale all responses"),
        },
        Parameter {
            name: "computing",
            value: "exponential, 0 to 25 s on average",
            source: Source::Chosen("not given; from servers never idle to hardly busy"),
        },
        Parameter {
            name: "cost of a decision",
            value: "none, and up to two requests",
            source: Source::Chosen("not given; varied on its own"),
        },
        Parameter {
            name: "runs of each setting",
            value: "24 of 160 jobs",
            source: Source::Chosen("not given"),
        },
    ],
};

/// More runs than usual in a quick lab, since neighbours in the table are close.
fn n_runs(lab: &Lab) -> u32 {
    if lab.is_quick { 8 } else { 24 }
}

/// Service time of a request, in seconds.
const SERVICE_S: f64 = 0.25;
/// Computing time at which the servers are busy most of the time, but not always.
const BUSY_S: f64 = 6.0;

/// The policies of Table 1, fastest first, and their mean responses there.
const POLICIES: [&str; 5] = ["aequi", "equi", "lddf", "random", "hddf"];
const TABLE: [f64; 5] = [51.03, 57.87, 88.82, 92.23, 95.19];
const AEQUI: usize = 0;
const EQUI: usize = 1;
const LDDF: usize = 2;
const RANDOM: usize = 3;
const HDDF: usize = 4;

/// How requests get to servers.
#[derive(Clone, Copy, Debug)]
enum Shipping {
    /// The same for all policies: when a server is free.
    Alike,
    /// EQUI and AEQUI send a server its share all at once. The others send each request as given here.
    Shares(HandOver),
}

/// The parameters of a run.
#[derive(Clone, Debug)]
struct Setting {
    jobs: Jobs,
    n_workers: u32,
    /// Rate of a server, in megabytes per second.
    mb_s: f64,
    /// Whether network cards of 100 Mb/s limit the rates.
    has_cards: bool,
    /// Cost of a decision, as a multiple of the service time of a request.
    decision: f64,
    shipping: Shipping,
}

impl Setting {
    fn new(compute_s: f64) -> Self {
        let jobs = Jobs {
            jobs: 10,
            cycles: 4,
            requests: 3,
            read: Bytes(1_000_000),
            compute: span(compute_s),
            irregular: true,
            write: Bytes(1_000_000),
            copies: 2,
            ..Jobs::default()
        };
        Self {
            jobs,
            n_workers: 16,
            mb_s: 1.0 / SERVICE_S,
            has_cards: false,
            decision: 0.0,
            shipping: Shipping::Alike,
        }
    }

    fn hardware(&self) -> Hardware {
        let server = |host| Server { host, rate: self.mb_s / 1000.0, ..Server::default() };
        let n_servers = 3;
        Hardware {
            servers: (0..n_servers).map(server).collect(),
            clients: (n_servers..n_servers + self.n_workers)
                .map(|host| Client { host, slots: self.jobs.requests })
                .collect(),
            n_hosts: n_servers + self.n_workers,
            nic: self.has_cards.then_some(Nic { up: 0.0125, down: 0.0125 }),
            message_ns: 1_000_000,
            dispatch_ns: span(self.decision * SERVICE_S).0,
        }
    }

    fn hand_over(&self, policy: usize) -> HandOver {
        match self.shipping {
            Shipping::Alike => HandOver::AtStart,
            Shipping::Shares(_) if policy <= EQUI => HandOver::Together,
            Shipping::Shares(others) => others,
        }
    }

    /// Mean responses under all policies, in seconds, run by run.
    fn measure(&self, lab: &Lab) -> Responses {
        let hardware = self.hardware();
        let response_s = |policy: usize, seed| {
            let jobs = Jobs { hand_over: self.hand_over(policy), ..self.jobs.clone() };
            let outcome = jobs.run(&lab.case(&hardware, POLICIES[policy], seed));
            // The settings above are valid.
            outcome.map_or(f64::NAN, |outcome| outcome.mean_response_ns() / 1e9)
        };
        Responses(lab.repeat(n_runs(lab), |seed| {
            [AEQUI, EQUI, LDDF, RANDOM, HDDF].map(|policy| response_s(policy, seed))
        }))
    }
}

fn span(seconds: f64) -> Span {
    Span((seconds * 1e9) as u64)
}

/// Mean responses under all policies, run by run.
#[derive(Clone, Debug)]
struct Responses(Vec<[f64; 5]>);

impl Responses {
    fn of(&self, policy: usize) -> Estimate {
        estimate(self.0.iter().map(|run| run[policy]))
    }

    /// Ratio of the responses of two policies on the same jobs.
    fn ratio(&self, a: usize, b: usize) -> Estimate {
        estimate(self.0.iter().map(|run| run[a] / run[b]))
    }

    /// Whether a policy is certainly faster than each of the others.
    fn is_quicker(&self, policy: usize, others: &[usize]) -> bool {
        others.iter().all(|&other| self.ratio(policy, other).is_below(1.0))
    }

    fn is_in_order(&self) -> bool {
        (0..4).all(|policy| self.is_quicker(policy, &[policy + 1]))
    }

    /// Formats the ratios of neighbours in Table 1, and of EQUI to LDDF.
    fn tell(&self) -> String {
        let mean = |a, b| self.ratio(a, b).mean;
        format!(
            "AEQUI÷EQUI {:.2}, EQUI÷LDDF {:.2}, Random÷LDDF {:.2}, HDDF÷LDDF {:.2}",
            mean(AEQUI, EQUI),
            mean(EQUI, LDDF),
            mean(RANDOM, LDDF),
            mean(HDDF, LDDF)
        )
    }
}

/// A property that responses may have.
type Test = fn(&Responses) -> bool;

/// Loads from never idle to hardly busy, in seconds of computing.
fn loads(lab: &Lab) -> &'static [f64] {
    if lab.is_quick { &[0.0, BUSY_S, 15.0] } else { &[0.0, 2.5, 5.0, BUSY_S, 7.5, 10.0, 15.0, 25.0] }
}

/// Counts the loads at which the test is true.
fn over_loads(measured: &[(f64, Responses)], test: Test) -> (Verdict, String) {
    let at: Vec<String> =
        measured.iter().filter(|(_, of)| test(of)).map(|(compute_s, _)| format!("{compute_s} s")).collect();
    let verdict = Verdict::of(at.len() == measured.len(), !at.is_empty());
    let which = if at.is_empty() { String::new() } else { format!(" (computing {})", at.join(", ")) };
    (verdict, format!("at {} of {} loads{which}", at.len(), measured.len()))
}

/// A figure of responses relative to LDDF's, with those of the table.
fn compared(id: &'static str, title: &str, x: &'static str, measured: &[(f64, Responses)]) -> Figure {
    let line = |policy: usize| Line {
        name: POLICIES[policy].to_owned(),
        points: measured.iter().map(|(at, of)| (*at, of.ratio(policy, LDDF))).collect(),
    };
    let stated = |policy: usize| Stated {
        label: format!("{}, Table 1", POLICIES[policy]),
        x: None,
        y: TABLE[policy] / TABLE[LDDF],
    };
    Figure {
        id,
        title: title.to_owned(),
        x,
        y: "mean response ÷ LDDF's",
        is_log_x: false,
        lines: (0..POLICIES.len()).map(line).collect(),
        stated: (0..POLICIES.len()).map(stated).collect(),
    }
}

/// §4: a single job, and sixteen of them.
fn job(lab: &Lab) -> Section {
    let alone = |compute_s| {
        let mut setting = Setting { n_workers: 1, ..Setting::new(compute_s) };
        setting.jobs.irregular = false;
        setting.measure(lab).of(AEQUI)
    };
    // The work of the servers is that of the job without computing.
    let (io, all) = (alone(0.0), alone(BUSY_S));
    let computing_s = 4.0 * BUSY_S;
    let busy = Setting::new(BUSY_S).measure(lab).of(AEQUI);
    let claim = Claim {
        id: "001-job",
        section: "§4",
        says: "Computing and I/O of a job alternate and do not overlap; the job ends when its results are written.",
        rule: "Alone, a job takes as long as its I/O alone and its computing together, to 1 %; and among 16 longer than that.",
        measured: format!(
            "I/O {:.2} s + computing {computing_s:.2} s, together {:.2} s; among 16 {} s",
            io.mean,
            all.mean,
            busy.tell(2)
        ),
        verdict: Verdict::plain(
            (all.mean / (io.mean + computing_s) - 1.0).abs() < 0.01 && busy.low() > all.mean,
        ),
        why: "So it is built; what the others add is waiting for servers, which is all that policies can change.",
        figure: None,
        variations: Vec::new(),
    };
    Section { claims: vec![claim], figures: Vec::new() }
}

/// A claim of the paper about Table 1, and its test.
struct Said {
    id: &'static str,
    says: &'static str,
    rule: &'static str,
    why: &'static str,
    /// The most telling ratio.
    ratio: (usize, usize),
    test: Test,
}

const SAID: [Said; 5] = [
    Said {
        id: "001-equi",
        says: "EQUI is quicker than LDDF, HDDF and Random.",
        rule: "Its response is below that of each of the three, with certainty, at every load; with conditions: at some.",
        why: "Three requests at once are spread over three servers (001-balance). Random is as quick if servers are never idle, and \
              the gain fades where they often are. With 12 requests at once shares are uneven, and EQUI is slower than LDDF.",
        ratio: (EQUI, LDDF),
        test: |of| of.is_quicker(EQUI, &[LDDF, RANDOM, HDDF]),
    },
    Said {
        id: "001-aequi",
        says: "AEQUI is the quickest of the five.",
        rule: "Its response is below that of each of the four, with certainty, at every load; with conditions: at some.",
        why: "It alone looks at what servers have to do, which matters while they are busy. At low load equal shares of three \
              requests are as good, or better.",
        ratio: (AEQUI, EQUI),
        test: |of| of.is_quicker(AEQUI, &[EQUI, LDDF, RANDOM, HDDF]),
    },
    Said {
        id: "001-lddf",
        says: "LDDF is somewhat quicker than HDDF and Random.",
        rule: "Its response is below that of both, with certainty, at every load; with conditions: at some.",
        why: "It is always quicker than HDDF. Random is quicker than both while servers are never idle.",
        ratio: (LDDF, RANDOM),
        test: |of| of.is_quicker(LDDF, &[HDDF, RANDOM]),
    },
    Said {
        id: "001-random",
        says: "Random is slightly quicker than HDDF (3 % in Table 1).",
        rule: "Its response is below, with certainty, but by at most 6 %, at every load; with conditions: at some.",
        why: "It is quicker by more while servers are never idle, and slower where they often are.",
        ratio: (RANDOM, HDDF),
        test: |of| of.is_quicker(RANDOM, &[HDDF]) && of.ratio(RANDOM, HDDF).mean >= 0.94,
    },
    Said {
        id: "001-order",
        says: "From quick to slow: AEQUI, EQUI, LDDF, Random, HDDF.",
        rule: "Each is quicker than the next, with certainty, at every load; with conditions: at some.",
        why: "Random passes LDDF and EQUI if servers are never idle, and falls behind HDDF if they often are; in between, if \
              anywhere, is the order of the table.",
        ratio: (RANDOM, HDDF),
        test: Responses::is_in_order,
    },
];

/// Responses at all loads.
type Sweep = Vec<(f64, Responses)>;

/// A change of a setting.
type Change = fn(&mut Setting);

/// Other choices of what the paper leaves open. A quick lab uses the first few.
const VARIATIONS: [(&str, Change); 7] = [
    ("12 requests at once", |setting| setting.jobs.requests = 12),
    ("8 workers", |setting| setting.n_workers = 8),
    ("3 copies", |setting| setting.jobs.copies = 3),
    ("6 requests at once", |setting| setting.jobs.requests = 6),
    ("1 copy", |setting| setting.jobs.copies = 1),
    ("computing takes always the same", |setting| setting.jobs.irregular = false),
    ("disks of 8 MB/s, cards of 100 Mb/s, requests of 2 MB", |setting| {
        (setting.mb_s, setting.has_cards) = (8.0, true);
        (setting.jobs.read, setting.jobs.write) = (Bytes(2_000_000), Bytes(2_000_000));
    }),
];

/// Table 1 at loads from never idle to hardly busy.
fn table(lab: &Lab) -> Section {
    let measure = |change: Change| -> Sweep {
        let at = |&compute_s: &f64| {
            let mut setting = Setting::new(compute_s);
            change(&mut setting);
            (compute_s, setting.measure(lab))
        };
        loads(lab).iter().map(at).collect()
    };
    let measured = measure(|_| {});
    let n_variations = if lab.is_quick { 3 } else { VARIATIONS.len() };
    let others: Vec<(&str, Sweep)> =
        VARIATIONS[..n_variations].iter().map(|&(what, change)| (what, measure(change))).collect();
    let claim = |said: &Said| {
        let (verdict, at) = over_loads(&measured, said.test);
        let (a, b) = said.ratio;
        let ratios: Vec<String> = measured
            .iter()
            .map(|(compute_s, of)| format!("{} at {compute_s} s", of.ratio(a, b).tell(3)))
            .collect();
        let vary = |(what, measured): &(&str, Sweep)| {
            let (verdict, at) = over_loads(measured, said.test);
            Variation { what: (*what).to_owned(), measured: at, verdict }
        };
        Claim {
            id: said.id,
            section: "§5, Table 1",
            says: said.says,
            rule: said.rule,
            measured: format!("{at}; {}÷{}: {}", POLICIES[a], POLICIES[b], ratios.join(", ")),
            verdict,
            why: said.why,
            figure: Some("001-tab1"),
            variations: others.iter().map(vary).collect(),
        }
    };
    let mut claims: Vec<Claim> = SAID.iter().map(claim).collect();
    claims.extend(GAPS.iter().map(|gap| gap.claim(&measured, &others)));
    let title = "Table 1 at loads from never idle to hardly busy, decisions for free";
    Section { claims, figures: vec![compared("001-tab1", title, "mean computing, s", &measured)] }
}

/// A claim about how much faster one policy is than another.
struct Gap {
    id: &'static str,
    says: &'static str,
    rule: &'static str,
    why: &'static str,
    a: usize,
    b: usize,
    /// The largest ratio that still counts.
    most: f64,
}

const GAPS: [Gap; 2] = [
    Gap {
        id: "001-gap-equi",
        says: "EQUI takes 0.65 times as long as LDDF: a substantial gain.",
        rule: "The ratio is below 0.72, a tenth more than in the table, at every load; with conditions: at some.",
        why: "With the same cost of a request for all, a choice of servers saves no more than the waiting that it avoids. \
              The gap must have another reason (001-dispatch).",
        a: EQUI,
        b: LDDF,
        most: 0.72,
    },
    Gap {
        id: "001-gap-aequi",
        says: "AEQUI takes 0.88 times as long as EQUI.",
        rule: "The ratio is below 0.92 at every load; with conditions: at some.",
        why: "EQUI's shares of three new requests are nearly as good; its mistakes grow with the number of requests at once.",
        a: AEQUI,
        b: EQUI,
        most: 0.92,
    },
];

impl Gap {
    fn claim(&self, measured: &[(f64, Responses)], others: &[(&str, Sweep)]) -> Claim {
        let found = |measured: &[(f64, Responses)]| {
            let mut ratios: Vec<Estimate> = measured.iter().map(|(_, of)| of.ratio(self.a, self.b)).collect();
            let n_below = ratios.iter().filter(|ratio| ratio.is_below(self.most)).count();
            ratios.sort_by(|a, b| a.mean.total_cmp(&b.mean));
            let told = format!("from {} to {}", ratios[0].tell(3), ratios[ratios.len() - 1].tell(3));
            (Verdict::of(n_below == ratios.len(), n_below > 0), told)
        };
        let (verdict, told) = found(measured);
        let vary = |(what, measured): &(&str, Sweep)| {
            let (verdict, measured) = found(measured);
            Variation { what: (*what).to_owned(), measured, verdict }
        };
        Claim {
            id: self.id,
            section: "abstract, §5, Table 1",
            says: self.says,
            rule: self.rule,
            measured: format!("{told} times as long, by load; Table 1: {:.3}", TABLE[self.a] / TABLE[self.b]),
            verdict,
            why: self.why,
            figure: Some("001-tab1"),
            variations: others.iter().map(vary).collect(),
        }
    }
}

/// The policies that choose for a whole batch at once, by name.
const IN_BATCHES: [&str; 4] = ["equi", "lddf", "random", "hddf"];

/// Largest load divided by the least possible, under each of these policies, in one batch on three servers.
fn largest_loads(lab: &Lab, batch: &Batch, seed: u64) -> [f64; 4] {
    let cluster = Cluster::equal(batch);
    let best = optimal::bound(batch, &cluster, Goal::MaxLoad).value.to_f64();
    IN_BATCHES.map(|name| {
        let Kind::Select(select) = lab.policy(name).kind else { return f64::NAN };
        let (choice, _) = select(batch, &cluster, &Ask { seed, ..Ask::default() });
        choice.loads(batch).into_iter().max().unwrap_or(0) as f64 / best
    })
}

/// §5's reason: equal shares are balanced, and the loads of the other policies are not.
fn balance(lab: &Lab) -> Section {
    let sizes: &[u32] = if lab.is_quick { &[3, 12, 60] } else { &[3, 6, 12, 24, 60, 120] };
    let measure = |copies: u32, law: Law| -> Vec<(u32, [Estimate; 4])> {
        let of_size = |&n_requests: &u32| {
            let runs = lab.repeat(if lab.is_quick { 60 } else { 400 }, |seed| {
                let (sizes, clients) = (Sizes::Fixed(1), Clients::Drawn);
                let workload =
                    Workload { n_requests, n_clients: 16, n_servers: 3, copies, law, sizes, clients, seed };
                // The settings above are valid.
                workload.generate().map_or([f64::NAN; 4], |batch| largest_loads(lab, &batch, seed))
            });
            (n_requests, [0, 1, 2, 3].map(|policy| estimate(runs.iter().map(|run| run[policy]))))
        };
        sizes.iter().map(of_size).collect()
    };
    let judge = |measured: &[(u32, [Estimate; 4])]| {
        let is_best = |(_, [equi, others @ ..]): &&(u32, [Estimate; 4])| {
            others.iter().all(|other| equi.is_below(other.low()))
        };
        let at: Vec<String> = measured.iter().filter(is_best).map(|(n, _)| n.to_string()).collect();
        let last = &measured[measured.len() - 1];
        let told = IN_BATCHES.iter().zip(&last.1).map(|(name, of)| format!("{name} {}", of.tell(3)));
        let told = told.collect::<Vec<_>>().join(", ");
        let best_at =
            if at.is_empty() { "nowhere".to_owned() } else { format!("at {} requests", at.join(", ")) };
        let verdict = Verdict::of(at.len() == measured.len(), !at.is_empty());
        (verdict, format!("the most even {best_at}; largest load ÷ optimum of {} requests: {told}", last.0))
    };
    let measured = measure(2, Law::Uniform);
    let (verdict, told) = judge(&measured);
    let variations =
        [("3 copies", 3, Law::Uniform), ("skewed replicas", 2, Law::Zipf)].map(|(what, copies, law)| {
            let (verdict, measured) = judge(&measure(copies, law));
            Variation { what: what.to_owned(), measured, verdict }
        });
    let claim = Claim {
        id: "001-balance",
        section: "§5",
        says: "EQUI is quicker since it spreads requests evenly over servers, and LDDF, HDDF and Random do not.",
        rule: "The largest load that it gives a server of a batch is below that of the three, with certainty, for batches of all \
               sizes; with conditions: of some.",
        measured: told,
        verdict,
        why: "It is so for the three requests of one job. In large batches a server takes a whole share before the others had \
              a choice, and passes of one request each (LDDF, HDDF) are more even.",
        figure: Some("001-fig-balance"),
        variations: variations.to_vec(),
    };
    let line = |policy: usize| Line {
        name: IN_BATCHES[policy].to_owned(),
        points: measured.iter().map(|(n, of)| (f64::from(*n), of[policy])).collect(),
    };
    let figure = Figure {
        id: "001-fig-balance",
        title: "The largest load of three servers, two copies".to_owned(),
        x: "requests of a batch",
        y: "largest load ÷ optimum",
        is_log_x: true,
        lines: (0..4).map(line).collect(),
        stated: Vec::new(),
    };
    Section { claims: vec![claim], figures: vec![figure] }
}

/// §5's reason for AEQUI: it moves waiting requests.
fn moving(lab: &Lab) -> Section {
    let measure = |requests: u32| -> Vec<(f64, Responses, Responses)> {
        let at = |&compute_s: &f64| {
            let with = |take_back| {
                let mut setting = Setting::new(compute_s);
                (setting.jobs.requests, setting.jobs.take_back) = (requests, Some(take_back));
                setting.measure(lab)
            };
            (compute_s, with(TakeBack::Overload), with(TakeBack::Nothing))
        };
        loads(lab).iter().map(at).collect()
    };
    let gain = |(_, moved, stayed): &(f64, Responses, Responses), policy: usize| {
        estimate(moved.0.iter().zip(&stayed.0).map(|(moved, stayed)| moved[policy] / stayed[policy]))
    };
    let judge = |measured: &[(f64, Responses, Responses)], policy: usize| {
        let gains: Vec<Estimate> = measured.iter().map(|at| gain(at, policy)).collect();
        let n_quicker = gains.iter().filter(|gain| gain.is_below(0.995)).count();
        let best =
            gains.iter().min_by(|a, b| a.mean.total_cmp(&b.mean)).map_or(String::new(), |best| best.tell(3));
        let told = format!("quicker at {n_quicker} of {} loads; at best {best} times as long", gains.len());
        (Verdict::of(n_quicker == gains.len(), n_quicker > 0), told)
    };
    let measured = measure(3);
    let (verdict, told) = judge(&measured, AEQUI);
    let mut variations = Vec::new();
    let at_once: &[u32] = if lab.is_quick { &[12] } else { &[6, 12] };
    for &requests in at_once {
        let what = format!("{requests} requests at once");
        let (verdict, measured) = judge(&measure(requests), AEQUI);
        variations.push(Variation { what, measured, verdict });
    }
    for (what, policy) in
        [("EQUI that moves", EQUI), ("LDDF that moves", LDDF), ("Random that moves", RANDOM)]
    {
        let (verdict, measured) = judge(&measured, policy);
        variations.push(Variation { what: what.to_owned(), measured, verdict });
    }
    let claim = Claim {
        id: "001-moving",
        section: "§5",
        says: "AEQUI is the quickest since it also moves requests that wait from heavily to lightly loaded servers.",
        rule: "With moving it is quicker than without, with certainty by half a percent, at every load; with conditions: at some.",
        measured: told,
        verdict,
        why: "Who fills servers up to the average, with regard to what they have to do, has hardly ever anything to move: that \
              regard is the gain. Moving helps those that do not look, nearly as much.",
        figure: Some("001-fig-moving"),
        variations,
    };
    let line = |policy: usize| Line {
        name: POLICIES[policy].to_owned(),
        points: measured.iter().map(|at| (at.0, gain(at, policy))).collect(),
    };
    let figure = Figure {
        id: "001-fig-moving",
        title: "What moving waiting requests gains each policy".to_owned(),
        x: "mean computing, s",
        y: "response with moving ÷ without",
        is_log_x: false,
        lines: (0..POLICIES.len()).map(line).collect(),
        stated: Vec::new(),
    };
    Section { claims: vec![claim], figures: vec![figure] }
}
