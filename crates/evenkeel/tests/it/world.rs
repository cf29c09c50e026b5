//! A cluster that carries out what the executor says, in which everything may go wrong, and which checks all that it says.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use evenkeel::draw::{Draw, Seeded};
use evenkeel::model::{self, Batch, ClientId, Cluster, Fixed, Schedule, ServerId};
use evenkeel::run::{
    Action, Cause, Decide, Event, Executor, Late, Misfit, Pick, Reason, RequestId, Settings, Snapshot,
    TransferId,
};
use proptest::prelude::*;
use proptest::sample::select;

/// The name of a row of the batch.
pub(crate) fn id(row: u32) -> RequestId {
    RequestId(row.into())
}

/// The row of the batch with that name.
pub(crate) fn row(RequestId(id): RequestId) -> u32 {
    u32::try_from(id).expect("a row of the batch")
}

/// A request of the batch arrives.
pub(crate) fn arrival(batch: &Batch, request: u32) -> Event<'_> {
    let row = request as usize;
    Event::Arrived {
        request: id(request),
        client: batch.client(row),
        blocks: batch.blocks(row),
        replicas: batch.replicas().of(row),
    }
}

pub(crate) const SECOND: u64 = 1_000_000_000;

/// What may go wrong, each in so many of 100 transfers, or events a server.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Chaos {
    pub(crate) slow: u32,
    pub(crate) fail: u32,
    pub(crate) lose: u32,
    pub(crate) double: u32,
    pub(crate) late: u32,
    pub(crate) progress: u32,
    pub(crate) outages: u32,
    /// Servers and clients that join, change and leave, replicas that are made and lost.
    pub(crate) members: u32,
    pub(crate) cancel: u32,
    /// Of failures: another cause than that the server cannot be reached.
    pub(crate) cause: u32,
}

/// What will happen, if nobody prevents it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Next {
    Progress(TransferId, Fixed),
    Done(TransferId),
    Failed(TransferId),
    Cancel(u32),
    Down(u32),
    Up(u32),
    Arrive(u32),
    Planned(u32),
    ServerJoins(u32),
    ServerLeaves(u32),
    ClientJoins(u32),
    ClientLeaves(u32),
    Copied(u32, u32),
    Dropped(u32, u32),
}

/// A transfer as the world sees it.
#[derive(Clone, Copy, Debug)]
struct Moving {
    request: u32,
    client: usize,
    server: usize,
    offset: u128,
    blocks: u128,
    /// What was told to be moved.
    moved: u128,
}

/// A cluster that carries out what the executor says, and checks all that it says.
pub(crate) struct World<'a> {
    batch: &'a Batch,
    cluster: &'a Cluster,
    settings: Settings,
    pub(crate) executor: Executor,
    chaos: Chaos,
    draw: Seeded,
    /// How many times slower each server is than said.
    pub(crate) slowness: Vec<u64>,
    pub(crate) now_ns: u64,
    /// When the executor has last taken something in.
    heard_ns: u64,
    pub(crate) next: BinaryHeap<Reverse<(u64, u64, Next)>>,
    n_said: u64,
    is_up: Vec<bool>,
    /// As they are now, with those that have joined.
    servers: Vec<model::Server>,
    clients: Vec<model::Client>,
    gone_servers: BTreeSet<u32>,
    gone_clients: BTreeSet<u32>,
    /// Who holds each request.
    holders: Vec<BTreeSet<u32>>,
    moving: BTreeMap<TransferId, Moving>,
    pub(crate) over: BTreeSet<TransferId>,
    pub(crate) delivered: BTreeMap<u32, usize>,
    pub(crate) failed: BTreeMap<u32, Reason>,
    pub(crate) cancelled: BTreeSet<u32>,
    /// What has come of each request.
    received: BTreeMap<u32, Vec<(u128, u128, usize)>>,
    /// Servers that said that they have nothing of a request, or sent damaged blocks from one place to another.
    not_held: BTreeSet<(u32, usize)>,
    damaged: Vec<(u32, usize, u128, u128)>,
    pub(crate) n_kept: u32,
    /// Until when servers want to be left alone.
    refuses_until_ns: BTreeMap<usize, u64>,
    pub(crate) hedged: BTreeSet<u32>,
    hedge_blocks: u128,
    /// Whatever was told to be moved, in all.
    moved: u128,
    /// What is being planned anew.
    snapshots: BTreeMap<u32, Snapshot>,
    pub(crate) log: Vec<(u64, Action)>,
    pub(crate) end_ns: u64,
}

