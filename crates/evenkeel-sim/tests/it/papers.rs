//! Verdicts follow from what policies do: break one, and they change.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use evenkeel::bid::{Rules, rounds};
use evenkeel::draw::Ties;
use evenkeel::model::{Batch, Choice, Cluster};
use evenkeel::order::rounds::Rounds;
use evenkeel::policy::{self, Ask, Kind, Live, Ordered, Policy};
use evenkeel::queue::{Discipline, Queue, Tagged, sio};
use evenkeel_sim::papers::{Lab, PAPERS, Paper, Section, Verdict, paper_000, paper_002};

/// All that a paper's experiments find, on so many threads.
fn run_on(n_threads: usize, lab: &Lab, paper: &Paper) -> Vec<Section> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(n_threads).build().expect("threads");
    pool.install(|| paper.experiments.iter().map(|experiment| (experiment.run)(lab)).collect())
}

fn run(lab: &Lab, paper: &Paper) -> Vec<Section> {
    run_on(2, lab, paper)
}

fn quick() -> Lab<'static> {
    Lab::new(1, true)
}

fn verdicts(sections: &[Section]) -> BTreeMap<&'static str, Verdict> {
    sections.iter().flat_map(|section| &section.claims).map(|claim| (claim.id, claim.verdict)).collect()
}

static QUICK_000: LazyLock<Vec<Section>> = LazyLock::new(|| run(&quick(), &paper_000::PAPER));
static QUICK_002: LazyLock<Vec<Section>> = LazyLock::new(|| run(&quick(), &paper_002::PAPER));

/// Claims and figures are told apart, and what claims refer to is there.
#[test]
fn claims_and_figures_fit_together() {
    for (paper, sections) in [(&paper_000::PAPER, &*QUICK_000), (&paper_002::PAPER, &*QUICK_002)] {
        let figures: BTreeSet<&str> = sections.iter().flat_map(|s| &s.figures).map(|f| f.id).collect();
        assert_eq!(figures.len(), sections.iter().map(|s| s.figures.len()).sum::<usize>());
        let claims: Vec<_> = sections.iter().flat_map(|s| &s.claims).collect();
        assert_eq!(verdicts(sections).len(), claims.len(), "{}", paper.number);
        assert!(claims.len() >= 10);
        for claim in claims {
            assert!(claim.id.starts_with(paper.number), "{}", claim.id);
            assert!(claim.figure.is_none_or(|figure| figures.contains(figure)), "{}", claim.id);
            assert!(!claim.measured.contains("NaN"), "{}: {}", claim.id, claim.measured);
            assert!(!claim.variations.iter().any(|v| v.measured.contains("NaN")), "{}", claim.id);
        }
        for figure in sections.iter().flat_map(|s| &s.figures) {
            let points = || figure.lines.iter().flat_map(|line| &line.points);
            assert!(points().next().is_some(), "{}", figure.id);
            assert!(points().all(|(x, y)| x.is_finite() && y.mean.is_finite()), "{}", figure.id);
        }
    }
    let numbers: BTreeSet<&str> = PAPERS.iter().map(|paper| paper.number).collect();
    assert_eq!(numbers.len(), PAPERS.len());
}

/// The same seed gives the same, again and on any number of threads; another seed gives other measurements.
#[test]
fn nothing_depends_on_threads() {
    let text = |sections: &[Section]| format!("{sections:?}");
    for (paper, before) in [(&paper_000::PAPER, &*QUICK_000), (&paper_002::PAPER, &*QUICK_002)] {
        assert!(text(&run_on(1, &quick(), paper)) == text(before), "{}", paper.number);
    }
    assert!(text(&run(&quick(), &paper_002::PAPER)) == text(&QUICK_002));
    assert!(text(&run(&Lab::new(2, true), &paper_002::PAPER)) != text(&QUICK_002));
}

