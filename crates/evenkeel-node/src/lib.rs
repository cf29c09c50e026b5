//! Live processes. So far the client: it reads data sets from real storage by a plan.
//!
//! The state machines of the crate `evenkeel` make all decisions. This crate has what they lack: sockets, files and a
//! clock.

mod client;

pub use client::{
    Failure, GetError, Measurement, Options, Probing, Progress, Report, ServerReport, get, measure,
};
