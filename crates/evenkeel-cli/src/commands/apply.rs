//! `evenkeel apply`: follows a piece of advice of `explain` and writes the new batch, servers and clients.

use anyhow::{Context, Result, bail, ensure};
use evenkeel::explain::Change;
use evenkeel::model::{Client, Ratio, Server, Speed};
use evenkeel::select::{Goal, optimal};
use evenkeel_formats::{self as formats, Advice, AdviceFile, Described, Figure, Input, InputError, Nodes};
use serde::Serialize;

use super::Outcome;
use crate::cli::{ApplyArgs, BatchFormat};
use crate::input::{Source, read_described_batch};
use crate::output::{targets, tell};
use crate::units::Units;

/// What was done, for machines.
#[derive(Serialize)]
struct Object<'a> {
    format: u32,
    advice: &'a str,
    subject: &'a str,
    requests: usize,
    clients: usize,
    servers: usize,
    lower_bound_before: Figure,
    lower_bound: Figure,
}

pub(super) fn run(args: &ApplyArgs) -> Result<Outcome> {
    let stdin = std::path::Path::new("-");
    let inputs = [&args.input.paths()[..], &[args.advice.as_path()]].concat();
    if inputs.iter().filter(|path| **path == stdin).count() > 1 {
        bail!("-: standard input can only be read once; name a file for the others");
    }
    let outputs = [
        ("--out", args.out.as_deref()),
        ("--servers-out", args.servers_out.as_deref()),
        ("--clients-out", args.clients_out.as_deref()),
    ];
    let [out, servers_out, clients_out] = targets(outputs, &inputs)?;
    let source = Source::open(&args.advice)?;
    let file = formats::read_advice(source.reader, &source.name)?;
    let advice =
        chosen(&file, args.take.as_deref()).map_err(|why| InputError::new(&source.name, None, why))?;
    let (input, described) = read_described_batch(&args.input)?;
    let unfit = |why: String| InputError::new(&source.name, None, format!("advice {}: {why}", advice.name));
    check_batch(&file, &input).map_err(unfit)?;
    let change = advice.to_change(&input.batch).map_err(unfit)?;
    check_outputs(args, &change)?;
    let (batch, cluster) = change.apply(&input.batch, &input.cluster).map_err(|e| unfit(e.to_string()))?;
    let goal = if file.subject == "length" { Goal::Length } else { Goal::MaxLoad };
    let bound = optimal::bound(&batch, &cluster, goal).value;
    let (promised, found) = (advice.lower_bound, Figure::from(bound));
    ensure!(
        promised.is_about(found, found),
        unfit(format!(
            "it promises a bound of {}, but the bound is {}; run explain again",
            promised.0, found.0
        ))
    );

    let changed = Changed::new(&input, described, &change)?;
    let after = Input { batch, cluster };
    if let Some(out) = out {
        out.write(|file| match args.format {
            BatchFormat::Csv => formats::write_batch_csv(&after.batch, file),
            BatchFormat::Json => formats::write_batch_json(&after.batch, file),
        })?;
    }
    if let Some(out) = servers_out {
        out.write(|file| formats::write_servers(&changed.servers, args.input.block, file))?;
    }
    if let Some(out) = clients_out {
        out.write(|file| formats::write_clients(&changed.clients, file))?;
    }
    let text = match args.json {
        true => serde_json::to_string(&object(&file, advice, &after, bound))? + "\n",
        false => for_people(&file, advice, &after, bound),
    };
    tell(&text, &outputs.map(|(_, path)| path))?;
    Ok(Outcome::Done)
}

/// The advice of this name, or the only one.
fn chosen<'a>(file: &'a AdviceFile, name: Option<&str>) -> Result<&'a Advice, String> {
    let all = || {
        let all =
            file.advice.iter().map(|advice| format!("{} (bound {})", advice.name, advice.lower_bound.0));
        all.collect::<Vec<_>>().join(", ")
    };
    match (name, &file.advice[..]) {
        (_, []) => Err("it has no advice: nothing lowers the bound".to_owned()),
        (None, [only]) => Ok(only),
        (None, _) => Err(format!("choose one with --take: {}", all())),
        (Some(name), advice) => advice.iter().find(|advice| advice.name == name).ok_or_else(|| {
            format!("there is no advice `{}`; the file has {}", evenkeel::model::shown(name), all())
        }),
    }
}

