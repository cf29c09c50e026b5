//! Reasons why a workload is refused.

use evenkeel::assign::{Unfit, WorkError};
use evenkeel::model::ModelError;
use evenkeel::place::PlaceError;

/// Why a workload is refused.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum Refused {
    #[error("`{policy}` does not decide {question}; use one of {fitting}")]
    OtherQuestion { policy: &'static str, question: &'static str, fitting: String },
    #[error("the cluster has no servers; add at least one")]
    NoServers,
    #[error("the cluster has no clients; add at least one")]
    NoClients,
    #[error("{copies} copies are out of range; use 1 to {n_servers}, the number of servers")]
    Copies { copies: u32, n_servers: usize },
    #[error("`{name}` is {given}; {wanted}")]
    Setting { name: &'static str, given: String, wanted: &'static str },
    #[error(transparent)]
    Work(#[from] WorkError),
    #[error(transparent)]
    Unfit(#[from] Unfit),
    #[error(transparent)]
    Place(#[from] PlaceError),
    #[error(transparent)]
    Model(#[from] ModelError),
}

impl Refused {
    /// The key of the workload that is to blame.
    pub(crate) fn key(&self) -> &'static str {
        match self {
            Self::Setting { name, .. } => name,
            Self::Copies { .. } => "copies",
            _ => "kind",
        }
    }

    /// Refuses zero copies, and more copies than there are servers.
    pub(crate) fn copies(copies: u32, n_servers: usize) -> Result<(), Self> {
        match n_servers {
            0 => Err(Self::NoServers),
            _ if copies == 0 || copies as usize > n_servers => Err(Self::Copies { copies, n_servers }),
            _ => Ok(()),
        }
    }
}
