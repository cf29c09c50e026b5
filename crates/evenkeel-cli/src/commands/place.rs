//! `evenkeel place`: where writes go.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use evenkeel::draw::Seeded;
use evenkeel::model::{MemberId, NameTable, Server};
use evenkeel::observe::{Forget, HeatMap, ServerLog, Unit};
use evenkeel::place::two_choice::Probing;
use evenkeel::place::{Options, PlaceError, PlaceFn, Placer, Servers, Spread};
use evenkeel::policy::{Policy, placing};
use evenkeel_formats::{self as formats, Figure, InputError, Nodes, WritesInput};
use serde::Serialize;

use super::{Outcome, unknown};
use crate::cli::{ColumnArgs, PlaceArgs, ProbingArgs};
use crate::html;
use crate::input::Source;
use crate::output::{targets, tell};
use crate::plot::{self, Bar};
use crate::text::{bar, count, counted, mean, table};

/// The policy that every placement is compared with.
const BASELINE: &str = "rr";

/// The default number of writes in a window: that of paper 004.
const WINDOW: u64 = 200;
const MOST_SERVERS_SHOWN: usize = 24;
const MOST_SERVERS_DRAWN: usize = 400;
const BAR_WIDTH: usize = 40;

/// The result, for machines.
#[derive(Serialize)]
struct Object<'a> {
    format: u32,
    policy: &'a str,
    writes: usize,
    redirected: u64,
    probes: u64,
    max_load: u128,
    min_load: u128,
    mean_load: Figure,
    stddev_load: f64,
}

/// The places of all writes, and the resulting figures.
struct Placed {
    servers: Vec<MemberId>,
    n_redirected: u64,
    n_probes: u64,
    loads: Vec<u128>,
    spread: Spread,
}

pub(super) fn run(args: &PlaceArgs) -> Result<Outcome> {
    let (policy, place) = asked_for(&args.policy)?;
    refuse_ignored(args, policy)?;
    let inputs = [args.writes.as_path(), &args.servers];
    if inputs.iter().all(|path| *path == Path::new("-")) {
        bail!("-: standard input can only be read once; name a file for the other");
    }
    let outputs = [("--out", args.out.as_deref()), ("--html", args.html.as_deref())];
    let [out, page] = targets(outputs, &inputs)?;
    let nodes = read_servers(&args.servers, &args.columns)?;
    let source = Source::open(&args.writes)?;
    let input =
        formats::read_writes(source.reader, &args.columns.reading(&source.name), nodes.names.len() as u32)?;
    let backlogs: u128 = nodes.nodes.iter().map(|server| u128::from(server.backlog)).sum();
    let all_bytes = backlogs + u128::from(input.total_bytes) * u128::from(args.replicas);
    ensure!(
        u64::try_from(all_bytes).is_ok(),
        "{}: all copies and backlogs together exceed 64 bits; split the writes, or use a larger unit",
        source.name
    );
    let found = placed(place, args, &nodes, &input)?;
    if let Some(out) = out {
        out.write(|file| formats::write_places(&input, &nodes.names, &found.servers, file))?;
    }
    let Spread { max, min, mean, stddev } = found.spread;
    let object = Object {
        format: 1,
        policy: policy.name,
        writes: input.writes.len(),
        redirected: found.n_redirected,
        probes: found.n_probes,
        max_load: max,
        min_load: min,
        mean_load: mean.into(),
        stddev_load: stddev,
    };
    if let Some(page) = page {
        let text = as_page(&object, &nodes.names, &found);
        page.write(|file| file.write_all(text.as_bytes()))?;
    }
    let text = if args.json {
        serde_json::to_string(&object)? + "\n"
    } else {
        let (_, rr) = asked_for(BASELINE)?;
        for_people(&object, &nodes.names, &found, &placed(rr, args, &nodes, &input)?)
    };
    tell(&text, &[args.out.as_deref(), args.html.as_deref()])?;
    Ok(Outcome::Done)
}

/// Finds the policy of this name.
fn asked_for(name: &str) -> Result<(&'static Policy, PlaceFn)> {
    placing()
        .find(|(policy, _)| policy.is_called(name))
        .with_context(|| unknown(name, "policy", placing().map(|p| p.0)))
}

/// Refuses options that the policy would ignore.
fn refuse_ignored(args: &PlaceArgs, policy: &Policy) -> Result<()> {
    let ProbingArgs { share, in_flight, pre_assign } = args.probing;
    let by_log: &[&str] = &["mlml", "trh", "nltr"];
    for (option, is_given, policies) in [
        ("--levels", args.levels.is_some(), &["nltr"][..]),
        ("--threshold", args.threshold.is_some(), by_log),
        ("--window", args.window.is_some(), by_log),
        ("--resort", args.resort, by_log),
        ("--share", share.is_some(), &["two-choice"]),
        ("--in-flight", in_flight.is_some(), &["two-choice"]),
        ("--pre-assign", pre_assign, &["two-choice"]),
        ("--optimistic", args.optimistic, &["hm-lru"]),
    ] {
        ensure!(
            !is_given || policies.contains(&policy.name),
            "{option} is for {}, not for {}; leave it out",
            policies.join(", "),
            policy.name
        );
    }
    ensure!(
        !pre_assign || share.is_some() || in_flight.is_some(),
        "--pre-assign changes nothing without --share or --in-flight; give one of them, or leave it out"
    );
    Ok(())
}

