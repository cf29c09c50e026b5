//! Objects: reads, writes, copies and deletions.

use std::ops::Range;
use std::sync::Mutex;

use evenkeel_store::cluster::Redirect;
use evenkeel_store::cluster::redirect;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use hyper::header::{HeaderValue, LOCATION};
use hyper::{HeaderMap, StatusCode};
use s3s::dto::{
    CopyObjectInput, CopyObjectOutput, CopyObjectResult, CopySource, DeleteObjectInput, DeleteObjectOutput,
    DeleteObjectsInput, DeleteObjectsOutput, DeletedObject, ETag, ETagCondition, Error,
    GetObjectAttributesInput, GetObjectAttributesOutput, GetObjectAttributesParts, GetObjectInput,
    GetObjectOutput, HeadObjectInput, HeadObjectOutput, MetadataDirective, ObjectAttributes, ObjectPart,
    PutObjectInput, PutObjectOutput, StorageClass, Timestamp,
};
use s3s::{S3Error, S3ErrorCode, S3Request, S3Response, S3Result};

use super::super::gate::Way;
use super::super::store::{Attributes, Condition, Entry, Outgoing, StoreError};
use super::attributes::{self, Seen, attributes_of, describe, etag, refuse_extras, timestamp};
use super::bodies::{self, MOST_BYTES};
use super::checksums::{Promise, checksums_of, show_checksum, shown};
use super::conditions::{self, Wanted};
use super::errors::{broken, custom, later, refuse, told};
use super::listing::limit;
use super::redirects::{Unread, View};
use super::{Front, check_key, check_version};

/// Objects that one request deletes.
const MOST_DELETED: usize = 1000;
/// Deletions of one request that are under way at once, so that the store makes them durable together.
const N_DELETED_AT_ONCE: usize = 64;
/// How often a redirect is read again if its object is written meanwhile.
const N_TRIES: usize = 4;
/// How long a client that follows a redirect may take to begin.
const FOLLOW_SECONDS: u64 = 300;

/// The part of an object that a request means.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Portion {
    range: Option<s3s::dto::Range>,
    part: Option<i32>,
}

impl Portion {
    fn of(range: Option<s3s::dto::Range>, part: Option<i32>) -> S3Result<Self> {
        if range.is_some() && part.is_some() {
            let why = "a range and a part number exclude each other";
            return Err(refuse(S3ErrorCode::InvalidRequest, why));
        }
        Ok(Self { range, part })
    }

    /// What is to be read, as far as that can be known without the object.
    fn likely(&self) -> Option<Range<u64>> {
        match (&self.range, self.part) {
            (None, None) => Some(0..u64::MAX),
            (Some(s3s::dto::Range::Int { first, last }), _) => {
                Some(*first..last.map_or(u64::MAX, |last| last.saturating_add(1)))
            }
            _ => None,
        }
    }

    fn is_all(&self) -> bool {
        self.range.is_none() && self.part.is_none()
    }

    fn within(&self, entry: &Entry, seen: &Seen) -> S3Result<Range<u64>> {
        if let Some(range) = &self.range {
            return Ok(range.check(seen.bytes)?);
        }
        let Some(part) = self.part else { return Ok(0..seen.bytes) };
        let nowhere = || {
            custom(
                "InvalidPartNumber",
                StatusCode::RANGE_NOT_SATISFIABLE,
                "the object has no part of that number",
            )
        };
        let index = usize::try_from(part).ok().and_then(|part| part.checked_sub(1)).ok_or_else(nowhere)?;
        if seen.is_redirect || entry.parts.is_empty() {
            return if index == 0 { Ok(0..seen.bytes) } else { Err(nowhere()) };
        }
        let size = *entry.parts.get(index).ok_or_else(nowhere)?;
        let start: u64 = entry.parts[..index].iter().sum();
        Ok(start..start + size)
    }
}

