//! Which replica serves each request.
//!
//! Each policy has its own file; [`optimal`] is the one that comes with a proof.

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

/// What an optimal selection optimises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// The shortest schedule: server loads below the busiest client's blocks do not matter.
    Length,
    /// The least maximum server load.
    MaxLoad,
    /// Minimal in all norms at once: the maximum, the mean response time, the sum of squares. (The measures of papers
    /// 000 and 001 have one common optimum, the optimal semi-matching.)
    Mean,
}
