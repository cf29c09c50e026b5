//! The client half of bidding.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::{Answer, Bid, Choose, Done, Rules, Stray, ToClient, ToServer};
use crate::draw::{Draw, Seeded, mix};
use crate::model::{Batch, ClientId, Cluster, Fixed, ServerId};

/// What happens to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A round begins, or within the same round the next pass.
    Begin {
        /// Its number.
        round: u32,
    },
    /// Some messages may be lost: whatever was not answered is to be sent again.
    Resend,
    /// A message has arrived.
    Received(ToClient),
}

/// A request that was granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Won {
    /// The request's row in the batch.
    pub request: u32,
    /// Who serves it.
    pub server: ServerId,
    /// In which round, by the server's count.
    pub round: u32,
}

/// A client with its pending requests and its view of the servers' workloads.
///
/// Requests and servers have numbers of its own here, by ascending id.
#[derive(Debug)]
pub struct Client {
    id: ClientId,
    rules: Rules,
    draw: Seeded,
    requests: Vec<Request>,
    servers: Vec<Contact>,
    /// The servers of each request, one after the other.
    replicas: Vec<u32>,
    /// The requests of each server, one after the other.
    held: Vec<u32>,
    /// Servers to bid at, the lightest on top, if the rules go by that.
    lightest: BinaryHeap<Reverse<(Fixed, u64, u32)>>,
    /// Requests to bid for, if the rules draw lots.
    pending: Vec<u32>,
    /// Those that were rejected since the last bids.
    returned: Vec<u32>,
    /// Servers that have been tried in this round.
    tried: Vec<u32>,
    /// Servers that are tried or asked.
    n_out: usize,
    /// Bids that may be open or won in a round.
    most_bids: u32,
    n_asked: u32,
    round: u32,
    n_won_in_round: u32,
    /// Blocks that are not granted.
    degree: u64,
    won: Vec<Won>,
}

#[derive(Debug)]
struct Request {
    row: u32,
    blocks: u64,
    /// Where its replicas end.
    replicas_end: u32,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Pending,
    Asked,
    Granted,
}

#[derive(Debug)]
struct Contact {
    server: ServerId,
    /// The first of the requests that it holds which may not be granted, and where they end.
    first: u32,
    end: u32,
    /// As it was last told.
    workload: Fixed,
    /// Bids so far.
    turn: u32,
    /// The request of the open bid.
    asked: Option<u32>,
    /// Whether it has heard that the client is done.
    knows_done: bool,
}

impl Client {
    /// A client with these requests of the batch, rows in ascending order.
    pub fn new(batch: &Batch, cluster: &Cluster, id: ClientId, rows: &[u32], rules: Rules) -> Self {
        let replicas_of = |row: &u32| batch.replicas().of(*row as usize);
        let mut known: Vec<ServerId> = rows.iter().flat_map(replicas_of).copied().collect();
        known.sort_unstable();
        known.dedup();
        let number = |server: &ServerId| known.binary_search(server).unwrap_or(0) as u32;
        let replicas: Vec<u32> = rows.iter().flat_map(replicas_of).map(number).collect();

        let mut n_held = vec![0; known.len()];
        replicas.iter().for_each(|&server| n_held[server as usize] += 1);
        let mut end = 0;
        let mut servers = Vec::with_capacity(known.len());
        for (&server, n) in known.iter().zip(n_held) {
            let first = end;
            end += n;
            let workload = Fixed::ZERO;
            servers.push(Contact {
                server,
                first,
                end: first,
                workload,
                turn: 0,
                asked: None,
                knows_done: false,
            });
        }
        let mut held = vec![0; replicas.len()];
        let mut requests: Vec<Request> = Vec::with_capacity(rows.len());
        let mut start = 0;
        for (number, &row) in (0..).zip(rows) {
            let replicas_end = start + replicas_of(&row).len() as u32;
            for &server in &replicas[start as usize..replicas_end as usize] {
                let end = &mut servers[server as usize].end;
                held[*end as usize] = number;
                *end += 1;
            }
            let blocks = batch.blocks(row as usize);
            requests.push(Request { row, blocks, replicas_end, state: State::Pending });
            start = replicas_end;
        }
        let mut client = Self {
            id,
            rules,
            draw: Seeded::new(mix(mix(rules.seed) ^ u64::from(id.0))),
            degree: requests.iter().map(|request| request.blocks).sum(),
            pending: if rules.choose == Choose::Lot {
                (0..requests.len() as u32).collect()
            } else {
                Vec::new()
            },
            requests,
            n_out: 0,
            replicas,
            held,
            lightest: BinaryHeap::new(),
            tried: Vec::new(),
            returned: Vec::new(),
            most_bids: cluster.client(id).slots.saturating_mul(rules.bids.max(1)),
            n_asked: 0,
            round: 0,
            n_won_in_round: 0,
            won: Vec::new(),
            servers,
        };
        for server in 0..client.servers.len() as u32 {
            client.may_be_asked(server);
        }
        client
    }

