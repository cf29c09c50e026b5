//! The workload as written, one variant for each kind.

use std::sync::Arc;

use evenkeel::assign::Work;
use evenkeel::draw::{Draw, Seeded};
use evenkeel::model::Batch;
use evenkeel::policy::{Ask, Kind, Policy};
use evenkeel::queue::Queue;
use evenkeel::workload::{Clients, Law, Sizes as Blocks, Workload as Drawn, WorkloadError};
use serde::Deserialize;
use toml::de::DeTable;

use super::cluster::{Cluster, Sizes};
use super::copies::with_copies;
use super::document::{Document, Places, ScenarioError, not_known};
use super::{Files, Load};
use crate::case::Case;
use crate::chance::{exponential, sub_seed, uniform};
use crate::collective::CollectiveIo;
use crate::hardware::Hardware;
use crate::jobs::Jobs;
use crate::outcome::Outcome;
use crate::refused::Refused;
use crate::requests::{self, Conduct, Requests, Way};
use crate::tasks::Tasks;
use crate::units::{Bytes, Span};
use crate::writes::Writes;

/// The kinds of work, as written after `kind`.
pub(super) const KINDS: [&str; 5] = ["requests", "jobs", "tasks", "writes", "collective"];

/// Upper limit of reads and writes, which must fit into memory.
const MOST_OPERATIONS: f64 = 2e7;
/// Upper limit of copies of all requests, which must fit into a few GB of memory.
const MOST_COPIES: u64 = 1 << 28;
/// Upper limit of heartbeats. This many take seconds to simulate, and more add no information.
const MOST_HEARTBEATS: f64 = 1e8;

/// The work of a scenario. To add a kind, add a variant here, its name above, and an arm to each match below.
#[derive(Clone, Debug)]
pub(super) enum Workload {
    /// Requests for replicated data.
    Requests(Box<RequestsWork>),
    /// Jobs that read, compute and write.
    Jobs(Jobs),
    /// Tasks near their data.
    Tasks(TasksWork),
    /// Writes.
    Writes(Writes),
    /// Collective I/O.
    Collective(CollectiveIo),
}

