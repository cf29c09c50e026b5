//! The outcome of one run, and estimates from several.

use crate::fabric::{Fabric, Job};

/// Number of bins into which the time of a run is divided.
const N_BINS: usize = 64;

/// How busy servers are over time. The number of bins is fixed: bins grow longer with the run.
#[derive(Clone, Debug, PartialEq)]
pub struct Timeline {
    n_servers: usize,
    bin_ns: u64,
    /// Slot time in nanoseconds, and bytes present times nanoseconds, bin by bin.
    busy_ns: Vec<u64>,
    load: Vec<f64>,
}

impl Timeline {
    /// Creates an empty timeline.
    pub fn new(n_servers: usize) -> Self {
        let n = N_BINS * n_servers;
        Self { n_servers, bin_ns: 1, busy_ns: vec![0; n], load: vec![0.0; n] }
    }

    /// Length of a bin.
    pub fn bin_ns(&self) -> u64 {
        self.bin_ns
    }

    /// Mean number of slots in use at a server in each bin.
    pub fn busy(&self, server: u32) -> impl Iterator<Item = f64> {
        let of_server = self.busy_ns.iter().skip(server as usize).step_by(self.n_servers);
        of_server.map(|&busy_ns| busy_ns as f64 / self.bin_ns as f64)
    }

    /// Mean number of bytes in the queue and the slots of a server in each bin.
    pub fn load(&self, server: u32) -> impl Iterator<Item = f64> {
        let of_server = self.load.iter().skip(server as usize).step_by(self.n_servers);
        of_server.map(|&load| load / self.bin_ns as f64)
    }

    /// Adds a job of `bytes` bytes that was present at a server, and occupied a slot from its start.
    pub(crate) fn add(&mut self, server: u32, submitted_ns: u64, started_ns: u64, ended_ns: u64, bytes: u64) {
        while ended_ns > self.bin_ns.saturating_mul(N_BINS as u64) {
            self.widen();
        }
        if ended_ns <= submitted_ns {
            return;
        }
        let overlap = |bin: u64, from_ns: u64| {
            let (bin_from_ns, bin_until_ns) = (bin * self.bin_ns, (bin + 1).saturating_mul(self.bin_ns));
            ended_ns.min(bin_until_ns).saturating_sub(from_ns.max(bin_from_ns))
        };
        for bin in submitted_ns / self.bin_ns..=(ended_ns - 1) / self.bin_ns {
            let place = bin as usize * self.n_servers + server as usize;
            self.busy_ns[place] += overlap(bin, started_ns);
            self.load[place] += overlap(bin, submitted_ns) as f64 * bytes as f64;
        }
    }

    /// Merges each pair of bins into one.
    fn widen(&mut self) {
        self.bin_ns *= 2;
        for bin in 0..N_BINS {
            for server in 0..self.n_servers {
                let of = |bin: usize| bin * self.n_servers + server;
                let (busy_ns, load) = if bin < N_BINS / 2 {
                    let (a, b) = (of(2 * bin), of(2 * bin + 1));
                    (self.busy_ns[a] + self.busy_ns[b], self.load[a] + self.load[b])
                } else {
                    (0, 0.0)
                };
                (self.busy_ns[of(bin)], self.load[of(bin)]) = (busy_ns, load);
            }
        }
    }
}

/// Events that state machines refused. There should be none: each is a bug, in the machine or in its driver.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    n: u64,
    first: Option<String>,
}

impl Findings {
    /// Records a refusal, if there is one.
    pub(crate) fn note<T, E: std::fmt::Display>(&mut self, told: Result<T, E>) {
        if let Err(refusal) = told {
            self.n += 1;
            self.first.get_or_insert_with(|| refusal.to_string());
        }
    }

    /// Returns an error with the first finding, if there are any.
    pub fn none(&self) -> Result<(), String> {
        match &self.first {
            None => Ok(()),
            Some(first) => Err(format!(
                "{} events were refused, the first because: {first}; this is a bug in evenkeel, please report it",
                self.n
            )),
        }
    }
}

