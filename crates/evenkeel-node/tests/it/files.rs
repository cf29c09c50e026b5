//! What happens in the destination: names, files that are there, interrupted reads.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_node::{GetError, Happening, Line, Options, Report, get};
use evenkeel_store::{Algorithm, Catalogue, Hasher, Metalink, MirroredFile, Origin, Trust, open};
use tokio::sync::watch;

use crate::web::Server;
use crate::{get_mirrors, noise, quick};

async fn get_one(source: &str, to: &Path, options: &Options) -> Report {
    get_mirrors(&[source.to_owned()], Trust::Checksums, to, options).await
}

fn files() -> BTreeMap<String, Vec<u8>> {
    BTreeMap::from([("a".to_owned(), noise(1, 200_000)), ("b".to_owned(), noise(2, 10))])
}

#[tokio::test]
async fn folders_are_read_with_all_that_is_in_them() {
    let (source, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::create_dir_all(source.path().join("x/y")).unwrap();
    fs::write(source.path().join("x/y/größe %20#?.txt"), noise(1, 100_000)).unwrap();
    fs::write(source.path().join("empty"), "").unwrap();
    let report = get_one(source.path().to_str().unwrap(), to.path(), &quick()).await;
    assert_eq!((report.n_objects, report.n_unverified, report.failures.len()), (2, 2, 0));
    assert_eq!(fs::read(to.path().join("x/y/größe %20#?.txt")).unwrap(), noise(1, 100_000));
    assert!(fs::read(to.path().join("empty")).unwrap().is_empty());
}

#[tokio::test]
async fn files_that_are_there_are_kept_and_others_never_replaced_unasked() {
    let (files, to) = (files(), tempfile::tempdir().unwrap());
    let server = Server::start(&files, true, |_| None).await;
    assert_eq!(get_one(&server.address, to.path(), &quick()).await.failures, []);
    let again = get_one(&server.address, to.path(), &quick()).await;
    assert_eq!((again.n_kept, again.received_bytes), (2, 0));
    fs::write(to.path().join("b"), "something else").unwrap();
    let refused = get_one(&server.address, to.path(), &quick()).await;
    assert_eq!(refused.failures.len(), 1);
    assert!(refused.failures[0].why.contains("--overwrite"), "{}", refused.failures[0].why);
    assert_eq!(fs::read(to.path().join("b")).unwrap(), b"something else");
    let replaced = get_one(&server.address, to.path(), &Options { overwrite: true, ..quick() }).await;
    assert_eq!(replaced.failures, []);
    assert_eq!(fs::read(to.path().join("b")).unwrap(), files["b"]);
}

/// A server may list any name: none leads out of the destination.
#[tokio::test]
async fn names_never_lead_outside() {
    let outside = tempfile::tempdir().unwrap();
    let to = outside.path().join("to");
    fs::create_dir_all(&to).unwrap();
    std::os::unix::fs::symlink(outside.path(), to.join("link")).unwrap();
    let names = [
        "..%2Fout",
        "%2E%2E%2Fout",
        "%2Fetc%2Fout",
        "x%00y",
        "link%2Fout",
        ".evenkeel-journal",
        "good",
        "good%2F%2Fx",
    ];
    let files = names.map(|name| (name.to_owned(), noise(1, 10)));
    let server = Server::start(&files.into(), true, |_| None).await;
    let report = get_one(&server.address, &to, &quick()).await;
    let missing: Vec<&str> = report.failures.iter().map(|failure| failure.key.as_str()).collect();
    assert_eq!(fs::read(to.join("good")).unwrap(), noise(1, 10));
    assert_eq!(missing.len(), report.n_objects - 1, "{missing:?}");
    assert!(!outside.path().join("out").exists());
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
}

/// A read that was stopped when some of it had arrived.
async fn interrupted(files: &BTreeMap<String, Vec<u8>>, to: &Path) -> Report {
    // The first requests are answered, the others hang.
    let slow = Server::start(files, true, |n| (n > 6).then_some(crate::web::Fault::Hang)).await;
    let catalogue =
        Catalogue::of_mirrors(vec![open(&slow.address).unwrap()], Trust::Checksums).await.unwrap();
    let (stop, stopped) = watch::channel(false);
    let stopping = async {
        tokio::time::sleep(Duration::from_millis(700)).await;
        stop.send_replace(true);
    };
    let options = Options { patience: Duration::from_mins(1), ..quick() };
    let mut quiet = |_: &Line<'_>| {};
    let (report, ()) = tokio::join!(get(Arc::new(catalogue), to, &options, stopped, &mut quiet), stopping);
    let report = report.unwrap();
    assert!(report.was_stopped && report.received_bytes > 0, "{report:?}");
    report
}

/// What was received before an interruption is not read again, and what is damaged on disk is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_interrupted_read_goes_on() {
    let (files, to) = (files(), tempfile::tempdir().unwrap());
    let report = interrupted(&files, to.path()).await;
    assert!(!to.path().join("a").exists());
    // The same data at another address: the checksum shows that it is the same.
    let fast = Server::start(&files, true, |_| None).await;
    let again = get_one(&fast.address, to.path(), &quick()).await;
    assert_eq!(again.failures, []);
    assert_eq!(again.resumed_bytes, report.received_bytes);
    assert_eq!(again.resumed_bytes + again.received_bytes, again.bytes);
    assert_eq!(fs::read(to.path().join("a")).unwrap(), files["a"]);
    assert_eq!(fs::read_dir(to.path()).unwrap().count(), 2, "nothing is left behind");
}