/// What the papers' main claims come to.
#[test]
fn verdicts_as_they_are() {
    let found = verdicts(&QUICK_000);
    for id in
        ["000-4e", "000-5a", "000-6a", "000-7b", "000-7c", "000-8a", "000-8b", "000-8c", "000-8e", "000-9a"]
    {
        assert_eq!(found[id], Verdict::Holds, "{id}");
    }
    for id in ["000-4a", "000-4d", "000-5f", "000-9b"] {
        assert_eq!(found[id], Verdict::Conditional, "{id}");
    }
    for id in ["000-5d", "000-6b", "000-8d"] {
        assert_eq!(found[id], Verdict::Fails, "{id}");
    }
    let found = verdicts(&QUICK_002);
    for id in ["002-2a", "002-5", "002-8", "002-9", "002-f5a"] {
        assert_eq!(found[id], Verdict::Holds, "{id}");
    }
    for id in ["002-2b", "002-4", "002-6", "002-7", "002-t1a"] {
        assert_eq!(found[id], Verdict::Conditional, "{id}");
    }
    for id in ["002-10", "002-f5b", "002-f6b"] {
        assert_eq!(found[id], Verdict::Fails, "{id}");
    }
}

/// A policy under the name of another.
fn disguised(name: &str, kind: Kind) -> Policy {
    Policy { kind, ..*policy::find(name).expect("known") }
}

fn kind(name: &str) -> Kind {
    policy::find(name).expect("known").kind
}

/// How HDLWF would plan by these rules.
fn bidding(batch: &Batch, cluster: &Cluster, rules: Rules) -> (Choice, Ordered) {
    let bidding = rounds::run(batch, cluster, rules);
    let Rounds { schedule, n_rounds, compacted } = Rounds::new(batch, cluster, &bidding.grants);
    let choice = Choice::granted(batch.n_requests(), &bidding.grants);
    (choice, Ordered { schedule, rounds: Some((n_rounds, compacted)), messages: Some(bidding.n_messages) })
}

fn changed(broken: &[Section], from: &[Section]) -> BTreeSet<&'static str> {
    let before = verdicts(from);
    verdicts(broken).into_iter().filter(|(id, verdict)| before[id] != *verdict).map(|(id, _)| id).collect()
}

/// Figures 4 to 7 of paper 000.
fn figures_000(hdlwf: &Policy) -> Vec<Section> {
    vec![(paper_000::PAPER.experiments[0].run)(&quick().with(hdlwf))]
}

/// If HDLWF bid like Random, it would be better nowhere, and further from the optimum.
#[test]
fn hdlwf_that_bids_by_lot() {
    let broken = figures_000(&disguised("hdlwf", kind("random-bid")));
    assert_eq!(verdicts(&broken)["000-4a"], Verdict::Fails);
    assert_eq!(verdicts(&broken)["000-5b"], Verdict::Fails);
    let changed = changed(&broken, &QUICK_000);
    assert!(changed.contains("000-4a") && changed.contains("000-5b"), "{changed:?}");
    // What does not look at HDLWF stays.
    assert!(!changed.contains("000-5f"));
}

/// With ties by lowest id all bid at the same server.
#[test]
fn hdlwf_that_breaks_ties_badly() {
    let hdlwf = Kind::Plan(|batch: &Batch, cluster: &Cluster, ask: &Ask| {
        bidding(batch, cluster, Rules::hdlwf(Ties::LowestId, ask.seed))
    });
    let broken = figures_000(&disguised("hdlwf", hdlwf));
    assert_eq!(verdicts(&broken)["000-4d"], Verdict::Fails);
    assert_eq!(verdicts(&broken)["000-4b"], Verdict::Fails);
    assert_eq!(verdicts(&broken)["000-4c"], Verdict::Fails);
}

