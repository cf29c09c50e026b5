//! The work to be done: tasks with their inputs, and processes with their hosts.

use std::ops::Range;

use crate::graph::sets::holdings::Holdings;
use crate::model::{MAX_REPLICAS, Replicas, ServerId, Speed};

/// The most inputs that all tasks may have in total, and the most tasks and processes.
pub const MAX_INPUTS: usize = 1 << 30;

/// Index of a process, its rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessId(pub u32);

impl ProcessId {
    /// The id as an array index.
    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Why work was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum WorkError {
    #[error("the input has no replica; name at least one server that holds the data")]
    NoReplica,
    #[error("a server is named twice among the replicas of an input; name each once")]
    ReplicaTwice,
    #[error("there is no server number {0}; servers are counted from 0")]
    NoSuchServer(u32),
    #[error("the sizes add up to more than 64 bits hold; count in larger units")]
    TooManyBytes,
    #[error("more than {MAX_INPUTS} inputs, tasks or processes; split the work")]
    TooManyInputs,
    #[error("more than {MAX_REPLICAS} replicas in all; split the work")]
    TooManyReplicas,
    #[error("there are tasks but no processes; add at least one process")]
    NoProcess,
}

/// Validated work: tasks, what they read, and the processes that can do them.
///
/// A task may have no inputs, an input no bytes, and a process no server on its host.
#[derive(Clone, Debug)]
pub struct Work {
    input_ends: Vec<u32>,
    bytes: Vec<u64>,
    total_bytes: u64,
    replicas: Vec<ServerId>,
    replica_ends: Vec<u32>,
    homes: Vec<Option<ServerId>>,
    n_servers: usize,
    /// What each server has to serve to others; empty if there are none.
    backlogs: Vec<u64>,
    /// How fast each server is beside the fastest; empty if all are equal.
    speeds: Vec<Speed>,
}

impl Work {
    /// The same work beside that of others: how many bytes each server has to serve to them.
    pub fn beside(self, backlogs: Vec<u64>) -> Result<Self, WorkError> {
        if backlogs.len() != self.n_servers {
            return Err(WorkError::NoSuchServer(backlogs.len().min(self.n_servers) as u32));
        }
        let mut bytes = backlogs.iter().copied().chain([self.total_bytes]);
        bytes.try_fold(0_u64, u64::checked_add).ok_or(WorkError::TooManyBytes)?;
        let is_beside_others = backlogs.iter().any(|&bytes| bytes > 0);
        Ok(Self { backlogs: if is_beside_others { backlogs } else { Vec::new() }, ..self })
    }

    /// What each server has to serve to others, if any has.
    pub(super) fn backlogs(&self) -> Option<&[u64]> {
        Some(self.backlogs.as_slice()).filter(|backlogs| !backlogs.is_empty())
    }

    /// The same work where servers are not equally fast: what each sends in some time.
    pub fn at_rates(self, rates: &[u64]) -> Result<Self, WorkError> {
        if rates.len() != self.n_servers {
            return Err(WorkError::NoSuchServer(rates.len().min(self.n_servers) as u32));
        }
        let most = rates.iter().copied().max().unwrap_or(0).max(1);
        let one = u128::from(Speed::ONE.millionths());
        let speed = |&rate: &u64| {
            let millionths = (u128::from(rate) * one / u128::from(most)).max(1);
            Speed::from_millionths(millionths as u64).unwrap_or(Speed::ONE)
        };
        let are_equal = rates.iter().all(|rate| *rate == most);
        Ok(Self { speeds: if are_equal { Vec::new() } else { rates.iter().map(speed).collect() }, ..self })
    }

    /// How fast a server is beside the fastest.
    pub(super) fn speed(&self, server: ServerId) -> Speed {
        self.speeds.get(server.index()).copied().unwrap_or(Speed::ONE)
    }

    pub(super) fn has_equal_speeds(&self) -> bool {
        self.speeds.is_empty()
    }

    /// Whether all servers are the same: equally fast, and with nothing to serve to others.
    pub(super) fn has_equal_servers(&self) -> bool {
        self.backlogs.is_empty() && self.has_equal_speeds()
    }

    /// The number of tasks.
    pub fn n_tasks(&self) -> usize {
        self.input_ends.len()
    }

