//! Races against peers.

fn main() {}