/// Other data that is read into the same folder meanwhile does not cost what was received.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_interrupted_read_goes_on_after_another() {
    let (files, to) = (files(), tempfile::tempdir().unwrap());
    let received = interrupted(&files, to.path()).await.received_bytes;
    let others = BTreeMap::from([("other".to_owned(), noise(5, 5000))]);
    let other = Server::start(&others, true, |_| None).await;
    assert_eq!(get_one(&other.address, to.path(), &quick()).await.failures, []);
    let fast = Server::start(&files, true, |_| None).await;
    assert_eq!(get_one(&fast.address, to.path(), &quick()).await.resumed_bytes, received);
    assert_eq!(fs::read_dir(to.path()).unwrap().count(), 3, "nothing is left behind");
}

/// Also without a checksum, objects that were complete before an interruption are not read again, unless they changed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_complete_before_an_interruption_is_kept() {
    let (source, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    (0..6).for_each(|n| fs::write(source.path().join(n.to_string()), noise(n, 50_000)).unwrap());
    let address = source.path().display().to_string();
    let catalogue = Catalogue::of_mirrors(vec![open(&address).unwrap()], Trust::Checksums).await.unwrap();
    let (stop, stopped) = watch::channel(false);
    let mut stop_when_some_are_done = |line: &Line<'_>| {
        if matches!(line.what, Happening::Done { .. }) {
            stop.send_replace(true);
        }
    };
    let options = quick();
    let reading = get(Arc::new(catalogue), to.path(), &options, stopped, &mut stop_when_some_are_done);
    assert!(reading.await.unwrap().was_stopped);
    assert!(to.path().join("0").exists() && !to.path().join("5").exists());
    fs::write(to.path().join("1"), noise(9, 50_000)).unwrap();
    let report = get_one(&address, to.path(), &options).await;
    assert_eq!(report.failures.iter().map(|failure| &*failure.key).collect::<Vec<_>>(), ["1"]);
    assert_eq!(report.n_kept, 1);
    let report = get_one(&address, to.path(), &Options { overwrite: true, ..options }).await;
    assert_eq!(report.failures, []);
    (0..6).for_each(|n| assert!(fs::read(to.path().join(n.to_string())).unwrap() == noise(n, 50_000)));
    assert_eq!(fs::read_dir(to.path()).unwrap().count(), 6, "nothing is left behind");
}

/// What a read that was given up still does is over before the next one begins.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_follows_one_that_was_given_up() {
    let (files, to) = (files(), tempfile::tempdir().unwrap());
    let (server, options) = (Server::start(&files, true, |_| None).await, quick());
    for after in 0..20 {
        let reading = get_one(&server.address, to.path(), &options);
        let _ = tokio::time::timeout(Duration::from_millis(after), reading).await;
    }
    assert_eq!(get_one(&server.address, to.path(), &options).await.failures, []);
}

#[tokio::test]
async fn two_reads_into_one_folder_do_not_mix() {
    let (files, to) = (files(), tempfile::tempdir().unwrap());
    let slow = Server::start(&files, true, |_| Some(crate::web::Fault::Hang)).await;
    let other = slow.address.clone();
    let path = to.path().to_owned();
    let first = tokio::spawn(async move { get_one(&other, &path, &quick()).await });
    while !to.path().join(".evenkeel-journal").exists() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let catalogue =
        Catalogue::of_mirrors(vec![open(&slow.address).unwrap()], Trust::Checksums).await.unwrap();
    let (_stop, stopped) = watch::channel(false);
    let second = get(Arc::new(catalogue), to.path(), &quick(), stopped, &mut |_| {}).await;
    assert!(matches!(second, Err(GetError::Destination { .. })), "{second:?}");
    first.abort();
}

/// The mirrors of a Metalink have addresses of their own, and its hash finds the one that is damaged.
#[tokio::test]
async fn a_metalink_is_read_from_all_its_mirrors() {
    let data = noise(7, 100_000);
    let mut hasher = Hasher::new(Algorithm::Sha256);
    hasher.update(&data);
    let hash = hasher.finish();
    let here = Server::start(&BTreeMap::from([("disk.iso".to_owned(), data.clone())]), false, |_| None).await;
    let damaged = |_| Some(crate::web::Fault::Damage);
    let there = Server::start(&BTreeMap::from([("pub".to_owned(), data.clone())]), false, damaged).await;
    let urls = vec![
        "ftp://127.0.0.1/disk.iso".to_owned(),
        format!("{}pub", there.address),
        format!("{}disk.iso", here.address),
    ];
    let file =
        MirroredFile { name: "iso/disk.iso".to_owned(), bytes: None, hashes: vec![hash], pieces: None, urls };
    let (metalink, unusable) = Metalink::new(vec![file], Origin::Metalink, Trust::Checksums).await;
    assert_eq!(unusable.len(), 1, "{unusable:?}");
    let catalogue = Catalogue::of_mirrors(vec![Box::new(metalink)], Trust::Checksums).await.unwrap();
    let to = tempfile::tempdir().unwrap();
    let (_stop, stopped) = watch::channel(false);
    let report = get(Arc::new(catalogue), to.path(), &quick(), stopped, &mut |_| {}).await.unwrap();
    assert_eq!((report.failures.len(), report.n_unverified), (0, 0), "{report:?}");
    assert_eq!(
        report.damaged.len(),
        2,
        "read from both, then from the damaged one alone: {:?}",
        report.damaged
    );
    assert_eq!(fs::read(to.path().join("iso/disk.iso")).unwrap(), data);
}
