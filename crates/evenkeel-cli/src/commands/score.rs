//! `evenkeel score`: how good is a plan or a policy.

use anyhow::Result;
use evenkeel::check;
use serde_json::json;

use super::check::invalid_as_json;
use super::{Outcome, Task, in_words, ratio, require_equal_nodes, verified};
use crate::cli::ScoreArgs;
use crate::formats::{self, Bottleneck, Source};
use crate::output::print;
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
        (task.schedule(&batch, &choice).transfers, bound)
    };
    let measures = match check::plan(&batch, &rows, ordered) {
        Ok(measures) => measures,
        Err(fault) => {
            let fault = fault.to_string();
            let json = args.json.then(|| invalid_as_json(&fault).to_string());
            print(&(json.unwrap_or_else(|| format!("invalid: {fault}")) + "\n"))?;
            return Ok(Outcome::Failed);
        }
    };
    let bound = task.bound(&batch, bound);
    let forced = verified(&batch, &bound, task.subject())?;
    let bottleneck = Bottleneck::new(&batch, &bound.proof, forced);
    let achieved = if ordered { measures.length } else { measures.max_load };
    let score = ratio(achieved, bound.value);
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
        print(&format!("{object}\n"))?;
        return Ok(Outcome::Done);
    }
    let what = if ordered { "length" } else { "max load" };
    let rows = [
        ("score", format!("{score:.4}")),
        (what, count(achieved)),
        ("lower bound", count(bound.value)),
        ("because", in_words(&bottleneck, batch.n_servers() as u64)),
    ];
    print(&pairs(&rows))?;
    Ok(Outcome::Done)
}
