//! A folder is compared with what the sources say, and a read keeps to its limit.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use evenkeel_node::{Line, Options, Verification, get, verify};
use evenkeel_store::{Algorithm, Catalogue, Hasher, Metalink, MirroredFile, Origin, Pieces, Trust, open};
use tokio::sync::watch;

use crate::web::Server;
use crate::{get_mirrors, noise, quick};

async fn look(server: &Server, folder: &Path) -> Verification {
    let catalogue =
        Catalogue::of_mirrors(vec![open(&server.address).unwrap()], Trust::Checksums).await.unwrap();
    let (_stop, stopped) = watch::channel(false);
    verify(Arc::new(catalogue), folder, stopped).await.unwrap()
}

#[tokio::test]
async fn what_differs_is_found() {
    let files: BTreeMap<String, Vec<u8>> =
        ["a", "b", "c", "d", "e"].iter().map(|&key| (key.to_owned(), noise(1, 100_000))).collect();
    let to = tempfile::tempdir().unwrap();
    let server = Server::start(&files, true, |_| None).await;
    get_mirrors(std::slice::from_ref(&server.address), Trust::Checksums, to.path(), &quick()).await;
    let all = look(&server, to.path()).await;
    assert_eq!((all.n_right, all.bytes), (5, 500_000));
    assert!(all.missing.is_empty() && all.differing.is_empty() && all.unverifiable.is_empty());
    let mut damaged = files["a"].clone();
    damaged[77_777] ^= 1;
    fs::write(to.path().join("a"), damaged).unwrap();
    fs::write(to.path().join("b"), "short").unwrap();
    fs::remove_file(to.path().join("c")).unwrap();
    fs::remove_file(to.path().join("d")).unwrap();
    fs::create_dir(to.path().join("d")).unwrap();
    let found = look(&server, to.path()).await;
    assert_eq!((found.n_right, found.missing), (1, vec!["c".to_owned()]));
    let differing: Vec<(&str, &str)> =
        found.differing.iter().map(|failure| (failure.key.as_str(), failure.why.as_str())).collect();
    assert!(differing[0].0 == "a" && differing[0].1.contains("is wrong"), "{differing:?}");
    assert_eq!(differing[1..], [("b", "it has 5 bytes instead of 100000"), ("d", "it is no file")]);
    // A server that tells no checksums leaves nothing to verify by.
    let silent = Server::start(&files, false, |_| None).await;
    assert_eq!(look(&silent, to.path()).await.unverifiable, ["a", "e"]);
}

/// A file that has no checksum but those of its pieces can be compared by these, by a verification and by a read.
#[tokio::test]
async fn pieces_are_checksums_too() {
    let (data, to) = (noise(3, 100_000), tempfile::tempdir().unwrap());
    let server = Server::start(&BTreeMap::from([("a".to_owned(), data.clone())]), false, |_| None).await;
    let hash = |piece: &[u8]| {
        let mut hasher = Hasher::new(Algorithm::Sha256);
        hasher.update(piece);
        hasher.finish()
    };
    let pieces = Pieces::new(100_000, 30_000, data.chunks(30_000).map(hash).collect()).map(Arc::new);
    let catalogue = || async {
        let (bytes, pieces) = (Some(data.len() as u64), pieces.clone());
        let urls = vec![format!("{}a", server.address)];
        let file = MirroredFile { name: "a".to_owned(), bytes, hashes: Vec::new(), pieces, urls };
        let (metalink, _) = Metalink::new(vec![file], Origin::Metalink, Trust::Checksums).await;
        Arc::new(Catalogue::of_mirrors(vec![Box::new(metalink)], Trust::Checksums).await.unwrap())
    };
    let stopped = || watch::channel(false).1;
    let read = |catalogue| async {
        get(catalogue, to.path(), &quick(), stopped(), &mut |_: &Line<'_>| {}).await.unwrap()
    };
    assert_eq!(read(catalogue().await).await.n_unverified, 0);
    assert_eq!(verify(catalogue().await, to.path(), stopped()).await.unwrap().n_right, 1);
    assert_eq!(read(catalogue().await).await.n_kept, 1);
    let mut damaged = data.clone();
    damaged[99_999] ^= 1;
    fs::write(to.path().join("a"), damaged).unwrap();
    let found = verify(catalogue().await, to.path(), stopped()).await.unwrap();
    assert_eq!(found.differing[0].why, "bytes 90000 to 99999 are damaged");
    assert!(read(catalogue().await).await.failures[0].why.contains("differs"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_holds() {
    let files = BTreeMap::from([("a".to_owned(), noise(1, 600_000))]);
    let (a, b) = (Server::start(&files, true, |_| None).await, Server::start(&files, true, |_| None).await);
    let (to, begun) = (tempfile::tempdir().unwrap(), Instant::now());
    let options = Options { limit: Some(400_000), ..quick() };
    let mirrors = [a.address.clone(), b.address.clone()];
    let report = get_mirrors(&mirrors, Trust::Checksums, to.path(), &options).await;
    assert_eq!(report.failures, []);
    // What comes first need not wait: a chunk in each of four slots.
    assert!(begun.elapsed() > Duration::from_millis(1200), "{:?}", begun.elapsed());
    assert!(report.received_bytes < 700_000, "a limit is no reason to read twice: {}", report.received_bytes);
}
