//! Changes of the index.

use md5::{Digest, Md5};
use redb::{ReadableTable, Table, TableHandle, WriteTransaction};

use super::{
    BLOBS, BUCKETS, COUNTS, Definition, INLINE, Index, OBJECTS, ONE, PARTS, Stop, UPLOADS, after_all,
    bucket_key, counts, damaged_row, find, guarded, inline, part_key, upload_key,
};
use crate::node::store::folder::blob::Fresh;
use crate::node::store::folder::engine::{Now, holds};
use crate::node::store::folder::hex;
use crate::node::store::folder::rows::{Counts, ObjectRow, PartRow, Piece, Place, Row, UploadRow};
use crate::node::store::{Attributes, Checksum, Chosen, Condition, Entry, Part, StoreError, Upload};

/// Longer names than S3 has.
const MOST_KEY_BYTES: usize = 4096;
const MOST_BUCKET_BYTES: usize = 255;

/// The bytes of a new object or part, and what is known of them.
#[derive(Debug)]
pub(in super::super) struct NewObject {
    pub(in super::super) data: Fresh,
    pub(in super::super) bytes: u64,
    pub(in super::super) etag: String,
    pub(in super::super) checksum: Option<Checksum>,
}

/// Something that is to become different.
#[derive(Debug)]
pub(in super::super) enum Change {
    CreateBucket {
        bucket: String,
    },
    DeleteBucket {
        bucket: String,
    },
    Put {
        bucket: String,
        key: String,
        attributes: Attributes,
        new: NewObject,
        condition: Condition,
    },
    Delete {
        bucket: String,
        key: String,
        condition: Condition,
    },
    Copy {
        from: (String, String),
        version: u64,
        to: (String, String),
        attributes: Option<Attributes>,
        condition: Condition,
    },
    StartUpload {
        bucket: String,
        key: String,
        attributes: Attributes,
    },
    PutPart {
        bucket: String,
        key: String,
        upload: String,
        number: u32,
        new: NewObject,
    },
    Complete {
        bucket: String,
        key: String,
        upload: String,
        parts: Vec<Chosen>,
        checksum: Option<Checksum>,
        condition: Condition,
    },
    Abort {
        bucket: String,
        key: String,
        upload: String,
    },
    /// Gives up the uploads that began earlier.
    Expire {
        before_ms: u64,
    },
}

impl Change {
    /// Whether it asks for room on the disk.
    pub(in super::super) fn grows(&self) -> bool {
        !matches!(
            self,
            Self::Delete { .. } | Self::DeleteBucket { .. } | Self::Abort { .. } | Self::Expire { .. }
        )
    }

    /// Bytes that it brings into the index.
    pub(in super::super) fn inline_bytes(&self) -> usize {
        match self {
            Self::Put { new: NewObject { data: Fresh::Inline(bytes), .. }, .. }
            | Self::PutPart { new: NewObject { data: Fresh::Inline(bytes), .. }, .. } => bytes.len(),
            _ => 0,
        }
    }

    /// Bytes that are on the disk already, and will be named if this succeeds.
    pub(in super::super) fn data(&mut self) -> Option<&mut Fresh> {
        match self {
            Self::Put { new, .. } | Self::PutPart { new, .. } => Some(&mut new.data),
            _ => None,
        }
    }
}

/// What became of a change.
#[derive(Debug)]
pub(in super::super) enum Done {
    Nothing,
    Entry(Entry),
    Upload(Upload),
    Part(Part),
}

/// What became of all changes of a transaction.
#[derive(Debug, Default)]
pub(in super::super) struct Outcome {
    pub(in super::super) answers: Vec<Result<Done, StoreError>>,
    /// Files that nothing names any more.
    pub(in super::super) freed: Vec<u64>,
}

/// A transaction that failed.
pub(in super::super) struct Failure {
    pub(in super::super) stop: Stop,
    is_undone: bool,
}

