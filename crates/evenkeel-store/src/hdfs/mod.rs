//! HDFS by Hadoop's own protocols: a NameNode tells which DataNodes hold each block, and any of them is read from.
//!
//! Paths are taken as they are, as `hadoop fs` does: `%`, `#`, `+` and `?` mean themselves, and nothing is decoded. What a
//! cluster wants beyond names of users and delegation tokens (Kerberos, protected calls and transfers), and files that are
//! encrypted or erasure-coded, are refused in words that say what works instead.

mod conf;
mod datanode;
pub mod fuzz;
mod located;
mod messages;
mod namenode;
mod rpc;
mod sasl;
pub(crate) mod token;
mod wire;

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::{BoxFuture, join, try_join_all};
use futures_util::stream::{self, BoxStream};
use futures_util::{FutureExt, StreamExt};

use crate::error::{Problem, StoreError};
use crate::{Algorithm, Body, Hash, Object, Page, Source, Unreadable, user};
use conf::{Cluster, Conf};
use datanode::{NotRead, Pool, Request};
use located::{Datanodes, File, FileBlock, Kept, Known};
use messages::{
    Block, BlockChecksum, ChecksumKind, Kind, Listing, ListingAnswer, LocationsAnswer, Parse, Status,
};
use namenode::{NameNode, identity};
use rpc::User;

/// Folders that are listed at once.
const N_AT_ONCE: usize = 4;
/// Folders within folders that are listed. HDFS has no more.
const MOST_LEVELS: usize = 1000;
/// Entries of a part of a folder. NameNodes send a thousand, unless they are told otherwise.
const MOST_ENTRIES: usize = 100_000;

/// A folder or file in HDFS. Its servers are the DataNodes that hold something of it, by their host names.
#[derive(Debug)]
pub struct Hdfs {
    /// What addresses begin with: `hdfs://namenode:8020`.
    cluster: String,
    /// The path, which begins with `/` and does not end with one; empty for the root.
    base: String,
    namenode: NameNode,
    client: String,
    pool: Arc<Pool>,
    datanodes: Mutex<Datanodes>,
    kept: Mutex<Kept>,
    /// Whether DataNodes want tokens, which listings lack.
    wants_tokens: AtomicBool,
}

/// Whether a NameNode lists this name after that one. It compares bytes as Java has them, with a sign: what is not ASCII comes
/// first.
pub(crate) fn is_after(name: &[u8], other: &[u8]) -> bool {
    name.iter().map(|byte| byte.cast_signed()).gt(other.iter().map(|byte| byte.cast_signed()))
}

/// Whether the other side has closed a connection.
fn is_closed(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), UnexpectedEof | ConnectionReset | BrokenPipe)
}

fn identity_of(object: &Object) -> &str {
    object.identity.as_deref().unwrap_or_default()
}

