//! Servers that die, hang, lie and come back: never a wrong byte, never a hang.

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

use evenkeel_node::Report;
use evenkeel_store::Trust;

use crate::web::{FAULTS, Fault, Server};
use crate::{get_mirrors, noise, quick};

fn files() -> BTreeMap<String, Vec<u8>> {
    let sizes = [("a", 300_000), ("b", 20_000), ("c", 1), ("d", 0)];
    sizes.into_iter().map(|(key, n)| (key.to_owned(), noise(n as u64, n))).collect()
}

/// Everything that has its name is right, and everything that is missing is reported.
fn verify(files: &BTreeMap<String, Vec<u8>>, folder: &std::path::Path, report: &Report) {
    for (key, data) in files {
        let is_missing = report.failures.iter().any(|failure| failure.key == *key);
        match fs::read(folder.join(key)) {
            Ok(found) => assert!(found == *data && !is_missing, "{key} is wrong"),
            Err(_) => assert!(is_missing, "{key} is missing without a word"),
        }
    }
}

/// One of two mirrors does one thing wrong, always: everything comes from the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_fault_of_one_mirror_is_survived() {
    let files = files();
    let runs = FAULTS.map(|fault| {
        let files = files.clone();
        async move {
            let good = Server::start(&files, true, |_| None).await;
            let bad = Server::start(&files, true, move |_| Some(fault)).await;
            let folder = tempfile::tempdir().unwrap();
            let mirrors = [bad.address.clone(), good.address.clone()];
            let report = get_mirrors(&mirrors, Trust::Checksums, folder.path(), &quick()).await;
            assert_eq!(report.failures, [], "{fault:?}");
            verify(&files, folder.path(), &report);
            assert_eq!(report.damaged.is_empty(), fault != Fault::Damage, "{fault:?} {:?}", report.damaged);
            assert!(!folder.path().join(".evenkeel-journal").exists());
        }
    });
    futures_util::future::join_all(runs).await;
}

/// The only server does one thing wrong, always: nothing wrong gets a name, and the reason is told in time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_fault_of_the_only_server_is_reported() {
    let files = files();
    let runs = FAULTS.map(|fault| {
        let files = files.clone();
        async move {
            let begun = Instant::now();
            let bad = Server::start(&files, true, move |_| Some(fault)).await;
            let folder = tempfile::tempdir().unwrap();
            let report =
                get_mirrors(std::slice::from_ref(&bad.address), Trust::Checksums, folder.path(), &quick())
                    .await;
            verify(&files, folder.path(), &report);
            // A whole file for a whole file is right, and a byte that trickles arrives.
            assert!(!report.failures.is_empty(), "{fault:?}");
            assert!(report.failures.iter().all(|failure| !failure.why.is_empty()));
            assert!(begun.elapsed() < Duration::from_secs(60), "{fault:?} took {:?}", begun.elapsed());
        }
    });
    futures_util::future::join_all(runs).await;
}

/// Faults come and go at random at all of three mirrors. `EVENKEEL_TIMES` multiplies the number of schedules.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_faults_never_lead_to_wrong_bytes() {
    let times: u64 = std::env::var("EVENKEEL_TIMES").ok().and_then(|times| times.parse().ok()).unwrap_or(1);
    let files = files();
    let (mut n_missing, mut n_bytes) = (0, 0);
    for round in 0..3 * times {
        let runs = (0..8).map(|k| {
            let (files, seed) = (files.clone(), round * 8 + k);
            async move {
                let mut servers = Vec::new();
                for mirror in 0..3 {
                    // Up to half of the requests go wrong.
                    let n_in_256 = u64::from(noise(seed, 1)[0] / 2);
                    servers.push(
                        Server::start(&files, true, move |n| {
                            let dice = noise(seed * 1000 + mirror * 100_000 + n, 9);
                            let is_wrong = u64::from(dice[8]) < n_in_256;
                            is_wrong.then(|| FAULTS[dice[3] as usize % FAULTS.len()])
                        })
                        .await,
                    );
                }
                let mirrors: Vec<String> = servers.iter().map(|server| server.address.clone()).collect();
                let folder = tempfile::tempdir().unwrap();
                let report = get_mirrors(&mirrors, Trust::Checksums, folder.path(), &quick()).await;
                verify(&files, folder.path(), &report);
                (report.failures.len(), report.received_bytes)
            }
        });
        for (missing, bytes) in futures_util::future::join_all(runs).await {
            n_missing += missing;
            n_bytes += bytes;
        }
    }
    println!("{} schedules, {n_bytes} bytes received, {n_missing} objects missing with a reason", 24 * times);
}

/// A mirror that cannot even be listed is left out.
#[tokio::test]
async fn a_dead_mirror_is_left_out() {
    let files = files();
    let good = Server::start(&files, true, |_| None).await;
    let folder = tempfile::tempdir().unwrap();
    // Nothing listens at the discard port.
    let mirrors = ["http://127.0.0.1:9/".to_owned(), good.address.clone()];
    let report = get_mirrors(&mirrors, Trust::Checksums, folder.path(), &quick()).await;
    assert_eq!(report.failures, []);
    verify(&files, folder.path(), &report);
}
