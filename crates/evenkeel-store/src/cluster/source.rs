//! A cluster as a source: `keel://bucket/prefix`.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::str::FromStr;
use std::sync::{Arc, PoisonError, RwLock};

use bytes::Bytes;
use crc_fast::{CrcAlgorithm, checksum_combine};
use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream};
use futures_util::{FutureExt, StreamExt};
use reqwest::header::{HeaderMap, HeaderValue, IF_MATCH};

use super::listing::{At, Found, Listing, Stored};
use super::{BadCluster, Cluster, Redirect, Servers};
use crate::error::{Problem, StoreError};
use crate::hash::{Algorithm, Hash};
use crate::http::answer;
use crate::{Body, Extent, Object, Page, Pieces, Source, Unreadable};

/// The variable of the environment that names the cluster file.
const VARIABLE: &str = "EVENKEEL_CLUSTER";

/// An address in a cluster: `keel://bucket/key`, or `keel://bucket/prefix/`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeelAddress {
    /// The bucket.
    pub bucket: String,
    /// What follows it: an object, or what names of objects begin with.
    pub key: String,
}

impl FromStr for KeelAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let rest = text.strip_prefix("keel://");
        let rest = rest.ok_or_else(|| format!("{text} is not in a cluster; write keel://bucket/key"))?;
        let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
        let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-._".contains(c);
        if bucket.is_empty() || !bucket.chars().all(is_name) {
            return Err(format!(
                "{text} has no bucket; write keel://bucket/key, with a bucket of small letters, digits, `-` and `.`"
            ));
        }
        if key.starts_with(".evenkeel/") {
            return Err(format!("{text}: names that begin with .evenkeel/ are not for objects of users"));
        }
        Ok(Self { bucket: bucket.to_owned(), key: key.to_owned() })
    }
}

impl std::fmt::Display for KeelAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "keel://{}/{}", self.bucket, self.key)
    }
}

/// What is in a cluster below a prefix. Its servers are those of the cluster file.
///
/// What the home of an object holds is read: the bytes, or the pieces that a redirect names. Copies at further homes count
/// if they are the same. What a server holds that is not a home of it is not read.
#[derive(Debug)]
pub struct Keel {
    servers: Arc<Servers>,
    names: Vec<String>,
    at: KeelAddress,
    /// Where the pieces of redirected objects are, by number.
    redirected: RwLock<Vec<Arc<Holding>>>,
}

/// For each piece of an object, the servers that hold it, and under which names.
type Holding = Vec<Vec<(u32, String)>>;

/// What to list next.
enum Step {
    /// The object of this name, or what is below it.
    Name,
    Page(Box<Listing>, String, bool),
    End,
}

impl Cluster {
    /// Reads the cluster file of this name, or else the one that the environment names.
    pub fn find(file: Option<&Path>) -> Result<Self, BadCluster> {
        let named =
            || std::env::var_os(VARIABLE).filter(|name| !name.is_empty()).map(std::path::PathBuf::from);
        match file.map(Path::to_path_buf).or_else(named) {
            Some(path) => Self::read(&path),
            None => Err(BadCluster::Wrong {
                path: "which cluster".to_owned(),
                why: format!("is not known; name its file by --cluster FILE, or in the variable {VARIABLE}"),
            }),
        }
    }
}

impl Keel {
    /// What is at an address of a cluster. Nothing is asked of it yet.
    pub fn new(cluster: &Cluster, address: &str) -> Result<Self, StoreError> {
        let servers = Servers::open(cluster).map_err(|e| Problem::Unsupported(e.to_string()).at(address))?;
        Self::of(Arc::new(servers), address)
    }

    /// The same for servers that are ready to be asked.
    pub fn of(servers: Arc<Servers>, address: &str) -> Result<Self, StoreError> {
        let at = address.parse().map_err(|why| Problem::Unsupported(why).at(address))?;
        let names = servers.all().iter().map(|server| server.name.clone()).collect();
        Ok(Self { servers, names, at, redirected: RwLock::default() })
    }

    /// The same in the cluster that the environment names.
    pub(crate) fn of_environment(address: &str) -> Result<Self, StoreError> {
        let cluster = Cluster::find(None).map_err(|e| Problem::Unsupported(e.to_string()).at(address))?;
        Self::new(&cluster, address)
    }

