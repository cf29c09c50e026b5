//! Files with addresses of their own at several servers, as a Metalink or a manifest lists them.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream};
use futures_util::{FutureExt, StreamExt};

use crate::error::{Problem, StoreError};
use crate::http::{bearer_token, over_http, server_name};
use crate::s3::place_of;
use crate::{Body, Extent, Folder, Hash, Http, Object, Page, Pieces, S3, Source, Trust, Unreadable};

/// Files that are asked for what is known about them at once.
const N_AT_ONCE: usize = 16;

/// A file that several servers hold.
#[derive(Clone, Debug)]
pub struct MirroredFile {
    /// Its name.
    pub name: String,
    /// Its size, if it is known.
    pub bytes: Option<u64>,
    /// Its checksums.
    pub hashes: Vec<Hash>,
    /// The checksums of its pieces.
    pub pieces: Option<Arc<Pieces>>,
    /// Its addresses, the preferred first.
    pub urls: Vec<String>,
}

/// Where a list of files comes from, and so what its addresses may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin<'a> {
    /// A Metalink. Its addresses are of web servers, and the encrypted ones get the bearer token.
    Metalink,
    /// A manifest of the user's own. Its addresses may also be files of this machine, and objects in buckets, which get
    /// requests that are signed by the user's keys.
    Manifest,
    /// The headers of the file at this address. Only its server gets the bearer token.
    Headers(&'a str),
}

/// Files with addresses. Its servers are all that hold any of them.
#[derive(Debug)]
pub struct Metalink {
    servers: Vec<String>,
    holders: Vec<Holder>,
    files: Vec<Found>,
    trust: Trust,
}

/// A file, and at each server that holds it the address by which that server reads it.
#[derive(Debug)]
struct Found {
    file: MirroredFile,
    at: Vec<(u32, String)>,
}

/// A server that holds files.
#[derive(Debug)]
enum Holder {
    Web(Http),
    Bucket(Box<S3>),
    Folder(Folder),
}

impl Holder {
    fn source(&self) -> &dyn Source {
        match self {
            Self::Web(http) => http,
            Self::Bucket(bucket) => bucket.as_ref(),
            Self::Folder(folder) => folder,
        }
    }

    async fn file_at(&self, address: &str) -> Result<Object, StoreError> {
        match self {
            Self::Web(http) => http.file_at(address).await,
            Self::Bucket(bucket) => bucket.file_at(address).await,
            Self::Folder(folder) => folder.file_at(address).await,
        }
    }
}

impl Metalink {
    /// The source of these files. Also returns what cannot be used, in words: addresses that cannot be read, and files
    /// that are left without any.
    ///
    /// A file without any checksum comes from one of its servers only, so that versions are never mixed, unless sizes
    /// are trusted.
    pub async fn new(files: Vec<MirroredFile>, origin: Origin<'_>, trust: Trust) -> (Self, Vec<String>) {
        let mut metalink = Self { servers: Vec::new(), holders: Vec::new(), files: Vec::new(), trust };
        let (mut unusable, mut resolved) = (Vec::new(), HashMap::new());
        for file in files {
            let mut at: Vec<(u32, String)> = Vec::new();
            for url in &file.urls {
                let place = match metalink.resolved(url, origin, &mut resolved).await {
                    Ok(url) => metalink.place(&file.name, &url, origin),
                    Err(error) => Err(error),
                };
                match place {
                    Ok((server, _)) if at.iter().any(|(other, _)| *other == server) => {}
                    Ok(found) => at.push(found),
                    Err(error) => unusable.push(error.to_string()),
                }
            }
            if at.is_empty() {
                unusable.push(format!("{}: it has no address that can be read, and is left out", file.name));
            } else {
                metalink.files.push(Found { file, at });
            }
        }
        (metalink, unusable)
    }

    /// The address by which a file is read. Grid storage is asked once where it serves HTTP, for all its files.
    async fn resolved(
        &self,
        url: &str,
        origin: Origin<'_>,
        known: &mut HashMap<String, Result<String, StoreError>>,
    ) -> Result<String, StoreError> {
        let Some((scheme, rest)) = url.split_once("://") else {
            return match origin {
                Origin::Manifest => Ok(url.to_owned()),
                _ => Err(unreadable(url)),
            };
        };
        match scheme {
            "http" | "https" | "dav" | "davs" => over_http(url).await,
            "s3" if origin == Origin::Manifest => Ok(url.to_owned()),
            "file" if origin == Origin::Manifest && rest.starts_with('/') => Ok(rest.to_owned()),
            "root" | "roots" | "xroot" | "xroots" => {
                let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
                let server = format!("{scheme}://{authority}");
                if !known.contains_key(&server) {
                    let found = over_http(url).await;
                    known.insert(server.clone(), found.and_then(|found| server_name(&found)));
                }
                match &known[&server] {
                    Ok(found) => Ok(format!("{found}/{}", path.trim_start_matches('/'))),
                    Err(error) => Err(error.problem.clone().at(url)),
                }
            }
            _ => Err(unreadable(url)),
        }
    }

