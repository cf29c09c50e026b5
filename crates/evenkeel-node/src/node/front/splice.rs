//! What an object consists of after a write into it, by the core's redirect table.

use std::ops::Range;

use evenkeel::model::MemberId;
use evenkeel::redirect::{Extent, Piece, Redirect, RedirectTable, Version};

/// The table's default server: what is under the object's own name, or nothing.
const OWN: MemberId = MemberId(0);
/// Whoever holds pieces. The table need not know who.
const HOLDER: MemberId = MemberId(1);

/// A part of an object after a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// So many bytes that no piece has: those of the object itself, or zeros.
    Own(Range<u64>),
    /// A part of a piece that was there.
    Kept(usize, Range<u64>),
    /// A new piece.
    New(usize),
}

/// An object has pieces of these sizes, of which some are holes; new ones are written at these offsets, which do not overlap.
/// `None` if the sizes are impossible.
pub(super) fn spliced(old: &[(u64, bool)], own_bytes: u64, new: &[(u64, u64)]) -> Option<Vec<Part>> {
    let n_old = old.len() as u64;
    let mut table = RedirectTable::resume(OWN, Version(n_old)).ok()?;
    let (mut end, mut starts) = (0, Vec::with_capacity(old.len()));
    for (&(bytes, is_hole), version) in old.iter().zip(1..) {
        let extent = Extent::new(end, bytes).ok()?;
        starts.push(end);
        end = extent.end();
        if !is_hole {
            table.restore(&(), Redirect { extent, server: HOLDER, version: Version(version) }).ok()?;
        }
    }
    end = end.max(own_bytes);
    for &(offset, bytes) in new {
        let extent = Extent::new(offset, bytes).ok()?;
        end = end.max(extent.end());
        table.wrote(&(), extent, HOLDER);
    }
    let pieces = table.lookup(&(), Extent::new(0, end).ok()?);
    let part = |piece: Piece| match piece {
        Piece::Home(extent) => Some(Part::Own(extent.start()..extent.end())),
        Piece::Away(Redirect { extent, version, .. }) => {
            if let Some(new) = version.0.checked_sub(n_old + 1) {
                return Some(Part::New(usize::try_from(new).ok()?));
            }
            let piece = usize::try_from(version.0.checked_sub(1)?).ok()?;
            let start = *starts.get(piece)?;
            Some(Part::Kept(piece, extent.start() - start..extent.end() - start))
        }
    };
    pieces.into_iter().map(part).collect()
}

#[cfg(test)]
mod tests {
    use evenkeel::draw::{Draw, Seeded};

    use super::*;

    #[test]
    fn writes_cut_what_they_overlap() {
        let old = [(4, false), (4, true), (4, false)];
        let parts = spliced(&old, 0, &[(2, 4), (14, 1)]).unwrap();
        let expected = [
            Part::Kept(0, 0..2),
            Part::New(0),
            Part::Own(6..8),
            Part::Kept(2, 0..4),
            Part::Own(12..14),
            Part::New(1),
        ];
        assert_eq!(parts, expected);
        assert_eq!(spliced(&[], 10, &[(3, 4)]).unwrap(), [Part::Own(0..3), Part::New(0), Part::Own(7..10)]);
        assert_eq!(spliced(&[(u64::MAX, false), (1, false)], 0, &[]), None);
    }

    /// Against bytes: each byte says who has written it last.
    #[test]
    fn every_byte_is_that_of_its_last_write() {
        for seed in 0..300 {
            let mut draw = Seeded::new(seed);
            let mut number = |below: u32| u64::from(draw.below(below));
            // 0 is nobody, then the old pieces, then the new ones.
            let old: Vec<(u64, bool)> = (0..number(6)).map(|_| (1 + number(9), number(4) == 0)).collect();
            let mut model: Vec<u64> = Vec::new();
            for (&(bytes, is_hole), name) in old.iter().zip(1..) {
                model.extend((0..bytes).map(|_| if is_hole { 0 } else { name }));
            }
            let (mut new, mut at) = (Vec::new(), 0);
            for name in 0..=number(4) {
                let (offset, bytes) = (at + number(12), 1 + number(9));
                at = offset + bytes;
                model.resize(model.len().max(at as usize), 0);
                model[offset as usize..at as usize].fill(old.len() as u64 + 1 + name);
                new.push((offset, bytes));
            }
            let mut got = Vec::new();
            for part in spliced(&old, 0, &new).unwrap() {
                let (name, range) = match part {
                    Part::Own(range) => (0, range),
                    Part::Kept(piece, range) => (piece as u64 + 1, range),
                    Part::New(piece) => (old.len() as u64 + 1 + piece as u64, 0..new[piece].1),
                };
                got.extend(range.map(|_| name));
            }
            assert_eq!(got, model, "seed {seed}");
        }
    }
}
