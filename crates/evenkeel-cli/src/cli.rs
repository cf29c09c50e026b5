//! The arguments of each command. The help texts teach by example.

mod assign;
mod balance;
mod cat;
mod fewest;
mod import;
mod keel;
mod live;
mod node;
mod storage;

use std::num::NonZeroU64;
use std::path::{Path, PathBuf};

use clap::{Args, Parser, Subcommand, ValueEnum};
use evenkeel::place::MAX_LEVELS;
use evenkeel::policy::{self, Kind, Policy};
use evenkeel::select::opass_tenant::IMBALANCE_BLOCKS;
use evenkeel_formats::{Reading, numbers};

pub use assign::{AssignArgs, AssignFormat, By, RankName};
pub use balance::{
    BalanceArgs, BalanceStore, CephArgs, KafkaArgs, KafkaWeighName, LeadArgs, LocateStore, ProbeStore,
    WatchArgs, WeighName,
};
pub use cat::CatArgs;
pub use fewest::{FewestArgs, FewestName};
pub use import::{
    CsvArgs, DealName, HdfsFsckArgs, ImportArgs, ImportOutput, ImportSource, MetalinkArgs, RcloneLsjsonArgs,
    S3InventoryArgs,
};
pub use keel::{ClusterArgs, CopiesArgs, LsArgs, MaintainArgs, PutArgs, RmArgs, Scope, StatArgs, StatusArgs};
pub use live::{GetArgs, LocateArgs, Ranks, ReplayArgs, SourceArgs, TrustName};
pub use node::{LogName, NodeArgs, UpArgs, Whether};
pub use storage::{ProbeArgs, StorageArgs};

/// More threads than any machine has processors are a slip.
const MOST_THREADS: i64 = 1024;

/// Plan parallel I/O over replicated storage: which replica serves each request, and when, so that the job ends
/// as early as can be proved possible.
#[derive(Debug, Parser)]
#[command(
    name = "evenkeel",
    version,
    max_term_width = 100,
    after_help = "\
Start here:
  evenkeel demo                            nodes on this machine, one of them slow: written and read, side by side
  evenkeel generate --out batch.csv        a batch to try things on
  evenkeel import --help                   a batch from what you have: HDFS, S3, mirrors, rclone, CSV
  evenkeel plan batch.csv --out plan.csv   the shortest plan, with its proof
  evenkeel check batch.csv plan.csv        verify it from scratch
  evenkeel explain batch.csv               what limits it, and what would help
  evenkeel compare batch.csv               all policies on it, side by side
  evenkeel simulate batch.csv              run it on a simulated cluster, under several policies
  evenkeel get --help                      read real data by a plan, from several mirrors at once
  evenkeel balance --help                  who leads in Ceph and Kafka, by bytes, reads and speeds, without moving data

A batch is a CSV file with one row per request: who wants how much, and which servers hold a copy.
  client,bytes,replicas
  c0,1,s0|s3|s7

