//! The worked examples beyond the papers: open shop, limits, speeds and backlogs.

use evenkeel::check::{self, Measures, Subject};
use evenkeel::model::{Batch, Client, Cluster, Ratio, Server, Speed};
use evenkeel::select::{Goal, optimal};

use crate::support::{Planned, batch, moved, planned, whole};

/// All the same but for the backlogs.
fn with_backlogs(batch: &Batch, backlogs: &[u64]) -> Cluster {
    let servers = backlogs.iter().map(|&backlog| Server { backlog, ..Server::default() }).collect();
    Cluster::new(batch, servers, vec![Client::default(); batch.n_clients()], None).expect("a valid cluster")
}

/// Preemptive open shop of Gonzalez and Sahni (golden G-2.1): the matrix of amounts is moved within its fullest
/// row or column, 7.
#[test]
fn g_2_1() {
    const AMOUNTS: [[u64; 3]; 3] = [[4, 0, 3], [0, 5, 1], [2, 2, 0]];
    let (clients, servers) = (["C0", "C1", "C2"], ["I0", "I1", "I2"]);
    let cells = (0..9).map(|k| (k / 3, k % 3)).filter(|&(c, s)| AMOUNTS[c][s] > 0);
    let requests: Vec<(&str, u64, &[&str])> =
        cells.clone().map(|(c, s)| (clients[c], AMOUNTS[c][s], &servers[s..=s])).collect();
    let batch = batch(&requests);
    let Planned { bound, schedule, measures, .. } = planned(&batch, &Cluster::equal(&batch));
    assert_eq!(bound.value, 7.into());
    assert_eq!(measures, Measures { length: 7.into(), max_load: 7.into() });
    let amounts: Vec<u128> = moved(&schedule.transfers).into_values().collect();
    assert_eq!(amounts, cells.map(|(c, s)| u128::from(AMOUNTS[c][s]) * 1_000_000_000).collect::<Vec<_>>());
}

/// A limit on concurrent transfers (golden G-2.2): nine transfers, one between each of three clients and three
/// servers, at most two at once, take five slots, the last of them with one.
#[test]
fn g_2_2() {
    let (clients, servers) = (["C0", "C1", "C2"], ["I0", "I1", "I2"]);
    let requests: Vec<(&str, u64, &[&str])> =
        (0..9).map(|k| (clients[k / 3], 1, &servers[k % 3..=k % 3])).collect();
    let batch = batch(&requests);
    let nodes = (vec![Server::default(); 3], vec![Client::default(); 3]);
    let cluster = Cluster::new(&batch, nodes.0, nodes.1, Some(2)).unwrap();
    let Planned { bound, schedule, measures, .. } = planned(&batch, &cluster);
    assert_eq!((bound.value, schedule.length), (5.into(), 5.into()));
    assert_eq!(measures, Measures { length: 5.into(), max_load: 3.into() });
    let mut in_slot = [0; 5];
    for t in &schedule.transfers {
        assert_eq!(t.blocks, 1.into());
        in_slot[t.start.floor() as usize] += 1;
    }
    in_slot.sort_unstable();
    assert_eq!(in_slot, [1, 2, 2, 2, 2]);

    let unlimited = planned(&batch, &Cluster::equal(&batch));
    assert_eq!(unlimited.schedule.length, 3.into());
}

/// Speeds (golden G-2.3): six requests that a server of speed 2 and one of speed 1 hold put four on the faster.
#[test]
fn g_2_3() {
    let batch = batch(&["C0", "C1", "C2", "C3", "C4", "C5"].map(|client| (client, 1, &["I0", "I1"][..])));
    let speed = Speed::from_millionths(2_000_000).unwrap();
    let servers = vec![Server { speed, ..Server::default() }, Server::default()];
    let cluster = Cluster::new(&batch, servers, vec![Client::default(); 6], None).unwrap();
    for goal in [Goal::MaxLoad, Goal::Length, Goal::Mean] {
        let (choice, bound) = optimal::select(&batch, &cluster, goal);
        assert_eq!((choice.loads(&batch), bound.value), (vec![4, 2], 2.into()));
        check::bound(&batch, &cluster, &bound, Subject::MaxLoad).unwrap();
    }
    let Planned { schedule, measures, .. } = planned(&batch, &cluster);
    assert_eq!(schedule.length, 2.into());
    assert_eq!(measures, Measures { length: 2.into(), max_load: 2.into() });
}

/// Backlogs (golden G-2.4): with (5, 0, 0) before, five blocks for the last two servers end at 3, at (5, 3, 2); the
/// first server receives nothing and does not count.
#[test]
fn g_2_4() {
    let clients = ["C0", "C1", "C2", "C3", "C4"];
    let mut requests: Vec<(&str, u64, &[&str])> =
        clients.iter().map(|&client| (client, 1, &["I1", "I2"][..])).collect();
    requests.push(("C0", 0, &["I0"]));
    let batch = batch(&requests);
    let cluster = with_backlogs(&batch, &[5, 0, 0]);
    for goal in [Goal::MaxLoad, Goal::Length, Goal::Mean] {
        let (choice, bound) = optimal::select(&batch, &cluster, goal);
        let mut loads = choice.loads(&batch);
        loads[1..].sort_unstable();
        assert_eq!((loads, bound.value), (vec![0, 2, 3], 3.into()));
        check::bound(&batch, &cluster, &bound, Subject::MaxLoad).unwrap();
    }
    let Planned { schedule, measures, .. } = planned(&batch, &cluster);
    assert_eq!(schedule.length, 3.into());
    assert_eq!(measures, Measures { length: 3.into(), max_load: 3.into() });
}

/// Each server needs two slots and so does the client, but the client has to wait for both: three.
#[test]
fn a_client_waits_for_its_servers() {
    let batch = batch(&[("C0", 1, &["I0"]), ("C0", 1, &["I1"])]);
    let Planned { bound, schedule, measures, .. } = planned(&batch, &with_backlogs(&batch, &[1, 1]));
    assert_eq!((bound.value, schedule.length), (3.into(), 3.into()));
    assert_eq!(measures, Measures { length: 3.into(), max_load: 2.into() });
}

/// No server and no client needs more than two slots, but both clients want I0 in the first: more than two.
#[test]
fn with_backlogs_a_bound_may_be_out_of_reach() {
    let batch = batch(&[("C0", 1, &["I0"]), ("C0", 1, &["I1"]), ("C1", 1, &["I0"]), ("C1", 1, &["I2"])]);
    let Planned { bound, schedule, measures, .. } = planned(&batch, &with_backlogs(&batch, &[0, 1, 1]));
    assert_eq!(bound.value, 2.into());
    assert_eq!(whole(schedule.length), 3);
    assert_eq!(measures, Measures { length: 3.into(), max_load: Ratio::from(2) });
}
