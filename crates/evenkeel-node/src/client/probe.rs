//! Measures how fast servers are by reading a part of what is needed anyway.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use evenkeel_store::{Catalogue, Problem, StoreError};
use futures_util::StreamExt;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::limit::Limit;
use super::work::Item;

/// What a server did while it was measured.
#[derive(Debug, Default)]
pub(super) struct Measured {
    /// Bytes per second; `None` if it sent nothing.
    pub(super) rate: Option<u64>,
    /// The ranges that were read, from the beginning of each item: item and chunks.
    pub(super) received: Vec<(usize, Vec<Bytes>)>,
    pub(super) error: Option<StoreError>,
}

/// Items that nobody reads yet.
#[derive(Debug)]
struct Unclaimed {
    of_server: Vec<Vec<usize>>,
    is_claimed: Vec<bool>,
}

impl Unclaimed {
    fn new(n_servers: usize, items: &[Item]) -> Self {
        let mut of_server = vec![Vec::new(); n_servers];
        // The last is taken first.
        for (number, item) in items.iter().enumerate().rev() {
            item.servers.iter().for_each(|&server| of_server[server].push(number));
        }
        Self { of_server, is_claimed: vec![false; items.len()] }
    }

    fn claim(&mut self, server: usize) -> Option<usize> {
        while let Some(item) = self.of_server[server].pop() {
            if !std::mem::replace(&mut self.is_claimed[item], true) {
                return Some(item);
            }
        }
        None
    }
}

/// Reads from all servers at once for about this time, `slots` transfers at each of them. No byte is read twice.
pub(super) async fn probe(
    catalogue: &Arc<Catalogue>,
    items: &Arc<Vec<Item>>,
    slots: &[u32],
    window: Duration,
    limit: &Limit,
) -> Vec<Measured> {
    let n_servers = catalogue.servers().len();
    let unclaimed = Arc::new(Mutex::new(Unclaimed::new(n_servers, items)));
    let begun = Instant::now();
    let mut tasks = JoinSet::new();
    for (server, &slots) in slots.iter().enumerate() {
        for _ in 0..slots {
            let (catalogue, items, unclaimed) =
                (Arc::clone(catalogue), Arc::clone(items), Arc::clone(&unclaimed));
            let limit = limit.clone();
            tasks.spawn(async move {
                let mut received: Vec<(usize, Vec<Bytes>)> = Vec::new();
                let claim = || unclaimed.lock().unwrap_or_else(PoisonError::into_inner).claim(server);
                let keep = |item: usize, chunk: Bytes| match received.last_mut() {
                    Some((last, chunks)) if *last == item => chunks.push(chunk),
                    _ => received.push((item, vec![chunk])),
                };
                let sampling =
                    Sampling { catalogue: &catalogue, items: &items, server, begun, window, limit };
                let error = sampling.run(claim, keep).await.err();
                if error.as_ref().is_some_and(|error| matches!(error.problem, Problem::Damaged(_))) {
                    // The last item is the one that turned out damaged.
                    received.pop();
                }
                (server, received, begun.elapsed(), error)
            });
        }
    }
    let mut measured: Vec<Measured> = (0..n_servers).map(|_| Measured::default()).collect();
    while let Some(done) = tasks.join_next().await {
        let Ok((server, received, took, error)) = done else { continue };
        let measured = &mut measured[server];
        let bytes: usize = received.iter().flat_map(|(_, chunks)| chunks).map(Bytes::len).sum();
        if bytes > 0 {
            // Each slot for itself: they need not end together.
            let rate = (bytes as f64 / took.as_secs_f64().max(1e-6)) as u64;
            measured.rate = Some(measured.rate.unwrap_or(0) + rate.max(1));
        }
        measured.received.extend(received);
        measured.error = error.or(measured.error.take());
    }
    measured
}

/// Reads from one server until the time is over.
pub(super) struct Sampling<'a> {
    pub(super) catalogue: &'a Catalogue,
    pub(super) items: &'a [Item],
    pub(super) server: usize,
    pub(super) begun: Instant,
    pub(super) window: Duration,
    pub(super) limit: Limit,
}

impl Sampling<'_> {
    /// Reads the next items, and passes on what comes with the item it is of.
    pub(super) async fn run(
        &self,
        mut next: impl FnMut() -> Option<usize>,
        mut keep: impl FnMut(usize, Bytes),
    ) -> Result<(), StoreError> {
        while self.begun.elapsed() < self.window
            && let Some(item) = next()
        {
            self.read(&self.items[item], |chunk| keep(item, chunk)).await?;
        }
        Ok(())
    }

    /// Reads an item, or its beginning if the time is over and the rest would take long.
    async fn read(&self, item: &Item, mut keep: impl FnMut(Bytes)) -> Result<(), StoreError> {
        let Self { catalogue, server, begun, window, .. } = *self;
        let object = catalogue.object(item.object);
        let (mut received, started) = (0_u64, Instant::now());
        let bytes = item.range.end - item.range.start;
        let body = catalogue.read(&object, server, item.range.clone());
        let give_up_at = begun + window * 3;
        let Ok(body) = tokio::time::timeout_at(give_up_at, body).await else { return Ok(()) };
        let mut body = body?;
        while let Ok(Some(chunk)) = tokio::time::timeout_at(give_up_at, body.next()).await {
            let chunk = chunk?;
            received += chunk.len() as u64;
            self.limit.wait(chunk.len()).await;
            keep(chunk);
            let rest = started.elapsed().mul_f64((bytes - received) as f64 / received.max(1) as f64);
            if begun.elapsed() > window && rest > window / 2 {
                break;
            }
        }
        Ok(())
    }
}
