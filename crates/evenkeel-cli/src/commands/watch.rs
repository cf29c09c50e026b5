//! Shows how a read goes on: as bars on a terminal, as JSON lines for programs, and in a trace.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use evenkeel_node::{Happening, Line, Share};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use serde::Serialize;

use crate::cli::GetArgs;
use crate::output::{Target, printable};

/// Seconds between two lines of progress.
const PROGRESS_EVERY: f64 = 0.5;
const TOTAL: &str = "{wide_bar} {bytes}/{total_bytes} {binary_bytes_per_sec} {eta} {msg}";
const SERVER: &str = "{wide_bar} {bytes}/{total_bytes} {binary_bytes_per_sec} {msg:32!}";

/// Watches a read.
pub(super) struct Watcher {
    bars: Option<Bars>,
    prints_json: bool,
    trace: Option<Trace>,
    /// When progress was last printed, and what there was since then.
    printed_at: f64,
    held: Option<Line<'static>>,
    /// The first error of standard output, after which nothing more is printed.
    error: Option<io::Error>,
}

impl Watcher {
    pub(super) fn new(args: &GetArgs) -> Result<Self> {
        let inputs =
            [args.source.files(&args.paths), args.servers.iter().map(PathBuf::as_path).collect()].concat();
        let trace = args.trace.as_deref().map(|path| Trace::create(path, &inputs)).transpose()?;
        // Lines that are read by a program have no bars among them.
        let bars = (!args.json).then(|| Bars::new(args.per_server));
        Ok(Self {
            bars,
            prints_json: args.json,
            trace,
            printed_at: f64::NEG_INFINITY,
            held: None,
            error: None,
        })
    }

    pub(super) fn on(&mut self, line: &Line<'_>) {
        if let Some(trace) = &mut self.trace {
            trace.write(line);
        }
        if let Some(bars) = &mut self.bars {
            bars.on(line);
        }
        if !self.prints_json || line.what.is_detail() {
            return;
        }
        if let Happening::Progress { received, servers } = &line.what {
            let what = Happening::Progress { received: *received, servers: servers.clone() };
            self.held = Some(Line { what, ..*line });
            if line.at < self.printed_at + PROGRESS_EVERY {
                return;
            }
            self.printed_at = line.at;
            self.print_held();
        } else {
            self.print_held();
            self.print(line);
        }
    }

    fn print(&mut self, line: &Line<'_>) {
        if self.error.is_none() {
            self.error = print_json(line).err();
        }
    }

    /// Prints the progress that it was too early to print.
    fn print_held(&mut self) {
        if let Some(line) = self.held.take() {
            self.print(&line);
        }
    }

    /// Removes the bars, and completes the trace.
    pub(super) fn finish(mut self) -> Result<()> {
        self.print_held();
        if let Some(bars) = &self.bars {
            bars.clear();
        }
        if let Some(error) = self.error.filter(|error| error.kind() != io::ErrorKind::BrokenPipe) {
            return Err(anyhow!("cannot write to standard output: {error}"));
        }
        self.trace.map_or(Ok(()), Trace::finish)
    }
}

/// Prints a value as one line of JSON, at once. Control characters are escaped, since a terminal would obey them.
pub(super) fn print_json(value: &impl Serialize) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{}", json(value)?)?;
    out.flush()
}

pub(super) fn json(value: &impl Serialize) -> io::Result<String> {
    let text = serde_json::to_string(value)?;
    if !text.contains(char::is_control) {
        return Ok(text);
    }
    let escaped = |c: char| if c.is_control() { format!("\\u{:04x}", c as u32) } else { c.to_string() };
    Ok(text.chars().map(escaped).collect())
}

/// A trace, written as the read goes on.
struct Trace {
    path: PathBuf,
    file: BufWriter<File>,
    /// The first error. The read goes on without a trace.
    error: Option<io::Error>,
}

impl Trace {
    fn create(path: &Path, inputs: &[&Path]) -> Result<Self> {
        let file = match Target::new(path, inputs)? {
            Target::Stdout => bail!("a trace cannot be written to standard output; name a file"),
            Target::Device(_, file) => file,
            Target::File(path) => {
                File::create(&path).with_context(|| format!("cannot write {}", path.display()))?
            }
        };
        Ok(Self { path: path.to_owned(), file: BufWriter::new(file), error: None })
    }

