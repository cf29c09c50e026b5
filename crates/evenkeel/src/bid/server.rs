//! The server half of bidding.

use std::cmp::Reverse;

use super::{Answer, Bid, Done, Favour, Rules, Stray, Tell, ToClient, ToServer};
use crate::draw::{Draw, Seeded, mix};
use crate::model::{ClientId, Part, Server as Node, ServerId};

/// What happens to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A message has arrived.
    Received(ToServer),
    /// A round ends, or a pass of it: the bids that have come in are to be decided.
    Close {
        /// Its number.
        round: u32,
    },
}

/// A request that a server holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// The request's row in the batch.
    pub request: u32,
    /// Whose it is.
    pub client: ClientId,
    /// Its size.
    pub blocks: u64,
}

/// A server with what it holds, the bids that wait for its decision, and what it has granted.
#[derive(Debug)]
pub struct Server {
    id: ServerId,
    node: Node,
    rules: Rules,
    draw: Seeded,
    /// The requests that are held, ascending, apart from what else is known of them: they are searched all the time.
    requests: Vec<u32>,
    held: Vec<Held>,
    is_granted: Vec<bool>,
    /// By ascending client.
    customers: Vec<Customer>,
    /// The customer of each request that is held.
    customer_of: Vec<u32>,
    n_done: usize,
    /// Bids to be decided when the round closes, with the places of what they are for.
    open: Vec<Offer>,
    round: u32,
    n_granted_in_round: u32,
    granted_blocks: u64,
    granted: Vec<(u32, Part)>,
}

/// A bid and the place among all that is held of what it is for.
#[derive(Clone, Copy, Debug)]
struct Offer {
    bid: Bid,
    place: usize,
}

/// What a server knows of a client.
#[derive(Debug)]
struct Customer {
    client: ClientId,
    /// The last bid, and for what it was.
    turn: u32,
    request: u32,
    /// What it was answered, once it is decided.
    answer: Option<Answer>,
    is_done: bool,
}

impl Server {
    /// A server that holds these requests, by ascending row.
    pub fn new(id: ServerId, node: Node, held: Vec<Held>, rules: Rules) -> Self {
        let mut clients: Vec<ClientId> = held.iter().map(|held| held.client).collect();
        clients.sort_unstable();
        clients.dedup();
        let number = |held: &Held| clients.binary_search(&held.client).unwrap_or(0) as u32;
        let customer =
            |&client: &ClientId| Customer { client, turn: 0, request: 0, answer: None, is_done: false };
        Self {
            id,
            node,
            rules,
            draw: Seeded::new(mix(mix(!rules.seed) ^ u64::from(id.0))),
            is_granted: vec![false; held.len()],
            customer_of: held.iter().map(number).collect(),
            customers: clients.iter().map(customer).collect(),
            requests: held.iter().map(|held| held.request).collect(),
            held,
            n_done: 0,
            open: Vec::new(),
            round: 0,
            n_granted_in_round: 0,
            granted_blocks: 0,
            granted: Vec::new(),
        }
    }

    /// What was granted so far, with the rounds, in order.
    pub fn granted(&self) -> &[(u32, Part)] {
        &self.granted
    }

    /// Whether all clients that have requests here are done.
    pub fn is_over(&self) -> bool {
        self.n_done == self.customers.len()
    }

    /// Takes an event in; messages to clients come out.
    pub fn on_event(&mut self, event: Event, out: &mut Vec<(ClientId, ToClient)>) -> Result<(), Stray> {
        match event {
            Event::Received(ToServer::Bid(bid)) => {
                self.is_for_this(bid.batch, bid.server)?;
                self.on_bid(bid, out)
            }
            Event::Received(ToServer::Done(done)) => {
                self.is_for_this(done.batch, done.server)?;
                self.on_done(done, out)
            }
            Event::Close { round } => {
                self.close(round, out);
                Ok(())
            }
        }
    }

