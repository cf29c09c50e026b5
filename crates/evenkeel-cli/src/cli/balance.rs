//! The arguments of `balance`, and of other commands on stores that have leaders.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use evenkeel::lead::Wish;

use super::{FewestArgs, FewestName};

/// Arguments of `balance`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  evenkeel balance ceph --from ceph/                              look at files, change nothing
  evenkeel balance ceph --from ceph/ --weigh bytes --servers osds.csv --out commands.sh
  evenkeel balance kafka --describe kafka/topics.txt --log-dirs kafka/log-dirs.txt

On a machine where `ceph` works, without --from:
    evenkeel balance ceph                                         look: today, the bound, the plan
    evenkeel balance ceph --changes 5 --out commands.sh           the best five changes, to review
    evenkeel balance ceph --apply                                 carry it out, with an undo file
    evenkeel balance ceph --undo evenkeel-undo-ceph.json --apply  take it back
    evenkeel balance ceph --watch --apply                         keep it balanced
    evenkeel balance kafka --bootstrap broker:9092 --apply        who leads Kafka's partitions

In some stores one server leads each group of data and serves all its reads: Ceph's primaries, Kafka's leaders. \
Who leads is chosen among the servers that have the data anyway, so that the busiest of them is done as early as possible, \
with the fewest changes of who leads today. Data is never moved: a change that would is refused.

Exit status: 0 done, 1 it was refused or stopped, 2 wrong usage or input, 130 interrupted.")]
pub struct BalanceArgs {
    /// The store.
    #[command(subcommand)]
    pub store: BalanceStore,
}

/// Whose leaders are balanced.
#[derive(Debug, Subcommand)]
pub enum BalanceStore {
    /// Choose who is the primary of each placement group of a Ceph cluster
    Ceph {
        #[command(flatten)]
        #[allow(missing_docs)]
        store: CephArgs,
        #[command(flatten)]
        #[allow(missing_docs)]
        balance: LeadArgs,
    },
    /// Choose who leads each partition of a Kafka cluster
    Kafka {
        #[command(flatten)]
        #[allow(missing_docs)]
        store: KafkaArgs,
        #[command(flatten)]
        #[allow(missing_docs)]
        balance: LeadArgs,
    },
}

/// A store with leaders, in place of sources.
#[derive(Debug, Subcommand)]
pub enum LocateStore {
    /// The placement groups of a Ceph cluster, with who leads each today in a column `current`
    Ceph {
        #[command(flatten)]
        #[allow(missing_docs)]
        store: CephArgs,
        /// Where to write the batch; `-` is standard output
        #[arg(long, value_name = "BATCH", default_value = "-")]
        out: PathBuf,
    },
    /// The partitions of a Kafka cluster, with who leads each today in a column `current`
    Kafka {
        #[command(flatten)]
        #[allow(missing_docs)]
        store: KafkaArgs,
        /// Where to write the batch; `-` is standard output
        #[arg(long, value_name = "BATCH", default_value = "-")]
        out: PathBuf,
    },
}

/// A store with leaders whose servers are measured.
#[derive(Debug, Subcommand)]
pub enum ProbeStore {
    /// The OSDs of a Ceph cluster, by a few reads of objects that each of them leads
    Ceph {
        #[command(flatten)]
        #[allow(missing_docs)]
        store: CephArgs,
        /// Where to write the servers file; `-` is standard output
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
        /// Print the result as one JSON object
        #[arg(long)]
        json: bool,
    },
}

/// A Ceph cluster.
#[derive(Debug, Args)]
pub struct CephArgs {
    /// The configuration of the cluster, as for `ceph --conf`
    #[arg(long, value_name = "FILE")]
    pub conf: Option<PathBuf>,
    /// Whom to act as, as for `ceph --name`, such as client.balancer
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Only this pool; once for each pool [default: all together]
    #[arg(long = "pool", value_name = "POOL")]
    pub pools: Vec<String>,
    /// What a group weighs
    #[arg(long, value_enum, default_value_t = WeighName::Bytes)]
    pub weigh: WeighName,
    /// With --weigh reads: count what is read for so many seconds at least
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub over: u64,
    /// Look at files instead, made by `ceph osd dump -f json > DIR/osd-dump.json` and `ceph pg dump pgs -f json > DIR/pg-dump.json`;
    /// twice for --weigh reads, the earlier folder first
    #[arg(long, value_name = "DIR")]
    pub from: Vec<PathBuf>,
    /// How fast OSDs of a device class are, such as ssd=4; once for each class
    #[arg(long = "class-speed", value_name = "CLASS=SPEED", value_parser = class_speed)]
    pub class_speeds: Vec<(String, f64)>,
    /// Seconds that any command of Ceph may take, and groups to settle
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub patience: u64,
    /// Change things even while Ceph's own balancer may undo them
    #[arg(long)]
    pub despite_balancer: bool,
}

