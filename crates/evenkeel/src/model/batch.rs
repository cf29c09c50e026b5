//! A batch: which client wants how many blocks of what, and which servers hold a replica.

mod moved;

use std::sync::Arc;

use super::columns::{Columns, Details};
use super::names::{NameTable, checked, shown};
use super::{ClientId, MAX_SLOTS, ServerId};

pub use moved::Move;

/// The maximum number of requests in a batch.
pub const MAX_REQUESTS: usize = 1 << 30;
/// The maximum number of replicas of all requests of a batch together.
pub const MAX_REPLICAS: usize = u32::MAX as usize - 1;

/// Why a batch was refused. Requests are counted from 0.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum ModelError {
    #[error("the request has no replica; name at least one server that holds its data")]
    NoReplica,
    #[error("replica `{0}` is named twice; name each server once")]
    ReplicaTwice(String),
    #[error("the name `{name}` of a {kind} {fault}; give it another")]
    BadName { kind: &'static str, name: String, fault: &'static str },
    #[error("{kind} `{name}` appears twice; keep one of them")]
    NameTwice { kind: &'static str, name: String },
    #[error("server `{0}` is not among the servers given; add it there")]
    UnknownServer(String),
    #[error("client `{0}` is not among the clients given; add it there")]
    UnknownClient(String),
    #[error("the sizes add up to more than 64 bits hold; use larger blocks")]
    TooManyBlocks,
    #[error("more than {MAX_REQUESTS} requests; split the batch")]
    TooManyRequests,
    #[error("more than {MAX_REPLICAS} replicas in all; split the batch")]
    TooManyReplicas,
    #[error("at these speeds times would not fit in 64 bits; use larger blocks or higher speeds")]
    TooSlow,
    #[error("in blocks this large a slot's share of the rate is too coarse; use smaller blocks")]
    CoarseRate,
    #[error("the rate is more than a trillion blocks a second for each slot; use larger blocks")]
    RateOutOfRange,
    #[error("the servers or clients described are not those of the batch; describe each of them once")]
    OtherCluster,
    #[error("a server with a speed above 1.8e13 in all its slots together; plan in larger blocks")]
    TooFast,
    #[error("more than {MAX_SLOTS} slots at a node, or many more in all than requests; write fewer")]
    TooManySlots,
    #[error("a server, a client or all together may do nothing at once; allow at least 1 transfer")]
    NothingAtOnce,
    #[error(
        "a limit on concurrent transfers cannot be combined with backlogs or with servers of different speeds; \
         leave out one of them"
    )]
    LimitOnUnequal,
    #[error("{0}; was the advice made for this batch, in the same blocks?")]
    UnfitChange(&'static str),
}

/// The replica sets of a batch (or of groups of requests), flat.
#[derive(Clone, Copy, Debug)]
pub struct Replicas<'a> {
    ids: &'a [ServerId],
    ends: &'a [u32],
    width: Option<usize>,
}

impl<'a> Replicas<'a> {
    /// A view of flat sets: set `i` ends before `ends[i]`. `width` is the size of every set if all have the same size.
    pub(crate) fn new(ids: &'a [ServerId], ends: &'a [u32], width: Option<usize>) -> Self {
        Self { ids, ends, width }
    }

    /// The number of sets.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are no sets.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The servers of set `i`, in the order given.
    #[inline]
    pub fn of(&self, i: usize) -> &'a [ServerId] {
        match self.width {
            Some(width) => &self.ids[i * width..(i + 1) * width],
            None => &self.ids[self.start(i)..self.ends[i] as usize],
        }
    }

    /// Where set `i` begins in [`Self::flat`].
    #[inline]
    pub fn start(&self, i: usize) -> usize {
        match self.width {
            Some(width) => i * width,
            None if i == 0 => 0,
            None => self.ends[i - 1] as usize,
        }
    }

    /// All sets, concatenated.
    pub fn flat(&self) -> &'a [ServerId] {
        self.ids
    }

    /// The size of every set, if all have the same size.
    pub fn width(&self) -> Option<usize> {
        self.width
    }

    /// All sets in turn.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &'a [ServerId]> + Clone + use<'a> {
        let this = *self;
        (0..this.len()).map(move |i| this.of(i))
    }
}

