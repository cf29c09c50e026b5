//! Bidding over a network that loses, doubles, delays and makes up messages: each request is granted exactly once.

use evenkeel::bid::client::{self, Client};
use evenkeel::bid::server::{self, Server};
use evenkeel::bid::{Answer, Bid, Choose, Done, Rules, Stray, ToClient, ToServer, rounds};
use evenkeel::draw::{Draw, Seeded, Ties};
use evenkeel::model::{self, Batch, ClientId, Cluster, Fixed, ServerId, Speed};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select, subsequence};

use crate::support::{Case, Request, Scene, TAME, config};

/// Batches of a few requests, half of them of one block each, on clusters of which half are of equal servers.
pub(crate) fn batches(
    most_clients: usize,
    most_servers: usize,
    most_requests: usize,
) -> impl Strategy<Value = Scene> {
    let sizes = (1..=most_clients, 1..=most_servers, any::<bool>(), any::<bool>());
    sizes.prop_flat_map(move |(n_clients, n_servers, is_unit, is_equal)| {
        let blocks = if is_unit { 1..=1_u64 } else { 0..=4 };
        let replicas = subsequence((0..n_servers).collect::<Vec<_>>(), 1..=n_servers).prop_shuffle();
        let request = (0..n_clients, blocks, replicas).prop_map(|(client, blocks, replicas)| Request {
            client,
            blocks,
            replicas,
        });
        let server = (select(&TAME[..]), 1..=3_u32, 0..=6_u64).prop_map(move |(speed, slots, backlog)| {
            let speed = Speed::from_millionths(speed).expect("a valid speed");
            if is_equal { model::Server::default() } else { model::Server { speed, slots, backlog } }
        });
        let client =
            (1..=3_u32).prop_map(move |slots| model::Client { slots: if is_equal { 1 } else { slots } });
        (vec(request, 0..=most_requests), vec(server, n_servers), vec(client, n_clients)).prop_map(
            move |(requests, servers, clients)| Scene {
                case: Case { n_clients, n_servers, requests },
                servers,
                clients,
                limit: None,
            },
        )
    })
}

/// The rules of all policies that bid.
fn rules() -> impl Strategy<Value = Rules> {
    (0..10_u32, any::<u64>(), 1..=4_u32).prop_map(|(which, seed, n)| {
        let (plain, hashed) = (Rules::hdlwf(Ties::LowestId, seed), Rules::hdlwf(Ties::Hashed(seed), seed));
        match which {
            0 => plain,
            1 => hashed,
            2 => Rules { passes: n, ..plain },
            3 => Rules { bids: n, ..plain },
            4 => Rules { passes: n, bids: n, ..hashed },
            5 => Rules::random_bid(seed),
            6 => Rules::hdf_dist(seed),
            7 => Rules::mpasses(n, seed),
            8 => Rules::rebid(n, Ties::Hashed(seed), seed),
            _ => Rules { bids: n, ..Rules::mpasses(n, seed) },
        }
    })
}

/// Something that happens. Whom it concerns is drawn.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// A client begins its next round.
    Begin,
    /// A client begins the round again in which it is.
    BeginAgain,
    Resend,
    /// A server closes its next round.
    Close,
    /// A server closes a further pass of the same round.
    CloseAgain,
    /// A message on the way arrives, whichever it is.
    Deliver,
    /// It arrives, and will arrive once more.
    Duplicate,
    Drop,
    /// A message that was said at any time arrives.
    Replay,
    /// A message arrives that nobody has sent.
    Forge,
}

fn steps() -> impl Strategy<Value = Vec<(Step, Index, Index)>> {
    let step = prop_oneof![
        3 => Just(Step::Begin),
        1 => Just(Step::BeginAgain),
        1 => Just(Step::Resend),
        3 => Just(Step::Close),
        1 => Just(Step::CloseAgain),
        8 => Just(Step::Deliver),
        2 => Just(Step::Duplicate),
        1 => Just(Step::Drop),
        2 => Just(Step::Replay),
        2 => Just(Step::Forge),
    ];
    vec((step, any::<Index>(), any::<Index>()), 0..150)
}