impl<'a> World<'a> {
    pub(crate) fn new(
        batch: &'a Batch,
        cluster: &'a Cluster,
        plan: &Schedule,
        settings: Settings,
        chaos: Chaos,
        seed: u64,
    ) -> Self {
        let executor = Executor::new(batch, cluster, plan, settings, 0).expect("a good plan");
        let mut world = Self {
            batch,
            cluster,
            settings,
            executor,
            chaos,
            draw: Seeded::new(seed),
            slowness: vec![1; batch.n_servers()],
            now_ns: 0,
            heard_ns: 0,
            next: BinaryHeap::new(),
            n_said: 0,
            is_up: vec![true; batch.n_servers()],
            servers: cluster.servers().to_vec(),
            clients: cluster.clients().to_vec(),
            gone_servers: BTreeSet::new(),
            gone_clients: BTreeSet::new(),
            holders: batch.replicas().iter().map(|set| set.iter().map(|s| s.0).collect()).collect(),
            moving: BTreeMap::new(),
            over: BTreeSet::new(),
            delivered: BTreeMap::new(),
            failed: BTreeMap::new(),
            cancelled: BTreeSet::new(),
            received: BTreeMap::new(),
            not_held: BTreeSet::new(),
            damaged: Vec::new(),
            n_kept: 0,
            refuses_until_ns: BTreeMap::new(),
            hedged: BTreeSet::new(),
            hedge_blocks: 0,
            moved: 0,
            snapshots: BTreeMap::new(),
            log: Vec::new(),
            end_ns: 0,
        };
        let planned: BTreeSet<u32> = plan.transfers.iter().map(|t| t.request).collect();
        for request in (0..batch.n_requests() as u32).filter(|request| !planned.contains(request)) {
            let at = u64::from(world.draw.below(20)) * SECOND / 4;
            world.say(at, Next::Arrive(request));
        }
        for request in 0..batch.n_requests() as u32 {
            if world.happens(chaos.cancel) {
                let at = u64::from(world.draw.below(20)) * SECOND / 4;
                world.say(at, Next::Cancel(request));
            }
        }
        for server in 0..batch.n_servers() as u32 {
            let mut at = 0;
            while world.happens(chaos.outages) {
                at += u64::from(world.draw.below(8)) * SECOND / 2;
                world.say(at, Next::Down(server));
                at += u64::from(world.draw.below(8)) * SECOND / 2;
                // Some never come back.
                if world.draw.below(4) > 0 {
                    world.say(at, Next::Up(server));
                }
            }
        }
        world.draw_members();
        world
    }

    /// Draws who comes and goes.
    fn draw_members(&mut self) {
        let mut n_servers = self.batch.n_servers() as u32;
        let mut at = 0;
        while self.happens(self.chaos.members) {
            at += u64::from(self.draw.below(6)) * SECOND / 4;
            let (request, client) = (
                self.draw.below(self.batch.n_requests().max(1) as u32),
                self.draw.below(self.clients.len() as u32),
            );
            let server = self.draw.below(n_servers);
            let next = match self.draw.below(8) {
                0 => {
                    n_servers += 1;
                    Next::ServerJoins(n_servers - 1)
                }
                1 => Next::ServerJoins(server),
                2 => Next::ServerLeaves(server),
                3 => Next::ClientJoins(client),
                4 => Next::ClientLeaves(client),
                5 => Next::Dropped(request, server),
                _ => Next::Copied(request, server),
            };
            self.say(at, next);
        }
    }

    fn happens(&mut self, of_100: u32) -> bool {
        self.draw.below(100) < of_100
    }

    pub(crate) fn say(&mut self, at_ns: u64, next: Next) {
        self.next.push(Reverse((at_ns, self.n_said, next)));
        self.n_said += 1;
    }

