//! HDFS over HTTP (WebHDFS): the NameNode tells what there is and who holds it, DataNodes serve it.
//!
//! A DataNode that is asked for a range reads its own replica and checks it; where it has none, it fetches one. It
//! decodes and decrypts like any client of HDFS, so erasure-coded and encrypted files need nothing here.
//!
//! WebHDFS has no conditional requests. Files are therefore read by the numbers of their inodes, so that what takes the
//! place of a file is never taken for it. Where that is not possible (a router of a federation knows no inodes), the
//! status is compared before each read.

mod address;
mod answers;
pub mod fuzz;
mod user;

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream};
use futures_util::{FutureExt, StreamExt};
use reqwest::header::{ACCEPT_ENCODING, LOCATION};
use reqwest::{Client, Response, StatusCode, Url, redirect};
use tokio::net::TcpStream;
use tokio::sync::OnceCell;
use tokio::time::{Instant, timeout};

use self::address::{Address, url};
use self::answers::{Blocks, DataNode, Status};
use self::user::User;
use crate::error::{Problem, StoreError};
use crate::hdfs::is_after;
use crate::http::{self, answer};
use crate::{Body, Extent, Object, Page, Source, Unreadable};

/// Files that are located at once.
const N_AT_ONCE: usize = 16;
/// Blocks that are located by one request, about 2 KiB each.
const BLOCKS_AT_ONCE: u64 = 4096;
/// The maximum size of an answer in JSON.
const MOST_BYTES: usize = 64 << 20;
/// The maximum size of a refusal that is read. Stack traces are long.
const MOST_BYTES_OF_REFUSAL: usize = 1 << 16;
/// A DataNode that was silent for so long before it broke off has looked for other replicas.
const SEARCH: Duration = Duration::from_secs(2);
/// How long a DataNode that broke off may take to show that it is still there.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Folders within folders, as many as HDFS allows.
const MOST_LEVELS: usize = 1000;

/// A file or a folder in HDFS, over HTTP. Its servers are DataNodes, known once it has been listed.
///
/// `webhdfs://namenode:9870/path` or, encrypted, `swebhdfs://namenode:9871/path`, also written `webhdfs+https://`. As
/// everywhere in Hadoop, the path is not encoded. A delegation token is taken from `HADOOP_DELEGATION_TOKEN` or from the
/// file that `HADOOP_TOKEN_FILE_LOCATION` names, else a user's name from `HADOOP_USER_NAME` or the login.
#[derive(Debug)]
pub struct WebHdfs {
    address: Address,
    user: User,
    client: Client,
    servers: Mutex<Servers>,
    route: OnceCell<Route>,
}

/// The DataNodes that are known.
#[derive(Debug, Default)]
struct Servers {
    names: Vec<String>,
    /// How many transfers each was last busy with.
    n_transfers: Vec<u64>,
    numbers: HashMap<String, u32>,
}

impl Servers {
    fn number(&mut self, Holder { name, n_transfers }: Holder) -> u32 {
        let next = self.names.len() as u32;
        let number = *self.numbers.entry(name).or_insert_with_key(|name| {
            self.names.push(name.clone());
            self.n_transfers.push(0);
            next
        });
        self.n_transfers[number as usize] = n_transfers;
        number
    }
}

/// How DataNodes are asked, as the NameNode tells it.
struct Route {
    /// What a DataNode must know beside what is read: the address of the NameNode, and who asks.
    query: Vec<(String, String)>,
    /// Whether files are read by the numbers of their inodes.
    is_by_inode: bool,
}

/// Tokens stay secret.
impl std::fmt::Debug for Route {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Route").field("is_by_inode", &self.is_by_inode).finish_non_exhaustive()
    }
}

/// Where a listing is: folders that are still to be listed, with their levels, and the entry after which to go on in the
/// last of them.
type Left = Vec<(usize, String, Option<String>)>;