/// Reads the servers of a file: at least one, with names that can be joined by `|`.
fn read_servers(path: &Path, columns: &ColumnArgs) -> Result<Nodes<Server>, InputError> {
    let source = Source::open(path)?;
    let nodes = formats::read_servers(source.reader, &columns.reading(&source.name))?;
    let error = |message: String| Err(InputError::new(&source.name, None, message));
    if let Some(name) = nodes.names.iter().find(|name| name.contains('|')) {
        return error(format!(
            "the server `{name}` has a | in its name, which stands between servers; rename it"
        ));
    }
    match nodes.nodes.len() {
        0 => error(PlaceError::NoServers.to_string()),
        _ => Ok(nodes),
    }
}

fn placed(place: PlaceFn, args: &PlaceArgs, nodes: &Nodes<Server>, input: &WritesInput) -> Result<Placed> {
    let probing = Probing {
        shared_writes: args.probing.share.unwrap_or(0),
        writes_in_flight: args.probing.in_flight.unwrap_or(0),
        pre_assign: args.probing.pre_assign,
    };
    let usual = Options::default();
    let options = Options {
        n_replicas: args.replicas,
        levels: args.levels.unwrap_or(usual.levels),
        threshold_bytes: args.threshold.unwrap_or(usual.threshold_bytes),
        resort: args.resort,
        probing,
        ..usual
    };
    let backlogs = nodes.nodes.iter().map(|server| server.backlog);
    let log = ServerLog::new(backlogs, Unit::default(), Forget::default());
    let heat = HeatMap::new(nodes.warmth.iter().copied(), args.optimistic);
    let mut placer = Placer::new(place, options, Servers { log, heat })?;
    let window = usize::try_from(args.window.unwrap_or(WINDOW)).unwrap_or(usize::MAX);
    let servers = placer.windows(&input.writes, window, &mut Seeded::new(args.seed))?;
    let loads = placer.servers().log.loads().to_vec();
    let spread = Spread::new(&loads);
    Ok(Placed { servers, n_redirected: placer.n_redirected(), n_probes: placer.n_probes(), loads, spread })
}

/// The servers to show: all in their order, or the fullest if there are more than `most`.
fn shown(loads: &[u128], most: usize) -> Vec<usize> {
    let mut servers: Vec<usize> = (0..loads.len()).collect();
    if servers.len() > most {
        servers.sort_by_key(|&server| std::cmp::Reverse(loads[server]));
        servers.truncate(most);
    }
    servers
}

fn for_people(object: &Object<'_>, names: &NameTable, found: &Placed, rr: &Placed) -> String {
    let Placed { servers, loads, .. } = found;
    let n_writes = object.writes as u64;
    let mut text = counted(n_writes, "write");
    let n_copies = servers.len() as u64 / n_writes.max(1);
    if n_copies > 1 {
        let _ = write!(text, " in {}", counted(n_copies, "copy"));
    }
    let redirected = count(found.n_redirected);
    let _ =
        write!(text, " on {}; {redirected} not on the default server", counted(loads.len() as u64, "server"));
    if found.n_probes > 0 {
        let _ = write!(text, "; {}", counted(found.n_probes, "probe"));
    }
    text.push_str(".\n\n");
    let mut rows =
        vec![["loads in bytes", "largest", "smallest", "mean", "std. deviation"].map(str::to_owned).to_vec()];
    let mut columns = vec![(object.policy, found.spread)];
    columns.extend((object.policy != BASELINE).then_some((BASELINE, rr.spread)));
    for (name, spread) in columns {
        let [max, min] = [spread.max, spread.min].map(|load| count(load as u64));
        rows.push(vec![name.to_owned(), max, min, mean(spread.mean.to_f64()), mean(spread.stddev)]);
    }
    text.push_str(&table(&rows));
    let servers = shown(loads, MOST_SERVERS_SHOWN);
    let n_more = loads.len() - servers.len();
    text.push_str(if n_more > 0 { "\nThe fullest servers:\n\n" } else { "\nEach server:\n\n" });
    let full = found.spread.max as u64;
    let name = |server: usize| names.name(server as u32);
    let width = servers.iter().map(|&server| name(server).chars().count()).max().unwrap_or(0);
    let digits = count(full).len();
    for server in servers {
        let load = loads[server] as u64;
        let bar = bar(load, full, BAR_WIDTH);
        let _ = writeln!(text, "  {:<width$}  {bar} {:>digits$}", name(server), count(load));
    }
    if n_more > 0 {
        let _ = writeln!(text, "  … and {} more", count(n_more as u64));
    }
    text
}

fn as_page(object: &Object<'_>, names: &NameTable, found: &Placed) -> String {
    let Placed { loads, spread, .. } = found;
    let header =
        ["policy", "writes", "redirected", "probes", "largest", "smallest", "mean", "std. deviation"];
    let row = vec![
        object.policy.to_owned(),
        count(object.writes as u64),
        count(found.n_redirected),
        count(found.n_probes),
        count(spread.max as u64),
        count(spread.min as u64),
        mean(spread.mean.to_f64()),
        mean(spread.stddev),
    ];
    let bar = |server: usize| Bar {
        name: names.name(server as u32),
        value: loads[server] as f64,
        margin: None,
        label: count(loads[server] as u64),
        is_best: false,
    };
    let servers = shown(loads, MOST_SERVERS_DRAWN);
    let bars: Vec<Bar<'_>> = servers.iter().map(|&server| bar(server)).collect();
    let caption = match loads.len() - servers.len() {
        0 => "Bytes on each server, what it had to write before included.".to_owned(),
        n_more => format!("Bytes on the fullest servers; {} more are left out.", count(n_more as u64)),
    };
    let body = html::table(&header, &[(false, row)])
        + "<h2>Loads of servers</h2>\n"
        + &plot::bars(&bars, Some((spread.mean.to_f64(), "mean")), &caption);
    html::page("Where writes go", &body)
}
