//! A world drawn from a seed: nodes, clients that write, delete, read and maintain at the same time, and what goes wrong.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use evenkeel_store::cluster::redirect::HELD;
use evenkeel_store::cluster::{Keel, Listing, Servers, Stored};
use evenkeel_store::{Hasher, Object, Problem, Source, StoreError};
use futures_util::future::join_all;
use futures_util::{TryStreamExt, stream};
use hyper::HeaderMap;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::dice::Dice;
use super::model::{Model, Value};
use super::net::{Net, Place, Trouble};
use crate::write::{Item, Maintained, Maintaining, PutOptions, maintain, put, remove};

pub(super) const BUCKET: &str = "data";
/// It asks servers, and places no copies.
const ASKING: &str = "two-choice";
const PLACEMENTS: [&str; 7] = ["rr", "mlml", "trh", "nltr:1", ASKING, "hm-lru", "hdfs-random"];
/// No run takes longer than this.
const DEADLINE: Duration = Duration::from_hours(40);
/// Pieces that nothing names are younger while somebody may name them.
const GRACE: Duration = Duration::from_hours(13);

/// What came of a world.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) history: Vec<String>,
    pub(super) counts: BTreeMap<&'static str, u64>,
}

/// What clients share: the network, and what they know of each other's writes.
#[derive(Clone, Debug)]
pub(super) struct World {
    pub(super) net: Arc<Net>,
    model: Arc<Mutex<Model>>,
    pub(super) replicas: u32,
    /// The first thing that is wrong.
    wrong: Arc<Mutex<Option<String>>>,
}

impl World {
    pub(super) fn new(n_nodes: usize, replicas: u32, dice: Dice, credentials: &Path) -> Self {
        let net = Net::start(n_nodes, replicas, dice, credentials);
        Self { net, model: Arc::default(), replicas, wrong: Arc::default() }
    }

    pub(super) fn model(&self) -> MutexGuard<'_, Model> {
        self.model.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn check(&self, what: Result<(), String>) {
        if let Err(why) = what {
            self.net.note(format_args!("WRONG: {why}"));
            self.wrong.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(why);
        }
    }

    pub(super) fn wrong(&self) -> Result<(), String> {
        self.wrong.lock().unwrap_or_else(PoisonError::into_inner).clone().map_or(Ok(()), Err)
    }

    /// Writes objects, and remembers what is acknowledged.
    /// Returns how many are not.
    pub(super) async fn put(&self, client: usize, items: &[(String, Bytes)], options: &PutOptions) -> usize {
        let servers = self.net.servers(Place::Client(client));
        let begun: Vec<_> =
            items.iter().map(|(key, data)| self.model().begin(key, Some(data.clone()))).collect();
        let content =
            |(key, data): &(String, Bytes)| Item { key: key.clone(), content: Arc::new(data.clone()) };
        let items_of_put = stream::iter(items.iter().map(content).collect::<Vec<_>>());
        let (_stop, stopped) = watch::channel(false);
        let done = put(servers, BUCKET, items_of_put, options, stopped, &mut |_| {}).await;
        let report = match done {
            Ok(report) => report,
            Err(error) => {
                self.net.note(format_args!("{client} put: {error}"));
                return items.len();
            }
        };
        let failed: BTreeSet<&str> = report.failures.iter().map(|failure| failure.key.as_str()).collect();
        for failure in &report.failures {
            self.net.note(format_args!("{client} put {}: {}", failure.key, failure.why));
            self.net.count("refused writes");
        }
        for ((key, _), begun) in items.iter().zip(begun) {
            if !failed.contains(key.as_str()) {
                self.net.note(format_args!("{client} put {key}: acknowledged"));
                let checked = self.model().acknowledge(&begun, options.overwrite);
                self.check(checked);
            }
        }
        failed.len()
    }

    /// Deletes an object. Returns whether it is gone.
    pub(super) async fn remove(&self, client: usize, key: &str) -> bool {
        let servers = self.net.servers(Place::Client(client));
        let begun = self.model().begin(key, None);
        match remove(&servers, BUCKET, key, self.replicas as usize).await {
            Ok(removed) => {
                self.net.note(format_args!("{client} rm {key}: {removed:?}"));
                let checked = self.model().acknowledge(&begun, true);
                self.check(checked);
                true
            }
            Err(error) => {
                self.net.note(format_args!("{client} rm {key}: {error}"));
                false
            }
        }
    }

