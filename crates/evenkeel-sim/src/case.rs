//! What every run begins with, whatever its work.

use evenkeel::policy::{Kind, POLICIES, Policy};
use evenkeel::queue::Queue;

use crate::fabric::Fabric;
use crate::hardware::Hardware;
use crate::refused::Refused;

/// The cluster, the policy and the seed of a run.
#[derive(Clone, Copy, Debug)]
pub struct Case<'a> {
    /// The cluster.
    pub hardware: &'a Hardware,
    /// The policy.
    pub policy: &'a Policy,
    /// Seed of all random draws. With the same seed, all policies meet the same work.
    pub seed: u64,
    /// Whether the outcome has a timeline.
    pub keep_timeline: bool,
}

impl<'a> Case<'a> {
    /// A run whose outcome has no timeline.
    pub fn new(hardware: &'a Hardware, policy: &'a Policy, seed: u64) -> Self {
        Self { hardware, policy, seed, keep_timeline: false }
    }

    /// The cluster when nothing has happened yet. `queue` is as in [`Fabric::new`].
    pub(crate) fn fabric(&self, queue: Option<&dyn Fn() -> Box<dyn Queue>>) -> Fabric<'a> {
        let mut fabric = Fabric::new(self.hardware, queue);
        if self.keep_timeline {
            fabric.keep_timeline();
        }
        fabric
    }

    /// What the policy does, if it is of the kind that `of` accepts. Otherwise it does not answer the question.
    pub(crate) fn answer<T>(&self, question: &'static str, of: fn(&Kind) -> Option<T>) -> Result<T, Refused> {
        of(&self.policy.kind).ok_or_else(|| {
            let fitting = POLICIES.iter().filter(|policy| of(&policy.kind).is_some());
            let fitting: Vec<&str> = fitting.map(|policy| policy.name).collect();
            Refused::OtherQuestion { policy: self.policy.name, question, fitting: fitting.join(", ") }
        })
    }
}
