//! Objects that are written in parts.

use std::collections::HashMap;

use futures_util::stream::{self, StreamExt};
use s3s::crypto::{Checksum as _, Md5};
use s3s::dto::{
    AbortMultipartUploadInput, AbortMultipartUploadOutput, ChecksumType, CommonPrefix,
    CompleteMultipartUploadInput, CompleteMultipartUploadOutput, CompletedPart, CopyPartResult,
    CreateMultipartUploadInput, CreateMultipartUploadOutput, ListMultipartUploadsInput,
    ListMultipartUploadsOutput, ListPartsInput, ListPartsOutput, MultipartUpload, Part, StorageClass,
    UploadPartCopyInput, UploadPartCopyOutput, UploadPartInput, UploadPartOutput,
};
use s3s::{S3ErrorCode, S3Request, S3Response, S3Result};

use super::super::gate::Way;
use super::super::store::{self, Checksum, Chosen, Condition, Entry};
use super::attributes::{attributes_of, etag, refuse_extras, refuse_mark, timestamp};
use super::bodies;
use super::checksums::{Algorithm, Kind, Promise, checksums_of, given, joined, show_checksum, shown};
use super::conditions::{self, Wanted};
use super::errors::{refuse, told};
use super::listing::{Writing, limit};
use super::objects::copy_source;
use super::redirects::View;
use super::{Front, check_key};

/// Parts of an object.
const MOST_PARTS: u32 = 10_000;
/// Parts that are asked for at once.
const PARTS_AT_ONCE: usize = 1000;
/// What is kept of an upload's checksums, among its headers.
const ALGORITHM: &str = "x-amz-checksum-algorithm";
const KIND: &str = "x-amz-checksum-type";

impl Front {
    pub(super) async fn start_upload(
        &self,
        request: S3Request<CreateMultipartUploadInput>,
    ) -> S3Result<S3Response<CreateMultipartUploadOutput>> {
        let mut input = request.input;
        self.takes_data()?;
        check_key(&input.key)?;
        refuse_extras!(input)?;
        let algorithm =
            input.checksum_algorithm.as_ref().map(|algorithm| Algorithm::of_name(algorithm.as_str()));
        let algorithm = algorithm.transpose()?;
        let kind = input.checksum_type.as_ref().map(|kind| Kind::of(kind, algorithm)).transpose()?;
        let mut attributes = attributes_of!(input)?;
        refuse_mark(&attributes)?;
        // Whoever completes the upload need not say it again. No client sees these among the headers of the object.
        let kept = [(ALGORITHM, algorithm.map(Algorithm::name)), (KIND, kind.map(Kind::name))];
        for (name, value) in kept {
            attributes.headers.extend(value.map(|value| (name.to_owned(), value.to_owned())));
        }
        let upload = self.store.start_upload(&input.bucket, &input.key, attributes).await.map_err(told)?;
        Ok(S3Response::new(CreateMultipartUploadOutput {
            bucket: Some(input.bucket),
            key: Some(input.key),
            upload_id: Some(upload.id),
            checksum_algorithm: input.checksum_algorithm,
            checksum_type: input.checksum_type,
            ..CreateMultipartUploadOutput::default()
        }))
    }

    pub(super) async fn put_part(
        &self,
        request: S3Request<UploadPartInput>,
    ) -> S3Result<S3Response<UploadPartOutput>> {
        let trailing = request.trailing_headers;
        let mut input = request.input;
        check_key(&input.key)?;
        bodies::check_headers(&request.headers)?;
        let number = part_number(input.part_number)?;
        let promise = Promise::of(
            &checksums_of!(input),
            input.checksum_algorithm.as_ref(),
            input.content_md5.take(),
            input.content_length,
            trailing,
        )?;
        if promise.bytes.is_some_and(|bytes| bytes > bodies::MOST_BYTES) {
            return Err(refuse(S3ErrorCode::EntityTooLarge, "a part has at most 5 GiB"));
        }
        let body = match input.body.take() {
            Some(body) => body.boxed(),
            None => stream::empty().boxed(),
        };
        let turn = match promise.bytes {
            Some(0) => None,
            bytes => Some(self.enter(Way::Write, bytes.unwrap_or_default()).await?),
        };
        let (incoming, fault) = bodies::incoming(body, promise, turn);
        let put = self.store.put_part(&input.bucket, &input.key, &input.upload_id, number, incoming).await;
        let part = put.map_err(|error| fault.or(error))?;
        let mut output = UploadPartOutput { e_tag: Some(etag(&part.etag)), ..UploadPartOutput::default() };
        show_checksum!(output, shown(part.checksum.as_ref()));
        Ok(S3Response::new(output))
    }