#[derive(Clone, Copy, Debug)]
enum Message {
    ToServer(ServerId, ToServer),
    ToClient(ClientId, ToClient),
}

/// Clients, servers, and what is on the way between them.
struct Network {
    batch: Batch,
    cluster: Cluster,
    clients: Vec<Client>,
    servers: Vec<Server>,
    client_rounds: Vec<u32>,
    server_rounds: Vec<u32>,
    on_the_way: Vec<Message>,
    /// All that was ever said.
    said: Vec<Message>,
}

impl Network {
    fn new(scene: &Scene, rules: Rules) -> Self {
        let (batch, cluster) = scene.build();
        Self {
            clients: rounds::clients(&batch, &cluster, rules),
            servers: rounds::servers(&batch, &cluster, rules),
            client_rounds: vec![0; batch.n_clients()],
            server_rounds: vec![0; batch.n_servers()],
            batch,
            cluster,
            on_the_way: Vec::new(),
            said: Vec::new(),
        }
    }

    fn say(&mut self, message: Message) {
        self.on_the_way.push(message);
        self.said.push(message);
    }

    /// Something happens to a client. If it was astray, nothing has changed and nothing is said.
    fn at_client(&mut self, client: usize, event: client::Event) -> Result<(), Stray> {
        let mut out = Vec::new();
        let before = format!("{:?}", self.clients[client]);
        let result = self.clients[client].on_event(event, &mut out);
        if result.is_err() {
            assert!(out.is_empty(), "{result:?} said {out:?}");
            assert_eq!(before, format!("{:?}", self.clients[client]), "{result:?} changed something");
        }
        out.into_iter().for_each(|(to, message)| self.say(Message::ToServer(to, message)));
        self.check();
        result
    }

    /// The same at a server.
    fn at_server(&mut self, server: usize, event: server::Event) -> Result<(), Stray> {
        let mut out = Vec::new();
        let before = format!("{:?}", self.servers[server]);
        let result = self.servers[server].on_event(event, &mut out);
        if result.is_err() {
            assert!(out.is_empty(), "{result:?} said {out:?}");
            assert_eq!(before, format!("{:?}", self.servers[server]), "{result:?} changed something");
        }
        out.into_iter().for_each(|(to, message)| self.say(Message::ToClient(to, message)));
        self.check();
        result
    }

    fn deliver(&mut self, message: Message) -> Result<(), Stray> {
        match message {
            Message::ToServer(to, message) => self.at_server(to.index(), server::Event::Received(message)),
            Message::ToClient(to, message) => self.at_client(to.index(), client::Event::Received(message)),
        }
    }

    /// Nothing is granted twice, nor by who does not hold it, nor beyond a server's slots; clients know only what is so.
    fn check(&self) {
        let mut grants: Vec<Option<(ServerId, u32)>> = vec![None; self.batch.n_requests()];
        for (id, server) in (0..).map(ServerId).zip(&self.servers) {
            for &(round, part) in server.granted() {
                let i = part.request as usize;
                let before = grants[i].replace((part.server, round));
                assert_eq!(before, None, "request {i} is granted twice");
                assert!(self.batch.replicas().of(i).contains(&id), "request {i} is not held by {id:?}");
                assert_eq!((part.server, part.blocks), (id, self.batch.blocks(i)));
            }
            assert!(server.granted().is_sorted_by_key(|grant| grant.0));
            for round in server.granted().chunk_by(|a, b| a.0 == b.0) {
                assert!(round.len() <= self.cluster.server(id).slots as usize, "beyond its slots");
            }
        }
        for (id, client) in (0..).map(ClientId).zip(&self.clients) {
            for won in client.won() {
                let i = won.request as usize;
                assert_eq!(self.batch.client(i), id);
                let grant = grants[i].take();
                assert_eq!(
                    grant,
                    Some((won.server, won.round)),
                    "request {i} was not granted so, or known twice"
                );
            }
        }
    }

