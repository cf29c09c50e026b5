//! Races against peers: the same batches, one run, one core, CPU time, contestants in turn.

mod batches;
mod clock;
mod command;
mod execute;
mod goals;
mod lead;
mod peer;
mod policies;
mod program;
mod report;
mod scaling;
mod schedule;
mod selection;
mod simulate;
mod soak;
mod tasks;
mod unequal;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use clap::Parser;

use peer::Peer;
use report::Report;

/// Races Evenkeel against its peers from Python.
///
/// Speed is reported, not asserted: the exit code is 1 only if a peer disagrees with an optimum.
#[derive(Debug, Parser)]
struct Args {
    /// Small batches only: does the race itself work?
    #[arg(long)]
    quick: bool,
    /// Only rows with one of these in their name; measures them in full
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    rows: Vec<String>,
    /// Runs of each contestant, at least
    #[arg(long, default_value_t = 5, value_name = "N")]
    repeat: usize,
    /// The command `evenkeel`, for the rows that race it as a whole
    #[arg(long, value_name = "FILE")]
    evenkeel: Option<PathBuf>,
    /// Where to write the figures
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Where to write the tables
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
}

/// What every section needs.
struct Race {
    args: Args,
    peer: Peer,
}

impl Race {
    /// Whether the row is requested. Prints its name if so, since rows may take long.
    fn has(&self, row: &str) -> bool {
        let rows = &self.args.rows;
        let asked = rows.is_empty() || rows.iter().any(|name| row.contains(name.as_str()));
        if asked {
            eprintln!("{row}");
        }
        asked
    }
}

fn main() -> Result<ExitCode> {
    let mut args = Args::parse();
    if let Some(file) = &mut args.evenkeel {
        // A wrong path should fail now, not after minutes.
        *file = file.canonicalize().with_context(|| file.display().to_string())?;
    }
    // Before pinning: the installation may use all cores.
    let python = peer::python()?;
    let machine = machine(clock::pin());
    let race = Race { args, peer: Peer::start(python)? };
    let mut report = Report::default();
    report.say(&format!("{machine}\n"));
    report.say("Times are the least CPU milliseconds, with how much longer the median run took.\n");
    if cfg!(debug_assertions) {
        report.say("This is a debug build: it shows that the race works, and its times mean nothing.\n");
    }
    selection::run(&race, &mut report)?;
    schedule::run(&race, &mut report)?;
    scaling::run(&race, &mut report)?;
    unequal::run(&race, &mut report)?;
    policies::run(&race, &mut report)?;
    lead::run(&race, &mut report)?;
    tasks::run(&race, &mut report)?;
    execute::run(&race, &mut report)?;
    soak::run(&race, &mut report)?;
    simulate::run(&race, &mut report)?;
    command::run(&race, &mut report)?;
    ensure!(!report.is_empty(), "no row has one of {:?} in its name", race.args.rows);
    let agreed = report.finish(race.args.quick);
    if let Some(file) = &race.args.markdown {
        std::fs::write(file, report.markdown())?;
    }
    if let Some(file) = &race.args.json {
        std::fs::write(file, format!("{:#}\n", report.json(&machine)))?;
    }
    Ok(if agreed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Processor, core and load, as far as the system reports them.
fn machine(core: Option<usize>) -> String {
    let read = |file| std::fs::read_to_string(file).unwrap_or_default();
    let cpus = read("/proc/cpuinfo");
    let model = cpus.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let model = model.map_or("unknown processor", |(_, name)| name);
    let core = core.map_or_else(|| "not pinned".to_owned(), |core| format!("core {core}"));
    let load = read("/proc/loadavg");
    let load = load.split(' ').next().filter(|load| !load.is_empty()).unwrap_or("unknown");
    format!("{model}, {core}, load average {load} at the start")
}
