//! The result as tables, as JSON, and as a page.

use std::fmt::Write as _;

use evenkeel_sim::outcome::Estimate;
use evenkeel_sim::papers::paper_004::PAPER;
use evenkeel_sim::papers::paper_004::live::{
    CONTESTANTS, Checked, Found, NOT_LIVE, Round, Run, SLOTS, SLOW, Seen, TIMES, share_of_slow,
};
use serde::Serialize;

use super::super::json::word;
use super::super::page::{HEAD, badge, class};
use super::super::tally_in_words;
use super::{RR, Report};
use crate::html::{self, escaped};
use crate::plot::{Bar, bars};
use crate::text::{counted, size, table};

/// Where the text of a claim is broken.
const WIDTH: usize = 118;

const QUICK: &str =
    "A quick run: one of each, which has no margins, and no variations. Without --quick there are four.";

/// What was done, in a few sentences.
fn about(report: &Report) -> String {
    let setting = &report.setting;
    let [from, to] = setting.sizes().map(|bytes| size(bytes as f64));
    format!(
        "{} nodes on this machine, each a process with sockets and a folder of its own; a node takes {}/s, and a slow one takes {TIMES} \
         times as long. Nobody is told which one that is. {} of {from} to {to} in windows of {} ms, at most {SLOTS} at a time to each \
         node; {}. The simulator does the same writes, with the same homes, on servers of the same speeds; what it says is in brackets.",
        setting.n_servers,
        size(setting.bytes_per_second as f64),
        counted(setting.n_writes.into(), "write"),
        setting.window_ms,
        counted(report.rounds.first().map_or(0, |round| round.n_runs.into()), "run"),
    )
}

fn tally<'a>(found: impl Iterator<Item = &'a Found>) -> [usize; 3] {
    let mut tally = [0; 3];
    found.for_each(|found| tally[found.verdict as usize] += 1);
    tally
}

/// How many claims there are, what became of them, and whether the simulator says so, too.
fn in_short(report: &Report) -> String {
    let both = || report.claims.iter().filter_map(|claim| Some((claim.simulated.as_ref()?, &claim.live)));
    let n_alike = both().filter(|(simulated, live)| simulated.verdict == live.verdict).count();
    format!(
        "{} on real servers: {}. The simulator was asked about {} of them and has the same verdict on {n_alike}.",
        counted(report.claims.len() as u64, "claim"),
        tally_in_words(tally(report.claims.iter().map(|claim| &claim.live))),
        both().count(),
    )
}

pub(super) fn for_people(report: &Report) -> String {
    let mut text = format!("{} {}\n\n", PAPER.number, PAPER.title);
    wrapped(&mut text, "", &about(report));
    for (number, round) in report.rounds.iter().enumerate() {
        let rows = figures(round, &report.live[number], &report.simulated[number]);
        let _ = writeln!(text, "\n{}{}:\n", round.name[..1].to_uppercase(), &round.name[1..]);
        text.push_str(&table(&rows));
    }
    text.push('\n');
    for claim in &report.claims {
        let head = format!("  {:<17} ", claim.id);
        let _ = writeln!(text, "{head}{}", claim.says);
        let mut line = |who: &str, found: &Found| {
            let _ = write!(text, "  {who:>16}  {:<21}  ", found.verdict);
            let measured = broken(&found.measured, WIDTH - 43);
            text.push_str(&measured.join(&format!("\n{:43}", "")));
            text.push('\n');
        };
        if let Some(simulated) = &claim.simulated {
            line("simulated", simulated);
        }
        line("live", &claim.live);
        for other in claim.variations.iter().filter(|other| other.live.verdict != claim.live.verdict) {
            let _ = writeln!(text, "  {:>16}  {:<21}  with {}", "but", other.live.verdict, other.what);
        }
    }
    text.push('\n');
    wrapped(&mut text, "", &in_short(report));
    for (id, why) in NOT_LIVE {
        let _ = writeln!(text, "Not checked: {id}: {why}.");
    }
    if report.is_quick {
        let _ = writeln!(text, "{QUICK}");
    }
    text
}

/// Breaks a text into lines, between words.
fn broken(text: &str, most: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in together(text) {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= most => {
                line.push(' ');
                line.push_str(&word);
            }
            _ => lines.push(word),
        }
    }
    lines
}

