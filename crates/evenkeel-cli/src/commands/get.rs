//! `evenkeel get`: reads a data set by a plan.

pub(super) mod ranks;
mod verify;

use std::collections::HashMap;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use evenkeel::policy::{self, POLICIES, Policy};
use evenkeel_formats::{Reading, read_servers};
use evenkeel_node::{FORMAT, KnownServer, Line, Options, Report, drives, get_while_listing};
use evenkeel_store::{Catalogue, State};
use serde::Serialize;
use tokio::sync::watch;

use super::watch::{Watcher, print_json};
use super::{Outcome, live};
use crate::cli::GetArgs;
use crate::input::Source;
use crate::output::{print, printable};
use crate::text::{count, counted, pairs, size, span, table};

/// Transfers at once from a server.
const MOST_SLOTS: u32 = 256;
/// Failures that are listed one by one.
const MOST_FAILURES: usize = 20;

pub(super) fn run(args: &GetArgs) -> Result<Outcome> {
    let Some((destination, sources)) = args.paths.split_last() else { bail!("name a folder to read into") };
    if destination.contains("://") {
        bail!("{destination}: the last argument is the folder to read into, on this machine");
    }
    if args.verify {
        return verify::run(args, sources, destination);
    }
    let options = Options {
        range_bytes: args.range,
        slots: args.slots,
        servers: known_servers(args.servers.as_deref())?,
        patience: Duration::from_secs(args.patience),
        overwrite: args.overwrite,
        policy: policy(&args.policy)?,
        rank: ranks::rank(args.rank, args.ranks, &|name| std::env::var(name).ok())?,
        limit: args.limit,
        ..Options::default()
    };
    let mut watcher = Watcher::new(args)?;
    let (stop, stopped) = watch::channel(false);
    stop_on_ctrl_c(stop, "stopping; the same command goes on from here");
    let (report, remarks) = live::runtime()?.block_on(async {
        let is_enough = |catalogue: &Catalogue| options.is_enough(catalogue, 0);
        let listing = live::listing(&args.source, sources, is_enough).await?;
        let is_complete = matches!(listing.borrow().state(), State::Complete);
        let mut watch = |line: &Line<'_>| watcher.on(line);
        let to = Path::new(destination);
        let report = get_while_listing(listing.clone(), to, &options, stopped, &mut watch).await?;
        let remarks = if is_complete { Vec::new() } else { listing.borrow().remarks().to_vec() };
        Ok::<_, anyhow::Error>((report, remarks))
    })?;
    let watched = watcher.finish();
    live::tell(remarks.iter().map(ToString::to_string))?;
    if args.json {
        print_json(&summary(&report)).or_else(unless_closed)?;
    } else {
        print(&told(&report))?;
    }
    watched?;
    Ok(match (report.was_stopped, report.failures.is_empty() && report.unlisted.is_none()) {
        (true, _) => Outcome::Interrupted,
        (_, true) => Outcome::Done,
        (_, false) => Outcome::Failed,
    })
}

/// The policy of this name, if one client can carry it out.
fn policy(name: &str) -> Result<&'static Policy> {
    let drivable = || POLICIES.iter().filter(|policy| drives(policy).is_ok());
    let policy = policy::find(name).with_context(|| super::unknown(name, "policy", drivable()))?;
    if let Err(why) = drives(policy) {
        let others: Vec<&str> = drivable().map(|policy| policy.name).collect();
        bail!("policy {name} cannot be carried out here: {why}; these can: {}", others.join(", "));
    }
    Ok(policy)
}

/// What a servers file says about rates and slots.
fn known_servers(path: Option<&Path>) -> Result<HashMap<String, KnownServer>> {
    let Some(path) = path else { return Ok(HashMap::new()) };
    let Source { name, reader } = Source::open(path)?;
    let servers = read_servers(reader, &Reading::of(&name))?;
    if servers.rates.is_empty() && !servers.has_slots {
        bail!("{name}: there is neither a column `rate`, such as 120MB/s, nor `slots`");
    }
    let known = |number: usize| KnownServer {
        rate: servers.rates.get(number).copied(),
        slots: servers.has_slots.then(|| servers.nodes[number].slots.min(MOST_SLOTS)),
    };
    Ok(servers.names.iter().enumerate().map(|(number, name)| (name.to_owned(), known(number))).collect())
}

/// Stops at the first Ctrl-C. The second ends the process.
pub(super) fn stop_on_ctrl_c(stop: watch::Sender<bool>, what: &'static str) {
    let handler = move || {
        if stop.send_replace(true) {
            std::process::exit(130);
        }
        let _ = writeln!(std::io::stderr(), "\n{what}");
    };
    // Without a handler, Ctrl-C just ends the process, and the journal has what was received.
    let _ = ctrlc::set_handler(handler);
}

/// It is no error if the reader has closed standard output.
pub(super) fn unless_closed(error: std::io::Error) -> std::io::Result<()> {
    if error.kind() == std::io::ErrorKind::BrokenPipe { Ok(()) } else { Err(error) }
}

