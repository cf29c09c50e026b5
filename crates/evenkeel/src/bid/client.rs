//! The client half of bidding.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::{Answer, Bid, Choose, Done, Rules, Stray, ToClient, ToServer};
use crate::draw::{Draw, Seeded, mix};
use crate::graph::pool::Pool;
use crate::graph::shrinking::Shrinking;
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
    /// The requests of each server.
    held: Shrinking,
    /// Servers to bid at, the lightest on top, if the rules go by that.
    lightest: BinaryHeap<Reverse<(Fixed, u64, u32)>>,
    /// Requests to bid for, if the rules draw lots.
    pending: Pool,
    /// Those that were rejected since the last bids.
    returned: Vec<u32>,
    /// Servers that have been tried in this round.
    tried: Vec<u32>,
    /// Servers all of whose requests were asked for elsewhere when they were looked at.
    passed_over: Vec<u32>,
    /// Whether a server is not to be asked: it is, or was tried in this round.
    is_out: Vec<bool>,
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

        let mut requests: Vec<Request> = Vec::with_capacity(rows.len());
        let mut replicas_end = 0;
        for &row in rows {
            replicas_end += replicas_of(&row).len() as u32;
            let blocks = batch.blocks(row as usize);
            requests.push(Request { row, blocks, replicas_end, state: State::Pending });
        }
        let contact =
            |&server| Contact { server, workload: Fixed::ZERO, turn: 0, asked: None, knows_done: false };
        let mut client = Self {
            id,
            rules,
            draw: Seeded::new(mix(mix(rules.seed) ^ u64::from(id.0))),
            degree: requests.iter().map(|request| request.blocks).sum(),
            pending: Pool::new(requests.len(), |_| rules.choose == Choose::Lot),
            held: Shrinking::transposed(known.len(), requests_of(&requests, &replicas)),
            requests,
            is_out: vec![false; known.len()],
            replicas,
            lightest: BinaryHeap::new(),
            tried: Vec::new(),
            passed_over: Vec::new(),
            returned: Vec::new(),
            most_bids: cluster.client(id).slots.saturating_mul(rules.bids.max(1)),
            n_asked: 0,
            round: 0,
            n_won_in_round: 0,
            won: Vec::new(),
            servers: known.iter().map(contact).collect(),
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
            Event::Received(ToClient::Done(Done { batch, client, server })) => {
                self.is_for_this(batch, client)?;
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
            while let Some(server) = self.tried.pop() {
                self.is_out[server as usize] = false;
                self.may_be_asked(server);
            }
        }
        while let Some(server) = self.passed_over.pop() {
            self.may_be_asked(server);
        }
        // In whatever order the answers have come, the next lots are the same.
        self.returned.sort_unstable();
        self.returned.drain(..).for_each(|request| self.pending.insert(request));
        while self.n_asked + self.n_won_in_round < self.most_bids
            && let Some((request, server)) = self.choose()
        {
            self.requests[request as usize].state = State::Asked;
            let contact = &mut self.servers[server as usize];
            contact.turn += 1;
            contact.asked = Some(request);
            self.n_asked += 1;
            self.is_out[server as usize] = true;
            out.push(self.bid(server, request));
        }
    }

    fn bid(&self, server: u32, request: u32) -> (ServerId, ToServer) {
        let Contact { server, turn, .. } = self.servers[server as usize];
        let request = self.requests[request as usize].row;
        let Self { id: client, degree, rules: Rules { batch, .. }, .. } = *self;
        (server, ToServer::Bid(Bid { batch, client, server, request, degree, turn }))
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
            let state = |request: u32| self.requests[request as usize].state;
            let is_granted = |request| state(request) == State::Granted;
            let oldest =
                self.held.find(server, usize::MAX, is_granted, |request| state(request) == State::Pending);
            if let Some(request) = oldest {
                return Some((request, server));
            }
            // With nothing left it need not be asked again; what is asked elsewhere may come back.
            if !self.held.is_known_to_be_empty(server) {
                self.passed_over.push(server);
            }
        }
        None
    }

    fn choose_by_lot(&mut self) -> Option<(u32, u32)> {
        /// After so many requests none of which can be bid for, few can.
        const MOST_DRAWS: usize = 32;
        if self.is_out.iter().all(|&is_out| is_out) {
            return None;
        }
        for _ in 0..MOST_DRAWS {
            let n_pending = self.pending.members().len() as u32;
            let drawn = (n_pending > 0).then(|| self.draw.below(n_pending))?;
            let request = self.pending.members()[drawn as usize];
            if let Some(server) = self.draw_replica(request) {
                self.pending.remove(request);
                return Some((request, server));
            }
        }
        let state = |request: u32| self.requests[request as usize].state;
        let mut open: Vec<u32> = Vec::new();
        for server in (0..).zip(&self.is_out).filter(|(_, is_out)| !**is_out).map(|(server, _)| server) {
            let is_granted = |request| state(request) == State::Granted;
            self.held.find(server, usize::MAX, is_granted, |request| {
                open.extend((state(request) == State::Pending).then_some(request));
                false
            });
        }
        open.sort_unstable();
        open.dedup();
        let request = *open.get(self.draw.below(open.len().max(1) as u32) as usize)?;
        let server = self.draw_replica(request)?;
        self.pending.remove(request);
        Some((request, server))
    }

    /// One of the servers that hold a request and have not been asked in this round.
    fn draw_replica(&mut self, request: u32) -> Option<u32> {
        let start = if request == 0 { 0 } else { self.requests[request as usize - 1].replicas_end };
        let end = self.requests[request as usize].replicas_end;
        let replicas = &self.replicas[start as usize..end as usize];
        let free = replicas.iter().copied().filter(|&server| !self.is_out[server as usize]);
        let n = free.clone().count() as u32;
        let drawn = (n > 0).then(|| self.draw.below(n));
        drawn.and_then(|k| free.clone().nth(k as usize))
    }

    fn on_answer(&mut self, answer: Answer, out: &mut Vec<(ServerId, ToServer)>) -> Result<(), Stray> {
        self.is_for_this(answer.batch, answer.client)?;
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
        let done = |server| ToServer::Done(Done { batch: self.rules.batch, client: self.id, server });
        out.extend(unaware.map(|contact| (contact.server, done(contact.server))));
    }

    fn is_for_this(&self, batch: u64, client: ClientId) -> Result<(), Stray> {
        self.rules.is_of_this(batch)?;
        if client == self.id { Ok(()) } else { Err(Stray::NotThisClient { client: client.0 }) }
    }

    /// The number of a server here.
    fn contact(&self, server: ServerId) -> Result<u32, Stray> {
        let number = self.servers.binary_search_by_key(&server, |contact| contact.server);
        number.map(|number| number as u32).map_err(|_| Stray::UnknownServer { server: server.0 })
    }
}

/// Each request with each of its servers.
fn requests_of<'a>(
    requests: &'a [Request],
    replicas: &'a [u32],
) -> impl Iterator<Item = (u32, u32)> + Clone + 'a {
    let starts = std::iter::once(0).chain(requests.iter().map(|request| request.replicas_end));
    let sets = requests.iter().zip(starts).map(|(request, start)| start..request.replicas_end);
    (0..).zip(sets).flat_map(|(number, set)| {
        replicas[set.start as usize..set.end as usize].iter().map(move |&server| (number, server))
    })
}