impl Workload {
    /// Interprets the table of the workload.
    pub(super) fn parse<'a>(
        kind: &str,
        document: &Document<'a>,
        table: DeTable<'a>,
    ) -> Result<Self, ScenarioError> {
        match kind {
            "requests" => document.parse("workload", table).map(Self::Requests),
            "jobs" => document.parse("workload", table).map(Self::Jobs),
            "tasks" => TasksWork::parse(document, table).map(Self::Tasks),
            "writes" => document.parse("workload", table).map(Self::Writes),
            "collective" => document.parse("workload", table).map(Self::Collective),
            _ => Err(document.places.error("workload.kind", not_known("kind of workload", kind, &KINDS))),
        }
    }

    /// Sets up what the workload needs of the cluster and of other files, and refuses impossible settings.
    pub(super) fn settle(
        &mut self,
        cluster: &mut Cluster,
        places: &Places,
        load: &dyn Load,
    ) -> Result<(), ScenarioError> {
        let key = "servers.queue";
        if !matches!(self, Self::Requests(_)) {
            for (key, what) in [(key, "queues are"), ("executor", "the executor is")] {
                if places.has(key) {
                    return Err(places.error(key, format!("{what} for requests; leave it out")));
                }
            }
        }
        match self {
            Self::Requests(work) => work.settle(cluster, places, load),
            Self::Tasks(work) => work.settle(cluster, places, load),
            Self::Jobs(_) | Self::Writes(_) | Self::Collective(_) => drawn_cluster(cluster, places),
        }?;
        self.check_size(cluster, places)
    }

    /// Refuses what is impossible on this cluster, and what would never end.
    pub(super) fn check(&self, cluster: &Cluster, places: &Places) -> Result<(), ScenarioError> {
        let n_servers = cluster.names.len();
        let refused = |key: &str, message: String| places.error(&format!("workload.{key}"), message);
        let because = |why: Refused| refused(why.key(), why.to_string());
        match self {
            Self::Requests(_) => {}
            Self::Jobs(work) => Refused::copies(work.copies, n_servers).map_err(because)?,
            Self::Tasks(work) => work.check(n_servers).map_err(because)?,
            Self::Writes(work) => work.check(n_servers).map_err(because)?,
            Self::Collective(work) => work
                .check(n_servers as u64, cluster.n_clients.into())
                .map_err(|why| refused(why.key(), why.to_string()))?,
        }
        let arriving_ns = match self {
            Self::Requests(work) => work.arriving_ns(),
            _ => 0.0,
        };
        cluster.check_stalls(self.total_bytes(cluster), arriving_ns, places)?;
        self.check_heartbeats(cluster, places)
    }

    /// Checks that all reads and writes together fit into memory.
    fn check_size(&self, cluster: &Cluster, places: &Places) -> Result<(), ScenarioError> {
        let n_clients = f64::from(cluster.n_clients);
        let (key, n) = match self {
            // Requests have limits of their own.
            Self::Requests(_) => return Ok(()),
            Self::Jobs(Jobs { jobs, cycles, requests, .. }) => {
                ("jobs", n_clients * f64::from(*jobs) * f64::from(*cycles) * f64::from(*requests) * 2.0)
            }
            Self::Tasks(TasksWork { tasks, .. }) => {
                let each = n_clients * f64::from(tasks.tasks_per_process);
                ("tasks", tasks.tasks.map_or(each, f64::from) * tasks.inputs.len() as f64)
            }
            Self::Writes(Writes { writes, copies, .. }) => {
                ("writes", f64::from(*writes) * f64::from(*copies))
            }
            Self::Collective(CollectiveIo { apps, processes, aggregators, requests, .. }) => {
                let n = f64::from(*aggregators) * f64::from(*requests) + f64::from(*processes);
                ("apps", f64::from(*apps) * n)
            }
        };
        if n > MOST_OPERATIONS {
            let message = format!("there would be {n} reads and writes; simulate at most {MOST_OPERATIONS}");
            return Err(places.error(&format!("workload.{key}"), message));
        }
        Ok(())
    }

    /// Checks the number of heartbeats, which continue as long as the writes do.
    fn check_heartbeats(&self, cluster: &Cluster, places: &Places) -> Result<(), ScenarioError> {
        let Self::Writes(Writes { heartbeat: Span(heartbeat_ns), writes, backlog, every, .. }) = self else {
            return Ok(());
        };
        let every_ns = every.map_or(0.0, |every| every.0 as f64);
        let latencies_ns = (0..cluster.names.len() as u32).map(|server| cluster.server(server).latency_ns);
        let latency_ns = f64::from(*writes) * (every_ns + latencies_ns.max().unwrap_or(0) as f64);
        let backlog = backlog.as_ref().map_or(0.0, |backlog| {
            backlog.mean.0 as f64 * (1.0 + backlog.times) + 6.0 * backlog.deviation.0 as f64
        });
        // Everything one after the other, at the slowest server.
        let most_ns = latency_ns + (self.total_bytes(cluster) + backlog) / cluster.least_rate();
        let is_long = most_ns / *heartbeat_ns as f64 > MOST_HEARTBEATS;
        if *heartbeat_ns > 0 && is_long {
            let message = "there might be more than 100 million heartbeats; use a longer interval";
            return Err(places.error("workload.heartbeat", message));
        }
        Ok(())
    }

    /// The policies that are compared unless the scenario names some.
    ///
    /// For tasks: no policy, one that `assign` uses by default, and one without a plan, in this order.
    pub(super) fn usual(&self) -> &'static [&'static str] {
        match self {
            Self::Requests(_) => &["nearest", "random", "least-loaded", "optimal"],
            Self::Jobs(_) => &["random", "lddf", "hddf", "equi", "aequi", "optimal"],
            Self::Tasks(work) if work.is_single() => &["rank", "opass-single", "opass-dynamic"],
            Self::Tasks(_) => &["rank", "opass-multi", "opass-dynamic"],
            Self::Writes(_) => &["rr", "two-choice", "mlml", "trh", "nltr"],
            Self::Collective(_) => &["nio", "sio", "hio", "hio-edd"],
        }
    }

    /// Returns why a policy cannot do this work, if so.
    pub(super) fn refuses(&self, policy: &Policy) -> Option<String> {
        match self {
            Self::Requests(work) => work.refuses(policy),
            _ => None,
        }
    }

    /// Whether policies of that kind fit this work.
    pub(super) fn is_for(&self, policy: &Policy) -> bool {
        match self {
            Self::Requests(_) => policy.plans(),
            Self::Jobs(_) => matches!(policy.kind, Kind::Select(_)),
            Self::Tasks(_) => matches!(policy.kind, Kind::Assign(_)),
            Self::Writes(_) => matches!(policy.kind, Kind::Place(_)),
            Self::Collective(_) => matches!(policy.kind, Kind::Queue(_)),
        }
    }

    /// Bytes to read and write in total.
    fn total_bytes(&self, cluster: &Cluster) -> f64 {
        match self {
            Self::Requests(work) => work.total_bytes(),
            Self::Jobs(work) => {
                let n_cycles = f64::from(cluster.n_clients) * f64::from(work.jobs) * f64::from(work.cycles);
                n_cycles * (work.read.0 as f64 + work.write.0 as f64) * f64::from(work.requests)
            }
            Self::Tasks(work) => work.total_bytes(cluster),
            Self::Writes(work) => f64::from(work.writes) * f64::from(work.copies) * work.most_bytes() as f64,
            Self::Collective(work) => {
                let n_requests =
                    f64::from(work.apps) * f64::from(work.aggregators) * f64::from(work.requests);
                n_requests * work.bytes.0 as f64
            }
        }
    }

    /// Does the work once.
    pub(super) fn run(
        &self,
        case: &Case<'_>,
        queue: Option<&dyn Fn() -> Box<dyn Queue>>,
        conduct: &Conduct,
    ) -> Result<Outcome, String> {
        let told = |refused: Refused| refused.to_string();
        let outcome = match self {
            Self::Requests(work) => {
                let requests = work.draw(case.hardware, case.seed)?;
                let (fabric, seed) = (case.fabric(queue), sub_seed(case.seed, POLICY));
                requests::by_policy(&requests, fabric, case.policy, conduct, seed)
                    .map_err(|error| error.to_string())
            }
            Self::Jobs(work) => work.run(case).map_err(told),
            Self::Tasks(work) => work.run(case).map_err(told),
            Self::Writes(work) => work.run(case).map_err(told),
            Self::Collective(work) => work.run(case).map_err(|error| error.to_string()),
        }?;
        if outcome.n_failed > 0 && outcome.is_endless {
            return Err(format!(
                "{} would not finish within 584 years, the longest time that can be simulated; use faster servers, or less work",
                outcome.n_failed
            ));
        }
        Ok(outcome)
    }
}

