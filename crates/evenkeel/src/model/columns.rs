//! Optional properties of requests, besides client, size and replicas.

use std::sync::Arc;

use super::ModelError;
use super::names::{NameTable, checked};

/// Optional properties of a request, besides its client, size and replicas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Details<'a> {
    /// When it arrives, in nanoseconds. If not given, it arrives at the start.
    pub arrival_ns: Option<u64>,
    /// The job that it belongs to.
    pub job: Option<&'a str>,
    /// The name of the data.
    pub chunk: Option<&'a str>,
    /// The server that serves it today.
    pub current: Option<&'a str>,
}

/// The details of all requests. Each column is empty, or has an entry for each request.
#[derive(Clone, Debug, Default)]
pub(super) struct Columns {
    pub(super) arrivals_ns: Vec<u64>,
    pub(super) jobs: Labels,
    pub(super) chunks: Labels,
    /// Ids of servers.
    pub(super) current: Vec<u32>,
}

/// The name of each request, if it has one.
#[derive(Clone, Debug, Default)]
pub(super) struct Labels {
    names: Arc<NameTable>,
    ids: Vec<u32>,
}

const NONE: u32 = u32::MAX;

impl Columns {
    /// The same names without requests.
    pub(super) fn emptied(&self) -> Self {
        let emptied = |labels: &Labels| Labels { names: Arc::clone(&labels.names), ids: Vec::new() };
        Self { jobs: emptied(&self.jobs), chunks: emptied(&self.chunks), ..Self::default() }
    }

    /// Adds the details of the next request, after `n_requests` others, with the id of the server that serves it today.
    /// After an error nothing has changed.
    pub(super) fn push(
        &mut self,
        n_requests: usize,
        details: &Details<'_>,
        current: Option<u32>,
    ) -> Result<(), ModelError> {
        let Details { arrival_ns, job, chunk, .. } = *details;
        job.map_or(Ok(()), |name| checked(name, "job"))?;
        chunk.map_or(Ok(()), |name| checked(name, "chunk"))?;
        push(&mut self.arrivals_ns, n_requests, arrival_ns, 0);
        self.jobs.push(n_requests, job);
        self.chunks.push(n_requests, chunk);
        push(&mut self.current, n_requests, current, NONE);
        Ok(())
    }

    /// Adds the details of request `i` of `other`, which has the same names.
    pub(super) fn push_from(&mut self, n_requests: usize, other: &Self, i: usize) {
        push(&mut self.arrivals_ns, n_requests, other.arrivals_ns.get(i).copied(), 0);
        push(&mut self.jobs.ids, n_requests, other.jobs.ids.get(i).copied(), NONE);
        push(&mut self.chunks.ids, n_requests, other.chunks.ids.get(i).copied(), NONE);
        push(&mut self.current, n_requests, other.current.get(i).copied(), NONE);
    }

    /// The id of the server that serves request `i` today.
    pub(super) fn current(&self, i: usize) -> Option<u32> {
        self.current.get(i).copied().filter(|&id| id != NONE)
    }

    /// Gives servers other ids.
    pub(super) fn renumber_servers(&mut self, new_id: &[u32]) {
        self.current.iter_mut().filter(|id| **id != NONE).for_each(|id| *id = new_id[*id as usize]);
    }

    /// Renumbers names in natural order.
    pub(super) fn sort_names(&mut self) {
        self.jobs.sort_names();
        self.chunks.sort_names();
    }
}

impl Labels {
    /// The names, by id.
    pub(super) fn names(&self) -> &NameTable {
        &self.names
    }

    /// The id of the name of request `i`.
    pub(super) fn id(&self, i: usize) -> Option<u32> {
        self.ids.get(i).copied().filter(|&id| id != NONE)
    }

    fn push(&mut self, n_requests: usize, name: Option<&str>) {
        let id = name.map(|name| Arc::make_mut(&mut self.names).intern(name));
        push(&mut self.ids, n_requests, id, NONE);
    }

    fn sort_names(&mut self) {
        let (sorted, new_id) = self.names.sorted_naturally();
        self.names = Arc::new(sorted);
        self.ids.iter_mut().filter(|id| **id != NONE).for_each(|id| *id = new_id[*id as usize]);
    }
}

/// Adds an entry to a column that stays empty until the first entry is given.
fn push<T: Clone>(column: &mut Vec<T>, n_requests: usize, entry: Option<T>, absent: T) {
    if entry.is_some() || !column.is_empty() {
        column.resize(n_requests, absent.clone());
        column.push(entry.unwrap_or(absent));
    }
}
