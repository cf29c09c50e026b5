//! What is asked of the index.

use bytes::Bytes;
use redb::{ReadTransaction, ReadableTable, ReadableTableMetadata, TableHandle};

use super::{
    BLOBS, BUCKETS, COUNTS, INLINE, Index, OBJECTS, PARTS, ReadableRows, Stop, UPLOADS, after_all,
    bucket_key, counts, damaged_row, find, inline, part_key, upload_key,
};
use crate::node::store::folder::hex;
use crate::node::store::folder::rows::{Counts, ObjectRow, PartRow, Piece, Place, Row, UploadRow};
use crate::node::store::{Attributes, Bucket, Entry, Listing, Part, Selection, StoreError, Upload};

/// Something that has bytes: an object or a part.
#[derive(Debug)]
pub(in super::super) struct Held {
    /// As people know it.
    pub(in super::super) name: String,
    pub(in super::super) pieces: Vec<(Piece, Option<Bytes>)>,
}

/// Names in a scrub: where to go on, and what has bytes.
pub(in super::super) type Page = (Option<Vec<u8>>, Vec<Result<Held, String>>);

/// Rows that a scrub takes at a time.
const PAGE: usize = 64;

impl Index {
    pub(in super::super) fn buckets(&self) -> Result<Vec<Bucket>, StoreError> {
        self.look(|transaction| {
            let mut buckets = Vec::new();
            for row in transaction.open_table(BUCKETS)?.iter()? {
                let (name, row) = row?;
                let text = String::from_utf8_lossy(name.value()).into_owned();
                let created_ms = u64::unseal(BUCKETS.name(), name.value(), row.value())
                    .ok_or_else(|| damaged_row(format!("bucket {text}")))?;
                buckets.push(Bucket { name: text, created_ms });
            }
            Ok(buckets)
        })
    }

    pub(in super::super) fn counts(&self) -> Result<Counts, StoreError> {
        self.look(|transaction| counts(&transaction.open_table(COUNTS)?))
    }

    /// An object and its bytes, those in files excepted.
    pub(in super::super) fn object(&self, bucket: &str, key: &str) -> Result<(Entry, Held), StoreError> {
        self.look(|transaction| {
            let name = || format!("{bucket}/{key}");
            let found = find::<ObjectRow>(
                &transaction.open_table(OBJECTS)?,
                OBJECTS,
                &bucket_key(bucket, key),
                name,
            )?;
            let Some(row) = found else {
                need_bucket(transaction, bucket)?;
                return Err(StoreError::NoSuchKey(key.to_owned()).into());
            };
            let held = hold(transaction, name(), row.pieces)?;
            Ok((row.entry, held))
        })
    }

    pub(in super::super) fn entry(&self, bucket: &str, key: &str) -> Result<Entry, StoreError> {
        self.look(|transaction| {
            let table = transaction.open_table(OBJECTS)?;
            let found =
                find::<ObjectRow>(&table, OBJECTS, &bucket_key(bucket, key), || format!("{bucket}/{key}"))?;
            if let Some(row) = found {
                return Ok(row.entry);
            }
            need_bucket(transaction, bucket)?;
            Err(StoreError::NoSuchKey(key.to_owned()).into())
        })
    }

    pub(in super::super) fn list(&self, bucket: &str, what: &Selection) -> Result<Listing, StoreError> {
        self.look(|transaction| {
            need_bucket(transaction, bucket)?;
            list(&transaction.open_table(OBJECTS)?, bucket, what)
        })
    }

    /// By name and number.
    pub(in super::super) fn uploads(&self, bucket: &str, prefix: &str) -> Result<Vec<Upload>, StoreError> {
        self.look(|transaction| {
            need_bucket(transaction, bucket)?;
            let start = bucket_key(bucket, prefix);
            let end = after_all(&start);
            let mut uploads = Vec::new();
            for row in transaction.open_table(UPLOADS)?.range(start.as_slice()..end.as_slice())? {
                let (at, row) = row?;
                let row = UploadRow::unseal(UPLOADS.name(), at.value(), row.value())
                    .ok_or_else(|| damaged_row(format!("an upload in bucket {bucket}")))?;
                uploads.push(row.upload());
            }
            uploads.sort_by(|a: &Upload, b| (&a.key, &a.id).cmp(&(&b.key, &b.id)));
            Ok(uploads)
        })
    }

