//! `cargo xtask straggler`: one file from eight servers, one of which turns slow after a second, read with and without
//! planning anew. The picture in `docs/straggler.md` shows both.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use serde_json::Value;

use crate::cluster::cluster;
use crate::picture::{replay, take_replays};
use crate::run::{Result, output, run, target};

const BYTES: u64 = 512 << 20;
const STRAGGLER: &str = "s4";
const RATE: &str = "100mbit";
const SLOW_RATE: &str = "10mbit";
/// When it turns slow.
const AFTER: Duration = Duration::from_secs(1);
/// Times differ between runs by a second or so: an odd number, so that one is the median.
const REPEATS: usize = 3;
const PICTURE: &str = "docs/straggler.png";
/// `equi` begins with about the same shares as the optimum, since servers are equal then, and keeps them. It hedges
/// nothing either.
const RUNS: [(&str, &str); 2] =
    [("optimal", "planned anew when a server is slow"), ("equi", "the first plan kept")];

pub(crate) fn straggler(evenkeel: Option<&str>) -> Result<()> {
    let evenkeel = if let Some(evenkeel) = evenkeel {
        PathBuf::from(evenkeel)
    } else {
        run("cargo", &["build", "--release", "--quiet", "-p", "evenkeel-cli"])?;
        target().join("release/evenkeel")
    };
    let folder = std::env::temp_dir().join(format!("evenkeel-straggler-{}", std::process::id()));
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let figures = cluster(&["nginx", "up", "--rate", RATE, "--json"])
        .and_then(|printed| serde_json::from_str(&printed).map_err(|error| error.to_string()))
        .and_then(|servers| read_both(&servers, &evenkeel, &folder));
    let down = cluster(&["down"]);
    let _ = fs::remove_dir_all(&folder);
    let medians = figures?;
    down?;
    let pages: Vec<(String, &str)> = RUNS
        .iter()
        .zip(&medians)
        .map(|((_, name), (seconds, page))| (format!("{seconds:.1} s: {name}"), page.as_str()))
        .collect();
    take_replays(&pages, PICTURE)
}

/// Reads by each of [`RUNS`] in turn, [`REPEATS`] times, and prints the times. Returns the seconds and the page of each
/// policy's median run.
fn read_both(servers: &Value, evenkeel: &Path, folder: &Path) -> Result<Vec<(f64, String)>> {
    let servers = servers["servers"].as_array().map_or(&[][..], Vec::as_slice);
    let values = |name: &str| servers.iter().filter_map(|server| server[name].as_str()).collect::<Vec<_>>();
    fill(&values("folder"))?;
    let addresses = values("source");
    println!("{:<40} {:>6.2} s", "no read can take less than", bound(&addresses)?);
    let mut runs = RUNS.map(|_| Vec::new());
    for _ in 0..REPEATS {
        for ((policy, _), runs) in RUNS.iter().zip(&mut runs) {
            runs.push(read(policy, &addresses, evenkeel, folder)?);
        }
    }
    let mut medians = Vec::new();
    for ((_, name), mut runs) in RUNS.into_iter().zip(runs) {
        runs.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        let (least, most) = (runs[0].0, runs[REPEATS - 1].0);
        let median = runs.swap_remove(REPEATS / 2);
        println!("{name:<40} {:>6.2} s, the median of {REPEATS} from {least:.2} to {most:.2}", median.0);
        medians.push(median);
    }
    Ok(medians)
}

/// Reads once by a policy while a server turns slow. Returns the seconds that it took, and the page of its replay.
fn read(policy: &str, addresses: &[&str], evenkeel: &Path, folder: &Path) -> Result<(f64, String)> {
    cluster(&["shape", STRAGGLER, RATE])?;
    let to = folder.join("to");
    // That of the run before would be found and kept.
    let _ = fs::remove_dir_all(&to);
    let trace = folder.join("trace");
    let mut get = Command::new("ip");
    get.args(["netns", "exec", "ek-c1"]).arg(evenkeel).args(["get", "--trust", "sizes", "--policy", policy]);
    get.args(addresses.iter().flat_map(|address| ["--mirror", address]));
    get.arg("--trace").args([&trace, &to]);
    let reading = std::thread::spawn(move || output(&mut get));
    sleep(AFTER);
    cluster(&["shape", STRAGGLER, SLOW_RATE])?;
    reading.join().map_err(|_| "the thread that reads has panicked".to_owned())??;
    replay(evenkeel, &trace)
}

/// Puts the same file into all folders.
fn fill(folders: &[&str]) -> Result<()> {
    let first = Path::new(folders[0]).join("file");
    let mut noise = File::open("/dev/urandom").map_err(|error| error.to_string())?.take(BYTES);
    File::create(&first)
        .and_then(|mut file| std::io::copy(&mut noise, &mut file))
        .and_then(|_| {
            folders[1..].iter().try_for_each(|to| fs::hard_link(&first, Path::new(to).join("file")))
        })
        .map_err(|error| format!("{}: {error}", first.display()))
}

/// The seconds that even a reader who knows everything in advance needs: all servers at full rate, then all but one.
fn bound(addresses: &[&str]) -> Result<f64> {
    let url = format!("{}file", addresses[0]);
    let format = "%{size_download} %{time_total} %{time_starttransfer}";
    let range = format!("0-{}", (16 << 20) - 1);
    let curl = ["exec", "c1", "--", "curl", "-sS", "-o", "/dev/null", "-r", &range, "-w", format, &url];
    let told = cluster(&curl)?;
    let told: Vec<f64> = told.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let [bytes, total, start] = told[..] else { return Err(format!("curl printed {told:?}")) };
    let (rate, n) = (bytes / (total - start), addresses.len() as f64);
    let after_s = AFTER.as_secs_f64();
    Ok(after_s + (BYTES as f64 - n * rate * after_s) / ((n - 1.0 + 0.1) * rate))
}
