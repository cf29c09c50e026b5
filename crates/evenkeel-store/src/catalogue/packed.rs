//! Objects in little memory: a data set may have many millions.
//!
//! Each object is a few numbers and texts, one after the other in one long array. What sources usually repeat is not
//! repeated here: names of objects in their addresses, and what all addresses of a source begin with.

use std::collections::HashMap;
use std::sync::Arc;

use super::{CatalogueObject, Copy};
use crate::{Algorithm, Extent, Hash, Object, Pieces};

/// Beginnings of addresses that are shared. Sources have one or a few, unless their addresses are all different.
const MOST_HEADS: usize = 1 << 10;

#[derive(Debug, Default)]
pub(super) struct Packed {
    data: Vec<u8>,
    /// Where each object begins.
    starts: Vec<usize>,
    heads: Vec<String>,
    head_numbers: HashMap<String, u64>,
    pieces: Vec<Arc<Pieces>>,
}

impl Packed {
    pub(super) fn len(&self) -> usize {
        self.starts.len()
    }

    pub(super) fn key(&self, number: usize) -> &str {
        self.at(self.starts[number]).text()
    }

    pub(super) fn bytes(&self, number: usize) -> u64 {
        let mut reader = self.at(self.starts[number]);
        reader.text();
        reader.number()
    }

    fn at(&self, start: usize) -> Reader<'_> {
        Reader { data: &self.data[start..] }
    }

    pub(super) fn get(&self, number: usize) -> CatalogueObject {
        let mut reader = self.at(self.starts[number]);
        let (key, bytes) = (reader.text().to_owned(), reader.number());
        let hashes: Vec<Hash> = (0..reader.number()).map(|_| reader.hash()).collect();
        let pieces = reader.number().checked_sub(1).map(|number| Arc::clone(&self.pieces[number as usize]));
        let copies = (0..reader.number()).map(|_| {
            let source = reader.number() as usize;
            let (has_identity, has_pieces) = (reader.flag(), reader.flag());
            let listed = reader.number();
            let listed = hashes.iter().enumerate().filter(|(nth, _)| listed >> nth & 1 == 1);
            let hashes = listed.map(|(_, hash)| hash.clone()).collect();
            let identity = has_identity.then(|| reader.text().to_owned());
            let head = match reader.number().checked_sub(1) {
                Some(number) => self.heads[number as usize].as_str(),
                None => reader.text(),
            };
            let address = [head, &key[key.len() - reader.number() as usize..]].concat();
            let extents = (0..reader.number()).map(|_| reader.extent()).collect();
            let pieces = pieces.clone().filter(|_| has_pieces);
            Copy {
                source,
                object: Object { key: key.clone(), address, bytes, identity, hashes, pieces, extents },
            }
        });
        let copies = copies.collect();
        CatalogueObject { key, bytes, hashes, pieces, copies }
    }

    pub(super) fn push(&mut self, object: &CatalogueObject) {
        let CatalogueObject { key, bytes, hashes, pieces, copies } = object;
        self.starts.push(self.data.len());
        self.put_text(key);
        self.put(*bytes);
        self.put(hashes.len() as u64);
        for hash in hashes {
            self.data.push(hash.algorithm.number());
            self.data.extend_from_slice(hash.value());
        }
        self.put(pieces.as_ref().map_or(0, |_| self.pieces.len() as u64 + 1));
        self.pieces.extend(pieces.clone());
        self.put(copies.len() as u64);
        for Copy { source, object } in copies {
            self.put(*source as u64);
            self.put(object.identity.is_some().into());
            self.put(object.pieces.is_some().into());
            let is_listed =
                |hash: &Hash| object.hashes.iter().any(|listed| listed.algorithm == hash.algorithm);
            let listed = hashes.iter().enumerate().map(|(nth, hash)| u64::from(is_listed(hash)) << nth);
            self.put(listed.sum());
            if let Some(identity) = &object.identity {
                self.put_text(identity);
            }
            self.put_address(&object.address, key);
            self.put(object.extents.len() as u64);
            for Extent { bytes, servers } in &object.extents {
                self.put(*bytes);
                self.put(servers.len() as u64);
                servers.iter().for_each(|&server| self.put(server.into()));
            }
        }
    }

    /// Most addresses end as their keys do.
    fn put_address(&mut self, address: &str, key: &str) {
        let pairs = address.chars().rev().zip(key.chars().rev());
        let tail: usize = pairs.take_while(|(a, b)| a == b).map(|(a, _)| a.len_utf8()).sum();
        let head = &address[..address.len() - tail];
        let mut number = self.head_numbers.get(head).copied();
        if number.is_none() && self.heads.len() < MOST_HEADS {
            self.heads.push(head.to_owned());
            number = Some(self.heads.len() as u64);
            self.head_numbers.insert(head.to_owned(), self.heads.len() as u64);
        }
        self.put(number.unwrap_or(0));
        if number.is_none() {
            self.put_text(head);
        }
        self.put(tail as u64);
    }

    /// Seven bits in each byte; the last byte has none above.
    fn put(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.data.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.data.push(number as u8);
    }

    fn put_text(&mut self, text: &str) {
        self.put(text.len() as u64);
        self.data.extend_from_slice(text.as_bytes());
    }

    pub(super) fn retain(&mut self, mut is_wanted: impl FnMut(&CatalogueObject) -> bool) {
        let mut starts = Vec::new();
        for number in 0..self.len() {
            if is_wanted(&self.get(number)) {
                starts.push(self.starts[number]);
            }
        }
        self.starts = starts;
    }

    /// Sorts by key. Returns whether each key is there once.
    pub(super) fn sort(&mut self) -> bool {
        let mut starts = std::mem::take(&mut self.starts);
        starts.sort_by(|&a, &b| self.at(a).text().cmp(self.at(b).text()));
        self.starts = starts;
        (1..self.len()).all(|number| self.key(number - 1) != self.key(number))
    }

    /// The number of the first object, of those sorted, whose key is not less.
    pub(super) fn first_from(&self, key: &str) -> usize {
        self.starts.partition_point(|&start| self.at(start).text() < key)
    }

    /// Gives back memory that was set aside for more.
    pub(super) fn shrink(&mut self) {
        self.data.shrink_to_fit();
        self.starts.shrink_to_fit();
    }
}

