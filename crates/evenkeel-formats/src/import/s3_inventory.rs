//! S3 Inventory as CSV: one row per object, without a header. The inventory's `manifest.json` lists the columns.
//!
//! Keys are URL-encoded, as S3 writes them. Only the latest versions count. Delete markers, and objects that must be
//! restored from an archive first, are left out.

use std::borrow::Cow;
use std::io::BufRead;

use evenkeel::model::shown;
use serde::Deserialize;

use super::merge::{Listed, Merge};
use super::{InputError, Kind, Place};
use crate::numbers;
use crate::table::{MAX_RECORD_BYTES, Records};

/// Storage classes whose objects cannot be read directly.
const ARCHIVES: [&str; 2] = ["GLACIER", "DEEP_ARCHIVE"];

/// The positions of the columns in a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InventoryColumns {
    n_columns: usize,
    key: usize,
    size: usize,
    bucket: Option<usize>,
    etag: Option<usize>,
    is_latest: Option<usize>,
    is_delete_marker: Option<usize>,
    storage_class: Option<usize>,
}

impl InventoryColumns {
    /// The columns by their names in the manifest: `Bucket, Key, Size, LastModifiedDate, ETag`. Others are ignored.
    pub fn parse(schema: &str) -> Result<Self, String> {
        let names: Vec<&str> = schema.split(',').map(str::trim).collect();
        let find = |name: &str| names.iter().position(|known| known.eq_ignore_ascii_case(name));
        let require = |name: &str| {
            let missing = || {
                format!(
                    "the columns `{}` have no {name}; write them as in Bucket,Key,Size,ETag",
                    shown(schema)
                )
            };
            find(name).ok_or_else(missing)
        };
        Ok(Self {
            n_columns: names.len(),
            key: require("Key")?,
            size: require("Size")?,
            bucket: find("Bucket"),
            etag: find("ETag"),
            is_latest: find("IsLatest"),
            is_delete_marker: find("IsDeleteMarker"),
            storage_class: find("StorageClass"),
        })
    }

