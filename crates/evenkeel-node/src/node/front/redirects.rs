//! Objects that are elsewhere: a node that knows the cluster answers for a redirect with the bytes, which it reads from
//! those who hold them.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use evenkeel_store::cluster::{self, BadCluster, Cluster, Held, Redirect, Servers};
use evenkeel_store::{Body, Endpoint, Problem};
use futures_util::stream::{self, StreamExt, TryStreamExt};
use hyper::HeaderMap;
use hyper::header::HeaderValue;
use s3s::{S3Error, S3ErrorCode, S3Result};

use super::super::store::{Outgoing, StoreError};
use super::errors::{broken, later, refuse};

/// The header by which clients say what they do with redirects.
pub(super) const HEADER: &str = "x-evenkeel-redirect";

/// What a client wants to see of a redirect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum View {
    /// The object that it leads to.
    #[default]
    Through,
    /// The redirect itself.
    Show,
    /// Where the object is, if it is in one piece; it goes there by itself.
    Follow,
}

impl View {
    pub(super) fn of(headers: &HeaderMap) -> S3Result<Self> {
        match headers.get(HEADER).map(HeaderValue::as_bytes) {
            None => Ok(Self::Through),
            Some(b"show") => Ok(Self::Show),
            Some(b"follow") => Ok(Self::Follow),
            Some(_) => {
                Err(refuse(S3ErrorCode::InvalidArgument, "x-evenkeel-redirect is neither show nor follow"))
            }
        }
    }
}

/// The servers of the cluster, as this node reaches them.
#[derive(Debug)]
pub struct Peers {
    servers: Arc<Servers>,
}

impl Peers {
    /// The servers of a cluster file.
    pub fn of(cluster: &Cluster) -> Result<Self, BadCluster> {
        Ok(Self::over(Arc::new(Servers::open(cluster)?)))
    }

    /// The same for servers that are ready to be asked.
    pub(crate) fn over(servers: Arc<Servers>) -> Self {
        Self { servers }
    }

    /// The servers, in the order of the cluster file.
    pub(in crate::node) fn servers(&self) -> &Arc<Servers> {
        &self.servers
    }

    pub(super) fn holder(&self, held: &Held) -> S3Result<&Endpoint> {
        self.holder_of(held).map(|server| &self.servers.all()[server].endpoint)
    }

    fn holder_of(&self, held: &Held) -> S3Result<usize> {
        self.servers.find(&held.server).ok_or_else(|| {
            broken(format!(
                "the object is held by `{}`, which is not in the cluster file of this node; add it and start \
                 the node again",
                held.server
            ))
        })
    }

    /// Reads a range of what a redirect leads to. The first piece that is needed is asked for at once, so that a holder
    /// that cannot be reached shows before the answer begins.
    pub(super) async fn read(
        &self,
        bucket: &str,
        redirect: &Redirect,
        range: Range<u64>,
    ) -> Result<Outgoing, Unread> {
        let mut pieces = Vec::new();
        let mut start = 0;
        for held in &redirect.pieces {
            let end = start + held.bytes;
            let within = range.start.max(start)..range.end.min(end);
            if held.is_hole() && !within.is_empty() {
                pieces.push(Needed::Zeros(within.end - within.start));
            } else if !within.is_empty() {
                let holder = self.holder_of(held).map_err(Unread::Failed)?;
                let within = within.start - start..within.end - start;
                let servers = Arc::clone(&self.servers);
                let (bucket, held) = (bucket.to_owned(), held.clone());
                pieces.push(Needed::Piece(Piece { bucket, held, within, servers, holder }));
            }
            start = end;
        }
        let mut pieces = pieces.into_iter();
        let Some(first) = pieces.next() else { return Ok(stream::empty().boxed()) };
        let first = match first {
            Needed::Zeros(bytes) => zeros(bytes),
            Needed::Piece(first) => {
                let opened = first.open().await.map_err(|error| match error.problem {
                    Problem::NotFound => Unread::Gone(first.held.server.clone()),
                    _ => Unread::Failed(later(format!(
                        "the object is held by `{}`: {error}",
                        first.held.server
                    ))),
                })?;
                first.verified(opened)
            }
        };
        let others = stream::iter(pieces).then(|needed| async move {
            match needed {
                Needed::Zeros(bytes) => zeros(bytes),
                Needed::Piece(piece) => match piece.open().await {
                    Ok(body) => piece.verified(body),
                    Err(error) => stream::once(async move { Err(piece.damaged(&error.to_string())) }).boxed(),
                },
            }
        });
        Ok(first.chain(others.flatten()).boxed())
    }
}

/// Why what a redirect leads to cannot be read.
#[derive(Debug)]
pub(super) enum Unread {
    /// The piece is not there. Maybe the redirect has been replaced meanwhile.
    Gone(String),
    Failed(S3Error),
}

/// So many bytes that nobody holds.
fn zeros(bytes: u64) -> Outgoing {
    let bytes = cluster::zeros(bytes);
    bytes.map_err(|error| StoreError::Unusable(error.to_string())).boxed()
}

/// What is needed of an object.
enum Needed {
    Zeros(u64),
    Piece(Piece),
}

/// A piece that is needed, or a part of it.
struct Piece {
    bucket: String,
    held: Held,
    within: Range<u64>,
    servers: Arc<Servers>,
    holder: usize,
}

impl Piece {
    fn is_whole(&self) -> bool {
        self.within == (0..self.held.bytes)
    }

    async fn open(&self) -> Result<Body, evenkeel_store::StoreError> {
        let mut headers = HeaderMap::new();
        // A piece is never a redirect, whatever its metadata say: nobody is sent round in circles.
        headers.insert(HEADER, HeaderValue::from_static("show"));
        let range = (!self.is_whole()).then(|| self.within.clone());
        Ok(self.servers.endpoint(self.holder)?.get(&self.bucket, &self.held.key, range, headers).await?.1)
    }

    fn damaged(&self, why: &str) -> StoreError {
        StoreError::Damaged {
            what: format!("{} at `{}`", self.held.key, self.held.server),
            why: why.to_owned(),
        }
    }

    /// The bytes of the piece. The last of them are held back until all were compared with the checksum, so that nobody
    /// takes wrong bytes for the whole.
    fn verified(self, body: Body) -> Outgoing {
        struct Reading {
            piece: Piece,
            body: Body,
            held_back: Option<Bytes>,
            digest: crc_fast::Digest,
            received: u64,
        }
        let digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
        let state = Reading { piece: self, body, held_back: None, digest, received: 0 };
        stream::unfold(Some(state), |state| async move {
            let mut state = state?;
            loop {
                match state.body.next().await {
                    Some(Ok(chunk)) => {
                        state.digest.update(&chunk);
                        state.received += chunk.len() as u64;
                        if let Some(before) = state.held_back.replace(chunk) {
                            return Some((Ok(before), Some(state)));
                        }
                    }
                    Some(Err(error)) => return Some((Err(state.piece.damaged(&error.to_string())), None)),
                    None => {
                        let Reading { piece, held_back, digest, received, .. } = state;
                        let expected = piece.within.end - piece.within.start;
                        if received != expected {
                            let why = format!("{received} bytes came instead of {expected}");
                            return Some((Err(piece.damaged(&why)), None));
                        }
                        if piece.is_whole() && digest.finalize() != u64::from(piece.held.crc32c) {
                            return Some((Err(piece.damaged("its CRC-32C is another")), None));
                        }
                        return Some((Ok(held_back?), None));
                    }
                }
            }
        })
        .boxed()
    }
}
