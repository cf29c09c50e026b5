//! How machines that outlive a batch are stored: plain data, with the version of its layout.

/// The version of snapshots that this crate writes and reads.
pub const SNAPSHOT_VERSION: u32 = 1;

/// The stored data cannot be the state of such a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum BadSnapshot {
    #[error("the snapshot is of version {0}, and this program reads version {SNAPSHOT_VERSION}; upgrade it")]
    Version(u32),
    #[error("the snapshot has {0}; it was not kept as it was")]
    Impossible(&'static str),
}

impl BadSnapshot {
    pub(crate) fn unless(is_good: bool, what: &'static str) -> Result<(), Self> {
        if is_good { Ok(()) } else { Err(Self::Impossible(what)) }
    }

    pub(crate) fn unless_version(version: u32) -> Result<(), Self> {
        if version == SNAPSHOT_VERSION { Ok(()) } else { Err(Self::Version(version)) }
    }
}
