//! Paper 003: the worked examples, the claims that hold, and those that do not.

use evenkeel::assign::odds::{local_reads, local_reads_as_printed, served, served_by_sum};
use evenkeel::assign::opass_dynamic::{self, Action, Event, Guided, OtherWork, Settings};
use evenkeel::assign::opass_multi::{Taken, propose};
use evenkeel::assign::{
    Assignment, ProcessId, Unfit, Work, WorkBuilder, WorkError, drawn, opass_exact, opass_multi,
    opass_single, rank,
};
use evenkeel::draw::{Draw, Seeded, Ties};
use evenkeel::model::{Batch, BatchBuilder, Client, Cluster, NameTable, Server, ServerId};
use evenkeel::policy::assignments;
use evenkeel::select::opass_tenant::{self, by_counts, counts};
use evenkeel::select::{Goal, nearest, optimal};
use proptest::prelude::*;

use crate::support::config;

/// An input: its bytes and the servers that hold it.
type Input = (u64, Vec<u32>);

fn work(tasks: &[Vec<Input>], n_servers: usize, homes: &[Option<u32>]) -> Work {
    let mut builder = WorkBuilder::new();
    for task in tasks {
        for (bytes, replicas) in task {
            let replicas: Vec<ServerId> = replicas.iter().copied().map(ServerId).collect();
            builder.input(*bytes, &replicas).expect("a valid input");
        }
        builder.end_task();
    }
    builder.finish(n_servers, homes.iter().map(|home| home.map(ServerId)).collect()).expect("valid work")
}

/// Tasks of one input of one byte each.
fn chunks(sets: &[&[u32]], n_servers: usize, homes: &[Option<u32>]) -> Work {
    let tasks: Vec<Vec<Input>> = sets.iter().map(|set| vec![(1, set.to_vec())]).collect();
    work(&tasks, n_servers, homes)
}

/// Processes that hold so many bytes of each task, each on a server of its own.
pub(crate) fn matrix(rows: &[&[u64]]) -> Work {
    let n_tasks = rows.first().map_or(0, |row| row.len());
    let of_task = |task: usize| {
        let held = (0..).zip(rows).filter(|(_, row)| row[task] > 0);
        held.map(|(server, row)| (row[task], vec![server])).collect()
    };
    let tasks: Vec<Vec<Input>> = (0..n_tasks).map(of_task).collect();
    work(&tasks, rows.len(), &(0..rows.len() as u32).map(Some).collect::<Vec<_>>())
}

fn local_bytes(work: &Work, processes: &[ProcessId]) -> u64 {
    processes.iter().enumerate().map(|(task, process)| work.local_bytes(task, *process)).sum()
}

/// Paper 003 §4.2 (golden G-003.1): three of four chunks can be local; whoever gives the one with two copies to the first
/// process has only two.
#[test]
fn g_003_1() {
    let work = chunks(&[&[0], &[0], &[0, 1], &[0]], 2, &[Some(0), Some(1)]);
    let found = opass_single::assign(&work).unwrap();
    let measures = found.measures(&work);
    assert_eq!((measures.local_bytes, measures.remote_bytes, found.bound_local_bytes), (3, 1, 3));
    assert_eq!((measures.max_tasks, measures.min_tasks), (2, 2));
    assert_eq!(found.processes[2], ProcessId(1));
    let greedy: Vec<ProcessId> = [0, 1, 0, 1].map(ProcessId).to_vec();
    assert_eq!(local_bytes(&work, &greedy), 2);
    let ranks = rank::assign(&work);
    assert_eq!(ranks.processes, [0, 0, 1, 1].map(ProcessId));
    assert_eq!((ranks.measures(&work).local_bytes, ranks.bound_local_bytes), (3, 3));
}

