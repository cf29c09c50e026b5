//! The undo file: who led before anything was changed.
//!
//! A step is on disk here before it is made, so that whatever was done can be undone, wherever the command was stopped.
//! A group that changes again keeps who led it first, and all whom it was to be given to: a step that is stopped half-way
//! leaves some groups with their earlier leader. One command at a time uses a file; it holds a lock beside it, with all that it
//! starts.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::io::{FdFlags, fcntl_setfd};
use serde::{Deserialize, Serialize};

use super::{Change, Engine, EngineError, Look};

/// How long is waited for others who use a record: 15 s in all.
const PAUSE: Duration = Duration::from_millis(100);
const MOST_TRIES: u32 = 150;

/// A larger file is none of ours.
const MOST_BYTES: u64 = 256 << 20;

/// What was changed, and how it was before.
#[derive(Debug)]
pub struct Record {
    path: PathBuf,
    content: Content,
    /// Where each group is in the list.
    positions: HashMap<String, usize>,
    /// Held by who may write.
    _lock: Option<Lock>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Content {
    format: u32,
    engine: String,
    store: String,
    changes: Vec<Recorded>,
}

/// A group, from how it was at first to how it was to be last.
#[derive(Debug, Serialize, Deserialize)]
struct Recorded {
    #[serde(flatten)]
    change: Change,
    /// Others that it was given to in between.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    between: Vec<String>,
}

impl Recorded {
    fn is_ours(&self, leader: &String) -> bool {
        [&self.change.from, &self.change.to].contains(&leader) || self.between.contains(leader)
    }

    /// The group changes once more.
    fn extend(&mut self, change: &Change) {
        if self.change.has_same_members(change) {
            let to = std::mem::replace(&mut self.change.to, change.to.clone());
            self.between.retain(|leader| *leader != change.to);
            if to != self.change.to && to != self.change.from && !self.between.contains(&to) {
                self.between.push(to);
            }
            self.change.after.clone_from(&change.after);
        } else {
            // Its data has moved since: there is no way back to what was before.
            *self = Self { change: change.clone(), between: Vec::new() };
        }
    }
}

/// Keeps other commands from writing the same record. Its file goes away with it.
///
/// Programs that are started meanwhile hold it, too: what a killed command has told Ceph to do may still be under way.
#[derive(Debug)]
pub struct Lock {
    _file: File,
    record: PathBuf,
    path: PathBuf,
}

impl Lock {
    /// Waits a while for others who hold it.
    pub async fn wait(record: &Path) -> Result<Self, EngineError> {
        for _ in 0..MOST_TRIES {
            if let Some(lock) = Self::try_take(record)? {
                return Ok(lock);
            }
            tokio::time::sleep(PAUSE).await;
        }
        Self::take(record)
    }

    fn take(record: &Path) -> Result<Self, EngineError> {
        let in_use = || {
            EngineError(format!(
                "{}: another command is using this undo file, or a program that it has started; wait for it, or name \
                 another file",
                record.display()
            ))
        };
        Self::try_take(record)?.ok_or_else(in_use)
    }

    fn try_take(record: &Path) -> Result<Option<Self>, EngineError> {
        let mut path = record.to_owned().into_os_string();
        path.push(".lock");
        let path = PathBuf::from(path);
        let failed = |error: std::io::Error| EngineError(format!("{}: {error}", path.display()));
        loop {
            let mut options = File::options();
            let file = options.create(true).truncate(false).write(true).open(&path).map_err(failed)?;
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Err(rustix::io::Errno::WOULDBLOCK) => return Ok(None),
                locked => locked.map_err(|error| failed(error.into()))?,
            }
            // Who had it before may have removed the file meanwhile.
            let held = file.metadata().map_err(failed)?.ino();
            if fs::metadata(&path).is_ok_and(|found| found.ino() == held) {
                fcntl_setfd(&file, FdFlags::empty()).map_err(|error| failed(error.into()))?;
                return Ok(Some(Self { _file: file, record: record.to_owned(), path }));
            }
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
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
    /// The record of a store in this file, to be written; an empty one if there is no such file yet. Fails while another
    /// command has it open.
    pub fn open(path: &Path, engine: &dyn Engine, look: &Look) -> Result<Self, EngineError> {
        Self::locked(Lock::take(path)?, engine, look)
    }

    /// The same by a lock that was taken before the look: nothing that an earlier command began comes after that.
    pub fn locked(lock: Lock, engine: &dyn Engine, look: &Look) -> Result<Self, EngineError> {
        let view = Self::view(&lock.record, engine, look)?;
        Ok(Self { _lock: Some(lock), ..view })
    }

    /// Whether a file is a record, which must not be replaced by anything else.
    pub fn is_one(path: &Path) -> bool {
        Self::read(path).is_ok()
    }

    /// The same only to be looked at.
    pub fn view(path: &Path, engine: &dyn Engine, look: &Look) -> Result<Self, EngineError> {
        if !path.exists() {
            let content = Content {
                format: 1,
                engine: engine.name().to_owned(),
                store: look.store.clone(),
                changes: Vec::new(),
            };
            return Ok(Self { path: path.to_owned(), content, positions: HashMap::new(), _lock: None });
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
        for (i, Recorded { change, .. }) in content.changes.iter().enumerate() {
            if positions.insert(change.group.clone(), i).is_some() || !change.is_a_reordering() {
                return Err(failed(format!("what it says about group {} does not fit", change.group)));
            }
        }
        Ok(Self { path: path.to_owned(), content, positions, _lock: None })
    }

    /// The groups it tells about.
    pub fn groups(&self) -> impl Iterator<Item = &str> {
        self.content.changes.iter().map(|recorded| recorded.change.group.as_str())
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
                self.content.changes.push(Recorded { change: change.clone(), between: Vec::new() });
                continue;
            };
            self.content.changes[i].extend(change);
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
        for recorded in &self.content.changes {
            let change = &recorded.change;
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
            let leader = group.leader.map(|leader| look.name(leader).to_owned());
            if !back.is_a_reordering() {
                let (now, then) = (back.before.join(", "), back.after.join(", "));
                undo.refused.push(format!("{} is on {now} now and was on {then}", change.group));
            } else if leader.as_ref() == Some(&change.from) && back.before.first() == back.after.first() {
                // It was never changed, or is undone already.
            } else if !leader.as_ref().is_some_and(|leader| recorded.is_ours(leader)) {
                let leader = leader.as_deref().unwrap_or("nobody");
                undo.kept.push(format!("{} was given to {leader} by others since", change.group));
            } else if !group.eligible.iter().any(|&server| look.name(server) == change.from) {
                undo.kept.push(format!("{} cannot be led by {} now", change.group, change.from));
            } else {
                // It may be that the order was changed, but nobody was elected yet: from and to are the same then.
                back.from = leader.unwrap_or_default();
                undo.changes.push(back);
            }
        }
        undo
    }
}
