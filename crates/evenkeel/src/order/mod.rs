//! In which slot each transfer takes place, once the replicas are chosen.

pub mod colour;
mod lanes;