/// Adds a name that is not in the table.
fn add_name(names: &mut NameTable) {
    let n = names.len();
    let mut name = format!("{n}");
    while names.find(&name).is_some() {
        name.push('\'');
    }
    names.intern(&name);
}

/// A validated batch of requests.
///
/// Every request has a client and at least one replica, and no replica twice. The total of all blocks fits in 64 bits.
/// A request may be empty: a replica is chosen for it, but its transfer takes no time.
#[derive(Clone, Debug)]
pub struct Batch {
    clients: Arc<NameTable>,
    servers: Arc<NameTable>,
    client_of: Vec<ClientId>,
    replicas: Vec<ServerId>,
    replica_ends: Vec<u32>,
    width: Option<usize>,
    /// Empty if every request has one block.
    blocks: Vec<u64>,
    total_blocks: u64,
    block_bytes: u64,
    /// Empty if every request has whole blocks.
    bytes: Vec<u64>,
    columns: Columns,
}

impl Batch {
    /// The number of requests.
    pub fn n_requests(&self) -> usize {
        self.client_of.len()
    }

    /// The number of clients.
    pub fn n_clients(&self) -> usize {
        self.clients.len()
    }

    /// The number of servers, including those without data.
    pub fn n_servers(&self) -> usize {
        self.servers.len()
    }

    /// The names of the clients.
    pub fn clients(&self) -> &NameTable {
        &self.clients
    }

    /// The names of the servers.
    pub fn servers(&self) -> &NameTable {
        &self.servers
    }

    /// The client of request `i`.
    #[inline]
    pub fn client(&self, i: usize) -> ClientId {
        self.client_of[i]
    }

    /// The client of each request.
    pub fn client_of(&self) -> &[ClientId] {
        &self.client_of
    }

