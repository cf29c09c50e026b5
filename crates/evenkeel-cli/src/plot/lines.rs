//! Lines over the width of the page.

use std::fmt::Write as _;

use super::axis::{Axis, ends, round_step};
use super::chart;
use super::labels::{shortened, text_width};
use crate::html::escaped;
use crate::text::round_span;

/// A line of a chart.
pub(crate) struct Line {
    pub(crate) name: String,
    /// From left to right.
    pub(crate) points: Vec<(f64, f64)>,
}

const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 320.0;
const LEFT: f64 = 76.0;
const RIGHT: f64 = WIDTH - 30.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = HEIGHT - 28.0;
const MOST_TICK_CHARS: usize = 32;
const N_COLOURS: usize = 8;

/// Lines over a common axis with these ticks. Values are drawn from 0, or on a logarithmic scale, and shown by `label`.
pub(crate) fn lines(
    lines: &[Line],
    ticks: &[(f64, String)],
    is_log: bool,
    label: fn(f64) -> String,
    caption: &str,
) -> String {
    let points = || lines.iter().flat_map(|line| &line.points);
    let ys: Vec<f64> = points().map(|point| point.1).filter(|y| !is_log || *y > 0.0).collect();
    let Some((least, most)) = ends(&ys) else { return String::new() };
    let y = Axis::through(round_values(least, most, is_log), is_log, (BOTTOM, TOP));
    let xs = points().map(|point| point.0).chain(ticks.iter().map(|tick| tick.0));
    let x = Axis::through(xs.collect(), false, (LEFT, RIGHT));
    let mut svg = String::new();
    for &tick in &y.ticks {
        let Some(at) = y.place(tick) else { continue };
        let _ = writeln!(
            svg,
            "<line class=\"grid-line\" x1=\"{LEFT}\" x2=\"{RIGHT}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/><text class=\"soft\" x=\"{}\" \
             y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            LEFT - 8.0,
            at + 4.0,
            label(tick)
        );
    }
    let mut last_label_end = f64::NEG_INFINITY;
    for (tick, name) in ticks {
        let Some(at) = x.place(*tick) else { continue };
        let _ = writeln!(
            svg,
            "<line class=\"grid-line\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{TOP}\" y2=\"{BOTTOM}\"/>"
        );
        let name = shortened(name, MOST_TICK_CHARS);
        let half = text_width(&name) / 2.0;
        let middle = at.clamp(half, (WIDTH - half).max(half));
        // A label is left out if there is no room for it; its line stays.
        if middle - half < last_label_end + 8.0 {
            continue;
        }
        last_label_end = middle + half;
        let _ = writeln!(
            svg,
            "<text class=\"soft\" x=\"{middle:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            HEIGHT - 8.0,
            escaped(&name)
        );
    }
    let mut key = String::from("<div class=\"key\">");
    for (k, line) in lines.iter().enumerate() {
        let colour = k % N_COLOURS;
        let places = line.points.iter().filter_map(|&(at, value)| Some((x.place(at)?, y.place(value)?)));
        let places: Vec<(f64, f64)> = places.collect();
        let points: Vec<String> = places.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        // Once all colours are used, lines are dashed.
        let dash = if k < N_COLOURS { "" } else { " stroke-dasharray=\"6 4\"" };
        let _ = writeln!(
            svg,
            "<polyline class=\"line\" stroke=\"var(--c{colour})\"{dash} points=\"{}\"/>",
            points.join(" ")
        );
        if line.points.len() <= 20 {
            for (x, y) in places {
                let _ = writeln!(
                    svg,
                    "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\" fill=\"var(--c{colour})\"/>"
                );
            }
        }
        let _ =
            write!(key, "<span><i style=\"background: var(--c{colour})\"></i>{}</span>", escaped(&line.name));
    }
    key.push_str("</div>\n");
    key + &chart(WIDTH, HEIGHT, &svg, caption)
}

/// A few round points in time from 0 to `end`, in seconds, with their labels.
pub(crate) fn times(end: f64) -> Vec<(f64, String)> {
    let ticks = round_values(0.0, end, false).into_iter().filter(|tick| *tick <= end);
    ticks.map(|tick| (tick, round_span(tick))).collect()
}

/// Where to draw grid lines: a few round values around this range.
fn round_values(least: f64, most: f64, is_log: bool) -> Vec<f64> {
    if is_log {
        let (from, to) = (least.log10().floor() as i32, most.log10().ceil() as i32);
        let decades = (from..=to).map(|power| 10_f64.powi(power));
        // If there are few orders of magnitude, also some values between them.
        let steps: &[f64] = if to - from <= 2 { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let all: Vec<f64> = decades.flat_map(|decade| steps.iter().map(move |step| step * decade)).collect();
        let first = all.iter().rposition(|tick| *tick <= least).unwrap_or(0);
        let last = all.iter().position(|tick| *tick >= most).unwrap_or(all.len() - 1);
        return all[first..=last.max(first)].to_vec();
    }
    let rough = most.max(1e-12) / 4.0;
    let step = round_step(rough, &[1.0, 2.0, 5.0, 10.0], rough);
    (0..=(most / step).ceil() as u32).map(|k| f64::from(k) * step).collect()
}
