//! The synchronous driver: all clients bid, all servers answer, round by round.

use super::Rules;
use super::client::{self, Client};
use super::server::{self, Held, Server};
use crate::graph::holdings::Holdings;
use crate::model::{Batch, ClientId, Cluster, Grant, ServerId};

/// What came of the bidding.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bidding {
    /// Each request once, by ascending round.
    pub grants: Vec<Grant>,
    /// Bids and answers.
    pub n_messages: u64,
}

/// Lets clients and servers bid until every request is granted.
pub fn run(batch: &Batch, cluster: &Cluster, rules: Rules) -> Bidding {
    let mut clients = clients(batch, cluster, rules);
    let mut servers = servers(batch, cluster, rules);
    let mut bidding = Bidding { grants: Vec::with_capacity(batch.n_requests()), n_messages: 0 };
    let mut active: Vec<ClientId> = (0..batch.n_clients() as u32).map(ClientId).collect();
    let (mut to_servers, mut to_clients) = (Vec::new(), Vec::new());
    let mut asked: Vec<ServerId> = Vec::new();
    for round in 0.. {
        active.retain(|client| !clients[client.index()].is_done());
        if active.is_empty() {
            break;
        }
        for _pass in 0..rules.passes.max(1) {
            // Without losses no message is astray.
            for client in &active {
                let _ = clients[client.index()].on_event(client::Event::Begin { round }, &mut to_servers);
            }
            if to_servers.is_empty() {
                break;
            }
            for (to, message) in to_servers.drain(..) {
                bidding.n_messages += 1;
                asked.push(to);
                let _ = servers[to.index()].on_event(server::Event::Received(message), &mut to_clients);
            }
            asked.sort_unstable();
            asked.dedup();
            for server in asked.drain(..) {
                let n_before = servers[server.index()].granted().len();
                let _ = servers[server.index()].on_event(server::Event::Close { round }, &mut to_clients);
                let granted = &servers[server.index()].granted()[n_before..];
                bidding.grants.extend(granted.iter().map(|&(round, part)| Grant { round, part }));
            }
            for (to, message) in to_clients.drain(..) {
                bidding.n_messages += 1;
                let _ = clients[to.index()].on_event(client::Event::Received(message), &mut to_servers);
            }
            // Who is done says so, but this driver sees it anyway.
            to_servers.clear();
        }
    }
    bidding
}

/// The client halves of a batch, by id.
pub fn clients(batch: &Batch, cluster: &Cluster, rules: Rules) -> Vec<Client> {
    let mut rows: Vec<u32> = (0..batch.n_requests() as u32).collect();
    rows.sort_by_key(|&row| batch.client(row as usize));
    let mut rows = rows.as_slice();
    let ids = (0..batch.n_clients() as u32).map(ClientId);
    ids.map(|id| {
        let n_own = rows.partition_point(|&row| batch.client(row as usize) <= id);
        let own = rows.split_off(..n_own).unwrap_or_default();
        Client::new(batch, cluster, id, own, rules)
    })
    .collect()
}

/// The server halves of a batch, by id.
pub fn servers(batch: &Batch, cluster: &Cluster, rules: Rules) -> Vec<Server> {
    let holdings = Holdings::new(batch.replicas(), batch.n_servers());
    let held = |&request: &u32| {
        let i = request as usize;
        Held { request, client: batch.client(i), blocks: batch.blocks(i) }
    };
    let ids = (0..batch.n_servers() as u32).map(ServerId);
    ids.map(|id| {
        let held = holdings.of(id).iter().map(held).collect();
        Server::new(id, cluster.server(id).clone(), held, rules)
    })
    .collect()
}
