//! Paper 000: bidding (HDLWF) against the optimum (AP) and against chance.
//!
//! Lengths are rounds of bidding, as in the paper; all transfers take one slot.

use evenkeel::model::Cluster;
use evenkeel::policy::{Ask, Kind};
use evenkeel::select::{Goal, optimal};
use evenkeel::workload::{Clients, Law, Sizes, Workload};

use super::{Claim, Experiment, Figure, Lab, Line, Paper, Parameter, Section, Source, Verdict};
use crate::outcome::Estimate;

/// The paper.
pub static PAPER: Paper = Paper {
    number: "000",
    title: "Wu, Liu: Distributed Scheduling of Parallel I/O in the Presence of Data Replication",
    about: "Clients and servers agree on replicas and slots by rounds of bidding, without a centre.",
    experiments: &[Experiment { name: "system size (Fig. 4)", run: system_size }],
    parameters: &[
        Parameter { name: "clients", value: "256", source: Source::Paper("§4") },
        Parameter { name: "copies in Fig. 4", value: "2", source: Source::Paper("§4.1") },
        Parameter {
            name: "runs of each setting",
            value: "30",
            source: Source::Chosen("the paper does not say how many; enough for intervals below 1 %"),
        },
    ],
};

const N_RUNS: u32 = 30;

/// Lengths of one batch, in slots.
#[derive(Clone, Copy, Debug)]
struct Lengths {
    best: f64,
    hdlwf: f64,
    random: f64,
}

fn lengths(lab: &Lab, workload: &Workload) -> Lengths {
    // The settings above are good.
    let Ok(batch) = workload.generate() else { return Lengths { best: 1.0, hdlwf: 1.0, random: 1.0 } };
    let cluster = Cluster::equal(&batch);
    let (_, bound) = optimal::select(&batch, &cluster, Goal::Length);
    let rounds = |name: &str| {
        let Kind::Plan(plan) = lab.policy(name).kind else { return f64::NAN };
        let (_, ordered) = plan(&batch, &cluster, &Ask { seed: workload.seed, ..Ask::default() });
        ordered.rounds.map_or(f64::NAN, |(n_rounds, _)| f64::from(n_rounds))
    };
    Lengths { best: bound.value.to_f64(), hdlwf: rounds("hdlwf"), random: rounds("random-bid") }
}

/// The mean of lengths over the optimum: HDLWF's and Random's.
fn over_best(lab: &Lab, workload: &Workload) -> (Estimate, Estimate) {
    let runs = lab.repeat(lab.n_runs(N_RUNS), |seed| lengths(lab, &Workload { seed, ..workload.clone() }));
    let estimate = |ratio: fn(&Lengths) -> f64| {
        let ratios: Vec<f64> = runs.iter().map(ratio).collect();
        Estimate::of(&ratios).unwrap_or(Estimate { mean: f64::NAN, margin: None })
    };
    (estimate(|run| run.hdlwf / run.best), estimate(|run| run.random / run.best))
}

fn uniform(n_transfers: u32, n_servers: u32, copies: u32) -> Workload {
    Workload {
        n_requests: n_transfers,
        n_clients: 256,
        n_servers,
        copies,
        law: Law::Uniform,
        sizes: Sizes::Fixed(1),
        clients: Clients::Drawn,
        seed: 0,
    }
}

/// Fig. 4: 2⁵ to 2¹¹ transfers, 8 to 64 a server, two copies.
fn system_size(lab: &Lab) -> Section {
    let mut figures = Vec::new();
    let mut means = Vec::new();
    for (id, ratio) in [("000-fig4a", 8), ("000-fig4b", 16), ("000-fig4c", 32), ("000-fig4d", 64)] {
        let mut lines =
            ["hdlwf", "random-bid"].map(|name| Line { name: name.to_owned(), points: Vec::new() });
        for exponent in 5..=11 {
            let n_transfers = 1_u32 << exponent;
            let n_servers = n_transfers / ratio;
            // One server leaves nothing to choose, and two copies need two.
            if n_servers < 2 {
                continue;
            }
            let (hdlwf, random) = over_best(lab, &uniform(n_transfers, n_servers, 2));
            lines[0].points.push((f64::from(n_transfers), hdlwf));
            lines[1].points.push((f64::from(n_transfers), random));
            means.push((ratio, hdlwf.mean, random.mean));
        }
        figures.push(Figure {
            id,
            title: format!("Fig. 4: {ratio} transfers a server"),
            x: "transfers",
            y: "length ÷ optimum",
            is_log_x: true,
            lines: lines.to_vec(),
            stated: Vec::new(),
        });
    }
    let n_better = means.iter().filter(|(_, hdlwf, random)| hdlwf < random).count();
    let better = Claim {
        id: "000-4a",
        section: "§4.1",
        says: "HDLWF is better than Random in all cases of Fig. 4.",
        rule: "The mean length of HDLWF is below that of Random at every point; with conditions: at most points.",
        measured: format!("at {n_better} of {} points", means.len()),
        verdict: Verdict::of(n_better == means.len(), 2 * n_better > means.len()),
        why: "A bid for the least loaded server meets fewer others than one by lot.",
        figure: Some("000-fig4a"),
        variations: Vec::new(),
    };
    Section { claims: vec![better], figures }
}
