//! What Kafka's own tools print, and rates.
#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| assert!(evenkeel_node::lead::kafka::fuzz::files(text)));
