//! The whole schedule against one maximum flow, which only tells that replicas can be chosen; and its order alone
//! against another edge colouring.

use anyhow::Result;
use evenkeel::order;
use evenkeel::select::{self, Goal as Aim};
use evenkeel::workload::{Clients, Workload};

use crate::Race;
use crate::batches::{checked_length, checked_optimum, count, plan, uniform};
use crate::clock::{Contestant, cpu_s, in_turn};
use crate::goals::Goal;
use crate::report::{Cell, Report, Table};

pub(crate) fn run(race: &Race, report: &mut Report) -> Result<()> {
    schedules(race, report)?;
    colourings(race, report)
}

fn schedules(race: &Race, report: &mut Report) -> Result<()> {
    let columns = ["schedule", "length", "select and order ms", "OR-tools one solve ms", "×"];
    let mut table = Table::new("Select and order", &columns);
    let n_requests = if race.args.quick { 100_000 } else { 1_000_000 };
    let drawn = uniform(n_requests, 1000);
    let regular = Workload { n_clients: 1000, clients: Clients::InTurn, ..drawn.clone() };
    for (shape, workload) in [("256x1000", drawn), ("regular", regular)] {
        let name = format!("schedule-{}-{shape}", count(n_requests));
        if !race.has(&name) {
            continue;
        }
        let batch = workload.generate()?;
        let (length, optimum) = (checked_length(&batch)?, checked_optimum(&batch)?);
        race.peer.load_batch(&batch)?;
        let mut served = 0;
        let [ours, theirs] = in_turn(
            race.args.repeat,
            [
                Contestant::new(|| Ok(cpu_s(|| plan(&batch)))),
                Contestant::new(|| race.peer.ortools_flow(optimum.load).map(|a| a.keep(&mut served))),
            ],
        )?;
        report.agree(&name, "served at our optimum", u64::from(n_requests), served);
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
        let length = checked_length(&batch)?;
        let (choice, _) = select::optimal::select(&batch, Aim::Length);
        race.peer.load_edges(&batch, &choice)?;
        let mut colours = 0;
        let [ours, theirs] = in_turn(
            race.args.repeat,
            [
                Contestant::new(|| Ok(cpu_s(|| order::colour::order(&batch, &choice)))),
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