/// Consecutive bytes of a file, and who holds them.
type Held = (u64, Vec<Holder>);

/// A DataNode: the address of its web server, and how many transfers it is busy with.
#[derive(Debug)]
struct Holder {
    name: String,
    n_transfers: u64,
}

impl WebHdfs {
    /// The file or folder at an address. Nothing is asked yet.
    pub fn new(address: &str) -> Result<Self, StoreError> {
        let unusable = |what: String| Problem::Unsupported(what).at(address);
        let parsed = Address::parse(address).map_err(unusable)?;
        let user = User::of_environment(&parsed.namenode).map_err(unusable)?;
        // Redirects lead to DataNodes, which the plan chooses.
        let client = http::client(None, redirect::Policy::none()).map_err(unusable)?;
        Ok(Self { address: parsed, user, client, servers: Mutex::default(), route: OnceCell::new() })
    }

    fn known(&self) -> MutexGuard<'_, Servers> {
        self.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn send(&self, url: Url) -> Result<Response, Problem> {
        // Compressed data has other lengths.
        let request = self.client.get(url).header(ACCEPT_ENCODING, "identity");
        // The address may have a token in it.
        request.send().await.map_err(|error| answer::broken(&error.without_url()))
    }

    /// Asks the NameNode about a path.
    async fn ask(&self, path: &str, query: &[(&str, &str)]) -> Result<Response, Problem> {
        let query: Vec<(&str, &str)> = query.iter().copied().chain(self.user.parameter()).collect();
        let url =
            url(&self.address.server(&self.address.namenode), path, &query).map_err(Problem::Unsupported)?;
        self.send(url).await
    }

    /// What the NameNode answers in JSON.
    async fn asked(&self, path: &str, query: &[(&str, &str)]) -> Result<Vec<u8>, Problem> {
        let response = self.ask(path, query).await?;
        match response.status() {
            StatusCode::OK => http::body(response, MOST_BYTES).await,
            _ => Err(refused(response).await),
        }
    }

    async fn status(&self, path: &str) -> Result<Status, Problem> {
        answers::status(&self.asked(path, &[("op", "GETFILESTATUS")]).await?)
    }

    /// The next page of a listing, and what is left to list.
    async fn next(&self, mut left: Left) -> Result<Option<(Page, Left)>, StoreError> {
        let Some((level, folder, after)) = left.pop() else { return Ok(None) };
        let at = |problem: Problem| problem.at(self.address.of(&folder));
        let mut query = vec![("op", "LISTSTATUS_BATCH")];
        query.extend(after.as_deref().map(|after| ("startAfter", after)));
        let answer = self.asked(&folder, &query).await.and_then(|answer| answers::listing(&answer));
        let (entries, n_remaining) = match answer {
            // It was removed after the folder that it is in was listed.
            Err(Problem::NotFound) if level > 0 => return Ok(Some((Page::default(), left))),
            Err(problem @ Problem::Denied(_)) if level > 0 => {
                let unreadable = Unreadable { key: format!("{}/", self.key(&folder)), error: at(problem) };
                return Ok(Some((Page { unreadable: vec![unreadable], ..Page::default() }, left)));
            }
            answer => answer.map_err(at)?,
        };
        if n_remaining > 0 {
            let last = entries.last().map(|entry| entry.path_suffix.clone());
            if last.as_ref().is_none_or(|last| {
                after.as_ref().is_some_and(|after| !is_after(last.as_bytes(), after.as_bytes()))
            }) {
                return Err(at(Problem::Damaged("its listing goes round in circles".to_owned())));
            }
            left.push((level, folder.clone(), last));
        }
        let (mut files, mut page) = (Vec::new(), Page::default());
        for entry in entries {
            let path = path_of(&folder, level, &entry).map_err(at)?;
            match entry.kind.as_str() {
                "FILE" => files.push((path, entry)),
                "DIRECTORY" if level == MOST_LEVELS => {
                    let problem =
                        format!("more than {MOST_LEVELS} folders within each other; name an inner one");
                    return Err(at(Problem::Unsupported(problem)));
                }
                "DIRECTORY" => left.push((level + 1, path, None)),
                other => {
                    let problem = format!("it is a {}, which cannot be read", other.to_lowercase());
                    let error = Problem::Unsupported(problem).at(self.address.of(&path));
                    page.unreadable.push(Unreadable { key: self.key(&path), error });
                }
            }
        }
        let located = files.into_iter().map(|(path, status)| async move {
            let found = self.locate(&path, &status).await;
            (path, status, found)
        });
        let mut located = stream::iter(located).buffered(N_AT_ONCE);
        while let Some((path, status, found)) = located.next().await {
            let (key, address) = (self.key(&path), self.address.of(&path));
            match found {
                Ok(blocks) => {
                    let extents = self.extents(blocks);
                    let (bytes, identity) = (status.length, Some(status.identity()));
                    let (hashes, pieces) = (Vec::new(), None);
                    page.objects.push(Object { key, address, bytes, identity, hashes, pieces, extents });
                }
                Err(Problem::NotFound) => {}
                Err(problem) if is_of_one(&problem) => {
                    page.unreadable.push(Unreadable { key, error: problem.at(address) });
                }
                Err(problem) => return Err(problem.at(address)),
            }
        }
        Ok(Some((page, left)))
    }