    pub(super) async fn copy_part(
        &self,
        request: S3Request<UploadPartCopyInput>,
    ) -> S3Result<S3Response<UploadPartCopyOutput>> {
        let input = request.input;
        check_key(&input.key)?;
        let number = part_number(input.part_number)?;
        let wanted = Wanted {
            matches: input.copy_source_if_match,
            differs: input.copy_source_if_none_match,
            modified_since: input.copy_source_if_modified_since,
            unmodified_since: input.copy_source_if_unmodified_since,
        };
        let from = copy_source(&request.headers)?;
        let found = self.copied_part(&from, input.copy_source_range.as_deref(), &wanted).await?;
        let bytes = found.range.end - found.range.start;
        // See `copied`: what comes from another node takes a slot there.
        let turn = match found.seen.is_redirect || bytes == 0 {
            true => None,
            false => Some(self.enter(Way::Write, bytes).await?),
        };
        let promise = Promise { bytes: Some(bytes), ..Promise::default() };
        let (incoming, fault) = bodies::incoming(found.bytes, promise, turn);
        let put = self.store.put_part(&input.bucket, &input.key, &input.upload_id, number, incoming).await;
        let part = put.map_err(|error| fault.or(error))?;
        Ok(S3Response::new(UploadPartCopyOutput {
            copy_part_result: Some(CopyPartResult {
                e_tag: Some(etag(&part.etag)),
                last_modified: Some(timestamp(part.modified_ms)),
                ..CopyPartResult::default()
            }),
            ..UploadPartCopyOutput::default()
        }))
    }

    pub(super) async fn parts(
        &self,
        request: S3Request<ListPartsInput>,
    ) -> S3Result<S3Response<ListPartsOutput>> {
        let input = request.input;
        let (most, limit) = limit(input.max_parts)?;
        let after = input.part_number_marker.unwrap_or_default();
        let after = u32::try_from(after)
            .map_err(|_| refuse(S3ErrorCode::InvalidArgument, "part-number-marker is negative"))?;
        let parts = self.store.parts(&input.bucket, &input.key, &input.upload_id, after, limit.max(1));
        let (mut parts, mut has_more) = parts.await.map_err(told)?;
        if limit == 0 {
            (parts, has_more) = (Vec::new(), false);
        }
        let next = parts.last().and_then(|part| i32::try_from(part.number).ok());
        let parts = parts.into_iter().map(|part| {
            let mut listed = Part {
                e_tag: Some(etag(&part.etag)),
                last_modified: Some(timestamp(part.modified_ms)),
                part_number: i32::try_from(part.number).ok(),
                size: i64::try_from(part.bytes).ok(),
                ..Part::default()
            };
            show_checksum!(listed, shown(part.checksum.as_ref()));
            listed
        });
        Ok(S3Response::new(ListPartsOutput {
            bucket: Some(input.bucket),
            key: Some(input.key),
            upload_id: Some(input.upload_id),
            max_parts: Some(most),
            part_number_marker: input.part_number_marker,
            next_part_number_marker: next.filter(|_| has_more),
            is_truncated: Some(has_more),
            parts: Some(parts.collect()),
            owner: Some(self.owner()),
            storage_class: Some(StorageClass::from_static(StorageClass::STANDARD)),
            ..ListPartsOutput::default()
        }))
    }

