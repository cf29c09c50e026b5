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

    /// The bytes of `0..bytes` that are not in the set, as ranges.
    pub(super) fn missing(&self, bytes: u64) -> Vec<Range<u64>> {
        let mut missing = Vec::new();
        let mut at = 0;
        for (&start, &end) in &self.ends {
            if start > at {
                missing.push(at..start.min(bytes));
            }
            at = at.max(end);
        }
        if at < bytes {
            missing.push(at..bytes);
        }
        missing.retain(|range| !range.is_empty());
        missing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_like_a_set_of_bytes() {
        // Every sequence of three ranges within eight bytes.
        let all: Vec<Range<u64>> = (0..8).flat_map(|a| (a..=8).map(move |b| a..b)).collect();
        for a in &all {
            for b in &all {
                for c in &all {
                    let mut ranges = Ranges::default();
                    [a, b, c].into_iter().for_each(|range| ranges.insert(range.clone()));
                    let missing = ranges.missing(8);
                    for byte in 0..8 {
                        let is_there = [a, b, c].iter().any(|range| range.contains(&byte));
                        let n_missing = missing.iter().filter(|range| range.contains(&byte)).count();
                        assert_eq!(n_missing, usize::from(!is_there), "{a:?} {b:?} {c:?}");
                    }
                    assert!(missing.windows(2).all(|pair| pair[0].end < pair[1].start));
                }
            }
        }
    }
}
