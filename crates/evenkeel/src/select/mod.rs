//! Which replica serves each request.
//!
//! Each policy is a file of its own; [`optimal`] is the one that comes with a proof.

pub mod aequi;
mod ease;
pub mod equi;
pub mod first;
pub mod lddf;
pub mod nearest;
pub mod opass_tenant;
pub mod optimal;
pub mod random;
pub mod replanned;
pub mod whole;

/// What an optimal selection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// The shortest schedule: server loads below the busiest client's blocks do not matter.
    Length,
    /// The least maximum server load.
    MaxLoad,
    /// Least in all norms at once: the maximum, the mean response time, the sum of squares (paper 000's and
    /// 001's measures have one common optimum, the optimal semi-matching).
    Mean,
}
