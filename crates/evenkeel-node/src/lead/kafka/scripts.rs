//! What Kafka's own tools take.

use serde_json::json;

use super::super::{Change, EngineError, Script};
use super::state::Name;

/// A partition that gets another leader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Goal {
    pub(super) name: Name,
    pub(super) leader: i32,
    /// The replicas with the leader first, which makes it the preferred one.
    pub(super) led: Vec<i32>,
    /// The replicas in the end. In another order if the leader was not the preferred one before, and is to be again.
    pub(super) after: Vec<i32>,
}

/// What changes ask for. An error if one would bring another set of replicas.
pub(super) fn goals(changes: &[Change]) -> Result<Vec<Goal>, EngineError> {
    changes
        .iter()
        .map(|change| goal(change).map_err(|why| EngineError(format!("{}: {why}", change.group))))
        .collect()
}

fn goal(change: &Change) -> Result<Goal, String> {
    let id = |text: &String| text.parse::<i32>().ok().filter(|id| *id >= 0);
    let ids = |list: &[String]| -> Result<Vec<i32>, String> {
        list.iter().map(|text| id(text).ok_or_else(|| format!("`{text}` is no number of a broker"))).collect()
    };
    let name = Name::parse(&change.group).ok_or("this is no partition, as in topic-3")?;
    let (before, after) = (ids(&change.before)?, ids(&change.after)?);
    let leader = id(&change.to).filter(|leader| after.contains(leader));
    let leader = leader.ok_or_else(|| format!("`{}` is none of its replicas", change.to))?;
    if sorted(&before) != sorted(&after) {
        return Err(format!(
            "the change would bring other replicas, {after:?} for {before:?}; it is refused"
        ));
    }
    let mut led = vec![leader];
    led.extend(after.iter().copied().filter(|id| *id != leader));
    Ok(Goal { name, leader, led, after })
}

pub(super) fn sorted(ids: &[i32]) -> Vec<i32> {
    let mut ids = ids.to_vec();
    ids.sort_unstable();
    ids
}

/// For `kafka-reassign-partitions --execute` and then `kafka-leader-election`.
pub(super) fn scripts(goals: &[Goal]) -> Vec<Script> {
    let line = |goal: &Goal| json!({ "topic": goal.name.topic, "partition": goal.name.partition });
    let ordered = |goal: &Goal| {
        let mut line = line(goal);
        line["replicas"] = json!(goal.led);
        line
    };
    let text =
        |head: &str, lines: Vec<String>| format!("{{{head}\"partitions\":[\n{}\n]}}\n", lines.join(",\n"));
    let reassigned = goals.iter().map(|goal| ordered(goal).to_string()).collect();
    let elected = goals.iter().map(|goal| line(goal).to_string()).collect();
    vec![
        Script { kind: "reassignment", text: text("\"version\":1,", reassigned) },
        Script { kind: "election", text: text("", elected) },
    ]
}
