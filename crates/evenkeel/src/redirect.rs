//! The redirect table of a default server (paper 004): which bytes of its objects are at other servers.
//!
//! **At any time exactly one location is authoritative for each byte**: the server that the table names, or otherwise
//! the default server, its home. Extents of an object never overlap, so the table names at most one server.
//!
//! The following order of steps keeps this true for the data as well:
//! * *A write elsewhere*: store the data at the server, then call [`RedirectTable::wrote`], then acknowledge, then
//!   delete what became stale. A write at home is the same.
//! * *A move home*: copy the data **beside** what is at home, then call [`RedirectTable::compare_and_remove`]. Only if
//!   that succeeds does the copy take its place, in the same step, and the source may be deleted. If put in place any
//!   earlier, the copy would replace what was written at home in the meantime.
//! * *A deletion* names a version. A server deletes only what is known to be of that version or an older one, so that a
//!   late deletion cannot remove a later write.
//!
//! ```
//! use evenkeel::model::MemberId;
//! use evenkeel::redirect::{Extent, Piece, RedirectTable};
//!
//! let (home, other) = (MemberId(0), MemberId(1));
//! let mut table = RedirectTable::new(home);
//! table.wrote(&"log", Extent::new(0, 100)?, other);
//! table.wrote(&"log", Extent::new(60, 10)?, home);
//! let pieces = table.lookup(&"log", Extent::new(50, 30)?);
//! assert_eq!(pieces.iter().map(|piece| piece.extent().bytes()).collect::<Vec<_>>(), [10, 10, 10]);
//! // The maintainer has copied the first piece home.
//! if let Piece::Away(read) = pieces[0] {
//!     table.compare_and_remove(&"log", read)?;
//! }
//! assert_eq!(table.bytes(), 80);
//! let again = RedirectTable::restore_all(table.snapshot())?;
//! assert_eq!(again.lookup(&"log", Extent::ALL), table.lookup(&"log", Extent::ALL));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::collections::BTreeMap;
use std::ops::Bound;

use crate::model::{BadSnapshot, MemberId, SNAPSHOT_VERSION};

/// A contiguous range of bytes of an object, possibly empty. An object has at most `u64::MAX` bytes, so its last byte
/// is at most number `u64::MAX - 1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Extent {
    start: u64,
    end: u64,
}

/// An extent would end beyond the largest possible object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{bytes} bytes from offset {start} end beyond 2^64 - 1, the largest object size; write less")]
pub struct TooLong {
    /// Where it would begin.
    pub start: u64,
    /// How long it would be.
    pub bytes: u64,
}

impl Extent {
    /// All bytes that an object can have.
    pub const ALL: Self = Self { start: 0, end: u64::MAX };

    /// `bytes` bytes from offset `start` on.
    pub fn new(start: u64, bytes: u64) -> Result<Self, TooLong> {
        let end = start.checked_add(bytes).ok_or(TooLong { start, bytes })?;
        Ok(Self { start, end })
    }

    /// The offset of the first byte.
    pub fn start(self) -> u64 {
        self.start
    }

    /// The offset after the last byte.
    pub fn end(self) -> u64 {
        self.end
    }

    /// How many bytes there are.
    pub fn bytes(self) -> u64 {
        self.end - self.start
    }

    /// Whether there are no bytes.
    pub fn is_empty(self) -> bool {
        self.start == self.end
    }

    /// The bytes that are in both, if there are any.
    fn common(self, other: Self) -> Option<Self> {
        let (start, end) = (self.start.max(other.start), self.end.min(other.end));
        (start < end).then_some(Self { start, end })
    }

    /// The bytes before and after those of `other`, which overlaps.
    fn around(self, other: Self) -> impl Iterator<Item = Self> {
        let before = Self { start: self.start, end: other.start.max(self.start) };
        let behind = Self { start: other.end.min(self.end), end: self.end };
        [before, behind].into_iter().filter(|extent| !extent.is_empty())
    }
}

/// The number of a write among all that a table has recorded; later writes have higher numbers. A table that records a
/// write each nanosecond runs out of them after 584 years.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub u64);

