//! `evenkeel collective`: in which order servers serve the requests of collective I/O.

use anyhow::{Context, Result, anyhow, bail};
use evenkeel::model::{NameTable, Ratio};
use evenkeel::policy::{Policy, queues};
use evenkeel::queue::{self, Collective, Discipline, Model, Options, Orders, mean_ns};
use evenkeel_formats::{self as formats, Figure, QueueInput, numbers};
use serde::Serialize;

use super::{Outcome, unknown};
use crate::cli::{CollectiveArgs, ModelName};
use crate::input::Source;
use crate::output::{Target, tell};
use crate::text::{count, counted, figure, table};

/// More applications than this add no information.
const MOST_APPS_SHOWN: usize = 24;

/// The result, for machines.
#[derive(Serialize)]
struct Object<'a> {
    format: u32,
    policy: &'a str,
    model: &'a str,
    requests: usize,
    servers: usize,
    #[serde(flatten)]
    found: &'a Times<'a>,
    sio: &'a Times<'a>,
    nio: &'a Times<'a>,
}

/// When applications are done.
#[derive(Serialize)]
struct Times<'a> {
    completions: Vec<Completion<'a>>,
    mean: Figure,
}

#[derive(Serialize)]
struct Completion<'a> {
    app: &'a str,
    completion: Figure,
}

impl<'a> Times<'a> {
    fn new(apps: &'a NameTable, collective: &Collective, orders: &Orders, model: Model) -> Self {
        // The core counts in billionths.
        let figure = |ns: Ratio| Figure::from(Ratio::new(ns.numerator(), ns.denominator() * 1_000_000_000));
        let done = collective.completions(orders, model);
        let completion =
            |(app, &done): (&'a str, &u128)| Completion { app, completion: figure(Ratio::new(done, 1)) };
        Self { completions: apps.iter().zip(&done).map(completion).collect(), mean: figure(mean_ns(&done)) }
    }
}

pub(super) fn run(args: &CollectiveArgs) -> Result<Outcome> {
    let (policy, discipline, options) = asked_for(args)?;
    let out = args.out.as_deref().map(|path| Target::new(path, &[&args.queue])).transpose()?;
    let source = Source::open(&args.queue)?;
    let input = formats::read_queue(source.reader, &args.columns.reading(&source.name))?;
    let QueueInput { apps, servers, collective } = &input;
    let orders = (discipline.order)(collective, &options);
    let times = |orders: &Orders| Times::new(apps, collective, orders, options.model);
    let found = times(&orders);
    let (sio, nio) = (times(&queue::sio::order(collective)), times(&queue::nio::order(collective)));
    if let Some(out) = out {
        out.write(|file| formats::write_orders(&input, &orders, file))?;
    }
    let object = Object {
        format: 1,
        policy: policy.name,
        model: options.model.name(),
        requests: collective.requests().len(),
        servers: servers.len(),
        found: &found,
        sio: &sio,
        nio: &nio,
    };
    let text =
        if args.json { serde_json::to_string(&object)? + "\n" } else { for_people(&object, options.model) };
    tell(&text, &[args.out.as_deref()])?;
    Ok(Outcome::Done)
}

/// The policy, and what it needs to know.
fn asked_for(args: &CollectiveArgs) -> Result<(&'static Policy, &'static Discipline, Options)> {
    let found = queues().find(|(policy, _)| policy.is_called(&args.policy));
    let (policy, discipline) =
        found.with_context(|| unknown(&args.policy, "policy", queues().map(|(policy, _)| policy)))?;
    let model = match args.model {
        ModelName::NoBarrier => Model::NoBarrier,
        ModelName::Barrier => Model::Barrier,
    };
    let mut options = Options { model, ..Options::default() };
    if let Some(text) = &args.threshold {
        if !discipline.has_threshold {
            bail!(
                "--threshold is for hio, hio-listing and hio-guarded, not for {}; leave it out",
                policy.name
            );
        }
        let threshold = numbers::decimal(text, "threshold").map_err(|e| anyhow!("--threshold: {e}"))?;
        options.threshold = threshold.into();
    }
    Ok((policy, discipline, options))
}

fn for_people(object: &Object, model: Model) -> String {
    let Object { found, sio, nio, .. } = object;
    let n_apps = found.completions.len();
    let mut columns = vec![(object.policy, *found)];
    columns.extend([("sio", *sio), ("nio", *nio)].into_iter().filter(|(name, _)| *name != object.policy));
    let mut rows = vec![vec!["app".to_owned()]];
    rows[0].extend(columns.iter().map(|(name, _)| (*name).to_owned()));
    rows[0].push("against sio".to_owned());
    let row = |name: &str, of: &dyn Fn(&Times) -> Figure| {
        let mut cells = vec![name.to_owned()];
        cells.extend(columns.iter().map(|(_, times)| figure(of(times).0)));
        cells.push(change(of(found), of(sio)));
        cells
    };
    for (k, Completion { app, .. }) in found.completions.iter().enumerate().take(MOST_APPS_SHOWN) {
        rows.push(row(app, &|times| times.completions[k].completion));
    }
    if n_apps > MOST_APPS_SHOWN {
        rows.push(vec![format!("… and {} more", count((n_apps - MOST_APPS_SHOWN) as u64))]);
    }
    rows.push(row("mean", &|times| times.mean));
    format!(
        "{} of {} on {}.\nWhen each application is done, {}:\n\n{}",
        counted(object.requests as u64, "request"),
        counted(n_apps as u64, "application"),
        counted(object.servers as u64, "server"),
        match model {
            Model::NoBarrier => "without a barrier (it shuffles what it has)",
            Model::Barrier => "with a barrier (it shuffles when it has everything)",
        },
        table(&rows)
    )
}

/// How much later or earlier.
fn change(found: Figure, sio: Figure) -> String {
    if found == sio {
        return "same".to_owned();
    }
    let ratio = Ratio::from(found.0).over(sio.0.into());
    format!("{:+.1} %", 100.0 * (ratio - 1.0))
}
