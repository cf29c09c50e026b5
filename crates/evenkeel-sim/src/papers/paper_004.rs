//! Paper 004: writes that avoid stragglers, by a log that clients keep (MLML, TRH, nLTR).
//!
//! The paper's simulation has no time: writes add to the loads of servers and never complete. The trials here do the
//! same. Whether that matters is tested separately, on servers that do write. All policies place the same writes on the
//! same loads, run by run.

pub mod live;
mod log;
mod timed;

use evenkeel::draw::Seeded;
use evenkeel::model::MemberId;
use evenkeel::observe::{Forget, HeatMap, ServerLog, Unit};
use evenkeel::place::{Placer, Servers, Test, Write, is_lighter};
use evenkeel::policy::Kind;

use super::judging::{Interval, estimate};
use super::{
    Claim, Experiment, Figure, Lab, Line, Paper, Parameter, Section, Source, Stated, Variation, Verdict,
};
use crate::chance::sub_seed;
use crate::outcome::Estimate;
use crate::units::Bytes;
use crate::writes::{Backlog, Class, Sizes, Sort, Writes};

/// The paper.
pub static PAPER: Paper = Paper {
    number: "004",
    title: "Tavakoli, Dai, Chen: Client-side Straggler-Aware I/O Scheduler for Object-based Parallel File Systems",
    about: "Clients write to lightly loaded servers instead of an object's default one. What is loaded they know from a log of what \
            they have sent, not by asking. The policies do what is promised if the log knows the loads, all writes go through one \
            log, and the test of the listings is turned around. A log that clients keep by themselves knows neither the \
            stragglers nor each other's writes.",
    experiments: &[
        Experiment { name: "evenness (Figs. 12–17)", run: evenness },
        Experiment { name: "stragglers (Fig. 18)", run: stragglers },
        Experiment { name: "what the log knows (§3.3)", run: knowledge },
        Experiment { name: "the test of the listings (§3.4)", run: printed },
        Experiment { name: "probabilities (§3.3.2)", run: log::probabilities },
        Experiment { name: "writing takes time (§6)", run: timed::timed },
    ],
    parameters: &[
        Parameter { name: "servers", value: "100", source: Source::Paper("§4") },
        Parameter { name: "clients", value: "200", source: Source::Paper("§4") },
        Parameter { name: "writes", value: "2000", source: Source::Paper("§4") },
        Parameter { name: "runs", value: "100", source: Source::Paper("§4") },
        Parameter { name: "small, medium", value: "0–4 MB, 4–10 MB", source: Source::Paper("§4") },
        Parameter {
            name: "large",
            value: "10–100 MB",
            source: Source::Chosen("§4: above 10 MB, 20 GB to 2 TB in all; this is 110 GB"),
        },
        Parameter {
            name: "mixed",
            value: "a third of each",
            source: Source::Chosen("§4 combines the three; in which parts is not said"),
        },
        Parameter {
            name: "first loads",
            value: "normal, 60 ± 4 MB",
            source: Source::Chosen(
                "§4: normal with a small deviation; stragglers are then above the 300 of Fig. 18",
            ),
        },
        Parameter {
            name: "stragglers",
            value: "10 of 100, five times the mean on top",
            source: Source::Paper("§4"),
        },
        Parameter {
            name: "objects",
            value: "drawn by lot",
            source: Source::Chosen("not given; one after the other is a variation"),
        },
        Parameter {
            name: "window",
            value: "200 writes",
            source: Source::Chosen("not given; one of each client"),
        },
        Parameter {
            name: "threshold",
            value: "1 MB",
            source: Source::Chosen("§3.4: the user's choice; no value given"),
        },
        Parameter { name: "levels of nLTR", value: "1, 2 and 3", source: Source::Paper("§3.4.3") },
        Parameter {
            name: "log",
            value: "one for all clients, which knows the first loads",
            source: Source::Chosen("not said; without, Fig. 18 could not be (004-log)"),
        },
    ],
};

const N_RUNS: u32 = 100;
const N_SERVERS: u32 = 100;
const N_CLIENTS: usize = 200;
const MB: u64 = 1_000_000;

/// The policies compared: label, policy, levels.
const POLICIES: [(&str, &str, u32); 7] = [
    ("RR", "rr", 0),
    ("MLML", "mlml", 0),
    ("TRH", "trh", 0),
    ("1LTR", "nltr", 1),
    ("2LTR", "nltr", 2),
    ("3LTR", "nltr", 3),
    ("two-choice", "two-choice", 0),
];
const RR: usize = 0;
const MLML: usize = 1;
const TRH: usize = 2;
const LTR1: usize = 3;
const LTR2: usize = 4;
const LTR3: usize = 5;
const TWO_CHOICE: usize = 6;
/// The policies that the paper proposes and measures.
const PROPOSED: [usize; 4] = [MLML, TRH, LTR1, LTR2];

