//! What if: an event simulator that drives Evenkeel's own machines.
//!
//! Time is whole nanoseconds. The same scenario and seed give the same outcome on every machine and number of threads:
//! whatever is drawn is passed in, and floats only see operations that are the same everywhere.

pub mod network;
