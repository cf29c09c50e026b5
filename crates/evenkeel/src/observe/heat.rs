//! The heat map of paper 003 §4.6: how many clients are connected to each server, and when it was last chosen.
//!
//! Connection counts come with heartbeats and get stale in between. Optionally each choice of a server counts as a
//! connection until the server reports again, so that not all clients choose the server that was coolest a while ago.

use super::{BadReport, known};
use crate::model::{BadSnapshot, MemberId, SNAPSHOT_VERSION};

/// What is known about a server; 0 if unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Warmth {
    /// Clients that the server is serving.
    pub connections: u64,
    /// When it was last chosen.
    pub last_used_ns: u64,
}

/// What is known about a server, and since when.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// The server's warmth.
    pub warmth: Warmth,
    /// When it last reported.
    pub heard_ns: Option<u64>,
}

/// A heat map as plain data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeatSnapshot {
    /// The version of this layout.
    pub version: u32,
    /// What is known about each server.
    pub servers: Vec<Known>,
    /// Whether a chosen server counts as connected until it reports.
    pub is_optimistic: bool,
}

/// What is known about all servers.
#[derive(Clone, Debug)]
pub struct HeatMap {
    entries: Vec<Known>,
    is_optimistic: bool,
    /// The latest time at which any server was chosen.
    newest_ns: u64,
}

impl HeatMap {
    /// Creates a map with this initial knowledge. If it is optimistic, each choice of a server counts as a connection
    /// until its next heartbeat.
    pub fn new(servers: impl IntoIterator<Item = Warmth>, is_optimistic: bool) -> Self {
        let entry = |warmth| Known { warmth, heard_ns: None };
        Self::of(servers.into_iter().map(entry).collect(), is_optimistic)
    }

    fn of(entries: Vec<Known>, is_optimistic: bool) -> Self {
        let newest_ns = entries.iter().map(|entry| entry.warmth.last_used_ns).max().unwrap_or(0);
        Self { entries, is_optimistic, newest_ns }
    }

    /// What is known, to be saved.
    pub fn snapshot(&self) -> HeatSnapshot {
        let (servers, is_optimistic) = (self.entries.clone(), self.is_optimistic);
        HeatSnapshot { version: SNAPSHOT_VERSION, servers, is_optimistic }
    }

    /// Restores a saved heat map.
    pub fn restore(snapshot: HeatSnapshot) -> Result<Self, BadSnapshot> {
        BadSnapshot::unless_version(snapshot.version)?;
        Ok(Self::of(snapshot.servers, snapshot.is_optimistic))
    }

    /// Adds a server with this initial knowledge.
    pub fn add(&mut self, warmth: Warmth) {
        self.newest_ns = self.newest_ns.max(warmth.last_used_ns);
        self.entries.push(Known { warmth, heard_ns: None });
    }

    /// A map of servers about which nothing is known.
    pub fn unknown(n_servers: u32, is_optimistic: bool) -> Self {
        Self::new((0..n_servers).map(|_| Warmth::default()), is_optimistic)
    }

    /// How many servers there are.
    pub fn n_servers(&self) -> usize {
        self.entries.len()
    }

    /// Records a server's report of its connections. A report older than the latest one is refused.
    pub fn heartbeat(&mut self, now_ns: u64, server: MemberId, connections: u64) -> Result<(), BadReport> {
        let server_index = known(server, self.entries.len())?;
        let entry = &mut self.entries[server_index];
        if let Some(last_ns) = entry.heard_ns.filter(|&last_ns| last_ns > now_ns) {
            return Err(BadReport::Late { server: server.0, at_ns: now_ns, last_ns });
        }
        entry.heard_ns = Some(now_ns);
        entry.warmth.connections = connections;
        Ok(())
    }

    /// Records that a server is chosen. It is then the most recently used one, even if the clock is coarse or runs
    /// backwards.
    pub fn choose(&mut self, now_ns: u64, server: MemberId) -> Result<(), BadReport> {
        let server = known(server, self.entries.len())?;
        self.newest_ns = now_ns.max(self.newest_ns.saturating_add(1));
        let warmth = &mut self.entries[server].warmth;
        warmth.last_used_ns = self.newest_ns;
        if self.is_optimistic {
            warmth.connections = warmth.connections.saturating_add(1);
        }
        Ok(())
    }

    /// What is known about a server, which must be in the map.
    #[inline]
    pub fn warmth(&self, server: MemberId) -> Warmth {
        self.entries[server.index()].warmth
    }
}