/// What a read found.
pub(super) struct Found {
    pub(super) entry: Entry,
    pub(super) seen: Seen,
    pub(super) range: Range<u64>,
    pub(super) bytes: Outgoing,
}

/// Fills in what depends on the part of the object that is sent.
macro_rules! describe_portion {
    ($output:expr, $portion:expr, $entry:expr, $seen:expr, $range:expr) => {
        let range = $range;
        $output.content_length = i64::try_from(range.end - range.start).ok();
        if !$portion.is_all() && !range.is_empty() {
            let text = format!("bytes {}-{}/{}", range.start, range.end - 1, $seen.bytes);
            $output.content_range = Some(text);
        }
        if $portion.part.is_some() && !$seen.is_redirect && !$entry.parts.is_empty() {
            $output.parts_count = i32::try_from($entry.parts.len()).ok();
        }
    };
}

impl Front {
    /// Reads a part of an object, through a redirect if it is one.
    pub(super) async fn read(
        &self,
        bucket: &str,
        key: &str,
        portion: Portion,
        wanted: &Wanted,
        view: View,
        is_copy: bool,
    ) -> S3Result<Found> {
        let (mut last, mut missing_at) = (None, String::new());
        // Who asks for what has changed mostly learns that it has not.
        let is_polling = wanted.differs.is_some() || wanted.modified_since.is_some();
        let likely = portion.likely().filter(|_| !is_polling);
        for _ in 0..N_TRIES {
            let refused = Mutex::new(None);
            let chosen = Mutex::new(None);
            let choose = |entry: &Entry| -> S3Result<std::ops::Range<u64>> {
                let seen = Seen::of(entry, view == View::Show)?;
                wanted.check(entry, &seen, is_copy)?;
                let range = portion.within(entry, &seen)?;
                let read = if seen.is_redirect {
                    if entry.bytes > redirect::MOST_BYTES as u64 {
                        return Err(broken("the object is marked as a redirect, and too large to be one"));
                    }
                    0..entry.bytes
                } else {
                    range.clone()
                };
                set(&chosen, (seen, range));
                Ok(read)
            };
            let choose = |entry: &Entry| {
                choose(entry).map_err(|error| {
                    set(&refused, error);
                    StoreError::Precondition(String::new())
                })
            };
            let got = self.store.get(bucket, key, likely.clone(), &choose).await;
            let (entry, bytes) = match (got, take(&refused)) {
                (_, Some(refused)) => return Err(refused),
                (Ok(got), None) => got,
                (Err(error), None) => return Err(told(error)),
            };
            let Some((seen, range)) = take(&chosen) else {
                return Err(broken("the store did not ask for a range"));
            };
            if !seen.is_redirect {
                return Ok(Found { entry, seen, range, bytes });
            }
            if last == Some(entry.version) {
                break;
            }
            last = Some(entry.version);
            match self.follow(bucket, key, &seen, range.clone(), bytes, view).await {
                Ok(bytes) => return Ok(Found { entry, seen, range, bytes }),
                // It may have been written meanwhile.
                Err(Unread::Gone(holder)) => missing_at = holder,
                Err(Unread::Failed(error)) => return Err(error),
            }
        }
        Err(broken(format!("{bucket}/{key} is held by `{missing_at}`, where a piece of it is missing")))
    }

