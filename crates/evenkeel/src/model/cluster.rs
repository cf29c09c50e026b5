//! What is known about servers and clients besides their names, and the limit on all of them together.

use super::batch::fold;
use super::{Batch, ClientId, ModelError, NameTable, Ratio, ServerId};

/// The maximum number of concurrent transfers of a server or client.
pub const MAX_SLOTS: u32 = 1 << 16;

/// A relative speed, exact to six decimals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Speed(u64);

impl Speed {
    /// The speed of a server if nothing else is known.
    pub const ONE: Self = Self(1_000_000);
    /// The highest speed, 10¹².
    pub const MAX: Self = Self(1_000_000_000_000_000_000);

    /// A speed of `millionths / 10⁶`; `None` if that is zero or above [`Self::MAX`].
    pub fn from_millionths(millionths: u64) -> Option<Self> {
        (1..=Self::MAX.0).contains(&millionths).then_some(Self(millionths))
    }

    /// The speed in millionths.
    pub fn millionths(self) -> u64 {
        self.0
    }

    /// The speed of one of `slots` transfers at a server that moves `bytes_per_s` bytes per second in total: blocks per
    /// second, to the nearest millionth. An error if rounding changes it by more than a ten-thousandth.
    pub fn of_rate(bytes_per_s: u64, slots: u32, block_bytes: u64) -> Result<Self, ModelError> {
        let exact = u128::from(bytes_per_s) * 1_000_000;
        let per_millionth = u128::from(slots.max(1)) * u128::from(block_bytes.max(1));
        let millionths = (exact + per_millionth / 2) / per_millionth;
        if exact.abs_diff(millionths * per_millionth) > exact / 10_000 {
            return Err(ModelError::CoarseRate);
        }
        u64::try_from(millionths).ok().and_then(Self::from_millionths).ok_or(ModelError::RateOutOfRange)
    }
}

/// The state of a server before the batch starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Blocks per unit of time in each transfer.
    pub speed: Speed,
    /// Concurrent transfers; at least 1, at most [`MAX_SLOTS`].
    pub slots: u32,
    /// Blocks that the server must move before it can serve this batch.
    pub backlog: u64,
}

impl Default for Server {
    fn default() -> Self {
        Self { speed: Speed::ONE, slots: 1, backlog: 0 }
    }
}

impl Server {
    /// How long all its slots are busy with the backlog, in blocks at its own speed.
    pub fn busy(&self) -> u64 {
        self.backlog.div_ceil(u64::from(self.slots.max(1)))
    }

    /// When the server is done with this many blocks if each slot serves whole blocks without a break: its backlog
    /// first, then these. 0 if there are no blocks.
    pub fn done_in_slots(&self, blocks: u64) -> Ratio {
        if blocks == 0 {
            return Ratio::ZERO;
        }
        let last = u128::from(self.busy()) + u128::from(blocks.div_ceil(self.slots.max(1).into()));
        Ratio::new(last * 1_000_000, self.speed.millionths())
    }

    /// Like `done_in_slots`, but blocks may be interrupted and resumed in another slot. A block is never in two slots
    /// at once.
    fn done_shared(&self, blocks: u64) -> Ratio {
        if blocks == 0 {
            return Ratio::ZERO;
        }
        let slots = u128::from(self.slots.max(1));
        let last = u128::from(self.busy()) * slots + u128::from(blocks).max(slots);
        Ratio::new(last * 1_000_000, self.speed.millionths() * slots as u64)
    }

    /// The sum of the completion times of this many blocks, one after the other in each slot, after the backlog.
    pub(super) fn sum_of_completions(&self, blocks: u64) -> f64 {
        let slots = u64::from(self.slots.max(1));
        let (full, rest) = ((blocks / slots) as f64, (blocks % slots) as f64);
        let waits = slots as f64 * full * (full + 1.0) / 2.0 + rest * (full + 1.0);
        (self.busy() as f64 * blocks as f64 + waits) * 1e6 / self.speed.0 as f64
    }
}

/// What is known about a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client {
    /// Concurrent transfers; at least 1, at most [`MAX_SLOTS`].
    pub slots: u32,
}

impl Default for Client {
    fn default() -> Self {
        Self { slots: 1 }
    }
}

/// The servers and clients of a batch: their speeds, backlogs and slots.
///
/// Each transfer runs at the speed of its server. Where all speeds are 1, time is counted in slots and each transfer
/// takes whole slots. Otherwise a transfer may be interrupted at any time and resumed in any slot; a block is never in
/// two slots at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    servers: Vec<Server>,
    clients: Vec<Client>,
    max_concurrent: Option<u64>,
    hosts: Hosts,
    /// Total bytes per second of each server; empty if not known.
    rates: Vec<u64>,
    is_slotted: bool,
}

/// Where servers and clients run, each as a path such as rack and host; empty if not known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Hosts {
    of_servers: Vec<Path>,
    of_clients: Vec<Path>,
}

/// The components of a path, each as a number.
type Path = Vec<u32>;