    /// Whether rows name their bucket.
    pub fn has_bucket(&self) -> bool {
        self.bucket.is_some()
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Manifest {
    file_format: Option<String>,
    file_schema: Option<String>,
}

/// Reads the columns from the `manifest.json` of an inventory.
pub fn read_manifest(reader: impl BufRead, file: &str) -> Result<InventoryColumns, InputError> {
    let error = |message: String| InputError::new(file, None, message);
    let manifest: Manifest = serde_json::from_reader(reader.take(MAX_RECORD_BYTES)).map_err(|e| {
        InputError::new(file, e.line() as u64, format!("this is no manifest.json of an inventory: {e}"))
    })?;
    match manifest.file_format.as_deref() {
        Some("CSV") | None => {}
        Some(other) => {
            let other = shown(other);
            return Err(error(format!("the inventory has the format {other}; configure it as CSV")));
        }
    }
    let schema = manifest
        .file_schema
        .ok_or_else(|| error("`fileSchema` is missing; name the columns with --columns".to_owned()))?;
    InventoryColumns::parse(&schema).map_err(error)
}

/// Reads an inventory. Its server is the bucket of each row, unless one is given.
pub fn read_s3_inventory(
    reader: impl BufRead,
    file: &str,
    columns: &InventoryColumns,
    server: Option<&str>,
    has_plain_keys: bool,
    into: &mut Merge,
) -> Result<(), InputError> {
    let mut rows = Records::open(reader, file, b',')?;
    let mut is_first = true;
    while rows.next()? {
        if rows.len() != columns.n_columns {
            let (n, expected) = (rows.len(), columns.n_columns);
            return Err(rows.error(format!(
                "the row has {n} fields, but {expected} columns are named; name all of them"
            )));
        }
        let is_header =
            std::mem::take(&mut is_first) && rows.field(columns.size, "size")?.eq_ignore_ascii_case("size");
        if !is_header {
            read_row(&rows, file, columns, server, has_plain_keys, into)?;
        }
    }
    Ok(())
}

fn read_row<R: BufRead>(
    rows: &Records<R>,
    file: &str,
    columns: &InventoryColumns,
    server: Option<&str>,
    has_plain_keys: bool,
    into: &mut Merge,
) -> Result<(), InputError> {
    let optional = |column: Option<usize>, name| column.map_or(Ok(""), |k| rows.field(k, name));
    let place = Place { file, line: rows.line() };
    let key = rows.field(columns.key, "key")?;
    let key = if has_plain_keys { key.into() } else { decoded(key) };
    let size = rows.field(columns.size, "size")?;
    let why_not = if optional(columns.is_delete_marker, "delete marker")?.eq_ignore_ascii_case("true") {
        Some(Kind::DeleteMarker)
    } else if optional(columns.is_latest, "latest mark")?.eq_ignore_ascii_case("false") {
        Some(Kind::OldVersion)
    } else if ARCHIVES.contains(&optional(columns.storage_class, "storage class")?) {
        Some(Kind::ArchivedCopy)
    } else if size.is_empty() {
        Some(Kind::NoSize)
    } else {
        None
    };
    if let Some(kind) = why_not {
        into.remarks.note(kind, &place, key);
        return Ok(());
    }
    if key.is_empty() {
        return Err(rows.error("the key is empty; are the columns in the right order?"));
    }
    let bytes = numbers::whole(size, "size")
        .map_err(|e| rows.error(format!("{e}; are the columns in the right order?")))?;
    let etag = optional(columns.etag, "ETag")?.trim_matches('"');
    let hashes = [("etag", etag)];
    let hashes = if etag.is_empty() { &[][..] } else { &hashes };
    let server = server.map_or_else(|| optional(columns.bucket, "bucket"), Ok)?;
    if server.is_empty() {
        return Err(rows.error("the row has no bucket; name the server, as in NAME=FILE"));
    }
    into.add(&Listed { server, name: &key, bytes, hashes }, &place).map_err(|e| rows.error(e))
}

/// Decodes a URL-encoded key. A key that does not decode to text is left as it is.
fn decoded(key: &str) -> Cow<'_, str> {
    if !key.contains(['%', '+']) {
        return key.into();
    }
    let hex = |byte: Option<&u8>| byte.and_then(|&byte| char::from(byte).to_digit(16));
    let (bytes, mut decoded) = (key.as_bytes(), Vec::with_capacity(key.len()));
    let mut at = 0;
    while at < bytes.len() {
        let escape = (hex(bytes.get(at + 1)), hex(bytes.get(at + 2)));
        at += match (bytes[at], escape) {
            (b'%', (Some(high), Some(low))) => {
                decoded.push((high * 16 + low) as u8);
                3
            }
            (b'+', _) => {
                decoded.push(b' ');
                1
            }
            (byte, _) => {
                decoded.push(byte);
                1
            }
        };
    }
    String::from_utf8(decoded).map_or(key.into(), Cow::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_decoded() {
        for (key, expected) in [
            ("a/b", "a/b"),
            ("a%20b+c%2B", "a b c+"),
            ("%C3%BC", "ü"),
            ("50%", "50%"),
            ("%zz%f", "%zz%f"),
            ("%FF", "%FF"),
        ] {
            assert_eq!(decoded(key), expected);
        }
    }

    #[test]
    fn manifests() {
        let read = |text: &str| read_manifest(text.as_bytes(), "m");
        let schema = r#"{"sourceBucket":"b","fileFormat":"CSV","fileSchema":"Bucket, Key, Size, ETag","files":[{"key":"x"}]}"#;
        assert_eq!(read(schema).unwrap(), InventoryColumns::parse("bucket,key,size,etag").unwrap());
        for (text, word) in [
            ("{", "no manifest"),
            ("{}", "fileSchema"),
            (r#"{"fileFormat":"Parquet","fileSchema":"x"}"#, "Parquet"),
            (r#"{"fileSchema":"Bucket, Key"}"#, "no Size"),
        ] {
            let error = read(text).unwrap_err().message;
            assert!(error.contains(word), "{error}");
        }
    }
}
