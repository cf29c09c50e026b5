//! The servers file.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = evenkeel_cli::formats::read_servers(bytes, "fuzz", 3);
});
