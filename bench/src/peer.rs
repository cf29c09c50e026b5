//! The peers: the race's own Python environment, and one process in it that answers questions.

use std::cell::RefCell;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, anyhow, bail, ensure};
use evenkeel::model::{Batch, Choice, ServerId};
use serde_json::{Value, json};
use tempfile::TempDir;

const BENCH: &str = env!("CARGO_MANIFEST_DIR");
const REQUIREMENTS: &str = include_str!("../requirements.txt");

/// The folder where cargo builds and the race keeps its environment.
pub(crate) fn target_dir() -> PathBuf {
    let workspace = Path::new(BENCH).parent().unwrap_or(Path::new(BENCH));
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace.join("target"), PathBuf::from)
}

/// The Python of the race's environment, which is created if it is missing or has other requirements.
pub(crate) fn python() -> Result<PathBuf> {
    let env = target_dir().join("race-env");
    let (python, stamp) = (env.join("bin/python"), env.join("requirements.txt"));
    if fs::read_to_string(&stamp).is_ok_and(|made_of| made_of == REQUIREMENTS) {
        return Ok(python);
    }
    eprintln!("making the peers' environment {}", env.display());
    run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&env))?;
    let requirements = Path::new(BENCH).join("requirements.txt");
    run(Command::new(&python).args(["-m", "pip", "install", "--quiet", "-r"]).arg(requirements))?;
    fs::write(stamp, REQUIREMENTS)?;
    Ok(python)
}

fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("{command:?} cannot be started"))?;
    ensure!(status.success(), "{command:?} failed; the race needs python3 with venv, and a package index");
    Ok(())
}

/// The answer of a peer, and how long it took.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer {
    pub(crate) seconds: f64,
    pub(crate) value: u64,
}

impl Answer {
    /// Returns the seconds and stores the value in `place`.
    pub(crate) fn keep(self, place: &mut u64) -> f64 {
        *place = self.value;
        self.seconds
    }
}

/// The process in which the peers run.
pub(crate) struct Peer {
    child: Child,
    answers: RefCell<BufReader<ChildStdout>>,
    python: PathBuf,
    files: TempDir,
}

