//! What several tests need.

use std::collections::BTreeSet;

use evenkeel::policy::{self, Policy};
use evenkeel_sim::outcome::Estimate;
use evenkeel_sim::papers::{Experiment, Figure, Lab, Paper, Section, Verdict};

pub(crate) use crate::queueing::hardware;

/// The policy of that name.
pub(crate) fn policy(name: &str) -> &'static Policy {
    policy::find(name).expect("a known policy")
}

/// What all experiments of a paper find.
pub(crate) fn everything(paper: &Paper, lab: &Lab) -> Vec<Section> {
    paper.experiments.iter().map(|experiment| (experiment.run)(lab)).collect()
}

/// What those experiments find of which the names contain one of these.
pub(crate) fn some(paper: &Paper, names: &[&str], lab: &Lab) -> Vec<Section> {
    let is_wanted = |experiment: &&Experiment| names.iter().any(|name| experiment.name.contains(name));
    let found: Vec<Section> =
        paper.experiments.iter().filter(is_wanted).map(|experiment| (experiment.run)(lab)).collect();
    assert_eq!(found.len(), names.len(), "{names:?}");
    found
}

/// What became of a claim.
pub(crate) fn verdict(found: &[Section], id: &str) -> Verdict {
    let mut claims = found.iter().flat_map(|section| &section.claims);
    claims.find(|claim| claim.id == id).unwrap_or_else(|| panic!("no claim {id}")).verdict
}

/// Ids are the paper's and there once, figures that claims name exist and show something, and nothing is left unsaid.
pub(crate) fn well_formed(paper: &Paper, found: &[Section]) {
    let mut ids = BTreeSet::new();
    let figures: Vec<&Figure> = found.iter().flat_map(|section| &section.figures).collect();
    for figure in &figures {
        assert!(figure.id.starts_with(paper.number) && ids.insert(("figure", figure.id)), "{}", figure.id);
        for line in &figure.lines {
            assert!(!line.points.is_empty(), "{} {}", figure.id, line.name);
            let is_finite = |(x, y): &(f64, Estimate)| x.is_finite() && y.mean.is_finite();
            assert!(line.points.iter().all(is_finite), "{} {line:?}", figure.id);
        }
    }
    for claim in found.iter().flat_map(|section| &section.claims) {
        assert!(claim.id.starts_with(paper.number) && ids.insert(("claim", claim.id)), "{}", claim.id);
        assert!(claim.figure.is_none_or(|id| figures.iter().any(|figure| figure.id == id)), "{}", claim.id);
        let told = [claim.section, claim.says, claim.rule, claim.why, &claim.measured];
        assert!(told.iter().all(|text| !text.is_empty()), "{}", claim.id);
        let measured = claim.variations.iter().map(|variation| &variation.measured).chain([&claim.measured]);
        assert!(measured.clone().all(|text| !text.contains("NaN")), "{claim:?}");
    }
}

/// Two runs of these experiments give the same, on one thread and on two.
pub(crate) fn same_on_any_threads(paper: &Paper, names: &[&str]) {
    let run = |n_threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(n_threads).build().expect("threads");
        format!("{:?}", pool.install(|| some(paper, names, &Lab::new(1, true))))
    };
    assert_eq!(run(1), run(2));
}
