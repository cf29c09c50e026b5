//! Measures servers for later: what they send is thrown away.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use evenkeel_store::Catalogue;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::limit::Limit;
use super::probe::Sampling;
use super::ranges::Ranges;
use super::work::{self, Item};

/// Items that are read from a server, again and again if there are no more.
const MOST_ITEMS: usize = 10_000;

/// How to measure.
#[derive(Clone, Copy, Debug)]
pub struct Probing {
    /// Transfers at once from each server.
    pub slots: u32,
    /// The most bytes that are asked for at once.
    pub range_bytes: u64,
    /// How long.
    pub window: Duration,
    /// Whether each server has a turn of its own.
    pub one_by_one: bool,
}

/// What a server did.
#[derive(Clone, Debug)]
pub struct Measurement {
    /// Its name.
    pub name: String,
    /// The bytes that it sends in a second, by all slots together; `None` if it sent nothing.
    pub rate: Option<u64>,
    /// The bytes it sent.
    pub bytes: u64,
    /// Why it did not send more.
    pub error: Option<String>,
}

/// Reads from all servers of a data set for some time.
pub async fn measure(catalogue: &Arc<Catalogue>, probing: &Probing) -> Vec<Measurement> {
    let items = items(catalogue, probing.range_bytes.max(1));
    let mut of_server = vec![Vec::new(); catalogue.servers().len()];
    for (number, item) in items.iter().enumerate() {
        item.servers.iter().for_each(|&server| of_server[server].push(number));
    }
    let items = Arc::new(items);
    let measuring = (0..of_server.len()).zip(of_server).map(|(server, mine)| {
        let (catalogue, items, probing) = (Arc::clone(catalogue), Arc::clone(&items), *probing);
        async move { measure_one(catalogue, items, server, mine, &probing).await }
    });
    if probing.one_by_one {
        let mut measured = Vec::new();
        for one in measuring {
            measured.push(one.await);
        }
        return measured;
    }
    futures_util::future::join_all(measuring).await
}

/// Ranges to read: some of each server.
fn items(catalogue: &Catalogue, range_bytes: u64) -> Vec<Item> {
    let mut items = Vec::new();
    let mut n_of_server = vec![0; catalogue.servers().len()];
    for (object, known) in catalogue.objects().enumerate() {
        let is_wanted = catalogue
            .servers_of(&known, &(0..known.bytes.min(1)))
            .iter()
            .any(|&server| n_of_server[server] < MOST_ITEMS);
        if is_wanted {
            let first = items.len();
            work::cut(catalogue, object, &Ranges::default(), range_bytes, &mut items);
            items.truncate(first + MOST_ITEMS);
            for item in &items[first..] {
                item.servers.iter().for_each(|&server| n_of_server[server] += 1);
            }
        }
    }
    items
}

async fn measure_one(
    catalogue: Arc<Catalogue>,
    items: Arc<Vec<Item>>,
    server: usize,
    mine: Vec<usize>,
    probing: &Probing,
) -> Measurement {
    let (mine, turn, window) = (Arc::new(mine), Arc::new(AtomicUsize::new(0)), probing.window);
    let mut slots = JoinSet::new();
    let begun = Instant::now();
    for _ in 0..probing.slots {
        let (catalogue, items) = (Arc::clone(&catalogue), Arc::clone(&items));
        let (mine, turn) = (Arc::clone(&mine), Arc::clone(&turn));
        slots.spawn(async move {
            let mut bytes = 0;
            let next = || mine.get(turn.fetch_add(1, Ordering::Relaxed) % mine.len().max(1)).copied();
            let add = |_, chunk: bytes::Bytes| bytes += chunk.len() as u64;
            let limit = Limit::new(None);
            let sampling = Sampling { catalogue: &catalogue, items: &items, server, begun, window, limit };
            let result = sampling.run(next, add).await;
            (bytes, begun.elapsed(), result.err())
        });
    }
    let name = catalogue.servers()[server].clone();
    let mut measured = Measurement { name, rate: None, bytes: 0, error: None };
    while let Some(done) = slots.join_next().await {
        let Ok((bytes, took, error)) = done else { continue };
        measured.bytes += bytes;
        if bytes > 0 {
            // Each slot for itself: they need not end together.
            let rate = (bytes as f64 / took.as_secs_f64().max(1e-6)) as u64;
            measured.rate = Some(measured.rate.unwrap_or(0) + rate.max(1));
        }
        measured.error = measured.error.or(error.map(|error| error.to_string()));
    }
    if measured.bytes == 0 && measured.error.is_none() {
        measured.error = Some(match mine.is_empty() {
            true => format!("{}: it holds no data to be measured by", measured.name),
            false => format!("{}: it sent nothing in the time given", measured.name),
        });
    }
    measured
}
