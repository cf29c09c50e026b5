//! `evenkeel assign`: which process does each task, near its data.

mod hosts;
mod lists;
mod tasks;

use std::cmp::Reverse;
use std::fmt::Display;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use evenkeel::assign::{Assignment, Measures, ProcessId, Unfit};
use evenkeel::model::{Speed, shown};
use evenkeel::policy::{AssignFn, Policy, assignments};
use evenkeel_formats::{self as formats, InputError, Processes, WorkInput};
use serde::Serialize;

use self::lists::Lists;
use self::tasks::Splits;
use super::get::ranks;
use super::{Outcome, unknown};
use crate::cli::{AssignArgs, AssignFormat, RankName};
use crate::html;
use crate::input::Source;
use crate::output::{targets, tell};
use crate::plot::{self, Bar};
use crate::text::{count, counted, pairs};

/// More bars than this add no information.
const MOST_BARS: usize = 64;

/// The result, for machines.
#[derive(Serialize)]
struct Summary {
    format: u32,
    policy: &'static str,
    tasks: usize,
    processes: usize,
    local_bytes: u64,
    remote_bytes: u64,
    bound_local_bytes: u64,
    max_tasks: u64,
    min_tasks: u64,
    max_served_bytes: u64,
    /// Backlogs included, if any are given.
    #[serde(skip_serializing_if = "Option::is_none")]
    max_load_bytes: Option<u64>,
}

pub(super) fn run(args: &AssignArgs) -> Result<Outcome> {
    let asked = args.policy.as_deref().map(named).transpose()?;
    let is_auto = args.processes.as_deref() == Some(Path::new("auto"));
    let files = [&args.processes, &args.hosts, &args.inputs, &args.servers].map(Option::as_deref);
    let files = files.into_iter().flatten().filter(|path| !(is_auto && *path == Path::new("auto")));
    let sources = args.storage.source.files(&[]);
    let inputs: Vec<&Path> = args.tasks.as_deref().into_iter().chain(files).chain(sources).collect();
    if inputs.iter().filter(|path| **path == Path::new("-")).count() > 1 {
        bail!("-: standard input can only be read once; name files for the others");
    }
    let options = [
        ("--out", args.out.as_deref()),
        ("--splits", args.splits.as_deref()),
        ("--served", args.served.as_deref()),
        ("--html", args.html.as_deref()),
    ];
    let [out, splits_out, served_out, page] = targets(options, &inputs)?;
    args.lists.as_deref().map(lists::make_folder).transpose()?;
    let (tasks, splits) = opened(args)?;
    let file = tasks.name.clone();
    let (input, backlogs) = read(args, tasks, is_auto)?;
    let rank = args.rank.map(|rank| rank_of(rank, &input)).transpose()?;
    let (policy, assign) = asked.map_or_else(|| usual(&input), Ok)?;
    let found = assign(&input.work).map_err(|Unfit::SeveralInputs(task)| {
        let task = shown(input.tasks.name(task));
        let remedy = "take opass-multi or opass-exact";
        let message =
            format!("task `{task}` has several inputs, but opass-single allows one per task; {remedy}");
        InputError { file: file.clone(), line: None, message }
    })?;
    let measures = found.measures(&input.work);
    let loads: Vec<u64> = backlogs.iter().zip(&measures.served_bytes).map(|(a, b)| a + b).collect();
    let summary = Summary {
        format: 1,
        policy: policy.name,
        tasks: input.work.n_tasks(),
        processes: input.work.n_processes(),
        local_bytes: measures.local_bytes,
        remote_bytes: measures.remote_bytes,
        bound_local_bytes: found.bound_local_bytes,
        max_tasks: measures.max_tasks,
        min_tasks: measures.min_tasks,
        max_served_bytes: measures.max_served_bytes(),
        max_load_bytes: args.servers.as_ref().and_then(|_| loads.iter().copied().max()),
    };
    let lists = Lists { input: &input, found: &found, splits: splits.as_ref(), rank };
    if let Some(out) = out {
        out.write(|file| match args.format {
            AssignFormat::Csv => formats::write_assignment(&input, &found, rank, file),
            AssignFormat::Json => lists.write_json(file),
        })?;
    }
    if let Some((out, splits)) = splits_out.zip(splits.as_ref()) {
        out.write(|file| lists.write_splits(splits, args.format, file))?;
    }
    if let Some(folder) = &args.lists {
        lists.write_folder(folder)?;
    }
    if let Some(out) = served_out {
        out.write(|file| {
            writeln!(file, "server,backlog")?;
            let rows = input.servers.iter().map(formats::quoted).zip(&loads);
            rows.into_iter().try_for_each(|(server, load)| writeln!(file, "{server},{load}"))
        })?;
    }
    if let Some(out) = page {
        let page = page_of(&input, policy, &found, &measures);
        out.write(|file| file.write_all(page.as_bytes()))?;
    }
    let text = match args.json {
        true => serde_json::to_string(&summary)? + "\n",
        false => for_people(&input, policy, &found, &measures),
    };
    tell(&text, &options.map(|(_, path)| path))?;
    Ok(Outcome::Done)
}