    async fn next(&self, step: Step) -> Result<Option<(Page, Step)>, StoreError> {
        let name = self.at.key.as_str();
        let listing =
            |prefix: &str| Box::new(Listing::new(Arc::clone(&self.servers), &self.at.bucket, prefix));
        let (mut listing, prefix, mut is_empty) = match step {
            Step::End => return Ok(None),
            Step::Page(listing, prefix, is_empty) => (listing, prefix, is_empty),
            Step::Name => {
                let mut exact = listing(name);
                let first = exact.next().await?.unwrap_or_default().into_iter().next();
                if let Some(found) = first.filter(|found| found.key == name) {
                    let folder = name.rfind('/').map_or("", |slash| &name[..=slash]);
                    return Ok(Some((self.page(vec![found], folder), Step::End)));
                }
                // Who cannot be asked may have it.
                let unreadable = self.unlisted(&exact);
                if !unreadable.is_empty() {
                    return Ok(Some((Page { unreadable, ..Page::default() }, Step::End)));
                }
                let prefix = format!("{name}/");
                (listing(&prefix), prefix, true)
            }
        };
        if let Some(found) = listing.next().await? {
            is_empty = false;
            return Ok(Some((self.page(found, &prefix), Step::Page(listing, prefix, is_empty))));
        }
        let page = Page { unreadable: self.unlisted(&listing), ..Page::default() };
        if is_empty && page.unreadable.is_empty() && !prefix.is_empty() {
            return Err(Problem::NotFound.at(self.at.to_string()));
        }
        Ok(Some((page, Step::End)))
    }

    /// The servers of which a listing does not know all they have, if objects may be missing in it for that.
    fn unlisted(&self, listing: &Listing) -> Vec<Unreadable> {
        let failures = listing.failures().map(|(server, error)| Unreadable {
            key: format!("what {} has", self.names[server]),
            error: error.clone(),
        });
        let failures: Vec<Unreadable> = failures.collect();
        // With fewer failures every object has another home.
        if failures.len() >= self.servers.replicas() as usize { failures } else { Vec::new() }
    }

    fn page(&self, found: Vec<Found>, prefix: &str) -> Page {
        let mut page = Page::default();
        for found in found {
            // Tools make these to stand for folders.
            let is_folder = found.key.ends_with('/')
                && found.at.iter().all(|at| matches!(at.stored.version(), Some((0, _))));
            if is_folder {
                continue;
            }
            let key = found.key.clone();
            match self.object(found, prefix) {
                Ok(Some(object)) => page.objects.push(object),
                Ok(None) => {}
                Err(error) => page.unreadable.push(Unreadable { key, error }),
            }
        }
        page
    }

    /// An object that servers have, if its home is among them.
    fn object(&self, found: Found, prefix: &str) -> Result<Option<Object>, StoreError> {
        let Found { key, at } = found;
        let address = format!("keel://{}/{key}", self.at.bucket);
        let homes = self.servers.homes(&self.at.bucket, &key, self.servers.replicas() as usize);
        let Some(first) = homes.iter().find_map(|home| at.iter().find(|at| at.server == *home)) else {
            return Ok(None);
        };
        let version = match &first.stored {
            Stored::Unusable(error) => return Err(error.clone()),
            stored => stored.version(),
        };
        let (same, others): (Vec<&At>, Vec<&At>) = at.iter().partition(|at| at.stored.version() == version);
        if let Some(other) = others.iter().find(|other| homes.contains(&other.server)) {
            let why = format!(
                "its copies at {} and {} differ; write it again with --overwrite",
                self.names[first.server], self.names[other.server]
            );
            return Err(Problem::Damaged(why).at(address));
        }
        let (bytes, etag) = version.unwrap_or_default();
        let etag = etag.to_owned();
        let name = key.strip_prefix(prefix).filter(|name| !name.is_empty()).unwrap_or(&key).to_owned();
        let md5 = Hash::from_hex(Algorithm::Md5, &etag);
        let redirect = same.iter().find_map(|at| match &at.stored {
            Stored::Elsewhere(redirect) => Some(redirect),
            _ => None,
        });
        let (hashes, pieces) = match redirect {
            None => (md5.into_iter().collect(), None),
            Some(redirect) => (vec![whole(redirect)], pieces(redirect)),
        };
        let (extents, holding) = self.extents(&key, bytes, &same);
        let is_plain = same.iter().all(|at| matches!(at.stored, Stored::Whole { .. }));
        let address = if is_plain {
            address
        } else {
            let mut redirected = self.redirected.write().unwrap_or_else(PoisonError::into_inner);
            redirected.push(Arc::new(holding));
            format!("{} {address}", redirected.len() - 1)
        };
        let identity = (!etag.is_empty()).then(|| format!("\"{etag}\""));
        Ok(Some(Object {
            key: name,
            address,
            bytes,
            identity,
            hashes,
            pieces: pieces.map(Arc::new),
            extents,
        }))
    }

