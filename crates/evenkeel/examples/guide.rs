//! Drives guided lists: processes ask for one task after another, near their data. One of them dies and one falls silent;
//! others do what they had begun.
//!
//! `cargo run -p evenkeel --example guide`

use std::error::Error;

use evenkeel::assign::opass_dynamic::{Action, Event, Guided, Settings};
use evenkeel::assign::{ProcessId, WorkBuilder, opass_single};
use evenkeel::model::ServerId;

fn main() -> Result<(), Box<dyn Error>> {
    let mut work = WorkBuilder::new();
    for task in 0..12 {
        work.input(64 << 20, &[ServerId(task % 4), ServerId((task + 1) % 4)])?;
        work.end_task();
    }
    let work = work.finish(4, (0..4).map(|server| Some(ServerId(server))).collect())?;
    let lists = opass_single::assign(&work)?.processes;
    let mut guided = Guided::new(&work, &lists, Settings { lease_ns: 5_000_000_000 })?;

    // Here the driver's clock stands still until all that is left to do is to wait.
    let mut now_ns = 0;
    let mut actions = Vec::new();
    for process in (0..4).map(ProcessId) {
        guided.on_event(now_ns, Event::Idle(process), &mut actions)?;
    }
    guided.on_event(now_ns, Event::Died(ProcessId(2)), &mut actions)?;
    let mut n_done = 0;
    while guided.n_left() > 0 || !actions.is_empty() {
        for action in std::mem::take(&mut actions) {
            match action {
                Action::Start(ProcessId(2), task) => println!("process 2 dies with task {task}"),
                Action::Start(ProcessId(3), task) => {
                    println!("process 3 begins task {task} and falls silent");
                }
                Action::Start(process, task) => {
                    n_done += 1;
                    println!("process {} does task {task}", process.0);
                    guided.on_event(now_ns, Event::Done(process, task), &mut actions)?;
                    guided.on_event(now_ns, Event::Idle(process), &mut actions)?;
                }
                Action::Withdraw(process, task) => println!("process {} stops task {task}", process.0),
                Action::Leave(process) => println!("process {} may leave", process.0),
            }
        }
        if let Some(at_ns) = guided.wake_at().filter(|_| actions.is_empty()) {
            now_ns = at_ns;
            guided.on_event(now_ns, Event::Wake, &mut actions)?;
        }
    }
    assert_eq!((n_done, guided.n_left(), guided.counts().expired), (12, 0, 1));
    Ok(())
}

#[test]
fn runs() {
    main().expect("the example works");
}
