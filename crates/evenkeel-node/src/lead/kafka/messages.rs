//! The few requests that are made of brokers, each in one version that Kafka has known from 2.4, which brought changes of
//! replicas by request, to 4.
//!
//! They are written here by hand. The crate `kafka-protocol` sets memory aside for as many elements as an answer claims to
//! have, and a wrong count would end the program.

use super::wire::{Malformed, Reader, Writer};

/// Something to ask of a broker.
pub(super) trait Request {
    /// What Kafka calls it.
    const NAME: &'static str;
    const KEY: i16;
    const VERSION: i16;
    const IS_COMPACT: bool;
    type Answer;

    fn write(&self, to: &mut Writer);
    fn read(from: &mut Reader<'_>) -> Result<Self::Answer, Malformed>;
}

/// What went wrong: Kafka's number for it, and perhaps a sentence.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) code: i16,
    pub(super) message: Option<String>,
}

impl Refusal {
    pub(super) const UNKNOWN_TOPIC: i16 = 3;
    pub(super) const TIMED_OUT: i16 = 7;
    pub(super) const NO_RIGHT_TO_TOPIC: i16 = 29;
    pub(super) const NO_RIGHT_TO_CLUSTER: i16 = 31;
    pub(super) const NOT_CONTROLLER: i16 = 41;
    pub(super) const ELECTION_NOT_NEEDED: i16 = 84;

    fn of(code: i16, message: Option<String>) -> Option<Self> {
        (code != 0).then_some(Self { code, message })
    }

    /// In words, as Kafka's own tools have them.
    pub(super) fn text(&self) -> String {
        let name = match self.code {
            -1 => "an error that the broker did not expect",
            Self::UNKNOWN_TOPIC => "no such topic or partition",
            5 => "no leader",
            Self::TIMED_OUT => "it took too long",
            Self::NO_RIGHT_TO_TOPIC => "no right to the topic",
            Self::NO_RIGHT_TO_CLUSTER => "no right to the cluster",
            33 => "the broker does not know this way to log in",
            39 => "invalid replicas",
            Self::NOT_CONTROLLER => "the broker is not the controller",
            56 => "a disk of the broker failed",
            58 => "the login failed",
            60 => "a reassignment is in progress",
            80 => "the preferred leader is not available",
            83 => "no eligible leader is available",
            Self::ELECTION_NOT_NEEDED => "it leads already",
            _ => "",
        };
        let name = if name.is_empty() { format!("error {}", self.code) } else { name.to_owned() };
        match &self.message {
            Some(message) if !message.is_empty() => format!("{name} ({message})"),
            _ => name,
        }
    }
}

/// Partitions of a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Topic<P> {
    pub(super) name: String,
    pub(super) partitions: Vec<P>,
}

/// Which requests a broker knows, in which versions.
#[derive(Debug)]
pub(super) struct ApiVersions;

impl Request for ApiVersions {
    const NAME: &'static str = "ApiVersions";
    const KEY: i16 = 18;
    const VERSION: i16 = 0;
    const IS_COMPACT: bool = false;
    /// Key, first and last version.
    type Answer = Result<Vec<(i16, i16, i16)>, Refusal>;

    fn write(&self, _: &mut Writer) {}

    fn read(from: &mut Reader<'_>) -> Result<Self::Answer, Malformed> {
        let refusal = Refusal::of(from.i16()?, None);
        let ranges = from.list(|from| Ok((from.i16()?, from.i16()?, from.i16()?)))?;
        Ok(refusal.map_or(Ok(ranges), Err))
    }
}

/// Begins a login.
#[derive(Debug)]
pub(super) struct SaslHandshake {
    pub(super) mechanism: &'static str,
}

impl Request for SaslHandshake {
    const NAME: &'static str = "SaslHandshake";
    const KEY: i16 = 17;
    const VERSION: i16 = 1;
    const IS_COMPACT: bool = false;
    /// What went wrong, and the mechanisms that the broker knows.
    type Answer = (Option<Refusal>, Vec<String>);

