//! Any CSV with a header.
#![no_main]
use evenkeel_formats::import::{Gathered, TableColumns, read_table};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = read_table(bytes, "fuzz", &TableColumns::default(), &mut Gathered::new(None));
});
