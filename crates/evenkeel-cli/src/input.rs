//! Input: files named on the command line, with a progress bar if reading takes long.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use anyhow::Result;
use evenkeel_formats::{self as formats, Described, Input, InputError};
use indicatif::{ProgressBar, ProgressStyle};

use crate::cli::BatchArgs;
use crate::output::printable;

const BUFFER: usize = 1 << 18;
/// A smaller input is read before a bar could be seen.
const LONG_READ_BYTES: u64 = 32 << 20;

/// An open input, and its name for messages.
pub(crate) struct Source {
    pub(crate) name: String,
    pub(crate) reader: Box<dyn BufRead>,
}

impl Source {
    /// Opens `path`, with a progress bar if it is long and somebody watches. `-` is standard input.
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

/// Drawn on standard error, and only if that is a terminal.
fn progress_bar(bytes: u64, name: &str) -> ProgressBar {
    let bar = ProgressBar::new(bytes).with_message(printable(&format!("reading {name}")).into_owned());
    match ProgressStyle::with_template("{msg} {wide_bar} {bytes}/{total_bytes} {eta}") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

/// Reads a batch to plan, or one that was planned: all requests are there at the start, as one job.
pub(crate) fn read_input(args: &BatchArgs) -> Result<Input> {
    let input = read_batch(args)?;
    let batch = &input.batch;
    let refused = |column: &str, why: &str| {
        let message = format!(
            "column `{column}`: {why}; use `evenkeel simulate`, or skip the column with --ignore-columns {column}"
        );
        Err(InputError::new(&args.name(), None, message).into())
    };
    if batch.arrivals_ns().is_some_and(|arrivals| arrivals.iter().any(|&at| at != arrivals[0])) {
        return refused(
            "arrival",
            "requests arrive at different times, but a plan has all of them at the start",
        );
    }
    // Where requests have a server today, jobs are the pools of groups that are all led at the same time.
    if batch.jobs().len() > 1 && !batch.has_current() {
        return refused("job", "there are several jobs, but a plan treats all requests as one");
    }
    Ok(input)
}

/// Reads a batch, CSV or JSON by its first character, or made of what is on real storage, and the files that describe its servers and clients.
pub(crate) fn read_batch(args: &BatchArgs) -> Result<Input> {
    read_described_batch(args).map(|(input, _)| input)
}

/// Like [`read_batch`], and also returns everything that these files say.
pub(crate) fn read_described_batch(args: &BatchArgs) -> Result<(Input, Described)> {
    let from_stdin = args.paths().iter().filter(|path| **path == Path::new("-")).count();
    if from_stdin > 1 {
        return Err(InputError::new(
            "-",
            None,
            "standard input can only be read once; name a file for the others",
        )
        .into());
    }
    let servers = args.servers.as_deref().map(Source::open).transpose()?;
    let servers = servers
        .map(|source| formats::read_servers(source.reader, &args.reading(&source.name)))
        .transpose()?;
    let clients = args.clients.as_deref().map(Source::open).transpose()?;
    let clients = clients
        .map(|source| formats::read_clients(source.reader, &args.reading(&source.name)))
        .transpose()?;
    let described = Described { servers, clients };
    let clients = described.clients.as_ref().map(|clients| &clients.names);
    let Source { name, reader } = args.storage.open_batch(args.batch.as_deref(), clients)?;
    let batch = formats::read_batch(reader, &args.reading(&name), described.declared())?;
    let cluster = described.cluster(&batch, args.max_concurrent).map_err(|error| {
        let described_in = [&args.servers, &args.clients].into_iter().flatten().next();
        let name = described_in.map_or_else(|| args.name(), |path| path.display().to_string());
        InputError::new(&name, None, error)
    })?;
    Ok((Input { batch, cluster }, described))
}