    fn write(&self, to: &mut Writer) {
        to.text(self.mechanism);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self::Answer, Malformed> {
        Ok((Refusal::of(from.i16()?, None), from.list(Reader::text)?))
    }
}

/// Logs in.
pub(super) struct SaslAuthenticate {
    pub(super) token: Vec<u8>,
}

impl Request for SaslAuthenticate {
    const NAME: &'static str = "SaslAuthenticate";
    const KEY: i16 = 36;
    const VERSION: i16 = 0;
    const IS_COMPACT: bool = false;
    type Answer = Option<Refusal>;

    fn write(&self, to: &mut Writer) {
        to.bytes(&self.token);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self::Answer, Malformed> {
        let refusal = Refusal::of(from.i16()?, from.optional_text()?);
        from.skip_bytes()?;
        Ok(refusal)
    }
}

/// Brokers that live, and topics with their partitions: all of them, or those that are named.
#[derive(Debug)]
pub(super) struct Metadata<'a> {
    pub(super) topics: Option<&'a [String]>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MetadataAnswer {
    pub(super) brokers: Vec<BrokerAnswer>,
    pub(super) cluster: Option<String>,
    /// Any broker where controllers are others: it passes requests on.
    pub(super) controller: i32,
    pub(super) topics: Vec<TopicAnswer>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BrokerAnswer {
    pub(super) id: i32,
    pub(super) host: String,
    pub(super) port: i32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TopicAnswer {
    pub(super) refusal: Option<Refusal>,
    pub(super) name: String,
    pub(super) is_internal: bool,
    pub(super) partitions: Vec<PartitionAnswer>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PartitionAnswer {
    pub(super) index: i32,
    /// -1 if there is none.
    pub(super) leader: i32,
    pub(super) replicas: Vec<i32>,
    pub(super) in_sync: Vec<i32>,
    pub(super) offline: Vec<i32>,
}

impl Request for Metadata<'_> {
    const NAME: &'static str = "Metadata";
    const KEY: i16 = 3;
    const VERSION: i16 = 9;
    const IS_COMPACT: bool = true;
    type Answer = MetadataAnswer;

    fn write(&self, to: &mut Writer) {
        match self.topics {
            Some(topics) => to.structures(topics, |to, topic| to.text(topic)),
            None => to.no_list(),
        }
        // Neither makes topics that are not there nor asks what one may do.
        to.flag(false);
        to.flag(false);
        to.flag(false);
        to.no_tags();
    }

    fn read(from: &mut Reader<'_>) -> Result<Self::Answer, Malformed> {
        let _throttled_ms = from.i32()?;
        let brokers = from.structures(|from| {
            let broker = BrokerAnswer { id: from.i32()?, host: from.text()?, port: from.i32()? };
            let _rack = from.optional_text()?;
            Ok(broker)
        })?;
        let (cluster, controller) = (from.optional_text()?, from.i32()?);
        let topics = from.structures(|from| {
            let refusal = Refusal::of(from.i16()?, None);
            let (name, is_internal) = (from.text()?, from.flag()?);
            let partitions = from.structures(|from| {
                let _code = from.i16()?;
                let (index, leader) = (from.i32()?, from.i32()?);
                let _epoch = from.i32()?;
                let mut ids = || from.list(Reader::i32);
                let (replicas, in_sync, offline) = (ids()?, ids()?, ids()?);
                Ok(PartitionAnswer { index, leader, replicas, in_sync, offline })
            })?;
            let _allowed = from.i32()?;
            Ok(TopicAnswer { refusal, name, is_internal, partitions })
        })?;
        let _allowed = from.i32()?;
        from.skip_tags()?;
        Ok(MetadataAnswer { brokers, cluster, controller, topics })
    }
}

/// How much a broker holds of some partitions.
#[derive(Debug)]
pub(super) struct DescribeLogDirs {
    pub(super) topics: Vec<Topic<i32>>,
}

/// A folder of a broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LogDir {
    pub(super) refusal: Option<Refusal>,
    /// Index and bytes.
    pub(super) topics: Vec<Topic<(i32, i64)>>,
}

impl Request for DescribeLogDirs {
    const NAME: &'static str = "DescribeLogDirs";
    const KEY: i16 = 35;
    const VERSION: i16 = 1;
    const IS_COMPACT: bool = false;
    type Answer = Vec<LogDir>;

