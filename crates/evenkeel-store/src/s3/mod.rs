//! S3: buckets at AWS, and of every server that speaks its protocol.
//!
//! Requests and answers go through the same client and the same judgement as those of web servers, so that wrong
//! ranges, short bodies and busy servers end in the same errors. Nothing is retried here: that is for the executor.

mod address;
mod conditions;
mod endpoint;
mod session;
mod xml;

pub use conditions::Conditions;
pub(crate) use endpoint::Sockets;
pub use endpoint::{Answer, Endpoint, Listed, ListedPage, Payload, Request, Wire, Written};
pub use xml::Elements;

use std::ops::Range;

use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream};
use futures_util::{FutureExt, StreamExt, TryStreamExt};
use reqwest::header::{HeaderMap, HeaderValue, IF_MATCH, RANGE};
use reqwest::{Method, Response, StatusCode};

use self::address::Address;
use self::session::{Ask, Session, endpoint_of_environment};
use self::xml::{Entry, Page};
use crate::error::{Problem, StoreError};
use crate::hash::{Algorithm, Hash};
use crate::http::answer;
use crate::{Body, Object, Source};

/// Questions about single objects that are asked at once.
const N_AT_ONCE: usize = 16;
/// The maximum size of a page of a listing: a thousand names of a kibibyte, encoded, and all that is told about them.
const MOST_BYTES_OF_PAGE: usize = 16 << 20;

/// A bucket, or what is in it below a prefix. Its only server is the bucket.
///
/// `s3://bucket/prefix/` is everything below the prefix. Without the last slash it is the object of that name, or, if
/// there is none, everything below it.
///
/// Parameters follow as in `s3://bucket/prefix?endpoint=http://10.0.0.1:3900&profile=x`, so that each mirror has its
/// own: `endpoint`, `profile`, `region`, `path_style`, `anonymous`, `requester_pays` and `opaque_etags`. What is not
/// given comes from the usual variables (`AWS_PROFILE`, `AWS_ENDPOINT_URL`, …), profiles and roles.
///
/// The MD5 of an object is its entity tag, if that looks like one. That is not so for objects that are encrypted with
/// keys of KMS or of the client, which a listing does not tell. The first object is therefore asked for. If another one
/// turns out to be encrypted that way when it is read, reading it fails, and the error names the remedy, `opaque_etags`.
/// Objects without such a tag have checksums if the server keeps any for the whole object.
#[derive(Debug)]
pub struct S3 {
    servers: [String; 1],
    /// What the addresses of all objects begin with.
    root: String,
    address: Address,
    session: Session,
}

/// Where an address leads.
struct Place {
    address: Address,
    /// What the addresses of all objects of the bucket begin with.
    root: String,
    /// The name of the bucket.
    server: String,
}

impl Place {
    fn of(text: &str) -> Result<Self, StoreError> {
        let address: Address = text.parse().map_err(|what| Problem::Unsupported(what).at(text))?;
        let bucket = &address.bucket;
        let endpoint = address.endpoint.clone().map(String::from).or_else(endpoint_of_environment);
        let root = match endpoint {
            Some(endpoint) => format!("{}/{bucket}", endpoint.trim_end_matches('/')),
            None => format!("s3://{bucket}"),
        };
        let server = match &address.profile {
            // It may lead to another endpoint.
            Some(profile) if address.endpoint.is_none() => format!("{root} ({profile})"),
            _ => root.clone(),
        };
        Ok(Self { address, root: format!("{root}/"), server })
    }
}

/// Whether entity tags that look like an MD5 are one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Etags {
    Unknown,
    Md5,
    Opaque,
}

/// Where a listing is.
#[derive(Debug)]
enum At {
    /// It is not known yet whether the prefix is an object.
    Name,
    /// The page that this asks for, of all that begins with a prefix.
    Page {
        prefix: String,
        token: Option<String>,
    },
    End,
}

impl S3 {
    /// The bucket at an address.
    pub fn new(address: &str) -> Result<Self, StoreError> {
        let Place { address: parsed, root, server } = Place::of(address)?;
        let session = Session::new(parsed.clone()).map_err(|what| Problem::Unsupported(what).at(address))?;
        Ok(Self { servers: [server], root, address: parsed, session })
    }

