//! Drives the executor with real transfers: what it decides is done, what happens is told.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use evenkeel::model::{Batch, Cluster, Fixed, Server, ServerId};
use evenkeel::run::{
    Action, Cause, Decided, Decision, Event, Executor, NewPlan, RequestId, Settings, Snapshot, TransferId,
};
use evenkeel_store::{Catalogue, Problem, StoreError};
use futures_util::StreamExt;
use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, spawn_blocking};
use tokio::time::{Instant, timeout};

use super::happening::{self, Choosing, Ending, Happening};
use super::limit::Limit;
use super::sink::Sink;
use super::work::{Item, Planned};
use crate::health::{Health, MOST_IN_A_ROW};

/// Messages that may wait for the driver. Transfers wait when there are more, and so do their servers.
const N_MESSAGES: usize = 64;
/// Bytes of a transfer that are held in memory before they are written.
const MOST_HELD: u64 = 4 << 20;
/// How often progress is shown and the journal written out.
const TICK: Duration = Duration::from_millis(100);
/// How often the executor is told how far a transfer is. Networks send in bursts, which say nothing about a server.
const TOLD_EVERY: Duration = Duration::from_millis(50);
/// How often a server that is left alone gets another chance, unless it uses one.
const MOST_CHANCES: u32 = 2;
/// Fewer bytes than this within the patience are as good as none.
const TRICKLE: usize = 1 << 14;

/// A server that is slow for long is reported at most this often.
const SLOW_TOLD_EVERY: Duration = Duration::from_secs(1);
/// Decisions that one event can lead to and that are watched.
const MOST_DECISIONS: usize = 1 << 10;

/// What a transfer tells.
enum Message {
    Chunk(TransferId, Bytes),
    End(TransferId, Result<(), StoreError>),
    Planned(NewPlan),
}

/// What the driver waits for.
enum Next {
    Message(Message),
    Wake,
    Tick,
    Proceeded(io::Result<bool>),
    Stop,
}

/// Waits until somebody wants to stop.
pub(super) async fn stopped(stop: &mut watch::Receiver<bool>) {
    if stop.wait_for(|stop| *stop).await.is_err() {
        // Nobody is left who could want it.
        std::future::pending::<()>().await;
    }
}

/// A transfer in flight.
struct Receiving {
    item: usize,
    server: usize,
    /// Where in the object it begins.
    offset: u64,
    bytes: u64,
    received: u64,
    /// What was received and is not being written yet, and how much that is.
    chunks: Vec<Bytes>,
    held: u64,
    begun: Instant,
    /// When the executor was last told how far it is.
    told: Instant,
    task: AbortHandle,
}

/// What became of the items.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// The items that failed, and why.
    pub(super) failed: HashMap<usize, String>,
    pub(super) was_stopped: bool,
    /// Who sent which bytes of each object.
    pub(super) served: Vec<Served>,
}

/// Bytes of an object that a server sent.
#[derive(Clone, Debug)]
pub(super) struct Served {
    pub(super) object: usize,
    pub(super) server: usize,
    pub(super) range: Range<u64>,
}

/// Totals for each server, for people.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    pub(super) bytes: u64,
    pub(super) n_failures: u64,
    pub(super) last_error: Option<String>,
}

/// Runs one plan to its end.
pub(super) struct Driver<'a> {
    pub(super) catalogue: Arc<Catalogue>,
    pub(super) items: &'a [Item],
    pub(super) sink: &'a mut Sink,
    pub(super) tallies: &'a mut [Tally],
    /// How long to wait for a server that is silent, or for one to come back.
    pub(super) patience: Duration,
    pub(super) limit: Limit,
    pub(super) stop: watch::Receiver<bool>,
    /// When the whole read began.
    pub(super) since: Instant,
    pub(super) watch: &'a mut (dyn FnMut(Happening<'_>) + Send),
}