    /// Who holds which part. Copies that are cut into other pieces than the first redirected one are left out.
    fn extents(&self, key: &str, bytes: u64, same: &[&At]) -> (Vec<Extent>, Holding) {
        let cuts =
            |redirect: &Redirect| redirect.pieces.iter().map(|piece| piece.bytes).collect::<Vec<u64>>();
        let mut sizes: Option<Vec<u64>> = None;
        let mut holders: BTreeMap<usize, Vec<(u32, String)>> = BTreeMap::new();
        let mut whole = Vec::new();
        for at in same {
            match &at.stored {
                Stored::Elsewhere(redirect) => {
                    let own = cuts(redirect);
                    if sizes.get_or_insert_with(|| own.clone()) == &own {
                        for (number, piece) in redirect.pieces.iter().enumerate() {
                            if piece.is_hole() {
                                // Whoever is asked for it, nobody is.
                                let all = (0..self.names.len() as u32).map(|server| (server, String::new()));
                                holders.insert(number, all.collect());
                                continue;
                            }
                            let server = self.servers.find(&piece.server).unwrap_or_default() as u32;
                            let at = holders.entry(number).or_default();
                            if at.iter().all(|(other, _)| *other != server) {
                                at.push((server, piece.key.clone()));
                            }
                        }
                    }
                }
                Stored::Whole { .. } => whole.push((at.server as u32, key.to_owned())),
                Stored::Unusable(_) => {}
            }
        }
        let sizes = sizes.filter(|sizes| !sizes.is_empty()).unwrap_or_else(|| vec![bytes]);
        let is_one = sizes.len() == 1;
        let mut extents = Vec::new();
        let mut holding = Holding::new();
        for (number, &bytes) in sizes.iter().enumerate() {
            let mut at = holders.remove(&number).unwrap_or_default();
            if is_one || at.is_empty() {
                let is_new = |(server, _): &&(u32, String)| at.iter().all(|(other, _)| other != server);
                let new: Vec<(u32, String)> = whole.iter().filter(is_new).cloned().collect();
                at.extend(new);
            }
            extents.push(Extent { bytes, servers: at.iter().map(|(server, _)| *server).collect() });
            holding.push(at);
        }
        (extents, holding)
    }

    /// Where a server has the extent of an object that a range is in: under which name, where it begins, and its size.
    fn place(&self, object: &Object, server: usize, range: &Range<u64>) -> Option<(String, u64, u64)> {
        let plain = || object.address.strip_prefix("keel://")?.split_once('/').map(|(_, key)| key.to_owned());
        let Some((number, _)) =
            object.address.split_once(' ').filter(|_| !object.address.starts_with("keel://"))
        else {
            return Some((plain()?, 0, object.bytes));
        };
        let number: usize = number.parse().ok()?;
        let holding = self.redirected.read().unwrap_or_else(PoisonError::into_inner).get(number).cloned()?;
        let mut start = 0;
        for (extent, at) in object.extents.iter().zip(holding.iter()) {
            let end = start + extent.bytes;
            if (start..end).contains(&range.start) && range.end <= end {
                let (_, key) = at.iter().find(|(other, _)| *other as usize == server)?;
                return Some((key.clone(), start, extent.bytes));
            }
            start = end;
        }
        None
    }
}

