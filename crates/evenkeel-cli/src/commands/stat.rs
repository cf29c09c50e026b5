//! `evenkeel stat`: where an object of a cluster is.

use anyhow::{Result, bail};
use evenkeel_store::cluster::{Held, Redirect, Seen};
use futures_util::future::join_all;
use serde::Serialize;

use super::get::unless_closed;
use super::watch::print_json;
use super::{Outcome, keel, live};
use crate::cli::StatArgs;
use crate::output::{print, printable};
use crate::text::{count, counted, pairs, size};

/// Pieces that are listed one by one.
const MOST_PIECES: usize = 20;

/// What a server has under the name of an object, for machines.
#[derive(Serialize)]
struct Entry<'a> {
    server: &'a str,
    home: bool,
    version: Option<&'a str>,
    bytes: Option<u64>,
    etag: Option<&'a str>,
    crc32c: Option<String>,
    modified: Option<&'a str>,
    pieces: Option<&'a [Held]>,
    error: Option<String>,
}

#[derive(Serialize)]
struct Object<'a> {
    format: u32,
    bucket: &'a str,
    key: &'a str,
    homes: Vec<&'a str>,
    entries: Vec<Entry<'a>>,
}

/// What a server has.
struct There {
    server: usize,
    found: Result<Option<(Seen, Option<Redirect>)>, String>,
}

pub(super) fn run(args: &StatArgs) -> Result<Outcome> {
    let address = &args.address;
    if address.key.is_empty() || address.key.ends_with('/') {
        bail!("{address} names no object; evenkeel ls shows what is below it");
    }
    let (servers, replicas) = keel::open(&args.copies)?;
    let (bucket, key) = (address.bucket.as_str(), address.key.as_str());
    let homes = servers.homes(bucket, key, replicas as usize);
    let look = |server| {
        let servers = &servers;
        async move {
            let found = async {
                let Some(seen) = servers.look(server, bucket, key).await? else { return Ok(None) };
                let redirect = match seen.redirect {
                    Some(_) => Some(servers.redirect(server, bucket, key).await?),
                    None => None,
                };
                Ok::<_, evenkeel_store::StoreError>(Some((seen, redirect)))
            };
            There { server, found: found.await.map_err(|error| error.to_string()) }
        }
    };
    let all = live::runtime()?.block_on(join_all((0..servers.all().len()).map(look)));
    let name = |server: usize| servers.all()[server].name.as_str();
    // What the homes say comes first. Others are told only if they have something.
    let is_there = |there: &&There| homes.contains(&there.server) || matches!(there.found, Ok(Some(_)));
    let (at_home, strays): (Vec<&There>, Vec<&There>) =
        all.iter().filter(is_there).partition(|there| homes.contains(&there.server));
    if args.json {
        let entries =
            at_home.iter().chain(&strays).map(|there| entry(there, name(there.server), &homes)).collect();
        let homes = homes.iter().map(|&home| name(home)).collect();
        print_json(&Object { format: 1, bucket, key, homes, entries }).or_else(unless_closed)?;
    } else {
        let mut text = format!("{address}\n");
        for there in at_home {
            text.push_str(&told(there, &format!("home {}", name(there.server))));
        }
        for there in strays {
            text.push_str(&told(there, &format!("stray {}", name(there.server))));
        }
        print(&printable(&text))?;
    }
    let is_there = |there: &There| homes.contains(&there.server) && matches!(there.found, Ok(Some(_)));
    Ok(if all.iter().any(is_there) { Outcome::Done } else { Outcome::Failed })
}

fn entry<'a>(there: &'a There, server: &'a str, homes: &[usize]) -> Entry<'a> {
    let found = there.found.as_ref().ok().and_then(Option::as_ref);
    let seen = found.map(|(seen, _)| seen);
    let redirect = found.and_then(|(_, redirect)| redirect.as_ref());
    Entry {
        server,
        home: homes.contains(&there.server),
        version: seen.map(|seen| seen.etag.as_str()),
        bytes: redirect.map(|redirect| redirect.bytes).or(seen.map(|seen| seen.bytes)),
        etag: redirect.map(|redirect| redirect.etag.as_str()).or(seen.map(|seen| seen.etag.as_str())),
        crc32c: crc(found),
        modified: seen.and_then(|seen| seen.modified.as_deref()),
        pieces: redirect.map(|redirect| redirect.pieces.as_slice()),
        error: there.found.as_ref().err().cloned(),
    }
}

fn crc(found: Option<&(Seen, Option<Redirect>)>) -> Option<String> {
    let (seen, redirect) = found?;
    let crc = match redirect.as_ref().map(|redirect| redirect.pieces.as_slice()) {
        Some([piece]) => Some(piece.crc32c),
        Some(_) => None,
        None => seen.crc32c,
    };
    crc.map(|crc| format!("{crc:08x}"))
}

fn told(there: &There, who: &str) -> String {
    let (seen, redirect) = match &there.found {
        Err(why) => return format!("\n{who}\n{}", pairs(&[("cannot tell", why.clone())])),
        Ok(None) => return format!("\n{who}\n{}", pairs(&[("has", "nothing".to_owned())])),
        Ok(Some((seen, redirect))) => (seen, redirect.as_ref()),
    };
    let mut rows = Vec::new();
    match redirect {
        None => rows.push(("has", format!("the bytes, {} ({})", size(seen.bytes as f64), count(seen.bytes)))),
        Some(redirect) => {
            let pieces = counted(redirect.pieces.len() as u64, "piece");
            rows.push((
                "has",
                format!("an entry: {} ({}) in {pieces}", size(redirect.bytes as f64), count(redirect.bytes)),
            ));
            rows.push(("etag", redirect.etag.clone()));
        }
    }
    rows.push(("version", seen.etag.clone()));
    rows.extend(crc(Some(&(seen.clone(), redirect.cloned()))).map(|crc| ("crc32c", crc)));
    rows.extend(seen.modified.clone().map(|modified| ("written", modified)));
    let pieces = redirect.map_or(&[][..], |redirect| &redirect.pieces);
    for piece in pieces.iter().take(MOST_PIECES) {
        let bytes = size(piece.bytes as f64);
        let told = match piece.is_hole() {
            true => format!("{bytes} of zeros"),
            false => format!("{bytes} at {}: {}", piece.server, piece.key),
        };
        rows.push(("piece", told));
    }
    if pieces.len() > MOST_PIECES {
        rows.push(("", format!("and {} more", count((pieces.len() - MOST_PIECES) as u64))));
    }
    format!("\n{who}\n{}", pairs(&rows))
}
