//! How machines that outlive a batch are stored: plain data, with the version of its layout.

/// The version of snapshots that this crate writes and reads.
pub const SNAPSHOT_VERSION: u32 = 1;

/// The stored data cannot be the state of such a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum BadSnapshot {
    #[error(
        "the snapshot has version {0}, but this program reads version {SNAPSHOT_VERSION}; use a matching program"
    )]
    Version(u32),
    #[error("the snapshot is damaged: it has {0}; restore an intact one")]
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
