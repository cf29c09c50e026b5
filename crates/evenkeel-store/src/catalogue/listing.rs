//! Lists mirrors of the same data, and joins what they list while they list it.
//!
//! An object is settled when no mirror will list its key any more: those that list by key have got past it, and the
//! others are done. Settled objects can be read while the rest is being listed.

use std::sync::Arc;

use futures_util::stream::{self, StreamExt};

use super::merge::Merger;
use super::packed::Packed;
use super::{Catalogue, CatalogueObject, Copy, Remark, State, Trust};
use crate::error::StoreError;
use crate::{Page, Source, Unreadable};

/// Lists mirrors. Whenever more is settled, shows all that is. Returns everything in the end.
pub(super) async fn list(
    sources: Vec<Arc<dyn Source>>,
    trust: Trust,
    is_wanted: &(dyn Fn(&str) -> bool + Sync),
    mut show: Option<&mut (dyn FnMut(Catalogue) + Send)>,
) -> Catalogue {
    let mut listing = Listing::new(sources.clone(), trust);
    let pages = sources.iter().enumerate().map(|(source, mirror)| {
        let end = stream::iter([None]);
        mirror.list().map(Some).chain(end).map(move |page| (source, page)).boxed()
    });
    let mut pages = stream::select_all(pages);
    while let Some((source, page)) = pages.next().await {
        match page {
            Some(Ok(page)) => listing.add(source, page, is_wanted),
            Some(Err(error)) => listing.end(source, Err(error)),
            None => listing.end(source, Ok(())),
        }
        if let Some(show) = &mut show
            && listing.settle()
        {
            show(listing.catalogue.clone());
        }
    }
    listing.finish()
}

struct Listing {
    catalogue: Catalogue,
    mirrors: Vec<Mirror>,
    merger: Merger,
    /// The last key that is settled, if mirrors list by key.
    settled: Option<String>,
    unreadable: Vec<Unreadable>,
}

/// A mirror, and what of its listing is not settled.
#[derive(Default)]
struct Mirror {
    /// Objects with one copy each. Those before `next` are settled.
    listed: Packed,
    next: usize,
    /// Whether keys came out of order, or twice.
    is_unsorted: bool,
    /// What was listed when its key was settled already, since the mirror does not list by key as it should.
    late: Packed,
    /// The last of its keys.
    reached: Option<String>,
    has_answered: bool,
    end: Option<Result<(), StoreError>>,
}

impl Listing {
    fn new(sources: Vec<Arc<dyn Source>>, trust: Trust) -> Self {
        let mirrors = sources.iter().map(|_| Mirror::default()).collect();
        let merger = Merger::new(sources.clone(), trust);
        let catalogue = Catalogue::new(sources);
        Self { catalogue, mirrors, merger, settled: None, unreadable: Vec::new() }
    }

    fn add(&mut self, source: usize, page: Page, is_wanted: &(dyn Fn(&str) -> bool + Sync)) {
        let mirror = &mut self.mirrors[source];
        mirror.has_answered = true;
        for object in page.objects {
            if !is_wanted(&object.key) {
                self.catalogue.n_left_out += 1;
                continue;
            }
            let (key, bytes, hashes) = (object.key.clone(), object.bytes, object.hashes.clone());
            let (pieces, copies) = (object.pieces.clone(), vec![Copy { source, object }]);
            let object = CatalogueObject { key, bytes, hashes, pieces, copies };
            if self.settled.as_ref().is_some_and(|settled| object.key <= *settled) {
                mirror.late.push(&object);
                continue;
            }
            mirror.listed.push(&object);
            if mirror.reached.as_ref().is_some_and(|reached| object.key <= *reached) {
                mirror.is_unsorted = true;
            } else {
                mirror.reached = Some(object.key);
            }
        }
        self.unreadable.extend(page.unreadable);
    }

    fn end(&mut self, source: usize, end: Result<(), StoreError>) {
        self.mirrors[source].end.get_or_insert(end);
    }

    /// Settles what can be settled. Returns whether there was anything.
    fn settle(&mut self) -> bool {
        let is_only = self.mirrors.len() == 1;
        let mut until: Option<&String> = None;
        for (mirror, source) in self.mirrors.iter().zip(&self.catalogue.sources) {
            match &mirror.reached {
                _ if mirror.end.is_some() => {}
                Some(reached) if source.lists_by_key() => {
                    until = Some(until.map_or(reached, |until| until.min(reached)));
                }
                // There is nobody to compare it with.
                _ if is_only => {}
                _ => return false,
            }
        }
        let until = until.cloned();
        let part = self.take(until.as_deref());
        self.settled = until.or(self.settled.take());
        self.append(part)
    }

