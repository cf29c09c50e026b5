//! The plan: what is read goes to the checker, which must not panic either, whatever the servers are.
#![no_main]
use std::sync::LazyLock;

use evenkeel::check;
use evenkeel::model::{Batch, Cluster, Server, Speed};
use evenkeel_formats::{Declared, Reading, read_batch_csv, read_plan};

static BATCH: LazyLock<Batch> = LazyLock::new(|| {
    let csv = "client,bytes,replicas\nc0,1,s0|s1\nc1,3,s1\nc0,0,s0\n";
    read_batch_csv(csv.as_bytes(), &Reading::of("batch"), Declared::default()).expect("a valid batch")
});

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(rows) = read_plan(bytes, &Reading::of("fuzz"), &BATCH) else { return };
    let equal = Cluster::equal(&BATCH);
    let slow = Speed::from_millionths(333_333).expect("a valid speed");
    let servers = vec![Server::default(), Server { speed: slow, slots: 2, backlog: 3 }];
    let unequal = Cluster::new(&BATCH, servers, equal.clients().to_vec(), None).expect("a valid cluster");
    for cluster in [equal, unequal] {
        let _ = check::plan(&BATCH, &cluster, &rows, true);
        let _ = check::plan(&BATCH, &cluster, &rows, false);
        let _ = check::unsplit(&BATCH, &rows);
    }
});
