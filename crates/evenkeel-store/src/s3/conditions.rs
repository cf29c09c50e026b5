//! Which conditions of writes a server carries out. Many servers ignore some, without a word.

use bytes::Bytes;
use reqwest::Method;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue, IF_MATCH, IF_NONE_MATCH};
use rustix::rand::{GetRandomFlags, getrandom};

use super::endpoint::{Endpoint, Payload};
use crate::error::{Problem, StoreError};

/// What probes are called. Nobody else draws the same name, so probes are not in each other's way.
const PROBES: &str = ".evenkeel/probe/";
/// The entity tag of nothing that is ever written.
const NO_TAG: &str = "\"00000000000000000000000000000000\"";

/// What a server does only if a condition holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Conditions {
    /// Writes, with `If-None-Match: *` and with `If-Match`.
    pub writes: bool,
    /// Copies, with `If-Match`.
    pub copies: bool,
    /// Deletions, with `If-Match`.
    pub deletions: bool,
}

impl Conditions {
    /// Whether there is nothing that is done in spite of its condition.
    pub fn all(self) -> bool {
        self.writes && self.copies && self.deletions
    }
}

impl Endpoint {
    /// Tries which conditions the server carries out, on an object of ours in this bucket, which is deleted again.
    pub async fn conditions(&self, bucket: &str) -> Result<Conditions, StoreError> {
        let mut bytes = [0; 8];
        if !matches!(getrandom(&mut bytes, GetRandomFlags::empty()), Ok(8)) {
            let why = Problem::Io("the system has no random numbers".to_owned());
            return Err(why.at("a fresh name"));
        }
        let key = format!("{PROBES}{:016x}", u64::from_le_bytes(bytes));
        let probe = Payload::Bytes(Bytes::from_static(b"probe"));
        self.send(Method::PUT, bucket, &key, &[], HeaderMap::new(), probe).await?;
        let tried = self.try_conditions(bucket, &key).await;
        let deleted = self.delete(bucket, &key, HeaderMap::new()).await;
        match (tried, deleted) {
            (Ok(conditions), Ok(()) | Err(StoreError { problem: Problem::NotFound, .. })) => Ok(conditions),
            (Err(error), _) | (_, Err(error)) => Err(error),
        }
    }

    async fn try_conditions(&self, bucket: &str, key: &str) -> Result<Conditions, StoreError> {
        let refuses = async |method: Method, (name, value): (HeaderName, &'static str), is_copy: bool| {
            let mut headers = HeaderMap::new();
            headers.insert(name, HeaderValue::from_static(value));
            let mut payload = Payload::Nothing;
            if is_copy {
                headers.insert("x-amz-metadata-directive", HeaderValue::from_static("REPLACE"));
                let source = HeaderValue::try_from(format!("/{bucket}/{key}"));
                source.into_iter().for_each(|source| drop(headers.insert("x-amz-copy-source", source)));
            } else if method == Method::PUT {
                payload = Payload::Bytes(Bytes::from_static(b"probe"));
            }
            match self.send(method, bucket, key, &[], headers, payload).await {
                Err(StoreError { problem: Problem::Changed, .. }) => Ok(true),
                // It may say that it does not know such a thing.
                Ok(_) | Err(StoreError { problem: Problem::Unsupported(_), .. }) => Ok(false),
                Err(StoreError { problem: Problem::Failed(why), .. }) if is_missing(&why) => Ok(false),
                Err(error) => Err(error),
            }
        };
        let writes = refuses(Method::PUT, (IF_NONE_MATCH, "*"), false).await?
            && refuses(Method::PUT, (IF_MATCH, NO_TAG), false).await?;
        if !writes {
            // Who has none for writes has none for anything.
            return Ok(Conditions::default());
        }
        let copies = refuses(Method::PUT, (IF_MATCH, NO_TAG), true).await?;
        let deletions = refuses(Method::DELETE, (IF_MATCH, NO_TAG), false).await?;
        Ok(Conditions { writes, copies, deletions })
    }
}

/// Whether a server error only says that something is not implemented.
fn is_missing(why: &str) -> bool {
    why.contains("501") || why.contains("NotImplemented")
}
