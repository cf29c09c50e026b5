//! The output of Kafka's own tools, and rates from people's monitoring, for those who may not connect.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::super::EngineError;
use super::state::{Cluster, Name, Partition, is_topic};

/// The largest file that is read.
const MOST_BYTES: u64 = 512 << 20;
/// Topics that Kafka itself writes.
const INTERNAL: [&str; 3] = ["__consumer_offsets", "__transaction_state", "__share_group_state"];

/// Output of Kafka's own tools, as files.
#[derive(Clone, Debug)]
pub struct Files {
    /// What `kafka-topics --describe` prints: leaders, replicas and those in sync.
    pub topics: PathBuf,
    /// What `kafka-log-dirs --describe` prints: bytes.
    pub log_dirs: Option<PathBuf>,
}

/// Reads a text whose size is bounded.
pub(super) fn read(path: &Path, remedy: &str) -> Result<String, EngineError> {
    let failed = |why: String| EngineError(format!("{}: {why}; {remedy}", path.display()));
    let file = File::open(path).map_err(|error| failed(error.to_string()))?;
    let mut bytes = Vec::new();
    file.take(MOST_BYTES + 1).read_to_end(&mut bytes).map_err(|error| failed(error.to_string()))?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(failed(format!("it has more than {} MiB", MOST_BYTES >> 20)));
    }
    String::from_utf8(bytes).map_err(|_| failed("it is no text in UTF-8".to_owned()))
}

/// Parses the text of a file. Errors name it.
pub(super) fn parse<T>(
    path: &Path,
    parser: impl FnOnce(&str) -> Result<T, String>,
    remedy: &str,
) -> Result<T, EngineError> {
    parser(&read(path, remedy)?).map_err(|why| EngineError(format!("{}: {why}; {remedy}", path.display())))
}

/// How to get each file.
pub(super) const TOPICS_REMEDY: &str = "give the output of `kafka-topics --describe`, as it was printed";
pub(super) const LOG_DIRS_REMEDY: &str = "give the output of `kafka-log-dirs --describe`, as it was printed";
pub(super) const RATES_REMEDY: &str =
    "give CSV with the columns topic, partition and rate, or partition (as topic-3) and bytes_per_second";

/// Parses what `kafka-topics --describe` prints.
pub(super) fn topics(text: &str) -> Result<Cluster, String> {
    let mut cluster = Cluster::default();
    // How many partitions each topic says that it has.
    let mut announced: BTreeMap<String, usize> = BTreeMap::new();
    for (number, line) in text.lines().enumerate() {
        let at = |why: &str| format!("line {}: {why}", number + 1);
        let fields = fields(line);
        let field = |name: &str| fields.get(name).copied();
        // Tools may log warnings there.
        let Some(topic) = field("Topic") else { continue };
        if !is_topic(topic) {
            return Err(at("its topic has a name that Kafka does not allow"));
        }
        let Some(partition) = field("Partition") else {
            let count = field("PartitionCount").and_then(|count| count.parse().ok());
            let count = count.ok_or_else(|| at("it has neither a partition nor a count of partitions"))?;
            announced.insert(topic.to_owned(), count);
            continue;
        };
        let partition: i32 = partition
            .parse()
            .ok()
            .filter(|number| *number >= 0)
            .ok_or_else(|| at(&format!("`{partition}` is no number of a partition")))?;
        let leader = field("Leader").ok_or_else(|| at("it has no leader, not even `none`"))?;
        let leader = match leader {
            "none" | "-1" => None,
            id => Some(id.parse().map_err(|_| at(&format!("`{id}` is no number of a broker")))?),
        };
        let list = |name: &str| {
            let list = field(name).ok_or_else(|| at(&format!("it has no field {name}")))?;
            ids(list).map_err(|why| at(&why))
        };
        let is_moving = ["Adding Replicas", "Removing Replicas"]
            .iter()
            .any(|name| field(name).is_some_and(|list| !list.is_empty()));
        let found = Partition {
            leader,
            replicas: list("Replicas")?,
            in_sync: list("Isr")?,
            offline: Vec::new(),
            is_internal: INTERNAL.contains(&topic),
            is_moving,
        };
        found.check().map_err(|why| at(&format!("the partition {why}")))?;
        let name = Name::new(topic, partition);
        if cluster.partitions.insert(name, found).is_some() {
            return Err(at("the partition is there a second time"));
        }
    }
    if cluster.partitions.is_empty() {
        return Err("it describes no partition".to_owned());
    }
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    cluster.partitions.keys().for_each(|name| *counts.entry(&name.topic).or_default() += 1);
    for (topic, announced) in announced {
        let found = counts.get(topic.as_str()).copied().unwrap_or_default();
        if found != announced {
            return Err(format!("topic {topic} has {announced} partitions, but {found} are described"));
        }
    }
    Ok(cluster)
}

/// Fields are separated by tabs: a name, a colon, a value.
fn fields(line: &str) -> BTreeMap<&str, &str> {
    let fields = line.split('\t').filter_map(|field| field.split_once(':'));
    fields.map(|(name, value)| (name.trim(), value.trim())).collect()
}

