//! Tasks as CSV, `task,bytes,replicas`, one row per input; processes, `process,server`; and the assignment:
//! `task,process,local_bytes,remote_bytes,from`.

use std::io::{self, BufRead, Write};

use evenkeel::assign::{Assignment, MAX_INPUTS, ProcessId, Work, WorkBuilder, WorkError};
use evenkeel::model::{ModelError, NameTable, ServerId, shown};

use crate::hosts::{Hosts, host_of};
use crate::table::{Table, quoted};
use crate::{InputError, Reading, check_replica, numbers};

/// Tasks and processes, with names.
#[derive(Debug)]
pub struct WorkInput {
    /// Tasks by id, in order of their first rows.
    pub tasks: NameTable,
    /// Processes by id, in order of their rows.
    pub processes: NameTable,
    /// Servers by id, in natural order.
    pub servers: NameTable,
    /// The work to be done.
    pub work: Work,
}

/// The inputs of tasks, in order of rows.
#[derive(Default)]
struct Rows {
    tasks: NameTable,
    task_of: Vec<u32>,
    bytes: Vec<u64>,
    replicas: Vec<ServerId>,
    replica_ends: Vec<usize>,
}

/// Where processes run.
#[derive(Debug)]
pub enum Processes<'a, R> {
    /// A file says it: `process,server`.
    Csv(R, &'a Reading<'a>),
    /// On these hosts, in order of ranks, by which they are called.
    OnHosts(&'a [String]),
    /// One on the host of each server, by which it is called.
    OnePerServer,
}