    /// Until all is delivered or has failed.
    pub(crate) fn run(&mut self) -> u64 {
        self.tell(Event::Wake).expect("always fits");
        for step in 0.. {
            assert!(step < 100_000, "it never ends");
            let next_ns = self.next.peek().map(|Reverse((at_ns, ..))| *at_ns);
            let is_expected = |next: &Reverse<(u64, u64, Next)>| matches!(next.0.2, Next::Arrive(_));
            if self.executor.is_idle() && !self.next.iter().any(is_expected) {
                break;
            }
            match (next_ns, self.executor.wake_at()) {
                (Some(next_ns), wake_ns) if wake_ns.is_none_or(|wake_ns| next_ns <= wake_ns) => {
                    let Some(Reverse((_, _, next))) = self.next.pop() else { panic!("just seen") };
                    self.now_ns = next_ns;
                    self.happen(next);
                }
                (_, Some(wake_ns)) => {
                    assert!(wake_ns >= self.now_ns, "it was to be woken before");
                    self.now_ns = wake_ns;
                    self.tell(Event::Wake).expect("always fits");
                    // Once more, if it has asked for a plan.
                    let is_later = self.executor.wake_at().is_none_or(|next_ns| next_ns > wake_ns);
                    assert!(is_later || !self.snapshots.is_empty(), "woken in vain");
                }
                (_, None) => panic!("nothing will ever happen"),
            }
            // Small worlds only: all of the executor is compared.
            let is_nonsense = self.happens(5) && self.batch.n_requests() <= 100;
            if is_nonsense {
                self.talk_nonsense();
            }
        }
        self.finish();
        self.end_ns
    }

    fn happen(&mut self, next: Next) {
        match next {
            Next::Progress(transfer, blocks) => _ = self.tell(Event::Progress { transfer, blocks }),
            Next::Done(transfer) => _ = self.tell(Event::Done { transfer }),
            Next::Failed(transfer) => {
                let cause = self.cause();
                _ = self.tell(Event::Failed { transfer, cause });
            }
            Next::Cancel(request) => {
                if self.tell(Event::Cancelled { request: id(request) }).is_ok()
                    && !self.delivered.contains_key(&request)
                {
                    self.is_open(request);
                    self.cancelled.insert(request);
                    assert!(self.moving.values().all(|moving| moving.request != request));
                }
            }
            Next::Arrive(request) => {
                let client = self.batch.client(request as usize).0;
                let told = self.tell(arrival(self.batch, request));
                if self.gone_clients.contains(&client) {
                    assert_eq!(told, Err(Misfit::NoSuchClient(client)));
                    self.cancelled.insert(request);
                } else {
                    told.expect("it is new");
                }
            }
            Next::Planned(number) => {
                let snapshot = self.snapshots.remove(&number).expect("it was asked for");
                self.plan(snapshot);
            }
            Next::Down(server) | Next::Up(server) if self.gone_servers.contains(&server) => {
                let event = Event::ServerUp { server: ServerId(server) };
                self.tell(event).expect_err("it has left");
            }
            Next::Down(server) => {
                self.is_up[server as usize] = false;
                self.tell(Event::ServerDown { server: ServerId(server) }).expect("it is there");
            }
            Next::Up(server) => {
                self.is_up[server as usize] = true;
                self.tell(Event::ServerUp { server: ServerId(server) }).expect("it is there");
            }
            other => self.members_change(other),
        }
    }

