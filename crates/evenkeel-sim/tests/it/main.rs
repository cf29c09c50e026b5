//! Tests of the simulator.

mod bid;
mod collective;
mod fabric;
mod network;
mod queueing;
