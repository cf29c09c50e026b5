//! The summary.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = evenkeel_formats::read_summary(bytes, "fuzz");
});