    fn members_change(&mut self, next: Next) {
        match next {
            Next::ServerJoins(server) => {
                let node =
                    model::Server { slots: 1 + self.draw.below(3), ..self.cluster.servers()[0].clone() };
                let node = &model::Server { backlog: 0, ..node };
                if server as usize == self.servers.len() {
                    self.servers.push(node.clone());
                    self.is_up.push(true);
                    self.slowness.push(1);
                }
                self.servers[server as usize].clone_from(node);
                self.is_up[server as usize] = true;
                self.gone_servers.remove(&server);
                self.refuses_until_ns.remove(&(server as usize));
                self.tell(Event::ServerJoined { server: ServerId(server), node }).expect("it may join");
            }
            Next::ServerLeaves(server) => {
                self.is_up[server as usize] = false;
                let is_new = self.gone_servers.insert(server);
                let told = self.tell(Event::ServerLeft { server: ServerId(server) });
                assert_eq!(told, if is_new { Ok(()) } else { Err(Misfit::NoSuchServer(server)) });
            }
            Next::ClientJoins(client) => {
                let node = &model::Client { slots: 1 + self.draw.below(3) };
                self.clients[client as usize].clone_from(node);
                self.gone_clients.remove(&client);
                self.tell(Event::ClientJoined { client: ClientId(client), node }).expect("it may join");
            }
            Next::ClientLeaves(client) => {
                let is_new = self.gone_clients.insert(client);
                // What it has received is lost.
                self.received.retain(|_, parts| parts.iter().all(|part| part.2 != client as usize));
                let told = self.tell(Event::ClientLeft { client: ClientId(client) });
                assert_eq!(told, if is_new { Ok(()) } else { Err(Misfit::NoSuchClient(client)) });
                assert!(self.moving.values().all(|moving| moving.client != client as usize));
            }
            Next::Copied(request, server) => {
                let (is_member, added) = (
                    !self.gone_servers.contains(&server),
                    Event::ReplicaAdded { request: id(request), server: ServerId(server) },
                );
                if is_member && self.is_known(request) {
                    self.holders[request as usize].insert(server);
                    self.not_held.remove(&(request, server as usize));
                    self.tell(added).expect("it is open");
                } else {
                    self.tell(added).expect_err("it is over, or the server is gone");
                }
            }
            Next::Dropped(request, server) => {
                let (is_member, lost) = (
                    !self.gone_servers.contains(&server),
                    Event::ReplicaLost { request: id(request), server: ServerId(server) },
                );
                if is_member && self.is_known(request) {
                    self.holders[request as usize].remove(&server);
                    self.tell(lost).expect("it is open");
                } else {
                    self.tell(lost).expect_err("it is over, or the server is gone");
                }
            }
            _ => unreachable!("it happens elsewhere"),
        }
    }

    fn cause(&mut self) -> Cause {
        if !self.happens(self.chaos.cause) {
            return Cause::Unreachable;
        }
        match self.draw.below(4) {
            0 => Cause::TimedOut,
            1 => Cause::NotHeld,
            2 => Cause::Damaged,
            _ => Cause::Refused { retry_after_ns: u64::from(self.draw.below(3)) * SECOND },
        }
    }

    /// What is known of a server that failed.
    fn blame(&mut self, moving: &Moving, cause: Cause) {
        let &Moving { request, server, offset, blocks, .. } = moving;
        match cause {
            Cause::NotHeld => _ = self.not_held.insert((request, server)),
            Cause::Damaged => self.damaged.push((request, server, offset, offset + blocks)),
            Cause::Refused { retry_after_ns } => {
                let until_ns = self.refuses_until_ns.entry(server).or_default();
                *until_ns = (*until_ns).max(self.now_ns + retry_after_ns.min(self.settings.patience_ns));
            }
            Cause::Unreachable | Cause::TimedOut => {}
        }
    }

    /// Tells the executor something that cannot be: it must say so, and do nothing.
    fn talk_nonsense(&mut self) {
        let before = format!("{:?}", self.executor);
        let beyond = [ServerId(self.servers.len() as u32)];
        let over = self.over.first().copied().unwrap_or(TransferId(1 << 40));
        let unknown = RequestId(self.batch.n_requests() as u64);
        let arrived = |replicas, client| Event::Arrived {
            request: unknown,
            client: ClientId(client),
            blocks: 1,
            replicas,
        };
        let events = [
            arrived(&beyond, 0),
            arrived(&[], 0),
            arrived(&[ServerId(0); 2], 0),
            arrived(&[ServerId(0)], self.clients.len() as u32),
            Event::ServerDown { server: beyond[0] },
            Event::ServerLeft { server: beyond[0] },
            Event::ServerJoined { server: ServerId(beyond[0].0 + 1), node: &model::Server::default() },
            Event::ClientJoined { client: ClientId(0), node: &model::Client { slots: 0 } },
            Event::ServerUp { server: ServerId(u32::MAX) },
            Event::Done { transfer: TransferId(u64::MAX) },
            Event::Failed { transfer: over, cause: Cause::Damaged },
            Event::Cancelled { request: unknown },
            Event::Progress { transfer: over, blocks: Fixed::ZERO },
        ];
        let mut out = Vec::new();
        for event in events {
            self.executor.on_event(self.now_ns, event, &mut out).expect_err("it cannot be");
        }
        if let Some(past) = self.heard_ns.checked_sub(1) {
            let misfit = self.executor.on_event(past, Event::Wake, &mut out);
            assert_eq!(misfit, Err(Misfit::Past { now_ns: self.heard_ns }));
        }
        if let Some((&transfer, moving)) = self.moving.first_key_value() {
            let blocks = Fixed::from_nanos(moving.blocks + 1).expect("small");
            let misfit = self.executor.on_event(self.now_ns, Event::Progress { transfer, blocks }, &mut out);
            assert_eq!(misfit, Err(Misfit::WrongProgress(transfer)));
        }
        assert!(out.is_empty());
        assert_eq!(format!("{:?}", self.executor), before);
    }

