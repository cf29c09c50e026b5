//! Evenkeel's core. Given which servers hold which data and which clients want it, it decides from **which replica**
//! each request is served and in **which order**, so that the job ends as early as can be proved possible.
//!
//! The crate is pure: no I/O, no clock, no threads, no global randomness. Each question has its own module:
//!
//! * [`model`] – the batch, its choice of replicas and its schedule: plain flat data.
//! * [`assign`] – which process does each task, close to its data.
//! * [`select`] – which replica serves each request.
//! * [`order`] – when each transfer starts.
//! * [`bid`] – how clients and servers agree on both without a coordinator.
//! * [`queue`] – in which order a server serves the requests of collective I/O.
//! * [`place`] – where a write goes.
//! * [`observe`] – what clients know about servers, from what they sent and what servers report.
//! * [`redirect`] – which bytes are not at their default server.
//! * [`run`] – carries out a plan, whatever happens on the way, and picks servers as requests arrive.
//! * [`bound`] – how early any plan could end, with the proof.
//! * [`explain`] – what the bottleneck is, and what would help.
//! * [`check`] – re-verifies a plan and its proof from scratch.
//! * [`workload`] – seeded batches to plan: uniform, hot spots, chains.
//! * [`policy`] – the table of all policies by name.
//! * [`Heap`] – a heap whose keys can change, which the simulator uses too.
//!
//! # Plan, check, explain
//!
//! ```
//! use evenkeel::model::{BatchBuilder, Cluster};
//! use evenkeel::plan::{Options, plan};
//! use evenkeel::{check, explain, select};
//!
//! let mut batch = BatchBuilder::new();
//! batch.request("c0", 3, &["s0", "s1"])?; // client, blocks, who holds a copy
//! batch.request("c1", 2, &["s0"])?;
//! let batch = batch.finish();
//! let cluster = Cluster::equal(&batch);
//! let plan = plan(&batch, &cluster, &Options::default())?;
//! let measures = check::plan(&batch, &cluster, &plan.ordered.schedule.transfers, true)?;
//! assert!(plan.is_optimal() && measures.length == plan.bound.value); // three slots, and no plan has fewer
//! let advice = explain::explain(&batch, &cluster, select::Goal::Length);
//! assert_eq!(advice.bound.value, plan.bound.value);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # State machines
//!
//! Everything that lives over time is a state machine that owns its data: events in, actions out. The driver has the
//! clock and the sockets. An event that does not fit is refused and changes nothing. The programs under `examples/`
//! named below drive them.
//!
//! The first four can be watched: `counts` has the numbers for a dashboard, and `trace` keeps the latest decisions, each
//! with the candidates and their figures. It is off at first, and costs next to nothing then.
//!
//! | state machine | what it does | example |
//! |---|---|---|
//! | [`run::Executor`] | carries out a plan, serves new arrivals, retries, hedges, replans | `execute` |
//! | [`bid::client::Client`], [`bid::server::Server`] | agree on replicas and order without a coordinator | `bid` |
//! | [`assign::opass_dynamic::Guided`] | gives processes one task after another, close to its data | `guide` |
//! | [`place::Placer`] | decides where writes go, window by window | `place` |
//! | [`queue::Queue`] | decides which request a server serves next | |
//! | [`redirect::RedirectTable`] | knows which bytes are not at their default server | |

pub mod assign;
pub mod bid;
pub mod bound;
pub mod check;
pub mod draw;
pub mod explain;
mod graph;
pub mod lead;
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
mod trace;
pub mod workload;

pub use graph::sets::heap::Heap;

/// The example in the README, included here so that it is compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
