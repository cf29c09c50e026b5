//! `evenkeel plan`: choose a replica and a slot for every request.

use std::io::{self, Write};
use std::path::Path;
use std::time::Instant;

use anyhow::Result;
use evenkeel::check::Subject;
use evenkeel::model::Transfer;

use super::{Outcome, Task, in_words, require_equal_nodes, verified};
use crate::cli::PlanArgs;
use crate::formats::{self, Bottleneck, Seconds, Summary};
use crate::output::{Target, print};
use crate::text::{count, counted, pairs};

pub(super) fn run(args: &PlanArgs) -> Result<Outcome> {
    let task = Task::new(&args.policy)?;
    let inputs = args.input.paths();
    let out = args.out.as_deref().map(|path| Target::new(path, &inputs)).transpose()?;
    let mut seconds = Seconds::default();

    let start = Instant::now();
    let input = formats::read_input(&args.input)?;
    require_equal_nodes(&input)?;
    let batch = input.batch;
    seconds.read = start.elapsed().as_secs_f64();

    let start = Instant::now();
    let (choice, bound) = task.select(&batch);
    seconds.select = start.elapsed().as_secs_f64();
    let bound = task.bound(&batch, bound);
    let forced = verified(&batch, &bound, task.subject())?;

    let start = Instant::now();
    let max_load = choice.loads(&batch).into_iter().max().unwrap_or(0);
    let schedule = task.schedule(&batch, &choice);
    drop(choice);
    seconds.order = start.elapsed().as_secs_f64();

    let start = Instant::now();
    if let Some(out) = out {
        let rows = schedule.transfers.iter().copied();
        out.write(|file| formats::write_plan(&batch, rows, file))?;
    }
    seconds.write = start.elapsed().as_secs_f64();

    let length = task.order.map(|_| schedule.length);
    let plan_fingerprint = Transfer::fingerprint(schedule.transfers.iter().copied());
    let summary = Summary {
        format: 1,
        policy: task.policy.name.to_owned(),
        order: task.order.map(str::to_owned),
        seed: task.seed,
        block: args.input.block,
        requests: batch.n_requests() as u64,
        clients: batch.n_clients() as u64,
        servers: batch.n_servers() as u64,
        length,
        max_load,
        lower_bound: bound.value,
        optimal: length.unwrap_or(max_load) == bound.value,
        bottleneck: Bottleneck::new(&batch, &bound.proof, forced),
        batch_fingerprint: format!("{:016x}", batch.fingerprint()),
        plan_fingerprint: format!("{plan_fingerprint:016x}"),
        seconds,
    };
    let text = if args.json { serde_json::to_string(&summary)? + "\n" } else { for_people(&summary) };
    if args.out.as_deref() == Some(Path::new("-")) {
        io::stderr().write_all(text.as_bytes())?;
    } else {
        print(&text)?;
    }
    Ok(Outcome::Done)
}

fn for_people(summary: &Summary) -> String {
    let subject = if summary.length.is_some() { Subject::Length } else { Subject::MaxLoad };
    let (what, value) = match subject {
        Subject::Length => ("length", counted(summary.length.unwrap_or(0), "slot")),
        Subject::MaxLoad => ("max load", counted(summary.max_load, "block")),
    };
    let achieved = summary.length.unwrap_or(summary.max_load);
    let verdict = if summary.optimal {
        "yes, proved".to_owned()
    } else {
        format!("no, {:.2} times the bound", super::ratio(achieved, summary.lower_bound))
    };
    let mut rows = vec![
        ("requests", count(summary.requests)),
        ("clients", count(summary.clients)),
        ("servers", count(summary.servers)),
        ("policy", summary.policy.clone()),
        (what, value),
    ];
    if subject == Subject::Length {
        rows.push(("max load", counted(summary.max_load, "block")));
    }
    rows.push(("lower bound", count(summary.lower_bound)));
    rows.push(("because", in_words(&summary.bottleneck, summary.servers)));
    rows.push(("optimal", verdict));
    pairs(&rows)
}
