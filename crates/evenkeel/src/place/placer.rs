//! The state machine that places writes, window by window.

use super::step::Steps;
use super::{MAX_LEVELS, Options, Place, PlaceError, PlaceFn, Turn, Write};
use crate::draw::Draw;
use crate::model::ServerId;
use crate::observe::{HeatMap, ServerLog};

/// What is known of all servers.
#[derive(Clone, Debug)]
pub struct Servers {
    /// What was sent to them.
    pub log: ServerLog,
    /// What they report.
    pub heat: HeatMap,
}

/// A policy with what it knows and has decided. It adds what it places to the log; whoever drives it adds what is
/// [complete](ServerLog::complete), and heartbeats.
#[derive(Debug)]
pub struct Placer {
    policy: Box<dyn Place>,
    options: Options,
    servers: Servers,
    steps: Steps,
    /// The servers of each step of the window, by number.
    placed: Vec<ServerId>,
    n_redirected: u64,
}

impl Placer {
    /// A policy over these servers.
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
        let policy = policy(&options, n_servers);
        let (steps, placed) = (Steps::default(), Vec::new());
        Ok(Self { policy, options, servers, steps, placed, n_redirected: 0 })
    }

    /// Places the writes of a window and adds the servers of each to `out`, as many as there are copies, the first copy
    /// first. A window that is refused changes nothing.
    pub fn window(
        &mut self,
        now_ns: u64,
        window: &[Write],
        draw: &mut dyn Draw,
        out: &mut Vec<ServerId>,
    ) -> Result<(), PlaceError> {
        let n_servers = self.servers.log.loads().len();
        if let Some(row) = window.iter().position(|write| write.default.index() >= n_servers) {
            let server = window[row].default.0;
            return Err(PlaceError::UnknownDefault { row, server, n_servers: n_servers as u32 });
        }
        self.steps.divide(window, self.policy.merges());
        self.policy.open(&mut self.steps.all, &self.servers, &self.options);
        let n_copies = self.options.n_replicas as usize;
        self.placed.clear();
        self.placed.resize(self.steps.all.len() * n_copies, ServerId(0));
        for place in 0..self.steps.all.len() {
            self.place_step(place, now_ns, draw);
        }
        for (write, &step) in window.iter().zip(&self.steps.of_write) {
            let copies = &self.placed[step as usize * n_copies..][..n_copies];
            self.n_redirected += u64::from(!copies.contains(&write.default));
            out.extend_from_slice(copies);
        }
        self.servers.log.end_window();
        Ok(())
    }

    /// Places many writes in windows of so many, at least 1; time does not pass.
    pub fn windows(
        &mut self,
        writes: &[Write],
        window: usize,
        draw: &mut dyn Draw,
    ) -> Result<Vec<ServerId>, PlaceError> {
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
        for copy in 0..n_copies {
            let (taken, rest) = copies.split_at_mut(copy);
            let behind = (0..n_servers).map(|k| (step.default.index() + copy + k) % n_servers);
            let mut behind = behind.map(|server| ServerId(server as u32));
            let default = behind.find(|server| !taken.contains(server)).unwrap_or(step.default);
            let (servers, options) = (&self.servers, &self.options);
            let turn = Turn { place, copy: copy as u32, bytes: step.bytes, default, taken, servers, options };
            let server = self.policy.place(&turn, draw);
            // Policies give servers that are there; if one did not, nothing would be known of it.
            let _ = self.servers.log.schedule(server, step.bytes);
            let _ = self.servers.heat.choose(now_ns, server);
            rest[0] = server;
        }
    }

    /// What is known of the servers by now.
    pub fn servers(&self) -> &Servers {
        &self.servers
    }

    /// The same, to be told what has happened to them. The number of servers must stay.
    pub fn servers_mut(&mut self) -> &mut Servers {
        &mut self.servers
    }

    /// How many writes so far have no copy on their default server.
    pub fn n_redirected(&self) -> u64 {
        self.n_redirected
    }

    /// How often servers were asked for their loads so far.
    pub fn n_probes(&self) -> u64 {
        self.policy.n_probes()
    }
}
