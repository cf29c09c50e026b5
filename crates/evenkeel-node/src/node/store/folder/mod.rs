//! A store in a folder of the machine.
//!
//! | in the folder | what it is |
//! |---|---|
//! | `format` | the version of all this |
//! | `lock` | locked by the process that has the store open |
//! | `index.redb` | the index: a row for each object, and the bytes of small ones |
//! | `blobs/xx/…` | the bytes of the others: blocks, with a CRC-32C for each |
//!
//! A write is acknowledged when its file, the file's name and its row are on the disk. Writes that arrive together share
//! the syncs of names and rows: one thread makes all changes of the index, and takes whatever has gathered meanwhile.
//! Every byte that is read is compared with its checksum.

mod blob;
mod disk;
mod engine;
mod hex;
mod index;
mod rows;
#[cfg(test)]
pub(crate) mod tests;

use std::fmt;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use md5::{Digest, Md5};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::{
    Attributes, Bucket, Checksum, Chosen, Condition, Entry, Incoming, Listing, Outgoing, Part, Scrub,
    Selection, Store, StoreError, Upload, Usage,
};
use blob::{BATCH, Fresh, Reading, Writing};
use engine::{Engine, Now, holds};
use index::{Change, Done, NewObject};

/// Changes of a transaction, and bytes that they bring into the index.
const MOST_CHANGES: usize = 1024;
const MOST_CHANGED_BYTES: usize = 8 << 20;
/// Threads that read, and as many that write. Others wait.
const MOST_JOBS: usize = 64;
/// How often it is seen whether uploads are to be given up.
const EXPIRY: Duration = Duration::from_hours(1);
/// The scrub lets others go first whenever it has read so much.
const SCRUB_STEP: u64 = 8 << 20;

/// Tells the thread that removes files to end; no file has this number.
const END: u64 = u64::MAX;

/// How a folder is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Objects of at most so many bytes are kept in the index.
    pub inline_bytes: usize,
    /// Uploads that have been unfinished for so long are given up.
    pub give_up_uploads_after: Duration,
    /// Every part of an upload but the last has so many bytes.
    pub least_part_bytes: u64,
    /// Memory for parts of the index.
    pub cache_bytes: usize,
    /// Bytes of the disk that writes leave free, so that there is always room to delete.
    pub reserve_bytes: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            inline_bytes: 64 << 10,
            give_up_uploads_after: Duration::from_hours(168),
            least_part_bytes: 5 << 20,
            cache_bytes: 48 << 20,
            reserve_bytes: 32 << 20,
        }
    }
}

/// A store in a folder. Dropping it finishes what was accepted and closes it.
pub struct Folder {
    engine: Arc<Engine>,
    reads: Jobs,
    writes: Jobs,
    hands: Hands,
}

/// Who changes the index and removes files.
enum Hands {
    /// A thread each; `None` when the store is being closed.
    Threads {
        changes: Option<mpsc::Sender<Asked>>,
        writer: Option<JoinHandle<()>>,
        remover: Option<JoinHandle<()>>,
    },
    /// Tasks of the runtime, one after the other: in simulations. With the files that are to be removed.
    #[cfg(test)]
    Tasks(Arc<std::sync::Mutex<mpsc::Receiver<u64>>>),
}

/// What reads or writes files, at most so much of it at a time.
#[derive(Clone)]
struct Jobs {
    permits: Arc<Semaphore>,
    #[cfg(test)]
    are_tasks: bool,
}

/// A change, and who waits for it.
struct Asked {
    change: Change,
    answer: oneshot::Sender<Result<Done, StoreError>>,
}

impl fmt::Debug for Folder {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.debug_struct("Folder").field("engine", &self.engine).finish_non_exhaustive()
    }
}

