//! What processes are to do, as programs take it: JSON, a list for each process, splits with preferred hosts.

use std::cmp::Reverse;
use std::fs;
use std::io::{self, Write};
use std::path::Path;

use anyhow::{Context, Result, bail};
use evenkeel::assign::{Assignment, ProcessId};
use evenkeel::model::ServerId;
use evenkeel_formats::{WorkInput, host_of, quoted};
use serde::Serialize;

use super::tasks::Splits;
use crate::cli::AssignFormat;
use crate::output::Target;

/// Who does what, ready to be written.
pub(super) struct Lists<'a> {
    pub(super) input: &'a WorkInput,
    pub(super) found: &'a Assignment,
    pub(super) splits: Option<&'a Splits>,
    /// The only process that is of interest, if there is one.
    pub(super) rank: Option<ProcessId>,
}

#[derive(Serialize)]
struct OfProcess<'a> {
    process: &'a str,
    rank: u32,
    host: Option<&'a str>,
    tasks: Vec<OfTask<'a>>,
}

#[derive(Serialize)]
struct OfTask<'a> {
    task: &'a str,
    local_bytes: u64,
    remote_bytes: u64,
    inputs: Vec<OfInput<'a>>,
}

#[derive(Serialize)]
struct OfInput<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    start: Option<u64>,
    bytes: u64,
    from: &'a str,
}

#[derive(Serialize)]
struct OfSplit<'a> {
    process: &'a str,
    path: &'a str,
    start: u64,
    length: u64,
    hosts: Vec<&'a str>,
}

impl<'a> Lists<'a> {
    fn processes(&self) -> impl Iterator<Item = ProcessId> {
        let all = 0..self.input.work.n_processes() as u32;
        let rank = self.rank;
        all.map(ProcessId).filter(move |process| rank.is_none_or(|rank| rank == *process))
    }

    /// The tasks of each process. It begins with what it holds most of, so that, where lists guide processes that ask for
    /// more, the end of a list is what others may take.
    fn tasks(&self) -> Vec<Vec<usize>> {
        let mut tasks = vec![Vec::new(); self.input.work.n_processes()];
        for (task, process) in self.found.processes.iter().enumerate() {
            tasks[process.index()].push(task);
        }
        for (process, list) in (0..).zip(&mut tasks) {
            list.sort_by_key(|&task| Reverse(self.input.work.local_bytes(task, ProcessId(process))));
        }
        tasks
    }

    fn server(&self, server: ServerId) -> &'a str {
        self.input.servers.name(server.0)
    }

    /// Hosts that hold an input, the one that it is read from first.
    fn hosts(&self, input: usize) -> Vec<&'a str> {
        let from = self.found.sources[input];
        let mut hosts = vec![host_of(self.server(from))];
        for &server in self.input.work.replicas().of(input) {
            let host = host_of(self.server(server));
            if !hosts.contains(&host) {
                hosts.push(host);
            }
        }
        hosts
    }

    /// Everything, as one object of JSON.
    pub(super) fn write_json(&self, mut out: impl Write) -> io::Result<()> {
        let tasks = self.tasks();
        out.write_all(b"{\"format\":1,\"processes\":[")?;
        for (nth, process) in self.processes().enumerate() {
            out.write_all(if nth == 0 { b"\n" } else { b",\n" })?;
            let task = |&task: &usize| {
                let (local_bytes, remote_bytes) = self.found.task_bytes(&self.input.work, task);
                let inputs = self.input.work.inputs(task).map(|input| {
                    let split = self.splits.map(|splits| splits.of(input));
                    OfInput {
                        path: split.as_ref().map(|split| split.path),
                        start: split.as_ref().map(|split| split.start),
                        bytes: self.input.work.bytes(input),
                        from: self.server(self.found.sources[input]),
                    }
                });
                let inputs = inputs.collect();
                OfTask { task: self.input.tasks.name(task as u32), local_bytes, remote_bytes, inputs }
            };
            let of_process = OfProcess {
                process: self.input.processes.name(process.0),
                rank: process.0,
                host: self.input.work.home(process).map(|home| host_of(self.server(home))),
                tasks: tasks[process.index()].iter().map(task).collect(),
            };
            serde_json::to_writer(&mut out, &of_process)?;
        }
        out.write_all(b"\n]}\n")
    }

    /// Splits with preferred hosts.
    pub(super) fn write_splits(
        &self,
        splits: &Splits,
        format: AssignFormat,
        mut out: impl Write,
    ) -> io::Result<()> {
        let is_json = format == AssignFormat::Json;
        out.write_all(if is_json { b"[" } else { b"process,path,start,length,hosts\n" })?;
        let (tasks, mut is_first) = (self.tasks(), true);
        for process in self.processes() {
            for input in tasks[process.index()].iter().flat_map(|&task| self.input.work.inputs(task)) {
                let (split, hosts) = (splits.of(input), self.hosts(input));
                let (path, start, length) = (split.path, split.start, split.length);
                let process = self.input.processes.name(process.0);
                if is_json {
                    out.write_all(if is_first { b"\n" } else { b",\n" })?;
                    serde_json::to_writer(&mut out, &OfSplit { process, path, start, length, hosts })?;
                } else {
                    let (process, path, hosts) = (quoted(process), quoted(path), quoted(&hosts.join("|")));
                    writeln!(out, "{process},{path},{start},{length},{hosts}")?;
                }
                is_first = false;
            }
        }
        out.write_all(if is_json { b"\n]\n" } else { b"" })
    }

    /// One list for each process, in a folder.
    pub(super) fn write_folder(&self, folder: &Path) -> Result<()> {
        let tasks = self.tasks();
        for process in self.processes() {
            let target = Target::new(&folder.join(format!("{}.csv", process.0)), &[])?;
            target.write(|out| self.write_list(&tasks[process.index()], out))?;
        }
        Ok(())
    }

    fn write_list(&self, tasks: &[usize], out: &mut dyn Write) -> io::Result<()> {
        writeln!(
            out,
            "{}",
            if self.splits.is_some() { "task,path,start,bytes,from" } else { "task,bytes,from" }
        )?;
        for &task in tasks {
            let name = quoted(self.input.tasks.name(task as u32));
            for input in self.input.work.inputs(task) {
                write!(out, "{name},")?;
                if let Some(split) = self.splits.map(|splits| splits.of(input)) {
                    write!(out, "{},{},", quoted(split.path), split.start)?;
                }
                let from = quoted(self.server(self.found.sources[input]));
                writeln!(out, "{},{from}", self.input.work.bytes(input))?;
            }
        }
        Ok(())
    }
}

/// Makes a folder for lists. One with something in it is refused: lists of another run would be taken for ours.
pub(super) fn make_folder(folder: &Path) -> Result<()> {
    let what = || format!("cannot write lists into {}", folder.display());
    fs::create_dir_all(folder).with_context(what)?;
    if fs::read_dir(folder).with_context(what)?.next().is_some() {
        bail!("cannot write lists into {}: it is not empty; name a new folder", folder.display());
    }
    Ok(())
}
