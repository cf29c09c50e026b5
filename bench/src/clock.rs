//! Measured runs: CPU time on one core, contestants in turn, the minimum and the noise above it.

use std::hint::black_box;

use anyhow::Result;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};

/// Short runs are repeated until they take this long together, at most `MOST_REPEATS` times the repeats asked for.
const ENOUGH_S: f64 = 0.5;
const MOST_REPEATS: usize = 20;

/// Keeps this process, and those it starts, on one core. Returns the number of the core if that was allowed.
pub(crate) fn pin() -> Option<usize> {
    let allowed = sched_getaffinity(None).ok()?;
    // The last core: the first ones serve most interrupts.
    let core = (0..CpuSet::MAX_CPU).rev().find(|&core| allowed.is_set(core))?;
    let mut one = CpuSet::new();
    one.set(core);
    sched_setaffinity(None, &one).ok()?;
    Some(core)
}

/// The CPU seconds that `run` takes, not counting the drop of its result.
pub(crate) fn cpu_s<T>(run: impl FnOnce() -> T) -> f64 {
    let start = process_cpu_s();
    let result = black_box(run());
    let seconds = process_cpu_s() - start;
    drop(result);
    seconds
}

fn process_cpu_s() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// The seconds of the runs of one contestant, ascending.
#[derive(Clone, Debug)]
pub(crate) struct Samples(Vec<f64>);

impl Samples {
    /// Not a number if there was no run.
    pub(crate) fn min_s(&self) -> f64 {
        self.0.first().copied().unwrap_or(f64::NAN)
    }

    /// How much longer than the minimum the median run took, as a share of the minimum.
    pub(crate) fn noise(&self) -> f64 {
        (self.0.get(self.0.len() / 2).unwrap_or(&f64::NAN) - self.min_s()) / self.min_s()
    }

    pub(crate) fn n_runs(&self) -> usize {
        self.0.len()
    }

    /// How many times longer than `ours` this took.
    pub(crate) fn ratio_to(&self, ours: &Samples) -> f64 {
        self.min_s() / ours.min_s()
    }
}

/// A contestant of the race: `run` does its work once and returns the seconds it took.
pub(crate) struct Contestant<'a> {
    run: Box<dyn FnMut() -> Result<f64> + 'a>,
    most_runs: usize,
}

impl<'a> Contestant<'a> {
    pub(crate) fn new(run: impl FnMut() -> Result<f64> + 'a) -> Self {
        Self { run: Box::new(run), most_runs: usize::MAX }
    }

    /// Limits the runs of a slow contestant.
    pub(crate) fn at_most(self, most_runs: usize) -> Self {
        Self { most_runs, ..self }
    }
}

/// Runs each contestant once in turn, again and again, at least `repeat` times.
pub(crate) fn in_turn<const N: usize>(
    repeat: usize,
    mut contestants: [Contestant<'_>; N],
) -> Result<[Samples; N]> {
    let mut samples = [const { Samples(Vec::new()) }; N];
    let mut total_s = 0.0;
    for round in 0..MOST_REPEATS * repeat.max(1) {
        if round >= repeat.max(1) && total_s >= ENOUGH_S {
            break;
        }
        for (contestant, samples) in contestants.iter_mut().zip(&mut samples) {
            if round < contestant.most_runs {
                let seconds = (contestant.run)()?;
                samples.0.push(seconds);
                total_s += seconds;
            }
        }
    }
    for samples in &mut samples {
        samples.0.sort_unstable_by(f64::total_cmp);
    }
    Ok(samples)
}
