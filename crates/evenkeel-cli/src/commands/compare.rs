//! `evenkeel compare`: all policies on one batch, side by side.

use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use evenkeel::check::{self, Subject};
use evenkeel::model::{Ratio, Transfer};
use evenkeel::plan::{Made, Options, Planner};
use evenkeel::policy::{self, Policy};
use evenkeel::select::{Goal, optimal};
use evenkeel_formats::{Bottleneck, Figure, Input};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use super::{Outcome, ask, in_words, known, ratio, remark_on_hosts, verified};
use crate::cli::CompareArgs;
use crate::html;
use crate::input::read_input;
use crate::output::{Target, tell};
use crate::plot::{self, Area, Bar};
use crate::text::{bar, count, counted, figure, table};
use crate::units::Units;

/// Everything, for machines.
#[derive(Serialize)]
struct Comparison {
    format: u32,
    seed: u64,
    block: u64,
    max_concurrent: Option<u64>,
    requests: usize,
    clients: usize,
    servers: usize,
    lower_bound: Figure,
    #[serde(skip_serializing_if = "Option::is_none")]
    lower_bound_seconds: Option<Figure>,
    bytes: u128,
    bottleneck: Bottleneck,
    policies: Vec<Row>,
    /// Policies that would exchange too many messages.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    left_out: Vec<&'static str>,
    /// A remark on policies that look for the nearest copy.
    #[serde(skip)]
    on_hosts: Option<String>,
}

/// The figures of one policy's plan.
#[derive(Serialize)]
struct Row {
    policy: &'static str,
    order: &'static str,
    /// The name under which it was requested: that of its order, if only the order differs from `optimal`.
    name: &'static str,
    length: Figure,
    #[serde(skip_serializing_if = "Option::is_none")]
    length_seconds: Option<Figure>,
    ratio: f64,
    max_load: Figure,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_load_seconds: Option<Figure>,
    mean_load: f64,
    mean_response: f64,
    rounds: Option<u32>,
    messages: Option<u64>,
    compacted_length: Option<Figure>,
    /// An earlier row with the same plan, transfer by transfer. This row is then no second result.
    #[serde(skip_serializing_if = "Option::is_none")]
    same_plan_as: Option<&'static str>,
    seconds: f64,
    /// When each server is done.
    #[serde(skip)]
    done: Vec<f64>,
    #[serde(skip)]
    fingerprint: u64,
}

pub(super) fn run(args: &CompareArgs) -> Result<Outcome> {
    let mut names = names(&args.policy)?;
    let inputs = args.input.paths();
    let out = args.html.as_deref().map(|path| Target::new(path, &inputs)).transpose()?;
    let input = read_input(&args.input)?;
    let Input { batch, cluster } = &input;
    let mut bound = optimal::bound(batch, cluster, Goal::Length);
    let forced = verified(batch, cluster, &mut bound, Subject::Length)?;
    let mut left_out = Vec::new();
    if args.policy.is_empty() && n_bids(&input, bound.value) > MOST_BIDS {
        (names, left_out) =
            names.into_iter().partition(|name| policy::find(name).is_some_and(|p| p.room != "bid"));
    }
    let on_hosts = remark_on_hosts(&names, batch, cluster, ask(Goal::Length, &args.tuning).ties);
    let bar = progress_bar(names.len() as u64);
    let mut policies = Vec::with_capacity(names.len());
    for name in names {
        bar.set_message(name);
        policies.push(row(&input, name, args, bound.value).with_context(|| format!("policy {name}"))?);
        bar.inc(1);
    }
    bar.finish_and_clear();
    policies.sort_by_key(|row| row.length);
    for i in 1..policies.len() {
        let (before, rest) = policies.split_at_mut(i);
        let same = before.iter().find(|row| row.fingerprint == rest[0].fingerprint);
        rest[0].same_plan_as = same.map(|row| row.name);
    }
    let units = Units::new(batch, cluster);
    let comparison = Comparison {
        format: 1,
        seed: args.tuning.seed,
        block: args.input.block,
        max_concurrent: cluster.max_concurrent(),
        requests: batch.n_requests(),
        clients: batch.n_clients(),
        servers: batch.n_servers(),
        lower_bound: bound.value.into(),
        lower_bound_seconds: units.seconds(bound.value.into()),
        bytes: batch.total_bytes(),
        bottleneck: Bottleneck::new(batch, cluster, &bound.proof, forced),
        policies,
        left_out,
        on_hosts,
    };
    if let Some(out) = out {
        let page = comparison.page(&units);
        out.write(|file| file.write_all(page.as_bytes()))?;
    }
    let json = args.json.then(|| serde_json::to_string(&comparison)).transpose()?;
    let text = json.map_or_else(|| comparison.for_people(&units), |json| json + "\n");
    tell(&text, &[args.html.as_deref()])?;
    Ok(Outcome::Done)
}

