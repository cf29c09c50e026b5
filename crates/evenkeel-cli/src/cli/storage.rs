//! The arguments of commands on real storage that read no data: `probe`, and what takes the place of a batch.

use std::path::PathBuf;

use clap::Args;

use super::{ProbeStore, SourceArgs, block};

/// Real storage in place of a batch or tasks.
#[derive(Debug, Default, Args)]
pub struct StorageArgs {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub source: SourceArgs,
    /// With real storage: split anything larger than this into several requests, such as 64MiB
    #[arg(long, value_name = "SIZE", value_parser = block)]
    pub split: Option<u64>,
}

/// Arguments of `probe`.
#[derive(Debug, Args)]
#[command(
    after_help = "\
Examples:
  evenkeel probe --mirror east/ --mirror west/ --trust sizes --seconds 1
  evenkeel probe --mirror east/ --mirror west/ --trust sizes --seconds 1 --out rates.csv
  evenkeel get --mirror east/ --mirror west/ --trust sizes --servers rates.csv copy/
  evenkeel score --mirror east/ --mirror west/ --trust sizes --servers rates.csv

Every server is read from for some seconds, and what arrives is thrown away. All servers are measured at the same time, since \
a plan uses them at the same time: what this machine can receive is then shared among them, as it will be. With --alone each \
has a turn of its own. The file has a row for each server: server,rate,slots, where the rate is bytes per second of all slots \
together. A server that sends nothing is left out.

The OSDs of a Ceph cluster are measured by `evenkeel probe ceph`; a folder of that name is ./ceph.

Exit status: 0 all servers were measured, 1 some sent nothing, 2 wrong usage or input.",
    args_conflicts_with_subcommands = true
)]
pub struct ProbeArgs {
    /// A store with leaders
    #[command(subcommand)]
    pub store: Option<ProbeStore>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub source: SourceArgs,
    /// Sources of different data
    #[arg(value_name = "SOURCE")]
    pub sources: Vec<String>,
    /// How long to measure
    #[arg(long, value_name = "SECONDS", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub seconds: u64,
    /// Measure one server after the other
    #[arg(long)]
    pub alone: bool,
    /// Transfers at once from each server
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub slots: u32,
    /// The most that is asked for at once
    #[arg(long, value_name = "SIZE", default_value = "1MiB", value_parser = block)]
    pub range: u64,
    /// Where to write the servers file; `-` is standard output
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Print the result as one JSON object
    #[arg(long)]
    pub json: bool,
}
