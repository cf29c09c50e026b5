//! The clients file.
#![no_main]
use evenkeel_formats::{Reading, read_clients};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = read_clients(bytes, &Reading::of("fuzz"));
});
