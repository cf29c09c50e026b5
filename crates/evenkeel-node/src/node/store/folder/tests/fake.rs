//! A disk in memory that forgets what was not synced.
//!
//! After a crash a file has what was synced, and of the writes since then none, all or some, torn at sectors. A folder has
//! the names that were synced, and each change since then or not. The disk can also be told to ignore syncs of one kind,
//! to see that the tests notice, to run full, or to fail.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::node::store::folder::disk::{Access, Disk, File};

/// What a disk writes whole or not at all.
const SECTOR: usize = 512;

/// Numbers that look random, the same for the same seed.
#[derive(Clone, Debug)]
pub(crate) struct Draw(u64);

impl Draw {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 16
    }

    pub(super) fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    pub(super) fn bytes(&mut self, n: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(n + 8);
        while bytes.len() < n {
            bytes.extend_from_slice(&self.next().to_le_bytes());
        }
        bytes.truncate(n);
        bytes
    }
}

/// A kind of sync, and of what is written. These are all there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// Of the index.
    Index,
    /// Of files of bytes.
    Blob,
    /// Of the file that says what the folder is, while the store is made and when it is complete.
    Making,
    Ready,
    /// Of the folders that have the names of files of bytes.
    Names,
    /// Of the folder of these folders.
    Folders,
    /// Of the whole, when it is to be a store, when it has an index, and when it is complete.
    RootOfMaking,
    RootOfIndex,
    RootOfReady,
}

impl Kind {
    pub(super) const ALL: [Self; 9] = [
        Self::Index,
        Self::Blob,
        Self::Making,
        Self::Ready,
        Self::Names,
        Self::Folders,
        Self::RootOfMaking,
        Self::RootOfIndex,
        Self::RootOfReady,
    ];
}

#[derive(Clone, Debug, Default)]
struct Inode {
    is: Vec<u8>,
    synced: Vec<u8>,
    /// Since the last sync, in order.
    since: Vec<Step>,
}

#[derive(Clone, Debug)]
enum Step {
    Write(usize, Vec<u8>),
    Length(usize),
}

impl Step {
    fn apply(&self, to: &mut Vec<u8>) {
        match self {
            Self::Write(at, bytes) => {
                if to.len() < at + bytes.len() {
                    to.resize(at + bytes.len(), 0);
                }
                to[*at..at + bytes.len()].copy_from_slice(bytes);
            }
            Self::Length(n) => to.resize(*n, 0),
        }
    }
}

/// `None` is a folder.
type Names = BTreeMap<String, Option<usize>>;

#[derive(Debug)]
struct State {
    inodes: Vec<Inode>,
    is: Names,
    synced: Names,
    n_changes: u64,
    crash_at: Option<u64>,
    has_crashed: bool,
    ignored: Option<Kind>,
    /// Syncs of this kind fail from now on.
    failing: Option<Kind>,
    /// Writes of this kind say that the disk is full.
    full: Option<Kind>,
    fails_a_read: bool,
    free_bytes: Option<u64>,
    n_syncs: BTreeMap<Kind, u64>,
    draw: Draw,
}

/// The disk.
#[derive(Clone, Debug)]
pub(crate) struct Fake(Arc<Mutex<State>>);

fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

fn crashed() -> io::Error {
    io::Error::other("the machine has crashed")
}

