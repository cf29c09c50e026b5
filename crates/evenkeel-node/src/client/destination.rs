//! Where data is written: beside its final place until it is complete and verified, never outside the destination.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use evenkeel_store::{Algorithm, Hash, Hasher};

use super::{journal, ranks};

/// How the names of journals and of incomplete files begin.
const OURS: &str = ".evenkeel-";
/// Bytes read at once to compute a checksum.
const CHUNK: usize = 1 << 20;
/// The longest name of a file on the usual file systems.
const MOST_NAME_BYTES: usize = 255;

/// A folder that data is read into.
#[derive(Clone, Debug)]
pub(super) struct Destination {
    root: PathBuf,
    /// If files may be replaced, those that may not: objects of this read. Some file systems have one file under
    /// two keys, as `a` and `A`.
    ours: Option<Arc<Mutex<HashSet<FileId>>>>,
}

/// The device of a file, and its number there.
type FileId = (u64, u64);

/// The place of one object.
#[derive(Clone, Debug)]
pub(super) struct Place {
    /// Where it is in the end.
    pub(super) path: PathBuf,
    /// Where it is until then: in the same folder, and so on the same device.
    pub(super) part: PathBuf,
}

impl Destination {
    /// Creates the folder if there is none.
    pub(super) fn create(root: &Path, overwrite: bool) -> io::Result<Self> {
        fs::create_dir_all(root)?;
        Ok(Self { root: root.to_owned(), ours: overwrite.then(Arc::default) })
    }

    /// The folder as it is.
    pub(super) fn at(root: &Path) -> Self {
        Self { root: root.to_owned(), ours: None }
    }

    /// The object in this place must not be replaced by another.
    pub(super) fn protect(&self, place: &Place) -> io::Result<()> {
        if let Some(ours) = &self.ours {
            let metadata = fs::symlink_metadata(&place.path)?;
            let file = (metadata.dev(), metadata.ino());
            ours.lock().unwrap_or_else(PoisonError::into_inner).insert(file);
        }
        Ok(())
    }

    /// Whether an object may get its name now, or why not.
    fn is_free(&self, place: &Place) -> Result<(), String> {
        let path = place.path.display();
        match (fs::symlink_metadata(&place.path), &self.ours) {
            (Err(error), _) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            (Err(error), _) => Err(format!("{path}: {error}")),
            (Ok(there), _) if !there.is_file() => Err(format!("{path} is in the way; move it elsewhere")),
            (Ok(_), None) => Err(format!("{path} exists by now; --overwrite replaces it")),
            (Ok(there), Some(ours)) => {
                let ours = ours.lock().unwrap_or_else(PoisonError::into_inner);
                match ours.contains(&(there.dev(), there.ino())) {
                    true => {
                        Err(format!("another object is the same file {path}; read it into another folder"))
                    }
                    false => Ok(()),
                }
            }
        }
    }

    /// The place of an object, or why it cannot have one.
    pub(super) fn place(&self, key: &str) -> Result<Place, String> {
        let relative = Path::new(key);
        let is_plain = |component: Component<'_>| match component {
            Component::Normal(name) => name.len() <= MOST_NAME_BYTES,
            _ => false,
        };
        // `Path` passes over `//` and `/./`, so two keys could become one file.
        let is_as_written = !key.split('/').any(|part| part.is_empty() || part == ".");
        if !relative.components().all(is_plain) || !is_as_written || key.contains('\0') {
            return Err("its name cannot be a path below the destination; it is left out".to_owned());
        }
        let is_ours = |name: &OsStr| name.as_encoded_bytes().starts_with(OURS.as_bytes());
        let Some(name) = relative.file_name().filter(|name| !is_ours(name)) else {
            return Err(format!("names that begin with {OURS} are needed for the journal; it is left out"));
        };
        let path = self.root.join(relative);
        // Short enough for any name, and never the same for two of them.
        let mut hasher = Hasher::new(Algorithm::Sha256);
        hasher.update(name.as_encoded_bytes());
        let part = path.with_file_name(format!("{OURS}{:.32}.part", hasher.finish().to_string()));
        Ok(Place { path, part })
    }

    /// Creates the folders above a place. A link among them could lead elsewhere, and is refused.
    pub(super) fn make_folders(&self, place: &Place) -> io::Result<()> {
        let Some(parent) = place.path.parent() else { return Ok(()) };
        let Ok(below) = parent.strip_prefix(&self.root) else { return Ok(()) };
        let mut folder = self.root.clone();
        for component in below.components() {
            folder.push(component);
            match fs::symlink_metadata(&folder) {
                Ok(metadata) if metadata.is_dir() => {}
                Ok(_) => {
                    let problem = format!("{} is in the way; move it elsewhere", folder.display());
                    return Err(io::Error::new(io::ErrorKind::NotADirectory, problem));
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => match fs::create_dir(&folder) {
                    // Another rank was faster. It creates folders and nothing else there.
                    Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                    _ => {}
                },
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Forgets ranks that were interrupted: everything is there.
    pub(super) fn forget_ranks(&self) -> io::Result<()> {
        journal::remove(&self.root.join(ranks::NAME))
    }

    /// Moves complete objects to their final places. They are on disk before they have their names, and the names are on
    /// disk when this returns. For each place, returns why its object could not get its name, if so.
    pub(super) fn commit<'a>(
        &self,
        places: impl Iterator<Item = &'a Place>,
    ) -> io::Result<Vec<Result<(), String>>> {
        let root = File::open(&self.root)?;
        let device = root.metadata()?.dev();
        rustix::fs::syncfs(&root)?;
        let (mut results, mut elsewhere) = (Vec::new(), Vec::new());
        for place in places {
            let is_elsewhere = fs::symlink_metadata(&place.part)?.dev() != device;
            if is_elsewhere {
                File::open(&place.part)?.sync_all()?;
                elsewhere.extend(place.path.parent());
            }
            let result = self.is_free(place);
            if result.is_ok() {
                fs::rename(&place.part, &place.path)?;
                self.protect(place)?;
            }
            results.push(result);
        }
        rustix::fs::syncfs(&root)?;
        elsewhere.dedup();
        elsewhere.into_iter().try_for_each(|folder| File::open(folder)?.sync_all())?;
        Ok(results)
    }
}

impl Place {
    /// Opens the file that is being filled. Links are not followed.
    pub(super) fn open_part(&self, bytes: u64) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let file =
            options.custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed()).open(&self.part)?;
        file.set_len(bytes)?;
        Ok(file)
    }

    /// Removes what was filled, if anything.
    pub(super) fn remove_part(&self) -> io::Result<()> {
        match fs::remove_file(&self.part) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Whether there is a file in the final place, with this size and checksum.
    pub(super) fn is_there(&self, bytes: u64, hash: Option<&Hash>) -> io::Result<Existing> {
        let metadata = match fs::symlink_metadata(&self.path) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Existing::Nothing),
            Err(error) => return Err(error),
        };
        if !metadata.is_file() {
            return Ok(Existing::InTheWay);
        }
        if metadata.len() != bytes {
            return Ok(Existing::Other);
        }
        match hash {
            _ if bytes == 0 => Ok(Existing::Same),
            None => Ok(Existing::Unknown),
            Some(hash) if checksum(&File::open(&self.path)?, 0..bytes, hash)? == *hash => Ok(Existing::Same),
            Some(_) => Ok(Existing::Other),
        }
    }
}

