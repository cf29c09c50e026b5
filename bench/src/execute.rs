//! The executor on a cluster in memory, against a plain heap of as many events.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use anyhow::{Result, ensure};
use evenkeel::model::{Batch, Cluster, Schedule};
use evenkeel::order::colour;
use evenkeel::run::{Action, Event, Executor, Pick, RequestId, Settings, Snapshot, TransferId};
use evenkeel::select::{Goal as Aim, optimal};
use evenkeel::workload::Workload;

use crate::Race;
use crate::batches::{count, uniform};
use crate::clock::{Contestant, cpu_s, in_turn};
use crate::goals::Goal;
use crate::report::{Cell, Report, Table};

const BLOCK_NS: u64 = 1_000_000;

pub(crate) fn run(race: &Race, report: &mut Report) -> Result<()> {
    let (n_requests, n_nodes) = if race.args.quick { (20_000, 200) } else { (1_000_000, 10_000) };
    let name = |case: &str| format!("execute-{}-{case}", count(n_requests));
    let cases = ["as-planned", "slow-servers", "least-loaded"];
    let asked: Vec<&str> = cases.into_iter().filter(|case| race.has(&name(case))).collect();
    if asked.is_empty() {
        return Ok(());
    }
    let batch = Workload { n_clients: n_nodes, ..uniform(n_requests, n_nodes) }.generate()?;
    let cluster = Cluster::equal(&batch);
    let (choice, _) = optimal::select(&batch, &cluster, Aim::Length);
    let best = colour::order(&batch, &cluster, &choice);
    let none = Schedule::default();
    let columns = ["execute", "length ÷ plan", "events", "heap ms", "ms", "× heap"];
    let mut table = Table::new("Carrying plans out", &columns);
    for case in asked {
        let planned = Settings { block_ns: BLOCK_NS as f64, ..Settings::default() };
        let (plan, settings, every) = match case {
            "as-planned" => (&best, planned, 0),
            // One server in a hundred takes four times as long.
            "slow-servers" => (&best, planned, 100),
            _ => (&none, Settings { block_ns: BLOCK_NS as f64, ..Settings::online(Pick::LeastLoaded) }, 0),
        };
        let carry_out = || carry_out(&batch, &cluster, plan, settings, every);
        let Carried { n_events, end_ns, .. } = carry_out()?;
        let [heap, ours] = in_turn(
            race.args.repeat.min(3),
            [
                Contestant::new(|| Ok(cpu_s(|| plain_heap(n_events, n_nodes.into())))),
                Contestant::new(|| {
                    let mut planning_s = 0.0;
                    let all_s = cpu_s(|| carry_out().map(|carried| planning_s = carried.planning_s));
                    Ok(all_s - planning_s)
                }),
            ],
        )?;
        let (name, ratio) = (name(case), ours.ratio_to(&heap));
        let planned_ns = best.length.to_f64() * BLOCK_NS as f64;
        let goal = if case == "slow-servers" { Goal::ExecuteSlow } else { Goal::Execute };
        report.measured(goal, &name, ratio);
        table.row([
            Cell::text(name),
            Cell::Ratio(end_ns as f64 / planned_ns),
            Cell::Count(n_events),
            Cell::Time(heap),
            Cell::Time(ours),
            Cell::Ratio(ratio),
        ]);
    }
    report.table(table);
    Ok(())
}

/// How long a block takes: never longer than planned, and up to a tenth less.
fn varied_ns(transfer: u64) -> u64 {
    BLOCK_NS - (transfer.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) % (BLOCK_NS / 10)
}

/// Pops events, each of which pushes the next: the least that a simulator can do.
fn plain_heap(n_events: u64, n_servers: u64) -> u64 {
    let mut heap: BinaryHeap<Reverse<(u64, u64)>> =
        (0..n_servers).map(|transfer| Reverse((varied_ns(transfer), transfer))).collect();
    let mut now_ns = 0;
    for transfer in n_servers..n_servers + n_events {
        let Some(Reverse((at_ns, _))) = heap.pop() else { break };
        now_ns = at_ns;
        heap.push(Reverse((now_ns + varied_ns(transfer), transfer)));
    }
    now_ns
}

/// The number of events until everything was delivered, when that was, and how long planners worked for the executor.
struct Carried {
    n_events: u64,
    end_ns: u64,
    planning_s: f64,
}

/// Executes a plan, or serves all requests as they arrive.
fn carry_out(
    batch: &Batch,
    cluster: &Cluster,
    plan: &Schedule,
    settings: Settings,
    every: u32,
) -> Result<Carried> {
    let mut executor = Executor::new(batch, cluster, plan, settings, 0)?;
    let mut heap: BinaryHeap<Reverse<(u64, TransferId)>> = BinaryHeap::new();
    let mut actions = Vec::new();
    let (mut n_events, mut n_delivered, mut now_ns, mut planning_s) = (0, 0, 0, 0.0);
    let mut to_arrive = if plan.transfers.is_empty() { 0..batch.n_requests() as u32 } else { 0..0 };
    loop {
        let event = if let Some(request) = to_arrive.next() {
            let row = request as usize;
            Event::Arrived {
                request: RequestId(request.into()),
                client: batch.client(row),
                blocks: batch.blocks(row),
                replicas: batch.replicas().of(row),
            }
        } else {
            let done_ns = heap.peek().map_or(u64::MAX, |&Reverse((at_ns, _))| at_ns);
            let woken_ns = executor.wake_at().filter(|&at_ns| at_ns < done_ns);
            if let Some(at_ns) = woken_ns {
                now_ns = at_ns;
                Event::Wake
            } else {
                let Some(Reverse((at_ns, transfer))) = heap.pop() else { break };
                now_ns = at_ns;
                Event::Done { transfer }
            }
        };
        n_events += 1;
        executor.on_event(now_ns, event, &mut actions)?;
        while let Some(Action::Plan { .. }) = actions.last() {
            actions.pop();
            let mut planned = None;
            planning_s += cpu_s(|| planned = executor.snapshot().map(Snapshot::plan));
            let Some(plan) = &planned else { break };
            executor.on_event(now_ns, Event::Planned { plan }, &mut actions)?;
        }
        for action in actions.drain(..) {
            match action {
                Action::Start { transfer, server, blocks, .. } => {
                    let factor = if every > 0 && server.0 % every == 0 { 4 } else { 1 };
                    let takes_ns = blocks.floor() * factor * varied_ns(transfer.0);
                    heap.push(Reverse((now_ns + takes_ns, transfer)));
                }
                Action::Deliver { .. } => n_delivered += 1,
                Action::Withdraw { .. }
                | Action::Report { .. }
                | Action::Plan { .. }
                | Action::Fail { .. } => {}
            }
        }
    }
    ensure!(n_delivered == batch.n_requests(), "only {n_delivered} were delivered");
    Ok(Carried { n_events, end_ns: now_ns, planning_s })
}
