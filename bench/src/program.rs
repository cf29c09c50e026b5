//! The command `evenkeel`: how it is run, and the files that it reads.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use evenkeel::workload::Workload;
use serde_json::Value;

use crate::batches::unequal_servers;
use crate::peer::Peer;

/// The command, and the peer process that measures it.
#[derive(Clone, Copy)]
pub(crate) struct Program<'a> {
    pub(crate) file: &'a Path,
    pub(crate) peer: &'a Peer,
}

/// The input of the command.
#[derive(Clone, Debug)]
pub(crate) struct Input {
    pub(crate) batch: PathBuf,
    pub(crate) servers: Option<PathBuf>,
}

/// The output of a run, and what the run took.
#[derive(Clone, Debug, Default)]
pub(crate) struct Run {
    pub(crate) summary: Value,
    pub(crate) cpu_s: f64,
    pub(crate) peak_bytes: u64,
}

impl Run {
    /// A number in the summary, at a path such as `/seconds/read`.
    pub(crate) fn number(&self, path: &str) -> Result<f64> {
        let number = self.summary.pointer(path).and_then(Value::as_f64);
        number.with_context(|| format!("no number {path} in the summary"))
    }
}

impl Program<'_> {
    /// Runs a command such as `["plan", "--no-order"]` on the input.
    pub(crate) fn run(self, command: &[&str], input: &Input) -> Result<Run> {
        self.run_with(command, input, &[])
    }

    /// Runs `plan` with the plan as output. Also returns the number of rows of the plan.
    pub(crate) fn plan(self, input: &Input) -> Result<(Run, u64)> {
        let out = self.peer.file("plan.csv");
        let run = self.run_with(&["plan"], input, &["--out".as_ref(), out.as_os_str()])?;
        let lines = BufReader::new(File::open(&out)?).split(b'\n').count() as u64;
        Ok((run, lines.saturating_sub(1)))
    }

    fn run_with(self, command: &[&str], input: &Input, options: &[&OsStr]) -> Result<Run> {
        let mut args = vec![self.file.as_os_str()];
        args.extend(command.iter().map(OsStr::new));
        args.extend(["--json".as_ref(), input.batch.as_os_str()]);
        if let Some(servers) = &input.servers {
            args.extend(["--servers".as_ref(), servers.as_os_str()]);
        }
        args.extend(options);
        let (summary, cpu_s, peak_bytes) = self.peer.measure(&args)?;
        let summary = serde_json::from_str(&summary).context("the command's summary")?;
        Ok(Run { summary, cpu_s, peak_bytes })
    }

    /// Writes the batch, on equal servers.
    pub(crate) fn input(self, name: &str, workload: &Workload) -> Result<Input> {
        let path = self.peer.file(&format!("{name}.csv"));
        let batch = workload.generate()?;
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
        Ok(Input { batch: path, servers: None })
    }

    /// Writes the batch, and a file that describes its unequal servers.
    pub(crate) fn unequal_input(self, name: &str, workload: &Workload) -> Result<Input> {
        let path = self.peer.file(&format!("{name}-servers.csv"));
        let mut file = BufWriter::new(File::create(&path)?);
        writeln!(file, "server,speed,backlog")?;
        for (id, server) in unequal_servers(workload.n_requests, workload.n_servers)?.iter().enumerate() {
            let speed = server.speed.millionths() / 1_000_000;
            writeln!(file, "s{id},{speed},{}", server.backlog)?;
        }
        file.flush()?;
        Ok(Input { servers: Some(path), ..self.input(name, workload)? })
    }
}
