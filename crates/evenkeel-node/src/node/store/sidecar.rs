//! A store behind which is another S3 server: a node beside storage that people have already.
//!
//! What a client sends is passed on as it comes, and so is the answer. Bytes are as durable, and conditions are as good,
//! as that server makes them. Nobody else should write there: a version is the entity tag and the time of a write.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use bytes::Bytes;
use evenkeel_store::{Answer, Elements, Endpoint, Payload};
use futures_util::{StreamExt, TryStreamExt};
use hyper::header::{
    CONTENT_LENGTH, ETAG, HeaderMap, HeaderName, HeaderValue, IF_MATCH, IF_NONE_MATCH, LAST_MODIFIED, RANGE,
};
use hyper::{Method, StatusCode};
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use super::{
    Attributes, Bucket, Checksum, Chosen, Condition, Entry, Incoming, Listing, Outgoing, Part, Scrub,
    Selection, Store, StoreError, Upload, Usage,
};

/// A longer answer in XML is none.
const MOST_BYTES_OF_XML: usize = 16 << 20;
/// What a client says of an object, and gets back with it.
const KEPT: [&str; 6] = [
    "cache-control",
    "content-disposition",
    "content-encoding",
    "content-language",
    "content-type",
    "expires",
];
const USER: &str = "x-amz-meta-";
const CHECKSUM: &str = "x-amz-checksum-";

/// Another S3 server as a store.
#[derive(Debug)]
pub struct Sidecar {
    endpoint: Endpoint,
}

impl Sidecar {
    /// A store at this server. Nothing is asked of it yet.
    pub fn new(endpoint: Endpoint) -> Self {
        Self { endpoint }
    }

