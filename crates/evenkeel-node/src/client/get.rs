//! The whole of a read: what is there, what is missing, how fast servers are, the plan, and in the end the proof that
//! everything arrived.

use std::collections::{HashMap, HashSet};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use evenkeel::model::ModelError;
use evenkeel_store::{Catalogue, CatalogueObject, Hash};
use tokio::sync::watch;
use tokio::task::spawn_blocking;

use super::destination::{self, Destination, Existing, Place};
use super::driver::{Driver, Outcome, Served, Tally};
use super::journal::{Journal, Record};
use super::pieces::{self, Repairs, names, overlaps, senders};
use super::probe::probe;
use super::ranges::Ranges;
use super::sink::{Sink, Target};
use super::work::{self, Item, Servers};

/// How to read.
#[derive(Clone, Debug)]
pub struct Options {
    /// The most bytes that are asked for at once.
    pub range_bytes: u64,
    /// How many transfers each server does at once.
    pub slots: u32,
    /// Known rates of servers in bytes per second, by name. If one is missing, all are measured first.
    pub rates: HashMap<String, u64>,
    /// How long to measure.
    pub probe: Duration,
    /// How long to wait for a server that is silent, and for one to come back.
    pub patience: Duration,
    /// Whether files that differ are replaced.
    pub overwrite: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            range_bytes: 1 << 20,
            slots: 2,
            rates: HashMap::new(),
            probe: Duration::from_millis(300),
            patience: Duration::from_secs(20),
            overwrite: false,
        }
    }
}

/// Measuring pays if there is this much to read from each server.
const LEAST_TO_PROBE: u64 = 16 << 20;
/// What a server is assumed to do in a second if nothing is known.
const USUAL_RATE: u64 = 100 << 20;

/// How far a read is.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Bytes that had to be read when it began.
    pub total: u64,
    /// Bytes received. Those that were read twice count twice.
    pub received: u64,
    /// How long it has taken.
    pub elapsed: Duration,
    /// How long the rest of the plan takes at best, counted from its beginning, and when it began.
    pub bound: Option<(f64, Duration)>,
}

/// What came of a read.
#[derive(Clone, Debug)]
pub struct Report {
    /// Objects of the data set.
    pub n_objects: usize,
    /// Of these, objects that were there already, verified by their checksum.
    pub n_kept: usize,
    /// Objects that arrived without a checksum to verify them by.
    pub n_unverified: usize,
    /// Bytes of the data set.
    pub bytes: u64,
    /// Bytes that an earlier, interrupted read had received.
    pub resumed_bytes: u64,
    /// Bytes received now.
    pub received_bytes: u64,
    /// How long it took.
    pub elapsed: Duration,
    /// How long planning took.
    pub planning: Duration,
    /// What each server did.
    pub servers: Vec<ServerReport>,
    /// Damage that was found, and who sent it. Damaged objects were read again elsewhere.
    pub damaged: Vec<String>,
    /// The objects that did not arrive.
    pub failures: Vec<Failure>,
    /// Whether it was interrupted. What was received is kept for the next time.
    pub was_stopped: bool,
}

/// What a server did.
#[derive(Clone, Debug)]
pub struct ServerReport {
    /// Its name.
    pub name: String,
    /// Its rate in bytes per second, as far as it was measured or known.
    pub rate: Option<u64>,
    /// Bytes it sent.
    pub bytes: u64,
    /// Transfers that failed there.
    pub n_failures: u64,
    /// The last failure.
    pub last_error: Option<String>,
}

/// An object that did not arrive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Which object.
    pub key: String,
    /// Why.
    pub why: String,
}

/// Why nothing could be read at all.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum GetError {
    #[error("cannot read into {}", path.display())]
    Destination { path: PathBuf, source: io::Error },
    #[error("this cannot be planned")]
    Plan(#[from] ModelError),
}

/// Reads a data set into a folder.
///
/// Objects get their names when they are complete, on disk and verified against every checksum that is known. What is
/// there already is not read again. Ends early when `stop` becomes true.
pub async fn get(
    catalogue: Arc<Catalogue>,
    path: &Path,
    options: &Options,
    stop: watch::Receiver<bool>,
    show: &mut (dyn FnMut(Progress) + Send),
) -> Result<Report, GetError> {
    let result = Get::new(catalogue, path, options, stop).await;
    let result = match result {
        Ok(get) => get.run(show).await,
        Err(error) => Err(error.into()),
    };
    result.map_err(|error| match error {
        Error::Io(source) => GetError::Destination { path: path.to_owned(), source },
        Error::Plan(error) => GetError::Plan(error),
    })
}

