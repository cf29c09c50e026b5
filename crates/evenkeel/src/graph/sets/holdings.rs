//! The requests that each server holds a replica of.

use super::shrinking::{Shrinking, transposed};
use crate::model::{Replicas, ServerId};

/// The requests of each server in ascending order, flat.
#[derive(Debug)]
pub(crate) struct Holdings {
    requests: Vec<u32>,
    ends: Vec<u32>,
}

impl Holdings {
    /// The lists of all requests in turn.
    pub(crate) fn new(replicas: Replicas<'_>, n_servers: usize) -> Self {
        Self::in_order(replicas, n_servers, 0..replicas.len() as u32)
    }

    /// The lists of requests in another order, which the servers' lists then have too.
    pub(crate) fn in_order(
        replicas: Replicas<'_>,
        n_servers: usize,
        order: impl Iterator<Item = u32> + Clone,
    ) -> Self {
        let pairs = order.flat_map(|i| replicas.of(i as usize).iter().map(move |server| (i, server.0)));
        let (requests, ends) = transposed(n_servers, pairs);
        Self { requests, ends }
    }

    /// The places of each server in the flat replica sets, instead of its requests.
    pub(crate) fn by_place(replicas: Replicas<'_>, n_servers: usize) -> Self {
        let pairs = (0..).zip(replicas.flat()).map(|(place, server)| (place, server.0));
        let (requests, ends) = transposed(n_servers, pairs);
        Self { requests, ends }
    }

    /// The range of a server's requests in the flat list.
    pub(crate) fn range(&self, server: ServerId) -> std::ops::Range<usize> {
        let start = if server.0 == 0 { 0 } else { self.ends[server.index() - 1] };
        start as usize..self.ends[server.index()] as usize
    }

    /// A server's requests.
    pub(crate) fn of(&self, server: ServerId) -> &[u32] {
        &self.requests[self.range(server)]
    }

    /// All lists, concatenated.
    pub(crate) fn flat(&self) -> &[u32] {
        &self.requests
    }

    /// The same lists, as lists from which requests can be removed.
    pub(crate) fn shrinking(self) -> Shrinking {
        Shrinking::new(self.requests, self.ends.into_iter())
    }
}
