//! The executor in the simulator and in a bare loop does the same: whoever drives it, the same things happen.

use std::collections::BTreeMap;

use evenkeel::model::{BatchBuilder, ClientId, Fixed, NameTable, Schedule, ServerId};
use evenkeel::order::colour;
use evenkeel::run::{Action, Cause, Decide, Event, Executor, Pick, RequestId, Settings, TransferId};
use evenkeel::select::{Goal, optimal};
use evenkeel_sim::fabric::Fabric;
use evenkeel_sim::hardware::{Client, Hardware, Server};
use evenkeel_sim::requests::{Incident, Message, Requests, Trouble, View, execute_watched};
use proptest::collection::vec;
use proptest::prelude::*;

const BLOCK_BYTES: u64 = 1_000_003;

/// Requests, servers of which planners know only the nominal rate, and what happens.
#[derive(Clone, Debug)]
struct World {
    hardware: Hardware,
    nominal: Hardware,
    requests: Requests,
    settings: Settings,
    trouble: Trouble,
    is_planned: bool,
}

fn server() -> impl Strategy<Value = Server> {
    // Down from some time on and for so long, if at all.
    let outage = prop_oneof![Just(None), (0..40_000_000_u64, 1..40_000_000_u64).prop_map(Some)];
    (1..4_000_u32, 1..3_u32, outage, any::<bool>()).prop_map(|(rate, slots, outage, leaves)| Server {
        rate: f64::from(rate) / 1_000.0 + 0.05,
        slots,
        outages: outage.map(|(from_ns, lasts_ns)| (from_ns, from_ns + lasts_ns)).into_iter().collect(),
        leaves,
        ..Server::default()
    })
}

fn settings() -> impl Strategy<Value = Settings> {
    let picks = vec![Pick::LeastLoaded, Pick::TwoChoices, Pick::PeakEwma];
    let pick = (prop::sample::select(picks), any::<bool>());
    (pick, 0..20_u64, any::<u64>(), any::<bool>()).prop_map(
        |((pick, is_late), hedge_blocks, seed, replans)| {
            let decide = if is_late { Decide::WhenFree } else { Decide::OnArrival };
            let usual = Settings::default();
            let replan_after = if replans { usual.replan_after } else { None };
            Settings { pick, decide, hedge_blocks, seed, replan_after, patience_ns: 60_000_000, ..usual }
        },
    )
}

fn trouble() -> impl Strategy<Value = Trouble> {
    let share = || prop_oneof![Just(0.0), 0.0..0.3];
    let progress = prop_oneof![Just(None), (300_000..5_000_000_u64).prop_map(Some)];
    (share(), 1_000_000..20_000_000_u64, share(), share(), progress).prop_map(
        |(lost, timeout_ns, cancelled, dead_clients, progress_ns)| Trouble {
            lost,
            timeout_ns,
            cancelled,
            dead_clients,
            progress_ns,
        },
    )
}

fn names(prefix: char, n: u32) -> NameTable {
    let mut names = NameTable::new();
    (0..n).for_each(|k| _ = names.intern(&format!("{prefix}{k}")));
    names
}

