//! The result of the demo as a table and as a page.

use std::fmt::Write as _;

use super::live::{Demo, NODES, Run, SLOW};
use crate::html;
use crate::plot::{Bar, bars};
use crate::text::{bar, size, table};

const BAR_WIDTH: usize = 18;

pub(super) fn for_people(demo: &Demo) -> String {
    let mut text = format!(
        "{NODES} nodes on this machine, with sockets and files of their own; {SLOW} takes and sends a tenth of what the others do, \
         and nobody knows.\n",
    );
    for part in parts(demo) {
        let Part { what, runs, bound, verb, .. } = &part;
        let _ = writeln!(text, "\n{what}; the bound is {bound:.1} s.\n");
        let mut rows =
            vec![vec!["policy", "seconds", "of the bound", verb].into_iter().map(str::to_owned).collect()];
        for run in *runs {
            rows.push(vec![
                run.policy.to_owned(),
                format!("{:.1}", run.seconds),
                format!("{:.1} x", run.seconds / bound),
                size(slow(demo, run) as f64),
            ]);
        }
        text.push_str(&table(&rows));
        if let [first, .., last] = runs {
            text.push('\n');
            text.push_str(&chart(demo, &[first, last]));
        }
    }
    text.push_str(
        "\nrr writes every object to its home, which follows from its name; first reads the first copy. The others write and read \
         around the slow node.\nTry it: `evenkeel up --nodes 4 --data DIR --speed s3=0.1`, then `evenkeel put`. \
         --html FILE draws this as a page.\n",
    );
    text
}

/// One line per node, one bar per policy.
fn chart(demo: &Demo, runs: &[&Run]) -> String {
    let full = runs.iter().flat_map(|run| &run.bytes).copied().max().unwrap_or(0);
    let mut text = format!("  {:<4}", "");
    for run in runs {
        let _ = write!(text, "  {:<width$}", run.policy, width = BAR_WIDTH + 8);
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
    for (number, node) in demo.nodes.iter().enumerate() {
        let mut line = format!("  {node:<4}");
        for run in runs {
            let bytes = run.bytes.get(number).copied().unwrap_or_default();
            let _ = write!(line, "  {} {:>7}", bar(bytes, full, BAR_WIDTH), size(bytes as f64));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

pub(super) fn page(demo: &Demo) -> String {
    let mut body = format!(
        "<p>{NODES} nodes on one machine, with sockets and files of their own. {SLOW} takes and sends a tenth of what the others \
         do; nobody was told.</p>\n"
    );
    for part in parts(demo) {
        let Part { what, runs, bound, verb, .. } = &part;
        let best = runs.iter().map(|run| run.seconds).fold(f64::INFINITY, f64::min);
        let drawn: Vec<Bar<'_>> = runs
            .iter()
            .map(|run| Bar {
                name: run.policy,
                value: run.seconds,
                margin: None,
                label: format!("{:.1} s, {} {verb}", run.seconds, size(slow(demo, run) as f64)),
                is_best: run.seconds <= best,
            })
            .collect();
        let _ = writeln!(body, "<h2>{}</h2>", html::escaped(what));
        body.push_str(&bars(&drawn, Some((*bound, "bound")), "Seconds until everything is done."));
        let header: Vec<&str> = std::iter::once("node").chain(runs.iter().map(|run| run.policy)).collect();
        let rows: Vec<(bool, Vec<String>)> = demo
            .nodes
            .iter()
            .enumerate()
            .map(|(number, node)| {
                let cells =
                    runs.iter().map(|run| size(run.bytes.get(number).copied().unwrap_or_default() as f64));
                (false, std::iter::once(node.clone()).chain(cells).collect())
            })
            .collect();
        body.push_str(&html::table(&header, &rows));
    }
    html::page("Writes and reads around a slow server", &body)
}

/// The writes, or the reads.
struct Part<'a> {
    what: String,
    runs: &'a [Run],
    bound: f64,
    verb: &'static str,
}

fn parts(demo: &Demo) -> [Part<'_>; 2] {
    let whole = |bytes: u64| size(bytes as f64);
    [
        Part {
            what: format!("{} are written", whole(demo.written_bytes)),
            runs: &demo.writes,
            bound: demo.written_bound_seconds,
            verb: "to the slow node",
        },
        Part {
            what: format!("{} are read, of which there are two copies", whole(demo.read_bytes)),
            runs: &demo.reads,
            bound: demo.read_bound_seconds,
            verb: "from the slow node",
        },
    ]
}

fn slow(demo: &Demo, run: &Run) -> u64 {
    let number = demo.nodes.iter().position(|node| node == demo.slow);
    number.and_then(|number| run.bytes.get(number)).copied().unwrap_or_default()
}
