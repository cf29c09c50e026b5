//! Writes into objects: extents of an object that are elsewhere are named in its redirect, in place of what was there.
//!
//! Whoever writes makes the bytes durable first, as a held piece of its own, wherever they are placed; then the home of the
//! object names it. The home takes these requests for an object one after the other, and replaces the whole redirect on the
//! condition that it is still the one that was read: so a reader sees all of a write or nothing, and whoever writes the
//! object by S3, or moves it, at the same time is not overwritten unseen. Order: piece durable, redirect durable,
//! acknowledged; only then what it replaced is deleted.
//!
//! A piece that is cut is written anew as far as it remains, by the home: so every piece is named whole, with its checksum.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use evenkeel_store::cluster::redirect::{self, HELD, HOME, NAMED_WITHIN, OF, STRIPE_BYTES};
use evenkeel_store::cluster::{Held, Redirect, Servers, decoded, encoded};
use futures_util::stream::{self, BoxStream, StreamExt, TryStreamExt};
use hyper::StatusCode;
use s3s::{S3Error, S3ErrorCode, S3Result};
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep};

use super::super::gate::{Turn, Way};
use super::super::store::{Attributes, Condition, Entry, Incoming, Outgoing, StoreError};
use super::attributes::{self, Seen};
use super::bodies;
use super::checksums::{Algorithm, Promise};
use super::errors::{broken, custom, later, missing, refuse, told};
use super::redirects::{Peers, Unread};
use super::splice::{Part, spliced};
use super::{Front, check_key};
use crate::outside;
use crate::write;

/// Extents that a request names.
const MOST_EXTENTS: usize = 256;
/// An object has at most so many bytes, so that nobody makes an endless hole.
const MOST_OBJECT_BYTES: u64 = 5 << 40;
/// What is sent to be stored here has at most so many bytes.
const MOST_RANGE_BYTES: u64 = 1 << 30;
/// How often a redirect is read again because somebody else has written it.
const N_TRIES: usize = 16;
/// Pieces that are looked at at once.
const N_LOOKS: usize = 16;
/// Locks that are kept although nobody waits for them.
const MOST_LOCKS: usize = 1024;
/// What was replaced stays for so long, for readers that are under way.
const LINGER: Duration = Duration::from_secs(10);

/// What a write into an object asks of its home.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::node) struct Naming {
    pub(in crate::node) bucket: String,
    pub(in crate::node) key: String,
    pub(in crate::node) extents: Vec<Named>,
    /// Whether the object is made if there is none.
    #[serde(default = "yes")]
    pub(in crate::node) create: bool,
    /// The entity tag that it must have.
    #[serde(default)]
    pub(in crate::node) if_match: Option<String>,
}

/// A held piece, and where it belongs in the object.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::node) struct Named {
    pub(in crate::node) offset: u64,
    bytes: u64,
    server: String,
    key: String,
    crc32c: u32,
}

/// An object after a write into it.
#[derive(Clone, Debug, Serialize)]
pub(in crate::node) struct Wrote {
    format: u32,
    bytes: u64,
    etag: String,
    pieces: usize,
}

fn yes() -> bool {
    true
}

impl Named {
    fn held(&self) -> Held {
        let Self { bytes, server, key, crc32c, .. } = self;
        Held { server: server.clone(), key: key.clone(), bytes: *bytes, crc32c: *crc32c }
    }
}

/// Held while an object is written into.
type Lock = Arc<tokio::sync::Mutex<()>>;

/// What is under way.
#[derive(Debug, Default)]
pub(in crate::node) struct Ranges {
    /// Objects that are written into, by bucket and name.
    locks: Mutex<BTreeMap<(String, String), Lock>>,
    /// Pieces that were replaced and will be deleted, by server and name. They are not named again.
    leaving: Mutex<BTreeSet<(String, String)>>,
}

/// An object as its home has it.
struct Current {
    entry: Option<Entry>,
    redirect: Option<Redirect>,
}

/// Why a redirect was not replaced.
enum Unwritten {
    /// Somebody else has written the object.
    Changed,
    Failed(S3Error),
}

impl From<S3Error> for Unwritten {
    fn from(error: S3Error) -> Self {
        Self::Failed(error)
    }
}

impl From<StoreError> for Unwritten {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Precondition(_) => Self::Changed,
            error => Self::Failed(told(error)),
        }
    }
}

