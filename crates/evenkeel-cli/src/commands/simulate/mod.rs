//! `evenkeel simulate`: what would happen on a cluster, under several policies.

mod page;
mod report;
mod sweep;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{self, BufRead, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use evenkeel::assign::Work;
use evenkeel::model::{Batch, Cluster};
use evenkeel_formats::{self as formats, InputError};
use evenkeel_sim::scenario::{Files, Load, Place, Scenario, ScenarioError, Set};
use evenkeel_sim::study::{Job, Point, Run, Study};
use evenkeel_sim::units::{Bytes, Span};
use indicatif::{ProgressBar, ProgressStyle};

use self::report::Report;
use self::sweep::{Sweep, points};
use super::Outcome;
use crate::cli::{BatchArgs, ColumnArgs, SimulateArgs, StorageArgs};
use crate::input::{Source, read_batch};
use crate::output::{Target, tell};
use crate::text::{count, counted};

pub(super) fn run(args: &SimulateArgs) -> Result<Outcome> {
    let written = Written::read(args)?;
    let inputs: Vec<&Path> =
        [Some(&args.scenario), args.servers.as_ref(), args.clients.as_ref(), args.processes.as_ref()]
            .into_iter()
            .flatten()
            .map(PathBuf::as_path)
            .collect();
    if args.html.is_some() && args.html == args.csv {
        bail!("--html and --csv would write to the same file; name another file for one of them");
    }
    let target = |path: &Option<_>| path.as_deref().map(|path| Target::new(path, &inputs)).transpose();
    let (page, csv) = (target(&args.html)?, target(&args.csv)?);
    let ask_after: Span = args.ask_after.parse().map_err(|error| anyhow!("--ask-after: {error}"))?;
    let study = written.study(args)?;
    let stop = stop_on_ctrl_c();
    let jobs = study.jobs();
    let done = carry_out(&study, &jobs, args, Duration::from_nanos(ask_after.0), &stop, &written.name)?;
    let (n_done, n_jobs) = (done.len(), jobs.len());
    let report = Report::new(&study, study.series(done), (n_done, n_jobs), &written.name);
    if let Some(out) = csv {
        out.write(|file| report.write_csv(file))?;
    }
    if let Some(out) = page {
        let page = page::page(&report);
        out.write(|file| file.write_all(page.as_bytes()))?;
    }
    let text = if args.json { report.to_json()? } else { report.for_people() };
    tell(&text, &[args.html.as_deref(), args.csv.as_deref()])?;
    if n_done < n_jobs {
        writeln!(
            io::stderr(),
            "interrupted: {} of {} were done",
            count(n_done as u64),
            counted(n_jobs as u64, "run")
        )?;
        return Ok(Outcome::Interrupted);
    }
    Ok(Outcome::Done)
}

/// A scenario as it was written, and the additions of the command line.
struct Written {
    /// Its name in messages.
    name: String,
    text: String,
    /// The folder of the files that it names.
    folder: PathBuf,
    /// The files that the command line names.
    given: Vec<PathBuf>,
    sets: Vec<Set>,
    sweeps: Vec<Sweep>,
}

impl Written {
    fn read(args: &SimulateArgs) -> Result<Self> {
        let of_batch = [args.servers.is_some(), args.clients.is_some(), args.block.is_some()].contains(&true);
        let mut source = Source::open(&args.scenario)?;
        let given = Given::of(&mut source)?;
        if given != Given::Scenario && args.scenario == Path::new("-") {
            bail!("standard input: only a scenario can be read from there; name the file");
        }
        if given != Given::Batch && of_batch {
            bail!(
                "--servers, --clients and --block go with a batch; in a scenario write servers.file, clients.file, workload.block"
            );
        }
        if given != Given::Tasks && args.processes.is_some() {
            bail!("--processes goes with tasks; in a scenario write workload.processes_file");
        }
        let (mut text, mut folder) = (String::new(), PathBuf::new());
        let sets = match given {
            Given::Batch => batch_sets(args)?,
            Given::Tasks => task_sets(args)?,
            Given::Scenario => {
                text = text_of(&mut source)?;
                if text.trim().is_empty() && args.set.is_empty() {
                    bail!("{}: the file is empty; give a scenario, a batch or tasks", source.name);
                }
                folder = args.scenario.parent().map_or_else(PathBuf::new, Path::to_owned);
                Vec::new()
            }
        };
        let given =
            [Some(&args.scenario), args.servers.as_ref(), args.clients.as_ref(), args.processes.as_ref()];
        let given = given.into_iter().flatten().cloned().collect();
        let mut written = Self { name: source.name, text, folder, given, sets, sweeps: Vec::new() };
        for text in &args.set {
            written.sets.push(text.parse().map_err(|error| anyhow!("--set {text}: {error}"))?);
        }
        let mut set = |key: &str, value: String| written.sets.push(Set { key: key.to_owned(), value });
        if !args.policy.is_empty() {
            let names: Vec<String> = args
                .policy
                .iter()
                .map(|name| serde_json::to_string(name.trim()))
                .collect::<Result<_, _>>()?;
            set("policies", format!("[{}]", names.join(",")));
        }
        args.repetitions.into_iter().for_each(|n| set("repetitions", n.to_string()));
        args.seed.into_iter().for_each(|seed| set("seed", seed.to_string()));
        for text in &args.sweep {
            written.sweeps.push(Sweep::parse(text)?);
        }
        if let Some(copies) = &args.replication {
            written.sweeps.push(Sweep::parse(&format!("workload.copies={copies}"))?);
        }
        Ok(written)
    }