const fn class(from_mb: u64, to_mb: u64) -> Class {
    Class { from: Bytes(from_mb * MB), to: Bytes(to_mb * MB), weight: 1 }
}

const SMALL: Class = class(0, 4);
const MEDIUM: Class = class(4, 10);
const LARGE: Class = class(10, 100);
/// The workloads: each class alone, and all together.
const WORKLOADS: [(&str, &[Class]); 4] =
    [("small", &[SMALL]), ("medium", &[MEDIUM]), ("large", &[LARGE]), ("mixed", &[SMALL, MEDIUM, LARGE])];

/// The parameters of a trial.
#[derive(Clone, Debug)]
struct Trial {
    writes: Writes,
    test: Test,
    /// Whether objects come one after the other, rather than at random.
    in_sequence: bool,
    /// Number of logs. Clients share them in turn.
    n_logs: usize,
}

impl Trial {
    fn new(stragglers: f64) -> Self {
        let backlog =
            Backlog { mean: Bytes(60 * MB), deviation: Bytes(4 * MB), stragglers, ..Backlog::default() };
        let writes = Writes { threshold: Bytes(MB), backlog: Some(backlog), ..Writes::default() };
        Self { writes, test: is_lighter, in_sequence: false, n_logs: 1 }
    }

    /// Changes the backlog of the servers at the start.
    fn backlog(&mut self, change: impl Fn(&mut Backlog)) {
        self.writes.backlog.iter_mut().for_each(change);
    }

    /// The same trial with a log that does not know the initial loads.
    fn blind(&self) -> Self {
        let mut blind = self.clone();
        blind.backlog(|backlog| backlog.known = false);
        blind
    }

    fn writes(&self, seed: u64) -> Vec<Write> {
        // The settings here are valid.
        let mut writes = self.writes.drawn(N_SERVERS, seed).unwrap_or_default();
        if self.in_sequence {
            for (object, write) in (0..).zip(&mut writes) {
                (write.object, write.default) = (object, MemberId(object as u32 % N_SERVERS));
            }
        }
        writes
    }

    /// Places all writes by a policy. Returns the server of each, and how often servers were asked.
    fn place(&self, lab: &Lab, (_, name, levels): (&str, &str, u32), seed: u64) -> (Vec<MemberId>, u64) {
        let Kind::Place(place) = lab.policy(name).kind else { return (Vec::new(), 0) };
        let asks = name == POLICIES[TWO_CHOICE].1;
        let is_known = asks || self.writes.backlog.as_ref().is_none_or(|backlog| backlog.known);
        let first = self.writes.backlogs(N_SERVERS, seed).unwrap_or_default();
        let first = || first.iter().map(|&load| if is_known { load } else { 0 });
        let writes = self.writes(seed);
        let n_logs = if asks { 1 } else { self.n_logs };
        let mut draw = Seeded::new(sub_seed(seed, 4));
        let mut servers = vec![MemberId(0); writes.len()];
        let mut n_probes = 0;
        for owner in 0..n_logs {
            let log = ServerLog::new(first(), Unit::Mean, Forget::default());
            let known = Servers { log, heat: HeatMap::unknown(N_SERVERS, false) };
            let options = evenkeel::place::Options { levels, test: self.test, ..self.writes.options() };
            let Ok(mut placer) = Placer::new(place, options, known) else { continue };
            let own: Vec<Write> = writes.iter().skip(owner).step_by(n_logs).copied().collect();
            let placed = placer.windows(&own, self.writes.window as usize, &mut draw).unwrap_or_default();
            let places = servers.iter_mut().skip(owner).step_by(n_logs);
            places.zip(placed).for_each(|(server, placed)| *server = placed);
            n_probes += placer.n_probes();
        }
        (servers, n_probes)
    }

    fn see(&self, lab: &Lab, policy: usize, seed: u64) -> Seen {
        let (servers, n_probes) = self.place(lab, POLICIES[policy], seed);
        let first = self.writes.backlogs(N_SERVERS, seed).unwrap_or_default();
        let mean = self.writes.backlog.as_ref().map_or(0, |backlog| backlog.mean.0);
        let mut loads: Vec<f64> = first.iter().map(|&load| load as f64 / MB as f64).collect();
        let mut n_writes = vec![0_u32; loads.len()];
        for (server, write) in servers.iter().zip(self.writes(seed)) {
            loads[server.index()] += write.bytes as f64 / MB as f64;
            n_writes[server.index()] += 1;
        }
        let is_straggler = first.iter().map(|&load| load > 3 * mean).collect();
        Seen { loads, n_writes, is_straggler, n_probes }
    }

