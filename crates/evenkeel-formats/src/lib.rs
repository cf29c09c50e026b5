//! Evenkeel's file formats: batches, servers, clients, plans, summaries, advice, queues, writes, tasks and manifests; and
//! in [`import`], the output of other tools.
//!
//! A reader takes any [`BufRead`] and refuses invalid input with an [`InputError`] that names the place and the remedy.
//! Besides what it keeps, it never holds more than one record. A writer takes any [`Write`](io::Write). The crate opens
//! no files and knows nothing about terminals, so that servers and bindings can use it as the command does.
//!
//! ```
//! use evenkeel::model::Cluster;
//! use evenkeel::{order, select};
//! use evenkeel_formats::{Declared, Reading, read_batch, write_plan};
//!
//! let csv = "client,bytes,replicas\nc0,1,s0|s1\nc1,1,s0\n";
//! let batch = read_batch(csv.as_bytes(), &Reading::of("batch.csv"), Declared::default())?;
//!
//! let cluster = Cluster::equal(&batch);
//! let (choice, _) = select::optimal::select(&batch, &cluster, select::Goal::Length);
//! let schedule = order::colour::order(&batch, &cluster, &choice);
//!
//! let mut plan = Vec::new();
//! write_plan(&batch, schedule.transfers, &mut plan)?;
//! assert_eq!(plan, b"request,client,server,start,blocks\n0,c0,s1,0,1\n1,c1,s0,0,1\n");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod advice;
mod assign_csv;
mod batch_csv;
mod batch_json;
mod globs_csv;
mod hosts;
pub mod import;
mod input;
mod list_csv;
mod manifest_csv;
mod nodes;
pub mod numbers;
mod plan;
mod queue_csv;
mod steps_csv;
mod summary;
mod table;
mod writes_csv;

use std::fmt;
use std::io::{self, BufRead};
use std::num::NonZeroU64;

pub use advice::{Advice, AdviceFile, read_advice};
pub use assign_csv::{Processes, WorkInput, read_work, read_work_for, write_assignment};
pub use batch_csv::{read_batch_csv, write_batch_csv};
pub use batch_json::{read_batch_json, write_batch_json};
pub use globs_csv::{TaskGlobs, read_globs};
pub use hosts::host_of;
pub use input::{Declared, Described, Input, read_batch};
pub use list_csv::{List, ListRow};
pub use manifest_csv::{ManifestObject, read_manifest_csv};
pub use nodes::{Nodes, read_clients, read_servers, write_clients, write_servers};
pub use plan::{read_plan, write_plan};
pub use queue_csv::{QueueInput, read_queue, write_orders};
pub use steps_csv::write_steps;
pub use summary::{Bottleneck, Changes, CurvePoint, Figure, Seconds, Summary, changed_bytes, read_summary};
pub use table::quoted;
pub use writes_csv::{Objects, WritesInput, read_writes, write_places};

/// What is wrong with an input, and where.
#[derive(Debug, PartialEq, Eq)]
pub struct InputError {
    /// The file.
    pub file: String,
    /// The line, from 1, if the error is about one.
    pub line: Option<u64>,
    /// What is wrong, and what to do.
    pub message: String,
}

impl InputError {
    /// An error in that file, and in that line if it is about one.
    pub fn new(file: &str, line: impl Into<Option<u64>>, message: impl fmt::Display) -> Self {
        Self { file: file.to_owned(), line: line.into(), message: message.to_string() }
    }
}

impl fmt::Display for InputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.file, self.message),
            None => write!(f, "{}: {}", self.file, self.message),
        }
    }
}

impl std::error::Error for InputError {}

/// How to read a file.
#[derive(Clone, Copy, Debug)]
pub struct Reading<'a> {
    /// Its name in messages.
    pub file: &'a str,
    /// The size of a block in bytes.
    pub block: NonZeroU64,
    /// Columns to ignore.
    pub ignored: &'a [String],
}

impl<'a> Reading<'a> {
    /// A file of that name, in blocks of one byte, with all its columns.
    pub fn of(file: &'a str) -> Self {
        Self { file, block: NonZeroU64::MIN, ignored: &[] }
    }
}

/// Refuses a name in a list of servers that looks like several names separated by something other than |.
fn check_replica(name: &str) -> Result<(), String> {
    let is_likely = |c: char| matches!(c, ';' | ',') || c.is_whitespace();
    match name.trim().find(is_likely) {
        Some(_) if name == name.trim() && !name.contains('\n') => Err(format!(
            "`{}` looks like several servers; write | between them, as in s0|s1",
            evenkeel::model::shown(name)
        )),
        _ => Ok(()),
    }
}

/// The byte order mark that some editors put before UTF-8.
const BOM: &[u8] = b"\xEF\xBB\xBF";

/// Skips a byte order mark. The first three bytes of `reader` must be in its buffer, where [`read_batch`] puts them.
fn skip_bom(reader: &mut impl BufRead) -> io::Result<()> {
    if reader.fill_buf()?.starts_with(BOM) {
        reader.consume(BOM.len());
    }
    Ok(())
}
