//! Reads in simulated time: mirrors with rates, latencies and faults drawn from a seed, and a client that is stopped,
//! dropped and started again. Only files and their threads are real, so thousands of schedules take seconds.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use evenkeel_node::{Line, Options, Report, get_while_listing};
use evenkeel_store::{
    Algorithm, Body, Catalogue, Extent, Hash, Hasher, Object, Page, Problem, Source, StoreError, Trust,
};
use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream};
use futures_util::{FutureExt, StreamExt};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use crate::noise;

/// How many schedules are simulated; `EVENKEEL_TIMES` multiplies it.
const N_SCHEDULES: u64 = 2_000;
/// Of these, every n-th is repeated, to see that the same happens again.
const REPEAT_EVERY: u64 = 8;
const PATIENCE: Duration = Duration::from_secs(2);
/// No read may take longer. All data takes less than a minute at the slowest rates, and no server gets more than a few
/// times the patience.
const DEADLINE: Duration = Duration::from_mins(5);
/// The slowest of all mirrors, in bytes per second.
const LEAST_RATE: u64 = 50_000;

/// Draws numbers, the same for the same seed.
struct Dice(u64);

impl Dice {
    fn of(parts: &[u64]) -> Self {
        let mix = |state: u64, part: &u64| {
            let z = (state ^ part).wrapping_add(0x9E37_79B9_7F4A_7C15);
            let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            z ^ (z >> 31)
        };
        Self(parts.iter().fold(0, mix))
    }

    fn below(&mut self, n: u64) -> u64 {
        *self = Self::of(&[self.0, 1]);
        self.0 % n.max(1)
    }

    fn is_one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    fn one_of<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.below(values.len() as u64) as usize]
    }

    fn millis(&mut self, most: u64) -> Duration {
        Duration::from_millis(self.below(most))
    }
}

/// What a mirror does with one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Unreachable,
    /// The connection breaks in the middle.
    Dies,
    Hangs,
    HangsMidway,
    /// A byte a second.
    Trickles,
    /// Ends as if that were all.
    Short,
    Long,
    Slow,
    Changed,
    NotFound,
    Denied,
    Unsupported,
    /// Busy, with or without a time to wait.
    Busy(Option<u64>),
    /// A byte is wrong, and nothing shows it.
    Damaged,
    /// Another file of the same size, and nothing shows it.
    OtherFile,
}

const FAULTS: [Fault; 18] = [
    Fault::Unreachable,
    Fault::Dies,
    Fault::Hangs,
    Fault::HangsMidway,
    Fault::Trickles,
    Fault::Short,
    Fault::Long,
    Fault::Slow,
    Fault::Changed,
    Fault::NotFound,
    Fault::Denied,
    Fault::Unsupported,
    Fault::Busy(None),
    Fault::Busy(Some(0)),
    Fault::Busy(Some(3)),
    Fault::Busy(Some(86_400)),
    Fault::Damaged,
    Fault::OtherFile,
];
/// The faults at the end of the list that only a checksum shows.
const N_HIDDEN: usize = 2;

/// A mirror as it is by nature.
#[derive(Clone, Debug)]
struct Nature {
    /// Bytes per second of each transfer.
    rate: u64,
    latency: Duration,
    /// Of 100 requests, those that go wrong.
    per_cent_wrong: u64,
    /// When it is dead.
    dead: Option<Range<Duration>>,
    /// When it is twenty times slower.
    slow: Option<Range<Duration>>,
    /// When its copy of a file changes: file, time.
    change: Option<(usize, Duration)>,
}

/// A request for data that a mirror got, and what it did.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Asked {
    at: Duration,
    mirror: usize,
    file: usize,
    range: Range<u64>,
    fault: Option<Fault>,
}

