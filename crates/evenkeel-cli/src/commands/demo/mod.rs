//! `evenkeel demo`: writes and reads around a slow server, on nodes of its own, or a hot spot that is only planned.

mod live;
mod planned;
mod told;

use anyhow::Result;

use super::Outcome;
use crate::cli::DemoArgs;

pub(super) fn run(args: &DemoArgs) -> Result<Outcome> {
    if args.plan_only { planned::run(args) } else { live::run(args) }
}
