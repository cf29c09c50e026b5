//! Drives the executor with reads that arrive over time.
//!
//! A task owns the executor. Callers send it jobs, and transfers tell it how far they are. A transfer writes what it
//! receives into the buffer of its job, so that a part from one mirror and the rest from another are one piece.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use evenkeel::model::{
    BatchBuilder, Client, ClientId, Cluster, Fixed, MAX_SLOTS, NameTable, Schedule, Server, ServerId, Speed,
};
use evenkeel::run::{Action, Cause, Decide, Event, Executor, Late, Pick, RequestId, Settings, TransferId};
use futures_util::StreamExt;
use object_store::path::Path;
use object_store::{Error, GetOptions, GetRange, ObjectStore, Result};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout};

use super::{BalancedOptions, MirrorReport, Version, failure, lock};
use crate::health::Health;

/// A request takes a mirror as long as this many bytes, whatever its size. So small reads say something about the speed
/// of a mirror, too.
const REQUEST_BYTES: u64 = 1 << 16;
/// What a mirror is assumed to do in a second until it has shown what it does.
const USUAL_RATE: u64 = 100 << 20;
/// The share of all bytes that may be read twice because a request is late, and how many pieces of it there are at
/// first.
const HEDGED_SHARE: f64 = 0.05;
const FIRST_HEDGED_PIECES: u64 = 8;
/// How often the executor is told how far a transfer is. Networks send in bursts, which say nothing about a mirror.
const TOLD_EVERY: Duration = Duration::from_millis(20);

/// What to read.
#[derive(Clone, Debug)]
pub(super) enum What {
    Head,
    /// At least one byte.
    Range(Range<u64>),
}

/// A read of at most one piece.
#[derive(Debug)]
pub(super) struct Job {
    location: Path,
    options: GetOptions,
    what: What,
    version: Arc<Version>,
    /// What has arrived, and whatever is there else.
    buffer: Mutex<BytesMut>,
}

impl Job {
    pub(super) fn new(location: Path, options: GetOptions, what: What, version: Arc<Version>) -> Self {
        let bytes = match &what {
            What::Head => 0,
            What::Range(range) => range.end - range.start,
        };
        let buffer = Mutex::new(BytesMut::zeroed(usize::try_from(bytes).unwrap_or(usize::MAX)));
        Self { location, options, what, version, buffer }
    }

    fn blocks(&self) -> u64 {
        match &self.what {
            What::Head => REQUEST_BYTES,
            What::Range(range) => REQUEST_BYTES + range.end - range.start,
        }
    }

    /// All of it has arrived.
    fn finish(&self) -> Result<Bytes> {
        let described = self.version.described.get();
        let (meta, _) = described.ok_or_else(|| failure("a mirror sent data without its description"))?;
        let mut bytes = std::mem::take(&mut *lock(&self.buffer));
        if let What::Range(range) = &self.what {
            // An object may end before the range does.
            let there = range.end.min(meta.size).saturating_sub(range.start);
            bytes.truncate(usize::try_from(there).unwrap_or(usize::MAX));
        }
        Ok(bytes.freeze())
    }
}

enum Message {
    Read(RequestId, Arc<Job>, oneshot::Sender<Result<Bytes>>),
    /// Nobody waits for this any more.
    Cancel(RequestId),
    /// How many blocks a transfer has moved, and how many bytes came since the last time.
    Progress(TransferId, u64, u64),
    End(TransferId, u64, std::result::Result<(), (Cause, Error)>),
}

/// Where reads are sent.
#[derive(Debug)]
pub(super) struct Reads {
    sender: mpsc::UnboundedSender<Message>,
    reports: Arc<Mutex<Vec<MirrorReport>>>,
    next: std::sync::atomic::AtomicU64,
}

/// Tells that nobody waits for a request, unless it is over.
struct Waiting<'a>(&'a Reads, RequestId);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let _ = self.0.sender.send(Message::Cancel(self.1));
    }
}