    /// What is known about the object at an address as [`place_of`] returns it.
    pub(crate) async fn file_at(&self, address: &str) -> Result<Object, StoreError> {
        let key = self.key_of(address)?;
        let headers = self.look_up(key).await?;
        let entry = entry_of(key, &headers).map_err(|problem| problem.at(address))?;
        let is_opaque = self.has_opaque_etags() || is_encrypted_by_key(&headers);
        let md5 = md5_of(&entry.etag).filter(|_| !is_opaque);
        let hashes = md5.map_or_else(|| checksums(&headers), |md5| vec![md5]);
        let identity = (!entry.etag.is_empty()).then_some(entry.etag);
        Ok(Object { hashes, ..Object::on_one_server(entry.key, address.to_owned(), entry.bytes, identity) })
    }

    /// The key of the object at an address as listings have it.
    fn key_of<'a>(&self, address: &'a str) -> Result<&'a str, StoreError> {
        address.strip_prefix(&self.root).ok_or_else(|| Problem::NotFound.at(address))
    }

    /// Whether no entity tag is an MD5. Directory buckets draw theirs at random.
    fn has_opaque_etags(&self) -> bool {
        self.address.opaque_etags || self.address.bucket.ends_with("--x-s3")
    }

    async fn send(&self, ask: &Ask<'_>) -> Result<Response, StoreError> {
        self.session.send(ask).await.map_err(|problem| problem.at(format!("{}{}", self.root, ask.key)))
    }

    /// Asks for what is known about an object.
    async fn look_up(&self, key: &str) -> Result<HeaderMap, StoreError> {
        let mut headers = HeaderMap::new();
        headers.insert("x-amz-checksum-mode", HeaderValue::from_static("ENABLED"));
        let response = self.send(&Ask { method: Method::HEAD, key, query: &[], headers }).await?;
        Ok(response.headers().clone())
    }

    /// A page of a listing.
    async fn page(&self, prefix: &str, token: Option<&str>, limit: &str) -> Result<Page, StoreError> {
        let mut query =
            vec![("list-type", "2"), ("encoding-type", "url"), ("prefix", prefix), ("max-keys", limit)];
        query.extend(token.map(|token| ("continuation-token", token)));
        let ask = Ask { method: Method::GET, key: "", query: &query, headers: HeaderMap::new() };
        let at = |problem: Problem| problem.at(self.root.as_str());
        let mut response = self.send(&ask).await?;
        let mut bytes = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| at(answer::broken(&error)))? {
            if bytes.len() + chunk.len() > MOST_BYTES_OF_PAGE {
                return Err(at(Problem::Damaged("its listing does not end".to_owned())));
            }
            bytes.extend_from_slice(&chunk);
        }
        let page = String::from_utf8(bytes).map_err(|_| "it is not UTF-8".to_owned());
        let page = page.and_then(|text| Page::read(&text));
        let page = page.map_err(|why| at(Problem::Damaged(format!("its listing cannot be read: {why}"))))?;
        // Also those of a server that repeats itself.
        if page.next.is_some() && page.next.as_deref() == token {
            return Err(at(Problem::Damaged("its listing goes round in circles".to_owned())));
        }
        Ok(page)
    }

    /// The next page of objects, and what is left to list.
    async fn next(&self, at: At, etags: Etags) -> Result<Option<(Vec<Object>, (At, Etags))>, StoreError> {
        let (prefix, token) = match at {
            At::End => return Ok(None),
            At::Name => return self.by_name(etags).await.map(Some),
            At::Page { prefix, token } => (prefix, token),
        };
        let page = self.page(&prefix, token.as_deref(), "1000").await?;
        let is_empty = page.entries.is_empty() && page.next.is_none() && token.is_none();
        if is_empty && !prefix.is_empty() {
            return Err(Problem::NotFound.at(format!("{}{prefix}", self.root)));
        }
        let (objects, etags) = self.objects(&prefix, page.entries, etags).await?;
        let at = page.next.map_or(At::End, |token| At::Page { prefix, token: Some(token) });
        Ok(Some((objects, (at, etags))))
    }

    /// The object that the address names, if there is one.
    async fn by_name(&self, etags: Etags) -> Result<(Vec<Object>, (At, Etags)), StoreError> {
        let name = self.address.prefix.as_str();
        let found = match self.page(name, None, "1").await {
            Ok(page) => page.entries.into_iter().find(|entry| entry.key == name),
            // Some may read and not list.
            Err(StoreError { problem: Problem::Denied(why), .. }) => {
                let headers = self.look_up(name).await;
                let denied = |_| Problem::Denied(why).at(self.root.as_str());
                Some(
                    entry_of(name, &headers.map_err(denied)?)
                        .map_err(|problem| problem.at(format!("{}{name}", self.root)))?,
                )
            }
            Err(error) => return Err(error),
        };
        let Some(entry) = found else {
            return Ok((Vec::new(), (At::Page { prefix: format!("{name}/"), token: None }, etags)));
        };
        let folder = name.rfind('/').map_or("", |slash| &name[..=slash]);
        let (objects, etags) = self.objects(folder, vec![entry], etags).await?;
        Ok((objects, (At::End, etags)))
    }

    /// The objects of these entries, named relative to a prefix.
    async fn objects(
        &self,
        prefix: &str,
        entries: Vec<Entry>,
        mut etags: Etags,
    ) -> Result<(Vec<Object>, Etags), StoreError> {
        // Tools make these to stand for folders.
        let is_folder = |entry: &Entry| entry.bytes == 0 && entry.key.ends_with('/');
        let entries: Vec<Entry> = entries.into_iter().filter(|entry| !is_folder(entry)).collect();
        if etags == Etags::Unknown
            && let Some(first) = entries.iter().find(|entry| md5_of(&entry.etag).is_some())
        {
            etags = match self.look_up(&first.key).await {
                Ok(headers) if !is_encrypted_by_key(&headers) => Etags::Md5,
                _ => Etags::Opaque,
            };
        }
        let objects = entries.into_iter().map(|entry| self.object(prefix, entry, etags));
        Ok((stream::iter(objects).buffered(N_AT_ONCE).try_collect().await?, etags))
    }

    async fn object(&self, prefix: &str, entry: Entry, etags: Etags) -> Result<Object, StoreError> {
        let Entry { key, bytes, etag, has_checksum } = entry;
        let md5 = md5_of(&etag).filter(|_| etags == Etags::Md5);
        let hashes = match md5 {
            Some(md5) => vec![md5],
            // What was uploaded in parts is large, so that a question does not weigh much.
            None if has_checksum || etag.contains('-') => match self.look_up(&key).await {
                Ok(headers) => checksums(&headers),
                // It was removed, or will be refused when it is read.
                Err(StoreError { problem: Problem::NotFound | Problem::Denied(_), .. }) => Vec::new(),
                Err(error) => return Err(error),
            },
            None => Vec::new(),
        };
        let address = format!("{}{key}", self.root);
        let name = key.strip_prefix(prefix).filter(|name| !name.is_empty()).unwrap_or(&key).to_owned();
        let identity = (etag.len() > 2).then_some(etag);
        Ok(Object { hashes, ..Object::on_one_server(name, address, bytes, identity) })
    }
}