/// Paper 003 §4.3 claims that Algorithm 1 is optimal (golden G-003.2): it reads 10 of 18 bytes locally. Fixed quotas lose
/// as well, where a process is to have one task more.
#[test]
fn g_003_2() {
    let work = matrix(&[&[10, 9], &[9, 0]]);
    let proposed = opass_multi::assign(&work);
    assert_eq!(local_bytes(&work, &proposed.processes), 10);
    let exact = opass_exact::assign(&work);
    assert_eq!(local_bytes(&work, &exact.processes), 18);
    assert_eq!((proposed.bound_local_bytes, exact.bound_local_bytes), (18, 18));

    let work = matrix(&[&[0], &[5]]);
    assert_eq!(local_bytes(&work, &opass_multi::assign(&work).processes), 0);
    assert_eq!(local_bytes(&work, &opass_exact::assign(&work).processes), 5);
}

/// Paper 003 §4.3, Fig. 6 (golden G-003.3): who gets what, and that task 5 changes hands.
#[test]
fn g_003_3() {
    let work = matrix(&[
        &[10, 0, 0, 20, 40, 10, 0, 0],
        &[0, 30, 10, 0, 0, 0, 20, 0],
        &[0, 0, 20, 10, 0, 20, 0, 10],
        &[0, 10, 0, 0, 0, 50, 10, 30],
    ]);
    let mut log = Vec::new();
    let processes = propose(&work, |taken| log.push(taken));
    assert_eq!(processes, [2, 1, 2, 0, 0, 3, 1, 3].map(ProcessId));
    assert_eq!(local_bytes(&work, &processes), 210);
    assert!(log.contains(&Taken { task: 5, by: ProcessId(3), from: ProcessId(2) }), "{log:?}");
    assert_eq!(opass_exact::assign(&work).bound_local_bytes, 210);
}

/// Algorithm 2 of paper 003 as printed: the counts, and what is left of the requests, which may be less than none.
fn algorithm_2(n_requests: i64, backlogs: &[i64], held: &[i64]) -> (Vec<i64>, i64) {
    let most = backlogs.iter().copied().max().unwrap_or(0);
    let mut left = n_requests;
    let mut counts = vec![0; backlogs.len()];
    for (server, backlog) in backlogs.iter().enumerate().filter(|(_, backlog)| **backlog < most) {
        counts[server] = (most - backlog).min(held[server]);
        left -= counts[server];
    }
    while left > 0 {
        for server in 0..counts.len() {
            if left > 0 && counts[server] < held[server] {
                counts[server] += 1;
                left -= 1;
            }
        }
    }
    (counts, left)
}

/// Paper 003 §4.5, Algorithm 2 (golden G-003.4): where it hands out no more than there is, filling the emptiest first agrees
/// with it; elsewhere it hands out more.
#[test]
fn g_003_4() {
    type Row = (u64, &'static [u64], &'static [u64], &'static [u64], (&'static [i64], i64));
    let rows: [Row; 4] = [
        (6, &[5, 3, 4, 5], &[3, 3, 3, 3], &[1, 3, 2, 0], (&[1, 3, 2, 0], 0)),
        (5, &[5, 0, 0], &[0, 5, 5], &[0, 3, 2], (&[0, 5, 5], -5)),
        (2, &[9, 0, 0, 0], &[1, 2, 2, 1], &[0, 1, 1, 0], (&[0, 2, 2, 1], -3)),
        (4, &[2, 2], &[4, 4], &[2, 2], (&[2, 2], 0)),
    ];
    for (n, backlogs, held, expected, (printed, left)) in rows {
        assert_eq!(counts(n, backlogs, held), expected);
        let signed = |numbers: &[u64]| numbers.iter().map(|n| n.cast_signed()).collect::<Vec<_>>();
        let (literal, after) = algorithm_2(n.cast_signed(), &signed(backlogs), &signed(held));
        assert_eq!((literal.as_slice(), after), (printed, left));
    }
    assert_eq!(counts(4, &[0, 9], &[1, 5]), [1, 3], "none gets more than it holds");
    assert_eq!(counts(9, &[0, 0], &[1, 2]), [1, 2]);
}

/// Requests for one block each of one client, on so many servers.
fn batch(n_servers: u32, sets: &[&[u32]]) -> Batch {
    let mut names = NameTable::new();
    (0..n_servers).for_each(|server| names.insert(&format!("s{server}"), "server").expect("new names"));
    let mut batch = BatchBuilder::new();
    batch.declare_servers(names).expect("no request yet");
    for set in sets {
        let names: Vec<String> = set.iter().map(|server| format!("s{server}")).collect();
        batch.request("c0", 1, &names.iter().map(String::as_str).collect::<Vec<_>>()).expect("known servers");
    }
    batch.finish()
}

