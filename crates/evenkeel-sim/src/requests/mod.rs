//! Requests for replicated data: clients send them to servers by themselves, or by plan.
//!
//! * [`push()`]: each client goes through its requests in order and sends them to the chosen servers, where they wait
//!   in queues. The clients of most systems work this way.
//! * [`execute()`]: the [`Executor`](evenkeel::run::Executor) decides what starts where, and when; nothing waits at
//!   servers. It can have a plan, or pick servers as requests arrive.
//! * [`bid()`]: clients and servers agree by messages, and the executor carries out the result (paper 000).
//! * [`centre()`]: a scheduler chooses again at every arrival for all requests that have not started (paper 001).
//!
//! [`by_policy`] uses the one that fits a policy.

mod bid;
mod centre;
mod conduct;
mod execute;
mod policy;
mod push;
mod speed;
mod trouble;

use std::collections::VecDeque;

use evenkeel::model::{self, Batch, BatchBuilder, ClientId, Cluster, ModelError, ServerId, Speed};
use evenkeel::select::{Goal, optimal};

use crate::fabric::{Fabric, Job, JobId};
use crate::hardware::{Client, Hardware, Server};
use crate::outcome::Outcome;

pub use bid::bid;
pub(crate) use centre::{Central, SENT_ALL};
pub use centre::{HandOver, centre};
pub use conduct::Conduct;
pub use execute::{execute, execute_watched};
pub use policy::{NotServed, Way, by_policy};
pub use push::push;
pub use trouble::{Incident, Message, Trouble};

/// Requests, and when they arrive.
#[derive(Clone, Debug)]
pub struct Requests {
    /// Clients, replicas and sizes of the requests, in blocks, rounded up.
    pub batch: Batch,
    /// Bytes per block.
    pub block_bytes: u64,
    /// Bytes of each request; none if all are whole blocks.
    pub bytes: Option<Vec<u64>>,
    /// Arrival time of each request; none if all are present from the start.
    pub arrivals_ns: Option<Vec<u64>>,
}

impl Requests {
    /// Requests of the same clients for the same data, with the given sizes in bytes.
    pub fn sized(
        batch: &Batch,
        bytes: Vec<u64>,
        block_bytes: u64,
        arrivals_ns: Option<Vec<u64>>,
    ) -> Result<Self, ModelError> {
        let mut sized = BatchBuilder::new();
        sized.declare_clients(batch.clients().clone())?;
        sized.declare_servers(batch.servers().clone())?;
        for (request, (set, bytes)) in batch.replicas().iter().zip(&bytes).enumerate() {
            for server in set {
                sized.replica(batch.servers().name(server.0))?;
            }
            let client = batch.clients().name(batch.client(request).0);
            sized.end_request(client, bytes.div_ceil(block_bytes))?;
        }
        Ok(Self { batch: sized.finish(), block_bytes, bytes: Some(bytes), arrivals_ns })
    }

    /// Lower bound on the makespan of requests that are all present from the start, without those in `undone`.
    pub fn bound_ns(&self, hardware: &Hardware, undone: &[u32]) -> Result<u64, ModelError> {
        // By the exact bytes, not by blocks, which are rounded up.
        let exact = |bytes: &Vec<u64>| Self::sized(&self.batch, bytes.clone(), 1, None);
        let exact = self.bytes.as_ref().map(exact).transpose()?.map(|exact| Self { bytes: None, ..exact });
        let all = exact.as_ref().unwrap_or(self);
        let view = View::new(all, hardware)?;
        if undone.is_empty() {
            return Ok(view.bound_ns(all));
        }
        let mut blocks: Vec<u64> = (0..all.batch.n_requests()).map(|i| all.batch.blocks(i)).collect();
        undone.iter().for_each(|&request| blocks[request as usize] = 0);
        Ok(view.bound_ns(&Self::sized(&all.batch, blocks, 1, None)?))
    }

    /// Bytes of a request.
    pub fn bytes(&self, request: usize) -> u64 {
        self.bytes
            .as_ref()
            .map_or_else(|| self.batch.blocks(request) * self.block_bytes, |bytes| bytes[request])
    }

    /// Arrival time of a request.
    pub fn arrival_ns(&self, request: usize) -> u64 {
        self.arrivals_ns.as_ref().map_or(0, |arrivals_ns| arrivals_ns[request])
    }

