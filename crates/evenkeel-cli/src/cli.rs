//! The arguments of each command. The help texts teach by example.

mod import;
mod live;

use std::num::NonZeroU64;
use std::path::{Path, PathBuf};

use clap::{Args, Parser, Subcommand, ValueEnum};
use evenkeel::place::MAX_LEVELS;
use evenkeel::policy::{self, Kind, Policy};
use evenkeel::select::opass_tenant::IMBALANCE_BLOCKS;
use evenkeel_formats::{Reading, numbers};

pub use import::{
    CsvArgs, DealName, HdfsFsckArgs, ImportArgs, ImportOutput, ImportSource, MetalinkArgs, RcloneLsjsonArgs,
    S3InventoryArgs,
};
pub use live::{GetArgs, LocateArgs, SourceArgs, TrustName};

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
  evenkeel demo                            a hot spot, planned three ways, side by side
  evenkeel generate --out batch.csv        a batch to try things on
  evenkeel import --help                   a batch of what you have: HDFS, S3, mirrors, rclone, CSV
  evenkeel plan batch.csv --out plan.csv   the shortest plan, with its proof
  evenkeel check batch.csv plan.csv        verify it from scratch
  evenkeel explain batch.csv               what limits it, and what would help
  evenkeel compare batch.csv               all policies on it, side by side
  evenkeel simulate batch.csv              carried out on a cluster, by several policies
  evenkeel get --help                      read real data by a plan, from several mirrors at once

A batch is a CSV file with one row a request: who wants how much, and which servers hold a copy.
  client,bytes,replicas
  c0,1,s0|s3|s7

Exit status: 0 done, 1 a check failed, 2 wrong usage or input, 130 interrupted."
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
    /// How good is a plan, a policy, or what most do today: its length divided by what is provably possible
    Score(ScoreArgs),
    /// What limits a batch, and what would help: copies, a faster server, more slots or clients
    Explain(ExplainArgs),
    /// Make the batch that an advice of explain asks for
    Apply(ApplyArgs),
    /// All policies on one batch, side by side
    Compare(CompareArgs),
    /// Give tasks to processes that have the data on their hosts
    Assign(AssignArgs),
    /// Order the requests of collective I/O that wait at servers
    Collective(CollectiveArgs),
    /// Choose servers for writes
    Place(PlaceArgs),
    /// What would happen on a cluster: slow servers, outages, arrivals over time, by several policies
    Simulate(SimulateArgs),
    /// Repeat the experiments of the papers, claim by claim
    Reproduce(ReproduceArgs),
    /// Read a data set by a plan, from folders, web servers or mirrors of them
    Get(GetArgs),
    /// Make a batch of what is on real storage
    Locate(LocateArgs),
    /// Make a batch of what other tools print: HDFS, Metalink, S3, rclone, any CSV
    Import(ImportArgs),
    /// Draw a batch to try things on
    Generate(GenerateArgs),
    /// A hot spot, planned by several policies, side by side
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
    /// Pass over these columns of the files that are read, with commas between them
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
    /// The batch, CSV or JSON; `-` is standard input
    pub batch: PathBuf,
    /// What is known of the servers, as CSV: server,speed,slots,backlog,host,rate,…; must name every server
    #[arg(long, value_name = "FILE")]
    pub servers: Option<PathBuf>,
    /// What is known of the clients, as CSV: client,slots,host; must name every client
    #[arg(long, value_name = "FILE")]
    pub clients: Option<PathBuf>,
    /// Bytes in a block, such as 4096 or 1MiB; sizes are rounded up to whole blocks
    #[arg(long, value_name = "SIZE", default_value_t = 1, value_parser = block)]
    pub block: u64,
    /// At most so many transfers at once in all; not with backlogs or different speeds
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u64).range(1..))]
    pub max_concurrent: Option<u64>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub columns: ColumnArgs,
}

impl BatchArgs {
    /// The files that are read.
    pub(crate) fn paths(&self) -> Vec<&Path> {
        let optional = [self.servers.as_deref(), self.clients.as_deref()];
        optional.into_iter().flatten().chain([self.batch.as_path()]).collect()
    }

    /// How the file of that name is read.
    pub(crate) fn reading<'a>(&'a self, file: &'a str) -> Reading<'a> {
        let block = NonZeroU64::new(self.block).unwrap_or(NonZeroU64::MIN);
        Reading { block, ..self.columns.reading(file) }
    }
}

