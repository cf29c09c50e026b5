//! What `hdfs fsck` prints.
#![no_main]
use evenkeel_formats::import::{Clients, Deal, Gathered, read_hdfs_fsck};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut gathered = Gathered::new(None);
    let _ = read_hdfs_fsck(bytes, "fuzz", true, &mut gathered);
    let _ = gathered.dealt_to(Clients::OnePerHost, Deal::RoundRobin);
});
