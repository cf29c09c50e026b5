//! Brings objects home, and collects pieces that nothing names.
//!
//! Whatever is changed is changed under the condition that the entry at home is still the one that was seen. So a write
//! that comes meanwhile wins, and where a server has no conditional writes nothing is moved.

use std::collections::{BTreeSet, HashMap};
use std::ops::{AddAssign, Range};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use crc_fast::{CrcAlgorithm, checksum_combine};
use evenkeel_store::cluster::redirect::{HELD, HOME, NAMED_WITHIN, OF, STRIPE_BYTES};
use evenkeel_store::cluster::{Held, Listing, Redirect, Servers, Stored, decoded};
use evenkeel_store::{Problem, StoreError};
use futures_util::future::join_all;
use futures_util::stream::{self, BoxStream};
use futures_util::{StreamExt, TryStreamExt};
use hyper::header::HeaderMap;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::access::{Access, Before, Entry, Fault};
use super::content::{Content, Part};
use super::driver::{TOO_LONG, dealt};
use crate::outside::fresh;

/// Even pieces that are joined if there are more, and they are small: no object is written in so many.
const MOST_APART: usize = 10_000;
/// Entries that are remembered while pieces are looked through.
const MOST_REMEMBERED: usize = 10_000;
/// They are looked at again after this time, which is short beside that in which a piece may still be named.
const REMEMBERED: Duration = Duration::from_hours(1);

/// How to maintain a bucket.
#[derive(Clone, Debug)]
pub struct Maintaining {
    /// Only objects whose names begin so. Pieces that nothing names are collected in the whole bucket.
    pub prefix: String,
    /// Copies of each object.
    pub replicas: u32,
    /// Whether anything is changed. Otherwise what would be done is told.
    pub apply: bool,
    /// The most bytes per second that are moved.
    pub rate: Option<u64>,
    /// A piece that nothing names is left alone for this long: its entry may be on its way. While others write, longer than
    /// [`NAMED_WITHIN`].
    pub grace: Duration,
}

/// Something that is done, or would be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Maintenance {
    /// An object comes home.
    Home {
        /// Its name.
        key: String,
        /// The server that holds it.
        from: String,
        /// Its home.
        to: String,
        /// Its size.
        bytes: u64,
    },
    /// Pieces of a large object go to the servers that they are at by default.
    Pieces {
        /// The object.
        key: String,
        /// How many.
        n_pieces: usize,
        /// Their bytes.
        bytes: u64,
    },
    /// A piece that nothing names is deleted.
    Orphan {
        /// The server that holds it.
        server: String,
        /// Its name there.
        key: String,
        /// Its size.
        bytes: u64,
    },
    /// Something is left as it is.
    LeftAlone {
        /// What.
        what: String,
        /// Why.
        why: String,
    },
    /// Something went wrong.
    Failed {
        /// What.
        what: String,
        /// Why.
        why: String,
    },
}

/// What was done, or would be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Maintained {
    /// Objects that came home.
    pub n_home: u64,
    /// Pieces that went to their default servers.
    pub n_pieces: u64,
    /// Bytes that were moved.
    pub bytes: u64,
    /// Pieces that nothing named.
    pub n_orphans: u64,
    /// Their bytes.
    pub orphan_bytes: u64,
    /// What was left as it is.
    pub n_left_alone: u64,
    /// What went wrong.
    pub n_failed: u64,
    /// Whether it was stopped before it was done.
    pub was_stopped: bool,
}

impl Maintained {
    /// What one step adds.
    pub(crate) fn of(what: &Maintenance) -> Self {
        let nothing = Self::default();
        match what {
            Maintenance::Home { bytes, .. } => Self { n_home: 1, bytes: *bytes, ..nothing },
            Maintenance::Pieces { n_pieces, bytes, .. } => {
                Self { n_pieces: *n_pieces as u64, bytes: *bytes, ..nothing }
            }
            Maintenance::Orphan { bytes, .. } => Self { n_orphans: 1, orphan_bytes: *bytes, ..nothing },
            Maintenance::LeftAlone { .. } => Self { n_left_alone: 1, ..nothing },
            Maintenance::Failed { .. } => Self { n_failed: 1, ..nothing },
        }
    }
}

