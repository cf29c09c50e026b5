//! The plain data that every room uses: batches, choices of replicas, schedules.
//!
//! Ids are dense `u32` newtypes, loads and sizes are `u64` blocks, and a batch of a million requests is a handful of
//! arrays. Names are interned once, when the batch is built. Every batch that [`BatchBuilder::finish`] returns is
//! valid, so no room has to check it again.

mod batch;
mod cluster;
mod columns;
mod members;
mod names;
mod number;
mod plan;
mod snapshot;
mod steps;

pub use batch::{Batch, BatchBuilder, ExtraCopy, MAX_REPLICAS, MAX_REQUESTS, ModelError, Move, Replicas};
pub use cluster::{Client, Cluster, MAX_SLOTS, Server, Speed};
pub use columns::Details;
pub use members::{MemberId, Members};
pub use names::{NameTable, shown};
pub(crate) use number::gcd;
pub use number::{Fixed, Ratio};
pub use plan::{Choice, Grant, Part, Schedule, Transfer};
pub use snapshot::{BadSnapshot, SNAPSHOT_VERSION};
pub use steps::{Step, steps};

/// Index of a client in its batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(pub u32);

/// Index of a server in its batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerId(pub u32);

impl ClientId {
    /// The id as an array index.
    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl ServerId {
    /// The id as an array index.
    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}
