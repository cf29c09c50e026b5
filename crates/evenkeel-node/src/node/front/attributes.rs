//! What clients say of objects: content headers and metadata, and what of it is shown again.

use std::collections::BTreeMap;
use std::time::{Duration, UNIX_EPOCH};

use evenkeel_store::cluster::redirect;
use s3s::dto::{ETag, Metadata, Timestamp, TimestampFormat};
use s3s::{S3ErrorCode, S3Result};

use super::super::store::{Attributes, Entry};
use super::errors::{broken, refuse};

/// What S3 allows as names and values of metadata.
const MOST_METADATA_BYTES: usize = 2 << 10;
/// What begins so is ours and does not count.
const OURS: &str = "evenkeel-";
/// How an object of unknown kind is described.
const UNKNOWN_KIND: &str = "binary/octet-stream";

/// Takes the content headers and the metadata of an input.
macro_rules! attributes_of {
    ($input:expr) => {
        $crate::node::front::attributes::attributes(
            [
                ("cache-control", $input.cache_control.take()),
                ("content-disposition", $input.content_disposition.take()),
                ("content-encoding", $input.content_encoding.take()),
                ("content-language", $input.content_language.take()),
                ("content-type", $input.content_type.take()),
            ],
            $input.expires.take(),
            $input.metadata.take(),
        )
    };
}

/// Refuses what an input asks for and this node has not: it would seem to be done.
macro_rules! refuse_extras {
    ($input:expr) => {
        $crate::node::front::attributes::refuse_others(&[
            (
                "access control lists; leave out x-amz-acl",
                $input.acl.as_ref().is_some_and(|acl| !super::attributes::is_private(acl.as_str()))
                    || $input.grant_full_control.is_some()
                    || $input.grant_read.is_some()
                    || $input.grant_read_acp.is_some()
                    || $input.grant_write_acp.is_some(),
            ),
            (
                "encryption at rest",
                $input.server_side_encryption.is_some()
                    || $input.sse_customer_algorithm.is_some()
                    || $input.ssekms_key_id.is_some(),
            ),
            (
                "object locks",
                $input.object_lock_mode.is_some()
                    || $input.object_lock_legal_hold_status.is_some()
                    || $input.object_lock_retain_until_date.is_some(),
            ),
            ("tags", $input.tagging.as_ref().is_some_and(|tags| !tags.is_empty())),
            ("web site redirects", $input.website_redirect_location.is_some()),
        ])
        .and_then(|()| {
            super::attributes::check_class($input.storage_class.as_ref().map(|class| class.as_str()))
        })
    };
}
pub(super) use {attributes_of, refuse_extras};

/// Refuses the first of these that is asked for.
pub(super) fn refuse_others(asked: &[(&str, bool)]) -> S3Result<()> {
    match asked.iter().find(|(_, is_asked)| *is_asked) {
        Some((what, _)) => Err(super::errors::missing(what)),
        None => Ok(()),
    }
}

pub(super) fn is_private(acl: &str) -> bool {
    matches!(acl, "private" | "bucket-owner-full-control" | "bucket-owner-read")
}

pub(super) fn check_class(class: Option<&str>) -> S3Result<()> {
    match class {
        None | Some("STANDARD") => Ok(()),
        Some(_) => Err(refuse(S3ErrorCode::InvalidStorageClass, "the only storage class is STANDARD")),
    }
}

/// The attributes that headers say.
pub(super) fn attributes<const N: usize>(
    headers: [(&str, Option<String>); N],
    expires: Option<Timestamp>,
    metadata: Option<Metadata>,
) -> S3Result<Attributes> {
    let mut kept: BTreeMap<String, String> =
        headers.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect();
    // How the bytes travel is no property of the object.
    if let Some(encoding) = kept.get_mut("content-encoding")
        && encoding.contains("aws-chunked")
    {
        let codings = encoding.split(',').map(str::trim).filter(|coding| *coding != "aws-chunked");
        *encoding = codings.collect::<Vec<_>>().join(", ");
    }
    kept.retain(|_, value| !value.is_empty());
    if let Some(expires) = expires {
        let mut text = Vec::new();
        if expires.format(TimestampFormat::HttpDate, &mut text).is_ok()
            && let Ok(text) = String::from_utf8(text)
        {
            kept.insert("expires".to_owned(), text);
        }
    }
    let user: BTreeMap<String, String> = metadata.unwrap_or_default().into_iter().collect();
    let counted = user.iter().filter(|(name, _)| !name.starts_with(OURS));
    if counted.map(|(name, value)| name.len() + value.len()).sum::<usize>() > MOST_METADATA_BYTES {
        return Err(refuse(S3ErrorCode::MetadataTooLarge, "metadata has at most 2 KiB"));
    }
    if user.values().any(|value| value.contains(char::is_control)) {
        return Err(refuse(S3ErrorCode::InvalidArgument, "metadata has a control character"));
    }
    Ok(Attributes { headers: kept, user })
}