    /// Reads what a redirect, of which these are the bytes, leads to.
    async fn follow(
        &self,
        bucket: &str,
        key: &str,
        seen: &Seen,
        range: Range<u64>,
        redirect: Outgoing,
        view: View,
    ) -> Result<Outgoing, Unread> {
        let fail = |error: S3Error| Unread::Failed(error);
        let text = collected(redirect).await.map_err(fail)?;
        let redirect = Redirect::parse(&text);
        let redirect = redirect.map_err(|error| fail(broken(format!("{bucket}/{key}: {error}"))))?;
        if redirect.bytes != seen.bytes {
            return Err(fail(broken(format!(
                "{bucket}/{key}: its redirect and the metadata of that disagree about its size"
            ))));
        }
        let peers = self.peers.as_ref().ok_or_else(|| {
            fail(later(format!(
                "{bucket}/{key} is held by another server, and this node was started without a cluster file; \
                 start it with --cluster FILE, or read with evenkeel get"
            )))
        })?;
        if view == View::Follow
            && let [held] = redirect.pieces.as_slice()
            && !held.is_hole()
        {
            let holder = peers.holder(held).map_err(fail)?;
            let url = holder.presigned(bucket, &held.key, FOLLOW_SECONDS);
            let url = url.map_err(|error| fail(broken(error.to_string())))?;
            return Err(fail(elsewhere(&url, &held.server)));
        }
        peers.read(bucket, &redirect, range).await
    }

    /// The version, the size and the entity tag of an object, and its redirect if it is one; nothing if it is gone.
    pub(in crate::node) async fn redirect(
        &self,
        bucket: &str,
        key: &str,
    ) -> S3Result<Option<(u64, u64, String, Option<Redirect>)>> {
        let is_small = |entry: &Entry| {
            let is_redirect = Redirect::is_marked(&entry.attributes.user);
            is_redirect && entry.bytes <= redirect::MOST_BYTES as u64
        };
        let choose = |entry: &Entry| Ok(0..if is_small(entry) { entry.bytes } else { 0 });
        let (entry, bytes) = match self.store.get(bucket, key, Some(0..u64::MAX), &choose).await {
            Ok(got) => got,
            Err(StoreError::NoSuchKey(_)) => return Ok(None),
            Err(error) => return Err(told(error)),
        };
        if !Redirect::is_marked(&entry.attributes.user) {
            return Ok(Some((entry.version, entry.bytes, entry.etag, None)));
        }
        let redirect = Redirect::parse(&collected(bytes).await?);
        let redirect = redirect.map_err(|error| broken(format!("{bucket}/{key}: {error}")))?;
        Ok(Some((entry.version, redirect.bytes, redirect.etag.clone(), Some(redirect))))
    }

    pub(super) async fn get(
        &self,
        request: S3Request<GetObjectInput>,
    ) -> S3Result<S3Response<GetObjectOutput>> {
        let view = View::of(&request.headers)?;
        let input = request.input;
        check_version(input.version_id.as_deref())?;
        let portion = Portion::of(input.range, input.part_number)?;
        let wanted = Wanted {
            matches: input.if_match,
            differs: input.if_none_match,
            modified_since: input.if_modified_since,
            unmodified_since: input.if_unmodified_since,
        };
        let found = self.read(&input.bucket, &input.key, portion, &wanted, view, false).await?;
        let Found { entry, seen, range, bytes } = found;
        let mut output = GetObjectOutput::default();
        describe!(output, &entry, &seen);
        describe_portion!(output, portion, entry, seen, range.clone());
        if input.checksum_mode.is_some() && portion.is_all() && !seen.is_redirect {
            show_checksum!(output, shown(entry.checksum.as_ref()), with type);
        }
        let turn = if seen.is_redirect || range.is_empty() {
            None
        } else {
            Some(self.enter_with(Way::Read, range.end - range.start, &request.headers).await?)
        };
        output.body = Some(bodies::outgoing(bytes, turn));
        Ok(S3Response::new(output))
    }

    pub(super) async fn head(
        &self,
        request: S3Request<HeadObjectInput>,
    ) -> S3Result<S3Response<HeadObjectOutput>> {
        let view = View::of(&request.headers)?;
        let input = request.input;
        check_version(input.version_id.as_deref())?;
        let portion = Portion::of(input.range, input.part_number)?;
        let entry = self.store.head(&input.bucket, &input.key).await.map_err(told)?;
        let seen = Seen::of(&entry, view == View::Show)?;
        let wanted = Wanted {
            matches: input.if_match,
            differs: input.if_none_match,
            modified_since: input.if_modified_since,
            unmodified_since: input.if_unmodified_since,
        };
        wanted.check(&entry, &seen, false)?;
        let range = portion.within(&entry, &seen)?;
        let mut output = HeadObjectOutput::default();
        describe!(output, &entry, &seen);
        describe_portion!(output, portion, entry, seen, range);
        if input.checksum_mode.is_some() && portion.is_all() && !seen.is_redirect {
            show_checksum!(output, shown(entry.checksum.as_ref()), with type);
        }
        Ok(S3Response::new(output))
    }