/// The name of the bucket of an object, as [`Source::servers`] has it, and the address by which the bucket reads it.
pub(crate) fn place_of(address: &str) -> Result<(String, String), StoreError> {
    let place = Place::of(address)?;
    let key = &place.address.prefix;
    if key.is_empty() || key.ends_with('/') {
        let problem = "it names no object; give s3://bucket/key";
        return Err(Problem::Unsupported(problem.to_owned()).at(address));
    }
    Ok((place.server, format!("{}{key}", place.root)))
}

/// The MD5 that an entity tag looks like.
fn md5_of(etag: &str) -> Option<Hash> {
    Hash::from_hex(Algorithm::Md5, etag.trim_matches('"'))
}

/// An object that could not be listed, from the answer about it.
fn entry_of(key: &str, headers: &HeaderMap) -> Result<Entry, Problem> {
    let bytes = answer::length(headers);
    let bytes = bytes.ok_or_else(|| Problem::Damaged("no size".to_owned()))?;
    let etag = answer::entity_tag(headers).unwrap_or_default();
    Ok(Entry { key: key.to_owned(), bytes, etag, has_checksum: true })
}

/// Whether an object is encrypted in a way that makes its entity tag something else than its MD5.
fn is_encrypted_by_key(headers: &HeaderMap) -> bool {
    let by_kms = headers.get("x-amz-server-side-encryption");
    by_kms.is_some_and(|how| how.as_bytes().starts_with(b"aws:"))
        || headers.contains_key("x-amz-server-side-encryption-customer-algorithm")
}

