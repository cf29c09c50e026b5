//! Tests of the simulator.

mod bid;
mod collective;
mod queueing;