    fn tell(&mut self, event: Event<'_>) -> Result<(), Misfit> {
        let mut out = Vec::new();
        let told = self.executor.on_event(self.now_ns, event, &mut out);
        if told.is_ok() {
            self.heard_ns = self.now_ns;
        }
        let transfer = match event {
            Event::Done { transfer } | Event::Failed { transfer, .. } => Some(transfer),
            Event::Progress { transfer, blocks } if told.is_ok() => {
                let moving = self.moving.get_mut(&transfer).expect("it is under way");
                self.moved += blocks.nanos() - moving.moved;
                moving.moved = blocks.nanos();
                None
            }
            _ => None,
        };
        match (told, transfer) {
            (Ok(()), Some(transfer)) => {
                let moving = self.moving.remove(&transfer).expect("it was under way");
                assert!(self.over.insert(transfer));
                if let Event::Failed { cause, .. } = event {
                    self.blame(&moving, cause);
                    if cause != Cause::Damaged {
                        self.keep(&moving);
                    }
                } else {
                    self.moved += moving.blocks - moving.moved;
                    self.receive(&moving, moving.blocks);
                }
            }
            (Err(misfit), Some(transfer)) => {
                assert_eq!(misfit, Misfit::Over(transfer));
                assert!(self.over.contains(&transfer));
                assert!(out.is_empty());
            }
            _ => {}
        }
        for action in out {
            self.log.push((self.now_ns, action));
            self.act(action);
        }
        told
    }

    /// So much of a transfer has come.
    fn receive(&mut self, moving: &Moving, blocks: u128) {
        self.received.entry(moving.request).or_default().push((moving.offset, blocks, moving.client));
    }

