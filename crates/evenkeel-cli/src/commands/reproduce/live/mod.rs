//! `evenkeel reproduce --live`: the claims of paper 004 on real servers: nodes on this machine, each a process with sockets and
//! files of its own, written by the real client. The simulator does the same writes on servers of the same speeds.

mod nodes;
mod told;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use evenkeel::draw::{Draw, Seeded};
use evenkeel_node::node::signalled;
use evenkeel_node::write::{Item, Maintaining, Placement, PutOptions, PutReport, maintain, put};
use evenkeel_node::{Options, get};
use evenkeel_sim::papers::paper_004::live::{
    self as rules, After, CONTESTANTS, Checked, Contestant, EVEN, Round, Run, SLOTS, Seen, Setting,
};
use evenkeel_store::cluster::redirect::HELD;
use evenkeel_store::cluster::{Keel, Servers};
use evenkeel_store::{Catalogue, Source, Trust};
use futures_util::future::{ready, try_join_all};
use futures_util::{StreamExt, TryStreamExt, stream};
use hyper::HeaderMap;
use indicatif::ProgressBar;
use serde::Deserialize;
use tokio::sync::watch;

use self::nodes::Nodes;
use super::super::{Outcome, live};
use crate::cli::ReproduceArgs;
use crate::output::{Target, print, tell};

/// The papers whose claims can be checked so.
const LIVE: [&str; 1] = ["004"];
const BUCKET: &str = "reproduce";
/// Usual servers take no more than this in a second, and less where all together would keep the machine more than half busy.
const MOST_BYTES_PER_SECOND: u64 = 10_000_000;
const LEAST_BYTES_PER_SECOND: u64 = 500_000;
/// Rates are multiples of this.
const STEP_BYTES_PER_SECOND: u64 = 100_000;
/// Writes of a quick run.
const QUICK_WRITES: u32 = 60;
/// Objects that are looked at at once, or deleted from each node.
const AT_ONCE: usize = 16;
/// Nobody else writes, so nothing is an orphan.
const GRACE: Duration = Duration::from_hours(24);
/// Numbers of [`CONTESTANTS`].
const RR: usize = 0;
const MLML: usize = 1;
const MLML_OWN_LOG: usize = 7;

/// All that was measured, and what follows.
struct Report {
    setting: Setting,
    is_quick: bool,
    rounds: Vec<Round>,
    /// The runs of each round.
    live: Vec<Vec<Run>>,
    /// The same in the simulator; none of what it does not know.
    simulated: Vec<Vec<Run>>,
    claims: Vec<Checked>,
    seconds: f64,
}

pub(super) fn run(args: &ReproduceArgs) -> Result<Outcome> {
    if let Some(other) = args.papers.iter().find(|paper| !LIVE.contains(&paper.as_str())) {
        bail!("paper `{other}` cannot be checked with --live; {} can", LIVE.join(", "));
    }
    let page = args.html.as_deref().map(|path| Target::new(path, &[])).transpose()?;
    // All of it is gone when the run ends, however it ends.
    let folder = tempfile::Builder::new().prefix("evenkeel-live-").tempdir();
    let folder =
        folder.context("cannot make a folder for the data; set TMPDIR to one that can be written")?;
    let bar = super::progress_bar(0);
    let runtime = live::runtime()?;
    let report = runtime.block_on(async {
        tokio::select! {
            report = measure(folder.path(), args, &bar) => report.map(Some),
            () = signalled() => Ok(None),
        }
    });
    // Nodes that were just being started are stopped with it.
    drop(runtime);
    bar.finish_and_clear();
    let removed = folder.close().context("cannot remove the data of the run");
    let Some(report) = report? else { return Ok(Outcome::Interrupted) };
    removed?;
    if let Some(page) = page {
        let text = told::page(&report);
        page.write(|file| file.write_all(text.as_bytes()))?;
    }
    if args.json {
        print(&told::object(&report)?)?;
    } else {
        tell(&told::for_people(&report), &[args.html.as_deref()])?;
    }
    Ok(Outcome::Done)
}

