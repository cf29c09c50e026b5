//! Plots of the papers' figures as inline SVG: lines with their margins, and the numbers that the paper states.
//!
//! A plot must be readable on a phone and on paper, in light and dark themes, and without colours. A line is identified
//! by its colour and by the shape of its points, and a stated number by a letter that the legend explains.

use std::fmt::Write as _;

use evenkeel_sim::outcome::Estimate;
use evenkeel_sim::papers::{Figure, Line, Stated};

use super::axis::{Axis, ends, is_drawn, is_wide};
use crate::html::escaped;
use crate::text::count;

const WIDTH: f64 = 400.0;
const HEIGHT: f64 = 270.0;
const TOP: f64 = 34.0;
const BOTTOM: f64 = HEIGHT - 42.0;
const RIGHT: f64 = WIDTH - 22.0;
/// Further lines are dashed, and start again with the first colour.
const N_COLOURS: usize = 7;

/// The figure as one `svg` element. Values that are not numbers are not drawn.
pub(crate) fn plot(figure: &Figure) -> String {
    let frame = Frame::new(figure);
    let id = figure.id;
    let mut svg = format!(
        "<svg class=\"plot\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-labelledby=\"{id}-title {id}-text\">\n\
         <title id=\"{id}-title\">{}</title>\n<desc id=\"{id}-text\">{}</desc>\n",
        escaped(&figure.title),
        escaped(&in_words(figure)),
    );
    frame.draw(figure, &mut svg);
    let mut letters = Letters::default();
    for (line, k) in figure.lines.iter().zip(0..) {
        draw_line(&frame, figure, line, k, &mut letters, &mut svg);
    }
    for (stated, k) in figure.stated.iter().zip(0..) {
        draw_stated(&frame, stated, k, &mut letters, &mut svg);
    }
    svg.push_str("</svg>\n");
    svg
}

/// The legend: what the lines and the letters of a plot mean.
pub(crate) fn legend(figure: &Figure) -> String {
    let mut text = String::from("<ul class=\"legend\">\n");
    for (line, k) in figure.lines.iter().zip(0..) {
        let _ = writeln!(
            text,
            "<li><svg class=\"{}\" viewBox=\"0 0 28 12\" aria-hidden=\"true\"><path class=\"curve\" d=\"M0,6H28\"/>{}</svg>{}</li>",
            class(k),
            marker(k, (14.0, 6.0), 4.0, ""),
            escaped(&line.name)
        );
    }
    if !figure.stated.is_empty() {
        text.push_str("</ul>\n<ul class=\"legend told\">\n<li>The paper states</li>\n");
    }
    for (stated, k) in figure.stated.iter().zip(0..) {
        let _ = writeln!(text, "<li><b>{}</b>{}</li>", letter(k), escaped(&told(figure, stated)));
    }
    text.push_str("</ul>\n");
    text
}

/// The data of the plot: one row per x, one column per line.
pub(crate) fn rows(figure: &Figure) -> Vec<Vec<String>> {
    let cell = |line: &Line, x: f64| {
        let found = line.points.iter().find(|point| point.0.total_cmp(&x).is_eq());
        found.map_or_else(|| "–".to_owned(), |(_, estimate)| about(estimate))
    };
    let row = |&x: &f64| {
        let cells = figure.lines.iter().map(|line| cell(line, x));
        std::iter::once(number(x)).chain(cells).collect()
    };
    places(figure).iter().map(row).collect()
}

/// All x values, ascending, each once.
fn places(figure: &Figure) -> Vec<f64> {
    let mut xs: Vec<f64> = figure.lines.iter().flat_map(|line| &line.points).map(|point| point.0).collect();
    xs.sort_by(f64::total_cmp);
    xs.dedup_by(|a, b| a.total_cmp(b).is_eq());
    xs
}

/// A number with the digits that matter: 1,234, 12.35, 0.001235, 1.235e9.
fn number(n: f64) -> String {
    if !n.is_finite() {
        return "–".to_owned();
    }
    let size = n.abs();
    if size != 0.0 && !(1e-4..1e7).contains(&size) {
        let text = format!("{n:.3e}");
        let (digits, power) = text.split_once('e').unwrap_or((&text, "0"));
        return format!("{}e{power}", without_zeros(digits)).replace('-', "−");
    }
    let magnitude = if size < 1.0 { 0 } else { size.log10().floor() as usize };
    let decimals = if size < 0.1 { 6 } else { 3_usize.saturating_sub(magnitude) };
    with_decimals(n, decimals)
}

