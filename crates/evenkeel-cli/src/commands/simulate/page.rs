//! The page of a study: policies side by side, responses, loads over time, and what a sweep changes.

use std::fmt::Write as _;

use evenkeel_sim::measure::{self, Measure};
use evenkeel_sim::outcome::{Estimate, Timeline};
use evenkeel_sim::study::Series;

use super::report::{INCOMPLETE, Report, failures, last};
use crate::html;
use crate::plot::{self, Bar, Heat, Line};
use crate::text::{round_span, size, span, span_about};

pub(super) fn page(report: &Report<'_>) -> String {
    let mut body = format!("<p>{}</p>\n", html::escaped(&report.headline()));
    if report.series.iter().any(|series| series.n_failed() > 0.0) {
        let _ = writeln!(body, "<p>{}</p>", html::escaped(INCOMPLETE));
    }
    if report.points.len() > 1 {
        body.push_str(&sweeps(report));
    }
    // In a sweep, the first point stands for all.
    let series: Vec<&Series> =
        report.series.iter().filter(|series| series.point == 0 && !series.runs.is_empty()).collect();
    if report.points.len() > 1 {
        let values = report.swept.iter().zip(report.points[0].sets.iter());
        let values: Vec<String> = values.map(|(key, set)| format!("{key} = {}", set.value)).collect();
        let _ = writeln!(
            body,
            "<p>The charts below are of the first point: {}.</p>",
            html::escaped(&values.join(", "))
        );
    }
    body.push_str(&makespans(&series));
    body.push_str(&bars_of(
        "mean",
        "Mean response",
        None,
        &series,
        &about("How long requests took from arrival to completion"),
    ));
    body.push_str(&bars_of(
        "p99",
        "p99 of responses",
        None,
        &series,
        &about("The response that 99 of 100 requests keep to"),
    ));
    body.push_str(&responses(&series));
    body.push_str(&over_time(report, &series));
    body.push_str(&figures(report));
    html::page(&report.title, &body)
}

/// The caption of a chart of bars.
fn about(what: &str) -> String {
    format!("{what}: the mean of all repetitions, and its 95 % confidence interval. Green: the least.")
}

fn makespans(series: &[&Series]) -> String {
    let complete = series.iter().find(|series| series.n_failed() == 0.0);
    let bound = measure::find("bound").and_then(|bound| complete?.estimate(bound));
    let label = bound.map(|bound| format!("bound {}", span(bound.mean))).unwrap_or_default();
    let mut caption = about("When the last was done");
    if bound.is_some() {
        caption.push_str(" Nothing ends before the dashed line.");
    }
    bars_of("makespan", "Makespan", bound.map(|bound| (bound.mean, label.as_str())), series, &caption)
}

/// The policies side by side.
fn bars_of(
    name: &str,
    heading: &str,
    mark: Option<(f64, &str)>,
    series: &[&Series],
    caption: &str,
) -> String {
    let Some(measure) = measure::find(name) else { return String::new() };
    let estimates: Vec<_> =
        series.iter().filter_map(|series| Some((*series, series.estimate(measure)?))).collect();
    let complete = estimates.iter().filter(|(series, _)| series.n_failed() == 0.0);
    let least = complete.map(|(_, about)| about.mean).reduce(f64::min);
    let bar = |&(series, Estimate { mean, margin }): &(&Series, Estimate)| {
        let name = series.policy.name;
        // Work that was not done took no time, so there is nothing to compare.
        failures(series).map_or_else(
            || {
                let label = span_about(mean, margin);
                Bar { name, value: mean, margin, label, is_best: Some(mean) == least }
            },
            |label| Bar { name, value: 0.0, margin: None, label, is_best: false },
        )
    };
    let bars: Vec<Bar<'_>> = estimates.iter().map(bar).collect();
    format!("<h2>{heading}</h2>\n{}", plot::bars(&bars, mark, caption))
}

/// The name of a policy, and how many requests failed with it.
fn with_failures(series: &Series) -> String {
    let name = series.policy.name;
    failures(series).map_or_else(|| name.to_owned(), |failures| format!("{name} ({failures})"))
}

/// Responses by percentile, stretched towards the end: each step covers a tenth of what is left.
fn responses(series: &[&Series]) -> String {
    let nines = |share: f64| -(1.0 - share).log10();
    let line = |series: &&Series| {
        let shares =
            measure::shares().take_while(|share| *share < 10_000).map(|share| f64::from(share) / 1e4);
        Line { name: with_failures(series), points: shares.map(nines).zip(series.responses()).collect() }
    };
    let lines: Vec<Line> = series.iter().map(line).filter(|line| !line.points.is_empty()).collect();
    if lines.is_empty() {
        return String::new();
    }
    let ticks =
        [(0.0, "0 %"), (0.5, "50 %"), (0.9, "90 %"), (0.99, "99 %"), (0.999, "99.9 %"), (0.9999, "99.99 %")];
    let ticks = ticks.map(|(share, label)| (nines(share), label.to_owned())).to_vec();
    let chart = plot::lines(
        &lines,
        &ticks,
        true,
        round_span,
        "How long requests took from arrival to completion: this share of them took at most so long. Both axes are logarithmic.",
    );
    format!("<h2>All responses</h2>\n{chart}")
}

