//! What is asked of servers, and when they are left alone.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use evenkeel_store::cluster::redirect::{HELD, HOME, MAINTENANCE, OF};
use evenkeel_store::cluster::{Held, Redirect, Seen, Servers, encoded};
use evenkeel_store::{Payload, Problem, StoreError, Written};
use futures_util::StreamExt;
use futures_util::stream;
use hyper::Method;
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, IF_MATCH, IF_NONE_MATCH};
use serde_json::{Value, json};
use tokio::sync::{OnceCell, Semaphore, SemaphorePermit};
use tokio::time::{Instant, sleep, timeout};

use super::content::Part;
#[cfg(test)]
use crate::outside::simulated::Mistake;

/// A server that could not be reached is not asked again for this long.
const LEFT_ALONE: Duration = Duration::from_secs(5);
/// A server that fails so often in a row is left alone, too.
const MOST_FAILURES: u32 = 3;
/// How long a server may say that it is busy.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long the home of an object may take to name what was written into it: it may have to copy the rest.
const ANSWERED_WITHIN: Duration = Duration::from_mins(5);
/// How often a write is tried where it is not known what became of it, or where somebody else came first.
const MOST_ATTEMPTS: usize = 3;
/// Pieces that are deleted at once.
const N_DELETED_AT_ONCE: usize = 16;

/// A bucket of a cluster, as one program uses it.
#[derive(Debug)]
pub(super) struct Access {
    pub(super) servers: Arc<Servers>,
    pub(super) bucket: String,
    /// Whether nodes are told that transfers are a maintainer's.
    is_maintenance: bool,
    states: Vec<State>,
    n_transfers: AtomicU64,
    /// The server, the bytes and the start of each transfer under way.
    under_way: Mutex<BTreeMap<u64, (usize, u64, Instant)>>,
}

#[derive(Debug)]
struct State {
    slots: Semaphore,
    /// Until when it is left alone, and why.
    down: Mutex<Option<(Instant, StoreError)>>,
    /// Answers in a row that said that it failed.
    n_failed: AtomicU32,
    has_bucket: OnceCell<()>,
    is_conditional: OnceCell<bool>,
}

/// What a server stores under a name, and the pieces that it names if it is a redirect.
#[derive(Clone, Debug, Default)]
pub(super) struct Before {
    pub(super) seen: Option<Seen>,
    pub(super) pieces: Vec<Held>,
}

/// Why something was not written.
#[derive(Clone, Debug)]
pub(super) enum Fault {
    /// What is to be written cannot be read.
    Local(String),
    /// There is something else already.
    Exists,
    /// The server did not do it. If it is not sure, it may have.
    Server { error: StoreError, is_unsure: bool },
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        Self::Server { error, is_unsure: false }
    }
}