    fn on_bid(&mut self, bid: Bid, out: &mut Vec<(ClientId, ToClient)>) -> Result<(), Stray> {
        let Bid { client: ClientId(client), request, turn, .. } = bid;
        let place = self.requests.binary_search(&request).map_err(|_| Stray::NotHeld { request })?;
        if self.held[place].client != bid.client {
            return Err(Stray::NotItsRequest { client, request });
        }
        let customer = &mut self.customers[self.customer_of[place] as usize];
        if (turn, request) == (customer.turn, customer.request) {
            // Said before: if it is decided, then so is the answer.
            out.extend(customer.answer.map(|answer| (bid.client, ToClient::Answer(answer))));
            return Ok(());
        }
        if customer.is_done {
            return Err(Stray::AfterDone { client });
        }
        // A client bids one by one.
        let has_open_bid = customer.turn > 0 && customer.answer.is_none();
        if Some(turn) != customer.turn.checked_add(1) || has_open_bid {
            return Err(Stray::OutOfTurn { client, turn });
        }
        if self.is_granted[place] {
            return Err(Stray::GrantedBefore { request });
        }
        (customer.turn, customer.request, customer.answer) = (turn, request, None);
        self.open.push(Offer { bid, place });
        Ok(())
    }

    fn on_done(&mut self, done: Done, out: &mut Vec<(ClientId, ToClient)>) -> Result<(), Stray> {
        let client = done.client;
        let number = self.customers.binary_search_by_key(&client, |customer| customer.client);
        let number = number.map_err(|_| Stray::UnknownClient { client: client.0 })?;
        let customer = &mut self.customers[number];
        self.n_done += usize::from(!customer.is_done);
        customer.is_done = true;
        out.push((client, ToClient::Done(done)));
        Ok(())
    }

    /// Grants as many bids as there are slots, and answers all.
    fn close(&mut self, round: u32, out: &mut Vec<(ClientId, ToClient)>) {
        if round != self.round {
            (self.round, self.n_granted_in_round) = (round, 0);
        }
        let mut offers = std::mem::take(&mut self.open);
        let n_free = self.node.slots.saturating_sub(self.n_granted_in_round);
        let n_granted = offers.len().min(n_free as usize);
        self.put_favoured_first(&mut offers, n_granted);
        let (granted, rejected) = offers.split_at(n_granted);
        for &Offer { place, .. } in granted {
            let Held { request, blocks, .. } = self.held[place];
            self.is_granted[place] = true;
            self.granted_blocks += blocks;
            self.granted.push((round, Part { request, server: self.id, blocks }));
            self.n_granted_in_round += 1;
        }
        let turned_away = match self.rules.tell {
            Tell::Granted => 0,
            Tell::Wanted => rejected.iter().map(|offer| self.held[offer.place].blocks).sum(),
        };
        let workload = self.node.done_in_slots(self.granted_blocks + turned_away).rounded();
        for (k, Offer { bid, place }) in offers.iter().enumerate() {
            let granted = (k < n_granted).then_some(round);
            let Bid { batch, client, request, turn, .. } = *bid;
            let answer = Answer { batch, server: self.id, client, request, turn, granted, workload };
            self.customers[self.customer_of[*place] as usize].answer = Some(answer);
            out.push((client, ToClient::Answer(answer)));
        }
        offers.clear();
        self.open = offers;
    }

    fn is_for_this(&self, batch: u64, server: ServerId) -> Result<(), Stray> {
        self.rules.is_of_this(batch)?;
        if server == self.id { Ok(()) } else { Err(Stray::NotThisServer { server: server.0 }) }
    }

    fn put_favoured_first(&mut self, offers: &mut [Offer], n_favoured: usize) {
        let id = self.id.0;
        match self.rules.favour {
            Favour::HighestDegree(ties) => {
                let rank = |Offer { bid, .. }: &Offer| {
                    (Reverse(bid.degree), ties.rank(id, bid.client.0), bid.client)
                };
                if n_favoured < offers.len() {
                    offers.select_nth_unstable_by_key(n_favoured, rank);
                }
                offers[..n_favoured].sort_unstable_by_key(rank);
            }
            Favour::HighestDegreeThenLot => {
                self.shuffle(offers, usize::MAX);
                offers.sort_by_key(|offer| Reverse(offer.bid.degree));
            }
            Favour::Lot => self.shuffle(offers, n_favoured),
        }
    }

    /// Draws the first few, whatever order the bids came in.
    fn shuffle(&mut self, offers: &mut [Offer], n_drawn: usize) {
        offers.sort_unstable_by_key(|offer| offer.bid.client);
        for k in 0..n_drawn.min(offers.len()) {
            let rest = (offers.len() - k) as u32;
            offers.swap(k, k + self.draw.below(rest) as usize);
        }
    }
}
