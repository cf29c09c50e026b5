//! Listings of buckets.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use s3s::dto::{
    CommonPrefix, CommonPrefixList, EncodingType, ListObjectsInput, ListObjectsOutput, ListObjectsV2Input,
    ListObjectsV2Output, Object, ObjectList, ObjectStorageClass,
};
use s3s::{S3ErrorCode, S3Request, S3Response, S3Result};

use super::super::store::{Entry, Listing, Selection};
use super::Front;
use super::attributes::{Seen, etag, timestamp};
use super::errors::{refuse, told};
use super::redirects::View;

/// Names and common prefixes of a page.
const MOST_KEYS: i32 = 1000;
/// What is held for others has names that begin so. Listings show them only if they are asked for by such a prefix.
const HIDDEN: &str = ".evenkeel/";
/// After all hidden names.
const AFTER_HIDDEN: &str = ".evenkeel/\u{10ffff}";
/// How names are written where XML cannot have them as they are.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~').remove(b'/');

/// How names are written.
#[derive(Clone, Copy)]
pub(super) struct Writing {
    is_encoded: bool,
}

impl Writing {
    pub(super) fn of(encoding: Option<&EncodingType>) -> S3Result<Self> {
        match encoding.map(EncodingType::as_str) {
            None => Ok(Self { is_encoded: false }),
            Some("url") => Ok(Self { is_encoded: true }),
            Some(_) => Err(refuse(S3ErrorCode::InvalidArgument, "the only encoding-type is url")),
        }
    }

    pub(super) fn write(self, name: String) -> String {
        if self.is_encoded { utf8_percent_encode(&name, ENCODED).to_string() } else { name }
    }

    /// An empty one is none.
    pub(super) fn delimiter(self, delimiter: Option<String>) -> Option<String> {
        delimiter.filter(|delimiter| !delimiter.is_empty()).map(|delimiter| self.write(delimiter))
    }

    fn prefixes(self, names: Vec<String>) -> Option<CommonPrefixList> {
        let prefixes = names.into_iter().map(|name| CommonPrefix { prefix: Some(self.write(name)) });
        let prefixes: Vec<_> = prefixes.collect();
        (!prefixes.is_empty()).then_some(prefixes)
    }
}

/// How many are wanted.
pub(super) fn limit(most: Option<i32>) -> S3Result<(i32, usize)> {
    let most = most.unwrap_or(MOST_KEYS).min(MOST_KEYS);
    match usize::try_from(most) {
        Ok(limit) => Ok((most, limit)),
        Err(_) => Err(refuse(S3ErrorCode::InvalidArgument, "a number of names cannot be negative")),
    }
}

impl Front {
    /// A page of a listing without what is held for others.
    pub(in crate::node) async fn page(&self, bucket: &str, mut what: Selection) -> S3Result<Listing> {
        let mut listing = Listing::default();
        let (hides, limit) = (!what.prefix.starts_with(HIDDEN), what.limit);
        while what.limit > 0 {
            let page = self.store.list(bucket, &what).await.map_err(told)?;
            let n = page.entries.len() + page.prefixes.len();
            let hidden = |name: &String| hides && name.starts_with(HIDDEN);
            listing.entries.extend(page.entries.into_iter().filter(|(name, _)| !hidden(name)));
            listing.prefixes.extend(page.prefixes.into_iter().filter(|name| !hidden(name)));
            listing.next = page.next;
            let n_shown = listing.entries.len() + listing.prefixes.len();
            match &listing.next {
                Some(next) if n > 0 && hidden(next) => AFTER_HIDDEN.clone_into(&mut what.after),
                Some(next) if n > 0 => next.clone_into(&mut what.after),
                _ => break,
            }
            what.limit = limit.saturating_sub(n_shown);
        }
        Ok(listing)
    }

    fn object(&self, name: String, entry: &Entry, is_as_it_is: bool, with_owner: bool) -> S3Result<Object> {
        // What is not the redirect that it seems to be is no reason to show nothing of the bucket.
        let seen = Seen::of(entry, is_as_it_is).or_else(|_| Seen::of(entry, true))?;
        let checksum = entry.checksum.as_ref().filter(|_| !seen.is_redirect);
        Ok(Object {
            checksum_algorithm: checksum.map(|one| vec![one.algorithm.clone().into()]),
            checksum_type: super::checksums::shown(checksum).checksum_type,
            e_tag: Some(etag(&seen.etag)),
            key: Some(name),
            last_modified: Some(timestamp(entry.modified_ms)),
            owner: with_owner.then(|| self.owner()),
            restore_status: None,
            size: i64::try_from(seen.bytes).ok(),
            storage_class: Some(ObjectStorageClass::from_static(ObjectStorageClass::STANDARD)),
        })
    }

