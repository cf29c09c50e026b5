//! Several sources as one data set: which objects there are, and which servers hold each.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use futures_util::future::join_all;
use futures_util::{StreamExt, TryStreamExt};

use crate::error::{Problem, StoreError};
use crate::exact::exactly;
use crate::{Body, Hash, Object, Page, Pieces, Source, Unreadable};

/// What shows that two mirrors have the same object under a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// A checksum that both offer. Without one, each object is read from one mirror only.
    Checksums,
    /// The size, unless a checksum says otherwise.
    Sizes,
}

/// The objects of a data set and who holds them.
#[derive(Debug)]
pub struct Catalogue {
    sources: Vec<Box<dyn Source>>,
    servers: Vec<String>,
    objects: Vec<CatalogueObject>,
    unreadable: Vec<Unreadable>,
    remarks: Vec<Remark>,
}

/// An object, and the copies of it that are the same.
#[derive(Clone, Debug)]
pub struct CatalogueObject {
    /// Its name.
    pub key: String,
    /// Its size.
    pub bytes: u64,
    /// Its checksums, from all copies.
    pub hashes: Vec<Hash>,
    /// The checksums of its pieces, if a copy has them.
    pub pieces: Option<Arc<Pieces>>,
    /// The copies, at least one. Any range may come from any of them.
    pub copies: Vec<Copy>,
}

/// A copy of an object in one source.
#[derive(Clone, Debug)]
pub struct Copy {
    /// The source, counted as they were given.
    pub source: usize,
    /// The object as this source has it.
    pub object: Object,
}

/// Something about a data set that its owner should know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remark {
    /// A mirror cannot be listed. It is not used.
    Unlisted {
        /// Which, and why.
        why: String,
    },
    /// Something that a mirror has cannot be read there.
    Unreadable {
        /// What, and why.
        why: String,
    },
    /// A mirror has something else under a key. It is not used for that key.
    Differs {
        /// The key.
        key: String,
        /// The mirror's server.
        server: String,
    },
    /// A mirror lacks objects that others have.
    Lacks {
        /// The mirror's server.
        server: String,
        /// How many objects.
        n_objects: usize,
    },
    /// Objects whose copies cannot be compared, since the mirrors offer no common checksum. Each is read from one
    /// mirror.
    Uncompared {
        /// How many objects.
        n_objects: usize,
    },
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unlisted { why } => write!(f, "{why}; this mirror is not used"),
            Self::Unreadable { why } => write!(f, "{why}"),
            Self::Differs { key, server } => {
                write!(f, "{key} at {server} is not the same as at the mirrors before it, and is not used")
            }
            Self::Lacks { server, n_objects: 1 } => write!(f, "{server} lacks an object that others have"),
            Self::Lacks { server, n_objects } => {
                write!(f, "{server} lacks {n_objects} objects that others have")
            }
            Self::Uncompared { n_objects } => write!(
                f,
                "the mirrors offer no common checksum for {n_objects} objects, so each of these is read from one \
                 mirror; if the mirrors are known to be the same, say --trust sizes"
            ),
        }
    }
}

impl Catalogue {
    /// Lists mirrors of the same data. A mirror that cannot be listed is left out, unless none can.
    pub async fn of_mirrors(sources: Vec<Box<dyn Source>>, trust: Trust) -> Result<Self, StoreError> {
        let listings = sources.iter().map(|source| source.list().try_fold(Page::default(), with));
        let listings: Vec<Result<Page, StoreError>> = join_all(listings).await;
        let (mut listed, mut unlisted, mut last_error) = (Vec::new(), Vec::new(), None);
        for (source, listing) in sources.into_iter().zip(listings) {
            match listing {
                Ok(page) => listed.push((source, page)),
                Err(error) => {
                    unlisted.push(Remark::Unlisted { why: error.to_string() });
                    last_error = Some(error);
                }
            }
        }
        let (sources, listings): (Vec<_>, Vec<_>) = listed.into_iter().unzip();
        if let Some(error) = last_error.filter(|_| sources.is_empty()) {
            return Err(error);
        }
        let mut servers: Vec<String> = Vec::new();
        for name in sources.iter().flat_map(|source| source.servers()) {
            if !servers.contains(name) {
                servers.push(name.clone());
            }
        }
        let mut of_key: BTreeMap<String, Vec<Copy>> = BTreeMap::new();
        let mut unreadable = Vec::new();
        for (source, listing) in listings.into_iter().enumerate() {
            for object in listing.objects {
                of_key.entry(object.key.clone()).or_default().push(Copy { source, object });
            }
            unreadable.extend(listing.unreadable);
        }
        let cannot_be_read =
            unreadable.iter().map(|found| Remark::Unreadable { why: found.error.to_string() });
        let cannot_be_read: Vec<Remark> = cannot_be_read.collect();
        // What another mirror has is read there.
        unreadable.retain(|found| match of_key.range(found.key.clone()..).next() {
            Some((key, _)) if found.key.ends_with('/') => !key.starts_with(&found.key),
            Some((key, _)) => *key != found.key,
            None => true,
        });
        let mut merged = Merger::new(&sources, trust);
        let objects = of_key.into_iter().map(|(key, copies)| merged.merge(key, copies)).collect();
        let remarks = [unlisted, cannot_be_read, merged.remarks()].concat();
        Ok(Self { sources, servers, objects, unreadable, remarks })
    }

