//! A folder is compared with what the sources say, and a read keeps to its limit.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use evenkeel_node::{Options, Verification, verify};
use evenkeel_store::{Catalogue, Trust, open};
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
