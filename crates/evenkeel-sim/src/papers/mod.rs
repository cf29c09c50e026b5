//! The papers' experiments, claim by claim: what the paper says, what is measured here, and whether that is so.
//!
//! A paper is a list of [`Experiment`]s. Each runs in the [`Lab`] and gives claims with their verdicts, and figures with
//! the paper's own numbers drawn in. A verdict is computed from the measurement by the rule that stands next to the claim.
//! What the paper does not say had to be chosen: that is listed, and varied where a verdict might depend on it.

mod judging;
pub mod paper_000;
pub mod paper_001;
pub mod paper_002;
pub mod paper_003;
pub mod paper_004;

use std::fmt;

use evenkeel::policy::{self, Policy};
use rayon::prelude::*;

use crate::chance::sub_seed;
use crate::outcome::Estimate;

/// All papers, in order of their numbers.
pub static PAPERS: &[&Paper] =
    &[&paper_000::PAPER, &paper_001::PAPER, &paper_002::PAPER, &paper_003::PAPER, &paper_004::PAPER];

/// A paper, and how to repeat what it did.
#[derive(Clone, Copy, Debug)]
pub struct Paper {
    /// Its number in this project: `000`.
    pub number: &'static str,
    /// Authors and title.
    pub title: &'static str,
    /// What it does, and what to make of it, in a few sentences.
    pub about: &'static str,
    /// What it measured.
    pub experiments: &'static [Experiment],
    /// What its text gives, and what had to be chosen.
    pub parameters: &'static [Parameter],
}

/// A part of a paper that is repeated in one go.
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
    /// What it is.
    pub name: &'static str,
    /// Which value it has here.
    pub value: &'static str,
    /// Where that is from.
    pub source: Source,
}

/// Where a parameter is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The paper says it, in this section.
    Paper(&'static str),
    /// The paper does not say it; it was chosen for this reason.
    Chosen(&'static str),
}

/// What an experiment found.
#[derive(Clone, Debug, Default)]
pub struct Section {
    /// Claim by claim.
    pub claims: Vec<Claim>,
    /// What was measured.
    pub figures: Vec<Figure>,
}

/// Something that a paper says, and what became of it.
#[derive(Clone, Debug)]
pub struct Claim {
    /// Paper and number: `000-4a`.
    pub id: &'static str,
    /// Where the paper says it.
    pub section: &'static str,
    /// What it says, in our words.
    pub says: &'static str,
    /// When it counts as true.
    pub rule: &'static str,
    /// What was measured.
    pub measured: String,
    /// Whether it is so.
    pub verdict: Verdict,
    /// Why, or under which conditions.
    pub why: &'static str,
    /// The figure that shows it, if there is one.
    pub figure: Option<&'static str>,
    /// The same with parameters that the paper does not give.
    pub variations: Vec<Variation>,
}

/// A claim under another choice of what the paper does not say.
#[derive(Clone, Debug)]
pub struct Variation {
    /// What is different.
    pub what: String,
    /// What was measured then.
    pub measured: String,
    /// Whether the claim is so then.
    pub verdict: Verdict,
}

/// What became of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verdict {
    /// It is so.
    Holds,
    /// It is so under conditions that the paper does not state.
    Conditional,
    /// It is not so.
    Fails,
}

impl Verdict {
    /// Whether all of it is so, or at least some.
    pub fn of(all: bool, some: bool) -> Self {
        match (all, some) {
            (true, _) => Self::Holds,
            (false, true) => Self::Conditional,
            (false, false) => Self::Fails,
        }
    }

    /// Holds or not; there is nothing in between.
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
    /// What runs along the bottom.
    pub x: &'static str,
    /// What runs up the side.
    pub y: &'static str,
    /// Whether the bottom is divided by factors rather than steps.
    pub is_log_x: bool,
    /// The lines.
    pub lines: Vec<Line>,
    /// Numbers that the paper states.
    pub stated: Vec<Stated>,
}

/// A line of a figure.
#[derive(Clone, Debug)]
pub struct Line {
    /// Whose it is.
    pub name: String,
    /// From left to right.
    pub points: Vec<(f64, Estimate)>,
}

/// A number that the paper states: at one place, or along the whole figure.
#[derive(Clone, Debug)]
pub struct Stated {
    /// What the paper calls it.
    pub label: String,
    /// Where; none if everywhere.
    pub x: Option<f64>,
    /// The number.
    pub y: f64,
}

/// Where experiments run: how often, with which lots, and with which policies.
pub struct Lab<'a> {
    /// Whatever is drawn depends on it.
    pub seed: u64,
    /// Whether a rough answer will do, in a minute for all papers.
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
    /// A lab with the policies as they are.
    pub fn new(seed: u64, is_quick: bool) -> Self {
        Self { seed, is_quick, replaced: Vec::new() }
    }

    /// What if this policy, known by its name, were another one?
    #[must_use]
    pub fn with(mut self, policy: &'a Policy) -> Self {
        self.replaced.push(policy);
        self
    }

    /// A policy by its name.
    ///
    /// # Panics
    /// If there is none of that name; experiments name those there are.
    pub fn policy(&self, name: &str) -> &Policy {
        let replaced = self.replaced.iter().find(|policy| policy.is_called(name)).copied();
        replaced.or_else(|| policy::find(name)).unwrap_or_else(|| panic!("there is no policy `{name}`"))
    }

    /// So many runs of a full lab; fewer if a rough answer will do.
    pub fn n_runs(&self, full: u32) -> u32 {
        if self.is_quick { (full / 10).clamp(3, 10).min(full) } else { full }
    }

    /// Runs something several times, each with its own seed, on all cores; what comes out does not depend on their number.
    pub fn repeat<T: Send>(&self, n_runs: u32, run: impl Fn(u64) -> T + Send + Sync) -> Vec<T> {
        let seeds = (0..u64::from(n_runs)).map(|i| sub_seed(self.seed, i));
        seeds.collect::<Vec<u64>>().into_par_iter().map(run).collect()
    }
}
