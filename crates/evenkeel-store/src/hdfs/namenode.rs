//! What a NameNode is asked, and what its refusals mean.

use std::time::Duration;

use bytes::Bytes;
use tokio::time::timeout;

use super::messages::{FileInfoAnswer, Parse, Status, get_block_locations, get_file_info, get_listing};
use super::rpc::{Exception, Failed, Rpc};
use super::wire::Malformed;
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
    pub(super) fn new(addresses: Vec<String>, user: String, patience: Duration) -> Self {
        Self { rpc: Rpc::new(addresses, user, patience) }
    }

    pub(super) fn client_name(&self) -> String {
        self.rpc.client_name()
    }

    /// A [`ListingAnswer`](super::messages::ListingAnswer).
    pub(super) async fn list(&self, path: &str, after: &[u8]) -> Result<Bytes, Problem> {
        self.rpc.call("getListing", &get_listing(path, after)).await.map_err(problem)
    }

    /// A [`LocationsAnswer`](super::messages::LocationsAnswer), about all blocks of a file.
    pub(super) async fn locate(&self, path: &str, bytes: u64) -> Result<Bytes, Problem> {
        self.rpc.call("getBlockLocations", &get_block_locations(path, bytes)).await.map_err(problem)
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
        let answer = self.rpc.call("getFileInfo", &get_file_info(path)).await.map_err(problem)?;
        match FileInfoAnswer::parse(&answer)?.0 {
            None => Err(Problem::NotFound),
            Some(status) if identity(&status) == listed && status.bytes == bytes => Ok(()),
            Some(_) => Err(Problem::Changed),
        }
    }
}

impl From<Malformed> for Problem {
    fn from(malformed: Malformed) -> Self {
        problem(malformed.into())
    }
}

fn problem(failed: Failed) -> Problem {
    let exception: Exception = match failed {
        Failed::Broken(problem) => return problem,
        Failed::Exception(exception) => exception,
    };
    let text = &exception.text;
    match exception.name() {
        "FileNotFoundException" => Problem::NotFound,
        "AccessControlException" if text.starts_with("SIMPLE authentication is not enabled") => {
            let what = "the cluster wants Kerberos or a token, which cannot be used this way; use webhdfs:// with a \
                        delegation token, or hadoop fs -get";
            Problem::Unsupported(what.to_owned())
        }
        "AccessControlException" | "AuthorizationException" => Problem::Denied(text.clone()),
        "StandbyException" | "ObserverRetryOnActiveException" => {
            Problem::Unreachable("none of its NameNodes is active".to_owned())
        }
        "SafeModeException" => Problem::Unsupported(
            "the NameNode is in safe mode and does not know all blocks yet; try again later".to_owned(),
        ),
        name => Problem::Unsupported(format!("the NameNode answers {name}: {text}")),
    }
}
