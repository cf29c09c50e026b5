//! Self-contained HTML pages: one file, no script, no network; for light and dark themes, wide and narrow screens.

mod bars;
mod labels;

use std::fmt::Write as _;

pub(crate) use bars::{Bar, bars};
use labels::{shortened, text_width};

/// Escapes text for HTML.
pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// A page with this title; the body is HTML.
pub(crate) fn page(title: &str, body: &str) -> String {
    page_with("", title, body)
}

/// The same with more in its head, such as styles.
pub(crate) fn page_with(head: &str, title: &str, body: &str) -> String {
    let title = escaped(title);
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{title}</title>\n\
         <style>\n{STYLE}</style>\n{head}</head>\n<body>\n<main>\n<h1>{title}</h1>\n{body}</main>\n</body>\n</html>\n"
    )
}

const STYLE: &str = "\
:root { color-scheme: light dark; --ink: #1c2430; --soft: #5b6675; --line: #d8dee6; --paper: #ffffff; --card: #f6f8fa;
  --bar: #3b7dd8; --best: #2a9d63; --mark: #c2410c; --c0: #3b7dd8; --c1: #d9822b; --c2: #2a9d63; --c3: #b5467f; --c4: #7a5bd0;
  --c5: #8a6d1f; --c6: #1795a3; --c7: #d64545; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6eaf0; --soft: #9aa6b5; --line: #323c49; --paper: #12171e;
  --card: #1a212a; --bar: #6ba4f0; --best: #4cc38a; --mark: #fb923c; --c0: #6ba4f0; --c1: #f5a85a; --c2: #4cc38a; --c3: #ec83b7;
  --c4: #a78bfa; --c5: #d6b656; --c6: #4fd1dd; --c7: #ff8080; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }
main { max-width: 68rem; margin: 0 auto; padding: 1.5rem 1rem 4rem; }
h1 { font-size: 1.6rem; line-height: 1.2; } h2 { font-size: 1.15rem; margin: 2rem 0 .5rem; }
body { overflow-wrap: anywhere; } p { max-width: 46rem; } .soft { color: var(--soft); }
.wide { overflow-x: auto; border: 1px solid var(--line); border-radius: 8px; background: var(--card); }
table { border-collapse: collapse; width: 100%; font-size: .93rem; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .7rem; text-align: right; white-space: nowrap; border-bottom: 1px solid var(--line); }
th:first-child, td:first-child { text-align: left; position: sticky; left: 0; background: var(--card); }
tr:last-child td { border-bottom: 0; } thead th { color: var(--soft); font-weight: 600; }
tr.best td { color: var(--best); font-weight: 600; }
svg { display: block; width: 100%; height: auto; } svg text { fill: var(--ink); font: 13px system-ui, sans-serif; }
svg .soft { fill: var(--soft); } svg .value { fill: var(--soft); stroke: var(--card); stroke-width: 5px; paint-order: stroke; }
svg .bar { fill: var(--bar); } svg .best { fill: var(--best); }
svg .mark { stroke: var(--mark); stroke-width: 2; stroke-dasharray: 5 4; } svg .marked { fill: var(--mark); }
.grid { display: grid; grid-template-columns: repeat(auto-fill, minmax(12rem, 1fr)); gap: .8rem; }
.card { border: 1px solid var(--line); border-radius: 8px; background: var(--card); padding: .6rem .8rem; }
.card svg { margin-top: .4rem; }
.chart { border: 1px solid var(--line); border-radius: 8px; background: var(--card); padding: .8rem; overflow-x: auto; }
.chart svg { min-width: 34rem; }
svg .grid-line { stroke: var(--line); } svg .whisker { stroke: var(--ink); stroke-width: 1.5; }
svg .line { fill: none; stroke-width: 2.2; stroke-linejoin: round; } svg .heat { fill: var(--bar); }
.key { display: flex; flex-wrap: wrap; gap: .2rem 1.1rem; margin-bottom: .5rem; font-size: .93rem; }
.key i { display: inline-block; width: 1.1rem; height: .25rem; border-radius: 2px; margin-right: .4rem; vertical-align: middle; }
.heats { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(19rem, 100%), 1fr)); gap: .8rem; }
.ends { display: flex; justify-content: space-between; font-size: .8rem; color: var(--soft); }
figure { margin: 0; } figcaption { color: var(--soft); font-size: .9rem; margin-top: .4rem; }
";

