//! The synchronous driver: all clients bid, all servers answer, round by round.

use super::Rules;
use super::client::{self, Client};
use super::server::{self, Server};
use crate::model::{Batch, ClientId, Cluster, Grant, Part, ServerId};

/// The result of the bidding.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bidding {
    /// Each request once, by ascending round.
    pub grants: Vec<Grant>,
    /// Bids and answers.
    pub n_messages: u64,
}

/// Runs the bidding until every request is granted.
pub fn run(batch: &Batch, cluster: &Cluster, rules: Rules) -> Bidding {
    let mut clients = clients(batch, cluster, rules);
    let mut servers = servers(cluster, rules);
    let mut bidding = Bidding { grants: Vec::with_capacity(batch.n_requests()), n_messages: 0 };
    let mut active: Vec<ClientId> = (0..batch.n_clients() as u32).map(ClientId).collect();
    let (mut by_clients, mut by_servers) = (Vec::new(), Vec::new());
    let mut asked: Vec<ServerId> = Vec::new();
    for round in 0.. {
        active.retain(|client| !clients[client.index()].is_done());
        if active.is_empty() {
            break;
        }
        for _pass in 0..rules.passes.max(1) {
            // Without losses no message is stray.
            for client in &active {
                let _ = clients[client.index()].on_event(0, client::Event::Begin { round }, &mut by_clients);
            }
            for action in by_clients.drain(..) {
                if let client::Action::Send { server, message } = action {
                    bidding.n_messages += 1;
                    asked.push(server);
                    let event = server::Event::Received(message);
                    let _ = servers[server.index()].on_event(0, event, &mut by_servers);
                }
            }
            if asked.is_empty() {
                break;
            }
            asked.sort_unstable();
            asked.dedup();
            for server in asked.drain(..) {
                let first = by_servers.len();
                let _ = servers[server.index()].on_event(0, server::Event::Close { round }, &mut by_servers);
                bidding.grants.extend(by_servers[first..].iter().filter_map(|action| action.grant(server)));
            }
            for action in by_servers.drain(..) {
                if let server::Action::Send { client, message } = action {
                    bidding.n_messages += 1;
                    let event = client::Event::Received(message);
                    let _ = clients[client.index()].on_event(0, event, &mut by_clients);
                }
            }
            // A client that is done sends a message, but this driver sees it anyway.
            by_clients.clear();
        }
    }
    bidding
}

impl server::Action {
    /// The grant that this action of `server` makes, if it makes one.
    pub fn grant(&self, server: ServerId) -> Option<Grant> {
        match *self {
            Self::Serve(server::Served { request, blocks, round, .. }) => {
                Some(Grant { round, part: Part { request, server, blocks } })
            }
            _ => None,
        }
    }
}

/// The client machines of a batch, by id.
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

/// The server machines of a cluster, by id.
pub fn servers(cluster: &Cluster, rules: Rules) -> Vec<Server> {
    let ids = (0..).map(ServerId).zip(cluster.servers());
    ids.map(|(id, node)| Server::new(id, node.clone(), 1, rules)).collect()
}