    /// What is known of an object. The checksums of its parts are not kept.
    pub(super) async fn attributes(
        &self,
        request: S3Request<GetObjectAttributesInput>,
    ) -> S3Result<S3Response<GetObjectAttributesOutput>> {
        let view = View::of(&request.headers)?;
        let input = request.input;
        check_version(input.version_id.as_deref())?;
        let entry = self.store.head(&input.bucket, &input.key).await.map_err(told)?;
        let seen = Seen::of(&entry, view == View::Show)?;
        // Clients write several names in one header, or a header for each.
        let wanted: Vec<&str> =
            input.object_attributes.iter().flat_map(|name| name.as_str().split(',')).collect();
        let wants = |name: &str| wanted.iter().any(|wanted| wanted.trim() == name);
        let mut output = GetObjectAttributesOutput {
            last_modified: Some(timestamp(entry.modified_ms)),
            ..GetObjectAttributesOutput::default()
        };
        if wants(ObjectAttributes::ETAG) {
            output.e_tag = Some(etag(&seen.etag));
        }
        if wants(ObjectAttributes::OBJECT_SIZE) {
            output.object_size = i64::try_from(seen.bytes).ok();
        }
        if wants(ObjectAttributes::STORAGE_CLASS) {
            output.storage_class = Some(StorageClass::from_static(StorageClass::STANDARD));
        }
        if !seen.is_redirect && wants(ObjectAttributes::CHECKSUM) {
            output.checksum = entry.checksum.as_ref().map(|checksum| shown(Some(checksum)));
        }
        if !seen.is_redirect && !entry.parts.is_empty() && wants(ObjectAttributes::OBJECT_PARTS) {
            output.object_parts = Some(parts_of(&entry, input.part_number_marker, input.max_parts)?);
        }
        Ok(S3Response::new(output))
    }

    pub(super) async fn put(
        &self,
        request: S3Request<PutObjectInput>,
    ) -> S3Result<S3Response<PutObjectOutput>> {
        let view = View::of(&request.headers)?;
        bodies::check_headers(&request.headers)?;
        let trailing = request.trailing_headers;
        let mut input = request.input;
        self.takes_data()?;
        check_key(&input.key)?;
        refuse_extras!(input)?;
        if input.write_offset_bytes.is_some() {
            return Err(super::missing("appends"));
        }
        let attributes: Attributes = attributes_of!(input)?;
        let condition = conditions::of_write(input.if_match.take(), input.if_none_match.take())?;
        let promise = Promise::of(
            &checksums_of!(input),
            input.checksum_algorithm.as_ref(),
            input.content_md5.take(),
            input.content_length,
            trailing,
        )?;
        check_size(promise.bytes)?;
        let condition = self.meant(&input.bucket, &input.key, condition, view).await?;
        let is_match = matches!(condition, Condition::Etag(_) | Condition::Version(_));
        let body = match input.body.take() {
            Some(body) => body.boxed(),
            None => stream::empty().boxed(),
        };
        let turn = match promise.bytes {
            Some(0) => None,
            bytes => Some(self.enter_with(Way::Write, bytes.unwrap_or_default(), &request.headers).await?),
        };
        let (mut incoming, fault) = bodies::incoming(body, promise, turn);
        if Redirect::is_marked(&attributes.user) {
            incoming.bytes =
                redirect_in(incoming.bytes, &attributes).await.map_err(|refused| match refused {
                    Refused::Redirect(error) => error,
                    Refused::Body(error) => fault.or(error),
                })?;
        }
        let put = self.store.put(&input.bucket, &input.key, attributes, incoming, condition).await;
        let entry = match put {
            Ok(entry) => entry,
            Err(error) => return Err(self.unmet(&input.bucket, &input.key, is_match, fault.or(error)).await),
        };
        let mut output = PutObjectOutput { e_tag: Some(etag(&entry.etag)), ..PutObjectOutput::default() };
        show_checksum!(output, shown(entry.checksum.as_ref()), with type);
        Ok(S3Response::new(output))
    }