/// A table. Rows with the flag set are highlighted.
pub(crate) fn table(header: &[&str], rows: &[(bool, Vec<String>)]) -> String {
    let mut text = String::from("<div class=\"wide\"><table>\n<thead><tr>");
    header.iter().for_each(|name| {
        let _ = write!(text, "<th scope=\"col\">{}</th>", escaped(name));
    });
    text.push_str("</tr></thead>\n<tbody>\n");
    for (is_best, cells) in rows {
        text.push_str(if *is_best { "<tr class=\"best\">" } else { "<tr>" });
        cells.iter().for_each(|cell| {
            let _ = write!(text, "<td>{}</td>", escaped(cell));
        });
        text.push_str("</tr>\n");
    }
    text.push_str("</tbody>\n</table></div>\n");
    text
}

/// A small chart among others of the same scale.
pub(crate) struct Area<'a> {
    pub(crate) name: &'a str,
    /// The text beside the name.
    pub(crate) label: String,
    /// From left to right.
    pub(crate) values: Vec<f64>,
}

/// Many small charts side by side, with a dashed line at `mark` in each.
pub(crate) fn areas(areas: &[Area<'_>], mark: f64, caption: &str) -> String {
    const WIDTH: f64 = 200.0;
    const HEIGHT: f64 = 80.0;
    let top = areas.iter().flat_map(|area| &area.values).copied().fold(mark, f64::max);
    let y = |value: f64| HEIGHT - if top > 0.0 { value / top * (HEIGHT - 2.0) } else { 0.0 };
    let mut text = String::from("<figure><div class=\"grid\">\n");
    for area in areas {
        let step = WIDTH / area.values.len().max(1) as f64;
        let mut path = format!("M0,{HEIGHT}");
        for (k, &value) in area.values.iter().enumerate() {
            let _ = write!(path, "V{:.1}H{:.1}", y(value), (k + 1) as f64 * step);
        }
        let _ = writeln!(
            text,
            "<div class=\"card\"><b>{}</b> <span class=\"soft\">{}</span><svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" \
             aria-label=\"{0}: {1}\"><path class=\"bar\" d=\"{path}V{HEIGHT}Z\"/><line class=\"mark\" x1=\"0\" x2=\"{WIDTH}\" \
             y1=\"{2:.1}\" y2=\"{2:.1}\"/></svg></div>",
            escaped(area.name),
            escaped(&area.label),
            y(mark),
        );
    }
    let _ = writeln!(text, "</div><figcaption>{}</figcaption></figure>", escaped(caption));
    text
}

/// A line of a chart.
pub(crate) struct Line {
    pub(crate) name: String,
    /// From left to right.
    pub(crate) points: Vec<(f64, f64)>,
}

/// How values are drawn and written.
#[derive(Clone, Copy)]
pub(crate) struct Axis {
    is_log: bool,
    label: fn(f64) -> String,
}

impl Axis {
    /// A linear scale from 0.
    pub(crate) fn from_zero(label: fn(f64) -> String) -> Self {
        Self { is_log: false, label }
    }

    /// A logarithmic scale.
    pub(crate) fn log(label: fn(f64) -> String) -> Self {
        Self { is_log: true, label }
    }

    /// Where to draw grid lines: a few round values around this range.
    fn ticks(&self, least: f64, most: f64) -> Vec<f64> {
        if self.is_log {
            let (from, to) = (least.log10().floor() as i32, most.log10().ceil() as i32);
            let decades = (from..=to).map(|power| 10_f64.powi(power));
            // If there are few orders of magnitude, also some values between them.
            let steps: &[f64] = if to - from <= 2 { &[1.0, 2.0, 5.0] } else { &[1.0] };
            let all: Vec<f64> =
                decades.flat_map(|decade| steps.iter().map(move |step| step * decade)).collect();
            let first = all.iter().rposition(|tick| *tick <= least).unwrap_or(0);
            let last = all.iter().position(|tick| *tick >= most).unwrap_or(all.len() - 1);
            return all[first..=last.max(first)].to_vec();
        }
        let rough = most.max(1e-12) / 4.0;
        let decade = 10_f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0]
            .map(|n| n * decade)
            .into_iter()
            .find(|step| *step >= rough)
            .unwrap_or(rough);
        (0..=(most / step).ceil() as u32).map(|k| f64::from(k) * step).collect()
    }

    fn place(&self, value: f64) -> f64 {
        if self.is_log { value.log10() } else { value }
    }
}

