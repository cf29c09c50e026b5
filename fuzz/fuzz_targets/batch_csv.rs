//! The CSV batch: an error or a batch, never a panic.
#![no_main]
use evenkeel_cli::formats::{Declared, read_batch_csv};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = read_batch_csv(bytes, "fuzz", 3, Declared::default());
});
