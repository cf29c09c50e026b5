//! Merges items with equal replica sets, and divides the result among them again.
//!
//! Real systems often have far fewer distinct replica sets than requests: placement groups, few racks, chains of
//! neighbours. Balancing the groups costs the same however many requests or bytes they stand for.

use hashbrown::HashTable;

use super::level::{Items, Placed};
use super::pace::Paces;
use crate::model::{Replicas, ServerId};

/// If one in this many of √n sampled sets repeats another, there are at most about 4√n sets that matter.
const REPEATS: usize = 8;

/// Items merged by their replica set.
#[derive(Debug)]
pub(crate) struct Groups {
    group_of: Vec<u32>,
    ids: Vec<ServerId>,
    ends: Vec<u32>,
    sizes: Vec<u64>,
}

impl Groups {
    /// Whether a sample of the sets has enough repetitions for merging to pay.
    pub(crate) fn promising(items: Items<'_>) -> bool {
        let replicas = items.replicas;
        let n = replicas.len();
        let sample = n.isqrt();
        let mut finder = Finder::new(items.n_servers());
        for k in 0..sample {
            // Irregular steps, so that a period in the input is not mistaken for repetition.
            finder.group(replicas.of((k * sample + mix(k as u64) as usize % sample) % n));
        }
        (sample - finder.ends.len()) * REPEATS > sample
    }

    /// Merges all items.
    pub(crate) fn new(items: Items<'_>) -> Self {
        let mut finder = Finder::new(items.n_servers());
        let mut group_of = Vec::with_capacity(items.replicas.len());
        // Sets of a known width compile to straight-line code.
        let (all, flat) = (0..items.replicas.len(), items.replicas.flat());
        match items.replicas.width() {
            Some(2) => group_of.extend(flat.as_chunks::<2>().0.iter().map(|set| finder.group(set))),
            Some(3) => group_of.extend(flat.as_chunks::<3>().0.iter().map(|set| finder.group(set))),
            _ => group_of.extend(all.map(|i| finder.group(items.replicas.of(i)))),
        }
        let mut sizes = vec![0; finder.ends.len()];
        group_of.iter().enumerate().for_each(|(i, &group)| sizes[group as usize] += items.size(i));
        Self { group_of, ids: finder.ids, ends: finder.ends, sizes }
    }

    /// Whether merging has reduced the items enough to start again with the groups.
    pub(crate) fn worthwhile(&self) -> bool {
        self.sizes.len() * 4 < self.group_of.len()
    }

    /// The groups as items.
    pub(crate) fn items<'a>(&'a self, paces: &'a Paces, total: u64) -> Items<'a> {
        let replicas = Replicas::new(&self.ids, &self.ends, None);
        Items { replicas, sizes: Some(&self.sizes), total, paces }
    }

    /// Divides the shares of each group among its items, in order, so that few items are split.
    pub(crate) fn hand_out(self, items: Items<'_>, mut shares: Vec<u64>) -> Placed {
        let groups = Replicas::new(&self.ids, &self.ends, None);
        let mut cursor: Vec<u32> = (0..groups.len()).map(|g| groups.start(g) as u32).collect();
        let first_left = |cursor: &mut u32, shares: &[u64]| {
            while shares[*cursor as usize] == 0 {
                *cursor += 1;
            }
            *cursor as usize
        };
        let Some(sizes) = items.sizes else {
            // Reuses the memory of the groups.
            let at = self.group_of.into_iter().map(|g| {
                let g = g as usize;
                let k = first_left(&mut cursor[g], &shares);
                shares[k] -= 1;
                self.ids[k]
            });
            return Placed::Whole(at.collect());
        };
        let mut divided = vec![0; items.replicas.flat().len()];
        for (i, (&g, &size)) in self.group_of.iter().zip(sizes).enumerate() {
            let g = g as usize;
            let mut left = size;
            while left > 0 {
                let k = first_left(&mut cursor[g], &shares);
                let taken = left.min(shares[k]);
                let set = items.replicas.of(i).iter();
                let slot = set.enumerate().find(|&(_, &s)| s == self.ids[k]).map_or(0, |(slot, _)| slot);
                divided[items.replicas.start(i) + slot] += taken;
                shares[k] -= taken;
                left -= taken;
            }
        }
        Placed::Divided(divided)
    }
}

/// Known sets are first looked up here, by this many bits of their hash.
const MEMO_BITS: u32 = 14;

/// Numbers distinct sets as they arrive, whatever the order of their members.
struct Finder {
    ids: Vec<ServerId>,
    ends: Vec<u32>,
    known: HashTable<u32>,
    /// For some hashes, the group seen last.
    memo: Vec<Met>,
    /// A random-looking number for each server.
    codes: Vec<u64>,
}

/// A group, and where its set is stored; no group if the set is empty.
#[derive(Clone, Copy, Default)]
struct Met {
    start: u32,
    len: u32,
    group: u32,
}

impl Finder {
    fn new(n_servers: usize) -> Self {
        let codes = (0..n_servers as u64).map(mix).collect();
        let memo = vec![Met::default(); 1 << MEMO_BITS];
        Self { ids: Vec::new(), ends: Vec::new(), known: HashTable::new(), memo, codes }
    }

    // A call for each request would take as long as the rest.
    #[allow(clippy::inline_always)]
    #[inline(always)]
    fn group(&mut self, set: &[ServerId]) -> u32 {
        let hash = hash_of(set, &self.codes);
        let slot = (hash >> (u64::BITS - MEMO_BITS)) as usize;
        let Met { start, len, group } = self.memo[slot];
        if len as usize == set.len()
            && let Some(known) = self.ids.get(start as usize..start as usize + set.len())
            // Compares without a branch for each member.
            && known.iter().zip(set).fold(0, |differ, (a, b)| differ | (a.0 ^ b.0)) == 0
        {
            return group;
        }
        let group = self.find(set, hash);
        let sets = Replicas::new(&self.ids, &self.ends, None);
        self.memo[slot] = Met { start: sets.start(group as usize) as u32, len: set.len() as u32, group };
        group
    }

    fn find(&mut self, set: &[ServerId], hash: u64) -> u32 {
        let Self { ids, ends, known, codes, .. } = self;
        let sets = Replicas::new(ids, ends, None);
        if let Some(&group) = known.find(hash, |&g| same_members(sets.of(g as usize), set)) {
            return group;
        }
        let group = ends.len() as u32;
        ids.extend_from_slice(set);
        ends.push(ids.len() as u32);
        let sets = Replicas::new(ids, ends, None);
        known.insert_unique(hash, group, |&g| hash_of(sets.of(g as usize), codes));
        group
    }
}

/// Adds up codes, so that the order of the members does not matter.
fn hash_of(set: &[ServerId], codes: &[u64]) -> u64 {
    set.iter().fold(0, |sum: u64, s| sum.wrapping_add(codes[s.index()]))
}

/// Whether two sets without repetition are equal.
fn same_members(a: &[ServerId], b: &[ServerId]) -> bool {
    a.len() == b.len() && (a.iter().eq(b) || a.iter().all(|s| b.contains(s)))
}

/// The finaliser of splitmix64.
fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}