/// What is in the final place of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Existing {
    Nothing,
    /// The object itself.
    Same,
    /// A file of the same size that cannot be compared.
    Unknown,
    /// Another file.
    Other,
    /// A folder, a link, a device.
    InTheWay,
}

/// Reads a range of a file, chunk by chunk.
pub(super) fn read_chunks(file: &File, range: Range<u64>, mut each: impl FnMut(&[u8])) -> io::Result<()> {
    let mut at = range.start;
    let mut chunk = vec![0; CHUNK.min(usize::try_from(range.end - range.start).unwrap_or(CHUNK))];
    while at < range.end {
        let n = (range.end - at).min(CHUNK as u64) as usize;
        file.read_exact_at(&mut chunk[..n], at)?;
        each(&chunk[..n]);
        at += n as u64;
    }
    Ok(())
}

/// The checksum of a range of a file, by the algorithm of another.
pub(super) fn checksum(file: &File, range: Range<u64>, like: &Hash) -> io::Result<Hash> {
    let mut hasher = Hasher::new(like.algorithm);
    read_chunks(file, range, |chunk| hasher.update(chunk))?;
    Ok(hasher.finish())
}

/// The CRC-32C of a range of a file.
pub(super) fn crc32c_of(file: &File, range: Range<u64>) -> io::Result<u32> {
    let mut crc = Crc::default();
    read_chunks(file, range, |chunk| crc.update(chunk))?;
    Ok(crc.finish())
}

/// A CRC-32C in the making.
#[derive(Debug)]
pub(super) struct Crc(crc_fast::Digest);

impl Default for Crc {
    fn default() -> Self {
        Self(crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi))
    }
}

impl Crc {
    pub(super) fn update(&mut self, data: &[u8]) {
        self.0.update(data);
    }

    pub(super) fn finish(&self) -> u32 {
        self.0.finalize() as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two keys that are one file, as `a` and `A` on some file systems: the first has it, now and at the next read.
    #[test]
    fn one_object_never_replaces_another() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        let place = |part: &str| Place { path: at("a"), part: at(part) };
        let (first, second) = (place("first"), place("second"));
        for overwrite in [false, true] {
            fs::write(at("first"), "first").expect("written");
            fs::write(at("second"), "second").expect("written");
            let destination = Destination::create(folder.path(), overwrite).expect("created");
            let results = destination.commit([&first, &second].into_iter()).expect("committed");
            assert_eq!(results.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, false], "{results:?}");
            assert_eq!(fs::read(at("a")).expect("there"), b"first");
            // The first is there already.
            let destination = Destination::create(folder.path(), overwrite).expect("created");
            destination.protect(&first).expect("protected");
            let results = destination.commit(std::iter::once(&second)).expect("committed");
            assert!(results[0].is_err());
            assert_eq!(fs::read(at("a")).expect("there"), b"first");
            fs::remove_file(at("a")).expect("removed");
        }
    }
}
