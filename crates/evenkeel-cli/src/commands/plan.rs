//! `evenkeel plan`: choose a replica and a slot for every request.

use std::time::Instant;

use anyhow::{Result, bail};
use evenkeel::check::{self, Subject};
use evenkeel::draw::Ties;
use evenkeel::lead::Wish;
use evenkeel::model::{self, Cluster, Ratio, Transfer};
use evenkeel::plan::Plan;
use evenkeel::policy::{Ask, SHORTEST};
use evenkeel_formats::{self as formats, Bottleneck, Changes, CurvePoint, Figure, Input, Seconds, Summary};

use super::explain::advice::slots_hint;
use super::{Outcome, in_words, planner, warn_of_hosts};
use crate::cli::PlanArgs;
use crate::input::read_input;
use crate::output::{targets, tell};
use crate::text::{count, pairs, size};
use crate::units::Units;

pub(super) fn run(args: &PlanArgs) -> Result<Outcome> {
    let wish = args.fewest.wish(args.input.block);
    let planner = planner(&args.policy, wish)?;
    let outputs = [("--out", args.out.as_deref()), ("--steps", args.steps.as_deref())];
    let [out, steps_out] = targets(outputs, &args.input.paths())?;
    let mut seconds = Seconds::default();

    let start = Instant::now();
    let input = read_input(&args.input)?;
    let Input { batch, cluster } = &input;
    seconds.read = start.elapsed().as_secs_f64();
    warn_of_hosts(&planner, &input)?;
    if wish.is_some() && !batch.has_current() {
        bail!("the fewest changes of what? Add a column `current` with the server of each request today");
    }

    let start = Instant::now();
    let chosen = planner.choose(batch, cluster);
    seconds.select = start.elapsed().as_secs_f64();
    let start = Instant::now();
    let made = planner.order(batch, cluster, chosen);
    seconds.order = start.elapsed().as_secs_f64();
    let plan = planner.prove(batch, cluster, made)?;
    let optimal = plan.is_optimal();
    let Plan { choice, ordered, bound, forced, lead, .. } = plan;
    let max_load = Figure::from(choice.last_done(batch, cluster));
    let schedule = &ordered.schedule;
    drop(choice);

    let start = Instant::now();
    if let Some(out) = out {
        let rows = schedule.transfers.iter().copied();
        out.write(|file| formats::write_plan(batch, rows, file))?;
    }
    if let Some(out) = steps_out {
        let steps = model::steps(batch, cluster, &schedule.transfers);
        out.write(|file| formats::write_steps(batch, &steps, file))?;
    }
    seconds.write = start.elapsed().as_secs_f64();

    let units = Units::new(batch, cluster);
    let (ask, order) = (planner.ask(), planner.order_policy());
    let length = order.map(|_| Figure::from(schedule.length));
    let lower_bound = Figure::from(bound.value);
    let plan_fingerprint = Transfer::fingerprint(schedule.transfers.iter().copied());
    let mut summary = Summary {
        format: 1,
        policy: planner.policy().name.to_owned(),
        order: order.map(|order| order.name.to_owned()),
        seed: ask.seed,
        block: args.input.block,
        requests: batch.n_requests() as u64,
        clients: batch.n_clients() as u64,
        servers: batch.n_servers() as u64,
        length,
        max_load,
        lower_bound,
        length_seconds: length.and_then(|length| units.seconds(length)),
        max_load_seconds: units.seconds(max_load),
        lower_bound_seconds: units.seconds(lower_bound),
        bytes: Some(batch.total_bytes()),
        optimal,
        bottleneck: Bottleneck::new(batch, cluster, &bound.proof, forced),
        gap: None,
        rounds: ordered.rounds.map(|(n_rounds, _)| n_rounds.into()),
        messages: ordered.messages,
        compacted_length: ordered.rounds.map(|(_, compacted)| compacted.into()),
        ties: (ask.ties == Ties::LowestId).then(|| "lowest".to_owned()),
        passes: (ask.passes != Ask::default().passes).then_some(ask.passes),
        bids: (ask.bids != Ask::default().bids).then_some(ask.bids),
        imbalance: (ask.imbalance != Ask::default().imbalance).then_some(ask.imbalance),
        max_concurrent: cluster.max_concurrent(),
        whole: planner.is_whole(),
        changes: lead.zip(wish).map(|(lead, Wish { cost, .. })| {
            let at_least = check::cost(batch, cluster, lead.target, &lead.prices, cost);
            Changes::new(batch, &lead, cost, at_least)
        }),
        batch_fingerprint: input.fingerprint(),
        plan_fingerprint: format!("{plan_fingerprint:016x}"),
        seconds,
    };
    summary.gap = Some(if optimal { Figure::default() } else { summary.computed_gap() });
    let text = if args.json {
        serde_json::to_string(&summary)? + "\n"
    } else {
        let hint = slots_hint(&input, &bound, &units);
        for_people(&summary, cluster, &units, hint)
    };
    tell(&text, &outputs.map(|(_, path)| path))?;
    Ok(Outcome::Done)
}

