//! Listings of the same data by several servers: which servers hold the same object?

use evenkeel::model::{MAX_REQUESTS, NameTable};

use super::{Chunk, Gathered, Kind, Place, Remarks, check_server};

/// The maximum number of kinds of hashes of an object.
pub(super) const MOST_HASHES: usize = 64;

/// An object as one server lists it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Listed<'a> {
    pub(super) server: &'a str,
    pub(super) name: &'a str,
    pub(super) bytes: u64,
    /// Kinds of hashes and their values.
    pub(super) hashes: &'a [(&'a str, &'a str)],
}

/// Objects by name, as the first server that lists them has them, and which other servers have the same.
#[derive(Debug, Default)]
pub struct Merge {
    names: NameTable,
    objects: Vec<Object>,
    servers: NameTable,
    hash_kinds: NameTable,
    /// Which object is held by which server.
    holders: Vec<(u32, u32)>,
    /// What was left out, and what is worth noting.
    pub remarks: Remarks,
}

#[derive(Debug)]
struct Object {
    bytes: u64,
    /// By kind.
    hashes: Vec<(u32, Box<str>)>,
    last_listed_by: u32,
}

/// Whether two objects with the same name are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Likeness {
    Same,
    /// As far as the size tells.
    SameSize,
    Different,
}

impl Merge {
    /// A merge without listings.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an object. It counts as a copy of the one with the same name if size and hashes agree.
    pub(super) fn add(&mut self, listed: &Listed<'_>, place: &Place<'_>) -> Result<(), String> {
        let server = self.server(listed.server)?;
        let hashes: Vec<(u32, &str)> =
            listed.hashes.iter().map(|(kind, hash)| (self.hash_kinds.intern(kind), *hash)).collect();
        let Some(id) = self.names.find(listed.name) else {
            return self.add_new(listed, server, &hashes);
        };
        let object = &mut self.objects[id as usize];
        let likeness = object.likeness(listed.bytes, &hashes);
        if likeness == Likeness::Different {
            self.remarks.note(Kind::DifferentCopy, place, format!("{}:{}", listed.server, listed.name));
            return Ok(());
        }
        if std::mem::replace(&mut object.last_listed_by, server) == server {
            self.remarks.note(Kind::ListedTwice, place, listed.name);
            return Ok(());
        }
        match likeness {
            Likeness::Same => object.learn(&hashes),
            _ => self.remarks.note(Kind::UnverifiedCopy, place, format!("{}:{}", listed.server, listed.name)),
        }
        self.holders.push((id, server));
        Ok(())
    }

    fn add_new(&mut self, listed: &Listed<'_>, server: u32, hashes: &[(u32, &str)]) -> Result<(), String> {
        if self.objects.len() >= MAX_REQUESTS {
            return Err(format!("more than {MAX_REQUESTS} objects; split the listings"));
        }
        let id = self.names.intern(listed.name);
        let hashes = hashes.iter().map(|&(kind, hash)| (kind, hash.into())).collect();
        self.objects.push(Object { bytes: listed.bytes, hashes, last_listed_by: server });
        self.holders.push((id, server));
        Ok(())
    }

    fn server(&mut self, name: &str) -> Result<u32, String> {
        if let Some(id) = self.servers.find(name) {
            return Ok(id);
        }
        check_server(name)?;
        Ok(self.servers.intern(name))
    }

    /// The objects as chunks, in the order in which they were first listed. Their replicas are in the order of the
    /// servers.
    pub fn gather(mut self, split_bytes: Option<u64>) -> Result<Gathered, String> {
        let mut gathered = Gathered::new(split_bytes);
        self.holders.sort_unstable();
        self.holders.dedup();
        for holders in self.holders.chunk_by(|a, b| a.0 == b.0) {
            let object = holders[0].0;
            let replicas: Vec<&str> = holders.iter().map(|&(_, server)| self.servers.name(server)).collect();
            let bytes = self.objects[object as usize].bytes;
            let name = self.names.name(object);
            gathered.add(&Chunk { name, bytes, replicas: &replicas, client: None })?;
        }
        gathered.remarks = self.remarks;
        Ok(gathered)
    }
}

impl Object {
    fn likeness(&self, bytes: u64, hashes: &[(u32, &str)]) -> Likeness {
        let both = |&(kind, hash): &(u32, &str)| {
            let known = self.hashes.iter().find(|(known, _)| *known == kind);
            known.map(|(_, known)| known.eq_ignore_ascii_case(hash))
        };
        let compared: Vec<bool> = hashes.iter().filter_map(both).collect();
        if bytes != self.bytes || compared.contains(&false) {
            Likeness::Different
        } else if compared.is_empty() {
            Likeness::SameSize
        } else {
            Likeness::Same
        }
    }

    /// Keeps further hashes of an object that is known to be the same.
    fn learn(&mut self, hashes: &[(u32, &str)]) {
        for &(kind, hash) in hashes {
            if self.hashes.len() < MOST_HASHES && self.hashes.iter().all(|(known, _)| *known != kind) {
                self.hashes.push((kind, hash.into()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(merge: &mut Merge, server: &str, bytes: u64, hashes: &[(&str, &str)]) {
        let place = Place { file: "f", line: 1 };
        merge.add(&Listed { server, name: "x", bytes, hashes }, &place).unwrap();
    }

    fn replicas(merge: Merge) -> Vec<String> {
        let (batch, ..) = merge.gather(None).unwrap().finish();
        batch.replicas().of(0).iter().map(|server| batch.servers().name(server.0).to_owned()).collect()
    }

    #[test]
    fn what_differs_is_never_mixed() {
        let mut merge = Merge::new();
        add(&mut merge, "a", 5, &[("md5", "AB")]);
        add(&mut merge, "size", 6, &[("md5", "ab")]);
        add(&mut merge, "hash", 5, &[("md5", "cd")]);
        add(&mut merge, "b", 5, &[("md5", "ab"), ("sha1", "12")]);
        // Learnt from b, which is known to be the same.
        add(&mut merge, "other", 5, &[("sha1", "34")]);
        add(&mut merge, "c", 5, &[("sha1", "12")]);
        add(&mut merge, "c", 5, &[("sha1", "12")]);
        add(&mut merge, "unknown", 5, &[("crc", "9")]);
        let told: Vec<_> = merge.remarks.iter().map(|remark| (remark.kind, remark.n)).collect();
        let expected = [(Kind::DifferentCopy, 3), (Kind::ListedTwice, 1), (Kind::UnverifiedCopy, 1)];
        assert_eq!(told, expected);
        assert_eq!(replicas(merge), ["a", "b", "c", "unknown"]);
    }
}