impl Folder {
    /// Opens the store in this folder, or makes it. Blocks, for as long as it takes to verify the index after a crash.
    pub fn open(folder: &Path, options: Options) -> Result<Self, StoreError> {
        let disk = Arc::new(disk::Files::open(folder)?);
        let (engine, removals) = Engine::open(disk, options)?;
        let engine = Arc::new(engine);
        let (changes, asked) = mpsc::channel();
        let start = |name: &str, run: Box<dyn FnOnce() + Send>| {
            std::thread::Builder::new()
                .name(name.to_owned())
                .spawn(run)
                .map_err(|error| StoreError::Io { what: "start a thread".into(), error })
        };
        let own = Arc::clone(&engine);
        let writer = start("store-writer", Box::new(move || write(&own, &asked)))?;
        let own = Arc::clone(&engine);
        let remove = move || {
            removals.iter().take_while(|number| *number != END).for_each(|number| own.remove(number));
        };
        let remover = start("store-remover", Box::new(remove))?;
        let hands = Hands::Threads { changes: Some(changes), writer: Some(writer), remover: Some(remover) };
        Ok(Self { engine, reads: Jobs::new(), writes: Jobs::new(), hands })
    }

    /// Has a change made.
    async fn change(&self, change: Change) -> Result<Done, StoreError> {
        let gone = || StoreError::Closed("the thread that writes the index has ended".into());
        let changes = match &self.hands {
            Hands::Threads { changes, .. } => changes.as_ref().ok_or_else(gone)?,
            #[cfg(test)]
            Hands::Tasks(removals) => return tests::change(&self.engine, removals, change).await,
        };
        let (answer, answered) = oneshot::channel();
        changes.send(Asked { change, answer }).map_err(|_| gone())?;
        match answered.await {
            Ok(result) => result,
            Err(_) => self.engine.is_open().and(Err(gone())),
        }
    }

    async fn read<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Arc<Engine>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let permit = self.reads.turn().await?;
        let engine = Arc::clone(&self.engine);
        joined(self.reads.spawn(permit, move || job(&engine)).await)
    }

    /// Takes in the bytes of an object: few of them into memory, more of them to the disk.
    async fn take_in(&self, mut body: Incoming) -> Result<NewObject, StoreError> {
        self.engine.is_open()?;
        let (mut chunks, mut n, mut has_ended) = (Vec::new(), 0, false);
        while n <= self.engine.options().inline_bytes {
            match body.bytes.next().await.transpose()? {
                Some(chunk) if chunk.is_empty() => {}
                Some(chunk) => {
                    n += chunk.len();
                    chunks.push(chunk);
                }
                None => {
                    has_ended = true;
                    break;
                }
            }
        }
        let (data, bytes, etag) = if has_ended {
            let bytes = joined_bytes(chunks, n);
            let etag = hex::encode(&Md5::digest(&bytes));
            (Fresh::Inline(bytes), n as u64, etag)
        } else {
            self.take_in_file(&mut body, chunks).await?
        };
        if let Some(promised) = body.size.filter(|promised| *promised != bytes) {
            return Err(StoreError::BadBody(format!("{promised} bytes were announced, and {bytes} came")));
        }
        Ok(NewObject { data, bytes, etag, checksum: body.checksum.get().cloned() })
    }

    /// Writes a batch while the next one arrives.
    async fn take_in_file(
        &self,
        body: &mut Incoming,
        mut batch: Vec<Bytes>,
    ) -> Result<(Fresh, u64, String), StoreError> {
        let mut writing = Writing::new(&self.engine);
        loop {
            let permit = self.writes.turn().await?;
            let job = self.writes.spawn(permit, move || {
                writing.append(&batch)?;
                Ok(writing)
            });
            let mut next = Vec::new();
            let mut n = 0;
            while n < BATCH as usize {
                match body.bytes.next().await.transpose()? {
                    Some(chunk) => {
                        n += chunk.len();
                        next.push(chunk);
                    }
                    None => break,
                }
            }
            writing = joined(job.await)?;
            if n < BATCH as usize {
                let permit = self.writes.turn().await?;
                let job = self.writes.spawn(permit, move || {
                    writing.append(&next)?;
                    writing.finish()
                });
                return joined(job.await);
            }
            batch = next;
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let (changes, writer, remover) = match &mut self.hands {
            Hands::Threads { changes, writer, remover } => (changes, writer, remover),
            #[cfg(test)]
            Hands::Tasks(_) => return,
        };
        // The writer ends after it has made what was asked of it, the remover after it has removed what that freed.
        *changes = None;
        if let Some(thread) = writer.take() {
            let _ = thread.join();
        }
        let _ = self.engine.trash().send(END);
        if let Some(thread) = remover.take() {
            let _ = thread.join();
        }
    }
}

