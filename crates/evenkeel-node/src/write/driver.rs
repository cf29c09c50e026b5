//! Carries writes out: looks, waits for a window, places, sends, settles.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use evenkeel::place::PlaceError;
use evenkeel::policy::Live;
use evenkeel_store::cluster::redirect::{HELD, NAMED_WITHIN, STRIPE_BYTES};
use evenkeel_store::cluster::{Held, Redirect, Servers};
use futures_util::future::join_all;
use futures_util::{Stream, StreamExt};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, interval};

use super::access::{Access, Before, Entry, Fault};
use super::content::{Content, Part};
use super::homes::{EXISTS, Look, Unsettled, look, redirect, settle, write_into};
use super::places::{Places, Placing, Wanted};
use super::{Item, PutError, PutFailure, PutOptions, PutProgress, PutReport, PutServer};
use crate::outside::fresh;
#[cfg(test)]
use crate::outside::simulated::Mistake;

/// Objects that are looked at at once.
const MOST_LOOKS: usize = 64;
/// An object has at most so many pieces; they become larger instead.
const MOST_PIECES: u64 = 10_000;
/// How often a piece is sent, each time to another server.
const MOST_ATTEMPTS: usize = 4;
/// How often progress is told, and servers that were down are tried again.
const TICK: Duration = Duration::from_millis(100);
/// How often servers report under policies that listen.
const HEARTBEAT: Duration = Duration::from_secs(3);
/// The rate at which writes are done is that of this time.
const RECENT: Duration = Duration::from_secs(1);

