//! What a NameNode is asked, and what its refusals mean.

use std::time::Duration;

use bytes::Bytes;
use tokio::time::timeout;

use super::messages::{FileInfoAnswer, Parse, Status, get_block_locations, get_file_info, get_listing};
use super::rpc::{Failed, Rpc, User};
use super::wire::{Malformed, Writer};
use crate::error::Problem;

/// How long a file's state may take to come, and for how long nobody asks for one after it did not.
const CHECK_TIMEOUT: Duration = Duration::from_secs(2);
const SILENCE: Duration = Duration::from_secs(5);

/// The NameNode of a cluster, or all of them.
#[derive(Debug)]
pub(super) struct NameNode {
    rpc: Rpc,
}

/// The version of a file: its inode, and when it was modified.
pub(super) fn identity(status: &Status<'_>) -> String {
    format!("{}.{}", status.file_id, status.modified)
}

impl NameNode {
    /// The one at the first address, or whichever is active. An answer may take as long as the patience lasts.
    pub(super) fn new(addresses: Vec<String>, user: User, patience: Duration) -> Self {
        Self { rpc: Rpc::new(addresses, user, patience) }
    }

    async fn call(&self, method: &str, request: &Writer) -> Result<Bytes, Problem> {
        self.rpc.call(method, request).await.map_err(|failed| self.problem(failed))
    }

    pub(super) fn client_name(&self) -> String {
        self.rpc.client_name()
    }

    /// A [`ListingAnswer`](super::messages::ListingAnswer).
    pub(super) async fn list(&self, path: &str, after: &[u8]) -> Result<Bytes, Problem> {
        self.call("getListing", &get_listing(path, after)).await
    }

    /// A [`LocationsAnswer`](super::messages::LocationsAnswer), about all blocks of a file.
    pub(super) async fn locate(&self, path: &str, bytes: u64) -> Result<Bytes, Problem> {
        self.call("getBlockLocations", &get_block_locations(path, bytes)).await
    }

    /// Whether a file is still the one that was listed. If no NameNode answers, it is taken to be: the numbers of blocks
    /// are never used again, so that what DataNodes have under them is not of another file.
    pub(super) async fn check(&self, path: &str, listed: &str, bytes: u64) -> Result<(), Problem> {
        if self.rpc.was_silent(SILENCE) {
            return Ok(());
        }
        match timeout(CHECK_TIMEOUT, self.verify(path, listed, bytes)).await {
            Err(_) => {
                self.rpc.set_silent(true);
                Ok(())
            }
            Ok(Err(Problem::Unreachable(_) | Problem::TimedOut)) => Ok(()),
            Ok(verified) => verified,
        }
    }

    /// Fails unless a NameNode says that a file is still the one that was listed.
    pub(super) async fn verify(&self, path: &str, listed: &str, bytes: u64) -> Result<(), Problem> {
        let answer = self.call("getFileInfo", &get_file_info(path)).await?;
        match FileInfoAnswer::parse(&answer)?.0 {
            None => Err(Problem::NotFound),
            Some(status) if identity(&status) == listed && status.bytes == bytes => Ok(()),
            Some(_) => Err(Problem::Changed),
        }
    }

    fn problem(&self, failed: Failed) -> Problem {
        let exception = match failed {
            Failed::Broken(problem) => return problem,
            Failed::Exception(exception) => exception,
        };
        let text = &exception.text;
        match exception.name() {
            "FileNotFoundException" => Problem::NotFound,
            "AccessControlException" if text.starts_with("SIMPLE authentication is not enabled") => {
                Problem::Denied(format!(
                    "the cluster wants Kerberos or a delegation token{}: fetch one by `hdfs fetchdt FILE`, and name the file \
                     in HADOOP_TOKEN_FILE_LOCATION",
                    self.rpc.other_tokens()
                ))
            }
            "InvalidToken" => Problem::Denied(format!(
                "the delegation token has expired, was cancelled or is of another cluster; fetch a new one by `hdfs fetchdt`: \
                 {text}"
            )),
            "SaslException" if text.contains("Mismatched response") => Problem::Denied(
                "the delegation token has a wrong password; fetch a new one by `hdfs fetchdt`".to_owned(),
            ),
            "AccessControlException" | "AuthorizationException" | "SaslException" => {
                Problem::Denied(text.clone())
            }
            "StandbyException" | "ObserverRetryOnActiveException" => {
                Problem::Unreachable("none of its NameNodes is active".to_owned())
            }
            "SafeModeException" => Problem::Unsupported(
                "the NameNode is in safe mode and does not know all blocks yet; try again later".to_owned(),
            ),
            "RpcNoSuchProtocolException" => Problem::Unsupported(
                "this is another server of Hadoop; name a NameNode's RPC port, usually 8020 or 9000"
                    .to_owned(),
            ),
            name => Problem::Unsupported(format!("the NameNode answers {name}: {text}")),
        }
    }
}

impl From<Malformed> for Problem {
    fn from(Malformed(what): Malformed) -> Self {
        Self::Damaged(format!("the NameNode's answer has {what}"))
    }
}
