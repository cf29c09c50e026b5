//! `evenkeel cat`: carries out the list of one process.

use std::collections::HashMap;
use std::fmt::Display;
use std::io::{self, BufRead, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use evenkeel_formats::{InputError, List, ListRow, Reading};
use evenkeel_node::{FORMAT, Part, PartError, PartReport, read_part};
use evenkeel_store::Catalogue;
use serde::Serialize;

use super::watch::json;
use super::{Outcome, live};
use crate::cli::CatArgs;
use crate::input::Source;
use crate::output::{printable, targets, tell, warn};
use crate::text::{count, counted, pairs, size, span, table};

pub(super) fn run(args: &CatArgs) -> Result<Outcome> {
    let inputs = [args.source.files(&args.sources), vec![&args.list]].concat();
    let [out] = targets([("--out", Some(args.out.as_path()))], &inputs)?;
    let list = Source::open(&args.list)?;
    let runtime = live::runtime()?;
    let catalogue = runtime.block_on(live::catalogue(&args.source, &args.sources))?;
    let mut carried_out = CarriedOut::new(args, &catalogue);
    carried_out.begin()?;
    let mut end = End::Complete;
    if let Some(out) = out {
        let written = out.write(|out| match runtime.block_on(carried_out.all(list, out)) {
            Err(End::Output(error)) => Err(error),
            Err(other) => {
                end = other;
                // A file is complete or absent.
                Err(io::Error::other("not everything was read"))
            }
            Ok(()) => Ok(()),
        });
        if matches!(end, End::Complete) {
            written?;
        }
    }
    let outcome = match end {
        End::Complete | End::Output(_) => Outcome::Done,
        End::List(error) => return Err(error.into()),
        End::Unreadable(why) => {
            writeln!(io::stderr(), "missing: {}", printable(&why))?;
            Outcome::Failed
        }
    };
    carried_out.finish()?;
    Ok(outcome)
}

/// How reading ended.
enum End {
    Complete,
    List(InputError),
    Unreadable(String),
    Output(io::Error),
}

/// What has been read so far.
struct CarriedOut<'a> {
    args: &'a CatArgs,
    catalogue: &'a Catalogue,
    objects: HashMap<String, usize>,
    servers: HashMap<&'a str, usize>,
    begun: Instant,
    n_rows: u64,
    n_failures: u64,
    verified_bytes: u64,
    bytes: Vec<u64>,
}

#[derive(Serialize)]
struct Line<T> {
    format: u32,
    at: f64,
    event: &'static str,
    #[serde(flatten)]
    what: T,
}

#[derive(Serialize)]
struct Begun<'a> {
    objects: usize,
    servers: &'a [String],
}

#[derive(Serialize)]
struct Read<'a> {
    task: &'a str,
    path: &'a str,
    start: u64,
    bytes: u64,
    servers: Vec<Sent<'a>>,
    seconds: f64,
    failures: Vec<String>,
}

#[derive(Serialize)]
struct Sent<'a> {
    server: &'a str,
    bytes: u64,
}

#[derive(Serialize)]
struct Summary<'a> {
    rows: u64,
    bytes: u64,
    verified_in_transit_bytes: u64,
    failures: u64,
    servers: Vec<Sent<'a>>,
    seconds: f64,
}

impl<'a> CarriedOut<'a> {
    fn new(args: &'a CatArgs, catalogue: &'a Catalogue) -> Self {
        let urls = catalogue.objects().map(|object| catalogue.url(&object).to_owned());
        Self {
            args,
            catalogue,
            objects: urls.zip(0..).collect(),
            servers: catalogue.servers().iter().map(String::as_str).zip(0..).collect(),
            begun: Instant::now(),
            n_rows: 0,
            n_failures: 0,
            verified_bytes: 0,
            bytes: vec![0; catalogue.servers().len()],
        }
    }

    /// Prints a line for programs, beside the data or where it does not go.
    fn say(&self, event: &'static str, what: impl Serialize) -> io::Result<()> {
        let at = self.begun.elapsed().as_secs_f64();
        let line = json(&Line { format: FORMAT, at, event, what })? + "\n";
        tell(&line, &[Some(self.args.out.as_path())])?;
        io::stdout().flush()
    }

    fn begin(&self) -> io::Result<()> {
        let begun = Begun { objects: self.catalogue.n_objects(), servers: self.catalogue.servers() };
        if self.args.json { self.say("begun", begun) } else { Ok(()) }
    }

    /// Reads all rows of a list, as they come.
    async fn all(&mut self, list: Source, out: &mut dyn Write) -> Result<(), End> {
        let Source { name, reader } = list;
        let mut list = List::open(reader as Box<dyn BufRead>, &Reading::of(&name)).map_err(End::List)?;
        while let Some(row) = list.next_row().map_err(End::List)? {
            let part = self.part(&row, &name).map_err(End::List)?;
            self.read(&row, &part, out).await?;
        }
        Ok(())
    }

