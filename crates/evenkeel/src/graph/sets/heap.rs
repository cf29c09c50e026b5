//! A heap of numbered items whose keys can change.

const ABSENT: u32 = u32::MAX;

/// A binary heap, smallest key first, that knows where each item is. Items are small numbers.
///
/// Among equal keys any item may be first; a key that ends with the item's number breaks ties.
#[derive(Clone, Debug)]
pub struct Heap<K> {
    nodes: Vec<(K, u32)>,
    /// Position of each item in `nodes`.
    places: Vec<u32>,
}

impl<K> Default for Heap<K> {
    fn default() -> Self {
        Self { nodes: Vec::new(), places: Vec::new() }
    }
}

impl<K: Copy + PartialOrd> Heap<K> {
    /// Whether an item is present.
    pub fn contains(&self, item: u32) -> bool {
        self.place(item).is_some()
    }

    /// The smallest key and its item.
    pub fn first(&self) -> Option<(K, u32)> {
        self.nodes.first().copied()
    }

    /// Removes the item with the smallest key.
    pub fn pop(&mut self) -> Option<(K, u32)> {
        let first = self.first()?;
        self.remove(first.1);
        Some(first)
    }

    /// Inserts the item, or changes its key.
    pub fn set(&mut self, item: u32, key: K) {
        if let Some(place) = self.place(item) {
            return self.replace(place, (key, item));
        }
        if self.places.len() <= item as usize {
            self.places.resize(item as usize + 1, ABSENT);
        }
        self.nodes.push((key, item));
        self.rise(self.nodes.len() - 1, (key, item));
    }

    /// Removes the item if it is present.
    pub fn remove(&mut self, item: u32) {
        let Some(place) = self.place(item) else { return };
        self.places[item as usize] = ABSENT;
        if let Some(last) = self.nodes.pop()
            && last.1 != item
        {
            self.replace(place, last);
        }
    }

    fn place(&self, item: u32) -> Option<usize> {
        self.places.get(item as usize).filter(|&&place| place != ABSENT).map(|&place| place as usize)
    }

    /// Puts `node` at or near `place`, whose own node is gone.
    fn replace(&mut self, place: usize, node: (K, u32)) {
        if place > 0 && node.0 < self.nodes[(place - 1) / 2].0 {
            self.rise(place, node);
        } else {
            self.sink(place, node);
        }
    }

    fn rise(&mut self, mut place: usize, node: (K, u32)) {
        while place > 0 {
            let parent = (place - 1) / 2;
            if self.nodes[parent].0 <= node.0 {
                break;
            }
            self.put(place, self.nodes[parent]);
            place = parent;
        }
        self.put(place, node);
    }

    fn sink(&mut self, mut place: usize, node: (K, u32)) {
        loop {
            let mut child = 2 * place + 1;
            if child >= self.nodes.len() {
                break;
            }
            if child + 1 < self.nodes.len() && self.nodes[child + 1].0 < self.nodes[child].0 {
                child += 1;
            }
            if node.0 <= self.nodes[child].0 {
                break;
            }
            self.put(place, self.nodes[child]);
            place = child;
        }
        self.put(place, node);
    }

    fn put(&mut self, place: usize, node: (K, u32)) {
        self.nodes[place] = node;
        self.places[node.1 as usize] = place as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::{Draw, Seeded};

    /// Random changes of keys give the same first item as a search through all keys.
    #[test]
    fn the_smallest_is_first() {
        const N_ITEMS: u32 = 20;
        let (mut draw, mut heap, mut keys) = (Seeded::new(1), Heap::default(), [None; N_ITEMS as usize]);
        for _ in 0..10_000 {
            let item = draw.below(N_ITEMS);
            keys[item as usize] = (draw.below(3) > 0).then(|| (draw.below(9), item));
            match keys[item as usize] {
                Some(key) => heap.set(item, key),
                None => heap.remove(item),
            }
            assert_eq!(heap.first().map(|(key, _)| key), keys.iter().copied().flatten().min());
            assert_eq!(heap.contains(item), keys[item as usize].is_some());
        }
    }
}