/// What ends a read early.
enum Error {
    Io(io::Error),
    Plan(ModelError),
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<ModelError> for Error {
    fn from(error: ModelError) -> Self {
        Self::Plan(error)
    }
}

/// What was found in the destination.
#[derive(Debug, Default)]
struct Prepared {
    /// By object; `None` if it is there or cannot be read.
    targets: Vec<Option<Target>>,
    there: Vec<Ranges>,
    n_kept: usize,
    resumed_bytes: u64,
    failures: Vec<Failure>,
}

struct Get<'a> {
    catalogue: Arc<Catalogue>,
    destination: Destination,
    options: &'a Options,
    stop: watch::Receiver<bool>,
    sink: Sink,
    prepared: Prepared,
    tallies: Vec<Tally>,
    rates: Vec<Option<u64>>,
    served: Vec<Served>,
    /// The servers from which objects that arrived damaged were read whole.
    tried: HashMap<usize, Vec<usize>>,
    repairs: Repairs,
    damaged: Vec<String>,
    begun: Instant,
    planning: Duration,
}

impl<'a> Get<'a> {
    async fn new(
        catalogue: Arc<Catalogue>,
        path: &Path,
        options: &'a Options,
        stop: watch::Receiver<bool>,
    ) -> io::Result<Self> {
        let begun = Instant::now();
        let (known, path, overwrite) = (Arc::clone(&catalogue), path.to_owned(), options.overwrite);
        let look = move || {
            let destination = Destination::create(&path)?;
            let (journal, records) = Journal::open(&path)?;
            let prepared = prepare(&known, &destination, records, overwrite)?;
            io::Result::Ok((destination, journal, prepared))
        };
        let (destination, journal, prepared) = spawn_blocking(look).await.map_err(io::Error::other)??;
        let n_servers = catalogue.servers().len();
        let rates = catalogue.servers().iter().map(|name| options.rates.get(name).copied()).collect();
        let (sink, tallies) = (Sink::new(journal), vec![Tally::default(); n_servers]);
        Ok(Self {
            catalogue,
            destination,
            options,
            stop,
            sink,
            prepared,
            tallies,
            rates,
            served: Vec::new(),
            tried: HashMap::new(),
            repairs: Repairs::default(),
            damaged: Vec::new(),
            begun,
            planning: Duration::ZERO,
        })
    }

    async fn run(mut self, show: &mut (dyn FnMut(Progress) + Send)) -> Result<Report, Error> {
        let mut items = self.items();
        let total: u64 = items.iter().map(|item| item.range.end - item.range.start).sum();
        let n_servers = self.catalogue.servers().len() as u64;
        if self.rates.contains(&None) && total >= LEAST_TO_PROBE.saturating_mul(n_servers) {
            items = self.probe(items).await?;
        }
        let (mut failed, mut n_unverified) = (HashMap::new(), 0);
        let was_stopped = loop {
            let outcome = self.read(&items, total, show).await?;
            for (item, why) in outcome.failed {
                failed.entry(items[item].object).or_insert(why);
            }
            if outcome.was_stopped {
                break true;
            }
            self.served.extend(outcome.served);
            let verified = self.verify(&failed).await?;
            n_unverified += verified.n_unverified;
            for (object, wrong) in verified.damaged {
                if let Err(why) = self.try_another(object, &wrong) {
                    failed.insert(object, why);
                }
            }
            for (object, ranges) in verified.broken {
                if let Err(why) = self.repair(object, &ranges) {
                    failed.insert(object, why);
                }
            }
            items = self.items();
            items.retain(|item| !failed.contains_key(&item.object));
            if items.is_empty() {
                break false;
            }
        };
        self.report(failed, n_unverified, was_stopped).await
    }