    /// All that is on the way arrives, and what that leads to.
    fn deliver_all(&mut self, latest_first: bool) {
        while !self.on_the_way.is_empty() {
            let mut messages = std::mem::take(&mut self.on_the_way);
            if latest_first {
                messages.reverse();
            }
            // What was doubled before may be astray now.
            messages.into_iter().for_each(|message| _ = self.deliver(message));
        }
    }

    fn is_over(&self) -> bool {
        self.clients.iter().all(Client::is_over) && self.servers.iter().all(Server::is_over)
    }

    fn begin(&mut self, client: usize) {
        self.client_rounds[client] += 1;
        let round = self.client_rounds[client];
        self.at_client(client, client::Event::Begin { round }).expect("not a message");
    }

    fn close(&mut self, server: usize) {
        self.server_rounds[server] += 1;
        let round = self.server_rounds[server];
        self.at_server(server, server::Event::Close { round }).expect("not a message");
    }

    /// From now on nothing is lost. Every round then grants something.
    fn finish(&mut self) {
        for round in 0.. {
            if self.is_over() {
                break;
            }
            assert!(round < self.batch.n_requests() + 2, "not over after {round} rounds");
            for client in 0..self.clients.len() {
                self.begin(client);
                self.at_client(client, client::Event::Resend).expect("not a message");
            }
            self.deliver_all(round % 2 == 0);
            (0..self.servers.len()).for_each(|server| self.close(server));
            self.deliver_all(round % 3 == 0);
        }
        let n_granted: usize = self.servers.iter().map(|server| server.granted().len()).sum();
        let n_won: usize = self.clients.iter().map(|client| client.won().len()).sum();
        assert_eq!((n_granted, n_won), (self.batch.n_requests(), self.batch.n_requests()));
    }

    /// The last bid of a client at a server.
    fn last_turn(&self, client: ClientId, server: ServerId) -> u32 {
        let turn = |message: &Message| match *message {
            Message::ToServer(to, ToServer::Bid(bid)) if (to, bid.client) == (server, client) => bid.turn,
            _ => 0,
        };
        self.said.iter().map(turn).max().unwrap_or(0)
    }

    fn has_requests_at(&self, client: ClientId, server: ServerId) -> bool {
        let mut requests = 0..self.batch.n_requests();
        requests.any(|i| self.batch.client(i) == client && self.batch.replicas().of(i).contains(&server))
    }

