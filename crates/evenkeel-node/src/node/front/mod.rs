//! S3, as a node speaks it: buckets, objects, listings and multipart uploads of a [`Store`], through the [`Gate`].
//!
//! What is not here is refused with `NotImplemented`, and nothing that is asked for is left out silently. Each body takes
//! a slot of the gate; requests without one need none. A redirect looks like the object that it leads to; what is read
//! through it takes a slot where the bytes are, and none here, so that no two nodes wait for each other.

pub(super) mod access;
mod attributes;
mod bodies;
mod checksums;
pub(super) mod chunks;
mod conditions;
mod errors;
mod listing;
mod multipart;
mod objects;
mod ranges;
mod redirects;
mod splice;

use std::sync::Arc;

use evenkeel_store::cluster::redirect::MAINTENANCE;
use hyper::HeaderMap;
use s3s::dto::{
    AbortMultipartUploadInput, AbortMultipartUploadOutput, Bucket, CompleteMultipartUploadInput,
    CompleteMultipartUploadOutput, CopyObjectInput, CopyObjectOutput, CreateBucketInput, CreateBucketOutput,
    CreateMultipartUploadInput, CreateMultipartUploadOutput, DeleteBucketInput, DeleteBucketOutput,
    DeleteObjectInput, DeleteObjectOutput, DeleteObjectsInput, DeleteObjectsOutput, GetBucketLocationInput,
    GetBucketLocationOutput, GetBucketVersioningInput, GetBucketVersioningOutput, GetObjectAttributesInput,
    GetObjectAttributesOutput, GetObjectInput, GetObjectOutput, HeadBucketInput, HeadBucketOutput,
    HeadObjectInput, HeadObjectOutput, ListBucketsInput, ListBucketsOutput, ListMultipartUploadsInput,
    ListMultipartUploadsOutput, ListObjectsInput, ListObjectsOutput, ListObjectsV2Input, ListObjectsV2Output,
    ListPartsInput, ListPartsOutput, Owner, PostObjectInput, PostObjectOutput, PutObjectInput,
    PutObjectOutput, UploadPartCopyInput, UploadPartCopyOutput, UploadPartInput, UploadPartOutput,
};
use s3s::{S3, S3ErrorCode, S3Request, S3Response, S3Result};

use self::attributes::timestamp;
use self::errors::{later, missing, refuse, told};
pub(in crate::node) use self::ranges::{Naming, Promised, Ranges, Wrote};
pub use self::redirects::Peers;
use super::gate::{Ask, Gate, Turn, Way};
use super::store::Store;

/// Answers requests on the data port.
#[derive(Clone, Debug)]
pub(super) struct Front {
    pub(super) name: Arc<str>,
    pub(super) store: Arc<dyn Store>,
    pub(super) gate: Arc<Gate>,
    /// Who holds what redirects lead to, if the node knows the cluster.
    pub(super) peers: Option<Arc<Peers>>,
    /// Objects that are written into.
    pub(super) ranges: Arc<Ranges>,
}

impl Front {
    async fn enter(&self, way: Way, bytes: u64) -> S3Result<Turn> {
        Ok(self.gate.enter(Ask { way, bytes, is_maintenance: false }).await?)
    }

    /// The same for a request with these headers, which may be a maintainer's.
    async fn enter_with(&self, way: Way, bytes: u64, headers: &HeaderMap) -> S3Result<Turn> {
        let is_maintenance = headers.contains_key(MAINTENANCE);
        Ok(self.gate.enter(Ask { way, bytes, is_maintenance }).await?)
    }

    /// Refuses what would add data to a node that is being emptied.
    fn takes_data(&self) -> S3Result<()> {
        if self.gate.is_draining() {
            return Err(later("this node is being drained and takes no new objects; write to another one"));
        }
        Ok(())
    }

    fn owner(&self) -> Owner {
        Owner { display_name: Some(self.name.to_string()), id: Some(self.name.to_string()) }
    }
}