    fn of_class(&self, classes: &[Class]) -> Self {
        let sizes = Sizes::Mixed(classes.to_vec());
        Self { writes: Writes { sizes, ..self.writes.clone() }, ..self.clone() }
    }

    /// Measures all policies in all workloads.
    fn measure(&self, lab: &Lab) -> Measured {
        let run = |trial: &Self| {
            lab.repeat(lab.n_runs(N_RUNS), |seed| {
                [RR, MLML, TRH, LTR1, LTR2, LTR3, TWO_CHOICE].map(|policy| trial.see(lab, policy, seed).sum())
            })
        };
        Measured { runs: WORKLOADS.map(|(_, classes)| run(&self.of_class(classes))) }
    }
}

/// The servers after all writes are placed.
#[derive(Clone, Debug)]
struct Seen {
    /// In megabytes.
    loads: Vec<f64>,
    n_writes: Vec<u32>,
    is_straggler: Vec<bool>,
    n_probes: u64,
}

/// A summary of `Seen`.
#[derive(Clone, Copy, Debug)]
struct Sum {
    /// Standard deviation of the loads, in megabytes.
    deviation: f64,
    /// Share of writes that went to stragglers.
    to_stragglers: f64,
    /// Share of writes on servers whose final load exceeds 300 MB.
    above_300: f64,
    /// Mean over writes of the final load of a write's server, in megabytes.
    around: f64,
    /// Largest load among servers that are not stragglers, divided by their mean.
    largest: f64,
    n_probes: f64,
}

impl Seen {
    /// Share of writes on some servers.
    fn part(&self, is_of_them: impl Fn(usize) -> bool) -> f64 {
        let all: u32 = self.n_writes.iter().sum();
        let of_them = (0..self.n_writes.len()).filter(|&server| is_of_them(server));
        f64::from(of_them.map(|server| self.n_writes[server]).sum::<u32>()) / f64::from(all.max(1))
    }

    fn sum(&self) -> Sum {
        let n = self.loads.len() as f64;
        let mean = self.loads.iter().sum::<f64>() / n;
        let squares: f64 = self.loads.iter().map(|load| (load - mean) * (load - mean)).sum();
        let n_writes: u32 = self.n_writes.iter().sum();
        let around = self.loads.iter().zip(&self.n_writes).map(|(load, &n)| load * f64::from(n)).sum::<f64>();
        let usual =
            || self.loads.iter().zip(&self.is_straggler).filter(|(_, is)| !**is).map(|(load, _)| *load);
        Sum {
            deviation: (squares / n).sqrt(),
            to_stragglers: self.part(|server| self.is_straggler[server]),
            above_300: self.part(|server| self.loads[server] > 300.0),
            around: around / f64::from(n_writes.max(1)),
            largest: usual().fold(0.0, f64::max) / (usual().sum::<f64>() / usual().count() as f64),
            n_probes: self.n_probes as f64,
        }
    }
}

/// The results of all policies, run by run, in each workload.
#[derive(Clone, Debug)]
struct Measured {
    runs: [Vec<[Sum; 7]>; 4],
}

impl Measured {
    fn of(&self, workload: usize, policy: usize, what: fn(&Sum) -> f64) -> Estimate {
        estimate(self.runs[workload].iter().map(|run| what(&run[policy])))
    }

    /// Ratio of one policy to another on the same writes.
    fn ratio(&self, workload: usize, a: usize, b: usize, what: fn(&Sum) -> f64) -> Estimate {
        estimate(self.runs[workload].iter().map(|run| what(&run[a]) / what(&run[b])))
    }

    /// Whether these policies balance better than another, in all workloads or in some.
    fn more_even(&self, policies: &[usize], than: usize) -> (Verdict, String) {
        let mut told = Vec::new();
        let (mut n, mut n_more) = (0, 0);
        for &policy in policies {
            let ratios = [0, 1, 2, 3].map(|workload| self.ratio(workload, policy, than, |sum| sum.deviation));
            n += ratios.len();
            n_more += ratios.iter().filter(|ratio| ratio.is_below(1.0)).count();
            told.push(format!("{} {}", POLICIES[policy].0, by_workload(&ratios, 2)));
        }
        (
            Verdict::of(n_more == n, n_more > 0),
            format!("deviation ÷ {}'s: {}", POLICIES[than].0, told.join("; ")),
        )
    }
}

/// Formats as `small 0.50 ± 0.01, …`.
fn by_workload(estimates: &[Estimate], digits: usize) -> String {
    let told = WORKLOADS.iter().zip(estimates).map(|((name, _), of)| format!("{name} {}", of.tell(digits)));
    told.collect::<Vec<_>>().join(", ")
}

fn percent(part: Estimate) -> Estimate {
    Estimate { mean: 100.0 * part.mean, margin: part.margin.map(|margin| 100.0 * margin) }
}

