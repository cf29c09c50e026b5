//! The server half of bidding.

mod trace;

use std::cmp::Reverse;
use std::collections::BTreeMap;

use hashbrown::HashMap;

use super::{Answer, Bid, Done, Favour, Link, Restarted, Rules, Stray, Tell, ToClient, ToServer};
use crate::draw::{Draw, Seeded, mix};
use crate::model::{ClientId, Server as Node, ServerId};
use crate::trace::Trace;

pub use trace::{Candidate, Counts, Decision};

/// An input to a server: something that happened outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A message has arrived.
    Received(ToServer),
    /// A round ends, or a pass of it: the server decides the bids it has received.
    Close {
        /// Its number.
        round: u32,
    },
    /// A granted request has been served, and need not be remembered.
    Served {
        /// The client.
        client: ClientId,
        /// The request.
        request: u32,
    },
    /// A client has left or is dead: its bids and grants are dropped.
    ClientLeft {
        /// The client.
        client: ClientId,
    },
}

/// An output of a server: something for its driver to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send a message.
    Send {
        /// The client to send it to.
        client: ClientId,
        /// The message.
        message: ToClient,
    },
    /// The server will serve a request.
    Serve(Served),
    /// The server will not serve a request after all.
    Drop(Served),
}

/// A request that a server serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Served {
    /// The client that wants it.
    pub client: ClientId,
    /// The client's number for it.
    pub request: u32,
    /// Its size.
    pub blocks: u64,
    /// The round in which it is served.
    pub round: u32,
}

/// A server with the bids that wait for its decision, and the grants that it has not served yet.
#[derive(Debug)]
pub struct Server {
    id: ServerId,
    node: Node,
    rules: Rules,
    epoch: u64,
    draw: Seeded,
    customers: HashMap<ClientId, Customer>,
    n_done: usize,
    /// Bids to be decided when the round closes.
    open: Vec<Bid>,
    round: u32,
    n_granted_in_round: u32,
    granted: BTreeMap<(ClientId, u32), Served>,
    granted_blocks: u128,
    /// The rest of [`Counts`] is computed on demand.
    counts: Counts,
    trace: Trace<Decision>,
}

/// What a server knows about a client.
#[derive(Debug)]
struct Customer {
    life: u32,
    /// The last bid, and the request it was for.
    turn: u32,
    request: u32,
    /// The answer to it, once it is decided.
    answer: Option<Answer>,
    is_done: bool,
}

impl Server {
    /// A server that has received no bids yet, in its first or a later `epoch`.
    pub fn new(id: ServerId, node: Node, epoch: u64, rules: Rules) -> Self {
        Self {
            id,
            node,
            rules,
            epoch,
            draw: Seeded::new(mix(mix(!rules.seed) ^ u64::from(id.0))),
            customers: HashMap::new(),
            n_done: 0,
            open: Vec::new(),
            round: 0,
            n_granted_in_round: 0,
            granted: BTreeMap::new(),
            granted_blocks: 0,
            counts: Counts::default(),
            trace: Trace::default(),
        }
    }

    /// The requests that are granted and not served yet, by client and request.
    pub fn granted(&self) -> impl Iterator<Item = &Served> {
        self.granted.values()
    }

    /// Whether all clients that it knows of are done.
    pub fn is_over(&self) -> bool {
        self.n_done == self.customers.len()
    }

