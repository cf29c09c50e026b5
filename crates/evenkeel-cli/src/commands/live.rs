//! What commands on real storage share.

use std::sync::Arc;

use anyhow::{Context, Result, bail};
use evenkeel_store::{Catalogue, Source, State, Trust};
use glob::{MatchOptions, Pattern};
use tokio::runtime::Runtime;
use tokio::sync::watch;

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
    let (filter, trust) = (Filter::new(args)?, trust(args));
    list(data_sets(args, sources, trust).await?, trust, &filter).await
}

async fn list(data_sets: Vec<DataSet>, trust: Trust, filter: &Filter) -> Result<Catalogue> {
    let mut all = Vec::new();
    for mirrors in data_sets {
        all.push(Catalogue::of_wanted(mirrors, trust, &|key| filter.wants(key)).await?);
    }
    let catalogue = Catalogue::join(all)?;
    check(&catalogue)?;
    Ok(catalogue)
}

/// Lists them like [`catalogue`] as far as is enough to begin with, and goes on as long as somebody wants to know. Different
/// sources are listed as a whole, since no two may have the same object.
pub(super) async fn listing(
    args: &SourceArgs,
    sources: &[String],
    is_enough: impl Fn(&Catalogue) -> bool,
) -> Result<watch::Receiver<Arc<Catalogue>>> {
    let (filter, trust) = (Filter::new(args)?, trust(args));
    let mut data_sets = data_sets(args, sources, trust).await?;
    if data_sets.len() != 1 {
        return Ok(watch::channel(Arc::new(list(data_sets, trust, &filter).await?)).1);
    }
    let mirrors = data_sets.remove(0);
    let (sender, mut receiver) = watch::channel(Arc::default());
    tokio::spawn(async move {
        let mut show = |catalogue| drop(sender.send_replace(Arc::new(catalogue)));
        Catalogue::list(mirrors, trust, &|key| filter.wants(key), &mut show).await;
    });
    let first = Arc::clone(&*receiver.wait_for(|catalogue| is_enough(catalogue)).await?);
    match first.state() {
        State::Listing => {}
        State::Complete => check(&first)?,
        State::BrokenOff(error) => return Err(error.clone().into()),
    }
    Ok(receiver)
}

/// Says what is odd about a data set, and whether there is anything to read in it.
fn check(catalogue: &Catalogue) -> Result<()> {
    tell(catalogue.remarks().iter().map(ToString::to_string))?;
    match (catalogue.n_objects(), catalogue.n_left_out()) {
        (0, 0) => bail!("there is nothing to read in what was given"),
        (0, _) => bail!("--include and --exclude leave nothing to read"),
        _ => Ok(()),
    }
}

fn trust(args: &SourceArgs) -> Trust {
    match args.trust {
        TrustName::Checksums => Trust::Checksums,
        TrustName::Sizes => Trust::Sizes,
    }
}

/// Mirrors of the same data.
type DataSet = Vec<Box<dyn Source>>;

/// Opens what the arguments name.
async fn data_sets(args: &SourceArgs, sources: &[String], trust: Trust) -> Result<Vec<DataSet>> {
    let (mut mirrors, mut others) = (Vec::new(), Vec::new());
    for mirror in &args.mirrors {
        match sources::open(mirror, trust, args.cluster.as_deref()).await {
            Ok(source) => mirrors.push(source),
            // Like one that cannot be listed.
            Err(error) if args.mirrors.len() > 1 && sources::is_xrootd(mirror) => {
                tell([format!("{error:#}; this mirror is not used")].into_iter())?;
            }
            Err(error) => return Err(error),
        }
    }
    for source in sources {
        others.push(vec![sources::open(source, trust, args.cluster.as_deref()).await?]);
    }
    for manifest in &args.manifests {
        others.push(vec![sources::open_manifest(manifest, trust).await?]);
    }
    match (mirrors.is_empty(), others.is_empty()) {
        (true, true) => bail!("name a source, mirrors by --mirror, or a manifest by --manifest"),
        (true, false) => Ok(others),
        (false, true) => Ok(vec![mirrors]),
        (false, false) => {
            let manifest = || args.manifests.first().map(|path| path.display().to_string());
            let source = sources.first().cloned().or_else(manifest).unwrap_or_default();
            bail!(
                "{source}: a source beside mirrors; name it by --mirror too, or read it by a command of its own"
            )
        }
    }
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