    /// The size of all requests, if it is the same.
    fn common_blocks(&self) -> Option<u64> {
        let first = if self.batch.n_requests() > 0 { self.batch.blocks(0) } else { 1 };
        let is_common =
            self.bytes.is_none() && (0..self.batch.n_requests()).all(|i| self.batch.blocks(i) == first);
        is_common.then_some(first)
    }
}

/// A cluster as planners see it, and the time of a block at speed 1.
#[derive(Debug)]
pub struct View {
    /// Speeds, slots and hosts.
    pub cluster: Cluster,
    /// Time a block takes at speed 1.
    pub block_ns: f64,
}

impl View {
    /// Speed 1 is the speed of the first server, unless a common measure of the speeds fits them better. If all
    /// requests have the same size, the latency counts as part of it.
    pub fn new(requests: &Requests, hardware: &Hardware) -> Result<Self, ModelError> {
        let n_blocks = requests.common_blocks().unwrap_or(0).max(1);
        let latency = if requests.common_blocks().is_some() { 1.0 } else { 0.0 };
        let span = |server: &Server| {
            server.latency_ns as f64 * latency / n_blocks as f64 + requests.block_bytes as f64 / server.rate
        };
        let block_ns = speed::unit(&hardware.servers.iter().map(span).collect::<Vec<f64>>());
        let servers = hardware.servers.iter().map(|server| {
            let millionths = (block_ns / span(server) * 1e6 + 0.5) as u64;
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
        Ok(Self { cluster, block_ns })
    }

    /// Lower bound on the makespan of requests of whole blocks that are all present from the start.
    pub fn bound_ns(&self, requests: &Requests) -> u64 {
        let (_, bound) = optimal::select(&requests.batch, &self.cluster, Goal::Length);
        (bound.value.to_f64() * self.block_ns) as u64
    }
}

/// State and counts that all drivers share.
pub(crate) struct Run<'a> {
    requests: &'a Requests,
    pub(crate) fabric: Fabric<'a>,
    /// Which requests are writes, from the client to the server; empty if all are reads.
    pub(crate) is_write: Vec<bool>,
    /// Requests in order of arrival, and the number that have arrived.
    by_arrival: Vec<u32>,
    n_arrived: usize,
    /// Which requests are done or cancelled.
    is_done: Vec<bool>,
    pub(crate) outcome: Outcome,
}

impl<'a> Run<'a> {
    fn new(requests: &'a Requests, fabric: Fabric<'a>) -> Self {
        let mut run = Self::without_arrivals(requests, fabric);
        run.by_arrival = (0..requests.batch.n_requests() as u32).collect();
        run.is_done = vec![false; requests.batch.n_requests()];
        if requests.arrivals_ns.is_some() {
            run.by_arrival.sort_by_key(|&request| requests.arrival_ns(request as usize));
        }
        run.outcome.responses_ns.reserve_exact(run.by_arrival.len());
        run.await_arrival();
        run
    }

    /// Creates a run whose driver decides when requests arrive.
    pub(crate) fn without_arrivals(requests: &'a Requests, fabric: Fabric<'a>) -> Self {
        let (is_write, by_arrival, is_done) = (Vec::new(), Vec::new(), Vec::new());
        Self { requests, fabric, is_write, by_arrival, n_arrived: 0, is_done, outcome: Outcome::default() }
    }

    fn await_arrival(&mut self) {
        if let Some(&next) = self.by_arrival.get(self.n_arrived) {
            self.fabric.await_arrival(self.requests.arrival_ns(next as usize));
        }
    }

    /// The next request that arrives by now.
    fn next_arrival(&mut self) -> Option<u32> {
        let &next = self.by_arrival.get(self.n_arrived)?;
        if self.requests.arrival_ns(next as usize) > self.fabric.now_ns() {
            self.await_arrival();
            return None;
        }
        self.n_arrived += 1;
        Some(next)
    }

    /// A job that moves `bytes` bytes from a server to a client.
    fn job(&self, tag: u64, server: ServerId, client: ClientId, bytes: u64) -> Job {
        let hardware = self.fabric.hardware();
        let (from, to) = (hardware.servers[server.index()].host, hardware.clients[client.index()].host);
        Job { tag, server: server.0, from, to, bytes }
    }

    /// A job that moves a whole request between a server and its client. The tag is the request.
    fn whole(&self, request: u32, server: ServerId) -> Job {
        let client = self.requests.batch.client(request as usize);
        let read = self.job(request.into(), server, client, self.requests.bytes(request as usize));
        match self.is_write.get(request as usize) {
            Some(true) => Job { from: read.to, to: read.from, ..read },
            _ => read,
        }
    }

