//! The files of a Metalink: each at addresses of its own, on several web servers.

use std::ops::Range;

use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream};
use futures_util::{FutureExt, StreamExt};

use crate::error::{Problem, StoreError};
use crate::{Body, Extent, Hash, Http, Object, Page, Source, Unreadable};

/// Files that are asked for their sizes at once.
const N_AT_ONCE: usize = 16;

/// A file that several web servers hold.
#[derive(Clone, Debug)]
pub struct MirroredFile {
    /// Its name.
    pub name: String,
    /// Its size, if it is known.
    pub bytes: Option<u64>,
    /// Its checksums.
    pub hashes: Vec<Hash>,
    /// Its addresses, the preferred first.
    pub urls: Vec<String>,
}

/// Files with addresses, as a Metalink lists them. Its servers are all web servers that hold any of them.
#[derive(Debug)]
pub struct Metalink {
    servers: Vec<String>,
    clients: Vec<Http>,
    files: Vec<Found>,
}

/// A file, and its address at each server that holds it.
#[derive(Debug)]
struct Found {
    file: MirroredFile,
    at: Vec<(u32, String)>,
}

impl Metalink {
    /// The source of these files. Also returns what cannot be used, in words: addresses that are not of web servers, and
    /// files that are left without any.
    pub fn new(files: Vec<MirroredFile>) -> (Self, Vec<String>) {
        let mut metalink = Self { servers: Vec::new(), clients: Vec::new(), files: Vec::new() };
        let mut unusable = Vec::new();
        for file in files {
            let mut at: Vec<(u32, String)> = Vec::new();
            for url in &file.urls {
                match metalink.server(url) {
                    Ok(server) if at.iter().any(|(other, _)| *other == server) => {}
                    Ok(server) => at.push((server, url.clone())),
                    Err(error) => unusable.push(error.to_string()),
                }
            }
            if at.is_empty() {
                unusable.push(format!("{}: it has no address at a web server, and is left out", file.name));
            } else {
                metalink.files.push(Found { file, at });
            }
        }
        (metalink, unusable)
    }

    /// The server of an address.
    fn server(&mut self, url: &str) -> Result<u32, StoreError> {
        if !url.starts_with("http://") && !url.starts_with("https://") {
            let problem = "only http:// and https:// can be read; this mirror is not used";
            return Err(Problem::Unsupported(problem.to_owned()).at(url));
        }
        let client = Http::new(url)?;
        let name = client.servers()[0].clone();
        if let Some(known) = self.servers.iter().position(|server| *server == name) {
            return Ok(known as u32);
        }
        self.servers.push(name);
        self.clients.push(client);
        Ok(self.servers.len() as u32 - 1)
    }

    /// What is known about a file. If its size is not, the first server that answers is asked.
    async fn object(&self, number: usize, found: &Found) -> Result<Object, StoreError> {
        let Found { file, at } = found;
        let mut bytes = file.bytes.ok_or_else(|| Problem::NotFound.at(file.name.as_str()));
        for (server, url) in at {
            if bytes.is_ok() {
                break;
            }
            bytes = self.clients[*server as usize].size_of(url).await;
        }
        let bytes = bytes?;
        let extent = Extent { bytes, servers: at.iter().map(|(server, _)| *server).collect() };
        Ok(Object {
            key: file.name.clone(),
            address: number.to_string(),
            bytes,
            identity: None,
            hashes: file.hashes.clone(),
            extents: vec![extent],
        })
    }
}

impl Source for Metalink {
    fn servers(&self) -> &[String] {
        &self.servers
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
            let found = object.address.parse().ok().and_then(|number: usize| self.files.get(number));
            let url = found.and_then(|found| found.at.iter().find(|(at, _)| *at as usize == server));
            let (_, url) = url.ok_or_else(|| Problem::NotFound.at(object.key.as_str()))?;
            let there = Object { address: url.clone(), ..object.clone() };
            self.clients[server].read(&there, 0, range).await
        }
        .boxed()
    }
}
