//! Writes: clients send their writes to the servers that a policy picks (papers 004 and 003 §4.6).
//!
//! Each client has as many writes in flight as it has slots. Writes wait until a window is full, or until no write is
//! in flight whose client could still fill it. Then the window is placed. So with as many clients as a window has
//! writes, one window follows the other. With windows of one write, each client goes through its own writes, as in
//! paper 003. Alternatively windows open at fixed intervals, whatever is in flight, as in paper 004.
//!
//! Copies are written in a pipeline: the client sends to the first server, which sends to the second, and so on, all at
//! the same time. A write is done when all of its copies are. `two-choice` asks servers before it writes, which takes a
//! round trip of messages. Clients keep the logs, which cost nothing. A copy that is lost goes to the next server that
//! is up and has no copy of the write.

use evenkeel::draw::{Draw, Seeded};
use evenkeel::model::MemberId;
use evenkeel::observe::{Forget, HeatMap, ServerLog, SortKey, Unit};
use evenkeel::place::two_choice::Probing;
use evenkeel::place::{Options, PlaceError, Placer, Servers, Write, default_server};
use evenkeel::policy::{Kind, Live};
use serde::Deserialize;

use crate::case::Case;
use crate::chance::{sample, sub_seed};
use crate::fabric::{Fabric, Happening, Job};
use crate::hardware::Client;
use crate::outcome::Outcome;
use crate::refused::Refused;
use crate::units::{Bytes, Span};

/// Purposes of the random draws, for their sub-seeds.
const OBJECTS: u64 = 1;
const LOADS: u64 = 2;
const PLACES: u64 = 3;

/// Maximum number of earlier writes in a server's backlog.
const MOST_EARLIER: u64 = 1024;

/// Writes of all clients, in turn, each to an object drawn at random. The defaults are the medium I/O of paper 004 §4.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Writes {
    /// Number of writes of all clients together.
    pub writes: u32,
    /// Number of writes that are placed together; at least 1.
    pub window: u32,
    /// How often a window of `window` writes opens. If not given, a client writes as soon as it has a free slot.
    pub every: Option<Span>,
    /// Sizes of the writes.
    pub sizes: Sizes,
    /// Number of objects to write to.
    pub objects: u32,
    /// Number of copies of each write, on different servers.
    pub copies: u32,
    /// By how much the load of a server must be below that of the default server.
    pub threshold: Bytes,
    /// How often `nltr` halves the servers.
    pub levels: u32,
    /// The key by which servers are sorted.
    pub sort: Sort,
    /// Whether servers are sorted again for each write, rather than once per window.
    pub resort: bool,
    /// Number of writes for which a server's answer to `two-choice` is known to all. 0: only the client that asked
    /// knows it, for one copy.
    pub shared_writes: u32,
    /// Whether the log learns about completed writes. If not, loads only grow, as in paper 004.
    pub completions: bool,
    /// How often servers report their connections under `hm-lru`, beginning at the start. 0: never.
    pub heartbeat: Span,
    /// Whether a chosen server counts as connected until its next report.
    pub optimistic: bool,
    /// Backlog of the servers at the start.
    pub backlog: Option<Backlog>,
}

impl Default for Writes {
    fn default() -> Self {
        Self {
            writes: 2000,
            window: 200,
            every: None,
            sizes: Sizes::Between(Range { from: Bytes(4 << 20), to: Bytes(10 << 20) }),
            objects: 1 << 30,
            copies: 1,
            threshold: Bytes(1 << 20),
            levels: 2,
            sort: Sort::Load,
            resort: false,
            shared_writes: 0,
            completions: true,
            heartbeat: Span(3_000_000_000),
            optimistic: false,
            backlog: None,
        }
    }
}

/// The key by which servers are sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sort {
    /// By load, the lowest first.
    Load,
    /// By probability, the highest first, from the formulas of paper 004.
    Probability,
}