/// The mean and its margin of error, both with the decimals that give the margin two digits: 1.046 ± 0.012.
fn about(estimate: &Estimate) -> String {
    match estimate.margin.filter(|margin| margin.is_finite() && estimate.mean.is_finite()) {
        Some(margin) if (1e-6..1e7).contains(&margin) && estimate.mean.abs() < 1e12 => {
            let decimals = (1.0 - margin.log10().floor()).max(0.0) as usize;
            format!("{} ± {}", fixed(estimate.mean, decimals), fixed(margin, decimals))
        }
        Some(margin) => format!("{} ± {}", number(estimate.mean), number(margin)),
        None => number(estimate.mean),
    }
}

/// A number with this many decimals and with thousands separators.
fn fixed(n: f64, decimals: usize) -> String {
    let text = format!("{:.decimals$}", n.abs());
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    let sign = if n < 0.0 && text.contains(|digit: char| ('1'..='9').contains(&digit)) { "−" } else { "" };
    format!("{sign}{}{rest}", whole.parse().map_or_else(|_| whole.to_owned(), count))
}

fn with_decimals(n: f64, decimals: usize) -> String {
    without_zeros(&fixed(n, decimals)).to_owned()
}

fn without_zeros(text: &str) -> &str {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text }
}

/// A description for readers who cannot see the plot.
fn in_words(figure: &Figure) -> String {
    let mut text = format!("{} over {}.", figure.y, figure.x);
    for line in &figure.lines {
        let drawn = |point: &&(f64, Estimate)| is_drawn(point.0) && is_drawn(point.1.mean);
        let (first, last) = (line.points.iter().find(drawn), line.points.iter().rev().find(drawn));
        if let (Some(first), Some(last)) = (first, last) {
            let place = |point: &(f64, Estimate)| format!("{} at {}", number(point.1.mean), number(point.0));
            let _ = write!(text, " {}: from {} to {}.", line.name, place(first), place(last));
        }
    }
    for stated in &figure.stated {
        let _ = write!(text, " The paper: {}.", told(figure, stated));
    }
    text
}

/// A stated number in words.
fn told(figure: &Figure, stated: &Stated) -> String {
    let place = stated.x.map(|x| format!(" at {} {}", number(x), figure.x)).unwrap_or_default();
    format!("{}: {}{place}", stated.label, number(stated.y))
}

/// The approximate width of a number, at the font size for narrow screens.
fn width(number: &str) -> f64 {
    number.chars().map(|c| if matches!(c, '.' | ',') { 4.5 } else { 8.6 }).sum()
}

/// The two axes.
struct Frame {
    x: Axis,
    y: Axis,
    left: f64,
}

impl Frame {
    fn new(figure: &Figure) -> Self {
        let xs: Vec<f64> = places(figure).into_iter().filter(|&x| is_drawn(x)).collect();
        let stated_xs = figure.stated.iter().filter_map(|stated| stated.x).filter(|&x| is_drawn(x));
        let y = Axis::upright(&heights(figure), (BOTTOM, TOP));
        let widest = y.ticks.iter().map(|&tick| width(&number(tick))).fold(0.0, f64::max);
        let left = 10.0 + widest;
        // Leaves some room at the sides, so that points do not lie on the frame.
        let x =
            Axis::along(&xs, &stated_xs.collect::<Vec<f64>>(), figure.is_log_x, (left + 10.0, RIGHT - 12.0));
        Self { x, y, left }
    }

    /// The position of a point, if it can be drawn.
    fn place(&self, x: f64, y: f64) -> Option<(f64, f64)> {
        Some((self.x.place(x)?, self.y.place(y)?))
    }

    fn draw(&self, figure: &Figure, svg: &mut String) {
        let left = self.left;
        let unit = if self.y.is_log { " (by factors)" } else { "" };
        let _ = writeln!(
            svg,
            "<text class=\"axis\" x=\"2\" y=\"16\">{}{unit}</text><text class=\"axis\" x=\"{RIGHT}\" y=\"{}\" text-anchor=\"end\">{}</text>",
            escaped(figure.y),
            HEIGHT - 6.0,
            escaped(figure.x),
        );
        for &tick in &self.y.ticks {
            let Some(y) = self.y.place(tick) else { continue };
            let _ = writeln!(
                svg,
                "<path class=\"rule\" d=\"M{left:.1},{y:.1}H{RIGHT}\"/><text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" \
                 text-anchor=\"end\">{}</text>",
                left - 6.0,
                y + 4.0,
                number(tick)
            );
        }
        // From the right, since the last label shows how far the axis goes. A label that would run into the next is
        // left out.
        let mut free_to = f64::INFINITY;
        for &tick in self.x.ticks.iter().rev() {
            let Some(x) = self.x.place(tick) else { continue };
            let (label, y) = (number(tick), BOTTOM + 17.0);
            let half = width(&label) / 2.0;
            let _ = write!(svg, "<path class=\"rule\" d=\"M{x:.1},{BOTTOM}v4\"/>");
            if x + half <= free_to {
                let _ = write!(
                    svg,
                    "<text class=\"tick\" x=\"{x:.1}\" y=\"{y}\" text-anchor=\"middle\">{label}</text>"
                );
                free_to = x - half - 4.0;
            }
        }
        let _ = writeln!(svg, "<path class=\"base\" d=\"M{left:.1},{BOTTOM}H{RIGHT}\"/>");
    }
}

