//! Ceph: the primary of each placement group serves its reads.
//!
//! Read and changed by the `ceph` command, as its operators do. From Reef on a map says who is the primary of a group
//! (`pg-upmap-primary`). From Luminous to Quincy it can list a group's OSDs (`pg-upmap`), the primary first: the same
//! OSDs in another order, so that no data moves. An entry is taken away again only where CRUSH alone has the same OSDs
//! with the wanted primary first, which `osdmaptool` tells.

mod access;
mod answers;
mod caution;
#[doc(hidden)]
pub mod fuzz;
mod groups;
mod measure;
mod served;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use async_trait::async_trait;

use super::{Change, Engine, EngineError, Look, Script};
use crate::Measurement;
pub use access::Client;
use answers::{Balancer, Entry, Features, OsdDump, Pg, Setting, Tree, parse};
use caution::release;
pub use measure::{PART_BYTES, WINDOW};
use served::Served;

/// How often is asked whether groups have settled.
const POLL: Duration = Duration::from_millis(500);

/// OSDs tell the manager every five seconds who leads what.
const HEARSAY: Duration = Duration::from_secs(10);

/// The files that are read in a folder, if they are there; the first two must be.
pub const FILES: [&str; 6] = [
    "osd-dump.json",
    "pg-dump.json",
    "osd-tree.json",
    "balancer-status.json",
    "features.json",
    "config-dump.json",
];

const NO_FILES: &str =
    "files cannot be changed or measured; run it where the `ceph` command works, without --from";

/// What a group weighs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weigh {
    /// One each.
    Count,
    /// The bytes that it holds.
    Bytes,
    /// What was read of it lately.
    Reads,
}

/// Where answers come from.
#[derive(Clone, Debug)]
pub enum Access {
    /// The cluster itself.
    Live(Client),
    /// A folder of what `ceph` printed; to weigh reads, two folders, the earlier first.
    Files(Vec<PathBuf>),
}

/// What is looked at, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where answers come from.
    pub access: Access,
    /// Only these pools; all if empty.
    pub pools: Vec<String>,
    /// What groups weigh.
    pub weigh: Weigh,
    /// For how long reads are counted at least.
    pub over: Duration,
    /// Speeds of device classes, such as `ssd`.
    pub class_speeds: BTreeMap<String, f64>,
    /// Change things even if Ceph's own balancer would undo it.
    pub despite_balancer: bool,
}

/// How a cluster is told who leads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Method {
    /// `pg-upmap`: all OSDs of a group, in order.
    #[default]
    Upmap,
    /// `pg-upmap-primary`.
    Primary,
}

/// A Ceph cluster.
#[derive(Debug)]
pub struct Ceph {
    options: Options,
    /// What the last look found that commands depend on.
    method: Method,
    /// Groups with an entry that says who leads, and those of them whose set CRUSH alone would give, by its order.
    entries: HashMap<String, Option<Vec<u32>>>,
    /// Groups that were changed by us before: an entry of another is an operator's, and is not removed.
    ours: HashSet<String>,
    reads: Reads,
    served: Served,
}

/// What was read of each group.
#[derive(Debug, Default)]
struct Reads {
    since: Option<Instant>,
    counts_kb: HashMap<String, u64>,
    weights: HashMap<String, u64>,
}

/// All that is asked for in one look.
#[derive(Debug)]
struct Answers {
    osds: OsdDump,
    groups: Vec<Pg>,
    tree: Tree,
    /// None if the manager has no balancer that answers.
    balancer: Option<Balancer>,
    features: Features,
    settings: Vec<Setting>,
}

impl Ceph {
    /// A cluster; nothing is asked yet.
    pub fn new(options: Options) -> Self {
        let (method, entries, ours) = (Method::default(), HashMap::new(), HashSet::new());
        Self { options, method, entries, ours, reads: Reads::default(), served: Served::default() }
    }

    fn client(&self) -> Result<&Client, EngineError> {
        match &self.options.access {
            Access::Live(client) => Ok(client),
            Access::Files(_) => Err(EngineError(NO_FILES.to_owned())),
        }
    }