impl Failure {
    /// Whether nothing has changed for sure, and later transactions may succeed.
    pub(in super::super) fn is_harmless(&self) -> bool {
        self.is_undone
            && !matches!(
                self.stop,
                Stop::Broken(redb::Error::Io(_) | redb::Error::PreviousIo | redb::Error::DatabaseClosed)
            )
    }
}

impl Index {
    /// Makes changes, in this order, in one transaction. Each is made or refused for itself. When this returns, those
    /// that were made survive a loss of power. If it fails, whether they were made may show only when the store is opened
    /// again.
    pub(in super::super) fn commit(&self, changes: &mut [Change], now_ms: u64) -> Result<Outcome, Failure> {
        guarded(|| self.commit_unguarded(changes, now_ms))
            .unwrap_or_else(|stop| Err(Failure { stop, is_undone: false }))
    }

    fn commit_unguarded(&self, changes: &mut [Change], now_ms: u64) -> Result<Outcome, Failure> {
        let undone = |stop| Failure { stop, is_undone: true };
        let database = self.database();
        let transaction = database.begin_write().map_err(|error| undone(error.into()))?;
        let outcome =
            apply(Tables::of(&transaction, now_ms, self.least_part_bytes), changes).map_err(undone)?;
        if outcome.answers.iter().all(Result::is_err) {
            // Nothing has changed.
            drop(transaction);
            return Ok(outcome);
        }
        // From here on the files may be named.
        for (change, _) in changes.iter_mut().zip(&outcome.answers).filter(|(_, answer)| answer.is_ok()) {
            if let Some(data) = change.data() {
                data.keep();
            }
        }
        transaction.commit().map_err(|error| Failure { stop: error.into(), is_undone: false })?;
        Ok(outcome)
    }

    /// Counts that the store is opened once more, and returns how often it was.
    pub(in super::super) fn next_epoch(&self) -> Result<u64, StoreError> {
        guarded(|| self.next_epoch_unguarded()).and_then(|result| result).map_err(|stop| self.explain(stop))
    }

    fn next_epoch_unguarded(&self) -> Result<u64, Stop> {
        let transaction = self.database().begin_write()?;
        let mut is = counts(&transaction.open_table(COUNTS)?)?;
        is.epoch += 1;
        super::save_counts(&transaction, is)?;
        transaction.commit()?;
        Ok(is.epoch)
    }
}

fn apply(tables: Result<Tables, Stop>, changes: &[Change]) -> Result<Outcome, Stop> {
    let mut tables = tables?;
    let mut answers = Vec::with_capacity(changes.len());
    for change in changes {
        answers.push(match tables.apply(change) {
            Ok(done) => Ok(done),
            Err(Stop::Refused(error)) => Err(error),
            Err(broken) => return Err(broken),
        });
    }
    Ok(Outcome { answers, freed: tables.save()? })
}

type Open<'t> = Table<'t, &'static [u8], &'static [u8]>;

/// All tables, within a transaction. A change is refused before anything is changed, or not at all.
struct Tables<'t> {
    buckets: Open<'t>,
    objects: Open<'t>,
    uploads: Open<'t>,
    parts: Open<'t>,
    inline: Open<'t>,
    blobs: Open<'t>,
    totals: Open<'t>,
    counts: Counts,
    freed: Vec<u64>,
    now_ms: u64,
    least_part_bytes: u64,
}

impl<'t> Tables<'t> {
    fn of(transaction: &'t WriteTransaction, now_ms: u64, least_part_bytes: u64) -> Result<Self, Stop> {
        let totals = transaction.open_table(COUNTS)?;
        Ok(Self {
            buckets: transaction.open_table(BUCKETS)?,
            objects: transaction.open_table(OBJECTS)?,
            uploads: transaction.open_table(UPLOADS)?,
            parts: transaction.open_table(PARTS)?,
            inline: transaction.open_table(INLINE)?,
            blobs: transaction.open_table(BLOBS)?,
            counts: counts(&totals)?,
            totals,
            freed: Vec::new(),
            now_ms,
            least_part_bytes,
        })
    }

