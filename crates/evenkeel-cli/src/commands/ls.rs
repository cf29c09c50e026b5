//! `evenkeel ls`: what is in a cluster.

use std::fmt::Write as _;
use std::sync::Arc;

use anyhow::{Result, bail};
use evenkeel_store::cluster::Listing;
use serde::Serialize;

use super::get::unless_closed;
use super::keel::{self, Known, known};
use super::watch::print_json;
use super::{Outcome, live};
use crate::cli::LsArgs;
use crate::output::{print, printable, warn};
use crate::text::{counted, size};

/// Names of servers that a line shows.
const MOST_SERVERS: usize = 6;

/// An object, for machines.
#[derive(Serialize)]
struct Line<'a> {
    format: u32,
    key: &'a str,
    bytes: u64,
    etag: &'a str,
    homes: &'a [String],
    holders: &'a [String],
    pieces: usize,
    redirected: bool,
}

pub(super) fn run(args: &LsArgs) -> Result<Outcome> {
    let (servers, replicas) = keel::open(&args.copies)?;
    let address = &args.address;
    live::runtime()?.block_on(async {
        let mut listing = Listing::new(Arc::clone(&servers), &address.bucket, &address.key);
        let (mut n_listed, mut n_strays, mut is_whole) = (0_u64, 0_u64, true);
        while let Some(page) = listing.next().await? {
            let mut text = String::new();
            for found in &page {
                let object = match known(&servers, &address.bucket, replicas, found) {
                    Ok(object) if object.homes.is_empty() => {
                        n_strays += 1;
                        continue;
                    }
                    Ok(object) => object,
                    Err(error) => {
                        is_whole = false;
                        warn(&printable(&error.to_string()))?;
                        continue;
                    }
                };
                n_listed += 1;
                if args.json {
                    print_json(&line(&object)).or_else(unless_closed)?;
                } else if args.long {
                    text.push_str(&long(&object));
                } else {
                    let _ = writeln!(text, "{}", object.key);
                }
            }
            print(&text)?;
        }
        for (server, error) in listing.failures() {
            is_whole = false;
            warn(&printable(&format!("what {} has is missing: {error}", servers.all()[server].name)))?;
        }
        if n_strays > 0 {
            let strays = counted(n_strays, "name");
            warn(&format!(
                "{strays} left out: no home has anything under it, only other servers do; see evenkeel stat"
            ))?;
        }
        if n_listed == 0 && is_whole && !address.key.is_empty() {
            bail!("{address}: nothing is there");
        }
        Ok(if is_whole { Outcome::Done } else { Outcome::Failed })
    })
}

fn line(object: &Known) -> Line<'_> {
    Line {
        format: 1,
        key: &object.key,
        bytes: object.bytes,
        etag: &object.etag,
        homes: &object.homes,
        holders: &object.holders,
        pieces: object.n_pieces,
        redirected: object.is_redirect,
    }
}

fn long(object: &Known) -> String {
    let mut at = object.holders.iter().take(MOST_SERVERS).cloned().collect::<Vec<_>>().join(",");
    if object.holders.len() > MOST_SERVERS {
        at.push('…');
    }
    if object.is_away() {
        let _ = write!(at, " for {}", object.homes.join(","));
    }
    format!("{:>9}  {at:<16}  {}\n", size(object.bytes as f64), object.key)
}
