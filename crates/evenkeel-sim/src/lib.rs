//! An event simulator for what-if questions. It drives Evenkeel's own state machines.
//!
//! * [`agenda`]: future events, in order of time.
//! * [`hardware`]: what a cluster consists of. [`fabric`]: its servers with queues and slots, and the [`network`]
//!   between hosts; it works out what happens to jobs, and when.
//! * [`case`]: what every run begins with. Drivers put load on a fabric under the policies of the core: [`requests`],
//!   [`jobs`] that read, compute and write, [`tasks`] near their data, [`writes`], [`collective`] I/O. [`refused`]: why
//!   a driver refuses a workload.
//! * [`outcome`]: the result of a run. [`measure`]: the measures that are reported of it.
//! * [`scenario`]: all of this as users write it. [`study`]: many runs of one scenario, side by side.
//!
//! Time is in whole nanoseconds. The same scenario and seed give the same outcome on every machine and with any number
//! of threads: all random numbers come from seeds that are passed in, and floats only go through operations that give
//! the same result everywhere.

pub mod agenda;
pub mod case;
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
