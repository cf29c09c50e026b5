//! Bidding over a network that loses, doubles, delays and makes up messages, between machines that die and come back: each
//! request is granted and served exactly once.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel::bid::client::{self, Client, Won};
use evenkeel::bid::server::{self, Server};
use evenkeel::bid::{
    Answer, Bid, Choose, Done, Favour, Link, Restarted, Rules, Stray, ToClient, ToServer, rounds,
};
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
    /// A client has waited for long.
    Wake,
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
    /// Something that was granted is served.
    Serve,
    /// A server forgets everything. Nobody is told.
    Restart,
    /// A server cannot be reached, and clients hear so.
    Cut,
    /// It can be reached again.
    Mend,
    /// A client dies, and servers hear so.
    Leave,
}

/// With machines that die, or without.
fn steps(is_disturbed: bool) -> impl Strategy<Value = Vec<(Step, Index, Index)>> {
    let step = prop_oneof![
        6 => Just(Step::Begin),
        2 => Just(Step::BeginAgain),
        2 => Just(Step::Wake),
        6 => Just(Step::Close),
        2 => Just(Step::CloseAgain),
        16 => Just(Step::Deliver),
        4 => Just(Step::Duplicate),
        2 => Just(Step::Drop),
        4 => Just(Step::Replay),
        4 => Just(Step::Forge),
        4 => Just(Step::Serve),
        2 => Just(Step::Restart),
        2 => Just(Step::Cut),
        2 => Just(Step::Mend),
        1 => Just(Step::Leave),
    ];
    let step = step.prop_map(move |step| match step {
        Step::Restart | Step::Cut | Step::Mend | Step::Leave if !is_disturbed => Step::Deliver,
        step => step,
    });
    vec((step, any::<Index>(), any::<Index>()), 0..200)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Message {
    ToServer(ToServer),
    ToClient(ToClient),
}

impl Message {
    fn link(&self) -> Link {
        match self {
            Self::ToServer(message) => message.link(),
            Self::ToClient(message) => message.link(),
        }
    }
}

/// Clients, servers, and what is on the way between them.
struct Network {
    batch: Batch,
    cluster: Cluster,
    rules: Rules,
    now_ns: u64,
    clients: Vec<Client>,
    servers: Vec<Server>,
    epochs: Vec<u64>,
    is_cut: Vec<bool>,
    is_dead: Vec<bool>,
    client_rounds: Vec<u32>,
    server_rounds: Vec<u32>,
    on_the_way: Vec<Message>,
    /// All that was ever said.
    said: Vec<Message>,
    /// What each client has to read, and each server has to serve, by what they have said that they do.
    to_read: BTreeMap<u32, Won>,
    to_serve: Vec<BTreeMap<(ClientId, u32), u32>>,
    n_granted_in_round: BTreeMap<(ServerId, u32), u32>,
    served: BTreeSet<u32>,
    n_grants: usize,
    /// Whether somebody watches.
    is_traced: bool,
}

impl Network {
    fn new(scene: &Scene, rules: Rules, is_traced: bool) -> Self {
        let (batch, cluster) = scene.build();
        let (n_clients, n_servers) = (batch.n_clients(), batch.n_servers());
        let mut network = Self {
            clients: rounds::clients(&batch, &cluster, rules),
            servers: rounds::servers(&cluster, rules),
            batch,
            cluster,
            rules,
            now_ns: 0,
            epochs: vec![1; n_servers],
            is_cut: vec![false; n_servers],
            is_dead: vec![false; n_clients],
            client_rounds: vec![0; n_clients],
            server_rounds: vec![0; n_servers],
            on_the_way: Vec::new(),
            said: Vec::new(),
            to_read: BTreeMap::new(),
            to_serve: vec![BTreeMap::new(); n_servers],
            n_granted_in_round: BTreeMap::new(),
            served: BTreeSet::new(),
            n_grants: 0,
            is_traced,
        };
        if is_traced {
            network.clients.iter_mut().for_each(|client| client.trace(usize::MAX));
            network.servers.iter_mut().for_each(|server| server.trace(usize::MAX));
        }
        network
    }

    fn say(&mut self, message: Message) {
        self.on_the_way.push(message);
        self.said.push(message);
    }

    /// Something happens to a client. If it was astray, nothing has changed and nothing is said.
    fn at_client(&mut self, client: usize, event: client::Event) -> Result<(), Stray> {
        let mut out = Vec::new();
        let before = format!("{:?}", self.clients[client]);
        let result = self.clients[client].on_event(self.now_ns, event, &mut out);
        if result.is_err() {
            assert!(out.is_empty(), "{result:?} said {out:?}");
            assert_eq!(before, format!("{:?}", self.clients[client]), "{result:?} changed something");
        }
        if self.is_traced && !matches!(event, client::Event::Wake) {
            self.explain_bids(client, &out);
        }
        for action in out {
            match action {
                client::Action::Send { server, message } => {
                    let link = message.link();
                    assert_eq!((link.client.index(), link.server), (client, server));
                    self.say(Message::ToServer(message));
                }
                client::Action::Read(won) => {
                    assert_eq!(self.to_read.insert(won.request, won), None, "known twice");
                    assert!(!self.served.contains(&won.request), "{} is served", won.request);
                }
                client::Action::GiveUp(won) => {
                    assert_eq!(self.to_read.remove(&won.request), Some(won));
                }
            }
        }
        self.check_client(client);
        result
    }

    /// The same at a server.
    fn at_server(&mut self, server: usize, event: server::Event) -> Result<(), Stray> {
        let mut out = Vec::new();
        let before = format!("{:?}", self.servers[server]);
        let result = self.servers[server].on_event(self.now_ns, event, &mut out);
        if result.is_err() {
            assert!(out.is_empty(), "{result:?} said {out:?}");
            assert_eq!(before, format!("{:?}", self.servers[server]), "{result:?} changed something");
        }
        if self.is_traced {
            self.explain_grants(server, event, &out);
        }
        let id = ServerId(server as u32);
        for action in out {
            match action {
                server::Action::Send { client, message } => {
                    assert_eq!((message.link().client, message.link().server), (client, id));
                    self.say(Message::ToClient(message));
                }
                server::Action::Serve(granted) => {
                    let row = granted.request as usize;
                    assert_eq!(granted.client, self.batch.client(row));
                    assert_eq!(granted.blocks, self.batch.blocks(row));
                    assert!(self.batch.replicas().of(row).contains(&id), "{row} is not held by {id:?}");
                    let place = (granted.client, granted.request);
                    let before = self.to_serve[server].insert(place, granted.round);
                    assert_eq!(before, None, "request {row} is granted twice");
                    let n = self.n_granted_in_round.entry((id, granted.round)).or_default();
                    *n += 1;
                    assert!(*n <= self.cluster.server(id).slots, "beyond its slots");
                    self.n_grants += 1;
                }
                server::Action::Drop(dropped) => {
                    let before = self.to_serve[server].remove(&(dropped.client, dropped.request));
                    assert_eq!(before, Some(dropped.round));
                }
            }
        }
        let known: BTreeMap<_, _> =
            self.servers[server].granted().map(|g| ((g.client, g.request), g.round)).collect();
        assert_eq!(known, self.to_serve[server]);
        let counts = self.servers[server].counts();
        assert_eq!(counts.open, known.len());
        assert_eq!(counts.granted, counts.open as u64 + counts.served + counts.dropped);
        result
    }

    /// Each bid follows from its figures.
    fn explain_bids(&mut self, client: usize, out: &[client::Action]) {
        let decisions = self.clients[client].take_decisions();
        let bid = |action: &client::Action| match action {
            client::Action::Send { server, message: ToServer::Bid(bid) } => Some((bid.request, *server)),
            _ => None,
        };
        let bids: Vec<(u32, ServerId)> = out.iter().filter_map(bid).collect();
        assert_eq!(bids, decisions.iter().map(|made| (made.request, made.server)).collect::<Vec<_>>());
        for client::Decision { at_ns, round, request, server, candidates } in decisions {
            assert_eq!((at_ns, round), (self.now_ns, self.client_rounds[client]));
            for candidate in &candidates {
                let holders = self.batch.replicas().of(candidate.request as usize);
                assert!(holders.contains(&candidate.server) && !self.is_cut[candidate.server.index()]);
            }
            let chosen = candidates.iter().find(|candidate| candidate.server == server);
            if let Choose::Lightest(ties) = self.rules.choose {
                let tie = ties.rank(client as u32, server.0);
                assert_eq!(chosen.map(|chosen| (chosen.request, chosen.tie)), Some((request, tie)));
                let best = candidates.iter().min_by_key(|candidate| (candidate.workload, candidate.tie));
                assert_eq!(chosen, best, "{candidates:?}");
            }
            assert!(chosen.is_some(), "{server:?} is not in {candidates:?}");
        }
    }

    /// Each grant follows from its figures.
    fn explain_grants(&mut self, server: usize, event: server::Event, out: &[server::Action]) {
        let decisions = self.servers[server].take_decisions();
        let served = |action: &server::Action| match action {
            server::Action::Serve(served) => Some((served.client, served.request)),
            _ => None,
        };
        let granted: Vec<(ClientId, u32)> = out.iter().filter_map(served).collect();
        let won = decisions.iter().flat_map(|made| &made.candidates[..made.n_granted]);
        assert_eq!(granted, won.map(|won| (won.client, won.request)).collect::<Vec<_>>());
        for server::Decision { at_ns, round, n_granted, candidates } in decisions {
            assert_eq!((at_ns, event), (self.now_ns, server::Event::Close { round }));
            let id = ServerId(server as u32);
            let n_before = self.n_granted_in_round.get(&(id, round)).copied().unwrap_or(0);
            let n_free = self.cluster.server(id).slots - n_before;
            assert_eq!(n_granted, candidates.len().min(n_free as usize));
            let (granted, rejected) = candidates.split_at(n_granted);
            let key = |bid: &server::Candidate| match self.rules.favour {
                Favour::HighestDegree(ties) => {
                    assert_eq!(bid.tie, ties.rank(id.0, bid.client.0));
                    (u64::MAX - bid.degree, bid.tie)
                }
                Favour::HighestDegreeThenLot => (u64::MAX - bid.degree, 0),
                Favour::Lot => (0, 0),
            };
            let worst = granted.iter().map(key).max();
            assert!(rejected.iter().all(|bid| Some(key(bid)) >= worst), "{candidates:?}");
        }
    }

    /// What a client says that it has won is what it said it would read, and what was served.
    fn check_client(&self, client: usize) {
        let counts = self.clients[client].counts();
        let n_own = (0..self.batch.n_requests()).filter(|&row| self.batch.client(row).index() == client);
        assert_eq!(counts.pending + counts.asked + counts.granted, n_own.count());
        assert_eq!(counts.granted, self.clients[client].won().len());
        let n_answered = counts.bids - counts.asked as u64;
        assert!(counts.rejected + counts.granted as u64 <= n_answered && counts.served <= n_answered);
        let mut won: Vec<u32> = self.clients[client].won().iter().map(|won| won.request).collect();
        won.sort_unstable();
        let own = |row: &&u32| self.batch.client(**row as usize).index() == client;
        let mut expected: Vec<u32> =
            self.to_read.keys().filter(own).chain(self.served.iter().filter(own)).copied().collect();
        expected.sort_unstable();
        assert_eq!(won, expected);
    }

    fn deliver(&mut self, message: Message) -> Result<(), Stray> {
        let link = message.link();
        let (client, server) = (link.client.index(), link.server.index());
        if self.is_cut.get(server) == Some(&true) || self.is_dead.get(client) == Some(&true) {
            return Ok(());
        }
        match message {
            Message::ToServer(message) => self.at_server(server, server::Event::Received(message)),
            Message::ToClient(message) => self.at_client(client, client::Event::Received(message)),
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

    fn living(&self) -> Vec<usize> {
        (0..self.clients.len()).filter(|&client| !self.is_dead[client]).collect()
    }

    fn is_over(&self) -> bool {
        self.living().iter().all(|&client| self.clients[client].is_over())
            && self.servers.iter().all(Server::is_over)
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

    /// A client has waited as long as it wants to.
    fn wake(&mut self, client: usize) {
        if let Some(at_ns) = self.clients[client].wake_at() {
            self.now_ns = self.now_ns.max(at_ns);
            self.at_client(client, client::Event::Wake).expect("not a message");
        }
    }

    fn restart(&mut self, server: usize) {
        self.epochs[server] += 1;
        let id = ServerId(server as u32);
        self.servers[server] =
            Server::new(id, self.cluster.server(id).clone(), self.epochs[server], self.rules);
        if self.is_traced {
            self.servers[server].trace(usize::MAX);
        }
        self.to_serve[server].clear();
        // Whatever it counts from now on are other rounds.
        self.server_rounds[server] += 1_000;
    }

    fn mend(&mut self, server: usize) {
        self.is_cut[server] = false;
        for client in self.living() {
            let (server, epoch) = (ServerId(server as u32), self.epochs[server]);
            // Of some a client has never heard.
            _ = self.at_client(client, client::Event::Up { server, epoch });
        }
    }

    fn cut(&mut self, server: usize) {
        self.is_cut[server] = true;
        for client in self.living() {
            _ = self.at_client(client, client::Event::Down { server: ServerId(server as u32) });
        }
    }

    fn leave(&mut self, client: usize) {
        self.is_dead[client] = true;
        let client = ClientId(client as u32);
        for server in 0..self.servers.len() {
            self.at_server(server, server::Event::ClientLeft { client }).expect("anybody may leave");
        }
        let batch = &self.batch;
        self.to_read.retain(|row, _| batch.client(*row as usize) != client);
    }

    /// A client reads what it has won. If its server has restarted, the client hears that now.
    fn serve(&mut self, won: Won) {
        let client = self.batch.client(won.request as usize);
        let server = won.server.index();
        assert!(!self.is_cut[server], "the client knows that");
        if self.to_serve[server].get(&(client, won.request)) == Some(&won.round) {
            let event = server::Event::Served { client, request: won.request };
            self.to_serve[server].remove(&(client, won.request));
            self.at_server(server, event).expect("it was granted");
            self.to_read.remove(&won.request);
            assert!(self.served.insert(won.request), "served twice");
            let event = client::Event::Served { request: won.request };
            self.at_client(client.index(), event).expect("it was granted");
        } else {
            let event = client::Event::Up { server: won.server, epoch: self.epochs[server] };
            self.at_client(client.index(), event).expect("a server that it knows");
            assert!(!self.to_read.contains_key(&won.request), "{} is forgotten", won.request);
        }
    }

    fn serve_all(&mut self) {
        for won in self.to_read.values().copied().collect::<Vec<_>>() {
            if self.to_read.get(&won.request) == Some(&won) {
                self.serve(won);
            }
        }
    }

    /// From now on nothing is lost. Every round then grants something, and all is served in the end.
    fn finish(&mut self) {
        (0..self.servers.len()).for_each(|server| self.mend(server));
        for round in 0.. {
            if self.is_over() && self.to_read.is_empty() {
                break;
            }
            assert!(round < 2 * self.batch.n_requests() + 4, "not over after {round} rounds");
            for client in self.living() {
                self.begin(client);
                self.wake(client);
            }
            self.deliver_all(round % 2 == 0);
            (0..self.servers.len()).for_each(|server| self.close(server));
            self.deliver_all(round % 3 == 0);
            self.serve_all();
            self.deliver_all(round % 5 == 0);
        }
        let is_alive = |row: &u32| !self.is_dead[self.batch.client(*row as usize).index()];
        let all = (0..self.batch.n_requests() as u32).filter(is_alive);
        assert_eq!(all.collect::<Vec<_>>(), self.served.iter().copied().filter(is_alive).collect::<Vec<_>>());
        for (server, rest) in self.to_serve.iter().enumerate() {
            assert!(rest.is_empty(), "server {server} still serves {rest:?}");
        }
    }

    /// Sends what nobody has said, and asserts that it is turned away.
    fn forge(&mut self, a: usize, b: usize) {
        let (n_clients, n_servers) = (self.clients.len(), self.servers.len());
        let (client, server) = (ClientId((a % n_clients) as u32), ServerId((b % n_servers) as u32));
        if self.is_cut[server.index()] || self.is_dead[client.index()] {
            return;
        }
        let epoch = self.epochs[server.index()];
        let link = Link { batch: 0, client, server, life: 0, epoch };
        let request = (a / n_clients) as u32;
        let forged = [0, u32::MAX - 1, u32::MAX][a / 7 % 3];
        let bid = |link, turn| ToServer::Bid(Bid { link, request, blocks: 1, degree: u64::MAX, turn });
        let granted = [None, Some(0), Some(u32::MAX)][a / 3 % 3];
        let answer =
            |link, turn| ToClient::Answer(Answer { link, request, turn, granted, workload: u64::MAX.into() });
        let at_server = server.index();
        let other = Link { batch: 1, ..link };
        let later = Link { epoch: epoch + 1, ..link };
        let nobody = ServerId([n_servers as u32, u32::MAX][a % 2]);
        let stray = match b / n_servers % 6 {
            0 => self.at_server(at_server, server::Event::Received(bid(link, forged))),
            1 => self.at_server(at_server, server::Event::Received(bid(other, 1))),
            2 => self.at_server(at_server, server::Event::Received(bid(later, 1))),
            3 => self.at_client(client.index(), client::Event::Received(answer(link, forged))),
            4 => self.at_client(client.index(), client::Event::Received(answer(other, 1))),
            _ => {
                let link = Link { server: nobody, ..link };
                _ = self.at_client(client.index(), client::Event::Received(answer(link, 1)));
                self.at_server(at_server, server::Event::Received(bid(link, 1)))
            }
        };
        assert!(stray.is_err(), "{a} {b}");
    }

    fn take(&mut self, step: Step, a: Index, b: Index) {
        let (client, server) = (a.index(self.clients.len()), a.index(self.servers.len()));
        let place = (!self.on_the_way.is_empty()).then(|| a.index(self.on_the_way.len()));
        match (step, place) {
            (Step::Begin | Step::BeginAgain | Step::Wake | Step::Leave, _) if self.is_dead[client] => {}
            (Step::Begin, _) => self.begin(client),
            (Step::BeginAgain, _) => {
                let round = self.client_rounds[client];
                self.at_client(client, client::Event::Begin { round }).expect("not a message");
            }
            (Step::Wake, _) => self.wake(client),
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
            (Step::Serve, _) if !self.to_read.is_empty() => {
                let won = self.to_read.values().nth(a.index(self.to_read.len())).copied();
                won.into_iter().for_each(|won| self.serve(won));
            }
            (Step::Restart, _) => self.restart(server),
            (Step::Cut, _) => self.cut(server),
            (Step::Mend, _) => self.mend(server),
            (Step::Leave, _) => self.leave(client),
            _ => {}
        }
    }
}

proptest! {
    #![proptest_config(config(1_500))]

    /// Whatever happens on the way, each request is granted and served once, both sides agree on it, and all hear that it
    /// is over.
    #[test]
    fn each_request_is_granted_once_over_a_bad_network(
        scene in batches(6, 5, 20),
        rules in rules(),
        steps in steps(false),
    ) {
        let mut network = Network::new(&scene, rules, false);
        for (step, a, b) in steps {
            network.take(step, a, b);
        }
        network.finish();
        // What comes too late does nothing.
        prop_assert_eq!(network.n_grants, network.batch.n_requests());
        let said = network.said.clone();
        for message in said.into_iter().rev() {
            _ = network.deliver(message);
        }
        (0..64).for_each(|k| network.forge(k * 7919, k * 104_729));
        network.deliver_all(true);
        (0..network.servers.len()).for_each(|server| network.close(server));
        prop_assert_eq!(network.n_grants, network.batch.n_requests());
        for client in 0..network.clients.len() {
            network.begin(client);
        }
        prop_assert!(network.on_the_way.is_empty(), "{:?}", network.on_the_way);
        prop_assert!(network.is_over());
    }

    /// The same where servers restart or cannot be reached, and clients die: nothing is served twice or forgotten.
    #[test]
    fn each_request_is_served_once_whoever_dies(
        scene in batches(6, 5, 20),
        rules in rules(),
        steps in steps(true),
    ) {
        let mut network = Network::new(&scene, rules, false);
        for (step, a, b) in steps {
            network.take(step, a, b);
        }
        network.finish();
        // What comes too late does nothing.
        let n_grants = network.n_grants;
        for message in network.said.clone().into_iter().rev() {
            _ = network.deliver(message);
        }
        network.deliver_all(true);
        (0..network.servers.len()).for_each(|server| network.close(server));
        prop_assert_eq!(network.n_grants, n_grants);
    }

    /// Whether somebody watches or not.
    #[test]
    fn tracing_changes_no_action(scene in batches(6, 5, 20), rules in rules(), steps in steps(true)) {
        let run = |is_traced| {
            let mut network = Network::new(&scene, rules, is_traced);
            steps.iter().for_each(|&(step, a, b)| network.take(step, a, b));
            network.finish();
            let counts: Vec<_> = network.clients.iter().map(Client::counts).collect();
            let of_servers: Vec<_> = network.servers.iter().map(Server::counts).collect();
            (network.said, counts, of_servers)
        };
        prop_assert_eq!(run(true), run(false));
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
    let mut servers = rounds::servers(cluster, rules);
    let (mut grants, mut n_messages) = (Vec::new(), 0);
    for round in 0.. {
        if clients.iter().all(Client::is_done) {
            break;
        }
        assert!(round <= batch.n_requests() as u32, "a round without a grant");
        for _pass in 0..rules.passes {
            let (mut by_clients, mut by_servers) = (Vec::new(), Vec::new());
            let mut order: Vec<usize> = (0..clients.len()).collect();
            shuffle(&mut order, &mut draw);
            for client in order {
                let event = client::Event::Begin { round };
                clients[client].on_event(0, event, &mut by_clients).expect("not a message");
            }
            // Even to look for something to bid for in vain takes lots.
            if by_clients.is_empty() {
                break;
            }
            shuffle(&mut by_clients, &mut draw);
            for action in by_clients.drain(..) {
                let client::Action::Send { server, message } = action else { panic!("nothing is won") };
                n_messages += 1;
                let event = server::Event::Received(message);
                servers[server.index()].on_event(0, event, &mut by_servers).expect("a good bid");
            }
            assert!(by_servers.is_empty(), "a server answers when the round closes");
            let mut order: Vec<usize> = (0..servers.len()).collect();
            shuffle(&mut order, &mut draw);
            for server in order {
                let first = by_servers.len();
                let event = server::Event::Close { round };
                servers[server].on_event(0, event, &mut by_servers).expect("not a message");
                let by = |action: &server::Action| action.grant(ServerId(server as u32));
                grants.extend(by_servers[first..].iter().filter_map(by));
            }
            shuffle(&mut by_servers, &mut draw);
            for action in by_servers {
                if let server::Action::Send { client, message } = action {
                    n_messages += 1;
                    let event = client::Event::Received(message);
                    clients[client.index()].on_event(0, event, &mut by_clients).expect("it was asked");
                }
            }
        }
    }
    outcome(&rounds::Bidding { grants, n_messages })
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
    Network::new(&scene, Rules::hdlwf(Ties::LowestId, 0), true)
}

/// A client and a server in their first lives.
fn link(client: u32, server: u32) -> Link {
    Link { batch: 0, client: ClientId(client), server: ServerId(server), life: 0, epoch: 1 }
}

fn bid(link: Link, request: u32, turn: u32) -> Message {
    Message::ToServer(ToServer::Bid(Bid { link, request, blocks: 1, degree: 1, turn }))
}

/// A client's bids at a server are consecutive, so one with a number far ahead was never sent.
#[test]
fn a_bid_from_the_future_is_astray() {
    for (server, turn) in [(0, 2), (1, 2), (0, u32::MAX), (1, u32::MAX)] {
        let mut network = two_clients();
        let stray = network.deliver(bid(link(0, server), 0, turn));
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
        matches!(message, Message::ToClient(ToClient::Answer(Answer { granted: Some(_), .. })))
    };
    let place = network.on_the_way.iter().position(granted).expect("one is granted");
    let Message::ToClient(answer) = network.on_the_way[place] else { panic!("an answer") };
    let other = 1 - answer.link().client.0;
    let stray = network.at_client(other as usize, client::Event::Received(answer));
    assert_eq!(stray, Err(Stray::NotThisClient { client: 1 - other }));
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
    for server in [0, 1] {
        let done = ToClient::Done(Done { link: link(0, server), turn: 1 });
        let stray = network.at_client(1, client::Event::Received(done));
        assert_eq!(stray, Err(Stray::NotThisClient { client: 0 }));
    }
    network.finish();
}

/// One client, one server, and two requests.
fn one_server() -> Network {
    let request = |client| Request { client, blocks: 1, replicas: vec![0] };
    let scene = Scene {
        case: Case { n_clients: 1, n_servers: 1, requests: vec![request(0), request(0)] },
        servers: vec![model::Server::default()],
        clients: vec![model::Client::default()],
        limit: None,
    };
    Network::new(&scene, Rules::hdlwf(Ties::LowestId, 0), true)
}

/// While a bid is open its client has made no other; and what was granted is not granted again.
#[test]
fn a_bid_that_its_client_cannot_have_made_is_astray() {
    let mut network = one_server();
    let bid = |request, turn| bid(link(0, 0), request, turn);
    network.begin(0);
    network.deliver_all(false);
    assert_eq!(network.deliver(bid(1, 2)), Err(Stray::OutOfTurn { client: 0, turn: 2 }));
    network.close(0);
    assert_eq!(network.deliver(bid(0, 2)), Err(Stray::GrantedBefore { request: 0 }));
    // The same again is answered as before, but not for another request.
    assert_eq!(network.deliver(bid(0, 1)), Ok(()));
    assert_eq!(network.deliver(bid(1, 1)), Err(Stray::OutOfTurn { client: 0, turn: 1 }));
    network.finish();
}

/// A server that has restarted grants nothing that was asked of it before, but says what has happened; then it is asked
/// again.
#[test]
fn a_restarted_server_grants_nothing_of_before() {
    let mut network = one_server();
    network.begin(0);
    network.deliver_all(false);
    network.close(0);
    network.deliver_all(false);
    assert_eq!(network.to_read.len(), 1);
    network.restart(0);
    network.begin(0);
    network.deliver_all(false);
    // The second bid was for the server as it was; with it the first grant is given up, too.
    assert!(network.to_read.is_empty() && network.to_serve[0].is_empty());
    assert_eq!(network.clients[0].won(), []);
    network.finish();
    assert_eq!(network.n_grants, 3);
}

/// An answer of an epoch that was not asked is not believed, nor is news of a restart that is none.
#[test]
fn answers_of_another_epoch_are_astray() {
    let mut network = one_server();
    network.begin(0);
    for epoch in [0, 2] {
        let link = Link { epoch, ..link(0, 0) };
        let answer = Answer { link, request: 0, turn: 1, granted: Some(0), workload: Fixed::ZERO };
        let stray = network.at_client(0, client::Event::Received(ToClient::Answer(answer)));
        assert_eq!(stray, Err(Stray::OtherEpoch { server: 0, epoch }));
    }
    let news = ToClient::Restarted(Restarted { link: link(0, 0) });
    let stray = network.at_client(0, client::Event::Received(news));
    assert_eq!(stray, Err(Stray::OtherEpoch { server: 0, epoch: 1 }));
    network.finish();
}

/// A server that could not be reached drops what its clients have asked of others since, when it hears of them again.
#[test]
fn a_server_that_was_out_of_reach_drops_what_others_serve() {
    let mut network = two_clients();
    network.begin(0);
    network.deliver_all(false);
    let of = |network: &Network| network.to_serve.iter().map(BTreeMap::len).collect::<Vec<_>>();
    (0..2).for_each(|server| network.close(server));
    network.deliver_all(false);
    let first = network.to_read[&0].server.index();
    network.cut(first);
    assert!(network.to_read.is_empty(), "nothing can be read there");
    network.begin(0);
    network.deliver_all(false);
    network.close(1 - first);
    network.deliver_all(false);
    assert_eq!((of(&network), network.to_read[&0].server.index()), (vec![1, 1], 1 - first));
    network.mend(first);
    network.wake(0);
    network.deliver_all(false);
    assert_eq!(network.to_serve[first].len(), 0, "its client is done, but not with this server");
    network.finish();
}

/// Numbers at the ends of their range are answered like others.
#[test]
fn the_largest_numbers_do_not_overflow() {
    let mut network = two_clients();
    let mut out = Vec::new();
    for client in 0..2 {
        for request in [u32::MAX, u32::MAX - 1] {
            let link = Link { life: u32::MAX, ..link(client, 0) };
            let turn = if request == u32::MAX { 1 } else { u32::MAX };
            let bid = Bid { link, request, blocks: u64::MAX, degree: u64::MAX, turn };
            _ = network.servers[0].on_event(0, server::Event::Received(ToServer::Bid(bid)), &mut out);
        }
    }
    for round in [u32::MAX, 0, u32::MAX] {
        network.servers[0].on_event(0, server::Event::Close { round }, &mut out).expect("not a message");
        network.clients[0].on_event(0, client::Event::Begin { round }, &mut Vec::new()).expect("no message");
    }
    assert!(matches!(out[0], server::Action::Serve(_)));
    let answer =
        Answer { link: link(0, 0), request: 9, turn: u32::MAX, granted: Some(9), workload: Fixed::ZERO };
    let event = client::Event::Received(ToClient::Answer(answer));
    let stray = network.clients[0].on_event(u64::MAX, event, &mut Vec::new());
    assert_eq!(stray, Err(Stray::NotAsked { server: 0, turn: u32::MAX }));
}

/// What is left over from another batch, or a batch that is over, is not believed.
#[test]
fn messages_of_another_batch_are_astray() {
    let mut network = two_clients();
    let stray = Err(Stray::OtherBatch { batch: 1 });
    let link = Link { batch: 1, ..link(0, 0) };
    assert_eq!(network.deliver(bid(link, 0, 1)), stray);
    let done = Done { link, turn: 0 };
    assert_eq!(network.deliver(Message::ToServer(ToServer::Done(done))), stray);
    network.begin(0);
    let answer = Answer { link, request: 0, turn: 1, granted: Some(0), workload: Fixed::ZERO };
    assert_eq!(network.deliver(Message::ToClient(ToClient::Answer(answer))), stray);
    assert_eq!(network.deliver(Message::ToClient(ToClient::Done(done))), stray);
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
    let mut network = Network::new(&scene, Rules::hdlwf(Ties::LowestId, 0), true);
    network.begin(0);
    let Some(&Message::ToServer(message)) = network.on_the_way.first() else { panic!("a bid") };
    let to = message.link().server;
    let stray = network.at_server(1 - to.index(), server::Event::Received(message));
    assert_eq!(stray, Err(Stray::NotThisServer { server: to.0 }));
    network.finish();
}

/// Whom a server grants and what it tells of its workload, of clients 0, 1 and 2 with so many pending blocks.
fn closed(rules: Rules, degrees: [u64; 3]) -> (u32, Vec<u64>) {
    let mut server = Server::new(ServerId(0), model::Server::default(), 1, rules);
    let mut out = Vec::new();
    for (i, degree) in (0..).zip(degrees) {
        let bid = Bid { link: link(i, 0), request: i, blocks: 10, degree, turn: 1 };
        server.on_event(0, server::Event::Received(ToServer::Bid(bid)), &mut out).expect("a bid");
    }
    server.on_event(0, server::Event::Close { round: 0 }, &mut out).expect("not a message");
    let told = |action: &server::Action| match action {
        server::Action::Send { message: ToClient::Answer(answer), .. } => Some(answer.workload.floor()),
        _ => None,
    };
    let granted = out.iter().find_map(|action| action.grant(ServerId(0))).expect("one is granted");
    (granted.part.request, out.iter().filter_map(told).collect())
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