/// Reads tasks and processes.
pub fn read_work(
    tasks: (impl BufRead, &Reading<'_>),
    (processes, of_processes): (impl BufRead, &Reading<'_>),
) -> Result<WorkInput, InputError> {
    read_work_for(tasks, Processes::Csv(processes, of_processes))
}

/// Reads tasks for processes that are known from elsewhere.
pub fn read_work_for<R: BufRead>(
    (tasks, of_tasks): (impl BufRead, &Reading<'_>),
    processes: Processes<'_, R>,
) -> Result<WorkInput, InputError> {
    let mut servers = NameTable::new();
    let rows = read_tasks(tasks, of_tasks, &mut servers)?;
    let file_of_processes = match &processes {
        Processes::Csv(_, reading) => reading.file,
        _ => of_tasks.file,
    };
    let (processes, homes) = match processes {
        Processes::Csv(processes, reading) => read_processes(processes, reading, &mut servers)?,
        Processes::OnHosts(hosts) => on_hosts(hosts, &servers),
        Processes::OnePerServer => one_per_server(&servers),
    };
    let (servers, new_id) = servers.sorted_naturally();
    let homes = homes.into_iter().map(|home| home.map(|home| ServerId(new_id[home.index()]))).collect();
    let wrong = |file: &str, error: WorkError| InputError::new(file, None, error);
    let mut builder = WorkBuilder::new();
    // The rows of a task need not be adjacent.
    let mut order: Vec<usize> = (0..rows.task_of.len()).collect();
    order.sort_by_key(|&row| rows.task_of[row]);
    for task in order.chunk_by(|&a, &b| rows.task_of[a] == rows.task_of[b]) {
        for &row in task {
            let start = if row == 0 { 0 } else { rows.replica_ends[row - 1] };
            let set = rows.replicas[start..rows.replica_ends[row]].iter();
            let set: Vec<ServerId> = set.map(|server| ServerId(new_id[server.index()])).collect();
            builder.input(rows.bytes[row], &set).map_err(|e| wrong(of_tasks.file, e))?;
        }
        builder.end_task();
    }
    let work = builder.finish(servers.len(), homes).map_err(|e| wrong(file_of_processes, e))?;
    Ok(WorkInput { tasks: rows.tasks, processes, servers, work })
}

fn read_tasks(
    reader: impl BufRead,
    reading: &Reading<'_>,
    servers: &mut NameTable,
) -> Result<Rows, InputError> {
    let mut table = Table::open(reader, reading, &["task", "bytes", "replicas"], &[])?;
    let mut rows = Rows::default();
    let mut total: u64 = 0;
    // For each server the last row that names it, so that no row names it twice.
    let mut named_in: Vec<usize> = Vec::new();
    while table.next()? {
        if rows.bytes.len() >= MAX_INPUTS {
            return Err(table.error(WorkError::TooManyInputs));
        }
        let task = id(table.required(0)?, &mut rows.tasks, "task").map_err(|e| table.error(e))?;
        let bytes = numbers::size(table.required(1)?, "size").map_err(|e| table.error(e))?;
        total = total.checked_add(bytes).ok_or_else(|| table.error(WorkError::TooManyBytes))?;
        let names = table.required(2)?;
        if names.is_empty() {
            return Err(table.error(WorkError::NoReplica));
        }
        let row = rows.bytes.len() + 1;
        for name in names.split('|') {
            check_replica(name).map_err(|e| table.error(e))?;
            let server = id(name, servers, "server").map_err(|e| table.error(e))?;
            named_in.resize(servers.len(), 0);
            if std::mem::replace(&mut named_in[server as usize], row) == row {
                return Err(table.error(ModelError::ReplicaTwice(shown(name))));
            }
            rows.replicas.push(ServerId(server));
        }
        rows.task_of.push(task);
        rows.bytes.push(bytes);
        rows.replica_ends.push(rows.replicas.len());
    }
    Ok(rows)
}

fn read_processes(
    reader: impl BufRead,
    reading: &Reading<'_>,
    servers: &mut NameTable,
) -> Result<(NameTable, Vec<Option<ServerId>>), InputError> {
    let mut table = Table::open(reader, reading, &["process", "server"], &[])?;
    let (mut processes, mut homes) = (NameTable::new(), Vec::new());
    let mut hosts = Hosts::of(servers, false);
    while table.next()? {
        if homes.len() >= MAX_INPUTS {
            return Err(table.error(WorkError::TooManyInputs));
        }
        processes.insert(table.required(0)?, "process").map_err(|e| table.error(e))?;
        homes.push(match table.required(1)? {
            "" => None,
            // A server, or the host of one whose name is an address.
            name => match servers.find(name).or_else(|| hosts.server_on(name)) {
                Some(server) => Some(ServerId(server)),
                None => Some(ServerId(id(name, servers, "server").map_err(|e| table.error(e))?)),
            },
        });
    }
    Ok((processes, homes))
}

fn on_hosts(hosts: &[String], servers: &NameTable) -> (NameTable, Vec<Option<ServerId>>) {
    let (mut processes, mut known) = (NameTable::new(), Hosts::of(servers, true));
    let homes = hosts.iter().enumerate().map(|(rank, host)| {
        processes.intern(&rank.to_string());
        servers.find(host).or_else(|| known.server_on(host)).map(ServerId)
    });
    let homes = homes.collect();
    (processes, homes)
}

/// Processes called by the hosts of servers, or by the servers where hosts have several; in natural order.
fn one_per_server(servers: &NameTable) -> (NameTable, Vec<Option<ServerId>>) {
    let (sorted, new_id) = servers.sorted_naturally();
    let mut homes = vec![None; servers.len()];
    (0..).zip(new_id).for_each(|(server, id)| homes[id as usize] = Some(ServerId(server)));
    let mut hosts = NameTable::new();
    let is_alone = sorted.iter().all(|server| hosts.insert(host_of(server), "process").is_ok());
    (if is_alone { hosts } else { sorted }, homes)
}

/// The id of a name. A new name is added.
fn id(name: &str, names: &mut NameTable, kind: &'static str) -> Result<u32, ModelError> {
    if let Some(id) = names.find(name) {
        return Ok(id);
    }
    names.insert(name, kind)?;
    Ok(names.len() as u32 - 1)
}

/// Writes which process does each task, and where it reads each input, in order of rows; of one process, if `only` names
/// it.
pub fn write_assignment(
    input: &WorkInput,
    found: &Assignment,
    only: Option<ProcessId>,
    mut out: impl Write,
) -> io::Result<()> {
    let processes: Vec<String> = input.processes.iter().map(quoted).collect();
    writeln!(out, "task,process,local_bytes,remote_bytes,from")?;
    let is_wanted = |task: usize| only.is_none_or(|only| found.processes[task] == only);
    for (task, name) in input.tasks.iter().enumerate().filter(|(task, _)| is_wanted(*task)) {
        let name = quoted(name);
        let (local, remote) = found.task_bytes(&input.work, task);
        let sources = found.sources[input.work.inputs(task)].iter();
        let from: Vec<&str> = sources.map(|server| input.servers.name(server.0)).collect();
        let process = &processes[found.processes[task].index()];
        writeln!(out, "{name},{process},{local},{remote},{}", quoted(&from.join("|")))?;
    }
    Ok(())
}
