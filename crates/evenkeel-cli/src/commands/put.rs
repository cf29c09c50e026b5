//! `evenkeel put`: writes files into a cluster.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use evenkeel_node::write::{
    FileContent, Item, PutFailure, PutOptions, PutProgress, PutReport, PutServer, put,
};
use evenkeel_store::cluster::KeelAddress;
use evenkeel_store::{Folder, Source};
use futures_util::{StreamExt, stream};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use tokio::sync::watch;

use super::get::{stop_on_ctrl_c, unless_closed};
use super::watch::print_json;
use super::{Outcome, keel, live};
use crate::cli::PutArgs;
use crate::output::{print, printable, warn};
use crate::text::{count, counted, pairs, size, span, table};

const BAR: &str = "{wide_bar} {bytes}/{total_bytes} {binary_bytes_per_sec} {eta} {msg}";
/// The path that is standard input.
const STDIN: &str = "-";
/// Failures that are listed one by one.
const MOST_FAILURES: usize = 20;

pub(super) fn run(args: &PutArgs) -> Result<Outcome> {
    let Some((address, paths)) = args.paths.split_last() else { bail!("name an address to write to") };
    let address: KeelAddress = address
        .parse()
        .map_err(|why| anyhow::anyhow!("the last argument is the address to write to: {why}"))?;
    let reads_stdin = paths.iter().any(|path| path == STDIN);
    if reads_stdin && (paths.len() > 1 || is_prefix(&address)) {
        bail!("{STDIN}: standard input is one object; write it alone, to a name such as keel://bucket/key");
    }
    if args.offset.is_some() && (paths.len() > 1 || is_prefix(&address)) {
        bail!("--offset writes one file into one object; name it, as in keel://data/volume");
    }
    let (servers, replicas) = keel::open(&args.copies)?;
    let options = PutOptions {
        overwrite: args.overwrite,
        offset: args.offset,
        window: args.window as usize,
        window_time: Duration::from_millis(args.window_time),
        piece_bytes: args.piece,
        replicas,
        slots: args.slots as usize,
        threshold_bytes: args.threshold,
        resort: args.resort,
        completions: !args.no_completions,
        log: args.log.clone(),
        seed: args.seed.unwrap_or_else(rand_seed),
        ..PutOptions::new(args.placement)
    };
    // Until all of it is there, Ctrl-C just ends the process: half of an input is not written.
    let spooled = if reads_stdin { Some(spool()?) } else { None };
    let (stop, stopped) = watch::channel(false);
    stop_on_ctrl_c(stop, "stopping after what is under way; the same command goes on from here");
    let report = live::runtime()?.block_on(async {
        let (items, unreadable) = match &spooled {
            Some(file) => (vec![spooled_item(file, &address)?], Vec::new()),
            None => files(paths, &address).await?,
        };
        let total = items.iter().map(|item| item.content.bytes()).sum::<u64>() * u64::from(replicas);
        let bar = bar(total, args.json);
        let mut watch = |progress: &PutProgress<'_>| {
            bar.set_position(progress.bytes);
            bar.set_message(counted(progress.n_objects, "object"));
        };
        let items = stream::iter(items);
        let report = put(servers, &address.bucket, items, &options, stopped, &mut watch).await;
        bar.finish_and_clear();
        let mut report = report?;
        report.failures.extend(unreadable);
        Ok::<_, anyhow::Error>(report)
    })?;
    if let Some(error) = &report.log_error {
        warn(&format!("what was learnt is not kept: {error}"))?;
    }
    if args.json {
        print_json(&summary(args, &report)).or_else(unless_closed)?;
    } else {
        print(&told(args, &report))?;
    }
    Ok(match (report.was_stopped, report.failures.is_empty()) {
        (true, _) => Outcome::Interrupted,
        (_, true) => Outcome::Done,
        (_, false) => Outcome::Failed,
    })
}

/// A seed that is another one each time.
fn rand_seed() -> u64 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    RandomState::new().build_hasher().finish()
}

fn is_prefix(to: &KeelAddress) -> bool {
    to.key.is_empty() || to.key.ends_with('/')
}

/// Keeps standard input in a file, so that it can be sent as often as it takes. The file has no name: it is gone when the
/// process is.
fn spool() -> Result<File> {
    let file = tempfile::tempfile();
    let mut file =
        file.context("cannot keep standard input; set TMPDIR to a folder that can be written and has room")?;
    io::copy(&mut io::stdin().lock(), &mut file)
        .context("cannot keep standard input; set TMPDIR to a folder with room for all of it")?;
    Ok(file)
}

/// What was kept of standard input, as an object.
fn spooled_item(file: &File, to: &KeelAddress) -> Result<Item> {
    let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    let content = FileContent { path, bytes: file.metadata()?.len() };
    Ok(Item { key: to.key.clone(), content: Arc::new(content) })
}

