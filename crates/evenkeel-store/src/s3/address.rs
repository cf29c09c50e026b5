//! `s3://bucket/prefix?endpoint=…`: what an address says. Each address has its own endpoint and credentials, so that
//! mirrors can be anywhere.

use std::str::FromStr;

use percent_encoding::percent_decode_str;
use reqwest::Url;

/// An address, taken apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) bucket: String,
    /// The key of an object, or the beginning of many keys. Ends with `/`, or is empty, if it can only be the latter.
    pub(super) prefix: String,
    /// Where the bucket is, unless it is at AWS, or the environment or the profile says otherwise.
    pub(super) endpoint: Option<Url>,
    pub(super) profile: Option<String>,
    pub(super) region: Option<String>,
    /// Whether the bucket is a part of the path, and not of the host name.
    pub(super) path_style: Option<bool>,
    /// Whether requests are not signed.
    pub(super) anonymous: bool,
    /// Whether the caller pays, and not the owner of the bucket.
    pub(super) requester_pays: bool,
    /// Whether an entity tag that looks like an MD5 is none.
    pub(super) opaque_etags: bool,
}

/// The parameters of an address, as errors list them.
const PARAMETERS: &str = "endpoint, profile, region, path_style, anonymous, requester_pays and opaque_etags";

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let place = text.strip_prefix("s3://").unwrap_or(text);
        // The last `?`, since names may have one.
        let (place, query) = place.rsplit_once('?').unwrap_or((place, ""));
        let (bucket, prefix) = place.split_once('/').unwrap_or((place, ""));
        let is_plain = |c: char| c.is_ascii_alphanumeric() || ".-_".contains(c);
        if bucket.is_empty() || !bucket.chars().all(is_plain) {
            return Err(format!("`{bucket}` cannot be a bucket; give s3://bucket/prefix"));
        }
        let mut address = Self { bucket: bucket.to_owned(), prefix: prefix.to_owned(), ..Self::default() };
        for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
            let (name, value) = parameter.split_once('=').unwrap_or((parameter, "true"));
            let value = percent_decode_str(value).decode_utf8_lossy().into_owned();
            match name {
                "endpoint" => address.endpoint = Some(endpoint(&value)?),
                "profile" => address.profile = Some(value),
                "region" => address.region = Some(value),
                "path_style" => address.path_style = Some(yes_or_no(name, &value)?),
                "anonymous" => address.anonymous = yes_or_no(name, &value)?,
                "requester_pays" => address.requester_pays = yes_or_no(name, &value)?,
                "opaque_etags" => address.opaque_etags = yes_or_no(name, &value)?,
                _ => {
                    return Err(format!(
                        "`{name}` is no parameter of an S3 address, which has {PARAMETERS}; if the name itself has \
                         a `?`, add another one at its end"
                    ));
                }
            }
        }
        Ok(address)
    }
}

/// The address of a service.
pub(super) fn endpoint(text: &str) -> Result<Url, String> {
    let wrong = |why: &str| format!("`{text}` is no endpoint ({why}); give one like http://10.0.0.1:3900");
    let url = Url::parse(text).map_err(|error| wrong(&error.to_string()))?;
    match url.scheme() {
        "http" | "https" if url.host_str().is_none_or(str::is_empty) => Err(wrong("it has no host")),
        "http" | "https" if url.query().is_some() => Err(wrong("it has a query")),
        "http" | "https" => Ok(url),
        _ => Err(wrong("it is neither http:// nor https://")),
    }
}

fn yes_or_no(name: &str, value: &str) -> Result<bool, String> {
    value.parse().map_err(|_| format!("{name} is true or false, not `{value}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Address, String> {
        text.parse()
    }

    #[test]
    fn addresses_say_where_and_how() {
        let plain = Address { bucket: "b.x".into(), ..Address::default() };
        assert_eq!(parse("s3://b.x"), Ok(plain.clone()));
        assert_eq!(parse("s3://b.x/"), Ok(plain.clone()));
        let prefix = |prefix: &str| Ok(Address { prefix: prefix.into(), ..plain.clone() });
        assert_eq!(parse("s3://b.x/a//b c%20é/"), prefix("a//b c%20é/"));
        assert_eq!(parse("s3://b.x/what?.txt?"), prefix("what?.txt"));
        let full = "s3://b/p?endpoint=http://10.0.0.1:3900&profile=x%26y&region=garage&path_style=false&anonymous\
                    &requester_pays=true&opaque_etags=true";
        let expected = Address {
            bucket: "b".into(),
            prefix: "p".into(),
            endpoint: Url::parse("http://10.0.0.1:3900").ok(),
            profile: Some("x&y".into()),
            region: Some("garage".into()),
            path_style: Some(false),
            anonymous: true,
            requester_pays: true,
            opaque_etags: true,
        };
        assert_eq!(parse(full), Ok(expected));
    }

    #[test]
    fn mistakes_are_named() {
        let mistakes = [
            ("s3://", "cannot be a bucket"),
            ("s3:///key", "cannot be a bucket"),
            ("s3://a b/key", "cannot be a bucket"),
            ("s3://b/?endpont=http://x", "`endpont` is no parameter"),
            ("s3://b/?endpoint=10.0.0.1:3900", "is no endpoint"),
            ("s3://b/?endpoint=ftp://x", "neither http:// nor https://"),
            ("s3://b/?anonymous=yes", "anonymous is true or false"),
        ];
        for (text, message) in mistakes {
            let error = parse(text).expect_err(text);
            assert!(error.contains(message), "{text}: {error}");
        }
    }
}
