//! How the time grows: not with bytes, and hardly faster than the number of requests.

use anyhow::Result;
use evenkeel::model::{Batch, Cluster};
use evenkeel::workload::{Sizes, Workload};

use crate::Race;
use crate::batches::{checked_length, count, plan, scaled, uniform};
use crate::clock::{Contestant, cpu_s, in_turn};
use crate::goals::Goal;
use crate::report::{Cell, Report, Table};

const BILLION: u64 = 1_000_000_000;

pub(crate) fn run(race: &Race, report: &mut Report) -> Result<()> {
    let columns = ["select and order", "small ms", "large ms", "×"];
    let mut table = Table::new("Scaling", &columns);
    let n_requests = n_small(race);
    let base = uniform(n_requests, 1000);
    for (shape, sizes) in [("one", Sizes::Fixed(1)), ("drawn", Sizes::Uniform(1, 64))] {
        let name = format!("sizes-{}-{shape}", count(n_requests));
        if race.has(&name) {
            let small = Workload { sizes, ..base.clone() }.generate()?;
            let large = scaled(&small, BILLION)?;
            compare(race, report, &mut table, (Some(Goal::Sizes), &name), [&small, &large])?;
        }
    }
    let name = format!("growth-{}", growth(race));
    if race.has(&name) {
        let small = base.generate()?;
        let large = Workload { n_requests: 10 * n_requests, ..base }.generate()?;
        // Not a goal: a million requests fit in the cache and ten million do not. The command's row is the goal.
        compare(race, report, &mut table, (None, &name), [&small, &large])?;
    }
    report.table(table);
    Ok(())
}

/// The number of requests in the smaller batch of each growth row.
pub(crate) fn n_small(race: &Race) -> u32 {
    if race.args.quick { 100_000 } else { 1_000_000 }
}

/// The smaller and the larger number of requests, for names of rows.
pub(crate) fn growth(race: &Race) -> String {
    format!("{}-{}", count(n_small(race)), count(10 * n_small(race)))
}

fn compare(
    race: &Race,
    report: &mut Report,
    table: &mut Table,
    (goal, name): (Option<Goal>, &str),
    batches: [&Batch; 2],
) -> Result<()> {
    let races = batches.map(|batch| (batch, Cluster::equal(batch)));
    for (batch, cluster) in &races {
        checked_length(batch, cluster)?;
    }
    let contestants =
        races.each_ref().map(|(batch, cluster)| Contestant::new(|| Ok(cpu_s(|| plan(batch, cluster)))));
    let [small, large] = in_turn(race.args.repeat, contestants)?;
    let ratio = large.ratio_to(&small);
    if let Some(goal) = goal {
        report.measured(goal, name, ratio);
    }
    table.row([Cell::text(name), Cell::Time(small), Cell::Time(large), Cell::Ratio(ratio)]);
    Ok(())
}