    pub(super) async fn maintain(&self, client: usize, grace: Duration) -> Option<Maintained> {
        let servers = self.net.servers(Place::Client(client));
        let how =
            Maintaining { prefix: String::new(), replicas: self.replicas, apply: true, rate: None, grace };
        let (_stop, stopped) = watch::channel(false);
        let mut tell = |what: &crate::write::Maintenance| self.net.note(format_args!("{client} {what:?}"));
        match maintain(servers, BUCKET, &how, stopped, &mut tell).await {
            Ok(done) => {
                self.net.note(format_args!("{client} maintain: {done:?}"));
                Some(done)
            }
            Err(error) => {
                self.net.note(format_args!("{client} maintain: {error}"));
                None
            }
        }
    }

    /// Reads an object at one of its homes, as any client of S3 does.
    pub(super) async fn read_at_home(&self, client: usize, key: &str, home: usize) -> Result<(), StoreError> {
        let servers = self.net.servers(Place::Client(client));
        let from = self.model().now();
        let value = at_home(&servers, key, home).await?;
        let checked = self.model().read(key, &value, from);
        self.check(checked.map_err(|why| format!("at its home s{home}: {why}")));
        Ok(())
    }

    /// Reads an object as `get` does, from whoever holds it.
    pub(super) async fn read_from_holders(&self, client: usize, key: &str) -> Result<(), StoreError> {
        let servers = self.net.servers(Place::Client(client));
        let from = self.model().now();
        let value = from_holders(&servers, key).await?;
        let checked = self.model().read(key, &value, from);
        self.check(checked.map_err(|why| format!("from those who hold it: {why}")));
        Ok(())
    }

    /// All is well, and nobody writes: what was acknowledged is there, by every way, and nothing else.
    pub(super) async fn check_all(&self, when: &str) {
        let (client, wrong) = (99, |why: String| self.check(Err(format!("{when}: {why}"))));
        let servers = self.net.servers(Place::Client(client));
        let keys = self.model().keys();
        for key in &keys {
            let homes = servers.homes(BUCKET, key, self.replicas as usize);
            for &home in &homes {
                if let Err(error) = self.read_at_home(client, key, home).await {
                    wrong(format!("{key} cannot be read at its home s{home}: {error}"));
                }
            }
            match self.read_from_holders(client, key).await {
                Ok(()) => {}
                // Copies of writes that came to no end may differ.
                Err(StoreError { problem: Problem::Damaged(why), .. })
                    if why.contains("differ") && !self.model().is_certain(key) =>
                {
                    self.net.count("objects whose copies differ");
                    if self.model().is_acknowledged(key) {
                        self.net.count("objects whose copies differ after writes that were acknowledged");
                    }
                }
                Err(error) => wrong(format!("{key} cannot be read from its holders: {error}")),
            }
        }
        // One authority: nobody but its homes has anything under its name.
        let mut listing = Listing::new(Arc::clone(&servers), BUCKET, "");
        loop {
            match listing.next().await {
                Ok(Some(page)) => {
                    for found in page {
                        let homes = servers.homes(BUCKET, &found.key, self.replicas as usize);
                        for at in &found.at {
                            if !homes.contains(&at.server) {
                                wrong(format!("s{} has {} and is no home of it", at.server, found.key));
                            }
                            if let Stored::Unusable(error) = &at.stored {
                                wrong(format!("{}: {error}", found.key));
                            }
                        }
                        if !keys.contains(&found.key) {
                            wrong(format!("{} is there, which nobody wrote", found.key));
                        }
                    }
                }
                Ok(None) | Err(StoreError { problem: Problem::NotFound, .. }) => break,
                Err(error) => return wrong(format!("cannot be listed: {error}")),
            }
        }
        let failed: Vec<String> = listing
            .failures()
            .map(|(server, error)| format!("s{server} cannot be listed: {error}"))
            .collect();
        failed.into_iter().for_each(wrong);
    }

