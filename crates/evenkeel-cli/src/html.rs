//! Self-contained HTML pages: one file, no script, no network; light and dark, wide and narrow.

use std::fmt::Write as _;

/// Text as it can stand in HTML.
pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// A page with that title; the body is HTML.
pub(crate) fn page(title: &str, body: &str) -> String {
    let title = escaped(title);
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{title}</title>\n\
         <style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n{body}</main>\n</body>\n</html>\n"
    )
}

const STYLE: &str = "\
:root { color-scheme: light dark; --ink: #1c2430; --soft: #5b6675; --line: #d8dee6; --paper: #ffffff; --card: #f6f8fa;
  --bar: #3b7dd8; --best: #2a9d63; --mark: #c2410c; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6eaf0; --soft: #9aa6b5; --line: #323c49; --paper: #12171e;
  --card: #1a212a; --bar: #6ba4f0; --best: #4cc38a; --mark: #fb923c; } }
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
svg .soft { fill: var(--soft); } svg .bar { fill: var(--bar); } svg .best { fill: var(--best); }
svg .mark { stroke: var(--mark); stroke-width: 2; stroke-dasharray: 5 4; } svg .marked { fill: var(--mark); }
.grid { display: grid; grid-template-columns: repeat(auto-fill, minmax(12rem, 1fr)); gap: .8rem; }
.card { border: 1px solid var(--line); border-radius: 8px; background: var(--card); padding: .6rem .8rem; }
.card svg { margin-top: .4rem; }
.chart { border: 1px solid var(--line); border-radius: 8px; background: var(--card); padding: .8rem; overflow-x: auto; }
.chart svg { min-width: 34rem; }
figure { margin: 0; } figcaption { color: var(--soft); font-size: .9rem; margin-top: .4rem; }
";

/// A table; rows of which the flag is set stand out.
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

/// A bar of a chart.
pub(crate) struct Bar<'a> {
    pub(crate) name: &'a str,
    pub(crate) value: f64,
    /// What stands behind it.
    pub(crate) label: String,
    /// Drawn as the best.
    pub(crate) is_best: bool,
}

/// Horizontal bars with a dashed line at `mark`.
pub(crate) fn bars(bars: &[Bar<'_>], (mark, mark_label): (f64, &str), caption: &str) -> String {
    const WIDTH: f64 = 900.0;
    const LEFT: f64 = 130.0;
    const ROW: f64 = 26.0;
    const TOP: f64 = 26.0;
    // Room for the longest label, at about so much a character.
    let right = 24.0 + 7.5 * bars.iter().map(|bar| bar.label.chars().count()).max().unwrap_or(0) as f64;
    let full = bars.iter().map(|bar| bar.value).fold(mark, f64::max);
    let scale = if full > 0.0 { (WIDTH - LEFT - right).max(200.0) / full } else { 0.0 };
    let height = TOP + ROW * bars.len() as f64 + 6.0;
    let mut svg = String::new();
    for (k, bar) in bars.iter().enumerate() {
        let (y, length) = (TOP + ROW * k as f64, (bar.value * scale).max(1.0));
        let class = if bar.is_best { "best" } else { "bar" };
        let _ = writeln!(
            svg,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text><rect class=\"{class}\" x=\"{LEFT}\" y=\"{}\" width=\"{length:.1}\" \
             height=\"{}\" rx=\"2\"/><text class=\"soft\" x=\"{:.1}\" y=\"{}\">{}</text>",
            LEFT - 8.0,
            y + 17.0,
            escaped(bar.name),
            y + 4.0,
            ROW - 8.0,
            LEFT + length + 8.0,
            y + 17.0,
            escaped(&bar.label),
        );
    }
    let x = LEFT + mark * scale;
    let _ = writeln!(
        svg,
        "<line class=\"mark\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{}\" y2=\"{}\"/><text class=\"marked\" x=\"{x:.1}\" y=\"14\" \
         text-anchor=\"middle\">{}</text>",
        TOP - 6.0,
        height - 2.0,
        escaped(mark_label)
    );
    figure(WIDTH, height, &svg, caption)
}

/// A small chart among others of the same scale.
pub(crate) struct Area<'a> {
    pub(crate) name: &'a str,
    /// What stands beside the name.
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

fn figure(width: f64, height: f64, svg: &str, caption: &str) -> String {
    format!(
        "<figure><div class=\"chart\"><svg viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{0}\">\n{svg}</svg></div>\
         <figcaption>{0}</figcaption></figure>\n",
        escaped(caption)
    )
}