/// What is to be written where an object belongs.
pub(super) enum Entry<'a> {
    /// All of its bytes.
    Whole(&'a Part),
    /// Where they are.
    Elsewhere(&'a Redirect),
}

impl Access {
    pub(super) fn new(servers: Arc<Servers>, bucket: &str, slots: usize) -> Self {
        let state = |_| State {
            slots: Semaphore::new(slots),
            down: Mutex::default(),
            n_failed: AtomicU32::new(0),
            has_bucket: OnceCell::new(),
            is_conditional: OnceCell::new(),
        };
        let states = servers.all().iter().map(state).collect();
        let bucket = bucket.to_owned();
        let (n_transfers, under_way) = (AtomicU64::new(0), Mutex::default());
        Self { servers, bucket, is_maintenance: false, states, n_transfers, under_way }
    }

    /// The same for a maintainer.
    pub(super) fn of_maintainer(servers: Arc<Servers>, bucket: &str) -> Self {
        Self { is_maintenance: true, ..Self::new(servers, bucket, 1) }
    }

    /// The headers by which nodes know a maintainer.
    pub(super) fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        if self.is_maintenance {
            headers.insert(MAINTENANCE, HeaderValue::from_static("1"));
        }
        headers
    }

    pub(super) fn name(&self, server: usize) -> &str {
        self.servers.all().get(server).map_or("?", |server| &server.name)
    }

    /// Why a server is left alone at the moment, if it is.
    pub(super) fn down(&self, server: usize) -> Option<StoreError> {
        let mut down = lock(&self.states[server].down);
        if down.as_ref().is_some_and(|(until, _)| *until <= Instant::now()) {
            *down = None;
        }
        down.as_ref().map(|(_, error)| error.clone())
    }

    /// Judges a server by an answer. One that fails may do so for a single object; one that goes on failing is down.
    fn note<T>(&self, server: usize, answer: Result<T, StoreError>) -> Result<T, StoreError> {
        let State { down, n_failed, .. } = &self.states[server];
        let is_down = match answer.as_ref().map_err(|error| &error.problem) {
            Err(Problem::Unreachable(_) | Problem::TimedOut) => true,
            Err(Problem::Failed(_)) => n_failed.fetch_add(1, Ordering::Relaxed) + 1 >= MOST_FAILURES,
            _ => {
                n_failed.store(0, Ordering::Relaxed);
                false
            }
        };
        if let Some(error) = answer.as_ref().err().filter(|_| is_down) {
            *lock(down) = Some((Instant::now() + LEFT_ALONE, error.clone()));
        }
        answer
    }

    /// The transfers under way: the server, the bytes, and for how long.
    pub(super) fn under_way(&self) -> Vec<(usize, u64, Duration)> {
        let now = Instant::now();
        let under_way = lock(&self.under_way);
        under_way.values().map(|&(server, bytes, since)| (server, bytes, now - since)).collect()
    }

    /// Makes sure that a server has the bucket.
    pub(super) async fn with_bucket(&self, server: usize) -> Result<(), StoreError> {
        if let Some(error) = self.down(server) {
            return Err(error);
        }
        let make = || async {
            let endpoint = self.servers.endpoint(server)?;
            // Who cannot be asked is not known to be another one.
            if let Ok(Some(status)) = self.servers.status(server).await
                && !status.node.is_empty()
                && status.node != self.name(server)
            {
                let why = format!(
                    "the node there calls itself `{}`, and the cluster file calls it `{}`; correct the file, or start the \
                     node with another --name",
                    status.node,
                    self.name(server)
                );
                return Err(Problem::Unsupported(why).at(endpoint.address()));
            }
            if !endpoint.has_bucket(&self.bucket).await? {
                endpoint.create_bucket(&self.bucket).await?;
            }
            Ok(())
        };
        let made = self.states[server].has_bucket.get_or_try_init(make).await;
        self.note(server, made.copied())
    }

    /// Whether a server carries out conditional writes: what a node says, what another server shows.
    pub(super) async fn is_conditional(&self, server: usize) -> Result<bool, StoreError> {
        let ask = || async {
            match self.servers.status(server).await? {
                Some(status) => Ok(status.conditional_writes.unwrap_or(true)),
                None => Ok(self.servers.endpoint(server)?.conditions(&self.bucket).await?.writes),
            }
        };
        let asked = self.states[server].is_conditional.get_or_try_init(ask).await.copied();
        self.note(server, asked)
    }

    /// What a server stores under a name.
    pub(super) async fn before(&self, server: usize, key: &str) -> Result<Before, StoreError> {
        if let Some(error) = self.down(server) {
            return Err(error);
        }
        let seen = self.note(server, self.servers.look(server, &self.bucket, key).await)?;
        let mut pieces = Vec::new();
        if seen.as_ref().is_some_and(|seen| seen.redirect.is_some()) {
            match self.servers.redirect(server, &self.bucket, key).await {
                Ok(redirect) => pieces = redirect.pieces,
                // It is damaged, and names nothing; or it was replaced meanwhile, which the condition of a write shows.
                Err(StoreError { problem: Problem::Damaged(_) | Problem::NotFound, .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Before { seen, pieces })
    }

    /// Has held pieces named as parts of an object by its home, each with the offset where it belongs.
    ///
    /// Where the answer is lost it is looked whether they are named: they are never offered twice after that, since their names
    /// are used once.
    pub(super) async fn name_extents(
        &self,
        home: usize,
        key: &str,
        extents: &[(u64, Held)],
    ) -> Result<(), Fault> {
        let server = self.servers.all().get(home);
        let Some(control) = server.and_then(|server| server.control.as_ref()) else {
            return Err(Fault::Local(format!(
                "its home {} is no node, and only nodes write into objects",
                self.name(home)
            )));
        };
        let control = control.without_timeouts();
        let rows: Vec<_> = extents
            .iter()
            .map(|(offset, Held { server, key, bytes, crc32c })| {
                json!({"offset": offset, "bytes": bytes, "server": server, "key": key, "crc32c": crc32c})
            })
            .collect();
        let what = json!({"bucket": self.bucket, "key": key, "extents": rows});
        let (begun, mut pause) = (Instant::now(), Duration::from_millis(50));
        let error = loop {
            let said = control.say::<Value>(Method::POST, "v1/extents", Some(&what));
            match timeout(ANSWERED_WITHIN, said).await {
                Ok(Ok(_)) => return Ok(()),
                // It is busy, and has not done it.
                Ok(Err(StoreError { problem: Problem::Refused { .. }, .. }))
                    if begun.elapsed() < PATIENCE =>
                {
                    sleep(pause).await;
                    pause = (2 * pause).min(Duration::from_secs(2));
                }
                Ok(Err(error)) => break error,
                Err(_) => break Problem::TimedOut.at(control.address()),
            }
        };
        if let Ok(now) = self.before(home, key).await {
            let starts = now.pieces.iter().scan(0, |at, piece| {
                let start = *at;
                *at += piece.bytes;
                Some((start, piece.clone()))
            });
            let named: Vec<(u64, Held)> = starts.collect();
            if extents.iter().all(|extent| named.contains(extent)) {
                return Ok(());
            }
        }
        Err(judged(error, None))
    }

    /// Waits until a server has room for a transfer.
    pub(super) async fn slot(&self, server: usize) -> Option<SemaphorePermit<'_>> {
        // It is never closed.
        self.states[server].slots.acquire().await.ok()
    }

    /// Writes a piece at a holder. Returns how long that took.
    pub(super) async fn hold(
        &self,
        server: usize,
        object: &str,
        home: usize,
        held: &str,
        part: &Part,
    ) -> Result<(Written, Duration), Fault> {
        self.with_bucket(server).await?;
        let mut headers = checked(part.crc32c);
        for (name, value) in [(OF, format!("{}/{object}", self.bucket)), (HOME, self.name(home).to_owned())] {
            let name = HeaderName::try_from(format!("x-amz-meta-{name}"));
            if let (Ok(name), Ok(value)) = (name, HeaderValue::try_from(encoded(&value))) {
                headers.insert(name, value);
            }
        }
        let timer = self.begin(server, part.bytes());
        let mut n_attempts = 0;
        loop {
            n_attempts += 1;
            match self.patient(server, held, &headers, || part.payload()).await {
                Ok(written) => return Ok((written, timer.since.elapsed())),
                // The name is fresh, so writing it again cannot hurt.
                Err(StoreError { problem: Problem::Unreachable(_) | Problem::Failed(_), .. })
                    if n_attempts == 1 && part.unreadable().is_none() => {}
                Err(error) => return Err(judged(error, Some(part))),
            }
        }
    }

    /// Writes what belongs under a name at its home, in place of what was there `before`. Returns what was replaced, and how
    /// long it took.
    ///
    /// On servers with conditional writes nothing that others have written meanwhile is lost: where it may be replaced
    /// (`overwrites`), it is looked at first.
    pub(super) async fn settle(
        &self,
        home: usize,
        key: &str,
        mut before: Before,
        overwrites: bool,
        entry: &Entry<'_>,
    ) -> Result<(Before, Duration), Fault> {
        self.with_bucket(home).await?;
        let is_conditional = self.is_conditional(home).await?;
        #[cfg(test)]
        let is_conditional = is_conditional && !Mistake::BringsHomeAnyway.is_made();
        let part = if let Entry::Whole(part) = entry { Some(*part) } else { None };
        let begun = Instant::now();
        // Entries are too short to say anything about a server.
        let _timer = part.map(|part| self.begin(home, part.bytes()));
        let mut last = None;
        for _ in 0..MOST_ATTEMPTS {
            let mut headers = entry.headers();
            if is_conditional {
                let (name, value) = condition(before.seen.as_ref());
                headers.insert(name, value);
            }
            let Err(error) = self.patient(home, key, &headers, || entry.payload()).await else {
                return Ok((before, begun.elapsed()));
            };
            let is_unsure = may_be_done(&error.problem);
            if part.is_some_and(|part| part.unreadable().is_some())
                || !is_unsure && error.problem != Problem::Changed
            {
                return Err(judged(error, part));
            }
            // What has become of it?
            let Ok(now) = self.before(home, key).await else {
                return Err(Fault::Server { error, is_unsure });
            };
            if entry.is(&now) {
                return Ok((before, begun.elapsed()));
            }
            let is_same = tag(&now) == tag(&before);
            if !is_same && !overwrites {
                return Err(Fault::Exists);
            }
            before = now;
            last = Some(Fault::Server { error, is_unsure });
        }
        Err(last.unwrap_or(Fault::Exists))
    }

    /// Writes an object. Waits as long as the server says that it is busy, up to a point.
    async fn patient(
        &self,
        server: usize,
        key: &str,
        headers: &HeaderMap,
        payload: impl Fn() -> Payload,
    ) -> Result<Written, StoreError> {
        let (begun, mut pause) = (Instant::now(), Duration::from_millis(50));
        let mut headers = headers.clone();
        headers.extend(self.headers());
        loop {
            let put = self.servers.endpoint(server)?.put(&self.bucket, key, headers.clone(), payload()).await;
            match put {
                Err(StoreError { problem: Problem::Refused { retry_after }, .. })
                    if begun.elapsed() < PATIENCE =>
                {
                    sleep(retry_after.unwrap_or(pause).clamp(pause, PATIENCE)).await;
                    pause = (2 * pause).min(Duration::from_secs(2));
                }
                answer => return self.note(server, answer),
            }
        }
    }

    /// Deletes held pieces that nothing names any more. Returns how many are left; they are orphans then, which a
    /// maintainer collects. Where others have said what the pieces of an object (`of`) are, only those go that say so
    /// themselves: an entry that lies takes nothing with it.
    pub(super) async fn drop_pieces(&self, pieces: &[Held], of: Option<&str>) -> usize {
        let mut ours = Vec::new();
        for piece in pieces.iter().filter(|piece| piece.key.starts_with(HELD)) {
            ours.extend(self.servers.find(&piece.server).map(|server| {
                let of = of.map(|of| encoded(&format!("{}/{of}", self.bucket)));
                self.drop_piece(server, piece.key.clone(), of)
            }));
        }
        stream::iter(ours).buffer_unordered(N_DELETED_AT_ONCE).fold(0, async |all, n| all + n).await
    }

    /// Returns 1 if the piece is left, else 0.
    async fn drop_piece(&self, server: usize, key: String, of: Option<String>) -> usize {
        if self.down(server).is_some() {
            return 1;
        }
        if let Some(of) = of {
            let seen = self.servers.look(server, &self.bucket, &key).await;
            match self.note(server, seen) {
                Ok(Some(seen)) if seen.user.get(OF) == Some(&of) => {}
                Ok(_) => return 0,
                Err(_) => return 1,
            }
        }
        let Ok(endpoint) = self.servers.endpoint(server) else { return 1 };
        let deleted = endpoint.delete(&self.bucket, &key, HeaderMap::new()).await;
        match self.note(server, deleted) {
            Ok(()) | Err(StoreError { problem: Problem::NotFound, .. }) => 0,
            Err(_) => 1,
        }
    }

    fn begin(&self, server: usize, bytes: u64) -> Timer<'_> {
        let (number, since) = (self.n_transfers.fetch_add(1, Ordering::Relaxed), Instant::now());
        lock(&self.under_way).insert(number, (server, bytes, since));
        Timer { access: self, number, since }
    }
}

/// A transfer under way.
struct Timer<'a> {
    access: &'a Access,
    number: u64,
    since: Instant,
}

