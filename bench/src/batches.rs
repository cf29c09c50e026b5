//! The batches of the race.

use anyhow::{Context, Result, ensure};
use evenkeel::bound::Proof;
use evenkeel::check::{self, Subject};
use evenkeel::draw::{Draw, Seeded};
use evenkeel::model::{Batch, BatchBuilder, Cluster, Fixed, Ratio, Schedule, Server, Speed, Transfer};
use evenkeel::workload::{Clients, Law, Sizes, Workload};
use evenkeel::{order, select};
use select::Goal;

/// Uniform, with three copies, 256 clients, one block each.
pub(crate) fn uniform(n_requests: u32, n_servers: u32) -> Workload {
    Workload {
        n_requests,
        n_clients: 256,
        n_servers,
        copies: 3,
        law: Law::Uniform,
        sizes: Sizes::Fixed(1),
        clients: Clients::Drawn,
        seed: 1,
    }
}

/// The distributions of copies, with their names.
pub(crate) fn laws(n_servers: u32) -> [(&'static str, Law); 5] {
    let ratio = hot_ratio(n_servers);
    [
        ("uniform", Law::Uniform),
        ("geo", Law::Geometric { ratio, hot_spots: 1 }),
        ("zipf", Law::Zipf),
        ("hot1", Law::FirstHot { ratio }),
        ("chain2", Law::Chain),
    ]
}

/// Ten times the mean load at the first servers, however many there are.
pub(crate) fn hot_ratio(n_servers: u32) -> f64 {
    1.0 - 10.0 / f64::from(n_servers)
}

/// Servers with speeds from 1 to 10, and backlogs of up to a tenth of the mean number of requests of a server.
pub(crate) fn unequal_servers(n_requests: u32, n_servers: u32) -> Result<Vec<Server>> {
    let mut draw = Seeded::new(1);
    let server = |_| {
        let millionths = u64::from(1 + draw.below(10)) * Speed::ONE.millionths();
        let speed = Speed::from_millionths(millionths).context("no such speed")?;
        let backlog = draw.below(n_requests / n_servers / 10 + 1).into();
        Ok(Server { speed, slots: 1, backlog })
    };
    (0..n_servers).map(server).collect()
}

/// The batch's servers with such speeds and backlogs.
pub(crate) fn unequal(batch: &Batch) -> Result<Cluster> {
    let servers = unequal_servers(batch.n_requests() as u32, batch.n_servers() as u32)?;
    let clients = Cluster::equal(batch).clients().to_vec();
    Ok(Cluster::new(batch, servers, clients, None)?)
}

/// The batch's servers with speeds from 1 to 4, up to four slots, and backlogs of up to half of their mean load.
pub(crate) fn with_slots(batch: &Batch) -> Result<Cluster> {
    let mut draw = Seeded::new(1);
    let most_backlog = batch.n_requests() as u32 / batch.n_servers() as u32 / 2 + 1;
    let server = |_| {
        let millionths = u64::from(1 + draw.below(4)) * Speed::ONE.millionths();
        let speed = Speed::from_millionths(millionths).context("no such speed")?;
        Ok(Server { speed, slots: 1 + draw.below(4), backlog: draw.below(most_backlog).into() })
    };
    let servers = (0..batch.n_servers()).map(server).collect::<Result<_>>()?;
    Ok(Cluster::new(batch, servers, Cluster::equal(batch).clients().to_vec(), None)?)
}

/// "100k" for 100,000.
pub(crate) fn count(n: u32) -> String {
    match n {
        n if n.is_multiple_of(1_000_000) => format!("{}M", n / 1_000_000),
        n if n.is_multiple_of(1_000) => format!("{}k", n / 1_000),
        n => n.to_string(),
    }
}

/// The same batch with all sizes multiplied.
pub(crate) fn scaled(batch: &Batch, factor: u64) -> Result<Batch> {
    let mut scaled = BatchBuilder::new();
    scaled.declare_clients(batch.clients().clone())?;
    scaled.declare_servers(batch.servers().clone())?;
    for (i, set) in batch.replicas().iter().enumerate() {
        for server in set {
            scaled.replica(batch.servers().name(server.0))?;
        }
        scaled.end_request(batch.clients().name(batch.client(i).0), batch.blocks(i) * factor)?;
    }
    Ok(scaled.finish())
}

/// The shortest schedule that is found.
pub(crate) fn plan(batch: &Batch, cluster: &Cluster) -> Schedule {
    let (choice, _) = select::optimal::select(batch, cluster, Goal::Length);
    order::colour::order(batch, cluster, &choice)
}

/// The length of a plan, and the bound that no plan can beat.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Planned {
    pub(crate) length: Ratio,
    pub(crate) bound: Ratio,
}

impl Planned {
    /// Whether the length equals the bound, to the printed precision.
    pub(crate) fn meets_bound(&self) -> bool {
        self.length.rounded() == self.bound.rounded()
    }
}

/// Plans once, and checks the plan and its proof from scratch.
pub(crate) fn checked_plan(batch: &Batch, cluster: &Cluster) -> Result<Planned> {
    let (choice, bound) = select::optimal::select(batch, cluster, Goal::Length);
    let Schedule { transfers, length } = order::colour::order(batch, cluster, &choice);
    check::bound(batch, cluster, &bound, Subject::Length)?;
    let measures = check::plan(batch, cluster, &transfers, true)?;
    // Starts are rounded if speeds differ.
    let rounded_off = (measures.length.to_f64() - length.to_f64()).abs();
    ensure!(rounded_off < 1e-6, "length {}, said to be {length}", measures.length);
    ensure!(length >= bound.value, "length {length}, bound {}", bound.value);
    Ok(Planned { length, bound: bound.value })
}

/// The length of the checked plan, which must be proved shortest.
pub(crate) fn checked_length(batch: &Batch, cluster: &Cluster) -> Result<u64> {
    let planned = checked_plan(batch, cluster)?;
    ensure!(planned.meets_bound(), "length {}, bound {}", planned.length, planned.bound);
    whole(planned.length)
}

/// What is proved about the least maximum load.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Optimum {
    pub(crate) load: Ratio,
    /// The servers of the proof.
    pub(crate) n_servers: usize,
}

/// Selects once, and checks the choice and its proof from scratch.
pub(crate) fn checked_optimum(batch: &Batch, cluster: &Cluster) -> Result<Optimum> {
    let (choice, bound) = select::optimal::select(batch, cluster, Goal::MaxLoad);
    check::bound(batch, cluster, &bound, Subject::MaxLoad)?;
    let parts = choice.parts(batch);
    let rows: Vec<Transfer> = parts
        .map(|p| Transfer {
            request: p.request,
            server: p.server,
            start: Fixed::ZERO,
            blocks: p.blocks.into(),
        })
        .collect();
    let measures = check::plan(batch, cluster, &rows, false)?;
    ensure!(measures.max_load == bound.value, "load {}, bound {}", measures.max_load, bound.value);
    let n_servers = match bound.proof {
        Proof::Servers(servers) => servers.len(),
        Proof::Client { .. } | Proof::Concurrency => 0,
    };
    Ok(Optimum { load: bound.value, n_servers })
}

/// The number as an integer. It must be whole, as all are on equal servers.
pub(crate) fn whole(number: Ratio) -> Result<u64> {
    number.rounded().whole().with_context(|| format!("{number} is not whole"))
}
