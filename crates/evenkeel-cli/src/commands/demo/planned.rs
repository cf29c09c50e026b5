//! `evenkeel demo --plan-only`: a hot spot, planned by several policies, side by side.

use std::fmt::Write as _;

use anyhow::Result;
use evenkeel::bound::Bound;
use evenkeel::check::{self, Subject};
use evenkeel::model::{Batch, Cluster, Ratio};
use evenkeel::order;
use evenkeel::policy::{self, Ask, Kind, Policy};
use evenkeel::select::{Goal, optimal};
use evenkeel::workload::{Clients, Law, Sizes, Workload};
use evenkeel_formats::{Bottleneck, Figure};
use serde_json::json;

use super::super::generate::gentle_ratio;
use super::super::{Outcome, in_words, verified};
use crate::cli::DemoArgs;
use crate::output::print;
use crate::text::{bar, count, counted, figure, table};
use crate::units::Units;

const POLICIES: [&str; 3] = ["first", "random", "optimal"];
const BAR_WIDTH: usize = 18;
/// More rows than this add no information.
const MOST_SERVERS_SHOWN: usize = 24;

/// One policy's plan in figures.
struct Row {
    policy: &'static str,
    length: Ratio,
    loads: Vec<u64>,
}

pub(super) fn run(args: &DemoArgs) -> Result<Outcome> {
    let workload = Workload {
        n_requests: args.requests,
        n_clients: args.clients,
        n_servers: args.servers,
        copies: args.copies,
        law: Law::FirstHot { ratio: gentle_ratio(args.servers) },
        sizes: Sizes::Fixed(1),
        clients: Clients::Drawn,
        seed: args.seed,
    };
    let batch = workload.generate()?;
    let cluster = Cluster::equal(&batch);
    let rows = POLICIES
        .iter()
        .filter_map(|name| match policy::find(name)? {
            Policy { name, kind: Kind::Select(select), .. } => Some((*name, select)),
            _ => None,
        })
        .map(|(policy, select)| {
            // The optimum with the most even loads, so that the chart shows all of it.
            let ask = Ask { goal: Goal::Mean, seed: args.seed, ..Ask::default() };
            let (choice, _) = select(&batch, &cluster, &ask);
            let schedule = order::colour::order(&batch, &cluster, &choice);
            let measures = check::plan(&batch, &cluster, &schedule.transfers, true)?;
            Ok(Row { policy, length: measures.length, loads: choice.loads(&batch) })
        })
        .collect::<Result<Vec<Row>>>()?;
    let mut bound = optimal::bound(&batch, &cluster, Goal::Length);
    let forced = verified(&batch, &cluster, &mut bound, Subject::Length)?;
    let bottleneck = Bottleneck::new(&batch, &cluster, &bound.proof, forced);
    if args.json {
        let policies: Vec<_> = rows
            .iter()
            .map(|row| {
                json!({
                    "policy": row.policy,
                    "length": Figure::from(row.length),
                    "max_load": row.loads.iter().max(),
                    "ratio": row.length.over(bound.value),
                    "loads": row.loads,
                })
            })
            .collect();
        let object = json!({
            "format": 1,
            "requests": batch.n_requests(),
            "clients": batch.n_clients(),
            "servers": batch.servers().iter().collect::<Vec<_>>(),
            "lower_bound": Figure::from(bound.value),
            "bottleneck": bottleneck,
            "policies": policies,
        });
        print(&format!("{object}\n"))?;
    } else {
        print(&for_people(&batch, &rows, &bound, &bottleneck))?;
    }
    Ok(Outcome::Done)
}

fn for_people(batch: &Batch, rows: &[Row], bound: &Bound, bottleneck: &Bottleneck) -> String {
    let mut text = format!(
        "{} of {} on {}; the first copy of most data lies on a few hot servers.\n\n",
        counted(batch.n_requests() as u64, "request"),
        counted(batch.n_clients() as u64, "client"),
        counted(batch.n_servers() as u64, "server"),
    );
    let mut lines =
        vec![["policy", "slots", "of the bound", "busiest server", "idlest"].map(str::to_owned).to_vec()];
    for row in rows {
        let (most, least) = (row.loads.iter().max(), row.loads.iter().min());
        lines.push(vec![
            row.policy.to_owned(),
            figure(row.length.rounded()),
            format!("{:.2} x", row.length.over(bound.value)),
            count(most.copied().unwrap_or(0)),
            count(least.copied().unwrap_or(0)),
        ]);
    }
    text.push_str(&table(&lines));
    text.push_str("\nBlocks served by each server:\n\n");
    text.push_str(&chart(batch, rows));
    let _ = writeln!(
        text,
        "\nNo plan ends before slot {}: {}.\nThe optimal plan ends there.",
        figure(bound.value.rounded()),
        in_words(bottleneck, batch.n_servers() as u64, &Units::new(batch, &Cluster::equal(batch)))
    );
    text
}

/// One line per server, one bar per policy.
fn chart(batch: &Batch, rows: &[Row]) -> String {
    let full = rows.iter().flat_map(|row| &row.loads).copied().max().unwrap_or(0);
    let digits = count(full).len();
    let mut text = format!("  {:<6}", "");
    for row in rows {
        let _ = write!(text, "  {:<width$}", row.policy, width = BAR_WIDTH + 1 + digits);
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
    for (id, name) in batch.servers().iter().enumerate().take(MOST_SERVERS_SHOWN) {
        let mut line = format!("  {name:<6}");
        for row in rows {
            let load = row.loads[id];
            let _ = write!(line, "  {} {:>digits$}", bar(load, full, BAR_WIDTH), count(load));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    if batch.n_servers() > MOST_SERVERS_SHOWN {
        let _ = writeln!(text, "  … and {} more", count((batch.n_servers() - MOST_SERVERS_SHOWN) as u64));
    }
    text
}