fn over_time(report: &Report<'_>, series: &[&Series]) -> String {
    let kept: Vec<(&Series, &Timeline)> =
        series.iter().filter_map(|series| Some((*series, &series.servers()?.timeline))).collect();
    let Some(scenario) = report.points.first().map(|point| &point.scenario) else { return String::new() };
    if kept.is_empty() {
        return String::new();
    }
    let names = scenario.servers();
    let slots = scenario.slots();
    let servers = 0..names.len() as u32;
    let makespan = measure::find("makespan");
    let end = |series: &Series| {
        makespan.and_then(|makespan| series.runs.first()?.1.measure(makespan)).unwrap_or(0.0)
    };
    let longest = kept.iter().map(|(series, _)| end(series)).fold(0.0, f64::max);
    let heat = |rows: fn(&Timeline, u32, f64) -> Vec<f64>| -> Vec<Heat<'_>> {
        let rows_of = |timeline: &Timeline| {
            servers.clone().zip(&slots).map(|(server, &slots)| rows(timeline, server, slots.into())).collect()
        };
        kept.iter()
            .map(|(series, timeline)| Heat {
                name: series.policy.name,
                label: failures(series).unwrap_or_else(|| span(end(series))),
                rows: rows_of(timeline),
                // The share of the longest run that a column covers.
                step: timeline.bin_ns() as f64 / 1e9 / longest,
            })
            .collect()
    };
    let busy = heat(|timeline, server, slots| timeline.busy(server).map(|busy| busy / slots).collect());
    let load = heat(|timeline, server, _| timeline.load(server).collect());
    let most = load.iter().flat_map(|heat| heat.rows.iter().flatten()).copied().fold(0.0, f64::max);
    let ends = (names.first().map_or("", String::as_str), names.last().map_or("", String::as_str));
    let until = span(longest);
    format!(
        "<h2>Load over time</h2>\n{}<h2>Utilisation over time</h2>\n{}",
        plot::heats(
            &load,
            most,
            ends,
            &until,
            &format!(
                "Bytes that wait at each server or are on their way from it, a row a server, in the first repetition, until its end (beside the name); the strongest colour is {}.",
                size(most)
            ),
        ),
        plot::heats(
            &busy,
            1.0,
            ends,
            &until,
            "How many of its slots each server has taken; the strongest colour is all of them."
        )
    )
}

/// What the swept keys change, policy by policy.
fn sweeps(report: &Report<'_>) -> String {
    let labels: Vec<String> = report
        .points
        .iter()
        .map(|point| point.sets.iter().map(|set| set.value.as_str()).collect::<Vec<_>>().join(" · "))
        .collect();
    let positions = positions(&labels);
    // No more labels than fit.
    let every = labels.len().div_ceil(9);
    let ticks: Vec<(f64, String)> = positions.iter().copied().zip(labels).step_by(every).collect();
    let keys = report.swept.iter().map(|key| last(key)).collect::<Vec<_>>().join(" · ");
    let mut text = String::new();
    for (name, heading) in [("makespan", "Makespan"), ("mean", "Mean response"), ("p99", "p99 of responses")]
    {
        let Some(measure) = measure::find(name) else { continue };
        let lines = swept_lines(report, measure, &positions);
        let chart = plot::lines(
            &lines,
            &ticks,
            false,
            round_span,
            &format!("{heading}, on average, at each value of {}.", report.swept.join(" and ")),
        );
        let _ = write!(text, "<h2>{heading} by {}</h2>\n{chart}", html::escaped(&keys));
    }
    text
}

fn swept_lines(report: &Report<'_>, measure: &Measure, positions: &[f64]) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    for series in &report.series {
        // If some requests failed, no point is drawn: the policy would look fast.
        let Some(about) = series.estimate(measure).filter(|_| series.n_failed() == 0.0) else { continue };
        let point = (positions[series.point], about.mean);
        match lines.iter_mut().find(|line| line.name == series.policy.name) {
            Some(line) => line.points.push(point),
            None => lines.push(Line { name: series.policy.name.to_owned(), points: vec![point] }),
        }
    }
    lines
}

/// The x positions of the points of a sweep: their values if they have one unit, else one after another.
fn positions(labels: &[String]) -> Vec<f64> {
    let unit = |label: &str| label.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.').to_owned();
    let units: Vec<String> = labels.iter().map(|label| unit(label)).collect();
    let numbers: Option<Vec<f64>> = labels
        .iter()
        .zip(&units)
        .map(|(label, unit)| label[..label.len() - unit.len()].parse().ok())
        .collect();
    match numbers {
        Some(numbers) if units.iter().all(|unit| *unit == units[0]) => numbers,
        _ => (0..labels.len()).map(|k| k as f64).collect(),
    }
}

fn figures(report: &Report<'_>) -> String {
    let measures = report.measures();
    let rows = report.rows(&measures);
    let Some((header, rows)) = rows.split_first() else { return String::new() };
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    let rows: Vec<(bool, Vec<String>)> = rows.iter().map(|row| (false, row.clone())).collect();
    let mut text = format!("<h2>All figures</h2>\n{}<ul class=\"soft\">\n", html::table(&header, &rows));
    for measure in measures {
        let _ = writeln!(text, "<li><b>{}</b>: {}</li>", super::report::title(measure), measure.summary);
    }
    text + "</ul>\n"
}