    async fn ask(
        &self,
        method: Method,
        object: (&str, &str),
        query: &[(&'static str, &str)],
        headers: HeaderMap,
        what: Payload,
    ) -> Result<Answer, StoreError> {
        let answer = self
            .endpoint
            .ask(method, object, query, headers, what)
            .await
            .map_err(|error| self.behind(&error))?;
        if answer.status.is_success() {
            return Ok(answer);
        }
        let status = answer.status;
        let body = self.text(answer).await.unwrap_or_default();
        let refusal = Elements::read(&body, &[]).unwrap_or_default().texts;
        let told = |name: &str| refusal.get(name).cloned().unwrap_or_default();
        let (bucket, key) = (object.0.to_owned(), object.1.to_owned());
        let upload = query.iter().find(|(name, _)| *name == "uploadId").map(|(_, id)| (*id).to_owned());
        Err(match (told("Code").as_str(), status) {
            ("NoSuchUpload", _) => StoreError::NoSuchUpload(upload.unwrap_or_default()),
            ("NoSuchBucket", _) => StoreError::NoSuchBucket(bucket),
            ("BucketAlreadyExists" | "BucketAlreadyOwnedByYou", _) => StoreError::BucketExists(bucket),
            ("BucketNotEmpty", _) => StoreError::BucketNotEmpty(bucket),
            ("NoSuchKey", _) => StoreError::NoSuchKey(key),
            (_, StatusCode::NOT_FOUND) if key.is_empty() => StoreError::NoSuchBucket(bucket),
            (_, StatusCode::NOT_FOUND) => StoreError::NoSuchKey(key),
            (_, StatusCode::PRECONDITION_FAILED | StatusCode::CONFLICT) => {
                StoreError::Precondition(format!("the server behind says {status}"))
            }
            ("BadDigest" | "InvalidDigest" | "XAmzContentSHA256Mismatch" | "IncompleteBody", _) => {
                StoreError::BadBody(told("Message"))
            }
            (code, _) => self.unexpected(format!("it answers {status} {code} {}", told("Message"))),
        })
    }

    /// The same, where the answer is XML in which elements of these names are rows.
    async fn ask_xml(
        &self,
        method: Method,
        object: (&str, &str),
        query: &[(&'static str, &str)],
        (headers, what): (HeaderMap, Payload),
        rows: &[&str],
    ) -> Result<Elements, StoreError> {
        let answer = self.ask(method, object, query, headers, what).await?;
        let text = self.text(answer).await?;
        Elements::read(&text, rows)
            .map_err(|why| self.unexpected(format!("its answer cannot be read: {why}")))
    }

    async fn text(&self, answer: Answer) -> Result<String, StoreError> {
        let mut bytes = Vec::new();
        let mut body = answer.body;
        while let Some(chunk) = body.next().await {
            let chunk = chunk.map_err(|error| self.behind(&error))?;
            if bytes.len() + chunk.len() > MOST_BYTES_OF_XML {
                return Err(self.unexpected("its answer does not end".to_owned()));
            }
            bytes.extend_from_slice(&chunk);
        }
        String::from_utf8(bytes).map_err(|_| self.unexpected("its answer is not UTF-8".to_owned()))
    }

    /// The server behind did not do it.
    fn behind(&self, error: &evenkeel_store::StoreError) -> StoreError {
        let what = format!("the server behind this node, {}", self.endpoint.address());
        StoreError::Io { what, error: std::io::Error::other(error.to_string()) }
    }

    fn unexpected(&self, why: String) -> StoreError {
        let what = format!("the server behind this node, {}", self.endpoint.address());
        StoreError::Io { what, error: std::io::Error::other(why) }
    }

    /// What a client sends, as a payload of known length, and how it ended if that was not well.
    fn passed_on(body: Incoming) -> Result<(Payload, Complaint), StoreError> {
        let bytes = body.size.ok_or_else(|| {
            StoreError::BadBody(
                "the size is not known; send Content-Length or x-amz-decoded-content-length".to_owned(),
            )
        })?;
        let complaint = Complaint::default();
        let told = complaint.clone();
        let stream = body.bytes.map_err(move |error| {
            let why = error.to_string();
            *told.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            evenkeel_store::Problem::Damaged(why).at("what the client sends")
        });
        Ok((Payload::Stream(bytes, stream.boxed()), complaint))
    }

    /// Writes the bytes of an object or of a part.
    async fn write(
        &self,
        object: (&str, &str),
        query: &[(&'static str, &str)],
        headers: HeaderMap,
        body: Incoming,
    ) -> Result<(HeaderMap, u64), StoreError> {
        let bytes = body.size.unwrap_or_default();
        let (payload, complaint) = Self::passed_on(body)?;
        let answer = self.ask(Method::PUT, object, query, headers, payload).await;
        // What the client did wrong says more than that the server behind got too little.
        let complaint = complaint.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        match (answer, complaint) {
            (_, Some(complaint)) => Err(complaint),
            (answer, None) => Ok((answer?.headers, bytes)),
        }
    }
}

/// Why the bytes of a client ended early.
#[derive(Clone, Default)]
struct Complaint(Arc<Mutex<Option<StoreError>>>);

#[async_trait]
impl Store for Sidecar {
    async fn buckets(&self) -> Result<Vec<Bucket>, StoreError> {
        let found = self.ask_xml(Method::GET, ("", ""), &[], nothing(), &["Bucket"]).await?;
        let bucket = |(_, texts): (String, Texts)| Bucket {
            name: text(&texts, "Name"),
            created_ms: iso_ms(&text(&texts, "CreationDate")),
        };
        Ok(found.rows.into_iter().map(bucket).collect())
    }

    async fn create_bucket(&self, bucket: &str) -> Result<(), StoreError> {
        self.ask(Method::PUT, (bucket, ""), &[], HeaderMap::new(), Payload::Nothing).await.map(drop)
    }

    async fn delete_bucket(&self, bucket: &str) -> Result<(), StoreError> {
        self.ask(Method::DELETE, (bucket, ""), &[], HeaderMap::new(), Payload::Nothing).await.map(drop)
    }

    async fn list(&self, bucket: &str, what: &Selection) -> Result<Listing, StoreError> {
        let limit = what.limit.to_string();
        let mut query = vec![("encoding-type", "url"), ("list-type", "2"), ("max-keys", &*limit)];
        let more = [("prefix", &what.prefix), ("delimiter", &what.delimiter), ("start-after", &what.after)];
        query.extend(
            more.into_iter().filter(|(_, text)| !text.is_empty()).map(|(name, text)| (name, text.as_str())),
        );
        let rows = ["Contents", "CommonPrefixes"];
        let found = self.ask_xml(Method::GET, (bucket, ""), &query, nothing(), &rows).await?;
        let is_encoded = found.texts.get("EncodingType").is_some_and(|encoding| encoding == "url");
        let decoded = |name: String| match is_encoded {
            true => percent_decode_str(&name.replace('+', " ")).decode_utf8_lossy().into_owned(),
            false => name,
        };
        let mut listing = Listing::default();
        for (of, texts) in found.rows {
            if of == "CommonPrefixes" {
                listing.prefixes.push(decoded(text(&texts, "Prefix")));
                continue;
            }
            let (etag, modified_ms) = (tag(&text(&texts, "ETag")), iso_ms(&text(&texts, "LastModified")));
            let entry = Entry {
                bytes: text(&texts, "Size").parse().unwrap_or_default(),
                version: version(&etag, modified_ms),
                etag,
                modified_ms,
                attributes: Attributes::default(),
                checksum: None,
                parts: Vec::new(),
            };
            listing.entries.push((decoded(text(&texts, "Key")), entry));
        }
        if found.texts.get("IsTruncated").is_some_and(|is_truncated| is_truncated == "true") {
            let last = listing.entries.last().map(|(key, _)| key.clone());
            listing.next = last.max(listing.prefixes.last().cloned());
        }
        Ok(listing)
    }

    async fn head(&self, bucket: &str, key: &str) -> Result<Entry, StoreError> {
        let mut headers = HeaderMap::new();
        headers.insert("x-amz-checksum-mode", HeaderValue::from_static("ENABLED"));
        let answer = self.ask(Method::HEAD, (bucket, key), &[], headers, Payload::Nothing).await?;
        Ok(entry(&answer.headers))
    }

    async fn get(
        &self,
        bucket: &str,
        key: &str,
        range: &(dyn for<'a> Fn(&'a Entry) -> Result<Range<u64>, StoreError> + Send + Sync),
    ) -> Result<(Entry, Outgoing), StoreError> {
        let entry = self.head(bucket, key).await?;
        let range = range(&entry)?;
        if range.is_empty() {
            return Ok((entry, futures_util::stream::empty().boxed()));
        }
        let mut headers = HeaderMap::new();
        insert(&mut headers, RANGE, &format!("bytes={}-{}", range.start, range.end - 1));
        insert(&mut headers, IF_MATCH, &format!("\"{}\"", entry.etag));
        let answer = self.ask(Method::GET, (bucket, key), &[], headers, Payload::Nothing).await?;
        let whole = StatusCode::OK == answer.status && range == (0..entry.bytes);
        if answer.status != StatusCode::PARTIAL_CONTENT && !whole {
            return Err(self.unexpected(format!("it answers a range with {}", answer.status)));
        }
        let (what, mut left) = (format!("{bucket}/{key}"), range.end - range.start);
        let body = answer.body.map(move |chunk| match chunk {
            Ok(chunk) if chunk.len() as u64 <= left => {
                left -= chunk.len() as u64;
                Ok(chunk)
            }
            Ok(_) => Err(StoreError::Damaged {
                what: what.clone(),
                why: "the server behind sends too much".to_owned(),
            }),
            Err(error) => Err(StoreError::Damaged { what: what.clone(), why: error.to_string() }),
        });
        Ok((entry, body.boxed()))
    }

    async fn put(
        &self,
        bucket: &str,
        key: &str,
        attributes: Attributes,
        body: Incoming,
        condition: Condition,
    ) -> Result<Entry, StoreError> {
        let mut headers = as_headers(&attributes);
        self.require((bucket, key), condition, &mut headers).await?;
        let checksum = Arc::clone(&body.checksum);
        let (answer, bytes) = self.write((bucket, key), &[], headers, body).await?;
        let (etag, modified_ms) = (tag_of(&answer), now_ms());
        let checksum = checksum.get().cloned();
        let version = version(&etag, modified_ms);
        Ok(Entry { bytes, version, etag, modified_ms, attributes, checksum, parts: Vec::new() })
    }

    async fn delete(&self, bucket: &str, key: &str, condition: Condition) -> Result<(), StoreError> {
        let mut headers = HeaderMap::new();
        self.require((bucket, key), condition, &mut headers).await?;
        self.ask(Method::DELETE, (bucket, key), &[], headers, Payload::Nothing).await.map(drop)
    }

    async fn copy(
        &self,
        from: (&str, &str),
        _version: u64,
        to: (&str, &str),
        attributes: Option<Attributes>,
        condition: Condition,
    ) -> Result<Entry, StoreError> {
        let source = format!("/{}/{}", from.0, utf8_percent_encode(from.1, NON_ALPHANUMERIC));
        let mut headers = attributes.as_ref().map(as_headers).unwrap_or_default();
        insert(&mut headers, HeaderName::from_static("x-amz-copy-source"), &source);
        let directive = if attributes.is_some() { "REPLACE" } else { "COPY" };
        insert(&mut headers, HeaderName::from_static("x-amz-metadata-directive"), directive);
        self.require(to, condition, &mut headers).await?;
        let done = self.ask_xml(Method::PUT, to, &[], (headers, Payload::Nothing), &[]).await?;
        // A copy may fail after the server has said that it is under way.
        if !done.texts.contains_key("ETag") {
            return Err(self.unexpected(format!("it did not copy: {}", text(&done.texts, "Message"))));
        }
        self.head(to.0, to.1).await
    }

    async fn start_upload(
        &self,
        bucket: &str,
        key: &str,
        attributes: Attributes,
    ) -> Result<Upload, StoreError> {
        let what = (as_headers(&attributes), Payload::Nothing);
        let found = self.ask_xml(Method::POST, (bucket, key), &[("uploads", "")], what, &[]).await?;
        match found.texts.get("UploadId") {
            Some(id) => Ok(Upload { key: key.to_owned(), id: id.clone(), started_ms: now_ms(), attributes }),
            None => Err(self.unexpected("it names no upload".to_owned())),
        }
    }

    async fn put_part(
        &self,
        bucket: &str,
        key: &str,
        upload: &str,
        number: u32,
        body: Incoming,
    ) -> Result<Part, StoreError> {
        let place = number.to_string();
        let query = [("partNumber", &*place), ("uploadId", upload)];
        let checksum = Arc::clone(&body.checksum);
        let (answer, bytes) = self.write((bucket, key), &query, HeaderMap::new(), body).await?;
        let checksum = checksum.get().cloned();
        Ok(Part { number, bytes, etag: tag_of(&answer), modified_ms: now_ms(), checksum })
    }

    async fn parts(
        &self,
        bucket: &str,
        key: &str,
        upload: &str,
        after: u32,
        limit: usize,
    ) -> Result<(Vec<Part>, bool), StoreError> {
        let (after, limit) = (after.to_string(), limit.to_string());
        let query = [("max-parts", &*limit), ("part-number-marker", &*after), ("uploadId", upload)];
        let found = self.ask_xml(Method::GET, (bucket, key), &query, nothing(), &["Part"]).await?;
        let part = |(_, texts): (String, Texts)| Part {
            number: text(&texts, "PartNumber").parse().unwrap_or_default(),
            bytes: text(&texts, "Size").parse().unwrap_or_default(),
            etag: tag(&text(&texts, "ETag")),
            modified_ms: iso_ms(&text(&texts, "LastModified")),
            checksum: None,
        };
        let is_truncated = found.texts.get("IsTruncated").is_some_and(|is_truncated| is_truncated == "true");
        Ok((found.rows.into_iter().map(part).collect(), is_truncated))
    }

    async fn complete_upload(
        &self,
        bucket: &str,
        key: &str,
        upload: &str,
        parts: &[Chosen],
        _checksum: Option<Checksum>,
        condition: Condition,
    ) -> Result<Entry, StoreError> {
        let mut headers = HeaderMap::new();
        self.require((bucket, key), condition, &mut headers).await?;
        let row = |part: &Chosen| {
            format!(
                "<Part><PartNumber>{}</PartNumber><ETag>\"{}\"</ETag></Part>",
                part.number,
                escaped(&part.etag)
            )
        };
        let rows: String = parts.iter().map(row).collect();
        let body =
            Payload::Bytes(Bytes::from(format!("<CompleteMultipartUpload>{rows}</CompleteMultipartUpload>")));
        let done =
            self.ask_xml(Method::POST, (bucket, key), &[("uploadId", upload)], (headers, body), &[]).await?;
        if !done.texts.contains_key("ETag") {
            return Err(self.unexpected(format!("it did not complete: {}", text(&done.texts, "Message"))));
        }
        self.head(bucket, key).await
    }

    async fn abort_upload(&self, bucket: &str, key: &str, upload: &str) -> Result<(), StoreError> {
        let query = [("uploadId", upload)];
        self.ask(Method::DELETE, (bucket, key), &query, HeaderMap::new(), Payload::Nothing).await.map(drop)
    }

    async fn uploads(&self, bucket: &str, prefix: &str) -> Result<Vec<Upload>, StoreError> {
        let (mut uploads, mut after) = (Vec::new(), (String::new(), String::new()));
        loop {
            let query = [
                ("key-marker", &*after.0),
                ("prefix", prefix),
                ("upload-id-marker", &*after.1),
                ("uploads", ""),
            ];
            let found = self.ask_xml(Method::GET, (bucket, ""), &query, nothing(), &["Upload"]).await?;
            uploads.extend(found.rows.into_iter().map(|(_, texts)| Upload {
                key: text(&texts, "Key"),
                id: text(&texts, "UploadId"),
                started_ms: iso_ms(&text(&texts, "Initiated")),
                attributes: Attributes::default(),
            }));
            let next = (text(&found.texts, "NextKeyMarker"), text(&found.texts, "NextUploadIdMarker"));
            if text(&found.texts, "IsTruncated") != "true" || next == after {
                return Ok(uploads);
            }
            after = next;
        }
    }

    async fn usage(&self) -> Result<Usage, StoreError> {
        // Only the server behind knows.
        Ok(Usage::default())
    }

    async fn scrub(&self) -> Result<Scrub, StoreError> {
        Err(StoreError::Unusable("the server behind this node keeps the data; scrub it there".to_owned()))
    }
}

impl Sidecar {
    /// Says the condition of a write in headers. Whether it is looked at in the same step is up to the server behind.
    async fn require(
        &self,
        (bucket, key): (&str, &str),
        condition: Condition,
        headers: &mut HeaderMap,
    ) -> Result<(), StoreError> {
        match condition {
            Condition::Always => {}
            Condition::Absent => insert(headers, IF_NONE_MATCH, "*"),
            Condition::Etag(etag) if etag == "*" => insert(headers, IF_MATCH, "*"),
            Condition::Etag(etag) => insert(headers, IF_MATCH, &format!("\"{etag}\"")),
            Condition::Version(version) => {
                let now = self.head(bucket, key).await?;
                if now.version != version {
                    return Err(StoreError::Precondition("it was written since".to_owned()));
                }
                insert(headers, IF_MATCH, &format!("\"{}\"", now.etag));
            }
        }
        Ok(())
    }
}

type Texts = BTreeMap<String, String>;

fn nothing() -> (HeaderMap, Payload) {
    (HeaderMap::new(), Payload::Nothing)
}

fn text(texts: &Texts, name: &str) -> String {
    texts.get(name).cloned().unwrap_or_default()
}

fn tag(etag: &str) -> String {
    etag.trim_matches('"').to_owned()
}

fn tag_of(headers: &HeaderMap) -> String {
    headers.get(ETAG).and_then(|etag| etag.to_str().ok()).map(tag).unwrap_or_default()
}

/// What the headers of an answer say of an object.
fn entry(headers: &HeaderMap) -> Entry {
    let value = |name: &HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    let mut attributes = Attributes::default();
    let mut checksum = None;
    for (name, value) in headers {
        let (name, Ok(value)) = (name.as_str(), value.to_str()) else { continue };
        if KEPT.contains(&name) {
            attributes.headers.insert(name.to_owned(), value.to_owned());
        } else if let Some(name) = name.strip_prefix(USER) {
            attributes.user.insert(name.to_owned(), value.to_owned());
        } else if let Some(algorithm) = name.strip_prefix(CHECKSUM).filter(|algorithm| *algorithm != "type") {
            checksum = Some(Checksum { algorithm: algorithm.to_uppercase(), value: value.to_owned() });
        }
    }
    let modified = value(&LAST_MODIFIED).and_then(|date| httpdate::parse_http_date(date).ok());
    let modified_ms = modified.map_or(0, ms);
    let etag = tag_of(headers);
    let bytes = value(&CONTENT_LENGTH).and_then(|bytes| bytes.parse().ok()).unwrap_or_default();
    Entry {
        bytes,
        version: version(&etag, modified_ms),
        etag,
        modified_ms,
        attributes,
        checksum,
        parts: Vec::new(),
    }
}

fn as_headers(attributes: &Attributes) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let user = attributes.user.iter().map(|(name, value)| (format!("{USER}{name}"), value));
    // What the front keeps there for itself is none of the server's business.
    let headers_of = attributes.headers.iter().filter(|(name, _)| KEPT.contains(&name.as_str()));
    for (name, value) in headers_of.map(|(name, value)| (name.clone(), value)).chain(user) {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value.as_str())) {
            headers.insert(name, value);
        }
    }
    headers
}

fn insert(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::try_from(value) {
        headers.insert(name, value);
    }
}

/// S3 numbers no versions. Two writes of the same bytes in the same second look alike, and are.
fn version(etag: &str, modified_ms: u64) -> u64 {
    let hash = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3);
    etag.bytes().fold(0xCBF2_9CE4_8422_2325 ^ (modified_ms / 1000), hash)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn ms(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

fn now_ms() -> u64 {
    ms(SystemTime::now())
}

/// A time such as `2026-11-19T08:58:25.123Z`, in milliseconds since 1970; 0 if it is none.
fn iso_ms(text: &str) -> u64 {
    let number = |range: Range<usize>| text.get(range).and_then(|digits| digits.parse::<u64>().ok());
    let parts = [number(0..4), number(5..7), number(8..10), number(11..13), number(14..16), number(17..19)];
    let [Some(year), Some(month), Some(day), Some(hour), Some(minute), Some(second)] = parts else {
        return 0;
    };
    if !(1..=12).contains(&month) || year < 1970 {
        return 0;
    }
    // Days since 1970, with years that begin in March, so that leap days come last.
    let (of_year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = of_year * 365 + of_year / 4 - of_year / 100 + of_year / 400 + (153 * month + 2) / 5 + day;
    let seconds = (days.saturating_sub(719_469)) * 86_400 + hour * 3600 + minute * 60 + second;
    let thousandths = number(20..23).unwrap_or_default();
    Duration::from_secs(seconds).as_millis() as u64 + thousandths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read() {
        assert_eq!(iso_ms("1970-01-01T00:00:00Z"), 0);
        assert_eq!(iso_ms("2000-02-29T12:34:56.789Z"), 951_827_696_789);
        assert_eq!(iso_ms("2026-11-19T08:58:25.000Z"), 1_795_078_705_000);
        for none in ["", "yesterday", "2026-13-01T00:00:00Z", "2026-11-19"] {
            assert_eq!(iso_ms(none), 0, "{none}");
        }
    }
}
