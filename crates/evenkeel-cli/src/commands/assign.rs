//! `evenkeel assign`: which process does each task, near its data.

use std::cmp::Reverse;
use std::path::Path;

use anyhow::{Context, Result, bail};
use evenkeel::assign::{Assignment, Measures, Unfit};
use evenkeel::model::shown;
use evenkeel::policy::{AssignFn, Policy, assignments};
use evenkeel_formats::{self as formats, InputError, WorkInput};
use serde::Serialize;

use super::{Outcome, unknown};
use crate::cli::AssignArgs;
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
}

pub(super) fn run(args: &AssignArgs) -> Result<Outcome> {
    let asked = args.policy.as_deref().map(named).transpose()?;
    let inputs: Vec<&Path> = args.tasks.as_deref().into_iter().chain([args.processes.as_path()]).collect();
    if inputs.iter().filter(|path| **path == Path::new("-")).count() > 1 {
        bail!("-: standard input can only be read once; name a file for the tasks or the processes");
    }
    let outputs = [("--out", args.out.as_deref()), ("--html", args.html.as_deref())];
    let [out, page] = targets(outputs, &inputs)?;
    let (tasks, processes) =
        (args.storage.open_tasks(args.tasks.as_deref())?, Source::open(&args.processes)?);
    let input = formats::read_work(
        (tasks.reader, &args.columns.reading(&tasks.name)),
        (processes.reader, &args.columns.reading(&processes.name)),
    )?;
    let (policy, assign) = asked.map_or_else(|| usual(&input), Ok)?;
    let found = assign(&input.work).map_err(|Unfit::SeveralInputs(task)| {
        let task = shown(input.tasks.name(task));
        let remedy = "take opass-multi or opass-exact";
        let message =
            format!("task `{task}` has several inputs, but opass-single allows one per task; {remedy}");
        InputError { file: tasks.name.clone(), line: None, message }
    })?;
    let measures = found.measures(&input.work);
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
    };
    if let Some(out) = out {
        out.write(|file| formats::write_assignment(&input, &found, file))?;
    }
    if let Some(out) = page {
        let page = page_of(&input, policy, &found, &measures);
        out.write(|file| file.write_all(page.as_bytes()))?;
    }
    let text = match args.json {
        true => serde_json::to_string(&summary)? + "\n",
        false => for_people(&input, policy, &found, &measures),
    };
    tell(&text, &[args.out.as_deref(), args.html.as_deref()])?;
    Ok(Outcome::Done)
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
