//! Several processes that read one data set into one folder, without talking to each other.
//!
//! Each computes the same plan from the same catalogue, and reads the objects of its own rank. They agree through a file
//! in the destination: the first rank writes a fingerprint of all that the plan depends on, and a rank with another
//! fingerprint stops, since objects would be read twice or not at all. Whoever is the last to be done removes the file.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Seek, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

use evenkeel_store::{Algorithm, Catalogue, Hasher};
use serde::{Deserialize, Serialize};

use super::get::Options;
use super::ranges::Ranges;
use super::work::{Item, cut};

/// The name of the file in the destination.
pub(super) const NAME: &str = ".evenkeel-ranks";
const FORMAT: u32 = 1;
/// A file that is longer was not written by ranks.
const MOST_BYTES: u64 = 1 << 24;

/// One of several processes that read a data set together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rank {
    /// Which one, from 0.
    pub rank: u32,
    /// How many there are.
    pub of: u32,
}

/// The objects that this process reads.
#[derive(Debug)]
pub(super) struct Portion {
    rank: Rank,
    /// The rank that reads each object.
    ranks: Vec<u32>,
    pub(super) n_objects: usize,
    pub(super) bytes: u64,
}

impl Portion {
    /// Nothing yet, for a rank or for all.
    pub(super) fn new(rank: Option<Rank>) -> Self {
        let rank = rank.unwrap_or(Rank { rank: 0, of: 1 });
        Self { rank, ranks: Vec::new(), n_objects: 0, bytes: 0 }
    }

    /// Shares out the objects that are new in a catalogue. Ranks agree if they all do so with the complete one.
    pub(super) fn extend(&mut self, catalogue: &Catalogue) {
        let new = self.ranks.len()..catalogue.n_objects();
        let sizes: Vec<u64> = new.map(|object| catalogue.bytes(object)).collect();
        let ranks = share_out(&sizes, self.rank.of);
        for (_, bytes) in ranks.iter().zip(&sizes).filter(|(of, _)| **of == self.rank.rank) {
            self.n_objects += 1;
            self.bytes = self.bytes.saturating_add(*bytes);
        }
        self.ranks.extend(ranks);
    }

    pub(super) fn has(&self, object: usize) -> bool {
        self.ranks[object] == self.rank.rank
    }

    /// The objects from this one on that are read together: so many for each rank, and the same for all of them.
    pub(super) fn window(&self, first: usize, n_for_each: usize) -> Range<usize> {
        let step = n_for_each.saturating_mul(self.rank.of as usize).max(1);
        first..self.ranks.len().min(first.saturating_add(step))
    }

    /// What the other ranks are to read of these objects, cut like everything else: rank and item, by object.
    pub(super) fn others(
        &self,
        catalogue: &Catalogue,
        objects: Range<usize>,
        range_bytes: u64,
    ) -> Vec<(u32, Item)> {
        let mut others = Vec::new();
        for object in objects.filter(|&object| !self.has(object)) {
            let mut items = Vec::new();
            cut(catalogue, object, &Ranges::default(), range_bytes, &mut items);
            others.extend(items.into_iter().map(|item| (self.ranks[object], item)));
        }
        others
    }
}

/// Which rank reads each object of these sizes: about as many bytes for each as whole objects allow, the largest objects
/// first.
fn share_out(sizes: &[u64], of: u32) -> Vec<u32> {
    if of == 1 {
        return vec![0; sizes.len()];
    }
    let mut by_size: Vec<usize> = (0..sizes.len()).collect();
    by_size.sort_by_key(|&object| Reverse(sizes[object]));
    let mut least: BinaryHeap<Reverse<(u64, u64, u32)>> = (0..of).map(|rank| Reverse((0, 0, rank))).collect();
    let mut ranks = vec![0; sizes.len()];
    for object in by_size {
        let Some(Reverse((bytes, n_objects, rank))) = least.pop() else { break };
        ranks[object] = rank;
        least.push(Reverse((bytes.saturating_add(sizes[object]), n_objects + 1, rank)));
    }
    ranks
}

/// A line of the file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum Entry {
    Plan { format: u32, ranks: u32, fingerprint: String },
    Done { done: u32 },
}

/// The agreement of all ranks.
#[derive(Debug)]
pub(super) struct Agreement {
    path: PathBuf,
    rank: Rank,
    /// Whether this rank was done before.
    pub(super) is_done: bool,
}

