//! Tests of the simulator.

mod bid;
mod collective;
mod network;
mod queueing;