    /// Joins data sets that hold different objects.
    pub fn join(catalogues: Vec<Self>) -> Result<Self, StoreError> {
        let mut all = Self {
            sources: Vec::new(),
            servers: Vec::new(),
            objects: Vec::new(),
            unreadable: Vec::new(),
            remarks: Vec::new(),
        };
        for catalogue in catalogues {
            let n_sources = all.sources.len();
            all.sources.extend(catalogue.sources);
            for name in catalogue.servers {
                if !all.servers.contains(&name) {
                    all.servers.push(name);
                }
            }
            all.objects.extend(catalogue.objects.into_iter().map(|mut object| {
                object.copies.iter_mut().for_each(|copy| copy.source += n_sources);
                object
            }));
            all.unreadable.extend(catalogue.unreadable);
            all.remarks.extend(catalogue.remarks);
        }
        all.objects.sort_by(|a, b| a.key.cmp(&b.key));
        match all.objects.windows(2).find(|pair| pair[0].key == pair[1].key) {
            Some(pair) => {
                let problem = "two sources have an object of this name; read them into different folders, or name \
                               them by --mirror if they hold the same data";
                Err(Problem::Unsupported(problem.to_owned()).at(pair[0].key.as_str()))
            }
            None => Ok(all),
        }
    }

    /// Leaves out the objects that `is_wanted` does not want.
    pub fn retain(&mut self, is_wanted: impl FnMut(&CatalogueObject) -> bool) {
        self.objects.retain(is_wanted);
    }

    /// All objects, by key.
    pub fn objects(&self) -> &[CatalogueObject] {
        &self.objects
    }

    /// What is there but cannot be read at any mirror.
    pub fn unreadable(&self) -> &[Unreadable] {
        &self.unreadable
    }

    /// The names of all servers. [`servers_of`](Self::servers_of) counts in this list.
    pub fn servers(&self) -> &[String] {
        &self.servers
    }

    /// What the data set's owner should know.
    pub fn remarks(&self) -> &[Remark] {
        &self.remarks
    }

    /// The number of a server.
    fn server(&self, copy: &Copy, local: u32) -> Option<usize> {
        let name = self.sources[copy.source].servers().get(local as usize)?;
        self.servers.iter().position(|server| server == name)
    }

    /// Where the servers of an object change: the ends of its extents, in order. Ranges that cross none of these have
    /// the same servers throughout.
    pub fn cuts(&self, object: &CatalogueObject) -> Vec<u64> {
        let ends = |copy: &Copy| {
            let mut end = 0;
            let ends = copy.object.extents.iter().map(|extent| {
                end += extent.bytes;
                end
            });
            ends.collect::<Vec<u64>>()
        };
        let mut cuts: Vec<u64> = object.copies.iter().flat_map(ends).collect();
        cuts.sort_unstable();
        cuts.dedup();
        cuts
    }

    /// The servers that hold all of a range, each once.
    pub fn servers_of(&self, object: &CatalogueObject, range: &Range<u64>) -> Vec<usize> {
        let mut servers = Vec::new();
        for copy in &object.copies {
            let holding = holders(&copy.object, range).iter().filter_map(|&local| self.server(copy, local));
            for server in holding {
                if !servers.contains(&server) {
                    servers.push(server);
                }
            }
        }
        servers
    }

    /// Reads a range of an object from a server that holds it. A body that is longer or shorter than the range ends
    /// with an error.
    pub async fn read(
        &self,
        object: &CatalogueObject,
        server: usize,
        range: Range<u64>,
    ) -> Result<Body, StoreError> {
        for copy in &object.copies {
            let holding =
                holders(&copy.object, &range).iter().find(|&&local| self.server(copy, local) == Some(server));
            if let Some(&local) = holding {
                let (bytes, address) = (range.end - range.start, copy.object.address.clone());
                let body = self.sources[copy.source].read(&copy.object, local as usize, range).await?;
                return Ok(exactly(bytes, address, body).boxed());
            }
        }
        Err(Problem::NotFound.at(object.key.as_str()))
    }
}

/// A listing with one more page.
async fn with(mut all: Page, page: Page) -> Result<Page, StoreError> {
    all.objects.extend(page.objects);
    all.unreadable.extend(page.unreadable);
    Ok(all)
}

/// The servers that hold all of a range of an object.
fn holders<'a>(object: &'a Object, range: &Range<u64>) -> &'a [u32] {
    let mut start = 0;
    for extent in &object.extents {
        let end = start + extent.bytes;
        if range.start >= start && range.start < end.max(start + 1) {
            return if range.end <= end { &extent.servers } else { &[] };
        }
        start = end;
    }
    &[]
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
        self.sources[source].servers().first().cloned().unwrap_or_default()
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