    /// The scenario at each point of the sweeps.
    fn study(&self, args: &SimulateArgs) -> Result<Study> {
        let n_points = self.sweeps.iter().fold(1_usize, |n, sweep| n.saturating_mul(sweep.values.len()));
        if n_points > MOST_POINTS {
            bail!(
                "{} are too many; sweep over at most {}",
                counted(n_points as u64, "point"),
                count(MOST_POINTS as u64)
            );
        }
        let points = points(&self.sweeps);
        let load = Folder {
            path: &self.folder,
            given: &self.given,
            columns: &args.columns,
            read: RefCell::default(),
        };
        let point = |swept: Vec<Set>| {
            let sets = [self.sets.clone(), swept.clone()].concat();
            let scenario = Scenario::read(&self.text, &sets, &load).map_err(|e| self.told(e, args))?;
            Ok(Point { sets: swept, scenario })
        };
        let points = points.into_iter().map(point).collect::<Result<Vec<_>>>()?;
        let n_runs = |Point { scenario, .. }: &Point| scenario.policies.len() * scenario.repetitions as usize;
        let n_runs: usize = points.iter().map(n_runs).sum();
        if n_runs > MOST_RUNS {
            bail!("{} are too many; use at most {}", counted(n_runs as u64, "run"), count(MOST_RUNS as u64));
        }
        Ok(Study { points })
    }

    /// The error, with its place as the user knows it.
    fn told(&self, error: ScenarioError, args: &SimulateArgs) -> anyhow::Error {
        let ScenarioError { place, message } = error;
        match place {
            Place::Line(line) => InputError::new(&self.name, line, message).into(),
            Place::Whole => InputError::new(&self.name, None, message).into(),
            // An error in the batch itself names its own place.
            Place::Set(set) if matches!(set.key.as_str(), "workload.batch" | "workload.file") => {
                anyhow!("{message}")
            }
            Place::Set(Set { key, value }) => {
                let option = match key.as_str() {
                    "policies" if !args.policy.is_empty() => {
                        return anyhow!("--policy {}: {message}", args.policy.join(","));
                    }
                    "repetitions" if args.repetitions.is_some() => "--repetitions ".to_owned(),
                    _ if self.sweeps.iter().any(|sweep| sweep.key == key) => format!("--sweep {key}="),
                    _ => format!("--set {key}="),
                };
                anyhow!("{option}{value}: {message}")
            }
        }
    }
}

/// Finds the files that a scenario names.
struct Folder<'a> {
    path: &'a Path,
    /// Files of the command line. Their names need not be valid Unicode.
    given: &'a [PathBuf],
    columns: &'a ColumnArgs,
    /// The batches that were read. The points of a sweep share them.
    read: RefCell<BTreeMap<String, (Batch, Cluster)>>,
}

