//! `evenkeel balance … --watch`: looks again and again.

use std::path::Path;
use std::time::Duration;

use anyhow::{Result, bail};
use evenkeel::lead::watch::{Decision, Settings, Watch};
use evenkeel_node::lead::{self, EngineError, Lock, Look, Record, Seen, Watching};
use serde::Serialize;

use super::{Speeds, Store, record_file};
use crate::cli::LeadArgs;
use crate::commands::Outcome;
use crate::output::{print, printable, warn};
use crate::text::{count, size};

/// One look, for machines.
#[derive(Serialize)]
struct Line<'a> {
    format: u32,
    seconds: f64,
    score_today: f64,
    score: f64,
    decision: &'static str,
    planned: u64,
    made: u64,
    servers: Vec<ServerLine<'a>>,
}

#[derive(Serialize)]
struct ServerLine<'a> {
    server: &'a str,
    leads: usize,
    rate: Option<u64>,
    speed: f64,
}

pub(super) async fn run(mut store: Store, args: &LeadArgs) -> Result<Outcome> {
    let options = args.watch;
    if store.is_files && store.can_be_measured && !options.no_measure {
        bail!("files cannot be measured; add --no-measure, or run it where the cluster can be reached");
    }
    let settings = Settings { worth: options.worth, changes_per_hour: options.budget };
    let record = match args.apply {
        true => {
            let lock = Lock::wait(&record_file(args, &*store.engine)).await?;
            let look = store.engine.look().await?;
            Some(Record::locked(lock, &*store.engine, &look)?)
        }
        false => None,
    };
    let mut watching = Watching {
        watch: Watch::new(settings),
        every: Duration::from_secs(options.every),
        measures: store.can_be_measured && !options.no_measure,
        step: args.step as usize,
        record,
        wish: args.wish(),
        looks: options.looks,
    };
    let servers = args.servers.as_deref();
    let (is_json, mut broken, mut has_seen) = (args.json, None, false);
    let told = |seen: Result<Seen<'_>, EngineError>| {
        has_seen |= seen.is_ok();
        let told = match seen {
            Ok(seen) if is_json => print(&json(&seen)),
            Ok(seen) => print(&line(&seen)),
            Err(error) => warn(&printable(&error.to_string())),
        };
        broken = told.err().or(broken.take());
    };
    let speeds = |look: &mut Look| speeds(servers, look);
    lead::watch(&mut *store.engine, &mut watching, speeds, told).await;
    match broken {
        Some(error) => Err(error.into()),
        None if has_seen => Ok(Outcome::Done),
        None => Ok(Outcome::Failed),
    }
}

/// Only how speeds compare counts, and a file may change between looks.
fn speeds(file: Option<&Path>, look: &mut Look) -> Result<Vec<evenkeel::model::Server>, EngineError> {
    Speeds::new(file, look, false)
        .map(|speeds| speeds.servers)
        .map_err(|error| EngineError(format!("{error:#}")))
}

fn word(decision: Decision) -> &'static str {
    match decision {
        Decision::Rest => "balanced",
        Decision::Wait => "waiting",
        Decision::Spent => "budget spent",
        Decision::Change(_) => "changing",
    }
}

fn led(look: &Look) -> Vec<usize> {
    let mut led = vec![0; look.servers.len()];
    look.groups.iter().filter_map(|group| group.leader).for_each(|leader| led[leader as usize] += 1);
    led
}

fn json(seen: &Seen<'_>) -> String {
    let servers = seen.look.servers.iter().zip(led(seen.look)).enumerate();
    let line = Line {
        format: 1,
        seconds: seen.seconds,
        score_today: seen.today,
        score: seen.planned,
        decision: word(seen.decision),
        planned: seen.n_planned,
        made: seen.n_made,
        servers: servers
            .map(|(i, (member, leads))| ServerLine {
                server: &member.name,
                leads,
                rate: seen.rates.get(i).copied().flatten(),
                speed: seen.factors[i],
            })
            .collect(),
    };
    serde_json::to_string(&line).unwrap_or_default() + "\n"
}

fn line(seen: &Seen<'_>) -> String {
    let slow =
        seen.look.servers.iter().zip(seen.factors).enumerate().filter(|(_, (_, factor))| **factor < 1.0);
    let slow = slow.map(|(i, (member, factor))| match seen.rates.get(i).copied().flatten() {
        Some(rate) => format!("{} at {:.0} % ({}/s)", member.name, 100.0 * factor, size(rate as f64)),
        None => format!("{} at {:.0} %", member.name, 100.0 * factor),
    });
    let slow: Vec<String> = slow.collect();
    let slow = if slow.is_empty() { String::new() } else { format!("; slow: {}", slow.join(", ")) };
    let what = match seen.decision {
        Decision::Change(_) if seen.n_made > 0 => format!("{} changes were made", count(seen.n_made)),
        Decision::Change(n) => format!("{} changes are worth making", count(n)),
        other => word(other).to_owned(),
    };
    format!(
        "{:>6.0} s  today {:.2} ×, plan {:.2} × with {} changes: {what}{slow}\n",
        seen.seconds,
        seen.today,
        seen.planned,
        count(seen.n_planned)
    )
}