fn worlds() -> impl Strategy<Value = World> {
    let servers = vec(server(), 1..6);
    let clients = vec(1..3_u32, 1..5);
    // Its client, its blocks, its first replica and how many there are, and when it arrives.
    let request = (any::<u32>(), 1..5_u64, any::<u32>(), any::<u32>(), 0..30_000_000_u64);
    let requests = vec(request, 1..30);
    (servers, clients, requests, settings(), trouble(), any::<[bool; 2]>()).prop_map(
        |(servers, clients, rows, settings, trouble, [is_planned, is_over_time])| {
            let (n_servers, n_clients) = (servers.len() as u32, clients.len() as u32);
            let mut batch = BatchBuilder::new();
            batch.declare_clients(names('c', n_clients)).expect("good names");
            batch.declare_servers(names('s', n_servers)).expect("good names");
            for &(client, blocks, first, copies, _) in &rows {
                let name = |k: u32| format!("s{}", (first % n_servers + k) % n_servers);
                let names: Vec<String> = (0..=copies % n_servers).map(name).collect();
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                batch.request(&format!("c{}", client % n_clients), blocks, &names).expect("a good request");
            }
            let batch = batch.finish();
            let clients = clients.iter().map(|&slots| Client { host: 0, slots }).collect();
            let hardware =
                Hardware { servers, clients, n_hosts: 1, nic: None, message_ns: 0, dispatch_ns: 0 };
            let mut nominal = hardware.clone();
            nominal.servers.iter_mut().for_each(|server| server.rate = 1.0);
            let arrivals = rows.iter().map(|&(.., arrives_ns)| arrives_ns).collect();
            let arrivals_ns = (is_over_time && !is_planned).then_some(arrivals);
            let requests = Requests { batch, block_bytes: BLOCK_BYTES, bytes: None, arrivals_ns };
            let view = View::new(&requests, &nominal).expect("a good view");
            let settings = Settings { block_ns: view.block_ns, ..settings };
            World { hardware, nominal, requests, settings, trouble, is_planned }
        },
    )
}

impl World {
    fn plan(&self, view: &View) -> Schedule {
        if !self.is_planned {
            return Schedule::default();
        }
        let (choice, _) = optimal::select(&self.requests.batch, &view.cluster, Goal::Length);
        colour::order(&self.requests.batch, &view.cluster, &choice)
    }

    fn simulated(&self, view: &View) -> Vec<(u64, Action)> {
        let mut seen = Vec::new();
        let fabric = Fabric::new(&self.hardware, None);
        let mut watch = |now_ns, action: &Action| seen.push((now_ns, *action));
        let plan = self.plan(view);
        let outcome =
            execute_watched(&self.requests, fabric, view, &plan, self.settings, &self.trouble, &mut watch);
        outcome.expect("a good plan").findings.none().expect("no event is refused");
        seen
    }
}

/// What a bare loop waits for.
#[derive(Clone, Copy, Debug)]
enum Next {
    Arrived(u32),
    Down(ServerId),
    Up(ServerId),
    Incident(Incident),
    Done(TransferId),
    Overdue(TransferId),
    Report,
}

/// A transfer that moves its bytes.
#[derive(Clone, Copy, Debug)]
struct Moving {
    server: ServerId,
    bytes: u64,
    done_ns: u64,
}

/// As little as drives an executor: a list of what will happen, and what is under way.
struct Bare<'a> {
    world: &'a World,
    view: &'a View,
    executor: Executor,
    now_ns: u64,
    agenda: BTreeMap<(u64, u64), Next>,
    n_added: u64,
    /// What is under way; of what nobody has heard, nothing else is known.
    running: BTreeMap<TransferId, Option<Moving>>,
    will_report: bool,
    is_over: Vec<bool>,
    is_dead: Vec<bool>,
    seen: Vec<(u64, Action)>,
}

impl<'a> Bare<'a> {
    fn new(world: &'a World, view: &'a View) -> Self {
        let batch = &world.requests.batch;
        let plan = world.plan(view);
        let executor = Executor::new(batch, &view.cluster, &plan, world.settings, 0).expect("a good plan");
        let mut bare = Self {
            world,
            view,
            executor,
            now_ns: 0,
            agenda: BTreeMap::new(),
            n_added: 0,
            running: BTreeMap::new(),
            will_report: false,
            is_over: vec![false; batch.n_requests()],
            is_dead: vec![false; batch.n_clients()],
            seen: Vec::new(),
        };
        for (k, server) in (0..).map(ServerId).zip(&world.hardware.servers) {
            for &(from_ns, until_ns) in &server.outages {
                bare.add(from_ns, Next::Down(k));
                bare.add(until_ns, Next::Up(k));
            }
        }
        let seed = world.settings.seed;
        for (at_ns, incident) in world.trouble.incidents(&world.requests, view, seed) {
            bare.add(at_ns, Next::Incident(incident));
        }
        if !world.is_planned {
            for request in 0..batch.n_requests() as u32 {
                bare.add(world.requests.arrival_ns(request as usize), Next::Arrived(request));
            }
        }
        bare
    }

