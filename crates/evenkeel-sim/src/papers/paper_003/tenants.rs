//! §5.1.4: two tenants read at the same time. Without Opass, each reads from random copies.

use std::ops::Range;

use evenkeel::assign::{Assignment, ProcessId, Work, WorkBuilder};
use evenkeel::model::{BatchBuilder, Client, Cluster, ModelError, NameTable, Server, ServerId};
use evenkeel::policy::{Ask, Kind};

use super::{CHUNK, ENOUGH, Found, MARMOT, OTHERS, Setup, estimate, n_runs, settle, text};
use crate::outcome::{Estimate, Outcome};
use crate::papers::{Claim, Figure, Lab, Line, Section, Stated, Variation};
use crate::tasks::Tasks;

const N_TENANTS: u32 = 2;
const CHUNKS_EACH: u32 = 16;
const SIZES: [u32; 2] = [16, 32];

/// What Opass decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extent {
    /// Which copies are read, as in §4.5.
    Copies,
    /// Also which process reads what, as in §4.2.
    Readers,
}

/// Improvement of a run with Opass: mean bandwidth, bandwidth of the slowest process, and mean read time.
#[derive(Clone, Copy, Debug)]
struct Gains {
    mean: f64,
    least: f64,
    read: f64,
}

/// Bandwidths of the processes, in MB/s.
fn bandwidths(outcome: &Outcome) -> Vec<f64> {
    let bytes = f64::from(CHUNKS_EACH) * CHUNK as f64;
    outcome.done_ns_of_clients.iter().map(|&ns| 1e3 * bytes / ns as f64).collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn least(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::INFINITY, f64::min)
}

impl Gains {
    fn of(base: &Outcome, opass: &Outcome) -> Self {
        let (before, after) = (bandwidths(base), bandwidths(opass));
        Self {
            mean: mean(&after) / mean(&before),
            least: least(&after) / least(&before),
            read: base.mean_response_ns() / opass.mean_response_ns(),
        }
    }
}

/// Gains of Opass on `n_nodes` nodes, run by run.
fn gains(lab: &Lab, setup: &Setup, n_nodes: u32, extent: Extent) -> Vec<Gains> {
    let n_processes = N_TENANTS * n_nodes;
    let tasks = Tasks { processes: Some(n_processes), tasks_per_process: CHUNKS_EACH, ..setup.tasks() };
    let hardware = setup.hardware(n_nodes, n_processes);
    let gain = |seed| {
        let base = tasks.run(&lab.case(&hardware, "rank", seed)).ok()?;
        let work = tasks.work(&hardware, seed).ok()?;
        let assignment = assign(lab, &work, n_nodes, extent)?;
        Some(Gains::of(&base, &tasks.carry_out(&hardware, &work, assignment, seed)))
    };
    lab.repeat(n_runs(lab, setup), gain).into_iter().flatten().collect()
}

/// Which process reads which chunk, and from where, tenant by tenant.
fn assign(lab: &Lab, work: &Work, n_nodes: u32, extent: Extent) -> Option<Assignment> {
    let n_each = work.n_tasks() / N_TENANTS as usize;
    let mut backlogs = vec![0; work.n_servers()];
    let mut all = Assignment { processes: Vec::new(), sources: Vec::new(), bound_local_bytes: 0 };
    for tenant in 0..N_TENANTS {
        let chunks = tenant as usize * n_each..(tenant as usize + 1) * n_each;
        let own = own_work(work, chunks, n_nodes)?;
        let policy = match extent {
            Extent::Copies => "rank",
            Extent::Readers => "opass-single",
        };
        let Kind::Assign(assign) = lab.policy(policy).kind else { return None };
        let Assignment { processes, sources, .. } = assign(&own).ok()?;
        let sources = match extent {
            Extent::Copies => copies(lab, &own, &processes, &backlogs)?,
            Extent::Readers => sources,
        };
        sources.iter().for_each(|server| backlogs[server.index()] += 1);
        all.processes.extend(processes.iter().map(|process| ProcessId(process.0 + tenant * n_nodes)));
        all.sources.extend(sources);
    }
    Some(all)
}

