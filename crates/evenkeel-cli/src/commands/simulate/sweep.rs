//! Several values of a key, each in turn.

use anyhow::{Result, anyhow, bail};
use evenkeel_sim::scenario::Set;

/// A key, and the values that it takes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Sweep {
    pub(super) key: String,
    pub(super) values: Vec<String>,
}

/// The most points of a range without a number of points.
const USUAL_POINTS: usize = 9;
/// More points do not fit on a page.
const MOST_POINTS: usize = 1000;

impl Sweep {
    /// Reads `key=a,b,c`, `key=from..to` or `key=from..to:n`.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let Set { key, value } = text.parse().map_err(|_| {
            anyhow!("--sweep {text}: write KEY=FROM..TO or KEY=A,B,C, such as clients.count=16..256")
        })?;
        let values = values(&value).ok_or_else(|| {
            anyhow!("--sweep {text}: write FROM..TO or FROM..TO:POINTS with numbers in one unit, or A,B,C")
        })?;
        if values.len() > MOST_POINTS {
            bail!("--sweep {text}: {} points are more than {MOST_POINTS}; use fewer", values.len());
        }
        Ok(Self { key, values })
    }
}

fn values(text: &str) -> Option<Vec<String>> {
    let Some((from, to)) = text.split_once("..") else {
        let values: Vec<String> = text.split(',').map(|value| value.trim().to_owned()).collect();
        return values.iter().all(|value| !value.is_empty()).then_some(values);
    };
    let (to, points) = match to.split_once(':') {
        Some((to, points)) => (to, Some(points.trim().parse::<usize>().ok().filter(|&n| n >= 2)?)),
        None => (to, None),
    };
    let ((from, from_unit), (to, to_unit)) = (number(from)?, number(to)?);
    let unit = if from_unit.is_empty() { to_unit } else { from_unit };
    // A unit may be left out if the other end has it, and 0 needs none.
    if !to_unit.is_empty() && to_unit != unit || from >= to {
        return None;
    }
    let are_whole = from.fract() == 0.0 && to.fract() == 0.0 && points.is_none();
    let n = points.unwrap_or_else(|| {
        if are_whole { ((to - from) as usize + 1).min(USUAL_POINTS) } else { USUAL_POINTS }
    });
    let at = |k: usize| {
        let value = from + (to - from) * k as f64 / (n - 1) as f64;
        let value = if are_whole { value.round() } else { (value * 1e6).round() / 1e6 };
        format!("{value}{unit}")
    };
    (n <= 10 * MOST_POINTS).then(|| (0..n).map(at).collect())
}

fn number(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    Some((text[..end].parse().ok()?, text[end..].trim()))
}

/// All combinations, the first sweep changing slowest.
pub(super) fn points(sweeps: &[Sweep]) -> Vec<Vec<Set>> {
    let mut points = vec![Vec::new()];
    for Sweep { key, values } in sweeps {
        let with = |point: &Vec<Set>, value: &String| {
            let mut point = point.clone();
            point.push(Set { key: key.clone(), value: value.clone() });
            point
        };
        points = points.iter().flat_map(|point| values.iter().map(move |value| with(point, value))).collect();
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_and_lists() {
        for (text, expected) in [
            ("2..4", "2 3 4"),
            ("0..80", "0 10 20 30 40 50 60 70 80"),
            ("1..2:3", "1 1.5 2"),
            ("0.1..0.9", "0.1 0.2 0.3 0.4 0.5 0.6 0.7 0.8 0.9"),
            ("0ms..2ms", "0ms 1ms 2ms"),
            ("1..3Gb/s", "1Gb/s 2Gb/s 3Gb/s"),
            ("a, b", "a b"),
            ("7", "7"),
        ] {
            assert_eq!(values(text).map(|values| values.join(" ")).as_deref(), Some(expected), "{text}");
        }
        for text in ["4..2", "2..2", "1ms..2s", "1..", "..", "1..2:1", "1..2:x", "a,,b", "x..y"] {
            assert_eq!(values(text), None, "{text}");
        }
    }
}
