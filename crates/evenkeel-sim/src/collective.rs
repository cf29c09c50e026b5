//! Two-phase collective I/O (paper 002): aggregators read from servers, then shuffle.
//!
//! Several applications read at once. The file of each is divided among its aggregators. Each aggregator has a
//! contiguous part, its file domain, and requests it from the servers. A policy of [`evenkeel::queue`] orders the
//! requests in a server's queue. An aggregator that has its data sends each process that wants some of it that
//! process's part. This takes as long as the paper's formula (1) says, and uses no share of the network cards. An
//! application is done when all its aggregators are.
//!
//! Every request carries the hints that the core computes, and the due date of `hio-edd`'s planner, which knows all
//! requests in advance and assumes that they are present from the start.

use evenkeel::draw::{Draw, Seeded};
use evenkeel::model::{MAX_REQUESTS, Ratio, ServerId};
use evenkeel::policy::{self, Kind};
use evenkeel::queue::shuffle::{self, Combine, Network, Placement, ShuffleError};
use evenkeel::queue::{AppId, Collective, Model, Options, QueueError, Request, edd};
use serde::Deserialize;

use crate::case::Case;
use crate::chance::{sample, sub_seed};
use crate::fabric::{Fabric, Happening, Job};
use crate::hardware::{Hardware, Server, span_ns};
use crate::outcome::Outcome;
use crate::units::{Bytes, PerSecond, Span};

/// Applications that read by collective I/O. The defaults are those of paper 002 §VI. Each client of the cluster is a
/// compute node.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CollectiveIo {
    /// Number of applications.
    pub apps: u32,
    /// Number of processes of each application.
    pub processes: u32,
    /// Number of these processes that are aggregators: the first ones.
    pub aggregators: u32,
    /// Number of nodes over which the processes of an application are dealt out in turn; none: all. Applications take
    /// nodes one after the other, and start again from the first if there are too few.
    pub nodes: Option<u32>,
    /// Number of requests of an aggregator, all at once.
    pub requests: u32,
    /// Bytes of each request.
    pub bytes: Bytes,
    /// Bytes of a file on one server before the next server follows; none: the size of a request, so that each request
    /// is for one server. Everything that a request wants of a server is requested at once.
    pub stripe: Option<Bytes>,
    /// Number of processes that want some of what an aggregator reads, all the same amount: drawn between these two,
    /// both included. None: from 1 to all. The processes themselves are drawn as well.
    pub partners: Option<[u32; 2]>,
    /// Rate of a message inside a node.
    pub intra: PerSecond,
    /// Rate of a message between nodes.
    pub inter: PerSecond,
    /// Whether an aggregator sends its messages one after the other, rather than all at once as in the paper.
    pub serial: bool,
    /// Whether shuffles begin only when the application has all its data.
    pub barrier: bool,
    /// Time between the start of one application and the next.
    pub interval: Span,
    /// Each request is sent at a random time within this span after its application begins. Requests of the same
    /// instant reach a server in random order.
    pub spread: Span,
    /// The HIO policies consider shuffles only if they take more than this share of the time of the reads.
    pub threshold: f64,
}

impl Default for CollectiveIo {
    fn default() -> Self {
        Self {
            apps: 6,
            processes: 50,
            aggregators: 6,
            nodes: None,
            requests: 1,
            bytes: Bytes(16_000_000),
            stripe: None,
            partners: None,
            // Memory and a network of 10 Gb/s.
            intra: PerSecond(4.0),
            inter: PerSecond(1.25),
            serial: false,
            barrier: false,
            interval: Span(0),
            spread: Span(0),
            threshold: 0.2,
        }
    }
}

