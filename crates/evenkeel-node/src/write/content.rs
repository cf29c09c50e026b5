//! What is written.

use std::fmt::Debug;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use crc_fast::{CrcAlgorithm, Digest};
use evenkeel_store::{Payload, Problem, StoreError};
use futures_util::stream::{self, BoxStream};
use futures_util::{StreamExt, TryStreamExt};

/// How much of a file is read at once.
const CHUNK: u64 = 1 << 20;
/// What is not longer is kept from when its checksum is computed until it is sent.
const MOST_KEPT: u64 = 1 << 20;

/// The bytes of an object. They can be read more than once: for their checksum, and again if a server fails half-way.
pub trait Content: Debug + Send + Sync {
    /// How many there are.
    fn bytes(&self) -> u64;

    /// Reads a range of them.
    fn read(&self, range: Range<u64>) -> BoxStream<'static, io::Result<Bytes>>;
}

impl Content for Bytes {
    fn bytes(&self) -> u64 {
        self.len() as u64
    }

    fn read(&self, range: Range<u64>) -> BoxStream<'static, io::Result<Bytes>> {
        let (start, end) = (range.start.min(self.len() as u64), range.end.min(self.len() as u64));
        stream::iter([Ok(self.slice(start as usize..end as usize))]).boxed()
    }
}

/// A file, of the size that it had when it was found.
#[derive(Clone, Debug)]
pub struct FileContent {
    /// Where it is.
    pub path: PathBuf,
    /// Its size.
    pub bytes: u64,
}

impl Content for FileContent {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn read(&self, range: Range<u64>) -> BoxStream<'static, io::Result<Bytes>> {
        let path = self.path.clone();
        let begin = (None, range.start);
        let chunks = stream::try_unfold(begin, move |(file, at): (Option<Arc<File>>, u64)| {
            let (path, end) = (path.clone(), range.end);
            async move {
                if at >= end {
                    return Ok(None);
                }
                let read = move || {
                    let file = file.map_or_else(|| File::open(&path).map(Arc::new), Ok)?;
                    let mut chunk = vec![0; (end - at).min(CHUNK) as usize];
                    file.read_exact_at(&mut chunk, at).map_err(|error| match error.kind() {
                        io::ErrorKind::UnexpectedEof => io::Error::other("has become shorter"),
                        _ => error,
                    })?;
                    Ok::<_, io::Error>((file, Bytes::from(chunk)))
                };
                let (file, chunk) = tokio::task::spawn_blocking(read).await.map_err(io::Error::other)??;
                let at = at + chunk.len() as u64;
                Ok(Some((chunk, (Some(file), at))))
            }
        });
        chunks.boxed()
    }
}

/// A part of an object, ready to be sent as often as it takes.
#[derive(Debug)]
pub(super) struct Part {
    content: Arc<dyn Content>,
    range: Range<u64>,
    /// The CRC-32C of its bytes.
    pub(super) crc32c: u32,
    kept: Option<Vec<Bytes>>,
    /// Why it could not be read while it was sent.
    unreadable: Arc<OnceLock<String>>,
}

impl Part {
    /// Reads a part of an object for its checksum.
    pub(super) async fn new(content: Arc<dyn Content>, range: Range<u64>) -> Result<Self, String> {
        let (crc32c, kept) = read(content.as_ref(), range.clone()).await?;
        Ok(Self { content, range, crc32c, kept, unreadable: Arc::default() })
    }

    /// All of an object whose checksum is known.
    pub(super) fn of_known(content: Arc<dyn Content>, bytes: u64, crc32c: u32) -> Self {
        Self { content, range: 0..bytes, crc32c, kept: None, unreadable: Arc::default() }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.range.end - self.range.start
    }

    /// Its bytes, on their way.
    pub(super) fn payload(&self) -> Payload {
        let failed = |why: String| StoreError { address: "the file".to_owned(), problem: Problem::Io(why) };
        let body = if let Some(chunks) = &self.kept {
            stream::iter(chunks.clone().into_iter().map(Ok)).boxed()
        } else {
            let unreadable = Arc::clone(&self.unreadable);
            let note = move |error: io::Error| {
                let why = unreadable.get_or_init(|| error.to_string());
                failed(why.clone())
            };
            self.content.read(self.range.clone()).map_err(note).boxed()
        };
        Payload::Stream(self.bytes(), body)
    }

    /// Why it could not be read while it was sent, if that was so.
    pub(super) fn unreadable(&self) -> Option<&str> {
        self.unreadable.get().map(String::as_str)
    }
}

/// The CRC-32C of a part of an object.
pub(super) async fn crc32c(content: &dyn Content, range: Range<u64>) -> Result<u32, String> {
    read(content, range).await.map(|(crc, _)| crc)
}

/// The CRC-32C of a part, and the part itself if it is short.
async fn read(content: &dyn Content, range: Range<u64>) -> Result<(u32, Option<Vec<Bytes>>), String> {
    let expected = range.end - range.start;
    let (mut crc, mut n_bytes) = (Digest::new(CrcAlgorithm::Crc32Iscsi), 0);
    let mut kept = (expected <= MOST_KEPT).then(Vec::new);
    let mut chunks = content.read(range);
    while let Some(chunk) = chunks.try_next().await.map_err(|error| error.to_string())? {
        crc.update(&chunk);
        n_bytes += chunk.len() as u64;
        kept.iter_mut().for_each(|kept| kept.push(chunk.clone()));
    }
    if n_bytes != expected {
        return Err(format!("{n_bytes} bytes instead of {expected}"));
    }
    Ok((crc.finalize() as u32, kept))
}