impl Cluster {
    /// A cluster in which every node has speed 1, one slot and no backlog.
    pub fn equal(batch: &Batch) -> Self {
        Self {
            servers: vec![Server::default(); batch.n_servers()],
            clients: vec![Client::default(); batch.n_clients()],
            max_concurrent: None,
            hosts: Hosts::default(),
            rates: Vec::new(),
            is_slotted: true,
        }
    }

    /// The servers and clients of `batch`, by id, with at most `max_concurrent` concurrent transfers in total.
    pub fn new(
        batch: &Batch,
        servers: Vec<Server>,
        clients: Vec<Client>,
        max_concurrent: Option<u64>,
    ) -> Result<Self, ModelError> {
        if servers.len() != batch.n_servers() || clients.len() != batch.n_clients() {
            return Err(ModelError::OtherCluster);
        }
        let slots = || servers.iter().map(|s| s.slots).chain(clients.iter().map(|c| c.slots));
        if max_concurrent == Some(0) || slots().any(|slots| slots == 0) {
            return Err(ModelError::NothingAtOnce);
        }
        // Each slot may become a row of the plan, but there are no more rows than blocks.
        let total = batch.total_blocks();
        let n_slots: u64 = slots().map(|slots| u64::from(slots).min(total)).sum();
        if slots().any(|slots| slots > MAX_SLOTS) || n_slots > (1 << 22) + 64 * batch.n_requests() as u64 {
            return Err(ModelError::TooManySlots);
        }
        // This way the completion time of a server's last block can always be represented, and every time that is
        // computed fits.
        let is_slotted = servers.iter().all(|server| server.speed == Speed::ONE);
        let is_too_busy = |server: &Server| {
            let slots = if is_slotted { 1 } else { u64::from(server.slots) };
            let busy = server.busy().checked_mul(slots);
            busy.and_then(|busy| busy.checked_add(batch.total_blocks().max(slots))).is_none()
        };
        if servers.iter().any(is_too_busy) {
            return Err(ModelError::TooManyBlocks);
        }
        let is_too_fast = |server: &Server| server.speed.0.checked_mul(server.slots.into()).is_none();
        if servers.iter().any(is_too_fast) {
            return Err(ModelError::TooFast);
        }
        let time = |blocks: u64, speed: Speed| u128::from(blocks) * 1_000_000 / u128::from(speed.0);
        let (slowest, fastest) =
            (servers.iter().map(|s| s.speed).min(), servers.iter().map(|s| s.speed).max());
        let longest_wait = servers.iter().map(|s| time(s.busy(), s.speed)).max().unwrap_or(0);
        let longest = longest_wait + slowest.map_or(0, |speed| time(batch.total_blocks(), speed));
        // Where speeds differ, times are rounded up, which takes some headroom.
        if longest > u128::from(u64::MAX) >> u32::from(slowest != fastest) {
            return Err(ModelError::TooSlow);
        }
        let (hosts, rates) = (Hosts::default(), Vec::new());
        let cluster = Self { servers, clients, max_concurrent, hosts, rates, is_slotted };
        if max_concurrent.is_some() && !cluster.is_even() {
            return Err(ModelError::LimitOnUnequal);
        }
        Ok(cluster)
    }

    /// The same cluster with another limit on concurrent transfers.
    pub fn limited(&self, batch: &Batch, max_concurrent: Option<u64>) -> Result<Self, ModelError> {
        let limited = Self { max_concurrent, ..self.clone() };
        limited.with_nodes(batch, self.servers.clone(), self.clients.clone())
    }

    /// The same cluster with other servers and clients, or one more client.
    pub fn with_nodes(
        &self,
        batch: &Batch,
        servers: Vec<Server>,
        clients: Vec<Client>,
    ) -> Result<Self, ModelError> {
        let changed = Self::new(batch, servers, clients, self.max_concurrent)?;
        Ok(Self { hosts: self.hosts.clone(), rates: self.rates.clone(), ..changed })
    }

