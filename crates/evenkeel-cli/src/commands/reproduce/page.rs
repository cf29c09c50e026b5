//! The page: a referee's report with a plot of each figure.
//!
//! One file without a script. It tells the browser to load nothing, so the page is all there is.

use std::collections::HashSet;
use std::fmt::Write as _;

use evenkeel_sim::papers::{Claim, Figure, Paper, Source, Verdict};

use super::{Repeated, Report, VERDICTS, depends_on_choice, tally, tally_in_words};
use crate::html::{self, escaped};
use crate::plot;
use crate::text::{count, counted};

pub(super) const HEAD: &str = concat!(
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n",
    "<style>\n",
    include_str!("page.css"),
    "</style>\n"
);

/// The whole report.
pub(super) fn page(report: &Report) -> String {
    let mut body = summary(report);
    report.papers.iter().for_each(|repeated| body.push_str(&paper_section(repeated)));
    html::page_with(HEAD, "The papers’ experiments, repeated", &body)
}

/// The overall result: a bar for each paper, and the claims that do not hold.
fn summary(report: &Report) -> String {
    let mut text = format!(
        "<p class=\"lead\">{} of {} measured again, each judged by a rule that stands beside it: <strong>{}</strong>.{}</p>\n",
        counted(report.claims().count() as u64, "claim"),
        counted(report.papers.len() as u64, "paper"),
        tally_in_words(tally(report.claims())),
        sensitivity(report),
    );
    text.push_str(&about_the_run(report));
    text.push_str("<nav class=\"papers\" aria-label=\"Papers\">\n");
    report.papers.iter().for_each(|repeated| text.push_str(&verdict_bar(repeated)));
    text.push_str("</nav>\n<p class=\"verdicts\">");
    VERDICTS.iter().for_each(|&verdict| text.push_str(&badge(verdict)));
    text.push_str("</p>\n");
    let wrong: Vec<&Claim> = report.claims().filter(|claim| claim.verdict == Verdict::Fails).collect();
    if !wrong.is_empty() {
        let _ = write!(text, "<h2>What does not hold</h2>\n{}", findings(&wrong));
    }
    text
}

/// Whether verdicts depend on what the papers leave open, if that was tried.
fn sensitivity(report: &Report) -> String {
    if report.claims().all(|claim| claim.variations.is_empty()) {
        return String::new();
    }
    match report.claims().filter(|claim| depends_on_choice(claim)).count() as u64 {
        0 => " No verdict changes when what the papers leave open is chosen otherwise.".to_owned(),
        1 => " One verdict changes when what the paper leaves open is chosen otherwise.".to_owned(),
        n => format!(" {} verdicts change if what the papers leave open is chosen differently.", count(n)),
    }
}

fn about_the_run(report: &Report) -> String {
    let run = if report.is_quick {
        "This was a <strong>quick run</strong>: few repetitions, wide margins, and verdicts that a full run may change."
    } else {
        "This was a full run."
    };
    format!(
        "<p class=\"soft\">{run} Every number comes from the simulator and the solvers of this project, with seed {}; where a \
         paper states a number, the figure has it drawn in. <em>With conditions</em> means: true, but only under circumstances \
         that the paper does not state.</p>\n",
        report.seed
    )
}

/// A paper and the verdicts on its claims, as one bar that links to it.
fn verdict_bar(Repeated { paper, claims, .. }: &Repeated) -> String {
    let tally = tally(claims);
    let mut text = format!(
        "<a href=\"#{0}\" aria-label=\"{0}: {1}\"><span><b>{0}</b> {2}</span><span class=\"stack\">",
        paper.number,
        tally_in_words(tally),
        escaped(paper.title)
    );
    for (&verdict, n) in VERDICTS.iter().zip(tally).filter(|(_, n)| *n > 0) {
        let _ = write!(
            text,
            "<i class=\"{}\" style=\"flex-grow: {n}\">{} {n}</i>",
            class(verdict),
            sign(verdict)
        );
    }
    text.push_str("</span></a>\n");
    text
}

pub(super) fn class(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Holds => "holds",
        Verdict::Conditional => "conditional",
        Verdict::Fails => "fails",
    }
}

/// A sign for readers who cannot see the colour.
fn sign(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Holds => "✓",
        Verdict::Conditional => "≈",
        Verdict::Fails => "✗",
    }
}

