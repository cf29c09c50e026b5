//! The JSON batch: an error or a batch, never a panic.
#![no_main]

use std::num::NonZeroU64;

use evenkeel_formats::{Declared, Reading, read_batch_json};

/// Bytes of a block: neither one nor a power of two.
const THREE: NonZeroU64 = NonZeroU64::new(3).unwrap();

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = read_batch_json(bytes, &Reading { block: THREE, ..Reading::of("fuzz") }, Declared::default());
});
