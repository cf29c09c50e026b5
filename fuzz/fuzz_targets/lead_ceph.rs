//! What `ceph` and `osdmaptool` print.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| assert!(evenkeel_node::lead::ceph::fuzz::answers(bytes)));
