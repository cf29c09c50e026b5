//! Writes objects into a cluster: where a policy says, with an entry where each object belongs.
//!
//! Every object has a home, which follows from its name. [`put`] sends data to the home or elsewhere, as the policy
//! decides by its own log of what was sent, what is done and how long it took. Bytes that are elsewhere are durable there
//! before the home is told, and the home is told before the object counts as written. Objects larger than a piece are cut
//! into pieces, each of which goes its own way. [`remove()`] deletes, and [`maintain()`] brings home what is elsewhere.

mod access;
mod content;
mod driver;
mod homes;
mod maintain;
mod places;
mod remove;

use std::path::PathBuf;
use std::time::Duration;

pub use content::{Content, FileContent};
pub use driver::put;
pub use maintain::{Maintained, Maintaining, Maintenance, buckets, maintain};
pub(crate) use maintain::{Maintainer, maintain_own};
pub use places::Placement;
pub use remove::{Removed, remove};

use std::sync::Arc;

use evenkeel::place::PlaceError;
use evenkeel_store::StoreError;
use evenkeel_store::cluster::{Held, Servers};

use access::Access;

/// An object to be written.
#[derive(Clone, Debug)]
pub struct Item {
    /// Its name in the bucket.
    pub key: String,
    /// Its bytes.
    pub content: Arc<dyn Content>,
}

/// How to write.
#[derive(Clone, Debug)]
pub struct PutOptions {
    /// Who decides where writes go.
    pub placement: Placement,
    /// Whether objects that are there with other content are replaced.
    pub overwrite: bool,
    /// Writes into objects from this byte on, in place of what is there. Objects that are not there are made, and read as zeros
    /// before it. With more than 256 pieces it is not one step.
    pub offset: Option<u64>,
    /// Writes that are placed together at most.
    pub window: usize,
    /// How long a write waits for others, and how much work is placed together at most.
    pub window_time: Duration,
    /// Larger objects are cut into pieces of this size.
    pub piece_bytes: u64,
    /// Copies of each object.
    pub replicas: u32,
    /// Transfers to each server at once.
    pub slots: usize,
    /// By how much lighter another server has to be than the home.
    pub threshold_bytes: u64,
    /// Whether servers are sorted again for each write, not once for each window.
    pub resort: bool,
    /// Whether the log learns what is done and how long it took. Without that it is the one of paper 004.
    pub completions: bool,
    /// Where the log is kept from run to run.
    pub log: Option<PathBuf>,
    /// Seed of all random choices.
    pub seed: u64,
}

impl PutOptions {
    /// The usual options with this policy.
    pub fn new(placement: Placement) -> Self {
        Self {
            placement,
            overwrite: false,
            offset: None,
            window: 200,
            window_time: Duration::from_millis(500),
            piece_bytes: 16 << 20,
            replicas: 1,
            slots: 4,
            threshold_bytes: 1 << 20,
            resort: false,
            completions: true,
            log: None,
            seed: 0,
        }
    }
}

/// What was written, and what was not.
#[derive(Clone, Debug, Default)]
pub struct PutReport {
    /// Objects that are there now because of this run.
    pub n_written: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Objects that were there already.
    pub n_kept: u64,
    /// Written objects without a copy at its home: an entry there says where it is.
    pub n_redirected: u64,
    /// Windows that were placed.
    pub n_windows: u64,
    /// How often servers were asked for their load.
    pub n_probes: u64,
    /// Pieces that could not be deleted. A maintainer collects them.
    pub n_left_behind: u64,
    /// Objects that were not written, and why.
    pub failures: Vec<PutFailure>,
    /// The servers, in the order of the cluster file.
    pub servers: Vec<PutServer>,
    /// How long it took.
    pub elapsed: Duration,
    /// Whether it was stopped before it was done.
    pub was_stopped: bool,
    /// Why the log of this run is not kept.
    pub log_error: Option<String>,
}

/// An object that was not written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PutFailure {
    /// Its name.
    pub key: String,
    /// Why.
    pub why: String,
}

/// What went to a server.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PutServer {
    /// Its name.
    pub name: String,
    /// Bytes.
    pub bytes: u64,
    /// Objects and pieces.
    pub n_pieces: u64,
    /// Those of them that have another home.
    pub n_away: u64,
    /// Bytes per second of one transfer, lately.
    pub speed: Option<f64>,
    /// Transfers that failed.
    pub n_failures: u64,
    /// The last of these failures.
    pub last_error: Option<String>,
}

/// How far a run is.
#[derive(Clone, Debug)]
pub struct PutProgress<'a> {
    /// Bytes that are written, or were there already.
    pub bytes: u64,
    /// Objects that are written, or were there already.
    pub n_objects: u64,
    /// What went to each server so far.
    pub servers: &'a [PutServer],
}

/// Why nothing can be written.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum PutError {
    #[error(transparent)]
    Place(#[from] PlaceError),
    #[error(
        "{name} asks servers for their load, which plain S3 endpoints such as {server} do not tell; choose another placement"
    )]
    CannotAsk { name: &'static str, server: String },
    #[error("{0} asks two servers for each object, so it cannot write copies; choose another placement")]
    AsksForOne(&'static str),
    #[error(
        "what has several copies cannot be written into: they could not be kept the same; write the whole object"
    )]
    IntoOne,
    #[error("{path}: {why}")]
    Log { path: String, why: String },
    #[error("no server of the cluster can be used: {0}")]
    NoServer(StoreError),
    #[error("cannot draw fresh names: {0}")]
    NoRandomness(std::io::Error),
    #[error("a part of the program has failed: {0}; this is a bug in evenkeel, please report it")]
    Internal(String),
}

/// Deletes pieces of an object that nothing names any more, if they say themselves that they are of it. Returns how many are
/// left.
pub(crate) async fn drop_pieces(servers: Arc<Servers>, bucket: &str, of: &str, pieces: &[Held]) -> usize {
    Access::new(servers, bucket, 1).drop_pieces(pieces, Some(of)).await
}
