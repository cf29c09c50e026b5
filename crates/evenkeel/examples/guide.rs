//! Drives guided lists: processes ask for one task after the other, near their data; one of them dies, and others do what it
//! had begun.
//!
//! `cargo run -p evenkeel --example guide`

use std::error::Error;

use evenkeel::assign::opass_dynamic::{Action, Event, Guided};
use evenkeel::assign::{ProcessId, WorkBuilder, opass_single};
use evenkeel::model::ServerId;

fn main() -> Result<(), Box<dyn Error>> {
    let mut work = WorkBuilder::new();
    for task in 0..9 {
        work.input(64 << 20, &[ServerId(task % 3), ServerId((task + 1) % 3)])?;
        work.end_task();
    }
    let work = work.finish(3, (0..3).map(|server| Some(ServerId(server))).collect())?;
    let mut guided = Guided::new(&work, &opass_single::assign(&work)?.processes)?;

    let mut actions = Vec::new();
    for process in (0..3).map(ProcessId) {
        guided.on_event(Event::Idle(process), &mut actions)?;
    }
    guided.on_event(Event::Died(ProcessId(2)), &mut actions)?;
    let mut n_done = 0;
    while !actions.is_empty() {
        for action in std::mem::take(&mut actions) {
            match action {
                Action::Start(ProcessId(2), task) => println!("task {task} was begun by a process that died"),
                Action::Start(process, task) => {
                    n_done += 1;
                    println!("process {} does task {task}", process.0);
                    guided.on_event(Event::Done(process, task), &mut actions)?;
                    guided.on_event(Event::Idle(process), &mut actions)?;
                }
                Action::Leave(process) => println!("process {} may leave", process.0),
            }
        }
    }
    assert_eq!((n_done, guided.n_left()), (9, 0));
    Ok(())
}

#[test]
fn runs() {
    main().expect("the example works");
}