/// Checks that the advice is for this batch on this cluster, in blocks of this size.
fn check_batch(file: &AdviceFile, input: &Input) -> Result<(), String> {
    let block = input.batch.block_bytes();
    if file.block != block {
        return Err(format!("it uses blocks of {} bytes, not {block}; add --block {0}", file.block));
    }
    if file.batch_fingerprint != input.fingerprint() {
        return Err(
            "it is for another batch; give the batch, servers and clients that explain had".to_owned()
        );
    }
    Ok(())
}

/// Checks that everything that changes has an output.
fn check_outputs(args: &ApplyArgs, change: &Change) -> Result<()> {
    let missing =
        |what: &str, option: &str| format!("this advice changes the {what}; name a file with {option}");
    match change {
        Change::Copies(_) => args.out.as_ref().map(drop).with_context(|| missing("batch", "--out")),
        Change::Speed(..) => {
            args.servers_out.as_ref().map(drop).with_context(|| missing("servers", "--servers-out"))
        }
        Change::Slots(_) => {
            args.clients_out.as_ref().map(drop).with_context(|| missing("clients", "--clients-out"))
        }
        Change::Moves { new_client, .. } => {
            args.out.as_ref().with_context(|| missing("batch", "--out"))?;
            let must_be_described = new_client.is_some() && args.input.clients.is_some();
            ensure!(!must_be_described || args.clients_out.is_some(), missing("clients", "--clients-out"));
            Ok(())
        }
    }
}

/// The servers and clients after a change, with everything that is known about them.
struct Changed {
    servers: Nodes<Server>,
    clients: Nodes<Client>,
}

impl Changed {
    fn new(Input { batch, cluster }: &Input, described: Described, change: &Change) -> Result<Self> {
        let Described { servers, clients } = described;
        let servers =
            servers.unwrap_or_else(|| Nodes::new(batch.servers().clone(), cluster.servers().to_vec()));
        let clients =
            clients.unwrap_or_else(|| Nodes::new(batch.clients().clone(), cluster.clients().to_vec()));
        let mut changed = Self { servers, clients };
        match change {
            Change::Copies(_) => {}
            Change::Speed(server, speed) => {
                changed.servers.nodes[server.index()].speed = *speed;
                if let Some(rate) = changed.servers.rates.get_mut(server.index()) {
                    *rate = rate.saturating_mul(2);
                    let slots = cluster.server(*server).slots;
                    let is_double = Speed::of_rate(*rate, slots, batch.block_bytes()) == Ok(*speed);
                    ensure!(is_double, "the advice does not double the server's rate; run explain again");
                }
            }
            Change::Slots(slots) => {
                slots.iter().for_each(|&(client, slots)| changed.clients.nodes[client.index()].slots = slots);
            }
            Change::Moves { new_client, .. } => {
                new_client.iter().for_each(|name| changed.clients.push(name, Client::default()));
            }
        }
        Ok(changed)
    }
}

fn object<'a>(file: &'a AdviceFile, advice: &'a Advice, after: &Input, bound: Ratio) -> Object<'a> {
    Object {
        format: 1,
        advice: &advice.name,
        subject: &file.subject,
        requests: after.batch.n_requests(),
        clients: after.batch.n_clients(),
        servers: after.batch.n_servers(),
        lower_bound_before: file.lower_bound,
        lower_bound: bound.into(),
    }
}

fn for_people(file: &AdviceFile, advice: &Advice, after: &Input, bound: Ratio) -> String {
    let units = Units::new(&after.batch, &after.cluster);
    let what = match file.subject.as_str() {
        "length" => format!("no plan ends before {}", units.time(bound)),
        _ => format!("no choice has a smaller load than {}", units.load(&after.cluster, bound)),
    };
    format!("{} applied: {what}; it was {}.\n", advice.name, units.exact(file.lower_bound))
}