    pub(in super::super) fn parts(
        &self,
        (bucket, key, id): (&str, &str, &str),
        after: u32,
        limit: usize,
    ) -> Result<(Vec<Part>, bool), StoreError> {
        self.look(|transaction| {
            need_bucket(transaction, bucket)?;
            let (_, upload) = upload(&transaction.open_table(UPLOADS)?, bucket, key, id)?;
            let mut parts = Vec::new();
            let Some(first) = after.checked_add(1) else { return Ok((parts, false)) };
            let (first, last) = (part_key(upload.id, first), part_key(upload.id, u32::MAX));
            for row in transaction.open_table(PARTS)?.range(first.as_slice()..=last.as_slice())? {
                let (at, row) = row?;
                if parts.len() == limit {
                    return Ok((parts, true));
                }
                let row = PartRow::unseal(PARTS.name(), at.value(), row.value())
                    .ok_or_else(|| damaged_row(format!("a part of upload {id} of {bucket}/{key}")))?;
                parts.push(row.part);
            }
            Ok((parts, false))
        })
    }

    /// Refuses early what the commit would refuse.
    pub(in super::super) fn need_upload(&self, bucket: &str, key: &str, id: &str) -> Result<(), StoreError> {
        self.look(|transaction| {
            need_bucket(transaction, bucket)?;
            upload(&transaction.open_table(UPLOADS)?, bucket, key, id).map(drop)
        })
    }

    pub(in super::super) fn has_uploads_before(&self, before_ms: u64) -> Result<bool, StoreError> {
        self.look(|transaction| {
            for row in transaction.open_table(UPLOADS)?.iter()? {
                let (at, row) = row?;
                let upload = UploadRow::unseal(UPLOADS.name(), at.value(), row.value());
                if upload.is_some_and(|upload| upload.started_ms < before_ms) {
                    return Ok(true);
                }
            }
            Ok(false)
        })
    }

    /// Which of these files a row names.
    pub(in super::super) fn named(&self, numbers: &[u64]) -> Result<Vec<bool>, StoreError> {
        self.look(|transaction| {
            let table = transaction.open_table(BLOBS)?;
            numbers.iter().map(|number| Ok(table.sealed(&number.to_be_bytes())?.is_some())).collect()
        })
    }

    /// Some objects after a key of the table, and where to go on.
    pub(in super::super) fn objects_after(&self, after: &[u8]) -> Result<Page, StoreError> {
        self.look(|transaction| {
            page(transaction, OBJECTS, after, |key, row| {
                let name = String::from_utf8_lossy(key).replacen('\0', "/", 1);
                (name, ObjectRow::unseal(OBJECTS.name(), key, row).map(|row| row.pieces))
            })
        })
    }

    /// Some parts after a key of the table, and where to go on.
    pub(in super::super) fn parts_after(&self, after: &[u8]) -> Result<Page, StoreError> {
        self.look(|transaction| {
            page(transaction, PARTS, after, |key, row| {
                let id = hex::encode(key.get(..8).unwrap_or_default());
                let number = key.last_chunk().map_or(0, |number| u32::from_be_bytes(*number));
                let name = format!("part {number} of upload {id}");
                (name, PartRow::unseal(PARTS.name(), key, row).map(|row| row.pieces))
            })
        })
    }

    /// How many objects are counted, and how many there are. They differ if part of the index got lost.
    pub(in super::super) fn n_objects(&self) -> Result<(u64, u64), StoreError> {
        self.look(|transaction| {
            let counted = counts(&transaction.open_table(COUNTS)?)?.objects;
            Ok((counted, transaction.open_table(OBJECTS)?.len()?))
        })
    }
}

fn need_bucket(transaction: &ReadTransaction, bucket: &str) -> Result<(), Stop> {
    match transaction.open_table(BUCKETS)?.sealed(bucket.as_bytes())? {
        Some(_) => Ok(()),
        None => Err(StoreError::NoSuchBucket(bucket.to_owned()).into()),
    }
}

