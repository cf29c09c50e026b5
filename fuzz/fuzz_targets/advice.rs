//! The advice: what is read is applied, and what can be applied is valid.
#![no_main]
use std::sync::LazyLock;

use evenkeel::model::{Batch, Cluster};
use evenkeel_formats::{Declared, Reading, read_advice, read_batch_csv};

static BATCH: LazyLock<Batch> = LazyLock::new(|| {
    let csv = "client,bytes,replicas\nc0,1,s0|s1\nc1,3,s1\nc0,0,s0\n";
    read_batch_csv(csv.as_bytes(), &Reading::of("batch"), Declared::default()).expect("a valid batch")
});

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(file) = read_advice(bytes, "fuzz") else { return };
    for advice in &file.advice {
        let Ok(change) = advice.to_change(&BATCH) else { continue };
        if let Ok((batch, _)) = change.apply(&BATCH, &Cluster::equal(&BATCH)) {
            assert_eq!((batch.total_blocks(), batch.total_bytes()), (4, 4));
        }
    }
});
