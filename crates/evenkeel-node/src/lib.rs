//! Live processes. So far the client, which reads data sets from real storage by a plan, and [`Balanced`], which reads
//! from mirrors below other programs.
//!
//! The state machines of the crate `evenkeel` make all decisions. This crate has what they lack: sockets, files and a
//! clock.

mod balanced;
mod client;
mod health;
pub mod lead;
pub mod node;
mod outside;
#[cfg(test)]
mod simulation;
pub mod write;

pub use balanced::{Balanced, BalancedOptions, MirrorReport};
pub use client::{
    Candidate, Choosing, Ending, FORMAT, Failure, GetError, Happening, KnownServer, Line, Measurement,
    NotPlanned, Options, Part, PartError, PartReport, Probing, Rank, Report, ServerReport, Share, Undrivable,
    Verification, drives, get, get_while_listing, measure, read_part, verify,
};
