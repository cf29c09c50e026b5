//! `cargo xtask slow-datanode`: a parallel program reads HDFS while one DataNode is slow, by Hadoop's own client and by an
//! assignment. The picture in `docs/slow-datanode.md` shows what DataNodes send over time.

use std::fs;
use std::path::{Path, PathBuf};

use crate::campaign;
use crate::picture::{replay, take_replays};
use crate::run::{Result, target};

const PICTURE: &str = "docs/slow-datanode.png";
/// The traces that the race of this scenario writes, and what they are of.
const SCENARIO: &str = "opass-slow";
const RUNS: [(&str, &str); 2] = [
    ("0.trace", "in order of ranks, by Hadoop's client"),
    ("1.trace", "evenkeel assign, which knows the rates of DataNodes, and cat"),
];

pub(crate) fn slow_data_node(evenkeel: Option<&str>) -> Result<()> {
    let folder = std::env::temp_dir().join(format!("evenkeel-slow-datanode-{}", std::process::id()));
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let taken = race_and_draw(evenkeel, &folder);
    let _ = fs::remove_dir_all(&folder);
    taken
}

fn race_and_draw(evenkeel: Option<&str>, folder: &Path) -> Result<()> {
    let traces = folder.display().to_string();
    let mut options = vec!["--only", SCENARIO, "--traces", &traces];
    options.extend(evenkeel.into_iter().flat_map(|evenkeel| ["--evenkeel", evenkeel]));
    campaign::live(&options)?;
    let evenkeel = evenkeel.map_or_else(|| target().join("release/evenkeel"), PathBuf::from);
    let replays = RUNS.iter().map(|(trace, _)| replay(&evenkeel, &folder.join(trace)));
    let replays = replays.collect::<Result<Vec<(f64, String)>>>()?;
    let pages: Vec<(String, &str)> = RUNS
        .iter()
        .zip(&replays)
        .map(|((_, name), (seconds, page))| (format!("{seconds:.1} s: {name}"), page.as_str()))
        .collect();
    take_replays(&pages, PICTURE)
}
