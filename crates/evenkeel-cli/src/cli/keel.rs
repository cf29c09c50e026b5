//! The arguments of commands on clusters: `put`, `ls`, `stat`, `rm`, `status` and `maintain`.

#![allow(clippy::doc_markdown)] // help texts are no Markdown

use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;
use evenkeel::policy::placing;
use evenkeel_formats::numbers;
use evenkeel_node::write::Placement;
use evenkeel_store::cluster::KeelAddress;

use super::{block, size};

/// More writes in a window than this are a slip.
const MOST_WRITES: u64 = 1 << 20;

fn placements() -> String {
    let lines =
        placing().map(|(policy, _)| format!("{}: {} – {}", policy.name, policy.summary, policy.source));
    format!("Where objects go\n{}\n\n`nltr:3` has three levels.\n", lines.collect::<Vec<_>>().join("\n"))
}

fn rate(text: &str) -> Result<u64, String> {
    numbers::rate(text)
}

/// Which cluster.
#[derive(Debug, Args)]
pub struct ClusterArgs {
    /// The cluster file  [default: the one that `EVENKEEL_CLUSTER` names]
    #[arg(long, value_name = "FILE")]
    pub cluster: Option<PathBuf>,
}

/// Which cluster, and how many copies objects have.
#[derive(Debug, Args)]
pub struct CopiesArgs {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub cluster: ClusterArgs,
    /// Copies of each object, on different servers  [default: as the cluster file says, or 1]
    #[arg(long, value_name = "R", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub replicas: Option<u32>,
}

/// Arguments of `put`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  evenkeel up --nodes 4 --data nodes --speed s3=0.1 &     a cluster to try it on
  export EVENKEEL_CLUSTER=nodes/cluster.toml
  evenkeel put photos/ keel://data/photos/                all files below photos/
  evenkeel put a.iso keel://data/b.iso                    one file under another name
  evenkeel put - keel://data/c.iso < a.iso                standard input
  evenkeel put photos/ keel://data/photos/ --placement rr --json
  evenkeel put --offset 1GiB part keel://data/volume      into an object; others may write other parts at the same time
  evenkeel get keel://data/photos/ copy/

Every object has a home, which follows from its name. Where the home is slow or busy the bytes go to another server, and an entry \
at the home says where. A node answers for such an object as if it had it; evenkeel maintain brings it home later. An object \
counts as written when its bytes and its entry are on disk. Files larger than --piece are cut into pieces, each of which goes its \
own way.

What this command learns about servers, from how long they took, decides with: under mlml, trh and nltr a server that takes ten \
times as long gets about a tenth, whoever makes it slow. --log keeps that for the next run. --no-completions learns nothing: \
the log of paper 004.

Standard input is kept in a file below TMPDIR before it is written, so it needs no memory, but room for all of it.

What is there already, by its checksum, is not written again, so the same command goes on where one was broken off. Other content under a \
name is refused, unless --overwrite replaces it.

Exit status: 0 everything is there, 1 some objects could not be written, 2 wrong usage or input, 130 interrupted.")]
#[allow(clippy::struct_excessive_bools)] // each is a flag of its own
pub struct PutArgs {
    /// Files and folders, or `-` for standard input, then the address to write to: `keel://bucket/prefix/`, or
    /// `keel://bucket/key` for one file
    #[arg(required = true, num_args = 2.., value_name = "PATH… ADDRESS")]
    pub paths: Vec<String>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub copies: CopiesArgs,
    /// Replace objects that have other content
    #[arg(long)]
    pub overwrite: bool,
    /// Write one file into an object from this byte on; where there is nothing before, it reads as zeros
    #[arg(long, value_name = "BYTE", conflicts_with = "overwrite", value_parser = size)]
    pub offset: Option<u64>,
    #[arg(long, value_name = "NAME", default_value = "mlml", help = placements())]
    #[allow(missing_docs)]
    pub placement: Placement,
    /// How many writes are placed together at most
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..=MOST_WRITES))]
    pub window: u64,
    /// How long a write waits for others, and how much work is placed together at most, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 500, value_parser = clap::value_parser!(u64).range(1..=3_600_000))]
    pub window_time: u64,
    /// Cut larger files into pieces of this size
    #[arg(long, value_name = "SIZE", default_value = "16MiB", value_parser = block)]
    pub piece: u64,
    /// Transfers to each server at once
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=256))]
    pub slots: u64,
    /// By how much lighter than the home another server has to be
    #[arg(long, value_name = "SIZE", default_value = "1MiB", value_parser = size)]
    pub threshold: u64,
    /// Sort servers again for each write, not once for each window
    #[arg(long)]
    pub resort: bool,
    /// Do not learn which writes are done and how long they took
    #[arg(long)]
    pub no_completions: bool,
    /// Keep what is learnt in this file from run to run
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
    /// Seed of all random choices  [default: another one each time]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Print the result as one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `ls`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  evenkeel ls keel://data/
  evenkeel ls -l keel://data/photos/
  evenkeel ls --json keel://data/ | wc -l

