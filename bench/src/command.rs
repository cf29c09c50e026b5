//! The whole command, from a CSV file to a plan: how its time grows, its memory, its reading, and its work other than
//! planning.

use anyhow::Result;
use evenkeel::model::Transfer;
use evenkeel::workload::{Law, Sizes, Workload};

use crate::Race;
use crate::batches::{count, hot_ratio, laws, uniform};
use crate::clock::{Contestant, Samples, in_turn};
use crate::goals::Goal;
use crate::program::{Input, Program, Run};
use crate::report::{Cell, Report, Table};
use crate::scaling::{growth, n_small};

/// The memory of one row of a plan, which the plan itself needs.
const PLAN_ROW_BYTES: u64 = size_of::<Transfer>() as u64;
const MEMORY_COLUMNS: [&str; 5] =
    ["requests", "peak bytes", "of one request", "plan bytes", "bytes a request"];

pub(crate) fn run(race: &Race, report: &mut Report) -> Result<()> {
    let Some(file) = &race.args.evenkeel else {
        return Ok(());
    };
    let program = Program { file, peer: &race.peer };
    grow(race, report, program)?;
    remember_servers(race, report, program)?;
    read(race, report, program)?;
    explain(race, report, program)?;
    keep_whole(race, report, program)
}

fn grow(race: &Race, report: &mut Report, program: Program<'_>) -> Result<()> {
    let name = format!("command-{}", growth(race));
    if !race.has(&name) {
        return Ok(());
    }
    let base = uniform(n_small(race), 1000);
    let large_base = Workload { n_requests: 10 * base.n_requests, ..base.clone() };
    let (small, large) = (program.input("small", &base)?, program.input("large", &large_base)?);
    let one = program.input("one", &uniform(1, 1000))?;
    let (mut small_plan, mut large_plan) = <((Run, u64), (Run, u64))>::default();
    let time = |input: &Input, place: &mut (Run, u64)| -> Result<f64> {
        *place = program.plan(input)?;
        Ok(place.0.cpu_s)
    };
    let [small_time, large_time] = in_turn(
        race.args.repeat,
        [
            Contestant::new(|| time(&small, &mut small_plan)),
            Contestant::new(|| time(&large, &mut large_plan)),
        ],
    )?;
    let ratio = large_time.ratio_to(&small_time);
    report.measured(Goal::Growth, &name, ratio);
    let mut table = Table::new("`evenkeel plan` as a whole", &["command", "small ms", "large ms", "×"]);
    table.row([Cell::text(name), Cell::Time(small_time), Cell::Time(large_time), Cell::Ratio(ratio)]);
    report.table(table);

    let own_bytes = program.plan(&one)?.0.peak_bytes;
    let mut table = Table::new("Peak memory of `evenkeel plan`", &MEMORY_COLUMNS);
    for (n_requests, plan) in [(base.n_requests, &small_plan), (large_base.n_requests, &large_plan)] {
        let (a_request, row) = memory(n_requests, plan, own_bytes);
        report.measured(Goal::Memory, &format!("memory-{}", count(n_requests)), a_request);
        table.row(row);
    }
    report.table(table);
    Ok(())
}

/// The bytes per request beyond those of the plan and of a batch of one request, and the figures that they come from.
fn memory(n_requests: u32, (run, rows): &(Run, u64), own_bytes: u64) -> (f64, [Cell; 5]) {
    let plan_bytes = PLAN_ROW_BYTES * rows;
    let beyond = run.peak_bytes as f64 - own_bytes as f64 - plan_bytes as f64;
    let a_request = beyond / f64::from(n_requests);
    let cells = [
        Cell::text(count(n_requests)),
        Cell::Count(run.peak_bytes),
        Cell::Count(own_bytes),
        Cell::Count(plan_bytes),
        Cell::Ratio(a_request),
    ];
    (a_request, cells)
}

fn remember_servers(race: &Race, report: &mut Report, program: Program<'_>) -> Result<()> {
    let n_requests = n_small(race);
    let name = format!("memory-{}-servers", count(n_requests));
    if !race.has(&name) {
        return Ok(());
    }
    let many = program.unequal_input("many", &uniform(n_requests, 1000))?;
    let one = Input { batch: program.input("one", &uniform(1, 1000))?.batch, ..many.clone() };
    let own_bytes = program.plan(&one)?.0.peak_bytes;
    let (a_request, row) = memory(n_requests, &program.plan(&many)?, own_bytes);
    report.measured(Goal::UnequalMemory, &name, a_request);
    let title = "Peak memory of `evenkeel plan`, servers with speeds and backlogs";
    let mut table = Table::new(title, &MEMORY_COLUMNS);
    table.row(row);
    report.table(table);
    Ok(())
}

