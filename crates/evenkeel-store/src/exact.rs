//! Bodies that are neither too long nor too short.

use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream};

use crate::error::{Problem, StoreError};

/// A body of this many bytes: more than that is damage, less is a broken connection.
pub(crate) fn exactly(
    bytes: u64,
    address: String,
    chunks: impl Stream<Item = Result<Bytes, StoreError>> + Send + Unpin + 'static,
) -> impl Stream<Item = Result<Bytes, StoreError>> + Send + 'static {
    stream::unfold(Some((chunks, bytes, address)), |state| async move {
        let (mut chunks, left, address) = state?;
        match chunks.next().await {
            Some(Ok(chunk)) if chunk.len() as u64 <= left => {
                let left = left - chunk.len() as u64;
                Some((Ok(chunk), Some((chunks, left, address))))
            }
            Some(Ok(_)) => {
                let problem = Problem::Damaged("more bytes than were asked for".to_owned());
                Some((Err(problem.at(address)), None))
            }
            Some(Err(error)) => Some((Err(error), None)),
            None if left == 0 => None,
            None => {
                let problem = Problem::Unreachable("the connection ended too early".to_owned());
                Some((Err(problem.at(address)), None))
            }
        }
    })
}