impl Driver<'_> {
    /// Reads all items. Returns when each is written or has failed, or when it is stopped.
    pub(super) async fn run(self, planned: &Planned) -> io::Result<Outcome> {
        let (schedule, settings) = (&planned.decided.schedule, planned.decided.settings);
        let patience_ns = u64::try_from(self.patience.as_nanos()).unwrap_or(u64::MAX);
        let most_failures = most_failures(&planned.cluster);
        let settings = Settings { patience_ns, most_failures, ..settings };
        let executor = Executor::new(&planned.batch, &planned.cluster, schedule, settings, 0);
        let mut executor = executor.map_err(io::Error::other)?;
        executor.trace(MOST_DECISIONS);
        let (sender, receiver) = mpsc::channel(N_MESSAGES);
        let health = vec![Health::default(); self.tallies.len()];
        let slow_told = vec![None; self.tallies.len()];
        let mut run = Run {
            driver: self,
            health,
            executor,
            sender,
            receiver,
            begun: Instant::now(),
            receiving: HashMap::new(),
            slow_told,
            errors: HashMap::new(),
            outcome: Outcome::default(),
        };
        if schedule.transfers.is_empty() {
            run.arrive(&planned.batch).await?;
        }
        run.run().await?;
        Ok(run.outcome)
    }
}

/// How much each server has sent.
pub(super) fn progress(tallies: &[Tally]) -> Happening<'static> {
    let servers: Vec<u64> = tallies.iter().map(|tally| tally.bytes).collect();
    Happening::Progress { received: servers.iter().sum(), servers }
}

struct Run<'a> {
    driver: Driver<'a>,
    health: Vec<Health>,
    executor: Executor,
    sender: mpsc::Sender<Message>,
    receiver: mpsc::Receiver<Message>,
    begun: Instant,
    receiving: HashMap<TransferId, Receiving>,
    /// When it was last told that a server is slow.
    slow_told: Vec<Option<Instant>>,
    /// The last error of each item.
    errors: HashMap<usize, String>,
    outcome: Outcome,
}