impl Drop for Timer<'_> {
    fn drop(&mut self) {
        lock(&self.access.under_way).remove(&self.number);
    }
}

impl Entry<'_> {
    fn headers(&self) -> HeaderMap {
        match self {
            Self::Whole(part) => checked(part.crc32c),
            Self::Elsewhere(redirect) => {
                let body = redirect.to_json();
                let crc = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, &body) as u32;
                let mut headers = checked(crc);
                headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
                for (name, value) in redirect.metadata() {
                    let name = HeaderName::try_from(format!("x-amz-meta-{name}"));
                    if let (Ok(name), Ok(value)) = (name, HeaderValue::try_from(value)) {
                        headers.insert(name, value);
                    }
                }
                headers
            }
        }
    }

    fn payload(&self) -> Payload {
        match self {
            Self::Whole(part) => part.payload(),
            Self::Elsewhere(redirect) => Payload::Bytes(redirect.to_json().into()),
        }
    }

    /// Whether it is what is there now.
    fn is(&self, now: &Before) -> bool {
        let Some(seen) = &now.seen else { return false };
        match self {
            Self::Whole(part) => {
                seen.redirect.is_none() && seen.bytes == part.bytes() && seen.crc32c == Some(part.crc32c)
            }
            // Their names are used once.
            Self::Elsewhere(redirect) => seen.redirect.is_some() && now.pieces == redirect.pieces,
        }
    }
}