    /// Sends what nobody has said, and asserts that it is turned away, or at least that it does nothing.
    fn forge(&mut self, a: usize, b: usize) {
        let (n_clients, n_servers) = (self.clients.len(), self.servers.len());
        let (client, server) = (ClientId((a % n_clients) as u32), ServerId((b % n_servers) as u32));
        let n_requests = self.batch.n_requests() as u32;
        let request = (a / n_clients) as u32 % n_requests.max(1);
        let last = self.last_turn(client, server);
        let turn = [0, 1, last, last.saturating_add(1), u32::MAX - 1, u32::MAX][a / 7 % 6];
        let bid = Bid { batch: 0, client, server, request, degree: u64::MAX, turn };
        let to_server = |message| Message::ToServer(server, message);
        let to_client = |message| Message::ToClient(client, message);
        let answer = |server, turn| {
            let granted = [None, Some(0), Some(u32::MAX)][a / 3 % 3];
            to_client(ToClient::Answer(Answer {
                batch: 0,
                server,
                client,
                request,
                turn,
                granted,
                workload: u64::MAX.into(),
            }))
        };
        match b / n_servers % 8 {
            0 => {
                let request = [n_requests, u32::MAX][a % 2];
                let stray = self.deliver(to_server(ToServer::Bid(Bid { request, ..bid })));
                assert_eq!(stray, Err(Stray::NotHeld { request }));
            }
            1 if n_requests > 0 => {
                let i = request as usize;
                let is_held = self.batch.replicas().of(i).contains(&server);
                let is_own = self.batch.client(i) == client;
                if !(is_held && is_own) {
                    let stray = self.deliver(to_server(ToServer::Bid(bid)));
                    assert!(
                        matches!(stray, Err(Stray::NotHeld { .. } | Stray::NotItsRequest { .. })),
                        "{stray:?}"
                    );
                } else if turn <= last {
                    // Answered before, though perhaps for another request. If the real bid were still on the way, nobody
                    // could tell.
                    if self.is_known(server, client, turn) {
                        _ = self.deliver(to_server(ToServer::Bid(bid)));
                    }
                }
            }
            2 => {
                let client = ClientId([n_clients as u32, u32::MAX][a % 2]);
                let stray = self.deliver(to_server(ToServer::Done(Done { batch: 0, client, server })));
                assert_eq!(stray, Err(Stray::UnknownClient { client: client.0 }));
                if n_requests > 0 && self.batch.replicas().of(request as usize).contains(&server) {
                    let stray = self.deliver(to_server(ToServer::Bid(Bid { client, ..bid })));
                    assert_eq!(stray, Err(Stray::NotItsRequest { client: client.0, request }));
                }
            }
            3 if !self.has_requests_at(client, server) => {
                let stray = self.deliver(to_server(ToServer::Done(Done { batch: 0, client, server })));
                assert_eq!(stray, Err(Stray::UnknownClient { client: client.0 }));
                let stray = self.deliver(to_client(ToClient::Done(Done { batch: 0, client, server })));
                assert_eq!(stray, Err(Stray::UnknownServer { server: server.0 }));
                let stray = self.deliver(answer(server, turn));
                assert_eq!(stray, Err(Stray::UnknownServer { server: server.0 }));
            }
            4 => {
                let server = ServerId([n_servers as u32, u32::MAX][a % 2]);
                let stray = Err(Stray::UnknownServer { server: server.0 });
                assert_eq!(self.deliver(answer(server, turn)), stray);
                assert_eq!(self.deliver(to_client(ToClient::Done(Done { batch: 0, client, server }))), stray);
            }
            5 if turn != last && self.has_requests_at(client, server) => {
                let stray = self.deliver(answer(server, turn));
                assert_eq!(stray, Err(Stray::NotAsked { server: server.0, turn }));
            }
            6 if !self.clients[client.index()].is_done() && self.has_requests_at(client, server) => {
                let stray = self.deliver(to_client(ToClient::Done(Done { batch: 0, client, server })));
                assert_eq!(stray, Err(Stray::NotDone { server: server.0 }));
            }
            // A client that is done may say so at any time.
            7 if self.clients[client.index()].is_done() && self.has_requests_at(client, server) => {
                assert_eq!(
                    self.deliver(to_server(ToServer::Done(Done { batch: 0, client, server }))),
                    Ok(())
                );
            }
            _ => {}
        }
    }

    /// Whether a server has heard of that bid of a client, or of a later one, as far as its answers tell.
    fn is_known(&self, server: ServerId, client: ClientId, turn: u32) -> bool {
        self.said.iter().any(|message| {
            matches!(*message, Message::ToClient(to, ToClient::Answer(answer))
                if (to, answer.server) == (client, server) && answer.turn >= turn)
        })
    }

    fn take(&mut self, step: Step, a: Index, b: Index) {
        let (client, server) = (a.index(self.clients.len()), a.index(self.servers.len()));
        let place = (!self.on_the_way.is_empty()).then(|| a.index(self.on_the_way.len()));
        match (step, place) {
            (Step::Begin, _) => self.begin(client),
            (Step::BeginAgain, _) => {
                let round = self.client_rounds[client];
                self.at_client(client, client::Event::Begin { round }).expect("not a message");
            }
            (Step::Resend, _) => {
                self.at_client(client, client::Event::Resend).expect("not a message");
            }
            (Step::Close, _) => self.close(server),
            (Step::CloseAgain, _) => {
                let round = self.server_rounds[server];
                self.at_server(server, server::Event::Close { round }).expect("not a message");
            }
            (Step::Deliver, Some(place)) => {
                let message = self.on_the_way.swap_remove(place);
                _ = self.deliver(message);
            }
            (Step::Duplicate, Some(place)) => _ = self.deliver(self.on_the_way[place]),
            (Step::Drop, Some(place)) => _ = self.on_the_way.swap_remove(place),
            (Step::Replay, _) if !self.said.is_empty() => {
                _ = self.deliver(self.said[a.index(self.said.len())]);
            }
            (Step::Forge, _) => self.forge(a.index(1 << 20), b.index(1 << 20)),
            _ => {}
        }
    }
}

