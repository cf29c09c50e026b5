//! The index: which objects there are, and where their bytes are. One table of rows for each kind of thing, sorted by
//! name, in a database that commits transactions.
//!
//! A commit is one sync. What happens in it is decided here: conditions are looked at in the transaction that makes the
//! change, and counts change with what they count.

mod change;
mod look;

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use bytes::Bytes;
use redb::{
    Builder, Database, ReadTransaction, ReadableDatabase, ReadableTable, StorageBackend, TableDefinition,
    WriteTransaction,
};

use super::super::StoreError;
use super::disk::{Access, Disk, File};
use super::rows::{Counts, Place, Row};
use super::{Options, io_error};
pub(super) use change::{Change, Done, NewObject};
pub(super) use look::Held;

pub(super) const PATH: &str = "index.redb";

type Definition = TableDefinition<'static, &'static [u8], &'static [u8]>;

/// By name: when the bucket was made.
const BUCKETS: Definition = TableDefinition::new("buckets");
/// By bucket, NUL and key.
const OBJECTS: Definition = TableDefinition::new("objects");
/// By bucket, NUL, key, NUL and number.
const UPLOADS: Definition = TableDefinition::new("uploads");
/// By number of the upload and number of the part.
const PARTS: Definition = TableDefinition::new("parts");
/// By number: the bytes of small objects.
const INLINE: Definition = TableDefinition::new("inline");
/// By number: how many pieces name the file.
const BLOBS: Definition = TableDefinition::new("blobs");
/// One row.
const COUNTS: Definition = TableDefinition::new("counts");

/// The key of the only row of `COUNTS`.
const ONE: &[u8] = b"";

/// Why a transaction or a look at the index came to nothing.
pub(super) enum Stop {
    /// This change, or this look, is refused; the index is fine.
    Refused(StoreError),
    /// The database gave up. It has to be opened again.
    Broken(redb::Error),
}

impl From<StoreError> for Stop {
    fn from(error: StoreError) -> Self {
        Self::Refused(error)
    }
}

macro_rules! broken {
    ($($error:ty),*) => {
        $(impl From<$error> for Stop {
            fn from(error: $error) -> Self {
                Self::Broken(error.into())
            }
        })*
    };
}
broken!(redb::StorageError, redb::TableError, redb::TransactionError, redb::CommitError);

/// The index of a store.
pub(super) struct Index {
    disk: Arc<dyn Disk>,
    cache_bytes: usize,
    least_part_bytes: u64,
    database: RwLock<Arc<Opened>>,
    /// Held while the database is opened again.
    opening: Mutex<()>,
}

impl fmt::Debug for Index {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.debug_struct("Index").field("disk", &self.disk).finish_non_exhaustive()
    }
}