/// Sizes of writes.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(
    untagged,
    expecting = "write sizes as `\"64MB\"`, as `{ from = \"4MB\", to = \"10MB\" }` or as a list of these with a `weight` each"
)]
pub enum Sizes {
    /// One size for all writes.
    One(Bytes),
    /// Sizes uniformly distributed over a range.
    Between(Range),
    /// Classes of sizes, drawn by weight.
    Mixed(Vec<Class>),
}

/// A range of sizes, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Range {
    /// The smallest size.
    pub from: Bytes,
    /// The largest size.
    pub to: Bytes,
}

/// A class of sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Class {
    /// The smallest size.
    pub from: Bytes,
    /// The largest size.
    pub to: Bytes,
    /// Frequency relative to other classes.
    pub weight: u32,
}

/// Backlog of the servers at the start: earlier writes of mean size, which belong to no client. The defaults are those
/// of paper 004 §4.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Backlog {
    /// Mean backlog of a server, stragglers aside.
    pub mean: Bytes,
    /// Standard deviation of the backlog, which is normally distributed.
    pub deviation: Bytes,
    /// Share of the servers that are stragglers, drawn at random.
    pub stragglers: f64,
    /// Additional backlog of a straggler, as a multiple of the mean.
    pub times: f64,
    /// Whether the log knows the backlog. A server that is asked always does.
    pub known: bool,
}

impl Default for Backlog {
    fn default() -> Self {
        Self { mean: Bytes(60 << 20), deviation: Bytes(4 << 20), stragglers: 0.1, times: 5.0, known: true }
    }
}

impl Sizes {
    fn classes(&self) -> Vec<Class> {
        match self {
            Self::One(bytes) => vec![Class { from: *bytes, to: *bytes, weight: 1 }],
            Self::Between(Range { from, to }) => vec![Class { from: *from, to: *to, weight: 1 }],
            Self::Mixed(classes) => classes.clone(),
        }
    }
}

/// The classes of sizes, validated.
struct Mix {
    classes: Vec<Class>,
    weight: u32,
}

impl Mix {
    fn new(sizes: &Sizes) -> Result<Self, Refused> {
        let classes = sizes.classes();
        let refused = |given: String, wanted| Err(Refused::Setting { name: "sizes", given, wanted });
        if let Some(class) = classes.iter().find(|class| class.from > class.to) {
            let given = format!("from {} to {} bytes", class.from.0, class.to.0);
            return refused(given, "give the shortest first");
        }
        let weight = classes.iter().try_fold(0_u32, |sum, class| sum.checked_add(class.weight));
        match weight {
            Some(weight) if weight > 0 => Ok(Self { classes, weight }),
            _ => refused(
                "a mix whose weights add up to 0 or too much".to_owned(),
                "give weights such as 1, 2, 5",
            ),
        }
    }

    fn draw(&self, draw: &mut dyn Draw) -> u64 {
        let mut left = if self.classes.len() == 1 { 0 } else { draw.below(self.weight) };
        for class in &self.classes {
            if left < class.weight {
                let (from, to) = (class.from.0, class.to.0);
                return if from == to {
                    from
                } else {
                    to.min(from + (draw.unit() * ((to - from) as f64 + 1.0)) as u64)
                };
            }
            left -= class.weight;
        }
        0
    }

    /// Mean size, at least one byte.
    fn mean(&self) -> u64 {
        let middle = |class: &Class| u128::from(class.from.0) + u128::from(class.to.0);
        let sum: u128 = self.classes.iter().map(|class| middle(class) / 2 * u128::from(class.weight)).sum();
        ((sum / u128::from(self.weight)) as u64).max(1)
    }
}

