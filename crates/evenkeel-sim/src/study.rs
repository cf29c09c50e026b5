//! Many runs: each point of a sweep, under each policy, for each repetition of the scenario.

use std::sync::atomic::{AtomicBool, Ordering};

use evenkeel::policy::Policy;
use rayon::ThreadPoolBuilder;
use rayon::prelude::*;

use crate::measure::{self, MEASURES, Measure};
use crate::outcome::{Estimate, Outcome, Timeline};
use crate::scenario::{Scenario, Set};

/// A scenario with some keys set.
#[derive(Clone, Debug)]
pub struct Point {
    /// The keys that are set.
    pub sets: Vec<Set>,
    /// The scenario.
    pub scenario: Scenario,
}

/// One run of a study.
#[derive(Clone, Copy, Debug)]
pub struct Job {
    /// Which point.
    pub point: usize,
    /// Under which policy.
    pub policy: &'static Policy,
    /// Index of the repetition.
    pub repetition: u32,
}

/// The data that is kept of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// All measures, in the order of [`MEASURES`].
    pub measures: Vec<Option<f64>>,
    /// The responses at [`measure::shares`], in nanoseconds; empty if there were none.
    pub responses_ns: Vec<u64>,
    /// Data about each server. It is large, so only few runs keep it.
    pub servers: Option<Servers>,
}

/// The data that is kept of the servers of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Servers {
    /// Share of the slot time that was in use, for each server.
    pub utilisation: Vec<f64>,
    /// Bytes that each server moved.
    pub bytes: Vec<u64>,
    /// How busy they were over time.
    pub timeline: Timeline,
}

/// Maximum number of points whose first runs keep the data of their servers.
const MOST_POINTS_KEPT: usize = 16;

impl Run {
    fn new(outcome: Outcome, slots: &[u32]) -> Self {
        let span_ns = outcome.makespan_ns.max(1) as f64;
        let busy = outcome.busy_ns_of_servers.iter().zip(slots);
        let utilisation: Vec<f64> =
            busy.map(|(&busy_ns, &slots)| (busy_ns as f64 / span_ns / f64::from(slots)).min(1.0)).collect();
        Self {
            measures: measure::all(&outcome, &utilisation),
            responses_ns: measure::shares().filter_map(|share| outcome.ranked_ns(share.into())).collect(),
            servers: outcome.timeline.map(|timeline| Servers {
                utilisation,
                bytes: outcome.bytes_of_servers,
                timeline,
            }),
        }
    }

    /// The value of one measure.
    pub fn measure(&self, measure: &Measure) -> Option<f64> {
        let place = MEASURES.iter().position(|other| other.name == measure.name)?;
        self.measures[place]
    }
}

/// All runs of one policy at one point.
#[derive(Clone, Debug)]
pub struct Series {
    /// Which point.
    pub point: usize,
    /// Under which policy.
    pub policy: &'static Policy,
    /// The completed runs, each with its repetition.
    pub runs: Vec<(u32, Run)>,
}

impl Series {
    /// Estimates a measure over all runs.
    pub fn estimate(&self, measure: &Measure) -> Option<Estimate> {
        let values: Option<Vec<f64>> = self.runs.iter().map(|(_, run)| run.measure(measure)).collect();
        Estimate::of(&values?)
    }

    /// Average number of failures. A series with failures cannot be compared with one that completed everything.
    pub fn n_failed(&self) -> f64 {
        let n_failed = measure::find("failed").and_then(|failed| self.estimate(failed));
        n_failed.map_or(0.0, |about| about.mean)
    }

    /// Mean response over all runs at each of [`measure::shares`], in seconds.
    pub fn responses(&self) -> Vec<f64> {
        let n_shares = self.runs.iter().map(|(_, run)| run.responses_ns.len()).min().unwrap_or(0);
        let mean = |k: usize| {
            let sum: f64 = self.runs.iter().map(|(_, run)| run.responses_ns[k] as f64 / 1e9).sum();
            sum / self.runs.len() as f64
        };
        (0..n_shares).map(mean).collect()
    }

    /// The data of the servers in the first run.
    pub fn servers(&self) -> Option<&Servers> {
        self.runs.first().and_then(|(_, run)| run.servers.as_ref())
    }
}

/// Why a run failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("policy {policy}: {message}")]
pub struct RunError {
    policy: &'static str,
    message: String,
}

/// A scenario at several points.
#[derive(Clone, Debug)]
pub struct Study {
    /// The points; at least one.
    pub points: Vec<Point>,
}

impl Study {
    /// All runs. The first repetitions come first, so that a study that is stopped early has some results for
    /// everything.
    pub fn jobs(&self) -> Vec<Job> {
        let most = self.points.iter().map(|point| point.scenario.repetitions).max().unwrap_or(0);
        let mut jobs = Vec::new();
        for repetition in 0..most {
            for (point, Point { scenario, .. }) in self.points.iter().enumerate() {
                if repetition < scenario.repetitions {
                    jobs.extend(scenario.policies.iter().map(|policy| Job { point, policy, repetition }));
                }
            }
        }
        jobs
    }

    /// Does one run.
    pub fn run(&self, job: Job) -> Result<Run, RunError> {
        let Job { point, policy, repetition } = job;
        let scenario = &self.points[point].scenario;
        let outcome = scenario
            .run(policy, repetition, repetition == 0 && point < MOST_POINTS_KEPT)
            .map_err(|message| RunError { policy: policy.name, message })?;
        Ok(Run::new(outcome, &scenario.slots()))
    }

    /// Runs these jobs on a number of threads (0: one per processor), and reports each one that is done. Jobs that have
    /// not begun when the study is stopped are left out. The results do not depend on the threads.
    pub fn run_all(
        &self,
        jobs: &[Job],
        n_threads: usize,
        stop: &AtomicBool,
        is_done: &(dyn Fn() + Sync),
    ) -> Result<Vec<Option<Run>>, RunError> {
        let one = |&job: &Job| {
            if stop.load(Ordering::Relaxed) {
                return Ok(None);
            }
            let run = self.run(job)?;
            is_done();
            Ok(Some(run))
        };
        match ThreadPoolBuilder::new().num_threads(n_threads).build() {
            // One by one, so that jobs end roughly in order.
            Ok(pool) => pool.install(|| jobs.par_iter().with_max_len(1).map(one).collect()),
            // No threads are available.
            Err(_) => jobs.iter().map(one).collect(),
        }
    }

    /// Groups runs by point and policy.
    pub fn series(&self, done: impl IntoIterator<Item = (Job, Run)>) -> Vec<Series> {
        let mut all: Vec<Series> = Vec::new();
        for (point, Point { scenario, .. }) in self.points.iter().enumerate() {
            all.extend(scenario.policies.iter().map(|policy| Series { point, policy, runs: Vec::new() }));
        }
        for (job, run) in done {
            let of_job = |series: &&mut Series| series.point == job.point && series.policy.is(job.policy);
            if let Some(series) = all.iter_mut().find(of_job) {
                series.runs.push((job.repetition, run));
            }
        }
        all
    }
}
