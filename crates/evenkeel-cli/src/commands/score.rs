//! `evenkeel score`: how good a plan is, or a policy, or what most systems do today.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Result, bail};
use evenkeel::bound::Bound;
use evenkeel::check::{self, Fault, Measures};
use evenkeel::model::{Ratio, Transfer};
use evenkeel::plan::{Made, Planner};
use evenkeel::select::nearest;
use evenkeel_formats::{self as formats, Bottleneck, Figure, Input};
use serde::Serialize;

use super::check::invalid_as_json;
use super::explain::advice::slots_hint;
use super::{Outcome, in_words, planner, planner_of, ratio, remark_on_hosts, warn_of_hosts};
use crate::cli::ScoreArgs;
use crate::input::{Source, read_input};
use crate::output::print;
use crate::text::{pairs, table};
use crate::units::Units;

/// What most systems do today.
const USUAL: [&str; 3] = ["first", "random", "nearest"];

/// The score, for machines.
#[derive(Serialize)]
struct Object {
    format: u32,
    policy: Option<&'static str>,
    length: Option<Figure>,
    max_load: Figure,
    lower_bound: Figure,
    #[serde(skip_serializing_if = "Option::is_none")]
    length_seconds: Option<Figure>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_load_seconds: Option<Figure>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lower_bound_seconds: Option<Figure>,
    score: f64,
    bottleneck: Bottleneck,
}

/// The scores of several policies, for machines: that of `optimal` first.
#[derive(Serialize)]
struct Scores {
    #[serde(flatten)]
    optimal: Object,
    policies: Vec<Row>,
    /// Requests without a copy that is known to be nearer than another.
    without_distance: usize,
}

#[derive(Serialize)]
struct Row {
    policy: &'static str,
    length: Option<Figure>,
    max_load: Figure,
    score: f64,
}

pub(super) fn run(args: &ScoreArgs) -> Result<Outcome> {
    let planner = &planner(&args.policy, None)?;
    let stdin = Path::new("-");
    if args.plan.as_deref() == Some(stdin) && args.input.paths().contains(&stdin) {
        bail!("standard input can only be read once; name a file for the batch or the plan");
    }
    let input = &read_input(&args.input)?;
    match (&args.plan, &args.policy.policy) {
        (Some(plan), _) => {
            let source = Source::open(plan)?;
            let rows = formats::read_plan(source.reader, &args.input.reading(&source.name), &input.batch)?;
            of_one(args, input, planner, &rows)
        }
        (None, Some(_)) => {
            warn_of_hosts(planner, input)?;
            of_one(args, input, planner, &planned(planner, input))
        }
        (None, None) => of_the_usual(args, input, planner),
    }
}

/// The plan that a planner makes.
fn planned(planner: &Planner<'_>, Input { batch, cluster }: &Input) -> Vec<Transfer> {
    let Made { ordered, .. } = planner.order(batch, cluster, planner.choose(batch, cluster));
    ordered.schedule.transfers
}

/// The figures of a plan, if it is valid.
fn measured(
    planner: &Planner<'_>,
    Input { batch, cluster }: &Input,
    rows: &[Transfer],
) -> Result<Measures, Fault> {
    let measures = check::plan(batch, cluster, rows, planner.order_policy().is_some())?;
    if planner.is_whole() {
        check::unsplit(batch, rows)?;
    }
    Ok(measures)
}

/// The figure that counts: the length of a plan, or without an order the time when its last server is done.
fn achieved(planner: &Planner<'_>, measures: &Measures) -> Ratio {
    if planner.order_policy().is_some() { measures.length } else { measures.max_load }
}

/// The bound on that figure, and what forces it.
fn proved(planner: &Planner<'_>, Input { batch, cluster }: &Input) -> Result<(Bound, Bottleneck)> {
    let (bound, forced) = planner.bound(batch, cluster, None)?;
    let bottleneck = Bottleneck::new(batch, cluster, &bound.proof, forced);
    Ok((bound, bottleneck))
}

fn invalid(args: &ScoreArgs, fault: &Fault) -> Result<Outcome> {
    let fault = fault.to_string();
    let json = args.json.then(|| invalid_as_json(&fault).to_string());
    print(&(json.unwrap_or_else(|| format!("invalid: {fault}")) + "\n"))?;
    Ok(Outcome::Failed)
}