/// The tasks, and where their inputs are if they are on real storage.
fn opened(args: &AssignArgs) -> Result<(Source, Option<Splits>)> {
    if let Some(file) = args.tasks.as_deref().filter(|path| !args.storage.is_storage(path)) {
        let for_storage = [("--inputs", args.inputs.is_some()), ("--splits", args.splits.is_some())];
        if let Some((option, _)) = for_storage.into_iter().find(|(_, is_given)| *is_given) {
            bail!(
                "{option} is for tasks on real storage, and {} is a file of tasks; leave it out",
                file.display()
            );
        }
        return Ok((Source::open(file)?, None));
    }
    let (source, splits) = tasks::listed(args)?;
    Ok((source, Some(splits)))
}

/// Reads tasks and processes, and what servers have to serve to others.
fn read(args: &AssignArgs, tasks: Source, is_auto: bool) -> Result<(WorkInput, Vec<u64>)> {
    let of_tasks = (tasks.reader, &args.columns.reading(&tasks.name));
    let on_hosts = match &args.hosts {
        _ if is_auto => Some(hosts::of_launcher(&variable)?),
        Some(path) => {
            let Source { name, mut reader } = Source::open(path)?;
            let mut text = String::new();
            reader.read_to_string(&mut text).with_context(|| format!("{name}: cannot read it"))?;
            Some(hosts::of_machine_file(&text).with_context(|| name)?)
        }
        None => None,
    };
    let mut input = match (on_hosts, &args.processes) {
        (Some(hosts), _) => formats::read_work_for::<&[u8]>(of_tasks, Processes::OnHosts(&hosts))?,
        (None, None) => formats::read_work_for::<&[u8]>(of_tasks, Processes::OnePerServer)?,
        (None, Some(path)) => {
            let processes = Source::open(path)?;
            formats::read_work(of_tasks, (processes.reader, &args.columns.reading(&processes.name)))?
        }
    };
    let mut backlogs = vec![0; input.servers.len()];
    if let Some(path) = &args.servers {
        let source = Source::open(path)?;
        let nodes = formats::read_servers(source.reader, &args.columns.reading(&source.name))?;
        // A server that is not named has nothing to serve to others, and its speed is 1.
        let mut rates = vec![Speed::ONE.millionths(); input.servers.len()];
        let mut is_named = vec![false; input.servers.len()];
        for (name, server) in nodes.names.iter().zip(&nodes.nodes) {
            if let Some(id) = input.servers.find(name) {
                is_named[id as usize] = true;
                backlogs[id as usize] = server.backlog;
                rates[id as usize] = server.speed.millionths().saturating_mul(server.slots.into());
            }
        }
        let refused = |error: &dyn Display| InputError::new(&source.name, None, error);
        if let Some(id) = is_named.iter().position(|is_named| !nodes.rates.is_empty() && !is_named) {
            let server = shown(input.servers.name(id as u32));
            let remedy = "add its row, or give speeds in place of rates";
            return Err(refused(&format_args!("there is no rate of server `{server}`; {remedy}")).into());
        }
        input.work = input
            .work
            .beside(backlogs.clone())
            .and_then(|work| work.at_rates(&rates))
            .map_err(|error| refused(&error))?;
    }
    Ok((input, backlogs))
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// The process that a rank names.
fn rank_of(rank: RankName, input: &WorkInput) -> Result<ProcessId> {
    let n = input.work.n_processes();
    let rank = match rank {
        RankName::Of(rank) => rank,
        RankName::Auto => {
            let found = ranks::launched(&variable)?.context(
                "--rank auto finds no rank: neither Open MPI, MPICH nor Slurm has started this process; name it by --rank",
            )?;
            ensure!(
                found.of as usize == n,
                "the launcher has started {} processes, but there are {n} here; name their hosts by --hosts",
                found.of
            );
            found.rank
        }
    };
    ensure!((rank as usize) < n, "there is no rank {rank} of {n}; ranks count from 0");
    Ok(ProcessId(rank))
}

fn named(name: &str) -> Result<(&'static Policy, AssignFn)> {
    let found = assignments().find(|(policy, _)| policy.is_called(name));
    found.with_context(|| unknown(name, "policy", assignments().map(|(policy, _)| policy)))
}

/// The default policy for such tasks.
fn usual(input: &WorkInput) -> Result<(&'static Policy, AssignFn)> {
    named(if input.work.is_single() { "opass-single" } else { "opass-multi" })
}

/// A share in percent. If the whole is 0, the share is 100 %.
fn percent(part: u64, whole: u64) -> String {
    let share = if whole == 0 { 1.0 } else { part as f64 / whole as f64 };
    format!("{:.1} %", 100.0 * share)
}

/// The figures, each with its name.
fn figures(input: &WorkInput, found: &Assignment, measures: &Measures) -> Vec<(&'static str, String)> {
    let total = input.work.total_bytes();
    let share = |bytes: u64| format!("{} ({})", counted(bytes, "byte"), percent(bytes, total));
    let tasks = match (measures.min_tasks, measures.max_tasks) {
        (least, most) if least == most => format!("{} a process", counted(most, "task")),
        (least, most) => format!("{} to {} a process", count(least), counted(most, "task")),
    };
    let n_servers = input.work.n_servers().max(1) as u64;
    let most = counted(measures.max_served_bytes(), "byte");
    vec![
        ("local", share(measures.local_bytes)),
        ("at most", share(found.bound_local_bytes)),
        ("remote", share(measures.remote_bytes)),
        ("evenness", tasks),
        ("served", format!("{most} by a server at most, {} on average", count(total / n_servers))),
    ]
}

fn what(input: &WorkInput, policy: &Policy) -> String {
    format!(
        "{} of {} for {}, assigned by {}.",
        counted(input.work.n_tasks() as u64, "task"),
        counted(input.work.n_inputs() as u64, "input"),
        counted(input.work.n_processes() as u64, "process"),
        policy.name
    )
}

fn for_people(input: &WorkInput, policy: &Policy, found: &Assignment, measures: &Measures) -> String {
    format!("{}\n\n{}", what(input, policy), pairs(&figures(input, found, measures)))
}

fn page_of(input: &WorkInput, policy: &Policy, found: &Assignment, measures: &Measures) -> String {
    let mut served: Vec<(&str, u64)> =
        input.servers.iter().zip(measures.served_bytes.iter().copied()).collect();
    let n_servers = served.len();
    if n_servers > MOST_BARS {
        served.sort_by_key(|&(_, bytes)| Reverse(bytes));
        served.truncate(MOST_BARS);
    }
    let bars: Vec<Bar> = served
        .iter()
        .map(|&(name, bytes)| Bar {
            name,
            value: bytes as f64,
            margin: None,
            label: count(bytes),
            is_best: false,
        })
        .collect();
    let mean = input.work.total_bytes() as f64 / n_servers.max(1) as f64;
    let rows: Vec<(bool, Vec<String>)> = figures(input, found, measures)
        .into_iter()
        .map(|(name, value)| (false, vec![name.to_owned(), value]))
        .collect();
    let shown = match n_servers > MOST_BARS {
        true => format!("Bytes that servers serve, those of the {MOST_BARS} with most; "),
        false => "Bytes that each server serves; ".to_owned(),
    };
    let body = format!(
        "<p>{}</p>\n<p class=\"soft\">{}: {} ({}).</p>\n{}<h2>Who serves how much</h2>\n{}\n",
        html::escaped(&what(input, policy)),
        policy.name,
        html::escaped(policy.summary),
        html::escaped(policy.source),
        html::table(&["", "bytes"], &rows),
        plot::bars(&bars, Some((mean, "mean")), &format!("{shown}the dashed line is the mean of all."))
    );
    html::page("Evenkeel: tasks assigned", &body)
}