fn busy(batch: &Batch, backlogs: &[u64]) -> Cluster {
    let servers = backlogs.iter().map(|&backlog| Server { backlog, ..Server::default() });
    let clients = vec![Client::default(); batch.n_clients()];
    Cluster::new(batch, servers.collect(), clients, None).expect("a valid cluster")
}

/// Paper 003 §4.5 (golden G-003.5): counts that no flow can keep to; the exact form has at most two on a server.
#[test]
fn g_003_5() {
    let batch = batch(4, &[&[0, 1], &[0, 1], &[0, 1], &[2, 3]]);
    let cluster = Cluster::equal(&batch);
    assert_eq!(counts(4, &[0; 4], &[3, 3, 1, 1]), [1, 1, 1, 1]);
    assert_eq!(by_counts(&batch, &cluster), None, "three of four");
    let choice = opass_tenant::select(&batch, &cluster, Ties::LowestId, 1);
    assert_eq!(choice.loads(&batch).into_iter().max(), Some(2));
}

/// Paper 003 §4.5: the nearest copy while servers are balanced. What they have to do already counts.
#[test]
fn tenants_are_levelled_beyond_the_threshold() {
    let batch = batch(3, &[&[0, 1], &[0, 1], &[0, 2], &[1, 2]]);
    let even = Cluster::equal(&batch);
    let near = nearest::select(&batch, &even, Ties::LowestId);
    assert_eq!(near.loads(&batch), [3, 1, 0]);
    let select =
        |cluster: &Cluster, threshold| opass_tenant::select(&batch, cluster, Ties::LowestId, threshold);
    assert_eq!(select(&even, 3), near);
    let mut levelled = select(&even, 2).loads(&batch);
    levelled.sort_unstable();
    assert_eq!(levelled, [1, 1, 2]);
    let choice = select(&busy(&batch, &[5, 0, 0]), 1);
    assert_eq!(choice.loads(&batch), [0, 2, 2]);
}

#[test]
fn tenants_get_the_optimum_or_the_nearest() {
    let sets = prop::collection::vec(prop::sample::subsequence(vec![0_u32, 1, 2, 3], 1..=3), 0..9);
    let cases = (sets, prop::collection::vec(0..5_u64, 4));
    proptest!(config(2000), |((sets, backlogs) in cases)| {
        let batch = batch(4, &sets.iter().map(Vec::as_slice).collect::<Vec<_>>());
        let cluster = busy(&batch, &backlogs);
        let choice = opass_tenant::select(&batch, &cluster, Ties::LowestId, 0);
        let done = choice.last_done(&batch, &cluster);
        let (_, bound) = optimal::select(&batch, &cluster, Goal::MaxLoad);
        prop_assert_eq!(done, bound.value);
        prop_assert!(choice.split_off.is_empty());
    });
}

/// Paper 003 §3.1: the printed odds are of one copy where the text has three; of 512 nodes they are wrong either way. The
/// expected share of local reads, r/m, is small all the same.
#[test]
fn odds_of_local_reads() {
    let close =
        |found: f64, wanted: f64, digits: f64| assert!((found - wanted).abs() < digits, "{found} {wanted}");
    for (nodes, printed, correct) in
        [(64, 0.810_925, 0.999_997_8), (128, 0.214_255, 0.980_696), (256, 0.016_352_2, 0.555_268)]
    {
        close(local_reads_as_printed(512, nodes).more_than(5), printed, 6e-7);
        close(local_reads(512, 3, nodes).more_than(5), correct, 6e-7);
    }
    close(local_reads_as_printed(512, 512).more_than(5), 0.000_582, 6e-7);
    close(local_reads(512, 3, 512).more_than(5), 0.083_325, 6e-7);
    close(local_reads_as_printed(512, 128).more_than(9), 0.007_875, 6e-7);
    close(local_reads_as_printed(512, 128).more_than(8), 0.020_899, 6e-7);
    close(local_reads(512, 3, 128).more_than(9), 0.760_716, 6e-7);
}

