//! Measures of runs, by name.

use crate::outcome::Outcome;

/// Unit of a measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Seconds.
    Time,
    /// Bytes.
    Bytes,
    /// A number of things.
    Count,
    /// From 0 to 1.
    Share,
    /// A ratio.
    Times,
}

/// A measure of a run.
#[derive(Clone, Copy, Debug)]
pub struct Measure {
    /// Its name.
    pub name: &'static str,
    /// The unit of its values.
    pub unit: Unit,
    /// What it means, in one line.
    pub summary: &'static str,
    of: fn(&Seen<'_>) -> Option<f64>,
}

/// A run, and the slots of its servers.
struct Seen<'a> {
    outcome: &'a Outcome,
    utilisation: &'a [f64],
}

const fn measure(
    name: &'static str,
    unit: Unit,
    summary: &'static str,
    of: fn(&Seen<'_>) -> Option<f64>,
) -> Measure {
    Measure { name, unit, summary, of }
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

fn response(seen: &Seen<'_>, of_1000: u64) -> Option<f64> {
    (!seen.outcome.responses_ns.is_empty()).then(|| seconds(seen.outcome.response_ns(of_1000)))
}

/// All measures.
pub static MEASURES: [Measure; 20] = [
    measure("makespan", Unit::Time, "when the last was done", |seen| Some(seconds(seen.outcome.makespan_ns))),
    measure("bound", Unit::Time, "no schedule of what was done ends before, if all arrive at once", |seen| {
        seen.outcome.bound_ns.map(seconds)
    }),
    measure("ratio", Unit::Times, "makespan divided by the bound", |seen| seen.outcome.ratio()),
    measure("mean", Unit::Time, "mean response, from arrival to completion", |seen| {
        Some(seen.outcome.mean_response_ns() / 1e9).filter(|mean| mean.is_finite())
    }),
    measure("p50", Unit::Time, "half of all responses take at most this long", |seen| response(seen, 500)),
    measure("p90", Unit::Time, "90 % of all responses take at most this long", |seen| response(seen, 900)),
    measure("p99", Unit::Time, "99 % of all responses take at most this long", |seen| response(seen, 990)),
    measure("p99.9", Unit::Time, "99.9 % of all responses take at most this long", |seen| {
        response(seen, 999)
    }),
    measure(
        "busiest",
        Unit::Share,
        "share of the time that the busiest server's slots were in use",
        |seen| seen.utilisation.iter().copied().reduce(f64::max),
    ),
    measure("utilisation", Unit::Share, "the same, averaged over all servers", |seen| {
        let n = seen.utilisation.len() as f64;
        Some(seen.utilisation.iter().sum::<f64>() / n).filter(|mean| mean.is_finite())
    }),
    measure("local", Unit::Bytes, "bytes that did not leave their host", |seen| {
        Some(seen.outcome.local_bytes as f64)
    }),
    measure("remote", Unit::Bytes, "bytes that went through the network", |seen| {
        Some(seen.outcome.remote_bytes as f64)
    }),
    measure("redirected", Unit::Bytes, "bytes not written to their default server", |seen| {
        Some(seen.outcome.redirected_bytes as f64)
    }),
    measure("hedged", Unit::Bytes, "bytes of hedges: transfers that were started a second time", |seen| {
        Some(seen.outcome.hedged_bytes as f64)
    }),
    measure("messages", Unit::Count, "messages without data", |seen| Some(seen.outcome.n_messages as f64)),
    measure("probes", Unit::Count, "of these, probes of a server's load", |seen| {
        Some(seen.outcome.n_probes as f64)
    }),
    measure("rounds", Unit::Count, "rounds of bidding", |seen| Some(seen.outcome.n_rounds as f64)),
    measure("replans", Unit::Count, "how often unstarted work was planned again", |seen| {
        Some(seen.outcome.n_replans as f64)
    }),
    measure("cancelled", Unit::Count, "requests that were cancelled before they were done", |seen| {
        Some(seen.outcome.n_cancelled as f64)
    }),
    measure("failed", Unit::Count, "how many were not done", |seen| Some(seen.outcome.n_failed as f64)),
];

/// Finds the measure of that name.
pub fn find(name: &str) -> Option<&'static Measure> {
    MEASURES.iter().find(|measure| measure.name == name)
}

/// The quantiles at which a distribution of responses is kept, in ten-thousandths: finer towards the end.
pub fn shares() -> impl Iterator<Item = u32> {
    (1..100).map(|k| k * 100).chain((1..10).map(|k| 9_900 + k * 10)).chain((1..=10).map(|k| 9_990 + k))
}

/// All measures of a run, in their order; `utilisation` is that of each server.
pub(crate) fn all(outcome: &Outcome, utilisation: &[f64]) -> Vec<Option<f64>> {
    let seen = Seen { outcome, utilisation };
    MEASURES.iter().map(|measure| (measure.of)(&seen)).collect()
}
