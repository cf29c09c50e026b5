//! `evenkeel explain`: what limits a batch, and what would help.

pub(super) mod advice;
mod json;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;

use anyhow::Result;
use evenkeel::bound::Proof;
use evenkeel::check::Subject;
use evenkeel::explain::{CopyAdvice, Explanation, PERCENTS, explain};
use evenkeel::lead::{self, Wish};
use evenkeel::model::{ClientId, ExtraCopy, Ratio, Server, ServerId};
use evenkeel::select::{Goal, optimal};
use evenkeel_formats::{self as formats, Bottleneck, CurvePoint, Input};

use super::plan::trade_off;
use super::{Outcome, in_words, n_distinct, verified};
use crate::cli::ExplainArgs;
use crate::input::read_input;
use crate::output::{targets, tell};
use crate::text::{bar, count, some_of, table};
use crate::units::Units;

const BAR_WIDTH: usize = 40;
/// More bars than this add no information.
const MOST_SERVERS_SHOWN: usize = 24;

pub(super) fn run(args: &ExplainArgs) -> Result<Outcome> {
    let outputs = [("--out", args.out.as_deref()), ("--advice", args.advice.as_deref())];
    let [out, advice_out] = targets(outputs, &args.input.paths())?;
    let input = read_input(&args.input)?;
    let (goal, subject) = match args.no_order {
        true => (Goal::MaxLoad, Subject::MaxLoad),
        false => (Goal::Length, Subject::Length),
    };
    let mut explanation = explain(&input.batch, &input.cluster, goal);
    let forced = verified(&input.batch, &input.cluster, &mut explanation.bound, subject)?;
    let proof = &explanation.bound.proof;
    let units = Units::new(&input.batch, &input.cluster);
    let bottleneck = Bottleneck::new(&input.batch, &input.cluster, proof, forced);
    let (loads, today) = (loads(&input, proof), Today::new(&input));
    let report = Report { input, units, explanation, bottleneck, loads, today };
    if let Some(out) = out {
        out.write(|file| report.write_copies(file))?;
    }
    if let Some(out) = advice_out {
        let advice =
            serde_json::to_string(&advice::file(&report.explanation, &report.input, subject))? + "\n";
        out.write(|file| file.write_all(advice.as_bytes()))?;
    }
    let text = match args.json {
        true => serde_json::to_string(&report.as_json(subject))? + "\n",
        false => report.for_people(subject),
    };
    tell(&text, &outputs.map(|(_, path)| path))?;
    Ok(Outcome::Done)
}

struct Report {
    input: Input,
    units: Units,
    explanation: Explanation,
    bottleneck: Bottleneck,
    loads: Vec<Load>,
    today: Option<Today>,
}

/// Who serves today, and what fewer or more changes would make of it.
struct Today {
    max_load: Ratio,
    bound: Ratio,
    curve: Vec<CurvePoint>,
}

impl Today {
    /// None if the batch does not tell who serves today.
    fn new(input: &Input) -> Option<Self> {
        let Input { batch, cluster } = input;
        batch.has_current().then(|| {
            let lead = lead::fewest(batch, cluster, &Wish::default());
            let curve = lead.curve.iter().map(CurvePoint::from).collect();
            Self { max_load: lead::today(batch, cluster), bound: lead.bound.value, curve }
        })
    }

    fn for_people(&self, units: &Units) -> String {
        let ratio = self.max_load.over(self.bound);
        format!(
            "Today the busiest server is done at {}, {ratio:.2} × the least possible. After so many changes (`plan --fewest`): {}.\n",
            units.exact(self.max_load),
            trade_off(&self.curve, self.bound.into())
        )
    }
}

/// The work of a server in the most even plan.
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

    /// All copies, one row each.
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

    fn for_people(&self, subject: Subject) -> String {
        let Explanation { bound, copies, faster, everything, clients } = &self.explanation;
        let n_servers = self.input.batch.n_servers() as u64;
        let units = &self.units;
        let what = match subject {
            Subject::Length => format!("No plan ends before {}", units.time(bound.value)),
            Subject::MaxLoad => {
                format!("No choice has a smaller load than {}", units.load(&self.input.cluster, bound.value))
            }
        };
        let why = in_words(&self.bottleneck, n_servers, units);
        let today = self.today.as_ref().map(|today| today.for_people(units)).unwrap_or_default();
        let mut text = format!("{what}: {why}.\n{}{today}\nWhat would help:\n\n", self.paces());
        let share = |value: Ratio| match bound.value.numerator() {
            0 => String::new(),
            _ => format!("{:+.1} %", 100.0 * (value.over(bound.value) - 1.0)),
        };
        let is_client = matches!(bound.proof, Proof::Client { .. });
        let moved = if is_client { "moved" } else { "copies needed" };
        let mut rows = vec![["", moved, "of requests", "bound", ""].map(str::to_owned).to_vec()];
        for advice in clients {
            let value = advice.bound.value;
            let cells = advice::cells(advice, &self.input, units);
            rows.push(cells.into_iter().chain([units.exact(value), share(value)]).collect());
        }
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
        // Copies do not help a client; the text below says so.
        if !is_client {
            for (percent, advice) in PERCENTS.iter().zip(copies) {
                row(format!("one more copy, for {percent} % less"), advice);
            }
            row("the copies that matter".to_owned(), everything);
        }
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
                    format!("client {} needs that long", self.client(*client))
                }
                Proof::Client { client, .. } => format!(
                    "client {} needs that long (whether faster or earlier copies would help it was not looked for)",
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

    /// The speeds of the servers in the bottleneck, unless each serves one block per slot.
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

    /// The servers that copies go from and to, the most copies first.
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

    /// One bar per server, the one that is done last first.
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

/// The number of requests with extra copies.
fn n_requests(copies: &[ExtraCopy]) -> u64 {
    n_distinct(copies.iter().map(|copy| copy.request))
}
