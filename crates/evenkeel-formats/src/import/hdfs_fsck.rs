//! The output of `hdfs fsck PATH -files -blocks -locations` in Hadoop 1, 2 and 3; also with `-racks`,
//! `-replicaDetails`, `-openforwrite` and `-includeSnapshots`.
//!
//! ```text
//! /logs/day 1 134217729 bytes, replicated: replication=2, 2 block(s):  OK
//! 0. BP-1-10.0.0.9-1:blk_1073741825_1001 len=134217728 Live_repl=2  [DatanodeInfoWithStorage[10.0.0.1:9866,DS-a,DISK], …]
//! 1. BP-1-10.0.0.9-1:blk_1073741826_1002 len=1 MISSING!
//! ```
//!
//! Each block becomes a chunk `path#index`, each datanode a server `host:port`. Blocks without a usable replica, files
//! that are still being written, erasure-coded files and (unless they are wanted) snapshots are left out and counted.

use std::collections::HashSet;
use std::io::BufRead;

use super::limits::Lines;
use super::{Chunk, Gathered, InputError, Kind, Place};
use crate::numbers;

const REMEDY: &str = "run `hdfs fsck PATH -files -blocks -locations`";
/// What `-replicaDetails` says about replicas that should not be read.
const UNUSABLE: [&str; 4] = ["CORRUPT", "EXCESS", "DECOMMISSIONED", "IN MAINTENANCE"];

/// Reads the output of fsck. Files in snapshots are included only if `with_snapshots`.
pub fn read_hdfs_fsck(
    reader: impl BufRead,
    file: &str,
    with_snapshots: bool,
    into: &mut Gathered,
) -> Result<(), InputError> {
    let mut lines = Lines::open(reader, file)?;
    let mut listing = Listing { into, with_snapshots, file: None, n_files: 0, has_summary: false };
    let mut last = Place { file, line: 1 };
    while let Some((place, line)) = lines.next()? {
        listing.line(&place, line)?;
        last = place;
    }
    listing.end_file()?;
    if listing.n_files == 0 {
        return Err(InputError::new(file, None, format!("it lists no files; {REMEDY}")));
    }
    if !listing.has_summary {
        into.remarks.note(Kind::NoSummary, &last, file);
    }
    Ok(())
}

/// The listing up to the current line.
struct Listing<'a> {
    into: &'a mut Gathered,
    with_snapshots: bool,
    file: Option<OpenFile>,
    n_files: u64,
    has_summary: bool,
}

/// The file whose blocks are being listed.
struct OpenFile {
    path: String,
    in_file: String,
    line: u64,
    n_blocks: u64,
    n_listed: u64,
    is_taken: bool,
    corrupt: HashSet<String>,
}

impl Listing<'_> {
    fn line(&mut self, place: &Place<'_>, line: &str) -> Result<(), InputError> {
        if let Some(header) = Header::parse(line) {
            return self.begin_file(place, &header);
        }
        if let Some(block) = Block::parse(line) {
            return self.block(place, &block);
        }
        if let (Some(id), Some(file)) = (corrupt_block(line), &mut self.file) {
            file.corrupt.insert(id.to_owned());
        }
        if line.starts_with("Fsck on path ") || line.starts_with("Path '") && line.ends_with("does not exist")
        {
            return Err(place.error(format!("fsck failed: {line}; fix that and {REMEDY} again")));
        }
        self.has_summary |= line.trim_start().starts_with("Status: ");
        Ok(())
    }

    fn begin_file(&mut self, place: &Place<'_>, header: &Header<'_>) -> Result<(), InputError> {
        self.end_file()?;
        self.n_files += 1;
        let path = header.path;
        let why_not = if header.is_erasure_coded {
            Some(Kind::ErasureCoded)
        } else if header.is_open {
            Some(Kind::OpenFile)
        } else if !self.with_snapshots && path.split('/').any(|part| part == ".snapshot") {
            Some(Kind::Snapshot)
        } else if header.n_blocks == 0 {
            Some(Kind::EmptyFile)
        } else {
            None
        };
        why_not.iter().for_each(|&kind| self.into.remarks.note(kind, place, path));
        self.file = Some(OpenFile {
            path: path.to_owned(),
            in_file: place.file.to_owned(),
            line: place.line,
            n_blocks: header.n_blocks,
            n_listed: 0,
            is_taken: why_not.is_none(),
            corrupt: HashSet::new(),
        });
        Ok(())
    }

    /// Refuses a file with fewer blocks than it should have.
    fn end_file(&mut self) -> Result<(), InputError> {
        let Some(file) = self.file.take().filter(|file| file.is_taken && file.n_listed != file.n_blocks)
        else {
            return Ok(());
        };
        let (n_blocks, n_listed) = (file.n_blocks, file.n_listed);
        let message = match n_listed {
            0 => format!("the blocks of this file are not listed; {REMEDY}"),
            _ => {
                format!(
                    "this file has {n_blocks} blocks, but {n_listed} are listed; check that the output is complete"
                )
            }
        };
        Err(InputError::new(&file.in_file, file.line, message))
    }

    fn block(&mut self, place: &Place<'_>, block: &Block<'_>) -> Result<(), InputError> {
        let Some(file) = &mut self.file else {
            return Err(place.error(format!("there is a block without a file; {REMEDY}")));
        };
        file.n_listed += 1;
        if !file.is_taken {
            return Ok(());
        }
        let name = format!("{}#{}", file.path, block.index);
        if file.corrupt.contains(block.id) {
            self.into.remarks.note(Kind::CorruptBlock, place, name);
            return Ok(());
        }
        if block.tail.contains("MISSING!") {
            self.into.remarks.note(Kind::MissingBlock, place, name);
            return Ok(());
        }
        let bytes = numbers::whole(block.len, "length").map_err(|e| place.error(e))?;
        let locations = locations(block.tail).map_err(|e| place.error(e))?;
        if locations.iter().any(|location| location.is_striped) {
            self.into.remarks.note(Kind::ErasureCoded, place, name);
            return Ok(());
        }
        let (unusable, usable): (Vec<_>, Vec<_>) = locations.into_iter().partition(|l| l.is_unusable);
        unusable.iter().for_each(|l| self.into.remarks.note(Kind::UnusableReplica, place, l.server));
        if usable.is_empty() {
            self.into.remarks.note(Kind::MissingBlock, place, name);
            return Ok(());
        }
        let replicas: Vec<&str> = usable.iter().map(|location| location.server).collect();
        let chunk = Chunk { name: &name, bytes, replicas: &replicas, client: None };
        self.into.add(&chunk).map_err(|e| place.error(e))?;
        usable.iter().try_for_each(|l| self.into.set_host(l.server, &l.host())).map_err(|e| place.error(e))
    }
}

