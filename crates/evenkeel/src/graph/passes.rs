//! Passes over the servers, ordered by how many pending requests each could serve. In each pass each server takes one.
//!
//! If clients have a limit on concurrent transfers, a pass is a slot of the schedule. Without it, a pass is only a way
//! to share requests evenly.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::sets::bits::Bits;
use super::sets::holdings::Holdings;
use super::sets::pool::Pool;
use super::sets::shrinking::Shrinking;
use crate::model::{Batch, ClientId, Cluster, Grant, Part, ServerId};

/// Which servers choose first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum First {
    /// Those that could serve the fewest pending requests.
    Fewest,
    /// Those that could serve the most.
    Most,
}

/// The request that each server takes in each pass, of any client.
pub(crate) fn of_servers(batch: &Batch, first: First) -> Vec<Grant> {
    let mut pending = Pending::new(batch);
    let mut grants = Vec::with_capacity(batch.n_requests());
    let mut active: Vec<ServerId> = (0..batch.n_servers() as u32).map(ServerId).collect();
    for round in 0.. {
        active.retain(|server| pending.degrees[server.index()] > 0);
        if active.is_empty() {
            break;
        }
        match first {
            First::Fewest => active.sort_unstable_by_key(|s| (pending.degrees[s.index()], s.0)),
            First::Most => active.sort_unstable_by_key(|s| (Reverse(pending.degrees[s.index()]), s.0)),
        }
        for &server in &active {
            if let Some(request) = pending.oldest(server, usize::MAX, |_| true) {
                pending.take(request, |_, _| ());
                grants.push(Grant { round, part: part(batch, request, server) });
            }
        }
    }
    grants
}

/// Like [`of_servers`], with clients: no node takes part in more transfers of a pass than it has slots.
pub(crate) fn of_servers_and_clients(batch: &Batch, cluster: &Cluster, first: First) -> Vec<Grant> {
    let mut pending = Pending::new(batch);
    let mut wishes = Wishes::new(batch);
    let mut clients = FreeClients::new(batch, cluster);
    let mut grants = Vec::with_capacity(batch.n_requests());
    let rank = |degree: u32, server: u32| match first {
        First::Fewest => (i64::from(degree), server),
        First::Most => (-i64::from(degree), server),
    };
    let degrees = (0..).zip(&pending.degrees).filter(|&(_, &degree)| degree > 0);
    let mut queue: BTreeSet<(i64, u32)> = degrees.map(|(server, &degree)| rank(degree, server)).collect();
    let mut changed: Vec<(u32, u32)> = Vec::new();
    for round in 0.. {
        if queue.is_empty() {
            break;
        }
        // The order is that at the beginning of the pass.
        for &(_, server) in &queue {
            let server = ServerId(server);
            for _ in 0..cluster.server(server).slots {
                let Some(request) = choose(batch, &mut pending, &mut wishes, &clients, server) else { break };
                pending.take(request, |server, degree_before| changed.push((server.0, degree_before)));
                clients.occupy(batch.client(request as usize));
                grants.push(Grant { round, part: part(batch, request, server) });
            }
            if clients.free.members().is_empty() {
                break;
            }
        }
        for &(server, degree_before) in &changed {
            queue.remove(&rank(degree_before, server));
        }
        for (server, _) in changed.drain(..) {
            let degree = pending.degrees[server as usize];
            if degree > 0 {
                queue.insert(rank(degree, server));
            }
        }
        clients.release();
    }
    grants
}

fn part(batch: &Batch, request: u32, server: ServerId) -> Part {
    Part { request, server, blocks: batch.blocks(request as usize) }
}

/// The oldest pending request of a server whose client is free.
fn choose(
    batch: &Batch,
    pending: &mut Pending<'_>,
    wishes: &mut Wishes,
    clients: &FreeClients<'_>,
    server: ServerId,
) -> Option<u32> {
    /// With this few free clients it is faster to check what each of them wants.
    const FEW_CLIENTS: usize = 16;
    /// It is also faster after this many requests of busy clients.
    const LONG_SEARCH: usize = 64;
    if clients.free.members().len() > FEW_CLIENTS {
        let is_free = |request: u32| clients.is_free(batch.client(request as usize));
        if let Some(request) = pending.oldest(server, LONG_SEARCH, is_free) {
            return Some(request);
        }
    }
    wishes.oldest(server, clients, &pending.taken)
}

/// The requests that are still to be assigned, and the servers that could serve them.
struct Pending<'a> {
    batch: &'a Batch,
    taken: Bits,
    /// How many pending requests each server could serve.
    degrees: Vec<u32>,
    held: Shrinking,
}

impl<'a> Pending<'a> {
    fn new(batch: &'a Batch) -> Self {
        let holdings = Holdings::new(batch.replicas(), batch.n_servers());
        let servers = (0..batch.n_servers() as u32).map(ServerId);
        Self {
            batch,
            taken: Bits::none(batch.n_requests()),
            degrees: servers.map(|server| holdings.of(server).len() as u32).collect(),
            held: holdings.shrinking(),
        }
    }