impl Front {
    /// Names held pieces as parts of an object.
    pub(in crate::node) async fn name_extents(&self, naming: &Naming) -> S3Result<Wrote> {
        let peers = self.home_of(&naming.bucket, &naming.key)?;
        check_extents(&naming.extents)?;
        self.check_bucket(&naming.bucket).await?;
        let named = self.already(naming).await?;
        if let Some(wrote) = named {
            return Ok(wrote);
        }
        let checked = Instant::now();
        self.check_pieces(peers, naming).await?;
        self.splice(peers, naming, Some(checked)).await
    }

    async fn check_pieces(&self, peers: &Peers, naming: &Naming) -> S3Result<()> {
        let servers = peers.servers();
        let checks = (0..naming.extents.len()).map(|extent| self.check_piece(servers, naming, extent));
        let checks: Vec<S3Result<()>> = stream::iter(checks).buffer_unordered(N_LOOKS).collect().await;
        checks.into_iter().collect()
    }

    /// Stores bytes here and names them as a part of an object.
    pub(in crate::node) async fn write_range<E: std::fmt::Display + Send + 'static>(
        &self,
        mut naming: Naming,
        offset: u64,
        promise: Promised,
        body: BoxStream<'static, Result<Bytes, E>>,
    ) -> S3Result<Wrote> {
        let peers = self.home_of(&naming.bucket, &naming.key)?;
        let bytes = match promise.bytes {
            None => {
                return Err(custom(
                    "MissingContentLength",
                    StatusCode::LENGTH_REQUIRED,
                    "say Content-Length",
                ));
            }
            Some(bytes) if bytes > MOST_RANGE_BYTES => {
                let why = "a range has at most 1 GiB; write several";
                return Err(refuse(S3ErrorCode::EntityTooLarge, why));
            }
            Some(bytes) => bytes,
        };
        let extent = |crc32c, key| Named { offset, bytes, server: self.name.to_string(), key, crc32c };
        check_extents(&[extent(0, format!("{HELD}0/0"))])?;
        self.check_bucket(&naming.bucket).await?;
        let turn = self.enter(Way::Write, bytes).await?;
        let key = format!("{HELD}{}/0", fresh()?);
        let promise = Promise {
            bytes: Some(bytes),
            checksum: Some((Algorithm::Crc32c, promise.crc32c)),
            ..Promise::default()
        };
        let held = self.hold(&naming.bucket, &naming.key, key, promise, body, Some(turn)).await?;
        naming.extents = vec![extent(held.crc32c, held.key.clone())];
        let wrote = self.splice(peers, &naming, None).await;
        if wrote.is_err() {
            // If it is named after all, it stays.
            self.leave(peers, &naming.bucket, &naming.key, vec![held]);
        }
        wrote
    }

    /// The cluster, if this node is the home of an object.
    fn home_of(&self, bucket: &str, key: &str) -> S3Result<&Arc<Peers>> {
        self.takes_data()?;
        check_key(key)?;
        if key.starts_with(".evenkeel/") {
            let why = "names that begin with .evenkeel/ are not for objects of users";
            return Err(refuse(S3ErrorCode::InvalidArgument, why));
        }
        if key.split('/').any(|step| matches!(step, "." | "..")) {
            let why = "no web address leads to a name with `.` or `..` between slashes, so nobody could maintain it";
            return Err(refuse(S3ErrorCode::InvalidArgument, why));
        }
        let Some(peers) = &self.peers else {
            return Err(missing("writes into objects without a cluster file; start it with --cluster FILE"));
        };
        let servers = peers.servers();
        if servers.replicas() > 1 {
            return Err(missing("writes into objects of several copies, which could not be kept the same"));
        }
        let home = servers.homes(bucket, key, 1).first().and_then(|home| servers.all().get(*home));
        match home {
            Some(home) if *home.name == *self.name => Ok(peers),
            home => {
                let home = home.map_or("nobody", |home| &home.name);
                let why = format!(
                    "the home of {bucket}/{key} is `{home}`, and this is `{}`; ask that one, or compare the cluster files",
                    self.name
                );
                Err(custom("NotTheHome", StatusCode::MISDIRECTED_REQUEST, why))
            }
        }
    }

    /// What the object is, if these pieces are what it has there: somebody asks again who did not get the answer.
    async fn already(&self, naming: &Naming) -> S3Result<Option<Wrote>> {
        let current = self.current(&naming.bucket, &naming.key).await?;
        Ok(current
            .redirect
            .filter(|redirect| has_all(redirect, &naming.extents))
            .map(|redirect| wrote(&redirect)))
    }

    /// Refuses to name what is not there, is something else, or may be collected soon.
    async fn check_piece(&self, servers: &Servers, naming: &Naming, extent: usize) -> S3Result<()> {
        let Named { server: name, key, bytes, crc32c, .. } = &naming.extents[extent];
        let wrong = |why: &str| {
            let code = S3ErrorCode::InvalidArgument;
            Err(refuse(code, format!("the piece {key} at `{name}` cannot be named: {why}")))
        };
        let Some(server) = servers.find(name) else {
            return wrong("that server is not in the cluster file of this node");
        };
        let seen = servers.look(server, &naming.bucket, key).await;
        let seen = seen.map_err(|error| later(format!("the piece {key} cannot be looked at: {error}")))?;
        let Some(seen) = seen else { return wrong("it is not there; write it first") };
        let said = |name: &str| seen.user.get(name).and_then(|value| decoded(value));
        if seen.redirect.is_some() || seen.bytes != *bytes {
            return wrong(&format!("it has {} bytes", seen.bytes));
        }
        if seen.crc32c.is_some_and(|crc| crc != *crc32c) {
            return wrong("its CRC-32C is another");
        }
        if said(OF).as_deref() != Some(&format!("{}/{}", naming.bucket, naming.key))
            || said(HOME).as_deref() != Some(&*self.name)
        {
            return wrong("its metadata do not say that it belongs to this object, or to this home");
        }
        if seen.age.is_none_or(|age| age > NAMED_WITHIN) {
            return wrong("it is older than 12 hours, so it may be collected; write it again");
        }
        Ok(())
    }

    /// Replaces the redirect of an object. Pieces of others were `checked` at some time.
    async fn splice(&self, peers: &Arc<Peers>, naming: &Naming, checked: Option<Instant>) -> S3Result<Wrote> {
        let lock = self.ranges.lock(&naming.bucket, &naming.key);
        let _guard = lock.lock().await;
        // What was deleted since then is remembered only for a while.
        if checked.is_some_and(|checked| checked.elapsed() >= LINGER) {
            self.check_pieces(peers, naming).await?;
        }
        for _ in 0..N_TRIES {
            match self.splice_once(peers, naming).await {
                Ok(wrote) => return Ok(wrote),
                Err(Unwritten::Failed(error)) => return Err(error),
                Err(Unwritten::Changed) => {}
            }
        }
        Err(later("others write the object all the time; try again"))
    }

    async fn splice_once(&self, peers: &Arc<Peers>, naming: &Naming) -> Result<Wrote, Unwritten> {
        let Naming { bucket, key, extents, create, if_match } = naming;
        let Current { entry, redirect: before } = self.current(bucket, key).await?;
        if let Some(redirect) = before.as_ref().filter(|redirect| has_all(redirect, extents)) {
            return Ok(wrote(redirect));
        }
        let tag = entry.as_ref().map(|entry| Seen::of(entry, false)).transpose()?.map(|seen| seen.etag);
        match (&tag, if_match) {
            (None, _) if !create => return Err(told(StoreError::NoSuchKey(key.clone())).into()),
            (Some(tag), Some(wanted)) if wanted == "*" || wanted.trim_matches('"') == tag => {}
            (_, None) => {}
            (tag, Some(_)) => {
                let is = tag.as_ref().map_or("it is not there".to_owned(), |tag| format!("it is {tag}"));
                let why = format!("the object is not the one of if_match: {is}");
                return Err(refuse(S3ErrorCode::PreconditionFailed, why).into());
            }
        }
        let old: &[Held] = before.as_ref().map_or(&[], |redirect| &redirect.pieces);
        self.ranges.check_unused(old, extents)?;
        let own_bytes = entry.as_ref().filter(|_| before.is_none()).map_or(0, |entry| entry.bytes);
        let sizes: Vec<(u64, bool)> = old.iter().map(|piece| (piece.bytes, piece.is_hole())).collect();
        let new: Vec<(u64, u64)> = extents.iter().map(|extent| (extent.offset, extent.bytes)).collect();
        let parts = spliced(&sizes, own_bytes, &new)
            .ok_or_else(|| broken(format!("{bucket}/{key}: its redirect cannot be used")))?;
        let mut made = Making { front: self, peers, bucket, key, id: fresh()?, n: 0, pieces: Vec::new() };
        for part in parts {
            match part {
                Part::New(new) => made.pieces.push(extents[new].held()),
                Part::Kept(piece, range) if range == (0..old[piece].bytes) => {
                    made.pieces.push(old[piece].clone());
                }
                Part::Kept(piece, range) => made.keep(&old[piece], range).await?,
                Part::Own(range) => {
                    if let Some(entry) = entry.as_ref().filter(|_| range.start < own_bytes) {
                        made.copy(entry.version, range.start..range.end.min(own_bytes)).await?;
                    }
                    let hole = range.end.saturating_sub(range.start.max(own_bytes));
                    made.pieces.extend((hole > 0).then(|| Held::hole(hole)));
                }
            }
        }
        let (id, pieces) = (made.id, made.pieces);
        let redirect = Redirect::new(format!("{id}-{}", pieces.len()), pieces);
        let text = redirect.to_json();
        if text.len() > redirect::MOST_BYTES {
            let why = format!(
                "{bucket}/{key} would be in {} pieces, which is more than a redirect has room for; write larger extents, \
                 or let evenkeel maintain join them first",
                redirect.pieces.len()
            );
            return Err(custom("TooManyPieces", StatusCode::INSUFFICIENT_STORAGE, why).into());
        }
        let mut attributes = entry
            .as_ref()
            .map_or_else(Attributes::default, |entry| attributes::without_marks(&entry.attributes));
        attributes.user.extend(redirect.metadata());
        let condition = entry.as_ref().map_or(Condition::Absent, |entry| Condition::Version(entry.version));
        let body = Incoming {
            size: Some(text.len() as u64),
            bytes: stream::once(std::future::ready(Ok(text.into()))).boxed(),
            checksum: Arc::new(OnceLock::new()),
        };
        let put = self.store.put(bucket, key, attributes, body, condition).await;
        let stay: BTreeSet<&str> = redirect.pieces.iter().map(|piece| piece.key.as_str()).collect();
        match put {
            Ok(_) => {
                let gone = old.iter().filter(|piece| !stay.contains(piece.key.as_str())).cloned().collect();
                self.leave(peers, bucket, key, gone);
                Ok(wrote(&redirect))
            }
            Err(error) => {
                // Nobody knows the rests that were written for it.
                let is_ours = |piece: &&Held| piece.key.starts_with(&format!("{HELD}{id}/"));
                let rests = redirect.pieces.iter().filter(is_ours).cloned().collect();
                if matches!(error, StoreError::Precondition(_)) {
                    self.leave(peers, bucket, key, rests);
                }
                Err(error.into())
            }
        }
    }

    /// What there is of an object.
    async fn current(&self, bucket: &str, key: &str) -> S3Result<Current> {
        for _ in 0..N_TRIES {
            let entry = match self.store.head(bucket, key).await {
                Ok(entry) => entry,
                Err(StoreError::NoSuchKey(_)) => return Ok(Current { entry: None, redirect: None }),
                Err(error) => return Err(told(error)),
            };
            if !Redirect::is_marked(&entry.attributes.user) {
                return Ok(Current { entry: Some(entry), redirect: None });
            }
            if let Some((version, .., redirect)) = self.redirect(bucket, key).await?
                && version == entry.version
            {
                return Ok(Current { entry: Some(entry), redirect });
            }
        }
        Err(later("others write the object all the time; try again"))
    }

    /// Stores a piece here.
    async fn hold<E: std::fmt::Display + Send + 'static>(
        &self,
        bucket: &str,
        of: &str,
        key: String,
        promise: Promise,
        body: BoxStream<'static, Result<Bytes, E>>,
        turn: Option<Turn>,
    ) -> S3Result<Held> {
        let user = [(OF, format!("{bucket}/{of}")), (HOME, self.name.to_string())];
        let user = user.into_iter().map(|(name, value)| (name.to_owned(), encoded(&value))).collect();
        let attributes = Attributes { user, ..Attributes::default() };
        let (incoming, fault) = bodies::incoming(body, promise, turn);
        let checksum = Arc::clone(&incoming.checksum);
        let put = self.store.put(bucket, &key, attributes, incoming, Condition::Absent).await;
        let entry = put.map_err(|error| fault.or(error))?;
        let crc32c = checksum.get().and_then(super::checksums::crc32c);
        let crc32c = crc32c.ok_or_else(|| broken("the store has not read all of a piece"))?;
        Ok(Held { server: self.name.to_string(), key, bytes: entry.bytes, crc32c })
    }

    /// Deletes pieces after a while, unless they are named.
    fn leave(&self, peers: &Arc<Peers>, bucket: &str, of: &str, pieces: Vec<Held>) {
        let names = pieces.iter().filter(|piece| !piece.is_hole());
        let names: Vec<_> = names.map(|piece| (piece.server.clone(), piece.key.clone())).collect();
        if names.is_empty() {
            return;
        }
        lock(&self.ranges.leaving).extend(names.iter().cloned());
        // A node that is stopped meanwhile does not wait for it.
        let store = Arc::downgrade(&self.store);
        let Self { name, gate, ranges, .. } = self.clone();
        let (peers, bucket, of) = (Arc::clone(peers), bucket.to_owned(), of.to_owned());
        tokio::spawn(async move {
            sleep(LINGER).await;
            let Some(store) = store.upgrade() else { return };
            let servers = Arc::clone(peers.servers());
            let front = Self { name, store, gate, ranges: Arc::clone(&ranges), peers: Some(peers) };
            let current = front.current(&bucket, &of).await;
            drop(front);
            // If the entry cannot be read, they are orphans, or not.
            if let Ok(current) = current {
                let named = current.redirect.map(|redirect| redirect.pieces).unwrap_or_default();
                let gone: Vec<Held> = pieces.into_iter().filter(|piece| !named.contains(piece)).collect();
                write::drop_pieces(servers, &bucket, &of, &gone).await;
            }
            // Whoever has seen them before that may still want to name them.
            sleep(LINGER).await;
            let mut leaving = lock(&ranges.leaving);
            names.iter().for_each(|name| _ = leaving.remove(name));
        });
    }
}