    /// After maintenance without any grace no piece is there that nothing names, and all that are named.
    pub(super) async fn check_pieces(&self) {
        let wrong = |why: String| self.check(Err(format!("after maintenance: {why}")));
        let servers = self.net.servers(Place::Client(99));
        let mut named = BTreeSet::new();
        let keys = self.model().keys();
        for key in keys {
            for home in servers.homes(BUCKET, &key, self.replicas as usize) {
                match servers.look(home, BUCKET, &key).await {
                    Ok(Some(seen)) if seen.redirect.is_some() => match servers
                        .redirect(home, BUCKET, &key)
                        .await
                    {
                        Ok(redirect) => {
                            if redirect.pieces.len() == 1 {
                                wrong(format!("{key} is not at home"));
                            }
                            named.extend(redirect.pieces.into_iter().map(|piece| (piece.server, piece.key)));
                        }
                        Err(error) => wrong(format!("{key}: {error}")),
                    },
                    Ok(_) | Err(StoreError { problem: Problem::NotFound, .. }) => {}
                    Err(error) => wrong(format!("{key}: {error}")),
                }
            }
        }
        let mut held = BTreeSet::new();
        for server in servers.all() {
            match server.endpoint.list(BUCKET, HELD, None).await {
                Ok(page) => {
                    held.extend(page.objects.into_iter().map(|object| (server.name.clone(), object.key)));
                }
                Err(StoreError { problem: Problem::NotFound, .. }) => {}
                Err(error) => wrong(error.to_string()),
            }
        }
        if let Some((server, key)) = held.difference(&named).next() {
            wrong(format!("{server} has {key}, which nothing names"));
        }
        if let Some((server, key)) = named.difference(&held).next() {
            wrong(format!("{key} of {server} is named, and is not there"));
        }
    }

    /// The end of each run.
    pub(super) async fn finish(&self) {
        self.net.heal();
        // Whatever is still under way ends.
        sleep(Duration::from_mins(2)).await;
        self.net.heal();
        self.check_all("in the end").await;
        for _ in 0..2 {
            self.maintain(99, Duration::ZERO).await;
        }
        self.check_pieces().await;
        self.check_all("after maintenance").await;
        match self.maintain(99, Duration::ZERO).await {
            None => {}
            Some(done) if done == Maintained::default() => {}
            Some(done) => self.check(Err(format!("maintenance finds something to do again: {done:?}"))),
        }
    }
}