    fn objects(
        &self,
        entries: Vec<(String, Entry)>,
        writing: Writing,
        is_as_it_is: bool,
        with_owner: bool,
    ) -> S3Result<Option<ObjectList>> {
        let objects = entries.into_iter();
        let objects =
            objects.map(|(name, entry)| self.object(writing.write(name), &entry, is_as_it_is, with_owner));
        let objects: ObjectList = objects.collect::<S3Result<_>>()?;
        Ok((!objects.is_empty()).then_some(objects))
    }

    pub(super) async fn list_by_token(
        &self,
        request: S3Request<ListObjectsV2Input>,
    ) -> S3Result<S3Response<ListObjectsV2Output>> {
        let is_as_it_is = View::of(&request.headers)? == View::Show;
        let input = request.input;
        let writing = Writing::of(input.encoding_type.as_ref())?;
        let (most, limit) = limit(input.max_keys)?;
        let after = match &input.continuation_token {
            Some(token) => name_of(token)?,
            None => input.start_after.clone().unwrap_or_default(),
        };
        let what = Selection {
            prefix: input.prefix.clone().unwrap_or_default(),
            delimiter: input.delimiter.clone().unwrap_or_default(),
            after,
            limit,
        };
        if limit == 0 {
            self.check_bucket(&input.bucket).await?;
        }
        let listing = self.page(&input.bucket, what).await?;
        let count = i32::try_from(listing.entries.len() + listing.prefixes.len()).unwrap_or(i32::MAX);
        let with_owner = input.fetch_owner.unwrap_or(false);
        Ok(S3Response::new(ListObjectsV2Output {
            name: Some(input.bucket),
            prefix: Some(writing.write(input.prefix.unwrap_or_default())),
            max_keys: Some(most),
            key_count: Some(count),
            continuation_token: input.continuation_token,
            is_truncated: Some(listing.next.is_some()),
            next_continuation_token: listing.next.as_deref().map(token_of),
            contents: self.objects(listing.entries, writing, is_as_it_is, with_owner)?,
            common_prefixes: writing.prefixes(listing.prefixes),
            delimiter: writing.delimiter(input.delimiter),
            encoding_type: input.encoding_type,
            start_after: input.start_after.map(|after| writing.write(after)),
            request_charged: None,
        }))
    }

    pub(super) async fn list_by_marker(
        &self,
        request: S3Request<ListObjectsInput>,
    ) -> S3Result<S3Response<ListObjectsOutput>> {
        let is_as_it_is = View::of(&request.headers)? == View::Show;
        let input = request.input;
        let writing = Writing::of(input.encoding_type.as_ref())?;
        let (most, limit) = limit(input.max_keys)?;
        let what = Selection {
            prefix: input.prefix.clone().unwrap_or_default(),
            delimiter: input.delimiter.clone().unwrap_or_default(),
            after: input.marker.clone().unwrap_or_default(),
            limit,
        };
        if limit == 0 {
            self.check_bucket(&input.bucket).await?;
        }
        let listing = self.page(&input.bucket, what).await?;
        Ok(S3Response::new(ListObjectsOutput {
            name: Some(input.bucket),
            prefix: Some(writing.write(input.prefix.unwrap_or_default())),
            marker: Some(writing.write(input.marker.unwrap_or_default())),
            max_keys: Some(most),
            is_truncated: Some(listing.next.is_some()),
            // S3 names it only where the last key would not do.
            next_marker: listing.next.filter(|_| input.delimiter.is_some()).map(|next| writing.write(next)),
            contents: self.objects(listing.entries, writing, is_as_it_is, true)?,
            common_prefixes: writing.prefixes(listing.prefixes),
            delimiter: writing.delimiter(input.delimiter),
            encoding_type: input.encoding_type,
            request_charged: None,
        }))
    }

    /// Whether there is such a bucket.
    pub(super) async fn check_bucket(&self, bucket: &str) -> S3Result<()> {
        let what = Selection { limit: 1, ..Selection::default() };
        self.store.list(bucket, &what).await.map(drop).map_err(told)
    }
}

/// What asks for the page after this name.
fn token_of(name: &str) -> String {
    URL_SAFE_NO_PAD.encode(name)
}

fn name_of(token: &str) -> S3Result<String> {
    let bytes = URL_SAFE_NO_PAD.decode(token).ok();
    bytes.and_then(|bytes| String::from_utf8(bytes).ok()).ok_or_else(|| {
        refuse(S3ErrorCode::InvalidArgument, "the continuation token is not one that this node has given")
    })
}