impl Backlog {
    fn check(&self) -> Result<(), Refused> {
        let refused =
            |name, given: f64, wanted| Err(Refused::Setting { name, given: given.to_string(), wanted });
        match self {
            Self { stragglers, .. } if !(0.0..=1.0).contains(stragglers) => {
                refused("backlog.stragglers", *stragglers, "use a share from 0 to 1")
            }
            Self { times, .. } if !(0.0..=1e6).contains(times) => {
                refused("backlog.times", *times, "use a number from 0 to 1000000")
            }
            _ => Ok(()),
        }
    }

    /// Backlog of each server.
    fn loads(&self, n_servers: u32, draw: &mut dyn Draw) -> Vec<u64> {
        let (mean, deviation) = (self.mean.0 as f64, self.deviation.0 as f64);
        // A sum of twelve uniform numbers is close enough to normal, and the same on every machine.
        let mut normal = || (0..12).map(|_| draw.unit()).sum::<f64>() - 6.0;
        let mut loads: Vec<u64> =
            (0..n_servers).map(|_| (mean + deviation * normal()).max(0.0) as u64).collect();
        let n_stragglers = (f64::from(n_servers) * self.stragglers + 0.5) as u32;
        for straggler in sample(n_servers, n_stragglers, draw) {
            let load = &mut loads[straggler as usize];
            *load = load.saturating_add((self.times * mean) as u64);
        }
        loads
    }
}

impl Writes {
    /// Size of the largest possible write.
    pub(crate) fn most_bytes(&self) -> u64 {
        self.sizes.classes().iter().map(|class| class.to.0).max().unwrap_or(0)
    }

    /// Refuses settings that are impossible with `n_servers` servers.
    pub(crate) fn check(&self, n_servers: usize) -> Result<(), Refused> {
        Refused::copies(self.copies, n_servers)?;
        Mix::new(&self.sizes)?;
        self.backlog.as_ref().map_or(Ok(()), Backlog::check)
    }

    /// Runs the writes under a policy that places them. A response lasts from when a client wants to write until all
    /// copies are written. The bytes of servers count only these writes, not the backlog. Redirected writes are those
    /// without a copy on the default server.
    pub fn run(&self, case: &Case<'_>) -> Result<Outcome, Refused> {
        let place = case.answer("where a write goes", |kind| match kind {
            Kind::Place(place) => Some(*place),
            _ => None,
        })?;
        let Case { hardware, policy, seed, .. } = *case;
        if hardware.clients.is_empty() {
            return Err(Refused::NoClients);
        }
        let (n_servers, asks) = (hardware.servers.len() as u32, matches!(policy.live, Live::Asks));
        self.check(hardware.servers.len())?;
        let mix = Mix::new(&self.sizes)?;
        let backlogs = self.backlogs(n_servers, seed)?;
        let is_known = asks || self.backlog.as_ref().is_none_or(|backlog| backlog.known);
        let known = backlogs.iter().map(|&bytes| if is_known { bytes } else { 0 });
        let log = ServerLog::new(known, Unit::Mean, Forget::default());
        let servers = Servers { log, heat: HeatMap::unknown(n_servers, self.optimistic) };
        let writes = self.drawn(n_servers, seed)?;
        let n_writes = writes.len();
        let mut run = Run {
            fabric: case.fabric(None),
            placer: Placer::new(place, self.options(), servers)?,
            asks,
            heartbeat_ns: if matches!(policy.live, Live::Listens) { self.heartbeat.0 } else { 0 },
            hears_of_done: asks || self.completions,
            hears_of_backlog: is_known,
            window: self.window.max(1) as usize,
            every_ns: self.every.map(|every| every.0),
            n_copies: self.copies as usize,
            issued_ns: vec![0; n_writes],
            n_copies_left: vec![self.copies; n_writes],
            jobs: vec![None; n_writes * self.copies as usize],
            writes,
            n_opened: 0,
            next_of_clients: (0..hardware.clients.len()).collect(),
            waiting: Vec::new(),
            n_under_way: 0,
            earlier: Vec::new(),
            stranded: Vec::new(),
            draw: Seeded::new(sub_seed(seed, PLACES)),
            written: vec![0; n_servers as usize],
            outcome: Outcome { done_ns_of_clients: vec![0; hardware.clients.len()], ..Outcome::default() },
        };
        run.begin(&backlogs, mix.mean());
        Ok(run.go()?)
    }