    fn write(&self, to: &mut Writer) {
        to.structures(&self.topics, |to, topic| {
            to.text(&topic.name);
            to.list(&topic.partitions, |to, &partition| to.i32(partition));
        });
    }

    fn read(from: &mut Reader<'_>) -> Result<Self::Answer, Malformed> {
        let _throttled_ms = from.i32()?;
        from.structures(|from| {
            let refusal = Refusal::of(from.i16()?, None);
            let _folder = from.text()?;
            let topics = from.structures(|from| {
                let name = from.text()?;
                let partitions = from.structures(|from| {
                    let (index, bytes) = (from.i32()?, from.i64()?);
                    let _lag = from.i64()?;
                    // A copy on its way to another disk of the same broker.
                    let is_future = from.flag()?;
                    Ok((!is_future).then_some((index, bytes)))
                })?;
                Ok(Topic { name, partitions: partitions.into_iter().flatten().collect() })
            })?;
            Ok(LogDir { refusal, topics })
        })
    }
}

/// Which partitions get other replicas now: all of them, or those that are named.
#[derive(Debug)]
pub(super) struct ListPartitionReassignments {
    pub(super) timeout_ms: i32,
    pub(super) topics: Option<Vec<Topic<i32>>>,
}

impl Request for ListPartitionReassignments {
    const NAME: &'static str = "ListPartitionReassignments";
    const KEY: i16 = 46;
    const VERSION: i16 = 0;
    const IS_COMPACT: bool = true;
    type Answer = Result<Vec<Topic<i32>>, Refusal>;

    fn write(&self, to: &mut Writer) {
        to.i32(self.timeout_ms);
        match &self.topics {
            Some(topics) => to.structures(topics, |to, topic| {
                to.text(&topic.name);
                to.list(&topic.partitions, |to, &partition| to.i32(partition));
            }),
            None => to.no_list(),
        }
        to.no_tags();
    }

    fn read(from: &mut Reader<'_>) -> Result<Self::Answer, Malformed> {
        let _throttled_ms = from.i32()?;
        let refusal = Refusal::of(from.i16()?, from.optional_text()?);
        let topics = from.structures(|from| {
            let name = from.text()?;
            let partitions = from.structures(|from| {
                let index = from.i32()?;
                for _ in ["replicas", "adding", "removing"] {
                    from.list(Reader::i32)?;
                }
                Ok(index)
            })?;
            Ok(Topic { name, partitions })
        })?;
        from.skip_tags()?;
        Ok(refusal.map_or(Ok(topics), Err))
    }
}

/// What is refused of several partitions, or of all together.
type Refused = Result<Vec<(String, i32, Refusal)>, Refusal>;

/// Gives partitions other replicas, or the same in another order.
#[derive(Debug)]
pub(super) struct AlterPartitionReassignments {
    pub(super) timeout_ms: i32,
    /// Index and replicas.
    pub(super) topics: Vec<Topic<(i32, Vec<i32>)>>,
}

impl Request for AlterPartitionReassignments {
    const NAME: &'static str = "AlterPartitionReassignments";
    const KEY: i16 = 45;
    const VERSION: i16 = 0;
    const IS_COMPACT: bool = true;
    type Answer = Refused;

    fn write(&self, to: &mut Writer) {
        to.i32(self.timeout_ms);
        to.structures(&self.topics, |to, topic| {
            to.text(&topic.name);
            to.structures(&topic.partitions, |to, (index, replicas)| {
                to.i32(*index);
                to.list(replicas, |to, &replica| to.i32(replica));
            });
        });
        to.no_tags();
    }

