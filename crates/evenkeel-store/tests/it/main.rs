//! Tests of sources against servers: one suite that all of them pass, and what is particular to some.

#![allow(clippy::unwrap_used)]

mod bucket;
mod conformance;
mod hadoop;
mod hdfs;
mod namenode;
mod s3;
mod serve;
mod webhdfs;
