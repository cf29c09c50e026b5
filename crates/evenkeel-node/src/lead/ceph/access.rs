//! Where answers come from: the `ceph` command, or files of what it printed.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Command;

use super::super::EngineError;

/// The most that a command may print: the statistics of a million groups.
const MOST_BYTES: u64 = 4 << 30;

/// How much of what a command complains about is kept.
const MOST_COMPLAINT_BYTES: u64 = 64 << 10;

/// How the `ceph` command is called.
#[derive(Clone, Debug, Default)]
pub struct Client {
    /// `--conf`, if not the usual file.
    pub conf: Option<PathBuf>,
    /// `--name`, such as `client.balancer`.
    pub name: Option<String>,
    /// How long any command may take.
    pub patience: Duration,
}

impl Client {
    /// The options that say which cluster, and as whom.
    pub(super) fn options(&self) -> Vec<String> {
        let conf = self.conf.iter().flat_map(|conf| ["--conf".to_owned(), conf.display().to_string()]);
        let name = self.name.iter().flat_map(|name| ["--name".to_owned(), name.clone()]);
        conf.chain(name).collect()
    }

    pub(super) fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.args(self.options());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        command
    }

    /// Runs `ceph` and returns what it printed.
    pub(super) async fn ceph(&self, args: &[&str]) -> Result<Vec<u8>, EngineError> {
        let mut command = self.command("ceph");
        command.args(args);
        self.output(command, &format!("ceph {}", args.join(" "))).await
    }

    /// Runs a command and returns what it printed, or why it failed.
    pub(super) async fn output(&self, mut command: Command, shown: &str) -> Result<Vec<u8>, EngineError> {
        let mut child = command.spawn().map_err(|error| {
            let remedy = "install Ceph's client (ceph-common), or look at files with --from DIR";
            EngineError(format!("cannot start `{shown}`: {error}; {remedy}"))
        })?;
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let ran = async {
            let (printed, complaint) =
                tokio::join!(read(stdout, MOST_BYTES), read(stderr, MOST_COMPLAINT_BYTES));
            (child.wait().await, printed, complaint)
        };
        let Ok((status, printed, complaint)) = tokio::time::timeout(self.patience, ran).await else {
            let seconds = self.patience.as_secs();
            return Err(EngineError(format!(
                "`{shown}` did not answer in {seconds} s; are a monitor and a manager of the cluster up and reachable? \
                 --patience waits longer"
            )));
        };
        let failed = |what: &dyn std::fmt::Display| EngineError(format!("`{shown}` failed: {what}"));
        let status = status.map_err(|error| failed(&error))?;
        let printed = printed.map_err(|error| failed(&error))?;
        if printed.len() as u64 >= MOST_BYTES {
            return Err(failed(&"it printed too much; is this the ceph command?"));
        }
        if !status.success() {
            let complaint = complaint.unwrap_or_default();
            let complaint = String::from_utf8_lossy(&complaint);
            let last =
                complaint.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it does not say why");
            let says = |word| complaint.contains(word);
            let remedy = if says("EACCES") || says("access denied") {
                "; looking takes caps mon 'allow r' and mgr 'allow r', changes take mon 'allow rw': name another user \
                 with --name"
            } else if says("conf_read_file") {
                "; name the cluster's configuration with --conf"
            } else {
                ""
            };
            return Err(failed(&format!("{}{remedy}", last.trim())));
        }
        Ok(printed)
    }
}

async fn read(stream: Option<impl AsyncRead + Unpin>, most: u64) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(stream) = stream {
        stream.take(most).read_to_end(&mut bytes).await?;
    }
    Ok(bytes)
}

/// A file that somebody else made of what a command printed.
pub(super) fn file(folder: &Path, name: &str) -> Result<Option<Vec<u8>>, EngineError> {
    let path = folder.join(name);
    let failed = |error| EngineError(format!("{}: {error}", path.display()));
    match std::fs::metadata(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Ok(found) if found.len() > MOST_BYTES => {
            Err(EngineError(format!("{}: it is too large to be what `ceph` printed", path.display())))
        }
        Ok(_) => std::fs::read(&path).map(Some).map_err(failed),
        Err(error) => Err(failed(error)),
    }
}
