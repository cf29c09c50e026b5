//! What NameNodes and DataNodes answer, in JSON.

use reqwest::StatusCode;
use reqwest::header::HeaderMap;
use serde::Deserialize;

use crate::error::Problem;
use crate::http::answer;

/// A file or a folder, as far as we need to know.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Status {
    /// Its name in its folder; empty if it is what was asked for.
    #[serde(default)]
    pub(super) path_suffix: String,
    #[serde(rename = "type")]
    pub(super) kind: String,
    #[serde(default)]
    pub(super) length: u64,
    #[serde(default)]
    pub(super) modification_time: i64,
    /// The number of its inode. Versions before 2.2 do not tell it.
    #[serde(default)]
    pub(super) file_id: u64,
    #[serde(default)]
    pub(super) block_size: u64,
}

impl Status {
    /// Which file it is, and which version of it.
    pub(super) fn identity(&self) -> String {
        format!("{} {}", self.file_id, self.modification_time)
    }
}

/// The number of the inode in an identity.
pub(super) fn file_id(identity: Option<&str>) -> Option<u64> {
    identity?.split(' ').next()?.parse().ok().filter(|&id| id != 0)
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct StatusAnswer {
    file_status: Status,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ListingAnswer {
    directory_listing: Listing,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Listing {
    partial_listing: Partial,
    remaining_entries: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Partial {
    file_statuses: Statuses,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Statuses {
    file_status: Vec<Status>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct BlocksAnswer {
    located_blocks: Blocks,
}

/// Blocks of a file, and who holds them.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Blocks {
    pub(super) file_length: u64,
    #[serde(default)]
    pub(super) is_under_construction: bool,
    #[serde(rename = "locatedBlocks")]
    pub(super) list: Vec<Block>,
}

/// A block, or, in an erasure-coded file, a group of blocks.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Block {
    #[serde(rename = "startOffset")]
    pub(super) start: u64,
    #[serde(rename = "block")]
    pub(super) id: BlockId,
    #[serde(default)]
    pub(super) is_corrupt: bool,
    pub(super) locations: Vec<DataNode>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct BlockId {
    pub(super) num_bytes: u64,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DataNode {
    pub(super) host_name: String,
    #[serde(default)]
    pub(super) info_port: u16,
    #[serde(default)]
    pub(super) info_secure_port: u16,
    /// How many threads were busy with transfers, reads and writes, when it last told the NameNode.
    #[serde(default)]
    pub(super) xceiver_count: u64,
}

impl DataNode {
    /// `host:port` of its web server. The NameNode, too, sends readers to the host's name.
    pub(super) fn host_and_port(&self, is_encrypted: bool) -> Result<String, Problem> {
        let port = if is_encrypted { self.info_secure_port } else { self.info_port };
        let host = &self.host_name;
        let is_name = |sign: u8| sign.is_ascii_alphanumeric() || b"-._:".contains(&sign);
        if host.is_empty() || !host.bytes().all(is_name) {
            return Err(Problem::Damaged(format!("a DataNode named `{host}`")));
        }
        if port == 0 {
            let problem = match is_encrypted {
                true => format!("DataNode {host} serves no HTTPS; give webhdfs:// in place of swebhdfs://"),
                false => {
                    format!("DataNode {host} serves HTTPS only; give swebhdfs:// in place of webhdfs://")
                }
            };
            return Err(Problem::Unsupported(problem));
        }
        Ok(if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") })
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct RefusalAnswer {
    remote_exception: Refusal,
}

#[derive(Default, Deserialize)]
struct Refusal {
    #[serde(default)]
    exception: String,
    #[serde(default)]
    message: Option<String>,
}

fn read<'a, T: Deserialize<'a>>(bytes: &'a [u8], what: &str) -> Result<T, Problem> {
    serde_json::from_slice(bytes)
        .map_err(|error| Problem::Damaged(format!("{what} that cannot be read: {error}")))
}

/// What `GETFILESTATUS` answers.
pub(super) fn status(bytes: &[u8]) -> Result<Status, Problem> {
    read::<StatusAnswer>(bytes, "a status").map(|answer| answer.file_status)
}

/// What `LISTSTATUS_BATCH` answers: entries of a folder, and how many follow them.
pub(super) fn listing(bytes: &[u8]) -> Result<(Vec<Status>, u64), Problem> {
    let listing = read::<ListingAnswer>(bytes, "a listing")?.directory_listing;
    Ok((listing.partial_listing.file_statuses.file_status, listing.remaining_entries))
}

/// What `GET_BLOCK_LOCATIONS` answers.
pub(super) fn blocks(bytes: &[u8]) -> Result<Blocks, Problem> {
    read::<BlocksAnswer>(bytes, "block locations").map(|answer| answer.located_blocks)
}

/// What a refusal means. Hadoop's exceptions say more than its statuses: most failures are a 403.
pub(super) fn refusal(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Problem {
    let told = serde_json::from_slice::<RefusalAnswer>(body).map(|answer| answer.remote_exception);
    let Refusal { exception, message } = told.unwrap_or_default();
    // Stack traces follow in further lines.
    let message = message.unwrap_or_default().lines().next().unwrap_or_default().trim().to_owned();
    let told = || match message.is_empty() {
        true => exception.clone(),
        false => format!("{exception}: {message}"),
    };
    match exception.as_str() {
        "" => match answer::refusal(status, headers) {
            Some(Problem::Denied(_)) if status == StatusCode::UNAUTHORIZED => Problem::Denied(
                "the cluster demands Kerberos, which is not supported; fetch a delegation token and name it in \
                 HADOOP_DELEGATION_TOKEN or HADOOP_TOKEN_FILE_LOCATION"
                    .to_owned(),
            ),
            Some(Problem::NotFound) => Problem::Unsupported(
                "no WebHDFS is served here; give the port of the NameNode's web interface, usually 9870".to_owned(),
            ),
            Some(problem) => problem,
            None => Problem::Damaged(format!("the answer {status}")),
        },
        "FileNotFoundException" => Problem::NotFound,
        // A read behind the end: the file has become shorter.
        "EOFException" => Problem::Changed,
        "StandbyException" => Problem::Unsupported(
            "this NameNode is on standby; give the address of the active one (hdfs haadmin -getAllServiceState)".to_owned(),
        ),
        "SafeModeException" | "RetriableException" | "ServerTooBusyException" => Problem::Refused { retry_after: None },
        "AccessControlException" | "SecurityException" | "InvalidToken" | "AuthenticationException"
        | "AuthorizationException" => Problem::Denied(told()),
        "IllegalArgumentException" | "UnsupportedOperationException" | "InvalidPathException" => {
            Problem::Unsupported(format!("the server answers {}", told()))
        }
        _ => Problem::Unreachable(told()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_mean_what_hadoop_means() {
        let judge = |status: u16, exception: &str, message: &str| {
            let body = serde_json::json!({"RemoteException": {"exception": exception, "message": message}});
            let status = StatusCode::from_u16(status).expect("a status");
            refusal(status, &HeaderMap::new(), body.to_string().as_bytes())
        };
        assert_eq!(judge(404, "FileNotFoundException", "File /x not found."), Problem::NotFound);
        assert_eq!(judge(403, "EOFException", "Cannot seek after EOF"), Problem::Changed);
        assert!(judge(403, "StandbyException", "…").to_string().contains("on standby"));
        assert_eq!(judge(403, "SafeModeException", "…"), Problem::Refused { retry_after: None });
        let denied = Problem::Denied("AccessControlException: no".into());
        assert_eq!(judge(403, "AccessControlException", "no\n\tat org.apache"), denied);
        let broken = Problem::Unreachable("IOException: lost".into());
        assert_eq!(judge(403, "IOException", "lost\nat x"), broken);
        let other = |status: u16, body: &str| {
            let status = StatusCode::from_u16(status).expect("a status");
            refusal(status, &HeaderMap::new(), body.as_bytes())
        };
        assert!(other(401, "<html>").to_string().contains("Kerberos"));
        assert!(other(404, "Not a Hadoop IPC request").to_string().contains("no WebHDFS is served here"));
        assert!(matches!(other(200, ""), Problem::Damaged(_)));
        assert!(matches!(other(307, ""), Problem::Unsupported(_)));
    }

    #[test]
    fn datanodes_have_names_that_can_be_reached() {
        let node = |host: &str, info_port, info_secure_port| DataNode {
            host_name: host.to_owned(),
            info_port,
            info_secure_port,
            xceiver_count: 1,
        };
        assert_eq!(node("d1", 9864, 0).host_and_port(false).as_deref(), Ok("d1:9864"));
        assert_eq!(node("fe80::1", 1, 9865).host_and_port(true).as_deref(), Ok("[fe80::1]:9865"));
        for host in ["", "a/b", "a@b", "a b", "a?b", "a\r\nb"] {
            assert!(node(host, 9864, 0).host_and_port(false).is_err(), "{host}");
        }
        assert!(node("d1", 9864, 0).host_and_port(true).is_err());
        assert!(node("d1", 0, 9865).host_and_port(false).is_err());
    }
}