/// What is said of bytes that come.
#[derive(Debug, Default)]
pub(in crate::node) struct Promised {
    /// How many.
    pub(in crate::node) bytes: Option<u64>,
    /// Their CRC-32C, in Base64.
    pub(in crate::node) crc32c: Option<String>,
}

/// The pieces of an object that is being written into.
struct Making<'a> {
    front: &'a Front,
    peers: &'a Arc<Peers>,
    bucket: &'a str,
    key: &'a str,
    /// What the names of fresh pieces have in common, and how many there are.
    id: String,
    n: u64,
    pieces: Vec<Held>,
}

impl Making<'_> {
    /// Writes what remains of a piece anew. All of it is read, since its checksum is that of all.
    async fn keep(&mut self, piece: &Held, range: Range<u64>) -> Result<(), Unwritten> {
        let whole = Redirect::new(String::new(), vec![piece.clone()]);
        let bytes = match self.peers.read(self.bucket, &whole, 0..piece.bytes).await {
            Ok(bytes) => bytes,
            // A maintainer may have moved it meanwhile.
            Err(Unread::Gone(_)) if self.is_changed(piece).await? => return Err(Unwritten::Changed),
            Err(Unread::Gone(holder)) => {
                let why = format!("{}/{}: a piece of it is missing at `{holder}`", self.bucket, self.key);
                return Err(broken(why).into());
            }
            Err(Unread::Failed(error)) => return Err(error.into()),
        };
        let n_bytes = range.end - range.start;
        self.write(n_bytes, within(bytes, range)).await
    }

    async fn is_changed(&self, piece: &Held) -> S3Result<bool> {
        let now = self.front.current(self.bucket, self.key).await?;
        Ok(now.redirect.is_none_or(|redirect| !redirect.pieces.contains(piece)))
    }

    /// Copies what is under the object's own name into pieces.
    async fn copy(&mut self, version: u64, range: Range<u64>) -> Result<(), Unwritten> {
        let mut start = range.start;
        while start < range.end {
            let end = range.end.min((start / STRIPE_BYTES + 1) * STRIPE_BYTES);
            let choose = |entry: &Entry| match entry.version == version {
                true => Ok(start..end),
                false => Err(StoreError::Precondition("the object was written meanwhile".to_owned())),
            };
            let (_, bytes) =
                match self.front.store.get(self.bucket, self.key, Some(start..end), &choose).await {
                    Err(StoreError::NoSuchKey(_)) => return Err(Unwritten::Changed),
                    got => got?,
                };
            self.write(end - start, bytes).await?;
            start = end;
        }
        Ok(())
    }

    async fn write(&mut self, bytes: u64, body: Outgoing) -> Result<(), Unwritten> {
        let key = format!("{HELD}{}/{}", self.id, self.n);
        self.n += 1;
        let promise =
            Promise { bytes: Some(bytes), checksum: Some((Algorithm::Crc32c, None)), ..Promise::default() };
        let held = self.front.hold(self.bucket, self.key, key, promise, body, None).await;
        self.pieces.push(held.map_err(|error| match error.code() {
            // Our own bytes are not the client's fault.
            S3ErrorCode::IncompleteBody | S3ErrorCode::BadDigest => {
                let why = error.message().unwrap_or_default();
                broken(format!("{}/{}: what remains of a piece cannot be kept: {why}", self.bucket, self.key))
            }
            _ => error,
        })?);
        Ok(())
    }
}