impl Fake {
    pub(crate) fn new(seed: u64, ignored: Option<Kind>) -> Self {
        Self(Arc::new(Mutex::new(State {
            inodes: Vec::new(),
            is: Names::new(),
            synced: Names::new(),
            n_changes: 0,
            crash_at: None,
            has_crashed: false,
            ignored,
            failing: None,
            full: None,
            fails_a_read: false,
            free_bytes: None,
            n_syncs: BTreeMap::new(),
            draw: Draw::new(seed ^ 0xD15C),
        })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Crashes after so many more changes.
    pub(crate) fn crash_after(&self, n: u64) {
        let mut state = self.state();
        state.crash_at = Some(state.n_changes + n);
    }

    /// Crashes no more by itself.
    pub(crate) fn calm_down(&self) {
        self.state().crash_at = None;
    }

    pub(crate) fn has_crashed(&self) -> bool {
        self.state().has_crashed
    }

    /// The next read of the index fails.
    pub(super) fn fail_a_read(&self) {
        self.state().fails_a_read = true;
    }

    pub(super) fn will_fail_a_read(&self) -> bool {
        self.state().fails_a_read
    }

    pub(super) fn fail_syncs(&self, kind: Option<Kind>) {
        self.state().failing = kind;
    }

    pub(super) fn fill(&self, kind: Option<Kind>) {
        self.state().full = kind;
    }

    pub(super) fn set_free_bytes(&self, bytes: u64) {
        self.state().free_bytes = Some(bytes);
    }

    pub(super) fn n_syncs(&self) -> BTreeMap<Kind, u64> {
        self.state().n_syncs.clone()
    }

    /// Names of all files of bytes.
    pub(super) fn blobs(&self) -> Vec<String> {
        let state = self.state();
        let is_blob = |(path, inode): (&String, &Option<usize>)| {
            (path.starts_with("blobs/") && inode.is_some()).then(|| path.clone())
        };
        state.is.iter().filter_map(is_blob).collect()
    }

    /// Flips a bit of what is in a file.
    pub(super) fn flip(&self, path: &str, at: usize) {
        let mut state = self.state();
        if let Some(Some(inode)) = state.is.get(path).copied() {
            let bytes = &mut state.inodes[inode].is;
            let at = at % bytes.len();
            bytes[at] ^= 1;
        }
    }

    /// Cuts a file off.
    pub(super) fn cut(&self, path: &str, bytes: usize) {
        let mut state = self.state();
        if let Some(Some(inode)) = state.is.get(path).copied() {
            state.inodes[inode].is.truncate(bytes);
        }
    }

    pub(super) fn bytes_of(&self, path: &str) -> usize {
        let state = self.state();
        state.is.get(path).copied().flatten().map_or(0, |inode| state.inodes[inode].is.len())
    }

    /// The disk of the machine when it runs again: with what has survived, and without those who had files open.
    pub(crate) fn restart(&self) -> Self {
        let mut state = self.state();
        let mut draw = state.draw.clone();
        draw.next();
        let mut names = Names::new();
        let all: BTreeSet<String> = state.is.keys().chain(state.synced.keys()).cloned().collect();
        // A crash of the process alone, at times, or one that happens to lose nothing, or everything.
        let mode = draw.below(4);
        for path in all {
            let (is, synced) = (state.is.get(&path), state.synced.get(&path));
            let one = match mode {
                0 => is,
                1 => synced,
                _ if draw.below(2) == 0 => is,
                _ => synced,
            };
            // In order: a folder comes before what is in it.
            if let Some(inode) = one
                && (parent(&path).is_empty() || names.contains_key(parent(&path)))
            {
                names.insert(path, *inode);
            }
        }
        let inodes: Vec<Inode> = state
            .inodes
            .iter()
            .map(|inode| {
                let mode = match mode {
                    0 => 0,
                    1 => 1,
                    _ => draw.below(4),
                };
                let bytes = match mode {
                    0 => inode.is.clone(),
                    1 => inode.synced.clone(),
                    _ => torn(inode, &mut draw),
                };
                Inode { synced: bytes.clone(), is: bytes, since: Vec::new() }
            })
            .collect();
        state.has_crashed = true;
        Self(Arc::new(Mutex::new(State {
            inodes,
            synced: names.clone(),
            is: names,
            n_changes: 0,
            crash_at: None,
            has_crashed: false,
            ignored: state.ignored,
            failing: None,
            full: None,
            fails_a_read: false,
            free_bytes: state.free_bytes,
            n_syncs: BTreeMap::new(),
            draw,
        })))
    }
}

/// What a file may have after a crash.
fn torn(inode: &Inode, draw: &mut Draw) -> Vec<u8> {
    let mut bytes = inode.synced.clone();
    for step in &inode.since {
        match (step, draw.below(4)) {
            (_, 0) => {}
            (Step::Write(at, data), 1) => {
                for (i, sector) in data.chunks(SECTOR).enumerate() {
                    if draw.below(2) == 0 {
                        Step::Write(at + i * SECTOR, sector.to_vec()).apply(&mut bytes);
                    }
                }
            }
            _ => step.apply(&mut bytes),
        }
    }
    bytes
}

impl State {
    fn look(&self) -> io::Result<()> {
        if self.has_crashed { Err(crashed()) } else { Ok(()) }
    }

    /// Returns whether the machine crashes in the middle of this change.
    fn change(&mut self) -> io::Result<bool> {
        self.look()?;
        self.n_changes += 1;
        self.has_crashed = self.crash_at.is_some_and(|at| self.n_changes >= at);
        Ok(self.has_crashed)
    }

    fn inode(&self, path: &str) -> io::Result<usize> {
        self.is.get(path).copied().flatten().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn sync(&mut self, kind: Kind, do_it: impl FnOnce(&mut Self)) -> io::Result<()> {
        let crashes = self.change()?;
        *self.n_syncs.entry(kind).or_default() += 1;
        if self.failing == Some(kind) {
            return Err(io::Error::other("the disk is broken"));
        }
        // It may have come to its end, or not.
        if self.ignored != Some(kind) && (!crashes || self.draw.below(2) == 0) {
            do_it(self);
        }
        if crashes { Err(crashed()) } else { Ok(()) }
    }

    fn kind_of_file(&self, path: &str, inode: usize) -> Kind {
        match path {
            "index.redb" => Kind::Index,
            "format.new" if self.inodes[inode].is.ends_with(b" 1\n") => Kind::Ready,
            "format.new" => Kind::Making,
            _ => Kind::Blob,
        }
    }

    fn kind_of_folder(&self, path: &str) -> Kind {
        let format = self.inode("format").map_or(&[][..], |inode| &self.inodes[inode].is);
        match path {
            "" if format.ends_with(b" 1\n") => Kind::RootOfReady,
            "" if self.is.contains_key("index.redb") => Kind::RootOfIndex,
            "" => Kind::RootOfMaking,
            "blobs" => Kind::Folders,
            _ => Kind::Names,
        }
    }

    fn step(&mut self, path: &str, inode: usize, step: Step) -> io::Result<()> {
        let crashes = self.change()?;
        let kind = self.kind_of_file(path, inode);
        if self.full == Some(kind) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let inode = &mut self.inodes[inode];
        step.apply(&mut inode.is);
        inode.since.push(step);
        if crashes { Err(crashed()) } else { Ok(()) }
    }
}

impl Disk for Fake {
    fn create(&self, path: &str) -> io::Result<Box<dyn File>> {
        let mut state = self.state();
        let crashes = state.change()?;
        if state.is.contains_key(path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        if !parent(path).is_empty() && !state.is.contains_key(parent(path)) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let inode = state.inodes.len();
        state.inodes.push(Inode::default());
        state.is.insert(path.to_owned(), Some(inode));
        if crashes {
            return Err(crashed());
        }
        Ok(Box::new(FakeFile { disk: self.clone(), path: path.to_owned(), inode, access: Access::Write }))
    }

    fn open(&self, path: &str, access: Access) -> io::Result<Box<dyn File>> {
        let state = self.state();
        state.look()?;
        let inode = state.inode(path)?;
        Ok(Box::new(FakeFile { disk: self.clone(), path: path.to_owned(), inode, access }))
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        let mut state = self.state();
        let crashes = state.change()?;
        state.inode(path)?;
        state.is.remove(path);
        if crashes { Err(crashed()) } else { Ok(()) }
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.state();
        let crashes = state.change()?;
        let inode = state.inode(from)?;
        state.is.remove(from);
        state.is.insert(to.to_owned(), Some(inode));
        if crashes { Err(crashed()) } else { Ok(()) }
    }

    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        let state = self.state();
        state.look()?;
        if !folder.is_empty() && !state.is.contains_key(folder) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let (from, start) = match folder {
            "" => (String::new(), String::new()),
            folder => (format!("{folder}/"), format!("{folder}/")),
        };
        let within = state.is.range(from..).map(|(path, _)| path).take_while(|path| path.starts_with(&start));
        let name = |path: &String| path.rsplit('/').next().map(str::to_owned);
        Ok(within.filter(|path| parent(path) == folder).filter_map(name).collect())
    }

    fn create_folder(&self, folder: &str) -> io::Result<()> {
        let mut state = self.state();
        let crashes = state.change()?;
        if !parent(folder).is_empty() && !state.is.contains_key(parent(folder)) {
            return Err(io::ErrorKind::NotFound.into());
        }
        state.is.insert(folder.to_owned(), None);
        if crashes { Err(crashed()) } else { Ok(()) }
    }

    fn sync_folder(&self, folder: &str) -> io::Result<()> {
        let mut state = self.state();
        let kind = state.kind_of_folder(folder);
        state.sync(kind, |state| {
            state.synced.retain(|path, _| parent(path) != folder);
            let is: Names = state
                .is
                .iter()
                .filter(|(path, _)| parent(path) == folder)
                .map(|(path, inode)| (path.clone(), *inode))
                .collect();
            state.synced.extend(is);
        })
    }

    fn free_bytes(&self) -> Option<u64> {
        self.state().free_bytes
    }

    fn name(&self, path: &str) -> String {
        format!("fake/{path}")
    }
}

#[derive(Debug)]
struct FakeFile {
    disk: Fake,
    path: String,
    inode: usize,
    access: Access,
}

impl File for FakeFile {
    fn bytes(&self) -> io::Result<u64> {
        let state = self.disk.state();
        state.look()?;
        Ok(state.inodes[self.inode].is.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let mut state = self.disk.state();
        state.look()?;
        if self.path == "index.redb" && std::mem::take(&mut state.fails_a_read) {
            return Err(io::Error::other("the disk cannot read this"));
        }
        let offset = offset as usize;
        let bytes = state.inodes[self.inode].is.get(offset..offset + out.len());
        out.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        if self.access == Access::Read {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        self.disk.state().step(&self.path, self.inode, Step::Write(offset as usize, data.to_vec()))
    }

    fn set_bytes(&self, bytes: u64) -> io::Result<()> {
        self.disk.state().step(&self.path, self.inode, Step::Length(bytes as usize))
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.disk.state();
        let kind = state.kind_of_file(&self.path, self.inode);
        state.sync(kind, |state| {
            let inode = &mut state.inodes[self.inode];
            for step in std::mem::take(&mut inode.since) {
                step.apply(&mut inode.synced);
            }
        })
    }
}