/// A colouring that takes a slot too many, and a greedy one that takes as many as the paper says.
#[test]
fn colourings_that_waste_slots() {
    let bounds = |policy: &Policy| vec![(paper_000::PAPER.experiments[1].run)(&quick().with(policy))];
    let before = vec![QUICK_000[1].clone()];
    let colour = Kind::Order(|batch, cluster, choice, ask| {
        let Kind::Order(colour) = kind("colour") else { panic!("colour orders") };
        let mut ordered = colour(batch, cluster, choice, ask);
        ordered.schedule.length = (ordered.schedule.length.rounded().floor() + 1).into();
        ordered
    });
    let broken = bounds(&disguised("colour", colour));
    assert_eq!(changed(&broken, &before), ["000-8a"].into());
    let in_turn = Kind::Order(|batch, cluster, choice, ask| {
        let Kind::Order(hdf) = kind("hdf") else { panic!("hdf orders") };
        let one_at_once =
            Cluster::new(batch, cluster.servers().to_vec(), cluster.clients().to_vec(), Some(1));
        hdf(batch, &one_at_once.expect("a cluster"), choice, ask)
    });
    let broken = bounds(&disguised("hdf", in_turn));
    assert!(changed(&broken, &before).contains("000-8c"));
}

/// To bid again without gain.
#[test]
fn bidding_again_that_does_not() {
    let again = |policy: &Policy| vec![(paper_000::PAPER.experiments[2].run)(&quick().with(policy))];
    let broken = again(&disguised("hdlwf-rebid", kind("hdlwf")));
    assert_eq!(verdicts(&broken)["000-9b"], Verdict::Fails);
    let broken = again(&disguised("mpasses", kind("hdf-dist")));
    assert_ne!(verdicts(&broken)["000-9a"], Verdict::Holds);
}

/// If all bid at the same server, there are so many rounds that their messages cost much.
#[test]
fn bids_that_take_many_rounds() {
    let hdlwf = policy::find("hdlwf").expect("known");
    let live = Live::Bids(|ask| Rules::hdlwf(Ties::LowestId, ask.seed));
    let cost = paper_000::PAPER.experiments[3].run;
    let broken = vec![cost(&quick().with(&Policy { live, ..*hdlwf }))];
    let changed = changed(&broken, &[QUICK_000[3].clone()]);
    assert_eq!(changed, ["000-10a"].into());
}

/// Who can wait longest is first.
#[derive(Debug, Default)]
struct Last(Vec<Tagged>);

impl Queue for Last {
    fn push(&mut self, _: u64, request: Tagged) {
        self.0.push(request);
    }

    fn pop(&mut self, _: u64) -> Option<Tagged> {
        self.0.sort_by_key(|tagged| (tagged.request.ad_ns, tagged.request.app));
        self.0.pop()
    }

    fn len(&self) -> usize {
        self.0.len()
    }
}

/// An HIO that begins with who can wait longest does not find the order of Fig. 2, nor the best case.
#[test]
fn hio_in_reverse() {
    let discipline = Discipline {
        has_threshold: false,
        order: |collective, _| sio::order(collective),
        queue: |_| Box::<Last>::default(),
    };
    let reverse = disguised("hio", Kind::Queue(discipline));
    let broken = run(&quick().with(&reverse), &paper_002::PAPER);
    let changed = changed(&broken, &QUICK_002);
    for id in ["002-2a", "002-6", "002-9"] {
        assert!(changed.contains(id), "{id} of {changed:?}");
    }
    assert_eq!(verdicts(&broken)["002-9"], Verdict::Fails);
    assert!(!changed.contains("002-5"));
}

/// If HIO were what keeps its promises, the paper would be right where it promises.
#[test]
fn hio_by_due_dates() {
    let edd = disguised("hio", kind("hio-edd"));
    let broken = run(&quick().with(&edd), &paper_002::PAPER);
    assert_eq!(verdicts(&broken)["002-10"], Verdict::Holds);
    assert_eq!(verdicts(&broken)["002-f6b"], Verdict::Holds);
}

/// If SIO served as requests come, it would not keep to its formula, nor save anything.
#[test]
fn sio_by_arrival() {
    let nio = disguised("sio", kind("nio"));
    let changed = changed(&run(&quick().with(&nio), &paper_002::PAPER), &QUICK_002);
    for id in ["002-5", "002-8", "002-f6a"] {
        assert!(changed.contains(id), "{id} of {changed:?}");
    }
}
