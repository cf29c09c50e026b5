//! A cluster that answers: connections to its brokers, and what they tell.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::{Instant, sleep};

use super::connection::{Connection, Trouble};
use super::files::Held;
use super::login::Login;
use super::messages::{
    DescribeConfigs, DescribeLogDirs, ListPartitionReassignments, Metadata, MetadataAnswer, Refusal, Request,
    Topic,
};
use super::state::{Cluster, Name, Partition, is_topic};

/// Brokers that are asked at the same time.
const AT_ONCE: usize = 16;
/// How long to wait before asking again.
const PAUSE: Duration = Duration::from_millis(100);

/// Connections to the brokers of a cluster.
#[derive(Debug)]
pub(super) struct Live {
    /// Where to begin: hosts and ports.
    bootstrap: Vec<(String, u16)>,
    login: Login,
    /// How long a single answer may take.
    pub(super) answer_timeout: Duration,
    /// How long a change may take.
    pub(super) patience: Duration,
    /// The connection by which metadata comes. Always the same while it lasts, since brokers learn of changes one by one:
    /// what one has told, another may not know yet.
    home: Option<Connection>,
    connections: BTreeMap<i32, Connection>,
    /// Hosts and ports of the brokers that live.
    brokers: BTreeMap<i32, (String, u16)>,
    controller: i32,
}

/// Follower fetching, and whether Kafka itself restores leaders.
#[derive(Clone, Debug, Default)]
pub(super) struct Settings {
    pub(super) replica_selector: Option<String>,
    pub(super) restores_leaders: bool,
}

/// What came of asking the controller.
#[derive(Debug)]
pub(super) enum Asked<T> {
    Answered(Result<T, Refusal>),
    /// Ask again, if it is still wanted.
    Again,
}

impl Live {
    pub(super) fn new(
        bootstrap: &[String],
        login: Login,
        answer_timeout: Duration,
        patience: Duration,
    ) -> Result<Self, String> {
        let addresses = bootstrap.iter().flat_map(|list| list.split(',')).map(str::trim);
        let bootstrap: Result<Vec<_>, _> = addresses.filter(|text| !text.is_empty()).map(address).collect();
        let bootstrap = bootstrap?;
        if bootstrap.is_empty() {
            return Err("no broker is named; give one as HOST:PORT".to_owned());
        }
        Ok(Self {
            bootstrap,
            login,
            answer_timeout,
            patience,
            home: None,
            connections: BTreeMap::new(),
            brokers: BTreeMap::new(),
            controller: -1,
        })
    }

    /// The brokers and topics, all of them or those that are named.
    pub(super) async fn metadata(&mut self, topics: Option<&[String]>) -> Result<MetadataAnswer, String> {
        let request = Metadata { topics };
        let mut last = None;
        if let Some(mut home) = self.home.take() {
            match home.call(&request).await {
                Ok(answer) => return self.keep(home, answer),
                Err(trouble) if trouble.is_lost => last = Some(trouble),
                Err(trouble) => return Err(trouble.message),
            }
        }
        let mut known = self.bootstrap.clone();
        known.extend(self.brokers.values().filter(|address| !self.bootstrap.contains(address)).cloned());
        for (host, port) in known {
            let asked = async {
                let mut home = Connection::open(&host, port, &self.login, self.answer_timeout).await?;
                let answer = home.call(&request).await?;
                Ok::<_, Trouble>((home, answer))
            };
            match asked.await {
                Ok((home, answer)) => return self.keep(home, answer),
                Err(trouble) => last = Some(trouble),
            }
        }
        Err(last.map_or_else(|| "no broker is known".to_owned(), |trouble| trouble.message))
    }

    fn keep(&mut self, home: Connection, answer: MetadataAnswer) -> Result<MetadataAnswer, String> {
        let mut brokers = BTreeMap::new();
        for broker in &answer.brokers {
            let port = u16::try_from(broker.port).ok().filter(|port| *port > 0);
            let port = port.ok_or_else(|| format!("broker {} has port {}", broker.id, broker.port))?;
            if broker.id < 0 || broker.host.is_empty() {
                return Err(format!("broker {} has no valid number or host", broker.id));
            }
            brokers.insert(broker.id, (broker.host.clone(), port));
        }
        self.connections.retain(|id, _| brokers.get(id) == self.brokers.get(id));
        self.brokers = brokers;
        self.controller = answer.controller;
        self.home = Some(home);
        Ok(answer)
    }

    /// Who holds what.
    pub(super) async fn cluster(&mut self, topics: &[String]) -> Result<Cluster, String> {
        let asked = (!topics.is_empty()).then_some(topics);
        let answer = self.metadata(asked).await?;
        let id = answer.cluster.clone().ok_or("the cluster has no id")?;
        let alive: BTreeSet<i32> = answer.brokers.iter().map(|broker| broker.id).collect();
        Ok(Cluster { id, alive: Some(alive), partitions: partitions(answer)? })
    }

