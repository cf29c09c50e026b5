//! Lists from which items are removed for good.

/// Lists of items, flat. A walk over a list drops the items that are gone, so that no later walk meets them.
#[derive(Debug)]
pub(crate) struct Shrinking {
    items: Vec<u32>,
    /// For each place, the next place that may still be there.
    next: Vec<u32>,
    /// For each list, its first place that may still be there, and its end.
    lists: Vec<[u32; 2]>,
}

impl Shrinking {
    /// Lists with these ends, one after the other.
    pub(crate) fn new(items: Vec<u32>, ends: impl Iterator<Item = u32>) -> Self {
        let next = (1..=items.len() as u32).collect();
        let lists = ends.scan(0, |start, end| Some([std::mem::replace(start, end), end])).collect();
        Self { items, next, lists }
    }

    /// For each list, the items that it is paired with, in order.
    pub(crate) fn transposed(n_lists: usize, pairs: impl Iterator<Item = (u32, u32)> + Clone) -> Self {
        let (items, ends) = transposed(n_lists, pairs);
        Self::new(items, ends.into_iter())
    }

    /// The first wanted item of a list, checking at most `most` items that are not gone.
    #[inline]
    pub(crate) fn find(
        &mut self,
        list: u32,
        most: usize,
        is_gone: impl Fn(u32) -> bool,
        mut is_wanted: impl FnMut(u32) -> bool,
    ) -> Option<u32> {
        let [mut at, end] = self.lists[list as usize];
        let (mut before, mut n_seen) = (None::<u32>, 0);
        while at < end && n_seen < most {
            let (item, next) = (self.items[at as usize], self.next[at as usize]);
            if is_gone(item) {
                match before {
                    Some(before) => self.next[before as usize] = next,
                    None => self.lists[list as usize][0] = next,
                }
            } else if is_wanted(item) {
                return Some(item);
            } else {
                n_seen += 1;
                before = Some(at);
            }
            at = next;
        }
        None
    }

    /// Whether all items that were passed in walks are gone.
    pub(crate) fn is_known_to_be_empty(&self, list: u32) -> bool {
        let [first, end] = self.lists[list as usize];
        first == end
    }
}

/// Turns pairs of an item and a list into concatenated lists of items, with the end of each.
pub(super) fn transposed(
    n_lists: usize,
    pairs: impl Iterator<Item = (u32, u32)> + Clone,
) -> (Vec<u32>, Vec<u32>) {
    let mut ends = vec![0_u32; n_lists];
    pairs.clone().for_each(|(_, list)| ends[list as usize] += 1);
    let n = ends.iter_mut().fold(0, |start, n| start + std::mem::replace(n, start));
    let mut items = vec![0; n as usize];
    for (item, list) in pairs {
        let end = &mut ends[list as usize];
        items[*end as usize] = item;
        *end += 1;
    }
    (items, ends)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_gone_is_not_met_again() {
        let mut lists = Shrinking::new(vec![5, 6, 7, 8, 6], [4, 5].into_iter());
        assert_eq!(lists.find(0, 9, |item| item < 7, |_| true), Some(7));
        // Nothing is gone any more, but 5 and 6 are forgotten in this list.
        assert_eq!(lists.find(0, 9, |_| false, |_| true), Some(7));
        assert_eq!(lists.find(1, 9, |_| false, |_| true), Some(6));
        assert_eq!(lists.find(0, 1, |_| false, |item| item == 8), None, "it looks at one only");
        assert_eq!(lists.find(0, 2, |_| false, |item| item == 8), Some(8));
        assert!(!lists.is_known_to_be_empty(0));
        assert_eq!(lists.find(0, 9, |_| true, |_| true), None);
        assert!(lists.is_known_to_be_empty(0));
    }
}