/// Paper 003 §3.2 and §3.3: how many chunks a node serves, or stores; its sums are binomial too, and its nodes are 128.
#[test]
fn odds_of_serving() {
    let close =
        |found: f64, wanted: f64, digits: f64| assert!((found - wanted).abs() < digits, "{found} {wanted}");
    let z = served(512, 128);
    close(z.at_most(1), 0.090_718_9, 6e-8);
    close(z.at_most(7), 0.949_566_0, 6e-8);
    close(z.at_most(8), 0.979_101_4, 6e-8);
    close(128.0 * z.at_most(1), 11.61, 6e-3);
    close(128.0 * z.more_than(8), 2.675, 6e-4);
    close(128.0 * z.more_than(7), 6.456, 6e-4);
    for k in [0, 1, 4, 9, 30] {
        close(served_by_sum(512, 3, 128, k), z.exactly(k), 1e-12);
    }
    close(128.0 * z.more_than(6), 14.06, 6e-3);
    let stored = local_reads(512, 3, 128);
    close(128.0 * stored.at_most(1), 0.009_06, 6e-6);
    close(128.0 * stored.more_than(7), 116.87, 6e-3);
}

#[test]
fn odds_at_the_edges() {
    let none = local_reads(4, 0, 7);
    assert_eq!((none.exactly(0), none.more_than(0), none.at_most(9)), (1.0, 0.0, 1.0));
    let all = local_reads(4, 9, 7);
    assert_eq!((all.exactly(4), all.at_most(3), all.more_than(3)), (1.0, 0.0, 1.0));
    assert!((local_reads(0, 3, 7).exactly(0) - 1.0).abs() < 1e-15);
    let many = local_reads(1 << 20, 3, 8);
    assert!((many.at_most(1 << 20) - 1.0).abs() < 1e-6);
    assert!((many.at_most(393_216) - 0.5).abs() < 1e-2, "the first odds are too little for a float");
}

/// Tasks of so many inputs, of sizes drawn from `sizes`, on few servers with few processes.
pub(crate) fn works(
    n_inputs: std::ops::RangeInclusive<usize>,
    sizes: BoxedStrategy<u64>,
) -> impl Strategy<Value = Work> {
    (1..=4_u32).prop_flat_map(move |n_servers| {
        let servers: Vec<u32> = (0..n_servers).collect();
        let most = servers.len().min(3);
        let input = (sizes.clone(), prop::sample::subsequence(servers, 1..=most));
        let tasks = prop::collection::vec(prop::collection::vec(input, n_inputs.clone()), 0..=6);
        let homes = prop::collection::vec(prop::option::weighted(0.9, 0..n_servers), 1..=4);
        (tasks, homes).prop_map(move |(tasks, homes)| work(&tasks, n_servers as usize, &homes))
    })
}

/// The most local bytes of all assignments with even counts.
fn brute_force(work: &Work) -> u64 {
    let (n, p) = (work.n_tasks(), work.n_processes());
    let mut best = 0;
    for code in 0..p.pow(n as u32) {
        let process = |task: usize| ProcessId((code / p.pow(task as u32) % p) as u32);
        let processes: Vec<ProcessId> = (0..n).map(process).collect();
        let count = |k: u32| processes.iter().filter(|process| process.0 == k).count();
        if (0..p as u32).all(|k| (n / p..=n.div_ceil(p)).contains(&count(k))) {
            best = best.max(local_bytes(work, &processes));
        }
    }
    best
}