/// Refuses names that no object has. Others are just names: no path is ever made of one.
fn check_key(key: &str) -> S3Result<()> {
    match key.len() {
        0 => Err(refuse(S3ErrorCode::InvalidArgument, "the name of the object is empty")),
        1..=1024 if key.contains('\0') => {
            Err(refuse(S3ErrorCode::InvalidArgument, "the name of the object has a zero byte"))
        }
        1..=1024 => Ok(()),
        _ => Err(refuse(S3ErrorCode::KeyTooLongError, "the name of an object has at most 1,024 bytes")),
    }
}

/// Versions are not kept, so the only one is `null`.
fn check_version(version: Option<&str>) -> S3Result<()> {
    match version {
        None | Some("" | "null") => Ok(()),
        Some(_) => Err(refuse(S3ErrorCode::NoSuchVersion, "this node keeps one version of each object")),
    }
}

#[async_trait::async_trait]
impl S3 for Front {
    async fn list_buckets(
        &self,
        request: S3Request<ListBucketsInput>,
    ) -> S3Result<S3Response<ListBucketsOutput>> {
        let prefix = request.input.prefix.as_deref().unwrap_or_default();
        let after = request.input.continuation_token.as_deref().unwrap_or_default();
        let most = request.input.max_buckets.and_then(|n| usize::try_from(n).ok()).unwrap_or(usize::MAX);
        let buckets = self.store.buckets().await.map_err(told)?.into_iter();
        let mut buckets = buckets
            .filter(|bucket| bucket.name.starts_with(prefix) && bucket.name.as_str() > after)
            .peekable();
        let page: Vec<Bucket> = buckets
            .by_ref()
            .take(most.max(1))
            .map(|bucket| Bucket {
                bucket_region: None,
                creation_date: Some(timestamp(bucket.created_ms)),
                name: Some(bucket.name),
            })
            .collect();
        let token = buckets.peek().and_then(|_| page.last()?.name.clone());
        Ok(S3Response::new(ListBucketsOutput {
            buckets: Some(page),
            continuation_token: token,
            owner: Some(self.owner()),
            prefix: request.input.prefix,
        }))
    }

    async fn create_bucket(
        &self,
        request: S3Request<CreateBucketInput>,
    ) -> S3Result<S3Response<CreateBucketOutput>> {
        let input = request.input;
        self.takes_data()?;
        attributes::refuse_others(&[
            (
                "access control lists; leave out x-amz-acl",
                input.acl.is_some_and(|acl| !attributes::is_private(acl.as_str())),
            ),
            ("object locks", input.object_lock_enabled_for_bucket.unwrap_or(false)),
        ])?;
        // The crate for S3 refuses other names that S3 does not have.
        if [".-", "-."].iter().any(|pair| input.bucket.contains(pair)) {
            let why = "in the name of a bucket a hyphen does not stand beside a period";
            return Err(refuse(S3ErrorCode::InvalidBucketName, why));
        }
        self.store.create_bucket(&input.bucket).await.map_err(told)?;
        Ok(S3Response::new(CreateBucketOutput { location: Some(format!("/{}", input.bucket)) }))
    }

    async fn head_bucket(
        &self,
        request: S3Request<HeadBucketInput>,
    ) -> S3Result<S3Response<HeadBucketOutput>> {
        self.check_bucket(&request.input.bucket).await?;
        Ok(S3Response::new(HeadBucketOutput::default()))
    }

    async fn delete_bucket(
        &self,
        request: S3Request<DeleteBucketInput>,
    ) -> S3Result<S3Response<DeleteBucketOutput>> {
        self.store.delete_bucket(&request.input.bucket).await.map_err(told)?;
        Ok(S3Response::new(DeleteBucketOutput {}))
    }