/// The requested policies, or all that plan a batch except `colour`, which is the order of `optimal`.
fn names(asked: &[String]) -> Result<Vec<&'static str>> {
    let asked: Vec<&str> = asked.iter().map(|name| name.trim()).collect();
    if asked.is_empty() {
        let all = policy::POLICIES.iter().filter(|p| p.plans() && !p.is(&policy::SHORTEST));
        return Ok(all.map(|p| p.name).collect());
    }
    let mut names: Vec<&'static str> = Vec::new();
    for asked in asked {
        let name = known(asked, "policy", Policy::plans)?.name;
        if names.contains(&name) {
            bail!("policy {name} is listed twice; list it once");
        }
        names.push(name);
    }
    Ok(names)
}

/// With more bids a policy takes minutes, and is left out unless it is requested.
const MOST_BIDS: f64 = 2e7;

/// The approximate number of bids: every client bids in every round until it has nothing pending.
fn n_bids(input: &Input, bound: Ratio) -> f64 {
    let batch = &input.batch;
    let n_requests = batch.n_requests() as f64;
    let n_rounds = bound.to_f64() * n_requests / batch.total_blocks().max(1) as f64;
    n_rounds.min(n_requests) * batch.n_clients() as f64 / 2.0
}

/// Plans with one policy, checks the plan from scratch, and measures it.
fn row(input: &Input, name: &'static str, args: &CompareArgs, bound: Ratio) -> Result<Row> {
    let Input { batch, cluster } = input;
    let policy = known(name, "policy", Policy::plans)?;
    let ask = ask(Goal::Length, &args.tuning);
    let planner = Planner::new(&Options { policy, ask, ..Options::default() })?;
    let start = Instant::now();
    let Made { choice, ordered, .. } = planner.order(batch, cluster, planner.choose(batch, cluster));
    let seconds = start.elapsed().as_secs_f64();
    let measures = check::plan(batch, cluster, &ordered.schedule.transfers, true)?;
    // Measured figures are rounded if speeds differ.
    let length = ordered.schedule.length;
    let (found, told) = (Figure::from(measures.length), Figure::from(length));
    ensure!(found.is_about(told, found), "the plan takes {}, not {}", figure(found.0), figure(told.0));
    let done = choice.done(batch, cluster);
    let units = Units::new(batch, cluster);
    Ok(Row {
        policy: planner.policy().name,
        order: planner.order_policy().map_or("", |order| order.name),
        length: length.into(),
        length_seconds: units.seconds(length.into()),
        ratio: ratio(length, bound),
        max_load: measures.max_load.into(),
        max_load_seconds: units.seconds(measures.max_load.into()),
        mean_load: done.iter().fold(0.0, |sum, done| sum + done.to_f64()) / done.len().max(1) as f64,
        mean_response: choice.mean_response(batch, cluster),
        rounds: ordered.rounds.map(|(n_rounds, _)| n_rounds),
        messages: ordered.messages,
        compacted_length: ordered.rounds.map(|(_, compacted)| compacted.into()),
        same_plan_as: None,
        seconds,
        name,
        fingerprint: fingerprint(&ordered.schedule.transfers),
        done: done.into_iter().map(Ratio::to_f64).collect(),
    })
}

/// A hash of a plan. Equal plans have equal hashes; different plans hardly ever do.
fn fingerprint(transfers: &[Transfer]) -> u64 {
    let mut hasher = DefaultHasher::new();
    for Transfer { request, server, start, blocks } in transfers {
        (request, server.0, start.nanos(), blocks.nanos()).hash(&mut hasher);
    }
    hasher.finish()
}

fn progress_bar(n: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{wide_bar} {pos}/{len} {msg}");
    style.map_or_else(|_| ProgressBar::new(n), |style| ProgressBar::new(n).with_style(style))
}

const HEADER: [&str; 9] = [
    "policy",
    "length",
    "of bound",
    "max load",
    "mean load",
    "mean response",
    "rounds",
    "messages",
    "seconds",
];

impl Comparison {
    fn cells(row: &Row, units: &Units) -> Vec<String> {
        let or_none = |n: Option<u64>| n.map_or_else(|| "–".to_owned(), count);
        vec![
            row.name.to_owned(),
            units.short(row.length),
            format!("{:.3} x", row.ratio),
            units.short(row.max_load),
            units.mean(row.mean_load),
            units.mean(row.mean_response),
            or_none(row.rounds.map(u64::from)),
            or_none(row.messages),
            format!("{:.4}", row.seconds),
        ]
    }

    fn headline(&self, units: &Units) -> [String; 2] {
        let what = format!(
            "{} of {} on {}",
            counted(self.requests as u64, "request"),
            counted(self.clients as u64, "client"),
            counted(self.servers as u64, "server")
        );
        let bound = units.time(self.lower_bound);
        [
            what,
            format!(
                "No plan ends before {bound}: {}.",
                in_words(&self.bottleneck, self.servers as u64, units)
            ),
        ]
    }

