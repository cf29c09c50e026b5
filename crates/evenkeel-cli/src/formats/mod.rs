//! The fixed formats: batches, servers, clients, plans, summaries, queues, writes and tasks.
//!
//! Every reader takes any [`Read`], refuses what is wrong with an [`InputError`] that names the place and the
//! remedy, and never holds more than one record beside what it keeps.

mod advice;
mod assign_csv;
mod batch_csv;
mod batch_json;
pub mod import;
mod nodes;
mod numbers;
mod plan;
mod queue_csv;
mod steps_csv;
mod summary;
mod table;
mod writes_csv;

use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use evenkeel::model::{Batch, BatchBuilder, Client, Cluster, NameTable, Server};
use indicatif::{ProgressBar, ProgressStyle};

use crate::cli::{BatchArgs, ColumnArgs};
use crate::output::printable;

pub use advice::{Advice, AdviceFile, read_advice};
pub use assign_csv::{WorkInput, read_work, write_assignment};
pub use batch_csv::{read_batch_csv, write_batch_csv};
pub use batch_json::{read_batch_json, write_batch_json};
pub use nodes::{Nodes, read_clients, read_servers, write_clients, write_servers};
pub(crate) use numbers::{decimal, size};
pub use plan::{read_plan, write_plan};
pub use queue_csv::{QueueInput, read_queue, write_orders};
pub use steps_csv::write_steps;
pub use summary::{Bottleneck, Figure, Seconds, Summary, read_summary};
pub(crate) use table::quoted;
pub use writes_csv::{Objects, WritesInput, read_writes, write_places};

/// What is wrong with an input, and where.
#[derive(Debug, PartialEq, Eq)]
pub struct InputError {
    /// The file.
    pub file: String,
    /// The line, from 1, if it is about one.
    pub line: Option<u64>,
    /// What is wrong, and what to do.
    pub message: String,
}

impl InputError {
    pub(crate) fn new(file: &str, line: impl Into<Option<u64>>, message: impl fmt::Display) -> Self {
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

/// How a file is read.
#[derive(Clone, Copy, Debug)]
pub struct Reading<'a> {
    /// What it is called, in messages.
    pub file: &'a str,
    /// The bytes of a block, at least 1.
    pub block: u64,
    /// Columns to pass over.
    pub ignored: &'a [String],
}

impl<'a> Reading<'a> {
    /// A file of that name, in blocks of one byte, with all its columns.
    pub fn of(file: &'a str) -> Self {
        Self { file, block: 1, ignored: &[] }
    }

