//! Reads a data set by a plan: from the replica and in the order that it chose, planned anew when a server turns out to
//! be slow or dies.

mod destination;
mod driver;
mod get;
mod happening;
mod journal;
mod limit;
mod measure;
mod parts;
mod pieces;
mod policy;
mod probe;
mod ranges;
mod ranks;
mod sink;
mod verify;
mod work;

pub use get::{Failure, GetError, KnownServer, Options, Report, ServerReport, get, get_while_listing};
pub use happening::{Candidate, Choosing, Ending, FORMAT, Happening, Line, Share};
pub use measure::{Measurement, Probing, measure};
pub use parts::{Part, PartError, PartReport, read_part};
pub use policy::{NotPlanned, Undrivable, drives};
pub use ranks::Rank;
pub use verify::{Verification, verify};