    /// The key of a file: its path below the source's, or its name if it is the source.
    fn key(&self, path: &str) -> String {
        let below = path.strip_prefix(&self.address.path).and_then(|below| below.strip_prefix('/'));
        below.or_else(|| path.rsplit('/').next()).unwrap_or_default().to_owned()
    }

    /// Who holds which bytes of a file, in order, by the addresses of their web servers.
    async fn locate(&self, path: &str, status: &Status) -> Result<Vec<Held>, Problem> {
        let mut extents = Vec::new();
        let window = status.block_size.max(1).saturating_mul(BLOCKS_AT_ONCE).to_string();
        let mut end = 0;
        while end < status.length {
            let offset = end.to_string();
            let query = [("op", "GET_BLOCK_LOCATIONS"), ("offset", &offset), ("length", &window)];
            let found = answers::blocks(&self.asked(path, &query).await?)?;
            end = follow(found, end, status.length, &self.address, &mut extents)?;
        }
        Ok(extents)
    }

    /// The same with DataNodes by number.
    fn extents(&self, located: Vec<Held>) -> Vec<Extent> {
        let mut known = self.known();
        let extents = located.into_iter().map(|(bytes, holders)| {
            let servers = holders.into_iter().map(|holder| known.number(holder)).collect();
            Extent { bytes, servers }
        });
        extents.collect()
    }

    /// Fails if a file is not the one that was listed.
    async fn is_listed(&self, object: &Object, path: &str) -> Result<(), Problem> {
        let now = self.status(path).await?;
        match now.kind == "FILE"
            && now.length == object.bytes
            && object.identity.as_deref() == Some(&now.identity())
        {
            true => Ok(()),
            false => Err(Problem::Changed),
        }
    }

    /// Asks the NameNode how it sends readers to DataNodes.
    async fn find_route(&self, path: &str, inode: Option<u64>) -> Result<Route, Problem> {
        if let Some(inode) = inode
            && let Ok(query) = self.redirect(&inode_path(inode)).await
        {
            return Ok(Route { query, is_by_inode: true });
        }
        Ok(Route { query: self.redirect(path).await?, is_by_inode: false })
    }