    /// The same without some columns.
    #[must_use]
    pub(crate) fn ignoring(self, columns: &'a ColumnArgs) -> Self {
        Self { ignored: &columns.ignore_columns, ..self }
    }
}

/// An input that was opened, and its name for messages.
pub(crate) struct Source {
    pub(crate) name: String,
    pub(crate) reader: Box<dyn BufRead>,
}

impl Source {
    /// Opens `path`, with a progress bar if it is long and somebody watches; `-` is standard input.
    pub(crate) fn open(path: &Path) -> Result<Self, InputError> {
        if path == Path::new("-") {
            let reader = Box::new(BufReader::with_capacity(BUFFER, io::stdin()));
            return Ok(Self { name: "standard input".to_owned(), reader });
        }
        let name = path.display().to_string();
        let cannot_read = |e: io::Error| InputError::new(&name, None, format!("cannot read it: {e}"));
        let file = File::open(path).map_err(cannot_read)?;
        let metadata = file.metadata().map_err(cannot_read)?;
        if metadata.is_dir() {
            return Err(InputError::new(&name, None, "is a folder; name a file"));
        }
        let reader: Box<dyn Read> = if metadata.len() > LONG_READ_BYTES {
            Box::new(progress_bar(metadata.len(), &name).wrap_read(file))
        } else {
            Box::new(file)
        };
        Ok(Self { name, reader: Box::new(BufReader::with_capacity(BUFFER, reader)) })
    }
}

const BUFFER: usize = 1 << 18;
/// Reading less is over before a bar could be seen.
const LONG_READ_BYTES: u64 = 32 << 20;

/// Drawn on standard error, and only if that is a terminal.
fn progress_bar(bytes: u64, name: &str) -> ProgressBar {
    let bar = ProgressBar::new(bytes).with_message(printable(&format!("reading {name}")).into_owned());
    match ProgressStyle::with_template("{msg} {wide_bar} {bytes}/{total_bytes} {eta}") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

/// A batch with what is known of its servers and clients.
#[derive(Debug)]
pub struct Input {
    /// The batch.
    pub batch: Batch,
    /// Its servers and clients.
    pub cluster: Cluster,
}

impl Input {
    /// Tells this input from others.
    pub fn fingerprint(&self) -> String {
        let mut fingerprint = self.batch.fingerprint();
        // Equal servers do not count, as there was nothing else once. Nor do hosts: no plan is right or wrong for them.
        let of_cluster = self.cluster.fingerprint();
        if of_cluster != Cluster::equal(&self.batch).fingerprint() {
            fingerprint ^= of_cluster.rotate_left(1);
        }
        format!("{fingerprint:016x}")
    }
}

/// Reads what is to be planned, or was: all requests are there at the start, as one job.
pub(crate) fn read_input(args: &BatchArgs) -> Result<Input, InputError> {
    let input = read_batch(args)?;
    let batch = &input.batch;
    let refused = |column: &str, why: &str| {
        let message = format!(
            "column `{column}`: {why}; `evenkeel simulate` heeds it, and --ignore-columns {column} passes it over"
        );
        Err(InputError::new(&args.batch.display().to_string(), None, message))
    };
    if batch.arrivals_ns().is_some_and(|arrivals| arrivals.iter().any(|&at| at != arrivals[0])) {
        return refused(
            "arrival",
            "requests arrive at different times, and a plan has all of them at the start",
        );
    }
    if batch.jobs().len() > 1 {
        return refused("job", "there are several jobs, and a plan takes all requests for one");
    }
    Ok(input)
}

/// The files that describe servers and clients, if they were given.
#[derive(Debug)]
pub(crate) struct Described {
    pub(crate) servers: Option<Nodes<Server>>,
    pub(crate) clients: Option<Nodes<Client>>,
}

/// Reads a batch, CSV or JSON by its first character, and the files that describe its servers and clients.
pub(crate) fn read_batch(args: &BatchArgs) -> Result<Input, InputError> {
    read_described_batch(args).map(|(input, _)| input)
}

/// The same, with all that these files say.
pub(crate) fn read_described_batch(args: &BatchArgs) -> Result<(Input, Described), InputError> {
    let from_stdin = args.paths().iter().filter(|path| **path == Path::new("-")).count();
    if from_stdin > 1 {
        return Err(InputError::new(
            "-",
            None,
            "standard input can only be read once; name a file for the others",
        ));
    }
    let servers = args.servers.as_deref().map(Source::open).transpose()?;
    let servers =
        servers.map(|source| read_servers(source.reader, &args.reading(&source.name))).transpose()?;
    let clients = args.clients.as_deref().map(Source::open).transpose()?;
    let clients =
        clients.map(|source| read_clients(source.reader, &args.reading(&source.name))).transpose()?;
    let declared = Declared {
        servers: servers.as_ref().map(|servers| servers.names.clone()),
        clients: clients.as_ref().map(|clients| clients.names.clone()),
    };
    let Source { name, reader } = Source::open(&args.batch)?;
    let (is_json, reader) = sniff(reader, &name)?;
    let batch = if is_json {
        read_batch_json(reader, &args.reading(&name), declared)?
    } else {
        read_batch_csv(reader, &args.reading(&name), declared)?
    };
    let described = Described { servers, clients };
    let cluster = cluster_of(&batch, &described, args)?;
    Ok((Input { batch, cluster }, described))
}

fn cluster_of(batch: &Batch, described: &Described, args: &BatchArgs) -> Result<Cluster, InputError> {
    let Described { servers, clients } = described;
    let nodes_of_servers =
        servers.as_ref().map_or_else(|| vec![Server::default(); batch.n_servers()], |s| s.nodes.clone());
    let nodes_of_clients =
        clients.as_ref().map_or_else(|| vec![Client::default(); batch.n_clients()], |c| c.nodes.clone());
    let described_in = [&args.servers, &args.clients].into_iter().flatten().next();
    let cluster = Cluster::new(batch, nodes_of_servers, nodes_of_clients, args.max_concurrent)
        .map_err(|e| InputError::new(&described_in.unwrap_or(&args.batch).display().to_string(), None, e))?;
    let server_hosts = servers.iter().flat_map(|servers| &servers.hosts).map(String::as_str);
    let client_hosts = clients.iter().flat_map(|clients| &clients.hosts).map(String::as_str);
    let rates = servers.as_ref().map_or_else(Vec::new, |servers| servers.rates.clone());
    Ok(cluster.on_hosts(server_hosts, client_hosts).at_rates(rates))
}

/// Names that other files have fixed, with their order.
#[derive(Debug, Default)]
pub struct Declared {
    /// All servers that a batch may name.
    pub servers: Option<NameTable>,
    /// All clients that a batch may name.
    pub clients: Option<NameTable>,
}

impl Declared {
    fn builder(self, block: u64) -> BatchBuilder {
        let mut builder = BatchBuilder::in_blocks_of(block);
        // An empty builder names nobody, so nobody can be missing.
        let _ = self.servers.map(|names| builder.declare_servers(names));
        let _ = self.clients.map(|names| builder.declare_clients(names));
        builder
    }
}

/// Refuses a name in a list of servers that looks like several, with something else than | between them.
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

/// Whether the input is JSON, by its first character, and the input with all of it.
fn sniff(mut reader: Box<dyn BufRead>, name: &str) -> Result<(bool, Box<dyn BufRead>), InputError> {
    // A pipe may give it in small pieces, so the start is gathered first.
    const MOST: usize = 4096;
    let mut start = Vec::new();
    let first = loop {
        let text = start.strip_prefix(BOM).unwrap_or(&start);
        let first = text.iter().copied().find(|byte| !byte.is_ascii_whitespace());
        let may_become_bom = start.len() < BOM.len() && BOM.starts_with(&start);
        if first.is_some() && !may_become_bom || start.len() >= MOST {
            break first;
        }
        let chunk =
            reader.fill_buf().map_err(|e| InputError::new(name, None, format!("cannot read it: {e}")))?;
        if chunk.is_empty() {
            break first;
        }
        let n = chunk.len().min(MOST - start.len());
        start.extend_from_slice(&chunk[..n]);
        reader.consume(n);
    };
    Ok((
        first == Some(b'{'),
        Box::new(BufReader::with_capacity(BUFFER, io::Cursor::new(start).chain(reader))),
    ))
}

/// The mark that some editors put before UTF-8.
const BOM: &[u8] = b"\xEF\xBB\xBF";

/// The first three bytes of `reader` must be in its buffer, as [`sniff`] leaves them.
fn skip_bom(reader: &mut impl BufRead) -> io::Result<()> {
    if reader.fill_buf()?.starts_with(BOM) {
        reader.consume(BOM.len());
    }
    Ok(())
}
