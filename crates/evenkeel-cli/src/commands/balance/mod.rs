//! `evenkeel balance`: who leads, in stores where one server leads each group of data.

mod report;
pub(super) mod store;
mod watch;

use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow, bail};
use evenkeel::model::{Server, Speed};
use evenkeel_formats::{Nodes, Reading, read_servers};
use evenkeel_node::lead::{self, Change, Engine, Lock, Look, Record, Script};
use indicatif::{ProgressBar, ProgressStyle};

use super::{Outcome, live};
use crate::cli::{BalanceArgs, BalanceStore, LeadArgs};
use crate::input::Source;
use crate::output::{printable, targets, tell, warn};
use crate::text::counted;
use report::Report;
use store::Store;

pub(super) fn run(args: &BalanceArgs) -> Result<Outcome> {
    let (store, args) = match &args.store {
        BalanceStore::Ceph { store, balance } => (Store::ceph(store), balance),
        BalanceStore::Kafka { store, balance } => (Store::kafka(store)?, balance),
    };
    if args.apply && store.is_files {
        bail!("files cannot be changed; leave out --apply, or run it where the cluster can be reached");
    }
    if let Some(filter) = store.filter.filter(|_| args.undo.is_some()) {
        bail!("--undo takes back all that its file tells of; leave out {filter}");
    }
    live::runtime()?.block_on(async {
        match args.watch.watch {
            true => watch::run(store, args).await,
            false => balance(store, args).await,
        }
    })
}

async fn balance(mut store: Store, args: &LeadArgs) -> Result<Outcome> {
    let files = store.inputs.clone();
    let named = [args.servers.as_deref(), args.undo.as_deref()];
    let inputs: Vec<&Path> = named.into_iter().flatten().chain(files.iter().map(PathBuf::as_path)).collect();
    // Before anything is asked, so that a wrong name is told at once. Several scripts have names of their own.
    targets([("--out", args.out.as_deref())], &inputs)?;
    if let Some(file) = args.undo.as_ref().filter(|file| !file.exists()) {
        bail!("{}: no such file; name the undo file of an earlier --apply", file.display());
    }
    let file = args.undo.clone().unwrap_or_else(|| record_file(args, &*store.engine));
    // Before the look: what an earlier command has begun is to be seen in it.
    let lock = if args.apply { Some(Lock::wait(&file).await?) } else { None };
    let look = store.engine.look().await?;
    if let Some(file) = &args.undo {
        return undo(store, args, &look, (file, lock), &inputs).await;
    }
    let mut considered = look.clone();
    let speeds = Speeds::new(args.servers.as_deref(), &mut considered, store.is_in_bytes)?;
    let planned = lead::plan(&considered, speeds.servers.clone(), speeds.rates.clone(), &args.wish())?;
    let mut report = Report::new(&store, &considered, &speeds, &planned, &args.wish());
    if !args.json {
        let text = report.for_people(&considered);
        tell(&printable(&text), &[args.out.as_deref()])?;
    }
    if let Some(out) = &args.out {
        write_scripts(&store.engine.commands(&look, &planned.changes)?, out, &inputs)?;
        if out != Path::new("-") {
            let back: Vec<Change> = planned.changes.iter().map(Change::reversed).collect();
            let extension = out.extension().and_then(|extension| extension.to_str());
            let undo = extension.map_or_else(|| "undo".to_owned(), |extension| format!("undo.{extension}"));
            write_scripts(&store.engine.commands(&look, &back)?, &out.with_extension(undo), &inputs)?;
        }
    }
    let outcome = match lock {
        Some(lock) => apply(&mut store, args, &look, &planned.changes, (&file, lock), &mut report).await?,
        None => Outcome::Done,
    };
    if args.json {
        tell(&(serde_json::to_string(&report)? + "\n"), &[args.out.as_deref()])?;
    } else if !args.apply && args.out.is_none() && !planned.changes.is_empty() {
        tell("Nothing was changed. --out FILE writes commands to review, --apply carries them out.\n", &[])?;
    }
    Ok(outcome)
}

