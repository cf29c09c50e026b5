//! The summary that `plan --json` prints and `check --summary` verifies.

use std::collections::BTreeMap;
use std::io::Read;

use evenkeel::bound::{Cost, Prices, Proof};
use evenkeel::check::Forced;
use evenkeel::lead::{Changed, Lead, Point};
use evenkeel::model::{Batch, ClientId, Cluster, Fixed, Ratio, ServerId};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de, ser};
use serde_json::value::RawValue;

use crate::batch_json::without_place;
use crate::{InputError, numbers};

/// Longer inputs are not accepted as summaries.
const MAX_BYTES: u64 = 64 << 20;

/// The figures of a plan, and why it cannot be better.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Summary {
    pub format: u32,
    pub policy: String,
    // Written as null rather than omitted: a missing field is not the same as none.
    #[serde(deserialize_with = "Option::deserialize")]
    pub order: Option<String>,
    pub seed: u64,
    pub block: u64,
    pub requests: u64,
    pub clients: u64,
    pub servers: u64,
    /// In slots or units of time; `None` if the transfers have no order.
    #[serde(deserialize_with = "Option::deserialize")]
    pub length: Option<Figure>,
    pub max_load: Figure,
    pub lower_bound: Figure,
    pub optimal: bool,
    pub bottleneck: Bottleneck,
    /// How far the plan is from the bound.
    #[serde(default)]
    pub gap: Option<Figure>,
    /// For a policy that proceeds round by round: how many rounds there were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rounds: Option<u64>,
    /// For a policy whose clients bid: how many bids and answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub messages: Option<u64>,
    /// The length if both ends of the transfers work through their lists as soon as they are free.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compacted_length: Option<Figure>,
    /// Further parameters of the policies, where they differ from the defaults.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ties: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passes: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bids: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub imbalance: Option<u64>,
    /// The most concurrent transfers, if limited.
    #[serde(default)]
    pub max_concurrent: Option<u64>,
    /// Whether requests must not be split between servers.
    #[serde(default)]
    pub whole: bool,
    /// What is changed of who serves today, if that was to be little.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changes: Option<Changes>,
    /// Length, load and bound in seconds, if rates are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub length_seconds: Option<Figure>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_load_seconds: Option<Figure>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lower_bound_seconds: Option<Figure>,
    /// The total bytes of all requests.
    #[serde(default)]
    pub bytes: Option<u128>,
    /// Identifies the batch.
    pub batch_fingerprint: String,
    /// Identifies the plan.
    pub plan_fingerprint: String,
    #[serde(default)]
    pub seconds: Seconds,
}

/// How far a plan is from what there is today.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Changes {
    /// How many requests another server serves than today, and their bytes.
    pub requests: u64,
    pub bytes: u128,
    /// What was to be little: `changes` or `bytes`.
    pub fewest: String,
    /// No plan of whole requests that is done by `within` changes fewer requests, or blocks of them.
    pub at_least: u64,
    pub within: Figure,
    /// Prove it: the price of a block at each server, in parts of a change. Others are free.
    pub scale: u64,
    pub prices: BTreeMap<String, u64>,
    /// How good a plan so many changes allow.
    pub curve: Vec<CurvePoint>,
}

/// What the busiest server has after so many changes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct CurvePoint {
    pub requests: u64,
    pub blocks: u64,
    pub max_load: Figure,
}

impl Changes {
    /// What a choice near today's is like.
    pub fn new(batch: &Batch, lead: &Lead, cost: Cost, at_least: u64) -> Self {
        let price = |(server, &price): (u32, &u64)| {
            (price > 0).then(|| (batch.servers().name(server).to_owned(), price))
        };
        Self {
            requests: lead.changed.requests,
            bytes: changed_bytes(batch, &lead.choice.servers),
            fewest: name_of(cost).to_owned(),
            at_least,
            within: lead.target.into(),
            scale: lead.prices.scale,
            prices: (0..).zip(&lead.prices.of).filter_map(price).collect(),
            curve: lead.curve.iter().map(CurvePoint::from).collect(),
        }
    }

    /// What it costs to change a request, and the prices of all servers; `None` if the batch has not these servers.
    pub fn proof(&self, batch: &Batch) -> Option<(Cost, Prices)> {
        let cost = [Cost::Changes, Cost::Blocks].into_iter().find(|&cost| name_of(cost) == self.fewest)?;
        let mut of = vec![0; batch.n_servers()];
        for (name, &price) in &self.prices {
            *of.get_mut(batch.servers().find(name)? as usize)? = price;
        }
        Some((cost, Prices { scale: self.scale, of }))
    }
}

