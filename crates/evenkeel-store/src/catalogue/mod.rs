//! Several sources as one data set: which objects there are, and which servers hold each.

mod listing;
mod merge;
mod packed;
mod parts;

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use futures_util::StreamExt;

use crate::error::{Problem, StoreError};
use crate::exact::exactly;
use crate::{Body, Hash, Object, Pieces, Source, Unreadable};
use packed::Packed;
use parts::Parts;

/// What shows that two mirrors have the same object under a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// A checksum that both offer. Without one, each object is read from one mirror only.
    Checksums,
    /// The size, unless a checksum says otherwise.
    Sizes,
}

/// The objects of a data set and who holds them.
///
/// While a data set is [being listed](Self::list), each catalogue has all that the one before it has, under the same
/// numbers, and more.
#[derive(Clone, Debug, Default)]
pub struct Catalogue {
    sources: Vec<Arc<dyn Source>>,
    servers: Vec<String>,
    /// The number of each server of each source.
    numbers: Vec<Vec<usize>>,
    objects: Parts,
    n_left_out: usize,
    unreadable: Vec<Unreadable>,
    remarks: Vec<Remark>,
    state: State,
}

/// Whether a catalogue has everything.
#[derive(Clone, Debug, Default)]
pub enum State {
    /// More is being listed.
    #[default]
    Listing,
    /// At least one of the mirrors was listed to its end.
    Complete,
    /// No mirror could be listed to its end; this is why the last of them could not.
    BrokenOff(StoreError),
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
    /// A mirror cannot be listed, or not to its end.
    Unlisted {
        /// Which, and why.
        why: String,
        /// Whether it is used for what it has listed.
        is_used: bool,
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
            Self::Unlisted { why, is_used: false } => write!(f, "{why}; this mirror is not used"),
            Self::Unlisted { why, is_used: true } => {
                write!(f, "{why}; this mirror is used only for what it had listed before")
            }
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
        Self::of_wanted(sources, trust, &|_| true).await
    }

    /// Lists mirrors, without objects whose keys are not wanted.
    pub async fn of_wanted(
        sources: Vec<Box<dyn Source>>,
        trust: Trust,
        is_wanted: &(dyn Fn(&str) -> bool + Sync),
    ) -> Result<Self, StoreError> {
        let sources = sources.into_iter().map(Arc::from).collect();
        let catalogue = listing::list(sources, trust, is_wanted, None).await;
        match catalogue.state {
            State::BrokenOff(error) => Err(error),
            _ => Ok(catalogue),
        }
    }

    /// Lists mirrors, and shows what is known so far, again and again, so that it can be read meanwhile. The last one
    /// shown has the [state](Self::state) in which the listing ended.
    ///
    /// A single source is shown as it is listed. Several mirrors are shown as far as all of them have come, which works
    /// as long as they [list by key](Source::lists_by_key).
    pub async fn list(
        sources: Vec<Box<dyn Source>>,
        trust: Trust,
        is_wanted: &(dyn Fn(&str) -> bool + Sync),
        show: &mut (dyn FnMut(Self) + Send),
    ) {
        let sources = sources.into_iter().map(Arc::from).collect();
        let all = listing::list(sources, trust, is_wanted, Some(&mut *show)).await;
        show(all);
    }

    /// Nothing, in these sources.
    fn new(sources: Vec<Arc<dyn Source>>) -> Self {
        Self { numbers: vec![Vec::new(); sources.len()], sources, ..Self::default() }
    }

    /// Gives numbers to servers that have none, of those sources that are used.
    fn number_servers(&mut self, is_used: &[bool]) {
        for (source, _) in is_used.iter().enumerate().filter(|(_, is_used)| **is_used) {
            let numbers = &mut self.numbers[source];
            for name in self.sources[source].servers().into_iter().skip(numbers.len()) {
                let known = self.servers.iter().position(|known| *known == name);
                numbers.push(known.unwrap_or(self.servers.len()));
                if known.is_none() {
                    self.servers.push(name);
                }
            }
        }
    }

    /// Joins data sets that hold different objects.
    pub fn join(mut catalogues: Vec<Self>) -> Result<Self, StoreError> {
        if let [_] = *catalogues {
            return Ok(catalogues.remove(0));
        }
        let mut objects = Packed::default();
        let mut joined = Self::new(Vec::new());
        for catalogue in catalogues {
            for mut object in catalogue.objects() {
                object.copies.iter_mut().for_each(|copy| copy.source += joined.sources.len());
                objects.push(&object);
            }
            joined.sources.extend(catalogue.sources);
            joined.n_left_out += catalogue.n_left_out;
            joined.unreadable.extend(catalogue.unreadable);
            joined.remarks.extend(catalogue.remarks);
        }
        if !objects.sort() {
            let problem = "two sources have an object of this name; read them into different folders, or name them by \
                           --mirror if they hold the same data";
            let twice = (1..objects.len()).find(|&number| objects.key(number - 1) == objects.key(number));
            let key = twice.map_or("", |number| objects.key(number));
            return Err(Problem::Unsupported(problem.to_owned()).at(key));
        }
        joined.numbers = vec![Vec::new(); joined.sources.len()];
        joined.number_servers(&vec![true; joined.sources.len()]);
        joined.objects.append(objects);
        joined.state = State::Complete;
        Ok(joined)
    }

    /// Whether everything is listed.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// How many objects were listed but not wanted. Each copy counts.
    pub fn n_left_out(&self) -> usize {
        self.n_left_out
    }

    /// The number of objects.
    pub fn n_objects(&self) -> usize {
        self.objects.len()
    }

    /// All objects, by key if it was listed as a whole.
    pub fn objects(&self) -> impl ExactSizeIterator<Item = CatalogueObject> {
        (0..self.objects.len()).map(|number| self.object(number))
    }

    /// An object, counted as [`objects`](Self::objects) has them.
    pub fn object(&self, number: usize) -> CatalogueObject {
        self.objects.get(number)
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

    /// How many transfers servers are busy with, by name, as far as their storage told.
    pub fn connections(&self) -> HashMap<String, u64> {
        self.sources.iter().flat_map(|source| source.connections()).collect()
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

    /// A checksum of an object that has none, if a copy's storage computes one.
    pub async fn hash(&self, object: &CatalogueObject) -> Option<Hash> {
        for copy in &object.copies {
            if let Some(hash) = self.sources[copy.source].hash(&copy.object).await {
                return Some(hash);
            }
        }
        None
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