    /// Handles an event, and appends the resulting actions to `out`. A server acts on events alone. The
    /// time only appears in its [decisions](Self::take_decisions).
    pub fn on_event(&mut self, now_ns: u64, event: Event, out: &mut Vec<Action>) -> Result<(), Stray> {
        match event {
            Event::Received(message) => {
                if self.is_for_this(message.link())? {
                    match message {
                        ToServer::Bid(bid) => self.on_bid(bid, out)?,
                        ToServer::Done(done) => self.on_done(done, out)?,
                    }
                } else {
                    self.counts.outdated += 1;
                    let link = Link { epoch: self.epoch, ..message.link() };
                    out.push(send(link, ToClient::Restarted(Restarted { link })));
                }
            }
            Event::Close { round } => self.close(now_ns, round, out),
            Event::Served { client, request } => {
                let served = self.granted.remove(&(client, request));
                let served = served.ok_or(Stray::NotGranted { client: client.0, request })?;
                self.granted_blocks -= u128::from(served.blocks);
                self.counts.served += 1;
            }
            Event::ClientLeft { client } => {
                if let Some(customer) = self.customers.remove(&client) {
                    self.n_done -= usize::from(customer.is_done);
                    self.drop_all_of(client, out);
                }
            }
        }
        Ok(())
    }

    /// When the server must be woken: never, since its driver closes its rounds.
    pub fn wake_at(&self) -> Option<u64> {
        None
    }

    /// Whether a message is meant for this run of the server, rather than for an earlier one.
    fn is_for_this(&self, link: Link) -> Result<bool, Stray> {
        let Link { batch, client, server, life, epoch } = link;
        if batch != self.rules.batch {
            return Err(Stray::OtherBatch { batch });
        }
        if server != self.id {
            return Err(Stray::NotThisServer { server: server.0 });
        }
        if epoch > self.epoch {
            return Err(Stray::OtherEpoch { server: server.0, epoch });
        }
        if self.customers.get(&client).is_some_and(|customer| life < customer.life) {
            return Err(Stray::EarlierLife { client: client.0 });
        }
        Ok(epoch == self.epoch)
    }

    fn on_bid(&mut self, bid: Bid, out: &mut Vec<Action>) -> Result<(), Stray> {
        let Bid { link: Link { client, life, .. }, request, turn, .. } = bid;
        let known = self.customers.get(&client).filter(|customer| customer.life == life);
        if let Some(customer) = known.filter(|customer| (customer.turn, customer.request) == (turn, request))
        {
            // This bid was received before: if it is decided, it has its answer.
            out.extend(customer.answer.map(|answer| send(bid.link, ToClient::Answer(answer))));
            return Ok(());
        }
        // A client has one open bid at a time.
        let last = known.map_or(0, |customer| customer.turn);
        let has_open_bid = last > 0 && known.is_some_and(|customer| customer.answer.is_none());
        if Some(turn) != last.checked_add(1) || has_open_bid {
            return Err(Stray::OutOfTurn { client: client.0, turn });
        }
        if known.is_some() && self.granted.contains_key(&(client, request)) {
            return Err(Stray::GrantedBefore { request });
        }
        let customer = self.customer(bid.link, out);
        (customer.turn, customer.request, customer.answer) = (turn, request, None);
        let was_done = std::mem::replace(&mut customer.is_done, false);
        self.n_done -= usize::from(was_done);
        self.open.push(bid);
        Ok(())
    }

    fn on_done(&mut self, done: Done, out: &mut Vec<Action>) -> Result<(), Stray> {
        let Done { link, turn } = done;
        let known = self.customers.get(&link.client).filter(|customer| customer.life == link.life);
        if known.map_or(0, |customer| customer.turn) != turn {
            return Err(Stray::OutOfTurn { client: link.client.0, turn });
        }
        let customer = self.customer(link, out);
        let was_done = std::mem::replace(&mut customer.is_done, true);
        self.n_done += usize::from(!was_done);
        out.push(send(link, ToClient::Done(done)));
        Ok(())
    }

    /// The client in its current life. Everything of a former life is dropped.
    fn customer(&mut self, link: Link, out: &mut Vec<Action>) -> &mut Customer {
        let Link { client, life, .. } = link;
        if self.customers.get(&client).is_some_and(|customer| customer.life < life) {
            let former = self.customers.remove(&client);
            self.n_done -= usize::from(former.is_some_and(|customer| customer.is_done));
            self.drop_all_of(client, out);
        }
        let new = || Customer { life, turn: 0, request: 0, answer: None, is_done: false };
        self.customers.entry(client).or_insert_with(new)
    }