    /// The condition of a write as the store has it: an entity tag that clients see may be that of what a redirect leads
    /// to.
    pub(super) async fn meant(
        &self,
        bucket: &str,
        key: &str,
        condition: Condition,
        view: View,
    ) -> S3Result<Condition> {
        let Condition::Etag(wanted) = &condition else { return Ok(condition) };
        if wanted == "*" || view == View::Show {
            return Ok(condition);
        }
        match self.store.head(bucket, key).await {
            Ok(entry) if Seen::of(&entry, false)?.is_redirect => {
                let seen = Seen::of(&entry, false)?;
                Ok(if seen.etag == *wanted { Condition::Version(entry.version) } else { condition })
            }
            Ok(_) | Err(StoreError::NoSuchKey(_)) => Ok(condition),
            Err(error) => Err(told(error)),
        }
    }

    /// An object that is not there is missing, and not another one.
    pub(super) async fn unmet(&self, bucket: &str, key: &str, is_match: bool, error: S3Error) -> S3Error {
        if !is_match || *error.code() != S3ErrorCode::PreconditionFailed {
            return error;
        }
        match self.store.head(bucket, key).await {
            Err(error @ StoreError::NoSuchKey(_)) => told(error),
            _ => error,
        }
    }

    pub(super) async fn copy(
        &self,
        request: S3Request<CopyObjectInput>,
    ) -> S3Result<S3Response<CopyObjectOutput>> {
        let view = View::of(&request.headers)?;
        // S3 has them for copies, too, and the crate for S3 does not know them there.
        let [if_match, if_none_match] =
            ["if-match", "if-none-match"].map(|name| condition_of(&request.headers, name));
        let condition = conditions::of_write(if_match?, if_none_match?)?;
        let mut input = request.input;
        self.takes_data()?;
        check_key(&input.key)?;
        refuse_extras!(input)?;
        let from = copy_source(&request.headers)?;
        let (from_bucket, from_key) = source(&from)?;
        let replaces = match input.metadata_directive.as_ref().map(MetadataDirective::as_str) {
            None | Some("COPY") => false,
            Some("REPLACE") => true,
            Some(_) => {
                return Err(refuse(
                    S3ErrorCode::InvalidArgument,
                    "x-amz-metadata-directive is COPY or REPLACE",
                ));
            }
        };
        if !replaces && (from_bucket, from_key) == (input.bucket.as_str(), input.key.as_str()) {
            let why = "a copy of an object to itself has to replace its metadata";
            return Err(refuse(S3ErrorCode::InvalidRequest, why));
        }
        let attributes = if replaces { Some(attributes_of!(input)?) } else { None };
        attributes.iter().try_for_each(attributes::refuse_mark)?;
        let wanted = Wanted {
            matches: input.copy_source_if_match.take(),
            differs: input.copy_source_if_none_match.take(),
            modified_since: input.copy_source_if_modified_since.take(),
            unmodified_since: input.copy_source_if_unmodified_since.take(),
        };
        let condition = self.meant(&input.bucket, &input.key, condition, view).await?;
        let is_match = matches!(condition, Condition::Etag(_) | Condition::Version(_));
        let to = (input.bucket.as_str(), input.key.as_str());
        let copied = self.copied((from_bucket, from_key), to, attributes, &wanted, condition, view).await;
        let entry = match copied {
            Ok(entry) => entry,
            Err(error) => return Err(self.unmet(to.0, to.1, is_match, error).await),
        };
        let mut result = CopyObjectResult {
            e_tag: Some(etag(&entry.etag)),
            last_modified: Some(timestamp(entry.modified_ms)),
            ..CopyObjectResult::default()
        };
        show_checksum!(result, shown(entry.checksum.as_ref()), with type);
        Ok(S3Response::new(CopyObjectOutput {
            copy_object_result: Some(result),
            ..CopyObjectOutput::default()
        }))
    }