impl Index {
    /// Opens the index, or makes it.
    pub(super) fn open(disk: &Arc<dyn Disk>, is_new: bool, options: &Options) -> Result<Self, StoreError> {
        let name = disk.name(PATH);
        let fail = |error| StoreError::Io { what: format!("open {name}"), error };
        let file = if is_new {
            disk.create(PATH).map_err(fail)?
        } else {
            let file = match disk.open(PATH, Access::Write) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                    return Err(damaged(&name, "it is missing"));
                }
                result => result.map_err(fail)?,
            };
            if file.bytes().map_err(fail)? == 0 {
                return Err(damaged(&name, "it is empty"));
            }
            file
        };
        let database = start(Backend(file), options.cache_bytes, &name)?;
        let index = Self {
            disk: Arc::clone(disk),
            cache_bytes: options.cache_bytes,
            least_part_bytes: options.least_part_bytes,
            database: RwLock::new(Arc::new(Opened { database: Some(database), is_frozen: false })),
            opening: Mutex::default(),
        };
        if is_new {
            guarded(|| index.make_tables()).and_then(|result| result).map_err(|stop| index.explain(stop))?;
            disk.sync_folder("")
                .map_err(|error| StoreError::Io { what: format!("sync the folder of {name}"), error })?;
        }
        Ok(index)
    }

    fn make_tables(&self) -> Result<(), Stop> {
        let transaction = self.database().begin_write()?;
        for table in [BUCKETS, OBJECTS, UPLOADS, PARTS, INLINE, BLOBS] {
            transaction.open_table(table)?;
        }
        save_counts(&transaction, Counts::default())?;
        transaction.commit()?;
        Ok(())
    }

    fn database(&self) -> Arc<Opened> {
        Arc::clone(&self.database.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Opens the index again after the database gave up, for reading alone: nothing more is written to the file. It gives up
    /// once: what goes wrong then is told.
    pub(super) fn freeze(&self) -> Result<(), StoreError> {
        let _opening = self.opening.lock().unwrap_or_else(PoisonError::into_inner);
        if self.database().is_frozen {
            return Ok(());
        }
        let name = self.disk.name(PATH);
        let file =
            self.disk.open(PATH, Access::Read).map_err(|error| io_error(format!("open {name}"), error))?;
        let database = start(Frozen::over(file), self.cache_bytes, &name)?;
        let opened = Opened { database: Some(database), is_frozen: true };
        *self.database.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(opened);
        Ok(())
    }

    fn look<T>(&self, look: impl Fn(&ReadTransaction) -> Result<T, Stop>) -> Result<T, StoreError> {
        let once = || {
            let database = self.database();
            let result = guarded(|| look(&database.begin_read()?)).and_then(|result| result);
            (result, database.is_frozen)
        };
        let (mut result, is_frozen) = once();
        // The database refuses everything after the first error of the disk.
        if let Err(Stop::Broken(redb::Error::Io(_) | redb::Error::PreviousIo)) = result
            && !is_frozen
            && self.freeze().is_ok()
        {
            result = once().0;
        }
        result.map_err(|stop| self.explain(stop))
    }

    /// What to tell a client.
    pub(super) fn explain(&self, stop: Stop) -> StoreError {
        let what = self.disk.name(PATH);
        match stop {
            Stop::Refused(error) => error,
            Stop::Broken(redb::Error::Io(error)) => io_error(what, error),
            Stop::Broken(error) => StoreError::Damaged {
                what,
                why: format!("{error}; start the node again to have it verified"),
            },
        }
    }
}

/// A database that is open. Closing it may panic, too, where the index contradicts itself.
struct Opened {
    /// There until it is dropped.
    database: Option<Database>,
    /// What is written to it stays in memory: there must be no commit.
    is_frozen: bool,
}

impl Opened {
    fn begin_read(&self) -> Result<ReadTransaction, redb::TransactionError> {
        self.database.as_ref().ok_or(redb::StorageError::DatabaseClosed)?.begin_read()
    }

    fn begin_write(&self) -> Result<WriteTransaction, redb::TransactionError> {
        let writable = self.database.as_ref().filter(|_| !self.is_frozen);
        writable.ok_or(redb::StorageError::PreviousIo)?.begin_write()
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        let _ = guarded(|| drop(self.database.take()));
    }
}

/// The database believes some of what it reads before it has compared a checksum, and may panic where that is wrong.
fn guarded<T>(step: impl FnOnce() -> T) -> Result<T, Stop> {
    catch_unwind(AssertUnwindSafe(step))
        .map_err(|_| Stop::Broken(redb::Error::Corrupted("it contradicts itself".into())))
}

fn start(backend: impl StorageBackend, cache_bytes: usize, name: &str) -> Result<Database, StoreError> {
    let open = || Builder::new().set_cache_size(cache_bytes).create_with_backend(backend);
    match guarded(open) {
        Ok(Ok(database)) => Ok(database),
        Ok(Err(redb::DatabaseError::Storage(redb::StorageError::Io(error))))
            if error.kind() != std::io::ErrorKind::InvalidData
                && error.kind() != std::io::ErrorKind::UnexpectedEof =>
        {
            Err(io_error(format!("open {name}"), error))
        }
        Ok(Err(error)) => Err(damaged(name, &error.to_string())),
        Err(_) => Err(damaged(name, "it contradicts itself")),
    }
}

fn damaged(name: &str, why: &str) -> StoreError {
    StoreError::Unusable(format!(
        "the index {name} cannot be used: {why}; nothing was changed. Put a copy of the whole folder in its place, or start \
         the node with an empty folder and write its objects again"
    ))
}

/// The bytes before a bucket's keys.
fn bucket_key(bucket: &str, key: &str) -> Vec<u8> {
    [bucket.as_bytes(), b"\0", key.as_bytes()].concat()
}

fn upload_key(bucket: &str, key: &str, id: u64) -> Vec<u8> {
    [bucket.as_bytes(), b"\0", key.as_bytes(), b"\0", &id.to_be_bytes()].concat()
}

fn part_key(upload: u64, number: u32) -> [u8; 12] {
    let mut key = [0; 12];
    key[..8].copy_from_slice(&upload.to_be_bytes());
    key[8..].copy_from_slice(&number.to_be_bytes());
    key
}

/// The first key after all that begin so.
fn after_all(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            return end;
        }
    }
    // No key begins with such a byte: names are UTF-8.
    vec![u8::MAX]
}

type Rows<'a> = dyn ReadableRows + 'a;