impl AddAssign for Maintained {
    fn add_assign(&mut self, other: Self) {
        self.n_home += other.n_home;
        self.n_pieces += other.n_pieces;
        self.bytes += other.bytes;
        self.n_orphans += other.n_orphans;
        self.orphan_bytes += other.orphan_bytes;
        self.n_left_alone += other.n_left_alone;
        self.n_failed += other.n_failed;
        self.was_stopped |= other.was_stopped;
    }
}

/// A node that maintains what it is the home of and what it holds, and nothing else: so no two of them do the same.
#[async_trait]
pub(crate) trait Maintainer: Sync {
    /// Its number in the cluster.
    fn server(&self) -> usize;

    /// Whether orphans are looked for this time, too.
    fn collects(&self) -> bool;

    /// Waits until it has nothing else to do.
    async fn ready(&self);

    /// Why bytes should not be moved from or to a server now, if they should not.
    async fn objection(&self, server: usize) -> Option<String>;

    /// The most bytes per second that are moved now.
    fn rate(&self) -> Option<u64>;
}

/// The buckets of all servers, by name, and the servers that could not tell theirs.
pub async fn buckets(servers: &Servers) -> (Vec<String>, Vec<(String, StoreError)>) {
    let ask = |server: usize| async move { servers.endpoint(server)?.buckets().await };
    let asked = join_all((0..servers.all().len()).map(ask)).await;
    let (mut names, mut failures) = (BTreeSet::new(), Vec::new());
    for (server, found) in servers.all().iter().zip(asked) {
        match found {
            Ok(found) => names.extend(found),
            Err(error) => failures.push((server.name.clone(), error)),
        }
    }
    (names.into_iter().collect(), failures)
}

/// Brings the objects of a bucket home and collects orphans. Tells what it does, after it is done.
pub async fn maintain(
    servers: Arc<Servers>,
    bucket: &str,
    how: &Maintaining,
    stopped: watch::Receiver<bool>,
    tell: &mut (dyn FnMut(&Maintenance) + Send),
) -> Result<Maintained, StoreError> {
    run(servers, bucket, how, None, stopped, tell).await
}

/// The same for what one node is the home of, and for the orphans that it holds.
pub(crate) async fn maintain_own(
    servers: Arc<Servers>,
    bucket: &str,
    how: &Maintaining,
    own: &dyn Maintainer,
    tell: &mut (dyn FnMut(&Maintenance) + Send),
) -> Result<Maintained, StoreError> {
    let (_stop, stopped) = watch::channel(false);
    run(servers, bucket, how, Some(own), stopped, tell).await
}

async fn run(
    servers: Arc<Servers>,
    bucket: &str,
    how: &Maintaining,
    own: Option<&dyn Maintainer>,
    stopped: watch::Receiver<bool>,
    tell: &mut (dyn FnMut(&Maintenance) + Send),
) -> Result<Maintained, StoreError> {
    let access = Arc::new(Access::of_maintainer(Arc::clone(&servers), bucket));
    let mut run = Run { access, how, own, tell, stopped, done: Maintained::default() };
    let mut listing = match own {
        None => Listing::new(servers, bucket, &how.prefix),
        Some(own) => Listing::of_server(servers, own.server(), bucket, &how.prefix),
    };
    while let Some(page) = listing.next().await? {
        for found in page {
            for at in found.at {
                if run.is_stopped() {
                    return Ok(run.done);
                }
                match at.stored {
                    Stored::Elsewhere(redirect) => run.visit(&found.key, at.server, &redirect).await,
                    Stored::Unusable(error) => run.say(&failed(&found.key, &error)),
                    Stored::Whole { .. } => {}
                }
            }
        }
    }
    for (server, error) in listing.failures() {
        run.say(&failed(run.access.name(server), error));
    }
    let holders = match own {
        None => 0..run.access.servers.all().len(),
        Some(own) if own.collects() => own.server()..own.server() + 1,
        Some(_) => 0..0,
    };
    for server in holders {
        if let Err(error) = run.collect(server).await {
            run.say(&failed(run.access.name(server), &error));
        }
    }
    Ok(run.done)
}