    /// Whether no task has several inputs.
    pub fn is_single(&self) -> bool {
        (0..self.n_tasks()).all(|task| self.inputs(task).len() <= 1)
    }

    /// The number of inputs of all tasks.
    pub fn n_inputs(&self) -> usize {
        self.bytes.len()
    }

    /// The number of processes.
    pub fn n_processes(&self) -> usize {
        self.homes.len()
    }

    /// The number of servers, including those without data.
    pub fn n_servers(&self) -> usize {
        self.n_servers
    }

    /// The size of all inputs together.
    pub fn total_bytes(&self) -> u64 {
        self.total_bytes
    }

    /// The inputs of a task.
    #[inline]
    pub fn inputs(&self, task: usize) -> Range<usize> {
        let start = if task == 0 { 0 } else { self.input_ends[task - 1] };
        start as usize..self.input_ends[task] as usize
    }

    /// The size of an input.
    #[inline]
    pub fn bytes(&self, input: usize) -> u64 {
        self.bytes[input]
    }

    /// The size of all inputs of a task.
    pub fn task_bytes(&self, task: usize) -> u64 {
        self.bytes[self.inputs(task)].iter().sum()
    }

    /// The servers that hold each input.
    pub fn replicas(&self) -> Replicas<'_> {
        Replicas::new(&self.replicas, &self.replica_ends, None)
    }

    /// The server on the host of a process, if there is one.
    #[inline]
    pub fn home(&self, process: ProcessId) -> Option<ServerId> {
        self.homes[process.index()]
    }

    /// How much of a task's inputs a server holds.
    pub fn held_bytes(&self, task: usize, server: ServerId) -> u64 {
        let held = self.inputs(task).filter(|&input| self.replicas().of(input).contains(&server));
        held.map(|input| self.bytes[input]).sum()
    }

    /// How much of a task's inputs is on the host of a process.
    pub fn local_bytes(&self, task: usize, process: ProcessId) -> u64 {
        self.home(process).map_or(0, |server| self.held_bytes(task, server))
    }

    /// How many tasks each process does at least, and how many processes do one more.
    pub(super) fn quota(&self) -> (u64, u64) {
        let (n, p) = (self.n_tasks() as u64, self.n_processes().max(1) as u64);
        (n / p, n % p)
    }

    /// The processes on the host of each server.
    pub(super) fn residents(&self) -> Holdings {
        let servers: Vec<ServerId> = self.homes.iter().flatten().copied().collect();
        let ends: Vec<u32> = self
            .homes
            .iter()
            .scan(0, |end, home| {
                Some({
                    *end += u32::from(home.is_some());
                    *end
                })
            })
            .collect();
        Holdings::new(Replicas::new(&servers, &ends, None), self.n_servers)
    }

    /// Where each task's replicas end, if no task has several inputs.
    pub(super) fn single_ends(&self) -> Result<Vec<u32>, u32> {
        let mut start = 0;
        let ends = (0..).zip(&self.input_ends).map(|(task, &end): (u32, _)| {
            let n_inputs = end - std::mem::replace(&mut start, end);
            let end = if end == 0 { 0 } else { self.replica_ends[end as usize - 1] };
            if n_inputs > 1 { Err(task) } else { Ok(end) }
        });
        ends.collect()
    }

    /// The replica sets of all inputs, flat.
    pub(super) fn flat_replicas(&self) -> &[ServerId] {
        &self.replicas
    }

    /// The size of every input, if all have the same.
    pub(super) fn common_size(&self) -> Option<u64> {
        let first = self.bytes.first().copied().unwrap_or(0);
        self.bytes.iter().all(|&bytes| bytes == first).then_some(first)
    }

    /// For each task the servers that hold some of it and have a process on their host, and how much they hold; by
    /// server.
    pub(super) fn affinity(&self) -> Affinity {
        let residents = self.residents();
        let mut affinity = Affinity { held: Vec::new(), ends: Vec::with_capacity(self.n_tasks()) };
        let mut held = Vec::new();
        for task in 0..self.n_tasks() {
            held.clear();
            for input in self.inputs(task).filter(|&input| self.bytes[input] > 0) {
                let hosts = self.replicas().of(input).iter().filter(|s| !residents.of(**s).is_empty());
                held.extend(hosts.map(|&server| (server, self.bytes[input])));
            }
            held.sort_unstable();
            for sum in held.chunk_by(|a, b| a.0 == b.0) {
                affinity.held.push((sum[0].0, sum.iter().map(|(_, bytes)| bytes).sum()));
            }
            affinity.ends.push(affinity.held.len());
        }
        affinity
    }
}

