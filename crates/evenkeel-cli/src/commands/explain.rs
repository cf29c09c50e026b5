//! `evenkeel explain`: what limits a batch, and what would help.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;

use anyhow::Result;
use evenkeel::bound::Proof;
use evenkeel::check::Subject;
use evenkeel::explain::{CopyAdvice, Explanation, PERCENTS, explain};
use evenkeel::model::{ClientId, ExtraCopy, Ratio, Server, ServerId};
use evenkeel::select::{Goal, optimal};
use serde::Serialize;

use super::{Outcome, in_words, verified};
use crate::cli::ExplainArgs;
use crate::formats::{self, Bottleneck, Figure, Input};
use crate::output::{Target, tell};
use crate::text::{bar, count, some_of, table};
use crate::units::Units;

const BAR_WIDTH: usize = 40;
/// More bars than this tell no more.
const MOST_SERVERS_SHOWN: usize = 24;

pub(super) fn run(args: &ExplainArgs) -> Result<Outcome> {
    let out = args.out.as_deref().map(|path| Target::new(path, &args.input.paths())).transpose()?;
    let input = formats::read_input(&args.input)?;
    let (goal, subject) = match args.no_order {
        true => (Goal::MaxLoad, Subject::MaxLoad),
        false => (Goal::Length, Subject::Length),
    };
    let mut explanation = explain(&input.batch, &input.cluster, goal);
    let forced = verified(&input.batch, &input.cluster, &mut explanation.bound, subject)?;
    let proof = &explanation.bound.proof;
    let units = Units::new(&input.batch, &input.cluster);
    let bottleneck = Bottleneck::new(&input.batch, &input.cluster, proof, forced);
    let report = Report { loads: loads(&input, proof), units, input, explanation, bottleneck };
    if let Some(out) = out {
        out.write(|file| report.write_copies(file))?;
    }
    let text = match args.json {
        true => serde_json::to_string(&report.as_json(subject))? + "\n",
        false => report.for_people(subject),
    };
    tell(&text, &[args.out.as_deref()])?;
    Ok(Outcome::Done)
}

/// All of it, for machines.
#[derive(Serialize)]
struct Object<'a> {
    format: u32,
    subject: &'static str,
    requests: usize,
    clients: usize,
    servers: usize,
    lower_bound: Figure,
    #[serde(skip_serializing_if = "Option::is_none")]
    lower_bound_seconds: Option<Figure>,
    bytes: u128,
    bottleneck: &'a Bottleneck,
    one_more_copy: Vec<AdviceObject<'a>>,
    copy_of_everything: AdviceObject<'a>,
    twice_as_fast: Option<FasterObject<'a>>,
    loads: Vec<LoadObject<'a>>,
}

#[derive(Serialize)]
struct AdviceObject<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    percent: Option<u64>,
    reached: bool,
    lower_bound: Figure,
    #[serde(skip_serializing_if = "Option::is_none")]
    lower_bound_seconds: Option<Figure>,
    blocks: u64,
    bytes: u128,
    requests: u64,
    copies: Vec<CopyObject<'a>>,
}

#[derive(Serialize)]
struct CopyObject<'a> {
    request: u32,
    client: &'a str,
    from: &'a str,
    to: &'a str,
    blocks: u64,
}

#[derive(Serialize)]
struct FasterObject<'a> {
    server: &'a str,
    speed: Figure,
    lower_bound: Figure,
}

#[derive(Serialize)]
struct LoadObject<'a> {
    server: &'a str,
    blocks: u64,
    bytes: u128,
    done: Figure,
    #[serde(skip_serializing_if = "Option::is_none")]
    done_seconds: Option<Figure>,
    bottleneck: bool,
}

struct Report {
    input: Input,
    units: Units,
    explanation: Explanation,
    bottleneck: Bottleneck,
    loads: Vec<Load>,
}

/// What a server does in the most even plan.
struct Load {
    server: ServerId,
    blocks: u64,
    done: Ratio,
    is_bottleneck: bool,
}

fn loads(input: &Input, proof: &Proof) -> Vec<Load> {
    let Input { batch, cluster } = input;
    let (choice, _) = optimal::select(batch, cluster, Goal::Mean);
    let done = choice.done(batch, cluster);
    let loads = (0..).map(ServerId).zip(choice.loads(batch)).zip(done);
    let is_bottleneck =
        |server| matches!(proof, Proof::Servers(servers) if servers.binary_search(&server).is_ok());
    loads
        .map(|((server, blocks), done)| Load { server, blocks, done, is_bottleneck: is_bottleneck(server) })
        .collect()
}

impl Report {
    fn server(&self, id: ServerId) -> &str {
        self.input.batch.servers().name(id.0)
    }

    fn client(&self, id: ClientId) -> &str {
        self.input.batch.clients().name(id.0)
    }

