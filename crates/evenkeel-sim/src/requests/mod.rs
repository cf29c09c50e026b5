//! Requests for replicated data: clients ask servers, by themselves or by plan.
//!
//! * [`push`]: each client goes through its requests in their order and sends them to the servers that were chosen;
//!   there they wait in queues. What clients of most systems do.
//! * [`execute`]: the [`Executor`](evenkeel::run::Executor) says what starts where and when; nothing waits at servers. It may have a plan, or pick
//!   servers as requests arrive.
//! * [`bid`]: clients and servers agree by messages, and the executor carries out what they have agreed on (paper 000).
//! * [`centre`]: a scheduler chooses again at every arrival for what has not started (paper 001).

mod bid;
mod centre;
mod execute;
mod push;

use std::collections::VecDeque;

use evenkeel::model::{self, Batch, ClientId, Cluster, ModelError, ServerId, Speed};
use evenkeel::select::{Goal, optimal};

use crate::fabric::{Fabric, Job, JobId};
use crate::hardware::{Client, Hardware, Server};
use crate::outcome::Outcome;

pub use bid::{bid, rules};
pub use centre::centre;
pub use execute::execute;
pub use push::push;

/// Requests, and when they arrive.
#[derive(Clone, Debug)]
pub struct Requests {
    /// Who wants what, in blocks, rounded up.
    pub batch: Batch,
    /// The bytes of a block.
    pub block_bytes: u64,
    /// The bytes of each request; none if all are whole blocks.
    pub bytes: Option<Vec<u64>>,
    /// When each arrives; none if all are there from the start.
    pub arrivals_ns: Option<Vec<u64>>,
}

impl Requests {
    /// The bytes of a request.
    pub fn bytes(&self, request: usize) -> u64 {
        self.bytes
            .as_ref()
            .map_or_else(|| self.batch.blocks(request) * self.block_bytes, |bytes| bytes[request])
    }

    /// When a request arrives.
    pub fn arrival_ns(&self, request: usize) -> u64 {
        self.arrivals_ns.as_ref().map_or(0, |arrivals_ns| arrivals_ns[request])
    }

    /// The size that all requests have, if they have one.
    fn common_blocks(&self) -> Option<u64> {
        let first = if self.batch.n_requests() > 0 { self.batch.blocks(0) } else { 1 };
        let is_common =
            self.bytes.is_none() && (0..self.batch.n_requests()).all(|i| self.batch.blocks(i) == first);
        is_common.then_some(first)
    }
}

/// A cluster as planners see it, and how long a block takes at speed 1.
#[derive(Debug)]
pub struct View {
    /// Speeds, slots and hosts.
    pub cluster: Cluster,
    /// How long a block takes at speed 1.
    pub block_ns: u64,
}

impl View {
    /// What the first server does has speed 1. Where all requests have one size the latency counts as part of it.
    pub fn new(requests: &Requests, hardware: &Hardware) -> Result<Self, ModelError> {
        let n_blocks = requests.common_blocks().unwrap_or(0).max(1);
        let latency = if requests.common_blocks().is_some() { 1.0 } else { 0.0 };
        let span = |server: &Server| {
            server.latency_ns as f64 * latency / n_blocks as f64 + requests.block_bytes as f64 / server.rate
        };
        let base_ns = hardware.servers.first().map_or(1.0, span);
        let servers = hardware.servers.iter().map(|server| {
            let millionths = (base_ns / span(server) * 1e6 + 0.5) as u64;
            let speed = Speed::from_millionths(millionths.clamp(1, Speed::MAX.millionths()));
            model::Server { speed: speed.unwrap_or(Speed::ONE), slots: server.slots, backlog: 0 }
        });
        let clients = hardware.clients.iter().map(|client| model::Client { slots: client.slots });
        let cluster = Cluster::new(&requests.batch, servers.collect(), clients.collect(), None)?;
        let names: Vec<String> = (0..hardware.n_hosts).map(|host| format!("h{host}")).collect();
        let host = |host: u32| names[host as usize].as_str();
        let servers = hardware.servers.iter().map(|server| host(server.host));
        let clients = hardware.clients.iter().map(|client| host(client.host));
        let cluster = cluster.on_hosts(servers, clients);
        Ok(Self { cluster, block_ns: (base_ns + 0.5) as u64 })
    }

    /// No schedule of requests that are all there from the start ends earlier.
    pub fn bound_ns(&self, requests: &Requests) -> u64 {
        let (_, bound) = optimal::select(&requests.batch, &self.cluster, Goal::Length);
        (bound.value.to_f64() * self.block_ns as f64) as u64
    }
}

/// What all drivers count.
struct Run<'a> {
    requests: &'a Requests,
    fabric: Fabric<'a>,
    /// Requests by arrival, and how many of them have arrived.
    by_arrival: Vec<u32>,
    n_arrived: usize,
    outcome: Outcome,
}

