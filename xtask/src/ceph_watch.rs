//! `cargo xtask ceph-watch`: OSDs turn slow and recover while `evenkeel balance ceph --watch` looks on. The picture in
//! `docs/ceph.md` shows bandwidth and primaries over time.

use std::fmt::Write as _;
use std::fs;

use serde_json::Value;

use crate::campaign;
use crate::picture::take;
use crate::run::Result;

const PICTURE: &str = "docs/ceph-watch.png";
/// Of both plots, in points, and of what is around them.
const WIDTH: f64 = 820.0;
const HEIGHT: f64 = 170.0;
const LEFT: f64 = 56.0;
const TOP: f64 = 28.0;
const GAP: f64 = 54.0;
const COLOURS: [&str; 6] = ["#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#7f7f7f"];
const HEAD: &str = "<head><meta charset=\"utf-8\"><style>body { margin: 0; background: none; } \
     svg { background: #fff; border-radius: 6px; font: 13px system-ui, sans-serif; } \
     .title { font-weight: 600; } .axis { stroke: #bbb; } .slow { fill: #d55e00; opacity: .1; }</style></head>";

/// Draws figures of an earlier run, or of a new one.
pub(crate) fn ceph_watch(figures: Option<&str>) -> Result<()> {
    let Some(figures) = figures else {
        let file = std::env::temp_dir().join(format!("evenkeel-ceph-watch-{}.json", std::process::id()));
        let path = file.display().to_string();
        let drawn = campaign::ceph(&["--watch", "--out", &path]).and_then(|()| draw(&path));
        let _ = fs::remove_file(&file);
        return drawn;
    };
    draw(figures)
}

fn draw(file: &str) -> Result<()> {
    let text = fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))?;
    let figures: Value = serde_json::from_str(&text).map_err(|error| format!("{file}: {error}"))?;
    let size = ((LEFT + WIDTH + 90.0) as u32, (2.0 * (HEIGHT + TOP) + GAP + 20.0) as u32);
    take(HEAD, &svg(&figures, size), size, PICTURE)
}

/// A plot: what its axes reach to, and where it begins.
struct Plot {
    seconds: f64,
    most: f64,
    top: f64,
}

impl Plot {
    fn x(&self, second: f64) -> f64 {
        LEFT + WIDTH * (second / self.seconds).clamp(0.0, 1.0)
    }

    fn y(&self, value: f64) -> f64 {
        self.top + HEIGHT * (1.0 - (value / self.most).clamp(0.0, 1.0))
    }

