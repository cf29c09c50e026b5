//! Nothing damaged passes for the original: the checker rejects it unless it is valid too, and its fingerprint
//! is another.

use std::collections::BTreeSet;

use evenkeel::bound::{Bound, Proof};
use evenkeel::check::{self, Fault, Subject};
use evenkeel::model::{Batch, BatchBuilder, ClientId, Cluster, Fixed, Ratio, ServerId, Transfer};
use evenkeel::order::colour::order;
use evenkeel::select::{Goal, first, optimal};
use proptest::prelude::*;

use crate::support::{Case, Request, cases, config, whole};

/// The rules of a plan, slot by slot: slow, and independent of the checker.
fn is_valid(case: &Case, rows: &[Transfer]) -> bool {
    let whole = |n: Fixed| n.whole().expect("only whole numbers are tried here");
    let may_serve = |t: &Transfer| {
        let request = case.requests.get(t.request as usize);
        request.is_some_and(|r| {
            let is_nothing = t.blocks.is_zero() && (r.blocks > 0 || !t.start.is_zero());
            r.replicas.contains(&t.server.index()) && !is_nothing
        })
    };
    let is_served = |(i, request): (usize, &Request)| {
        let mine = || rows.iter().filter(|t| t.request as usize == i);
        let n_rows = mine().count();
        let may_repeat = request.blocks > 0;
        (n_rows == 1 || n_rows > 1 && may_repeat)
            && mine().map(|t| u128::from(whole(t.blocks))).sum::<u128>() == request.blocks.into()
    };
    if !rows.iter().all(may_serve) || !case.requests.iter().enumerate().all(is_served) {
        return false;
    }
    // All amounts are right, so they are small.
    let mut busy = BTreeSet::new();
    rows.iter().all(|t| {
        let client = case.requests[t.request as usize].client;
        let start = whole(t.start);
        start.checked_add(whole(t.blocks)).is_some_and(|end| {
            (start..end)
                .all(|slot| busy.insert((0, client, slot)) && busy.insert((1, t.server.index(), slot)))
        })
    })
}

/// The plan with one row damaged in one field, in many ways; and with a row dropped or doubled.
fn damaged(case: &Case, rows: &[Transfer]) -> Vec<Vec<Transfer>> {
    let end = rows.iter().map(|t| t.start.floor() + t.blocks.floor()).max().unwrap_or(0);
    let mut plans = Vec::new();
    for (k, &row) in rows.iter().enumerate() {
        let requests = (0..=case.requests.len() as u32).chain([u32::MAX]);
        let servers = (0..=case.n_servers as u32).chain([u32::MAX]).map(ServerId);
        let amounts = || (0..=end + 1).chain([1 << 32, u64::MAX - 1, u64::MAX]);
        let wrong_rows = requests
            .map(|request| Transfer { request, ..row })
            .chain(servers.map(|server| Transfer { server, ..row }))
            .chain(amounts().map(|start| Transfer { start: start.into(), ..row }))
            .chain(amounts().map(|blocks| Transfer { blocks: blocks.into(), ..row }));
        plans.extend(wrong_rows.filter(|&wrong| wrong != row).map(|wrong| {
            let mut plan = rows.to_vec();
            plan[k] = wrong;
            plan
        }));
        plans.push([&rows[..k], &rows[k + 1..]].concat());
        plans.push([&rows[..k], &rows[k..=k], &rows[k..]].concat());
    }
    plans
}

/// Asserts that the checker accepts the plan exactly if it is valid, which it returns.
fn judge(case: &Case, batch: &Batch, rows: &[Transfer]) -> bool {
    let passes =
        |rows: &[Transfer], ordered| check::plan(batch, &Cluster::equal(batch), rows, ordered).is_ok();
    let is_accepted = passes(rows, true);
    assert_eq!(is_accepted, is_valid(case, rows), "{rows:?}");
    let without_order: Vec<Transfer> = rows.iter().map(|&t| Transfer { start: Fixed::ZERO, ..t }).collect();
    assert!(!is_accepted || passes(&without_order, false), "{rows:?}");
    let has_order = rows.iter().any(|t| !t.start.is_zero());
    assert!(!has_order || !passes(rows, false), "{rows:?}");
    is_accepted
}

/// That a client has to receive all its blocks.
fn client_proof(client: u32) -> Proof {
    Proof::Client { client: ClientId(client), waits_for: None }
}