impl Reads {
    /// Starts the task that drives reads from these mirrors.
    pub(super) fn start(
        names: Vec<String>,
        mirrors: Vec<Arc<dyn ObjectStore>>,
        options: &BalancedOptions,
    ) -> Result<Self> {
        let runtime = Handle::try_current().map_err(failure)?;
        let executor = executor(&names, options)?;
        let (sender, receiver) = mpsc::unbounded_channel();
        let reports = names.into_iter().map(|name| MirrorReport { name, ..MirrorReport::default() });
        let reports = Arc::new(Mutex::new(reports.collect::<Vec<_>>()));
        let task = Task {
            executor,
            health: mirrors.iter().map(|_| Health::default()).collect(),
            mirrors,
            patience: options.patience,
            receiver,
            // Ends with the last store or stream that may send anything.
            sender: sender.downgrade(),
            begun: Instant::now(),
            open: HashMap::new(),
            transfers: HashMap::new(),
            reports: Arc::clone(&reports),
        };
        runtime.spawn(task.run());
        Ok(Self { sender, reports, next: std::sync::atomic::AtomicU64::new(0) })
    }

    pub(super) fn reports(&self) -> Vec<MirrorReport> {
        lock(&self.reports).clone()
    }

    pub(super) async fn read(&self, job: Job) -> Result<Bytes> {
        let request = RequestId(self.next.fetch_add(1, std::sync::atomic::Ordering::Relaxed));
        let (reply, answer) = oneshot::channel();
        let _waiting = Waiting(self, request);
        let gone = || failure("the runtime in which the store was made has ended");
        self.sender.send(Message::Read(request, Arc::new(job), reply)).map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?
    }
}

/// An executor without a plan: requests arrive, and go to the mirror that is likely to be done first.
fn executor(names: &[String], options: &BalancedOptions) -> Result<Executor> {
    let wrong = |error: &dyn std::fmt::Display| failure(error.to_string());
    let slots = options.slots.clamp(1, MAX_SLOTS);
    let mut builder = BatchBuilder::in_blocks_of(1);
    let mut table = NameTable::new();
    // By number, since two may have the same name.
    (0..names.len()).for_each(|number| {
        table.intern(&number.to_string());
    });
    builder.declare_servers(table).map_err(|error| wrong(&error))?;
    let mut clients = NameTable::new();
    clients.intern("here");
    builder.declare_clients(clients).map_err(|error| wrong(&error))?;
    let batch = builder.finish();
    let speed = Speed::from_millionths(USUAL_RATE / u64::from(slots) * 1_000_000).unwrap_or(Speed::MAX);
    let servers = vec![Server { speed, slots, backlog: 0 }; names.len()];
    let all_slots = (slots as usize).saturating_mul(names.len()).min(MAX_SLOTS as usize) as u32;
    let cluster = Cluster::new(&batch, servers, vec![Client { slots: all_slots }], None);
    let cluster = cluster.map_err(|error| wrong(&error))?;
    let settings = Settings {
        // Speeds are bytes per second.
        block_ns: 1e9,
        decide: Decide::WhenFree,
        hedge_after: Late::P95,
        hedge_blocks: FIRST_HEDGED_PIECES.saturating_mul(options.piece_bytes + REQUEST_BYTES),
        hedge_share: HEDGED_SHARE,
        patience_ns: u64::try_from(options.patience.as_nanos()).unwrap_or(u64::MAX),
        ..Settings::online(Pick::LeastLoaded)
    };
    Executor::new(&batch, &cluster, &Schedule::default(), settings, 0).map_err(|error| wrong(&error))
}

/// A job that is under way.
struct Open {
    job: Arc<Job>,
    reply: oneshot::Sender<Result<Bytes>>,
    /// The failure to report if no mirror can do it.
    error: Option<Error>,
}

struct Transfer {
    request: RequestId,
    mirror: usize,
    task: AbortHandle,
}

struct Task {
    executor: Executor,
    mirrors: Vec<Arc<dyn ObjectStore>>,
    patience: Duration,
    receiver: mpsc::UnboundedReceiver<Message>,
    sender: mpsc::WeakUnboundedSender<Message>,
    begun: Instant,
    open: HashMap<RequestId, Open>,
    transfers: HashMap<TransferId, Transfer>,
    health: Vec<Health>,
    reports: Arc<Mutex<Vec<MirrorReport>>>,
}

impl Task {
    async fn run(mut self) {
        loop {
            self.give_chances();
            let wake_at =
                self.executor.wake_at().and_then(|ns| self.begun.checked_add(Duration::from_nanos(ns)));
            let back_at = self.health.iter().filter_map(Health::back_at).min();
            let wake_at = [wake_at, back_at].into_iter().flatten().min();
            let wake_at = wake_at.unwrap_or_else(|| Instant::now() + Duration::from_hours(1));
            tokio::select! {
                message = self.receiver.recv() => match message {
                    Some(message) => self.on_message(message),
                    None => break,
                },
                () = tokio::time::sleep_until(wake_at) => self.tell(Event::Wake),
            }
        }
        self.transfers.values().for_each(|transfer| transfer.task.abort());
    }

