//! Answers of WebHDFS.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| assert!(evenkeel_store::webhdfs_fuzz::answer(bytes)));