proptest! {
    #![proptest_config(config(4000))]

    #[test]
    fn damaged_plans_are_rejected_or_told_apart(case in cases()) {
        let batch = case.batch();
        let cluster = Cluster::equal(&batch);
        for choice in [optimal::select(&batch, &cluster, Goal::Length).0, first::select(&batch)] {
            let rows = order(&batch, &cluster, &choice).transfers;
            prop_assert!(judge(&case, &batch, &rows));
            let fingerprint = Transfer::fingerprint(rows.iter().copied());
            for plan in damaged(&case, &rows) {
                judge(&case, &batch, &plan);
                prop_assert_ne!(Transfer::fingerprint(plan.iter().copied()), fingerprint, "{:?}", plan);
            }
        }
    }

    #[test]
    fn damaged_batches_are_told_apart(case in cases()) {
        let fingerprint = case.batch().fingerprint();
        for i in 0..case.requests.len() {
            let changed = |change: &dyn Fn(&mut Vec<Request>)| {
                let mut case = case.clone();
                change(&mut case.requests);
                case.batch().fingerprint()
            };
            prop_assert_ne!(fingerprint, changed(&|requests| drop(requests.remove(i))));
            prop_assert_ne!(fingerprint, changed(&|requests| requests.insert(i, requests[i].clone())));
            prop_assert_ne!(fingerprint, changed(&|requests| requests[i].blocks += 1));
            if case.n_clients > 1 {
                let next = (case.requests[i].client + 1) % case.n_clients;
                prop_assert_ne!(fingerprint, changed(&|requests| requests[i].client = next));
            }
            if case.requests[i].replicas.len() > 1 {
                prop_assert_ne!(fingerprint, changed(&|requests| requests[i].replicas.rotate_left(1)));
                prop_assert_ne!(fingerprint, changed(&|requests| _ = requests[i].replicas.pop()));
            }
        }
    }

    #[test]
    fn damaged_proofs_are_rejected(case in cases()) {
        let batch = case.batch();
        let cluster = Cluster::equal(&batch);
        for (goal, subject) in [
            (Goal::Length, Subject::Length),
            (Goal::MaxLoad, Subject::MaxLoad),
            (Goal::Mean, Subject::MaxLoad),
        ] {
            let (_, bound) = optimal::select(&batch, &cluster, goal);
            let is_accepted = |value: u64, proof: &Proof| {
                let bound = Bound { value: value.into(), proof: proof.clone() };
                check::bound(&batch, &cluster, &bound, subject).is_ok()
            };
            let value = whole(bound.value);
            prop_assert!(is_accepted(value, &bound.proof));
            prop_assert!(!is_accepted(value + 1, &bound.proof));
            prop_assert!(!is_accepted(u64::MAX, &bound.proof));
            // Every proof there is, the ones with a server more or less or another client among them.
            for servers in case.server_sets() {
                let proof = Proof::Servers(servers.iter().map(|&s| ServerId(s as u32)).collect());
                prop_assert_eq!(is_accepted(value, &proof), case.forced_on(&servers) >= value);
            }
            for client in 0..case.n_clients {
                let is_proof = subject == Subject::Length && case.wanted_by(client) >= value;
                prop_assert_eq!(is_accepted(value, &client_proof(client as u32)), is_proof);
            }
        }
    }

    #[test]
    fn proofs_with_wrong_names_are_rejected(case in cases()) {
        let batch = case.batch();
        let cluster = Cluster::equal(&batch);
        let fault =
            |proof, subject| check::bound(&batch, &cluster, &Bound { value: Ratio::ZERO, proof }, subject);
        let n_servers = case.n_servers as u32;
        let all: Vec<ServerId> = (0..n_servers).map(ServerId).collect();
        for subject in [Subject::Length, Subject::MaxLoad] {
            prop_assert!(fault(Proof::Servers(all.clone()), subject).is_ok());
            for &server in &all {
                let twice = Proof::Servers([&all[..], &[server]].concat());
                prop_assert_eq!(fault(twice, subject), Err(Fault::ServerTwiceInProof));
            }
            for unknown in [n_servers, u32::MAX] {
                let unknown = Proof::Servers([&all[..], &[ServerId(unknown)]].concat());
                prop_assert_eq!(fault(unknown, subject), Err(Fault::UnknownInProof));
            }
        }
        for unknown in [case.n_clients as u32, u32::MAX] {
            let unknown = client_proof(unknown);
            prop_assert_eq!(fault(unknown.clone(), Subject::Length), Err(Fault::UnknownInProof));
            prop_assert_eq!(fault(unknown, Subject::MaxLoad), Err(Fault::ProvesNoLoad));
        }
        let waits_for_nobody = Proof::Client { client: ClientId(0), waits_for: Some(ServerId(n_servers)) };
        prop_assert_eq!(fault(waits_for_nobody, Subject::Length), Err(Fault::UnknownInProof));
        prop_assert_eq!(fault(Proof::Concurrency, Subject::Length), Err(Fault::NoLimit));
        prop_assert_eq!(fault(Proof::Concurrency, Subject::MaxLoad), Err(Fault::ProvesNoLoad));
    }
}

/// One empty request on one server.
fn nothing() -> (Batch, Transfer) {
    let mut batch = BatchBuilder::new();
    batch.request("c0", 0, &["s0"]).expect("a valid request");
    (batch.finish(), Transfer { request: 0, server: ServerId(0), start: Fixed::ZERO, blocks: Fixed::ZERO })
}

#[test]
fn a_server_that_the_batch_does_not_have_is_rejected() {
    let (batch, row) = nothing();
    for unknown in [1, u32::MAX] {
        let row = Transfer { server: ServerId(unknown), ..row };
        assert!(check::plan(&batch, &Cluster::equal(&batch), &[row], true).is_err());
    }
}

#[test]
fn a_row_of_zeros_counts_in_the_fingerprint() {
    let (_, row) = nothing();
    let fingerprints: BTreeSet<u64> =
        (0..4).map(|n| Transfer::fingerprint(std::iter::repeat_n(row, n))).collect();
    assert_eq!(fingerprints.len(), 4);
}