    fn on_message(&mut self, message: Message) {
        match message {
            Message::Read(request, job, reply) => {
                let blocks = job.blocks();
                self.open.insert(request, Open { job, reply, error: None });
                let replicas: Vec<ServerId> = (0..self.mirrors.len() as u32).map(ServerId).collect();
                self.tell(Event::Arrived { request, client: ClientId(0), blocks, replicas: &replicas });
            }
            Message::Cancel(request) => {
                if self.open.remove(&request).is_some() {
                    self.tell(Event::Cancelled { request });
                }
            }
            // A transfer may have been broken off while it told this.
            Message::Progress(transfer, moved, bytes) => {
                if let Some(Transfer { mirror, .. }) = self.transfers.get(&transfer) {
                    lock(&self.reports)[*mirror].bytes += bytes;
                    self.tell(Event::Progress { transfer, blocks: fixed(moved) });
                }
            }
            Message::End(transfer, bytes, result) => {
                let Some(Transfer { request, mirror, .. }) = self.transfers.remove(&transfer) else { return };
                lock(&self.reports)[mirror].bytes += bytes;
                match result {
                    Ok(()) => {
                        self.health[mirror] = Health::default();
                        self.tell(Event::Done { transfer });
                    }
                    Err((cause, error)) => self.on_failed(transfer, request, mirror, cause, error),
                }
            }
        }
    }

    fn on_failed(
        &mut self,
        transfer: TransferId,
        request: RequestId,
        mirror: usize,
        cause: Cause,
        error: Error,
    ) {
        {
            let report = &mut lock(&self.reports)[mirror];
            (report.n_failures, report.last_error) = (report.n_failures + 1, Some(error.to_string()));
        }
        if let Some(open) = self.open.get_mut(&request) {
            // That it is nowhere can be said only if every mirror says so.
            let is_missing = |error: &Error| matches!(error, Error::NotFound { .. });
            if open.error.as_ref().is_none_or(|known| is_missing(known) || !is_missing(&error)) {
                open.error = Some(error);
            }
        }
        self.tell(Event::Failed { transfer, cause });
        if matches!(cause, Cause::Unreachable | Cause::TimedOut) {
            // Never for good: a store may live for weeks.
            if self.health[mirror].fails(self.patience / 2, u32::MAX) {
                self.tell(Event::ServerDown { server: ServerId(mirror as u32) });
            }
        }
    }

    /// Tries mirrors again that were left alone for long enough.
    fn give_chances(&mut self) {
        for mirror in 0..self.health.len() {
            if self.health[mirror].revive() {
                self.tell(Event::ServerUp { server: ServerId(mirror as u32) });
            }
        }
    }

    /// Tells the executor what happened, and does what it decides.
    fn tell(&mut self, event: Event<'_>) {
        let now_ns = u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let mut actions = Vec::new();
        if let Err(misfit) = self.executor.on_event(now_ns, event, &mut actions) {
            if let Event::Arrived { request, .. } = event
                && let Some(open) = self.open.remove(&request)
            {
                let _ = open.reply.send(Err(failure(misfit)));
            }
            return;
        }
        for action in actions {
            match action {
                Action::Start { transfer, request, server, offset, blocks, .. } => {
                    let blocks = offset.floor()..offset.floor() + blocks.floor();
                    self.start(transfer, request, server.index(), blocks);
                }
                Action::Withdraw { transfer } => {
                    if let Some(transfer) = self.transfers.remove(&transfer) {
                        transfer.task.abort();
                    }
                }
                Action::Deliver { request, .. } => {
                    if let Some(open) = self.open.remove(&request) {
                        // Whoever asked may have left.
                        let _ = open.reply.send(open.job.finish());
                    }
                }
                Action::Fail { request, reason } => {
                    if let Some(open) = self.open.remove(&request) {
                        let _ = open.reply.send(Err(open.error.unwrap_or_else(|| failure(reason))));
                    }
                }
                // Nothing is planned here, and whose data is damaged is in its error.
                Action::Plan { .. } | Action::Report { .. } => {}
            }
        }
    }

