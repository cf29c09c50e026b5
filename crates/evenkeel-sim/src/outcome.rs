//! What came of a run, and of several.

use crate::fabric::{Fabric, Job};

/// Into how many parts a run's time is divided.
const N_BINS: usize = 64;

/// How busy servers were over time. Bins grow with the run, so that there are always as many.
#[derive(Clone, Debug, PartialEq)]
pub struct Timeline {
    n_servers: usize,
    bin_ns: u64,
    /// Slots taken, in nanoseconds of a bin, and bytes present, times nanoseconds; bin by bin.
    busy_ns: Vec<u64>,
    load: Vec<f64>,
}

impl Timeline {
    /// Nothing yet.
    pub fn new(n_servers: usize) -> Self {
        let n = N_BINS * n_servers;
        Self { n_servers, bin_ns: 1, busy_ns: vec![0; n], load: vec![0.0; n] }
    }

    /// How long a bin is.
    pub fn bin_ns(&self) -> u64 {
        self.bin_ns
    }

    /// The mean number of slots that a server had taken in each bin.
    pub fn busy(&self, server: u32) -> impl Iterator<Item = f64> {
        let of_server = self.busy_ns.iter().skip(server as usize).step_by(self.n_servers);
        of_server.map(|&busy_ns| busy_ns as f64 / self.bin_ns as f64)
    }

    /// The mean number of bytes that waited at a server, or were being moved, in each bin.
    pub fn load(&self, server: u32) -> impl Iterator<Item = f64> {
        let of_server = self.load.iter().skip(server as usize).step_by(self.n_servers);
        of_server.map(|&load| load / self.bin_ns as f64)
    }

    /// A job of so many bytes was at a server, and from its start in a slot.
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

    /// Joins every two bins.
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

/// What machines refused that were told what had happened. Nothing should be: each is a mistake, theirs or the driver's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    n: u64,
    first: Option<String>,
}

impl Findings {
    /// Takes note of a refusal, if it is one.
    pub(crate) fn note<T, E: std::fmt::Display>(&mut self, told: Result<T, E>) {
        if let Err(refusal) = told {
            self.n += 1;
            self.first.get_or_insert_with(|| refusal.to_string());
        }
    }

    /// Whether there are none; else an error that tells the first.
    pub fn none(&self) -> Result<(), String> {
        match &self.first {
            None => Ok(()),
            Some(first) => Err(format!(
                "{} events were refused, which is a mistake in evenkeel; the first: {first}",
                self.n
            )),
        }
    }
}

/// What came of one run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// When the last was done.
    pub makespan_ns: u64,
    /// No schedule of all that was done could have ended earlier, where that is known.
    pub bound_ns: Option<u64>,
    /// From arrival to completion, ascending, of all that were done.
    pub responses_ns: Vec<u64>,
    /// How many were not done.
    pub n_failed: u64,
    /// How many were not wanted any more before they were done.
    pub n_cancelled: u64,
    /// Which requests were not done; of other work nothing is told.
    pub undone: Vec<u32>,
    /// Whether something would have ended after all times that can be told, 584 years.
    pub is_endless: bool,
    /// Bytes that did not leave their host.
    pub local_bytes: u64,
    /// Bytes that went through the network.
    pub remote_bytes: u64,
    /// Bytes written elsewhere than by default.
    pub redirected_bytes: u64,
    /// Bytes moved in transfers that were started a second time.
    pub hedged_bytes: u64,
    /// Messages without data.
    pub n_messages: u64,
    /// Of these, questions for a server's load.
    pub n_probes: u64,
    /// Rounds of bidding.
    pub n_rounds: u64,
    /// How often all that was unstarted was planned anew.
    pub n_replans: u64,
    /// Events of the simulation.
    pub n_events: u64,
    /// What machines refused.
    pub findings: Findings,
    /// When each process, or each client that writes, was done with its last; empty elsewhere.
    pub done_ns_of_clients: Vec<u64>,
    /// Bytes that each server moved.
    pub bytes_of_servers: Vec<u64>,
    /// How long each server's slots were taken.
    pub busy_ns_of_servers: Vec<u64>,
    /// The same over time.
    pub timeline: Option<Timeline>,
}

impl Outcome {
    /// Counts the bytes of a job that is done, by whether they left their host.
    pub(crate) fn count(&mut self, job: &Job) {
        let bytes = if job.from == job.to { &mut self.local_bytes } else { &mut self.remote_bytes };
        *bytes += job.bytes;
    }

    /// The end of a run of so many things, of which some may not be done: adds what the fabric has counted.
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

    /// The mean response; not a number if there was none.
    pub fn mean_response_ns(&self) -> f64 {
        let sum: u128 = self.responses_ns.iter().map(|&ns| u128::from(ns)).sum();
        sum as f64 / self.responses_ns.len() as f64
    }

    /// The response that so many of a thousand keep to: the nearest rank; 0 if there was none.
    pub fn response_ns(&self, of_1000: u64) -> u64 {
        let rank = (self.responses_ns.len() as u64 * of_1000).div_ceil(1000).max(1);
        self.responses_ns.get(rank as usize - 1).copied().unwrap_or(0)
    }

    /// How much longer than the bound it took.
    pub fn ratio(&self) -> Option<f64> {
        let bound_ns = self.bound_ns.filter(|&bound_ns| bound_ns > 0)?;
        Some(self.makespan_ns as f64 / bound_ns as f64)
    }
}

/// The mean of several runs, and how far it may be off: the mean of all runs there could be is within that
/// of it in 95 of 100 cases.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// Half of the confidence interval; none of a single run.
    pub margin: Option<f64>,
}

impl Estimate {
    /// Of these runs; none if there are none.
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

/// Student's t for 95 of 100, two-sided, with so many degrees of freedom.
fn student(freedom: usize) -> f64 {
    const FEW: [f64; 30] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145,
        2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048,
        2.045, 2.042,
    ];
    // Beyond the table the first terms of its expansion are exact to three places.
    FEW.get(freedom - 1).copied().unwrap_or_else(|| 1.95996 + 2.3722 / freedom as f64)
}