/// What a node answers for an object.
async fn at_home(servers: &Servers, key: &str, home: usize) -> Result<Value, StoreError> {
    let endpoint = servers.endpoint(home)?;
    let (headers, body) = match endpoint.get(BUCKET, key, None, HeaderMap::new()).await {
        Err(StoreError { problem: Problem::NotFound, .. }) => return Ok(None),
        got => got?,
    };
    let bytes: Vec<Bytes> = body.try_collect().await?;
    let bytes = bytes.concat();
    // As every client of HTTP does.
    let expected =
        headers.get(hyper::header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
    if expected.is_some_and(|expected: usize| expected != bytes.len()) {
        let problem = Problem::Unreachable("the body is too short".to_owned());
        return Err(StoreError { address: key.to_owned(), problem });
    }
    Ok(Some(bytes.into()))
}

/// What a client puts together from those who hold it, as far as its checksums are right.
async fn from_holders(servers: &Arc<Servers>, key: &str) -> Result<Value, StoreError> {
    let keel = Keel::of(Arc::clone(servers), &format!("keel://{BUCKET}/{key}"))?;
    let pages = keel.list().try_collect::<Vec<_>>().await;
    let pages = match pages {
        Err(StoreError { problem: Problem::NotFound, .. }) => return Ok(None),
        pages => pages?,
    };
    let mut found: Option<Object> = None;
    for page in pages {
        if let Some(unreadable) = page.unreadable.into_iter().next() {
            return Err(unreadable.error);
        }
        found = found.or(page.objects.into_iter().find(|object| object.key == key));
    }
    let Some(object) = found else { return Ok(None) };
    let (mut bytes, mut start) = (Vec::new(), 0);
    for extent in &object.extents {
        let range = start..start + extent.bytes;
        start = range.end;
        let mut last = None;
        for &server in &extent.servers {
            let read = async {
                let body = keel.read(&object, server as usize, range.clone()).await?;
                body.try_collect::<Vec<Bytes>>().await
            };
            last = Some(read.await);
            if last.as_ref().is_some_and(Result::is_ok) {
                break;
            }
        }
        match last {
            Some(read) => bytes.extend(read?.concat()),
            None => {
                return Err(StoreError { address: key.to_owned(), problem: Problem::NotFound });
            }
        }
    }
    let is_right = object.bytes == bytes.len() as u64
        && object.hashes.iter().all(|hash| {
            let mut hasher = Hasher::new(hash.algorithm);
            hasher.update(&bytes);
            hasher.finish() == *hash
        });
    if !is_right {
        let problem =
            Problem::Unreachable("its checksum is another; it was read while it was written".to_owned());
        return Err(StoreError { address: key.to_owned(), problem });
    }
    Ok(Some(bytes.into()))
}

/// How one client of a world writes.
pub(super) fn options(dice: &mut Dice, replicas: u32) -> PutOptions {
    let placement = loop {
        let name = dice.one_of(&PLACEMENTS);
        if name != ASKING || replicas == 1 {
            break name;
        }
    };
    PutOptions {
        overwrite: dice.below(3) > 0,
        window_time: dice.one_of(&[Duration::ZERO, Duration::from_millis(500)]),
        piece_bytes: dice.one_of(&[700, 2_000, 6_000]),
        slots: dice.one_of(&[1, 4]),
        threshold_bytes: dice.one_of(&[0, 0, 1 << 20]),
        completions: !dice.is_one_in(4),
        seed: dice.below(1 << 20),
        replicas,
        ..PutOptions::new(placement.parse().unwrap())
    }
}

pub(super) fn data(dice: &mut Dice) -> Bytes {
    let most = dice.one_of(&[0, 60, 400, 1_500, 1_500, 5_000, 9_000]);
    let bytes = dice.below(most + 1);
    dice.bytes(bytes)
}

/// Does what a client does, step by step.
async fn client(world: World, number: usize, mut dice: Dice, n_steps: u64) {
    let key = |dice: &mut Dice| format!("k{}", dice.below(4));
    for _ in 0..n_steps {
        sleep(dice.millis(3_000)).await;
        let key = key(&mut dice);
        match dice.below(20) {
            0..=9 => {
                let mut items = BTreeMap::from([(key, data(&mut dice))]);
                for _ in 0..dice.below(3) {
                    items.insert(format!("c{number}-{}", dice.below(6)), data(&mut dice));
                }
                let items: Vec<_> = items.into_iter().collect();
                let options = options(&mut dice, world.replicas);
                let _ = world.put(number, &items, &options).await;
            }
            10..=12 => drop(world.remove(number, &key).await),
            13..=14 => drop(world.read_from_holders(number, &key).await),
            15..=16 => {
                let homes = {
                    let servers = world.net.servers(Place::Client(number));
                    servers.homes(BUCKET, &key, world.replicas as usize)
                };
                let home = dice.one_of(&homes);
                let _ = world.read_at_home(number, &key, home).await;
            }
            _ => drop(world.maintain(number, GRACE).await),
        }
    }
}

/// A client whose process is killed now and then, and goes on with something else.
async fn mortal(world: World, number: usize, mut dice: Dice, n_steps: u64) {
    for _ in 0..2 {
        let life = tokio::spawn(client(world.clone(), number, dice.fork(), n_steps));
        let abort = life.abort_handle();
        if dice.is_one_in(3) {
            let after = dice.millis(15_000);
            let world = world.clone();
            drop(tokio::spawn(async move {
                sleep(after).await;
                if !abort.is_finished() {
                    world.net.note(format_args!("{number} is killed"));
                    world.net.count("killed clients");
                }
                abort.abort();
            }));
        }
        let ended = life.await;
        if let Err(error) = ended
            && let Ok(panic) = error.try_into_panic()
        {
            std::panic::resume_unwind(panic);
        }
    }
}

/// Machines crash and start again, and ways are cut and mended.
async fn misfortune(world: World, mut dice: Dice, n_clients: usize, pace: u64) {
    let net = &world.net;
    loop {
        sleep(Duration::from_millis(50) + dice.millis(pace)).await;
        let node = dice.below(net.n_nodes() as u64) as usize;
        match dice.below(10) {
            0 | 1 if net.is_up(node) => net.crash(node),
            2 | 3 if net.is_up(node) => net.crash_after(node, 1 + dice.below(25)),
            4 | 5 => {
                let other = match dice.below(2) {
                    0 => Place::Client(dice.below(n_clients as u64) as usize),
                    _ => Place::Node(dice.below(net.n_nodes() as u64) as usize),
                };
                if other == Place::Node(node) {
                    continue;
                }
                net.count("partitions");
                net.part(Place::Node(node), other, true);
                let most = dice.one_of(&[1_000, 5_000, 25_000]);
                let (net, after) = (Arc::clone(net), dice.millis(most));
                drop(tokio::spawn(async move {
                    sleep(after).await;
                    net.part(Place::Node(node), other, false);
                }));
            }
            6 => {
                net.count("drains");
                net.drain(node, true);
                let (net, after) = (Arc::clone(net), dice.millis(8_000));
                drop(tokio::spawn(async move {
                    sleep(after).await;
                    net.drain(node, false);
                }));
            }
            _ => {}
        }
        for node in 0..net.n_nodes() {
            net.find_crashed(node);
            if !net.is_up(node) && dice.below(3) == 0 {
                if dice.is_one_in(6) {
                    // It crashes again soon.
                    net.crash_after(node, 1 + dice.below(12));
                }
                net.boot(node);
            }
        }
    }
}

/// A whole run.
pub(super) async fn run(seed: u64, credentials: &Path) -> (Outcome, Result<(), String>) {
    let mut dice = Dice::new(seed);
    let n_nodes = 2 + dice.below(3) as usize;
    let replicas = if dice.is_one_in(3) { 2 } else { 1 };
    let world = World::new(n_nodes, replicas, dice.fork(), credentials);
    let n_clients = 1 + dice.below(3) as usize;
    let n_steps = 1 + dice.below(3);
    let level = dice.one_of(&[0, 0, 5, 20, 60]);
    let trouble = Trouble {
        lost_requests: level,
        lost_answers: level,
        cut_requests: level,
        cut_answers: level,
        delays: dice.one_of(&[0, 50, 200]),
        late_requests: dice.one_of(&[0, 500]),
    };
    let pace = dice.one_of(&[0, 0, 1_500, 5_000, 15_000]);
    let n_phases = if dice.is_one_in(3) { 2 } else { 1 };
    let all = async {
        for phase in 0..n_phases {
            if phase > 0 {
                // What was left behind is old enough to be collected while others write.
                sleep(Duration::from_hours(14)).await;
            }
            world.net.set_trouble(trouble);
            let trouble_of_machines =
                (pace > 0).then(|| tokio::spawn(misfortune(world.clone(), dice.fork(), n_clients, pace)));
            let clients = (0..n_clients).map(|number| mortal(world.clone(), number, dice.fork(), n_steps));
            let clients: Vec<_> = clients.collect();
            let mut dice = dice.fork();
            let maintainer = async {
                for _ in 0..dice.below(4) {
                    sleep(dice.millis(6_000)).await;
                    world.maintain(n_clients, GRACE).await;
                }
            };
            tokio::join!(join_all(clients), maintainer);
            if let Some(task) = trouble_of_machines {
                task.abort();
            }
            world.net.heal();
        }
        world.finish().await;
    };
    if timeout(DEADLINE, all).await.is_err() {
        world.check(Err("it never ends".to_owned()));
    }
    let mut counts = world.net.counts();
    counts.insert("acknowledged", world.model().n_acknowledged);
    counts.insert("reads", world.model().n_reads);
    (Outcome { history: world.net.history(), counts }, world.wrong())
}
