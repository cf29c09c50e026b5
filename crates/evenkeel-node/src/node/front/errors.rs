//! What goes wrong, as S3 says it.

use hyper::StatusCode;
use s3s::{S3Error, S3ErrorCode};

use super::super::gate::Stopped;
use super::super::store::StoreError;

/// An error with a message.
pub(super) fn refuse(code: S3ErrorCode, why: impl Into<String>) -> S3Error {
    S3Error::with_message(code, why.into())
}

/// An error that the crate for S3 has no name for.
pub(super) fn custom(code: &'static str, status: StatusCode, why: impl Into<String>) -> S3Error {
    let mut error = refuse(S3ErrorCode::Custom(code.into()), why);
    error.set_status_code(status);
    error
}

/// A feature of S3 that is not here.
pub(super) fn missing(what: &str) -> S3Error {
    refuse(S3ErrorCode::NotImplemented, format!("this node has no {what}"))
}

/// An error that is the fault of this node.
pub(super) fn broken(why: impl Into<String>) -> S3Error {
    refuse(S3ErrorCode::InternalError, why)
}

/// An error that may be over soon.
pub(super) fn later(why: impl Into<String>) -> S3Error {
    refuse(S3ErrorCode::ServiceUnavailable, why)
}

/// What a store says, to a client.
#[allow(clippy::needless_pass_by_value)] // it stands in map_err
pub(super) fn told(error: StoreError) -> S3Error {
    let why = error.to_string();
    let code = match error {
        StoreError::NoSuchBucket(_) => S3ErrorCode::NoSuchBucket,
        StoreError::BucketExists(_) => S3ErrorCode::BucketAlreadyOwnedByYou,
        StoreError::BucketNotEmpty(_) => S3ErrorCode::BucketNotEmpty,
        StoreError::NoSuchKey(_) => S3ErrorCode::NoSuchKey,
        StoreError::NoSuchUpload(_) => S3ErrorCode::NoSuchUpload,
        StoreError::InvalidPart(_) => S3ErrorCode::InvalidPart,
        StoreError::PartTooSmall { .. } => S3ErrorCode::EntityTooSmall,
        StoreError::Precondition(_) => S3ErrorCode::PreconditionFailed,
        StoreError::BadBody(_) => S3ErrorCode::IncompleteBody,
        StoreError::Closed(_) | StoreError::Away(_) => S3ErrorCode::ServiceUnavailable,
        StoreError::Unsupported(_) => S3ErrorCode::NotImplemented,
        StoreError::Refused { status, code, .. } => {
            let code = S3ErrorCode::from_bytes(code.as_bytes()).unwrap_or(S3ErrorCode::InternalError);
            let mut error = refuse(code, why);
            error.set_status_code(StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY));
            return error;
        }
        StoreError::Full(_) => {
            return custom("InsufficientStorage", StatusCode::INSUFFICIENT_STORAGE, why);
        }
        StoreError::Damaged { .. } | StoreError::Io { .. } | StoreError::Unusable(_) => {
            S3ErrorCode::InternalError
        }
    };
    refuse(code, why)
}

impl From<Stopped> for S3Error {
    fn from(stopped: Stopped) -> Self {
        later(stopped.to_string())
    }
}