impl Run<'_> {
    async fn run(&mut self) -> io::Result<()> {
        self.tell(Event::Wake).await?;
        let mut tick = tokio::time::interval(TICK);
        while !self.executor.is_idle() {
            self.give_chances().await?;
            let wake_at = self.executor.wake_at().map(|at_ns| self.begun + Duration::from_nanos(at_ns));
            let back_at = self.health.iter().filter_map(Health::back_at).min();
            let wake_at = [wake_at, back_at].into_iter().flatten().min();
            let wake_at = wake_at.unwrap_or_else(|| Instant::now() + self.driver.patience);
            // In this order: those that are ready now and then come before those that may always be ready.
            let next = tokio::select! {
                biased;
                () = stopped(&mut self.driver.stop) => Next::Stop,
                _ = tick.tick() => Next::Tick,
                () = tokio::time::sleep_until(wake_at) => Next::Wake,
                proceeded = self.driver.sink.proceed(), if self.driver.sink.is_busy() => Next::Proceeded(proceeded),
                message = self.receiver.recv() => message.map_or(Next::Wake, Next::Message),
            };
            match next {
                Next::Message(message) => self.on_message(message).await?,
                Next::Wake => self.tell(Event::Wake).await?,
                Next::Tick => {
                    self.driver.sink.flush()?;
                    (self.driver.watch)(progress(self.driver.tallies));
                }
                Next::Proceeded(proceeded) => drop(proceeded?),
                Next::Stop => {
                    self.outcome.was_stopped = true;
                    break;
                }
            }
        }
        // What has arrived is kept for the next time.
        for transfer in self.receiving.keys().copied().collect::<Vec<_>>() {
            self.keep(transfer, Ending::Stopped, None).await?;
        }
        Ok(())
    }

    /// Lets all items arrive, for a policy that plans nothing.
    async fn arrive(&mut self, batch: &Batch) -> io::Result<()> {
        for row in 0..batch.n_requests() {
            let (request, client, blocks) = (RequestId(row as u64), batch.client(row), batch.blocks(row));
            let replicas = batch.replicas().of(row);
            self.tell(Event::Arrived { request, client, blocks, replicas }).await?;
        }
        Ok(())
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    async fn on_message(&mut self, message: Message) -> io::Result<()> {
        match message {
            Message::Chunk(transfer, chunk) => {
                // It may have been broken off while the chunk was under way.
                let Some(receiving) = self.receiving.get_mut(&transfer) else { return Ok(()) };
                receiving.received += chunk.len() as u64;
                self.driver.tallies[receiving.server].bytes += chunk.len() as u64;
                receiving.held += chunk.len() as u64;
                receiving.chunks.push(chunk);
                if receiving.held >= MOST_HELD {
                    self.write(transfer).await?;
                }
                let Some(receiving) = self.receiving.get_mut(&transfer) else { return Ok(()) };
                if receiving.told.elapsed() < TOLD_EVERY {
                    return Ok(());
                }
                receiving.told = Instant::now();
                let blocks = fixed(receiving.received);
                self.tell(Event::Progress { transfer, blocks }).await
            }
            Message::End(transfer, Ok(())) => {
                let Some(receiving) = self.receiving.get(&transfer) else { return Ok(()) };
                self.health[receiving.server] = Health::default();
                self.keep(transfer, Ending::Done, None).await?;
                self.tell(Event::Done { transfer }).await
            }
            Message::End(transfer, Err(error)) => {
                let Some(receiving) = self.receiving.get_mut(&transfer) else { return Ok(()) };
                let (item, server) = (receiving.item, receiving.server);
                let cause = cause(&error.problem);
                if cause == Cause::Damaged {
                    receiving.chunks.clear();
                    receiving.held = 0;
                    let range = receiving.offset..receiving.offset + receiving.received;
                    self.driver.sink.take_back(self.driver.items[item].object, range).await?;
                }
                let tally = &mut self.driver.tallies[server];
                (tally.n_failures, tally.last_error) = (tally.n_failures + 1, Some(error.to_string()));
                self.errors.insert(item, error.to_string());
                self.keep(transfer, Ending::Failed, Some(&error.to_string())).await?;
                self.tell(Event::Failed { transfer, cause }).await?;
                if matches!(cause, Cause::Unreachable | Cause::TimedOut) {
                    self.blame(server).await?;
                }
                Ok(())
            }
            Message::Planned(plan) => self.tell(Event::Planned { plan: &plan }).await,
        }
    }

    /// A transfer failed. Once too many have, the server is left alone for a while.
    async fn blame(&mut self, server: usize) -> io::Result<()> {
        if !self.health[server].fails(self.driver.patience / 2, MOST_CHANCES) {
            return Ok(());
        }
        let Driver { catalogue, tallies, watch, .. } = &mut self.driver;
        let why = tallies[server].last_error.as_deref().unwrap_or_default().into();
        watch(Happening::Down { server: catalogue.servers()[server].as_str().into(), why });
        self.tell(Event::ServerDown { server: ServerId(server as u32) }).await
    }

    /// Tries servers again that were left alone for long enough.
    async fn give_chances(&mut self) -> io::Result<()> {
        for server in 0..self.health.len() {
            if self.health[server].revive() {
                let Driver { catalogue, watch, .. } = &mut self.driver;
                watch(Happening::Up { server: catalogue.servers()[server].as_str().into() });
                self.tell(Event::ServerUp { server: ServerId(server as u32) }).await?;
            }
        }
        Ok(())
    }

    /// Tells the executor what happened, and does what it decides.
    async fn tell(&mut self, event: Event<'_>) -> io::Result<()> {
        let mut actions = Vec::new();
        self.executor.on_event(self.now_ns(), event, &mut actions).map_err(io::Error::other)?;
        for decision in self.executor.take_decisions() {
            self.decided(&decision);
        }
        for action in actions {
            match action {
                Action::Start { transfer, request, server, offset, blocks, is_hedge, .. } => {
                    self.start(transfer, request, server, offset, blocks, is_hedge);
                }
                Action::Withdraw { transfer } => self.keep(transfer, Ending::Withdrawn, None).await?,
                Action::Plan { .. } => self.plan(),
                Action::Fail { request, reason } => {
                    let item = request.0 as usize;
                    let why = self.errors.remove(&item).unwrap_or_else(|| reason.to_string());
                    self.outcome.failed.insert(item, why);
                }
                Action::Deliver { .. } | Action::Report { .. } => {}
            }
        }
        Ok(())
    }

    /// Tells who watches about a decision of the executor.
    fn decided(&mut self, decision: &Decision) {
        let Driver { catalogue, items, since, watch, .. } = &mut self.driver;
        let name = |server: ServerId| Cow::Borrowed(catalogue.servers()[server.index()].as_str());
        let (request, server, why) = match decision.what {
            Decided::Queued { request, server } => (request, server, Choosing::Queued),
            Decided::Started { request, server } => (request, server, Choosing::Free),
            Decided::Hedged { request, server, late_at, .. } => {
                let told = self.slow_told[late_at.index()].replace(Instant::now());
                if told.is_none_or(|told| told.elapsed() > SLOW_TOLD_EVERY) {
                    watch(Happening::Slow { server: name(late_at) });
                }
                (request, server, Choosing::Late)
            }
            Decided::PlannedAnew { number, present_end_ns, new_end_ns } => {
                // The one who watches counts from the beginning of the whole read.
                let since = (self.begun - *since).as_secs_f64();
                let seconds = |ns: u64| since + Duration::from_nanos(ns).as_secs_f64();
                let (would_end, ends) = (seconds(present_end_ns), seconds(new_end_ns));
                return watch(Happening::PlannedAnew { number, would_end, ends });
            }
        };
        let Item { object, range, .. } = &items[request.0 as usize];
        let candidates = decision.candidates.iter().map(|candidate| happening::Candidate {
            server: name(candidate.server),
            wait: Duration::from_nanos(candidate.wait_ns).as_secs_f64(),
            // A block is a byte.
            rate: 1e9 / (candidate.pace_ns.max(1) as f64),
        });
        let (key, candidates) = (catalogue.key(*object).into(), candidates.collect());
        watch(Happening::Chose { key, from: range.start, server: name(server), why, candidates });
    }

    fn start(
        &mut self,
        transfer: TransferId,
        request: RequestId,
        server: ServerId,
        offset: Fixed,
        blocks: Fixed,
        is_hedge: bool,
    ) {
        let item = request.0 as usize;
        let Driver { items, catalogue, watch, .. } = &mut self.driver;
        let Item { object, range, .. } = &items[item];
        let (offset, bytes, server) = (range.start + offset.floor(), blocks.floor(), server.index());
        watch(Happening::Start {
            transfer: transfer.0,
            server: catalogue.servers()[server].as_str().into(),
            key: catalogue.key(*object).into(),
            from: offset,
            to: offset + bytes,
            hedge: is_hedge,
        });
        let (catalogue, sender, object) = (Arc::clone(&self.driver.catalogue), self.sender.clone(), *object);
        let terms = Terms { patience: self.driver.patience, limit: self.driver.limit.clone() };
        let task = tokio::spawn(async move {
            let range = offset..offset + bytes;
            let result = receive(&catalogue, object, server, range, &terms, transfer, &sender).await;
            // Nobody listens once the run is over.
            let _ = sender.send(Message::End(transfer, result)).await;
        });
        let task = task.abort_handle();
        let (chunks, told, begun) = (Vec::new(), Instant::now(), Instant::now());
        let receiving =
            Receiving { item, server, offset, bytes, received: 0, chunks, held: 0, begun, told, task };
        self.receiving.insert(transfer, receiving);
    }

    /// Ends a transfer, and writes what it has received.
    async fn keep(&mut self, transfer: TransferId, result: Ending, why: Option<&str>) -> io::Result<()> {
        self.write(transfer).await?;
        if let Some(receiving) = self.receiving.remove(&transfer) {
            receiving.task.abort();
            let Driver { catalogue, watch, .. } = &mut self.driver;
            watch(Happening::End {
                transfer: transfer.0,
                server: catalogue.servers()[receiving.server].as_str().into(),
                bytes: receiving.received,
                seconds: receiving.begun.elapsed().as_secs_f64(),
                result,
                why: why.map(Into::into),
            });
            debug_assert!(receiving.received <= receiving.bytes);
        }
        Ok(())
    }

    /// Writes what a transfer has received since the last time.
    async fn write(&mut self, transfer: TransferId) -> io::Result<()> {
        let Some(receiving) = self.receiving.get_mut(&transfer) else { return Ok(()) };
        let chunks = std::mem::take(&mut receiving.chunks);
        let to = receiving.offset + receiving.received;
        let at = to - std::mem::take(&mut receiving.held);
        let object = self.driver.items[receiving.item].object;
        if !chunks.is_empty() {
            self.outcome.served.push(Served { object, server: receiving.server, range: at..to });
            self.driver.sink.write(object, at, chunks).await?;
        }
        Ok(())
    }

    /// Plans on another thread, while transfers go on.
    fn plan(&mut self) {
        let Some(snapshot) = self.executor.snapshot() else { return };
        let sender = self.sender.clone();
        tokio::spawn(async move {
            if let Ok(plan) = spawn_blocking(|| Snapshot::plan(snapshot)).await {
                let _ = sender.send(Message::Planned(plan)).await;
            }
        });
    }
}