Exit status: 0 success, 1 a check failed, 2 invalid usage or input, 130 interrupted."
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What the command can do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Choose a replica and a slot for every request
    Plan(PlanArgs),
    /// Verify a plan, and the proof in its summary, from scratch
    Check(CheckArgs),
    /// Rate a plan, a policy, or what most systems do today: its length divided by the proven bound
    Score(ScoreArgs),
    /// Show what limits a batch, and what would help: copies, a faster server, more slots or clients
    Explain(ExplainArgs),
    /// Apply a piece of advice from explain to a batch
    Apply(ApplyArgs),
    /// Compare all policies on one batch, side by side
    Compare(CompareArgs),
    /// Give tasks to processes that have the data on their hosts
    Assign(AssignArgs),
    /// Read what a list says, each part from the server that it names: what assign gave to one process
    Cat(CatArgs),
    /// Order the requests of collective I/O that wait at servers
    Collective(CollectiveArgs),
    /// Choose servers for writes
    Place(PlaceArgs),
    /// Simulate a cluster under several policies: slow servers, outages, arrivals over time
    Simulate(SimulateArgs),
    /// Repeat the experiments of the papers, claim by claim
    Reproduce(ReproduceArgs),
    /// Read a data set by a plan, from folders, web servers or mirrors of them
    Get(GetArgs),
    /// Write files into a cluster, each where a policy says, with an entry where it belongs
    Put(PutArgs),
    /// List what is in a cluster
    Ls(LsArgs),
    /// Show where an object of a cluster is
    Stat(StatArgs),
    /// Delete objects of a cluster
    Rm(RmArgs),
    /// Show the servers of a cluster: who is up, how loaded, how full
    Status(StatusArgs),
    /// Bring objects of a cluster home, and delete what nothing names any more
    Maintain(MaintainArgs),
    /// Draw what happened during a get: bytes per server over time, the plan beside the truth
    Replay(ReplayArgs),
    /// Choose who leads in stores where one server leads each group of data: Ceph, Kafka
    Balance(BalanceArgs),
    /// Run a node beside storage: S3, with slots, redirects and reports of its load
    Node(NodeArgs),
    /// Run a cluster of nodes on this machine, to try things on
    Up(UpArgs),
    /// Make a batch of what is on real storage
    Locate(LocateArgs),
    /// Measure how fast servers send, and keep it in a servers file
    Probe(ProbeArgs),
    /// Make a batch from the output of other tools: HDFS, Metalink, S3, rclone, any CSV
    Import(ImportArgs),
    /// Draw a batch to try things on
    Generate(GenerateArgs),
    /// Plan a hot spot under several policies, side by side
    Demo(DemoArgs),
    /// Print the completions for a shell
    #[command(after_help = "Example:\n  evenkeel completions bash > evenkeel.bash")]
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Print the manual page, of evenkeel or of one of its commands
    #[command(after_help = "Example:\n  evenkeel man plan | man -l -")]
    Man {
        /// The command, such as `plan` or `import csv`; without it the overview.
        command: Vec<String>,
    },
}

/// Columns that are not to be read.
#[derive(Clone, Debug, Default, Args)]
pub struct ColumnArgs {
    /// Columns to skip in the input files, separated by commas
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub ignore_columns: Vec<String>,
}

impl ColumnArgs {
    /// How the file of that name is read.
    pub(crate) fn reading<'a>(&'a self, file: &'a str) -> Reading<'a> {
        Reading { ignored: &self.ignore_columns, ..Reading::of(file) }
    }
}

/// Where the batch comes from.
#[derive(Debug, Args)]
pub struct BatchArgs {
    /// The batch, CSV or JSON, `-` for standard input; or real storage: a folder, an address such as https://…, a Metalink
    #[arg(required_unless_present_any = ["mirrors", "manifests"])]
    pub batch: Option<PathBuf>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub storage: StorageArgs,
    /// The servers, as CSV: server,speed,slots,backlog,host,rate,…; must list every server
    #[arg(long, value_name = "FILE")]
    pub servers: Option<PathBuf>,
    /// The clients, as CSV: client,slots,host; must list every client
    #[arg(long, value_name = "FILE")]
    pub clients: Option<PathBuf>,
    /// Bytes in a block, such as 4096 or 1MiB; sizes are rounded up to whole blocks
    #[arg(long, value_name = "SIZE", default_value_t = 1, value_parser = block)]
    pub block: u64,
    /// Maximum number of concurrent transfers in the cluster; not with backlogs or different speeds
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u64).range(1..))]
    pub max_concurrent: Option<u64>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub columns: ColumnArgs,
}

impl BatchArgs {
    /// The files that are read.
    pub(crate) fn paths(&self) -> Vec<&Path> {
        let optional = [self.servers.as_deref(), self.clients.as_deref(), self.batch.as_deref()];
        optional.into_iter().flatten().chain(self.storage.source.files(&[])).collect()
    }

    /// The name of the batch in messages.
    pub(crate) fn name(&self) -> String {
        self.batch.as_deref().map_or_else(|| "the mirrors".to_owned(), |path| path.display().to_string())
    }

    /// How the file of that name is read.
    pub(crate) fn reading<'a>(&'a self, file: &'a str) -> Reading<'a> {
        let block = NonZeroU64::new(self.block).unwrap_or(NonZeroU64::MIN);
        Reading { block, ..self.columns.reading(file) }
    }
}