/// All mirrors and what has happened to them.
#[derive(Debug)]
struct World {
    seed: u64,
    /// The sizes of the files, by number. Their names are their numbers.
    sizes: Vec<u64>,
    /// Whether mirrors tell checksums. If not, they tell versions.
    has_hashes: bool,
    mirrors: Vec<Nature>,
    /// Whether nothing goes wrong any more.
    is_healed: Mutex<bool>,
    asked: Mutex<Vec<Asked>>,
    /// Files, by number and version.
    data: Mutex<HashMap<(usize, u64), Bytes>>,
    begun: Instant,
}

fn window(dice: &mut Dice) -> Option<Range<Duration>> {
    let from = dice.millis(6_000);
    match dice.below(4) {
        0 => Some(from..from + dice.millis(8_000)),
        1 if dice.is_one_in(2) => Some(from..Duration::MAX),
        _ => None,
    }
}

impl World {
    fn new(seed: u64) -> Self {
        let mut dice = Dice::of(&[seed]);
        let has_hashes = !dice.is_one_in(4);
        let n_files = 1 + dice.below(4);
        let sizes = (0..n_files).map(|_| match dice.below(6) {
            0 => dice.below(3),
            1 => 1 << 14,
            2 => dice.below(400_000),
            _ => dice.below(60_000),
        });
        let mut sizes: Vec<u64> = sizes.collect();
        let per_cents = dice.one_of(&[&[0][..], &[0, 5], &[0, 20], &[10, 50], &[0, 100]]);
        // So much that mirrors are measured first.
        let is_large = dice.is_one_in(200);
        let n_mirrors = 1 + dice.below(if is_large { 2 } else { 4 });
        if is_large {
            sizes = vec![(17 << 20) * n_mirrors];
        }
        let mirrors = (0..n_mirrors).map(|_| Nature {
            rate: (LEAST_RATE << dice.below(6)) * if is_large { 128 } else { 1 },
            latency: dice.millis(200),
            per_cent_wrong: dice.one_of(per_cents),
            dead: window(&mut dice),
            slow: window(&mut dice),
            change: dice.is_one_in(12).then(|| (dice.below(sizes.len() as u64) as usize, dice.millis(5_000))),
        });
        let mirrors = mirrors.collect();
        let (is_healed, asked, data) = (Mutex::new(false), Mutex::default(), Mutex::default());
        Self { seed, sizes, has_hashes, mirrors, is_healed, asked, data, begun: Instant::now() }
    }

    fn is_large(&self) -> bool {
        self.sizes[0] >= 17 << 20
    }

    fn is_healed(&self) -> bool {
        *self.is_healed.lock().unwrap()
    }

    /// Whether one mirror always serves everything, and everybody can see that it has the same as the others.
    fn has_good_mirror(&self) -> bool {
        let is_good =
            |nature: &Nature| nature.per_cent_wrong == 0 && nature.dead.is_none() && nature.slow.is_none();
        let nothing_changes = self.mirrors.iter().all(|nature| nature.change.is_none());
        self.is_healed() || self.has_hashes && nothing_changes && self.mirrors.iter().any(is_good)
    }

    /// The version of a file that a mirror has now.
    fn version(&self, mirror: usize, file: usize) -> u64 {
        let has_changed = |change: (usize, Duration)| change.0 == file && self.begun.elapsed() >= change.1;
        let change = self.mirrors[mirror].change;
        // In the end all have the same again.
        u64::from(!self.is_healed() && change.is_some_and(has_changed))
    }

    fn data(&self, file: usize, version: u64) -> Bytes {
        let noise =
            || noise(self.seed * 100 + file as u64 * 10 + version + 1, self.sizes[file] as usize).into();
        self.data.lock().unwrap().entry((file, version)).or_insert_with(noise).clone()
    }