/// The outcome of one run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// When the last request or other piece of work was done.
    pub makespan_ns: u64,
    /// Lower bound on the makespan of any schedule of the work that was done, where it is known.
    pub bound_ns: Option<u64>,
    /// Times from arrival to completion, ascending, of everything that was done.
    pub responses_ns: Vec<u64>,
    /// How many were not done.
    pub n_failed: u64,
    /// How many were cancelled before they were done.
    pub n_cancelled: u64,
    /// The requests that were not done; empty for other kinds of work.
    pub undone: Vec<u32>,
    /// Whether something would end only after the last representable time, 584 years.
    pub is_endless: bool,
    /// Bytes that did not leave their host.
    pub local_bytes: u64,
    /// Bytes that went through the network.
    pub remote_bytes: u64,
    /// Bytes written to a server other than the default.
    pub redirected_bytes: u64,
    /// The writes that this was.
    pub n_redirected: u64,
    /// Bytes moved in transfers that were started a second time.
    pub hedged_bytes: u64,
    /// Messages without data.
    pub n_messages: u64,
    /// Of these, questions about a server's load.
    pub n_probes: u64,
    /// Rounds of bidding.
    pub n_rounds: u64,
    /// How often all unstarted work was planned again.
    pub n_replans: u64,
    /// Events of the simulation.
    pub n_events: u64,
    /// Events that state machines refused.
    pub findings: Findings,
    /// When each process, or each writing client, completed its last piece of work; empty for other kinds of work.
    pub done_ns_of_clients: Vec<u64>,
    /// Bytes that each server moved.
    pub bytes_of_servers: Vec<u64>,
    /// Total slot time in use at each server.
    pub busy_ns_of_servers: Vec<u64>,
    /// How busy servers are over time.
    pub timeline: Option<Timeline>,
}

impl Outcome {
    /// Counts the bytes of a job that is done, by whether they left their host.
    pub(crate) fn count(&mut self, job: &Job) {
        let bytes = if job.from == job.to { &mut self.local_bytes } else { &mut self.remote_bytes };
        *bytes += job.bytes;
    }

    /// Ends a run in which `n_wanted` things were to be done, possibly not all successfully. Adds what the fabric has
    /// counted.
    pub(crate) fn close(mut self, n_wanted: usize, fabric: Fabric<'_>) -> Self {
        self.n_failed = (n_wanted - self.responses_ns.len()) as u64 - self.n_cancelled;
        self.is_endless = fabric.is_serving();
        self.responses_ns.sort_unstable();
        self.n_events = fabric.n_events();
        self.bytes_of_servers = fabric.bytes_of_servers();
        self.busy_ns_of_servers = fabric.busy_ns_of_servers();
        self.timeline = fabric.into_timeline();
        self
    }

    /// Mean response; NaN if there was none.
    pub fn mean_response_ns(&self) -> f64 {
        let sum: u128 = self.responses_ns.iter().map(|&ns| u128::from(ns)).sum();
        sum as f64 / self.responses_ns.len() as f64
    }

    /// The response that `of_1000` in a thousand do not exceed, by nearest rank; 0 if there was none.
    pub fn response_ns(&self, of_1000: u64) -> u64 {
        self.ranked_ns(10 * of_1000).unwrap_or(0)
    }

    /// The response that `of_10_000` in ten thousand do not exceed, if there was any.
    pub(crate) fn ranked_ns(&self, of_10_000: u64) -> Option<u64> {
        let rank = (self.responses_ns.len() as u64 * of_10_000).div_ceil(10_000).max(1);
        self.responses_ns.get(rank as usize - 1).copied()
    }

    /// Makespan divided by its lower bound.
    pub fn ratio(&self) -> Option<f64> {
        let bound_ns = self.bound_ns.filter(|&bound_ns| bound_ns > 0)?;
        Some(self.makespan_ns as f64 / bound_ns as f64)
    }
}

/// The mean of several runs with its 95 % confidence interval: in 95 of 100 cases, the mean of all possible runs is
/// within the margin of this mean.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// Half the width of the confidence interval; none for a single run.
    pub margin: Option<f64>,
}

impl Estimate {
    /// Estimates the mean from these runs; none if there are none.
    pub fn of(runs: &[f64]) -> Option<Self> {
        let n = runs.len() as f64;
        if runs.is_empty() {
            return None;
        }
        let mean = runs.iter().sum::<f64>() / n;
        let squares: f64 = runs.iter().map(|run| (run - mean) * (run - mean)).sum();
        let margin = (runs.len() > 1).then(|| student(runs.len() - 1) * (squares / (n - 1.0) / n).sqrt());
        Some(Self { mean, margin })
    }
}

/// Student's t for 95 %, two-sided, with `freedom` degrees of freedom.
fn student(freedom: usize) -> f64 {
    const FEW: [f64; 30] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145,
        2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048,
        2.045, 2.042,
    ];
    // Beyond the table, the first terms of the expansion are exact to three places.
    FEW.get(freedom - 1).copied().unwrap_or_else(|| 1.95996 + 2.3722 / freedom as f64)
}
