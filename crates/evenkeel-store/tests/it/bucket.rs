//! Buckets of a server that speaks S3, well or badly.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use evenkeel_store::{Algorithm, Hasher};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use crate::serve::{Reply, Request, Server};

/// Who may ask: the key's id, the region that requests must be signed for, and what anybody may read.
#[derive(Clone, Debug)]
pub(crate) struct Guard {
    pub(crate) key_id: String,
    pub(crate) region: String,
    pub(crate) public: &'static str,
}

/// The objects of all buckets, by `bucket/key`.
pub(crate) type Objects = Arc<Mutex<BTreeMap<String, Vec<u8>>>>;

/// Answers in place of the server, if it wants to.
pub(crate) type Quirk = Box<dyn Fn(&Request, &Reply) -> Option<Reply> + Send + Sync>;

/// A server with buckets.
pub(crate) struct Buckets {
    pub(crate) server: Server,
    pub(crate) objects: Objects,
    /// The requests so far, as `GET bucket/key`.
    pub(crate) asked: Arc<Mutex<Vec<String>>>,
}

impl Buckets {
    /// Starts a server that lists at most `page` objects at once.
    pub(crate) fn start(page: usize, guard: Option<Guard>, quirk: Option<Quirk>) -> Self {
        let (objects, asked) = (Objects::default(), Arc::new(Mutex::new(Vec::new())));
        let (held, log) = (Arc::clone(&objects), Arc::clone(&asked));
        let server = Server::start(move |request| {
            log.lock().unwrap().push(format!("{} {}", request.method, request.path));
            let reply = answer(&held.lock().unwrap(), page, guard.as_ref(), request);
            quirk.as_ref().and_then(|quirk| quirk(request, &reply)).unwrap_or(reply)
        });
        Self { server, objects, asked }
    }

    pub(crate) fn put(&self, key: &str, data: impl Into<Vec<u8>>) {
        self.objects.lock().unwrap().insert(key.to_owned(), data.into());
    }

    /// The address of a bucket or prefix here, which anybody may read.
    pub(crate) fn address(&self, place: &str) -> String {
        format!("s3://{place}?endpoint={}&anonymous=true", self.server.address)
    }
}

/// An error as S3 writes it.
pub(crate) fn refusal(status: u16, code: &str, more: &str) -> Reply {
    let message = if code == "InvalidAccessKeyId" { "The key is not in our records." } else { "You see." };
    Reply::new(status, format!("<Error><Code>{code}</Code><Message>{message}</Message>{more}</Error>"))
}

pub(crate) fn etag(data: &[u8]) -> String {
    let mut hasher = Hasher::new(Algorithm::Md5);
    hasher.update(data);
    format!("\"{}\"", hasher.finish())
}

fn answer(
    objects: &BTreeMap<String, Vec<u8>>,
    page: usize,
    guard: Option<&Guard>,
    request: &Request,
) -> Reply {
    let is_public =
        |guard: &&Guard| !guard.public.is_empty() && format!("{}/", request.path).starts_with(guard.public);
    if let Some(Guard { key_id, region, .. }) = guard.filter(|guard| !is_public(guard)) {
        let Some(signature) = request.headers.get("authorization") else {
            return refusal(403, "AccessDenied", "");
        };
        if !signature.contains(&format!("Credential={key_id}/")) {
            return refusal(403, "InvalidAccessKeyId", "");
        }
        if !signature.contains(&format!("/{region}/s3/aws4_request")) {
            return refusal(400, "AuthorizationHeaderMalformed", &format!("<Region>{region}</Region>"));
        }
    }
    let Some((bucket, key)) = request.path.split_once('/').filter(|(_, key)| !key.is_empty()) else {
        return list(objects, page, request.path.trim_end_matches('/'), request);
    };
    match objects.get(&format!("{bucket}/{key}")) {
        Some(data) => Reply::data(request, data, &etag(data)),
        None => refusal(404, "NoSuchKey", ""),
    }
}

fn list(objects: &BTreeMap<String, Vec<u8>>, page: usize, bucket: &str, request: &Request) -> Reply {
    let of = |name: &str| request.query.get(name).cloned().unwrap_or_default();
    let bucket = format!("{bucket}/");
    if !objects.keys().any(|key| key.starts_with(&bucket)) {
        return refusal(404, "NoSuchBucket", "");
    }
    let (prefix, after) = (of("prefix"), of("continuation-token"));
    let limit = of("max-keys").parse().unwrap_or(1000).min(page);
    let keys = objects.iter().filter_map(|(key, data)| Some((key.strip_prefix(&bucket)?, data)));
    let mut keys =
        keys.filter(|(key, _)| key.starts_with(&prefix) && *key > after.as_str()).collect::<Vec<_>>();
    let is_truncated = keys.len() > limit;
    keys.truncate(limit);
    let next = keys.last().filter(|_| is_truncated).map_or_else(String::new, |(key, _)| {
        format!(
            "<NextContinuationToken>{}</NextContinuationToken>",
            key.replace('&', "&amp;").replace('<', "&lt;")
        )
    });
    let entries = keys.iter().map(|(key, data)| {
        let (key, etag) = (utf8_percent_encode(key, NON_ALPHANUMERIC), etag(data).replace('"', "&quot;"));
        format!("<Contents><Key>{key}</Key><ETag>{etag}</ETag><Size>{}</Size></Contents>", data.len())
    });
    let entries: String = entries.collect();
    Reply::new(
        200,
        format!(
            "<?xml version=\"1.0\"?><ListBucketResult><EncodingType>url</EncodingType>\
             <IsTruncated>{is_truncated}</IsTruncated>{next}{entries}</ListBucketResult>"
        ),
    )
}