/// A table, of a transaction of either kind.
trait ReadableRows {
    fn sealed(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Stop>;
}

impl<T: ReadableTable<&'static [u8], &'static [u8]>> ReadableRows for T {
    fn sealed(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Stop> {
        Ok(self.get(key)?.map(|row| row.value().to_vec()))
    }
}

/// Looks a row up. `name` says whose it is if it is damaged.
fn find<R: Row>(
    table: &Rows,
    definition: Definition,
    key: &[u8],
    name: impl Fn() -> String,
) -> Result<Option<R>, Stop> {
    use redb::TableHandle as _;
    let Some(sealed) = table.sealed(key)? else { return Ok(None) };
    R::unseal(definition.name(), key, &sealed).map(Some).ok_or_else(|| damaged_row(name()).into())
}

fn damaged_row(what: String) -> StoreError {
    StoreError::Damaged { what, why: "its row in the index is not what was written".into() }
}

fn counts(table: &Rows) -> Result<Counts, Stop> {
    let counts = find(table, COUNTS, ONE, || "the count of objects".into())?;
    Ok(counts.ok_or_else(|| damaged_row("the count of objects".into()))?)
}

fn save_counts(transaction: &WriteTransaction, counts: Counts) -> Result<(), Stop> {
    use redb::TableHandle as _;
    let row = counts.seal(COUNTS.name(), ONE);
    transaction.open_table(COUNTS)?.insert(ONE, row.as_slice())?;
    Ok(())
}

/// The bytes of a piece in the index.
fn inline(table: &Rows, number: u64, name: impl Fn() -> String) -> Result<Bytes, Stop> {
    let missing = || StoreError::Damaged { what: name(), why: "its bytes are missing in the index".into() };
    Ok(find(table, INLINE, &number.to_be_bytes(), &name)?.ok_or_else(missing)?)
}

/// The file of the index, as the database wants it.
#[derive(Debug)]
struct Backend(Box<dyn File>);

impl StorageBackend for Backend {
    fn len(&self) -> std::io::Result<u64> {
        self.0.bytes()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> std::io::Result<()> {
        self.0.read(offset, out)
    }

    fn set_len(&self, bytes: u64) -> std::io::Result<()> {
        self.0.set_bytes(bytes)
    }

    fn sync_data(&self) -> std::io::Result<()> {
        self.0.sync()
    }

    fn write(&self, offset: u64, data: &[u8]) -> std::io::Result<()> {
        self.0.write(offset, data)
    }
}

/// A file that is only read: what the database wants to write, to repair what a crash left, stays in memory.
#[derive(Debug)]
struct Frozen {
    file: Box<dyn File>,
    written: RwLock<Written>,
}

#[derive(Debug, Default)]
struct Written {
    bytes: Option<u64>,
    /// In the order of writing.
    pieces: Vec<(u64, Vec<u8>)>,
}

impl Frozen {
    fn over(file: Box<dyn File>) -> Self {
        Self { file, written: RwLock::default() }
    }
}

impl StorageBackend for Frozen {
    fn len(&self) -> std::io::Result<u64> {
        let bytes = self.written.read().unwrap_or_else(PoisonError::into_inner).bytes;
        bytes.map_or_else(|| self.file.bytes(), Ok)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> std::io::Result<()> {
        let end = offset + out.len() as u64;
        let in_file = self.file.bytes()?.clamp(offset, end) - offset;
        if end > self.len()? {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        let (there, behind) = out.split_at_mut(in_file as usize);
        self.file.read(offset, there)?;
        behind.fill(0);
        for (at, piece) in &self.written.read().unwrap_or_else(PoisonError::into_inner).pieces {
            let (from, to) = ((*at).max(offset), (at + piece.len() as u64).min(end));
            if from < to {
                out[(from - offset) as usize..(to - offset) as usize]
                    .copy_from_slice(&piece[(from - at) as usize..(to - at) as usize]);
            }
        }
        Ok(())
    }

    fn set_len(&self, bytes: u64) -> std::io::Result<()> {
        self.written.write().unwrap_or_else(PoisonError::into_inner).bytes = Some(bytes);
        Ok(())
    }

    fn sync_data(&self) -> std::io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> std::io::Result<()> {
        let mut written = self.written.write().unwrap_or_else(PoisonError::into_inner);
        written.pieces.retain(|(at, piece)| *at != offset || piece.len() > data.len());
        written.pieces.push((offset, data.to_vec()));
        Ok(())
    }
}

impl Place {
    /// The file, if it is one.
    pub(super) fn blob(self) -> Option<u64> {
        match self {
            Self::Blob(number) => Some(number),
            Self::Inline(_) => None,
        }
    }
}