    /// The replica sets of all requests.
    pub fn replicas(&self) -> Replicas<'_> {
        Replicas::new(&self.replicas, &self.replica_ends, self.width)
    }

    /// The size of request `i` in blocks.
    #[inline]
    pub fn blocks(&self, i: usize) -> u64 {
        if self.blocks.is_empty() { 1 } else { self.blocks[i] }
    }

    /// The size of each request in blocks, or `None` if each is one block.
    pub fn sizes(&self) -> Option<&[u64]> {
        (!self.blocks.is_empty()).then_some(&self.blocks)
    }

    /// The total size of all requests in blocks.
    pub fn total_blocks(&self) -> u64 {
        self.total_blocks
    }

    /// The size of a block in bytes.
    pub fn block_bytes(&self) -> u64 {
        self.block_bytes
    }

    /// The size of request `i` in bytes. Its last block need not be full.
    pub fn bytes(&self, i: usize) -> u64 {
        self.bytes.get(i).copied().unwrap_or_else(|| self.blocks(i).saturating_mul(self.block_bytes))
    }

    /// The total size of all requests in bytes.
    pub fn total_bytes(&self) -> u128 {
        match self.bytes.is_empty() {
            true => u128::from(self.total_blocks) * u128::from(self.block_bytes),
            false => self.bytes.iter().map(|&bytes| u128::from(bytes)).sum(),
        }
    }

    /// When request `i` arrives, in nanoseconds; 0 if arrivals are not given.
    pub fn arrival_ns(&self, i: usize) -> u64 {
        self.columns.arrivals_ns.get(i).copied().unwrap_or(0)
    }

    /// When each request arrives, in nanoseconds; `None` if arrivals are not given.
    pub fn arrivals_ns(&self) -> Option<&[u64]> {
        (!self.columns.arrivals_ns.is_empty()).then_some(&self.columns.arrivals_ns)
    }

    /// The names of jobs, by id; empty if jobs are not given.
    pub fn jobs(&self) -> &NameTable {
        self.columns.jobs.names()
    }

    /// The id of the job that request `i` belongs to, if given.
    pub fn job(&self, i: usize) -> Option<u32> {
        self.columns.jobs.id(i)
    }

    /// The name of the data of request `i`, if given.
    pub fn chunk(&self, i: usize) -> Option<&str> {
        self.columns.chunks.id(i).map(|id| self.columns.chunks.names().name(id))
    }

    /// The server that serves request `i` today, if given. It need not hold a replica.
    pub fn current(&self, i: usize) -> Option<ServerId> {
        self.columns.current(i).map(ServerId)
    }

    /// Whether it is given for any request who serves it today.
    pub fn has_current(&self) -> bool {
        !self.columns.current.is_empty()
    }

    /// A hash that identifies this batch, the same on every machine. It ignores the names of jobs and chunks, arrivals,
    /// who serves today, and how full last blocks are: no plan is right or wrong because of them.
    pub fn fingerprint(&self) -> u64 {
        let names = |table: &NameTable| fold(table.iter().map(|name| fold(name.bytes().map(u64::from))));
        fold([
            names(&self.clients),
            names(&self.servers),
            fold(self.client_of.iter().map(|c| u64::from(c.0))),
            fold(self.replicas.iter().map(|s| u64::from(s.0))),
            fold(self.replica_ends.iter().map(|&end| u64::from(end))),
            fold(self.blocks.iter().copied()),
        ])
    }

    /// The same requests, assigned to other clients: request `i` to the client with the id `client_of(i)`.
    ///
    /// Every id must be one of `clients`.
    pub fn dealt_to(self, clients: NameTable, client_of: impl Fn(usize) -> u32) -> Result<Self, ModelError> {
        clients.iter().try_for_each(|name| checked(name, "client"))?;
        let client_of: Vec<ClientId> = (0..self.n_requests()).map(|i| ClientId(client_of(i))).collect();
        let unknown = client_of.iter().find(|client| client.index() >= clients.len());
        match unknown {
            Some(client) => Err(ModelError::UnknownClient(client.0.to_string())),
            None => Ok(Self { clients: Arc::new(clients), client_of, ..self }),
        }
    }

    /// The given requests, in this order, as a batch with the same clients and servers.
    pub(crate) fn subset(&self, requests: &[u32]) -> Self {
        let mut batch = Self {
            clients: Arc::clone(&self.clients),
            servers: Arc::clone(&self.servers),
            client_of: requests.iter().map(|&i| self.client(i as usize)).collect(),
            replicas: Vec::new(),
            replica_ends: Vec::with_capacity(requests.len()),
            width: self.width,
            blocks: Vec::new(),
            total_blocks: requests.iter().map(|&i| self.blocks(i as usize)).sum(),
            block_bytes: self.block_bytes,
            bytes: Vec::new(),
            columns: self.columns.emptied(),
        };
        for (n_requests, &i) in requests.iter().enumerate() {
            batch.columns.push_from(n_requests, &self.columns, i as usize);
            batch.bytes.extend(self.bytes.get(i as usize));
            batch.replicas.extend_from_slice(self.replicas().of(i as usize));
            batch.replica_ends.push(batch.replicas.len() as u32);
        }
        if self.sizes().is_some() {
            batch.blocks = requests.iter().map(|&i| self.blocks(i as usize)).collect();
        }
        batch
    }

    /// Adds a server, under a name that no other has.
    pub(crate) fn add_server(&mut self) {
        add_name(Arc::make_mut(&mut self.servers));
    }

    /// Adds a client, under a name that no other has.
    pub(crate) fn add_client(&mut self) {
        add_name(Arc::make_mut(&mut self.clients));
    }

    /// A batch with the same clients and servers and these requests: the client, the number of blocks, and the servers
    /// that hold them. None if the total exceeds 64 bits.
    pub(crate) fn of_rows<R: Iterator<Item = ServerId>>(
        &self,
        rows: impl Iterator<Item = (ClientId, u64, R)>,
    ) -> Option<Self> {
        let mut batch = Self { width: None, columns: Columns::default(), ..self.subset(&[]) };
        for (client, blocks, replicas) in rows {
            let start = batch.replicas.len();
            batch.replicas.extend(replicas);
            if batch.replicas.len() > MAX_REPLICAS {
                return None;
            }
            let width = batch.replicas.len() - start;
            batch.width = match batch.n_requests() {
                0 => Some(width),
                _ => batch.width.filter(|&w| w == width),
            };
            batch.client_of.push(client);
            batch.replica_ends.push(batch.replicas.len() as u32);
            batch.blocks.push(blocks);
            batch.total_blocks = batch.total_blocks.checked_add(blocks)?;
        }
        if batch.blocks.iter().all(|&blocks| blocks == 1) {
            batch.blocks = Vec::new();
        }
        Some(batch)
    }

    /// The batch after some blocks got one more replica each.
    ///
    /// Blocks of one request that are copied to different servers, or not copied, become separate requests, after all
    /// others.
    pub(crate) fn with_copies(&self, copies: &[ExtraCopy]) -> Self {
        let mut copies: Vec<ExtraCopy> = copies.to_vec();
        copies.sort_unstable_by_key(|copy| (copy.request, copy.to, copy.blocks));
        let mut batch = Self { replicas: Vec::new(), replica_ends: Vec::new(), width: None, ..self.clone() };
        let mut split_off: Vec<ExtraCopy> = Vec::new();
        let mut next = copies.iter().copied().peekable();
        let mut bytes_split_off = Vec::new();
        for (i, set) in self.replicas().iter().enumerate() {
            batch.replicas.extend_from_slice(set);
            let (mut left, mut bytes_left) = (self.blocks(i), self.bytes(i));
            while let Some(copy) = next.next_if(|copy| copy.request as usize == i) {
                if copy.blocks == self.blocks(i) && !set.contains(&copy.to) {
                    batch.replicas.push(copy.to);
                } else {
                    let blocks = copy.blocks.min(left);
                    left -= blocks;
                    // The last block, which need not be full, is split off last.
                    let bytes = bytes_left.min(blocks.saturating_mul(self.block_bytes));
                    bytes_left -= bytes;
                    bytes_split_off.push(bytes);
                    split_off.push(ExtraCopy { blocks, ..copy });
                }
            }
            if left < self.blocks(i) {
                batch.blocks[i] = left;
                batch.bytes.get_mut(i).into_iter().for_each(|bytes| *bytes = bytes_left);
            }
            batch.replica_ends.push(batch.replicas.len() as u32);
        }
        for (ExtraCopy { request, to, blocks, .. }, bytes) in split_off.into_iter().zip(bytes_split_off) {
            let set = self.replicas().of(request as usize);
            batch.columns.push_from(batch.client_of.len(), &self.columns, request as usize);
            batch.bytes.extend((!self.bytes.is_empty()).then_some(bytes));
            batch.client_of.push(self.client(request as usize));
            batch.replicas.extend_from_slice(set);
            batch.replicas.extend((!set.contains(&to)).then_some(to));
            batch.replica_ends.push(batch.replicas.len() as u32);
            batch.blocks.push(blocks);
        }
        batch
    }
}

