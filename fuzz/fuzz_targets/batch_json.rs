//! The JSON batch: an error or a batch, never a panic.
#![no_main]
use evenkeel_cli::formats::{Declared, read_batch_json};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = read_batch_json(bytes, "fuzz", 3, Declared::default());
});
