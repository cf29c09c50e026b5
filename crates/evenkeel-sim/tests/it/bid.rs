//! Bidding that pays for its messages, against the synchronous driver of the core.

use evenkeel::policy::{Ask, Kind, POLICIES};
use evenkeel::run::Settings;
use evenkeel::workload::{Law, Sizes};
use evenkeel_sim::fabric::Fabric;
use evenkeel_sim::hardware::Hardware;
use evenkeel_sim::outcome::Outcome;
use evenkeel_sim::requests::{Requests, Trouble, View, bid, execute};

use crate::queueing::{hardware, workload};

const BLOCK_BYTES: u64 = 1_000_000;

fn requests(law: Law, sizes: Sizes) -> Requests {
    let batch = workload(400, 20, 12, law, sizes);
    Requests { batch, block_bytes: BLOCK_BYTES, bytes: None, arrivals_ns: None }
}

fn settings(view: &View) -> Settings {
    Settings { block_ns: view.block_ns, ..Settings::default() }
}

fn run(requests: &Requests, hardware: &Hardware, name: &str) -> Outcome {
    let view = View::new(requests, hardware).expect("a good cluster");
    let policy = evenkeel::policy::find(name).expect("known");
    let rules = policy.rules(&Ask::default()).expect("it bids");
    bid(requests, Fabric::new(hardware, None), &view, rules, settings(&view), &Trouble::default())
        .expect("a good plan")
}

/// Free messages: just the plan of each policy that bids, carried out; and no other policy has rules.
#[test]
fn without_costs_it_is_the_plan() {
    for policy in POLICIES {
        if policy.room != "bid" {
            assert!(policy.rules(&Ask::default()).is_none(), "{}", policy.name);
            continue;
        }
        let Kind::Plan(plan) = policy.kind else { panic!("{} does not plan", policy.name) };
        for (law, sizes, slots) in [
            (Law::Uniform, Sizes::Fixed(1), 1),
            (Law::Zipf, Sizes::Fixed(1), 2),
            (Law::Uniform, Sizes::Uniform(1, 9), 1),
        ] {
            let requests = requests(law, sizes);
            let mut hardware = hardware(12, 20);
            hardware.clients.iter_mut().for_each(|client| client.slots = slots);
            let view = View::new(&requests, &hardware).expect("a good cluster");
            let (_, ordered) = plan(&requests.batch, &view.cluster, &Ask::default());
            let fabric = Fabric::new(&hardware, None);
            let wanted =
                execute(&requests, fabric, &view, &ordered.schedule, settings(&view), &Trouble::default())
                    .expect("good");
            let n_rounds = ordered.rounds.map_or(0, |(n_rounds, _)| n_rounds.into());
            let n_messages = wanted.n_messages + ordered.messages.unwrap_or(0);
            let outcome = run(&requests, &hardware, policy.name);
            // One event more: that bidding is over.
            let n_events = wanted.n_events + 1;
            assert_eq!(outcome, Outcome { n_rounds, n_messages, n_events, ..wanted }, "{}", policy.name);
        }
    }
}

/// Rounds of one pass: a bid and an answer each, and then the plan.
#[test]
fn each_round_takes_a_bid_and_an_answer() {
    let requests = requests(Law::Uniform, Sizes::Fixed(1));
    for name in ["hdlwf", "random-bid", "hdf-dist"] {
        let free = run(&requests, &hardware(12, 20), name);
        let slow = Hardware { message_ns: 1_000, ..hardware(12, 20) };
        let outcome = run(&requests, &slow, name);
        assert_eq!((outcome.n_rounds, outcome.n_messages), (free.n_rounds, free.n_messages));
        // The starts are messages, too.
        let bidding_ns = outcome.n_rounds * 2 * 1_000;
        assert!(outcome.makespan_ns >= free.makespan_ns + bidding_ns + 1_000, "{name}");
        let n_starts_in_turn = 400;
        assert!(outcome.makespan_ns <= free.makespan_ns + bidding_ns + n_starts_in_turn * 1_000, "{name}");
        assert_eq!(outcome, run(&requests, &slow, name));
    }
}

/// One server and three clients with a request each: round by round 3, 2, 1 bids are handled, then the answers at once.
#[test]
fn handling_by_hand() {
    let mut batch = evenkeel::model::BatchBuilder::new();
    for client in ["c0", "c1", "c2"] {
        batch.request(client, 1, &["s0"]).expect("a good request");
    }
    let batch = batch.finish();
    let requests = Requests { batch, block_bytes: BLOCK_BYTES, bytes: None, arrivals_ns: None };
    let hardware = Hardware { message_ns: 100, dispatch_ns: 10, ..hardware(1, 3) };
    let outcome = run(&requests, &hardware, "hdlwf");
    assert_eq!((outcome.n_rounds, outcome.n_messages), (3, 2 * (3 + 2 + 1) + 3));
    // A round: a message, bids one after the other, a message, one answer.
    let bidding_ns = 3 * (100 + 100 + 10) + (3 + 2 + 1) * 10;
    assert_eq!(outcome.makespan_ns, bidding_ns + 3 * (BLOCK_BYTES + 100 + 10));

    // All wait for the last request.
    let late = Requests { arrivals_ns: Some(vec![0, 5_000, 70]), ..requests };
    let outcome = run(&late, &hardware, "hdlwf");
    assert_eq!(outcome.makespan_ns, 5_000 + bidding_ns + 3 * (BLOCK_BYTES + 100 + 10));
}

/// A server that goes down while all bid is found out, and those that hold the same data step in.
#[test]
fn a_server_goes_down_while_bidding() {
    let requests = requests(Law::Uniform, Sizes::Fixed(1));
    let mut hardware = Hardware { message_ns: 1_000, ..hardware(12, 20) };
    hardware.servers[3].outages = vec![(500, u64::MAX)];
    let outcome = run(&requests, &hardware, "hdlwf");
    assert_eq!((outcome.n_failed, outcome.responses_ns.len()), (0, 400));
    assert_eq!(outcome.bytes_of_servers[3], 0);
}

/// Messages that never come: nothing is done, and it ends.
#[test]
fn messages_without_end() {
    let requests = requests(Law::Uniform, Sizes::Fixed(1));
    let hardware = Hardware { message_ns: u64::MAX, ..hardware(12, 20) };
    let outcome = run(&requests, &hardware, "hdlwf");
    assert_eq!((outcome.n_failed, outcome.makespan_ns), (400, 0));
}
