//! Paper 003: verdicts change when policies do, and not otherwise.

use std::collections::BTreeSet;

use evenkeel::assign::{Assignment, ProcessId, Work, drawn, rank};
use evenkeel::draw::{Draw, Seeded};
use evenkeel::model::MemberId;
use evenkeel::place::{Place, Turn};
use evenkeel::policy::{Kind, Policy};
use evenkeel::select::first;
use evenkeel_sim::papers::paper_003::PAPER;
use evenkeel_sim::papers::{Claim, Lab, Section, Verdict};

use crate::support::policy;

fn run(lab: &Lab) -> Vec<Section> {
    PAPER.experiments.iter().map(|experiment| (experiment.run)(lab)).collect()
}

fn lab(seed: u64) -> Lab<'static> {
    Lab::new(seed, true)
}

/// Only those experiments whose names say so.
fn claims(lab: &Lab, figure: &str) -> Vec<Claim> {
    let of_figure = PAPER.experiments.iter().filter(|experiment| experiment.name.contains(figure));
    of_figure.flat_map(|experiment| (experiment.run)(lab).claims).collect()
}

fn verdict(claims: &[Claim], id: &str) -> Verdict {
    claims.iter().find(|claim| claim.id == id).unwrap_or_else(|| panic!("no claim {id}")).verdict
}

/// On any number of threads, and as often as it is run.
#[test]
fn what_comes_out_is_the_same_and_complete() {
    let on = |n_threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(n_threads).build().expect("threads");
        pool.install(|| run(&lab(2)))
    };
    let sections = on(1);
    assert_eq!(format!("{sections:?}"), format!("{:?}", on(2)));
    let claims: Vec<&Claim> = sections.iter().flat_map(|section| &section.claims).collect();
    let ids: BTreeSet<&str> = claims.iter().map(|claim| claim.id).collect();
    assert_eq!(ids.len(), claims.len(), "an id stands twice");
    assert!(ids.iter().all(|id| id.starts_with("003-")));
    for section in &sections {
        let figures: BTreeSet<&str> = section.figures.iter().map(|figure| figure.id).collect();
        assert_eq!(figures.len(), section.figures.len());
        let named: BTreeSet<&str> = section.claims.iter().filter_map(|claim| claim.figure).collect();
        assert!(named.is_subset(&figures), "{named:?} of {figures:?}");
        for figure in &section.figures {
            let mut points = figure.lines.iter().flat_map(|line| &line.points).peekable();
            assert!(points.peek().is_some() && points.all(|(_, y)| y.mean.is_finite()), "{}", figure.id);
        }
    }
    for claim in claims {
        let measured = claim.variations.iter().map(|variation| &variation.measured);
        assert!(measured.chain([&claim.measured]).all(|text| !text.contains("NaN")), "{}", claim.id);
    }
}

/// Formulas are what they are, and so are placements by lot.
#[test]
fn probabilities() {
    let found = claims(&lab(1), "probabilities");
    assert_eq!(verdict(&found, "003-3.1a"), Verdict::Fails);
    assert_eq!(verdict(&found, "003-3.1b"), Verdict::Holds);
    assert_eq!(verdict(&found, "003-3.3a"), Verdict::Fails);
}

/// By rank, or all to the first process, from copies drawn by lot.
fn unmatched(work: &Work, is_even: bool) -> Assignment {
    let mut all = rank::assign(work);
    if !is_even {
        all.processes.fill(ProcessId(0));
    }
    all.sources = drawn(work, &all.processes, &mut Seeded::new(1));
    all
}

/// An Opass that assigns by rank.
#[test]
fn without_matching_nothing_is_gained() {
    let spoiled = Policy { kind: Kind::Assign(|work| Ok(unmatched(work, true))), ..*policy("opass-single") };
    let (good, bad) = (claims(&lab(1), "Figs. 8"), claims(&lab(1).with(&spoiled), "Figs. 8"));
    for (id, is) in [("003-8c", Verdict::Holds), ("003-8e", Verdict::Conditional), ("003-9b", Verdict::Holds)]
    {
        assert_eq!([&good, &bad].map(|claims| verdict(claims, id)), [is, Verdict::Fails], "{id}");
    }
    assert_eq!(verdict(&bad, "003-8b"), verdict(&good, "003-8b"), "that is without Opass");
    let (good, bad) = (claims(&lab(1), "ParaView"), claims(&lab(1).with(&spoiled), "ParaView"));
    for id in ["003-21a", "003-21b", "003-21c"] {
        assert_eq!(
            [&good, &bad].map(|claims| verdict(claims, id)),
            [Verdict::Conditional, Verdict::Fails],
            "{id}"
        );
    }
}

/// An Opass that gives all to the first process, which then reads alone.
#[test]
fn without_quotas_it_is_not_even() {
    let spoiled = Policy { kind: Kind::Assign(|work| Ok(unmatched(work, false))), ..*policy("opass-single") };
    let bad = claims(&lab(1).with(&spoiled), "Figs. 8");
    assert_eq!(verdict(&bad, "003-9b"), Verdict::Fails);
}

/// An HM-LRU that takes the warmest of all.
#[derive(Debug)]
struct Warmest;

impl Place for Warmest {
    fn merges(&self) -> bool {
        false
    }

    fn place(&mut self, turn: &Turn<'_>, _: &mut dyn Draw) -> MemberId {
        let heat = &turn.servers.heat;
        let free = (0..heat.n_servers() as u32).map(MemberId).filter(|server| !turn.taken.contains(server));
        free.max_by_key(|&server| (heat.warmth(server).connections, server)).unwrap_or(turn.default)
    }
}

#[test]
fn the_warmest_server_is_no_place_to_write() {
    let spoiled = Policy { kind: Kind::Place(|_, _| Box::new(Warmest)), ..*policy("hm-lru") };
    let (good, bad) = (claims(&lab(1), "Figs. 16"), claims(&lab(1).with(&spoiled), "Figs. 16"));
    assert_eq!([&good, &bad].map(|claims| verdict(claims, "003-20")), [Verdict::Holds, Verdict::Fails]);
    assert_eq!(verdict(&good, "003-16a"), Verdict::Holds);
    assert_eq!(verdict(&good, "003-16b"), Verdict::Fails);
}

/// HM-LRU that draws is as uneven as what it is compared with.
#[test]
fn writes_by_lot_are_no_better_than_by_lot() {
    let spoiled = Policy { kind: policy("hdfs-random").kind, ..*policy("hm-lru") };
    let bad = claims(&lab(1).with(&spoiled), "Figs. 16");
    assert_eq!(verdict(&bad, "003-16a"), Verdict::Fails);
}

/// Tenants that all read the first copy.
#[test]
fn tenants_need_their_copies_chosen() {
    let spoiled =
        Policy { kind: Kind::Select(|batch, _, _| (first::select(batch), None)), ..*policy("opass-tenant") };
    let (good, bad) = (claims(&lab(1), "tenants"), claims(&lab(1).with(&spoiled), "tenants"));
    let measured = |claims: &[Claim]| claims[0].measured.clone();
    assert_ne!(measured(&good), measured(&bad), "it is carried out");
}
