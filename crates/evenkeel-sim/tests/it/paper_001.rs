//! What is found of paper 001, and whether a broken policy would be found out.

use evenkeel::model::{Batch, Choice, Cluster, ServerId};
use evenkeel::policy::{Kind, Policy};
use evenkeel::select::lddf;
use evenkeel_sim::papers::paper_001::PAPER;
use evenkeel_sim::papers::{Lab, Verdict};

use crate::support::{everything, policy, same_on_any_threads, some, verdict, well_formed};

fn quick() -> Lab<'static> {
    Lab::new(1, true)
}

#[test]
fn what_is_found() {
    let found = everything(&PAPER, &quick());
    well_formed(&PAPER, &found);
    for (id, wanted) in [
        ("001-job", Verdict::Holds),
        ("001-equi", Verdict::Conditional),
        ("001-aequi", Verdict::Conditional),
        ("001-lddf", Verdict::Conditional),
        ("001-gap-equi", Verdict::Fails),
        ("001-gap-aequi", Verdict::Fails),
        ("001-balance", Verdict::Conditional),
        ("001-moving", Verdict::Fails),
        ("001-dispatch", Verdict::Holds),
        ("001-table", Verdict::Fails),
    ] {
        assert_eq!(verdict(&found, id), wanted, "{id}");
    }
}

#[test]
fn threads_do_not_matter() {
    same_on_any_threads(&PAPER, &["job", "balance", "cost"]);
}

/// Shares of all that a server could serve, the first server's first.
fn greedy(batch: &Batch) -> Choice {
    let lowest = |set: &[_]| set.iter().copied().min();
    Choice::whole(batch.replicas().iter().filter_map(lowest).collect())
}

/// EQUI with a wrong share is uneven, and not quicker than all others.
#[test]
fn a_wrong_share_is_found_out() {
    let broken = Policy { kind: Kind::Select(|batch, _, _| (greedy(batch), None)), ..*policy("equi") };
    let found = some(&PAPER, &["Table 1", "balance"], &quick().with(&broken));
    assert_eq!(verdict(&found, "001-balance"), Verdict::Fails);
    assert_eq!(verdict(&found, "001-equi"), Verdict::Fails);
    assert_eq!(verdict(&found, "001-order"), Verdict::Fails);
}

/// Of the servers that hold the data the one with the most to do.
fn heaviest(batch: &Batch, cluster: &Cluster) -> Choice {
    let backlog = |server: &ServerId| cluster.servers()[server.index()].backlog;
    let heaviest = |set: &[ServerId]| set.iter().copied().max_by_key(backlog);
    Choice::whole(batch.replicas().iter().filter_map(heaviest).collect())
}

/// AEQUI that fills the heaviest servers first has something to move, and is not the quickest.
#[test]
fn filling_the_heaviest_is_found_out() {
    let broken = Policy {
        kind: Kind::Select(|batch, cluster, _| (heaviest(batch, cluster), None)),
        ..*policy("aequi")
    };
    let found = some(&PAPER, &["Table 1", "moving"], &quick().with(&broken));
    assert_eq!(verdict(&found, "001-aequi"), Verdict::Fails);
    assert_ne!(verdict(&found, "001-moving"), Verdict::Fails);
}

/// LDDF and HDDF the one for the other.
#[test]
fn the_wrong_end_is_found_out() {
    let broken = Policy { kind: Kind::Select(|batch, _, _| (lddf::hddf(batch), None)), ..*policy("lddf") };
    let found = some(&PAPER, &["Table 1"], &quick().with(&broken));
    assert_eq!(verdict(&found, "001-lddf"), Verdict::Fails);
}
