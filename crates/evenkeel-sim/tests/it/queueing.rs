//! Against queueing theory, and against the length of plans.

use evenkeel::draw::Seeded;
use evenkeel::model::{Batch, BatchBuilder, Choice};
use evenkeel::order::colour;
use evenkeel::run::Settings;
use evenkeel::select::{Goal, optimal};
use evenkeel::workload::{Clients, Law, Sizes, Workload};
use evenkeel_sim::chance::exponential;
use evenkeel_sim::fabric::Fabric;
use evenkeel_sim::hardware::{Client, Hardware, Server};
use evenkeel_sim::requests::{Requests, Trouble, View, execute, push};

const MILLISECOND: u64 = 1_000_000;

/// Servers that move a byte a nanosecond, and clients elsewhere.
pub(crate) fn hardware(n_servers: u32, n_clients: u32) -> Hardware {
    let server = |host| Server { host, ..Server::default() };
    Hardware {
        servers: (0..n_servers).map(server).collect(),
        clients: (0..n_clients).map(|client| Client { host: n_servers + client, slots: 1 }).collect(),
        n_hosts: n_servers + n_clients,
        nic: None,
        message_ns: 0,
        dispatch_ns: 0,
    }
}

fn one_server(n_requests: usize) -> Batch {
    let mut batch = BatchBuilder::new();
    for _ in 0..n_requests {
        batch.request("c0", 1, &["s0"]).expect("a good request");
    }
    batch.finish()
}

/// The mean response of a queue where requests arrive by lot, in mean service times.
fn mean_response(load: f64, is_service_by_lot: bool, n_slots: u32) -> f64 {
    const N: usize = 4_000_000;
    let mut draw = Seeded::new(1);
    let mut now = 0.0;
    let mut arrive = |draw: &mut Seeded| {
        now += exponential(draw) / load * MILLISECOND as f64 / f64::from(n_slots);
        now as u64
    };
    let arrivals_ns = (0..N).map(|_| arrive(&mut draw)).collect();
    let mut serve = |_| {
        if is_service_by_lot { (exponential(&mut draw) * MILLISECOND as f64) as u64 } else { MILLISECOND }
    };
    let bytes: Vec<u64> = (0..N).map(&mut serve).collect();
    let requests =
        Requests { batch: one_server(N), block_bytes: 1, bytes: Some(bytes), arrivals_ns: Some(arrivals_ns) };
    let mut hardware = hardware(1, 1);
    hardware.clients[0].slots = u32::MAX;
    hardware.servers[0].slots = n_slots;
    let choice = Choice::whole(vec![evenkeel::model::ServerId(0); N]);
    let outcome = push(&requests, Fabric::new(&hardware, None), &choice);
    assert_eq!((outcome.n_failed, outcome.responses_ns.len()), (0, N));
    outcome.mean_response_ns() / MILLISECOND as f64
}

fn assert_near(measured: f64, theory: f64) {
    assert!((measured / theory - 1.0).abs() < 0.01, "{measured} is not {theory}");
}

/// M/M/1: 1 / (1 − ρ).
#[test]
fn poisson_arrivals_exponential_service() {
    for load in [0.3, 0.5, 0.7] {
        assert_near(mean_response(load, true, 1), 1.0 / (1.0 - load));
    }
}

/// M/D/1: 1 + ρ / 2(1 − ρ).
#[test]
fn poisson_arrivals_equal_service() {
    for load in [0.3, 0.5, 0.8] {
        assert_near(mean_response(load, false, 1), 1.0 + load / (2.0 * (1.0 - load)));
    }
}

/// M/M/2: 1 / (1 − ρ²), with Erlang's formula for two servers.
#[test]
fn two_slots() {
    for load in [0.4, 0.7] {
        assert_near(mean_response(load, true, 2), 1.0 / (1.0 - load * load));
    }
}

pub(crate) fn workload(n_requests: u32, n_clients: u32, n_servers: u32, law: Law, sizes: Sizes) -> Batch {
    let clients = Clients::Drawn;
    let workload =
        Workload { n_requests, n_clients, n_servers, copies: 3.min(n_servers), law, sizes, clients, seed: 3 };
    workload.generate().expect("a good workload")
}

/// Transfers of one slot each: the executor ends when the schedule does, to the nanosecond.
#[test]
fn unit_times_are_slots() {
    for (law, slots) in [(Law::Uniform, 1), (Law::Zipf, 1), (Law::Uniform, 2), (Law::Chain, 3)] {
        let batch = workload(3_000, 20, 12, law, Sizes::Fixed(1));
        let requests = Requests { batch, block_bytes: MILLISECOND, bytes: None, arrivals_ns: None };
        let mut hardware = hardware(12, 20);
        hardware.clients.iter_mut().for_each(|client| client.slots = slots);
        let view = View::new(&requests, &hardware).expect("a good cluster");
        let (choice, bound) = optimal::select(&requests.batch, &view.cluster, Goal::Length);
        let plan = colour::order(&requests.batch, &view.cluster, &choice);
        assert_eq!(plan.length, bound.value);
        let settings = Settings { block_ns: view.block_ns, ..Settings::default() };
        let outcome =
            execute(&requests, Fabric::new(&hardware, None), &view, &plan, settings, &Trouble::default())
                .expect("a good plan");
        assert_eq!(outcome.makespan_ns, (plan.length.to_f64() * MILLISECOND as f64) as u64);
        assert_eq!(outcome.makespan_ns, view.bound_ns(&requests));
        assert_eq!((outcome.n_failed, outcome.n_replans), (0, 0));
    }
}

/// With a latency at servers and for messages the executor ends at the bound and these for each of the transfers that
/// follow each other.
#[test]
fn a_constant_cluster_ends_at_the_bound_and_the_latencies() {
    let batch = workload(3_000, 40, 12, Law::Uniform, Sizes::Fixed(1));
    let requests = Requests { batch, block_bytes: MILLISECOND, bytes: None, arrivals_ns: None };
    let mut hardware = hardware(12, 40);
    hardware.message_ns = 1_000;
    hardware.servers.iter_mut().for_each(|server| server.latency_ns = 20_000);
    let view = View::new(&requests, &hardware).expect("a good cluster");
    let block_ns = MILLISECOND + 20_000;
    assert_eq!(view.block_ns as u64, block_ns);
    let (choice, _) = optimal::select(&requests.batch, &view.cluster, Goal::Length);
    let plan = colour::order(&requests.batch, &view.cluster, &choice);
    let settings = Settings { block_ns: view.block_ns, ..Settings::default() };
    let outcome =
        execute(&requests, Fabric::new(&hardware, None), &view, &plan, settings, &Trouble::default())
            .expect("a good plan");
    let n_in_turn = 250;
    assert_eq!(view.bound_ns(&requests), n_in_turn * block_ns);
    assert_eq!(outcome.makespan_ns, n_in_turn * (block_ns + hardware.message_ns));
}
