//! `evenkeel replay`: what happened during a get, in figures and as a page.

mod page;
mod story;

use anyhow::Result;
use serde::Serialize;

use self::story::{Plan, Server, Story};
use super::Outcome;
use super::watch::json;
use crate::cli::ReplayArgs;
use crate::input::Source;
use crate::output::{targets, tell, warn};
use crate::text::{count, counted, pairs, size, span, table};

/// Servers that are listed one by one.
const MOST_SERVERS: usize = 64;

pub(super) fn run(args: &ReplayArgs) -> Result<Outcome> {
    let [html] = targets([("--html", args.html.as_deref())], &[&args.trace])?;
    let Source { name, reader } = Source::open(&args.trace)?;
    let story = Story::read(reader, &name)?;
    if story.is_torn {
        warn(&format!("{name}: its last line is incomplete, and is left out"))?;
    }
    if let Some(html) = html {
        html.write(|out| out.write_all(page::page(&story).as_bytes()))?;
    }
    let text = if args.json { json(&summary(&story))? + "\n" } else { told(&story) };
    tell(&text, &[args.html.as_deref()])?;
    Ok(Outcome::Done)
}

/// The figures, for machines.
#[derive(Serialize)]
struct Summary<'a> {
    format: u32,
    policy: &'a str,
    objects: usize,
    done: u64,
    failed: u64,
    missing_bytes: u64,
    received_bytes: u64,
    bound: Option<f64>,
    plans: usize,
    planned_anew: u64,
    adopted: u64,
    incidents: u64,
    servers: Vec<ServerSummary<'a>>,
    seconds: f64,
}

#[derive(Serialize)]
struct ServerSummary<'a> {
    server: &'a str,
    planned_bytes: Option<u64>,
    bytes: u64,
    planned_rate: Option<u64>,
    rate: Option<f64>,
    planned_end: Option<f64>,
    end: Option<f64>,
    transfers: u64,
    hedges: u64,
    failed: u64,
    withdrawn: u64,
}

fn summary(story: &Story) -> Summary<'_> {
    let first = story.plans.first();
    Summary {
        format: 1,
        policy: &story.policy,
        objects: story.n_objects,
        done: story.n_done,
        failed: story.n_failed,
        missing_bytes: story.missing,
        received_bytes: received(story),
        bound: first.map(|plan| plan.bound),
        plans: story.plans.len(),
        planned_anew: story.n_planned_anew,
        adopted: story.n_adopted,
        incidents: story.n_incidents,
        servers: story
            .servers
            .iter()
            .enumerate()
            .map(|(number, server)| ServerSummary {
                server: &server.name,
                planned_bytes: first.and_then(|plan| plan.share_of(number).1),
                bytes: server.bytes,
                planned_rate: first.and_then(|plan| plan.share_of(number).0),
                rate: server.rate(),
                planned_end: first.and_then(|plan| plan.end_of(number)),
                end: server.active.map(|(_, to)| to),
                transfers: server.n_transfers,
                hedges: server.n_hedges,
                failed: server.n_failed,
                withdrawn: server.n_withdrawn,
            })
            .collect(),
        seconds: story.end,
    }
}

fn received(story: &Story) -> u64 {
    story.servers.iter().fold(0, |sum: u64, server| sum.saturating_add(server.bytes))
}

/// The story in a few pairs of words.
fn outline(story: &Story) -> Vec<(&'static str, String)> {
    let mut rows = vec![
        ("policy", story.policy.clone()),
        ("objects", count(story.n_objects as u64)),
        ("received", format!("{} in {}", size(received(story) as f64), span(story.end))),
    ];
    if let Some(plan) = story.plans.first() {
        rows.push(("planned", format!("at {}; at best done {} later", span(plan.at), span(plan.bound))));
    }
    if story.n_planned_anew > 0 {
        let times = counted(story.n_planned_anew, "time");
        rows.push(("planned anew", format!("{times}, {} of them better", count(story.n_adopted))));
    }
    if story.n_failed > 0 {
        rows.push(("failed", counted(story.n_failed, "object")));
    }
    rows
}

const HEADER: [&str; 9] =
    ["server", "planned", "received", "planned rate", "rate", "planned end", "end", "transfers", "failed"];

/// The figures of each server, by [`HEADER`].
fn rows(story: &Story) -> impl Iterator<Item = Vec<String>> {
    let first = story.plans.first();
    story.servers.iter().enumerate().map(move |(number, server)| row(first, number, server))
}

fn row(plan: Option<&Plan>, number: usize, server: &Server) -> Vec<String> {
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "–".to_owned());
    let rate = |rate: f64| format!("{}/s", size(rate));
    vec![
        server.name.clone(),
        or_dash(plan.and_then(|plan| plan.share_of(number).1).map(|bytes| size(bytes as f64))),
        size(server.bytes as f64),
        or_dash(plan.and_then(|plan| plan.share_of(number).0).map(|of| rate(of as f64))),
        or_dash(server.rate().map(rate)),
        or_dash(plan.and_then(|plan| plan.end_of(number)).map(span)),
        or_dash(server.active.map(|(_, to)| span(to))),
        count(server.n_transfers),
        count(server.n_failed),
    ]
}

fn told(story: &Story) -> String {
    let mut all = vec![HEADER.map(str::to_owned).to_vec()];
    all.extend(rows(story).take(MOST_SERVERS));
    let more = story.servers.len().saturating_sub(MOST_SERVERS);
    let more =
        if more > 0 { format!("and {}\n", counted(more as u64, "other server")) } else { String::new() };
    pairs(&outline(story)) + "\n" + &table(&all) + &more
}
