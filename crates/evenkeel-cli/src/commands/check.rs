//! `evenkeel check`: verifies a plan, and the proof in its summary, from scratch.

use std::io;
use std::path::Path;

use anyhow::{Context, Result, bail};
use evenkeel::bound::Bound;
use evenkeel::check::{self, Measures, Subject};
use evenkeel::lead::Changed;
use evenkeel::model::{Fixed, Ratio, ServerId, Transfer};
use evenkeel::plan::meets;
use evenkeel::policy::{self, Kind};
use evenkeel_formats::{self as formats, Bottleneck, Changes, Figure, Input, Summary};
use serde::Serialize;
use serde_json::{Value, json};

use super::Outcome;
use crate::cli::CheckArgs;
use crate::input::{Source, read_input};
use crate::output::print;
use crate::text::{counted, figure};
use crate::units::Units;

pub(super) fn run(mut args: CheckArgs) -> Result<Outcome> {
    // With storage in place of the batch, the only file is the plan.
    let plan = args.plan.take().or_else(|| args.input.batch.take()).context("name the plan to verify")?;
    let args = &args;
    let stdin = Path::new("-");
    let others = [Some(plan.as_path()), args.summary.as_deref()];
    let n_stdin =
        args.input.paths().into_iter().chain(others.into_iter().flatten()).filter(|p| *p == stdin).count();
    if n_stdin > 1 {
        bail!("standard input can only be read once; name a file for the batch, the plan or the summary");
    }
    let mut input = read_input(&args.input)?;
    let summary = args.summary.as_deref().map(Source::open).transpose()?;
    let summary = summary.map(|source| formats::read_summary(source.reader, &source.name)).transpose()?;
    if let Some(summary) = &summary {
        // The limit of the plan is in the summary, so it need not be given again.
        if args.input.max_concurrent.is_none() && summary.max_concurrent.is_some() {
            input.cluster = input.cluster.limited(&input.batch, summary.max_concurrent)?;
        }
        if summary.batch_fingerprint != input.fingerprint() {
            bail!(
                "the summary is for another batch, other servers or clients, or another block size; give the inputs \
                 it was made from"
            );
        }
    }
    let Input { batch, cluster } = &input;
    let source = Source::open(&plan)?;
    let rows = formats::read_plan(source.reader, &args.input.reading(&source.name), batch)?;
    // In a plan without an order, all transfers must start at 0.
    let ordered = match &summary {
        Some(summary) if args.no_order && summary.length.is_some() => {
            bail!("the summary is for a plan with an order; leave out --no-order");
        }
        Some(summary) => summary.length.is_some(),
        None => !args.no_order,
    };
    let must_be_whole = args.whole || summary.as_ref().is_some_and(|summary| summary.whole);
    let result = check::plan(batch, cluster, &rows, ordered).and_then(|measures| {
        if must_be_whole {
            check::unsplit(batch, &rows)?;
        }
        Ok(measures)
    });
    let result = result.map_err(|fault| fault.to_string()).and_then(|measures| match &summary {
        Some(summary) => check_summary(args, &input, summary, measures, &rows).map(|()| measures),
        None => Ok(measures),
    });
    report(args, &input, ordered, summary.is_some(), &result)?;
    Ok(if result.is_ok() { Outcome::Done } else { Outcome::Failed })
}