    fn fault(&self, mirror: usize, dice: &mut Dice) -> Option<Fault> {
        let nature = &self.mirrors[mirror];
        if self.is_healed() {
            return None;
        }
        if nature.dead.as_ref().is_some_and(|dead| dead.contains(&self.begun.elapsed())) {
            return Some(Fault::Unreachable);
        }
        let n_faults = FAULTS.len() - if self.has_hashes { 0 } else { N_HIDDEN };
        (dice.below(100) < nature.per_cent_wrong).then(|| dice.one_of(&FAULTS[..n_faults]))
    }
}

/// A mirror as a source.
#[derive(Debug)]
struct Mirror {
    world: Arc<World>,
    number: usize,
    names: [String; 1],
}

impl Mirror {
    fn list(&self) -> Vec<Object> {
        let object = |(file, &bytes): (usize, &u64)| {
            let version = self.world.version(self.number, file);
            let hashes =
                if self.world.has_hashes { vec![sha256(&self.world.data(file, version))] } else { vec![] };
            Object {
                key: file.to_string(),
                address: format!("{}/{file}", self.names[0]),
                bytes,
                identity: Some(version.to_string()),
                hashes,
                pieces: None,
                extents: vec![Extent { bytes, servers: vec![0] }],
            }
        };
        self.world.sizes.iter().enumerate().map(object).collect()
    }

    fn problem(fault: Option<Fault>) -> Option<Problem> {
        Some(match fault? {
            Fault::Unreachable => Problem::Unreachable("refused".to_owned()),
            Fault::Changed => Problem::Changed,
            Fault::NotFound => Problem::NotFound,
            Fault::Denied => Problem::Denied("403".to_owned()),
            Fault::Unsupported => Problem::Unsupported("no ranges".to_owned()),
            Fault::Busy(retry_after) => {
                Problem::Refused { retry_after: retry_after.map(Duration::from_secs) }
            }
            _ => return None,
        })
    }

    async fn answer(&self, object: &Object, range: Range<u64>) -> Result<Body, StoreError> {
        let file: usize = object.key.parse().unwrap();
        let world = Arc::clone(&self.world);
        let (at, number) = (world.begun.elapsed(), self.number);
        let fault = {
            let mut asked = world.asked.lock().unwrap();
            let n = asked.iter().filter(|asked| asked.mirror == number).count() as u64;
            let fault = world.fault(number, &mut Dice::of(&[world.seed, number as u64, n, 7]));
            asked.push(Asked { at, mirror: number, file, range: range.clone(), fault });
            fault
        };
        let nature = world.mirrors[number].clone();
        sleep(nature.latency).await;
        if fault == Some(Fault::Hangs) {
            std::future::pending::<()>().await;
        }
        let error = |problem| StoreError { address: object.address.clone(), problem };
        if let Some(problem) = Self::problem(fault) {
            return Err(error(problem));
        }
        let version = world.version(number, file);
        if object.identity != Some(version.to_string()) {
            return Err(error(Problem::Changed));
        }
        let data = world.data(file, version + if fault == Some(Fault::OtherFile) { 5 } else { 0 });
        let mut data = data.slice(range.start as usize..range.end as usize);
        let middle = data.len() / 2;
        match fault {
            Some(Fault::Short) => data.truncate(middle),
            Some(Fault::Long) => data = [&data[..], &[7; 9]].concat().into(),
            Some(Fault::Damaged) => {
                let mut wrong = data.to_vec();
                wrong[middle] ^= 0x10;
                data = wrong.into();
            }
            _ => {}
        }
        // As many bytes as take about the same time at every rate.
        let most = (nature.rate / 12) as usize;
        let broken = error(Problem::Unreachable("broken".to_owned()));
        let body = stream::unfold(Some((data, 0)), move |state| {
            let (world, nature, broken) = (Arc::clone(&world), nature.clone(), broken.clone());
            async move {
                let (mut rest, sent) = state?;
                if rest.is_empty() {
                    return None;
                }
                let is_dead = !world.is_healed()
                    && nature.dead.as_ref().is_some_and(|dead| dead.contains(&world.begun.elapsed()));
                if is_dead || fault == Some(Fault::Dies) && sent >= middle {
                    return Some((Err(broken), None));
                }
                if fault == Some(Fault::HangsMidway) && sent >= middle {
                    std::future::pending::<()>().await;
                }
                let is_slow = fault == Some(Fault::Slow)
                    || !world.is_healed()
                        && nature.slow.as_ref().is_some_and(|slow| slow.contains(&world.begun.elapsed()));
                let (n, rate) = match fault {
                    Some(Fault::Trickles) => (1, 1),
                    _ => (rest.len().min(most), nature.rate / if is_slow { 20 } else { 1 }),
                };
                let chunk = rest.split_to(n);
                sleep(Duration::from_secs_f64(n as f64 / rate as f64)).await;
                Some((Ok(chunk), Some((rest, sent + n))))
            }
        });
        Ok(body.boxed())
    }
}