    fn drop_all_of(&mut self, client: ClientId, out: &mut Vec<Action>) {
        self.open.retain(|bid| bid.link.client != client);
        let of_client = self.granted.range((client, 0)..=(client, u32::MAX));
        let dropped: Vec<Served> = of_client.map(|(_, &served)| served).collect();
        for served in &dropped {
            self.granted.remove(&(client, served.request));
        }
        self.granted_blocks -= dropped.iter().map(|served| u128::from(served.blocks)).sum::<u128>();
        self.counts.dropped += dropped.len() as u64;
        out.extend(dropped.into_iter().map(Action::Drop));
    }

    /// Grants as many bids as there are slots, and answers all of them.
    fn close(&mut self, now_ns: u64, round: u32, out: &mut Vec<Action>) {
        if round != self.round {
            (self.round, self.n_granted_in_round) = (round, 0);
        }
        let mut bids = std::mem::take(&mut self.open);
        let n_free = self.node.slots.saturating_sub(self.n_granted_in_round);
        let n_granted = bids.len().min(n_free as usize);
        self.put_favoured_first(&mut bids, n_granted);
        self.note(now_ns, round, &bids, n_granted);
        let (granted, rejected) = bids.split_at(n_granted);
        self.counts.granted += granted.len() as u64;
        self.counts.rejected += rejected.len() as u64;
        for &Bid { link: Link { client, .. }, request, blocks, .. } in granted {
            let served = Served { client, request, blocks, round };
            self.granted.insert((client, request), served);
            self.granted_blocks += u128::from(blocks);
            self.n_granted_in_round += 1;
            out.push(Action::Serve(served));
        }
        let turned_away = match self.rules.tell {
            Tell::Granted => 0,
            Tell::Wanted => rejected.iter().map(|bid| u128::from(bid.blocks)).sum(),
        };
        let told = u64::try_from(self.granted_blocks + turned_away).unwrap_or(u64::MAX);
        let workload = self.node.done_in_slots(told).rounded();
        for (k, bid) in bids.iter().enumerate() {
            let granted = (k < n_granted).then_some(round);
            let Bid { link, request, turn, .. } = *bid;
            let answer = Answer { link, request, turn, granted, workload };
            if let Some(customer) = self.customers.get_mut(&link.client) {
                customer.answer = Some(answer);
            }
            out.push(send(link, ToClient::Answer(answer)));
        }
        bids.clear();
        self.open = bids;
    }

    fn put_favoured_first(&mut self, bids: &mut [Bid], n_favoured: usize) {
        let id = self.id.0;
        match self.rules.favour {
            Favour::HighestDegree(ties) => {
                let rank = |bid: &Bid| {
                    let client = bid.link.client;
                    (Reverse(bid.degree), ties.rank(id, client.0), client)
                };
                if n_favoured < bids.len() {
                    bids.select_nth_unstable_by_key(n_favoured, rank);
                }
                bids[..n_favoured].sort_unstable_by_key(rank);
            }
            Favour::HighestDegreeThenLot => {
                self.shuffle(bids, usize::MAX);
                bids.sort_by_key(|bid| Reverse(bid.degree));
            }
            Favour::Lot => self.shuffle(bids, n_favoured),
        }
    }

    /// Draws the first few bids at random, in whatever order they arrived.
    fn shuffle(&mut self, bids: &mut [Bid], n_drawn: usize) {
        bids.sort_unstable_by_key(|bid| bid.link.client);
        for k in 0..n_drawn.min(bids.len()) {
            let rest = (bids.len() - k) as u32;
            bids.swap(k, k + self.draw.below(rest) as usize);
        }
    }
}

fn send(link: Link, message: ToClient) -> Action {
    Action::Send { client: link.client, message }
}