    /// Joins what all mirrors have listed up to this key, or all of it.
    fn take(&mut self, until: Option<&str>) -> Packed {
        if let [only] = &mut *self.mirrors
            && (!only.is_unsorted || only.listed.sort())
        {
            let mut all = only.clear();
            all.shrink();
            return all;
        }
        for mirror in self.mirrors.iter_mut().filter(|mirror| mirror.is_unsorted) {
            mirror.is_unsorted = !mirror.listed.sort();
        }
        let mut part = Packed::default();
        let is_settled = |key: &&str| until.is_none_or(|until| *key <= until);
        while let Some(least) = self.mirrors.iter().filter_map(Mirror::key).min().filter(is_settled) {
            let (key, mut copies) = (least.to_owned(), Vec::new());
            for mirror in &mut self.mirrors {
                while mirror.key() == Some(&key) {
                    copies.extend(mirror.next());
                }
            }
            part.push(&self.merger.merge(key, copies));
        }
        part.shrink();
        part
    }

    /// Adds settled objects. Returns whether there are any.
    fn append(&mut self, part: Packed) -> bool {
        if part.len() == 0 {
            return false;
        }
        self.number_servers();
        self.catalogue.objects.append(part);
        true
    }

    fn number_servers(&mut self) {
        // A mirror that has never answered is not used.
        let is_used = |mirror: &Mirror| mirror.has_answered || mirror.is_complete();
        let is_used: Vec<bool> = self.mirrors.iter().map(is_used).collect();
        self.catalogue.number_servers(&is_used);
    }

    /// All mirrors are done.
    fn finish(mut self) -> Catalogue {
        let part = self.take(None);
        self.append(part);
        let is_known = |key: &str| self.catalogue.objects.any_from(key, |other| other == key);
        for mirror in &mut self.mirrors {
            mirror.listed = std::mem::take(&mut mirror.late);
            mirror.listed.retain(|object| !is_known(&object.key));
            mirror.is_unsorted = true;
        }
        let late = self.take(None);
        self.append(late);
        self.number_servers();
        let Self { mut catalogue, mirrors, merger, mut unreadable, .. } = self;
        let is_complete: Vec<bool> = mirrors.iter().map(Mirror::is_complete).collect();
        let (mut remarks, mut last_error) = (Vec::new(), None);
        for mirror in mirrors {
            if let Some(Err(error)) = mirror.end {
                let (why, is_used) = (error.to_string(), mirror.has_answered);
                remarks.push(Remark::Unlisted { why, is_used });
                last_error = Some(error);
            }
        }
        let cannot_be_read = unreadable.iter().map(|found| found.error.to_string());
        remarks.extend(cannot_be_read.map(|why| Remark::Unreadable { why }));
        remarks.extend(merger.remarks(&is_complete));
        // What another mirror has is read there.
        unreadable.retain(|found| {
            let is_there = |key: &str| match found.key.ends_with('/') {
                true => key.starts_with(&found.key),
                false => key == found.key,
            };
            !catalogue.objects.any_from(&found.key, is_there)
        });
        catalogue.state = match last_error.filter(|_| !is_complete.contains(&true)) {
            None => State::Complete,
            Some(error) => State::BrokenOff(error),
        };
        (catalogue.unreadable, catalogue.remarks) = (unreadable, remarks);
        catalogue
    }
}

impl Mirror {
    fn is_complete(&self) -> bool {
        matches!(self.end, Some(Ok(())))
    }

    /// The least key that is not settled.
    fn key(&self) -> Option<&str> {
        (self.next < self.listed.len()).then(|| self.listed.key(self.next))
    }

    fn next(&mut self) -> Vec<Copy> {
        let copies = self.listed.get(self.next).copies;
        self.next += 1;
        if self.next == self.listed.len() {
            self.clear();
        }
        copies
    }

