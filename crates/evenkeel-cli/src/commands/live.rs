//! What commands on real storage share.

use std::path::Path;

use anyhow::{Context, Result, bail};
use evenkeel_formats::import::{MetalinkFile, read_metalink_files};
use evenkeel_store::{Algorithm, Catalogue, Hash, Metalink, MirroredFile, Source, Trust};
use tokio::runtime::Runtime;

use crate::cli::{SourceArgs, TrustName};
use crate::input;
use crate::output::{printable, warn};

/// Remarks that are told one by one.
const MOST_REMARKS: usize = 20;

/// Sockets, timers, and threads that wait for disks.
pub(super) fn runtime() -> Result<Runtime> {
    Runtime::new().context("cannot start threads")
}

/// Opens a source: a Metalink if its name says so, else what is at the address.
fn open(address: &str) -> Result<Box<dyn Source>> {
    let path = Path::new(address);
    let is_metalink =
        path.extension().is_some_and(|extension| extension == "meta4" || extension == "metalink");
    if !is_metalink || address.contains("://") {
        return Ok(evenkeel_store::open(address)?);
    }
    let input::Source { name, reader } = input::Source::open(path)?;
    let mut files = Vec::new();
    read_metalink_files(reader, &name, |_, file| {
        files.push(mirrored(file));
        Ok(())
    })?;
    let (metalink, unusable) = Metalink::new(files);
    tell(unusable.into_iter())?;
    Ok(Box::new(metalink))
}

/// Says on standard error what is odd, up to a point.
fn tell(mut remarks: impl ExactSizeIterator<Item = String>) -> Result<()> {
    remarks.by_ref().take(MOST_REMARKS).try_for_each(|remark| warn(&printable(&remark)))?;
    match remarks.len() {
        0 => Ok(()),
        n => Ok(warn(&format!("and {n} more remarks"))?),
    }
}

/// A file of a Metalink, with the hashes of algorithms that are known.
fn mirrored(file: MetalinkFile) -> MirroredFile {
    let hash = |(kind, digits): &(String, String)| Hash::from_hex(Algorithm::named(kind)?, digits);
    let hashes = file.hashes.iter().filter_map(hash).collect();
    let urls = file.urls.into_iter().map(|(_, url)| url).collect();
    MirroredFile { name: file.name, bytes: file.bytes, hashes, urls }
}

/// Lists the mirrors or sources that the arguments name, and says what is odd about them.
pub(super) async fn catalogue(args: &SourceArgs, sources: &[String]) -> Result<Catalogue> {
    let trust = match args.trust {
        TrustName::Checksums => Trust::Checksums,
        TrustName::Sizes => Trust::Sizes,
    };
    let catalogue = match (args.mirrors.as_slice(), sources) {
        ([], []) => bail!("name a source, or mirrors by --mirror"),
        ([], sources) => {
            let mut all = Vec::new();
            for source in sources {
                all.push(Catalogue::of_mirrors(vec![open(source)?], trust).await?);
            }
            Catalogue::join(all)?
        }
        (mirrors, []) => {
            let mirrors: Result<Vec<_>> = mirrors.iter().map(|mirror| open(mirror)).collect();
            Catalogue::of_mirrors(mirrors?, trust).await?
        }
        (_, [source, ..]) => {
            bail!(
                "{source}: a source beside mirrors; name it by --mirror too, or read it by a command of its own"
            )
        }
    };
    tell(catalogue.remarks().iter().map(ToString::to_string))?;
    if catalogue.objects().is_empty() {
        bail!("there is nothing to read in what was given");
    }
    Ok(catalogue)
}
