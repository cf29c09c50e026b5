//! A file of delegation tokens.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| assert!(evenkeel_store::hdfs_fuzz::tokens(bytes)));