proptest! {
    #![proptest_config(config(3_000))]

    /// Whatever happens on the way, each request is granted once, both sides agree on it, and all hear that it is over.
    #[test]
    fn each_request_is_granted_once_over_a_bad_network(
        scene in batches(6, 5, 20),
        rules in rules(),
        steps in steps(),
    ) {
        let mut network = Network::new(&scene, rules);
        for (step, a, b) in steps {
            network.take(step, a, b);
        }
        network.finish();
        // What comes too late does nothing.
        let granted: Vec<usize> = network.servers.iter().map(|server| server.granted().len()).collect();
        let said = network.said.clone();
        for message in said.into_iter().rev() {
            _ = network.deliver(message);
        }
        (0..64).for_each(|k| network.forge(k * 7919, k * 104_729));
        network.deliver_all(true);
        for (server, n_granted) in granted.into_iter().enumerate() {
            network.close(server);
            prop_assert_eq!(network.servers[server].granted().len(), n_granted);
        }
        for client in 0..network.clients.len() {
            network.begin(client);
        }
        prop_assert!(network.on_the_way.is_empty(), "{:?}", network.on_the_way);
        prop_assert!(network.is_over());
    }

    /// Who hears what first within a round does not matter.
    #[test]
    fn the_order_of_messages_within_a_round_does_not_matter(
        mut scene in batches(6, 5, 20),
        mut rules in rules(),
        seed: u64,
    ) {
        // With lots, one bid at a time: see `lots_do_not_depend_on_the_order_of_answers`.
        if rules.choose == Choose::Lot {
            rules.bids = 1;
            scene.clients.iter_mut().for_each(|client| client.slots = 1);
        }
        let (batch, cluster) = scene.build();
        let expected = rounds::run(&batch, &cluster, rules);
        prop_assert_eq!(shuffled(&batch, &cluster, rules, seed), outcome(&expected));
    }
}

/// Who serves which request in which round, and how many messages that took.
type Outcome = (Vec<(u32, u32, ServerId)>, u64);

fn outcome(bidding: &rounds::Bidding) -> Outcome {
    let grants = bidding.grants.iter();
    let mut grants: Vec<_> = grants.map(|g| (g.round, g.part.request, g.part.server)).collect();
    grants.sort_unstable();
    (grants, bidding.n_messages)
}

fn shuffle<T>(items: &mut [T], draw: &mut Seeded) {
    for k in (1..items.len()).rev() {
        items.swap(k, draw.below(k as u32 + 1) as usize);
    }
}

/// The synchronous driver, with everything within a pass in any order.
fn shuffled(batch: &Batch, cluster: &Cluster, rules: Rules, seed: u64) -> Outcome {
    let mut draw = Seeded::new(seed);
    let mut clients = rounds::clients(batch, cluster, rules);
    let mut servers = rounds::servers(batch, cluster, rules);
    let mut n_messages = 0;
    for round in 0.. {
        if clients.iter().all(Client::is_done) {
            break;
        }
        assert!(round <= batch.n_requests() as u32, "a round without a grant");
        for _pass in 0..rules.passes {
            let (mut bids, mut answers, mut rest) = (Vec::new(), Vec::new(), Vec::new());
            let mut order: Vec<usize> = (0..clients.len()).collect();
            shuffle(&mut order, &mut draw);
            for client in order {
                clients[client].on_event(client::Event::Begin { round }, &mut bids).expect("not a message");
            }
            // Even to look for something to bid for in vain takes lots.
            if bids.is_empty() {
                break;
            }
            shuffle(&mut bids, &mut draw);
            n_messages += bids.len() as u64;
            for (to, bid) in bids {
                servers[to.index()].on_event(server::Event::Received(bid), &mut answers).expect("a good bid");
            }
            assert!(answers.is_empty(), "a server answers when the round closes");
            let mut order: Vec<usize> = (0..servers.len()).collect();
            shuffle(&mut order, &mut draw);
            for server in order {
                servers[server]
                    .on_event(server::Event::Close { round }, &mut answers)
                    .expect("not a message");
            }
            shuffle(&mut answers, &mut draw);
            n_messages += answers.len() as u64;
            for (to, answer) in answers {
                clients[to.index()]
                    .on_event(client::Event::Received(answer), &mut rest)
                    .expect("it was asked");
            }
        }
    }
    let grants = servers.iter().flat_map(Server::granted);
    let mut grants: Vec<_> = grants.map(|(round, part)| (*round, part.request, part.server)).collect();
    grants.sort_unstable();
    (grants, n_messages)
}

