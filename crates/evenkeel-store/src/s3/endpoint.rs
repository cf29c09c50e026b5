//! A server that speaks S3, with keys that are known: for writes, and for what nodes say beside S3.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::{Duration, SystemTime};

use aws_credential_types::Credentials;
use aws_sigv4::http_request::SignableBody;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::{FutureExt, Stream, StreamExt, TryStreamExt, stream};
use percent_encoding::utf8_percent_encode;
use reqwest::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderValue, RANGE};
use reqwest::{Client, Method, StatusCode, Url};
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};
use tokio::time::Instant;

use super::MOST_BYTES_OF_PAGE;
use super::session::{self, RESERVED, RESERVED_IN_PATH, USUAL_REGION, sign_request};
use super::xml::{Elements, Page};
use crate::Body;
use crate::error::{Problem, StoreError};
use crate::http::answer;

/// A longer answer of a control port is none.
const MOST_BYTES_OF_JSON: usize = 16 << 20;
/// An upload of which nothing moves for this long has stalled.
pub(super) const SILENCE: Duration = Duration::from_secs(20);
/// What is sent rests in buffers of this size for a while, which a slow server empties at this rate at least.
const MOST_BYTES_OF_BUFFERS: u64 = 8 << 20;
const LEAST_RATE: u64 = 256 << 10;

/// A server that speaks S3.
#[derive(Debug)]
pub struct Endpoint {
    base: Url,
    wire: Arc<dyn Wire>,
    keys: Credentials,
    region: String,
    /// Whether its answers may take any time.
    is_slow: bool,
}

/// What is sent.
pub enum Payload {
    /// Nothing.
    Nothing,
    /// These bytes, covered by the signature.
    Bytes(Bytes),
    /// So many bytes, as they come. The signature does not cover them.
    Stream(u64, Body),
}

impl std::fmt::Debug for Payload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Nothing => f.write_str("Nothing"),
            Self::Bytes(bytes) => write!(f, "{} bytes", bytes.len()),
            Self::Stream(bytes, _) => write!(f, "{bytes} bytes as they come"),
        }
    }
}

/// What a server says of an object that was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// Its entity tag, without quotes.
    pub etag: String,
}

/// An object in a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its name.
    pub key: String,
    /// Its size.
    pub bytes: u64,
    /// Its entity tag, without quotes.
    pub etag: String,
}

/// A page of a listing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListedPage {
    /// Objects, in the order of their names.
    pub objects: Vec<Listed>,
    /// What asks for the next page; `None` at the end.
    pub next: Option<String>,
}

/// The answer to a request.
pub struct Answer {
    /// Whether it was done.
    pub status: StatusCode,
    /// What is said of it.
    pub headers: HeaderMap,
    /// Its bytes.
    pub body: Body,
}

impl std::fmt::Debug for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Answer").field("status", &self.status).finish_non_exhaustive()
    }
}

/// A signed request.
#[doc(hidden)]
#[derive(Debug)]
pub struct Request {
    /// What is to be done.
    pub method: Method,
    /// The address of what it is done to.
    pub url: Url,
    /// With its signature.
    pub headers: HeaderMap,
    /// What is sent.
    pub what: Payload,
    /// What it is about, as people know it.
    pub name: String,
    /// Whether the answer may take any time: whoever asks watches it.
    pub is_slow: bool,
}

/// What carries requests to servers and answers back. Tests put a network in its place that loses and delays them.
#[doc(hidden)]
pub trait Wire: std::fmt::Debug + Send + Sync {
    /// Sends a request, and returns the answer when it begins. Fails if nothing moves for [`SILENCE`], unless bytes are sent
    /// as they come: those have their own watch.
    fn send(&self, request: Request) -> BoxFuture<'_, Result<Answer, StoreError>>;
}

/// HTTP over sockets.
#[derive(Debug)]
pub(crate) struct Sockets {
    client: Client,
    /// For what may take long. Its requests have no timeout of their own.
    uploads: Client,
}

impl Sockets {
    pub(crate) fn new() -> Result<Self, String> {
        Ok(Self { client: session::client(Some(SILENCE))?, uploads: session::client(None)? })
    }
}