/// For each task the servers that hold some of it, and how much.
#[derive(Debug)]
pub(super) struct Affinity {
    held: Vec<(ServerId, u64)>,
    ends: Vec<usize>,
}

impl Affinity {
    pub(super) fn of(&self, task: usize) -> &[(ServerId, u64)] {
        let start = if task == 0 { 0 } else { self.ends[task - 1] };
        &self.held[start..self.ends[task]]
    }

    /// How much of a task a server holds.
    pub(super) fn bytes(&self, task: usize, server: ServerId) -> u64 {
        let held = self.of(task);
        held.binary_search_by_key(&server, |(server, _)| *server).map_or(0, |at| held[at].1)
    }

    /// All entries as (task, server, bytes).
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, ServerId, u64)> {
        (0..self.ends.len())
            .flat_map(|task| self.of(task).iter().map(move |&(server, bytes)| (task as u32, server, bytes)))
    }
}

/// Builds [`Work`] input by input, refusing what is not valid.
#[derive(Clone, Debug, Default)]
pub struct WorkBuilder {
    input_ends: Vec<u32>,
    bytes: Vec<u64>,
    total_bytes: u64,
    replicas: Vec<ServerId>,
    replica_ends: Vec<u32>,
}

impl WorkBuilder {
    /// A builder without tasks.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an input to the task that the next [`Self::end_task`] completes.
    pub fn input(&mut self, bytes: u64, replicas: &[ServerId]) -> Result<(), WorkError> {
        if replicas.is_empty() {
            return Err(WorkError::NoReplica);
        }
        if has_twice(replicas) {
            return Err(WorkError::ReplicaTwice);
        }
        if self.bytes.len() >= MAX_INPUTS {
            return Err(WorkError::TooManyInputs);
        }
        if self.replicas.len() + replicas.len() > MAX_REPLICAS {
            return Err(WorkError::TooManyReplicas);
        }
        self.total_bytes = self.total_bytes.checked_add(bytes).ok_or(WorkError::TooManyBytes)?;
        self.bytes.push(bytes);
        self.replicas.extend_from_slice(replicas);
        self.replica_ends.push(self.replicas.len() as u32);
        Ok(())
    }

    /// Completes a task with the inputs added since the last one.
    pub fn end_task(&mut self) {
        self.input_ends.push(self.bytes.len() as u32);
    }

    /// Finishes the work for these processes, each on the host of a server or of none. A task that was not ended is
    /// ended.
    pub fn finish(mut self, n_servers: usize, homes: Vec<Option<ServerId>>) -> Result<Work, WorkError> {
        if self.input_ends.last().map_or(0, |&end| end as usize) < self.bytes.len() {
            self.end_task();
        }
        let Self { input_ends, bytes, total_bytes, replicas, replica_ends } = self;
        if input_ends.len() > MAX_INPUTS || homes.len() > MAX_INPUTS {
            return Err(WorkError::TooManyInputs);
        }
        if homes.is_empty() && !input_ends.is_empty() {
            return Err(WorkError::NoProcess);
        }
        let named = replicas.iter().chain(homes.iter().flatten());
        if let Some(unknown) = named.copied().find(|server| server.index() >= n_servers) {
            return Err(WorkError::NoSuchServer(unknown.0));
        }
        let (backlogs, speeds) = (Vec::new(), Vec::new());
        Ok(Work {
            input_ends,
            bytes,
            total_bytes,
            replicas,
            replica_ends,
            homes,
            n_servers,
            backlogs,
            speeds,
        })
    }
}

fn has_twice(servers: &[ServerId]) -> bool {
    // The usual handful is compared faster than sorted.
    if servers.len() <= 8 {
        return servers.iter().enumerate().any(|(k, server)| servers[..k].contains(server));
    }
    let mut sorted = servers.to_vec();
    sorted.sort_unstable();
    sorted.windows(2).any(|pair| pair[0] == pair[1])
}