/// Sets up as many servers and clients as the scenario says. Refuses files that describe them.
fn drawn_cluster(cluster: &mut Cluster, places: &Places) -> Result<(), ScenarioError> {
    for key in ["servers.file", "clients.file"] {
        if places.has(key) {
            return Err(places.error(
                key,
                "a file of servers or clients needs workload.batch; set it, or leave the file out",
            ));
        }
    }
    cluster.count_out(places)
}

/// Tasks, drawn at random or from a file.
#[derive(Clone, Debug)]
pub(super) struct TasksWork {
    tasks: Tasks,
    files: Option<(String, String)>,
    loaded: Option<Arc<Work>>,
}

/// The files of tasks and processes, if these are not drawn.
#[derive(Deserialize)]
struct TaskFiles {
    file: Option<String>,
    processes_file: Option<String>,
}

impl TasksWork {
    fn parse<'a>(document: &Document<'a>, mut table: DeTable<'a>) -> Result<Self, ScenarioError> {
        let keys = ["file", "processes_file"];
        let named: DeTable<'a> = keys.iter().filter_map(|&key| table.remove_entry(key)).collect();
        let TaskFiles { file, processes_file } = document.parse("workload", named)?;
        let files = match (file, processes_file) {
            (None, None) => None,
            (Some(file), Some(processes)) => Some((file, processes)),
            _ => {
                let message = "tasks from a file need both `file` and `processes_file`; set both";
                return Err(document.places.error("workload.file", message));
            }
        };
        Ok(Self { tasks: document.parse("workload", table)?, files, loaded: None })
    }

    fn settle(
        &mut self,
        cluster: &mut Cluster,
        places: &Places,
        load: &dyn Load,
    ) -> Result<(), ScenarioError> {
        let Some((file, processes)) = &self.files else {
            drawn_cluster(cluster, places)?;
            return self.settle_processes(cluster, places);
        };
        let drawn = ["processes", "tasks_per_process", "tasks", "inputs", "copies"];
        let drawn = drawn.map(|key| format!("workload.{key}"));
        let counts = ["servers.count", "clients.count", "clients.on"].map(str::to_owned);
        if let Some(key) = drawn.iter().chain(&counts).find(|key| places.has(key)) {
            return Err(
                places.error(key, format!("the files already set this; leave out {key}, or workload.file"))
            );
        }
        let (names, work) =
            load.tasks(file, processes).map_err(|error| places.error("workload.file", error))?;
        if work.n_tasks() == 0 {
            return Err(places.error("workload.file", "the file has no tasks; add some"));
        }
        cluster.names = names;
        cluster.n_clients = work.n_processes() as u32;
        self.loaded = Some(Arc::new(work));
        Ok(())
    }

    fn check(&self, n_servers: usize) -> Result<(), Refused> {
        if self.loaded.is_none() {
            self.tasks.check_drawn(n_servers)?;
        }
        self.tasks.check()
    }

    /// Processes that the workload itself specifies are the clients.
    fn settle_processes(&self, cluster: &mut Cluster, places: &Places) -> Result<(), ScenarioError> {
        let Some(processes) = self.tasks.processes else { return Ok(()) };
        if places.has("clients.count") {
            let message = "processes are the clients; leave out workload.processes or clients.count";
            return Err(places.error("workload.processes", message));
        }
        cluster.n_clients = processes;
        Ok(())
    }

    /// Whether every task has a single input.
    fn is_single(&self) -> bool {
        self.loaded.as_ref().map_or(self.tasks.inputs.len() <= 1, |work| work.is_single())
    }

    fn total_bytes(&self, cluster: &Cluster) -> f64 {
        if let Some(work) = &self.loaded {
            return work.total_bytes() as f64;
        }
        let Tasks { tasks, tasks_per_process, inputs, processes, .. } = &self.tasks;
        let n_processes = processes.unwrap_or(cluster.n_clients);
        let n_tasks = tasks.map_or(f64::from(n_processes) * f64::from(*tasks_per_process), f64::from);
        n_tasks * inputs.iter().map(|input| input.0 as f64).sum::<f64>()
    }

    fn run(&self, case: &Case<'_>) -> Result<Outcome, Refused> {
        match &self.loaded {
            Some(work) => self.tasks.run_given(work, case),
            None => self.tasks.run(case),
        }
    }
}

