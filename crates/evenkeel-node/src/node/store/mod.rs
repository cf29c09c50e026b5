//! What is behind a node: buckets of objects.
//!
//! The front of a node speaks S3 and knows nothing of disks; a store knows nothing of HTTP. What lies between them is the
//! trait [`Store`]. Every acknowledgement of a store means that what it acknowledges survives a loss of power.

pub mod folder;
mod sidecar;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::BoxStream;
use serde::Serialize;

pub use sidecar::Sidecar;

/// The bytes of an object on their way out, in order. Each was compared with its checksum.
pub type Outgoing = BoxStream<'static, Result<Bytes, StoreError>>;

/// The bytes of an object on their way in.
pub struct Incoming {
    /// The bytes in order. An error at the end means that they are not what the client promised: nothing is kept.
    pub bytes: BoxStream<'static, Result<Bytes, StoreError>>,
    /// How many there will be, if that is known.
    pub size: Option<u64>,
    /// A checksum that the client wants to be kept with the object. Known when the bytes have ended, or before them.
    pub checksum: Arc<OnceLock<Checksum>>,
}

impl std::fmt::Debug for Incoming {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Incoming").field("size", &self.size).finish_non_exhaustive()
    }
}

/// A checksum that a client gave or asked for, as S3 writes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checksum {
    /// Such as `CRC32C` or `SHA256`.
    pub algorithm: String,
    /// In Base64. That of an object of several parts ends with `-` and their number, unless it is of the whole object.
    pub value: String,
}

/// What a client says of an object, and gets back with it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// Headers such as `content-type` and `cache-control`, by their names in lower case.
    pub headers: BTreeMap<String, String>,
    /// What followed `x-amz-meta-`, by name.
    pub user: BTreeMap<String, String>,
}

/// An object as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its size.
    pub bytes: u64,
    /// Its entity tag, without quotes: the MD5 of its bytes, or of those of its parts, `-`, and their number.
    pub etag: String,
    /// When it was written, in milliseconds since 1970.
    pub modified_ms: u64,
    /// Different for each write, also for writes of the same bytes.
    pub version: u64,
    /// What its client said of it.
    pub attributes: Attributes,
    /// A checksum of the whole, if its client gave one.
    pub checksum: Option<Checksum>,
    /// The sizes of its parts, if it was written in parts.
    pub parts: Vec<u64>,
}

/// What has to hold for a write or a deletion to take place. It is looked at in the same step that makes the change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Condition {
    /// Nothing.
    #[default]
    Always,
    /// There is no object of that name.
    Absent,
    /// There is an object, with this entity tag; `*` is any.
    Etag(String),
    /// There is an object, and it is of this version.
    Version(u64),
}

/// A bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// Its name.
    pub name: String,
    /// When it was made, in milliseconds since 1970.
    pub created_ms: u64,
}

/// What to list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// What names begin with.
    pub prefix: String,
    /// Names that go on after the prefix and have this in the rest are listed once, up to and with it, as a common prefix.
    pub delimiter: String,
    /// Only names after this one, byte by byte. A common prefix counts by its own name.
    pub after: String,
    /// At most so many names and common prefixes.
    pub limit: usize,
}

/// A page of a listing, in the order of names, byte by byte.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// Objects, by name.
    pub entries: Vec<(String, Entry)>,
    /// Common prefixes.
    pub prefixes: Vec<String>,
    /// The last name or common prefix of this page, if there is more.
    pub next: Option<String>,
}

/// An object that is being written in parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upload {
    /// The name that it will have.
    pub key: String,
    /// Its number among all uploads, in letters and digits.
    pub id: String,
    /// When it began, in milliseconds since 1970.
    pub started_ms: u64,
    /// Those of the object, if the store tells.
    pub attributes: Attributes,
}

/// A part of an object that is being written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// From 1 to 10,000.
    pub number: u32,
    /// Its size.
    pub bytes: u64,
    /// The MD5 of its bytes.
    pub etag: String,
    /// When it was written, in milliseconds since 1970.
    pub modified_ms: u64,
    /// Its checksum, if its client gave one.
    pub checksum: Option<Checksum>,
}

/// A part as the client names it when it completes an upload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// From 1 to 10,000, ascending.
    pub number: u32,
    /// Its entity tag.
    pub etag: String,
}

/// What a store holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Usage {
    /// Objects, unfinished uploads not counted.
    pub objects: u64,
    /// Bytes of these objects.
    pub bytes: u64,
    /// Free bytes of the disk, if the store knows.
    pub free_bytes: Option<u64>,
}

/// What a scrub found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Scrub {
    /// Objects and parts that were read.
    pub objects: u64,
    /// Bytes that were read.
    pub bytes: u64,
    /// Those that are damaged, `bucket/key: why`; at most the first thousand.
    pub damaged: Vec<String>,
}