/// A claim of the paper, and how to judge it.
struct Said {
    id: &'static str,
    section: &'static str,
    says: &'static str,
    rule: &'static str,
    why: &'static str,
    figure: Option<&'static str>,
    judge: fn(&Measured) -> (Verdict, String),
}

impl Said {
    fn claim(&self, measured: &Measured, others: &[(String, Measured)]) -> Claim {
        let (verdict, told) = (self.judge)(measured);
        let vary = |(what, measured): &(String, Measured)| {
            let (verdict, measured) = (self.judge)(measured);
            Variation { what: what.clone(), measured, verdict }
        };
        Claim {
            id: self.id,
            section: self.section,
            says: self.says,
            rule: self.rule,
            measured: told,
            verdict,
            why: self.why,
            figure: self.figure,
            variations: others.iter().map(vary).collect(),
        }
    }
}

/// Another choice of a parameter that the paper leaves open.
type Change = fn(&mut Trial);

/// The variations. A quick lab uses the first few.
const VARIATIONS: [(&str, Change); 8] = [
    ("threshold 10 MB", |trial| trial.writes.threshold = Bytes(10 * MB)),
    ("one window of all writes", |trial| trial.writes.window = 2000),
    ("objects one after the other", |trial| trial.in_sequence = true),
    ("servers sorted by the paper's probability", |trial| trial.writes.sort = Sort::Probability),
    ("no threshold", |trial| trial.writes.threshold = Bytes(0)),
    ("windows of 20 writes", |trial| trial.writes.window = 20),
    ("servers sorted again for each write", |trial| trial.writes.resort = true),
    ("first loads of 60 ± 20 MB", |trial| trial.backlog(|of| of.deviation = Bytes(20 * MB))),
];

/// Variations that only matter if there are stragglers.
const OF_STRAGGLERS: [(&str, Change); 2] = [
    ("stragglers have five times as much in all", |trial| trial.backlog(|of| of.times = 4.0)),
    ("a fifth are stragglers", |trial| trial.backlog(|of| of.stragglers = 0.2)),
];

fn measure_changed(lab: &Lab, base: &Trial, changes: &[(&str, Change)]) -> Vec<(String, Measured)> {
    let changed = |(what, change): &(&str, Change)| {
        let mut trial = base.clone();
        change(&mut trial);
        ((*what).to_owned(), trial.measure(lab))
    };
    changes.iter().map(changed).collect()
}

fn variations(lab: &Lab) -> &'static [(&'static str, Change)] {
    if lab.is_quick { &VARIATIONS[..3] } else { &VARIATIONS }
}