/// Purposes of the random draws.
const REQUESTS: u64 = 0;
const SIZES: u64 = 1;
const ARRIVALS: u64 = 2;
const POLICY: u64 = 3;
const COPIES: u64 = 4;

/// When requests arrive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Arrivals {
    #[default]
    AtOnce,
    Even,
    Poisson,
}

/// How copies are spread, by the names that `generate` uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum LawName {
    #[default]
    Uniform,
    Geometric,
    Zipf,
    FirstHot,
    Chain,
}

/// Requests for replicated data, drawn at random or from a batch.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RequestsWork {
    requests: Option<u32>,
    bytes: Option<Sizes>,
    copies: Option<u32>,
    law: Option<LawName>,
    ratio: Option<f64>,
    hot_spots: Option<u32>,
    in_turn: Option<bool>,
    #[serde(default)]
    arrivals: Arrivals,
    rate: Option<f64>,
    batch: Option<String>,
    block: Option<Bytes>,
    #[serde(skip)]
    loaded: Option<Batch>,
}

/// Defaults of requests that are drawn.
const USUAL_REQUESTS: u32 = 10_000;
const USUAL_BYTES: u64 = 64_000_000;
const USUAL_COPIES: u32 = 3;
/// Average number of blocks per request when planning requests of different sizes.
const BLOCKS_A_REQUEST: u64 = 64;