/// So many zeros.
pub fn zeros(bytes: u64) -> BoxStream<'static, Result<Bytes, StoreError>> {
    static ZEROS: [u8; 64 << 10] = [0; 64 << 10];
    let chunks = stream::unfold(bytes, |left| async move {
        let n = left.min(ZEROS.len() as u64);
        (n > 0).then(|| (Ok(Bytes::from_static(&ZEROS[..n as usize])), left - n))
    });
    chunks.boxed()
}

/// The CRC-32C of a whole object, from those of its pieces.
fn whole(redirect: &Redirect) -> Hash {
    let all = redirect.pieces.iter().fold(0, |all, piece| {
        checksum_combine(CrcAlgorithm::Crc32Iscsi, all, piece.crc32c.into(), piece.bytes)
    });
    crc(all as u32)
}

fn crc(value: u32) -> Hash {
    Hash::of_value(Algorithm::Crc32c, &value.to_be_bytes())
}

/// The checksums of the pieces, if they are cut evenly.
fn pieces(redirect: &Redirect) -> Option<Pieces> {
    let [first, .., last] = redirect.pieces.as_slice() else { return None };
    let even = redirect.pieces.iter().rev().skip(1).all(|piece| piece.bytes == first.bytes);
    let hashes = redirect.pieces.iter().map(|piece| crc(piece.crc32c)).collect();
    (even && last.bytes <= first.bytes).then(|| Pieces::new(redirect.bytes, first.bytes, hashes)).flatten()
}

impl Source for Keel {
    fn servers(&self) -> Vec<String> {
        self.names.clone()
    }

    fn usual_slots(&self) -> u32 {
        4
    }

