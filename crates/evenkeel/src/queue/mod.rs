//! In which order does a server serve the requests of collective I/O? Paper 002.
//!
//! In two-phase collective I/O some processes of an application, its aggregators, read large pieces from the servers
//! and then *shuffle* them: each sends every process its part. An application is done when all its aggregators are. So
//! servers should first serve the requests with the longest shuffles still to come.
//!
//! * [`shuffle`] – how long a shuffle takes, and how long a request can wait for another of its application (§III.A,
//!   B).
//! * [`Collective`] – a whole problem, and when its applications complete under given orders.
//! * [`nio`], [`sio`], [`hio`] – the paper's policies (§III.C, §VI.A); [`edd`] – policies that keep what the paper
//!   promises.
//! * [`discipline`] – the same policies as queues that a server runs, request by request.
//! * [`formulas`] – the analytic model (§IV).
//!
//! Times are whole nanoseconds, or billionths of whatever the unit is. Sums have 128 bits and cannot overflow.

mod collective;
pub mod discipline;
pub mod edd;
pub mod formulas;
pub mod hio;
pub mod nio;
pub mod shuffle;
pub mod sio;

pub use collective::{AppId, Collective, Model, Orders, QueueError, Request, mean_ns};
pub use discipline::{Queue, Tagged};

use crate::model::Ratio;

/// Parameters of the policies besides the requests.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// When an application counts as done.
    pub model: Model,
    /// HIO considers shuffles only if they take more than this share of the reads.
    pub threshold: Ratio,
}

impl Default for Options {
    fn default() -> Self {
        Self { model: Model::NoBarrier, threshold: hio::threshold() }
    }
}

/// A policy in both its forms.
#[derive(Clone, Copy, Debug)]
pub struct Discipline {
    /// Whether it uses [`Options::threshold`].
    pub has_threshold: bool,
    /// The order on every server, if all requests are known.
    pub order: fn(&Collective, &Options) -> Orders,
    /// The policy as an empty queue of one server.
    pub queue: fn(&Options) -> Box<dyn Queue>,
}
