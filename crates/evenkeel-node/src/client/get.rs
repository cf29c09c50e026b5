//! The whole of a read: what is there, what is missing, how fast servers are, the plan, and in the end the proof that
//! everything arrived.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use evenkeel::policy::{OPTIMAL, Policy};
use evenkeel_store::{Catalogue, CatalogueObject, Hash, State};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::Instant;

use super::destination::{self, Destination, Existing, Place};
use super::driver::{Driver, Outcome, Served, Tally, progress, stopped};
use super::happening::{FORMAT, Happening, Line};
use super::journal::{Journal, Record};
use super::limit::{Limit, under};
use super::pieces::{self, Repairs, names, overlaps, senders};
use super::policy::{NotPlanned, depends_on_rates};
use super::probe::probe;
use super::ranges::Ranges;
use super::ranks::{Agreement, Portion, Rank};
use super::sink::{Sink, Target};
use super::work::{self, Item, Servers};

/// How to read.
#[derive(Clone, Debug)]
pub struct Options {
    /// The most bytes that are asked for at once. If nobody says, what a server sends in a quarter of a second, but at
    /// least 1 MiB and at most 16 MiB.
    pub range_bytes: Option<u64>,
    /// How many transfers each server does at once, whatever else is known about it.
    pub slots: Option<u32>,
    /// What is known about servers, by name. If a rate is missing, all are measured first.
    pub servers: HashMap<String, KnownServer>,
    /// How long to measure.
    pub probe: Duration,
    /// How long to wait for a server that is silent, and for one to come back.
    pub patience: Duration,
    /// Whether files that differ are replaced.
    pub overwrite: bool,
    /// Which server serves what. [`drives`](crate::drives) tells which policies one client can carry out.
    pub policy: &'static Policy,
    /// Which of several processes this is, if they share the work. Each reads whole objects. Rates are then not
    /// measured, since all must have the same; those that are not given count as equal.
    pub rank: Option<Rank>,
    /// Bytes per second that this process may receive.
    pub limit: Option<u64>,
    /// How many objects are planned and read together, and then brought to the disk together. Memory is needed for so
    /// many, and for names.
    pub window: usize,
}

impl Options {
    /// Whether enough is listed to read on, if so many objects are known already. Ranks wait for everything, since all
    /// must see the same.
    pub fn is_enough(&self, catalogue: &Catalogue, n_known: usize) -> bool {
        let is_over = !matches!(catalogue.state(), State::Listing);
        is_over || self.rank.is_none() && catalogue.n_objects() >= n_known.saturating_add(self.window.max(1))
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            range_bytes: None,
            slots: None,
            servers: HashMap::new(),
            probe: Duration::from_millis(300),
            patience: Duration::from_secs(20),
            overwrite: false,
            policy: &OPTIMAL,
            rank: None,
            limit: None,
            window: 10_000,
        }
    }
}

/// What is known about a server before anything is read from it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KnownServer {
    /// Its rate in bytes per second.
    pub rate: Option<u64>,
    /// How many transfers it does at once. If nobody says, two, four for S3, and more where objects are small.
    pub slots: Option<u32>,
}

/// Measuring pays if there is this much to read from each server.
const LEAST_TO_PROBE: u64 = 16 << 20;
/// What a server is assumed to do in a second if nothing is known.
const USUAL_RATE: u64 = 100 << 20;