fn block(text: &str) -> Result<u64, String> {
    size(text).and_then(|bytes| {
        if bytes > 0 { Ok(bytes) } else { Err("a block cannot have 0 bytes; use at least 1".to_owned()) }
    })
}

fn size(text: &str) -> Result<u64, String> {
    numbers::size(text, "size")
}

/// What the choice of replicas minimizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Objective {
    /// The length of the schedule (makespan); with --no-order, the largest server load
    Max,
    /// The mean completion time of a block, if each slot serves blocks one at a time; this also minimizes the largest
    /// load, unless slots can share blocks (several slots, and speeds other than 1)
    Mean,
}

fn listed(is_listed: fn(&Policy) -> bool) -> String {
    let lines = policy::POLICIES.iter().filter(|policy| is_listed(policy)).map(|p| {
        let alias = p.alias.map(|alias| format!(" (or {alias})")).unwrap_or_default();
        format!("{}{alias}: {} – {}", p.name, p.summary, p.source)
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// The policies that people need; the others are of the papers that they were compared in.
const USUAL: [&str; 12] = [
    "optimal",
    "first",
    "nearest",
    "random",
    "lddf",
    "equi",
    "aequi",
    "opass-tenant",
    "least-loaded",
    "p2c",
    "hedged",
    "hdlwf",
];

fn policy_help() -> String {
    let others = policy::POLICIES.iter().filter(|policy| policy.plans() && !USUAL.contains(&policy.name));
    let others: Vec<&str> = others.map(|policy| policy.name).collect();
    format!(
        "How replicas are chosen [default of plan: optimal]\n{}\n\nOthers, explained in docs/policies.md: {}. The name of an \
         order means the optimal choice in that order; `compare` runs all of them\n",
        listed(|policy| USUAL.contains(&policy.name)),
        others.join(", ")
    )
}

fn order_help() -> String {
    let orders = listed(|policy| matches!(policy.kind, Kind::Order(_)));
    format!("How transfers are ordered [default: colour, or the policy's own order]\n{orders}\n")
}

/// Which of several equally good candidates is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TiesName {
    /// By hash: each client or server has its own preferences
    Hashed,
    /// The lowest id
    Lowest,
}

/// Which plan.
#[derive(Debug, Args)]
pub struct PolicyArgs {
    #[arg(long, value_name = "NAME", help = policy_help())]
    #[allow(missing_docs)]
    pub policy: Option<String>,
    #[arg(long, value_name = "NAME", help = order_help())]
    #[allow(missing_docs)]
    pub order: Option<String>,
    /// Choose replicas only; do not order the transfers
    #[arg(long, conflicts_with = "order")]
    pub no_order: bool,
    /// Never split a request between servers. Server loads exceed the optimum by at most the largest request
    #[arg(long)]
    pub whole: bool,
    /// What the optimal choice minimizes
    #[arg(long, value_enum, default_value_t = Objective::Max)]
    pub objective: Objective,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub tuning: TuningArgs,
}

/// What only some policies care about.
#[derive(Debug, Args)]
pub struct TuningArgs {
    /// Seed of all random choices
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// How bidding and nearest break ties
    #[arg(long, value_enum, default_value_t = TiesName::Hashed)]
    pub ties: TiesName,
    /// hdlwf-rebid, mpasses: how often a client may bid in a round
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=MOST_BIDS))]
    pub passes: u32,
    /// hdlwf-multi: simultaneous bids per client
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=MOST_BIDS))]
    pub bids: u32,
    /// opass-tenant: how many blocks server loads may differ by before other copies than the nearest are read
    #[arg(long, value_name = "N", default_value_t = IMBALANCE_BLOCKS)]
    pub imbalance: u64,
}

/// More are never of use.
const MOST_BIDS: i64 = 1 << 20;

/// Arguments of `plan`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  evenkeel plan batch.csv --out plan.csv
  evenkeel plan batch.csv --out plan.csv --steps steps.csv
  evenkeel plan batch.json --block 1MiB --json > summary.json
  zcat batch.csv.gz | evenkeel plan - --no-order --out -
  evenkeel plan leaders.csv --no-order --fewest --out plan.csv      who leads, with the fewest changes
  evenkeel plan leaders.csv --no-order --within 1.05                fewer changes, nearly as good

