//! The servers, clients and network of a scenario as written, and the hardware of each repetition.

use std::collections::BTreeMap;

use evenkeel::draw::{Draw, Seeded};
use evenkeel::model::{self, ClientId, MAX_SLOTS, ServerId};
use evenkeel::policy::{self, Kind, Live};
use evenkeel::queue::{Discipline, Options, Queue};
use serde::Deserialize;

use super::document::{Places, ScenarioError, not_known};
use crate::chance::{sample, sub_seed};
use crate::hardware::{self, Hardware, Nic, Stalls};
use crate::units::{Bytes, PerSecond, Span};

/// Settings of all servers.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Servers {
    pub(super) count: Option<u32>,
    /// A servers file that comes with a batch.
    pub(super) file: Option<String>,
    latency: Span,
    bandwidth: PerSecond,
    slots: u32,
    speed: f64,
    queue: String,
}

impl Default for Servers {
    fn default() -> Self {
        Self {
            count: None,
            file: None,
            latency: Span(0),
            bandwidth: PerSecond(0.1),
            slots: 1,
            speed: 1.0,
            queue: "nio".to_owned(),
        }
    }
}

/// Settings of a single server.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Different {
    latency: Option<Span>,
    bandwidth: Option<PerSecond>,
    slots: Option<u32>,
    speed: Option<f64>,
}

/// Selects servers.
#[derive(Clone, Debug, Deserialize)]
#[serde(
    untagged,
    expecting = "write servers as a number, a share such as \"10%\", or names such as [\"s3\", \"s4\"]"
)]
enum Who {
    Number(u32),
    Share(String),
    Names(Vec<String>),
}

/// Servers that are slower for a while.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Slow {
    servers: Who,
    factor: f64,
    #[serde(default)]
    from: Span,
    until: Option<Span>,
    every: Option<Span>,
    lasts: Option<Span>,
}

/// Servers that are down for a while.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Down {
    servers: Who,
    #[serde(default)]
    from: Span,
    until: Option<Span>,
    /// Whether they leave the cluster and join it again.
    #[serde(default)]
    leave: bool,
}

/// Where clients run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum On {
    /// On hosts of their own.
    #[default]
    Hosts,
    /// On the hosts of servers, in turn.
    Servers,
}

/// The clients.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Clients {
    pub(super) count: Option<u32>,
    /// A clients file that comes with a batch.
    pub(super) file: Option<String>,
    slots: u32,
    on: On,
}

impl Default for Clients {
    fn default() -> Self {
        Self { count: None, file: None, slots: 1, on: On::Hosts }
    }
}

/// The network between hosts.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Network {
    nic: Option<PerSecond>,
    up: Option<PerSecond>,
    down: Option<PerSecond>,
    message: Span,
    dispatch: Span,
}

/// The whole cluster, as written.
#[derive(Clone, Debug)]
pub(super) struct Cluster {
    pub(super) servers: Servers,
    pub(super) named: BTreeMap<String, Different>,
    pub(super) slow: Vec<Slow>,
    pub(super) down: Vec<Down>,
    pub(super) clients: Clients,
    pub(super) network: Network,
    /// Names of the servers, and the number of clients. Both are known once the workload is.
    pub(super) names: Vec<String>,
    pub(super) n_clients: u32,
    /// What the files that come with a batch say about servers and clients.
    pub(super) described: Option<model::Cluster>,
}

/// Defaults, the same as those of `generate`.
const USUAL_SERVERS: u32 = 100;
const USUAL_CLIENTS: u32 = 64;
/// Upper limit of servers and of clients. No cluster is larger.
const MOST: u32 = 1 << 20;
/// Upper limit of entries for slow servers and for outages. Nobody writes more by hand.
const MOST_CHANGES: usize = 100;
/// Upper limit of stalls. This many take a minute to simulate, and more add no information.
const MOST_STALLS: f64 = 1e9;

