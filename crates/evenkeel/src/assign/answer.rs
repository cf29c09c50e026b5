//! The answer: which process does each task, where it reads, and how good that is.

use super::{ProcessId, Work, balanced};
use crate::model::ServerId;

/// Which process does each task, and where it reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// The process of each task.
    pub processes: Vec<ProcessId>,
    /// The server that each input is read from: the one on the process's own host, if it holds the input and has not too
    /// much to serve to others.
    pub sources: Vec<ServerId>,
    /// No assignment that is as even as this one reads more bytes from its own hosts. Even means the number of tasks
    /// or, for `opass-single` with different sizes, that no process reads more bytes. For `opass-dynamic` the bound is
    /// what any assignment at all could read locally.
    pub bound_local_bytes: u64,
}

/// How good an assignment is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Measures {
    /// Bytes that processes read from their own hosts.
    pub local_bytes: u64,
    /// Bytes read from elsewhere.
    pub remote_bytes: u64,
    /// The most tasks of a process.
    pub max_tasks: u64,
    /// The fewest tasks of a process.
    pub min_tasks: u64,
    /// Bytes that each server serves, locally or not.
    pub served_bytes: Vec<u64>,
}

impl Measures {
    /// The most bytes that any server serves.
    pub fn max_served_bytes(&self) -> u64 {
        self.served_bytes.iter().copied().max().unwrap_or(0)
    }
}

impl Assignment {
    /// Assigns every task to the given process. Remote inputs are read from the servers with the least to serve.
    pub(super) fn new(work: &Work, processes: Vec<ProcessId>, bound_local_bytes: u64) -> Self {
        Self { sources: balanced(work, &processes), processes, bound_local_bytes }
    }

    /// What a task reads on its process's own host, and what it reads elsewhere.
    pub fn task_bytes(&self, work: &Work, task: usize) -> (u64, u64) {
        let home = work.home(self.processes[task]);
        let of = |input: usize| match Some(self.sources[input]) == home {
            true => (work.bytes(input), 0),
            false => (0, work.bytes(input)),
        };
        work.inputs(task).map(of).fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1))
    }

    /// Computes how good the assignment is.
    pub fn measures(&self, work: &Work) -> Measures {
        let mut n_tasks = vec![0; work.n_processes()];
        let mut served_bytes = vec![0; work.n_servers()];
        let (mut local_bytes, mut remote_bytes) = (0, 0);
        for (task, process) in self.processes.iter().enumerate() {
            n_tasks[process.index()] += 1;
            let (local, remote) = self.task_bytes(work, task);
            local_bytes += local;
            remote_bytes += remote;
        }
        self.sources.iter().enumerate().for_each(|(i, server)| served_bytes[server.index()] += work.bytes(i));
        Measures {
            local_bytes,
            remote_bytes,
            max_tasks: n_tasks.iter().copied().max().unwrap_or(0),
            min_tasks: n_tasks.iter().copied().min().unwrap_or(0),
            served_bytes,
        }
    }
}
