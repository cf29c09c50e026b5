//! Kafka: which of its replicas leads each partition.
//!
//! Producers write to the leader of a partition, and consumers read from it. Its replicas have an order, and Kafka's own
//! preference is the first of them. So a change is the same replicas in another order, and then an election: no data
//! moves, and the choice lasts. What is known comes from a live cluster ([`Kafka::connect`]), over Kafka's own protocol,
//! or from the output of Kafka's own tools ([`Kafka::from_files`]).

mod apply;
mod connection;
mod files;
#[doc(hidden)]
pub mod fuzz;
mod live;
mod login;
mod messages;
mod scripts;
mod state;
mod wire;

use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;

use super::{Change, Engine, EngineError, Look, Script};
pub use files::Files;
use files::{LOG_DIRS_REMEDY, RATES_REMEDY, TOPICS_REMEDY};
use live::Live;
pub use login::Login;
use state::{Cluster, Weights};

/// A Kafka cluster.
#[derive(Debug)]
pub struct Kafka {
    origin: Origin,
    options: Options,
}

#[derive(Debug)]
enum Origin {
    Live(Box<Live>),
    Files(Files),
}

/// How a cluster is looked at.
#[derive(Clone, Debug)]
pub struct Options {
    /// These topics and no others. All if empty.
    pub topics: Vec<String>,
    /// Also topics that Kafka itself writes, such as `__consumer_offsets`.
    pub internal: bool,
    /// What partitions weigh.
    pub weigh: Weigh,
    /// What brokers want of those who connect.
    pub login: Login,
    /// How long a single answer may take.
    pub answer_timeout: Duration,
    /// How long a change may take.
    pub patience: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            topics: Vec::new(),
            internal: false,
            weigh: Weigh::Count,
            login: Login::default(),
            answer_timeout: Duration::from_secs(15),
            patience: Duration::from_mins(1),
        }
    }
}

/// What partitions weigh.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Weigh {
    /// The same.
    Count,
    /// The bytes that their leaders hold.
    Bytes,
    /// Their traffic in bytes a second, from a CSV file with the columns `topic`, `partition` and `rate`, or `partition`
    /// (as `topic-3`) and `bytes_per_second`.
    Rates(PathBuf),
}

impl Kafka {
    /// A cluster that is found by any of its brokers, named as `HOST:PORT`. Connects with the first look.
    pub fn at(bootstrap: &[String], options: Options) -> Result<Self, EngineError> {
        let live = Live::new(bootstrap, options.login.clone(), options.answer_timeout, options.patience);
        Ok(Self { origin: Origin::Live(Box::new(live.map_err(EngineError)?)), options })
    }

    /// The same, and fails at once if none of the brokers answers.
    pub async fn connect(bootstrap: &[String], options: Options) -> Result<Self, EngineError> {
        let mut kafka = Self::at(bootstrap, options)?;
        if let Origin::Live(live) = &mut kafka.origin {
            // Without topics.
            live.metadata(Some(&[])).await.map_err(EngineError)?;
        }
        Ok(kafka)
    }

    /// Reads the output of Kafka's own tools with every look. Nothing can be applied then.
    pub fn from_files(files: Files, options: Options) -> Result<Self, EngineError> {
        if options.weigh == Weigh::Bytes && files.log_dirs.is_none() {
            return Err(EngineError(format!("bytes are not known; {LOG_DIRS_REMEDY}, or weigh by count")));
        }
        Ok(Self { origin: Origin::Files(files), options })
    }

    async fn look_live(live: &mut Live, options: &Options) -> Result<Look, String> {
        let mut cluster = live.cluster(&options.topics).await?;
        let left_alone = cluster.choose(options)?;
        let moving = live.moving(None).await?;
        for name in moving.iter().flatten() {
            cluster.partitions.entry(name.clone()).and_modify(|partition| partition.is_moving = true);
        }
        let weights = match &options.weigh {
            Weigh::Bytes => {
                Weights::Known(files::bytes(&live.held(&cluster.partitions).await?, &cluster.partitions))
            }
            _ => weights(options).map_err(|error| error.0)?,
        };
        let mut look = cluster.look(&weights, left_alone);
        match moving {
            // Those of other topics, too.
            Ok(moving) if look.refusals.is_empty() && !moving.is_empty() => {
                look.refusals.push(state::refusal(&moving.iter().collect::<Vec<_>>()));
            }
            Ok(_) => {}
            Err(refusal) => {
                let why = "cannot tell whether a reassignment runs";
                look.refusals.push(format!("{why}: {}; Describe on the cluster is needed", refusal.text()));
            }
        }
        match live.settings().await {
            Ok(settings) => {
                if !settings.restores_leaders {
                    look.remarks.retain(|remark| !remark.contains("auto.leader.rebalance.enable"));
                }
                look.remarks.extend(settings.replica_selector.map(|class| {
                    let less =
                        "consumers with client.rack may read from followers, so it matters less who leads";
                    format!("replica.selector.class is {class}: {less}")
                }));
            }
            Err(why) => {
                look.remarks.push(format!("whether consumers read from followers is not told: {why}"));
            }
        }
        Ok(look)
    }

    fn look_at_files(files: &Files, options: &Options) -> Result<Look, EngineError> {
        let mut cluster: Cluster = files::parse(&files.topics, files::topics, TOPICS_REMEDY)?;
        "files".clone_into(&mut cluster.id);
        let left_alone = cluster.choose(options).map_err(EngineError)?;
        let weights = match (&options.weigh, &files.log_dirs) {
            (Weigh::Bytes, Some(path)) => {
                let held = files::parse(path, files::log_dirs, LOG_DIRS_REMEDY)?;
                Weights::Known(files::bytes(&held, &cluster.partitions))
            }
            _ => weights(options)?,
        };
        let mut look = cluster.look(&weights, left_alone);
        look.refusals.push(NO_FILES.to_owned());
        Ok(look)
    }
}

const NO_FILES: &str =
    "files cannot be changed; run Kafka's own tools with what is written for them, or connect to brokers";

/// Weights that no broker tells.
fn weights(options: &Options) -> Result<Weights, EngineError> {
    match &options.weigh {
        Weigh::Count | Weigh::Bytes => Ok(Weights::Equal),
        Weigh::Rates(path) => files::parse(path, files::rates, RATES_REMEDY).map(Weights::Known),
    }
}

#[async_trait]
impl Engine for Kafka {
    fn name(&self) -> &'static str {
        "kafka"
    }

    async fn look(&mut self) -> Result<Look, EngineError> {
        match &mut self.origin {
            Origin::Live(live) => Self::look_live(live, &self.options).await.map_err(EngineError),
            Origin::Files(files) => Self::look_at_files(files, &self.options),
        }
    }

    fn commands(&self, _: &Look, changes: &[Change]) -> Result<Vec<Script>, EngineError> {
        Ok(scripts::scripts(&scripts::goals(changes)?))
    }

    async fn apply(&mut self, look: &Look, changes: &[Change]) -> Result<(), EngineError> {
        let Origin::Live(live) = &mut self.origin else { return Err(EngineError(NO_FILES.to_owned())) };
        if let Some(refusal) = look.refusals.first() {
            return Err(EngineError(refusal.clone()));
        }
        let goals = scripts::goals(changes)?;
        if goals.is_empty() {
            return Ok(());
        }
        live.apply(&goals).await.map_err(EngineError)
    }
}
