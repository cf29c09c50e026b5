//! Tasks for processes and places for writes: against a maximum flow, and against copying the file.

use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::path::Path;

use anyhow::{Result, ensure};
use evenkeel::assign::{self, Work, WorkBuilder};
use evenkeel::model::{Batch, ServerId};
use evenkeel::workload::Workload;

use crate::Race;
use crate::batches::{count, uniform};
use crate::clock::{Contestant, cpu_s, in_turn};
use crate::goals::Goal;
use crate::report::{Cell, Report, Table};

pub(crate) fn run(race: &Race, report: &mut Report) -> Result<()> {
    assign(race, report)?;
    place(race, report)
}

/// The largest setting of paper 003's Fig. 22: 128 chunks a process, three copies, a process on every server.
fn assign(race: &Race, report: &mut Report) -> Result<()> {
    let n_servers = if race.args.quick { 256 } else { 4096 };
    let n_chunks = 128 * n_servers;
    let name = format!("assign-{n_chunks}-{n_servers}");
    if !race.has(&name) {
        return Ok(());
    }
    let workload = Workload { n_clients: 1, ..uniform(n_chunks, n_servers) };
    let batch = workload.generate()?;
    ensure!(batch.n_servers() == n_servers as usize, "every server holds something");
    let work = work(&batch)?;
    let local = assign::opass_single::assign(&work)?.measures(&work).local_bytes;
    race.peer.load_batch(&batch)?;
    let mut flow = 0;
    let [ours, ortools] = in_turn(
        race.args.repeat,
        [
            Contestant::new(|| Ok(cpu_s(|| assign::opass_single::assign(&work)))),
            Contestant::new(|| race.peer.ortools_flow(128).map(|answer| answer.keep(&mut flow))),
        ],
    )?;
    report.agree(&name, "chunks read locally", flow, local);
    let ratio = ortools.ratio_to(&ours);
    report.measured(Goal::Assign, &name, ratio);
    let mut table =
        Table::new("Tasks for processes", &["assign", "local", "ms", "OR-tools ms", "× OR-tools"]);
    let cells =
        [Cell::text(name), Cell::Count(local), Cell::Time(ours), Cell::Time(ortools), Cell::Ratio(ratio)];
    table.row(cells);
    report.table(table);
    Ok(())
}

/// Each request's data as a task of one byte, and a process on every server.
fn work(batch: &Batch) -> Result<Work> {
    let mut work = WorkBuilder::new();
    for set in batch.replicas().iter() {
        work.input(1, set)?;
        work.end_task();
    }
    let homes = (0..batch.n_servers() as u32).map(|server| Some(ServerId(server)));
    Ok(work.finish(batch.n_servers(), homes.collect())?)
}

/// `evenkeel place` on a file of writes, against copying that file record by record.
fn place(race: &Race, report: &mut Report) -> Result<()> {
    let n_writes = if race.args.quick { 50_000 } else { 1_000_000 };
    let name = format!("place-{}", count(n_writes));
    let Some(evenkeel) = &race.args.evenkeel else { return Ok(()) };
    if !race.has(&name) {
        return Ok(());
    }
    let [writes, servers, places, copy] =
        ["writes.csv", "write-servers.csv", "places.csv", "copy.csv"].map(|file| race.peer.file(file));
    let mut file = BufWriter::new(File::create(&writes)?);
    writeln!(file, "object,offset,bytes")?;
    for i in 0..u64::from(n_writes) {
        // Objects and sizes repeat, but with different periods.
        writeln!(file, "{},{},{}", i * 7919 % 100_003, i % 64 * 65536, 4096 + i * 104_729 % 1_048_576)?;
    }
    file.flush()?;
    let mut file = BufWriter::new(File::create(&servers)?);
    writeln!(file, "server,backlog")?;
    (0..100).try_for_each(|i| writeln!(file, "s{i},{}", i * 1_000_000))?;
    file.flush()?;
    let mut table = Table::new("Places for writes", &["place", "copy of the CSV ms", "ms", "× copy"]);
    for policy in ["mlml", "trh", "nltr", "two-choice", "hm-lru"] {
        let command = [
            evenkeel.as_os_str(),
            "place".as_ref(),
            writes.as_os_str(),
            "--servers".as_ref(),
            servers.as_os_str(),
            "--policy".as_ref(),
            policy.as_ref(),
            "--out".as_ref(),
            places.as_os_str(),
        ];
        let [copied, ours] = in_turn(
            race.args.repeat.min(3),
            [
                Contestant::new(|| copy_csv(&writes, &copy)),
                Contestant::new(|| Ok(race.peer.measure(&command)?.1)),
            ],
        )?;
        let (name, ratio) = (format!("{name}-{policy}"), ours.ratio_to(&copied));
        report.measured(Goal::Place, &name, ratio);
        table.row([Cell::text(name), Cell::Time(copied), Cell::Time(ours), Cell::Ratio(ratio)]);
    }
    report.table(table);
    Ok(())
}

fn copy_csv(from: &Path, to: &Path) -> Result<f64> {
    let mut result = Ok(());
    let seconds = cpu_s(|| {
        result = (|| -> Result<()> {
            let mut reader = csv::Reader::from_reader(BufReader::new(File::open(from)?));
            let mut writer = csv::Writer::from_writer(BufWriter::new(File::create(to)?));
            writer.write_byte_record(reader.byte_headers()?)?;
            let mut record = csv::ByteRecord::new();
            while reader.read_byte_record(&mut record)? {
                writer.write_byte_record(&record)?;
            }
            writer.flush()?;
            Ok(())
        })();
    });
    result.map(|()| seconds)
}
