//! What an import left out or changed: counted, with a few examples.

use std::borrow::Cow;

use evenkeel::model::shown;
use serde::Serialize;

use super::Place;

/// How many examples of each kind are named.
const MOST_EXAMPLES: usize = 3;

/// The kinds of remarks about a part of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Kind {
    ErasureCoded,
    MissingBlock,
    CorruptBlock,
    OpenFile,
    EmptyFile,
    Snapshot,
    UnusableReplica,
    DifferentCopy,
    UnverifiedCopy,
    ArchivedCopy,
    OldVersion,
    DeleteMarker,
    ListedTwice,
    NoSize,
    NoMirror,
    UnusableUrl,
    NoPieces,
    NoReplica,
    NoSummary,
}

/// A kind in words.
struct Words {
    name: &'static str,
    what: &'static str,
    why: &'static str,
    is_loss: bool,
}

impl Kind {
    fn words(self) -> Words {
        let (name, what, why, is_loss) = match self {
            Self::ErasureCoded => (
                "erasure-coded",
                "erasure-coded file",
                "left out: a block group is read from several datanodes at once, and a batch has whole copies only",
                true,
            ),
            Self::MissingBlock => {
                ("missing-block", "missing block", "left out: no datanode has a usable replica", true)
            }
            Self::CorruptBlock => (
                "corrupt-block",
                "corrupt block",
                "left out: HDFS says that all its replicas are corrupt",
                true,
            ),
            Self::OpenFile => ("open-file", "open file", "left out: it is still being written", true),
            Self::EmptyFile => ("empty-file", "empty file", "left out: there is nothing to read", false),
            Self::Snapshot => {
                ("snapshot", "snapshot file", "left out: --snapshots takes snapshots too", false)
            }
            Self::UnusableReplica => (
                "unusable-replica",
                "replica",
                "left out: corrupt, in excess, or on a datanode that is decommissioned or in maintenance",
                false,
            ),
            Self::DifferentCopy => (
                "different-copy",
                "copy",
                "left out: size or hash is not that of the first listing with this name",
                true,
            ),
            Self::UnverifiedCopy => (
                "unverified-copy",
                "copy",
                "taken for the same by name and size only: no kind of hash is in both listings",
                false,
            ),
            Self::ArchivedCopy => {
                ("archived-copy", "archived copy", "left out: it cannot be read until it is restored", true)
            }
            Self::OldVersion => ("old-version", "older version", "left out: only the latest is read", false),
            Self::DeleteMarker => {
                ("delete-marker", "delete marker", "left out: the object is deleted", false)
            }
            Self::ListedTwice => ("listed-twice", "object", "listed twice by one server: taken once", false),
            Self::NoSize => ("no-size", "file", "left out: its size is not given", true),
            Self::NoMirror => ("no-mirror", "file", "left out: it has no URL that names a server", true),
            Self::UnusableUrl => ("unusable-url", "URL", "left out: it names no server", false),
            Self::NoPieces => (
                "no-pieces",
                "file",
                "taken whole: it has no hashes of pieces; --split SIZE splits it",
                false,
            ),
            Self::NoReplica => ("no-replica", "row", "left out: it names no server", true),
            Self::NoSummary => {
                ("no-summary", "listing", "without fsck's summary at its end: it may be cut off", true)
            }
        };
        Words { name, what, why, is_loss }
    }

    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        self.words().name
    }

    /// What is counted, in the singular.
    pub fn what(self) -> &'static str {
        self.words().what
    }

    /// What was done with it, and why.
    pub fn why(self) -> &'static str {
        self.words().why
    }

    /// Whether data that may have been meant for the batch is missing from it.
    pub fn is_loss(self) -> bool {
        self.words().is_loss
    }
}

/// Something that a remark is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Example {
    /// Its name.
    pub name: String,
    /// The file.
    pub file: String,
    /// The line, from 1.
    pub line: u64,
}

/// How often something was found, and where it was found first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    /// What was found.
    pub kind: Kind,
    /// How often.
    pub n: u64,
    /// The first few.
    pub examples: Vec<Example>,
}

/// What was found, in the order of first occurrence.
#[derive(Debug, Default)]
pub struct Remarks(Vec<Remark>);

impl Remarks {
    /// Counts one more of a kind.
    pub(super) fn note<'a>(&mut self, kind: Kind, place: &Place<'_>, name: impl Into<Cow<'a, str>>) {
        let known = self.0.iter().position(|remark| remark.kind == kind);
        let at = known.unwrap_or_else(|| {
            self.0.push(Remark { kind, n: 0, examples: Vec::new() });
            self.0.len() - 1
        });
        let remark = &mut self.0[at];
        remark.n += 1;
        if remark.examples.len() < MOST_EXAMPLES {
            let (name, file, line) = (shown(&name.into()), place.file.to_owned(), place.line);
            remark.examples.push(Example { name, file, line });
        }
    }

    /// All remarks.
    pub fn iter(&self) -> impl Iterator<Item = &Remark> {
        self.0.iter()
    }

    /// How many data, or copies of data, may have been meant for the batch and are missing from it.
    pub fn n_lost(&self) -> u64 {
        self.0.iter().filter(|remark| remark.kind.is_loss()).map(|remark| remark.n).sum()
    }
}