    fn url<'a>(&self, object: &'a Object) -> &'a str {
        object.address.find("keel://").map_or(&object.address, |at| &object.address[at..])
    }

    fn lists_by_key(&self) -> bool {
        true
    }

    fn list(&self) -> BoxStream<'_, Result<Page, StoreError>> {
        let prefix = &self.at.key;
        let step = if prefix.is_empty() || prefix.ends_with('/') {
            let listing = Listing::new(Arc::clone(&self.servers), &self.at.bucket, prefix);
            Step::Page(Box::new(listing), prefix.clone(), true)
        } else {
            Step::Name
        };
        stream::try_unfold(step, |step| self.next(step)).boxed()
    }

    fn read<'a>(
        &'a self,
        object: &'a Object,
        server: usize,
        range: Range<u64>,
    ) -> BoxFuture<'a, Result<Body, StoreError>> {
        async move {
            if range.is_empty() {
                return Ok(stream::empty().boxed());
            }
            let at = |problem: Problem| problem.at(self.url(object));
            let place = self.place(object, server, &range);
            let (key, start, bytes) = place.ok_or_else(|| at(Problem::NotFound))?;
            if key.is_empty() {
                return Ok(zeros(range.end - range.start));
            }
            let is_held = key.starts_with(super::redirect::HELD);
            let identity = object.identity.clone().filter(|_| !is_held);
            let mut headers = HeaderMap::new();
            if let Some(tag) = identity.as_deref().and_then(|tag| HeaderValue::from_str(tag).ok()) {
                headers.insert(IF_MATCH, tag);
            }
            // What is compared with the answer: the piece, as if it were an object.
            let piece = Object { bytes, identity, ..Object::on_one_server(key, String::new(), bytes, None) };
            let within = range.start - start..range.end - start;
            let endpoint = self.servers.endpoint(server)?;
            let read = endpoint.get(&self.at.bucket, &piece.key, Some(within.clone()), headers).await;
            let (headers, body) = read.map_err(|error| match error.problem {
                // The object has been replaced, or its bytes have moved home.
                Problem::NotFound if is_held => at(Problem::Changed),
                _ => error,
            })?;
            answer::is_range(&headers, &piece, &within).map_err(at)?;
            Ok(body)
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::super::Held;
    use super::*;

    fn keel(n_servers: usize, replicas: u32) -> Keel {
        let server = |n| super::super::Server {
            name: format!("s{n}"),
            endpoint: format!("http://127.0.0.1:{}", 9000 + n),
            control: None,
            speed_millionths: 1_000_000,
            region: None,
            credentials: None,
        };
        let folder = tempfile::tempdir().unwrap();
        let keys = folder.path().join("keys");
        super::super::Credentials::read_or_make(&keys).unwrap();
        let credentials = Some(super::super::Reference::File(keys));
        let cluster = Cluster { servers: (1..=n_servers).map(server).collect(), credentials, replicas };
        Keel::new(&cluster, "keel://b/").unwrap()
    }

    fn held(server: &str, key: &str, data: &[u8]) -> Held {
        let crc32c = crc_fast::checksum(CrcAlgorithm::Crc32Iscsi, data) as u32;
        let key = format!("{}{key}", super::super::redirect::HELD);
        Held { server: server.to_owned(), key, bytes: data.len() as u64, crc32c }
    }

    fn whole_of(bytes: u64, etag: &str) -> Stored {
        Stored::Whole { bytes, etag: etag.to_owned() }
    }

    #[test]
    fn addresses_name_buckets_and_keys() {
        let read = |text: &str| text.parse::<KeelAddress>();
        let found = read("keel://b.1-x/a/b c").unwrap();
        assert_eq!((found.bucket.as_str(), found.key.as_str()), ("b.1-x", "a/b c"));
        assert_eq!(read("keel://b").unwrap().key, "");
        for wrong in ["keel:///k", "keel://B/k", "s3://b/k", "keel://b/.evenkeel/held/x"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_is_read_is_what_the_home_has() {
        let keel = keel(4, 1);
        let home = keel.servers.homes("b", "k", 1)[0];
        let other = (home + 1) % 4;
        let object = |at: Vec<(usize, Stored)>| {
            let at = at.into_iter().map(|(server, stored)| At { server, stored }).collect();
            keel.object(Found { key: "k".to_owned(), at }, "")
        };
        assert_eq!(object(vec![(other, whole_of(3, "e"))]).unwrap(), None, "a stray is not read");
        let found = object(vec![(other, whole_of(4, "f")), (home, whole_of(3, "e"))]).unwrap().unwrap();
        assert_eq!((found.bytes, found.extents[0].servers.clone()), (3, vec![home as u32]));
        // Whatever is the same as what the home has is as good.
        let found = object(vec![(home, whole_of(3, "e")), (other, whole_of(3, "e"))]).unwrap().unwrap();
        assert_eq!(found.extents[0].servers.len(), 2);
        let pieces = vec![held("s1", "x/0", b"1234"), held("s3", "x/1", b"56789")];
        let redirect = Redirect::new("etag".to_owned(), pieces);
        let found = object(vec![(home, Stored::Elsewhere(Arc::new(redirect)))]).unwrap().unwrap();
        let servers: Vec<_> = found.extents.iter().map(|extent| extent.servers.clone()).collect();
        assert_eq!(servers, [vec![0], vec![2]]);
        assert_eq!(found.hashes, [Hash::from_hex(Algorithm::Crc32c, "e3069283").unwrap()]);
        assert_eq!(keel.url(&found), "keel://b/k");
        assert_eq!(keel.place(&found, 2, &(4..6)).unwrap().1, 4);
        assert_eq!(keel.place(&found, 0, &(4..6)), None);
        assert_eq!(keel.place(&found, 0, &(3..6)), None, "no range is in two pieces");
    }

    #[test]
    fn copies_must_be_the_same() {
        let keel = keel(4, 2);
        let homes = keel.servers.homes("b", "k", 2);
        let object = |stored: [Stored; 2]| {
            let at = homes.iter().zip(stored).map(|(&server, stored)| At { server, stored }).collect();
            keel.object(Found { key: "k".to_owned(), at }, "")
        };
        let redirect = |server: &str| {
            Stored::Elsewhere(Arc::new(Redirect::new("e".to_owned(), vec![held(server, "x/0", b"123")])))
        };
        let found = object([redirect("s1"), redirect("s2")]).unwrap().unwrap();
        assert_eq!(found.extents, [Extent { bytes: 3, servers: vec![0, 1] }]);
        let error = object([redirect("s1"), whole_of(3, "other")]).unwrap_err();
        assert!(error.to_string().contains("differ"), "{error}");
    }
}