    /// What a row asks for.
    fn part(&self, row: &ListRow, file: &str) -> Result<Part, InputError> {
        let refused = |why: &dyn Display| InputError::new(file, row.line, why);
        let remedy = "name the sources of which the list was made";
        let object = *self
            .objects
            .get(&row.path)
            .ok_or_else(|| refused(&format_args!("there is no object `{}`; {remedy}", row.path)))?;
        let (end, bytes) = (row.start + row.bytes, self.catalogue.bytes(object));
        if end > bytes {
            let why =
                format!("`{}` has {bytes} bytes, but the row ends at {end}; make the list anew", row.path);
            return Err(refused(&why));
        }
        let from = match row.from.as_str() {
            "" => None,
            name => Some(
                *self
                    .servers
                    .get(name)
                    .ok_or_else(|| refused(&format_args!("no server is called `{name}` there; {remedy}")))?,
            ),
        };
        Ok(Part { object, range: row.start..end, from })
    }

    async fn read(&mut self, row: &ListRow, part: &Part, out: &mut dyn Write) -> Result<(), End> {
        let begun = Instant::now();
        let patience = Duration::from_secs(self.args.patience);
        let mut sink = |chunk: &[u8]| out.write_all(chunk);
        let report =
            read_part(self.catalogue, part, patience, &mut sink).await.map_err(|error| match error {
                PartError::Sink(error) => End::Output(error),
                PartError::Unreadable(error) => End::Unreadable(format!("{}: {error}", row.task)),
            })?;
        out.flush().map_err(End::Output)?;
        self.count(part, &report);
        self.tell(row, &report, begun.elapsed()).map_err(End::Output)
    }

    fn count(&mut self, part: &Part, report: &PartReport) {
        self.n_rows += 1;
        self.n_failures += report.failures.len() as u64;
        report.servers.iter().for_each(|(server, bytes)| self.bytes[*server] += bytes);
        if self.catalogue.verifies(&self.catalogue.object(part.object)) {
            self.verified_bytes += part.range.end - part.range.start;
        }
    }

    fn tell(&self, row: &ListRow, report: &PartReport, elapsed: Duration) -> io::Result<()> {
        let failures = report.failures.iter().map(ToString::to_string);
        if !self.args.json {
            return failures.into_iter().try_for_each(|why| warn(&printable(&why)));
        }
        let sent = report.servers.iter().map(|&(server, bytes)| (server, bytes));
        self.say(
            "read",
            Read {
                task: &row.task,
                path: &row.path,
                start: row.start,
                bytes: row.bytes,
                servers: self.sent(sent),
                seconds: elapsed.as_secs_f64(),
                failures: failures.collect(),
            },
        )
    }

    fn sent(&self, bytes: impl Iterator<Item = (usize, u64)>) -> Vec<Sent<'a>> {
        bytes.map(|(server, bytes)| Sent { server: &self.catalogue.servers()[server], bytes }).collect()
    }

    fn finish(&self) -> io::Result<()> {
        let (seconds, bytes) = (self.begun.elapsed().as_secs_f64(), self.bytes.iter().sum());
        let sent = self.sent(self.bytes.iter().copied().enumerate().filter(|(_, bytes)| *bytes > 0));
        if self.args.json {
            let verified_in_transit_bytes = self.verified_bytes;
            let (rows, failures) = (self.n_rows, self.n_failures);
            let summary =
                Summary { rows, bytes, verified_in_transit_bytes, failures, servers: sent, seconds };
            return self.say("summary", summary);
        }
        let mut rows = vec![
            ("rows", count(self.n_rows)),
            ("received", format!("{} in {}", size(bytes as f64), span(seconds))),
        ];
        if self.verified_bytes > 0 {
            let verified = counted(self.verified_bytes, "byte");
            rows.push((
                "verified",
                format!("{verified} on the way, by the checksums that their storage keeps"),
            ));
        }
        if bytes > self.verified_bytes {
            let unverified = counted(bytes - self.verified_bytes, "byte");
            rows.push(("unverified", format!("{unverified}: their storage keeps no checksums of parts")));
        }
        let mut lines = vec![vec!["server".to_owned(), "bytes".to_owned()]];
        lines.extend(sent.iter().map(|sent| vec![sent.server.to_owned(), count(sent.bytes)]));
        let servers = if sent.is_empty() { String::new() } else { format!("\n{}", table(&lines)) };
        tell(&format!("{}{servers}", pairs(&rows)), &[Some(Path::new(&self.args.out))])
    }
}