    pub(super) async fn uploads(
        &self,
        request: S3Request<ListMultipartUploadsInput>,
    ) -> S3Result<S3Response<ListMultipartUploadsOutput>> {
        let input = request.input;
        let writing = Writing::of(input.encoding_type.as_ref())?;
        let (most, limit) = limit(input.max_uploads)?;
        let prefix = input.prefix.clone().unwrap_or_default();
        let delimiter = input.delimiter.clone().unwrap_or_default();
        let (key_after, id_after) =
            (input.key_marker.clone().unwrap_or_default(), input.upload_id_marker.clone());
        let uploads = self.store.uploads(&input.bucket, &prefix).await.map_err(told)?;
        let (mut listed, mut prefixes) = (Vec::new(), Vec::<String>::new());
        let mut last = None;
        let mut is_truncated = false;
        for upload in uploads {
            let rest = upload.key.strip_prefix(&prefix).filter(|_| !delimiter.is_empty());
            let common = rest
                .and_then(|rest| rest.find(&delimiter))
                .map(|at| upload.key[..prefix.len() + at + delimiter.len()].to_owned());
            let is_after = match &id_after {
                _ if common.is_some() => common.as_ref().is_some_and(|common| *common > key_after),
                Some(id) if !key_after.is_empty() => (&upload.key, &upload.id) > (&key_after, id),
                _ => upload.key > key_after,
            };
            if !is_after || common.as_ref().is_some_and(|common| prefixes.last() == Some(common)) {
                continue;
            }
            if listed.len() + prefixes.len() >= limit {
                is_truncated = limit > 0;
                break;
            }
            if let Some(common) = common {
                last = Some((common.clone(), String::new()));
                prefixes.push(common);
                continue;
            }
            last = Some((upload.key.clone(), upload.id.clone()));
            listed.push(MultipartUpload {
                initiated: Some(timestamp(upload.started_ms)),
                key: Some(writing.write(upload.key)),
                upload_id: Some(upload.id),
                owner: Some(self.owner()),
                storage_class: Some(StorageClass::from_static(StorageClass::STANDARD)),
                checksum_algorithm: upload.attributes.headers.get(ALGORITHM).map(|name| name.clone().into()),
                checksum_type: upload.attributes.headers.get(KIND).map(|kind| kind.clone().into()),
                ..MultipartUpload::default()
            });
        }
        let (next_key, next_id) = last.filter(|_| is_truncated).unzip();
        let prefixes = prefixes.into_iter().map(|name| CommonPrefix { prefix: Some(writing.write(name)) });
        Ok(S3Response::new(ListMultipartUploadsOutput {
            bucket: Some(input.bucket),
            common_prefixes: Some(prefixes.collect()),
            delimiter: writing.delimiter(input.delimiter),
            encoding_type: input.encoding_type,
            is_truncated: Some(is_truncated),
            key_marker: Some(writing.write(input.key_marker.unwrap_or_default())),
            max_uploads: Some(most),
            next_key_marker: next_key.map(|key| writing.write(key)),
            next_upload_id_marker: next_id,
            prefix: Some(writing.write(prefix)),
            request_charged: None,
            upload_id_marker: input.upload_id_marker,
            uploads: Some(listed),
        }))
    }

    pub(super) async fn complete(
        &self,
        request: S3Request<CompleteMultipartUploadInput>,
    ) -> S3Result<S3Response<CompleteMultipartUploadOutput>> {
        let view = View::of(&request.headers)?;
        let input = request.input;
        check_key(&input.key)?;
        let parts = input.multipart_upload.as_ref().and_then(|upload| upload.parts.as_deref());
        let parts = parts.unwrap_or_default();
        let chosen = chosen(parts)?;
        let entry = match self.completed(&input, parts, &chosen, view).await {
            // The answer may have been lost, and the client asks again.
            Err(error) if *error.code() == S3ErrorCode::NoSuchUpload => {
                self.is_there(&input.bucket, &input.key, &chosen).await.ok_or(error)?
            }
            completed => completed?,
        };
        let mut output = CompleteMultipartUploadOutput {
            location: Some(format!("/{}/{}", input.bucket, input.key)),
            bucket: Some(input.bucket),
            key: Some(input.key),
            e_tag: Some(etag(&entry.etag)),
            ..CompleteMultipartUploadOutput::default()
        };
        show_checksum!(output, shown(entry.checksum.as_ref()), with type);
        Ok(S3Response::new(output))
    }

