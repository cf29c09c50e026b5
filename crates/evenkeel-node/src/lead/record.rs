//! The undo file: who led before anything was changed.
//!
//! A step is on disk here before it is made, so that whatever was done can be undone, wherever the command was stopped.
//! A group that changes again keeps who led it first.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{Change, Engine, EngineError, Look};

/// A larger file is none of ours.
const MOST_BYTES: u64 = 256 << 20;

/// What was changed, and how it was before.
#[derive(Debug)]
pub struct Record {
    path: PathBuf,
    content: Content,
    /// Where each group is in the list.
    positions: HashMap<String, usize>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Content {
    format: u32,
    engine: String,
    store: String,
    changes: Vec<Change>,
}

/// What undoes a record.
#[derive(Debug, Default)]
pub struct Undo {
    /// The changes back.
    pub changes: Vec<Change>,
    /// Groups that stay as they are, and why.
    pub kept: Vec<String>,
    /// Groups whose data would move, so that they must not be undone, and why.
    pub refused: Vec<String>,
}

impl Record {
    /// The record of a store in this file; an empty one if there is no such file yet.
    pub fn open(path: &Path, engine: &dyn Engine, look: &Look) -> Result<Self, EngineError> {
        if !path.exists() {
            let content = Content {
                format: 1,
                engine: engine.name().to_owned(),
                store: look.store.clone(),
                changes: Vec::new(),
            };
            return Ok(Self { path: path.to_owned(), content, positions: HashMap::new() });
        }
        let record = Self::read(path)?;
        let Content { engine: of_engine, store, .. } = &record.content;
        if (of_engine.as_str(), store) != (engine.name(), &look.store) {
            return Err(EngineError(format!(
                "{}: it is about {of_engine} {store}, and this is {} {}; name another file",
                path.display(),
                engine.name(),
                look.store
            )));
        }
        Ok(record)
    }

    fn read(path: &Path) -> Result<Self, EngineError> {
        let failed = |what: String| EngineError(format!("{}: {what}", path.display()));
        let mut text = String::new();
        let file = File::open(path).map_err(|error| failed(error.to_string()))?;
        file.take(MOST_BYTES).read_to_string(&mut text).map_err(|error| failed(error.to_string()))?;
        let content: Content = serde_json::from_str(&text).map_err(|error| {
            failed(format!("not an undo file of evenkeel balance ({error}); name another"))
        })?;
        if content.format != 1 {
            let format = content.format;
            return Err(failed(format!("format {format} is not known; use a newer evenkeel")));
        }
        let mut positions = HashMap::new();
        for (i, change) in content.changes.iter().enumerate() {
            if positions.insert(change.group.clone(), i).is_some() || !change.is_a_reordering() {
                return Err(failed(format!("what it says about group {} does not fit", change.group)));
            }
        }
        Ok(Self { path: path.to_owned(), content, positions })
    }

    /// How many groups it tells about.
    pub fn len(&self) -> usize {
        self.content.changes.len()
    }

    /// Whether nothing was changed.
    pub fn is_empty(&self) -> bool {
        self.content.changes.is_empty()
    }

    /// Adds changes that are about to be made, and returns when they are on disk.
    pub fn add(&mut self, changes: &[Change]) -> Result<(), EngineError> {
        for change in changes {
            let Some(&i) = self.positions.get(&change.group) else {
                self.positions.insert(change.group.clone(), self.content.changes.len());
                self.content.changes.push(change.clone());
                continue;
            };
            let known = &mut self.content.changes[i];
            if known.has_same_members(change) {
                (known.to, known.after) = (change.to.clone(), change.after.clone());
            } else {
                // Its data has moved since: there is no way back to what was before.
                *known = change.clone();
            }
        }
        self.save().map_err(|error| EngineError(format!("{}: {error}", self.path.display())))
    }

    fn save(&self) -> std::io::Result<()> {
        let mut beside = self.path.clone().into_os_string();
        beside.push(".tmp");
        let mut file = File::create(&beside)?;
        serde_json::to_writer_pretty(&mut file, &self.content)?;
        file.write_all(b"\n")?;
        file.sync_all()?;
        fs::rename(&beside, &self.path)?;
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
    }

    /// What leads back to how it was, from how it is now.
    pub fn undo(&self, look: &Look) -> Undo {
        let groups: HashMap<&str, usize> =
            look.groups.iter().enumerate().map(|(i, group)| (group.name.as_str(), i)).collect();
        let mut undo = Undo::default();
        for change in &self.content.changes {
            let Some(group) = groups.get(change.group.as_str()).map(|&i| &look.groups[i]) else {
                undo.kept.push(format!("{} is gone", change.group));
                continue;
            };
            let name = |&server: &u32| look.name(server).to_owned();
            let mut back = Change {
                group: change.group.clone(),
                from: change.to.clone(),
                to: change.from.clone(),
                before: group.members.iter().map(name).collect(),
                after: change.before.clone(),
            };
            let leader = group.leader.map(|leader| look.name(leader));
            if !back.is_a_reordering() {
                let (now, then) = (back.before.join(", "), back.after.join(", "));
                undo.refused.push(format!("{} is on {now} now and was on {then}", change.group));
            } else if leader == Some(&*change.from) && back.before.first() == back.after.first() {
                // It was never changed, or is undone already.
            } else if leader == Some(&*change.from) {
                // The order was changed, but nobody was elected yet.
                back.from.clone_from(&change.from);
                undo.changes.push(back);
            } else if leader != Some(&*change.to) {
                let leader = leader.unwrap_or("nobody");
                undo.kept.push(format!("{} was given to {leader} by others since", change.group));
            } else if !group.eligible.iter().any(|&server| look.name(server) == change.from) {
                undo.kept.push(format!("{} cannot be led by {} now", change.group, change.from));
            } else {
                undo.changes.push(back);
            }
        }
        undo
    }
}