fn failed(what: &str, why: &impl ToString) -> Maintenance {
    Maintenance::Failed { what: what.to_owned(), why: why.to_string() }
}

struct Run<'a> {
    access: Arc<Access>,
    how: &'a Maintaining,
    own: Option<&'a dyn Maintainer>,
    tell: &'a mut (dyn FnMut(&Maintenance) + Send),
    stopped: watch::Receiver<bool>,
    done: Maintained,
}

impl Run<'_> {
    fn is_stopped(&mut self) -> bool {
        self.done.was_stopped |= *self.stopped.borrow();
        self.done.was_stopped
    }

    fn say(&mut self, what: &Maintenance) {
        self.done += Maintained::of(what);
        (self.tell)(what);
    }

    fn leave(&mut self, what: &str, why: &str) {
        self.say(&Maintenance::LeftAlone { what: what.to_owned(), why: why.to_owned() });
    }

    /// Brings home what a redirect names, as far as it is elsewhere.
    async fn visit(&mut self, key: &str, home: usize, redirect: &Redirect) {
        let access = Arc::clone(&self.access);
        let homes = access.servers.homes(&access.bucket, key, self.how.replicas as usize);
        let Some(copy) = homes.iter().position(|server| *server == home) else {
            self.leave(key, &format!("{} has an entry for it and is no home of it", access.name(home)));
            return;
        };
        let moves = self.moves(key, home, copy, redirect);
        if moves.is_empty() {
            return;
        }
        match access.is_conditional(home).await {
            Ok(true) => {}
            Ok(false) => {
                let why = format!(
                    "its home {} has no conditional writes, so it stays where it is",
                    access.name(home)
                );
                self.leave(key, &why);
                return;
            }
            Err(error) => {
                self.say(&failed(key, &error));
                return;
            }
        }
        if let Some(why) = self.objection(redirect, &moves).await {
            self.leave(key, &why);
            return;
        }
        let moved = moves.iter().flat_map(|one| &redirect.pieces[one.pieces.clone()]);
        let (bytes, n_pieces) = moved.fold((0, 0), |(bytes, n), piece| (bytes + piece.bytes, n + 1));
        let what = if let [piece] = redirect.pieces.as_slice() {
            let (key, from, to) = (key.to_owned(), piece.server.clone(), access.name(home).to_owned());
            Maintenance::Home { key, from, to, bytes }
        } else {
            Maintenance::Pieces { key: key.to_owned(), n_pieces, bytes }
        };
        if !self.how.apply {
            self.say(&what);
            return;
        }
        let carried = match redirect.pieces.len() {
            1 => bring_home(&access, key, home, redirect).await,
            _ => rearrange(&access, key, home, redirect, &moves).await,
        };
        match carried {
            Ok(()) => self.say(&what),
            Err(Fault::Exists) => self.leave(key, "it was written meanwhile"),
            Err(Fault::Local(why)) => self.say(&failed(key, &why)),
            Err(Fault::Server { error, .. }) => self.say(&failed(key, &error)),
        }
        let rate = self.own.map_or(self.how.rate, Maintainer::rate).filter(|rate| *rate > 0);
        if let Some(rate) = rate {
            let mut stopped = self.stopped.clone();
            tokio::select! {
                () = sleep(Duration::from_secs_f64(bytes as f64 / rate as f64)) => {}
                Ok(_) = stopped.wait_for(|is_stopped| *is_stopped) => {}
            }
        }
    }

    /// Waits until a node that maintains itself has nothing else to do. Then, whether others have.
    async fn objection(&mut self, redirect: &Redirect, moves: &[Move]) -> Option<String> {
        let own = self.own?;
        own.ready().await;
        let servers = &self.access.servers;
        let from = moves.iter().flat_map(|one| &redirect.pieces[one.pieces.clone()]);
        let from = from.filter_map(|piece| servers.find(&piece.server));
        let concerned: BTreeSet<usize> = from.chain(moves.iter().map(|one| one.to)).collect();
        for server in concerned.into_iter().filter(|server| *server != own.server()) {
            let objection = own.objection(server).await;
            if objection.is_some() {
                return objection;
            }
        }
        None
    }

    /// The pieces that are elsewhere than by default, and where they belong. Pieces of an object that was cut by [`put`](super::put())
    /// are counted. Where it was written into, they belong to stripes of the object, and the small ones of a stripe are joined.
    fn moves(&self, key: &str, home: usize, copy: usize, redirect: &Redirect) -> Vec<Move> {
        let servers = &self.access.servers;
        if let [piece] = redirect.pieces.as_slice() {
            return if piece.is_hole() { Vec::new() } else { vec![Move { pieces: 0..1, to: home }] };
        }
        let n = self.how.replicas as usize;
        let homes = servers.homes(&self.access.bucket, key, n);
        let default = |number: u64| {
            let of_piece = servers.homes_of_piece(&self.access.bucket, key, number, n);
            dealt(&of_piece, &homes).get(copy).copied().flatten().unwrap_or(home)
        };
        let groups = if is_even(&redirect.pieces) {
            (0..redirect.pieces.len()).map(|piece| (piece as u64, piece..piece + 1)).collect()
        } else {
            stripes(&redirect.pieces)
        };
        let moves = groups.into_iter().map(|(number, pieces)| Move { pieces, to: default(number) });
        let is_due = |one: &Move| {
            one.pieces.len() > 1 || servers.find(&redirect.pieces[one.pieces.start].server) != Some(one.to)
        };
        moves.filter(is_due).collect()
    }

    /// Deletes the pieces at a server that nothing names.
    async fn collect(&mut self, server: usize) -> Result<(), StoreError> {
        let access = Arc::clone(&self.access);
        let endpoint = access.servers.endpoint(server)?;
        let (mut token, mut known): (Option<String>, Entries) = (None, HashMap::new());
        let mut since = Instant::now();
        loop {
            let page = match endpoint.list(&access.bucket, HELD, token.as_deref()).await {
                Err(StoreError { problem: Problem::NotFound, .. }) => return Ok(()),
                page => page?,
            };
            for piece in page.objects {
                if self.is_stopped() {
                    return Ok(());
                }
                if let Some(own) = self.own {
                    own.ready().await;
                }
                if since.elapsed() > REMEMBERED {
                    (known, since) = (HashMap::new(), Instant::now());
                }
                match judge(&access, self.how, (server, &piece.key), &mut known).await {
                    Ok(Judged::InUse) => {}
                    Ok(Judged::Orphan) => {
                        if self.how.apply {
                            endpoint.delete(&access.bucket, &piece.key, HeaderMap::new()).await?;
                        }
                        let (server, key) = (access.name(server).to_owned(), piece.key);
                        self.say(&Maintenance::Orphan { server, key, bytes: piece.bytes });
                    }
                    Ok(Judged::Unknown(why)) => {
                        self.leave(&format!("{}: {}", access.name(server), piece.key), &why);
                    }
                    Err(error) => self.say(&failed(&piece.key, &error)),
                }
            }
            match page.next {
                Some(next) if Some(&next) != token.as_ref() => token = Some(next),
                _ => return Ok(()),
            }
        }
    }
}