    async fn ask(&self) -> Result<Answers, EngineError> {
        let folder = match &self.options.access {
            Access::Live(client) => return ask_settled(client, self.options.weigh).await,
            Access::Files(folders) => folders.last().cloned().unwrap_or_default(),
        };
        let needed = |name: &str| {
            let missing = || {
                let command = name.trim_end_matches(".json").replace('-', " ");
                let file = folder.join(name);
                EngineError(format!("{}: no such file; make it by `ceph {command} -f json`", file.display()))
            };
            access::file(&folder, name)?.ok_or_else(missing)
        };
        let optional = |name: &str| access::file(&folder, name);
        Ok(Answers {
            osds: parse("osd-dump.json", &needed("osd-dump.json")?)?,
            groups: answers::groups("pg-dump.json", &needed("pg-dump.json")?)?,
            tree: parse_if("osd-tree.json", optional("osd-tree.json")?)?,
            balancer: Some(parse_if("balancer-status.json", optional("balancer-status.json")?)?),
            features: parse_if("features.json", optional("features.json")?)?,
            settings: parse_if("config-dump.json", optional("config-dump.json")?)?,
        })
    }

    /// The OSDs of all groups as CRUSH alone has them, if `osdmaptool` is there to tell.
    async fn crush_sets(&self) -> Option<HashMap<String, Vec<u32>>> {
        let Access::Live(client) = &self.options.access else { return None };
        // A folder of its own, which nobody else can write to, and which goes away.
        let folder = tempfile::tempdir().ok()?;
        let path = folder.path().join("osdmap").display().to_string();
        let asked = async {
            client.ceph(&["osd", "getmap", "-o", &path]).await.ok()?;
            // It takes no options of a client.
            let bare = Client { patience: client.patience, ..Client::default() };
            let mut command = bare.command("osdmaptool");
            command.args([&path, "--test-map-pgs-dump-all"]);
            bare.output(command, "osdmaptool").await.ok()
        };
        Some(answers::crush_sets(&String::from_utf8_lossy(&asked.await?)))
    }

    /// What each group weighs. To weigh reads for the first time, it waits and looks again.
    async fn weigh(&mut self, answers: Answers) -> Result<(Answers, HashMap<String, u64>), EngineError> {
        if self.options.weigh != Weigh::Reads {
            return Ok((answers, HashMap::new()));
        }
        let mut answers = answers;
        match (&self.options.access, self.reads.since) {
            (Access::Files(folders), _) => {
                let [earlier, _] = &folders[..] else {
                    return Err(EngineError(
                        "to weigh reads, files of two looks are needed; name two folders, --from EARLIER --from LATER"
                            .to_owned(),
                    ));
                };
                let text = access::file(earlier, "pg-dump.json")?;
                let earlier = answers::groups("pg-dump.json", &text.unwrap_or_default())?;
                self.reads.count(&earlier);
                self.reads.count(&answers.groups);
            }
            (Access::Live(_), None) => {
                self.reads.count(&answers.groups);
                tokio::time::sleep(self.options.over).await;
                answers = self.ask().await?;
                self.reads.count(&answers.groups);
            }
            (Access::Live(_), Some(since)) => {
                if since.elapsed() >= self.options.over {
                    self.reads.count(&answers.groups);
                }
            }
        }
        Ok((answers, self.reads.weights.clone()))
    }
}

impl Reads {
    /// Takes note of the counters: what was read since the last time is what groups weigh now.
    fn count(&mut self, groups: &[Pg]) {
        for group in groups {
            let Some(now_kb) = group.stat_sum.map(|sum| sum.num_read_kb) else { continue };
            // A new primary may know less of what was read; the group weighs what it did until it is counted again.
            let before_kb = self.counts_kb.insert(group.pgid.clone(), now_kb);
            if let Some(read_kb) = before_kb.and_then(|before_kb| now_kb.checked_sub(before_kb)) {
                self.weights.insert(group.pgid.clone(), read_kb.saturating_mul(1024));
            }
        }
        self.since = Some(Instant::now());
    }
}