impl Folder<'_> {
    /// The path of a file by its name. For a file of the command line it is the original path, even if that is not
    /// valid Unicode.
    fn path(&self, file: &str) -> PathBuf {
        let given = self.given.iter().find(|path| path.to_str().is_none() && path.to_string_lossy() == file);
        given.cloned().unwrap_or_else(|| self.path.join(file))
    }
}

impl Load for Folder<'_> {
    fn batch(&self, files: &Files<'_>) -> Result<(Batch, Cluster), String> {
        let key = format!("{files:?}");
        if let Some((batch, cluster)) = self.read.borrow().get(&key) {
            return Ok((batch.clone(), cluster.clone()));
        }
        let path = |file: &str| self.path(file);
        let args = BatchArgs {
            batch: Some(path(files.batch)),
            storage: StorageArgs::default(),
            servers: files.servers.map(path),
            clients: files.clients.map(path),
            block: files.block,
            max_concurrent: None,
            columns: self.columns.clone(),
        };
        let input = read_batch(&args).map_err(|error| format!("{error:#}"))?;
        self.read.borrow_mut().insert(key, (input.batch.clone(), input.cluster.clone()));
        Ok((input.batch, input.cluster))
    }

    fn tasks(&self, tasks: &str, processes: &str) -> Result<(Vec<String>, Work), String> {
        let open = |file: &str| Source::open(&self.path(file)).map_err(|error| format!("{error:#}"));
        let (tasks, processes) = (open(tasks)?, open(processes)?);
        let reading = |name| self.columns.reading(name);
        let tasks = (tasks.reader, &reading(&tasks.name));
        let input = formats::read_work(tasks, (processes.reader, &reading(&processes.name)));
        let input = input.map_err(|error| error.to_string())?;
        Ok((input.servers.iter().map(str::to_owned).collect(), input.work))
    }
}

fn set_path(key: &str, path: &Path) -> Result<Set> {
    Ok(Set { key: key.to_owned(), value: serde_json::to_string(&path.to_string_lossy())? })
}

/// Wraps tasks into a scenario.
fn task_sets(args: &SimulateArgs) -> Result<Vec<Set>> {
    let processes = args.processes.as_ref();
    let processes = processes.context("tasks need processes; name their file with --processes")?;
    let kind = Set { key: "workload.kind".to_owned(), value: "tasks".to_owned() };
    Ok(vec![
        kind,
        set_path("workload.file", &args.scenario)?,
        set_path("workload.processes_file", processes)?,
    ])
}

/// Wraps a batch into a scenario.
fn batch_sets(args: &SimulateArgs) -> Result<Vec<Set>> {
    let mut sets = vec![set_path("workload.batch", &args.scenario)?];
    for (key, path) in [("servers.file", &args.servers), ("clients.file", &args.clients)] {
        sets.extend(path.as_ref().map(|path| set_path(key, path)).transpose()?);
    }
    if let Some(block) = &args.block {
        let Bytes(bytes) = block.parse().map_err(|error| anyhow!("--block: {error}"))?;
        sets.push(Set { key: "workload.block".to_owned(), value: bytes.to_string() });
    }
    Ok(sets)
}

/// The kind of input to simulate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Given {
    Scenario,
    Batch,
    Tasks,
}

impl Given {
    /// A batch is JSON or CSV, tasks are CSV. The first line of CSV has commas, while that of TOML sets a key, opens a
    /// table or is a comment. Nothing is consumed.
    fn of(source: &mut Source) -> Result<Self> {
        let start = source.reader.fill_buf().with_context(|| format!("{}: cannot read it", source.name))?;
        let start = String::from_utf8_lossy(&start[..start.len().min(4096)]);
        let start = start.trim_start_matches('\u{feff}').trim_start();
        let header = start.lines().next().unwrap_or_default();
        let is_toml = header.starts_with(['#', '[']) || header.contains('=') || !header.contains(',');
        let mut columns = header.split(',').map(|column| column.trim().trim_matches('"'));
        let is_json = start.starts_with('{');
        Ok(match is_json {
            false if is_toml => Self::Scenario,
            false if columns.any(|column| column == "task") => Self::Tasks,
            _ => Self::Batch,
        })
    }
}

