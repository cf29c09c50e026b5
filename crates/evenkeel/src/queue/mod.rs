//! In which order does a server serve the requests of collective I/O? Paper 002.
//!
//! In two-phase collective I/O some processes of an application, its aggregators, read large pieces from the
//! servers and then *shuffle* them: each sends every process its part. An application is done when all its
//! aggregators are. So servers should first serve what has the longest shuffle ahead.
//!
//! * [`shuffle`] – how long a shuffle takes, and how long a request can wait for another of its application
//!   (§III.A, B).
//! * [`Collective`] – a whole problem, and when its applications complete under given orders.
//! * [`nio`], [`sio`], [`hio`] – the paper's policies (§III.C, §VI.A); [`edd`] – those that keep what the
//!   paper promises.
//! * [`discipline`] – the same policies as queues that a server runs, request by request.
//! * [`formulas`] – the analytic model (§IV).
//!
//! Times are whole nanoseconds, or billionths of whatever the unit is; sums have 128 bits and cannot
//! overflow.

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

/// What policies have to know beside the requests.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// When an application counts as done.
    pub model: Model,
    /// HIO looks at shuffles only if they take more than this share of the reads.
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
    /// Whether it looks at [`Options::threshold`].
    pub has_threshold: bool,
    /// The order on every server, all requests being known.
    pub order: fn(&Collective, &Options) -> Orders,
    /// The same as an empty queue of one server.
    pub queue: fn(&Options) -> Box<dyn Queue>,
}
