//! Sources by the addresses that people write, Metalinks and manifests among them.

use std::io::{BufRead, Cursor};
use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use evenkeel_formats::import::{MetalinkFile, MetalinkPieces, read_metalink_files};
use evenkeel_formats::{ManifestObject, Reading, read_manifest_csv};
use evenkeel_store::cluster::{Cluster, Keel};
use evenkeel_store::{Algorithm, Hash, Metalink, MirroredFile, Origin, Pieces, Source, Trust};

use super::live::tell;
use crate::input;

/// The maximum size of a Metalink at a web server.
const MOST_METALINK_BYTES: usize = 64 << 20;

/// Opens a source: a Metalink if its name says so, else what is at the address. A web server is asked where else a file is.
/// Addresses in a cluster are of the one in the file, or else of the one that the environment names.
pub(super) async fn open(address: &str, trust: Trust, cluster: Option<&Path>) -> Result<Box<dyn Source>> {
    if let Some(file) = cluster.filter(|_| address.starts_with("keel://")) {
        return Ok(Box::new(Keel::new(&Cluster::read(file)?, address)?));
    }
    let is_metalink = is_metalink(Path::new(address));
    let web = evenkeel_store::over_http(address).await?;
    let is_web = web.starts_with("http://") || web.starts_with("https://");
    let (files, origin) = if is_metalink && is_web {
        (metalink_at(&web).await?, Origin::Metalink)
    } else if is_metalink && !web.contains("://") {
        let input::Source { name, reader } = input::Source::open(Path::new(address))?;
        (read_metalink(reader, &name)?, Origin::Metalink)
    } else if is_web && !web.ends_with('/') {
        (announced(&web).await?, Origin::Headers(&web))
    } else {
        (Vec::new(), Origin::Metalink)
    };
    if files.is_empty() && !is_metalink {
        return Ok(evenkeel_store::open(&web)?);
    }
    let (metalink, unusable) = Metalink::new(files, origin, trust).await;
    tell(unusable.into_iter())?;
    Ok(Box::new(metalink))
}

/// Whether a file or an address is a Metalink, as its name says.
pub(crate) fn is_metalink(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "meta4" || extension == "metalink")
}

/// Whether an address is of XRootD's own protocol, so that it has to be asked where it serves HTTP.
pub(super) fn is_xrootd(address: &str) -> bool {
    let scheme = address.split_once("://").map(|(scheme, _)| scheme);
    matches!(scheme, Some("root" | "roots" | "xroot" | "xroots"))
}

/// Opens the objects of a manifest.
pub(super) async fn open_manifest(path: &Path, trust: Trust) -> Result<Box<dyn Source>> {
    let input::Source { name, reader } = input::Source::open(path)?;
    let file = |object: ManifestObject| {
        let sha256 = object.sha256.as_deref().and_then(|digits| Hash::from_hex(Algorithm::Sha256, digits));
        MirroredFile {
            name: object.key,
            bytes: Some(object.bytes),
            hashes: sha256.into_iter().collect(),
            pieces: None,
            urls: object.replicas,
        }
    };
    let files = read_manifest_csv(reader, &Reading::of(&name))?.into_iter().map(file).collect();
    let (source, unusable) = Metalink::new(files, Origin::Manifest, trust).await;
    tell(unusable.into_iter())?;
    Ok(Box::new(source))
}

/// The file at a web address if the server names mirrors of it, or a Metalink that does; else nothing.
async fn announced(address: &str) -> Result<Vec<MirroredFile>> {
    // If it cannot be reached, listing it says so.
    let Ok(found) = evenkeel_store::announced(address).await else { return Ok(Vec::new()) };
    let (mut file, mut unusable) = (found.file, found.unusable);
    if let Some(metalink) = &found.metalink {
        match metalink_at(metalink).await {
            Ok(described) => {
                if let Some(described) = described.into_iter().find(|other| is_same(&file, other)) {
                    add(&mut file, described);
                }
            }
            Err(error) => unusable.push(format!("{error:#}; this Metalink is not used")),
        }
    }
    tell(unusable.into_iter())?;
    Ok(if file.urls.len() > 1 { vec![file] } else { Vec::new() })
}

/// Whether a Metalink describes a file: same name and size, and no checksum that differs.
fn is_same(file: &MirroredFile, other: &MirroredFile) -> bool {
    let differs = |hash: &Hash| file.hashes.iter().any(|our| our.algorithm == hash.algorithm && our != hash);
    // A Metalink may put its files into folders.
    other.name.rsplit('/').next() == Some(&file.name)
        && other.bytes.is_none_or(|bytes| file.bytes == Some(bytes))
        && !other.hashes.iter().any(differs)
        && (!other.hashes.is_empty() || other.pieces.is_some())
}

/// Adds what a Metalink knows about a file.
fn add(file: &mut MirroredFile, described: MirroredFile) {
    for hash in described.hashes {
        if !file.hashes.contains(&hash) {
            file.hashes.push(hash);
        }
    }
    file.hashes.sort_by_key(|hash| hash.algorithm);
    file.pieces = described.pieces;
    for url in described.urls {
        if !file.urls.contains(&url) {
            file.urls.push(url);
        }
    }
}

/// The files of a Metalink at a web server.
async fn metalink_at(address: &str) -> Result<Vec<MirroredFile>> {
    let bytes = evenkeel_store::fetch(address, MOST_METALINK_BYTES).await?;
    read_metalink(Cursor::new(bytes), address)
}

/// The files of a Metalink.
fn read_metalink(reader: impl BufRead, name: &str) -> Result<Vec<MirroredFile>> {
    let (mut files, mut remarks) = (Vec::new(), Vec::new());
    read_metalink_files(reader, name, |place, file| {
        let (file, unfit) = mirrored(file);
        remarks.extend(unfit.then(|| {
            let key = &file.name;
            format!(
                "{name}:{}: {key}: the hashes of its pieces do not fit its size, and are not used",
                place.line
            )
        }));
        files.push(file);
        Ok(())
    })?;
    tell(remarks.into_iter())?;
    Ok(files)
}

/// A file of a Metalink, with the hashes of algorithms that are known, and whether it has pieces that do not fit.
fn mirrored(file: MetalinkFile) -> (MirroredFile, bool) {
    let hash = |(kind, digits): &(String, String)| Hash::from_hex(Algorithm::named(kind)?, digits);
    let mut hashes: Vec<Hash> = file.hashes.iter().filter_map(hash).collect();
    hashes.sort_by_key(|hash| hash.algorithm);
    let mut known: Vec<(Algorithm, &MetalinkPieces)> =
        file.pieces.iter().filter_map(|list| Some((Algorithm::named(&list.kind)?, list))).collect();
    // The strongest algorithm comes first.
    known.sort_by_key(|(algorithm, _)| *algorithm);
    let pieces = known.iter().find_map(|(algorithm, list)| {
        let hashes: Option<Vec<Hash>> =
            list.hashes.iter().map(|digits| Hash::from_hex(*algorithm, digits)).collect();
        Pieces::new(file.bytes?, list.bytes, hashes?)
    });
    let is_unfit = pieces.is_none() && !known.is_empty();
    let urls = file.urls.into_iter().map(|(_, url)| url).collect();
    (
        MirroredFile { name: file.name, bytes: file.bytes, hashes, pieces: pieces.map(Arc::new), urls },
        is_unfit,
    )
}