    async fn copied(
        &self,
        from: (&str, &str),
        to: (&str, &str),
        attributes: Option<Attributes>,
        wanted: &Wanted,
        condition: Condition,
        view: View,
    ) -> S3Result<Entry> {
        let entry = self.store.head(from.0, from.1).await.map_err(told)?;
        let seen = Seen::of(&entry, view == View::Show)?;
        wanted.check(&entry, &seen, true)?;
        check_size(Some(seen.bytes))?;
        if !seen.is_redirect {
            let _turn = self.enter(Way::Write, seen.bytes).await?;
            let copy = self.store.copy(from, entry.version, to, attributes, condition);
            return copy.await.map_err(told);
        }
        // The bytes take a slot where they are. None is taken here meanwhile: two nodes that copy from each other would
        // wait for each other.
        let found = self.read(from.0, from.1, Portion::default(), wanted, View::Through, true).await?;
        let attributes = attributes.unwrap_or_else(|| attributes::without_marks(&found.entry.attributes));
        let promise = Promise { bytes: Some(found.seen.bytes), ..Promise::default() };
        let (incoming, fault) = bodies::incoming(found.bytes, promise, None);
        let put = self.store.put(to.0, to.1, attributes, incoming, condition).await;
        put.map_err(|error| fault.or(error))
    }

    pub(super) async fn delete(
        &self,
        request: S3Request<DeleteObjectInput>,
    ) -> S3Result<S3Response<DeleteObjectOutput>> {
        let view = View::of(&request.headers)?;
        let input = request.input;
        check_version(input.version_id.as_deref())?;
        let tag = input.if_match.map(|tag| tag.into_etag().map_or_else(|| "*".to_owned(), ETag::into_value));
        let time = input.if_match_last_modified_time;
        self.remove(&input.bucket, &input.key, tag, time, input.if_match_size, view).await?;
        Ok(S3Response::new(DeleteObjectOutput::default()))
    }

    /// Deletes an object if it is the one that is meant.
    async fn remove(
        &self,
        bucket: &str,
        key: &str,
        tag: Option<String>,
        modified: Option<Timestamp>,
        size: Option<i64>,
        view: View,
    ) -> S3Result<()> {
        check_key(key)?;
        let mut condition = tag.map_or(Condition::Always, Condition::Etag);
        if modified.is_some() || size.is_some() {
            let entry = self.store.head(bucket, key).await.map_err(told)?;
            let seen = Seen::of(&entry, view == View::Show)?;
            let is_meant = modified.is_none_or(|time| time == timestamp(entry.modified_ms))
                && size.is_none_or(|size| u64::try_from(size) == Ok(seen.bytes))
                && match &condition {
                    Condition::Etag(tag) => tag == "*" || *tag == seen.etag,
                    _ => true,
                };
            if !is_meant {
                return Err(refuse(S3ErrorCode::PreconditionFailed, "the object is another one"));
            }
            condition = Condition::Version(entry.version);
        }
        let condition = self.meant(bucket, key, condition, view).await?;
        let is_match = matches!(condition, Condition::Etag(_) | Condition::Version(_));
        match self.store.delete(bucket, key, condition).await {
            Ok(()) => Ok(()),
            Err(error) => Err(self.unmet(bucket, key, is_match, told(error)).await),
        }
    }