/// Makes all changes: those that wait, in one transaction.
fn write(engine: &Engine, asked: &mpsc::Receiver<Asked>) {
    loop {
        let first = match asked.recv_timeout(EXPIRY) {
            Ok(first) => first,
            Err(mpsc::RecvTimeoutError::Timeout) => {
                // It is tried again in an hour.
                let _ = engine.expire();
                continue;
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => return,
        };
        let mut bytes = first.change.inline_bytes();
        let (mut changes, mut answers) = (vec![first.change], vec![first.answer]);
        while changes.len() < MOST_CHANGES && bytes < MOST_CHANGED_BYTES {
            let Ok(next) = asked.try_recv() else { break };
            bytes += next.change.inline_bytes();
            changes.push(next.change);
            answers.push(next.answer);
        }
        for (answer, done) in answers.into_iter().zip(engine.commit(changes)) {
            // Who has gone needs no answer.
            drop(answer.send(done));
        }
    }
}

impl Jobs {
    fn new() -> Self {
        Self {
            permits: Arc::new(Semaphore::new(MOST_JOBS)),
            #[cfg(test)]
            are_tasks: false,
        }
    }

    async fn turn(&self) -> Result<OwnedSemaphorePermit, StoreError> {
        // It is never closed.
        let permit = Arc::clone(&self.permits).acquire_owned().await;
        permit.map_err(|_| StoreError::Closed("it is being closed".into()))
    }

    #[cfg_attr(not(test), allow(clippy::unused_self))] // simulations have tasks instead of threads
    fn spawn<T: Send + 'static>(
        &self,
        permit: OwnedSemaphorePermit,
        job: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
    ) -> tokio::task::JoinHandle<Result<T, StoreError>> {
        let job = move || {
            let result = job();
            drop(permit);
            result
        };
        #[cfg(test)]
        if self.are_tasks {
            return tokio::spawn(async { job() });
        }
        tokio::task::spawn_blocking(job)
    }
}

fn joined<T>(result: Result<Result<T, StoreError>, tokio::task::JoinError>) -> Result<T, StoreError> {
    result.unwrap_or_else(|error| {
        if error.is_panic() {
            let why = "it contradicts itself; start the node again to have it verified".into();
            Err(StoreError::Damaged { what: "the index".into(), why })
        } else {
            Err(StoreError::Closed("the process is ending".into()))
        }
    })
}

/// One piece of memory for all.
fn joined_bytes(mut chunks: Vec<Bytes>, n: usize) -> Bytes {
    // A single one may be a small part of a large buffer, which would live as long.
    if chunks.len() == 1 && n >= BATCH as usize / 4 {
        return chunks.swap_remove(0);
    }
    let mut all = BytesMut::with_capacity(n);
    chunks.iter().for_each(|chunk| all.extend_from_slice(chunk));
    all.freeze()
}

fn io_error(what: String, error: io::Error) -> StoreError {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            StoreError::Full(format!("{what}: {error}; delete objects or enlarge the disk"))
        }
        _ => StoreError::Io { what, error },
    }
}

fn unexpected(done: &Done) -> StoreError {
    StoreError::Closed(format!("the index answered {done:?}"))
}

