//! Changes are carried out a few at a time, with a look before and after: whatever else is seen to change stops them.

use std::collections::{HashMap, HashSet};

use super::{Change, Engine, EngineError, Look, Record};

/// Makes changes in steps of a few. Each step is in the record before it is made. Calls `told` after each step with the
/// number of changes made so far.
///
/// Stops with an error if anything else than these changes is seen. What was done until then stays done; a new plan
/// begins from there.
pub async fn carry_out(
    engine: &mut dyn Engine,
    planned: &Look,
    changes: &[Change],
    record: &mut Record,
    step: usize,
    mut told: impl FnMut(usize),
) -> Result<Look, EngineError> {
    engine.recorded(&record.groups().map(str::to_owned).collect());
    let mut look = engine.look().await?;
    let mut expected = planned.clone();
    let mut n_done = 0;
    for step in changes.chunks(step.max(1)) {
        let rest = &changes[n_done..];
        if let Some(reason) = look.refusals.first().cloned().or_else(|| difference(&expected, &look, rest)) {
            return Err(stopped(&reason, n_done, changes.len()));
        }
        record.add(step)?;
        engine.apply(&look, step).await.map_err(|error| stopped(&error.0, n_done, changes.len()))?;
        n_done += step.len();
        expected = look;
        for change in step {
            expected.make(change);
        }
        look = engine.look().await?;
        told(n_done);
    }
    match difference(&expected, &look, &[]) {
        Some(reason) => Err(stopped(&reason, n_done, changes.len())),
        None => Ok(look),
    }
}

fn stopped(reason: &str, n_done: usize, n_changes: usize) -> EngineError {
    EngineError(format!(
        "stopped after {n_done} of {n_changes} changes: {reason}. What was done is in the undo file; run the command \
         again to go on from what there is now"
    ))
}

/// What is not as expected. Who may lead matters only for groups that are still to change.
fn difference(expected: &Look, actual: &Look, to_change: &[Change]) -> Option<String> {
    if expected.store != actual.store {
        return Some(format!("this is another store, {}", actual.store));
    }
    let was_barred: HashMap<&str, bool> =
        expected.servers.iter().map(|server| (&*server.name, server.barred.is_some())).collect();
    if expected.servers.len() != actual.servers.len() {
        return Some(format!("there are {} servers, not {}", actual.servers.len(), expected.servers.len()));
    }
    for server in &actual.servers {
        match (was_barred.get(&*server.name), &server.barred) {
            (None, _) => return Some(format!("{} is new", server.name)),
            (Some(false), Some(reason)) => {
                return Some(format!("{} must not lead now: {reason}", server.name));
            }
            (Some(true), None) => return Some(format!("{} may lead again", server.name)),
            _ => {}
        }
    }
    let groups: HashMap<&str, usize> =
        actual.groups.iter().enumerate().map(|(i, group)| (&*group.name, i)).collect();
    if let Some(new) = actual.groups.len().checked_sub(expected.groups.len()).filter(|&n| n > 0) {
        return Some(format!("{new} groups are new"));
    }
    let to_change: HashSet<&str> = to_change.iter().map(|change| &*change.group).collect();
    for group in &expected.groups {
        let Some(found) = groups.get(&*group.name).map(|&i| &actual.groups[i]) else {
            return Some(format!("group {} is gone", group.name));
        };
        let members = |look: &Look, members: &[u32]| {
            let mut names: Vec<String> = members.iter().map(|&server| look.name(server).to_owned()).collect();
            names.sort_unstable();
            names.join(", ")
        };
        let (was, is) = (members(expected, &group.members), members(actual, &found.members));
        if was != is {
            return Some(format!("group {} is on {is}, not on {was}", group.name));
        }
        let leader =
            |look: &Look, leader: Option<u32>| leader.map_or("nobody", |leader| look.name(leader)).to_owned();
        let (was, is) = (leader(expected, group.leader), leader(actual, found.leader));
        if was != is {
            return Some(format!("group {} is led by {is}, not by {was}", group.name));
        }
        if to_change.contains(&*group.name) && found.eligible.is_empty() {
            return Some(format!("group {} must be left alone now", group.name));
        }
    }
    None
}
