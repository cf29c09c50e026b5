//! Servers that die, hang, lie and come back: never a wrong byte, never a hang.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use evenkeel_node::{Line, Options, Report, get};
use evenkeel_store::{Catalogue, Trust, open};
use futures_util::{StreamExt, stream};
use tokio::sync::watch;
use tokio::time::timeout;

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

/// A file that arrives at last, but cannot have its name, is not forgotten when others are read after it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_that_is_taken_is_told() {
    let files: BTreeMap<String, Vec<u8>> =
        ["a", "a%2Fb", "z"].map(|name| (name.to_owned(), noise(3, 50_000))).into();
    let damaged = Server::start(&files, true, |_| Some(Fault::Damage)).await;
    let others = [Server::start(&files, true, |_| None).await, Server::start(&files, true, |_| None).await];
    let folder = tempfile::tempdir().unwrap();
    let mirrors = [&damaged, &others[0], &others[1]].map(|server| server.address.clone());
    let options = Options { window: 1, ..quick() };
    let report = get_mirrors(&mirrors, Trust::Checksums, folder.path(), &options).await;
    let failed: Vec<&str> = report.failures.iter().map(|failure| failure.key.as_str()).collect();
    assert_eq!(failed, ["a"], "{:?}", report.failures);
    assert!(report.failures[0].why.contains("in the way"), "{:?}", report.failures);
    assert!(folder.path().join("a/b").is_file() && folder.path().join("z").is_file());
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
            assert!(begun.elapsed() < Duration::from_mins(1), "{fault:?} took {:?}", begun.elapsed());
        }
    });
    futures_util::future::join_all(runs).await;
}

/// What came of random schedules.
#[derive(Debug, Default)]
struct Figures {
    runs: u64,
    interrupted: u64,
    bytes_verified: u64,
    wrong_bytes: u64,
    hangs: u64,
    missing_without_a_word: u64,
    missing_with_a_reason: u64,
    damage_found: u64,
}

impl Figures {
    /// Compares what has a name with what it should be, and the rest with the report.
    fn count(&mut self, files: &BTreeMap<String, Vec<u8>>, folder: &Path, report: Option<&Report>) {
        self.runs += 1;
        let Some(report) = report else {
            self.hangs += 1;
            return;
        };
        self.interrupted += u64::from(report.was_stopped);
        self.damage_found += report.damaged.len() as u64;
        for (path, data) in files {
            let key = path.replace("%2F", "/").replace("%2E", ".").replace("%00", "\0");
            let is_reported =
                report.failures.iter().any(|failure| failure.key == key && !failure.why.is_empty());
            let Some(found) = fs::read(folder.join(&key)).ok().filter(|_| !key.starts_with(['.', '/']))
            else {
                match (is_reported, report.was_stopped) {
                    (true, _) => self.missing_with_a_reason += 1,
                    (false, true) => {}
                    (false, false) => self.missing_without_a_word += 1,
                }
                continue;
            };
            let wrong = found.iter().zip(data).filter(|(a, b)| a != b).count();
            self.wrong_bytes += wrong as u64 + found.len().abs_diff(data.len()) as u64;
            self.bytes_verified += if is_reported { 0 } else { found.len() as u64 };
        }
    }
}

/// Names that lead out of the destination, or cannot be names.
const BAD_NAMES: [&str; 5] = ["..%2Fout", "%2E%2E%2F%2E%2E%2Fout", "%2Fetc%2Fout", "x%00y", "a%2Fb"];

/// One schedule: up to four mirrors whose answers go wrong at random, a read that may be stopped, and one that goes on.
async fn random_schedule(seed: u64) -> Figures {
    let dice = noise(seed + 1, 8);
    let is_one_in = |k: usize, n: u8| dice[k].is_multiple_of(n);
    let (mut files, mut figures) = (files(), Figures::default());
    if is_one_in(0, 4) {
        files.extend(BAD_NAMES.map(|name| (name.to_owned(), noise(9, 100))));
    }
    let has_digests = !is_one_in(1, 4);
    let mut servers = Vec::new();
    for mirror in 0..=u64::from(dice[2] % 4) {
        // Up to half of the requests go wrong.
        let n_in_256 = dice[3] / 2;
        let schedule = move |n| {
            let dice = noise(seed * 1000 + mirror * 100_000 + n, 9);
            let fault = FAULTS[dice[3] as usize % FAULTS.len()];
            // Without a checksum nobody can tell that a byte is wrong.
            (dice[8] < n_in_256 && (has_digests || fault != Fault::Damage)).then_some(fault)
        };
        servers.push(Server::start(&files, has_digests, schedule).await);
    }
    let outside = tempfile::tempdir().unwrap();
    let to = outside.path().join("to");
    let stop_after = is_one_in(4, 3).then(|| Duration::from_millis(u64::from(dice[5]) * 8));
    for stop_after in [stop_after, None].into_iter().skip(usize::from(stop_after.is_none())) {
        let mirrors = servers.iter().map(|server| open(&server.address).unwrap()).collect();
        let catalogue = Arc::new(Catalogue::of_mirrors(mirrors, Trust::Checksums).await.unwrap());
        let (stop, stopped) = watch::channel(false);
        let (options, mut quiet) = (quick(), |_: &Line<'_>| {});
        let reading = get(catalogue, &to, &options, stopped, &mut quiet);
        let stopping = async {
            if let Some(after) = stop_after {
                tokio::time::sleep(after).await;
                stop.send_replace(true);
            }
        };
        let (report, ()) = tokio::join!(timeout(DEADLINE, reading), stopping);
        figures.count(&files, &to, report.ok().map(Result::unwrap).as_ref());
    }
    // Nothing is outside.
    figures.wrong_bytes += fs::read_dir(outside.path()).unwrap().count() as u64 - 1;
    figures
}

/// No read may take longer, however many answers go wrong.
const DEADLINE: Duration = Duration::from_mins(2);

/// Faults come and go at random at all mirrors. `EVENKEEL_TIMES` multiplies the number of schedules.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_faults_never_lead_to_wrong_bytes() {
    let times: u64 = std::env::var("EVENKEEL_TIMES").ok().and_then(|times| times.parse().ok()).unwrap_or(1);
    let schedules = stream::iter((0..24 * times).map(random_schedule)).buffer_unordered(24);
    let figures = schedules.fold(Figures::default(), |mut all, one| async move {
        all.runs += one.runs;
        all.interrupted += one.interrupted;
        all.bytes_verified += one.bytes_verified;
        all.wrong_bytes += one.wrong_bytes;
        all.hangs += one.hangs;
        all.missing_without_a_word += one.missing_without_a_word;
        all.missing_with_a_reason += one.missing_with_a_reason;
        all.damage_found += one.damage_found;
        all
    });
    let figures = figures.await;
    println!("{} schedules: {figures:?}", 24 * times);
    assert_eq!((figures.wrong_bytes, figures.hangs, figures.missing_without_a_word), (0, 0, 0));
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
