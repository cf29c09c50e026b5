//! Damaged pieces of objects: which they are, and who is asked for them again.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use evenkeel_store::{CatalogueObject, Hasher, Pieces};

/// Bytes read at once.
const CHUNK: usize = 1 << 20;

/// The checksums of an object's pieces, unless a checksum of all of it says at least as much.
pub(super) fn to_verify(object: &CatalogueObject) -> Option<&Pieces> {
    let pieces = object.pieces.as_deref()?;
    // The stronger algorithms come first.
    let is_covered = object.hashes.iter().any(|hash| hash.algorithm <= pieces.algorithm());
    (!is_covered).then_some(pieces)
}

/// The ranges of the pieces of a file of `bytes` bytes whose checksum is wrong.
pub(super) fn damaged(file: &File, bytes: u64, pieces: &Pieces) -> io::Result<Vec<Range<u64>>> {
    let (mut damaged, mut chunk) = (Vec::new(), vec![0; CHUNK]);
    let mut at = 0_u64;
    for hash in pieces.hashes() {
        let range = at..bytes.min(at.saturating_add(pieces.piece_bytes()));
        let mut hasher = Hasher::new(hash.algorithm);
        while at < range.end {
            let n = (range.end - at).min(CHUNK as u64) as usize;
            file.read_exact_at(&mut chunk[..n], at)?;
            hasher.update(&chunk[..n]);
            at += n as u64;
        }
        if hasher.finish() != *hash {
            damaged.push(range);
        }
    }
    Ok(damaged)
}

/// A piece that arrived damaged, and what is known of those who sent it.
#[derive(Debug)]
pub(super) struct Repair {
    pub(super) range: Range<u64>,
    /// Who is asked for it now.
    pub(super) asked: Vec<usize>,
    /// Who sent a part of it while it was damaged.
    suspects: Vec<usize>,
    /// Who sent all of it while it was damaged.
    guilty: Vec<usize>,
}

impl Repair {
    pub(super) fn new(range: Range<u64>) -> Self {
        Self { range, asked: Vec::new(), suspects: Vec::new(), guilty: Vec::new() }
    }

    /// It arrived damaged from these servers. Those who have sent nothing of it are asked next; if there is nobody else,
    /// the others, one after the other, so that the guilty are found: first those that are known for the fewest damaged
    /// pieces. Returns false if all are guilty.
    pub(super) fn blame(&mut self, senders: &[usize], holders: &[usize], n_damaged_by: &[u64]) -> bool {
        if let [only] = senders {
            self.guilty.push(*only);
        }
        self.suspects.extend(senders);
        let of = |known: &[usize]| -> Vec<usize> {
            holders.iter().copied().filter(|server| !known.contains(server)).collect()
        };
        self.asked = of(&self.suspects);
        if self.asked.is_empty() {
            let left = of(&self.guilty);
            self.asked.extend(left.into_iter().min_by_key(|&server| n_damaged_by[server]));
        }
        !self.asked.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use evenkeel_store::Algorithm;

    use super::*;

    #[test]
    fn damaged_pieces_are_found() {
        let data: Vec<u8> = (0..100).collect();
        let hash = |piece: &[u8]| {
            let mut hasher = Hasher::new(Algorithm::Sha1);
            hasher.update(piece);
            hasher.finish()
        };
        let pieces = Pieces::new(100, 30, data.chunks(30).map(hash).collect()).unwrap();
        let damaged_at = |wrong: &[usize]| {
            let (mut file, mut data) = (tempfile::tempfile().unwrap(), data.clone());
            wrong.iter().for_each(|&at| data[at] ^= 1);
            file.write_all(&data).unwrap();
            damaged(&file, 100, &pieces).unwrap()
        };
        assert_eq!(damaged_at(&[]), []);
        assert_eq!(damaged_at(&[0, 29, 99]), [0..30, 90..100]);
        assert_eq!(damaged_at(&[30]), vec![30..60]);
        assert_eq!(Pieces::new(100, 30, pieces.hashes()[1..].to_vec()), None);
        assert_eq!(Pieces::new(100, 0, pieces.hashes().to_vec()), None);
    }

    /// Servers 0 and 1 send damaged data, 2 does not: it is found, and each of the others blamed at most twice.
    #[test]
    fn the_innocent_are_found() {
        let (holders, none) = ([0, 1, 2], [0, 0, 0]);
        let mut repair = Repair::new(0..1);
        assert!(repair.blame(&[0, 1], &holders, &none));
        assert_eq!(repair.asked, [2]);
        let mut repair = Repair::new(0..1);
        assert!(repair.blame(&[0, 1, 2], &holders, &none));
        assert_eq!(repair.asked, [0]);
        assert!(repair.blame(&[0], &holders, &none));
        assert_eq!(repair.asked, [1]);
        assert!(repair.blame(&[1], &holders, &none));
        assert_eq!(repair.asked, [2]);
        assert!(!repair.blame(&[2], &holders, &none));
        let mut repair = Repair::new(0..1);
        assert!(repair.blame(&[0, 1, 2], &holders, &[3, 1, 0]));
        assert_eq!(repair.asked, [2]);
        // What an earlier run received may come from anybody.
        assert!(Repair::new(0..1).blame(&[], &holders, &none));
    }
}