impl Source for Mirror {
    fn servers(&self) -> Vec<String> {
        self.names.to_vec()
    }

    fn lists_by_key(&self) -> bool {
        true
    }

    /// Two objects a page.
    fn list(&self) -> BoxStream<'_, Result<Page, StoreError>> {
        let page = move |from: usize| async move {
            sleep(self.world.mirrors[self.number].latency).await;
            let objects: Vec<Object> = self.list().into_iter().skip(from).take(2).collect();
            (!objects.is_empty()).then(|| (Ok(objects.into()), from + 2))
        };
        stream::unfold(0, page).boxed()
    }

    fn read<'a>(
        &'a self,
        object: &'a Object,
        _server: usize,
        range: Range<u64>,
    ) -> BoxFuture<'a, Result<Body, StoreError>> {
        self.answer(object, range).boxed()
    }
}

fn sha256(data: &[u8]) -> Hash {
    let mut hasher = Hasher::new(Algorithm::Sha256);
    hasher.update(data);
    hasher.finish()
}

/// How a read ends, other than by itself.
#[derive(Clone, Copy, Debug)]
enum End {
    Stopped(Duration),
    Dropped(Duration),
}

/// What came of reads, for people.
#[derive(Debug, Default)]
struct Totals {
    reads: AtomicU64,
    interrupted: AtomicU64,
    bytes_verified: AtomicU64,
    bytes_resumed: AtomicU64,
    objects_missing: AtomicU64,
    damaged: AtomicU64,
    longest_ms: AtomicU64,
    repeated: AtomicU64,
    different: AtomicU64,
}

fn add(total: &AtomicU64, n: u64) {
    total.fetch_add(n, Ordering::Relaxed);
}

/// A destination, and what is in it.
struct Folder<'a> {
    world: &'a Arc<World>,
    path: &'a Path,
    /// The versions that have their names, by file.
    there: BTreeMap<usize, u64>,
    totals: &'a Totals,
}

