//! What sources list: all that can be read, and a word about the rest.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;

use evenkeel_node::{Options, Report, get};
use evenkeel_store::{
    Algorithm, Catalogue, Hash, Hasher, Metalink, MirroredFile, Origin, Pieces, Trust, announced,
};
use tokio::sync::watch;

use crate::web::{Fault, Server};
use crate::{get_mirrors, noise, quick};

#[tokio::test]
async fn what_cannot_be_listed_does_not_keep_the_rest_from_being_read() {
    let (source, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let at = |name: &str| source.path().join(name);
    fs::create_dir_all(at("sub/deep")).unwrap();
    fs::write(at("sub/deep/good"), "good").unwrap();
    fs::write(source.path().join(OsStr::from_bytes(b"sub/\xFF")), "not UTF-8").unwrap();
    symlink("nowhere", at("dangling")).unwrap();
    symlink("itself", at("itself")).unwrap();
    symlink("..", at("sub/deep/up")).unwrap();
    symlink("sub/deep/good", at("file")).unwrap();
    symlink("sub/deep", at("folder")).unwrap();
    let mirrors = [source.path().to_str().unwrap().to_owned()];
    let report = get_mirrors(&mirrors, Trust::Checksums, to.path(), &quick()).await;
    for name in ["sub/deep/good", "file", "folder/good"] {
        assert_eq!(fs::read(to.path().join(name)).unwrap(), b"good", "{name}");
    }
    let told: Vec<(&str, bool)> =
        report.failures.iter().map(|f| (f.key.as_str(), f.why.contains("link leads"))).collect();
    // Through `folder`, the link `up` leads to `sub`, which is not above it, and from there back to `deep`.
    let expected = [
        ("dangling", true),
        ("folder/up/deep/", true),
        ("folder/up/\u{fffd}", false),
        ("itself", false),
        ("sub/deep/up/", true),
        ("sub/\u{fffd}", false),
    ];
    assert_eq!(told, expected, "{:?}", report.failures);
    assert_eq!(report.n_objects, 3);
}

/// What one mirror cannot serve comes from another, without a failure.
#[tokio::test]
async fn what_another_mirror_has_is_read_there() {
    let (east, west) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let to = tempfile::tempdir().unwrap();
    fs::create_dir(west.path().join("sub")).unwrap();
    fs::write(west.path().join("a"), "a").unwrap();
    fs::write(west.path().join("sub/b"), "b").unwrap();
    symlink("nowhere", east.path().join("a")).unwrap();
    symlink(".", east.path().join("sub")).unwrap();
    let mirrors = [east.path(), west.path()].map(|path| path.to_str().unwrap().to_owned());
    let report = get_mirrors(&mirrors, Trust::Sizes, to.path(), &quick()).await;
    assert_eq!(report.failures, []);
    assert_eq!(fs::read(to.path().join("sub/b")).unwrap(), b"b");
}

fn hash(algorithm: Algorithm, data: &[u8]) -> Hash {
    let mut hasher = Hasher::new(algorithm);
    hasher.update(data);
    hasher.finish()
}

/// A file with checksums of its pieces, and none of the whole.
fn in_pieces(data: &[u8], piece_bytes: usize, urls: Vec<String>) -> MirroredFile {
    let hashes = data.chunks(piece_bytes).map(|piece| hash(Algorithm::Sha1, piece)).collect();
    let pieces = Pieces::new(data.len() as u64, piece_bytes as u64, hashes).unwrap();
    MirroredFile {
        name: "disk.iso".to_owned(),
        bytes: Some(data.len() as u64),
        hashes: Vec::new(),
        pieces: Some(Arc::new(pieces)),
        urls,
    }
}

async fn get_files(files: Vec<MirroredFile>, origin: Origin<'_>, to: &Path, options: &Options) -> Report {
    let (metalink, unusable) = Metalink::new(files, origin, Trust::Checksums).await;
    assert_eq!(unusable, [] as [&str; 0]);
    let catalogue = Catalogue::of_mirrors(vec![Box::new(metalink)], Trust::Checksums).await.unwrap();
    let (_stop, stopped) = watch::channel(false);
    get(Arc::new(catalogue), to, options, stopped, &mut |_| {}).await.unwrap()
}

fn one(key: &str, data: &[u8]) -> BTreeMap<String, Vec<u8>> {
    BTreeMap::from([(key.to_owned(), data.to_vec())])
}

/// One of three mirrors damages every answer: only those pieces are read again, elsewhere.
#[tokio::test]
async fn only_damaged_pieces_are_read_again() {
    let data = noise(3, 1_000_000);
    let served = one("f", &data);
    let bad = Server::start(&served, false, |_| Some(Fault::Damage)).await;
    let (good, better) =
        (Server::start(&served, false, |_| None).await, Server::start(&served, false, |_| None).await);
    for piece_bytes in [10_000, 16_384, 100_000] {
        let urls: Vec<String> = [&bad, &good, &better].map(|server| format!("{}f", server.address)).into();
        let to = tempfile::tempdir().unwrap();
        let file = in_pieces(&data, piece_bytes, urls);
        let report = get_files(vec![file], Origin::Metalink, to.path(), &quick()).await;
        assert_eq!((&report.failures[..], report.n_unverified), (&[][..], 0));
        assert_eq!(fs::read(to.path().join("disk.iso")).unwrap(), data);
        assert!(!report.damaged.is_empty(), "{:?}", report.servers);
        // A piece may have parts from others, but all that is damaged has one of this server.
        let culprit = bad.address.trim_end_matches('/');
        assert!(report.damaged.iter().all(|told| told.contains(culprit)), "{:?}", report.damaged);
        // A large piece has parts of all three, so that each may have to be asked for all of it.
        let most = if piece_bytes > 16_384 { 4_000_000 } else { 2_000_000 };
        assert!(report.received_bytes < most, "{} bytes", report.received_bytes);
    }
}

#[tokio::test]
async fn a_piece_that_is_damaged_everywhere_is_missing() {
    let (data, to) = (noise(4, 100_000), tempfile::tempdir().unwrap());
    let served = one("f", &data);
    let (east, west) = (
        Server::start(&served, false, |_| Some(Fault::Damage)).await,
        Server::start(&served, false, |_| Some(Fault::Damage)).await,
    );
    let urls = [&east, &west].map(|server| format!("{}f", server.address)).into();
    let file = in_pieces(&data, 16_384, urls);
    let report = get_files(vec![file], Origin::Metalink, to.path(), &quick()).await;
    assert!(report.failures[0].why.contains("wrong sha-1 at every server"), "{:?}", report.failures);
    assert!(!to.path().join("disk.iso").exists());
}

/// Without a checksum, versions could be mixed: one mirror serves all of it, and it is said to be unverified.
#[tokio::test]
async fn a_file_without_a_checksum_comes_from_one_mirror() {
    let (data, to) = (noise(5, 200_000), tempfile::tempdir().unwrap());
    let served = one("f", &data);
    let (east, west) =
        (Server::start(&served, false, |_| None).await, Server::start(&served, false, |_| None).await);
    // Nothing listens at the discard port.
    let dead = "http://127.0.0.1:9/f".to_owned();
    let urls = vec![dead, format!("{}f", east.address), format!("{}f", west.address)];
    let file = MirroredFile {
        name: "f".to_owned(),
        bytes: Some(200_000),
        hashes: Vec::new(),
        pieces: None,
        urls: urls.clone(),
    };
    let report = get_files(vec![file.clone()], Origin::Metalink, to.path(), &quick()).await;
    assert_eq!((&report.failures[..], report.n_unverified), (&[][..], 1));
    let senders = report.servers.iter().filter(|server| server.bytes > 0).count();
    assert_eq!(senders, 1, "{:?}", report.servers);
    // Of another size than it should have, it is not even begun.
    let wrong = MirroredFile { bytes: Some(200_001), ..file };
    let to = tempfile::tempdir().unwrap();
    let (metalink, _) = Metalink::new(vec![wrong], Origin::Metalink, Trust::Checksums).await;
    let catalogue = Catalogue::of_mirrors(vec![Box::new(metalink)], Trust::Checksums).await.unwrap();
    assert!(catalogue.unreadable()[0].error.to_string().contains("not as listed"));
    drop(to);
}

/// The replicas of a manifest may be files of this machine, but those of a Metalink may not.
#[tokio::test]
async fn a_manifest_may_name_files_here() {
    let (data, folder) = (noise(6, 50_000), tempfile::tempdir().unwrap());
    fs::create_dir_all(folder.path().join("mnt/sub")).unwrap();
    fs::write(folder.path().join("mnt/sub/f"), &data).unwrap();
    let server = Server::start(&one("f", &data), false, |_| None).await;
    let local = folder.path().join("mnt/sub/f").display().to_string();
    let file = MirroredFile {
        name: "sub/f".to_owned(),
        bytes: Some(50_000),
        hashes: vec![hash(Algorithm::Sha256, &data)],
        pieces: None,
        urls: vec![format!("file://{local}"), format!("{}f", server.address)],
    };
    let to = folder.path().join("to");
    let report = get_files(vec![file.clone()], Origin::Manifest, &to, &quick()).await;
    assert_eq!((&report.failures[..], report.n_unverified), (&[][..], 0));
    assert_eq!(fs::read(to.join("sub/f")).unwrap(), data);
    let names: Vec<&str> = report.servers.iter().map(|server| server.name.as_str()).collect();
    assert_eq!(names[0], format!("{}/mnt/", folder.path().display()));
    let (_, unusable) = Metalink::new(vec![file], Origin::Metalink, Trust::Checksums).await;
    assert!(unusable[0].contains("cannot be read"), "{unusable:?}");
}

/// Mirrors in the headers of a file become replicas if they have the same size and no other checksum.
#[tokio::test]
async fn announced_mirrors_are_replicas_if_they_are_the_same() {
    let data = noise(8, 300_000);
    let served = one("f", &data);
    let same = Server::start(&served, true, |_| None).await;
    let silent = Server::start(&served, false, |_| None).await;
    let other = Server::start(&one("f", &noise(9, 300_000)), true, |_| None).await;
    let short = Server::start(&one("f", &data[1..]), false, |_| None).await;
    let link = |server: &Server, n: u32| format!("Link: <{}f>; rel=duplicate; pri={n}", server.address);
    let links = [
        link(&other, 1),
        link(&silent, 3),
        format!("{}, <ftp://x/f>; rel=duplicate", link(&same, 2)),
        link(&short, 4),
        "Link: </f.meta4>; rel=describedby; type=\"application/metalink4+xml\"".to_owned(),
    ];
    let first = Server::start_with(&served, true, &links, |_| None).await;
    let address = format!("{}f", first.address);
    let found = announced(&address).await.unwrap();
    let expected = [&first, &same, &silent].map(|server| format!("{}f", server.address));
    assert_eq!(found.file.urls, expected);
    assert_eq!(found.metalink, Some(format!("{}f.meta4", first.address)));
    assert_eq!(found.unusable.len(), 2, "{:?}", found.unusable);
    let to = tempfile::tempdir().unwrap();
    let report = get_files(vec![found.file], Origin::Headers(&address), to.path(), &quick()).await;
    assert_eq!((&report.failures[..], report.n_unverified), (&[][..], 0));
    assert_eq!(fs::read(to.path().join("f")).unwrap(), data);
    assert!(report.servers.iter().all(|server| server.bytes > 0), "{:?}", report.servers);
    // Without a checksum of its own, a server's word is not enough.
    let first = Server::start_with(&served, false, &links, |_| None).await;
    let found = announced(&format!("{}f", first.address)).await.unwrap();
    assert_eq!((found.file.urls.len(), found.unusable.len()), (1, 1));
}

/// XRootD's own addresses are read over HTTP, if its port speaks it.
#[tokio::test]
async fn grid_addresses_are_read_over_http() {
    let (data, to) = (noise(10, 50_000), tempfile::tempdir().unwrap());
    let server = Server::start(&one("store/f", &data), false, |_| None).await;
    let host = server.address.strip_prefix("http://").unwrap().trim_end_matches('/');
    let file = MirroredFile {
        name: "f".to_owned(),
        bytes: Some(50_000),
        hashes: vec![hash(Algorithm::Adler32, &data)],
        pieces: None,
        urls: vec![format!("root://{host}//store/f")],
    };
    let report = get_files(vec![file], Origin::Metalink, to.path(), &quick()).await;
    assert_eq!((&report.failures[..], report.n_unverified), (&[][..], 0));
    assert_eq!(report.servers[0].name, format!("http://{host}"));
}