    /// The parameters with which the NameNode sends a reader of a path to a DataNode.
    async fn redirect(&self, path: &str) -> Result<Vec<(String, String)>, Problem> {
        let response = self.ask(path, &[("op", "OPEN"), ("length", "1")]).await?;
        match response.status() {
            StatusCode::TEMPORARY_REDIRECT => {}
            StatusCode::OK => {
                let problem = "it serves data itself, as a gateway (HttpFS) does, so there are no DataNodes to choose; give \
                               the NameNode's address";
                return Err(Problem::Unsupported(problem.to_owned()));
            }
            _ => return Err(refused(response).await),
        }
        let told = response.headers().get(LOCATION).and_then(|value| Url::parse(value.to_str().ok()?).ok());
        let told = told.ok_or_else(|| Problem::Damaged("a redirect to nowhere".to_owned()))?;
        let pairs = told.query_pairs().filter(|(name, _)| !matches!(&**name, "op" | "offset" | "length"));
        Ok(pairs.map(|(name, value)| (name.into_owned(), value.into_owned())).collect())
    }

    /// Opens a range at a DataNode.
    async fn open(&self, object: &Object, server: usize, range: &Range<u64>) -> Result<Response, Problem> {
        let path = object.address.strip_prefix(&self.address.root()).ok_or(Problem::NotFound)?;
        let server = self.known().names.get(server).cloned().ok_or(Problem::NotFound)?;
        let inode = answers::file_id(object.identity.as_deref());
        let route = self.route.get_or_try_init(|| self.find_route(path, inode)).await?;
        let inode = inode.filter(|_| route.is_by_inode);
        if inode.is_none() {
            self.is_listed(object, path).await?;
        }
        let (offset, length) = (range.start.to_string(), (range.end - range.start).to_string());
        let mut query = vec![("op", "OPEN"), ("offset", &offset), ("length", &length)];
        query.extend(route.query.iter().map(|(name, value)| (name.as_str(), value.as_str())));
        let by_inode = inode.map(inode_path);
        let url = url(&server, by_inode.as_deref().unwrap_or(path), &query).map_err(Problem::Unsupported)?;
        let response = self.send(url).await?;
        let problem = match response.status() {
            StatusCode::OK => match answer::length(response.headers()) {
                Some(n) if n < range.end - range.start => Problem::Changed,
                Some(n) if n > range.end - range.start => {
                    Problem::Damaged(format!("{n} bytes in place of {length}"))
                }
                _ => return Ok(response),
            },
            _ => refused(response).await,
        };
        match problem {
            // The inode is gone, but something else may have its name.
            Problem::NotFound if inode.is_some() => {
                self.is_listed(object, path).await?;
                Err(Problem::NotFound)
            }
            problem => Err(problem),
        }
    }
}

/// The path of an entry of a folder, or of what was to be listed, if that is a file.
fn path_of(folder: &str, level: usize, entry: &Status) -> Result<String, Problem> {
    let name = entry.path_suffix.as_str();
    match name {
        "" if level == 0 && entry.kind != "DIRECTORY" && !folder.is_empty() => Ok(folder.to_owned()),
        "" | "." | ".." => Err(Problem::Damaged(format!("an entry named `{name}`"))),
        name if name.contains(['/', '\0']) => Err(Problem::Damaged(format!("an entry named `{name}`"))),
        name => Ok(format!("{folder}/{name}")),
    }
}