/// Carries changes out, and tells what came of it.
async fn apply(
    store: &mut Store,
    args: &LeadArgs,
    look: &Look,
    changes: &[Change],
    (file, lock): (&Path, Lock),
    report: &mut Report,
) -> Result<Outcome> {
    if !look.refusals.is_empty() {
        refuse(look)?;
        return Ok(Outcome::Failed);
    }
    let mut record = Record::locked(lock, &*store.engine, look)?;
    // Written even if nothing is to change, so that it is there for whoever relies on it.
    record.add(&[])?;
    let made = carry_out(&mut *store.engine, look, changes, &mut record, args).await?;
    report.made(made, file);
    if made && !args.json && !changes.is_empty() {
        let n = counted(changes.len() as u64, "change");
        tell(&format!("{n} made; `--undo {} --apply` takes back what changed\n", file.display()), &[])?;
    }
    Ok(if made { Outcome::Done } else { Outcome::Failed })
}

/// Makes changes with a bar. Returns false, and says why, if they were stopped.
async fn carry_out(
    engine: &mut dyn Engine,
    look: &Look,
    changes: &[Change],
    record: &mut Record,
    args: &LeadArgs,
) -> Result<bool> {
    if changes.is_empty() {
        return Ok(true);
    }
    let bar = ProgressBar::new(changes.len() as u64);
    bar.set_style(ProgressStyle::with_template("{wide_bar} {pos}/{len} changes {elapsed}")?);
    bar.tick();
    let told = |n_done: usize| bar.set_position(n_done as u64);
    let result = lead::carry_out(engine, look, changes, record, args.step as usize, told).await;
    bar.finish_and_clear();
    if let Err(error) = &result {
        warn(&printable(&error.to_string()))?;
    }
    Ok(result.is_ok())
}

fn refuse(look: &Look) -> Result<()> {
    Ok(look.refusals.iter().try_for_each(|refusal| warn(&format!("refused: {}", printable(refusal))))?)
}

fn record_file(args: &LeadArgs, engine: &dyn Engine) -> PathBuf {
    args.record.clone().unwrap_or_else(|| format!("evenkeel-undo-{}.json", engine.name()).into())
}

/// Takes back what a record tells of, or shows what that would be.
async fn undo(
    mut store: Store,
    args: &LeadArgs,
    look: &Look,
    (file, lock): (&Path, Option<Lock>),
    inputs: &[&Path],
) -> Result<Outcome> {
    let mut record = match lock {
        Some(lock) => Record::locked(lock, &*store.engine, look)?,
        None => Record::view(file, &*store.engine, look)?,
    };
    let undo = record.undo(look);
    // What is written is what would be carried out.
    store.engine.recorded(&record.groups().map(str::to_owned).collect());
    if let Some(out) = &args.out {
        write_scripts(&store.engine.commands(look, &undo.changes)?, out, inputs)?;
    }
    let mut is_done = undo.refused.is_empty() && undo.kept.is_empty();
    for refused in &undo.refused {
        warn(&format!("refused: {}; undoing it would move data", printable(refused)))?;
    }
    for kept in &undo.kept {
        warn(&format!("left as it is: {}", printable(kept)))?;
    }
    let mut n_made = 0;
    if args.apply && !look.refusals.is_empty() {
        refuse(look)?;
        is_done = false;
    } else if args.apply {
        let made = carry_out(&mut *store.engine, look, &undo.changes, &mut record, args).await?;
        n_made = if made { undo.changes.len() } else { 0 };
        is_done &= made;
    }
    let text = match args.json {
        true => serde_json::to_string(&report::Undone::new(&undo, n_made))? + "\n",
        false => report::undone(&undo, record.len(), args.apply.then_some(n_made)),
    };
    tell(&printable(&text), &[args.out.as_deref()])?;
    Ok(if is_done { Outcome::Done } else { Outcome::Failed })
}