/// The version of what is there.
fn tag(before: &Before) -> Option<&str> {
    before.seen.as_ref().map(|seen| seen.etag.as_str())
}

/// The condition that what was seen is still there.
pub(super) fn condition(seen: Option<&Seen>) -> (HeaderName, HeaderValue) {
    let tag = seen.and_then(|seen| HeaderValue::try_from(format!("\"{}\"", seen.etag)).ok());
    match (seen, tag) {
        (Some(_), Some(tag)) => (IF_MATCH, tag),
        (Some(_), None) => (IF_MATCH, HeaderValue::from_static("*")),
        (None, _) => (IF_NONE_MATCH, HeaderValue::from_static("*")),
    }
}

/// Whether a server may have done what it did not confirm.
pub(super) fn may_be_done(problem: &Problem) -> bool {
    matches!(problem, Problem::Unreachable(_) | Problem::TimedOut | Problem::Failed(_))
}

fn judged(error: StoreError, part: Option<&Part>) -> Fault {
    match part.and_then(Part::unreadable) {
        Some(why) => Fault::Local(why.to_owned()),
        None if error.problem == Problem::Changed => Fault::Exists,
        None => {
            let is_unsure = may_be_done(&error.problem);
            Fault::Server { error, is_unsure }
        }
    }
}