/// The words of a text, numbers together with what they are of: `trh 0.37 ± 0.12`.
fn together(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for word in text.split(' ') {
        let is_of_last = word == "±" || word.starts_with(|c: char| c.is_ascii_digit());
        match words.last_mut().filter(|_| is_of_last) {
            Some(last) => {
                last.push(' ');
                last.push_str(word);
            }
            None => words.push(word.to_owned()),
        }
    }
    words
}

fn wrapped(text: &mut String, indent: &str, what: &str) {
    for line in broken(what, WIDTH - indent.len()) {
        let _ = writeln!(text, "{indent}{line}");
    }
}

/// A table of what each way of writing did in a round, beside what the simulator says.
fn figures(round: &Round, live: &[Run], simulated: &[Run]) -> Vec<Vec<String>> {
    let is_slow = round.setting.n_slow > 0;
    let has_rr = round.contestants.contains(&RR);
    let mut header = vec!["placement", "seconds", "(sim.)"];
    if has_rr {
        header.extend(["÷ rr", "(sim.)"]);
    }
    if is_slow {
        header.extend(["to the slow one", "(sim.)"]);
    }
    header.extend(["redirected", "(sim.)", "probes"]);
    let mut rows = vec![header.into_iter().map(str::to_owned).collect::<Vec<_>>()];
    for &number in &round.contestants {
        let mut row = vec![CONTESTANTS[number].name.to_owned()];
        let mut both = |what: &dyn Fn(&Run, &[u64]) -> f64, show: &dyn Fn(f64) -> String| {
            let mean = |runs: &[Run]| {
                let all = (0..)
                    .zip(runs)
                    .map(|(run, all)| what(all, &round.setting.rates(run)))
                    .collect::<Vec<_>>();
                Estimate::of(&all).map_or_else(|| "–".to_owned(), |estimate| show(estimate.mean))
            };
            row.extend([mean(live), format!("({})", mean(simulated))]);
        };
        both(&|run, _| run[number].seconds, &|seconds| format!("{seconds:.2}"));
        if has_rr {
            both(&|run, _| run[number].seconds / run[RR].seconds, &|ratio| format!("{ratio:.2}"));
        }
        if is_slow {
            both(&|run, rates| share_of_slow(&run[number], rates), &|share| {
                format!("{:.1} %", 100.0 * share)
            });
        }
        both(&|run, _| run[number].n_redirected as f64, &|n| format!("{n:.0}"));
        let probes = live.iter().map(|run| run[number].n_probes).sum::<u64>() / live.len().max(1) as u64;
        row.push(probes.to_string());
        rows.push(row);
    }
    rows
}

/// Everything as one object, on one line.
pub(super) fn object(report: &Report) -> serde_json::Result<String> {
    let setting = &report.setting;
    let [smallest_bytes, largest_bytes] = setting.sizes();
    let rounds = report.rounds.iter().zip(&report.live).zip(&report.simulated);
    let object = Object {
        format: 1,
        seed: setting.seed,
        quick: report.is_quick,
        live: SetUp {
            servers: setting.n_servers,
            slow: setting.n_slow,
            slow_takes_times_as_long: TIMES,
            bytes_per_second: setting.bytes_per_second,
            writes: setting.n_writes,
            smallest_bytes,
            largest_bytes,
            window_ms: setting.window_ms,
            slots: SLOTS,
        },
        claims: report.claims.iter().map(Claim::new).collect(),
        rounds: rounds.map(|((round, live), simulated)| of_round(round, live, simulated)).collect(),
        not_checked: NOT_LIVE.iter().map(|&(claim, why)| NotChecked { claim, why }).collect(),
        seconds: report.seconds,
    };
    Ok(serde_json::to_string(&object)? + "\n")
}

#[derive(Serialize)]
struct Object<'a> {
    format: u32,
    seed: u64,
    quick: bool,
    live: SetUp,
    claims: Vec<Claim<'a>>,
    rounds: Vec<RoundOf>,
    not_checked: Vec<NotChecked>,
    seconds: f64,
}

#[derive(Serialize)]
struct SetUp {
    servers: u32,
    slow: u32,
    slow_takes_times_as_long: u64,
    bytes_per_second: u64,
    writes: u32,
    smallest_bytes: u64,
    largest_bytes: u64,
    window_ms: u64,
    slots: u32,
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
    simulated: Option<FoundOf<'a>>,
    why: &'a str,
    variations: Vec<Variation<'a>>,
}

#[derive(Serialize)]
struct FoundOf<'a> {
    measured: &'a str,
    verdict: &'static str,
}