/// One more replica of some blocks of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtraCopy {
    /// The request's row in the batch.
    pub request: u32,
    /// A server that holds the data and is overloaded.
    pub from: ServerId,
    /// The server that gets the copy.
    pub to: ServerId,
    /// The number of its blocks.
    pub blocks: u64,
}

/// Builds a [`Batch`] request by request, and refuses invalid requests.
#[derive(Debug)]
pub struct BatchBuilder {
    clients: NameTable,
    servers: NameTable,
    fixed_clients: bool,
    fixed_servers: bool,
    client_of: Vec<ClientId>,
    replicas: Vec<ServerId>,
    replica_ends: Vec<u32>,
    width: Option<usize>,
    blocks: Vec<u64>,
    total_blocks: u64,
    block_bytes: u64,
    bytes: Vec<u64>,
    columns: Columns,
    /// For each server the last request that names it, so that no request names it twice.
    named_in: Vec<u32>,
}

impl Default for BatchBuilder {
    fn default() -> Self {
        Self::in_blocks_of(1)
    }
}

impl BatchBuilder {
    /// A builder that accepts any names. Ids follow the natural order of names.
    pub fn new() -> Self {
        Self::default()
    }

    /// A builder for requests in blocks of `block_bytes` bytes, at least 1.
    pub fn in_blocks_of(block_bytes: u64) -> Self {
        Self {
            clients: NameTable::new(),
            servers: NameTable::new(),
            fixed_clients: false,
            fixed_servers: false,
            client_of: Vec::new(),
            replicas: Vec::new(),
            replica_ends: Vec::new(),
            width: None,
            blocks: Vec::new(),
            total_blocks: 0,
            block_bytes: block_bytes.max(1),
            bytes: Vec::new(),
            columns: Columns::default(),
            named_in: Vec::new(),
        }
    }