    fn for_people(&self, units: &Units) -> String {
        let [what, bound] = self.headline(units);
        let mut text = format!("{what}. {bound}\n\n");
        text.push_str(&self.remark());
        let mut rows = vec![HEADER.map(str::to_owned).to_vec()];
        rows.extend(self.policies.iter().map(|row| Self::cells(row, units)));
        text.push_str(&table(&rows));
        text.push_str(&self.same_plans());
        text.push_str("\nLength:\n\n");
        let longest = self.policies.iter().map(|row| row.length.0.nanos()).max().unwrap_or(0).max(1);
        let width = self.policies.iter().map(|row| row.name.len()).max().unwrap_or(0);
        for row in &self.policies {
            let millionths = row.length.0.nanos() as f64 / longest as f64 * 1e6;
            let bar = bar(millionths.round() as u64, 1_000_000, 50);
            let _ = writeln!(text, "  {:<width$}  {} {}", row.name, bar.trim_end(), units.short(row.length));
        }
        text
    }

    /// The rows that are one result under several names.
    fn same_plans(&self) -> String {
        let mut text = String::new();
        for first in self.policies.iter().filter(|row| row.same_plan_as.is_none()) {
            let same = self.policies.iter().filter(|row| row.same_plan_as == Some(first.name));
            let same: Vec<&str> = same.map(|row| row.name).collect();
            if !same.is_empty() {
                let _ = writeln!(text, "The same plan as {}: {}.", first.name, same.join(", "));
            }
        }
        if text.is_empty() { text } else { format!("\n{text}") }
    }

    /// What was left out, and what is not known.
    fn remark(&self) -> String {
        let mut text = String::new();
        if !self.left_out.is_empty() {
            let _ = writeln!(
                text,
                "Left out, since that many clients would exchange too many messages: {}. Name them with --policy to include them \
                 all the same.",
                self.left_out.join(", ")
            );
        }
        if let Some(remark) = &self.on_hosts {
            let _ = writeln!(text, "{remark}");
        }
        if text.is_empty() { text } else { text + "\n" }
    }

    fn page(&self, units: &Units) -> String {
        let [what, bound] = self.headline(units);
        let bars: Vec<Bar<'_>> = self
            .policies
            .iter()
            .map(|row| Bar {
                name: row.name,
                value: row.length.0.nanos() as f64 / 1e9,
                margin: None,
                label: format!("{} ({:.3} x)", units.short(row.length), row.ratio),
                is_best: row.ratio <= 1.0,
            })
            .collect();
        let areas: Vec<Area<'_>> = self
            .policies
            .iter()
            .map(|row| Area {
                name: row.name,
                label: units.short(row.max_load),
                values: falling(&row.done, 200),
            })
            .collect();
        let rows: Vec<(bool, Vec<String>)> =
            self.policies.iter().map(|row| (row.ratio <= 1.0, Self::cells(row, units))).collect();
        let lower_bound = self.lower_bound.0.nanos() as f64 / 1e9;
        let mark = format!("bound {}", units.exact(self.lower_bound));
        let body = format!(
            "<p>{}. {}</p>\n<p>{}</p>\n<h2>Length of the plan</h2>\n{}<h2>All figures</h2>\n{}\
             <p class=\"soft\">Every plan was checked from scratch. Load: when a server would be done, working without a break. Mean \
             response: of all blocks, if each server serves one after the other. Seconds: choosing and ordering.</p>\n\
             <h2>Who has how much to do</h2>\n{}<h2>Policies</h2>\n{}",
            html::escaped(&what),
            html::escaped(&bound),
            html::escaped(&self.remark()),
            plot::bars(
                &bars,
                Some((lower_bound, &mark)),
                "When the last transfer has ended; no plan ends before the dashed line. Green: proved to be the shortest."
            ),
            html::table(&HEADER, &rows) + &format!("<p>{}</p>\n", html::escaped(&self.same_plans())),
            plot::areas(
                &areas,
                lower_bound,
                "When each server is done, the busiest first (its time beside the name), all on one scale: the flatter, the more even."
            ),
            self.legend()
        );
        html::page("Evenkeel: policies compared", &body)
    }

    /// A description of each policy.
    fn legend(&self) -> String {
        let rows = self.policies.iter().filter_map(|row| policy::find(row.name)).map(|policy| {
            format!(
                "<li><b>{}</b>: {} <span class=\"soft\">({})</span></li>\n",
                policy.name,
                html::escaped(policy.summary),
                html::escaped(policy.source)
            )
        });
        format!("<ul>\n{}</ul>\n", rows.collect::<String>())
    }
}

/// The values in descending order, sampled at `most` positions if there are more.
fn falling(values: &[f64], most: usize) -> Vec<f64> {
    let mut values = values.to_vec();
    values.sort_by(|a, b| b.total_cmp(a));
    let n = values.len();
    if n <= most {
        return values;
    }
    (0..most).map(|k| values[k * (n - 1) / (most - 1)]).collect()
}
