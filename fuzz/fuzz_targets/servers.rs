//! The servers file.
#![no_main]
use evenkeel_formats::{Reading, read_servers};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = read_servers(bytes, &Reading { block: 3, ..Reading::of("fuzz") });
});
