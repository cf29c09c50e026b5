//! Live processes. So far the client: it reads data sets from real storage by a plan.
//!
//! The state machines of the crate `evenkeel` make all decisions. This crate has what they lack: sockets, files and a
//! clock.

mod client;

pub use client::{
    Candidate, Choosing, Ending, FORMAT, Failure, GetError, Happening, Line, Measurement, NotPlanned,
    Options, Probing, Rank, Report, ServerReport, Share, Undrivable, Verification, drives, get, measure,
    verify,
};
