//! The arguments of commands that work on real storage.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::{Args, ValueEnum};
use evenkeel::policy::{OPTIMAL, POLICIES};
use evenkeel_formats::numbers;
use evenkeel_node::drives;

use super::{ImportOutput, LocateStore, block};

fn policy_help() -> String {
    let names: Vec<&str> = POLICIES.iter().filter(|policy| drives(policy).is_ok()).map(|p| p.name).collect();
    format!("Which server serves what: {}; docs/policies.md explains them", names.join(", "))
}

/// Where data is.
#[derive(Debug, Default, Args)]
pub struct SourceArgs {
    /// A mirror of the data: a path, file:///…, http://…, https://…, s3://…, keel://…, hdfs://…, webhdfs://…, root://…, davs://…; once for each mirror
    #[arg(long = "mirror", value_name = "ADDRESS")]
    pub mirrors: Vec<String>,
    /// A manifest of objects and the addresses of their replicas, as CSV: key,bytes,replicas, and sha256 if it is known
    #[arg(long = "manifest", value_name = "FILE")]
    pub manifests: Vec<PathBuf>,
    /// The cluster of keel:// addresses  [default: the file that `EVENKEEL_CLUSTER` names]
    #[arg(long, value_name = "FILE")]
    pub cluster: Option<PathBuf>,
    /// What shows that mirrors have the same object under a name
    #[arg(long, value_enum, default_value_t = TrustName::Checksums)]
    pub trust: TrustName,
    /// Only objects that match: *.csv in any folder, year=2024/ and all below it, a/**/b*; once for each pattern
    #[arg(long, value_name = "PATTERN")]
    pub include: Vec<String>,
    /// No objects that match, even if they are included
    #[arg(long, value_name = "PATTERN")]
    pub exclude: Vec<String>,
}

impl SourceArgs {
    /// What is read if it is a file: manifests, and mirrors and sources that may be Metalinks.
    pub(crate) fn files<'a>(&'a self, sources: &'a [String]) -> Vec<&'a Path> {
        let addresses = self.mirrors.iter().chain(sources).map(Path::new);
        self.manifests.iter().chain(&self.cluster).map(PathBuf::as_path).chain(addresses).collect()
    }
}

/// What shows that two mirrors have the same object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum TrustName {
    /// A checksum that both offer; without one, each object is read from one mirror
    #[default]
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
  evenkeel get --mirror east/ --mirror west/ --trust sizes --policy p2c p2c/
  evenkeel get east/ some/ --include '*b*' --exclude 'old/' --limit 20MB/s
  evenkeel get east/ shared/ --rank 0 --ranks 2   and on another host --rank 1; or --ranks auto
  evenkeel get --manifest manifest.csv elsewhere/

Mirrors hold the same data; several sources without --mirror hold different data. An address that ends with / is a folder, \
listed by WebDAV or its index page. A file, here or at a web server, that ends with .meta4 or .metalink is a Metalink: its \
files are read from all their mirrors, and verified by their hashes; damaged pieces are read again elsewhere. root:// and \
davs:// are read over HTTP. The blocks of files at hdfs://namenode/path are read from all the DataNodes that hold them. A manifest lists objects with the addresses of their replicas: \
key,bytes,replicas[,sha256], as in a.dat,64MiB,https://east/a.dat|https://west/a.dat. A bearer token comes from BEARER_TOKEN or BEARER_TOKEN_FILE, proxies from the usual \
variables.

The plan reads from each server what it can send in the least time for all, by rates that are measured at first or given in \
--servers. A server that turns out slow or fails gets less; what arrives late is read elsewhere, too, within a twentieth of \
all bytes, or 4 MiB. Files get their names when they are complete, on disk and verified. After Ctrl-C or a crash the same command goes \
on where it stopped.

With --ranks, several processes, on one host or many, share the work without talking to each other: each makes the same plan \
and reads whole objects of its own. They may share the folder; a file there, .evenkeel-ranks, shows that all have the same \
plan, and is gone when all are done.