/// A point in time, to the second, as HTTP has it.
pub(super) fn timestamp(ms: u64) -> Timestamp {
    (UNIX_EPOCH + Duration::from_secs(ms / 1000)).into()
}

pub(super) fn etag(value: &str) -> ETag {
    ETag::Strong(value.to_owned())
}

/// An object as clients see it: a redirect looks like what it leads to.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) bytes: u64,
    pub(super) etag: String,
    pub(super) is_redirect: bool,
}

impl Seen {
    /// `as_it_is` shows a redirect itself.
    pub(super) fn of(entry: &Entry, as_it_is: bool) -> S3Result<Self> {
        let user = &entry.attributes.user;
        if as_it_is || !redirect::Redirect::is_marked(user) {
            return Ok(Self { bytes: entry.bytes, etag: entry.etag.clone(), is_redirect: false });
        }
        let bytes = user.get(redirect::BYTES).and_then(|bytes| bytes.parse().ok());
        match (bytes, user.get(redirect::ETAG)) {
            (Some(bytes), Some(etag)) => Ok(Self { bytes, etag: etag.clone(), is_redirect: true }),
            _ => {
                Err(broken("the object is marked as a redirect, and its metadata has no size or entity tag"))
            }
        }
    }
}

/// Refuses the mark of a redirect where there is no body that could be one.
pub(super) fn refuse_mark(attributes: &Attributes) -> S3Result<()> {
    if redirect::Redirect::is_marked(&attributes.user) {
        return Err(refuse(S3ErrorCode::InvalidArgument, "a redirect is written with PutObject"));
    }
    Ok(())
}

/// The user metadata that clients see.
pub(super) fn metadata(entry: &Entry, seen: &Seen) -> Option<Metadata> {
    let user = entry.attributes.user.iter();
    let shown = user.filter(|(name, _)| !(seen.is_redirect && name.starts_with(OURS)));
    let shown: Metadata = shown.map(|(name, value)| (name.clone(), value.clone())).collect();
    (!shown.is_empty()).then_some(shown)
}

/// The attributes of what a redirect leads to.
pub(super) fn without_marks(attributes: &Attributes) -> Attributes {
    let mut attributes = attributes.clone();
    attributes.user.retain(|name, _| !name.starts_with(OURS));
    attributes
}

/// Describes an object in the output of a read.
macro_rules! describe {
    ($output:expr, $entry:expr, $seen:expr) => {
        let (entry, seen): (&Entry, &Seen) = ($entry, $seen);
        let header = |name: &str| entry.attributes.headers.get(name).cloned();
        $output.accept_ranges = Some("bytes".to_owned());
        $output.cache_control = header("cache-control");
        $output.content_disposition = header("content-disposition");
        $output.content_encoding = header("content-encoding");
        $output.content_language = header("content-language");
        $output.content_type = Some(super::attributes::kind(entry));
        $output.e_tag = Some(super::attributes::etag(&seen.etag));
        $output.expires = header("expires")
            .and_then(|text| s3s::dto::Timestamp::parse(s3s::dto::TimestampFormat::HttpDate, &text).ok());
        $output.last_modified = Some(super::attributes::timestamp(entry.modified_ms));
        $output.metadata = super::attributes::metadata(entry, seen);
    };
}
pub(super) use describe;

pub(super) fn kind(entry: &Entry) -> String {
    entry.attributes.headers.get("content-type").cloned().unwrap_or_else(|| UNKNOWN_KIND.to_owned())
}
