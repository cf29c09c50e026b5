//! The servers of a cluster, ready to be asked.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use evenkeel::model::MemberId;
use evenkeel::place::homes;
use futures_util::TryStreamExt;
use percent_encoding::{percent_decode_str, utf8_percent_encode};
use reqwest::Method;
use reqwest::header::{HeaderMap, HeaderValue};
use serde::Deserialize;

use super::redirect::{self, BYTES, MARK};
use super::{BadCluster, Cluster, Redirect};
use crate::error::{Problem, StoreError};
use crate::http::answer;
use crate::s3::{Endpoint, Sockets, Wire};

/// The header by which a node is asked for redirects themselves instead of what they lead to.
const SHOW: (&str, &str) = ("x-evenkeel-redirect", "show");
/// What stands for a character that a header cannot have.
const PLAIN: &percent_encoding::AsciiSet =
    &percent_encoding::NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

/// The servers of a cluster, in the order of its file.
#[derive(Debug)]
pub struct Servers {
    members: Vec<ClusterServer>,
    replicas: u32,
}

/// A server, ready to be asked.
#[derive(Debug)]
pub struct ClusterServer {
    /// Its name in the cluster file.
    pub name: String,
    /// Where it speaks S3.
    pub endpoint: Endpoint,
    /// The control port, if it is a node.
    pub control: Option<Endpoint>,
    /// How fast it is, in millionths of the usual speed, as far as the cluster file knows.
    pub speed_millionths: u64,
}

/// What a server stores under a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The size of what is stored: of a redirect, not of the object.
    pub bytes: u64,
    /// Its entity tag, without quotes, which conditional requests name.
    pub etag: String,
    /// The CRC-32C that the server keeps of it.
    pub crc32c: Option<u32>,
    /// The size of the object and its tag, if it is a redirect.
    pub redirect: Option<(u64, String)>,
    /// When it was written, as the server writes it.
    pub modified: Option<String>,
    /// How long ago that was, by the server's own clock.
    pub age: Option<Duration>,
    /// What its writer said of it (`x-amz-meta-…`).
    pub user: BTreeMap<String, String>,
}

/// What a node says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Status {
    /// Its name.
    pub node: String,
    /// Its version.
    pub version: String,
    /// How long it has been up.
    pub up_seconds: u64,
    /// Whether it starts no transfers.
    pub paused: bool,
    /// Whether it takes no new objects.
    pub draining: bool,
    /// What it was slowed down to.
    pub bytes_per_second: Option<u64>,
    /// Whether it carries out conditional writes. It does unless it says otherwise.
    pub conditional_writes: Option<bool>,
    /// What it has to do.
    pub load: Load,
    /// How long it has had nothing to do for clients, in milliseconds. Nothing while it has, or if it does not tell.
    pub idle_ms: Option<u64>,
    /// What it holds. A node in front of another server does not know.
    pub usage: Option<Usage>,
    /// What its maintainer says, if it has one.
    pub maintainer: Option<serde_json::Value>,
}

/// What a node has to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Load {
    /// Transfers that there may be at a time.
    pub slots: u32,
    /// Transfers under way.
    pub busy: u32,
    /// Transfers that wait.
    pub waiting: u32,
    /// Bytes still to be moved.
    pub pending_bytes: u64,
}

/// What a node holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// Objects.
    pub objects: u64,
    /// Bytes of these objects.
    pub bytes: u64,
    /// Free bytes of its disk.
    pub free_bytes: Option<u64>,
}

impl Cluster {
    /// A port of a server, such as its [`endpoint`](super::Server::endpoint), ready to be asked.
    pub fn endpoint(&self, server: &super::Server, address: &str) -> Result<Endpoint, BadCluster> {
        self.endpoint_over(&sockets()?, server, address)
    }

    /// The same, reached in another way than by sockets.
    #[doc(hidden)]
    pub fn endpoint_over(
        &self,
        wire: &Arc<dyn Wire>,
        server: &super::Server,
        address: &str,
    ) -> Result<Endpoint, BadCluster> {
        let keys = self.credentials(server)?;
        let endpoint = Endpoint::over(Arc::clone(wire), address, &keys.access_key, &keys.secret_key);
        let endpoint = endpoint.map_err(|error| BadCluster::Wrong {
            path: "the cluster file".to_owned(),
            why: format!("server `{}`: {error}", server.name),
        })?;
        // A control port knows no regions.
        let region = server.region.as_ref().filter(|_| address == server.endpoint);
        Ok(match region {
            Some(region) => endpoint.in_region(region),
            None => endpoint,
        })
    }
}

impl Servers {
    /// The servers of a cluster. Nothing is asked of them yet; their keys are looked up.
    pub fn open(cluster: &Cluster) -> Result<Self, BadCluster> {
        Self::over(&sockets()?, cluster)
    }

    /// The same, reached in another way than by sockets.
    #[doc(hidden)]
    pub fn over(wire: &Arc<dyn Wire>, cluster: &Cluster) -> Result<Self, BadCluster> {
        let member = |server: &super::Server| {
            let endpoint = |address: &str| cluster.endpoint_over(wire, server, address);
            Ok(ClusterServer {
                name: server.name.clone(),
                endpoint: endpoint(&server.endpoint)?,
                control: server.control.as_deref().map(endpoint).transpose()?,
                speed_millionths: server.speed_millionths,
            })
        };
        let members = cluster.servers.iter().map(member).collect::<Result<_, BadCluster>>()?;
        Ok(Self { members, replicas: cluster.replicas })
    }

    /// All servers, in the order of the cluster file, which is how they are counted.
    pub fn all(&self) -> &[ClusterServer] {
        &self.members
    }

