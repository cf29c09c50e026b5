//! Several sources as one data set: which objects there are, and which servers hold each.

mod merge;
mod packed;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::future::join_all;

use crate::error::{Problem, StoreError};
use crate::exact::exactly;
use crate::{Body, Hash, Object, Pieces, Source, Unreadable};
use merge::{Listing, list, merge};
use packed::Packed;

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
    /// The number of each server of each source.
    numbers: Vec<Vec<usize>>,
    objects: Packed,
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
        let listings = join_all(sources.iter().map(|source| list(&**source))).await;
        let (mut listed, mut unlisted, mut last_error) = (Vec::new(), Vec::new(), None);
        for (source, listing) in sources.into_iter().zip(listings) {
            match listing {
                Ok(listing) => listed.push((source, listing)),
                Err(error) => {
                    unlisted.push(Remark::Unlisted { why: error.to_string() });
                    last_error = Some(error);
                }
            }
        }
        let (sources, listings): (Vec<_>, Vec<Listing>) = listed.into_iter().unzip();
        if let Some(error) = last_error.filter(|_| sources.is_empty()) {
            return Err(error);
        }
        let (listings, unreadable): (Vec<Packed>, Vec<_>) =
            listings.into_iter().map(|listing| (listing.objects, listing.unreadable)).unzip();
        let mut unreadable = unreadable.concat();
        let cannot_be_read =
            unreadable.iter().map(|found| Remark::Unreadable { why: found.error.to_string() });
        let cannot_be_read: Vec<Remark> = cannot_be_read.collect();
        let (objects, remarks) = merge(&sources, trust, listings);
        // What another mirror has is read there.
        unreadable.retain(|found| {
            let next = objects.first_from(&found.key);
            let is_there = |key: &str| match found.key.ends_with('/') {
                true => key.starts_with(&found.key),
                false => key == found.key,
            };
            next == objects.len() || !is_there(objects.key(next))
        });
        let remarks = [unlisted, cannot_be_read, remarks].concat();
        Ok(Self { objects, unreadable, remarks, ..Self::of_sources(sources) })
    }

    /// Nothing, in these sources.
    fn of_sources(sources: Vec<Box<dyn Source>>) -> Self {
        let mut servers: Vec<String> = Vec::new();
        let mut number = |name: &String| {
            servers.iter().position(|known| known == name).unwrap_or_else(|| {
                servers.push(name.clone());
                servers.len() - 1
            })
        };
        let mut numbers = Vec::new();
        for source in &sources {
            numbers.push(source.servers().iter().map(&mut number).collect());
        }
        let (objects, unreadable, remarks) = (Packed::default(), Vec::new(), Vec::new());
        Self { sources, servers, numbers, objects, unreadable, remarks }
    }

    /// Joins data sets that hold different objects.
    pub fn join(catalogues: Vec<Self>) -> Result<Self, StoreError> {
        let (mut sources, mut unreadable, mut remarks) = (Vec::new(), Vec::new(), Vec::new());
        let mut objects: Option<Packed> = None;
        for catalogue in catalogues {
            match &mut objects {
                // As they are: this may be all.
                None => objects = Some(catalogue.objects),
                Some(objects) => {
                    for mut object in catalogue.objects() {
                        object.copies.iter_mut().for_each(|copy| copy.source += sources.len());
                        objects.push(&object);
                    }
                }
            }
            sources.extend(catalogue.sources);
            unreadable.extend(catalogue.unreadable);
            remarks.extend(catalogue.remarks);
        }
        let mut objects = objects.unwrap_or_default();
        if !objects.sort() {
            let problem = "two sources have an object of this name; read them into different folders, or name them by \
                           --mirror if they hold the same data";
            let twice = (1..objects.len()).find(|&number| objects.key(number - 1) == objects.key(number));
            let key = twice.map_or("", |number| objects.key(number));
            return Err(Problem::Unsupported(problem.to_owned()).at(key));
        }
        Ok(Self { objects, unreadable, remarks, ..Self::of_sources(sources) })
    }

    /// Leaves out the objects that `is_wanted` does not want.
    pub fn retain(&mut self, is_wanted: impl FnMut(&CatalogueObject) -> bool) {
        self.objects.retain(is_wanted);
    }

    /// The number of objects.
    pub fn n_objects(&self) -> usize {
        self.objects.len()
    }

    /// All objects, by key.
    pub fn objects(&self) -> impl ExactSizeIterator<Item = CatalogueObject> {
        (0..self.objects.len()).map(|number| self.object(number))
    }

    /// An object, counted in the order of keys.
    pub fn object(&self, number: usize) -> CatalogueObject {
        self.objects.get(number)
    }

    /// The number of the object of this name.
    pub fn find(&self, key: &str) -> Option<usize> {
        let number = self.objects.first_from(key);
        (number < self.n_objects() && self.key(number) == key).then_some(number)
    }

    /// Where other programs find an object: the address of its first copy.
    pub fn url<'a>(&self, object: &'a CatalogueObject) -> &'a str {
        let first = object.copies.first();
        first.map_or(object.key.as_str(), |copy| self.sources[copy.source].url(&copy.object))
    }

    /// The name of an object.
    pub fn key(&self, number: usize) -> &str {
        self.objects.key(number)
    }

    /// The size of an object.
    pub fn bytes(&self, number: usize) -> u64 {
        self.objects.bytes(number)
    }

    /// What is there but cannot be read at any mirror.
    pub fn unreadable(&self) -> &[Unreadable] {
        &self.unreadable
    }

    /// The names of all servers. [`servers_of`](Self::servers_of) counts in this list.
    pub fn servers(&self) -> &[String] {
        &self.servers
    }

    /// How many transfers at once suit a server.
    pub fn usual_slots(&self, server: usize) -> u32 {
        let sources = self.sources.iter().zip(&self.numbers).filter(|(_, servers)| servers.contains(&server));
        sources.map(|(source, _)| source.usual_slots()).max().unwrap_or(1)
    }

    /// Whether all data of an object is compared with checksums of its storage on the way, whatever copy it comes from.
    pub fn verifies(&self, object: &CatalogueObject) -> bool {
        object.copies.iter().all(|copy| self.sources[copy.source].verifies())
    }

    /// What the data set's owner should know.
    pub fn remarks(&self) -> &[Remark] {
        &self.remarks
    }

    /// The number of a server.
    fn server(&self, copy: &Copy, local: u32) -> Option<usize> {
        self.numbers[copy.source].get(local as usize).copied()
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