impl Wire for Sockets {
    fn send(&self, request: Request) -> BoxFuture<'_, Result<Answer, StoreError>> {
        let Request { method, url, headers, what, name, is_slow } = request;
        let client = if is_slow { &self.uploads } else { &self.client };
        let request = match what {
            Payload::Nothing => client.request(method, url).headers(headers),
            Payload::Bytes(bytes) => {
                // It is left out of requests without bytes, and some servers want it there, too.
                let request = client.request(method, url).header(CONTENT_LENGTH, bytes.len());
                request.headers(headers).body(bytes)
            }
            Payload::Stream(bytes, body) => {
                let request = self.uploads.request(method, url).headers(headers);
                let body = reqwest::Body::wrap_stream(body.map_err(std::io::Error::other));
                request.header(CONTENT_LENGTH, bytes).body(body)
            }
        };
        async move {
            let response = request.send().await.map_err(|error| answer::broken(&error).at(name.as_str()))?;
            let (status, headers) = (response.status(), response.headers().clone());
            Ok(Answer { status, headers, body: answer::body(response, name) })
        }
        .boxed()
    }
}

impl Endpoint {
    /// The server at an address such as `http://10.0.0.1:9101`. Nothing is asked of it yet.
    pub fn new(address: &str, access_key: &str, secret_key: &str) -> Result<Self, StoreError> {
        let sockets = Sockets::new().map_err(|why| Problem::Unsupported(why).at(address))?;
        Self::over(Arc::new(sockets), address, access_key, secret_key)
    }

    /// The same, reached in another way than by sockets.
    #[doc(hidden)]
    pub fn over(
        wire: Arc<dyn Wire>,
        address: &str,
        access_key: &str,
        secret_key: &str,
    ) -> Result<Self, StoreError> {
        let at = |what: String| Problem::Unsupported(what).at(address);
        let base = Url::parse(address).map_err(|error| at(format!("it is no address: {error}")))?;
        let keys = Credentials::new(access_key, secret_key, None, None, "cluster");
        Ok(Self { base, wire, keys, region: USUAL_REGION.to_owned(), is_slow: false })
    }

    /// The same server, with requests signed for a region.
    #[must_use]
    pub fn in_region(self, region: &str) -> Self {
        Self { region: region.to_owned(), ..self }
    }

    /// The same server, for requests that may take long to be answered. Whoever sends them watches the time.
    #[must_use]
    pub fn without_timeouts(&self) -> Self {
        let Self { base, wire, keys, region, .. } = self;
        let (base, wire, keys, region) = (base.clone(), Arc::clone(wire), keys.clone(), region.clone());
        Self { base, wire, keys, region, is_slow: true }
    }

    /// Its address.
    pub fn address(&self) -> &str {
        self.base.as_str().trim_end_matches('/')
    }

    /// Makes a bucket, unless there is one.
    pub async fn create_bucket(&self, bucket: &str) -> Result<(), StoreError> {
        let send = self.send(Method::PUT, bucket, "", &[], HeaderMap::new(), Payload::Nothing);
        match send.await {
            Err(StoreError { problem: Problem::Unsupported(why), .. })
                if why.contains("BucketAlready") || why.contains("409") =>
            {
                Ok(())
            }
            other => other.map(drop),
        }
    }

    /// The names of all buckets that these keys see.
    pub async fn buckets(&self) -> Result<Vec<String>, StoreError> {
        let at = |problem: Problem| problem.at(self.name("", ""));
        let response = self.send(Method::GET, "", "", &[], HeaderMap::new(), Payload::Nothing).await?;
        let text = String::from_utf8(all(response.body, MOST_BYTES_OF_PAGE, || self.name("", "")).await?);
        let found = text.map_err(|_| "it is not UTF-8".to_owned());
        let found = found.and_then(|text| Elements::read(&text, &["Bucket"]));
        let found =
            found.map_err(|why| at(Problem::Damaged(format!("its buckets cannot be read: {why}"))))?;
        Ok(found.rows.into_iter().filter_map(|(_, mut texts)| texts.remove("Name")).collect())
    }