    pub(super) async fn delete_many(
        &self,
        request: S3Request<DeleteObjectsInput>,
    ) -> S3Result<S3Response<DeleteObjectsOutput>> {
        let view = View::of(&request.headers)?;
        let input = request.input;
        let is_quiet = input.delete.quiet.unwrap_or(false);
        let objects = input.delete.objects;
        if objects.is_empty() || objects.len() > MOST_DELETED {
            return Err(refuse(S3ErrorCode::MalformedXML, "a request deletes 1 to 1,000 objects"));
        }
        self.check_bucket(&input.bucket).await?;
        let bucket = input.bucket.as_str();
        let outcomes = stream::iter(objects).map(|object| async move {
            let removed = match check_version(object.version_id.as_deref()) {
                Ok(()) => {
                    let tag = object.e_tag.map(ETag::into_value);
                    self.remove(bucket, &object.key, tag, object.last_modified_time, object.size, view).await
                }
                Err(error) => Err(error),
            };
            (object.key, removed)
        });
        let outcomes: Vec<_> = outcomes.buffered(N_DELETED_AT_ONCE).collect().await;
        let (mut deleted, mut errors) = (Vec::new(), Vec::new());
        for (key, removed) in outcomes {
            match removed {
                Ok(()) if is_quiet => {}
                Ok(()) => deleted.push(DeletedObject { key: Some(key), ..DeletedObject::default() }),
                Err(error) => errors.push(Error {
                    code: Some(error.code().as_str().to_owned()),
                    key: Some(key),
                    message: error.message().map(str::to_owned),
                    version_id: None,
                }),
            }
        }
        Ok(S3Response::new(DeleteObjectsOutput {
            deleted: (!deleted.is_empty()).then_some(deleted),
            errors: (!errors.is_empty()).then_some(errors),
            request_charged: None,
        }))
    }

    /// The bytes of a part that is copied from another object, and how many they are.
    pub(super) async fn copied_part(
        &self,
        from: &CopySource,
        range: Option<&str>,
        wanted: &Wanted,
    ) -> S3Result<Found> {
        let (bucket, key) = source(from)?;
        let range = match range {
            None => None,
            Some(text) => {
                let range = s3s::dto::Range::parse(text).ok();
                let range = range.filter(|range| matches!(range, s3s::dto::Range::Int { last: Some(_), .. }));
                Some(range.ok_or_else(|| {
                    let why = "x-amz-copy-source-range is bytes=first-last";
                    refuse(S3ErrorCode::InvalidArgument, why)
                })?)
            }
        };
        let last = match range {
            Some(s3s::dto::Range::Int { last: Some(last), .. }) => Some(last),
            _ => None,
        };
        let found =
            self.read(bucket, key, Portion { range, part: None }, wanted, View::Through, true).await?;
        // Elsewhere S3 takes what there is of a range, and here it does not.
        if last.is_some_and(|last| last >= found.seen.bytes) {
            return Err(refuse(S3ErrorCode::InvalidRange, "the range goes on after the end of the object"));
        }
        check_size(Some(found.range.end - found.range.start))?;
        Ok(found)
    }
}

/// Why a redirect is not written.
enum Refused {
    Redirect(S3Error),
    Body(StoreError),
}

/// The bytes of a redirect that is being written, if they are one: whoever reads it relies on that.
async fn redirect_in(mut bytes: Outgoing, attributes: &Attributes) -> Result<Outgoing, Refused> {
    let wrong = |why: String| Refused::Redirect(refuse(S3ErrorCode::InvalidArgument, why));
    let mut text = Vec::new();
    while let Some(chunk) = bytes.try_next().await.map_err(Refused::Body)? {
        text.extend_from_slice(&chunk);
        if text.len() > redirect::MOST_BYTES {
            return Err(wrong(format!("a redirect has at most {} bytes", redirect::MOST_BYTES)));
        }
    }
    let redirect = Redirect::parse(&text).map_err(|error| wrong(error.to_string()))?;
    if redirect.metadata().iter().any(|(name, value)| attributes.user.get(name) != Some(value)) {
        return Err(wrong("the metadata of a redirect are not what its body says".to_owned()));
    }
    Ok(stream::once(std::future::ready(Ok(text.into()))).boxed())
}