/// A folder to be listed.
#[derive(Debug)]
struct Folder {
    path: String,
    level: usize,
    /// The name after which to go on.
    after: Vec<u8>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Hdfs {
    /// The folder or file at `hdfs://namenode:port/path`, `hdfs://nameservice/path` or, in the usual cluster,
    /// `hdfs:///path`. The configuration is that in `HADOOP_CONF_DIR`, and the user that of a delegation token, if there is
    /// one for the NameNode, else that of `HADOOP_USER_NAME` or of this process.
    pub fn new(address: &str) -> Result<Self, StoreError> {
        let unusable = |what: String| Problem::Unsupported(what).at(address);
        let rest = address.strip_prefix("hdfs://").unwrap_or(address);
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let conf = Conf::of_environment().map_err(unusable)?;
        let cluster = conf.cluster(authority).map_err(unusable)?;
        let nameless =
            || unusable("the user of this process has no name; name one by HADOOP_USER_NAME".to_owned());
        let name = user::name().ok_or_else(nameless)?;
        let tokens = token::of_environment(&conf.token_files()).map_err(unusable)?;
        let service = format!("ha-hdfs:{}", cluster.authority);
        Ok(Self::of(cluster, User { name, tokens, service }, path))
    }

    fn of(cluster: Cluster, user: User, path: &str) -> Self {
        let names = path.split('/').filter(|name| !name.is_empty());
        let namenode = NameNode::new(cluster.namenodes, user, cluster.rpc_timeout);
        Self {
            cluster: format!("hdfs://{}", cluster.authority),
            base: names.flat_map(|name| ["/", name]).collect(),
            client: namenode.client_name(),
            namenode,
            pool: Arc::new(Pool::new(cluster.socket_timeout)),
            datanodes: Mutex::new(Datanodes::new(cluster.by_hostname)),
            kept: Mutex::default(),
            wants_tokens: AtomicBool::new(false),
        }
    }

    fn at(&self, problem: Problem, path: &str) -> StoreError {
        problem.at(format!("{}{path}", self.cluster))
    }

    /// The name of what is at a path, relative to the source's address.
    fn key(&self, path: &str) -> String {
        let below = path.strip_prefix(&self.base).and_then(|below| below.strip_prefix('/'));
        below.or_else(|| path.rsplit('/').next()).unwrap_or_default().to_owned()
    }

    /// Lists a part of a folder. Also returns what is left to list: the rest of it, and the folders in it.
    async fn list_part(&self, folder: Folder) -> Result<(Page, Vec<Folder>), StoreError> {
        let Folder { path, after, .. } = &folder;
        let is_base = *path == self.base;
        let asked = if path.is_empty() { "/" } else { path };
        let answer = match self.namenode.list(asked, after).await {
            Err(problem @ Problem::Denied(_)) if !is_base => {
                let (key, error) = (self.key(path) + "/", self.at(problem, path));
                let page = Page { unreadable: vec![Unreadable { key, error }], ..Page::default() };
                return Ok((page, Vec::new()));
            }
            answer => answer.map_err(|problem| self.at(problem, path))?,
        };
        let listing = ListingAnswer::parse(&answer).map_err(|malformed| self.at(malformed.into(), path))?;
        match listing.0 {
            Some(listing) => self.page(listing, &folder).map_err(|problem| self.at(problem, path)),
            None if is_base => Err(self.at(Problem::NotFound, path)),
            // It was removed after the folder above was listed.
            None => Ok((Page::default(), Vec::new())),
        }
    }

    fn page(&self, listing: Listing<'_>, folder: &Folder) -> Result<(Page, Vec<Folder>), Problem> {
        let (mut page, mut last, mut n_entries) = (Page::default(), folder.after.clone(), 0);
        let Listing { mut entries, n_left } = listing;
        let mut left = Vec::new();
        while let Some(status) = entries.next::<Status<'_>>()? {
            n_entries += 1;
            let is_itself = status.name.is_empty() && n_entries == 1 && status.kind != Kind::Folder;
            if !is_itself && !is_after(status.name, &last) || n_entries > MOST_ENTRIES {
                return Err(Problem::Damaged("the NameNode lists the folder in circles".to_owned()));
            }
            status.name.clone_into(&mut last);
            let name = String::from_utf8_lossy(status.name);
            let is_name = std::str::from_utf8(status.name).is_ok() && !name.contains(['/', '\0']);
            let path = if is_itself { folder.path.clone() } else { format!("{}/{name}", folder.path) };
            if !is_name || matches!(&*name, "." | "..") {
                let problem = Problem::Unsupported("no file can have this name; rename it".to_owned());
                page.unreadable.push(Unreadable { key: self.key(&path), error: self.at(problem, &path) });
                continue;
            }
            if status.kind == Kind::Folder {
                left.push(Folder { path, level: folder.level + 1, after: Vec::new() });
                continue;
            }
            match self.object(&status, &path) {
                Ok(object) => page.objects.push(object),
                Err(problem) => {
                    page.unreadable.push(Unreadable { key: self.key(&path), error: self.at(problem, &path) });
                }
            }
        }
        if folder.level == MOST_LEVELS && !left.is_empty() {
            return Err(Problem::Unsupported(format!(
                "more than {MOST_LEVELS} folders within each other; name an inner one"
            )));
        }
        if n_left > 0 {
            if n_entries == 0 {
                return Err(Problem::Damaged("the NameNode lists nothing of what is left".to_owned()));
            }
            left.push(Folder { path: folder.path.clone(), level: folder.level, after: last });
        }
        Ok((page, left))
    }

