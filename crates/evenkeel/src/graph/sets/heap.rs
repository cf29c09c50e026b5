//! A heap of numbered items whose keys may decrease.

/// The item with the lowest key is on top; among equal keys, the one with the lowest number.
#[derive(Debug)]
pub(crate) struct Heap {
    entries: Vec<(u64, u32)>,
    /// Where each item is in the heap.
    places: Vec<u32>,
}

const NOWHERE: u32 = u32::MAX;

impl Heap {
    /// A heap of keys by number, without those that are not wanted.
    pub(crate) fn new(keys: impl ExactSizeIterator<Item = u64>, is_wanted: impl Fn(u64) -> bool) -> Self {
        let mut places = vec![NOWHERE; keys.len()];
        let mut entries: Vec<(u64, u32)> = keys.zip(0..).filter(|&(key, _)| is_wanted(key)).collect();
        // A sorted list is a heap too.
        entries.sort_unstable();
        (0..).zip(&entries).for_each(|(place, &(_, item))| places[item as usize] = place);
        Self { entries, places }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Removes the top and returns its key and number.
    pub(crate) fn pop(&mut self) -> Option<(u64, u32)> {
        let last = self.entries.pop()?;
        self.places[last.1 as usize] = NOWHERE;
        let Some(&top) = self.entries.first() else { return Some(last) };
        self.places[top.1 as usize] = NOWHERE;
        let mut at = 0;
        loop {
            let children = 2 * at + 1..(2 * at + 3).min(self.entries.len());
            match children.min_by_key(|&child| self.entries[child]) {
                Some(child) if self.entries[child] < last => {
                    self.put(at, self.entries[child]);
                    at = child;
                }
                _ => break,
            }
        }
        self.put(at, last);
        Some(top)
    }

    /// Lowers the key of an item, if it is still in the heap.
    #[inline]
    pub(crate) fn lower(&mut self, item: u32, key: u64) {
        let place = self.places[item as usize];
        if place == NOWHERE {
            return;
        }
        let mut at = place as usize;
        let entry = (key, item);
        while at > 0 && entry < self.entries[(at - 1) / 2] {
            self.put(at, self.entries[(at - 1) / 2]);
            at = (at - 1) / 2;
        }
        self.put(at, entry);
    }

    #[inline]
    fn put(&mut self, at: usize, entry: (u64, u32)) {
        self.entries[at] = entry;
        self.places[entry.1 as usize] = at as u32;
    }
}