    fn write(&mut self, line: &Line<'_>) {
        if self.error.is_some() {
            return;
        }
        let written = json(line).and_then(|text| writeln!(self.file, "{text}"));
        // So that the trace of a process that is killed has nearly everything.
        let is_due = matches!(line.what, Happening::Progress { .. });
        let written = written.and_then(|()| if is_due { self.file.flush() } else { Ok(()) });
        self.error = written.err();
    }

    fn finish(mut self) -> Result<()> {
        let written = self.error.take().map_or_else(|| self.file.flush(), Err);
        // As text, because `main` takes a broken pipe to be standard output.
        written.map_err(|error| anyhow!("cannot write the trace {}: {error}", self.path.display()))
    }
}

/// Bars on standard error, drawn only if that is a terminal.
struct Bars {
    all: MultiProgress,
    total: ProgressBar,
    /// Whether each server has a bar of its own.
    per_server: bool,
    servers: Vec<ProgressBar>,
    missing: u64,
    names: Vec<String>,
    received: Vec<u64>,
    /// How long the plan takes at best, its bytes, when it was made, and what had been received then.
    bound: Option<(f64, u64, f64, u64)>,
}

impl Bars {
    fn new(per_server: bool) -> Self {
        let all = MultiProgress::new();
        let total = all.add(styled(0, TOTAL));
        Self {
            all,
            total,
            per_server,
            servers: Vec::new(),
            missing: 0,
            names: Vec::new(),
            received: Vec::new(),
            bound: None,
        }
    }

    fn on(&mut self, line: &Line<'_>) {
        match &line.what {
            Happening::Begun { missing, servers, .. } | Happening::Listed { missing, servers, .. } => {
                self.missing = *missing;
                self.total.set_length(*missing);
                for name in servers.iter().skip(self.names.len()) {
                    self.received.push(0);
                    self.names.push(name.clone());
                    if self.per_server {
                        let bar = self.all.insert_before(&self.total, styled(0, SERVER));
                        self.servers.push(bar.with_message(printable(name).into_owned()));
                    }
                }
            }
            Happening::Planned { bound, servers } => {
                let before = self.received.iter().sum();
                let planned: Option<u64> = servers.iter().map(|share| share.bytes).sum();
                let planned = planned.unwrap_or_else(|| self.missing.saturating_sub(before));
                self.bound = Some((*bound, planned, line.at, before));
                for ((bar, Share { bytes, .. }), received) in
                    self.servers.iter().zip(servers).zip(&self.received)
                {
                    bar.set_length(bytes.map_or(self.missing, |bytes| received + bytes));
                }
            }
            Happening::Measured { server, bytes, .. } => {
                if let Some(number) = self.names.iter().position(|name| name == server) {
                    self.received[number] += bytes;
                }
            }
            Happening::Progress { received, servers } => {
                self.received.clone_from(servers);
                self.total.set_length(self.missing.max(*received));
                self.total.set_position(*received);
                if let Some(share) = self.share_of_best(line.at, *received) {
                    self.total.set_message(format!("{:.0} % of the fastest possible", share * 100.0));
                }
                for (bar, &received) in self.servers.iter().zip(servers) {
                    bar.set_length(bar.length().unwrap_or(0).max(received));
                    bar.set_position(received);
                }
            }
            _ => {}
        }
    }

    /// How fast it is since it was planned, as a share of what the servers' rates allow.
    fn share_of_best(&self, at: f64, received: u64) -> Option<f64> {
        let (bound, planned, planned_at, before) = self.bound?;
        let done = received.saturating_sub(before);
        let took = at - planned_at;
        (took > 0.5 && planned > 0).then(|| (done as f64 / planned as f64 * bound / took).min(1.0))
    }

    fn clear(&self) {
        self.servers.iter().chain([&self.total]).for_each(ProgressBar::finish_and_clear);
        // Nothing is lost if a terminal is gone.
        let _ = self.all.clear();
    }
}

fn styled(length: u64, template: &str) -> ProgressBar {
    let bar = ProgressBar::new(length);
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