impl Cluster {
    /// Creates names for the requested number of servers, and sets the number of clients.
    pub(super) fn count_out(&mut self, places: &Places) -> Result<(), ScenarioError> {
        let n_servers = self.servers.count.unwrap_or(USUAL_SERVERS);
        check_count("servers.count", n_servers.into(), places)?;
        self.names = (0..n_servers).map(|k| format!("s{k}")).collect();
        self.n_clients = self.clients.count.unwrap_or(USUAL_CLIENTS);
        check_count("clients.count", self.n_clients.into(), places)
    }

    /// Refuses impossible settings.
    pub(super) fn check(&self, places: &Places) -> Result<(), ScenarioError> {
        let wrong = |key: &str, message: String| Err(places.error(key, message));
        check_count("servers.count", self.names.len() as u64, places)?;
        check_count("clients.count", self.n_clients.into(), places)?;
        check_server("servers", Some(self.servers.speed), Some(self.servers.slots), places)?;
        for (name, different) in &self.named {
            let key = format!("servers.{name}");
            if !self.names.contains(name) {
                return wrong(&key, no_server(name, &self.names));
            }
            check_server(&key, different.speed, different.slots, places)?;
        }
        check_slots("clients.slots", self.clients.slots, places)?;
        self.discipline().map_err(|message| places.error("servers.queue", message))?;
        for (key, n) in [("slow", self.slow.len()), ("down", self.down.len())] {
            if n > MOST_CHANGES {
                return wrong(key, format!("{n} tables [[{key}]] are too many; use at most {MOST_CHANGES}"));
            }
        }
        for (k, slow) in self.slow.iter().enumerate() {
            slow.check(&format!("slow.{k}"), &self.names, places)?;
        }
        for (k, down) in self.down.iter().enumerate() {
            let key = format!("down.{k}");
            down.servers.check(&key, &self.names, places)?;
            check_until(&key, down.from, down.until, places)?;
        }
        let network = &self.network;
        if network.nic.is_some() && (network.up.is_some() || network.down.is_some()) {
            return wrong(
                "network.nic",
                "`nic` sets both `up` and `down`; leave it out, or leave them out".to_owned(),
            );
        }
        if network.up.is_some() != network.down.is_some() {
            return wrong(
                "network",
                "`up` and `down` belong together; write both, or `nic` for both".to_owned(),
            );
        }
        Ok(())
    }

