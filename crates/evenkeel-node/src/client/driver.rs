//! Drives the executor with real transfers: what it decides is done, what happens is told.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use evenkeel::model::{Fixed, ServerId};
use evenkeel::run::{Action, Cause, Event, Executor, NewPlan, RequestId, Settings, Snapshot, TransferId};
use evenkeel_store::{Catalogue, Problem, StoreError};
use futures_util::StreamExt;
use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, spawn_blocking};

use super::sink::{Sink, Target};
use super::work::{BYTE_NS, Item, Planned};

/// Messages that may wait for the driver. Transfers wait when there are more, and so do their servers.
const N_MESSAGES: usize = 64;
/// How often progress is shown and the journal written out.
const TICK: Duration = Duration::from_millis(100);
/// The share of all bytes that may be read twice because a transfer is late.
const HEDGED_SHARE: u64 = 20;

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
    Written(io::Result<bool>),
    Stop,
}

/// Waits until somebody wants to stop.
async fn stopped(stop: &mut watch::Receiver<bool>) {
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
    chunks: Vec<Bytes>,
    task: AbortHandle,
}

/// What became of the items.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// The items that failed, and why.
    pub(super) failed: HashMap<usize, String>,
    pub(super) was_stopped: bool,
    /// The servers of each object's bytes: object, server.
    pub(super) served: Vec<(usize, usize)>,
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
    /// By object; `None` where nothing is read.
    pub(super) targets: &'a [Option<Target>],
    pub(super) sink: &'a mut Sink,
    pub(super) tallies: &'a mut [Tally],
    pub(super) stop: watch::Receiver<bool>,
    pub(super) show: &'a mut (dyn FnMut(&[Tally]) + Send),
}

impl Driver<'_> {
    /// Reads all items. Returns when each is written or has failed, or when it is stopped.
    pub(super) async fn run(self, planned: &Planned) -> io::Result<Outcome> {
        let total: u64 = planned.batch.total_blocks();
        let settings = Settings {
            block_ns: BYTE_NS,
            keeps_order: false,
            hedge_blocks: total / HEDGED_SHARE,
            ..Settings::default()
        };
        let executor = Executor::new(&planned.batch, &planned.cluster, &planned.schedule, settings, 0);
        let executor = executor.map_err(io::Error::other)?;
        let (sender, receiver) = mpsc::channel(N_MESSAGES);
        let mut run = Run {
            driver: self,
            executor,
            sender,
            receiver,
            begun: Instant::now(),
            receiving: HashMap::new(),
            errors: HashMap::new(),
            outcome: Outcome::default(),
        };
        run.run().await?;
        Ok(run.outcome)
    }
}

struct Run<'a> {
    driver: Driver<'a>,
    executor: Executor,
    sender: mpsc::Sender<Message>,
    receiver: mpsc::Receiver<Message>,
    begun: Instant,
    receiving: HashMap<TransferId, Receiving>,
    /// The last error of each item.
    errors: HashMap<usize, String>,
    outcome: Outcome,
}