/// What every assignment keeps to.
fn checked(work: &Work, found: &Assignment, even: bool) -> Result<u64, TestCaseError> {
    prop_assert_eq!(found.processes.len(), work.n_tasks());
    prop_assert_eq!(found.sources.len(), work.n_inputs());
    for (task, process) in found.processes.iter().enumerate() {
        prop_assert!(process.index() < work.n_processes());
        for input in work.inputs(task) {
            let (source, set) = (found.sources[input], work.replicas().of(input));
            prop_assert!(set.contains(&source));
            let home = work.home(*process).filter(|home| set.contains(home));
            prop_assert!(home.is_none_or(|home| home == source), "local if it can be");
        }
    }
    let measures = found.measures(work);
    prop_assert_eq!(measures.local_bytes, local_bytes(work, &found.processes));
    prop_assert_eq!(measures.local_bytes + measures.remote_bytes, work.total_bytes());
    prop_assert_eq!(measures.served_bytes.iter().sum::<u64>(), work.total_bytes());
    prop_assert!(measures.local_bytes <= found.bound_local_bytes);
    prop_assert!(!even || measures.max_tasks - measures.min_tasks <= 1);
    Ok(measures.local_bytes)
}

#[test]
fn single_is_maximal_for_equal_chunks() {
    proptest!(config(1500), |(work in (0..3_u64).prop_flat_map(|size| works(0..=1, Just(size).boxed())))| {
        let best = brute_force(&work);
        let found = opass_single::assign(&work).unwrap();
        prop_assert_eq!(checked(&work, &found, true)?, best);
        prop_assert_eq!(found.bound_local_bytes, best);
        prop_assert_eq!(checked(&work, &opass_exact::assign(&work), true)?, best);
    });
}

/// The least that `done` may make of what servers have to serve, wherever inputs are read.
fn least(work: &Work, backlogs: &[u64], done: impl Fn(&[u64]) -> u64) -> u64 {
    let sets: Vec<&[ServerId]> = (0..work.n_inputs()).map(|input| work.replicas().of(input)).collect();
    let n: usize = sets.iter().map(|set| set.len()).product();
    let load = |mut code: usize| {
        let mut loads = backlogs.to_vec();
        for (input, set) in sets.iter().enumerate() {
            loads[set[code % set.len()].index()] += work.bytes(input);
            code /= set.len();
        }
        done(&loads)
    };
    (0..n).map(load).min().unwrap_or(0)
}

/// Paper 003 §4.5: beside another tenant, data is read where it is local while servers are about equally busy, otherwise
/// so that the fullest has the least to do.
#[test]
fn tenants_share_servers() {
    let backlogs = prop::collection::vec(0..9_u64, 4);
    proptest!(config(1500), |(work in works(0..=1, Just(2_u64).boxed()), backlogs in backlogs)| {
        let backlogs: Vec<u64> = backlogs[..work.n_servers()].iter().map(|n| 2 * n).collect();
        let alone = opass_single::assign(&work).unwrap();
        let beside = work.clone().beside(backlogs.clone()).unwrap();
        let found = opass_single::assign(&beside).unwrap();
        prop_assert_eq!(&found.processes, &alone.processes);
        let served = found.measures(&beside).served_bytes;
        let loads: Vec<u64> = served.iter().zip(&backlogs).map(|(a, b)| a + b).collect();
        let (least, most) = (loads.iter().min().copied().unwrap_or(0), loads.iter().max().copied().unwrap_or(0));
        let is_quiet = backlogs.iter().all(|&bytes| bytes == 0);
        let fullest = |loads: &[u64]| loads.iter().copied().max().unwrap_or(0);
        let best = self::least(&work, &backlogs, fullest);
        prop_assert!(is_quiet || most - least <= 2 || most == best, "{loads:?}");
        let quiet = work.clone().beside(vec![0; work.n_servers()]).unwrap();
        prop_assert_eq!(opass_single::assign(&quiet).unwrap(), alone);
    });
    let work = chunks(&[&[0, 1], &[0, 1]], 2, &[Some(0), Some(0)]);
    let far = work.clone().beside(vec![9, 0]).unwrap();
    assert_eq!(opass_single::assign(&far).unwrap().measures(&far).served_bytes, [0, 2]);
    let near = work.clone().beside(vec![0, 2]).unwrap();
    assert_eq!(opass_single::assign(&near).unwrap().measures(&near).served_bytes, [2, 0]);
    assert_eq!(work.clone().beside(vec![1]).unwrap_err(), WorkError::NoSuchServer(1));
    assert_eq!(work.beside(vec![u64::MAX, 0]).unwrap_err(), WorkError::TooManyBytes);
}

