//! Horizontal bars.

use std::fmt::Write as _;

use super::chart;
use super::labels::{distinct, text_width};
use crate::html::escaped;

/// A bar of a chart.
pub(crate) struct Bar<'a> {
    pub(crate) name: &'a str,
    pub(crate) value: f64,
    /// The margin of error, drawn across its end.
    pub(crate) margin: Option<f64>,
    /// The text after the bar.
    pub(crate) label: String,
    /// Whether it is drawn as the best.
    pub(crate) is_best: bool,
}

const WIDTH: f64 = 900.0;
const ROW: f64 = 26.0;
const TOP: f64 = 26.0;
const LEAST_LEFT: f64 = 130.0;
const MOST_NAME_CHARS: usize = 40;

/// Horizontal bars, with a dashed line at `mark`.
pub(crate) fn bars(bars: &[Bar<'_>], mark: Option<(f64, &str)>, caption: &str) -> String {
    let names = distinct(&bars.iter().map(|bar| bar.name).collect::<Vec<_>>(), MOST_NAME_CHARS);
    let left = names.iter().map(|name| 20.0 + text_width(name)).fold(LEAST_LEFT, f64::max);
    let right = 24.0 + bars.iter().map(|bar| text_width(&bar.label)).fold(0.0, f64::max);
    let full = bars.iter().map(Bar::reach).fold(mark.map_or(0.0, |(mark, _)| mark), f64::max);
    let scale = if full > 0.0 { (WIDTH - left - right).max(200.0) / full } else { 0.0 };
    let place = Place { left, scale };
    let height = TOP + ROW * bars.len() as f64 + 6.0;
    let mut svg = String::new();
    for (k, (bar, name)) in bars.iter().zip(&names).enumerate() {
        bar.draw(TOP + ROW * k as f64, name, place, &mut svg);
    }
    if let Some((mark, label)) = mark {
        draw_mark(left + mark * scale, label, height, &mut svg);
    }
    // Drawn above the dashed line, which may run through them.
    for (k, bar) in bars.iter().enumerate() {
        let (x, y) = (left + (bar.reach() * scale).max(1.0) + 8.0, TOP + ROW * k as f64 + 17.0);
        let _ = writeln!(svg, "<text class=\"value\" x=\"{x:.1}\" y=\"{y}\">{}</text>", escaped(&bar.label));
    }
    chart(WIDTH, height, &svg, caption)
}

/// Where bars begin, and how long they are.
#[derive(Clone, Copy)]
struct Place {
    left: f64,
    scale: f64,
}

impl Bar<'_> {
    /// How far it reaches, including its margin.
    fn reach(&self) -> f64 {
        self.value + self.margin.unwrap_or(0.0)
    }

    fn draw(&self, y: f64, name: &str, Place { left, scale }: Place, svg: &mut String) {
        let length = (self.value * scale).max(1.0);
        let class = if self.is_best { "best" } else { "bar" };
        let full_name =
            if name == self.name { String::new() } else { format!("<title>{}</title>", escaped(self.name)) };
        let _ = writeln!(
            svg,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}{full_name}</text><rect class=\"{class}\" x=\"{left}\" y=\"{}\" \
             width=\"{length:.1}\" height=\"{}\" rx=\"2\"/>",
            left - 8.0,
            y + 17.0,
            escaped(name),
            y + 4.0,
            ROW - 8.0,
        );
        if let Some(margin) = self.margin.filter(|margin| margin * scale > 0.5) {
            let (from, to) = (left + (self.value - margin).max(0.0) * scale, left + self.reach() * scale);
            let (middle, top, bottom) = (y + ROW / 2.0, y + ROW / 2.0 - 4.0, y + ROW / 2.0 + 4.0);
            let _ = writeln!(
                svg,
                "<path class=\"whisker\" d=\"M{from:.1},{middle}H{to:.1}M{from:.1},{top}V{bottom}M{to:.1},{top}V{bottom}\"/>"
            );
        }
    }
}

fn draw_mark(x: f64, label: &str, height: f64, svg: &mut String) {
    let half = text_width(label) / 2.0;
    let _ = writeln!(
        svg,
        "<line class=\"mark\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{}\" y2=\"{}\"/><text class=\"marked\" x=\"{:.1}\" y=\"14\" \
         text-anchor=\"middle\">{}</text>",
        TOP - 6.0,
        height - 2.0,
        x.clamp(half, (WIDTH - half).max(half)),
        escaped(label)
    );
}
