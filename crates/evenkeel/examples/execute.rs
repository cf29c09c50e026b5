//! Drives the executor: a plan is made and carried out on a pretended cluster with one slow server, and all that had not
//! started is planned anew. A live driver does the same with sockets and a clock.
//!
//! `cargo run -p evenkeel --example execute`

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::error::Error;

use evenkeel::model::{BatchBuilder, Cluster};
use evenkeel::plan::{Options, plan};
use evenkeel::run::{Action, Event, Executor, Settings};

const SECOND: u64 = 1_000_000_000;

fn main() -> Result<(), Box<dyn Error>> {
    let mut batch = BatchBuilder::new();
    for i in 0..40 {
        let holders = [0, 1].map(|k| format!("s{}", (i + k) % 4));
        batch.request(&format!("c{i}"), 1, &[&holders[0], &holders[1]])?;
    }
    let batch = batch.finish();
    let cluster = Cluster::equal(&batch);
    let plan = plan(&batch, &cluster, &Options::default())?;

    let mut executor = Executor::new(&batch, &cluster, &plan.ordered.schedule, Settings::default(), 0)?;
    let mut under_way = BinaryHeap::new();
    let (mut now_ns, mut n_delivered) = (0, 0);
    let mut actions = Vec::new();
    executor.on_event(now_ns, Event::Wake, &mut actions)?;
    loop {
        for action in std::mem::take(&mut actions) {
            match action {
                Action::Start { transfer, server, blocks, .. } => {
                    let slowness = if server.0 == 0 { 5 } else { 1 };
                    under_way.push(Reverse((now_ns + blocks.floor() * slowness * SECOND, transfer)));
                }
                Action::Plan { .. } => {
                    // This could be done on another thread, while transfers go on.
                    if let Some(snapshot) = executor.snapshot() {
                        let plan = snapshot.plan();
                        executor.on_event(now_ns, Event::Planned { plan: &plan }, &mut actions)?;
                    }
                }
                Action::Deliver { .. } => n_delivered += 1,
                Action::Fail { request, reason } => println!("request {}: {reason}", request.0),
                Action::Withdraw { .. } | Action::Report { .. } => {}
            }
        }
        if !actions.is_empty() {
            continue;
        }
        let done_ns = under_way.peek().map(|Reverse((at_ns, _))| *at_ns);
        match executor.wake_at() {
            Some(wake_ns) if done_ns.is_none_or(|done_ns| wake_ns < done_ns) => {
                now_ns = wake_ns;
                executor.on_event(now_ns, Event::Wake, &mut actions)?;
            }
            _ => {
                let Some(Reverse((at_ns, transfer))) = under_way.pop() else { break };
                now_ns = at_ns;
                // Those that were broken off are over, and the executor says so.
                _ = executor.on_event(now_ns, Event::Done { transfer }, &mut actions);
            }
        }
    }
    let counts = executor.counts();
    println!(
        "{n_delivered} requests in {} s, planned {}; {} transfers, {} plans on the way",
        now_ns / SECOND,
        plan.achieved,
        counts.started,
        counts.plans
    );
    assert_eq!((n_delivered, counts.open), (40, 0));
    Ok(())
}

#[test]
fn runs() {
    main().expect("the example works");
}
