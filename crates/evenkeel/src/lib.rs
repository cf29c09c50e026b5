//! Evenkeel's core: given which servers hold which data and who wants it, decide from **which replica**
//! each request is served and in **which order**, so that the job ends as early as can be proved possible.
//!
//! The crate is pure: no I/O, no clock, no threads, no global randomness. Each question has its room:
//!
//! * [`model`] – the batch, its choice of replicas, its schedule: plain flat data.
//! * [`assign`] – which process does each task, near its data.
//! * [`select`] – which replica serves each request.
//! * [`order`] – when each transfer starts.
//! * [`bid`] – how clients and servers agree on both without a centre.
//! * [`queue`] – in which order a server serves the requests of collective I/O.
//! * [`place`] – where a write goes.
//! * [`observe`] – what clients know of servers from what they sent and what is reported.
//! * [`redirect`] – which bytes are not at their default server.
//! * [`run`] – carries a plan out, whatever happens on the way; and picks servers as requests arrive.
//! * [`bound`] – how early any plan could end, with the proof.
//! * [`explain`] – what limits, and what would help.
//! * [`check`] – re-verifies a plan and its proof from scratch.
//! * [`workload`] – seeded batches to plan: uniform, hot spots, chains.
//! * [`policy`] – the table of all policies by name.
//!
//! ```
//! use evenkeel::model::{BatchBuilder, Cluster, Ratio};
//! use evenkeel::{order, select};
//!
//! let mut batch = BatchBuilder::new();
//! for replicas in [["s0", "s1"], ["s0", "s1"], ["s0", "s2"]] {
//!     batch.request("c0", 1, &replicas)?;
//! }
//! let batch = batch.finish();
//! let cluster = Cluster::equal(&batch);
//! let (choice, bound) = select::optimal::select(&batch, &cluster, select::Goal::Length);
//! let schedule = order::colour::order(&batch, &cluster, &choice);
//! assert_eq!(schedule.length, bound.value);
//! assert_eq!(bound.value, Ratio::from(3)); // the one client takes three slots
//! # Ok::<(), evenkeel::model::ModelError>(())
//! ```

pub mod assign;
pub mod bid;
pub mod bound;
pub mod check;
pub mod draw;
pub mod explain;
mod graph;
pub mod model;
pub mod observe;
pub mod order;
pub mod place;
pub mod plan;
pub mod policy;
pub mod queue;
pub mod redirect;
pub mod run;
pub mod select;
pub mod workload;

/// The example in the README, so that it is compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