/// Why a store did not do what it was asked to.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// There is no such bucket.
    #[error("there is no bucket {0}; create it first")]
    NoSuchBucket(String),
    /// There is one already.
    #[error("there is a bucket {0} already")]
    BucketExists(String),
    /// There is still something in it.
    #[error("bucket {0} has objects or unfinished uploads; delete them first")]
    BucketNotEmpty(String),
    /// There is no such object.
    #[error("there is no object {0}")]
    NoSuchKey(String),
    /// There is no such upload, or it was completed or given up.
    #[error("there is no upload {0}; it may have been completed or aborted")]
    NoSuchUpload(String),
    /// A part that was chosen is not there, or is another one.
    #[error("part {0} was not uploaded, or its entity tag is another")]
    InvalidPart(u32),
    /// A part other than the last is smaller than S3 allows.
    #[error("part {number} has {bytes} bytes; every part but the last needs 5 MiB")]
    PartTooSmall {
        /// Its number.
        number: u32,
        /// Its size.
        bytes: u64,
    },
    /// The condition of a write or a deletion does not hold.
    #[error("the condition does not hold: {0}")]
    Precondition(String),
    /// What arrived is not what was promised.
    #[error("{0}")]
    BadBody(String),
    /// What is on the disk is not what was written.
    #[error("{what} is damaged: {why}")]
    Damaged {
        /// The object, or the file.
        what: String,
        /// How it shows.
        why: String,
    },
    /// The disk has no room. Nothing was acknowledged.
    #[error("the disk of this node is full: {0}")]
    Full(String),
    /// The disk refuses.
    #[error("{what}: {error}")]
    Io {
        /// The file, and what was to be done to it.
        what: String,
        /// Why it was not.
        error: std::io::Error,
    },
    /// The store's folder cannot be used.
    #[error("{0}")]
    Unusable(String),
    /// The node is being stopped, or has lost its disk.
    #[error("the node accepts no writes any more: {0}")]
    Closed(String),
    /// The store cannot do it.
    #[error("{0}")]
    Unsupported(String),
    /// The server behind the node cannot be reached. It may be over soon.
    #[error("{0}")]
    Away(String),
    /// The server behind the node refuses, and says why.
    #[error("the server behind this node answers {code}: {message}")]
    Refused {
        /// The status of its answer.
        status: u16,
        /// The error, as S3 calls it.
        code: String,
        /// What it says of it.
        message: String,
    },
}

/// Buckets of objects that survive a loss of power.
#[async_trait]
pub trait Store: std::fmt::Debug + Send + Sync {
    /// All buckets, by name.
    async fn buckets(&self) -> Result<Vec<Bucket>, StoreError>;

    /// Makes a bucket.
    async fn create_bucket(&self, bucket: &str) -> Result<(), StoreError>;

    /// Deletes a bucket, which must be empty.
    async fn delete_bucket(&self, bucket: &str) -> Result<(), StoreError>;

    /// A page of the objects of a bucket.
    async fn list(&self, bucket: &str, what: &Selection) -> Result<Listing, StoreError>;

    /// What is known of an object.
    async fn head(&self, bucket: &str, key: &str) -> Result<Entry, StoreError>;

    /// Reads a range of an object. The entry is that of the version whose bytes come, whatever happens to it meanwhile.
    /// `range` is asked for the range once the entry is known. If it is likely to say `likely`, no matter what the entry
    /// is, a store may ask for that at once; what is beyond the end counts as the end.
    async fn get(
        &self,
        bucket: &str,
        key: &str,
        likely: Option<Range<u64>>,
        range: &(dyn for<'a> Fn(&'a Entry) -> Result<Range<u64>, StoreError> + Send + Sync),
    ) -> Result<(Entry, Outgoing), StoreError>;

    /// Writes an object. Atomic: either it is there, whole and durable, when this returns, or nothing has changed.
    async fn put(
        &self,
        bucket: &str,
        key: &str,
        attributes: Attributes,
        body: Incoming,
        condition: Condition,
    ) -> Result<Entry, StoreError>;

    /// Deletes an object. Deleting one that is not there succeeds, unless the condition wants it to be there.
    async fn delete(&self, bucket: &str, key: &str, condition: Condition) -> Result<(), StoreError>;

    /// Copies an object of version `version` under another name, with these attributes instead of its own if there are
    /// any.
    async fn copy(
        &self,
        from: (&str, &str),
        version: u64,
        to: (&str, &str),
        attributes: Option<Attributes>,
        condition: Condition,
    ) -> Result<Entry, StoreError>;

    /// Begins an upload in parts.
    async fn start_upload(
        &self,
        bucket: &str,
        key: &str,
        attributes: Attributes,
    ) -> Result<Upload, StoreError>;

    /// Writes a part, in place of an earlier one of that number. Durable when this returns.
    async fn put_part(
        &self,
        bucket: &str,
        key: &str,
        upload: &str,
        number: u32,
        body: Incoming,
    ) -> Result<Part, StoreError>;

    /// The parts of an upload after this number, at most `limit`, and whether there are more.
    async fn parts(
        &self,
        bucket: &str,
        key: &str,
        upload: &str,
        after: u32,
        limit: usize,
    ) -> Result<(Vec<Part>, bool), StoreError>;

    /// Makes an object of parts, in this order. Atomic, as [`put`](Self::put) is.
    async fn complete_upload(
        &self,
        bucket: &str,
        key: &str,
        upload: &str,
        parts: &[Chosen],
        checksum: Option<Checksum>,
        condition: Condition,
    ) -> Result<Entry, StoreError>;

    /// Gives up an upload and deletes its parts.
    async fn abort_upload(&self, bucket: &str, key: &str, upload: &str) -> Result<(), StoreError>;

    /// All unfinished uploads of a bucket whose names begin so, by name and id.
    async fn uploads(&self, bucket: &str, prefix: &str) -> Result<Vec<Upload>, StoreError>;

    /// What there is, if the store knows.
    async fn usage(&self) -> Result<Option<Usage>, StoreError>;

    /// Whether it carries out all conditions of writes, copies and deletions. It refuses those that it does not.
    async fn is_conditional(&self) -> Result<bool, StoreError> {
        Ok(true)
    }

    /// Reads everything and compares it with its checksums, without getting in the way of others.
    async fn scrub(&self) -> Result<Scrub, StoreError>;
}
