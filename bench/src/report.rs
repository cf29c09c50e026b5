//! The report of the race: tables of times and ratios, the goals, and where a peer disagrees.

use std::fmt::Write;

use serde_json::{Value, json};

use crate::clock::Samples;
use crate::goals::{Goal, verdicts};

/// One entry of a table.
#[derive(Clone, Debug)]
pub(crate) enum Cell {
    Text(String),
    Count(u64),
    /// Printed with at most six decimals.
    Number(f64),
    Time(Samples),
    /// A ratio: how many times as long, or as much.
    Ratio(f64),
}

impl Cell {
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    fn show(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Count(count) => count.to_string(),
            Self::Number(number) => ((number * 1e6).round() / 1e6).to_string(),
            Self::Time(samples) if samples.n_runs() == 0 => "–".to_owned(),
            Self::Time(samples) if samples.n_runs() == 1 => {
                format!("{} (one run)", short(samples.min_s() * 1e3))
            }
            Self::Time(samples) => {
                format!("{} +{:.0}%", short(samples.min_s() * 1e3), 100.0 * samples.noise())
            }
            Self::Ratio(ratio) if ratio.is_nan() => "–".to_owned(),
            Self::Ratio(ratio) => short(*ratio),
        }
    }

    fn json(&self) -> Value {
        match self {
            Self::Text(text) => json!(text),
            Self::Count(count) => json!(count),
            Self::Time(samples) => json!({
                "ms": samples.min_s() * 1e3, "noise": samples.noise(), "runs": samples.n_runs(),
            }),
            Self::Number(number) | Self::Ratio(number) => json!(number),
        }
    }
}

/// A number with three significant digits.
pub(crate) fn short(number: f64) -> String {
    let decimals = match number.abs() {
        x if x >= 100.0 => 0,
        x if x >= 10.0 => 1,
        x if x >= 1.0 => 2,
        x if x >= 0.1 => 3,
        _ => 4,
    };
    format!("{number:.decimals$}")
}

/// Rows under a title.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    title: &'static str,
    columns: Vec<&'static str>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    pub(crate) fn new(title: &'static str, columns: &[&'static str]) -> Self {
        Self { title, columns: columns.to_vec(), rows: Vec::new() }
    }

    pub(crate) fn row<const N: usize>(&mut self, cells: [Cell; N]) {
        assert_eq!(N, self.columns.len(), "a cell for each column of {}", self.title);
        self.rows.push(cells.into());
    }

    /// Aligned Markdown, which reads well as plain text.
    fn show(&self) -> String {
        let header = self.columns.iter().map(|&name| name.to_owned()).collect();
        let mut lines: Vec<Vec<String>> = vec![header];
        lines.extend(self.rows.iter().map(|row| row.iter().map(Cell::show).collect()));
        let width = |k: usize| lines.iter().map(|line: &Vec<String>| line[k].chars().count()).max();
        let widths: Vec<usize> = (0..self.columns.len()).map(|k| width(k).unwrap_or(0)).collect();
        let mut text = format!("### {}\n\n", self.title);
        for (i, line) in lines.iter().enumerate() {
            for (k, (cell, &width)) in line.iter().zip(&widths).enumerate() {
                let _ =
                    if k == 0 { write!(text, "| {cell:<width$}") } else { write!(text, " | {cell:>width$}") };
            }
            text.push_str(" |\n");
            if i == 0 {
                for (k, &width) in widths.iter().enumerate() {
                    let dashes = "-".repeat(width);
                    let _ = if k == 0 { write!(text, "|{dashes}--") } else { write!(text, "|{dashes}-:") };
                }
                text.push_str("|\n");
            }
        }
        text
    }

    fn json(&self) -> Value {
        let object = |row: &Vec<Cell>| -> Value {
            self.columns.iter().zip(row).map(|(&name, cell)| (name.to_owned(), cell.json())).collect()
        };
        json!({ "title": self.title, "rows": self.rows.iter().map(object).collect::<Vec<_>>() })
    }
}

/// All results so far. Tables are printed as they come.
#[derive(Debug, Default)]
pub(crate) struct Report {
    text: String,
    tables: Vec<Table>,
    measured: Vec<(Goal, String, f64)>,
    disagreements: Vec<String>,
}

impl Report {
    pub(crate) fn say(&mut self, text: &str) {
        println!("{text}");
        self.text.push_str(text);
        self.text.push('\n');
    }

    pub(crate) fn table(&mut self, table: Table) {
        if !table.rows.is_empty() {
            self.say(&table.show());
            self.tables.push(table);
        }
    }

    /// A figure that decides whether `goal` is reached.
    pub(crate) fn measured(&mut self, goal: Goal, row: &str, figure: f64) {
        self.measured.push((goal, row.to_owned(), figure));
    }

    /// Notes a disagreement unless both values are equal.
    pub(crate) fn agree(&mut self, row: &str, what: &str, ours: u64, theirs: u64) {
        if ours != theirs {
            self.disagreements.push(format!("{row}: {what}: {ours} here, {theirs} there"));
        }
    }

    /// Prints the goals and the disagreements. Returns whether there was no disagreement.
    pub(crate) fn finish(&mut self, quick: bool) -> bool {
        let of_what = if quick { " (on smaller batches than they are set for)" } else { "" };
        let mut text = format!("### Goals{of_what}\n\n");
        for verdict in verdicts(&self.measured) {
            let _ = writeln!(text, "- {verdict}");
        }
        self.say(&text);
        for disagreement in self.disagreements.clone() {
            self.say(&format!("DISAGREEMENT {disagreement}"));
        }
        self.disagreements.is_empty()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.tables.is_empty()
    }

    pub(crate) fn markdown(&self) -> &str {
        &self.text
    }

    pub(crate) fn json(&self, machine: &str) -> Value {
        json!({
            "format": 1,
            "machine": machine,
            "tables": self.tables.iter().map(Table::json).collect::<Vec<_>>(),
            "goals": verdicts(&self.measured).map(|verdict| verdict.json()).collect::<Vec<_>>(),
            "disagreements": self.disagreements,
        })
    }
}