/// Writes what an operator would run: one file, or several beside each other, each named by what it is.
fn write_scripts(scripts: &[Script], out: &Path, inputs: &[&Path]) -> Result<()> {
    if scripts.len() > 1 && out == Path::new("-") {
        bail!(
            "there are {} files to write, which tools take one by one; name a file for --out",
            scripts.len()
        );
    }
    for script in scripts {
        let path = if scripts.len() == 1 {
            out.to_owned()
        } else {
            let extension = out.extension().and_then(|extension| extension.to_str()).unwrap_or("json");
            out.with_extension(format!("{}.{extension}", script.kind))
        };
        if Record::is_one(&path) {
            bail!(
                "{}: it is an undo file, which is not replaced; name another file for --out",
                path.display()
            );
        }
        let [target] = targets([("--out", Some(&*path))], inputs)?;
        if let Some(target) = target {
            target.write(|file| file.write_all(script.text.as_bytes()))?;
        }
    }
    Ok(())
}

/// How fast servers are.
#[derive(Debug)]
pub(super) struct Speeds {
    /// In the order of the look.
    pub(super) servers: Vec<Server>,
    /// Bytes a second, if times are seconds.
    pub(super) rates: Vec<u64>,
}

impl Speeds {
    /// What the servers file says, else what the store tells. Those that must not lead are taken out of the look.
    pub(super) fn new(file: Option<&Path>, look: &mut Look, is_in_bytes: bool) -> Result<Self> {
        let Some(path) = file else {
            let speed = |speed: Option<f64>| relative(speed.unwrap_or(1.0), 1.0);
            let server = |speed| Server { speed, ..Server::default() };
            let servers = look.servers.iter().map(|member| server(speed(member.speed))).collect();
            return Ok(Self { servers, rates: Vec::new() });
        };
        let Source { name, reader } = Source::open(path)?;
        let nodes = read_servers(reader, &Reading::of(&name))?;
        if let Some(unknown) = nodes.names.iter().find(|name| !look.servers.iter().any(|s| s.name == *name)) {
            let first = look.servers.first().map_or("", |server| &server.name);
            bail!("{name}: there is no server `{unknown}`; servers are called as in {first}");
        }
        let mut speeds = Self { servers: Vec::new(), rates: Vec::new() };
        let fastest = nodes.rates.iter().copied().max().unwrap_or(1);
        for i in 0..look.servers.len() as u32 {
            let member = look.name(i);
            let Some(row) = nodes.names.find(member) else {
                if is_needed(look, i) {
                    return Err(anyhow!("{name}: {member} is missing; add a row for it"));
                }
                speeds.servers.push(Server::default());
                speeds.rates.push(fastest);
                continue;
            };
            speeds.push(&nodes, row as usize, fastest, is_in_bytes);
            if !nodes.may_lead[row as usize] {
                look.bar(i, "the servers file says so");
            }
        }
        if nodes.rates.is_empty() || !is_in_bytes {
            speeds.rates.clear();
        }
        Ok(speeds)
    }

    fn push(&mut self, nodes: &Nodes<Server>, row: usize, fastest: u64, is_in_bytes: bool) {
        let mut server = nodes.nodes[row].clone();
        if let Some(&rate) = nodes.rates.get(row) {
            if !is_in_bytes {
                // Groups have no bytes here: only how rates compare counts.
                server = Server { speed: relative(rate as f64, fastest as f64), ..Server::default() };
            }
            self.rates.push(rate);
        }
        self.servers.push(server);
    }
}

/// Whether a plan depends on how fast a server is.
fn is_needed(look: &Look, server: u32) -> bool {
    let holds = |group: &lead::Group| group.leader == Some(server) || group.eligible.contains(&server);
    look.groups.iter().any(holds)
}

fn relative(speed: f64, unit: f64) -> Speed {
    let millionths = (speed / unit * 1e6).round().clamp(1.0, 1e12) as u64;
    Speed::from_millionths(millionths).unwrap_or(Server::default().speed)
}