impl Agreement {
    /// Agrees with the other ranks on the plan, or fails if they have another.
    pub(super) fn join(
        destination: &Path,
        rank: Rank,
        catalogue: &Catalogue,
        options: &Options,
    ) -> io::Result<Self> {
        let (path, fingerprint) = (destination.join(NAME), fingerprint(rank, catalogue, options));
        let mut agreement = Self { path, rank, is_done: false };
        let mut file = agreement.lock()?;
        let entries = read(&mut file)?;
        match entries.first() {
            None => {
                // What was torn when a machine stopped says nothing.
                file.set_len(0)?;
                append(&mut file, &Entry::Plan { format: FORMAT, ranks: rank.of, fingerprint })?;
            }
            Some(Entry::Plan { format: FORMAT, ranks, fingerprint: other })
                if (*ranks, other) == (rank.of, &fingerprint) => {}
            Some(other) => return Err(agreement.differs(other)),
        }
        agreement.is_done =
            entries.iter().any(|entry| matches!(entry, Entry::Done { done } if *done == rank.rank));
        Ok(agreement)
    }

    fn differs(&self, other: &Entry) -> io::Error {
        let what = match other {
            Entry::Plan { ranks, .. } if *ranks != self.rank.of => {
                format!("the plan of {ranks} ranks, and not of {}", self.rank.of)
            }
            _ => "another plan: its ranks see other objects or servers, or have other options".to_owned(),
        };
        let problem = format!(
            "{} has {what}; give all ranks the same sources and options, or remove that file if no rank of the other \
             plan is left",
            self.path.display()
        );
        io::Error::new(ErrorKind::InvalidInput, problem)
    }

    /// Opens the file for this process alone. The lock lasts until the file is closed.
    fn lock(&self) -> io::Result<File> {
        loop {
            let file = OpenOptions::new().read(true).append(true).create(true).open(&self.path)?;
            file.lock()?;
            // The last of all ranks may have removed it meanwhile.
            if super::journal::is_at(&file, &self.path)? {
                return Ok(file);
            }
        }
    }

    /// This rank has read all its objects. Returns whether all others have, too; then nothing is left of the ranks.
    pub(super) fn finish(&self) -> io::Result<bool> {
        let mut file = self.lock()?;
        let mut is_done = vec![false; self.rank.of as usize];
        for entry in read(&mut file)? {
            if let Entry::Done { done } = entry
                && let Some(is_done) = is_done.get_mut(done as usize)
            {
                *is_done = true;
            }
        }
        if !std::mem::replace(&mut is_done[self.rank.rank as usize], true) {
            append(&mut file, &Entry::Done { done: self.rank.rank })?;
        }
        let is_last = is_done.iter().all(|is_done| *is_done);
        if is_last {
            std::fs::remove_file(&self.path)?;
        }
        Ok(is_last)
    }
}

fn append(file: &mut File, entry: &Entry) -> io::Result<()> {
    let mut line = serde_json::to_vec(entry)?;
    line.push(b'\n');
    file.write_all(&line)
}

/// All entries. A line that cannot be read was torn, and what it stood for is done again.
fn read(file: &mut File) -> io::Result<Vec<Entry>> {
    file.rewind()?;
    let lines = BufReader::new(file.take(MOST_BYTES)).split(b'\n');
    let mut entries = Vec::new();
    for line in lines {
        entries.extend(serde_json::from_slice::<Entry>(&line?).ok());
    }
    Ok(entries)
}

/// A hash of all that the plan depends on.
fn fingerprint(rank: Rank, catalogue: &Catalogue, options: &Options) -> String {
    let mut hasher = Hasher::new(Algorithm::Sha256);
    let Options { range_bytes, slots, window, policy, .. } = options;
    let mut text = format!("{FORMAT} {} {range_bytes:?} {slots:?} {window} {:?}\n", rank.of, policy.name);
    for server in catalogue.servers() {
        let _ = writeln!(text, "{server:?} {:?}", options.servers.get(server));
    }
    for object in catalogue.objects() {
        let _ = write!(text, "{:?} {} {:?}", object.key, object.bytes, object.hashes);
        let mut start = 0;
        for end in catalogue.cuts(&object) {
            let _ = write!(text, " {end} {:?}", catalogue.servers_of(&object, &(start..end)));
            start = end;
        }
        text.push('\n');
        hasher.update(text.as_bytes());
        text.clear();
    }
    hasher.update(text.as_bytes());
    hasher.finish().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_shared_out_evenly_and_always_in_the_same_way() {
        let sizes: Vec<u64> = (0..100).map(|k| 1 + k * k % 37).chain([0]).collect();
        let total: u64 = sizes.iter().sum();
        for of in 1..9 {
            let ranks = share_out(&sizes, of);
            assert_eq!(ranks, share_out(&sizes, of));
            let mut bytes = vec![0; of as usize];
            ranks.iter().zip(&sizes).for_each(|(&rank, size)| bytes[rank as usize] += size);
            let mean = total / u64::from(of);
            assert!(bytes.iter().all(|&bytes| bytes.abs_diff(mean) <= 37), "{bytes:?} of {total}");
        }
        assert_eq!(share_out(&[0, 0, 0], 3), [0, 1, 2]);
    }
}