fn ids(list: &str) -> Result<Vec<i32>, String> {
    let ids = list.split(',').map(str::trim).filter(|id| !id.is_empty());
    ids.map(|id| id.parse().map_err(|_| format!("`{id}` is no number of a broker"))).collect()
}

/// How much each broker holds of each partition.
pub(super) type Held = BTreeMap<Name, BTreeMap<i32, u64>>;

/// Parses what `kafka-log-dirs --describe` prints: JSON in one line, after lines that say what was asked.
pub(super) fn log_dirs(text: &str) -> Result<Held, String> {
    #[derive(Deserialize)]
    struct Document {
        version: u64,
        brokers: Vec<Broker>,
    }
    #[derive(Deserialize)]
    struct Broker {
        broker: i32,
        #[serde(rename = "logDirs")]
        log_dirs: Vec<LogDir>,
    }
    #[derive(Deserialize)]
    struct LogDir {
        #[serde(default)]
        partitions: Vec<Held>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Held {
        partition: String,
        size: i64,
        #[serde(default)]
        is_future: bool,
    }
    let mut lines = text.lines().enumerate();
    let json = lines.find(|(_, line)| line.trim_start().starts_with('{'));
    let (number, json) = json.ok_or("it has no JSON")?;
    let at = |why: String| format!("line {}: {why}", number + 1);
    let document: Document = serde_json::from_str(json).map_err(|error| at(error.to_string()))?;
    if document.version != 1 {
        return Err(at(format!("it has version {}, and only 1 is known", document.version)));
    }
    let mut held: self::Held = BTreeMap::new();
    for broker in document.brokers {
        for found in broker.log_dirs.into_iter().flat_map(|folder| folder.partitions) {
            let name = Name::parse(&found.partition);
            let name = name.ok_or_else(|| at(format!("`{}` is no partition", found.partition)))?;
            let size = u64::try_from(found.size);
            let size = size.map_err(|_| at(format!("{name} has {} bytes", found.size)))?;
            if !found.is_future {
                held.entry(name).or_default().insert(broker.broker, size);
            }
        }
    }
    Ok(held)
}

/// What partitions weigh by their bytes: what the leader holds, or, if nobody knows that, what any replica holds at most.
pub(super) fn bytes(held: &Held, partitions: &BTreeMap<Name, Partition>) -> BTreeMap<Name, u64> {
    let weight = |(name, partition): (&Name, &Partition)| {
        let held = held.get(name)?;
        let of_leader = partition.leader.and_then(|leader| held.get(&leader));
        Some((name.clone(), *of_leader.or_else(|| held.values().max())?))
    };
    partitions.iter().filter_map(weight).collect()
}

/// Parses rates in bytes a second: a table with the columns `topic`, `partition` and `rate`, or `partition`, as in
/// `topic-3`, and `bytes_per_second`.
pub(super) fn rates(text: &str) -> Result<BTreeMap<Name, u64>, String> {
    let mut lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let (_, head) = lines.next().ok_or("it is empty")?;
    let head: Vec<&str> = cells(head).collect();
    let column = |names: &[&str]| head.iter().position(|name| names.contains(name));
    let partition = column(&["partition"]).ok_or("line 1: no column is called partition")?;
    let rate = column(&["rate", "bytes_per_second"]);
    let rate = rate.ok_or("line 1: no column is called rate or bytes_per_second")?;
    let topic = column(&["topic"]);
    let distinct: BTreeSet<&&str> = head.iter().collect();
    if distinct.len() < head.len() {
        return Err("line 1: two columns have the same name".to_owned());
    }
    let mut rates = BTreeMap::new();
    for (number, line) in lines {
        let at = |why: String| format!("line {}: {why}", number + 1);
        let row: Vec<&str> = cells(line).collect();
        if row.len() != head.len() {
            return Err(at(format!("it has {} cells, and the first line {}", row.len(), head.len())));
        }
        let name = match topic {
            Some(topic) => format!("{}-{}", row[topic], row[partition]),
            None => row[partition].to_owned(),
        };
        let name = Name::parse(&name).ok_or_else(|| at(format!("`{name}` is no partition")))?;
        let value: Option<f64> = row[rate].parse().ok();
        // Beyond 2⁵³ numbers have gaps, and no broker is that fast.
        let value = value.filter(|value| (0.0..9e15).contains(value));
        let value = value.ok_or_else(|| at(format!("`{}` is no rate", row[rate])))?;
        // Little is not nothing.
        let value = if value > 0.0 { (value.round() as u64).max(1) } else { 0 };
        if rates.insert(name.clone(), value).is_some() {
            return Err(at(format!("{name} is there a second time")));
        }
    }
    Ok(rates)
}

/// Neither topics nor numbers have commas or quotes of their own.
fn cells(line: &str) -> impl Iterator<Item = &str> {
    line.split(',').map(|cell| cell.trim().trim_matches('"'))
}
