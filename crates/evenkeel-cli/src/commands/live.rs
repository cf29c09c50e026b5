//! What commands on real storage share.

use anyhow::{Context, Result, bail};
use evenkeel_store::{Catalogue, Trust, open};
use tokio::runtime::Runtime;

use crate::cli::{SourceArgs, TrustName};
use crate::output::{printable, warn};

/// Sockets, timers, and threads that wait for disks.
pub(super) fn runtime() -> Result<Runtime> {
    Runtime::new().context("cannot start threads")
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
            let mirrors: Result<Vec<_>, _> = mirrors.iter().map(|mirror| open(mirror)).collect();
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
    catalogue.remarks().iter().try_for_each(|remark| warn(&printable(&remark.to_string())))?;
    Ok(catalogue)
}