    /// What was granted so far, in the order in which that became known.
    pub fn won(&self) -> &[Won] {
        &self.won
    }

    /// Whether everything is granted.
    pub fn is_done(&self) -> bool {
        self.won.len() == self.requests.len()
    }

    /// Whether all servers know that, too.
    pub fn is_over(&self) -> bool {
        self.is_done() && self.servers.iter().all(|contact| contact.knows_done)
    }

    /// Takes an event in; messages to servers come out.
    pub fn on_event(&mut self, event: Event, out: &mut Vec<(ServerId, ToServer)>) -> Result<(), Stray> {
        match event {
            Event::Begin { round } => self.begin(round, out),
            Event::Resend => self.resend(out),
            Event::Received(ToClient::Answer(answer)) => self.on_answer(answer, out)?,
            Event::Received(ToClient::Done(Done { client, server })) => {
                self.is_for_this(client)?;
                let number = self.contact(server)?;
                if !self.is_done() {
                    return Err(Stray::NotDone { server: server.0 });
                }
                self.servers[number as usize].knows_done = true;
            }
        }
        Ok(())
    }

    fn begin(&mut self, round: u32, out: &mut Vec<(ServerId, ToServer)>) {
        if round != self.round {
            (self.round, self.n_won_in_round) = (round, 0);
            for server in std::mem::take(&mut self.tried) {
                self.n_out -= 1;
                self.may_be_asked(server);
            }
        }
        // In whatever order the answers have come, the next lots are the same.
        self.returned.sort_unstable();
        self.pending.append(&mut self.returned);
        while self.n_asked + self.n_won_in_round < self.most_bids
            && let Some((request, server)) = self.choose()
        {
            self.requests[request as usize].state = State::Asked;
            let contact = &mut self.servers[server as usize];
            contact.turn += 1;
            contact.asked = Some(request);
            self.n_asked += 1;
            self.n_out += 1;
            out.push(self.bid(server, request));
        }
    }

    fn bid(&self, server: u32, request: u32) -> (ServerId, ToServer) {
        let Contact { server, turn, .. } = self.servers[server as usize];
        let request = self.requests[request as usize].row;
        (server, ToServer::Bid(Bid { client: self.id, request, degree: self.degree, turn }))
    }

    fn may_be_asked(&mut self, server: u32) {
        if let Choose::Lightest(ties) = self.rules.choose {
            let Contact { server: id, workload, .. } = self.servers[server as usize];
            self.lightest.push(Reverse((workload, ties.rank(self.id.0, id.0), server)));
        }
    }

    /// A request, and a server that has not been asked in this round.
    fn choose(&mut self) -> Option<(u32, u32)> {
        match self.rules.choose {
            Choose::Lightest(_) => self.choose_lightest(),
            Choose::Lot => self.choose_by_lot(),
        }
    }