fn block(text: &str) -> Result<u64, String> {
    size(text)
        .and_then(|bytes| if bytes > 0 { Ok(bytes) } else { Err("a block has at least a byte".to_owned()) })
}

fn size(text: &str) -> Result<u64, String> {
    numbers::size(text, "size")
}

/// What the choice of replicas minimizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Objective {
    /// The length of the schedule; with --no-order the largest server load
    Max,
    /// The mean time at which a block is done, if each server serves one after the other; the largest load is then the
    /// least as well
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
        "How replicas are chosen [default of plan: optimal]\n{}\n\nOthers, which docs/policies.md explains: {}. The name of an \
         order means the optimal choice in that order; `compare` plans by all of them\n",
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
    /// Each has a preference of its own, by hash
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
    /// Only choose replicas, do not order the transfers
    #[arg(long, conflicts_with = "order")]
    pub no_order: bool,
    /// Never split a request between servers. No load exceeds the largest of the split plan by more than the largest request
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
    /// Seed of whatever is drawn
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// How those who bid, or look for the nearest copy, break ties
    #[arg(long, value_enum, default_value_t = TiesName::Hashed)]
    pub ties: TiesName,
    /// How often a client may bid in a round: hdlwf-rebid, mpasses
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=MOST_BIDS))]
    pub passes: u32,
    /// Bids at once of a client: hdlwf-multi
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=MOST_BIDS))]
    pub bids: u32,
    /// By how many blocks what servers have to do may differ before the nearest copies are left: opass-tenant
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

The plan has one row a transfer: request,client,server,start,blocks. A request is its row in the batch, from 0; if \
it is split between replicas, or interrupted and resumed, it has several rows. The summary tells the length, the \
lower bound that no plan beats, and what forces it. With --out - the plan goes to standard output and the summary \
to standard error.