/// What a client draws next does not depend on the order in which the answers to several bids arrive.
#[test]
fn lots_do_not_depend_on_the_order_of_answers() {
    let request = |client| Request { client, blocks: 1, replicas: vec![0, 1, 2] };
    let scene = Scene {
        case: Case { n_clients: 3, n_servers: 3, requests: (0..9).map(|i| request(i % 3)).collect() },
        servers: vec![model::Server::default(); 3],
        clients: vec![model::Client { slots: 2 }; 3],
        limit: None,
    };
    let (batch, cluster) = scene.build();
    let rules = Rules::random_bid(1);
    let expected = outcome(&rounds::run(&batch, &cluster, rules));
    for seed in 0..20 {
        assert_eq!(shuffled(&batch, &cluster, rules, seed), expected, "{seed}");
    }
}

/// Two clients with one request each, at the same two servers.
fn two_clients() -> Network {
    let request = |client| Request { client, blocks: 1, replicas: vec![0, 1] };
    let scene = Scene {
        case: Case { n_clients: 2, n_servers: 2, requests: vec![request(0), request(1)] },
        servers: vec![model::Server::default(); 2],
        clients: vec![model::Client::default(); 2],
        limit: None,
    };
    Network::new(&scene, Rules::hdlwf(Ties::LowestId, 0))
}

/// A client's bids at a server are consecutive, so one with a number far ahead was never sent.
#[test]
fn a_bid_from_the_future_is_astray() {
    for (server, turn) in [(0, 2), (1, 2), (0, u32::MAX), (1, u32::MAX)] {
        let mut network = two_clients();
        let bid =
            Bid { batch: 0, client: ClientId(0), server: ServerId(server), request: 0, degree: 1, turn };
        let stray = network.deliver(Message::ToServer(ServerId(server), ToServer::Bid(bid)));
        network.close(server as usize);
        network.finish();
        assert_eq!(stray, Err(Stray::OutOfTurn { client: 0, turn }));
    }
}

/// An answer to another client is not believed, even if the same bid of one's own is open at that server.
#[test]
fn an_answer_to_another_client_is_astray() {
    let mut network = two_clients();
    network.begin(0);
    network.begin(1);
    network.deliver_all(false);
    network.close(0);
    let granted = |message: &Message| {
        matches!(message, Message::ToClient(_, ToClient::Answer(Answer { granted: Some(_), .. })))
    };
    let place = network.on_the_way.iter().position(granted).expect("one is granted");
    let Message::ToClient(to, answer) = network.on_the_way[place] else { panic!("an answer") };
    let stray = network.deliver(Message::ToClient(ClientId(1 - to.0), answer));
    assert!(stray.is_err(), "{stray:?}");
    network.finish();
}