/// The result, for machines.
#[derive(Serialize)]
struct Summary<'a> {
    format: u32,
    at: f64,
    event: &'static str,
    objects: usize,
    bytes: u64,
    kept: usize,
    unverified: usize,
    verified_in_transit: usize,
    resumed_bytes: u64,
    received_bytes: u64,
    failed: usize,
    interrupted: bool,
    damaged: &'a [String],
    failures: Vec<FailureSummary<'a>>,
    unlisted: Option<&'a str>,
    servers: Vec<ServerSummary<'a>>,
    seconds: Seconds,
}

#[derive(Serialize)]
struct FailureSummary<'a> {
    key: &'a str,
    why: &'a str,
}

#[derive(Serialize)]
struct ServerSummary<'a> {
    server: &'a str,
    rate: Option<u64>,
    bytes: u64,
    failures: u64,
    last_error: Option<&'a str>,
}

#[derive(Serialize)]
struct Seconds {
    all: f64,
    plan: f64,
}

fn summary(report: &Report) -> Summary<'_> {
    Summary {
        format: FORMAT,
        at: report.elapsed.as_secs_f64(),
        event: "summary",
        objects: report.n_objects,
        bytes: report.bytes,
        kept: report.n_kept,
        unverified: report.n_unverified,
        verified_in_transit: report.n_verified_in_transit,
        resumed_bytes: report.resumed_bytes,
        received_bytes: report.received_bytes,
        failed: report.failures.len(),
        interrupted: report.was_stopped,
        damaged: &report.damaged,
        failures: report.failures.iter().map(|f| FailureSummary { key: &f.key, why: &f.why }).collect(),
        unlisted: report.unlisted.as_deref(),
        servers: report
            .servers
            .iter()
            .map(|s| ServerSummary {
                server: &s.name,
                rate: s.rate,
                bytes: s.bytes,
                failures: s.n_failures,
                last_error: s.last_error.as_deref(),
            })
            .collect(),
        seconds: Seconds { all: report.elapsed.as_secs_f64(), plan: report.planning.as_secs_f64() },
    }
}

fn told(report: &Report) -> String {
    let elapsed_s = report.elapsed.as_secs_f64();
    let mut rows = vec![
        ("objects", count(report.n_objects as u64)),
        ("size", size(report.bytes as f64)),
        ("received", format!("{} in {}", size(report.received_bytes as f64), span(elapsed_s))),
    ];
    if elapsed_s > 0.0 {
        rows.push(("rate", format!("{}/s", size(report.received_bytes as f64 / elapsed_s))));
    }
    if report.n_kept > 0 {
        rows.push(("kept", format!("{}, there already", counted(report.n_kept as u64, "object"))));
    }
    if report.resumed_bytes > 0 {
        rows.push(("resumed", format!("{} from an earlier run", size(report.resumed_bytes as f64))));
    }
    if report.n_verified_in_transit > 0 {
        let objects = counted(report.n_verified_in_transit as u64, "object");
        rows.push(("verified", format!("{objects} on the way, by the checksums that their storage keeps")));
    }
    if report.n_unverified > 0 {
        let objects = counted(report.n_unverified as u64, "object");
        rows.push(("unverified", format!("{objects}, for want of a checksum")));
    }
    if report.was_stopped {
        rows.push(("stopped", "the same command goes on from here".to_owned()));
    }
    if !report.failures.is_empty() {
        rows.push(("missing", counted(report.failures.len() as u64, "object")));
    }
    if report.unlisted.is_some() {
        rows.push(("unlisted", "some objects, since the listing broke off".to_owned()));
    }
    let errors = report.servers.iter().filter_map(|server| server.last_error.as_deref());
    let mut lines: Vec<String> = errors.map(|error| format!("note: {error}")).collect();
    lines.extend(report.damaged.iter().map(|damaged| format!("damaged: {damaged}")));
    let failures = report.failures.iter().take(MOST_FAILURES);
    lines.extend(failures.map(|failure| format!("missing: {}: {}", failure.key, failure.why)));
    if report.failures.len() > MOST_FAILURES {
        lines.push(format!("and {} more", count((report.failures.len() - MOST_FAILURES) as u64)));
    }
    lines.extend(report.unlisted.iter().map(|why| format!("unlisted: {why}; the same command tries again")));
    let lines: String = lines.into_iter().map(|line| line + "\n").collect();
    printable(&(pairs(&rows) + "\n" + &servers(report) + &lines)).into_owned()
}

fn servers(report: &Report) -> String {
    let mut rows = vec![["server", "received", "rate", "failures"].map(str::to_owned).to_vec()];
    for server in &report.servers {
        let rate = server.rate.map_or("–".to_owned(), |rate| format!("{}/s", size(rate as f64)));
        rows.push(vec![server.name.clone(), size(server.bytes as f64), rate, count(server.n_failures)]);
    }
    table(&rows)
}
