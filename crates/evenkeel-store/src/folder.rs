//! A folder of this machine, mounted or not, or a single file.

use std::fs::{self, File, Metadata};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream};
use futures_util::{FutureExt, StreamExt};
use tokio::task::spawn_blocking;

use crate::error::{Problem, StoreError};
use crate::{Body, Object, Page, Source, Unreadable};

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

    /// What is known about a file, by its path.
    pub(crate) async fn file_at(&self, path: &str) -> Result<Object, StoreError> {
        let (folder, of) = (Self::new(path), PathBuf::from(path));
        let look = move || {
            let metadata = fs::metadata(&of).map_err(|error| io_error(&of, &error))?;
            folder.object(&of, &metadata)
        };
        blocking(path, look).await
    }

    /// The next page of a listing, and what is left to list.
    fn next_page(&self, mut left: Vec<Entry>) -> Step<Page, Vec<Entry>> {
        let mut page = Page::default();
        while page.objects.len() + page.unreadable.len() < PAGE
            && let Some(entry) = left.pop()
        {
            let path = &entry.path;
            match self.look_at(&entry) {
                Ok(Found::File(object)) => page.objects.push(object),
                Ok(Found::Folder(children)) => left.extend(children),
                Ok(Found::Other) => {}
                // Without the folder itself there is no listing.
                Err(error) if *path == self.root => return Err(error),
                Err(error) => {
                    let below = path.strip_prefix(&self.root).unwrap_or(path).display();
                    let end = if path.is_dir() { "/" } else { "" };
                    page.unreadable.push(Unreadable { key: format!("{below}{end}"), error });
                }
            }
        }
        let is_end = page.objects.is_empty() && page.unreadable.is_empty();
        Ok((!is_end).then_some((page, left)))
    }

    /// What is at a path. Links are followed, unless they lead back to a folder above.
    fn look_at(&self, Entry { path, above }: &Entry) -> Result<Found, StoreError> {
        let metadata = match fs::metadata(path) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound && path.is_symlink() => {
                let problem = "the link leads to nothing; repair or remove it";
                return Err(Problem::Io(problem.to_owned()).at(path.display().to_string()));
            }
            // It was removed after its folder was listed.
            Err(error) if error.kind() == io::ErrorKind::NotFound && *path != self.root => {
                return Ok(Found::Other);
            }
            Err(error) => return Err(io_error(path, &error)),
        };
        if metadata.is_file() {
            return self.object(path, &metadata).map(Found::File);
        }
        if !metadata.is_dir() {
            return Ok(Found::Other);
        }
        let folder = Above { id: (metadata.dev(), metadata.ino()), above: above.clone() };
        if folder.is_within_itself() {
            let problem = "the link leads back to a folder above it; remove it, or leave it out";
            return Err(Problem::Io(problem.to_owned()).at(path.display().to_string()));
        }
        let (folder, at) = (Some(Arc::new(folder)), |error: io::Error| io_error(path, &error));
        let child = |entry: io::Result<fs::DirEntry>| {
            entry.map(|entry| Entry { path: entry.path(), above: folder.clone() }).map_err(at)
        };
        let children: Result<Vec<Entry>, StoreError> = fs::read_dir(path).map_err(at)?.map(child).collect();
        children.map(Found::Folder)
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

/// A path to be listed, and the folders it was found in.
#[derive(Debug)]
struct Entry {
    path: PathBuf,
    above: Option<Arc<Above>>,
}

/// A folder, by device and inode, and the folders above it.
#[derive(Debug)]
struct Above {
    id: (u64, u64),
    above: Option<Arc<Above>>,
}

impl Above {
    fn is_within_itself(&self) -> bool {
        let mut next = self.above.as_deref();
        while let Some(folder) = next {
            if folder.id == self.id {
                return true;
            }
            next = folder.above.as_deref();
        }
        false
    }
}

/// What is at a path.
enum Found {
    File(Object),
    Folder(Vec<Entry>),
    /// A device, a socket, or nothing any more.
    Other,
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
    fn servers(&self) -> Vec<String> {
        self.servers.to_vec()
    }

    fn list(&self) -> BoxStream<'_, Result<Page, StoreError>> {
        let next = move |left: Vec<Entry>| async move {
            let this = Self { servers: self.servers.clone(), root: self.root.clone() };
            blocking(&self.servers[0], move || this.next_page(left)).await
        };
        let root = Entry { path: self.root.clone(), above: None };
        stream::try_unfold(vec![root], next).boxed()
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
            // Opened and begun at once: most files are small.
            let begin = move || {
                let file = open(&opened, bytes, identity.as_deref())?;
                read_chunk(&opened, file, range)
            };
            let Some((first, rest)) = blocking(&object.address, begin).await? else {
                return Ok(stream::empty().boxed());
            };
            let next = move |(file, range): (File, Range<u64>)| {
                let path = path.clone();
                async move {
                    if range.is_empty() {
                        return Ok(None);
                    }
                    let address = path.display().to_string();
                    blocking(&address, move || read_chunk(&path, file, range)).await
                }
            };
            let first = stream::once(async { Ok(first) });
            Ok(first.chain(stream::try_unfold(rest, next)).boxed())
        }
        .boxed()
    }
}