    /// Restricts servers to these from now on, with ids in this order. A request that names another server is an error.
    ///
    /// The first list fixes the order; a later one may only repeat its names.
    pub fn declare_servers(&mut self, servers: NameTable) -> Result<(), ModelError> {
        if self.fixed_servers {
            return self.servers.require_all(&servers, ModelError::UnknownServer).map(drop);
        }
        servers.iter().try_for_each(|name| checked(name, "server"))?;
        let new_ids = servers.require_all(&self.servers, ModelError::UnknownServer)?;
        self.replicas.iter_mut().for_each(|s| s.0 = new_ids[s.index()]);
        self.columns.renumber_servers(&new_ids);
        self.named_in = vec![0; servers.len()];
        (self.servers, self.fixed_servers) = (servers, true);
        Ok(())
    }

    /// Restricts clients to these, as [`Self::declare_servers`] does for servers.
    pub fn declare_clients(&mut self, clients: NameTable) -> Result<(), ModelError> {
        if self.fixed_clients {
            return self.clients.require_all(&clients, ModelError::UnknownClient).map(drop);
        }
        clients.iter().try_for_each(|name| checked(name, "client"))?;
        let new_ids = clients.require_all(&self.clients, ModelError::UnknownClient)?;
        self.client_of.iter_mut().for_each(|c| c.0 = new_ids[c.index()]);
        (self.clients, self.fixed_clients) = (clients, true);
        Ok(())
    }

    /// The number of requests so far.
    pub fn n_requests(&self) -> usize {
        self.client_of.len()
    }

    /// Adds a request of `client` for `blocks` blocks of data that each of `replicas` holds.
    pub fn request(&mut self, client: &str, blocks: u64, replicas: &[&str]) -> Result<(), ModelError> {
        replicas.iter().try_for_each(|replica| self.replica(replica))?;
        self.end_request(client, blocks)
    }

    /// Adds one replica to the request that the next [`Self::end_request`] completes. After an error that request is
    /// discarded.
    pub fn replica(&mut self, server: &str) -> Result<(), ModelError> {
        self.try_replica(server).inspect_err(|_| self.forget_open_request())
    }

    fn try_replica(&mut self, server: &str) -> Result<(), ModelError> {
        if self.replicas.len() >= MAX_REPLICAS {
            return Err(ModelError::TooManyReplicas);
        }
        let id = self.server(server)?;
        // Requests are counted from 1 here; 0 means none.
        let this_request = self.n_requests() as u32 + 1;
        if std::mem::replace(&mut self.named_in[id as usize], this_request) == this_request {
            return Err(ModelError::ReplicaTwice(shown(server)));
        }
        self.replicas.push(ServerId(id));
        Ok(())
    }

    /// The id of a server.
    fn server(&mut self, name: &str) -> Result<u32, ModelError> {
        if self.fixed_servers {
            return self.servers.require(name, ModelError::UnknownServer);
        }
        let id = self.servers.intern(name);
        if id as usize == self.named_in.len() {
            self.named_in.push(0);
            checked(name, "server")?;
        }
        Ok(id)
    }