/// Lines over a common axis with these ticks.
pub(crate) fn lines(lines: &[Line], ticks: &[(f64, String)], axis: Axis, caption: &str) -> String {
    const WIDTH: f64 = 900.0;
    const HEIGHT: f64 = 320.0;
    const LEFT: f64 = 76.0;
    const BOTTOM: f64 = 28.0;
    const MOST_TICK_CHARS: usize = 32;
    let values = || {
        lines.iter().flat_map(|line| &line.points).map(|point| point.1).filter(|y| !axis.is_log || *y > 0.0)
    };
    let (least, most) =
        values().fold((f64::INFINITY, 0.0), |(least, most), y| (f64::min(least, y), f64::max(most, y)));
    if !least.is_finite() {
        return String::new();
    }
    let y_ticks = axis.ticks(least, most);
    let (bottom, top) = (axis.place(y_ticks[0]), axis.place(y_ticks[y_ticks.len() - 1]));
    let of_lines = lines.iter().flat_map(|line| &line.points).map(|point| point.0);
    let (left, right) = of_lines
        .chain(ticks.iter().map(|tick| tick.0))
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(left, right), x| (left.min(x), right.max(x)));
    let share = |value: f64, from: f64, to: f64| if to > from { (value - from) / (to - from) } else { 0.5 };
    let x = |value: f64| LEFT + share(value, left, right) * (WIDTH - LEFT - 30.0);
    let y = |value: f64| 10.0 + (1.0 - share(axis.place(value), bottom, top)) * (HEIGHT - BOTTOM - 10.0);
    let mut svg = String::new();
    for &tick in &y_ticks {
        let at = y(tick);
        let _ = writeln!(
            svg,
            "<line class=\"grid-line\" x1=\"{LEFT}\" x2=\"{}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/><text class=\"soft\" x=\"{}\" \
             y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            WIDTH - 30.0,
            LEFT - 8.0,
            at + 4.0,
            (axis.label)(tick)
        );
    }
    let mut last_label_end = f64::NEG_INFINITY;
    for (tick, label) in ticks {
        let at = x(*tick);
        let _ = writeln!(
            svg,
            "<line class=\"grid-line\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"10\" y2=\"{}\"/>",
            HEIGHT - BOTTOM
        );
        let label = shortened(label, MOST_TICK_CHARS);
        let half = text_width(&label) / 2.0;
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
            escaped(&label)
        );
    }
    let mut key = String::from("<div class=\"key\">");
    for (k, line) in lines.iter().enumerate() {
        let colour = k % N_COLOURS;
        let points = line.points.iter().filter(|point| !axis.is_log || point.1 > 0.0);
        let points: Vec<String> =
            points.map(|point| format!("{:.1},{:.1}", x(point.0), y(point.1))).collect();
        // Once all colours are used, lines are dashed.
        let dash = if k < N_COLOURS { "" } else { " stroke-dasharray=\"6 4\"" };
        let _ = writeln!(
            svg,
            "<polyline class=\"line\" stroke=\"var(--c{colour})\"{dash} points=\"{}\"/>",
            points.join(" ")
        );
        if line.points.len() <= 20 {
            for point in points {
                let (cx, cy) = point.split_once(',').unwrap_or_default();
                let _ =
                    writeln!(svg, "<circle cx=\"{cx}\" cy=\"{cy}\" r=\"3.5\" fill=\"var(--c{colour})\"/>");
            }
        }
        let _ =
            write!(key, "<span><i style=\"background: var(--c{colour})\"></i>{}</span>", escaped(&line.name));
    }
    key.push_str("</div>\n");
    key + &figure(WIDTH, HEIGHT, &svg, caption)
}

