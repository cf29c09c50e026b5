//! Hosts of servers, by the names that people and launchers give them.

use std::collections::HashMap;
use std::net::IpAddr;

use evenkeel::model::NameTable;

/// The host in the name of a server that is an address: `d1` in `http://d1:9864`. Other names are hosts themselves.
pub fn host_of(server: &str) -> &str {
    let rest = server.split_once("://").map_or(server, |(_, rest)| rest);
    let authority = if rest.len() < server.len() { rest.split('/').next().unwrap_or(rest) } else { rest };
    if let Some(bracketed) = authority.strip_prefix('[') {
        return bracketed.split(']').next().unwrap_or(bracketed);
    }
    match authority.rsplit_once(':') {
        Some((host, port)) if !host.contains([':', '/']) && port.parse::<u16>().is_ok() => host,
        _ => authority,
    }
}

/// The servers on each host.
#[derive(Debug, Default)]
pub(crate) struct Hosts {
    /// By the host's name, in small letters.
    servers: HashMap<String, Vec<u32>>,
    /// The full name of the host that has this one without its domain; nothing if there are several.
    full: HashMap<String, Option<String>>,
    /// How many processes a host has got so far.
    n_given: HashMap<String, usize>,
}

impl Hosts {
    /// The hosts of those servers whose names are addresses, or of all.
    pub(crate) fn of(servers: &NameTable, of_all: bool) -> Self {
        let mut hosts = Self::default();
        for (number, name) in (0..).zip(servers.iter()) {
            let host = host_of(name);
            if of_all || host != name {
                hosts.add(&host.to_ascii_lowercase(), number);
            }
        }
        hosts
    }

    fn add(&mut self, host: &str, server: u32) {
        let full = self.full.entry(short(host).to_owned()).or_insert_with(|| Some(host.to_owned()));
        full.take_if(|known| known != host);
        self.servers.entry(host.to_owned()).or_default().push(server);
    }

    /// A server on a host. Where there are several, processes take turns. `node7` is `node7.example.org` too, whichever of
    /// them the server has, unless servers have that name in several domains.
    pub(crate) fn server_on(&mut self, host: &str) -> Option<u32> {
        let host = host.to_ascii_lowercase();
        let bare = short(&host);
        let other = if bare == host { self.full.get(bare)?.as_deref() } else { Some(bare) };
        let there = self.servers.get(&host).or_else(|| self.servers.get(other?))?;
        let n_given = self.n_given.entry(host).or_default();
        *n_given += 1;
        there.get((*n_given - 1) % there.len()).copied()
    }
}

/// A name without its domain. Addresses in numbers have none.
fn short(host: &str) -> &str {
    if host.parse::<IpAddr>().is_ok() { host } else { host.split('.').next().unwrap_or(host) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_hosts() {
        let cases = [
            ("http://d1:9864", "d1"),
            ("hdfs://d1.example.org:9866/x", "d1.example.org"),
            ("d1:9866", "d1"),
            ("https://[::1]:9865", "::1"),
            ("s0", "s0"),
            ("east/", "east/"),
            ("/mnt/a:1", "/mnt/a:1"),
            ("a:b", "a:b"),
            ("::1", "::1"),
            ("", ""),
        ];
        for (server, host) in cases {
            assert_eq!(host_of(server), host, "{server}");
        }
    }

    #[test]
    fn servers_are_found_by_their_hosts() {
        let mut names = NameTable::new();
        let servers =
            ["http://D1:1", "http://d1:2", "http://d2.example.org:1", "http://d3.a:1", "http://d3.b:1", "s9"];
        for name in servers {
            names.intern(name);
        }
        let mut hosts = Hosts::of(&names, false);
        let mut on = |host: &str| hosts.server_on(host);
        assert_eq!([on("d1"), on("d1"), on("D1")], [Some(0), Some(1), Some(0)]);
        assert_eq!([on("d1.example.org"), on("d2"), on("d2.example.org")], [Some(0), Some(2), Some(2)]);
        assert_eq!(
            [on("d2.other.org"), on("d3"), on("d3.b"), on("s9"), on("")],
            [None, None, Some(4), None, None]
        );
        assert_eq!(Hosts::of(&names, true).server_on("s9"), Some(5));
    }
}