    /// The first server that is up and holds the data of a request.
    fn holder(&self, request: u32) -> Option<ServerId> {
        let holders = self.requests.batch.replicas().of(request as usize).iter();
        holders.copied().find(|server| self.fabric.is_up(server.0))
    }

    fn deliver(&mut self, request: u32) {
        let now_ns = self.fabric.now_ns();
        self.outcome.makespan_ns = now_ns;
        self.outcome.responses_ns.push(now_ns.saturating_sub(self.requests.arrival_ns(request as usize)));
        self.is_done[request as usize] = true;
    }

    /// Cancels a request.
    fn cancel(&mut self, request: u32) {
        self.outcome.n_cancelled += 1;
        self.outcome.undone.push(request);
        self.is_done[request as usize] = true;
    }

    fn finish(mut self) -> Outcome {
        if self.outcome.responses_ns.len() < self.by_arrival.len() {
            let undone = (0..).zip(&self.is_done).filter(|(_, is_done)| !**is_done);
            self.outcome.undone.extend(undone.map(|(request, _)| request));
            self.outcome.undone.sort_unstable();
        }
        self.outcome.close(self.by_arrival.len(), self.fabric)
    }
}

/// The requests of each client that wait for a slot of the client.
pub(crate) struct Windows {
    clients: Vec<Window>,
}

#[derive(Clone, Default)]
struct Window {
    waiting: VecDeque<u32>,
    n_free: u32,
}

impl Windows {
    pub(crate) fn new(fabric: &Fabric<'_>) -> Self {
        let window = |client: &Client| Window { waiting: VecDeque::new(), n_free: client.slots };
        Self { clients: fabric.hardware().clients.iter().map(window).collect() }
    }

    /// Issues a request at once if its client has a free slot.
    pub(crate) fn arrived(&mut self, batch: &Batch, request: u32, issue: impl FnOnce(u32)) {
        let window = &mut self.clients[batch.client(request as usize).index()];
        if window.n_free > 0 {
            window.n_free -= 1;
            issue(request);
        } else {
            window.waiting.push_back(request);
        }
    }

    /// Records that a request is done, and issues the next one of its client.
    pub(crate) fn done(&mut self, batch: &Batch, request: u32, issue: impl FnOnce(u32)) {
        let window = &mut self.clients[batch.client(request as usize).index()];
        match window.waiting.pop_front() {
            Some(next) => issue(next),
            None => window.n_free += 1,
        }
    }
}

/// A single decision maker, which makes one decision after the other.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Centre {
    free_ns: u64,
}

impl Centre {
    /// Time until the next decision is made and has reached another host.
    pub(crate) fn delay_ns(&mut self, fabric: &Fabric<'_>) -> u64 {
        let (now_ns, hardware) = (fabric.now_ns(), fabric.hardware());
        self.free_ns = self.free_ns.max(now_ns).saturating_add(hardware.dispatch_ns);
        (self.free_ns - now_ns).saturating_add(hardware.message_ns)
    }

    /// Sends a job to its server when its turn comes.
    fn dispatch(&mut self, run: &mut Run<'_>, job: Job) -> JobId {
        run.outcome.n_messages += 1;
        let after_ns = self.delay_ns(&run.fabric);
        run.fabric.submit(job, after_ns)
    }
}

#[cfg(test)]
mod tests {
    use evenkeel::model::BatchBuilder;

    use super::*;

    /// Reads come from the server, and writes go to it.
    #[test]
    fn directions() {
        let mut batch = BatchBuilder::new();
        (0..2).for_each(|_| batch.request("c0", 3, &["s0"]).expect("a good request"));
        let requests = Requests { batch: batch.finish(), block_bytes: 5, bytes: None, arrivals_ns: None };
        let hardware = Hardware {
            servers: vec![Server { host: 7, ..Server::default() }],
            clients: vec![Client { host: 4, slots: 1 }],
            n_hosts: 8,
            nic: None,
            message_ns: 0,
            dispatch_ns: 0,
        };
        let mut run = Run::without_arrivals(&requests, Fabric::new(&hardware, None));
        run.is_write = vec![false, true];
        let of = |request| run.whole(request, ServerId(0));
        assert_eq!(of(0), Job { tag: 0, server: 0, from: 7, to: 4, bytes: 15 });
        assert_eq!(of(1), Job { tag: 1, server: 0, from: 4, to: 7, bytes: 15 });
    }
}