async fn measure(folder: &Path, args: &ReproduceArgs, bar: &ProgressBar) -> Result<Report> {
    let begun = Instant::now();
    bar.set_message("starting nodes");
    let (at, n_servers) = (folder.join("nodes"), Setting::new(MOST_BYTES_PER_SECOND, args.seed).n_servers);
    let nodes = tokio::task::spawn_blocking(move || Nodes::start(&at, n_servers)).await??;
    let mut site = Site {
        servers: Arc::new(Servers::open(nodes.cluster())?),
        nodes,
        content: noise(args.seed),
        folder: folder.to_owned(),
        n_prefixes: 0,
    };
    bar.set_message("how fast this machine is");
    let mut setting = Setting::new(site.usual_rate(args.seed).await?, args.seed);
    let usual = if args.quick { QUICK_WRITES } else { setting.n_writes };
    setting.n_writes = args.writes.unwrap_or(usual);
    let rounds = rules::rounds(&setting, args.quick);
    let n_steps: usize = rounds.iter().map(|round| round.n_runs as usize * round.contestants.len()).sum();
    bar.set_length(n_steps as u64 + 1);
    let (mut all_live, mut all_simulated) = (Vec::new(), Vec::new());
    for round in &rounds {
        let (mut of_live, mut of_simulator) = (Vec::new(), Vec::new());
        for run in 0..round.n_runs {
            site.nodes.set_rates(&site.servers, &round.setting.rates(run)).await?;
            let (mut real, mut simulated) = (Run::default(), Run::default());
            for &number in &round.contestants {
                let contestant = &CONTESTANTS[number];
                bar.set_message(format!(
                    "{}: {}, run {} of {}",
                    round.name,
                    contestant.name,
                    run + 1,
                    round.n_runs
                ));
                real[number] = site.compete(&round.setting, contestant, run).await?;
                simulated[number] = round.setting.simulate(contestant, run)?;
                bar.inc(1);
            }
            of_live.push(real);
            of_simulator.push(simulated);
        }
        all_live.push(of_live);
        // The simulator knows of no earlier runs.
        all_simulated.push(if round.setting.keeps_log { Vec::new() } else { of_simulator });
    }
    bar.set_message("reading back, and bringing objects home");
    let after = site.after(&rounds[EVEN]).await?;
    let mut claims = rules::judge(&rounds, &all_live, &all_simulated);
    claims.extend(after.judge());
    Ok(Report {
        setting,
        is_quick: args.quick,
        rounds,
        live: all_live,
        simulated: all_simulated,
        claims,
        seconds: begun.elapsed().as_secs_f64(),
    })
}

/// What objects are cut from.
fn noise(seed: u64) -> Bytes {
    let mut noise = vec![0; 4 << 20];
    let mut draw = Seeded::new(seed);
    noise
        .chunks_mut(4)
        .for_each(|word| word.copy_from_slice(&draw.below(u32::MAX).to_le_bytes()[..word.len()]));
    noise.into()
}

/// The nodes, and what is written there.
struct Site {
    servers: Arc<Servers>,
    nodes: Nodes,
    content: Bytes,
    folder: PathBuf,
    n_prefixes: u32,
}

/// Objects of one run, with their bytes.
struct Written {
    objects: Vec<(String, Bytes)>,
    report: PutReport,
    seconds: f64,
}

/// What a log of writes says of a server.
#[derive(Deserialize)]
struct Logged {
    load: u64,
    probability: f64,
}

#[derive(Deserialize)]
struct Log {
    servers: BTreeMap<String, Logged>,
}

impl Site {
    /// What a usual server is to take in a second: little enough that the machine is not what limits them.
    async fn usual_rate(&mut self, seed: u64) -> Result<u64> {
        let setting = Setting { n_writes: 40, n_slow: 0, ..Setting::new(MOST_BYTES_PER_SECOND, seed) };
        let written = self.write(&setting, &CONTESTANTS[RR], 0, None).await?;
        let rate = written.report.bytes as f64 / written.seconds / f64::from(2 * setting.n_servers);
        self.wipe().await?;
        let rate = (rate as u64).clamp(LEAST_BYTES_PER_SECOND, MOST_BYTES_PER_SECOND);
        Ok(rate - rate % STEP_BYTES_PER_SECOND)
    }

