//! The page of a replay.

use std::fmt::Write as _;

use super::story::{Server, Story};
use super::{HEADER, outline, received, rows};
use crate::html::{self, escaped};
use crate::plot::{self, Bar, Line};
use crate::text::{count, round_size, size, span};

/// Servers with a line of their own. The others share one.
const MOST_LINES: usize = 12;
const MOST_BARS: usize = 64;

pub(super) fn page(story: &Story) -> String {
    let mut body = String::from("<p>");
    for (name, value) in outline(story) {
        let _ = write!(body, "<span class=\"soft\">{}</span> {}<br>", escaped(name), escaped(&value));
    }
    body.push_str("</p>\n");
    let _ = write!(body, "<h2>Received from each server</h2>\n{}", over_time(story));
    let _ = write!(body, "<h2>The plan and the truth</h2>\n{}{}", plan_and_truth(story), shares(story));
    let rows: Vec<(bool, Vec<String>)> = rows(story).map(|row| (false, row)).collect();
    let _ = write!(body, "<h2>Servers</h2>\n{}", html::table(&HEADER, &rows));
    body.push_str(&incidents(story));
    html::page(&format!("{} in {}", size(received(story) as f64), span(story.end)), &body)
}

fn over_time(story: &Story) -> String {
    let mut servers: Vec<&Server> = story.servers.iter().collect();
    servers.sort_by_key(|server| std::cmp::Reverse(server.bytes));
    let n_alone = if servers.len() > MOST_LINES + 1 { MOST_LINES } else { servers.len() };
    let line = |server: &&Server| Line { name: server.name.clone(), points: server.received.sums(story.end) };
    let mut lines: Vec<Line> = servers[..n_alone].iter().map(line).collect();
    // In the order in which the servers were given.
    let place = |line: &Line| story.servers.iter().position(|server| server.name == line.name);
    lines.sort_by_key(place);
    if n_alone < servers.len() {
        let name = format!("the other {} servers", servers.len() - n_alone);
        lines.push(Line { name, points: sums(&servers[n_alone..], story.end) });
    }
    plot::lines(
        &lines,
        &plot::times(story.end),
        false,
        round_size,
        "Bytes that each server had sent by each time.",
    )
}

/// What several servers had sent together.
fn sums(servers: &[&Server], end: f64) -> Vec<(f64, f64)> {
    // Bins differ in width between servers, so each is looked up at common times.
    const N_POINTS: u32 = 256;
    let all: Vec<Vec<(f64, f64)>> = servers.iter().map(|server| server.received.sums(end)).collect();
    let by = |points: &[(f64, f64)], at: f64| {
        let next = points.partition_point(|point| point.0 < at);
        match (next.checked_sub(1).map(|k| points[k]), points.get(next)) {
            (Some(a), Some(b)) if b.0 > a.0 => a.1 + (b.1 - a.1) * (at - a.0) / (b.0 - a.0),
            (_, Some(b)) => b.1,
            (Some(a), None) => a.1,
            (None, None) => 0.0,
        }
    };
    let at = |k: u32| end * f64::from(k) / f64::from(N_POINTS);
    (0..=N_POINTS).map(|k| (at(k), all.iter().map(|points| by(points, at(k))).sum())).collect()
}

fn plan_and_truth(story: &Story) -> String {
    let servers: Vec<&Server> = story.servers.iter().collect();
    let mut lines = vec![Line { name: "received".to_owned(), points: sums(&servers, story.end) }];
    let mut end = story.end;
    if let Some(plan) = story.plans.first() {
        let ends = (0..story.servers.len()).filter_map(|server| plan.end_of(server));
        // A plan that was hopeless is not drawn to its end.
        end = ends.fold(end, f64::max).min(story.end * 2.0);
        let at = |k: u32| plan.at + (end - plan.at).max(0.0) * f64::from(k) / 256.0;
        let points: Option<Vec<(f64, f64)>> =
            (0..=256).map(|k| Some((at(k), plan.received_by(at(k))?))).collect();
        lines.extend(points.map(|points| Line { name: "by the first plan".to_owned(), points }));
    }
    let caption = if lines.len() > 1 {
        "All servers together: what was received, and what the first plan expected."
    } else {
        "All servers together. This policy plans nothing: it picks a server when one is free."
    };
    plot::lines(&lines, &plot::times(end), false, round_size, caption)
}

/// What servers sent, as a share of what the first plan had for them.
fn shares(story: &Story) -> String {
    let Some(plan) = story.plans.first() else { return String::new() };
    let bar = |(number, server): (usize, &'_ Server)| {
        let planned = plan.share_of(number).1? as f64;
        let (before, bytes) = (server.received.sums(plan.at).last().map_or(0.0, |last| last.1), server.bytes);
        let sent = (bytes as f64 - before).max(0.0);
        let value = if planned > 0.0 { sent / planned } else { 0.0 };
        let label = format!("{} of {}", size(sent.round()), size(planned));
        Some((server.name.clone(), value, label))
    };
    let all: Vec<(String, f64, String)> =
        story.servers.iter().enumerate().filter_map(bar).take(MOST_BARS).collect();
    if all.is_empty() {
        return String::new();
    }
    let bars: Vec<Bar<'_>> = all
        .iter()
        .map(|(name, value, label)| Bar {
            name,
            // One that took over from others may have sent many times its share.
            value: value.min(4.0),
            margin: None,
            label: label.clone(),
            is_best: false,
        })
        .collect();
    plot::bars(
        &bars,
        Some((1.0, "as planned")),
        "What each server sent after the first plan, of its share in that plan.",
    )
}

fn incidents(story: &Story) -> String {
    if story.incidents.is_empty() {
        return "<h2>Incidents</h2>\n<p>None.</p>\n".to_owned();
    }
    let rows: Vec<(bool, Vec<String>)> =
        story.incidents.iter().map(|(at, what)| (false, vec![span(*at), what.clone()])).collect();
    let more = story.n_incidents - story.incidents.len() as u64;
    let more = if more > 0 { format!("<p>and {} more.</p>\n", count(more)) } else { String::new() };
    format!("<h2>Incidents</h2>\n{}{more}", html::table(&["at", "what"], &rows))
}
