//! Tests of the simulator.

mod bid;
mod collective;
mod conduct;
mod fabric;
mod jobs;
mod kinds;
mod live;
mod network;
mod paper_001;
mod paper_003;
mod paper_004;
mod papers;
mod queueing;
mod scenario;
mod support;
mod tasks;
mod writes;