/// Where servers are not equally fast, the last of them is done as early as possible, but for one chunk.
#[test]
fn slow_servers_serve_less() {
    let rates = prop::collection::vec(prop::sample::select(vec![1_u64, 4, 10]), 4);
    proptest!(config(1500), |(work in works(0..=1, Just(2_u64).boxed()), rates in rates)| {
        let rates = &rates[..work.n_servers()];
        let fastest = rates.iter().copied().max().unwrap_or(1);
        let done = |loads: &[u64]| {
            loads.iter().zip(rates).map(|(load, rate)| load * 20 * fastest / rate).max().unwrap_or(0)
        };
        let alone = opass_single::assign(&work).unwrap();
        let at_rates = work.clone().at_rates(rates).unwrap();
        let found = opass_single::assign(&at_rates).unwrap();
        prop_assert_eq!(&found.processes, &alone.processes);
        let last = done(&found.measures(&at_rates).served_bytes);
        let least = least(&work, &vec![0; work.n_servers()], done);
        if fastest > *rates.iter().min().unwrap_or(&fastest) {
            prop_assert!(last <= least + 2 * 20, "{last} {least} {rates:?}");
        }
        let equal = work.clone().at_rates(&vec![7; work.n_servers()]).unwrap();
        prop_assert_eq!(opass_single::assign(&equal).unwrap(), alone);
    });
    // Ten chunks that all are on both hosts. What one host can send while the other sends nine stays local.
    let chunks = chunks(&[&[0, 1][..]; 10], 2, &[Some(0), Some(1)]).at_rates(&[1, 9]).unwrap();
    let found = opass_single::assign(&chunks).unwrap().measures(&chunks);
    assert_eq!((found.served_bytes, found.local_bytes), (vec![1, 9], 6));
    assert_eq!(chunks.at_rates(&[1]).unwrap_err(), WorkError::NoSuchServer(1));
}

/// With chunks of different sizes the bound is kept.
#[test]
fn single_with_different_chunks() {
    proptest!(config(1500), |(work in works(0..=1, (0..9_u64).boxed()))| {
        let found = opass_single::assign(&work).unwrap();
        checked(&work, &found, false)?;
    });
}

/// The paper's bound, total/P for each process, is none: here it is 5, and all 10 bytes are local.
#[test]
fn the_paper_s_capacities_do_not_bound_whole_chunks() {
    let work = work(&[vec![(10, vec![0])], vec![(0, vec![1])]], 2, &[Some(0), Some(1)]);
    let found = opass_single::assign(&work).unwrap();
    assert_eq!((found.measures(&work).local_bytes, found.bound_local_bytes), (10, 10));
}

#[test]
fn exact_is_exact() {
    proptest!(config(3000), |(work in works(0..=3, (0..9_u64).boxed()))| {
        let best = brute_force(&work);
        let found = opass_exact::assign(&work);
        prop_assert_eq!(checked(&work, &found, true)?, best);
        prop_assert_eq!(found.bound_local_bytes, best);
        for other in [opass_multi::assign(&work), rank::assign(&work)] {
            checked(&work, &other, true)?;
            prop_assert_eq!(other.bound_local_bytes, best);
        }
        checked(&work, &opass_dynamic::assign(&work), false)?;
    });
}

/// No process and no task would both rather have each other.
#[test]
fn proposals_end_stable() {
    proptest!(config(2000), |(work in works(0..=3, (0..9_u64).boxed()))| {
        let processes = propose(&work, |_| ());
        let (n, p) = (work.n_tasks(), work.n_processes());
        for k in 0..p as u32 {
            let process = ProcessId(k);
            let has = |task: usize| processes[task] == process;
            prop_assert_eq!((0..n).filter(|&t| has(t)).count(), n / p + usize::from((k as usize) < n % p));
            for task in (0..n).filter(|&task| !has(task)) {
                let wish = work.local_bytes(task, process);
                let would_leave = work.local_bytes(task, processes[task]) < wish;
                let would_take = (0..n).any(|t| has(t) && work.local_bytes(t, process) < wish);
                prop_assert!(!(would_leave && would_take), "{k} and {task}");
            }
        }
    });
}

