//! From a look to changes: who leads instead.

use evenkeel::check::{self, Forced, Subject};
use evenkeel::lead::{self, Lead, Wish};
use evenkeel::model::{
    Batch, BatchBuilder, Client, Cluster, Details, ModelError, NameTable, Ratio, Server, ServerId,
};

use super::{Change, EngineError, Look};

/// Who leads instead, with the proof of how good that is.
#[derive(Debug)]
pub struct Planned {
    /// A request for each group that somebody leads, as its own client; its job is its pool. Servers are in the order of
    /// the look.
    pub batch: Batch,
    /// How fast the servers are.
    pub cluster: Cluster,
    /// The groups of the requests, as positions in the look.
    pub groups: Vec<usize>,
    /// When the last server is done today.
    pub today: Ratio,
    /// The choice.
    pub lead: Lead,
    /// What forces the bound.
    pub forced: Forced,
    /// No choice as good as this one changes less, in changes or in bytes.
    pub at_least: u64,
    /// What changes, in the order of the groups.
    pub changes: Vec<Change>,
}

/// A look as a batch and its cluster, and the group of each request.
///
/// Groups that are left alone are requests, too, for what their leaders have to serve, but have no other replica.
pub fn batch(look: &Look, servers: Vec<Server>) -> Result<(Batch, Cluster, Vec<usize>), ModelError> {
    let mut names = NameTable::new();
    for server in &look.servers {
        names.insert(&server.name, "server")?;
    }
    let mut builder = BatchBuilder::new();
    builder.declare_servers(names)?;
    let mut groups = Vec::new();
    for (i, group) in look.groups.iter().enumerate() {
        let Some(leader) = group.leader else { continue };
        let only = [leader];
        let may_lead = if group.eligible.is_empty() { &only[..] } else { &group.eligible };
        for &server in may_lead {
            builder.replica(look.name(server))?;
        }
        let details =
            Details { job: Some(&group.pool), current: Some(look.name(leader)), ..Details::default() };
        builder.end_request_of_bytes(&group.name, group.weight, &details)?;
        groups.push(i);
    }
    let batch = builder.finish();
    let clients = vec![Client::default(); batch.n_clients()];
    let cluster = Cluster::new(&batch, servers, clients, None)?;
    Ok((batch, cluster, groups))
}

/// The choice that meets the wish with the least cost. Servers and rates are in the order of the look; rates are empty
/// if times are not seconds.
pub fn plan(look: &Look, servers: Vec<Server>, rates: Vec<u64>, wish: &Wish) -> Result<Planned, EngineError> {
    let (batch, cluster, groups) = batch(look, servers).map_err(|error| EngineError(error.to_string()))?;
    let cluster = cluster.at_rates(rates);
    let lead = lead::fewest(&batch, &cluster, wish);
    let forced = check::bound(&batch, &cluster, &lead.bound, Subject::MaxLoad).map_err(|fault| {
        EngineError(format!("the proof does not hold: {fault}; this is a bug in evenkeel, please report it"))
    })?;
    let changes = groups.iter().zip(&lead.choice.servers);
    let changes = changes.filter_map(|(&group, &ServerId(to))| change(look, group, to)).collect();
    Ok(Planned {
        today: lead::today(&batch, &cluster),
        at_least: check::cost(&batch, &cluster, lead.target, &lead.prices, wish.cost),
        batch,
        cluster,
        groups,
        lead,
        forced,
        changes,
    })
}

/// What it means that a server leads a group, unless it does already.
fn change(look: &Look, group: usize, to: u32) -> Option<Change> {
    let group = &look.groups[group];
    let from = group.leader.filter(|&from| from != to)?;
    let name = |&server: &u32| look.name(server).to_owned();
    let others = group.members.iter().filter(|&&server| server != to);
    Some(Change {
        group: group.name.clone(),
        from: name(&from),
        to: name(&to),
        before: group.members.iter().map(name).collect(),
        after: std::iter::once(&to).chain(others).map(name).collect(),
    })
}