/// The line above the blocks of a file. Paths may contain spaces, and may even look like the rest of the line.
struct Header<'a> {
    path: &'a str,
    n_blocks: u64,
    is_open: bool,
    is_erasure_coded: bool,
}

impl<'a> Header<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let (head, tail) = line.rsplit_once(" block(s)").filter(|_| line.starts_with('/'))?;
        let is_open = tail.starts_with(", OPENFORWRITE:");
        if !is_open && !tail.starts_with(':') {
            return None;
        }
        let (head, n_blocks) = head.rsplit_once(", ")?;
        // Hadoop 3 prints the redundancy after the size.
        let (head, redundancy) = match head.strip_suffix(" bytes") {
            Some(head) => (head, ""),
            None => head.rsplit_once(" bytes, ")?,
        };
        let (path, len) = head.rsplit_once(' ')?;
        len.parse::<u64>().ok()?;
        let is_erasure_coded = redundancy.starts_with("erasure-coded");
        Some(Self { path, n_blocks: n_blocks.parse().ok()?, is_open, is_erasure_coded })
    }
}

/// The line of a block: `0. BP-…:blk_1073741825_1001 len=134217728 Live_repl=3  […]`.
struct Block<'a> {
    index: &'a str,
    /// `blk_1073741825`, without the generation.
    id: &'a str,
    len: &'a str,
    tail: &'a str,
}

impl<'a> Block<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let (index, rest) = line.split_once(". ")?;
        index.parse::<u64>().ok()?;
        let (name, rest) = rest.split_once(" len=")?;
        let id = &name[name.rfind("blk_")?..];
        let id = id.rsplit_once('_').map(|(id, _)| id).filter(|id| *id != "blk").unwrap_or(id);
        let (len, tail) = rest.split_once(' ').unwrap_or((rest, ""));
        Some(Self { index, id, len, tail })
    }
}

/// The id in `/path: CORRUPT blockpool BP-… block blk_1073741825`.
fn corrupt_block(line: &str) -> Option<&str> {
    let (_, what) = line.split_once(": CORRUPT blockpool ")?;
    what.rsplit(' ').next()
}

/// A datanode that has a replica.
struct Location<'a> {
    rack: &'a str,
    server: &'a str,
    is_unusable: bool,
    /// The datanode has one of the internal blocks of an erasure-coded group.
    is_striped: bool,
}

impl Location<'_> {
    /// `/rack/host`, or `host` if racks are not shown.
    fn host(&self) -> String {
        let host = self.server.rsplit_once(':').map_or(self.server, |(host, _)| host);
        format!("{}{host}", self.rack)
    }
}

