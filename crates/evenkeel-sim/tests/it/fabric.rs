//! Servers and hosts, by hand.

use evenkeel_sim::fabric::{Fabric, Happening, Job};
use evenkeel_sim::hardware::{Hardware, Nic, Server};
use proptest::prelude::*;

use crate::queueing::hardware;

fn job(tag: u64, server: u32, hardware: &Hardware, client: usize, bytes: u64) -> Job {
    let (from, to) = (hardware.servers[server as usize].host, hardware.clients[client].host);
    Job { tag, server, from, to, bytes }
}

/// All that happens, until nothing does.
fn all(fabric: &mut Fabric<'_>) -> Vec<(u64, Happening)> {
    std::iter::from_fn(|| fabric.next()).collect()
}

fn done(at_ns: u64, tag: u64) -> (u64, Happening) {
    (at_ns, Happening::Done { tag })
}

/// One slot: one after the other, each with its latency.
#[test]
fn jobs_wait_for_slots() {
    let mut hardware = hardware(1, 1);
    hardware.servers[0].latency_ns = 5;
    let mut fabric = Fabric::new(&hardware, None);
    for tag in 0..3 {
        fabric.submit(job(tag, 0, &hardware, 0, 100), 0);
    }
    assert_eq!(fabric.n_present(0), 3);
    assert_eq!(all(&mut fabric), [done(105, 0), done(210, 1), done(315, 2)]);
    assert_eq!((fabric.busy_ns_of_servers(), fabric.bytes_of_servers()), (vec![315], vec![300]));
}

/// A server that is half as fast from 50 ns on, stands still from 100 and goes on from 200.
#[test]
fn speeds_change_under_way() {
    for nic in [None, Some(Nic { up: 10.0, down: 10.0 })] {
        let mut hardware = Hardware { nic, ..hardware(1, 1) };
        hardware.servers[0].speeds = vec![(50, 0.5), (100, 0.0), (200, 1.0)];
        let mut fabric = Fabric::new(&hardware, None);
        // 50 bytes, 25, none, and the rest.
        fabric.submit(job(0, 0, &hardware, 0, 100), 0);
        assert_eq!(all(&mut fabric), [done(225, 0)]);
    }
}

/// What a server that goes down had is lost, waiting or not; so is what reaches it meanwhile.
#[test]
fn outages_lose_jobs() {
    let mut hardware = hardware(1, 1);
    hardware.servers[0].outages = vec![(150, 300)];
    for nic in [None, Some(Nic { up: 10.0, down: 10.0 })] {
        hardware.nic = nic;
        let mut fabric = Fabric::new(&hardware, None);
        for (tag, after_ns) in [(0, 0), (1, 0), (2, 0), (3, 200), (4, 300)] {
            fabric.submit(job(tag, 0, &hardware, 0, 100), after_ns);
        }
        let lost = |at_ns, tag| (at_ns, Happening::Lost { tag });
        let expected = [
            done(100, 0),
            (150, Happening::Down { server: 0 }),
            lost(150, 1),
            lost(150, 2),
            lost(200, 3),
            (300, Happening::Up { server: 0 }),
            done(400, 4),
        ];
        assert_eq!(all(&mut fabric), expected);
    }
}

/// A job can be taken back on its way, while it waits and while it moves; the next gets its slot.
#[test]
fn jobs_are_withdrawn() {
    for (nic, n_moved) in [(None, 0), (Some(Nic { up: 10.0, down: 10.0 }), 40)] {
        let hardware = Hardware { nic, ..hardware(1, 1) };
        let mut fabric = Fabric::new(&hardware, None);
        let ids = [0, 0, 0, 10].map(|after_ns| {
            let tag = after_ns;
            fabric.submit(job(tag, 0, &hardware, 0, 100), after_ns)
        });
        let last = fabric.submit(job(7, 0, &hardware, 0, 100), 0);
        assert_eq!(fabric.withdraw(ids[3]), Some(0));
        assert_eq!(fabric.withdraw(ids[3]), None);
        assert_eq!(fabric.withdraw(ids[1]), Some(0));
        fabric.wake(40, 99);
        assert_eq!(fabric.next(), Some((40, Happening::Timer { tag: 99 })));
        assert_eq!(fabric.withdraw(ids[0]), Some(n_moved));
        assert_eq!(all(&mut fabric), [done(140, 0), done(240, 7)]);
        assert_eq!(fabric.withdraw(last), None);
    }
}

/// Two servers send to one client, whose card receives one byte a nanosecond; a third is elsewhere, and a local read needs
/// no card.
#[test]
fn cards_are_shared() {
    let mut hardware = Hardware { nic: Some(Nic { up: 1.0, down: 1.0 }), ..hardware(3, 2) };
    let of_first = hardware.servers[0].host;
    hardware.clients.push(evenkeel_sim::hardware::Client { host: of_first, slots: 1 });
    hardware.servers[0].slots = 2;
    let mut fabric = Fabric::new(&hardware, None);
    fabric.submit(job(0, 0, &hardware, 0, 100), 0);
    fabric.submit(job(1, 1, &hardware, 0, 200), 0);
    fabric.submit(job(2, 2, &hardware, 1, 150), 0);
    fabric.submit(job(3, 0, &hardware, 2, 90), 0);
    // Half each until 200, when the first has its 100; the other has 100 left.
    assert_eq!(all(&mut fabric), [done(90, 3), done(150, 2), done(200, 0), done(300, 1)]);
}

proptest! {
    /// Where cards are no limit, the network changes nothing, whatever is submitted.
    #[test]
    fn wide_cards_change_nothing(
        jobs in proptest::collection::vec((0..3_u32, 0..4_usize, 1..1000_u64, 0..500_u64), 1..60),
        slots in 1..4_u32,
        latency_ns in 0..50_u64,
        factor in prop::sample::select(&[0.25, 0.5, 2.0][..]),
    ) {
        let run = |nic| {
            let mut hardware = Hardware { nic, ..hardware(3, 4) };
            for server in &mut hardware.servers {
                *server = Server { slots, latency_ns, speeds: vec![(300, factor)], ..server.clone() };
            }
            hardware.servers[1].outages = vec![(200, 400)];
            let mut fabric = Fabric::new(&hardware, None);
            for (tag, &(server, client, bytes, after_ns)) in (0..).zip(&jobs) {
                fabric.submit(job(tag, server, &hardware, client, bytes), after_ns);
            }
            let mut happened = all(&mut fabric);
            // Of one instant the order may differ.
            happened.sort_by_key(|(at_ns, happening)| (*at_ns, format!("{happening:?}")));
            (happened, fabric.bytes_of_servers())
        };
        prop_assert_eq!(run(None), run(Some(Nic { up: 1e6, down: 1e6 })));
    }
}
