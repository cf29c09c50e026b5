//! The CSV batch: an error or a batch, never a panic.
#![no_main]
use evenkeel_formats::{Declared, Reading, read_batch_csv};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = read_batch_csv(bytes, &Reading { block: 3, ..Reading::of("fuzz") }, Declared::default());
});
