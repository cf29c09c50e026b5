//! Several processes that read into one folder, each its own share.

use std::collections::BTreeMap;
use std::error::Error as _;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_node::{GetError, Happening, KnownServer, Line, Options, Rank, Report, get};
use evenkeel_store::{Catalogue, Trust, open};
use tokio::sync::watch;

use crate::web::{Fault, Server};
use crate::{noise, quick};

fn files() -> BTreeMap<String, Vec<u8>> {
    let size = |k: u64| 10_000 + 17_000 * (k as usize * 7 % 11);
    (0..24).map(|k| (format!("file{k}"), noise(k, size(k)))).collect()
}

async fn try_get(mirrors: &[&Server], to: &Path, options: &Options) -> Result<Report, GetError> {
    let mirrors = mirrors.iter().map(|mirror| open(&mirror.address).unwrap()).collect();
    let catalogue = Arc::new(Catalogue::of_mirrors(mirrors, Trust::Sizes).await.unwrap());
    let (_stop, stopped) = watch::channel(false);
    get(catalogue, to, options, stopped, &mut |_| {}).await
}

fn rank(rank: u32, of: u32) -> Options {
    Options { rank: Some(Rank { rank, of }), ..quick() }
}

fn why(result: Result<Report, GetError>) -> String {
    result.unwrap_err().source().unwrap().to_string()
}

fn assert_complete(files: &BTreeMap<String, Vec<u8>>, to: &Path) {
    for (key, data) in files {
        assert!(fs::read(to.join(key)).unwrap() == *data, "{key}");
    }
    assert_eq!(fs::read_dir(to).unwrap().count(), files.len(), "nothing is left behind");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ranks_read_everything_once_and_leave_nothing_behind() {
    let files = files();
    let (a, b) = (Server::start(&files, true, |_| None).await, Server::start(&files, true, |_| None).await);
    let total: usize = files.values().map(Vec::len).sum();
    for of in [1, 3, 5, 30] {
        let to = tempfile::tempdir().unwrap();
        let options: Vec<Options> = (0..of).map(|k| rank(k, of)).collect();
        let mirrors = [&a, &b];
        let all = options.iter().map(|options| try_get(&mirrors, to.path(), options));
        let reports = futures_util::future::join_all(all).await;
        let reports: Vec<Report> = reports.into_iter().map(Result::unwrap).collect();
        assert_complete(&files, to.path());
        let bytes: u64 = reports.iter().map(|report| report.bytes).sum();
        assert_eq!(bytes, total as u64, "each object is of one rank");
        assert_eq!(reports.iter().map(|report| report.n_objects).sum::<usize>(), files.len());
        let most = reports.iter().map(|report| report.bytes).max().unwrap();
        assert!(most <= total as u64 / u64::from(of) + 200_000, "{most} of {total}");
    }
}

/// Each rank plans for all, and keeps its part: together they ask no server for more than its share.
#[tokio::test]
async fn the_parts_of_all_ranks_are_one_plan() {
    let files = files();
    let (a, b) = (Server::start(&files, true, |_| None).await, Server::start(&files, true, |_| None).await);
    let to = tempfile::tempdir().unwrap();
    let mut planned = [0, 0];
    for k in 0..4 {
        let mirrors = [&a, &b].map(|mirror| open(&mirror.address).unwrap());
        let catalogue = Catalogue::of_mirrors(mirrors.into(), Trust::Sizes).await.unwrap();
        let known = |rate| KnownServer { rate: Some(rate), slots: None };
        let servers = catalogue.servers().iter().cloned().zip([30_000_000, 10_000_000].map(known)).collect();
        let (_stop, stopped) = watch::channel(false);
        let options = Options { servers, ..rank(k, 4) };
        let mut watch = |line: &Line<'_>| {
            if let Happening::Planned { servers, .. } = &line.what {
                servers.iter().zip(&mut planned).for_each(|(share, sum)| *sum += share.bytes.unwrap());
            }
        };
        get(Arc::new(catalogue), to.path(), &options, stopped, &mut watch).await.unwrap();
    }
    assert_complete(&files, to.path());
    let total: usize = files.values().map(Vec::len).sum();
    assert_eq!(planned.iter().sum::<u64>(), total as u64);
    assert!(planned[0].abs_diff(3 * total as u64 / 4) < 10, "{planned:?} of {total}");
}