pub(super) fn badge(verdict: Verdict) -> String {
    format!("<span class=\"badge {}\">{} {verdict}</span>", class(verdict), sign(verdict))
}

fn paper_section(repeated: &Repeated) -> String {
    let Repeated { paper, claims, figures } = repeated;
    let mut text = format!(
        "<section id=\"{0}\" class=\"paper\">\n<h2><span class=\"soft\">{0}</span> {1}</h2>\n<p>{2}</p>\n",
        paper.number,
        escaped(paper.title),
        escaped(paper.about)
    );
    text.push_str(&referee(claims));
    let drawn: HashSet<&str> = figures.iter().map(|figure| figure.id).collect();
    text.push_str("<h3>Claim by claim</h3>\n");
    claims.iter().for_each(|claim| text.push_str(&claim_card(claim, &drawn)));
    if !figures.is_empty() {
        text.push_str("<h3>Figures</h3>\n<div class=\"figures\">\n");
        figures.iter().for_each(|figure| text.push_str(&figure_card(figure, claims)));
        text.push_str("</div>\n");
    }
    text.push_str(&parameters(paper));
    text.push_str("</section>\n");
    text
}

/// The referee's summary: what holds, what holds with conditions, what does not. Each claim links to what was measured.
fn referee(claims: &[Claim]) -> String {
    let tally = tally(claims);
    let mut text = format!(
        "<div class=\"referee\">\n<h3>The referee’s summary</h3>\n<p>{} Of {}, {}.",
        on_the_whole(tally),
        counted(claims.len() as u64, "claim"),
        tally_in_words(tally)
    );
    let open: Vec<String> = claims.iter().filter(|claim| depends_on_choice(claim)).map(link).collect();
    if !open.is_empty() {
        let _ = write!(text, " Sensitive to what the paper leaves open: {}.", open.join(", "));
    }
    text.push_str("</p>\n");
    for verdict in VERDICTS {
        let of_verdict: Vec<&Claim> = claims.iter().filter(|claim| claim.verdict == verdict).collect();
        if !of_verdict.is_empty() {
            let _ = write!(text, "<h4>{}</h4>\n{}", badge(verdict), findings(&of_verdict));
        }
    }
    text.push_str("</div>\n");
    text
}

fn on_the_whole([n_hold, n_conditional, n_fail]: [usize; 3]) -> &'static str {
    match (n_conditional, n_fail) {
        (0, 0) => "Everything that was checked holds.",
        (_, 0) => "Nothing that was checked is wrong, but not all of it is true without conditions.",
        _ if n_hold >= n_conditional + n_fail => {
            "Much of what was checked holds as it is stated, but not all."
        }
        _ => "Much of what was checked does not hold as it is stated.",
    }
}

/// One sentence per claim: what the paper says, what was measured, and if there is a “but”, why.
fn findings(claims: &[&Claim]) -> String {
    let mut text = String::from("<ul class=\"findings\">\n");
    for claim in claims {
        let why = if claim.verdict == Verdict::Holds { "" } else { claim.why };
        let _ = writeln!(
            text,
            "<li>{} {} <span class=\"soft\">Measured: {}. {}</span></li>",
            link(claim),
            escaped(claim.says),
            escaped(claim.measured.trim_end_matches('.')),
            escaped(why)
        );
    }
    text.push_str("</ul>\n");
    text
}

fn link(claim: &Claim) -> String {
    format!("<a href=\"#{0}\">{0}</a>", escaped(claim.id))
}

fn claim_card(claim: &Claim, drawn: &HashSet<&str>) -> String {
    let id = escaped(claim.id);
    let mut text = format!(
        "<article id=\"{id}\" class=\"claim {}\">\n<header><a class=\"id\" href=\"#{id}\">{id}</a> <span class=\"soft\">{}</span>{}</header>\n\
         <p class=\"says\">{}</p>\n<dl>\n<div><dt>Measured</dt><dd class=\"measured\">{}</dd></div>\n<div><dt>Rule</dt><dd>{}</dd></div>\n\
         <div><dt>Why</dt><dd>{}</dd></div>\n</dl>\n",
        class(claim.verdict),
        escaped(claim.section),
        badge(claim.verdict),
        escaped(claim.says),
        escaped(&claim.measured),
        escaped(claim.rule),
        escaped(claim.why),
    );
    if let Some(figure) = claim.figure.filter(|figure| drawn.contains(figure)) {
        let _ = writeln!(text, "<p class=\"to\"><a href=\"#{0}\">Figure {0}</a></p>", escaped(figure));
    }
    text.push_str(&variations(claim));
    text.push_str("</article>\n");
    text
}