/// Asks again for a while if the manager has not heard yet of changes that are in the map: a command that was stopped has made
/// them a moment ago.
async fn ask_settled(client: &Client, weigh: Weigh) -> Result<Answers, EngineError> {
    let deadline = Instant::now() + HEARSAY;
    loop {
        let answers = ask_live(client, weigh).await?;
        let unheard = answers.osds.unheard(entries(&answers.osds), &answers.groups);
        if unheard.is_none() || Instant::now() > deadline {
            return Ok(answers);
        }
        tokio::time::sleep(POLL).await;
    }
}

/// How such a cluster is told who leads.
fn method(osds: &OsdDump) -> Method {
    if release(&osds.require_osd_release) >= release("reef") { Method::Primary } else { Method::Upmap }
}

/// What its map says of who leads.
fn entries(osds: &OsdDump) -> &[Entry] {
    match method(osds) {
        Method::Primary => &osds.pg_upmap_primaries,
        Method::Upmap => &osds.pg_upmap,
    }
}

async fn ask_live(client: &Client, weigh: Weigh) -> Result<Answers, EngineError> {
    const OSD_DUMP: [&str; 4] = ["osd", "dump", "-f", "json"];
    let groups = if weigh == Weigh::Count { "pgs_brief" } else { "pgs" };
    // Groups first: a pool that is deleted meanwhile is then missing in the map, and not the other way round.
    let printed = client.ceph(&["pg", "dump", groups, "-f", "json"]).await?;
    let groups = answers::groups("ceph pg dump", &printed)?;
    drop(printed);
    let (osds, tree, balancer, features, settings) = tokio::join!(
        client.ceph(&OSD_DUMP),
        client.ceph(&["osd", "tree", "-f", "json"]),
        client.ceph(&["balancer", "status", "-f", "json"]),
        client.ceph(&["features", "-f", "json"]),
        client.ceph(&["config", "dump", "-f", "json"]),
    );
    Ok(Answers {
        osds: parse("ceph osd dump", &osds?)?,
        groups,
        tree: parse("ceph osd tree", &tree?)?,
        balancer: balancer.ok().map(|text| parse("ceph balancer status", &text)).transpose()?,
        features: parse("ceph features", &features?)?,
        settings: parse("ceph config dump", &settings?)?,
    })
}

fn parse_if<T: serde::de::DeserializeOwned + Default>(
    what: &str,
    text: Option<Vec<u8>>,
) -> Result<T, EngineError> {
    text.map_or_else(|| Ok(T::default()), |text| parse(what, &text))
}