    /// Reads these items by a plan.
    async fn read(
        &mut self,
        items: &[Item],
        total: u64,
        show: &mut (dyn FnMut(Progress) + Send),
    ) -> Result<Outcome, Error> {
        let planning = Instant::now();
        let rates: Vec<u64> = self.rates.iter().map(|rate| rate.unwrap_or(USUAL_RATE)).collect();
        let servers = Servers { rates, slots: self.options.slots };
        let planned = work::plan(self.catalogue.servers(), &servers, items)?;
        self.planning += planning.elapsed();
        let (begun, bound) = (self.begun, Some((planned.bound_s, self.begun.elapsed())));
        let mut show = |tallies: &[Tally]| {
            let received = tallies.iter().map(|tally| tally.bytes).sum();
            show(Progress { total, received, elapsed: begun.elapsed(), bound });
        };
        let driver = Driver {
            catalogue: Arc::clone(&self.catalogue),
            items,
            targets: &self.prepared.targets,
            sink: &mut self.sink,
            tallies: &mut self.tallies,
            patience: self.options.patience,
            stop: self.stop.clone(),
            show: &mut show,
        };
        let outcome = driver.run(&planned).await?;
        show(&self.tallies);
        self.sink.drain().await?;
        Ok(outcome)
    }

    /// What is missing.
    fn items(&self) -> Vec<Item> {
        let mut items = Vec::new();
        for (object, there) in self.prepared.there.iter().enumerate() {
            if self.prepared.targets[object].is_some() {
                let first = items.len();
                let cut = |there: &Ranges, items: &mut Vec<Item>| {
                    work::cut(&self.catalogue, object, there, self.options.range_bytes.max(1), items);
                };
                if self.repairs.has(object) {
                    let bytes = self.catalogue.objects()[object].bytes;
                    // Each piece for itself: others are asked for others.
                    for repair in self.repairs.of(object, &there.missing(bytes)) {
                        let first = items.len();
                        cut(&Ranges::all_but(std::slice::from_ref(&repair.range), bytes), &mut items);
                        let asked = |item: &mut Item| item.servers.retain(|s| repair.asked.contains(s));
                        items[first..].iter_mut().for_each(asked);
                    }
                    continue;
                }
                cut(there, &mut items);
                if let Some(&server) = self.tried.get(&object).and_then(|tried| tried.last()) {
                    items[first..].iter_mut().for_each(|item| item.servers.retain(|&s| s == server));
                }
            }
        }
        items
    }

    /// Verifies what is complete, and gives it its name.
    async fn verify(&mut self, failed: &HashMap<usize, String>) -> io::Result<Verified> {
        let is_complete =
            |object: &usize| self.prepared.targets[*object].is_some() && !failed.contains_key(object);
        let complete = (0..self.prepared.targets.len()).filter(is_complete);
        let complete: Vec<(usize, Target)> =
            complete.filter_map(|object| Some((object, self.prepared.targets[object].clone()?))).collect();
        let (catalogue, destination) = (Arc::clone(&self.catalogue), self.destination.clone());
        let verify = move || verify(&catalogue, &destination, &complete);
        let verified = spawn_blocking(verify).await.map_err(io::Error::other)??;
        verified.intact.iter().for_each(|&object| self.prepared.targets[object] = None);
        Ok(verified)
    }

    /// Arranges that an object that arrived damaged is read again, all of it from one server that was not tried alone
    /// before. If there is none left, returns who sent the damaged data.
    fn try_another(&mut self, object: usize, wrong: &Hash) -> Result<(), String> {
        let known = &self.catalogue.objects()[object];
        let senders = names(&self.catalogue, &senders(&self.served, object, &(0..known.bytes)));
        let text = format!("{}: its {} is wrong, as sent by {senders}", known.key, wrong.algorithm);
        self.damaged.push(text);
        self.served.retain(|served| served.object != object);
        self.repairs.forget(object);
        let tried = self.tried.entry(object).or_default();
        let holders = self.catalogue.servers_of(known, &(0..known.bytes));
        let Some(next) = holders.into_iter().find(|server| !tried.contains(server)) else {
            return Err(format!("its {} is wrong at every server", wrong.algorithm));
        };
        tried.push(next);
        self.prepared.there[object] = Ranges::default();
        Ok(())
    }

