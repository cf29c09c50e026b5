//! Who leads: stores in which one server serves each group of data, and an operator may say which of its members.
//!
//! Ceph's placement groups have primaries, Kafka's partitions have leaders. An [`Engine`] looks at such a store and
//! carries out changes; it decides nothing. What to change is planned from the [`Look`], the same way for all engines.

mod apply;
pub mod ceph;
pub mod kafka;
mod plan;
mod record;
mod watch;

use std::collections::HashSet;
use std::fmt::Debug;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::Measurement;

pub use apply::carry_out;
pub use plan::{Planned, batch, plan};
pub use record::{Lock, Record, Undo};
pub use watch::{Seen, Watching, watch};

/// A store that lets an operator choose who leads. Another store is one more file with another engine.
#[async_trait]
pub trait Engine: Debug + Send {
    /// What people call it: `ceph`, `kafka`.
    fn name(&self) -> &'static str;

    /// Who leads what now. It changes nothing.
    async fn look(&mut self) -> Result<Look, EngineError>;

    /// What an operator would run to make these changes, as text to be reviewed, by the names of files if it takes
    /// several.
    fn commands(&self, look: &Look, changes: &[Change]) -> Result<Vec<Script>, EngineError>;

    /// Is told which groups were changed by us before. What an operator set for others may be replaced, never removed.
    fn recorded(&mut self, _groups: &HashSet<String>) {}

    /// Makes a few changes and returns when the store has carried them out, or fails when it has not in good time. The
    /// caller looks before and after, and stops if anything else has changed.
    async fn apply(&mut self, look: &Look, changes: &[Change]) -> Result<(), EngineError>;

    /// How fast servers send what they lead, by a few reads that are thrown away: one measurement for each of
    /// [`Look::servers`].
    async fn measure(&mut self, _look: &Look) -> Result<Vec<Measurement>, EngineError> {
        Err(EngineError(format!("{} cannot be measured; give speeds by --servers", self.name())))
    }

    /// The same with as few reads as tell a slow server from others: it is done again and again, while others read.
    async fn measure_briefly(&mut self, look: &Look) -> Result<Vec<Measurement>, EngineError> {
        self.measure(look).await
    }
}

/// Why an engine could not do something: what was tried, what came of it, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct EngineError(pub String);

/// Who leads what at one time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Look {
    /// What tells this store from others of its kind, such as its id. An undo file is for one store.
    pub store: String,
    /// The servers, in the order of their ids.
    pub servers: Vec<Member>,
    /// The groups, in the order of their names.
    pub groups: Vec<Group>,
    /// What is left alone, and why, in words: "pool ec: 32 groups are erasure-coded".
    pub left_alone: Vec<String>,
    /// Why nothing may be changed now, and what it would take; empty if changes may be applied.
    pub refusals: Vec<String>,
    /// What people should know besides.
    pub remarks: Vec<String>,
}

impl Look {
    /// The name of a server.
    pub fn name(&self, server: u32) -> &str {
        self.servers.get(server as usize).map_or("?", |server| &server.name)
    }

    /// From now on this server must not lead, for a reason, unless nobody else can.
    pub fn bar(&mut self, server: u32, reason: &str) {
        if let Some(server) = self.servers.get_mut(server as usize) {
            server.barred.get_or_insert_with(|| reason.to_owned());
        }
        for group in &mut self.groups {
            group.eligible.retain(|&member| member != server);
        }
    }

    /// What it looks like after a change.
    fn make(&mut self, change: &Change) {
        let position = |name: &String| self.servers.iter().position(|server| server.name == *name);
        let leader = position(&change.to).map(|leader| leader as u32);
        if let Some(group) = self.groups.iter_mut().find(|group| group.name == change.group) {
            group.leader = leader;
        }
    }
}

/// A server.
#[derive(Clone, Debug, PartialEq)]
pub struct Member {
    /// Its name, as in a servers file: `osd.3`, or a broker's number.
    pub name: String,
    /// Its speed relative to others, if the store tells; a servers file overrules it.
    pub speed: Option<f64>,
    /// Why it must not lead, if so: it is down, or its operator says so.
    pub barred: Option<String>,
}

/// Data that one of its members serves at a time.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// Its name: `2.1f`, or `topic-3`.
    pub name: String,
    /// The pool or topic that it belongs to.
    pub pool: String,
    /// What it weighs: 1, its bytes, or what was read of it.
    pub weight: u64,
    /// Its members, as positions in [`Look::servers`], in the order that the store keeps.
    pub members: Vec<u32>,
    /// Who leads it, if anyone does.
    pub leader: Option<u32>,
    /// Those of its members that may lead it now. Empty if it is left alone: its leader keeps it.
    pub eligible: Vec<u32>,
}

/// Whether a look fits together: every position is that of a server, and only members may lead.
fn is_sound(look: &Look) -> bool {
    let is_server = |server: &u32| (*server as usize) < look.servers.len();
    look.groups.iter().all(|group| {
        group.members.iter().chain(&group.leader).all(is_server)
            && group.eligible.iter().all(|server| group.members.contains(server))
    })
}

/// A group gets another leader. Its members stay the same, in another order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// The group's name.
    pub group: String,
    /// Who leads it before, by name.
    pub from: String,
    /// Who leads it then.
    pub to: String,
    /// Its members before, in the store's order, by name.
    pub before: Vec<String>,
    /// The same members then: the leader first, the others in their order.
    pub after: Vec<String>,
}

impl Change {
    /// Whether the members are the same before and after, and those who lead are among them. Nothing else is ever made.
    pub fn is_a_reordering(&self) -> bool {
        let before: HashSet<&String> = self.before.iter().collect();
        let after: HashSet<&String> = self.after.iter().collect();
        before == after
            && before.len() == self.before.len()
            && self.before.len() == self.after.len()
            && before.contains(&self.from)
            && before.contains(&self.to)
    }

    /// What takes it back.
    #[must_use]
    pub fn reversed(&self) -> Self {
        let Self { group, from, to, before, after } = self.clone();
        Self { group, from: to, to: from, before: after, after: before }
    }

    fn has_same_members(&self, other: &Self) -> bool {
        let mut these = [self.before.clone(), other.before.clone()];
        these.iter_mut().for_each(|members| members.sort_unstable());
        these[0] == these[1]
    }
}

/// Text for an operator to review and run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// What it is: `commands`, `reassignment`, `election`. Files are named by it if there are several.
    pub kind: &'static str,
    /// The text.
    pub text: String,
}
