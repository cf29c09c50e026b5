//! The report for machines. `docs/formats.md` describes it.

use evenkeel_sim::outcome::Estimate;
use evenkeel_sim::papers::{self, Source, Verdict};
use serde::Serialize;

use super::{Report, Timings};

/// Everything as one object, on one line.
pub(super) fn object(report: &Report, timings: &Timings) -> serde_json::Result<String> {
    let papers = || report.papers.iter();
    let claims = papers().flat_map(|of| of.claims.iter().map(|claim| Claim::new(of.paper.number, claim)));
    let figures =
        papers().flat_map(|of| of.figures.iter().map(|figure| Figure::new(of.paper.number, figure)));
    let object = Object {
        format: 1,
        seed: report.seed,
        quick: report.is_quick,
        papers: papers().map(|of| Paper::new(of.paper)).collect(),
        claims: claims.collect(),
        figures: figures.collect(),
        timings,
    };
    Ok(serde_json::to_string(&object)? + "\n")
}

#[derive(Serialize)]
struct Object<'a> {
    format: u32,
    seed: u64,
    quick: bool,
    papers: Vec<Paper>,
    claims: Vec<Claim<'a>>,
    figures: Vec<Figure<'a>>,
    timings: &'a Timings,
}

#[derive(Serialize)]
struct Paper {
    #[serde(rename = "paper")]
    number: &'static str,
    title: &'static str,
    about: &'static str,
    parameters: Vec<Parameter>,
}

#[derive(Serialize)]
struct Parameter {
    name: &'static str,
    value: &'static str,
    /// Where the paper states it, or why it was chosen.
    given_in: Option<&'static str>,
    chosen_because: Option<&'static str>,
}

impl Paper {
    fn new(paper: &papers::Paper) -> Self {
        let parameters = paper.parameters.iter().map(|parameter| {
            let (given_in, chosen_because) = match parameter.source {
                Source::Paper(section) => (Some(section), None),
                Source::Chosen(why) => (None, Some(why)),
            };
            Parameter { name: parameter.name, value: parameter.value, given_in, chosen_because }
        });
        Self {
            number: paper.number,
            title: paper.title,
            about: paper.about,
            parameters: parameters.collect(),
        }
    }
}

#[derive(Serialize)]
struct Claim<'a> {
    paper: &'a str,
    #[serde(rename = "claim")]
    id: &'a str,
    section: &'a str,
    paper_says: &'a str,
    rule: &'a str,
    measured: &'a str,
    verdict: &'static str,
    why: &'a str,
    figure: Option<&'a str>,
    variations: Vec<Variation<'a>>,
}

#[derive(Serialize)]
struct Variation<'a> {
    what: &'a str,
    measured: &'a str,
    verdict: &'static str,
}

impl<'a> Claim<'a> {
    fn new(paper: &'a str, claim: &'a papers::Claim) -> Self {
        let variations = claim.variations.iter().map(|it| Variation {
            what: &it.what,
            measured: &it.measured,
            verdict: word(it.verdict),
        });
        Self {
            paper,
            id: claim.id,
            section: claim.section,
            paper_says: claim.says,
            rule: claim.rule,
            measured: &claim.measured,
            verdict: word(claim.verdict),
            why: claim.why,
            figure: claim.figure,
            variations: variations.collect(),
        }
    }
}

pub(super) fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Holds => "holds",
        Verdict::Conditional => "with conditions",
        Verdict::Fails => "does not hold",
    }
}

#[derive(Serialize)]
struct Figure<'a> {
    paper: &'a str,
    #[serde(rename = "figure")]
    id: &'a str,
    title: &'a str,
    x: &'a str,
    y: &'a str,
    log_x: bool,
    lines: Vec<Line<'a>>,
    stated: Vec<Stated<'a>>,
}

#[derive(Serialize)]
struct Line<'a> {
    name: &'a str,
    points: Vec<Point>,
}

#[derive(Serialize)]
struct Point {
    x: f64,
    mean: f64,
    margin: Option<f64>,
}

#[derive(Serialize)]
struct Stated<'a> {
    label: &'a str,
    x: Option<f64>,
    y: f64,
}

impl<'a> Figure<'a> {
    fn new(paper: &'a str, figure: &'a papers::Figure) -> Self {
        let point = |&(x, Estimate { mean, margin }): &(f64, Estimate)| Point { x, mean, margin };
        let lines = figure.lines.iter();
        let lines =
            lines.map(|line| Line { name: &line.name, points: line.points.iter().map(point).collect() });
        let stated = figure.stated.iter().map(|it| Stated { label: &it.label, x: it.x, y: it.y });
        Self {
            paper,
            id: figure.id,
            title: &figure.title,
            x: figure.x,
            y: figure.y,
            log_x: figure.is_log_x,
            lines: lines.collect(),
            stated: stated.collect(),
        }
    }
}