#[derive(Serialize)]
struct Variation<'a> {
    what: &'a str,
    measured: &'a str,
    verdict: &'static str,
    simulated: Option<FoundOf<'a>>,
}

#[derive(Serialize)]
struct RoundOf {
    round: &'static str,
    window_ms: u64,
    threshold_bytes: u64,
    keeps_log: bool,
    /// Bytes per second of each server in each run.
    rates: Vec<Vec<u64>>,
    placements: Vec<PlacementOf>,
}

#[derive(Serialize)]
struct PlacementOf {
    placement: &'static str,
    completions: bool,
    live: Vec<RunOf>,
    simulated: Vec<RunOf>,
}

#[derive(Serialize)]
struct RunOf {
    seconds: f64,
    /// What each server got.
    bytes: Vec<u64>,
    redirected: u64,
    probes: u64,
}

#[derive(Serialize)]
struct NotChecked {
    claim: &'static str,
    why: &'static str,
}

impl<'a> FoundOf<'a> {
    fn new(found: &'a Found) -> Self {
        Self { measured: &found.measured, verdict: word(found.verdict) }
    }
}

impl<'a> Claim<'a> {
    fn new(claim: &'a Checked) -> Self {
        let variations = claim.variations.iter().map(|other| Variation {
            what: other.what,
            measured: &other.live.measured,
            verdict: word(other.live.verdict),
            simulated: other.simulated.as_ref().map(FoundOf::new),
        });
        Self {
            paper: PAPER.number,
            id: claim.id,
            section: claim.section,
            paper_says: claim.says,
            rule: claim.rule,
            measured: &claim.live.measured,
            verdict: word(claim.live.verdict),
            simulated: claim.simulated.as_ref().map(FoundOf::new),
            why: claim.why,
            variations: variations.collect(),
        }
    }
}

fn of_round(round: &Round, live: &[Run], simulated: &[Run]) -> RoundOf {
    let of_contestant = |&number: &usize| {
        let of = |runs: &[Run]| runs.iter().map(|run| of_run(&run[number])).collect();
        let contestant = &CONTESTANTS[number];
        PlacementOf {
            placement: contestant.placement,
            completions: contestant.completions,
            live: of(live),
            simulated: of(simulated),
        }
    };
    RoundOf {
        round: round.name,
        window_ms: round.setting.window_ms,
        threshold_bytes: round.setting.threshold_bytes,
        keeps_log: round.setting.keeps_log,
        rates: (0..round.n_runs).map(|run| round.setting.rates(run)).collect(),
        placements: round.contestants.iter().map(of_contestant).collect(),
    }
}

fn of_run(seen: &Seen) -> RunOf {
    RunOf {
        seconds: seen.seconds,
        bytes: seen.bytes.clone(),
        redirected: seen.n_redirected,
        probes: seen.n_probes,
    }
}

pub(super) fn page(report: &Report) -> String {
    let mut body = format!(
        "<p class=\"lead\">{}</p>\n<p>{} {}</p>\n<section id=\"{number}\" class=\"paper\">\n<h2><span class=\"soft\">{number}</span> {}</h2>\n",
        escaped(&in_short(report)),
        escaped(&about(report)),
        if report.is_quick { QUICK } else { "" },
        escaped(PAPER.title),
        number = PAPER.number,
    );
    body.push_str(&times(report));
    for (number, round) in report.rounds.iter().enumerate() {
        let mut rows = figures(round, &report.live[number], &report.simulated[number]).into_iter();
        let header = rows.next().unwrap_or_default();
        let header: Vec<&str> = header.iter().map(String::as_str).collect();
        let _ = writeln!(body, "<h3>{}{}</h3>", round.name[..1].to_uppercase(), &round.name[1..]);
        body.push_str(&html::table(&header, &rows.map(|row| (false, row)).collect::<Vec<_>>()));
    }
    body.push_str("<h3>Claim by claim</h3>\n");
    report.claims.iter().for_each(|claim| body.push_str(&card(claim)));
    body.push_str("<h3>Not checked</h3>\n<ul class=\"findings\">\n");
    for (id, why) in NOT_LIVE {
        let _ = writeln!(body, "<li><b>{id}</b> {}.</li>", escaped(why));
    }
    body.push_str("</ul>\n</section>\n");
    html::page_with(HEAD, "Paper 004 on real servers", &body)
}