    fn choose_lightest(&mut self) -> Option<(u32, u32)> {
        while let Some(Reverse((.., server))) = self.lightest.pop() {
            let contact = &mut self.servers[server as usize];
            let state = |k: u32| self.requests[self.held[k as usize] as usize].state;
            while contact.first < contact.end && state(contact.first) == State::Granted {
                contact.first += 1;
            }
            if let Some(k) = (contact.first..contact.end).find(|&k| state(k) == State::Pending) {
                return Some((self.held[k as usize], server));
            }
            // With nothing left it need not be asked again; what is asked elsewhere may come back.
            if contact.first < contact.end {
                self.tried.push(server);
                self.n_out += 1;
            }
        }
        None
    }

    fn choose_by_lot(&mut self) -> Option<(u32, u32)> {
        if self.n_out == self.servers.len() {
            return None;
        }
        let mut n = self.pending.len();
        while n > 0 {
            let k = self.draw.below(n as u32) as usize;
            let request = self.pending[k];
            let start = if request == 0 { 0 } else { self.requests[request as usize - 1].replicas_end };
            let end = self.requests[request as usize].replicas_end;
            let replicas = &self.replicas[start as usize..end as usize];
            let is_out =
                |&server: &u32| self.servers[server as usize].asked.is_some() || self.tried.contains(&server);
            let free: Vec<u32> = replicas.iter().copied().filter(|server| !is_out(server)).collect();
            if !free.is_empty() {
                self.pending.swap_remove(k);
                return Some((request, free[self.draw.below(free.len() as u32) as usize]));
            }
            n -= 1;
            self.pending.swap(k, n);
        }
        None
    }

    fn on_answer(&mut self, answer: Answer, out: &mut Vec<(ServerId, ToServer)>) -> Result<(), Stray> {
        self.is_for_this(answer.client)?;
        let number = self.contact(answer.server)?;
        let contact = &mut self.servers[number as usize];
        let is_asked = |&mut request: &mut u32| {
            contact.turn == answer.turn && self.requests[request as usize].row == answer.request
        };
        let asked = contact.asked.take_if(is_asked);
        let request = asked.ok_or(Stray::NotAsked { server: answer.server.0, turn: answer.turn })?;
        contact.workload = answer.workload;
        self.tried.push(number);
        self.n_asked -= 1;
        let of_request = &mut self.requests[request as usize];
        let Some(round) = answer.granted else {
            of_request.state = State::Pending;
            if self.rules.choose == Choose::Lot {
                self.returned.push(request);
            }
            return Ok(());
        };
        of_request.state = State::Granted;
        self.degree -= of_request.blocks;
        self.n_won_in_round += 1;
        self.won.push(Won { request: of_request.row, server: answer.server, round });
        if self.is_done() {
            self.tell_done(out);
        }
        Ok(())
    }

    /// Sends what was not answered again.
    fn resend(&mut self, out: &mut Vec<(ServerId, ToServer)>) {
        for (number, contact) in (0..).zip(&self.servers) {
            if let Some(request) = contact.asked {
                out.push(self.bid(number, request));
            }
        }
        if self.is_done() {
            self.tell_done(out);
        }
    }

    fn tell_done(&self, out: &mut Vec<(ServerId, ToServer)>) {
        let unaware = self.servers.iter().filter(|contact| !contact.knows_done);
        let done = |server| ToServer::Done(Done { client: self.id, server });
        out.extend(unaware.map(|contact| (contact.server, done(contact.server))));
    }

    fn is_for_this(&self, client: ClientId) -> Result<(), Stray> {
        if client == self.id { Ok(()) } else { Err(Stray::NotThisClient { client: client.0 }) }
    }

    /// The number of a server here.
    fn contact(&self, server: ServerId) -> Result<u32, Stray> {
        let number = self.servers.binary_search_by_key(&server, |contact| contact.server);
        number.map(|number| number as u32).map_err(|_| Stray::UnknownServer { server: server.0 })
    }
}