With -l: the size, the servers that hold the bytes, and the home if it is not among them. With --json one object a line.

Exit status: 0 everything is listed, 1 some servers cannot be listed or some objects cannot be read, 2 wrong usage or input.")]
pub struct LsArgs {
    /// What names of objects begin with
    #[arg(value_name = "ADDRESS")]
    pub address: KeelAddress,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub copies: CopiesArgs,
    /// Show sizes and servers, too
    #[arg(short, long)]
    pub long: bool,
    /// Print each object as a line of JSON
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `stat`.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  evenkeel stat keel://data/photos/1.jpg

Shows the size, the checksum, the home and what it has, the servers that hold the bytes, and servers that have something under this \
name without being a home of it (strays), which is never read.

Exit status: 0 it is there, 1 it is not there or cannot be read, 2 wrong usage or input.")]
pub struct StatArgs {
    /// The object
    #[arg(value_name = "ADDRESS")]
    pub address: KeelAddress,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub copies: CopiesArgs,
    /// Print it as one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `rm`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  evenkeel rm keel://data/b.iso
  evenkeel rm --recursive --dry-run keel://data/photos/
  evenkeel rm --recursive keel://data/photos/

First the entry at home goes, then the bytes that it names. An object whose home cannot be reached is left as it is.

Exit status: 0 everything is deleted, 1 something is not, or was not there, 2 wrong usage or input.")]
pub struct RmArgs {
    /// Objects, or with --recursive what names of objects begin with
    #[arg(required = true, value_name = "ADDRESS")]
    pub addresses: Vec<KeelAddress>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub copies: CopiesArgs,
    /// Delete everything below `keel://bucket/prefix/`
    #[arg(short, long)]
    pub recursive: bool,
    /// Show what would be deleted
    #[arg(long)]
    pub dry_run: bool,
    /// Print the result as one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `status`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  evenkeel status
  evenkeel status keel://data/      with what is not at home, and what is where it does not belong

Exit status: 0 all servers answer, 1 some do not, 2 wrong usage or input.")]
pub struct StatusArgs {
    /// A bucket, or a part of one, to be looked through
    #[arg(value_name = "ADDRESS")]
    pub address: Option<KeelAddress>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub copies: CopiesArgs,
    /// Print it as one JSON object
    #[arg(long)]
    pub json: bool,
}

/// What is maintained.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// All buckets.
    Everything,
    /// A bucket, or a part of one.
    Below(KeelAddress),
}

impl FromStr for Scope {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if matches!(text, "keel://" | "keel:///") {
            Ok(Self::Everything)
        } else {
            text.parse().map(Self::Below)
        }
    }
}

/// Arguments of `maintain`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  evenkeel maintain --dry-run keel://data/
  evenkeel maintain keel://data/ --rate 50MB/s
  evenkeel maintain keel://                                all buckets

Brings objects home that were written elsewhere, and deletes pieces that no entry names and that are older than --grace. A write that \
comes meanwhile wins. Nodes that were started with a cluster file do the same by themselves while nobody uses them. Servers without conditional writes keep what they hold. Only what carries our own mark is ever deleted.

On a cluster with servers that are not nodes, it shows what it would do unless --apply is given.

Exit status: 0 done, 1 something went wrong, 2 wrong usage or input, 130 interrupted.")]
pub struct MaintainArgs {
    /// The bucket, or what names of objects in it begin with; `keel://` is all buckets
    #[arg(value_name = "ADDRESS")]
    pub address: Scope,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub copies: CopiesArgs,
    /// Do it, also on servers that are not nodes
    #[arg(long, conflicts_with = "dry_run")]
    pub apply: bool,
    /// Show what would be done
    #[arg(long)]
    pub dry_run: bool,
    /// The most that is moved in a second, such as 50MB/s
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub rate: Option<u64>,
    /// How long a piece that nothing names is left alone, in seconds; less than 12 hours only while nobody writes
    #[arg(long, value_name = "SECONDS", default_value_t = 86_400)]
    pub grace: u64,
    /// Print each step as a line of JSON, the summary last
    #[arg(long)]
    pub json: bool,
}
