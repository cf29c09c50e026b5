//! The worked examples of paper 000 and of the open shop behind its order.

use std::collections::BTreeMap;

use evenkeel::check::{self, Fault, Measures, Subject};
use evenkeel::model::{Batch, BatchBuilder, Choice, ServerId, Transfer};
use evenkeel::order::colour::order;
use evenkeel::select::{Goal, optimal};

fn batch(requests: &[(&str, u64, &[&str])]) -> Batch {
    let mut batch = BatchBuilder::new();
    for (client, blocks, replicas) in requests {
        batch.request(client, *blocks, replicas).expect("a valid request");
    }
    batch.finish()
}

/// A plan of one-block transfers: the server and the slot of each request.
fn plan(rows: &[(u32, u64)]) -> Vec<Transfer> {
    let rows = (0..).zip(rows);
    rows.map(|(request, &(server, start))| Transfer { request, server: ServerId(server), start, blocks: 1 })
        .collect()
}

fn length(batch: &Batch, rows: &[(u32, u64)]) -> Result<u64, Fault> {
    check::plan(batch, &plan(rows), true).map(|measures| measures.length)
}

/// Paper 000 §2.1, Fig. 1 (golden G-000.1): the largest degree is 2, so the four transfers take two slots, and
/// a worse order takes three.
#[test]
fn g_000_1() {
    let batch = batch(&[("C0", 1, &["I0"]), ("C1", 1, &["I0"]), ("C1", 1, &["I1"]), ("C2", 1, &["I1"])]);
    let servers = [0, 0, 1, 1];
    let (choice, bound) = optimal::select(&batch, Goal::Length);
    let schedule = order(&batch, &choice);
    assert_eq!((schedule.length, bound.value), (2, 2));
    assert_eq!(check::plan(&batch, &schedule.transfers, true), Ok(Measures { length: 2, max_load: 2 }));
    check::bound(&batch, &bound, Subject::Length).unwrap();

    let in_slots = |slots: [u64; 4]| {
        let rows: Vec<_> = servers.into_iter().zip(slots).collect();
        length(&batch, &rows)
    };
    assert_eq!(in_slots([0, 1, 0, 1]), Ok(2));
    assert_eq!(in_slots([0, 1, 2, 0]), Ok(3), "R1 with R4, then R2, then R3");
    for bits in 0..16_u64 {
        let slots = [0, 1, 2, 3].map(|request| bits >> request & 1);
        let shares_an_end = slots.windows(2).any(|pair| pair[0] == pair[1]);
        assert_eq!(in_slots(slots).is_err(), shares_an_end, "{slots:?}");
    }
}

/// Paper 000 §2.1, Fig. 2 (golden G-000.2): R1 from I0 leaves degree 2 and two slots, R1 from I1 degree 3 and
/// three slots.
#[test]
fn g_000_2() {
    let batch =
        batch(&[("C0", 1, &["I0", "I1"]), ("C1", 1, &["I1"]), ("C1", 1, &["I2"]), ("C2", 1, &["I1"])]);
    let (choice, bound) = optimal::select(&batch, Goal::Length);
    assert_eq!(choice.loads(&batch), [1, 2, 1]);
    let schedule = order(&batch, &choice);
    assert_eq!((schedule.length, bound.value), (2, 2));
    assert_eq!(check::plan(&batch, &schedule.transfers, true), Ok(Measures { length: 2, max_load: 2 }));
    check::bound(&batch, &bound, Subject::Length).unwrap();
    assert_eq!(length(&batch, &[(0, 0), (1, 0), (2, 1), (1, 1)]), Ok(2), "R1 with R2, then R3 with R4");

    let servers = [1, 1, 2, 1].map(ServerId).to_vec();
    let wrong = order(&batch, &Choice { servers, split_off: Vec::new() });
    assert_eq!(wrong.length, 3);
    assert_eq!(check::plan(&batch, &wrong.transfers, true), Ok(Measures { length: 3, max_load: 3 }));
}

/// Paper 000 §1, optimal selection by augmenting paths (golden G-000.3): four requests with the same two
/// replicas put two on each server.
#[test]
fn g_000_3() {
    let pair: &[&str] = &["I0", "I1"];
    let batch = batch(&[("C0", 1, pair), ("C1", 1, pair), ("C2", 1, pair), ("C3", 1, pair)]);
    for goal in [Goal::MaxLoad, Goal::Length, Goal::Mean] {
        let (choice, bound) = optimal::select(&batch, goal);
        assert_eq!((choice.loads(&batch), bound.value), (vec![2, 2], 2));
        check::bound(&batch, &bound, Subject::MaxLoad).unwrap();
    }
}

/// Preemptive open shop of Gonzalez and Sahni (golden G-2.1): the matrix of amounts is moved within its fullest
/// row or column, 7.
#[test]
fn g_2_1() {
    const AMOUNTS: [[u64; 3]; 3] = [[4, 0, 3], [0, 5, 1], [2, 2, 0]];
    let (clients, servers) = (["C0", "C1", "C2"], ["I0", "I1", "I2"]);
    let cells = (0..9).map(|k| (k / 3, k % 3)).filter(|&(c, s)| AMOUNTS[c][s] > 0);
    let requests: Vec<(&str, u64, &[&str])> =
        cells.map(|(c, s)| (clients[c], AMOUNTS[c][s], &servers[s..=s])).collect();
    let batch = batch(&requests);
    let (choice, bound) = optimal::select(&batch, Goal::Length);
    let schedule = order(&batch, &choice);
    assert_eq!((schedule.length, bound.value), (7, 7));
    assert_eq!(check::plan(&batch, &schedule.transfers, true), Ok(Measures { length: 7, max_load: 7 }));
    check::bound(&batch, &bound, Subject::Length).unwrap();

    let mut moved = BTreeMap::new();
    for t in &schedule.transfers {
        *moved.entry((batch.client(t.request as usize).index(), t.server.index())).or_insert(0) += t.blocks;
    }
    for (c, row) in AMOUNTS.iter().enumerate() {
        for (s, &amount) in row.iter().enumerate() {
            assert_eq!(moved.get(&(c, s)).copied().unwrap_or(0), amount, "C{c}, I{s}");
        }
    }
}
