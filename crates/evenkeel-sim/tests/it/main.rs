//! Tests of the simulator.

mod queueing;
