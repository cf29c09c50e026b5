//! The simulator: requests that arrive one after another at servers with queues, against `SimPy`; and flows that share
//! the network cards of hosts.

use anyhow::{Result, ensure};
use evenkeel::draw::Seeded;
use evenkeel::select::random;
use evenkeel::workload::Workload;
use evenkeel_sim::fabric::Fabric;
use evenkeel_sim::hardware::{Client, Hardware, Nic, Server};
use evenkeel_sim::requests::{Requests, push};

use crate::Race;
use crate::batches::{count, uniform};
use crate::clock::{Contestant, cpu_s, in_turn};
use crate::goals::Goal;
use crate::report::{Cell, Report, Table};

/// Servers are busy four fifths of the time.
const MEAN_SERVICE_NS: u64 = 800_000;

pub(crate) fn run(race: &Race, report: &mut Report) -> Result<()> {
    queues(race, report)?;
    flows(race, report)?;
    memory(race, report)
}

fn queues(race: &Race, report: &mut Report) -> Result<()> {
    let (n_requests, n_servers) = if race.args.quick { (20_000, 100) } else { (1_000_000, 1000) };
    let name = format!("simulate-{}-fcfs", count(n_requests));
    if !race.has(&name) {
        return Ok(());
    }
    let gap_ns = 1_000_000 / u64::from(n_servers);
    let batch = uniform(n_requests, n_servers).generate()?;
    let choice = random::select(&batch, &mut Seeded::new(1));
    let n = u64::from(n_requests);
    let service_ns = (0..n).map(|i| MEAN_SERVICE_NS / 2 + mixed(i) % MEAN_SERVICE_NS);
    let service_ns: Vec<u64> = service_ns.collect();
    let arrivals_ns = Some((0..n).map(|i| i * gap_ns).collect());
    let requests = Requests { batch, block_bytes: 1, bytes: Some(service_ns.clone()), arrivals_ns };
    let hardware = hardware(n_servers);
    let simulate = || push(&requests, Fabric::new(&hardware, None), &choice);
    let outcome = simulate();
    ensure!(outcome.responses_ns.len() == requests.batch.n_requests(), "all are served");
    race.peer.load_jobs(&choice.servers, &service_ns, n_servers, gap_ns)?;
    let mut end_ns = 0;
    let [ours, simpy] = in_turn(
        race.args.repeat,
        [
            Contestant::new(|| Ok(cpu_s(simulate))),
            Contestant::new(|| race.peer.simpy().map(|answer| answer.keep(&mut end_ns))).at_most(1),
        ],
    )?;
    report.agree(&name, "nanoseconds until all are served", end_ns, outcome.makespan_ns);
    let (ratio, rate) = (simpy.ratio_to(&ours), outcome.n_events as f64 / ours.min_s() / 1e6);
    report.measured(Goal::SimPy, &name, ratio);
    report.measured(Goal::SimulatedEvents, &name, rate);
    let columns = ["simulate", "events", "ms", "SimPy ms", "× SimPy", "million events a second"];
    let mut table = Table::new("Simulating queues", &columns);
    table.row([
        Cell::text(name),
        Cell::Count(outcome.n_events),
        Cell::Time(ours),
        Cell::Time(simpy),
        Cell::Ratio(ratio),
        Cell::Ratio(rate),
    ]);
    report.table(table);
    Ok(())
}

/// Every host sends and receives, four flows each, and the cards are the limit: each start and each end of a flow
/// changes the rates of others.
fn flows(race: &Race, report: &mut Report) -> Result<()> {
    let (n_requests, n_hosts) = if race.args.quick { (5_000, 100) } else { (200_000, 1000) };
    let name = format!("simulate-{}-flows", count(n_hosts));
    if !race.has(&name) {
        return Ok(());
    }
    let batch = Workload { n_clients: n_hosts, ..uniform(n_requests, n_hosts) }.generate()?;
    let choice = random::select(&batch, &mut Seeded::new(1));
    let bytes = (0..u64::from(n_requests)).map(|i| 1_000_000 + mixed(i) % 1_000_000);
    let requests = Requests { batch, block_bytes: 1, bytes: Some(bytes.collect()), arrivals_ns: None };
    let mut hardware = Hardware { nic: Some(Nic { up: 1.0, down: 1.0 }), ..hardware(n_hosts) };
    hardware.servers.iter_mut().for_each(|server| server.slots = 8);
    hardware.clients = (0..n_hosts).map(|host| Client { host, slots: 4 }).collect();
    let simulate = || push(&requests, Fabric::new(&hardware, None), &choice);
    ensure!(simulate().n_failed == 0, "all are served");
    let [ours] = in_turn(race.args.repeat.min(3), [Contestant::new(|| Ok(cpu_s(simulate)))])?;
    let rate = 2.0 * f64::from(n_requests) / ours.min_s();
    report.measured(Goal::FlowChanges, &name, rate);
    let mut table = Table::new("Simulating shared networks", &["simulate", "ms", "flow changes a second"]);
    table.row([Cell::text(name), Cell::Time(ours), Cell::Count(rate as u64)]);
    report.table(table);
    Ok(())
}

/// The command on a large cluster.
fn memory(race: &Race, report: &mut Report) -> Result<()> {
    let (n_requests, n_servers) = if race.args.quick { (100_000, 1000) } else { (10_000_000, 100_000) };
    let name = format!("simulate-{}-memory", count(n_requests));
    let Some(evenkeel) = &race.args.evenkeel else { return Ok(()) };
    if !race.has(&name) {
        return Ok(());
    }
    let scenario = race.peer.file("large.toml");
    let text = format!(
        "policies = ['random']\n[servers]\ncount = {n_servers}\n[clients]\ncount = 1000\nslots = 1000\n\
         [workload]\nrequests = {n_requests}\nbytes = '1MB'\narrivals = 'poisson'\nrate = {}\n",
        f64::from(n_servers) * 80.0
    );
    std::fs::write(&scenario, text)?;
    let command = [
        evenkeel.as_os_str(),
        "simulate".as_ref(),
        scenario.as_os_str(),
        "--json".as_ref(),
        "--yes".as_ref(),
    ];
    let (_, seconds, peak_bytes) = race.peer.measure(&command)?;
    let peak_gib = peak_bytes as f64 / f64::from(1 << 30);
    report.measured(Goal::SimulatedMemory, &name, peak_gib);
    let mut table = Table::new("Simulating a large cluster", &["simulate", "seconds", "peak GiB"]);
    table.row([Cell::text(name), Cell::Ratio(seconds), Cell::Ratio(peak_gib)]);
    report.table(table);
    Ok(())
}

/// Servers that move a byte a nanosecond, and clients that wait for nothing.
fn hardware(n_servers: u32) -> Hardware {
    let server = |host| Server { host, ..Server::default() };
    Hardware {
        servers: (0..n_servers).map(server).collect(),
        clients: (0..256).map(|client| Client { host: n_servers + client, slots: u32::MAX }).collect(),
        n_hosts: n_servers + 256,
        nic: None,
        message_ns: 0,
        dispatch_ns: 0,
    }
}

/// Numbers that look random.
fn mixed(i: u64) -> u64 {
    i.wrapping_mul(0x9E37_79B9_7F4A_7C15)
}
