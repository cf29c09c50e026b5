//! Text for people: numbers with separators, tables, bars.

use std::fmt::Write as _;

use evenkeel::model::Fixed;

/// A number with its thousands set apart: 1,234,567.
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

/// The same with decimals: 1,234.5.
pub(crate) fn figure(n: Fixed) -> String {
    let text = n.to_string();
    match text.split_once('.') {
        Some((_, decimals)) => format!("{}.{decimals}", count(n.floor())),
        None => count(n.floor()),
    }
}

/// The same with two decimals at most, for tables: 1,234.57.
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

/// A number and what it counts, in the plural where needed: 1 server, 2 servers.
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

/// What is called how, a line each.
pub(crate) fn pairs(rows: &[(&str, String)]) -> String {
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for (name, value) in rows {
        let _ = writeln!(text, "  {name:<width$}  {value}");
    }
    text
}

/// Columns of text, the first to the left, the others to the right.
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
    fn bars_fill_their_width_and_no_more() {
        assert_eq!(bar(8, 8, 4), "████");
        assert_eq!(bar(9, 8, 4), "████");
        assert_eq!(bar(0, 0, 4), "    ");
        assert_eq!(bar(u64::MAX, u64::MAX, 2), "██");
        assert_eq!(bar(1, 8, 4), "▌   ");
    }
}