/// The datanodes between brackets, each as `DatanodeInfoWithStorage[host:port,storage,type]`, as `host:port`, or with
/// `-racks` as `/rack/host:port`. Each may be followed, in parentheses, by what `-replicaDetails` says.
fn locations(tail: &str) -> Result<Vec<Location<'_>>, String> {
    const WITH_STORAGE: &str = "DatanodeInfoWithStorage[";
    let odd = || format!("the locations of the block are malformed; {REMEDY}");
    let Some((_, list)) = tail.split_once('[') else {
        return Err(format!("the locations of the block are not listed; {REMEDY}"));
    };
    let mut rest = list.trim_end().strip_suffix(']').ok_or_else(odd)?.trim();
    let mut found = Vec::new();
    while !rest.is_empty() {
        let striped = rest.strip_prefix("blk_").and_then(|internal| internal.split_once(':'));
        rest = striped.map_or(rest, |(_, rest)| rest);
        let address;
        if let Some(inside) = rest.strip_prefix(WITH_STORAGE) {
            let (node, behind) = inside.split_once(']').ok_or_else(odd)?;
            (address, rest) = (node.split(',').next().unwrap_or(node), behind);
        } else {
            let end = rest.find([',', '(']).unwrap_or(rest.len());
            (address, rest) = rest.split_at(end);
        }
        let mut is_unusable = false;
        while let Some(inside) = rest.strip_prefix('(') {
            let (state, behind) = inside.split_once(')').ok_or_else(odd)?;
            is_unusable |= UNUSABLE.contains(&state);
            rest = behind;
        }
        rest = match rest.strip_prefix(',') {
            Some(next) => next.trim_start(),
            None if rest.is_empty() => rest,
            None => return Err(odd()),
        };
        let (rack, server) =
            address.trim().rfind('/').map_or(("", address.trim()), |at| address.trim().split_at(at + 1));
        if server.is_empty() {
            return Err(odd());
        }
        found.push(Location { rack, server, is_unusable, is_striped: striped.is_some() });
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_all_versions() {
        for (line, expected) in [
            ("/a 5 bytes, 1 block(s):  OK", ("/a", 1, false, false)),
            ("/a b 5 bytes, replicated: replication=3, 2 block(s):  OK", ("/a b", 2, false, false)),
            ("/a 5 bytes, erasure-coded: policy=RS-6-3-1024k, 1 block(s): ", ("/a", 1, false, true)),
            ("/a 5 bytes, 1 block(s), OPENFORWRITE: ", ("/a", 1, true, false)),
            (
                "/x 7 bytes, 3 block(s): y 0 bytes, 0 block(s):  OK",
                ("/x 7 bytes, 3 block(s): y", 0, false, false),
            ),
            (
                "/a 5 bytes, 1 block(s):  Under replicated BP-1:blk_1_1. Target Replicas is 3",
                ("/a", 1, false, false),
            ),
        ] {
            let found = Header::parse(line).unwrap();
            assert_eq!(
                (found.path, found.n_blocks, found.is_open, found.is_erasure_coded),
                expected,
                "{line}"
            );
        }
        for line in [
            "/a <dir>",
            "Status: HEALTHY",
            "/a: CORRUPT blockpool BP-1 block blk_1",
            "/a x bytes, 1 block(s):",
        ] {
            assert!(Header::parse(line).is_none(), "{line}");
        }
    }

    #[test]
    fn locations_of_all_versions() {
        let servers = |tail| {
            let found = locations(tail)?;
            let told = found.iter().map(|l| format!("{} {} {}", l.server, l.host(), l.is_unusable));
            Ok::<_, String>(told.collect::<Vec<_>>())
        };
        for tail in [
            "repl=2 [h1:50010, h2:50010]",
            " Live_repl=2  [DatanodeInfoWithStorage[h1:50010,DS-1,DISK], h2:50010]",
        ] {
            assert_eq!(servers(tail).unwrap(), ["h1:50010 h1 false", "h2:50010 h2 false"]);
        }
        assert_eq!(
            servers("Live_repl=2  [/dc/r1/h1:1(LIVE), /dc/r2/h2:1(ud=x)(IN MAINTENANCE)]").unwrap(),
            ["h1:1 /dc/r1/h1 false", "h2:1 /dc/r2/h2 true"]
        );
        assert_eq!(servers("Live_repl=0  []").unwrap(), [""; 0]);
        assert!(
            locations("Live_repl=1  [blk_-1:DatanodeInfoWithStorage[h:1,D,DISK]]").unwrap()[0].is_striped
        );
        for tail in
            ["Live_repl=1", "[h:1", "[DatanodeInfoWithStorage[h:1", "[h:1(LIVE]", "[h:1(LIVE)x]", "[/r/]"]
        {
            assert!(locations(tail).is_err(), "{tail}");
        }
    }

    #[test]
    fn ids_have_no_generation() {
        let id = |line| Block::parse(line).map(|block| (block.index, block.id, block.len));
        assert_eq!(id("12. BP-1:blk_-5_1001 len=7 repl=1"), Some(("12", "blk_-5", "7")));
        assert_eq!(id("0. blk_5_1001 len=7"), Some(("0", "blk_5", "7")));
        assert_eq!(id("0. blk_5 len=7 MISSING!"), Some(("0", "blk_5", "7")));
        assert_eq!(id("a. blk_5 len=7"), None);
    }
}