impl Ranges {
    fn lock(&self, bucket: &str, key: &str) -> Lock {
        let mut locks = lock(&self.locks);
        if locks.len() > MOST_LOCKS {
            locks.retain(|_, one| Arc::strong_count(one) > 1);
        }
        Arc::clone(locks.entry((bucket.to_owned(), key.to_owned())).or_default())
    }

    /// Refuses names that are used already: what replaces them deletes them.
    fn check_unused(&self, old: &[Held], extents: &[Named]) -> S3Result<()> {
        let used: BTreeSet<(&str, &str)> =
            old.iter().map(|piece| (piece.server.as_str(), piece.key.as_str())).collect();
        let leaving = lock(&self.leaving);
        for Named { server, key, .. } in extents {
            if used.contains(&(server.as_str(), key.as_str()))
                || leaving.contains(&(server.clone(), key.clone()))
            {
                let why =
                    format!("the piece {key} at `{server}` was named before; write it under a fresh name");
                return Err(custom("NameUsed", StatusCode::CONFLICT, why));
            }
        }
        Ok(())
    }
}

/// Refuses what makes no sense, whatever the object is.
fn check_extents(extents: &[Named]) -> S3Result<()> {
    let wrong = |why: String| Err(refuse(S3ErrorCode::InvalidArgument, why));
    if extents.is_empty() || extents.len() > MOST_EXTENTS {
        return wrong(format!("a request names 1 to {MOST_EXTENTS} extents, and not {}", extents.len()));
    }
    let mut names = BTreeSet::new();
    let mut sorted: Vec<&Named> = extents.iter().collect();
    sorted.sort_by_key(|extent| extent.offset);
    let mut end = 0;
    for (n, Named { offset, bytes, server, key, .. }) in sorted.into_iter().enumerate() {
        let Some(own_end) = offset.checked_add(*bytes).filter(|end| *end <= MOST_OBJECT_BYTES) else {
            return wrong(format!("{bytes} bytes at {offset} end beyond 5 TiB, the largest object"));
        };
        if *bytes == 0 {
            return wrong(format!("the extent at {offset} is empty; leave it out"));
        }
        if n > 0 && *offset < end {
            return wrong(format!("two extents overlap at {offset}; one request writes each byte once"));
        }
        if !key.starts_with(HELD) || key.len() > 1024 || key.contains('\0') {
            return wrong(format!("`{key}` is no name of a held piece; those begin with {HELD}"));
        }
        if !names.insert((server, key)) {
            return wrong(format!("the piece {key} at `{server}` is named twice"));
        }
        end = own_end;
    }
    Ok(())
}

