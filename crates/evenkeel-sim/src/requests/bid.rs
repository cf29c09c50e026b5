//! Clients and servers agree on replicas and order by messages, at the cost of these messages (paper 000).
//!
//! The state machines are those of [`evenkeel::bid`]. Every bid and every answer takes
//! [`message_ns`](crate::hardware::Hardware::message_ns) to arrive. The receiver takes
//! [`dispatch_ns`](crate::hardware::Hardware::dispatch_ns) to handle it, one message after the other. Rounds are in
//! step, as in the paper: a server decides when it has handled all bids that are on their way to it, and the next bids
//! are made when the last answer is handled. Perfect timeouts would have the same effect. Staying in step, and knowing
//! that all requests are granted, costs no message. So the result of the bidding does not depend on how long messages
//! take.
//!
//! Transfers begin when the bidding is over. A cluster that began with the first rounds while bidding for later ones
//! would hide part of the cost of bidding, which is what this driver is to show. After the bidding each server handles
//! the starts of its transfers by itself, without a centre.

use evenkeel::bid::client::{self, Client};
use evenkeel::bid::server::{self, Server};
use evenkeel::bid::{Rules, ToClient, ToServer, rounds};
use evenkeel::model::{ClientId, Grant, ServerId};
use evenkeel::order::rounds::Rounds;
use evenkeel::run::{BadPlan, Event, Executor, Settings};

use super::execute::Driver;
use super::{Requests, Run, Trouble, View};
use crate::agenda::Agenda;
use crate::fabric::{Fabric, Happening};
use crate::outcome::{Findings, Outcome};

/// Tag of the timer for the end of the bidding. Nothing else of the driver is pending then, except arrivals.
const OVER: u64 = 0;

/// All clients bid once the last request has arrived. Then the executor carries out what was granted, in the order of
/// the rounds. A server that is down still bids; the executor finds out later.
pub fn bid(
    requests: &Requests,
    fabric: Fabric<'_>,
    view: &View,
    rules: Rules,
    settings: Settings,
    trouble: &Trouble,
) -> Result<Outcome, BadPlan> {
    let last_arrival_ns = requests.arrivals_ns.iter().flatten().copied().max();
    let game = Game::new(requests, &fabric, view, rules, last_arrival_ns.unwrap_or(0));
    let Played { grants, n_messages, over_ns, findings } = game.play();
    let Rounds { schedule, n_rounds, .. } = Rounds::new(&requests.batch, &view.cluster, &grants);

    let mut run = Run::new(requests, fabric);
    (run.outcome.n_messages, run.outcome.n_rounds) = (n_messages, n_rounds.into());
    run.outcome.findings = findings;
    run.fabric.wake(over_ns, OVER);
    loop {
        match run.fabric.next() {
            Some((_, Happening::Timer { tag: OVER })) => break,
            Some(_) => {}
            None => return Ok(run.finish()),
        }
    }
    let n_servers = run.fabric.hardware().servers.len();
    let down: Vec<u32> = (0..n_servers as u32).filter(|&server| !run.fabric.is_up(server)).collect();
    let executor = Executor::new(&requests.batch, &view.cluster, &schedule, settings, run.fabric.now_ns())?;
    let mut nobody = |_, _: &_| {};
    let mut driver = Driver::new(run, view, executor, n_servers, *trouble, settings.seed, &mut nobody);
    for server in down {
        driver.tell(Event::ServerDown { server: ServerId(server) });
    }
    driver.tell(Event::Wake);
    Ok(driver.carry_out(true))
}

/// A message in flight between clients and servers.
enum Message {
    Bid(ServerId, ToServer),
    /// A server has handled all bids sent to it.
    Close(ServerId),
    Answer(ClientId, ToClient),
}

/// The inbox of a client or a server.
#[derive(Clone, Copy, Default)]
struct Desk {
    free_ns: u64,
    n_coming: u32,
}

impl Desk {
    /// When a message that arrives now has been handled.
    fn handle(&mut self, now_ns: u64, handling_ns: u64) -> u64 {
        self.free_ns = self.free_ns.max(now_ns).saturating_add(handling_ns);
        self.free_ns
    }
}

/// The result of the bidding.
struct Played {
    grants: Vec<Grant>,
    n_messages: u64,
    over_ns: u64,
    findings: Findings,
}

