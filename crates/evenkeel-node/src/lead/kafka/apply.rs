//! Makes changes: other orders of the same replicas, then elections.

use std::collections::BTreeSet;

use tokio::time::{Instant, sleep};

use super::live::{Asked, Live, by_topic, partitions};
use super::messages::{AlterPartitionReassignments, ElectLeaders, Refusal};
use super::scripts::{Goal, sorted};
use super::state::{Name, Partition, refusal, some};

/// How long to wait before looking again.
const PAUSE: std::time::Duration = std::time::Duration::from_millis(100);

impl Live {
    /// Makes the changes and waits until they are carried out.
    pub(super) async fn apply(&mut self, goals: &[Goal]) -> Result<(), String> {
        let goals: Vec<&Goal> = goals.iter().collect();
        self.check(&goals).await?;
        self.order(&goals, |goal| &goal.led).await?;
        self.elect(&goals).await?;
        // A leader that is not the first of its replicas.
        let reordered: Vec<&Goal> = goals.into_iter().filter(|goal| goal.led != goal.after).collect();
        self.order(&reordered, |goal| &goal.after).await
    }

    /// Fails unless each partition has the replicas that are expected, and the leader to be is in sync.
    async fn check(&mut self, goals: &[&Goal]) -> Result<(), String> {
        let states = self.states(goals).await?;
        for (goal, state) in goals.iter().zip(&states) {
            let name = &goal.name;
            if sorted(&state.replicas) != sorted(&goal.after) {
                let (found, expected) = (&state.replicas, &goal.after);
                return Err(format!(
                    "{name} has the replicas {found:?} by now, not {expected:?}; look again"
                ));
            }
            let (leader, in_sync) = (goal.leader, &state.in_sync);
            if !in_sync.contains(&leader) {
                return Err(format!(
                    "broker {leader} is not in sync for {name} ({in_sync:?} are); look again"
                ));
            }
        }
        let moving = self.moving(None).await?.map_err(|refusal| {
            let why = "cannot tell whether a reassignment runs";
            format!("{why}: {}; Describe on the cluster is needed", refusal.text())
        })?;
        if moving.is_empty() { Ok(()) } else { Err(refusal(&moving.iter().collect::<Vec<_>>())) }
    }

    /// What is known of the partitions of these goals now.
    async fn states(&mut self, goals: &[&Goal]) -> Result<Vec<Partition>, String> {
        let topics: BTreeSet<&String> = goals.iter().map(|goal| &goal.name.topic).collect();
        let topics: Vec<String> = topics.into_iter().cloned().collect();
        let mut found = partitions(self.metadata(Some(&topics)).await?)?;
        let state = |goal: &&Goal| found.remove(&goal.name).ok_or_else(|| format!("{} is gone", goal.name));
        goals.iter().map(state).collect()
    }

    /// Gives partitions their replicas in another order, and waits until they have it.
    async fn order(&mut self, goals: &[&Goal], order: impl Fn(&Goal) -> &Vec<i32>) -> Result<(), String> {
        let deadline = Instant::now() + self.patience;
        let mut is_first = true;
        let others = loop {
            // Before each attempt, as late as possible: no request changes replicas only if they are as expected.
            let others = self.in_another_order(goals, &order).await?;
            if others.is_empty() {
                return Ok(());
            }
            let ours: BTreeSet<&Name> = goals.iter().map(|goal| &goal.name).collect();
            let moving = self.moving(None).await?.map_err(|refusal| refusal.text())?;
            // An attempt that was not answered may be on its way.
            let foreign: Vec<&Name> = moving.iter().filter(|name| is_first || !ours.contains(name)).collect();
            if !foreign.is_empty() {
                return Err(refusal(&foreign));
            }
            let topics = others.iter().map(|goal| (&goal.name, (goal.name.partition, order(goal).clone())));
            let request =
                AlterPartitionReassignments { timeout_ms: self.timeout_ms(), topics: by_topic(topics) };
            if let Asked::Answered(refused) = self.ask_controller_once(&request, deadline).await? {
                refused_or(refused, "the order of replicas cannot be changed", |_| false)?;
                break others;
            }
            is_first = false;
        };
        self.wait(&others, "another order of replicas", |goal, state| state.replicas == *order(goal)).await?;
        self.wait_until_still(&others).await
    }