The steps are the same plan, ready to be carried out: start,end,client,server,request,chunk,offset,bytes, sorted by start. \
Times are seconds if the servers file has rates. The byte ranges of a request do not overlap and cover it exactly.")]
pub struct PlanArgs {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub input: BatchArgs,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub policy: PolicyArgs,
    /// Where to write the plan; `-` is standard output
    #[arg(long, value_name = "PLAN.csv")]
    pub out: Option<PathBuf>,
    /// Where to write the plan by time, with the byte range of every transfer; `-` is standard output
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
transfers at once than slots, no server serves before its backlog is done, and a limit on concurrency is kept. With --summary also: the plan is the one summarised, its figures are right, and the bottleneck \
proves the bound. Exit status 1 if the plan is wrong, 2 if it is of another batch.")]
pub struct CheckArgs {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub input: BatchArgs,
    /// The plan to verify; `-` is standard input
    pub plan: PathBuf,
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
  evenkeel score batch.csv                    how far from the optimum are today's defaults
  evenkeel score batch.csv --policy first     the same of one policy
  evenkeel score batch.csv plan.csv           the same of a given plan

1.0 is perfect: nothing can be shorter. 2.0 means that half of the time is lost. Without a plan or a policy, first, random \
and nearest are scored, which is what most systems do today, and optimal beside them. nearest goes by the hosts in the \
servers and clients files; where they do not tell, each client prefers some servers by hash.")]
pub struct ScoreArgs {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub input: BatchArgs,
    /// The plan to score; without it, the plan that --policy makes, or those of the usual policies
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

Told are: the servers, the client or the limit that force the bound; the fewest blocks that need one more copy, and \
where, for a bound that is 1, 5 and 10 % lower; the copies that matter, beyond which not even one more copy of everything \
would help; and the one server that would help most if it were twice as fast. Where a client is the bottleneck: what more \
slots, one more client or other clients would bring. All bounds are computed, none is estimated: follow the advice (evenkeel \
apply does), plan again, and the bound is as promised.")]
pub struct ExplainArgs {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub input: BatchArgs,
    /// Explain the load of servers, not the length of a schedule
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

Give the batch, servers and clients that explain had, and the same --block. What the advice changes has to be written: copies \
and moved work to --out, a faster server to --servers-out, slots and new clients to --clients-out. The bound of the result is \
computed, and nothing is written if it is not as promised.")]
pub struct ApplyArgs {
    /// What `explain --advice` wrote; `-` is standard input
    pub advice: PathBuf,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub input: BatchArgs,
    /// Which advice: copies-1, copies-5, copies-10, copies-all, faster-server, slot, slot-each, slots, client, spread
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

Told of each policy: the length of its plan, also as a multiple of the proven bound; the largest and the mean load of a \
server; the mean response time of a block, if each server serves one after the other; of policies that proceed in rounds, \
or by messages, how many; and the seconds it took to choose and to order. Every plan is checked from scratch.")]
pub struct CompareArgs {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub input: BatchArgs,
    /// Only these policies, with commas between them; see plan --help for all
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
    /// When all its requests are read and shuffled, each as soon as it can be
    NoBarrier,
    /// When all its requests are read, and then the longest shuffle
    Barrier,
}

fn queue_policy_help() -> String {
    format!("How servers order what waits\n{}\n", listed(|policy| matches!(policy.kind, Kind::Queue(_))))
}

/// Arguments of `collective`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  evenkeel collective queue.csv
  evenkeel collective queue.csv --policy hio --threshold 0.5 --json
  evenkeel collective queue.csv --model barrier --out orders.csv

The queue is a CSV file with one row a request, in order of arrival: which application waits at which server, how long \
the server reads, and how long the application's processes then exchange what was read.
  app,server,read,shuffle
  climate,s0,1.5,0.25

The order has one row a request: server,position,app. The summary tells when each application is done, and the same \
for sio (one application after the other) and nio (as requests arrive). With --out - the order goes to standard output \
and the summary to standard error.")]
pub struct CollectiveArgs {
    /// What waits, as CSV: app,server,read,shuffle; `-` is standard input
    pub queue: PathBuf,
    #[arg(long, value_name = "NAME", default_value = "hio-edd", help = queue_policy_help())]
    #[allow(missing_docs)]
    pub policy: String,
    /// When an application is done
    #[arg(long, value_enum, default_value_t = ModelName::NoBarrier)]
    pub model: ModelName,
    /// hio looks at shuffles only if they take more than this share of the reads of a server [default: 0.2]
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

Writes are a CSV file with one row a write, in order of arrival:
  object,offset,bytes
  17,0,4MiB

The default server of an object with a number as its name is that number modulo the servers, of any other a hash; a policy \
may choose others. What servers have to write already is their backlog in the servers file. The places have one row a \
write: write,object,server,default, where a write is its row, from 0, and copies are on s1|s2. With --out - they go to \
standard output and the summary to standard error.")]
pub struct PlaceArgs {
    /// What is to be written, as CSV: object,offset,bytes; `-` is standard input
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
    /// mlml, trh and nltr leave a write on its default server unless another has so many bytes less, and one more [default: 0]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub threshold: Option<u64>,
    /// mlml, trh and nltr decide on so many writes at a time [default: 200]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub window: Option<u64>,
    /// mlml, trh and nltr sort servers again for each object; else once a window
    #[arg(long)]
    pub resort: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub probing: ProbingArgs,
    /// hm-lru counts what it places as a connection until the next heartbeat. There is none here: without this, connections stay
    /// as the servers file has them, and writes crowd on the servers that had few
    #[arg(long)]
    pub optimistic: bool,
    /// Seed of whatever is drawn
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
    /// two-choice: what a server has answered is known to all for so many writes, which saves probes; but loads grow stale
    #[arg(long, value_name = "N")]
    pub share: Option<u32>,
    /// two-choice: so many writes are on their way when one is placed, and servers do not know of them yet
    #[arg(long, value_name = "N")]
    pub in_flight: Option<u32>,
    /// two-choice: what is promised to a server counts at once, so that --share or --in-flight do not make all run to one server
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

A scenario is a TOML file; docs/simulate.md tells every key, and examples/ has some to begin with. All have defaults:
  policies = [\"nearest\", \"optimal\"]
  [servers]
  count = 100
  [[slow]]
  servers = \"10%\"
  factor = 0.2
  [workload]
  requests = 10000

Every key can be set from the command line, in a sweep to several values in turn: a list, or a range, which is taken at 9 \
points at most, or at N of them (from..to:N). All policies of a repetition meet the same requests on the same cluster. \
Ctrl-C stops after the runs under way; what is done by then is told. Exit status 130 then.")]
pub struct SimulateArgs {
    /// The scenario, TOML; or a batch, CSV or JSON; or tasks, CSV; `-` is a scenario from standard input
    pub scenario: PathBuf,
    /// Set a key of the scenario, such as servers.s3.speed=0.1
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Try several values of a key: clients.count=16..256, network.nic=1Gb/s,10Gb/s
    #[arg(long, value_name = "KEY=A..B")]
    pub sweep: Vec<String>,
    /// Try several numbers of copies: a sweep of workload.copies. A batch keeps its first copies; further ones are drawn
    #[arg(long, value_name = "A..B")]
    pub replication: Option<String>,
    /// These policies, with commas between them, instead of those of the scenario
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub policy: Vec<String>,
    /// How often each policy is tried, instead of what the scenario says
    #[arg(long, value_name = "N")]
    pub repetitions: Option<u32>,
    /// Seed of whatever is drawn, instead of that of the scenario
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// With a batch: what is known of the servers, as for plan
    #[arg(long, value_name = "FILE")]
    pub servers: Option<PathBuf>,
    /// With a batch: what is known of the clients, as for plan
    #[arg(long, value_name = "FILE")]
    pub clients: Option<PathBuf>,
    /// With a batch: the size of a block, to which sizes are rounded up [default: 1]
    #[arg(long, value_name = "SIZE")]
    pub block: Option<String>,
    /// With tasks: the processes, as for assign
    #[arg(long, value_name = "FILE")]
    pub processes: Option<PathBuf>,
    /// Runs at once; 0 is as many as there are processors. The result does not depend on it
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u16).range(..=MOST_THREADS))]
    pub threads: u16,
    /// Do not ask before it takes long
    #[arg(long)]
    pub yes: bool,
    /// What takes longer than this is asked for first, or needs --yes
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

fn assign_policy_help() -> String {
    format!(
        "How tasks are given to processes [default: opass-single, or opass-multi if a task has several inputs]\n{}\n",
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

Tasks are a CSV file with one row an input: how large it is, and which servers hold a copy. Rows with the same task are \
its several inputs.
  task,bytes,replicas
  frame0,64MiB,s0|s3|s7

Processes are a CSV file with the server on the host of each, or nothing if there is none.
  process,server
  rank0,s0

The assignment has one row a task: task,process,local_bytes,remote_bytes,from, where from names a server for each input. \
The summary tells how much is read from servers on the processes' own hosts, and how much could be at most. With --out - \
the assignment goes to standard output and the summary to standard error.")]
pub struct AssignArgs {
    /// What is to be done, as CSV: task,bytes,replicas; `-` is standard input
    pub tasks: PathBuf,
    /// Who can do it, as CSV: process,server; `-` is standard input
    #[arg(long, value_name = "PROCS.csv")]
    pub processes: PathBuf,
    #[arg(long, value_name = "NAME", help = assign_policy_help())]
    #[allow(missing_docs)]
    pub policy: Option<String>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub columns: ColumnArgs,
    /// Where to write the assignment; `-` is standard output
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Where to write a page with a chart of what each server serves; `-` is standard output
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Print the summary as one JSON object
    #[arg(long)]
    pub json: bool,
}

/// How copies are spread over the servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LawName {
    /// Every server alike
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
    /// One row a request
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
    /// Copies of each request's data
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
    /// Clients ask in turn, so that all have the same number of requests
    #[arg(long)]
    pub in_turn: bool,
    /// The same seed draws the same batch on every machine
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

Told of each claim: what the paper says, what was measured here, and whether it holds, holds with conditions that the paper \
does not state, or does not hold. The page adds the rule that decides, the reason, what the paper leaves open, and a plot and a \
table of each figure. Without --quick it takes some minutes. The same seed gives the same report on any number of threads, but \
for the timings of --json.")]
pub struct ReproduceArgs {
    /// Only these papers, by their numbers: 000
    #[arg(value_name = "PAPER")]
    pub papers: Vec<String>,
    /// Fewer runs of each experiment: a rough answer within a minute
    #[arg(long)]
    pub quick: bool,
    /// Seed of whatever is drawn
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// On how many threads; 0 is as many as there are processors. The report does not depend on it
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
pub struct DemoArgs {
    /// Number of requests
    #[arg(long, value_name = "N", default_value_t = 4000)]
    pub requests: u32,
    /// Number of clients
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub clients: u32,
    /// Number of servers
    #[arg(long, value_name = "N", default_value_t = 16)]
    pub servers: u32,
    /// Copies of each request's data
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub copies: u32,
    /// Draws another batch
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// Print the figures as one JSON object
    #[arg(long)]
    pub json: bool,
}
