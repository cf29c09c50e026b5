//! Damaged pieces of objects: which they are, and who is asked for them again.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::Path;

use evenkeel_store::{Catalogue, CatalogueObject, Pieces};

use super::destination::checksum;
use super::driver::Served;

/// Where an object is damaged, by the checksums of its pieces. If a checksum of all of it is wrong, its pieces tell where;
/// else they are verified if they say more.
pub(super) fn broken(object: &CatalogueObject, is_wrong: bool, path: &Path) -> io::Result<Vec<Range<u64>>> {
    let pieces = if is_wrong { object.pieces.as_deref() } else { to_verify(object) };
    match pieces {
        Some(pieces) => damaged(&File::open(path)?, object.bytes, pieces),
        None => Ok(Vec::new()),
    }
}

/// The checksums of an object's pieces, unless a checksum of all of it says at least as much.
fn to_verify(object: &CatalogueObject) -> Option<&Pieces> {
    let pieces = object.pieces.as_deref()?;
    // The stronger algorithms come first.
    let is_covered = object.hashes.iter().any(|hash| hash.algorithm <= pieces.algorithm());
    (!is_covered).then_some(pieces)
}

/// The ranges of the pieces of a file of `bytes` bytes whose checksum is wrong.
fn damaged(file: &File, bytes: u64, pieces: &Pieces) -> io::Result<Vec<Range<u64>>> {
    let (mut damaged, mut at) = (Vec::new(), 0_u64);
    for hash in pieces.hashes() {
        let range = at..bytes.min(at.saturating_add(pieces.piece_bytes()));
        at = range.end;
        if checksum(file, range.clone(), hash)? != *hash {
            damaged.push(range);
        }
    }
    Ok(damaged)
}

/// All pieces that arrived damaged.
#[derive(Debug, Default)]
pub(super) struct Repairs {
    /// By object, and by where they begin.
    of_object: HashMap<usize, BTreeMap<u64, Repair>>,
}

impl Repairs {
    /// Whether an object has any.
    pub(super) fn has(&self, object: usize) -> bool {
        self.of_object.contains_key(&object)
    }

    /// Those of an object that are in these ranges.
    pub(super) fn of(&self, object: usize, ranges: &[Range<u64>]) -> impl Iterator<Item = &Repair> {
        let all = self.of_object.get(&object).into_iter().flat_map(BTreeMap::values);
        all.filter(move |repair| overlaps(ranges, &repair.range))
    }

    /// All of an object is read again.
    pub(super) fn forget(&mut self, object: usize) {
        self.of_object.remove(&object);
    }

    /// Pieces of an object arrived damaged. Says who sent them, and decides who is asked next: others, if possible. If a
    /// piece is damaged wherever it is, returns so.
    pub(super) fn add(
        &mut self,
        catalogue: &Catalogue,
        served: &[Served],
        object: usize,
        ranges: &[Range<u64>],
        told: &mut Vec<String>,
    ) -> Result<(), String> {
        let known = catalogue.object(object);
        let senders: Vec<Vec<usize>> = ranges.iter().map(|range| senders(served, object, range)).collect();
        let mut n_damaged_by = vec![0_u64; catalogue.servers().len()];
        for senders in &senders {
            if let [only] = senders.as_slice() {
                n_damaged_by[*only] += 1;
            }
        }
        let repairs = self.of_object.entry(object).or_default();
        let mut of_senders: BTreeMap<Vec<usize>, (usize, u64)> = BTreeMap::new();
        let mut hopeless = None;
        for (range, senders) in ranges.iter().zip(senders) {
            let holders = catalogue.servers_of(&known, range);
            let repair = repairs.entry(range.start).or_insert_with(|| Repair::new(range.clone()));
            if !repair.blame(&senders, &holders, &n_damaged_by) {
                hopeless = hopeless.or(Some(range));
            }
            let (n_pieces, bytes) = of_senders.entry(senders).or_default();
            (*n_pieces, *bytes) = (*n_pieces + 1, *bytes + range.end - range.start);
        }
        let kind = known.pieces.as_ref().map(|pieces| pieces.algorithm().to_string()).unwrap_or_default();
        for (senders, (n_pieces, bytes)) in of_senders {
            let what = if n_pieces == 1 { "a piece".to_owned() } else { format!("{n_pieces} pieces") };
            let senders = names(catalogue, &senders);
            told.push(format!(
                "{}: {what} ({bytes} bytes) had a wrong {kind}, as sent by {senders}",
                known.key
            ));
        }
        match hopeless {
            None => Ok(()),
            Some(range) => {
                let last = range.end - 1;
                Err(format!("bytes {} to {last} have a wrong {kind} at every server", range.start))
            }
        }
    }
}

/// The servers that sent bytes of this range of an object.
pub(super) fn senders(served: &[Served], object: usize, range: &Range<u64>) -> Vec<usize> {
    let range = std::slice::from_ref(range);
    let of = |served: &&Served| served.object == object && overlaps(range, &served.range);
    let mut senders: Vec<usize> = served.iter().filter(of).map(|served| served.server).collect();
    senders.sort_unstable();
    senders.dedup();
    senders
}

/// The names of servers, for people.
pub(super) fn names(catalogue: &Catalogue, servers: &[usize]) -> String {
    let names: Vec<&str> = servers.iter().map(|&server| catalogue.servers()[server].as_str()).collect();
    if names.is_empty() { "somebody in an earlier run".to_owned() } else { names.join(", ") }
}

/// Whether a range has bytes in common with one of these.
pub(super) fn overlaps(ranges: &[Range<u64>], range: &Range<u64>) -> bool {
    ranges.iter().any(|other| range.start < other.end && other.start < range.end)
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
    fn new(range: Range<u64>) -> Self {
        Self { range, asked: Vec::new(), suspects: Vec::new(), guilty: Vec::new() }
    }

    /// It arrived damaged from these servers. Those who have sent nothing of it are asked next; if there is nobody else,
    /// the others, one after the other, so that the guilty are found: first those that are known for the fewest damaged
    /// pieces. Returns false if all are guilty.
    fn blame(&mut self, senders: &[usize], holders: &[usize], n_damaged_by: &[u64]) -> bool {
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

    use evenkeel_store::{Algorithm, Hasher};

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