fn for_people(summary: &Summary, cluster: &Cluster, units: &Units, hint: Option<String>) -> String {
    let subject = if summary.length.is_some() { Subject::Length } else { Subject::MaxLoad };
    let (what, value) = match subject {
        Subject::Length => ("length", units.time(summary.length.unwrap_or_default())),
        Subject::MaxLoad => ("max load", units.load(cluster, summary.max_load)),
    };
    let achieved = summary.length.unwrap_or(summary.max_load);
    let verdict = if summary.optimal {
        "yes, proved".to_owned()
    } else {
        let ratio = Ratio::from(achieved.0).over(summary.lower_bound.0.into());
        format!(
            "not proved, {} or {:.2} % above the bound",
            units.exact(summary.computed_gap()),
            100.0 * (ratio - 1.0)
        )
    };
    let mut rows = vec![
        ("requests", count(summary.requests)),
        ("clients", count(summary.clients)),
        ("servers", count(summary.servers)),
        ("policy", summary.policy.clone()),
    ];
    // The policy's own order, or the default one, is not shown.
    let order = summary.order.clone().filter(|order| *order != summary.policy && !SHORTEST.is_called(order));
    rows.extend(order.map(|order| ("order", order)));
    rows.push((what, value));
    if subject == Subject::Length {
        rows.push(("max load", units.load(cluster, summary.max_load)));
    }
    rows.extend(summary.rounds.map(|n| ("rounds", count(n))));
    rows.extend(summary.compacted_length.map(|length| ("compacted", units.time(length))));
    rows.extend(summary.messages.map(|n| ("messages", count(n))));
    if let Some(changes) = &summary.changes {
        let what = format!("{} of {} requests", count(changes.requests), count(summary.requests));
        rows.push(("changes", format!("{what}; {}", fewest(changes, summary.block))));
        rows.push(("trade-off", trade_off(&changes.curve, summary.lower_bound)));
    }
    rows.push(("lower bound", units.exact(summary.lower_bound)));
    rows.push(("because", in_words(&summary.bottleneck, summary.servers, units)));
    rows.push(("optimal", verdict));
    rows.extend(hint.map(|hint| ("hint", hint)));
    pairs(&rows)
}

/// What is proved of the cost of a plan, as people read it.
pub(super) fn fewest(changes: &Changes, block: u64) -> String {
    if changes.fewest == "bytes" {
        let at_least = u128::from(changes.at_least) * u128::from(block);
        let bytes = size(changes.bytes as f64);
        return match at_least >= changes.bytes {
            true => format!("{bytes}, the fewest, proved"),
            false => format!("{bytes}; at least {} are needed", size(at_least as f64)),
        };
    }
    match changes.at_least >= changes.requests {
        true => "the fewest, proved".to_owned(),
        false => format!("at least {} are needed", count(changes.at_least)),
    }
}

/// How good a plan so many changes allow, as people read it.
pub(super) fn trade_off(curve: &[CurvePoint], bound: Figure) -> String {
    let point = |point: &CurvePoint| {
        let ratio = Ratio::from(point.max_load.0).over(bound.0.into());
        format!("{}: {ratio:.2} ×", count(point.requests))
    };
    curve.iter().map(point).collect::<Vec<_>>().join(", ")
}
