//! Batches from the output of other tools: one file per format.
//!
//! Readers stream: they keep what becomes part of the batch, and besides it no more than one line, record or element.
//! Input that they cannot use is counted in [`Remarks`] if the rest is still right, otherwise refused with an
//! [`InputError`].

mod clients;
mod hdfs_fsck;
mod limits;
mod merge;
mod metalink;
mod rclone_lsjson;
mod remarks;
mod s3_inventory;
mod table;

use std::borrow::Cow;
use std::fmt::Write;
use std::io::BufRead;

use evenkeel::model::{Batch, BatchBuilder, Details, NameTable, shown};

use crate::{InputError, check_replica};

pub use clients::{Clients, Deal, Imported, write_hosts};
pub use hdfs_fsck::read_hdfs_fsck;
pub use merge::Merge;
pub use metalink::{MetalinkFile, MetalinkPieces, read_metalink, read_metalink_files};
pub use rclone_lsjson::read_rclone_lsjson;
pub use remarks::{Example, Kind, Remark, Remarks};
pub use s3_inventory::{InventoryColumns, read_manifest, read_s3_inventory};
pub use table::{TableColumns, read_table};

/// Splitting may not produce more requests than this: a typo in a size would exhaust memory.
const MOST_PIECES: u64 = 1 << 24;
/// The client of requests that are not distributed yet.
const NOBODY: &str = "client";

/// A position in an input, for messages.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// The file.
    pub file: &'a str,
    /// The line, from 1.
    pub line: u64,
}

impl Place<'_> {
    fn error(&self, message: impl std::fmt::Display) -> InputError {
        InputError::new(self.file, self.line, message)
    }
}

/// A piece of data, and the servers that hold a copy.
#[derive(Clone, Copy, Debug)]
struct Chunk<'a> {
    name: &'a str,
    bytes: u64,
    replicas: &'a [&'a str],
    /// The client that wants it, if the input says so.
    client: Option<&'a str>,
}

/// What readers have found so far.
#[derive(Debug)]
pub struct Gathered {
    batch: BatchBuilder,
    servers: NameTable,
    /// The host of each server, `/rack/host` where racks are known; empty if unknown.
    hosts: Vec<String>,
    /// For each server the last chunk that names it, counted from 1.
    named_in: Vec<u64>,
    n_chunks: u64,
    /// Larger chunks are split into pieces of this size.
    split_bytes: Option<u64>,
    n_pieces: u64,
    has_clients: bool,
    /// What was left out, and what is worth noting.
    pub remarks: Remarks,
}

impl Gathered {
    /// Starts empty. Chunks larger than `split_bytes`, if given, become several requests.
    pub fn new(split_bytes: Option<u64>) -> Self {
        Self {
            batch: BatchBuilder::new(),
            servers: NameTable::new(),
            hosts: Vec::new(),
            named_in: Vec::new(),
            n_chunks: 0,
            split_bytes: split_bytes.filter(|&bytes| bytes > 0),
            n_pieces: 0,
            has_clients: false,
            remarks: Remarks::default(),
        }
    }

    /// Adds data that these servers hold.
    pub fn add_chunk(&mut self, name: &str, bytes: u64, servers: &[&str]) -> Result<(), String> {
        servers.iter().try_for_each(|server| check_server(server))?;
        self.add(&Chunk { name, bytes, replicas: servers, client: None })
    }

    /// Adds a chunk, as one request or, if it is to be split, several. A server that is named twice counts once.
    fn add(&mut self, chunk: &Chunk<'_>) -> Result<(), String> {
        let replicas = self.distinct(chunk.replicas)?;
        let chunk = Chunk { replicas: &replicas, ..*chunk };
        match self.split_bytes.filter(|&piece| chunk.bytes > piece) {
            Some(piece) => self.add_pieces(&chunk, piece),
            None => self.add_request(&chunk),
        }
    }

    /// Adds a chunk in pieces of the given size.
    fn add_in_pieces(&mut self, chunk: &Chunk<'_>, piece_bytes: u64) -> Result<(), String> {
        let replicas = self.distinct(chunk.replicas)?;
        self.add_pieces(&Chunk { replicas: &replicas, ..*chunk }, piece_bytes)
    }

    /// Adds a request for each piece of a chunk: `name#0`, `name#1` and so on.
    fn add_pieces(&mut self, chunk: &Chunk<'_>, piece_bytes: u64) -> Result<(), String> {
        let n_pieces = chunk.bytes.div_ceil(piece_bytes);
        self.n_pieces = self.n_pieces.saturating_add(n_pieces);
        if self.n_pieces > MOST_PIECES {
            return Err(format!(
                "split into pieces of {piece_bytes} bytes, this makes more than {MOST_PIECES} requests; use larger pieces"
            ));
        }
        for k in 0..n_pieces {
            let name = format!("{}#{k}", chunk.name);
            let bytes = piece_bytes.min(chunk.bytes - k * piece_bytes);
            self.add_request(&Chunk { name: &name, bytes, ..*chunk })?;
        }
        Ok(())
    }

