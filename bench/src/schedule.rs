//! The whole schedule against one maximum flow, which only shows that replicas can be chosen; and its order alone
//! against another edge colouring.

use anyhow::Result;
use evenkeel::model::Cluster;
use evenkeel::order;
use evenkeel::select::{self, Goal as Aim};
use evenkeel::workload::{Clients, Workload};

use crate::Race;
use crate::batches::{checked_length, checked_optimum, count, plan, uniform, whole};
use crate::clock::{Contestant, cpu_s, in_turn};
use crate::goals::Goal;
use crate::report::{Cell, Report, Table};
use crate::scaling::n_small;

pub(crate) fn run(race: &Race, report: &mut Report) -> Result<()> {
    schedules(race, report)?;
    colourings(race, report)
}

/// The batches to schedule, with the names of the rows.
pub(crate) fn workloads(race: &Race) -> [(String, Workload); 2] {
    let n_requests = n_small(race);
    let drawn = uniform(n_requests, 1000);
    let regular = Workload { n_clients: 1000, clients: Clients::InTurn, ..drawn.clone() };
    [("256x1000", drawn), ("regular", regular)]
        .map(|(shape, workload)| (format!("schedule-{}-{shape}", count(n_requests)), workload))
}

fn schedules(race: &Race, report: &mut Report) -> Result<()> {
    let columns = ["schedule", "length", "select and order ms", "OR-tools one solve ms", "×"];
    let mut table = Table::new("Select and order", &columns);
    for (name, workload) in workloads(race) {
        if !race.has(&name) {
            continue;
        }
        let batch = workload.generate()?;
        let cluster = Cluster::equal(&batch);
        let length = checked_length(&batch, &cluster)?;
        let load = whole(checked_optimum(&batch, &cluster)?.load)?;
        race.peer.load_batch(&batch)?;
        let mut served = 0;
        let [ours, theirs] = in_turn(
            race.args.repeat,
            [
                Contestant::new(|| Ok(cpu_s(|| plan(&batch, &cluster)))),
                Contestant::new(|| race.peer.ortools_flow(load).map(|a| a.keep(&mut served))),
            ],
        )?;
        report.agree(&name, "served at our optimum", workload.n_requests.into(), served);
        let ratio = theirs.ratio_to(&ours);
        report.measured(Goal::Schedule, &name, ratio);
        table.row([
            Cell::text(name),
            Cell::Count(length),
            Cell::Time(ours),
            Cell::Time(theirs),
            Cell::Ratio(ratio),
        ]);
    }
    report.table(table);
    Ok(())
}

fn colourings(race: &Race, report: &mut Report) -> Result<()> {
    let columns = ["order", "colours", "ours ms", "rustworkx ms", "×"];
    let mut table = Table::new("Order by edge colouring", &columns);
    for (n_requests, n_servers) in [(10_000, 100), (100_000, 1000)] {
        let name = format!("order-{}", count(n_requests));
        if (race.args.quick && n_requests > 10_000) || !race.has(&name) {
            continue;
        }
        let batch = uniform(n_requests, n_servers).generate()?;
        let cluster = Cluster::equal(&batch);
        let length = checked_length(&batch, &cluster)?;
        let (choice, _) = select::optimal::select(&batch, &cluster, Aim::Length);
        race.peer.load_edges(&batch, &choice)?;
        let mut colours = 0;
        let [ours, theirs] = in_turn(
            race.args.repeat,
            [
                Contestant::new(|| Ok(cpu_s(|| order::colour::order(&batch, &cluster, &choice)))),
                Contestant::new(|| race.peer.rustworkx_colours().map(|a| a.keep(&mut colours))),
            ],
        )?;
        report.agree(&name, "colours", length, colours);
        let ratio = Cell::Ratio(theirs.ratio_to(&ours));
        table.row([Cell::text(name), Cell::Count(length), Cell::Time(ours), Cell::Time(theirs), ratio]);
    }
    report.table(table);
    Ok(())
}
