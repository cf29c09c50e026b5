//! Reads a data set by a plan: from the replica and in the order that it chose, planned anew when a server turns out to
//! be slow or dies.

mod destination;
mod driver;
mod get;
mod journal;
mod measure;
mod pieces;
mod probe;
mod ranges;
mod sink;
mod work;

pub use get::{Failure, GetError, Options, Progress, Report, ServerReport, get};
pub use measure::{Measurement, Probing, measure};