/// Whether these extents are just what an object has there.
fn has_all(redirect: &Redirect, extents: &[Named]) -> bool {
    let mut start = 0;
    let mut at = BTreeMap::new();
    for piece in &redirect.pieces {
        at.insert(start, piece);
        start += piece.bytes;
    }
    extents.iter().all(|extent| at.get(&extent.offset).is_some_and(|piece| **piece == extent.held()))
}

fn wrote(redirect: &Redirect) -> Wrote {
    Wrote { format: 1, bytes: redirect.bytes, etag: redirect.etag.clone(), pieces: redirect.pieces.len() }
}

/// A range of these bytes. The rest is read, too, so that an error at the end of it shows.
fn within(bytes: Outgoing, range: Range<u64>) -> Outgoing {
    let mut at = 0;
    let cut = bytes.try_filter_map(move |chunk| {
        let (start, end) = (at, at + chunk.len() as u64);
        at = end;
        let (from, to) = (range.start.clamp(start, end), range.end.clamp(start, end));
        let chunk = chunk.slice((from - start) as usize..(to - start) as usize);
        std::future::ready(Ok((!chunk.is_empty()).then_some(chunk)))
    });
    cut.boxed()
}

fn fresh() -> S3Result<String> {
    let id = outside::fresh().map_err(|error| broken(format!("cannot draw a fresh name: {error}")))?;
    Ok(format!("{id:032x}"))
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
