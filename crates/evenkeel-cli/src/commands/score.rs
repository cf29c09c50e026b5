//! `evenkeel score`: how good is a plan or a policy.

use std::path::Path;

use anyhow::{Result, bail};
use evenkeel::check;
use serde::Serialize;

use super::check::invalid_as_json;
use super::{Outcome, Task, in_words, ratio, verified};
use crate::cli::ScoreArgs;
use crate::formats::{self, Bottleneck, Figure, Input, Source};
use crate::output::print;
use crate::text::{figure, pairs};

/// The score, for machines.
#[derive(Serialize)]
struct Object {
    format: u32,
    policy: Option<&'static str>,
    length: Option<Figure>,
    max_load: Figure,
    lower_bound: Figure,
    score: f64,
    bottleneck: Bottleneck,
}

pub(super) fn run(args: &ScoreArgs) -> Result<Outcome> {
    let task = Task::new(&args.policy)?;
    let stdin = Path::new("-");
    if args.plan.as_deref() == Some(stdin) && args.input.paths().contains(&stdin) {
        bail!("standard input can only be read once; name a file for the batch or the plan");
    }
    let Input { batch, cluster } = &formats::read_input(&args.input)?;
    let ordered = task.order_name().is_some();
    let (rows, bound) = if let Some(plan) = &args.plan {
        let source = Source::open(plan)?;
        (formats::read_plan(source.reader, &source.name, batch)?, None)
    } else {
        let chosen = task.choose(batch, cluster);
        (task.order(batch, cluster, &chosen.choice, chosen.own_order).schedule.transfers, chosen.bound)
    };
    let checked = check::plan(batch, cluster, &rows, ordered).and_then(|measures| {
        if task.whole {
            check::unsplit(batch, &rows)?;
        }
        Ok(measures)
    });
    let measures = match checked {
        Ok(measures) => measures,
        Err(fault) => {
            let fault = fault.to_string();
            let json = args.json.then(|| invalid_as_json(&fault).to_string());
            print(&(json.unwrap_or_else(|| format!("invalid: {fault}")) + "\n"))?;
            return Ok(Outcome::Failed);
        }
    };
    let mut bound = task.bound(batch, cluster, bound);
    let forced = verified(batch, cluster, &mut bound, task.subject())?;
    let bottleneck = Bottleneck::new(batch, cluster, &bound.proof, forced);
    let achieved = if ordered { measures.length } else { measures.max_load };
    let score = ratio(achieved, bound.value);
    if args.json {
        let object = Object {
            format: 1,
            policy: args.plan.is_none().then_some(task.policy.name),
            length: ordered.then(|| measures.length.into()),
            max_load: measures.max_load.into(),
            lower_bound: bound.value.into(),
            score,
            bottleneck,
        };
        print(&(serde_json::to_string(&object)? + "\n"))?;
        return Ok(Outcome::Done);
    }
    let what = if ordered { "length" } else { "max load" };
    let rows = [
        ("score", format!("{score:.4}")),
        (what, figure(achieved.rounded())),
        ("lower bound", figure(bound.value.rounded())),
        ("because", in_words(&bottleneck, batch.n_servers() as u64)),
    ];
    print(&pairs(&rows))?;
    Ok(Outcome::Done)
}