/// Appends blocks that follow on the first `end` bytes of a file of this length. Returns where they end.
fn follow(
    found: Blocks,
    mut end: u64,
    length: u64,
    address: &Address,
    extents: &mut Vec<Held>,
) -> Result<u64, Problem> {
    if found.is_under_construction {
        let problem = "it is being written; read it once its writer has closed it";
        return Err(Problem::Unsupported(problem.to_owned()));
    }
    if found.file_length != length {
        return Err(Problem::Changed);
    }
    let start = end;
    for block in found.list {
        let n = block.id.num_bytes;
        if block.start != end || n == 0 || n > length - end {
            return Err(Problem::Damaged(format!("a block at {} in place of {end}", block.start)));
        }
        if block.locations.is_empty() || block.is_corrupt {
            let problem = format!("its block at {end} has no replica that is alive and whole");
            return Err(Problem::Unsupported(problem));
        }
        let holder = |node: &DataNode| {
            let name = address.server(&node.host_and_port(address.is_encrypted)?);
            Ok(Holder { name, n_transfers: node.xceiver_count })
        };
        let holders: Result<Vec<Holder>, Problem> = block.locations.iter().map(holder).collect();
        let mut holders = holders?;
        // The NameNode shuffles them, but the same data set must give the same plan.
        holders.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        holders.dedup_by(|a, b| a.name == b.name);
        extents.push((n, holders));
        end += n;
    }
    match end == start {
        true => Err(Problem::Damaged(format!("no block at {end} of {length} bytes"))),
        false => Ok(end),
    }
}

/// The bytes of a range, as they come.
///
/// A DataNode that finds no right replica looks for others for three seconds at least, and up to half a minute, before it breaks
/// off. If it is still there afterwards, asking it again is of no use; a connection that just breaks is another matter.
fn body(response: Response, address: String) -> Body {
    let address: Arc<str> = address.into();
    let next = move |mut response: Response| {
        let address = Arc::clone(&address);
        async move {
            let asked = Instant::now();
            let problem = match response.chunk().await {
                Ok(chunk) => return Ok(chunk.map(|chunk| (chunk, response))),
                Err(error) => {
                    let is_given_up = answer::is_cut_off(&error) && asked.elapsed() >= SEARCH;
                    if is_given_up && is_there(response.url()).await {
                        Problem::Damaged(format!(
                            "DataNode {} broke off, as DataNodes do if no replica of a block passes its checksum; read it \
                             by hdfs://, which names the damaged ones",
                            response.url().authority()
                        ))
                    } else {
                        answer::broken(&error)
                    }
                }
            };
            Err(problem.at(&*address))
        }
    };
    stream::try_unfold(response, next).boxed()
}

/// Whether a server takes connections.
async fn is_there(server: &Url) -> bool {
    let host = server.host_str().unwrap_or_default().trim_matches(['[', ']']);
    let connect = TcpStream::connect((host, server.port_or_known_default().unwrap_or_default()));
    timeout(CONNECT_TIMEOUT, connect).await.is_ok_and(|connected| connected.is_ok())
}

/// Where HDFS has a file by the number of its inode.
fn inode_path(inode: u64) -> String {
    format!("/.reserved/.inodes/{inode}")
}

/// Whether a problem is of one file, and says nothing about the others.
fn is_of_one(problem: &Problem) -> bool {
    matches!(problem, Problem::Changed | Problem::Denied(_) | Problem::Unsupported(_) | Problem::Damaged(_))
}

/// Why a request was refused.
async fn refused(response: Response) -> Problem {
    let (status, headers) = (response.status(), response.headers().clone());
    let body = http::body(response, MOST_BYTES_OF_REFUSAL).await.unwrap_or_default();
    answers::refusal(status, &headers, &body)
}

impl Source for WebHdfs {
    fn servers(&self) -> Vec<String> {
        self.known().names.clone()
    }

    fn connections(&self) -> Vec<(String, u64)> {
        let known = self.known();
        known.names.iter().cloned().zip(known.n_transfers.iter().copied()).collect()
    }

    /// A DataNode asks the NameNode before it begins to send.
    fn usual_slots(&self) -> u32 {
        4
    }

    fn list(&self) -> BoxStream<'_, Result<Page, StoreError>> {
        let left: Left = vec![(0, self.address.path.clone(), None)];
        stream::try_unfold(left, |left| self.next(left)).boxed()
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
            let response = self.open(object, server, &range).await;
            let response = response.map_err(|problem| problem.at(object.address.as_str()))?;
            Ok(body(response, object.address.clone()))
        }
        .boxed()
    }
}