fn check_summary(
    args: &CheckArgs,
    input: &Input,
    summary: &Summary,
    measures: Measures,
    rows: &[Transfer],
) -> Result<(), String> {
    let fingerprint = format!("{:016x}", Transfer::fingerprint(rows.iter().copied()));
    let Input { batch, cluster } = input;
    // The rounding of a start and an amount, nine decimals each, at the slowest server.
    let slowest = cluster.servers().iter().map(|server| server.speed.millionths()).min().unwrap_or(1);
    let forgiven = if cluster.is_slotted() { 0 } else { 1_000.max(4_000_000 / u128::from(slowest)) };
    let same = |what: &str, claimed: Figure, found: Figure| {
        if claimed.0.nanos().abs_diff(found.0.nanos()) <= forgiven {
            return Ok(());
        }
        Err(format!("the summary says {what} {}, but it is {}", figure(claimed.0), figure(found.0)))
    };
    let number = |n: u64| Figure(n.into());
    same("block", number(summary.block), number(args.input.block))?;
    same("requests", number(summary.requests), number(batch.n_requests() as u64))?;
    same("clients", number(summary.clients), number(batch.n_clients() as u64))?;
    same("servers", number(summary.servers), number(batch.n_servers() as u64))?;
    if summary.max_concurrent != cluster.max_concurrent() {
        return Err("the summary is of another limit on concurrent transfers".to_owned());
    }
    same("max load", summary.max_load, measures.max_load.into())?;
    if summary.bytes.is_some_and(|bytes| bytes != batch.total_bytes()) {
        return Err(format!("the summary has the wrong `bytes`; the batch has {}", batch.total_bytes()));
    }
    for (in_seconds, figure) in [
        (summary.length_seconds, summary.length),
        (summary.max_load_seconds, Some(summary.max_load)),
        (summary.lower_bound_seconds, Some(summary.lower_bound)),
    ] {
        if in_seconds.is_some() && (!cluster.is_in_seconds() || in_seconds != figure) {
            return Err("the summary is wrong about seconds".to_owned());
        }
    }
    let subject = match summary.length {
        Some(length) => {
            same("length", length, measures.length.into())?;
            Subject::Length
        }
        None => Subject::MaxLoad,
    };
    let proof = summary.bottleneck.to_proof(batch);
    let proof = proof.ok_or("the bottleneck names a server or client that the batch lacks")?;
    // The value of the bound is compared below, as precisely as printed figures allow.
    let bound = Bound { value: Ratio::ZERO, proof };
    let forced = check::bound(batch, cluster, &bound, subject).map_err(|fault| fault.to_string())?;
    if summary.bottleneck != Bottleneck::new(batch, cluster, &bound.proof, forced) {
        return Err("the requests or blocks of the bottleneck are not as the summary says".to_owned());
    }
    same("lower bound", summary.lower_bound, forced.proved.into())?;
    let kind = |name: &str| policy::find(name).map(|policy| policy.kind);
    let chooses = matches!(kind(&summary.policy), Some(Kind::Select(_) | Kind::Plan(_)));
    let has_order = summary.order.as_deref().is_some_and(|order| match kind(order) {
        Some(Kind::Order(_)) => true,
        Some(Kind::Plan(_)) => order == summary.policy,
        _ => false,
    });
    if !chooses || has_order != summary.length.is_some() {
        return Err("the summary names a policy or an order that there is not".to_owned());
    }
    let achieved = summary.length.unwrap_or(summary.max_load);
    if achieved < summary.lower_bound {
        return Err("the plan is shorter than its lower bound".to_owned());
    }
    // A choice has no length, but its policy's own order may have had one.
    let longest = summary.length.or(summary.compacted_length);
    if summary.compacted_length.is_some_and(|length| length < summary.lower_bound || Some(length) > longest) {
        return Err("the length of the lists is not between the lower bound and the length".to_owned());
    }
    let gap = summary.gap.unwrap_or(summary.computed_gap());
    if !gap.is_about(summary.computed_gap(), achieved) {
        return Err(format!(
            "the summary says gap {}, but it is {}",
            figure(gap.0),
            figure(summary.computed_gap().0)
        ));
    }
    if summary.optimal != meets(achieved.0.into(), summary.lower_bound.0.into()) {
        return Err("the summary is wrong about `optimal`".to_owned());
    }
    if let Some(changes) = &summary.changes {
        check_changes(input, changes, rows)?;
    }
    if summary.plan_fingerprint != fingerprint {
        return Err("the plan is valid, but not the one that the summary was made for".to_owned());
    }
    Ok(())
}

/// Recounts what is changed of who serves today, and what the prices prove.
fn check_changes(input: &Input, changes: &Changes, rows: &[Transfer]) -> Result<(), String> {
    let Input { batch, cluster } = input;
    let mut servers = vec![ServerId(0); batch.n_requests()];
    rows.iter().for_each(|row| servers[row.request as usize] = row.server);
    let changed = Changed::between(batch, &servers);
    if (changed.requests, formats::changed_bytes(batch, &servers)) != (changes.requests, changes.bytes) {
        return Err(format!("the summary is wrong about `changes`; there are {}", changed.requests));
    }
    let (cost, prices) = changes
        .proof(batch)
        .ok_or("the prices are for servers that the batch lacks, or for an unknown cost")?;
    // What is printed may be rounded down.
    let within = Figure(Fixed::from_nanos(changes.within.0.nanos() + 1).unwrap_or_default());
    if check::cost(batch, cluster, within.0.into(), &prices, cost) < changes.at_least {
        return Err("the prices do not prove that so many changes are needed".to_owned());
    }
    Ok(())
}

fn report(
    args: &CheckArgs,
    input: &Input,
    ordered: bool,
    with_summary: bool,
    result: &Result<Measures, String>,
) -> io::Result<()> {
    let units = Units::new(&input.batch, &input.cluster);
    let text = if args.json {
        match result {
            Ok(measures) => serde_json::to_string(&Object {
                format: 1,
                valid: true,
                length: ordered.then(|| measures.length.into()),
                max_load: measures.max_load.into(),
                length_seconds: units.seconds(measures.length.into()).filter(|_| ordered),
                max_load_seconds: units.seconds(measures.max_load.into()),
                proof_checked: with_summary,
            })?,
            Err(fault) => invalid_as_json(fault).to_string(),
        }
    } else {
        match result {
            Ok(measures) => {
                let requests = counted(input.batch.n_requests() as u64, "request");
                let length = match ordered {
                    true => format!("{requests} in {}", units.time(measures.length)),
                    false => format!("{requests} without an order"),
                };
                let proof = if with_summary { "; the proof of the lower bound holds" } else { "" };
                format!("valid: {length}, max load {}{proof}", units.exact(measures.max_load))
            }
            Err(fault) => format!("invalid: {fault}"),
        }
    };
    print(&(text + "\n"))
}

/// The report on a valid plan.
#[derive(Serialize)]
struct Object {
    format: u32,
    valid: bool,
    length: Option<Figure>,
    max_load: Figure,
    #[serde(skip_serializing_if = "Option::is_none")]
    length_seconds: Option<Figure>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_load_seconds: Option<Figure>,
    proof_checked: bool,
}

/// The report on an invalid plan.
pub(super) fn invalid_as_json(fault: &str) -> Value {
    json!({"format": 1, "valid": false, "fault": fault})
}