    /// Arranges that damaged pieces of an object are read again. If one is damaged wherever it is, returns so.
    fn repair(&mut self, object: usize, ranges: &[Range<u64>]) -> Result<(), String> {
        let bytes = self.catalogue.objects()[object].bytes;
        self.prepared.there[object] = Ranges::all_but(ranges, bytes);
        let result = self.repairs.add(&self.catalogue, &self.served, object, ranges, &mut self.damaged);
        self.served.retain(|served| served.object != object || !overlaps(ranges, &served.range));
        result
    }

    /// Measures rates, and returns what is missing then.
    async fn probe(&mut self, items: Vec<Item>) -> io::Result<Vec<Item>> {
        let items = Arc::new(items);
        let measured = probe(&self.catalogue, &items, self.options.slots, self.options.probe).await;
        let fastest = measured.iter().filter_map(|measured| measured.rate).max().unwrap_or(USUAL_RATE);
        for (server, measured) in measured.into_iter().enumerate() {
            // One that sent nothing is asked last.
            self.rates[server] = self.rates[server].or(Some(measured.rate.unwrap_or(fastest / 100).max(1)));
            if let Some(error) = measured.error {
                self.tallies[server].n_failures += 1;
                self.tallies[server].last_error = Some(error.to_string());
            }
            for (item, chunks) in measured.received {
                let Item { object, range, .. } = &items[item];
                let bytes: u64 = chunks.iter().map(|chunk| chunk.len() as u64).sum();
                self.tallies[server].bytes += bytes;
                if let Some(target) = self.prepared.targets[*object].as_ref().filter(|_| bytes > 0) {
                    let range = range.start..range.start + bytes;
                    self.served.push(Served { object: *object, server, range: range.clone() });
                    self.prepared.there[*object].insert(range.clone());
                    self.sink.write(target, range.start, chunks).await?;
                }
            }
        }
        Ok(self.items())
    }

    async fn report(
        self,
        failed: HashMap<usize, String>,
        n_unverified: usize,
        was_stopped: bool,
    ) -> Result<Report, Error> {
        let objects = self.catalogue.objects();
        let mut failures = self.prepared.failures;
        let unreadable = self.catalogue.unreadable().iter();
        failures
            .extend(unreadable.map(|found| Failure { key: found.key.clone(), why: found.error.to_string() }));
        failures.extend(
            failed.into_iter().map(|(object, why)| Failure { key: objects[object].key.clone(), why }),
        );
        failures.sort_by(|a, b| a.key.cmp(&b.key));
        let servers = self.catalogue.servers().iter().zip(&self.tallies).zip(&self.rates);
        let servers = servers.map(|((name, tally), &rate)| ServerReport {
            name: name.clone(),
            rate,
            bytes: tally.bytes,
            n_failures: tally.n_failures,
            last_error: tally.last_error.clone(),
        });
        let report = Report {
            n_objects: objects.len(),
            n_kept: self.prepared.n_kept,
            n_unverified,
            bytes: objects.iter().map(|object| object.bytes).sum(),
            resumed_bytes: self.prepared.resumed_bytes,
            received_bytes: self.tallies.iter().map(|tally| tally.bytes).sum(),
            elapsed: self.begun.elapsed(),
            planning: self.planning,
            servers: servers.collect(),
            damaged: self.damaged,
            failures,
            was_stopped,
        };
        let journal = self.sink.finish().await?;
        // What was received of objects that failed is worth keeping.
        if journal.is_empty() || report.failures.is_empty() && !was_stopped {
            journal.remove()?;
        }
        Ok(report)
    }
}

/// What came of verifying complete objects.
struct Verified {
    intact: Vec<usize>,
    n_unverified: usize,
    /// Damaged objects, each with the checksum that it should have.
    damaged: Vec<(usize, Hash)>,
    /// Objects that are damaged in some of their pieces, and where.
    broken: Vec<(usize, Vec<Range<u64>>)>,
}

