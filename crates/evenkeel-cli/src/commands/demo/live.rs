//! Eight nodes in this process, one of which is slow: real sockets and real disks, written and read under several policies.
//! Nobody is told which one it is.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use evenkeel::draw::{Draw, Seeded};
use evenkeel::policy;
use evenkeel_node::node::Node;
use evenkeel_node::node::up::{Up, UpSettings};
use evenkeel_node::write::{Item, Placement, PutOptions, put};
use evenkeel_node::{Options, get};
use evenkeel_store::cluster::{Cluster, Keel, Server, Servers};
use evenkeel_store::{Catalogue, Source, Trust};
use futures_util::stream;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::super::{Outcome, live, node};
use super::told;
use crate::cli::DemoArgs;
use crate::output::{Target, print, tell};

pub(super) const NODES: u32 = 8;
pub(super) const SLOW: &str = "s3";
/// Speeds as shares of 100 MB/s: slow enough that the machine does not become the limit.
const SPEED_MILLIONTHS: u64 = 100_000;
const SLOW_MILLIONTHS: u64 = SPEED_MILLIONTHS / 10;
const BYTES_PER_SECOND: f64 = 10e6;
const OBJECT_BYTES: u64 = 256 << 10;
const WRITTEN: u32 = 256;
const READ: u32 = 192;
/// Copies of what is read.
const COPIES: u32 = 2;
/// A tenth of what the whole takes: what is learnt in one window serves the next.
const WINDOW: Duration = Duration::from_millis(100);
const WRITERS: [&str; 4] = ["rr", "mlml", "trh", "nltr:2"];
const READERS: [&str; 4] = ["first", "random", "least-loaded", "optimal"];
const BUCKET: &str = "demo";
/// How often bars move.
const TICK: Duration = Duration::from_millis(100);

/// What one policy did.
#[derive(Debug, serde::Serialize)]
pub(super) struct Run {
    pub(super) policy: &'static str,
    pub(super) seconds: f64,
    /// What went to each node, or came from it.
    pub(super) bytes: Vec<u64>,
    /// Objects that were written elsewhere than at their homes.
    pub(super) redirected: u64,
}

/// All that was done.
#[derive(Debug, serde::Serialize)]
pub(super) struct Demo {
    format: u32,
    pub(super) nodes: Vec<String>,
    pub(super) slow: &'static str,
    pub(super) written_bytes: u64,
    pub(super) read_bytes: u64,
    /// What no policy can beat: the bytes over what all nodes together take in a second, or send.
    pub(super) written_bound_seconds: f64,
    pub(super) read_bound_seconds: f64,
    pub(super) writes: Vec<Run>,
    pub(super) reads: Vec<Run>,
}

pub(super) fn run(args: &DemoArgs) -> Result<Outcome> {
    let page = args.html.as_deref().map(|path| Target::new(path, &[])).transpose()?;
    // All of it is gone when the demo ends, however it ends.
    let folder = tempfile::Builder::new().prefix("evenkeel-demo-").tempdir();
    let folder =
        folder.context("cannot make a folder for the data; set TMPDIR to one that can be written")?;
    let runtime = live::runtime()?;
    let demo = runtime.block_on(async {
        let interrupted = async { tokio::signal::ctrl_c().await.is_ok() };
        tokio::select! {
            demo = show(folder.path(), args.seed) => demo.map(Some),
            _ = interrupted => Ok(None),
        }
    });
    drop(runtime);
    let removed = folder.close().context("cannot remove the data of the demo");
    let Some(demo) = demo? else { return Ok(Outcome::Interrupted) };
    removed?;
    if let Some(page) = page {
        let text = told::page(&demo);
        page.write(|file| file.write_all(text.as_bytes()))?;
    }
    if args.json {
        print(&(serde_json::to_string(&demo)? + "\n"))?;
    } else {
        tell(&told::for_people(&demo), &[args.html.as_deref()])?;
    }
    Ok(Outcome::Done)
}

async fn show(folder: &Path, seed: u64) -> Result<Demo> {
    let speed = |number: u32| {
        let name = format!("s{number}");
        let millionths = if name == SLOW { SLOW_MILLIONTHS } else { SPEED_MILLIONTHS };
        (name, millionths)
    };
    let settings = UpSettings {
        nodes: Some(NODES),
        folder: folder.join("nodes"),
        port: None,
        speeds: (1..=NODES).map(speed).collect(),
        slots: 16,
        // Nobody else moves what the policies have placed.
        upkeep: None,
        logs: false,
    };
    let up = Up::start(&settings, node::open)?;
    let done = races(&up, &folder.join("read"), seed).await;
    up.stop(Duration::from_secs(1)).await;
    done
}

