//! Servers, clients and replicas that join, change and leave.

use super::executor::{End, Executor};
use super::gauge::Gauge;
use super::lists::{NONE, State};
use super::{Action, Reason};
use crate::model::{Client, ClientId, Server, ServerId};

impl Executor {
    /// A server is new, is back, or has changed.
    pub(super) fn on_server_joined(&mut self, server: ServerId, node: &Server) {
        let gauge = Gauge::new(node, self.settings.block_ns, self.now_ns);
        self.cluster.put_server(server, node.clone());
        if server.index() == self.servers.len() {
            self.nodes.add_server();
            self.gauges.push(gauge);
            self.servers.push(0);
            self.undecided.add_server();
        } else {
            self.gauges[server.index()].changed(&gauge);
        }
        self.wait_until_free(server);
        self.back(server);
        self.open(server);
        self.one_more_server();
    }

    /// A server has left for good: data that only it holds is lost.
    pub(super) fn on_server_left(&mut self, server: ServerId, out: &mut Vec<Action>) {
        self.gauges[server.index()].is_member = false;
        self.on_down(server, out);
        self.give_up_hopeless(server, out);
    }

    /// Fails the pieces that wait for servers that will never serve them.
    fn give_up_hopeless(&mut self, last: ServerId, out: &mut Vec<Action>) {
        for (until_ns, entry) in std::mem::take(&mut self.parked) {
            if self.marks.is_stale(entry) {
                continue;
            }
            if self.is_hopeless(entry.piece) {
                let request = self.pieces[entry.piece as usize].request;
                self.fail(request, Reason::NoCopy { server: last }, out);
            } else {
                self.parked.push_back((until_ns, entry));
            }
        }
    }

    /// A client is new, is back, or has changed.
    pub(super) fn on_client_joined(&mut self, client: ClientId, node: &Client) {
        self.cluster.put_client(client, node.clone());
        if client.index() == self.clients.len() {
            self.nodes.add_client();
            self.clients.push(node.slots);
            self.undecided.add_client();
        } else {
            self.clients[client.index()].is_gone = false;
            self.clients.set_slots(client.index(), node.slots);
        }
        self.to_look_at.push(End::Client(client.0));
    }

    /// A client is gone, and so is all data that it received. Its requests fail; where any client may take any request,
    /// another one fetches them from the beginning.
    pub(super) fn on_client_left(&mut self, client: ClientId, out: &mut Vec<Action>) {
        self.leave_plan();
        self.clients[client.index()].is_gone = true;
        self.clients.set_slots(client.index(), 0);
        let its_own = |&(_, first): &(u32, u32)| {
            self.ring(first).any(|piece| self.pieces[piece as usize].client == client)
        };
        let of_request = self.requests.iter().map(|(place, request)| (place, request.first));
        let its_own: Vec<u32> = of_request.filter(its_own).map(|(place, _)| place).collect();
        for request in its_own {
            let others = (0..).map(ClientId).zip(self.clients.iter()).filter(|(_, node)| !node.is_gone);
            let heir = others.min_by_key(|(id, node)| (node.n_queued, *id)).map(|(id, _)| id);
            match heir.filter(|_| self.settings.shares_work) {
                Some(heir) => self.start_over(request, heir, out),
                None => self.fail(request, Reason::ClientLeft, out),
            }
        }
    }

    /// Makes another client fetch a request from its beginning.
    fn start_over(&mut self, request: u32, client: ClientId, out: &mut Vec<Action>) {
        self.end_pieces(request, out);
        self.free_pieces_of(request);
        let known = &mut self.requests[request];
        (known.client, known.first, known.n_left) = (client, NONE, 0);
        let (server, size) = (known.holders.first().copied().unwrap_or_default(), self.size(request));
        let piece = self.add_piece(self.piece(request, server, 0, size));
        self.barred.merge(request, piece);
        self.place(piece, None, out);
    }

    /// A server now holds the data of a request.
    pub(super) fn on_replica_added(&mut self, request: u32, server: ServerId) {
        if self.requests[request].holders.contains(&server) {
            return;
        }
        self.requests[request].holders.push(server);
        let pieces: Vec<u32> = self.ring(self.requests[request].first).collect();
        for piece in pieces {
            match self.marks.state(piece) {
                State::Parked if self.holders(piece).any(|holder| holder == server) => {
                    self.resume_at(piece, server);
                }
                // It now waits there, too.
                State::Undecided => self.wait_for_any(piece),
                _ => {}
            }
        }
    }

    /// A server no longer holds the data of a request. Its transfers in flight continue as long as they can.
    pub(super) fn on_replica_lost(&mut self, request: u32, server: ServerId, out: &mut Vec<Action>) {
        self.leave_plan();
        self.forget_replica(request, server, out);
    }
}
