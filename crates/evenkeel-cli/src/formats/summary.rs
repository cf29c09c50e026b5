//! The summary that `plan --json` prints and `check --summary` verifies.

use std::io::Read;

use evenkeel::bound::{Bound, Proof};
use evenkeel::check::Forced;
use evenkeel::model::{Batch, ClientId, ServerId};
use serde::{Deserialize, Serialize};

use super::InputError;
use super::batch_json::without_place;

/// A summary longer than this is none.
const MAX_BYTES: u64 = 64 << 20;

/// What a plan amounts to, and why it cannot be better.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Summary {
    pub format: u32,
    pub policy: String,
    // Said to be null rather than left out: what is missing is not the same as none.
    #[serde(deserialize_with = "Option::deserialize")]
    pub order: Option<String>,
    pub seed: u64,
    pub block: u64,
    pub requests: u64,
    pub clients: u64,
    pub servers: u64,
    /// Slots; `None` if the transfers have no order.
    #[serde(deserialize_with = "Option::deserialize")]
    pub length: Option<u64>,
    pub max_load: u64,
    pub lower_bound: u64,
    pub optimal: bool,
    pub bottleneck: Bottleneck,
    /// Tells batches apart.
    pub batch_fingerprint: String,
    /// Tells plans apart.
    pub plan_fingerprint: String,
    #[serde(default)]
    pub seconds: Seconds,
}

/// What forces the lower bound.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
#[allow(missing_docs)]
pub enum Bottleneck {
    /// These servers hold all copies of that many requests.
    Servers { servers: Vec<String>, requests: u64, blocks: u64 },
    /// This client has to receive that many blocks.
    Client { client: String, blocks: u64 },
}

/// Where the time went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Seconds {
    pub read: f64,
    pub select: f64,
    pub order: f64,
    pub write: f64,
}

impl Bottleneck {
    /// The proof with names, and what it forces.
    pub fn new(batch: &Batch, proof: &Proof, forced: Forced) -> Self {
        let Forced { requests, blocks, .. } = forced;
        match proof {
            Proof::Servers(servers) => {
                let servers = servers.iter().map(|s| batch.servers().name(s.0).to_owned()).collect();
                Self::Servers { servers, requests, blocks }
            }
            Proof::Client(client) => {
                Self::Client { client: batch.clients().name(client.0).to_owned(), blocks }
            }
        }
    }

    /// The proof that the names stand for; `None` if the batch does not have them all.
    pub fn to_proof(&self, batch: &Batch) -> Option<Proof> {
        match self {
            Self::Servers { servers, .. } => {
                let ids: Option<Vec<ServerId>> =
                    servers.iter().map(|name| batch.servers().find(name).map(ServerId)).collect();
                ids.map(Proof::Servers)
            }
            Self::Client { client, .. } => batch.clients().find(client).map(|id| Proof::Client(ClientId(id))),
        }
    }
}

impl Summary {
    /// The bound as claimed; `None` if it names what the batch does not have.
    pub fn bound(&self, batch: &Batch) -> Option<Bound> {
        self.bottleneck.to_proof(batch).map(|proof| Bound { value: self.lower_bound, proof })
    }
}

/// Reads a summary.
pub fn read_summary(reader: impl Read, file: &str) -> Result<Summary, InputError> {
    let summary: Summary = serde_json::from_reader(reader.take(MAX_BYTES)).map_err(|e| {
        let message = format!("{}; give the summary that `plan --json` printed", without_place(&e));
        InputError::new(file, e.line() as u64, message)
    })?;
    if summary.format != 1 {
        let message = format!("format {} is not known; make the summary with this version", summary.format);
        return Err(InputError::new(file, None, message));
    }
    Ok(summary)
}
