//! `evenkeel get --verify`: compares a folder with its sources, without a transfer.

use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use evenkeel_node::{Verification, verify};
use serde::Serialize;
use tokio::sync::watch;

use super::super::watch::print_json;
use super::super::{Outcome, live};
use super::{FailureSummary, MOST_FAILURES, stop_on_ctrl_c, unless_closed};
use crate::cli::GetArgs;
use crate::output::{print, printable};
use crate::text::{count, counted, pairs, size};

/// The result, for machines.
#[derive(Serialize)]
struct Summary<'a> {
    format: u32,
    event: &'static str,
    objects: usize,
    right: usize,
    bytes: u64,
    interrupted: bool,
    missing: &'a [String],
    differing: Vec<FailureSummary<'a>>,
    unverifiable: &'a [String],
}

pub(super) fn run(args: &GetArgs, sources: &[String], destination: &str) -> Result<Outcome> {
    let (stop, stopped) = watch::channel(false);
    stop_on_ctrl_c(stop, "stopping");
    let (n_objects, found) = live::runtime()?.block_on(async {
        let catalogue = Arc::new(live::catalogue(&args.source, sources).await?);
        let n_objects = catalogue.n_objects();
        Ok::<_, anyhow::Error>((n_objects, verify(catalogue, Path::new(destination), stopped).await?))
    })?;
    if args.json {
        let Verification { n_right, bytes, missing, differing, unverifiable, was_stopped } = &found;
        print_json(&Summary {
            format: 1,
            event: "verified",
            objects: n_objects,
            right: *n_right,
            bytes: *bytes,
            interrupted: *was_stopped,
            missing,
            differing: differing.iter().map(|f| FailureSummary { key: &f.key, why: &f.why }).collect(),
            unverifiable,
        })
        .or_else(unless_closed)?;
    } else {
        print(&told(n_objects, &found))?;
    }
    Ok(match found.n_right == n_objects {
        true => Outcome::Done,
        false if found.was_stopped => Outcome::Interrupted,
        false => Outcome::Failed,
    })
}

fn told(n_objects: usize, found: &Verification) -> String {
    let mut rows = vec![("objects", count(n_objects as u64))];
    let right = counted(found.n_right as u64, "object");
    rows.push(("verified", format!("{right}, {}", size(found.bytes as f64))));
    let wrong = [
        ("missing", found.missing.len()),
        ("differing", found.differing.len()),
        ("unverifiable", found.unverifiable.len()),
    ];
    rows.extend(wrong.iter().filter(|(_, n)| *n > 0).map(|&(name, n)| (name, counted(n as u64, "object"))));
    if found.was_stopped {
        rows.push(("stopped", "before everything was looked at".to_owned()));
    }
    let missing = found.missing.iter().map(|key| format!("missing: {key}\n"));
    let differing =
        found.differing.iter().map(|failure| format!("differs: {}: {}\n", failure.key, failure.why));
    let unverifiable =
        found.unverifiable.iter().map(|key| format!("unverifiable: {key}: no source tells a checksum\n"));
    let lines: String = missing.chain(differing).chain(unverifiable).take(MOST_FAILURES).collect();
    let n_wrong: usize = wrong.iter().map(|(_, n)| n).sum();
    let more = n_wrong.saturating_sub(MOST_FAILURES);
    let more = if more > 0 { format!("and {} more\n", count(more as u64)) } else { String::new() };
    printable(&(pairs(&rows) + &lines + &more)).into_owned()
}
