//! Answers of Kafka's brokers.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| assert!(evenkeel_node::lead::kafka::fuzz::answers(bytes)));
