//! Who may ask: whoever has signed all of the request that matters.
//!
//! The crate for S3 verifies signatures. It does not ask what they cover, and it takes those of version 2 in headers, which
//! never expire. Whoever had seen a request, or was given a presigned URL to write one object, could add a header to it: one
//! that copies another object there, say.

use hyper::header::AUTHORIZATION;
use hyper::{HeaderMap, StatusCode, Uri};
use percent_encoding::percent_decode_str;
use s3s::access::{S3Access, S3AccessContext};
use s3s::{S3ErrorCode, S3Result};

use super::errors::{custom, refuse};

/// Headers that a signature covers without naming them: the time, and the checksum of the body.
const COVERED: [&str; 2] = ["x-amz-date", "x-amz-content-sha256"];
/// How long S3 lets a presigned URL be of use: a week.
const MOST_SECONDS: u64 = 7 * 24 * 3600;

/// Lets those in who have the keys.
pub(in crate::node) struct Access;

#[async_trait::async_trait]
impl S3Access for Access {
    async fn check(&self, context: &mut S3AccessContext<'_>) -> S3Result<()> {
        if context.credentials().is_none() {
            let why = "the request is not signed; nobody may read or write here without keys";
            return Err(refuse(S3ErrorCode::AccessDenied, why));
        }
        check_signed(context.headers(), context.uri())
    }
}

/// Refuses a request with a valid signature that does not cover what it should.
pub(in crate::node) fn check_signed(headers: &HeaderMap, uri: &Uri) -> S3Result<()> {
    let query = |name: &str| {
        let mut pairs = uri.query().unwrap_or_default().split('&').filter_map(|pair| pair.split_once('='));
        let (_, value) = pairs.find(|(is, _)| percent_decode_str(is).eq(name.bytes()))?;
        Some(percent_decode_str(value).decode_utf8_lossy().into_owned())
    };
    // In the order in which the crate for S3 looks for signatures. That of version 2 covers all headers of S3.
    if query("Signature").is_some() {
        return Ok(());
    }
    let authorization = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if authorization.starts_with("AWS ") {
        let why = "signatures of version 2 are taken in presigned URLs only; sign with AWS4-HMAC-SHA256";
        return Err(refuse(S3ErrorCode::InvalidRequest, why));
    }
    let signed = match query("X-Amz-SignedHeaders") {
        Some(signed) if query("X-Amz-Signature").is_some() => {
            if query("X-Amz-Expires")
                .is_some_and(|seconds| !seconds.parse().is_ok_and(|n: u64| n <= MOST_SECONDS))
            {
                let why = "X-Amz-Expires is at most a week, 604800";
                return Err(custom("AuthorizationQueryParametersError", StatusCode::BAD_REQUEST, why));
            }
            signed
        }
        _ => {
            let mut fields = authorization.split([',', ' ']);
            fields.find_map(|field| field.strip_prefix("SignedHeaders=")).unwrap_or_default().to_owned()
        }
    };
    let is_signed = |name: &str| signed.split(';').any(|one| one.eq_ignore_ascii_case(name));
    let names = headers.keys().map(hyper::header::HeaderName::as_str);
    let mut needed =
        names.filter(|name| name.starts_with("x-amz-") && !COVERED.contains(name)).chain(["host"]);
    match needed.find(|name| !is_signed(name)) {
        None => Ok(()),
        Some(name) => Err(refuse(
            S3ErrorCode::AccessDenied,
            format!("the header {name} is not among those that were signed; sign it, or leave it out"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(uri: &str, headers: &[(&'static str, &str)]) -> Result<(), String> {
        let headers = headers
            .iter()
            .map(|(name, value)| (hyper::header::HeaderName::from_static(name), value.parse().unwrap()));
        let checked = check_signed(&headers.collect(), &uri.parse().unwrap());
        checked.map_err(|error| error.code().as_str().to_owned())
    }

    #[test]
    fn what_is_not_signed_is_refused() {
        let signed =
            |names: &str| format!("AWS4-HMAC-SHA256 Credential=a/b/c, SignedHeaders={names}, Signature=00");
        let presigned = |names: &str, seconds: &str| {
            format!("/b/k?X-Amz-Expires={seconds}&X-Amz-SignedHeaders={names}&X-Amz-Signature=00")
        };
        let copies = ("x-amz-copy-source", "b/other");
        let denied = Err("AccessDenied".to_owned());
        for (names, expected) in [("host;x-amz-copy-source", Ok(())), ("host", denied.clone())] {
            let header = signed(names);
            let headers = [("authorization", &*header), ("host", "a"), ("x-amz-date", "d"), copies];
            assert_eq!(check("/b/k", &headers), expected);
            let names = names.replace(';', "%3B");
            assert_eq!(check(&presigned(&names, "60"), &[("host", "a"), copies]), expected);
            // Only one of the two was verified.
            let both = presigned("host", "60");
            assert_eq!(check(&both, &headers), denied);
        }
        assert_eq!(check("/b/k", &[("authorization", &signed("x-amz-date")), ("host", "a")]), denied);
        let header = signed("host");
        assert_eq!(check("/b/k", &[("authorization", &header.replace(", ", ","))]), Ok(()));
        let wrong = Err("AuthorizationQueryParametersError".to_owned());
        for seconds in ["604801", "x", "99999999999999999999"] {
            assert_eq!(check(&presigned("host", seconds), &[]), wrong);
        }
        assert_eq!(check("/b/k", &[("authorization", "AWS a:b")]), Err("InvalidRequest".to_owned()));
        assert_eq!(check("/b/k?AWSAccessKeyId=a&Signature=b&Expires=1", &[copies]), Ok(()));
    }
}
