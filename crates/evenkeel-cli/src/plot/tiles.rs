//! Small charts of one scale, side by side.

use std::fmt::Write as _;

use crate::html::escaped;

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