    /// A file that was listed. Its blocks are kept for reading.
    fn object(&self, status: &Status<'_>, path: &str) -> Result<Object, Problem> {
        if status.kind == Kind::Link {
            let problem = "it is a symbolic link, which is not followed; name its target";
            return Err(Problem::Unsupported(problem.to_owned()));
        }
        let Some(located) = &status.locations else {
            return Err(Problem::Damaged("the NameNode lists the file without its blocks".to_owned()));
        };
        let mut located = located.clone();
        located.is_encrypted |= status.is_encrypted;
        located.is_erasure_coded |= status.is_erasure_coded;
        let (file, extents) = located::file(&located, status.bytes, &mut locked(&self.datanodes))?;
        locked(&self.kept).offer(path, file);
        Ok(Object {
            key: self.key(path),
            address: format!("{}{path}", self.cluster),
            bytes: status.bytes,
            identity: Some(identity(status)),
            hashes: Vec::new(),
            pieces: None,
            extents,
        })
    }

    /// Asks for the blocks of a file that was listed, with tokens for all of them.
    async fn locate(&self, path: &str, object: &Object) -> Result<Arc<File>, Problem> {
        let bytes = object.bytes;
        let answer = self.namenode.locate(path, bytes).await?;
        let located = LocationsAnswer::parse(&answer)?.0.ok_or(Problem::NotFound)?;
        if located.bytes != bytes || located.is_being_written {
            return Err(Problem::Changed);
        }
        let (file, _) = located::file(&located, bytes, &mut locked(&self.datanodes))?;
        // Not before, and not on trust: these might be blocks of a file that has taken the place of the one that was listed.
        self.namenode.verify(path, identity_of(object), bytes).await?;
        let file = Arc::new(file);
        locked(&self.kept).put(path, Arc::clone(&file));
        Ok(file)
    }

    /// Reads a range of a file from a DataNode, which must be within one block.
    async fn read_from(
        &self,
        file: &File,
        server: usize,
        range: &Range<u64>,
        address: &str,
    ) -> Result<Body, NotRead> {
        let block = file.block_at(range.start).filter(|block| range.end - block.offset <= block.bytes);
        let Some(block) = block else {
            let problem = "the range is not within one block";
            return Err(NotRead::Broken(Problem::Unsupported(problem.to_owned())));
        };
        let datanode = locked(&self.datanodes).get(server).cloned();
        let datanode = datanode.ok_or(NotRead::Broken(Problem::NotFound))?;
        let range = range.start - block.offset..range.end - block.offset;
        let packets = self.pool.read(self.request(file, block, &datanode, range)).await?;
        let address = address.to_owned();
        Ok(packets.map(move |packet| packet.map_err(|problem| problem.at(address.as_str()))).boxed())
    }

    fn request<'a>(
        &'a self,
        file: &'a File,
        block: &'a FileBlock,
        datanode: &'a Known,
        range: Range<u64>,
    ) -> Request<'a> {
        Request {
            address: &datanode.address,
            name: &datanode.name,
            block: Block { pool: &file.pool, id: block.id, generation: block.generation, bytes: block.bytes },
            token: &block.token,
            client: &self.client,
            range,
        }
    }

    /// The same for a file that may not be known, or not as it is now.
    async fn read_again(
        &self,
        path: &str,
        object: &Object,
        server: usize,
        range: &Range<u64>,
    ) -> Result<Body, Problem> {
        let wants_tokens = self.wants_tokens.load(Ordering::Relaxed);
        let kept = locked(&self.kept).get(path).filter(|file| file.has_tokens() || !wants_tokens);
        let first = match kept {
            Some(file) => file,
            None => self.locate(path, object).await?,
        };
        let refusal = match self.read_from(&first, server, range, &object.address).await {
            Err(NotRead::Broken(problem)) => return Err(problem),
            Err(NotRead::NeedsToken) => {
                self.wants_tokens.store(true, Ordering::Relaxed);
                None
            }
            Err(NotRead::Refused(text)) => Some(text),
            Ok(body) => return Ok(body),
        };
        // It may be another block by now, or have another token.
        let second = self.locate(path, object).await?;
        let name = || locked(&self.datanodes).get(server).map_or(String::new(), |known| known.name.clone());
        let refused = |text: String| Problem::Unsupported(format!("DataNode {} refuses: {text}", name()));
        if let Some(text) = refusal.filter(|_| first == second) {
            return Err(refused(text));
        }
        self.read_from(&second, server, range, &object.address).await.map_err(|not_read| match not_read {
            NotRead::Broken(problem) => problem,
            NotRead::NeedsToken => Problem::Denied(format!("DataNode {} takes no token of ours", name())),
            NotRead::Refused(text) => refused(text),
        })
    }
}

