//! `evenkeel status`: the servers of a cluster.

use std::fmt::Write as _;
use std::sync::Arc;

use anyhow::Result;
use evenkeel_store::StoreError;
use evenkeel_store::cluster::{KeelAddress, Listing, Servers, Status, Usage};
use futures_util::future::join_all;
use serde::Serialize;
use serde_json::json;

use super::get::unless_closed;
use super::keel::{self, known};
use super::watch::print_json;
use super::{Outcome, live};
use crate::cli::StatusArgs;
use crate::output::{print, printable};
use crate::text::{count, counted, pairs, size, some_of, table};

/// A bucket by which a plain endpoint shows that it answers. It need not be there.
const ANY_BUCKET: &str = "evenkeel-status";
/// Names that are shown.
const MOST_NAMES: usize = 5;

/// What is not where it belongs, for machines.
#[derive(Default, Serialize)]
struct Content {
    objects: u64,
    bytes: u64,
    redirected: u64,
    in_pieces: u64,
    unreadable: Vec<String>,
    strays: Vec<String>,
    complete: bool,
}

pub(super) fn run(args: &StatusArgs) -> Result<Outcome> {
    let (servers, replicas) = keel::open(&args.copies)?;
    let (all, content) = live::runtime()?.block_on(async {
        let all = join_all((0..servers.all().len()).map(|server| ask(&servers, server))).await;
        let content = match &args.address {
            Some(address) => Some(look_through(&servers, replicas, address).await?),
            None => None,
        };
        Ok::<_, anyhow::Error>((all, content))
    })?;
    if args.json {
        let object = json!({
            "format": 1,
            "replicas": replicas,
            "servers": servers.all().iter().zip(&all).map(|(server, status)| json!({
                "server": server.name,
                "endpoint": server.endpoint.address(),
                "node": server.control.is_some(),
                "up": status.is_ok(),
                "error": status.as_ref().err().map(ToString::to_string),
                "state": status.as_ref().ok().and_then(Option::as_ref).map(state),
                "speed": server.speed_millionths as f64 / 1e6,
                "bytes_per_second": of(status, |status| status.bytes_per_second).flatten(),
                "slots": of(status, |status| status.load.slots),
                "busy": of(status, |status| status.load.busy),
                "waiting": of(status, |status| status.load.waiting),
                "pending_bytes": of(status, |status| status.load.pending_bytes),
                "objects": held(status, |usage| usage.objects),
                "bytes": held(status, |usage| usage.bytes),
                "maintainer": of(status, |status| status.maintainer.clone()).flatten(),
                "free_bytes": held(status, |usage| usage.free_bytes).flatten(),
            })).collect::<Vec<_>>(),
            "content": content,
        });
        print_json(&object).or_else(unless_closed)?;
    } else {
        print(&printable(&told(&servers, &all, content.as_ref())))?;
    }
    let is_fine = all.iter().all(Result::is_ok) && content.is_none_or(|content| content.complete);
    Ok(if is_fine { Outcome::Done } else { Outcome::Failed })
}

type Answer = Result<Option<Status>, StoreError>;

fn of<T>(status: &Answer, figure: impl Fn(&Status) -> T) -> Option<T> {
    status.as_ref().ok()?.as_ref().map(figure)
}

fn held<T>(status: &Answer, figure: impl Fn(&Usage) -> T) -> Option<T> {
    of(status, |status| status.usage.as_ref().map(&figure)).flatten()
}

async fn ask(servers: &Servers, server: usize) -> Answer {
    let status = servers.status(server).await?;
    if status.is_none() {
        servers.endpoint(server)?.has_bucket(ANY_BUCKET).await?;
    }
    Ok(status)
}

fn state(status: &Status) -> &'static str {
    match status {
        Status { paused: true, .. } => "paused",
        Status { draining: true, .. } => "draining",
        _ => "up",
    }
}

/// What is where in a bucket.
async fn look_through(servers: &Arc<Servers>, replicas: u32, address: &KeelAddress) -> Result<Content> {
    let mut listing = Listing::new(Arc::clone(servers), &address.bucket, &address.key);
    let mut content = Content::default();
    while let Some(page) = listing.next().await? {
        for found in page {
            match known(servers, &address.bucket, replicas, &found) {
                Err(error) => content.unreadable.push(error.to_string()),
                Ok(object) => {
                    content
                        .strays
                        .extend(object.strays.iter().map(|server| format!("{} at {server}", object.key)));
                    if !object.homes.is_empty() {
                        content.objects += 1;
                        content.bytes += object.bytes;
                        content.redirected += u64::from(object.is_away());
                        content.in_pieces += u64::from(object.n_pieces > 1);
                    }
                }
            }
        }
    }
    content.complete = listing.failures().next().is_none() && content.unreadable.is_empty();
    Ok(content)
}

fn told(servers: &Servers, all: &[Answer], content: Option<&Content>) -> String {
    let heads = ["server", "state", "busy", "waiting", "pending", "objects", "stored", "free", "speed"];
    let mut lines = vec![heads.map(str::to_owned).to_vec()];
    let mut errors = String::new();
    for (server, status) in servers.all().iter().zip(all) {
        let state = match status {
            Ok(Some(status)) => state(status),
            Ok(None) => "up (S3)",
            Err(error) => {
                let _ = write!(errors, "\n  {}: {error}", server.name);
                "down"
            }
        };
        let bytes = |bytes: Option<u64>| bytes.map(|bytes| size(bytes as f64)).unwrap_or_default();
        let number = |n: Option<u64>| n.map(count).unwrap_or_default();
        let limit = of(status, |status| status.bytes_per_second).flatten();
        let speed = limit.map_or_else(
            || format!("{}", server.speed_millionths as f64 / 1e6),
            |rate| format!("{}/s", size(rate as f64)),
        );
        lines.push(vec![
            server.name.clone(),
            state.to_owned(),
            number(of(status, |status| status.load.busy.into())),
            number(of(status, |status| status.load.waiting.into())),
            bytes(of(status, |status| status.load.pending_bytes)),
            number(held(status, |usage| usage.objects)),
            bytes(held(status, |usage| usage.bytes)),
            bytes(held(status, |usage| usage.free_bytes).flatten()),
            speed,
        ]);
    }
    let mut text = table(&lines);
    if let Some(content) = content {
        let mut rows = vec![
            ("objects", format!("{}, {}", count(content.objects), size(content.bytes as f64))),
            ("elsewhere", counted(content.redirected, "object")),
            ("in pieces", counted(content.in_pieces, "object")),
        ];
        if !content.unreadable.is_empty() {
            rows.push(("unreadable", some_of(&content.unreadable, MOST_NAMES)));
        }
        if !content.strays.is_empty() {
            rows.push(("strays", some_of(&content.strays, MOST_NAMES)));
        }
        text.push('\n');
        text.push_str(&pairs(&rows));
    }
    if !errors.is_empty() {
        text.push_str(&errors);
        text.push('\n');
    }
    text
}