    /// Axes with a mark at every `step`, and the time when an OSD is slow.
    fn frame(&self, title: &str, step: f64, slow: &[(f64, f64, String)]) -> String {
        let mut svg = String::new();
        let (bottom, right) = (self.top + HEIGHT, LEFT + WIDTH);
        for (since, until, name) in slow {
            let (x, width) = (self.x(*since), self.x(*until) - self.x(*since));
            let _ = write!(
                svg,
                r#"<rect class="slow" x="{x:.1}" y="{}" width="{width:.1}" height="{HEIGHT}"/>"#,
                self.top
            );
            let _ = write!(svg, r#"<text x="{:.1}" y="{}">{name}</text>"#, x + 4.0, bottom - 6.0);
        }
        let _ = write!(svg, r#"<text class="title" x="{LEFT}" y="{}">{title}</text>"#, self.top - 9.0);
        let n_marks = (self.most / step) as u32;
        for value in (0..=n_marks).map(|i| f64::from(i) * step) {
            let y = self.y(value);
            let _ = write!(svg, r#"<line class="axis" x1="{LEFT}" x2="{right}" y1="{y:.1}" y2="{y:.1}"/>"#);
            let _ = write!(
                svg,
                r#"<text x="{}" y="{:.1}" text-anchor="end">{value}</text>"#,
                LEFT - 6.0,
                y + 4.0
            );
        }
        for minute in (0..=(self.seconds / 60.0) as u32).step_by(2) {
            let x = self.x(f64::from(minute) * 60.0);
            let _ = write!(
                svg,
                r#"<text x="{x:.1}" y="{}" text-anchor="middle">{minute} min</text>"#,
                bottom + 17.0
            );
        }
        svg
    }

    fn line(&self, points: impl Iterator<Item = (f64, f64)>, style: &str) -> String {
        let points = points.map(|(second, value)| format!("{:.1},{:.1}", self.x(second), self.y(value)));
        let points: Vec<String> = points.collect();
        format!(r#"<polyline points="{}" fill="none" {style}/>"#, points.join(" "))
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_default()
}

fn svg(figures: &Value, (width, height): (u32, u32)) -> String {
    let pairs = |name: &str| -> Vec<(f64, f64)> {
        list(&figures[name]).iter().map(|pair| (number(&pair[0]), number(&pair[1]) / 1e6)).collect()
    };
    let (bandwidth, bound) = (pairs("bandwidth"), pairs("bound"));
    let seconds = bound.last().map_or(1.0, |(second, _)| *second);
    let slow = slow(&figures["events"], seconds);
    let speed = Plot { seconds, most: 80.0, top: TOP };
    let mut svg = format!(r#"<svg width="{width}" height="{height}" xmlns="http://www.w3.org/2000/svg">"#);
    svg.push_str(&speed.frame("read bandwidth, MB/s", 20.0, &slow));
    svg.push_str(&speed.line(means(&bandwidth).into_iter(), r##"stroke="#0072b2" stroke-width="1.6""##));
    svg.push_str(&speed.line(bound.into_iter(), r##"stroke="#333" stroke-dasharray="5 4""##));
    let right = LEFT + WIDTH + 8.0;
    let _ = write!(svg, r##"<text x="{right}" y="{:.1}" fill="#333">bound</text>"##, speed.y(74.0));
    let _ = write!(svg, r##"<text x="{right}" y="{:.1}" fill="#0072b2">measured</text>"##, speed.y(60.0));
    let looks = list(&figures["looks"]);
    let leads = |osd: usize| {
        looks.iter().map(move |look| (number(&look["at"]), number(&look["servers"][osd]["leads"])))
    };
    let n_osds = looks.first().map_or(0, |look| list(&look["servers"]).len());
    let most = (0..n_osds).flat_map(leads).fold(1.0, |most: f64, (_, leads)| most.max(leads));
    let led = Plot { seconds, most: (most / 5.0).ceil() * 5.0, top: TOP + HEIGHT + GAP };
    svg.push_str(&led.frame("placement groups that each OSD leads", 5.0, &slow));
    for osd in 0..n_osds {
        let colour = COLOURS[osd % COLOURS.len()];
        svg.push_str(&led.line(steps(leads(osd)), &format!(r#"stroke="{colour}" stroke-width="1.8""#)));
        let y = led.top + 14.0 + 18.0 * osd as f64;
        let _ = write!(svg, r#"<text x="{right}" y="{y}" fill="{colour}">osd.{osd}</text>"#);
    }
    svg + "</svg>"
}

/// When OSDs were slow, and which.
fn slow(events: &Value, end: f64) -> Vec<(f64, f64, String)> {
    let mut slow: Vec<(f64, f64, String)> = Vec::new();
    for event in list(events) {
        let name = format!("osd.{} at {}", event["osd"], event["rate"].as_str().unwrap_or_default());
        match slow.last_mut() {
            Some(last) if last.1 >= end => last.1 = number(&event["at"]),
            _ => slow.push((number(&event["at"]), end, name)),
        }
    }
    slow
}

/// The means of five seconds: single ones jump by whole objects.
fn means(series: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mean = |window: &[(f64, f64)]| {
        (window[window.len() / 2].0, window.iter().map(|(_, value)| value).sum::<f64>() / window.len() as f64)
    };
    series.windows(5).map(mean).collect()
}

/// What holds from the point before on: a look is told when its changes are made, with what it saw before them.
fn steps(points: impl Iterator<Item = (f64, f64)>) -> impl Iterator<Item = (f64, f64)> {
    let mut last = None;
    points.flat_map(move |(second, value)| {
        let since = last.replace(second).unwrap_or(second);
        [(since, value), (second, value)]
    })
}

#[test]
fn changes_are_drawn_where_they_were_made() {
    let looks = [(10.0, 8.0), (40.0, 8.0), (50.0, 1.0)];
    let drawn = [(10.0, 8.0), (10.0, 8.0), (10.0, 8.0), (40.0, 8.0), (40.0, 1.0), (50.0, 1.0)];
    assert_eq!(steps(looks.into_iter()).collect::<Vec<_>>(), drawn);
}

#[test]
fn slow_while() {
    let events = serde_json::json!([
        { "at": 60, "osd": 0, "rate": "10mbit" },
        { "at": 180, "osd": 0, "rate": "100mbit" },
        { "at": 300, "osd": 3, "rate": "10mbit" },
    ]);
    let expected =
        vec![(60.0, 180.0, "osd.0 at 10mbit".to_owned()), (300.0, 500.0, "osd.3 at 10mbit".to_owned())];
    assert_eq!(slow(&events, 500.0), expected);
}