    /// Asks one broker, by a new connection if the last one is gone.
    async fn ask<R: Request>(&mut self, id: i32, request: &R) -> Result<R::Answer, Trouble> {
        if let Some(mut connection) = self.connections.remove(&id) {
            match connection.call(request).await {
                Err(trouble) if trouble.is_lost => {}
                answered => {
                    self.connections.insert(id, connection);
                    return answered;
                }
            }
        }
        let mut connection = self.open(id).await?;
        let answer = connection.call(request).await?;
        self.connections.insert(id, connection);
        Ok(answer)
    }

    async fn open(&self, id: i32) -> Result<Connection, Trouble> {
        let missing = || Trouble { message: format!("broker {id} is not up"), is_lost: true };
        let (host, port) = self.brokers.get(&id).ok_or_else(missing)?;
        let opened = Connection::open(host, *port, &self.login, self.answer_timeout).await;
        opened
            .map_err(|trouble| Trouble { message: format!("broker {id} at {}", trouble.message), ..trouble })
    }

    /// Asks the controller. It may be another by now, so it is looked up again until patience ends.
    pub(super) async fn ask_controller<R: Request<Answer = Result<T, Refusal>>, T>(
        &mut self,
        request: &R,
    ) -> Result<Result<T, Refusal>, String> {
        let deadline = Instant::now() + self.patience;
        loop {
            match self.ask_controller_once(request, deadline).await? {
                Asked::Answered(answer) => return Ok(answer),
                Asked::Again => {}
            }
        }
    }

    /// Asks who is thought to be the controller. If there was no answer, or it is another by now, that one is looked up for
    /// the next time. The request may have been carried out all the same.
    pub(super) async fn ask_controller_once<R: Request<Answer = Result<T, Refusal>>, T>(
        &mut self,
        request: &R,
        deadline: Instant,
    ) -> Result<Asked<T>, String> {
        // Where controllers are others, any broker passes it on.
        let is_known = self.brokers.contains_key(&self.controller);
        let to = if is_known { Some(self.controller) } else { self.brokers.keys().next().copied() };
        let why = match self.ask(to.unwrap_or(-1), request).await {
            Ok(Err(refusal)) if [Refusal::NOT_CONTROLLER, Refusal::TIMED_OUT].contains(&refusal.code) => {
                refusal.text()
            }
            Ok(answer) => return Ok(Asked::Answered(answer)),
            Err(trouble) if trouble.is_lost => trouble.message,
            Err(trouble) => return Err(trouble.message),
        };
        if Instant::now() > deadline {
            return Err(format!("{}: {why}", R::NAME));
        }
        sleep(PAUSE).await;
        // Without topics.
        self.metadata(Some(&[])).await?;
        Ok(Asked::Again)
    }

    /// The partitions that get other replicas now: of all, or of those that are named.
    pub(super) async fn moving(
        &mut self,
        of: Option<&[&Name]>,
    ) -> Result<Result<BTreeSet<Name>, Refusal>, String> {
        let timeout_ms = self.answer_timeout.as_millis().try_into().unwrap_or(i32::MAX);
        let topics = of.map(|names| by_topic(names.iter().map(|name| (*name, name.partition))));
        let request = ListPartitionReassignments { timeout_ms, topics };
        let answer = self.ask_controller(&request).await?;
        Ok(answer.map(|topics| {
            let names = topics.into_iter().flat_map(|topic| {
                topic
                    .partitions
                    .iter()
                    .map(|&partition| Name::new(&topic.name, partition))
                    .collect::<Vec<_>>()
            });
            names.collect()
        }))
    }

