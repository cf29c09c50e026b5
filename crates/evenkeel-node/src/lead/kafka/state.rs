//! What is known of a cluster, however it was learned, and how it looks to the planner.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::super::{Group, Look, Member};
use super::Options;

/// A partition, by its topic and number. Kafka's tools write it as `topic-3`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Name {
    pub(super) topic: String,
    pub(super) partition: i32,
}

impl Name {
    pub(super) fn new(topic: &str, partition: i32) -> Self {
        Self { topic: topic.to_owned(), partition }
    }

    /// Topics may have dashes of their own.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (topic, partition) = text.rsplit_once('-')?;
        let is_number = !partition.is_empty() && partition.bytes().all(|byte| byte.is_ascii_digit());
        let partition = partition.parse().ok().filter(|_| is_number)?;
        is_topic(topic).then(|| Self::new(topic, partition))
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.topic, self.partition)
    }
}

/// Whether Kafka allows a topic of this name.
pub(super) fn is_topic(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    (1..=249).contains(&name.len()) && name.bytes().all(is_allowed)
}

/// Who holds a partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Partition {
    pub(super) leader: Option<i32>,
    pub(super) replicas: Vec<i32>,
    pub(super) in_sync: Vec<i32>,
    pub(super) offline: Vec<i32>,
    pub(super) is_internal: bool,
    /// It gets other replicas now.
    pub(super) is_moving: bool,
}

impl Partition {
    /// An error if it cannot be so.
    pub(super) fn check(&self) -> Result<(), &'static str> {
        let different: BTreeSet<i32> = self.replicas.iter().copied().collect();
        if different.len() < self.replicas.len() {
            return Err("has a replica twice");
        }
        if self.replicas.is_empty() {
            return Err("has no replicas");
        }
        let mut ids = self.replicas.iter().chain(&self.in_sync).chain(&self.leader);
        if ids.any(|id| *id < 0) {
            return Err("has a broker with a negative number");
        }
        Ok(())
    }

    /// Why its leader stays, if so.
    fn left_alone(&self) -> Option<&'static str> {
        let Some(leader) = self.leader else { return Some("have no leader") };
        if self.is_moving {
            return Some("get other replicas now");
        }
        if !self.replicas.contains(&leader) {
            return Some("are led by none of their replicas");
        }
        (!self.offline.is_empty()).then_some("have replicas that are offline")
    }
}

/// Brokers and partitions.
#[derive(Clone, Debug, Default)]
pub(super) struct Cluster {
    pub(super) id: String,
    /// The brokers that are known to live, or `None` if nobody says.
    pub(super) alive: Option<BTreeSet<i32>>,
    pub(super) partitions: BTreeMap<Name, Partition>,
}

/// What partitions weigh. One that is missing weighs nothing.
#[derive(Clone, Debug)]
pub(super) enum Weights {
    Equal,
    Known(BTreeMap<Name, u64>),
}

impl Cluster {
    /// Leaves the topics that are asked for. An error if one of them is not there.
    pub(super) fn choose(&mut self, options: &Options) -> Result<Vec<String>, String> {
        let there: BTreeSet<&str> = self.partitions.keys().map(|name| name.topic.as_str()).collect();
        if let Some(missing) = options.topics.iter().find(|topic| !there.contains(topic.as_str())) {
            return Err(format!("no topic is called `{missing}`; name one of those that the cluster has"));
        }
        if !options.topics.is_empty() {
            self.partitions.retain(|name, _| options.topics.contains(&name.topic));
        }
        let mut internal: BTreeMap<String, usize> = BTreeMap::new();
        if !options.internal {
            self.partitions.retain(|name, partition| {
                // Whoever names a topic means it.
                let is_left = partition.is_internal && options.topics.is_empty();
                if is_left {
                    *internal.entry(name.topic.clone()).or_default() += 1;
                }
                !is_left
            });
        }
        let said = |(topic, n)| format!("topic {topic}: {} internal to Kafka", are(n));
        Ok(internal.into_iter().map(said).collect())
    }

