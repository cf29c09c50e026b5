//! Scenarios: a cluster, its work, the policies to compare and the number of repetitions, in a TOML file.
//!
//! A scenario is read once ([`Scenario::read`]), together with the keys set from outside. If it is invalid, it is
//! refused with the line of the error. Then it runs under each policy, for each repetition. All random draws depend on
//! the repetition alone, so policies meet the same requests on the same cluster.

mod cluster;
mod copies;
mod document;
mod executor;
mod workload;

use std::collections::BTreeMap;

use evenkeel::assign::Work;
use evenkeel::model::{self, Batch};
use evenkeel::policy::{self, Policy};
use serde::Deserialize;
use toml::de::{DeTable, DeValue};

pub use document::{Place, ScenarioError, Set, not_known};

use crate::case::Case;
use crate::chance::sub_seed;
use crate::hardware::Hardware;
use crate::measure::{self, MEASURES, Measure};
use crate::outcome::Outcome;
use crate::requests::Conduct;
use cluster::{Clients, Cluster, Different, Down, Network, Servers, Slow};
use document::{Document, Places};
use executor::Executor;
use workload::Workload;

/// The files that a scenario names, as written there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Files<'a> {
    /// The batch.
    pub batch: &'a str,
    /// Data about its servers.
    pub servers: Option<&'a str>,
    /// Data about its clients.
    pub clients: Option<&'a str>,
    /// Bytes per block.
    pub block: u64,
}

/// Reads the files that a scenario names, or returns why it cannot.
pub trait Load {
    /// Reads a batch, and what is known about its servers and clients.
    fn batch(&self, files: &Files<'_>) -> Result<(Batch, model::Cluster), String>;

    /// Reads tasks and processes from files with these names. Returns the names of the servers, and the work.
    fn tasks(&self, tasks: &str, processes: &str) -> Result<(Vec<String>, Work), String>;
}

/// Has no files to read.
#[derive(Clone, Copy, Debug)]
pub struct NoFiles;

impl Load for NoFiles {
    fn batch(&self, _: &Files<'_>) -> Result<(Batch, model::Cluster), String> {
        Err("there are no files here".to_owned())
    }

    fn tasks(&self, _: &str, _: &str) -> Result<(Vec<String>, Work), String> {
        Err("there are no files here".to_owned())
    }
}

/// All keys that are not interpreted separately.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rest {
    title: Option<String>,
    #[serde(default)]
    seed: u64,
    repetitions: Option<u32>,
    policies: Option<Vec<String>>,
    measures: Option<Vec<String>>,
    #[serde(default)]
    slow: Vec<Slow>,
    #[serde(default)]
    down: Vec<Down>,
    #[serde(default)]
    clients: Clients,
    #[serde(default)]
    network: Network,
    #[serde(default)]
    executor: Executor,
    // Taken out before. It is here so that the list of known keys is complete.
    #[serde(default, rename = "servers")]
    _servers: (),
    #[serde(default, rename = "workload")]
    _workload: (),
}

/// A scenario.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Title, if it has one.
    pub title: Option<String>,
    /// Seed of all random draws.
    pub seed: u64,
    /// Number of runs under each policy.
    pub repetitions: u32,
    /// The policies to compare.
    pub policies: Vec<&'static Policy>,
    /// The measures to report; all if none.
    pub measures: Option<Vec<&'static Measure>>,
    conduct: Conduct,
    cluster: Cluster,
    workload: Workload,
}

/// Upper limit of repetitions. More add no information.
const MOST_REPETITIONS: u32 = 100_000;

impl Scenario {
    /// Reads a scenario with some keys set from outside. `load` reads the files that it names.
    pub fn read(text: &str, sets: &[Set], load: &dyn Load) -> Result<Self, ScenarioError> {
        let mut document = Document::new(text, sets)?;
        let (servers, named) = servers(&mut document)?;
        let mut workload = document.take("workload")?;
        let kind = workload.remove("kind").map(toml::Spanned::into_inner);
        let kind = match &kind {
            None => "requests",
            Some(DeValue::String(kind)) => kind.as_ref(),
            Some(_) => {
                return Err(document.places.error("workload.kind", "`kind` is not text; write it in quotes"));
            }
        };
        let mut workload = Workload::parse(kind, &document, workload)?;
        let rest: Rest = document.parse_rest()?;
        let Rest { slow, down, clients, network, executor, .. } = rest;
        let (names, n_clients, described) = (Vec::new(), 0, None);
        let mut cluster =
            Cluster { servers, named, slow, down, clients, network, names, n_clients, described };
        let places = &document.places;
        workload.settle(&mut cluster, places, load)?;
        let conduct = executor.conduct(places)?;
        cluster.check(places)?;
        workload.check(&cluster, places)?;
        let repetitions = rest.repetitions.unwrap_or(1);
        if !(1..=MOST_REPETITIONS).contains(&repetitions) {
            let message = format!("{repetitions} repetitions are out of range; use 1 to {MOST_REPETITIONS}");
            return Err(places.error("repetitions", message));
        }
        Ok(Self {
            title: rest.title,
            seed: rest.seed,
            repetitions,
            policies: policies(rest.policies, &workload, places)?,
            measures: measures(rest.measures, places)?,
            conduct,
            cluster,
            workload,
        })
    }

