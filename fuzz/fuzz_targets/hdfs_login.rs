//! What a NameNode sends to somebody who logs in with a token.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| assert!(evenkeel_store::hdfs_fuzz::login(bytes)));