    /// The server of an address, and the address by which that server reads the file.
    fn place(&mut self, key: &str, url: &str, origin: Origin<'_>) -> Result<(u32, String), StoreError> {
        let scheme = url.split_once("://").map(|(scheme, _)| scheme);
        // A file of this machine is held by the folder that its name is relative to, else by its own.
        let folder = url.strip_suffix(key).filter(|folder| folder.ends_with('/'));
        let folder = folder.or_else(|| url.rsplit_once('/').map(|(folder, _)| folder)).unwrap_or(".");
        let (name, address) = match scheme {
            Some("s3") => place_of(url)?,
            Some(_) => (server_name(url)?, url.to_owned()),
            None => (Folder::new(folder).servers()[0].clone(), url.to_owned()),
        };
        if let Some(known) = self.servers.iter().position(|server| *server == name) {
            return Ok((known as u32, address));
        }
        let holder = match scheme {
            Some("s3") => Holder::Bucket(Box::new(S3::new(url)?)),
            Some(_) => {
                let may_have_token = match origin {
                    Origin::Headers(address) => server_name(address)? == name,
                    Origin::Metalink | Origin::Manifest => url.starts_with("https://"),
                };
                let token = bearer_token().map_err(|what| Problem::Unsupported(what).at(url))?;
                Holder::Web(Http::with_token(url, token.filter(|_| may_have_token))?)
            }
            None => Holder::Folder(Folder::new(folder)),
        };
        self.servers.push(name);
        self.holders.push(holder);
        Ok((self.servers.len() as u32 - 1, address))
    }

    /// What is known about a file. If that is not enough, the first server that answers is asked.
    async fn object(&self, number: usize, found: &Found) -> Result<Object, StoreError> {
        let Found { file, at } = found;
        let is_comparable = |hashes: &[Hash], bytes: u64| {
            !hashes.is_empty() || file.pieces.is_some() || bytes == 0 || self.trust == Trust::Sizes
        };
        let mut object = Object {
            key: file.name.clone(),
            address: format!("{number} {}", at[0].1),
            bytes: 0,
            identity: None,
            hashes: file.hashes.clone(),
            pieces: file.pieces.clone(),
            extents: Vec::new(),
        };
        let mut servers: Vec<u32> = at.iter().map(|(server, _)| *server).collect();
        object.bytes = match file.bytes {
            Some(bytes) if is_comparable(&object.hashes, bytes) => bytes,
            listed => {
                let (server, there) = self.first_answer(file, at).await?;
                if listed.is_some_and(|bytes| bytes != there.bytes) {
                    let problem = format!("it has {} bytes there, not as listed", there.bytes);
                    return Err(Problem::Unsupported(problem).at(there.address));
                }
                if object.hashes.is_empty() {
                    object.hashes = there.hashes;
                }
                if !is_comparable(&object.hashes, there.bytes) {
                    servers = vec![server];
                    object.identity = there.identity;
                }
                there.bytes
            }
        };
        object.extents = vec![Extent { bytes: object.bytes, servers }];
        Ok(object)
    }

    /// What the first server that answers knows about a file.
    async fn first_answer(
        &self,
        file: &MirroredFile,
        at: &[(u32, String)],
    ) -> Result<(u32, Object), StoreError> {
        let mut error = Problem::NotFound.at(file.name.as_str());
        for (server, url) in at {
            match self.holders[*server as usize].file_at(url).await {
                Ok(object) => return Ok((*server, object)),
                Err(problem) => error = problem,
            }
        }
        Err(error)
    }
}

fn unreadable(url: &str) -> StoreError {
    let problem = "addresses of this kind cannot be read; this mirror is not used";
    Problem::Unsupported(problem.to_owned()).at(url)
}

impl Source for Metalink {
    fn servers(&self) -> Vec<String> {
        self.servers.clone()
    }

    fn url<'a>(&self, object: &'a Object) -> &'a str {
        object.address.split_once(' ').map_or(&object.address, |(_, url)| url)
    }

    fn list(&self) -> BoxStream<'_, Result<Page, StoreError>> {
        let objects = self.files.iter().enumerate();
        let objects = objects.map(|(number, found)| self.object(number, found).boxed());
        let page = stream::iter(objects).buffered(N_AT_ONCE).zip(stream::iter(&self.files)).fold(
            Page::default(),
            |mut page, (object, found)| async move {
                let key = found.file.name.clone();
                match object {
                    Ok(object) => page.objects.push(object),
                    Err(error) => page.unreadable.push(Unreadable { key, error }),
                }
                page
            },
        );
        stream::once(page.map(Ok)).boxed()
    }

    fn read<'a>(
        &'a self,
        object: &'a Object,
        server: usize,
        range: Range<u64>,
    ) -> BoxFuture<'a, Result<Body, StoreError>> {
        async move {
            let number = object.address.split(' ').next().and_then(|number| number.parse().ok());
            let found = number.and_then(|number: usize| self.files.get(number));
            let url = found.and_then(|found| found.at.iter().find(|(at, _)| *at as usize == server));
            let (_, url) = url.ok_or_else(|| Problem::NotFound.at(object.key.as_str()))?;
            let there = Object { address: url.clone(), ..object.clone() };
            self.holders[server].source().read(&there, 0, range).await
        }
        .boxed()
    }
}
