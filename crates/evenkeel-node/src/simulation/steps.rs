//! A client, or a node, stops at each step of a write, a deletion and a move home, one run for each.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::sleep;

use super::dice::Dice;
use super::net::{Moment, Place};
use super::world::World;
use crate::write::PutOptions;

/// What is broken off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deed {
    /// New objects.
    Write,
    /// Redirected objects are replaced by redirected ones.
    Overwrite,
    /// Redirected objects are replaced by such as are at home.
    OverwriteAtHome,
    Remove,
    /// Objects come home, and pieces go where they belong.
    MoveHome,
}

impl Deed {
    pub(super) const ALL: [Self; 5] =
        [Self::Write, Self::Overwrite, Self::OverwriteAtHome, Self::Remove, Self::MoveHome];
}

/// Where it is broken off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// The client is killed at a request.
    Client(Moment, u64),
    /// A node crashes in the middle of a change of its disk, and starts again after a second.
    Node(usize, u64),
}

/// Redirected objects in one piece and in several, and empty ones.
fn objects(dice: &mut Dice) -> Vec<(String, Bytes)> {
    [("small", 900), ("large", 2_600), ("empty", 0)]
        .map(|(key, bytes)| (key.to_owned(), dice.bytes(bytes)))
        .to_vec()
}

/// Returns whether it came to that step, and what is wrong then.
pub(super) async fn run(
    deed: Deed,
    stop: Stop,
    replicas: u32,
    credentials: &Path,
) -> (bool, Result<(), String>) {
    let mut dice = Dice::new(7);
    let world = World::new(3, replicas, dice.fork(), credentials);
    let away = PutOptions {
        overwrite: true,
        piece_bytes: 1_000,
        threshold_bytes: 0,
        replicas,
        window_time: Duration::ZERO,
        ..PutOptions::new("hdfs-random".parse().unwrap())
    };
    let at_home = PutOptions { placement: "rr".parse().unwrap(), ..away.clone() };
    let (old, new) = (objects(&mut dice), objects(&mut dice));
    if deed != Deed::Write {
        let n_refused = world.put(9, &old, &away).await;
        assert_eq!(n_refused, 0);
    }
    let act = async |client: usize| match deed {
        Deed::Write | Deed::Overwrite => world.put(client, &new, &away).await == 0,
        Deed::OverwriteAtHome => world.put(client, &new, &at_home).await == 0,
        Deed::Remove => {
            let mut are_gone = true;
            for (key, _) in &old {
                are_gone &= world.remove(client, key).await;
            }
            are_gone
        }
        Deed::MoveHome => {
            world.maintain(client, Duration::from_hours(13)).await.is_some_and(|done| done.n_failed == 0)
        }
    };
    let was_reached = match stop {
        Stop::Client(moment, n) => {
            let mut reached = world.net.stop_at(Place::Client(0), n, moment);
            tokio::select! {
                biased;
                _ = reached.wait_for(|is| *is) => true,
                _ = act(0) => false,
            }
        }
        Stop::Node(node, n) => {
            world.net.crash_after(node, n);
            let net = Arc::clone(&world.net);
            let nurse = tokio::spawn(async move {
                loop {
                    sleep(Duration::from_millis(20)).await;
                    net.find_crashed(node);
                    if !net.is_up(node) {
                        sleep(Duration::from_secs(1)).await;
                        net.boot(node);
                        return;
                    }
                }
            });
            act(0).await;
            world.net.find_crashed(node);
            let was_reached = nurse.is_finished() || !world.net.is_up(node);
            nurse.abort();
            was_reached
        }
    };
    // Others find what is left at once, and once more when all has come to rest.
    world.net.heal();
    world.check_all("after the stop").await;
    // Whoever does the same again gets it done.
    if !act(1).await {
        world.check(Err("it cannot be done again".to_owned()));
    }
    world.check_all("when it was done again").await;
    world.finish().await;
    if world.wrong().is_err() {
        println!("{}", world.net.history().join("\n"));
    }
    (was_reached, world.wrong())
}
