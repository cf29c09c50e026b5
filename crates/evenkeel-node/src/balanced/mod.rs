//! Mirrors of the same objects below any program that reads through [`object_store`].

mod reads;

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::future::{self, BoxFuture};
use futures_util::stream::{self, BoxStream};
use futures_util::{FutureExt, StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{
    Attributes, CopyOptions, Error, Extensions, GetOptions, GetRange, GetResult, GetResultPayload,
    ListResult, MultipartUpload, ObjectMeta, ObjectStore, PutMultipartOptions, PutOptions, PutPayload,
    PutResult, Result,
};
use tokio::sync::SetOnce;
use tokio::time::timeout;

use reads::{Job, Reads, What};

/// How to read from mirrors.
#[derive(Clone, Debug)]
pub struct BalancedOptions {
    /// How many requests each mirror serves at once.
    pub slots: u32,
    /// The most bytes that are asked for at once. What is larger is read in pieces, from several mirrors.
    pub piece_bytes: u64,
    /// How long to wait for a mirror that is silent, and for one to come back.
    pub patience: Duration,
}

impl Default for BalancedOptions {
    fn default() -> Self {
        Self { slots: 8, piece_bytes: 4 << 20, patience: Duration::from_secs(20) }
    }
}

/// What a mirror has done so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MirrorReport {
    /// Its name.
    pub name: String,
    /// Bytes received from it.
    pub bytes: u64,
    /// Requests that it did not answer as it should.
    pub n_failures: u64,
    /// The last of these failures.
    pub last_error: Option<String>,
}

/// Several mirrors of the same objects as one store that reads.
///
/// Each request goes to the mirror that the executor chooses: the one that is likely to be done first, by what is known
/// about their speeds. A request that is late is sent to another mirror, too, within a twentieth of all bytes. What a
/// mirror fails to send comes from the others. Objects larger than a piece are read from several mirrors at once.
///
/// A mirror is used for an object only as long as it has the same size there, and the same entity tag where tags are
/// MD5s; the caller vouches for the rest. Listings come from the first mirror that can be listed. Writes are refused:
/// they go to the mirrors themselves.
///
/// ```
/// use std::sync::Arc;
/// use evenkeel_node::Balanced;
/// use object_store::memory::InMemory;
/// use object_store::{ObjectStore, ObjectStoreExt};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> object_store::Result<()> {
/// let (east, west) = (InMemory::new(), InMemory::new());
/// for mirror in [&east, &west] {
///     mirror.put(&"data.parquet".into(), "many rows".into()).await?;
/// }
/// let mirrors: Vec<(String, Arc<dyn ObjectStore>)> =
///     vec![("east".into(), Arc::new(east)), ("west".into(), Arc::new(west))];
/// let store = Balanced::new(mirrors, &Default::default())?;
/// assert_eq!(store.get_range(&"data.parquet".into(), 5..9).await?, "rows");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Balanced {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    mirrors: Vec<Arc<dyn ObjectStore>>,
    reads: Reads,
    options: BalancedOptions,
}

impl Balanced {
    /// A store over mirrors, each with a name for reports. Call it in a Tokio runtime, where reads are then driven.
    pub fn new(mirrors: Vec<(String, Arc<dyn ObjectStore>)>, options: &BalancedOptions) -> Result<Self> {
        let (names, mirrors): (Vec<String>, Vec<Arc<dyn ObjectStore>>) = mirrors.into_iter().unzip();
        if mirrors.is_empty() {
            return Err(failure("there is no mirror; give at least one"));
        }
        let options = BalancedOptions { piece_bytes: options.piece_bytes.max(1), ..options.clone() };
        let reads = Reads::start(names, mirrors.clone(), &options)?;
        Ok(Self { inner: Arc::new(Inner { mirrors, reads, options }) })
    }

    /// What each mirror has done so far.
    pub fn reports(&self) -> Vec<MirrorReport> {
        self.inner.reads.reports()
    }
}

impl fmt::Display for Balanced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mirrors: Vec<String> = self.inner.mirrors.iter().map(ToString::to_string).collect();
        write!(f, "Balanced({})", mirrors.join(", "))
    }
}

/// An error of this store.
fn failure(what: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::Generic { store: "Balanced", source: what.into() }
}

fn read_only() -> Error {
    Error::NotSupported { source: "a balanced store only reads; write to the mirrors themselves".into() }
}

/// One call of `get`: all its pieces are of the same version.
#[derive(Clone, Debug)]
struct Get {
    inner: Arc<Inner>,
    location: Path,
    /// Without a range.
    options: GetOptions,
    version: Arc<Version>,
}

/// What is known about the version that is read.
#[derive(Debug, Default)]
struct Version {
    /// What the first mirror to answer says about it.
    described: SetOnce<(ObjectMeta, Attributes)>,
    /// The tag at each mirror.
    tags: Mutex<Vec<(usize, Option<String>)>>,
}

