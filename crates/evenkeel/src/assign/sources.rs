//! From which server each input is read: the process's own, if it holds the input, otherwise one that has little to
//! serve.
//!
//! Paper 003 §3.2 reads what is not local from a replica drawn at random ([`drawn`]), which causes the imbalance that
//! it finds. [`balanced`] is instead the balancer of its §4.5, with the local reads as backlog. It is exact for inputs
//! of one size. Otherwise it takes the largest first, each from the server that serves the least.
//!
//! Beside the work of other tenants, servers have backlogs from the start, and some may be slower than others. The
//! threshold of §4.5 is the largest input: if servers would be done at times that differ by more than the fastest takes for
//! it, inputs that are local are read elsewhere, too, where that lowers the time of the last. [`eased`] moves as few as that
//! takes; it is used if the last is done as early as where all inputs may move. Where servers are not equally fast, it is used
//! unless that lowers the time by more than the threshold.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::{ProcessId, Work};
use crate::draw::Draw;
use crate::graph::flow::level::{Aim, Items, Placed, level};
use crate::graph::flow::pace::{Level, Paces};
use crate::model::{Replicas, Server, ServerId, Speed};

/// The most passes over all remote inputs in which an input may still change its server.
const MOST_SWEEPS: usize = 4;

/// Where processes read the inputs of their tasks so that no server has to serve much more than others.
pub fn balanced(work: &Work, processes: &[ProcessId]) -> Vec<ServerId> {
    let (sources, remote) = local(work, processes);
    let near = spread(work, sources, remote);
    if work.has_equal_servers() {
        return near;
    }
    let (least, most) = Loads::of(work, &near).extremes();
    let largest = (0..work.n_inputs()).map(|input| work.bytes(input)).max().unwrap_or(0).into();
    if most - least <= largest {
        return near;
    }
    let eased = eased(work, processes, near.clone());
    let even = spread(work, near.clone(), (0..work.n_inputs()).collect());
    let [most_eased, most_even] = [&eased, &even].map(|sources| Loads::of(work, sources).extremes().1);
    let borne = if work.has_equal_speeds() { 0 } else { largest };
    match most_eased.min(most_even) {
        best if best >= most => near,
        best if most_eased <= best + borne => eased,
        _ => even,
    }
}

/// What servers have to serve, to others as well, and how long it takes them.
struct Loads<'a> {
    work: &'a Work,
    bytes: Vec<u64>,
}

impl<'a> Loads<'a> {
    fn new(work: &'a Work) -> Self {
        Self { work, bytes: work.backlogs().map_or_else(|| vec![0; work.n_servers()], <[u64]>::to_vec) }
    }

    fn of(work: &'a Work, sources: &[ServerId]) -> Self {
        let mut loads = Self::new(work);
        sources.iter().enumerate().for_each(|(input, server)| loads.add(input, *server));
        loads
    }

    fn add(&mut self, input: usize, server: ServerId) {
        self.bytes[server.index()] += self.work.bytes(input);
    }

    fn remove(&mut self, input: usize, server: ServerId) {
        self.bytes[server.index()] -= self.work.bytes(input);
    }

    /// When a server is done with all it has and so many bytes more. The fastest takes 1 for a byte.
    fn done_with(&self, server: ServerId, more: u64) -> u128 {
        let bytes = u128::from(self.bytes[server.index()]) + u128::from(more);
        bytes * u128::from(Speed::ONE.millionths()) / u128::from(self.work.speed(server).millionths())
    }

    /// When each server is done.
    fn done(&self) -> impl Iterator<Item = (u128, ServerId)> {
        (0..self.bytes.len() as u32).map(|id| (self.done_with(ServerId(id), 0), ServerId(id)))
    }

    /// When the first and the last server are done.
    fn extremes(&self) -> (u128, u128) {
        let times = || self.done().map(|(time, _)| time);
        (times().min().unwrap_or(0), times().max().unwrap_or(0))
    }