const EVEN: [Said; 6] = [
    Said {
        id: "004-mlml",
        section: "§4, Figs. 12–13",
        says: "MLML loads servers more evenly than RR.",
        rule: "The deviation of loads in the end is below RR's, with certainty, in all four workloads; with conditions: in some.",
        why: "What is longest goes where least is. RR leaves it to the numbers of objects, which are as good as drawn; even where \
              they are not, lengths differ.",
        figure: Some("004-fig12"),
        judge: |measured| measured.more_even(&[MLML], RR),
    },
    Said {
        id: "004-trh",
        section: "§4, Figs. 14–15",
        says: "TRH loads servers more evenly than RR.",
        rule: "The deviation of loads in the end is below RR's, with certainty, in all four workloads; with conditions: in some.",
        why: "The heavier half gets nothing in a window, and falls back; two choices even out the rest.",
        figure: Some("004-fig12"),
        judge: |measured| measured.more_even(&[TRH], RR),
    },
    Said {
        id: "004-nltr",
        section: "§4, Figs. 16–17",
        says: "1LTR and 2LTR load servers more evenly than RR.",
        rule: "The deviation of loads in the end of both is below RR's, with certainty, in all four workloads; with conditions: in \
               some.",
        why: "As TRH, with the long writes on the light servers.",
        figure: Some("004-fig12"),
        judge: |measured| measured.more_even(&[LTR1, LTR2], RR),
    },
    Said {
        id: "004-by-lot",
        section: "§4, Figs. 14–15",
        says: "By lot, TRH is more even than MLML in some runs and less in others.",
        rule: "In each workload it is more even in between 5 and 95 % of the runs; with conditions: in some workload.",
        why: "MLML is more even in all runs. Which of the two is depends on what the paper does not give, not on the lot: with a \
              threshold above most writes it is TRH in all runs.",
        figure: None,
        judge: |measured| {
            let parts = [0, 1, 2, 3].map(|workload| {
                let runs = &measured.runs[workload];
                let n = runs.iter().filter(|run| run[TRH].deviation < run[MLML].deviation).count();
                100.0 * n as f64 / runs.len() as f64
            });
            let n_both = parts.iter().filter(|part| (5.0..=95.0).contains(*part)).count();
            let told = WORKLOADS.iter().zip(parts).map(|((name, _), part)| format!("{name} {part:.0} %"));
            let told = told.collect::<Vec<_>>().join(", ");
            (Verdict::of(n_both == parts.len(), n_both > 0), format!("TRH more even in: {told} of the runs"))
        },
    },
    Said {
        id: "004-two-levels",
        section: "§4, Figs. 16–18",
        says: "1LTR and 2LTR are about equally even.",
        rule: "The deviation of 2LTR may be within a tenth of 1LTR's (the interval is not outside) in all four workloads; with \
               conditions: in some.",
        why: "A window has two writes for each server, and what one window leaves uneven the next evens out. With one window of \
              all writes that does not happen, and 2LTR is less even.",
        figure: Some("004-fig12"),
        judge: |measured| {
            let ratios =
                [0, 1, 2, 3].map(|workload| measured.ratio(workload, LTR2, LTR1, |sum| sum.deviation));
            let n_alike = ratios.iter().filter(|ratio| ratio.high() >= 0.9 && ratio.low() <= 1.1).count();
            let told = format!("deviation of 2LTR ÷ 1LTR's: {}", by_workload(&ratios, 2));
            (Verdict::of(n_alike == ratios.len(), n_alike > 0), told)
        },
    },
    Said {
        id: "004-three-levels",
        section: "§3.4.3",
        says: "A third level brings no significant gain over two.",
        rule: "The deviation of 3LTR is not below 0.9 times 2LTR's, with certainty, in any of the four workloads; with conditions: in \
               some.",
        why: "Eight sections of a dozen servers each leave less to choose from, not more.",
        figure: Some("004-fig12"),
        judge: |measured| {
            let ratios =
                [0, 1, 2, 3].map(|workload| measured.ratio(workload, LTR3, LTR2, |sum| sum.deviation));
            let n_without = ratios.iter().filter(|ratio| !ratio.is_below(0.9)).count();
            let told = format!("deviation of 3LTR ÷ 2LTR's: {}", by_workload(&ratios, 2));
            (Verdict::of(n_without == ratios.len(), n_without > 0), told)
        },
    },
];

/// Figs. 12–17: all servers are about equally loaded at the start.
fn evenness(lab: &Lab) -> Section {
    let base = Trial::new(0.0);
    let measured = base.measure(lab);
    let others = measure_changed(lab, &base, variations(lab));
    let claims = EVEN.iter().map(|said| said.claim(&measured, &others)).collect();
    let figures = vec![by_rank(lab, "004-fig12", 3, &base), by_rank(lab, "004-fig13", 1, &base)];
    Section { claims, figures }
}

/// Final loads from the lightest server to the heaviest, in one workload.
fn by_rank(lab: &Lab, id: &'static str, workload: usize, base: &Trial) -> Figure {
    let (name, classes) = WORKLOADS[workload];
    let trial = base.of_class(classes);
    let line = |policy: usize| {
        let runs = lab.repeat(lab.n_runs(N_RUNS), |seed| {
            let mut loads = trial.see(lab, policy, seed).loads;
            loads.sort_by(f64::total_cmp);
            loads
        });
        let at = |rank: usize| (rank as f64, estimate(runs.iter().map(|loads| loads[rank])));
        Line {
            name: POLICIES[policy].0.to_owned(),
            points: (0..N_SERVERS as usize).step_by(11).map(at).collect(),
        }
    };
    Figure {
        id,
        title: format!("Figs. 12–17: loads in the end, {name} writes"),
        x: "servers, the lightest first",
        y: "load, MB",
        is_log_x: false,
        lines: [RR, MLML, TRH, LTR1, LTR2, LTR3].map(line).to_vec(),
        stated: Vec::new(),
    }
}

/// The workloads in which stragglers remain the heaviest servers to the end.
const LIGHT: [usize; 2] = [0, 1];