/// The bytes of an object, one step read ahead of the one that is being sent.
fn outgoing(reading: Reading, reads: Jobs) -> Outgoing {
    enum Next {
        /// Not begun.
        Waits(Reading),
        Comes(tokio::task::JoinHandle<Result<(Reading, Bytes), StoreError>>),
        Nothing,
    }
    let step = |mut reading: Reading| {
        move || {
            let bytes = reading.read()?;
            Ok((reading, bytes))
        }
    };
    let stream =
        futures_util::stream::unfold((Next::Waits(reading), reads), move |(next, reads)| async move {
            let result = match next {
                Next::Nothing => return None,
                Next::Comes(job) => joined(job.await),
                Next::Waits(reading) if reading.is_done() => return None,
                Next::Waits(reading) => match reads.turn().await {
                    Ok(permit) => joined(reads.spawn(permit, step(reading)).await),
                    Err(error) => Err(error),
                },
            };
            Some(match result {
                Err(error) => (Err(error), (Next::Nothing, reads)),
                Ok((reading, bytes)) if reading.is_done() => (Ok(bytes), (Next::Nothing, reads)),
                Ok((reading, bytes)) => {
                    let next = match Arc::clone(&reads.permits).try_acquire_owned() {
                        Ok(permit) => Next::Comes(reads.spawn(permit, step(reading))),
                        Err(_) => Next::Waits(reading),
                    };
                    (Ok(bytes), (next, reads))
                }
            })
        });
    stream.boxed()
}

#[async_trait]
impl Store for Folder {
    async fn buckets(&self) -> Result<Vec<Bucket>, StoreError> {
        self.read(|engine| engine.index().buckets()).await
    }

    async fn create_bucket(&self, bucket: &str) -> Result<(), StoreError> {
        self.change(Change::CreateBucket { bucket: bucket.to_owned() }).await.map(drop)
    }

    async fn delete_bucket(&self, bucket: &str) -> Result<(), StoreError> {
        self.change(Change::DeleteBucket { bucket: bucket.to_owned() }).await.map(drop)
    }

    async fn list(&self, bucket: &str, what: &Selection) -> Result<Listing, StoreError> {
        let (bucket, what) = (bucket.to_owned(), what.clone());
        self.read(move |engine| engine.index().list(&bucket, &what)).await
    }

    async fn head(&self, bucket: &str, key: &str) -> Result<Entry, StoreError> {
        let (bucket, key) = (bucket.to_owned(), key.to_owned());
        self.read(move |engine| engine.index().entry(&bucket, &key)).await
    }

