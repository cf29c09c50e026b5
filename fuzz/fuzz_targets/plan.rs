//! The plan: what is read goes to the checker, which must not panic either.
#![no_main]
use std::sync::LazyLock;

use evenkeel::model::Batch;
use evenkeel_cli::formats::{Declared, read_batch_csv, read_plan};

static BATCH: LazyLock<Batch> = LazyLock::new(|| {
    let csv = "client,bytes,replicas\nc0,1,s0|s1\nc1,3,s1\nc0,0,s0\n";
    read_batch_csv(csv.as_bytes(), "batch", 1, Declared::default()).expect("a valid batch")
});

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Ok(rows) = read_plan(bytes, "fuzz", &BATCH) {
        let _ = evenkeel::check::plan(&BATCH, &rows, true);
    }
});