/// What came of a read.
#[derive(Clone, Debug)]
pub struct Report {
    /// Objects of the data set.
    pub n_objects: usize,
    /// Of these, objects that were there already, verified by their checksum.
    pub n_kept: usize,
    /// Objects that arrived without a checksum to verify them by.
    pub n_unverified: usize,
    /// Objects without a checksum of their own whose data was verified on its way, by checksums that the storage keeps.
    pub n_verified_in_transit: usize,
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
    /// Why the data set could not be listed to its end, if so. What was listed was read.
    pub unlisted: Option<String>,
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
    Plan(#[from] NotPlanned),
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
    watch: &mut (dyn FnMut(&Line<'_>) + Send),
) -> Result<Report, GetError> {
    let (_sender, listing) = watch::channel(catalogue);
    get_while_listing(listing, path, options, stop, watch).await
}

/// Reads a data set into a folder like [`get`], while it is being [listed](Catalogue::list). Begins when
/// [enough](Options::is_enough) is listed.
pub async fn get_while_listing(
    listing: watch::Receiver<Arc<Catalogue>>,
    path: &Path,
    options: &Options,
    stop: watch::Receiver<bool>,
    watch: &mut (dyn FnMut(&Line<'_>) + Send),
) -> Result<Report, GetError> {
    let result = Get::new(listing, path, options, stop).await;
    let result = match result {
        Ok(get) => get.run(watch).await,
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
    Plan(NotPlanned),
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<NotPlanned> for Error {
    fn from(error: NotPlanned) -> Self {
        Self::Plan(error)
    }
}

/// How many objects without a checksum have arrived.
#[derive(Clone, Copy, Debug, Default)]
struct Unhashed {
    n_unverified: usize,
    /// Those whose storage has verified all of their data on its way.
    n_in_transit: usize,
}

/// What was found in the destination.
#[derive(Debug, Default)]
struct Prepared {
    /// What an earlier read has recorded about keys that were not listed yet.
    records: HashMap<String, Vec<Record>>,
    /// By object.
    is_missing: Vec<bool>,
    missing_bytes: u64,
    /// What an earlier read had received, by object.
    there: HashMap<usize, Ranges>,
    n_kept: usize,
    resumed_bytes: u64,
    failures: Vec<Failure>,
}

struct Get<'a> {
    listing: watch::Receiver<Arc<Catalogue>>,
    /// What is listed so far.
    catalogue: Arc<Catalogue>,
    destination: Destination,
    options: &'a Options,
    stop: watch::Receiver<bool>,
    limit: Limit,
    sink: Sink,
    prepared: Prepared,
    portion: Portion,
    agreement: Option<Agreement>,
    /// The objects that are read now, and of these the ones that are not complete.
    window: Range<usize>,
    targets: HashMap<usize, Arc<Target>>,
    /// What other ranks read at the same time, until this one has a plan.
    others: Vec<(u32, Item)>,
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
        mut listing: watch::Receiver<Arc<Catalogue>>,
        path: &Path,
        options: &'a Options,
        stop: watch::Receiver<bool>,
    ) -> io::Result<Self> {
        // If nobody lists any more, this is what there is.
        let _ = listing.wait_for(|catalogue| options.is_enough(catalogue, 0)).await;
        let begun = Instant::now();
        let catalogue = Arc::clone(&listing.borrow_and_update());
        let (known, path, asked) = (Arc::clone(&catalogue), path.to_owned(), options.clone());
        let look = move || {
            let destination = Destination::create(&path, asked.overwrite)?;
            let (journal, records) = Journal::open(&path, asked.rank.map(|rank| rank.rank))?;
            let agreement = asked.rank.map(|rank| Agreement::join(&path, rank, &known, &asked)).transpose();
            let agreement = match agreement {
                // Nothing is left behind by a rank that does not take part.
                Err(error) if journal.is_empty() => return journal.remove().and(Err(error)),
                agreement => agreement?,
            };
            io::Result::Ok((destination, journal, records, agreement))
        };
        let (destination, journal, records, agreement) =
            spawn_blocking(look).await.map_err(io::Error::other)??;
        let mut get = Self {
            listing,
            catalogue,
            destination,
            options,
            stop,
            limit: Limit::new(options.limit),
            sink: Sink::new(journal),
            prepared: Prepared { records, ..Prepared::default() },
            portion: Portion::new(options.rank),
            agreement,
            window: 0..0,
            targets: HashMap::new(),
            others: Vec::new(),
            tallies: Vec::new(),
            rates: Vec::new(),
            served: Vec::new(),
            tried: HashMap::new(),
            repairs: Repairs::default(),
            damaged: Vec::new(),
            begun,
            planning: Duration::ZERO,
        };
        get.prepare().await?;
        Ok(get)
    }

    /// Looks in the destination for the objects of the catalogue that are new.
    async fn prepare(&mut self) -> io::Result<()> {
        let n_known = self.prepared.is_missing.len();
        self.portion.extend(&self.catalogue);
        for name in &self.catalogue.servers()[self.rates.len()..] {
            self.rates.push(self.options.servers.get(name).and_then(|known| known.rate));
            self.tallies.push(Tally::default());
        }
        let own = (n_known..self.catalogue.n_objects()).filter(|&object| self.portion.has(object));
        let (own, catalogue): (Vec<usize>, _) = (own.collect(), Arc::clone(&self.catalogue));
        let (destination, overwrite) = (self.destination.clone(), self.options.overwrite);
        let is_done = self.agreement.as_ref().is_some_and(|agreement| agreement.is_done);
        let mut prepared = std::mem::take(&mut self.prepared);
        let look = move || {
            prepared.look(&catalogue, &own, &destination, overwrite, is_done);
            prepared
        };
        self.prepared = spawn_blocking(self.sink.locked(look)).await.map_err(io::Error::other)?;
        if self.options.rank.is_some() {
            // They are about objects of other ranks.
            self.prepared.records.clear();
        }
        Ok(())
    }

    async fn run(mut self, watch: &mut (dyn FnMut(&Line<'_>) + Send)) -> Result<Report, Error> {
        let begun = self.begun;
        let watch = &mut |what: Happening<'_>| {
            watch(&Line { format: FORMAT, at: begun.elapsed().as_secs_f64(), what });
        };
        self.tell_beginning(watch);
        self.tell_failures(0, watch);
        let (mut failed, mut unhashed) = (BTreeMap::new(), Unhashed::default());
        let was_stopped = self.read_windows(&mut failed, &mut unhashed, watch).await;
        if was_stopped.is_err() {
            self.sink.give_up().await;
        }
        let was_stopped = was_stopped?;
        for (&object, why) in &failed {
            watch(Happening::Failed { key: self.key(object), why: why.as_str().into() });
        }
        self.report(failed, unhashed, was_stopped).await
    }

    /// Reads all objects, window by window. Returns whether it was stopped.
    async fn read_windows(
        &mut self,
        failed: &mut BTreeMap<usize, String>,
        unhashed: &mut Unhashed,
        watch: &mut (dyn FnMut(Happening<'_>) + Send),
    ) -> Result<bool, Error> {
        let mut first = 0;
        loop {
            if self.go_on_listing(first, watch).await? {
                return Ok(true);
            }
            let window = self.portion.window(first, self.options.window);
            if window.is_empty() {
                return Ok(false);
            }
            first = window.end;
            self.open(window);
            if self.read_window(failed, unhashed, watch).await? {
                return Ok(true);
            }
            self.close(failed.is_empty() && unhashed.n_unverified + unhashed.n_in_transit == 0)?;
        }
    }

    /// Takes in what was listed meanwhile. Waits for enough of it if everything before this object has been read. Returns
    /// whether it was stopped.
    async fn go_on_listing(
        &mut self,
        first: usize,
        watch: &mut (dyn FnMut(Happening<'_>) + Send),
    ) -> io::Result<bool> {
        if first == self.catalogue.n_objects() {
            let enough = self.listing.wait_for(|catalogue| self.options.is_enough(catalogue, first));
            tokio::select! {
                () = stopped(&mut self.stop) => return Ok(true),
                _ = enough => {}
            }
        }
        let listed = Arc::clone(&self.listing.borrow_and_update());
        if !Arc::ptr_eq(&listed, &self.catalogue) {
            self.catalogue = listed;
            let n_failures = self.prepared.failures.len();
            self.prepare().await?;
            watch(Happening::Listed {
                objects: self.portion.n_objects,
                bytes: self.portion.bytes,
                kept: self.prepared.n_kept,
                resumed: self.prepared.resumed_bytes,
                missing: self.prepared.missing_bytes,
                servers: self.catalogue.servers().into(),
            });
            self.tell_failures(n_failures, watch);
        }
        Ok(false)
    }

    /// Begins with these objects.
    fn open(&mut self, window: Range<usize>) {
        self.others = self.portion.others(&self.catalogue, window.clone(), self.range_bytes());
        for object in window.clone().filter(|&object| self.prepared.is_missing[object]) {
            let known = self.catalogue.object(object);
            // It had a place when it was looked for.
            let Ok(place) = self.destination.place(&known.key) else { continue };
            let (version, bytes) = (version(&known), known.bytes);
            let target = Target { object, key: known.key, version, bytes, hashes: known.hashes, place };
            let target = Arc::new(target);
            self.sink.open(&target, self.prepared.there.remove(&object).unwrap_or_default());
            self.targets.insert(object, target);
        }
        self.window = window;
    }

    /// All objects of the window are complete, or have failed.
    fn close(&mut self, all_have_checksums: bool) -> io::Result<()> {
        self.targets.clear();
        self.served.clear();
        // What was received of objects that failed, or of other data, is worth keeping. And if this read is interrupted, the
        // next one knows objects without a checksum by what was recorded.
        if all_have_checksums && self.prepared.there.is_empty() && self.prepared.records.is_empty() {
            self.sink.forget()?;
        }
        Ok(())
    }

    /// Reads the objects of the window. Returns whether it was stopped.
    async fn read_window(
        &mut self,
        failed: &mut BTreeMap<usize, String>,
        unhashed: &mut Unhashed,
        watch: &mut (dyn FnMut(Happening<'_>) + Send),
    ) -> Result<bool, Error> {
        let mut items = self.items();
        if self.may_measure() && !items.is_empty() {
            items = self.probe(items, watch).await?;
        }
        for n_rounds in 1.. {
            if items.is_empty() && self.targets.is_empty() {
                break;
            }
            let outcome = self.read(&items, watch).await?;
            for (item, why) in outcome.failed {
                failed.entry(items[item].object).or_insert(why);
            }
            if outcome.was_stopped {
                return Ok(true);
            }
            self.served.extend(outcome.served);
            let mut intact = Vec::new();
            for (object, wrong) in self.sink.drain().await? {
                let broken = self.broken(object, wrong.is_some()).await?;
                let outcome = match wrong {
                    _ if !broken.is_empty() => self.repair(object, &broken),
                    Some(wrong) => self.try_another(object, &wrong),
                    None => {
                        // All of it may be there even if a transfer failed in the end.
                        failed.remove(&object);
                        intact.push(object);
                        continue;
                    }
                };
                let why = self.damaged.last().map_or("", String::as_str).into();
                watch(Happening::Damaged { key: self.key(object), why });
                if let Err(why) = outcome {
                    failed.insert(object, why);
                }
            }
            // What is read from one server after the other has failed at this one only, unless it has come to its end.
            failed.retain(|&object, _| {
                let goes_on = self.tried.contains_key(&object) && self.targets.contains_key(&object);
                !goes_on || !self.read_alone(object)
            });
            self.commit(intact, failed, unhashed, watch).await?;
            items = self.items();
            items.retain(|item| !failed.contains_key(&item.object));
            if n_rounds > self.most_rounds() {
                let unfinished = items.drain(..).map(|item| item.object);
                failed.extend(unfinished.map(|object| (object, "it never arrived whole".to_owned())));
            }
            if items.is_empty() {
                break;
            }
        }
        Ok(false)
    }

    /// Whether rates are measured before anything is planned.
    fn may_measure(&self) -> bool {
        let n_servers = self.catalogue.servers().len() as u64;
        let is_worthwhile = self.prepared.missing_bytes >= LEAST_TO_PROBE.saturating_mul(n_servers);
        // Ranks would measure different rates, and make different plans.
        let is_alone = self.options.rank.is_none();
        self.rates.contains(&None) && is_worthwhile && is_alone && depends_on_rates(self.options.policy)
    }

    /// Each server may have sent damaged data, alone and together with others, pieces and all, and so may have hedges.
    fn most_rounds(&self) -> usize {
        3 + 2 * self.catalogue.servers().len()
    }

    fn key(&self, object: usize) -> Cow<'_, str> {
        self.catalogue.key(object).into()
    }

    fn tell_beginning(&self, watch: &mut (dyn FnMut(Happening<'_>) + Send)) {
        watch(Happening::Begun {
            objects: self.portion.n_objects,
            bytes: self.portion.bytes,
            kept: self.prepared.n_kept,
            resumed: self.prepared.resumed_bytes,
            missing: self.prepared.missing_bytes,
            policy: self.options.policy.name.into(),
            servers: self.catalogue.servers().into(),
        });
    }

    /// Tells which objects cannot be read, from this failure on.
    fn tell_failures(&self, first: usize, watch: &mut (dyn FnMut(Happening<'_>) + Send)) {
        for Failure { key, why } in &self.prepared.failures[first..] {
            watch(Happening::Failed { key: key.into(), why: why.into() });
        }
    }

    /// Reads these items by a plan.
    async fn read(
        &mut self,
        items: &[Item],
        watch: &mut (dyn FnMut(Happening<'_>) + Send),
    ) -> Result<Outcome, Error> {
        let planning = Instant::now();
        let mut rates: Vec<u64> = self.rates.iter().map(|rate| rate.unwrap_or(USUAL_RATE)).collect();
        // All ranks together may receive that much each.
        let n_ranks = self.options.rank.map_or(1, |rank| u64::from(rank.of));
        under(self.options.limit.map(|limit| limit.saturating_mul(n_ranks)), &mut rates);
        let slots = self.slots(items);
        let others = std::mem::take(&mut self.others);
        let (names, servers) = (self.catalogue.servers(), Servers { rates, slots });
        let planned = work::plan(names, &servers, items, self.options.policy, self.options.rank, &others)?;
        self.planning += planning.elapsed();
        watch(planned.told(self.catalogue.servers()));
        let driver = Driver {
            catalogue: Arc::clone(&self.catalogue),
            items,
            sink: &mut self.sink,
            tallies: &mut self.tallies,
            patience: self.options.patience,
            limit: self.limit.clone(),
            stop: self.stop.clone(),
            since: self.begun,
            watch: &mut *watch,
        };
        let outcome = driver.run(&planned).await?;
        watch(progress(&self.tallies));
        Ok(outcome)
    }

    /// The most bytes that are asked for at once.
    fn range_bytes(&self) -> u64 {
        self.options.range_bytes.unwrap_or_else(|| work::usual_range_bytes(&self.rates)).max(1)
    }

    /// How many transfers each server does at once while these items are read.
    fn slots(&self, items: &[Item]) -> Vec<u32> {
        let least = work::slots_for(items.iter().chain(self.others.iter().map(|(_, item)| item)));
        let slots = |(server, name): (usize, &String)| {
            let known = self.options.servers.get(name).and_then(|known| known.slots);
            let usual = || self.catalogue.usual_slots(server).max(least);
            self.options.slots.or(known).unwrap_or_else(usual)
        };
        self.catalogue.servers().iter().enumerate().map(slots).collect()
    }

    /// What is missing of the objects of the window.
    fn items(&self) -> Vec<Item> {
        let (mut items, range_bytes) = (Vec::new(), self.range_bytes());
        for object in self.window.clone() {
            if let Some(there) = self.sink.taken(object) {
                let first = items.len();
                let cut = |there: &Ranges, items: &mut Vec<Item>| {
                    work::cut(&self.catalogue, object, there, range_bytes, items);
                };
                if self.repairs.has(object) {
                    let bytes = self.catalogue.bytes(object);
                    // Each piece for itself: others are asked for others.
                    for repair in self.repairs.of(object, &there.missing_in(0..bytes)) {
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

    /// The pieces of a complete object that are damaged, if its checksum does not say that there are none.
    async fn broken(&self, object: usize, is_wrong: bool) -> io::Result<Vec<Range<u64>>> {
        let known = self.catalogue.object(object);
        let Some(target) = self.targets.get(&object).cloned().filter(|_| known.pieces.is_some()) else {
            return Ok(Vec::new());
        };
        let find = move || pieces::broken(&known, is_wrong, &target.place.part);
        spawn_blocking(find).await.map_err(io::Error::other)?
    }

    /// Gives objects that are complete and verified their names, and counts those that have no checksum.
    async fn commit(
        &mut self,
        intact: Vec<usize>,
        failed: &mut BTreeMap<usize, String>,
        unhashed: &mut Unhashed,
        watch: &mut (dyn FnMut(Happening<'_>) + Send),
    ) -> io::Result<()> {
        let targets = intact.into_iter().filter_map(|object| self.targets.remove(&object));
        let targets: Vec<Arc<Target>> = targets.collect();
        let destination = self.destination.clone();
        let commit = move || {
            for target in targets.iter().filter(|target| target.bytes == 0) {
                target.place.open_part(0)?;
            }
            let results = destination.commit(targets.iter().map(|target| &target.place))?;
            io::Result::Ok((targets, results))
        };
        let commit = self.sink.locked(commit);
        let (targets, results) = spawn_blocking(commit).await.map_err(io::Error::other)??;
        for (target, result) in targets.iter().zip(results) {
            match result {
                Ok(()) => {
                    let known = self.catalogue.object(target.object);
                    let has_checksum = !known.hashes.is_empty() || known.pieces.is_some();
                    let verified = has_checksum || self.catalogue.verifies(&known);
                    unhashed.n_unverified += usize::from(!verified);
                    unhashed.n_in_transit += usize::from(verified && !has_checksum);
                    watch(Happening::Done { key: target.key.as_str().into(), verified });
                }
                Err(why) => drop(failed.insert(target.object, why)),
            }
        }
        Ok(())
    }

    /// Arranges that an object that arrived damaged is read again, all of it from one server that was not tried alone
    /// before. If there is none left, returns who sent the damaged data.
    fn try_another(&mut self, object: usize, wrong: &Hash) -> Result<(), String> {
        let known = self.catalogue.object(object);
        let senders = names(&self.catalogue, &senders(&self.served, object, &(0..known.bytes)));
        let text = format!("{}: its {} is wrong, as sent by {senders}", known.key, wrong.algorithm);
        self.damaged.push(text);
        self.served.retain(|served| served.object != object);
        self.repairs.forget(object);
        match self.read_alone(object) {
            true => Ok(()),
            false => Err(format!("its {} is wrong at every server", wrong.algorithm)),
        }
    }

    /// Arranges that an object is read from a single server, the next that was not tried alone. Returns false if there
    /// is none.
    fn read_alone(&mut self, object: usize) -> bool {
        let known = self.catalogue.object(object);
        let tried = self.tried.entry(object).or_default();
        let holders = self.catalogue.servers_of(&known, &(0..known.bytes));
        let Some(next) = holders.into_iter().find(|server| !tried.contains(server)) else { return false };
        tried.push(next);
        if let Some(target) = self.targets.get(&object) {
            self.sink.open(target, Ranges::default());
        }
        true
    }

    /// Arranges that damaged pieces of an object are read again. If one is damaged wherever it is, returns so.
    fn repair(&mut self, object: usize, ranges: &[Range<u64>]) -> Result<(), String> {
        let bytes = self.catalogue.bytes(object);
        let result = self.repairs.add(&self.catalogue, &self.served, object, ranges, &mut self.damaged);
        self.served.retain(|served| served.object != object || !overlaps(ranges, &served.range));
        if let Some(target) = self.targets.get(&object) {
            self.sink.open(target, Ranges::all_but(ranges, bytes));
        }
        result
    }

    /// Measures rates, and returns what is missing then.
    async fn probe(
        &mut self,
        items: Vec<Item>,
        watch: &mut (dyn FnMut(Happening<'_>) + Send),
    ) -> io::Result<Vec<Item>> {
        let (slots, items) = (self.slots(&items), Arc::new(items));
        let measured = probe(&self.catalogue, &items, &slots, self.options.probe, &self.limit).await;
        let fastest = measured.iter().filter_map(|measured| measured.rate).max().unwrap_or(USUAL_RATE);
        for (server, measured) in measured.into_iter().enumerate() {
            // One that sent nothing is asked last.
            self.rates[server] = self.rates[server].or(Some(measured.rate.unwrap_or(fastest / 100).max(1)));
            if let Some(error) = measured.error {
                self.tallies[server].n_failures += 1;
                self.tallies[server].last_error = Some(error.to_string());
            }
            let bytes =
                measured.received.iter().flat_map(|(_, chunks)| chunks).map(|chunk| chunk.len() as u64);
            let (bytes, rate) = (bytes.sum(), self.rates[server].unwrap_or(0));
            let name = self.catalogue.servers()[server].as_str().into();
            watch(Happening::Measured { server: name, bytes, rate });
            for (item, chunks) in measured.received {
                let Item { object, range, .. } = &items[item];
                let bytes: u64 = chunks.iter().map(|chunk| chunk.len() as u64).sum();
                self.tallies[server].bytes += bytes;
                if bytes > 0 {
                    let range = range.start..range.start + bytes;
                    self.served.push(Served { object: *object, server, range: range.clone() });
                    self.sink.write(*object, range.start, chunks).await?;
                }
            }
        }
        Ok(self.items())
    }

    async fn report(
        self,
        failed: BTreeMap<usize, String>,
        unhashed: Unhashed,
        was_stopped: bool,
    ) -> Result<Report, Error> {
        let mut failures = self.prepared.failures;
        let unreadable = self.catalogue.unreadable().iter();
        failures
            .extend(unreadable.map(|found| Failure { key: found.key.clone(), why: found.error.to_string() }));
        let key = |object: usize| self.catalogue.key(object).to_owned();
        failures.extend(failed.into_iter().map(|(object, why)| Failure { key: key(object), why }));
        failures.sort_by(|a, b| a.key.cmp(&b.key));
        let servers = self.catalogue.servers().iter().zip(&self.tallies).zip(&self.rates);
        let servers = servers.map(|((name, tally), &rate)| ServerReport {
            name: name.clone(),
            rate,
            bytes: tally.bytes,
            n_failures: tally.n_failures,
            last_error: tally.last_error.clone(),
        });
        let unlisted = match self.catalogue.state() {
            State::BrokenOff(error) => Some(error.to_string()),
            State::Listing if !was_stopped => Some("the listing was given up".to_owned()),
            _ => None,
        };
        let report = Report {
            n_objects: self.portion.n_objects,
            n_kept: self.prepared.n_kept,
            n_unverified: unhashed.n_unverified,
            n_verified_in_transit: unhashed.n_in_transit,
            bytes: self.portion.bytes,
            resumed_bytes: self.prepared.resumed_bytes,
            received_bytes: self.tallies.iter().map(|tally| tally.bytes).sum(),
            elapsed: self.begun.elapsed(),
            planning: self.planning,
            servers: servers.collect(),
            damaged: self.damaged,
            failures,
            unlisted,
            was_stopped,
        };
        let journal = self.sink.finish().await?;
        let is_complete = report.failures.is_empty() && report.unlisted.is_none() && !was_stopped;
        // Another read into this folder may have been interrupted.
        let is_there = |key: &String| self.destination.place(key).is_ok_and(|place| place.part.exists());
        let is_last = is_complete && !self.prepared.records.keys().any(is_there);
        match &self.agreement {
            Some(agreement) if is_complete && agreement.finish()? => journal.remove_all()?,
            // What was received of objects that failed is worth keeping.
            _ if is_last || journal.is_empty() => journal.remove()?,
            _ => {}
        }
        if is_last && self.agreement.is_none() {
            self.destination.forget_ranks()?;
        }
        Ok(report)
    }
}

impl Prepared {
    /// Looks for these objects in the destination: those that are there, parts of an earlier read, files in the way.
    fn look(
        &mut self,
        catalogue: &Catalogue,
        objects: &[usize],
        destination: &Destination,
        overwrite: bool,
        is_done: bool,
    ) {
        self.is_missing.resize(catalogue.n_objects(), false);
        let ask = |object: &CatalogueObject| Handle::current().block_on(catalogue.hash(object));
        for &number in objects {
            let object = catalogue.object(number);
            let records = self.records.remove(&object.key);
            let looked = match destination.place(&object.key) {
                Err(why) => Looked::Failed(why),
                // This rank has put it there before, and there is nothing to compare it with.
                Ok(place)
                    if is_done
                        && object.hashes.is_empty()
                        && place
                            .is_there(object.bytes, None)
                            .is_ok_and(|there| there == Existing::Unknown) =>
                {
                    Looked::There
                }
                // What is in the way of one object is none of the others' business.
                Ok(place) => look(destination, &object, &place, records, overwrite, &ask)
                    .unwrap_or_else(|error| Looked::Failed(format!("{}: {error}", place.path.display()))),
            };
            match looked {
                Looked::There => self.n_kept += 1,
                Looked::Missing(there) => {
                    let missing = there.missing_in(0..object.bytes);
                    let missing: u64 = missing.iter().map(|range| range.end - range.start).sum();
                    self.is_missing[number] = true;
                    self.missing_bytes = self.missing_bytes.saturating_add(missing);
                    if missing < object.bytes {
                        self.resumed_bytes += object.bytes - missing;
                        self.there.insert(number, there);
                    }
                }
                Looked::Failed(why) => self.failures.push(Failure { key: object.key, why }),
            }
        }
    }
}

/// What was found in the place of an object.
enum Looked {
    There,
    /// Some of it may be there.
    Missing(Ranges),
    /// It cannot be read, and why.
    Failed(String),
}

fn look(
    destination: &Destination,
    object: &CatalogueObject,
    place: &Place,
    records: Option<Vec<Record>>,
    overwrite: bool,
    ask_for_hash: &dyn Fn(&CatalogueObject) -> Option<Hash>,
) -> io::Result<Looked> {
    let (path, version) = (place.path.display(), version(object));
    let records = records.unwrap_or_default();
    let received = |file: &File| {
        let mut there = Ranges::default();
        let is_of = |record: &&Record| record.version == version && record.to <= object.bytes;
        for record in records.iter().filter(is_of) {
            let range = record.from..record.to;
            match record.crc32c {
                None => there.remove(range),
                Some(crc) if destination::crc32c_of(file, range.clone())? == crc => there.insert(range),
                Some(_) => {}
            }
        }
        io::Result::Ok(there)
    };
    let existing = match place.is_there(object.bytes, object.hashes.first())? {
        // Its pieces can be compared.
        Existing::Unknown if object.pieces.is_some() => {
            let is_same = pieces::broken(object, false, &place.path)?.is_empty();
            if is_same { Existing::Same } else { Existing::Other }
        }
        // An earlier read put it there, and was then interrupted.
        Existing::Unknown if received(&File::open(&place.path)?)?.prefix() == object.bytes => Existing::Same,
        Existing::Unknown => match ask_for_hash(object) {
            Some(hash) => place.is_there(object.bytes, Some(&hash))?,
            None => Existing::Unknown,
        },
        existing => existing,
    };
    match existing {
        Existing::Same => {
            // An earlier read of another version may have been interrupted.
            place.remove_part()?;
            destination.protect(place)?;
            return Ok(Looked::There);
        }
        Existing::InTheWay => return Ok(Looked::Failed(format!("{path} is no file; move it elsewhere"))),
        Existing::Other if !overwrite => {
            return Ok(Looked::Failed(format!("{path} exists and differs; --overwrite replaces it")));
        }
        Existing::Unknown if !overwrite => {
            let why = format!("{path} exists and cannot be compared; --overwrite replaces it");
            return Ok(Looked::Failed(why));
        }
        Existing::Nothing | Existing::Other | Existing::Unknown => {}
    }
    if let Err(error) = destination.make_folders(place) {
        return Ok(Looked::Failed(error.to_string()));
    }
    Ok(Looked::Missing(match records.is_empty() {
        true => Ranges::default(),
        false => received(&place.open_part(object.bytes)?)?,
    }))
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