    async fn get_bucket_location(
        &self,
        request: S3Request<GetBucketLocationInput>,
    ) -> S3Result<S3Response<GetBucketLocationOutput>> {
        self.check_bucket(&request.input.bucket).await?;
        Ok(S3Response::new(GetBucketLocationOutput::default()))
    }

    async fn get_bucket_versioning(
        &self,
        request: S3Request<GetBucketVersioningInput>,
    ) -> S3Result<S3Response<GetBucketVersioningOutput>> {
        self.check_bucket(&request.input.bucket).await?;
        Ok(S3Response::new(GetBucketVersioningOutput::default()))
    }

    async fn list_objects(
        &self,
        request: S3Request<ListObjectsInput>,
    ) -> S3Result<S3Response<ListObjectsOutput>> {
        self.list_by_marker(request).await
    }

    async fn list_objects_v2(
        &self,
        request: S3Request<ListObjectsV2Input>,
    ) -> S3Result<S3Response<ListObjectsV2Output>> {
        self.list_by_token(request).await
    }

    async fn head_object(
        &self,
        request: S3Request<HeadObjectInput>,
    ) -> S3Result<S3Response<HeadObjectOutput>> {
        self.head(request).await
    }

    async fn get_object(&self, request: S3Request<GetObjectInput>) -> S3Result<S3Response<GetObjectOutput>> {
        self.get(request).await
    }

    async fn get_object_attributes(
        &self,
        request: S3Request<GetObjectAttributesInput>,
    ) -> S3Result<S3Response<GetObjectAttributesOutput>> {
        self.attributes(request).await
    }

    async fn put_object(&self, request: S3Request<PutObjectInput>) -> S3Result<S3Response<PutObjectOutput>> {
        self.put(request).await
    }

    async fn post_object(&self, _: S3Request<PostObjectInput>) -> S3Result<S3Response<PostObjectOutput>> {
        Err(missing("uploads from web forms; use a presigned URL"))
    }

    async fn copy_object(
        &self,
        request: S3Request<CopyObjectInput>,
    ) -> S3Result<S3Response<CopyObjectOutput>> {
        self.copy(request).await
    }

    async fn delete_object(
        &self,
        request: S3Request<DeleteObjectInput>,
    ) -> S3Result<S3Response<DeleteObjectOutput>> {
        self.delete(request).await
    }

    async fn delete_objects(
        &self,
        request: S3Request<DeleteObjectsInput>,
    ) -> S3Result<S3Response<DeleteObjectsOutput>> {
        self.delete_many(request).await
    }

    async fn create_multipart_upload(
        &self,
        request: S3Request<CreateMultipartUploadInput>,
    ) -> S3Result<S3Response<CreateMultipartUploadOutput>> {
        self.start_upload(request).await
    }

    async fn upload_part(
        &self,
        request: S3Request<UploadPartInput>,
    ) -> S3Result<S3Response<UploadPartOutput>> {
        self.put_part(request).await
    }

    async fn upload_part_copy(
        &self,
        request: S3Request<UploadPartCopyInput>,
    ) -> S3Result<S3Response<UploadPartCopyOutput>> {
        self.copy_part(request).await
    }

    async fn list_parts(&self, request: S3Request<ListPartsInput>) -> S3Result<S3Response<ListPartsOutput>> {
        self.parts(request).await
    }

    async fn list_multipart_uploads(
        &self,
        request: S3Request<ListMultipartUploadsInput>,
    ) -> S3Result<S3Response<ListMultipartUploadsOutput>> {
        self.uploads(request).await
    }

    async fn complete_multipart_upload(
        &self,
        request: S3Request<CompleteMultipartUploadInput>,
    ) -> S3Result<S3Response<CompleteMultipartUploadOutput>> {
        self.complete(request).await
    }

    async fn abort_multipart_upload(
        &self,
        request: S3Request<AbortMultipartUploadInput>,
    ) -> S3Result<S3Response<AbortMultipartUploadOutput>> {
        self.abort(request).await
    }
}