/// The terms of a transfer: how long to wait for its server, and how much it may receive.
struct Terms {
    patience: Duration,
    limit: Limit,
}

/// Reads a range and passes it on as it comes. A server that sends next to nothing for as long as the patience lasts has
/// timed out, whether it is silent or trickles.
async fn receive(
    catalogue: &Catalogue,
    object: usize,
    server: usize,
    range: Range<u64>,
    Terms { patience, limit }: &Terms,
    transfer: TransferId,
    sender: &mpsc::Sender<Message>,
) -> Result<(), StoreError> {
    let known = catalogue.object(object);
    let timed_out =
        || StoreError { address: catalogue.servers()[server].clone(), problem: Problem::TimedOut };
    let (patience, mut left) = (*patience, range.end - range.start);
    let body = timeout(patience, catalogue.read(&known, server, range)).await;
    let mut body = body.map_err(|_| timed_out())??;
    let (mut since, mut received) = (Instant::now(), 0);
    while let Some(chunk) = timeout(patience, body.next()).await.map_err(|_| timed_out())? {
        let chunk = chunk?;
        received += chunk.len();
        left = left.saturating_sub(chunk.len() as u64);
        // Its server is not to blame for that.
        since += limit.wait(chunk.len()).await;
        // Nobody listens once the run is over.
        let _ = sender.send(Message::Chunk(transfer, chunk)).await;
        if since.elapsed() >= patience {
            // What is complete is not late.
            if received < TRICKLE && left > 0 {
                return Err(timed_out());
            }
            (since, received) = (Instant::now(), 0);
        }
    }
    Ok(())
}