/// The claim under other choices of parameters that the paper does not state.
fn variations(claim: &Claim) -> String {
    let n = claim.variations.len() as u64;
    if n == 0 {
        return String::new();
    }
    let n_other = claim.variations.iter().filter(|variation| variation.verdict != claim.verdict).count();
    let change = match n_other {
        0 => "the verdict stays".to_owned(),
        n_other => format!("another verdict in {n_other}"),
    };
    let mut text = format!(
        "<details><summary>{} of what the paper leaves open: {change}</summary>\n<div class=\"wide prose\"><table>\n\
         <thead><tr><th scope=\"col\">Instead</th><th scope=\"col\">Measured</th><th scope=\"col\">Verdict</th></tr></thead>\n<tbody>\n",
        counted(n, "variation")
    );
    for variation in &claim.variations {
        let _ = writeln!(
            text,
            "<tr><td>{}</td><td>{}</td><td>{}</td></tr>",
            escaped(&variation.what),
            escaped(&variation.measured),
            badge(variation.verdict)
        );
    }
    text.push_str("</tbody>\n</table></div></details>\n");
    text
}

fn figure_card(figure: &Figure, claims: &[Claim]) -> String {
    let shown: Vec<String> =
        claims.iter().filter(|claim| claim.figure == Some(figure.id)).map(link).collect();
    let mut text = format!(
        "<figure id=\"{}\" class=\"card figure\">\n<figcaption>{}</figcaption>\n{}{}",
        escaped(figure.id),
        escaped(&figure.title),
        plot::legend(figure),
        plot::plot(figure)
    );
    if !shown.is_empty() {
        let _ = writeln!(text, "<p class=\"to soft\">For {}</p>", shown.join(", "));
    }
    let header: Vec<&str> =
        std::iter::once(figure.x).chain(figure.lines.iter().map(|line| line.name.as_str())).collect();
    let rows: Vec<(bool, Vec<String>)> = plot::rows(figure).into_iter().map(|row| (false, row)).collect();
    let _ = writeln!(
        text,
        "<details><summary>The numbers</summary>\n<p class=\"soft\">{}; ± is half of the interval that holds the true mean \
         in 95 of 100 cases.</p>\n{}</details>\n</figure>",
        escaped(figure.y),
        html::table(&header, &rows)
    );
    text
}

/// The parameters that the paper states and those that had to be chosen, with the reason.
fn parameters(paper: &Paper) -> String {
    if paper.parameters.is_empty() {
        return String::new();
    }
    let is_chosen = |source: &Source| matches!(source, Source::Chosen(_));
    let n_chosen = paper.parameters.iter().filter(|parameter| is_chosen(&parameter.source)).count();
    let mut text = format!(
        "<h3>Parameters</h3>\n<p>{} given by the paper; {n_chosen} had to be chosen.</p>\n<div class=\"wide prose\"><table>\n<thead><tr>\
         <th scope=\"col\">Parameter</th><th scope=\"col\">Value</th><th scope=\"col\">From</th></tr></thead>\n<tbody>\n",
        paper.parameters.len() - n_chosen
    );
    for parameter in paper.parameters {
        let from = match parameter.source {
            Source::Paper(section) => format!("the paper, {}", escaped(section)),
            Source::Chosen(why) => format!("<b>chosen</b>: {}", escaped(why)),
        };
        let _ = writeln!(
            text,
            "<tr><td>{}</td><td>{}</td><td>{from}</td></tr>",
            escaped(parameter.name),
            escaped(parameter.value)
        );
    }
    text.push_str("</tbody>\n</table></div>\n");
    text
}

#[cfg(test)]
mod tests {
    use evenkeel_sim::outcome::Estimate;
    use evenkeel_sim::papers::{Line, Parameter, Stated, Variation};

    use super::*;

    static PAPER: Paper = Paper {
        number: "042",
        title: "Doe, Roe: A <Very> Even Keel & How to Keep It in the Presence of Data Replication",
        about: "Servers agree on who does what, and say so; clients believe them.",
        experiments: &[],
        parameters: &[
            Parameter { name: "clients", value: "256", source: Source::Paper("§4") },
            Parameter {
                name: "runs",
                value: "30",
                source: Source::Chosen("the paper does not say; enough for <1 %"),
            },
        ],
    };

