//! The slot of each transfer, once the replicas are chosen.

mod classes;
pub mod colour;
mod copies;
pub mod hdf;
mod lanes;
pub mod lddf_slots;
pub mod ps;
pub mod rounds;
