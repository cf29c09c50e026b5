//! Why a copy was placed where it is. Recorded only on request.

use super::Placer;
use crate::model::MemberId;
use crate::observe::Warmth;
use crate::place::{Place, Turn};

/// A copy was placed: where, instead of where, and by which figures.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// When its window was placed.
    pub at_ns: u64,
    /// The object.
    pub object: u64,
    /// Which copy of it, counted from 0.
    pub copy: u32,
    /// Its length.
    pub bytes: u128,
    /// The server where it would be by default.
    pub default: MemberId,
    /// The server where it is.
    pub server: MemberId,
    /// The servers that the policy compared, the default, and the chosen one.
    pub candidates: Vec<Candidate>,
}

impl Decision {
    /// Whether the copy is elsewhere than by default.
    pub fn is_redirected(&self) -> bool {
        self.server != self.default
    }
}

/// A server as it was known before the decision.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// The server.
    pub server: MemberId,
    /// The figure that the policy compared; the lowest is best. What it means is up to the policy ([`Place::figures`]).
    /// `None` if the server was not compared: it is the default, which is kept unless the best one is worth the
    /// redirection, or it was drawn alone.
    pub figure: Option<u128>,
    /// Its load in the server log, in bytes.
    pub load: u128,
    /// Its probability in the server log.
    pub probability: f64,
    /// Its entry in the heat map.
    pub warmth: Warmth,
}

/// What a placer has done so far, for monitoring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Servers, up or down.
    pub servers: usize,
    /// Servers that are down.
    pub down: usize,
    /// Windows that were placed since this placer was created.
    pub windows: u64,
    /// Writes that were placed since then.
    pub writes: u64,
    /// Writes without a copy on their default server. Snapshots keep this number.
    pub redirected: u64,
    /// How often servers were asked for their loads. Snapshots keep this number.
    pub probes: u64,
}

impl Placer {
    /// What the placer has done so far.
    pub fn counts(&self) -> Counts {
        Counts {
            servers: self.servers.heat.n_servers(),
            down: self.down.len(),
            windows: self.n_windows,
            writes: self.n_writes,
            redirected: self.n_redirected,
            probes: self.n_probes(),
        }
    }

    /// Keeps the latest `most` decisions from now on, until they are [taken](Self::take_decisions). With 0, the initial
    /// value, keeps none.
    pub fn trace(&mut self, most: usize) {
        self.trace.keep(most);
    }

    /// Removes and returns the recorded decisions, oldest first.
    pub fn take_decisions(&mut self) -> Vec<Decision> {
        self.trace.take()
    }
}

/// The servers that a policy has just compared, the default, and the chosen one.
pub(super) fn candidates(policy: &dyn Place, turn: &Turn<'_>, chosen: MemberId) -> Vec<Candidate> {
    let log = &turn.servers.log;
    let candidate = |(server, figure)| {
        let warmth = turn.servers.heat.warmth(server);
        Candidate { server, figure, load: log.load(server), probability: log.probability(server), warmth }
    };
    let figures = policy.figures(turn).into_iter();
    let mut compared: Vec<_> = figures.map(|(server, figure)| (server, Some(figure))).collect();
    for server in [turn.default, chosen] {
        if !compared.iter().any(|&(other, _)| other == server) {
            compared.push((server, None));
        }
    }
    compared.into_iter().map(candidate).collect()
}