    /// What the planner gets. `left_alone` says what was left out before.
    pub(super) fn look(&self, weights: &Weights, left_alone: Vec<String>) -> Look {
        let partitions = || self.partitions.values();
        let mut ids: BTreeSet<i32> =
            partitions().flat_map(|p| p.replicas.iter().chain(&p.leader)).copied().collect();
        ids.extend(self.alive.iter().flatten());
        let ids: Vec<i32> = ids.into_iter().collect();
        let position = |id: &i32| ids.binary_search(id).ok().map(|position| position as u32);
        let is_alive = |id: &i32| self.alive.as_ref().is_none_or(|alive| alive.contains(id));
        let servers = ids.iter().map(|id| Member {
            name: id.to_string(),
            speed: None,
            barred: (!is_alive(id)).then(|| "it is down".to_owned()),
        });
        let mut reasons: BTreeMap<&str, Vec<&Name>> = BTreeMap::new();
        let mut weightless = Vec::new();
        let mut disordered = Vec::new();
        let mut groups = Vec::with_capacity(self.partitions.len());
        for (name, partition) in &self.partitions {
            let reason = partition.left_alone();
            reason.into_iter().for_each(|reason| reasons.entry(reason).or_default().push(name));
            let weight = match weights {
                Weights::Equal => Some(1),
                Weights::Known(weights) => weights.get(name).copied(),
            };
            if weight.is_none() {
                weightless.push(name);
            }
            if partition.leader.is_some_and(|leader| partition.replicas.first() != Some(&leader)) {
                disordered.push(name);
            }
            let may_lead = |id: &&i32| partition.in_sync.contains(id) && is_alive(id) && reason.is_none();
            groups.push(Group {
                name: name.to_string(),
                pool: name.topic.clone(),
                weight: weight.unwrap_or_default(),
                members: partition.replicas.iter().filter_map(position).collect(),
                leader: partition.leader.as_ref().and_then(position),
                eligible: partition.replicas.iter().filter(may_lead).filter_map(position).collect(),
            });
        }
        let mut look = Look {
            store: self.id.clone(),
            servers: servers.collect(),
            groups,
            left_alone,
            ..Look::default()
        };
        if let Weights::Known(weights) = weights {
            let n_unknown = weights.keys().filter(|name| !self.partitions.contains_key(name)).count();
            if n_unknown > 0 && weightless.len() == self.partitions.len() {
                look.refusals.push(format!(
                    "none of the {n_unknown} partitions whose weights are known is here; are topics called as in the cluster?"
                ));
            } else if n_unknown > 0 {
                look.remarks
                    .push(format!("weights of {n_unknown} partitions that are not looked at are left out"));
            }
        }
        look.left_alone.extend(reasons.into_iter().map(|(reason, names)| some(&names, reason)));
        if !weightless.is_empty() {
            look.remarks.push(some(&weightless, "weigh nothing, since nothing is known of them"));
        }
        if !disordered.is_empty() {
            look.remarks.push(some(&disordered, DISORDERED));
        }
        let moving: Vec<&Name> =
            self.partitions.iter().filter(|(_, p)| p.is_moving).map(|(name, _)| name).collect();
        if !moving.is_empty() {
            look.refusals.push(refusal(&moving));
        }
        look
    }
}

const DISORDERED: &str = "are not led by the first of their replicas: if auto.leader.rebalance.enable is set, Kafka \
                          makes those lead again";

/// Why nothing is changed while partitions move.
pub(super) fn refusal(moving: &[&Name]) -> String {
    let wait = "a reassignment runs; wait until `kafka-reassign-partitions --list` shows none";
    some(moving, &format!("get other replicas now: {wait}"))
}

/// A few of many names, and what is said of all of them.
pub(super) fn some(names: &[&Name], what: &str) -> String {
    const MOST: usize = 3;
    let shown: Vec<String> = names.iter().take(MOST).map(ToString::to_string).collect();
    let n = names.len();
    let partitions = if n == 1 { "partition" } else { "partitions" };
    let more = if n > MOST { ", …" } else { "" };
    // The verb comes first.
    let what = match (n, what.split_once(' ')) {
        (1, Some(("have", rest))) => format!("has {rest}"),
        (1, Some(("are", rest))) => format!("is {rest}"),
        (1, Some((verb @ ("get" | "weigh"), rest))) => format!("{verb}s {rest}"),
        _ => what.to_owned(),
    };
    format!("{n} {partitions} ({}{more}) {what}", shown.join(", "))
}

fn are(n: usize) -> String {
    if n == 1 { "1 partition is".to_owned() } else { format!("{n} partitions are") }
}