/// The header by which the server compares what arrives.
fn checked(crc32c: u32) -> HeaderMap {
    let mut headers = HeaderMap::new();
    if let Ok(value) = HeaderValue::try_from(STANDARD.encode(crc32c.to_be_bytes())) {
        headers.insert("x-amz-checksum-crc32c", value);
    }
    headers
}

/// The value behind a lock, whatever became of those who held it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use evenkeel_store::cluster::{Cluster, Credentials, Reference, Server};
    use tempfile::TempDir;

    /// A server that nobody asks.
    pub(in crate::write) fn access() -> (TempDir, Access) {
        let folder = tempfile::tempdir().unwrap();
        let keys = folder.path().join("keys");
        Credentials::read_or_make(&keys).unwrap();
        let server = Server {
            name: "s1".to_owned(),
            endpoint: "http://127.0.0.1:1".to_owned(),
            control: None,
            speed_millionths: 1_000_000,
            region: None,
            credentials: None,
        };
        let cluster =
            Cluster { servers: vec![server], credentials: Some(Reference::File(keys)), replicas: 1 };
        (folder, Access::new(Arc::new(Servers::open(&cluster).unwrap()), "data", 1))
    }

    #[test]
    fn a_server_that_fails_once_is_not_down() {
        let (_folder, access) = access();
        let note = |problem: Option<Problem>| {
            let _ = access.note(0, problem.map_or(Ok(()), |problem| Err(problem.at("s1"))));
            access.down(0).is_some()
        };
        let failed = || Some(Problem::Failed("InternalError".to_owned()));
        assert_eq!([failed(), failed(), None, failed(), failed()].map(note), [false; 5]);
        assert!(note(failed()), "three in a row");
        let access = Access::new(Arc::clone(&access.servers), "data", 1);
        let _ = access.note(0, Err::<(), _>(Problem::TimedOut.at("s1")));
        assert!(access.down(0).is_some());
    }
}