const STRAGGLERS: [Said; 6] = [
    Said {
        id: "004-avoid",
        section: "§4, Fig. 18",
        says: "MLML, TRH, 1LTR and 2LTR send no write to a straggler (load above 200).",
        rule: "With small and with medium writes none of the four sends one to a straggler in any run; with conditions: each sends \
               less than a fifth of what RR does.",
        why: "TRH draws from the light half and sends none. MLML and nLTR give heavy servers their turn, and a write stays with a \
              straggler if its target is another one: for a tenth of stragglers a tenth of a tenth of the writes, as under \
              two-choice.",
        figure: Some("004-fig18"),
        judge: |measured| {
            let mut told = Vec::new();
            let mut most = 0.0_f64;
            for policy in PROPOSED {
                let parts =
                    LIGHT.map(|workload| percent(measured.of(workload, policy, |sum| sum.to_stragglers)));
                most = parts.iter().fold(most, |most, part| most.max(part.mean));
                told.push(format!("{} {}", POLICIES[policy].0, by_workload(&parts, 2)));
            }
            let least_of_rr =
                LIGHT.map(|workload| percent(measured.of(workload, RR, |sum| sum.to_stragglers)).mean);
            let fifth = least_of_rr.into_iter().fold(f64::INFINITY, f64::min) / 5.0;
            (
                Verdict::of(most == 0.0, most < fifth),
                format!("% of writes to stragglers: {}", told.join("; ")),
            )
        },
    },
    Said {
        id: "004-rr-hits",
        section: "§4, Fig. 18",
        says: "RR still sends writes to highly loaded servers (above 300).",
        rule: "With small and with medium writes at least one of twenty ends on a server above 300 MB; with conditions: with one \
               of the two.",
        why: "It does not look: a tenth of the servers gets a tenth.",
        figure: Some("004-fig18"),
        judge: |measured| {
            let parts = LIGHT.map(|workload| percent(measured.of(workload, RR, |sum| sum.above_300)));
            let n = parts.iter().filter(|part| part.low() > 5.0).count();
            (Verdict::of(n == 2, n > 0), format!("% of writes above 300 MB: {}", by_workload(&parts, 2)))
        },
    },
    Said {
        id: "004-left",
        section: "§4, Fig. 18",
        says: "TRH puts writes on more lightly loaded servers than MLML (its curve is to the left).",
        rule: "What the server of a write has in the end, on average, is less under TRH, with certainty, with small and with medium \
               writes; with conditions: with one of the two.",
        why: "It leaves stragglers out altogether; apart from them the two hardly differ.",
        figure: Some("004-fig18"),
        judge: |measured| {
            let ratios = LIGHT.map(|workload| measured.ratio(workload, TRH, MLML, |sum| sum.around));
            let n = ratios.iter().filter(|ratio| ratio.is_below(1.0)).count();
            (
                Verdict::of(n == 2, n > 0),
                format!("load around a write, TRH ÷ MLML: {}", by_workload(&ratios, 4)),
            )
        },
    },
    Said {
        id: "004-new",
        section: "§3.4, §4, §6",
        says: "The proposed algorithms make no new stragglers.",
        rule: "Of servers that were no stragglers the largest load, compared with their mean, is below RR's for all four, with \
               certainty, in all four workloads; with conditions: in some.",
        why: "Loads are even where they are chosen by load.",
        figure: None,
        judge: |measured| {
            let mut told = Vec::new();
            let (mut n, mut n_below) = (0, 0);
            for policy in [RR].into_iter().chain(PROPOSED) {
                let of = [0, 1, 2, 3].map(|workload| measured.of(workload, policy, |sum| sum.largest));
                told.push(format!("{} {}", POLICIES[policy].0, by_workload(&of, 2)));
                if policy != RR {
                    let to_rr =
                        [0, 1, 2, 3].map(|workload| measured.ratio(workload, policy, RR, |sum| sum.largest));
                    n += 4;
                    n_below += to_rr.iter().filter(|ratio| ratio.is_below(1.0)).count();
                }
            }
            (Verdict::of(n_below == n, n_below > 0), format!("largest ÷ mean: {}", told.join("; ")))
        },
    },
    Said {
        id: "004-probes",
        section: "§1, §2.2",
        says: "Two-choice asks two servers for each write; the log makes that unnecessary.",
        rule: "Two-choice asks 4000 times for 2000 writes, the others never.",
        why: "So they are made; what the log does not know instead is another claim (004-log).",
        figure: None,
        judge: |measured| {
            let n = |policy| measured.of(1, policy, |sum| sum.n_probes).mean;
            let others: f64 = PROPOSED.into_iter().map(n).sum();
            let told = format!("two-choice {:.0}, the four {others:.0}", n(TWO_CHOICE));
            (Verdict::plain((n(TWO_CHOICE) - 4000.0).abs() < 0.5 && others == 0.0), told)
        },
    },
    Said {
        id: "004-two-choice",
        section: "§2.2",
        says: "What two-choice achieves can be largely improved on with a log.",
        rule: "All four are more even than two-choice with small and with medium writes, with certainty, and send fewer writes to \
               stragglers; with conditions: one of the four is and does.",
        why: "A log that knows all loads knows more than two answers. But one that does not is worse (004-log).",
        figure: Some("004-fig18"),
        judge: |measured| {
            let is_better = |policy: usize| {
                LIGHT.iter().all(|&workload| {
                    let is_even =
                        measured.ratio(workload, policy, TWO_CHOICE, |sum| sum.deviation).is_below(1.0);
                    let part = |policy| measured.of(workload, policy, |sum| sum.to_stragglers).mean;
                    is_even && part(policy) < part(TWO_CHOICE)
                })
            };
            let better: Vec<&str> = PROPOSED
                .into_iter()
                .filter(|&policy| is_better(policy))
                .map(|policy| POLICIES[policy].0)
                .collect();
            let parts =
                LIGHT.map(|workload| percent(measured.of(workload, TWO_CHOICE, |sum| sum.to_stragglers)));
            let names = if better.is_empty() { "none".to_owned() } else { better.join(", ") };
            let told =
                format!("better: {names}; two-choice sends stragglers, in %: {}", by_workload(&parts, 2));
            (Verdict::of(better.len() == 4, !better.is_empty()), told)
        },
    },
];

