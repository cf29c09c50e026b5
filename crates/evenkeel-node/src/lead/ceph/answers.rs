//! What `ceph` prints as JSON, as far as it matters here. Other fields may come and go with versions.

use std::collections::HashMap;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::super::EngineError;

/// Reads an answer; `what` names the command or file it comes from.
pub(super) fn parse<T: DeserializeOwned>(what: &str, text: &[u8]) -> Result<T, EngineError> {
    serde_json::from_slice(text).map_err(|error| {
        EngineError(format!(
            "{what}: not what Ceph prints as JSON from Luminous on ({error}); is it complete, and of `-f json`?"
        ))
    })
}

/// `ceph osd dump`.
#[derive(Debug, Deserialize)]
pub(super) struct OsdDump {
    pub(super) fsid: String,
    #[serde(default)]
    pub(super) require_min_compat_client: String,
    #[serde(default)]
    pub(super) require_osd_release: String,
    pub(super) pools: Vec<Pool>,
    pub(super) osds: Vec<Osd>,
    #[serde(default)]
    pub(super) pg_upmap: Vec<Entry>,
    #[serde(default)]
    pub(super) pg_upmap_items: Vec<Entry>,
    #[serde(default)]
    pub(super) pg_upmap_primaries: Vec<Entry>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Pool {
    #[serde(rename = "pool", alias = "pool_id")]
    pub(super) id: u64,
    #[serde(rename = "pool_name")]
    pub(super) name: String,
    /// 1: replicated; 3: erasure-coded.
    #[serde(rename = "type")]
    pub(super) kind: u32,
}

#[derive(Debug, Deserialize)]
pub(super) struct Osd {
    #[serde(rename = "osd")]
    pub(super) id: u32,
    pub(super) up: u32,
    #[serde(rename = "in")]
    pub(super) is_in: u32,
    pub(super) weight: f64,
    pub(super) primary_affinity: f64,
}

/// An entry of the map about one group.
#[derive(Debug, Deserialize)]
pub(super) struct Entry {
    pub(super) pgid: String,
    /// All its OSDs in order, or only the primary.
    #[serde(default)]
    osds: Vec<u32>,
    primary_osd: Option<u32>,
}

impl Entry {
    fn primary(&self) -> Option<u32> {
        self.primary_osd.or(self.osds.first().copied())
    }
}

impl OsdDump {
    /// A group that is led by another of its OSDs than the map says: the manager has not heard of it yet.
    pub(super) fn unheard<'a>(&self, entries: &[Entry], groups: &'a [Pg]) -> Option<&'a str> {
        let wanted: HashMap<&str, u32> =
            entries.iter().filter_map(|entry| Some((&*entry.pgid, entry.primary()?))).collect();
        let leads = |id: u32| {
            let mut osds = self.osds.iter();
            osds.any(|osd| osd.id == id && osd.up == 1 && osd.primary_affinity >= 1.0)
        };
        let is_unheard = |group: &&Pg| {
            wanted.get(&*group.pgid).is_some_and(|&primary| {
                let (found, primary_id) = (group.acting_primary, i64::from(primary));
                found != primary_id && group.acting.contains(&primary_id) && leads(primary)
            })
        };
        groups.iter().find(is_unheard).map(|group| &*group.pgid)
    }
}

/// `ceph pg dump pgs` or `pgs_brief`: of one version or another, or `ceph pg dump` as a whole.
pub(super) fn groups(what: &str, text: &[u8]) -> Result<Vec<Pg>, EngineError> {
    #[derive(Deserialize)]
    struct Stats {
        pg_ready: Option<bool>,
        pg_stats: Vec<Pg>,
    }
    #[derive(Deserialize)]
    struct All {
        pg_map: Stats,
    }
    if text.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[') {
        return parse(what, text);
    }
    let stats = parse::<Stats>(what, text);
    let stats = stats.or_else(|error| parse::<All>(what, text).map(|all| all.pg_map).map_err(|_| error))?;
    if stats.pg_ready == Some(false) {
        return Err(EngineError(format!(
            "{what}: the manager has not heard of all groups yet; try again in a minute"
        )));
    }
    Ok(stats.pg_stats)
}

/// A placement group.
#[derive(Debug, Deserialize)]
pub(super) struct Pg {
    pub(super) pgid: String,
    pub(super) state: String,
    pub(super) up: Vec<i64>,
    pub(super) acting: Vec<i64>,
    pub(super) acting_primary: i64,
    pub(super) stat_sum: Option<StatSum>,
}

impl Pg {
    /// The number of its pool.
    pub(super) fn pool(&self) -> Option<u64> {
        self.pgid.split_once('.').and_then(|(pool, _)| pool.parse().ok())
    }

    pub(super) fn is_clean(&self) -> bool {
        let mut words = self.state.split('+');
        let is_active = self.state.split('+').any(|word| word == "active");
        is_active && words.any(|word| word == "clean") && self.up == self.acting
    }
}

#[derive(Clone, Copy, Debug, Deserialize)]
pub(super) struct StatSum {
    #[serde(deserialize_with = "at_least_zero")]
    pub(super) num_bytes: u64,
    #[serde(deserialize_with = "at_least_zero")]
    pub(super) num_read_kb: u64,
}

/// Statistics that are being repaired may be negative.
fn at_least_zero<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    i64::deserialize(deserializer).map(|number| number.max(0) as u64)
}

/// `ceph osd tree`.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Tree {
    pub(super) nodes: Vec<Node>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Node {
    pub(super) id: i64,
    pub(super) device_class: Option<String>,
}

/// `ceph balancer status`.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Balancer {
    pub(super) active: bool,
    pub(super) mode: String,
}

/// `ceph features`: who is connected, by kind.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Features {
    #[serde(default)]
    pub(super) client: Vec<Connected>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Connected {
    pub(super) release: String,
    pub(super) num: u64,
}

/// `ceph config dump`.
#[derive(Debug, Deserialize)]
pub(super) struct Setting {
    pub(super) section: String,
    pub(super) name: String,
    pub(super) value: String,
}

/// The OSDs of each group as CRUSH alone has it, from `osdmaptool --test-map-pgs-dump-all`.
pub(super) fn crush_sets(text: &str) -> HashMap<String, Vec<u32>> {
    let set = |line: &str| {
        let (pgid, rest) = line.split_once(" raw ([")?;
        let (set, _) = rest.split_once(']')?;
        let set: Option<Vec<u32>> = set.split(',').map(|osd| osd.trim().parse().ok()).collect();
        Some((pgid.to_owned(), set?))
    };
    text.lines().filter_map(set).collect()
}