impl Version {
    /// Whether a mirror has the same version as those before it, as far as one can tell.
    fn is_same(&self, mirror: usize, found: &GetResult) -> bool {
        let mut tags = lock(&self.tags);
        let GetResult { meta, attributes, .. } = found;
        if self.described.get().is_some_and(|(known, _)| known.size != meta.size) {
            return false;
        }
        if let Some(md5) = md5_of(meta.e_tag.as_deref())
            && tags.iter().find_map(|(_, tag)| md5_of(tag.as_deref())).is_some_and(|known| known != md5)
        {
            return false;
        }
        if let Some((_, tag)) = tags.iter().find(|(other, _)| *other == mirror) {
            return *tag == meta.e_tag;
        }
        tags.push((mirror, meta.e_tag.clone()));
        // The first description stays.
        let _ = self.described.set((meta.clone(), attributes.clone()));
        true
    }
}

/// The MD5 of an object, if that is what its entity tag is.
fn md5_of(tag: Option<&str>) -> Option<&str> {
    let tag = tag?.trim_matches('"');
    (tag.len() == 32 && tag.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(tag)
}

impl Get {
    fn read(&self, what: What) -> BoxFuture<'static, Result<Bytes>> {
        let job = Job::new(self.location.clone(), self.options.clone(), what, Arc::clone(&self.version));
        let inner = Arc::clone(&self.inner);
        async move { inner.reads.read(job).await }.boxed()
    }

    /// The bytes of a range of an object whose size is known, in pieces that are read ahead. The first one may have been
    /// asked for already.
    fn pieces(
        self,
        first: Option<BoxFuture<'static, Result<Bytes>>>,
        rest: Range<u64>,
    ) -> BoxStream<'static, Result<Bytes>> {
        let piece = self.inner.options.piece_bytes;
        let n_ahead = (2 * self.inner.mirrors.len()).min(16);
        let starts = (rest.start..rest.end).step_by(usize::try_from(piece).unwrap_or(usize::MAX));
        let reads =
            starts.map(move |start| self.read(What::Range(start..start.saturating_add(piece).min(rest.end))));
        stream::iter(first.into_iter().chain(reads)).buffered(n_ahead).boxed()
    }
}

#[async_trait]
impl ObjectStore for Balanced {
    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let plain = GetOptions { range: None, head: false, ..options.clone() };
        let (inner, version) = (Arc::clone(&self.inner), Arc::default());
        let get = Get { inner, location: location.clone(), options: plain, version };
        // A range whose end is known can be asked for at once. Anything else depends on the size.
        let (first, first_bytes) = match &options.range {
            Some(GetRange::Bounded(range)) if !options.head => {
                if range.is_empty() {
                    return Err(failure(format!("the range {}..{} is empty", range.start, range.end)));
                }
                let bytes = (range.end - range.start).min(self.inner.options.piece_bytes);
                let mut first = get.read(What::Range(range.start..range.start + bytes));
                // The first answer tells the size, and then the rest need not wait for the first piece.
                let first = tokio::select! {
                    biased;
                    piece = &mut first => future::ready(Ok(piece?)).boxed(),
                    _ = get.version.described.wait() => first,
                };
                (Some(first), bytes)
            }
            _ => {
                get.read(What::Head).await?;
                (None, 0)
            }
        };
        let (meta, attributes) = get.version.described.wait().await.clone();
        let size = meta.size;
        let range = match options.range {
            None => 0..size,
            Some(_) if options.head => 0..size,
            Some(GetRange::Bounded(range)) => range.start..range.end.min(size),
            Some(GetRange::Offset(from)) if from >= size => {
                return Err(failure(format!("{location} has {size} bytes, and none from {from} on")));
            }
            Some(GetRange::Offset(from)) => from..size,
            Some(GetRange::Suffix(bytes)) => size.saturating_sub(bytes)..size,
        };
        let payload = if options.head {
            stream::empty().boxed()
        } else {
            get.pieces(first, range.start + first_bytes..range.end)
        };
        Ok(GetResult {
            payload: GetResultPayload::Stream(payload),
            meta,
            range,
            attributes,
            extensions: Extensions::default(),
        })
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let (inner, prefix) = (Arc::clone(&self.inner), prefix.cloned());
        let first_that_works = async move {
            let mut last_error = None;
            for mirror in &inner.mirrors {
                let mut listing = mirror.list(prefix.as_ref());
                match timeout(inner.options.patience, listing.next()).await {
                    Ok(Some(Err(error))) => last_error = Some(error),
                    Ok(first) => return Ok(stream::iter(first).chain(listing)),
                    Err(_) => last_error = Some(failure("a mirror does not answer")),
                }
            }
            Err(last_error.unwrap_or_else(|| failure("there is no mirror")))
        };
        stream::once(first_that_works).try_flatten().boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let mut last_error = None;
        for mirror in &self.inner.mirrors {
            match timeout(self.inner.options.patience, mirror.list_with_delimiter(prefix)).await {
                Ok(Ok(listing)) => return Ok(listing),
                Ok(Err(error)) => last_error = Some(error),
                Err(_) => last_error = Some(failure("a mirror does not answer")),
            }
        }
        Err(last_error.unwrap_or_else(|| failure("there is no mirror")))
    }

    async fn put_opts(&self, _: &Path, _: PutPayload, _: PutOptions) -> Result<PutResult> {
        Err(read_only())
    }

    async fn put_multipart_opts(&self, _: &Path, _: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        Err(read_only())
    }

    fn delete_stream(&self, _: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        stream::iter([Err(read_only())]).boxed()
    }

    async fn copy_opts(&self, _: &Path, _: &Path, _: CopyOptions) -> Result<()> {
        Err(read_only())
    }
}

/// The value behind a lock, whatever became of those who held it.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
