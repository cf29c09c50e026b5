//! Which clients request the imported data.

use std::io::{self, Write};

use evenkeel::model::{Batch, ModelError, NameTable};

use super::{Gathered, Remarks};
use crate::quoted;

/// Which clients there are.
#[derive(Debug)]
pub enum Clients {
    /// Those named in the input.
    Given,
    /// One on the host of each server, with the name of the host.
    OnePerHost,
    /// As many workers as there are servers.
    OnePerServer,
    /// This many workers, named `w0`, `w1` and so on.
    Workers(u32),
    /// These clients.
    Named(NameTable),
}

/// Which client gets which request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deal {
    /// Request i to client i mod n.
    RoundRobin,
    /// The first of n clients gets the first nth of the requests and so on, as MPI ranks do (paper 003's `rank`).
    Contiguous,
}

/// An imported batch.
#[derive(Debug)]
pub struct Imported {
    /// The batch.
    pub batch: Batch,
    /// The host of each server: a path where racks are known, otherwise a name.
    pub server_hosts: Vec<String>,
    /// The host of each client; empty if unknown.
    pub client_hosts: Vec<String>,
    /// What was left out, and what is worth noting.
    pub remarks: Remarks,
}

impl Gathered {
    /// Whether the input says which client wants what.
    pub fn has_clients(&self) -> bool {
        self.has_clients
    }

    /// The batch with its requests distributed to the clients.
    pub fn dealt_to(self, clients: Clients, deal: Deal) -> Result<Imported, ModelError> {
        let (batch, mut server_hosts, remarks) = self.finish();
        for (host, server) in server_hosts.iter_mut().zip(batch.servers().iter()) {
            // Servers not known to share a host have their own.
            if host.is_empty() {
                server.clone_into(host);
            }
        }
        let mut client_hosts = Vec::new();
        let names = match clients {
            Clients::Given => return Ok(Imported { batch, server_hosts, client_hosts, remarks }),
            Clients::OnePerHost => {
                let (names, hosts) = clients_on(&server_hosts);
                client_hosts = hosts;
                names
            }
            Clients::OnePerServer => workers(batch.n_servers() as u32),
            Clients::Workers(n) => workers(n),
            Clients::Named(names) => names,
        };
        let (n_clients, n_requests) = (names.len() as u64, batch.n_requests() as u128);
        let batch = batch.dealt_to(names, |i| match deal {
            Deal::RoundRobin => (i as u64 % n_clients.max(1)) as u32,
            // Client k starts at request ⌊k·requests/clients⌋.
            Deal::Contiguous => {
                (((i as u128 + 1) * u128::from(n_clients)).saturating_sub(1) / n_requests) as u32
            }
        })?;
        Ok(Imported { batch, server_hosts, client_hosts, remarks })
    }
}

/// A client for each host, named after the last part of its path, or after the whole path where that name is taken.
fn clients_on(hosts: &[String]) -> (NameTable, Vec<String>) {
    let (mut names, mut known) = (NameTable::new(), NameTable::new());
    for host in hosts {
        if known.find(host).is_some() {
            continue;
        }
        known.intern(host);
        let name = host.rsplit('/').next().filter(|name| !name.is_empty() && names.find(name).is_none());
        names.intern(name.unwrap_or(host));
    }
    (names, known.iter().map(str::to_owned).collect())
}

fn workers(n: u32) -> NameTable {
    let mut names = NameTable::new();
    for k in 0..n {
        names.intern(&format!("w{k}"));
    }
    names
}

/// Writes where servers or clients run, as a servers or clients file with a column `host`.
pub fn write_hosts(kind: &str, names: &NameTable, hosts: &[String], mut out: impl Write) -> io::Result<()> {
    writeln!(out, "{kind},host")?;
    names.iter().zip(hosts).try_for_each(|(name, host)| writeln!(out, "{},{}", quoted(name), quoted(host)))
}

#[cfg(test)]
mod tests {
    use super::super::Chunk;
    use super::*;

    fn gathered(n_requests: usize) -> Gathered {
        let mut gathered = Gathered::new(None);
        for name in (0..n_requests).map(|k| format!("f{k}")) {
            let replicas = ["d10:1", "d9:1", "d9:2"];
            gathered.add(&Chunk { name: &name, bytes: 1, replicas: &replicas, client: None }).unwrap();
        }
        gathered
    }

    fn dealt(n_requests: usize, clients: Clients, deal: Deal) -> Vec<u32> {
        let imported = gathered(n_requests).dealt_to(clients, deal).unwrap();
        imported.batch.client_of().iter().map(|client| client.0).collect()
    }

    /// Shares are those of `rank`: process k starts at ⌊k·n/P⌋.
    #[test]
    fn shares_differ_by_one_at_most() {
        assert_eq!(dealt(5, Clients::Workers(3), Deal::RoundRobin), [0, 1, 2, 0, 1]);
        assert_eq!(dealt(5, Clients::Workers(3), Deal::Contiguous), [0, 1, 1, 2, 2]);
        assert_eq!(dealt(2, Clients::Workers(4), Deal::Contiguous), [1, 3]);
        assert_eq!(dealt(4, Clients::OnePerServer, Deal::RoundRobin), [0, 1, 2, 0]);
    }

    #[test]
    fn one_client_runs_on_each_host() {
        let mut gathered = gathered(3);
        for (server, host) in [("d9:1", "/r1/d9"), ("d9:2", "/r1/d9"), ("d10:1", "d10"), ("d10:1", "/r2/d10")]
        {
            gathered.set_host(server, host).unwrap();
        }
        let imported = gathered.dealt_to(Clients::OnePerHost, Deal::RoundRobin).unwrap();
        assert_eq!(imported.batch.clients().iter().collect::<Vec<_>>(), ["d9", "d10"]);
        assert_eq!(imported.client_hosts, ["/r1/d9", "/r2/d10"]);
        assert_eq!(imported.server_hosts, ["/r1/d9", "/r1/d9", "/r2/d10"]);
        let (names, hosts) = clients_on(&["/r1/a", "/r2/a", "b", "/r1/a"].map(str::to_owned));
        assert_eq!(names.iter().collect::<Vec<_>>(), ["a", "/r2/a", "b"]);
        assert_eq!(hosts, ["/r1/a", "/r2/a", "b"]);
    }
}