/// Verifies complete objects against all their checksums, and gives those that are intact their names.
fn verify(
    catalogue: &Catalogue,
    destination: &Destination,
    complete: &[(usize, Target)],
) -> io::Result<Verified> {
    let mut verified =
        Verified { intact: Vec::new(), n_unverified: 0, damaged: Vec::new(), broken: Vec::new() };
    let mut places = Vec::new();
    for (object, target) in complete {
        let known = &catalogue.objects()[*object];
        if known.bytes == 0 {
            target.place.open_part(0)?;
        }
        let mut wrong = None;
        for hash in &known.hashes {
            if destination::checksum(&target.place.part, hash)? != *hash {
                wrong = Some(hash.clone());
                break;
            }
        }
        let broken = pieces::broken(known, wrong.is_some(), &target.place.part)?;
        if !broken.is_empty() {
            verified.broken.push((*object, broken));
            continue;
        }
        match wrong {
            None => {
                let is_verified = !known.hashes.is_empty() || known.pieces.is_some();
                verified.n_unverified += usize::from(!is_verified);
                verified.intact.push(*object);
                places.push(target.place.clone());
            }
            Some(hash) => verified.damaged.push((*object, hash)),
        }
    }
    destination.commit(&places)?;
    Ok(verified)
}

/// Looks at what is in the destination: objects that are there, parts of an earlier read, files in the way.
fn prepare(
    catalogue: &Catalogue,
    destination: &Destination,
    mut records: HashMap<String, Vec<Record>>,
    overwrite: bool,
) -> io::Result<Prepared> {
    let mut prepared = Prepared::default();
    let mut parts = HashSet::new();
    for object in catalogue.objects() {
        let (target, there) = match destination.place(&object.key) {
            Err(why) => (Err(why), Ranges::default()),
            Ok(place) if !parts.insert(place.part.clone()) => (
                Err(format!("{} is in the way; read it into another folder", place.path.display())),
                Ranges::default(),
            ),
            Ok(place) => prepare_object(destination, object, place, records.remove(&object.key), overwrite)?,
        };
        match target {
            Ok(target) => {
                prepared.n_kept += usize::from(target.is_none());
                let missing: u64 =
                    there.missing(object.bytes).iter().map(|range| range.end - range.start).sum();
                prepared.resumed_bytes += if target.is_some() { object.bytes - missing } else { 0 };
                prepared.targets.push(target);
            }
            Err(why) => {
                prepared.failures.push(Failure { key: object.key.clone(), why });
                prepared.targets.push(None);
            }
        }
        prepared.there.push(there);
    }
    Ok(prepared)
}

/// Where an object goes and what is there of it; no target if all of it is there.
fn prepare_object(
    destination: &Destination,
    object: &CatalogueObject,
    place: Place,
    records: Option<Vec<Record>>,
    overwrite: bool,
) -> io::Result<(Result<Option<Target>, String>, Ranges)> {
    let path = place.path.display().to_string();
    let refuse = |why: String| Ok((Err(why), Ranges::default()));
    match place.is_there(object.bytes, object.hashes.first())? {
        Existing::Same => return Ok((Ok(None), Ranges::default())),
        Existing::InTheWay => return refuse(format!("{path} is no file; move it elsewhere")),
        Existing::Other if !overwrite => {
            return refuse(format!("{path} exists and differs; --overwrite replaces it"));
        }
        Existing::Unknown if !overwrite => {
            return refuse(format!("{path} exists and cannot be compared; --overwrite replaces it"));
        }
        Existing::Nothing | Existing::Other | Existing::Unknown => {}
    }
    if let Err(error) = destination.make_folders(&place) {
        return refuse(error.to_string());
    }
    let version = version(object);
    let mut there = Ranges::default();
    if let Some(records) = records {
        let file = place.open_part(object.bytes)?;
        let is_of = |record: &Record| record.version == version && record.to <= object.bytes;
        for record in records.iter().filter(|record| is_of(record)) {
            if destination::crc32c_of(&file, record.from, record.to)? == record.crc32c {
                there.insert(record.from..record.to);
            }
        }
    }
    let target = Target { key: object.key.clone(), version, bytes: object.bytes, place };
    Ok((Ok(Some(target)), there))
}

/// What tells the bytes of this object from those of another version.
fn version(object: &CatalogueObject) -> String {
    match (object.hashes.first(), object.copies.as_slice()) {
        (Some(hash), _) => format!("{hash:?}"),
        (None, [only]) => {
            format!("{} {}", only.object.address, only.object.identity.as_deref().unwrap_or(""))
        }
        (None, _) => format!("{} bytes", object.bytes),
    }
}