async fn races(up: &Up, to: &Path, seed: u64) -> Result<Demo> {
    // Nobody knows beforehand who is slow.
    let mut cluster = Cluster::read(up.cluster())?;
    cluster.servers.iter_mut().for_each(|server| server.speed_millionths = 1_000_000);
    let servers = Arc::new(Servers::open(&cluster)?);
    let mut object = vec![0; OBJECT_BYTES as usize];
    let mut draw = Seeded::new(seed);
    object
        .chunks_mut(4)
        .for_each(|word| word.copy_from_slice(&draw.below(u32::MAX).to_le_bytes()[..word.len()]));
    let content = Bytes::from(object);
    let all = BYTES_PER_SECOND * (f64::from(NODES - 1) + SLOW_MILLIONTHS as f64 / SPEED_MILLIONTHS as f64);
    let mut demo = Demo {
        format: 1,
        nodes: cluster.servers.iter().map(|server| server.name.clone()).collect(),
        slow: SLOW,
        written_bytes: u64::from(WRITTEN) * OBJECT_BYTES,
        read_bytes: u64::from(READ) * OBJECT_BYTES,
        written_bound_seconds: f64::from(WRITTEN) * OBJECT_BYTES as f64 / all,
        read_bound_seconds: f64::from(READ) * OBJECT_BYTES as f64 / all,
        writes: Vec::new(),
        reads: Vec::new(),
    };
    for name in WRITERS {
        let bars = Bars::new(up, &format!("writing by {name}"), demo.written_bytes);
        let run = write(&servers, &content, name, WRITTEN, 1, seed).await?;
        bars.end();
        demo.writes.push(run);
    }
    // What is read is written without a limit: this is about reads.
    let rates: Vec<Option<u64>> = up.nodes().iter().map(|node| node.gate().rate()).collect();
    up.nodes().iter().for_each(|node| node.gate().set_rate(None));
    write(&servers, &content, "rr", READ, COPIES, seed).await?;
    up.nodes().iter().zip(rates).for_each(|(node, rate)| node.gate().set_rate(rate));
    for name in READERS {
        let bars = Bars::new(up, &format!("reading by {name}"), demo.read_bytes);
        let run = read(&cluster, &demo.nodes, name, to).await?;
        bars.end();
        demo.reads.push(run);
    }
    Ok(demo)
}

async fn write(
    servers: &Arc<Servers>,
    content: &Bytes,
    name: &'static str,
    n: u32,
    copies: u32,
    seed: u64,
) -> Result<Run> {
    let placement: Placement = name.parse().map_err(anyhow::Error::msg)?;
    let options = PutOptions {
        window_time: WINDOW,
        threshold_bytes: 0,
        replicas: copies,
        seed,
        ..PutOptions::new(placement)
    };
    let folder = if copies > 1 { "read" } else { name };
    let item =
        |number: u32| Item { key: format!("{folder}/{number:03}"), content: Arc::new(content.clone()) };
    let (_stop, stopped) = watch::channel(false);
    let begun = Instant::now();
    let items = stream::iter((0..n).map(item));
    let report = put(Arc::clone(servers), BUCKET, items, &options, stopped, &mut |_| {}).await?;
    if let Some(failure) = report.failures.first() {
        bail!("{} was not written: {}", failure.key, failure.why);
    }
    Ok(Run {
        policy: name,
        seconds: begun.elapsed().as_secs_f64(),
        bytes: report.servers.iter().map(|server| server.bytes).collect(),
        redirected: report.n_redirected,
    })
}

async fn read(cluster: &Cluster, nodes: &[String], name: &'static str, to: &Path) -> Result<Run> {
    let source: Box<dyn Source> = Box::new(Keel::new(cluster, &format!("keel://{BUCKET}/read/"))?);
    let policy = policy::find(name).with_context(|| format!("there is no policy {name}"))?;
    let to = to.join(name);
    let options = Options { policy, ..Options::default() };
    let (_stop, stopped) = watch::channel(false);
    let begun = Instant::now();
    let catalogue = Arc::new(Catalogue::of_mirrors(vec![source], Trust::Checksums).await?);
    let report = get(catalogue, &to, &options, stopped, &mut |_| {}).await?;
    let seconds = begun.elapsed().as_secs_f64();
    if let Some(failure) = report.failures.first() {
        bail!("{} was not read: {}", failure.key, failure.why);
    }
    let of_servers: BTreeMap<&str, u64> =
        report.servers.iter().map(|of| (of.name.as_str(), of.bytes)).collect();
    let bytes = nodes.iter().map(|node| of_servers.get(node.as_str()).copied().unwrap_or_default());
    Ok(Run { policy: name, seconds, bytes: bytes.collect(), redirected: 0 })
}

/// A bar for each node, while a policy is at work; none where nobody looks.
struct Bars {
    all: MultiProgress,
    moving: JoinHandle<()>,
}

impl Bars {
    fn new(up: &Up, what: &str, bytes: u64) -> Self {
        let all = MultiProgress::new();
        let style = |template| {
            ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
        };
        let head = all.add(ProgressBar::new(1).with_style(style("{msg} {elapsed}")));
        head.set_message(what.to_owned());
        // A node that gets twice its share fills its bar.
        let full = bytes * 2 / u64::from(NODES);
        let bar = |(node, server): (&Node, &Server)| {
            let bar = all.add(ProgressBar::new(full).with_style(style("  {msg:3} {bar:40} {bytes}")));
            bar.set_message(server.name.clone());
            let gate = Arc::clone(node.gate());
            let before = gate.load();
            (bar, gate, before.read_bytes + before.written_bytes)
        };
        let bars: Vec<_> = up.nodes().iter().zip(up.servers()).map(bar).collect();
        let moving = tokio::spawn(async move {
            loop {
                head.tick();
                for (bar, gate, before) in &bars {
                    let load = gate.load();
                    bar.set_position(load.read_bytes + load.written_bytes - before);
                }
                tokio::time::sleep(TICK).await;
            }
        });
        Self { all, moving }
    }

    fn end(self) {
        self.moving.abort();
        let _ = self.all.clear();
    }
}