    /// The same cluster with the host of each server and each client, where known (else empty). A host may be a path,
    /// `/rack1/host7`: nodes in one rack are then nearer to each other than to others.
    #[must_use]
    pub fn on_hosts<'a>(
        mut self,
        servers: impl IntoIterator<Item = &'a str>,
        clients: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let mut names = NameTable::new();
        let mut path = |host: &'a str| -> Path {
            host.split('/').filter(|part| !part.is_empty()).map(|part| names.intern(part)).collect()
        };
        self.hosts.of_servers = servers.into_iter().map(&mut path).collect();
        self.hosts.of_clients = clients.into_iter().map(&mut path).collect();
        self
    }

    /// The same cluster with the bytes per second that each server moves over all its slots; unknown if `rates` is
    /// empty. Its speeds are those of [`Speed::of_rate`], so that the unit of time is a second.
    #[must_use]
    pub fn at_rates(mut self, rates: Vec<u64>) -> Self {
        self.rates = rates;
        self
    }

    /// The bytes per second that a server moves over all its slots, if known.
    pub fn rate(&self, id: ServerId) -> Option<u64> {
        self.rates.get(id.index()).copied()
    }

    /// Whether the unit of time is a second.
    pub fn is_in_seconds(&self) -> bool {
        !self.rates.is_empty()
    }

    /// The distance between a client and a server: 0 on the same host, 1 in the same rack, and so on; `None` if not
    /// known.
    pub fn distance(&self, client: ClientId, server: ServerId) -> Option<u32> {
        let Hosts { of_servers, of_clients } = &self.hosts;
        let (a, b) = (of_clients.get(client.index())?, of_servers.get(server.index())?);
        let in_common = a.iter().zip(b).take_while(|(a, b)| a == b).count();
        (!a.is_empty() && !b.is_empty()).then(|| (a.len().max(b.len()) - in_common) as u32)
    }

    /// Sets the properties of a server, or adds the next server.
    pub(crate) fn put_server(&mut self, id: ServerId, server: Server) {
        self.is_slotted &= server.speed == Speed::ONE;
        match self.servers.get_mut(id.index()) {
            Some(known) => *known = server,
            None => self.servers.push(server),
        }
    }

    /// Sets the properties of a client, or adds the next client.
    pub(crate) fn put_client(&mut self, id: ClientId, client: Client) {
        match self.clients.get_mut(id.index()) {
            Some(known) => *known = client,
            None => self.clients.push(client),
        }
    }

    /// The cluster with this many more blocks in the backlog of each server. It has no limit on concurrency, which
    /// would not be compatible with that.
    pub(crate) fn with_more_backlog(&self, blocks: &[u64]) -> Self {
        let mut cluster = Self { max_concurrent: None, ..self.clone() };
        for (server, blocks) in cluster.servers.iter_mut().zip(blocks) {
            server.backlog = server.backlog.saturating_add(*blocks);
        }
        cluster
    }

    /// The cluster of `batch` with each server slower than declared by its `factor`; the cluster unchanged if times
    /// would become too long.
    pub(crate) fn slowed(self, batch: &Batch, factor: impl Fn(ServerId) -> f64) -> Self {
        let slower = |(id, server): (u32, &Server)| {
            let millionths = server.speed.millionths() as f64 / factor(ServerId(id)).max(1.0);
            let speed = Speed::from_millionths((millionths as u64).max(1)).unwrap_or(server.speed);
            Server { speed, ..server.clone() }
        };
        let servers = (0..).zip(&self.servers).map(slower).collect();
        match Self::new(batch, servers, self.clients.clone(), None) {
            Ok(slowed) => {
                Self { max_concurrent: self.max_concurrent, hosts: self.hosts, rates: self.rates, ..slowed }
            }
            Err(_) => self,
        }
    }

    /// The properties of a server.
    #[inline]
    pub fn server(&self, id: ServerId) -> &Server {
        &self.servers[id.index()]
    }

    /// The properties of a client.
    #[inline]
    pub fn client(&self, id: ClientId) -> &Client {
        &self.clients[id.index()]
    }

    /// All servers by id.
    pub fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// All clients by id.
    pub fn clients(&self) -> &[Client] {
        &self.clients
    }

    /// The maximum number of concurrent transfers, if there is a limit.
    pub fn max_concurrent(&self) -> Option<u64> {
        self.max_concurrent
    }

    /// The speed of all servers, if they have the same: all transfers then fit in slots of one block.
    pub fn common_speed(&self) -> Option<Speed> {
        let first = self.servers.first().map_or(Speed::ONE, |s| s.speed);
        self.servers.iter().all(|s| s.speed == first).then_some(first)
    }

    /// Whether every server has speed 1: transfers then start at whole slots and take whole slots.
    pub fn is_slotted(&self) -> bool {
        self.is_slotted
    }

    /// When a server is done with this many blocks, working without a break: its backlog first, then these. 0 if there
    /// are no blocks.
    pub fn done(&self, id: ServerId, blocks: u64) -> Ratio {
        let server = self.server(id);
        if self.is_slotted() { server.done_in_slots(blocks) } else { server.done_shared(blocks) }
    }

    /// Whether any server has a backlog.
    pub fn has_backlogs(&self) -> bool {
        self.servers.iter().any(|s| s.backlog > 0)
    }

    /// Whether all servers have the same speed and no backlog. It then does not matter to a client which of them serves
    /// it, and the bound on the makespan is always reached.
    pub fn is_even(&self) -> bool {
        self.common_speed().is_some() && !self.has_backlogs()
    }

    /// A hash that identifies this cluster, the same on every machine.
    pub fn fingerprint(&self) -> u64 {
        let of_server = |s: &Server| fold([s.speed.0, s.slots.into(), s.backlog]);
        fold([
            fold(self.servers.iter().map(of_server)),
            fold(self.clients.iter().map(|c| c.slots.into())),
            self.max_concurrent.unwrap_or(0),
        ])
    }
}
