//! The arguments of commands that work on real storage.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::{ImportOutput, block};

/// Where data is.
#[derive(Debug, Args)]
pub struct SourceArgs {
    /// A mirror of the data: a path, file:///…, http://…, https://… or s3://…; once for each mirror
    #[arg(long = "mirror", value_name = "ADDRESS")]
    pub mirrors: Vec<String>,
    /// What shows that mirrors have the same object under a name
    #[arg(long, value_enum, default_value_t = TrustName::Checksums)]
    pub trust: TrustName,
}

/// What shows that two mirrors have the same object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TrustName {
    /// A checksum that both offer; without one, each object is read from one mirror
    Checksums,
    /// The size, unless a checksum says otherwise: for mirrors that are known to be the same
    Sizes,
}

/// Arguments of `get`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  evenkeel get east/ here/                        one source
  evenkeel get --mirror east/ --mirror west/ --trust sizes there/
  evenkeel get --mirror east/ --mirror west/ --trust sizes --overwrite --json there/

Mirrors hold the same data; several sources without --mirror hold different data. An address that ends with / is a folder, \
listed by WebDAV or its index page. A file that ends with .meta4 or .metalink is a Metalink: its files are read from all \
their mirrors, and verified by their hashes. A bearer token comes from BEARER_TOKEN or BEARER_TOKEN_FILE, proxies from the usual \
variables.

The plan reads from each server what it can send in the least time for all, by rates that are measured at first or given in \
--servers. A server that turns out slow or fails gets less; what arrives late is read elsewhere, too, within a twentieth of \
all bytes. Files get their names when they are complete, on disk and verified. After Ctrl-C or a crash the same command goes \
on where it stopped.

Exit status: 0 everything is there, 1 something is missing, 2 wrong usage or input, 130 interrupted.")]
pub struct GetArgs {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub source: SourceArgs,
    /// The sources, then the folder to read into
    #[arg(required = true, value_name = "SOURCE… DEST")]
    pub paths: Vec<String>,
    /// Rates of servers, as CSV: server,rate; servers that it does not name are measured
    #[arg(long, value_name = "FILE")]
    pub servers: Option<PathBuf>,
    /// Transfers at once from each server
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub slots: u32,
    /// The most that is asked for at once
    #[arg(long, value_name = "SIZE", default_value = "1MiB", value_parser = block)]
    pub range: u64,
    /// Seconds to wait for a server that is silent, and for one to come back
    #[arg(long, value_name = "SECONDS", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub patience: u64,
    /// Replace files that differ
    #[arg(long)]
    pub overwrite: bool,
    /// Print the summary as one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `locate`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  evenkeel locate --mirror east/ --mirror west/ --trust sizes --out mirrors.csv
  evenkeel score mirrors.csv                      how far from the optimum reading it is today

The batch has one request for each object, or with --split for each piece of it, so that every other command works on it.")]
pub struct LocateArgs {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub source: SourceArgs,
    /// Sources of different data
    #[arg(value_name = "SOURCE")]
    pub sources: Vec<String>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub output: ImportOutput,
}