/// The reads of one tenant, with a process on each node.
fn own_work(work: &Work, chunks: Range<usize>, n_nodes: u32) -> Option<Work> {
    let mut own = WorkBuilder::new();
    for chunk in chunks {
        own.input(work.bytes(chunk), work.replicas().of(chunk)).ok()?;
        own.end_task();
    }
    own.finish(work.n_servers(), (0..n_nodes).map(|node| Some(ServerId(node))).collect()).ok()
}

/// The copies that `opass-tenant` chooses, given the backlogs of the servers.
fn copies(lab: &Lab, work: &Work, readers: &[ProcessId], backlogs: &[u64]) -> Option<Vec<ServerId>> {
    let Kind::Select(select) = lab.policy("opass-tenant").kind else { return None };
    let hosts: Vec<String> = (0..work.n_servers()).map(|host| host.to_string()).collect();
    let mut batch = BatchBuilder::new();
    batch.declare_servers(names(&hosts).ok()?).ok()?;
    batch.declare_clients(names(&hosts).ok()?).ok()?;
    for (chunk, reader) in readers.iter().enumerate() {
        for server in work.replicas().of(chunk) {
            batch.replica(&hosts[server.index()]).ok()?;
        }
        batch.end_request(&hosts[reader.index()], 1).ok()?;
    }
    let batch = batch.finish();
    let servers = backlogs.iter().map(|&backlog| Server { backlog, ..Server::default() }).collect();
    let cluster = Cluster::new(&batch, servers, vec![Client::default(); hosts.len()], None).ok()?;
    let at = || hosts.iter().map(String::as_str);
    let (choice, _) = select(&batch, &cluster.on_hosts(at(), at()), &Ask::default());
    Some(choice.parts(&batch).map(|part| part.server).collect())
}

fn names(names: &[String]) -> Result<NameTable, ModelError> {
    let mut table = NameTable::new();
    names.iter().try_for_each(|name| table.insert(name, "node"))?;
    Ok(table)
}

/// The text gives no bandwidths of tenants. On 16 nodes, their 32 GiB fit into memory, copies included.
const MEMORY: Setup = Setup {
    what: "chunks are in memory, read at 1 GB/s",
    local_s: CHUNK as f64 / 1e9,
    slots: 64,
    seek_ns: 0,
    ..MARMOT
};

/// Setups in which Opass also decides which process reads what.
const READERS: [Setup; 5] = [
    Setup { what: "Opass also decides who reads what (§4.2)", ..MARMOT },
    Setup { what: "the same, and the disk turns after each half MiB", ..OTHERS[3] },
    Setup { what: "the same, and the network gives 40 MB/s", ..OTHERS[5] },
    Setup { what: "the same, and both", ..OTHERS[6] },
    Setup { what: "the same, and chunks are in memory", ..MEMORY },
];

/// The gains on 16 and on 32 nodes.
type OfSizes = [Vec<Gains>; 2];

pub(super) fn run(lab: &Lab) -> Section {
    let of = |setup: &Setup, extent| SIZES.map(|n_nodes| gains(lab, setup, n_nodes, extent));
    let base = of(&MARMOT, Extent::Copies);
    let mut varied: Vec<(&str, OfSizes)> =
        OTHERS.iter().chain([&MEMORY]).map(|setup| (setup.what, of(setup, Extent::Copies))).collect();
    varied.extend(READERS.iter().map(|setup| (setup.what, of(setup, Extent::Readers))));
    Section {
        claims: vec![average(&base, &varied), slowest(&base, &varied), read(&base, &varied)],
        figures: vec![figure(&base, &varied)],
    }
}

fn gain(runs: &[Gains], of: fn(&Gains) -> f64) -> Estimate {
    estimate(runs.iter().map(of))
}

/// Compares the gains on both sizes with the stated ones.
fn both(sizes: &OfSizes, of: fn(&Gains) -> f64, stated: [f64; 2]) -> Found {
    let [small, large] = [&sizes[0], &sizes[1]].map(|runs| gain(runs, of));
    let holds = small.mean >= ENOUGH * stated[0] && large.mean >= ENOUGH * stated[1];
    (format!("{} times on 16 nodes, {} on 32", text(small, 2), text(large, 2)), holds)
}