    /// The oldest wanted pending request of a server, if one of the first `most` pending ones is wanted.
    fn oldest(&mut self, server: ServerId, most: usize, is_wanted: impl Fn(u32) -> bool) -> Option<u32> {
        self.held.find(server.0, most, |request| self.taken.has(request), is_wanted)
    }

    /// Assigns a request. Calls `tell` for each server that could have served it, with its degree before.
    fn take(&mut self, request: u32, mut tell: impl FnMut(ServerId, u32)) {
        self.taken.insert(request);
        for &server in self.batch.replicas().of(request as usize) {
            let degree = &mut self.degrees[server.index()];
            tell(server, *degree);
            *degree -= 1;
        }
    }
}

/// For each server and client, the requests of that client that the server could serve.
struct Wishes {
    /// By server, then client, then age.
    requests: Holdings,
    cells: Vec<Cell>,
    /// Where the cells of each server end.
    ends: Vec<u32>,
}

struct Cell {
    client: u32,
    /// The first place among the requests that may be pending.
    first: u32,
    end: u32,
}

impl Wishes {
    fn new(batch: &Batch) -> Self {
        let mut by_client: Vec<u32> = (0..batch.n_requests() as u32).collect();
        by_client.sort_by_key(|&request| batch.client(request as usize).0);
        let requests = Holdings::in_order(batch.replicas(), batch.n_servers(), by_client.into_iter());
        let (mut cells, mut ends) = (Vec::new(), Vec::with_capacity(batch.n_servers()));
        for server in (0..batch.n_servers() as u32).map(ServerId) {
            let mut first = requests.range(server).start as u32;
            let client = |request: &u32| batch.client(*request as usize).0;
            for of_client in requests.of(server).chunk_by(|a, b| client(a) == client(b)) {
                let end = first + of_client.len() as u32;
                cells.push(Cell { client: client(&of_client[0]), first, end });
                first = end;
            }
            ends.push(cells.len() as u32);
        }
        Self { requests, cells, ends }
    }

    /// The oldest pending request of a server whose client is free.
    fn oldest(&mut self, server: ServerId, clients: &FreeClients<'_>, taken: &Bits) -> Option<u32> {
        let start = if server.0 == 0 { 0 } else { self.ends[server.index() - 1] };
        let Self { requests, cells, .. } = self;
        let own = &mut cells[start as usize..self.ends[server.index()] as usize];
        let mut oldest: Option<u32> = None;
        let mut look = |cell: &mut Cell| {
            let of_cell = &requests.flat()[cell.first as usize..cell.end as usize];
            let pending = of_cell.iter().position(|&request| !taken.has(request));
            cell.first += pending.unwrap_or(of_cell.len()) as u32;
            let head = pending.map(|k| of_cell[k]);
            oldest = oldest.into_iter().chain(head).min();
        };
        if clients.free.members().len() < own.len() {
            for client in clients.free.members() {
                if let Ok(k) = own.binary_search_by_key(client, |cell| cell.client) {
                    look(&mut own[k]);
                }
            }
        } else {
            own.iter_mut().filter(|cell| clients.is_free(ClientId(cell.client))).for_each(look);
        }
        oldest
    }
}

/// The clients that can take part in one more transfer of this pass, and want to.
struct FreeClients<'a> {
    cluster: &'a Cluster,
    free: Pool,
    /// The transfers of each client in this pass.
    used: Vec<u32>,
    /// The pending requests of each client.
    left: Vec<u32>,
    /// The clients with transfers in this pass.
    touched: Vec<u32>,
}

impl<'a> FreeClients<'a> {
    fn new(batch: &Batch, cluster: &'a Cluster) -> Self {
        let n = batch.n_clients();
        let mut left = vec![0; n];
        batch.client_of().iter().for_each(|client| left[client.index()] += 1);
        let free = Pool::new(n, |client| left[client as usize] > 0);
        Self { cluster, free, used: vec![0; n], left, touched: Vec::new() }
    }

    fn is_free(&self, client: ClientId) -> bool {
        self.left[client.index()] > 0 && self.used[client.index()] < self.cluster.client(client).slots
    }

    fn occupy(&mut self, client: ClientId) {
        if self.used[client.index()] == 0 {
            self.touched.push(client.0);
        }
        self.used[client.index()] += 1;
        self.left[client.index()] -= 1;
        if !self.is_free(client) {
            self.free.remove(client.0);
        }
    }

    /// Begins the next pass.
    fn release(&mut self) {
        for client in self.touched.drain(..) {
            let was_full = self.used[client as usize] == self.cluster.client(ClientId(client)).slots;
            self.used[client as usize] = 0;
            if was_full && self.left[client as usize] > 0 {
                self.free.insert(client);
            }
        }
    }
}