The plan has one row per transfer: request,client,server,start,blocks. A request is its row in the batch, from 0; if \
it is split between replicas, or interrupted and resumed, it has several rows. The summary has the length, the \
lower bound that no plan beats, and what forces it. With --out - the plan goes to standard output and the summary \
to standard error.

The steps are the same plan, ready to execute: start,end,client,server,request,chunk,offset,bytes, sorted by start. \
Times are seconds if the servers file has rates. The byte ranges of a request do not overlap and cover it exactly.

If a batch has a column `current`, the server that serves each request today, --fewest finds the plan that changes the least of it, and how much fewer changes would do; with requests of one size exactly.")]
pub struct PlanArgs {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub input: BatchArgs,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub policy: PolicyArgs,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub fewest: FewestArgs,
    /// Where to write the plan; `-` is standard output
    #[arg(long, value_name = "PLAN.csv")]
    pub out: Option<PathBuf>,
    /// Where to write the plan in order of time, with the byte range of every transfer; `-` is standard output
    #[arg(long, value_name = "STEPS.csv", conflicts_with = "no_order")]
    pub steps: Option<PathBuf>,
    /// Print the summary as one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `check`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  evenkeel plan batch.csv --out plan.csv --json > summary.json
  evenkeel check batch.csv plan.csv --summary summary.json

Checked: every request is fully served, only by servers that hold a replica, no client and no server has more \
transfers at once than slots, no server serves before its backlog is done, and the limit on concurrency holds. With --summary also: the summary is of this plan, its figures are right, and the bottleneck \
proves the bound. Exit status 1 if the plan is wrong, 2 if it is for another batch.")]
pub struct CheckArgs {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub input: BatchArgs,
    /// The plan to verify; `-` is standard input
    #[arg(required_unless_present_any = ["mirrors", "manifests"])]
    pub plan: Option<PathBuf>,
    /// The summary that `plan --json` printed
    #[arg(long, value_name = "FILE")]
    pub summary: Option<PathBuf>,
    /// The plan has no order: check the choice of replicas only
    #[arg(long)]
    pub no_order: bool,
    /// No request may be split between servers
    #[arg(long)]
    pub whole: bool,
    /// Print the result as one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `score`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  evenkeel score batch.csv                    how far today's defaults are from the optimum
  evenkeel score batch.csv --policy first     the same for one policy
  evenkeel score batch.csv plan.csv           the same for a given plan
  evenkeel score --mirror east/ --mirror west/ --trust sizes

1.0 is perfect: no plan is shorter. 2.0 means that half of the time is lost. Without a plan or a policy, first, random \
and nearest are scored, which is what most systems do today, and optimal for comparison. nearest uses the hosts in the \
servers and clients files; where they are missing, each client prefers some servers by hash.

Real storage in place of a batch is listed as by evenkeel locate: every object is a request, and there are as many clients as \
servers, unless --clients names others. All servers count as equally fast without --servers, which evenkeel probe makes.")]
pub struct ScoreArgs {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub input: BatchArgs,
    /// The plan to score; without it, the plan of --policy, or those of the usual policies
    #[arg(conflicts_with = "policy")]
    pub plan: Option<PathBuf>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub policy: PolicyArgs,
    /// Print the result as one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `explain`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  evenkeel explain batch.csv
  evenkeel explain batch.csv --servers servers.csv --out copies.csv
  evenkeel explain batch.csv --no-order --json
  evenkeel explain batch.csv --advice advice.json
  evenkeel explain east/                      of what is there; see score --help

The report shows the servers, the client or the limit that force the bound; the fewest blocks that need one more copy, and \
where, to lower the bound by 1, 5 and 10 %; the copies that matter, beyond which not even one more copy of everything \
would help; and the one server that would help most if it were twice as fast. If a client is the bottleneck, it shows what \
more slots, one more client or other clients would gain. All bounds are computed, none is estimated: follow the advice \
(evenkeel apply does), plan again, and you get the promised bound.")]
pub struct ExplainArgs {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub input: BatchArgs,
    /// Explain the server loads, not the length of the schedule
    #[arg(long)]
    pub no_order: bool,
    /// Where to write the copies for 1, 5 and 10 %, as CSV: percent,request,client,from,to,blocks; `-` is standard output
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Where to write all advice for `evenkeel apply`, as JSON; `-` is standard output
    #[arg(long, value_name = "FILE")]
    pub advice: Option<PathBuf>,
    /// Print everything as one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `apply`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  evenkeel explain batch.csv --advice advice.json
  evenkeel apply advice.json batch.csv --take slots --clients-out clients.csv
  evenkeel plan batch.csv --clients clients.csv

Give the same batch, servers, clients and --block as to explain. Name a file for whatever the advice changes: --out for copies \
and moved work, --servers-out for a faster server, --clients-out for slots and new clients. The bound of the result is \
computed, and nothing is written unless it is as promised.")]
pub struct ApplyArgs {
    /// What `explain --advice` wrote; `-` is standard input
    pub advice: PathBuf,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub input: BatchArgs,
    /// Which piece of advice: copies-1, copies-5, copies-10, copies-all, faster-server, slot, slot-each, slots, client, spread
    #[arg(long, value_name = "NAME")]
    pub take: Option<String>,
    /// Where to write the batch; `-` is standard output
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Where to write the servers file; `-` is standard output
    #[arg(long, value_name = "FILE")]
    pub servers_out: Option<PathBuf>,
    /// Where to write the clients file; `-` is standard output
    #[arg(long, value_name = "FILE")]
    pub clients_out: Option<PathBuf>,
    /// The format of the batch
    #[arg(long, value_enum, default_value_t = BatchFormat::Csv)]
    pub format: BatchFormat,
    /// Print the result as one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `compare`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  evenkeel compare batch.csv
  evenkeel compare batch.csv --policy optimal,nearest,hdlwf --html compare.html
  evenkeel compare batch.csv --servers servers.csv --json
  evenkeel compare --mirror east/ --mirror west/ --trust sizes --policy optimal,first

For each policy, the table has the length of its plan, also as a multiple of the proven bound; the largest and the mean load \
of a server; the mean response time of a block, if each server serves one at a time; the number of rounds and messages, \
for policies that have them; and the seconds it took to choose and to order. Every plan is checked from scratch.")]
pub struct CompareArgs {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub input: BatchArgs,
    /// Only these policies, separated by commas; see plan --help for all
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub policy: Vec<String>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub tuning: TuningArgs,
    /// Where to write a page with charts; `-` is standard output
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Print everything as one JSON object
    #[arg(long)]
    pub json: bool,
}

/// When an application is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ModelName {
    /// When all its requests are read and shuffled, each as soon as possible
    NoBarrier,
    /// When all its requests are read, plus the longest shuffle
    Barrier,
}

fn queue_policy_help() -> String {
    format!(
        "How servers order waiting requests\n{}\n",
        listed(|policy| matches!(policy.kind, Kind::Queue(_)))
    )
}

/// Arguments of `collective`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  evenkeel collective queue.csv
  evenkeel collective queue.csv --policy hio --threshold 0.5 --json
  evenkeel collective queue.csv --model barrier --out orders.csv

The queue is a CSV file with one row per request, in order of arrival: which application waits at which server, how long \
the server reads, and how long the application's processes then exchange the data.
  app,server,read,shuffle
  climate,s0,1.5,0.25

The order has one row per request: server,position,app. The summary shows when each application is done, also under \
sio (one application after another) and nio (in order of arrival). With --out - the order goes to standard output \
and the summary to standard error.")]
pub struct CollectiveArgs {
    /// The waiting requests, as CSV: app,server,read,shuffle; `-` is standard input
    pub queue: PathBuf,
    #[arg(long, value_name = "NAME", default_value = "hio-edd", help = queue_policy_help())]
    #[allow(missing_docs)]
    pub policy: String,
    /// When an application is done
    #[arg(long, value_enum, default_value_t = ModelName::NoBarrier)]
    pub model: ModelName,
    /// hio considers shuffles only if they take more than this share of a server's reads [default: 0.2]
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    pub threshold: Option<String>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub columns: ColumnArgs,
    /// Where to write the order; `-` is standard output
    #[arg(long, value_name = "ORDER.csv")]
    pub out: Option<PathBuf>,
    /// Print the summary as one JSON object
    #[arg(long)]
    pub json: bool,
}

fn place_policy_help() -> String {
    format!("How servers are chosen\n{}\n", listed(|policy| matches!(policy.kind, Kind::Place(_))))
}

/// Arguments of `place`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  evenkeel place writes.csv --servers servers.csv
  evenkeel place writes.csv --servers servers.csv --policy trh --threshold 1MiB --out places.csv
  evenkeel place writes.csv --servers servers.csv --policy hm-lru --optimistic --replicas 3 --json
  evenkeel place writes.csv --servers servers.csv --policy two-choice --share 200 --pre-assign
  evenkeel place writes.csv --servers servers.csv --policy nltr --levels 3 --html loads.html

Writes are a CSV file with one row per write, in order of arrival:
  object,offset,bytes
  17,0,4MiB

If the name of an object is a number, its default server is that number modulo the number of servers; otherwise a hash decides. \
A policy may choose other servers. Bytes that a server has yet to write are its backlog in the servers file. The places have \
one row per write: write,object,server,default. A write is its row, from 0; several copies are written s1|s2. With --out - they go to \
standard output and the summary to standard error.")]
pub struct PlaceArgs {
    /// The writes, as CSV: object,offset,bytes; `-` is standard input
    pub writes: PathBuf,
    /// The servers, as CSV: server,backlog,…; hm-lru also reads connections and `last_used`
    #[arg(long, value_name = "FILE")]
    pub servers: PathBuf,
    #[arg(long, value_name = "NAME", default_value = "mlml", help = place_policy_help())]
    #[allow(missing_docs)]
    pub policy: String,
    /// Copies of each write, on different servers
    #[arg(long, value_name = "R", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub replicas: u32,
    /// nltr divides servers and writes into 2^N sections [default: 2]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=i64::from(MAX_LEVELS)))]
    pub levels: Option<u32>,
    /// mlml, trh and nltr redirect a write only if the load of its default server exceeds the target's by more than this [default: 0]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub threshold: Option<u64>,
    /// mlml, trh and nltr place this many writes at a time [default: 200]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub window: Option<u64>,
    /// mlml, trh and nltr sort the servers for each object instead of once per window
    #[arg(long)]
    pub resort: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub probing: ProbingArgs,
    /// hm-lru counts each placed write as a connection until the next heartbeat. There are no heartbeats here, so without this
    /// option connections stay as in the servers file, and writes crowd onto the servers that had few
    #[arg(long)]
    pub optimistic: bool,
    /// Seed of all random choices
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub columns: ColumnArgs,
    /// Where to write the places; `-` is standard output
    #[arg(long, value_name = "PLACES.csv")]
    pub out: Option<PathBuf>,
    /// Where to write a page with a chart of the loads; `-` is standard output
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Print the summary as one JSON object
    #[arg(long)]
    pub json: bool,
}

/// How two-choice learns loads.
#[derive(Debug, Args)]
pub struct ProbingArgs {
    /// two-choice: all writers use an answer for this many writes, which saves probes but makes loads stale
    #[arg(long, value_name = "N")]
    pub share: Option<u32>,
    /// two-choice: this many writes are in flight when one is placed; servers do not know of them yet
    #[arg(long, value_name = "N")]
    pub in_flight: Option<u32>,
    /// two-choice: what is promised to a server counts at once, which keeps --share and --in-flight from causing a herd
    #[arg(long)]
    pub pre_assign: bool,
}

/// Arguments of `simulate`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  evenkeel simulate slow-server.toml
  evenkeel simulate slow-server.toml --set servers.s3.speed=0.5 --policy optimal,nearest
  evenkeel simulate slow-server.toml --replication 2..4 --html page.html
  evenkeel simulate slow-server.toml --sweep servers.latency=0ms,2ms,10ms --csv runs.csv --json
  evenkeel simulate batch.csv --block 64MB --set servers.bandwidth=200MB/s
  evenkeel simulate tasks.csv --processes procs.csv

A scenario is a TOML file; docs/simulate.md describes every key, and examples/ has scenarios to start from. All keys have defaults:
  policies = [\"nearest\", \"optimal\"]
  [servers]
  count = 100
  [[slow]]
  servers = \"10%\"
  factor = 0.2
  [workload]
  requests = 10000

Every key can be set from the command line. A sweep tries several values: a list, or a range, which is sampled at 9 \
points at most, or at N (from..to:N). All policies of a repetition get the same requests on the same cluster. \
Ctrl-C stops after the current runs and reports what is done; the exit status is then 130.")]
pub struct SimulateArgs {
    /// A scenario (TOML), a batch (CSV or JSON) or tasks (CSV); `-` reads a scenario from standard input
    pub scenario: PathBuf,
    /// Set a key of the scenario, such as servers.s3.speed=0.1
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Try several values of a key: clients.count=16..256, network.nic=1Gb/s,10Gb/s
    #[arg(long, value_name = "KEY=A..B")]
    pub sweep: Vec<String>,
    /// Try several numbers of copies: a sweep of workload.copies. A batch keeps its first copies; more are drawn at random
    #[arg(long, value_name = "A..B")]
    pub replication: Option<String>,
    /// Policies to use instead of the scenario's, separated by commas
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub policy: Vec<String>,
    /// Number of repetitions for each policy, instead of the scenario's
    #[arg(long, value_name = "N")]
    pub repetitions: Option<u32>,
    /// Seed of all random choices, instead of the scenario's
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// With a batch: the servers file, as for plan
    #[arg(long, value_name = "FILE")]
    pub servers: Option<PathBuf>,
    /// With a batch: the clients file, as for plan
    #[arg(long, value_name = "FILE")]
    pub clients: Option<PathBuf>,
    /// With a batch: the size of a block, to which sizes are rounded up [default: 1]
    #[arg(long, value_name = "SIZE")]
    pub block: Option<String>,
    /// With tasks: the processes file, as for assign
    #[arg(long, value_name = "FILE")]
    pub processes: Option<PathBuf>,
    /// Number of threads; 0 means one per processor. The result does not depend on it
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u16).range(..=MOST_THREADS))]
    pub threads: u16,
    /// Do not ask before long runs
    #[arg(long)]
    pub yes: bool,
    /// Ask before runs that take longer than this, or require --yes
    #[arg(long, value_name = "SPAN", default_value = "10min")]
    pub ask_after: String,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub columns: ColumnArgs,
    /// Where to write a page with charts; `-` is standard output
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Where to write the figures of every run, as CSV; `-` is standard output
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// Print everything as one JSON object
    #[arg(long)]
    pub json: bool,
}

/// How copies are spread over the servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LawName {
    /// All servers equally likely
    Uniform,
    /// A hot spot: server j with probability proportional to ratio^j
    Geometric,
    /// Server j with probability proportional to 1/(j+1)
    Zipf,
    /// The first copy geometric, the others uniform, as on HDFS
    FirstHot,
    /// Copies on neighbours, half of the requests drawn from the first tenth: few replica sets
    Chain,
}

/// The format of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum BatchFormat {
    /// One row per request
    Csv,
    /// One object
    Json,
}

