//! Nodes as processes of their own, which end with this one.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};
use evenkeel_store::cluster::{self, Cluster, Credentials, Server, Servers};
use futures_util::future::try_join_all;
use hyper::Method;
use serde::Deserialize;
use serde_json::json;

/// Nodes that run until they are dropped.
pub(super) struct Nodes {
    processes: Vec<Process>,
    cluster: Cluster,
}

/// A process that ends with its owner.
struct Process(Child);

/// The line by which a node says that it is ready.
#[derive(Deserialize)]
struct Ready {
    endpoint: String,
    control: Option<String>,
}

impl Nodes {
    /// Starts nodes s1, s2, … with folders of their own, and waits until all are ready.
    pub(super) fn start(folder: &Path, n: u32) -> Result<Self> {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let _ = Credentials::read_or_make(&folder.join("credentials"))?;
        let mut processes =
            (1..=n).map(|number| Process::start(folder, number)).collect::<Result<Vec<_>>>()?;
        let mut servers = Vec::new();
        for (number, process) in (1..=n).zip(&mut processes) {
            let Ready { endpoint, control } = process.ready().with_context(|| format!("node s{number}"))?;
            servers.push(Server {
                name: format!("s{number}"),
                endpoint,
                control,
                // Nobody knows beforehand who is slow.
                speed_millionths: 1_000_000,
                region: None,
                credentials: None,
            });
        }
        let cluster = Cluster::parse(&cluster::write(&servers, "credentials"), folder);
        Ok(Self { processes, cluster: cluster.map_err(anyhow::Error::msg)? })
    }

    /// The cluster of all nodes.
    pub(super) fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Tells each node how many bytes it may take in a second.
    pub(super) async fn set_rates(&mut self, servers: &Servers, rates: &[u64]) -> Result<()> {
        for process in &mut self.processes {
            process.check()?;
        }
        let tell = servers.all().iter().zip(rates).map(async |(server, rate)| {
            let control = server.control.as_ref().context("a node has no control port")?;
            let settings = json!({"bytes_per_second": rate});
            let _: serde_json::Value = control.say(Method::POST, "v1/settings", Some(&settings)).await?;
            Ok::<_, anyhow::Error>(())
        });
        try_join_all(tell).await?;
        Ok(())
    }
}

impl Process {
    fn start(folder: &Path, number: u32) -> Result<Self> {
        let program = std::env::current_exe().context("cannot find this program")?;
        let name = format!("s{number}");
        let child = Command::new(&program)
            .args(["node", "--json", "--until-eof", "--name", &name])
            .args(["--listen", "127.0.0.1:0", "--control", "127.0.0.1:0"])
            .arg("--data")
            .arg(folder.join(&name))
            .arg("--credentials")
            .arg(folder.join("credentials"))
            // It ends when this pipe is closed, even if this process is killed.
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        child.map(Self).with_context(|| format!("cannot start {} as node {name}", program.display()))
    }

    /// Waits until it is ready.
    fn ready(&mut self) -> Result<Ready> {
        let mut line = String::new();
        if let Some(stdout) = self.0.stdout.take() {
            let _ = BufReader::new(stdout).read_line(&mut line)?;
        }
        if line.is_empty() {
            bail!("it did not start: {}", self.complaint());
        }
        serde_json::from_str(&line).with_context(|| format!("it said {line}"))
    }

    /// Whether it still runs.
    fn check(&mut self) -> Result<()> {
        match self.0.try_wait()? {
            None => Ok(()),
            Some(status) => bail!("a node ended, {status}: {}", self.complaint()),
        }
    }

    /// What it said on standard error; it has ended, or will.
    fn complaint(&mut self) -> String {
        let mut text = String::new();
        if let Some(stderr) = self.0.stderr.take() {
            // What cannot be read is not told.
            let _ = stderr.take(1 << 16).read_to_string(&mut text);
        }
        text.trim().to_owned()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended. Its data is thrown away, so it need not finish anything.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