    fn add_request(&mut self, chunk: &Chunk<'_>) -> Result<(), String> {
        let name = fit_name(chunk.name);
        let details = Details { chunk: Some(&*name).filter(|name| !name.is_empty()), ..Details::default() };
        let replicas = chunk.replicas.iter().try_for_each(|replica| self.batch.replica(replica));
        let client = chunk.client.unwrap_or(NOBODY);
        let added = replicas.and_then(|()| self.batch.end_request_of_bytes(client, chunk.bytes, &details));
        self.has_clients |= chunk.client.is_some();
        added.map_err(|error| error.to_string())
    }

    /// Each server once, in the order given.
    fn distinct<'a>(&mut self, replicas: &[&'a str]) -> Result<Vec<&'a str>, String> {
        self.n_chunks += 1;
        let mut distinct = Vec::with_capacity(replicas.len());
        for &name in replicas {
            let server = self.server(name)?;
            if std::mem::replace(&mut self.named_in[server], self.n_chunks) != self.n_chunks {
                distinct.push(name);
            }
        }
        Ok(distinct)
    }

    /// The index of a server. A new server is added.
    fn server(&mut self, name: &str) -> Result<usize, String> {
        if let Some(id) = self.servers.find(name) {
            return Ok(id as usize);
        }
        check_server(name)?;
        self.servers.insert(name, "server").map_err(|error| error.to_string())?;
        self.hosts.push(String::new());
        self.named_in.push(0);
        Ok(self.hosts.len() - 1)
    }

    /// Records the host of a server; the longest path is kept, since it says the most.
    fn set_host(&mut self, server: &str, host: &str) -> Result<(), String> {
        let server = self.server(server)?;
        if host.len() > self.hosts[server].len() {
            host.clone_into(&mut self.hosts[server]);
        }
        Ok(())
    }

    /// The batch, with clients still to be decided, and the host of each of its servers.
    fn finish(self) -> (Batch, Vec<String>, Remarks) {
        let Self { batch, servers, hosts, remarks, .. } = self;
        let batch = batch.finish();
        let host = |name: &str| servers.find(name).map_or("", |id| &hosts[id as usize]).to_owned();
        let hosts = batch.servers().iter().map(host).collect();
        (batch, hosts, remarks)
    }
}

/// Refuses a server name that a batch could not hold.
pub fn check_server(name: &str) -> Result<(), String> {
    if name.contains('|') {
        return Err(format!("the server name `{}` has a | in it, which stands between servers", shown(name)));
    }
    check_replica(name)
}

/// A name that fits on a line: control characters, and spaces at either end, are percent-encoded.
fn fit_name(name: &str) -> Cow<'_, str> {
    let is_odd = |c: char| c.is_control();
    if name.trim() == name && !name.contains(is_odd) {
        return name.into();
    }
    let (start, end) = (name.len() - name.trim_start().len(), name.trim_end().len());
    let mut fit = String::with_capacity(name.len() + 8);
    for (at, c) in name.char_indices() {
        if is_odd(c) || at < start || at >= end {
            for byte in c.encode_utf8(&mut [0; 4]).bytes() {
                let _ = write!(fit, "%{byte:02X}");
            }
        } else {
            fit.push(c);
        }
    }
    fit.into()
}

/// Refuses an input that is compressed or in a binary format, and says how to read it.
pub fn check_plain(reader: &mut impl BufRead, file: &str) -> Result<(), InputError> {
    const FORMATS: [(&[u8], &str); 7] = [
        (b"\x1F\x8B", "is compressed by gzip; decompress it first, as in `zcat FILE | evenkeel import … -`"),
        (
            b"\x28\xB5\x2F\xFD",
            "is compressed by zstd; decompress it first, as in `zstdcat FILE | evenkeel import … -`",
        ),
        (b"\xFD7zXZ", "is compressed by xz; decompress it first, as in `xzcat FILE | evenkeel import … -`"),
        (b"BZh", "is compressed by bzip2; decompress it first, as in `bzcat FILE | evenkeel import … -`"),
        (b"PK\x03\x04", "is a ZIP archive; unpack it first"),
        (b"PAR1", "is a Parquet file; configure the inventory as CSV"),
        (b"ORC", "is an ORC file; configure the inventory as CSV"),
    ];
    let start = reader.fill_buf().map_err(|e| InputError::new(file, None, format!("cannot read it: {e}")))?;
    match FORMATS.iter().find(|(magic, _)| start.starts_with(magic)) {
        Some((_, what)) => Err(InputError::new(file, None, what)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit_into_a_line() {
        for (name, fit) in [("a b", "a b"), (" a\t", "%20a%09"), ("a\nb", "a%0Ab"), ("é\u{a0}", "é%C2%A0")]
        {
            assert_eq!(fit_name(name), fit);
        }
    }

    #[test]
    fn pieces_end_where_the_chunk_does() {
        let mut gathered = Gathered::new(Some(4));
        let chunk = Chunk { name: "x", bytes: 10, replicas: &["s1", "s0", "s1"], client: None };
        gathered.add(&chunk).unwrap();
        gathered.add(&Chunk { bytes: 4, ..chunk }).unwrap();
        assert!(gathered.add(&Chunk { bytes: u64::MAX, ..chunk }).unwrap_err().contains("larger pieces"));
        let (batch, ..) = gathered.finish();
        let requests: Vec<_> =
            (0..batch.n_requests()).map(|i| (batch.chunk(i).unwrap(), batch.bytes(i))).collect();
        assert_eq!(requests, [("x#0", 4), ("x#1", 4), ("x#2", 2), ("x", 4)]);
    }
}
