//! §5.2: `ParaView`'s rendering steps on 64 nodes. In each step every process reads a data set, then all render.

use super::{ENOUGH, Found, MARMOT, OTHERS, Setup, estimate, n_runs, settle, text, vary};
use crate::chance::sub_seed;
use crate::outcome::{Estimate, Outcome};
use crate::papers::{Claim, Figure, Lab, Line, Section, Stated};
use crate::tasks::Tasks;
use crate::units::Bytes;

const N_NODES: u32 = 64;
const N_STEPS: u64 = 10;
const DATA_SET: u64 = 56_000_000;
/// Seconds of a call besides reading: the paper's fastest call, 2.63 s, is a local read plus this.
const PARSE_S: f64 = 1.84;
const RENDER_S: f64 = 6.0;
const POLICIES: [&str; 2] = ["rank", "opass-single"];

/// Seconds in one run: the mean call, the standard deviation of calls, and all steps.
#[derive(Clone, Copy, Debug)]
struct Run {
    call: f64,
    deviation: f64,
    total: f64,
}

impl Run {
    fn of(steps: &[Outcome]) -> Self {
        let calls = || steps.iter().flat_map(|step| &step.responses_ns).map(|&ns| PARSE_S + ns as f64 / 1e9);
        let n = calls().count() as f64;
        let call = calls().sum::<f64>() / n;
        let squares: f64 = calls().map(|one| (one - call) * (one - call)).sum();
        let longest = |step: &Outcome| step.makespan_ns as f64 / 1e9;
        let total = steps.iter().map(|step| longest(step) + PARSE_S + RENDER_S).sum();
        Self { call, deviation: (squares / n).sqrt(), total }
    }
}

fn runs(lab: &Lab, setup: &Setup, policy: &str) -> Vec<Run> {
    let hardware = setup.hardware(N_NODES, N_NODES);
    let tasks = Tasks { tasks_per_process: 1, inputs: vec![Bytes(DATA_SET)], ..setup.tasks() };
    let run = |seed| {
        let step = |k| tasks.run(&lab.case(&hardware, policy, sub_seed(seed, k))).ok();
        let steps: Option<Vec<Outcome>> = (0..N_STEPS).map(step).collect();
        Some(Run::of(&steps?))
    };
    lab.repeat(n_runs(lab, setup), run).into_iter().flatten().collect()
}

fn mean(runs: &[Run], of: fn(&Run) -> f64) -> Estimate {
    estimate(runs.iter().map(of))
}

/// A measure without and with Opass, and whether their ratio is a large enough part of the stated one.
fn ratio(both: &[Vec<Run>; 2], of: fn(&Run) -> f64, stated: [f64; 2]) -> Found {
    let [base, opass] = [mean(&both[0], of), mean(&both[1], of)];
    let holds = base.mean / opass.mean >= ENOUGH * stated[0] / stated[1];
    (format!("{} and {} s", text(base, 2), text(opass, 2)), holds)
}

pub(super) fn run(lab: &Lab) -> Section {
    let both = |setup: &Setup| POLICIES.map(|policy| runs(lab, setup, policy));
    let base = both(&MARMOT);
    let varied: Vec<(Setup, [Vec<Run>; 2])> = OTHERS.iter().map(|setup| (*setup, both(setup))).collect();
    let claim = |id, says, rule, why, of: fn(&Run) -> f64, stated| {
        let (measured, holds) = ratio(&base, of, stated);
        let at = |setup: &Setup| varied.iter().find(|(other, _)| other.what == setup.what);
        let variations = vary(&OTHERS, |setup| {
            at(setup).map_or((String::new(), false), |(_, both)| ratio(both, of, stated))
        });
        let verdict = settle(holds, &variations);
        Claim {
            id,
            section: "§5.2",
            says,
            rule,
            measured,
            verdict,
            why,
            figure: Some("003-fig21"),
            variations,
        }
    };
    let claims = vec![
        claim(
            "003-21a",
            "A call of ParaView's reader takes 5.48 s on average, and 3.07 s with Opass.",
            "The ratio is at least three quarters of 1.79; with conditions: under one of the variations.",
            "Most of 64 processes that read at once share a disk with another, and what a call does beside reading is the \
             same. So much takes a disk that loses much to turning, or a slow network.",
            |run| run.call,
            [5.48, 3.07],
        ),
        claim(
            "003-21b",
            "The standard deviation of these calls falls from 1.339 s to 0.316 s.",
            "The ratio is at least three quarters of 4.24; with conditions: under one of the variations.",
            "It falls to a third. With one data set a process some nodes hold none, and the reads that stay remote disturb \
             others, the more the more a disk loses to turning.",
            |run| run.deviation,
            [1.339, 0.316],
        ),
        claim(
            "003-21c",
            "ParaView takes 167 s without Opass and 98 s with it.",
            "The ratio is at least three quarters of 1.70; with conditions: under one of the variations.",
            "A step waits for the slowest call. So much takes a disk that loses most to turning, or a slow network; and how \
             long a step renders was chosen.",
            |run| run.total,
            [167.0, 98.0],
        ),
    ];
    Section { claims, figures: vec![figure(&base)] }
}

fn figure(both: &[Vec<Run>; 2]) -> Figure {
    let line = |name: &str, of: fn(&Run) -> f64| Line {
        name: name.to_owned(),
        points: [0.0, 1.0].into_iter().zip(both).map(|(x, runs)| (x, mean(runs, of))).collect(),
    };
    let stated = |label: &str, x: f64, y: f64| Stated { label: label.to_owned(), x: Some(x), y };
    Figure {
        id: "003-fig21",
        title: "Fig. 21: calls of ParaView's reader".to_owned(),
        x: "without Opass (0) and with it (1)",
        y: "seconds",
        is_log_x: false,
        lines: vec![line("mean", |run| run.call), line("standard deviation", |run| run.deviation)],
        stated: vec![
            stated("mean", 0.0, 5.48),
            stated("mean", 1.0, 3.07),
            stated("standard deviation", 0.0, 1.339),
            stated("standard deviation", 1.0, 0.316),
        ],
    }
}