    async fn completed(
        &self,
        input: &CompleteMultipartUploadInput,
        parts: &[CompletedPart],
        chosen: &[Chosen],
        view: View,
    ) -> S3Result<Entry> {
        let condition = conditions::of_write(input.if_match.clone(), input.if_none_match.clone())?;
        let there = self.all_parts(&input.bucket, &input.key, &input.upload_id).await?;
        let sizes = compare(parts, chosen, &there)?;
        if let Some(promised) = input.mpu_object_size
            && u64::try_from(promised) != Ok(sizes.iter().map(|(bytes, _)| bytes).sum())
        {
            let why = "x-amz-mp-object-size is not the size of the parts together";
            return Err(refuse(S3ErrorCode::InvalidRequest, why));
        }
        let promised = given(&checksums_of!(input))?;
        let checksum = self.checksum_of_whole(input, promised.as_ref(), &sizes).await?;
        let condition = self.meant(&input.bucket, &input.key, condition, view).await?;
        let is_match = matches!(condition, Condition::Etag(_) | Condition::Version(_));
        let completed = self
            .store
            .complete_upload(&input.bucket, &input.key, &input.upload_id, chosen, checksum, condition)
            .await;
        match completed {
            Ok(entry) => Ok(entry),
            Err(error) => Err(self.unmet(&input.bucket, &input.key, is_match, told(error)).await),
        }
    }

    /// The checksum of an object of these parts, which is the one that the client promises if it does.
    async fn checksum_of_whole(
        &self,
        input: &CompleteMultipartUploadInput,
        promised: Option<&(Algorithm, String)>,
        sizes: &[(u64, Option<Checksum>)],
    ) -> S3Result<Option<Checksum>> {
        if promised.is_none() && sizes.iter().all(|(_, checksum)| checksum.is_none()) {
            return Ok(None);
        }
        let uploads = self.store.uploads(&input.bucket, &input.key).await.map_err(told)?;
        let upload =
            uploads.into_iter().find(|upload| upload.key == input.key && upload.id == input.upload_id);
        let begun =
            upload.as_ref().and_then(|upload| upload.attributes.headers.get(KIND).map(String::as_str));
        let now = input.checksum_type.as_ref().map(ChecksumType::as_str);
        if begun.is_some_and(|begun| now.is_some_and(|now| now != begun)) {
            let why = "x-amz-checksum-type is not the one that the upload was begun with";
            return Err(refuse(S3ErrorCode::InvalidRequest, why));
        }
        let is_of_whole = match (now.or(begun), promised) {
            (Some(kind), _) => kind == ChecksumType::FULL_OBJECT,
            (None, Some((algorithm, value))) => algorithm.can_be_joined() && !value.contains('-'),
            (None, None) => false,
        };
        let checksum = joined(sizes, is_of_whole);
        match (promised, &checksum) {
            (Some((algorithm, promised)), Some(checksum))
                if algorithm.name() != checksum.algorithm || *promised != checksum.value =>
            {
                let why = format!("the {} that was given is not that of the parts", algorithm.name());
                Err(refuse(S3ErrorCode::BadDigest, why))
            }
            (Some((algorithm, _)), None) => {
                let why = format!(
                    "the {} that was given cannot be compared: not all parts were uploaded with one",
                    algorithm.name()
                );
                Err(refuse(S3ErrorCode::InvalidRequest, why))
            }
            _ => Ok(checksum),
        }
    }

