//! Re-verifies plans and proofs from scratch.
//!
//! Nothing here is shared with the solvers: requests are recounted, transfers sorted and compared, proofs added
//! up anew from the batch alone. It is meant to be read in one go and believed.

use crate::bound::{Bound, Proof};
use crate::model::{Batch, Transfer};

/// What is wrong with a plan. Rows are counted from 0, as given.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum Fault {
    #[error("row {row} is of request {request}, but the batch has only {n_requests} requests")]
    NoSuchRequest { row: usize, request: u32, n_requests: usize },
    #[error(
        "row {row}: request {request} is served by server number {server}, which the batch does not have"
    )]
    NoSuchServer { row: usize, request: u32, server: u32 },
    #[error("row {row}: request {request} is served by `{server}`, which holds no replica of it")]
    NotAReplica { row: usize, request: u32, server: String },
    #[error("row {row}: request {request} has a transfer of nothing")]
    EmptyTransfer { row: usize, request: u32 },
    #[error("row {row}: request {request} has a start in a plan without an order")]
    StartWithoutOrder { row: usize, request: u32 },
    #[error("row {row}: the transfer of request {request} ends beyond 64 bits")]
    EndsTooLate { row: usize, request: u32 },
    #[error("request {request} has {wanted} blocks, and {served} are served")]
    WrongAmount { request: u32, wanted: u64, served: u128 },
    #[error("request {request} is not served at all")]
    NotServed { request: u32 },
    #[error("{who} has two transfers in slot {slot}: rows {rows:?}")]
    Overlap { who: String, slot: u64, rows: [usize; 2] },
    #[error("the proof names a server or client that the batch does not have")]
    UnknownInProof,
    #[error("the proof names a server twice")]
    ServerTwiceInProof,
    #[error("the proof of {claimed} proves only {proved}")]
    WeakProof { claimed: u64, proved: u64 },
    #[error("a client proves nothing about the load of servers")]
    ClientProvesNoLoad,
}

/// What a valid plan amounts to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measures {
    /// The slot after the last one used.
    pub length: u64,
    /// The largest number of blocks that one server serves.
    pub max_load: u64,
}

/// Checks that every request is fully served, by its replicas only; with `ordered` also that no client and no
/// server has two transfers at once.
pub fn plan(batch: &Batch, rows: &[Transfer], ordered: bool) -> Result<Measures, Fault> {
    let mut served = vec![0_u128; batch.n_requests()];
    let mut named = vec![false; batch.n_requests()];
    let mut loads = vec![0_u64; batch.n_servers()];
    let mut length = 0;
    for (row, transfer) in rows.iter().enumerate() {
        let Transfer { request, server, start, blocks } = *transfer;
        let i = request as usize;
        if i >= batch.n_requests() {
            return Err(Fault::NoSuchRequest { row, request, n_requests: batch.n_requests() });
        }
        if server.index() >= batch.n_servers() {
            return Err(Fault::NoSuchServer { row, request, server: server.0 });
        }
        if !batch.replicas().of(i).contains(&server) {
            let server = batch.servers().name(server.0).to_owned();
            return Err(Fault::NotAReplica { row, request, server });
        }
        if blocks == 0 && (batch.blocks(i) > 0 || start > 0 || named[i]) {
            return Err(Fault::EmptyTransfer { row, request });
        }
        if !ordered && start > 0 {
            return Err(Fault::StartWithoutOrder { row, request });
        }
        let end = start.checked_add(blocks).ok_or(Fault::EndsTooLate { row, request })?;
        length = end.max(length);
        served[i] += u128::from(blocks);
        named[i] = true;
        // A wrong sum is reported below; here it must only not overflow.
        let load = &mut loads[server.index()];
        *load = load.saturating_add(blocks);
    }
    for (request, (&served, &named)) in (0..).zip(served.iter().zip(&named)) {
        let wanted = batch.blocks(request as usize);
        if !named {
            return Err(Fault::NotServed { request });
        }
        if served != u128::from(wanted) {
            return Err(Fault::WrongAmount { request, wanted, served });
        }
    }
    if ordered {
        one_at_a_time(batch, rows)?;
    } else {
        length = 0;
    }
    Ok(Measures { length, max_load: loads.into_iter().max().unwrap_or(0) })
}

fn one_at_a_time(batch: &Batch, rows: &[Transfer]) -> Result<(), Fault> {
    let busy = || (0..).zip(rows).filter(|(_, t)| t.blocks > 0);
    let client = |t: &Transfer| batch.client(t.request as usize).0;
    let mut runs: Vec<(u32, u64, u64, usize)> =
        busy().map(|(row, t)| (client(t), t.start, t.start + t.blocks, row)).collect();
    disjoint(&mut runs, |id| format!("client `{}`", batch.clients().name(id)))?;
    runs.clear();
    runs.extend(busy().map(|(row, t)| (t.server.0, t.start, t.start + t.blocks, row)));
    disjoint(&mut runs, |id| format!("server `{}`", batch.servers().name(id)))
}

fn disjoint(runs: &mut [(u32, u64, u64, usize)], name: impl Fn(u32) -> String) -> Result<(), Fault> {
    runs.sort_unstable();
    for pair in runs.windows(2) {
        let ((a, _, a_end, a_row), (b, b_start, _, b_row)) = (pair[0], pair[1]);
        if a == b && b_start < a_end {
            return Err(Fault::Overlap { who: name(a), slot: b_start, rows: [a_row, b_row] });
        }
    }
    Ok(())
}

/// What a bound speaks about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The length of any schedule.
    Length,
    /// The largest load of a server under any choice.
    MaxLoad,
}

/// The requests that a proof rests on, and what they prove.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forced {
    /// How many requests.
    pub requests: u64,
    /// How many blocks they have together.
    pub blocks: u64,
    /// The bound that follows.
    pub proved: u64,
}

/// Checks that the proof proves the bound, by adding up what it forces.
pub fn bound(batch: &Batch, bound: &Bound, subject: Subject) -> Result<Forced, Fault> {
    let forced = match &bound.proof {
        Proof::Client(_) if subject == Subject::MaxLoad => return Err(Fault::ClientProvesNoLoad),
        Proof::Client(client) => {
            if client.index() >= batch.n_clients() {
                return Err(Fault::UnknownInProof);
            }
            forced_by(batch, 1, |i| batch.client(i) == *client)
        }
        Proof::Servers(servers) => {
            let mut inside = vec![false; batch.n_servers()];
            for server in servers {
                let inside = inside.get_mut(server.index()).ok_or(Fault::UnknownInProof)?;
                if std::mem::replace(inside, true) {
                    return Err(Fault::ServerTwiceInProof);
                }
            }
            forced_by(batch, servers.len() as u64, |i| {
                batch.replicas().of(i).iter().all(|server| inside[server.index()])
            })
        }
    };
    if forced.proved < bound.value {
        return Err(Fault::WeakProof { claimed: bound.value, proved: forced.proved });
    }
    Ok(forced)
}

/// Adds up the requests that `n_nodes` nodes have to share.
fn forced_by(batch: &Batch, n_nodes: u64, is_forced: impl Fn(usize) -> bool) -> Forced {
    let (mut requests, mut blocks) = (0, 0);
    for i in (0..batch.n_requests()).filter(|&i| is_forced(i)) {
        requests += 1;
        blocks += batch.blocks(i);
    }
    Forced { requests, blocks, proved: blocks.div_ceil(n_nodes.max(1)) }
}
