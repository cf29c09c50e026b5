//! Drives the placer: windows of writes go where servers are lightly loaded, and the log learns what is complete.
//!
//! `cargo run -p evenkeel --example place`

use std::error::Error;

use evenkeel::draw::Seeded;
use evenkeel::model::MemberId;
use evenkeel::observe::{Forget, HeatMap, ServerLog, Unit};
use evenkeel::place::{Options, Placer, Servers, Write};
use evenkeel::policy::placing;

fn main() -> Result<(), Box<dyn Error>> {
    const N_SERVERS: u32 = 4;
    let (_, trh) = placing().find(|(policy, _)| policy.is_called("trh")).ok_or("no such policy")?;
    // Server 0 has much to do already: others wrote there.
    let log = ServerLog::new([900 << 20, 0, 0, 0], Unit::default(), Forget::default());
    let servers = Servers { log, heat: HeatMap::unknown(N_SERVERS, true) };
    let mut placer = Placer::new(trh, Options::default(), servers)?;

    let mut draw = Seeded::new(1);
    for window in 0..3_u64 {
        let write = |object: u64| Write {
            object,
            default: MemberId((object % u64::from(N_SERVERS)) as u32),
            offset: window * (64 << 20),
            bytes: 64 << 20,
        };
        let writes: Vec<Write> = (0..8).map(write).collect();
        let mut chosen = Vec::new();
        placer.window(window, &writes, &mut draw, &mut chosen)?;
        for (write, server) in writes.iter().zip(&chosen) {
            println!("window {window}: object {} goes to server {}", write.object, server.0);
            placer.servers_mut().log.complete(*server, write.bytes.into())?;
        }
    }
    println!("{} writes went elsewhere than by default", placer.n_redirected());
    assert!(placer.n_redirected() > 0);
    Ok(())
}

#[test]
fn runs() {
    main().expect("the example works");
}