    /// Names of the servers.
    pub fn servers(&self) -> &[String] {
        &self.cluster.names
    }

    /// Number of clients.
    pub fn n_clients(&self) -> u32 {
        self.cluster.n_clients
    }

    /// Slots of the servers.
    pub fn slots(&self) -> Vec<u32> {
        (0..self.cluster.names.len() as u32).map(|server| self.cluster.server(server).slots).collect()
    }

    /// The cluster of a repetition.
    pub fn hardware(&self, repetition: u32) -> Hardware {
        self.cluster.hardware(self.lots(repetition))
    }

    /// Seed of all random draws of a repetition.
    fn lots(&self, repetition: u32) -> u64 {
        sub_seed(self.seed, repetition.into())
    }

    /// Does the work under a policy, in one of the repetitions. Returns an error if the policy cannot do it.
    pub fn run(&self, policy: &Policy, repetition: u32, keep_timeline: bool) -> Result<Outcome, String> {
        let (seed, hardware) = (self.lots(repetition), self.hardware(repetition));
        let queue = self.cluster.queue();
        let queue = queue.as_ref().map(|queue| queue as &dyn Fn() -> Box<dyn evenkeel::queue::Queue>);
        let case = Case { hardware: &hardware, policy, seed, keep_timeline };
        let outcome = self.workload.run(&case, queue, &self.conduct)?;
        outcome.findings.none()?;
        Ok(outcome)
    }
}

/// Settings of all servers, and of single ones: a table inside the table of servers has the name of a server.
fn servers(document: &mut Document<'_>) -> Result<(Servers, BTreeMap<String, Different>), ScenarioError> {
    let (mut common, mut named) = (DeTable::new(), BTreeMap::new());
    for (key, value) in document.take("servers")? {
        if let DeValue::Table(table) = value.get_ref() {
            let name = key.get_ref().as_ref().to_owned();
            let different = document.parse(&format!("servers.{name}"), table.clone())?;
            named.insert(name, different);
        } else {
            common.insert(key, value);
        }
    }
    Ok((document.parse("servers", common)?, named))
}

fn policies(
    named: Option<Vec<String>>,
    workload: &Workload,
    places: &Places,
) -> Result<Vec<&'static Policy>, ScenarioError> {
    let usual = || workload.usual().iter().map(|&name| name.to_owned()).collect();
    let is_named = named.is_some();
    let mut policies: Vec<&'static Policy> = Vec::new();
    for (k, name) in named.unwrap_or_else(usual).iter().enumerate() {
        let wrong = |message: String| Err(places.error(&format!("policies.{k}"), message));
        let Some(policy) = policy::find(name).filter(|policy| workload.is_for(policy)) else {
            let known = policy::POLICIES.iter().filter(|policy| workload.is_for(policy));
            return wrong(not_known("policy", name, &known.map(|policy| policy.name).collect::<Vec<_>>()));
        };
        if policies.iter().any(|other| other.name == policy.name) {
            return wrong(format!("policy {} is listed twice; list it once", policy.name));
        }
        match workload.refuses(policy) {
            Some(why) if is_named => return wrong(why),
            Some(_) => {}
            None => policies.push(policy),
        }
    }
    if policies.is_empty() {
        return Err(places.error("policies", "the list of policies is empty; name one, or leave the key out"));
    }
    Ok(policies)
}

fn measures(
    named: Option<Vec<String>>,
    places: &Places,
) -> Result<Option<Vec<&'static Measure>>, ScenarioError> {
    let Some(named) = named else { return Ok(None) };
    let find = |(k, name): (usize, &String)| {
        let known: Vec<&str> = MEASURES.iter().map(|measure| measure.name).collect();
        let unknown = || places.error(&format!("measures.{k}"), not_known("measure", name, &known));
        measure::find(name).ok_or_else(unknown)
    };
    let measures: Result<Vec<_>, _> = named.iter().enumerate().map(find).collect();
    measures.map(Some)
}