/// A page of the parts of an object.
fn parts_of(entry: &Entry, after: Option<i32>, most: Option<i32>) -> S3Result<GetObjectAttributesParts> {
    let (most, limit) = limit(most)?;
    let after = usize::try_from(after.unwrap_or_default());
    let after = after.map_err(|_| refuse(S3ErrorCode::InvalidArgument, "part-number-marker is negative"))?;
    let number = |n: usize| i32::try_from(n).ok();
    let parts = entry.parts.iter().enumerate().skip(after).take(limit).map(|(index, bytes)| ObjectPart {
        part_number: number(index + 1),
        size: i64::try_from(*bytes).ok(),
        ..ObjectPart::default()
    });
    let parts: Vec<_> = parts.collect();
    let end = after.saturating_add(parts.len());
    Ok(GetObjectAttributesParts {
        is_truncated: Some(end < entry.parts.len()),
        max_parts: Some(most),
        next_part_number_marker: number(end),
        part_number_marker: number(after),
        parts: Some(parts),
        total_parts_count: number(entry.parts.len()),
    })
}

/// All of a redirect, which was found to be small.
async fn collected(bytes: Outgoing) -> S3Result<Vec<u8>> {
    let collect = bytes.try_fold(Vec::new(), |mut all, chunk| async move {
        all.extend_from_slice(&chunk);
        Ok(all)
    });
    collect.await.map_err(told)
}

fn check_size(bytes: Option<u64>) -> S3Result<()> {
    if bytes.is_some_and(|bytes| bytes > MOST_BYTES) {
        let why = "a request has at most 5 GiB; use a multipart upload";
        return Err(refuse(S3ErrorCode::EntityTooLarge, why));
    }
    Ok(())
}

/// Where a copy comes from. The crate for S3 reads this header as a path, in which a `+` is one. S3 reads it as a form, in
/// which a `+` is a space, and clients rely on that.
pub(super) fn copy_source(headers: &HeaderMap) -> S3Result<CopySource> {
    let text = headers.get("x-amz-copy-source").and_then(|value| str::from_utf8(value.as_bytes()).ok());
    let source = CopySource::parse(&text.unwrap_or_default().replace('+', "%20"));
    source.map_err(|error| refuse(S3ErrorCode::InvalidArgument, format!("x-amz-copy-source: {error}")))
}

fn source(from: &CopySource) -> S3Result<(&str, &str)> {
    match from {
        CopySource::Bucket { bucket, key, version_id } => {
            check_version(version_id.as_deref())?;
            check_key(key)?;
            Ok((bucket, key))
        }
        _ => Err(super::missing("access points")),
    }
}

fn condition_of(headers: &HeaderMap, name: &str) -> S3Result<Option<ETagCondition>> {
    let Some(value) = headers.get(name) else { return Ok(None) };
    let condition = ETagCondition::parse_http_header(value.as_bytes());
    condition.map(Some).map_err(|_| refuse(S3ErrorCode::InvalidArgument, format!("{name} is no entity tag")))
}

/// Sends a client to who holds the object.
fn elsewhere(url: &str, server: &str) -> S3Error {
    let mut error = refuse(S3ErrorCode::TemporaryRedirect, format!("the object is held by `{server}`"));
    let mut headers = HeaderMap::new();
    if let Ok(url) = HeaderValue::from_str(url) {
        headers.insert(LOCATION, url);
    }
    error.set_headers(headers);
    error
}

fn set<T>(cell: &Mutex<Option<T>>, value: T) {
    *cell.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(value);
}

fn take<T>(cell: &Mutex<Option<T>>) -> Option<T> {
    cell.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take()
}