    /// One way of writing, once.
    async fn compete(&mut self, setting: &Setting, contestant: &Contestant, run: u32) -> Result<Seen> {
        let log = setting.keeps_log.then(|| self.folder.join("log.json"));
        if let Some(log) = &log {
            // The earlier run, whose log is kept.
            self.write(setting, contestant, run, Some(log.clone())).await?;
            self.wipe().await?;
        }
        let written = self.write(setting, contestant, run, log.clone()).await?;
        self.wipe().await?;
        if let Some(log) = log {
            fs::remove_file(&log).with_context(|| format!("cannot remove {}", log.display()))?;
        }
        Ok(Seen {
            seconds: written.seconds,
            bytes: written.report.servers.iter().map(|server| server.bytes).collect(),
            n_redirected: written.report.n_redirected,
            n_probes: written.report.n_probes,
        })
    }

    /// Writes the objects of a run, whose names are such that their homes are those that the simulator has.
    async fn write(
        &mut self,
        setting: &Setting,
        contestant: &Contestant,
        run: u32,
        log: Option<PathBuf>,
    ) -> Result<Written> {
        self.n_prefixes += 1;
        let prefix = format!("{:05}/", self.n_prefixes);
        let mut objects = Vec::new();
        for (number, write) in setting.writes(run).into_iter().enumerate() {
            let names = (0..10_000).map(|k| format!("{prefix}{number:04}-{k}"));
            let is_at_home =
                |key: &String| self.servers.homes(BUCKET, key, 1).first() == Some(&write.default.index());
            let key =
                names.into_iter().find(is_at_home).context("no name has the home that it should have")?;
            let (bytes, start) = (usize::try_from(write.bytes)?, 997 * number % (1 << 20));
            let end = (start + bytes).min(self.content.len());
            objects.push((key, self.content.slice(start.min(end)..end)));
        }
        let placement: Placement = contestant.placement.parse().map_err(anyhow::Error::msg)?;
        let options = PutOptions {
            window_time: Duration::from_millis(setting.window_ms),
            slots: SLOTS as usize,
            threshold_bytes: setting.threshold_bytes,
            completions: contestant.completions,
            log,
            seed: setting.seed.wrapping_add(run.into()),
            ..PutOptions::new(placement)
        };
        let items =
            objects.iter().map(|(key, bytes)| Item { key: key.clone(), content: Arc::new(bytes.clone()) });
        let items = stream::iter(items.collect::<Vec<_>>());
        let (_stop, stopped) = watch::channel(false);
        let begun = Instant::now();
        let report = put(Arc::clone(&self.servers), BUCKET, items, &options, stopped, &mut |_| {}).await?;
        let seconds = begun.elapsed().as_secs_f64();
        if let Some(failure) = report.failures.first() {
            bail!("{} was not written by {}: {}", failure.key, contestant.name, failure.why);
        }
        Ok(Written { objects, report, seconds })
    }

    /// Deletes all that was written, so that the disk holds one run at a time.
    async fn wipe(&self) -> Result<()> {
        let wipe = self.servers.all().iter().map(async |server| {
            for prefix in ["", HELD] {
                let mut token = None;
                loop {
                    let page = server.endpoint.list(BUCKET, prefix, token.as_deref()).await?;
                    let delete = page
                        .objects
                        .iter()
                        .map(|it| server.endpoint.delete(BUCKET, &it.key, HeaderMap::new()));
                    stream::iter(delete).buffer_unordered(AT_ONCE).try_for_each(|()| ready(Ok(()))).await?;
                    token = page.next;
                    if token.is_none() {
                        break;
                    }
                }
            }
            Ok::<_, anyhow::Error>(())
        });
        try_join_all(wipe).await?;
        Ok(())
    }