    /// Writes the counts and returns the files that nothing names any more.
    fn save(mut self) -> Result<Vec<u64>, Stop> {
        insert(&mut self.totals, COUNTS, ONE, &self.counts)?;
        Ok(self.freed)
    }

    fn apply(&mut self, change: &Change) -> Result<Done, Stop> {
        match change {
            Change::CreateBucket { bucket } => self.create_bucket(bucket),
            Change::DeleteBucket { bucket } => self.delete_bucket(bucket),
            Change::Put { bucket, key, attributes, new, condition } => {
                self.put(bucket, key, attributes, new, condition)
            }
            Change::Delete { bucket, key, condition } => self.delete(bucket, key, condition),
            Change::Copy { from, version, to, attributes, condition } => {
                self.copy(from, *version, to, attributes.as_ref(), condition)
            }
            Change::StartUpload { bucket, key, attributes } => self.start_upload(bucket, key, attributes),
            Change::PutPart { bucket, key, upload, number, new } => {
                self.put_part((bucket, key, upload), *number, new)
            }
            Change::Complete { bucket, key, upload, parts, checksum, condition } => {
                self.complete((bucket, key, upload), parts, checksum.as_ref(), condition)
            }
            Change::Abort { bucket, key, upload } => {
                let (at, upload) = self.upload((bucket, key, upload))?;
                self.drop_upload(&at, &upload, &[])?;
                Ok(Done::Nothing)
            }
            Change::Expire { before_ms } => self.expire(*before_ms),
        }
    }

    /// A number that was never given before.
    fn number(&mut self) -> u64 {
        self.counts.last += 1;
        self.counts.last
    }

    fn need_bucket(&self, bucket: &str) -> Result<(), Stop> {
        match self.buckets.get(bucket.as_bytes())? {
            Some(_) => Ok(()),
            None => Err(StoreError::NoSuchBucket(bucket.to_owned()).into()),
        }
    }

    /// Whether a table has a key that begins so.
    fn has_any(table: &Open, prefix: &[u8]) -> Result<bool, Stop> {
        let end = after_all(prefix);
        Ok(table.range(prefix..end.as_slice())?.next().transpose()?.is_some())
    }

    fn create_bucket(&mut self, bucket: &str) -> Result<Done, Stop> {
        if bucket.is_empty() || bucket.len() > MOST_BUCKET_BYTES || bucket.contains('\0') {
            let why =
                format!("the name of a bucket has 1 to {MOST_BUCKET_BYTES} bytes, and none of them is zero");
            return Err(StoreError::BadBody(why).into());
        }
        if self.buckets.get(bucket.as_bytes())?.is_some() {
            return Err(StoreError::BucketExists(bucket.to_owned()).into());
        }
        insert(&mut self.buckets, BUCKETS, bucket.as_bytes(), &self.now_ms)?;
        Ok(Done::Nothing)
    }

    fn delete_bucket(&mut self, bucket: &str) -> Result<Done, Stop> {
        self.need_bucket(bucket)?;
        let prefix = bucket_key(bucket, "");
        if Self::has_any(&self.objects, &prefix)? || Self::has_any(&self.uploads, &prefix)? {
            return Err(StoreError::BucketNotEmpty(bucket.to_owned()).into());
        }
        self.buckets.remove(bucket.as_bytes())?;
        Ok(Done::Nothing)
    }

    /// What is there now, if the condition holds.
    fn check(&self, bucket: &str, key: &str, condition: &Condition) -> Result<Before, Stop> {
        self.need_bucket(bucket)?;
        if key.is_empty() || key.len() > MOST_KEY_BYTES {
            let why = format!("the name of an object has 1 to {MOST_KEY_BYTES} bytes");
            return Err(StoreError::BadBody(why).into());
        }
        let found =
            find::<ObjectRow>(&self.objects, OBJECTS, &bucket_key(bucket, key), || format!("{bucket}/{key}"));
        let before = match found {
            Ok(None) => Before::Absent,
            Ok(Some(row)) => Before::There(row),
            // It can still be replaced and deleted.
            Err(Stop::Refused(_)) => Before::Damaged,
            Err(broken) => return Err(broken),
        };
        holds(condition, key, before.now())?;
        Ok(before)
    }

