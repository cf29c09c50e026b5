//! A folder of this machine, mounted or not, or a single file.

use std::fs::{self, File, Metadata};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream};
use futures_util::{FutureExt, StreamExt};
use tokio::task::spawn_blocking;

use crate::error::{Problem, StoreError};
use crate::{Body, Object, Source};

/// Bytes read at once.
const CHUNK: u64 = 1 << 18;
/// Files in a page of a listing.
const PAGE: usize = 1000;

/// The next item of a stream and the state after it; `None` at its end.
type Step<T, S> = Result<Option<(T, S)>, StoreError>;

/// A folder, or a single file. Its only server has the path as its name.
#[derive(Debug)]
pub struct Folder {
    servers: [String; 1],
    root: PathBuf,
}

impl Folder {
    /// The folder or file at a path.
    pub fn new(path: impl AsRef<Path>) -> Self {
        let root = path.as_ref().to_owned();
        Self { servers: [root.display().to_string()], root }
    }

    /// The next page of a listing, and what is left to list.
    fn next_page(&self, mut left: Vec<PathBuf>) -> Step<Vec<Object>, Vec<PathBuf>> {
        let mut page = Vec::new();
        while page.len() < PAGE
            && let Some(path) = left.pop()
        {
            let metadata = fs::metadata(&path).map_err(|error| io_error(&path, &error))?;
            if metadata.is_file() {
                page.push(self.object(&path, &metadata)?);
            } else if metadata.is_dir() && (path == self.root || !path.is_symlink()) {
                // A link to a folder may lead back here.
                for entry in fs::read_dir(&path).map_err(|error| io_error(&path, &error))? {
                    left.push(entry.map_err(|error| io_error(&path, &error))?.path());
                }
            }
        }
        Ok((!page.is_empty()).then_some((page, left)))
    }

    fn object(&self, path: &Path, metadata: &Metadata) -> Result<Object, StoreError> {
        let no_text = || {
            let problem = "its name is not UTF-8; rename it, or leave it out";
            Problem::Unsupported(problem.to_owned()).at(path.display().to_string())
        };
        let relative = path.strip_prefix(&self.root).ok().filter(|relative| *relative != Path::new(""));
        let key = relative.or_else(|| path.file_name().map(Path::new)).and_then(Path::to_str);
        let (key, address) = (key.ok_or_else(no_text)?, path.to_str().ok_or_else(no_text)?);
        Ok(Object::on_one_server(key.to_owned(), address.to_owned(), metadata.len(), identity(metadata)))
    }
}

/// When a file was last modified.
fn identity(metadata: &Metadata) -> Option<String> {
    let modified = metadata.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    Some(format!("{}.{:09}", modified.as_secs(), modified.subsec_nanos()))
}

fn io_error(path: &Path, error: &io::Error) -> StoreError {
    let problem = match error.kind() {
        io::ErrorKind::NotFound => Problem::NotFound,
        io::ErrorKind::PermissionDenied => Problem::Denied(error.to_string()),
        _ => Problem::Io(error.to_string()),
    };
    problem.at(path.display().to_string())
}

/// Opens a file if it is still the one that was listed.
fn open(path: &Path, bytes: u64, listed: Option<&str>) -> Result<File, StoreError> {
    let open = || File::open(path).and_then(|file| file.metadata().map(|metadata| (file, metadata)));
    let (file, metadata) = open().map_err(|error| io_error(path, &error))?;
    let is_same = metadata.len() == bytes && (listed.is_none() || identity(&metadata).as_deref() == listed);
    if is_same { Ok(file) } else { Err(Problem::Changed.at(path.display().to_string())) }
}

/// The next chunk of a range, and the rest of it.
fn read_chunk(path: &Path, file: File, range: Range<u64>) -> Step<Bytes, (File, Range<u64>)> {
    if range.is_empty() {
        return Ok(None);
    }
    let mut chunk = vec![0; (range.end - range.start).min(CHUNK) as usize];
    let problem = |error: io::Error| match error.kind() {
        io::ErrorKind::UnexpectedEof => Problem::Changed.at(path.display().to_string()),
        _ => io_error(path, &error),
    };
    file.read_exact_at(&mut chunk, range.start).map_err(problem)?;
    let rest = range.start + chunk.len() as u64..range.end;
    Ok(Some((chunk.into(), (file, rest))))
}

/// Runs what waits for a disk where it keeps nobody else waiting.
async fn blocking<T: Send + 'static>(
    address: &str,
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    match spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => Err(Problem::Io(error.to_string()).at(address)),
    }
}

impl Source for Folder {
    fn servers(&self) -> &[String] {
        &self.servers
    }

    fn list(&self) -> BoxStream<'_, Result<Vec<Object>, StoreError>> {
        let next = move |left: Vec<PathBuf>| async move {
            let this = Self { servers: self.servers.clone(), root: self.root.clone() };
            blocking(&self.servers[0], move || this.next_page(left)).await
        };
        stream::try_unfold(vec![self.root.clone()], next).boxed()
    }

    fn read<'a>(
        &'a self,
        object: &'a Object,
        _server: usize,
        range: Range<u64>,
    ) -> BoxFuture<'a, Result<Body, StoreError>> {
        async move {
            let (path, bytes) = (PathBuf::from(&object.address), object.bytes);
            let (opened, identity) = (path.clone(), object.identity.clone());
            let file = blocking(&object.address, move || open(&opened, bytes, identity.as_deref())).await?;
            let next = move |(file, range): (File, Range<u64>)| {
                let path = path.clone();
                async move {
                    let address = path.display().to_string();
                    blocking(&address, move || read_chunk(&path, file, range)).await
                }
            };
            Ok(stream::try_unfold((file, range), next).boxed())
        }
        .boxed()
    }
}