/// Bytes that are, or were, at a server other than the default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Redirect {
    /// Which bytes of the object.
    pub extent: Extent,
    /// Where they are.
    pub server: MemberId,
    /// The write that brought them there.
    pub version: Version,
}

/// A piece of the result of a lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece {
    /// At the default server.
    Home(Extent),
    /// At another server.
    Away(Redirect),
}

impl Piece {
    /// The bytes of the object in this piece.
    pub fn extent(self) -> Extent {
        match self {
            Self::Home(extent) => extent,
            Self::Away(redirect) => redirect.extent,
        }
    }
}

/// The result of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrote {
    /// The number of the write.
    pub version: Version,
    /// What the write made stale at servers other than its own, by ascending offset: to be deleted there.
    pub stale: Vec<Redirect>,
}

/// The bytes were written, or moved home, since they were read. The copy made of them is worthless.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the extent has changed since it was read; discard the copy and look it up again")]
pub struct Changed;

/// Saved data that cannot belong to a table. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum BadRow {
    #[error("a redirect goes to server {0}, which is the default server; remove the row")]
    AtHome(u32),
    #[error("version {0} is impossible, as no table sees that many writes; restore an intact table")]
    NoVersionsLeft(u64),
    #[error("version {0} is later than the last version of the table; restore an intact table")]
    TooNew(u64),
    #[error(
        "the row overlaps another one, but only one server can have the last write; restore an intact table"
    )]
    Overlap,
    #[error(
        "version {0} is also that of another object or server, but each version is one write; restore an intact table"
    )]
    NotOneWrite(u64),
}

/// A table as plain data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableSnapshot<O> {
    /// The version of this layout.
    pub version: u32,
    /// The default server.
    pub home: MemberId,
    /// The number of the last write.
    pub last: Version,
    /// Everything that is elsewhere, oldest write first.
    pub rows: Vec<(O, Redirect)>,
}

