//! Where data is written: beside its final place until it is complete and verified, never outside the destination.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};

use evenkeel_store::{Hash, Hasher};

use super::journal;

/// Bytes read at once to compute a checksum.
const CHUNK: usize = 1 << 20;
/// The longest name of a file on the usual file systems.
const MOST_NAME_BYTES: usize = 255;

/// A folder that data is read into.
#[derive(Clone, Debug)]
pub(super) struct Destination {
    root: PathBuf,
}

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
    pub(super) fn create(root: &Path) -> io::Result<Self> {
        fs::create_dir_all(root)?;
        Ok(Self { root: root.to_owned() })
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
        let Some(name) = relative.file_name().filter(|name| *name != journal::NAME) else {
            return Err("its name is needed for the journal; it is left out".to_owned());
        };
        let path = self.root.join(relative);
        let hash = name.as_encoded_bytes().iter().fold(0xCBF2_9CE4_8422_2325_u64, |hash, &byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3)
        });
        let part = path.with_file_name(format!(".evenkeel-{hash:016x}.part"));
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
                Err(error) if error.kind() == io::ErrorKind::NotFound => fs::create_dir(&folder)?,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Moves complete objects to their final places. They are on disk before they have their names, and the names are on
    /// disk when this returns.
    pub(super) fn commit(&self, places: &[Place]) -> io::Result<()> {
        if places.is_empty() {
            return Ok(());
        }
        let root = File::open(&self.root)?;
        let device = root.metadata()?.dev();
        rustix::fs::syncfs(&root)?;
        let mut elsewhere = Vec::new();
        for place in places {
            let is_elsewhere = fs::symlink_metadata(&place.part)?.dev() != device;
            if is_elsewhere {
                File::open(&place.part)?.sync_all()?;
                elsewhere.extend(place.path.parent());
            }
            fs::rename(&place.part, &place.path)?;
        }
        rustix::fs::syncfs(&root)?;
        elsewhere.dedup();
        elsewhere.into_iter().try_for_each(|folder| File::open(folder)?.sync_all())
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
            Some(hash) if checksum(&self.path, hash)? == *hash => Ok(Existing::Same),
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

/// The checksum of a file, by the algorithm of another.
pub(super) fn checksum(path: &Path, like: &Hash) -> io::Result<Hash> {
    let (mut file, mut hasher) = (File::open(path)?, Hasher::new(like.algorithm));
    let mut chunk = vec![0; CHUNK];
    loop {
        match file.read(&mut chunk)? {
            0 => return Ok(hasher.finish()),
            n => hasher.update(&chunk[..n]),
        }
    }
}

/// The CRC-32C of a range of a file.
pub(super) fn crc32c_of(file: &File, from: u64, to: u64) -> io::Result<u32> {
    let mut crc = Crc::default();
    let (mut at, mut chunk) = (from, vec![0; CHUNK]);
    while at < to {
        let n = (to - at).min(CHUNK as u64) as usize;
        file.read_exact_at(&mut chunk[..n], at)?;
        crc.update(&chunk[..n]);
        at += n as u64;
    }
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
