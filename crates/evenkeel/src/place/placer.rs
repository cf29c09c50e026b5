//! The state machine that places writes, window by window.

mod trace;

use super::step::Steps;
use super::{MAX_LEVELS, Options, Place, PlaceError, PlaceFn, Turn, Write};
use crate::draw::Draw;
use crate::model::{BadSnapshot, MemberId, SNAPSHOT_VERSION};
use crate::observe::{BadReport, HeatMap, HeatSnapshot, LogSnapshot, ServerLog, Warmth};
use crate::trace::Trace;

pub use trace::{Candidate, Counts, Decision};

/// What is known about all servers.
#[derive(Clone, Debug)]
pub struct Servers {
    /// What was sent to them.
    pub log: ServerLog,
    /// What they report.
    pub heat: HeatMap,
}

/// A policy with what it knows and has decided. It adds what it places to the log. The caller adds what is
/// [complete](ServerLog::complete), and heartbeats.
#[derive(Debug)]
pub struct Placer {
    make: PlaceFn,
    policy: Box<dyn Place>,
    options: Options,
    servers: Servers,
    /// Servers that are down, ascending.
    down: Vec<MemberId>,
    /// Servers that are down, and the servers of the copies of a step placed so far.
    taken: Vec<MemberId>,
    steps: Steps,
    /// The default servers of all copies of each write of the window, if they are known.
    homes: Vec<MemberId>,
    /// The servers of each step of the window, by number.
    placed: Vec<MemberId>,
    n_windows: u64,
    n_writes: u64,
    n_redirected: u64,
    /// Probes of the policy before it was created again.
    n_probes: u64,
    trace: Trace<Decision>,
}

/// A placer as plain data. What a policy remembers about single writes is not included.
#[derive(Clone, Debug, PartialEq)]
pub struct PlacerSnapshot {
    /// The version of this layout.
    pub version: u32,
    /// What was sent where.
    pub log: LogSnapshot,
    /// What servers have reported.
    pub heat: HeatSnapshot,
    /// Servers that are down.
    pub down: Vec<MemberId>,
    /// How many writes have no copy on their default server.
    pub n_redirected: u64,
    /// How often servers were asked for their loads.
    pub n_probes: u64,
}

impl Placer {
    /// Creates a placer with a policy over these servers.
    pub fn new(policy: PlaceFn, options: Options, servers: Servers) -> Result<Self, PlaceError> {
        let (n_in_log, n_in_map) = (servers.log.loads().len(), servers.heat.n_servers());
        if n_in_log != n_in_map {
            return Err(PlaceError::OtherServers { n_in_log, n_in_map });
        }
        let Options { n_replicas, levels, .. } = options;
        let n_servers = n_in_log as u32;
        match (n_servers, n_replicas) {
            (0, _) => return Err(PlaceError::NoServers),
            (_, 0) => return Err(PlaceError::NoCopies),
            _ if n_replicas > n_servers => return Err(PlaceError::TooFewServers { n_replicas, n_servers }),
            _ if levels > MAX_LEVELS => return Err(PlaceError::TooManyLevels { levels }),
            _ => {}
        }
        let make = policy;
        let policy = make(&options, n_servers);
        Ok(Self {
            make,
            policy,
            options,
            servers,
            down: Vec::new(),
            taken: Vec::new(),
            steps: Steps::default(),
            homes: Vec::new(),
            placed: Vec::new(),
            n_windows: 0,
            n_writes: 0,
            n_redirected: 0,
            n_probes: 0,
            trace: Trace::default(),
        })
    }

    /// What the placer knows, to be saved.
    pub fn snapshot(&self) -> PlacerSnapshot {
        PlacerSnapshot {
            version: SNAPSHOT_VERSION,
            log: self.servers.log.snapshot(),
            heat: self.servers.heat.snapshot(),
            down: self.down.clone(),
            n_redirected: self.n_redirected,
            n_probes: self.n_probes(),
        }
    }

