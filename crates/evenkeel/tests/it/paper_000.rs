//! The worked examples of paper 000.

use evenkeel::check::{self, Fault, Measures, Subject};
use evenkeel::model::{Batch, Choice, Cluster, ServerId, Transfer};
use evenkeel::order::colour::order;
use evenkeel::select::{Goal, optimal};

use crate::support::{batch, planned, whole};

/// A plan of one-block transfers: the server and the slot of each request.
fn plan(rows: &[(u32, u64)]) -> Vec<Transfer> {
    let rows = (0..).zip(rows);
    rows.map(|(request, &(server, start))| Transfer {
        request,
        server: ServerId(server),
        start: start.into(),
        blocks: 1.into(),
    })
    .collect()
}

fn length(batch: &Batch, rows: &[(u32, u64)]) -> Result<u64, Fault> {
    check::plan(batch, &Cluster::equal(batch), &plan(rows), true).map(|measures| whole(measures.length))
}

/// Paper 000 §2.1, Fig. 1 (golden G-000.1): the largest degree is 2, so the four transfers take two slots, and
/// a worse order takes three.
#[test]
fn g_000_1() {
    let batch = batch(&[("C0", 1, &["I0"]), ("C1", 1, &["I0"]), ("C1", 1, &["I1"]), ("C2", 1, &["I1"])]);
    let servers = [0, 0, 1, 1];
    let best = planned(&batch, &Cluster::equal(&batch));
    assert_eq!(best.bound.value, 2.into());
    assert_eq!(best.measures, Measures { length: 2.into(), max_load: 2.into() });

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
    let cluster = Cluster::equal(&batch);
    let best = planned(&batch, &cluster);
    assert_eq!(best.choice.loads(&batch), [1, 2, 1]);
    assert_eq!(best.bound.value, 2.into());
    assert_eq!(best.measures, Measures { length: 2.into(), max_load: 2.into() });
    assert_eq!(length(&batch, &[(0, 0), (1, 0), (2, 1), (1, 1)]), Ok(2), "R1 with R2, then R3 with R4");

    let servers = [1, 1, 2, 1].map(ServerId).to_vec();
    let wrong = order(&batch, &cluster, &Choice { servers, split_off: Vec::new() });
    assert_eq!(wrong.length, 3.into());
    let measures = check::plan(&batch, &cluster, &wrong.transfers, true);
    assert_eq!(measures, Ok(Measures { length: 3.into(), max_load: 3.into() }));
}

/// Paper 000 §1, optimal selection by augmenting paths (golden G-000.3): four requests with the same two
/// replicas put two on each server.
#[test]
fn g_000_3() {
    let pair: &[&str] = &["I0", "I1"];
    let batch = batch(&[("C0", 1, pair), ("C1", 1, pair), ("C2", 1, pair), ("C3", 1, pair)]);
    let cluster = Cluster::equal(&batch);
    for goal in [Goal::MaxLoad, Goal::Length, Goal::Mean] {
        let (choice, bound) = optimal::select(&batch, &cluster, goal);
        assert_eq!((choice.loads(&batch), bound.value), (vec![2, 2], 2.into()));
        check::bound(&batch, &cluster, &bound, Subject::MaxLoad).unwrap();
    }
}
