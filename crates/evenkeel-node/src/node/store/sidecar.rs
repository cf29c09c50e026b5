//! A store behind which is another S3 server: a node beside storage that people have already.
//!
//! What a client sends is passed on as it comes, and so is the answer. Bytes are as durable as that server makes them.
//! Conditions are passed on, too, where it carries them out, and refused where it does not. A version is the entity tag
//! and the time of a write, in seconds: two writes of the same bytes in the same second look alike, and are.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use bytes::Bytes;
use evenkeel_store::cluster::redirect;
use evenkeel_store::{Answer, Conditions, Elements, Endpoint, Payload, Problem};
use futures_util::{StreamExt, stream};
use hyper::header::{
    CONTENT_LENGTH, CONTENT_RANGE, ETAG, HeaderMap, HeaderName, HeaderValue, IF_MATCH, IF_NONE_MATCH,
    LAST_MODIFIED, RANGE,
};
use hyper::{Method, StatusCode};
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use tokio::sync::OnceCell;

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
/// How often an object is read again that was written between two questions.
const N_TRIES: usize = 4;
/// Buckets that are tried at the start, until there is one in which the keys may write.
const N_BUCKETS: usize = 16;
/// Objects of a listing that are looked at at once.
const N_LOOKED_AT: usize = 32;

/// Another S3 server as a store.
#[derive(Debug)]
pub struct Sidecar {
    endpoint: Endpoint,
    conditions: OnceCell<Conditions>,
    /// Whether objects of a listing may be redirects.
    is_in_cluster: bool,
}

/// What is done only if a condition holds.
#[derive(Clone, Copy, Debug)]
enum Act {
    Write,
    Copy,
    Delete,
}

impl Sidecar {
    /// A store at this server, which is asked whether it answers and which conditions it carries out. In a cluster, what it
    /// lists may be redirects; then each object that is small enough to be one is looked at.
    pub async fn open(endpoint: Endpoint, is_in_cluster: bool) -> Result<Self, StoreError> {
        let sidecar = Self { endpoint, conditions: OnceCell::new(), is_in_cluster };
        sidecar.is_conditional().await?;
        Ok(sidecar)
    }

    /// Which conditions the server behind carries out, as a bucket shows.
    async fn conditions(&self, bucket: &str) -> Result<Conditions, StoreError> {
        let ask = || async { self.endpoint.conditions(bucket).await.map_err(|error| self.behind(&error)) };
        self.conditions.get_or_try_init(ask).await.copied()
    }