/// That a server has heard of another client's end says nothing about one's own.
#[test]
fn the_end_of_another_client_is_astray() {
    let mut network = two_clients();
    for _ in 0..2 {
        (0..2).for_each(|client| network.begin(client));
        for server in [0, 1] {
            let bids = std::mem::take(&mut network.on_the_way);
            bids.into_iter().for_each(|bid| _ = network.deliver(bid));
            network.close(server);
        }
    }
    let answers = std::mem::take(&mut network.on_the_way);
    answers.into_iter().for_each(|answer| _ = network.deliver(answer));
    assert!(network.clients[0].is_done() && network.clients[1].is_done());
    // Both say so, and all of that is lost.
    network.on_the_way.clear();
    for server in [0, 1].map(ServerId) {
        let done = ToClient::Done(Done { batch: 0, client: ClientId(0), server });
        let stray = network.deliver(Message::ToClient(ClientId(1), done));
        assert!(stray.is_err(), "{stray:?}");
    }
    network.finish();
}

/// While a bid is open its client has made no other; and what was granted is not granted again.
#[test]
fn a_bid_that_its_client_cannot_have_made_is_astray() {
    let request = |client| Request { client, blocks: 1, replicas: vec![0] };
    let scene = Scene {
        case: Case { n_clients: 1, n_servers: 1, requests: vec![request(0), request(0)] },
        servers: vec![model::Server::default()],
        clients: vec![model::Client::default()],
        limit: None,
    };
    let mut network = Network::new(&scene, Rules::hdlwf(Ties::LowestId, 0));
    let bid = |request, turn| {
        let bid = Bid { batch: 0, client: ClientId(0), server: ServerId(0), request, degree: 2, turn };
        Message::ToServer(ServerId(0), ToServer::Bid(bid))
    };
    network.begin(0);
    network.deliver_all(false);
    assert_eq!(network.deliver(bid(1, 2)), Err(Stray::OutOfTurn { client: 0, turn: 2 }));
    network.close(0);
    assert_eq!(network.deliver(bid(0, 2)), Err(Stray::GrantedBefore { request: 0 }));
    // The same again is answered as before, but not for another request.
    assert_eq!(network.deliver(bid(0, 1)), Ok(()));
    assert_eq!(network.deliver(bid(1, 1)), Err(Stray::OutOfTurn { client: 0, turn: 1 }));
    network.finish();
    assert_eq!(network.deliver(bid(1, 3)), Err(Stray::AfterDone { client: 0 }));
}

/// Numbers at the ends of their range are answered like others.
#[test]
fn the_largest_numbers_do_not_overflow() {
    let mut network = two_clients();
    let bid = |client, request| Bid {
        batch: 0,
        client: ClientId(client),
        server: ServerId(0),
        request,
        degree: u64::MAX,
        turn: u32::MAX,
    };
    let mut out = Vec::new();
    for (client, request) in [(0, 0), (1, 1)] {
        let event = server::Event::Received(ToServer::Bid(bid(client, request)));
        _ = network.servers[0].on_event(event, &mut out);
    }
    for round in [u32::MAX, 0, u32::MAX] {
        network.servers[0].on_event(server::Event::Close { round }, &mut out).expect("not a message");
        network.clients[0].on_event(client::Event::Begin { round }, &mut Vec::new()).expect("not a message");
    }
    let answer = Answer {
        batch: 0,
        server: ServerId(0),
        client: ClientId(0),
        request: u32::MAX,
        turn: u32::MAX,
        granted: Some(u32::MAX),
        workload: Fixed::ZERO,
    };
    let stray =
        network.clients[0].on_event(client::Event::Received(ToClient::Answer(answer)), &mut Vec::new());
    assert_eq!(stray, Err(Stray::NotAsked { server: 0, turn: u32::MAX }));
}

/// What is left over from another batch, or a batch that is over, is not believed.
#[test]
fn messages_of_another_batch_are_astray() {
    let mut network = two_clients();
    let (client, server) = (ClientId(0), ServerId(0));
    let stray = Err(Stray::OtherBatch { batch: 1 });
    let bid = Bid { batch: 1, client, server, request: 0, degree: 1, turn: 1 };
    assert_eq!(network.deliver(Message::ToServer(server, ToServer::Bid(bid))), stray);
    let done = Done { batch: 1, client, server };
    assert_eq!(network.deliver(Message::ToServer(server, ToServer::Done(done))), stray);
    network.begin(0);
    let answer =
        Answer { batch: 1, server, client, request: 0, turn: 1, granted: Some(0), workload: Fixed::ZERO };
    assert_eq!(network.deliver(Message::ToClient(client, ToClient::Answer(answer))), stray);
    assert_eq!(network.deliver(Message::ToClient(client, ToClient::Done(done))), stray);
    network.finish();
}