    async fn get(
        &self,
        bucket: &str,
        key: &str,
        _likely: Option<Range<u64>>,
        range: &(dyn for<'a> Fn(&'a Entry) -> Result<Range<u64>, StoreError> + Send + Sync),
    ) -> Result<(Entry, Outgoing), StoreError> {
        let (bucket, key) = (bucket.to_owned(), key.to_owned());
        let (entry, pinned) = self.read(move |engine| engine.object(&bucket, &key)).await?;
        let range = range(&entry)?;
        let start = range.start.min(entry.bytes);
        let bytes = range.end.min(entry.bytes).saturating_sub(start);
        let reading = Reading::new(pinned, start, bytes);
        Ok((entry, outgoing(reading, self.reads.clone())))
    }

    async fn put(
        &self,
        bucket: &str,
        key: &str,
        attributes: Attributes,
        body: Incoming,
        condition: Condition,
    ) -> Result<Entry, StoreError> {
        let (bucket, key) = (bucket.to_owned(), key.to_owned());
        if body.size.is_none_or(|bytes| bytes > self.engine.options().inline_bytes as u64) {
            // What is refused in the end is better refused before the bytes come.
            let (bucket, key, condition) = (bucket.clone(), key.clone(), condition.clone());
            self.read(move |engine| match engine.index().entry(&bucket, &key) {
                Ok(entry) => holds(&condition, &key, Now::Object(&entry)),
                Err(StoreError::NoSuchKey(_)) => holds(&condition, &key, Now::Nothing),
                Err(StoreError::Damaged { .. }) => Ok(()),
                Err(error) => Err(error),
            })
            .await?;
        }
        let new = self.take_in(body).await?;
        match self.change(Change::Put { bucket, key, attributes, new, condition }).await? {
            Done::Entry(entry) => Ok(entry),
            other => Err(unexpected(&other)),
        }
    }

    async fn delete(&self, bucket: &str, key: &str, condition: Condition) -> Result<(), StoreError> {
        let (bucket, key) = (bucket.to_owned(), key.to_owned());
        self.change(Change::Delete { bucket, key, condition }).await.map(drop)
    }

    async fn copy(
        &self,
        from: (&str, &str),
        version: u64,
        to: (&str, &str),
        attributes: Option<Attributes>,
        condition: Condition,
    ) -> Result<Entry, StoreError> {
        let owned = |(bucket, key): (&str, &str)| (bucket.to_owned(), key.to_owned());
        let change = Change::Copy { from: owned(from), version, to: owned(to), attributes, condition };
        match self.change(change).await? {
            Done::Entry(entry) => Ok(entry),
            other => Err(unexpected(&other)),
        }
    }

    async fn start_upload(
        &self,
        bucket: &str,
        key: &str,
        attributes: Attributes,
    ) -> Result<Upload, StoreError> {
        let (bucket, key) = (bucket.to_owned(), key.to_owned());
        match self.change(Change::StartUpload { bucket, key, attributes }).await? {
            Done::Upload(upload) => Ok(upload),
            other => Err(unexpected(&other)),
        }
    }

    async fn put_part(
        &self,
        bucket: &str,
        key: &str,
        upload: &str,
        number: u32,
        body: Incoming,
    ) -> Result<Part, StoreError> {
        let (bucket, key, upload) = (bucket.to_owned(), key.to_owned(), upload.to_owned());
        {
            let (bucket, key, upload) = (bucket.clone(), key.clone(), upload.clone());
            self.read(move |engine| engine.index().need_upload(&bucket, &key, &upload)).await?;
        }
        let new = self.take_in(body).await?;
        match self.change(Change::PutPart { bucket, key, upload, number, new }).await? {
            Done::Part(part) => Ok(part),
            other => Err(unexpected(&other)),
        }
    }

    async fn parts(
        &self,
        bucket: &str,
        key: &str,
        upload: &str,
        after: u32,
        limit: usize,
    ) -> Result<(Vec<Part>, bool), StoreError> {
        let (bucket, key, upload) = (bucket.to_owned(), key.to_owned(), upload.to_owned());
        self.read(move |engine| engine.index().parts((&bucket, &key, &upload), after, limit)).await
    }

    async fn complete_upload(
        &self,
        bucket: &str,
        key: &str,
        upload: &str,
        parts: &[Chosen],
        checksum: Option<Checksum>,
        condition: Condition,
    ) -> Result<Entry, StoreError> {
        let change = Change::Complete {
            bucket: bucket.to_owned(),
            key: key.to_owned(),
            upload: upload.to_owned(),
            parts: parts.to_vec(),
            checksum,
            condition,
        };
        match self.change(change).await? {
            Done::Entry(entry) => Ok(entry),
            other => Err(unexpected(&other)),
        }
    }

    async fn abort_upload(&self, bucket: &str, key: &str, upload: &str) -> Result<(), StoreError> {
        let (bucket, key, upload) = (bucket.to_owned(), key.to_owned(), upload.to_owned());
        self.change(Change::Abort { bucket, key, upload }).await.map(drop)
    }

    async fn uploads(&self, bucket: &str, prefix: &str) -> Result<Vec<Upload>, StoreError> {
        let (bucket, prefix) = (bucket.to_owned(), prefix.to_owned());
        self.read(move |engine| engine.index().uploads(&bucket, &prefix)).await
    }

    async fn usage(&self) -> Result<Option<Usage>, StoreError> {
        self.read(|engine| engine.usage()).await.map(Some)
    }

    async fn scrub(&self) -> Result<Scrub, StoreError> {
        let engine = Arc::clone(&self.engine);
        // No permit: it takes long, and is one thread.
        let job = tokio::task::spawn_blocking(move || {
            let mut since = 0;
            engine.scrub(|bytes| {
                since += bytes;
                if since >= SCRUB_STEP {
                    since = 0;
                    std::thread::sleep(Duration::from_millis(1));
                }
                Ok(())
            })
        });
        joined(job.await)
    }
}