impl RequestsWork {
    fn settle(
        &mut self,
        cluster: &mut Cluster,
        places: &Places,
        load: &dyn Load,
    ) -> Result<(), ScenarioError> {
        match self.batch.clone() {
            Some(batch) => self.settle_batch(&batch, cluster, places, load)?,
            None => self.settle_drawn(cluster, places)?,
        }
        let rate = self.rate.filter(|rate| *rate > 0.0 && rate.is_finite());
        match (self.arrivals, self.rate, rate) {
            (Arrivals::AtOnce, Some(_), _) => {
                let message = "`rate` is for arrivals over time; write arrivals = \"poisson\" or \"even\"";
                Err(places.error("workload.rate", message))
            }
            (Arrivals::Even | Arrivals::Poisson, _, None) => {
                let message = "arrivals over time need a `rate` above 0; write it in requests per second";
                Err(places.error("workload.rate", message))
            }
            _ => Ok(()),
        }
    }

    fn settle_drawn(&self, cluster: &mut Cluster, places: &Places) -> Result<(), ScenarioError> {
        drawn_cluster(cluster, places)?;
        let n_servers = cluster.names.len() as u32;
        let wrong = |key: &str, message: &str| Err(places.error(&format!("workload.{key}"), message));
        if self.law_name() != LawName::Geometric && self.hot_spots.is_some() {
            return wrong("hot_spots", "`hot_spots` is for law = \"geometric\"; leave it out");
        }
        if !matches!(self.law_name(), LawName::Geometric | LawName::FirstHot) && self.ratio.is_some() {
            return wrong("ratio", "`ratio` is for the laws geometric and first-hot; leave it out");
        }
        match self.sizes() {
            Sizes::Range { from, to } if from > to => {
                return wrong("bytes", "the range is reversed; write the smaller number first");
            }
            sizes if sizes.mean() == 0 => {
                return wrong("bytes", "requests of 0 bytes move nothing; use at least 1 byte");
            }
            _ => {}
        }
        if self.block == Some(Bytes(0)) {
            return wrong("block", "a block cannot have 0 bytes; use at least 1");
        }
        let few = Drawn { n_requests: 1, ..self.workload(n_servers, cluster.n_clients, 0) };
        few.generate().map_err(|error| {
            let key = match error {
                WorkloadError::Ratio(_) => "workload.ratio",
                WorkloadError::HotSpots { .. } | WorkloadError::None("hot spot") => "workload.hot_spots",
                _ => "workload.copies",
            };
            places.error(key, error.to_string())
        })?;
        let (n_requests, copies) = (self.n_requests() as u64, u64::from(few.copies));
        let most_bytes = match self.sizes() {
            Sizes::Fixed(bytes) | Sizes::Range { to: bytes, .. } => bytes.0,
            // No draw is ever that large.
            Sizes::Exponential { mean } => mean.0.saturating_mul(100),
        };
        match n_requests {
            0 => wrong("requests", "there are no requests; use at least 1"),
            _ if n_requests.saturating_mul(copies) > MOST_COPIES => wrong(
                "requests",
                &format!(
                    "{n_requests} requests with {copies} copies each are too many; simulate at most {MOST_COPIES} copies in all"
                ),
            ),
            _ if n_requests.checked_mul(most_bytes).is_none() => {
                wrong("bytes", "the bytes add up to more than 64 bits; use fewer or smaller requests")
            }
            _ => Ok(()),
        }
    }