    fn put(
        &mut self,
        bucket: &str,
        key: &str,
        attributes: &Attributes,
        new: &NewObject,
        condition: &Condition,
    ) -> Result<Done, Stop> {
        let now = self.check(bucket, key, condition)?;
        let pieces = self.bring_in(&new.data)?;
        let entry = Entry {
            bytes: new.bytes,
            etag: new.etag.clone(),
            modified_ms: self.now_ms,
            version: self.number(),
            attributes: attributes.clone(),
            checksum: new.checksum.clone(),
            parts: Vec::new(),
        };
        self.replace(bucket, key, now, ObjectRow { entry, pieces })
    }

    /// Puts an object in the place of what was there.
    fn replace(&mut self, bucket: &str, key: &str, before: Before, row: ObjectRow) -> Result<Done, Stop> {
        insert(&mut self.objects, OBJECTS, &bucket_key(bucket, key), &row)?;
        self.counts.objects += 1;
        self.counts.bytes = self.counts.bytes.saturating_add(row.entry.bytes);
        self.forget(before)?;
        Ok(Done::Entry(row.entry))
    }

    /// Lets go of what was there.
    fn forget(&mut self, before: Before) -> Result<(), Stop> {
        match before {
            Before::Absent => {}
            // What it named is not known, nor how much it was.
            Before::Damaged => self.counts.objects = self.counts.objects.saturating_sub(1),
            Before::There(row) => {
                self.counts.objects = self.counts.objects.saturating_sub(1);
                self.counts.bytes = self.counts.bytes.saturating_sub(row.entry.bytes);
                self.release(&row.pieces)?;
            }
        }
        Ok(())
    }

    fn delete(&mut self, bucket: &str, key: &str, condition: &Condition) -> Result<Done, Stop> {
        let now = self.check(bucket, key, condition)?;
        if !matches!(now, Before::Absent) {
            self.objects.remove(bucket_key(bucket, key).as_slice())?;
            self.forget(now)?;
        }
        Ok(Done::Nothing)
    }

    fn copy(
        &mut self,
        (from_bucket, from_key): &(String, String),
        version: u64,
        (bucket, key): &(String, String),
        attributes: Option<&Attributes>,
        condition: &Condition,
    ) -> Result<Done, Stop> {
        self.need_bucket(from_bucket)?;
        let name = || format!("{from_bucket}/{from_key}");
        let Some(ObjectRow { mut entry, mut pieces }) =
            find(&self.objects, OBJECTS, &bucket_key(from_bucket, from_key), name)?
        else {
            return Err(StoreError::NoSuchKey(from_key.clone()).into());
        };
        if entry.version != version {
            let why = format!("{} was replaced meanwhile", name());
            return Err(StoreError::Precondition(why).into());
        }
        let now = self.check(bucket, key, condition)?;
        // Small pieces are copied, files are shared.
        let mut small = Vec::new();
        for piece in &pieces {
            small.push(match piece.place {
                Place::Inline(number) => Some(inline(&self.inline, number, name)?),
                Place::Blob(number) => {
                    self.names(number)?;
                    None
                }
            });
        }
        for (piece, small) in pieces.iter_mut().zip(small) {
            match (small, piece.place) {
                (Some(bytes), _) => piece.place = self.insert_inline(&bytes)?,
                (None, Place::Blob(number)) => self.add_name(number)?,
                (None, Place::Inline(_)) => {}
            }
        }
        entry.version = self.number();
        entry.modified_ms = self.now_ms;
        if let Some(attributes) = attributes {
            entry.attributes.clone_from(attributes);
        }
        self.replace(bucket, key, now, ObjectRow { entry, pieces })
    }