/// Paper 003 §4.4: a process with nothing left takes from the longest list what it holds most of, of equals the last.
#[test]
fn guided_lists() {
    let work = matrix(&[&[9, 8, 7, 6, 0], &[0, 0, 5, 5, 1]]);
    let mut guided =
        Guided::new(&work, &[0, 0, 0, 0, 1].map(ProcessId), Settings::default()).expect("its own");
    let mut give = |process| {
        let mut out = Vec::new();
        if let Some(task) = guided.lease(ProcessId(process)) {
            guided.on_event(0, Event::Done(ProcessId(process), task), &mut out).unwrap();
        }
        guided.on_event(0, Event::Idle(ProcessId(process)), &mut out).unwrap();
        out.into_iter()
            .map(|action| match action {
                Action::Start(_, task) => Some(task),
                Action::Withdraw(..) | Action::Leave(_) => None,
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(give(1), [Some(4)]);
    assert_eq!(give(1), [Some(3)], "of the two with 5 the last");
    assert_eq!(give(0), [Some(0)]);
    assert_eq!(give(1), [Some(2)]);
    assert_eq!(give(1), [Some(1)]);
    assert_eq!(give(1), [], "it waits, as process 0 may die");
    assert_eq!(give(0), [None, None], "the one that waits, and itself");
}

/// An assignment of other work is no guide.
#[test]
fn guided_by_other_work() {
    let work = matrix(&[&[9, 8], &[0, 0]]);
    let refused = |processes: &[u32]| {
        let processes: Vec<ProcessId> = processes.iter().copied().map(ProcessId).collect();
        Guided::new(&work, &processes, Settings::default()).expect_err("of other work")
    };
    assert_eq!(refused(&[0]), OtherWork::Tasks { n_assigned: 1, n_tasks: 2 });
    assert_eq!(refused(&[0, 1, 1]), OtherWork::Tasks { n_assigned: 3, n_tasks: 2 });
    let unknown = OtherWork::NoSuchProcess { task: 1, process: 2, n_processes: 2 };
    assert_eq!(refused(&[1, 2]), unknown);
    assert!(unknown.to_string().contains("task 1 is assigned to process 2, but there are only 2; "));
}

/// Odd work is assigned by every policy: no tasks, none with inputs, processes on no server's host, more of them than
/// tasks, one server, no bytes, sizes near the limit.
#[test]
fn odd_work() {
    let one = |bytes| vec![(bytes, vec![0])];
    let odd = [
        work(&[], 0, &[]),
        work(&[], 1, &[None]),
        work(&[vec![], vec![], vec![]], 0, &[None, None]),
        work(&[one(3), one(3), one(3)], 1, &[None, None]),
        work(&[one(3), one(4)], 2, &[Some(0), Some(0), Some(1), None, Some(1)]),
        work(&[one(0), one(0), one(5)], 1, &[Some(0), Some(0)]),
        work(&[one(u64::MAX / 2), one(u64::MAX / 2), vec![], one(1)], 1, &[Some(0), Some(0)]),
    ];
    for work in &odd {
        for (policy, assign) in assignments() {
            let found = assign(work).expect("one input at most");
            let even = !["opass-single", "opass-dynamic"].contains(&policy.name);
            checked(work, &found, even).unwrap_or_else(|e| panic!("{}: {e}", policy.name));
        }
    }
    let found = opass_single::assign(&odd[5]).unwrap().measures(&odd[5]);
    assert_eq!((found.local_bytes, found.max_tasks), (5, 2), "those without bytes are not all one process's");
}

#[test]
fn refused_work() {
    let input = |bytes, replicas: &[u32]| {
        let mut builder = WorkBuilder::new();
        builder.input(1, &[ServerId(0)]).unwrap();
        builder.input(bytes, &replicas.iter().copied().map(ServerId).collect::<Vec<_>>())
    };
    assert_eq!(input(1, &[]), Err(WorkError::NoReplica));
    assert_eq!(input(1, &[2, 1, 2]), Err(WorkError::ReplicaTwice));
    assert_eq!(input(u64::MAX, &[0]), Err(WorkError::TooManyBytes));
    let mut builder = WorkBuilder::new();
    builder.input(1, &[ServerId(3)]).unwrap();
    builder.end_task();
    assert_eq!(builder.clone().finish(4, vec![]).unwrap_err(), WorkError::NoProcess);
    assert_eq!(builder.clone().finish(3, vec![None]).unwrap_err(), WorkError::NoSuchServer(3));
    assert_eq!(builder.finish(4, vec![Some(ServerId(4))]).unwrap_err(), WorkError::NoSuchServer(4));
    let several = work(&[vec![], vec![(1, vec![0]), (1, vec![0])]], 1, &[Some(0)]);
    assert_eq!(opass_single::assign(&several), Err(Unfit::SeveralInputs(1)));
}

/// Chunks of 64 MB with three copies drawn at random, and a process on each server.
fn cluster(n_nodes: u32, chunks_each: u32, seed: u64) -> Work {
    let mut draw = Seeded::new(seed);
    let mut builder = WorkBuilder::new();
    for _ in 0..n_nodes * chunks_each {
        let mut set: Vec<ServerId> = Vec::new();
        while set.len() < 3 {
            let server = ServerId(draw.below(n_nodes));
            if !set.contains(&server) {
                set.push(server);
            }
        }
        builder.input(64, &set).expect("three servers");
        builder.end_task();
    }
    builder
        .finish(n_nodes as usize, (0..n_nodes).map(|s| Some(ServerId(s))).collect())
        .expect("known servers")
}

/// Paper 003 §5.1, Fig. 9: with ten chunks a process, those by rank read nearly all remotely and servers serve from 64 to
/// 1500 MB; with Opass all is local, and each serves 640 MB.
#[test]
fn opass_against_rank() {
    let work = cluster(80, 10, 1);
    let by_rank = rank::assign(&work);
    let hdfs =
        Assignment { sources: drawn(&work, &by_rank.processes, &mut Seeded::new(2)), ..by_rank.clone() };
    let (hdfs, by_rank) = (hdfs.measures(&work), by_rank.measures(&work));
    assert!(hdfs.local_bytes * 10 < work.total_bytes());
    assert!(hdfs.max_served_bytes() >= 1000, "{}", hdfs.max_served_bytes());
    assert_eq!(by_rank.max_served_bytes(), 640, "balanced reads alone make it even");
    let opass = opass_single::assign(&work).unwrap().measures(&work);
    assert_eq!((opass.remote_bytes, opass.max_served_bytes()), (0, 640));
}

/// Half a million chunks on 4096 nodes, with a process on each and with two on each of the first half: the bound is met.
#[test]
fn large_work() {
    let large = cluster(4096, 128, 1);
    let mut few = WorkBuilder::new();
    for task in 0..large.n_tasks() {
        few.input(64, large.replicas().of(task)).expect("valid before");
        few.end_task();
    }
    let homes = (0..4095).map(|process| Some(ServerId(process / 2))).collect();
    for (work, all_local) in [(&large, true), (&few.finish(4096, homes).expect("valid before"), false)] {
        let found = opass_single::assign(work).expect("one input each");
        let measures = found.measures(work);
        assert_eq!(measures.local_bytes, found.bound_local_bytes);
        assert_eq!(measures.remote_bytes == 0, all_local);
        assert!(measures.max_tasks - measures.min_tasks <= 1);
    }
}

/// The task of a process that died is first in its list again.
#[test]
fn what_was_begun_goes_first() {
    let work = matrix(&[&[9, 8, 7]]);
    let mut guided = Guided::new(&work, &[ProcessId(0); 3], Settings::default()).expect("its own");
    let mut out = Vec::new();
    for event in [Event::Idle(ProcessId(0)), Event::Died(ProcessId(0)), Event::Idle(ProcessId(0))] {
        guided.on_event(0, event, &mut out).expect("it fits");
    }
    assert_eq!(out, [Action::Start(ProcessId(0), 0); 2]);
}
