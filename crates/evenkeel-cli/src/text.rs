//! Text for people: numbers with separators, tables, bars.

use std::fmt::Write as _;

use evenkeel::model::Fixed;

/// A number with thousands separators: 1,234,567.
pub(crate) fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number with thousands separators and decimals: 1,234.5.
pub(crate) fn figure(n: Fixed) -> String {
    let text = n.to_string();
    match text.split_once('.') {
        Some((_, decimals)) => format!("{}.{decimals}", count(n.floor())),
        None => count(n.floor()),
    }
}

/// The same with at most two decimals, for tables: 1,234.57.
pub(crate) fn short(n: Fixed) -> String {
    let hundredths = (n.nanos() + 5_000_000) / 10_000_000;
    let whole = count((hundredths / 100) as u64);
    match hundredths % 100 {
        0 => whole,
        decimals => format!("{whole}.{decimals:02}"),
    }
}

/// A mean with one decimal: 1,234.6.
pub(crate) fn mean(n: f64) -> String {
    let tenths = (n * 10.0).round() as u64;
    format!("{}.{}", count(tenths / 10), tenths % 10)
}

/// A number and what it counts, in the plural if needed: 1 server, 2 servers.
pub(crate) fn counted(n: u64, what: &str) -> String {
    let n_of = count(n);
    match what.strip_suffix('y') {
        _ if n == 1 => format!("{n_of} {what}"),
        Some(stem) => format!("{n_of} {stem}ies"),
        None if what.ends_with('s') => format!("{n_of} {what}es"),
        None => format!("{n_of} {what}s"),
    }
}

/// The first few of many names.
pub(crate) fn some_of(names: &[String], most: usize) -> String {
    let shown = names.iter().take(most).map(String::as_str).collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(most) {
        0 => shown,
        more => format!("{shown} and {} more", count(more as u64)),
    }
}

/// At least three digits: 0.0123, 1.23, 12.3, 123, 1,234.
pub(crate) fn three_digits(n: f64) -> String {
    let decimals = match n.abs() {
        n if n >= 99.95 => return count(n.round() as u64),
        n if n >= 9.995 => 1,
        n if n >= 0.9995 => 2,
        n if n >= 0.1 => 3,
        _ => 4,
    };
    format!("{n:.decimals$}")
}

