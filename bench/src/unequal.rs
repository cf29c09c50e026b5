//! Servers with different speeds and backlogs, against the same batches on equal servers: the cost of servers that
//! differ.

use anyhow::Result;
use evenkeel::model::{Batch, Cluster, Ratio, Server};
use evenkeel::order;
use evenkeel::select::{self, Goal as Aim};
use evenkeel::workload::Workload;

use crate::Race;
use crate::batches::{
    Planned, checked_length, checked_optimum, checked_plan, count, plan, unequal, uniform, with_slots,
};
use crate::clock::{Contestant, cpu_s, in_turn};
use crate::goals::Goal;
use crate::report::{Cell, Report, Table};
use crate::{schedule, selection};

pub(crate) fn run(race: &Race, report: &mut Report) -> Result<()> {
    let columns = [
        "selection",
        "optimum",
        "servers in proof",
        "equal ms",
        "unequal ms",
        "× equal",
        "OR-tools one solve ms",
        "× one solve",
    ];
    let title = "Selection with proof, servers with speeds and backlogs";
    section(race, report, Table::new(title, &columns), selection::workloads(race), select_row)?;

    let columns = ["schedule", "length", "× bound", "bound met", "equal ms", "unequal ms", "× equal"];
    let title = "Select and order, servers with speeds and backlogs";
    section(race, report, Table::new(title, &columns), schedule::workloads(race), schedule_row)?;

    let columns = ["order", "length", "× bound", "equal ms", "unequal ms", "× equal"];
    let title = "Order, servers with speeds, slots and backlogs";
    section(race, report, Table::new(title, &columns), orders(race), order_row)
}

/// The batches to order: with clients that meet few servers twice, and with clients that meet each server often.
fn orders(race: &Race) -> Vec<(String, Workload)> {
    let n_requests = if race.args.quick { 20_000 } else { 200_000 };
    let workload = |n_clients| Workload { n_clients, ..uniform(n_requests, 1000) };
    let name = |n_clients| format!("order-{}-{n_clients}x1000", count(n_requests));
    [256, 2000, 20_000].map(|n_clients| (name(n_clients), workload(n_clients))).into()
}

fn order_row(race: &Race, report: &mut Report, name: &str, batch: &Batch) -> Result<[Cell; 6]> {
    let (equal, unequal) = (Cluster::equal(batch), with_slots(batch)?);
    checked_length(batch, &equal)?;
    let Planned { length, bound } = checked_plan(batch, &unequal)?;
    let choices = [&equal, &unequal].map(|cluster| select::optimal::select(batch, cluster, Aim::Length).0);
    let order = |cluster, choice| cpu_s(|| order::colour::order(batch, cluster, choice));
    let [equal, unequal] = in_turn(
        race.args.repeat,
        [
            Contestant::new(|| Ok(order(&equal, &choices[0]))),
            Contestant::new(|| Ok(order(&unequal, &choices[1]))),
        ],
    )?;
    let ratio = unequal.ratio_to(&equal);
    report.measured(Goal::UnequalOrder, name, ratio);
    Ok([
        Cell::text(name),
        Cell::Number(length.to_f64()),
        Cell::Number(length.over(bound)),
        Cell::Time(equal),
        Cell::Time(unequal),
        Cell::Ratio(ratio),
    ])
}

/// A row for each requested workload.
fn section<const N: usize>(
    race: &Race,
    report: &mut Report,
    mut table: Table,
    workloads: impl IntoIterator<Item = (String, Workload)>,
    row: fn(&Race, &mut Report, &str, &Batch) -> Result<[Cell; N]>,
) -> Result<()> {
    for (name, workload) in workloads {
        let name = format!("unequal-{name}");
        if race.has(&name) {
            table.row(row(race, report, &name, &workload.generate()?)?);
        }
    }
    report.table(table);
    Ok(())
}

fn select_row(race: &Race, report: &mut Report, name: &str, batch: &Batch) -> Result<[Cell; 8]> {
    let peer = &race.peer;
    let (equal, unequal) = (Cluster::equal(batch), unequal(batch)?);
    checked_optimum(batch, &equal)?;
    let optimum = checked_optimum(batch, &unequal)?;
    peer.load_batch(batch)?;
    let requests = batch.n_requests() as u64;
    let (at, before) = capacities(&unequal, optimum.load);
    let below = peer.ortools_flow(before)?.value;
    report.agree(name, "all served before our optimum", 0, u64::from(below == requests));

    let select = |cluster| cpu_s(|| select::optimal::select(batch, cluster, Aim::MaxLoad));
    let mut served = 0;
    let [equal, unequal, one_solve] = in_turn(
        race.args.repeat,
        [
            Contestant::new(|| Ok(select(&equal))),
            Contestant::new(|| Ok(select(&unequal))),
            Contestant::new(|| peer.ortools_flow(at.as_slice()).map(|answer| answer.keep(&mut served))),
        ],
    )?;
    report.agree(name, "served at our optimum", requests, served);
    let ratio = unequal.ratio_to(&equal);
    report.measured(Goal::Unequal, name, ratio);
    let to_one_solve = one_solve.ratio_to(&unequal);
    Ok([
        Cell::text(name),
        Cell::Number(optimum.load.to_f64()),
        Cell::Count(optimum.n_servers as u64),
        Cell::Time(equal),
        Cell::Time(unequal),
        Cell::Ratio(ratio),
        Cell::Time(one_solve),
        Cell::Ratio(to_one_solve),
    ])
}

/// How many blocks each server can have served at `time`, and how many strictly before it.
fn capacities(cluster: &Cluster, time: Ratio) -> (Vec<u64>, Vec<u64>) {
    let of_server = |server: &Server| {
        let blocks = time.numerator() * u128::from(server.speed.millionths());
        let unit = u128::from(time.denominator()) * 1_000_000;
        let free = |blocks: u128| (blocks as u64).saturating_sub(server.busy()) * u64::from(server.slots);
        (free(blocks / unit), free(blocks.div_ceil(unit).saturating_sub(1)))
    };
    cluster.servers().iter().map(of_server).unzip()
}

fn schedule_row(race: &Race, report: &mut Report, name: &str, batch: &Batch) -> Result<[Cell; 7]> {
    let (equal, unequal) = (Cluster::equal(batch), unequal(batch)?);
    checked_length(batch, &equal)?;
    let planned = checked_plan(batch, &unequal)?;
    let contestants =
        [&equal, &unequal].map(|cluster| Contestant::new(move || Ok(cpu_s(|| plan(batch, cluster)))));
    let [equal, unequal] = in_turn(race.args.repeat, contestants)?;
    let ratio = unequal.ratio_to(&equal);
    report.measured(Goal::UnequalSchedule, name, ratio);
    let Planned { length, bound } = planned;
    Ok([
        Cell::text(name),
        Cell::Number(length.to_f64()),
        Cell::Number(length.over(bound)),
        Cell::text(if planned.meets_bound() { "yes" } else { "no" }),
        Cell::Time(equal),
        Cell::Time(unequal),
        Cell::Ratio(ratio),
    ])
}