/// The checksum of a file: those of its blocks, as DataNodes have them, put together.
impl Hdfs {
    async fn composite(&self, path: &str, object: &Object) -> Option<Hash> {
        let file = self.locate(path, object).await.ok()?;
        let (mut at, mut whole) = (0, None);
        for extent in &object.extents {
            let BlockChecksum { kind, composite } = self.checksum_at(&file, at, &extent.servers).await?;
            let (crc, crcs) = (composite?, kind.crc()?);
            whole = Some(match whole {
                None => (kind, u64::from(crc)),
                Some((of, before)) if of == kind => {
                    (kind, crc_fast::checksum_combine(crcs, before, crc.into(), extent.bytes))
                }
                Some(_) => return None,
            });
            at += extent.bytes;
        }
        let (kind, crc) = whole?;
        let algorithm = if kind == ChecksumKind::Crc32c { Algorithm::Crc32c } else { Algorithm::Crc32 };
        Some(Hash::of_value(algorithm, &(crc as u32).to_be_bytes()))
    }

    /// The checksum of the block that begins here, by the first of these DataNodes that tells.
    async fn checksum_at(&self, file: &File, at: u64, servers: &[u32]) -> Option<BlockChecksum> {
        let block = file.block_at(at)?;
        for &server in servers {
            let datanode = locked(&self.datanodes).get(server as usize).cloned()?;
            if let Ok(checksum) = self.pool.checksum(&self.request(file, block, &datanode, 0..0)).await {
                return Some(checksum);
            }
        }
        None
    }
}

impl Source for Hdfs {
    fn servers(&self) -> Vec<String> {
        locked(&self.datanodes).names()
    }

    fn verifies(&self) -> bool {
        true
    }

    fn connections(&self) -> Vec<(String, u64)> {
        locked(&self.datanodes).transfers()
    }

    fn hash<'a>(&'a self, object: &'a Object) -> BoxFuture<'a, Option<Hash>> {
        let path = object.address.strip_prefix(&self.cluster);
        async move { self.composite(path?, object).await }.boxed()
    }

    fn list(&self) -> BoxStream<'_, Result<Page, StoreError>> {
        let next = move |mut left: Vec<Folder>| async move {
            if left.is_empty() {
                return Ok(None);
            }
            let now = left.split_off(left.len().saturating_sub(N_AT_ONCE));
            let mut page = Page::default();
            for (part, folders) in try_join_all(now.into_iter().map(|folder| self.list_part(folder))).await? {
                page.objects.extend(part.objects);
                page.unreadable.extend(part.unreadable);
                left.extend(folders);
            }
            Ok(Some((page, left)))
        };
        let base = Folder { path: self.base.clone(), level: 0, after: Vec::new() };
        stream::try_unfold(vec![base], next).boxed()
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
            let at = |problem: Problem| problem.at(object.address.as_str());
            let path = object.address.strip_prefix(&self.cluster).ok_or_else(|| at(Problem::NotFound))?;
            // At the same time, so that it costs none. What has changed is not read, even if the old blocks are still there.
            let check = self.namenode.check(path, identity_of(object), object.bytes);
            let (body, is_same) = join(self.read_again(path, object, server, &range), check).await;
            is_same.and(body).map_err(at)
        }
        .boxed()
    }
}
