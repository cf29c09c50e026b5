//! Hadoop's configuration.
#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| evenkeel_store::hdfs_fuzz::configuration(text));