    /// The order in which servers serve their queues; none if in order of arrival.
    fn discipline(&self) -> Result<Option<&'static Discipline>, String> {
        let name = self.servers.queue.as_str();
        match policy::find(name).map(|policy| (&policy.kind, policy.live)) {
            Some((Kind::Queue(_), Live::InTurn)) => Ok(None),
            Some((Kind::Queue(discipline), _)) => Ok(Some(discipline)),
            _ => {
                let known: Vec<&str> = policy::queues().map(|(policy, _)| policy.name).collect();
                Err(not_known("queue", name, &known))
            }
        }
    }

    /// Creates the empty queue of a server; none if servers serve requests in order of arrival.
    pub(super) fn queue(&self) -> Option<impl Fn() -> Box<dyn Queue> + use<>> {
        let discipline = self.discipline().ok().flatten()?;
        Some(|| (discipline.queue)(&Options::default()))
    }

    /// The hardware of one repetition, with everything random drawn from `seed`.
    pub(super) fn hardware(&self, seed: u64) -> Hardware {
        let n = self.names.len() as u32;
        let mut servers: Vec<hardware::Server> = (0..n).map(|server| self.server(server)).collect();
        let mut spells: Vec<Vec<(u64, u64, f64)>> = vec![Vec::new(); servers.len()];
        for (k, slow) in (0..).zip(&self.slow) {
            let seed = sub_seed(seed, SLOW + k);
            for server in slow.servers.draw(&self.names, &mut Seeded::new(seed)) {
                let server = server as usize;
                match slow.stalls(sub_seed(seed, 1 + server as u64)) {
                    Some(stalls) => servers[server].stalls.push(stalls),
                    None => spells[server].push((slow.from.0, slow.until_ns(), slow.factor)),
                }
            }
        }
        for (server, spells) in servers.iter_mut().zip(&spells) {
            server.speeds = steps(spells);
        }
        for (k, down) in (0..).zip(&self.down) {
            let mut draw = Seeded::new(sub_seed(seed, DOWN + k));
            for server in down.servers.draw(&self.names, &mut draw) {
                let until_ns = down.until.map_or(u64::MAX, |until| until.0);
                servers[server as usize].outages.push((down.from.0, until_ns));
                servers[server as usize].leaves |= down.leave;
            }
        }
        servers.iter_mut().for_each(|server| join(&mut server.outages));
        let clients: Vec<_> = (0..self.n_clients).map(|client| self.client(client)).collect();
        let nic = |both: PerSecond| Nic { up: both.0, down: both.0 };
        let apart = self.network.up.zip(self.network.down).map(|(up, down)| Nic { up: up.0, down: down.0 });
        Hardware {
            n_hosts: clients.iter().map(|client| client.host + 1).max().unwrap_or(0).max(n),
            servers,
            clients,
            nic: self.network.nic.map(nic).or(apart),
            message_ns: self.network.message.0,
            dispatch_ns: self.network.dispatch.0,
        }
    }

    pub(super) fn server(&self, server: u32) -> hardware::Server {
        let all = &self.servers;
        let own = self.named.get(&self.names[server as usize]);
        let file = self.described.as_ref().map(|cluster| cluster.server(ServerId(server)));
        let in_file = file.filter(|_| all.slots == 1).map(|file| file.slots);
        let slots = own.and_then(|own| own.slots).or(in_file).unwrap_or(all.slots);
        // A rate is that of all slots of a server together.
        let rate = self.described.as_ref().and_then(|cluster| cluster.rate(ServerId(server)));
        let rate = rate.map(|bytes| bytes as f64 / 1e9 / f64::from(slots));
        let of_file =
            file.filter(|_| rate.is_none()).map_or(1.0, |file| file.speed.millionths() as f64 / 1e6);
        let speed = own.and_then(|own| own.speed).unwrap_or(all.speed * of_file);
        let bandwidth =
            own.and_then(|own| own.bandwidth).map(|own| own.0).or(rate).unwrap_or(all.bandwidth.0);
        hardware::Server {
            host: server,
            latency_ns: own.and_then(|own| own.latency).unwrap_or(all.latency).0,
            rate: bandwidth * speed,
            slots,
            ..hardware::Server::default()
        }
    }

    fn client(&self, client: u32) -> hardware::Client {
        let n = self.names.len() as u32;
        let file = self.described.as_ref();
        let in_file = file.filter(|_| self.clients.slots == 1);
        let slots = in_file.map_or(self.clients.slots, |file| file.client(ClientId(client)).slots);
        let is_at_home = |&server: &u32| {
            file.is_some_and(|file| file.distance(ClientId(client), ServerId(server)) == Some(0))
        };
        let host = match self.clients.on {
            On::Servers => client % n,
            On::Hosts => (0..n).find(is_at_home).unwrap_or(n + client),
        };
        hardware::Client { host, slots }
    }

    /// Refuses stalls that are too many to simulate, given the bytes that all servers together move and the least time
    /// they are in use.
    pub(super) fn check_stalls(
        &self,
        bytes: f64,
        least_ns: f64,
        places: &Places,
    ) -> Result<(), ScenarioError> {
        let servers = (0..self.names.len() as u32).map(|server| self.server(server));
        let rate: f64 = servers.map(|server| server.rate * f64::from(server.slots)).sum();
        let work_ns = least_ns.max(bytes / rate);
        for (k, slow) in self.slow.iter().enumerate() {
            // Impossible rates are reported elsewhere.
            if work_ns.is_finite() && slow.least_stalls(self.names.len(), work_ns) > MOST_STALLS {
                let message =
                    "servers would stall more than a billion times; write a longer `every` or `lasts`";
                return Err(places.error(&format!("slow.{k}.every"), message));
            }
        }
        Ok(())
    }

    /// The lowest rate that a server ever has, in bytes per nanosecond.
    pub(super) fn least_rate(&self) -> f64 {
        let rates = (0..self.names.len() as u32).map(|server| self.server(server).rate);
        self.slow.iter().fold(rates.fold(f64::INFINITY, f64::min), |rate, slow| rate * slow.factor)
    }
}

