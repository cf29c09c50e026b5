//! Selection: the least maximum server load with its proof, against flow solvers that get the answer (one solve) or
//! have to search for it.

use anyhow::Result;
use evenkeel::model::{Batch, Cluster};
use evenkeel::select::{self, Goal as Aim};
use evenkeel::workload::{Law, Workload};

use crate::Race;
use crate::batches::{checked_optimum, count, laws, uniform, whole};
use crate::clock::{Contestant, cpu_s, in_turn};
use crate::goals::Goal;
use crate::report::{Cell, Report, Table};

const MILLION: u32 = 1_000_000;

pub(crate) fn run(race: &Race, report: &mut Report) -> Result<()> {
    let columns = [
        "selection",
        "optimum",
        "servers in proof",
        "ours ms",
        "floor ms",
        "× floor",
        "OR-tools one solve ms",
        "× one solve",
        "OR-tools search ms",
        "× search",
        "SciPy one solve ms",
        "× SciPy",
    ];
    let mut table = Table::new("Selection with proof", &columns);
    for (name, workload) in workloads(race) {
        if race.has(&name) {
            table.row(row(race, report, &name, &workload)?);
        }
    }
    report.table(table);
    Ok(())
}

/// The batches to select from, with the names of the rows.
pub(crate) fn workloads(race: &Race) -> Vec<(String, Workload)> {
    let mut workloads = Vec::new();
    for (n_requests, n_servers) in [(10_000, 100), (100_000, 1000), (MILLION, 1000)] {
        if race.args.quick && n_requests == MILLION {
            continue;
        }
        workloads.extend(laws(n_servers).map(|(law_name, law)| {
            let workload = Workload { law, ..uniform(n_requests, n_servers) };
            (format!("{}-{law_name}", count(n_requests)), workload)
        }));
    }
    workloads
}

/// The number of replicas on each server. No selection takes less than this one pass.
fn count_replicas(batch: &Batch) -> Vec<u32> {
    let mut held = vec![0; batch.n_servers()];
    batch.replicas().flat().iter().for_each(|server| held[server.index()] += 1);
    held
}

fn row(race: &Race, report: &mut Report, name: &str, workload: &Workload) -> Result<[Cell; 12]> {
    let peer = &race.peer;
    let batch = workload.generate()?;
    let cluster = Cluster::equal(&batch);
    let optimum = checked_optimum(&batch, &cluster)?;
    let load = whole(optimum.load)?;
    peer.load_batch(&batch)?;
    let requests = u64::from(workload.n_requests);
    let below = peer.ortools_flow(load - 1)?.value;
    report.agree(name, "all served below our optimum", 0, u64::from(below == requests));

    let large = workload.n_requests == MILLION;
    let search_runs = match large {
        true => 1,
        false if race.args.quick => 2,
        false => usize::MAX,
    };
    // Takes many seconds at a million requests, so it runs only if such a row is requested.
    let scipy_runs = match large {
        true => usize::from(!race.args.rows.is_empty()),
        false => usize::MAX,
    };
    let (mut served, mut found, mut scipy_served) = (0, 0, requests);
    let [ours, floor, one_solve, search, scipy] = in_turn(
        race.args.repeat,
        [
            Contestant::new(|| Ok(cpu_s(|| select::optimal::select(&batch, &cluster, Aim::MaxLoad)))),
            Contestant::new(|| Ok(cpu_s(|| count_replicas(&batch)))),
            Contestant::new(|| peer.ortools_flow(load).map(|answer| answer.keep(&mut served))),
            Contestant::new(|| peer.ortools_search().map(|answer| answer.keep(&mut found)))
                .at_most(search_runs),
            Contestant::new(|| peer.scipy_flow(load).map(|answer| answer.keep(&mut scipy_served)))
                .at_most(scipy_runs),
        ],
    )?;
    report.agree(name, "served at our optimum", requests, served);
    report.agree(name, "served at our optimum by SciPy", requests, scipy_served);
    report.agree(name, "optimum by search", load, found);
    // The goal is set for the rows that were measured with one solve before, not for chains.
    if workload.law != Law::Chain {
        report.measured(Goal::OneSolve, name, one_solve.ratio_to(&ours));
    }
    if large {
        report.measured(Goal::Search, name, search.ratio_to(&ours));
        let is_even = matches!(workload.law, Law::Uniform | Law::FirstHot { .. });
        let goal = if is_even { Goal::FloorEven } else { Goal::FloorSkewed };
        report.measured(goal, name, ours.ratio_to(&floor));
    }
    let ratios = [&one_solve, &search, &scipy].map(|theirs| Cell::Ratio(theirs.ratio_to(&ours)));
    let [one_solve_ratio, search_ratio, scipy_ratio] = ratios;
    Ok([
        Cell::text(name),
        Cell::Count(load),
        Cell::Count(optimum.n_servers as u64),
        Cell::Time(ours.clone()),
        Cell::Time(floor.clone()),
        Cell::Ratio(ours.ratio_to(&floor)),
        Cell::Time(one_solve),
        one_solve_ratio,
        Cell::Time(search),
        search_ratio,
        Cell::Time(scipy),
        scipy_ratio,
    ])
}