/// Why a collective workload cannot be simulated.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[allow(missing_docs)]
pub enum CollectiveError {
    #[error("`{policy}` does not order the queues of servers; use one of {fitting}")]
    Unfit { policy: &'static str, fitting: String },
    #[error("there are no {0}; collective I/O needs 1 or more")]
    NoneOf(&'static str),
    #[error("{n} {what}, but only {most} {of_what}; write {most} or less")]
    TooMany { n: u64, what: &'static str, most: u64, of_what: &'static str },
    #[error("the range of partners goes from {0} to {1}; write the lower number first")]
    NoPartners(u32, u32),
    #[error("the threshold {0} is not a share; write 0 or more, such as 0.2")]
    BadThreshold(f64),
    #[error(transparent)]
    Queue(#[from] QueueError),
    #[error(transparent)]
    Shuffle(#[from] ShuffleError),
}

impl CollectiveError {
    /// The key of the workload that is to blame.
    pub(crate) fn key(&self) -> &'static str {
        match self {
            Self::NoneOf("applications") => "apps",
            Self::NoneOf("bytes to read") => "bytes",
            Self::NoneOf("bytes in a stripe") => "stripe",
            Self::NoneOf(what) | Self::TooMany { what, .. } => what,
            Self::NoPartners(..) => "partners",
            Self::BadThreshold(_) => "threshold",
            Self::Queue(_) => "requests",
            Self::Unfit { .. } | Self::Shuffle(_) => "kind",
        }
    }
}

impl CollectiveIo {
    /// Refuses settings that are impossible with this many servers and clients.
    pub(crate) fn check(&self, n_servers: u64, n_clients: u64) -> Result<(), CollectiveError> {
        self.options()?;
        self.n_nodes(n_servers, n_clients).map(drop)
    }

    /// Simulates one run under a policy for the queues of servers.
    pub fn run(&self, case: &Case<'_>) -> Result<Outcome, CollectiveError> {
        let policy = case.policy;
        let Kind::Queue(discipline) = &policy.kind else {
            let fitting: Vec<&str> = policy::queues().map(|(policy, _)| policy.name).collect();
            return Err(CollectiveError::Unfit { policy: policy.name, fitting: fitting.join(", ") });
        };
        let options = self.options()?;
        let reads = self.reads(case.hardware, case.seed)?;
        let fabric = case.fabric(Some(&|| (discipline.queue)(&options)));
        Ok(read(&reads, fabric, options.model).1)
    }

    /// The options of the policies.
    fn options(&self) -> Result<Options, CollectiveError> {
        let model = if self.barrier { Model::Barrier } else { Model::NoBarrier };
        if !(0.0..1e9).contains(&self.threshold) {
            return Err(CollectiveError::BadThreshold(self.threshold));
        }
        let threshold = Ratio::new((self.threshold * 1e6 + 0.5) as u128, 1_000_000);
        Ok(Options { model, threshold })
    }

    /// All requests of all applications, drawn at random where the settings leave something open.
    pub fn reads(&self, hardware: &Hardware, seed: u64) -> Result<Reads, CollectiveError> {
        let nodes = self.n_nodes(hardware.servers.len() as u64, hardware.clients.len() as u64)?;
        let shuffles_ns = self.shuffles_ns(hardware, nodes, &mut Seeded::new(sub_seed(seed, 0)))?;
        let mut rows = Vec::new();
        for (aggregator, &shuffle_ns) in (0..).zip(&shuffles_ns) {
            self.ask(hardware, nodes, aggregator, shuffle_ns, &mut rows);
        }
        let mut draw = Seeded::new(sub_seed(seed, 1));
        for last in (1..rows.len()).rev() {
            rows.swap(last, draw.below(last as u32 + 1) as usize);
        }
        for (_, part) in &mut rows {
            part.arrival_ns = part.arrival_ns.saturating_add(draw_up_to(self.spread.0, &mut draw));
        }
        rows.sort_by_key(|(_, part)| part.arrival_ns);
        let (requests, parts) = rows.into_iter().unzip();
        let collective = Collective::new(self.apps, hardware.servers.len() as u32, requests)?;
        Ok(Reads { collective, parts, begins_ns: (0..self.apps).map(|app| self.begin_ns(app)).collect() })
    }

    /// Checks all numbers. Returns the number of nodes over which an application is spread.
    fn n_nodes(&self, n_servers: u64, n_clients: u64) -> Result<u32, CollectiveError> {
        let nodes = self.nodes.unwrap_or(n_clients as u32);
        let stripe = self.stripe.unwrap_or(self.bytes);
        for (number, what) in [
            (self.apps.into(), "applications"),
            (self.processes.into(), "processes"),
            (self.aggregators.into(), "aggregators"),
            (self.requests.into(), "requests"),
            (self.bytes.0, "bytes to read"),
            (stripe.0, "bytes in a stripe"),
            (n_servers, "servers"),
            (n_clients, "clients"),
            (nodes.into(), "nodes"),
        ] {
            if number == 0 {
                return Err(CollectiveError::NoneOf(what));
            }
        }
        let [least, most] = self.partners();
        if least > most {
            return Err(CollectiveError::NoPartners(least, most));
        }
        let processes = u64::from(self.processes);
        for (n, what, most, of_what) in [
            (nodes.into(), "nodes", n_clients, "clients"),
            (self.aggregators.into(), "aggregators", processes, "processes"),
            (most.into(), "partners", processes, "processes"),
            // No machine has more. Also, the processes that are drawn are held in memory for a moment.
            (processes, "processes", 1 << 24, "can be numbered"),
        ] {
            if n > most {
                return Err(CollectiveError::TooMany { n, what, most, of_what });
            }
        }
        // Number of servers that a request can touch.
        let n_touched = (self.bytes.0 / stripe.0).saturating_add(2).min(n_servers);
        let n_requests = u128::from(self.apps) * u128::from(self.aggregators) * u128::from(self.requests);
        if n_requests.saturating_mul(n_touched.into()) > MAX_REQUESTS as u128 {
            return Err(QueueError::TooManyRequests.into());
        }
        Ok(nodes)
    }

    fn partners(&self) -> [u32; 2] {
        self.partners.unwrap_or([1, self.processes])
    }

    fn begin_ns(&self, app: u32) -> u64 {
        self.interval.0.saturating_mul(app.into())
    }

    /// Time that each aggregator of each application shuffles: formula (1).
    fn shuffles_ns(
        &self,
        hardware: &Hardware,
        nodes: u32,
        draw: &mut dyn Draw,
    ) -> Result<Vec<u64>, CollectiveError> {
        let combine = if self.serial { Combine::Sum } else { Combine::Max };
        let mb_per_s = |rate: PerSecond| rate.0 * 1e3;
        let latency_s = hardware.message_ns as f64 / 1e9;
        let network = Network::new(mb_per_s(self.intra), mb_per_s(self.inter), latency_s, combine)?;
        let domain_mb = self.bytes.0 as f64 * f64::from(self.requests) / 1e6;
        let [least, most] = self.partners();
        let mut shuffle_ns = |rank: u32| {
            let n_partners = least + draw_up_to((most - least).into(), draw) as u32;
            let partners = sample(self.processes, n_partners, draw).into_iter();
            let messages: Vec<_> =
                partners.map(|process| (process, domain_mb / f64::from(n_partners))).collect();
            network.shuffle_s(Placement::RoundRobin { nodes }, rank, &messages).and_then(shuffle::to_ns)
        };
        let ranks = (0..self.apps).flat_map(|_| 0..self.aggregators);
        Ok(ranks.map(&mut shuffle_ns).collect::<Result<_, _>>()?)
    }

    /// Requests of an aggregator to each server.
    fn ask(
        &self,
        hardware: &Hardware,
        nodes: u32,
        aggregator: u32,
        shuffle_ns: u64,
        rows: &mut Vec<(Request, Part)>,
    ) {
        let (app, rank) = (aggregator / self.aggregators, aggregator % self.aggregators);
        let node = u64::from(app) * u64::from(nodes) + u64::from(rank % nodes);
        let to = hardware.clients[(node % hardware.clients.len() as u64) as usize].host;
        let stripe = self.stripe.unwrap_or(self.bytes).0;
        let n_servers = hardware.servers.len() as u64;
        for number in 0..self.requests {
            let offset = (u128::from(rank) * u128::from(self.requests) + u128::from(number))
                * u128::from(self.bytes.0);
            let end = offset + u128::from(self.bytes.0);
            for (server, spec) in (0..).zip(&hardware.servers) {
                let before = |offset| bytes_before(offset, server, n_servers, stripe);
                let bytes = (before(end) - before(offset)) as u64;
                if bytes > 0 {
                    let request = Request {
                        app: AppId(app),
                        server: ServerId(server),
                        offset: u64::try_from(offset).unwrap_or(u64::MAX),
                        read_ns: read_ns(spec, bytes),
                        shuffle_ns,
                        ..Request::default()
                    };
                    rows.push((request, Part { aggregator, to, bytes, arrival_ns: self.begin_ns(app) }));
                }
            }
        }
    }
}

/// A uniformly distributed number from 0 to `most`, both included.
fn draw_up_to(most: u64, draw: &mut dyn Draw) -> u64 {
    if most == 0 {
        return 0;
    }
    let drawn = u64::from(draw.below(u32::MAX)) << 32 | u64::from(draw.below(u32::MAX));
    ((u128::from(drawn) * (u128::from(most) + 1)) >> 64) as u64
}

/// Bytes before `offset` in a file that lie on a server, if stripes go to servers in turn.
fn bytes_before(offset: u128, server: u32, n_servers: u64, stripe: u64) -> u128 {
    let stripe = u128::from(stripe);
    let turn = stripe * u128::from(n_servers);
    let in_turn = (offset % turn).saturating_sub(stripe * u128::from(server)).min(stripe);
    offset / turn * stripe + in_turn
}

/// Time a server takes to read `bytes` bytes at its normal speed.
fn read_ns(server: &Server, bytes: u64) -> u64 {
    server.latency_ns.saturating_add(span_ns(bytes as f64, server.rate))
}

/// Collective reads: what the core knows about them, and what the simulation needs in addition.
#[derive(Clone, Debug)]
pub struct Reads {
    /// The requests in order of arrival. All of one aggregator have the same shuffle.
    pub collective: Collective,
    /// Further data of the same requests.
    pub parts: Vec<Part>,
    /// When each application begins.
    pub begins_ns: Vec<u64>,
}

/// Data about a request that the core does not need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Its aggregator. Aggregators of all applications are numbered together.
    pub aggregator: u32,
    /// Host of the aggregator.
    pub to: u32,
    /// Number of bytes to read.
    pub bytes: u64,
    /// When it is sent.
    pub arrival_ns: u64,
}

/// Runs reads and shuffles on a fabric whose queues are those of the policy. Returns when each application was done, if
/// it was, and the outcome, with one response per application. A request that a server loses is sent again when the
/// server is back.
pub fn read(reads: &Reads, fabric: Fabric<'_>, model: Model) -> (Vec<Option<u64>>, Outcome) {
    let mut reading = Reading::new(reads, fabric, model);
    while let Some((_, happening)) = reading.fabric.next() {
        match happening {
            Happening::Arrival => reading.send_next(),
            Happening::Timer { tag } => reading.shuffled(tag as u32),
            Happening::Done { tag } => reading.has_read(tag as usize),
            Happening::Lost { tag } => reading.lost.push(tag as u32),
            Happening::Up { server } => reading.send_again(server),
            Happening::Down { .. } => {}
        }
    }
    reading.finish()
}

/// The outstanding work of an application.
#[derive(Clone, Copy, Default)]
struct Open {
    n_reads: u32,
    n_shuffles: u32,
    /// The aggregator with the longest shuffle.
    slowest: u32,
}

#[derive(Clone, Copy, Default)]
struct Aggregator {
    app: AppId,
    shuffle_ns: u64,
    /// Number of reads it waits for.
    n_reads: u32,
}

struct Reading<'a> {
    reads: &'a Reads,
    fabric: Fabric<'a>,
    model: Model,
    due_ns: Vec<u128>,
    apps: Vec<Open>,
    aggregators: Vec<Aggregator>,
    n_sent: usize,
    /// Requests that servers have lost.
    lost: Vec<u32>,
    done_ns: Vec<Option<u64>>,
    outcome: Outcome,
}

impl<'a> Reading<'a> {
    fn new(reads: &'a Reads, fabric: Fabric<'a>, model: Model) -> Self {
        let n_aggregators = reads.parts.iter().map(|part| part.aggregator as usize + 1).max().unwrap_or(0);
        let mut apps = vec![Open::default(); reads.collective.n_apps()];
        let mut aggregators = vec![Aggregator::default(); n_aggregators];
        for (request, part) in reads.collective.requests().iter().zip(&reads.parts) {
            let aggregator = &mut aggregators[part.aggregator as usize];
            let app = &mut apps[request.app.index()];
            app.n_reads += 1;
            app.n_shuffles += u32::from(aggregator.n_reads == 0);
            let Request { app: of_app, shuffle_ns, .. } = *request;
            *aggregator = Aggregator { app: of_app, shuffle_ns, n_reads: aggregator.n_reads + 1 };
        }
        for (number, aggregator) in (0..).zip(&aggregators).filter(|(_, aggregator)| aggregator.n_reads > 0) {
            let slowest = &mut apps[aggregator.app.index()].slowest;
            let Aggregator { app, shuffle_ns, .. } = aggregators[*slowest as usize];
            if app != aggregator.app || shuffle_ns < aggregator.shuffle_ns {
                *slowest = number;
            }
        }
        // An application without requests is done as soon as it begins.
        let done_ns = apps.iter().zip(&reads.begins_ns).map(|(app, &ns)| (app.n_reads == 0).then_some(ns));
        let mut reading = Self {
            reads,
            fabric,
            model,
            due_ns: edd::due_dates(&reads.collective, model),
            done_ns: done_ns.collect(),
            apps,
            aggregators,
            n_sent: 0,
            lost: Vec::new(),
            outcome: Outcome::default(),
        };
        reading.await_next();
        reading
    }