/// Purposes of the random draws for slow servers and outages.
const SLOW: u64 = 1 << 16;
const DOWN: u64 = 2 << 16;

fn check_count(key: &str, n: u64, places: &Places) -> Result<(), ScenarioError> {
    match n {
        1.. if n <= MOST.into() => Ok(()),
        _ => Err(places.error(key, format!("{n} is out of range; use 1 to {MOST}"))),
    }
}

fn check_server(
    key: &str,
    speed: Option<f64>,
    slots: Option<u32>,
    places: &Places,
) -> Result<(), ScenarioError> {
    if let Some(speed) = speed.filter(|speed| !(*speed > 0.0 && *speed <= 1e6)) {
        let message = format!(
            "the speed {speed} is out of range; use a number above 0 and at most 1000000, or [[down]] for a server that does nothing"
        );
        return Err(places.error(&format!("{key}.speed"), message));
    }
    check_slots(&format!("{key}.slots"), slots.unwrap_or(1), places)
}

fn no_server(name: &str, known: &[String]) -> String {
    let name = model::shown(name);
    match known {
        [first, .., last] => {
            format!("there is no server `{name}`; the {} servers are {first} to {last}", known.len())
        }
        _ => format!("there is no server `{name}`; the only one is {}", known.join("")),
    }
}

fn check_slots(key: &str, slots: u32, places: &Places) -> Result<(), ScenarioError> {
    match slots {
        1..=MAX_SLOTS => Ok(()),
        _ => Err(places.error(key, format!("{slots} slots are out of range; use 1 to {MAX_SLOTS}"))),
    }
}

fn check_until(key: &str, from: Span, until: Option<Span>, places: &Places) -> Result<(), ScenarioError> {
    match until {
        Some(until) if until <= from => {
            Err(places.error(&format!("{key}.until"), "it ends before it begins; write a later `until`"))
        }
        _ => Ok(()),
    }
}

impl Who {
    /// Number of servers selected out of `n`, if it can be determined.
    fn number(&self, n: usize) -> Option<u32> {
        match self {
            Self::Number(number) => Some(*number),
            Self::Names(names) => Some(names.len() as u32),
            Self::Share(share) => {
                let percent: f64 = share.strip_suffix('%')?.trim().parse().ok()?;
                (0.0..=100.0).contains(&percent).then(|| (percent / 100.0 * n as f64).round() as u32)
            }
        }
    }

    fn check(&self, key: &str, known: &[String], places: &Places) -> Result<(), ScenarioError> {
        let wrong = |message: String| Err(places.error(&format!("{key}.servers"), message));
        if let Self::Names(names) = self
            && let Some(name) = names.iter().find(|name| !known.contains(name))
        {
            return wrong(no_server(name, known));
        }
        match (self.number(known.len()), self) {
            (Some(number), _) if number as usize > known.len() => {
                wrong(format!("{number} servers are too many; there are only {}", known.len()))
            }
            (None, Self::Share(share)) => wrong(format!(
                "`{share}` is not a share from 0% to 100%; to name single servers, write a list"
            )),
            _ => Ok(()),
        }
    }

    fn draw(&self, names: &[String], draw: &mut dyn Draw) -> Vec<u32> {
        if let Self::Names(wanted) = self {
            let number = |name: &String| names.iter().position(|known| known == name).map(|k| k as u32);
            return wanted.iter().filter_map(number).collect();
        }
        sample(names.len() as u32, self.number(names.len()).unwrap_or(0), draw)
    }
}

