//! In which slot each transfer takes place, once the replicas are chosen.

pub mod colour;
mod lanes;
pub mod lddf_slots;
pub mod rounds;