    /// All copies, a row each.
    fn write_copies(&self, mut out: impl io::Write) -> io::Result<()> {
        writeln!(out, "percent,request,client,from,to,blocks")?;
        for (percent, advice) in PERCENTS.iter().zip(&self.explanation.copies) {
            for ExtraCopy { request, from, to, blocks } in &advice.copies {
                let client = formats::quoted(self.client(self.input.batch.client(*request as usize)));
                let [from, to] = [from, to].map(|s| formats::quoted(self.server(*s)));
                writeln!(out, "{percent},{request},{client},{from},{to},{blocks}")?;
            }
        }
        Ok(())
    }

    fn as_json(&self, subject: Subject) -> Object<'_> {
        let Explanation { bound, copies, faster, everything } = &self.explanation;
        let batch = &self.input.batch;
        let percents = PERCENTS.iter().copied().map(Some);
        Object {
            format: 1,
            subject: if subject == Subject::Length { "length" } else { "max_load" },
            requests: batch.n_requests(),
            clients: batch.n_clients(),
            servers: batch.n_servers(),
            lower_bound: bound.value.into(),
            lower_bound_seconds: self.units.seconds(bound.value.into()),
            bytes: batch.total_bytes(),
            bottleneck: &self.bottleneck,
            one_more_copy: percents
                .zip(copies)
                .map(|(percent, advice)| self.advice(percent, advice))
                .collect(),
            copy_of_everything: self.advice(None, everything),
            twice_as_fast: faster.as_ref().map(|advice| FasterObject {
                server: self.server(advice.server),
                speed: Ratio::new(advice.speed.millionths().into(), 1_000_000).into(),
                lower_bound: advice.bound.value.into(),
            }),
            loads: self
                .loads
                .iter()
                .map(|load| LoadObject {
                    server: self.server(load.server),
                    blocks: load.blocks,
                    bytes: self.units.bytes(load.blocks),
                    done: load.done.into(),
                    done_seconds: self.units.seconds(load.done.into()),
                    bottleneck: load.is_bottleneck,
                })
                .collect(),
        }
    }

    fn advice(&self, percent: Option<u64>, advice: &CopyAdvice) -> AdviceObject<'_> {
        let copy = |&ExtraCopy { request, from, to, blocks }: &ExtraCopy| CopyObject {
            request,
            client: self.client(self.input.batch.client(request as usize)),
            from: self.server(from),
            to: self.server(to),
            blocks,
        };
        AdviceObject {
            percent,
            reached: advice.is_reached,
            lower_bound: advice.bound.value.into(),
            lower_bound_seconds: self.units.seconds(advice.bound.value.into()),
            blocks: advice.blocks(),
            bytes: self.units.bytes(advice.blocks()),
            requests: n_requests(&advice.copies),
            copies: advice.copies.iter().map(copy).collect(),
        }
    }

    fn for_people(&self, subject: Subject) -> String {
        let Explanation { bound, copies, faster, everything } = &self.explanation;
        let n_servers = self.input.batch.n_servers() as u64;
        let units = &self.units;
        let what = match subject {
            Subject::Length => format!("No plan ends before {}", units.time(bound.value)),
            Subject::MaxLoad => {
                format!("No choice has a smaller load than {}", units.load(&self.input.cluster, bound.value))
            }
        };
        let why = in_words(&self.bottleneck, n_servers, units);
        let mut text = format!("{what}: {why}.\n{}\nWhat would help:\n\n", self.paces());
        let share = |value: Ratio| match bound.value.numerator() {
            0 => String::new(),
            _ => format!("{:+.1} %", 100.0 * (value.over(bound.value) - 1.0)),
        };
        let mut rows = vec![["", "copies needed", "of requests", "bound", ""].map(str::to_owned).to_vec()];
        let mut row = |what: String, advice: &CopyAdvice| {
            let value = advice.bound.value;
            rows.push(match advice.is_reached {
                true => vec![
                    what,
                    units.blocks(advice.blocks()),
                    count(n_requests(&advice.copies)),
                    units.exact(value),
                    share(value),
                ],
                false => vec![what, "no copies do it".to_owned()],
            });
        };
        for (percent, advice) in PERCENTS.iter().zip(copies) {
            row(format!("one more copy, for {percent} % less"), advice);
        }
        row("one more copy of everything".to_owned(), everything);
        if let Some(advice) = faster {
            rows.push(vec![
                format!("server {} twice as fast", self.server(advice.server)),
                String::new(),
                String::new(),
                units.exact(advice.bound.value),
                share(advice.bound.value),
            ]);
        }
        text.push_str(&table(&rows));
        if self.input.cluster.max_concurrent().is_some() {
            text.push_str("  A limit goes with one speed only, so no faster server was looked for.\n");
        } else if faster.is_none() {
            text.push_str("  No single faster server would help.\n");
        }
        if let Some(advice) = copies.iter().find(|advice| !advice.is_reached) {
            let limit = match &advice.bound.proof {
                Proof::Servers(_) => "all servers together need so long".to_owned(),
                Proof::Client { client, .. } if self.input.cluster.is_even() => {
                    format!("client {} needs so long", self.client(*client))
                }
                Proof::Client { client, .. } => format!(
                    "client {} needs so long (whether faster or earlier copies would help it was not looked for)",
                    self.client(*client)
                ),
                Proof::Concurrency => "the limit on concurrent transfers stands".to_owned(),
            };
            let _ = writeln!(
                text,
                "  Copies alone do not go below {}: {limit}.",
                units.exact(advice.bound.value)
            );
        }
        if let Some(moves) = copies.iter().rfind(|advice| !advice.copies.is_empty()) {
            let _ = write!(text, "\nCopies for the bound {}:\n\n", units.exact(moves.bound.value));
            text.push_str(&self.moves(&moves.copies));
        }
        let legend = match &bound.proof {
            Proof::Servers(_) => " (* = in the bottleneck)",
            Proof::Client { .. } | Proof::Concurrency => "; the bottleneck is none of them",
        };
        let _ = write!(text, "\nWhen each server is done in the most even plan{legend}:\n\n");
        text.push_str(&self.chart());
        text
    }

    /// What the servers of the bottleneck can do, unless that is one block a slot each.
    fn paces(&self) -> String {
        let Proof::Servers(servers) = &self.explanation.bound.proof else { return String::new() };
        let cluster = &self.input.cluster;
        let is_usual = |s: &ServerId| *cluster.server(*s) == Server::default();
        if servers.iter().all(is_usual) {
            return String::new();
        }
        let rate = servers.iter().map(|s| {
            let server = cluster.server(*s);
            u128::from(server.speed.millionths()) * u128::from(server.slots)
        });
        let backlog = servers.iter().map(|s| u128::from(cluster.server(*s).backlog)).sum::<u128>();
        let rate = Ratio::new(rate.sum(), 1_000_000);
        let backlog = u64::try_from(backlog).unwrap_or(u64::MAX);
        format!(
            "Together they can do {}, and have a backlog of {}.\n",
            self.units.pace(rate),
            self.units.blocks(backlog)
        )
    }

    /// From where to where, the most first.
    fn moves(&self, copies: &[ExtraCopy]) -> String {
        const MOST: usize = 8;
        let mut by_pair: BTreeMap<(ServerId, ServerId), Vec<&ExtraCopy>> = BTreeMap::new();
        copies.iter().for_each(|copy| by_pair.entry((copy.from, copy.to)).or_default().push(copy));
        let mut pairs: Vec<_> = by_pair.into_iter().collect();
        let blocks = |copies: &[&ExtraCopy]| copies.iter().map(|copy| copy.blocks).sum::<u64>();
        pairs.sort_by_key(|(_, copies)| std::cmp::Reverse(blocks(copies)));
        let mut rows = vec![
            ["from", "to", self.units.blocks_column(), "of clients", "of requests"]
                .map(str::to_owned)
                .to_vec(),
        ];
        for ((from, to), copies) in pairs.iter().take(MOST) {
            let requests: Vec<String> = copies.iter().map(|copy| copy.request.to_string()).collect();
            let mut clients: Vec<ClientId> =
                copies.iter().map(|copy| self.input.batch.client(copy.request as usize)).collect();
            clients.sort_unstable();
            clients.dedup();
            let clients: Vec<String> = clients.iter().map(|c| self.client(*c).to_owned()).collect();
            rows.push(vec![
                self.server(*from).to_owned(),
                self.server(*to).to_owned(),
                self.units.blocks_cell(blocks(copies)),
                some_of(&clients, 3),
                some_of(&requests, 3),
            ]);
        }
        let mut text = table(&rows);
        if pairs.len() > MOST {
            let _ = writeln!(
                text,
                "  … and {} more (--out FILE writes them all)",
                count((pairs.len() - MOST) as u64)
            );
        }
        text
    }

    /// A bar for each server, the last first.
    fn chart(&self) -> String {
        let mut loads: Vec<&Load> = self.loads.iter().collect();
        loads.sort_by_key(|load| (std::cmp::Reverse(load.done), !load.is_bottleneck));
        let full = loads.first().map_or(0.0, |load| load.done.to_f64());
        let width = loads.iter().map(|load| self.server(load.server).chars().count()).max().unwrap_or(0);
        let mut text = String::new();
        for load in loads.iter().take(MOST_SERVERS_SHOWN) {
            let mark = if load.is_bottleneck { '*' } else { ' ' };
            let millionths = if full > 0.0 { load.done.to_f64() / full * 1e6 } else { 0.0 };
            let line = format!(
                "  {mark} {:<width$}  {} {}",
                self.server(load.server),
                bar(millionths as u64, 1_000_000, BAR_WIDTH),
                self.units.exact(load.done)
            );
            let _ = writeln!(text, "{}", line.trim_end());
        }
        if loads.len() > MOST_SERVERS_SHOWN {
            let _ = writeln!(text, "  … and {} more", count((loads.len() - MOST_SERVERS_SHOWN) as u64));
        }
        text
    }
}

/// How many requests the copies are of.
fn n_requests(copies: &[ExtraCopy]) -> u64 {
    let mut requests: Vec<u32> = copies.iter().map(|copy| copy.request).collect();
    requests.sort_unstable();
    requests.dedup();
    requests.len() as u64
}