impl Slow {
    fn check(&self, key: &str, names: &[String], places: &Places) -> Result<(), ScenarioError> {
        self.servers.check(key, names, places)?;
        check_until(key, self.from, self.until, places)?;
        let wrong = |name: &str, message: &str| Err(places.error(&format!("{key}.{name}"), message));
        if !(self.factor > 0.0 && self.factor <= 1.0) {
            return wrong(
                "factor",
                "the factor is out of range; use a number above 0 and at most 1, or [[down]] for no service at all",
            );
        }
        match (self.every, self.lasts) {
            (Some(_), None) => wrong("every", "`every` needs `lasts`: how long it is slow each time"),
            (None, Some(_)) => wrong("lasts", "`lasts` needs `every`: the mean pause in between"),
            (Some(Span(0)), _) | (_, Some(Span(0))) => {
                wrong("every", "`every` and `lasts` cannot be 0; use longer spans")
            }
            _ => Ok(()),
        }
    }

    fn until_ns(&self) -> u64 {
        self.until.map_or(u64::MAX, |until| until.0)
    }

    /// The stalls of a server that is slow repeatedly.
    fn stalls(&self, seed: u64) -> Option<Stalls> {
        let (every, lasts) = self.every.zip(self.lasts)?;
        Some(Stalls {
            factor: self.factor,
            from_ns: self.from.0,
            until_ns: self.until_ns(),
            every_ns: every.0,
            lasts_ns: lasts.0,
            seed,
        })
    }

    /// Least number of stalls on `n_servers` servers while they move data for `work_ns` at full speed.
    fn least_stalls(&self, n_servers: usize, work_ns: f64) -> f64 {
        let Some(stalls) = self.stalls(0) else { return 0.0 };
        let (every, lasts) = (stalls.every_ns as f64, stalls.lasts_ns as f64);
        let share = f64::from(self.servers.number(n_servers).unwrap_or(0)) / n_servers as f64;
        let pace = 1.0 - share + share * (every + lasts * self.factor) / (every + lasts);
        let until = (stalls.until_ns - stalls.from_ns) as f64;
        (work_ns / pace - stalls.from_ns as f64).clamp(0.0, until) / (every + lasts)
            * share
            * n_servers as f64
    }
}

/// The combined factor and the time from which it applies. Several spells may overlap.
fn steps(spells: &[(u64, u64, f64)]) -> Vec<(u64, f64)> {
    let begins = spells.iter().map(|&(from_ns, _, factor)| (from_ns, true, factor));
    let ends = spells.iter().filter(|spell| spell.1 < u64::MAX);
    let mut edges: Vec<_> =
        begins.chain(ends.map(|&(_, until_ns, factor)| (until_ns, false, factor))).collect();
    edges.sort_by_key(|&(at_ns, ..)| at_ns);
    let mut active: Vec<f64> = Vec::new();
    let mut steps: Vec<(u64, f64)> = Vec::new();
    for edge in edges.chunk_by(|a, b| a.0 == b.0) {
        for &(_, begins, factor) in edge {
            if begins {
                active.push(factor);
            } else if let Some(place) = active.iter().position(|&other| other.to_bits() == factor.to_bits()) {
                active.swap_remove(place);
            }
        }
        // Multiplied from scratch, so that no rounding remains from spells that are over.
        steps.push((edge[0].0, active.iter().product()));
    }
    steps
}

/// Joins outages that touch or overlap.
fn join(outages: &mut Vec<(u64, u64)>) {
    outages.sort_unstable();
    let mut joined: Vec<(u64, u64)> = Vec::new();
    for &(from_ns, until_ns) in outages.iter() {
        match joined.last_mut() {
            Some(last) if from_ns <= last.1 => last.1 = last.1.max(until_ns),
            _ => joined.push((from_ns, until_ns)),
        }
    }
    *outages = joined;
}

/// Sizes drawn for each request.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(
    untagged,
    expecting = "write a size as \"64MB\", from a range as { from = \"1MB\", to = \"64MB\" }, or exponential as { mean = \"1MB\" }"
)]
pub(super) enum Sizes {
    Fixed(Bytes),
    Range { from: Bytes, to: Bytes },
    Exponential { mean: Bytes },
}

impl Sizes {
    /// Mean size in bytes.
    pub(super) fn mean(self) -> u64 {
        match self {
            Self::Fixed(bytes) | Self::Exponential { mean: bytes } => bytes.0,
            Self::Range { from, to } => from.0 + (to.0 - from.0) / 2,
        }
    }
}
