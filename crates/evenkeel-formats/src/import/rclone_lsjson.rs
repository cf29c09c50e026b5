//! The output of `rclone lsjson -R --hash`: a list of files with `Path`, `Size`, `IsDir` and `Hashes`.

use std::fmt;
use std::io::BufRead;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use super::limits::{Limited, Meter};
use super::merge::{Listed, MOST_HASHES, Merge};
use super::{InputError, Kind, Place};
use crate::batch_json::without_place;

/// Reads the listing of a remote, which becomes the server `server`.
pub fn read_rclone_lsjson(
    reader: impl BufRead,
    file: &str,
    server: &str,
    into: &mut Merge,
) -> Result<(), InputError> {
    let (limited, meter) = Limited::open(reader, file)?;
    let mut json = serde_json::Deserializer::from_reader(limited);
    let listing = ListingSeed { file, server, meter: &meter, into };
    let read = listing.deserialize(&mut json).and_then(|()| json.end());
    read.map_err(|e| InputError::new(file, e.line() as u64, without_place(&e)))
}

struct ListingSeed<'a> {
    file: &'a str,
    server: &'a str,
    meter: &'a Meter,
    into: &'a mut Merge,
}

impl<'de> DeserializeSeed<'de> for ListingSeed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for ListingSeed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of files, as `rclone lsjson -R --hash REMOTE:` prints it")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        while let Some(entry) = entries.next_element::<Entry>()? {
            self.meter.complete();
            if entry.is_dir {
                continue;
            }
            let place = Place { file: self.file, line: self.meter.line() };
            let Ok(bytes) = u64::try_from(entry.size) else {
                self.into.remarks.note(Kind::NoSize, &place, entry.path);
                continue;
            };
            let hashes: Vec<(&str, &str)> =
                entry.hashes.0.iter().map(|(kind, hash)| (&**kind, &**hash)).collect();
            let listed = Listed { server: self.server, name: &entry.path, bytes, hashes: &hashes };
            self.into.add(&listed, &place).map_err(A::Error::custom)?;
        }
        Ok(())
    }
}

/// A file or a folder. Other fields are ignored.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Entry {
    path: String,
    /// -1 if unknown.
    size: i64,
    #[serde(default)]
    is_dir: bool,
    #[serde(default)]
    hashes: Hashes,
}

/// Kinds of hashes and their values.
#[derive(Default)]
struct Hashes(Vec<(String, String)>);

impl<'de> Deserialize<'de> for Hashes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(HashesVisitor)
    }
}

struct HashesVisitor;

impl<'de> Visitor<'de> for HashesVisitor {
    type Value = Hashes;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("hashes by their kinds, such as {\"md5\":\"…\"}")
    }

    fn visit_unit<E: Error>(self) -> Result<Hashes, E> {
        Ok(Hashes::default())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Hashes, A::Error> {
        let mut hashes = Vec::new();
        while let Some((kind, hash)) = map.next_entry::<String, String>()? {
            if hashes.len() >= MOST_HASHES {
                return Err(A::Error::custom("a file has more hashes than there are kinds of"));
            }
            // Older versions write MD5 and SHA-1. A hash that a remote does not know is empty.
            if !hash.is_empty() {
                hashes.push((kind.to_ascii_lowercase().replace('-', ""), hash));
            }
        }
        Ok(Hashes(hashes))
    }
}