/// Arguments of `generate`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  evenkeel generate --out batch.csv
  evenkeel generate --requests 1000000 --clients 256 --servers 1000 --copies 3 --out batch.csv
  evenkeel generate --law geometric --ratio 0.5 --hot-spots 2 --bytes 1MB..64MB | evenkeel plan -
  evenkeel generate --out batch.csv --servers-out servers.csv --speeds 1..10 --backlogs 0..50")]
pub struct GenerateArgs {
    /// Number of requests
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub requests: u32,
    /// Number of clients
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub clients: u32,
    /// Number of servers
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub servers: u32,
    /// Number of copies of each request's data
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub copies: u32,
    /// How the copies are spread
    #[arg(long, value_enum, default_value_t = LawName::Uniform)]
    pub law: LawName,
    /// Ratio of a geometric hot spot, above 0 and at most 1 [default: 1 - 10/servers; 0.5 up to 20 servers]
    #[arg(long, value_name = "R")]
    pub ratio: Option<f64>,
    /// Number of geometric hot spots [default: 1]
    #[arg(long, value_name = "N")]
    pub hot_spots: Option<u32>,
    /// Size of a request, fixed or drawn from a range: 4096 or 1MB..64MB
    #[arg(long, value_name = "SIZE|A..B", default_value = "1")]
    pub bytes: String,
    /// Where to write a servers file, for servers that differ; `-` is standard output
    #[arg(long, value_name = "FILE")]
    pub servers_out: Option<PathBuf>,
    /// Speeds of the servers, in the servers file [default: 1]
    #[arg(long, value_name = "N|A..B")]
    pub speeds: Option<String>,
    /// Slots of the servers, in the servers file [default: 1]
    #[arg(long, value_name = "N|A..B")]
    pub slots: Option<String>,
    /// Backlogs of the servers, in the servers file [default: 0]
    #[arg(long, value_name = "SIZE|A..B")]
    pub backlogs: Option<String>,
    /// Give requests to clients in turn, so that all have the same number
    #[arg(long)]
    pub in_turn: bool,
    /// Seed; the same seed draws the same batch on every machine
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// CSV or JSON
    #[arg(long, value_enum, default_value_t = BatchFormat::Csv)]
    pub format: BatchFormat,
    /// Where to write the batch; `-` is standard output
    #[arg(long, value_name = "FILE", default_value = "-")]
    pub out: PathBuf,
}