#[async_trait]
impl Engine for Ceph {
    fn name(&self) -> &'static str {
        "ceph"
    }

    async fn look(&mut self) -> Result<Look, EngineError> {
        let answers = self.ask().await?;
        let (answers, read) = self.weigh(answers).await?;
        let Answers { osds, groups: placed, tree, balancer, features, settings } = answers;
        self.served.count(&placed);
        self.method = method(&osds);
        self.entries = entries(&osds).iter().map(|entry| (entry.pgid.clone(), None)).collect();
        if !self.entries.is_empty()
            && let Some(mut sets) = self.crush_sets().await
        {
            // With other entries, CRUSH is not all there is.
            let others = osds.pg_upmap_items.iter().map(|entry| &entry.pgid);
            let others: HashSet<&String> = match self.method {
                Method::Upmap => others.collect(),
                Method::Primary => others.chain(osds.pg_upmap.iter().map(|entry| &entry.pgid)).collect(),
            };
            for (pgid, set) in &mut self.entries {
                *set = sets.remove(pgid).filter(|_| !others.contains(pgid));
            }
        }
        let mut look = Look {
            store: osds.fsid.clone(),
            servers: groups::members(&osds, &tree, &self.options.class_speeds),
            refusals: caution::refusals(&osds, balancer.as_ref(), &features, self.options.despite_balancer),
            remarks: caution::remarks(&settings, &tree, &self.options.class_speeds),
            ..Look::default()
        };
        groups::add_groups(&mut look, &osds, placed, &self.options, &read)?;
        if matches!(self.options.access, Access::Files(_)) {
            look.refusals.push(NO_FILES.to_owned());
        }
        Ok(look)
    }

    fn commands(&self, _look: &Look, changes: &[Change]) -> Result<Vec<Script>, EngineError> {
        let mut text = "#!/bin/sh\n# The same OSDs lead other groups; no data moves.\nset -eu\n".to_owned();
        let options = match &self.options.access {
            Access::Live(client) => client.options(),
            Access::Files(_) => Vec::new(),
        };
        let options: String = options.iter().fold(String::new(), |text, option| text + " " + &quoted(option));
        for change in changes {
            let args = self.args(change)?.join(" ");
            let _ = writeln!(text, "ceph{options} {args}  # {} -> {}", change.from, change.to);
        }
        Ok(vec![Script { kind: "commands", text }])
    }

    fn recorded(&mut self, groups: &HashSet<String>) {
        self.ours.clone_from(groups);
    }

    async fn apply(&mut self, _look: &Look, changes: &[Change]) -> Result<(), EngineError> {
        let client = self.client()?;
        for change in changes {
            let args = self.args(change)?;
            client.ceph(&args.iter().map(String::as_str).collect::<Vec<_>>()).await?;
        }
        let deadline = Instant::now() + client.patience;
        loop {
            let printed = client.ceph(&["pg", "dump", "pgs_brief", "-f", "json"]).await?;
            let groups = answers::groups("ceph pg dump", &printed)?;
            match unsettled(&groups, changes) {
                None => return Ok(()),
                Some(reason) if Instant::now() > deadline => {
                    let seconds = client.patience.as_secs();
                    return Err(EngineError(format!("{reason}, {seconds} s after it was told to change")));
                }
                Some(_) => tokio::time::sleep(POLL).await,
            }
        }
    }

    async fn measure(&mut self, look: &Look) -> Result<Vec<Measurement>, EngineError> {
        measure::measure(self.client()?, look, Duration::MAX).await
    }

    async fn measure_briefly(&mut self, look: &Look) -> Result<Vec<Measurement>, EngineError> {
        let mut measured = measure::measure(self.client()?, look, measure::BRIEF).await?;
        for (measured, served) in measured.iter_mut().zip(self.served.rates(look)) {
            measured.rate = measured.rate.map(|rate| rate + served);
        }
        Ok(measured)
    }
}

impl Ceph {
    /// What `ceph` is told to make a change.
    fn args(&self, change: &Change) -> Result<Vec<String>, EngineError> {
        if !change.is_a_reordering() {
            return Err(EngineError(format!("group {} would get other OSDs", change.group)));
        }
        let number = |name: &String| {
            let number: Option<u32> = name.strip_prefix("osd.").and_then(|number| number.parse().ok());
            number.ok_or_else(|| EngineError(format!("`{name}` is no OSD; OSDs are called osd.0 and so on")))
        };
        let after: Vec<u32> = change.after.iter().map(number).collect::<Result<_, _>>()?;
        let to = number(&change.to)?;
        let entry = self.entries.get(&change.group).filter(|_| self.ours.contains(&change.group));
        let crush_has_it = entry.and_then(Option::as_ref).is_some_and(|set| {
            let same = |a: &[u32], b: &[u32]| a.len() == b.len() && a.iter().all(|osd| b.contains(osd));
            set.first() == Some(&to) && same(set, &after) && same(&after, set)
        });
        let mut args = vec!["osd".to_owned()];
        args.extend(match (self.method, crush_has_it) {
            (Method::Upmap, true) => vec!["rm-pg-upmap".to_owned(), change.group.clone()],
            (Method::Primary, true) => vec!["rm-pg-upmap-primary".to_owned(), change.group.clone()],
            (Method::Primary, false) => {
                vec!["pg-upmap-primary".to_owned(), change.group.clone(), to.to_string()]
            }
            (Method::Upmap, false) => {
                let osds = after.iter().map(u32::to_string);
                ["pg-upmap".to_owned(), change.group.clone()].into_iter().chain(osds).collect()
            }
        });
        Ok(args)
    }
}

/// Why changes have not been carried out yet.
fn unsettled(groups: &[Pg], changes: &[Change]) -> Option<String> {
    let groups: HashMap<&str, &Pg> = groups.iter().map(|group| (&*group.pgid, group)).collect();
    changes.iter().find_map(|change| {
        let Change { group, to, .. } = change;
        match groups.get(&**group) {
            None => Some(format!("group {group} is gone")),
            Some(found) if format!("osd.{}", found.acting_primary) != *to => {
                Some(format!("group {group} is led by osd.{}, not by {to}", found.acting_primary))
            }
            Some(found) if !found.is_clean() => Some(format!("group {group} is {}", found.state)),
            Some(_) => None,
        }
    })
}

