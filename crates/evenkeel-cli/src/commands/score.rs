//! `evenkeel score`: how good is a plan or a policy.

use std::io::{self, Write};

use anyhow::Result;
use evenkeel::check;
use evenkeel::order;
use serde_json::json;

use super::plan::unordered;
use super::{Outcome, Task, in_words, ratio, require_equal_nodes, verified};
use crate::cli::ScoreArgs;
use crate::formats::{self, Bottleneck, Source};
use crate::text::{count, pairs};

pub(super) fn run(args: &ScoreArgs) -> Result<Outcome> {
    let task = Task::new(&args.policy)?;
    let input = formats::read_input(&args.input)?;
    require_equal_nodes(&input)?;
    let batch = input.batch;
    let ordered = task.order.is_some();
    let (rows, bound) = if let Some(plan) = &args.plan {
        let source = Source::open(plan)?;
        (formats::read_plan(source.reader, &source.name, &batch)?, None)
    } else {
        let (choice, bound) = task.select(&batch);
        let schedule =
            if ordered { order::colour::order(&batch, &choice) } else { unordered(&batch, &choice) };
        (schedule.transfers, bound)
    };
    let measures = match check::plan(&batch, &rows, ordered) {
        Ok(measures) => measures,
        Err(fault) => {
            writeln!(io::stdout(), "invalid: {fault}")?;
            return Ok(Outcome::Failed);
        }
    };
    let bound = task.bound(&batch, bound);
    let forced = verified(&batch, &bound, task.subject())?;
    let bottleneck = Bottleneck::new(&batch, &bound.proof, forced);
    let achieved = if ordered { measures.length } else { measures.max_load };
    let score = ratio(achieved, bound.value);
    let mut out = io::stdout().lock();
    if args.json {
        let policy = args.plan.is_none().then_some(task.policy.name);
        let object = json!({
            "format": 1,
            "policy": policy,
            "length": ordered.then_some(measures.length),
            "max_load": measures.max_load,
            "lower_bound": bound.value,
            "score": score,
            "bottleneck": bottleneck,
        });
        writeln!(out, "{object}")?;
        return Ok(Outcome::Done);
    }
    let what = if ordered { "length" } else { "max load" };
    let rows = [
        ("score", format!("{score:.4}")),
        (what, count(achieved)),
        ("lower bound", count(bound.value)),
        ("because", in_words(&bottleneck, batch.n_servers() as u64)),
    ];
    write!(out, "{}", pairs(&rows))?;
    Ok(Outcome::Done)
}