    fn clear(&mut self) -> Packed {
        (self.next, self.is_unsorted) = (0, false);
        std::mem::take(&mut self.listed)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::ops::Range;

    use futures_util::future::BoxFuture;
    use futures_util::stream::BoxStream;

    use super::*;
    use crate::{Body, Object};

    /// Storage that can only be listed: in these pages, and then perhaps an error.
    #[derive(Clone, Debug)]
    struct Told {
        name: String,
        pages: Vec<Vec<u64>>,
        is_by_key: bool,
        fails: bool,
    }

    impl Source for Told {
        fn servers(&self) -> Vec<String> {
            vec![self.name.clone()]
        }

        fn lists_by_key(&self) -> bool {
            self.is_by_key
        }

        fn list(&self) -> BoxStream<'_, Result<Page, StoreError>> {
            let object =
                |&n: &u64| Object::on_one_server(format!("{n:02}"), format!("{}/{n}", self.name), 1, None);
            let pages = self
                .pages
                .iter()
                .map(move |page| Ok(Page::from(page.iter().map(object).collect::<Vec<Object>>())));
            let error = self.fails.then(|| Err(crate::Problem::TimedOut.at(self.name.as_str())));
            stream::iter(pages.chain(error)).boxed()
        }

        fn read<'a>(
            &'a self,
            _: &'a Object,
            _: usize,
            _: Range<u64>,
        ) -> BoxFuture<'a, Result<Body, StoreError>> {
            Box::pin(async { Err(crate::Problem::NotFound.at(self.name.as_str())) })
        }
    }

    /// Keys with the servers that hold them.
    fn contents(catalogue: &Catalogue) -> BTreeMap<String, Vec<usize>> {
        let of = |object: CatalogueObject| {
            let servers = catalogue.servers_of(&object, &(0..object.bytes));
            (object.key, servers)
        };
        catalogue.objects().map(of).collect()
    }

    fn boxed(mirrors: &[Told]) -> Vec<Box<dyn Source>> {
        mirrors.iter().map(|mirror| Box::new(mirror.clone()) as Box<dyn Source>).collect()
    }

    /// What is shown never changes, only grows, and ends with what a listing as a whole has.
    #[tokio::test]
    async fn what_is_settled_stays() {
        let mut n_early = 0;
        for seed in 0..2000_u64 {
            let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
            let mut draw = |below: u64| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                state % below
            };
            let mut mirrors = Vec::new();
            for number in 0..=draw(3) {
                let mut keys: Vec<u64> = (0..20).filter(|_| draw(3) > 0).collect();
                let is_by_key = draw(4) > 0;
                // Also those that promise to list by key may not do so.
                for _ in 0..if is_by_key { draw(8) / 6 } else { 10 } {
                    let (a, b) =
                        (draw(keys.len().max(1) as u64) as usize, draw(keys.len().max(1) as u64) as usize);
                    if a < keys.len() && b < keys.len() {
                        keys.swap(a, b);
                    }
                }
                let pages = keys.chunks(1 + draw(6) as usize).map(<[u64]>::to_vec).collect();
                mirrors.push(Told { name: format!("m{number}"), pages, is_by_key, fails: draw(6) == 0 });
            }
            let in_order = mirrors.iter().all(|mirror| mirror.pages.concat().is_sorted());
            let whole = Catalogue::of_mirrors(boxed(&mirrors), Trust::Sizes).await;
            let mut shown: Vec<Catalogue> = Vec::new();
            let mut show = |catalogue| shown.push(catalogue);
            Catalogue::list(boxed(&mirrors), Trust::Sizes, &|_| true, &mut show).await;
            for pair in shown.windows(2) {
                let keys =
                    |of: &Catalogue| (0..of.n_objects()).map(|n| of.key(n).to_owned()).collect::<Vec<_>>();
                assert!(keys(&pair[1]).starts_with(&keys(&pair[0])), "seed {seed}");
                assert!(pair[1].servers().starts_with(pair[0].servers()), "seed {seed}");
                assert!(matches!(pair[0].state(), State::Listing));
            }
            n_early += usize::from(shown.len() > 2);
            let last = shown.last().expect("the end is shown");
            match whole {
                Err(_) => assert!(matches!(last.state(), State::BrokenOff(_)), "seed {seed}"),
                Ok(whole) => {
                    assert!(matches!(last.state(), State::Complete), "seed {seed}");
                    assert!(whole.objects().map(|object| object.key).is_sorted(), "seed {seed}");
                    let (whole, shown) = (contents(&whole), contents(last));
                    assert!(shown.keys().eq(whole.keys()), "seed {seed}: {mirrors:?}");
                    assert!(!in_order || shown == whole, "seed {seed}: {mirrors:?}");
                }
            }
            assert_eq!(last.n_objects(), contents(last).len(), "seed {seed}: a key is there twice");
        }
        assert!(n_early > 500, "{n_early}");
    }
}
