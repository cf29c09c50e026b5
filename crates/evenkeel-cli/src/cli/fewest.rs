//! The arguments of plans that change as little as possible of what there is.

use clap::{Args, ValueEnum};
use evenkeel::bound::Cost;
use evenkeel::lead::{Target, Wish};

/// What is changed of who serves today.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct FewestArgs {
    /// Change as little as possible of who serves today, and split nothing: the best balance with the fewest changes
    #[arg(long, value_enum, value_name = "WHAT", num_args = 0..=1, default_missing_value = "changes")]
    pub fewest: Option<FewestName>,
    /// With the fewest changes: be content with this many times the least that the busiest server can have, such as 1.05
    #[arg(long, value_name = "RATIO", value_parser = ratio, conflicts_with = "changes")]
    pub within: Option<f64>,
    /// With the fewest changes: the best balance with at most so many changes (or bytes, with --fewest bytes)
    #[arg(long, value_name = "N")]
    pub changes: Option<u64>,
}

/// What is to be least.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FewestName {
    /// How many requests another server serves than today
    Changes,
    /// How many bytes they have
    Bytes,
}

impl FewestArgs {
    /// What is wanted; none if nothing of it is asked for. Sizes are in blocks of so many bytes.
    pub(crate) fn wish(&self, block: u64) -> Option<Wish> {
        let Self { fewest, within, changes } = *self;
        let is_asked_for = fewest.is_some() || within.is_some() || changes.is_some();
        let cost = match fewest {
            Some(FewestName::Bytes) => Cost::Blocks,
            _ => Cost::Changes,
        };
        let most = |n: u64| if cost == Cost::Blocks { n / block.max(1) } else { n };
        let target = match (within, changes) {
            (Some(ratio), _) => Target::Within(ratio),
            (None, Some(n)) => Target::Changes(most(n)),
            (None, None) => Target::Optimum,
        };
        is_asked_for.then_some(Wish { target, cost })
    }
}

pub(super) fn ratio(text: &str) -> Result<f64, String> {
    let ratio = text.parse().ok().filter(|ratio: &f64| (1.0..=1e6).contains(ratio));
    ratio.ok_or_else(|| "it is a ratio of at least 1, such as 1.05".to_owned())
}
