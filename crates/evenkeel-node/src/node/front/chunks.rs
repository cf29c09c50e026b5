//! Bodies in chunks, as S3's clients send them if a signature or a checksum comes last.
//!
//! The crate for S3 keeps a whole chunk in memory, and some clients send all of a body in one. Chunks without signatures
//! are therefore made smaller on their way in. Those with signatures cannot be; large ones are refused.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use hyper::HeaderMap;
use hyper::body::{Body, Frame};

/// A signed chunk is not larger. Clients send 64 KiB to 1 MiB.
const MOST_CHUNK_BYTES: u64 = 16 << 20;
/// The line above a chunk is not longer.
const MOST_LINE_BYTES: usize = 1 << 10;

/// Where in a body the next byte is.
#[derive(Debug)]
enum At {
    /// In the line above a chunk.
    Line(Vec<u8>),
    /// In a chunk, before so many bytes of it.
    Chunk(u64),
    /// In the end of the line below a chunk.
    Break(u8),
    /// After the last chunk.
    End,
}

/// A body in chunks none of which is large.
#[derive(Debug)]
pub(in crate::node) struct Chunks<B> {
    body: B,
    at: At,
    is_signed: bool,
    ready: VecDeque<Bytes>,
}

/// Whether a body comes in chunks, and whether they are signed.
pub(in crate::node) fn kind(headers: &HeaderMap) -> Option<bool> {
    let kind = headers.get("x-amz-content-sha256")?.as_bytes();
    kind.starts_with(b"STREAMING-").then(|| !kind.starts_with(b"STREAMING-UNSIGNED"))
}

impl<B> Chunks<B> {
    pub(in crate::node) fn new(body: B, is_signed: bool) -> Self {
        Self { body, at: At::Line(Vec::new()), is_signed, ready: VecDeque::new() }
    }

    /// Takes what has come, and makes ready what goes on.
    fn take(&mut self, mut bytes: Bytes) -> Result<(), String> {
        while bytes.has_remaining() {
            match &mut self.at {
                At::Line(line) => {
                    let end = bytes.iter().position(|byte| *byte == b'\n');
                    line.extend_from_slice(&bytes.split_to(end.map_or(bytes.len(), |end| end + 1)));
                    if line.len() > MOST_LINE_BYTES {
                        return Err("the line above a chunk is too long".to_owned());
                    }
                    if end.is_some() {
                        self.enter()?;
                    }
                }
                At::Chunk(left) => {
                    let n = bytes.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                    let part = bytes.split_to(n);
                    *left -= n as u64;
                    let is_over = *left == 0;
                    if self.is_signed {
                        self.ready.push_back(part);
                    } else {
                        let line = format!("{:x}\r\n", part.len());
                        self.ready.extend([line.into(), part, Bytes::from_static(b"\r\n")]);
                    }
                    if is_over {
                        self.at = At::Break(2);
                    }
                }
                At::Break(left) => {
                    let byte = bytes.split_to(1);
                    if byte[0] != if *left == 2 { b'\r' } else { b'\n' } {
                        return Err("a chunk is longer than the line above it says".to_owned());
                    }
                    *left -= 1;
                    let is_over = *left == 0;
                    if self.is_signed {
                        self.ready.push_back(byte);
                    }
                    if is_over {
                        self.at = At::Line(Vec::new());
                    }
                }
                At::End => self.ready.push_back(bytes.split_to(bytes.len())),
            }
        }
        Ok(())
    }

    /// The line above a chunk is complete.
    fn enter(&mut self) -> Result<(), String> {
        let At::Line(line) = &mut self.at else { return Ok(()) };
        let line = std::mem::take(line);
        let size = line.split(|byte| matches!(byte, b';' | b'\r' | b'\n')).next().unwrap_or_default();
        let size = std::str::from_utf8(size).ok().and_then(|size| u64::from_str_radix(size, 16).ok());
        let size = size.ok_or("the line above a chunk has no size")?;
        if self.is_signed && size > MOST_CHUNK_BYTES {
            return Err(format!("a signed chunk has at most {MOST_CHUNK_BYTES} bytes"));
        }
        if self.is_signed || size == 0 {
            self.ready.push_back(line.into());
        }
        self.at = if size == 0 { At::End } else { At::Chunk(size) };
        Ok(())
    }
}

impl<B> Body for Chunks<B>
where
    B: Body<Data = Bytes, Error = Box<dyn std::error::Error + Send + Sync>> + Unpin,
{
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        loop {
            if let Some(bytes) = self.ready.pop_front() {
                return Poll::Ready(Some(Ok(Frame::data(bytes))));
            }
            match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                Some(Ok(frame)) => {
                    let Ok(bytes) = frame.into_data() else { continue };
                    if let Err(why) = self.take(bytes) {
                        return Poll::Ready(Some(Err(why.into())));
                    }
                }
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.ready.is_empty() && self.body.is_end_stream()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed(body: &[u8], is_signed: bool, step: usize) -> Result<Vec<u8>, String> {
        let mut chunks = Chunks::new((), is_signed);
        for bytes in body.chunks(step) {
            chunks.take(Bytes::copy_from_slice(bytes))?;
        }
        Ok(chunks.ready.into_iter().flatten().collect())
    }

    #[test]
    fn large_chunks_become_small_ones() {
        let body = b"b\r\nhello world\r\n3\r\nabc\r\n0\r\nx-amz-checksum-crc32:AAAA\r\n\r\n";
        let expected = "8\r\nhello wo\r\n3\r\nrld\r\n3\r\nabc\r\n0\r\nx-amz-checksum-crc32:AAAA\r\n\r\n";
        assert_eq!(passed(body, false, 11).unwrap(), expected.as_bytes());
        let signed = b"5;chunk-signature=aa\r\nhello\r\n0;chunk-signature=bb\r\n\r\n";
        for step in 1..20 {
            assert_eq!(passed(signed, true, step).unwrap(), signed);
            let small = passed(body, false, step).unwrap();
            assert!(small.ends_with(b"\r\n0\r\nx-amz-checksum-crc32:AAAA\r\n\r\n"), "{step}");
        }
    }

    #[test]
    fn what_is_malformed_is_refused() {
        for body in ["zz\r\n", "\r\n", "3\r\nabcd\r\n", "ffffffffffffffffff\r\n"] {
            assert!(passed(body.as_bytes(), false, 3).is_err(), "{body}");
        }
        assert!(passed(&[b'1'; 2000], false, 100).is_err());
        assert!(passed(b"10000000;chunk-signature=aa\r\n", true, 100).is_err());
    }
}