/// The checksums of a whole object. Those of objects in parts, which are checksums of checksums, have another length.
fn checksums(headers: &HeaderMap) -> Vec<Hash> {
    if headers.get("x-amz-checksum-type").is_some_and(|kind| kind != "FULL_OBJECT") {
        return Vec::new();
    }
    let algorithms =
        [Algorithm::Sha256, Algorithm::Sha1, Algorithm::Crc64Nvme, Algorithm::Crc32c, Algorithm::Crc32];
    let hash = |algorithm: Algorithm| {
        let name = format!("x-amz-checksum-{}", algorithm.to_string().replace('-', ""));
        Hash::from_base64(algorithm, headers.get(name)?.to_str().ok()?)
    };
    algorithms.into_iter().filter_map(hash).collect()
}

impl Source for S3 {
    fn servers(&self) -> Vec<String> {
        self.servers.to_vec()
    }

    /// All buckets but directory buckets do, which have names of their own.
    fn lists_by_key(&self) -> bool {
        !self.address.bucket.ends_with("--x-s3")
    }

    /// Stores look for an object in several places before they begin to send it.
    fn usual_slots(&self) -> u32 {
        4
    }

    fn list(&self) -> BoxStream<'_, Result<crate::Page, StoreError>> {
        let prefix = &self.address.prefix;
        let is_folder = prefix.is_empty() || prefix.ends_with('/');
        let at = if is_folder { At::Page { prefix: prefix.clone(), token: None } } else { At::Name };
        let etags = if self.has_opaque_etags() { Etags::Opaque } else { Etags::Unknown };
        let pages = stream::try_unfold((at, etags), |(at, etags)| self.next(at, etags));
        pages.map_ok(crate::Page::from).boxed()
    }

    fn read<'a>(
        &'a self,
        object: &'a Object,
        _server: usize,
        range: Range<u64>,
    ) -> BoxFuture<'a, Result<Body, StoreError>> {
        async move {
            if range.is_empty() {
                return Ok(stream::empty().boxed());
            }
            let at = |problem: Problem| problem.at(object.address.as_str());
            let key = self.key_of(&object.address)?;
            let mut headers = HeaderMap::new();
            let is_whole = range == (0..object.bytes);
            if !is_whole {
                let value = HeaderValue::from_str(&format!("bytes={}-{}", range.start, range.end - 1));
                headers.insert(RANGE, value.map_err(|e| at(Problem::Unsupported(e.to_string())))?);
            }
            let tag = object.identity.as_deref().and_then(|tag| HeaderValue::from_str(tag).ok());
            if let Some(tag) = tag {
                headers.insert(IF_MATCH, tag);
            }
            let response = self.send(&Ask { method: Method::GET, key, query: &[], headers }).await?;
            let headers = response.headers();
            let is_right = match response.status() {
                StatusCode::OK if is_whole => answer::is_whole(headers, object),
                StatusCode::OK => Err(Problem::Unsupported(
                    "the server sends whole objects only, so it cannot serve ranges".to_owned(),
                )),
                StatusCode::PARTIAL_CONTENT => answer::is_range(headers, object, &range),
                other => Err(Problem::Damaged(format!("the answer {other}"))),
            };
            is_right.map_err(at)?;
            let md5 = object.identity.as_deref().and_then(md5_of);
            if is_encrypted_by_key(headers) && md5.is_some_and(|md5| object.hashes.contains(&md5)) {
                return Err(at(Problem::Unsupported(
                    "it is encrypted by a key, unlike others here, so its ETag is no MD5; add opaque_etags=true to the \
                     address"
                        .to_owned(),
                )));
            }
            Ok(answer::body(response, object.address.clone()))
        }
        .boxed()
    }
}
