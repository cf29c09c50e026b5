//! What several tests need.

use evenkeel::policy::{self, Policy};

pub(crate) use crate::queueing::hardware;

/// The policy of that name.
pub(crate) fn policy(name: &str) -> &'static Policy {
    policy::find(name).expect("a known policy")
}
