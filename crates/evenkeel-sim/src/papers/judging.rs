//! From data to verdicts: code that all experiments share.

use super::{Claim, Variation, Verdict};
use crate::outcome::Estimate;

/// A claim of a paper, and how it is judged.
#[derive(Clone, Copy, Debug)]
pub(super) struct Statement {
    pub(super) id: &'static str,
    pub(super) section: &'static str,
    pub(super) says: &'static str,
    pub(super) rule: &'static str,
    pub(super) why: &'static str,
    pub(super) figure: Option<&'static str>,
}

/// A verdict and its evidence.
#[derive(Clone, Debug)]
pub(super) struct Finding {
    pub(super) verdict: Verdict,
    pub(super) measured: String,
}

impl Finding {
    pub(super) fn new(verdict: Verdict, measured: impl Into<String>) -> Self {
        Self { verdict, measured: measured.into() }
    }
}

impl Statement {
    /// Judges data by one rule: first the data of the chosen parameters, then those of each variation.
    pub(super) fn judged<N: Into<String> + Clone, D>(
        self,
        data: &[(N, D)],
        judge: impl Fn(&D) -> Finding,
    ) -> Claim {
        let mut findings = data.iter().map(|(name, data)| (name.clone().into(), judge(data)));
        let none = || (String::new(), Finding::new(Verdict::Fails, "nothing"));
        let (_, Finding { verdict, measured }) = findings.next().unwrap_or_else(none);
        let variation = |(what, Finding { verdict, measured })| Variation { what, measured, verdict };
        let variations = findings.map(variation).collect();
        let Self { id, section, says, rule, why, figure } = self;
        Claim { id, section, says, rule, measured, verdict, why, figure, variations }
    }
}

/// The mean of some runs; NaN if there are none.
pub(super) fn estimate(runs: impl IntoIterator<Item = f64>) -> Estimate {
    let runs: Vec<f64> = runs.into_iter().collect();
    Estimate::of(&runs).unwrap_or(Estimate { mean: f64::NAN, margin: None })
}

/// The confidence interval of an estimate.
pub(super) trait Interval {
    /// The lower end.
    fn low(&self) -> f64;
    /// The upper end.
    fn high(&self) -> f64;
    /// Formats as `0.65 ± 0.01`, with `digits` digits.
    fn tell(&self, digits: usize) -> String;

    /// Whether the whole interval is below `other`.
    fn is_below(&self, other: f64) -> bool {
        self.high() < other
    }
}

impl Interval for Estimate {
    fn low(&self) -> f64 {
        self.mean - self.margin.unwrap_or(0.0)
    }

    fn high(&self) -> f64 {
        self.mean + self.margin.unwrap_or(0.0)
    }

    fn tell(&self, digits: usize) -> String {
        match self.margin {
            Some(margin) => format!("{:.digits$} ± {margin:.digits$}", self.mean),
            None => format!("{:.digits$}", self.mean),
        }
    }
}

/// A mean and its margin, as text.
pub(super) fn shown(estimate: Estimate) -> String {
    let margin = estimate.margin.map_or(String::new(), |margin| format!(" ± {margin:.3}"));
    format!("{:.3}{margin}", estimate.mean)
}

/// A share in percent, as text.
pub(super) fn percent(share: f64) -> String {
    percents(Estimate { mean: share, margin: None })
}

/// The mean of a share and its margin in percent, as text.
pub(super) fn percents(share: Estimate) -> String {
    // A value that rounds to zero has no sign.
    let tenths = |share: f64| (1000.0 * share).round() / 10.0 + 0.0;
    let margin = share.margin.map_or(String::new(), |margin| format!(" ± {:.1}", tenths(margin)));
    format!("{:.1}{margin} %", tenths(share.mean))
}

/// The lowest and the highest of some means, as text.
pub(super) fn range(estimates: impl IntoIterator<Item = Estimate>) -> String {
    let mut sorted: Vec<Estimate> = estimates.into_iter().collect();
    sorted.sort_by(|a, b| a.mean.total_cmp(&b.mean));
    match (sorted.first(), sorted.last()) {
        (Some(&lowest), Some(&highest)) => format!("{} to {}", shown(lowest), shown(highest)),
        _ => "nothing".to_owned(),
    }
}

/// Counts how many of the tests are true.
pub(super) fn count(tests: impl IntoIterator<Item = bool>) -> Count {
    tests.into_iter().fold(Count { n: 0, of: 0 }, |count, is_so| Count {
        n: count.n + usize::from(is_so),
        of: count.of + 1,
    })
}

/// How many tests out of how many are true.
#[derive(Clone, Copy, Debug)]
pub(super) struct Count {
    pub(super) n: usize,
    pub(super) of: usize,
}

impl Count {
    /// Whether all tests are true.
    pub(super) fn is_all(self) -> bool {
        self.n == self.of
    }

    /// Holds if all tests are true, with conditions if most are.
    pub(super) fn verdict(self) -> Verdict {
        Verdict::of(self.is_all(), 2 * self.n > self.of)
    }
}

impl std::fmt::Display for Count {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of {}", self.n, self.of)
    }
}
