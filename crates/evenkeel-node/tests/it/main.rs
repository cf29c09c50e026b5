//! Tests of the live client: real sockets, real files, and servers that misbehave.

#![allow(clippy::unwrap_used)]

mod balanced;
mod faults;
mod files;
mod folder;
mod folder_speed;
mod lead;
mod lead_kafka;
mod listing;
mod node_s3;
mod parts;
mod policies;
mod ranges;
mod ranks;
mod sidecar;
mod simulated;
mod sources;
mod trouble;
mod upkeep;
mod verify;
mod web;
mod write;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_node::{Options, Report, get};
use evenkeel_store::{Catalogue, Trust, open};
use tokio::sync::watch;

/// Options with small ranges and little patience, so that much happens in little time.
fn quick() -> Options {
    Options { range_bytes: Some(1 << 14), patience: Duration::from_secs(2), window: 2, ..Options::default() }
}

/// Reads mirrors into a folder.
async fn get_mirrors(mirrors: &[String], trust: Trust, to: &Path, options: &Options) -> Report {
    let mirrors = mirrors.iter().map(|mirror| open(mirror).unwrap()).collect();
    let catalogue = Arc::new(Catalogue::of_mirrors(mirrors, trust).await.unwrap());
    let (_stop, stopped) = watch::channel(false);
    get(catalogue, to, options, stopped, &mut |_| {}).await.unwrap()
}

/// Bytes that look random, the same for the same seed.
fn noise(seed: u64, n: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    std::iter::repeat_with(&mut next).flatten().take(n).collect()
}
