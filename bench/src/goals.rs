//! The goals of Evenkeel, as ratios within one run.

use std::fmt;

use serde_json::{Value, json};

use crate::report::short;

/// A goal. Several rows may be measured for it; the worst one decides.
///
/// Limits leave room for machines with other caches: ratios differed by a third between two machines of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Goal {
    OneSolve,
    Search,
    FloorEven,
    FloorSkewed,
    Schedule,
    Sizes,
    Growth,
    Memory,
    Reading,
    Unequal,
    UnequalSchedule,
    UnequalOrder,
    UnequalMemory,
    Explain,
    Policies,
    Lead,
    LeadSeconds,
    Rounds,
    PolicyGrowth,
    Assign,
    Place,
    Execute,
    ExecuteSlow,
    SoakTime,
    SoakMemory,
    SimPy,
    SimulatedEvents,
    FlowChanges,
    SimulatedMemory,
}

#[derive(Clone, Copy, Debug)]
enum Limit {
    AtLeast(f64),
    AtMost(f64),
}

use Limit::{AtLeast, AtMost};

const GOALS: [(Goal, &str, Limit); 29] = [
    (Goal::OneSolve, "selection with proof, times faster than one OR-tools max-flow", AtLeast(25.0)),
    (Goal::Search, "selection with proof at 1M, times faster than OR-tools' search", AtLeast(300.0)),
    (
        Goal::FloorEven,
        "selection at 1M where copies are spread evenly, times counting every replica",
        AtMost(3.0),
    ),
    (Goal::FloorSkewed, "selection at 1M where they are not, times counting every replica", AtMost(6.0)),
    (Goal::Schedule, "select and order, times faster than one OR-tools max-flow", AtLeast(2.0)),
    (Goal::Sizes, "sizes × 10⁹, times as long", AtMost(1.2)),
    (Goal::Growth, "`plan` of ten times the requests, times as long", AtMost(13.0)),
    (Goal::Memory, "peak memory of `plan` beyond the plan, bytes a request", AtMost(120.0)),
    (Goal::Reading, "reading CSV, times faster than pandas", AtLeast(1.0)),
    (Goal::Unequal, "selection with speeds and backlogs, times the equal case", AtMost(4.0)),
    (Goal::UnequalSchedule, "select and order with speeds and backlogs, times the equal case", AtMost(4.0)),
    (Goal::UnequalOrder, "ordering with speeds, slots and backlogs, times the equal case", AtMost(5.0)),
    (
        Goal::UnequalMemory,
        "peak memory of `plan` with unequal servers beyond the plan, bytes a request",
        AtMost(160.0),
    ),
    (Goal::Explain, "`explain`, times `plan --no-order`", AtMost(20.0)),
    (Goal::Policies, "other selections, times `optimal`", AtMost(40.0)),
    (
        Goal::Lead,
        "the optimum with the fewest changes, times faster than OR-tools' min-cost flow",
        AtLeast(10.0),
    ),
    (Goal::LeadSeconds, "the same, seconds at 100,000 groups on 5,000 servers", AtMost(2.0)),
    (Goal::Rounds, "orders and policies that proceed in rounds, seconds", AtMost(30.0)),
    (Goal::PolicyGrowth, "any policy on twice the requests, times as long", AtMost(3.0)),
    (Goal::Assign, "`opass-single`, times faster than OR-tools max-flow", AtLeast(20.0)),
    (Goal::Place, "`evenkeel place`, times copying the CSV", AtMost(10.0)),
    (Goal::Execute, "the executor, times a plain heap of as many events", AtMost(15.0)),
    (
        Goal::ExecuteSlow,
        "the same where one server in a hundred is slow, without planning anew",
        AtMost(15.0),
    ),
    (
        Goal::SoakTime,
        "the executor after very many requests, time of an event, times that at first",
        AtMost(1.3),
    ),
    (
        Goal::SoakMemory,
        "the executor after very many requests, memory, times that after a tenth",
        AtMost(1.05),
    ),
    (Goal::SimPy, "the simulator, times faster than SimPy", AtLeast(50.0)),
    (Goal::SimulatedEvents, "the simulator, million events a second", AtLeast(5.0)),
    (Goal::FlowChanges, "the simulator, flow changes a second at 1,000 hosts", AtLeast(50_000.0)),
    (Goal::SimulatedMemory, "the simulator at 10M requests, peak GiB", AtMost(8.0)),
];

/// The state of a goal.
#[derive(Debug)]
pub(crate) struct Verdict<'a> {
    what: &'static str,
    limit: Limit,
    /// The row that decides, and its figure.
    worst: Option<(&'a str, f64)>,
}

/// The state of each goal, given the measurements.
pub(crate) fn verdicts(measured: &[(Goal, String, f64)]) -> impl Iterator<Item = Verdict<'_>> {
    GOALS.iter().map(|&(goal, what, limit)| {
        let rows =
            measured.iter().filter(|(g, ..)| *g == goal).map(|(_, row, figure)| (row.as_str(), *figure));
        let by_figure = |a: &(&str, f64), b: &(&str, f64)| a.1.total_cmp(&b.1);
        let worst = match limit {
            AtLeast(_) => rows.min_by(by_figure),
            AtMost(_) => rows.max_by(by_figure),
        };
        Verdict { what, limit, worst }
    })
}

impl Verdict<'_> {
    fn word(&self) -> &'static str {
        match (self.limit, self.worst) {
            (_, None) => "not measured",
            (AtLeast(limit), Some((_, figure))) if figure >= limit => "PASS",
            (AtMost(limit), Some((_, figure))) if figure <= limit => "PASS",
            _ => "FAIL",
        }
    }

    pub(crate) fn json(&self) -> Value {
        json!({
            "goal": self.what,
            "verdict": self.word(),
            "row": self.worst.map(|(row, _)| row),
            "figure": self.worst.map(|(_, figure)| figure),
        })
    }
}

impl fmt::Display for Verdict<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limit = match self.limit {
            AtLeast(limit) => format!("≥ {limit}"),
            AtMost(limit) => format!("≤ {limit}"),
        };
        write!(f, "{}: {}, {limit}", self.word(), self.what)?;
        match self.worst {
            Some((row, figure)) => write!(f, ": {} ({row})", short(figure)),
            None => Ok(()),
        }
    }
}
