//! `hdf` and `hcdf`: class by class, a matching that takes the transfers of the busiest nodes first.
//!
//! HDF (highest degree first) and HCDF (highest combined degree first) of Jain et al., as paper 000 §5.1 names them;
//! their listings are reconstructed from the names. There are at most 2Δ − 1 classes for the largest degree Δ (the
//! paper says "exactly"), or ⌊m/k⌋ + 2Δ − 1 if only k of m transfers run at once. Degrees are in blocks. `hdf-dist` is
//! another HDF, by bidding.

use super::classes::of_classes;
use crate::graph::classes;
use crate::model::{Batch, Choice, Cluster, Grant};

/// Takes transfers with the busiest client or server first.
pub fn hdf(batch: &Batch, cluster: &Cluster, choice: &Choice) -> Vec<Grant> {
    of_classes(batch, cluster, choice, |edges, [n_clients, n_servers]| {
        classes::hdf(edges, n_clients, n_servers, cluster.max_concurrent())
    })
}

/// Takes transfers with the busiest client and server combined first.
pub fn hcdf(batch: &Batch, cluster: &Cluster, choice: &Choice) -> Vec<Grant> {
    of_classes(batch, cluster, choice, |edges, [n_clients, n_servers]| {
        classes::hcdf(edges, n_clients, n_servers, cluster.max_concurrent())
    })
}
