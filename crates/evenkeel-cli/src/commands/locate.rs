//! `evenkeel locate`: a batch of what is on real storage.

use anyhow::{Result, anyhow};
use evenkeel_formats::import::Gathered;

use super::import::Import;
use super::{Outcome, live};
use crate::cli::{LocateArgs, SourceArgs};

pub(super) fn run(args: &LocateArgs) -> Result<Outcome> {
    let import = Import::new("locate", &args.output, &args.source.files(&args.sources))?;
    import.finish(gather(&args.source, &args.sources, args.output.split)?)
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