/// Reads what was packed.
struct Reader<'a> {
    data: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take(&mut self, n: usize) -> &'a [u8] {
        let (taken, rest) = self.data.split_at(n);
        self.data = rest;
        taken
    }

    fn number(&mut self) -> u64 {
        let (mut number, mut shift) = (0, 0);
        loop {
            let byte = self.take(1)[0];
            number |= u64::from(byte & 0x7F) << shift;
            shift += 7;
            if byte < 0x80 {
                return number;
            }
        }
    }

    fn flag(&mut self) -> bool {
        self.number() == 1
    }

    fn text(&mut self) -> &'a str {
        let n = self.number() as usize;
        std::str::from_utf8(self.take(n)).unwrap_or_default()
    }

    fn hash(&mut self) -> Hash {
        let algorithm = Algorithm::numbered(self.take(1)[0]);
        Hash::of_value(algorithm, self.take(algorithm.n_bytes()))
    }

    fn extent(&mut self) -> Extent {
        let bytes = self.number();
        let servers = (0..self.number()).map(|_| self.number() as u32).collect();
        Extent { bytes, servers }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(key: &str, bytes: u64, address: &str) -> CatalogueObject {
        let object = Object::on_one_server(key.to_owned(), address.to_owned(), bytes, None);
        let copies = vec![Copy { source: 0, object }];
        CatalogueObject { key: key.to_owned(), bytes, hashes: Vec::new(), pieces: None, copies }
    }

    fn hash(algorithm: Algorithm) -> Hash {
        Hash::of_value(algorithm, &vec![7; algorithm.n_bytes()])
    }

    #[test]
    fn objects_come_out_as_they_went_in() {
        let hashes = vec![hash(Algorithm::Sha512), hash(Algorithm::Adler32)];
        let pieces = Pieces::new(100, 60, vec![hash(Algorithm::Md5), hash(Algorithm::Md5)]).map(Arc::new);
        let mut rich = object("ä/b c", 100, "http://host/%C3%A4/b%20c");
        let mut other = rich.copies[0].clone();
        other.source = 300;
        other.object.identity = Some("\"etag\"".to_owned());
        other.object.hashes = vec![hashes[1].clone()];
        other.object.pieces.clone_from(&pieces);
        let extents = [(40, vec![0, 70_000]), (60, vec![1])];
        other.object.extents = extents.map(|(bytes, servers)| Extent { bytes, servers }).to_vec();
        rich.copies.push(other);
        (rich.hashes, rich.pieces) = (hashes, pieces);
        let objects = [
            object("b", u64::MAX, "b"),
            rich,
            object("", 0, ""),
            // A tail that is shared in part, and within a character.
            object("xä", 1, "/other/yä"),
            object("ä", 1, "/other/¤"),
        ];
        let mut packed = Packed::default();
        objects.iter().for_each(|object| packed.push(object));
        for (number, object) in objects.iter().enumerate() {
            assert_eq!(format!("{:?}", packed.get(number)), format!("{object:?}"));
            assert_eq!((packed.key(number), packed.bytes(number)), (&*object.key, object.bytes));
        }
        assert!(packed.sort());
        let keys: Vec<&str> = (0..packed.len()).map(|number| packed.key(number)).collect();
        assert_eq!(keys, ["", "b", "xä", "ä", "ä/b c"]);
        assert_eq!((packed.first_from("b"), packed.first_from("c"), packed.first_from("ü")), (1, 2, 5));
        packed.push(&objects[0]);
        assert!(!packed.sort());
        packed.retain(|object| object.bytes == 1);
        assert_eq!((packed.len(), packed.key(1)), (2, "ä"));
    }

    /// Also where all addresses are different.
    #[test]
    fn addresses_need_not_look_like_keys() {
        let mut packed = Packed::default();
        let address = |k: usize| format!("{k}/address");
        (0..2 * MOST_HEADS).for_each(|k| packed.push(&object("key", 1, &address(k))));
        let is_same = |k: usize| packed.get(k).copies[0].object.address == address(k);
        assert!((0..2 * MOST_HEADS).all(is_same));
    }

    /// A million keys of a bucket may take 200 MB beside their names.
    #[test]
    fn a_key_takes_little() {
        let mut packed = Packed::default();
        let names = (0..1000).map(|k| format!("some/folder/part-{k:06}.parquet"));
        let mut n_name_bytes = 0;
        for name in names {
            n_name_bytes += name.len();
            let mut object = object(&name, 1 << 20, &format!("s3://bucket/prefix/{name}"));
            object.hashes = vec![hash(Algorithm::Md5)];
            let copy = &mut object.copies[0].object;
            copy.identity = Some(format!("\"{}\"", "0".repeat(32)));
            copy.hashes.clone_from(&object.hashes);
            packed.push(&object);
        }
        packed.shrink();
        let n_bytes = packed.data.capacity() + packed.starts.capacity() * size_of::<usize>() - n_name_bytes;
        assert!(n_bytes < 80 * packed.len(), "{n_bytes}");
    }
}