struct Game {
    rules: Rules,
    clients: Vec<(Client, Desk)>,
    servers: Vec<(Server, Desk)>,
    agenda: Agenda<Message>,
    message_ns: u64,
    handling_ns: u64,
    now_ns: u64,
    n_messages: u64,
    findings: Findings,
    grants: Vec<Grant>,
    by_clients: Vec<client::Action>,
    by_servers: Vec<server::Action>,
}

impl Game {
    fn new(requests: &Requests, fabric: &Fabric<'_>, view: &View, rules: Rules, now_ns: u64) -> Self {
        let (batch, hardware) = (&requests.batch, fabric.hardware());
        let clients = rounds::clients(batch, &view.cluster, rules).into_iter();
        let servers = rounds::servers(&view.cluster, rules).into_iter();
        Self {
            rules,
            clients: clients.map(|client| (client, Desk::default())).collect(),
            servers: servers.map(|server| (server, Desk::default())).collect(),
            agenda: Agenda::default(),
            message_ns: hardware.message_ns,
            handling_ns: hardware.dispatch_ns,
            now_ns,
            n_messages: 0,
            findings: Findings::default(),
            grants: Vec::new(),
            by_clients: Vec::new(),
            by_servers: Vec::new(),
        }
    }

    /// Bids until every request is granted.
    fn play(mut self) -> Played {
        let mut active: Vec<u32> = (0..self.clients.len() as u32).collect();
        for round in 0.. {
            active.retain(|&client| !self.clients[client as usize].0.is_done());
            if active.is_empty() {
                break;
            }
            for pass in 0..self.rules.passes.max(1) {
                let n_bids = self.begin(round, &active);
                if n_bids == 0 && pass == 0 {
                    // Messages that take until the last representable time are never answered.
                    self.now_ns = u64::MAX;
                    return self.over();
                }
                if n_bids == 0 {
                    break;
                }
                let first = self.grants.len();
                self.exchange(round);
                self.grants[first..].sort_by_key(|grant| grant.part.server);
            }
        }
        self.over()
    }

    fn over(self) -> Played {
        let Self { grants, n_messages, now_ns: over_ns, findings, .. } = self;
        Played { grants, n_messages, over_ns, findings }
    }

    /// All clients bid. Returns the number of bids.
    fn begin(&mut self, round: u32, active: &[u32]) -> u64 {
        for &client in active {
            let event = client::Event::Begin { round };
            let told = self.clients[client as usize].0.on_event(self.now_ns, event, &mut self.by_clients);
            self.findings.note(told);
        }
        let n_before = self.n_messages;
        for action in self.by_clients.drain(..) {
            if let client::Action::Send { server, message } = action {
                self.n_messages += 1;
                self.servers[server.index()].1.n_coming += 1;
                self.agenda.add(self.now_ns.saturating_add(self.message_ns), Message::Bid(server, message));
            }
        }
        self.n_messages - n_before
    }

    /// Delivers bids and answers. Time advances until the last one is handled.
    fn exchange(&mut self, round: u32) {
        while let Some((now_ns, message)) = self.agenda.pop() {
            match message {
                Message::Bid(server, bid) => {
                    let (machine, desk) = &mut self.servers[server.index()];
                    let event = server::Event::Received(bid);
                    self.findings.note(machine.on_event(now_ns, event, &mut self.by_servers));
                    let handled_ns = desk.handle(now_ns, self.handling_ns);
                    desk.n_coming -= 1;
                    if desk.n_coming == 0 {
                        self.agenda.add(handled_ns, Message::Close(server));
                    }
                }
                Message::Close(server) => {
                    let (machine, _) = &mut self.servers[server.index()];
                    let event = server::Event::Close { round };
                    self.findings.note(machine.on_event(now_ns, event, &mut self.by_servers));
                    self.grants.extend(self.by_servers.iter().filter_map(|action| action.grant(server)));
                    for action in self.by_servers.drain(..) {
                        if let server::Action::Send { client, message } = action {
                            self.n_messages += 1;
                            let at_ns = now_ns.saturating_add(self.message_ns);
                            self.agenda.add(at_ns, Message::Answer(client, message));
                        }
                    }
                }
                Message::Answer(client, answer) => {
                    let (machine, desk) = &mut self.clients[client.index()];
                    let event = client::Event::Received(answer);
                    self.findings.note(machine.on_event(now_ns, event, &mut self.by_clients));
                    self.now_ns = self.now_ns.max(desk.handle(now_ns, self.handling_ns));
                }
            }
        }
        // Clients that are done announce it. Since rounds are in step, all see it anyway.
        self.by_clients.clear();
    }
}
