//! Manifests of objects and their replicas.
#![no_main]
use evenkeel_formats::{Reading, read_manifest_csv};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = read_manifest_csv(bytes, &Reading::of("fuzz"));
});
