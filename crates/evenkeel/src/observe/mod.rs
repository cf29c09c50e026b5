//! What clients know about servers, from what they sent there and what servers report. Papers 003 and 004.
//!
//! * [`ServerLog`] – how much was sent to each server and is not known to be done (paper 004 §3.3).
//! * [`HeatMap`] – how many clients each server has, and when it was last chosen (paper 003 §4.6).
//! * [`speed`] – how fast each server is, and which are stragglers.
//! * [`Lateness`] – how many times longer than expected each server takes at the moment.
//!
//! All are state machines without a clock: callers report events and query the results. A report that does not fit is
//! refused as [`BadReport`] and changes nothing. Servers may join; a server that has joined keeps its number
//! ([`MemberId`]). What is known can be saved as plain data and restored.

mod exp;
mod fade;
mod heat;
mod lateness;
mod log;
mod pace;
pub mod speed;

pub use heat::{HeatMap, HeatSnapshot, Known, Warmth};
pub use lateness::Lateness;
pub use log::{Forget, LogSnapshot, ServerLog, SortKey, Unit, lowered};
pub(crate) use pace::{Pace, Recent};

use crate::model::MemberId;

/// A report that does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum BadReport {
    #[error("there is no server {server}, only {n_servers} servers; count them from 0")]
    UnknownServer { server: u32, n_servers: u32 },
    #[error(
        "server {server} already sent a later report, at {last_ns} ns rather than {at_ns} ns; ignore the earlier one"
    )]
    Late { server: u32, at_ns: u64, last_ns: u64 },
}

/// Refuses a server that does not exist.
fn known(server: MemberId, n_servers: usize) -> Result<usize, BadReport> {
    let is_known = server.index() < n_servers;
    is_known
        .then_some(server.index())
        .ok_or(BadReport::UnknownServer { server: server.0, n_servers: n_servers as u32 })
}
