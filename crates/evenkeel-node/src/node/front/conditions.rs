//! Conditions of requests: whether an object is the one that a client means.

use hyper::HeaderMap;
use hyper::header::{ETAG, HeaderValue, LAST_MODIFIED};
use s3s::dto::{ETag, ETagCondition, Timestamp, TimestampFormat};
use s3s::{S3Error, S3ErrorCode, S3Result};

use super::super::store::{Condition, Entry};
use super::attributes::{Seen, etag, timestamp};
use super::errors::{missing, refuse};

/// The conditions of a read.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    pub(super) matches: Option<ETagCondition>,
    pub(super) differs: Option<ETagCondition>,
    pub(super) modified_since: Option<Timestamp>,
    pub(super) unmodified_since: Option<Timestamp>,
}

impl Wanted {
    /// What HTTP says of them, in its order. That of a copy is never "not modified".
    pub(super) fn check(&self, entry: &Entry, seen: &Seen, is_copy: bool) -> S3Result<()> {
        let (tag, modified) = (etag(&seen.etag), timestamp(entry.modified_ms));
        let is = |condition: &ETagCondition| condition.as_etag().is_none_or(|wanted| wanted.weak_cmp(&tag));
        let failed = |what: &str| {
            Err(refuse(
                S3ErrorCode::PreconditionFailed,
                format!("{what} does not hold: the object is {}", seen.etag),
            ))
        };
        match (&self.matches, &self.unmodified_since) {
            (Some(wanted), _) if !is(wanted) => return failed("If-Match"),
            (None, Some(since)) if modified > *since => return failed("If-Unmodified-Since"),
            _ => {}
        }
        let is_unmodified = match (&self.differs, &self.modified_since) {
            (Some(other), _) => is(other),
            (None, Some(since)) => modified <= *since,
            (None, None) => false,
        };
        match is_unmodified {
            false => Ok(()),
            true if is_copy => failed("the condition of the copy"),
            true => Err(not_modified(&seen.etag, &modified)),
        }
    }
}

fn not_modified(tag: &str, modified: &Timestamp) -> S3Error {
    let mut headers = HeaderMap::new();
    if let Ok(tag) = HeaderValue::from_str(&format!("\"{tag}\"")) {
        headers.insert(ETAG, tag);
    }
    let mut text = Vec::new();
    if modified.format(TimestampFormat::HttpDate, &mut text).is_ok()
        && let Ok(text) = HeaderValue::from_bytes(&text)
    {
        headers.insert(LAST_MODIFIED, text);
    }
    let mut error = S3Error::new(S3ErrorCode::NotModified);
    error.set_headers(headers);
    error
}

/// The condition of a write, as far as its headers say it.
pub(super) fn of_write(
    if_match: Option<ETagCondition>,
    if_none_match: Option<ETagCondition>,
) -> S3Result<Condition> {
    match (if_match, if_none_match) {
        (None, None) => Ok(Condition::Always),
        (None, Some(ETagCondition::Any)) => Ok(Condition::Absent),
        (None, Some(ETagCondition::ETag(_))) => Err(missing("writes with If-None-Match other than *")),
        (Some(condition), None) => Ok(of_tag(condition)),
        (Some(_), Some(_)) => {
            Err(refuse(S3ErrorCode::InvalidRequest, "If-Match and If-None-Match exclude each other"))
        }
    }
}

fn of_tag(condition: ETagCondition) -> Condition {
    Condition::Etag(condition.into_etag().map_or_else(|| "*".to_owned(), ETag::into_value))
}