    fn start(&mut self, transfer: TransferId, request: RequestId, mirror: usize, blocks: Range<u64>) {
        let (Some(open), Some(sender)) = (self.open.get(&request), self.sender.upgrade()) else { return };
        let (job, store, patience) =
            (Arc::clone(&open.job), Arc::clone(&self.mirrors[mirror]), self.patience);
        let name = lock(&self.reports)[mirror].name.clone();
        let task = tokio::spawn(async move {
            let mut told = Told { transfer, sender, moved: 0, bytes: 0, at: Instant::now() };
            let result = receive(&job, &*store, (mirror, &name), blocks, patience, &mut told).await;
            let _ = told.sender.send(Message::End(transfer, told.bytes, result));
        });
        self.transfers.insert(transfer, Transfer { request, mirror, task: task.abort_handle() });
    }
}

/// What a transfer has told, and what it has yet to tell.
struct Told {
    transfer: TransferId,
    sender: mpsc::UnboundedSender<Message>,
    moved: u64,
    bytes: u64,
    at: Instant,
}

impl Told {
    fn add(&mut self, blocks: u64, bytes: u64) {
        self.moved += blocks;
        self.bytes += bytes;
        if self.at.elapsed() >= TOLD_EVERY {
            let bytes = std::mem::take(&mut self.bytes);
            let _ = self.sender.send(Message::Progress(self.transfer, self.moved, bytes));
            self.at = Instant::now();
        }
    }
}

/// Reads these blocks of a job from a mirror: the first of them stand for the request itself.
async fn receive(
    job: &Job,
    store: &dyn ObjectStore,
    (mirror, name): (usize, &str),
    blocks: Range<u64>,
    patience: Duration,
    told: &mut Told,
) -> std::result::Result<(), (Cause, Error)> {
    let timed_out = |_| (Cause::TimedOut, failure(format!("{name} does not answer")));
    let damaged = |what: String| (Cause::Damaged, failure(format!("{name} sent something else: {what}")));
    let mut options = job.options.clone();
    let wanted = match &job.what {
        What::Head => {
            options.head = true;
            None
        }
        What::Range(range) => {
            let at = |block: u64| range.start + block.saturating_sub(REQUEST_BYTES);
            let wanted = at(blocks.start)..at(blocks.end);
            options.range = Some(GetRange::Bounded(wanted.clone()));
            Some((wanted, range.start))
        }
    };
    let result = timeout(patience, store.get_opts(&job.location, options)).await.map_err(timed_out)?;
    let result = result.map_err(|error| (cause(&error), error))?;
    if !job.version.is_same(mirror, &result) {
        let what = format!("{name} has another version of {}; it is not used for this read", job.location);
        return Err((Cause::NotHeld, failure(what)));
    }
    told.add(REQUEST_BYTES.min(blocks.end).saturating_sub(blocks.start), 0);
    let Some((wanted, origin)) = wanted else { return Ok(()) };
    let end = wanted.end.min(result.meta.size);
    if result.range.start != wanted.start || result.range.end != end {
        let (told, wanted) = (&result.range, wanted.start..end);
        return Err(damaged(format!("{wanted:?} was asked for, and it sent {told:?}")));
    }
    let mut at = wanted.start;
    let mut chunks = result.into_stream();
    while let Some(chunk) = timeout(patience, chunks.next()).await.map_err(timed_out)? {
        let chunk = chunk.map_err(|error| (cause(&error), error))?;
        let next = at + chunk.len() as u64;
        if next > end {
            return Err(damaged("more bytes than were asked for".to_owned()));
        }
        let place = (at - origin) as usize..(next - origin) as usize;
        // It is taken away once all has arrived from elsewhere.
        if let Some(place) = lock(&job.buffer).get_mut(place) {
            place.copy_from_slice(&chunk);
        }
        at = next;
        told.add(chunk.len() as u64, chunk.len() as u64);
    }
    if at < end {
        return Err((Cause::Unreachable, failure(format!("{name} sent less than was asked for"))));
    }
    Ok(())
}

fn fixed(blocks: u64) -> Fixed {
    Fixed::from_nanos(u128::from(blocks) * 1_000_000_000).unwrap_or(Fixed::ZERO)
}

/// What an error means for its transfer.
fn cause(error: &Error) -> Cause {
    match error {
        Error::Generic { .. } | Error::JoinError { .. } => Cause::Unreachable,
        // None of these gets better by asking again.
        _ => Cause::NotHeld,
    }
}
