//! What can go wrong with storage, as far as a caller can act on it.

use std::time::Duration;

/// An address, and what went wrong there.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{address}: {problem}")]
pub struct StoreError {
    /// Where: the address of an object, or of a source.
    pub address: String,
    /// What.
    pub problem: Problem,
}

/// What went wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The server cannot be reached, or the connection broke.
    #[error("cannot be reached: {0}")]
    Unreachable(String),
    /// The server is there, and could not do this.
    #[error("fails: {0}")]
    Failed(String),
    /// The server did not answer, or stopped sending.
    #[error("does not answer")]
    TimedOut,
    /// There is no such object.
    #[error("is not there")]
    NotFound,
    /// The object is no longer the one that was listed.
    #[error("has changed since it was listed; run the command again")]
    Changed,
    /// What the server sent cannot be the data.
    #[error("sent something else: {0}")]
    Damaged(String),
    /// The server wants other credentials.
    #[error("access is denied ({0}); check the credentials")]
    Denied(String),
    /// The server is busy.
    #[error("is busy")]
    Refused {
        /// How long it asks to be left alone, if it says so.
        retry_after: Option<Duration>,
    },
    /// The server cannot do what is needed.
    #[error("{0}")]
    Unsupported(String),
    /// A local file cannot be read or listed.
    #[error("{0}")]
    Io(String),
}

impl Problem {
    /// The problem at an address.
    pub fn at(self, address: impl Into<String>) -> StoreError {
        StoreError { address: address.into(), problem: self }
    }
}
