//! The arguments of `assign`.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, ValueEnum};
use evenkeel::policy::Kind;

use super::{ColumnArgs, StorageArgs, listed};

fn policy_help() -> String {
    format!(
        "How tasks are assigned to processes [default: opass-single, or opass-multi if a task has several inputs]\n{}\n",
        listed(|policy| matches!(policy.kind, Kind::Assign(_)))
    )
}

/// Arguments of `assign`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  evenkeel assign tasks.csv --processes procs.csv
  evenkeel assign tasks.csv --processes procs.csv --policy opass-exact --out assignment.csv
  evenkeel assign tasks.csv --processes procs.csv --policy rank --json
  evenkeel assign tasks.csv --processes procs.csv --html served.html
  evenkeel assign tasks.csv --rank 0 --out -                 one process for each server; what the first of them does
  evenkeel assign --mirror east/ --mirror west/ --trust sizes --processes procs.csv
  evenkeel assign --manifest manifest.csv --splits splits.csv --lists lists/

Tasks are a CSV file with one row per input: its size, and which servers hold a copy. Rows with the same task are \
its inputs.
  task,bytes,replicas
  frame0,64MiB,s0|s3|s7

Real storage in place of tasks is listed as by evenkeel locate: every object is a task, and where its parts are on different \
servers, as the blocks of a file in HDFS are, every part. With --by file a task reads all of a file; with --inputs it reads all \
objects that match its patterns.
  task,glob
  frame0,mesh/0*.vtu|pressure/0*.vtu

Processes are a CSV file with the server on the host of each process, or nothing if there is none. A server whose name is an \
address, such as http://d1:9864, may be called by its host, d1.
  process,server
  rank0,s0

--processes auto takes the hosts of all processes from Slurm or PBS, --hosts from a machine file as MPI has it; without either \
there is one process on the host of each server.

The assignment has one row per task: task,process,local_bytes,remote_bytes,from, where from names a server for each input. \
The summary shows how much is read from servers on the processes' own hosts, and the maximum possible. With --out - \
the assignment goes to standard output and the summary to standard error. docs/assign.md shows the other outputs.")]
pub struct AssignArgs {
    /// The tasks, as CSV: task,bytes,replicas, `-` for standard input; or real storage, as for score
    #[arg(required_unless_present_any = ["mirrors", "manifests"])]
    pub tasks: Option<PathBuf>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub storage: StorageArgs,
    /// With real storage: what a task reads
    #[arg(long, value_enum, default_value_t = By::Block)]
    pub by: By,
    /// With real storage: tasks that read several objects, as CSV: task,glob; patterns as for --include, joined by |
    #[arg(long, value_name = "GLOBS.csv", conflicts_with = "by")]
    pub inputs: Option<PathBuf>,
    /// The processes, as CSV: process,server; `-` is standard input, `auto` those of Slurm or PBS [default: one for each
    /// server]
    #[arg(long, value_name = "PROCS.csv|auto")]
    pub processes: Option<PathBuf>,
    /// The hosts of processes in order of ranks, one a line, as a machine file of MPI: host, host:2 or host slots=2
    #[arg(long, value_name = "FILE", conflicts_with = "processes")]
    pub hosts: Option<PathBuf>,
    #[arg(long, value_name = "NAME", help = policy_help())]
    #[allow(missing_docs)]
    pub policy: Option<String>,
    /// What servers have to serve to other jobs, as CSV: server,backlog, which --served of these writes; and how fast they
    /// are: speed beside others, or rate, as probe writes it
    #[arg(long, value_name = "FILE")]
    pub servers: Option<PathBuf>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub columns: ColumnArgs,
    /// Write only what this process does, counted from 0; `auto` asks the launcher: Open MPI, MPICH or Slurm
    #[arg(long, value_name = "I|auto")]
    pub rank: Option<RankName>,
    /// Where to write the assignment; `-` is standard output
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// The format of --out and --splits
    #[arg(long, value_enum, default_value_t = AssignFormat::Csv)]
    pub format: AssignFormat,
    /// A new folder for a list of tasks for each process: 0.csv, 1.csv and so on
    #[arg(long, value_name = "FOLDER")]
    pub lists: Option<PathBuf>,
    /// With real storage: where to write splits with preferred hosts, as record readers of Hadoop and Spark take them:
    /// process,path,start,length,hosts; `-` is standard output
    #[arg(long, value_name = "FILE")]
    pub splits: Option<PathBuf>,
    /// Where to write what each server has to serve, for --servers of the next job; `-` is standard output
    #[arg(long, value_name = "FILE")]
    pub served: Option<PathBuf>,
    /// Where to write a page with a chart of what each server serves; `-` is standard output
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Print the summary as one JSON object
    #[arg(long)]
    pub json: bool,
}

/// What a task reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum By {
    /// A part of an object that is on the same servers throughout, or with --split a piece of it
    Block,
    /// A whole object
    File,
}

/// The format of an assignment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AssignFormat {
    /// A table
    Csv,
    /// One object
    Json,
}

/// Which process this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RankName {
    /// The launcher knows.
    Auto,
    /// This one.
    Of(u32),
}

impl FromStr for RankName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            number => number.parse().map(Self::Of).map_err(|_| "write a number from 0, or auto".to_owned()),
        }
    }
}
