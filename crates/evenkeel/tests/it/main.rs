//! The core tested from outside, in one binary.

mod bidding;
mod damage;
mod damage_unequal;
mod exact;
mod executor;
mod explain;
mod explain_clients;
mod golden_2;
mod leases;
mod machine;
mod members;
mod observe_speed;
mod optimal;
mod oracles;
mod paper_000;
mod paper_001;
mod paper_002;
mod paper_003;
mod paper_004;
mod policies;
mod redirect;
mod support;
mod tidy;
mod unequal;
mod whole;
mod world;