    fn start_upload(&mut self, bucket: &str, key: &str, attributes: &Attributes) -> Result<Done, Stop> {
        self.check(bucket, key, &Condition::Always)?;
        let id = self.number();
        let row =
            UploadRow { key: key.to_owned(), id, started_ms: self.now_ms, attributes: attributes.clone() };
        insert(&mut self.uploads, UPLOADS, &upload_key(bucket, key, id), &row)?;
        Ok(Done::Upload(row.upload()))
    }

    /// An upload and its key in the table.
    fn upload(&self, (bucket, key, id): (&str, &str, &str)) -> Result<(Vec<u8>, UploadRow), Stop> {
        self.need_bucket(bucket)?;
        super::look::upload(&self.uploads, bucket, key, id)
    }

    fn put_part(&mut self, of: (&str, &str, &str), number: u32, new: &NewObject) -> Result<Done, Stop> {
        let (_, upload) = self.upload(of)?;
        let at = part_key(upload.id, number);
        let before: Option<PartRow> = find(&self.parts, PARTS, &at, || part_name(of, number))?;
        let part = Part {
            number,
            bytes: new.bytes,
            etag: new.etag.clone(),
            modified_ms: self.now_ms,
            checksum: new.checksum.clone(),
        };
        let row = PartRow { part, pieces: self.bring_in(&new.data)? };
        insert(&mut self.parts, PARTS, &at, &row)?;
        if let Some(before) = before {
            self.release(&before.pieces)?;
        }
        Ok(Done::Part(row.part))
    }

    fn complete(
        &mut self,
        of: (&str, &str, &str),
        chosen: &[Chosen],
        checksum: Option<&Checksum>,
        condition: &Condition,
    ) -> Result<Done, Stop> {
        let (bucket, key, _) = of;
        let (at, upload) = self.upload(of)?;
        let now = self.check(bucket, key, condition)?;
        let mut md5 = Md5::new();
        let (mut pieces, mut sizes, mut bytes) = (Vec::new(), Vec::new(), 0_u64);
        let mut last = 0;
        for (i, one) in chosen.iter().enumerate() {
            let invalid = || Stop::from(StoreError::InvalidPart(one.number));
            let row: PartRow =
                find(&self.parts, PARTS, &part_key(upload.id, one.number), || part_name(of, one.number))?
                    .ok_or_else(invalid)?;
            if one.number <= last || row.part.etag != one.etag {
                return Err(invalid());
            }
            if row.part.bytes < self.least_part_bytes && i + 1 < chosen.len() {
                return Err(StoreError::PartTooSmall { number: one.number, bytes: row.part.bytes }.into());
            }
            last = one.number;
            md5.update(hex::decode(&row.part.etag).ok_or_else(|| damaged_row(part_name(of, last)))?);
            bytes = bytes.checked_add(row.part.bytes).ok_or_else(invalid)?;
            sizes.push(row.part.bytes);
            pieces.extend(row.pieces);
        }
        if chosen.is_empty() {
            return Err(StoreError::InvalidPart(0).into());
        }
        let entry = Entry {
            bytes,
            etag: format!("{}-{}", hex::encode(&md5.finalize()), chosen.len()),
            modified_ms: self.now_ms,
            version: self.number(),
            attributes: upload.attributes.clone(),
            checksum: checksum.cloned(),
            parts: sizes,
        };
        self.drop_upload(&at, &upload, chosen)?;
        self.replace(bucket, key, now, ObjectRow { entry, pieces })
    }

    /// Removes an upload with its parts, and lets go of the bytes of all but those.
    fn drop_upload(&mut self, at: &[u8], upload: &UploadRow, kept: &[Chosen]) -> Result<(), Stop> {
        let mut parts = Vec::new();
        for row in self.parts.range(part_key(upload.id, 0).as_slice()..=&part_key(upload.id, u32::MAX))? {
            let (at, row) = row?;
            // What a damaged row named is not known.
            let pieces = PartRow::unseal(PARTS.name(), at.value(), row.value())
                .filter(|row| kept.binary_search_by_key(&row.part.number, |one| one.number).is_err())
                .map_or_else(Vec::new, |row| row.pieces);
            parts.push((at.value().to_vec(), pieces));
        }
        for (at, pieces) in parts {
            self.parts.remove(at.as_slice())?;
            self.release(&pieces)?;
        }
        self.uploads.remove(at)?;
        Ok(())
    }

