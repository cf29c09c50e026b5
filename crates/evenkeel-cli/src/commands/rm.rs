//! `evenkeel rm`: deletes objects of a cluster.

use std::fmt::Write as _;
use std::sync::Arc;

use anyhow::{Result, bail};
use evenkeel_node::write::remove;
use evenkeel_store::cluster::{KeelAddress, Listing, Servers};
use futures_util::stream::{self, StreamExt};
use serde_json::json;

use super::get::unless_closed;
use super::keel::{self, known};
use super::watch::print_json;
use super::{Outcome, live};
use crate::cli::RmArgs;
use crate::output::{print, printable, warn};
use crate::text::{counted, size};

/// Objects that are deleted at once.
const N_AT_ONCE: usize = 16;

/// What was done.
#[derive(Default)]
struct Sum {
    n_objects: u64,
    bytes: u64,
    n_pieces: u64,
    n_left_behind: u64,
    n_failed: u64,
}

pub(super) fn run(args: &RmArgs) -> Result<Outcome> {
    for address in &args.addresses {
        if (address.key.is_empty() || address.key.ends_with('/')) && !args.recursive {
            bail!(
                "{address}: this is a prefix; --recursive deletes everything below it, and --dry-run shows what that is"
            );
        }
    }
    let (servers, replicas) = keel::open(&args.copies)?;
    let sum = live::runtime()?.block_on(async {
        let mut sum = Sum::default();
        for address in &args.addresses {
            one(args, &servers, replicas, address, &mut sum).await?;
        }
        Ok::<_, anyhow::Error>(sum)
    })?;
    if args.json {
        let summary = json!({
            "format": 1,
            "dry_run": args.dry_run,
            "objects": sum.n_objects,
            "bytes": sum.bytes,
            "pieces": sum.n_pieces,
            "left_behind": sum.n_left_behind,
            "failed": sum.n_failed,
        });
        print_json(&summary).or_else(unless_closed)?;
    } else {
        let what = if args.dry_run { "would be deleted" } else { "deleted" };
        let mut text = format!("{what}: {}, {}\n", counted(sum.n_objects, "object"), size(sum.bytes as f64));
        if sum.n_left_behind > 0 {
            let pieces = counted(sum.n_left_behind, "piece");
            let _ = writeln!(text, "{pieces} could not be deleted; evenkeel maintain does it later");
        }
        print(&text)?;
    }
    Ok(if sum.n_failed == 0 { Outcome::Done } else { Outcome::Failed })
}

/// Deletes an object, or what is below a prefix.
async fn one(
    args: &RmArgs,
    servers: &Arc<Servers>,
    replicas: u32,
    address: &KeelAddress,
    sum: &mut Sum,
) -> Result<()> {
    let (bucket, prefix) = (address.bucket.as_str(), address.key.as_str());
    if !args.recursive && !args.dry_run {
        return delete(args, servers, replicas, bucket, vec![prefix.to_owned()], sum).await;
    }
    let is_meant = |key: &str| {
        let rest = key.strip_prefix(prefix).unwrap_or("/");
        if args.recursive {
            prefix.is_empty() || prefix.ends_with('/') || rest.is_empty() || rest.starts_with('/')
        } else {
            rest.is_empty()
        }
    };
    let (mut listing, mut is_empty) = (Listing::new(Arc::clone(servers), bucket, prefix), true);
    while let Some(page) = listing.next().await? {
        let homes = |key: &str| servers.homes(bucket, key, replicas as usize);
        let meant = page.into_iter().filter(|found| {
            is_meant(&found.key) && found.at.iter().any(|at| homes(&found.key).contains(&at.server))
        });
        let meant: Vec<_> = meant.collect();
        is_empty &= meant.is_empty();
        if !args.dry_run {
            let keys = meant.into_iter().map(|found| found.key).collect();
            delete(args, servers, replicas, bucket, keys, sum).await?;
            continue;
        }
        let mut text = String::new();
        for found in &meant {
            sum.n_objects += 1;
            sum.bytes += known(servers, bucket, replicas, found).map_or(0, |known| known.bytes);
            let _ = writeln!(text, "{}", found.key);
        }
        if !args.json {
            print(&text)?;
        }
    }
    for (server, error) in listing.failures() {
        sum.n_failed += 1;
        warn(&printable(&format!("what {} has is left: {error}", servers.all()[server].name)))?;
    }
    if is_empty && sum.n_failed == 0 {
        sum.n_failed += 1;
        warn(&format!("{address}: nothing is there"))?;
    }
    Ok(())
}

async fn delete(
    args: &RmArgs,
    servers: &Arc<Servers>,
    replicas: u32,
    bucket: &str,
    keys: Vec<String>,
    sum: &mut Sum,
) -> Result<()> {
    let remove = |key: String| async move {
        let removed = remove(servers, bucket, &key, replicas as usize).await;
        (key, removed)
    };
    let mut all = stream::iter(keys.into_iter().map(remove)).buffer_unordered(N_AT_ONCE);
    while let Some((key, removed)) = all.next().await {
        match removed {
            Ok(removed) if removed.existed => {
                sum.n_objects += 1;
                sum.bytes += removed.bytes;
                sum.n_pieces += removed.n_pieces as u64;
                sum.n_left_behind += removed.n_left_behind as u64;
            }
            // Somebody else has deleted it.
            Ok(_) if args.recursive => {}
            Ok(_) => {
                sum.n_failed += 1;
                warn(&printable(&format!("keel://{bucket}/{key}: is not there")))?;
            }
            Err(error) => {
                sum.n_failed += 1;
                warn(&printable(&format!("keel://{bucket}/{key} is not deleted: {error}")))?;
            }
        }
    }
    Ok(())
}