/// How many transfers of a request may fail: as many as all servers together can let down before they are given up, so
/// that dead mirrors never cost what another one has.
fn most_failures(cluster: &Cluster) -> u32 {
    let of_server =
        |server: &Server| MOST_IN_A_ROW.saturating_add(server.slots.saturating_mul(MOST_CHANCES + 1));
    cluster.servers().iter().map(of_server).fold(0, u32::saturating_add)
}

fn fixed(bytes: u64) -> Fixed {
    Fixed::from_nanos(u128::from(bytes) * 1_000_000_000).unwrap_or(Fixed::ZERO)
}

/// What a problem of a server means for its transfer.
fn cause(problem: &Problem) -> Cause {
    match problem {
        Problem::Unreachable(_) | Problem::Failed(_) | Problem::Io(_) => Cause::Unreachable,
        Problem::TimedOut => Cause::TimedOut,
        // None of these gets better by asking again.
        Problem::NotFound | Problem::Changed | Problem::Denied(_) | Problem::Unsupported(_) => Cause::NotHeld,
        Problem::Damaged(_) => Cause::Damaged,
        Problem::Refused { retry_after } => {
            let ns = retry_after.unwrap_or(Duration::from_secs(1)).as_nanos();
            Cause::Refused { retry_after_ns: u64::try_from(ns).unwrap_or(u64::MAX) }
        }
    }
}