/// What reaches another server than it was sent to is turned away there.
#[test]
fn messages_to_another_server_are_astray() {
    let request = |replicas: &[usize]| Request { client: 0, blocks: 1, replicas: replicas.to_vec() };
    let scene = Scene {
        case: Case { n_clients: 1, n_servers: 2, requests: vec![request(&[0, 1]), request(&[1])] },
        servers: vec![model::Server::default(); 2],
        clients: vec![model::Client::default()],
        limit: None,
    };
    let mut network = Network::new(&scene, Rules::hdlwf(Ties::LowestId, 0));
    network.begin(0);
    let Some(&Message::ToServer(to, message)) = network.on_the_way.first() else { panic!("a bid") };
    let other = ServerId(1 - to.0);
    let stray = network.deliver(Message::ToServer(other, message));
    assert_eq!(stray, Err(Stray::NotThisServer { server: to.0 }));
    network.finish();
}

/// Whom a server grants and what it tells of its workload, of clients 0, 1 and 2 with so many pending blocks.
fn closed(rules: Rules, degrees: [u64; 3]) -> (u32, Vec<u64>) {
    let held = |i: u32| server::Held { request: i, client: ClientId(i), blocks: 10 };
    let mut server =
        server::Server::new(ServerId(0), model::Server::default(), (0..3).map(held).collect(), rules);
    let mut out = Vec::new();
    for (i, degree) in (0..).zip(degrees) {
        let bid = Bid { batch: 0, client: ClientId(i), server: ServerId(0), request: i, degree, turn: 1 };
        server.on_event(server::Event::Received(ToServer::Bid(bid)), &mut out).expect("a bid");
    }
    server.on_event(server::Event::Close { round: 0 }, &mut out).expect("not a message");
    let told = |message: &(ClientId, ToClient)| match message.1 {
        ToClient::Answer(answer) => answer.workload.floor(),
        ToClient::Done(_) => panic!("nobody is done"),
    };
    (server.granted()[0].1.request, out.iter().map(told).collect())
}

/// HDLWF and HDF grant the client with most to do; of equals HDF draws one, so each wins sometimes. Lots are for everybody.
#[test]
fn servers_grant_whom_they_favour() {
    for seed in 0..100 {
        for rules in [Rules::hdlwf(Ties::Hashed(seed), seed), Rules::hdf_dist(seed), Rules::mpasses(3, seed)]
        {
            assert_eq!(closed(rules, [1, 5, 3]).0, 1, "{rules:?}");
        }
    }
    for (rules, degrees) in [(Rules::hdf_dist as fn(u64) -> Rules, [5, 5, 1]), (Rules::random_bid, [1, 5, 3])]
    {
        let mut n_won = [0; 3];
        (0..600).for_each(|seed| n_won[closed(rules(seed), degrees).0 as usize] += 1);
        let n_alike = degrees.iter().filter(|&&degree| degree == 5).count();
        let expected = if n_alike > 1 { [300, 300, 0] } else { [200; 3] };
        let is_near = n_won.iter().zip(expected).all(|(n, expected): (&i32, i32)| (n - expected).abs() < 60);
        assert!(is_near, "{n_won:?} of about {expected:?}");
    }
}

/// Servers tell what they have granted; where clients bid again, also what they turn away.
#[test]
fn servers_tell_their_workload() {
    assert_eq!(closed(Rules::hdlwf(Ties::LowestId, 0), [1, 5, 3]).1, [10; 3]);
    assert_eq!(closed(Rules::rebid(2, Ties::LowestId, 0), [1, 5, 3]).1, [30; 3]);
}
