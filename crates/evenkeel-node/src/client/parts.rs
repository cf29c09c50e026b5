//! Reads single parts of objects, each from the server that the caller chose, for those who have a plan of their own.

use std::io;
use std::ops::Range;
use std::time::Duration;

use evenkeel_store::{Catalogue, CatalogueObject, Problem, StoreError};
use futures_util::StreamExt;
use tokio::time::{Instant, timeout};

/// Fewer bytes than this within the patience are as good as none.
const TRICKLE: usize = 1 << 14;
/// How often each server is asked before a part is given up: a connection may break without anybody's fault.
const ROUNDS: usize = 2;

/// A part of an object, and where to read it.
#[derive(Clone, Debug)]
pub struct Part {
    /// The object, counted in the catalogue.
    pub object: usize,
    /// Which bytes of it.
    pub range: Range<u64>,
    /// The server that is asked first, counted in the catalogue. It may hold a part of the range, or nothing.
    pub from: Option<usize>,
}

/// How a part was read.
#[derive(Debug, Default)]
pub struct PartReport {
    /// The servers that sent it, in order, and how many bytes each.
    pub servers: Vec<(usize, u64)>,
    /// Why servers did not send what they were asked for. Others then did.
    pub failures: Vec<StoreError>,
}

/// Why a part was not read.
#[derive(Debug, thiserror::Error)]
pub enum PartError {
    /// Nobody sends it. What has come before was passed on.
    #[error("{0}")]
    Unreadable(StoreError),
    /// What has come cannot be passed on.
    #[error("cannot write: {0}")]
    Sink(#[from] io::Error),
}

/// Reads a part and passes it on, in order, as it comes. If the chosen server fails or sends next to nothing for as long as
/// `patience` lasts, the rest comes from others that hold it.
pub async fn read_part(
    catalogue: &Catalogue,
    part: &Part,
    patience: Duration,
    sink: &mut dyn FnMut(&[u8]) -> io::Result<()>,
) -> Result<PartReport, PartError> {
    let object = catalogue.object(part.object);
    let (mut report, mut at) = (PartReport::default(), part.range.start);
    for end in catalogue.cuts(&object) {
        let end = end.min(part.range.end);
        if end > at {
            let reading =
                Reading { catalogue, object: &object, end, patience, sink: &mut *sink, report: &mut report };
            reading.all(&mut at, part.from).await?;
        }
    }
    if at < part.range.end {
        let address = catalogue.url(&object).to_owned();
        return Err(PartError::Unreadable(StoreError { address, problem: Problem::NotFound }));
    }
    Ok(report)
}

/// Reads bytes that the same servers hold.
struct Reading<'a> {
    catalogue: &'a Catalogue,
    object: &'a CatalogueObject,
    end: u64,
    patience: Duration,
    sink: &'a mut dyn FnMut(&[u8]) -> io::Result<()>,
    report: &'a mut PartReport,
}

impl Reading<'_> {
    async fn all(mut self, at: &mut u64, first: Option<usize>) -> Result<(), PartError> {
        let mut servers = self.catalogue.servers_of(self.object, &(*at..self.end));
        servers.sort_by_key(|server| Some(*server) != first);
        let address = self.catalogue.url(self.object).to_owned();
        let mut last = StoreError { address, problem: Problem::NotFound };
        for server in servers.repeat(ROUNDS) {
            let before = *at;
            let result = self.from(server, at).await;
            if *at > before {
                self.report.servers.push((server, *at - before));
            }
            match result {
                Err(PartError::Unreadable(error)) => {
                    self.report.failures.push(error.clone());
                    last = error;
                }
                other => return other,
            }
        }
        Err(PartError::Unreadable(last))
    }

    /// Reads on from one server, until it fails.
    async fn from(&mut self, server: usize, at: &mut u64) -> Result<(), PartError> {
        let timed_out = || {
            let address = self.catalogue.servers()[server].clone();
            PartError::Unreadable(StoreError { address, problem: Problem::TimedOut })
        };
        let body = timeout(self.patience, self.catalogue.read(self.object, server, *at..self.end)).await;
        let mut body = body.map_err(|_| timed_out())?.map_err(PartError::Unreadable)?;
        let (mut since, mut received) = (Instant::now(), 0);
        while let Some(chunk) = timeout(self.patience, body.next()).await.map_err(|_| timed_out())? {
            let chunk = chunk.map_err(PartError::Unreadable)?;
            let passing_on = Instant::now();
            (self.sink)(&chunk)?;
            *at += chunk.len() as u64;
            received += chunk.len();
            // Its server is not to blame for a reader who takes long.
            since += passing_on.elapsed();
            if since.elapsed() >= self.patience {
                if received < TRICKLE {
                    return Err(timed_out());
                }
                (since, received) = (Instant::now(), 0);
            }
        }
        Ok(())
    }
}