#[tokio::test]
async fn ranks_with_another_plan_stop() {
    let (files, to) = (files(), tempfile::tempdir().unwrap());
    let a = Server::start(&files, true, |_| None).await;
    try_get(&[&a], to.path(), &rank(0, 2)).await.unwrap();
    let before = fs::read_dir(to.path()).unwrap().count();
    let other_n = why(try_get(&[&a], to.path(), &rank(1, 3)).await);
    assert!(
        other_n.contains("the plan of 2 ranks, and not of 3") && other_n.contains(".evenkeel-ranks"),
        "{other_n}"
    );
    let other_range = why(try_get(&[&a], to.path(), &Options { range_bytes: Some(99), ..rank(1, 2) }).await);
    assert!(other_range.contains("another plan"), "{other_range}");
    let mut more = files.clone();
    more.insert("more".to_owned(), noise(99, 10));
    let b = Server::start(&more, true, |_| None).await;
    assert!(why(try_get(&[&b], to.path(), &rank(1, 2)).await).contains("another plan"));
    assert_eq!(fs::read_dir(to.path()).unwrap().count(), before, "they leave nothing behind");
    try_get(&[&a], to.path(), &rank(1, 2)).await.unwrap();
    assert_complete(&files, to.path());
}

/// One rank fails. The others are done, are started again with it, and keep what they have although nothing can be
/// compared.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rank_that_failed_goes_on_and_the_others_are_done() {
    let (files, to) = (files(), tempfile::tempdir().unwrap());
    let good = Server::start(&files, false, |_| None).await;
    let bad = Server::start(&files, false, |n| (n > 5).then_some(Fault::Broken)).await;
    let failed = try_get(&[&bad], to.path(), &rank(1, 2)).await.unwrap();
    assert!(!failed.failures.is_empty());
    assert!(why(try_get(&[&good], to.path(), &rank(0, 2)).await).contains("another plan"));
    fs::remove_file(to.path().join(".evenkeel-ranks")).unwrap();
    try_get(&[&good], to.path(), &rank(0, 2)).await.unwrap();
    let again = try_get(&[&good], to.path(), &rank(0, 2)).await.unwrap();
    assert_eq!((again.failures.len(), again.received_bytes, again.n_kept), (0, 0, again.n_objects));
    let rest = Options { overwrite: true, ..rank(1, 2) };
    assert_eq!(try_get(&[&good], to.path(), &rest).await.unwrap().failures, []);
    assert_complete(&files, to.path());
}

/// While ranks read, no other process reads into the folder; when they are gone, a read without ranks takes over what
/// they had.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_without_ranks_waits_for_ranks_and_takes_over() {
    let (files, to) = (files(), tempfile::tempdir().unwrap());
    let server = Server::start(&files, true, |n| (n > 30).then_some(Fault::Hang)).await;
    let catalogue =
        Catalogue::of_mirrors(vec![open(&server.address).unwrap()], Trust::Checksums).await.unwrap();
    let (stop, stopped) = watch::channel(false);
    let path = to.path().to_owned();
    let first = tokio::spawn(async move {
        let options = Options { patience: Duration::from_mins(1), ..rank(0, 2) };
        get(Arc::new(catalogue), &path, &options, stopped, &mut |_| {}).await.unwrap()
    });
    while !to.path().join(".evenkeel-ranks").exists() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(why(try_get(&[&server], to.path(), &quick()).await).contains("another process"));
    let same = Options { patience: Duration::from_mins(1), ..rank(0, 2) };
    assert!(why(try_get(&[&server], to.path(), &same).await).contains("another process"));
    tokio::time::sleep(Duration::from_millis(500)).await;
    stop.send_replace(true);
    let interrupted = first.await.unwrap();
    assert!(interrupted.was_stopped && interrupted.received_bytes > 0);
    let good = Server::start(&files, true, |_| None).await;
    let report = try_get(&[&good], to.path(), &quick()).await.unwrap();
    assert_eq!(report.failures, []);
    assert_eq!(report.received_bytes, report.bytes - interrupted.received_bytes);
    assert_complete(&files, to.path());
}