impl Run<'_> {
    async fn run(&mut self) -> io::Result<()> {
        self.tell(Event::Wake).await?;
        let mut tick = tokio::time::interval(TICK);
        while !self.executor.is_idle() {
            let wake_at = self.executor.wake_at().map_or(self.begun + Duration::from_secs(3600), |at_ns| {
                self.begun + Duration::from_nanos(at_ns)
            });
            let next = tokio::select! {
                message = self.receiver.recv() => message.map_or(Next::Wake, Next::Message),
                () = tokio::time::sleep_until(wake_at.into()) => Next::Wake,
                _ = tick.tick() => Next::Tick,
                written = self.driver.sink.written(), if self.driver.sink.is_writing() => Next::Written(written),
                () = stopped(&mut self.driver.stop) => Next::Stop,
            };
            match next {
                Next::Message(message) => self.on_message(message).await?,
                Next::Wake => self.tell(Event::Wake).await?,
                Next::Tick => {
                    self.driver.sink.flush()?;
                    (self.driver.show)(self.driver.tallies);
                }
                Next::Written(written) => drop(written?),
                Next::Stop => {
                    self.outcome.was_stopped = true;
                    break;
                }
            }
        }
        // What has arrived is kept for the next time.
        for transfer in self.receiving.keys().copied().collect::<Vec<_>>() {
            self.keep(transfer).await?;
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
                receiving.chunks.push(chunk);
                let blocks = fixed(receiving.received);
                self.tell(Event::Progress { transfer, blocks }).await
            }
            Message::End(transfer, Ok(())) => {
                if self.receiving.contains_key(&transfer) {
                    self.keep(transfer).await?;
                    self.tell(Event::Done { transfer }).await?;
                }
                Ok(())
            }
            Message::End(transfer, Err(error)) => {
                let Some(receiving) = self.receiving.get_mut(&transfer) else { return Ok(()) };
                let (item, server) = (receiving.item, receiving.server);
                let cause = cause(&error.problem);
                if cause == Cause::Damaged {
                    receiving.chunks.clear();
                }
                let tally = &mut self.driver.tallies[server];
                (tally.n_failures, tally.last_error) = (tally.n_failures + 1, Some(error.to_string()));
                self.errors.insert(item, error.to_string());
                self.keep(transfer).await?;
                self.tell(Event::Failed { transfer, cause }).await
            }
            Message::Planned(plan) => self.tell(Event::Planned { plan: &plan }).await,
        }
    }

    /// Tells the executor what happened, and does what it decides.
    async fn tell(&mut self, event: Event<'_>) -> io::Result<()> {
        let mut actions = Vec::new();
        self.executor.on_event(self.now_ns(), event, &mut actions).map_err(io::Error::other)?;
        for action in actions {
            match action {
                Action::Start { transfer, request, server, offset, blocks, .. } => {
                    self.start(transfer, request, server, offset, blocks);
                }
                Action::Withdraw { transfer } => self.keep(transfer).await?,
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

    fn start(
        &mut self,
        transfer: TransferId,
        request: RequestId,
        server: ServerId,
        offset: Fixed,
        blocks: Fixed,
    ) {
        let item = request.0 as usize;
        let Item { object, range, .. } = &self.driver.items[item];
        let (offset, bytes, server) = (range.start + offset.floor(), blocks.floor(), server.index());
        let (catalogue, sender, object) = (Arc::clone(&self.driver.catalogue), self.sender.clone(), *object);
        let task = tokio::spawn(async move {
            let result = receive(&catalogue, object, server, offset..offset + bytes, transfer, &sender).await;
            // Nobody listens once the run is over.
            let _ = sender.send(Message::End(transfer, result)).await;
        });
        let task = task.abort_handle();
        let receiving = Receiving { item, server, offset, bytes, received: 0, chunks: Vec::new(), task };
        self.receiving.insert(transfer, receiving);
    }

    /// Ends a transfer, and writes what it has received.
    async fn keep(&mut self, transfer: TransferId) -> io::Result<()> {
        let Some(receiving) = self.receiving.remove(&transfer) else { return Ok(()) };
        receiving.task.abort();
        debug_assert!(receiving.received <= receiving.bytes);
        let object = self.driver.items[receiving.item].object;
        if receiving.chunks.is_empty() {
            return Ok(());
        }
        let Some(target) = &self.driver.targets[object] else { return Ok(()) };
        self.outcome.served.push((object, receiving.server));
        self.driver.sink.write(target, receiving.offset, receiving.chunks).await
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

/// Reads a range and passes it on as it comes.
async fn receive(
    catalogue: &Catalogue,
    object: usize,
    server: usize,
    range: std::ops::Range<u64>,
    transfer: TransferId,
    sender: &mpsc::Sender<Message>,
) -> Result<(), StoreError> {
    let mut body = catalogue.read(&catalogue.objects()[object], server, range).await?;
    while let Some(chunk) = body.next().await {
        // Nobody listens once the run is over.
        let _ = sender.send(Message::Chunk(transfer, chunk?)).await;
    }
    Ok(())
}

fn fixed(bytes: u64) -> Fixed {
    Fixed::from_nanos(u128::from(bytes) * 1_000_000_000).unwrap_or(Fixed::ZERO)
}

/// What a problem of a server means for its transfer.
fn cause(problem: &Problem) -> Cause {
    match problem {
        Problem::Unreachable(_) | Problem::Io(_) => Cause::Unreachable,
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