    /// What comes after writing: reads, redirects that are undone, and what the paper's own log says.
    async fn after(&mut self, round: &Round) -> Result<After> {
        let setting = &round.setting;
        self.nodes.set_rates(&self.servers, &setting.rates(0)).await?;
        let log = self.folder.join("own-log.json");
        self.write(setting, &CONTESTANTS[MLML_OWN_LOG], 0, Some(log.clone())).await?;
        self.wipe().await?;
        let text = fs::read(&log).with_context(|| format!("cannot read {}", log.display()))?;
        let kept: Log = serde_json::from_slice(&text).context("the log of writes is not as it should be")?;
        let rr = self.write(setting, &CONTESTANTS[RR], 0, None).await?;
        let mlml = self.write(setting, &CONTESTANTS[MLML], 0, None).await?;
        let mut after = After {
            n_objects: mlml.objects.len() as u64,
            bytes: mlml.report.bytes,
            log: kept.servers.values().map(|server| (server.load as f64, server.probability)).collect(),
            log_bytes: text.len() as u64,
            ..After::default()
        };
        for _ in 0..round.n_runs {
            let ((of_rr, _), (of_mlml, _)) = (self.read(&rr).await?, self.read(&mlml).await?);
            after.reads.push(of_mlml / of_rr);
        }
        (after.n_redirected, after.entry_bytes) = self.entries(&mlml).await?;
        let how = Maintaining {
            prefix: prefix_of(&mlml)?.to_owned(),
            replicas: 1,
            apply: true,
            rate: None,
            grace: GRACE,
        };
        let (_stop, stopped) = watch::channel(false);
        maintain(Arc::clone(&self.servers), BUCKET, &how, stopped, &mut |_| {}).await?;
        (after.n_left, _) = self.entries(&mlml).await?;
        (_, after.n_same) = self.read(&mlml).await?;
        Ok(after)
    }

    /// How many objects of a run are elsewhere than home, and the bytes of the entries that say so.
    async fn entries(&self, written: &Written) -> Result<(u64, u64)> {
        let look = |(key, _): &(String, Bytes)| {
            let (key, home) = (key.clone(), self.servers.homes(BUCKET, key, 1).first().copied());
            async move { self.servers.look(home.unwrap_or_default(), BUCKET, &key).await }
        };
        let looks: Vec<_> = written.objects.iter().map(look).collect();
        let mut all = std::pin::pin!(stream::iter(looks).buffer_unordered(AT_ONCE));
        let (mut n, mut bytes) = (0, 0);
        while let Some(seen) = all.next().await {
            if let Some(seen) = seen?.filter(|seen| seen.redirect.is_some()) {
                (n, bytes) = (n + 1, bytes + seen.bytes);
            }
        }
        Ok((n, bytes))
    }

    /// Reads what a run wrote. Returns how long that took, and how many objects are the same, byte by byte.
    async fn read(&self, written: &Written) -> Result<(f64, u64)> {
        let prefix = prefix_of(written)?;
        let source: Box<dyn Source> =
            Box::new(Keel::new(self.nodes.cluster(), &format!("keel://{BUCKET}/{prefix}"))?);
        let to = self.folder.join("read");
        let (_stop, stopped) = watch::channel(false);
        let begun = Instant::now();
        let catalogue = Arc::new(Catalogue::of_mirrors(vec![source], Trust::Checksums).await?);
        let report = get(catalogue, &to, &Options::default(), stopped, &mut |_| {}).await?;
        let seconds = begun.elapsed().as_secs_f64();
        if let Some(failure) = report.failures.first() {
            bail!("{} was not read: {}", failure.key, failure.why);
        }
        let is_same = |(key, bytes): &&(String, Bytes)| {
            let name = key.strip_prefix(prefix).unwrap_or(key);
            fs::read(to.join(name)).is_ok_and(|read| read == *bytes)
        };
        let n_same = written.objects.iter().filter(is_same).count();
        fs::remove_dir_all(&to).with_context(|| format!("cannot remove {}", to.display()))?;
        Ok((seconds, n_same as u64))
    }
}

/// What the names of all objects of a run begin with.
fn prefix_of(written: &Written) -> Result<&str> {
    let key = written.objects.first().map(|(key, _)| key.as_str());
    key.and_then(|key| Some(&key[..=key.find('/')?])).context("nothing was written")
}