    /// Copies of each object, unless its writer says otherwise.
    pub fn replicas(&self) -> u32 {
        self.replicas
    }

    /// The number of the server of this name.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.members.iter().position(|member| member.name == name)
    }

    /// The homes of the copies of an object, the first copy first. They depend only on names.
    pub fn homes(&self, bucket: &str, key: &str, n_copies: usize) -> Vec<usize> {
        self.homes_of(&format!("{bucket}/{key}"), n_copies)
    }

    /// The servers that a piece of a large object is at by default.
    pub fn homes_of_piece(&self, bucket: &str, key: &str, piece: u64, n_copies: usize) -> Vec<usize> {
        self.homes_of(&format!("{bucket}/{key}/{piece}"), n_copies)
    }

    fn homes_of(&self, name: &str, n_copies: usize) -> Vec<usize> {
        let members = (0..).map(MemberId).zip(self.members.iter().map(|member| member.name.as_str()));
        homes(name, members, n_copies).into_iter().map(MemberId::index).collect()
    }

    /// What a server stores under a name, a redirect as what it is. `None` if there is nothing.
    pub async fn look(&self, server: usize, bucket: &str, key: &str) -> Result<Option<Seen>, StoreError> {
        let mut headers = HeaderMap::new();
        headers.insert(SHOW.0, HeaderValue::from_static(SHOW.1));
        headers.insert("x-amz-checksum-mode", HeaderValue::from_static("ENABLED"));
        match self.endpoint(server)?.head_with(bucket, key, headers).await {
            Ok(headers) => Ok(Some(seen(&headers))),
            Err(StoreError { problem: Problem::NotFound, .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The redirect that a server stores under a name.
    pub async fn redirect(&self, server: usize, bucket: &str, key: &str) -> Result<Redirect, StoreError> {
        let mut headers = HeaderMap::new();
        headers.insert(SHOW.0, HeaderValue::from_static(SHOW.1));
        let endpoint = self.endpoint(server)?;
        let at = |why: String| Problem::Damaged(why).at(format!("{}/{bucket}/{key}", endpoint.address()));
        let (_, mut body) = endpoint.get(bucket, key, None, headers).await?;
        let mut bytes = Vec::new();
        while let Some(chunk) = body.try_next().await? {
            if bytes.len() + chunk.len() > redirect::MOST_BYTES {
                return Err(at("its redirect cannot be used: it is too long".to_owned()));
            }
            bytes.extend_from_slice(&chunk);
        }
        let found = Redirect::parse(&bytes).map_err(|error| at(error.to_string()))?;
        match self.unknown(&found) {
            None => Ok(found),
            Some(why) => Err(at(why)),
        }
    }

    /// Why a redirect cannot be followed: it names a server that is not known.
    pub(super) fn unknown(&self, redirect: &Redirect) -> Option<String> {
        let piece =
            redirect.pieces.iter().find(|piece| !piece.is_hole() && self.find(&piece.server).is_none())?;
        let server = &piece.server;
        Some(format!("its redirect names the server `{server}`, which the cluster file does not have"))
    }

    /// What a node says of itself. A plain S3 endpoint says nothing.
    pub async fn status(&self, server: usize) -> Result<Option<Status>, StoreError> {
        let Some(control) = &self.member(server)?.control else { return Ok(None) };
        control.say(Method::GET, "v1/status", None::<&()>).await.map(Some)
    }

    pub(super) fn member(&self, server: usize) -> Result<&ClusterServer, StoreError> {
        self.members.get(server).ok_or_else(|| Problem::NotFound.at(format!("server {server}")))
    }

    /// Where a server speaks S3.
    pub fn endpoint(&self, server: usize) -> Result<&Endpoint, StoreError> {
        self.member(server).map(|member| &member.endpoint)
    }
}

fn sockets() -> Result<Arc<dyn Wire>, BadCluster> {
    let sockets = Sockets::new();
    let wrong = |why| BadCluster::Wrong { path: "the servers of the cluster file".to_owned(), why };
    Ok(Arc::new(sockets.map_err(wrong)?))
}

/// A name as headers can have it.
pub fn encoded(name: &str) -> String {
    utf8_percent_encode(name, PLAIN).to_string()
}

/// The name that was encoded so.
pub fn decoded(text: &str) -> Option<String> {
    percent_decode_str(text).decode_utf8().ok().map(std::borrow::Cow::into_owned)
}

/// What the answer to a question about an object says.
fn seen(headers: &HeaderMap) -> Seen {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let user: BTreeMap<String, String> = headers
        .iter()
        .filter_map(|(name, value)| {
            let name = name.as_str().strip_prefix("x-amz-meta-")?;
            Some((name.to_owned(), value.to_str().ok()?.to_owned()))
        })
        .collect();
    let time = |name: &str| httpdate::parse_http_date(text(name)?).ok();
    let age = time("date").zip(time("last-modified"));
    let crc = text("x-amz-checksum-crc32c").and_then(|text| STANDARD.decode(text.trim()).ok());
    let redirect = user.contains_key(MARK).then(|| {
        let bytes = user.get(BYTES).and_then(|bytes| bytes.parse().ok()).unwrap_or_default();
        (bytes, user.get(redirect::ETAG).cloned().unwrap_or_default())
    });
    Seen {
        bytes: answer::length(headers).unwrap_or_default(),
        etag: answer::entity_tag(headers).unwrap_or_default().trim_matches('"').to_owned(),
        crc32c: crc.and_then(|crc| crc.try_into().ok()).map(u32::from_be_bytes),
        redirect,
        modified: text("last-modified").map(str::to_owned),
        age: age.map(|(now, then)| now.duration_since(then).unwrap_or_default()),
        user,
    }
}