const N_COLOURS: usize = 8;

/// Rows of values over time.
pub(crate) struct Heat<'a> {
    pub(crate) name: &'a str,
    /// The text beside the name.
    pub(crate) label: String,
    pub(crate) rows: Vec<Vec<f64>>,
    /// The share of the width that a value takes.
    pub(crate) step: f64,
}

/// Heat maps side by side: the stronger the colour, the closer to `most`. `ends` names the first and the last row.
pub(crate) fn heats(heats: &[Heat<'_>], most: f64, ends: (&str, &str), until: &str, caption: &str) -> String {
    const WIDTH: f64 = 320.0;
    const HEIGHT: f64 = 200.0;
    const LEVELS: usize = 8;
    const MOST_ROWS: usize = 128;
    let mut text = String::from("<figure><div class=\"heats\">\n");
    for heat in heats {
        // If there are very many rows, only some are drawn.
        let every = heat.rows.len().div_ceil(MOST_ROWS).max(1);
        let rows: Vec<&Vec<f64>> = heat.rows.iter().step_by(every).collect();
        let (step, height) = (heat.step * WIDTH, HEIGHT / rows.len().max(1) as f64);
        let mut paths = vec![String::new(); LEVELS + 1];
        for (k, row) in rows.iter().enumerate() {
            // By the square root, so that small values are still visible.
            let level = |value: &f64| {
                if most > 0.0 { ((value / most).sqrt() * LEVELS as f64).ceil() as usize } else { 0 }
            };
            let levels: Vec<usize> = row.iter().map(|value| level(value).min(LEVELS)).collect();
            let mut from = 0;
            for run in levels.chunk_by(|a, b| a == b) {
                let (x, width) = (from as f64 * step, run.len() as f64 * step);
                from += run.len();
                let width = width.min(WIDTH - x);
                if width > 0.0 {
                    let _ = write!(
                        paths[run[0]],
                        "M{x:.1},{:.1}h{width:.1}v{height:.2}h-{width:.1}z",
                        k as f64 * height
                    );
                }
            }
        }
        let _ = writeln!(
            text,
            "<div class=\"card\"><b>{}</b> <span class=\"soft\">{}</span><svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" \
             aria-label=\"{0}\" shape-rendering=\"crispEdges\">",
            escaped(heat.name),
            escaped(&heat.label)
        );
        for (level, path) in paths.iter().enumerate().skip(1).filter(|(_, path)| !path.is_empty()) {
            let opacity = level as f64 / LEVELS as f64;
            let _ = writeln!(text, "<path class=\"heat\" fill-opacity=\"{opacity:.3}\" d=\"{path}\"/>");
        }
        let _ = writeln!(
            text,
            "</svg><div class=\"ends\"><span>0</span><span>top: {} · bottom: {}</span><span>{}</span></div></div>",
            escaped(ends.0),
            escaped(ends.1),
            escaped(until)
        );
    }
    let _ = writeln!(text, "</div><figcaption>{}</figcaption></figure>", escaped(caption));
    text
}

fn figure(width: f64, height: f64, svg: &str, caption: &str) -> String {
    format!(
        "<figure><div class=\"chart\"><svg viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{0}\">\n{svg}</svg></div>\
         <figcaption>{0}</figcaption></figure>\n",
        escaped(caption)
    )
}