/// Pieces that go to a server together, as one.
struct Move {
    pieces: Range<usize>,
    to: usize,
}

/// Whether pieces are cut as [`put`](super::put()) does it, and are not so many that they should be joined.
fn is_even(pieces: &[Held]) -> bool {
    let (Some(first), Some(last)) = (pieces.first(), pieces.last()) else { return true };
    let (bytes, n) = (first.bytes, pieces.len());
    let is_cut = pieces[..n - 1].iter().all(|piece| piece.bytes == bytes) && last.bytes <= bytes;
    is_cut && (n <= MOST_APART || bytes >= STRIPE_BYTES) && !pieces.iter().any(Held::is_hole)
}

/// Neighbours that begin in the same stripe, and are not larger than one together; each with the number of the stripe.
fn stripes(pieces: &[Held]) -> Vec<(u64, Range<usize>)> {
    let (mut groups, mut start, mut joined) = (Vec::<(u64, Range<usize>)>::new(), 0, 0);
    for (number, piece) in pieces.iter().enumerate() {
        let stripe = start / STRIPE_BYTES;
        start += piece.bytes;
        if piece.is_hole() {
            continue;
        }
        match groups.last_mut() {
            Some((last, group))
                if *last == stripe && group.end == number && joined + piece.bytes <= STRIPE_BYTES =>
            {
                group.end += 1;
                joined += piece.bytes;
            }
            _ => {
                groups.push((stripe, number..number + 1));
                joined = piece.bytes;
            }
        }
    }
    groups
}