impl Folder<'_> {
    /// Reads once, and checks that everything is as the report says.
    async fn read(&mut self, options: &Options, end: Option<End>) {
        let world = self.world;
        let mirrors = (0..world.mirrors.len()).map(|number| {
            let names = [format!("mirror {number}")];
            Box::new(Mirror { world: Arc::clone(world), number, names }) as Box<dyn Source>
        });
        let (sender, listing) = watch::channel(Arc::<Catalogue>::default());
        let mut show = |catalogue| drop(sender.send_replace(Arc::new(catalogue)));
        let listed = Catalogue::list(mirrors.collect(), Trust::Checksums, &|_| true, &mut show);
        let (stop, stopped) = watch::channel(false);
        let begun = Instant::now();
        let n_asked = world.asked.lock().unwrap().len();
        let mut quiet = |_: &Line<'_>| {};
        let reading = get_while_listing(listing.clone(), self.path, options, stopped, &mut quiet);
        let reading = Box::pin(async {
            tokio::select! {
                report = reading => report,
                () = async { listed.await; std::future::pending().await } => unreachable!("it is pending"),
            }
        });
        let report = match end {
            None => timeout(DEADLINE, reading).await.map(Some),
            Some(End::Dropped(after)) => Ok(timeout(after, reading).await.ok()),
            Some(End::Stopped(after)) => {
                let stopping = async {
                    sleep(after).await;
                    stop.send_replace(true);
                };
                tokio::join!(timeout(DEADLINE, reading), stopping).0.map(Some)
            }
        };
        let report = report.expect("a read that does not end").map(Result::unwrap);
        add(&self.totals.reads, 1);
        add(&self.totals.interrupted, u64::from(report.as_ref().is_none_or(|report| report.was_stopped)));
        self.totals.longest_ms.fetch_max(begun.elapsed().as_millis() as u64, Ordering::Relaxed);
        let asked = world.asked.lock().unwrap()[n_asked..].to_vec();
        let catalogue = Arc::clone(&listing.borrow());
        let version = |object: usize| {
            catalogue.object(object).copies[0].object.identity.as_ref().unwrap().parse().unwrap()
        };
        let mut listed = vec![None; world.sizes.len()];
        for object in 0..catalogue.n_objects() {
            listed[catalogue.key(object).parse::<usize>().unwrap()] = Some(version(object));
        }
        self.verify(report.as_ref(), &listed, &asked);
    }

    /// If the read came to its end, everything was listed.
    fn verify(&mut self, report: Option<&Report>, listed: &[Option<u64>], asked: &[Asked]) {
        let is_over = report.is_some_and(|report| !report.was_stopped);
        let failures = report.map_or(&[][..], |report| &report.failures);
        for (file, &listed) in listed.iter().enumerate() {
            let failure = failures.iter().find(|failure| failure.key == file.to_string());
            let found = fs::read(self.path.join(file.to_string())).ok();
            let before = self.there.get(&file).copied();
            let version = found.as_ref().map(|found| {
                let is = |version: &u64| *found == self.world.data(file, *version);
                [listed, before].into_iter().flatten().find(is).expect("wrong bytes under a name")
            });
            match failure {
                Some(failure) => assert!(!failure.why.is_empty()),
                None if is_over => {
                    assert!(version.is_some() && version == listed, "file {file} is missing without a word");
                }
                None => {}
            }
            assert!(failure.is_none() || version == before, "file {file} failed, but is there");
            assert!(before.is_none() || version.is_some(), "file {file} was there, and is gone");
            if version.is_some() && version != before {
                add(&self.totals.bytes_verified, self.world.sizes[file]);
            }
            self.there.extend(version.map(|version| (file, version)));
        }
        if let Some(report) = report {
            add(&self.totals.bytes_resumed, report.resumed_bytes);
            add(&self.totals.objects_missing, failures.len() as u64);
            add(&self.totals.damaged, report.damaged.len() as u64);
            self.verify_thrift(report, asked);
        }
        if is_over && self.world.has_good_mirror() {
            let why: Vec<&str> = failures.iter().map(|failure| failure.why.as_str()).collect();
            assert_eq!(why, [""; 0], "a mirror has all of it, and always answers");
        }
        if is_over && failures.is_empty() {
            let names = fs::read_dir(self.path).unwrap().map(|entry| entry.unwrap().file_name());
            let left: Vec<_> = names.filter(|name| name.as_encoded_bytes().starts_with(b".")).collect();
            assert!(left.is_empty(), "{left:?} is left behind");
        }
    }

    /// What is there already is not asked for again, unless damage was found.
    fn verify_thrift(&self, report: &Report, asked: &[Asked]) {
        if !report.damaged.is_empty() {
            return;
        }
        let mut is_asked: Vec<Vec<bool>> =
            self.world.sizes.iter().map(|&n| vec![false; n as usize]).collect();
        for Asked { file, range, .. } in asked {
            is_asked[*file][range.start as usize..range.end as usize].fill(true);
        }
        let n_asked = is_asked.iter().flatten().filter(|is_asked| **is_asked).count() as u64;
        assert!(n_asked + report.resumed_bytes <= report.bytes, "bytes that were there are read again");
    }

    /// Does to files what crashes and disks do.
    fn damage(&self, dice: &mut Dice) {
        for entry in fs::read_dir(self.path).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            if !name.starts_with('.') || !dice.is_one_in(4) {
                continue;
            }
            let mut data = fs::read(&path).unwrap();
            match dice.below(3) {
                0 => data.truncate(dice.below(data.len() as u64) as usize),
                1 if !data.is_empty() => {
                    let at = dice.below(data.len() as u64) as usize;
                    data[at] ^= 1 << dice.below(8);
                }
                _ => data.clear(),
            }
            fs::write(&path, data).unwrap();
        }
    }
}