/// A Kafka cluster.
#[derive(Debug, Args)]
pub struct KafkaArgs {
    /// Brokers by which the cluster is found, as HOST:PORT, separated by commas
    #[arg(long, value_name = "BROKERS", value_delimiter = ',', required_unless_present = "describe")]
    pub bootstrap: Vec<String>,
    /// How to log in, as for --command-config of Kafka's own tools: SSL and SASL with the mechanism PLAIN
    #[arg(long, value_name = "FILE", requires = "bootstrap")]
    pub command_config: Option<PathBuf>,
    /// Look at files instead: what `kafka-topics.sh --describe` printed
    #[arg(long, value_name = "FILE", conflicts_with = "bootstrap")]
    pub describe: Option<PathBuf>,
    /// With --describe, for bytes: what `kafka-log-dirs.sh --describe` printed
    #[arg(long, value_name = "FILE", requires = "describe")]
    pub log_dirs: Option<PathBuf>,
    /// Only this topic; once for each topic [default: all together, but for those that Kafka itself writes]
    #[arg(long = "topic", value_name = "TOPIC")]
    pub topics: Vec<String>,
    /// Also topics that Kafka itself writes, such as `__consumer_offsets`
    #[arg(long)]
    pub internal: bool,
    /// What a partition weighs
    #[arg(long, value_enum, default_value_t = KafkaWeighName::Bytes)]
    pub weigh: KafkaWeighName,
    /// With --weigh rates: traffic from your monitoring, as CSV: topic,partition,rate in bytes a second
    #[arg(long, value_name = "FILE", required_if_eq("weigh", "rates"))]
    pub rates: Option<PathBuf>,
    /// Seconds that changes may take to be carried out
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub patience: u64,
}

/// What a partition weighs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum KafkaWeighName {
    /// One each
    Count,
    /// The bytes that its leader holds
    Bytes,
    /// Its traffic, by --rates
    Rates,
}

/// What a group weighs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum WeighName {
    /// One each
    Count,
    /// The bytes it holds
    Bytes,
    /// What was read of it lately
    Reads,
}

/// What is changed, and how.
#[derive(Debug, Args)]
#[allow(clippy::struct_excessive_bools)] // each is a flag of its own
pub struct LeadArgs {
    /// How fast servers are, as CSV: server,speed or server,rate; `leads` is no for those that must not lead
    #[arg(long, value_name = "FILE")]
    pub servers: Option<PathBuf>,
    /// What is to be least
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = FewestName::Changes)]
    pub fewest: FewestName,
    /// Be content with this many times the least that the busiest server can have; 1 is the optimum [default: 1.01]
    #[arg(long, value_name = "RATIO", value_parser = super::fewest::ratio, conflicts_with = "changes")]
    pub within: Option<f64>,
    /// The best balance with at most so many changes (or bytes, with --fewest bytes)
    #[arg(long, value_name = "N")]
    pub changes: Option<u64>,
    /// Write what an operator would run to this file, for review; `-` is standard output
    #[arg(long, value_name = "FILE", conflicts_with_all = ["apply", "watch"])]
    pub out: Option<PathBuf>,
    /// Carry the plan out, in steps of a few groups
    #[arg(long)]
    pub apply: bool,
    /// Where the way back is kept, before each step [default: evenkeel-undo-ceph.json or evenkeel-undo-kafka.json]
    #[arg(long, value_name = "FILE", requires = "apply", conflicts_with = "undo")]
    pub record: Option<PathBuf>,
    /// Take back what this file tells of; shows it, unless --apply is given
    #[arg(long, value_name = "FILE", conflicts_with_all = ["within", "changes", "servers", "watch"])]
    pub undo: Option<PathBuf>,
    /// How many groups change at once
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub step: u64,
    /// Print the result as one JSON object, with --watch one for each look
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub watch: WatchArgs,
}

/// Looking again and again.
#[derive(Clone, Copy, Debug, Args)]
pub struct WatchArgs {
    /// Look again and again, and plan when it is worth it; until Ctrl-C
    #[arg(long)]
    pub watch: bool,
    /// With --watch: seconds between looks
    #[arg(long, value_name = "SECONDS", default_value_t = 10, requires = "watch", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub every: u64,
    /// With --watch: do not measure servers; speeds come from --servers, which is read again at every look
    #[arg(long, requires = "watch")]
    pub no_measure: bool,
    /// With --watch: how much better a plan must be than today to be worth it
    #[arg(long, value_name = "RATIO", default_value_t = 1.1, requires = "watch", value_parser = super::fewest::ratio)]
    pub worth: f64,
    /// With --watch: the most changes in any hour
    #[arg(long, value_name = "N", default_value_t = 200, requires = "watch", value_parser = clap::value_parser!(u64).range(1..))]
    pub budget: u64,
    /// With --watch: stop after so many looks
    #[arg(long, value_name = "N", requires = "watch", value_parser = clap::value_parser!(u64).range(1..))]
    pub looks: Option<u64>,
}

impl LeadArgs {
    /// What is wanted of a plan.
    pub(crate) fn wish(&self) -> Wish {
        // The last percent is not worth interrupting clients for.
        let within = self.within.or(self.changes.is_none().then_some(1.01));
        let fewest = FewestArgs { fewest: Some(self.fewest), within, changes: self.changes };
        fewest.wish(1).unwrap_or_default()
    }
}

fn class_speed(text: &str) -> Result<(String, f64), String> {
    let parsed = text.split_once('=').and_then(|(class, speed)| {
        let speed = speed.parse().ok().filter(|speed| (1e-6..=1e6).contains(speed))?;
        (!class.is_empty()).then(|| (class.to_owned(), speed))
    });
    parsed.ok_or_else(|| "write a device class and its speed, as in ssd=4".to_owned())
}