    fn await_next(&mut self) {
        if let Some(part) = self.reads.parts.get(self.n_sent) {
            let message_ns = self.fabric.hardware().message_ns;
            self.fabric.await_arrival(part.arrival_ns.saturating_add(message_ns));
        }
    }

    /// Sends all requests that reach their servers now.
    fn send_next(&mut self) {
        let reads = self.reads;
        let arrival_ns = reads.parts[self.n_sent].arrival_ns;
        while reads.parts.get(self.n_sent).is_some_and(|part| part.arrival_ns == arrival_ns) {
            self.send(self.n_sent);
            self.n_sent += 1;
        }
        self.await_next();
    }

    fn send(&mut self, row: usize) {
        self.outcome.n_messages += 1;
        let request = self.reads.collective.requests()[row];
        self.fabric.submit_hinted(self.job(row), request, Some(self.due_ns[row]));
    }

    fn job(&self, row: usize) -> Job {
        let (request, part) = (&self.reads.collective.requests()[row], &self.reads.parts[row]);
        let server = request.server.0;
        let from = self.fabric.hardware().servers[server as usize].host;
        Job { tag: row as u64, server, from, to: part.to, bytes: part.bytes }
    }

    fn send_again(&mut self, server: u32) {
        let requests = self.reads.collective.requests();
        let is_there = |row: &mut u32| requests[*row as usize].server.0 == server;
        let lost: Vec<u32> = self.lost.extract_if(.., is_there).collect();
        lost.into_iter().for_each(|row| self.send(row as usize));
    }