    /// Whether there is such a bucket.
    pub async fn has_bucket(&self, bucket: &str) -> Result<bool, StoreError> {
        match self.send(Method::HEAD, bucket, "", &[], HeaderMap::new(), Payload::Nothing).await {
            Ok(_) => Ok(true),
            Err(StoreError { problem: Problem::NotFound, .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Writes an object. With the header `if-none-match`, fails with [`Problem::Changed`] if there is one already.
    pub async fn put(
        &self,
        bucket: &str,
        key: &str,
        headers: HeaderMap,
        what: Payload,
    ) -> Result<Written, StoreError> {
        let response = self.send(Method::PUT, bucket, key, &[], headers, what).await?;
        let etag = answer::entity_tag(&response.headers).unwrap_or_default();
        Ok(Written { etag: etag.trim_matches('"').to_owned() })
    }

    /// What the server says of an object.
    pub async fn head(&self, bucket: &str, key: &str) -> Result<HeaderMap, StoreError> {
        self.head_with(bucket, key, HeaderMap::new()).await
    }

    /// The same for a request with these headers.
    pub async fn head_with(
        &self,
        bucket: &str,
        key: &str,
        headers: HeaderMap,
    ) -> Result<HeaderMap, StoreError> {
        let response = self.send(Method::HEAD, bucket, key, &[], headers, Payload::Nothing).await?;
        Ok(response.headers)
    }

    /// Reads an object, or a range of it that is not empty.
    pub async fn get(
        &self,
        bucket: &str,
        key: &str,
        range: Option<Range<u64>>,
        mut headers: HeaderMap,
    ) -> Result<(HeaderMap, Body), StoreError> {
        let expected = if range.is_some() { StatusCode::PARTIAL_CONTENT } else { StatusCode::OK };
        if let Some(range) = range {
            let value = format!("bytes={}-{}", range.start, range.end.saturating_sub(1));
            headers.insert(RANGE, HeaderValue::from_str(&value).unwrap_or(HeaderValue::from_static("")));
        }
        let response = self.send(Method::GET, bucket, key, &[], headers, Payload::Nothing).await?;
        if response.status != expected {
            let what = format!("the answer {}", response.status);
            return Err(Problem::Damaged(what).at(self.name(bucket, key)));
        }
        Ok((response.headers, response.body))
    }

    /// An address by which everybody can read an object for so many seconds.
    pub fn presigned(&self, bucket: &str, key: &str, seconds: u64) -> Result<String, StoreError> {
        let at = |why| Problem::Unsupported(why).at(self.name(bucket, key));
        let url = self.url(bucket, key, &[]).map_err(at)?;
        let url = session::presign(&Method::GET, url, &self.region, self.keys.clone(), seconds);
        Ok(url.map_err(at)?.into())
    }

    /// Deletes an object. With the header `if-match`, fails with [`Problem::Changed`] if it is another one.
    pub async fn delete(&self, bucket: &str, key: &str, headers: HeaderMap) -> Result<(), StoreError> {
        self.send(Method::DELETE, bucket, key, &[], headers, Payload::Nothing).await.map(drop)
    }

    /// A page of the objects of a bucket whose names begin so.
    pub async fn list(
        &self,
        bucket: &str,
        prefix: &str,
        token: Option<&str>,
    ) -> Result<ListedPage, StoreError> {
        let mut query = vec![("list-type", "2"), ("encoding-type", "url"), ("prefix", prefix)];
        query.extend(token.map(|token| ("continuation-token", token)));
        let response = self.send(Method::GET, bucket, "", &query, HeaderMap::new(), Payload::Nothing).await?;
        let bytes = all(response.body, MOST_BYTES_OF_PAGE, || self.name(bucket, "")).await?;
        let page = String::from_utf8(bytes).map_err(|_| "it is not UTF-8".to_owned());
        let page = page.and_then(|text| Page::read(&text));
        let page = page.map_err(|why| {
            Problem::Damaged(format!("its listing cannot be read: {why}")).at(self.name(bucket, ""))
        })?;
        let objects = page.entries.into_iter().map(|entry| Listed {
            key: entry.key,
            bytes: entry.bytes,
            etag: entry.etag.trim_matches('"').to_owned(),
        });
        Ok(ListedPage { objects: objects.collect(), next: page.next })
    }

    /// Sends any request of S3. A refusal is an answer, too.
    pub async fn ask(
        &self,
        method: Method,
        (bucket, key): (&str, &str),
        query: &[(&'static str, &str)],
        headers: HeaderMap,
        what: Payload,
    ) -> Result<Answer, StoreError> {
        self.send_any(method, bucket, key, query, headers, what).await
    }

    /// Says something to a control port, and reads what it answers.
    pub async fn say<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        what: Option<&impl Serialize>,
    ) -> Result<T, StoreError> {
        let at = |problem: Problem| problem.at(format!("{}/{path}", self.address()));
        let mut headers = HeaderMap::new();
        let payload = match what {
            None => Payload::Nothing,
            Some(what) => {
                headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
                let text =
                    serde_json::to_vec(what).map_err(|error| at(Problem::Unsupported(error.to_string())))?;
                Payload::Bytes(text.into())
            }
        };
        let response = self.send_any(method, path, "", &[], headers, payload).await?;
        let status = response.status;
        let skew = answer::skew(&response.headers, SystemTime::now());
        let name = || format!("{}/{path}", self.address());
        let bytes = all(response.body, MOST_BYTES_OF_JSON, name).await?;
        if status.is_success() {
            return serde_json::from_slice(&bytes).map_err(|error| {
                at(Problem::Damaged(format!("its answer is not what was asked for: {error}")))
            });
        }
        let told: Option<serde_json::Value> = serde_json::from_slice(&bytes).ok();
        let told = told.as_ref().and_then(|told| told["error"].as_str()).unwrap_or_default();
        let told = if told.is_empty() { status.to_string() } else { told.to_owned() };
        Err(at(match status {
            StatusCode::NOT_FOUND => Problem::NotFound,
            StatusCode::PRECONDITION_FAILED => Problem::Changed,
            StatusCode::FORBIDDEN | StatusCode::UNAUTHORIZED => Problem::Denied(skew.unwrap_or(told)),
            StatusCode::SERVICE_UNAVAILABLE => Problem::Refused { retry_after: None },
            status if status.is_server_error() => Problem::Failed(told),
            _ => Problem::Unsupported(told),
        }))
    }

    /// Sends a request, and makes an error of a refusal.
    pub(super) async fn send(
        &self,
        method: Method,
        bucket: &str,
        key: &str,
        query: &[(&'static str, &str)],
        headers: HeaderMap,
        what: Payload,
    ) -> Result<Answer, StoreError> {
        let Answer { status, headers, mut body } =
            self.send_any(method, bucket, key, query, headers, what).await?;
        if status.is_success() {
            return Ok(Answer { status, headers, body });
        }
        let mut text = Vec::new();
        while let Some(Ok(chunk)) = body.next().await
            && text.len() < session::MOST_BYTES_OF_REFUSAL
        {
            text.extend_from_slice(&chunk);
        }
        let refusal = super::xml::Refusal::read(&String::from_utf8_lossy(&text));
        let problem = match session::problem(status, &headers, &refusal) {
            Problem::Unreachable(told) if status.is_server_error() => Problem::Failed(told),
            problem => problem,
        };
        Err(problem.at(self.name(bucket, key)))
    }

    async fn send_any(
        &self,
        method: Method,
        bucket: &str,
        key: &str,
        query: &[(&'static str, &str)],
        mut headers: HeaderMap,
        what: Payload,
    ) -> Result<Answer, StoreError> {
        let at = |problem: Problem| problem.at(self.name(bucket, key));
        let url = self.url(bucket, key, query).map_err(|why| at(Problem::Unsupported(why)))?;
        let signed = match &what {
            Payload::Nothing => SignableBody::empty(),
            Payload::Bytes(bytes) => SignableBody::Precomputed(hex(&Sha256::digest(bytes))),
            Payload::Stream(..) => SignableBody::UnsignedPayload,
        };
        sign_request(&method, &url, &mut headers, &self.region, self.keys.clone(), signed)
            .map_err(|why| at(Problem::Unsupported(why)))?;
        let name = self.name(bucket, key);
        let request = |what| Request { method, url, headers, what, name, is_slow: self.is_slow };
        match what {
            Payload::Stream(bytes, body) => {
                let pulse = Pulse { at: Instant::now(), left: bytes, is_starved: false };
                let pulse = Arc::new(Mutex::new(pulse));
                let body = watched(body, Arc::clone(&pulse));
                tokio::select! {
                    biased;
                    sent = self.wire.send(request(Payload::Stream(bytes, body.boxed()))) => sent,
                    () = stalled(&pulse, bytes) => Err(at(Problem::TimedOut)),
                }
            }
            what => self.wire.send(request(what)).await,
        }
    }

    fn url(&self, bucket: &str, key: &str, query: &[(&'static str, &str)]) -> Result<Url, String> {
        let encode = |text| utf8_percent_encode(text, RESERVED).to_string();
        let slash = if key.is_empty() { "" } else { "/" };
        let path = format!(
            "/{}{slash}{}",
            utf8_percent_encode(bucket, RESERVED_IN_PATH),
            utf8_percent_encode(key, RESERVED_IN_PATH)
        );
        let query: Vec<String> =
            query.iter().map(|(name, value)| format!("{name}={}", encode(value))).collect();
        let mark = if query.is_empty() { "" } else { "?" };
        let text = format!("{}{path}{mark}{}", self.address(), query.join("&"));
        let url = Url::parse(&text).map_err(|error| format!("it is no address: {error}"))?;
        // What looks like a step upwards is resolved there, and would be another object.
        if url.path() != path {
            return Err("no web address leads to a name with `.` or `..` between slashes".to_owned());
        }
        Ok(url)
    }

    fn name(&self, bucket: &str, key: &str) -> String {
        let slash = if key.is_empty() { "" } else { "/" };
        format!("{}/{bucket}{slash}{key}", self.address())
    }
}

/// How far an upload is.
struct Pulse {
    /// When it last moved.
    at: Instant,
    /// The bytes that have not been taken yet.
    left: u64,
    /// Whether the server would take more than there is. How long it may take until there is more is not for us to say.
    is_starved: bool,
}

/// The body of an upload, which tells how far it is.
fn watched(mut body: Body, pulse: Arc<Mutex<Pulse>>) -> impl Stream<Item = Result<Bytes, StoreError>> {
    stream::poll_fn(move |cx| {
        let polled = body.as_mut().poll_next(cx);
        let mut pulse = pulse.lock().unwrap_or_else(PoisonError::into_inner);
        pulse.at = Instant::now();
        pulse.is_starved = polled.is_pending();
        if let Poll::Ready(Some(Ok(chunk))) = &polled {
            pulse.left = pulse.left.saturating_sub(chunk.len() as u64);
        }
        polled
    })
}

/// Returns when an upload of so many bytes has not moved for too long. What has been taken may still be in buffers.
async fn stalled(pulse: &Mutex<Pulse>, bytes: u64) {
    loop {
        let (at, left) = {
            let pulse = pulse.lock().unwrap_or_else(PoisonError::into_inner);
            (if pulse.is_starved { Instant::now() } else { pulse.at }, pulse.left)
        };
        let buffered = if left == 0 { bytes.min(MOST_BYTES_OF_BUFFERS) } else { 0 };
        let end = at + SILENCE + Duration::from_secs(buffered / LEAST_RATE);
        if Instant::now() >= end {
            return;
        }
        tokio::time::sleep_until(end).await;
    }
}

/// Bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

async fn all(mut body: Body, most: usize, name: impl Fn() -> String) -> Result<Vec<u8>, StoreError> {
    let mut bytes = Vec::new();
    while let Some(chunk) = body.try_next().await? {
        if bytes.len() + chunk.len() > most {
            return Err(Problem::Damaged("its answer does not end".to_owned()).at(name()));
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}
