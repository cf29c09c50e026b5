//! `evenkeel locate`: a batch of what is on real storage.

use std::path::Path;

use anyhow::{Result, anyhow};
use evenkeel::model::Server;
use evenkeel_formats::import::Gathered;
use evenkeel_formats::write_batch_csv;

use super::balance::store::Store;
use super::import::Import;
use super::{Outcome, live};
use crate::cli::{LocateArgs, LocateStore, SourceArgs};
use crate::output::{printable, targets, tell};
use crate::text::{count, pairs};

pub(super) fn run(args: &LocateArgs) -> Result<Outcome> {
    match &args.store {
        Some(LocateStore::Ceph { store, out }) => return leaders(Store::ceph(store), out),
        Some(LocateStore::Kafka { store, out }) => return leaders(Store::kafka(store)?, out),
        None => {}
    }
    let import = Import::new("locate", &args.output, &args.source.files(&args.sources))?;
    import.finish(gather(&args.source, &args.sources, args.output.split)?)
}

/// The groups of a store as a batch: each is a client of its own, its job is its pool, and `current` is who leads.
fn leaders(mut store: Store, out: &Path) -> Result<Outcome> {
    let [target] = targets([("--out", Some(out))], &[])?;
    let look = live::runtime()?.block_on(store.engine.look())?;
    let servers = vec![Server::default(); look.servers.len()];
    let (batch, ..) = evenkeel_node::lead::batch(&look, servers)?;
    if let Some(target) = target {
        target.write(|file| write_batch_csv(&batch, file))?;
    }
    let mut rows = vec![
        ("requests", count(batch.n_requests() as u64)),
        ("servers", count(batch.n_servers() as u64)),
        ("weighed by", store.weigh.to_owned()),
    ];
    rows.extend(look.left_alone.into_iter().map(|reason| ("left alone", reason)));
    tell(&printable(&pairs(&rows)), &[Some(out)])?;
    Ok(Outcome::Done)
}

/// The objects of sources, as requests of a batch. Larger ones than `split` are cut into pieces of that size.
pub(crate) fn gather(source: &SourceArgs, sources: &[String], split: Option<u64>) -> Result<Gathered> {
    let catalogue = live::runtime()?.block_on(live::catalogue(source, sources))?;
    let mut gathered = Gathered::new(split);
    for object in catalogue.objects() {
        // Where the servers change within an object, each part is a chunk of its own.
        let mut start = 0;
        let cuts = catalogue.cuts(&object);
        for &end in &cuts {
            let servers = catalogue.servers_of(&object, &(start..end));
            let servers: Vec<&str> =
                servers.into_iter().map(|server| &*catalogue.servers()[server]).collect();
            let name = if cuts.len() > 1 { format!("{}@{start}", object.key) } else { object.key.clone() };
            gathered.add_chunk(&name, end - start, &servers).map_err(|e| anyhow!("{}: {e}", object.key))?;
            start = end;
        }
    }
    Ok(gathered)
}