    fn add(&mut self, at_ns: u64, next: Next) {
        self.agenda.insert((at_ns, self.n_added), next);
        self.n_added += 1;
    }

    /// All that the executor does; nothing if two things happen at once, since there is no one order of them.
    fn run(mut self) -> Option<Vec<(u64, Action)>> {
        self.tell(Event::Wake);
        loop {
            let next = self.agenda.first_key_value().map(|(&key, &next)| (key, next));
            let wake_ns = self.executor.wake_at();
            match (next, wake_ns) {
                (None, None) => return Some(self.seen),
                (next, Some(at_ns)) if next.is_none_or(|((next_ns, _), _)| at_ns < next_ns) => {
                    self.now_ns = self.now_ns.max(at_ns);
                    self.tell(Event::Wake);
                }
                (Some((key, next)), wake_ns) => {
                    self.agenda.remove(&key);
                    let is_arrival = matches!(next, Next::Arrived(_));
                    let after = self.agenda.first_key_value();
                    let is_next_arrival = matches!(after, Some((_, Next::Arrived(_))));
                    let is_tie = after.is_some_and(|((at_ns, _), _)| *at_ns == key.0);
                    if is_tie && !(is_arrival && is_next_arrival) || wake_ns == Some(key.0) {
                        return None;
                    }
                    self.now_ns = key.0;
                    self.happen(next);
                }
                (None, Some(_)) => unreachable!("it is earlier than nothing"),
            }
        }
    }

    fn happen(&mut self, next: Next) {
        let batch = &self.world.requests.batch;
        let leaves = |server: ServerId| self.world.hardware.servers[server.index()].leaves;
        match next {
            Next::Arrived(request) if self.is_dead[batch.client(request as usize).index()] => {
                self.is_over[request as usize] = true;
            }
            Next::Arrived(request) => {
                let row = request as usize;
                self.tell(Event::Arrived {
                    request: RequestId(request.into()),
                    client: batch.client(row),
                    blocks: batch.blocks(row),
                    replicas: batch.replicas().of(row),
                });
            }
            Next::Down(server) if leaves(server) => self.tell(Event::ServerLeft { server }),
            Next::Down(server) => self.tell(Event::ServerDown { server }),
            Next::Up(server) if leaves(server) => {
                self.tell(Event::ServerJoined { server, node: self.view.cluster.server(server) });
            }
            Next::Up(server) => self.tell(Event::ServerUp { server }),
            Next::Incident(Incident::Cancelled { request }) => {
                if !std::mem::replace(&mut self.is_over[request as usize], true) {
                    self.tell(Event::Cancelled { request: RequestId(request.into()) });
                }
            }
            Next::Incident(Incident::Died { client }) => {
                self.is_dead[client as usize] = true;
                self.tell(Event::ClientLeft { client: ClientId(client) });
            }
            Next::Done(transfer) if self.loses(transfer, Message::Done) => {
                self.running.entry(transfer).and_modify(|moving| *moving = None);
                self.miss(transfer);
            }
            Next::Report => self.report(),
            Next::Done(transfer) => {
                if self.running.remove(&transfer).is_some() {
                    self.tell(Event::Done { transfer });
                }
            }
            Next::Overdue(transfer) => {
                if self.running.remove(&transfer).is_some() {
                    self.tell(Event::Failed { transfer, cause: Cause::TimedOut });
                }
            }
        }
    }

