//! The client half of bidding.

mod trace;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::{Answer, Bid, Choose, Done, Link, Restarted, Rules, Stray, ToClient, ToServer};
use crate::draw::{Draw, Seeded, mix};
use crate::graph::sets::pool::Pool;
use crate::graph::sets::shrinking::Shrinking;
use crate::model::{Batch, ClientId, Cluster, Fixed, ServerId};
use crate::trace::Trace;

pub use trace::{Candidate, Counts, Decision};

/// An input to a client: something that happened outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A round begins, or the next pass within the same round.
    Begin {
        /// Its number.
        round: u32,
    },
    /// A message has arrived.
    Received(ToClient),
    /// A granted request has been served.
    Served {
        /// The client's number for it.
        request: u32,
    },
    /// A server is dead or unreachable: the requests that it has not served must be asked of others.
    Down {
        /// The server.
        server: ServerId,
    },
    /// A server is back, or has restarted.
    Up {
        /// The server.
        server: ServerId,
        /// The run of the server, counted from 1.
        epoch: u64,
    },
    /// The time of `wake_at` has come: messages without an answer are resent.
    Wake,
}

/// An output of a client: something for its driver to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send a message.
    Send {
        /// The server to send it to.
        server: ServerId,
        /// The message.
        message: ToServer,
    },
    /// The client will read a request from a server.
    Read(Won),
    /// The client will not read it there after all, and will bid for it again.
    GiveUp(Won),
}

/// A granted request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Won {
    /// The request's row in the batch.
    pub request: u32,
    /// The server that serves it.
    pub server: ServerId,
    /// The round, by the server's count.
    pub round: u32,
}

/// A client with its pending requests and its view of the servers' workloads.
///
/// Requests and servers have local numbers here, by ascending id.
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
    /// The servers to bid at, the lightest on top, if the rules choose by workload.
    lightest: BinaryHeap<Reverse<(Fixed, u64, u32)>>,
    /// The requests to bid for, if the rules draw at random.
    pending: Pool,
    /// The requests that were rejected since the last bids.
    returned: Vec<u32>,
    /// Servers that have been tried in this round.
    tried: Vec<u32>,
    /// Servers that were skipped because all of their requests had bids elsewhere.
    passed_over: Vec<u32>,
    /// Whether a server is not to be asked: it has an open bid, or was tried in this round.
    is_out: Vec<bool>,
    /// The maximum number of bids that may be open or won in a round.
    most_bids: u32,
    n_asked: u32,
    round: u32,
    n_won_in_round: u32,
    /// The blocks that are not granted yet.
    degree: u64,
    /// The granted requests, served or not.
    won: Vec<Won>,
    now_ns: u64,
    /// When messages without an answer are resent.
    resend_ns: Option<u64>,
    /// The rest of [`Counts`] is computed on demand.
    counts: Counts,
    trace: Trace<Decision>,
}

#[derive(Debug)]
struct Request {
    row: u32,
    blocks: u64,
    /// The end of its replicas.
    replicas_end: u32,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Pending,
    Asked,
    Granted,
    Served,
}

impl State {
    fn is_granted(self) -> bool {
        matches!(self, Self::Granted | Self::Served)
    }
}

#[derive(Debug)]
struct Contact {
    server: ServerId,
    epoch: u64,
    /// The workload as last reported.
    workload: Fixed,
    /// How often everything asked of it was given up.
    life: u32,
    /// The bids since then.
    turn: u32,
    /// The request of the open bid.
    asked: Option<u32>,
    is_down: bool,
    was_asked: bool,
    /// Whether it knows that the client is done, or does not know the client at all.
    knows_done: bool,
}

