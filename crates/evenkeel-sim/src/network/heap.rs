//! A heap whose items are dense numbers and whose keys can change.

const ABSENT: u32 = u32::MAX;

/// A binary heap, smallest key first, that knows the position of each item.
#[derive(Debug, Clone)]
pub(super) struct Heap<K> {
    nodes: Vec<(K, u32)>,
    /// Position of each item in `nodes`.
    places: Vec<u32>,
}

impl<K: Copy + PartialOrd> Heap<K> {
    pub(super) fn new() -> Self {
        Self { nodes: Vec::new(), places: Vec::new() }
    }

    pub(super) fn first(&self) -> Option<(K, u32)> {
        self.nodes.first().copied()
    }

    /// Inserts the item, or changes its key.
    pub(super) fn set(&mut self, item: u32, key: K) {
        if self.places.len() <= item as usize {
            self.places.resize(item as usize + 1, ABSENT);
        }
        match self.places[item as usize] {
            ABSENT => {
                self.nodes.push((key, item));
                self.rise(self.nodes.len() - 1, (key, item));
            }
            place => self.replace(place as usize, (key, item)),
        }
    }

    /// Removes the item if it is present.
    pub(super) fn remove(&mut self, item: u32) {
        let place = self.places.get(item as usize).copied().unwrap_or(ABSENT);
        if place == ABSENT {
            return;
        }
        self.places[item as usize] = ABSENT;
        if let Some(last) = self.nodes.pop()
            && last.1 != item
        {
            self.replace(place as usize, last);
        }
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
