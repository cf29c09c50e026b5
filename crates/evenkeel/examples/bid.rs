//! Drives both halves of bidding: clients and servers agree on who serves what and in which round, without a centre. A
//! live driver sends the messages over a network, where they may be lost; then clients send them again.
//!
//! `cargo run -p evenkeel --example bid`

use std::error::Error;

use evenkeel::bid::{Rules, client, rounds, server};
use evenkeel::draw::Ties;
use evenkeel::model::{BatchBuilder, Cluster};

fn main() -> Result<(), Box<dyn Error>> {
    let mut batch = BatchBuilder::new();
    for i in 0..12 {
        let holders = [0, 1].map(|k| format!("s{}", (i + k) % 3));
        batch.request(&format!("c{}", i % 4), 1, &[&holders[0], &holders[1]])?;
    }
    let batch = batch.finish();
    let cluster = Cluster::equal(&batch);
    let rules = Rules::hdlwf(Ties::Hashed(0), 0);
    let mut clients = rounds::clients(&batch, &cluster, rules);
    let mut servers = rounds::servers(&cluster, rules);

    // Time only matters where messages may be lost.
    let now_ns = 0;
    let (mut by_clients, mut by_servers) = (Vec::new(), Vec::new());
    for round in 0.. {
        if clients.iter().all(client::Client::is_done) {
            break;
        }
        for client in clients.iter_mut().filter(|client| !client.is_done()) {
            client.on_event(now_ns, client::Event::Begin { round }, &mut by_clients)?;
        }
        for action in by_clients.drain(..) {
            if let client::Action::Send { server, message } = action {
                let event = server::Event::Received(message);
                servers[server.index()].on_event(now_ns, event, &mut by_servers)?;
            }
        }
        for server in &mut servers {
            server.on_event(now_ns, server::Event::Close { round }, &mut by_servers)?;
        }
        for action in by_servers.drain(..) {
            if let server::Action::Send { client, message } = action {
                let event = client::Event::Received(message);
                clients[client.index()].on_event(now_ns, event, &mut by_clients)?;
            }
        }
    }
    for (id, client) in clients.iter().enumerate() {
        for won in client.won() {
            println!(
                "client {id}: request {} from server {} in round {}",
                won.request, won.server.0, won.round
            );
        }
    }
    assert_eq!(clients.iter().map(|client| client.won().len()).sum::<usize>(), 12);
    Ok(())
}

#[test]
fn runs() {
    main().expect("the example works");
}