/// The files at these paths with their names in the bucket, and what cannot be read.
async fn files(paths: &[String], to: &KeelAddress) -> Result<(Vec<Item>, Vec<PutFailure>)> {
    let (mut items, mut unreadable, mut keys) = (Vec::new(), Vec::new(), HashSet::new());
    let is_prefix = is_prefix(to);
    for path in paths {
        if path.contains("://") {
            bail!(
                "{path}: only files and folders of this machine are written; read addresses with evenkeel get first"
            );
        }
        let is_folder = Path::new(path).is_dir();
        if !is_prefix && (is_folder || paths.len() > 1) {
            bail!("{to}: several files need a prefix, which ends with a slash: {to}/");
        }
        let folder = Folder::new(path);
        let mut pages = folder.list();
        while let Some(page) = pages.next().await {
            let page = page?;
            for missing in page.unreadable {
                let why = missing.error.to_string();
                unreadable.push(PutFailure { key: format!("{}{}", to.key, missing.key), why });
            }
            for object in page.objects {
                let key = if is_prefix { format!("{}{}", to.key, object.key) } else { to.key.clone() };
                if key.starts_with(".evenkeel/") {
                    bail!(
                        "{}: names that begin with .evenkeel/ are not for objects of users",
                        object.address
                    );
                }
                if !keys.insert(key.clone()) {
                    bail!("{}: two files would be {key}; write them to different prefixes", object.address);
                }
                let content = FileContent { path: PathBuf::from(object.address), bytes: object.bytes };
                items.push(Item { key, content: Arc::new(content) });
            }
        }
    }
    if items.is_empty() && unreadable.is_empty() {
        bail!("there is no file to write in what was given");
    }
    items.sort_by(|a, b| a.key.cmp(&b.key));
    Ok((items, unreadable))
}

/// A bar on standard error, drawn only if that is a terminal.
fn bar(total: u64, is_json: bool) -> ProgressBar {
    let bar = if is_json { ProgressBar::hidden() } else { ProgressBar::new(total) };
    match ProgressStyle::with_template(BAR).context("the bar") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

/// The result, for machines.
#[derive(Serialize)]
struct Summary<'a> {
    format: u32,
    placement: &'a str,
    objects: u64,
    bytes: u64,
    kept: u64,
    redirected: u64,
    windows: u64,
    probes: u64,
    left_behind: u64,
    failed: usize,
    interrupted: bool,
    failures: Vec<FailureSummary<'a>>,
    servers: Vec<ServerSummary<'a>>,
    seconds: f64,
}

#[derive(Serialize)]
struct FailureSummary<'a> {
    key: &'a str,
    why: &'a str,
}

#[derive(Serialize)]
struct ServerSummary<'a> {
    server: &'a str,
    bytes: u64,
    pieces: u64,
    away: u64,
    bytes_per_second: Option<u64>,
    failures: u64,
    last_error: Option<&'a str>,
}

fn summary<'a>(args: &PutArgs, report: &'a PutReport) -> Summary<'a> {
    Summary {
        format: 1,
        placement: args.placement.policy.name,
        objects: report.n_written,
        bytes: report.bytes,
        kept: report.n_kept,
        redirected: report.n_redirected,
        windows: report.n_windows,
        probes: report.n_probes,
        left_behind: report.n_left_behind,
        failed: report.failures.len(),
        interrupted: report.was_stopped,
        failures: report.failures.iter().map(|f| FailureSummary { key: &f.key, why: &f.why }).collect(),
        servers: report
            .servers
            .iter()
            .map(|s| ServerSummary {
                server: &s.name,
                bytes: s.bytes,
                pieces: s.n_pieces,
                away: s.n_away,
                bytes_per_second: s.speed.map(|speed| speed as u64),
                failures: s.n_failures,
                last_error: s.last_error.as_deref(),
            })
            .collect(),
        seconds: report.elapsed.as_secs_f64(),
    }
}

fn told(args: &PutArgs, report: &PutReport) -> String {
    let seconds = report.elapsed.as_secs_f64();
    let mut rows =
        vec![("written", format!("{}, {}", counted(report.n_written, "object"), size(report.bytes as f64)))];
    if report.n_kept > 0 {
        rows.push(("were there", counted(report.n_kept, "object")));
    }
    rows.push((
        "redirected",
        format!("{} by {}", counted(report.n_redirected, "object"), args.placement.policy.name),
    ));
    if report.n_probes > 0 {
        rows.push(("probes", count(report.n_probes)));
    }
    if report.n_left_behind > 0 {
        rows.push((
            "left behind",
            format!("{}; evenkeel maintain deletes them", counted(report.n_left_behind, "old piece")),
        ));
    }
    rows.push(("time", format!("{}, {}/s", span(seconds), size(report.bytes as f64 / seconds.max(1e-9)))));
    if !report.failures.is_empty() {
        rows.push(("not written", counted(report.failures.len() as u64, "object")));
    }
    let mut text = pairs(&rows);
    text.push('\n');
    let heads = ["server", "bytes", "pieces", "for others", "one transfer", "failures"];
    let mut lines = vec![heads.map(str::to_owned).to_vec()];
    lines.extend(report.servers.iter().map(|server: &PutServer| {
        vec![
            printable(&server.name).into_owned(),
            size(server.bytes as f64),
            count(server.n_pieces),
            count(server.n_away),
            server.speed.map(|speed| format!("{}/s", size(speed))).unwrap_or_default(),
            count(server.n_failures),
        ]
    }));
    text.push_str(&table(&lines));
    for PutFailure { key, why } in report.failures.iter().take(MOST_FAILURES) {
        text.push_str(&printable(&format!("\n  {key}: {why}")));
    }
    match report.failures.len().saturating_sub(MOST_FAILURES) {
        0 => {}
        more => _ = write!(text, "\n  and {} more", count(more as u64)),
    }
    if !report.failures.is_empty() {
        text.push('\n');
    }
    text
}
