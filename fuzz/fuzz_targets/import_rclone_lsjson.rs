//! Listings of rclone.
#![no_main]
use evenkeel_formats::import::{Merge, read_rclone_lsjson};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut merge = Merge::new();
    let _ = read_rclone_lsjson(bytes, "fuzz", "a", &mut merge);
    let _ = read_rclone_lsjson(bytes, "fuzz", "b", &mut merge);
    let _ = merge.gather(None);
});