Exit status: 0 everything is there (with --verify: and is shown to be right), 1 something is missing, 2 wrong usage or input, 130 interrupted.")]
#[allow(clippy::struct_excessive_bools)] // each is a flag of its own
pub struct GetArgs {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub source: SourceArgs,
    /// The sources, then the folder to read into
    #[arg(required = true, value_name = "SOURCE… DEST")]
    pub paths: Vec<String>,
    /// Rates and slots of servers, as CSV: server,rate,slots; servers that it does not name are measured
    #[arg(long, value_name = "FILE")]
    pub servers: Option<PathBuf>,
    /// Transfers at once from each server [default: slots of --servers, else 2, for S3 4, more for small objects]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    pub slots: Option<u32>,
    /// The most that is asked for at once [default: what a server sends in a quarter of a second, 1MiB to 16MiB]
    #[arg(long, value_name = "SIZE", value_parser = block)]
    pub range: Option<u64>,
    /// Seconds to wait for a server that is silent, and for one to come back
    #[arg(long, value_name = "SECONDS", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub patience: u64,
    #[arg(long, value_name = "NAME", default_value = OPTIMAL.name, help = policy_help())]
    #[allow(missing_docs)]
    pub policy: String,
    /// Replace files that differ
    #[arg(long)]
    pub overwrite: bool,
    /// The most that is received in a second by this process, such as 20MB/s
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub limit: Option<u64>,
    /// Transfer nothing: compare the folder with every checksum that the sources offer
    #[arg(long, conflicts_with_all = ["overwrite", "limit", "ranks", "rank", "trace", "policy", "per_server"])]
    pub verify: bool,
    /// Share the work with others: this is one of so many processes that read into the same folder, each its own objects.
    /// `auto` takes rank and number from the launcher: Open MPI, MPICH or Slurm. All need the same sources and options;
    /// rates are not measured, but come from --servers, or count as equal
    #[arg(long, value_name = "N|auto")]
    pub ranks: Option<Ranks>,
    /// Which of the processes this is, from 0
    #[arg(long, value_name = "I", requires = "ranks")]
    pub rank: Option<u32>,
    /// Print what happens as JSON, one object a line, the summary last
    #[arg(long)]
    pub json: bool,
    /// Show a bar for each server, on a terminal
    #[arg(long)]
    pub per_server: bool,
    /// Write what is decided and what happens to this file; `evenkeel replay` draws it
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
}

/// How many processes share the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ranks {
    /// As many as the launcher has started.
    Auto,
    /// This many.
    Of(u32),
}

/// More processes than any cluster runs at once are a slip.
const MOST_RANKS: u32 = 1 << 16;

impl FromStr for Ranks {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse() {
            _ if text == "auto" => Ok(Self::Auto),
            Ok(n) if (1..=MOST_RANKS).contains(&n) => Ok(Self::Of(n)),
            _ => Err(format!("write a number from 1 to {MOST_RANKS}, or auto")),
        }
    }
}

fn rate(text: &str) -> Result<u64, String> {
    numbers::rate(text)
}

/// Arguments of `replay`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  evenkeel get --mirror east/ --mirror west/ --trust sizes --trace get.trace traced/
  evenkeel replay get.trace --html replay.html
  evenkeel replay get.trace --json

The page has what each server sent over time, the plan beside it, and all that went wrong. The output of get --json can be \
replayed, too, without single transfers.")]
pub struct ReplayArgs {
    /// The trace that `get --trace` wrote; `-` is standard input
    pub trace: PathBuf,
    /// Draw it as a self-contained page; `-` is standard output
    #[arg(long, visible_alias = "out", value_name = "PAGE.html")]
    pub html: Option<PathBuf>,
    /// Print the figures as one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `locate`.
#[derive(Debug, Args)]
#[command(
    after_help = "\
Examples:
  evenkeel locate ceph --from ceph/ --out groups.csv   who leads what today; then score, explain, compare groups.csv
  evenkeel locate --mirror east/ --mirror west/ --trust sizes --out mirrors.csv
  evenkeel score mirrors.csv                      how far from the optimum reading it is today
  evenkeel locate --manifest manifest.csv --out replicas.csv

The sources are those of evenkeel get. The batch has one request for each object, or with --split for each piece of it, so that every other command works on it.",
    args_conflicts_with_subcommands = true
)]
pub struct LocateArgs {
    /// A store with leaders
    #[command(subcommand)]
    pub store: Option<LocateStore>,
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
