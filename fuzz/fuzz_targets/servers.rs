//! The servers file.
#![no_main]

use std::num::NonZeroU64;

use evenkeel_formats::{Reading, read_servers};

/// Bytes of a block: neither one nor a power of two.
const THREE: NonZeroU64 = NonZeroU64::new(3).unwrap();

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = read_servers(bytes, &Reading { block: THREE, ..Reading::of("fuzz") });
});