/// Fig. 18: every tenth server has five times as much backlog on top.
fn stragglers(lab: &Lab) -> Section {
    let base = Trial::new(0.1);
    let measured = base.measure(lab);
    let mut others = measure_changed(lab, &base, variations(lab));
    others.extend(measure_changed(lab, &base, &OF_STRAGGLERS));
    let claims = STRAGGLERS.iter().map(|said| said.claim(&measured, &others)).collect();
    Section { claims, figures: vec![by_load(lab, &base)] }
}

/// Fig. 18: the most writes on any server, by its final load.
fn by_load(lab: &Lab, base: &Trial) -> Figure {
    const STEP: usize = 20;
    let trial = base.of_class(&[MEDIUM]);
    let line = |policy: usize| {
        let runs = lab.repeat(lab.n_runs(N_RUNS), |seed| {
            let seen = trial.see(lab, policy, seed);
            let mut most = vec![None; 40];
            for (&load, &n) in seen.loads.iter().zip(&seen.n_writes) {
                if let Some(most) = most.get_mut(load as usize / STEP) {
                    *most = (*most).max(Some(n));
                }
            }
            most
        });
        let at = |bin: usize| {
            let found: Vec<f64> = runs.iter().filter_map(|run| run[bin].map(f64::from)).collect();
            // Skip loads that hardly ever occur.
            (2 * found.len() > runs.len()).then(|| (((2 * bin + 1) * STEP / 2) as f64, estimate(found)))
        };
        Line { name: POLICIES[policy].0.to_owned(), points: (0..40).filter_map(at).collect() }
    };
    let stated = |label: &str, x: f64| Stated { label: label.to_owned(), x: Some(x), y: 0.0 };
    Figure {
        id: "004-fig18",
        title: "Fig. 18: the most writes of a server, by its load in the end; medium writes".to_owned(),
        x: "load, MB",
        y: "most writes of a server",
        is_log_x: false,
        lines: [RR, MLML, TRH, LTR1, LTR2, TWO_CHOICE].map(line).to_vec(),
        stated: vec![
            stated("no writes of MLML, TRH, nLTR above", 200.0),
            stated("writes of RR above", 300.0),
        ],
    }
}

