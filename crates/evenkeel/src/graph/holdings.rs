//! Which requests each server holds a copy of.

use super::shrinking::Shrinking;
use crate::model::{Replicas, ServerId};

/// The requests of each server in ascending order, flat.
#[derive(Debug)]
pub(crate) struct Holdings {
    requests: Vec<u32>,
    ends: Vec<u32>,
}

impl Holdings {
    /// Of all requests in turn.
    pub(crate) fn new(replicas: Replicas<'_>, n_servers: usize) -> Self {
        Self::in_order(replicas, n_servers, 0..replicas.len() as u32)
    }

    /// Of requests in another order, which the servers' lists then have too.
    pub(crate) fn in_order(
        replicas: Replicas<'_>,
        n_servers: usize,
        order: impl Iterator<Item = u32>,
    ) -> Self {
        let mut ends = vec![0_u32; n_servers];
        replicas.flat().iter().for_each(|server| ends[server.index()] += 1);
        ends.iter_mut().fold(0, |start, n| start + std::mem::replace(n, start));
        let mut requests = vec![0; replicas.flat().len()];
        for request in order {
            for server in replicas.of(request as usize) {
                let end = &mut ends[server.index()];
                requests[*end as usize] = request;
                *end += 1;
            }
        }
        Self { requests, ends }
    }

    /// Where a server's requests are among all.
    pub(crate) fn range(&self, server: ServerId) -> std::ops::Range<usize> {
        let start = if server.0 == 0 { 0 } else { self.ends[server.index() - 1] };
        start as usize..self.ends[server.index()] as usize
    }

    /// A server's requests.
    pub(crate) fn of(&self, server: ServerId) -> &[u32] {
        &self.requests[self.range(server)]
    }

    /// All lists, one after the other.
    pub(crate) fn flat(&self) -> &[u32] {
        &self.requests
    }

    /// The lists, from which requests will vanish.
    pub(crate) fn shrinking(self) -> Shrinking {
        Shrinking::new(self.requests, self.ends.into_iter())
    }
}