/// One schedule, from its seed: reads that are interrupted, one that is not, and one from healthy mirrors. Returns what
/// the mirrors were asked.
fn simulate(seed: u64, totals: &Totals) -> Vec<Asked> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let world = Arc::new(World::new(seed));
        let mut dice = Dice::of(&[seed, 3]);
        let path = temporary();
        let mut folder = Folder { world: &world, path: path.path(), there: BTreeMap::new(), totals };
        let options = Options {
            range_bytes: Some((1 << (12 + dice.below(4))) * if world.is_large() { 32 } else { 1 }),
            slots: Some(1 + dice.below(3) as u32),
            patience: PATIENCE,
            overwrite: dice.is_one_in(3),
            window: 1 + dice.below(4) as usize,
            ..Options::default()
        };
        for _ in 0..dice.below(3) {
            let after = dice.millis(4_000);
            let end = if dice.is_one_in(2) { End::Stopped(after) } else { End::Dropped(after) };
            folder.read(&options, Some(end)).await;
            if dice.is_one_in(3) {
                folder.damage(&mut dice);
            }
        }
        folder.read(&options, None).await;
        *world.is_healed.lock().unwrap() = true;
        folder.read(&Options { overwrite: true, ..options }, None).await;
        assert_eq!(folder.there.len(), world.sizes.len(), "all of it comes from healthy mirrors");
        std::mem::take(&mut *world.asked.lock().unwrap())
    })
}

/// A folder in memory, where there is such a thing: syncing a disk would take most of the time.
fn temporary() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { tempfile::tempdir_in(memory).unwrap() } else { tempfile::tempdir().unwrap() }
}

/// Never a wrong byte under a name, never a read without an end, never a missing file without a reason, never a byte read
/// again that was there. The same seed asks mirrors for the same at the same times.
#[test]
fn faults_in_simulated_time() {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seeds = match number("EVENKEEL_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..N_SCHEDULES * number("EVENKEEL_TIMES").unwrap_or(1),
    };
    let (totals, next) = (Totals::default(), AtomicU64::new(seeds.start));
    let n_threads = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..n_threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        break;
                    }
                    let one = || {
                        let asked = simulate(seed, &totals);
                        if seed.is_multiple_of(REPEAT_EVERY) {
                            add(&totals.repeated, 1);
                            add(&totals.different, u64::from(asked != simulate(seed, &totals)));
                        }
                    };
                    if let Err(panic) = catch_unwind(AssertUnwindSafe(one)) {
                        eprintln!("EVENKEEL_SEED={seed} repeats this");
                        resume_unwind(panic);
                    }
                }
            });
        }
    });
    println!("{} schedules: {totals:?}", seeds.end - seeds.start);
    // Planning has its own thread: what else happens in the same millisecond comes before its plan, or after it.
    let (different, repeated) = (totals.different.into_inner(), totals.repeated.into_inner());
    assert!(different * 20 <= repeated, "{different} of {repeated} schedules went otherwise the second time");
}