/// Arguments of `reproduce`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  evenkeel reproduce --quick
  evenkeel reproduce 000 --quick --html report.html
  evenkeel reproduce 000 --quick --json
  evenkeel reproduce --live 004 --html live.html   on nodes of this machine, in about five minutes

For each claim, the report has what the paper says, what was measured here, and whether it holds, holds with conditions that \
the paper does not state, or does not hold. The page adds the rule that decides, the reason, what the paper leaves open, and a \
plot and a table of each figure. Without --quick it takes some minutes. The same seed gives the same report on any number of \
threads, except for the timings of --json.

With --live the claims are checked on real servers instead: ten nodes, each a process with sockets and a folder of its own below \
TMPDIR, and the real client. Beside each figure stands what the simulator says of the same writes on servers of the same speeds. \
Nodes and folder are gone in the end.")]
pub struct ReproduceArgs {
    /// Only these papers, by number, such as 000
    #[arg(value_name = "PAPER")]
    pub papers: Vec<String>,
    /// Fewer runs of each experiment: a rough answer within a minute
    #[arg(long)]
    pub quick: bool,
    /// Check the claims on real servers, which are started on this machine; only those of 004
    #[arg(long, conflicts_with = "threads")]
    pub live: bool,
    /// Number of writes of each live run
    #[arg(long, value_name = "N", requires = "live", hide = true, value_parser = clap::value_parser!(u32).range(10..=100_000))]
    pub writes: Option<u32>,
    /// Seed of all random choices
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// Number of threads; 0 means one per processor. The report does not depend on it
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u16).range(..=MOST_THREADS))]
    pub threads: u16,
    /// Where to write a page with all claims and plots; `-` is standard output
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Print everything as one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `demo`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  evenkeel demo                          eight nodes on this machine, one of them slow: written and read, in under a minute
  evenkeel demo --html demo.html         with a page of it
  evenkeel demo --plan-only              only planned: a batch with a hot spot

The nodes listen on the loopback and keep their data in a folder below TMPDIR, which is removed in the end.")]
pub struct DemoArgs {
    /// Plan a batch with a hot spot by several policies, without nodes
    #[arg(long, conflicts_with = "html")]
    pub plan_only: bool,
    /// Number of requests of the batch
    #[arg(long, value_name = "N", default_value_t = 4000, requires = "plan_only")]
    pub requests: u32,
    /// Number of clients
    #[arg(long, value_name = "N", default_value_t = 64, requires = "plan_only")]
    pub clients: u32,
    /// Number of servers
    #[arg(long, value_name = "N", default_value_t = 16, requires = "plan_only")]
    pub servers: u32,
    /// Number of copies of each request's data
    #[arg(long, value_name = "N", default_value_t = 3, requires = "plan_only")]
    pub copies: u32,
    /// Seed of all random choices
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// Where to write a page; `-` is standard output
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Print the figures as one JSON object
    #[arg(long)]
    pub json: bool,
}
