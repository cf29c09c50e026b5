//! Judges what a web server answered: is it the data that was asked for?

use std::ops::Range;
use std::time::{Duration, SystemTime};

use futures_util::StreamExt;
use reqwest::header::{CONTENT_LENGTH, CONTENT_RANGE, DATE, ETAG, HeaderMap, RETRY_AFTER};
use reqwest::{Response, StatusCode};

use crate::error::Problem;
use crate::hash::{Algorithm, Hash};
use crate::{Body, Object};

/// Servers allow for clocks that are so far apart.
const MOST_SKEW: Duration = Duration::from_mins(15);

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok().map(str::trim)
}

/// The problem that a status means, unless it is a success.
pub(crate) fn refusal(status: StatusCode, headers: &HeaderMap) -> Option<Problem> {
    Some(match status {
        status if status.is_success() => return None,
        StatusCode::NOT_FOUND | StatusCode::GONE => Problem::NotFound,
        StatusCode::PRECONDITION_FAILED | StatusCode::RANGE_NOT_SATISFIABLE => Problem::Changed,
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::PROXY_AUTHENTICATION_REQUIRED => {
            Problem::Denied(status.to_string())
        }
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
            Problem::Refused { retry_after: text(headers, RETRY_AFTER.as_str()).and_then(retry_after) }
        }
        status if status.is_server_error() => Problem::Unreachable(status.to_string()),
        status => Problem::Unsupported(format!("the server answers {status}")),
    })
}

/// A time to wait: seconds, or a date.
fn retry_after(text: &str) -> Option<Duration> {
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let at = httpdate::parse_http_date(text).ok()?;
    Some(at.duration_since(SystemTime::now()).unwrap_or_default())
}

/// How far the server's clock is from ours, if so far that it refuses what is signed with a time.
pub(crate) fn skew(headers: &HeaderMap, now: SystemTime) -> Option<String> {
    let there = httpdate::parse_http_date(text(headers, DATE.as_str())?).ok()?;
    let (apart, word) = match there.duration_since(now) {
        Ok(ahead) => (ahead, "ahead of"),
        Err(behind) => (behind.duration(), "behind"),
    };
    let minutes = apart.as_secs() / 60;
    (apart > MOST_SKEW)
        .then(|| format!("its clock is {minutes} minutes {word} this machine's; set both right"))
}

/// The body of an answer, as it comes.
pub(crate) fn body(response: Response, address: String) -> Body {
    let chunks = response.bytes_stream();
    chunks.map(move |chunk| chunk.map_err(|error| broken(&error).at(address.as_str()))).boxed()
}

/// The problem behind an error of the connection.
pub(crate) fn broken(error: &reqwest::Error) -> Problem {
    if error.is_timeout() {
        return Problem::TimedOut;
    }
    if error.is_redirect() {
        return Problem::Unsupported("it redirects in circles, or too often".to_owned());
    }
    // The innermost cause says what happened; the outer ones repeat the address.
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    Problem::Unreachable(cause.to_string())
}

/// Whether the server closed the connection in due form, but before the end of the body.
pub(crate) fn is_cut_off(error: &reqwest::Error) -> bool {
    let mut cause: Option<&dyn std::error::Error> = Some(error);
    while let Some(error) = cause {
        let io: Option<&std::io::Error> = error.downcast_ref();
        if io.is_some_and(|io| io.kind() == std::io::ErrorKind::UnexpectedEof) {
            return true;
        }
        cause = error.source();
    }
    false
}

/// The length of the body of an answer.
pub(crate) fn length(headers: &HeaderMap) -> Option<u64> {
    text(headers, CONTENT_LENGTH.as_str())?.parse().ok()
}

/// The tag of the version that the server has.
pub(crate) fn entity_tag(headers: &HeaderMap) -> Option<String> {
    text(headers, ETAG.as_str()).map(str::to_owned)
}