    async fn ask(
        &self,
        method: Method,
        object: (&str, &str),
        query: &[(&'static str, &str)],
        mut headers: HeaderMap,
        what: Payload,
    ) -> Result<Answer, StoreError> {
        // If it is a node, too, redirects are not for it to follow.
        headers.insert("x-evenkeel-redirect", HeaderValue::from_static("show"));
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
        let code = match (told("Code"), status) {
            (code, StatusCode::FORBIDDEN) if code.is_empty() => "AccessDenied".to_owned(),
            (code, _) => code,
        };
        Err(match (code.as_str(), status) {
            ("NoSuchUpload", _) => StoreError::NoSuchUpload(upload.unwrap_or_default()),
            ("NoSuchBucket", _) => StoreError::NoSuchBucket(bucket),
            ("BucketAlreadyExists" | "BucketAlreadyOwnedByYou", _) => StoreError::BucketExists(bucket),
            ("BucketNotEmpty", _) => StoreError::BucketNotEmpty(bucket),
            ("NoSuchKey", _) => StoreError::NoSuchKey(key),
            (_, StatusCode::NOT_FOUND) if key.is_empty() => StoreError::NoSuchBucket(bucket),
            (_, StatusCode::NOT_FOUND) => StoreError::NoSuchKey(key),
            (_, StatusCode::PRECONDITION_FAILED) => {
                StoreError::Precondition("so says the server behind this node".to_owned())
            }
            (_, StatusCode::RANGE_NOT_SATISFIABLE) => {
                StoreError::Refused { status: 416, code: "InvalidRange".to_owned(), message: told("Message") }
            }
            // These are about the keys of this node, and not about those of its client.
            ("SignatureDoesNotMatch" | "InvalidAccessKeyId" | "AuthorizationHeaderMalformed", _) => {
                let told = told("Message");
                self.unexpected(format!("it refuses the keys, or the region, of this node: {code}: {told}"))
            }
            (_, StatusCode::SERVICE_UNAVAILABLE) if code.is_empty() => {
                StoreError::Away(format!("{} is busy; try again later", self.server()))
            }
            (_, _) if is_name(&code) && !status.is_redirection() => {
                StoreError::Refused { status: status.as_u16(), message: told("Message"), code }
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
        let why = format!("{}: {error}", self.server());
        match &error.problem {
            Problem::Unreachable(_) | Problem::TimedOut | Problem::Refused { .. } => StoreError::Away(why),
            Problem::Unsupported(_) => StoreError::Unsupported(why),
            Problem::Denied(message) => {
                StoreError::Refused { status: 403, code: "AccessDenied".to_owned(), message: message.clone() }
            }
            problem => self.unexpected(problem.to_string()),
        }
    }

    fn entry(&self, headers: &HeaderMap) -> Result<Entry, StoreError> {
        entry(headers).ok_or_else(|| self.unexpected("it does not say how large the object is".to_owned()))
    }

    fn unexpected(&self, why: String) -> StoreError {
        StoreError::Io { what: self.server(), error: std::io::Error::other(why) }
    }

    fn server(&self) -> String {
        format!("the server behind this node, {}", self.endpoint.address())
    }

    /// What a client sends, as a payload of known length, and how it ended if that was not well. The end is held back until
    /// all of it is known to be as promised: the server behind keeps what it has got all bytes of.
    async fn passed_on(mut body: Incoming) -> Result<(Payload, Complaint), StoreError> {
        let mut held_back = None;
        while let Some(chunk) = body.bytes.next().await.transpose()? {
            held_back = Some(chunk).filter(|chunk| !chunk.is_empty());
            if held_back.is_some() {
                break;
            }
        }
        let (held_back, bytes) = match (held_back, body.size) {
            (Some(held_back), Some(bytes @ 1..)) => (held_back, bytes),
            (Some(_), None) => {
                let why = "the size is not known; send Content-Length or x-amz-decoded-content-length";
                return Err(StoreError::BadBody(why.to_owned()));
            }
            (None, None | Some(0)) => return Ok((Payload::Bytes(Bytes::new()), Complaint::default())),
            _ => return Err(StoreError::BadBody("not as many bytes arrived as were announced".to_owned())),
        };
        let complaint = Complaint::default();
        let state = Some((body.bytes, held_back, bytes, complaint.clone()));
        let stream = stream::unfold(state, |state| async move {
            let (mut bytes, held_back, left, complaint) = state?;
            let next = match (left.checked_sub(held_back.len() as u64), bytes.next().await) {
                (None, _) => Err(StoreError::BadBody("more bytes arrived than were announced".to_owned())),
                (Some(_), Some(Err(error))) => Err(error),
                (Some(left), Some(Ok(next))) => Ok(Some((bytes, next, left, complaint.clone()))),
                (Some(_), None) => Ok(None),
            };
            Some(match next {
                Ok(state) => (Ok(held_back), state),
                Err(error) => {
                    let told = Problem::Damaged(error.to_string()).at("what the client sends");
                    *complaint.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                    (Err(told), None)
                }
            })
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
        let (payload, complaint) = Self::passed_on(body).await?;
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
        // After a common prefix comes what does not begin so.
        let rest = what.after.strip_prefix(&what.prefix).filter(|_| !what.delimiter.is_empty());
        let end = rest.and_then(|rest| Some(rest.find(&what.delimiter)? + what.delimiter.len()));
        let is_prefix = end.is_some() && end == rest.map(str::len);
        let after = if is_prefix { format!("{}{LAST}", what.after) } else { what.after.clone() };
        let mut query = vec![("encoding-type", "url"), ("list-type", "2"), ("max-keys", &*limit)];
        let more = [("prefix", &what.prefix), ("delimiter", &what.delimiter), ("start-after", &after)];
        query.extend(
            more.into_iter().filter(|(_, text)| !text.is_empty()).map(|(name, text)| (name, text.as_str())),
        );
        let rows = ["Contents", "CommonPrefixes"];
        let found = self.ask_xml(Method::GET, (bucket, ""), &query, nothing(), &rows).await?;
        let is_encoded = is_encoded(&found);
        let mut listing = Listing::default();
        for (of, texts) in found.rows {
            if of == "CommonPrefixes" {
                listing.prefixes.push(decoded(text(&texts, "Prefix"), is_encoded));
                continue;
            }
            let (etag, modified_ms) = (tag(&text(&texts, "ETag")), iso_ms(&text(&texts, "LastModified")));
            let Ok(bytes) = text(&texts, "Size").parse() else {
                return Err(self.unexpected("its listing has an object without a size".to_owned()));
            };
            let entry = Entry {
                bytes,
                version: version(&etag, modified_ms),
                etag,
                modified_ms,
                attributes: Attributes::default(),
                checksum: None,
                parts: Vec::new(),
            };
            listing.entries.push((decoded(text(&texts, "Key"), is_encoded), entry));
        }
        if found.texts.get("IsTruncated").is_some_and(|is_truncated| is_truncated == "true") {
            let last = listing.entries.last().map(|(key, _)| key.clone());
            listing.next = last.max(listing.prefixes.last().cloned());
            if listing.next.as_ref().is_none_or(|next| *next <= what.after) {
                return Err(self.unexpected("its listing does not go on".to_owned()));
            }
        }
        listing.prefixes.retain(|prefix| *prefix > what.after);
        if self.is_in_cluster {
            self.look_at(bucket, &mut listing.entries).await?;
        }
        Ok(listing)
    }

    async fn head(&self, bucket: &str, key: &str) -> Result<Entry, StoreError> {
        let mut headers = HeaderMap::new();
        headers.insert("x-amz-checksum-mode", HeaderValue::from_static("ENABLED"));
        let answer = self.ask(Method::HEAD, (bucket, key), &[], headers, Payload::Nothing).await?;
        self.entry(&answer.headers)
    }

    async fn get(
        &self,
        bucket: &str,
        key: &str,
        likely: Option<Range<u64>>,
        range: &(dyn for<'a> Fn(&'a Entry) -> Result<Range<u64>, StoreError> + Send + Sync),
    ) -> Result<(Entry, Outgoing), StoreError> {
        let mut likely = likely.filter(|likely| !likely.is_empty());
        for _ in 0..N_TRIES {
            // One question where it is known what will be wanted, else two.
            let (entry, got) = match likely.take() {
                Some(likely) => match self.ask_range(bucket, key, likely, None).await {
                    Ok(got) => (self.entry(&got.headers)?, Some(got)),
                    Err(StoreError::Refused { status: 416, .. }) => (self.head(bucket, key).await?, None),
                    Err(error) => return Err(error),
                },
                None => (self.head(bucket, key).await?, None),
            };
            let range = range(&entry)?;
            if range.is_empty() {
                return Ok((entry, stream::empty().boxed()));
            }
            let got = match got {
                Some(got) if portion(&got) == Some(range.clone()) => got,
                _ => match self.ask_range(bucket, key, range.clone(), Some(&entry.etag)).await {
                    Ok(got) if tag_of(&got.headers) == entry.etag => got,
                    // It was written meanwhile.
                    Ok(_) | Err(StoreError::Precondition(_)) => continue,
                    Err(error) => return Err(error),
                },
            };
            if portion(&got) != Some(range.clone()) {
                return Err(
                    self.unexpected(format!("it was asked for bytes {range:?} and answers {}", got.status))
                );
            }
            return Ok((entry, whole(format!("{bucket}/{key}"), got.body, range.end - range.start)));
        }
        Err(StoreError::Away(format!("{bucket}/{key} is written again and again; try again later")))
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
        self.require((bucket, key), Act::Write, condition, &mut headers).await?;
        let checksum = Arc::clone(&body.checksum);
        if let Some(Checksum { algorithm, value }) = checksum.get() {
            // One that only follows the bytes is compared here, and not kept.
            if let Ok(name) = HeaderName::try_from(format!("{CHECKSUM}{}", algorithm.to_lowercase())) {
                insert(&mut headers, name, value);
            }
        }
        let (answer, bytes) = self.write((bucket, key), &[], headers, body).await?;
        let (etag, modified_ms) = (tag_of(&answer), now_ms());
        let checksum = checksum.get().cloned();
        let version = version(&etag, modified_ms);
        Ok(Entry { bytes, version, etag, modified_ms, attributes, checksum, parts: Vec::new() })
    }

    async fn delete(&self, bucket: &str, key: &str, condition: Condition) -> Result<(), StoreError> {
        let mut headers = HeaderMap::new();
        self.require((bucket, key), Act::Delete, condition, &mut headers).await?;
        self.ask(Method::DELETE, (bucket, key), &[], headers, Payload::Nothing).await.map(drop)
    }

    async fn copy(
        &self,
        from: (&str, &str),
        version: u64,
        to: (&str, &str),
        attributes: Option<Attributes>,
        condition: Condition,
    ) -> Result<Entry, StoreError> {
        let source = format!("/{}/{}", from.0, utf8_percent_encode(from.1, NON_ALPHANUMERIC));
        let mut headers = attributes.as_ref().map(as_headers).unwrap_or_default();
        insert(&mut headers, HeaderName::from_static("x-amz-copy-source"), &source);
        let directive = if attributes.is_some() { "REPLACE" } else { "COPY" };
        insert(&mut headers, HeaderName::from_static("x-amz-metadata-directive"), directive);
        let now = self.head(from.0, from.1).await?;
        if now.version != version {
            return Err(StoreError::Precondition("the object to copy was written meanwhile".to_owned()));
        }
        insert(&mut headers, HeaderName::from_static("x-amz-copy-source-if-match"), &quoted(&now.etag));
        self.require(to, Act::Copy, condition, &mut headers).await?;
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
        // Servers that have conditions for writes have them here, too: S3 got both together.
        self.require((bucket, key), Act::Write, condition, &mut headers).await?;
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
                ("encoding-type", "url"),
                ("key-marker", &*after.0),
                ("prefix", prefix),
                ("upload-id-marker", &*after.1),
                ("uploads", ""),
            ];
            let found = self.ask_xml(Method::GET, (bucket, ""), &query, nothing(), &["Upload"]).await?;
            let is_encoded = is_encoded(&found);
            uploads.extend(found.rows.into_iter().map(|(_, texts)| Upload {
                key: decoded(text(&texts, "Key"), is_encoded),
                id: text(&texts, "UploadId"),
                started_ms: iso_ms(&text(&texts, "Initiated")),
                attributes: Attributes::default(),
            }));
            let key = decoded(text(&found.texts, "NextKeyMarker"), is_encoded);
            let next = (key, text(&found.texts, "NextUploadIdMarker"));
            if text(&found.texts, "IsTruncated") != "true" || next == after {
                return Ok(uploads);
            }
            after = next;
        }
    }

    async fn usage(&self) -> Result<Option<Usage>, StoreError> {
        // Only the server behind knows.
        Ok(None)
    }

    async fn is_conditional(&self) -> Result<bool, StoreError> {
        if let Some(conditions) = self.conditions.get() {
            return Ok(conditions.all());
        }
        // Without a bucket it cannot be tried, and nobody can write.
        for bucket in self.buckets().await?.iter().take(N_BUCKETS) {
            match self.conditions(&bucket.name).await {
                Err(StoreError::Refused { status: 403, .. }) => {}
                other => return Ok(other?.all()),
            }
        }
        Ok(false)
    }

    async fn scrub(&self) -> Result<Scrub, StoreError> {
        Err(StoreError::Unusable("the server behind this node keeps the data; scrub it there".to_owned()))
    }
}

impl Sidecar {
    /// Says the condition of a write in headers, for the server behind to look at in the same step.
    async fn require(
        &self,
        (bucket, key): (&str, &str),
        act: Act,
        condition: Condition,
        headers: &mut HeaderMap,
    ) -> Result<(), StoreError> {
        if condition == Condition::Always {
            return Ok(());
        }
        let conditions = self.conditions(bucket).await?;
        let (is_looked_at, what) = match act {
            Act::Write => (conditions.writes, "writes"),
            Act::Copy => (conditions.copies, "copies"),
            Act::Delete => (conditions.deletions, "deletions"),
        };
        if !is_looked_at {
            let server = self.server();
            return Err(StoreError::Unsupported(format!("{server}, ignores conditions of {what}")));
        }
        match condition {
            Condition::Always => {}
            Condition::Absent => insert(headers, IF_NONE_MATCH, "*"),
            Condition::Etag(etag) if etag == "*" => insert(headers, IF_MATCH, "*"),
            Condition::Etag(etag) => insert(headers, IF_MATCH, &quoted(&etag)),
            Condition::Version(version) => {
                let now = self.head(bucket, key).await?;
                if now.version != version {
                    return Err(StoreError::Precondition("it was written since".to_owned()));
                }
                insert(headers, IF_MATCH, &quoted(&now.etag));
            }
        }
        Ok(())
    }

    /// Asks for a range of an object, of the version with this entity tag if there is one.
    async fn ask_range(
        &self,
        bucket: &str,
        key: &str,
        range: Range<u64>,
        etag: Option<&str>,
    ) -> Result<Answer, StoreError> {
        let mut headers = HeaderMap::new();
        headers.insert("x-amz-checksum-mode", HeaderValue::from_static("ENABLED"));
        match (range.start, range.end) {
            (0, u64::MAX) => {}
            (start, u64::MAX) => insert(&mut headers, RANGE, &format!("bytes={start}-")),
            (start, end) => insert(&mut headers, RANGE, &format!("bytes={start}-{}", end - 1)),
        }
        etag.into_iter().for_each(|etag| insert(&mut headers, IF_MATCH, &quoted(etag)));
        self.ask(Method::GET, (bucket, key), &[], headers, Payload::Nothing).await
    }

    /// Completes what a listing says of objects that may be redirects. Those that are deleted meanwhile are left out.
    async fn look_at(&self, bucket: &str, entries: &mut Vec<(String, Entry)>) -> Result<(), StoreError> {
        let looks = std::mem::take(entries).into_iter().map(|(key, listed)| async move {
            if listed.bytes > redirect::MOST_BYTES as u64 {
                return Ok(Some((key, listed)));
            }
            match self.head(bucket, &key).await {
                Ok(entry) => Ok(Some((key, entry))),
                Err(StoreError::NoSuchKey(_)) => Ok(None),
                Err(error) => Err(error),
            }
        });
        let mut looks = stream::iter(looks).buffered(N_LOOKED_AT);
        while let Some(entry) = looks.next().await.transpose()? {
            entries.extend(entry);
        }
        Ok(())
    }
}

/// Comes after all names that go on from there.
const LAST: char = '\u{10ffff}';

/// The bytes of an answer, which are so many.
fn whole(what: String, body: evenkeel_store::Body, bytes: u64) -> Outgoing {
    let damaged = |what: String, why: String| StoreError::Damaged { what, why };
    stream::unfold(Some((what, body, bytes)), move |state| async move {
        let (what, mut body, left) = state?;
        match (body.next().await, left) {
            (Some(Ok(chunk)), left) => match left.checked_sub(chunk.len() as u64) {
                Some(left) => Some((Ok(chunk), Some((what, body, left)))),
                None => Some((Err(damaged(what, "the server behind sends too much".to_owned())), None)),
            },
            (Some(Err(error)), _) => Some((Err(damaged(what, error.to_string())), None)),
            (None, 0) => None,
            (None, left) => {
                Some((Err(damaged(what, format!("the server behind leaves out {left} bytes"))), None))
            }
        }
    })
    .boxed()
}

/// Which bytes of an object an answer has.
fn portion(answer: &Answer) -> Option<Range<u64>> {
    if answer.status == StatusCode::OK {
        return entry(&answer.headers).map(|entry| 0..entry.bytes);
    }
    let (range, _) = content_range(&answer.headers)?;
    Some(range).filter(|_| answer.status == StatusCode::PARTIAL_CONTENT)
}

/// Which bytes an answer has, and how many the object has.
fn content_range(headers: &HeaderMap) -> Option<(Range<u64>, u64)> {
    let text = headers.get(CONTENT_RANGE)?.to_str().ok()?.strip_prefix("bytes ")?;
    let (range, bytes) = text.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    Some((first.parse().ok()?..last.parse::<u64>().ok()?.checked_add(1)?, bytes.parse().ok()?))
}

/// Whether this can be the name of an error.
fn is_name(code: &str) -> bool {
    (1..=64).contains(&code.len()) && code.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

fn is_encoded(found: &Elements) -> bool {
    found.texts.get("EncodingType").is_some_and(|encoding| encoding == "url")
}

fn decoded(name: String, is_encoded: bool) -> String {
    if is_encoded {
        percent_decode_str(&name.replace('+', " ")).decode_utf8_lossy().into_owned()
    } else {
        name
    }
}

fn quoted(etag: &str) -> String {
    format!("\"{etag}\"")
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

/// What the headers of an answer say of an object, if they say how large it is.
fn entry(headers: &HeaderMap) -> Option<Entry> {
    let value = |name: &HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    let mut attributes = Attributes::default();
    let mut checksum = None;
    for (name, value) in headers {
        let (name, Ok(value)) = (name.as_str(), std::str::from_utf8(value.as_bytes())) else { continue };
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
    let bytes = match content_range(headers) {
        Some((_, bytes)) => bytes,
        None => value(&CONTENT_LENGTH).and_then(|bytes| bytes.parse().ok())?,
    };
    let version = version(&etag, modified_ms);
    Some(Entry { bytes, version, etag, modified_ms, attributes, checksum, parts: Vec::new() })
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