/// Writes objects into a bucket, which is made if there is none. Ends early, but properly, once `stopped` is true.
///
/// What is there already, byte by byte, is not written again; so a run that was broken off goes on where it was.
pub async fn put(
    servers: Arc<Servers>,
    bucket: &str,
    items: impl Stream<Item = Item> + Send + Unpin,
    options: &PutOptions,
    mut stopped: watch::Receiver<bool>,
    watch: &mut (dyn FnMut(&PutProgress<'_>) + Send),
) -> Result<PutReport, PutError> {
    let mut writer = Writer::new(servers, bucket, options)?;
    let begun = Instant::now();
    writer.begin().await?;
    let mut items = Some(items);
    let (mut tick, mut can_stop) = (interval(TICK), true);
    loop {
        writer.open_windows()?;
        let is_over = items.is_none() && writer.jobs.is_empty();
        if is_over {
            break;
        }
        writer.is_last = items.is_none();
        let wants_more = writer.wants_more();
        let next = async {
            match &mut items {
                Some(items) if wants_more => items.next().await,
                _ => std::future::pending().await,
            }
        };
        tokio::select! {
            // What is rare comes first, and the same run is the same again.
            biased;
            changed = stopped.changed(), if can_stop => {
                // Without a sender nobody will ever stop it.
                can_stop = changed.is_ok();
                if can_stop && *stopped.borrow() {
                    can_stop = false;
                    items = None;
                    writer.stop();
                }
            }
            _ = tick.tick() => {
                writer.on_tick();
                watch(&writer.progress());
            }
            Some(step) = writer.tasks.join_next() => {
                let step = step.map_err(|error| PutError::Internal(error.to_string()))?;
                writer.on(step);
            }
            item = next => match item {
                Some(item) => writer.take(item),
                None => items = None,
            },
        }
    }
    watch(&writer.progress());
    Ok(writer.finish(begun, options))
}

/// An object on its way.
#[derive(Debug)]
struct Job {
    key: String,
    content: Arc<dyn Content>,
    /// What the names of its pieces have in common.
    id: String,
    piece_bytes: u64,
    n_pieces: u64,
    /// The homes of all copies.
    homes: Vec<usize>,
    /// The copies that are to be written; others are there.
    copies: Vec<CopyOf>,
    n_copies_kept: usize,
    /// The next piece to be placed.
    next: u64,
    /// Transfers that are not over, or about to begin.
    n_out: usize,
    /// When its first piece was begun.
    begun: Option<Instant>,
    failure: Option<String>,
    /// Whether something may have been written although it failed, so that nothing may be deleted.
    is_unsure: bool,
    is_settling: bool,
}

/// A copy of an object.
#[derive(Debug)]
struct CopyOf {
    /// Which one, from 0.
    number: usize,
    home: usize,
    before: Before,
    /// The pieces that are written.
    pieces: Vec<Option<(Held, String)>>,
    /// Whether it is written at its home, as a whole.
    is_at_home: bool,
}

impl Job {
    fn range(&self, piece: u64) -> Range<u64> {
        let start = piece * self.piece_bytes;
        start..(start + self.piece_bytes).min(self.content.bytes())
    }

    /// The pieces that are held for it.
    fn held(&self) -> Vec<Held> {
        self.copies.iter().flat_map(|copy| &copy.pieces).flatten().map(|(held, _)| held.clone()).collect()
    }
}

/// A copy of a piece, sent somewhere.
#[derive(Clone, Debug)]
struct Sending {
    job: u64,
    piece: u64,
    copy: usize,
    server: usize,
    bytes: u64,
    /// Whether the whole object is sent to its home.
    is_home: bool,
    /// Servers that have failed.
    tried: Vec<usize>,
}

/// What a task has done.
#[derive(Debug)]
enum Step {
    /// What is there of an object.
    Looked {
        job: u64,
        found: Result<Vec<Look>, String>,
    },
    /// Two servers have told their loads.
    Asked {
        job: u64,
        piece: u64,
        other: usize,
        told: Vec<(usize, Option<u64>)>,
    },
    Sent {
        sending: Sending,
        sent: Result<Sent, Fault>,
    },
    /// The homes of an object know where it is. Says how many pieces of earlier versions could not be deleted.
    Settled {
        job: u64,
        settled: Result<usize, Unsettled>,
    },
    /// What was written for an object that failed is deleted.
    CleanedUp {
        job: u64,
        n_left: usize,
    },
    /// Servers have told how busy they are.
    Heard {
        told: Vec<(usize, u64)>,
    },
}

#[derive(Debug)]
struct Sent {
    took: Duration,
    held: Option<(Held, String)>,
    n_left: usize,
}

struct Writer {
    access: Arc<Access>,
    options: PutOptions,
    places: Places,
    tasks: JoinSet<Step>,
    jobs: BTreeMap<u64, Job>,
    n_jobs: u64,
    n_looking: usize,
    n_asking: usize,
    /// Whether no more objects will come.
    is_last: bool,
    /// Objects with pieces that are not placed.
    open: VecDeque<u64>,
    n_waiting: u64,
    waiting_since: Option<Instant>,
    /// Transfers at each server that are not over.
    n_at: Vec<usize>,
    /// What was done lately.
    recent: VecDeque<(Instant, u64)>,
    begun: Instant,
    id: u128,
    asks: bool,
    listens: bool,
    heard_at: Option<Instant>,
    bytes_done: u64,
    report: PutReport,
}

impl Writer {
    fn new(servers: Arc<Servers>, bucket: &str, options: &PutOptions) -> Result<Self, PutError> {
        let policy = options.placement.policy;
        let (asks, listens) = (matches!(policy.live, Live::Asks), matches!(policy.live, Live::Listens));
        if let Some(server) = servers.all().iter().find(|server| asks && server.control.is_none()) {
            return Err(PutError::CannotAsk { name: policy.name, server: server.name.clone() });
        }
        if asks && options.replicas > 1 {
            return Err(PutError::AsksForOne(policy.name));
        }
        if options.offset.is_some() && options.replicas > 1 {
            return Err(PutError::IntoOne);
        }
        let speeds: Vec<(String, u64)> =
            servers.all().iter().map(|server| (server.name.clone(), server.speed_millionths)).collect();
        let placing = Placing {
            placement: options.placement,
            n_replicas: options.replicas,
            threshold_bytes: options.threshold_bytes,
            resort: options.resort,
            learns: options.completions,
            seed: options.seed,
        };
        let mut places = Places::new(&placing, &speeds)?;
        if let Some(path) = &options.log {
            let wrong = |why| PutError::Log { path: path.display().to_string(), why };
            places.restore(path).map_err(wrong)?;
        }
        let report_of = |(name, _): &(String, u64)| PutServer { name: name.clone(), ..PutServer::default() };
        let report = PutReport { servers: speeds.iter().map(report_of).collect(), ..PutReport::default() };
        Ok(Self {
            access: Arc::new(Access::new(servers, bucket, options.slots.max(1))),
            options: options.clone(),
            places,
            tasks: JoinSet::new(),
            jobs: BTreeMap::new(),
            n_jobs: 0,
            n_looking: 0,
            n_asking: 0,
            is_last: false,
            open: VecDeque::new(),
            n_waiting: 0,
            waiting_since: None,
            n_at: vec![0; speeds.len()],
            recent: VecDeque::new(),
            begun: Instant::now(),
            id: fresh().map_err(PutError::NoRandomness)?,
            asks,
            listens,
            heard_at: None,
            bytes_done: 0,
            report,
        })
    }

    /// Makes sure that servers have the bucket. At least one has to answer.
    async fn begin(&mut self) -> Result<(), PutError> {
        let access = &self.access;
        let made = join_all((0..self.n_at.len()).map(|server| access.with_bucket(server))).await;
        if made.iter().all(Result::is_err)
            && let Some(Err(error)) = made.into_iter().next()
        {
            return Err(PutError::NoServer(error));
        }
        self.on_tick();
        Ok(())
    }

    /// Whether another object may come.
    fn wants_more(&self) -> bool {
        let n_slots = self.n_at.len() * self.options.slots;
        self.n_looking < MOST_LOOKS && self.jobs.len() < 2 * self.options.window + 4 * n_slots
    }

    /// An object comes.
    fn take(&mut self, item: Item) {
        let Item { key, content } = item;
        let bytes = content.bytes();
        let usual = self.options.piece_bytes.max(1);
        let is_huge = bytes.div_ceil(usual) > MOST_PIECES;
        let piece_bytes = if is_huge { bytes.div_ceil(MOST_PIECES).next_multiple_of(1 << 20) } else { usual };
        self.n_jobs += 1;
        self.n_looking += 1;
        self.id = self.id.wrapping_add(1);
        let mut job = Job {
            key: key.clone(),
            content: Arc::clone(&content),
            id: format!("{:032x}", self.id),
            piece_bytes,
            n_pieces: bytes.div_ceil(piece_bytes).max(1),
            homes: Vec::new(),
            copies: Vec::new(),
            n_copies_kept: 0,
            next: 0,
            n_out: 0,
            begun: None,
            failure: None,
            is_unsure: false,
            is_settling: false,
        };
        let (number, access, overwrites) = (self.n_jobs, Arc::clone(&self.access), self.options.overwrite);
        let homes = self.homes(&job, None);
        job.homes.clone_from(&homes);
        self.jobs.insert(number, job);
        let offset = self.options.offset;
        let look = async move {
            if offset.is_some() {
                let found = match bytes {
                    0 => Err("it is empty, so there is nothing to write into the object".to_owned()),
                    _ => Ok(homes.iter().map(|_| Look::Write(Before::default())).collect()),
                };
                return Step::Looked { job: number, found };
            }
            let looks = homes.iter().map(|&home| look(&access, home, &key, content.as_ref(), overwrites));
            let found: Result<Vec<Look>, String> = join_all(looks).await.into_iter().collect();
            Step::Looked { job: number, found }
        };
        self.tasks.spawn(look);
    }

    /// The homes of an object, or of a piece of one that has several.
    fn homes(&self, job: &Job, piece: Option<u64>) -> Vec<usize> {
        let n = self.options.replicas as usize;
        let (servers, bucket) = (&self.access.servers, &self.access.bucket);
        if let (Some(piece), Some(offset)) = (piece, self.options.offset) {
            let stripe = offset.saturating_add(job.range(piece).start) / STRIPE_BYTES;
            return servers.homes_of_piece(bucket, &job.key, stripe, n);
        }
        match piece.filter(|_| job.n_pieces > 1) {
            Some(piece) => servers.homes_of_piece(bucket, &job.key, piece, n),
            None => servers.homes(bucket, &job.key, n),
        }
    }

    /// Places what waits, window by window, as long as servers have nothing better to do.
    fn open_windows(&mut self) -> Result<(), PutError> {
        loop {
            let is_full = self.n_waiting >= self.options.window as u64;
            let is_late = self.waiting_since.is_some_and(|since| since.elapsed() >= self.options.window_time);
            let is_last = self.is_last && self.n_looking == 0;
            if self.n_waiting == 0 || !(is_full || is_late || is_last) || !self.has_room() {
                return Ok(());
            }
            if self.asks {
                self.ask();
            } else {
                self.place_window()?;
            }
        }
    }

    /// Whether a server could do with more.
    fn has_room(&self) -> bool {
        let is_idle =
            |(server, n_at): (usize, &usize)| *n_at < self.options.slots && self.places.is_up(server);
        if self.asks {
            let n: usize = self.n_at.iter().sum();
            return n + self.n_asking < self.n_at.len() * self.options.slots;
        }
        // Where all are down, objects fail.
        self.n_at.iter().enumerate().any(is_idle)
            || (0..self.n_at.len()).all(|server| !self.places.is_up(server))
    }

    /// Transfers that a server may have at once. At first, when nothing is known, one write each has to do.
    fn most_each(&self) -> usize {
        if self.places.knows() || !self.options.completions { self.options.slots } else { 1 }
    }

    /// How many writes may be placed now. With completions it is decided late, when it is known what has become of earlier
    /// writes: servers get only a little more than they do at once, so that none is idle.
    fn room(&self) -> usize {
        if !self.options.completions {
            return self.options.window;
        }
        let each = self.most_each() + if self.places.knows() { (self.options.slots / 4).max(1) } else { 0 };
        let free = self.n_at.iter().map(|n_at| each.saturating_sub(*n_at));
        free.sum::<usize>().max(1)
    }

    /// The next piece that waits.
    fn next_piece(&mut self) -> Option<(u64, u64)> {
        loop {
            let &number = self.open.front()?;
            let Some(job) = self.jobs.get_mut(&number) else {
                self.open.pop_front();
                continue;
            };
            if job.next >= job.n_pieces || job.failure.is_some() {
                self.n_waiting = self.n_waiting.saturating_sub(job.n_pieces.saturating_sub(job.next));
                job.next = job.n_pieces;
                self.open.pop_front();
                continue;
            }
            let piece = job.next;
            job.next += 1;
            job.n_out += 1;
            self.n_waiting = self.n_waiting.saturating_sub(1);
            if job.next == job.n_pieces {
                self.open.pop_front();
            }
            self.waiting_since =
                (self.n_waiting > 0).then(|| self.waiting_since.unwrap_or_else(Instant::now));
            return Some((number, piece));
        }
    }

    /// Places at most as many writes as a window has, and no more than servers do in its time.
    fn place_window(&mut self) -> Result<(), PutError> {
        let budget = self.rate() * self.options.window_time.as_secs_f64();
        let most = self.options.window.min(self.room());
        let (mut window, mut bytes) = (Vec::new(), 0);
        while window.len() < most && (window.len() < self.n_at.len() || (bytes as f64) < budget) {
            let Some(next) = self.next_piece() else { break };
            let job = &self.jobs[&next.0];
            let range = job.range(next.1);
            bytes += range.end - range.start;
            window.push((
                next,
                Wanted { bytes: range.end - range.start, homes: self.homes(job, Some(next.1)) },
            ));
        }
        if window.is_empty() {
            return Ok(());
        }
        self.waiting_since = (self.n_waiting > 0).then(Instant::now);
        let wanted: Vec<Wanted> = window.iter().map(|(_, wanted)| wanted.clone()).collect();
        match self.places.window(&wanted, self.access.under_way(), &self.n_at) {
            Ok(placed) => {
                self.report.n_windows += 1;
                for (((job, piece), wanted), servers) in window.into_iter().zip(placed) {
                    self.send_copies(job, piece, wanted.bytes, &servers);
                }
                Ok(())
            }
            Err(error @ PlaceError::TooFewUp { .. }) => {
                for ((number, _), _) in window {
                    self.fail(number, self.why_down().unwrap_or_else(|| error.to_string()), false);
                    self.one_is_over(number);
                }
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Why a server is left alone.
    fn why_down(&self) -> Option<String> {
        (0..self.n_at.len()).find_map(|server| self.access.down(server)).map(|error| error.to_string())
    }

    /// Bytes per second that are done lately.
    fn rate(&self) -> f64 {
        let bytes: u64 = self.recent.iter().map(|(_, bytes)| bytes).sum();
        bytes as f64 / self.begun.elapsed().min(RECENT).as_secs_f64().max(0.05)
    }

    /// Asks the home of the next piece and another server for their loads.
    fn ask(&mut self) {
        let Some((number, piece)) = self.next_piece() else { return };
        let home = self.homes(&self.jobs[&number], Some(piece))[0];
        let Some(other) = self.places.draw_other(home) else {
            self.on_asked(number, piece, home, &[]);
            return;
        };
        self.n_asking += 1;
        let access = Arc::clone(&self.access);
        self.tasks.spawn(async move {
            let ask = |server| {
                let access = &access;
                async move {
                    let told = access.servers.status(server).await;
                    (server, told.ok().flatten().map(|status| status.load.pending_bytes))
                }
            };
            let told = join_all([home, other].map(ask)).await;
            Step::Asked { job: number, piece, other, told }
        });
    }

    fn on_asked(&mut self, number: u64, piece: u64, other: usize, told: &[(usize, Option<u64>)]) {
        let Some(job) = self.jobs.get(&number) else { return };
        let range = job.range(piece);
        let wanted = Wanted { bytes: range.end - range.start, homes: self.homes(job, Some(piece)) };
        // Who does not answer is no choice; the home is, and then the object fails there.
        let told: Vec<(usize, u64)> =
            told.iter().map(|&(server, load)| (server, load.unwrap_or(u64::MAX / 4))).collect();
        self.report.n_windows += 1;
        match self.places.asked(&wanted, &told, other) {
            Ok(servers) => self.send_copies(number, piece, wanted.bytes, &servers),
            Err(error) => {
                self.fail(number, error.to_string(), false);
                self.one_is_over(number);
            }
        }
    }

    /// Sends the copies of a piece to these servers. Copies whose home is among them go there.
    fn send_copies(&mut self, number_of_job: u64, piece: u64, bytes: u64, servers: &[usize]) {
        let Some(job) = self.jobs.get_mut(&number_of_job) else { return };
        let is_whole = job.n_pieces == 1 && self.options.offset.is_none();
        let to = dealt(servers, &job.homes);
        let sendings: Vec<Sending> = job
            .copies
            .iter()
            .enumerate()
            .filter_map(|(copy, CopyOf { number, home, .. })| {
                let server = to.get(*number).copied().flatten()?;
                let is_home = is_whole && server == *home;
                Some(Sending { job: number_of_job, piece, copy, server, bytes, is_home, tried: Vec::new() })
            })
            .collect();
        // What was placed for copies that are there already.
        let is_sent = |server: &usize| sendings.iter().any(|sending| sending.server == *server);
        servers
            .iter()
            .filter(|server| !is_sent(server))
            .for_each(|server| self.places.done(*server, bytes, None));
        job.n_out += sendings.len();
        sendings.into_iter().for_each(|sending| self.send(sending));
        self.one_is_over(number_of_job);
    }

    fn send(&mut self, sending: Sending) {
        let Some(job) = self.jobs.get_mut(&sending.job) else { return };
        job.begun.get_or_insert_with(Instant::now);
        let copy = &job.copies[sending.copy];
        let (home, before, key) = (copy.home, copy.before.clone(), job.key.clone());
        let (content, range) = (Arc::clone(&job.content), job.range(sending.piece));
        let suffix = if copy.number == 0 { String::new() } else { format!("-{}", copy.number) };
        let again =
            if sending.tried.is_empty() { String::new() } else { format!("-r{}", sending.tried.len()) };
        let held = format!("{HELD}{}/{}{suffix}{again}", job.id, sending.piece);
        let (access, overwrites) = (Arc::clone(&self.access), self.options.overwrite);
        self.n_at[sending.server] += 1;
        self.tasks.spawn(async move {
            let sent = async {
                if let Some(error) = access.down(home) {
                    return Err(Fault::from(error));
                }
                let _slot = access.slot(sending.server).await;
                let part = Part::new(content, range).await.map_err(Fault::Local)?;
                if sending.is_home {
                    let entry = Entry::Whole(&part);
                    let (before, took) = access.settle(home, &key, before, overwrites, &entry).await?;
                    let n_left = access.drop_pieces(&before.pieces, Some(&key)).await;
                    return Ok(Sent { took, held: None, n_left });
                }
                #[cfg(test)]
                if Mistake::NamesFirst.is_made() {
                    let (server, bytes, crc32c) = (sending.server, part.bytes(), part.crc32c);
                    let named =
                        Held { server: access.name(server).to_owned(), key: held.clone(), bytes, crc32c };
                    let access = Arc::clone(&access);
                    let later = async move { access.hold(server, &key, home, &held, &part).await };
                    drop(tokio::spawn(later));
                    return Ok(Sent { took: TICK, held: Some((named, "0".repeat(32))), n_left: 0 });
                }
                let (written, took) = access.hold(sending.server, &key, home, &held, &part).await?;
                let (server, bytes) = (access.name(sending.server).to_owned(), part.bytes());
                let held = Held { server, key: held, bytes, crc32c: part.crc32c };
                Ok(Sent { took, held: Some((held, written.etag)), n_left: 0 })
            };
            let sent = sent.await;
            Step::Sent { sending, sent }
        });
    }

    fn on(&mut self, step: Step) {
        match step {
            Step::Looked { job, found } => self.on_looked(job, found),
            Step::Asked { job, piece, other, told } => {
                self.n_asking -= 1;
                self.on_asked(job, piece, other, &told);
            }
            Step::Sent { sending, sent } => self.on_sent(sending, sent),
            Step::Settled { job, settled } => self.on_settled(job, settled),
            Step::CleanedUp { job, n_left } => {
                self.report.n_left_behind += n_left as u64;
                self.end(job);
            }
            Step::Heard { told } => {
                told.into_iter().for_each(|(server, connections)| self.places.heard(server, connections));
            }
        }
    }

    fn on_looked(&mut self, number: u64, found: Result<Vec<Look>, String>) {
        self.n_looking -= 1;
        let Some(job) = self.jobs.get_mut(&number) else { return };
        let found = match found {
            Ok(found) => found,
            Err(why) => {
                job.failure = Some(why);
                self.end(number);
                return;
            }
        };
        let n_pieces = job.n_pieces as usize;
        let homes = job.homes.clone();
        for (copy, (home, look)) in homes.into_iter().zip(found).enumerate() {
            match look {
                Look::Same => job.n_copies_kept += 1,
                Look::Write(before) => {
                    let pieces = vec![None; n_pieces];
                    job.copies.push(CopyOf { number: copy, home, before, pieces, is_at_home: false });
                }
            }
        }
        if job.copies.is_empty() {
            self.bytes_done += job.content.bytes();
            self.report.n_kept += 1;
            self.jobs.remove(&number);
            return;
        }
        if self.report.was_stopped {
            self.fail(number, "it was stopped before".to_owned(), false);
            self.one_more_is_over(number);
            return;
        }
        self.n_waiting += job.n_pieces;
        self.waiting_since.get_or_insert_with(Instant::now);
        self.open.push_back(number);
    }

    fn on_sent(&mut self, sending: Sending, sent: Result<Sent, Fault>) {
        let Sending { job: number, piece, copy, server, bytes, is_home, .. } = sending;
        self.n_at[server] -= 1;
        self.places.done(server, bytes, sent.as_ref().ok().map(|sent| sent.took));
        match sent {
            Ok(Sent { held, n_left, .. }) => {
                self.recent.push_back((Instant::now(), bytes));
                self.bytes_done += bytes;
                self.report.n_left_behind += n_left as u64;
                let report = &mut self.report.servers[server];
                (report.bytes, report.n_pieces) = (report.bytes + bytes, report.n_pieces + 1);
                if let Some(job) = self.jobs.get_mut(&number) {
                    report.n_away += u64::from(job.copies[copy].home != server);
                    match held {
                        None => job.copies[copy].is_at_home = true,
                        held => job.copies[copy].pieces[piece as usize] = held,
                    }
                }
            }
            Err(Fault::Local(why)) => self.fail(number, format!("cannot be read: {why}"), false),
            Err(Fault::Exists) => self.fail(number, EXISTS.to_owned(), false),
            Err(Fault::Server { error, is_unsure }) => {
                let report = &mut self.report.servers[server];
                report.n_failures += 1;
                report.last_error = Some(error.to_string());
                self.on_tick();
                let home = self.jobs.get(&number).map(|job| job.copies[copy].home);
                if is_home {
                    self.fail(
                        number,
                        format!("its home {} did not take it: {error}", self.access.name(server)),
                        is_unsure,
                    );
                } else if let Some(error) = home.and_then(|home| self.access.down(home)) {
                    self.fail(number, format!("its home cannot be reached: {error}"), false);
                } else if !self.send_elsewhere(sending) {
                    self.fail(number, error.to_string(), false);
                }
            }
        }
        self.one_is_over(number);
    }

    /// Sends a piece to another server. Returns whether there is one.
    fn send_elsewhere(&mut self, sending: Sending) -> bool {
        let Sending { job: number, piece, copy, bytes, server, mut tried, .. } = sending;
        tried.push(server);
        let Some(job) = self.jobs.get(&number) else { return false };
        if tried.len() >= MOST_ATTEMPTS || job.failure.is_some() {
            return false;
        }
        // Copies are apart, and so are their entries.
        let own = job.copies[copy].home;
        let holders = job.copies.iter().filter_map(|other| other.pieces[piece as usize].as_ref());
        let holders = holders.filter_map(|(held, _)| self.access.servers.find(&held.server));
        let others = job.homes.iter().copied().filter(|home| *home != own).chain(holders);
        let taken: Vec<usize> = tried.iter().copied().chain(others).collect();
        let (home, is_whole) = (job.copies[copy].home, job.n_pieces == 1 && self.options.offset.is_none());
        let Some(server) = self.places.instead(&taken, bytes) else { return false };
        let is_home = is_whole && server == home;
        if let Some(job) = self.jobs.get_mut(&number) {
            job.n_out += 1;
        }
        self.send(Sending { job: number, piece, copy, server, bytes, is_home, tried });
        true
    }

    fn fail(&mut self, number: u64, why: String, is_unsure: bool) {
        if let Some(job) = self.jobs.get_mut(&number) {
            job.failure.get_or_insert(why);
            job.is_unsure |= is_unsure;
        }
    }

    /// A transfer of an object is over. If it was the last one, its homes are told, or what was written is deleted.
    fn one_is_over(&mut self, number: u64) {
        if let Some(job) = self.jobs.get_mut(&number) {
            job.n_out -= 1;
        }
        self.one_more_is_over(number);
    }

    fn one_more_is_over(&mut self, number: u64) {
        let Some(job) = self.jobs.get_mut(&number) else { return };
        let is_placed = job.next >= job.n_pieces || job.failure.is_some();
        if job.n_out > 0 || !is_placed || job.is_settling {
            return;
        }
        job.is_settling = true;
        if job.begun.is_some_and(|begun| begun.elapsed() > NAMED_WITHIN) {
            // A maintainer may have collected the first pieces.
            job.failure.get_or_insert(TOO_LONG.to_owned());
        }
        let access = Arc::clone(&self.access);
        if job.failure.is_some() {
            // What may be named by an entry stays; an orphan is collected later.
            let held = if job.is_unsure { Vec::new() } else { job.held() };
            self.tasks.spawn(async move {
                Step::CleanedUp { job: number, n_left: access.drop_pieces(&held, None).await }
            });
            return;
        }
        let entries: Vec<(usize, Before, Redirect)> = job
            .copies
            .iter()
            .filter(|copy| !copy.is_at_home)
            .map(|copy| (copy.home, copy.before.clone(), redirect(&copy.pieces)))
            .collect();
        let (key, overwrites) = (job.key.clone(), self.options.overwrite);
        if let Some(offset) = self.options.offset {
            self.tasks.spawn(async move {
                let settled = write_into(&access, &key, offset, entries).await;
                Step::Settled { job: number, settled }
            });
            return;
        }
        self.tasks.spawn(async move {
            #[cfg(test)]
            if Mistake::AcknowledgesFirst.is_made() {
                drop(tokio::spawn(async move { settle(&access, &key, entries, overwrites).await.map(drop) }));
                return Step::Settled { job: number, settled: Ok(0) };
            }
            let settled = settle(&access, &key, entries, overwrites).await;
            Step::Settled { job: number, settled }
        });
    }

    fn on_settled(&mut self, number: u64, settled: Result<usize, Unsettled>) {
        match settled {
            Ok(n_left) => {
                self.report.n_left_behind += n_left as u64;
                self.end(number);
            }
            Err(Unsettled { why, is_unsure, n_settled }) => {
                let Some(job) = self.jobs.get_mut(&number) else { return };
                let n_durable =
                    n_settled + job.n_copies_kept + job.copies.iter().filter(|copy| copy.is_at_home).count();
                let n_copies = self.options.replicas;
                job.failure = Some(if n_copies > 1 {
                    format!("{n_durable} of {n_copies} copies are durable: {why}")
                } else {
                    why
                });
                job.is_unsure |= is_unsure || n_settled > 0;
                job.is_settling = false;
                self.one_more_is_over(number);
            }
        }
    }

    /// An object is done with.
    fn end(&mut self, number: u64) {
        let Some(job) = self.jobs.remove(&number) else { return };
        if let Some(why) = job.failure {
            self.n_waiting = self.n_waiting.saturating_sub(if self.open.contains(&number) {
                job.n_pieces - job.next.min(job.n_pieces)
            } else {
                0
            });
            self.report.failures.push(PutFailure { key: job.key, why });
            return;
        }
        self.report.n_written += 1;
        self.report.bytes += job.content.bytes();
        self.report.n_redirected +=
            u64::from(job.copies.iter().all(|copy| !copy.is_at_home) && job.n_copies_kept == 0);
    }

    /// Servers that could not be reached get nothing for a while.
    fn on_tick(&mut self) {
        for server in 0..self.n_at.len() {
            self.places.set_up(server, self.access.down(server).is_none());
        }
        while self.recent.front().is_some_and(|(at, _)| at.elapsed() > RECENT) {
            self.recent.pop_front();
        }
        if self.listens && self.heard_at.is_none_or(|at| at.elapsed() >= HEARTBEAT) {
            self.heard_at = Some(Instant::now());
            let (access, n_at) = (Arc::clone(&self.access), self.n_at.clone());
            self.tasks.spawn(async move {
                let access = &access;
                let ask = |(server, n_at): (usize, usize)| async move {
                    match access.servers.status(server).await {
                        Ok(Some(status)) => {
                            (server, u64::from(status.load.busy) + u64::from(status.load.waiting))
                        }
                        // Who does not tell has at least our own.
                        _ => (server, n_at as u64),
                    }
                };
                Step::Heard { told: join_all(n_at.into_iter().enumerate().map(ask)).await }
            });
        }
    }

    /// Begins nothing more.
    fn stop(&mut self) {
        self.report.was_stopped = true;
        let open: Vec<u64> = self.open.drain(..).collect();
        for number in open {
            self.fail(number, "it was stopped before".to_owned(), false);
            self.one_more_is_over(number);
        }
        (self.n_waiting, self.waiting_since) = (0, None);
    }

    fn progress(&self) -> PutProgress<'_> {
        let n_objects = self.report.n_written + self.report.n_kept;
        PutProgress { bytes: self.bytes_done, n_objects, servers: &self.report.servers }
    }

    fn finish(mut self, begun: Instant, options: &PutOptions) -> PutReport {
        for (number, server) in self.report.servers.iter_mut().enumerate() {
            server.speed = self.places.speed(number);
        }
        if let Some(path) = &options.log
            && let Err(error) = self.places.keep(path)
        {
            self.report.log_error = Some(format!("{}: {error}", path.display()));
        }
        self.report.n_probes = self.places.n_probes();
        self.report.failures.sort_by(|a, b| a.key.cmp(&b.key));
        self.report.elapsed = begun.elapsed();
        self.report
    }
}

/// Why pieces that took too long are not named any more.
pub(super) const TOO_LONG: &str = "it took longer than 12 hours, after which pieces that nothing names may be collected; write \
                                   it in parts";

/// Deals the servers of a piece to its copies. Who is the home of a copy gets no other one: then one server that is lost
/// never takes both the bytes of one copy and the entry of another.
pub(super) fn dealt(servers: &[usize], homes: &[usize]) -> Vec<Option<usize>> {
    let mut free = servers.to_vec();
    let mut to: Vec<Option<usize>> = homes
        .iter()
        .map(|home| free.iter().position(|server| server == home).map(|at| free.swap_remove(at)))
        .collect();
    let mut rest = free.into_iter();
    to.iter_mut().filter(|to| to.is_none()).for_each(|to| *to = rest.next());
    to
}
