//! A set of bytes, as ranges.

use std::collections::BTreeMap;
use std::ops::Range;

/// Ranges that neither overlap nor touch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Ranges {
    /// The end of each range, by its start.
    ends: BTreeMap<u64, u64>,
}

impl Ranges {
    /// Adds a range.
    pub(super) fn insert(&mut self, mut range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        // Those that overlap or touch it become part of it.
        while let Some((&start, &end)) = self.ends.range(..=range.end).next_back()
            && end >= range.start
        {
            self.ends.remove(&start);
            range = range.start.min(start)..range.end.max(end);
        }
        self.ends.insert(range.start, range.end);
    }

    /// Removes all bytes of a range.
    pub(super) fn remove(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        while let Some((&start, &end)) = self.ends.range(..range.end).next_back()
            && end > range.start
        {
            self.ends.remove(&start);
            let rests = [start..range.start, range.end..end];
            self.ends.extend(rests.into_iter().filter(|rest| !rest.is_empty()).map(|r| (r.start, r.end)));
        }
    }

    /// How many bytes there are from the first on without a gap.
    pub(super) fn prefix(&self) -> u64 {
        self.ends.get(&0).copied().unwrap_or(0)
    }

    /// The bytes of `0..bytes`, but for these ranges, which are in order.
    pub(super) fn all_but(ranges: &[Range<u64>], bytes: u64) -> Self {
        let (mut all, mut at) = (Self::default(), 0);
        for range in ranges {
            all.insert(at..range.start.max(at));
            at = at.max(range.end);
        }
        all.insert(at..bytes.max(at));
        all
    }

    /// The bytes of a range that are not in the set, as ranges.
    pub(super) fn missing_in(&self, range: Range<u64>) -> Vec<Range<u64>> {
        let mut missing = Vec::new();
        let before = self.ends.range(..range.start).next_back();
        let mut at = before.map_or(range.start, |(_, &end)| end.max(range.start));
        for (&start, &end) in self.ends.range(range.clone()) {
            if start > at {
                missing.push(at..start);
            }
            at = end;
        }
        if at < range.end {
            missing.push(at..range.end);
        }
        missing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_is(ranges: &Ranges, is_in: &dyn Fn(&u64) -> bool) {
        for (from, to) in [(0, 8), (2, 6), (3, 3)] {
            let missing = ranges.missing_in(from..to);
            for byte in 0..8 {
                let n_missing = missing.iter().filter(|range| range.contains(&byte)).count();
                let is_missing = (from..to).contains(&byte) && !is_in(&byte);
                assert_eq!(n_missing, usize::from(is_missing), "{byte} of {from}..{to}: {ranges:?}");
            }
            assert!(missing.windows(2).all(|pair| pair[0].end < pair[1].start));
            assert!(missing.iter().all(|range| !range.is_empty()));
        }
    }

    #[test]
    fn ranges_are_like_a_set_of_bytes() {
        // Every sequence of three ranges within eight bytes.
        let all: Vec<Range<u64>> = (0..8).flat_map(|a| (a..=8).map(move |b| a..b)).collect();
        for a in &all {
            for b in &all {
                for c in &all {
                    let mut ranges = Ranges::default();
                    [a, b, c].into_iter().for_each(|range| ranges.insert(range.clone()));
                    let is_in = |byte: &u64| [a, b, c].iter().any(|range| range.contains(byte));
                    assert_is(&ranges, &is_in);
                    assert_eq!(ranges.prefix(), (0..8).take_while(is_in).count() as u64);
                    let mut without = Ranges::default();
                    [a, b].into_iter().for_each(|range| without.insert(range.clone()));
                    without.remove(c.clone());
                    let is_in = |byte: &u64| (a.contains(byte) || b.contains(byte)) && !c.contains(byte);
                    assert_is(&without, &is_in);
                    assert_eq!(without.prefix(), (0..8).take_while(is_in).count() as u64);
                }
            }
        }
    }
}
