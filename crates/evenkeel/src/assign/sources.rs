//! From which server each input is read: the process's own, if it holds the input, otherwise one that has little to
//! serve.
//!
//! Paper 003 §3.2 reads what is not local from a replica drawn at random ([`drawn`]), which causes the imbalance that
//! it finds. [`balanced`] is instead the balancer of its §4.5, with the local reads as backlog. It is exact for inputs
//! of one size. Otherwise it takes the largest first, each from the server that serves the least.
//!
//! Beside the work of other tenants, servers have backlogs from the start. The threshold of §4.5 is the largest input: if
//! servers would differ by more than that, inputs that are local are read elsewhere, too, where that lowers the most that
//! a server has to serve.

use super::{ProcessId, Work};
use crate::draw::Draw;
use crate::graph::flow::level::{Aim, Items, Placed, level};
use crate::graph::flow::pace::{Level, Paces};
use crate::model::{Replicas, ServerId};

/// The most passes over all remote inputs in which an input may still change its server.
const MOST_SWEEPS: usize = 4;

/// Where processes read the inputs of their tasks so that no server has to serve much more than others.
pub fn balanced(work: &Work, processes: &[ProcessId]) -> Vec<ServerId> {
    let (sources, remote) = local(work, processes);
    let near = spread(work, sources, remote);
    let Some(backlogs) = work.backlogs() else { return near };
    let extremes = |sources: &[ServerId]| {
        let mut loads = backlogs.to_vec();
        sources.iter().enumerate().for_each(|(input, server)| loads[server.index()] += work.bytes(input));
        (loads.iter().copied().min().unwrap_or(0), loads.into_iter().max().unwrap_or(0))
    };
    let (least, most) = extremes(&near);
    let largest = (0..work.n_inputs()).map(|input| work.bytes(input)).max().unwrap_or(0);
    if most - least <= largest {
        return near;
    }
    let even = spread(work, near.clone(), (0..work.n_inputs()).collect());
    if extremes(&even).1 < most { even } else { near }
}

/// Reads some inputs, `remote`, so that no server has to serve much more than others, given where the others are read.
fn spread(work: &Work, mut sources: Vec<ServerId>, mut remote: Vec<usize>) -> Vec<ServerId> {
    if remote.is_empty() {
        return sources;
    }
    let mut served = work.backlogs().map_or_else(|| vec![0; work.n_servers()], <[u64]>::to_vec);
    let mut is_remote = vec![false; sources.len()];
    remote.iter().for_each(|&input| is_remote[input] = true);
    for (input, source) in sources.iter().enumerate().filter(|(input, _)| !is_remote[*input]) {
        served[source.index()] += work.bytes(input);
    }
    if let Some(size) = work.common_size().filter(|&size| size > 0) {
        let placed = level_remote(work, &remote, served.iter().map(|bytes| bytes.div_ceil(size)));
        remote.iter().zip(placed).for_each(|(&input, server)| sources[input] = server);
        return sources;
    }
    remote.sort_by_key(|&input| std::cmp::Reverse(work.bytes(input)));
    let least = |served: &[u64], input: usize| {
        let set = work.replicas().of(input).iter().copied();
        set.min_by_key(|server| (served[server.index()], *server)).unwrap_or_default()
    };
    for &input in &remote {
        sources[input] = least(&served, input);
        served[sources[input].index()] += work.bytes(input);
    }
    for _ in 0..MOST_SWEEPS {
        let mut is_changed = false;
        for &input in &remote {
            let (bytes, now) = (work.bytes(input), sources[input]);
            served[now.index()] -= bytes;
            let to = least(&served, input);
            let to = if served[to.index()] < served[now.index()] { to } else { now };
            served[to.index()] += bytes;
            is_changed |= to != now;
            sources[input] = to;
        }
        if !is_changed {
            break;
        }
    }
    sources
}

/// Where HDFS reads: what is not local comes from a replica drawn at random.
pub fn drawn(work: &Work, processes: &[ProcessId], draw: &mut dyn Draw) -> Vec<ServerId> {
    let (mut sources, remote) = local(work, processes);
    for input in remote {
        let set = work.replicas().of(input);
        sources[input] = set[draw.below(set.len() as u32) as usize];
    }
    sources
}

/// The source of each input that is local, and the inputs that are not.
fn local(work: &Work, processes: &[ProcessId]) -> (Vec<ServerId>, Vec<usize>) {
    let mut sources = vec![ServerId(0); work.n_inputs()];
    let mut remote = Vec::new();
    for (task, &process) in processes.iter().enumerate() {
        let home = work.home(process);
        for input in work.inputs(task) {
            match home.filter(|home| work.replicas().of(input).contains(home)) {
                Some(home) => sources[input] = home,
                None => remote.push(input),
            }
        }
    }
    (sources, remote)
}

/// Servers for inputs of one size, given how many of them each server serves already. Minimises the most at a server.
fn level_remote(work: &Work, remote: &[usize], served: impl Iterator<Item = u64>) -> Vec<ServerId> {
    let mut ids: Vec<ServerId> = Vec::new();
    let mut ends = Vec::with_capacity(remote.len());
    for &input in remote {
        ids.extend_from_slice(work.replicas().of(input));
        ends.push(ids.len() as u32);
    }
    let replicas = Replicas::new(&ids, &ends, None);
    let paces = Paces::with_backlogs(served);
    let items = Items { replicas, sizes: None, total: remote.len() as u64, paces: &paces };
    match level(items, Aim::MaxDownTo(Level::ZERO)).placed {
        Placed::Whole(servers) => servers,
        // Merged sets are divided again into whole inputs: each is in one place.
        Placed::Divided(shares) => {
            let at = |(i, set): (usize, &[ServerId])| {
                let shares = &shares[replicas.start(i)..];
                set.iter().zip(shares).find(|(_, share)| **share > 0).map_or(set[0], |(server, _)| *server)
            };
            replicas.iter().enumerate().map(at).collect()
        }
    }
}