impl Peer {
    pub(crate) fn start(python: PathBuf) -> Result<Self> {
        let mut child = Command::new(&python)
            .arg(Path::new(BENCH).join("peers.py"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("the peers cannot be started")?;
        let stdout = child.stdout.take().context("no answers")?;
        let files = TempDir::with_prefix_in("race-", target_dir())?;
        Ok(Self { child, answers: RefCell::new(BufReader::new(stdout)), python, files })
    }

    /// The path of a file that lasts until the race ends.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.files.path().join(name)
    }

    /// Sends the replicas; all requests must have the same number.
    pub(crate) fn load_batch(&self, batch: &Batch) -> Result<()> {
        let replicas = batch.replicas();
        let file = self.write_u32s("replicas", replicas.flat().iter().map(|server| server.0))?;
        let copies = replicas.width().context("requests with different numbers of replicas")?;
        self.ask(&json!({
            "do": "load_batch", "file": file, "copies": copies, "servers": batch.n_servers(),
        }))?;
        Ok(())
    }

    /// Sends the graph of a choice: an edge for each request, from its client to its server.
    pub(crate) fn load_edges(&self, batch: &Batch, choice: &Choice) -> Result<()> {
        let left = self.write_u32s("left", batch.client_of().iter().map(|client| client.0))?;
        let right = self.write_u32s("right", choice.servers.iter().map(|server| server.0))?;
        let (n_left, n_right) = (batch.n_clients(), batch.n_servers());
        self.ask(&json!({
            "do": "load_edges", "left": left, "right": right, "n_left": n_left, "n_right": n_right,
        }))?;
        Ok(())
    }

    /// Sends jobs, each with its server and service time. Each arrives `gap_ns` after the one before.
    pub(crate) fn load_jobs(
        &self,
        servers: &[ServerId],
        service_ns: &[u64],
        n_servers: u32,
        gap_ns: u64,
    ) -> Result<()> {
        let servers = self.write_u32s("servers", servers.iter().map(|server| server.0))?;
        let service = self.write_u32s("service", service_ns.iter().map(|&ns| ns as u32))?;
        self.ask(&json!({
            "do": "load_jobs", "servers": servers, "service": service, "n_servers": n_servers, "gap": gap_ns,
        }))?;
        Ok(())
    }

    /// When `SimPy` has served all jobs.
    pub(crate) fn simpy(&self) -> Result<Answer> {
        self.answer(&json!({ "do": "simpy_queues" }))
    }

    /// How many requests OR-tools can serve if no server serves more than `capacity`: one number for all, or one for
    /// each.
    pub(crate) fn ortools_flow(&self, capacity: impl Into<Value>) -> Result<Answer> {
        self.answer(&json!({ "do": "ortools_flow", "capacity": capacity.into() }))
    }

    /// The fewest requests that change, if each is at its first replica and no server may have more than its capacity.
    pub(crate) fn ortools_changes(&self, capacity: &[u64]) -> Result<Answer> {
        self.answer(&json!({ "do": "ortools_changes", "capacity": capacity }))
    }

    /// The least capacity that serves all requests, by OR-tools and binary search.
    pub(crate) fn ortools_search(&self) -> Result<Answer> {
        self.answer(&json!({ "do": "ortools_search" }))
    }

    /// How many requests `SciPy` can serve if no server serves more than `capacity`.
    pub(crate) fn scipy_flow(&self, capacity: u64) -> Result<Answer> {
        self.answer(&json!({ "do": "scipy_flow", "capacity": capacity }))
    }

    /// The number of colours that rustworkx needs to colour the edges.
    pub(crate) fn rustworkx_colours(&self) -> Result<Answer> {
        self.answer(&json!({ "do": "rustworkx_colours" }))
    }

    /// The number of rows that pandas reads from the file.
    pub(crate) fn pandas_read(&self, file: &Path) -> Result<Answer> {
        self.answer(&json!({ "do": "pandas_read", "file": file }))
    }

    /// Runs a command to its end. Returns its standard output, its CPU seconds and its peak memory in bytes.
    pub(crate) fn measure(&self, command: &[&std::ffi::OsStr]) -> Result<(String, f64, u64)> {
        // Python is smallest if it is isolated and has no site packages.
        let output = Command::new(&self.python)
            .args(["-I", "-S"])
            .arg(Path::new(BENCH).join("measure.py"))
            .args(command)
            .stderr(Stdio::inherit())
            .output()?;
        ensure!(output.status.success(), "{command:?} failed");
        let output = String::from_utf8(output.stdout)?;
        let (text, usage) = output.trim_end().rsplit_once('\n').context("no measurement")?;
        let usage: Value = serde_json::from_str(usage)?;
        let seconds = usage["seconds"].as_f64().context("no seconds")?;
        let peak_bytes = usage["peak_bytes"].as_u64().context("no peak")?;
        Ok((text.to_owned(), seconds, peak_bytes))
    }

    fn write_u32s(&self, name: &str, values: impl Iterator<Item = u32>) -> Result<PathBuf> {
        let path = self.file(name);
        let mut file = BufWriter::new(File::create(&path)?);
        for value in values {
            file.write_all(&value.to_le_bytes())?;
        }
        file.flush()?;
        Ok(path)
    }

    fn answer(&self, question: &Value) -> Result<Answer> {
        let answer = self.ask(question)?;
        let wrong = || anyhow!("{question}: {answer}");
        Ok(Answer {
            seconds: answer["seconds"].as_f64().ok_or_else(wrong)?,
            value: answer["value"].as_u64().ok_or_else(wrong)?,
        })
    }

    fn ask(&self, question: &Value) -> Result<Value> {
        let mut stdin = self.child.stdin.as_ref().context("no way to ask")?;
        writeln!(stdin, "{question}").context("the peers do not listen")?;
        let mut answer = String::new();
        self.answers.borrow_mut().read_line(&mut answer)?;
        let answer: Value =
            serde_json::from_str(&answer).with_context(|| format!("{question}: the peers ended"))?;
        if let Some(error) = answer.get("error") {
            bail!("{question}: {error}");
        }
        Ok(answer)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // The process ends by itself when there are no more questions.
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}
