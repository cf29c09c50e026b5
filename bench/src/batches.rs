//! The batches that are raced.

use anyhow::{Result, ensure};
use evenkeel::check::{self, Subject};
use evenkeel::model::{Batch, BatchBuilder, Schedule, Transfer};
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

/// The shortest schedule.
pub(crate) fn plan(batch: &Batch) -> Schedule {
    let (choice, _) = select::optimal::select(batch, Goal::Length);
    order::colour::order(batch, &choice)
}

/// Plans once, checks the plan from scratch, and gives its length.
pub(crate) fn checked_length(batch: &Batch) -> Result<u64> {
    let (choice, bound) = select::optimal::select(batch, Goal::Length);
    let schedule = order::colour::order(batch, &choice);
    check::bound(batch, &bound, Subject::Length)?;
    let measures = check::plan(batch, &schedule.transfers, true)?;
    ensure!(measures.length == bound.value, "length {}, bound {}", measures.length, bound.value);
    Ok(bound.value)
}

/// What is proved about the least maximum load.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Optimum {
    pub(crate) load: u64,
    /// The servers of the proof.
    pub(crate) n_servers: usize,
}

/// Selects once, and checks choice and proof from scratch.
pub(crate) fn checked_optimum(batch: &Batch) -> Result<Optimum> {
    let (choice, bound) = select::optimal::select(batch, Goal::MaxLoad);
    check::bound(batch, &bound, Subject::MaxLoad)?;
    let parts = choice.parts(batch);
    let rows: Vec<Transfer> = parts
        .map(|p| Transfer { request: p.request, server: p.server, start: 0, blocks: p.blocks })
        .collect();
    let measures = check::plan(batch, &rows, false)?;
    ensure!(measures.max_load == bound.value, "load {}, bound {}", measures.max_load, bound.value);
    let n_servers = match bound.proof {
        evenkeel::bound::Proof::Servers(servers) => servers.len(),
        evenkeel::bound::Proof::Client(_) => 0,
    };
    Ok(Optimum { load: bound.value, n_servers })
}
