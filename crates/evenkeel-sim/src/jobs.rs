//! Jobs: workers read, compute and write over and over, under a central scheduler (paper 001).
//!
//! Every client is a worker and runs one job after the other. A job consists of cycles. In each cycle the worker reads
//! with several requests at once, computes when it has all the data, and writes the same way. Each request can be
//! served by any of the servers that hold its data. The centre picks one by the policy when requests arrive. Each start
//! is a decision of the centre, one after the other, and a message, unless requests are handed over earlier
//! ([`HandOver`]).

use evenkeel::draw::Seeded;
use evenkeel::model::{Batch, BatchBuilder, Choice, Cluster, ModelError, NameTable};
use evenkeel::policy::{Ask, Kind, Live, Policy};
use evenkeel::select::replanned;
use serde::Deserialize;

use crate::case::Case;
use crate::chance::{exponential, sample_in_turn, sub_seed};
use crate::fabric::Happening;
use crate::hardware::Hardware;
use crate::outcome::Outcome;
use crate::refused::Refused;
use crate::requests::{Central, HandOver, Requests, Run, SENT_ALL, View, Windows};
use crate::units::{Bytes, Span};

/// Purposes of the random draws, for their sub-seeds.
const REPLICAS: u64 = 1;
const COMPUTING: u64 = 2;
const CHOICES: u64 = 3;

/// Jobs of the workers, which are the clients.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Jobs {
    /// Number of jobs of each worker, one after the other.
    pub jobs: u32,
    /// Number of cycles of reading, computing and writing in a job; at least one.
    pub cycles: u32,
    /// Number of requests with which a job reads, or writes, at once; at least one. Requests beyond the client's slots
    /// wait.
    pub requests: u32,
    /// Bytes that each of these requests reads. 0: nothing is read.
    pub read: Bytes,
    /// Time a job computes in each cycle.
    pub compute: Span,
    /// Whether computing times are drawn for each cycle, exponentially distributed with mean `compute`.
    pub irregular: bool,
    /// Bytes that each request writes. 0: nothing is written.
    pub write: Bytes,
    /// Number of servers, drawn at random, that hold the data of a request.
    pub copies: u32,
    /// Which requests get a new choice at each arrival, besides those that have just arrived. By default: for `aequi`
    /// the excess of overloaded servers, for `optimal` everything that has not started, otherwise nothing.
    pub take_back: Option<TakeBack>,
    /// When requests are handed over to servers.
    pub hand_over: HandOver,
}

/// Which requests get a new choice at each arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TakeBack {
    /// Only those that have just arrived.
    Nothing,
    /// Also the youngest requests of servers whose load is above average.
    Overload,
    /// All that have not started.
    Everything,
}

impl Default for Jobs {
    fn default() -> Self {
        Self {
            jobs: 10,
            cycles: 1,
            requests: 3,
            read: Bytes(1 << 20),
            compute: Span(0),
            irregular: false,
            write: Bytes(1 << 20),
            copies: 2,
            take_back: None,
            hand_over: HandOver::AtStart,
        }
    }
}

impl Jobs {
    /// Runs the jobs under a policy that chooses replicas. Responses are those of jobs.
    pub fn run(&self, case: &Case<'_>) -> Result<Outcome, Refused> {
        let select = case.answer("which replica serves each request", |kind| match kind {
            Kind::Select(select) => Some(*select),
            _ => None,
        })?;
        let Case { hardware, policy, seed, .. } = *case;
        if hardware.clients.is_empty() {
            return Err(Refused::NoClients);
        }
        Refused::copies(self.copies, hardware.servers.len())?;
        let requests = self.drawn(hardware, seed)?;
        let view = View::new(&requests, hardware)?;
        let fabric = case.fabric(None);
        let mut n_choices = 0;
        let choose = |batch: &Batch, cluster: &Cluster| {
            // Draw differently each time. Otherwise a single request would always get the same server.
            n_choices += 1;
            let ask = Ask { seed: sub_seed(sub_seed(seed, CHOICES), n_choices), ..Ask::default() };
            select(batch, cluster, &ask).0
        };
        let windows = Windows::new(&fabric);
        let mut run = Run::without_arrivals(&requests, fabric);
        run.is_write = self.is_write(requests.batch.n_requests());
        let mut central = Central::new(run, &view, self.take_back(policy), choose);
        central.hand_over = self.hand_over;
        let working = Working {
            jobs: self,
            requests: &requests,
            windows,
            workers: self.workers(hardware.clients.len()),
            draw: Seeded::new(sub_seed(seed, COMPUTING)),
            central,
        };
        Ok(working.go())
    }

    fn take_back(&self, policy: &Policy) -> replanned::TakeBack {
        match (self.take_back, policy.live) {
            (Some(TakeBack::Overload), _) | (None, Live::TakesBackOverload) => replanned::TakeBack::Overload,
            (Some(TakeBack::Everything), _) | (None, Live::Mended) => replanned::TakeBack::Everything,
            (Some(TakeBack::Nothing) | None, _) => replanned::TakeBack::Nothing,
        }
    }

    /// Bytes per request of each phase of a cycle that moves any, and whether the phase writes.
    fn phases(&self) -> impl Iterator<Item = (u64, bool)> + Clone + use<> {
        [(self.read.0, false), (self.write.0, true)].into_iter().filter(|(bytes, _)| *bytes > 0)
    }

    /// Whether each request is a write, in the order in which a worker issues them.
    fn is_write(&self, n_requests: usize) -> Vec<bool> {
        let n = self.requests.max(1) as usize;
        let of_cycle = self.phases().flat_map(|(_, is_write)| std::iter::repeat_n(is_write, n));
        of_cycle.cycle().take(n_requests).collect()
    }

