//! Cluster files. What is read and written is the same when it is read again.
#![no_main]
use std::path::Path;

use evenkeel_store::cluster::{self, Cluster, decoded, encoded};

libfuzzer_sys::fuzz_target!(|text: &str| {
    assert_eq!(decoded(&encoded(text)).as_deref(), Some(text));
    if let Ok(cluster) = Cluster::parse(text, Path::new("")) {
        let mut servers = cluster.servers;
        for server in &mut servers {
            server.credentials = None;
        }
        let again = Cluster::parse(&cluster::write(&servers, "keys"), Path::new(""));
        assert_eq!(again.map(|cluster| cluster.servers), Ok(servers));
    }
});