    /// Backlog of each server at the start.
    pub fn backlogs(&self, n_servers: u32, seed: u64) -> Result<Vec<u64>, Refused> {
        let Some(backlog) = &self.backlog else { return Ok(vec![0; n_servers as usize]) };
        backlog.check()?;
        Ok(backlog.loads(n_servers, &mut Seeded::new(sub_seed(seed, LOADS))))
    }

    pub(crate) fn options(&self) -> Options {
        Options {
            n_replicas: self.copies,
            levels: self.levels,
            threshold_bytes: self.threshold.0,
            sort_key: match self.sort {
                Sort::Load => SortKey::Load,
                Sort::Probability => SortKey::Probability,
            },
            resort: self.resort,
            probing: Probing { shared_writes: self.shared_writes, ..Probing::default() },
            ..Options::default()
        }
    }

    /// All writes, in the order in which they are issued.
    pub(crate) fn drawn(&self, n_servers: u32, seed: u64) -> Result<Vec<Write>, Refused> {
        let mix = Mix::new(&self.sizes)?;
        let mut draw = Seeded::new(sub_seed(seed, OBJECTS));
        let write = |_| {
            let object = draw.below(self.objects.max(1));
            let default = default_server(&object.to_string(), n_servers);
            Write { object: object.into(), default, offset: 0, bytes: mix.draw(&mut draw) }
        };
        Ok((0..self.writes).map(write).collect())
    }
}

/// Tags from here on belong to earlier writes, lower ones to copies.
const EARLIER: u64 = 1 << 63;

struct Run<'a> {
    fabric: Fabric<'a>,
    placer: Placer,
    asks: bool,
    heartbeat_ns: u64,
    hears_of_done: bool,
    hears_of_backlog: bool,
    window: usize,
    every_ns: Option<u64>,
    n_copies: usize,
    writes: Vec<Write>,
    issued_ns: Vec<u64>,
    n_copies_left: Vec<u32>,
    /// The job of each copy, in flight or done.
    jobs: Vec<Option<Job>>,
    /// Number of writes in the windows opened so far, if windows open at fixed intervals.
    n_opened: usize,
    /// Otherwise, the next write of each client.
    next_of_clients: Vec<usize>,
    /// Writes that wait until their window is full.
    waiting: Vec<usize>,
    n_under_way: usize,
    /// Server and size of each earlier write.
    earlier: Vec<(MemberId, u64)>,
    /// Copies for which no server is up.
    stranded: Vec<u64>,
    draw: Seeded,
    written: Vec<u64>,
    outcome: Outcome,
}

