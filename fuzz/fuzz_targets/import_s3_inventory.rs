//! Inventories of S3.
#![no_main]
use evenkeel_formats::import::{InventoryColumns, Merge, read_s3_inventory};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let columns = InventoryColumns::parse("Bucket,Key,Size,ETag,IsLatest").expect("valid");
    let mut merge = Merge::new();
    let _ = read_s3_inventory(bytes, "fuzz", &columns, None, false, &mut merge);
    let _ = merge.gather(None);
});