    /// Completes a request with the replicas added since the last one. After an error the request is discarded.
    pub fn end_request(&mut self, client: &str, blocks: u64) -> Result<(), ModelError> {
        let bytes = blocks.saturating_mul(self.block_bytes);
        self.try_end_request(client, blocks, bytes, &Details::default())
            .inspect_err(|_| self.forget_open_request())
    }

    /// Completes a request of `bytes` bytes, rounded up to blocks, with further details about it.
    pub fn end_request_of_bytes(
        &mut self,
        client: &str,
        bytes: u64,
        details: &Details<'_>,
    ) -> Result<(), ModelError> {
        self.try_end_request(client, bytes.div_ceil(self.block_bytes), bytes, details)
            .inspect_err(|_| self.forget_open_request())
    }

    fn try_end_request(
        &mut self,
        client: &str,
        blocks: u64,
        bytes: u64,
        details: &Details<'_>,
    ) -> Result<(), ModelError> {
        let width = self.replicas.len() - self.open_start();
        if width == 0 {
            return Err(ModelError::NoReplica);
        }
        if self.n_requests() >= MAX_REQUESTS {
            return Err(ModelError::TooManyRequests);
        }
        let total_blocks = self.total_blocks.checked_add(blocks).ok_or(ModelError::TooManyBlocks)?;
        let client = if self.fixed_clients {
            self.clients.require(client, ModelError::UnknownClient)?
        } else {
            let n_known = self.clients.len();
            let id = self.clients.intern(client);
            if self.clients.len() > n_known {
                checked(client, "client")?;
            }
            id
        };
        let current = details.current.map(|name| self.server(name)).transpose()?;
        self.columns.push(self.n_requests(), details, current)?;
        let is_whole = bytes == blocks.saturating_mul(self.block_bytes);
        if !is_whole && self.bytes.is_empty() {
            let before = (0..self.n_requests()).map(|i| self.blocks.get(i).map_or(1, |&blocks| blocks));
            self.bytes = before.map(|blocks| blocks.saturating_mul(self.block_bytes)).collect();
        }
        if !is_whole || !self.bytes.is_empty() {
            self.bytes.push(bytes);
        }
        self.total_blocks = total_blocks;
        self.width = match self.n_requests() {
            0 => Some(width),
            _ => self.width.filter(|&w| w == width),
        };
        if blocks != 1 && self.blocks.is_empty() {
            self.blocks = vec![1; self.n_requests()];
        }
        if blocks != 1 || !self.blocks.is_empty() {
            self.blocks.push(blocks);
        }
        self.client_of.push(ClientId(client));
        self.replica_ends.push(self.replicas.len() as u32);
        Ok(())
    }

    fn forget_open_request(&mut self) {
        let open_start = self.open_start();
        self.replicas.drain(open_start..).for_each(|server| self.named_in[server.index()] = 0);
    }

    fn open_start(&self) -> usize {
        self.replica_ends.last().map_or(0, |&end| end as usize)
    }

    /// Returns the finished batch. Names whose order no file has fixed get their ids in natural order.
    pub fn finish(mut self) -> Batch {
        self.replicas.truncate(self.open_start());
        if !self.fixed_servers {
            let (sorted, new_id) = self.servers.sorted_naturally();
            self.servers = sorted;
            self.replicas.iter_mut().for_each(|s| s.0 = new_id[s.index()]);
            self.columns.renumber_servers(&new_id);
        }
        if !self.fixed_clients {
            let (sorted, new_id) = self.clients.sorted_naturally();
            self.clients = sorted;
            self.client_of.iter_mut().for_each(|c| c.0 = new_id[c.index()]);
        }
        self.columns.sort_names();
        Batch {
            clients: Arc::new(self.clients),
            servers: Arc::new(self.servers),
            client_of: self.client_of,
            replicas: self.replicas,
            replica_ends: self.replica_ends,
            width: self.width,
            blocks: self.blocks,
            total_blocks: self.total_blocks,
            block_bytes: self.block_bytes,
            bytes: self.bytes,
            columns: self.columns,
        }
    }
}