    fn claim(id: &'static str, verdict: Verdict, figure: Option<&'static str>) -> Claim {
        let variation = |what: &str, verdict| Variation {
            what: what.to_owned(),
            measured: "8.1 ± 0.4 % shorter".to_owned(),
            verdict,
        };
        Claim {
            id,
            section: "§4.1",
            says: "Bidding is at least 12 % shorter than chance, whatever the number of servers & clients.",
            rule: "The mean is lower by 12 % at every point; with conditions: at most points.",
            measured: "by 12.4 ± 0.8 % at 17 of 25 points".to_owned(),
            verdict,
            why: "With few servers there is little to choose, so that chance is as good as bidding.",
            figure,
            variations: match verdict {
                Verdict::Conditional => {
                    vec![variation("ties by lowest id", Verdict::Fails), variation("ties by hash", verdict)]
                }
                _ => Vec::new(),
            },
        }
    }

    fn figure(id: &'static str) -> Figure {
        let line = |(name, slope): (&str, f64)| {
            let point = |k: i32| {
                let x = 2_f64.powi(k);
                (x, Estimate { mean: 1.0 + slope * f64::from(k) / 10.0, margin: Some(0.02 * f64::from(k)) })
            };
            Line { name: name.to_owned(), points: (3..12).map(point).collect() }
        };
        let names = ["hdlwf", "random-bid", "lddf", "hddf", "equi", "aequi", "optimal", "first"];
        let slopes = [0.1, 0.9, 0.25, 0.4, 0.55, 0.7, 0.0, 1.1];
        Figure {
            id,
            title: "Fig. 4: <8> transfers a server".to_owned(),
            x: "transfers",
            y: "length ÷ optimum",
            is_log_x: true,
            lines: names.into_iter().zip(slopes).map(line).collect(),
            stated: vec![
                Stated { label: "“within 5 % of the optimum”".to_owned(), x: None, y: 1.05 },
                Stated { label: "Random, Fig. 4".to_owned(), x: Some(64.0), y: 1.48 },
                Stated { label: "HDLWF, Fig. 4".to_owned(), x: Some(64.0), y: 1.06 },
            ],
        }
    }

    fn report() -> Report {
        let claims = vec![
            claim("042-1", Verdict::Holds, Some("042-fig4")),
            claim("042-2", Verdict::Conditional, Some("042-fig4")),
            claim("042-3", Verdict::Fails, Some("042-fig9")),
            claim("042-4", Verdict::Holds, None),
        ];
        let figures = vec![figure("042-fig4"), figure("042-fig5")];
        Report { seed: 7, is_quick: true, papers: vec![Repeated { paper: &PAPER, claims, figures }] }
    }

    /// Every link leads somewhere, every anchor exists once, and text from papers is escaped.
    #[test]
    fn links_lead_to_places() {
        let page = page(&report());
        let quoted = |before: &str| -> Vec<String> {
            page.split(before).skip(1).filter_map(|rest| Some(rest.split_once('"')?.0.to_owned())).collect()
        };
        let (links, ids) = (quoted("href=\"#"), quoted(" id=\""));
        assert!(links.len() > 10);
        links.iter().for_each(|link| assert!(ids.contains(link), "{link}"));
        assert_eq!(ids.iter().collect::<HashSet<_>>().len(), ids.len(), "{ids:?}");
        assert!(!page.contains("042-fig9"), "there is no such figure");
        for text in ["<Very>", "<8>", "<1 %"] {
            assert!(!page.contains(text) && page.contains(&escaped(text)), "{text}");
        }
    }

    #[test]
    fn verdicts_are_counted() {
        let page = page(&report());
        assert!(page.contains(
            "<strong>2 hold, 1 holds with conditions, 1 does not hold</strong>. One verdict changes"
        ));
        assert!(page.contains("2 variations of what the paper leaves open: another verdict in 1"));
        assert!(page.contains("Sensitive to what the paper leaves open: <a href=\"#042-2\">"));
        assert!(page.contains("1 given by the paper; 1 had to be chosen"));
    }

    #[test]
    fn an_empty_report_is_a_page() {
        let page = page(&Report { seed: 0, is_quick: false, papers: Vec::new() });
        assert!(page.contains("0 claims of 0 papers"));
    }
}
