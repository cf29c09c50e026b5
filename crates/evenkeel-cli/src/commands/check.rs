//! `evenkeel check`: verify a plan, and the proof in its summary, from scratch.

use std::io;
use std::path::Path;

use anyhow::{Result, bail};
use evenkeel::check::{self, Measures, Subject};
use evenkeel::model::{Batch, Transfer};
use evenkeel::policy;
use serde_json::{Value, json};

use super::{Outcome, require_equal_nodes};
use crate::cli::CheckArgs;
use crate::formats::{self, Bottleneck, Source, Summary};
use crate::output::print;
use crate::text::{count, counted};

pub(super) fn run(args: &CheckArgs) -> Result<Outcome> {
    let stdin = Path::new("-");
    if args.plan == stdin && args.input.paths().contains(&stdin) {
        bail!("standard input can only be read once; name a file for the batch or the plan");
    }
    let input = formats::read_input(&args.input)?;
    require_equal_nodes(&input)?;
    let batch = input.batch;
    let summary = args.summary.as_deref().map(Source::open).transpose()?;
    let summary = summary.map(|source| formats::read_summary(source.reader, &source.name)).transpose()?;
    if let Some(summary) = &summary
        && summary.batch_fingerprint != format!("{:016x}", batch.fingerprint())
    {
        bail!("the summary is of another batch, or of another block size; give the batch it was made for");
    }
    let source = Source::open(&args.plan)?;
    let rows = formats::read_plan(source.reader, &source.name, &batch)?;
    // A plan without an order must show it: its transfers all start at 0.
    let ordered = match &summary {
        Some(summary) if args.no_order && summary.length.is_some() => {
            bail!("the summary is of a plan with an order; leave out --no-order");
        }
        Some(summary) => summary.length.is_some(),
        None => !args.no_order,
    };
    let result = check::plan(&batch, &rows, ordered).map_err(|fault| fault.to_string());
    let result = result.and_then(|measures| match &summary {
        Some(summary) => check_summary(args, &batch, summary, measures, &rows).map(|()| measures),
        None => Ok(measures),
    });
    report(args, &batch, ordered, summary.is_some(), &result)?;
    Ok(if result.is_ok() { Outcome::Done } else { Outcome::Failed })
}

fn check_summary(
    args: &CheckArgs,
    batch: &Batch,
    summary: &Summary,
    measures: Measures,
    rows: &[Transfer],
) -> Result<(), String> {
    let fingerprint = format!("{:016x}", Transfer::fingerprint(rows.iter().copied()));
    let same = |what: &str, claimed: u64, found: u64| {
        if claimed == found {
            return Ok(());
        }
        Err(format!("the summary says {what} {}, but it is {}", count(claimed), count(found)))
    };
    same("block", summary.block, args.input.block)?;
    same("requests", summary.requests, batch.n_requests() as u64)?;
    same("clients", summary.clients, batch.n_clients() as u64)?;
    same("servers", summary.servers, batch.n_servers() as u64)?;
    same("max load", summary.max_load, measures.max_load)?;
    let subject = match summary.length {
        Some(length) => {
            same("length", length, measures.length)?;
            Subject::Length
        }
        None => Subject::MaxLoad,
    };
    let bound = summary.bound(batch).ok_or("the bottleneck names a server or client that the batch lacks")?;
    let forced = check::bound(batch, &bound, subject).map_err(|fault| fault.to_string())?;
    if summary.bottleneck != Bottleneck::new(batch, &bound.proof, forced) {
        return Err("the requests or blocks of the bottleneck are not as the summary says".to_owned());
    }
    same("lower bound", summary.lower_bound, forced.proved)?;
    let known = |name: &str| policy::ORDERS.iter().any(|&(order, _)| order == name);
    let has_order = summary.order.as_deref().is_some_and(known);
    if policy::find(&summary.policy).is_none() || has_order != summary.length.is_some() {
        return Err("the summary names a policy or an order that there is not".to_owned());
    }
    let achieved = summary.length.unwrap_or(summary.max_load);
    if achieved < bound.value {
        return Err("the plan is shorter than its lower bound".to_owned());
    }
    if summary.optimal != (achieved == bound.value) {
        return Err("the summary is wrong about `optimal`".to_owned());
    }
    if summary.plan_fingerprint != fingerprint {
        return Err("the plan is valid, but not the one that the summary was made for".to_owned());
    }
    Ok(())
}

fn report(
    args: &CheckArgs,
    batch: &Batch,
    ordered: bool,
    with_summary: bool,
    result: &Result<Measures, String>,
) -> io::Result<()> {
    let text = if args.json {
        match result {
            Ok(measures) => json!({
                "format": 1,
                "valid": true,
                "length": ordered.then_some(measures.length),
                "max_load": measures.max_load,
                "proof_checked": with_summary,
            }),
            Err(fault) => invalid_as_json(fault),
        }
        .to_string()
    } else {
        match result {
            Ok(measures) => {
                let requests = counted(batch.n_requests() as u64, "request");
                let length = match ordered {
                    true => format!("{requests} in {}", counted(measures.length, "slot")),
                    false => format!("{requests} without an order"),
                };
                let proof = if with_summary { "; the proof of the lower bound holds" } else { "" };
                format!("valid: {length}, max load {}{proof}", count(measures.max_load))
            }
            Err(fault) => format!("invalid: {fault}"),
        }
    };
    print(&(text + "\n"))
}

/// What is printed of a plan that is not valid.
pub(super) fn invalid_as_json(fault: &str) -> Value {
    json!({"format": 1, "valid": false, "fault": fault})
}
