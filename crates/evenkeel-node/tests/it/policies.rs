//! Every policy that one client can carry out reads everything, whatever one of the servers does.

use std::collections::BTreeMap;
use std::fs;

use evenkeel::policy::{POLICIES, Policy};
use evenkeel_node::{Options, drives};
use evenkeel_store::Trust;

use crate::web::{Fault, Server};
use crate::{get_mirrors, noise, quick};

fn files() -> BTreeMap<String, Vec<u8>> {
    (0..6).map(|k| (format!("file{k}"), noise(k, 40_000 * k as usize))).collect()
}

fn drivable() -> impl Iterator<Item = &'static Policy> {
    POLICIES.iter().filter(|policy| drives(policy).is_ok())
}

async fn read_all(policy: &'static Policy, fault: Option<Fault>) {
    let (files, to) = (files(), tempfile::tempdir().unwrap());
    let mut servers = vec![Server::start(&files, true, move |n| fault.filter(|_| n > 2)).await];
    servers.push(Server::start(&files, true, |_| None).await);
    servers.push(Server::start(&files, true, |_| None).await);
    let mirrors: Vec<String> = servers.iter().map(|server| server.address.clone()).collect();
    let options = Options { policy, ..quick() };
    let report = get_mirrors(&mirrors, Trust::Checksums, to.path(), &options).await;
    assert_eq!(report.failures, [], "{} {fault:?}", policy.name);
    for (key, data) in &files {
        assert!(fs::read(to.path().join(key)).unwrap() == *data, "{}: {key} is wrong", policy.name);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_policy_reads_everything() {
    assert!(drivable().count() >= 10);
    for fault in [None, Some(Fault::Busy), Some(Fault::CloseEarly), Some(Fault::Hang), Some(Fault::Gone)] {
        futures_util::future::join_all(drivable().map(|policy| read_all(policy, fault))).await;
    }
}

/// What a policy does not know shows in where it reads.
#[tokio::test]
async fn the_first_mirror_serves_everything_if_the_policy_says_so() {
    let (files, to) = (files(), tempfile::tempdir().unwrap());
    let (a, b) = (Server::start(&files, true, |_| None).await, Server::start(&files, true, |_| None).await);
    let mirrors = [a.address.clone(), b.address.clone()];
    let options = Options { policy: evenkeel::policy::find("first").unwrap(), ..quick() };
    let report = get_mirrors(&mirrors, Trust::Checksums, to.path(), &options).await;
    let bytes: Vec<u64> = report.servers.iter().map(|server| server.bytes).collect();
    assert_eq!(bytes, [600_000, 0]);
}

#[test]
fn policies_that_need_more_than_a_client_are_refused_with_the_reason() {
    let why = |name| drives(evenkeel::policy::find(name).unwrap()).map_err(|why| why.to_string());
    assert!(why("hdlwf").unwrap_err().contains("bid"));
    assert!(why("nearest").unwrap_err().contains("far away"));
    assert!(why("opass-dynamic").unwrap_err().contains("does not choose"));
    assert!(why("two-choice").is_err() && why("nio").is_err());
    assert_eq!(why("optimal"), Ok(()));
}