    /// The object of that name, if it is what these parts make.
    async fn is_there(&self, bucket: &str, key: &str, chosen: &[Chosen]) -> Option<Entry> {
        let mut md5 = Md5::new();
        for part in chosen {
            md5.update(&digest_of(&part.etag)?);
        }
        let digest = md5.finalize();
        let hex = digest.as_ref().iter().fold(String::new(), |hex, byte| format!("{hex}{byte:02x}"));
        let entry = self.store.head(bucket, key).await.ok()?;
        (entry.etag == format!("{hex}-{}", chosen.len())).then_some(entry)
    }

    async fn all_parts(&self, bucket: &str, key: &str, upload: &str) -> S3Result<HashMap<u32, store::Part>> {
        let (mut all, mut after) = (HashMap::new(), 0);
        loop {
            let page = self.store.parts(bucket, key, upload, after, PARTS_AT_ONCE).await;
            let (parts, has_more) = page.map_err(told)?;
            let last = parts.last().map(|part| part.number);
            all.extend(parts.into_iter().map(|part| (part.number, part)));
            match last.filter(|_| has_more) {
                Some(last) => after = last,
                None => return Ok(all),
            }
        }
    }

    pub(super) async fn abort(
        &self,
        request: S3Request<AbortMultipartUploadInput>,
    ) -> S3Result<S3Response<AbortMultipartUploadOutput>> {
        let input = request.input;
        self.store.abort_upload(&input.bucket, &input.key, &input.upload_id).await.map_err(told)?;
        Ok(S3Response::new(AbortMultipartUploadOutput::default()))
    }
}

fn part_number(number: i32) -> S3Result<u32> {
    let number = u32::try_from(number).ok().filter(|number| (1..=MOST_PARTS).contains(number));
    number.ok_or_else(|| refuse(S3ErrorCode::InvalidArgument, "part numbers go from 1 to 10,000"))
}

/// The 16 bytes of an MD5 in hexadecimal digits.
fn digest_of(etag: &str) -> Option<[u8; 16]> {
    let number = u128::from_str_radix(etag, 16).ok()?;
    (etag.len() == 32).then(|| number.to_be_bytes())
}

/// The parts that a client names.
fn chosen(parts: &[CompletedPart]) -> S3Result<Vec<Chosen>> {
    if parts.is_empty() || parts.len() > MOST_PARTS as usize {
        return Err(refuse(S3ErrorCode::MalformedXML, "an object has 1 to 10,000 parts"));
    }
    let mut chosen: Vec<Chosen> = Vec::with_capacity(parts.len());
    for part in parts {
        let malformed = || refuse(S3ErrorCode::MalformedXML, "a part has no number or no entity tag");
        let number = part_number(part.part_number.ok_or_else(malformed)?)?;
        let etag = part.e_tag.clone().ok_or_else(malformed)?.into_value();
        if chosen.last().is_some_and(|before| before.number >= number) {
            return Err(refuse(
                S3ErrorCode::InvalidPartOrder,
                "parts are named in the order of their numbers",
            ));
        }
        chosen.push(Chosen { number, etag });
    }
    Ok(chosen)
}

/// The sizes and checksums of the parts that were chosen, which are those that the client means.
fn compare(
    parts: &[CompletedPart],
    chosen: &[Chosen],
    there: &HashMap<u32, store::Part>,
) -> S3Result<Vec<(u64, Option<Checksum>)>> {
    let pairs = parts.iter().zip(chosen);
    pairs
        .map(|(part, Chosen { number, etag })| {
            let Some(stored) = there.get(number).filter(|stored| stored.etag == *etag) else {
                return Err(told(store::StoreError::InvalidPart(*number)));
            };
            let promised = given(&checksums_of!(part))?;
            if let (Some((algorithm, promised)), Some(kept)) = (&promised, &stored.checksum)
                && (algorithm.name() != kept.algorithm || *promised != kept.value)
            {
                let why = format!("the {} of part {number} is another", algorithm.name());
                return Err(refuse(S3ErrorCode::InvalidPart, why));
            }
            Ok((stored.bytes, stored.checksum.clone()))
        })
        .collect()
}