    fn has_read(&mut self, row: usize) {
        let job = self.job(row);
        self.outcome.count(&job);
        let number = self.reads.parts[row].aggregator;
        let aggregator = &mut self.aggregators[number as usize];
        aggregator.n_reads -= 1;
        let app = &mut self.apps[aggregator.app.index()];
        app.n_reads -= 1;
        match self.model {
            Model::NoBarrier if aggregator.n_reads == 0 => self.shuffle(number),
            Model::Barrier if app.n_reads == 0 => {
                // Only the slowest of the shuffles that begin together counts.
                app.n_shuffles = 1;
                let slowest = app.slowest;
                self.shuffle(slowest);
            }
            Model::NoBarrier | Model::Barrier => {}
        }
    }

    fn shuffle(&mut self, aggregator: u32) {
        let shuffle_ns = self.aggregators[aggregator as usize].shuffle_ns;
        self.fabric.wake(self.fabric.now_ns().saturating_add(shuffle_ns), aggregator.into());
    }

    fn shuffled(&mut self, aggregator: u32) {
        let app = self.aggregators[aggregator as usize].app.index();
        self.apps[app].n_shuffles -= 1;
        if self.apps[app].n_shuffles == 0 {
            self.done_ns[app] = Some(self.fabric.now_ns());
        }
    }

    fn finish(mut self) -> (Vec<Option<u64>>, Outcome) {
        let done = self.done_ns.iter().zip(&self.reads.begins_ns);
        let responses = done.filter_map(|(done_ns, begin_ns)| Some((*done_ns)? - begin_ns));
        self.outcome.responses_ns = responses.collect();
        self.outcome.makespan_ns = self.done_ns.iter().copied().flatten().max().unwrap_or(0);
        (self.done_ns, self.outcome.close(self.apps.len(), self.fabric))
    }
}