/// All y values that must be in the plot. Wide margins are cut off so that they leave room for the means.
fn heights(figure: &Figure) -> Vec<f64> {
    let estimates = || figure.lines.iter().flat_map(|line| &line.points).map(|point| point.1);
    let means = estimates().map(|estimate| estimate.mean);
    let mut ys: Vec<f64> =
        means.chain(figure.stated.iter().map(|stated| stated.y)).filter(|&y| is_drawn(y)).collect();
    let Some((least, most)) = ends(&ys) else { return ys };
    let room = if most > least { most - least } else { 0.1 * most.abs() };
    let floor = match least {
        _ if is_wide(least, most) => least / 2.0,
        0.0.. => (least - room).max(0.0),
        _ => least - room,
    };
    for Estimate { mean, margin } in estimates() {
        let margin = margin.filter(|&margin| is_drawn(mean) && is_drawn(margin)).unwrap_or(0.0);
        if margin > 0.0 {
            ys.extend([(mean - margin).max(floor), (mean + margin).min(most + room)]);
        }
    }
    ys
}

fn class(k: usize) -> String {
    let dashed = if (k / N_COLOURS).is_multiple_of(2) { "" } else { " dashed" };
    format!("line s{}{dashed}", k % N_COLOURS)
}

fn draw_line(frame: &Frame, figure: &Figure, line: &Line, k: usize, letters: &mut Letters, svg: &mut String) {
    const MANY: usize = 30;
    let radius = if line.points.len() > MANY { 2.0 } else { 4.0 };
    let (mut curve, mut whiskers, mut markers) = (String::new(), String::new(), String::new());
    let mut is_begun = false;
    for (x, estimate) in &line.points {
        let Some((px, py)) = frame.place(*x, estimate.mean) else {
            // The line has a gap here.
            is_begun = false;
            continue;
        };
        let _ = write!(curve, "{}{px:.1},{py:.1}", if is_begun { 'L' } else { 'M' });
        is_begun = true;
        letters.taken.push((px, py));
        if let Some(margin) = estimate.margin.filter(|&margin| is_drawn(margin)) {
            let end = |y: f64| frame.y.place(y).unwrap_or(BOTTOM);
            let (low, high) = (end(estimate.mean - margin), end(estimate.mean + margin));
            if low - high > 1.0 {
                let _ = write!(whiskers, "M{px:.1},{low:.1}V{high:.1}m-3,0h6M{:.1},{low:.1}h6", px - 3.0);
            }
        }
        let title = format!("{}, {} {}: {}", line.name, number(*x), figure.x, about(estimate));
        markers.push_str(&marker(k, (px, py), radius, &title));
    }
    let _ = writeln!(
        svg,
        "<g class=\"{}\"><path class=\"curve\" d=\"{curve}\"/><path class=\"whisker\" d=\"{whiskers}\"/>{markers}</g>",
        class(k)
    );
}

/// A point of a line, in the shape of that line.
fn marker(k: usize, (x, y): (f64, f64), radius: f64, title: &str) -> String {
    let r = radius;
    let (left, top, full) = (x - r, y - r, 2.0 * r);
    let path = match k % N_COLOURS {
        0 => format!("M{left:.1},{y:.1}a{r},{r} 0 1 0 {full},0a{r},{r} 0 1 0 -{full},0"),
        1 => format!("M{left:.1},{top:.1}h{full}v{full}h-{full}z"),
        2 => format!("M{x:.1},{top:.1}l{r},{full}h-{full}z"),
        3 => format!("M{x:.1},{:.1}l{d:.1},{d:.1}l-{d:.1},{d:.1}l-{d:.1},-{d:.1}z", y - 1.3 * r, d = 1.3 * r),
        4 => format!("M{x:.1},{:.1}l{r},-{full}h-{full}z", y + r),
        5 => format!("M{left:.1},{top:.1}l{full},{full}m0,-{full}l-{full},{full}"),
        _ => format!("M{left:.1},{y:.1}h{full}M{x:.1},{top:.1}v{full}"),
    };
    // The last two shapes are drawn by strokes.
    let class = if k % N_COLOURS < 5 { "full" } else { "open" };
    match title.is_empty() {
        true => format!("<path class=\"{class}\" d=\"{path}\"/>"),
        false => format!("<path class=\"{class}\" d=\"{path}\"><title>{}</title></path>", escaped(title)),
    }
}