/// What is known of a held piece.
enum Judged {
    /// An entry names it, or may name it soon.
    InUse,
    /// Nothing names it.
    Orphan,
    /// It cannot be told, for this reason.
    Unknown(String),
}

/// The pieces that an entry names, each by server and name.
type Entries = HashMap<(usize, String), Vec<(String, String)>>;

/// Whether nothing names a piece.
async fn judge(
    access: &Access,
    how: &Maintaining,
    (server, key): (usize, &str),
    known: &mut Entries,
) -> Result<Judged, StoreError> {
    if !key.starts_with(HELD) {
        return Ok(Judged::InUse);
    }
    let Some(seen) = access.servers.look(server, &access.bucket, key).await? else {
        return Ok(Judged::InUse);
    };
    let object = seen.user.get(OF).and_then(|of| decoded(of));
    let object = object.as_deref().and_then(|of| of.strip_prefix(&format!("{}/", access.bucket)));
    let home = seen.user.get(HOME).and_then(|home| decoded(home));
    let (Some(object), Some(home)) = (object, home) else {
        let why = "it does not say what it belongs to, so it may not be ours";
        return Ok(Judged::Unknown(why.to_owned()));
    };
    if seen.age.is_none_or(|age| age < how.grace) {
        return Ok(Judged::InUse);
    }
    // Who cannot be asked may name it.
    let Some(recorded) = access.servers.find(&home) else {
        return Ok(Judged::Unknown(format!("its home {home} is not in the cluster file")));
    };
    // The cluster file may have changed since it was written.
    let mut homes = access.servers.homes(&access.bucket, object, how.replicas as usize);
    homes.push(recorded);
    for home in homes {
        let entry = (home, object.to_owned());
        if !known.contains_key(&entry) {
            if known.len() >= MOST_REMEMBERED {
                known.clear();
            }
            let pieces = pieces_of(access, home, object).await?;
            known.insert(entry.clone(), pieces);
        }
        let name = access.name(server);
        if known[&entry].iter().any(|(at, piece)| at == name && piece == key) {
            return Ok(Judged::InUse);
        }
    }
    Ok(Judged::Orphan)
}

/// The pieces that a home names for an object. Where it has an entry that cannot be read, this fails.
async fn pieces_of(access: &Access, home: usize, key: &str) -> Result<Vec<(String, String)>, StoreError> {
    match access.servers.look(home, &access.bucket, key).await? {
        Some(seen) if seen.redirect.is_some() => {}
        _ => return Ok(Vec::new()),
    }
    let redirect = access.servers.redirect(home, &access.bucket, key).await?;
    Ok(redirect.pieces.into_iter().map(|piece| (piece.server, piece.key)).collect())
}

/// The entry at a home, if it is still the one that was listed.
async fn unchanged(access: &Access, home: usize, key: &str, redirect: &Redirect) -> Result<Before, Fault> {
    let before = access.before(home, key).await?;
    if before.seen.is_some() && before.pieces == redirect.pieces { Ok(before) } else { Err(Fault::Exists) }
}