    fn n_requests_of_worker(&self) -> u64 {
        let n_cycles = u64::from(self.jobs) * u64::from(self.cycles.max(1));
        n_cycles.saturating_mul(self.phases().count() as u64 * u64::from(self.requests.max(1)))
    }

    fn workers(&self, n_workers: usize) -> Vec<Worker> {
        let n_requests = self.n_requests_of_worker() as u32;
        let worker = |number: u32| Worker { next: number * n_requests, ..Worker::default() };
        (0..n_workers as u32).map(worker).collect()
    }

    /// All requests that will ever be issued, worker by worker, each in the order in which the worker issues them.
    fn drawn(&self, hardware: &Hardware, seed: u64) -> Result<Requests, ModelError> {
        let named = |letter: char, n: usize| {
            let mut names = NameTable::new();
            (0..n).for_each(|number| _ = names.intern(&format!("{letter}{number}")));
            names
        };
        let servers = named('s', hardware.servers.len());
        let clients = named('c', hardware.clients.len());
        let block_bytes = gcd(self.read.0, self.write.0).max(1);
        let mut batch = BatchBuilder::new();
        batch.declare_servers(servers.clone())?;
        batch.declare_clients(clients.clone())?;
        let mut draw = Seeded::new(sub_seed(seed, REPLICAS));
        for client in clients.iter() {
            let n_phases = self.n_requests_of_worker() / u64::from(self.requests.max(1));
            for (_, (bytes, _)) in (0..n_phases).zip(self.phases().cycle()) {
                for _ in 0..self.requests.max(1) {
                    for server in sample_in_turn(servers.len() as u32, self.copies, &mut draw) {
                        batch.replica(servers.name(server))?;
                    }
                    batch.end_request(client, bytes / block_bytes)?;
                }
            }
        }
        Ok(Requests { batch: batch.finish(), block_bytes, bytes: None, arrivals_ns: None })
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// A worker and its state.
#[derive(Default)]
struct Worker {
    n_jobs: u32,
    n_cycles: u32,
    /// Its next request.
    next: u32,
    /// Number of requests in flight.
    n_open: u32,
    is_writing: bool,
    began_ns: u64,
}

struct Working<'a, F> {
    jobs: &'a Jobs,
    requests: &'a Requests,
    central: Central<'a, F>,
    windows: Windows,
    workers: Vec<Worker>,
    draw: Seeded,
}

impl<F: FnMut(&Batch, &Cluster) -> Choice> Working<'_, F> {
    fn go(mut self) -> Outcome {
        let n_wanted = self.workers.len() * self.jobs.jobs as usize;
        (0..self.workers.len()).for_each(|worker| self.begin_job(worker));
        self.central.schedule();
        while let Some((_, happening)) = self.central.run.fabric.next() {
            match happening {
                // The worker has finished computing.
                Happening::Timer { tag } if tag != SENT_ALL => self.write(tag as usize),
                Happening::Done { tag } => self.done(tag as u32),
                Happening::Lost { tag } => self.central.lost(tag as u32),
                Happening::Up { .. }
                | Happening::Down { .. }
                | Happening::Timer { .. }
                | Happening::Arrival => {}
            }
            self.central.schedule();
        }
        self.central.run.outcome.close(n_wanted, self.central.run.fabric)
    }

    fn begin_job(&mut self, worker: usize) {
        let of = &mut self.workers[worker];
        if of.n_jobs < self.jobs.jobs {
            of.n_jobs += 1;
            of.n_cycles = 0;
            of.began_ns = self.central.run.fabric.now_ns();
            self.begin_cycle(worker);
        }
    }

    fn begin_cycle(&mut self, worker: usize) {
        self.workers[worker].is_writing = false;
        match self.jobs.read.0 {
            0 => self.compute(worker),
            _ => self.issue(worker),
        }
    }

    fn compute(&mut self, worker: usize) {
        let mean_ns = self.jobs.compute.0;
        let span_ns = match self.jobs.irregular {
            true => (mean_ns as f64 * exponential(&mut self.draw)) as u64,
            false => mean_ns,
        };
        let fabric = &mut self.central.run.fabric;
        fabric.wake(fabric.now_ns().saturating_add(span_ns), worker as u64);
    }

    fn write(&mut self, worker: usize) {
        self.workers[worker].is_writing = true;
        match self.jobs.write.0 {
            0 => self.end_cycle(worker),
            _ => self.issue(worker),
        }
    }

    fn end_cycle(&mut self, worker: usize) {
        let of = &mut self.workers[worker];
        of.n_cycles += 1;
        if of.n_cycles < self.jobs.cycles {
            self.begin_cycle(worker);
            return;
        }
        let run = &mut self.central.run;
        let now_ns = run.fabric.now_ns();
        run.outcome.responses_ns.push(now_ns - of.began_ns);
        run.outcome.makespan_ns = now_ns;
        self.begin_job(worker);
    }

    /// Issues the requests of a phase, as many at once as the client has slots.
    fn issue(&mut self, worker: usize) {
        let of = &mut self.workers[worker];
        let n = self.jobs.requests.max(1);
        let requests = of.next..of.next + n;
        (of.next, of.n_open) = (requests.end, n);
        for request in requests {
            self.windows.arrived(&self.requests.batch, request, |request| self.central.issue(request));
        }
    }

    fn done(&mut self, request: u32) {
        self.central.done(request);
        self.windows.done(&self.requests.batch, request, |request| self.central.issue(request));
        let worker = self.requests.batch.client(request as usize).index();
        let of = &mut self.workers[worker];
        of.n_open -= 1;
        match (of.n_open, of.is_writing) {
            (0, false) => self.compute(worker),
            (0, true) => self.end_cycle(worker),
            _ => {}
        }
    }
}