    /// Continues from a snapshot of a placer with at least as many servers as this one.
    pub fn restore(&mut self, snapshot: PlacerSnapshot) -> Result<(), BadSnapshot> {
        let PlacerSnapshot { version, log, heat, down, n_redirected, n_probes } = snapshot;
        BadSnapshot::unless_version(version)?;
        let n = log.loads.len();
        let is_same = n == heat.servers.len() && n >= self.servers.heat.n_servers();
        BadSnapshot::unless(is_same, "fewer servers than there are")?;
        let are_known = down.iter().all(|server| server.index() < n) && down.is_sorted_by(|a, b| a < b);
        BadSnapshot::unless(are_known, "servers that are down, but not there or there twice")?;
        let log = self.servers.log.restored(log)?;
        self.servers = Servers { log, heat: HeatMap::restore(heat)? };
        self.policy = (self.make)(&self.options, n as u32);
        (self.down, self.n_redirected, self.n_probes) = (down, n_redirected, n_probes);
        Ok(())
    }

    /// Adds a server with a backlog of `load` bytes to write. Returns its number.
    pub fn add_server(&mut self, load: u64) -> MemberId {
        self.servers.log.add(load);
        self.servers.heat.add(Warmth::default());
        let n_servers = self.servers.heat.n_servers() as u32;
        self.n_probes += self.policy.n_probes();
        self.policy = (self.make)(&self.options, n_servers);
        MemberId(n_servers - 1)
    }

    /// Sets whether a server is up. Nothing is sent to a server that is down or has left.
    pub fn set_up(&mut self, server: MemberId, is_up: bool) -> Result<(), BadReport> {
        let n_servers = self.servers.heat.n_servers() as u32;
        if server.0 >= n_servers {
            return Err(BadReport::UnknownServer { server: server.0, n_servers });
        }
        match (self.down.binary_search(&server), is_up) {
            (Ok(place), true) => _ = self.down.remove(place),
            (Err(place), false) => self.down.insert(place, server),
            _ => {}
        }
        Ok(())
    }

    /// Whether a server is up, as far as was [said](Self::set_up).
    pub fn is_up(&self, server: MemberId) -> bool {
        !self.down.contains(&server)
    }

    /// Places the writes of a window as [`window`](Self::window) does. `homes` has the default servers of the copies of
    /// each write, as many as there are copies; the defaults of the writes themselves are not looked at.
    pub fn window_at(
        &mut self,
        now_ns: u64,
        window: &[Write],
        homes: &[MemberId],
        draw: &mut dyn Draw,
        out: &mut Vec<MemberId>,
    ) -> Result<(), PlaceError> {
        let (n_copies, n_servers) = (self.options.n_replicas as usize, self.servers.log.loads().len());
        if let Some(unknown) = homes.iter().position(|home| home.index() >= n_servers) {
            let (row, server) = (unknown / n_copies, homes[unknown].0);
            return Err(PlaceError::UnknownDefault { row, server, n_servers: n_servers as u32 });
        }
        let first = |number: usize| homes.get(number * n_copies).copied();
        let at_home = |(number, write): (usize, &Write)| Write {
            default: first(number).unwrap_or(write.default),
            ..*write
        };
        let window: Vec<Write> = window.iter().enumerate().map(at_home).collect();
        self.homes.clear();
        self.homes.extend_from_slice(homes);
        let placed = self.window(now_ns, &window, draw, out);
        self.homes.clear();
        placed
    }