/// A word as a shell reads it.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:".contains(c);
    if word.chars().all(is_plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `osdmaptool` prints, with a group in a pool of two replicas and one that CRUSH cannot place.
    const PRINTED: &str = "osdmaptool: osdmap file 'osdmap'
pool 1 pg_num 4
1.0 raw ([2,0,1], p2) up ([2,0,1], p2) acting ([0,2,1], p0)
1.1 raw ([1,2], p1) up ([1,2], p1) acting ([1,2], p1)
1.2 raw ([0,2147483647,1], p0) up ([0,2147483647,1], p0) acting ([0,2147483647,1], p0)
1.3 raw ([3,0,1], p3) up ([2,0,1], p2) acting ([2,0,1], p2)
#osd\tcount\tfirst\tprimary\tc wt\twt
osd.0\t4\t1\t1\t0.0039\t1
";

    fn change(group: &str, to: u32, after: &[u32]) -> Change {
        let name = |osd: &u32| format!("osd.{osd}");
        let after: Vec<String> = after.iter().map(name).collect();
        let before = after.iter().rev().cloned().collect::<Vec<_>>();
        Change { group: group.to_owned(), from: before[0].clone(), to: name(&to), before, after }
    }

    /// An entry goes only where CRUSH alone has the same OSDs and the wanted primary, and only if it is ours: anything else
    /// would move data, or undo what an operator did.
    #[test]
    fn only_our_own_entries_are_removed_and_only_where_no_data_moves() {
        let sets = answers::crush_sets(PRINTED);
        assert_eq!((&sets["1.0"], &sets["1.1"]), (&vec![2, 0, 1], &vec![1, 2]));
        let access = Access::Files(Vec::new());
        let (pools, class_speeds, over) = (Vec::new(), BTreeMap::new(), Duration::ZERO);
        let weigh = Weigh::Count;
        let mut ceph =
            Ceph::new(Options { access, pools, weigh, over, class_speeds, despite_balancer: false });
        ceph.entries = sets.into_iter().map(|(group, set)| (group, Some(set))).collect();
        ceph.entries.insert("1.4".to_owned(), None);
        let (all, none): (HashSet<String>, HashSet<String>) =
            (ceph.entries.keys().cloned().chain(["1.5".to_owned()]).collect(), HashSet::new());
        let cases: [(Change, bool, &str, &str); 6] = [
            (change("1.0", 2, &[2, 1, 0]), true, "rm-pg-upmap 1.0", "rm-pg-upmap-primary 1.0"),
            (change("1.0", 2, &[2, 1, 0]), false, "pg-upmap 1.0 2 1 0", "pg-upmap-primary 1.0 2"),
            // CRUSH has another primary, or other OSDs, or is not known, or there is no entry.
            (change("1.0", 0, &[0, 1, 2]), true, "pg-upmap 1.0 0 1 2", "pg-upmap-primary 1.0 0"),
            (change("1.3", 2, &[2, 0, 1]), true, "pg-upmap 1.3 2 0 1", "pg-upmap-primary 1.3 2"),
            (change("1.4", 2, &[2, 0, 1]), true, "pg-upmap 1.4 2 0 1", "pg-upmap-primary 1.4 2"),
            (change("1.5", 2, &[2, 0, 1]), true, "pg-upmap 1.5 2 0 1", "pg-upmap-primary 1.5 2"),
        ];
        for (change, is_ours, upmap, primary) in cases {
            ceph.recorded(if is_ours { &all } else { &none });
            for (method, expected) in [(Method::Upmap, upmap), (Method::Primary, primary)] {
                ceph.method = method;
                assert_eq!(ceph.args(&change).unwrap().join(" "), format!("osd {expected}"));
            }
        }
        let moves = Change { before: vec!["osd.0".to_owned()], ..change("1.0", 2, &[2, 1, 0]) };
        assert!(ceph.args(&moves).unwrap_err().0.contains("would get other OSDs"));
    }
}