    /// What a transfer that is broken off has brought, unless only its end is missing.
    fn keep(&mut self, moving: &Moving) {
        let is_there = !self.gone_clients.contains(&(moving.client as u32));
        if is_there && (1..moving.blocks).contains(&moving.moved) {
            self.receive(moving, moving.moved);
            self.n_kept += 1;
        }
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Start { transfer, request, client, server, offset, blocks, is_hedge } => {
                let moving = Moving {
                    request: row(request),
                    client: client.index(),
                    server: server.index(),
                    offset: offset.nanos(),
                    blocks: blocks.nanos(),
                    moved: 0,
                };
                self.start(transfer, moving, is_hedge);
            }
            Action::Withdraw { transfer } => {
                let moving = self.moving.remove(&transfer).expect("it was under way");
                assert!(self.over.insert(transfer));
                self.keep(&moving);
            }
            Action::Report { request, server, offset, blocks } => {
                let reported =
                    (row(request), server.index(), offset.nanos(), offset.nanos() + blocks.nanos());
                assert_eq!(self.damaged.last(), Some(&reported));
            }
            Action::Plan { number } => {
                let snapshot = self.executor.snapshot().expect("it was just asked for");
                if self.happens(self.chaos.late) {
                    let at = self.now_ns + u64::from(self.draw.below(8)) * SECOND / 4;
                    self.snapshots.insert(number, snapshot);
                    self.say(at, Next::Planned(number));
                } else {
                    self.plan(snapshot);
                }
            }
            Action::Deliver { request, client } => {
                let request = row(request);
                self.is_open(request);
                assert!(self.settings.shares_work || client == self.batch.client(request as usize));
                assert!(!self.gone_clients.contains(&client.0));
                assert!(self.delivered.insert(request, client.index()).is_none(), "delivered twice");
                let mut parts = self.received.remove(&request).unwrap_or_default();
                parts.sort_unstable();
                let is_hedged = self.hedged.contains(&request);
                let end = parts.iter().fold(0, |end, &(offset, blocks, _)| {
                    assert!(offset <= end, "a gap");
                    assert!(offset == end || is_hedged, "twice the same");
                    end.max(offset + blocks)
                });
                assert_eq!(end, u128::from(self.batch.blocks(request as usize)) * u128::from(SECOND));
                self.end_ns = self.now_ns;
            }
            Action::Fail { request, reason } => {
                let request = row(request);
                self.is_open(request);
                self.failed.insert(request, reason);
                let has_heirs = self.settings.shares_work && self.gone_clients.len() < self.clients.len();
                assert!(reason != Reason::ClientLeft || !has_heirs);
                assert!(self.moving.values().all(|moving| moving.request != request));
            }
        }
    }

    /// Plans what was asked for, as it was then.
    fn plan(&mut self, snapshot: Snapshot) {
        let plan = snapshot.plan();
        let planned = Event::Planned { plan: &plan };
        self.tell(planned).expect("it was asked for");
        self.executor.on_event(self.now_ns, planned, &mut Vec::new()).expect_err("it is made already");
    }

    /// Whether a request is planned or has arrived, and is not over.
    fn is_known(&self, request: u32) -> bool {
        let is_over = self.delivered.contains_key(&request) || self.failed.contains_key(&request);
        let is_to_come = self.next.iter().any(|Reverse((.., next))| *next == Next::Arrive(request));
        let is_in_batch = (request as usize) < self.batch.n_requests();
        is_in_batch && !is_over && !is_to_come && !self.cancelled.contains(&request)
    }

    fn is_open(&self, request: u32) {
        assert!(!self.delivered.contains_key(&request) && !self.failed.contains_key(&request));
        assert!(!self.cancelled.contains(&request), "it was cancelled");
    }

    fn start(&mut self, transfer: TransferId, moving: Moving, is_hedge: bool) {
        let Moving { request, client, server, blocks, .. } = moving;
        self.is_open(request);
        let before = self.moving.last_key_value().map(|(&last, _)| last).max(self.over.last().copied());
        assert!(before < Some(transfer), "numbers rise");
        assert!(self.is_up[server], "it is down");
        assert!(self.holders[request as usize].contains(&(server as u32)));
        assert!(!self.gone_clients.contains(&(client as u32)));
        let node = &self.servers[server];
        let busy =
            u128::from(node.busy()) * u128::from(SECOND) * 1_000_000 / u128::from(node.speed.millionths());
        assert!(u128::from(self.now_ns) >= busy, "it is busy");
        assert!(!self.not_held.contains(&(request, server)), "it has said that it does not have it");
        let overlaps = |&(r, s, from, to): &(u32, usize, u128, u128)| {
            (r, s) == (request, server) && from < moving.offset + blocks && moving.offset < to
        };
        assert!(!self.damaged.iter().any(overlaps), "it has sent that damaged before");
        assert!(self.refuses_until_ns.get(&server).is_none_or(|&until_ns| self.now_ns >= until_ns));
        if is_hedge {
            assert!(self.hedged.insert(request), "hedged twice");
            self.hedge_blocks += blocks;
            let Settings { hedge_blocks, hedge_share, .. } = self.settings;
            let budget = hedge_blocks as f64 * 1e9 + hedge_share * self.moved as f64;
            assert!(self.hedge_blocks as f64 <= budget * 1.000_001, "beyond the budget");
        }
        self.moving.insert(transfer, moving);
        let at = |wanted: &dyn Fn(&Moving) -> bool| self.moving.values().filter(|m| wanted(m)).count();
        assert!(at(&|m| m.client == client) <= self.clients[client].slots as usize);
        assert!(at(&|m| m.server == server) <= node.slots as usize);
        assert!(self.cluster.max_concurrent().is_none_or(|most| self.moving.len() as u64 <= most));
        self.go_on(transfer, blocks, server);
    }

    /// Decides what becomes of a transfer.
    fn go_on(&mut self, transfer: TransferId, blocks: u128, server: usize) {
        let chaos = self.chaos;
        let millionths = u128::from(self.servers[server].speed.millionths());
        let mut takes_ns = (blocks * 1_000_000 / millionths) as u64 * self.slowness[server];
        if self.happens(chaos.slow) {
            takes_ns = takes_ns * (1 + u64::from(self.draw.below(60))) / 4;
        }
        let done_ns = self.now_ns + takes_ns;
        let told_ns = if self.happens(chaos.late) { done_ns + SECOND } else { done_ns };
        if self.happens(chaos.progress) {
            let halfway = |n: u128| Fixed::from_nanos(blocks * n / 4).expect("small");
            let at = |n: u64| self.now_ns + takes_ns * n / 4;
            let told = if self.draw.below(3) == 0 { [(3, 1), (3, 3)] } else { [(1, 1), (3, 3)] };
            let told = told.map(|(time, n)| (at(time), halfway(n)));
            told.into_iter().for_each(|(at, blocks)| self.say(at, Next::Progress(transfer, blocks)));
        }
        if self.happens(chaos.fail) {
            let at = self.now_ns + takes_ns / 2;
            self.say(at, Next::Failed(transfer));
        } else if !self.happens(chaos.lose) {
            self.say(told_ns, Next::Done(transfer));
        }
        if self.happens(chaos.double) {
            self.say(told_ns + SECOND / 2, Next::Done(transfer));
            self.say(told_ns + SECOND, Next::Failed(transfer));
        }
    }

    /// Everybody got what it asked for, once, or was told why not; and late messages change nothing.
    fn finish(&mut self) {
        assert!(self.moving.is_empty(), "{:?}", self.moving);
        let n_known = self.delivered.len() + self.failed.len() + self.cancelled.len();
        assert_eq!(n_known, self.batch.n_requests());
        assert_eq!(self.executor.wake_at(), None);
        let counts = self.executor.counts();
        assert_eq!((counts.open, counts.running), (0, 0));
        assert_eq!(
            (counts.delivered, counts.failed),
            (self.delivered.len() as u64, self.failed.len() as u64)
        );
        assert_eq!((counts.started, counts.moved), (self.over.len() as u64, self.moved / u128::from(SECOND)));
        let n_actions = self.log.len();
        while let Some(Reverse((at_ns, _, next))) = self.next.pop() {
            self.now_ns = at_ns.max(self.now_ns);
            self.happen(next);
        }
        assert_eq!(self.log.len(), n_actions);
    }
}

