//! Listings of mirrors, and what they have in common.

use futures_util::TryStreamExt;

use super::packed::Packed;
use super::{CatalogueObject, Copy, Remark, Trust};
use crate::error::StoreError;
use crate::{Hash, Source, Unreadable};

/// What is in a source, each object with one copy.
#[derive(Debug, Default)]
pub(super) struct Listing {
    pub(super) objects: Packed,
    pub(super) unreadable: Vec<Unreadable>,
}

/// Lists a source, page by page.
pub(super) async fn list(source: &dyn Source) -> Result<Listing, StoreError> {
    let (mut pages, mut listing) = (source.list(), Listing::default());
    while let Some(page) = pages.try_next().await? {
        for object in page.objects {
            let (key, bytes, hashes) = (object.key.clone(), object.bytes, object.hashes.clone());
            let (pieces, copies) = (object.pieces.clone(), vec![Copy { source: 0, object }]);
            listing.objects.push(&CatalogueObject { key, bytes, hashes, pieces, copies });
        }
        listing.unreadable.extend(page.unreadable);
    }
    Ok(listing)
}

/// Merges the listings of mirrors, by key.
pub(super) fn merge(
    sources: &[Box<dyn Source>],
    trust: Trust,
    mut listings: Vec<Packed>,
) -> (Packed, Vec<Remark>) {
    let mut has_each_key_once = true;
    for listing in &mut listings {
        has_each_key_once &= listing.sort();
    }
    if listings.len() == 1 && has_each_key_once {
        let mut only = listings.remove(0);
        only.shrink();
        return (only, Vec::new());
    }
    let (mut merger, mut objects) = (Merger::new(sources, trust), Packed::default());
    let mut next = vec![0; listings.len()];
    let key = |next: &[usize], source: usize| {
        let listing: &Packed = &listings[source];
        (next[source] < listing.len()).then(|| listing.key(next[source]))
    };
    while let Some(least) = (0..listings.len()).filter_map(|source| key(&next, source)).min() {
        let mut copies = Vec::new();
        for source in 0..listings.len() {
            while key(&next, source) == Some(least) {
                let listed = listings[source].get(next[source]).copies;
                copies.extend(listed.into_iter().map(|copy| Copy { source, ..copy }));
                next[source] += 1;
            }
        }
        objects.push(&merger.merge(least.to_owned(), copies));
    }
    objects.shrink();
    (objects, merger.remarks())
}

/// Decides which copies are the same.
struct Merger<'a> {
    sources: &'a [Box<dyn Source>],
    trust: Trust,
    /// The bytes that each source serves alone because they cannot be compared.
    alone: Vec<u64>,
    n_listed: Vec<usize>,
    n_keys: usize,
    n_uncompared: usize,
    differs: Vec<Remark>,
}

impl<'a> Merger<'a> {
    fn new(sources: &'a [Box<dyn Source>], trust: Trust) -> Self {
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
    fn merge(&mut self, key: String, copies: Vec<Copy>) -> CatalogueObject {
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

    fn remarks(self) -> Vec<Remark> {
        let lacking = (0..self.sources.len()).filter(|&source| self.n_listed[source] < self.n_keys);
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