    /// The server that would be the first to be done with an input.
    fn first(&self, input: usize) -> ServerId {
        let (set, bytes) = (self.work.replicas().of(input).iter().copied(), self.work.bytes(input));
        set.min_by_key(|server| (self.done_with(*server, bytes), *server)).unwrap_or_default()
    }
}

/// Moves inputs from the server that is done last, one after the other, to where they are done earlier, until that helps no
/// more. Those that are not local anyway move first.
fn eased(work: &Work, processes: &[ProcessId], mut sources: Vec<ServerId>) -> Vec<ServerId> {
    let mut loads = Loads::of(work, &sources);
    let mut inputs_of = vec![Vec::new(); work.n_servers()];
    for (task, &process) in processes.iter().enumerate() {
        for input in work.inputs(task) {
            let is_remote = work.home(process) != Some(sources[input]);
            inputs_of[sources[input].index()].push((is_remote, Reverse(input)));
        }
    }
    inputs_of.iter_mut().for_each(|inputs| inputs.sort_unstable());
    let mut last: BinaryHeap<(u128, ServerId)> = loads.done().collect();
    while let Some((done, from)) = last.pop() {
        if done != loads.done_with(from, 0) {
            // It has got more to do since.
            last.push((loads.done_with(from, 0), from));
            continue;
        }
        let Some((_, Reverse(input))) = inputs_of[from.index()].pop() else { break };
        loads.remove(input, from);
        let to = loads.first(input);
        // Others only get more to do: an input that does not move now never will.
        let to = if loads.done_with(to, work.bytes(input)) < done { to } else { from };
        loads.add(input, to);
        sources[input] = to;
        last.push((loads.done_with(from, 0), from));
    }
    sources
}

/// Reads some inputs, `remote`, so that no server has to serve much more than others, given where the others are read.
fn spread(work: &Work, mut sources: Vec<ServerId>, mut remote: Vec<usize>) -> Vec<ServerId> {
    if remote.is_empty() {
        return sources;
    }
    let mut loads = Loads::new(work);
    let mut is_remote = vec![false; sources.len()];
    remote.iter().for_each(|&input| is_remote[input] = true);
    for (input, source) in sources.iter().enumerate().filter(|(input, _)| !is_remote[*input]) {
        loads.add(input, *source);
    }
    if let Some(size) = work.common_size().filter(|&size| size > 0) {
        let server = |(bytes, id): (&u64, u32)| Server {
            speed: work.speed(ServerId(id)),
            backlog: bytes.div_ceil(size),
            ..Server::default()
        };
        let placed = level_remote(work, &remote, loads.bytes.iter().zip(0..).map(server));
        remote.iter().zip(placed).for_each(|(&input, server)| sources[input] = server);
        return sources;
    }
    remote.sort_by_key(|&input| Reverse(work.bytes(input)));
    for &input in &remote {
        sources[input] = loads.first(input);
        loads.add(input, sources[input]);
    }
    for _ in 0..MOST_SWEEPS {
        let mut is_changed = false;
        for &input in &remote {
            let (bytes, now) = (work.bytes(input), sources[input]);
            loads.remove(input, now);
            let to = loads.first(input);
            let to = if loads.done_with(to, bytes) < loads.done_with(now, bytes) { to } else { now };
            loads.add(input, to);
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

/// Servers for inputs of one size, given how many of them each server serves already. Minimises the time of the last.
fn level_remote(work: &Work, remote: &[usize], servers: impl Iterator<Item = Server>) -> Vec<ServerId> {
    let mut ids: Vec<ServerId> = Vec::new();
    let mut ends = Vec::with_capacity(remote.len());
    for &input in remote {
        ids.extend_from_slice(work.replicas().of(input));
        ends.push(ids.len() as u32);
    }
    let replicas = Replicas::new(&ids, &ends, None);
    let paces = Paces::of_servers(servers);
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