    fn read(from: &mut Reader<'_>) -> Result<Self::Answer, Malformed> {
        read_refused(from)
    }
}

/// Makes the first of the replicas lead.
#[derive(Debug)]
pub(super) struct ElectLeaders {
    pub(super) timeout_ms: i32,
    pub(super) topics: Vec<Topic<i32>>,
}

impl Request for ElectLeaders {
    const NAME: &'static str = "ElectLeaders";
    const KEY: i16 = 43;
    const VERSION: i16 = 2;
    const IS_COMPACT: bool = true;
    type Answer = Refused;

    fn write(&self, to: &mut Writer) {
        // The preferred one. The other kind, 1, may lose data.
        to.i8(0);
        to.structures(&self.topics, |to, topic| {
            to.text(&topic.name);
            to.list(&topic.partitions, |to, &partition| to.i32(partition));
        });
        to.i32(self.timeout_ms);
        to.no_tags();
    }

    fn read(from: &mut Reader<'_>) -> Result<Self::Answer, Malformed> {
        let _throttled_ms = from.i32()?;
        let refusal = Refusal::of(from.i16()?, None);
        read_topics(from, refusal)
    }
}

fn read_refused(from: &mut Reader<'_>) -> Result<Refused, Malformed> {
    let _throttled_ms = from.i32()?;
    let refusal = Refusal::of(from.i16()?, from.optional_text()?);
    read_topics(from, refusal)
}

fn read_topics(from: &mut Reader<'_>, refusal: Option<Refusal>) -> Result<Refused, Malformed> {
    let topics = from.structures(|from| {
        let name = from.text()?;
        let partitions =
            from.structures(|from| Ok((from.i32()?, Refusal::of(from.i16()?, from.optional_text()?))))?;
        Ok((name, partitions))
    })?;
    from.skip_tags()?;
    if let Some(refusal) = refusal {
        return Ok(Err(refusal));
    }
    let refused = topics.into_iter().flat_map(|(name, partitions)| {
        let refused = partitions.into_iter().filter_map(|(index, refusal)| Some((index, refusal?)));
        refused.map(move |(index, refusal)| (name.clone(), index, refusal)).collect::<Vec<_>>()
    });
    Ok(Ok(refused.collect()))
}

/// Settings of a broker, by their names.
#[derive(Debug)]
pub(super) struct DescribeConfigs {
    pub(super) broker: i32,
    pub(super) names: &'static [&'static str],
}

impl Request for DescribeConfigs {
    const NAME: &'static str = "DescribeConfigs";
    const KEY: i16 = 32;
    const VERSION: i16 = 1;
    const IS_COMPACT: bool = false;
    /// Names and values.
    type Answer = Result<Vec<(String, Option<String>)>, Refusal>;

    fn write(&self, to: &mut Writer) {
        to.structures(&[self.broker], |to, broker| {
            // A broker.
            to.i8(4);
            to.text(&broker.to_string());
            to.list(self.names, |to, name| to.text(name));
        });
        to.flag(false);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self::Answer, Malformed> {
        let _throttled_ms = from.i32()?;
        let results = from.structures(|from| {
            let refusal = Refusal::of(from.i16()?, from.optional_text()?);
            let _kind = from.i8()?;
            let _broker = from.text()?;
            let settings = from.structures(|from| {
                let setting = (from.text()?, from.optional_text()?);
                let (_is_read_only, _source, _is_sensitive) = (from.flag()?, from.i8()?, from.flag()?);
                from.structures(|from| Ok((from.text()?, from.optional_text()?, from.i8()?)))?;
                Ok(setting)
            })?;
            Ok(refusal.map_or(Ok(settings), Err))
        })?;
        let settings: Result<Vec<_>, _> = results.into_iter().collect();
        Ok(settings.map(|settings| settings.into_iter().flatten().collect()))
    }
}
