//! Metalinks.
#![no_main]
use evenkeel_formats::import::{Gathered, read_metalink};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = read_metalink(bytes, "fuzz", true, &mut Gathered::new(Some(1 << 20)));
});
