//! What the store asks of a disk. Tests put one in its place that forgets what was not synced.

use std::fmt;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::super::StoreError;

/// A folder of a disk. Paths are relative to it, and made by this module's callers, never by clients.
pub(super) trait Disk: fmt::Debug + Send + Sync {
    /// Makes a file that is not there yet, for reading and writing.
    fn create(&self, path: &str) -> io::Result<Box<dyn File>>;
    /// Opens a file that is there.
    fn open(&self, path: &str, access: Access) -> io::Result<Box<dyn File>>;
    fn remove(&self, path: &str) -> io::Result<()>;
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// The names in a folder, in any order; `""` is the folder itself.
    fn list(&self, folder: &str) -> io::Result<Vec<String>>;
    /// Makes a folder unless it is there.
    fn create_folder(&self, folder: &str) -> io::Result<()>;
    /// Returns when what was created, renamed and removed in a folder will survive a loss of power.
    fn sync_folder(&self, folder: &str) -> io::Result<()>;
    /// How many bytes fit on it.
    fn free_bytes(&self) -> Option<u64>;
    /// The path as people know it.
    fn name(&self, path: &str) -> String;
}

/// What a file is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    Write,
}

/// An open file.
pub(super) trait File: fmt::Debug + Send + Sync {
    fn bytes(&self) -> io::Result<u64>;
    /// Reads exactly so many bytes from there.
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()>;
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()>;
    fn set_bytes(&self, bytes: u64) -> io::Result<()>;
    /// Returns when all that was written will survive a loss of power, but for the file's name.
    fn sync(&self) -> io::Result<()>;
}

/// A folder of the machine, for this process alone.
#[derive(Debug)]
pub(super) struct Files {
    root: PathBuf,
    /// Held as long as the store is open.
    _lock: fs::File,
}

impl Files {
    /// Makes the folder if need be and locks it.
    pub(super) fn open(root: &Path) -> Result<Self, StoreError> {
        let fail = |what: &str, error| StoreError::Io { what: format!("{what} {}", root.display()), error };
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true).mode(0o700).create(root).map_err(|error| fail("create", error))?;
        let root = root.canonicalize().map_err(|error| fail("open", error))?;
        if let Some(parent) = root.parent() {
            // Where it cannot be opened, it was not made just now, either.
            if let Ok(folder) = fs::File::open(parent) {
                folder.sync_all().map_err(|error| fail("sync the folder of", error))?;
            }
        }
        let path = root.join("lock");
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(&path)
            .map_err(|error| StoreError::Io { what: format!("open {}", path.display()), error })?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { root, _lock: lock }),
            Err(fs::TryLockError::WouldBlock) => Err(StoreError::Unusable(format!(
                "{} is in use by another node; stop that one, or give this one a folder of its own",
                root.display()
            ))),
            Err(fs::TryLockError::Error(error)) => {
                Err(StoreError::Io { what: format!("lock {}", path.display()), error })
            }
        }
    }

    fn at(&self, path: &str) -> PathBuf {
        if path.is_empty() { self.root.clone() } else { self.root.join(path) }
    }
}

impl Disk for Files {
    fn create(&self, path: &str) -> io::Result<Box<dyn File>> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true).mode(0o600);
        Ok(Box::new(options.open(self.at(path))?))
    }

    fn open(&self, path: &str, access: Access) -> io::Result<Box<dyn File>> {
        let mut options = OpenOptions::new();
        options.read(true).write(access == Access::Write);
        Ok(Box::new(options.open(self.at(path))?))
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        fs::remove_file(self.at(path))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.at(from), self.at(to))
    }

    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(self.at(folder))? {
            // A name that is not text is none of ours.
            if let Ok(name) = entry?.file_name().into_string() {
                names.push(name);
            }
        }
        Ok(names)
    }

    fn create_folder(&self, folder: &str) -> io::Result<()> {
        match fs::DirBuilder::new().mode(0o700).create(self.at(folder)) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            result => result,
        }
    }

    fn sync_folder(&self, folder: &str) -> io::Result<()> {
        fs::File::open(self.at(folder))?.sync_all()
    }

    fn free_bytes(&self) -> Option<u64> {
        let disk = rustix::fs::statvfs(&self.root).ok()?;
        Some(disk.f_bavail.saturating_mul(disk.f_frsize))
    }

    fn name(&self, path: &str) -> String {
        self.at(path).display().to_string()
    }
}

impl File for fs::File {
    fn bytes(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.read_exact_at(out, offset)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.write_all_at(data, offset)
    }

    fn set_bytes(&self, bytes: u64) -> io::Result<()> {
        self.set_len(bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }
}