/// Limits that keep every study within memory.
const MOST_POINTS: usize = 10_000;
const MOST_RUNS: usize = 1_000_000;
/// The longest scenario.
const MOST_BYTES: u64 = 1 << 24;

fn text_of(source: &mut Source) -> Result<String, InputError> {
    let mut bytes = Vec::new();
    let cannot_read =
        |error: io::Error| InputError::new(&source.name, None, format!("cannot read it: {error}"));
    source.reader.by_ref().take(MOST_BYTES + 1).read_to_end(&mut bytes).map_err(cannot_read)?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(InputError::new(&source.name, None, "it is too long for a scenario"));
    }
    String::from_utf8(bytes).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        let line = error.as_bytes()[..valid].split(|&byte| byte == b'\n').count() as u64;
        InputError::new(
            &source.name,
            line,
            "it is not text in UTF-8; give a scenario, TOML, or a batch, CSV or JSON",
        )
    })
}

/// Becomes true at the first Ctrl-C. The second ends the process.
fn stop_on_ctrl_c() -> Arc<AtomicBool> {
    let stop = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&stop);
    let handler = move || {
        if told.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
        let _ =
            writeln!(io::stderr(), "\nstopping after the current runs; press Ctrl-C again to stop at once");
    };
    // Without a handler, Ctrl-C just ends the process.
    let _ = ctrlc::set_handler(handler);
    stop
}

/// Does all runs, or those until it is stopped. The first run of each policy comes first and shows how long all will
/// take.
fn carry_out(
    study: &Study,
    jobs: &[Job],
    args: &SimulateArgs,
    ask_after: Duration,
    stop: &AtomicBool,
    name: &str,
) -> Result<Vec<(Job, Run)>> {
    let told = |error| anyhow!("{name}: {error}");
    let bar = progress_bar(jobs.len() as u64);
    let mut done: Vec<(Job, Run)> = Vec::with_capacity(jobs.len());
    if !args.yes {
        let n_threads = match args.threads {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            n_threads => n_threads.into(),
        };
        let mut expected = Duration::ZERO;
        for &job in jobs.iter().take_while(|job| job.point == 0 && job.repetition == 0) {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            let start = Instant::now();
            done.push((job, study.run(job).map_err(told)?));
            bar.inc(1);
            let n_alike = jobs.iter().filter(|other| other.policy.is(job.policy)).count() - 1;
            expected += start.elapsed().mul_f64(n_alike as f64 / n_threads as f64);
            if expected > ask_after && !bar.suspend(|| is_wanted(expected, jobs.len()))? {
                bar.finish_and_clear();
                bail!("stopped on request; nothing more was simulated");
            }
            if expected > ask_after {
                break;
            }
        }
    }
    let rest = &jobs[done.len()..];
    let runs = study.run_all(rest, args.threads.into(), stop, &|| bar.inc(1)).map_err(told)?;
    bar.finish_and_clear();
    done.extend(rest.iter().copied().zip(runs).filter_map(|(job, run)| Some((job, run?))));
    Ok(done)
}

/// Asks whether to continue, or says what to do if nobody can answer.
fn is_wanted(expected: Duration, n_jobs: usize) -> Result<bool> {
    let seconds = expected.as_secs();
    let about = match seconds {
        0..120 => counted(seconds, "second"),
        120..7200 => counted(seconds / 60, "minute"),
        _ => counted(seconds / 3600, "hour"),
    };
    let what = format!("{} would take about {about}", counted(n_jobs as u64, "run"));
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        bail!("{what}; add --yes to run them anyway, or ask for fewer");
    }
    write!(io::stderr(), "{what}. Go on? [y/N] ")?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

fn progress_bar(n: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{wide_bar} {pos}/{len} runs, {eta} left");
    let bar = style.map_or_else(|_| ProgressBar::new(n), |style| ProgressBar::new(n).with_style(style));
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}
