//! Bodies on their way through the gate: each takes a slot, is counted, and is compared with what was promised of it.

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use bytes::Bytes;
use futures_util::stream::{self, BoxStream, StreamExt};
use http_body_util::StreamBody;
use hyper::body::Frame;
use hyper::header::{CONTENT_LENGTH, HeaderValue, TRANSFER_ENCODING};
use hyper::{HeaderMap, StatusCode};
use s3s::dto::StreamingBlob;
use s3s::{Body, S3Error, S3ErrorCode, S3Result};

use super::super::gate::Turn;
use super::super::store::{Checksum, Incoming, Outgoing, StoreError};
use super::checksums::{Promise, Verifier};
use super::errors::{custom, refuse};

/// What S3 takes in one request.
pub(super) const MOST_BYTES: u64 = 5 << 30;

/// Refuses headers that say nothing of the body that they announce.
pub(super) fn check_headers(headers: &HeaderMap) -> S3Result<()> {
    if !headers.contains_key(CONTENT_LENGTH) && !headers.contains_key(TRANSFER_ENCODING) {
        return Err(refuse(S3ErrorCode::MissingContentLength, "the header Content-Length is missing"));
    }
    if headers.get("content-md5").is_some_and(HeaderValue::is_empty) {
        return Err(refuse(S3ErrorCode::InvalidDigest, "Content-MD5 is empty"));
    }
    Ok(())
}

/// Why a body that was being received is not what was promised, once that shows.
#[derive(Clone, Debug, Default)]
pub(super) struct Fault(Arc<Mutex<Option<S3Error>>>);

impl Fault {
    /// The error that a client gets: that of the body if it had one.
    pub(super) fn or(&self, error: StoreError) -> S3Error {
        let fault = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        fault.unwrap_or_else(|| super::errors::told(error))
    }

    fn set(&self, error: S3Error) -> StoreError {
        let why = error.message().unwrap_or(error.code().as_str()).to_owned();
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
        StoreError::BadBody(why)
    }
}

struct Receiving<S> {
    bytes: S,
    turn: Option<Turn>,
    verifier: Verifier,
    checksum: Arc<OnceLock<Checksum>>,
    fault: Fault,
}

/// Bytes from a client or another server on their way to the store. The slot is free when the last of them has arrived:
/// the store then waits for its disk together with others.
pub(super) fn incoming<E: fmt::Display + Send + 'static>(
    bytes: BoxStream<'static, Result<Bytes, E>>,
    promise: Promise,
    turn: Option<Turn>,
) -> (Incoming, Fault) {
    let (fault, checksum) = (Fault::default(), Arc::new(OnceLock::new()));
    let size = promise.bytes;
    if let Some((algorithm, Some(value))) = &promise.checksum {
        // If it is another one in the end, nothing is kept.
        drop(checksum.set(Checksum { algorithm: algorithm.name().to_owned(), value: value.clone() }));
    }
    let state = Receiving {
        bytes,
        turn,
        verifier: Verifier::new(promise),
        checksum: Arc::clone(&checksum),
        fault: fault.clone(),
    };
    let bytes = stream::unfold(Some(state), |state| async move {
        let mut state = state?;
        match state.bytes.next().await {
            Some(Ok(chunk)) => {
                if let Some(turn) = &mut state.turn {
                    turn.pass(chunk.len() as u64).await;
                }
                state.verifier.update(&chunk);
                if state.verifier.received() > MOST_BYTES {
                    let why = "a request has at most 5 GiB; use a multipart upload";
                    return Some((Err(state.fault.set(refuse(S3ErrorCode::EntityTooLarge, why))), None));
                }
                Some((Ok(chunk), Some(state)))
            }
            Some(Err(error)) => Some((Err(state.fault.set(interrupted(&error.to_string()))), None)),
            None => {
                let Receiving { verifier, checksum, fault, turn, .. } = state;
                drop(turn);
                match verifier.finish() {
                    Ok(kept) => {
                        kept.into_iter().for_each(|kept| drop(checksum.set(kept)));
                        None
                    }
                    Err(error) => Some((Err(fault.set(error)), None)),
                }
            }
        }
    });
    (Incoming { bytes: bytes.boxed(), size, checksum }, fault)
}

/// What it means that a body ended with this error. The crate for S3 only says it in words.
fn interrupted(error: &str) -> S3Error {
    let why = format!("the body cannot be used: {error}");
    let code = if error.contains("SignatureMismatch") {
        S3ErrorCode::SignatureDoesNotMatch
    } else if error.contains("Sha256Mismatch") {
        return custom("XAmzContentSHA256Mismatch", StatusCode::BAD_REQUEST, why);
    } else if error.contains(super::super::server::TOO_SLOW) {
        S3ErrorCode::RequestTimeout
    } else {
        S3ErrorCode::IncompleteBody
    };
    refuse(code, why)
}

/// Bytes on their way to a client.
pub(super) fn outgoing(bytes: Outgoing, turn: Option<Turn>) -> StreamingBlob {
    let frames = stream::unfold((bytes, turn), |(mut bytes, mut turn)| async move {
        let chunk = bytes.next().await?;
        if let (Ok(chunk), Some(turn)) = (&chunk, &mut turn) {
            turn.pass(chunk.len() as u64).await;
        }
        Some((chunk.map(Frame::data), (bytes, turn)))
    });
    StreamingBlob::from(Body::http_body_unsync(StreamBody::new(frames)))
}