pub(crate) fn chaos() -> impl Strategy<Value = Chaos> {
    let often = || select(&[0, 0, 5, 30, 80][..]);
    let tuple = (often(), often(), select(&[0, 0, 5, 20][..]), often(), often(), often(), often());
    let tuple = (tuple, often(), select(&[0, 0, 5, 50][..]), select(&[0, 0, 50, 90][..]));
    tuple.prop_map(|((slow, fail, lose, double, late, progress, outages), cause, cancel, members)| Chaos {
        slow,
        fail,
        lose,
        double,
        late,
        progress,
        outages: outages.min(60),
        cause,
        cancel,
        members,
    })
}

pub(crate) fn settings() -> impl Strategy<Value = Settings> {
    let picks = select(&[Pick::LeastLoaded, Pick::TwoChoices, Pick::PeakEwma][..]);
    let lates = || select(&[Late::Share(0.5), Late::Share(0.0), Late::P95, Late::AfterNs(SECOND)][..]);
    let decisions = select(&[Decide::OnArrival, Decide::WhenFree][..]);
    let hedges = select(&[0_u64, 3, 1_000][..]);
    let patience = select(&[0, 2 * SECOND, 30 * SECOND][..]);
    let hedging = (lates(), hedges, select(&[0.0, 0.05, 0.5][..]));
    let flags = (any::<bool>(), any::<bool>(), any::<bool>());
    ((picks, decisions), lates(), hedging, 0..5_u32, patience, flags, any::<u64>()).prop_map(
        |(
            (pick, decide),
            late,
            hedging,
            most_failures,
            patience_ns,
            (shares_work, replans, keeps_order),
            seed,
        )| {
            let plain = Settings::default();
            let replan_after = plain.replan_after.filter(|_| replans);
            let (hedge_after, hedge_blocks, hedge_share) = hedging;
            Settings {
                pick,
                decide,
                late,
                hedge_after,
                replan_after,
                least_part_blocks: seed % 4,
                hedge_blocks,
                hedge_share,
                most_failures,
                patience_ns,
                keeps_order,
                shares_work,
                seed,
                ..plain
            }
        },
    )
}
