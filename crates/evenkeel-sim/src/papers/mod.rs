//! The papers' experiments, claim by claim: what the paper says, what we measure, and whether the claim holds.
//!
//! A paper is a list of [`Experiment`]s. Each runs in the [`Lab`] and returns claims with their verdicts, and figures
//! that include the paper's own numbers. A verdict is computed from the measurement by the rule that stands next to the
//! claim. Where the paper leaves a parameter open, we choose it, list it, and vary it if a verdict might depend on it.

mod judging;
pub mod paper_000;
pub mod paper_001;
pub mod paper_002;
pub mod paper_003;
pub mod paper_004;

use std::fmt;

use evenkeel::policy::{self, Policy};
use rayon::prelude::*;

use crate::case::Case;
use crate::chance::sub_seed;
use crate::hardware::Hardware;
use crate::outcome::Estimate;

/// All papers, in order of number.
pub static PAPERS: &[&Paper] =
    &[&paper_000::PAPER, &paper_001::PAPER, &paper_002::PAPER, &paper_003::PAPER, &paper_004::PAPER];

/// A paper, and how to reproduce it.
#[derive(Clone, Copy, Debug)]
pub struct Paper {
    /// Its number in this project: `000`.
    pub number: &'static str,
    /// Authors and title.
    pub title: &'static str,
    /// What it does, and our assessment, in a few sentences.
    pub about: &'static str,
    /// Its experiments.
    pub experiments: &'static [Experiment],
    /// The parameters that its text gives, and those that we chose.
    pub parameters: &'static [Parameter],
}

/// A part of a paper that is reproduced in one go.
#[derive(Clone, Copy, Debug)]
pub struct Experiment {
    /// What it is about.
    pub name: &'static str,
    /// Runs it.
    pub run: fn(&Lab) -> Section,
}

/// A parameter of an experiment.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// Its name.
    pub name: &'static str,
    /// The value used here.
    pub value: &'static str,
    /// Where the value comes from.
    pub source: Source,
}

/// Where a parameter comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The paper states it, in this section.
    Paper(&'static str),
    /// The paper does not state it. We chose it, for this reason.
    Chosen(&'static str),
}

/// The results of an experiment.
#[derive(Clone, Debug, Default)]
pub struct Section {
    /// The claims.
    pub claims: Vec<Claim>,
    /// The figures.
    pub figures: Vec<Figure>,
}

/// A claim of a paper, and our verdict.
#[derive(Clone, Debug)]
pub struct Claim {
    /// Paper and number: `000-4a`.
    pub id: &'static str,
    /// Where the paper says it.
    pub section: &'static str,
    /// What it says, in our words.
    pub says: &'static str,
    /// The rule by which it counts as true.
    pub rule: &'static str,
    /// What was measured.
    pub measured: String,
    /// Whether the claim holds.
    pub verdict: Verdict,
    /// Why, or under which conditions.
    pub why: &'static str,
    /// The figure that shows it, if there is one.
    pub figure: Option<&'static str>,
    /// The same claim with other values of parameters that the paper does not give.
    pub variations: Vec<Variation>,
}

/// A claim under another choice of a parameter that the paper does not give.
#[derive(Clone, Debug)]
pub struct Variation {
    /// What is different.
    pub what: String,
    /// What was measured under this choice.
    pub measured: String,
    /// Whether the claim holds under this choice.
    pub verdict: Verdict,
}

/// The verdict on a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verdict {
    /// The claim holds.
    Holds,
    /// The claim holds under conditions that the paper does not state.
    Conditional,
    /// The claim does not hold.
    Fails,
}

impl Verdict {
    /// The verdict if all of a claim holds, if only some of it does, or if none does.
    pub fn of(all: bool, some: bool) -> Self {
        match (all, some) {
            (true, _) => Self::Holds,
            (false, true) => Self::Conditional,
            (false, false) => Self::Fails,
        }
    }

    /// Holds or fails, with nothing in between.
    pub fn plain(holds: bool) -> Self {
        Self::of(holds, holds)
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Holds => "holds",
            Self::Conditional => "holds with conditions",
            Self::Fails => "does not hold",
        })
    }
}

/// A plot, and the table behind it.
#[derive(Clone, Debug)]
pub struct Figure {
    /// Paper and number: `000-fig4a`.
    pub id: &'static str,
    /// What it shows.
    pub title: String,
    /// Label of the horizontal axis.
    pub x: &'static str,
    /// Label of the vertical axis.
    pub y: &'static str,
    /// Whether the horizontal axis is logarithmic.
    pub is_log_x: bool,
    /// The lines.
    pub lines: Vec<Line>,
    /// Numbers that the paper states.
    pub stated: Vec<Stated>,
}

/// A line of a figure.
#[derive(Clone, Debug)]
pub struct Line {
    /// Its label.
    pub name: String,
    /// The points, from left to right.
    pub points: Vec<(f64, Estimate)>,
}

/// A number that the paper states: at one point, or along the whole figure.
#[derive(Clone, Debug)]
pub struct Stated {
    /// What the paper calls it.
    pub label: String,
    /// Position on the horizontal axis; none if it applies everywhere.
    pub x: Option<f64>,
    /// The number.
    pub y: f64,
}

/// The environment in which experiments run: the seed, the number of runs, and the policies.
pub struct Lab<'a> {
    /// Seed of all random draws.
    pub seed: u64,
    /// Whether a rough answer is enough, in a minute for all papers.
    pub is_quick: bool,
    replaced: Vec<&'a Policy>,
}

impl fmt::Debug for Lab<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lab")
            .field("seed", &self.seed)
            .field("is_quick", &self.is_quick)
            .finish_non_exhaustive()
    }
}

impl<'a> Lab<'a> {
    /// Creates a lab with the policies as they are.
    pub fn new(seed: u64, is_quick: bool) -> Self {
        Self { seed, is_quick, replaced: Vec::new() }
    }

    /// Replaces the policy of the same name, to try another one in its place.
    #[must_use]
    pub fn with(mut self, policy: &'a Policy) -> Self {
        self.replaced.push(policy);
        self
    }

    /// Finds a policy by name.
    ///
    /// # Panics
    /// If there is no policy of that name. Experiments only name existing ones.
    pub fn policy(&self, name: &str) -> &Policy {
        let replaced = self.replaced.iter().find(|policy| policy.is_called(name)).copied();
        replaced.or_else(|| policy::find(name)).unwrap_or_else(|| panic!("there is no policy `{name}`"))
    }

    /// A run under the policy of this name.
    pub fn case<'b>(&'b self, hardware: &'b Hardware, name: &str, seed: u64) -> Case<'b> {
        Case::new(hardware, self.policy(name), seed)
    }

    /// The number of runs, `full` in a full lab and fewer in a quick one.
    pub fn n_runs(&self, full: u32) -> u32 {
        if self.is_quick { (full / 10).clamp(3, 10).min(full) } else { full }
    }

    /// Runs something several times, each with its own seed, on all cores. The results do not depend on the number of
    /// cores.
    pub fn repeat<T: Send>(&self, n_runs: u32, run: impl Fn(u64) -> T + Send + Sync) -> Vec<T> {
        let seeds = (0..u64::from(n_runs)).map(|i| sub_seed(self.seed, i));
        seeds.collect::<Vec<u64>>().into_par_iter().map(run).collect()
    }
}
