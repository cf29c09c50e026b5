//! What commands on real storage share.

use std::collections::HashMap;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use evenkeel_store::{Catalogue, Source, Trust};
use glob::{MatchOptions, Pattern};
use tokio::runtime::Runtime;

use super::sources;
use crate::cli::{SourceArgs, TrustName};
use crate::output::{printable, warn};

/// Remarks that are told one by one.
const MOST_REMARKS: usize = 20;

/// Sockets, timers, and threads that wait for disks.
pub(super) fn runtime() -> Result<Runtime> {
    Runtime::new().context("cannot start threads")
}

/// Says on standard error what is odd, up to a point.
pub(super) fn tell(mut remarks: impl ExactSizeIterator<Item = String>) -> Result<()> {
    remarks.by_ref().take(MOST_REMARKS).try_for_each(|remark| warn(&printable(&remark)))?;
    match remarks.len() {
        0 => Ok(()),
        n => Ok(warn(&format!("and {n} more remarks"))?),
    }
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
        let matches = |pattern: &Pattern| is_match(pattern, key);
        (self.included.is_empty() || self.included.iter().any(matches)) && !self.excluded.iter().any(matches)
    }
}

/// Whether a key matches a pattern.
pub(super) fn is_match(pattern: &Pattern, key: &str) -> bool {
    let options = MatchOptions { require_literal_separator: true, ..MatchOptions::default() };
    pattern.matches_with(key, options)
}

/// A pattern for keys. One without `/` is for names in any folder; one that ends with `/` is for all that is below.
pub(super) fn pattern(text: &str) -> Result<Pattern> {
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
    Ok(catalogue_and_load(args, sources).await?.0)
}

/// The same, and how many transfers servers are busy with, as far as their storage tells.
pub(super) async fn catalogue_and_load(
    args: &SourceArgs,
    sources: &[String],
) -> Result<(Catalogue, HashMap<String, u64>)> {
    let trust = match args.trust {
        TrustName::Checksums => Trust::Checksums,
        TrustName::Sizes => Trust::Sizes,
    };
    let filter = Filter::new(args)?;
    let (mut mirrors, mut others) = (Vec::new(), Vec::new());
    let mut all: Vec<Arc<dyn Source>> = Vec::new();
    let mut shared = |source: Box<dyn Source>| -> Box<dyn Source> {
        let source: Arc<dyn Source> = source.into();
        all.push(Arc::clone(&source));
        Box::new(source)
    };
    for mirror in &args.mirrors {
        match sources::open(mirror, trust).await {
            Ok(source) => mirrors.push(shared(source)),
            // Like one that cannot be listed.
            Err(error) if args.mirrors.len() > 1 && sources::is_xrootd(mirror) => {
                tell([format!("{error:#}; this mirror is not used")].into_iter())?;
            }
            Err(error) => return Err(error),
        }
    }
    for source in sources {
        others.push(shared(sources::open(source, trust).await?));
    }
    for manifest in &args.manifests {
        others.push(shared(sources::open_manifest(manifest, trust).await?));
    }
    let mut catalogue = match (mirrors.is_empty(), others.is_empty()) {
        (true, true) => bail!("name a source, mirrors by --mirror, or a manifest by --manifest"),
        (true, false) => {
            let mut catalogues = Vec::new();
            for source in others {
                catalogues.push(Catalogue::of_mirrors(vec![source], trust).await?);
            }
            Catalogue::join(catalogues)?
        }
        (false, true) => Catalogue::of_mirrors(mirrors, trust).await?,
        (false, false) => {
            let manifest = || args.manifests.first().map(|path| path.display().to_string());
            let source = sources.first().cloned().or_else(manifest).unwrap_or_default();
            bail!(
                "{source}: a source beside mirrors; name it by --mirror too, or read it by a command of its own"
            )
        }
    };
    tell(catalogue.remarks().iter().map(ToString::to_string))?;
    if catalogue.n_objects() == 0 {
        bail!("there is nothing to read in what was given");
    }
    catalogue.retain(|object| filter.wants(&object.key));
    if catalogue.n_objects() == 0 {
        bail!("--include and --exclude leave nothing to read");
    }
    let load = all.iter().flat_map(Source::connections).collect();
    Ok((catalogue, load))
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