    fn expire(&mut self, before_ms: u64) -> Result<Done, Stop> {
        let mut old = Vec::new();
        for row in self.uploads.iter()? {
            let (at, row) = row?;
            if let Some(upload) = UploadRow::unseal(UPLOADS.name(), at.value(), row.value())
                && upload.started_ms < before_ms
            {
                old.push((at.value().to_vec(), upload));
            }
        }
        for (at, upload) in old {
            self.drop_upload(&at, &upload, &[])?;
        }
        Ok(Done::Nothing)
    }

    /// Names new bytes.
    fn bring_in(&mut self, data: &Fresh) -> Result<Vec<Piece>, Stop> {
        match data {
            Fresh::Inline(bytes) if bytes.is_empty() => Ok(Vec::new()),
            Fresh::Inline(bytes) => {
                Ok(vec![Piece { place: self.insert_inline(bytes)?, bytes: bytes.len() as u64 }])
            }
            Fresh::Blobs(blobs) => {
                for piece in blobs.pieces() {
                    if let Some(number) = piece.place.blob() {
                        insert(&mut self.blobs, BLOBS, &number.to_be_bytes(), &1_u64)?;
                    }
                }
                Ok(blobs.pieces().to_vec())
            }
        }
    }

    fn insert_inline(&mut self, bytes: &bytes::Bytes) -> Result<Place, Stop> {
        let number = self.number();
        insert(&mut self.inline, INLINE, &number.to_be_bytes(), bytes)?;
        Ok(Place::Inline(number))
    }

    /// How many pieces name a file.
    fn names(&self, number: u64) -> Result<u64, Stop> {
        let name = || format!("the row of file {number:016x}");
        Ok(find(&self.blobs, BLOBS, &number.to_be_bytes(), name)?.ok_or_else(|| damaged_row(name()))?)
    }

    fn add_name(&mut self, number: u64) -> Result<(), Stop> {
        let names = self.names(number)? + 1;
        insert(&mut self.blobs, BLOBS, &number.to_be_bytes(), &names)
    }

    /// Lets go of bytes that are named no more.
    fn release(&mut self, pieces: &[Piece]) -> Result<(), Stop> {
        for piece in pieces {
            match piece.place {
                Place::Inline(number) => {
                    self.inline.remove(number.to_be_bytes().as_slice())?;
                }
                Place::Blob(number) => match self.names(number) {
                    Ok(names) if names > 1 => {
                        insert(&mut self.blobs, BLOBS, &number.to_be_bytes(), &(names - 1))?;
                    }
                    Ok(_) => {
                        self.blobs.remove(number.to_be_bytes().as_slice())?;
                        self.freed.push(number);
                    }
                    // Who else names the file is not known, so it stays.
                    Err(Stop::Refused(_)) => {}
                    Err(broken) => return Err(broken),
                },
            }
        }
        Ok(())
    }
}

/// What is there before a change.
enum Before {
    Absent,
    Damaged,
    There(ObjectRow),
}

impl Before {
    fn now(&self) -> Now<'_> {
        match self {
            Self::Absent => Now::Nothing,
            Self::Damaged => Now::Damaged,
            Self::There(row) => Now::Object(&row.entry),
        }
    }
}

impl UploadRow {
    pub(super) fn upload(&self) -> Upload {
        Upload {
            key: self.key.clone(),
            id: format!("{:016x}", self.id),
            started_ms: self.started_ms,
            attributes: self.attributes.clone(),
        }
    }
}

fn part_name((bucket, key, upload): (&str, &str, &str), number: u32) -> String {
    format!("part {number} of upload {upload} of {bucket}/{key}")
}

fn insert(table: &mut Open, definition: Definition, key: &[u8], row: &impl Row) -> Result<(), Stop> {
    table.insert(key, row.seal(definition.name(), key).as_slice())?;
    Ok(())
}