    fn settle_batch(
        &mut self,
        batch: &str,
        cluster: &mut Cluster,
        places: &Places,
        load: &dyn Load,
    ) -> Result<(), ScenarioError> {
        let drawn = ["requests", "bytes", "law", "ratio", "hot_spots", "in_turn"];
        let drawn = drawn.map(|key| format!("workload.{key}"));
        let counts = ["servers.count", "clients.count"].map(str::to_owned);
        if let Some(key) = drawn.iter().chain(&counts).find(|key| places.has(key)) {
            return Err(
                places.error(key, format!("the batch already sets this; leave out {key}, or workload.batch"))
            );
        }
        let block = self.block.unwrap_or(Bytes(1)).0;
        if block == 0 {
            return Err(places.error("workload.block", "a block cannot have 0 bytes; use at least 1"));
        }
        let files = Files {
            batch,
            servers: cluster.servers.file.as_deref(),
            clients: cluster.clients.file.as_deref(),
            block,
        };
        let (batch, described) = load.batch(&files).map_err(|error| places.error("workload.batch", error))?;
        if described.has_backlogs() {
            let message = "the servers file has backlogs, which are not simulated; leave the column out";
            return Err(places.error("servers.file", message));
        }
        if described.is_in_seconds() && places.has("servers.bandwidth") {
            let message =
                "the servers file has rates, which replace servers.bandwidth; leave one of them out";
            return Err(places.error("servers.bandwidth", message));
        }
        cluster.names = batch.servers().iter().map(str::to_owned).collect();
        cluster.n_clients = batch.n_clients() as u32;
        cluster.described = Some(described);
        if batch.n_requests() == 0 {
            return Err(places.error("workload.batch", "the batch has no requests; add some"));
        }
        let (copies, n_servers) = (u64::from(self.copies.unwrap_or(1)), cluster.names.len() as u64);
        if !(1..=n_servers).contains(&copies) {
            let message =
                format!("{copies} copies are out of range; use 1 to {n_servers}, the number of servers");
            return Err(places.error("workload.copies", message));
        }
        if copies.saturating_mul(batch.n_requests() as u64) > MOST_COPIES {
            let message = format!("the copies are too many; simulate at most {MOST_COPIES} in all");
            return Err(places.error("workload.copies", message));
        }
        self.loaded = Some(batch);
        Ok(())
    }

    fn refuses(&self, policy: &Policy) -> Option<String> {
        let is_over_time = self.arrivals != Arrivals::AtOnce;
        (is_over_time && Way::of(policy, true, &Ask::default()).is_none()).then(|| {
            format!(
                "policy {} needs all requests at the start; write arrivals = \"at-once\", or leave the policy out",
                policy.name
            )
        })
    }

    fn law_name(&self) -> LawName {
        self.law.unwrap_or_default()
    }

    fn sizes(&self) -> Sizes {
        self.bytes.unwrap_or(Sizes::Fixed(Bytes(USUAL_BYTES)))
    }

    fn n_requests(&self) -> usize {
        self.loaded
            .as_ref()
            .map_or_else(|| self.requests.unwrap_or(USUAL_REQUESTS) as usize, Batch::n_requests)
    }

