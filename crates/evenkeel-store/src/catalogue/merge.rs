//! What mirrors have in common under a key.

use std::sync::Arc;

use super::{CatalogueObject, Copy, Remark, Trust};
use crate::{Hash, Source};

/// Decides which copies are the same.
pub(super) struct Merger {
    sources: Vec<Arc<dyn Source>>,
    trust: Trust,
    /// The bytes that each source serves alone because they cannot be compared.
    alone: Vec<u64>,
    n_listed: Vec<usize>,
    n_keys: usize,
    n_uncompared: usize,
    differs: Vec<Remark>,
}

impl Merger {
    pub(super) fn new(sources: Vec<Arc<dyn Source>>, trust: Trust) -> Self {
        let n = sources.len();
        Self {
            sources,
            trust,
            alone: vec![0; n],
            n_listed: vec![0; n],
            n_keys: 0,
            n_uncompared: 0,
            differs: Vec::new(),
        }
    }

    /// Merges the copies under a key. The first of them, in the order in which the mirrors were given, decides.
    pub(super) fn merge(&mut self, key: String, copies: Vec<Copy>) -> CatalogueObject {
        self.n_keys += 1;
        copies.iter().for_each(|copy| self.n_listed[copy.source] += 1);
        let (mut same, mut uncompared) = (Vec::new(), Vec::new());
        let mut hashes: Vec<Hash> = Vec::new();
        for copy in copies {
            let object = &copy.object;
            let first: Option<&Copy> = same.first();
            let agree = match first {
                None => Some(true),
                Some(first) if first.object.bytes != object.bytes => Some(false),
                Some(_) => agree(&hashes, &object.hashes)
                    .or((self.trust == Trust::Sizes || object.bytes == 0).then_some(true)),
            };
            match agree {
                Some(true) => {
                    let is_new = |hash: &&Hash| hashes.iter().all(|known| known.algorithm != hash.algorithm);
                    let new: Vec<Hash> = object.hashes.iter().filter(is_new).cloned().collect();
                    hashes.extend(new);
                    same.push(copy);
                }
                Some(false) => {
                    let server = self.name(copy.source);
                    self.differs.push(Remark::Differs { key: key.clone(), server });
                }
                None => uncompared.push(copy),
            }
        }
        let bytes = same.first().map_or(0, |copy: &Copy| copy.object.bytes);
        if !uncompared.is_empty() {
            self.n_uncompared += 1;
            // Only one of them, or those known to be the same, so that versions are never mixed. Of these the one that
            // has least to serve so far.
            let of = |copies: &[Copy], alone: &[u64]| copies.iter().map(|copy| alone[copy.source]).min();
            let best = uncompared.iter().min_by_key(|copy| self.alone[copy.source]).cloned();
            if let Some(other) = best.filter(|other| Some(self.alone[other.source]) < of(&same, &self.alone))
            {
                hashes.clone_from(&other.object.hashes);
                same = vec![other];
            }
            same.iter().for_each(|copy| self.alone[copy.source] += bytes / same.len() as u64);
        }
        let pieces = same.iter().find_map(|copy: &Copy| copy.object.pieces.clone());
        CatalogueObject { key, bytes, hashes, pieces, copies: same }
    }

    fn name(&self, source: usize) -> String {
        self.sources[source].servers().into_iter().next().unwrap_or_default()
    }

    /// What the owner should know. Who has not listed everything may lack nothing.
    pub(super) fn remarks(self, is_complete: &[bool]) -> Vec<Remark> {
        let lacks = |source: usize| is_complete[source] && self.n_listed[source] < self.n_keys;
        let lacking = (0..self.sources.len()).filter(|&source| lacks(source));
        let lacks = lacking.map(|source| Remark::Lacks {
            server: self.name(source),
            n_objects: self.n_keys - self.n_listed[source],
        });
        let uncompared =
            (self.n_uncompared > 0).then_some(Remark::Uncompared { n_objects: self.n_uncompared });
        let (lacks, uncompared): (Vec<Remark>, _) = (lacks.collect(), uncompared);
        self.differs.into_iter().chain(lacks).chain(uncompared).collect()
    }
}

/// Whether checksums agree; `None` if they have no algorithm in common.
fn agree(ours: &[Hash], theirs: &[Hash]) -> Option<bool> {
    let common = ours.iter().filter_map(|our| {
        theirs.iter().find(|their| their.algorithm == our.algorithm).map(|their| their == our)
    });
    common.reduce(|a, b| a && b)
}