/// The bytes of requests that another server serves than today.
pub fn changed_bytes(batch: &Batch, servers: &[ServerId]) -> u128 {
    let changed = servers
        .iter()
        .enumerate()
        .filter(|&(i, &server)| batch.current(i).is_some_and(|current| current != server));
    changed.map(|(i, _)| u128::from(batch.bytes(i))).sum()
}

fn name_of(cost: Cost) -> &'static str {
    match cost {
        Cost::Changes => "changes",
        Cost::Blocks => "bytes",
    }
}

impl From<&Point> for CurvePoint {
    fn from(point: &Point) -> Self {
        let Changed { requests, blocks } = point.changed;
        Self { requests, blocks, max_load: point.level.into() }
    }
}

/// What forces the lower bound.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
#[allow(missing_docs)]
pub enum Bottleneck {
    /// These servers hold all copies of that many requests.
    Servers { servers: Vec<String>, requests: u64, blocks: u64 },
    /// This client has to receive that many blocks; if `waits_for` is given, not before that server is free.
    Client {
        client: String,
        blocks: u64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        waits_for: Option<String>,
    },
    /// That many blocks have to go through the limit on concurrent transfers.
    Concurrency { limit: u64, blocks: u64 },
}

/// A number as it is printed: whole if possible, otherwise with at most nine decimals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Figure(pub Fixed);

impl Figure {
    /// Whether both are the same number: exactly if both are whole, otherwise to a millionth, or to a billionth for
    /// numbers up to `largest`.
    pub fn is_about(self, other: Self, largest: Self) -> bool {
        let (a, b) = (self.0.nanos(), other.0.nanos());
        let forgiven = 1000.max(largest.0.nanos() / 1_000_000_000);
        let are_whole = self.0.whole().is_some() && other.0.whole().is_some();
        if are_whole { a == b } else { a.abs_diff(b) <= forgiven }
    }
}

impl From<Fixed> for Figure {
    fn from(number: Fixed) -> Self {
        Self(number)
    }
}

impl From<Ratio> for Figure {
    fn from(ratio: Ratio) -> Self {
        Self(ratio.rounded())
    }
}

// As text, since a float cannot represent all decimals of a large number.

impl Serialize for Figure {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        RawValue::from_string(self.0.to_string()).map_err(ser::Error::custom)?.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Figure {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        numbers::decimal(text.get(), "figure").map(Self).map_err(de::Error::custom)
    }
}

/// How long each step took.
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
    pub fn new(batch: &Batch, cluster: &Cluster, proof: &Proof, forced: Forced) -> Self {
        let Forced { requests, blocks, .. } = forced;
        let server = |s: &ServerId| batch.servers().name(s.0).to_owned();
        match proof {
            Proof::Servers(servers) => {
                Self::Servers { servers: servers.iter().map(server).collect(), requests, blocks }
            }
            Proof::Client { client, waits_for } => {
                let client = batch.clients().name(client.0).to_owned();
                Self::Client { client, blocks, waits_for: waits_for.as_ref().map(server) }
            }
            Proof::Concurrency => {
                Self::Concurrency { limit: cluster.max_concurrent().unwrap_or(u64::MAX), blocks }
            }
        }
    }

    /// The proof that the names stand for; `None` if the batch does not have them all.
    pub fn to_proof(&self, batch: &Batch) -> Option<Proof> {
        let server = |name: &String| batch.servers().find(name).map(ServerId);
        match self {
            Self::Servers { servers, .. } => {
                servers.iter().map(server).collect::<Option<Vec<_>>>().map(Proof::Servers)
            }
            Self::Client { client, waits_for, .. } => {
                let client = ClientId(batch.clients().find(client)?);
                let waits_for = match waits_for {
                    Some(name) => Some(server(name)?),
                    None => None,
                };
                Some(Proof::Client { client, waits_for })
            }
            Self::Concurrency { .. } => Some(Proof::Concurrency),
        }
    }
}

impl Summary {
    /// How far the plan is from the bound, computed from these two.
    pub fn computed_gap(&self) -> Figure {
        let achieved = self.length.unwrap_or(self.max_load).0.nanos();
        let nanos = achieved.saturating_sub(self.lower_bound.0.nanos());
        Figure(Fixed::from_nanos(nanos).unwrap_or_default())
    }
}

/// Reads a summary.
pub fn read_summary(reader: impl Read, file: &str) -> Result<Summary, InputError> {
    let summary: Summary = serde_json::from_reader(reader.take(MAX_BYTES)).map_err(|e| {
        let message = format!("{}; give the summary that `plan --json` printed", without_place(&e));
        InputError::new(file, e.line() as u64, message)
    })?;
    if summary.format != 1 {
        let message =
            format!("format {} is unknown; make the summary with this version of evenkeel", summary.format);
        return Err(InputError::new(file, None, message));
    }
    Ok(summary)
}