async fn bring_home(access: &Arc<Access>, key: &str, home: usize, redirect: &Redirect) -> Result<(), Fault> {
    let before = unchanged(access, home, key, redirect).await?;
    let part = held(access, &redirect.pieces)?;
    let (before, _) = access.settle(home, key, before, false, &Entry::Whole(&part)).await?;
    access.drop_pieces(&before.pieces, Some(key)).await;
    Ok(())
}

/// Copies pieces to the servers where they belong, and then names them there.
async fn rearrange(
    access: &Arc<Access>,
    key: &str,
    home: usize,
    redirect: &Redirect,
    moves: &[Move],
) -> Result<(), Fault> {
    let before = unchanged(access, home, key, redirect).await?;
    let id = fresh().map_err(|error| Fault::Local(error.to_string()))?;
    let (mut pieces, mut next, mut new, mut old) = (Vec::new(), 0, Vec::new(), Vec::new());
    let (mut fault, begun) = (None, Instant::now());
    for Move { pieces: moved, to } in moves {
        let name = format!("{HELD}{id:032x}/{}", moved.start);
        let copied = async {
            let part = held(access, &redirect.pieces[moved.clone()])?;
            access.hold(*to, key, home, &name, &part).await?;
            let (server, bytes) = (access.name(*to).to_owned(), part.bytes());
            Ok(Held { server, key: name.clone(), bytes, crc32c: part.crc32c })
        };
        match copied.await {
            Ok(piece) => {
                pieces.extend_from_slice(&redirect.pieces[next..moved.start]);
                pieces.push(piece.clone());
                new.push(piece);
            }
            Err(error) => {
                fault = Some(error);
                break;
            }
        }
        old.extend_from_slice(&redirect.pieces[moved.clone()]);
        next = moved.end;
    }
    pieces.extend_from_slice(&redirect.pieces[next..]);
    if begun.elapsed() > NAMED_WITHIN {
        fault.get_or_insert(Fault::Local(TOO_LONG.to_owned()));
    }
    let settled = match fault {
        None => {
            let redirect = Redirect::new(redirect.etag.clone(), pieces);
            access.settle(home, key, before, false, &Entry::Elsewhere(&redirect)).await.map(drop)
        }
        Some(fault) => Err(fault),
    };
    // What may be named stays: if it is not, it is collected later.
    match &settled {
        Ok(()) => access.drop_pieces(&old, Some(key)).await,
        Err(Fault::Server { is_unsure: true, .. }) => 0,
        Err(_) => access.drop_pieces(&new, None).await,
    };
    settled
}

/// Held pieces as one, ready to be sent.
fn held(access: &Arc<Access>, pieces: &[Held]) -> Result<Part, Fault> {
    let (mut found, mut bytes, mut crc) = (Vec::new(), 0, 0);
    for piece in pieces {
        let Some(server) = access.servers.find(&piece.server) else {
            return Err(Fault::Local(format!("there is no server {} in the cluster file", piece.server)));
        };
        found.push((server, piece.key.clone()));
        bytes += piece.bytes;
        crc = checksum_combine(CrcAlgorithm::Crc32Iscsi, crc, piece.crc32c.into(), piece.bytes);
    }
    let content = HeldContent { access: Arc::clone(access), pieces: found, bytes };
    Ok(Part::of_known(Arc::new(content), bytes, crc as u32))
}

/// The bytes of pieces, read from their holders.
#[derive(Debug)]
struct HeldContent {
    access: Arc<Access>,
    /// The server of each, and its name there.
    pieces: Vec<(usize, String)>,
    bytes: u64,
}

impl Content for HeldContent {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    /// All of it: parts are never asked for.
    fn read(&self, _: Range<u64>) -> BoxStream<'static, std::io::Result<Bytes>> {
        let access = Arc::clone(&self.access);
        let bodies = stream::iter(self.pieces.clone()).then(move |(server, key)| {
            let access = Arc::clone(&access);
            async move {
                let endpoint = access.servers.endpoint(server)?;
                endpoint.get(&access.bucket, &key, None, access.headers()).await.map(|(_, body)| body)
            }
        });
        bodies.try_flatten().map_err(std::io::Error::other).boxed()
    }
}
