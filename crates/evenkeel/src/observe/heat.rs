//! The heat map of paper 003 §4.6: how many clients are connected to each server, and when it was last chosen.
//!
//! Connections come with heartbeats and are old news in between. Optionally whoever is chosen counts as connected
//! until it reports again, so that not everybody runs to the server that was coolest a while ago.

use super::{Stray, known};
use crate::model::ServerId;

/// What is known of a server; nothing yet is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Warmth {
    /// Clients that it serves.
    pub connections: u64,
    /// When it was last chosen.
    pub last_used_ns: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    warmth: Warmth,
    /// When it last reported.
    heard_ns: Option<u64>,
}

/// What is known of all servers.
#[derive(Clone, Debug)]
pub struct HeatMap {
    entries: Vec<Entry>,
    is_optimistic: bool,
    /// The latest of all times at which one was chosen.
    newest_ns: u64,
}

impl HeatMap {
    /// The servers as they are known at first. If it is optimistic, who is chosen counts as connected until the next
    /// heartbeat.
    pub fn new(servers: impl IntoIterator<Item = Warmth>, is_optimistic: bool) -> Self {
        let entry = |warmth| Entry { warmth, heard_ns: None };
        let entries: Vec<Entry> = servers.into_iter().map(entry).collect();
        let newest_ns = entries.iter().map(|entry| entry.warmth.last_used_ns).max().unwrap_or(0);
        Self { entries, is_optimistic, newest_ns }
    }

    /// Servers of which nothing is known.
    pub fn unknown(n_servers: u32, is_optimistic: bool) -> Self {
        Self::new((0..n_servers).map(|_| Warmth::default()), is_optimistic)
    }

    /// How many servers there are.
    pub fn n_servers(&self) -> usize {
        self.entries.len()
    }

    /// A server reports its connections. A report that was overtaken by a later one is refused.
    pub fn heartbeat(&mut self, now_ns: u64, server: ServerId, connections: u64) -> Result<(), Stray> {
        let server_index = known(server, self.entries.len())?;
        let entry = &mut self.entries[server_index];
        if let Some(last_ns) = entry.heard_ns.filter(|&last_ns| last_ns > now_ns) {
            return Err(Stray::Late { server: server.0, at_ns: now_ns, last_ns });
        }
        entry.heard_ns = Some(now_ns);
        entry.warmth.connections = connections;
        Ok(())
    }

    /// A server is chosen. It is then the one used last, also by a clock that is coarse or runs backwards.
    pub fn choose(&mut self, now_ns: u64, server: ServerId) -> Result<(), Stray> {
        let server = known(server, self.entries.len())?;
        self.newest_ns = now_ns.max(self.newest_ns.saturating_add(1));
        let warmth = &mut self.entries[server].warmth;
        warmth.last_used_ns = self.newest_ns;
        if self.is_optimistic {
            warmth.connections = warmth.connections.saturating_add(1);
        }
        Ok(())
    }

    /// What is known of a server, which must be one of them.
    #[inline]
    pub fn warmth(&self, server: ServerId) -> Warmth {
        self.entries[server.index()].warmth
    }
}