fn object(
    planner: &Planner<'_>,
    policy: Option<&'static str>,
    measures: &Measures,
    bound: &Bound,
    bottleneck: Bottleneck,
    units: &Units,
) -> Object {
    let length = planner.order_policy().map(|_| measures.length.into());
    Object {
        format: 1,
        policy,
        length,
        max_load: measures.max_load.into(),
        lower_bound: bound.value.into(),
        length_seconds: length.and_then(|length| units.seconds(length)),
        max_load_seconds: units.seconds(measures.max_load.into()),
        lower_bound_seconds: units.seconds(bound.value.into()),
        score: ratio(achieved(planner, measures), bound.value),
        bottleneck,
    }
}

/// The score of one plan.
fn of_one(args: &ScoreArgs, input: &Input, planner: &Planner<'_>, rows: &[Transfer]) -> Result<Outcome> {
    let measures = match measured(planner, input, rows) {
        Ok(measures) => measures,
        Err(fault) => return invalid(args, &fault),
    };
    let (bound, bottleneck) = proved(planner, input)?;
    let units = Units::new(&input.batch, &input.cluster);
    let achieved = achieved(planner, &measures);
    if args.json {
        let policy = args.plan.is_none().then_some(planner.policy().name);
        let object = object(planner, policy, &measures, &bound, bottleneck, &units);
        print(&(serde_json::to_string(&object)? + "\n"))?;
        return Ok(Outcome::Done);
    }
    let score = ratio(achieved, bound.value);
    let what = if planner.order_policy().is_some() { "length" } else { "max load" };
    let mut rows = vec![
        ("score", format!("{score:.4}")),
        (what, units.time(achieved)),
        ("lower bound", units.exact(bound.value)),
        ("because", in_words(&bottleneck, input.batch.n_servers() as u64, &units)),
    ];
    rows.extend(slots_hint(input, &bound, &units).map(|hint| ("hint", hint)));
    print(&pairs(&rows))?;
    Ok(Outcome::Done)
}

/// The scores of what most systems do today, side by side.
fn of_the_usual(args: &ScoreArgs, input: &Input, planner: &Planner<'_>) -> Result<Outcome> {
    let Input { batch, cluster } = input;
    let optimal = match measured(planner, input, &planned(planner, input)) {
        Ok(measures) => measures,
        Err(fault) => return invalid(args, &fault),
    };
    let (bound, bottleneck) = proved(planner, input)?;
    let units = Units::new(batch, cluster);
    let row = |policy: &'static str, measures: &Measures| Row {
        policy,
        length: planner.order_policy().map(|_| measures.length.into()),
        max_load: measures.max_load.into(),
        score: ratio(achieved(planner, measures), bound.value),
    };
    let mut policies = Vec::new();
    for name in USUAL {
        let usual = planner_of(name, &args.policy, None)?;
        match measured(&usual, input, &planned(&usual, input)) {
            Ok(measures) => policies.push(row(name, &measures)),
            Err(fault) => return invalid(args, &fault),
        }
    }
    policies.push(row(planner.policy().name, &optimal));
    if args.json {
        let scores = Scores {
            optimal: object(planner, Some(planner.policy().name), &optimal, &bound, bottleneck, &units),
            policies,
            without_distance: nearest::n_without_distance(batch, cluster),
        };
        print(&(serde_json::to_string(&scores)? + "\n"))?;
        return Ok(Outcome::Done);
    }
    let (what, least) = match planner.order_policy().is_some() {
        true => ("length", format!("No plan ends before {}", units.time(bound.value))),
        false => {
            ("max load", format!("No choice has a smaller load than {}", units.load(cluster, bound.value)))
        }
    };
    let mut text = format!("{least}: {}.\n\n", in_words(&bottleneck, batch.n_servers() as u64, &units));
    let mut rows = vec![["policy", "score", what].map(str::to_owned).to_vec()];
    rows.extend(policies.iter().map(|row| {
        let achieved = row.length.unwrap_or(row.max_load);
        vec![row.policy.to_owned(), format!("{:.4}", row.score), units.short(achieved)]
    }));
    text.push_str(&table(&rows));
    if let Some(hint) = slots_hint(input, &bound, &units) {
        let _ = writeln!(text, "\nHint: {hint}.");
    }
    if let Some(remark) = remark_on_hosts(&USUAL, batch, cluster, planner.ask().ties) {
        let _ = writeln!(text, "\n{remark}");
    }
    print(&text)?;
    Ok(Outcome::Done)
}
