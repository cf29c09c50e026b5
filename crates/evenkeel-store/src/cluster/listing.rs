//! What all servers of a cluster have, merged by name.

use std::collections::VecDeque;
use std::sync::Arc;

use futures_util::future::join_all;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use reqwest::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use super::redirect;
use super::{Redirect, Servers};
use crate::error::{Problem, StoreError};

/// Questions about single objects that a server is asked at once.
const N_AT_ONCE: usize = 16;
/// Objects in a page.
const PAGE: usize = 1000;
/// A redirect has at least so many bytes.
const LEAST_BYTES: u64 = 40;
/// What names begin with that are ours, and no objects of the user.
const HIDDEN: &str = ".evenkeel/";

/// An object, and who has something under its name.
#[derive(Clone, Debug)]
pub struct Found {
    /// Its name.
    pub key: String,
    /// What servers store under it, in the order of the servers.
    pub at: Vec<At>,
}

/// What a server stores under a name.
#[derive(Clone, Debug)]
pub struct At {
    /// The server, counted as in the cluster file.
    pub server: usize,
    /// What.
    pub stored: Stored,
}

/// What is stored.
#[derive(Clone, Debug)]
pub enum Stored {
    /// The bytes themselves.
    Whole {
        /// How many.
        bytes: u64,
        /// The entity tag, without quotes.
        etag: String,
    },
    /// Where they are.
    Elsewhere(Arc<Redirect>),
    /// Something that cannot be used.
    Unusable(StoreError),
}

impl Stored {
    /// The size of the object and its tag, if they are known.
    pub fn version(&self) -> Option<(u64, &str)> {
        match self {
            Self::Whole { bytes, etag } => Some((*bytes, etag)),
            Self::Elsewhere(redirect) => Some((redirect.bytes, &redirect.etag)),
            Self::Unusable(_) => None,
        }
    }
}

/// A listing of all servers of a cluster, page by page.
#[derive(Debug)]
pub struct Listing {
    servers: Arc<Servers>,
    bucket: String,
    prefix: String,
    lanes: Vec<Lane>,
}

/// The listing of one server.
#[derive(Debug)]
struct Lane {
    server: usize,
    found: VecDeque<(String, Stored)>,
    next: Next,
    /// The last name so far.
    last: String,
    /// Names up to this one are known already.
    known: String,
}

#[derive(Debug)]
enum Next {
    /// A node's own listing, after this name.
    Located(String),
    /// The page that this asks for, as S3 has it.
    Page(Option<String>),
    End,
    NoBucket,
    Failed(StoreError),
}

/// What a node tells of its objects.
#[derive(Deserialize)]
struct Located {
    objects: Vec<Row>,
    next: Option<String>,
}

#[derive(Deserialize)]
struct Row {
    key: String,
    bytes: u64,
    #[serde(default)]
    etag: String,
    #[serde(default)]
    redirect: Option<Value>,
}

impl Listing {
    /// A listing of what begins with a prefix.
    pub fn new(servers: Arc<Servers>, bucket: &str, prefix: &str) -> Self {
        Self::of(servers, |_| true, bucket, prefix)
    }

    /// The same of one server.
    pub fn of_server(servers: Arc<Servers>, server: usize, bucket: &str, prefix: &str) -> Self {
        Self::of(servers, |other| other == server, bucket, prefix)
    }

    fn of(servers: Arc<Servers>, is_asked: impl Fn(usize) -> bool, bucket: &str, prefix: &str) -> Self {
        let lane = |(server, member): (usize, &super::ClusterServer)| {
            let next = if member.control.is_some() { Next::Located(String::new()) } else { Next::Page(None) };
            Lane { server, found: VecDeque::new(), next, last: String::new(), known: String::new() }
        };
        let lanes =
            servers.all().iter().enumerate().filter(|(server, _)| is_asked(*server)).map(lane).collect();
        Self { servers, bucket: bucket.to_owned(), prefix: prefix.to_owned(), lanes }
    }

    /// The next objects, by name; nothing at the end. What a server has that fails is missing.
    pub async fn next(&mut self) -> Result<Option<Vec<Found>>, StoreError> {
        loop {
            let (servers, bucket, prefix) = (&self.servers, &self.bucket, &self.prefix);
            let waiting = self.lanes.iter_mut().filter(|lane| lane.is_waiting());
            join_all(waiting.map(|lane| lane.refill(servers, bucket, prefix))).await;
            let found = self.merge();
            if !found.is_empty() {
                return Ok(Some(found));
            }
            if !self.lanes.iter().any(Lane::is_waiting) {
                break;
            }
        }
        match self.lanes.iter().all(|lane| matches!(lane.next, Next::NoBucket)) {
            true => Err(Problem::NotFound.at(format!("bucket {}", self.bucket))),
            false => Ok(None),
        }
    }

    /// The servers that could not be listed to their end, and why.
    pub fn failures(&self) -> impl Iterator<Item = (usize, &StoreError)> {
        self.lanes.iter().filter_map(|lane| match &lane.next {
            Next::Failed(error) => Some((lane.server, error)),
            _ => None,
        })
    }

    /// What is known to be complete.
    fn merge(&mut self) -> Vec<Found> {
        let mut found: Vec<Found> = Vec::new();
        while !self.lanes.iter().any(Lane::is_waiting) {
            let Some(key) = self.lanes.iter().filter_map(Lane::first).min().map(str::to_owned) else { break };
            let at = self.lanes.iter_mut().filter(|lane| lane.first() == Some(&key));
            let at = at.filter_map(|lane| {
                lane.found.pop_front().map(|(_, stored)| At { server: lane.server, stored })
            });
            let at = at.collect();
            found.push(Found { key, at });
        }
        found
    }
}