impl Run<'_> {
    /// Gives servers their backlogs, and issues the first writes of the clients.
    fn begin(&mut self, backlogs: &[u64], length: u64) {
        for (server, &backlog) in (0..).map(MemberId).zip(backlogs) {
            let length = length.max(backlog.div_ceil(MOST_EARLIER));
            let mut left = backlog;
            while left > 0 {
                let bytes = left.min(length);
                left -= bytes;
                let host = self.fabric.hardware().servers[server.index()].host;
                let tag = EARLIER | self.earlier.len() as u64;
                self.earlier.push((server, bytes));
                self.fabric.submit(Job { tag, server: server.0, from: host, to: host, bytes }, 0);
            }
        }
        self.beat();
        if self.every_ns.is_some() {
            self.open_window();
            return;
        }
        for (client, Client { slots, .. }) in self.fabric.hardware().clients.iter().enumerate() {
            let n_own = self.writes.len().saturating_sub(client).div_ceil(self.next_of_clients.len());
            (0..n_own.min(*slots as usize)).for_each(|_| self.issue(client));
        }
    }

    fn go(mut self) -> Result<Outcome, PlaceError> {
        self.place_full_windows()?;
        while let Some((_, happening)) = self.fabric.next() {
            match happening {
                Happening::Timer { .. } => self.beat(),
                Happening::Arrival => self.open_window(),
                Happening::Done { tag } | Happening::Lost { tag } if tag >= EARLIER => self.end_earlier(tag),
                Happening::Done { tag } => self.end_copy(tag),
                Happening::Lost { tag } => self.send_elsewhere(tag),
                Happening::Up { .. } => {
                    let stranded = std::mem::take(&mut self.stranded);
                    stranded.into_iter().for_each(|tag| self.send_elsewhere(tag));
                }
                Happening::Down { .. } => {}
            }
            self.place_full_windows()?;
        }
        let mut outcome = self.outcome.close(self.writes.len(), self.fabric);
        outcome.bytes_of_servers = self.written;
        outcome.n_probes = self.placer.n_probes();
        outcome.n_redirected = self.placer.n_redirected();
        Ok(outcome)
    }

    /// Every server reports, and will report again while writes are outstanding.
    fn beat(&mut self) {
        if self.heartbeat_ns == 0 {
            return;
        }
        let now_ns = self.fabric.now_ns();
        for server in (0..self.written.len() as u32).filter(|&server| self.fabric.is_up(server)) {
            let n_connections = self.fabric.n_present(server) as u64;
            self.outcome.n_messages += 1;
            let heat = &mut self.placer.servers_mut().heat;
            self.outcome.findings.note(heat.heartbeat(now_ns, MemberId(server), n_connections));
        }
        let is_left = self.outcome.responses_ns.len() < self.writes.len();
        if now_ns == 0 || is_left && !self.fabric.is_over() {
            self.fabric.wake(now_ns.saturating_add(self.heartbeat_ns), 0);
        }
    }

    /// Issues the next writes, whatever is in flight.
    fn open_window(&mut self) {
        let now_ns = self.fabric.now_ns();
        let end = self.n_opened.saturating_add(self.window).min(self.writes.len());
        self.issued_ns[self.n_opened..end].fill(now_ns);
        self.waiting.extend(self.n_opened..end);
        self.n_opened = end;
        if end < self.writes.len() {
            self.fabric.await_arrival(now_ns.saturating_add(self.every_ns.unwrap_or(0)));
        }
    }

    /// Issues the next write of a client, if there is one.
    fn issue(&mut self, client: usize) {
        let write = self.next_of_clients[client];
        if write < self.writes.len() {
            self.next_of_clients[client] += self.next_of_clients.len();
            self.issued_ns[write] = self.fabric.now_ns();
            self.waiting.push(write);
        }
    }

    /// Places the waiting writes, window by window, unless more are to come.
    fn place_full_windows(&mut self) -> Result<(), PlaceError> {
        let is_open = self.every_ns.is_some();
        while self.waiting.len() >= self.window
            || (is_open || self.n_under_way == 0) && !self.waiting.is_empty()
        {
            let rest = self.waiting.split_off(self.window.min(self.waiting.len()));
            let window = std::mem::replace(&mut self.waiting, rest);
            self.n_under_way += window.len();
            // A policy that asks servers does so for each write separately.
            let n_together = if self.asks { 1 } else { window.len() };
            window.chunks(n_together).try_for_each(|together| self.place(together))?;
        }
        Ok(())
    }

    fn place(&mut self, together: &[usize]) -> Result<(), PlaceError> {
        let n_probes = self.placer.n_probes();
        let writes: Vec<Write> = together.iter().map(|&write| self.writes[write]).collect();
        let mut servers = Vec::with_capacity(together.len() * self.n_copies);
        self.placer.window(self.fabric.now_ns(), &writes, &mut self.draw, &mut servers)?;
        let n_probes = self.placer.n_probes() - n_probes;
        self.outcome.n_messages += 2 * n_probes;
        // All servers are asked at once.
        let after_ns = if n_probes > 0 { 2 * self.fabric.hardware().message_ns } else { 0 };
        for (&write, servers) in together.iter().zip(servers.chunks(self.n_copies)) {
            if !servers.contains(&self.writes[write].default) {
                self.outcome.redirected_bytes += self.writes[write].bytes;
            }
            self.send(write, servers, after_ns);
        }
        Ok(())
    }

    /// Sends all copies, from server to server.
    fn send(&mut self, write: usize, servers: &[MemberId], after_ns: u64) {
        let hardware = self.fabric.hardware();
        let mut from = hardware.clients[write % hardware.clients.len()].host;
        let mut after_ns = after_ns;
        for (tag, &server) in (write * self.n_copies..).zip(servers) {
            let (to, bytes) = (hardware.servers[server.index()].host, self.writes[write].bytes);
            after_ns = self.submit(Job { tag: tag as u64, server: server.0, from, to, bytes }, after_ns);
            from = to;
        }
    }

    /// Sends a copy after `after_ns`. Returns when it arrives.
    fn submit(&mut self, job: Job, after_ns: u64) -> u64 {
        let is_remote = job.from != job.to;
        self.outcome.n_messages += u64::from(is_remote);
        let message_ns = if is_remote { self.fabric.hardware().message_ns } else { 0 };
        let after_ns = after_ns.saturating_add(message_ns);
        self.jobs[job.tag as usize] = Some(job);
        self.fabric.submit(job, after_ns);
        after_ns
    }

    fn end_earlier(&mut self, tag: u64) {
        let (server, bytes) = self.earlier[(tag - EARLIER) as usize];
        if self.hears_of_done && self.hears_of_backlog {
            self.complete(server, bytes);
        }
    }

    fn end_copy(&mut self, tag: u64) {
        let Some(job) = self.jobs[tag as usize] else { return };
        self.outcome.count(&job);
        self.written[job.server as usize] += job.bytes;
        if self.hears_of_done {
            self.complete(MemberId(job.server), job.bytes);
        }
        let write = tag as usize / self.n_copies;
        self.n_copies_left[write] -= 1;
        if self.n_copies_left[write] == 0 {
            let now_ns = self.fabric.now_ns();
            self.outcome.responses_ns.push(now_ns - self.issued_ns[write]);
            self.outcome.makespan_ns = now_ns;
            let client = write % self.outcome.done_ns_of_clients.len();
            self.outcome.done_ns_of_clients[client] = now_ns;
            self.n_under_way -= 1;
            if self.every_ns.is_none() {
                self.issue(write % self.next_of_clients.len());
            }
        }
    }

    fn complete(&mut self, server: MemberId, bytes: u64) {
        self.outcome.findings.note(self.placer.servers_mut().log.complete(server, bytes.into()));
    }

    /// Sends a lost copy to the next server that is up and has no copy of the write.
    fn send_elsewhere(&mut self, tag: u64) {
        let Some(job) = self.jobs[tag as usize] else { return };
        let write = tag as usize / self.n_copies;
        let copies = &self.jobs[write * self.n_copies..][..self.n_copies];
        let has_other =
            |server: u32| copies.iter().flatten().any(|other| other.tag != tag && other.server == server);
        let n_servers = self.written.len() as u32;
        let mut next = (0..n_servers).map(|k| (job.server + k) % n_servers);
        let Some(server) = next.find(|&server| self.fabric.is_up(server) && !has_other(server)) else {
            self.stranded.push(tag);
            return;
        };
        self.complete(MemberId(job.server), job.bytes);
        let log = &mut self.placer.servers_mut().log;
        self.outcome.findings.note(log.schedule(MemberId(server), job.bytes.into()));
        let to = self.fabric.hardware().servers[server as usize].host;
        self.submit(Job { server, to, ..job }, 0);
    }
}