/// The checksums that headers tell: `Digest` (RFC 3230), `Repr-Digest` (RFC 9530), `Content-MD5`.
pub(super) fn hashes(headers: &HeaderMap) -> Vec<Hash> {
    let mut hashes = Vec::new();
    for name in ["digest", "repr-digest"] {
        for part in text(headers, name).unwrap_or_default().split(',') {
            let Some((algorithm, value)) = part.trim().split_once('=') else { continue };
            let Some(algorithm) = Algorithm::named(algorithm) else { continue };
            let value = value.trim_matches(':');
            let hash = Hash::from_hex(algorithm, value).or_else(|| Hash::from_base64(algorithm, value));
            hashes.extend(hash);
        }
    }
    let md5 = text(headers, "content-md5").and_then(|value| Hash::from_base64(Algorithm::Md5, value));
    hashes.extend(md5);
    hashes.sort_by_key(|hash: &Hash| hash.algorithm);
    hashes.dedup_by_key(|hash| hash.algorithm);
    hashes
}

/// Whether the answer is the whole object.
pub(crate) fn is_whole(headers: &HeaderMap, object: &Object) -> Result<(), Problem> {
    match length(headers) {
        Some(bytes) if bytes != object.bytes => Err(Problem::Changed),
        _ => has_not_changed(headers, object),
    }
}

/// Whether the answer is this range of the object.
pub(crate) fn is_range(headers: &HeaderMap, object: &Object, range: &Range<u64>) -> Result<(), Problem> {
    let told = text(headers, CONTENT_RANGE.as_str()).unwrap_or_default();
    let expected = format!("bytes {}-{}/", range.start, range.end - 1);
    match told.strip_prefix(&expected) {
        Some(total) if total == "*" || total.parse() == Ok(object.bytes) => has_not_changed(headers, object),
        Some(_) => Err(Problem::Changed),
        None => Err(Problem::Damaged(format!(
            "bytes {}-{} were asked for, and it sent `{told}`",
            range.start,
            range.end - 1
        ))),
    }
}

fn has_not_changed(headers: &HeaderMap, object: &Object) -> Result<(), Problem> {
    match (&object.identity, entity_tag(headers)) {
        (Some(listed), Some(now)) if *listed != now => Err(Problem::Changed),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_that_are_too_far_apart_are_named() {
        let noon = httpdate::parse_http_date("Thu, 19 Nov 2026 12:00:00 GMT").expect("a date");
        let told = |date: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(DATE, date.parse().expect("a header"));
            skew(&headers, noon)
        };
        assert_eq!(told("Thu, 19 Nov 2026 12:15:00 GMT"), None);
        assert_eq!(told("today"), None);
        let ahead = told("Thu, 19 Nov 2026 14:00:00 GMT").expect("it is told");
        assert_eq!(ahead, "its clock is 120 minutes ahead of this machine's; set both right");
        assert!(
            told("Thu, 19 Nov 2026 11:44:00 GMT").is_some_and(|behind| behind.contains("16 minutes behind"))
        );
    }

    #[test]
    fn a_range_must_be_the_one_asked_for() {
        let object = Object::on_one_server("k".into(), "a".into(), 100, Some("\"v1\"".into()));
        let judge = |range: &str, tag: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_RANGE, range.parse().expect("a header"));
            headers.insert(ETAG, tag.parse().expect("a header"));
            is_range(&headers, &object, &(10..20))
        };
        assert_eq!(judge("bytes 10-19/100", "\"v1\""), Ok(()));
        assert_eq!(judge("bytes 10-19/*", "\"v1\""), Ok(()));
        assert_eq!(judge("bytes 10-19/101", "\"v1\""), Err(Problem::Changed));
        assert_eq!(judge("bytes 10-19/100", "\"v2\""), Err(Problem::Changed));
        assert!(matches!(judge("bytes 0-9/100", "\"v1\""), Err(Problem::Damaged(_))));
        assert!(matches!(judge("", "\"v1\""), Err(Problem::Damaged(_))));
    }

    #[test]
    fn checksums_are_found_in_headers() {
        let mut headers = HeaderMap::new();
        headers.insert(
            "digest",
            "adler32=091e01de, MD5=JfnnlDI7RTiF9RgfG2JNCw==, x=y".parse().expect("a header"),
        );
        headers.insert("content-md5", "JfnnlDI7RTiF9RgfG2JNCw==".parse().expect("a header"));
        let found: Vec<String> = hashes(&headers).iter().map(|hash| format!("{hash:?}")).collect();
        assert_eq!(found, ["md5:25f9e794323b453885f5181f1b624d0b", "adler32:091e01de"]);
    }
}
