//! What `explain` advises, for `apply`: one JSON object with all changes, by name.

use std::io::{BufReader, Read};

use evenkeel::explain::Change;
use evenkeel::model::{Batch, ClientId, ExtraCopy, Move, ServerId, Speed, shown};
use serde::{Deserialize, Serialize};

use crate::batch_json::{LimitedStrings, without_place};
use crate::{Figure, InputError};

/// All advice for one batch.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct AdviceFile {
    pub format: u32,
    /// What the bounds are about: `length` or `max_load`.
    pub subject: String,
    /// The size of a block in bytes.
    pub block: u64,
    pub batch_fingerprint: String,
    /// The bound before any change.
    pub lower_bound: Figure,
    pub advice: Vec<Advice>,
}

/// A change with its name and the bound it promises. Only the fields that it changes are present.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
#[allow(missing_docs)]
pub struct Advice {
    pub name: String,
    /// The bound after the change.
    pub lower_bound: Figure,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub copies: Vec<CopyRow>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub servers: Vec<SpeedRow>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub clients: Vec<SlotsRow>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub new_client: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub moves: Vec<MoveRow>,
}

/// Blocks of a request that get one more copy.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct CopyRow {
    pub request: u32,
    pub from: String,
    pub to: String,
    pub blocks: u64,
}

/// A server that gets faster.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct SpeedRow {
    pub server: String,
    pub speed: Figure,
}

/// A client that gets more slots.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct SlotsRow {
    pub client: String,
    pub slots: u32,
}

/// Blocks of a request that another client fetches.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct MoveRow {
    pub request: u32,
    pub to: String,
    pub blocks: u64,
}

impl Advice {
    /// Describes a change with the names from `batch`.
    pub fn new(name: &str, lower_bound: Figure, batch: &Batch, change: &Change) -> Self {
        let server = |id: ServerId| batch.servers().name(id.0).to_owned();
        let mut advice = Self { name: name.to_owned(), lower_bound, ..Self::default() };
        match change {
            Change::Copies(copies) => {
                let row = |&ExtraCopy { request, from, to, blocks }: &ExtraCopy| CopyRow {
                    request,
                    from: server(from),
                    to: server(to),
                    blocks,
                };
                advice.copies = copies.iter().map(row).collect();
            }
            Change::Speed(id, speed) => {
                let speed = evenkeel::model::Ratio::new(speed.millionths().into(), 1_000_000).into();
                advice.servers = vec![SpeedRow { server: server(*id), speed }];
            }
            Change::Slots(slots) => {
                let client = |id: ClientId| batch.clients().name(id.0).to_owned();
                let row = |&(id, slots): &(ClientId, u32)| SlotsRow { client: client(id), slots };
                advice.clients = slots.iter().map(row).collect();
            }
            Change::Moves { moves, new_client } => {
                let client = |id: ClientId| match new_client {
                    Some(name) if id.index() == batch.n_clients() => name.clone(),
                    _ => batch.clients().name(id.0).to_owned(),
                };
                let row = |&Move { request, to, blocks }: &Move| MoveRow { request, to: client(to), blocks };
                advice.moves = moves.iter().map(row).collect();
                advice.new_client.clone_from(new_client);
            }
        }
        advice
    }

    /// The change that the names stand for. Fails if `batch` does not have them, or if it is not exactly one change.
    pub fn to_change(&self, batch: &Batch) -> Result<Change, String> {
        let missing = |what: &str, name: &str| format!("the batch has no {what} `{}`", shown(name));
        let server =
            |name: &str| batch.servers().find(name).map(ServerId).ok_or_else(|| missing("server", name));
        let client = |name: &str| match &self.new_client {
            Some(new) if new == name => Ok(ClientId(batch.n_clients() as u32)),
            _ => batch.clients().find(name).map(ClientId).ok_or_else(|| missing("client", name)),
        };
        let has_moves = !self.moves.is_empty() || self.new_client.is_some();
        match (self.copies.is_empty(), &self.servers[..], self.clients.is_empty(), has_moves) {
            (false, [], true, false) => {
                let copy = |row: &CopyRow| {
                    let (from, to) = (server(&row.from)?, server(&row.to)?);
                    Ok(ExtraCopy { request: row.request, from, to, blocks: row.blocks })
                };
                self.copies.iter().map(copy).collect::<Result<_, String>>().map(Change::Copies)
            }
            (true, [row], true, false) => {
                let millionths = u64::try_from(row.speed.0.nanos() / 1000).unwrap_or(u64::MAX);
                let speed = Speed::from_millionths(millionths);
                let speed = speed.ok_or_else(|| format!("the speed {} is not one", row.speed.0))?;
                Ok(Change::Speed(server(&row.server)?, speed))
            }
            (true, [], false, false) => {
                let slots = self.clients.iter().map(|row| Ok((client(&row.client)?, row.slots)));
                slots.collect::<Result<_, String>>().map(Change::Slots)
            }
            (true, [], true, true) => {
                let row = |row: &MoveRow| {
                    Ok(Move { request: row.request, to: client(&row.to)?, blocks: row.blocks })
                };
                let moves = self.moves.iter().map(row).collect::<Result<_, String>>()?;
                Ok(Change::Moves { moves, new_client: self.new_client.clone() })
            }
            _ => Err("it is not one change".to_owned()),
        }
    }
}

/// Reads the output of `explain --advice`.
pub fn read_advice(reader: impl Read, file: &str) -> Result<AdviceFile, InputError> {
    let limited = BufReader::new(LimitedStrings::new(reader));
    let advice: AdviceFile = serde_json::from_reader(limited).map_err(|e| {
        let message = format!("{}; give the file that `explain --advice` wrote", without_place(&e));
        InputError::new(file, e.line() as u64, message)
    })?;
    if advice.format != 1 {
        let message =
            format!("format {} is unknown; make the advice with this version of evenkeel", advice.format);
        return Err(InputError::new(file, None, message));
    }
    Ok(advice)
}