impl<'a> Run<'a> {
    fn new(requests: &'a Requests, fabric: Fabric<'a>) -> Self {
        let mut by_arrival: Vec<u32> = (0..requests.batch.n_requests() as u32).collect();
        if requests.arrivals_ns.is_some() {
            by_arrival.sort_by_key(|&request| requests.arrival_ns(request as usize));
        }
        let mut run = Self { requests, fabric, by_arrival, n_arrived: 0, outcome: Outcome::default() };
        run.outcome.responses_ns.reserve_exact(run.by_arrival.len());
        run.await_arrival();
        run
    }

    fn await_arrival(&mut self) {
        if let Some(&next) = self.by_arrival.get(self.n_arrived) {
            self.fabric.await_arrival(self.requests.arrival_ns(next as usize));
        }
    }

    /// The next that arrives by now.
    fn next_arrival(&mut self) -> Option<u32> {
        let &next = self.by_arrival.get(self.n_arrived)?;
        if self.requests.arrival_ns(next as usize) > self.fabric.now_ns() {
            self.await_arrival();
            return None;
        }
        self.n_arrived += 1;
        Some(next)
    }

    /// Some bytes from a server to a client.
    fn job(&self, tag: u64, server: ServerId, client: ClientId, bytes: u64) -> Job {
        let hardware = self.fabric.hardware();
        let (from, to) = (hardware.servers[server.index()].host, hardware.clients[client.index()].host);
        Job { tag, server: server.0, from, to, bytes }
    }

    /// All of a request from a server to its client; the tag is the request.
    fn whole(&self, request: u32, server: ServerId) -> Job {
        let client = self.requests.batch.client(request as usize);
        self.job(request.into(), server, client, self.requests.bytes(request as usize))
    }

    /// The first server that is up and holds what a request wants.
    fn holder(&self, request: u32) -> Option<ServerId> {
        let holders = self.requests.batch.replicas().of(request as usize).iter();
        holders.copied().find(|server| self.fabric.is_up(server.0))
    }

    fn count(&mut self, job: Job) {
        let bytes =
            if job.from == job.to { &mut self.outcome.local_bytes } else { &mut self.outcome.remote_bytes };
        *bytes += job.bytes;
    }

    fn deliver(&mut self, request: u32) {
        let now_ns = self.fabric.now_ns();
        self.outcome.makespan_ns = now_ns;
        self.outcome.responses_ns.push(now_ns.saturating_sub(self.requests.arrival_ns(request as usize)));
    }

    fn finish(mut self) -> Outcome {
        self.outcome.n_failed = (self.by_arrival.len() - self.outcome.responses_ns.len()) as u64;
        self.outcome.responses_ns.sort_unstable();
        self.outcome.n_events = self.fabric.n_events();
        self.outcome.bytes_of_servers = self.fabric.bytes_of_servers();
        self.outcome.busy_ns_of_servers = self.fabric.busy_ns_of_servers();
        self.outcome.timeline = self.fabric.into_timeline();
        self.outcome
    }
}

/// The requests of each client that wait for a slot of it.
struct Windows {
    clients: Vec<Window>,
}

#[derive(Clone, Default)]
struct Window {
    waiting: VecDeque<u32>,
    n_free: u32,
}

impl Windows {
    fn new(fabric: &Fabric<'_>) -> Self {
        let window = |client: &Client| Window { waiting: VecDeque::new(), n_free: client.slots };
        Self { clients: fabric.hardware().clients.iter().map(window).collect() }
    }

    /// A request is issued at once if its client has a slot.
    fn arrived(&mut self, batch: &Batch, request: u32, issue: impl FnOnce(u32)) {
        let window = &mut self.clients[batch.client(request as usize).index()];
        if window.n_free > 0 {
            window.n_free -= 1;
            issue(request);
        } else {
            window.waiting.push_back(request);
        }
    }

    /// A request is done; the next of its client is issued.
    fn done(&mut self, batch: &Batch, request: u32, issue: impl FnOnce(u32)) {
        let window = &mut self.clients[batch.client(request as usize).index()];
        match window.waiting.pop_front() {
            Some(next) => issue(next),
            None => window.n_free += 1,
        }
    }
}

/// Who decides alone, one thing after the other.
#[derive(Clone, Copy, Default)]
struct Centre {
    free_ns: u64,
}

impl Centre {
    /// Sends a job to its server when its turn has come.
    fn dispatch(&mut self, run: &mut Run<'_>, job: Job) -> JobId {
        let (now_ns, hardware) = (run.fabric.now_ns(), run.fabric.hardware());
        self.free_ns = self.free_ns.max(now_ns).saturating_add(hardware.dispatch_ns);
        run.outcome.n_messages += 1;
        run.fabric.submit(job, (self.free_ns - now_ns).saturating_add(hardware.message_ns))
    }
}