/// How long each way of writing took, with one server slow.
fn times(report: &Report) -> String {
    let (Some(round), Some(live)) = (report.rounds.get(SLOW), report.live.get(SLOW)) else {
        return String::new();
    };
    let simulated = report.simulated.get(SLOW).map_or(&[][..], Vec::as_slice);
    let of = |runs: &[Run], number: usize| {
        Estimate::of(&runs.iter().map(|run| run[number].seconds).collect::<Vec<_>>())
    };
    let best = round
        .contestants
        .iter()
        .filter_map(|&number| of(live, number))
        .map(|it| it.mean)
        .fold(f64::INFINITY, f64::min);
    let bar = |&number: &usize| {
        let (live, simulated) = (of(live, number)?, of(simulated, number)?);
        Some(Bar {
            name: CONTESTANTS[number].name,
            value: live.mean,
            margin: live.margin,
            label: format!("{:.2} s, simulated {:.2} s", live.mean, simulated.mean),
            is_best: live.mean <= best,
        })
    };
    let drawn: Vec<Bar<'_>> = round.contestants.iter().filter_map(bar).collect();
    let bounds: Vec<f64> = (0..round.n_runs).map(|run| round.setting.bound_seconds(run)).collect();
    let bound = bounds.iter().sum::<f64>() / bounds.len().max(1) as f64;
    bars(
        &drawn,
        Some((bound, "bound")),
        "Seconds until all is written, with one server slow; the bound is what no policy can beat.",
    )
}

fn card(claim: &Checked) -> String {
    let id = escaped(claim.id);
    let simulated = |found: &Found| {
        format!(
            "<div><dt>Simulated</dt><dd>{} {}</dd></div>\n",
            escaped(&found.measured),
            badge(found.verdict)
        )
    };
    let simulated = claim.simulated.as_ref().map(simulated).unwrap_or_default();
    let mut text = format!(
        "<article id=\"{id}\" class=\"claim {}\">\n<header><a class=\"id\" href=\"#{id}\">{id}</a> <span class=\"soft\">{}</span>{}</header>\n\
         <p class=\"says\">{}</p>\n<dl>\n{}{simulated}<div><dt>Rule</dt><dd>{}</dd></div>\n<div><dt>Why</dt><dd>{}</dd></div>\n</dl>\n",
        class(claim.live.verdict),
        escaped(claim.section),
        badge(claim.live.verdict),
        escaped(claim.says),
        // Its verdict is in the head.
        format_args!(
            "<div><dt>Live</dt><dd class=\"measured\">{}</dd></div>\n",
            escaped(&claim.live.measured)
        ),
        escaped(claim.rule),
        escaped(claim.why),
    );
    if !claim.variations.is_empty() {
        let n_other =
            claim.variations.iter().filter(|other| other.live.verdict != claim.live.verdict).count();
        let change = if n_other == 0 {
            "the verdict stays".to_owned()
        } else {
            format!("another verdict in {n_other}")
        };
        let _ = writeln!(
            text,
            "<details><summary>{} of what the paper leaves open: {change}</summary>\n<div class=\"wide prose\"><table>\n<thead><tr>\
             <th scope=\"col\">Instead</th><th scope=\"col\">Live</th><th scope=\"col\">Simulated</th></tr></thead>\n<tbody>",
            counted(claim.variations.len() as u64, "variation")
        );
        let cell = |found: &Found| format!("{} {}", badge(found.verdict), escaped(&found.measured));
        for other in &claim.variations {
            let simulated = other.simulated.as_ref().map_or_else(|| "–".to_owned(), cell);
            let _ = writeln!(
                text,
                "<tr><td>{}</td><td>{}</td><td>{simulated}</td></tr>",
                escaped(other.what),
                cell(&other.live)
            );
        }
        text.push_str("</tbody>\n</table></div></details>\n");
    }
    text.push_str("</article>\n");
    text
}

#[cfg(test)]
mod tests {
    use evenkeel_sim::papers::Verdict;

    use super::*;

    #[test]
    fn texts_are_broken_between_words() {
        assert_eq!(broken("a bc def", 4), ["a bc", "def"]);
        assert_eq!(broken("too-long-a-word it is", 5), ["too-long-a-word", "it is"]);
        assert_eq!(
            broken("÷ rr's: mlml 0.35 ± 0.1, trh 0.37", 16),
            ["÷ rr's:", "mlml 0.35 ± 0.1,", "trh 0.37"]
        );
        let found = |verdict| Found { verdict, measured: String::new() };
        let all = [Verdict::Holds, Verdict::Fails, Verdict::Holds].map(found);
        assert_eq!(tally(all.iter()), [2, 0, 1]);
    }
}