/// Hashes a sequence.
pub(super) fn fold(values: impl IntoIterator<Item = u64>) -> u64 {
    // Does not start from 0, or leading zeros would not count.
    let mix = |hash: u64, value: u64| (hash.rotate_left(23) ^ value).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    values.into_iter().fold(1, mix)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_dealt_to_other_clients() {
        let batch = || {
            let mut batch = BatchBuilder::new();
            (0..3).for_each(|_| batch.request("c", 1, &["s"]).unwrap());
            batch.finish()
        };
        let mut clients = NameTable::new();
        ["b", "a"].into_iter().for_each(|name| clients.insert(name, "client").unwrap());
        let dealt = batch().dealt_to(clients.clone(), |i| i as u32 % 2).unwrap();
        assert_eq!(dealt.client_of(), [0, 1, 0].map(ClientId));
        assert_eq!(dealt.clients().iter().collect::<Vec<_>>(), ["b", "a"]);
        let unknown = batch().dealt_to(clients, |i| i as u32).unwrap_err();
        assert_eq!(unknown, ModelError::UnknownClient("2".to_owned()));
    }

    /// Operations that take requests from a batch keep the columns; last blocks need not be full.
    #[test]
    fn details_stay_with_their_requests() {
        let mut batch = BatchBuilder::in_blocks_of(10);
        batch.request("c", 1, &["s"]).unwrap();
        let details = [
            Details { arrival_ns: Some(7), job: Some("j10"), chunk: Some("x"), current: Some("t") },
            Details { job: Some("j2"), ..Details::default() },
        ];
        for (bytes, details) in [25, 40].into_iter().zip(&details) {
            batch.replica("s").unwrap();
            batch.end_request_of_bytes("c", bytes, details).unwrap();
        }
        for details in [
            Details { job: Some(" "), ..Details::default() },
            Details { arrival_ns: Some(1), chunk: Some(""), ..Details::default() },
        ] {
            batch.replica("s").unwrap();
            assert!(batch.end_request_of_bytes("c", 1, &details).is_err());
        }
        let batch = batch.finish();
        let told = |batch: &Batch, i: usize| {
            let job = batch.job(i).map(|id| batch.jobs().name(id).to_owned());
            (batch.bytes(i), batch.blocks(i), batch.arrival_ns(i), job, batch.chunk(i).map(str::to_owned))
        };
        let name = |name: &str| Some(name.to_owned());
        let (first, second) = ((10, 1, 0, None, None), (25, 3, 7, name("j10"), name("x")));
        let third = (40, 4, 0, name("j2"), None);
        let all: Vec<_> = (0..batch.n_requests()).map(|i| told(&batch, i)).collect();
        assert_eq!(all, [first.clone(), second.clone(), third.clone()]);
        assert_eq!((batch.total_bytes(), batch.arrivals_ns()), (75, Some(&[0, 7, 0][..])));
        assert_eq!(batch.jobs().iter().collect::<Vec<_>>(), ["j2", "j10"]);

        let some = batch.subset(&[2, 0]);
        assert_eq!([told(&some, 0), told(&some, 1)], [third.clone(), first.clone()]);
        let other = batch.of_rows([(ClientId(0), 2, [ServerId(0)].into_iter())].into_iter()).unwrap();
        assert_eq!(told(&other, 0), (20, 2, 0, None, None));
        let copy = |blocks| ExtraCopy { request: 1, from: ServerId(0), to: ServerId(0), blocks };
        let copied = batch.with_copies(&[copy(1), copy(2)]);
        let all: Vec<_> = (0..copied.n_requests()).map(|i| told(&copied, i)).collect();
        let parts = [(10, 1), (15, 2)].map(|(bytes, blocks)| (bytes, blocks, 7, name("j10"), name("x")));
        let left = (0, 0, 7, name("j10"), name("x"));
        assert_eq!(all, [first, left, third, parts[0].clone(), parts[1].clone()]);
        assert_eq!(copied.total_bytes(), 75);
    }
}
