//! What if: an event simulator that drives Evenkeel's own machines.
//!
//! * [`agenda`]: what will happen, in order of time.
//! * [`hardware`]: what a cluster is made of; [`fabric`]: its servers with queues and slots, and the [`network`] between
//!   hosts: what happens to jobs, and when.
//! * Drivers, which put load on a fabric by the policies of the core: [`requests`], [`jobs`] that read, compute and write,
//!   [`tasks`] near their data, [`writes`], [`collective`] I/O; [`refused`]: why they would not.
//! * [`outcome`]: what came of it, and [`measure`]: what is told of it.
//! * [`scenario`]: all of this as people write it; [`study`]: many runs of one, side by side.
//!
//! Time is whole nanoseconds. The same scenario and seed give the same outcome on every machine and number of threads:
//! whatever is drawn is passed in, and floats only see operations that are the same everywhere.

pub mod agenda;
pub mod chance;
pub mod collective;
pub mod fabric;
pub mod hardware;
pub mod jobs;
pub mod measure;
pub mod network;
pub mod outcome;
pub mod papers;
pub mod refused;
pub mod requests;
pub mod scenario;
pub mod study;
pub mod tasks;
pub mod units;
pub mod writes;
