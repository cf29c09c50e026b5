//! What commands on real storage share.

use std::path::Path;

use anyhow::{Context, Result, bail};
use evenkeel_formats::import::{MetalinkFile, read_metalink_files};
use evenkeel_store::{Algorithm, Catalogue, Hash, Metalink, MirroredFile, Source, Trust};
use glob::{MatchOptions, Pattern};
use tokio::runtime::Runtime;

use crate::cli::{SourceArgs, TrustName};
use crate::input;
use crate::output::{printable, warn};

/// Failures that are listed one by one.
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
    unusable.iter().take(MOST_REMARKS).try_for_each(|what| warn(&printable(what)))?;
    Ok(Box::new(metalink))
}

/// A file of a Metalink, with the hashes of algorithms that are known.
fn mirrored(file: MetalinkFile) -> MirroredFile {
    let hash = |(kind, digits): &(String, String)| Hash::from_hex(Algorithm::named(kind)?, digits);
    let hashes = file.hashes.iter().filter_map(hash).collect();
    let urls = file.urls.into_iter().map(|(_, url)| url).collect();
    MirroredFile { name: file.name, bytes: file.bytes, hashes, urls }
}

/// Which objects are wanted.
struct Filter {
    included: Vec<Pattern>,
    excluded: Vec<Pattern>,
}

impl Filter {
    fn new(args: &SourceArgs) -> Result<Self> {
        let patterns = |texts: &[String]| texts.iter().map(|text| pattern(text)).collect::<Result<Vec<_>>>();
        Ok(Self { included: patterns(&args.include)?, excluded: patterns(&args.exclude)? })
    }

    fn wants(&self, key: &str) -> bool {
        let options = MatchOptions { require_literal_separator: true, ..MatchOptions::default() };
        let matches = |pattern: &Pattern| pattern.matches_with(key, options);
        (self.included.is_empty() || self.included.iter().any(matches)) && !self.excluded.iter().any(matches)
    }
}

/// A pattern for keys. One without `/` is for names in any folder; one that ends with `/` is for all that is below.
fn pattern(text: &str) -> Result<Pattern> {
    let full = match text.strip_suffix('/') {
        Some(folder) => format!("{folder}/**"),
        None if text.contains('/') => text.to_owned(),
        None => format!("**/{text}"),
    };
    Pattern::new(&full)
        .with_context(|| format!("`{text}` is no pattern; write * for any name and ** for any folders"))
}

/// Lists the mirrors or sources that the arguments name, and says what is odd about them.
pub(super) async fn catalogue(args: &SourceArgs, sources: &[String]) -> Result<Catalogue> {
    let trust = match args.trust {
        TrustName::Checksums => Trust::Checksums,
        TrustName::Sizes => Trust::Sizes,
    };
    let filter = Filter::new(args)?;
    let mut catalogue = match (args.mirrors.as_slice(), sources) {
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
    if catalogue.objects().is_empty() {
        bail!("there is nothing to read in what was given");
    }
    catalogue.retain(|object| filter.wants(&object.key));
    if catalogue.objects().is_empty() {
        bail!("--include and --exclude leave nothing to read");
    }
    catalogue.remarks().iter().try_for_each(|remark| warn(&printable(&remark.to_string())))?;
    Ok(catalogue)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_for_names_or_for_paths() {
        let matches = |text: &str, key: &str| {
            let filter = Filter { included: vec![pattern(text).unwrap()], excluded: Vec::new() };
            filter.wants(key)
        };
        assert!(matches("*.csv", "a.csv") && matches("*.csv", "x/y/a.csv") && !matches("*.csv", "a.csv/b"));
        assert!(matches("x/*.csv", "x/a.csv") && !matches("x/*.csv", "x/y/a.csv"));
        assert!(matches("x/**/*.csv", "x/y/z/a.csv") && matches("x/", "x/y/a") && !matches("x/", "z/x/y"));
        assert!(matches("[ab]?", "b1") && !matches("[ab]?", "c1"));
        assert!(pattern("a**").is_err() && pattern("[").is_err());
    }
}