/// What a client cannot see in its log.
fn knowledge(lab: &Lab) -> Section {
    let (usual, slow) = (Trial::new(0.0), Trial::new(0.1));
    let blind = slow.blind();
    let with_logs = |trial: &Trial, n_logs: usize| Trial { n_logs, ..trial.clone() };
    let unknown = Said {
        id: "004-log",
        section: "§1, §3.3",
        says: "A log of what was sent where is enough to find stragglers, without asking servers.",
        rule: "If the log knows nothing but that, the four send less than one of a hundred writes to stragglers, small and medium; \
               with conditions: less than half as many as RR.",
        why: "A server that others keep busy looks idle in the log. That the paper's algorithms avoid stragglers at all shows that \
              their log began with the injected loads.",
        figure: None,
        judge: |measured| {
            let part = |workload, policy| measured.of(workload, policy, |sum| sum.to_stragglers);
            let told = [RR].into_iter().chain(PROPOSED).map(|policy| {
                let parts = LIGHT.map(|workload| percent(part(workload, policy)));
                format!("{} {}", POLICIES[policy].0, by_workload(&parts, 2))
            });
            let told = told.collect::<Vec<_>>().join("; ");
            let all = |most: &dyn Fn(usize) -> f64| {
                LIGHT.iter().all(|&w| PROPOSED.iter().all(|&policy| part(w, policy).mean < most(w)))
            };
            let verdict = Verdict::of(all(&|_| 0.01), all(&|workload| part(workload, RR).mean / 2.0));
            (verdict, format!("% of writes to stragglers: {told}"))
        },
    };
    let others = vec![
        ("the log knows the first loads".to_owned(), slow.measure(lab)),
        ("every client has its own log".to_owned(), with_logs(&blind, N_CLIENTS).measure(lab)),
        (
            "every client has its own log, which knows the first loads".to_owned(),
            with_logs(&slow, N_CLIENTS).measure(lab),
        ),
    ];
    let unknown = unknown.claim(&blind.measure(lab), &others);
    let own = Said {
        id: "004-own-logs",
        section: "§3.1, §3.3",
        says: "The log is kept by each client, and its scheduler balances the load of servers.",
        rule: "With a log for each of the 200 clients the four are more even than RR, with certainty, in all four workloads; with \
               conditions: in some.",
        why: "Clients that do not know of each other's writes send their longest to the same servers: those that were light at \
              first. The more is decided by lot, the less that hurts.",
        figure: Some("004-logs"),
        judge: |measured| measured.more_even(&PROPOSED, RR),
    };
    let n_logs: &[usize] = if lab.is_quick { &[1, 10] } else { &[1, 2, 5, 10, 20, 50, 100] };
    let mut others: Vec<(String, Measured)> =
        n_logs.iter().map(|&n| (format!("logs: {n}"), with_logs(&usual, n).measure(lab))).collect();
    let all_own = with_logs(&usual, N_CLIENTS).measure(lab);
    let line = |policy: usize| {
        let of = |measured: &Measured| measured.ratio(1, policy, RR, |sum| sum.deviation);
        let fewer = n_logs.iter().zip(&others).map(|(&n, (_, measured))| (n as f64, of(measured)));
        let points = fewer.chain([(N_CLIENTS as f64, of(&all_own))]).collect();
        Line { name: POLICIES[policy].0.to_owned(), points }
    };
    let figure = Figure {
        id: "004-logs",
        title: "Evenness if clients do not share one log; medium writes".to_owned(),
        x: "logs",
        y: "deviation ÷ RR's",
        is_log_x: true,
        lines: PROPOSED.map(line).to_vec(),
        stated: Vec::new(),
    };
    let flat = with_logs(&usual.blind(), N_CLIENTS);
    others.push(("each its own, which does not know the first loads".to_owned(), flat.measure(lab)));
    Section { claims: vec![unknown, own.claim(&all_own, &others)], figures: vec![figure] }
}

/// The test of the listings, which is that of the text turned around.
pub const AS_PRINTED: Test = |default, other, threshold| !is_lighter(default, other, threshold);

/// §3.4: listings and text contradict each other.
fn printed(lab: &Lab) -> Section {
    let with = |test, threshold_mb: u64| {
        let mut trial = Trial { test, ..Trial::new(0.1) };
        trial.writes.threshold = Bytes(threshold_mb * MB);
        trial.measure(lab)
    };
    let thresholds: &[u64] = if lab.is_quick { &[1, 100] } else { &[0, 1, 3, 10, 30, 100, 300] };
    let tests = [("as printed", AS_PRINTED), ("as meant", is_lighter)];
    let measured =
        tests.map(|(_, test)| thresholds.iter().map(|&mb| (mb, with(test, mb))).collect::<Vec<_>>());
    let said = Said {
        id: "004-printed",
        section: "§3.4, Algorithms 1–3",
        says: "The listings redirect a write if the benefit is at most the threshold, and are to be more even than RR.",
        rule: "As printed, the four are more even than RR with stragglers, with certainty, in all four workloads; with conditions: \
               in some.",
        why: "The test is the wrong way around: writes leave a heavy default only for a server as heavy. As the text has it, \
              redirecting if the benefit is above the threshold, it works; with a threshold above all benefits the one is always, \
              the other never.",
        figure: Some("004-fig-printed"),
        judge: |measured| measured.more_even(&PROPOSED, RR),
    };
    let mut others = Vec::new();
    for ((test, _), by_threshold) in tests.iter().zip(&measured).rev() {
        let told = by_threshold
            .iter()
            .map(|(mb, measured)| (format!("{test}, threshold {mb} MB"), measured.clone()));
        others.extend(told);
    }
    let line = |test: usize, policy: usize| Line {
        name: format!("{} {}", POLICIES[policy].0, tests[test].0),
        points: measured[test]
            .iter()
            .map(|(mb, measured)| (*mb as f64, measured.ratio(1, policy, RR, |sum| sum.deviation)))
            .collect(),
    };
    let lines = [0, 1].iter().flat_map(|&test| PROPOSED.map(|policy| line(test, policy)));
    let figure = Figure {
        id: "004-fig-printed",
        title: "The test of the listings as printed and as meant; medium writes, stragglers".to_owned(),
        x: "threshold, MB",
        y: "deviation ÷ RR's",
        is_log_x: false,
        lines: lines.collect(),
        stated: Vec::new(),
    };
    Section { claims: vec![said.claim(&with(AS_PRINTED, 1), &others)], figures: vec![figure] }
}