/// The unit that suits a number. Each unit has its size as a factor of the base unit; the largest comes first.
fn suited(n: f64, units: &[(f64, &'static str)]) -> (f64, &'static str) {
    let fits = units.iter().find(|(factor, _)| n.abs() >= *factor * 0.9995);
    fits.or(units.last()).copied().unwrap_or((1.0, ""))
}

const SPANS: [(f64, &str); 4] = [(1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")];
const SIZES: [(f64, &str); 6] =
    [(1e15, "PB"), (1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B")];

/// Seconds in a unit that suits them: 12.3 ms.
pub(crate) fn span(seconds: f64) -> String {
    with_unit(seconds, None, &SPANS)
}

/// Like [`span`] for a round number, without trailing zeros: 10 ms.
pub(crate) fn round_span(seconds: f64) -> String {
    without_zeros(span(seconds))
}

/// Like [`size`] for a round number, without trailing zeros: 10 MB.
pub(crate) fn round_size(bytes: f64) -> String {
    without_zeros(size(bytes))
}

fn without_zeros(text: String) -> String {
    match text.split_once(' ') {
        Some((number, unit)) if number.contains('.') => {
            format!("{} {unit}", number.trim_end_matches('0').trim_end_matches('.'))
        }
        _ => text,
    }
}

/// Like [`span`], with the margin of error: 12.3 ± 0.4 ms.
pub(crate) fn span_about(seconds: f64, margin: Option<f64>) -> String {
    with_unit(seconds, margin, &SPANS)
}

/// Bytes in a unit that suits them: 1.23 GB.
pub(crate) fn size(bytes: f64) -> String {
    // There are no fractions of a byte.
    if bytes > 0.0 && bytes < 999.5 && bytes.fract() == 0.0 {
        return format!("{bytes} B");
    }
    with_unit(bytes, None, &SIZES)
}

fn with_unit(n: f64, margin: Option<f64>, units: &[(f64, &'static str)]) -> String {
    if n == 0.0 {
        return "0".to_owned();
    }
    let (factor, unit) = suited(n, units);
    let value = three_digits(n / factor);
    match margin {
        Some(margin) if margin > 0.0 => format!("{value} ± {} {unit}", two_digits(margin / factor)),
        _ => format!("{value} {unit}"),
    }
}

fn two_digits(n: f64) -> String {
    match n {
        n if n >= 9.95 => count(n.round() as u64),
        n if n >= 0.995 => format!("{n:.1}"),
        n => format!("{n:.2}"),
    }
}

/// Names and values, one pair per line.
pub(crate) fn pairs(rows: &[(&str, String)]) -> String {
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for (name, value) in rows {
        let _ = writeln!(text, "  {name:<width$}  {value}");
    }
    text
}

/// Columns of text: the first is left-aligned, the others are right-aligned.
pub(crate) fn table(rows: &[Vec<String>]) -> String {
    let n_columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |k: usize| rows.iter().filter_map(|r| r.get(k)).map(|s| s.chars().count()).max();
    let widths: Vec<usize> = (0..n_columns).map(|k| width(k).unwrap_or(0)).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (k, (cell, &width)) in row.iter().zip(&widths).enumerate() {
            let _ = match k {
                0 => write!(line, "  {cell:<width$}"),
                _ => write!(line, "  {cell:>width$}"),
            };
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// A bar that fills `width` characters when `value` is `full`, exact to an eighth of a character.
pub(crate) fn bar(value: u64, full: u64, width: usize) -> String {
    const EIGHTHS: [char; 8] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];
    let eighths = u128::from(value) * width as u128 * 8 / u128::from(full.max(1));
    let eighths = (eighths as usize).min(width * 8);
    let mut bar = "█".repeat(eighths / 8);
    if !eighths.is_multiple_of(8) {
        bar.push(EIGHTHS[eighths % 8]);
    }
    format!("{bar:<width$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_set_apart_in_threes() {
        assert_eq!([0, 999, 1000, 1_234_567].map(count), ["0", "999", "1,000", "1,234,567"]);
        let figures = [1_234_567_000_000_u128, 1_000_000_000, 999_999_999, 1_500_000_000];
        let figures = figures.map(|nanos| short(Fixed::from_nanos(nanos).unwrap()));
        assert_eq!(figures, ["1,234.57", "1", "1", "1.50"]);
        assert_eq!([0.0, 0.05, 9.99, 1868.34].map(mean), ["0.0", "0.1", "10.0", "1,868.3"]);
        assert_eq!(counted(1, "server"), "1 server");
        assert_eq!(counted(2000, "server"), "2,000 servers");
        assert_eq!(
            [counted(1, "copy"), counted(2, "copy"), counted(2, "process")],
            ["1 copy", "2 copies", "2 processes"]
        );
    }

    #[test]
    fn units_suit_their_numbers() {
        let spans = [0.0, 1.5e-8, 0.000_25, 0.012_34, 0.9999, 12.345, 12_345.6].map(span);
        assert_eq!(spans, ["0", "15.0 ns", "250 µs", "12.3 ms", "1.00 s", "12.3 s", "12,346 s"]);
        assert_eq!([0.0, 0.01, 0.25, 300.0].map(round_span), ["0", "10 ms", "250 ms", "300 s"]);
        assert_eq!(span_about(12.345, Some(0.42)), "12.3 ± 0.42 s");
        assert_eq!([12.0, 64e6, 1.5e12].map(size), ["12 B", "64.0 MB", "1.50 TB"]);
        assert_eq!([0.0, 12.0, 64e6, 1.5e12].map(round_size), ["0", "12 B", "64 MB", "1.5 TB"]);
    }

    #[test]
    fn bars_fill_their_width_and_no_more() {
        assert_eq!(bar(8, 8, 4), "████");
        assert_eq!(bar(9, 8, 4), "████");
        assert_eq!(bar(0, 0, 4), "    ");
        assert_eq!(bar(u64::MAX, u64::MAX, 2), "██");
        assert_eq!(bar(1, 8, 4), "▌   ");
    }
}