/// An upload and its key in the table.
pub(super) fn upload(
    table: &dyn ReadableRows,
    bucket: &str,
    key: &str,
    id: &str,
) -> Result<(Vec<u8>, UploadRow), Stop> {
    let missing = || Stop::from(StoreError::NoSuchUpload(id.to_owned()));
    let number = Some(id)
        .filter(|id| id.len() == 16 && id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')))
        .and_then(|id| u64::from_str_radix(id, 16).ok())
        .ok_or_else(missing)?;
    let at = upload_key(bucket, key, number);
    let row = find(table, UPLOADS, &at, || format!("upload {id} of {bucket}/{key}"))?.ok_or_else(missing)?;
    Ok((at, row))
}

fn hold(transaction: &ReadTransaction, name: String, pieces: Vec<Piece>) -> Result<Held, Stop> {
    let table = transaction.open_table(INLINE)?;
    let pieces = pieces
        .into_iter()
        .map(|piece| {
            let bytes = match piece.place {
                Place::Inline(number) => Some(inline(&table, number, || name.clone())?),
                Place::Blob(_) => None,
            };
            if bytes.as_ref().is_some_and(|bytes| bytes.len() as u64 != piece.bytes) {
                return Err(damaged_row(name.clone()).into());
            }
            Ok((piece, bytes))
        })
        .collect::<Result<_, Stop>>()?;
    Ok(Held { name, pieces })
}

fn page(
    transaction: &ReadTransaction,
    definition: super::Definition,
    after: &[u8],
    read: impl Fn(&[u8], &[u8]) -> (String, Option<Vec<Piece>>),
) -> Result<Page, Stop> {
    let mut held = Vec::new();
    let range = (std::ops::Bound::Excluded(after), std::ops::Bound::Unbounded);
    for row in transaction.open_table(definition)?.range::<&[u8]>(range)? {
        let (key, row) = row?;
        let (name, pieces) = read(key.value(), row.value());
        held.push(match pieces.map(|pieces| hold(transaction, name.clone(), pieces)) {
            None => Err(damaged_row(name).to_string()),
            Some(Ok(one)) => Ok(one),
            Some(Err(Stop::Refused(error))) => Err(error.to_string()),
            Some(Err(broken)) => return Err(broken),
        });
        if held.len() == PAGE {
            return Ok((Some(key.value().to_vec()), held));
        }
    }
    Ok((None, held))
}

/// Walks over the names of a bucket. Behind each common prefix it goes on after all names that begin so.
fn list(
    table: &impl ReadableTable<&'static [u8], &'static [u8]>,
    bucket: &str,
    what: &Selection,
) -> Result<Listing, Stop> {
    let start = bucket_key(bucket, "");
    let first = bucket_key(bucket, &what.prefix);
    let end = after_all(&first);
    let mut from = first;
    if what.after.as_bytes() >= what.prefix.as_bytes() {
        // The name that follows, byte by byte.
        from = bucket_key(bucket, &what.after);
        from.push(0);
    }
    let mut listing = Listing::default();
    let mut last = None;
    if what.limit == 0 {
        return Ok(listing);
    }
    'seek: while from < end {
        for row in table.range(from.as_slice()..end.as_slice())? {
            let (at, row) = row?;
            let damaged = || damaged_row(String::from_utf8_lossy(at.value()).replacen('\0', "/", 1));
            let key = at.value().strip_prefix(start.as_slice()).and_then(|key| std::str::from_utf8(key).ok());
            let key = key.ok_or_else(damaged)?;
            let is_full = listing.entries.len() + listing.prefixes.len() >= what.limit;
            let rest = key.get(what.prefix.len()..).unwrap_or_default();
            let delimiter = what.delimiter.as_str();
            if let Some(at) = rest.find(delimiter).filter(|_| !delimiter.is_empty()) {
                let common = &key[..what.prefix.len() + at + delimiter.len()];
                // Those that are not after the mark were on an earlier page.
                if common > what.after.as_str() {
                    if is_full {
                        listing.next = last;
                        return Ok(listing);
                    }
                    listing.prefixes.push(common.to_owned());
                    last = Some(common.to_owned());
                }
                from = after_all(&bucket_key(bucket, common));
                continue 'seek;
            }
            if is_full {
                listing.next = last;
                return Ok(listing);
            }
            // A damaged row does not hide the others: its name is listed, and reading it says what is wrong.
            let entry = ObjectRow::unseal(OBJECTS.name(), at.value(), row.value())
                .map_or_else(unknown, |row| row.entry);
            listing.entries.push((key.to_owned(), entry));
            last = Some(key.to_owned());
        }
        break;
    }
    Ok(listing)
}

/// Of a damaged row.
fn unknown() -> Entry {
    Entry {
        bytes: 0,
        etag: String::new(),
        modified_ms: 0,
        version: 0,
        attributes: Attributes::default(),
        checksum: None,
        parts: Vec::new(),
    }
}