impl Client {
    /// A client with these requests of the batch, rows in ascending order. It assumes that all servers are in their
    /// first epoch.
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
        let contact = |&server| Contact {
            server,
            epoch: 1,
            workload: Fixed::ZERO,
            life: 0,
            turn: 0,
            asked: None,
            is_down: false,
            was_asked: false,
            knows_done: true,
        };
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
            now_ns: 0,
            resend_ns: None,
            counts: Counts::default(),
            trace: Trace::default(),
            servers: known.iter().map(contact).collect(),
        };
        for server in 0..client.servers.len() as u32 {
            client.may_be_asked(server);
        }
        client
    }

    /// The granted requests, in the order in which the grants became known.
    pub fn won(&self) -> &[Won] {
        &self.won
    }

    /// Whether everything is granted.
    pub fn is_done(&self) -> bool {
        self.won.len() == self.requests.len()
    }

    /// Whether everything is granted and all servers know it.
    pub fn is_over(&self) -> bool {
        self.is_done() && self.servers.iter().all(|contact| contact.knows_done)
    }

    /// When the client must be woken, if no event comes before.
    pub fn wake_at(&self) -> Option<u64> {
        self.resend_ns
    }

    /// Handles an event, and appends the resulting actions to `out`. After an error nothing has changed.
    pub fn on_event(&mut self, now_ns: u64, event: Event, out: &mut Vec<Action>) -> Result<(), Stray> {
        if now_ns < self.now_ns {
            return Err(Stray::Past { now_ns: self.now_ns });
        }
        let number = self.fits(event)?;
        self.now_ns = now_ns;
        match event {
            Event::Begin { round } => self.begin(round, out),
            Event::Received(ToClient::Answer(answer)) => self.on_answer(number, answer, out),
            Event::Received(ToClient::Done(_)) => self.servers[number as usize].knows_done = true,
            Event::Received(ToClient::Restarted(Restarted { link })) => self.on_up(number, link.epoch, out),
            Event::Served { .. } => {
                self.requests[number as usize].state = State::Served;
                self.counts.served += 1;
            }
            Event::Down { .. } => {
                self.servers[number as usize].is_down = true;
                self.give_up(number, out);
            }
            Event::Up { epoch, .. } => self.on_up(number, epoch, out),
            Event::Wake if self.resend_ns.is_some_and(|at_ns| at_ns <= now_ns) => {
                self.resend_ns = None;
                let n_before = out.len();
                self.resend(out);
                self.counts.resent += (out.len() - n_before) as u64;
            }
            Event::Wake => {}
        }
        self.resend_ns = match self.resend_ns {
            _ if !self.waits_for_answers() => None,
            Some(at_ns) => Some(at_ns),
            None => Some(now_ns.saturating_add(self.rules.patience_ns)),
        };
        Ok(())
    }

    /// Whether an event is possible after the events before it. Returns the number of the server or the request that it
    /// is about.
    fn fits(&self, event: Event) -> Result<u32, Stray> {
        match event {
            Event::Begin { .. } | Event::Wake => Ok(0),
            Event::Received(message) => {
                let number = self.is_for_this(message.link())?;
                let contact = &self.servers[number as usize];
                let (server, epoch) = (contact.server.0, message.link().epoch);
                // Only the news of a restart comes from a later epoch than the one that was asked.
                if (epoch > contact.epoch) != matches!(message, ToClient::Restarted(_)) {
                    return Err(Stray::OtherEpoch { server, epoch });
                }
                match message {
                    ToClient::Answer(Answer { request, turn, .. }) => {
                        let is_asked =
                            |asked: u32| contact.turn == turn && self.requests[asked as usize].row == request;
                        let is_open = contact.asked.is_some_and(is_asked);
                        if is_open { Ok(number) } else { Err(Stray::NotAsked { server, turn }) }
                    }
                    ToClient::Done(Done { turn, .. }) => {
                        let is_so = self.is_done() && turn == contact.turn;
                        if is_so { Ok(number) } else { Err(Stray::NotDone { server }) }
                    }
                    ToClient::Restarted(_) => Ok(number),
                }
            }
            Event::Served { request: row } => {
                let number = self.requests.binary_search_by_key(&row, |request| request.row).ok();
                let is_granted = |&number: &usize| self.requests[number].state == State::Granted;
                let not_granted = Stray::NotGranted { client: self.id.0, request: row };
                number.filter(is_granted).map(|number| number as u32).ok_or(not_granted)
            }
            Event::Down { server } => self.contact(server),
            Event::Up { server, epoch } => {
                let number = self.contact(server)?;
                let is_old = epoch < self.servers[number as usize].epoch;
                if is_old { Err(Stray::OtherEpoch { server: server.0, epoch }) } else { Ok(number) }
            }
        }
    }

    /// The number of the server that sent a message, if the message is for the current life of this client.
    fn is_for_this(&self, link: Link) -> Result<u32, Stray> {
        let Link { batch, client, server, life, epoch } = link;
        if batch != self.rules.batch {
            return Err(Stray::OtherBatch { batch });
        }
        if client != self.id {
            return Err(Stray::NotThisClient { client: client.0 });
        }
        let number = self.contact(server)?;
        let contact = &self.servers[number as usize];
        if life != contact.life {
            return Err(Stray::EarlierLife { client: client.0 });
        }
        if epoch < contact.epoch {
            return Err(Stray::OtherEpoch { server: server.0, epoch });
        }
        Ok(number)
    }

    fn on_up(&mut self, number: u32, epoch: u64, out: &mut Vec<Action>) {
        let contact = &mut self.servers[number as usize];
        let was_down = std::mem::take(&mut contact.is_down);
        if contact.epoch < epoch {
            contact.epoch = epoch;
            self.give_up(number, out);
        } else if was_down {
            self.list_again();
        }
    }

    /// Takes back everything that a server has not served.
    fn give_up(&mut self, number: u32, out: &mut Vec<Action>) {
        let contact = &mut self.servers[number as usize];
        contact.life += 1;
        contact.turn = 0;
        // If it has ever heard from the client, it must learn of the new life.
        contact.knows_done &= !contact.was_asked;
        let server = contact.server;
        if let Some(request) = contact.asked.take() {
            self.n_asked -= 1;
            self.tried.push(number);
            self.make_pending(request);
        }
        let (mut lost, mut kept) = (Vec::new(), Vec::new());
        for won in std::mem::take(&mut self.won) {
            let request = self.number(won.request);
            let is_lost = won.server == server && self.requests[request as usize].state == State::Granted;
            if is_lost { lost.push((request, won)) } else { kept.push(won) }
        }
        self.won = kept;
        self.counts.given_up += lost.len() as u64;
        for (request, won) in lost {
            self.degree += self.requests[request as usize].blocks;
            self.make_pending(request);
            out.push(Action::GiveUp(won));
        }
        self.list_again();
    }

    fn make_pending(&mut self, request: u32) {
        self.requests[request as usize].state = State::Pending;
        if self.rules.choose == Choose::Lot {
            self.returned.push(request);
        }
    }

    /// Rebuilds the lists of requests, since some are no longer granted, and of servers that may be asked.
    fn list_again(&mut self) {
        self.held = Shrinking::transposed(self.servers.len(), requests_of(&self.requests, &self.replicas));
        self.passed_over.clear();
        self.lightest.clear();
        for server in 0..self.servers.len() as u32 {
            if !self.is_out[server as usize] {
                self.may_be_asked(server);
            }
        }
    }

    fn begin(&mut self, round: u32, out: &mut Vec<Action>) {
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
        // The next random draws are the same in whatever order the answers have arrived.
        self.returned.sort_unstable();
        self.returned.drain(..).for_each(|request| self.pending.insert(request));
        while self.n_asked + self.n_won_in_round < self.most_bids
            && let Some((request, server)) = self.choose()
        {
            self.note(request, server);
            self.counts.bids += 1;
            self.requests[request as usize].state = State::Asked;
            let contact = &mut self.servers[server as usize];
            contact.turn += 1;
            contact.asked = Some(request);
            (contact.was_asked, contact.knows_done) = (true, false);
            self.n_asked += 1;
            self.is_out[server as usize] = true;
            out.push(self.bid(server, request));
        }
    }

    fn bid(&self, server: u32, request: u32) -> Action {
        let Contact { turn, .. } = self.servers[server as usize];
        let Request { row: request, blocks, .. } = self.requests[request as usize];
        let bid = Bid { link: self.link(server), request, blocks, degree: self.degree, turn };
        Action::Send { server: bid.link.server, message: ToServer::Bid(bid) }
    }

    fn link(&self, server: u32) -> Link {
        let Contact { server, life, epoch, .. } = self.servers[server as usize];
        Link { batch: self.rules.batch, client: self.id, server, life, epoch }
    }

    fn may_be_asked(&mut self, server: u32) {
        if let Choose::Lightest(ties) = self.rules.choose {
            let Contact { server: id, workload, .. } = self.servers[server as usize];
            self.lightest.push(Reverse((workload, ties.rank(self.id.0, id.0), server)));
        }
    }

    /// Chooses a request, and a server that has not been asked in this round.
    fn choose(&mut self) -> Option<(u32, u32)> {
        match self.rules.choose {
            Choose::Lightest(_) => self.choose_lightest(),
            Choose::Lot => self.choose_by_lot(),
        }
    }

    fn choose_lightest(&mut self) -> Option<(u32, u32)> {
        while let Some(Reverse((.., server))) = self.lightest.pop() {
            if self.servers[server as usize].is_down {
                continue;
            }
            let state = |request: u32| self.requests[request as usize].state;
            let is_granted = |request| state(request).is_granted();
            let oldest =
                self.held.find(server, usize::MAX, is_granted, |request| state(request) == State::Pending);
            if let Some(request) = oldest {
                return Some((request, server));
            }
            // A server with nothing left need not be asked again; a request with a bid elsewhere may come back.
            if !self.held.is_known_to_be_empty(server) {
                self.passed_over.push(server);
            }
        }
        None
    }

    fn choose_by_lot(&mut self) -> Option<(u32, u32)> {
        /// After this many requests that cannot be bid for, few can.
        const MOST_DRAWS: usize = 32;
        if !(0..self.servers.len() as u32).any(|server| self.can_be_asked(server)) {
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
        for server in 0..self.servers.len() as u32 {
            if !self.can_be_asked(server) {
                continue;
            }
            let is_granted = |request| state(request).is_granted();
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

    fn can_be_asked(&self, server: u32) -> bool {
        !self.is_out[server as usize] && !self.servers[server as usize].is_down
    }

    /// Draws one of the servers that hold a request and have not been asked in this round.
    fn draw_replica(&mut self, request: u32) -> Option<u32> {
        let start = if request == 0 { 0 } else { self.requests[request as usize - 1].replicas_end };
        let end = self.requests[request as usize].replicas_end;
        let replicas = &self.replicas[start as usize..end as usize];
        let (is_out, servers) = (&self.is_out, &self.servers);
        let can_be_asked = |&server: &u32| !is_out[server as usize] && !servers[server as usize].is_down;
        let free = replicas.iter().copied().filter(can_be_asked);
        let n = free.clone().count() as u32;
        let drawn = (n > 0).then(|| self.draw.below(n));
        drawn.and_then(|k| free.clone().nth(k as usize))
    }

    fn on_answer(&mut self, number: u32, answer: Answer, out: &mut Vec<Action>) {
        let contact = &mut self.servers[number as usize];
        let Some(request) = contact.asked.take() else { return };
        contact.workload = answer.workload;
        self.tried.push(number);
        self.n_asked -= 1;
        let Some(round) = answer.granted else {
            self.counts.rejected += 1;
            self.make_pending(request);
            return;
        };
        let of_request = &mut self.requests[request as usize];
        of_request.state = State::Granted;
        self.degree -= of_request.blocks;
        self.n_won_in_round += 1;
        let won = Won { request: of_request.row, server: contact.server, round };
        self.won.push(won);
        out.push(Action::Read(won));
        if self.is_done() {
            self.tell_done(out);
        }
    }

    /// Whether any server that is up owes an answer.
    fn waits_for_answers(&self) -> bool {
        let has_to_hear = |contact: &Contact| !contact.is_down && !contact.knows_done;
        self.n_asked > 0 || self.is_done() && self.servers.iter().any(has_to_hear)
    }

    /// Resends messages that have not been answered.
    fn resend(&self, out: &mut Vec<Action>) {
        for (number, contact) in (0..).zip(&self.servers) {
            if let Some(request) = contact.asked {
                out.push(self.bid(number, request));
            }
        }
        if self.is_done() {
            self.tell_done(out);
        }
    }

    fn tell_done(&self, out: &mut Vec<Action>) {
        for (number, contact) in (0..).zip(&self.servers) {
            if !contact.knows_done && !contact.is_down {
                let done = Done { link: self.link(number), turn: contact.turn };
                out.push(Action::Send { server: contact.server, message: ToServer::Done(done) });
            }
        }
    }

    /// The local number of a request.
    fn number(&self, row: u32) -> u32 {
        self.requests.binary_search_by_key(&row, |request| request.row).unwrap_or(0) as u32
    }

    /// The local number of a server.
    fn contact(&self, server: ServerId) -> Result<u32, Stray> {
        let number = self.servers.binary_search_by_key(&server, |contact| contact.server);
        number.map(|number| number as u32).map_err(|_| Stray::UnknownServer { server: server.0 })
    }
}

/// Pairs of each request with each of its servers.
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