    /// How much leaders hold.
    pub(super) async fn held(&mut self, partitions: &BTreeMap<Name, Partition>) -> Result<Held, String> {
        let mut led: BTreeMap<i32, Vec<&Name>> = BTreeMap::new();
        for (name, partition) in partitions {
            let alive = |id: &&i32| self.brokers.contains_key(*id);
            // If nobody leads it, any replica tells.
            let teller = partition.leader.as_ref().filter(alive);
            let teller = teller.or_else(|| partition.replicas.iter().find(alive));
            teller.into_iter().for_each(|id| led.entry(*id).or_default().push(name));
        }
        let mut held = Held::new();
        let led: Vec<(i32, Vec<&Name>)> = led.into_iter().collect();
        for some in led.chunks(AT_ONCE) {
            let kept: Vec<_> = some.iter().map(|(id, _)| self.connections.remove(id)).collect();
            let this = &*self;
            let asked = some.iter().zip(kept).map(|((id, names), kept)| async move {
                let topics = by_topic(names.iter().map(|name| (*name, name.partition)));
                let request = DescribeLogDirs { topics };
                if let Some(mut connection) = kept
                    && let Ok(answer) = connection.call(&request).await
                {
                    return Ok((*id, connection, answer));
                }
                let mut connection = this.open(*id).await?;
                let answer = connection.call(&request).await?;
                Ok::<_, Trouble>((*id, connection, answer))
            });
            for answered in join_all(asked).await {
                let remedy = "bytes come from the leaders' brokers; weigh by count, or give files";
                let (id, connection, folders) =
                    answered.map_err(|trouble| format!("{}; {remedy}", trouble.message))?;
                self.connections.insert(id, connection);
                for folder in folders {
                    if let Some(refusal) = folder.refusal {
                        return Err(format!(
                            "broker {id} does not tell its bytes: {}; {remedy}",
                            refusal.text()
                        ));
                    }
                    for topic in folder.topics {
                        for (partition, bytes) in topic.partitions {
                            let bytes = u64::try_from(bytes);
                            let bytes = bytes.map_err(|_| format!("broker {id} tells a negative size"))?;
                            held.entry(Name::new(&topic.name, partition)).or_default().insert(id, bytes);
                        }
                    }
                }
            }
        }
        Ok(held)
    }

    /// Settings of the first broker, or why they are not told.
    pub(super) async fn settings(&mut self) -> Result<Settings, String> {
        const NAMES: [&str; 2] = ["replica.selector.class", "auto.leader.rebalance.enable"];
        let broker = self.brokers.keys().next().copied().ok_or("no broker is up")?;
        let answer = self.ask(broker, &DescribeConfigs { broker, names: &NAMES }).await;
        let settings = answer.map_err(|trouble| trouble.message)?.map_err(|refusal| refusal.text())?;
        let mut found = Settings::default();
        for (name, value) in settings {
            let value = value.filter(|value| !value.is_empty());
            match name.as_str() {
                "replica.selector.class" => found.replica_selector = value,
                "auto.leader.rebalance.enable" => found.restores_leaders = value.as_deref() == Some("true"),
                _ => {}
            }
        }
        Ok(found)
    }
}

/// The partitions that metadata tells. An error if they cannot be so.
pub(super) fn partitions(answer: MetadataAnswer) -> Result<BTreeMap<Name, Partition>, String> {
    let mut partitions = BTreeMap::new();
    for topic in answer.topics {
        match &topic.refusal {
            Some(refusal) if refusal.code == Refusal::UNKNOWN_TOPIC => {
                return Err(format!(
                    "no topic is called `{}`; name one of those that the cluster has",
                    topic.name
                ));
            }
            Some(refusal) if refusal.code == Refusal::NO_RIGHT_TO_TOPIC => {
                return Err(format!("no right to topic {}; Describe is needed", topic.name));
            }
            Some(refusal) if topic.partitions.is_empty() => {
                return Err(format!("topic {}: {}", topic.name, refusal.text()));
            }
            // Such as a topic in which no partition has a leader.
            _ => {}
        }
        if !is_topic(&topic.name) {
            return Err("a topic has a name that Kafka does not allow".to_owned());
        }
        for found in topic.partitions {
            let name = Name::new(&topic.name, found.index);
            let partition = Partition {
                leader: (found.leader >= 0).then_some(found.leader),
                replicas: found.replicas,
                in_sync: found.in_sync,
                offline: found.offline,
                is_internal: topic.is_internal,
                is_moving: false,
            };
            let checked = if found.index < 0 { Err("has a negative number") } else { partition.check() };
            checked.map_err(|why| format!("partition {name} {why}"))?;
            if partitions.insert(name, partition).is_some() {
                return Err(format!("partition {}-{} is there twice", topic.name, found.index));
            }
        }
    }
    Ok(partitions)
}

/// Partitions as requests have them.
pub(super) fn by_topic<'a, P>(partitions: impl Iterator<Item = (&'a Name, P)>) -> Vec<Topic<P>> {
    let mut topics: BTreeMap<&str, Vec<P>> = BTreeMap::new();
    partitions.for_each(|(name, item)| topics.entry(&name.topic).or_default().push(item));
    topics.into_iter().map(|(name, partitions)| Topic { name: name.to_owned(), partitions }).collect()
}

/// `HOST:PORT`, or `[ADDRESS]:PORT` if the address has colons.
fn address(text: &str) -> Result<(String, u16), String> {
    let wrong = || format!("`{text}` is no address of a broker; give HOST:PORT");
    let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let port = port.parse().ok().filter(|port| *port > 0);
    port.filter(|_| !host.is_empty()).map(|port| (host.to_owned(), port)).ok_or_else(wrong)
}