fn vary(varied: &[(&str, OfSizes)], found: impl Fn(&OfSizes) -> Found) -> Vec<Variation> {
    varied.iter().map(|(what, sizes)| super::variation(*what, found(sizes))).collect()
}

fn average(base: &OfSizes, varied: &[(&str, OfSizes)]) -> Claim {
    let found = |sizes: &OfSizes| both(sizes, |gains| gains.mean, [3.0, 4.0]);
    let (measured, holds) = found(base);
    let variations = vary(varied, found);
    Claim {
        id: "003-13a",
        section: "§5.1.4",
        says: "With Opass the mean bandwidth of two tenants is 3 times as high on 16 nodes and 4 times on 32.",
        rule: "At least three quarters of both; with conditions: under one of the variations.",
        measured,
        verdict: settle(holds, &variations),
        why: "Every disk has two readers on average, whichever copies they choose, and some local reads are given up. With local \
              readers too it is 1.4 times; more takes reads that are much slower from elsewhere than at home: a slow network, \
              or chunks in memory",
        figure: Some("003-fig13"),
        variations,
    }
}

fn slowest(base: &OfSizes, varied: &[(&str, OfSizes)]) -> Claim {
    let found = |sizes: &OfSizes| both(sizes, |gains| gains.least, [2.4, 4.5]);
    let (measured, holds) = found(base);
    let variations = vary(varied, found);
    Claim {
        id: "003-13b",
        section: "§5.1.4",
        says: "With Opass the slowest process has 2.4 times the bandwidth on 16 nodes and 4.5 times on 32.",
        rule: "At least three quarters of both; with conditions: under one of the variations.",
        measured,
        verdict: settle(holds, &variations),
        why: "The slowest process gains more from local readers than the average, 1.6 times; the rest is again up to how slow \
              reads from elsewhere are",
        figure: Some("003-fig13"),
        variations,
    }
}

fn read(base: &OfSizes, varied: &[(&str, OfSizes)]) -> Claim {
    let found = |sizes: &OfSizes| {
        let factor = gain(&sizes[1], |gains| gains.read);
        (format!("{} times", text(factor, 2)), factor.mean >= ENOUGH * 4.5)
    };
    let (measured, holds) = found(base);
    let variations = vary(varied, found);
    Claim {
        id: "003-15",
        section: "§5.1.4",
        says: "On 32 nodes a read of a tenant with Opass takes a 4.5th of the time on average.",
        rule: "Without it takes at least 3.38 times as long; with conditions: under one of the variations.",
        measured,
        verdict: settle(holds, &variations),
        why: "With two processes on each node every disk has two readers with Opass as well; only where local reads are not bound \
              by the disk it is so much",
        figure: Some("003-fig13"),
        variations,
    }
}

fn figure(base: &OfSizes, varied: &[(&str, OfSizes)]) -> Figure {
    let line = |name: &str, sizes: &OfSizes, of: fn(&Gains) -> f64| {
        let points = SIZES.iter().zip(sizes).map(|(&n, runs)| (f64::from(n), gain(runs, of)));
        Line { name: name.to_owned(), points: points.collect() }
    };
    let mut lines = vec![
        line("mean bandwidth", base, |gains| gains.mean),
        line("slowest process", base, |gains| gains.least),
    ];
    for (what, sizes) in varied.iter().skip(OTHERS.len() + 1) {
        lines.push(line(&format!("mean bandwidth; {what}"), sizes, |gains| gains.mean));
    }
    let stated = |label: &str, x: f64, y: f64| Stated { label: label.to_owned(), x: Some(x), y };
    Figure {
        id: "003-fig13",
        title: "Figs. 13 to 15: what Opass gains with two tenants".to_owned(),
        x: "nodes",
        y: "with Opass ÷ without",
        is_log_x: false,
        lines,
        stated: vec![
            stated("mean bandwidth", 16.0, 3.0),
            stated("mean bandwidth", 32.0, 4.0),
            stated("slowest process", 16.0, 2.4),
            stated("slowest process", 32.0, 4.5),
        ],
    }
}
