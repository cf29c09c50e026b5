//! `lddf-slots` and `hddf-slots`: slot by slot, each server takes one request whose client is free. The servers that
//! could serve the fewest pending requests choose first, or last.
//!
//! LDDF and HDDF of Chen and Majumdar as paper 000 §5.1 describes them; paper 001 §3.3–3.4 describes others (`lddf`,
//! `hddf`). Deviations: the paper does not say that a client must be free, but its one-port model requires it. The
//! paper draws the client at random; here it is the one with the oldest request. A server with several slots takes as
//! many requests.

use crate::graph::passes::{First, of_servers_and_clients};
use crate::model::{Batch, Cluster, Grant};

/// The servers with the fewest pending requests choose first.
pub fn lddf(batch: &Batch, cluster: &Cluster) -> Vec<Grant> {
    of_servers_and_clients(batch, cluster, First::Fewest)
}

/// The servers with the most pending requests choose first.
pub fn hddf(batch: &Batch, cluster: &Cluster) -> Vec<Grant> {
    of_servers_and_clients(batch, cluster, First::Most)
}