impl Lane {
    fn first(&self) -> Option<&str> {
        self.found.front().map(|(key, _)| key.as_str())
    }

    /// Whether more has to be asked for before anything is known.
    fn is_waiting(&self) -> bool {
        self.found.is_empty() && matches!(self.next, Next::Located(_) | Next::Page(_))
    }

    async fn refill(&mut self, servers: &Servers, bucket: &str, prefix: &str) {
        let found = match &self.next {
            Next::Located(after) => located(servers, self.server, bucket, prefix, after).await,
            Next::Page(token) => listed(servers, self.server, bucket, prefix, token.as_deref()).await,
            Next::End | Next::NoBucket | Next::Failed(_) => return,
        };
        let (found, next) = match found {
            Ok(found) => found,
            // It may be a node that does not know the question, or stumbles over one of its objects.
            Err(_) if matches!(self.next, Next::Located(_)) => {
                (self.next, self.known) = (Next::Page(None), std::mem::take(&mut self.last));
                return;
            }
            Err(StoreError { problem: Problem::NotFound, .. }) => {
                self.next = Next::NoBucket;
                return;
            }
            Err(error) => {
                self.next = Next::Failed(error);
                return;
            }
        };
        self.next = next;
        for (key, stored) in found {
            if key <= self.last {
                let why = format!("its listing is not in order: `{key}` comes after `{}`", self.last);
                let address = servers.endpoint(self.server).map_or("", |endpoint| endpoint.address());
                self.next = Next::Failed(Problem::Damaged(why).at(address));
                break;
            }
            self.last.clone_from(&key);
            if key > self.known && key.starts_with(prefix) && !key.starts_with(HIDDEN) {
                self.found.push_back((key, stored));
            }
        }
    }
}

/// A page of what a server has, and what comes next.
type Page = (Vec<(String, Stored)>, Next);

/// What a node tells of its objects with their redirects.
async fn located(
    servers: &Servers,
    server: usize,
    bucket: &str,
    prefix: &str,
    after: &str,
) -> Result<Page, StoreError> {
    let Some(control) = &servers.member(server)?.control else { return Ok((Vec::new(), Next::End)) };
    let what = json!({"bucket": bucket, "prefix": prefix, "after": after, "limit": PAGE});
    let Located { objects, next } = control.say(Method::POST, "v1/locate", Some(&what)).await?;
    if next.as_deref().is_some_and(|next| next <= after) {
        let why = "its listing goes round in circles".to_owned();
        return Err(Problem::Damaged(why).at(control.address()));
    }
    let row = |Row { key, bytes, etag, redirect }: Row| {
        let stored = match redirect {
            None => Stored::Whole { bytes, etag: etag.trim_matches('"').to_owned() },
            Some(redirect) => {
                let read = match redirect.get("error").and_then(Value::as_str) {
                    // The node cannot read it itself.
                    Some(error) => Err(error.to_owned()),
                    None => {
                        Redirect::parse(redirect.to_string().as_bytes()).map_err(|error| error.to_string())
                    }
                };
                let read = read.and_then(|read| servers.unknown(&read).map_or(Ok(read), Err));
                let at = |why| Problem::Damaged(why).at(format!("{}/{bucket}/{key}", control.address()));
                read.map_or_else(|why| Stored::Unusable(at(why)), |read| Stored::Elsewhere(Arc::new(read)))
            }
        };
        (key, stored)
    };
    let next = next.map_or(Next::End, Next::Located);
    Ok((objects.into_iter().map(row).collect(), next))
}

/// A page of a listing as S3 has it. What is small enough is asked whether it is a redirect.
async fn listed(
    servers: &Servers,
    server: usize,
    bucket: &str,
    prefix: &str,
    token: Option<&str>,
) -> Result<Page, StoreError> {
    let page = servers.endpoint(server)?.list(bucket, prefix, token).await?;
    if page.next.is_some() && page.next.as_deref() == token {
        let why = "its listing goes round in circles".to_owned();
        return Err(Problem::Damaged(why).at(servers.endpoint(server)?.address()));
    }
    let objects = page.objects.into_iter().map(|object| async move {
        let crate::s3::Listed { key, bytes, etag } = object;
        let may_be_redirect = (LEAST_BYTES..=redirect::MOST_BYTES as u64).contains(&bytes);
        if !may_be_redirect || key.starts_with(HIDDEN) {
            return Ok(Some((key, Stored::Whole { bytes, etag })));
        }
        let stored = match servers.look(server, bucket, &key).await? {
            // It was removed meanwhile.
            None => return Ok(None),
            Some(seen) if seen.redirect.is_none() => Stored::Whole { bytes, etag },
            Some(_) => match servers.redirect(server, bucket, &key).await {
                Ok(redirect) => Stored::Elsewhere(Arc::new(redirect)),
                Err(StoreError { problem: Problem::NotFound, .. }) => return Ok(None),
                Err(error) => Stored::Unusable(error),
            },
        };
        Ok::<_, StoreError>(Some((key, stored)))
    });
    let found: Vec<_> = stream::iter(objects).buffered(N_AT_ONCE).try_collect().await?;
    let next = page.next.map_or(Next::End, |token| Next::Page(Some(token)));
    Ok((found.into_iter().flatten().collect(), next))
}
