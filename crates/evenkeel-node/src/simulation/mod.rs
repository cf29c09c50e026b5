//! Writers, nodes, redirects and the maintainer in simulated time, under loss, delay, partitions and crashes.
//!
//! Everything is what runs in earnest, from [`put`](crate::write::put) to the engine of the folder store, but for two
//! things: the network, which takes the place of sockets in front of the node's own service, and the disk, which forgets
//! what was not synced. All runs on one thread and a clock that leaps, so the same seed has the same history.

mod dice;
mod model;
mod net;
mod steps;
mod world;

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::outside::simulated::{self, Mistake};
use crate::write::PutOptions;
use dice::Dice;
use net::{Moment, Place};
use steps::{Deed, Stop};
use world::World;

/// Worlds in a test; `EVENKEEL_TIMES` multiplies them. `EVENKEEL_SEED` is run alone, and prints its history.
const N_WORLDS: u64 = 100;
/// Every so many worlds one is run again, to see that the same happens.
const REPEAT_EVERY: u64 = 20;
/// A mistake shows in so many worlds at the latest, or sooner: the seeds that are tried begin here.
const MOST_WORLDS: u64 = 400;
const MISTAKES: [(Mistake, u64); 5] = [
    (Mistake::NamesFirst, 30),
    (Mistake::DeletesFirst, 105),
    (Mistake::AcknowledgesFirst, 15),
    (Mistake::BringsHomeAnyway, 208),
    (Mistake::RemovesFirst, 32),
];
/// Of all steps at which something stops, every so many-th is tried, unless `EVENKEEL_TIMES` says more than once.
const STRIDE: u64 = 15;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().and_then(|text| text.parse().ok())
}

/// Runs something in simulated time.
fn simulate<T>(seed: u64, run: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.unwrap().block_on(async {
        simulated::begin(seed);
        let done = run.await;
        simulated::end();
        done
    })
}

#[test]
fn nothing_acknowledged_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let credentials = net::credentials(folder.path());
    let run = |seed| simulate(seed, world::run(seed, &credentials));
    if let Some(seed) = number("EVENKEEL_SEED") {
        let (outcome, done) = run(seed);
        println!("{}", outcome.history.join("\n"));
        return done.unwrap();
    }
    let from = number("EVENKEEL_FROM").unwrap_or(0);
    let (mut sums, mut wrong) = (BTreeMap::<&str, u64>::new(), Vec::new());
    let n = N_WORLDS * number("EVENKEEL_TIMES").unwrap_or(1);
    for seed in from..from + n {
        let (outcome, done) = run(seed);
        if let Err(why) = done {
            println!("seed {seed}: {why}");
            wrong.push(seed);
        }
        if seed % REPEAT_EVERY == 0 {
            let again = run(seed).0.history;
            let differs = again.iter().zip(&outcome.history).find(|(again, once)| again != once);
            assert_eq!(differs, None, "seed {seed}");
            assert_eq!(again.len(), outcome.history.len(), "seed {seed}");
        }
        for (what, n) in outcome.counts {
            *sums.entry(what).or_default() += n;
        }
    }
    println!("{n} worlds, {} wrong: {sums:?}", wrong.len());
    assert_eq!(wrong, [0_u64; 0]);
}

/// Whatever is done in another order loses something, and the test above sees it.
#[test]
fn mistakes_show() {
    let folder = tempfile::tempdir().unwrap();
    let credentials = net::credentials(folder.path());
    for (mistake, first) in MISTAKES {
        Mistake::make(Some(mistake));
        let found = (first..first + MOST_WORLDS)
            .find_map(|seed| simulate(seed, world::run(seed, &credentials)).1.err().map(|why| (seed, why)));
        Mistake::make(None);
        let Some((seed, why)) = found else { panic!("{mistake:?} does not show") };
        println!("{mistake:?}, seed {seed}: {why}");
    }
}

/// Whoever stops, wherever in a write, a deletion or a move home: nothing is half there, and it can be done again.
#[test]
fn each_step_may_be_the_last() {
    let folder = tempfile::tempdir().unwrap();
    let credentials = net::credentials(folder.path());
    let stride = if number("EVENKEEL_TIMES").is_some_and(|times| times > 1) { 1 } else { STRIDE };
    let (mut n_runs, mut wrong) = (0_u64, Vec::new());
    for replicas in [1, 2] {
        for deed in Deed::ALL {
            let clients = [Moment::Before, Moment::Half, Moment::After]
                .map(|moment| -> Box<dyn Fn(u64) -> Stop> { Box::new(move |n| Stop::Client(moment, n)) });
            let nodes =
                (0..3).map(|node| -> Box<dyn Fn(u64) -> Stop> { Box::new(move |n| Stop::Node(node, n)) });
            for stop in clients.into_iter().chain(nodes) {
                // Not always the same ones.
                let first = 1 + n_runs % stride;
                for n in (first..).step_by(stride as usize) {
                    let stop = stop(n);
                    let (was_reached, done) = simulate(n, steps::run(deed, stop, replicas, &credentials));
                    n_runs += 1;
                    if let Err(why) = done {
                        println!("{deed:?}, {replicas} copies, {stop:?}: {why}");
                        wrong.push((deed, replicas, stop));
                    }
                    if !was_reached {
                        break;
                    }
                }
            }
        }
    }
    println!("{n_runs} stops, {} wrong", wrong.len());
    assert_eq!(wrong, []);
}

/// An object is not missing where only its home could not be asked.
#[test]
fn what_cannot_be_asked_is_not_missing() {
    let folder = tempfile::tempdir().unwrap();
    let credentials = net::credentials(folder.path());
    simulate(1, async {
        let world = World::new(2, 1, Dice::new(1), &credentials);
        let options = PutOptions::new("rr".parse().unwrap());
        let object = ("k".to_owned(), Bytes::from_static(b"bytes"));
        assert_eq!(world.put(0, &[object], &options).await, 0);
        let client = Place::Client(1);
        let home = world.net.servers(client).homes(world::BUCKET, "k", 1)[0];
        world.net.part(client, Place::Node(home), true);
        let net = Arc::clone(&world.net);
        // Between the two questions of a listing.
        drop(tokio::spawn(async move {
            tokio::time::sleep(Duration::from_secs(15)).await;
            net.part(client, Place::Node(home), false);
        }));
        assert!(world.read_from_holders(1, "k").await.is_err());
        world.read_from_holders(1, "k").await.unwrap();
        assert_eq!(world.wrong(), Ok(()));
    });
}
