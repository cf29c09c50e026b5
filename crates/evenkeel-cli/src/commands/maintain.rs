//! `evenkeel maintain`: brings objects of a cluster home.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use evenkeel_node::write::{Maintained, Maintaining, Maintenance, buckets, maintain};
use evenkeel_store::{Problem, StoreError};
use serde_json::{Value, json};
use tokio::sync::watch;

use super::get::{stop_on_ctrl_c, unless_closed};
use super::watch::print_json;
use super::{Outcome, keel, live};
use crate::cli::{MaintainArgs, Scope};
use crate::output::{print, printable, warn};
use crate::text::{counted, pairs, size};

pub(super) fn run(args: &MaintainArgs) -> Result<Outcome> {
    let (servers, replicas) = keel::open(&args.copies)?;
    let has_plain = servers.all().iter().any(|server| server.control.is_none());
    let apply = args.apply || !(args.dry_run || has_plain);
    let prefix = match &args.address {
        Scope::Everything => String::new(),
        Scope::Below(address) => address.key.clone(),
    };
    let how =
        Maintaining { prefix, replicas, apply, rate: args.rate, grace: Duration::from_secs(args.grace) };
    let (stop, stopped) = watch::channel(false);
    stop_on_ctrl_c(stop, "stopping after this step");
    let mut broken = None;
    let mut tell = |bucket: &str, what: &Maintenance| {
        let told = if args.json {
            let mut event = event(what, apply);
            event["bucket"] = bucket.into();
            print_json(&event).or_else(unless_closed)
        } else {
            let at = if args.address == Scope::Everything { format!("{bucket}: ") } else { String::new() };
            print(&printable(&(at + &line(what, apply))))
        };
        broken = broken.take().or(told.err());
    };
    let done = live::runtime()?.block_on(async {
        if let Scope::Below(address) = &args.address {
            let bucket = address.bucket.as_str();
            return Ok(maintain(servers, bucket, &how, stopped, &mut |what| tell(bucket, what)).await?);
        }
        let (names, failures) = buckets(&servers).await;
        if let (true, Some((_, error))) = (names.is_empty(), failures.first()) {
            return Err(error.clone().into());
        }
        let mut done = Maintained { n_failed: failures.len() as u64, ..Maintained::default() };
        for (server, error) in failures {
            let why = format!("its buckets cannot be listed: {error}");
            tell("", &Maintenance::Failed { what: server, why });
        }
        for bucket in names {
            let tell = &mut |what: &Maintenance| tell(&bucket, what);
            match maintain(Arc::clone(&servers), &bucket, &how, stopped.clone(), tell).await {
                Ok(one) => done += one,
                // It was deleted meanwhile.
                Err(StoreError { problem: Problem::NotFound, .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok::<_, anyhow::Error>(done)
    })?;
    broken.map_or(Ok(()), Err)?;
    if args.json {
        print_json(&summary(&done, apply)).or_else(unless_closed)?;
    } else {
        print(&told(&done))?;
        if !apply && done != Maintained::default() {
            warn("nothing was changed; --apply does it")?;
        }
    }
    Ok(match done {
        Maintained { was_stopped: true, .. } => Outcome::Interrupted,
        Maintained { n_failed: 0, .. } => Outcome::Done,
        _ => Outcome::Failed,
    })
}

fn line(what: &Maintenance, apply: bool) -> String {
    let would = if apply { "" } else { "would be " };
    match what {
        Maintenance::Home { key, from, to, bytes } => {
            format!("{key}: {would}brought home from {from} to {to}, {}\n", size(*bytes as f64))
        }
        Maintenance::Pieces { key, n_pieces, bytes } => {
            let pieces = counted(*n_pieces as u64, "piece");
            format!("{key}: {pieces} {would}moved, {}\n", size(*bytes as f64))
        }
        Maintenance::Orphan { server, key, bytes } => {
            format!("{key} at {server}: {would}deleted, {}; nothing names it\n", size(*bytes as f64))
        }
        Maintenance::LeftAlone { what, why } => format!("{what}: left as it is: {why}\n"),
        Maintenance::Failed { what, why } => format!("{what}: failed: {why}\n"),
    }
}

fn event(what: &Maintenance, applied: bool) -> Value {
    match what {
        Maintenance::Home { key, from, to, bytes } => {
            json!({"event": "home", "applied": applied, "key": key, "from": from, "to": to, "bytes": bytes})
        }
        Maintenance::Pieces { key, n_pieces, bytes } => {
            json!({"event": "pieces", "applied": applied, "key": key, "pieces": n_pieces, "bytes": bytes})
        }
        Maintenance::Orphan { server, key, bytes } => {
            json!({"event": "orphan", "applied": applied, "server": server, "key": key, "bytes": bytes})
        }
        Maintenance::LeftAlone { what, why } => json!({"event": "left", "what": what, "why": why}),
        Maintenance::Failed { what, why } => json!({"event": "failed", "what": what, "why": why}),
    }
}

fn summary(done: &Maintained, applied: bool) -> Value {
    json!({
        "format": 1,
        "event": "summary",
        "applied": applied,
        "home": done.n_home,
        "pieces": done.n_pieces,
        "bytes": done.bytes,
        "orphans": done.n_orphans,
        "orphan_bytes": done.orphan_bytes,
        "left": done.n_left_alone,
        "failed": done.n_failed,
        "interrupted": done.was_stopped,
    })
}

fn told(done: &Maintained) -> String {
    let mut rows = vec![
        ("home", counted(done.n_home, "object")),
        ("moved", format!("{}, {} in all", counted(done.n_pieces, "piece"), size(done.bytes as f64))),
        ("orphans", format!("{}, {}", counted(done.n_orphans, "piece"), size(done.orphan_bytes as f64))),
    ];
    if done.n_left_alone > 0 {
        rows.push(("left alone", done.n_left_alone.to_string()));
    }
    if done.n_failed > 0 {
        rows.push(("failed", done.n_failed.to_string()));
    }
    pairs(&rows)
}