    fn report(&mut self) {
        let running: Vec<(TransferId, Option<Moving>)> = self.running.iter().map(|(&t, &m)| (t, m)).collect();
        for (transfer, moving) in running {
            let Some(Moving { server, bytes, done_ns }) = moving else { continue };
            if self.running.contains_key(&transfer) {
                let left = (done_ns - self.now_ns) as f64 * self.world.hardware.servers[server.index()].rate;
                let moved = u128::from((bytes as f64 - left).max(0.0) as u64);
                let blocks = Fixed::from_nanos(moved * 1_000_000_000 / u128::from(BLOCK_BYTES));
                self.tell(Event::Progress { transfer, blocks: blocks.expect("less than all") });
            }
        }
        self.will_report = false;
        self.await_reports();
    }

    fn await_reports(&mut self) {
        let progress_ns = self.world.trouble.progress_ns;
        if let Some(progress_ns) = progress_ns.filter(|_| !self.will_report && !self.running.is_empty()) {
            self.will_report = true;
            self.add(self.now_ns + progress_ns, Next::Report);
        }
    }

    fn loses(&self, transfer: TransferId, message: Message) -> bool {
        self.world.trouble.loses(self.world.settings.seed, transfer, message)
    }

    fn miss(&mut self, transfer: TransferId) {
        if self.running.contains_key(&transfer) {
            self.add(self.now_ns + self.world.trouble.timeout_ns, Next::Overdue(transfer));
        }
    }

    fn tell(&mut self, event: Event<'_>) {
        let mut actions = Vec::new();
        self.executor.on_event(self.now_ns, event, &mut actions).expect("no event is refused");
        for action in actions {
            self.seen.push((self.now_ns, action));
            match action {
                Action::Start { transfer, server, offset, blocks, .. } => {
                    self.running.insert(transfer, None);
                    if self.loses(transfer, Message::Start) {
                        self.miss(transfer);
                    } else {
                        let bytes = |nanos: u128| (nanos * u128::from(BLOCK_BYTES) / 1_000_000_000) as u64;
                        let bytes = bytes(offset.nanos() + blocks.nanos()) - bytes(offset.nanos());
                        let takes_ns = self.world.hardware.servers[server.index()].usual_ns(bytes);
                        let done_ns = self.now_ns + takes_ns;
                        self.running.insert(transfer, Some(Moving { server, bytes, done_ns }));
                        self.add(done_ns, Next::Done(transfer));
                    }
                    self.await_reports();
                }
                Action::Withdraw { transfer } => {
                    self.running.remove(&transfer);
                    self.agenda.retain(|_, next| !matches!(next, Next::Done(done) if *done == transfer));
                }
                Action::Plan { .. } => {
                    if let Some(snapshot) = self.executor.snapshot() {
                        self.tell(Event::Planned { plan: &snapshot.plan() });
                    }
                }
                Action::Deliver { request, .. } | Action::Fail { request, .. } => {
                    self.is_over[request.0 as usize] = true;
                }
                Action::Report { .. } => {}
            }
        }
    }
}

/// Some worlds have no one order of events; a campaign asks for more of all of them.
fn config() -> ProptestConfig {
    let times = std::env::var("EVENKEEL_TIMES").ok().and_then(|times| times.parse().ok()).unwrap_or(1);
    let cases = 5_000_u32.saturating_mul(times);
    ProptestConfig {
        failure_persistence: None,
        max_global_rejects: u32::MAX,
        ..ProptestConfig::with_cases(cases)
    }
}

proptest! {
    #![proptest_config(config())]

    /// The simulator, in which fabric, queues and network take part, and a loop of fifty lines drive the executor through
    /// the same world: outages, servers that leave and join, reports of progress, lost messages, requests that are withdrawn, clients that die.
    #[test]
    fn simulator_and_bare_loop_do_the_same(world in worlds()) {
        let view = View::new(&world.requests, &world.nominal).expect("a good view");
        let bare = Bare::new(&world, &view).run();
        prop_assume!(bare.is_some());
        let simulated = world.simulated(&view);
        prop_assert_eq!(format!("{:#?}", simulated), format!("{:#?}", bare.expect("it is there")));
    }
}
