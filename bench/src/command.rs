//! The whole command, from a CSV file to a plan: its growth, its memory, its reading.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use evenkeel::model::Batch;
use evenkeel::workload::Workload;
use serde_json::Value;

use crate::Race;
use crate::batches::{count, uniform};
use crate::clock::{Contestant, in_turn};
use crate::goals::Goal;
use crate::report::{Cell, Report, Table};
use crate::scaling::{growth, n_small};

/// A row of a plan in memory: what a plan itself takes.
const PLAN_ROW_BYTES: u64 = 24;

pub(crate) fn run(race: &Race, report: &mut Report) -> Result<()> {
    let Some(evenkeel) = &race.args.evenkeel else {
        return Ok(());
    };
    grow(race, report, evenkeel)?;
    read(race, report, evenkeel)
}

/// What a run of `evenkeel plan` reports, and what it took.
#[derive(Clone, Copy, Debug, Default)]
struct Run {
    cpu_s: f64,
    peak_bytes: u64,
    read_s: f64,
    plan_rows: u64,
}

fn plan(race: &Race, evenkeel: &Path, batch: &Path) -> Result<Run> {
    let out = race.peer.file("plan.csv");
    let options = ["--policy", "optimal", "--json", "--out"].map(OsStr::new);
    let mut command = vec![evenkeel.as_os_str(), OsStr::new("plan"), batch.as_os_str()];
    command.extend(options);
    command.push(out.as_os_str());
    let (summary, cpu_s, peak_bytes) = race.peer.measure(&command)?;
    let summary: Value = serde_json::from_str(&summary).context("the command's summary")?;
    let read_s = summary["seconds"]["read"].as_f64().context("no seconds.read in the summary")?;
    let lines = BufReader::new(File::open(&out)?).split(b'\n').count() as u64;
    Ok(Run { cpu_s, peak_bytes, read_s, plan_rows: lines.saturating_sub(1) })
}

fn grow(race: &Race, report: &mut Report, evenkeel: &Path) -> Result<()> {
    let name = format!("command-{}", growth(race));
    if !race.has(&name) {
        return Ok(());
    }
    let base = uniform(n_small(race), 1000);
    let small = write_csv(race, &base)?;
    let large = write_csv(race, &Workload { n_requests: 10 * base.n_requests, ..base.clone() })?;
    let one = write_csv(race, &uniform(1, 1000))?;
    let (mut small_run, mut large_run) = (Run::default(), Run::default());
    let time = |csv: &Path, place: &mut Run| -> Result<f64> {
        *place = plan(race, evenkeel, csv)?;
        Ok(place.cpu_s)
    };
    let [small_time, large_time] = in_turn(
        race.args.repeat,
        [Contestant::new(|| time(&small, &mut small_run)), Contestant::new(|| time(&large, &mut large_run))],
    )?;
    let ratio = large_time.ratio_to(&small_time);
    report.measured(Goal::Growth, &name, ratio);
    let mut table = Table::new("`evenkeel plan` as a whole", &["command", "small ms", "large ms", "×"]);
    table.row([Cell::text(name), Cell::Time(small_time), Cell::Time(large_time), Cell::Ratio(ratio)]);
    report.table(table);

    let own_bytes = plan(race, evenkeel, &one)?.peak_bytes;
    let columns = ["requests", "peak bytes", "of one request", "plan bytes", "bytes a request"];
    let mut table = Table::new("Peak memory of `evenkeel plan`", &columns);
    for (n_requests, run) in [(base.n_requests, small_run), (10 * base.n_requests, large_run)] {
        let plan_bytes = PLAN_ROW_BYTES * run.plan_rows;
        let beyond = run.peak_bytes as f64 - own_bytes as f64 - plan_bytes as f64;
        let a_request = beyond / f64::from(n_requests);
        report.measured(Goal::Memory, &format!("memory-{}", count(n_requests)), a_request);
        table.row([
            Cell::text(count(n_requests)),
            Cell::Count(run.peak_bytes),
            Cell::Count(own_bytes),
            Cell::Count(plan_bytes),
            Cell::Ratio(a_request),
        ]);
    }
    report.table(table);
    Ok(())
}

fn read(race: &Race, report: &mut Report, evenkeel: &Path) -> Result<()> {
    let n_requests = n_small(race);
    let name = format!("csv-{}", count(n_requests));
    if !race.has(&name) {
        return Ok(());
    }
    let csv = write_csv(race, &uniform(n_requests, 1000))?;
    let mut rows = 0;
    let [ours, pandas] = in_turn(
        race.args.repeat,
        [
            Contestant::new(|| Ok(plan(race, evenkeel, &csv)?.read_s)),
            Contestant::new(|| race.peer.pandas_read(&csv).map(|answer| answer.keep(&mut rows))),
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

fn write_csv(race: &Race, workload: &Workload) -> Result<PathBuf> {
    let path = race.peer.file(&format!("batch-{}.csv", workload.n_requests));
    let batch: Batch = workload.generate()?;
    let mut file = BufWriter::new(File::create(&path)?);
    writeln!(file, "client,bytes,replicas")?;
    for (i, set) in batch.replicas().iter().enumerate() {
        write!(file, "{},{},", batch.clients().name(batch.client(i).0), batch.blocks(i))?;
        for (k, server) in set.iter().enumerate() {
            let bar = if k == 0 { "" } else { "|" };
            write!(file, "{bar}{}", batch.servers().name(server.0))?;
        }
        writeln!(file)?;
    }
    file.flush()?;
    Ok(path)
}