fn read(race: &Race, report: &mut Report, program: Program<'_>) -> Result<()> {
    let n_requests = n_small(race);
    let name = format!("csv-{}", count(n_requests));
    if !race.has(&name) {
        return Ok(());
    }
    let input = program.input("csv", &uniform(n_requests, 1000))?;
    let mut rows = 0;
    let [ours, pandas] = in_turn(
        race.args.repeat,
        [
            Contestant::new(|| program.plan(&input)?.0.number("/seconds/read")),
            Contestant::new(|| race.peer.pandas_read(&input.batch).map(|answer| answer.keep(&mut rows))),
        ],
    )?;
    report.agree(&name, "rows", u64::from(n_requests), rows);
    let ratio = pandas.ratio_to(&ours);
    report.measured(Goal::Reading, &name, ratio);
    let mut table = Table::new("Reading CSV (wall time)", &["file", "ours ms", "pandas ms", "×"]);
    table.row([Cell::text(name), Cell::Time(ours), Cell::Time(pandas), Cell::Ratio(ratio)]);
    report.table(table);
    Ok(())
}

fn explain(race: &Race, report: &mut Report, program: Program<'_>) -> Result<()> {
    let columns = ["command", "`plan --no-order` ms", "`explain` ms", "×"];
    let mut table = Table::new("`evenkeel explain`", &columns);
    let base = uniform(n_small(race), 1000);
    let hot = Workload { law: Law::FirstHot { ratio: hot_ratio(1000) }, ..base.clone() };
    for (shape, workload, write) in [
        ("uniform", &base, Program::input as fn(_, &_, &_) -> _),
        ("hot1", &hot, Program::input),
        ("servers", &base, Program::unequal_input),
    ] {
        let name = format!("explain-{}-{shape}", count(base.n_requests));
        if race.has(&name) {
            let input = write(program, &name, workload)?;
            let ratio = explain_row(race, program, &mut table, &name, (&input, &["explain"]))?;
            report.measured(Goal::Explain, &name, ratio);
        }
    }
    // The loads. There is most to explain here, since few servers are the bottleneck.
    for (shape, law) in laws(1000) {
        let name = format!("explain-{}-{shape}-loads", count(base.n_requests));
        if race.has(&name) {
            let input = program.input(&name, &Workload { law, ..base.clone() })?;
            explain_row(race, program, &mut table, &name, (&input, &["explain", "--no-order"]))?;
        }
    }
    report.table(table);
    Ok(())
}

fn explain_row(
    race: &Race,
    program: Program<'_>,
    table: &mut Table,
    name: &str,
    (input, command): (&Input, &[&str]),
) -> Result<f64> {
    let [plan, explain] = compare(race, program, input, [&["plan", "--no-order"], command])?;
    let ratio = explain.ratio_to(&plan);
    table.row([Cell::text(name), Cell::Time(plan), Cell::Time(explain), Cell::Ratio(ratio)]);
    Ok(ratio)
}

fn keep_whole(race: &Race, report: &mut Report, program: Program<'_>) -> Result<()> {
    let name = format!("whole-{}", count(n_small(race)));
    if !race.has(&name) {
        return Ok(());
    }
    let workload = Workload { sizes: Sizes::Uniform(1, 64), ..uniform(n_small(race), 1000) };
    let input = program.input(&name, &workload)?;
    let (split, whole) = (["plan", "--no-order"], ["plan", "--no-order", "--whole"]);
    let run = program.run(&whole, &input)?;
    let (bound, gap) = (run.number("/lower_bound")?, run.number("/gap")?);
    let [split, whole] = compare(race, program, &input, [&split, &whole])?;
    let ratio = Cell::Ratio(whole.ratio_to(&split));
    let columns = ["command", "lower bound", "gap", "split ms", "whole ms", "×"];
    let mut table = Table::new("`evenkeel plan --no-order --whole`", &columns);
    let (bound, gap) = (Cell::Number(bound), Cell::Number(gap));
    table.row([Cell::text(name), bound, gap, Cell::Time(split), Cell::Time(whole), ratio]);
    report.table(table);
    Ok(())
}

/// The CPU time of two commands on the same input.
fn compare(race: &Race, program: Program<'_>, input: &Input, commands: [&[&str]; 2]) -> Result<[Samples; 2]> {
    let contestants = commands.map(|command| Contestant::new(move || Ok(program.run(command, input)?.cpu_s)));
    in_turn(race.args.repeat, contestants)
}
