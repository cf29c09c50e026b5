//! The stores that have leaders, as the command line names them.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use evenkeel_node::lead::Engine;
use evenkeel_node::lead::ceph::{self, Access, Ceph, Client};
use evenkeel_node::lead::kafka::{self, Files, Kafka, Login};

use crate::cli::{CephArgs, KafkaArgs, KafkaWeighName, WeighName};

/// A store, and how its groups are weighed.
#[derive(Debug)]
pub(crate) struct Store {
    /// Looks and changes.
    pub(crate) engine: Box<dyn Engine>,
    /// What people call its groups, pools and servers.
    pub(crate) group: &'static str,
    pub(crate) pool: &'static str,
    pub(crate) server: &'static str,
    /// What groups weigh: `count`, `bytes`, `reads`, `rates`.
    pub(crate) weigh: &'static str,
    /// Whether that is bytes.
    pub(crate) is_in_bytes: bool,
    /// Whether its servers can be measured.
    pub(crate) can_be_measured: bool,
    /// Files that are read, which are not to be replaced.
    pub(crate) inputs: Vec<PathBuf>,
    /// Whether all that is known of it comes from files, so that it can be neither changed nor measured.
    pub(crate) is_files: bool,
    /// The option that leaves a part of it out, if one was given.
    pub(crate) filter: Option<&'static str>,
}

impl Store {
    pub(crate) fn ceph(args: &CephArgs) -> Self {
        let (weigh, name) = match args.weigh {
            WeighName::Count => (ceph::Weigh::Count, "count"),
            WeighName::Bytes => (ceph::Weigh::Bytes, "bytes"),
            WeighName::Reads => (ceph::Weigh::Reads, "reads"),
        };
        let access = match args.from.is_empty() {
            true => Access::Live(Client {
                conf: args.conf.clone(),
                name: args.name.clone(),
                patience: Duration::from_secs(args.patience),
            }),
            false => Access::Files(args.from.clone()),
        };
        let options = ceph::Options {
            access,
            pools: args.pools.clone(),
            weigh,
            over: Duration::from_secs(args.over),
            class_speeds: args.class_speeds.iter().cloned().collect(),
            despite_balancer: args.despite_balancer,
        };
        Self {
            engine: Box::new(Ceph::new(options)),
            group: "group",
            pool: "pool",
            server: "OSD",
            weigh: name,
            is_in_bytes: weigh != ceph::Weigh::Count,
            can_be_measured: true,
            inputs: args
                .from
                .iter()
                .flat_map(|folder| ceph::FILES.map(|file| folder.join(file)))
                .chain(args.conf.clone())
                .collect(),
            is_files: !args.from.is_empty(),
            filter: (!args.pools.is_empty()).then_some("--pool"),
        }
    }

    pub(crate) fn kafka(args: &KafkaArgs) -> Result<Self> {
        let (weigh, name) = match (args.weigh, &args.rates) {
            (KafkaWeighName::Rates, Some(file)) => (kafka::Weigh::Rates(file.clone()), "rates"),
            (KafkaWeighName::Count, _) => (kafka::Weigh::Count, "count"),
            (KafkaWeighName::Bytes | KafkaWeighName::Rates, _) => (kafka::Weigh::Bytes, "bytes"),
        };
        let options = kafka::Options {
            topics: args.topics.clone(),
            internal: args.internal,
            weigh,
            login: args.command_config.as_deref().map(Login::read).transpose()?.unwrap_or_default(),
            patience: Duration::from_secs(args.patience),
            ..kafka::Options::default()
        };
        let engine = match &args.describe {
            Some(topics) => {
                let files = Files { topics: topics.clone(), log_dirs: args.log_dirs.clone() };
                Kafka::from_files(files, options)?
            }
            None => Kafka::at(&args.bootstrap, options)?,
        };
        Ok(Self {
            engine: Box::new(engine),
            group: "partition",
            pool: "topic",
            server: "broker",
            weigh: name,
            is_in_bytes: args.weigh != KafkaWeighName::Count,
            can_be_measured: false,
            inputs: [&args.describe, &args.log_dirs, &args.rates, &args.command_config]
                .into_iter()
                .flatten()
                .cloned()
                .collect(),
            is_files: args.describe.is_some(),
            filter: (!args.topics.is_empty()).then_some("--topic"),
        })
    }
}
