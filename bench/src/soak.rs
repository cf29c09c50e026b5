//! Very many requests through one executor, few of them open at a time: neither its memory nor its time grows.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use anyhow::{Context, Result, ensure};
use evenkeel::draw::{Draw, Seeded};
use evenkeel::model::{
    Batch, BatchBuilder, Client, ClientId, Cluster, NameTable, Schedule, Server, ServerId,
};
use evenkeel::run::{Action, Cause, Event, Executor, Late, Pick, RequestId, Settings, TransferId};

use crate::Race;
use crate::batches::count;
use crate::clock::cpu_s;
use crate::goals::Goal;
use crate::report::{Cell, Report, Table};

const BLOCK_NS: u64 = 1_000_000;
const N_SERVERS: u32 = 100;
const N_CLIENTS: u32 = 64;

pub(crate) fn run(race: &Race, report: &mut Report) -> Result<()> {
    let (n_requests, most_open) = if race.args.quick { (100_000, 1_000) } else { (10_000_000, 10_000) };
    let name = format!("soak-{}", count(n_requests));
    if !race.has(&name) {
        return Ok(());
    }
    let mut soak = Soak::new(most_open)?;
    let mut table = Table::new("Requests without an end", &["soak", "events", "ns an event", "resident MiB"]);
    let mut tenths = Vec::new();
    for tenth in 1..=10 {
        let n_before = soak.n_events;
        let mut done = Ok(());
        let seconds = cpu_s(|| done = soak.go_on(u64::from(n_requests) * tenth / 10));
        done?;
        let ns = seconds * 1e9 / (soak.n_events - n_before) as f64;
        let mib = resident_bytes()? / f64::from(1 << 20);
        table.row([
            Cell::text(format!("{name}, tenth {tenth}")),
            Cell::Count(soak.n_events),
            Cell::Ratio(ns),
            Cell::Ratio(mib),
        ]);
        tenths.push((ns, mib));
    }
    let ((ns_early, mib_early), (ns_late, mib_late)) = (tenths[1], tenths[9]);
    report.measured(Goal::SoakTime, &name, ns_late / ns_early);
    report.measured(Goal::SoakMemory, &name, mib_late / tenths[0].1.max(mib_early));
    report.table(table);
    Ok(())
}

fn resident_bytes() -> Result<f64> {
    let pages = std::fs::read_to_string("/proc/self/statm").context("/proc/self/statm")?;
    let pages: f64 = pages.split(' ').nth(1).context("no second number")?.parse()?;
    Ok(pages * rustix::param::page_size() as f64)
}

/// The next thing that happens to a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Next {
    Done(TransferId),
    Failed(TransferId),
}

/// A cluster in which some servers are slow, some transfers fail, some requests are cancelled, and servers come and go.
struct Soak {
    executor: Executor,
    draw: Seeded,
    most_open: usize,
    now_ns: u64,
    n_arrived: u64,
    n_events: u64,
    next: BinaryHeap<Reverse<(u64, Next)>>,
    actions: Vec<Action>,
}

impl Soak {
    fn new(most_open: usize) -> Result<Self> {
        let nodes = nodes()?;
        let servers = vec![Server { slots: 4, ..Server::default() }; N_SERVERS as usize];
        let clients = vec![Client { slots: 16 }; N_CLIENTS as usize];
        let cluster = Cluster::new(&nodes, servers, clients, None)?;
        let settings = Settings {
            block_ns: BLOCK_NS as f64,
            hedge_after: Late::P95,
            hedge_blocks: 1_000,
            hedge_share: 0.05,
            ..Settings::online(Pick::TwoChoices)
        };
        let executor = Executor::new(&nodes, &cluster, &Schedule::default(), settings, 0)?;
        let (next, actions) = (BinaryHeap::new(), Vec::new());
        Ok(Self {
            executor,
            draw: Seeded::new(1),
            most_open,
            now_ns: 0,
            n_arrived: 0,
            n_events: 0,
            next,
            actions,
        })
    }

    /// Runs until this many requests have arrived.
    fn go_on(&mut self, until: u64) -> Result<()> {
        while self.n_arrived < until {
            if self.executor.counts().open < self.most_open {
                self.arrive()?;
                continue;
            }
            let next_ns = self.next.peek().map(|Reverse((at_ns, _))| *at_ns);
            let wake_ns = self.executor.wake_at();
            let at_ns = next_ns.into_iter().chain(wake_ns).min().context("nothing will ever happen")?;
            self.now_ns = self.now_ns.max(at_ns);
            let next = if next_ns == Some(at_ns) { self.next.pop() } else { None };
            match next {
                None => self.tell(Event::Wake)?,
                // Transfers that were broken off are over, so their events are refused.
                Some(Reverse((_, Next::Done(transfer)))) => _ = self.tell(Event::Done { transfer }),
                Some(Reverse((_, Next::Failed(transfer)))) => {
                    _ = self.tell(Event::Failed { transfer, cause: Cause::Unreachable });
                }
            }
        }
        Ok(())
    }

    fn arrive(&mut self) -> Result<()> {
        let first = self.draw.below(N_SERVERS);
        let replicas = [0, 7, 31].map(|step| ServerId((first + step) % N_SERVERS));
        let (client, blocks) = (ClientId(self.draw.below(N_CLIENTS)), 1 + u64::from(self.draw.below(4)));
        let request = RequestId(self.n_arrived);
        self.n_arrived += 1;
        self.tell(Event::Arrived { request, client, blocks, replicas: &replicas })?;
        if self.draw.below(100) == 0 {
            self.tell(Event::Cancelled { request })?;
        }
        if self.n_arrived.is_multiple_of(50_000) {
            let server = ServerId(first);
            self.tell(Event::ServerLeft { server })?;
            self.tell(Event::ServerJoined { server, node: &Server { slots: 4, ..Server::default() } })?;
        }
        Ok(())
    }

    fn tell(&mut self, event: Event<'_>) -> Result<()> {
        self.n_events += 1;
        self.executor.on_event(self.now_ns, event, &mut self.actions)?;
        for action in self.actions.drain(..) {
            if let Action::Start { transfer, server, blocks, .. } = action {
                let slow = if server.0.is_multiple_of(10) { 3 } else { 1 };
                let takes_ns = (blocks.nanos() as f64 / 1e9 * BLOCK_NS as f64) as u64 * slow
                    + u64::from(self.draw.below(100_000));
                let next =
                    if self.draw.below(100) == 0 { Next::Failed(transfer) } else { Next::Done(transfer) };
                self.next.push(Reverse((self.now_ns + takes_ns, next)));
            }
        }
        Ok(())
    }
}

/// A batch without requests.
fn nodes() -> Result<Batch> {
    let table = |prefix: char, n: u32| {
        let mut names = NameTable::new();
        (0..n).for_each(|i| _ = names.intern(&format!("{prefix}{i}")));
        names
    };
    let mut nodes = BatchBuilder::new();
    nodes.declare_servers(table('s', N_SERVERS))?;
    nodes.declare_clients(table('c', N_CLIENTS))?;
    let nodes = nodes.finish();
    ensure!(nodes.n_servers() == N_SERVERS as usize, "servers are missing");
    Ok(nodes)
}