    fn workload(&self, n_servers: u32, n_clients: u32, seed: u64) -> Drawn {
        // As in `generate`: a hot spot that still spreads over some servers.
        let gentle = if n_servers > 20 { 1.0 - 10.0 / f64::from(n_servers) } else { 0.5 };
        let ratio = self.ratio.unwrap_or(gentle);
        Drawn {
            n_requests: self.requests.unwrap_or(USUAL_REQUESTS),
            n_clients,
            n_servers,
            copies: self.copies.unwrap_or(USUAL_COPIES.min(n_servers)),
            law: match self.law_name() {
                LawName::Uniform => Law::Uniform,
                LawName::Geometric => Law::Geometric { ratio, hot_spots: self.hot_spots.unwrap_or(1) },
                LawName::Zipf => Law::Zipf,
                LawName::FirstHot => Law::FirstHot { ratio },
                LawName::Chain => Law::Chain,
            },
            sizes: Blocks::Fixed(1),
            clients: if self.in_turn.unwrap_or(false) { Clients::InTurn } else { Clients::Drawn },
            seed,
        }
    }

    fn total_bytes(&self) -> f64 {
        let block = self.block.unwrap_or(Bytes(1)).0 as f64;
        let drawn = || self.sizes().mean() as f64 * self.n_requests() as f64;
        self.loaded.as_ref().map_or_else(drawn, |batch| batch.total_blocks() as f64 * block)
    }

    /// When the last request arrives, approximately.
    fn arriving_ns(&self) -> f64 {
        self.rate.map_or(0.0, |rate| self.n_requests() as f64 / rate * 1e9)
    }

    /// The requests of one repetition.
    fn draw(&self, hardware: &Hardware, seed: u64) -> Result<Requests, String> {
        let arrivals_ns = self.arrivals(&mut Seeded::new(sub_seed(seed, ARRIVALS)));
        if let Some(batch) = &self.loaded {
            let copied = |copies| with_copies(batch, copies, sub_seed(seed, COPIES));
            let copied = self.copies.map(copied).transpose().map_err(|error| error.to_string())?;
            let batch = copied.unwrap_or_else(|| batch.clone());
            // As in `plan`: a block is one byte, unless the scenario says more.
            let block_bytes = self.block.map_or(1, |block| block.0);
            return Ok(Requests { batch, block_bytes, bytes: None, arrivals_ns });
        }
        let (n_servers, n_clients) = (hardware.servers.len() as u32, hardware.clients.len() as u32);
        let workload = self.workload(n_servers, n_clients, sub_seed(seed, REQUESTS));
        let batch = workload.generate().map_err(|error| error.to_string())?;
        let bytes: Vec<u64> = match self.sizes() {
            Sizes::Fixed(Bytes(block_bytes)) if self.block.is_none() => {
                return Ok(Requests { batch, block_bytes, bytes: None, arrivals_ns });
            }
            sizes => {
                let mut draw = Seeded::new(sub_seed(seed, SIZES));
                (0..batch.n_requests()).map(|_| size(sizes, &mut draw)).collect()
            }
        };
        let mean = bytes.iter().map(|&bytes| u128::from(bytes)).sum::<u128>() / bytes.len().max(1) as u128;
        let usual = (mean as u64 / BLOCKS_A_REQUEST).max(1);
        let block_bytes = self.block.map_or(usual, |block| block.0);
        Requests::sized(&batch, bytes, block_bytes, arrivals_ns).map_err(|error| error.to_string())
    }

    fn arrivals(&self, draw: &mut dyn Draw) -> Option<Vec<u64>> {
        let gap_ns = 1e9 / self.rate?;
        let mut now_ns = 0.0;
        let mut next = || {
            now_ns += match self.arrivals {
                Arrivals::Poisson => exponential(draw) * gap_ns,
                Arrivals::AtOnce | Arrivals::Even => gap_ns,
            };
            now_ns as u64
        };
        Some((0..self.n_requests()).map(|_| next()).collect())
    }
}

fn size(sizes: Sizes, draw: &mut dyn Draw) -> u64 {
    match sizes {
        Sizes::Fixed(bytes) => bytes.0,
        Sizes::Range { from, to } => from.0 + (uniform(draw) * ((to.0 - from.0) as f64 + 1.0)) as u64,
        Sizes::Exponential { mean } => 1 + (exponential(draw) * mean.0 as f64) as u64,
    }
}