    /// Places the writes of a window. Appends the servers of each to `out`, one for each copy, the first copy first. A
    /// window that is refused changes nothing.
    pub fn window(
        &mut self,
        now_ns: u64,
        window: &[Write],
        draw: &mut dyn Draw,
        out: &mut Vec<MemberId>,
    ) -> Result<(), PlaceError> {
        let n_servers = self.servers.log.loads().len();
        if let Some(row) = window.iter().position(|write| write.default.index() >= n_servers) {
            let server = window[row].default.0;
            return Err(PlaceError::UnknownDefault { row, server, n_servers: n_servers as u32 });
        }
        let (n_replicas, n_up) = (self.options.n_replicas, (n_servers - self.down.len()) as u32);
        if n_replicas > n_up {
            return Err(PlaceError::TooFewUp { n_replicas, n_up });
        }
        self.steps.divide(window, self.policy.merges());
        self.policy.open(&mut self.steps.all, &self.servers, &self.options);
        let n_copies = self.options.n_replicas as usize;
        self.placed.clear();
        self.placed.resize(self.steps.all.len() * n_copies, MemberId(0));
        for place in 0..self.steps.all.len() {
            self.place_step(place, now_ns, draw);
        }
        for (write, &step) in window.iter().zip(&self.steps.of_write) {
            let copies = &self.placed[step as usize * n_copies..][..n_copies];
            self.n_redirected += u64::from(!copies.contains(&write.default));
            out.extend_from_slice(copies);
        }
        self.servers.log.end_window();
        self.n_windows += 1;
        self.n_writes += window.len() as u64;
        Ok(())
    }

    /// Places many writes in windows of a given size, at least 1; time does not pass.
    pub fn windows(
        &mut self,
        writes: &[Write],
        window: usize,
        draw: &mut dyn Draw,
    ) -> Result<Vec<MemberId>, PlaceError> {
        let mut out = Vec::with_capacity(writes.len() * self.options.n_replicas as usize);
        for window in writes.chunks(window.max(1)) {
            self.window(0, window, draw, &mut out)?;
        }
        Ok(out)
    }

    /// Places all copies of a step; loads are updated after each.
    fn place_step(&mut self, place: usize, now_ns: u64, draw: &mut dyn Draw) {
        let step = self.steps.all[place];
        let n_servers = self.servers.log.loads().len();
        let n_copies = self.options.n_replicas as usize;
        let copies = &mut self.placed[step.number as usize * n_copies..][..n_copies];
        self.taken.clone_from(&self.down);
        // A step has the homes of its first write.
        let mut steps = self.steps.of_write.iter();
        let first =
            if self.homes.is_empty() { None } else { steps.position(|&number| number == step.number) };
        let homes = first.and_then(|write| self.homes.get(write * n_copies..(write + 1) * n_copies));
        let homes = homes.unwrap_or_default();
        for (copy, place_of_copy) in copies.iter_mut().enumerate() {
            let behind = (0..n_servers).map(|k| (step.default.index() + copy + k) % n_servers);
            let behind = behind.map(|server| MemberId(server as u32));
            let mut behind = homes.iter().copied().skip(copy).chain(behind);
            let default = behind.find(|server| !self.taken.contains(server)).unwrap_or(step.default);
            let (taken, servers, options) = (self.taken.as_slice(), &self.servers, &self.options);
            let turn = Turn { place, copy: copy as u32, bytes: step.bytes, default, taken, servers, options };
            let server = self.policy.place(&turn, draw);
            if self.trace.is_on() {
                let Turn { copy, bytes, default, .. } = turn;
                let (at_ns, object) = (now_ns, step.object);
                let candidates = trace::candidates(&*self.policy, &turn, server);
                self.trace.push(Decision { at_ns, object, copy, bytes, default, server, candidates });
            }
            // Policies return existing servers; if one did not, nothing would be known about it.
            let _ = self.servers.log.schedule(server, step.bytes);
            let _ = self.servers.heat.choose(now_ns, server);
            self.taken.push(server);
            *place_of_copy = server;
        }
    }

    /// What is known about the servers so far.
    pub fn servers(&self) -> &Servers {
        &self.servers
    }

    /// Mutable access, for reporting what has happened to the servers. The number of servers must not change.
    pub fn servers_mut(&mut self) -> &mut Servers {
        &mut self.servers
    }

    /// How many writes so far have no copy on their default server.
    pub fn n_redirected(&self) -> u64 {
        self.n_redirected
    }

    /// How often servers have been asked for their loads so far.
    pub fn n_probes(&self) -> u64 {
        self.n_probes + self.policy.n_probes()
    }
}