/// The letter of a stated number.
fn letter(k: usize) -> String {
    let letter = char::from(b'a' + (k % 26) as u8);
    if k < 26 { letter.to_string() } else { format!("{letter}{}", k / 26) }
}

/// The positions already in use, so that letters find a free one.
#[derive(Default)]
struct Letters {
    taken: Vec<(f64, f64)>,
}

impl Letters {
    /// The first of these positions that is free, or else the first.
    fn put(&mut self, places: &[(f64, f64)]) -> (f64, f64) {
        let is_free = |&&(x, y): &&(f64, f64)| {
            self.taken.iter().all(|taken| (taken.0 - x).abs() > 9.0 || (taken.1 - y).abs() > 11.0)
        };
        let inside = |place: &&(f64, f64)| place.1 > TOP - 12.0 && place.1 < BOTTOM;
        let place =
            places.iter().filter(inside).find(is_free).or(places.first()).copied().unwrap_or_default();
        self.taken.push(place);
        place
    }
}

fn draw_stated(frame: &Frame, stated: &Stated, k: usize, letters: &mut Letters, svg: &mut String) {
    let Some(y) = frame.y.place(stated.y) else { return };
    let (shape, (x, y)) = match stated.x {
        None => {
            let shape = format!("M{:.1},{y:.1}H{RIGHT}", frame.left);
            // Beyond the end of the line. Several that are close together go beside each other.
            let column = |x: f64| [0.0, -12.0, 12.0].map(|dy| (x, y + dy));
            let places = [column(RIGHT + 9.0), column(RIGHT - 6.0).map(|(x, y)| (x, y - 9.0))].concat();
            (shape, letters.put(&places))
        }
        Some(x) => {
            let Some(x) = frame.x.place(x) else { return };
            letters.taken.push((x, y));
            let around =
                [(0.0, -14.0), (13.0, 0.0), (-13.0, 0.0), (0.0, 14.0), (12.0, -13.0), (-12.0, -13.0)];
            let shape = format!("M{x:.1},{:.1}l7,7l-7,7l-7,-7z", y - 7.0);
            (shape, letters.put(&around.map(|(dx, dy)| (x + dx, y + dy))))
        }
    };
    let class = if stated.x.is_some() { "stated" } else { "stated across" };
    let _ = writeln!(
        svg,
        "<path class=\"{class}\" d=\"{shape}\"><title>{}: {}</title></path><text class=\"letter\" x=\"{x:.1}\" y=\"{:.1}\" \
         text-anchor=\"middle\">{}</text>",
        escaped(&stated.label),
        number(stated.y),
        y + 4.0,
        letter(k)
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(points: &[(f64, f64, Option<f64>)], stated: &[(Option<f64>, f64)], is_log_x: bool) -> Figure {
        let points = points.iter().map(|&(x, mean, margin)| (x, Estimate { mean, margin })).collect();
        let stated = stated.iter().map(|&(x, y)| Stated { label: "a <b>".to_owned(), x, y });
        Figure {
            id: "000-fig1",
            title: "T & <t>".to_owned(),
            x: "x",
            y: "y",
            is_log_x,
            lines: vec![Line { name: "<line>".to_owned(), points }],
            stated: stated.collect(),
        }
    }

    /// All numbers in the drawing are finite, and within the picture.
    fn assert_sound(figure: &Figure) {
        let svg = plot(figure);
        for wrong in ["NaN", "inf", "<line>", "<b>", "e+", "e-"] {
            assert!(!svg.contains(wrong), "{wrong} in {svg}");
        }
        for attribute in [" x=\"", " y=\""] {
            for value in svg.split(attribute).skip(1).map(|rest| rest.split('"').next().unwrap()) {
                let value: f64 = value.parse().unwrap();
                assert!((0.0..=WIDTH).contains(&value), "{attribute}{value} in {svg}");
            }
        }
        let paths: Vec<&str> =
            svg.split(" d=\"").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
        for start in paths.iter().flat_map(|path| path.split('M').skip(1)) {
            let end = start.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(start.len());
            let (x, y) = start[..end].split_once(',').unwrap();
            let (x, y): (f64, f64) = (x.parse().unwrap(), y.parse().unwrap());
            assert!((-10.0..=WIDTH).contains(&x) && (0.0..=HEIGHT).contains(&y), "{start} in {svg}");
        }
        assert_eq!((svg.matches("<svg").count(), svg.matches("</svg>").count()), (1, 1));
        let (legend, rows) = (legend(figure), rows(figure));
        assert!(!legend.contains("NaN") && !rows.concat().concat().contains("NaN"));
    }

    #[test]
    fn odd_figures_are_drawn() {
        let (nan, infinite, tiny) = (f64::NAN, f64::INFINITY, f64::MIN_POSITIVE);
        let sets: &[&[(f64, f64, Option<f64>)]] = &[
            &[],
            &[(1.0, 1.0, None)],
            &[(0.0, 0.0, Some(0.0))],
            &[(1.0, 5.0, Some(0.1)), (2.0, 5.0, Some(0.1)), (3.0, 5.0, None)],
            &[(1.0, nan, Some(nan)), (2.0, 1.0, Some(nan)), (nan, 2.0, None), (3.0, 2.0, Some(infinite))],
            &[(nan, nan, None)],
            &[(infinite, 1.0, None), (1.0, -infinite, None)],
            &[(1.0, 1e300, Some(1e300)), (2.0, -1e300, None), (1e300, 1.0, None), (f64::MAX, f64::MIN, None)],
            &[(1.0, 1e99, Some(1e99)), (1e99, -1e99, None)],
            &[(1.0, 1e99, None), (1e99, 1e-99, None)],
            &[(tiny, tiny, Some(tiny)), (2.0 * tiny, 5e-324, None)],
            &[(-5.0, -1.0, Some(100.0)), (0.0, -2.0, None), (5.0, 3.0, Some(0.5))],
            &[(1.0, 1e15, None), (2.0, 1e15 + 1.0, None)],
            &[(1.0, 0.5, None), (1000.0, 5e6, Some(1e7))],
            &[(1.0, 0.5, Some(3.0)), (2.0, 1e4, Some(3.0))],
            &[(7.0, 1.0, None), (7.0, 1.0, None)],
        ];
        let stated: &[&[(Option<f64>, f64)]] = &[
            &[],
            &[(None, 1.05)],
            &[(Some(2.0), 1.5), (Some(2.0), 1.5), (Some(2.0), 1.5), (None, 1.5), (None, 1.5)],
            &[(None, nan), (Some(nan), 1.0), (Some(-3.0), infinite), (Some(0.0), -1e200)],
        ];
        for points in sets {
            for stated in stated {
                for is_log_x in [false, true] {
                    assert_sound(&figure(points, stated, is_log_x));
                }
            }
        }
    }

    #[test]
    fn many_points_lines_and_stated_numbers_are_drawn() {
        let points: Vec<_> = (0..500).map(|x| (f64::from(x), f64::from(x * x % 97), Some(3.0))).collect();
        let stated: Vec<_> = (0..60).map(|x| (Some(f64::from(x)), f64::from(x))).collect();
        let mut many = figure(&points, &stated, false);
        many.lines = vec![many.lines[0].clone(); 30];
        assert_sound(&many);
        many.is_log_x = true;
        assert_sound(&many);
    }

    #[test]
    fn numbers_have_the_digits_that_matter() {
        let numbers = [0.0, 1234.0, 12.345_67, 1.0, 0.5, 0.001_234, 123_456.7, 2.5e9, -1e-9, -3.25, f64::NAN];
        let texts =
            ["0", "1,234", "12.35", "1", "0.5", "0.001234", "123,457", "2.5e9", "−1e−9", "−3.25", "–"];
        assert_eq!(numbers.map(number), texts);
        let about = |mean, margin| about(&Estimate { mean, margin });
        assert_eq!(about(1.04567, Some(0.0123)), "1.046 ± 0.012");
        assert_eq!(about(12_345.6, Some(123.0)), "12,346 ± 123");
        assert_eq!(about(1.5, Some(0.0)), "1.5 ± 0");
        assert_eq!([about(f64::NAN, Some(1.0)), about(2.0, Some(f64::NAN))], ["–", "2"]);
        assert_eq!(about(-0.001, Some(0.5)), "0.00 ± 0.50");
    }
}