    /// Those whose replicas are not in this order yet. Fails if one has other replicas.
    async fn in_another_order<'a>(
        &mut self,
        goals: &[&'a Goal],
        order: impl Fn(&Goal) -> &Vec<i32>,
    ) -> Result<Vec<&'a Goal>, String> {
        let states = self.states(goals).await?;
        let mut others = Vec::new();
        for (goal, state) in goals.iter().zip(&states) {
            if sorted(&state.replicas) != sorted(order(goal)) {
                let replicas = &state.replicas;
                return Err(format!("{} has other replicas by now: {replicas:?}; look again", goal.name));
            }
            if state.replicas != *order(goal) {
                others.push(*goal);
            }
        }
        Ok(others)
    }

    async fn elect(&mut self, goals: &[&Goal]) -> Result<(), String> {
        let topics = by_topic(goals.iter().map(|goal| (&goal.name, goal.name.partition)));
        let request = ElectLeaders { timeout_ms: self.timeout_ms(), topics };
        let refused = self.ask_controller(&request).await?;
        refused_or(refused, "leaders cannot be elected", |refusal| {
            refusal.code == Refusal::ELECTION_NOT_NEEDED
        })?;
        self.wait(goals, "another leader", |goal, state| state.leader == Some(goal.leader)).await
    }

    /// Waits until no reassignment is left for these.
    async fn wait_until_still(&mut self, goals: &[&Goal]) -> Result<(), String> {
        let deadline = Instant::now() + self.patience;
        let names: Vec<&Name> = goals.iter().map(|goal| &goal.name).collect();
        loop {
            let moving = self.moving(Some(&names)).await?.map_err(|refusal| refusal.text())?;
            if moving.is_empty() {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(self.late(&moving.iter().collect::<Vec<_>>(), "still get other replicas"));
            }
            sleep(PAUSE).await;
        }
    }

    /// Waits until all partitions are as they should be.
    async fn wait(
        &mut self,
        goals: &[&Goal],
        what: &str,
        is_reached: impl Fn(&Goal, &Partition) -> bool,
    ) -> Result<(), String> {
        let deadline = Instant::now() + self.patience;
        loop {
            let states = self.states(goals).await?;
            let open = goals.iter().zip(&states).filter(|(goal, state)| !is_reached(goal, state));
            let open: Vec<&Name> = open.map(|(goal, _)| &goal.name).collect();
            if open.is_empty() {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(self.late(&open, &format!("did not get {what}")));
            }
            sleep(PAUSE).await;
        }
    }

    fn late(&self, names: &[&Name], what: &str) -> String {
        some(names, &format!("{what} within {} s", self.patience.as_secs_f64()))
    }

    fn timeout_ms(&self) -> i32 {
        self.answer_timeout.as_millis().try_into().unwrap_or(i32::MAX)
    }
}

/// Fails if anything is refused, but for what is no failure.
fn refused_or(
    refused: Result<Vec<(String, i32, Refusal)>, Refusal>,
    what: &str,
    is_fine: impl Fn(&Refusal) -> bool,
) -> Result<(), String> {
    let refused = refused.map_err(|refusal| {
        let needed = match refusal.code {
            Refusal::NO_RIGHT_TO_CLUSTER => "; Alter on the cluster is needed",
            _ => "",
        };
        format!("{what}: {}{needed}", refusal.text())
    })?;
    let mut refused = refused.into_iter().filter(|(_, _, refusal)| !is_fine(refusal));
    match refused.next() {
        None => Ok(()),
        Some((topic, partition, refusal)) => {
            Err(format!("{what} of {topic}-{partition}: {}", refusal.text()))
        }
    }
}