/// A table cannot be restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum NotRestored {
    #[error(transparent)]
    Snapshot(#[from] BadSnapshot),
    #[error("row {row}: {why}")]
    Row { row: usize, why: BadRow },
    #[error(transparent)]
    Last(#[from] BadRow),
}

/// An extent's entry, keyed by its start.
#[derive(Clone, Copy, Debug)]
struct Entry {
    end: u64,
    server: MemberId,
    version: Version,
}

/// The table of one default server. `O` names objects. Each extent has a clone of the name, so it should be cheap to
/// clone.
///
/// A write cuts whatever it overlaps. Neighbours are one extent only if they have the same server *and* version, that
/// is, come from a single write. If they were merged under a new version for both, an endless series of appends would
/// make every attempt to move the first bytes home fail.
#[derive(Clone, Debug)]
pub struct RedirectTable<O> {
    home: MemberId,
    last: Version,
    /// The extents of each object that has any, which do not overlap and are not empty.
    objects: BTreeMap<O, BTreeMap<u64, Entry>>,
    /// The object of each extent, by its version and start: oldest first.
    by_age: BTreeMap<(Version, u64), O>,
    bytes: u128,
}

impl<O: Ord + Clone> RedirectTable<O> {
    /// The table of a default server that holds everything itself.
    pub fn new(home: MemberId) -> Self {
        let last = Version::default();
        Self { home, last, objects: BTreeMap::new(), by_age: BTreeMap::new(), bytes: 0 }
    }

    /// The table as plain data, to be saved.
    pub fn snapshot(&self) -> TableSnapshot<O> {
        let rows = self.oldest_first(None).map(|(object, row)| (object.clone(), row)).collect();
        TableSnapshot { version: SNAPSHOT_VERSION, home: self.home, last: self.last, rows }
    }

    /// Restores a saved table.
    pub fn restore_all(snapshot: TableSnapshot<O>) -> Result<Self, NotRestored> {
        BadSnapshot::unless_version(snapshot.version)?;
        let mut table = Self::resume(snapshot.home, snapshot.last)?;
        for (row, (object, redirect)) in snapshot.rows.into_iter().enumerate() {
            table.restore(&object, redirect).map_err(|why| NotRestored::Row { row, why })?;
        }
        Ok(table)
    }

    /// A table whose versions continue after `last`. Saved rows are added by [`Self::restore`].
    pub fn resume(home: MemberId, last: Version) -> Result<Self, BadRow> {
        // Nobody gets that far by counting, and half of all numbers are left.
        if last.0 > u64::MAX / 2 {
            Err(BadRow::NoVersionsLeft(last.0))
        } else {
            Ok(Self { last, ..Self::new(home) })
        }
    }

    /// Puts back a row that [`Self::oldest_first`] returned. Adjacent parts of one write become one extent again.
    pub fn restore(&mut self, object: &O, row: Redirect) -> Result<(), BadRow> {
        let Redirect { mut extent, server, version } = row;
        if server == self.home {
            return Err(BadRow::AtHome(server.0));
        }
        if version > self.last {
            return Err(BadRow::TooNew(version.0));
        }
        let entries = self.objects.get(object);
        if overlapping(entries, extent).next().is_some() {
            return Err(BadRow::Overlap);
        }
        let sibling = self.by_age.range((version, 0)..=(version, u64::MAX)).next();
        let is_other = |((_, start), of): (&(Version, u64), &O)| {
            of != object || entries.and_then(|entries| entries.get(start)).is_none_or(|e| e.server != server)
        };
        if sibling.is_some_and(is_other) {
            return Err(BadRow::NotOneWrite(version.0));
        }
        if extent.is_empty() {
            return Ok(());
        }
        let before = entries.and_then(|entries| entries.range(..extent.start).next_back());
        let before = before.map(|(&start, &entry)| (start, entry)).filter(|(_, e)| e.end == extent.start);
        let behind = entries.and_then(|entries| Some((extent.end, *entries.get(&extent.end)?)));
        for (start, entry) in [before, behind].into_iter().flatten().filter(|(_, e)| e.version == version) {
            self.take(object, start);
            extent = Extent { start: extent.start.min(start), end: extent.end.max(entry.end) };
        }
        self.put(object, Redirect { extent, server, version });
        Ok(())
    }

    /// Records that a write has stored these bytes at a server. If that is the default server, they are no longer
    /// redirected. A write of no bytes changes nothing and has the version of the last one.
    pub fn wrote(&mut self, object: &O, extent: Extent, server: MemberId) -> Wrote {
        if extent.is_empty() {
            return Wrote { version: self.last, stale: Vec::new() };
        }
        self.last.0 += 1;
        let mut stale = self.cut(object, extent);
        // What was at the same server has been overwritten in place.
        stale.retain(|old| old.server != server);
        if server != self.home {
            self.put(object, Redirect { extent, server, version: self.last });
        }
        self.drop_if_home(object);
        Wrote { version: self.last, stale }
    }

    /// Where these bytes are: pieces by ascending offset, without gaps. An empty extent has no pieces.
    pub fn lookup(&self, object: &O, extent: Extent) -> Vec<Piece> {
        let mut pieces = Vec::new();
        let mut at = extent.start;
        for redirect in overlapping(self.objects.get(object), extent) {
            let Some(common) = redirect.extent.common(extent) else { continue };
            if at < common.start {
                pieces.push(Piece::Home(Extent { start: at, end: common.start }));
            }
            pieces.push(Piece::Away(Redirect { extent: common, ..redirect }));
            at = common.end;
        }
        if at < extent.end {
            pieces.push(Piece::Home(Extent { start: at, end: extent.end }));
        }
        pieces
    }

    /// Records that the maintainer has copied bytes home which it had looked up as `read`, an extent or a part of one.
    /// They are no longer redirected, unless any of them has changed since; then nothing is done. If there are no
    /// bytes, none has changed.
    pub fn compare_and_remove(&mut self, object: &O, read: Redirect) -> Result<(), Changed> {
        if read.extent.is_empty() {
            return Ok(());
        }
        // Neighbours of one write are one extent, so a single one must have them all.
        let now = overlapping(self.objects.get(object), read.extent).next().ok_or(Changed)?;
        let is_same = (now.server, now.version) == (read.server, read.version);
        if !is_same || now.extent.common(read.extent) != Some(read.extent) {
            return Err(Changed);
        }
        self.cut(object, read.extent);
        self.drop_if_home(object);
        Ok(())
    }

    /// Everything to move home, oldest write first, starting after `after`. What is written again goes to the end, so
    /// bytes in constant use, whose moves would fail, do not hold up the others. Nor does a server that is down, if the
    /// maintainer continues after what it could not move and starts over at the end.
    pub fn oldest_first(&self, after: Option<Redirect>) -> impl Iterator<Item = (&O, Redirect)> {
        let after = after.map(|after| (after.version, after.extent.start));
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.by_age.range((from, Bound::Unbounded)).filter_map(|((_, start), object)| {
            let entry = self.objects.get(object)?.get(start)?;
            Some((object, entry.redirect(*start)))
        })
    }

    /// The default server.
    pub fn home(&self) -> MemberId {
        self.home
    }

    /// The version of the last write.
    pub fn last_version(&self) -> Version {
        self.last
    }

    /// How many objects have bytes elsewhere.
    pub fn n_objects(&self) -> usize {
        self.objects.len()
    }

    /// How many extents are elsewhere.
    pub fn n_extents(&self) -> usize {
        self.by_age.len()
    }

    /// How many bytes are elsewhere.
    pub fn bytes(&self) -> u128 {
        self.bytes
    }

    /// Removes an extent from the table. Returns what there was of it, by ascending offset.
    fn cut(&mut self, object: &O, extent: Extent) -> Vec<Redirect> {
        let found: Vec<Redirect> = overlapping(self.objects.get(object), extent).collect();
        let mut cut = Vec::with_capacity(found.len());
        for whole in found {
            self.take(object, whole.extent.start);
            for rest in whole.extent.around(extent) {
                self.put(object, Redirect { extent: rest, ..whole });
            }
            cut.extend(whole.extent.common(extent).map(|extent| Redirect { extent, ..whole }));
        }
        cut
    }

    fn put(&mut self, object: &O, redirect: Redirect) {
        let Redirect { extent, server, version } = redirect;
        let entry = Entry { end: extent.end, server, version };
        match self.objects.get_mut(object) {
            Some(entries) => _ = entries.insert(extent.start, entry),
            None => _ = self.objects.insert(object.clone(), BTreeMap::from([(extent.start, entry)])),
        }
        self.by_age.insert((version, extent.start), object.clone());
        self.bytes += u128::from(extent.bytes());
    }

    /// Removes the entry at `start`. The object may be left without extents.
    fn take(&mut self, object: &O, start: u64) {
        if let Some(entry) = self.objects.get_mut(object).and_then(|entries| entries.remove(&start)) {
            self.by_age.remove(&(entry.version, start));
            self.bytes -= u128::from(entry.end - start);
        }
    }

    fn drop_if_home(&mut self, object: &O) {
        if self.objects.get(object).is_some_and(BTreeMap::is_empty) {
            self.objects.remove(object);
        }
    }
}

impl Entry {
    fn redirect(self, start: u64) -> Redirect {
        let Self { end, server, version } = self;
        Redirect { extent: Extent { start, end }, server, version }
    }
}

/// All extents, uncut, that overlap `extent`.
fn overlapping(
    entries: Option<&BTreeMap<u64, Entry>>,
    extent: Extent,
) -> impl Iterator<Item = Redirect> + use<'_> {
    let entries = entries.filter(|_| !extent.is_empty()).into_iter();
    entries.flat_map(move |entries| {
        // One that starts earlier may overlap; those before it end earlier still.
        let before = entries.range(..extent.start).next_back();
        let before = before.filter(|(_, entry)| entry.end > extent.start);
        before.into_iter().chain(entries.range(extent.start..extent.end)).map(|(&start, e)| e.redirect(start))
    })
}
