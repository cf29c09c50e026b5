//! Compares a folder with a data set, without reading the data set: by size and by every checksum that is known.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use evenkeel_store::{Catalogue, CatalogueObject, Hasher};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::destination::Destination;
use super::get::{Failure, GetError};
use super::pieces::broken;

/// Bytes read at once.
const CHUNK: usize = 1 << 20;

/// What a folder has of a data set.
#[derive(Clone, Debug, Default)]
pub struct Verification {
    /// Objects that are there, with every checksum that is known of them.
    pub n_right: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Objects that are not there.
    pub missing: Vec<String>,
    /// Objects that are not what they should be, and why.
    pub differing: Vec<Failure>,
    /// Objects of the right size that have no checksum.
    pub unverifiable: Vec<String>,
    /// Whether it was interrupted before everything was looked at.
    pub was_stopped: bool,
}

enum Found {
    Right,
    Missing,
    Differs(String),
    Unverifiable,
    Stopped,
}

/// Compares a folder with a data set. Nothing is written, and nothing is transferred.
pub async fn verify(
    catalogue: Arc<Catalogue>,
    path: &Path,
    stop: watch::Receiver<bool>,
) -> Result<Verification, GetError> {
    let at = |source: io::Error| GetError::Destination { path: path.to_owned(), source };
    if !fs::metadata(path).map_err(at)?.is_dir() {
        return Err(at(io::Error::new(ErrorKind::NotADirectory, "it is no folder; name the one to verify")));
    }
    let destination = Destination::at(path);
    let next = Arc::new(AtomicUsize::new(0));
    let mut tasks = JoinSet::new();
    for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
        let (catalogue, destination) = (Arc::clone(&catalogue), destination.clone());
        let (next, stop) = (Arc::clone(&next), stop.clone());
        tasks.spawn_blocking(move || {
            let mut found = Vec::new();
            while let number = next.fetch_add(1, Ordering::Relaxed)
                && number < catalogue.n_objects()
            {
                let is_stopped = || *stop.borrow();
                found.push((number, look_at(&catalogue, number, &destination, &is_stopped)));
            }
            found
        });
    }
    let mut found = Vec::new();
    while let Some(done) = tasks.join_next().await {
        found.extend(done.map_err(|error| at(io::Error::other(error)))?);
    }
    found.sort_unstable_by_key(|(number, _)| *number);
    let mut verification = Verification::default();
    for (number, what) in found {
        let (key, bytes) = (catalogue.key(number), catalogue.bytes(number));
        match what {
            Found::Right => {
                verification.n_right += 1;
                verification.bytes += bytes;
            }
            Found::Missing => verification.missing.push(key.to_owned()),
            Found::Differs(why) => verification.differing.push(Failure { key: key.to_owned(), why }),
            Found::Unverifiable => verification.unverifiable.push(key.to_owned()),
            Found::Stopped => verification.was_stopped = true,
        }
    }
    Ok(verification)
}

fn look_at(
    catalogue: &Catalogue,
    number: usize,
    destination: &Destination,
    is_stopped: &dyn Fn() -> bool,
) -> Found {
    let mut object = catalogue.object(number);
    let Ok(place) = destination.place(&object.key) else { return Found::Missing };
    let compared = compare(&object, &place.path, is_stopped).and_then(|found| match found {
        Found::Unverifiable if !is_stopped() => {
            object.hashes.extend(Handle::current().block_on(catalogue.hash(&object)));
            if object.hashes.is_empty() { Ok(found) } else { compare(&object, &place.path, is_stopped) }
        }
        found => Ok(found),
    });
    compared.unwrap_or_else(|error| Found::Differs(format!("cannot read it: {error}")))
}

fn compare(object: &CatalogueObject, path: &Path, is_stopped: &dyn Fn() -> bool) -> io::Result<Found> {
    let metadata = match fs::symlink_metadata(path) {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(Found::Missing);
        }
        metadata => metadata?,
    };
    if !metadata.is_file() {
        return Ok(Found::Differs("it is no file".to_owned()));
    }
    if metadata.len() != object.bytes {
        return Ok(Found::Differs(format!("it has {} bytes instead of {}", metadata.len(), object.bytes)));
    }
    if object.hashes.is_empty() && object.pieces.is_none() {
        return Ok(if object.bytes == 0 { Found::Right } else { Found::Unverifiable });
    }
    let (mut file, mut chunk) = (File::open(path)?, vec![0; CHUNK.min(object.bytes as usize + 1)]);
    let mut hashers: Vec<Hasher> = object.hashes.iter().map(|hash| Hasher::new(hash.algorithm)).collect();
    loop {
        if is_stopped() {
            return Ok(Found::Stopped);
        }
        match file.read(&mut chunk)? {
            0 => break,
            n => hashers.iter_mut().for_each(|hasher| hasher.update(&chunk[..n])),
        }
    }
    for (hasher, hash) in hashers.into_iter().zip(&object.hashes) {
        if hasher.finish() != *hash {
            return Ok(Found::Differs(format!("its {} is wrong", hash.algorithm)));
        }
    }
    Ok(match broken(object, false, path)?.first() {
        None => Found::Right,
        Some(piece) => Found::Differs(format!("bytes {} to {} are damaged", piece.start, piece.end - 1)),
    })
}
